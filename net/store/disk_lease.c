/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases as files. The holder keeps its file open and writes each new end into it, in place. That
 * is no event to processes that watch the folder, so a group at rest wakes nobody. Two locks of the
 * file count, on byte 0 and on byte 1.
 *
 * Whoever extends or ends the lease holds byte 0, for some system calls. So one of the two comes
 * first: either the holder finds the file unlinked, or it has written an end that the other reads
 * before it unlinks anything. The holder can't extend a lease that others take for ended.
 *
 * The holder holds byte 1 for its life. If another process can get it, the holder is dead, and
 * nobody needs to wait for the last end. The kernel closes a dead process's file and tells the
 * processes that watch the folder (IN_CLOSE_WRITE). So the lease's keys go at once.
 */
#include "net/store/disk_lease.h"

#include "net/store/disk.h"
#include "net/store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOCK_OF_END = 0, LOCK_OF_LIFE = 1 };

#define READS_MAX 100 /* of an end that is being written */

static const char lease_magic[8] = "ferrylse";

typedef struct lease_file {
    char magic[8];
    uint32_t format, unused;
    uint64_t id, clock;
    int64_t ttl_ns;
    char boot[40];
    uint64_t hash; /* of the fields above */
    int64_t ends_ns;
    int64_t not_ends_ns; /* its complement: shows readers a half-written end */
} lease_file;

static ferry_status write_end(fry_disk *disk, int fd, int64_t ends_ns)
{
    const int64_t both[2] = {ends_ns, ~ends_ns};

    return fry_disk_write_all(disk, fd, both, sizeof both, offsetof(lease_file, ends_ns));
}

ferry_status fry_disk_lease_make(fry_disk *disk, int64_t ttl_ns, int64_t ends_ns, uint64_t *id_p,
                                 int *fd_p)
{
    lease_file file = {.format = FRY_DISK_FORMAT,
                       .clock = disk->clock,
                       .ttl_ns = ttl_ns,
                       .ends_ns = ends_ns,
                       .not_ends_ns = ~ends_ns};
    char temporary[FRY_DISK_NAME_BYTES], name[FRY_DISK_NAME_BYTES];
    int fd;

    do {
        if (getrandom(&file.id, sizeof file.id, 0) != sizeof file.id)
            return fry_disk_failed(disk, "no random number");
    } while (file.id == 0);
    memcpy(file.magic, lease_magic, sizeof lease_magic);
    memcpy(file.boot, disk->boot, sizeof file.boot);
    file.hash = fry_store_hash(&file, offsetof(lease_file, hash));
    fry_disk_name_of_lease(file.id, name);
    ferry_status status = fry_disk_make_temporary(disk, temporary, &fd);
    if (status != FERRY_OK)
        return status;
    status = fry_disk_write_all(disk, fd, &file, sizeof file, 0);
    if (status == FERRY_OK)
        status = fry_disk_lock_byte(disk, fd, LOCK_OF_LIFE);
    /* Renamed, not linked: so our descriptor belongs to leases/, whose watchers see it close. */
    if (status == FERRY_OK && renameat(disk->temporary_fd, temporary, disk->leases_fd, name) != 0)
        status = fry_disk_failed(disk, "cannot rename a lease into the store");
    if (status != FERRY_OK) {
        (void)unlinkat(disk->temporary_fd, temporary, 0);
        (void)close(fd);
        return status;
    }
    fry_disk_unlock_byte(fd, LOCK_OF_END);
    *id_p = file.id;
    *fd_p = fd;
    return FERRY_OK;
}

ferry_status fry_disk_lease_extend(fry_disk *disk, int fd, int64_t ends_ns)
{
    struct stat about;
    ferry_status status = fry_disk_lock_byte(disk, fd, LOCK_OF_END);

    if (status != FERRY_OK)
        return status;
    if (fstat(fd, &about) != 0)
        status = fry_disk_failed(disk, "cannot look at a lease");
    else if (about.st_nlink == 0)
        status = FERRY_E_NOT_FOUND;
    else
        status = write_end(disk, fd, ends_ns);
    fry_disk_unlock_byte(fd, LOCK_OF_END);
    return status;
}

static bool is_free(int fd, int64_t at)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};

    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

static ferry_status read_open_lease(fry_disk *disk, int fd, uint64_t id, fry_disk_lease *to)
{
    lease_file file;
    struct stat about;
    bool is_whole = false;

    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode))
        return fry_disk_refused(disk, FERRY_E_UNSUPPORTED, "a lease is no file");
    for (int i = 0; i < READS_MAX && !is_whole; i++) {
        if (pread(fd, &file, sizeof file, 0) != sizeof file)
            break;
        is_whole = file.ends_ns == ~file.not_ends_ns;
    }
    if (!is_whole || memcmp(file.magic, lease_magic, sizeof lease_magic) != 0 ||
        file.format != FRY_DISK_FORMAT || file.id != id ||
        file.hash != fry_store_hash(&file, offsetof(lease_file, hash)))
        return fry_disk_refused(disk, FERRY_E_UNSUPPORTED, "a file is no lease");
    *to = (fry_disk_lease){
        .id = id,
        .ends_ns = file.ends_ns,
        .ttl_ns = file.ttl_ns,
        .is_dead =
            memcmp(file.boot, disk->boot, sizeof file.boot) != 0 || is_free(fd, LOCK_OF_LIFE),
        .is_other_clock = file.clock != disk->clock,
    };
    return FERRY_OK;
}

static int open_lease(const fry_disk *disk, uint64_t id, int flags)
{
    char name[FRY_DISK_NAME_BYTES];

    fry_disk_name_of_lease(id, name);
    return openat(disk->leases_fd, name, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

ferry_status fry_disk_lease_read(fry_disk *disk, uint64_t id, fry_disk_lease *to)
{
    const int fd = open_lease(disk, id, O_RDONLY);

    if (fd < 0 && errno == ENOENT)
        return fry_disk_is_whole(disk) ? FERRY_E_NOT_FOUND : fry_disk_gone(disk);
    if (fd < 0)
        return fry_disk_failed(disk, "cannot open a lease");
    const ferry_status status = read_open_lease(disk, fd, id, to);
    (void)close(fd);
    return status;
}

ferry_status fry_disk_lease_end(fry_disk *disk, const fry_disk_lease *seen)
{
    fry_disk_lease now;
    const int fd = open_lease(disk, seen->id, O_RDWR);

    if (fd < 0)
        return errno == ENOENT ? FERRY_OK : fry_disk_failed(disk, "cannot open a lease");
    ferry_status status = fry_disk_lock_byte(disk, fd, LOCK_OF_END);
    if (status != FERRY_OK)
        goto out;
    status = read_open_lease(disk, fd, seen->id, &now);
    if (status == FERRY_OK && (now.is_dead || now.ends_ns == seen->ends_ns))
        fry_disk_lease_drop(disk, seen->id);
    else if (status == FERRY_OK)
        status = FERRY_E_BUSY;
    fry_disk_unlock_byte(fd, LOCK_OF_END);
out:
    (void)close(fd);
    return status;
}

void fry_disk_lease_drop(fry_disk *disk, uint64_t id)
{
    char name[FRY_DISK_NAME_BYTES];

    fry_disk_name_of_lease(id, name);
    (void)unlinkat(disk->leases_fd, name, 0);
}
