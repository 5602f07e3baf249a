/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"

#include "base/lf.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The alignment that malloc gives without a request. */
#define MALLOC_ALIGN_BYTES _Alignof(max_align_t)

/*
 * Smaller tables are blocks: a mapping is whole pages, and a process may have only 65,530. Larger
 * ones are mapped: if aligned blocks of some ten pages come and go, malloc's heap grows several
 * times over, because their cut ends, in a thread's cache, keep the rest from being joined.
 */
#define MAPPED_BYTES_MIN ((size_t)32 * 1024)

#ifdef __SANITIZE_ADDRESS__
#define MAPS_TABLES false /* AddressSanitizer does not see accesses beyond a mapping */
#else
#define MAPS_TABLES true
#endif

static void *library_alloc(void *arg, size_t size_bytes, size_t align_bytes)
{
    (void)arg;
    if (align_bytes <= MALLOC_ALIGN_BYTES)
        return malloc(size_bytes);
    void *memory = NULL;
    return posix_memalign(&memory, align_bytes, size_bytes) == 0 ? memory : NULL;
}

static void library_free(void *arg, void *memory, size_t size_bytes)
{
    (void)arg;
    (void)size_bytes;
    free(memory);
}

void fry_memory_init(fry_memory *memory, const ferry_allocator *allocator)
{
    static const ferry_allocator library = {.alloc = library_alloc, .free = library_free};
    memory->allocator = allocator != NULL ? *allocator : library;
}

void *fry_alloc_raw(const fry_memory *memory, size_t size_bytes, size_t align_bytes)
{
    if (size_bytes == 0)
        return NULL;
    return memory->allocator.alloc(memory->allocator.arg, size_bytes, align_bytes);
}

void *fry_alloc(const fry_memory *memory, size_t size_bytes, size_t align_bytes)
{
    void *pointer = fry_alloc_raw(memory, size_bytes, align_bytes);
    if (pointer != NULL)
        memset(pointer, 0, size_bytes);
    return pointer;
}

void fry_free(const fry_memory *memory, void *pointer, size_t size_bytes)
{
    if (pointer != NULL)
        memory->allocator.free(memory->allocator.arg, pointer, size_bytes);
}

static bool is_mapped(const fry_memory *memory, size_t size_bytes)
{
    return MAPS_TABLES && memory->allocator.alloc == library_alloc &&
           size_bytes >= MAPPED_BYTES_MIN;
}

void *fry_alloc_table(const fry_memory *memory, size_t size_bytes, bool is_zeroed)
{
    if (!is_mapped(memory, size_bytes))
        return (is_zeroed ? fry_alloc : fry_alloc_raw)(memory, size_bytes, FRY_CACHE_LINE);
    void *pointer =
        mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pointer != MAP_FAILED ? pointer : NULL;
}

void fry_free_table(const fry_memory *memory, void *pointer, size_t size_bytes)
{
    if (!is_mapped(memory, size_bytes))
        fry_free(memory, pointer, size_bytes);
    else if (pointer != NULL)
        (void)munmap(pointer, size_bytes);
}
