/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of a file: store, and what one system call after the other can do with it. Nothing
 * here waits: a lock that somebody holds gives FERRY_E_BUSY.
 *
 *   keys/       a file for each key, named by it with + for /, never changed in place
 *   leases/     a file for each lease, whose holder writes on when it ends
 *   temporary/  files being written, renamed or linked into the others when they are whole
 *   state       one lock byte and one counter of versions for each of 64 groups of keys
 *
 * A key with a lease that has no file, or that is over, is not there: so all keys of a lease go at
 * one instant, when its file does, whatever becomes of who takes the rest away afterwards.
 */
#ifndef FRY_NET_STORE_DISK_H
#define FRY_NET_STORE_DISK_H

#include "net/store.h"

#define FRY_DISK_WHY_BYTES 160
#define FRY_DISK_NAME_BYTES (FRY_STORE_KEY_BYTES + 1)
#define FRY_DISK_GROUPS 64
#define FRY_DISK_FORMAT 1

typedef struct fry_disk {
    const fry_memory *memory;
    char *path; /* of the folder, from the root, as it was when it was opened */
    size_t path_bytes;
    int folder_fd, keys_fd, leases_fd, temporary_fd, state_fd;
    uint64_t folder_device, folder_number; /* held by folder_fd, so no other can have them */
    bool is_gone;                          /* somebody was told so */
    uint32_t file_mode;
    uint64_t clock;   /* what ends_ns of leases counts by: equal numbers, equal clocks */
    uint64_t written; /* temporary files so far */
    uint64_t nonce;
    char boot[40]; /* of the machine; empty: not known */
    char *buffer;  /* the last file read whole */
    size_t buffer_bytes;
    char why[FRY_DISK_WHY_BYTES]; /* of the last failure */
    int code;                     /* its errno; 0: the system did not refuse it */
} fry_disk;

/* A key's file as it was read; `entry` is valid until the next read. */
typedef struct fry_disk_key {
    fry_store_entry entry;
    uint64_t lease;
} fry_disk_key;

typedef struct fry_disk_lease {
    uint64_t id;
    int64_t ends_ns, ttl_ns;
    bool is_dead;        /* its holder, or the boot it was of */
    bool is_other_clock; /* ends_ns says nothing here, only that it changes */
} fry_disk_lease;

/* What sets or deletes a key. */
typedef struct fry_disk_change {
    const fry_store_request *request;
    int lease_fd, guard_fd; /* of its leases, if it has them */
    int64_t lease_left_ns, guard_left_ns;
    /* Whether a lease that a file names is over: whoever asks may know more than the disk. */
    bool (*is_over)(void *arg, uint64_t lease);
    void *arg;
} fry_disk_change;

/* Whether a file system, by statfs's f_type, is one of a network, or may be. */
bool fry_disk_is_remote(uint64_t type);

/*
 * Makes the folder if it is not there and may be made (its parts are made in any case). FERRY_OK,
 * _E_UNSUPPORTED, _E_STORE, _E_NO_MEMORY; then disk->why says more.
 */
ferry_status fry_disk_open(fry_disk *disk, const fry_memory *memory, const char *folder,
                           bool is_real_clock, bool may_make);
void fry_disk_close(fry_disk *disk);

/* FERRY_OK, _E_NOT_FOUND, _E_STORE, _E_NO_MEMORY. */
ferry_status fry_disk_read(fry_disk *disk, const char *key, fry_disk_key *to);

/*
 * As the verbs of a store, or FERRY_E_FENCED by its guard; on FERRY_E_CHANGED and on success *to is
 * what is there, on success without its value. FERRY_E_BUSY: try again.
 */
ferry_status fry_disk_change_key(fry_disk *disk, const fry_disk_change *change, fry_disk_key *to);

/* Takes away a key's file if it is of this lease, that is over. Busy or failing: it stays. */
void fry_disk_sweep(fry_disk *disk, const char *key, uint64_t lease);

/* The same for all of a lease (0: of all those that have no file). */
void fry_disk_sweep_all(fry_disk *disk, uint64_t lease);

/* Takes away what dead writers have left. */
void fry_disk_tidy(fry_disk *disk);

/* Calls fn with each name in keys/, as a key, or in leases/. False from fn ends it. */
typedef bool (*fry_disk_name_fn)(void *arg, const char *name);
ferry_status fry_disk_names(fry_disk *disk, int folder_fd, fry_disk_name_fn fn, void *arg);

/* Makes a lease's file, held by the descriptor that is given: its locks tell that we live. */
ferry_status fry_disk_lease_make(fry_disk *disk, int64_t ttl_ns, int64_t ends_ns, uint64_t *id_p,
                                 int *fd_p);

/* Writes a new end. FERRY_E_NOT_FOUND: it was ended. FERRY_E_BUSY: try again. */
ferry_status fry_disk_lease_extend(fry_disk *disk, int fd, int64_t ends_ns);

/* FERRY_E_NOT_FOUND: it has no file. */
ferry_status fry_disk_lease_read(fry_disk *disk, uint64_t id, fry_disk_lease *to);
bool fry_disk_lease_exists(fry_disk *disk, uint64_t id);

/*
 * Takes the file of a lease away if it still ends when `seen` says, or its holder is dead.
 * FERRY_E_BUSY: it is being kept alive, or ended by another.
 */
ferry_status fry_disk_lease_end(fry_disk *disk, const fry_disk_lease *seen);

/* Its own. */
void fry_disk_lease_drop(fry_disk *disk, uint64_t id);

/* An id as the name of a lease's file, and back; 0: it is no lease's. */
void fry_disk_name_of_lease(uint64_t id, char name[FRY_DISK_NAME_BYTES]);
uint64_t fry_disk_lease_id(const char *name);

/* The key whose file has a name; false: none has it. */
bool fry_disk_key_of_name(const char *name, char to[FRY_STORE_KEY_BYTES + 1]);

/* Takes away what a power cut has torn. */
void fry_disk_remove_torn(fry_disk *disk);

/*
 * Whether the folder and its parts are still those that were opened: not removed, nor moved away so
 * that whoever opens the store now has another.
 */
bool fry_disk_is_whole(const fry_disk *disk);

/*
 * The half of it that nothing else tells: that the folder's name means the folder. One system call
 * where all of it is five; a change looks at all of it under its lock.
 */
bool fry_disk_is_named(const fry_disk *disk);

/* --- Of net/store_disk*.c among themselves --- */

/* The file `state`. */
typedef struct fry_disk_state {
    char magic[8];
    uint32_t format, group_count;
    char boot[40];
    uint64_t versions[FRY_DISK_GROUPS];
} fry_disk_state;

/* Keep in disk->why what went wrong, the first by errno, and give the status for it. */
ferry_status fry_disk_failed(fry_disk *disk, const char *what);
ferry_status fry_disk_refused(fry_disk *disk, ferry_status status, const char *why);
ferry_status fry_disk_gone(fry_disk *disk);

/* FERRY_E_BUSY: somebody has it. */
ferry_status fry_disk_lock_byte(fry_disk *disk, int fd, int64_t at);
void fry_disk_unlock_byte(int fd, int64_t at);

/*
 * A new file in temporary/, locked while it is open: so who tidies up knows a writer that is slow
 * from one that is dead.
 */
ferry_status fry_disk_make_temporary(fry_disk *disk, char name[FRY_DISK_NAME_BYTES], int *fd_p);
ferry_status fry_disk_write_all(fry_disk *disk, int fd, const void *bytes, size_t count, size_t at);

#endif
