/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Posts that are over stand in a lock-free stack of their plan, until it is freed. So who pops may
 * read the next of one that another has taken meanwhile: the word is still there, as `link` is the
 * stack's alone, and a stale value makes the swap fail, since the count has grown. A push is
 * released by its swap, a full barrier, and acquired by the load of the top.
 */
#include "engine/plans/post_memory.h"

#include "base/lf.h"
#include "base/memory.h"
#include "engine/engine.h"

#include <string.h>

static size_t words_of(const ferry_plan *plan)
{
    return ((size_t)plan->count + 63) / 64;
}

/* Behind the post: the bits, then the numbers. */
static size_t post_bytes(const ferry_plan *plan)
{
    return sizeof(fry_plan_post) + words_of(plan) * sizeof(uint64_t) +
           2 * (size_t)plan->count * sizeof(uint32_t);
}

static fry_plan_post *make(const ferry_plan *plan)
{
    fry_plan_post *post =
        fry_alloc_raw(&plan->engine->memory, post_bytes(plan), _Alignof(fry_plan_post));
    if (post == NULL)
        return NULL;
    post->picked = (uint64_t *)(void *)(post + 1);
    post->numbers = (uint32_t *)(void *)(post->picked + words_of(plan));
    memset(post->picked, 0, words_of(plan) * sizeof *post->picked);
    return post;
}

static fry_plan_post *post_of(fry_link *link)
{
    return FRY_CONTAINER(link, fry_plan_post, link);
}

fry_plan_post *fry_plan_post_take(ferry_plan *plan)
{
    fry_counted_pointer top;
    fry_link *link;
    do {
        top = fry_counted_load(&plan->spare);
        link = top.pointer;
        if (link == NULL)
            return make(plan);
    } while (!fry_counted_cas(&plan->spare, top, fry_load_relaxed(&link->next)));
    return post_of(link);
}

void fry_plan_post_give(ferry_plan *plan, fry_plan_post *post)
{
    fry_counted_pointer top;
    if (post->has_picks)
        memset(post->picked, 0, words_of(plan) * sizeof *post->picked);
    do {
        top = fry_counted_load(&plan->spare);
        fry_store_relaxed(&post->link.next, top.pointer);
    } while (!fry_counted_cas(&plan->spare, top, &post->link)); /* pairs with the load in take */
}

void fry_plan_posts_free(ferry_plan *plan)
{
    fry_link *link = plan->spare.pointer; /* nobody else knows the plan any more */
    while (link != NULL) {
        fry_link *next = link->next;
        fry_free(&plan->engine->memory, post_of(link), post_bytes(plan));
        link = next;
    }
}
