/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pool.h"

#define CHUNK_SLOTS FRY_CACHE_LINE /* a chunk's slot count less one fits below its alignment */
#define CHUNK_COUNT_MASK ((uintptr_t)CHUNK_SLOTS - 1)

void fry_pool_open(fry_pool *pool, const fry_memory *memory, size_t object_bytes, uint64_t limit)
{
    size_t bytes = object_bytes + sizeof(fry_pool_words);
    size_t slot_bytes = (bytes + FRY_CACHE_LINE - 1) / FRY_CACHE_LINE * FRY_CACHE_LINE;
    *pool = (fry_pool){.memory = memory, .slot_bytes = slot_bytes, .limit = limit};
    size_t room = (slot_bytes - sizeof(fry_pool_words) - sizeof(fry_magazine)) / sizeof(void *);
    /* Threads' caches strand up to two magazines each: keep them small beside a small bound. */
    pool->magazine_slots = (uint32_t)(limit / 64 < room ? limit / 64 : room);
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

/* ---- the depot ---- */

static void depot_push(fry_pool *pool, fry_magazine *magazine)
{
    uintptr_t *below = &words_of(pool, magazine)->below;
    fry_counted_pointer top;
    do {
        top = fry_counted_load(&pool->depot);
        fry_store_relaxed(below, (uintptr_t)top.pointer);
    } while (!fry_counted_cas(&pool->depot, top, magazine)); /* pairs with depot_pop */
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
    } while (!fry_counted_cas(&pool->depot, top, (void *)below)); /* NOLINT */
    return top.pointer;
}

/* ---- growing ---- */

/* Claims room under the bound, then makes a chunk of slots. */
static ferry_status chunk_create(fry_pool *pool, char **slots_p, uint64_t *count_p)
{
    uint64_t made = fry_load_relaxed(&pool->made);
    uint64_t count;
    do {
        if (made >= pool->limit)
            return FERRY_E_AGAIN;
        count = pool->limit - made < CHUNK_SLOTS ? pool->limit - made : CHUNK_SLOTS;
    } while (!fry_cas_weak(&pool->made, &made, made + count));

    char *slots = fry_alloc_raw(pool->memory, chunk_bytes(pool, count), FRY_CACHE_LINE);
    if (slots == NULL) {
        (void)fry_fetch_sub(&pool->made, count);
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

/* A chunk is several magazines: one for the caller, the others for the depot. */
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
            void *slot = slots + (listed - i) * pool->slot_bytes; /* taken from the end */
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
        cache->reserved = (fry_magazine *)words_of(pool, magazine)->below; /* NOLINT */
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
    if (cache->loaded != NULL && cache->spare != NULL)
        depot_push(pool, cache->spare);
    if (cache->loaded != NULL)
        cache->spare = cache->loaded;
    cache->loaded = slot;
    cache->loaded->count = 0;
}

static uint64_t slots_of(const fry_magazine *magazine)
{
    return magazine != NULL ? magazine->count + 1 : 0;
}

ferry_status fry_pool_reserve(fry_pool *pool, fry_pool_cache *cache, uint64_t count, bool may_grow)
{
    uint64_t have = slots_of(cache->loaded) + slots_of(cache->spare);
    fry_magazine *magazine = cache->reserved;
    while (have < count && magazine != NULL) {
        have += slots_of(magazine);
        magazine = (fry_magazine *)fry_load_relaxed(&words_of(pool, magazine)->below); /* NOLINT */
    }
    while (have < count) {
        magazine = depot_pop(pool);
        if (magazine == NULL) {
            ferry_status status = may_grow ? pool_grow(pool, &magazine) : FERRY_E_AGAIN;
            if (status != FERRY_OK)
                return status;
        }
        fry_store_relaxed(&words_of(pool, magazine)->below, (uintptr_t)cache->reserved);
        cache->reserved = magazine;
        have += slots_of(magazine);
    }
    return FERRY_OK;
}

void fry_pool_unreserve(fry_pool *pool, fry_pool_cache *cache)
{
    while (cache->reserved != NULL) {
        fry_magazine *magazine = cache->reserved;
        cache->reserved =
            (fry_magazine *)fry_load_relaxed(&words_of(pool, magazine)->below); /* NOLINT */
        depot_push(pool, magazine);
    }
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
