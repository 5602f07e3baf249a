/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dump: ferry_engine_dump of many operations that a promise holds, and what another thread's
 * submits take beside it: an operation held by a promise, from the call until it returns. The
 * submitting thread lets go of its operations every so often, so as many live at any time.
 */
#include "bench/bench.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#define LIVE 100000
#define ALONE_NS 50000000
#define BATCH 512
#define SAMPLED 7 /* one submit of so many is looked at */

typedef struct submitter {
    pthread_t thread;
    ferry_engine *engine;
    bench_samples samples;
    atomic_bool stop;
} submitter;

static void submit_batch(submitter *self)
{
    bench_gate gate = bench_gate_create(self->engine);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &gate.future;
    options.after_count = 1;
    ferry_future *last = NULL;
    for (int i = 0; i < BATCH; i++) {
        ferry_future_release(last);
        int64_t start_ns = bench_now_ns();
        last = ferry_nop(self->engine, &options);
        int64_t end_ns = bench_now_ns();
        if (i % SAMPLED == 0)
            bench_samples_add(&self->samples, (double)(end_ns - start_ns));
    }
    bench_gate_open(&gate);
    bench_finish(last);
    bench_gate_release(&gate);
}

static void *submitter_main(void *arg)
{
    submitter *self = arg;
    while (!atomic_load(&self->stop))
        submit_batch(self);
    return NULL;
}

static void count_bytes(void *arg, const char *text, size_t size_bytes)
{
    (void)text;
    *(size_t *)arg += size_bytes;
}

static double dump_ns(ferry_engine *engine, ferry_dump_format format)
{
    size_t size_bytes = 0;
    int64_t start_ns = bench_now_ns();
    bench_check(ferry_engine_dump(engine, format, count_bytes, &size_bytes), "ferry_engine_dump");
    int64_t end_ns = bench_now_ns();
    if (size_bytes < LIVE)
        bench_fail("a dump of %d operations has %zu bytes", LIVE, size_bytes);
    return (double)(end_ns - start_ns);
}

/* Submits on another thread, while this one dumps again and again or sleeps as long. */
static void run_submitter(ferry_engine *engine, bool is_dumping, int runs, const char *name)
{
    submitter self = {.engine = engine};
    bench_samples dumps = {0};
    if (pthread_create(&self.thread, NULL, submitter_main, &self) != 0)
        bench_fail("cannot start a thread");
    for (int i = 0; i < runs; i++) {
        if (is_dumping)
            bench_samples_add(&dumps, dump_ns(engine, FERRY_DUMP_JSON));
        else
            (void)nanosleep(&(struct timespec){.tv_nsec = ALONE_NS}, NULL);
    }
    atomic_store(&self.stop, true);
    (void)pthread_join(self.thread, NULL);
    bench_report((bench_key){"dump", name, "latency_ns", ""}, &self.samples);
    if (is_dumping)
        bench_report((bench_key){"dump", "json-beside-submit", "latency_ns", ""}, &dumps);
    bench_samples_free(&self.samples);
    bench_samples_free(&dumps);
}

static void run_dumps(ferry_engine *engine, ferry_dump_format format, int runs, const char *name)
{
    bench_samples samples = {0};
    for (int i = 0; i < runs; i++)
        bench_samples_add(&samples, dump_ns(engine, format));
    bench_report((bench_key){"dump", name, "latency_ns", ""}, &samples);
    bench_samples_free(&samples);
}

void bench_dump(bool is_quick)
{
    ferry_engine *engine = bench_engine_open(NULL);
    bench_gate gate = bench_gate_create(engine);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &gate.future;
    options.after_count = 1;
    options.label = "held";
    ferry_future **live = bench_alloc(LIVE * sizeof(ferry_future *));
    for (size_t i = 0; i < LIVE; i++)
        live[i] = ferry_nop(engine, &options);
    run_dumps(engine, FERRY_DUMP_JSON, is_quick ? 5 : 21, "json");
    run_dumps(engine, FERRY_DUMP_DOT, is_quick ? 5 : 21, "dot");
    run_submitter(engine, false, is_quick ? 5 : 21, "submit-alone");
    run_submitter(engine, true, is_quick ? 5 : 21, "submit-beside-dump");
    bench_gate_open(&gate);
    for (size_t i = LIVE; i-- > 0;)
        bench_finish(live[i]);
    bench_gate_release(&gate);
    free(live);
    bench_engine_close(engine);
}
