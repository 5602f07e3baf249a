/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staged copies that fail: calls that are refused, no pinned memory, lost devices. Tests that leave
 * something in flight end without closing: then the backend must refuse to stop.
 */
#include "tests/module/rig.h"

#include "gpu/cuda/staged.h"

#include <unistd.h>

#define KIB ((size_t)1024)
#define MIB (KIB * KIB)
#define SIZE_BYTES (3 * MIB)

#define UNTIL(condition)                                                                           \
    while (!(condition))                                                                           \
    (void)usleep(50)

/* What is left behind stays in reach, so that it is no leak. */
static struct {
    rig rig;
    fry_device *devices[3]; /* of which 0 and 1 don't reach each other */
    char *gpu[3], *host;    /* SIZE_BYTES each, filled with their number, with 7 */
} bench;

static fry_stream *staged_at(int device, fry_cuda_way way)
{
    return &fry_cuda_device_of(bench.devices[device])->staged[way].stream;
}

static void bench_open_some(int device_count)
{
    static const char *const names[] = {"cuda:0", "cuda:1", "cuda:1/1"};
    rig_open(&bench.rig);
    (void)emu_fail_call("cuDeviceCanAccessPeer", 0, CUDA_ERROR_NOT_SUPPORTED);
    for (int i = 0; i < device_count; i++) {
        bench.devices[i] = rig_device(&bench.rig, names[i], 0);
        bench.gpu[i] = rig_on_gpu(i == 0 ? 0 : 1, SIZE_BYTES, i);
    }
    (void)emu_fail_call("cuDeviceCanAccessPeer", 0, CUDA_SUCCESS);
    bench.host = malloc(SIZE_BYTES);
    CHECK(bench.host != NULL);
    memset(bench.host, 7, SIZE_BYTES);
}

static void bench_open(void)
{
    bench_open_some(3);
}

static void bench_close(void)
{
    for (int i = 0; i < 3 && bench.gpu[i] != NULL; i++)
        rig_free_on_gpu(bench.gpu[i]);
    free(bench.host);
    rig_close(&bench.rig);
}

static fry_event issue_after(int device, fry_cuda_way way, size_t size_bytes,
                             const fry_event *waits, size_t wait_count)
{
    char *dst = way == FRY_CUDA_WAY_OUT ? bench.host : bench.gpu[device];
    char *src = way == FRY_CUDA_WAY_OUT  ? bench.gpu[device]
                : way == FRY_CUDA_WAY_IN ? bench.host
                                         : bench.gpu[device == 0 ? 1 : 0];
    fry_stream *stream = staged_at(device, way);
    fry_event event = rig_copy(&bench.rig, stream, dst, src, size_bytes, waits, wait_count);
    rig_flush(stream);
    return event;
}

static fry_event issue(int device, fry_cuda_way way, size_t size_bytes)
{
    return issue_after(device, way, size_bytes, NULL, 0);
}

/* --- calls that are refused --- */

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define NTH_MAX 2 /* of a call's uses, which of them is refused */
#else
#define NTH_MAX 4
#endif

static const char *const calls[] = {
    "cuMemcpyAsync", "cuMemcpy2DAsync",        "cuEventRecord",     "cuStreamCreateWithPriority",
    "cuEventCreate", "cuPointerGetAttributes", "cuMemHostRegister",
};

/* Ends well or with what the call answered, and the next one well. */
static void check_end(fry_event event, CUresult result)
{
    rig *one = &bench.rig;
    rig_await(one, event);
    ferry_status status = rig_outcome(one, event);
    if (event.stream->struck == 0) {
        OK(status);
    } else {
        if (one->fault.native_code == CUDA_ERROR_OUT_OF_MEMORY)
            GIVES(status, FERRY_E_NO_MEMORY);
        else
            GIVES(status, FERRY_E_DEVICE);
        CHECK(one->fault.native_code == result ||
              one->fault.native_code == CUDA_ERROR_INVALID_VALUE);
        CHECK(strcmp(one->fault.domain, "cuda") == 0);
        CHECK(strstr(one->fault.message, "CUDA_ERROR_") != NULL);
    }
}

static uint64_t fail_each(fry_cuda_way way, const char *name, CUresult result)
{
    uint64_t struck = 0;
    for (unsigned nth = 1; nth <= NTH_MAX; nth++) {
        bench_open();
        uint64_t made = rig_calls(name);
        OK(emu_fail_call(name, nth, result));
        fry_event event = issue(0, way, SIZE_BYTES);
        check_end(event, result);
        uint64_t failed = event.stream->struck;
        made = rig_calls(name) - made;
        OK(emu_fail_call(name, nth, CUDA_SUCCESS));
        struck += failed;
        event = issue(0, way, SIZE_BYTES);
        rig_await(&bench.rig, event);
        OK(rig_outcome(&bench.rig, event));
        GIVES(event.stream->struck, failed);
        bench_close();
        if (made < nth)
            break;
    }
    return struck;
}

static void calls_are_refused(void)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        for (int way = 0; way < FRY_CUDA_WAYS; way++) {
            uint64_t struck = fail_each((fry_cuda_way)way, calls[i], CUDA_ERROR_INVALID_VALUE);
            struck += fail_each((fry_cuda_way)way, calls[i], CUDA_ERROR_OUT_OF_MEMORY);
            if (strcmp(calls[i], "cuMemcpyAsync") == 0)
                CHECK(struck >= 4);
        }
    }
}

/* Nothing can be recorded any more: the streams themselves are asked. */
static void nothing_is_recorded(void)
{
    bench_open();
    OK(emu_fail_call("cuEventRecord", 0, CUDA_ERROR_NOT_SUPPORTED));
    for (int way = 0; way < FRY_CUDA_WAYS; way++) {
        fry_event event = issue(0, (fry_cuda_way)way, SIZE_BYTES);
        rig_await(&bench.rig, event);
        OK(rig_outcome(&bench.rig, event));
    }
    OK(emu_fail_call("cuEventRecord", 0, CUDA_SUCCESS));
    bench_close();
}

/* The operation fails, but not ahead of what it had to wait for. */
static void wait_is_refused(void)
{
    bench_open_some(1); /* with one GPU the device waits */
    fry_stream *within = rig_main(bench.devices[0], FRY_CUDA_ON_DEVICE);
    char *other = rig_on_gpu(0, KIB, 0);
    rig_await(&bench.rig, issue(0, FRY_CUDA_WAY_IN, 1));
    emu_hold_stream(fry_cuda_stream_of(within)->native);
    fry_event before = rig_copy(&bench.rig, within, other, bench.gpu[0], KIB, NULL, 0);
    uint64_t waits = rig_calls("cuStreamWaitEvent");
    OK(emu_fail_call("cuStreamWaitEvent", 1, CUDA_ERROR_INVALID_VALUE));
    fry_event event = issue_after(0, FRY_CUDA_WAY_IN, SIZE_BYTES, &before, 1);
    UNTIL(rig_calls("cuStreamWaitEvent") != waits);
    for (int i = 0; i < 100; i++) {
        CHECK(rig_fired(&bench.rig, event.stream) < event.sequence);
        (void)usleep(50);
    }
    emu_release_stream(fry_cuda_stream_of(within)->native);
    rig_await(&bench.rig, event);
    GIVES(rig_outcome(&bench.rig, event), FERRY_E_DEVICE);
    GIVES(bench.rig.fault.native_code, CUDA_ERROR_INVALID_VALUE);
    CHECK(rig_is_all(bench.gpu[0] + 1, 0, SIZE_BYTES - 1));
    rig_await(&bench.rig, before);
    rig_free_on_gpu(other);
    bench_close();
}

/* --- pinned memory --- */

static void pinned_memory_is_short(void)
{
    bench_open();
    emu_counters before, now;
    /* Some of it is had. */
    emu_get_counters(&before);
    OK(emu_fail_call("cuMemHostRegister", 0, CUDA_ERROR_OUT_OF_MEMORY));
    fry_event event = issue(0, FRY_CUDA_WAY_IN, SIZE_BYTES);
    rig_await(&bench.rig, event);
    GIVES(rig_outcome(&bench.rig, event), FERRY_E_NO_MEMORY);
    GIVES(bench.rig.fault.native_code, CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(rig_is_all(bench.gpu[0], 0, SIZE_BYTES));
    uint64_t made = rig_calls("cuMemHostRegister");
    event = issue(0, FRY_CUDA_WAY_IN, SIZE_BYTES); /* each tries anew, down to the least */
    rig_await(&bench.rig, event);
    CHECK(rig_calls("cuMemHostRegister") >= made + 6);
    GIVES(event.stream->struck, 2);
    OK(emu_fail_call("cuMemHostRegister", 0, CUDA_SUCCESS));
    emu_get_counters(&now);
    GIVES(now.live_pinned_bytes, before.live_pinned_bytes);

    OK(emu_fail_call("cuMemHostRegister", 1, CUDA_ERROR_OUT_OF_MEMORY));
    event = issue(0, FRY_CUDA_WAY_IN, SIZE_BYTES);
    rig_await(&bench.rig, event);
    OK(rig_outcome(&bench.rig, event));
    emu_get_counters(&now);
    GIVES(now.live_pinned_bytes - before.live_pinned_bytes, 3 * MIB);
    CHECK(rig_is_all(bench.gpu[0], 7, SIZE_BYTES));
    CHECK(strstr(bench.rig.logged, "3072 KiB of pinned memory") != NULL);
    bench_close();
}

/* --- lost devices --- */

static void check_stuck(fry_event event, CUresult code)
{
    rig *one = &bench.rig;
    ferry_status status = FERRY_OK;
    UNTIL(rig_try_fired(one, event.stream, &status) < event.sequence && status != FERRY_OK);
    GIVES(status, FERRY_E_DEVICE);
    GIVES(one->fault.native_code, code);
    fry_copy copy = {.dst = bench.gpu[0], .src = bench.host, .size_bytes = 1, .row_count = 1};
    fry_event refused;
    GIVES(rig_try_copy(one, event.stream, &copy, NULL, 0, &refused), FERRY_E_DEVICE);
    GIVES(one->fault.native_code, code);
    GIVES(one->ops->stop(one->backend), FERRY_E_BUSY);
    GIVES(one->ops->stop(one->backend), FERRY_E_BUSY);
}

/* The other GPU's staged streams go on. */
static void check_neighbour(void)
{
    rig_await(&bench.rig, issue(1, FRY_CUDA_WAY_IN, SIZE_BYTES));
    CHECK(rig_is_all(bench.gpu[1], 7, SIZE_BYTES));
    memset(bench.host, 1, SIZE_BYTES);
    rig_await(&bench.rig, issue(1, FRY_CUDA_WAY_OUT, SIZE_BYTES));
    CHECK(rig_is_all(bench.host, 7, SIZE_BYTES));
}

static void lost_in_flight(void)
{
    bench_open();
    emu_hold();
    uint64_t copies = rig_calls("cuMemcpyAsync");
    fry_event in = issue(0, FRY_CUDA_WAY_IN, SIZE_BYTES);
    char *other = rig_on_gpu(0, KIB, 4), place[KIB] = {0};
    fry_stream *stream = staged_at(0, FRY_CUDA_WAY_OUT);
    fry_event out = rig_copy(&bench.rig, stream, place, other, KIB, NULL, 0);
    rig_flush(stream);
    UNTIL(rig_calls("cuMemcpyAsync") >= copies + 2);
    uint32_t notified = fry_load_relaxed(&bench.rig.notified);
    OK(emu_lose_device(0, CUDA_ERROR_LAUNCH_FAILED));
    UNTIL(fry_load_relaxed(&bench.rig.notified) != notified); /* the engine is told */
    emu_release();
    check_stuck(in, CUDA_ERROR_LAUNCH_FAILED);
    check_stuck(out, CUDA_ERROR_LAUNCH_FAILED);
    CHECK(rig_is_all(bench.gpu[0], 0, SIZE_BYTES));
    CHECK(rig_is_all(place, 0, KIB));
    check_neighbour();
}

static void lost_by_a_query(void)
{
    bench_open();
    emu_hold();
    uint64_t queries = rig_calls("cuEventQuery");
    fry_event in = issue(0, FRY_CUDA_WAY_IN, SIZE_BYTES);
    UNTIL(rig_calls("cuEventQuery") != queries);
    OK(emu_fail_call("cuEventQuery", 1, CUDA_ERROR_ILLEGAL_ADDRESS));
    check_stuck(in, CUDA_ERROR_ILLEGAL_ADDRESS);
    emu_release();
    check_neighbour();
}

/* What waits for a lost GPU fails; what comes behind it does not. */
static void neighbour_is_lost(void)
{
    bench_open();
    rig *one = &bench.rig;
    fry_stream *within = rig_main(bench.devices[0], FRY_CUDA_ON_DEVICE);
    char *other = rig_on_gpu(0, KIB, 0);
    emu_hold_stream(fry_cuda_stream_of(within)->native);
    fry_event native = rig_copy(one, within, other, bench.gpu[0], KIB, NULL, 0);
    uint64_t copies = rig_calls("cuMemcpyAsync");
    fry_event staged = issue_after(0, FRY_CUDA_WAY_IN, KIB, &native, 1);
    fry_event after_native = issue_after(1, FRY_CUDA_WAY_IN, SIZE_BYTES, &native, 1);
    fry_event after_staged = issue_after(1, FRY_CUDA_WAY_OUT, SIZE_BYTES, &staged, 1);
    fry_event next = issue(1, FRY_CUDA_WAY_OUT, KIB);
    UNTIL(rig_calls("cuMemcpyAsync") >= copies + 1);
    for (int i = 0; i < 100; i++) {
        CHECK(rig_fired(one, after_native.stream) < after_native.sequence);
        CHECK(rig_fired(one, after_staged.stream) < after_staged.sequence);
        (void)usleep(50);
    }
    OK(emu_lose_device(0, CUDA_ERROR_LAUNCH_FAILED));
    rig_await(one, after_native);
    GIVES(rig_outcome(one, after_native), FERRY_E_DEVICE);
    GIVES(one->fault.native_code, CUDA_ERROR_LAUNCH_FAILED);
    rig_await(one, after_staged);
    GIVES(rig_outcome(one, after_staged), FERRY_E_DEVICE);
    rig_await(one, next);
    OK(rig_outcome(one, next));
    CHECK(rig_is_all(bench.host, 1, KIB) && rig_is_all(bench.host + KIB, 7, SIZE_BYTES - KIB));
    CHECK(rig_is_all(bench.gpu[1], 1, SIZE_BYTES));
    memset(bench.host, 7, SIZE_BYTES);
    check_neighbour();
    check_stuck(staged, CUDA_ERROR_LAUNCH_FAILED);
}

/* What waits for a stream of its own GPU that waits for a lost one fails too. */
static void neighbours_neighbour_is_lost(void)
{
    bench_open();
    rig *one = &bench.rig;
    fry_stream *far = rig_main(bench.devices[1], FRY_CUDA_ON_DEVICE);
    fry_stream *near = rig_main(bench.devices[0], FRY_CUDA_ON_DEVICE);
    char *other[] = {rig_on_gpu(0, KIB, 0), rig_on_gpu(1, KIB, 0)};
    emu_hold_stream(fry_cuda_stream_of(far)->native);
    fry_event first = rig_copy(one, far, other[1], bench.gpu[1], KIB, NULL, 0);
    fry_event second = rig_copy(one, near, other[0], bench.gpu[0], KIB, &first, 1);
    fry_event staged = issue_after(0, FRY_CUDA_WAY_IN, SIZE_BYTES, &second, 1);
    char *elsewhere = rig_on_gpu(0, KIB, 0);
    fry_event next = rig_copy(one, staged.stream, elsewhere, bench.host, KIB, NULL, 0);
    rig_flush(staged.stream);
    for (int i = 0; i < 100; i++) {
        CHECK(rig_fired(one, staged.stream) < staged.sequence);
        (void)usleep(50);
    }
    OK(emu_lose_device(1, CUDA_ERROR_LAUNCH_FAILED));
    ferry_status status = FERRY_OK;
    fry_stream *const streams[] = {far, near};
    for (size_t i = 0; i < 2; i++) { /* the engine looks */
        while (status == FERRY_OK) {
            (void)rig_try_fired(one, streams[i], &status);
            stepped_clock_step(&one->stepped, 10000000);
        }
        GIVES(status, FERRY_E_DEVICE);
        status = FERRY_OK;
    }
    rig_await(one, staged);
    GIVES(rig_outcome(one, staged), FERRY_E_DEVICE);
    GIVES(one->fault.native_code, CUDA_ERROR_LAUNCH_FAILED);
    rig_await(one, next);
    OK(rig_outcome(one, next));
    CHECK(rig_is_all(elsewhere, 7, KIB) && rig_is_all(bench.gpu[0], 0, SIZE_BYTES));
}

/* A copy from a lost GPU fails and leaves its ring behind; the destination's streams go on. */
static void source_is_lost(void)
{
    bench_open();
    rig *one = &bench.rig;
    rig_await(one, issue(1, FRY_CUDA_WAY_PEER, SIZE_BYTES));
    CHECK(rig_is_all(bench.gpu[1], 0, SIZE_BYTES));
    emu_hold();
    uint64_t copies = rig_calls("cuMemcpyAsync");
    fry_event event = issue(1, FRY_CUDA_WAY_PEER, SIZE_BYTES);
    UNTIL(rig_calls("cuMemcpyAsync") >= copies + 2);
    OK(emu_lose_device(0, CUDA_ERROR_ECC_UNCORRECTABLE));
    emu_release();
    rig_await(one, event);
    GIVES(rig_outcome(one, event), FERRY_E_DEVICE);
    GIVES(one->fault.native_code, CUDA_ERROR_ECC_UNCORRECTABLE);
    event = issue(1, FRY_CUDA_WAY_PEER, SIZE_BYTES);
    rig_await(one, event);
    GIVES(rig_outcome(one, event), FERRY_E_DEVICE);
    check_neighbour();
    /* From a place that lives, on the same stream: the ring is a new one. */
    fry_stream *stream = event.stream;
    fry_event good = rig_copy(one, stream, bench.gpu[1], bench.gpu[2], SIZE_BYTES, NULL, 0);
    rig_flush(stream);
    rig_await(one, good);
    OK(rig_outcome(one, good));
    CHECK(rig_is_all(bench.gpu[1], 2, SIZE_BYTES));
    CHECK(strstr(one->logged, "because a lost GPU may still write") != NULL);
    OK(one->ops->stop(one->backend)); /* nothing of ferry's is in flight */
    one->ops->destroy(one->backend);
}

/* A stream that hangs holds up what stands in it, and nothing else. */
static void stream_hangs(void)
{
    bench_open();
    rig *one = &bench.rig;
    rig_await(one, issue(0, FRY_CUDA_WAY_IN, KIB));
    fry_cuda_staged *in = fry_cuda_staged_of(staged_at(0, FRY_CUDA_WAY_IN));
    emu_hang_stream(in->track->native);
    static char held[MIB]; /* may be read as long as it stands there */
    fry_event event = rig_copy(one, &in->stream, bench.gpu[0], held, MIB, NULL, 0);
    rig_flush(&in->stream);
    char *other = rig_on_gpu(0, KIB, 4);
    fry_stream *out = staged_at(0, FRY_CUDA_WAY_OUT);
    fry_event beside = rig_copy(one, out, bench.host + MIB, other, KIB, NULL, 0);
    rig_flush(out);
    rig_await(one, beside);
    CHECK(rig_is_all(bench.host + MIB, 4, KIB));
    memset(bench.host, 7, SIZE_BYTES);
    check_neighbour();
    bench.devices[0]->ops->cancel(event.stream, event.sequence);
    CHECK(rig_fired(one, event.stream) < event.sequence);
    GIVES(one->ops->stop(one->backend), FERRY_E_BUSY);
    check_neighbour();
}

int main(int count, char **arguments)
{
    static const rig_test tests[] = {
        {"calls_are_refused", calls_are_refused},
        {"nothing_is_recorded", nothing_is_recorded},
        {"wait_is_refused", wait_is_refused},
        {"pinned_memory_is_short", pinned_memory_is_short},
        {"lost_in_flight", lost_in_flight},
        {"lost_by_a_query", lost_by_a_query},
        {"neighbour_is_lost", neighbour_is_lost},
        {"neighbours_neighbour_is_lost", neighbours_neighbour_is_lost},
        {"source_is_lost", source_is_lost},
        {"stream_hangs", stream_hangs},
    };
    return rig_run_apart(count, arguments, tests, sizeof tests / sizeof *tests);
}
