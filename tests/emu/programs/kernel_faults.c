/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels are given that they can't have, and where they are launched wrongly. */
#include "faults.h"

#include <ferry_kernels.h>

#include "tests/emu/kernel.h"

#define WORDS 1024
#define BYTES (WORDS * sizeof(uint64_t))

static CUmodule load(void)
{
    CUmodule module;
    OK(cuModuleLoadData(&module, ferry_kernels_ptx));
    return module;
}

static CUfunction find(CUmodule module, const char *name)
{
    CUfunction function;
    OK(cuModuleGetFunction(&function, module, name));
    return function;
}

static CUresult launch(CUfunction function, CUstream stream, void **params)
{
    return cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL);
}

static CUresult fill(CUmodule module, CUdeviceptr memory, uint64_t count, CUstream stream)
{
    uint64_t seed = 5;
    void *params[] = {&memory, &count, &seed};
    return launch(find(module, "ferry_fill_pattern"), stream, params);
}

static CUresult check(CUmodule module, CUdeviceptr memory, CUdeviceptr errors, CUstream stream)
{
    uint64_t count = WORDS;
    uint64_t seed = 5;
    void *params[] = {&memory, &count, &seed, &errors};
    return launch(find(module, "ferry_check_pattern"), stream, params);
}

/* One word more than there is. */
static void run_overrun(bool faulty)
{
    CUmodule module = load();
    CUstream stream = NEW_STREAM;
    CUdeviceptr memory = new_memory(BYTES);
    OK(fill(module, memory, WORDS + faulty, stream));
}

static void run_freed(bool faulty)
{
    CUmodule module = load();
    CUstream stream = NEW_STREAM;
    CUdeviceptr memory = new_memory(BYTES);
    CUdeviceptr other = new_memory(BYTES);
    OK(cuMemFree(memory));
    OK(fill(module, faulty ? memory : other, WORDS, stream));
}

static void run_pageable(bool faulty)
{
    static uint64_t plain[WORDS];
    CUmodule module = load();
    CUstream stream = NEW_STREAM;
    if (!faulty)
        OK(cuMemHostRegister(plain, BYTES, CU_MEMHOSTREGISTER_DEVICEMAP));
    OK(fill(module, (CUdeviceptr)(uintptr_t)plain, WORDS, stream));
    OK(cuStreamSynchronize(stream));
    if (!faulty)
        OK(cuMemHostUnregister(plain));
}

/* Memory of device 1, with and without access to it. */
static void run_peer(bool faulty)
{
    CUcontext context;
    CUmodule module = load();
    CUstream stream = NEW_STREAM;
    CUdeviceptr memory;
    OK(cuDevicePrimaryCtxRetain(&context, 1));
    OK(cuCtxPushCurrent(context));
    memory = new_memory(BYTES);
    OK(cuCtxPopCurrent(NULL));
    if (!faulty)
        OK(cuCtxEnablePeerAccess(context, 0));
    OK(fill(module, memory, WORDS, stream));
}

/* The result is copied by a stream that does not wait for the kernel. */
static void run_unordered(bool faulty)
{
    CUmodule module = load();
    CUstream stream = NEW_STREAM;
    CUstream other = NEW_STREAM;
    CUdeviceptr memory = new_memory(BYTES);
    void *pinned = new_pinned(BYTES);
    hold();
    OK(fill(module, memory, WORDS, stream));
    OK(cuMemcpyDtoHAsync(pinned, memory, BYTES, faulty ? other : stream));
    release();
}

/* Two kernels count errors in one word, atomically; a memset of it beside them is a race. */
static void run_counter(bool faulty)
{
    CUmodule module = load();
    CUstream stream = NEW_STREAM;
    CUstream other = NEW_STREAM;
    CUdeviceptr memory = new_memory(BYTES);
    CUdeviceptr errors = new_memory(BYTES);
    OK(fill(module, memory, WORDS, stream));
    OK(cuMemsetD8Async(errors, 0, BYTES, stream));
    OK(cuStreamSynchronize(stream));
    hold();
    OK(check(module, memory, errors, stream));
    OK(check(module, memory, errors, other));
    if (faulty)
        OK(cuMemsetD8Async(errors, 0, 4, other));
    release();
}

static void run_unloaded(bool faulty)
{
    CUmodule module = load();
    CUstream stream = NEW_STREAM;
    CUdeviceptr memory = new_memory(BYTES);
    CUfunction function = find(module, "ferry_fill_pattern");
    uint64_t count = WORDS;
    uint64_t seed = 5;
    void *params[] = {&memory, &count, &seed};
    if (faulty)
        OK(cuModuleUnload(module));
    OK(launch(function, stream, params));
    OK(cuStreamSynchronize(stream));
    if (!faulty)
        OK(cuModuleUnload(module));
    OK(cuMemFree(memory));
    OK(cuStreamDestroy(stream));
}

/* The module goes while its kernel has yet to run. */
static void run_unload_early(bool faulty)
{
    CUmodule module = load();
    CUstream stream = NEW_STREAM;
    CUdeviceptr memory = new_memory(BYTES);
    hold();
    OK(fill(module, memory, WORDS, stream));
    if (faulty)
        OK(cuModuleUnload(module));
    release();
    OK(cuStreamSynchronize(stream));
    if (!faulty)
        OK(cuModuleUnload(module));
    OK(cuMemFree(memory));
    OK(cuStreamDestroy(stream));
}

/* The module goes, and then a graph is launched that has its kernel. */
static void run_unloaded_graph(bool faulty)
{
    CUmodule module = load();
    CUstream stream = NEW_STREAM;
    CUdeviceptr memory = new_memory(BYTES);
    CUgraph graph;
    CUgraphExec executable;
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(fill(module, memory, WORDS, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&executable, graph, 0));
    OK(cuGraphDestroy(graph));
    if (faulty)
        OK(cuModuleUnload(module));
    OK(cuGraphLaunch(executable, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuGraphExecDestroy(executable));
    if (!faulty)
        OK(cuModuleUnload(module));
    OK(cuMemFree(memory));
    OK(cuStreamDestroy(stream));
}

/* The module is of one context, the stream of another. */
static void run_context(bool faulty)
{
    CUcontext context;
    CUmodule module = load();
    OK(cuDevicePrimaryCtxRetain(&context, 1));
    if (faulty)
        OK(cuCtxSetCurrent(context));
    CUstream stream = NEW_STREAM;
    CUdeviceptr memory = new_memory(BYTES);
    OK(fill(module, memory, WORDS, stream));
}

/* An entry that is called as a built-in kernel, and is another. */
static void run_params(bool faulty)
{
    static const char ptx[] = ".version 8.0\n.target sm_75\n.address_size 64\n"
                              ".visible .entry ferry_spin(.param .u32 a) { ret; }\n";
    CUmodule module;
    CUfunction function;
    OK(cuModuleLoadData(&module, faulty ? ptx : ferry_kernels_ptx));
    OK(cuModuleGetFunction(&function, module, "ferry_spin"));
}

/* A kernel of the program's own: writes `value` to a word. It says what it touches. */
__attribute__((visibility("default"))) void emu_kernel_mine(const emu_launch *launch, void **params)
{
    (void)launch;
    **(uint32_t **)params[0] = *(uint32_t *)params[1];
}

__attribute__((visibility("default"))) size_t emu_touches_mine(void **params, emu_touch *touches)
{
    touches[0] = (emu_touch){*(void **)params[0], sizeof(uint32_t), EMU_TOUCH_WRITE};
    return 1;
}

static void run_own(bool faulty)
{
    static const char ptx[] = ".version 8.0\n.target sm_75\n.address_size 64\n"
                              ".visible .entry mine(.param .u64 a, .param .u32 b)\n"
                              "{\n.reg .u64 %a;\n.reg .u32 %b;\nld.param.u64 %a, [a];\n"
                              "ld.param.u32 %b, [b];\nst.global.u32 [%a], %b;\nret;\n}\n";
    CUmodule module;
    CUfunction function;
    CUstream stream = NEW_STREAM;
    CUdeviceptr memory = new_memory(BYTES);
    uint32_t value = 4711;
    uint32_t back = 0;
    void *params[] = {&memory, &value};
    OK(cuModuleLoadData(&module, ptx));
    OK(cuModuleGetFunction(&function, module, "mine"));
    if (faulty)
        OK(cuMemFree(memory));
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    OK(cuMemcpyDtoHAsync(&back, memory, sizeof(back), stream));
    OK(cuStreamSynchronize(stream));
    CHECK(back == 4711);
}

int main(int argc, char **argv)
{
    static const fault faults[] = {
        {"overrun", run_overrun},
        {"freed", run_freed},
        {"pageable", run_pageable},
        {"peer", run_peer},
        {"unordered", run_unordered},
        {"counter", run_counter},
        {"unloaded", run_unloaded},
        {"unload_early", run_unload_early},
        {"unloaded_graph", run_unloaded_graph},
        {"context", run_context},
        {"params", run_params},
        {"own", run_own},
    };
    return faults_main(argc, argv, faults, sizeof(faults) / sizeof(faults[0]));
}
