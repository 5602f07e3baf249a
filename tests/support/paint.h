/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that are their place's: what lands elsewhere is not what is there. */
#ifndef TESTS_SUPPORT_PAINT_H
#define TESTS_SUPPORT_PAINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Not seen by ThreadSanitizer, for which a byte costs ten times as much; the copy of them is. */
__attribute__((no_sanitize("thread"))) static inline void
paint_block(unsigned char *block, size_t size_bytes, uint32_t *state)
{
    for (size_t i = 0; i < size_bytes; i++) {
        *state = *state * 1664525U + 1013904223U;
        block[i] = (unsigned char)(*state >> 24);
    }
}

/* The first bytes are the same whatever the size. */
static inline void paint(void *memory, size_t size_bytes, uint64_t seed)
{
    unsigned char block[4096];
    uint32_t state = (uint32_t)seed * 2654435761U + 1;
    for (size_t at = 0; at < size_bytes; at += sizeof block) {
        size_t part = size_bytes - at < sizeof block ? size_bytes - at : sizeof block;
        paint_block(block, part, &state);
        memcpy((char *)memory + at, block, part);
    }
}

static inline bool is_painted(const void *memory, size_t size_bytes, uint64_t seed)
{
    unsigned char block[4096];
    uint32_t state = (uint32_t)seed * 2654435761U + 1;
    for (size_t at = 0; at < size_bytes; at += sizeof block) {
        size_t part = size_bytes - at < sizeof block ? size_bytes - at : sizeof block;
        paint_block(block, part, &state);
        if (memcmp((const char *)memory + at, block, part) != 0)
            return false;
    }
    return true;
}

#endif
