/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often the driver is called, in steady state: each call costs a few hundred nanoseconds of the
 * submitter or of who has the baton. A figure that is exceeded here is a change for the worse; one
 * that is no longer reached may be set lower.
 */
#include "tests/module/rig.h"

#include <pthread.h>

#define KIB ((size_t)1024)
#define WARM_UP (2 * FRY_STREAM_DEPTH) /* until no more events are made */
#define ROUNDS 8

#define OPEN_CALLS 200
#define OPEN_TRIES 200
#define COPY_CALLS 3 /* the copy, a mark's event and word */
#define COPY_CALLS_ELSEWHERE 8
#define RECORD_CALLS 3      /* whether it is captured, which stream it is, the event */
#define STREAM_WAIT_CALLS 2 /* whether it is captured, the wait */
#define CHAIN_CALLS (RECORD_CALLS + 1 + COPY_CALLS + STREAM_WAIT_CALLS)
#define BATCH_COPIES 256
#define BATCH_CALLS 3 /* the batch, a mark's event and word */

typedef struct place {
    rig rig;
    fry_device *device;
    char *host, *gpu;
} place;

/* How many calls the opening of a device takes. */
static uint64_t open_device(place *self)
{
    /* With the four parked streams there are if nobody asks for more. */
    fry_device_request request = {.name = "cuda:0", .completion = FERRY_COMPLETION_WORDS};
    rig_open(&self->rig);
    uint64_t before = emu_call_total();
    self->device = rig_try_device(&self->rig, &request, NULL);
    CHECK(self->device != NULL);
    return emu_call_total() - before;
}

/* On a machine that is busy with other work a trial may be made again, so it is opened until not.
 */
static void place_open(place *self)
{
    for (int tries = 1; open_device(self) > OPEN_CALLS; tries++) {
        CHECK(tries < OPEN_TRIES);
        rig_close(&self->rig);
    }
    self->host = rig_pinned(2048 * KIB, 1);
    self->gpu = rig_on_gpu(0, 2048 * KIB, 2);
}

static void place_close(place *self)
{
    rig_free_pinned(self->host);
    rig_free_on_gpu(self->gpu);
    rig_close(&self->rig);
}

static fry_event copy(place *self, fry_cuda_direction direction, size_t size_bytes)
{
    char *ends[] = {self->host, self->gpu, self->gpu + 1024 * KIB};
    char *dst = direction == FRY_CUDA_TO_HOST ? ends[0] : ends[1];
    char *src = direction == FRY_CUDA_FROM_HOST ? ends[0]
                : direction == FRY_CUDA_TO_HOST ? ends[1]
                                                : ends[2];
    fry_event event =
        rig_copy(&self->rig, rig_main(self->device, direction), dst, src, size_bytes, NULL, 0);
    rig_flush(event.stream);
    return event;
}

/* The rig looks at the thread's context and capture mode itself, in each of its calls. */
static uint64_t own_calls(void)
{
    return rig_calls("cuCtxGetCurrent") + rig_calls("cuThreadExchangeStreamCaptureMode");
}

static uint64_t copy_calls(place *self, fry_cuda_direction direction, size_t size_bytes)
{
    fry_stream *stream = rig_main(self->device, direction);
    char *dst = direction == FRY_CUDA_TO_HOST ? self->host : self->gpu;
    char *src = direction == FRY_CUDA_FROM_HOST ? self->host : self->gpu + 1024 * KIB;
    fry_copy plain = {.dst = dst, .src = src, .size_bytes = size_bytes, .row_count = 1};
    fry_fault fault;
    uint64_t sequence;
    uint64_t before = emu_call_total();
    OK(self->device->ops->copy(stream, &plain, NULL, 0, &sequence, &fault));
    self->device->ops->flush(stream);
    uint64_t calls = emu_call_total() - before;
    rig_await(&self->rig, (fry_event){stream, sequence});
    return calls;
}

static void test_copies(place *self)
{
    static const size_t sizes[] = {64, 4 * KIB, 64 * KIB, 128 * KIB, 1024 * KIB};
    for (int direction = 0; direction < FRY_CUDA_DIRECTIONS; direction++) {
        for (int i = 0; i < WARM_UP; i++)
            rig_await(&self->rig, copy(self, (fry_cuda_direction)direction, 64));
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            for (int round = 0; round < ROUNDS; round++)
                GIVES(copy_calls(self, (fry_cuda_direction)direction, sizes[i]), COPY_CALLS);
        }
    }
}

static void *copy_elsewhere(void *arg)
{
    place *self = arg;
    GIVES(copy_calls(self, FRY_CUDA_FROM_HOST, 128 * KIB), COPY_CALLS_ELSEWHERE);
    return NULL;
}

/* A thread that has no context, such as the loop's. */
static void test_thread(place *self)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, copy_elsewhere, self) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void test_busy(place *self)
{
    emu_hold();
    fry_event event = copy(self, FRY_CUDA_FROM_HOST, 128 * KIB);
    uint64_t before = emu_call_total() - own_calls();
    GIVES(rig_fired(&self->rig, event.stream), event.sequence - 1);
    GIVES(emu_call_total() - own_calls(), before); /* a look is a load */
    emu_release();
    rig_await(&self->rig, event);
}

static void test_events(place *self)
{
    const fry_device_ops *ops = self->device->ops;
    CUstream user;
    fry_fault fault;
    OK(cuStreamCreate(&user, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < WARM_UP + ROUNDS; i++) {
        fry_event event;
        uint64_t before = emu_call_total();
        OK(ops->event_record(self->device, user, &event, &fault));
        uint64_t calls = emu_call_total() - before;
        rig_entered(event);
        CHECK(i < WARM_UP || calls <= RECORD_CALLS);
        rig_await(&self->rig, event);
    }
    for (int i = 0; i < ROUNDS; i++) {
        emu_hold();
        fry_event event = copy(self, FRY_CUDA_FROM_HOST, 128 * KIB);
        uint64_t before = emu_call_total();
        OK(ops->stream_wait(self->device, user, event, &fault));
        CHECK(emu_call_total() - before <= STREAM_WAIT_CALLS);
        emu_release();
        rig_await(&self->rig, event);
    }
    (void)emu_settle();
    OK(cuStreamDestroy(user));
}

/*
 * An event, a copy behind it, the program's stream behind that: all there is until the copy has
 * fired. Then so has the event, which nobody need ask about.
 */
static void test_chain(place *self)
{
    const fry_device_ops *ops = self->device->ops;
    CUstream user;
    fry_fault fault;
    OK(cuStreamCreate(&user, CU_STREAM_NON_BLOCKING));
    fry_stream *parked = rig_parked(self->device, 0);
    for (int i = 0; i < WARM_UP + ROUNDS; i++) {
        fry_event recorded;
        uint64_t sequence, calls = emu_call_total();
        emu_hold_stream(user);
        fry_copy plain = {
            .dst = self->gpu, .src = self->host, .size_bytes = 128 * KIB, .row_count = 1};
        OK(ops->event_record(self->device, user, &recorded, &fault));
        rig_entered(recorded);
        OK(ops->copy(parked, &plain, &recorded, 1, &sequence, &fault));
        ops->flush(parked);
        OK(ops->stream_wait(self->device, user, (fry_event){parked, sequence}, &fault));
        calls = emu_call_total() - calls;
        GIVES(rig_fired(&self->rig, recorded.stream), recorded.sequence - 1);
        emu_release_stream(user);
        rig_await(&self->rig, (fry_event){parked, sequence});
        uint64_t asked = rig_calls("cuEventQuery");
        GIVES(rig_fired(&self->rig, recorded.stream), recorded.sequence);
        GIVES(rig_calls("cuEventQuery"), asked);
        CHECK(i < WARM_UP || calls <= CHAIN_CALLS);
    }
    (void)emu_settle();
    OK(cuStreamDestroy(user));
}

/* What fills a batch goes with it, not alone after it. */
static void test_batches(place *self)
{
    fry_stream *stream = rig_main(self->device, FRY_CUDA_FROM_HOST);
    fry_fault fault;
    memset(self->host, 3, BATCH_COPIES * 4 * KIB);
    uint64_t sequence = 0, singly = rig_calls("cuMemcpyAsync"), before = emu_call_total();
    for (size_t i = 0; i < BATCH_COPIES; i++) {
        fry_copy small = {.dst = self->gpu + i * 4 * KIB,
                          .src = self->host + i * 4 * KIB,
                          .size_bytes = 4 * KIB,
                          .row_count = 1};
        OK(self->device->ops->copy(stream, &small, NULL, 0, &sequence, &fault));
    }
    self->device->ops->flush(stream);
    GIVES(emu_call_total() - before, BATCH_CALLS);
    GIVES(rig_calls("cuMemcpyAsync"), singly);
    rig_await(&self->rig, (fry_event){stream, sequence});
    CHECK(rig_is_all(self->gpu, 3, BATCH_COPIES * 4 * KIB));
}

int main(void)
{
    place self;
    place_open(&self);
    test_copies(&self);
    test_thread(&self);
    test_busy(&self);
    test_events(&self);
    test_chain(&self);
    test_batches(&self);
    place_close(&self);
    return EXIT_SUCCESS;
}
