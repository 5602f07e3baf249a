/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory: what the driver says of memory that it did not allocate; rows that are further apart than
 * cuda.h promises for a copy on one GPU; copies between two contexts' memory.
 */
#include "bench/probe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MALLOC_BYTES ((size_t)16777216)
#define ROW_BYTES ((size_t)100)
#define ROWS ((size_t)8)

/* ---- attributes ---- */

/* As gpu/cuda/memory.c asks. The answer is whether the driver knows nothing of it. */
static void tell_pointer(const char *shape, const void *memory)
{
    unsigned type = 0, is_managed = 0;
    int ordinal = -1;
    CUcontext context = NULL;
    CUdeviceptr range_begin = 0;
    size_t range_bytes = 0;
    CUpointer_attribute names[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_IS_MANAGED,       CU_POINTER_ATTRIBUTE_CONTEXT,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
    };
    void *values[] = {&type, &ordinal, &is_managed, &context, &range_begin, &range_bytes};
    if (driver.cuPointerGetAttributes == NULL) {
        probe_row_absent(shape, "cuPointerGetAttributes");
        return;
    }
    CUresult result = driver.cuPointerGetAttributes(sizeof names / sizeof names[0], names, values,
                                                    probe_address(memory));
    probe_row(shape, type, "type", result == CUDA_SUCCESS && type == 0 ? PROBE_YES : PROBE_NO,
              "%s; managed %u, ordinal %d, range of %zu B",
              result == CUDA_SUCCESS ? "success" : driver_error_name(result), is_managed, ordinal,
              range_bytes);
}

static void tell_attribute(const char *shape, CUdevice_attribute attribute)
{
    int value = 0;
    CUresult result = driver.cuDeviceGetAttribute(&value, attribute, gpu.device);
    if (result != CUDA_SUCCESS)
        probe_row(shape, NAN, "", PROBE_NONE, "%s", driver_error_name(result));
    else
        probe_row(shape, value, "", value != 0 ? PROBE_YES : PROBE_NO, "%s", "");
}

void probe_attributes(const probe_case *which)
{
    int on_stack = 0;
    (void)which;
    probe_gpu_open();
    uint8_t *untouched = malloc(MALLOC_BYTES);
    uint8_t *touched = malloc(MALLOC_BYTES);
    if (untouched == NULL || touched == NULL)
        bench_fail("no memory");
    memset(touched, 1, MALLOC_BYTES);
    tell_pointer("malloc", untouched);
    tell_pointer("malloc-touched", touched);
    tell_pointer("stack", &on_stack);
    tell_pointer("pinned", probe_pinned(ROW_BYTES));
    tell_attribute("pageable-access", CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
    tell_attribute("host-page-tables",
                   CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
    tell_attribute("copy-engines", CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
    free(touched);
    free(untouched);
}

/* ---- rows ---- */

/* The answer is whether the copy is taken and right. */
static void try_pitch(size_t pitch_bytes, size_t rows, CUstream stream)
{
    char shape[48];
    uint8_t *host = probe_pinned(2 * ROWS * ROW_BYTES);
    CUdeviceptr memory[2];
    size_t span_bytes = (rows - 1) * pitch_bytes + ROW_BYTES;
    (void)snprintf(shape, sizeof shape, "pitch-%zu", pitch_bytes);
    for (size_t i = 0; i < 2; i++)
        PROBE_CALL(cuMemAlloc, &memory[i], span_bytes);
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < ROW_BYTES; j++)
            host[i * ROW_BYTES + j] = (uint8_t)(i * 37 + j + 1);
        PROBE_CALL(cuMemcpyAsync, memory[0] + i * pitch_bytes, probe_address(host + i * ROW_BYTES),
                   ROW_BYTES, stream);
    }
    CUDA_MEMCPY2D copy = {
        .srcMemoryType = CU_MEMORYTYPE_DEVICE,
        .srcDevice = memory[0],
        .srcPitch = pitch_bytes,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstDevice = memory[1],
        .dstPitch = pitch_bytes,
        .WidthInBytes = ROW_BYTES,
        .Height = rows,
    };
    CUresult result = driver.cuMemcpy2DAsync(&copy, stream);
    uint8_t *back = host + ROWS * ROW_BYTES;
    for (size_t i = 0; i < rows && result == CUDA_SUCCESS; i++)
        PROBE_CALL(cuMemcpyAsync, probe_address(back + i * ROW_BYTES), memory[1] + i * pitch_bytes,
                   ROW_BYTES, stream);
    PROBE_CALL(cuStreamSynchronize, stream);
    bool is_right = result == CUDA_SUCCESS && memcmp(host, back, rows * ROW_BYTES) == 0;
    probe_row(shape, (double)rows, "rows", is_right ? PROBE_YES : PROBE_NO, "%s",
              result == CUDA_SUCCESS ? (is_right ? "" : "wrong bytes") : driver_error_name(result));
    for (size_t i = 0; i < 2; i++)
        PROBE_CALL(cuMemFree, memory[i]);
}

void probe_pitch(const probe_case *which)
{
    static const size_t pitches[] = {ROW_BYTES, 101, 4099, 1048577};
    (void)which;
    probe_gpu_open();
    CUstream stream = probe_stream(0);
    int most = 0;
    PROBE_CALL(cuDeviceGetAttribute, &most, CU_DEVICE_ATTRIBUTE_MAX_PITCH, gpu.device);
    for (size_t i = 0; i < sizeof pitches / sizeof pitches[0]; i++)
        try_pitch(pitches[i], ROWS, stream);
    if (!probe.is_smoke) /* more than cuda.h's most, and more memory than an emulator has */
        try_pitch((size_t)most + 1, 2, stream);
}

/* ---- contexts ---- */

void probe_contexts(const probe_case *which)
{
    CUcontext context;
    CUdeviceptr other;
    (void)which;
    probe_gpu_open();
    CUstream stream = probe_stream(0);
    uint32_t *host = probe_pinned(2 * sizeof *host);
    CUdeviceptr own = probe_memory(sizeof *host);
    host[0] = 0x600df00d;
    PROBE_CALL(cuCtxCreate, &context, NULL, 0, gpu.device);
    PROBE_CALL(cuMemAlloc, &other, sizeof *host);
    PROBE_CALL(cuCtxSetCurrent, gpu.context);
    PROBE_CALL(cuMemcpyAsync, own, probe_address(host), sizeof *host, stream);
    CUresult result = driver.cuMemcpyAsync(other, own, sizeof *host, stream);
    PROBE_CALL(cuStreamSynchronize, stream);
    if (result == CUDA_SUCCESS) {
        PROBE_CALL(cuCtxSetCurrent, context);
        CUstream there = probe_stream(0);
        PROBE_CALL(cuMemcpyAsync, probe_address(host + 1), other, sizeof *host, there);
        PROBE_CALL(cuStreamSynchronize, there);
    }
    bool is_right = result == CUDA_SUCCESS && host[1] == host[0];
    probe_row("copy-between-contexts", NAN, "", is_right ? PROBE_YES : PROBE_NO, "%s",
              result == CUDA_SUCCESS ? (is_right ? "" : "wrong bytes") : driver_error_name(result));
}
