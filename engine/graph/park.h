/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting on the device, and parked lanes. With the baton. */
#ifndef FRY_ENGINE_GRAPH_PARK_H
#define FRY_ENGINE_GRAPH_PARK_H

#include "engine/graph/lane.h"

/* What an operation waits for on its device. */
typedef struct fry_waits {
    size_t count;
    fry_event events[FRY_STREAM_WAITS];
    fry_outside_event outside; /* the outside event that it is then behind */
} fry_waits;

/* Whether `to` can wait for `from`, which is ISSUED, on its own device. */
bool fry_lane_can_wait_for(const fry_node *from, const fry_node *to, fry_edge_nature nature);

static inline bool fry_lane_can_overtake(const fry_node *from, const fry_node *to,
                                         fry_edge_nature nature)
{
    return from->state == FRY_NODE_ISSUED && fry_lane_can_wait_for(from, to, nature);
}

/*
 * The lane to which a READY copy is issued, and what it waits for there. NULL: its device can't
 * wait for all of that, and edges hold the copy from now on.
 */
fry_lane *fry_lane_choose(const fry_node *node, fry_waits *waits);

/* Records that a copy was issued to a parked lane instead of `main`. */
void fry_lane_parked(fry_lane *lane, const fry_lane *main, const fry_waits *waits,
                     uint64_t sequence);

/* Puts a READY definition where its last predecessor is. False: all predecessors have ended. */
bool fry_lane_define(fry_node *node);

#endif
