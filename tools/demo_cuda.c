/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo_cuda.h"

#include <cuda.h>
#include <dlfcn.h>
#include <ferry_kernels.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_THREADS 128
#define TILE_ROWS 4 /* rows that a thread of ferry_layer computes */
#define LOGICAL_DEVICES_MAX 16

/* The driver's functions called here, by their names in cuda.h. */
#define CALLS(X)                                                                                   \
    X(cuInit)                                                                                      \
    X(cuGetErrorName)                                                                              \
    X(cuGetErrorString)                                                                            \
    X(cuDeviceGetCount)                                                                            \
    X(cuDeviceGet)                                                                                 \
    X(cuDeviceGetName)                                                                             \
    X(cuDevicePrimaryCtxRetain)                                                                    \
    X(cuDevicePrimaryCtxRelease)                                                                   \
    X(cuCtxSetCurrent)                                                                             \
    X(cuStreamCreate)                                                                              \
    X(cuStreamDestroy)                                                                             \
    X(cuStreamSynchronize)                                                                         \
    X(cuStreamWaitEvent)                                                                           \
    X(cuEventCreate)                                                                               \
    X(cuEventDestroy)                                                                              \
    X(cuEventRecord)                                                                               \
    X(cuMemcpyAsync)                                                                               \
    X(cuMemsetD8Async)                                                                             \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleUnload)                                                                              \
    X(cuModuleGetFunction)                                                                         \
    X(cuLaunchKernel)

typedef struct driver {
#define FIELD(name) __typeof__(&(name)) call_##name;
    CALLS(FIELD)
#undef FIELD
} driver;

typedef struct gpu {
    CUdevice device;
    CUcontext context; /* the primary context, as ferry's */
    CUmodule module;
    CUfunction layer;
} gpu;

typedef struct stage {
    size_t gpu;
    CUstream streams[DEMO_CUDA_STREAM_COUNT];
} stage;

#define MODEL_BYTES 100
#define GPUS_TEXT_BYTES (MODEL_BYTES + 24)

struct demo_cuda {
    driver driver;
    gpu *gpus;
    size_t gpu_count;
    char gpus_text[GPUS_TEXT_BYTES];
    stage *stages;
    size_t stage_count;
    CUevent *events;
    size_t event_count, event_room;
};

static int fail_call(const demo_cuda *cuda, const char *call, CUresult result)
{
    const char *name = NULL;
    const char *text = NULL;
    (void)cuda->driver.call_cuGetErrorName(result, &name);
    (void)cuda->driver.call_cuGetErrorString(result, &text);
    fprintf(stderr, "ferry: %s: %s (%s, %d)\n", call, text ? text : "unknown error",
            name ? name : "?", (int)result);
    return EXIT_FAILURE;
}

/* Makes the call, and reports its failure. */
#define TRY(cuda, name, ...) check(cuda, #name, (cuda)->driver.call_##name(__VA_ARGS__))

static int check(const demo_cuda *cuda, const char *call, CUresult result)
{
    return result == CUDA_SUCCESS ? 0 : fail_call(cuda, call, result);
}

static int fail_memory(void)
{
    fputs("ferry: out of memory\n", stderr);
    return EXIT_FAILURE;
}

/* ---- opening ---- */

/* The library is never closed: drivers are not made for it. */
static int find_driver(driver *driver)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "ferry: no CUDA driver: %s\n", dlerror());
        return EXIT_FAILURE;
    }
    void *symbol = dlsym(library, "cuGetProcAddress_v2");
    if (!symbol) {
        fputs("ferry: the CUDA driver is too old: it has no cuGetProcAddress_v2\n", stderr);
        return EXIT_FAILURE;
    }
    __typeof__(&cuGetProcAddress) find;
    memcpy(&find, &symbol, sizeof(find));
    const char *missing = NULL;
#define FIND(name)                                                                                 \
    symbol = NULL;                                                                                 \
    if (find(#name, &symbol, CUDA_VERSION, CU_GET_PROC_ADDRESS_DEFAULT, NULL) != CUDA_SUCCESS ||   \
        !symbol)                                                                                   \
        missing = #name;                                                                           \
    memcpy(&driver->call_##name, &symbol, sizeof(driver->call_##name));
    CALLS(FIND)
#undef FIND
    if (!missing)
        return 0;
    fprintf(stderr, "ferry: the CUDA driver is too old: it has no %s of CUDA %d.%d\n", missing,
            CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
    return EXIT_FAILURE;
}

static int count_gpus(demo_cuda *cuda, size_t stages)
{
    int count = 0;
    int result = TRY(cuda, cuInit, 0);
    if (!result)
        result = TRY(cuda, cuDeviceGetCount, &count);
    if (result)
        return result;
    if (count <= 0) {
        fputs("ferry: the CUDA driver has no GPU\n", stderr);
        return EXIT_FAILURE;
    }
    if (stages > (size_t)count * LOGICAL_DEVICES_MAX) {
        fprintf(stderr, "ferry: %zu stages are too many for %d GPUs; %d on each is the most\n",
                stages, count, LOGICAL_DEVICES_MAX);
        return EXIT_FAILURE;
    }
    cuda->gpu_count = stages < (size_t)count ? stages : (size_t)count;
    cuda->gpus = calloc(cuda->gpu_count, sizeof(cuda->gpus[0]));
    cuda->stages = calloc(stages, sizeof(cuda->stages[0]));
    return cuda->gpus && cuda->stages ? 0 : fail_memory();
}

static int open_gpu(demo_cuda *cuda, size_t ordinal)
{
    gpu *gpu = &cuda->gpus[ordinal];
    int result = TRY(cuda, cuDeviceGet, &gpu->device, (int)ordinal);
    if (!result)
        result = TRY(cuda, cuDevicePrimaryCtxRetain, &gpu->context, gpu->device);
    if (!result)
        result = TRY(cuda, cuCtxSetCurrent, gpu->context);
    if (!result)
        result = TRY(cuda, cuModuleLoadData, &gpu->module, ferry_kernels_ptx);
    if (!result)
        result = TRY(cuda, cuModuleGetFunction, &gpu->layer, gpu->module, "ferry_layer");
    return result;
}

static int enter(const demo_cuda *cuda, size_t stage)
{
    return TRY(cuda, cuCtxSetCurrent, cuda->gpus[cuda->stages[stage].gpu].context);
}

static int open_stage(demo_cuda *cuda, size_t index)
{
    stage *stage = &cuda->stages[cuda->stage_count++];
    stage->gpu = index % cuda->gpu_count;
    int result = enter(cuda, index);
    for (size_t i = 0; i < DEMO_CUDA_STREAM_COUNT && !result; i++)
        result = TRY(cuda, cuStreamCreate, &stage->streams[i], CU_STREAM_NON_BLOCKING);
    return result;
}

static int name_gpus(demo_cuda *cuda)
{
    CUdevice device;
    char model[MODEL_BYTES] = "";
    int result = TRY(cuda, cuDeviceGet, &device, 0);
    if (!result)
        result = TRY(cuda, cuDeviceGetName, model, (int)sizeof(model), device);
    (void)snprintf(cuda->gpus_text, sizeof(cuda->gpus_text), "%zu x %s", cuda->gpu_count, model);
    return result;
}

int demo_cuda_open(size_t stages, demo_cuda **cuda_p)
{
    demo_cuda *cuda = calloc(1, sizeof(*cuda));
    if (!cuda)
        return fail_memory();
    int result = find_driver(&cuda->driver);
    if (result) {
        free(cuda);
        return result;
    }
    *cuda_p = cuda;
    result = count_gpus(cuda, stages);
    if (!result)
        result = name_gpus(cuda);
    for (size_t i = 0; i < cuda->gpu_count && !result; i++)
        result = open_gpu(cuda, i);
    for (size_t i = 0; i < stages && !result; i++)
        result = open_stage(cuda, i);
    return result;
}

void demo_cuda_close(demo_cuda *cuda)
{
    if (!cuda)
        return;
    const driver *driver = &cuda->driver;
    for (size_t i = 0; i < cuda->stage_count; i++) {
        (void)driver->call_cuCtxSetCurrent(cuda->gpus[cuda->stages[i].gpu].context);
        for (size_t k = 0; k < DEMO_CUDA_STREAM_COUNT; k++) {
            CUstream stream = cuda->stages[i].streams[k];
            if (stream && driver->call_cuStreamSynchronize(stream) == CUDA_SUCCESS)
                (void)driver->call_cuStreamDestroy(stream);
        }
    }
    for (size_t i = 0; i < cuda->event_count; i++)
        (void)driver->call_cuEventDestroy(cuda->events[i]);
    for (size_t i = 0; i < cuda->gpu_count && cuda->gpus; i++) {
        if (!cuda->gpus[i].context)
            continue;
        (void)driver->call_cuCtxSetCurrent(cuda->gpus[i].context);
        if (cuda->gpus[i].module)
            (void)driver->call_cuModuleUnload(cuda->gpus[i].module);
        (void)driver->call_cuCtxSetCurrent(NULL);
        (void)driver->call_cuDevicePrimaryCtxRelease(cuda->gpus[i].device);
    }
    free(cuda->events);
    free(cuda->stages);
    free(cuda->gpus);
    free(cuda);
}

const char *demo_cuda_gpus(const demo_cuda *cuda)
{
    return cuda->gpus_text;
}

void demo_cuda_device_name(const demo_cuda *cuda, size_t stage, char name[DEMO_CUDA_NAME_BYTES])
{
    size_t logical = stage / cuda->gpu_count;
    if (logical == 0)
        (void)snprintf(name, DEMO_CUDA_NAME_BYTES, "cuda:%zu", stage % cuda->gpu_count);
    else
        (void)snprintf(name, DEMO_CUDA_NAME_BYTES, "cuda:%zu/%zu", stage % cuda->gpu_count,
                       logical);
}

void *demo_cuda_native_stream(const demo_cuda *cuda, size_t stage, demo_cuda_stream which)
{
    return cuda->stages[stage].streams[which];
}

/* ---- work ---- */

static CUdeviceptr address(const void *memory)
{
    return (CUdeviceptr)(uintptr_t)memory;
}

int demo_cuda_layer(demo_cuda *cuda, size_t stage, size_t width, size_t rows, const void *weights,
                    const void *in, void *out)
{
    uint64_t wide = width;
    uint64_t high = rows;
    CUdeviceptr arrays[] = {address(weights), address(in), address(out)};
    void *parameters[] = {&wide, &high, &arrays[0], &arrays[1], &arrays[2]};
    size_t threads = (rows + TILE_ROWS - 1) / TILE_ROWS * width;
    unsigned blocks = (unsigned)((threads + BLOCK_THREADS - 1) / BLOCK_THREADS);
    int result = enter(cuda, stage);
    if (!result)
        result = TRY(cuda, cuLaunchKernel, cuda->gpus[cuda->stages[stage].gpu].layer, blocks, 1, 1,
                     BLOCK_THREADS, 1, 1, 0, cuda->stages[stage].streams[DEMO_CUDA_COMPUTE],
                     parameters, NULL);
    return result;
}

int demo_cuda_copy(demo_cuda *cuda, size_t stage, demo_cuda_stream which, void *dst,
                   const void *src, size_t size_bytes)
{
    int result = enter(cuda, stage);
    if (!result)
        result = TRY(cuda, cuMemcpyAsync, address(dst), address(src), size_bytes,
                     cuda->stages[stage].streams[which]);
    return result;
}

int demo_cuda_event(demo_cuda *cuda, size_t stage, void **event_p)
{
    if (cuda->event_count == cuda->event_room) {
        size_t room = cuda->event_room ? cuda->event_room * 2 : 64;
        CUevent *events = realloc(cuda->events, room * sizeof(events[0]));
        if (!events)
            return fail_memory();
        cuda->events = events;
        cuda->event_room = room;
    }
    CUevent event = NULL;
    int result = enter(cuda, stage);
    if (!result)
        result = TRY(cuda, cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
    if (result)
        return result;
    cuda->events[cuda->event_count++] = event;
    *event_p = event;
    return 0;
}

int demo_cuda_record(demo_cuda *cuda, size_t stage, demo_cuda_stream which, void *event)
{
    int result = enter(cuda, stage);
    if (!result)
        result = TRY(cuda, cuEventRecord, event, cuda->stages[stage].streams[which]);
    return result;
}

int demo_cuda_wait_event(demo_cuda *cuda, size_t stage, demo_cuda_stream which, void *event)
{
    int result = enter(cuda, stage);
    if (!result)
        result = TRY(cuda, cuStreamWaitEvent, cuda->stages[stage].streams[which], event, 0);
    return result;
}

int demo_cuda_fill(demo_cuda *cuda, size_t stage, void *dst, unsigned char byte, size_t size_bytes)
{
    int result = enter(cuda, stage);
    if (!result)
        result = TRY(cuda, cuMemsetD8Async, address(dst), byte, size_bytes,
                     cuda->stages[stage].streams[DEMO_CUDA_COMPUTE]);
    return result ? result : demo_cuda_finish(cuda, stage, DEMO_CUDA_COMPUTE);
}

int demo_cuda_put(demo_cuda *cuda, size_t stage, void *dst, const void *src, size_t size_bytes)
{
    int result = demo_cuda_copy(cuda, stage, DEMO_CUDA_FROM_HOST, dst, src, size_bytes);
    return result ? result : demo_cuda_finish(cuda, stage, DEMO_CUDA_FROM_HOST);
}

int demo_cuda_finish(demo_cuda *cuda, size_t stage, demo_cuda_stream which)
{
    int result = enter(cuda, stage);
    if (!result)
        result = TRY(cuda, cuStreamSynchronize, cuda->stages[stage].streams[which]);
    return result;
}

int demo_cuda_finish_all(demo_cuda *cuda)
{
    int result = 0;
    for (size_t i = 0; i < cuda->stage_count && !result; i++) {
        for (size_t k = 0; k < DEMO_CUDA_STREAM_COUNT && !result; k++)
            result = demo_cuda_finish(cuda, i, (demo_cuda_stream)k);
    }
    return result;
}
