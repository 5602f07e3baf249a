/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers: crowds of readers that a write has divided.
 *
 * A layer is a set of *stairs*: disjoint spans, each with all its readers as one node, a reader or
 * a join of several. If more than a few reads span an end of a write, their parts beyond that end
 * are nested, because all of them begin there. They make a staircase: beginning with the read that
 * ends last, each read adds itself to the nearest stair, which is cut where the read ends and whose
 * readers read that part too:
 *
 *     reads    |===========|          stairs   |==|
 *              |==|                            |==|=====|
 *              |========|                      |==|=====|==|
 *           write's end                        3   2     1   readers, each a join of the one to its
 *                                                            right and one more
 *
 * That takes one join for each read, at each end of the write, once. From then on a write within a
 * stair takes one edge for all its readers. Stairs are exact: what a stair stands for reads every
 * byte of it. A write removes the stairs that it covers, and cuts those that it covers at an end. A
 * stair that the write lies within stays as it is: later operations are ordered behind the write,
 * which is ordered behind the stair, so an edge from both adds nothing.
 *
 * *How many layers.* New reads are not part of a layer, and each crowd of them becomes a layer. Two
 * layers of the same class, the binary logarithm of their number of stairs, can be merged: the
 * stairs of the smaller are added to the other's, where overlaps become joins of the two. The
 * result has at most as many ends of stairs as both had, so an end rises by a class each time it is
 * visited, or another end is gone, and all merging together takes O(n log n) for n ends. So when
 * there are more than FRY_LAYERS layers, those that can be merged are; and of layers that cannot,
 * all of different classes, there are at most log n. A write meets that many layers, and in each at
 * most two stairs that it does not remove.
 */
#ifndef FRY_ENGINE_GRAPH_LAYER_H
#define FRY_ENGINE_GRAPH_LAYER_H

#include "engine/graph/buffer.h"
#include "engine/graph/node.h"
#include "engine/graph/segment.h"
#include "engine/graph/turn.h"

#ifndef FRY_LAYERS /* tests use a smaller one */
#define FRY_LAYERS 8
#endif

struct fry_layer {
    struct fry_spans stairs;
    size_t stair_count;
    ferry_buffer *buffer;
    fry_layer *next; /* in buffer->layers */
    fry_layer *into; /* its stairs are being added to this layer */
};

/* Makes a layer of the buffer without stairs, which goes with its last stair. Takes a segment. */
fry_layer *fry_layer_open(fry_turn *turn, ferry_buffer *buffer);

/* Frees the layer if it has no stairs and is not being made. */
void fry_layer_tidy(fry_turn *turn, fry_layer *layer);

/*
 * Makes a reader, or a node that stands for readers, part of the stairs from `begin` on. Returns up
 * to where it does: `end`, or less; `begin`: there is no join, and nothing was done. Takes at most
 * two segments, a join and two edges.
 */
size_t fry_layer_put(fry_turn *turn, fry_layer *layer, fry_node *node, size_t begin, size_t end);

void fry_layer_remove(fry_turn *turn, fry_segment *stair);

/* The first stair that overlaps the span. */
fry_segment *fry_layer_first(const fry_layer *layer, size_t begin, size_t end);

/*
 * Applies a write to a stair that it overlaps; the layer may go. False: the write lies within the
 * stair, and both stay.
 */
bool fry_layer_take(fry_turn *turn, fry_segment *stair, size_t begin, size_t end);

/* A layer that should be merged into another; NULL: none. */
fry_layer *fry_layer_to_merge(ferry_buffer *buffer);

/*
 * Continues merging by a stair, or part of one. Takes as much as fry_layer_put. False: there is no
 * join.
 */
bool fry_layer_merge_some(fry_turn *turn, fry_layer *layer);

#endif
