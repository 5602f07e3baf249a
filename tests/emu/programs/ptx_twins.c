/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of kernels.ptx against those that CUDA runs: each is given the same, once as PTX that
 * ptx_reader.c reads, once launched. On the emulator that compares the PTX with kernels.c; on a
 * GPU, the reader with the GPU.
 */
#include "program.h"

#include "ptx_reader.h"
#include <cuda.h>
#include <ferry_kernels.h>
#include <stdint.h>
#include <string.h>

#define WORDS 600 /* of 64 bits */
#define FLOATS_MOST (80 * 80)
#define SEED 0xfedcba9876543210U

typedef struct shape {
    unsigned grid, block;
} shape;

static const shape shapes[] = {{1, 1}, {1, 32}, {3, 7}, {2, 512}};

static CUmodule module;
static uint64_t random_state = 88172645463325252U;

static uint64_t random_number(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static void launch(const char *name, const shape *shape, void **params)
{
    CUfunction function;
    OK(cuModuleGetFunction(&function, module, name));
    OK(cuLaunchKernel(function, shape->grid, 1, 1, shape->block, 1, 1, 0, NULL, params, NULL));
    OK(cuCtxSynchronize());
}

static void read_and_run(const char *name, const ptx_run *run)
{
    ptx_kernel *kernel = ptx_kernel_read(ferry_kernels_ptx, name);
    CHECK(kernel != NULL);
    ptx_kernel_run(kernel, run);
    ptx_kernel_free(kernel);
}

static CUdeviceptr to_device(const void *from, size_t size_bytes)
{
    CUdeviceptr memory;
    OK(cuMemAlloc(&memory, size_bytes));
    OK(cuMemcpyHtoD(memory, from, size_bytes));
    return memory;
}

/* Compares with what the device has, whose memory it frees. */
static void compare(const void *read, CUdeviceptr launched, size_t size_bytes)
{
    char *back = malloc(size_bytes);
    CHECK(back != NULL);
    OK(cuMemcpyDtoH(back, launched, size_bytes));
    CHECK(memcmp(read, back, size_bytes) == 0);
    OK(cuMemFree(launched));
    free(back);
}

/* The last word stays as it was. */
static void twin_fill(const shape *shape)
{
    uint32_t words[WORDS] = {[WORDS - 1] = 17};
    CUdeviceptr device = to_device(words, sizeof(words));
    uint64_t count = WORDS - 1;
    uint32_t value = 0xdeadbeef;
    void *params[] = {&device, &count, &value};
    uint64_t numbers[] = {(uintptr_t)words, count, value};
    ptx_memory memory = {words, sizeof(words)};
    launch("ferry_fill", shape, params);
    read_and_run("ferry_fill", &(ptx_run){.params = numbers,
                                          .memory = &memory,
                                          .memory_count = 1,
                                          .grid = shape->grid,
                                          .block = shape->block});
    CHECK(words[0] == value && words[WORDS - 2] == value && words[WORDS - 1] == 17);
    compare(words, device, sizeof(words));
}

static void twin_patterns(const shape *shape)
{
    uint64_t words[WORDS] = {[WORDS - 1] = 17};
    uint32_t errors = 5;
    CUdeviceptr device = to_device(words, sizeof(words));
    CUdeviceptr device_errors = to_device(&errors, sizeof(errors));
    uint64_t count = WORDS - 1;
    uint64_t seed = SEED;
    void *params[] = {&device, &count, &seed, &device_errors};
    uint64_t numbers[] = {(uintptr_t)words, count, seed, (uintptr_t)&errors};
    ptx_memory memory[] = {{words, sizeof(words)}, {&errors, sizeof(errors)}};
    ptx_run run = {.params = numbers,
                   .memory = memory,
                   .memory_count = 1,
                   .grid = shape->grid,
                   .block = shape->block};
    launch("ferry_fill_pattern", shape, params);
    read_and_run("ferry_fill_pattern", &run);
    CHECK(words[1] == (SEED ^ 0x9e3779b97f4a7c15U) && words[WORDS - 1] == 17);

    run.memory_count = 2;
    count = WORDS; /* with one that is wrong, and a second one */
    numbers[1] = count;
    words[33] ^= 1;
    OK(cuMemcpyHtoD(device, words, sizeof(words)));
    launch("ferry_check_pattern", shape, params);
    read_and_run("ferry_check_pattern", &run);
    CHECK(errors == 7);
    compare(&errors, device_errors, sizeof(errors));
    compare(words, device, sizeof(words));
}

static void twin_layer(const shape *shape, uint64_t width, uint64_t rows)
{
    static float weights[FLOATS_MOST] __attribute__((aligned(16)));
    static float in[FLOATS_MOST] __attribute__((aligned(16)));
    static float out[FLOATS_MOST] __attribute__((aligned(16)));
    size_t weight_bytes = width * width * sizeof(float);
    size_t row_bytes = width * rows * sizeof(float);
    for (size_t i = 0; i < FLOATS_MOST; i++) {
        weights[i] = (float)((int)(random_number() % 2001) - 1000) / 999.0F;
        in[i] = (float)((int)(random_number() % 2001) - 1000) / 77.0F;
        out[i] = 1;
    }
    in[1] = 1e-41F; /* subnormal numbers count */
    CUdeviceptr device_weights = to_device(weights, weight_bytes);
    CUdeviceptr device_in = to_device(in, row_bytes);
    CUdeviceptr device_out = to_device(out, row_bytes);
    void *params[] = {&width, &rows, &device_weights, &device_in, &device_out};
    uint64_t numbers[] = {width, rows, (uintptr_t)weights, (uintptr_t)in, (uintptr_t)out};
    ptx_memory memory[] = {{weights, weight_bytes}, {in, row_bytes}, {out, row_bytes}};
    launch("ferry_layer", shape, params);
    read_and_run("ferry_layer", &(ptx_run){.params = numbers,
                                           .memory = memory,
                                           .memory_count = 3,
                                           .grid = shape->grid,
                                           .block = shape->block});
    compare(out, device_out, row_bytes);
    OK(cuMemFree(device_weights));
    OK(cuMemFree(device_in));
}

typedef struct passing {
    uint64_t now_ns;
    unsigned looks;
    uint32_t *flag; /* set at the fifth look, or NULL */
} passing;

static uint64_t pass_time(void *arg)
{
    passing *passing = arg;
    passing->now_ns += 300;
    if (++passing->looks == 5 && passing->flag != NULL)
        *passing->flag = 3;
    return passing->now_ns;
}

/* These two change nothing, and end when they shall. */
static void twin_waits(void)
{
    uint32_t flag = 2;
    passing passing = {.flag = &flag};
    uint64_t numbers[] = {(uintptr_t)&flag, 3};
    ptx_memory memory = {&flag, sizeof(flag)};
    ptx_run run = {.params = numbers,
                   .memory = &memory,
                   .memory_count = 1,
                   .grid = 1,
                   .block = 1,
                   .pass_time = pass_time,
                   .arg = &passing};
    read_and_run("ferry_wait_flag", &run);
    CHECK(passing.looks == 5);

    passing = (struct passing){0};
    numbers[0] = 1000;
    read_and_run("ferry_spin", &run);
    CHECK(passing.now_ns == 1500); /* it began at 300 */

    const shape one = {1, 1};
    CUdeviceptr device = to_device(&flag, sizeof(flag));
    uint32_t value = 3;
    uint64_t duration_ns = 1000;
    void *wait[] = {&device, &value};
    void *spin[] = {&duration_ns};
    launch("ferry_wait_flag", &one, wait);
    launch("ferry_spin", &one, spin);
    OK(cuMemFree(device));
}

int main(void)
{
    CUcontext context;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuModuleLoadData(&module, ferry_kernels_ptx));
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        twin_fill(&shapes[i]);
        twin_patterns(&shapes[i]);
        twin_layer(&shapes[i], 16, 1);
        twin_layer(&shapes[i], 80, 80);
        twin_layer(&shapes[i], 32, 7);
    }
    twin_waits();
    OK(cuModuleUnload(module));
    OK(cuDevicePrimaryCtxRelease(0));
    puts("ptx_twins: the same");
    return EXIT_SUCCESS;
}
