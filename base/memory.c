/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"

#include "base/lf.h"

#include <stdint.h>
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
/*
 * A large block costs AddressSanitizer milliseconds, as it writes all of its shadow twice. A
 * mapping does not, and is as well guarded: pages without access stand on both sides, a table ends
 * where the second begins, and a freed one stays mapped without access, so that its address is not
 * used again and a late access is seen.
 */
#define PAGE_BYTES ((size_t)4096)

static size_t whole_bytes(size_t size_bytes, size_t unit_bytes)
{
    return (size_bytes + unit_bytes - 1) / unit_bytes * unit_bytes;
}

static void *map(size_t size_bytes)
{
    size_t pages_bytes = whole_bytes(size_bytes, PAGE_BYTES);
    unsigned char *guarded = mmap(NULL, pages_bytes + 2 * PAGE_BYTES, PROT_NONE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (guarded == MAP_FAILED)
        return NULL;
    if (mprotect(guarded + PAGE_BYTES, pages_bytes, PROT_READ | PROT_WRITE) != 0) {
        (void)munmap(guarded, pages_bytes + 2 * PAGE_BYTES);
        return NULL;
    }
    return guarded + PAGE_BYTES + pages_bytes - whole_bytes(size_bytes, FRY_CACHE_LINE);
}

static void unmap(void *pointer, size_t size_bytes)
{
    unsigned char *first_page = (unsigned char *)pointer - (uintptr_t)pointer % PAGE_BYTES;
    (void)mmap(first_page, whole_bytes(size_bytes, PAGE_BYTES), PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}
#else
static void *map(size_t size_bytes)
{
    void *pointer =
        mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pointer != MAP_FAILED ? pointer : NULL;
}

static void unmap(void *pointer, size_t size_bytes)
{
    (void)munmap(pointer, size_bytes);
}
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
    return memory->allocator.alloc == library_alloc && size_bytes >= MAPPED_BYTES_MIN;
}

void *fry_alloc_table(const fry_memory *memory, size_t size_bytes, bool is_zeroed)
{
    if (is_mapped(memory, size_bytes))
        return map(size_bytes);
    return (is_zeroed ? fry_alloc : fry_alloc_raw)(memory, size_bytes, FRY_CACHE_LINE);
}

void fry_free_table(const fry_memory *memory, void *pointer, size_t size_bytes)
{
    if (!is_mapped(memory, size_bytes))
        fry_free(memory, pointer, size_bytes);
    else if (pointer != NULL)
        unmap(pointer, size_bytes);
}
