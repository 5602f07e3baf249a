/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small copies out of pageable memory: who issues one copies its bytes here, to pinned memory of
 * the stream's, and the driver copies them from there. That is a few hundred nanoseconds of his,
 * instead of the way through a thread and back (cuda_staging.h). A ring: a stream's copies fire in
 * order.
 *
 * All of it with the baton.
 */
#ifndef FRY_GPU_CUDA_BOUNCE_H
#define FRY_GPU_CUDA_BOUNCE_H

#include "gpu/device.h"

#include <string.h>

#define FRY_CUDA_BOUNCE_BYTES ((uint32_t)256 << 10) /* a power of two */
#define FRY_CUDA_BOUNCED_BYTES ((uint32_t)16 << 10) /* what is small */

typedef struct fry_cuda_bounce {
    char *memory;          /* NULL: there is none */
    uint32_t taken, given; /* bytes, counted for ever and modulo 2^32; between them: in use */
} fry_cuda_bounce;

/* Whether one more small copy finds room, wherever the ring begins anew. */
static inline bool fry_cuda_bounce_has_room(const fry_cuda_bounce *bounce)
{
    return bounce->memory == NULL ||
           FRY_CUDA_BOUNCE_BYTES - (bounce->taken - bounce->given) >= 2 * FRY_CUDA_BOUNCED_BYTES;
}

/* Takes the bytes of a plain copy of at most FRY_CUDA_BOUNCED_BYTES, for which there is room; gives
 * where they are now. Who takes this back sets `taken` to what it was. */
static inline const char *fry_cuda_bounce_take(fry_cuda_bounce *bounce, const fry_copy *copy)
{
    uint32_t at = bounce->taken % FRY_CUDA_BOUNCE_BYTES;
    uint32_t size_bytes = (uint32_t)copy->size_bytes;
    if (at + size_bytes > FRY_CUDA_BOUNCE_BYTES) { /* it does not go round the end */
        bounce->taken += FRY_CUDA_BOUNCE_BYTES - at;
        at = 0;
    }
    bounce->taken += size_bytes;
    memcpy(bounce->memory + at, copy->src, size_bytes);
    return bounce->memory + at;
}

#endif
