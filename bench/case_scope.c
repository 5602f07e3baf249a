/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scope: how well the limit of a scope is kept, and what it costs. Copies of 1 MiB, all submitted
 * at once, in a scope that lets 1 GB begin in a second: `off_by` is how far the rate was from that.
 * `cpu` is the process's time on CPUs, beside that of the same copies in a scope without a limit.
 */
#include "bench/bench.h"

#include <time.h>

#define COPY_BYTES ((size_t)1 << 20)
#define SLOTS 8 /* of the buffers: so many copies can go on at once */
#define LIMIT 1000000000

typedef struct figures {
    double duration_ns, cpu_ns;
} figures;

static double cpu_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static figures run(ferry_engine *engine, ferry_buffer *target, ferry_buffer *source,
                   uint64_t bytes_per_second, size_t copies)
{
    ferry_scope *scope;
    ferry_scope_options limits = FERRY_SCOPE_OPTIONS_INIT;
    limits.bytes_per_second = bytes_per_second;
    bench_check(ferry_scope_create(engine, &limits, &scope), "scope_create");
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.scope = scope;
    double cpu_ns = cpu_now_ns();
    int64_t start_ns = bench_now_ns();
    for (size_t i = 0; i < copies; i++) {
        size_t offset = i % SLOTS * COPY_BYTES;
        ferry_future_release(ferry_copy(engine, (ferry_span){target, offset, COPY_BYTES},
                                        (ferry_span){source, offset, COPY_BYTES}, &options));
    }
    bench_finish(ferry_scope_close(scope));
    figures taken = {.duration_ns = (double)(bench_now_ns() - start_ns),
                     .cpu_ns = cpu_now_ns() - cpu_ns};
    ferry_scope_release(scope);
    return taken;
}

void bench_scope(bool is_quick)
{
    int seconds = is_quick ? 2 : 10;
    size_t copies = (size_t)seconds * LIMIT / COPY_BYTES;
    ferry_engine *engine = bench_engine_open(NULL);
    ferry_buffer *source = bench_buffer(engine, "host:0", SLOTS * COPY_BYTES, 1);
    ferry_buffer *target = bench_buffer(engine, "host:1", SLOTS * COPY_BYTES, 0);
    bench_samples off_by = {0}, cpu = {0};
    for (int i = 0; i < 3; i++) {
        figures limited = run(engine, target, source, LIMIT, copies);
        figures plain = run(engine, target, source, 0, copies);
        double rate = (double)(copies * COPY_BYTES) / limited.duration_ns * 1e9 / LIMIT;
        bench_samples_add(&off_by, rate > 1 ? rate - 1 : 1 - rate);
        bench_samples_add(&cpu, limited.cpu_ns / plain.cpu_ns);
    }
    bench_report((bench_key){"scope", "limit-1GB", "off_by", ""}, &off_by);
    bench_report((bench_key){"scope", "cpu", "ratio", "no limit"}, &cpu);
    bench_samples_free(&off_by);
    bench_samples_free(&cpu);
    ferry_buffer_release(source);
    ferry_buffer_release(target);
    bench_engine_close(engine);
}
