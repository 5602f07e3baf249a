/* SPDX-License-Identifier: Apache-2.0 */
/*
 * idle: how often the kernel runs any thread of an engine that has nothing in flight, in each mode;
 * the thread that runs the user's loop is counted too.
 */
#include "bench/loop_mode.h"
#include "bench/procfs.h"

#include <stdio.h>

/* After the last operation is quiet its threads may still be on their way to sleep. */
#define SETTLE_NS INT64_C(100000000)
#define BUFFER_BYTES 65536

static void run_mode(bench_loop_mode mode, bool is_quick)
{
    bench_threads others;
    bench_threads threads;
    bench_threads_list(&others);
    bench_loop loop;
    bench_loop_open(&loop, mode);
    ferry_engine *engine = loop.engine;
    ferry_buffer *source = bench_buffer(engine, "host:0", BUFFER_BYTES, 1);
    ferry_buffer *target = bench_buffer(engine, "host:1", BUFFER_BYTES, 0);
    (void)bench_chain_ns(engine, 1000, true);
    bench_finish(ferry_copy(engine, ferry_buffer_span(target), ferry_buffer_span(source), NULL));
    bench_finish(ferry_engine_drain(engine));
    bench_threads_list(&threads);
    bench_threads_subtract(&threads, &others);
    if (threads.count == 0)
        bench_fail("idle: the engine has no threads");
    bench_sleep_ns(SETTLE_NS);
    uint64_t before = bench_threads_switches(&threads);
    bench_sleep_ns((is_quick ? 2 : 10) * INT64_C(1000000000));
    uint64_t after = bench_threads_switches(&threads);
    char name[32];
    (void)snprintf(name, sizeof name, "%s-%s", is_quick ? "2s" : "10s", bench_loop_mode_name(mode));
    bench_report_value((bench_key){"idle", name, "wakeups", ""}, (double)(after - before));
    ferry_buffer_release(source);
    ferry_buffer_release(target);
    bench_loop_close(&loop);
}

void bench_idle(bool is_quick)
{
    for (int mode = 0; mode < BENCH_LOOP_MODE_COUNT; mode++)
        run_mode((bench_loop_mode)mode, is_quick);
}
