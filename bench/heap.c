/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C library's allocator is replaced, for this program and the libraries it loads, by functions
 * that count and hand on to it under its other names.
 */
#include "bench/heap.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

static void *heap_alloc(void *arg, size_t size_bytes, size_t align_bytes)
{
    bench_heap *heap = arg;
    void *memory = NULL;
    if (align_bytes < sizeof(void *))
        align_bytes = sizeof(void *);
    if (posix_memalign(&memory, align_bytes, size_bytes) != 0)
        return NULL;
    (void)__atomic_fetch_add(&heap->calls, 1, __ATOMIC_RELAXED);
    (void)__atomic_fetch_add(&heap->live_bytes, size_bytes, __ATOMIC_RELAXED);
    return memory;
}

static void heap_free(void *arg, void *memory, size_t size_bytes)
{
    bench_heap *heap = arg;
    (void)__atomic_fetch_add(&heap->calls, 1, __ATOMIC_RELAXED);
    (void)__atomic_fetch_sub(&heap->live_bytes, size_bytes, __ATOMIC_RELAXED);
    free(memory);
}

ferry_allocator bench_heap_allocator(bench_heap *heap)
{
    return (ferry_allocator){.alloc = heap_alloc, .free = heap_free, .arg = heap};
}

uint64_t bench_heap_calls(const bench_heap *heap)
{
    return __atomic_load_n(&heap->calls, __ATOMIC_RELAXED);
}

uint64_t bench_heap_live_bytes(const bench_heap *heap)
{
    return __atomic_load_n(&heap->live_bytes, __ATOMIC_RELAXED);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FRY_BENCH_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FRY_BENCH_SANITIZED 1
#endif
#endif

#ifdef FRY_BENCH_SANITIZED

bool bench_process_heap_is_counted(void)
{
    return false;
}

uint64_t bench_process_heap_calls(void)
{
    return 0;
}

#else

static uint64_t process_heap_calls; /* atomic */

bool bench_process_heap_is_counted(void)
{
    return true;
}

uint64_t bench_process_heap_calls(void)
{
    return __atomic_load_n(&process_heap_calls, __ATOMIC_RELAXED);
}

static void count_call(void)
{
    (void)__atomic_fetch_add(&process_heap_calls, 1, __ATOMIC_RELAXED);
}

/* The shared libraries must find these before the C library's. */
#define FRY_BENCH_EXPORT __attribute__((visibility("default")))

/* NOLINTBEGIN(bugprone-reserved-identifier): glibc's own names */
void *__libc_malloc(size_t size_bytes);
void *__libc_calloc(size_t count, size_t size_bytes);
void *__libc_realloc(void *memory, size_t size_bytes);
void *__libc_memalign(size_t align_bytes, size_t size_bytes);
void __libc_free(void *memory);
/* NOLINTEND(bugprone-reserved-identifier) */

FRY_BENCH_EXPORT void *malloc(size_t size_bytes)
{
    count_call();
    return __libc_malloc(size_bytes);
}

FRY_BENCH_EXPORT void *calloc(size_t count, size_t size_bytes)
{
    count_call();
    return __libc_calloc(count, size_bytes);
}

FRY_BENCH_EXPORT void *realloc(void *memory, size_t size_bytes)
{
    count_call();
    return __libc_realloc(memory, size_bytes);
}

FRY_BENCH_EXPORT void free(void *memory)
{
    count_call();
    __libc_free(memory);
}

FRY_BENCH_EXPORT void *memalign(size_t align_bytes, size_t size_bytes)
{
    count_call();
    return __libc_memalign(align_bytes, size_bytes);
}

FRY_BENCH_EXPORT void *aligned_alloc(size_t align_bytes, size_t size_bytes)
{
    count_call();
    return __libc_memalign(align_bytes, size_bytes);
}

FRY_BENCH_EXPORT int posix_memalign(void **memory_p, size_t align_bytes, size_t size_bytes)
{
    count_call();
    if (align_bytes % sizeof(void *) != 0 || (align_bytes & (align_bytes - 1)) != 0 ||
        align_bytes == 0)
        return EINVAL;
    void *memory = __libc_memalign(align_bytes, size_bytes);
    if (memory == NULL)
        return ENOMEM;
    *memory_p = memory;
    return 0;
}

#endif
