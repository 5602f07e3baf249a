/* SPDX-License-Identifier: Apache-2.0 */
/* A post as it is under way, and the memory of those that are over: post.c has what they do. */
#ifndef FRY_ENGINE_PLANS_POST_MEMORY_H
#define FRY_ENGINE_PLANS_POST_MEMORY_H

#include "engine/graph/node.h"
#include "engine/plans/plan.h"

struct fry_plan_post {
    fry_link link; /* plan->spare */
    ferry_plan *plan;
    const fry_plan_order *order;
    TAILQ_HEAD(fry_plan_parts, fry_node)
    parts;          /* have begun and are not quiet; those that have ended last */
    fry_queue made; /* parts that have not begun, in the order of `line` */
    uint32_t left;  /* steps that are not over; with an order, unpicked ones too */
    uint32_t open;  /* `parts` */
    uint32_t alone; /* of these, those that end by themselves */
    bool has_picks, is_going, has_failed;

    /* Steps that may begin: the next is the first of the line. */
    uint32_t first, behind;
    uint32_t *line;    /* NULL: each number itself */
    uint32_t *waits;   /* with an order: for how many others a step still waits */
    uint64_t *picked;  /* a bit for each operation */
    uint32_t *numbers; /* two for each operation: the memory of line and waits */
};

/* Takes the memory of a post that is over, or new memory; no bit is picked. NULL: none. Any thread.
 */
fry_plan_post *fry_plan_post_take(ferry_plan *plan);

/* Any thread, also with the baton. */
void fry_plan_post_give(ferry_plan *plan, fry_plan_post *post);

/* Frees the plan's posts that are over, which are all. */
void fry_plan_posts_free(ferry_plan *plan);

#endif
