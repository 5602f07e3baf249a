/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What fails. Each test is a process of its own, since a lost device is lost for good. Those that
 * leave something in flight end without closing: then the backend must refuse to stop.
 */
#include "tests/module/rig.h"

#define KIB ((size_t)1024)
#define MS ((int64_t)1000000)

typedef struct bench {
    rig rig;
    fry_device *device;
    fry_stream *in, *out; /* of the device: from host, to host */
    char *host, *gpu;     /* 256 KiB each, the host's filled with 5 */
} bench;

static void bench_open(bench *self, uint32_t completion)
{
    rig_open(&self->rig);
    self->device = rig_device(&self->rig, "cuda:0", completion);
    self->in = rig_main(self->device, FRY_CUDA_FROM_HOST);
    self->out = rig_main(self->device, FRY_CUDA_TO_HOST);
    self->host = rig_pinned(256 * KIB, 5);
    self->gpu = rig_on_gpu(0, 256 * KIB, 0);
}

static void bench_close(bench *self)
{
    rig_free_pinned(self->host);
    rig_free_on_gpu(self->gpu);
    rig_close(&self->rig);
}

static fry_event copy_at(bench *self, size_t kib, size_t size_bytes)
{
    return rig_copy(&self->rig, self->in, self->gpu + kib * KIB, self->host, size_bytes, NULL, 0);
}

/* The device is lost with that error, on all its streams; another goes on. */
static void check_lost(bench *self, CUresult code)
{
    rig *one = &self->rig;
    fry_stream *const streams[] = {self->in, self->out, rig_parked(self->device, 3)};
    for (size_t i = 0; i < 3; i++) {
        ferry_status status;
        memset(&one->fault, 0, sizeof one->fault);
        uint64_t queries = rig_calls("cuEventQuery");
        (void)rig_try_fired(one, streams[i], &status);
        GIVES(status, FERRY_E_DEVICE);
        CHECK(strcmp(one->fault.domain, "cuda") == 0);
        GIVES(one->fault.native_code, code);
        CHECK(strstr(one->fault.message, "CUDA_ERROR_") != NULL);
        fry_event event;
        fry_copy copy = {.dst = self->gpu, .src = self->host, .size_bytes = 1, .row_count = 1};
        memset(&one->fault, 0, sizeof one->fault);
        GIVES(rig_try_copy(one, streams[i], &copy, NULL, 0, &event), FERRY_E_DEVICE);
        GIVES(one->fault.native_code, code);
        rig_flush(streams[i]);
        GIVES(rig_calls("cuEventQuery"), queries);
    }
    fry_event event;
    GIVES(rig_record(one, self->device, NULL, &event), FERRY_E_DEVICE);
    GIVES(one->fault.native_code, code);
    CHECK(strstr(one->logged, "cuda:0 is lost: ") != NULL);
    CHECK(strstr(strstr(one->logged, " is lost") + 1, " is lost") == NULL); /* said once */

    fry_device *second = rig_device(one, "cuda:1", 0);
    char *there = rig_on_gpu(1, KIB, 0);
    event = rig_copy(one, rig_main(second, FRY_CUDA_FROM_HOST), there, self->host, KIB, NULL, 0);
    rig_flush(event.stream);
    rig_await(one, event);
    CHECK(rig_is_all(there, 5, KIB));
}

/* What failed on its way is not done, and never will be. */
static void check_stuck(bench *self, fry_event event)
{
    ferry_status status;
    CHECK(rig_try_fired(&self->rig, event.stream, &status) < event.sequence);
    GIVES(status, FERRY_E_DEVICE);
    GIVES(self->rig.ops->stop(self->rig.backend), FERRY_E_BUSY);
    GIVES(emu_caught(EMU_CATCH_UNRECORDED), 0);
}

/* --- the device is lost --- */

static void lost_in_flight(void)
{
    bench self;
    bench_open(&self, FERRY_COMPLETION_WORDS);
    fry_event done = copy_at(&self, 0, KIB);
    rig_flush(self.in);
    rig_await(&self.rig, done);
    emu_hold();
    fry_event event = copy_at(&self, 1, 100 * KIB);
    rig_flush(self.in);
    fry_event kept = copy_at(&self, 0, KIB); /* and never handed to the driver */
    OK(emu_lose_device(0, CUDA_ERROR_ILLEGAL_ADDRESS));
    emu_release();
    ferry_status status;
    GIVES(rig_try_fired(&self.rig, self.in, &status), done.sequence);
    OK(status); /* nobody knows yet */
    stepped_clock_step(&self.rig.stepped, MS);
    GIVES(rig_try_fired(&self.rig, self.in, &status), done.sequence);
    GIVES(status, FERRY_E_DEVICE);
    GIVES(rig_stream_wait(&self.rig, self.device, NULL, kept), FERRY_E_DEVICE);
    check_lost(&self, CUDA_ERROR_ILLEGAL_ADDRESS);
    check_stuck(&self, event);
}

static void lost_in_flight_by_events(void)
{
    bench self;
    bench_open(&self, FERRY_COMPLETION_EVENTS);
    emu_hold();
    fry_event event = copy_at(&self, 1, 100 * KIB);
    rig_flush(self.in);
    OK(emu_lose_device(0, CUDA_ERROR_ECC_UNCORRECTABLE));
    emu_release();
    ferry_status status;
    GIVES(rig_try_fired(&self.rig, self.in, &status), 0);
    GIVES(status, FERRY_E_DEVICE);
    check_lost(&self, CUDA_ERROR_ECC_UNCORRECTABLE);
    check_stuck(&self, event);
}

static void lost_by_an_operation(void)
{
    bench self;
    bench_open(&self, FERRY_COMPLETION_WORDS);
    emu_fail_operation(1, CUDA_ERROR_ILLEGAL_ADDRESS);
    fry_event event = copy_at(&self, 1, 100 * KIB);
    rig_flush(self.in);
    (void)emu_settle();
    /* Found by the next thing that is asked of it. */
    fry_copy copy = {.dst = self.gpu, .src = self.host, .size_bytes = 100 * KIB, .row_count = 1};
    fry_event next;
    GIVES(rig_try_copy(&self.rig, self.in, &copy, NULL, 0, &next), FERRY_E_DEVICE);
    check_lost(&self, CUDA_ERROR_ILLEGAL_ADDRESS);
    check_stuck(&self, event);
}

static void lost_while_idle(void)
{
    bench self;
    bench_open(&self, FERRY_COMPLETION_WORDS);
    OK(emu_lose_device(0, CUDA_ERROR_LAUNCH_FAILED));
    /* Small: nothing is asked of the driver before the flush. */
    fry_event event = copy_at(&self, 0, KIB);
    (void)copy_at(&self, 1, KIB);
    rig_flush(self.in);
    check_lost(&self, CUDA_ERROR_LAUNCH_FAILED);
    check_stuck(&self, event);
}

/* A question that fails is never "done". */
static void query_fails(void)
{
    bench self;
    bench_open(&self, FERRY_COMPLETION_WORDS);
    emu_hold();
    fry_event event = copy_at(&self, 0, KIB);
    rig_flush(self.in);
    GIVES(rig_fired(&self.rig, self.in), 0);
    stepped_clock_step(&self.rig.stepped, MS);
    OK(emu_fail_call("cuEventQuery", 1, CUDA_ERROR_LAUNCH_TIMEOUT));
    ferry_status status;
    GIVES(rig_try_fired(&self.rig, self.in, &status), 0);
    GIVES(status, FERRY_E_DEVICE);
    GIVES(self.rig.fault.native_code, CUDA_ERROR_LAUNCH_TIMEOUT);
    check_stuck(&self, event);
    CHECK(strstr(self.rig.logged, "cuEventQuery") != NULL);
    emu_release();
}

static void mark_fails(void)
{
    bench self;
    bench_open(&self, FERRY_COMPLETION_WORDS);
    fry_event event = copy_at(&self, 0, KIB);
    OK(emu_fail_call("cuEventRecord", 1, CUDA_ERROR_OUT_OF_MEMORY));
    rig_flush(self.in);
    check_lost(&self, CUDA_ERROR_OUT_OF_MEMORY);
    check_stuck(&self, event);
}

static void context_fails(void)
{
    bench self;
    CUcontext own;
    bench_open(&self, FERRY_COMPLETION_WORDS);
    OK(cuCtxPopCurrent(&own)); /* a thread that has the context need not enter it */
    OK(emu_fail_call("cuCtxPushCurrent", 1, CUDA_ERROR_CONTEXT_IS_DESTROYED));
    fry_copy copy = {.dst = self.gpu, .src = self.host, .size_bytes = 100 * KIB, .row_count = 1};
    fry_event event;
    GIVES(rig_try_copy(&self.rig, self.in, &copy, NULL, 0, &event), FERRY_E_DEVICE);
    check_lost(&self, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    OK(self.rig.ops->stop(self.rig.backend)); /* nothing was in flight */
}

/* A driver that does not say which context is current: it is entered. */
static void context_is_not_told(void)
{
    bench self;
    bench_open(&self, FERRY_COMPLETION_WORDS);
    uint64_t pushes = rig_calls("cuCtxPushCurrent");
    OK(emu_fail_call("cuCtxGetCurrent", 2, CUDA_ERROR_UNKNOWN)); /* the rig looks first */
    fry_event event = copy_at(&self, 1, 100 * KIB);
    GIVES(rig_calls("cuCtxPushCurrent"), pushes + 1);
    rig_await(&self.rig, event);
    bench_close(&self);
}

/* To ask whether the device lives is no harm to the thread's capture, nor refused because of it. */
static void record_fails_beside_a_capture(void)
{
    bench self;
    CUstream captured, user;
    CUgraph graph;
    fry_event event;
    bench_open(&self, FERRY_COMPLETION_WORDS);
    OK(cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&user, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(emu_fail_call("cuEventRecord", 1, CUDA_ERROR_UNKNOWN));
    GIVES(rig_record(&self.rig, self.device, user, &event), FERRY_E_DEVICE);
    CHECK(strstr(self.rig.logged, "is lost") == NULL);
    rig_await(&self.rig, copy_at(&self, 1, 100 * KIB));
    OK(cuStreamEndCapture(captured, &graph));
    OK(cuGraphDestroy(graph));
    OK(cuStreamDestroy(captured));
    OK(cuStreamDestroy(user));
    bench_close(&self);
}

/* What waits for a lost device fails, and its own device goes on. */
static void neighbour_is_lost(void)
{
    bench self;
    bench_open(&self, FERRY_COMPLETION_WORDS);
    fry_device *second = rig_device(&self.rig, "cuda:1", 0);
    fry_stream *stream = rig_main(second, FRY_CUDA_ON_DEVICE);
    char *there = rig_on_gpu(1, 256 * KIB, 0);
    emu_hold();
    fry_event event = copy_at(&self, 0, KIB);
    rig_flush(self.in);
    (void)rig_fired(&self.rig, self.in);
    OK(emu_lose_device(0, CUDA_ERROR_ILLEGAL_ADDRESS));
    emu_release();
    stepped_clock_step(&self.rig.stepped, MS);
    fry_copy copy = {.dst = there, .src = there + KIB, .size_bytes = KIB, .row_count = 1};
    fry_event behind;
    ferry_status status;
    (void)rig_try_fired(&self.rig, self.in, &status);
    GIVES(status, FERRY_E_DEVICE);
    GIVES(rig_try_copy(&self.rig, stream, &copy, &event, 1, &behind), FERRY_E_DEVICE);
    GIVES(self.rig.fault.native_code, CUDA_ERROR_ILLEGAL_ADDRESS);
    GIVES(rig_stream_wait(&self.rig, second, NULL, event), FERRY_E_DEVICE);
    fry_event free = rig_copy(&self.rig, stream, there, there + KIB, KIB, NULL, 0);
    rig_flush(stream);
    rig_await(&self.rig, free);
    check_stuck(&self, event);
}

/* Streams of another device already stand behind the lost one: they fail, others take over. */
static void neighbour_stands_behind(uint32_t completion)
{
    bench self;
    bench_open(&self, completion);
    rig *one = &self.rig;
    fry_device *second = rig_device(one, "cuda:1", completion);
    fry_device *host = &(fry_device){.ops = &(fry_device_ops){.backend = "host"}};
    fry_stream *in = second->ops->copy_stream(second, host, false);
    fry_stream *out = second->ops->copy_stream(host, second, false);
    fry_stream *on = second->ops->copy_stream(second, second, false);
    char *there = rig_on_gpu(1, 256 * KIB, 0);
    emu_hold();
    fry_event done = rig_copy(one, in, there + 200 * KIB, self.host, KIB, NULL, 0);
    fry_event event = copy_at(&self, 0, KIB);
    fry_event behind = rig_copy(one, in, there, self.host, KIB, &event, 1);
    fry_event after = rig_copy(one, in, there + KIB, self.host, KIB, NULL, 0);
    fry_event further = rig_copy(one, out, self.host + 128 * KIB, there, KIB, &behind, 1);
    fry_event parked =
        rig_copy(one, rig_parked(second, 2), there + 64 * KIB, self.host, KIB, &event, 1);
    rig_flush(in);
    rig_flush(out);
    rig_flush(parked.stream);
    OK(emu_lose_device(0, CUDA_ERROR_ILLEGAL_ADDRESS));
    emu_release();
    (void)emu_settle();
    ferry_status status;
    for (int i = 0; i < 200; i++) {
        fry_stream *const streams[] = {self.in, in, out, parked.stream, on};
        for (size_t j = 0; j < 5; j++)
            (void)rig_try_fired(one, streams[j], &status);
        stepped_clock_step(&one->stepped, MS);
    }
    GIVES(rig_try_fired(one, in, &status), done.sequence); /* what did not wait has fired */
    GIVES(status, FERRY_E_DEVICE);
    GIVES(one->fault.native_code, CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(rig_is_all(there + 200 * KIB, 5, KIB));
    CHECK(after.sequence > behind.sequence);
    GIVES(rig_try_fired(one, out, &status), further.sequence - 1);
    GIVES(status, FERRY_E_DEVICE);
    GIVES(rig_try_fired(one, parked.stream, &status), parked.sequence - 1);
    GIVES(status, FERRY_E_DEVICE);
    CHECK(strstr(one->logged, "cuda:1: a stream waits for ever for cuda:0, which is lost; another "
                              "stream takes its place") != NULL);
    CHECK(strstr(one->logged, "cuda:1 is lost") == NULL);
    fry_event none;
    fry_copy copy = {.dst = there, .src = self.host, .size_bytes = 1, .row_count = 1};
    GIVES(rig_try_copy(one, in, &copy, NULL, 0, &none), FERRY_E_DEVICE);
    GIVES(one->fault.native_code, CUDA_ERROR_ILLEGAL_ADDRESS);
    GIVES(rig_stream_wait(one, second, NULL, behind), FERRY_E_DEVICE);

    /* Others stand in their places, and see nothing of it. */
    fry_stream *new_in = second->ops->copy_stream(second, host, false);
    fry_stream *new_out = second->ops->copy_stream(host, second, false);
    CHECK(new_in != in && new_out != out && second->ops->copy_stream(second, second, false) == on);
    GIVES(new_in->kind, FRY_STREAM_MAIN);
    GIVES(rig_try_copy(one, new_in, &copy, &behind, 1, &none), FERRY_E_DEVICE);
    event = rig_copy(one, new_in, there + 128 * KIB, self.host, KIB, NULL, 0);
    event = rig_copy(one, on, there + 130 * KIB, there + 128 * KIB, KIB, &event, 1);
    event = rig_copy(one, new_out, self.host + 130 * KIB, there + 130 * KIB, KIB, &event, 1);
    rig_flush(new_out);
    rig_flush(on);
    rig_flush(new_in);
    rig_await(one, event);
    CHECK(rig_is_all(self.host + 130 * KIB, 5, KIB));
    GIVES(one->ops->stop(one->backend), FERRY_E_BUSY);
}

static void neighbour_stands_behind_by_words(void)
{
    neighbour_stands_behind(FERRY_COMPLETION_WORDS);
}

static void neighbour_stands_behind_by_events(void)
{
    neighbour_stands_behind(FERRY_COMPLETION_EVENTS);
}

/* --- calls are refused, and all else goes on --- */

static void copy_is_refused(void)
{
    bench self;
    bench_open(&self, FERRY_COMPLETION_WORDS);
    fry_copy copy = {.dst = self.gpu, .src = self.host, .size_bytes = 100 * KIB, .row_count = 1};
    fry_event event;
    OK(emu_fail_call("cuMemcpyAsync", 1, CUDA_ERROR_INVALID_VALUE));
    GIVES(rig_try_copy(&self.rig, self.in, &copy, NULL, 0, &event), FERRY_E_DEVICE);
    GIVES(self.rig.fault.native_code, CUDA_ERROR_INVALID_VALUE);
    CHECK(strncmp(self.rig.fault.message, "cuMemcpyAsync: CUDA_ERROR_INVALID_VALUE, ", 40) == 0);
    /* An error that looks like the context's, but the context answers. */
    OK(emu_fail_call("cuMemcpyAsync", 1, CUDA_ERROR_ILLEGAL_ADDRESS));
    GIVES(rig_try_copy(&self.rig, self.in, &copy, NULL, 0, &event), FERRY_E_DEVICE);
    GIVES(self.rig.fault.native_code, CUDA_ERROR_ILLEGAL_ADDRESS);
    GIVES(self.in->issued, 0);
    event = copy_at(&self, 0, 100 * KIB);
    rig_flush(self.in);
    rig_await(&self.rig, event);
    GIVES(self.in->struck, 0);
    bench_close(&self);
}

/* A batch is refused, and then one of its copies: that one fails alone. */
static void batch_is_refused(CUresult code)
{
    bench self;
    bench_open(&self, FERRY_COMPLETION_WORDS);
    fry_event events[8];
    for (size_t i = 0; i < 8; i++)
        events[i] = copy_at(&self, i, KIB);
    OK(emu_fail_call("cuMemcpyBatchAsync", 1, code));
    OK(emu_fail_call("cuMemcpyAsync", 4, CUDA_ERROR_INVALID_VALUE));
    rig_flush(self.in);
    rig_await(&self.rig, events[7]);
    GIVES(self.in->struck, 1);
    for (size_t i = 0; i < 8; i++) {
        GIVES(rig_outcome(&self.rig, events[i]), i == 3 ? FERRY_E_DEVICE : FERRY_OK);
        CHECK(rig_is_all(self.gpu + i * KIB, i == 3 ? 0 : 5, KIB));
    }
    GIVES(self.rig.fault.native_code, CUDA_ERROR_INVALID_VALUE);
    /* Whoever has its slot next has nothing to do with it. */
    fry_event last = events[7];
    for (size_t i = 0; i < FRY_STREAM_DEPTH; i++) {
        last = copy_at(&self, i % 256, 1);
        if (i % 64 != 63)
            continue;
        rig_flush(self.in);
        rig_await(&self.rig, last);
    }
    for (uint64_t i = 0; i < FRY_STREAM_DEPTH; i++)
        OK(rig_outcome(&self.rig, (fry_event){self.in, last.sequence - i}));
    bench_close(&self);
}

static void batch_is_refused_plainly(void)
{
    batch_is_refused(CUDA_ERROR_INVALID_VALUE);
}

static void batch_is_refused_oddly(void)
{
    batch_is_refused(CUDA_ERROR_UNKNOWN);
}

static void wait_is_refused(void)
{
    bench self;
    bench_open(&self, FERRY_COMPLETION_WORDS);
    rig *one = &self.rig;
    emu_hold();
    fry_event waits[2] = {copy_at(&self, 0, KIB), rig_copy(one, self.out, self.host + 128 * KIB,
                                                           self.gpu + 128 * KIB, KIB, NULL, 0)};
    fry_stream *stream = rig_main(self.device, FRY_CUDA_ON_DEVICE);
    fry_copy copy = {
        .dst = self.gpu + 64 * KIB, .src = self.gpu, .size_bytes = KIB, .row_count = 1};
    fry_event event;
    /* The first: nothing stands in the stream. */
    OK(emu_fail_call("cuStreamWaitEvent", 1, CUDA_ERROR_OUT_OF_MEMORY));
    GIVES(rig_try_copy(one, stream, &copy, waits, 2, &event), FERRY_E_DEVICE);
    GIVES(one->fault.native_code, CUDA_ERROR_OUT_OF_MEMORY);
    GIVES(stream->issued, 0);
    /* The second: the operation was begun, fires in its turn, and has copied nothing. */
    OK(emu_fail_call("cuStreamWaitEvent", 2, CUDA_ERROR_OUT_OF_MEMORY));
    OK(rig_try_copy(one, stream, &copy, waits, 2, &event));
    rig_flush(stream);
    GIVES(rig_fired(one, stream), 0);
    emu_release();
    rig_await(one, event);
    GIVES(stream->struck, 1);
    GIVES(rig_outcome(one, event), FERRY_E_DEVICE);
    GIVES(one->fault.native_code, CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(rig_is_all(self.gpu + 64 * KIB, 0, KIB));
    rig_await(one, waits[0]);
    rig_await(one, waits[1]);
    bench_close(&self);
}

/* A word can't be written any more: events take over, for that stream. */
static void word_is_refused(void)
{
    bench self;
    bench_open(&self, FERRY_COMPLETION_WORDS);
    emu_hold();
    (void)copy_at(&self, 0, KIB);
    rig_flush(self.in);
    OK(emu_fail_call("cuStreamWriteValue32", 1, CUDA_ERROR_NOT_SUPPORTED));
    fry_event event = copy_at(&self, 1, KIB);
    rig_flush(self.in);
    GIVES(rig_fired(&self.rig, self.in), 0);
    emu_release();
    rig_await(&self.rig, event);
    CHECK(strstr(self.rig.logged, "cuStreamWriteValue32: CUDA_ERROR_NOT_SUPPORTED") != NULL);
    uint64_t words = rig_calls("cuStreamWriteValue32");
    event = copy_at(&self, 2, KIB);
    rig_flush(self.in);
    GIVES(rig_calls("cuStreamWriteValue32"), words);
    rig_await(&self.rig, event);
    event = rig_copy(&self.rig, self.out, self.host + 128 * KIB, self.gpu, KIB, NULL, 0);
    rig_flush(self.out);
    GIVES(rig_calls("cuStreamWriteValue32"), words + 1);
    rig_await(&self.rig, event);
    bench_close(&self);
}

/* A mark whose word is not seen; the event is believed a millisecond later. */
static fry_event mark_without_word(bench *self)
{
    fry_event event = copy_at(self, 0, KIB);
    rig_flush(self->in);
    (void)emu_settle();
    GIVES(rig_fired(&self->rig, self->in), event.sequence - 1);
    stepped_clock_step(&self->rig.stepped, MS);
    GIVES(rig_fired(&self->rig, self->in), event.sequence);
    return event;
}

/* What a stream's words left when they were given up, and the last of them came or did not. */
static void close_wordless(bench *self, int64_t ranges)
{
    emu_counters counters;
    OK(self->rig.ops->stop(self->rig.backend));
    self->rig.ops->destroy(self->rig.backend);
    rig_free_pinned(self->host);
    emu_get_counters(&counters);
    GIVES(counters.live_pinned_ranges, ranges);
    GIVES(counters.live_streams, 0);
}

/* Words come late now and then: no harm, but the stream is not idle. Words that never come. */
static void word_does_not_arrive(void)
{
    bench self;
    bench_open(&self, FERRY_COMPLETION_WORDS);
    rig *one = &self.rig;
    fry_cuda_stream *inner = fry_cuda_stream_of(self.in);
    uint32_t elsewhere[2] = {0, 0}, *words = inner->words;
    for (int round = 0; round < 3; round++) {
        elsewhere[0] = (uint32_t)self.in->issued;
        inner->words = elsewhere;
        for (int i = 0; i < 7; i++)
            (void)mark_without_word(&self);
        GIVES(one->ops->stop(one->backend), FERRY_E_BUSY);
        inner->words = words;
        fry_event event = copy_at(&self, 0, KIB);
        rig_flush(self.in);
        (void)emu_settle();
        GIVES(rig_fired(one, self.in), event.sequence);
    }
    inner->words = elsewhere;
    for (int i = 0; i < 20; i++) { /* each came, but after its event was believed */
        elsewhere[0] = (uint32_t)self.in->issued;
        (void)mark_without_word(&self);
    }
    CHECK(one->logged[0] == '\0');

    elsewhere[0] = (uint32_t)self.in->issued;
    inner->words = elsewhere;
    for (int i = 0; i < 8; i++)
        (void)mark_without_word(&self);
    CHECK(strstr(one->logged, "do not arrive in host memory") != NULL);
    fry_event event = copy_at(&self, 0, KIB);
    rig_flush(self.in);
    (void)emu_settle();
    GIVES(rig_fired(one, self.in), event.sequence);

    close_wordless(&self, 1); /* they might be written yet, so their memory stays */
}

/* They were given up, and came after all: nothing will be written any more. */
static void word_arrives_after_all(void)
{
    bench self;
    bench_open(&self, FERRY_COMPLETION_WORDS);
    fry_cuda_stream *inner = fry_cuda_stream_of(self.in);
    uint32_t elsewhere[2] = {(uint32_t)self.in->issued, 0}, *words = inner->words;
    inner->words = elsewhere;
    for (int i = 0; i < 8; i++)
        (void)mark_without_word(&self);
    CHECK(strstr(self.rig.logged, "do not arrive in host memory") != NULL);
    (void)emu_settle();
    inner->words = words;
    close_wordless(&self, 0);
}

static void record_fails(void)
{
    bench self;
    bench_open(&self, FERRY_COMPLETION_WORDS);
    rig *one = &self.rig;
    CUstream user;
    OK(cuStreamCreate(&user, CU_STREAM_NON_BLOCKING));
    static const struct {
        const char *call;
        CUresult code;
        ferry_status status;
    } cases[] = {
        {"cuStreamIsCapturing", CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, FERRY_E_CAPTURE},
        {"cuStreamIsCapturing", CUDA_ERROR_INVALID_HANDLE, FERRY_E_INVALID},
        {"cuStreamGetId", CUDA_ERROR_INVALID_HANDLE, FERRY_E_INVALID},
        {"cuStreamGetCtx", CUDA_ERROR_INVALID_HANDLE, FERRY_E_INVALID},
        {"cuStreamGetCtx", CUDA_ERROR_UNKNOWN, FERRY_E_DEVICE},
        {"cuEventCreate", CUDA_ERROR_OUT_OF_MEMORY, FERRY_E_NO_MEMORY},
        {"cuEventRecord", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, FERRY_E_CAPTURE},
        {"cuEventRecord", CUDA_ERROR_NOT_SUPPORTED, FERRY_E_DEVICE},
    };
    fry_event event = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OK(emu_fail_call(cases[i].call, 0, cases[i].code));
        GIVES(rig_record(one, self.device, user, &event), cases[i].status);
        GIVES(one->fault.native_code, cases[i].code);
        OK(emu_fail_call(cases[i].call, 1, CUDA_SUCCESS));
    }
    /* The claims were given back, and no number was used. */
    OK(rig_record(one, self.device, user, &event));
    rig_entered(event);
    GIVES(event.sequence, 1);
    rig_await(one, event);

    CUevent mine;
    OK(cuEventCreate(&mine, CU_EVENT_DISABLE_TIMING));
    emu_hold();
    OK(cuEventRecord(mine, user));
    static const struct {
        const char *call;
        CUresult code;
        ferry_status status;
    } wraps[] = {
        {"cuEventQuery", CUDA_ERROR_CAPTURED_EVENT, FERRY_E_CAPTURE},
        {"cuEventQuery", CUDA_ERROR_INVALID_HANDLE, FERRY_E_INVALID},
        {"cuStreamGetId", CUDA_ERROR_INVALID_HANDLE, FERRY_E_INVALID},
        {"cuStreamCreateWithPriority", CUDA_ERROR_OUT_OF_MEMORY, FERRY_E_NO_MEMORY},
        {"cuStreamWaitEvent", CUDA_ERROR_INVALID_HANDLE, FERRY_E_INVALID},
        {"cuEventRecord", CUDA_ERROR_OUT_OF_MEMORY, FERRY_E_NO_MEMORY},
    };
    for (size_t i = 0; i < sizeof wraps / sizeof *wraps; i++) {
        OK(emu_fail_call(wraps[i].call, 1, wraps[i].code));
        GIVES(rig_wrap(one, self.device, mine, user, &event), wraps[i].status);
        GIVES(one->fault.native_code, wraps[i].code);
        OK(emu_fail_call(wraps[i].call, 1, CUDA_SUCCESS));
    }
    OK(rig_wrap(one, self.device, mine, user, &event));
    rig_entered(event);
    GIVES(event.sequence, 1);
    fry_event copied = copy_at(&self, 0, KIB);
    rig_flush(self.in);
    OK(emu_fail_call("cuStreamWaitEvent", 0, CUDA_ERROR_INVALID_HANDLE));
    GIVES(rig_stream_wait(one, self.device, user, copied), FERRY_E_INVALID);
    OK(emu_fail_call("cuStreamWaitEvent", 0, CUDA_SUCCESS));
    emu_release();
    rig_await(one, event);
    rig_await(one, copied);
    OK(cuEventDestroy(mine));
    OK(cuStreamDestroy(user));
    bench_close(&self);
}

/* A stream that hangs: the others go on, and the backend does not stop. */
static void stream_hangs(void)
{
    bench self;
    bench_open(&self, FERRY_COMPLETION_WORDS);
    emu_hang_stream(fry_cuda_stream_of(self.in)->native);
    fry_event event = copy_at(&self, 0, KIB);
    rig_flush(self.in);
    fry_event other =
        rig_copy(&self.rig, self.out, self.host + 128 * KIB, self.gpu + KIB, KIB, NULL, 0);
    rig_flush(self.out);
    rig_await(&self.rig, other);
    stepped_clock_step(&self.rig.stepped, 1000 * MS);
    GIVES(rig_fired(&self.rig, self.in), event.sequence - 1);
    GIVES(self.rig.ops->stop(self.rig.backend), FERRY_E_BUSY);
    GIVES(self.rig.ops->stop(self.rig.backend), FERRY_E_BUSY);
}

static void event_never_fires(void)
{
    bench self;
    bench_open(&self, FERRY_COMPLETION_EVENTS);
    emu_never_fire(fry_cuda_slot_of(fry_cuda_stream_of(self.in), 1)->event);
    fry_event event = copy_at(&self, 0, KIB);
    rig_flush(self.in);
    (void)emu_settle();
    GIVES(rig_fired(&self.rig, self.in), event.sequence - 1);
    GIVES(self.rig.ops->stop(self.rig.backend), FERRY_E_BUSY);
}

/* --- opening --- */

/* Each call that opening a device makes fails at each place: it says which, and leaves nothing. */
static void open_fails(void)
{
    rig self;
    static const char *const calls[] = {
        "cuDeviceGet", /* the even ones are out of memory, the others odd */
        "cuDevicePrimaryCtxRetain",
        "cuDeviceGetAttribute",
        "cuCtxPushCurrent",
        "cuCtxGetStreamPriorityRange",
        "cuMemHostRegister",
        "cuMemHostGetDevicePointer",
        "cuStreamCreateWithPriority",
        "cuEventCreate",
        "cuStreamWriteValue32",
        "cuStreamSynchronize",
        "cuThreadExchangeStreamCaptureMode",
    };
    rig_open(&self);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        for (unsigned nth = 1;; nth += nth < 4 ? 1 : 500) {
            ferry_status status;
            fry_device_request request = {.name = "cuda:1", .completion = FERRY_COMPLETION_WORDS};
            /* The rig itself looks at the capture mode twice before the call. */
            bool is_mode = strcmp(calls[i], "cuThreadExchangeStreamCaptureMode") == 0;
            uint64_t before = rig_calls(calls[i]);
            OK(emu_fail_call(calls[i], nth + (is_mode ? 2 : 0),
                             i % 2 == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_UNKNOWN));
            if (is_mode && nth > 1)
                break;
            fry_device *device = rig_try_device(&self, &request, &status);
            OK(emu_fail_call(calls[i], nth, CUDA_SUCCESS));
            bool was_called = rig_calls(calls[i]) >= before + nth;
            if (device != NULL) {
                CHECK(!was_called || nth > 1);
                break; /* it makes no more such calls; the device stays open */
            }
            CHECK(was_called);
            GIVES(status, i % 2 == 0 ? FERRY_E_NO_MEMORY : FERRY_E_DEVICE);
            CHECK(strstr(self.fault.message, "CUDA_ERROR_") != NULL);
        }
    }
    OK(emu_fail_call("cuThreadExchangeStreamCaptureMode", 1, CUDA_SUCCESS));
    rig_close(&self);

    /* Who is refused the context once asks again. */
    rig_open(&self);
    OK(emu_fail_call("cuCtxPushCurrent", 1, CUDA_ERROR_OUT_OF_MEMORY));
    (void)rig_device(&self, "cuda:0", 0);
    OK(emu_fail_call("cuThreadExchangeStreamCaptureMode", 3, CUDA_ERROR_INVALID_VALUE));
    (void)rig_device(&self, "cuda:1", 0);
    rig_close(&self);

    /* No words: by events, and it says so; unless words were asked for. */
    static const CUresult refusals[] = {CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_INVALID_VALUE};
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        rig_open(&self);
        OK(emu_fail_call("cuStreamWriteValue32", 1, refusals[i]));
        fry_device *device = rig_device(&self, "cuda:0", FERRY_COMPLETION_DEFAULT);
        fry_device_facts facts = {0};
        device->ops->describe(device, &facts);
        CHECK((facts.capabilities & FERRY_CAN_WRITE_WORDS) == 0);
        CHECK(facts.lacks[5] != NULL);
        OK(emu_fail_call("cuStreamWriteValue32", 1, refusals[i]));
        ferry_status status;
        fry_device_request request = {.name = "cuda:1", .completion = FERRY_COMPLETION_WORDS};
        CHECK(rig_try_device(&self, &request, &status) == NULL);
        GIVES(status, FERRY_E_DEVICE);
        GIVES(self.fault.native_code, refusals[i]);
        rig_close(&self);
    }
}

static const rig_test tests[] = {
    {"lost_in_flight", lost_in_flight},
    {"lost_in_flight_by_events", lost_in_flight_by_events},
    {"lost_by_an_operation", lost_by_an_operation},
    {"lost_while_idle", lost_while_idle},
    {"query_fails", query_fails},
    {"mark_fails", mark_fails},
    {"context_fails", context_fails},
    {"context_is_not_told", context_is_not_told},
    {"record_fails_beside_a_capture", record_fails_beside_a_capture},
    {"neighbour_is_lost", neighbour_is_lost},
    {"neighbour_stands_behind_by_words", neighbour_stands_behind_by_words},
    {"neighbour_stands_behind_by_events", neighbour_stands_behind_by_events},
    {"copy_is_refused", copy_is_refused},
    {"batch_is_refused_plainly", batch_is_refused_plainly},
    {"batch_is_refused_oddly", batch_is_refused_oddly},
    {"wait_is_refused", wait_is_refused},
    {"word_is_refused", word_is_refused},
    {"word_does_not_arrive", word_does_not_arrive},
    {"word_arrives_after_all", word_arrives_after_all},
    {"record_fails", record_fails},
    {"stream_hangs", stream_hangs},
    {"event_never_fires", event_never_fires},
    {"open_fails", open_fails},
};

int main(int count, char **arguments)
{
    return rig_run_apart(count, arguments, tests, sizeof tests / sizeof *tests);
}
