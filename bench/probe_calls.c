/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calls: ns of each driver call that ferry makes, idle and beside a thread that launches kernels
 * all the time; each call timed by itself, what it needs before and leaves behind not.
 */
#include "bench/probe.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LIMIT_NS INT64_C(30000000) /* of one call's samples */
#define SAMPLES_MOST 1000
#define FLIGHT 32 /* operations before the stream is waited for, so that none waits for room */
#define BYTES ((size_t)65536)
#define BATCH 16
#define RANGE_NAMES 3

static struct {
    CUcontext context;
    CUstream stream, made, outside;
    CUevent event, other_event, event_made;
    CUdeviceptr memory, made_memory, device_words;
    void *made_pinned;
    CUmemoryPool pool, made_pool;
    CUmemPoolProps props;
    CUmemAccessDesc access;
    CUstreamCaptureStatus status;
    CUstreamCaptureMode mode;
    CUDA_MEMCPY2D rows;
    CUdeviceptr dsts[BATCH], srcs[BATCH];
    size_t sizes[BATCH], first, free_bytes, total_bytes;
    CUmemcpyAttributes attributes;
    probe_ends ends[PROBE_WAYS];
    uint32_t *word, *flag;
    unsigned long long id;
    unsigned type;
    CUpointer_attribute name;
    void *value;
    CUpointer_attribute range_names[RANGE_NAMES];
    void *range_values[RANGE_NAMES];
    CUdeviceptr range_begin;
    CUipcMemHandle share;
    cuuint64_t number;
    int integer, lowest, highest;
    char text[256];
    const char *words;
    uint32_t zero;
} rig;

static char own[BYTES] __attribute__((aligned(4096))); /* to be pinned where it is */

#define DO(name, ...) driver.name(__VA_ARGS__)
#define NONE CUDA_SUCCESS
#define PINNED CU_MEMHOSTALLOC_PORTABLE
#define REGISTERED (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP)
#define EVENT CU_EVENT_DISABLE_TIMING
#define NEW_STREAM DO(cuStreamCreateWithPriority, &rig.made, CU_STREAM_NON_BLOCKING, gpu.lowest)
#define NEW_POOLED DO(cuMemAllocFromPoolAsync, &rig.made_memory, BYTES, rig.pool, rig.stream)
#define COPY(way)                                                                                  \
    DO(cuMemcpyAsync, rig.ends[way].dst, rig.ends[way].src, rig.ends[way].size_bytes, rig.stream)

/*
 * X(driver's name, what the row adds to it, an identifier, before, the call, after). What is freed
 * by "after" was made by the call, and so on: each turn leaves the rig as it was.
 */
#define CALL_MAP(X)                                                                                \
    X(cuInit, "", init, NONE, DO(cuInit, 0), NONE)                                                 \
    X(cuGetErrorName, "", error_name, NONE, DO(cuGetErrorName, NONE, &rig.words), NONE)            \
    X(cuGetErrorString, "", error_text, NONE, DO(cuGetErrorString, NONE, &rig.words), NONE)        \
    X(cuDeviceGetCount, "", count, NONE, DO(cuDeviceGetCount, &rig.integer), NONE)                 \
    X(cuDeviceGet, "", get, NONE, DO(cuDeviceGet, &rig.integer, 0), NONE)                          \
    X(cuDeviceGetName, "", get_name, NONE, DO(cuDeviceGetName, rig.text, 256, 0), NONE)            \
    X(cuDeviceGetAttribute, "", attribute, NONE,                                                   \
      DO(cuDeviceGetAttribute, &rig.integer, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 0), NONE)     \
    X(cuDeviceTotalMem, "", total, NONE, DO(cuDeviceTotalMem, &rig.total_bytes, 0), NONE)          \
    X(cuDeviceCanAccessPeer, "", peer, NONE, DO(cuDeviceCanAccessPeer, &rig.integer, 0, 0), NONE)  \
    X(cuDevicePrimaryCtxRetain, "", retain, NONE, DO(cuDevicePrimaryCtxRetain, &rig.context, 0),   \
      DO(cuDevicePrimaryCtxRelease, 0))                                                            \
    X(cuDevicePrimaryCtxRelease, "", release, DO(cuDevicePrimaryCtxRetain, &rig.context, 0),       \
      DO(cuDevicePrimaryCtxRelease, 0), NONE)                                                      \
    X(cuCtxPushCurrent, "", push, NONE, DO(cuCtxPushCurrent, gpu.context),                         \
      DO(cuCtxPopCurrent, &rig.context))                                                           \
    X(cuCtxPopCurrent, "", pop, DO(cuCtxPushCurrent, gpu.context),                                 \
      DO(cuCtxPopCurrent, &rig.context), NONE)                                                     \
    X(cuCtxGetCurrent, "", current, NONE, DO(cuCtxGetCurrent, &rig.context), NONE)                 \
    X(cuCtxGetDevice, "", device, NONE, DO(cuCtxGetDevice, &rig.integer), NONE)                    \
    X(cuCtxGetStreamPriorityRange, "", range, NONE,                                                \
      DO(cuCtxGetStreamPriorityRange, &rig.lowest, &rig.highest), NONE)                            \
    X(cuThreadExchangeStreamCaptureMode, "", mode, NONE,                                           \
      DO(cuThreadExchangeStreamCaptureMode, &rig.mode), NONE)                                      \
    X(cuStreamCreateWithPriority, "", stream, NONE, NEW_STREAM, DO(cuStreamDestroy, rig.made))     \
    X(cuStreamDestroy, "", stream_end, NEW_STREAM, DO(cuStreamDestroy, rig.made), NONE)            \
    X(cuStreamQuery, "", query, NONE, DO(cuStreamQuery, rig.outside), NONE)                        \
    X(cuStreamSynchronize, "", finish, NONE, DO(cuStreamSynchronize, rig.outside), NONE)           \
    X(cuStreamWaitEvent, "", wait, NONE, DO(cuStreamWaitEvent, rig.stream, rig.other_event, 0),    \
      NONE)                                                                                        \
    X(cuStreamGetId, "", id, NONE, DO(cuStreamGetId, rig.stream, &rig.id), NONE)                   \
    X(cuStreamGetCtx, "", context, NONE, DO(cuStreamGetCtx, rig.stream, &rig.context), NONE)       \
    X(cuStreamIsCapturing, "", capture, NONE, DO(cuStreamIsCapturing, rig.stream, &rig.status),    \
      NONE)                                                                                        \
    X(cuStreamWriteValue32, "", write, NONE,                                                       \
      DO(cuStreamWriteValue32, rig.stream, probe_address(rig.word), 1, 0), NONE)                   \
    X(cuStreamWaitValue32, "", wait_value, NONE,                                                   \
      DO(cuStreamWaitValue32, rig.stream, probe_address(rig.word), 0, CU_STREAM_WAIT_VALUE_GEQ),   \
      NONE)                                                                                        \
    X(cuEventCreate, "", event, NONE, DO(cuEventCreate, &rig.event_made, EVENT),                   \
      DO(cuEventDestroy, rig.event_made))                                                          \
    X(cuEventDestroy, "", event_end, DO(cuEventCreate, &rig.event_made, EVENT),                    \
      DO(cuEventDestroy, rig.event_made), NONE)                                                    \
    X(cuEventRecord, "", record, NONE, DO(cuEventRecord, rig.event, rig.stream), NONE)             \
    X(cuEventQuery, "", event_query, NONE, DO(cuEventQuery, rig.other_event), NONE)                \
    X(cuEventSynchronize, "", event_finish, NONE, DO(cuEventSynchronize, rig.other_event), NONE)   \
    X(cuMemcpyAsync, "-h2d", copy_h2d, NONE, COPY(PROBE_H2D), NONE)                                \
    X(cuMemcpyAsync, "-d2h", copy_d2h, NONE, COPY(PROBE_D2H), NONE)                                \
    X(cuMemcpyAsync, "-d2d", copy_d2d, NONE, COPY(PROBE_D2D), NONE)                                \
    X(cuMemcpy2DAsync, "", rows, NONE, DO(cuMemcpy2DAsync, &rig.rows, rig.stream), NONE)           \
    X(cuMemcpyBatchAsync, "-16", batch, NONE,                                                      \
      DO(cuMemcpyBatchAsync, rig.dsts, rig.srcs, rig.sizes, BATCH, &rig.attributes, &rig.first, 1, \
         rig.stream),                                                                              \
      NONE)                                                                                        \
    X(cuMemAlloc, "", alloc, NONE, DO(cuMemAlloc, &rig.made_memory, BYTES),                        \
      DO(cuMemFree, rig.made_memory))                                                              \
    X(cuMemFree, "", mem_free, DO(cuMemAlloc, &rig.made_memory, BYTES),                            \
      DO(cuMemFree, rig.made_memory), NONE)                                                        \
    X(cuMemAllocFromPoolAsync, "", pooled, NONE, NEW_POOLED,                                       \
      DO(cuMemFreeAsync, rig.made_memory, rig.stream))                                             \
    X(cuMemFreeAsync, "", pooled_end, NEW_POOLED, DO(cuMemFreeAsync, rig.made_memory, rig.stream), \
      NONE)                                                                                        \
    X(cuMemPoolCreate, "", pool, NONE, DO(cuMemPoolCreate, &rig.made_pool, &rig.props),            \
      DO(cuMemPoolDestroy, rig.made_pool))                                                         \
    X(cuMemPoolDestroy, "", pool_end, DO(cuMemPoolCreate, &rig.made_pool, &rig.props),             \
      DO(cuMemPoolDestroy, rig.made_pool), NONE)                                                   \
    X(cuMemPoolSetAttribute, "", pool_set, NONE,                                                   \
      DO(cuMemPoolSetAttribute, rig.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &rig.number), NONE)   \
    X(cuMemPoolGetAttribute, "", pool_get, NONE,                                                   \
      DO(cuMemPoolGetAttribute, rig.pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &rig.number), NONE)    \
    X(cuMemPoolSetAccess, "", pool_access, NONE, DO(cuMemPoolSetAccess, rig.pool, &rig.access, 1), \
      NONE)                                                                                        \
    X(cuMemPoolTrimTo, "", trim, NONE, DO(cuMemPoolTrimTo, rig.pool, 0), NONE)                     \
    X(cuMemHostAlloc, "", pinned, NONE, DO(cuMemHostAlloc, &rig.made_pinned, BYTES, PINNED),       \
      DO(cuMemFreeHost, rig.made_pinned))                                                          \
    X(cuMemFreeHost, "", pinned_end, DO(cuMemHostAlloc, &rig.made_pinned, BYTES, PINNED),          \
      DO(cuMemFreeHost, rig.made_pinned), NONE)                                                    \
    X(cuMemHostRegister, "", pin, NONE, DO(cuMemHostRegister, own, sizeof own, REGISTERED),        \
      DO(cuMemHostUnregister, own))                                                                \
    X(cuMemHostUnregister, "", unpin, DO(cuMemHostRegister, own, sizeof own, REGISTERED),          \
      DO(cuMemHostUnregister, own), NONE)                                                          \
    X(cuMemHostGetDevicePointer, "", pointer, NONE,                                                \
      DO(cuMemHostGetDevicePointer, &rig.device_words, rig.word, 0), NONE)                         \
    X(cuMemGetInfo, "", info, NONE, DO(cuMemGetInfo, &rig.free_bytes, &rig.total_bytes), NONE)     \
    X(cuPointerGetAttributes, "", pointers, NONE,                                                  \
      DO(cuPointerGetAttributes, 1, &rig.name, &rig.value, rig.memory), NONE)                      \
    X(cuPointerGetAttributes, "-range", range_of, NONE,                                            \
      DO(cuPointerGetAttributes, RANGE_NAMES, rig.range_names, rig.range_values, rig.memory),      \
      NONE)                                                                                        \
    X(cuIpcGetMemHandle, "", share, NONE, DO(cuIpcGetMemHandle, &rig.share, rig.memory), NONE)     \
    X(cuLaunchKernel, "", launch, NONE,                                                            \
      DO(cuLaunchKernel, gpu.wait_flag, 1, 1, 1, 1, 1, 1, 0, rig.stream,                           \
         ((void *[]){&rig.flag, &rig.zero}), NULL),                                                \
      NONE)

#define FUNCTIONS(name, suffix, id, before, call, after)                                           \
    static CUresult before_##id(void)                                                              \
    {                                                                                              \
        return before;                                                                             \
    }                                                                                              \
    static CUresult call_##id(void)                                                                \
    {                                                                                              \
        return call;                                                                               \
    }                                                                                              \
    static CUresult after_##id(void)                                                               \
    {                                                                                              \
        return after;                                                                              \
    }
CALL_MAP(FUNCTIONS)
#undef FUNCTIONS

static const struct {
    const char *name;
    const char *call_name;
    size_t offset;
    CUresult (*before)(void);
    CUresult (*call)(void);
    CUresult (*after)(void);
} calls[] = {
#define ROW(name, suffix, id, before, call, after)                                                 \
    {#name suffix, #name, offsetof(driver_calls, name), before_##id, call_##id, after_##id},
    CALL_MAP(ROW)
#undef ROW
};

static void open_rig(void)
{
    rig.stream = probe_stream(0);
    rig.outside = probe_stream(0);
    rig.event = probe_event(EVENT);
    rig.other_event = probe_event(EVENT);
    rig.word = probe_pinned(sizeof *rig.word);
    rig.flag = probe_pinned(sizeof *rig.flag);
    rig.memory = probe_memory(BYTES);
    for (probe_way way = 0; way < PROBE_WAYS; way++) {
        rig.ends[way] = probe_ends_make(way, BYTES);
        rig.ends[way].size_bytes = 4096;
    }
    for (size_t i = 0; i < BATCH; i++) {
        rig.sizes[i] = BYTES / BATCH;
        rig.dsts[i] = rig.ends[PROBE_H2D].dst + i * rig.sizes[i];
        rig.srcs[i] = rig.ends[PROBE_H2D].src + i * rig.sizes[i];
    }
    rig.attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    rig.rows = (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                               .srcDevice = rig.ends[PROBE_D2D].src,
                               .srcPitch = 1024,
                               .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                               .dstDevice = rig.ends[PROBE_D2D].dst,
                               .dstPitch = 1024,
                               .WidthInBytes = 512,
                               .Height = 8};
    rig.name = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    rig.value = &rig.type;
    rig.range_names[0] = CU_POINTER_ATTRIBUTE_RANGE_START_ADDR;
    rig.range_values[0] = &rig.range_begin;
    rig.range_names[1] = CU_POINTER_ATTRIBUTE_RANGE_SIZE;
    rig.range_values[1] = &rig.total_bytes;
    rig.range_names[2] = CU_POINTER_ATTRIBUTE_BUFFER_ID;
    rig.range_values[2] = &rig.id;
    rig.mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    rig.props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    rig.props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    rig.access = (CUmemAccessDesc){.location = rig.props.location,
                                   .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    rig.number = UINT64_MAX;
    PROBE_CALL(cuMemPoolCreate, &rig.pool, &rig.props);
    PROBE_CALL(cuMemPoolSetAttribute, rig.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &rig.number);
    PROBE_CALL(cuEventRecord, rig.other_event, rig.outside);
    PROBE_CALL(cuStreamSynchronize, rig.outside);
}

static void time_call(size_t i, const char *shape)
{
    bench_samples samples = {0};
    size_t most = probe.is_smoke ? 5 : SAMPLES_MOST;
    int64_t end_ns = bench_now_ns() + LIMIT_NS;
    CUresult result = CUDA_SUCCESS;
    while (result == CUDA_SUCCESS && samples.count < most && bench_now_ns() < end_ns) {
        result = calls[i].before();
        int64_t begin_ns = bench_now_ns();
        if (result == CUDA_SUCCESS)
            result = calls[i].call();
        int64_t took_ns = bench_now_ns() - begin_ns;
        if (result == CUDA_SUCCESS)
            result = calls[i].after();
        if (result == CUDA_SUCCESS)
            bench_samples_add(&samples, (double)took_ns);
        if (samples.count % FLIGHT == 0)
            PROBE_CALL(cuStreamSynchronize, rig.stream);
    }
    PROBE_CALL(cuStreamSynchronize, rig.stream);
    if (samples.count > 0)
        probe_row_median(shape, &samples, "ns");
    else
        probe_row(shape, NAN, "ns", PROBE_NONE, "%s", driver_error_name(result));
    bench_samples_free(&samples);
}

void probe_calls(const probe_case *which)
{
    const char *beside = which->variant != 0 ? "busy" : "idle";
    probe_gpu_open();
    open_rig();
    if (which->variant != 0)
        probe_launch_always();
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        char shape[64];
        void *function;
        (void)snprintf(shape, sizeof shape, "%s-%s", calls[i].name, beside);
        memcpy(&function, (const char *)&driver + calls[i].offset, sizeof function);
        if (function == NULL)
            probe_row_absent(shape, calls[i].call_name);
        else
            time_call(i, shape);
    }
}
