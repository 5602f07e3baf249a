/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scale: the cost of a node must not grow with how many there have been (`total-`), with how many
 * are alive (`live-`), nor with how many slices of one buffer are outstanding (`slices-`), and
 * hardly with how many accesses overlap (`overlaps-`): of ten times as many each may cost the ratio
 * of the logarithms more.
 */
#include "bench/bench.h"

#include <stdio.h>
#include <stdlib.h>

#define LIVE_MAX 10000
#define MANY_LIVE 1000000
#define SLICE_BYTES 64
#define SLICES 10000
#define SLICES_A_GATE 10
#define GATES (SLICES / SLICES_A_GATE)
#define OVERLAPS_FEW 1000
#define OVERLAPS_MANY 10000

/* A chain with the newest LIVE_MAX nodes kept alive by their handles. */
static double total_ns(ferry_engine *engine, ferry_future **window, size_t nodes)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    ferry_future *previous = NULL;
    options.after = &previous;
    int64_t start_ns = bench_now_ns();
    for (size_t i = 0; i < nodes; i++) {
        ferry_future **slot = &window[i % LIVE_MAX];
        if (i >= LIVE_MAX)
            bench_finish(*slot);
        options.after_count = i == 0 ? 0 : 1;
        *slot = ferry_nop(engine, &options);
        previous = *slot;
    }
    size_t alive = nodes < LIVE_MAX ? nodes : LIVE_MAX;
    for (size_t i = 0; i < alive; i++)
        bench_finish(window[i]);
    return (double)(bench_now_ns() - start_ns) / (double)nodes;
}

static void run_totals(bool is_quick)
{
    static const struct {
        size_t nodes;
        int repeats;
    } sizes[] = {{1000, 201}, {10000, 101}, {100000, 21}, {1000000, 5}, {10000000, 3}};
    size_t count = sizeof sizes / sizeof sizes[0] - (is_quick ? 1 : 0);
    ferry_engine *engine = bench_engine_open(NULL);
    ferry_future **window = bench_alloc(LIVE_MAX * sizeof(*window));
    double least_ns = 0;
    double most_ns = 0;
    (void)total_ns(engine, window, 100000);
    for (size_t i = 0; i < count; i++) {
        bench_samples samples = {0};
        for (int k = 0; k < sizes[i].repeats; k++)
            bench_samples_add(&samples, total_ns(engine, window, sizes[i].nodes));
        char name[32];
        (void)snprintf(name, sizeof name, "total-%zu", sizes[i].nodes);
        bench_report((bench_key){"scale", name, "ns_per_node", ""}, &samples);
        double median = bench_samples_quantile(&samples, 0.5);
        least_ns = i == 0 || median < least_ns ? median : least_ns;
        most_ns = median > most_ns ? median : most_ns;
        bench_samples_free(&samples);
    }
    bench_report_value((bench_key){"scale", "total", "ratio", ""}, most_ns / least_ns);
    free(window);
    bench_engine_close(engine);
}

/* Held chains: all their nodes are alive and wait when the promise comes. */
static void run_live(bool is_quick)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.max_nodes = 2 * MANY_LIVE;
    ferry_engine *engine = bench_engine_open(&options);
    bench_samples few = {0};
    bench_samples many = {0};
    bench_samples ratio = {0};
    (void)bench_chain_ns(engine, MANY_LIVE, true);
    int rounds = is_quick ? 5 : 15;
    for (int round = 0; round < rounds; round++) {
        bench_samples of_round = {0};
        for (int k = 0; k < 20; k++) {
            double few_ns = (double)bench_chain_ns(engine, LIVE_MAX, true) / LIVE_MAX;
            bench_samples_add(&of_round, few_ns);
            bench_samples_add(&few, few_ns);
        }
        double many_ns = (double)bench_chain_ns(engine, MANY_LIVE, true) / MANY_LIVE;
        bench_samples_add(&many, many_ns);
        bench_samples_add(&ratio, many_ns / bench_samples_quantile(&of_round, 0.5));
        bench_samples_free(&of_round);
    }
    bench_report((bench_key){"scale", "live-10000", "ns_per_node", ""}, &few);
    bench_report((bench_key){"scale", "live-1000000", "ns_per_node", ""}, &many);
    bench_report((bench_key){"scale", "live", "ratio", ""}, &ratio);
    bench_samples_free(&few);
    bench_samples_free(&many);
    bench_samples_free(&ratio);
    bench_engine_close(engine);
}

typedef struct slices_case {
    ferry_engine *engine;
    ferry_buffer *target;
    ferry_buffer *source;
    bench_gate *gates;    /* GATES, new for each run */
    ferry_future **slots; /* SLICES */
} slices_case;

static void submit_slices(const slices_case *slices, size_t gate)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &slices->gates[gate].future;
    options.after_count = 1;
    for (size_t i = gate * SLICES_A_GATE; i < (gate + 1) * SLICES_A_GATE; i++)
        slices->slots[i] =
            ferry_copy(slices->engine, (ferry_span){slices->target, i * SLICE_BYTES, SLICE_BYTES},
                       (ferry_span){slices->source, i * SLICE_BYTES, SLICE_BYTES}, &options);
}

/*
 * The same SLICES copies behind the same GATES promises, either with all of them outstanding before
 * the first promise is resolved, or promise by promise, so that only SLICES_A_GATE are.
 */
static double slices_ns(const slices_case *slices, bool is_all_outstanding)
{
    for (size_t gate = 0; gate < GATES; gate++)
        slices->gates[gate] = bench_gate_create(slices->engine);
    int64_t start_ns = bench_now_ns();
    for (size_t gate = 0; gate < GATES && is_all_outstanding; gate++)
        submit_slices(slices, gate);
    for (size_t gate = 0; gate < GATES; gate++) {
        if (!is_all_outstanding)
            submit_slices(slices, gate);
        bench_gate_open(&slices->gates[gate]);
        for (size_t i = gate * SLICES_A_GATE; i < (gate + 1) * SLICES_A_GATE; i++)
            bench_finish(slices->slots[i]);
    }
    int64_t end_ns = bench_now_ns();
    for (size_t gate = 0; gate < GATES; gate++)
        bench_gate_release(&slices->gates[gate]);
    return (double)(end_ns - start_ns) / SLICES;
}

static void run_slices(bool is_quick)
{
    slices_case slices = {.engine = bench_engine_open(NULL)};
    slices.source = bench_buffer(slices.engine, "host:0", (size_t)SLICES * SLICE_BYTES, 1);
    slices.target = bench_buffer(slices.engine, "host:1", (size_t)SLICES * SLICE_BYTES, 0);
    slices.gates = bench_alloc(GATES * sizeof *slices.gates);
    slices.slots = bench_alloc(SLICES * sizeof(*slices.slots));
    bench_samples few = {0};
    bench_samples many = {0};
    bench_samples ratio = {0};
    int rounds = is_quick ? 15 : 61;
    for (int round = -2; round < rounds; round++) {
        double few_ns = slices_ns(&slices, false);
        double many_ns = slices_ns(&slices, true);
        if (round < 0)
            continue; /* warm-up */
        bench_samples_add(&few, few_ns);
        bench_samples_add(&many, many_ns);
        bench_samples_add(&ratio, many_ns / few_ns);
    }
    bench_report((bench_key){"scale", "slices-10", "ns_per_node", ""}, &few);
    bench_report((bench_key){"scale", "slices-10000", "ns_per_node", ""}, &many);
    bench_report((bench_key){"scale", "slices", "ratio", ""}, &ratio);
    bench_samples_free(&few);
    bench_samples_free(&many);
    bench_samples_free(&ratio);
    free(slices.gates);
    free(slices.slots);
    ferry_buffer_release(slices.source);
    ferry_buffer_release(slices.target);
    bench_engine_close(slices.engine);
}

typedef ferry_access access_fn(ferry_buffer *buffer, size_t i, size_t n);

static ferry_access access_of(ferry_buffer *buffer, size_t begin, size_t end,
                              ferry_access_mode mode)
{
    return (ferry_access){{buffer, begin * SLICE_BYTES, (end - begin) * SLICE_BYTES}, mode};
}

static ferry_access growing(ferry_buffer *buffer, size_t i, size_t n)
{
    (void)n;
    return access_of(buffer, 0, i + 1, FERRY_READ);
}

static ferry_access reads_then_writes(ferry_buffer *buffer, size_t i, size_t n)
{
    return i < n / 2 ? access_of(buffer, 0, n, FERRY_READ)
                     : access_of(buffer, i - n / 2, i - n / 2 + 1, FERRY_WRITE);
}

static ferry_access writes_then_reads(ferry_buffer *buffer, size_t i, size_t n)
{
    return i < n / 2 ? access_of(buffer, i, i + 1, FERRY_WRITE)
                     : access_of(buffer, 0, n, FERRY_READ);
}

static ferry_access staircase(ferry_buffer *buffer, size_t i, size_t n)
{
    return i < n / 2 ? access_of(buffer, 0, i + 1, FERRY_READ)
                     : access_of(buffer, n - 1 - i, n - i, FERRY_WRITE);
}

/* The same for each n; the mode and the span are no function of each other. */
static ferry_access random_spans(ferry_buffer *buffer, size_t i, size_t n)
{
    uint64_t bits = (i + 1) * 0x9e3779b97f4a7c15u;
    bits = (bits ^ (bits >> 29)) * 0xbf58476d1ce4e5b9u;
    size_t left = (bits >> 8) % n, right = (bits >> 36) % n;
    return access_of(buffer, left < right ? left : right, (left < right ? right : left) + 1,
                     (bits >> 5) % 2 == 0 ? FERRY_READ : FERRY_WRITE);
}

/* From the first submit until all have resolved, for each of them. */
static double overlaps_ns(ferry_engine *engine, ferry_buffer *buffer, ferry_future **slots,
                          access_fn *access, size_t n)
{
    bench_gate gate = bench_gate_create(engine);
    int64_t start_ns = bench_now_ns();
    for (size_t i = 0; i < n; i++) {
        ferry_access one = access(buffer, i, n);
        ferry_op_options options = FERRY_OP_OPTIONS_INIT;
        options.after = &gate.future;
        options.after_count = 1;
        options.accesses = &one;
        options.access_count = 1;
        slots[i] = ferry_nop(engine, &options);
    }
    bench_gate_open(&gate);
    for (size_t i = 0; i < n; i++)
        bench_finish(slots[i]);
    int64_t end_ns = bench_now_ns();
    bench_gate_release(&gate);
    return (double)(end_ns - start_ns) / (double)n;
}

static void run_overlaps(bool is_quick)
{
    static const struct {
        const char *name;
        access_fn *access;
    } patterns[] = {{"growing", growing},
                    {"reads-then-writes", reads_then_writes},
                    {"writes-then-reads", writes_then_reads},
                    {"staircase", staircase},
                    {"random", random_spans}};
    ferry_engine *engine = bench_engine_open(NULL);
    ferry_buffer *buffer =
        bench_buffer(engine, "host:0", ((size_t)OVERLAPS_MANY + 1) * SLICE_BYTES, 0);
    ferry_future **slots = bench_alloc(OVERLAPS_MANY * sizeof(*slots));
    for (size_t p = 0; p < sizeof patterns / sizeof patterns[0]; p++) {
        bench_samples few = {0}, many = {0}, ratio = {0};
        for (int round = -1; round < (is_quick ? 5 : 21); round++) {
            double few_ns = 0, many_ns;
            for (int k = 0; k < OVERLAPS_MANY / OVERLAPS_FEW; k++)
                few_ns += overlaps_ns(engine, buffer, slots, patterns[p].access, OVERLAPS_FEW);
            few_ns /= OVERLAPS_MANY / OVERLAPS_FEW;
            many_ns = overlaps_ns(engine, buffer, slots, patterns[p].access, OVERLAPS_MANY);
            if (round < 0)
                continue; /* warm-up */
            bench_samples_add(&few, few_ns);
            bench_samples_add(&many, many_ns);
            bench_samples_add(&ratio, many_ns / few_ns);
        }
        char name[48];
        (void)snprintf(name, sizeof name, "overlaps-%s-%d", patterns[p].name, OVERLAPS_FEW);
        bench_report((bench_key){"scale", name, "ns_per_node", ""}, &few);
        (void)snprintf(name, sizeof name, "overlaps-%s-%d", patterns[p].name, OVERLAPS_MANY);
        bench_report((bench_key){"scale", name, "ns_per_node", ""}, &many);
        (void)snprintf(name, sizeof name, "overlaps-%s", patterns[p].name);
        bench_report((bench_key){"scale", name, "ratio", ""}, &ratio);
        bench_samples_free(&few);
        bench_samples_free(&many);
        bench_samples_free(&ratio);
    }
    free(slots);
    ferry_buffer_release(buffer);
    bench_engine_close(engine);
}

void bench_scale(bool is_quick)
{
    run_totals(is_quick);
    run_live(is_quick);
    run_slices(is_quick);
    run_overlaps(is_quick);
}
