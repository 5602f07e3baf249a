/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The front of the stores of one machine, mem: and file:. It has what both share: requests, leases
 * and watches. It does what it is asked in turns of the loop, never within the call that asks. A
 * turn makes the leases that were asked for, runs requests in the order of their submits, and tells
 * the watches what is new. A backend (fry_local_ops) reads, changes and lists entries, keeps
 * leases, and names the keys that have changed.
 *
 * The front knows the version of each key that a watch was told of. So it reads a changed key once
 * and tells the watches to which it is news. For a new watch, and whenever it is not known what has
 * changed, it compares all keys with what it knows: a scan.
 */
#ifndef FRY_NET_STORE_LOCAL_H
#define FRY_NET_STORE_LOCAL_H

#include "net/store/known.h"
#include "net/store/store.h"

/* The next try, if another process is busy with the same just now. */
#define FRY_LOCAL_SOON_NS INT64_C(20000000)
#define FRY_LOCAL_POLL_NS INT64_C(500000000) /* while the contents are not known */

typedef struct fry_local fry_local;

/* False: no more names are wanted. */
typedef bool (*fry_local_name_fn)(void *arg, const char *name);

/*
 * What a backend does. Only begin, end and follow may call back. With FERRY_E_STORE and
 * FERRY_E_NO_MEMORY fry_local's `why` says more.
 *  begin        begins a turn; may end leases. is_look: next_ns has come. False: there is no store
 *               at present
 *  end          after the requests of a turn; NULL: nothing to do
 *  read         gives an entry, valid until the next call here, and its lease (0: none).
 *               FERRY_E_NOT_FOUND: with a lease, if that is over. FERRY_E_UNSUPPORTED: the entry is
 *               not the store's
 *  sweep        removes what `read` did not find because of such a lease, if it still exists
 *  change       does what the verb says; FERRY_E_BUSY: try again. Gives, on FERRY_OK, the entry
 *               without its value, but for a DELETE; on FERRY_E_CHANGED the entry that is there
 *  names        gives fn each key once; *is_settled_p false: there may be others
 *  lease_make   sets id, and private_ as it likes; the lease lasts until lease->ends_ns
 *  lease_extend FERRY_E_NOT_FOUND: the lease is over. FERRY_E_BUSY: try again soon
 *  lease_drop   ends a lease that was made and not dropped, and its keys
 *  scan_starts  notes changes from here on. False: it can't, and there are scans now and then
 *  follow       calls fry_local_look for some changed keys. True: there are more
 *  follow_stop  the last watch was stopped
 *  next_ns      when a lease of another store may be over; INT64_MAX: never
 *  lost         called first by fry_local_lose; NULL: nothing to do
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
    fry_known_keys keys; /* keys that a watch was told of; their marks are leases */
    uint64_t scan;
    unsigned busy; /* how often in a row a request found FERRY_E_BUSY */
    bool is_followed, needs_scan;
    bool is_lost; /* the contents are not known, until a scan has succeeded */
};

/* Begins the front of a zeroed backend. */
void fry_local_init(fry_local *self, fry_reactor *reactor, const fry_local_ops *ops);

/* Runs a turn, when a descriptor of the backend shows that there is something to do. */
void fry_local_run(fry_local *self);

/* For `follow`: reads a key and tells its news. False: it can't be read. */
bool fry_local_look(fry_local *self, const char *key);

/* The same for all keys known to be of a lease. */
bool fry_local_look_at_keys_of(fry_local *self, uint64_t lease);

/* Notes that it is not known what has changed: a scan is needed. */
void fry_local_lose(fry_local *self);

/* Notes that the store is another one: the next scan tells everything anew, or as deleted. */
void fry_local_is_another(fry_local *self);

/* Drops a lease that is over, and tells its holder. */
void fry_local_lease_ended(fry_local *self, fry_store_lease *lease);

#endif
