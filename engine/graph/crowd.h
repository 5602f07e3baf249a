/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Crowds: reads that overlap other reads, in a tree by offset in which each entry knows the
 * greatest end below it. A read is one entry, whatever it overlaps. With the baton.
 *
 * A write cuts what it overlaps at its own two ends, is ordered after the parts within, and removes
 * them. If at most FRY_FEW reads span an end, each of them is cut in two. If more do, their parts
 * on the outer side go into a layer (layer.h), where later writes meet one entry for all of them.
 * So each read is paid for once, not once for each write within it.
 */
#ifndef FRY_ENGINE_GRAPH_CROWD_H
#define FRY_ENGINE_GRAPH_CROWD_H

#include "engine/graph/buffer.h"
#include "engine/graph/node.h"
#include "engine/graph/piece.h"
#include "engine/graph/segment.h"
#include "engine/graph/turn.h"

/* Lists a read. Takes a segment. */
void fry_crowd_add(fry_turn *turn, fry_node *reader, ferry_buffer *buffer, size_t begin,
                   size_t end);

void fry_crowd_remove(fry_turn *turn, fry_segment *read);

/* Finds the reads that span `offset`, at most FRY_FEW + 1 of them. Returns their number. */
size_t fry_crowd_spanning(const ferry_buffer *buffer, size_t offset,
                          fry_segment *found[FRY_FEW + 1]);

/*
 * Finds the reads that overlap a span. Returns SIZE_MAX if some reach beyond the span, or there are
 * more than FRY_FEW.
 */
size_t fry_crowd_within(const ferry_buffer *buffer, size_t begin, size_t end,
                        fry_segment *found[FRY_FEW]);

/* Cuts a read in two. Takes a segment. */
void fry_crowd_cut(fry_turn *turn, fry_segment *read, size_t offset);

/* Of the reads that span `offset`, the one that ends last, or begins first; NULL: none spans it. */
fry_segment *fry_crowd_ends_last(const ferry_buffer *buffer, size_t offset);
fry_segment *fry_crowd_begins_first(const ferry_buffer *buffer, size_t offset);

/* Shortens a read: it ends, or begins, at `offset` from now on; an empty read is removed. */
void fry_crowd_end_at(fry_turn *turn, fry_segment *read, size_t offset);
void fry_crowd_begin_at(fry_turn *turn, fry_segment *read, size_t offset);

/*
 * The first read that begins at `offset` or behind it. With `last`, which may be gone: the next of
 * the reads behind that one.
 */
fry_segment *fry_crowd_from(const ferry_buffer *buffer, size_t offset, const fry_segment *last);

#endif
