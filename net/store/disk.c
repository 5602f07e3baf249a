/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys. A file of keys/ is written whole in temporary/ and then renamed or linked. So readers take
 * no lock and never see half a file, whenever its writer is killed.
 *
 * Writers of one key take turns by a lock on one byte of `state`, one of 64 by the key's hash.
 * Nobody can take the lock from a writer that is stopped while it holds one, so it holds up only
 * few keys. The kernel frees the locks of the dead. They are open file description locks: several
 * stores of a process are as apart as processes are. Each group of keys has a counter, which is
 * raised under the group's lock before a version of it can be seen. So no version is ever given
 * twice.
 *
 * Nothing is flushed to the disk. All members run on this machine and read each other's files
 * through its memory, so the death of any process loses nothing. A power cut may lose the store,
 * but it has killed the members that met there, too. A file that it leaves torn is known by its
 * checksum, and the first process that opens the folder after the boot takes it away. Flushes would
 * cost a join milliseconds for each key, one after the other.
 */
#include "net/store/disk.h"

#include "net/store/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LEFTOVER_AGE_S 60

static const char key_magic[8] = "ferrykey";

typedef struct key_header {
    char magic[8];
    uint32_t format, key_bytes;
    uint64_t value_bytes, version, lease;
    uint64_t body_hash; /* of key and value */
    uint64_t hash;      /* of the fields above */
} key_header;

_Static_assert(sizeof(key_header) == 56, "files have no padding");

/* Keeps errno's text as the reason. Returns the status for it. */
ferry_status fry_disk_failed(fry_disk *disk, const char *what)
{
    char text[64];
    const int code = errno;

    disk->fault = (fry_fault){.status = code == ENOMEM ? FERRY_E_NO_MEMORY : FERRY_E_STORE,
                              .rank = -1,
                              .native_code = code,
                              .domain = code != 0 ? "errno" : NULL};
    (void)snprintf(disk->fault.message, sizeof disk->fault.message, "%s: %s", what,
                   strerror_r(code, text, sizeof text));
    return disk->fault.status;
}

ferry_status fry_disk_refused(fry_disk *disk, ferry_status status, const char *why)
{
    disk->fault = (fry_fault){.status = status, .rank = -1};
    (void)snprintf(disk->fault.message, sizeof disk->fault.message, "%s", why);
    return status;
}

ferry_status fry_disk_gone(fry_disk *disk)
{
    disk->is_gone = true;
    return fry_disk_refused(disk, FERRY_E_STORE, "the store's folder was removed or moved");
}

/* --- Names --- */

static void name_of_key(const char *key, char to[FRY_STORE_KEY_BYTES + 1])
{
    size_t i = 0;

    for (; key[i] != '\0' && i < FRY_STORE_KEY_BYTES; i++)
        to[i] = key[i] == '/' ? '+' : key[i];
    to[i] = '\0';
}

bool fry_disk_key_of_name(const char *name, char to[FRY_STORE_KEY_BYTES + 1])
{
    size_t i = 0;

    for (; name[i] != '\0'; i++) {
        if (i >= FRY_STORE_KEY_BYTES || name[i] == '/')
            return false;
        to[i] = name[i] == '+' ? '/' : name[i];
    }
    to[i] = '\0';
    return fry_store_is_key(to);
}

void fry_disk_name_of_lease(uint64_t id, char name[FRY_DISK_NAME_BYTES])
{
    (void)snprintf(name, FRY_DISK_NAME_BYTES, "%016llx", (unsigned long long)id);
}

uint64_t fry_disk_lease_id(const char *name)
{
    uint64_t id = 0;

    if (strlen(name) != 16)
        return 0;
    for (const char *at = name; *at != '\0'; at++) {
        const char *digits = "0123456789abcdef", *digit = strchr(digits, *at);

        if (digit == NULL)
            return 0;
        id = id * 16 + (uint64_t)(digit - digits);
    }
    return id;
}

ferry_status fry_disk_names(fry_disk *disk, int folder_fd, fry_disk_name_fn fn, void *arg)
{
    const int fd = openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    char key[FRY_DISK_NAME_BYTES];
    bool goes_on = true;

    if (folder == NULL) {
        const ferry_status status = fry_disk_failed(disk, "cannot read the store's folder");

        if (fd >= 0)
            (void)close(fd);
        return status;
    }
    errno = 0;
    for (const struct dirent *entry; goes_on && (entry = readdir(folder)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (folder_fd != disk->keys_fd)
            goes_on = fn(arg, entry->d_name);
        else if (fry_disk_key_of_name(entry->d_name, key))
            goes_on = fn(arg, key);
        errno = 0;
    }
    const ferry_status status =
        errno != 0 ? fry_disk_failed(disk, "cannot read the store's folder") : FERRY_OK;
    (void)closedir(folder);
    return status;
}

/* --- Locks --- */

ferry_status fry_disk_lock_byte(fry_disk *disk, int fd, int64_t at)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};

    while (fcntl(fd, F_OFD_SETLK, &lock) != 0) {
        if (errno == EAGAIN || errno == EACCES)
            return FERRY_E_BUSY;
        if (errno != EINTR)
            return fry_disk_failed(disk, "cannot lock the store");
    }
    return FERRY_OK;
}

void fry_disk_unlock_byte(int fd, int64_t at)
{
    struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};

    (void)fcntl(fd, F_OFD_SETLK, &lock);
}

bool fry_disk_is_named(const fry_disk *disk)
{
    struct stat named;

    /* If the name can't be looked at, that says nothing. */
    if (stat(disk->path, &named) != 0)
        return errno != ENOENT && errno != ENOTDIR;
    return named.st_dev == disk->folder_device && named.st_ino == disk->folder_number;
}

bool fry_disk_is_whole(const fry_disk *disk)
{
    const int fds[] = {disk->state_fd, disk->keys_fd, disk->leases_fd, disk->folder_fd};
    struct stat about;

    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (fstat(fds[i], &about) != 0 || about.st_nlink == 0)
            return false;
    }
    return fry_disk_is_named(disk);
}

static int64_t group_of(const char *key)
{
    return (int64_t)(fry_store_hash(key, strlen(key)) % FRY_DISK_GROUPS);
}

static ferry_status lock_group(fry_disk *disk, int64_t group)
{
    const ferry_status status = fry_disk_lock_byte(disk, disk->state_fd, group);

    if (status != FERRY_OK || fry_disk_is_whole(disk))
        return status;
    fry_disk_unlock_byte(disk->state_fd, group);
    return fry_disk_gone(disk);
}

/* Gives the next version of a locked group, after `than`. */
static ferry_status next_version(fry_disk *disk, int64_t group, uint64_t than, uint64_t *version_p)
{
    const off_t at = (off_t)(offsetof(fry_disk_state, versions) + (size_t)group * sizeof(uint64_t));
    uint64_t version;

    if (pread(disk->state_fd, &version, sizeof version, at) != sizeof version)
        return fry_disk_failed(disk, "cannot read the store's state");
    version = (version > than ? version : than) + 1;
    if (version == 0)
        return fry_disk_refused(disk, FERRY_E_STORE, "the store's versions have run out");
    if (pwrite(disk->state_fd, &version, sizeof version, at) != sizeof version)
        return fry_disk_failed(disk, "cannot write the store's state");
    *version_p = version;
    return FERRY_OK;
}

/* --- Reading --- */

static ferry_status make_room(fry_disk *disk, size_t bytes)
{
    if (disk->buffer_bytes >= bytes)
        return FERRY_OK;
    char *buffer = fry_alloc_raw(disk->memory, bytes, 16);
    if (buffer == NULL)
        return fry_disk_refused(disk, FERRY_E_NO_MEMORY, "no memory for a value");
    fry_free(disk->memory, disk->buffer, disk->buffer_bytes);
    disk->buffer = buffer;
    disk->buffer_bytes = bytes;
    return FERRY_OK;
}

/* Refuses a file that is no key's and never was: it is not touched and not listed. */
static ferry_status foreign(fry_disk *disk, const char *key)
{
    char name[FRY_DISK_NAME_BYTES], why[FRY_FAULT_MESSAGE_BYTES];

    name_of_key(key, name);
    (void)snprintf(why, sizeof why, "keys/%.100s is not a file of the store's", name);
    return fry_disk_refused(disk, FERRY_E_UNSUPPORTED, why);
}

/* Opens a key's file: follows no links, and does not wait for the other end of a fifo. */
static int open_key(const fry_disk *disk, const char *key)
{
    char name[FRY_DISK_NAME_BYTES];

    name_of_key(key, name);
    return openat(disk->keys_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static int unlink_key(const fry_disk *disk, const char *key)
{
    char name[FRY_DISK_NAME_BYTES];

    name_of_key(key, name);
    return unlinkat(disk->keys_fd, name, 0);
}

static bool is_sound(const key_header *header, const char *key, size_t file_bytes)
{
    return memcmp(header->magic, key_magic, sizeof key_magic) == 0 &&
           header->format == FRY_DISK_FORMAT &&
           header->hash == fry_store_hash(header, offsetof(key_header, hash)) &&
           header->key_bytes == strlen(key) && header->value_bytes <= FRY_STORE_VALUE_BYTES &&
           sizeof *header + header->key_bytes + header->value_bytes == file_bytes;
}

static ferry_status read_whole(fry_disk *disk, int fd, size_t bytes)
{
    size_t done = 0;

    while (done < bytes) {
        const ssize_t got = pread(fd, disk->buffer + done, bytes - done, (off_t)done);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fry_disk_failed(disk, "cannot read a key");
        if (got == 0)
            break;
        done += (size_t)got;
    }
    memset(disk->buffer + done, 0, bytes - done + 1);
    return FERRY_OK;
}

static ferry_status read_open(fry_disk *disk, int fd, const char *key, fry_disk_key *to)
{
    struct stat about;
    key_header header;

    if (fstat(fd, &about) != 0)
        return fry_disk_failed(disk, "cannot read a key");
    if (!S_ISREG(about.st_mode) || about.st_size < (off_t)sizeof header ||
        about.st_size > (off_t)(sizeof header + FRY_STORE_KEY_BYTES + FRY_STORE_VALUE_BYTES))
        return foreign(disk, key);
    const size_t bytes = (size_t)about.st_size;
    ferry_status status = make_room(disk, bytes + 1);
    if (status == FERRY_OK)
        status = read_whole(disk, fd, bytes);
    if (status != FERRY_OK)
        return status;
    memcpy(&header, disk->buffer, sizeof header);
    if (!is_sound(&header, key, bytes) ||
        memcmp(disk->buffer + sizeof header, key, header.key_bytes) != 0 ||
        header.body_hash != fry_store_hash(disk->buffer + sizeof header, bytes - sizeof header))
        return foreign(disk, key);
    *to = (fry_disk_key){
        .entry = {.key = key,
                  .value = disk->buffer + sizeof header + header.key_bytes,
                  .value_bytes = header.value_bytes,
                  .version = header.version},
        .lease = header.lease,
    };
    return FERRY_OK;
}

/* FERRY_E_UNSUPPORTED: the file of that name is not the store's. */
static ferry_status read_key(fry_disk *disk, const char *key, fry_disk_key *to)
{
    const int fd = open_key(disk, key);

    if (fd < 0 && errno == ENOENT)
        return FERRY_E_NOT_FOUND;
    if (fd < 0 && (errno == ELOOP || errno == ENXIO)) /* a link; a socket or a device */
        return foreign(disk, key);
    if (fd < 0)
        return fry_disk_failed(disk, "cannot open a key");
    const ferry_status status = read_open(disk, fd, key, to);
    (void)close(fd);
    return status;
}

ferry_status fry_disk_read(fry_disk *disk, const char *key, fry_disk_key *to)
{
    const ferry_status status = read_key(disk, key, to);

    /* In a folder that was removed NOT_FOUND means nothing. */
    if (status == FERRY_E_NOT_FOUND && !fry_disk_is_whole(disk))
        return fry_disk_gone(disk);
    return status;
}

/* --- Writing --- */

ferry_status fry_disk_write_all(fry_disk *disk, int fd, const void *bytes, size_t count, size_t at)
{
    for (size_t done = 0; done < count;) {
        const ssize_t put =
            pwrite(fd, (const char *)bytes + done, count - done, (off_t)(at + done));

        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0) {
            errno = put == 0 ? ENOSPC : errno;
            return fry_disk_failed(disk, "cannot write to the store");
        }
        done += (size_t)put;
    }
    return FERRY_OK;
}

ferry_status fry_disk_make_temporary(fry_disk *disk, char name[FRY_DISK_NAME_BYTES], int *fd_p)
{
    (void)snprintf(name, FRY_DISK_NAME_BYTES, "%016llx-%llu", (unsigned long long)disk->nonce,
                   (unsigned long long)++disk->written);
    const int fd = openat(disk->temporary_fd, name,
                          O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, disk->file_mode);
    if (fd < 0)
        return fry_disk_is_whole(disk) ? fry_disk_failed(disk, "cannot write to the store")
                                       : fry_disk_gone(disk);
    (void)fchmod(fd, disk->file_mode); /* whatever the umask is */
    (void)fry_disk_lock_byte(disk, fd, 0);
    *fd_p = fd;
    return FERRY_OK;
}

static void hash_header(key_header *header)
{
    header->hash = fry_store_hash(header, offsetof(key_header, hash));
}

/* Writes everything except the version, before any lock is taken. */
static ferry_status write_body(fry_disk *disk, int fd, const fry_store_request *request,
                               key_header *header)
{
    const size_t key_bytes = strlen(request->key);
    const size_t bytes = sizeof *header + key_bytes + request->value_bytes;
    ferry_status status = make_room(disk, bytes + 1);

    if (status != FERRY_OK)
        return status;
    char *body = disk->buffer + sizeof *header;
    memcpy(body, request->key, key_bytes);
    if (request->value_bytes > 0)
        memcpy(body + key_bytes, request->value, request->value_bytes);
    *header = (key_header){
        .format = FRY_DISK_FORMAT,
        .key_bytes = (uint32_t)key_bytes,
        .value_bytes = request->value_bytes,
        .lease = request->lease_id,
        .body_hash = fry_store_hash(body, key_bytes + request->value_bytes),
    };
    memcpy(header->magic, key_magic, sizeof key_magic);
    memcpy(disk->buffer, header, sizeof *header);
    return fry_disk_write_all(disk, fd, disk->buffer, bytes, 0);
}

/* Reads a key as verbs see it: FERRY_E_NOT_FOUND also if its lease is over. */
static ferry_status read_live(fry_disk *disk, const fry_disk_change *change, fry_disk_key *to)
{
    const ferry_status status = read_key(disk, change->request->key, to);

    if (status == FERRY_E_UNSUPPORTED)
        return FERRY_E_STORE;
    if (status == FERRY_OK && to->lease != 0 && change->is_over(change->arg, to->lease))
        return FERRY_E_NOT_FOUND;
    return status;
}

/* Whether the verb finds what it needs; FERRY_OK: it may go on. */
static ferry_status check(fry_disk *disk, const fry_disk_change *change, fry_disk_key *to)
{
    const uint64_t version = change->request->version;

    *to = (fry_disk_key){.lease = 0};
    const ferry_status status = read_live(disk, change, to);
    const bool is_there = status == FERRY_OK;

    if (!is_there && status != FERRY_E_NOT_FOUND)
        return status;
    switch (change->request->verb) {
    case FRY_STORE_CREATE:
        return is_there ? FERRY_E_CHANGED : FERRY_OK;
    case FRY_STORE_SWAP:
    case FRY_STORE_DELETE:
        if (!is_there)
            return FERRY_E_NOT_FOUND;
        return version != 0 && to->entry.version != version ? FERRY_E_CHANGED : FERRY_OK;
    default:
        return FERRY_OK;
    }
}

/* Reads the lease of a key's file; false: the file is not the store's. */
static bool read_lease(const fry_disk *disk, const char *key, uint64_t *lease_p)
{
    const int fd = open_key(disk, key);
    key_header header;
    struct stat about;

    if (fd < 0)
        return false;
    const bool is_key = fstat(fd, &about) == 0 && S_ISREG(about.st_mode) &&
                        pread(fd, &header, sizeof header, 0) == sizeof header &&
                        is_sound(&header, key, (size_t)about.st_size);
    (void)close(fd);
    if (is_key)
        *lease_p = header.lease;
    return is_key;
}

static bool is_held(int lease_fd, int64_t left_ns)
{
    struct stat about;

    return left_ns > 0 && fstat(lease_fd, &about) == 0 && about.st_nlink > 0;
}

static bool guard_stands(const fry_disk *disk, const fry_disk_change *change)
{
    const fry_store_request *request = change->request;
    uint64_t lease;

    return request->guard_key == NULL ||
           (is_held(change->guard_fd, change->guard_left_ns) &&
            read_lease(disk, request->guard_key, &lease) && lease == request->guard_id);
}

/*
 * Makes a whole temporary file the key's. CREATE makes a link, which fails if a file exists, even
 * if locks should not work. A file that exists may be a key's whose lease is over.
 */
static ferry_status publish(fry_disk *disk, const fry_store_request *request, const char *temporary,
                            uint64_t over)
{
    char name[FRY_DISK_NAME_BYTES];

    name_of_key(request->key, name);
    if (request->verb != FRY_STORE_CREATE) {
        if (renameat(disk->temporary_fd, temporary, disk->keys_fd, name) != 0)
            return fry_disk_failed(disk, "cannot rename into the store");
        return FERRY_OK;
    }
    if (over != 0)
        (void)unlinkat(disk->keys_fd, name, 0);
    if (linkat(disk->temporary_fd, temporary, disk->keys_fd, name, 0) != 0)
        return fry_disk_failed(disk, "cannot link into the store");
    return FERRY_OK;
}

/* Needs the group's lock. */
static ferry_status set_key(fry_disk *disk, const fry_disk_change *change, int64_t group, int fd,
                            const char *temporary, key_header *header, fry_disk_key *to)
{
    ferry_status status = check(disk, change, to);

    if (status != FERRY_OK)
        return status;
    if (!guard_stands(disk, change))
        return FERRY_E_FENCED;
    if (change->request->lease_id != 0 && !is_held(change->lease_fd, change->lease_left_ns))
        return fry_disk_refused(disk, FERRY_E_STORE, "the lease has ended");
    status = next_version(disk, group, to->entry.version, &header->version);
    if (status != FERRY_OK)
        return status;
    hash_header(header);
    status = fry_disk_write_all(disk, fd, header, sizeof *header, 0);
    if (status == FERRY_OK)
        status = publish(disk, change->request, temporary, to->lease);
    *to = (fry_disk_key){.entry = {.key = change->request->key, .version = header->version},
                         .lease = change->request->lease_id};
    return status;
}

static ferry_status write_key(fry_disk *disk, const fry_disk_change *change, fry_disk_key *to)
{
    const int64_t group = group_of(change->request->key);
    char temporary[FRY_DISK_NAME_BYTES];
    key_header header;
    int fd = -1;

    ferry_status status = fry_disk_make_temporary(disk, temporary, &fd);
    if (status != FERRY_OK)
        return status;
    status = write_body(disk, fd, change->request, &header);
    if (status == FERRY_OK)
        status = lock_group(disk, group);
    if (status == FERRY_OK) {
        status = set_key(disk, change, group, fd, temporary, &header, to);
        fry_disk_unlock_byte(disk->state_fd, group);
    }
    if (status != FERRY_OK || change->request->verb == FRY_STORE_CREATE)
        (void)unlinkat(disk->temporary_fd, temporary, 0);
    (void)close(fd);
    return status;
}

static ferry_status delete_key(fry_disk *disk, const fry_disk_change *change, fry_disk_key *to)
{
    const int64_t group = group_of(change->request->key);
    ferry_status status = lock_group(disk, group);

    if (status != FERRY_OK)
        return status;
    status = check(disk, change, to);
    if (status == FERRY_OK && unlink_key(disk, change->request->key) != 0)
        status = fry_disk_failed(disk, "cannot delete a key");
    fry_disk_unlock_byte(disk->state_fd, group);
    return status;
}

ferry_status fry_disk_change_key(fry_disk *disk, const fry_disk_change *change, fry_disk_key *to)
{
    /* Answers first what needs no write: of many that create one key most only read. */
    const ferry_status status =
        change->request->verb != FRY_STORE_PUT ? check(disk, change, to) : FERRY_OK;

    if (status != FERRY_OK)
        return status == FERRY_E_NOT_FOUND && !fry_disk_is_whole(disk) ? fry_disk_gone(disk)
                                                                       : status;
    return change->request->verb == FRY_STORE_DELETE ? delete_key(disk, change, to)
                                                     : write_key(disk, change, to);
}

/* --- Tidying --- */

bool fry_disk_lease_exists(fry_disk *disk, uint64_t id)
{
    char name[FRY_DISK_NAME_BYTES];
    struct stat about;

    fry_disk_name_of_lease(id, name);
    return fstatat(disk->leases_fd, name, &about, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT ||
           !fry_disk_is_whole(disk); /* then it is not known */
}

void fry_disk_sweep(fry_disk *disk, const char *key, uint64_t lease)
{
    const int64_t group = group_of(key);
    uint64_t found;

    if (!read_lease(disk, key, &found) || found != lease || lock_group(disk, group) != FERRY_OK)
        return;
    if (read_lease(disk, key, &found) && found == lease)
        (void)unlink_key(disk, key);
    fry_disk_unlock_byte(disk->state_fd, group);
}

typedef struct sweep {
    fry_disk *disk;
    uint64_t lease;
} sweep;

static bool sweep_one(void *arg, const char *key)
{
    const sweep *self = arg;
    uint64_t found;

    if (read_lease(self->disk, key, &found) && found != 0 &&
        (self->lease != 0 ? found == self->lease : !fry_disk_lease_exists(self->disk, found)))
        fry_disk_sweep(self->disk, key, found);
    return true;
}

void fry_disk_sweep_all(fry_disk *disk, uint64_t lease)
{
    sweep self = {disk, lease};

    (void)fry_disk_names(disk, disk->keys_fd, sweep_one, &self);
}

static bool tidy_temporary(void *arg, const char *name)
{
    fry_disk *disk = arg;
    struct stat about;
    struct timespec now;
    const int fd =
        openat(disk->temporary_fd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

    if (fd < 0)
        return true;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    /* A young file may have just been made, and not be locked yet. */
    if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode) &&
        (about.st_mtime + LEFTOVER_AGE_S < now.tv_sec || about.st_mtime > now.tv_sec + 1) &&
        fry_disk_lock_byte(disk, fd, 0) == FERRY_OK)
        (void)unlinkat(disk->temporary_fd, name, 0);
    (void)close(fd);
    return true;
}

void fry_disk_tidy(fry_disk *disk)
{
    (void)fry_disk_names(disk, disk->temporary_fd, tidy_temporary, disk);
    fry_disk_sweep_all(disk, 0);
}

/* Removes what a power cut makes of a file that was not on the disk yet: nothing, or zeros. */
static bool remove_torn(void *arg, const char *key)
{
    static const char zeros[sizeof key_magic];
    fry_disk *disk = arg;
    fry_disk_key read;
    char magic[sizeof key_magic] = "";
    struct stat about;

    if (fry_disk_read(disk, key, &read) != FERRY_E_UNSUPPORTED)
        return true;
    const int fd = open_key(disk, key);
    if (fd < 0)
        return true;
    if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode) &&
        pread(fd, magic, sizeof magic, 0) >= 0 &&
        (memcmp(magic, zeros, sizeof magic) == 0 || memcmp(magic, key_magic, sizeof magic) == 0))
        (void)unlink_key(disk, key);
    (void)close(fd);
    return true;
}

void fry_disk_remove_torn(fry_disk *disk)
{
    (void)fry_disk_names(disk, disk->keys_fd, remove_torn, disk);
}
