/* SPDX-License-Identifier: Apache-2.0 */
/* What net/store_file.c (requests and leases) and net/store_file_watch.c share. Loop only. */
#ifndef FRY_NET_STORE_FILE_H
#define FRY_NET_STORE_FILE_H

#include "net/store_disk.h"

#include <bsd/sys/tree.h>
#include <unistd.h>

/* How much longer than its time a lease of a clock that we can't read has to stand still. */
#define FILE_OTHER_CLOCK_NS INT64_C(500000000)

typedef struct file_key file_key;
typedef struct file_lease file_lease;
typedef RB_HEAD(file_keys, file_key) file_keys;
typedef RB_HEAD(file_leases, file_lease) file_leases;

/* A key that a watch was told of. */
struct file_key {
    RB_ENTRY(file_key) entry;
    uint64_t version, lease;
    uint64_t scan; /* the last that found it */
    size_t size_bytes;
    const char *key; /* behind this */
};

struct file_lease {
    RB_ENTRY(file_lease) entry;
    uint64_t id;
    int64_t ends_ns;  /* as it was read last */
    int64_t seen_ns;  /* when that was first read, on our clock */
    int64_t read_ns;  /* when it was read last */
    int64_t again_ns; /* when to read it again, whatever is known; 0: no need */
    int64_t ttl_ns;
    bool is_other_clock;
};

typedef struct file_name {
    char *key;
    size_t bytes;
} file_name;

typedef struct file_store {
    fry_store base;
    fry_disk disk;
    fry_timer turn;   /* requests, leases, scans: soon, or when a lock is tried again */
    fry_timer look;   /* while there are watches: when a lease may be over, or for a scan */
    fry_watch events; /* inotify; -1: there are no watches, or it can't be had */
    int keys_watch, leases_watch;
    file_keys keys;
    file_leases leases;
    uint64_t scan;
    unsigned busy;      /* times that a lock was taken, in a row */
    int64_t removed_ns; /* when the folder was seen to be no more */
    int64_t again_ns;   /* is_removed: when to look for it again */
    bool needs_scan, needs_sweep, is_lost, is_removed, has_said_polls;
} file_store;

/* Ends a lease that is over; false also where it can't be said. */
bool fry_file_lease_is_over(void *self, uint64_t id);
bool fry_file_key_is_over(file_store *self, uint64_t lease);

/* Has a lease that is not over by now looked at again in a moment. */
void fry_file_look_again(file_store *self, uint64_t lease);
void fry_file_read_leases(file_store *self);
void fry_file_forget_leases(file_store *self);
void fry_file_look_at_leases(file_store *self);
int64_t fry_file_next_end_ns(file_store *self);

/* The keys with a prefix, in order; what is given is to be freed, also on failure. */
ferry_status fry_file_names(file_store *self, const char *prefix, file_name **names_p,
                            size_t *count_p, size_t *room_p);
void fry_file_free_names(file_store *self, file_name *names, size_t count, size_t room);

/* What can't be read, or not be there, is not known, until a scan has gone through. */
void fry_file_lose(file_store *self);

/* Takes what is at the folder's name now, if it is time. False: the store has no folder. */
bool fry_file_take_again(file_store *self);

/* Its own leases are no more: tells their holders. */
void fry_file_end_leases(file_store *self, const char *why);

void fry_file_init_watching(file_store *self);
void fry_file_stop_watching(file_store *self);
void fry_file_run_watches(file_store *self);
void fry_file_watch_start(fry_store *store, fry_store_watch *watch);
void fry_file_watch_stop(fry_store_watch *watch);

#endif
