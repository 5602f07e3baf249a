/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scratch of a plan: for each device a ring of what is packed there, and one of what is unpacked.
 * Within a ring moves take room one behind the other, and from its beginning again when it is at
 * its end: a plan orders its operations by what they touch, so later ones wait for earlier ones.
 */
#ifndef FRY_ENGINE_RESHARD_SCRATCH_H
#define FRY_ENGINE_RESHARD_SCRATCH_H

#include "engine/reshard/wrong.h"

#include <ferry/device.h>

typedef enum fry_reshard_ring_kind {
    FRY_RESHARD_PACKED,
    FRY_RESHARD_UNPACKED,
    FRY_RESHARD_RING_KINDS,
} fry_reshard_ring_kind;

typedef struct fry_reshard_ring {
    ferry_device *device;
    ferry_buffer *buffer;
    uint64_t wanted;  /* by all moves */
    uint64_t largest; /* of one */
    uint64_t size;
    uint64_t next; /* where the next move begins */
} fry_reshard_ring;

#define FRY_RESHARD_RINGS_MAX (64 * FRY_RESHARD_RING_KINDS) /* an engine has 64 devices at most */

typedef struct fry_reshard_scratch {
    fry_reshard_ring rings[FRY_RESHARD_RINGS_MAX]; /* by twos, of a device */
    uint32_t ring_count;
} fry_reshard_scratch;

/* First all moves are counted, then the rings are made, then all moves are placed. */
void fry_reshard_scratch_count(fry_reshard_scratch *scratch, ferry_device *device,
                               fry_reshard_ring_kind kind, uint64_t size);
ferry_status fry_reshard_scratch_make(fry_reshard_scratch *scratch, uint64_t most,
                                      fry_reshard_wrong *wrong);
ferry_span fry_reshard_scratch_place(fry_reshard_scratch *scratch, ferry_device *device,
                                     fry_reshard_ring_kind kind, uint64_t size);

/* Gives the buffers back; a plan that uses them keeps them. */
void fry_reshard_scratch_release(fry_reshard_scratch *scratch);

#endif
