/* SPDX-License-Identifier: Apache-2.0 */
/*
 * free: what gives memory back, or gets some, beside a kernel that is held: does the call wait for
 * it, and is another thread kept out of the driver meanwhile?
 */
#include "bench/probe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICE_BYTES ((size_t)67108864)
#define PINNED_BYTES ((size_t)8388608)
#define PAGEABLE_BYTES ((size_t)1048576)
#define BLOCKED_NS (PROBE_HOLD_NS / 3)

/* Made before the hold: one of each call is used up behind it. */
static struct {
    CUdeviceptr plain, pooled, target;
    void *pinned, *pageable;
    CUmemoryPool pool;
    CUstream stream, user;
    CUstream unused;
} rig;

static CUresult free_device(void)
{
    return driver.cuMemFree(rig.plain);
}

static CUresult free_pinned(void)
{
    return driver.cuMemFreeHost(rig.pinned);
}

static CUresult free_pooled(void)
{
    return driver.cuMemFreeAsync(rig.pooled, rig.stream);
}

static CUresult trim_pool(void)
{
    return driver.cuMemPoolTrimTo(rig.pool, 0);
}

static CUresult alloc_device(void)
{
    return driver.cuMemAlloc(&rig.plain, DEVICE_BYTES);
}

static CUresult alloc_pinned(void)
{
    return driver.cuMemHostAlloc(&rig.pinned, PINNED_BYTES, CU_MEMHOSTALLOC_PORTABLE);
}

static CUresult alloc_pooled(void)
{
    return driver.cuMemAllocFromPoolAsync(&rig.pooled, DEVICE_BYTES, rig.pool, rig.stream);
}

static CUresult create_stream(void)
{
    return driver.cuStreamCreateWithPriority(&rig.unused, CU_STREAM_NON_BLOCKING, 0);
}

static CUresult destroy_stream(void)
{
    return driver.cuStreamDestroy(rig.unused);
}

static CUresult copy_pageable(void)
{
    return driver.cuMemcpyAsync(rig.target, probe_address(rig.pageable), PAGEABLE_BYTES,
                                rig.stream);
}

/* In an order in which each leaves the next what it needs. */
static const struct {
    const char *name;
    size_t offset;
    CUresult (*call)(void);
} calls[] = {
    {"cuMemFree", offsetof(driver_calls, cuMemFree), free_device},
    {"cuMemFreeHost", offsetof(driver_calls, cuMemFreeHost), free_pinned},
    {"cuMemFreeAsync", offsetof(driver_calls, cuMemFreeAsync), free_pooled},
    {"cuMemPoolTrimTo", offsetof(driver_calls, cuMemPoolTrimTo), trim_pool},
    {"cuMemAlloc", offsetof(driver_calls, cuMemAlloc), alloc_device},
    {"cuMemHostAlloc", offsetof(driver_calls, cuMemHostAlloc), alloc_pinned},
    {"cuMemAllocFromPoolAsync", offsetof(driver_calls, cuMemAllocFromPoolAsync), alloc_pooled},
    {"cuStreamCreateWithPriority", offsetof(driver_calls, cuStreamCreateWithPriority),
     create_stream},
    {"cuStreamDestroy", offsetof(driver_calls, cuStreamDestroy), destroy_stream},
    {"cuMemcpyAsync-pageable", offsetof(driver_calls, cuMemcpyAsync), copy_pageable},
};

static void open_rig(void)
{
    uint64_t keep = UINT64_MAX;
    CUmemPoolProps props = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = gpu.device},
    };
    probe_other_open();
    rig.user = probe_stream(0);
    rig.stream = probe_stream(0);
    rig.target = probe_memory(PAGEABLE_BYTES);
    rig.pageable = bench_alloc(PAGEABLE_BYTES);
    rig.plain = probe_memory(DEVICE_BYTES);
    rig.pinned = probe_pinned(PINNED_BYTES);
    PROBE_CALL(cuMemPoolCreate, &rig.pool, &props);
    PROBE_CALL(cuMemPoolSetAttribute, rig.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
    probe_check("cuMemAllocFromPoolAsync", alloc_pooled());
    PROBE_CALL(cuStreamSynchronize, rig.stream);
}

/* The answer is whether the call waited; of "-other", whether another thread's did meanwhile. */
static void try_call(size_t i)
{
    char shape[64];
    const char *slow;
    probe_hold_running(rig.user);
    probe_other_begin();
    int64_t begin_ns = bench_now_ns();
    CUresult result = calls[i].call();
    int64_t took_ns = bench_now_ns() - begin_ns;
    int64_t longest_ns = probe_other_end(&slow);
    bool stood = probe_hold_end();
    if (result != CUDA_SUCCESS) {
        probe_row(calls[i].name, NAN, "us", PROBE_NONE, "%s", driver_error_name(result));
        return;
    }
    bool has_waited = !stood && took_ns >= BLOCKED_NS;
    probe_row(calls[i].name, (double)took_ns / 1e3, "us", has_waited ? PROBE_YES : PROBE_NO, "%s",
              has_waited ? "until the kernel ended" : "");
    (void)snprintf(shape, sizeof shape, "%s-other", calls[i].name);
    probe_row(shape, (double)longest_ns / 1e3, "us",
              longest_ns >= BLOCKED_NS ? PROBE_YES : PROBE_NO, "the longest, of %s", slow);
}

void probe_free(const probe_case *which)
{
    (void)which;
    probe_gpu_open();
    open_rig();
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        void *function;
        memcpy(&function, (const char *)&driver + calls[i].offset, sizeof function);
        if (function == NULL)
            probe_row_absent(calls[i].name, calls[i].name);
        else
            try_call(i);
    }
}
