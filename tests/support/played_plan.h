/* SPDX-License-Identifier: Apache-2.0 */
/* A random plan that a program plays on an engine, and what was seen of it, for the oracle. */
#ifndef FERRY_TESTS_PLAYED_PLAN_H
#define FERRY_TESTS_PLAYED_PLAN_H

#include "tests/support/graph_oracle.h"

#include <ferry/ferry.h>
#include <stdatomic.h>

typedef struct played_op {
    uint32_t index;
    ferry_future *future; /* NULL: none, or collected */
    ferry_promise *promise;
    ferry_future *after[PLAN_AFTER_MAX]; /* held, to see that they resolved first */
    uint32_t after_count;
    uint32_t planned_after_count; /* of the plan's, how many have been looked at */
    atomic_uint runs;             /* how often the function was called */

    /* Of the program's that has them. */
    uint32_t event; /* it is one: its number plus 1 */
    ferry_waiter waiter;
    bool is_waited;       /* the waiter was registered and not removed */
    atomic_uint fired;    /* how often it was called */
    atomic_uint too_soon; /* it ran before what it is after */
    bool is_over;         /* its batch was seen to be cancelled: it does not begin any more */
    uint32_t runs_then;   /* is_over: how often its function had been called */
} played_op;

typedef struct played_plan {
    random_plan plan;
    plan_outcome outcomes[PLAN_OPS_MAX];
    played_op ops[PLAN_OPS_MAX];
    ferry_engine *engine;
    ferry_buffer *buffers[PLAN_BUFFERS_MAX];
    unsigned char *memory[PLAN_BUFFERS_MAX]; /* the bytes */
    bool is_mine[PLAN_BUFFERS_MAX]; /* private, taken back: it holds what the program wrote */

    /* The program's: when a deadline is, where functions run, and the function, of a played_op. */
    int64_t (*deadline_ns)(const plan_op *op);
    ferry_executor *(*executor_of)(plan_executor executor);
    ferry_call_fn call;
} played_plan;

ferry_span played_span(const played_plan *played, plan_span span);

/* The first `count` of what it is after, and no more of what was held before. Ops that are absent
 * are left out. */
void played_hold_after(played_plan *played, uint32_t index, uint32_t count);

/* NULL: a definition, or it could not be submitted; then the outcome has the status. */
ferry_future *played_submit(played_plan *played, uint32_t index);

/* The ops from `first` on, and the batch they are in, which is `index`. */
void played_submit_batch(played_plan *played, uint32_t first, uint32_t index);

/* Notes what became of an op that has resolved, and gives its handles back. */
void played_collect(played_plan *played, uint32_t index);

/* False: the oracle's op and why say what is not as it must be. What the program took back nothing
 * of ferry's has touched since. */
bool played_check(const played_plan *played, graph_oracle *oracle);

#endif
