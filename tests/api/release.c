/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that are given no engine beside ferry_engine_release in another thread: each is stopped at
 * each of its allocations, the engine is released meanwhile, and then it goes on. What its thread
 * holds must keep the engine's memory until it gives it back, and then nothing may be left.
 */
#include "tests/support/api_test.h"
#include "tests/support/every_call.h"

#include <ev.h>
#include <semaphore.h>
#include <stdlib.h>

TestSuite(release, .timeout = HANG_S);

/* Stops the nth allocation of one thread until it is told to go on. */
typedef struct gate {
    failing_allocator memory;
    ferry_allocator inner;
    sem_t is_at_gate, go_on;
} gate;

static _Thread_local int allocations_left; /* until the one that stops; 0: none does */

static void *gate_alloc(void *arg, size_t size_bytes, size_t align_bytes)
{
    gate *self = arg;
    if (allocations_left > 0 && --allocations_left == 0) {
        (void)sem_post(&self->is_at_gate);
        while (sem_wait(&self->go_on) != 0)
            continue;
    }
    return self->inner.alloc(self->inner.arg, size_bytes, align_bytes);
}

static void gate_free(void *arg, void *memory, size_t size_bytes)
{
    const gate *self = arg;
    self->inner.free(self->inner.arg, memory, size_bytes);
}

typedef struct stopped_call {
    const every_call *row;
    caller caller;
    gate *gate;
    int stop_at;
    bool was_stopped;
} stopped_call;

static void *run_stopped(void *arg)
{
    stopped_call *self = arg;
    allocations_left = self->stop_at;
    self->row->call(&self->caller);
    self->was_stopped = allocations_left == 0;
    allocations_left = 0;
    if (!self->was_stopped)
        (void)sem_post(&self->gate->is_at_gate);
    return NULL;
}

/* Returns whether the call made so many allocations. */
static bool release_beside(const every_call *row, ferry_loop_mode loop, int stop_at)
{
    gate gate;
    call_scene scene;
    stopped_call call = {.row = row, .gate = &gate, .stop_at = stop_at};
    failing_allocator_init(&gate.memory);
    gate.inner = failing_allocator_interface(&gate.memory);
    cr_assert_eq(sem_init(&gate.is_at_gate, 0, 0), 0);
    cr_assert_eq(sem_init(&gate.go_on, 0, 0), 0);
    ferry_allocator allocator = {gate_alloc, gate_free, &gate};
    _Atomic int log_lines = 0;
    struct ev_loop *ev_loop = loop == FERRY_LOOP_ATTACHED ? ev_loop_new(EVFLAG_AUTO) : NULL;
    ferry_engine_options options = {.struct_size = sizeof options,
                                    .loop = loop,
                                    .host_devices = 1,
                                    .host_workers = 1,
                                    .ev_loop = ev_loop,
                                    .allocator = &allocator,
                                    .log = test_log,
                                    .log_arg = &log_lines};
    cr_assert(call_scene_open(&scene, &options, (row->traits & CALL_NEEDS_GROUP) != 0));
    cr_assert(caller_open(&call.caller, &scene));
    ferry_future *last = ferry_nop(scene.engine, NULL); /* the last handle to be given back */

    pthread_t thread = begin_thread(run_stopped, &call);
    while (sem_wait(&gate.is_at_gate) != 0)
        continue;
    ferry_engine_release(scene.engine);
    (void)sem_post(&gate.go_on);
    (void)end_thread(thread);

    cr_assert_neq(ferry_future_poll(scene.pending), FERRY_PENDING);
    call_scene_close(&scene);
    caller_close(&call.caller);
    cr_assert_gt(failing_allocator_live_bytes(&gate.memory), 0, "%s, mode %d, allocation %d: gone",
                 row->name, loop, stop_at);
    ferry_future_release(last);
    cr_assert_eq(failing_allocator_live_bytes(&gate.memory), 0, "%s, mode %d, allocation %d: %lld",
                 row->name, loop, stop_at, (long long)failing_allocator_live_bytes(&gate.memory));
    if (ev_loop != NULL)
        ev_loop_destroy(ev_loop);
    return call.was_stopped;
}

static void release_beside_all(ferry_loop_mode loop, bool of_groups)
{
    size_t stops = 0;
    for (size_t i = 0; i < every_call_count; i++) {
        const every_call *row = &every_calls[i];
        if ((row->traits & (CALL_TAKES_ENGINE | CALL_IS_HEAVY | CALL_IS_OPERATION)) != 0 ||
            ((row->traits & CALL_NEEDS_GROUP) != 0) != of_groups)
            continue;
        int stop_at = 1;
        while (release_beside(row, loop, stop_at))
            stop_at++;
        stops += (size_t)stop_at - 1;
    }
    cr_assert_gt(stops, 5, "nothing was stopped");
}

Test(release, calls_without_an_engine_may_be_under_way)
{
    release_beside_all(FERRY_LOOP_THREAD, false);
}

Test(release, calls_without_an_engine_may_be_under_way_embedded)
{
    release_beside_all(FERRY_LOOP_EMBEDDED, false);
}

Test(release, calls_without_an_engine_may_be_under_way_attached)
{
    release_beside_all(FERRY_LOOP_ATTACHED, false);
}

Test(release, calls_of_groups_may_be_under_way)
{
    release_beside_all(FERRY_LOOP_THREAD, true);
}

Test(release, calls_of_groups_may_be_under_way_embedded)
{
    release_beside_all(FERRY_LOOP_EMBEDDED, true);
}
