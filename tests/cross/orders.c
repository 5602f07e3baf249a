/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ferry takes for granted of its atomics and x86 gives for nothing, a function each, for
 * a look at the instructions (orders). QEMU on x86 can't show what is missing: it runs them in an
 * order that x86 gives.
 */
#include "base/baton.h"
#include "base/eventcount.h"
#include "base/lf.h"
#include "base/stack.h"
#include "engine/ground/ground.h"

/* The depot's swap: a magazine's contents before it, and the look for who waits for room behind. */
bool orders_counted_cas(fry_counted_pointer *at, const fry_counted_pointer *expected,
                        void *pointer);
bool orders_counted_cas(fry_counted_pointer *at, const fry_counted_pointer *expected, void *pointer)
{
    return fry_counted_cas(at, *expected, pointer);
}

/* Published by a push, then whether the loop sleeps. */
void orders_push_and_wake(ferry_engine *engine, fry_link *item);
void orders_push_and_wake(ferry_engine *engine, fry_link *item)
{
    fry_stack_push(&engine->requests, item);
    fry_wake(engine);
}

/* The baton given, then whether anybody has pushed meanwhile. */
bool orders_give_and_look(fry_baton *baton, const fry_stack *inbox);
bool orders_give_and_look(fry_baton *baton, const fry_stack *inbox)
{
    fry_baton_give(baton);
    return fry_stack_is_empty(inbox);
}

/* A sleeper counted, then what it sleeps for. */
uint32_t orders_prepare_and_look(fry_eventcount *eventcount, const uint32_t *condition);
uint32_t orders_prepare_and_look(fry_eventcount *eventcount, const uint32_t *condition)
{
    uint32_t key = fry_eventcount_prepare(eventcount);
    return fry_load_relaxed(condition) != 0 ? 0 : key;
}

/* The condition stored, then whether anybody sleeps. */
void orders_store_and_notify(fry_eventcount *eventcount, uint32_t *condition);
void orders_store_and_notify(fry_eventcount *eventcount, uint32_t *condition)
{
    fry_store_relaxed(condition, 1);
    fry_eventcount_notify(eventcount, 1);
}
