/* SPDX-License-Identifier: Apache-2.0 */
/* Events on users' streams: recorded, wrapped, waited for; captures. */
#include "tests/module/rig.h"

#define KIB ((size_t)1024)
#define MS ((int64_t)1000000)

static CUstream new_stream(int ordinal)
{
    CUcontext context, left;
    CUstream stream;
    OK(cuDevicePrimaryCtxRetain(&context, ordinal));
    OK(cuCtxPushCurrent(context));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuCtxPopCurrent(&left));
    OK(cuDevicePrimaryCtxRelease(ordinal));
    return stream;
}

static CUevent new_event(void)
{
    CUevent event;
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

/* Records, as the engine does; the event must be one. */
static fry_event record(rig *self, fry_device *device, CUstream stream)
{
    fry_event event = {0};
    OK(rig_record(self, device, stream, &event));
    CHECK(event.stream != NULL && event.stream->kind == FRY_STREAM_OUTSIDE);
    rig_entered(event);
    return event;
}

/* A copy behind a user's unfired work is issued at once, on a parked stream; others pass it. */
static void test_record(rig *self, uint32_t completion)
{
    fry_device *device = rig_device(self, "cuda:0", completion);
    CUstream user = new_stream(0);
    char *host = rig_pinned(256 * KIB, 4), *gpu = rig_on_gpu(0, 256 * KIB, 0);
    emu_hold_stream(user);
    OK(cuMemcpyAsync((CUdeviceptr)(uintptr_t)gpu, (CUdeviceptr)(uintptr_t)host, KIB, user));
    fry_event done = record(self, device, user);
    GIVES(done.sequence, 1);
    fry_event behind = rig_copy(self, rig_parked(device, 0), host + 128 * KIB, gpu, KIB, &done, 1);
    rig_flush(behind.stream);
    fry_event beside =
        rig_copy(self, rig_main(device, FRY_CUDA_FROM_HOST), gpu + 128 * KIB, host, KIB, NULL, 0);
    rig_flush(beside.stream);
    rig_await(self, beside);
    GIVES(rig_fired(self, behind.stream), 0);
    GIVES(rig_fired(self, done.stream), 0);
    emu_release_stream(user);
    rig_await(self, behind);
    rig_await(self, done);
    CHECK(rig_is_all(host + 128 * KIB, 4, KIB));
    OK(cuStreamDestroy(user)); /* borrowed during the call only */
    OK(rig_outcome(self, done));
    rig_free_pinned(host);
    rig_free_on_gpu(gpu);
}

/* Nothing but the event comes into the program's stream; the driver is asked about it. */
static void test_event_alone(rig *self)
{
    fry_device *device = rig_device(self, "cuda:0", FERRY_COMPLETION_WORDS);
    CUstream user = new_stream(0);
    uint64_t numbers = rig_calls("cuStreamWriteValue32"), waits = rig_calls("cuStreamWaitEvent");
    emu_hold_stream(user);
    fry_event event = record(self, device, user);
    uint64_t asked = rig_calls("cuEventQuery");
    GIVES(rig_fired(self, event.stream), 0);
    GIVES(rig_calls("cuEventQuery"), asked); /* a copy behind it may be about to come */
    stepped_clock_step(&self->stepped, MS / 100);
    GIVES(rig_fired(self, event.stream), 0);
    GIVES(rig_fired(self, event.stream), 0);
    GIVES(rig_calls("cuEventQuery"), asked + 1);
    emu_release_stream(user);
    (void)emu_settle();
    for (int looks = 0; rig_fired(self, event.stream) != 1; looks++)
        CHECK(looks < 100); /* the clock stands */
    GIVES(rig_calls("cuStreamWriteValue32"), numbers);
    GIVES(rig_calls("cuStreamWaitEvent"), waits);
    OK(cuStreamDestroy(user));
}

/* A stream of ferry's waits for the event and does not go on: it is asked about now and then. */
static void test_event_relied_on(rig *self)
{
    fry_device *device = rig_device(self, "cuda:0", FERRY_COMPLETION_WORDS);
    CUstream user = new_stream(0), parked = fry_cuda_stream_of(rig_parked(device, 0))->native;
    char *host = rig_pinned(2 * KIB, 4), *gpu = rig_on_gpu(0, KIB, 0);
    emu_hold_stream(user);
    emu_hold_stream(parked);
    fry_event first = record(self, device, user);
    fry_event behind = rig_copy(self, rig_parked(device, 0), host, gpu, KIB, &first, 1);
    rig_flush(behind.stream);
    uint64_t asked = rig_calls("cuEventQuery");
    for (int i = 0; i < 8; i++)
        GIVES(rig_fired(self, first.stream), 0);
    GIVES(rig_calls("cuEventQuery"), asked);
    emu_release_stream(user);
    OK(cuStreamSynchronize(user));
    stepped_clock_step(&self->stepped, MS / 10);
    GIVES(rig_fired(self, first.stream), first.sequence);
    GIVES(rig_calls("cuEventQuery"), asked + 1);

    /* One that nobody of ferry's waits for comes behind another that somebody does. */
    emu_hold_stream(user);
    fry_event second = record(self, device, user), third = record(self, device, user);
    behind = rig_copy(self, rig_parked(device, 1), host + KIB, gpu, KIB, &second, 1);
    rig_flush(behind.stream);
    emu_release_stream(user);
    rig_await(self, behind);
    asked = rig_calls("cuEventQuery");
    GIVES(rig_fired(self, second.stream), second.sequence);
    GIVES(rig_calls("cuEventQuery"), asked);
    OK(cuStreamSynchronize(user));
    GIVES(rig_fired(self, third.stream), second.sequence);
    stepped_clock_step(&self->stepped, MS / 100);
    GIVES(rig_fired(self, third.stream), third.sequence);
    GIVES(rig_calls("cuEventQuery"), asked + 1);
    emu_release_stream(parked);
    (void)emu_settle();
    OK(cuStreamDestroy(user));
    rig_free_pinned(host);
    rig_free_on_gpu(gpu);
}

static void test_rings(rig *self)
{
    fry_device *device = rig_device(self, "cuda:0", FERRY_COMPLETION_WORDS);
    CUstream streams[FRY_CUDA_OUTSIDE_COUNT + 1];
    for (size_t i = 0; i <= FRY_CUDA_OUTSIDE_COUNT; i++)
        streams[i] = new_stream(0);
    emu_hold();
    fry_event first = record(self, device, streams[0]);
    fry_event second = record(self, device, streams[0]);
    CHECK(second.stream == first.stream && second.sequence == 2);
    CHECK(record(self, device, streams[1]).stream != first.stream);

    /* Somebody is at the ring: another one for the same stream, at no wait. */
    fry_event held = {0};
    OK(rig_record(self, device, streams[0], &held));
    CHECK(held.stream == first.stream);
    fry_event other = record(self, device, streams[0]);
    CHECK(other.stream != first.stream && other.sequence == 1);
    rig_entered(held);

    /* All rings are in use. */
    fry_event none = {0};
    for (size_t i = 2; i < FRY_CUDA_OUTSIDE_COUNT - 1; i++)
        GIVES(record(self, device, streams[i]).sequence, 1);
    GIVES(rig_record(self, device, streams[FRY_CUDA_OUTSIDE_COUNT], &none), FERRY_E_AGAIN);

    /* One is full. */
    for (uint64_t i = 2; i <= FRY_STREAM_DEPTH; i++)
        GIVES(record(self, device, streams[5]).sequence, i);
    GIVES(rig_record(self, device, streams[5], &none), FERRY_E_AGAIN);

    /* All has fired: rings serve other streams, also before anybody has looked. */
    emu_release();
    (void)emu_settle();
    GIVES(record(self, device, streams[FRY_CUDA_OUTSIDE_COUNT]).sequence, 4);
    GIVES(rig_record(self, device, streams[5], &none), FERRY_E_AGAIN); /* its slots are kept */
    (void)emu_settle();
    for (size_t i = 0; i < 200 && device->ops->stream_at(device, i) != NULL; i++)
        (void)rig_fired(self, device->ops->stream_at(device, i));
    stepped_clock_step(&self->stepped, MS / 100);
    for (size_t i = 0; i < 200 && device->ops->stream_at(device, i) != NULL; i++) {
        fry_stream *stream = device->ops->stream_at(device, i);
        GIVES(rig_fired(self, stream), stream->issued);
    }
    GIVES(record(self, device, streams[5]).sequence, FRY_STREAM_DEPTH + 1);
    (void)emu_settle();
    for (size_t i = 0; i <= FRY_CUDA_OUTSIDE_COUNT; i++)
        OK(cuStreamDestroy(streams[i]));
}

static void test_special_streams(rig *self)
{
    fry_device *device = rig_device(self, "cuda:0", 0);
    const CUstream special[] = {NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
    char *host = rig_pinned(KIB, 4), *gpu = rig_on_gpu(0, KIB, 0);
    for (size_t i = 0; i < 3; i++) {
        emu_hold();
        OK(cuMemcpyAsync((CUdeviceptr)(uintptr_t)gpu, (CUdeviceptr)(uintptr_t)host, KIB,
                         special[i]));
        fry_event event = record(self, device, special[i]);
        GIVES(rig_fired(self, event.stream), event.sequence - 1);
        emu_release();
        rig_await(self, event);
    }
    /* The other GPU's legacy stream, whatever the thread's own context is. */
    fry_device *second = rig_device(self, "cuda:1", 0);
    fry_event event = record(self, second, NULL);
    CHECK(event.stream->device == second);
    rig_await(self, event);
    rig_free_pinned(host);
    rig_free_on_gpu(gpu);
}

static void test_foreign(rig *self)
{
    fry_device *device = rig_device(self, "cuda:0", 0);
    CUstream elsewhere = new_stream(1), user;
    fry_event event = {0};
    GIVES(rig_record(self, device, elsewhere, &event), FERRY_E_INVALID);
    CHECK(strstr(self->fault.message, "a stream of another device") != NULL);

    /* Another context on the same GPU: over a bridge, whose ring is its own. */
    CUcontext context, left;
    OK(cuCtxCreate(&context, NULL, 0, 0));
    OK(cuStreamCreate(&user, CU_STREAM_NON_BLOCKING));
    OK(cuCtxPopCurrent(&left));
    emu_hold_stream(user);
    emu_counters before, after;
    emu_get_counters(&before);
    fry_event first = record(self, device, user), second = record(self, device, user);
    CHECK(first.stream == second.stream && second.sequence == first.sequence + 1);
    (void)emu_settle();
    GIVES(rig_fired(self, first.stream), 0);
    emu_release_stream(user);
    rig_await(self, second);
    emu_get_counters(&after);
    GIVES(after.live_events, before.live_events + 2); /* the ring's slots keep theirs */
    OK(cuStreamDestroy(elsewhere));
    OK(cuStreamDestroy(user));
    OK(cuCtxDestroy(context));
}

static void test_wrap(rig *self)
{
    fry_device *device = rig_device(self, "cuda:0", 0);
    CUstream user = new_stream(0);
    CUevent mine = new_event();
    fry_event event = {0};
    OK(cuEventRecord(mine, user));
    (void)emu_settle();
    event.stream = rig_main(device, FRY_CUDA_TO_HOST);
    OK(rig_wrap(self, device, mine, user, &event));
    CHECK(event.stream == NULL); /* it has fired */

    /* As it is now: recording it anew changes nothing. */
    CUstream later = new_stream(0);
    emu_hold_stream(user);
    emu_hold_stream(later);
    OK(cuEventRecord(mine, user));
    OK(rig_wrap(self, device, mine, user, &event));
    rig_entered(event);
    OK(cuEventRecord(mine, later));
    fry_event again = {0};
    OK(rig_wrap(self, device, mine, later, &again));
    rig_entered(again);
    CHECK(again.stream != event.stream);
    emu_release_stream(user);
    rig_await(self, event);
    GIVES(rig_fired(self, again.stream), again.sequence - 1);
    emu_release_stream(later);
    rig_await(self, again);

    /* Of unknown streams none waits behind another, so there are as many as there are bridges. */
    emu_hold();
    fry_event unknown[FRY_CUDA_BRIDGE_COUNT];
    for (size_t i = 0; i < FRY_CUDA_BRIDGE_COUNT; i++) {
        OK(cuEventRecord(mine, user));
        OK(rig_wrap(self, device, mine, NULL, &unknown[i]));
        rig_entered(unknown[i]);
        for (size_t j = 0; j < i; j++)
            CHECK(unknown[j].stream != unknown[i].stream);
    }
    GIVES(rig_wrap(self, device, mine, NULL, &event), FERRY_E_AGAIN);
    emu_release();
    for (size_t i = 0; i < FRY_CUDA_BRIDGE_COUNT; i++)
        rig_await(self, unknown[i]);
    OK(cuEventDestroy(mine));
    OK(cuStreamDestroy(user));
    OK(cuStreamDestroy(later));
}

/* A bridge that waits for an event but got no mark behind it holds up nobody who comes after. */
static void test_wrap_fails_late(rig *self)
{
    fry_device *device = rig_device(self, "cuda:0", 0);
    CUstream held = new_stream(0), other = new_stream(0);
    CUevent mine = new_event(), next = new_event();
    fry_event event;
    emu_hold_stream(held);
    emu_hold_stream(other);
    OK(cuEventRecord(mine, held));
    OK(cuEventRecord(next, other));
    OK(emu_fail_call("cuEventCreate", 1, CUDA_ERROR_OUT_OF_MEMORY));
    GIVES(rig_wrap(self, device, mine, held, &event), FERRY_E_NO_MEMORY);
    OK(emu_fail_call("cuEventRecord", 1, CUDA_ERROR_OUT_OF_MEMORY));
    GIVES(rig_wrap(self, device, mine, NULL, &event), FERRY_E_NO_MEMORY);
    OK(rig_wrap(self, device, next, other, &event));
    rig_entered(event);
    emu_release_stream(other);
    rig_await(self, event);
    emu_release_stream(held);
    OK(cuEventDestroy(mine));
    OK(cuEventDestroy(next));
    OK(cuStreamDestroy(held));
    OK(cuStreamDestroy(other));
}

/* A program's stream waits for a copy, on its own GPU and another. */
static void test_stream_wait(rig *self)
{
    fry_device *devices[2] = {rig_device(self, "cuda:0", 0), rig_device(self, "cuda:1", 0)};
    fry_stream *stream = rig_main(devices[0], FRY_CUDA_FROM_HOST);
    char *host = rig_pinned(128 * KIB, 6), *gpu = rig_on_gpu(0, 64 * KIB, 0);
    for (int i = 0; i < 2; i++) {
        CUstream user = new_stream(i);
        memset(gpu, 0, 64 * KIB);
        memset(host + 64 * KIB, 0, 64 * KIB);
        emu_hold_stream(fry_cuda_stream_of(stream)->native);
        fry_event event = rig_copy(self, stream, gpu, host, 64 * KIB, NULL, 0);
        GIVES(rig_stream_wait(self, devices[i], user, event), FERRY_E_NOT_ISSUED);
        rig_flush(stream);
        OK(rig_stream_wait(self, devices[i], user, event));
        OK(cuMemcpyAsync((CUdeviceptr)(uintptr_t)(host + 64 * KIB), (CUdeviceptr)(uintptr_t)gpu,
                         64 * KIB, user));
        (void)emu_settle();
        CHECK(rig_is_all(host + 64 * KIB, 0, 64 * KIB));
        emu_release_stream(fry_cuda_stream_of(stream)->native);
        (void)emu_settle();
        CHECK(rig_is_all(host + 64 * KIB, 6, 64 * KIB));

        /* What has fired is not waited for, looked at or not, its slot in use or not. */
        uint64_t waits = rig_calls("cuStreamWaitEvent");
        OK(rig_stream_wait(self, devices[i], user, event));
        rig_await(self, event);
        for (size_t j = 0; j < FRY_STREAM_DEPTH; j++)
            (void)rig_copy(self, stream, gpu + j, host, 1, NULL, 0);
        OK(rig_stream_wait(self, devices[i], user, event));
        GIVES(rig_calls("cuStreamWaitEvent"), waits);
        rig_flush(stream);
        rig_await(self, (fry_event){stream, stream->issued});
        OK(cuStreamDestroy(user));
    }
    rig_free_pinned(host);
    rig_free_on_gpu(gpu);
}

/* While a stream is captured the module works on, refuses that stream, and harms nothing. */
static void test_capture(rig *self, CUstreamCaptureMode mode, bool is_blocking)
{
    fry_device *device = rig_device(self, "cuda:0", 0);
    fry_stream *stream = rig_main(device, FRY_CUDA_FROM_HOST);
    char *host = rig_pinned(256 * KIB, 2), *gpu = rig_on_gpu(0, 256 * KIB, 0);
    CUstream user, other = new_stream(0);
    CUevent captured = new_event(), pending = new_event();
    OK(cuStreamCreate(&user, is_blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
    fry_event before = rig_copy(self, stream, gpu, host, KIB, NULL, 0);
    rig_flush(stream);
    emu_hold_stream(other);
    OK(cuEventRecord(pending, other));

    OK(cuStreamBeginCapture(user, mode));
    OK(cuMemcpyAsync((CUdeviceptr)(uintptr_t)gpu, (CUdeviceptr)(uintptr_t)host, KIB, user));
    fry_event event = {0};
    GIVES(rig_record(self, device, user, &event), FERRY_E_CAPTURE);
    GIVES(self->fault.domain != NULL, 1);
    GIVES(rig_stream_wait(self, device, user, before), FERRY_E_CAPTURE);
    if (is_blocking) {
        GIVES(rig_record(self, device, NULL, &event), FERRY_E_CAPTURE);
        GIVES(rig_stream_wait(self, device, NULL, before), FERRY_E_CAPTURE);
    }
    OK(cuEventRecord(captured, user));
    GIVES(rig_wrap(self, device, captured, user, &event), FERRY_E_CAPTURE);

    /* Everything else: copies, waits, questions, events, a device, memory. */
    rig_await(self, before);
    OK(rig_record(self, device, other, &event));
    rig_entered(event);
    fry_event wrapped = {0};
    OK(rig_wrap(self, device, pending, other, &wrapped));
    rig_entered(wrapped);
    fry_event behind =
        rig_copy(self, rig_parked(device, 0), gpu + 8 * KIB, host + 8 * KIB, KIB, &event, 1);
    rig_flush(behind.stream);
    for (int i = 0; i < 10; i++) {
        stepped_clock_step(&self->stepped, 10 * MS);
        GIVES(rig_fired(self, behind.stream), behind.sequence - 1);
    }
    (void)rig_device(self, "cuda:0/1", 0);
    emu_release_stream(other);
    rig_await(self, behind);
    rig_await(self, wrapped);

    CUgraph graph;
    CUgraphExec launch;
    OK(cuStreamEndCapture(user, &graph));
    OK(cuGraphInstantiate(&launch, graph, 0));
    memset(gpu, 0, KIB);
    OK(cuGraphLaunch(launch, user));
    OK(rig_record(self, device, user, &event)); /* now it is one like others */
    rig_entered(event);
    rig_await(self, event);
    CHECK(rig_is_all(gpu, 2, KIB));
    OK(cuGraphExecDestroy(launch));
    OK(cuGraphDestroy(graph));
    OK(cuEventDestroy(captured));
    OK(cuEventDestroy(pending));
    OK(cuStreamDestroy(user));
    OK(cuStreamDestroy(other));
    rig_free_pinned(host);
    rig_free_on_gpu(gpu);
}

int main(void)
{
    rig self;
    RIG_RUN(&self, test_record(&self, FERRY_COMPLETION_WORDS));
    RIG_RUN(&self, test_record(&self, FERRY_COMPLETION_EVENTS));
    RIG_RUN(&self, test_event_alone(&self));
    RIG_RUN(&self, test_event_relied_on(&self));
    RIG_RUN(&self, test_rings(&self));
    RIG_RUN(&self, test_special_streams(&self));
    RIG_RUN(&self, test_foreign(&self));
    RIG_RUN(&self, test_wrap(&self));
    RIG_RUN(&self, test_wrap_fails_late(&self));
    RIG_RUN(&self, test_stream_wait(&self));
    RIG_RUN(&self, test_capture(&self, CU_STREAM_CAPTURE_MODE_GLOBAL, false));
    RIG_RUN(&self, test_capture(&self, CU_STREAM_CAPTURE_MODE_GLOBAL, true));
    RIG_RUN(&self, test_capture(&self, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, true));
    RIG_RUN(&self, test_capture(&self, CU_STREAM_CAPTURE_MODE_RELAXED, false));
    return EXIT_SUCCESS;
}
