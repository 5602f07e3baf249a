/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lists of what is in the graph: operations that are not retired, and unresolved promises, each
 * in program order, with the time at which they entered. With the baton; inline, because every held
 * operation passes here.
 */
#ifndef FRY_ENGINE_GRAPH_LIVE_H
#define FRY_ENGINE_GRAPH_LIVE_H

#include "engine/engine.h"
#include "engine/graph/node.h"
#include "engine/graph/turn.h"

/*
 * Adds to the number of objects in the graph: operations, promises, writers and readers of
 * segments.
 */
static inline void fry_live_load_add(ferry_engine *engine, int64_t count)
{
    fry_store_relaxed(&engine->load, engine->load + count);
}

static inline struct fry_live_list *fry_live_list_of(ferry_engine *engine, const fry_node *node)
{
    return node->kind == FERRY_OP_PROMISE ? &engine->promises : &engine->live;
}

static inline fry_node *fry_live_before(const fry_node *node)
{
    return TAILQ_PREV(node, fry_live_list, live);
}

static inline void fry_live_remove(ferry_engine *engine, fry_node *node)
{
    fry_live_load_add(engine, -1);
    if (fry_unlikely(engine->dump_node == node)) { /* the dump goes on behind it */
        engine->dump_node = TAILQ_NEXT(node, live);
        engine->dump_edge = NULL;
    }
    if (fry_unlikely(engine->cancel_at == node))
        engine->cancel_at = fry_live_before(node);
    TAILQ_REMOVE(fry_live_list_of(engine, node), node, live);
}

/* It has entered: from now on all see it. */
static inline void fry_live_enter(ferry_engine *engine, fry_node *node)
{
    TAILQ_INSERT_TAIL(fry_live_list_of(engine, node), node, live);
    fry_live_load_add(engine, 1);
    node->flags |= FRY_NODE_LIVE;
    fry_store_relaxed(&node->state, FRY_NODE_WAITING);
}

/*
 * Reading the clock takes a twentieth of a held operation's cost, so while many operations come in
 * a tick of the clock only some read it: at most FRY_STAMPS_SPARED in a row skip it, and when one
 * finds that the clock has moved, all read it again. So an operation after a pause, while older
 * operations still exist, may seem as old as those before the pause. With a watchdog, and with a
 * user's clock, every operation reads the clock.
 */
static inline void fry_live_look_at_clock(ferry_engine *engine)
{
    int64_t now_ns = fry_clock_coarse_ns(&engine->clock);
    if (now_ns != engine->stamp_ns || !engine->clock.is_real || engine->watchdog_ns != 0)
        engine->stamps_spared = 0;
    else if (engine->stamps_spared < FRY_STAMPS_SPARED)
        engine->stamps_spared = (uint8_t)(2 * engine->stamps_spared + 1);
    engine->stamps_left = engine->stamps_spared;
    engine->stamp_ns = now_ns != 0 ? now_ns : 1;
}

/*
 * Records when a node that will stay entered: the dump shows its age, and the watchdog watches it.
 * Nodes that resolve while they enter are spared the cost. The first of its list always reads the
 * clock, so that it does not take a time from before a pause.
 */
static inline void fry_live_stamp(fry_turn *turn, fry_node *node)
{
    ferry_engine *engine = turn->engine;
    if (engine->stamps_left == 0 || fry_live_before(node) == NULL)
        fry_live_look_at_clock(engine);
    else
        engine->stamps_left--;
    if (fry_likely(!node->is_timed))
        node->entered_ns = engine->stamp_ns;
    if (fry_unlikely(engine->watchdog_wants_timer))
        turn->wake = true;
}

#endif
