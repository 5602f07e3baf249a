/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Full streams block nobody. A stream of the program's is held at a kernel; behind its event, and
 * in every direction besides, several threads submit many times as much as a stream takes. All of
 * them come back while the stream is still held, the driver was never made to wait for room, and
 * what is not behind the event is done; then the stream goes on, and all the rest is done too.
 */
#include "tests/gpu/places.h"

#include <pthread.h>

#define THREADS 4
#define COPIES 1500 /* of each thread and sort: a stream takes 256 */
#define SLICE 64
#define BYTES ((size_t)COPIES * SLICE)

typedef struct scene {
    places at;
    gpu_gate gate;
    ferry_future *event; /* of the stream that is held */
} scene;

typedef struct submitter {
    scene *of;
    size_t index;
    ferry_buffer *pinned, *pageable, *near, *far, *last;
    ferry_future *behind, *beside; /* of all that waits for the event, and all that does not */
} submitter;

static void open_submitter(submitter *self, scene *of, size_t index)
{
    *self = (submitter){.of = of, .index = index};
    self->pinned = gpu_buffer(of->at.host, BYTES, FERRY_MEMORY_PINNED);
    self->pageable = gpu_buffer(of->at.host, BYTES, FERRY_MEMORY_DEFAULT);
    self->near = gpu_buffer(of->at.gpus[0], BYTES, FERRY_MEMORY_DEFAULT);
    self->far = gpu_buffer(of->at.gpus[1], BYTES, FERRY_MEMORY_DEFAULT);
    self->last = gpu_buffer(of->at.gpus[0], BYTES, FERRY_MEMORY_DEFAULT);
    memset(ferry_buffer_data(self->pinned), (int)index + 1, BYTES);
    memset(ferry_buffer_data(self->pageable), 0, BYTES);
}

static ferry_span slice(ferry_buffer *buffer, size_t i)
{
    return (ferry_span){buffer, i * SLICE, SLICE};
}

/* One more is among what is waited for. */
static void add(scene *of, ferry_future **all, ferry_future *one)
{
    ferry_future *const both[] = {*all, one};
    ferry_future *next = ferry_future_all(of->at.ge.engine, both, 2);
    ferry_future_release(*all);
    ferry_future_release(one);
    *all = next;
}

/*
 * Each slice goes to one GPU, to the other, and back to memory that is not page-locked; and from
 * the first GPU's to another place there behind the event.
 */
static void *submit(void *arg)
{
    submitter *self = arg;
    scene *of = self->of;
    ferry_op_options held = FERRY_OP_OPTIONS_INIT;
    held.after = &of->event;
    held.after_count = 1;
    self->behind = ferry_nop(of->at.ge.engine, NULL);
    self->beside = ferry_nop(of->at.ge.engine, NULL);
    for (size_t i = 0; i < COPIES; i++) {
        ferry_engine *engine = of->at.ge.engine;
        ferry_future_release(
            ferry_copy(engine, slice(self->near, i), slice(self->pinned, i), NULL));
        ferry_future_release(ferry_copy(engine, slice(self->far, i), slice(self->near, i), NULL));
        add(of, &self->beside,
            ferry_copy(engine, slice(self->pageable, i), slice(self->far, i), NULL));
        add(of, &self->behind,
            ferry_copy(engine, slice(self->last, i), slice(self->near, i), &held));
    }
    return NULL;
}

static bool is_filled(const ferry_buffer *buffer, int value)
{
    const unsigned char *bytes = ferry_buffer_data(buffer);
    for (size_t i = 0; i < BYTES; i++) {
        if (bytes[i] != (unsigned char)value)
            return false;
    }
    return true;
}

/* What was behind the event has arrived too. */
static void check_last(submitter *self)
{
    memset(ferry_buffer_data(self->pageable), 0, BYTES);
    CHECK_STATUS(gpu_end(gpu_copy(&self->of->at.ge, self->pageable, self->last, NULL)), FERRY_OK);
    CHECK(is_filled(self->pageable, (int)self->index + 1));
}

static void close_submitter(submitter *self)
{
    ferry_buffer_release(self->pinned);
    ferry_buffer_release(self->pageable);
    ferry_buffer_release(self->near);
    ferry_buffer_release(self->far);
    ferry_buffer_release(self->last);
}

static uint64_t blocked(void)
{
    emu_counters counters = {.blocked = 0};
    if (EMU(emu_get_counters) != NULL)
        EMU(emu_get_counters)(&counters);
    return counters.blocked;
}

static void run(ferry_completion completion)
{
    static submitter submitters[THREADS];
    pthread_t threads[THREADS];
    scene self;
    ferry_device_options options = FERRY_DEVICE_OPTIONS_INIT;
    options.completion = completion;
    places_open(&self.at, &options);
    self.gate = gpu_gate_open(0, self.at.gpus[0]);
    for (size_t i = 0; i < THREADS; i++)
        open_submitter(&submitters[i], &self, i);

    gpu_gate_hold(&self.gate);
    self.event = ferry_event_record(self.at.gpus[0], gpu_gate_stream(&self.gate));
    uint64_t before = blocked();
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, submit, &submitters[i]) == 0);
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    for (size_t i = 0; i < THREADS; i++) {
        CHECK_STATUS(gpu_end(submitters[i].beside), FERRY_OK);
        CHECK(is_filled(submitters[i].pageable, (int)i + 1));
        CHECK_STATUS(ferry_future_poll(submitters[i].behind), FERRY_PENDING);
    }
    gpu_gate_let_go(&self.gate);
    for (size_t i = 0; i < THREADS; i++) {
        CHECK_STATUS(gpu_end(submitters[i].behind), FERRY_OK);
        check_last(&submitters[i]);
        close_submitter(&submitters[i]);
    }
    CHECK(blocked() == before);
    CHECK_STATUS(gpu_end(self.event), FERRY_OK);
    gpu_gate_close(&self.gate);
    gpu_engine_close(&self.at.ge);
}

int main(void)
{
    CHECK(setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0) == 0); /* streams that don't share */
    gpu_watch("full", 100);
    run(FERRY_COMPLETION_WORDS);
    run(FERRY_COMPLETION_EVENTS);
    (void)printf("full: %d threads submitted %d copies each to full streams\n", THREADS,
                 2 * 4 * COPIES);
    return 0;
}
