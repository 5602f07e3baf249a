/* SPDX-License-Identifier: Apache-2.0 */
/* Counting memory from outside: an allocator for engines, and every heap call of the process. */
#ifndef FRY_BENCH_HEAP_H
#define FRY_BENCH_HEAP_H

#include <ferry/engine.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What an engine took through its allocator. Zero it first; it must outlive the engine. */
typedef struct bench_heap {
    uint64_t calls;      /* atomic: alloc and free */
    uint64_t live_bytes; /* atomic */
} bench_heap;

ferry_allocator bench_heap_allocator(bench_heap *heap);
uint64_t bench_heap_calls(const bench_heap *heap);
uint64_t bench_heap_live_bytes(const bench_heap *heap);

/* False under a sanitizer, which has a heap of its own. */
bool bench_process_heap_is_counted(void);

/* Calls of the C library's allocating and freeing functions so far, by any thread and library. */
uint64_t bench_process_heap_calls(void);

#endif
