/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing the folder of a file: store. */
#include "net/store/disk_open.h"

#include "net/store/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define BOOT_LOCK FRY_DISK_GROUPS /* the byte after those of the groups */

static const char state_magic[8] = "ferrysto";

bool fry_disk_is_remote(uint64_t type)
{
    /*
     * Other hosts change these without this kernel's inotify or locks. FUSE is refused whatever is
     * behind it, because it may be any of them, such as sshfs or virtiofs.
     */
    static const uint64_t remote[] = {
        0x6969 /* NFS */,          0x517b /* SMB */,
        0xff534d42 /* CIFS */,     0xfe534d42 /* SMB2 */,
        0x65735546 /* FUSE */,     0x01021997 /* 9p */,
        0x0bd00bd0 /* Lustre */,   0x47504653 /* GPFS */,
        0x00c36400 /* Ceph */,     0x5346414f /* OpenAFS */,
        0x6b414653 /* kAFS */,     0x73757245 /* Coda */,
        0x7461636f /* OCFS2 */,    0x01161970 /* GFS2 */,
        0x19830326 /* BeeGFS */,   0xaad7aaea /* PanFS */,
        0x20030528 /* OrangeFS */, 0x786f4256 /* vboxsf */,
        0x564c /* NCP */,          0xbacbacbc /* VMware hgfs */,
    };

    for (size_t i = 0; i < sizeof remote / sizeof *remote; i++) {
        if ((type & 0xffffffff) == remote[i])
            return true;
    }
    return false;
}

static void read_boot(fry_disk *disk)
{
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    memset(disk->boot, 0, sizeof disk->boot);
    if (fd < 0)
        return;
    if (read(fd, disk->boot, sizeof disk->boot - 1) < 0)
        disk->boot[0] = '\0';
    disk->boot[strcspn(disk->boot, "\n")] = '\0';
    (void)close(fd);
}

/* CLOCK_MONOTONIC is the same for a whole time namespace. All users' clocks count as one. */
static uint64_t number_of_clock(bool is_real)
{
    struct stat about;

    if (!is_real)
        return 1;
    return stat("/proc/self/ns/time", &about) == 0 ? (uint64_t)about.st_ino : 0;
}

static ferry_status open_folder(fry_disk *disk, int at, const char *name, mode_t mode, int flags,
                                bool may_make, int *fd_p)
{
    bool is_made = false;

    *fd_p = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
    if (*fd_p < 0 && errno == ENOENT && may_make) {
        is_made = mkdirat(at, name, mode) == 0;
        if (!is_made && errno != EEXIST)
            return fry_disk_failed(disk, "cannot make the store's folder");
        *fd_p = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
    }
    if (*fd_p < 0)
        return fry_disk_failed(disk, "cannot open the store's folder");
    if (is_made)
        (void)fchmod(*fd_p, mode); /* whatever the umask is */
    return FERRY_OK;
}

/* Keeps the path: the program may change its folder, and the name may be a link that changes. */
static ferry_status keep_path(fry_disk *disk, const char *folder)
{
    char link[64], path[PATH_MAX];

    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", disk->folder_fd);
    const ssize_t bytes = readlink(link, path, sizeof path - 1);
    path[bytes > 0 ? bytes : 0] = '\0';
    const char *kept = path[0] == '/' ? path : folder; /* without /proc as given */
    disk->path_bytes = strlen(kept) + 1;
    disk->path = fry_alloc_raw(disk->memory, disk->path_bytes, 1);
    if (disk->path == NULL)
        return fry_disk_refused(disk, FERRY_E_NO_MEMORY, "no memory for a store");
    memcpy(disk->path, kept, disk->path_bytes);
    return FERRY_OK;
}

/* Makes the file whole elsewhere and links it: the first wins, and nobody sees half of it. */
static ferry_status make_state(fry_disk *disk)
{
    fry_disk_state state = {.format = FRY_DISK_FORMAT, .group_count = FRY_DISK_GROUPS};
    char temporary[FRY_DISK_NAME_BYTES];
    int fd;
    ferry_status status = fry_disk_make_temporary(disk, temporary, &fd);

    if (status != FERRY_OK)
        return status;
    memcpy(state.magic, state_magic, sizeof state_magic);
    memcpy(state.boot, disk->boot, sizeof state.boot);
    status = fry_disk_write_all(disk, fd, &state, sizeof state, 0);
    if (status == FERRY_OK &&
        linkat(disk->temporary_fd, temporary, disk->folder_fd, "state", 0) != 0 && errno != EEXIST)
        status = fry_disk_failed(disk, "cannot make the store's state");
    (void)unlinkat(disk->temporary_fd, temporary, 0);
    (void)close(fd);
    return status;
}

static int open_state_file(const fry_disk *disk)
{
    return openat(disk->folder_fd, "state", O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

static ferry_status open_state(fry_disk *disk, fry_disk_state *state)
{
    struct stat about;

    disk->state_fd = open_state_file(disk);
    if (disk->state_fd < 0 && errno == ENOENT) {
        const ferry_status status = make_state(disk);

        if (status != FERRY_OK)
            return status;
        disk->state_fd = open_state_file(disk);
    }
    if (disk->state_fd < 0)
        return fry_disk_failed(disk, "cannot open the store's state");
    if (fstat(disk->state_fd, &about) != 0 || !S_ISREG(about.st_mode) ||
        pread(disk->state_fd, state, sizeof *state, 0) != sizeof *state ||
        memcmp(state->magic, state_magic, sizeof state_magic) != 0)
        return fry_disk_refused(disk, FERRY_E_STORE, "the folder's file `state` is not a store's");
    if (state->format != FRY_DISK_FORMAT || state->group_count != FRY_DISK_GROUPS)
        return fry_disk_refused(disk, FERRY_E_STORE, "the store is of another version of ferry");
    return FERRY_OK;
}

/* The first after a boot removes torn files. If another is at it, this one does not wait. */
static void begin_boot(fry_disk *disk, const fry_disk_state *state)
{
    if (memcmp(state->boot, disk->boot, sizeof disk->boot) == 0 ||
        fry_disk_lock_byte(disk, disk->state_fd, BOOT_LOCK) != FERRY_OK)
        return;
    fry_disk_remove_torn(disk);
    (void)fry_disk_write_all(disk, disk->state_fd, disk->boot, sizeof disk->boot,
                             offsetof(fry_disk_state, boot));
    fry_disk_unlock_byte(disk->state_fd, BOOT_LOCK);
}

ferry_status fry_disk_open(fry_disk *disk, const fry_memory *memory, const char *folder,
                           bool is_real_clock, bool may_make)
{
    struct statfs system;
    struct stat about;
    fry_disk_state state;

    *disk = (fry_disk){.memory = memory,
                       .folder_fd = -1,
                       .keys_fd = -1,
                       .leases_fd = -1,
                       .temporary_fd = -1,
                       .state_fd = -1,
                       .clock = number_of_clock(is_real_clock)};
    read_boot(disk);
    if (getrandom(&disk->nonce, sizeof disk->nonce, 0) != sizeof disk->nonce)
        return fry_disk_failed(disk, "no random number");
    ferry_status status = open_folder(disk, AT_FDCWD, folder, 0700, 0, may_make, &disk->folder_fd);
    if (status == FERRY_OK)
        status = keep_path(disk, folder);
    if (status != FERRY_OK)
        goto err;
    status = FERRY_E_STORE;
    if (fstatfs(disk->folder_fd, &system) != 0 || fstat(disk->folder_fd, &about) != 0) {
        status = fry_disk_failed(disk, "cannot look at the store's folder");
        goto err;
    }
    if (fry_disk_is_remote((uint64_t)system.f_type)) {
        status = fry_disk_refused(disk, FERRY_E_UNSUPPORTED,
                                  "the folder is on a network's file system, or one of FUSE");
        goto err;
    }
    /* systemd-tmpfiles leaves a folder locked like this alone, however old it is. */
    (void)flock(disk->folder_fd, LOCK_SH | LOCK_NB);
    /* A process that may use the folder may use its parts. */
    const mode_t mode = about.st_mode & 0777;
    disk->file_mode = about.st_mode & 0666;
    disk->folder_device = about.st_dev;
    disk->folder_number = about.st_ino;
    struct {
        const char *name;
        int *fd_p;
    } const parts[] = {
        {"keys", &disk->keys_fd}, {"leases", &disk->leases_fd}, {"temporary", &disk->temporary_fd}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        status = open_folder(disk, disk->folder_fd, parts[i].name, mode, O_NOFOLLOW, true,
                             parts[i].fd_p);
        if (status != FERRY_OK)
            goto err;
    }
    status = open_state(disk, &state);
    if (status != FERRY_OK)
        goto err;
    begin_boot(disk, &state);
    return FERRY_OK;

err:
    fry_disk_close(disk);
    return status;
}

void fry_disk_close(fry_disk *disk)
{
    const int fds[] = {disk->state_fd, disk->temporary_fd, disk->leases_fd, disk->keys_fd,
                       disk->folder_fd};

    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (fds[i] >= 0)
            (void)close(fds[i]);
    }
    fry_free(disk->memory, disk->path, disk->path_bytes);
    disk->path = NULL;
    fry_free(disk->memory, disk->buffer, disk->buffer_bytes);
    disk->buffer = NULL;
    disk->buffer_bytes = 0;
}
