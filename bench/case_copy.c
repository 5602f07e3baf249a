/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy: bandwidth between host devices with 8 copies outstanding on distinct buffers, against plain
 * memcpy of the same buffers in the same order; rounds alternate, and so does who begins. The
 * submitting thread spins up to WAIT_SPIN_NS for a completion before it parks, as long as a copy of
 * 1 MiB takes; rows ending in -parked leave the engine's default, so that each completion wakes a
 * sleeping thread, which costs the waker 17 us on a virtual CPU that has halted.
 */
#include "bench/bench.h"

#include <stdio.h>
#include <string.h>

#define OUTSTANDING 8
#define WAIT_SPIN_NS 100000
#define MEBIBYTE ((size_t)1 << 20)
/* All buffers of a size together. Beyond it, copies share buffers, and those of one are in order.
 */
#define MEMORY_MAX_BYTES (1024 * MEBIBYTE)

typedef struct copy_case {
    ferry_engine *engine;
    size_t size_bytes;
    size_t pairs;
    size_t copies; /* a round */
    ferry_buffer *sources[OUTSTANDING];
    ferry_buffer *targets[OUTSTANDING];
} copy_case;

static void copy_case_open(copy_case *copy, size_t round_bytes)
{
    copy->pairs = MEMORY_MAX_BYTES / 2 / copy->size_bytes;
    if (copy->pairs > OUTSTANDING)
        copy->pairs = OUTSTANDING;
    copy->copies = round_bytes / copy->size_bytes;
    if (copy->copies > 20000)
        copy->copies = 20000;
    if (copy->copies < OUTSTANDING)
        copy->copies = OUTSTANDING;
    for (size_t i = 0; i < copy->pairs; i++) {
        copy->sources[i] = bench_buffer(copy->engine, "host:0", copy->size_bytes, (int)i + 1);
        copy->targets[i] = bench_buffer(copy->engine, "host:1", copy->size_bytes, 0);
    }
}

static void copy_case_close(copy_case *copy)
{
    for (size_t i = 0; i < copy->pairs; i++) {
        ferry_buffer_release(copy->sources[i]);
        ferry_buffer_release(copy->targets[i]);
    }
}

static double bandwidth(const copy_case *copy, int64_t duration_ns)
{
    return (double)copy->copies * (double)copy->size_bytes * 1e9 / (double)duration_ns;
}

static double ferry_round(const copy_case *copy)
{
    ferry_future *window[OUTSTANDING] = {NULL};
    int64_t start_ns = bench_now_ns();
    for (size_t i = 0; i < copy->copies; i++) {
        ferry_future **slot = &window[i % OUTSTANDING];
        size_t pair = i % copy->pairs;
        if (*slot != NULL)
            bench_finish(*slot);
        *slot = ferry_copy(copy->engine, ferry_buffer_span(copy->targets[pair]),
                           ferry_buffer_span(copy->sources[pair]), NULL);
    }
    for (size_t i = 0; i < OUTSTANDING; i++)
        bench_finish(window[(copy->copies + i) % OUTSTANDING]);
    return bandwidth(copy, bench_now_ns() - start_ns);
}

static double memcpy_round(const copy_case *copy)
{
    int64_t start_ns = bench_now_ns();
    for (size_t i = 0; i < copy->copies; i++) {
        void *target = ferry_buffer_data(copy->targets[i % copy->pairs]);
        memcpy(target, ferry_buffer_data(copy->sources[i % copy->pairs]), copy->size_bytes);
        __asm__ volatile("" : : "r"(target) : "memory");
    }
    return bandwidth(copy, bench_now_ns() - start_ns);
}

static void check_copies(const copy_case *copy)
{
    for (size_t i = 0; i < copy->pairs; i++) {
        if (memcmp(ferry_buffer_data(copy->targets[i]), ferry_buffer_data(copy->sources[i]),
                   copy->size_bytes) != 0)
            bench_fail("copy: %zu bytes arrived wrong", copy->size_bytes);
    }
}

static void run_size(ferry_engine *engine, size_t size_bytes, const char *suffix, bool is_quick)
{
    copy_case copy = {.engine = engine, .size_bytes = size_bytes};
    copy_case_open(&copy, (is_quick ? 32 : 128) * MEBIBYTE);
    bench_samples ferry = {.larger_is_better = true};
    bench_samples plain = {.larger_is_better = true};
    bench_samples ratio = {.larger_is_better = true};
    (void)ferry_round(&copy);
    check_copies(&copy);
    int rounds = copy.copies * size_bytes >= 1024 * MEBIBYTE ? 5 : 11;
    if (!is_quick)
        rounds = rounds * 2 + 1;
    for (int round = 0; round < rounds; round++) {
        double plain_first = round % 2 == 0 ? 0 : memcpy_round(&copy);
        double ferry_bandwidth = ferry_round(&copy);
        double plain_bandwidth = round % 2 == 0 ? memcpy_round(&copy) : plain_first;
        bench_samples_add(&ferry, ferry_bandwidth);
        bench_samples_add(&plain, plain_bandwidth);
        bench_samples_add(&ratio, ferry_bandwidth / plain_bandwidth);
    }
    char name[32];
    bench_size_name(name, sizeof name, size_bytes);
    (void)strncat(name, suffix, sizeof name - strlen(name) - 1);
    bench_report((bench_key){"copy", name, "bandwidth_bytes_per_s", ""}, &ferry);
    bench_report((bench_key){"copy", name, "bandwidth_bytes_per_s", "memcpy"}, &plain);
    bench_report((bench_key){"copy", name, "ratio", "memcpy"}, &ratio);
    bench_samples_free(&ferry);
    bench_samples_free(&plain);
    bench_samples_free(&ratio);
    copy_case_close(&copy);
}

void bench_copy(bool is_quick)
{
    static const size_t sizes_bytes[] = {
        64, 512, 4096, 32768, 262144, MEBIBYTE, 8 * MEBIBYTE, 64 * MEBIBYTE, 256 * MEBIBYTE,
    };
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.wait_spin_ns = WAIT_SPIN_NS;
    ferry_engine *engine = bench_engine_open(&options);
    for (size_t i = 0; i < sizeof sizes_bytes / sizeof sizes_bytes[0]; i++)
        run_size(engine, sizes_bytes[i], "", is_quick);
    bench_engine_close(engine);
    engine = bench_engine_open(NULL);
    run_size(engine, MEBIBYTE, "-parked", is_quick);
    run_size(engine, 8 * MEBIBYTE, "-parked", is_quick);
    bench_engine_close(engine);
}
