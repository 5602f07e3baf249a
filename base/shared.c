/* SPDX-License-Identifier: Apache-2.0 */
#include "base/shared.h"

#include "base/lf.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define SIZE_BYTES_MAX ((uint64_t)1 << 48)
#define PATH_BYTES 48

/* In the file, and so at both ends. The owner alone writes it. */
typedef struct shared_head {
    uint64_t key[2];
    uint64_t marks[FRY_SHARED_MARKS]; /* atomic; 0: free */
} shared_head;

/* In front of it, not in the file: nobody else can change it. */
typedef struct owner_page {
    size_t mapped_bytes; /* with this page */
    size_t size_bytes;
    int descriptor;
    uint64_t numbers; /* that marks have had */
} owner_page;

_Static_assert(sizeof(shared_head) <= 4096, "the head fits into the smallest page");

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Of the head and the memory. */
static uint64_t file_bytes(uint64_t size_bytes)
{
    const uint64_t page = page_bytes();
    return page + (size_bytes + page - 1) / page * page;
}

/* ---- the owner ---- */

static owner_page *owner_of(void *memory)
{
    return (owner_page *)(void *)((char *)memory - 2 * page_bytes());
}

static shared_head *head_of(void *memory)
{
    return (shared_head *)(void *)((char *)memory - page_bytes());
}

/* A file of that size, which keeps it. -1, with errno set. */
static int make_file(uint64_t bytes)
{
    const int descriptor = memfd_create("ferry", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (descriptor < 0)
        return -1;
    if (ftruncate(descriptor, (off_t)bytes) == 0 && fcntl(descriptor, F_ADD_SEALS, SEALS) == 0)
        return descriptor;
    const int error = errno;
    (void)close(descriptor);
    errno = error;
    return -1;
}

/* Maps the owner's page and the file behind it. NULL, with errno set. */
static char *map_own(int descriptor, size_t bytes)
{
    const size_t page = page_bytes();
    char *base =
        mmap(NULL, page + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    if (mmap(base + page, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor, 0) !=
        MAP_FAILED)
        return base;
    const int error = errno;
    (void)munmap(base, page + bytes);
    errno = error;
    return NULL;
}

void *fry_shared_alloc(size_t size_bytes)
{
    if (size_bytes == 0 || size_bytes > SIZE_BYTES_MAX) {
        errno = EINVAL;
        return NULL;
    }
    const size_t bytes = (size_t)file_bytes(size_bytes);
    const int descriptor = make_file(bytes);
    if (descriptor < 0)
        return NULL;
    uint64_t key[2];
    char *base = getentropy(key, sizeof key) == 0 ? map_own(descriptor, bytes) : NULL;
    if (base == NULL) {
        const int error = errno;
        (void)close(descriptor);
        errno = error;
        return NULL;
    }
    *(owner_page *)(void *)base = (owner_page){
        .mapped_bytes = page_bytes() + bytes, .size_bytes = size_bytes, .descriptor = descriptor};
    void *memory = base + 2 * page_bytes();
    memcpy(head_of(memory)->key, key, sizeof key);
    return memory;
}

void fry_shared_free(void *memory)
{
    if (memory == NULL)
        return;
    owner_page *owner = owner_of(memory);
    (void)close(owner->descriptor);
    (void)munmap(owner, owner->mapped_bytes);
}

bool fry_shared_grant(void *memory, fry_shared_place *place)
{
    owner_page *owner = owner_of(memory);
    shared_head *head = head_of(memory);
    uint32_t mark = 0;
    while (mark < FRY_SHARED_MARKS && fry_load_relaxed(&head->marks[mark]) != 0)
        mark++;
    if (mark == FRY_SHARED_MARKS)
        return false;
    /* The place is told by a message, behind which the reader finds the mark. */
    fry_store_release(&head->marks[mark], ++owner->numbers);
    *place = (fry_shared_place){.pid = getpid(),
                                .descriptor = owner->descriptor,
                                .key = {head->key[0], head->key[1]},
                                .size_bytes = owner->size_bytes,
                                .mark = mark,
                                .number = owner->numbers};
    return true;
}

void fry_shared_withdraw(void *memory, uint32_t mark)
{
    fry_store_relaxed(&head_of(memory)->marks[mark], 0);
    fry_fence(); /* before memory is called quiet; pairs with that of fry_shared_read */
}

/* ---- the reader ---- */

/* The path opens devices and pipes too, which does things: it is looked at first. -1: no file. */
static int open_file(const fry_shared_place *place, bool is_written)
{
    char path[PATH_BYTES];
    struct stat found;
    (void)snprintf(path, sizeof path, "/proc/%" PRId32 "/fd/%" PRId32, place->pid,
                   place->descriptor);
    const int named = open(path, O_PATH | O_CLOEXEC);
    if (named < 0)
        return -1;
    int descriptor = -1;
    if (fstat(named, &found) == 0 && S_ISREG(found.st_mode)) {
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", named);
        descriptor = open(path, (is_written ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    }
    (void)close(named);
    return descriptor;
}

/* The size counts once it is sealed: an owner could cut the file in between. */
static bool has_size_for_ever(int descriptor, uint64_t bytes)
{
    struct stat found;
    const int seals = fcntl(descriptor, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && fstat(descriptor, &found) == 0 &&
           (uint64_t)found.st_size == bytes;
}

/* Maps the head, which nobody here writes, and the memory. NULL: it can't be mapped. */
static const shared_head *map_file(int descriptor, size_t bytes, bool is_written)
{
    const int access = PROT_READ | (is_written ? PROT_WRITE : 0);
    void *base = mmap(NULL, bytes, access, MAP_SHARED, descriptor, 0);
    if (base == MAP_FAILED)
        return NULL;
    if (!is_written || mprotect(base, page_bytes(), PROT_READ) == 0)
        return base;
    (void)munmap(base, bytes);
    return NULL;
}

static bool open_map(fry_shared_map *map, const fry_shared_place *place, bool is_written)
{
    *map = (fry_shared_map){0};
    if (place->pid <= 0 || place->descriptor < 0 || place->size_bytes == 0 ||
        place->size_bytes > SIZE_BYTES_MAX || place->mark >= FRY_SHARED_MARKS || place->number == 0)
        return false;
    const int descriptor = open_file(place, is_written);
    if (descriptor < 0)
        return false;
    const size_t bytes = (size_t)file_bytes(place->size_bytes);
    const shared_head *head =
        has_size_for_ever(descriptor, bytes) ? map_file(descriptor, bytes, is_written) : NULL;
    (void)close(descriptor);
    if (head == NULL)
        return false;
    if (memcmp(head->key, place->key, sizeof place->key) != 0) {
        (void)munmap((void *)(uintptr_t)head, bytes);
        return false;
    }
    *map = (fry_shared_map){.memory = (const unsigned char *)head + page_bytes(),
                            .size_bytes = place->size_bytes,
                            .mark = &head->marks[place->mark],
                            .number = place->number};
    return true;
}

bool fry_shared_open(fry_shared_map *map, const fry_shared_place *place)
{
    return open_map(map, place, false);
}

bool fry_shared_open_writable(fry_shared_map *map, const fry_shared_place *place)
{
    return open_map(map, place, true);
}

void fry_shared_close(fry_shared_map *map)
{
    if (map->memory != NULL)
        (void)munmap((char *)(uintptr_t)map->memory - page_bytes(),
                     (size_t)file_bytes(map->size_bytes));
    *map = (fry_shared_map){0};
}

bool fry_shared_read(const fry_shared_map *map, void *to, uint64_t offset, size_t size_bytes)
{
    memcpy(to, map->memory + offset, size_bytes);
    fry_fence(); /* pairs with that of fry_shared_withdraw */
    return fry_load_relaxed(map->mark) == map->number;
}
