/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that record on streams of their own and on one they share, and make them wait, while the
 * holder of the baton copies behind what they recorded and looks at what fired. Each thread's work
 * adds one to a number with copies; the copies behind carry it on, so whoever does not wait is
 * caught, by the emulator or by the sums.
 */
#include "tests/module/rig.h"

#include <pthread.h>
#include <unistd.h>

#define THREADS 4
#define ROUNDS 300
#define ROOM 64 /* events that have been recorded and not yet been taken up */

typedef struct handover {
    fry_event event;
    const char *src; /* on the GPU, written by then; NULL: nothing to copy */
    char *dst;       /* on the host */
} handover;

typedef struct shared {
    rig *rig;
    fry_device *device;
    CUstream common;
    pthread_mutex_t mutex; /* handovers enter in the order that the numbers have */
    handover queue[ROOM];
    uint32_t first, count;
    uint64_t refused; /* atomic: FERRY_E_AGAIN */
    fry_event copied; /* under the mutex: a copy that was flushed */
} shared;

typedef struct worker {
    shared *all;
    pthread_t thread;
    CUstream own;
    char *host, *gpu, *back; /* ROUNDS bytes each */
} worker;

static bool hand_over(shared *all, const handover *given)
{
    OK(pthread_mutex_lock(&all->mutex));
    bool has_room = all->count < ROOM;
    if (has_room)
        all->queue[(all->first + all->count++) % ROOM] = *given;
    OK(pthread_mutex_unlock(&all->mutex));
    return has_room;
}

static void *work(void *arg)
{
    worker *self = arg;
    shared *all = self->all;
    CUcontext context;
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    for (size_t i = 0; i < ROUNDS; i++) {
        bool is_common = i % 3 == 2;
        handover given = {.src = self->gpu + i, .dst = self->back + i};
        OK(cuMemcpyAsync((CUdeviceptr)(uintptr_t)given.src,
                         (CUdeviceptr)(uintptr_t)(self->host + i), 1,
                         is_common ? all->common : self->own));
        ferry_status status;
        while ((status = rig_record(all->rig, all->device, is_common ? all->common : self->own,
                                    &given.event)) == FERRY_E_AGAIN) {
            (void)fry_fetch_add(&all->refused, 1);
            (void)usleep(100);
        }
        OK(status);
        while (!hand_over(all, &given))
            (void)usleep(100);
        rig_entered(given.event);
        OK(pthread_mutex_lock(&all->mutex));
        fry_event copied = all->copied;
        OK(pthread_mutex_unlock(&all->mutex));
        if (copied.stream != NULL)
            OK(rig_stream_wait(all->rig, all->device, self->own, copied));
    }
    OK(cuStreamSynchronize(self->own));
    OK(cuCtxSetCurrent(NULL));
    OK(cuDevicePrimaryCtxRelease(0));
    return NULL;
}

/* The holder of the baton takes up what was recorded. */
static bool take_up(shared *all, size_t *parked_next)
{
    OK(pthread_mutex_lock(&all->mutex));
    handover taken = {0};
    bool is_there = all->count > 0;
    if (is_there) {
        taken = all->queue[all->first];
        all->first = (all->first + 1) % ROOM;
        all->count--;
    }
    OK(pthread_mutex_unlock(&all->mutex));
    if (!is_there)
        return false;
    fry_stream *stream = rig_parked(all->device, (*parked_next)++ % 8);
    while (stream->is_full || stream->issued - rig_fired(all->rig, stream) == FRY_STREAM_DEPTH)
        rig_await(all->rig, (fry_event){stream, stream->issued});
    fry_event event = rig_copy(all->rig, stream, taken.dst, taken.src, 1, &taken.event, 1);
    rig_flush(stream);
    OK(pthread_mutex_lock(&all->mutex));
    all->copied = event;
    OK(pthread_mutex_unlock(&all->mutex));
    return true;
}

static void run(uint32_t completion)
{
    rig self;
    static shared all;
    static worker workers[THREADS];
    memset(&all, 0, sizeof all);
    rig_open(&self);
    all.rig = &self;
    all.device = rig_device(&self, "cuda:0", completion);
    OK(pthread_mutex_init(&all.mutex, NULL));
    OK(cuStreamCreate(&all.common, CU_STREAM_NON_BLOCKING));
    for (size_t i = 0; i < THREADS; i++) {
        workers[i] = (worker){.all = &all,
                              .host = rig_pinned(ROUNDS, (int)i + 1),
                              .gpu = rig_on_gpu(0, ROUNDS, 0),
                              .back = rig_pinned(ROUNDS, 0)};
        OK(cuStreamCreate(&workers[i].own, CU_STREAM_NON_BLOCKING));
    }
    for (size_t i = 0; i < THREADS; i++)
        OK(pthread_create(&workers[i].thread, NULL, work, &workers[i]));
    size_t taken = 0, streams = fry_cuda_device_of(all.device)->stream_count;
    while (taken < (size_t)THREADS * ROUNDS) {
        if (!take_up(&all, &taken))
            (void)usleep(50);
        for (size_t i = 0; i < streams; i++)
            (void)rig_fired(&self, all.device->ops->stream_at(all.device, i));
    }
    for (size_t i = 0; i < THREADS; i++)
        OK(pthread_join(workers[i].thread, NULL));
    (void)emu_settle();
    for (size_t i = 0; i < streams; i++) {
        fry_stream *stream = all.device->ops->stream_at(all.device, i);
        if (stream->issued > 0)
            rig_await(&self, (fry_event){stream, stream->issued});
        GIVES(stream->struck, 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        CHECK(rig_is_all(workers[i].back, (int)i + 1, ROUNDS));
        rig_free_pinned(workers[i].host);
        rig_free_pinned(workers[i].back);
        rig_free_on_gpu(workers[i].gpu);
        OK(cuStreamDestroy(workers[i].own));
    }
    OK(cuStreamDestroy(all.common));
    OK(pthread_mutex_destroy(&all.mutex));
    rig_close(&self);
}

int main(void)
{
    run(FERRY_COMPLETION_WORDS);
    run(FERRY_COMPLETION_EVENTS);
    return EXIT_SUCCESS;
}
