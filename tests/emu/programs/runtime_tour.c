/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goes through the runtime: devices, errors, memory, streams, events, kernels, capture. What has to
 * be pending is held by a kernel that waits for a flag in pinned memory, so nothing hangs on time.
 */
#include "program.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <ferry_kernels.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define WORDS 100000
#define SEED 0x0123456789abcdefU
#define WIDTH 64
#define ROWS 7
#define THREADS 4

/* The driver's functions, as a program of the runtime's finds them. */
#define DRIVER(X)                                                                                  \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleUnload)                                                                              \
    X(cuModuleGetFunction)                                                                         \
    X(cuFuncGetName)                                                                               \
    X(cuLaunchKernel)                                                                              \
    X(cuCtxGetCurrent)                                                                             \
    X(cuCtxSetCurrent)

static struct {
#define FIELD(name) __typeof__(&name) name##_p;
    DRIVER(FIELD)
#undef FIELD
} driver;

static CUmodule module;

static void find_driver(void)
{
    enum cudaDriverEntryPointQueryResult found;
    void *function;
#define FIND(name)                                                                                 \
    OK(cudaGetDriverEntryPointByVersion(#name, &function, CUDA_VERSION, cudaEnableDefault,         \
                                        &found));                                                  \
    CHECK(found == cudaDriverEntryPointSuccess && function != NULL);                               \
    driver.name##_p = (__typeof__(driver.name##_p))function;
    DRIVER(FIND)
#undef FIND
    OK(cudaGetDriverEntryPointByVersion("cuNoSuchThing", &function, CUDA_VERSION, cudaEnableDefault,
                                        &found));
    CHECK(found == cudaDriverEntryPointSymbolNotFound && function == NULL);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
}

static CUfunction kernel(const char *name)
{
    CUfunction function;
    const char *said;
    OK(driver.cuModuleGetFunction_p(&function, module, name));
    OK(driver.cuFuncGetName_p(&said, function));
    CHECK(strcmp(said, name) == 0);
    return function;
}

static void launch(const char *name, unsigned threads, cudaStream_t stream, void **params)
{
    unsigned block = threads < 128 ? threads : 128;
    OK(driver.cuLaunchKernel_p(kernel(name), threads / block, 1, 1, block, 1, 1, 0, stream, params,
                               NULL));
}

static void fill_pattern(void *dst, uint64_t count, uint64_t seed, cudaStream_t stream)
{
    void *params[] = {&dst, &count, &seed};
    launch("ferry_fill_pattern", 1024, stream, params);
}

static void check_pattern(void *src, uint64_t count, uint64_t seed, void *errors,
                          cudaStream_t stream)
{
    void *params[] = {&src, &count, &seed, &errors};
    launch("ferry_check_pattern", 1024, stream, params);
}

static uint64_t pattern(uint64_t i, uint64_t seed)
{
    return seed ^ (i * 0x9e3779b97f4a7c15U);
}

/* What stands in the stream from here on is held until the gate is opened. */
typedef struct gate {
    uint32_t *flag;
} gate;

static void gate_close(gate *gate, cudaStream_t stream)
{
    OK(cudaHostAlloc((void **)&gate->flag, sizeof(*gate->flag), cudaHostAllocMapped));
    __atomic_store_n(gate->flag, 0, __ATOMIC_RELAXED);
    uint32_t value = 1;
    void *params[] = {&gate->flag, &value};
    launch("ferry_wait_flag", 1, stream, params);
}

static void gate_open(gate *gate)
{
    __atomic_store_n(gate->flag, 1, __ATOMIC_RELEASE);
}

static void gate_free(gate *gate)
{
    OK(cudaFreeHost(gate->flag));
}

/*
 * Launches each kernel that comes beside a closed gate once before: the first launch loads it, and
 * may wait for all that runs.
 */
static void warm_up(void)
{
    uint32_t *word;
    uint32_t value = 0;
    uint64_t count = 1;
    uint64_t duration_ns = 0;
    void *wait_flag[] = {&word, &value};
    void *fill[] = {&word, &count, &value};
    void *spin[] = {&duration_ns};
    OK(cudaHostAlloc((void **)&word, sizeof(*word), cudaHostAllocMapped));
    *word = 0;
    launch("ferry_wait_flag", 1, NULL, wait_flag);
    launch("ferry_fill", 1, NULL, fill);
    launch("ferry_spin", 1, NULL, spin);
    OK(cudaDeviceSynchronize());
    OK(cudaFreeHost(word));
}

static void tour_devices(int count)
{
    int version;
    int least;
    int greatest;
    OK(cudaRuntimeGetVersion(&version));
    CHECK(version / 1000 == CUDART_VERSION / 1000);
    OK(cudaDriverGetVersion(&version));
    CHECK(version >= CUDART_VERSION);
    for (int device = 0; device < count; device++) {
        struct cudaDeviceProp properties;
        char bus[32];
        int major;
        int now;
        OK(cudaInitDevice(device, 0, 0));
        OK(cudaGetDeviceProperties(&properties, device));
        OK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
        CHECK(properties.major == major && properties.name[0] != '\0');
        CHECK(properties.unifiedAddressing == 1 && properties.totalGlobalMem > 0);
        OK(cudaDeviceGetPCIBusId(bus, sizeof(bus), device));
        CHECK(strchr(bus, ':') != NULL);
        OK(cudaSetDevice(device));
        OK(cudaGetDevice(&now));
        CHECK(now == device);
    }
    OK(cudaSetDevice(0));
    OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    CHECK(greatest <= least);
}

static void *errors_elsewhere(void *arg)
{
    (void)arg;
    CHECK(cudaPeekAtLastError() == cudaSuccess);
    return NULL;
}

/* An error stays until it is asked for; successes don't clear it; it is the thread's own. */
static void tour_errors(int count)
{
    pthread_t thread;
    int device;
    CHECK(cudaGetLastError() == cudaSuccess);
    GIVES(cudaSetDevice(count), cudaErrorInvalidDevice);
    OK(cudaGetDevice(&device));
    CHECK(device == 0);
    CHECK(cudaPeekAtLastError() == cudaErrorInvalidDevice);
    CHECK(pthread_create(&thread, NULL, errors_elsewhere, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    GIVES(cudaMemcpy(&device, &count, sizeof(int), (enum cudaMemcpyKind)77),
          cudaErrorInvalidMemcpyDirection);
    CHECK(cudaGetLastError() == cudaErrorInvalidMemcpyDirection);
    CHECK(cudaGetLastError() == cudaSuccess);
    CHECK(strcmp(cudaGetErrorName(cudaErrorNotReady), "cudaErrorNotReady") == 0);
    CHECK(strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory") == 0);
    CHECK(strcmp(cudaGetErrorName((cudaError_t)12345), "unrecognized error code") == 0);
}

static void tour_pointers(void)
{
    struct cudaPointerAttributes attributes;
    void *device;
    void *pinned;
    void *mapped;
    char *plain = malloc(65536);
    size_t available;
    size_t total;
    OK(cudaMalloc(&device, 1000));
    OK(cudaHostAlloc(&pinned, 1000, cudaHostAllocDefault));
    OK(cudaPointerGetAttributes(&attributes, (char *)device + 999));
    CHECK(attributes.type == cudaMemoryTypeDevice && attributes.device == 0);
    CHECK(attributes.devicePointer == (char *)device + 999);
    OK(cudaPointerGetAttributes(&attributes, pinned));
    CHECK(attributes.type == cudaMemoryTypeHost && attributes.hostPointer == pinned);
    OK(cudaHostGetDevicePointer(&mapped, pinned, 0));
    CHECK(attributes.devicePointer == mapped);
    OK(cudaPointerGetAttributes(&attributes, plain));
    CHECK(attributes.type == cudaMemoryTypeUnregistered);
    OK(cudaHostRegister(plain, 65536, cudaHostRegisterDefault));
    OK(cudaPointerGetAttributes(&attributes, plain + 100));
    CHECK(attributes.type == cudaMemoryTypeHost);
    GIVES(cudaHostRegister(plain, 65536, cudaHostRegisterDefault),
          cudaErrorHostMemoryAlreadyRegistered);
    CHECK(cudaGetLastError() == cudaErrorHostMemoryAlreadyRegistered);
    OK(cudaHostUnregister(plain));
    OK(cudaMemGetInfo(&available, &total));
    CHECK(available <= total && total > 0);
    OK(cudaFree(device));
    OK(cudaFree(NULL));
    OK(cudaFreeHost(pinned));
    free(plain);
}

/* There and back by each kind of call, from each kind of memory. */
static void tour_copies(void)
{
    unsigned char *one;
    unsigned char *other;
    unsigned char *pinned;
    unsigned char plain[1000];
    unsigned char back[1000] = {0};
    cudaStream_t stream;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaMalloc((void **)&one, sizeof(plain)));
    OK(cudaMalloc((void **)&other, sizeof(plain)));
    OK(cudaMallocHost((void **)&pinned, sizeof(plain)));
    for (size_t i = 0; i < sizeof(plain); i++)
        plain[i] = (unsigned char)(i * 7 + 1);

    OK(cudaMemcpy(one, plain, sizeof(plain), cudaMemcpyHostToDevice));
    OK(cudaMemcpy(other, one, sizeof(plain), cudaMemcpyDeviceToDevice));
    OK(cudaDeviceSynchronize()); /* which the last one need not have waited for */
    OK(cudaMemcpy(back, other, sizeof(plain), cudaMemcpyDefault));
    CHECK(memcmp(plain, back, sizeof(plain)) == 0);

    OK(cudaMemsetAsync(one, 0x5a, sizeof(plain), stream));
    OK(cudaMemcpyAsync(pinned, one, sizeof(plain), cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(pinned[0] == 0x5a && pinned[999] == 0x5a);

    /* Ten rows of 50 bytes: out of lines of 100, into lines of 60. */
    OK(cudaMemset(other, 0, sizeof(plain)));
    OK(cudaDeviceSynchronize());
    OK(cudaMemcpy2DAsync(other, 60, plain, 100, 50, 10, cudaMemcpyHostToDevice, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy2D(back, 100, other, 60, 50, 10, cudaMemcpyDefault));
    for (size_t row = 0; row < 10; row++)
        CHECK(memcmp(back + row * 100, plain + row * 100, 50) == 0);
    GIVES(cudaMemcpy2DAsync(other, 40, plain, 100, 50, 10, cudaMemcpyHostToDevice, stream),
          cudaErrorInvalidPitchValue);
    CHECK(cudaGetLastError() == cudaErrorInvalidPitchValue);

    OK(cudaFree(one));
    OK(cudaFree(other));
    OK(cudaFreeHost(pinned));
    OK(cudaStreamDestroy(stream));
}

static void tour_batch(void)
{
    unsigned char *device;
    unsigned char *pinned;
    cudaStream_t stream;
    struct cudaMemcpyAttributes attributes = {.srcAccessOrder = cudaMemcpySrcAccessOrderStream};
    size_t first = 0;
    OK(cudaStreamCreate(&stream));
    OK(cudaMalloc((void **)&device, 4000));
    OK(cudaMallocHost((void **)&pinned, 8000));
    for (size_t i = 0; i < 4000; i++)
        pinned[i] = (unsigned char)(i * 3);
    void *down[4];
    const void *up[4];
    size_t sizes[4];
    for (size_t i = 0; i < 4; i++) {
        down[i] = device + i * 1000;
        up[i] = pinned + i * 1000;
        sizes[i] = 1000 - i;
    }
    OK(cudaMemsetAsync(device, 0, 4000, stream));
    OK(cudaMemcpyBatchAsync(down, up, sizes, 4, &attributes, &first, 1, stream));
    OK(cudaMemcpyAsync(pinned + 4000, device, 4000, cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    for (size_t i = 0; i < 4; i++) {
        CHECK(memcmp(pinned + i * 1000, pinned + 4000 + i * 1000, sizes[i]) == 0);
        CHECK(i == 0 || pinned[4000 + i * 1000 + 999] == 0);
    }
    OK(cudaFree(device));
    OK(cudaFreeHost(pinned));
    OK(cudaStreamDestroy(stream));
}

typedef struct call_count {
    int count;
} call_count;

static void count_call(void *arg)
{
    ((call_count *)arg)->count++;
}

/* Two streams: the second waits for an event of the first, which a gate holds. */
static void tour_streams(void)
{
    cudaStream_t streams[2];
    cudaEvent_t event;
    cudaEvent_t begin;
    cudaEvent_t end;
    unsigned long long ids[2];
    call_count calls = {0};
    gate gate;
    uint32_t *device;
    uint32_t back = 0;
    float milliseconds;
    int priority;
    int least;
    int greatest;
    OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    for (int i = 0; i < 2; i++) {
        OK(cudaStreamCreateWithPriority(&streams[i], cudaStreamNonBlocking, i ? greatest : least));
        OK(cudaStreamGetId(streams[i], &ids[i]));
        OK(cudaStreamGetPriority(streams[i], &priority));
        CHECK(priority == (i ? greatest : least));
    }
    CHECK(ids[0] != ids[1]);
    OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    OK(cudaEventCreate(&begin));
    OK(cudaEventCreate(&end));
    OK(cudaMalloc((void **)&device, sizeof(*device)));

    gate_close(&gate, streams[0]);
    uint64_t count = 1;
    uint32_t value = 77;
    void *params[] = {&device, &count, &value};
    launch("ferry_fill", 1, streams[0], params);
    OK(cudaEventRecord(event, streams[0]));
    OK(cudaStreamWaitEvent(streams[1], event, 0));
    OK(cudaLaunchHostFunc(streams[1], count_call, &calls));
    GIVES(cudaStreamQuery(streams[0]), cudaErrorNotReady);
    CHECK(cudaGetLastError() == cudaErrorNotReady);
    GIVES(cudaEventQuery(event), cudaErrorNotReady);
    GIVES(cudaStreamQuery(streams[1]), cudaErrorNotReady);
    CHECK(cudaGetLastError() == cudaErrorNotReady);
    gate_open(&gate);
    OK(cudaStreamSynchronize(streams[1]));
    CHECK(calls.count == 1);
    OK(cudaEventSynchronize(event));
    OK(cudaEventQuery(event));
    OK(cudaMemcpyAsync(&back, device, sizeof(back), cudaMemcpyDeviceToHost, streams[1]));
    OK(cudaStreamSynchronize(streams[1]));
    CHECK(back == 77);

    uint64_t duration_ns = 2000000;
    void *spin[] = {&duration_ns};
    OK(cudaEventRecord(begin, streams[0]));
    launch("ferry_spin", 1, streams[0], spin);
    OK(cudaEventRecordWithFlags(end, streams[0], cudaEventRecordDefault));
    OK(cudaEventSynchronize(end));
    OK(cudaEventElapsedTime(&milliseconds, begin, end));
    CHECK(milliseconds > 1.0F);
    GIVES(cudaEventElapsedTime(&milliseconds, begin, event), cudaErrorInvalidResourceHandle);
    CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);

    gate_free(&gate);
    OK(cudaFree(device));
    OK(cudaEventDestroy(event));
    OK(cudaEventDestroy(begin));
    OK(cudaEventDestroy(end));
    OK(cudaStreamDestroy(streams[0]));
    OK(cudaStreamDestroy(streams[1]));
}

static void tour_pools(void)
{
    cudaMemPool_t pool;
    struct cudaMemPoolProps properties = {
        .allocType = cudaMemAllocationTypePinned,
        .location = {.type = cudaMemLocationTypeDevice, .id = 0},
    };
    cuuint64_t threshold = UINT64_MAX;
    cudaStream_t stream;
    void *one;
    void *other;
    OK(cudaStreamCreate(&stream));
    OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    OK(cudaMallocAsync(&one, 4096, stream));
    OK(cudaMemsetAsync(one, 1, 4096, stream));
    OK(cudaFreeAsync(one, stream));
    OK(cudaMemPoolCreate(&pool, &properties));
    OK(cudaMallocFromPoolAsync(&other, 4096, pool, stream));
    OK(cudaMemsetAsync(other, 2, 4096, stream));
    OK(cudaFreeAsync(other, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemPoolDestroy(pool));
    OK(cudaStreamDestroy(stream));
}

/* The layer of ferry_layer, as tools/demo_model.c computes it. */
static float layer_at(const float *weights, const float *in, size_t row, size_t column)
{
    const float *panel = weights + column / 16 * 16 * WIDTH;
    float sum = 0;
    for (size_t k = 0; k < WIDTH; k++) {
        float product = panel[k * 16 + column % 16] * in[row * WIDTH + k];
        sum += product;
    }
    return sum > 0 ? sum : sum * 0.125F;
}

static void tour_kernels(void)
{
    static float weights[WIDTH * WIDTH];
    static float in[ROWS * WIDTH];
    static float out[ROWS * WIDTH];
    char *device;
    uint32_t *errors;
    uint32_t found = 0;
    cudaStream_t stream;
    size_t in_bytes = sizeof(weights);
    size_t out_bytes = in_bytes + sizeof(in);
    OK(cudaStreamCreate(&stream));
    OK(cudaMalloc((void **)&device, WORDS * sizeof(uint64_t)));
    OK(cudaMalloc((void **)&errors, sizeof(*errors)));

    OK(cudaMemsetAsync(errors, 0, sizeof(*errors), stream));
    fill_pattern(device, WORDS, SEED, stream);
    check_pattern(device, WORDS, SEED, errors, stream);
    OK(cudaMemcpyAsync(&found, errors, sizeof(found), cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(found == 0);
    OK(cudaMemsetAsync(device + 8 * 5000, 0, 16, stream));
    OK(cudaMemsetAsync(device + 8 * (WORDS - 1), 0, 1, stream));
    check_pattern(device, WORDS, SEED, errors, stream);
    OK(cudaMemcpyAsync(&found, errors, sizeof(found), cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(found == 2 + ((pattern(WORDS - 1, SEED) & 0xff) != 0));

    for (size_t i = 0; i < WIDTH * WIDTH; i++)
        weights[i] = (float)((int)(i * 7919 % 1000) - 500) / 700.0F;
    for (size_t i = 0; i < ROWS * WIDTH; i++)
        in[i] = (float)((int)(i * 104729 % 1000) - 500) / 300.0F;
    OK(cudaMemcpyAsync(device, weights, sizeof(weights), cudaMemcpyHostToDevice, stream));
    OK(cudaMemcpyAsync(device + in_bytes, in, sizeof(in), cudaMemcpyHostToDevice, stream));
    uint64_t width = WIDTH;
    uint64_t rows = ROWS;
    char *in_p = device + in_bytes;
    char *out_p = device + out_bytes;
    void *params[] = {&width, &rows, &device, &in_p, &out_p};
    launch("ferry_layer", 256, stream, params);
    OK(cudaMemcpyAsync(out, out_p, sizeof(out), cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    for (size_t row = 0; row < ROWS; row++) {
        for (size_t column = 0; column < WIDTH; column++) {
            float expected = layer_at(weights, in, row, column);
            CHECK(memcmp(&expected, &out[row * WIDTH + column], sizeof(float)) == 0);
        }
    }
    OK(cudaFree(device));
    OK(cudaFree(errors));
    OK(cudaStreamDestroy(stream));
}

/* A graph that forks and joins: pattern, then its check beside a copy, then a copy of both. */
static void tour_graphs(void)
{
    cudaStream_t streams[2];
    cudaEvent_t forked;
    cudaEvent_t joined;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    enum cudaStreamCaptureStatus status;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    uint64_t *device;
    uint64_t *pinned;
    uint32_t *errors;
    for (int i = 0; i < 2; i++)
        OK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    OK(cudaEventCreateWithFlags(&forked, cudaEventDisableTiming));
    OK(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
    OK(cudaMalloc((void **)&device, WORDS * sizeof(*device)));
    OK(cudaMallocHost((void **)&pinned, WORDS * sizeof(*pinned)));
    OK(cudaMalloc((void **)&errors, sizeof(*errors)));
    memset(pinned, 0, WORDS * sizeof(*pinned));

    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    CHECK(mode == cudaStreamCaptureModeGlobal);
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    CHECK(mode == cudaStreamCaptureModeRelaxed);

    OK(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeGlobal));
    fill_pattern(device, WORDS, SEED, streams[0]);
    OK(cudaMemsetAsync(errors, 0, sizeof(*errors), streams[0]));
    OK(cudaEventRecord(forked, streams[0]));
    OK(cudaStreamWaitEvent(streams[1], forked, 0));
    OK(cudaStreamIsCapturing(streams[1], &status));
    CHECK(status == cudaStreamCaptureStatusActive);
    check_pattern(device, WORDS, SEED, errors, streams[1]);
    OK(cudaMemcpyAsync(pinned, device, WORDS * sizeof(*pinned), cudaMemcpyDeviceToHost,
                       streams[0]));
    OK(cudaEventRecord(joined, streams[1]));
    OK(cudaStreamWaitEvent(streams[0], joined, 0));
    OK(cudaMemcpyAsync(pinned, errors, sizeof(*errors), cudaMemcpyDeviceToHost, streams[0]));
    OK(cudaStreamEndCapture(streams[0], &graph));
    OK(cudaStreamIsCapturing(streams[1], &status));
    CHECK(status == cudaStreamCaptureStatusNone);
    CHECK(pinned[5] == 0); /* nothing of it has run */

    OK(cudaGraphInstantiate(&executable, graph, 0));
    OK(cudaGraphDestroy(graph));
    for (int i = 0; i < 3; i++) {
        memset(pinned, 0xff, WORDS * sizeof(*pinned));
        OK(cudaGraphLaunch(executable, streams[i % 2]));
        OK(cudaStreamSynchronize(streams[i % 2]));
        CHECK(*(uint32_t *)pinned == 0); /* errors that the check found */
        for (uint64_t j = 1; j < WORDS; j++)
            CHECK(pinned[j] == pattern(j, SEED));
    }
    OK(cudaGraphLaunch(executable, streams[0]));
    OK(cudaGraphExecDestroy(executable)); /* which what is in flight outlives */
    OK(cudaStreamSynchronize(streams[0]));

    OK(cudaFree(device));
    OK(cudaFree(errors));
    OK(cudaFreeHost(pinned));
    OK(cudaEventDestroy(forked));
    OK(cudaEventDestroy(joined));
    OK(cudaStreamDestroy(streams[0]));
    OK(cudaStreamDestroy(streams[1]));
}

static void tour_peers(void)
{
    int can_access;
    char *memory[2];
    char back[100] = {0};
    cudaStream_t stream;
    OK(cudaDeviceCanAccessPeer(&can_access, 0, 1));
    for (int i = 0; i < 2; i++) {
        OK(cudaSetDevice(i));
        OK(cudaMalloc((void **)&memory[i], sizeof(back)));
        OK(cudaMemset(memory[i], i + 1, sizeof(back)));
        OK(cudaDeviceSynchronize());
    }
    OK(cudaSetDevice(0));
    if (can_access) {
        OK(cudaDeviceEnablePeerAccess(1, 0));
        GIVES(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
        CHECK(cudaGetLastError() == cudaErrorPeerAccessAlreadyEnabled);
    }
    OK(cudaStreamCreate(&stream));
    OK(cudaMemcpyPeerAsync(memory[0], 0, memory[1], 1, sizeof(back), stream));
    OK(cudaMemcpyAsync(back, memory[0], sizeof(back), cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(back[0] == 2 && back[99] == 2);
    if (can_access)
        OK(cudaDeviceDisablePeerAccess(1));
    OK(cudaStreamDestroy(stream));
    OK(cudaFree(memory[0]));
    OK(cudaFree(memory[1]));
}

/* A context that the driver made current is the runtime's, too; and without one, the device's is.
 */
static void tour_contexts(int count)
{
    CUcontext mine;
    CUcontext other;
    int device;
    OK(cudaSetDevice(count - 1));
    OK(driver.cuCtxGetCurrent_p(&mine));
    OK(cudaSetDevice(0));
    OK(driver.cuCtxSetCurrent_p(mine));
    OK(cudaGetDevice(&device));
    CHECK(device == count - 1);
    OK(driver.cuCtxSetCurrent_p(NULL));
    OK(cudaFree(NULL));
    OK(driver.cuCtxGetCurrent_p(&other));
    CHECK(other != NULL);
    OK(cudaSetDevice(0));
}

/* A thread of its own, which begins with device 0 and without a context. */
static void *tour_thread(void *arg)
{
    uint32_t mark = *(uint32_t *)arg;
    cudaStream_t stream;
    uint32_t *device;
    uint32_t *pinned;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaMalloc((void **)&device, 4096));
    OK(cudaMallocHost((void **)&pinned, 4096));
    for (uint32_t i = 0; i < 50; i++) {
        uint64_t count = 1024;
        uint32_t value = mark + i;
        void *params[] = {&device, &count, &value};
        launch("ferry_fill", 128, stream, params);
        OK(cudaMemcpyAsync(pinned, device, 4096, cudaMemcpyDeviceToHost, stream));
        OK(cudaStreamSynchronize(stream));
        CHECK(pinned[0] == mark + i && pinned[1023] == mark + i);
    }
    OK(cudaFreeHost(pinned));
    OK(cudaFree(device));
    OK(cudaStreamDestroy(stream));
    return NULL;
}

static void tour_threads(void)
{
    pthread_t threads[THREADS];
    uint32_t marks[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        marks[i] = i * 1000;
        CHECK(pthread_create(&threads[i], NULL, tour_thread, &marks[i]) == 0);
    }
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(void)
{
    int count;
    OK(cudaGetDeviceCount(&count));
    tour_devices(count);
    tour_errors(count);
    find_driver();
    OK(driver.cuModuleLoadData_p(&module, ferry_kernels_ptx));
    warm_up();
    tour_pointers();
    tour_copies();
    tour_batch();
    tour_streams();
    tour_pools();
    tour_kernels();
    tour_graphs();
    if (count > 1)
        tour_peers();
    tour_contexts(count);
    tour_threads();
    OK(driver.cuModuleUnload_p(module));
    OK(cudaDeviceReset());
    OK(cudaFree(NULL)); /* and everything begins anew */
    OK(cudaDeviceReset());
    CHECK(cudaGetLastError() == cudaSuccess);
    puts("runtime_tour: all as it should be");
    return EXIT_SUCCESS;
}
