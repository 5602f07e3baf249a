/* SPDX-License-Identifier: Apache-2.0 */
/* The promise of room that all callers share: room.c has the argument. */
#include "engine/graph/writable.h"

#include "engine/engine.h"
#include "engine/graph/emit.h"
#include "engine/graph/node.h"
#include "engine/graph/promise.h"
#include "engine/graph/room.h"
#include "engine/graph/turn.h"
#include "engine/ground/context.h"
#include "engine/ground/refusal.h"

static fry_node *take_writable(ferry_engine *engine)
{
    fry_node *node = engine->writable;
    engine->writable = NULL;
    return node;
}

/* Without room_lock. */
static void resolve_writable(fry_node *node)
{
    if (node == NULL)
        return;
    ferry_promise *promise = (ferry_promise *)(void *)node;
    (void)fry_promise_end(promise, FERRY_OK, NULL, NULL); /* fails if it was cancelled */
    ferry_future_release(&node->future);
}

size_t fry_room_look(ferry_engine *engine)
{
    (void)fry_exchange(&engine->room_came, 0);
    fry_node *ready = NULL;
    (void)pthread_mutex_lock(&engine->room_lock);
    if (engine->writable == NULL || fry_future_is_resolved(&engine->writable->future))
        fry_room_stop_wanting(engine); /* cancelled: the next call releases its handle */
    else if (fry_room_find(engine) == FRY_POOL_ROOM)
        ready = take_writable(engine);
    (void)pthread_mutex_unlock(&engine->room_lock);
    resolve_writable(ready);
    return ready != NULL;
}

/*
 * With room_lock: the promise that all share, a new one if the last has resolved; NULL: none is
 * left.
 */
static fry_node *pending_writable(ferry_engine *engine, fry_context *context, fry_node **made_p,
                                  fry_node **old_p)
{
    fry_node *node = engine->writable;
    if (node != NULL && !fry_future_is_resolved(&node->future))
        return node;
    *old_p = take_writable(engine);
    node = fry_node_create_writable(engine, context);
    if (node == NULL)
        return NULL;
    node->label = "writable";
    fry_emit(engine, node, FERRY_TRACE_SUBMITTED, 0);
    engine->writable = node;
    *made_p = node;
    return node;
}

fry_node *fry_writable_get(ferry_engine *engine, fry_context *context, fry_refusal *why_p)
{
    fry_node *node = NULL, *made = NULL, *old = NULL, *ready = NULL;
    (void)pthread_mutex_lock(&engine->room_lock);
    fry_pool_room found = fry_room_find(engine);
    if (found == FRY_POOL_ROOM || found == FRY_POOL_NOT_REFUSED)
        ready = take_writable(engine);
    else if ((node = pending_writable(engine, context, &made, &old)) != NULL)
        (void)ferry_future_retain(&node->future);
    else
        *why_p = FRY_REFUSED_WRITABLES;
    (void)pthread_mutex_unlock(&engine->room_lock);

    if (made != NULL) {
        fry_graph_share(made); /* others have seen it, so it is not this call's alone */
        fry_turn_push(engine, context, made);
    }
    if (old != NULL)
        ferry_future_release(&old->future);
    resolve_writable(ready);
    return node;
}

void fry_writable_close(ferry_engine *engine)
{
    (void)pthread_mutex_lock(&engine->room_lock);
    fry_node *node = take_writable(engine);
    (void)pthread_mutex_unlock(&engine->room_lock);
    if (node != NULL)
        ferry_future_release(&node->future);
}
