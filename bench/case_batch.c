/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch: submitting many small copies with nothing to wait for by one call, against doing so one by
 * one; the time of the submits alone. Each way twice: letting go of the copies' futures, and
 * keeping them. Rounds of all four alternate; a ratio is of neighbours in time.
 */
#include "bench/bench.h"

#include <stdlib.h>
#include <string.h>

#define COPIES 10000
#define COPY_BYTES 64

typedef struct batch_bench {
    ferry_engine *engine;
    ferry_buffer *source, *target;
    ferry_op *ops;
    ferry_future **futures;
} batch_bench;

typedef struct way {
    const char *name;
    int64_t (*submit_ns)(batch_bench *bench); /* leaves `futures` for the caller to look at */
    bool is_kept;                             /* `futures` has them all */
    bench_samples samples;
} way;

static int64_t one_by_one_ns(batch_bench *bench)
{
    int64_t start_ns = bench_now_ns();
    for (size_t i = 0; i < COPIES; i++)
        ferry_future_release(ferry_copy(bench->engine, bench->ops[i].dst, bench->ops[i].src, NULL));
    return bench_now_ns() - start_ns;
}

static int64_t one_by_one_each_ns(batch_bench *bench)
{
    int64_t start_ns = bench_now_ns();
    for (size_t i = 0; i < COPIES; i++)
        bench->futures[i] = ferry_copy(bench->engine, bench->ops[i].dst, bench->ops[i].src, NULL);
    return bench_now_ns() - start_ns;
}

static int64_t batch_ns(batch_bench *bench)
{
    int64_t start_ns = bench_now_ns();
    ferry_future *all =
        ferry_batch(bench->engine, bench->ops, sizeof *bench->ops, COPIES, NULL, NULL);
    int64_t passed_ns = bench_now_ns() - start_ns;
    bench_finish(all);
    return passed_ns;
}

static int64_t batch_each_ns(batch_bench *bench)
{
    int64_t start_ns = bench_now_ns();
    ferry_future *all =
        ferry_batch(bench->engine, bench->ops, sizeof *bench->ops, COPIES, bench->futures, NULL);
    int64_t passed_ns = bench_now_ns() - start_ns;
    bench_finish(all);
    return passed_ns;
}

/* One round: the bytes are there afterwards, and every future has resolved. */
static double round_ns(batch_bench *bench, const way *way)
{
    memset(ferry_buffer_data(bench->target), 0, (size_t)COPIES * COPY_BYTES);
    int64_t passed_ns = way->submit_ns(bench);
    for (size_t i = 0; way->is_kept && i < COPIES; i++)
        bench_finish(bench->futures[i]);
    if (!way->is_kept)
        bench_finish(ferry_engine_drain(bench->engine));
    if (memcmp(ferry_buffer_data(bench->target), ferry_buffer_data(bench->source),
               (size_t)COPIES * COPY_BYTES) != 0)
        bench_fail("batch: %s did not copy", way->name);
    return (double)passed_ns / COPIES;
}

static void batch_bench_open(batch_bench *bench)
{
    bench->engine = bench_engine_open(NULL);
    bench->source = bench_buffer(bench->engine, "host:0", (size_t)COPIES * COPY_BYTES, 1);
    bench->target = bench_buffer(bench->engine, "host:1", (size_t)COPIES * COPY_BYTES, 0);
    bench->ops = bench_alloc(COPIES * sizeof *bench->ops);
    bench->futures = bench_alloc(COPIES * sizeof *bench->futures);
    for (size_t i = 0; i < COPIES; i++)
        bench->ops[i] = (ferry_op){.kind = FERRY_OP_COPY,
                                   .dst = {bench->target, i * COPY_BYTES, COPY_BYTES},
                                   .src = {bench->source, i * COPY_BYTES, COPY_BYTES}};
}

static void batch_bench_close(batch_bench *bench)
{
    free(bench->futures);
    free(bench->ops);
    ferry_buffer_release(bench->source);
    ferry_buffer_release(bench->target);
    bench_engine_close(bench->engine);
}

void bench_batch(bool is_quick)
{
    way ways[] = {{.name = "one-by-one", .submit_ns = one_by_one_ns},
                  {.name = "batch", .submit_ns = batch_ns},
                  {.name = "one-by-one-each", .submit_ns = one_by_one_each_ns, .is_kept = true},
                  {.name = "batch-each", .submit_ns = batch_each_ns, .is_kept = true}};
    static const char *const ratio_names[] = {"batch-gain", "batch-each-gain"};
    bench_samples ratios[2] = {{.larger_is_better = true}, {.larger_is_better = true}};
    batch_bench bench;
    batch_bench_open(&bench);
    int rounds = is_quick ? 50 : 500;
    for (int i = -rounds / 10; i < rounds; i++) {
        double ns[4];
        for (int w = 0; w < 4; w++)
            ns[w] = round_ns(&bench, &ways[w]);
        for (int w = 0; w < 4 && i >= 0; w++) /* the first rounds are a warm-up */
            bench_samples_add(&ways[w].samples, ns[w]);
        for (int pair = 0; pair < 2 && i >= 0; pair++)
            bench_samples_add(&ratios[pair], ns[2 * pair] / ns[2 * pair + 1]);
    }
    for (int w = 0; w < 4; w++) {
        bench_report((bench_key){"batch", ways[w].name, "ns_per_node", ""}, &ways[w].samples);
        bench_samples_free(&ways[w].samples);
    }
    for (int pair = 0; pair < 2; pair++) {
        bench_report((bench_key){"batch", ratio_names[pair], "ratio", ""}, &ratios[pair]);
        bench_samples_free(&ratios[pair]);
    }
    batch_bench_close(&bench);
}
