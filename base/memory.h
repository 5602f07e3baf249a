/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocator: all of an engine's memory comes from here, so tests can make any allocation fail.
 */
#ifndef FRY_BASE_MEMORY_H
#define FRY_BASE_MEMORY_H

#include <ferry/engine.h>
#include <stdbool.h>

typedef struct fry_memory {
    ferry_allocator allocator; /* always filled in */
} fry_memory;

/* Sets up the allocator; NULL: the C library's. */
void fry_memory_init(fry_memory *memory, const ferry_allocator *allocator);

/* Zeroed memory aligned to align_bytes (a power of two), or NULL. Size 0 gives NULL. */
void *fry_alloc(const fry_memory *memory, size_t size_bytes, size_t align_bytes);

/* The same without zeroing, for bulk data. */
void *fry_alloc_raw(const fry_memory *memory, size_t size_bytes, size_t align_bytes);

/* Frees memory; size_bytes as given to fry_alloc; NULL is allowed. */
void fry_free(const fry_memory *memory, void *pointer, size_t size_bytes);

/*
 * Allocates a table with room for the most that may ever come, for objects that come and go,
 * aligned to a cache line. With the C library's allocator a table is a mapping of its own: a page
 * takes memory when it is first touched, not when it is zeroed, and goes back to the system when
 * the table is freed. malloc does so only until a larger block was freed: after that it takes such
 * blocks from its heap and keeps all pages ever touched. is_zeroed: the memory is zeroed.
 */
void *fry_alloc_table(const fry_memory *memory, size_t size_bytes, bool is_zeroed);
void fry_free_table(const fry_memory *memory, void *pointer, size_t size_bytes);

#endif
