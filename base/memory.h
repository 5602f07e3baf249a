/* SPDX-License-Identifier: Apache-2.0 */
/* The allocator seam: all of an engine's memory comes through here, so tests can fail any of it. */
#ifndef FRY_BASE_MEMORY_H
#define FRY_BASE_MEMORY_H

#include <ferry/engine.h>
#include <stdbool.h>

typedef struct fry_memory {
    ferry_allocator allocator; /* always filled in */
} fry_memory;

/* NULL: the C library's. */
void fry_memory_init(fry_memory *memory, const ferry_allocator *allocator);

/* Zeroed memory aligned to align_bytes (a power of two), or NULL. Size 0 gives NULL. */
void *fry_alloc(const fry_memory *memory, size_t size_bytes, size_t align_bytes);

/* The same without zeroing, for bulk data. */
void *fry_alloc_raw(const fry_memory *memory, size_t size_bytes, size_t align_bytes);

/* size_bytes as given to fry_alloc; NULL is allowed. */
void fry_free(const fry_memory *memory, void *pointer, size_t size_bytes);

/*
 * Tables with room for the most that may ever come, in what comes and goes, aligned to a cache
 * line. Where the C library would be asked they are mappings of their own: their pages take memory
 * when they are first touched, not when they are zeroed, and it is the machine's again when they
 * are given back. malloc does so only until it was given back a larger block: from then on it takes
 * such ones from its heap, and keeps there all pages that were ever touched. is_zeroed: they are.
 */
void *fry_alloc_table(const fry_memory *memory, size_t size_bytes, bool is_zeroed);
void fry_free_table(const fry_memory *memory, void *pointer, size_t size_bytes);

#endif
