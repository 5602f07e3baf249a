/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/user_gpu.h"

#ifdef FERRY_HAVE_CUDA

#include <cuda.h>
#include <dlfcn.h>
#include <ferry_kernels.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/emu/kernel.h"

#define CALLS(X)                                                                                   \
    X(cuInit)                                                                                      \
    X(cuGetErrorName)                                                                              \
    X(cuDeviceGet)                                                                                 \
    X(cuDevicePrimaryCtxRetain)                                                                    \
    X(cuDevicePrimaryCtxRelease)                                                                   \
    X(cuCtxPushCurrent)                                                                            \
    X(cuCtxPopCurrent)                                                                             \
    X(cuStreamCreate)                                                                              \
    X(cuStreamDestroy)                                                                             \
    X(cuStreamSynchronize)                                                                         \
    X(cuMemHostAlloc)                                                                              \
    X(cuMemFreeHost)                                                                               \
    X(cuMemcpyAsync)                                                                               \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleUnload)                                                                              \
    X(cuModuleGetFunction)                                                                         \
    X(cuLaunchKernel)

/* For the emulator, which runs emu_kernel_user_copy_behind. */
static const char user_ptx[] = ".version 8.0\n"
                               ".target sm_75\n"
                               ".address_size 64\n"
                               ".visible .entry user_copy_behind(\n"
                               "    .param .u64 flag, .param .u64 dst, .param .u64 src,\n"
                               "    .param .u64 size_bytes)\n"
                               "{ ret; }\n";

struct user_gpu {
    CUdevice device;
    CUcontext context;
    CUmodule module, user_module;
    CUfunction wait_flag, copy_behind;
    CUstream streams[USER_STREAMS];
};

static struct {
#define FIELD(name) __typeof__(&(name)) call_##name;
    CALLS(FIELD)
#undef FIELD
} driver;

static void fail(const char *call, const char *why)
{
    (void)fprintf(stderr, "user_gpu: %s: %s\n", call, why);
    exit(2);
}

static void check(const char *call, CUresult result)
{
    const char *name = "?";
    if (result == CUDA_SUCCESS)
        return;
    (void)driver.call_cuGetErrorName(result, &name);
    fail(call, name);
}

#define TRY(name, ...) check(#name, driver.call_##name(__VA_ARGS__))

/* The emulator's; NULL: it is none. */
static bool (*is_stopped)(const emu_launch *);

static void find_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *symbol = library != NULL ? dlsym(library, "cuGetProcAddress_v2") : NULL;
    __typeof__(&cuGetProcAddress) find;
    if (symbol == NULL)
        fail("libcuda.so.1", dlerror());
    memcpy(&find, &symbol, sizeof find);
#define FIND(name)                                                                                 \
    symbol = NULL;                                                                                 \
    if (find(#name, &symbol, CUDA_VERSION, CU_GET_PROC_ADDRESS_DEFAULT, NULL) != CUDA_SUCCESS)     \
        fail(#name, "not there");                                                                  \
    memcpy(&driver.call_##name, &symbol, sizeof driver.call_##name);
    CALLS(FIND)
#undef FIND
    symbol = dlsym(library, "emu_launch_stopped"); /* kernels' threads look up nothing */
    memcpy(&is_stopped, &symbol, sizeof is_stopped);
}

static void enter(const user_gpu *gpu)
{
    TRY(cuCtxPushCurrent, gpu->context);
}

static void leave(void)
{
    CUcontext context;
    TRY(cuCtxPopCurrent, &context);
}

static CUdeviceptr address(const void *memory)
{
    return (CUdeviceptr)(uintptr_t)memory;
}

/*
 * Launches each kernel once where it does not wait: the driver loads it then, and may wait for all
 * that runs meanwhile, which later on may be what waits for this thread.
 */
static void load_kernels(user_gpu *gpu)
{
    uint32_t *flag = user_gpu_alloc_pinned(gpu, sizeof *flag);
    *flag = 1;
    user_gpu_wait_flag(gpu, 0, flag, 1);
    if (gpu->copy_behind != NULL)
        user_gpu_copy_behind(gpu, 0, flag, flag, flag, 0);
    user_gpu_finish(gpu);
    user_gpu_free_pinned(gpu, flag);
}

user_gpu *user_gpu_open(int ordinal)
{
    user_gpu *gpu = calloc(1, sizeof *gpu);
    if (gpu == NULL)
        fail("calloc", "no memory");
    if (driver.call_cuInit == NULL)
        find_driver();
    TRY(cuInit, 0);
    TRY(cuDeviceGet, &gpu->device, ordinal);
    TRY(cuDevicePrimaryCtxRetain, &gpu->context, gpu->device);
    enter(gpu);
    TRY(cuModuleLoadData, &gpu->module, ferry_kernels_ptx);
    TRY(cuModuleGetFunction, &gpu->wait_flag, gpu->module, "ferry_wait_flag");
    if (dlsym(RTLD_DEFAULT, "emu_kernel_user_copy_behind") != NULL) {
        TRY(cuModuleLoadData, &gpu->user_module, user_ptx);
        TRY(cuModuleGetFunction, &gpu->copy_behind, gpu->user_module, "user_copy_behind");
    }
    for (size_t i = 0; i < USER_STREAMS; i++)
        TRY(cuStreamCreate, &gpu->streams[i], CU_STREAM_NON_BLOCKING);
    leave();
    load_kernels(gpu);
    return gpu;
}

void user_gpu_close(user_gpu *gpu)
{
    if (gpu == NULL)
        return;
    enter(gpu);
    for (size_t i = 0; i < USER_STREAMS; i++)
        TRY(cuStreamDestroy, gpu->streams[i]);
    TRY(cuModuleUnload, gpu->module);
    if (gpu->user_module != NULL)
        TRY(cuModuleUnload, gpu->user_module);
    leave();
    TRY(cuDevicePrimaryCtxRelease, gpu->device);
    free(gpu);
}

void *user_gpu_stream(const user_gpu *gpu, size_t index)
{
    return gpu->streams[index];
}

void *user_gpu_alloc_pinned(user_gpu *gpu, size_t size_bytes)
{
    void *memory = NULL;
    enter(gpu);
    TRY(cuMemHostAlloc, &memory, size_bytes, CU_MEMHOSTALLOC_PORTABLE);
    leave();
    return memory;
}

void user_gpu_free_pinned(user_gpu *gpu, void *memory)
{
    enter(gpu);
    TRY(cuMemFreeHost, memory);
    leave();
}

void user_gpu_wait_flag(user_gpu *gpu, size_t index, const uint32_t *flag, uint32_t value)
{
    void *parameters[] = {&flag, &value};
    enter(gpu);
    TRY(cuLaunchKernel, gpu->wait_flag, 1, 1, 1, 1, 1, 1, 0, gpu->streams[index], parameters, NULL);
    leave();
}

void user_gpu_copy(user_gpu *gpu, size_t index, void *dst, const void *src, size_t size_bytes)
{
    enter(gpu);
    TRY(cuMemcpyAsync, address(dst), address(src), size_bytes, gpu->streams[index]);
    leave();
}

emu_kernel_function emu_kernel_user_copy_behind;

__attribute__((visibility("default"))) void emu_kernel_user_copy_behind(const emu_launch *launch,
                                                                        void **params)
{
    const uint32_t *flag = *(uint32_t **)params[0];
    while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != 1) {
        if (is_stopped != NULL && is_stopped(launch))
            return;
        (void)sched_yield();
    }
    memcpy(*(void **)params[1], *(void **)params[2], *(size_t *)params[3]);
}

void user_gpu_copy_behind(user_gpu *gpu, size_t index, const uint32_t *flag, void *dst,
                          const void *src, size_t size_bytes)
{
    void *parameters[] = {&flag, &dst, &src, &size_bytes};
    if (gpu->copy_behind == NULL) { /* a driver that watches no order */
        user_gpu_wait_flag(gpu, index, flag, 1);
        user_gpu_copy(gpu, index, dst, src, size_bytes);
        return;
    }
    enter(gpu);
    TRY(cuLaunchKernel, gpu->copy_behind, 1, 1, 1, 1, 1, 1, 0, gpu->streams[index], parameters,
        NULL);
    leave();
}

void user_gpu_finish(user_gpu *gpu)
{
    enter(gpu);
    for (size_t i = 0; i < USER_STREAMS; i++)
        TRY(cuStreamSynchronize, gpu->streams[i]);
    leave();
}

#else /* nothing else is called where opening gives NULL */

user_gpu *user_gpu_open(int ordinal)
{
    (void)ordinal;
    return NULL;
}

void user_gpu_close(user_gpu *gpu)
{
    (void)gpu;
}

void *user_gpu_stream(const user_gpu *gpu, size_t index)
{
    (void)gpu, (void)index;
    return NULL;
}

void *user_gpu_alloc_pinned(user_gpu *gpu, size_t size_bytes)
{
    (void)gpu, (void)size_bytes;
    return NULL;
}

void user_gpu_free_pinned(user_gpu *gpu, void *memory)
{
    (void)gpu, (void)memory;
}

void user_gpu_wait_flag(user_gpu *gpu, size_t index, const uint32_t *flag, uint32_t value)
{
    (void)gpu, (void)index, (void)flag, (void)value;
}

void user_gpu_copy(user_gpu *gpu, size_t index, void *dst, const void *src, size_t size_bytes)
{
    (void)gpu, (void)index, (void)dst, (void)src, (void)size_bytes;
}

void user_gpu_copy_behind(user_gpu *gpu, size_t index, const uint32_t *flag, void *dst,
                          const void *src, size_t size_bytes)
{
    (void)gpu, (void)index, (void)flag, (void)dst, (void)src, (void)size_bytes;
}

void user_gpu_finish(user_gpu *gpu)
{
    (void)gpu;
}

#endif
