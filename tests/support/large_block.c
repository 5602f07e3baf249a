/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/large_block.h"

#include "tests/support/check.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

#define PAGE_BYTES ((size_t)4096)

/* Lies in the page before the first of those that were given out. */
typedef struct label {
    unsigned char *block;
    size_t room_bytes, size_bytes;
} label;

static label *label_of(unsigned char *memory)
{
    return (label *)(memory - (uintptr_t)memory % PAGE_BYTES - PAGE_BYTES);
}

static size_t whole_bytes(size_t size_bytes, size_t unit_bytes)
{
    return (size_bytes + unit_bytes - 1) / unit_bytes * unit_bytes;
}

/* Room, a page for a label before it, and a page without access at each end. */
static unsigned char *map(size_t room)
{
    unsigned char *guarded = mmap(NULL, room + 3 * PAGE_BYTES, PROT_NONE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (guarded == MAP_FAILED)
        return NULL;
    if (mprotect(guarded + PAGE_BYTES, PAGE_BYTES + room, PROT_READ | PROT_WRITE) != 0) {
        (void)munmap(guarded, room + 3 * PAGE_BYTES);
        return NULL;
    }
    return guarded + 2 * PAGE_BYTES;
}

static void unmap(unsigned char *block, size_t room)
{
    (void)munmap(block - 2 * PAGE_BYTES, room + 3 * PAGE_BYTES);
}

#ifdef __SANITIZE_ADDRESS__
static unsigned char *take_kept(size_t *room)
{
    (void)room;
    return NULL;
}

static void keep(unsigned char *block, size_t room)
{
    if (mmap(block - PAGE_BYTES, PAGE_BYTES + room, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        unmap(block, room);
}
#else
#define KEPT_BLOCKS 8

/* Lies at the beginning of a block that is kept. */
typedef struct kept {
    size_t room_bytes;
} kept;

static _Atomic(kept *) kept_blocks[KEPT_BLOCKS];

/* Another makes way if there are many. */
static void keep(unsigned char *block, size_t room)
{
    static atomic_uint next;
    kept *left = (kept *)block, *nothing = NULL;
    left->room_bytes = room;
    for (size_t i = 0; i < KEPT_BLOCKS && left != NULL; i++, nothing = NULL) {
        if (atomic_compare_exchange_strong(&kept_blocks[i], &nothing, left))
            left = NULL;
    }
    if (left != NULL)
        left = atomic_exchange(&kept_blocks[atomic_fetch_add(&next, 1) % KEPT_BLOCKS], left);
    if (left != NULL)
        unmap((unsigned char *)left, left->room_bytes);
}

/* Each is looked at while nobody else can have it: only the address is read in its place. */
static unsigned char *take_kept(size_t *room)
{
    for (size_t i = 0; i < KEPT_BLOCKS; i++) {
        if (atomic_load(&kept_blocks[i]) == NULL)
            continue;
        kept *found = atomic_exchange(&kept_blocks[i], NULL);
        if (found == NULL)
            continue;
        if (found->room_bytes >= *room && found->room_bytes / 4 <= *room) {
            *room = found->room_bytes;
            return (unsigned char *)found;
        }
        kept *nothing = NULL;
        if (!atomic_compare_exchange_strong(&kept_blocks[i], &nothing, found))
            unmap((unsigned char *)found, found->room_bytes);
    }
    return NULL;
}
#endif

void *large_block_alloc(size_t size_bytes, size_t align_bytes)
{
    MUST(size_bytes >= LARGE_BLOCK_BYTES_MIN);
    if (size_bytes > SIZE_MAX / 4 || align_bytes > SIZE_MAX / 4)
        return NULL;
    size_t room =
        whole_bytes(size_bytes + (align_bytes > PAGE_BYTES ? align_bytes : 0), PAGE_BYTES);
    unsigned char *block = take_kept(&room);
    if (block == NULL)
        block = map(room);
    if (block == NULL)
        return NULL;
    const uintptr_t last = (uintptr_t)block + room - size_bytes;
    unsigned char *memory = block + (last / align_bytes * align_bytes - (uintptr_t)block);
    *label_of(memory) = (label){.block = block, .room_bytes = room, .size_bytes = size_bytes};
    return memory;
}

void large_block_free(void *memory, size_t size_bytes)
{
    const label left = *label_of(memory);
    MUST(left.size_bytes == size_bytes);
    keep(left.block, left.room_bytes);
}
