/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queue: what a record in a completion queue costs. Small copies are submitted in blocks and their
 * ends looked at by one consumer, the same thread: by records that are taken a block at a time, by
 * a callback each, and not at all. Blocks of the three alternate; `over` is the difference to the
 * last.
 */
#include "bench/bench.h"

#include <string.h>

#define COPY_BYTES 64
#define BLOCK 256

typedef struct place {
    ferry_engine *engine;
    ferry_buffer *source, *target;
    ferry_queue *queue;
    ferry_waiter waiters[BLOCK];
    size_t ends;     /* that were looked at */
    uint64_t number; /* user_data of the next copy */
} place;

static ferry_future *copy(const place *self, size_t i, const ferry_op_options *options)
{
    return ferry_copy(self->engine, (ferry_span){self->target, i * COPY_BYTES, COPY_BYTES},
                      (ferry_span){self->source, i * COPY_BYTES, COPY_BYTES}, options);
}

static void with_nothing(place *self)
{
    for (size_t i = 0; i < BLOCK; i++)
        ferry_future_release(copy(self, i, NULL));
    while (ferry_engine_progress(self->engine, 0) > 0)
        continue;
    self->ends += BLOCK;
}

static void with_number(place *self)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    for (size_t i = 0; i < BLOCK; i++) {
        options.user_data = ++self->number;
        ferry_future_release(copy(self, i, &options));
    }
    while (ferry_engine_progress(self->engine, 0) > 0)
        continue;
    self->ends += BLOCK;
}

static void with_queue(place *self)
{
    static ferry_queue_record records[BLOCK];
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.queue = self->queue;
    for (size_t i = 0; i < BLOCK; i++) {
        options.user_data = ++self->number;
        ferry_future_release(copy(self, i, &options));
    }
    while (ferry_engine_progress(self->engine, 0) > 0)
        continue;
    size_t count = ferry_queue_take(self->queue, records, sizeof *records, BLOCK);
    for (size_t i = 0; i < count; i++)
        self->ends +=
            records[i].status == FERRY_OK && records[i].user_data == self->number - BLOCK + 1 + i;
}

static void count_end(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future;
    ((place *)waiter->arg)->ends += status == FERRY_OK;
}

static void with_waiters(place *self)
{
    for (size_t i = 0; i < BLOCK; i++) {
        ferry_future *future = copy(self, i, NULL);
        self->waiters[i] = (ferry_waiter)FERRY_WAITER_INIT(count_end, self);
        bench_check(ferry_future_on_ready(future, &self->waiters[i]), "on_ready");
        ferry_future_release(future);
    }
    while (ferry_engine_progress(self->engine, 0) > 0)
        continue;
}

static double block_ns(place *self, void (*run)(place *self))
{
    size_t before = self->ends;
    int64_t start_ns = bench_now_ns();
    run(self);
    double ns = (double)(bench_now_ns() - start_ns) / BLOCK;
    if (self->ends != before + BLOCK)
        bench_fail("queue: %zu of %d ends were seen", self->ends - before, BLOCK);
    return ns;
}

void bench_queue(bool is_quick)
{
    static place self;
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.loop = FERRY_LOOP_EMBEDDED;
    self = (place){.engine = bench_engine_open(&options)};
    self.source = bench_buffer(self.engine, "host:0", BLOCK * COPY_BYTES, 1);
    self.target = bench_buffer(self.engine, "host:1", BLOCK * COPY_BYTES, 0);
    bench_check(ferry_queue_create(self.engine, BLOCK, &self.queue, NULL), "queue_create");
    bench_samples records = {0}, over = {0}, number_over = {0}, waiters_over = {0};
    int blocks = is_quick ? 500 : 4000;
    for (int i = -blocks / 10; i < blocks; i++) {
        double nothing_ns = block_ns(&self, with_nothing);
        double queue_ns = block_ns(&self, with_queue);
        double number_ns = block_ns(&self, with_number);
        double waiters_ns = block_ns(&self, with_waiters);
        if (i < 0)
            continue; /* warm-up */
        bench_samples_add(&records, queue_ns);
        bench_samples_add(&over, queue_ns - nothing_ns);
        bench_samples_add(&number_over, number_ns - nothing_ns);
        bench_samples_add(&waiters_over, waiters_ns - nothing_ns);
    }
    bench_report((bench_key){"queue", "copy-64", "latency_ns", ""}, &records);
    bench_report((bench_key){"queue", "over-nothing", "latency_ns", ""}, &over);
    bench_report((bench_key){"queue", "over-nothing", "latency_ns", "a number alone"},
                 &number_over);
    bench_report((bench_key){"queue", "over-nothing", "latency_ns", "a waiter each"},
                 &waiters_over);
    bench_samples_free(&records);
    bench_samples_free(&over);
    bench_samples_free(&number_over);
    bench_samples_free(&waiters_over);
    ferry_queue_release(self.queue);
    ferry_buffer_release(self.source);
    ferry_buffer_release(self.target);
    bench_engine_close(self.engine);
}
