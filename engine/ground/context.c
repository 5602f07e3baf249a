/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts: what a thread keeps of an engine. A thread finds its own through a few thread-local
 * slots keyed by the engine's number, which is never reused, so a dead engine's slot is never found
 * again. A context belongs to its engine. When its thread ends, or needs the slot for another
 * engine, its caches go back to the pools and the context waits for another thread.
 */
#include "engine/ground/context.h"

#include "engine/engine.h"
#include "engine/ground/ring.h"

#define CONTEXT_SLOTS 8

_Thread_local fry_context_slot fry_context_recent;
static _Thread_local fry_context_slot context_slots[CONTEXT_SLOTS];
static _Thread_local uint32_t context_victim;

static pthread_mutex_t alive_lock = PTHREAD_MUTEX_INITIALIZER;
static ferry_engine *alive; /* engines whose memory exists */
static pthread_key_t thread_end_key;
static pthread_once_t thread_end_once = PTHREAD_ONCE_INIT;
static bool thread_end_works;

/* Gives a context back. The engine may be gone: only the list `alive` can tell. */
static void context_leave(fry_context_slot *slot)
{
    (void)pthread_mutex_lock(&alive_lock);
    ferry_engine *engine = alive;
    while (engine != NULL && engine->id != slot->engine_id)
        engine = engine->next_alive;
    if (engine != NULL) {
        fry_context *context = slot->context;
        fry_pool_flush(&engine->nodes, &context->nodes);
        fry_pool_flush(&engine->edges, &context->edges);
        fry_pool_flush(&engine->uses, &context->uses);
        fry_pool_flush(&engine->notes, &context->notes);
        fry_pool_flush(&engine->segments, &context->segments);
        fry_pool_flush(&engine->readers, &context->readers);
        fry_pool_flush(&engine->joins, &context->joins);
        fry_pool_flush(&engine->transfers, &context->transfers);
        fry_pool_flush(&engine->notices, &context->notices);
        (void)pthread_mutex_lock(&engine->cold);
        context->next_idle = engine->idle_contexts;
        engine->idle_contexts = context;
        (void)pthread_mutex_unlock(&engine->cold);
    }
    (void)pthread_mutex_unlock(&alive_lock);
    *slot = (fry_context_slot){0};
}

void fry_pools_add_cache(ferry_engine *engine)
{
    fry_pool_add_cache(&engine->nodes);
    fry_pool_add_cache(&engine->edges);
    fry_pool_add_cache(&engine->uses);
    fry_pool_add_cache(&engine->notes);
    fry_pool_add_cache(&engine->segments);
    fry_pool_add_cache(&engine->readers);
    fry_pool_add_cache(&engine->joins);
    fry_pool_add_cache(&engine->transfers);
    fry_pool_add_cache(&engine->notices);
}

static void thread_end(void *slots)
{
    (void)slots;
    fry_context_recent = (fry_context_slot){0};
    for (size_t i = 0; i < CONTEXT_SLOTS; i++) {
        if (context_slots[i].context != NULL)
            context_leave(&context_slots[i]);
    }
}

static void make_thread_end_key(void)
{
    thread_end_works = pthread_key_create(&thread_end_key, thread_end) == 0;
}

static fry_context *context_create(ferry_engine *engine)
{
    (void)pthread_mutex_lock(&engine->cold);
    fry_context *context = engine->idle_contexts;
    if (context != NULL)
        engine->idle_contexts = context->next_idle;
    (void)pthread_mutex_unlock(&engine->cold);
    if (context != NULL)
        return context;

    context = fry_alloc(&engine->memory, sizeof *context, _Alignof(fry_context));
    if (context == NULL)
        return NULL;
    context->engine = engine;
    fry_pools_add_cache(engine);
    (void)pthread_mutex_lock(&engine->cold);
    context->number = engine->context_count++;
    /* Without a ring the context's records are lost, and counted. */
    (void)fry_ring_add(engine, context, fry_load_relaxed(&engine->tracing));
    context->next = engine->contexts;
    engine->contexts = context;
    (void)pthread_mutex_unlock(&engine->cold);
    return context;
}

fry_context *fry_context_find(ferry_engine *engine)
{
    fry_context_slot *slot = NULL;
    for (size_t i = 0; i < CONTEXT_SLOTS; i++) {
        if (context_slots[i].engine_id == engine->id) {
            fry_context_recent = context_slots[i];
            return context_slots[i].context;
        }
        if (context_slots[i].context == NULL)
            slot = &context_slots[i];
    }
    (void)pthread_once(&thread_end_once, make_thread_end_key);
    if (!thread_end_works || pthread_setspecific(thread_end_key, context_slots) != 0)
        return NULL;
    fry_context *context = context_create(engine);
    if (context == NULL)
        return NULL;
    if (slot == NULL) {
        slot = &context_slots[context_victim++ % CONTEXT_SLOTS];
        context_leave(slot);
    }
    *slot = (fry_context_slot){.engine_id = engine->id, .context = context};
    fry_context_recent = *slot;
    return context;
}

/* In a child of fork, threads that it does not have may hold the locks. */
static void forked_in_child(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    alive_lock = fresh;
    alive = NULL;
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, forked_in_child);
}

void fry_engine_register(ferry_engine *engine)
{
    static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
    static uint64_t last_id;
    (void)pthread_once(&fork_once, watch_forks);
    (void)pthread_mutex_lock(&alive_lock);
    engine->id = ++last_id;
    engine->next_alive = alive;
    alive = engine;
    (void)pthread_mutex_unlock(&alive_lock);
}

void fry_engine_unregister(ferry_engine *engine)
{
    (void)pthread_mutex_lock(&alive_lock);
    ferry_engine **at = &alive;
    while (*at != engine)
        at = &(*at)->next_alive;
    *at = engine->next_alive;
    (void)pthread_mutex_unlock(&alive_lock);
}

void fry_contexts_free(ferry_engine *engine)
{
    while (engine->contexts != NULL) {
        fry_context *context = engine->contexts;
        engine->contexts = context->next;
        fry_rings_free(context);
        fry_free(&engine->memory, context, sizeof *context);
    }
}
