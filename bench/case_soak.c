/* SPDX-License-Identifier: Apache-2.0 */
/*
 * soak: 10^8 small copies (--quick: 10^6) on one engine, and what they leave behind: how much the
 * process holds in memory after the first hundredth (--quick: tenth) and at the end, and how often
 * anything called the heap in between. It fails if the memory grew by more than a MiB, or if what
 * should call no heap did.
 *
 * In laps. Each has copies that the submitting thread makes itself and a chain of copies behind a
 * promise; every eighth also copies on the workers and a function on the loop. Their futures are
 * kept until KEPT more have been submitted. Every 512th lap has failures too: a promise that fails
 * its copies, a reader of what they poisoned, a cancel, errors that are asked for, healing. That
 * calls the heap, for errors, so it is counted apart and leaves nothing to the next lap.
 */
#include "bench/bench.h"
#include "bench/heap.h"
#include "bench/procfs.h"

#include <stdio.h>

#define KEPT 2048 /* futures, and so what is in flight at most */
#define SLOTS 64
#define SLOT_BYTES 64
#define WORKER_BYTES 512 /* more than inline_copy_bytes */
#define INLINE_COPIES 48
#define CHAIN_COPIES 8
#define WORKER_COPIES 16
#define LAPS_A_WORKER 8
#define LAPS_A_FAILURE 512
#define GROWTH_MAX_BYTES ((int64_t)1 << 20)

typedef enum soak_pair { PAIR_INLINE, PAIR_CHAIN, PAIR_WORKER, PAIR_FAILING, PAIR_COUNT } soak_pair;

typedef struct soak {
    ferry_engine *engine;
    ferry_buffer *left[PAIR_COUNT]; /* a pair for each kind of copies: one must not hold another */
    ferry_buffer *right[PAIR_COUNT];
    ferry_future *kept[KEPT];
    size_t next;
    uint64_t copies, laps, calls;
    uint64_t failing_heap_calls;
} soak;

static ferry_status count_call(void *arg)
{
    (*(uint64_t *)arg)++;
    return FERRY_OK;
}

/* Waits for the oldest that is kept and puts this one in its place. */
static void keep(soak *self, ferry_future *future)
{
    ferry_future *oldest = self->kept[self->next];
    self->kept[self->next] = future;
    self->next = (self->next + 1) % KEPT;
    if (oldest != NULL)
        bench_finish(oldest);
}

static void finish_kept(soak *self)
{
    for (size_t i = 0; i < KEPT; i++) {
        if (self->kept[i] != NULL)
            bench_finish(self->kept[i]);
        self->kept[i] = NULL;
    }
    bench_finish(ferry_engine_drain(self->engine));
}

static ferry_span slot_of(ferry_buffer *buffer, size_t slot, size_t slot_bytes)
{
    return (ferry_span){buffer, slot % SLOTS * slot_bytes, slot_bytes};
}

static ferry_future *copy_slot(soak *self, soak_pair pair, bool is_back, size_t slot,
                               ferry_future *after)
{
    size_t slot_bytes = pair == PAIR_WORKER ? WORKER_BYTES : SLOT_BYTES;
    ferry_span left = slot_of(self->left[pair], slot, slot_bytes);
    ferry_span right = slot_of(self->right[pair], slot, slot_bytes);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &after;
    options.after_count = after != NULL;
    self->copies++;
    return ferry_copy(self->engine, is_back ? left : right, is_back ? right : left,
                      after != NULL ? &options : NULL);
}

static void run_inline(soak *self)
{
    for (size_t i = 0; i < INLINE_COPIES; i++)
        keep(self, copy_slot(self, PAIR_INLINE, false, i, NULL));
}

/* There and back, each ordered by what the last one touched; the head waits for a promise. */
static void run_chain(soak *self)
{
    bench_gate gate = bench_gate_create(self->engine);
    for (size_t i = 0; i < CHAIN_COPIES; i++)
        keep(self,
             copy_slot(self, PAIR_CHAIN, i % 2 != 0, self->laps, i == 0 ? gate.future : NULL));
    bench_gate_open(&gate);
    bench_gate_release(&gate);
}

static void run_workers(soak *self)
{
    for (size_t i = 0; i < WORKER_COPIES; i++)
        keep(self, copy_slot(self, PAIR_WORKER, i % 2 != 0, i / 2, NULL));
    ferry_access reads = {ferry_buffer_span(self->right[PAIR_WORKER]), FERRY_READ};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.accesses = &reads;
    options.access_count = 1;
    keep(self, ferry_call(self->engine, NULL, count_call, &self->calls, &options));
}

static void expect(ferry_future *future, ferry_status expected)
{
    ferry_status status = ferry_future_wait(future, -1);
    const ferry_error *error = ferry_future_error(future);
    if (status != expected || error == NULL || error->status != expected)
        bench_fail("soak: %s, not %s", ferry_status_name(status), ferry_status_name(expected));
    ferry_future_release(future);
}

static void run_failures(soak *self)
{
    uint64_t before = bench_process_heap_calls();
    bench_gate gate = bench_gate_create(self->engine);
    ferry_future *failing = copy_slot(self, PAIR_FAILING, false, 0, gate.future);
    ferry_future *cancelled = copy_slot(self, PAIR_FAILING, false, 1, gate.future);
    ferry_future *reader = copy_slot(self, PAIR_FAILING, true, 0, NULL);
    bench_check(ferry_future_cancel(cancelled), "ferry_future_cancel");
    expect(cancelled, FERRY_E_CANCELLED);
    bench_check(ferry_promise_resolve(gate.promise, FERRY_E_FAILED, "on purpose"),
                "ferry_promise_resolve");
    bench_gate_release(&gate);
    expect(failing, FERRY_E_DEPENDENCY);
    expect(reader, FERRY_E_DEPENDENCY);
    bench_check(ferry_buffer_define(ferry_buffer_span(self->left[PAIR_FAILING]), NULL), "define");
    bench_check(ferry_buffer_define(ferry_buffer_span(self->right[PAIR_FAILING]), NULL), "define");
    bench_finish(ferry_engine_drain(self->engine));
    self->failing_heap_calls += bench_process_heap_calls() - before;
}

/* More at once than there will ever be, however the threads interleave. */
static void warm_up(soak *self)
{
    (void)bench_chain_ns(self->engine, (size_t)8 * KEPT, true);
    for (int pair = 0; pair < PAIR_COUNT; pair++) {
        bench_gate gate = bench_gate_create(self->engine);
        for (size_t i = 0; i < KEPT - 1; i++)
            keep(self, copy_slot(self, (soak_pair)pair, i % 2 != 0, i, gate.future));
        bench_gate_open(&gate);
        bench_gate_release(&gate);
        finish_kept(self);
    }
}

static void run_until(soak *self, uint64_t copies)
{
    while (self->copies < copies) {
        run_inline(self);
        run_chain(self);
        if (self->laps % LAPS_A_WORKER == 0)
            run_workers(self);
        if (self->laps % LAPS_A_FAILURE == 0) {
            finish_kept(self); /* the loop's share of freeing errors falls into the count */
            run_failures(self);
        }
        self->laps++;
    }
    finish_kept(self);
}

static void open_soak(soak *self)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.inline_copy_bytes = SLOT_BYTES;
    self->engine = bench_engine_open(&options);
    for (int pair = 0; pair < PAIR_COUNT; pair++) {
        size_t size_bytes = SLOTS * (pair == PAIR_WORKER ? WORKER_BYTES : SLOT_BYTES);
        self->left[pair] =
            bench_buffer(self->engine, pair % 2 == 0 ? "host:0" : "host:2", size_bytes, pair);
        self->right[pair] =
            bench_buffer(self->engine, pair % 2 == 0 ? "host:1" : "host:3", size_bytes, pair);
    }
}

void bench_soak(bool is_quick)
{
    static soak self; /* its futures are no small thing on the stack */
    open_soak(&self);
    uint64_t all = is_quick ? 1000000 : 100000000, first = is_quick ? all / 10 : all / 100;
    warm_up(&self);
    int64_t start_ns = bench_now_ns();
    run_until(&self, first);
    int64_t before_bytes = bench_rss_bytes();
    uint64_t before_calls = bench_process_heap_calls(), before_failing = self.failing_heap_calls;
    run_until(&self, all);
    int64_t after_bytes = bench_rss_bytes();
    uint64_t failing_calls = self.failing_heap_calls - before_failing;
    uint64_t calls = bench_process_heap_calls() - before_calls - failing_calls;
    double copy_ns = (double)(bench_now_ns() - start_ns) / (double)self.copies;

    bench_report_value((bench_key){"soak", is_quick ? "after-1e5" : "after-1e6", "rss_bytes", ""},
                       (double)before_bytes);
    bench_report_value((bench_key){"soak", is_quick ? "after-1e6" : "after-1e8", "rss_bytes", ""},
                       (double)after_bytes);
    bench_report_value((bench_key){"soak", "growth", "rss_bytes", ""},
                       (double)(after_bytes - before_bytes));
    bench_report_value((bench_key){"soak", "steady", "heap_calls", ""}, (double)calls);
    bench_report_value((bench_key){"soak", "failures", "heap_calls", ""}, (double)failing_calls);
    bench_report_value((bench_key){"soak", "all", "ns_per_node", ""}, copy_ns);
    for (int pair = 0; pair < PAIR_COUNT; pair++) {
        ferry_buffer_release(self.left[pair]);
        ferry_buffer_release(self.right[pair]);
    }
    bench_engine_close(self.engine);
    if (!bench_process_heap_is_counted())
        return; /* a sanitizer's memory is not ferry's */
    if (after_bytes - before_bytes > GROWTH_MAX_BYTES)
        bench_fail("soak: the process grew by %lld bytes", (long long)(after_bytes - before_bytes));
    if (calls != 0)
        bench_fail("soak: %llu heap calls where nothing fails", (unsigned long long)calls);
}
