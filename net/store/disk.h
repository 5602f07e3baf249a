/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of a file: store, and operations on it, each a few system calls. Nothing here waits: a
 * lock that is taken gives FERRY_E_BUSY.
 *
 *   keys/       a file for each key, with the key's name but + for /; never changed in place
 *   leases/     a file for each lease, into which its holder writes when the lease ends
 *   temporary/  files being written; whole files are renamed or linked into the other folders
 *   state       a lock byte and a counter of versions for each of 64 groups of keys
 *
 * A key whose lease has no file, or is over, does not exist. So all keys of a lease go at one
 * instant, when its file goes, whoever removes their files afterwards.
 */
#ifndef FRY_NET_STORE_DISK_H
#define FRY_NET_STORE_DISK_H

#include "net/store/store.h"

#define FRY_DISK_NAME_BYTES (FRY_STORE_KEY_BYTES + 1)
#define FRY_DISK_GROUPS 64
#define FRY_DISK_FORMAT 1

typedef struct fry_disk {
    const fry_memory *memory;
    char *path; /* absolute path of the folder when it was opened */
    size_t path_bytes;
    int folder_fd, keys_fd, leases_fd, temporary_fd, state_fd;
    uint64_t folder_device, folder_number; /* folder_fd keeps them from other folders */
    bool is_gone;                          /* a caller was told so */
    uint32_t file_mode;
    uint64_t clock;   /* identifies the clock of leases' ends_ns: equal numbers, equal clocks */
    uint64_t written; /* number of temporary files so far */
    uint64_t nonce;
    char boot[40]; /* the machine's boot id; empty: not known */
    char *buffer;  /* holds the last file that was read whole */
    size_t buffer_bytes;
    fry_fault fault; /* the last */
} fry_disk;

/* A key's file; `entry` is valid until the next read. */
typedef struct fry_disk_key {
    fry_store_entry entry;
    uint64_t lease;
} fry_disk_key;

typedef struct fry_disk_lease {
    uint64_t id;
    int64_t ends_ns, ttl_ns;
    bool is_dead;        /* the holder is dead, or its boot is over */
    bool is_other_clock; /* ends_ns is of another clock: only its changes count */
} fry_disk_lease;

/* A request that sets or deletes a key. */
typedef struct fry_disk_change {
    const fry_store_request *request;
    int lease_fd, guard_fd; /* of its lease and its guard's lease, if any */
    int64_t lease_left_ns, guard_left_ns;
    /* Whether a lease that a file names is over: the caller may know more than the disk. */
    bool (*is_over)(void *arg, uint64_t lease);
    void *arg;
} fry_disk_change;

/* FERRY_OK, _E_NOT_FOUND, _E_STORE, _E_NO_MEMORY. */
ferry_status fry_disk_read(fry_disk *disk, const char *key, fry_disk_key *to);

/*
 * Changes a key as the store's verbs do. FERRY_E_FENCED: by its guard. FERRY_E_BUSY: try again. On
 * success and FERRY_E_CHANGED *to is the entry, on success without its value.
 */
ferry_status fry_disk_change_key(fry_disk *disk, const fry_disk_change *change, fry_disk_key *to);

/* Removes a key's file if it is of this lease, which is over. Busy or failing: it stays. */
void fry_disk_sweep(fry_disk *disk, const char *key, uint64_t lease);

/* The same for all keys of a lease (0: of all leases without a file). */
void fry_disk_sweep_all(fry_disk *disk, uint64_t lease);

/* Removes what dead writers have left. */
void fry_disk_tidy(fry_disk *disk);

/* Calls fn with each key of keys/, or each name in leases/. False from fn ends this. */
typedef bool (*fry_disk_name_fn)(void *arg, const char *name);
ferry_status fry_disk_names(fry_disk *disk, int folder_fd, fry_disk_name_fn fn, void *arg);

bool fry_disk_lease_exists(fry_disk *disk, uint64_t id);

/* The name of a lease's file by its id, and back; 0: the name is no lease's. */
void fry_disk_name_of_lease(uint64_t id, char name[FRY_DISK_NAME_BYTES]);
uint64_t fry_disk_lease_id(const char *name);

/* The key whose file has a name; false: none has. */
bool fry_disk_key_of_name(const char *name, char to[FRY_STORE_KEY_BYTES + 1]);

/* Removes what a power cut has torn. */
void fry_disk_remove_torn(fry_disk *disk);

/*
 * Whether the folder and its parts are still those that were opened: not removed, and not moved
 * away so that others who open the store now get another folder.
 */
bool fry_disk_is_whole(const fry_disk *disk);

/*
 * The half of this that nothing else tells: that the folder's name means the folder. One system
 * call instead of five; a change checks all under its lock.
 */
bool fry_disk_is_named(const fry_disk *disk);

/* --- Shared by disk*.c --- */

/* The file `state`. */
typedef struct fry_disk_state {
    char magic[8];
    uint32_t format, group_count;
    char boot[40];
    uint64_t versions[FRY_DISK_GROUPS];
} fry_disk_state;

/* Set disk->fault, the first by errno, and return the status. */
ferry_status fry_disk_failed(fry_disk *disk, const char *what);
ferry_status fry_disk_refused(fry_disk *disk, ferry_status status, const char *why);
ferry_status fry_disk_gone(fry_disk *disk);

/* FERRY_E_BUSY: another has the lock. */
ferry_status fry_disk_lock_byte(fry_disk *disk, int fd, int64_t at);
void fry_disk_unlock_byte(int fd, int64_t at);

/*
 * Makes a file in temporary/, locked while it is open: the lock tells a slow writer from a dead
 * one.
 */
ferry_status fry_disk_make_temporary(fry_disk *disk, char name[FRY_DISK_NAME_BYTES], int *fd_p);
ferry_status fry_disk_write_all(fry_disk *disk, int fd, const void *bytes, size_t count, size_t at);

#endif
