/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan: what the post of a plan costs the thread that posts, beside the same operations by a batch
 * or one by one. Local copies are done within the post; of gets the time is that thread's CPU, as
 * others go on with them. Rounds of all ways alternate; a ratio is of neighbours in time.
 */
#include "bench/bench.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COPIES = 1000, COPY_BYTES = 64, GETS = 4096 };
#define GET_BYTES ((size_t)16384)

static int64_t cpu_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static ferry_plan *plan_of(ferry_engine *engine, const ferry_op *ops, size_t count)
{
    ferry_plan *plan = NULL;
    bench_check(ferry_plan_create(engine, ops, sizeof *ops, count, &plan, NULL), "a plan");
    return plan;
}

/* ---- local copies ---- */

typedef struct copies {
    ferry_engine *engine;
    ferry_buffer *source, *target;
    ferry_op ops[COPIES];
} copies;

/* A gap between two of them: else a plan joins them. */
static void open_copies(copies *self, size_t gap)
{
    size_t step = COPY_BYTES + gap;
    self->engine = bench_engine_open(NULL);
    self->source = bench_buffer(self->engine, "host:0", COPIES * step, 1);
    self->target = bench_buffer(self->engine, "host:1", COPIES * step, 0);
    for (size_t i = 0; i < COPIES; i++)
        self->ops[i] = (ferry_op){.kind = FERRY_OP_COPY,
                                  .dst = {self->target, i * step, COPY_BYTES},
                                  .src = {self->source, i * step, COPY_BYTES}};
}

static void close_copies(copies *self)
{
    ferry_buffer_release(self->source);
    ferry_buffer_release(self->target);
    bench_engine_close(self->engine);
}

static void measure_copies(size_t gap, const char *shape, bool is_quick)
{
    copies *self = bench_alloc(sizeof *self);
    bench_samples batch = {0}, plan = {0}, ratio = {.larger_is_better = true};
    open_copies(self, gap);
    ferry_plan *prepared = plan_of(self->engine, self->ops, COPIES);
    int rounds = is_quick ? 200 : 2000;
    for (int i = -rounds / 10; i < rounds; i++) {
        int64_t begin_ns = bench_now_ns();
        ferry_future *by_batch =
            ferry_batch(self->engine, self->ops, sizeof self->ops[0], COPIES, NULL, NULL);
        int64_t middle_ns = bench_now_ns();
        bench_finish(by_batch);
        bench_finish(ferry_engine_drain(self->engine));
        int64_t again_ns = bench_now_ns();
        ferry_future *by_plan = ferry_plan_post(prepared, NULL, 0, NULL);
        int64_t end_ns = bench_now_ns();
        bench_finish(by_plan);
        bench_finish(ferry_engine_drain(self->engine));
        if (i < 0)
            continue;
        double batch_ns = (double)(middle_ns - begin_ns), plan_ns = (double)(end_ns - again_ns);
        bench_samples_add(&batch, batch_ns / COPIES);
        bench_samples_add(&plan, plan_ns / COPIES);
        bench_samples_add(&ratio, batch_ns / plan_ns);
    }
    bench_report((bench_key){"plan", shape, "ns_per_node", ""}, &plan);
    bench_report((bench_key){"plan", shape, "ns_per_node", "batch"}, &batch);
    bench_report((bench_key){"plan", shape, "ratio", "batch"}, &ratio);
    ferry_plan_release(prepared);
    close_copies(self);
    bench_samples_free(&batch);
    bench_samples_free(&plan);
    bench_samples_free(&ratio);
    free(self);
}

/* A plan of one copy. */
static void measure_one(bool is_quick)
{
    copies *self = bench_alloc(sizeof *self);
    bench_samples copy = {0}, plan = {0}, over = {0};
    open_copies(self, 0);
    ferry_plan *prepared = plan_of(self->engine, self->ops, 1);
    int rounds = is_quick ? 50 : 500, each = 1000;
    for (int i = -rounds / 10; i < rounds; i++) {
        int64_t begin_ns = bench_now_ns();
        for (int j = 0; j < each; j++)
            ferry_future_release(
                ferry_copy(self->engine, self->ops[0].dst, self->ops[0].src, NULL));
        int64_t middle_ns = bench_now_ns();
        for (int j = 0; j < each; j++)
            ferry_future_release(ferry_plan_post(prepared, NULL, 0, NULL));
        int64_t end_ns = bench_now_ns();
        if (i < 0)
            continue;
        double copy_ns = (double)(middle_ns - begin_ns) / each;
        double plan_ns = (double)(end_ns - middle_ns) / each;
        bench_samples_add(&copy, copy_ns);
        bench_samples_add(&plan, plan_ns);
        bench_samples_add(&over, plan_ns - copy_ns);
    }
    bench_report((bench_key){"plan", "one-copy", "ns_per_node", ""}, &plan);
    bench_report((bench_key){"plan", "one-copy", "ns_per_node", "ferry_copy"}, &copy);
    bench_report((bench_key){"plan", "one-copy-over", "ns_per_node", ""}, &over);
    ferry_plan_release(prepared);
    close_copies(self);
    bench_samples_free(&copy);
    bench_samples_free(&plan);
    bench_samples_free(&over);
    free(self);
}

/* ---- gets ---- */

typedef struct member {
    ferry_engine *engine;
    ferry_group *group;
    ferry_buffer *buffer;
    ferry_window *window;
} member;

static void open_members(member members[2])
{
    ferry_future *joins[2];
    for (uint32_t i = 0; i < 2; i++) {
        ferry_group_options options = FERRY_GROUP_OPTIONS_INIT;
        options.store = "mem:plan";
        options.job = "plan";
        options.size = 2;
        options.rank = i;
        options.has_rank = true;
        members[i].engine = bench_engine_open(NULL);
        members[i].buffer = bench_buffer(members[i].engine, "host:0", GETS * GET_BYTES, (int)i);
        joins[i] = ferry_group_join(members[i].engine, &options, &members[i].group);
    }
    bench_finish(joins[0]);
    bench_finish(joins[1]);
    bench_finish(ferry_window_open(members[0].group, ferry_buffer_span(members[0].buffer), "w",
                                   FERRY_WINDOW_GET, &members[0].window));
    bench_finish(ferry_window_find(members[1].group, 0, "w", 0, &members[1].window));
}

static void close_members(member members[2])
{
    for (int i = 0; i < 2; i++) {
        ferry_window_release(members[i].window);
        ferry_group_release(members[i].group);
        ferry_buffer_release(members[i].buffer);
    }
    for (int i = 0; i < 2; i++)
        bench_engine_close(members[i].engine);
}

/* Scattered at both ends, in the order of the places here. */
static ferry_plan *plan_gets(const member members[2], ferry_op *ops)
{
    for (size_t i = 0; i < GETS; i++)
        ops[i] = (ferry_op){.kind = FERRY_OP_GET,
                            .window = members[1].window,
                            .window_offset = i * 1021 % GETS * GET_BYTES,
                            .dst = {members[1].buffer, i * 2039 % GETS * GET_BYTES, GET_BYTES}};
    return plan_of(members[1].engine, ops, GETS);
}

static void measure_gets(bool is_quick)
{
    member members[2];
    bench_samples batch = {0}, plan = {0}, ratio = {.larger_is_better = true};
    ferry_op *ops = bench_alloc(GETS * sizeof *ops);
    open_members(members);
    ferry_plan *prepared = plan_gets(members, ops);
    for (int i = -2; i < (is_quick ? 10 : 50); i++) {
        int64_t begin_ns = cpu_ns();
        ferry_future *by_batch = ferry_batch(members[1].engine, ops, sizeof *ops, GETS, NULL, NULL);
        int64_t batch_ns = cpu_ns() - begin_ns;
        bench_finish(by_batch);
        begin_ns = cpu_ns();
        ferry_future *by_plan = ferry_plan_post(prepared, NULL, 0, NULL);
        int64_t plan_ns = cpu_ns() - begin_ns;
        bench_finish(by_plan);
        if (i < 0)
            continue;
        bench_samples_add(&batch, (double)batch_ns / GETS);
        bench_samples_add(&plan, (double)plan_ns / GETS);
        bench_samples_add(&ratio, (double)batch_ns / (double)plan_ns);
    }
    bench_report((bench_key){"plan", "4096-gets", "ns_per_node", ""}, &plan);
    bench_report((bench_key){"plan", "4096-gets", "ns_per_node", "batch"}, &batch);
    bench_report((bench_key){"plan", "4096-gets", "ratio", "batch"}, &ratio);
    ferry_plan_release(prepared);
    close_members(members);
    free(ops);
    bench_samples_free(&batch);
    bench_samples_free(&plan);
    bench_samples_free(&ratio);
}

void bench_plan(bool is_quick)
{
    measure_copies(COPY_BYTES, "1000-copies", is_quick);
    measure_copies(0, "1000-copies-joined", is_quick);
    measure_one(is_quick);
    measure_gets(is_quick);
}
