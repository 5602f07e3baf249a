/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools of equal slots with a bound, after Bonwick's magazines ("Magazines and Vmem", USENIX 2001).
 *
 * A magazine is a free slot that lists further free slots. Each thread keeps two magazines of a
 * pool (fry_pool_cache), takes from and gives to them without atomics, and exchanges whole
 * magazines with the pool's depot by one double-word compare-and-swap. Bonwick's magazines are
 * separate memory; here a magazine is itself the last slot that it gives, and a slot given to a
 * full magazine becomes the next one, so there are never too few and they cost nothing. The memory
 * of the other slots is not touched while they are free: another core wrote it last, so take
 * prefetches the slot that will be needed soon. Chunks of slots come from the allocator and go back
 * only when the pool is closed: the steady state allocates nothing.
 *
 * Why it is safe. The depot is a stack of magazines. A push writes what the magazine lists before
 * its swap, which is a full barrier on every machine (fry_counted_cas); a pop reads that through
 * the pointer that it loaded with acquire. A pop also reads the link of a magazine that another
 * thread may have popped meanwhile. That memory is still mapped (chunks stay as long as the pool),
 * the link is a word of the slot that the slot's user never touches and that is only accessed
 * atomically, and the counter beside the top makes the swap fail then.
 *
 * The bound is exact. Slots in a thread's cache are of no use to another thread, nor are slots that
 * a thread has claimed under the bound and not made yet. So the bound must not count either: each
 * thread's cache (fry_pool_add_cache) raises it by the most that the two can be. A refused user can
 * then be sure that `limit` slots are in use, or on their way between a reserve and the depot. A
 * pool with a bound below FRY_POOL_EXACT_BELOW keeps it exactly: its caches hold nothing, each take
 * and give goes to the depot, and it is filled before anybody uses it (fry_pool_fill).
 *
 * Room. A refused user says how many slots it needed (fry_pool_refused). The thread that must say
 * when a retry is worth it calls fry_pool_look: are that many free, in the depot or under the
 * bound? If not, the look stores the missing number in `to_come`. A thread that puts slots into the
 * depot subtracts them, and calls `news` when none are missing any more; then the look is repeated.
 *
 *     look   wanted = 1; barrier; count the depot; to_come = missing; barrier; depot unchanged?
 *     give   push on the depot (full barrier); if wanted: to_come -= slots; none missing: news
 *
 * No news is missed. The look ends only if depot and bound were the same before it counted and
 * after it stored to_come; the depot's counter makes that certain. So a push is counted by the
 * look, or it comes after the look's last look at the depot and finds `wanted` set and to_come
 * stored. Slots that others take meanwhile are not added to to_come: the news then comes too early,
 * and the next look says so. The news never comes too late, and each needs at least as many gives
 * as were missing, so nobody retries in a circle while nothing is given. One thread looks at a
 * time. pool_room.pml checks this, and finds each planted mistake.
 */
#ifndef FRY_BASE_POOL_H
#define FRY_BASE_POOL_H

#include "base/lf.h"
#include "base/memory.h"

#include <ferry/status.h>

/* What a free slot holds when it is a magazine. */
typedef struct fry_magazine {
    uint64_t count;
    void *slots[];
} fry_magazine;

/* The last word of every slot. */
typedef struct fry_pool_words {
    uintptr_t below; /* magazine in the depot, or reserved: the one below it, and beside that how
                        many slots this one is; atomic */
} fry_pool_words;

/* Comes after the slots of a chunk. */
typedef struct fry_pool_chunk_end {
    uintptr_t before; /* the chunk made before this one, and its number of slots */
} fry_pool_chunk_end;

/*
 * Called by the thread that gives slots back, when as many as were missing have come. May be called
 * under any lock of that thread's caller, so it must not call the pool.
 */
typedef struct fry_pool_news {
    void (*fn)(void *arg);
    void *arg;
} fry_pool_news;

typedef struct fry_pool {
    fry_counted_pointer depot;
    uintptr_t chunks;
    uint64_t made;  /* slots that exist */
    uint64_t limit; /* atomic: grows with the number of caches */
    const fry_memory *memory;
    size_t slot_bytes;
    uint32_t magazine_slots; /* slots that a magazine lists at most, not counting itself; 0: caches
                                hold nothing */
    uint32_t wanted;         /* atomic: somebody waits for room */

    /* Only for users that were refused. */
    uint64_t lacked; /* atomic: the fewest slots that a refused user needed; 0: none was refused */
    int64_t to_come; /* atomic: slots missing, until the next look */
    fry_pool_news news;
    uint32_t chunk_slots; /* slots made at once at most */
} __attribute__((aligned(64))) fry_pool;

/* Answers of fry_pool_look. */
typedef enum fry_pool_room {
    FRY_POOL_NOT_REFUSED, /* no user was refused since refusals were last forgotten */
    FRY_POOL_NO_ROOM,     /* `news` is called when there may be */
    FRY_POOL_ROOM,        /* another try may succeed */
    FRY_POOL_BUSY,        /* other threads took and gave all the time: look again */
} fry_pool_room;

#define FRY_POOL_EXACT_BELOW 1024

typedef struct fry_pool_cache {
    fry_magazine *loaded;
    fry_magazine *spare;
    fry_magazine *reserved; /* further magazines, linked through `below`, ready for the depot */
    uint64_t missing;       /* slots that the last failed reserve did not find */
} fry_pool_cache;

/*
 * Opens a pool. Slots hold object_bytes, followed by fry_pool_words, rounded up to cache lines. At
 * most `limit` are in use, besides those in caches. Set `news` before anybody looks.
 */
void fry_pool_open(fry_pool *pool, const fry_memory *memory, size_t object_bytes, uint64_t limit);

/* Makes `count` slots in the depot; like fry_pool_refill. */
ferry_status fry_pool_fill(fry_pool *pool, uint64_t count);

static inline bool fry_pool_is_exact(const fry_pool *pool)
{
    return pool->magazine_slots == 0;
}

/*
 * Adds a cache that is not flushed at once: raises the bound by what its thread may keep from
 * others. Any thread.
 */
void fry_pool_add_cache(fry_pool *pool);

/* Frees all memory. No slot may be in use. */
void fry_pool_close(fry_pool *pool);

/*
 * Loads a magazine from the depot, or if may_grow from the allocator. FERRY_OK; FERRY_E_AGAIN: the
 * bound is reached, or the pool may not grow; FERRY_E_NO_MEMORY.
 */
ferry_status fry_pool_refill(fry_pool *pool, fry_pool_cache *cache, bool may_grow);

/* Gives a slot when the loaded magazine is full or missing: the slot becomes the next magazine. */
void fry_pool_give_magazine(fry_pool *pool, fry_pool_cache *cache, void *slot);

/*
 * Makes sure that the next `count` fry_pool_take succeed; like fry_pool_refill. fry_pool_unreserve
 * returns what was not taken. If it fails, nothing is reserved, and cache->missing is the number of
 * slots not found.
 */
ferry_status fry_pool_reserve(fry_pool *pool, fry_pool_cache *cache, uint64_t count, bool may_grow);
void fry_pool_unreserve(fry_pool *pool, fry_pool_cache *cache);

/* Whether the next `count` fry_pool_take will succeed without a refill. False: they may still. */
static inline bool fry_pool_cache_has(const fry_pool_cache *cache, uint64_t count)
{
    return count == 0 || (cache->loaded != NULL && cache->loaded->count + 1 >= count);
}

/* Returns all of a cache to the pool, when its thread ends. */
void fry_pool_flush(fry_pool *pool, fry_pool_cache *cache);

/* Records that the bound refused a user `count` slots, at least 1. Any thread. */
void fry_pool_refused(fry_pool *pool, uint64_t count);

/* Whether a refused user may succeed now. One thread at a time. */
fry_pool_room fry_pool_look(fry_pool *pool);

/* Says that nobody waits for room any more. */
void fry_pool_rest(fry_pool *pool);

/* Says that refused users have been told to try again. */
void fry_pool_forget_refusals(fry_pool *pool);

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
/* Poisons a free slot, unless it is a magazine, so that a use after free is caught. */
#define fry_pool_poison(pool, slot)                                                                \
    __asan_poison_memory_region((slot), (pool)->slot_bytes - sizeof(fry_pool_words))
#define fry_pool_unpoison(pool, slot) __asan_unpoison_memory_region((slot), (pool)->slot_bytes)
#else
#define fry_pool_poison(pool, slot) ((void)0)
#define fry_pool_unpoison(pool, slot) ((void)0)
#endif

/* Takes a slot with undefined contents; NULL: that needs a refill that may grow. */
static inline void *fry_pool_take(fry_pool *pool, fry_pool_cache *cache)
{
    fry_magazine *loaded = cache->loaded;
    if (fry_unlikely(loaded == NULL)) {
        if (fry_pool_refill(pool, cache, false) != FERRY_OK)
            return NULL;
        loaded = cache->loaded;
    }
    if (fry_unlikely(loaded->count == 0)) {
        cache->loaded = NULL;
        return loaded;
    }
    uint64_t count = --loaded->count;
    void *slot = loaded->slots[count];
    if (fry_likely(count >= 3)) {
        const char *soon = loaded->slots[count - 3];
        __builtin_prefetch(soon, 1);
        __builtin_prefetch(soon + FRY_CACHE_LINE, 1);
    }
    fry_pool_unpoison(pool, slot);
    return slot;
}

/* The same, growing if necessary; NULL: *status_p says why. */
static inline void *fry_pool_take_or_grow(fry_pool *pool, fry_pool_cache *cache,
                                          ferry_status *status_p)
{
    void *slot = fry_pool_take(pool, cache);
    if (fry_likely(slot != NULL))
        return slot;
    *status_p = fry_pool_refill(pool, cache, true);
    return *status_p == FERRY_OK ? fry_pool_take(pool, cache) : NULL;
}

/* Gives a slot to the calling thread's cache, wherever it was taken. */
static inline void fry_pool_give(fry_pool *pool, fry_pool_cache *cache, void *slot)
{
    fry_magazine *loaded = cache->loaded;
    if (fry_unlikely(loaded == NULL || loaded->count >= pool->magazine_slots)) {
        fry_pool_give_magazine(pool, cache, slot);
        return;
    }
    fry_pool_poison(pool, slot);
    loaded->slots[loaded->count++] = slot;
}

#endif
