/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces: disjoint spans of a buffer, each with its writer or a few readers of exactly that span.
 * Nearly all accesses need only pieces. With the baton.
 */
#ifndef FRY_ENGINE_GRAPH_PIECE_H
#define FRY_ENGINE_GRAPH_PIECE_H

#include "engine/graph/buffer.h"
#include "engine/graph/node.h"
#include "engine/graph/segment.h"
#include "engine/graph/turn.h"

#ifndef FRY_FEW   /* tests use a smaller one */
#define FRY_FEW 8 /* readers of a piece at most; others are reads of their own (crowd.h) */
#endif

/* The first piece that ends behind `offset`. */
fry_segment *fry_piece_from(const ferry_buffer *buffer, size_t offset);
fry_segment *fry_piece_next(fry_segment *piece);

/* Adds a piece where there is none. Takes a segment. */
void fry_piece_insert(fry_turn *turn, fry_node *writer, ferry_buffer *buffer, size_t begin,
                      size_t end);

/* The same with a segment taken before. */
void fry_piece_insert_taken(fry_turn *turn, fry_node *writer, fry_segment *piece);

/* Takes a piece out of its tree; its users stay listed. */
void fry_piece_detach(fry_segment *piece);

/* Removes a piece and its users from the lists. */
void fry_piece_remove(fry_turn *turn, fry_segment *piece);

/* Makes `writer` the writer of the whole piece. */
void fry_piece_rewrite(fry_turn *turn, fry_segment *piece, fry_node *writer);

/*
 * Cuts a piece at an offset inside it. Takes a segment if the piece has a writer; else one for each
 * reader, and the readers become reads of their own.
 */
void fry_piece_cut(fry_turn *turn, fry_segment *piece, size_t offset);

/* Adds a reader to a piece that has some but fewer than FRY_FEW. Takes a reader. */
void fry_piece_add_reader(fry_turn *turn, fry_segment *piece, fry_node *node);
void fry_piece_remove_reader(fry_turn *turn, fry_reader *reader);

/*
 * Lists an access of bytes that no piece covers. Takes a segment, and for a read a reader. False: a
 * piece covers some of them.
 */
bool fry_piece_enter_gap(fry_turn *turn, fry_node *node, const fry_use *use);

/*
 * Lists a node that touches only this span, which is not empty, if nobody else uses it and there is
 * room. False: nothing was done.
 */
bool fry_piece_enter_alone(fry_turn *turn, fry_node *node, const fry_use *use);

/* Removes a node that succeeded from the only list it is in. False: it is in more lists. */
bool fry_piece_leave_alone(fry_turn *turn, fry_node *node);

#endif
