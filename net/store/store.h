/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where members meet: a small key-value store with leases and watches. One interface has three
 * implementations (`mem:`, `file:DIR`, `etcd://HOST:PORT,...`), which behave alike: one conformance
 * suite tests them all.
 *
 * The loop of the store's reactor calls everything, and is called back, but never within the call
 * that asked. Requests, watches and leases are the caller's memory, from the call until `done`, or
 * until the cancel, stop or close has returned. What comes from a store is untrusted: sizes and
 * syntax are checked here, the caller checks the meaning.
 *
 * Keys are 1 to FRY_STORE_KEY_BYTES bytes of A-Z a-z 0-9 . _ - / without a part that is empty or of
 * dots alone. Values are any bytes, at most FRY_STORE_VALUE_BYTES. A version is a number that grows
 * with every change of a key. In a store's life no two values of a key have the same version. No
 * version is 0. A store that was emptied, restored from a copy or replaced begins another life, and
 * its watches say so (FRY_STORE_IS_ANOTHER). A store reports other processes' changes within a
 * second or so, usually at once.
 */
#ifndef FRY_NET_STORE_STORE_H
#define FRY_NET_STORE_STORE_H

#include "base/error.h"
#include "net/async.h"
#include "net/reactor.h"

#include <bsd/sys/queue.h>

#define FRY_STORE_KEY_BYTES 255
#define FRY_STORE_VALUE_BYTES ((size_t)512 * 1024)
#define FRY_STORE_ENTRIES_MAX 65536                     /* in a list, or followed by a watch */
#define FRY_STORE_LIST_BYTES ((size_t)64 * 1024 * 1024) /* of values in a list */
#define FRY_STORE_LEASE_MIN_NS INT64_C(2000000000)
#define FRY_STORE_LEASE_MAX_NS (INT64_C(86400) * 1000000000)

typedef struct fry_store fry_store;
typedef struct fry_store_request fry_store_request;
typedef struct fry_store_watch fry_store_watch;
typedef struct fry_store_lease fry_store_lease;

typedef enum fry_store_verb {
    FRY_STORE_GET,    /* gives the entry. FERRY_E_NOT_FOUND */
    FRY_STORE_PUT,    /* sets the key in any case; gives the entry without its value */
    FRY_STORE_CREATE, /* sets the key if it is absent; else FERRY_E_CHANGED with the entry */
    FRY_STORE_SWAP,   /* sets the key if it has `version`; else FERRY_E_CHANGED with the entry, or
                         FERRY_E_NOT_FOUND */
    FRY_STORE_DELETE, /* `version` 0: any version; else as SWAP. FERRY_E_NOT_FOUND */
    FRY_STORE_LIST, /* gives all entries whose keys begin with `key` (NULL: all), by key; OK also if
                       there is none. Each entry is from some moment of the request */
} fry_store_verb;

/* Valid during the call to which it is given. */
typedef struct fry_store_entry {
    const char *key;
    const void *value; /* followed by a zero byte, which value_bytes does not count */
    size_t value_bytes;
    uint64_t version;
} fry_store_entry;

/*
 * Other statuses: FERRY_E_DEADLINE (the change may have happened all the same, or may happen yet),
 * FERRY_E_STORE (refused, full, unreachable for good, not a store, a lease that has ended; `why`
 * says more), FERRY_E_FENCED (its guard does not hold), FERRY_E_INVALID (an invalid key, value,
 * version or lease; a lease that was not granted), FERRY_E_NO_MEMORY. A store that can't be reached
 * now is tried again until the deadline. An attempt whose answer was lost is not repeated blindly:
 * CREATE, SWAP and DELETE first look whether the change that they find is their own. etcd decides
 * that by value and lease, so two callers that create the same value without a lease may both hear
 * FERRY_OK. Callers that must know who won name themselves in the value. `why` is one sentence, or
 * NULL.
 */
typedef void (*fry_store_done_fn)(fry_store_request *request, ferry_status status,
                                  const fry_store_entry *entries, size_t count, const char *why);

struct fry_store_request {
    fry_async async; /* the store's own */
    fry_store_verb verb;
    const char *key;   /* borrowed until done, like the value */
    const void *value; /* PUT, CREATE, SWAP */
    size_t value_bytes;
    uint64_t version;       /* SWAP, DELETE */
    fry_store_lease *lease; /* PUT, CREATE, SWAP: the key goes with this lease; NULL: the key stays.
                               A SWAP or PUT without a lease takes the key out of its former lease.
                               Read only during fry_store_submit */
    /*
     * CREATE, SWAP: the change is made only if this key is in this lease at that moment; else
     * FERRY_E_FENCED. So a request changes nothing if its writer's lease is over, or if it comes in
     * the store's next life. NULL: no condition. The lease is read like the other.
     */
    const char *guard_key;
    fry_store_lease *guard_lease;
    int64_t deadline_ns; /* on the reactor's clock; 0: none */
    fry_store_done_fn done;
    void *arg;
    /* The store's own. */
    fry_store *store;
    uint64_t lease_id, guard_id; /* numbers of the leases; 0: none */
    void *private_;              /* the implementation's; NULL: not begun */
};

typedef enum fry_store_event {
    FRY_STORE_IS_PUT,     /* the key is new or has changed: gives the entry */
    FRY_STORE_IS_DELETED, /* deleted, or its lease ended: gives key and last known version */
    FRY_STORE_IS_LISTED,  /* once, when all that was there at the start has been told; the watch is
                             healthy from then on */
    FRY_STORE_IS_HEALTHY, /* only after a loss: what the watch has told is what the store has, or
                             had a second ago */
    FRY_STORE_IS_LOST, /* the store can't be reached, so its contents are not known. When it can be
                          reached again, the changes since then are told, then FRY_STORE_IS_HEALTHY.
                          A watch that is lost before it was listed may be told the same twice */
    FRY_STORE_IS_ANOTHER, /* the store has lost its past: it was emptied, restored from a copy, or
                             replaced. Versions told before mean nothing any more. All that is there
                             is told anew; then what is gone is told as deleted */
} fry_store_event;

/*
 * Each key's changes are told in the order of the store. Changes in quick succession may be told as
 * one, also if the key goes and comes back. A deletion is told only if the store was seen not to
 * have the key, never for lack of contact. It may be of a key that was not told before, if the
 * coming and going were told as one.
 */
typedef void (*fry_store_watch_fn)(fry_store_watch *watch, fry_store_event event,
                                   const fry_store_entry *entry);

struct fry_store_watch {
    const char *prefix; /* borrowed while the watch is on; "": all keys */
    fry_store_watch_fn fn;
    void *arg;
    /* The store's own. */
    fry_store *store;
    LIST_ENTRY(fry_store_watch) entry;
    void *private_;
    unsigned private_state;
    bool is_on, is_lost, is_listed;
};

typedef enum fry_lease_event {
    FRY_LEASE_GRANTED, /* once */
    FRY_LEASE_REFUSED, /* not granted by its deadline, or for good: the lease is off */
    FRY_LEASE_ENDED,   /* it ran out or was taken away: its keys go, and it is off */
} fry_lease_event;

typedef void (*fry_store_lease_fn)(fry_store_lease *lease, fry_lease_event event, const char *why);

/*
 * The store keeps a lease alive every third of its time, until the lease is closed. The renewals
 * also show when the store was there for this holder, and so for others.
 */
struct fry_store_lease {
    fry_async grant; /* the store's own */
    int64_t ttl_ns; /* FRY_STORE_LEASE_MIN_NS to _MAX_NS, else refused; etcd rounds up to seconds */
    int64_t deadline_ns; /* for the grant; 0: none */
    fry_store_lease_fn fn;
    void *arg;
    /* The store's own. */
    fry_store *store;
    LIST_ENTRY(fry_store_lease) entry;
    fry_timer timer; /* the implementation's */
    uint64_t id;
    int64_t ends_ns; /* as far as known; on the reactor's clock */
    bool is_on, is_granted;
    void *private_;
    fry_timer late_timer;        /* while a renewal is not answered: when that has taken too long */
    int64_t asked_ns;            /* when the first unanswered renewal was asked for; 0: none */
    int64_t renewed_ns;          /* when the last answered renewal was asked for */
    int64_t steady_ns, there_ns; /* see fry_store_lease_steady_ns */
    bool is_slow;                /* was reported */
};

typedef struct fry_store_options {
    const char *user, *password; /* etcd; NULL: none */
    const char *ca_path; /* etcd with TLS (etcds://): trusted certificates; NULL: the system's */
    const char *certificate_path, *key_path; /* the client's own; NULL: none */
} fry_store_options;

/*
 * Closes a store. No request, watch or lease may be on, and no callback of the store running. Asks
 * nobody and waits for nothing. NULL is allowed.
 */
void fry_store_close(fry_store *store);

/* The URI without a password, for messages. */
const char *fry_store_name(const fry_store *store);

/* Why the store can't be reached, as last heard, or NULL. Valid until the next event. */
const char *fry_store_trouble(const fry_store *store);

/* The shortest time of an answer; 0: no answer yet, or at once. */
int64_t fry_store_round_trip_ns(const fry_store *store);

/* Begins a request; `done` is called exactly once, unless it is cancelled. */
void fry_store_submit(fry_store *store, fry_store_request *request);

/* Cancels a request that is on: `done` is not called. The change may happen or not. */
void fry_store_cancel(fry_store_request *request);

/* Follows the keys that begin with watch->prefix. */
void fry_store_watch_start(fry_store *store, fry_store_watch *watch);
void fry_store_watch_stop(fry_store_watch *watch);

/* Takes a lease. */
void fry_store_lease_open(fry_store *store, fry_store_lease *lease);

/*
 * Closes a lease. Its keys go at once if the store can be reached, else when the lease has run out.
 * (The store asks in the background, in its own memory, until fry_store_close at the latest.) fn is
 * not called any more.
 */
void fry_store_lease_close(fry_store_lease *lease);

/*
 * Since when the store has been there, as this lease's renewals show; INT64_MAX: it is not known to
 * be there now. Strict: successive moments at which it was there were at most half a lease apart.
 * So a holder that could reach it and asked each third of a lease as long, or longer, has kept its
 * lease. Else: at most three quarters of a lease apart; it was there, though perhaps slow.
 */
int64_t fry_store_lease_steady_ns(const fry_store_lease *lease, bool is_strict);

/*
 * If a store needs more than a lease divided by this for an answer, it is too slow for the lease:
 * renewals of each third come too late as soon as one is lost.
 */
#define FRY_STORE_ROUND_TRIPS_PER_LEASE 4

/*
 * The functions of an implementation. store.c has checked their arguments and put them on its
 * lists. None calls back at once.
 *  submit      begins a request, which ends with fry_store_finish, or fry_async_finish_soon if it
 *              fails at once, unless cancel comes first
 *  cancel      forgets a request that was submitted, for a cancel or a deadline
 *  lease_open  ends with fry_store_lease_granted or _gone, or fry_async_finish_soon if it fails at
 *              once, unless lease_close comes first
 *  lease_close of a lease that is on, granted or not
 */
typedef struct fry_store_ops {
    void (*close)(fry_store *store);
    void (*submit)(fry_store *store, fry_store_request *request);
    void (*cancel)(fry_store_request *request);
    void (*watch_start)(fry_store *store, fry_store_watch *watch);
    void (*watch_stop)(fry_store_watch *watch);
    void (*lease_open)(fry_store *store, fry_store_lease *lease);
    void (*lease_close)(fry_store_lease *lease);
} fry_store_ops;

#define FRY_STORE_TROUBLE_BYTES 160

/* First in each implementation's own struct. Zeroed, then begun by fry_store_init. */
struct fry_store {
    const fry_store_ops *ops;
    fry_reactor *reactor;
    char *name;
    size_t name_bytes;
    char trouble[FRY_STORE_TROUBLE_BYTES];
    int64_t round_trip_ns; /* the shortest; 0: none */
    fry_provider requests, grants;
    LIST_HEAD(, fry_store_watch) watches;
    LIST_HEAD(, fry_store_lease) leases;
    fry_store_watch *next_watch, *told_watch;
    fry_store_lease *next_lease;
};

/*
 * For implementations. Callbacks may begin and end requests, watches and leases of the store. So a
 * walk through a list that calls back takes the next element from `next_watch` or `next_lease`,
 * which store.c keeps right. One walk of each kind at a time.
 */
#define FRY_STORE_EACH_WATCH(watch, store)                                                         \
    for ((watch) = LIST_FIRST(&(store)->watches);                                                  \
         (watch) != NULL && ((store)->next_watch = LIST_NEXT(watch, entry), true);                 \
         (watch) = (store)->next_watch)
#define FRY_STORE_EACH_LEASE(lease, store)                                                         \
    for ((lease) = LIST_FIRST(&(store)->leases);                                                   \
         (lease) != NULL && ((store)->next_lease = LIST_NEXT(lease, entry), true);                 \
         (lease) = (store)->next_lease)

void fry_store_init(fry_store *store, fry_reactor *reactor, const fry_store_ops *ops);

/* Sets why the store can't be reached; NULL: it can, again. */
void fry_store_set_trouble(fry_store *store, const char *why);

/* The first request that waits to be begun: its private_ is NULL. NULL: there is none. */
fry_store_request *fry_store_next_request(const fry_store *store);

/* Ends a request and calls its done. Not within a call of the user's. */
void fry_store_finish(fry_store_request *request, ferry_status status,
                      const fry_store_entry *entries, size_t count, const char *why);

/*
 * Tells a watch an event if it is news: LISTED once, LOST and HEALTHY in turns. False: the watch
 * was stopped meanwhile, and may be gone.
 */
bool fry_store_tell(fry_store_watch *watch, fry_store_event event, const fry_store_entry *entry);

/* Notes the time in which the store answered a request, without the time before it was sent. */
void fry_store_answered_in(fry_store *store, int64_t round_trip_ns);

void fry_store_lease_granted(fry_store_lease *lease);

/* A renewal is asked for now; was answered (it was asked for at asked_ns); has failed. */
void fry_store_lease_asks(fry_store_lease *lease);
void fry_store_lease_renewed(fry_store_lease *lease, int64_t asked_ns);
void fry_store_lease_not_renewed(fry_store_lease *lease);

/* REFUSED or ENDED: the lease is off. The implementation frees lease->private_ before. */
void fry_store_lease_gone(fry_store_lease *lease, fry_lease_event event, const char *why);

/* A hash of 64 bits. Any thread. */
uint64_t fry_store_hash(const void *bytes, size_t count);

/* Whether a text is a key, as defined above. Any thread. */
bool fry_store_is_key(const char *key);

/* Makes an error for opening, FERRY_E_STORE or another: sets *error_p and returns `status`. */
ferry_status fry_store_error(const fry_memory *memory, ferry_status status, fry_error **error_p,
                             const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
