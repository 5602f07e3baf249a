/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums: the writers of the pieces of a part of a buffer's tree, as one node.
 *
 * A read of a span with k writers takes k edges, and n such reads n * k. So a piece may keep the
 * *sum* of its subtree: its writer, or none; for several writers a join of the sums of its two
 * sides and its own writer. The pieces within a span are O(log n) such subtrees, as in any balanced
 * tree, so with sums a read takes that many edges. Sums are made when they are needed, each from
 * the two below it, so below a piece with a sum all pieces have one: *above a piece without a sum
 * there is none*. A change of a subtree, also by a rotation of the tree, discards the sums from
 * there upwards and can stop at the first piece without one: at once, as long as nobody needs sums.
 * So k new or changed pieces cost O(k log n) to sum up again.
 *
 * A sum is as exact as the edges that it replaces: the pieces of a subtree wholly within a read's
 * span overlap the read, and a piece that leaves the tree discards the sums above it.
 *
 * A piece pays for FRY_SUM_SPARE reads with edges of their own before its sum is made. So where one
 * read follows many writes, which is common, there are no joins, and n reads of n pieces still take
 * O(n log n) edges.
 */
#ifndef FRY_ENGINE_GRAPH_SUM_H
#define FRY_ENGINE_GRAPH_SUM_H

#include "engine/graph/node.h"
#include "engine/graph/segment.h"
#include "engine/graph/turn.h"

#ifndef FRY_SUM_SPARE /* tests use a smaller one */
#define FRY_SUM_SPARE 2
#endif

/* The sum of a subtree without writers. */
extern fry_node fry_sum_of_none;

void fry_sum_forget(fry_segment *piece);

/* Discards the sums of the piece and above, because its subtree has changed. */
static inline void fry_sum_changed(fry_segment *piece)
{
    if (fry_unlikely(piece->sum != NULL))
        fry_sum_forget(piece);
}

/*
 * The root of the largest subtree whose first piece is this one and that ends before `end`. NULL:
 * none, because its own subtree has pieces in front of it.
 */
fry_segment *fry_sum_root(fry_segment *piece, size_t end);

/* The piece in this subtree whose sum must be made next; NULL: the root has its sum. */
fry_segment *fry_sum_missing(fry_segment *root);

/* Makes the sum of a piece. Takes at most a join and two edges. False: there is no join. */
bool fry_sum_make(fry_turn *turn, fry_segment *piece);

/* The last piece of a subtree. */
const fry_segment *fry_sum_last(const fry_segment *root);

#endif
