/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of kernels.ptx in C: the same names, parameters and results. */
#include "tests/emu/module.h"

#include <string.h>
#include <time.h>

#define NS_PER_S 1000000000
#define NAP_NS 1000000 /* how long a kernel that waits sleeps before it looks whether to stop */
#define LOOK_NS 50000  /* and before it looks at a flag in memory, which nobody can wake it for */
#define PANEL_COLUMNS 16
#define LANES 4

typedef float vector __attribute__((vector_size(LANES * sizeof(float)), may_alias));

static uint64_t param_u64(void *const *params, size_t i)
{
    uint64_t value;
    memcpy(&value, params[i], sizeof(value));
    return value;
}

static uint32_t param_u32(void *const *params, size_t i)
{
    uint32_t value;
    memcpy(&value, params[i], sizeof(value));
    return value;
}

static void *param_pointer(void *const *params, size_t i)
{
    void *value;
    memcpy(&value, params[i], sizeof(value));
    return value;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static void nap(uint64_t duration_ns)
{
    struct timespec duration = {.tv_nsec = (long)duration_ns};
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &duration, NULL);
}

/* ferry_spin(uint64 duration_ns). Asleep: a CPU is more than a multiprocessor. */
static void run_spin(const emu_launch *launch, void **params)
{
    uint64_t duration_ns = param_u64(params, 0);
    uint64_t begin_ns = now_ns();
    for (;;) {
        uint64_t passed_ns = now_ns() - begin_ns;
        if (passed_ns >= duration_ns || emu_launch_stopped(launch))
            return;
        nap(duration_ns - passed_ns < NAP_NS ? duration_ns - passed_ns : NAP_NS);
    }
}

/*
 * ferry_wait_flag(const uint32 *flag, uint32 value). The load acquires what the host wrote before
 * the flag, as long as the host writes that atomically.
 */
static void run_wait_flag(const emu_launch *launch, void **params)
{
    const uint32_t *flag = param_pointer(params, 0);
    uint32_t value = param_u32(params, 1);
    while (!emu_launch_stopped(launch) && __atomic_load_n(flag, __ATOMIC_ACQUIRE) != value)
        nap(LOOK_NS);
}

static size_t touch_wait_flag(void **params, emu_touch *touches)
{
    touches[0] = (emu_touch){param_pointer(params, 0), sizeof(uint32_t), EMU_TOUCH_POLL};
    return 1;
}

/* ferry_fill(uint32 *dst, uint64 count, uint32 value) */
static void run_fill(const emu_launch *launch, void **params)
{
    (void)launch;
    uint32_t *dst = param_pointer(params, 0);
    uint64_t count = param_u64(params, 1);
    uint32_t value = param_u32(params, 2);
    for (uint64_t i = 0; i < count; i++)
        dst[i] = value;
}

static size_t touch_fill(void **params, emu_touch *touches)
{
    touches[0] = (emu_touch){param_pointer(params, 0), param_u64(params, 1) * sizeof(uint32_t),
                             EMU_TOUCH_WRITE};
    return 1;
}

static uint64_t pattern(uint64_t i, uint64_t seed)
{
    return seed ^ (i * 0x9e3779b97f4a7c15U);
}

/* ferry_fill_pattern(uint64 *dst, uint64 count, uint64 seed) */
static void run_fill_pattern(const emu_launch *launch, void **params)
{
    (void)launch;
    uint64_t *dst = param_pointer(params, 0);
    uint64_t count = param_u64(params, 1);
    uint64_t seed = param_u64(params, 2);
    for (uint64_t i = 0; i < count; i++)
        dst[i] = pattern(i, seed);
}

static size_t touch_fill_pattern(void **params, emu_touch *touches)
{
    touches[0] = (emu_touch){param_pointer(params, 0), param_u64(params, 1) * sizeof(uint64_t),
                             EMU_TOUCH_WRITE};
    return 1;
}

/* ferry_check_pattern(const uint64 *src, uint64 count, uint64 seed, uint32 *errors) */
static void run_check_pattern(const emu_launch *launch, void **params)
{
    (void)launch;
    const uint64_t *src = param_pointer(params, 0);
    uint64_t count = param_u64(params, 1);
    uint64_t seed = param_u64(params, 2);
    uint32_t *errors = param_pointer(params, 3);
    uint32_t found = 0;
    for (uint64_t i = 0; i < count; i++)
        found += src[i] != pattern(i, seed);
    if (found > 0)
        (void)__atomic_fetch_add(errors, found, __ATOMIC_RELAXED);
}

static size_t touch_check_pattern(void **params, emu_touch *touches)
{
    touches[0] = (emu_touch){param_pointer(params, 0), param_u64(params, 1) * sizeof(uint64_t),
                             EMU_TOUCH_READ};
    touches[1] = (emu_touch){param_pointer(params, 3), sizeof(uint32_t), EMU_TOUCH_ATOMIC};
    return 2;
}

/*
 * ferry_layer(uint64 width, uint64 rows, const float *weights, const float *in, float *out). The
 * sums run in the order of kernels.ptx and of the demo, and nothing is fused in ISO C.
 */
static void run_layer(const emu_launch *launch, void **params)
{
    (void)launch;
    uint64_t width = param_u64(params, 0);
    uint64_t rows = param_u64(params, 1);
    const float *weights = param_pointer(params, 2);
    const float *in = param_pointer(params, 3);
    float *out = param_pointer(params, 4);
    for (uint64_t column = 0; column < width; column += PANEL_COLUMNS) {
        const float *panel = weights + column * width;
        for (uint64_t row = 0; row < rows; row++) {
            vector sums[PANEL_COLUMNS / LANES] = {{0}};
            for (uint64_t k = 0; k < width; k++) {
                const vector *line = (const void *)(panel + k * PANEL_COLUMNS);
                float value = in[row * width + k];
#pragma GCC unroll 4
                for (size_t i = 0; i < PANEL_COLUMNS / LANES; i++)
                    sums[i] += line[i] * value;
            }
            for (size_t i = 0; i < PANEL_COLUMNS; i++) {
                float sum = sums[i / LANES][i % LANES];
                out[row * width + column + i] = sum > 0.0F ? sum : sum * 0.125F;
            }
        }
    }
}

static size_t touch_layer(void **params, emu_touch *touches)
{
    uint64_t width = param_u64(params, 0);
    uint64_t size_bytes = width * param_u64(params, 1) * sizeof(float);
    touches[0] =
        (emu_touch){param_pointer(params, 2), width * width * sizeof(float), EMU_TOUCH_READ};
    touches[1] = (emu_touch){param_pointer(params, 3), size_bytes, EMU_TOUCH_READ};
    touches[2] = (emu_touch){param_pointer(params, 4), size_bytes, EMU_TOUCH_WRITE};
    return 3;
}

static const emu_kernel table[] = {
    {"ferry_spin", run_spin, NULL, 1, {8}},
    {"ferry_wait_flag", run_wait_flag, touch_wait_flag, 2, {8, 4}},
    {"ferry_fill", run_fill, touch_fill, 3, {8, 8, 4}},
    {"ferry_fill_pattern", run_fill_pattern, touch_fill_pattern, 3, {8, 8, 8}},
    {"ferry_check_pattern", run_check_pattern, touch_check_pattern, 4, {8, 8, 8, 8}},
    {"ferry_layer", run_layer, touch_layer, 5, {8, 8, 8, 8, 8}},
};

const emu_kernel *emu_kernel_find(const char *name)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    }
    return NULL;
}
