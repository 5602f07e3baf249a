/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem:NAME, a store of this process alone: for engines of one process, and for tests. It lives as
 * long as anybody has it open.
 *
 * Stores of one name share a space: keys, leases, and who has it open. One mutex for all spaces,
 * held for moments; nobody is called back, and nothing big is copied, while it is held. A change
 * wakes the others' reactors by an eventfd each, not by a job: a job that is posted can't be taken
 * back when its store is closed.
 *
 * A key has one slot, and slots stand in the order of their last changes, the deleted ones too. So
 * what a store has still to look at is what comes behind the revision that it has seen, each key
 * once. Deleted slots go when every store with watches is past them.
 *
 * A lease goes by the clock of its holder's reactor, which whoever looks asks, so that the keys of
 * a holder whose reactor does not run go all the same.
 */
#ifndef FRY_NET_STORE_MEM_H
#define FRY_NET_STORE_MEM_H

#include "net/store_local.h"

#include <pthread.h>

/* What a key was set to. Never changed; freed with the last reference, by any thread. */
typedef struct fry_record {
    uint32_t references; /* atomic */
    uint64_t version;
    size_t value_bytes;
    const char *key; /* behind the value, in bytes */
    char bytes[];
} fry_record;

typedef struct mem_slot {
    RB_ENTRY(mem_slot) by_key;
    TAILQ_ENTRY(mem_slot) by_change;
    fry_record *record; /* of a deleted one the last */
    uint64_t changed;   /* the space's revision at its last change */
    uint64_t lease;     /* 0: none */
    bool is_deleted;
} mem_slot;

typedef RB_HEAD(mem_slots, mem_slot) mem_slots;

typedef struct mem_store mem_store;

typedef struct mem_lease {
    LIST_ENTRY(mem_lease) entry;
    mem_store *holder;
    uint64_t id;
    int64_t ends_ns; /* on the holder's clock */
    bool has_ended;  /* its keys are gone; its holder is to be told */
} mem_lease;

typedef struct mem_space {
    LIST_ENTRY(mem_space) entry;
    LIST_HEAD(, mem_store) members;
    LIST_HEAD(, mem_lease) leases;
    mem_slots slots;
    TAILQ_HEAD(mem_changes, mem_slot) changes; /* the latest last */
    uint64_t revision, lease_ids;
    size_t live, tombstones;
    char name[];
} mem_space;

struct mem_store {
    fry_local local;
    mem_space *space;
    LIST_ENTRY(mem_store) entry;
    fry_watch signal;  /* an eventfd, edge-triggered and never read, as the poller's own */
    int64_t next_ns;   /* when the first lease may end */
    fry_record *given; /* what the front was given last */
    uint64_t seen;     /* the revision that it has looked at; UINT64_MAX: there are no watches */
    bool is_signalled;
};

ferry_status fry_mem_open(fry_reactor *reactor, const char *uri, const fry_store_options *options,
                          fry_store **store_p, fry_error **error_p);

/* Held for all that follows but what is of records alone. */
extern pthread_mutex_t fry_space_lock;

fry_store_entry fry_record_entry(const fry_record *item);
void fry_record_release(fry_record *item);

/* Finds a space, or makes it; NULL: no memory. It is freed by who leaves it last. */
mem_space *fry_space_open(const char *name);

/* Wakes a store's reactor, once until it runs. */
void fry_mem_signal(mem_store *self);

void fry_space_delete(mem_space *in, mem_slot *gone);

/* References to all with a prefix, in order, in memory to free. NULL with a count: no memory. */
fry_record **fry_space_list(mem_space *in, const char *prefix, size_t *count_p);

/* Ends what has run out, whoever is looking; what is left may last until *next_in_ns from now. */
void fry_space_expire(mem_space *in, int64_t *next_in_ns);

#endif
