/* SPDX-License-Identifier: Apache-2.0 */
/* What modules and launches give when they are wrong; and a kernel that ends with its device. */
#include "program.h"

#include "tests/emu/emu.h"
#include <cuda.h>
#include <ferry_kernels.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define WORDS 100

static void rules_of_modules(void)
{
    CUmodule module;
    CUmodule same;
    CUfunction function;
    CUfunction again;
    const char *name;
    GIVES(cuModuleLoadData(&module, "no PTX at all"), CUDA_ERROR_INVALID_IMAGE);
    GIVES(cuModuleLoadData(&module, ".version 8.0\n.target sm_75\n.visible .entry a(.param"),
          CUDA_ERROR_INVALID_PTX);
    GIVES(cuModuleLoadData(&module, ".version 99.0\n.target sm_75\n.address_size 64\n"),
          CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    GIVES(cuModuleLoadData(NULL, ferry_kernels_ptx), CUDA_ERROR_INVALID_VALUE);
    OK(cuModuleLoadDataEx(&module, ferry_kernels_ptx, 0, NULL, NULL));
    GIVES(cuModuleGetFunction(&function, module, "ferry_no_such"), CUDA_ERROR_NOT_FOUND);
    OK(cuModuleGetFunction(&function, module, "ferry_fill"));
    OK(cuModuleGetFunction(&again, module, "ferry_fill"));
    CHECK(function == again);
    OK(cuFuncGetName(&name, function));
    CHECK(strcmp(name, "ferry_fill") == 0);
    OK(cuFuncGetModule(&same, function));
    CHECK(same == module);
    OK(cuModuleUnload(module));
}

/* dst, count, value of ferry_fill: as an array of pointers, and as one block. */
static void rules_of_params(CUmodule module)
{
    CUfunction function;
    CUdeviceptr memory;
    size_t offsets[3];
    size_t size_bytes;
    uint32_t words[WORDS];
    unsigned char block[64];
    uint64_t count = WORDS;
    uint32_t value = 12345;
    OK(cuModuleGetFunction(&function, module, "ferry_fill"));
    OK(cuMemAlloc(&memory, sizeof(words)));
    OK(cuMemsetD8(memory, 0, sizeof(words)));
    for (size_t i = 0; i < 3; i++) {
        OK(cuFuncGetParamInfo(function, i, &offsets[i], &size_bytes));
        CHECK(size_bytes == (i == 2 ? 4 : 8));
    }
    GIVES(cuFuncGetParamInfo(function, 3, &offsets[0], &size_bytes), CUDA_ERROR_INVALID_VALUE);
    memcpy(block + offsets[0], &memory, sizeof(memory));
    memcpy(block + offsets[1], &count, sizeof(count));
    memcpy(block + offsets[2], &value, sizeof(value));
    size_t block_bytes = offsets[2] + sizeof(value);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, block, CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &block_bytes, CU_LAUNCH_PARAM_END};
    void *params[] = {&memory, &count, &value};
    GIVES(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, params, extra),
          CUDA_ERROR_INVALID_VALUE);
    OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, extra));
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH(words, memory, sizeof(words)));
    CHECK(words[0] == value && words[WORDS - 1] == value);

    /* What the caller does to its variables afterwards is nothing to the launch. */
    value = 54321;
    OK(cuLaunchKernel(function, 2, 1, 1, 8, 1, 1, 0, NULL, params, NULL));
    value = 0;
    count = 0;
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH(words, memory, sizeof(words)));
    CHECK(words[0] == 54321 && words[WORDS - 1] == 54321);
    OK(cuMemFree(memory));
}

static void rules_of_shapes(CUmodule module)
{
    CUfunction function;
    uint64_t duration_ns = 0;
    void *params[] = {&duration_ns};
    OK(cuModuleGetFunction(&function, module, "ferry_spin"));
    GIVES(cuLaunchKernel(function, 0, 1, 1, 1, 1, 1, 0, NULL, params, NULL),
          CUDA_ERROR_INVALID_VALUE);
    GIVES(cuLaunchKernel(function, 1, 1, 1, 1, 1, 0, 0, NULL, params, NULL),
          CUDA_ERROR_INVALID_VALUE);
    GIVES(cuLaunchKernel(function, 1, 1, 1, 2048, 1, 1, 0, NULL, params, NULL),
          CUDA_ERROR_INVALID_VALUE);
    GIVES(cuLaunchKernel(function, 1, 1, 1, 32, 32, 2, 0, NULL, params, NULL),
          CUDA_ERROR_INVALID_VALUE);
    OK(cuLaunchKernel(function, 1, 1, 1, 32, 32, 1, 0, NULL, params, NULL));
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, CU_STREAM_PER_THREAD, params, NULL));
    OK(cuCtxSynchronize());
}

/* ---- lazy loading: the first launch of a kernel waits for what runs ---- */

typedef struct first_launch {
    CUcontext context;
    CUfunction function;
    CUstream stream;
    uint32_t *flag;
    uint32_t flag_after; /* what the flag was once the launch had returned */
} first_launch;

static void *launch_in_thread(void *arg)
{
    first_launch *self = arg;
    uint64_t duration_ns = 0;
    void *params[] = {&duration_ns};
    OK(cuCtxSetCurrent(self->context));
    OK(cuLaunchKernel(self->function, 1, 1, 1, 1, 1, 1, 0, self->stream, params, NULL));
    self->flag_after = __atomic_load_n(self->flag, __ATOMIC_ACQUIRE);
    return NULL;
}

/* Beside a kernel that waits for the flag: the first launch returns behind it, the second before.
 */
static void rules_of_first_launches(CUcontext context)
{
    uint64_t (*count)(const char *name) = EMU(emu_call_count);
    first_launch self = {.context = context};
    CUmodule module;
    CUfunction wait_flag;
    CUstream standing;
    pthread_t thread;
    uint32_t value = 0;
    if (count == NULL)
        return;
    OK(cuModuleLoadData(&module, ferry_kernels_ptx));
    OK(cuModuleGetFunction(&wait_flag, module, "ferry_wait_flag"));
    OK(cuModuleGetFunction(&self.function, module, "ferry_spin"));
    OK(cuStreamCreate(&standing, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&self.stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemHostAlloc((void **)&self.flag, sizeof(*self.flag), 0));
    for (value = 1; value <= 2; value++) {
        void *params[] = {&self.flag, &value};
        __atomic_store_n(self.flag, 0, __ATOMIC_RELAXED);
        OK(cuLaunchKernel(wait_flag, 1, 1, 1, 1, 1, 1, 0, standing, params, NULL));
        uint64_t before = count("cuLaunchKernel");
        CHECK(pthread_create(&thread, NULL, launch_in_thread, &self) == 0);
        while (count("cuLaunchKernel") == before)
            sched_yield();
        if (value == 2)
            CHECK(pthread_join(thread, NULL) == 0);
        __atomic_store_n(self.flag, value, __ATOMIC_RELEASE);
        if (value == 1)
            CHECK(pthread_join(thread, NULL) == 0);
        CHECK(self.flag_after == (value == 1 ? 1 : 0));
        OK(cuStreamSynchronize(standing));
    }
    OK(cuStreamSynchronize(self.stream));
    OK(cuMemFreeHost(self.flag));
    OK(cuStreamDestroy(standing));
    OK(cuStreamDestroy(self.stream));
    OK(cuModuleUnload(module));
}

/* A kernel and a graph that wait for what never comes, when their device is lost. */
static void rules_of_the_lost(CUmodule module)
{
    CUresult (*lose)(int ordinal, CUresult result) = EMU(emu_lose_device);
    CUfunction function;
    CUstream streams[2];
    CUgraph graph;
    CUgraphExec executable;
    uint32_t *flag;
    uint32_t value = 1;
    if (lose == NULL)
        return;
    OK(cuMemHostAlloc((void **)&flag, sizeof(*flag), 0));
    __atomic_store_n(flag, 0, __ATOMIC_RELAXED);
    void *params[] = {&flag, &value};
    OK(cuModuleGetFunction(&function, module, "ferry_wait_flag"));
    for (int i = 0; i < 2; i++)
        OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, streams[0], params, NULL));
    OK(cuStreamEndCapture(streams[0], &graph));
    OK(cuGraphInstantiate(&executable, graph, 0));
    OK(cuGraphDestroy(graph));
    OK(cuGraphLaunch(executable, streams[0]));
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, streams[1], params, NULL));
    OK(lose(0, CUDA_ERROR_LAUNCH_FAILED));
    for (int i = 0; i < 2; i++) {
        GIVES(cuStreamQuery(streams[i]), CUDA_ERROR_LAUNCH_FAILED);
        GIVES(cuStreamSynchronize(streams[i]), CUDA_ERROR_LAUNCH_FAILED);
    }
}

int main(void)
{
    CUcontext context;
    CUmodule module;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    rules_of_modules();
    OK(cuModuleLoadData(&module, ferry_kernels_ptx));
    rules_of_params(module);
    rules_of_shapes(module);
    rules_of_first_launches(context);
    rules_of_the_lost(module);
    puts("kernel_rules: all as it should be");
    return EXIT_SUCCESS;
}
