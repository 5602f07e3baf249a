/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pool.h"

#define CHUNK_SLOTS_MAX FRY_CACHE_LINE /* the count less one fits below a chunk's alignment */
#define CHUNK_COUNT_MASK ((uintptr_t)CHUNK_SLOTS_MAX - 1)
#define CACHE_SHARE 64 /* the part of the bound that a magazine or a chunk is at most */
#define MAGAZINE_COUNT_MASK ((uintptr_t)FRY_CACHE_LINE - 1) /* beside a pointer in `below` */
#define LOOKS 8 /* at a depot that others change, before the look is put off */

void fry_pool_open(fry_pool *pool, const fry_memory *memory, size_t object_bytes, uint64_t limit)
{
    size_t bytes = object_bytes + sizeof(fry_pool_words);
    size_t slot_bytes = (bytes + FRY_CACHE_LINE - 1) / FRY_CACHE_LINE * FRY_CACHE_LINE;
    *pool = (fry_pool){
        .memory = memory, .slot_bytes = slot_bytes, .limit = limit, .chunk_slots = CHUNK_SLOTS_MAX};
    if (limit < FRY_POOL_EXACT_BELOW)
        return;
    if (limit / CACHE_SHARE < CHUNK_SLOTS_MAX)
        pool->chunk_slots = (uint32_t)(limit / CACHE_SHARE);
    uint64_t room = (slot_bytes - sizeof(fry_pool_words) - sizeof(fry_magazine)) / sizeof(void *);
    if (room > MAGAZINE_COUNT_MASK - 1) /* the magazine itself counts too */
        room = MAGAZINE_COUNT_MASK - 1;
    /* Caches hold up to two magazines each, so under a small bound magazines are small. */
    pool->magazine_slots = (uint32_t)(limit / CACHE_SHARE < room ? limit / CACHE_SHARE : room);
}

static fry_pool_words *words_of(const fry_pool *pool, void *slot)
{
    return (fry_pool_words *)(void *)((char *)slot + pool->slot_bytes) - 1;
}

static size_t chunk_bytes(const fry_pool *pool, uint64_t count)
{
    return count * pool->slot_bytes + sizeof(fry_pool_chunk_end);
}

static fry_pool_chunk_end *chunk_end(const fry_pool *pool, char *slots, uint64_t count)
{
    return (fry_pool_chunk_end *)(void *)(slots + count * pool->slot_bytes);
}

void fry_pool_close(fry_pool *pool)
{
    while (pool->chunks != 0) {
        char *chunk = (char *)(pool->chunks & ~CHUNK_COUNT_MASK); /* NOLINT */
        uint64_t count = (pool->chunks & CHUNK_COUNT_MASK) + 1;
        size_t size_bytes = chunk_bytes(pool, count);
        pool->chunks = chunk_end(pool, chunk, count)->before;
#if defined(__SANITIZE_ADDRESS__)
        __asan_unpoison_memory_region(chunk, size_bytes);
#endif
        fry_free(pool->memory, chunk, size_bytes);
    }
}

static fry_magazine *magazine_of(uintptr_t below)
{
    return (fry_magazine *)(below & ~MAGAZINE_COUNT_MASK); /* NOLINT */
}

static uint64_t slots_of(const fry_magazine *magazine)
{
    return magazine != NULL ? magazine->count + 1 : 0;
}

/* ---- the depot ---- */

/* Counts slots given while a refused user waits, and tells of room. Cold. */
static void tell_of(fry_pool *pool, uint64_t count)
{
    int64_t to_come = fry_fetch_sub(&pool->to_come, (int64_t)count);
    if (to_come > 0 && to_come <= (int64_t)count)
        pool->news.fn(pool->news.arg);
}

/*
 * Called after the read-modify-write that gave; pairs with the barriers in fry_pool_look. seq_cst,
 * so that it does not pass that (lf.h).
 */
static inline bool is_wanted(const fry_pool *pool)
{
    return fry_unlikely(fry_load_seq_cst(&pool->wanted) != 0);
}

/* Pushes magazines linked through `below`, up to `last`, which is last_slots slots. */
static inline void depot_push_chain(fry_pool *pool, fry_magazine *first, fry_magazine *last,
                                    uint64_t last_slots)
{
    uintptr_t *below = &words_of(pool, last)->below;
    fry_counted_pointer top;
    do {
        top = fry_counted_load(&pool->depot);
        fry_store_relaxed(below, (uintptr_t)top.pointer | (uintptr_t)last_slots);
    } while (!fry_counted_cas(&pool->depot, top, first)); /* pairs with depot_pop */
}

static void depot_push(fry_pool *pool, fry_magazine *magazine)
{
    uint64_t slots = slots_of(magazine); /* once pushed, any thread may take it */
    depot_push_chain(pool, magazine, magazine, slots);
    if (is_wanted(pool))
        tell_of(pool, slots);
}

static fry_magazine *depot_pop(fry_pool *pool)
{
    fry_counted_pointer top;
    uintptr_t below;
    do {
        top = fry_counted_load(&pool->depot);
        if (top.pointer == NULL)
            return NULL;
        below = fry_load_relaxed(&words_of(pool, top.pointer)->below);
    } while (!fry_counted_cas(&pool->depot, top, magazine_of(below)));
    return top.pointer;
}

/* ---- growing ---- */

/* Claims room under the bound, then makes a chunk of slots. */
static ferry_status chunk_create(fry_pool *pool, char **slots_p, uint64_t *count_p)
{
    uint64_t made = fry_load_relaxed(&pool->made);
    uint64_t count;
    do {
        uint64_t limit = fry_load_relaxed(&pool->limit);
        if (made >= limit)
            return FERRY_E_AGAIN;
        count = limit - made < pool->chunk_slots ? limit - made : pool->chunk_slots;
    } while (!fry_cas_weak(&pool->made, &made, made + count));

    char *slots = fry_alloc_raw(pool->memory, chunk_bytes(pool, count), FRY_CACHE_LINE);
    if (slots == NULL) {
        (void)fry_fetch_sub(&pool->made, count);
        if (is_wanted(pool))
            tell_of(pool, count);
        return FERRY_E_NO_MEMORY;
    }
    for (uint64_t i = 0; i < count; i++)
        fry_store_relaxed(&words_of(pool, slots + i * pool->slot_bytes)->below, 0);
    uintptr_t *before = &chunk_end(pool, slots, count)->before;
    *before = fry_load_relaxed(&pool->chunks);
    while (!fry_cas_weak(&pool->chunks, before, (uintptr_t)slots | (uintptr_t)(count - 1)))
        continue;
    *slots_p = slots;
    *count_p = count;
    return FERRY_OK;
}

/* Divides a chunk into magazines: one for the caller, the others for the depot. */
static ferry_status pool_grow(fry_pool *pool, fry_magazine **magazine_p)
{
    char *slots;
    uint64_t count;
    ferry_status status = chunk_create(pool, &slots, &count);
    if (status != FERRY_OK)
        return status;
    fry_magazine *first = NULL;
    while (count > 0) {
        fry_magazine *magazine = (fry_magazine *)(void *)slots;
        uint64_t listed = count - 1 < pool->magazine_slots ? count - 1 : pool->magazine_slots;
        magazine->count = listed;
        for (uint64_t i = 0; i < listed; i++) {
            void *slot = slots + (listed - i) * pool->slot_bytes; /* slots are taken from the end */
            magazine->slots[i] = slot;
            fry_pool_poison(pool, slot);
        }
        if (first == NULL)
            first = magazine;
        else
            depot_push(pool, magazine);
        slots += (listed + 1) * pool->slot_bytes;
        count -= listed + 1;
    }
    *magazine_p = first;
    return FERRY_OK;
}

/* ---- a thread's cache ---- */

ferry_status fry_pool_refill(fry_pool *pool, fry_pool_cache *cache, bool may_grow)
{
    fry_magazine *magazine = cache->spare;
    if (magazine != NULL) {
        cache->spare = NULL;
    } else if (cache->reserved != NULL) {
        magazine = cache->reserved;
        cache->reserved = magazine_of(fry_load_relaxed(&words_of(pool, magazine)->below));
    } else if ((magazine = depot_pop(pool)) == NULL) {
        ferry_status status = may_grow ? pool_grow(pool, &magazine) : FERRY_E_AGAIN;
        if (status != FERRY_OK)
            return status;
    }
    cache->loaded = magazine;
    return FERRY_OK;
}

void fry_pool_give_magazine(fry_pool *pool, fry_pool_cache *cache, void *slot)
{
    if (fry_pool_is_exact(pool)) {
        fry_magazine *magazine = slot;
        magazine->count = 0;
        depot_push(pool, magazine);
        return;
    }
    if (cache->loaded != NULL && cache->spare != NULL)
        depot_push(pool, cache->spare);
    if (cache->loaded != NULL)
        cache->spare = cache->loaded;
    cache->loaded = slot;
    cache->loaded->count = 0;
}

ferry_status fry_pool_reserve(fry_pool *pool, fry_pool_cache *cache, uint64_t count, bool may_grow)
{
    uint64_t have = slots_of(cache->loaded) + slots_of(cache->spare);
    fry_magazine *magazine = cache->reserved;
    while (have < count && magazine != NULL) {
        have += slots_of(magazine);
        magazine = magazine_of(fry_load_relaxed(&words_of(pool, magazine)->below));
    }
    while (have < count) {
        magazine = depot_pop(pool);
        if (magazine == NULL) {
            ferry_status status = may_grow ? pool_grow(pool, &magazine) : FERRY_E_AGAIN;
            if (status != FERRY_OK) {
                /* A user who needs fewer slots may find them. */
                fry_pool_unreserve(pool, cache);
                cache->missing = count - have;
                return status;
            }
        }
        uint64_t slots = slots_of(magazine);
        fry_store_relaxed(&words_of(pool, magazine)->below, (uintptr_t)cache->reserved | slots);
        cache->reserved = magazine;
        have += slots;
    }
    return FERRY_OK;
}

void fry_pool_unreserve(fry_pool *pool, fry_pool_cache *cache)
{
    fry_magazine *first = cache->reserved, *last = first;
    if (first == NULL)
        return;
    uint64_t slots = 0, last_slots = 0;
    for (fry_magazine *next = first; next != NULL;) {
        uintptr_t below = fry_load_relaxed(&words_of(pool, next)->below);
        last_slots = below & MAGAZINE_COUNT_MASK;
        slots += last_slots;
        last = next;
        next = magazine_of(below);
    }
    cache->reserved = NULL;
    depot_push_chain(pool, first, last, last_slots);
    if (is_wanted(pool))
        tell_of(pool, slots);
}

void fry_pool_flush(fry_pool *pool, fry_pool_cache *cache)
{
    fry_pool_unreserve(pool, cache);
    if (cache->loaded != NULL)
        depot_push(pool, cache->loaded);
    if (cache->spare != NULL)
        depot_push(pool, cache->spare);
    *cache = (fry_pool_cache){0};
}

ferry_status fry_pool_fill(fry_pool *pool, uint64_t count)
{
    fry_pool_cache cache = {0};
    ferry_status status = fry_pool_reserve(pool, &cache, count, true);
    fry_pool_flush(pool, &cache);
    return status;
}

/* ---- room ---- */

void fry_pool_add_cache(fry_pool *pool)
{
    if (fry_pool_is_exact(pool))
        return;
    uint64_t count = 2 * ((uint64_t)pool->magazine_slots + 1) + pool->chunk_slots;
    (void)fry_fetch_add(&pool->limit, count);
    if (is_wanted(pool))
        tell_of(pool, count);
}

void fry_pool_refused(fry_pool *pool, uint64_t count)
{
    uint64_t lacked = fry_load_relaxed(&pool->lacked);
    while ((lacked == 0 || count < lacked) && !fry_cas_weak(&pool->lacked, &lacked, count))
        continue;
}

/*
 * Counts free slots in the depot, up to `enough`. Magazines may be taken meanwhile. Their words can
 * still be read, but the count is valid only if the depot is then found unchanged.
 */
static uint64_t count_depot(const fry_pool *pool, void *top, uint64_t enough)
{
    uint64_t count = 0;
    fry_magazine *magazine = top;
    for (uint64_t steps = 0; magazine != NULL && count < enough && steps < enough; steps++) {
        uintptr_t below = fry_load_relaxed(&words_of(pool, magazine)->below);
        count += below & MAGAZINE_COUNT_MASK;
        magazine = magazine_of(below);
    }
    return count;
}

static bool is_unchanged(const fry_pool *pool, fry_counted_pointer top, uint64_t made,
                         uint64_t limit)
{
    fry_counted_pointer now = fry_counted_load(&pool->depot);
    return now.pointer == top.pointer && now.count == top.count &&
           fry_load_acquire(&pool->made) == made && fry_load_acquire(&pool->limit) == limit;
}

fry_pool_room fry_pool_look(fry_pool *pool)
{
    uint64_t lacked = fry_load_acquire(&pool->lacked);
    if (lacked == 0)
        return FRY_POOL_NOT_REFUSED;
    (void)fry_exchange(&pool->wanted, 1);
    fry_fence(); /* the loads below are weaker; pairs with is_wanted */
    for (int i = 0; i < LOOKS; i++) {
        fry_counted_pointer top = fry_counted_load(&pool->depot);
        uint64_t made = fry_load_acquire(&pool->made);
        uint64_t limit = fry_load_acquire(&pool->limit);
        uint64_t count = limit > made ? limit - made : 0; /* slots that may still be made */
        count += count < lacked ? count_depot(pool, top.pointer, lacked - count) : 0;
        int64_t missing = (int64_t)(count < lacked ? lacked - count : 0);
        (void)fry_exchange(&pool->to_come, missing);
        fry_fence(); /* pairs with the barrier ahead of tell_of */
        if (!is_unchanged(pool, top, made, limit))
            continue;
        return missing > 0 ? FRY_POOL_NO_ROOM : FRY_POOL_ROOM;
    }
    return FRY_POOL_BUSY;
}

void fry_pool_rest(fry_pool *pool)
{
    fry_store_relaxed(&pool->wanted, 0);
}

void fry_pool_forget_refusals(fry_pool *pool)
{
    fry_store_relaxed(&pool->lacked, 0);
}
