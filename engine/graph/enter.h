/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes enter the graph. With the baton. */
#ifndef FRY_ENGINE_GRAPH_ENTER_H
#define FRY_ENGINE_GRAPH_ENTER_H

#include "engine/graph/turn.h"

typedef enum fry_entry {
    FRY_ARRIVED,
    FRY_ARRIVING, /* it is large: more of it must enter before anything behind it */
    FRY_NO_ROOM,  /* the pools ran dry; only the loop, or a thread that makes room, can go on */
} fry_entry;

/* Takes an item of the inbox: a new node, or one to which something happened outside. */
fry_entry fry_graph_arrive(fry_turn *turn, fry_node *node);

/*
 * Enters a new node that is untracked, and has neither edges nor a deadline: a part of a post,
 * whose `batch` is set and keeps what the node needs. It may be gone afterwards.
 */
void fry_graph_enter_part(fry_turn *turn, fry_node *node);

/*
 * Does a copy without rows at once if it is small and nobody uses its buffers or its stream. It
 * leaves nothing in the graph and needs no node. True: done.
 */
bool fry_graph_copy_at_once(const fry_turn *turn, const fry_lane *lane, const fry_copy_op *copy);

#endif
