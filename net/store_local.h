/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The front of the stores of one machine, mem: and file:. Requests, leases and watches are the same
 * in both, and are here. What is asked for is done in turns of the loop, never within the call that
 * asks: a turn makes the leases that were asked for, runs requests in the order of their submits,
 * and tells the watches what is new. A backend (fry_local_ops) reads, changes and lists entries,
 * keeps leases, and names the keys that have changed.
 *
 * The front knows the version of each key that a watch was told of. So a key that has changed is
 * read once and told to whom it is news. For a new watch, and whenever it is not known what has
 * changed, all keys are gone through and compared with what is known: a scan.
 */
#ifndef FRY_NET_STORE_LOCAL_H
#define FRY_NET_STORE_LOCAL_H

#include "net/store_known.h"

/* Again so soon where somebody else is at it just now. */
#define FRY_LOCAL_SOON_NS INT64_C(20000000)
#define FRY_LOCAL_POLL_NS INT64_C(500000000) /* while it is not known what there is */

typedef struct fry_local fry_local;

/* False: no more names are wanted. */
typedef bool (*fry_local_name_fn)(void *arg, const char *name);

/*
 * What a backend does. Only begin, end and follow may call back. Where a status is given,
 * FERRY_E_STORE and FERRY_E_NO_MEMORY leave what is wrong in fry_local's `why`.
 *  begin        of a turn; it may tell of leases that have ended. is_look: the moment of next_ns
 *               has come. False: it has no store at present
 *  end          of the requests of a turn; NULL: nothing is to be done then
 *  read         an entry, valid until the next call here, and its lease, 0: none.
 *               FERRY_E_NOT_FOUND: of a lease that is over, if it has one. FERRY_E_UNSUPPORTED:
 *               what is there is not the store's
 *  sweep        takes away what `read` did not find for such a lease, if it is there yet
 *  change       as the request's verb says; FERRY_E_BUSY: to be asked for again. On FERRY_OK, but
 *               for a DELETE, the entry without its value, on FERRY_E_CHANGED the one that is there
 *  names        gives fn each key once; *is_settled_p false: there may be others
 *  lease_make   sets id, and private_ to what it likes; it lasts until lease->ends_ns
 *  lease_extend FERRY_E_NOT_FOUND: it is over. FERRY_E_BUSY: again soon
 *  lease_drop   of one that was made and has not been dropped: it and its keys are no more
 *  scan_starts  from here on changes are noted. False: it can't; there will be scans now and then
 *  follow       calls fry_local_look for some of what has changed. True: there is more
 *  follow_stop  there are no watches any more
 *  next_ns      when a lease may be over that is not this store's own; INT64_MAX: never
 *  lost         what fry_local_lose does first; NULL: nothing more
 */
typedef struct fry_local_ops {
    void (*close)(fry_local *self);
    bool (*begin)(fry_local *self, bool is_look);
    void (*end)(fry_local *self);
    ferry_status (*read)(fry_local *self, const char *key, fry_store_entry *entry,
                         uint64_t *lease_p);
    void (*sweep)(fry_local *self, const char *key, uint64_t lease);
    ferry_status (*change)(fry_local *self, const fry_store_request *request,
                           fry_store_entry *entry);
    ferry_status (*names)(fry_local *self, fry_local_name_fn fn, void *arg, bool *is_settled_p);
    ferry_status (*lease_make)(fry_local *self, fry_store_lease *lease);
    ferry_status (*lease_extend)(fry_local *self, fry_store_lease *lease, int64_t ends_ns);
    void (*lease_drop)(fry_local *self, fry_store_lease *lease);
    bool (*scan_starts)(fry_local *self);
    bool (*follow)(fry_local *self);
    void (*follow_stop)(fry_local *self);
    int64_t (*next_ns)(fry_local *self);
    void (*lost)(fry_local *self);
} fry_local_ops;

/* First in a backend's own struct. */
struct fry_local {
    fry_store base;
    const fry_local_ops *ops;
    const char *why;     /* of the last failure */
    fry_timer turn;      /* soon, or when a request that found FERRY_E_BUSY is tried again */
    fry_timer look;      /* while there are watches: when a lease may be over, or for a scan */
    fry_known_keys keys; /* that a watch was told of; their marks are leases */
    uint64_t scan;
    unsigned busy; /* how often in a row a request was */
    bool is_followed, needs_scan;
    bool is_lost; /* what there is is not known, until a scan has gone through */
};

/* Begins the front of a backend that is zeroed. */
void fry_local_init(fry_local *self, fry_reactor *reactor, const fry_local_ops *ops);

/* A turn, when a descriptor of the backend's says that there is something to do. */
void fry_local_run(fry_local *self);

/* For `follow`: reads a key and tells what is new of it. False: it can't be read. */
bool fry_local_look(fry_local *self, const char *key);

/* The same for all keys that are known to be of a lease. */
bool fry_local_look_at_keys_of(fry_local *self, uint64_t lease);

/* What has changed is not known: a scan is needed. */
void fry_local_lose(fry_local *self);

/* The store is another: what was told is told anew, or to be deleted, by the scan that follows. */
void fry_local_is_another(fry_local *self);

/* Drops a lease that is over, and tells its holder. */
void fry_local_lease_ended(fry_local *self, fry_store_lease *lease);

#endif
