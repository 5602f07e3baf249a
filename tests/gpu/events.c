/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program's own streams and ferry: ferry waits for what stands in them, and they wait for ferry.
 * A kernel that waits for a flag in page-locked memory holds a stream for as long as the test
 * likes; nothing is held while something is done for the first time, for which CUDA may wait for
 * all that runs.
 */
#include "tests/gpu/program.h"

#include <pthread.h>

#define KIB ((size_t)1024)
#define BYTES (64 * KIB)

typedef struct stage {
    gpu_engine ge;
    ferry_device *host, *gpu, *second;
    int second_ordinal;
    user_gpu *user;
    uint32_t *flags; /* atomic; one a stream of the user's */
    ferry_buffer *src, *dst, *near, *far;
} stage;

static void *stream_of(const stage *self, size_t index)
{
    return user_gpu_stream(self->user, index);
}

/* The stream goes on once its flag is 1. */
static void hold(stage *self, size_t index)
{
    __atomic_store_n(&self->flags[index], 0, __ATOMIC_RELEASE);
    user_gpu_wait_flag(self->user, index, &self->flags[index], 1);
}

static void let_go(stage *self, size_t index)
{
    __atomic_store_n(&self->flags[index], 1, __ATOMIC_RELEASE);
}

static void fill(ferry_buffer *buffer, unsigned value)
{
    memset(ferry_buffer_data(buffer), (int)value, BYTES);
}

static bool is_all(ferry_buffer *buffer, unsigned value)
{
    const unsigned char *memory = ferry_buffer_data(buffer);
    for (size_t i = 0; i < BYTES; i++) {
        if (memory[i] != value)
            return false;
    }
    return true;
}

static ferry_future *copy_after(stage *self, ferry_buffer *dst, ferry_buffer *src,
                                ferry_future *after)
{
    return gpu_copy(&self->ge, dst, src, after);
}

static void wait_issued(ferry_future *future)
{
    CHECK_STATUS(gpu_end(ferry_future_issued(future)), FERRY_OK);
}

static void stage_open(stage *self, ferry_completion completion)
{
    int count = 0;
    memset(self, 0, sizeof *self);
    CHECK_CUDA(cudaGetDeviceCount(&count));
    gpu_engine_open(&self->ge);
    ferry_device_options options = FERRY_DEVICE_OPTIONS_INIT;
    options.completion = completion;
    options.parked_streams = 2;
    CHECK_STATUS(ferry_device_open(self->ge.engine, "cuda:0", &options, &self->gpu, NULL),
                 FERRY_OK);
    self->second = gpu_device(&self->ge, count > 1 ? "cuda:1" : "cuda:0/1");
    self->second_ordinal = count > 1 ? 1 : 0;
    self->host = ferry_device_find(self->ge.engine, "host:0");
    self->user = user_gpu_open(0);
    self->flags = user_gpu_alloc_pinned(self->user, USER_STREAMS * sizeof *self->flags);
    self->src = gpu_buffer(self->host, BYTES, FERRY_MEMORY_PINNED);
    self->dst = gpu_buffer(self->host, BYTES, FERRY_MEMORY_PINNED);
    self->near = gpu_buffer(self->gpu, BYTES, FERRY_MEMORY_DEFAULT);
    self->far = gpu_buffer(self->second, BYTES, FERRY_MEMORY_DEFAULT);
    fill(self->src, 1);
    fill(self->dst, 0);
    for (size_t i = 0; i < USER_STREAMS; i++) {
        hold(self, i);
        let_go(self, i);
        CHECK_STATUS(gpu_end(ferry_event_record(self->gpu, stream_of(self, i))), FERRY_OK);
    }
    ferry_future_release(copy_after(self, self->near, self->src, NULL));
    ferry_future_release(copy_after(self, self->far, self->near, NULL));
    CHECK_STATUS(gpu_end(copy_after(self, self->dst, self->far, NULL)), FERRY_OK);
    fill(self->dst, 0);
}

static void stage_close(stage *self)
{
    user_gpu_finish(self->user);
    user_gpu_free_pinned(self->user, self->flags);
    user_gpu_close(self->user);
    ferry_buffer_release(self->src);
    ferry_buffer_release(self->dst);
    ferry_buffer_release(self->near);
    ferry_buffer_release(self->far);
    gpu_engine_close(&self->ge);
    if (EMU(emu_get_counters) != NULL) {
        emu_counters counters;
        EMU(emu_get_counters)(&counters);
        CHECK(counters.blocked == 0);
        CHECK(counters.caught == 0);
    }
}

/* ---- recording ---- */

/* The program writes, ferry carries it over two GPUs and back; all is issued before it is there. */
static void test_record(stage *self)
{
    ferry_buffer *host = gpu_buffer(self->host, BYTES, FERRY_MEMORY_PINNED);
    ferry_buffer *one = gpu_buffer(self->gpu, BYTES, FERRY_MEMORY_DEFAULT);
    ferry_buffer *two = gpu_buffer(self->second, BYTES, FERRY_MEMORY_DEFAULT);
    fill(self->src, 3);
    hold(self, 0);
    user_gpu_copy(self->user, 0, ferry_buffer_data(self->near), ferry_buffer_data(self->src),
                  BYTES);
    ferry_future *written = ferry_event_record(self->gpu, stream_of(self, 0));
    ferry_future *across = copy_after(self, self->far, self->near, written);
    ferry_future *back = copy_after(self, self->dst, self->far, NULL);
    wait_issued(across);
    wait_issued(back);
    CHECK_STATUS(ferry_future_poll(written), FERRY_PENDING);

    /* Others pass, in all directions. */
    fill(host, 4);
    ferry_future_release(copy_after(self, one, host, NULL));
    ferry_future_release(copy_after(self, two, one, NULL));
    CHECK_STATUS(gpu_end(copy_after(self, host, two, NULL)), FERRY_OK);
    CHECK_STATUS(ferry_future_poll(across), FERRY_PENDING);
    let_go(self, 0);
    CHECK_STATUS(gpu_end(back), FERRY_OK);
    CHECK_STATUS(gpu_end(across), FERRY_OK);
    CHECK_STATUS(gpu_end(written), FERRY_OK);
    CHECK(is_all(self->dst, 3));
    ferry_buffer_release(host);
    ferry_buffer_release(one);
    ferry_buffer_release(two);
}

/* Without naming the event: the span is valid from it on. */
static void test_define(stage *self)
{
    fill(self->src, 5);
    hold(self, 1);
    user_gpu_copy(self->user, 1, ferry_buffer_data(self->near), ferry_buffer_data(self->src),
                  BYTES);
    ferry_future *written = ferry_event_record(self->gpu, stream_of(self, 1));
    CHECK_STATUS(ferry_buffer_define(ferry_buffer_span(self->near), written), FERRY_OK);
    ferry_future *back = copy_after(self, self->dst, self->near, NULL);
    wait_issued(back);
    CHECK_STATUS(ferry_future_poll(back), FERRY_PENDING);
    let_go(self, 1);
    CHECK_STATUS(gpu_end(back), FERRY_OK);
    CHECK(is_all(self->dst, 5));
    CHECK_STATUS(gpu_end(written), FERRY_OK);
}

/* ---- the other way round ---- */

/* From stream to ferry to stream, and no host in between. */
static void test_stream_wait(stage *self)
{
    fill(self->src, 6);
    fill(self->dst, 0);
    hold(self, 0);
    user_gpu_copy(self->user, 0, ferry_buffer_data(self->near), ferry_buffer_data(self->src),
                  BYTES);
    ferry_future *written = ferry_event_record(self->gpu, stream_of(self, 0));
    ferry_future *across = copy_after(self, self->far, self->near, written);
    wait_issued(across);
    CHECK_STATUS(ferry_future_stream_wait(across, self->gpu, stream_of(self, 1)), FERRY_OK);
    user_gpu_copy(self->user, 1, ferry_buffer_data(self->dst), ferry_buffer_data(self->far), BYTES);
    ferry_future *done = ferry_event_record(self->gpu, stream_of(self, 1));
    CHECK_STATUS(ferry_future_poll(done), FERRY_PENDING);
    let_go(self, 0);
    CHECK_STATUS(gpu_end(done), FERRY_OK);
    CHECK(is_all(self->dst, 6));
    CHECK_STATUS(ferry_future_stream_wait(across, self->gpu, stream_of(self, 1)), FERRY_OK);
    CHECK_STATUS(gpu_end(across), FERRY_OK);
    CHECK_STATUS(gpu_end(written), FERRY_OK);

    /* Not before it is issued; and there are things that no device can wait for. */
    ferry_promise *promise = NULL;
    CHECK_STATUS(ferry_promise_create(self->ge.engine, &promise), FERRY_OK);
    ferry_future *promised = ferry_promise_future(promise);
    ferry_future *held = copy_after(self, self->far, self->near, promised);
    CHECK_STATUS(ferry_future_stream_wait(held, self->gpu, stream_of(self, 1)), FERRY_E_NOT_ISSUED);
    CHECK_STATUS(ferry_future_stream_wait(promised, self->gpu, stream_of(self, 1)),
                 FERRY_E_UNSUPPORTED);
    CHECK_STATUS(ferry_promise_resolve(promise, FERRY_OK, NULL), FERRY_OK);
    ferry_promise_release(promise);
    wait_issued(held);
    CHECK_STATUS(ferry_future_stream_wait(held, self->gpu, stream_of(self, 1)), FERRY_OK);
    CHECK_STATUS(gpu_end(held), FERRY_OK);
    CHECK_STATUS(ferry_future_stream_wait(promised, self->gpu, stream_of(self, 1)), FERRY_OK);
    ferry_future_release(promised);
    CHECK_STATUS(ferry_future_stream_wait(NULL, self->gpu, stream_of(self, 1)), FERRY_E_INVALID);
}

/* ---- events of the program's ---- */

static void test_wrap(stage *self)
{
    cudaEvent_t event;
    CHECK_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK_CUDA(cudaEventRecord(event, stream_of(self, 2)));
    CHECK_CUDA(cudaEventSynchronize(event));
    CHECK_STATUS(gpu_end(ferry_event_wrap(self->gpu, event, stream_of(self, 2))), FERRY_OK);

    /* As it was when it was wrapped, whatever is recorded later. */
    hold(self, 0);
    hold(self, 1);
    CHECK_CUDA(cudaEventRecord(event, stream_of(self, 0)));
    ferry_future *first = ferry_event_wrap(self->gpu, event, stream_of(self, 0));
    CHECK_CUDA(cudaEventRecord(event, stream_of(self, 1)));
    ferry_future *second = ferry_event_wrap(self->gpu, event, NULL);
    CHECK_CUDA(cudaEventDestroy(event)); /* borrowed during the call */
    ferry_future *copy = copy_after(self, self->dst, self->near, first);
    CHECK_STATUS(ferry_future_poll(copy), FERRY_PENDING);
    let_go(self, 0);
    CHECK_STATUS(gpu_end(copy), FERRY_OK);
    CHECK_STATUS(gpu_end(first), FERRY_OK);
    CHECK_STATUS(ferry_future_poll(second), FERRY_PENDING);
    let_go(self, 1);
    CHECK_STATUS(gpu_end(second), FERRY_OK);
}

static void test_refusals(stage *self)
{
    CHECK_STATUS(gpu_end(ferry_event_record(self->host, NULL)), FERRY_E_UNSUPPORTED);
    CHECK_STATUS(gpu_end(ferry_event_record(NULL, NULL)), FERRY_E_INVALID);
    CHECK_STATUS(gpu_end(ferry_event_wrap(self->gpu, NULL, NULL)), FERRY_E_INVALID);
    CHECK_STATUS(gpu_end(ferry_event_record(self->gpu, NULL)), FERRY_OK);
    if (self->second_ordinal == 0)
        return;
    cudaStream_t other;
    CHECK_CUDA(cudaSetDevice(self->second_ordinal));
    CHECK_CUDA(cudaStreamCreate(&other));
    CHECK_CUDA(cudaSetDevice(0));
    CHECK_STATUS(gpu_end(ferry_event_record(self->gpu, other)), FERRY_E_INVALID);
    CHECK_STATUS(gpu_end(ferry_event_record(self->second, other)), FERRY_OK);
    CHECK_CUDA(cudaStreamDestroy(other));
}

/* A cancelled event resolves now; what it was to define stays unwritten for others until then. */
static void test_cancel(stage *self)
{
    hold(self, 0);
    user_gpu_copy(self->user, 0, ferry_buffer_data(self->near), ferry_buffer_data(self->src),
                  BYTES);
    ferry_future *written = ferry_event_record(self->gpu, stream_of(self, 0));
    CHECK_STATUS(ferry_buffer_define(ferry_buffer_span(self->near), written), FERRY_OK);
    CHECK_STATUS(ferry_future_cancel(written), FERRY_OK);
    CHECK_STATUS(ferry_future_wait(written, -1), FERRY_E_CANCELLED);
    ferry_future *reader = copy_after(self, self->dst, self->near, NULL);
    CHECK_STATUS(gpu_end(reader), FERRY_E_DEPENDENCY);
    ferry_future *writer = copy_after(self, self->near, self->src, NULL);
    CHECK_STATUS(ferry_future_wait(writer, 2000000), FERRY_PENDING);
    let_go(self, 0);
    CHECK_STATUS(gpu_end(writer), FERRY_OK);
    ferry_future_release(written);
}

/* ---- head of line ---- */

/* More of the program's streams stand still than there are parked streams; ready work passes. */
static void test_head_of_line(stage *self)
{
    ferry_buffer *slots[USER_STREAMS], *free = gpu_buffer(self->gpu, BYTES, FERRY_MEMORY_DEFAULT);
    ferry_future *events[USER_STREAMS], *copies[USER_STREAMS];
    for (size_t i = 0; i < USER_STREAMS; i++)
        slots[i] = gpu_buffer(self->gpu, BYTES, FERRY_MEMORY_DEFAULT);
    for (size_t i = 0; i < USER_STREAMS; i++) {
        hold(self, i);
        events[i] = ferry_event_record(self->gpu, stream_of(self, i));
        copies[i] = copy_after(self, slots[i], self->src, events[i]);
    }
    for (size_t i = 0; i < 50; i++)
        CHECK_STATUS(gpu_end(copy_after(self, free, self->src, NULL)), FERRY_OK);
    for (size_t i = USER_STREAMS; i-- > 0;) {
        for (size_t j = 0; j <= i; j++)
            CHECK_STATUS(ferry_future_poll(copies[j]), FERRY_PENDING);
        let_go(self, i);
        CHECK_STATUS(gpu_end(copies[i]), FERRY_OK);
        CHECK_STATUS(gpu_end(events[i]), FERRY_OK);
        ferry_buffer_release(slots[i]);
    }
    ferry_buffer_release(free);
}

/* ---- a capture elsewhere ---- */

typedef struct capturer {
    pthread_t thread;
    stage *stage;
    pthread_barrier_t begun, over;
    enum cudaStreamCaptureMode mode;
    cudaStream_t stream;
    void *gpu;
} capturer;

static void *capture(void *arg)
{
    capturer *self = arg;
    cudaGraph_t graph;
    cudaGraphExec_t launch;
    CHECK_CUDA(cudaSetDevice(0));
    CHECK_CUDA(cudaStreamBeginCapture(self->stream, self->mode));
    CHECK_CUDA(cudaMemsetAsync(self->gpu, 7, KIB, self->stream));
    (void)pthread_barrier_wait(&self->begun);
    /* In the capturing thread too: nothing of what ferry does is seen by it. */
    CHECK_STATUS(gpu_end(copy_after(self->stage, self->stage->far, self->stage->src, NULL)),
                 FERRY_OK);
    CHECK_STATUS(gpu_end(ferry_event_record(self->stage->gpu, self->stream)), FERRY_E_CAPTURE);
    (void)pthread_barrier_wait(&self->over);
    CHECK_CUDA(cudaStreamEndCapture(self->stream, &graph));
    CHECK_CUDA(cudaGraphInstantiate(&launch, graph, 0));
    CHECK_CUDA(cudaGraphLaunch(launch, self->stream));
    CHECK_STATUS(gpu_end(ferry_event_record(self->stage->gpu, self->stream)), FERRY_OK);
    CHECK_CUDA(cudaGraphExecDestroy(launch));
    CHECK_CUDA(cudaGraphDestroy(graph));
    return NULL;
}

/* Old heads are asked about, events made, memory taken, while the other thread captures. */
static void test_capture(stage *self, enum cudaStreamCaptureMode mode)
{
    capturer other = {.stage = self, .mode = mode};
    unsigned char seen[KIB];
    CHECK_CUDA(cudaStreamCreateWithFlags(&other.stream, cudaStreamNonBlocking));
    CHECK_CUDA(cudaMalloc(&other.gpu, KIB));
    CHECK(pthread_barrier_init(&other.begun, NULL, 2) == 0);
    CHECK(pthread_barrier_init(&other.over, NULL, 2) == 0);
    hold(self, 0);
    ferry_future *held = ferry_event_record(self->gpu, stream_of(self, 0));
    ferry_future *copy = copy_after(self, self->dst, self->near, held);
    CHECK(pthread_create(&other.thread, NULL, capture, &other) == 0);
    (void)pthread_barrier_wait(&other.begun);
    CHECK_STATUS(ferry_future_wait(copy, 5000000), FERRY_PENDING);
    ferry_buffer *made = gpu_buffer(self->second, BYTES, FERRY_MEMORY_DEFAULT);
    CHECK_STATUS(gpu_end(copy_after(self, made, self->near, NULL)), FERRY_OK);
    CHECK_STATUS(ferry_future_stream_wait(copy, self->gpu, other.stream), FERRY_E_CAPTURE);
    ferry_future *event = ferry_event_record(self->gpu, stream_of(self, 1));
    CHECK_STATUS(gpu_end(event), FERRY_OK);
    ferry_buffer_release(made);
    let_go(self, 0);
    CHECK_STATUS(gpu_end(copy), FERRY_OK);
    CHECK_STATUS(gpu_end(held), FERRY_OK);
    (void)pthread_barrier_wait(&other.over);
    CHECK(pthread_join(other.thread, NULL) == 0);
    CHECK_CUDA(cudaMemcpy(seen, other.gpu, KIB, cudaMemcpyDeviceToHost));
    CHECK(seen[0] == 7 && seen[KIB - 1] == 7);
    CHECK_CUDA(cudaFree(other.gpu));
    CHECK_CUDA(cudaStreamDestroy(other.stream));
    CHECK(pthread_barrier_destroy(&other.begun) == 0);
    CHECK(pthread_barrier_destroy(&other.over) == 0);
}

/* ---- the end ---- */

/* A stream that does not go on: the shutdown says so in time, and ends when it does. */
static void test_shutdown(ferry_completion completion)
{
    stage self;
    stage_open(&self, completion);
    hold(&self, 0);
    ferry_future *event = ferry_event_record(self.gpu, stream_of(&self, 0));
    ferry_future *behind = copy_after(&self, self.dst, self.near, event);
    ferry_future *beside = copy_after(&self, self.far, self.src, NULL);
    wait_issued(behind);
    gpu_forget_log(&self.ge);
    CHECK_STATUS(ferry_engine_shutdown(self.ge.engine, 20000000), FERRY_E_DEADLINE);
    CHECK(gpu_has_logged(&self.ge, "shutdown timed out"));
    CHECK_STATUS(ferry_future_poll(behind), FERRY_E_SHUTDOWN);
    CHECK_STATUS(ferry_future_poll(event), FERRY_E_SHUTDOWN);
    CHECK(ferry_future_poll(beside) != FERRY_PENDING);
    CHECK_STATUS(gpu_end(ferry_event_record(self.gpu, stream_of(&self, 1))), FERRY_E_SHUTDOWN);
    let_go(&self, 0);
    CHECK_STATUS(ferry_engine_shutdown(self.ge.engine, -1), FERRY_OK);
    ferry_future_release(event);
    ferry_future_release(behind);
    ferry_future_release(beside);
    stage_close(&self);
}

static void run(ferry_completion completion)
{
    stage self;
    stage_open(&self, completion);
    test_record(&self);
    test_define(&self);
    test_stream_wait(&self);
    test_wrap(&self);
    test_refusals(&self);
    test_cancel(&self);
    test_head_of_line(&self);
    test_capture(&self, cudaStreamCaptureModeGlobal);
    test_capture(&self, cudaStreamCaptureModeThreadLocal);
    test_capture(&self, cudaStreamCaptureModeRelaxed);
    stage_close(&self);
}

int main(void)
{
    gpu_watch("events", 100);
    run(FERRY_COMPLETION_WORDS);
    run(FERRY_COMPLETION_EVENTS);
    test_shutdown(FERRY_COMPLETION_WORDS);
    test_shutdown(FERRY_COMPLETION_EVENTS);
    return 0;
}
