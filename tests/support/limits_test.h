/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests of limits: engines with little room, and taking all there is. */
#ifndef FERRY_TESTS_LIMITS_TEST_H
#define FERRY_TESTS_LIMITS_TEST_H

#include "tests/support/api_test.h"

enum { FEW = 16, MANY = 8192 };

typedef struct promises {
    ferry_promise *list[MANY];
    size_t count;
} promises;

static inline promises *no_promises(void)
{
    static promises all;
    all.count = 0;
    return &all;
}

/* Takes every node there is; gives how many. */
static inline size_t take_all_nodes(const test_engine *te, promises *all)
{
    ferry_status status;
    while ((status = ferry_promise_create(te->engine, &all->list[all->count])) == FERRY_OK) {
        all->count++;
        cr_assert_lt(all->count, MANY);
    }
    ASSERT_STATUS(status, FERRY_E_AGAIN);
    return all->count;
}

static inline void release_newest(promises *all)
{
    ferry_promise_release(all->list[--all->count]);
}

static inline void release_all(promises *all)
{
    while (all->count > 0)
        release_newest(all);
}

static inline void open_limited(test_engine *te, ferry_loop_mode loop, uint32_t max_nodes,
                                uint64_t max_edges, uint64_t max_accesses)
{
    ferry_engine_options options = test_engine_options(te, loop);
    options.max_nodes = max_nodes;
    options.max_edges = max_edges;
    options.max_accesses = max_accesses;
    test_engine_create(te, &options);
}

static inline ferry_future *nop_after_all(const test_engine *te, ferry_future *const *after,
                                          size_t count)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = after;
    options.after_count = count;
    return ferry_nop(te->engine, &options);
}

static inline ferry_status writable_now(const test_engine *te)
{
    settle(te);
    return status_of(ferry_engine_writable(te->engine));
}

/* Handles keep nodes; the last release comes from a thread that does nothing else. */
static inline void *release_elsewhere(void *arg)
{
    ferry_future_release(arg);
    return NULL;
}

#endif
