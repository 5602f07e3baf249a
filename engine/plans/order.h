/* SPDX-License-Identifier: Apache-2.0 */
/* In which order the steps of a plan begin, and what they touch together. */
#ifndef FRY_ENGINE_PLANS_ORDER_H
#define FRY_ENGINE_PLANS_ORDER_H

#include "base/memory.h"
#include "engine/ground/refusal.h"
#include "engine/plans/step.h"

/* In fry_plan_order.next: the step may go on once the other has begun; else, when it has ended. */
#define FRY_PLAN_AT_BEGIN (1u << 31)

/* Steps, and which of them wait for which. Plain, if none does: the tables are NULL then. */
typedef struct fry_plan_order {
    const fry_plan_step *steps;
    uint32_t count;
    uint32_t root_count;
    uint64_t wait_count;
    uint32_t *waits; /* of each step: for how many others it waits */
    uint32_t *roots; /* the steps that wait for none, in order */
    uint64_t *first; /* of each step: where its part of `next` begins; one more at the end */
    uint32_t *next;  /* steps that wait for it, with FRY_PLAN_AT_BEGIN */
} fry_plan_order;

/* What all of them touch, as one operation that reads what it has not written itself. */
typedef struct fry_plan_touch {
    ferry_access *accesses;
    size_t count;
} fry_plan_touch;

/*
 * Orders the steps, which stay where they are. touch_p: NULL, or receives what they touch.
 * FRY_TAKEN, FRY_REFUSED_NO_MEMORY or FRY_REFUSED_PLAN_OVERLAPS; only then nothing is held.
 */
fry_refusal fry_plan_order_make(const fry_memory *memory, const fry_plan_step *steps,
                                uint32_t count, fry_plan_order *order, fry_plan_touch *touch_p);
void fry_plan_order_free(const fry_memory *memory, fry_plan_order *order);
void fry_plan_touch_free(const fry_memory *memory, fry_plan_touch *touch);

#endif
