/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem:NAME, a store of this process alone: for engines of one process, and for tests. It lives as
 * long as anybody has it open.
 *
 * Stores of one name share a space: keys, leases, and the stores that have it open. One mutex
 * serves all spaces. It is held for moments; nobody is called back, and nothing big is copied,
 * while it is held. A change wakes the other stores' reactors by an eventfd each, not by a job: a
 * posted job can't be taken back when its store is closed.
 *
 * Each store with watches has a queue of changed keys, including its own changes. A store that does
 * not look for long misses changes for which its queue had no room: then it goes through all keys.
 *
 * A lease runs by the clock of its holder's reactor. Any store reads that clock, so that the keys
 * of a holder whose reactor does not run go all the same.
 */
#ifndef FRY_NET_STORE_MEM_H
#define FRY_NET_STORE_MEM_H

#include "net/store/local.h"

#include <bsd/sys/tree.h>

#include <pthread.h>

/*
 * The value of a key. Only its place in the space changes. The last reference, in any thread, frees
 * it.
 */
typedef struct mem_record {
    RB_ENTRY(mem_record) entry;
    uint32_t references;     /* atomic */
    uint64_t version, lease; /* lease 0: none */
    size_t value_bytes;
    const char *key; /* in bytes, after the value */
    char bytes[];
} mem_record;

typedef struct mem_store mem_store;

typedef struct mem_lease {
    LIST_ENTRY(mem_lease) entry;
    mem_store *holder;
    uint64_t id;
    int64_t ends_ns; /* on the holder's clock */
    bool has_ended;  /* its keys are gone; its holder must be told */
} mem_lease;

typedef struct mem_space {
    LIST_ENTRY(mem_space) entry;
    LIST_HEAD(, mem_store) members;
    LIST_HEAD(, mem_lease) leases;
    RB_HEAD(mem_records, mem_record) records;
    size_t count; /* of records */
    uint64_t revision, lease_ids;
    char name[];
} mem_space;

typedef struct mem_change {
    STAILQ_ENTRY(mem_change) entry;
    char key[];
} mem_change;

struct mem_store {
    fry_local local;
    mem_space *space;
    LIST_ENTRY(mem_store) entry;
    fry_watch signal;  /* an eventfd, edge-triggered and never read, as the poller's own */
    mem_record *given; /* what the front was last given */
    int64_t next_ns;   /* when the first lease may end */
    STAILQ_HEAD(, mem_change) changes;
    size_t change_count;
    bool has_watches, has_missed, is_signalled;
};

ferry_status fry_mem_open(fry_reactor *reactor, const char *uri, const fry_store_options *options,
                          fry_store **store_p, fry_error **error_p);

/* Held for all functions below, except those of records alone. */
extern pthread_mutex_t fry_space_lock;

fry_store_entry fry_mem_entry(const mem_record *item);
void fry_mem_release(mem_record *item);

/* Finds a space, or makes it; NULL: no memory. The last store that leaves it frees it. */
mem_space *fry_space_open(const char *name);

/* Wakes a store's reactor, once until the reactor runs. */
void fry_mem_signal(mem_store *self);

void fry_space_delete(mem_space *in, mem_record *gone);

/* A reference to the first record after a key ("": the first record). NULL: there is none. */
mem_record *fry_space_next(mem_space *in, const char *key);

/* Ends leases that have run out, of any holder. The next may end *next_in_ns from now. */
void fry_space_expire(mem_space *in, int64_t *next_in_ns);

#endif
