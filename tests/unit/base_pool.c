/* SPDX-License-Identifier: Apache-2.0 */
/* Pools: the bound is true whatever lies in caches, and who was refused is told of room. */
#include "base/pool.h"
#include "tests/support/failing_allocator.h"

#include <criterion/criterion.h>

TestSuite(base_pool, .timeout = 60);

enum { OBJECT_BYTES = 100, SLOTS_MAX = 8192, CACHES_MAX = 40 };

/* In its caches, and of what it is making. */
#define KEPT_BY_A_THREAD(pool)                                                                     \
    (fry_pool_is_exact(&(pool)) ? 0                                                                \
                                : 2 * ((uint64_t)(pool).magazine_slots + 1) + (pool).chunk_slots)

typedef struct fixture {
    failing_allocator allocator;
    fry_memory memory;
    fry_pool pool;
    fry_pool_cache caches[CACHES_MAX];
    void *slots[SLOTS_MAX];
    size_t count; /* in use */
    int news;
} fixture;

static void count_news(void *arg)
{
    (*(int *)arg)++;
}

static fixture *open_fixture(uint64_t limit, size_t cache_count)
{
    static fixture f;
    f = (fixture){0};
    failing_allocator_init(&f.allocator);
    ferry_allocator interface = failing_allocator_interface(&f.allocator);
    fry_memory_init(&f.memory, &interface);
    fry_pool_open(&f.pool, &f.memory, OBJECT_BYTES, limit);
    f.pool.news = (fry_pool_news){count_news, &f.news};
    for (size_t i = 0; i < cache_count; i++)
        fry_pool_add_cache(&f.pool);
    return &f;
}

static void close_fixture(fixture *f)
{
    fry_pool_close(&f->pool);
    cr_assert_eq(failing_allocator_live_bytes(&f->allocator), 0);
}

/* False: refused, for the bound. */
static bool take(fixture *f, size_t cache)
{
    ferry_status status = FERRY_OK;
    void *slot = fry_pool_take_or_grow(&f->pool, &f->caches[cache], &status);
    if (slot == NULL) {
        cr_assert_eq(status, FERRY_E_AGAIN);
        return false;
    }
    memset(slot, 0xa5, OBJECT_BYTES);
    cr_assert_lt(f->count, SLOTS_MAX);
    f->slots[f->count++] = slot;
    return true;
}

static void give(fixture *f, size_t cache)
{
    cr_assert_gt(f->count, 0);
    fry_pool_give(&f->pool, &f->caches[cache], f->slots[--f->count]);
}

static void take_many(fixture *f, size_t cache, size_t count)
{
    for (size_t i = 0; i < count; i++)
        cr_assert(take(f, cache), "refused with %zu in use", f->count);
}

static void give_many(fixture *f, size_t cache, size_t count)
{
    for (size_t i = 0; i < count; i++)
        give(f, cache);
}

static size_t take_all(fixture *f, size_t cache)
{
    while (take(f, cache))
        continue;
    return f->count;
}

/* Leaves as much as it can in each cache but the first. */
static void stuff_caches(fixture *f, uint64_t limit, size_t cache_count)
{
    for (size_t i = 1; i < cache_count; i++) {
        take_many(f, i, limit);
        give_many(f, i, limit);
    }
}

/* ---- the bound ---- */

Test(base_pool, a_small_bound_is_exact_whatever_other_threads_did)
{
    static const uint64_t limits[] = {1, 2, 16, 63, 64, 65, 100, 1000, FRY_POOL_EXACT_BELOW - 1};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        fixture *f = open_fixture(limits[i], 8);
        stuff_caches(f, limits[i], 8);
        cr_assert_eq(take_all(f, 0), limits[i], "%zu of %llu", f->count,
                     (unsigned long long)limits[i]);
        close_fixture(f);
    }
}

Test(base_pool, a_larger_bound_is_there_beside_what_caches_hold)
{
    static const uint64_t limits[] = {FRY_POOL_EXACT_BELOW, 2000, 4096};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        fixture *f = open_fixture(limits[i], CACHES_MAX);
        stuff_caches(f, limits[i], CACHES_MAX);
        uint64_t most = limits[i] + CACHES_MAX * KEPT_BY_A_THREAD(f->pool);
        cr_assert_geq(take_all(f, 0), limits[i]);
        cr_assert_leq(f->count, most);
        cr_assert_eq(f->pool.made, most);
        close_fixture(f);
    }
}

/* Random threads take and give: a refusal with fewer than `limit` in use is a lie. */
Test(base_pool, no_refusal_below_the_bound)
{
    static const uint64_t limits[] = {5, 64, 700, 1024, 1500};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        fixture *f = open_fixture(limits[i], 8);
        unsigned seed = 1;
        for (int round = 0; round < 200000; round++) {
            size_t cache = (size_t)rand_r(&seed) % 8;
            bool is_rising = round / 3000 % 2 == 0;
            if (f->count == 0 || (unsigned)rand_r(&seed) % 10 < (is_rising ? 7 : 3))
                cr_assert(take(f, cache) || f->count >= limits[i], "refused with %zu in use",
                          f->count);
            else
                give(f, cache);
        }
        close_fixture(f);
    }
}

Test(base_pool, a_reserve_that_fails_leaves_what_it_found_to_others)
{
    static const uint64_t limits[] = {100, 2000};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        fixture *f = open_fixture(limits[i], 2);
        uint64_t made = limits[i] + 2 * KEPT_BY_A_THREAD(f->pool);
        cr_assert_eq(fry_pool_reserve(&f->pool, &f->caches[0], made + 7, true), FERRY_E_AGAIN);
        cr_assert_eq(f->caches[0].missing, 7);
        cr_assert_eq(fry_pool_reserve(&f->pool, &f->caches[1], made, true), FERRY_OK);
        take_many(f, 1, made);
        cr_assert_not(take(f, 0));
        close_fixture(f);
    }
}

/* ---- room ---- */

Test(base_pool, who_was_not_refused_has_room)
{
    fixture *f = open_fixture(10, 1);
    cr_assert_eq(fry_pool_look(&f->pool), FRY_POOL_NOT_REFUSED);
    close_fixture(f);
}

Test(base_pool, news_comes_with_the_last_slot_that_was_missing)
{
    fixture *f = open_fixture(100, 2);
    take_many(f, 0, 100);
    cr_assert_not(take(f, 0));
    fry_pool_refused(&f->pool, 7);
    cr_assert_eq(fry_pool_look(&f->pool), FRY_POOL_NO_ROOM);
    give_many(f, 1, 6);
    cr_assert_eq(f->news, 0);
    cr_assert_eq(fry_pool_look(&f->pool), FRY_POOL_NO_ROOM);
    give(f, 0);
    cr_assert_eq(f->news, 1);
    cr_assert_eq(fry_pool_look(&f->pool), FRY_POOL_ROOM);
    give_many(f, 0, 50);
    cr_assert_eq(f->news, 1, "once is enough");
    fry_pool_forget_refusals(&f->pool);
    fry_pool_rest(&f->pool);
    cr_assert_eq(fry_pool_look(&f->pool), FRY_POOL_NOT_REFUSED);
    close_fixture(f);
}

Test(base_pool, nobody_is_told_who_does_not_want_to_know)
{
    fixture *f = open_fixture(10, 1);
    take_many(f, 0, 10);
    fry_pool_refused(&f->pool, 2);
    give_many(f, 0, 5);
    cr_assert_eq(f->news, 0);
    cr_assert_eq(fry_pool_look(&f->pool), FRY_POOL_ROOM, "it is there all the same");
    close_fixture(f);
}

Test(base_pool, the_least_that_one_lacked_counts)
{
    fixture *f = open_fixture(100, 1);
    take_many(f, 0, 100);
    fry_pool_refused(&f->pool, 50);
    fry_pool_refused(&f->pool, 3);
    fry_pool_refused(&f->pool, 90);
    cr_assert_eq(fry_pool_look(&f->pool), FRY_POOL_NO_ROOM);
    give_many(f, 0, 2);
    cr_assert_eq(f->news, 0);
    give(f, 0);
    cr_assert_eq(f->news, 1);
    cr_assert_eq(fry_pool_look(&f->pool), FRY_POOL_ROOM);
    close_fixture(f);
}

/* What others take meanwhile makes the news early, never late, and never twice for nothing. */
Test(base_pool, news_that_is_early_is_followed_by_more)
{
    fixture *f = open_fixture(100, 2);
    take_many(f, 0, 100);
    fry_pool_refused(&f->pool, 4);
    cr_assert_eq(fry_pool_look(&f->pool), FRY_POOL_NO_ROOM);
    give_many(f, 0, 3);
    take_many(f, 1, 2);
    give(f, 0);
    cr_assert_eq(f->news, 1, "four were given");
    cr_assert_eq(fry_pool_look(&f->pool), FRY_POOL_NO_ROOM, "but two are there");
    give(f, 0);
    cr_assert_eq(f->news, 1);
    give(f, 0);
    cr_assert_eq(f->news, 2);
    cr_assert_eq(fry_pool_look(&f->pool), FRY_POOL_ROOM);
    close_fixture(f);
}

/* With magazines in the depot: slots count, not magazines; and what caches hold does not matter. */
Test(base_pool, a_larger_pool_has_room_once_so_many_are_free)
{
    enum { LIMIT = 4096, LACKED = 1000 };
    fixture *f = open_fixture(LIMIT, 4);
    stuff_caches(f, LIMIT, 4);
    (void)take_all(f, 0);
    fry_pool_refused(&f->pool, LACKED);
    cr_assert_eq(fry_pool_look(&f->pool), FRY_POOL_NO_ROOM);
    bool has_room = false;
    while (!has_room) {
        cr_assert_gt(f->count, LIMIT - LACKED, "free for as many, and nobody is told");
        int before = f->news;
        give(f, f->count % 4);
        if (f->news != before)
            has_room = fry_pool_look(&f->pool) == FRY_POOL_ROOM;
    }
    cr_assert_leq(f->news, 3);
    take_many(f, 0, LACKED);
    close_fixture(f);
}

Test(base_pool, slots_that_may_still_be_made_are_room)
{
    fixture *f = open_fixture(100, 1);
    take_many(f, 0, 10);
    fry_pool_refused(&f->pool, 20);
    cr_assert_eq(fry_pool_look(&f->pool), FRY_POOL_ROOM);
    close_fixture(f);
}

Test(base_pool, another_thread_raises_the_bound_and_that_is_news)
{
    enum { LIMIT = 2048 };
    fixture *f = open_fixture(LIMIT, 1);
    (void)take_all(f, 0);
    fry_pool_refused(&f->pool, 1);
    cr_assert_eq(fry_pool_look(&f->pool), FRY_POOL_NO_ROOM);
    fry_pool_add_cache(&f->pool);
    cr_assert_eq(f->news, 1);
    cr_assert_eq(fry_pool_look(&f->pool), FRY_POOL_ROOM);
    cr_assert(take(f, 0));
    close_fixture(f);
}

/* Room that one claims under the bound and finds no memory for is free again, which is news. */
static fixture *growing;

static void *look_while_growing(void *arg, size_t size_bytes, size_t align_bytes)
{
    ferry_allocator inner = failing_allocator_interface(arg);
    if (growing != NULL) {
        fry_pool_refused(&growing->pool, 1);
        cr_assert_eq(fry_pool_look(&growing->pool), FRY_POOL_NO_ROOM);
    }
    return inner.alloc(inner.arg, size_bytes, align_bytes);
}

Test(base_pool, room_that_no_memory_was_found_for_is_news)
{
    fixture *f = open_fixture(64, 1);
    f->memory.allocator.alloc = look_while_growing;
    growing = f;
    failing_allocator_arm(&f->allocator, 1, false);
    ferry_status status = FERRY_OK;
    cr_assert_null(fry_pool_take_or_grow(&f->pool, &f->caches[0], &status));
    cr_assert_eq(status, FERRY_E_NO_MEMORY);
    cr_assert_eq(f->news, 1);
    growing = NULL;
    cr_assert_eq(fry_pool_look(&f->pool), FRY_POOL_ROOM);
    close_fixture(f);
}
