/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/probe.h"

#include <ferry_kernels.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

const char *const probe_way_names[PROBE_WAYS] = {"h2d", "d2h", "d2d"};

probe_gpu gpu;

void probe_check(const char *call, CUresult result)
{
    if (result != CUDA_SUCCESS)
        probe_fail("%s: %s", call, driver_error_name(result));
}

const char *probe_gpu_look(char *name, int name_bytes)
{
    const char *reason;
    int count = 0;
    if (!driver_find(&reason))
        return reason;
    CUresult result = driver.cuInit(0);
    if (result != CUDA_SUCCESS)
        return driver_error_name(result);
    if (driver.cuDeviceGetCount(&count) != CUDA_SUCCESS || count == 0)
        return "the driver counts no device";
    result = driver.cuDeviceGetName(name, name_bytes, 0);
    if (result != CUDA_SUCCESS)
        return driver_error_name(result);
    if (strncasecmp(name, BENCH_EMULATED, strlen(BENCH_EMULATED)) == 0)
        (void)snprintf(name, (size_t)name_bytes, "%s", BENCH_EMULATED);
    return NULL;
}

static void launch(CUfunction kernel, void **arguments, CUstream stream)
{
    PROBE_CALL(cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
}

/*
 * A kernel's first launch loads it, and may wait for all that runs; so may the first copy each way.
 * Behind a held kernel that would be told as something else.
 */
static void warm_up(void)
{
    CUstream stream = probe_stream(0);
    uint32_t *word = probe_pinned(sizeof *word);
    uint32_t zero = 0;
    launch(gpu.wait_flag, (void *[]){&word, &zero}, stream);
    probe_spin(1, stream);
    probe_fill(probe_memory(sizeof *word), 1, stream);
    for (probe_way way = 0; way < PROBE_WAYS; way++) {
        probe_ends ends = probe_ends_make(way, 4096);
        probe_copy(&ends, stream);
    }
    if (driver.cuStreamWriteValue32 != NULL)
        probe_write(stream, word, 1);
    PROBE_CALL(cuStreamSynchronize, stream);
}

void probe_gpu_open(void)
{
    char name[256];
    CUmodule module;
    const char *reason = probe_gpu_look(name, sizeof name);
    if (reason != NULL)
        probe_fail("no GPU: %s", reason);
    PROBE_CALL(cuDeviceGet, &gpu.device, 0);
    PROBE_CALL(cuDevicePrimaryCtxRetain, &gpu.context, gpu.device);
    PROBE_CALL(cuCtxSetCurrent, gpu.context);
    PROBE_CALL(cuCtxGetStreamPriorityRange, &gpu.lowest, &gpu.highest);
    PROBE_CALL(cuModuleLoadData, &module, ferry_kernels_ptx);
    PROBE_CALL(cuModuleGetFunction, &gpu.wait_flag, module, "ferry_wait_flag");
    PROBE_CALL(cuModuleGetFunction, &gpu.spin, module, "ferry_spin");
    PROBE_CALL(cuModuleGetFunction, &gpu.fill, module, "ferry_fill");
    warm_up();
}

CUstream probe_stream(int priority)
{
    CUstream stream;
    PROBE_CALL(cuStreamCreateWithPriority, &stream, CU_STREAM_NON_BLOCKING, priority);
    return stream;
}

CUevent probe_event(unsigned flags)
{
    CUevent event;
    PROBE_CALL(cuEventCreate, &event, flags);
    return event;
}

CUdeviceptr probe_memory(size_t size_bytes)
{
    CUdeviceptr memory;
    PROBE_CALL(cuMemAlloc, &memory, size_bytes);
    return memory;
}

void *probe_pinned(size_t size_bytes)
{
    void *memory;
    PROBE_CALL(cuMemHostAlloc, &memory, size_bytes, CU_MEMHOSTALLOC_PORTABLE);
    memset(memory, 0, size_bytes);
    return memory;
}

CUdeviceptr probe_address(const void *memory)
{
    return (CUdeviceptr)(uintptr_t)memory;
}

void probe_fill(CUdeviceptr word, uint32_t value, CUstream stream)
{
    uint64_t count = 1;
    launch(gpu.fill, (void *[]){&word, &count, &value}, stream);
}

void probe_spin(uint64_t duration_ns, CUstream stream)
{
    launch(gpu.spin, (void *[]){&duration_ns}, stream);
}

void probe_write(CUstream stream, const uint32_t *word, uint32_t value)
{
    PROBE_CALL(cuStreamWriteValue32, stream, probe_address(word), value,
               CU_STREAM_WRITE_VALUE_DEFAULT);
}

uint32_t probe_word(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

probe_ends probe_ends_make(probe_way way, size_t size_bytes)
{
    probe_ends ends = {.size_bytes = size_bytes};
    ends.dst =
        way == PROBE_D2H ? probe_address(probe_pinned(size_bytes)) : probe_memory(size_bytes);
    ends.src =
        way == PROBE_H2D ? probe_address(probe_pinned(size_bytes)) : probe_memory(size_bytes);
    return ends;
}

void probe_copy(const probe_ends *ends, CUstream stream)
{
    PROBE_CALL(cuMemcpyAsync, ends->dst, ends->src, ends->size_bytes, stream);
}
