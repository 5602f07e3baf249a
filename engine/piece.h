/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces: spans of a buffer with who writes them, or a few who all read exactly that span. They do
 * not overlap, and of nearly all accesses they are all there is. With the baton.
 */
#ifndef FRY_ENGINE_PIECE_H
#define FRY_ENGINE_PIECE_H

#include "engine/buffer.h"
#include "engine/node.h"
#include "engine/segment.h"
#include "engine/turn.h"

#ifndef FRY_FEW   /* tests have it smaller */
#define FRY_FEW 8 /* who read a piece at most; the others are reads of their own (crowd.h) */
#endif

/* The first that ends behind `offset`. */
fry_segment *fry_piece_from(const ferry_buffer *buffer, size_t offset);
fry_segment *fry_piece_next(fry_segment *piece);

/* A new one where there is none. Takes a segment. */
void fry_piece_insert(fry_turn *turn, fry_node *writer, ferry_buffer *buffer, size_t begin,
                      size_t end);

/* The same with a segment that was taken before. */
void fry_piece_insert_taken(fry_turn *turn, fry_node *writer, fry_segment *piece);

/* Out of its tree; who is at it is still listed. */
void fry_piece_detach(fry_segment *piece);

/* With those who are at it. */
void fry_piece_remove(fry_turn *turn, fry_segment *piece);

/* Somebody else writes all of it from now on. */
void fry_piece_rewrite(fry_turn *turn, fry_segment *piece, fry_node *writer);

/* Parts it at an offset within. Takes a segment if it is written, one for each reader if not: then
 * those become reads of their own. */
void fry_piece_cut(fry_turn *turn, fry_segment *piece, size_t offset);

/* One more reader of a piece that has some, but not FRY_FEW. Takes a reader. */
void fry_piece_add_reader(fry_turn *turn, fry_segment *piece, fry_node *node);
void fry_piece_remove_reader(fry_turn *turn, fry_reader *reader);

/*
 * Lists an access of bytes where no piece is. Takes a segment, and a reader if it is a read. False:
 * there is one.
 */
bool fry_piece_enter_gap(fry_turn *turn, fry_node *node, const fry_use *use);

/* Lists a node that touches this span, some bytes, and nothing else, if nobody is at them and there
 * is room. False: nothing was done. */
bool fry_piece_enter_alone(fry_turn *turn, fry_node *node, const fry_use *use);

/* Takes a node that ended well out of the one list there is for it. False: there are more. */
bool fry_piece_leave_alone(fry_turn *turn, fry_node *node);

#endif
