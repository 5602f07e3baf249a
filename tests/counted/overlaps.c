/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What operations cost whose accesses of one buffer overlap, in elementary steps with the baton (an
 * edge, an entry of a list) and in memory. Four times as many may take somewhat more than four
 * times of both; a cost that grows with the square of their number takes sixteen times as much. And
 * no holding of the baton has more steps than a fraction of a millisecond, whatever is submitted.
 *
 * Linked with an engine/graph/turn.c that counts.
 */
#include "engine/graph/buffer.h"
#include "engine/graph/node.h"
#include "tests/support/api_test.h"

#include <stdlib.h>

extern uint64_t fry_steps_in_all, fry_steps_at_most;

TestSuite(overlaps, .timeout = 10 * HANG_S);

enum { FEW = 500, MANY = 4 * FEW, GRAIN = 64, BYTES = (MANY + 2) * GRAIN };
#define MEMORY_MOST 7.0
#define STEPS_MOST 7.0
#define STEPS_EACH 200.0
/* What begins before a holding's steps are spent ends: a node's edges, in and out, and a piece. */
#define MOST_STEPS_HELD (4096 + 2 * 1024 + 1024 + 256)

/* The access of the i-th of n operations. */
typedef ferry_access access_fn(ferry_buffer *buffer, size_t i, size_t n, unsigned *seed);

static ferry_access access_of(ferry_buffer *buffer, size_t begin, size_t end,
                              ferry_access_mode mode)
{
    return (ferry_access){span_of(buffer, begin * GRAIN, (end - begin) * GRAIN), mode};
}

static ferry_access random_access(ferry_buffer *buffer, size_t n, ferry_access_mode mode,
                                  unsigned *seed)
{
    size_t left = (size_t)rand_r(seed) % n, right = (size_t)rand_r(seed) % n;
    return left < right ? access_of(buffer, left, right + 1, mode)
                        : access_of(buffer, right, left + 1, mode);
}

static ferry_access small_access(ferry_buffer *buffer, size_t at, ferry_access_mode mode)
{
    return access_of(buffer, at, at + 1, mode);
}

static ferry_access whole_access(ferry_buffer *buffer, size_t n, ferry_access_mode mode)
{
    return access_of(buffer, 0, n, mode);
}

/* ---- one after the other ---- */

static ferry_access growing_reads(ferry_buffer *buffer, size_t i, size_t n, unsigned *seed)
{
    (void)n, (void)seed;
    return access_of(buffer, 0, i + 1, FERRY_READ);
}

static ferry_access shrinking_reads(ferry_buffer *buffer, size_t i, size_t n, unsigned *seed)
{
    (void)seed;
    return access_of(buffer, i, n, FERRY_READ);
}

static ferry_access random_reads(ferry_buffer *buffer, size_t i, size_t n, unsigned *seed)
{
    (void)i;
    return random_access(buffer, n, FERRY_READ, seed);
}

static ferry_access sliding_reads(ferry_buffer *buffer, size_t i, size_t n, unsigned *seed)
{
    (void)seed;
    size_t end = i + n / 4 < n ? i + n / 4 : n;
    return access_of(buffer, i, end > i ? end : i + 1, FERRY_READ);
}

static ferry_access reads_of_one_span(ferry_buffer *buffer, size_t i, size_t n, unsigned *seed)
{
    (void)seed;
    return whole_access(buffer, n, i + 1 < n ? FERRY_READ : FERRY_WRITE);
}

static ferry_access random_writes(ferry_buffer *buffer, size_t i, size_t n, unsigned *seed)
{
    (void)i;
    return random_access(buffer, n, FERRY_WRITE, seed);
}

static ferry_access growing_writes(ferry_buffer *buffer, size_t i, size_t n, unsigned *seed)
{
    (void)n, (void)seed;
    return access_of(buffer, 0, i + 1, FERRY_WRITE);
}

static ferry_access shrinking_writes(ferry_buffer *buffer, size_t i, size_t n, unsigned *seed)
{
    (void)seed;
    return access_of(buffer, i, n, FERRY_WRITE);
}

/* ---- crowds: first half and second half, or by turns ---- */

static ferry_access wide_reads_then_small_writes(ferry_buffer *buffer, size_t i, size_t n,
                                                 unsigned *seed)
{
    (void)seed;
    return 2 * i < n ? whole_access(buffer, n, FERRY_READ)
                     : small_access(buffer, 2 * i - n, FERRY_WRITE);
}

static ferry_access small_writes_then_wide_reads(ferry_buffer *buffer, size_t i, size_t n,
                                                 unsigned *seed)
{
    (void)seed;
    return 2 * i < n ? small_access(buffer, 2 * i, FERRY_WRITE)
                     : whole_access(buffer, n, FERRY_READ);
}

static ferry_access growing_reads_then_writes_behind_them(ferry_buffer *buffer, size_t i, size_t n,
                                                          unsigned *seed)
{
    (void)seed;
    return 2 * i < n ? access_of(buffer, 0, 2 * i + 1, FERRY_READ)
                     : small_access(buffer, 2 * i - n, FERRY_WRITE);
}

static ferry_access growing_reads_then_writes_from_the_end(ferry_buffer *buffer, size_t i, size_t n,
                                                           unsigned *seed)
{
    (void)seed;
    return 2 * i < n ? access_of(buffer, 0, 2 * i + 1, FERRY_READ)
                     : small_access(buffer, 2 * n - 2 * i - 1, FERRY_WRITE);
}

static ferry_access random_reads_then_small_writes(ferry_buffer *buffer, size_t i, size_t n,
                                                   unsigned *seed)
{
    return 2 * i < n ? random_access(buffer, n, FERRY_READ, seed)
                     : small_access(buffer, (size_t)rand_r(seed) % n, FERRY_WRITE);
}

static ferry_access small_writes_then_random_reads(ferry_buffer *buffer, size_t i, size_t n,
                                                   unsigned *seed)
{
    return 2 * i < n ? small_access(buffer, (size_t)rand_r(seed) % n, FERRY_WRITE)
                     : random_access(buffer, n, FERRY_READ, seed);
}

static ferry_access wide_reads_and_small_writes(ferry_buffer *buffer, size_t i, size_t n,
                                                unsigned *seed)
{
    return i % 2 == 0 ? whole_access(buffer, n, FERRY_READ)
                      : small_access(buffer, (size_t)rand_r(seed) % n, FERRY_WRITE);
}

static ferry_access random_reads_and_small_writes(ferry_buffer *buffer, size_t i, size_t n,
                                                  unsigned *seed)
{
    return i % 2 == 0 ? random_access(buffer, n, FERRY_READ, seed)
                      : small_access(buffer, (size_t)rand_r(seed) % n, FERRY_WRITE);
}

static ferry_access crowds_of_reads_and_small_writes(ferry_buffer *buffer, size_t i, size_t n,
                                                     unsigned *seed)
{
    return i % 18 != 17 ? random_access(buffer, n, FERRY_READ, seed)
                        : small_access(buffer, (size_t)rand_r(seed) % n, FERRY_WRITE);
}

static ferry_access anything(ferry_buffer *buffer, size_t i, size_t n, unsigned *seed)
{
    (void)i;
    ferry_access_mode mode = (ferry_access_mode)(1 + rand_r(seed) % 3);
    return rand_r(seed) % 2 == 0 ? random_access(buffer, n, mode, seed)
                                 : small_access(buffer, (size_t)rand_r(seed) % n, mode);
}

/* ---- counting ---- */

typedef struct cost {
    double steps;
    double memory_bytes;
} cost;

static ferry_future *all[MANY];

static ferry_future *submit(const test_engine *te, const ferry_access *accesses, size_t count,
                            ferry_future *const *after, size_t after_count)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = after;
    options.after_count = after_count;
    options.accesses = accesses;
    options.access_count = count;
    return ferry_nop(te->engine, &options);
}

/* All wait for one promise, so all are there at once; then it is resolved, with that status. */
static cost cost_of(access_fn *access, size_t n, ferry_status status)
{
    test_engine te;
    unsigned seed = 1;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_buffer *buffer = test_buffer(&te, 0, BYTES, 0);
    ferry_promise *promise = test_promise(&te);
    ferry_future *after = ferry_promise_future(promise);
    int64_t bytes = failing_allocator_live_bytes(&te.memory);
    fry_steps_in_all = fry_steps_at_most = 0;
    for (size_t i = 0; i < n; i++) {
        ferry_access one = access(buffer, i, n, &seed);
        all[i] = submit(&te, &one, 1, &after, 1);
    }
    settle(&te);
    bytes = failing_allocator_live_bytes(&te.memory) - bytes;
    keep_promise(promise, status);
    settle(&te);
    cost found = {.steps = (double)(fry_steps_in_all + n), .memory_bytes = (double)bytes};
    cr_assert_leq(fry_steps_at_most, MOST_STEPS_HELD);
    for (size_t i = 0; i < n; i++)
        ASSERT_STATUS(status_of(all[i]), status == FERRY_OK ? FERRY_OK : FERRY_E_DEPENDENCY);
    ferry_future_release(after);
    ferry_buffer_release(buffer);
    test_engine_close(&te);
    return found;
}

static void assert_no_square(access_fn *access)
{
    static const ferry_status statuses[] = {FERRY_OK, FERRY_E_FAILED};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        cost few = cost_of(access, FEW, statuses[i]);
        cost many = cost_of(access, MANY, statuses[i]);
        cr_assert_lt(many.memory_bytes, MEMORY_MOST * few.memory_bytes,
                     "%.0f bytes for %d, %.0f for %d", few.memory_bytes, FEW, many.memory_bytes,
                     MANY);
        cr_assert_lt(many.steps, STEPS_MOST * few.steps, "%.0f steps for %d, %.0f for %d",
                     few.steps, FEW, many.steps, MANY);
        cr_assert_lt(many.steps, STEPS_EACH * MANY, "%.0f steps for %d", many.steps, MANY);
    }
}

#define OVERLAPS_MAP(X)                                                                            \
    X(growing_reads)                                                                               \
    X(shrinking_reads)                                                                             \
    X(random_reads)                                                                                \
    X(sliding_reads)                                                                               \
    X(reads_of_one_span)                                                                           \
    X(random_writes)                                                                               \
    X(growing_writes)                                                                              \
    X(shrinking_writes)                                                                            \
    X(wide_reads_then_small_writes)                                                                \
    X(small_writes_then_wide_reads)                                                                \
    X(growing_reads_then_writes_behind_them)                                                       \
    X(growing_reads_then_writes_from_the_end)                                                      \
    X(random_reads_then_small_writes)                                                              \
    X(small_writes_then_random_reads)                                                              \
    X(wide_reads_and_small_writes)                                                                 \
    X(random_reads_and_small_writes)                                                               \
    X(crowds_of_reads_and_small_writes)                                                            \
    X(anything)

#define OVERLAPS_TEST_(name)                                                                       \
    Test(overlaps, name)                                                                           \
    {                                                                                              \
        assert_no_square(name);                                                                    \
    }
OVERLAPS_MAP(OVERLAPS_TEST_)

/* ---- large operations ---- */

enum { LARGE = 1 << 16, EDGES_MOST = 2048 };

static void end_large(test_engine *te, ferry_promise *promise, ferry_future *large)
{
    ASSERT_STATUS(ferry_future_poll(large), FERRY_PENDING);
    keep_promise(promise, FERRY_OK);
    settle(te);
    ASSERT_STATUS(status_of(large), FERRY_OK);
    cr_assert_geq(fry_steps_in_all, LARGE, "it is counted");
    cr_assert_leq(fry_steps_at_most, MOST_STEPS_HELD, "%lu", (unsigned long)fry_steps_at_most);
    test_engine_close(te);
}

static ferry_promise *begin_large(test_engine *te, ferry_future **after)
{
    test_engine_open(te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(te);
    *after = ferry_promise_future(promise);
    fry_steps_in_all = fry_steps_at_most = 0;
    return promise;
}

Test(overlaps, one_after_very_many)
{
    static ferry_future *after[LARGE];
    test_engine te;
    ferry_promise *promise = begin_large(&te, &after[0]);
    for (size_t i = 1; i < LARGE; i++)
        after[i] = after[0];
    ferry_future *large = submit(&te, NULL, 0, after, LARGE);
    size_t into = 0, out = 0;
    for (const fry_edge *edge = fry_node_of(large)->edges; edge != NULL; edge = edge->sibling)
        into++;
    for (const fry_edge *edge = fry_node_of(after[0])->successors; edge != NULL; edge = edge->next)
        out++;
    cr_assert_leq(into, EDGES_MOST, "%zu edges into it", into);
    cr_assert_leq(out, EDGES_MOST, "%zu edges out of the other", out);
    ferry_future_release(after[0]);
    end_large(&te, promise, large);
}

Test(overlaps, very_many_after_one)
{
    static ferry_future *behind[LARGE];
    ferry_future *after;
    test_engine te;
    ferry_promise *promise = begin_large(&te, &after);
    for (size_t i = 0; i < LARGE; i++)
        behind[i] = submit(&te, NULL, 0, &after, 1);
    ferry_future_release(after);
    for (size_t i = 1; i < LARGE; i++)
        ferry_future_release(behind[i]);
    end_large(&te, promise, behind[0]);
}

static void check_accesses(ferry_access_mode mode, bool reversed)
{
    static ferry_access accesses[LARGE];
    ferry_future *after;
    test_engine te;
    ferry_promise *promise = begin_large(&te, &after);
    ferry_buffer *buffer = test_buffer(&te, 0, 2 * LARGE, 0);
    for (size_t i = 0; i < LARGE; i++)
        accesses[reversed ? LARGE - 1 - i : i] =
            (ferry_access){span_of(buffer, 2 * i, reversed ? 2 : 1), mode};
    ferry_future *large = submit(&te, accesses, LARGE, &after, 1);
    ferry_access whole = {ferry_buffer_span(buffer), FERRY_WRITE};
    ferry_future *behind = submit(&te, &whole, 1, &after, 1);
    ferry_future_release(after);
    ferry_buffer_release(buffer);
    ferry_future_release(behind);
    end_large(&te, promise, large);
}

Test(overlaps, very_many_accesses_that_read)
{
    check_accesses(FERRY_READ, false);
}

Test(overlaps, very_many_accesses_that_write)
{
    check_accesses(FERRY_WRITE, false);
    check_accesses(FERRY_READ_WRITE, true);
}
