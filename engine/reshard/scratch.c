/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/reshard/scratch.h"

#include <inttypes.h>

#define ALIGNED 64 /* where moves begin */

static uint64_t rounded(uint64_t size)
{
    return (size + ALIGNED - 1) / ALIGNED * ALIGNED;
}

/* A device's pair is made when it is first asked for. */
static fry_reshard_ring *ring_of(fry_reshard_scratch *scratch, ferry_device *device,
                                 fry_reshard_ring_kind kind)
{
    uint32_t i = 0;
    while (i < scratch->ring_count && scratch->rings[i].device != device)
        i += FRY_RESHARD_RING_KINDS;
    if (i == scratch->ring_count) {
        for (uint32_t j = 0; j < FRY_RESHARD_RING_KINDS; j++)
            scratch->rings[i + j] = (fry_reshard_ring){.device = device};
        scratch->ring_count += FRY_RESHARD_RING_KINDS;
    }
    return &scratch->rings[i + kind];
}

void fry_reshard_scratch_count(fry_reshard_scratch *scratch, ferry_device *device,
                               fry_reshard_ring_kind kind, uint64_t size)
{
    fry_reshard_ring *ring = ring_of(scratch, device, kind);
    ring->wanted += rounded(size);
    ring->largest = rounded(size) > ring->largest ? rounded(size) : ring->largest;
}

/*
 * If there is not enough for all, each ring has room for its largest move, and what is left is
 * divided by what they want besides.
 */
static void divide(fry_reshard_scratch *scratch, uint64_t wanted, uint64_t least, uint64_t most)
{
    for (uint32_t i = 0; i < scratch->ring_count; i++) {
        fry_reshard_ring *ring = &scratch->rings[i];
        ring->size = ring->wanted;
        if (wanted <= most)
            continue;
        double part = (double)(ring->wanted - ring->largest) / (double)(wanted - least);
        uint64_t more = (uint64_t)(part * (double)(most - least));
        ring->size = ring->largest + more / ALIGNED * ALIGNED;
    }
}

ferry_status fry_reshard_scratch_make(fry_reshard_scratch *scratch, uint64_t most,
                                      fry_reshard_wrong *wrong)
{
    uint64_t wanted = 0, least = 0;
    for (uint32_t i = 0; i < scratch->ring_count; i++) {
        wanted += scratch->rings[i].wanted;
        least += scratch->rings[i].largest;
    }
    if (least > most)
        return fry_reshard_wrong_note(wrong, FERRY_E_INVALID,
                                      "scratch_bytes_max is %" PRIu64
                                      "; the largest strided moves of each device and direction "
                                      "take %" PRIu64 " bytes, all moves together %" PRIu64,
                                      most, least, wanted);
    divide(scratch, wanted, least, most);
    for (uint32_t i = 0; i < scratch->ring_count; i++) {
        fry_reshard_ring *ring = &scratch->rings[i];
        if (ring->size == 0)
            continue;
        ferry_status status = ferry_buffer_alloc(ring->device, ring->size, &ring->buffer);
        if (status != FERRY_OK)
            return fry_reshard_wrong_note(wrong, status, "no scratch of %" PRIu64 " bytes on %s",
                                          ring->size, ferry_device_name(ring->device));
    }
    return FERRY_OK;
}

ferry_span fry_reshard_scratch_place(fry_reshard_scratch *scratch, ferry_device *device,
                                     fry_reshard_ring_kind kind, uint64_t size)
{
    fry_reshard_ring *ring = ring_of(scratch, device, kind);
    if (ring->next + size > ring->size)
        ring->next = 0;
    const ferry_span span = {ring->buffer, ring->next, size};
    ring->next += rounded(size);
    return span;
}

void fry_reshard_scratch_release(fry_reshard_scratch *scratch)
{
    for (uint32_t i = 0; i < scratch->ring_count; i++)
        ferry_buffer_release(scratch->rings[i].buffer);
}
