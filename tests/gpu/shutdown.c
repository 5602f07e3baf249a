/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shutting down with work in flight. What can end does, or fails with FERRY_E_SHUTDOWN, and the
 * shutdown succeeds; where a stream of the program's hangs it gives up in its time and says so, and
 * can be tried again once the stream goes on. Nothing is left afterwards, and no memory is touched
 * by then.
 */
#include "tests/gpu/places.h"

#include <pthread.h>

#define SIZE ((size_t)1 << 20)
#define COPIES 24

typedef struct scene {
    places at;
    gpu_gate gate;
    ferry_buffer *pinned, *pageable, *near, *far;
    ferry_future *futures[4 * COPIES];
    size_t count;
} scene;

static void open_scene(scene *self, ferry_loop_mode loop, ferry_completion completion)
{
    ferry_device_options device = FERRY_DEVICE_OPTIONS_INIT;
    device.completion = completion;
    places_open_in(&self->at, loop, &device);
    self->pinned = gpu_buffer(self->at.host, SIZE, FERRY_MEMORY_PINNED);
    self->pageable = gpu_buffer(self->at.host, SIZE, FERRY_MEMORY_DEFAULT);
    self->near = gpu_buffer(self->at.gpus[0], SIZE, FERRY_MEMORY_DEFAULT);
    self->far = gpu_buffer(self->at.gpus[1], SIZE, FERRY_MEMORY_PLAIN);
    self->count = 0;
    self->gate = gpu_gate_open(0, self->at.gpus[0]);
}

static void release_all(scene *self)
{
    for (size_t i = 0; i < self->count; i++)
        ferry_future_release(self->futures[i]);
    ferry_buffer_release(self->pinned);
    ferry_buffer_release(self->pageable);
    ferry_buffer_release(self->near);
    ferry_buffer_release(self->far);
}

/* What the shutdown left can be released. */
static void close_scene(scene *self)
{
    release_all(self);
    gpu_engine_close(&self->at.ge);
    gpu_gate_close(&self->gate);
}

static void keep(scene *self, ferry_future *future)
{
    CHECK(self->count < sizeof self->futures / sizeof self->futures[0]);
    self->futures[self->count++] = future;
}

/* In every direction, one behind the other; `after` may be NULL. */
static void submit_some(scene *self, ferry_future *after)
{
    for (size_t i = 0; i < COPIES; i++) {
        keep(self, gpu_copy(&self->at.ge, self->near, self->pinned, after));
        keep(self, gpu_copy(&self->at.ge, self->far, self->near, NULL));
        keep(self, gpu_copy(&self->at.ge, self->pageable, self->far, NULL));
    }
}

/* A shutdown that gave up may have had no time to fail them all yet. */
static void check_resolved(const scene *self)
{
    for (size_t i = 0; i < self->count; i++) {
        ferry_status status = ferry_future_wait(self->futures[i], -1);
        CHECK(status == FERRY_OK || status == FERRY_E_SHUTDOWN || status == FERRY_E_DEPENDENCY);
    }
}

static void in_flight(ferry_loop_mode loop, ferry_completion completion)
{
    scene self;
    gpu_watch("shutdown with copies in flight", 60);
    open_scene(&self, loop, completion);
    submit_some(&self, NULL);
    CHECK_STATUS(ferry_engine_shutdown(self.at.ge.engine, -1), FERRY_OK);
    check_resolved(&self);
    CHECK_STATUS(gpu_end(gpu_copy(&self.at.ge, self.near, self.pinned, NULL)), FERRY_E_SHUTDOWN);
    CHECK_STATUS(gpu_end(ferry_event_record(self.at.gpus[0], gpu_gate_stream(&self.gate))),
                 FERRY_E_SHUTDOWN);
    close_scene(&self);
}

static void *shut_down(void *arg)
{
    scene *self = arg;
    CHECK_STATUS(ferry_engine_shutdown(self->at.ge.engine, -1), FERRY_OK);
    return NULL;
}

/* The stream hangs, and goes on in the end. */
static void with_a_hung_stream(ferry_loop_mode loop, ferry_completion completion)
{
    scene self;
    gpu_watch("shutdown with a hung stream", 60);
    open_scene(&self, loop, completion);
    gpu_gate_hold(&self.gate);
    keep(&self, ferry_event_record(self.at.gpus[0], gpu_gate_stream(&self.gate)));
    submit_some(&self, self.futures[0]);
    for (int tries = 0; tries < 3; tries++) {
        gpu_forget_log(&self.at.ge);
        CHECK_STATUS(ferry_engine_shutdown(self.at.ge.engine, 5000000), FERRY_E_DEADLINE);
        CHECK(gpu_has_logged(&self.at.ge, "shutdown"));
    }
    CHECK_STATUS(ferry_engine_shutdown(self.at.ge.engine, 0), FERRY_E_DEADLINE);
    check_resolved(&self); /* but not quiet: the event has yet to fire */
    CHECK_STATUS(ferry_future_poll(self.futures[0]), FERRY_E_SHUTDOWN);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, shut_down, &self) == 0);
    gpu_gate_let_go(&self.gate);
    CHECK(pthread_join(thread, NULL) == 0);
    close_scene(&self);
}

/* Handles go while the work is in flight, the engine's too. */
static void let_all_go(ferry_completion completion)
{
    scene self;
    gpu_watch("releasing with work in flight", 60);
    open_scene(&self, FERRY_LOOP_THREAD, completion);
    submit_some(&self, NULL);
    release_all(&self);
    ferry_engine_release(self.at.ge.engine);
    CHECK(failing_allocator_live_bytes(&self.at.ge.memory) == 0);
    gpu_gate_close(&self.gate);
}

/* A stream of ferry's own hangs: of the emulated ones all can be made to. */
static void with_hung_copies(ferry_completion completion)
{
    scene self;
    if (EMU(emu_hold) == NULL)
        return;
    gpu_watch("shutdown with hung copies", 60);
    open_scene(&self, FERRY_LOOP_THREAD, completion);
    EMU(emu_hold)();
    submit_some(&self, NULL);
    /* Or the shutdown might come before all of them, and find nothing that hangs. */
    CHECK_STATUS(gpu_end(ferry_future_issued(self.futures[0])), FERRY_OK);
    gpu_forget_log(&self.at.ge);
    CHECK_STATUS(ferry_engine_shutdown(self.at.ge.engine, 5000000), FERRY_E_DEADLINE);
    CHECK(gpu_has_logged(&self.at.ge, "shutdown"));
    check_resolved(&self);
    EMU(emu_release)();
    CHECK_STATUS(ferry_engine_shutdown(self.at.ge.engine, -1), FERRY_OK);
    close_scene(&self);
}

static void check_nothing_is_left(const emu_counters *before)
{
    emu_counters after;
    EMU(emu_get_counters)(&after);
    CHECK(after.live_contexts == before->live_contexts);
    CHECK(after.live_streams == before->live_streams);
    CHECK(after.live_events == before->live_events);
    CHECK(after.live_pools == before->live_pools);
    CHECK(after.live_device_bytes == before->live_device_bytes);
    CHECK(after.live_pinned_bytes == before->live_pinned_bytes || gpu_is_late);
}

int main(void)
{
    static const ferry_completion completions[] = {FERRY_COMPLETION_WORDS, FERRY_COMPLETION_EVENTS};
    emu_counters before;
    CHECK(setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0) == 0); /* streams that don't share */
    CHECK_CUDA(cudaFree(NULL));
    bool is_emulated = EMU(emu_get_counters) != NULL;
    if (is_emulated)
        EMU(emu_get_counters)(&before);
    for (size_t i = 0; i < 2; i++) {
        in_flight(FERRY_LOOP_THREAD, completions[i]);
        in_flight(FERRY_LOOP_EMBEDDED, completions[i]);
        with_a_hung_stream(FERRY_LOOP_THREAD, completions[i]);
        with_a_hung_stream(FERRY_LOOP_EMBEDDED, completions[i]);
        let_all_go(completions[i]);
        with_hung_copies(completions[i]);
    }
    if (is_emulated)
        check_nothing_is_left(&before);
    (void)puts("shutdown: all is over");
    return 0;
}
