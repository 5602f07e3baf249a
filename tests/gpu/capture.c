/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program captures a graph while ferry transfers, in each mode, and nothing that ferry does harms
 * the capture: not its copies, its polls (by words and by events), its memory, its events on other
 * streams, another device, its thread for pageable memory; neither in another thread nor in the one
 * that captures. The graph is whole: it is launched and does what was captured, and no more. What
 * is being captured is refused with FERRY_E_CAPTURE, and goes on unharmed.
 */
#include "tests/gpu/program.h"

#include <pthread.h>
#include <sched.h>

#define SIZE 65536
#define ROUNDS 4 /* of transfers while one capture is open */
#define CAPTURED 3

typedef struct transfers {
    gpu_engine ge;
    ferry_device *device;
    ferry_buffer *pinned, *pageable, *near, *back;
    user_gpu *user;
    uint32_t *flag;
} transfers;

/* What the capturing thread has of its own. */
typedef struct capturer {
    transfers *of;
    enum cudaStreamCaptureMode mode;
    cudaStream_t stream;
    unsigned char *from, *to, *on_device;
    ferry_buffer *source; /* for this thread's transfers: the other writes to what it has */
    atomic_uint stage;    /* 1: the capture is open; 2: it may end; 3: it has ended */
} capturer;

/* ---- what ferry does meanwhile ---- */

static void open_transfers(transfers *self, ferry_completion completion, ferry_loop_mode loop)
{
    ferry_engine_options options = gpu_engine_options(&self->ge);
    ferry_device_options device = FERRY_DEVICE_OPTIONS_INIT;
    options.loop = loop;
    device.completion = completion;
    device.parked_streams = 2;
    CHECK_STATUS(ferry_engine_create(&options, &self->ge.engine, NULL), FERRY_OK);
    CHECK_STATUS(ferry_device_open(self->ge.engine, "cuda:0", &device, &self->device, NULL),
                 FERRY_OK);
    ferry_device *host = ferry_device_at(self->ge.engine, 0);
    self->pinned = gpu_buffer(host, SIZE, FERRY_MEMORY_PINNED);
    self->pageable = gpu_buffer(host, SIZE, FERRY_MEMORY_DEFAULT);
    self->near = gpu_buffer(self->device, SIZE, FERRY_MEMORY_DEFAULT);
    self->back = gpu_buffer(self->device, SIZE, FERRY_MEMORY_PLAIN);
    self->user = user_gpu_open(0);
    self->flag = user_gpu_alloc_pinned(self->user, sizeof *self->flag);
}

static void close_transfers(transfers *self)
{
    user_gpu_finish(self->user);
    user_gpu_free_pinned(self->user, self->flag);
    user_gpu_close(self->user);
    ferry_buffer_release(self->pinned);
    ferry_buffer_release(self->pageable);
    ferry_buffer_release(self->near);
    ferry_buffer_release(self->back);
    gpu_engine_close(&self->ge);
}

/* There and back, through all sorts of memory. */
static void copy_about(transfers *self, unsigned char salt)
{
    memset(ferry_buffer_data(self->pinned), salt, SIZE);
    ferry_future_release(gpu_copy(&self->ge, self->near, self->pinned, NULL));
    ferry_future_release(gpu_copy(&self->ge, self->back, self->near, NULL));
    CHECK_STATUS(gpu_end(gpu_copy(&self->ge, self->pageable, self->back, NULL)), FERRY_OK);
    const unsigned char *bytes = ferry_buffer_data(self->pageable);
    CHECK(bytes[0] == salt && bytes[SIZE - 1] == salt);
    CHECK_STATUS(gpu_end(gpu_copy(&self->ge, self->near, self->pageable, NULL)), FERRY_OK);
}

/* A copy that stays until the driver is asked about it: its head is older than a millisecond. */
static void wait_long(transfers *self)
{
    void *stream = user_gpu_stream(self->user, 0);
    __atomic_store_n(self->flag, 0, __ATOMIC_RELEASE);
    user_gpu_wait_flag(self->user, 0, self->flag, 1);
    ferry_future *event = ferry_event_record(self->device, stream);
    ferry_future *copy = gpu_copy(&self->ge, self->near, self->pinned, event);
    CHECK_STATUS(ferry_future_wait(copy, 5000000), FERRY_PENDING);
    __atomic_store_n(self->flag, 1, __ATOMIC_RELEASE);
    CHECK_STATUS(ferry_future_wait(copy, -1), FERRY_OK);
    CHECK_STATUS(ferry_future_stream_wait(copy, self->device, stream), FERRY_OK);
    ferry_future_release(event);
    ferry_future_release(copy);
}

/* Devices, memory and events come and go. */
static void open_and_close(transfers *self)
{
    gpu_engine other;
    gpu_engine_open(&other);
    ferry_device *logical = gpu_device(&other, "cuda:0/1");
    ferry_buffer *buffer = gpu_buffer(logical, SIZE, FERRY_MEMORY_DEFAULT);
    ferry_buffer *plain = gpu_buffer(logical, SIZE, FERRY_MEMORY_PLAIN);
    ferry_buffer *pinned = gpu_buffer(ferry_device_at(other.engine, 0), SIZE, FERRY_MEMORY_PINNED);
    memset(ferry_buffer_data(pinned), 3, SIZE);
    CHECK_STATUS(gpu_end(gpu_copy(&other, buffer, pinned, NULL)), FERRY_OK);
    CHECK_STATUS(gpu_end(gpu_copy(&other, plain, buffer, NULL)), FERRY_OK);
    ferry_buffer_release(buffer);
    ferry_buffer_release(plain);
    ferry_buffer_release(pinned);
    gpu_engine_close(&other);

    cudaEvent_t event;
    cudaStream_t stream = user_gpu_stream(self->user, 1);
    CHECK_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK_CUDA(cudaEventRecord(event, stream));
    CHECK_STATUS(gpu_end(ferry_event_wrap(self->device, event, stream)), FERRY_OK);
    CHECK_CUDA(cudaEventDestroy(event));
}

/* ---- the capture ---- */

static void check_thread(enum cudaStreamCaptureMode mode)
{
    enum cudaStreamCaptureMode now = mode;
    CHECK_CUDA(cudaThreadExchangeStreamCaptureMode(&now));
    CHECK(now == cudaStreamCaptureModeGlobal); /* as threads begin */
    CHECK_CUDA(cudaThreadExchangeStreamCaptureMode(&now));
    CHECK_CUDA(cudaPeekAtLastError());
}

/* What the thread that captures may do with ferry, and what is refused. */
static void use_ferry_inside(capturer *self)
{
    transfers *of = self->of;
    ferry_buffer *buffer = gpu_buffer(of->device, SIZE, FERRY_MEMORY_DEFAULT);
    ferry_future *copy = gpu_copy(&of->ge, buffer, self->source, NULL);
    CHECK_STATUS(ferry_future_wait(copy, -1), FERRY_OK);
    CHECK_STATUS(ferry_future_stream_wait(copy, of->device, user_gpu_stream(of->user, 2)),
                 FERRY_OK);
    CHECK_STATUS(gpu_end(ferry_event_record(of->device, user_gpu_stream(of->user, 2))), FERRY_OK);

    ferry_future *refused = ferry_event_record(of->device, self->stream);
    CHECK_STATUS(ferry_future_poll(refused), FERRY_E_CAPTURE);
    CHECK(ferry_future_error(refused) != NULL);
    ferry_future_release(refused);
    __atomic_store_n(of->flag, 0, __ATOMIC_RELEASE);
    user_gpu_wait_flag(of->user, 2, of->flag, 1);
    ferry_future *event = ferry_event_record(of->device, user_gpu_stream(of->user, 2));
    CHECK_STATUS(gpu_end(ferry_future_issued(event)), FERRY_OK);
    CHECK_STATUS(ferry_future_stream_wait(event, of->device, self->stream), FERRY_E_CAPTURE);
    __atomic_store_n(of->flag, 1, __ATOMIC_RELEASE);
    CHECK_STATUS(gpu_end(event), FERRY_OK);

    cudaEvent_t captured;
    CHECK_CUDA(cudaEventCreateWithFlags(&captured, cudaEventDisableTiming));
    CHECK_CUDA(cudaEventRecord(captured, self->stream));
    refused = ferry_event_wrap(of->device, captured, self->stream);
    CHECK_STATUS(ferry_future_poll(refused), FERRY_E_CAPTURE);
    ferry_future_release(refused);
    CHECK_CUDA(cudaEventDestroy(captured));
    ferry_future_release(copy);
    ferry_buffer_release(buffer);
}

static void launch(cudaGraph_t graph, capturer *self)
{
    cudaGraphExec_t executable;
    cudaStream_t stream = user_gpu_stream(self->of->user, 1);
    CHECK_CUDA(cudaGraphInstantiate(&executable, graph, 0));
    memset(self->to, 0, SIZE);
    CHECK_CUDA(cudaGraphLaunch(executable, stream));
    CHECK_CUDA(cudaStreamSynchronize(stream));
    CHECK(memcmp(self->to, self->from, SIZE) == 0);
    CHECK_CUDA(cudaGraphExecDestroy(executable));
}

static void *capture(void *arg)
{
    capturer *self = arg;
    cudaGraph_t graph = NULL;
    CHECK_CUDA(cudaSetDevice(0));
    for (unsigned turn = 0; turn < CAPTURED; turn++) {
        memset(self->from, (int)turn + 1, SIZE);
        CHECK_CUDA(cudaStreamBeginCapture(self->stream, self->mode));
        CHECK_CUDA(cudaMemcpyAsync(self->on_device, self->from, SIZE, cudaMemcpyHostToDevice,
                                   self->stream));
        atomic_store(&self->stage, 1);
        if (turn == 1) /* with the other thread at it, too */
            use_ferry_inside(self);
        while (atomic_load(&self->stage) != 2)
            (void)sched_yield();
        CHECK_CUDA(
            cudaMemcpyAsync(self->to, self->on_device, SIZE, cudaMemcpyDeviceToHost, self->stream));
        CHECK_CUDA(cudaStreamEndCapture(self->stream, &graph));
        CHECK(graph != NULL);
        launch(graph, self);
        CHECK_CUDA(cudaGraphDestroy(graph));
        check_thread(cudaStreamCaptureModeRelaxed);
        atomic_store(&self->stage, 3);
        while (turn + 1 < CAPTURED && atomic_load(&self->stage) != 0)
            (void)sched_yield();
    }
    return NULL;
}

/* Transfers from before each capture until after it. */
static void transfer_beside(transfers *self, capturer *beside)
{
    for (unsigned turn = 0; turn < CAPTURED; turn++) {
        while (atomic_load(&beside->stage) != 1)
            copy_about(self, (unsigned char)(turn + 1));
        for (unsigned round = 0; round < ROUNDS; round++)
            copy_about(self, (unsigned char)(round + 100));
        if (turn != 1) /* the flag is the other's */
            wait_long(self);
        open_and_close(self);
        atomic_store(&beside->stage, 2);
        while (atomic_load(&beside->stage) != 3)
            copy_about(self, (unsigned char)(turn + 50));
        check_thread(cudaStreamCaptureModeRelaxed);
        if (turn + 1 < CAPTURED)
            atomic_store(&beside->stage, 0);
    }
}

static void run(enum cudaStreamCaptureMode mode, ferry_completion completion, ferry_loop_mode loop)
{
    static const char *const modes[] = {"global", "thread-local", "relaxed"};
    static char doing[96];
    (void)snprintf(doing, sizeof doing, "capture: %s, completion %d, %s", modes[mode],
                   (int)completion, loop == FERRY_LOOP_THREAD ? "own thread" : "embedded");
    gpu_watch(doing, 60);
    transfers self;
    open_transfers(&self, completion, loop);
    capturer beside = {.of = &self, .mode = mode};
    beside.source = gpu_buffer(ferry_device_at(self.ge.engine, 0), SIZE, FERRY_MEMORY_PINNED);
    memset(ferry_buffer_data(beside.source), 7, SIZE);
    CHECK_CUDA(cudaStreamCreateWithFlags(&beside.stream, cudaStreamNonBlocking));
    CHECK_CUDA(cudaMallocHost((void **)&beside.from, SIZE));
    CHECK_CUDA(cudaMallocHost((void **)&beside.to, SIZE));
    CHECK_CUDA(cudaMalloc((void **)&beside.on_device, SIZE));
    copy_about(&self, 1);
    wait_long(&self); /* all kernels and streams have been used before the first capture */
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, capture, &beside) == 0);
    transfer_beside(&self, &beside);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_CUDA(cudaFree(beside.on_device));
    CHECK_CUDA(cudaFreeHost(beside.from));
    CHECK_CUDA(cudaFreeHost(beside.to));
    CHECK_CUDA(cudaStreamDestroy(beside.stream));
    ferry_buffer_release(beside.source);
    close_transfers(&self);
}

int main(void)
{
    CHECK(setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0) == 0); /* streams that don't share */
    CHECK_CUDA(cudaSetDevice(0));
    for (int mode = 0; mode < 3; mode++) {
        for (int way = 0; way < 4; way++)
            run((enum cudaStreamCaptureMode)mode,
                way % 2 == 0 ? FERRY_COMPLETION_WORDS : FERRY_COMPLETION_EVENTS,
                way / 2 == 0 ? FERRY_LOOP_THREAD : FERRY_LOOP_EMBEDDED);
    }
    if (EMU(emu_get_counters) != NULL) {
        emu_counters counters;
        EMU(emu_get_counters)(&counters);
        CHECK(counters.capture_joins == 0 && counters.captured_joined == 0);
        CHECK(counters.captured == 3 * 4 * CAPTURED * 2); /* the program's own two copies */
    }
    (void)puts("capture: all graphs are whole");
    return 0;
}
