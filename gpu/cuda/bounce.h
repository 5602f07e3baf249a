/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small copies out of pageable memory. The thread that issues one copies its bytes to the stream's
 * pinned memory here, and the driver copies them from there. That takes the thread a few hundred
 * nanoseconds, instead of the way through another thread (staging.h). A ring, because a
 * stream's copies fire in order.
 *
 * All of it with the baton.
 */
#ifndef FRY_GPU_CUDA_BOUNCE_H
#define FRY_GPU_CUDA_BOUNCE_H

#include "gpu/device.h"

#include <string.h>

#define FRY_CUDA_BOUNCE_BYTES ((uint32_t)256 << 10) /* a power of two */
#define FRY_CUDA_BOUNCED_BYTES ((uint32_t)16 << 10) /* the largest small copy */

typedef struct fry_cuda_bounce {
    char *memory;          /* NULL: there is none */
    uint32_t taken, given; /* bytes in all, modulo 2^32; the difference is in use */
} fry_cuda_bounce;

/* Whether there is room for one more small copy, wherever the ring wraps. */
static inline bool fry_cuda_bounce_has_room(const fry_cuda_bounce *bounce)
{
    return bounce->memory == NULL ||
           FRY_CUDA_BOUNCE_BYTES - (bounce->taken - bounce->given) >= 2 * FRY_CUDA_BOUNCED_BYTES;
}

/*
 * Copies the bytes of a plain copy of at most FRY_CUDA_BOUNCED_BYTES into the ring, which has room;
 * returns their place. To undo it, set `taken` to its former value.
 */
static inline const char *fry_cuda_bounce_take(fry_cuda_bounce *bounce, const fry_copy *copy)
{
    uint32_t at = bounce->taken % FRY_CUDA_BOUNCE_BYTES;
    uint32_t size_bytes = (uint32_t)copy->size_bytes;
    if (at + size_bytes > FRY_CUDA_BOUNCE_BYTES) { /* a copy does not wrap */
        bounce->taken += FRY_CUDA_BOUNCE_BYTES - at;
        at = 0;
    }
    bounce->taken += size_bytes;
    memcpy(bounce->memory + at, copy->src, size_bytes);
    return bounce->memory + at;
}

#endif
