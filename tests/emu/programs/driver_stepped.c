/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What emu.h adds to CUDA: holding streams back, errors, bounds, counters. argv[1] names the case,
 * as most leave a device that is of no use any more. Runs on the emulator alone.
 */
#include "program.h"

#include "tests/emu/emu.h"
#include <cuda.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#define BYTES ((size_t)4096)
#define DEPTH 1024 /* operations of a stream before a call blocks */

static CUcontext context;
static CUstream a, b;
static CUdeviceptr memory;
static unsigned char *pinned;
static CUevent event;

static emu_counters counters(void)
{
    emu_counters now;

    emu_get_counters(&now);
    return now;
}

static void copy_in(CUstream stream)
{
    OK(cuMemcpyHtoDAsync(memory, pinned, BYTES, stream));
}

static void hold(void)
{
    emu_hold();
    emu_hold(); /* counted */
    copy_in(a);
    OK(cuEventRecord(event, a));
    GIVES(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    emu_release();
    GIVES(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
    emu_release();
    OK(cuEventSynchronize(event));
    OK(cuStreamQuery(a));
    CHECK(emu_call_count("cuEventQuery") == 1 && emu_call_count("cuStreamQuery") == 2);
    CHECK(emu_call_count("cuNoSuchThing") == 0);
}

/* Queries and waits mean the last record at the time of the call. */
static void last_record(void)
{
    emu_hold_stream(a);
    OK(cuEventRecord(event, b));
    OK(cuStreamSynchronize(b));
    OK(cuEventQuery(event));
    OK(cuStreamWaitEvent(b, event, 0));
    OK(cuEventRecord(event, a));
    GIVES(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    OK(cuStreamSynchronize(b)); /* waited for the earlier record */
    OK(cuStreamWaitEvent(b, event, 0));
    GIVES(cuStreamQuery(b), CUDA_ERROR_NOT_READY);
    emu_release_stream(a);
    OK(cuStreamSynchronize(b));
    OK(cuEventQuery(event));
}

/* Blocking streams and the legacy one stand behind each other; others don't care. */
static void legacy(void)
{
    CUstream blocking, other;

    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    OK(cuStreamCreate(&other, CU_STREAM_DEFAULT));
    emu_hold_stream(blocking);
    copy_in(blocking);
    OK(cuMemsetD8Async(memory + BYTES, 0, 1, NULL));
    OK(cuMemsetD8Async(memory + BYTES, 0, 1, other));
    GIVES(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    GIVES(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
    OK(cuMemsetD8Async(memory + 2 * BYTES, 0, 1, a));
    OK(cuStreamSynchronize(a));
    GIVES(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
    emu_release_stream(blocking);
    OK(cuStreamSynchronize(other));
    OK(cuStreamQuery(NULL));
    OK(cuStreamQuery(blocking));
}

static _Atomic(bool) is_back;

static void *one_too_many(void *arg)
{
    (void)arg;
    OK(cuCtxSetCurrent(context));
    copy_in(a);
    is_back = true;
    return NULL;
}

static void full(void)
{
    pthread_t thread;

    emu_hold();
    for (int i = 0; i < DEPTH; i++)
        copy_in(a);
    CHECK(counters().blocked == 0);
    CHECK(pthread_create(&thread, NULL, one_too_many, NULL) == 0);
    while (counters().blocked == 0)
        sched_yield();
    OK(cuEventRecord(event, b)); /* other streams take work meanwhile */
    CHECK(!is_back);
    emu_release();
    CHECK(pthread_join(thread, NULL) == 0);
    OK(cuStreamSynchronize(a));
    CHECK(counters().blocked == 1 && is_back);
}

static _Atomic(int) begun;
static _Atomic(bool) may_end;

static void begin_and_wait(void *unused)
{
    (void)unused;
    begun++;
    while (!may_end)
        sched_yield();
}

static void only_begin(void *unused)
{
    (void)unused;
    begun++;
}

/* Whether what is put into `b` has to wait for what `a` is held up by: copies, then all else. */
static void queues(bool are_shared)
{
    const CUresult wanted = are_shared ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;

    emu_hold_stream(a);
    copy_in(a);
    OK(cuMemsetD8Async(memory + BYTES, 0, 1, b));
    emu_settle();
    GIVES(cuStreamQuery(b), wanted);
    emu_release_stream(a);
    OK(cuStreamSynchronize(a));
    OK(cuStreamSynchronize(b));

    /* An operation that has begun holds up none but those behind it in its stream... */
    OK(cuLaunchHostFunc(a, begin_and_wait, NULL));
    OK(cuLaunchHostFunc(b, only_begin, NULL));
    OK(cuStreamSynchronize(b));
    while (begun != 2)
        sched_yield();
    /* ...but these do, once others come behind them; copies don't stand there. */
    OK(cuLaunchHostFunc(a, only_begin, NULL));
    OK(cuMemsetD8Async(memory + BYTES, 0, 1, b));
    OK(cuStreamSynchronize(b));
    OK(cuLaunchHostFunc(b, only_begin, NULL));
    if (!are_shared)
        OK(cuStreamSynchronize(b));
    CHECK(begun == (are_shared ? 2 : 3));
    may_end = true;
    OK(cuStreamSynchronize(a));
    OK(cuStreamSynchronize(b));
    CHECK(begun == 4);
}

static void queue_shared(void)
{
    queues(true);
}

static void queue_own(void)
{
    queues(false);
}

/* Half of the room is the other stream's. */
static void queue_full(void)
{
    pthread_t thread;

    emu_hold();
    for (int i = 0; i < DEPTH / 2; i++) {
        copy_in(a);
        OK(cuMemsetD8Async(memory + BYTES, 0, 1, b));
    }
    CHECK(counters().blocked == 0);
    CHECK(pthread_create(&thread, NULL, one_too_many, NULL) == 0);
    while (counters().blocked == 0)
        sched_yield();
    CHECK(!is_back);
    emu_release();
    CHECK(pthread_join(thread, NULL) == 0);
    OK(cuCtxSynchronize());
    CHECK(counters().blocked == 1 && is_back);
}

static void queue_full_own(void)
{
    emu_hold();
    for (int i = 0; i < DEPTH; i++) {
        copy_in(a);
        OK(cuMemsetD8Async(memory + BYTES, 0, 1, b));
    }
    CHECK(counters().blocked == 0);
    emu_release();
    OK(cuCtxSynchronize());
}

static _Atomic(bool) is_recorded;

static void *record_elsewhere(void *unused)
{
    OK(cuCtxSetCurrent(context));
    OK(cuEventRecord(event, b));
    is_recorded = true;
    return unused;
}

/* With FERRY_EMU_LOCKS: whoever waits in a call keeps others out of the context. */
static void locked_by(void *(*wait)(void *), const char *call)
{
    pthread_t waits, other;

    CHECK(pthread_create(&waits, NULL, wait, NULL) == 0);
    while (emu_call_count(call) == 0 || (wait == one_too_many && counters().blocked == 0))
        sched_yield();
    CHECK(pthread_create(&other, NULL, record_elsewhere, NULL) == 0);
    while (emu_call_count("cuEventRecord") == 0)
        sched_yield();
    CHECK(!is_recorded && !is_back);
    emu_release();
    CHECK(pthread_join(waits, NULL) == 0 && pthread_join(other, NULL) == 0);
    CHECK(is_recorded && is_back);
}

static void full_locked(void)
{
    emu_hold();
    for (int i = 0; i < DEPTH; i++)
        copy_in(a);
    locked_by(one_too_many, "cuCtxSetCurrent");
}

static CUdeviceptr to_be_freed;

static void *free_it(void *unused)
{
    OK(cuCtxSetCurrent(context));
    OK(cuMemFree(to_be_freed));
    is_back = true;
    return unused;
}

static void free_locked(void)
{
    OK(cuMemAlloc(&to_be_freed, BYTES));
    emu_hold();
    copy_in(a);
    locked_by(free_it, "cuMemFree");
}

/* A copy goes on, whatever another stream is at: also the first one, unless copies load lazily. */
static void eager(void)
{
    may_end = false;
    OK(cuLaunchHostFunc(b, begin_and_wait, NULL));
    copy_in(a);
    OK(cuStreamSynchronize(a));
    may_end = true;
    OK(cuStreamSynchronize(b));
}

/* With FERRY_EMU_LAZY: the first copy of its form and direction waits, the next does not. */
static void lazy(void)
{
    pthread_t thread;

    OK(cuLaunchHostFunc(b, begin_and_wait, NULL));
    CHECK(pthread_create(&thread, NULL, one_too_many, NULL) == 0);
    while (emu_call_count("cuMemcpyHtoDAsync") == 0)
        sched_yield();
    OK(cuEventRecord(event, a)); /* others' calls go on */
    CHECK(!is_back);
    may_end = true;
    CHECK(pthread_join(thread, NULL) == 0 && is_back);
    eager();
}

static void calls_fail(void)
{
    OK(emu_fail_call("cuMemsetD8Async", 2, CUDA_ERROR_OUT_OF_MEMORY));
    GIVES(emu_fail_call("cuNoSuchThing", 1, CUDA_ERROR_UNKNOWN), CUDA_ERROR_NOT_FOUND);
    OK(cuMemsetD8Async(memory, 1, 1, a));
    GIVES(cuMemsetD8Async(memory, 2, 1, a), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuStreamSynchronize(a));
    CHECK(*(unsigned char *)memory == 1);
    OK(cuMemsetD8Async(memory, 3, 1, a));
    OK(emu_fail_call("cuEventRecord", 0, CUDA_ERROR_UNKNOWN));
    GIVES(cuEventRecord(event, a), CUDA_ERROR_UNKNOWN);
    GIVES(cuEventRecord(event, a), CUDA_ERROR_UNKNOWN);
    OK(emu_fail_call("cuEventRecord", 0, CUDA_SUCCESS));
    OK(cuEventRecord(event, a));
    OK(cuEventSynchronize(event));
}

static void operation_fails(void)
{
    memset((void *)memory, 0, BYTES);
    memset(pinned, 1, BYTES);
    emu_fail_operation(2, CUDA_ERROR_ILLEGAL_ADDRESS);
    emu_hold();
    OK(cuMemcpyHtoDAsync(memory, pinned, 10, a));
    OK(cuMemcpyHtoDAsync(memory + 10, pinned, 10, a));
    OK(cuMemcpyHtoDAsync(memory + 20, pinned, 10, a));
    emu_release();
    GIVES(cuStreamSynchronize(a), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(((char *)memory)[9] == 1 && ((char *)memory)[10] == 0 && ((char *)memory)[20] == 0);
    /* Sticky, for all of the context's. */
    GIVES(cuStreamQuery(b), CUDA_ERROR_ILLEGAL_ADDRESS);
    GIVES(cuMemAlloc(&memory, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
    GIVES(cuEventDestroy(event), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(counters().live_events == 0); /* but gone it is */
    OK(cuDevicePrimaryCtxReset(0));
    OK(cuMemAlloc(&memory, 1));
}

static void *wait_for_b(void *arg)
{
    CUresult *result = arg;

    OK(cuCtxSetCurrent(context));
    is_back = true;
    *result = cuStreamSynchronize(b);
    return NULL;
}

static void device_lost(void)
{
    CUcontext there;
    pthread_t thread;
    CUresult result = CUDA_SUCCESS;
    CUdeviceptr elsewhere;

    emu_hold_stream(b);
    memset((void *)memory, 0, BYTES);
    memset(pinned, 1, BYTES);
    copy_in(b);
    CHECK(pthread_create(&thread, NULL, wait_for_b, &result) == 0);
    while (!is_back)
        sched_yield();
    GIVES(emu_lose_device(0, CUDA_SUCCESS), CUDA_ERROR_INVALID_VALUE);
    OK(emu_lose_device(0, CUDA_ERROR_DEVICE_UNAVAILABLE));
    CHECK(pthread_join(thread, NULL) == 0 && result == CUDA_ERROR_DEVICE_UNAVAILABLE);
    emu_release_stream(b);
    GIVES(cuStreamQuery(a), CUDA_ERROR_DEVICE_UNAVAILABLE);
    GIVES(cuCtxSynchronize(), CUDA_ERROR_DEVICE_UNAVAILABLE);
    GIVES(cuDevicePrimaryCtxRetain(&there, 0), CUDA_ERROR_DEVICE_UNAVAILABLE);
    CHECK(*(char *)memory == 0);
    /* The other device is well. */
    OK(cuDevicePrimaryCtxRetain(&there, 1));
    OK(cuCtxSetCurrent(there));
    OK(cuMemAlloc(&elsewhere, BYTES));
    OK(cuMemsetD8(elsewhere, 1, BYTES));
    OK(cuCtxSynchronize());
}

static void hang(void)
{
    emu_hang_stream(a);
    emu_never_fire(event);
    copy_in(a);
    OK(cuMemsetD8Async(memory + BYTES, 0, 1, b));
    OK(cuEventRecord(event, b));
    OK(cuStreamSynchronize(b));
    GIVES(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    GIVES(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
    OK(cuStreamWaitEvent(b, event, 0));
    GIVES(cuStreamQuery(b), CUDA_ERROR_NOT_READY);
}

static void memory_limit(void)
{
    CUdeviceptr more;
    size_t free_bytes, total_bytes;

    OK(emu_set_memory_limit(0, counters().live_device_bytes + BYTES));
    GIVES(cuMemAlloc(&more, BYTES + 1), CUDA_ERROR_OUT_OF_MEMORY);
    GIVES(cuMemAllocAsync(&more, BYTES + 1, a), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAlloc(&more, BYTES));
    OK(cuMemGetInfo(&free_bytes, &total_bytes));
    CHECK(free_bytes == 0);
    OK(cuMemFree(more));
    OK(cuMemAlloc(&more, BYTES));
}

/* From the environment: the third memset of one byte fails, and so does the second operation. */
static void script(void)
{
    OK(cuMemsetD8Async(memory, 1, 1, a));
    OK(cuMemsetD8Async(memory, 1, 1, a));
    GIVES(cuMemsetD8Async(memory, 1, 1, a), CUDA_ERROR_INVALID_VALUE);
    GIVES(cuStreamSynchronize(a), CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* With the timing model: who is next at the only engine. */
static void priorities(void)
{
    CUstream streams[3];
    CUevent events[3];
    const int wanted[3] = {0, -1, -5};
    float milliseconds;

    emu_hold_engines();
    for (size_t i = 0; i < 3; i++) {
        OK(cuStreamCreateWithPriority(&streams[i], CU_STREAM_NON_BLOCKING, wanted[i]));
        OK(cuEventCreate(&events[i], CU_EVENT_DEFAULT));
        OK(cuMemcpyHtoDAsync(memory + i * BYTES, pinned, BYTES, streams[i]));
        OK(cuEventRecord(events[i], streams[i]));
        while (counters().waiting_copies != i + 1)
            sched_yield();
    }
    emu_release_engines();
    OK(cuCtxSynchronize());
    OK(cuEventElapsedTime(&milliseconds, events[2], events[1]));
    CHECK(milliseconds > 0);
    OK(cuEventElapsedTime(&milliseconds, events[1], events[0]));
    CHECK(milliseconds > 0);
}

/* With the timing model: a number that a stream writes keeps what is behind it waiting. */
static void bubbles(void)
{
    enum { MARKS = 200 };
    CUevent events[2];
    float written_ms;

    for (size_t i = 0; i < 2; i++)
        OK(cuEventCreate(&events[i], CU_EVENT_DEFAULT));
    emu_hold();
    OK(cuEventRecord(events[0], a));
    for (unsigned i = 0; i < MARKS; i++)
        OK(cuStreamWriteValue32(a, memory, i, 0));
    OK(cuEventRecord(events[1], a));
    emu_release();
    OK(cuCtxSynchronize());
    OK(cuEventElapsedTime(&written_ms, events[0], events[1]));
    CHECK(written_ms >= MARKS * 1.5e-3F);
}

/* The process ends while streams have work that is held back. */
static void leave(void)
{
    emu_hold();
    for (int i = 0; i < 100; i++)
        copy_in(a);
    OK(cuEventRecord(event, a));
    OK(cuStreamWaitEvent(b, event, 0));
}

/* Caught, but only counted: it does no harm. */
static void counted(void)
{
    emu_count_catches(true);
    OK(cuMemFreeHost(pinned));
    OK(cuMemcpyHtoDAsync(memory, pinned, BYTES, a));
    OK(cuStreamSynchronize(a));
    CHECK(emu_caught(EMU_CATCH_FREED) == 1 && emu_caught(EMU_CATCH_UNORDERED) == 0);
    CHECK(counters().caught == 1);
}

static void count_up(void *arg)
{
    atomic_fetch_add((_Atomic(int) *)arg, 1);
}

/* A stream that was destroyed while it was held back still does its work, and counts as undone. */
static void destroyed_stream(void)
{
    _Atomic(int) count = 0;

    emu_hold();
    OK(cuLaunchHostFunc(a, count_up, &count));
    OK(cuStreamDestroy(a));
    CHECK(counters().live_streams == 1 && count == 0);
    emu_release();
    OK(cuCtxSynchronize());
    CHECK(count == 1);
}

/* A context that is destroyed takes its pending work with it. */
static void context_with_work(void)
{
    CUcontext own;
    CUstream stream;
    CUdeviceptr there;

    OK(cuCtxCreate(&own, NULL, 0, 0));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&there, BYTES));
    emu_hold();
    OK(cuMemsetD8Async(there, 0, BYTES, stream));
    OK(cuEventRecord(event, a));
    OK(cuStreamWaitEvent(stream, event, 0));
    OK(cuCtxDestroy(own));
    emu_release();
    OK(cuCtxSynchronize());
    CHECK(counters().live_contexts == 1 && counters().live_streams == 2);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"hold", hold},
    {"last_record", last_record},
    {"legacy", legacy},
    {"full", full},
    {"queue_shared", queue_shared},
    {"queue_own", queue_own},
    {"queue_full", queue_full},
    {"queue_full_own", queue_full_own},
    {"full_locked", full_locked},
    {"free_locked", free_locked},
    {"lazy", lazy},
    {"eager", eager},
    {"calls_fail", calls_fail},
    {"operation_fails", operation_fails},
    {"device_lost", device_lost},
    {"hang", hang},
    {"memory_limit", memory_limit},
    {"script", script},
    {"priorities", priorities},
    {"bubbles", bubbles},
    {"leave", leave},
    {"counted", counted},
    {"destroyed_stream", destroyed_stream},
    {"context_with_work", context_with_work},
};

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(argv[1], cases[i].name) != 0)
            continue;
        OK(cuInit(0));
        OK(cuDevicePrimaryCtxRetain(&context, 0));
        OK(cuCtxSetCurrent(context));
        OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
        OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
        OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        OK(cuMemAlloc(&memory, 4 * BYTES));
        OK(cuMemAllocHost((void **)&pinned, BYTES));
        cases[i].run();
        printf("%s: done\n", argv[1]);
        return EXIT_SUCCESS;
    }
    fprintf(stderr, "no case %s\n", argv[1]);
    return EXIT_FAILURE;
}
