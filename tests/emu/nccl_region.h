/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the ranks of a communicator meet: memory that their processes share (a memfd of the process
 * that made the unique id, which the others open through /proc). It holds who has joined and, for
 * each pair of ranks and direction, a ring of bytes. All of it is atomic words, nobody locks.
 */
#ifndef EMU_NCCL_REGION_H
#define EMU_NCCL_REGION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EMU_NCCL_RANKS_MOST 16
#define EMU_NCCL_RING_BYTES ((size_t)65536)
#define EMU_NCCL_HOST_BYTES 64

typedef enum emu_nccl_presence {
    EMU_NCCL_ABSENT,
    EMU_NCCL_COMING, /* somebody has taken the rank */
    EMU_NCCL_JOINED,
    EMU_NCCL_ABORTED, /* the others do not hear of that */
    EMU_NCCL_LEFT,    /* in good order */
} emu_nccl_presence;

/* Read by others once it has joined. */
typedef struct emu_nccl_seat {
    _Atomic(uint32_t) presence;
    int32_t pid;
    int32_t device;
    char host[EMU_NCCL_HOST_BYTES];
} emu_nccl_seat;

/* Positions count all bytes that ever went through. */
typedef struct emu_nccl_ring {
    _Atomic(uint64_t) written, read;
    _Atomic(uint32_t) is_posted; /* all that is yet to come, by a sender that was aborted */
    char bytes[EMU_NCCL_RING_BYTES];
} emu_nccl_ring;

typedef struct emu_nccl_region {
    uint64_t nonce;
    _Atomic(uint32_t) ranks; /* 0: nobody has come */
    emu_nccl_seat seats[EMU_NCCL_RANKS_MOST];
    emu_nccl_ring rings[];
} emu_nccl_region;

/* A text that names a new meeting place. False: the system has none. */
bool emu_nccl_region_name(char *name, size_t size_bytes);
/* NULL: there is none of that name, or it is of another number of ranks. */
emu_nccl_region *emu_nccl_region_open(const char *name, int ranks);
void emu_nccl_region_close(emu_nccl_region *region);
/* All have come, so that nobody opens it any more. Only its maker's process does something. */
void emu_nccl_region_forget(const char *name);

/* False: somebody has the rank. It joins when its presence says so. */
bool emu_nccl_region_take(emu_nccl_region *region, int rank, int device, const char *host);
/* Whether everybody has joined; those that have left since had. */
bool emu_nccl_region_is_full(const emu_nccl_region *region);
/* Two ranks are on one device of one host. */
bool emu_nccl_region_is_doubled(const emu_nccl_region *region);

emu_nccl_ring *emu_nccl_region_ring(emu_nccl_region *region, int from, int to);
size_t emu_nccl_ring_room(const emu_nccl_ring *ring);
size_t emu_nccl_ring_held(const emu_nccl_ring *ring);
/* As many bytes as fit, or are there, up to that many; how many it were. */
size_t emu_nccl_ring_put(emu_nccl_ring *ring, const void *bytes, size_t size_bytes);
size_t emu_nccl_ring_get(emu_nccl_ring *ring, void *bytes, size_t size_bytes);

#endif
