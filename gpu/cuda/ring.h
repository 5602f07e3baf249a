/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pinned memory for the pieces of copies, as a ring: the first part taken is the first given back.
 * One thread.
 */
#ifndef FRY_GPU_CUDA_RING_H
#define FRY_GPU_CUDA_RING_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

#define FRY_CUDA_RING_ALIGN_BYTES ((size_t)256)

typedef struct fry_cuda_ring {
    char *memory;
    size_t size_bytes; /* a multiple of the alignment; 0: there is none */
    size_t begin, end; /* the taken bytes: from begin up to end, perhaps wrapped */
    size_t used_bytes; /* tells full from empty */
} fry_cuda_ring;

/* A part of the ring. */
typedef struct fry_cuda_part {
    char *memory;
    size_t charged_bytes; /* with the rest skipped at the ring's end; give this back */
} fry_cuda_part;

/* Takes size_bytes (not 0) in one part; false: there is no room now. */
static inline bool fry_cuda_ring_take(fry_cuda_ring *ring, size_t size_bytes, fry_cuda_part *part)
{
    size_t bytes = (size_bytes + FRY_CUDA_RING_ALIGN_BYTES - 1) & ~(FRY_CUDA_RING_ALIGN_BYTES - 1);
    if (ring->used_bytes == 0)
        ring->begin = ring->end = 0;
    if (bytes > ring->size_bytes - ring->used_bytes)
        return false;
    size_t at = ring->end, skipped = 0;
    if (at >= ring->begin && bytes > ring->size_bytes - at) {
        skipped = ring->size_bytes - at;
        at = 0;
    }
    if (at < ring->begin && bytes > ring->begin - at)
        return false;
    part->memory = ring->memory + at;
    part->charged_bytes = bytes + skipped;
    ring->end = at + bytes == ring->size_bytes ? 0 : at + bytes;
    ring->used_bytes += part->charged_bytes;
    return true;
}

/* Gives back the part that was taken first. */
static inline void fry_cuda_ring_give(fry_cuda_ring *ring, size_t charged_bytes)
{
    assert(charged_bytes <= ring->used_bytes);
    ring->used_bytes -= charged_bytes;
    ring->begin = (ring->begin + charged_bytes) % ring->size_bytes;
}

#endif
