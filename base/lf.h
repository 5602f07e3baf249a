/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry's atomics, and the only file that includes Concurrency Kit.
 *
 * Single words use the compiler's __atomic builtins: they state their ordering, cost the same as
 * ck_pr on every machine that ferry runs on, and ThreadSanitizer sees them in the very code that
 * ships. Concurrency Kit supplies what the language lacks: the double-word compare-and-swap of the
 * pool's free list, the spin hint and the cache line. Its inline assembly is invisible to
 * ThreadSanitizer, so under it the double-word swap uses the compiler.
 */
#ifndef FRY_BASE_LF_H
#define FRY_BASE_LF_H

#include <ck_md.h>
#include <ck_pr.h>
#include <stdbool.h>
#include <stdint.h>

#define FRY_CACHE_LINE CK_MD_CACHELINE

#define fry_load_relaxed(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define fry_load_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define fry_load_seq_cst(p) __atomic_load_n((p), __ATOMIC_SEQ_CST)
#define fry_store_relaxed(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define fry_store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define fry_store_seq_cst(p, v) __atomic_store_n((p), (v), __ATOMIC_SEQ_CST)

/*
 * Read-modify-writes return the old value. A seq_cst load after one is not read before it; for a
 * weaker load that takes fry_fence (x86 needs neither; on aarch64 the load would pass the store).
 * Where a comment says that a push, a give or a swap is a full barrier, what looks behind it is
 * such a load, or comes after one. tests/cross/orders looks at the instructions.
 */
#define fry_exchange(p, v) __atomic_exchange_n((p), (v), __ATOMIC_SEQ_CST)
#define fry_fetch_add(p, v) __atomic_fetch_add((p), (v), __ATOMIC_SEQ_CST)
#define fry_fetch_sub(p, v) __atomic_fetch_sub((p), (v), __ATOMIC_SEQ_CST)

/* On failure *expected_p receives the current value. May fail spuriously: use in a loop. */
#define fry_cas_weak(p, expected_p, v)                                                             \
    __atomic_compare_exchange_n((p), (expected_p), (v), true, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE)
#define fry_cas(p, expected_p, v)                                                                  \
    __atomic_compare_exchange_n((p), (expected_p), (v), false, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE)

#define fry_likely(condition) __builtin_expect(!!(condition), 1)
#define fry_unlikely(condition) __builtin_expect(!!(condition), 0)

#if defined(__SANITIZE_THREAD__)
#define FRY_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FRY_TSAN 1
#endif
#endif
#ifndef FRY_TSAN
#define FRY_TSAN 0
#endif

/*
 * Orders a store before a later load. ThreadSanitizer does not model fences, so under it this is a
 * read-modify-write on a word of its own, which it does model.
 */
static inline void fry_fence(void)
{
#if FRY_TSAN
    extern uint32_t fry_tsan_fence;
    (void)fry_fetch_add(&fry_tsan_fence, 1);
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/*
 * At both ends of an order that other code carries from thread to thread, where ThreadSanitizer
 * does not look: what came before the call at one end comes before what follows the later call at
 * the other. Nothing without it.
 */
static inline void fry_carried(void)
{
    if (FRY_TSAN)
        fry_fence();
}

static inline void fry_pause(void)
{
    ck_pr_stall();
}

/* A pointer with a counter, so that a compare-and-swap notices a pointer that came back. */
typedef struct fry_counted_pointer {
    void *pointer;
    uintptr_t count;
} __attribute__((aligned(16))) fry_counted_pointer;

/*
 * Reads the two halves separately; a torn pair makes the swap below fail, because count only grows.
 */
static inline fry_counted_pointer fry_counted_load(const fry_counted_pointer *from)
{
    fry_counted_pointer value;
    value.count = fry_load_acquire(&from->count);
    value.pointer = fry_load_acquire(&from->pointer);
    return value;
}

/*
 * Full barriers before and after, as a seq_cst compare-and-swap would have them on x86. Concurrency
 * Kit's swap orders nothing by itself: on aarch64 it is ldxp and stxp, and a pool's magazine could
 * be found in the depot before what it lists was written.
 */
static inline bool fry_counted_cas(fry_counted_pointer *at, fry_counted_pointer expected,
                                   void *pointer)
{
    fry_counted_pointer next = {pointer, expected.count + 1};
#if FRY_TSAN
    unsigned __int128 old_word, new_word;
    __builtin_memcpy(&old_word, &expected, sizeof old_word);
    __builtin_memcpy(&new_word, &next, sizeof new_word);
    return __sync_bool_compare_and_swap((unsigned __int128 *)(void *)at, old_word, new_word);
#elif defined(__x86_64__)
    return ck_pr_cas_ptr_2(at, &expected, &next);
#else
    fry_fence();
    bool is_swapped = ck_pr_cas_ptr_2(at, &expected, &next);
    fry_fence();
    return is_swapped;
#endif
}

#endif
