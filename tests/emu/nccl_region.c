/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/emu/nccl_region.h"

#include <bsd/sys/queue.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NAME_FORM "ferry-emu-nccl %d %d %llu"

/* A file that this process has made, for ranks to come to. With the lock. */
typedef struct place {
    LIST_ENTRY(place) entry;
    uint64_t nonce;
    int fd;
} place;

static LIST_HEAD(, place) places = LIST_HEAD_INITIALIZER(places);
static _Atomic(uint64_t) last_nonce;

static uint64_t new_nonce(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec +
           (atomic_fetch_add(&last_nonce, 1) << 32);
}

bool emu_nccl_region_name(char *name, size_t size_bytes)
{
    const uint64_t nonce = new_nonce();
    const int fd = memfd_create("ferry-emu-nccl", MFD_CLOEXEC);
    place *const place = malloc(sizeof *place);

    if (place == NULL || fd < 0 || pwrite(fd, &nonce, sizeof nonce, 0) != sizeof nonce) {
        if (fd >= 0)
            (void)close(fd);
        free(place);
        return false;
    }
    *place = (struct place){.nonce = nonce, .fd = fd};
    LIST_INSERT_HEAD(&places, place, entry);
    (void)snprintf(name, size_bytes, NAME_FORM, (int)getpid(), fd, (unsigned long long)nonce);
    return true;
}

static size_t region_bytes(int ranks)
{
    return sizeof(emu_nccl_region) + (size_t)(ranks * ranks) * sizeof(emu_nccl_ring);
}

static emu_nccl_region *map(int fd, int ranks, uint64_t nonce)
{
    uint32_t others = 0;
    emu_nccl_region *region;
    uint64_t found = 0;

    if (pread(fd, &found, sizeof found, 0) != sizeof found || found != nonce ||
        ftruncate(fd, (off_t)region_bytes(ranks)) != 0)
        return NULL;
    region = mmap(NULL, region_bytes(ranks), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (region == MAP_FAILED)
        return NULL;
    if (!atomic_compare_exchange_strong(&region->ranks, &others, (uint32_t)ranks) &&
        others != (uint32_t)ranks) {
        (void)munmap(region, region_bytes(ranks));
        return NULL;
    }
    return region;
}

emu_nccl_region *emu_nccl_region_open(const char *name, int ranks)
{
    char path[64];
    unsigned long long nonce;
    emu_nccl_region *region;
    int pid, number, fd;

    if (sscanf(name, NAME_FORM, &pid, &number, &nonce) != 3)
        return NULL;
    (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, number);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    region = map(fd, ranks, nonce);
    (void)close(fd);
    return region;
}

void emu_nccl_region_close(emu_nccl_region *region)
{
    (void)munmap(region, region_bytes((int)atomic_load(&region->ranks)));
}

void emu_nccl_region_forget(const char *name)
{
    unsigned long long nonce;
    place *place;
    int pid, fd;

    if (sscanf(name, NAME_FORM, &pid, &fd, &nonce) != 3 || pid != (int)getpid())
        return;
    LIST_FOREACH(place, &places, entry) {
        if (place->nonce == nonce)
            break;
    }
    if (place == NULL) /* another rank of this process came before */
        return;
    LIST_REMOVE(place, entry);
    (void)close(place->fd);
    free(place);
}

/* ---- Who is there --------------------------------------------------------------------------- */

bool emu_nccl_region_take(emu_nccl_region *region, int rank, int device, const char *host)
{
    emu_nccl_seat *const seat = &region->seats[rank];
    uint32_t absent = EMU_NCCL_ABSENT;

    if (!atomic_compare_exchange_strong(&seat->presence, &absent, EMU_NCCL_COMING))
        return false;
    seat->pid = (int32_t)getpid();
    seat->device = device;
    (void)snprintf(seat->host, sizeof seat->host, "%s", host);
    return true;
}

bool emu_nccl_region_is_full(const emu_nccl_region *region)
{
    const uint32_t ranks = atomic_load(&region->ranks);

    for (uint32_t i = 0; i < ranks; i++) {
        if (atomic_load(&region->seats[i].presence) < EMU_NCCL_JOINED)
            return false;
    }
    return true;
}

bool emu_nccl_region_is_doubled(const emu_nccl_region *region)
{
    const uint32_t ranks = atomic_load(&region->ranks);

    for (uint32_t i = 0; i < ranks; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (region->seats[i].device == region->seats[j].device &&
                strcmp(region->seats[i].host, region->seats[j].host) == 0)
                return true;
        }
    }
    return false;
}

/* ---- Rings ---------------------------------------------------------------------------------- */

emu_nccl_ring *emu_nccl_region_ring(emu_nccl_region *region, int from, int to)
{
    return &region->rings[from * (int)atomic_load(&region->ranks) + to];
}

size_t emu_nccl_ring_held(const emu_nccl_ring *ring)
{
    return (size_t)(atomic_load(&ring->written) - atomic_load(&ring->read));
}

size_t emu_nccl_ring_room(const emu_nccl_ring *ring)
{
    return EMU_NCCL_RING_BYTES - emu_nccl_ring_held(ring);
}

/* The bytes up to the end of the ring, then those from its beginning. */
static size_t first_part(uint64_t position, size_t size_bytes)
{
    const size_t to_end = EMU_NCCL_RING_BYTES - (size_t)(position % EMU_NCCL_RING_BYTES);

    return size_bytes < to_end ? size_bytes : to_end;
}

size_t emu_nccl_ring_put(emu_nccl_ring *ring, const void *bytes, size_t size_bytes)
{
    const size_t room = emu_nccl_ring_room(ring), size = size_bytes < room ? size_bytes : room;
    const uint64_t position = atomic_load(&ring->written);
    const size_t first = first_part(position, size);

    if (size == 0)
        return 0;
    memcpy(&ring->bytes[position % EMU_NCCL_RING_BYTES], bytes, first);
    memcpy(ring->bytes, (const char *)bytes + first, size - first);
    atomic_store(&ring->written, position + size);
    return size;
}

size_t emu_nccl_ring_get(emu_nccl_ring *ring, void *bytes, size_t size_bytes)
{
    const size_t held = emu_nccl_ring_held(ring), size = size_bytes < held ? size_bytes : held;
    const uint64_t position = atomic_load(&ring->read);
    const size_t first = first_part(position, size);

    if (size == 0)
        return 0;
    memcpy(bytes, &ring->bytes[position % EMU_NCCL_RING_BYTES], first);
    memcpy((char *)bytes + first, ring->bytes, size - first);
    atomic_store(&ring->read, position + size);
    return size;
}
