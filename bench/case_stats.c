/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stats: what an engine pays for its figures (ferry_engine_options.stats). Blocks of small copies
 * in an engine that counts and in one that does not alternate; `over-nothing` is the difference of
 * two blocks next to each other, for one copy.
 */
#include "bench/bench.h"

#define COPY_BYTES 64
#define BLOCK 256

typedef struct place {
    ferry_engine *engine;
    ferry_buffer *source, *target;
} place;

static place open_place(uint32_t stats)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.loop = FERRY_LOOP_EMBEDDED;
    options.stats = stats;
    place self = {.engine = bench_engine_open(&options)};
    self.source = bench_buffer(self.engine, "host:0", BLOCK * COPY_BYTES, 1);
    self.target = bench_buffer(self.engine, "host:1", BLOCK * COPY_BYTES, 0);
    return self;
}

static void close_place(place *self)
{
    ferry_buffer_release(self->source);
    ferry_buffer_release(self->target);
    bench_engine_close(self->engine);
}

static double block_ns(const place *self)
{
    int64_t start_ns = bench_now_ns();
    for (size_t i = 0; i < BLOCK; i++)
        ferry_future_release(
            ferry_copy(self->engine, (ferry_span){self->target, i * COPY_BYTES, COPY_BYTES},
                       (ferry_span){self->source, i * COPY_BYTES, COPY_BYTES}, NULL));
    while (ferry_engine_progress(self->engine, 0) > 0)
        continue;
    return (double)(bench_now_ns() - start_ns) / BLOCK;
}

void bench_stats(bool is_quick)
{
    place plain = open_place(0), counts = open_place(1);
    bench_samples with = {0}, over = {0};
    int blocks = is_quick ? 1000 : 8000;
    for (int i = -blocks / 10; i < blocks; i++) {
        double plain_ns = block_ns(&plain), counting_ns = block_ns(&counts);
        if (i < 0)
            continue; /* warm-up */
        bench_samples_add(&with, counting_ns);
        bench_samples_add(&over, counting_ns - plain_ns);
    }
    ferry_stats stats = FERRY_STATS_INIT;
    bench_check(ferry_stats_read(counts.engine, NULL, &stats), "stats_read");
    if (stats.resolved_by_kind[FERRY_OP_COPY] != (uint64_t)(blocks + blocks / 10) * BLOCK)
        bench_fail("stats: not all copies were counted");
    bench_report((bench_key){"stats", "copy-64", "latency_ns", ""}, &with);
    bench_report((bench_key){"stats", "over-nothing", "latency_ns", ""}, &over);
    bench_samples_free(&with);
    bench_samples_free(&over);
    close_place(&plain);
    close_place(&counts);
}
