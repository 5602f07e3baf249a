/* SPDX-License-Identifier: Apache-2.0 */
/*
 * submit: one small copy with nothing to wait for, from the call until a look says that it has
 * resolved, and its release; against the memcpy that it contains. Blocks of both alternate.
 */
#include "bench/bench.h"

#include <string.h>

#define COPY_BYTES 64
#define SLOTS 64
#define BLOCK 256

/* Not a constant to the compiler: the rival is a call of memcpy too. */
static volatile size_t copy_bytes = COPY_BYTES;

static double ferry_block_ns(ferry_engine *engine, ferry_buffer *target, ferry_buffer *source)
{
    int64_t start_ns = bench_now_ns();
    for (size_t i = 0; i < BLOCK; i++) {
        size_t offset_bytes = i % SLOTS * COPY_BYTES;
        ferry_future *copy = ferry_copy(engine, (ferry_span){target, offset_bytes, copy_bytes},
                                        (ferry_span){source, offset_bytes, copy_bytes}, NULL);
        bench_finish(copy);
    }
    return (double)(bench_now_ns() - start_ns) / BLOCK;
}

static double memcpy_block_ns(char *target, const char *source)
{
    int64_t start_ns = bench_now_ns();
    for (size_t i = 0; i < BLOCK; i++) {
        memcpy(target + i % SLOTS * COPY_BYTES, source + i % SLOTS * COPY_BYTES, copy_bytes);
        __asm__ volatile("" : : "r"(target) : "memory");
    }
    return (double)(bench_now_ns() - start_ns) / BLOCK;
}

void bench_submit(bool is_quick)
{
    ferry_engine *engine = bench_engine_open(NULL);
    ferry_buffer *source = bench_buffer(engine, "host:0", SLOTS * COPY_BYTES, 1);
    ferry_buffer *target = bench_buffer(engine, "host:1", SLOTS * COPY_BYTES, 0);
    char *source_data = ferry_buffer_data(source);
    char *target_data = ferry_buffer_data(target);
    bench_samples ferry = {0};
    bench_samples plain = {0};
    bench_samples over = {0};
    int blocks = is_quick ? 500 : 5000;
    for (int i = -blocks / 10; i < blocks; i++) {
        double ferry_ns = ferry_block_ns(engine, target, source);
        double plain_ns = memcpy_block_ns(target_data, source_data);
        if (i < 0)
            continue; /* warm-up */
        bench_samples_add(&ferry, ferry_ns);
        bench_samples_add(&plain, plain_ns);
        bench_samples_add(&over, ferry_ns - plain_ns);
    }
    memset(target_data, 0, SLOTS * COPY_BYTES);
    (void)ferry_block_ns(engine, target, source);
    if (memcmp(target_data, source_data, SLOTS * COPY_BYTES) != 0)
        bench_fail("submit: the copies did not copy");
    bench_report((bench_key){"submit", "copy-64", "latency_ns", ""}, &ferry);
    bench_report((bench_key){"submit", "memcpy-64", "latency_ns", "memcpy"}, &plain);
    bench_report((bench_key){"submit", "over-memcpy", "latency_ns", ""}, &over);
    bench_samples_free(&ferry);
    bench_samples_free(&plain);
    bench_samples_free(&over);
    ferry_buffer_release(source);
    ferry_buffer_release(target);
    bench_engine_close(engine);
}
