/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What mem: stores of one name share: keys, leases, and who has it open. One mutex for all of them,
 * held for moments; nobody is called back, and nothing big is copied, while it is held.
 *
 * A key has one slot, and slots stand in the order of their last changes, the deleted ones too. So
 * a watch is no more than the revision up to which it has told: what comes behind that is what is
 * to tell, each key once. Deleted slots go when every watch is past them.
 */
#ifndef FRY_NET_STORE_SPACE_H
#define FRY_NET_STORE_SPACE_H

#include "net/store.h"

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include <pthread.h>

/* What a key was set to. Never changed; freed with the last reference, by any thread. */
typedef struct fry_record {
    uint32_t references; /* atomic */
    uint64_t version;
    size_t size_bytes, value_bytes;
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

typedef enum mem_lease_state {
    LEASE_NEW,     /* its holder is not told yet */
    LEASE_GRANTED, /* told */
    LEASE_ENDED,   /* its keys are gone; its holder is to be told */
} mem_lease_state;

typedef struct mem_store mem_store;

typedef struct mem_lease {
    LIST_ENTRY(mem_lease) entry;
    mem_store *holder;
    uint64_t id;
    int64_t ends_ns; /* on the holder's clock */
    mem_lease_state state;
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
    fry_store base;
    mem_space *space;
    LIST_ENTRY(mem_store) entry;
    fry_watch signal; /* an eventfd, edge-triggered and never read, as the poller's own */
    fry_timer expiry; /* while there are watches: when the first lease may end */
    uint64_t seen;    /* no watch is behind this revision; UINT64_MAX: there is none */
    bool is_signalled;
};

/* Held for all that follows but what is of records alone. */
extern pthread_mutex_t fry_space_lock;

/* A record with one reference; NULL: no memory. Its version is set by fry_space_set. */
fry_record *fry_record_new(const char *key, const void *value, size_t value_bytes);
fry_record *fry_record_retain(fry_record *item);
void fry_record_release(fry_record *item);
fry_store_entry fry_record_entry(const fry_record *item, bool with_value);

/* Finds a space, or makes it; NULL: no memory. It is freed by who leaves it last. */
mem_space *fry_space_open(const char *name);
void fry_space_free(mem_space *in);

/* Wakes a store's reactor, once until it runs. */
void fry_mem_signal(mem_store *self);

/* The slot of a key that is there; NULL: it is not. */
mem_slot *fry_space_find(mem_space *in, const char *key);
void fry_space_delete(mem_space *in, mem_slot *gone);

/* Sets a key to a record, whose reference goes in. *spare_p becomes its slot if it has none. */
void fry_space_set(mem_space *in, mem_slot **spare_p, fry_record *to, uint64_t lease);

/* Frees what every watch knows to be gone, once it is worth the look. */
void fry_space_collect(mem_space *in);

bool fry_space_has_prefix(const char *key, const char *prefix); /* NULL: any has it */

/* References to all with a prefix, in order, in memory to free. NULL with a count: no memory. */
fry_record **fry_space_list(mem_space *in, const char *prefix, size_t *count_p,
                            size_t *value_bytes_p);

mem_lease *fry_space_lease(mem_space *in, uint64_t id);
void fry_space_delete_of(mem_space *in, uint64_t lease);

/* Ends what has run out, whoever is looking; what is left may last until *next_in_ns from now. */
void fry_space_expire(mem_space *in, int64_t *next_in_ns);

#endif
