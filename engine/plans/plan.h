/* SPDX-License-Identifier: Apache-2.0 */
/* A plan: its steps in order, and posts that wait to be used again. */
#ifndef FRY_ENGINE_PLANS_PLAN_H
#define FRY_ENGINE_PLANS_PLAN_H

#include "base/lf.h"
#include "engine/plans/order.h"
#include "engine/plans/step.h"

#include <ferry/plan.h>
#include <ferry/stats.h>

/*
 * Unchanged once it is made, except for `references` and `spare`. Its handle holds a reference, and
 * so does each post that is under way.
 */
struct ferry_plan {
    ferry_engine *engine;
    uint32_t references;   /* atomic */
    uint32_t count;        /* operations */
    fry_plan_step *steps;  /* one for each; they hold what the plan holds */
    fry_plan_step *joined; /* neighbours joined; the same table, if none was */
    uint32_t joined_count;
    fry_plan_order each;               /* of the operations; empty, if it is that of `joined` */
    fry_plan_order whole;              /* of the joined ones */
    fry_graph *graph;                  /* of `joined`; NULL: they are begun one by one */
    fry_device *device;                /* whose it is */
    uint64_t by_way[FERRY_STATS_WAYS]; /* if there is a graph: bytes that it moves, by ferry_way */
    fry_plan_touch touch;              /* of all */
    ferry_buffer **buffers;            /* that `touch` names, each once */
    size_t buffer_count;
    uint64_t size_bytes;       /* that all move */
    bool is_inline;            /* all are copies that a thread with the baton does itself */
    fry_counted_pointer spare; /* posts that are over: post_memory.c */
};

/* The order of a post of all operations, or of some. */
static inline const fry_plan_order *fry_plan_order_of(const ferry_plan *plan, bool is_whole)
{
    return is_whole || plan->joined == plan->steps ? &plan->whole : &plan->each;
}

/* Gives a reference back. Any thread, also with the baton. */
void fry_plan_unretain(ferry_plan *plan);

#endif
