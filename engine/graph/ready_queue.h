/* SPDX-License-Identifier: Apache-2.0 */
/*
 * READY operations that wait for the same thing: room in a stream, or the loop to hand them out. A
 * higher priority goes first, and within a priority the first that came; but at most
 * FRY_OVERTAKES_MAX in a row overtake a waiting lower priority. So one in eight is of a lower
 * priority, and nothing starves: the head of LOW sees at most seven others go first, and so does
 * the head of NORMAL, not counting the LOW one whose turn may come too.
 *
 * For one owner, the baton's holder. The items are links of nodes.
 */
#ifndef FRY_ENGINE_GRAPH_READY_QUEUE_H
#define FRY_ENGINE_GRAPH_READY_QUEUE_H

#include "base/stack.h"

#include <ferry/op.h>
#include <stdint.h>

#define FRY_OVERTAKES_MAX 7
#define FRY_RANKS 3 /* LOW, NORMAL, HIGH */

/*
 * The rank that goes next, for whoever keeps lines of another sort; _goes: it does, which counts
 * whom it overtakes.
 *  waiting    a bit for each rank in which something waits; not 0
 *  overtaken  as in fry_ready_queue
 */
int fry_ready_rank_next(unsigned waiting, const uint8_t overtaken[FRY_RANKS]);
void fry_ready_rank_goes(unsigned waiting, uint8_t overtaken[FRY_RANKS], int rank);

typedef struct fry_ready_queue {
    size_t count;
    fry_queue ranks[FRY_RANKS];
    uint8_t overtaken[FRY_RANKS]; /* how many of a higher priority in a row went before this rank's
                                     head */
} fry_ready_queue;

static inline bool fry_ready_queue_is_empty(const fry_ready_queue *queue)
{
    return queue->count == 0;
}

void fry_ready_queue_push(fry_ready_queue *queue, fry_link *item, ferry_priority priority);

/* The next item; the second function takes it out. NULL: none. */
fry_link *fry_ready_queue_next(const fry_ready_queue *queue);
fry_link *fry_ready_queue_pop(fry_ready_queue *queue);

/* Moves all of `from` to the queue's end. */
void fry_ready_queue_append(fry_ready_queue *queue, fry_ready_queue *from);

#endif
