/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* What malloc promises without being asked. */
#define MALLOC_ALIGN_BYTES _Alignof(max_align_t)

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
