/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Full streams block nobody. A stream of the program's is held at a kernel; behind its event, and
 * in every direction besides, several threads submit many times as much as a stream takes. All of
 * them come back while the stream is still held, the driver was never made to wait for room, and
 * what is not behind the event is done; then the stream goes on, and all the rest is done too.
 */
#include "tests/gpu/program.h"

#include <pthread.h>

#define THREADS 4
#define COPIES 1500 /* of each thread and sort: a stream takes 256 */
#define SLICE 64
#define BYTES ((size_t)COPIES * SLICE)

typedef struct scene {
    gpu_engine ge;
    ferry_device *host, *gpus[2];
    user_gpu *user;
    uint32_t *flag;
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
    self->pinned = gpu_buffer(of->host, BYTES, FERRY_MEMORY_PINNED);
    self->pageable = gpu_buffer(of->host, BYTES, FERRY_MEMORY_DEFAULT);
    self->near = gpu_buffer(of->gpus[0], BYTES, FERRY_MEMORY_DEFAULT);
    self->far = gpu_buffer(of->gpus[1], BYTES, FERRY_MEMORY_DEFAULT);
    self->last = gpu_buffer(of->gpus[0], BYTES, FERRY_MEMORY_DEFAULT);
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
    ferry_future *next = ferry_future_all(of->ge.engine, both, 2);
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
    self->behind = ferry_nop(of->ge.engine, NULL);
    self->beside = ferry_nop(of->ge.engine, NULL);
    for (size_t i = 0; i < COPIES; i++) {
        ferry_engine *engine = of->ge.engine;
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
    CHECK_STATUS(gpu_end(gpu_copy(&self->of->ge, self->pageable, self->last, NULL)), FERRY_OK);
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

static void open_scene(scene *self, ferry_completion completion)
{
    int count = 0;
    ferry_device_options options = FERRY_DEVICE_OPTIONS_INIT;
    options.completion = completion;
    CHECK_CUDA(cudaGetDeviceCount(&count));
    gpu_engine_open(&self->ge);
    self->host = ferry_device_at(self->ge.engine, 0);
    const char *const names[] = {"cuda:0", count > 1 ? "cuda:1" : "cuda:0/1"};
    for (size_t i = 0; i < 2; i++)
        CHECK_STATUS(ferry_device_open(self->ge.engine, names[i], &options, &self->gpus[i], NULL),
                     FERRY_OK);
    self->user = user_gpu_open(0);
    self->flag = user_gpu_alloc_pinned(self->user, sizeof *self->flag);
}

static void run(ferry_completion completion)
{
    static submitter submitters[THREADS];
    pthread_t threads[THREADS];
    scene self;
    open_scene(&self, completion);
    void *stream = user_gpu_stream(self.user, 0);
    *self.flag = 1;
    user_gpu_wait_flag(self.user, 0, self.flag, 1); /* nothing is loaded once the stream is held */
    CHECK_STATUS(gpu_end(ferry_event_record(self.gpus[0], stream)), FERRY_OK);
    for (size_t i = 0; i < THREADS; i++)
        open_submitter(&submitters[i], &self, i);

    __atomic_store_n(self.flag, 0, __ATOMIC_RELEASE);
    user_gpu_wait_flag(self.user, 0, self.flag, 1);
    self.event = ferry_event_record(self.gpus[0], stream);
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
    __atomic_store_n(self.flag, 1, __ATOMIC_RELEASE);
    for (size_t i = 0; i < THREADS; i++) {
        CHECK_STATUS(gpu_end(submitters[i].behind), FERRY_OK);
        check_last(&submitters[i]);
        close_submitter(&submitters[i]);
    }
    CHECK(blocked() == before);
    CHECK_STATUS(gpu_end(self.event), FERRY_OK);
    user_gpu_finish(self.user);
    user_gpu_free_pinned(self.user, self.flag);
    user_gpu_close(self.user);
    gpu_engine_close(&self.ge);
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
