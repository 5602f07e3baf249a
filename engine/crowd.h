/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Crowds: reads that overlap others, in a tree by where they begin in which each knows the greatest
 * end below it. A read is one entry, whatever it overlaps. With the baton.
 *
 * A write has what it overlaps cut at its two ends, is ordered after the parts within, and takes
 * those out. Where no more than FRY_FEW reads span an offset, each is cut in two. Where more do,
 * the parts on the outer side go into a layer (layer.h), in which later writes meet one entry for
 * all of them: so each read is paid for once, not once for each write within it.
 */
#ifndef FRY_ENGINE_CROWD_H
#define FRY_ENGINE_CROWD_H

#include "engine/buffer.h"
#include "engine/node.h"
#include "engine/piece.h"
#include "engine/segment.h"
#include "engine/turn.h"

/* Lists a read. Takes a segment. */
void fry_crowd_add(fry_turn *turn, fry_node *reader, ferry_buffer *buffer, size_t begin,
                   size_t end);

void fry_crowd_remove(fry_turn *turn, fry_segment *read);

/* The reads that span `offset`, at most FRY_FEW + 1 of them. Returns how many. */
size_t fry_crowd_spanning(const ferry_buffer *buffer, size_t offset,
                          fry_segment *found[FRY_FEW + 1]);

/* The reads that overlap a span. SIZE_MAX: some reach beyond it, or they are more than FRY_FEW. */
size_t fry_crowd_within(const ferry_buffer *buffer, size_t begin, size_t end,
                        fry_segment *found[FRY_FEW]);

/* Cuts a read in two. Takes a segment. */
void fry_crowd_cut(fry_turn *turn, fry_segment *read, size_t offset);

/* Of those that span `offset`, the one that ends last, or begins first; NULL: none does. */
fry_segment *fry_crowd_ends_last(const ferry_buffer *buffer, size_t offset);
fry_segment *fry_crowd_begins_first(const ferry_buffer *buffer, size_t offset);

/* What is behind an offset, or in front of it, is not its any more; all of it is: it goes. */
void fry_crowd_end_at(fry_turn *turn, fry_segment *read, size_t offset);
void fry_crowd_begin_at(fry_turn *turn, fry_segment *read, size_t offset);

/* The first that begins at `offset` or behind it; with `last`, the next of those behind that one,
 * which may be gone. */
fry_segment *fry_crowd_from(const ferry_buffer *buffer, size_t offset, const fry_segment *last);

#endif
