/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where members meet: a small key-value store with leases and watches. One interface, three
 * implementations (`mem:`, `file:DIR`, `etcd://HOST:PORT,...`) that behave alike, which one
 * conformance suite says.
 *
 * Everything is called by the loop of the reactor that the store was opened with, and calls back
 * there, never from within the call that asked. Requests, watches and leases are the caller's
 * memory, from the call until `done`, or until the cancel, stop or close has returned. What comes
 * from a store is untrusted: sizes and syntax are checked here, meaning is the caller's to check.
 *
 * Keys are 1 to FRY_STORE_KEY_BYTES bytes of A-Z a-z 0-9 . _ - / without an empty part, or one of
 * dots alone. Values are any bytes, at most FRY_STORE_VALUE_BYTES. A version is a number that grows
 * with every change of a key, never the same for two values of it in the life of a store; it is
 * never 0. A store that was emptied, restored from a copy or replaced begins another life: its
 * watches say so (FRY_STORE_IS_ANOTHER). A store tells of other processes' changes within a second
 * or so, most often at once.
 */
#ifndef FRY_NET_STORE_H
#define FRY_NET_STORE_H

#include "base/error.h"
#include "net/reactor.h"

#include <bsd/sys/queue.h>

#define FRY_STORE_KEY_BYTES 255
#define FRY_STORE_VALUE_BYTES ((size_t)512 * 1024)
#define FRY_STORE_ENTRIES_MAX 65536                     /* that a list gives, or a watch follows */
#define FRY_STORE_LIST_BYTES ((size_t)64 * 1024 * 1024) /* of values that a list gives */
#define FRY_STORE_LEASE_MIN_NS INT64_C(2000000000)
#define FRY_STORE_LEASE_MAX_NS (INT64_C(86400) * 1000000000)

typedef struct fry_store fry_store;
typedef struct fry_store_request fry_store_request;
typedef struct fry_store_watch fry_store_watch;
typedef struct fry_store_lease fry_store_lease;

typedef enum fry_store_verb {
    FRY_STORE_GET,    /* the entry. FERRY_E_NOT_FOUND */
    FRY_STORE_PUT,    /* sets it, whatever was there; gives the entry without its value */
    FRY_STORE_CREATE, /* sets it if it is absent; else FERRY_E_CHANGED with the entry that is there
                       */
    FRY_STORE_SWAP, /* sets it if its version is `version`; else FERRY_E_CHANGED with the entry that
                       is there, or FERRY_E_NOT_FOUND */
    FRY_STORE_DELETE, /* `version` 0: whatever it is; else as SWAP. FERRY_E_NOT_FOUND */
    FRY_STORE_LIST,   /* all entries whose keys begin with `key` (NULL: all), by key; none is OK.
                         Not of one moment: each is what it was at some moment of the request */
} fry_store_verb;

/* Valid during the call it is given to. */
typedef struct fry_store_entry {
    const char *key;
    const void *value; /* with a zero byte behind it, which value_bytes does not count */
    size_t value_bytes;
    uint64_t version;
} fry_store_entry;

/*
 * Other statuses: FERRY_E_DEADLINE (it may have happened all the same, or happen yet),
 * FERRY_E_STORE (refused, full, unreachable for good, not a store, a lease that has ended; `why`
 * says more), FERRY_E_FENCED (its guard does not stand), FERRY_E_INVALID (a key, value, version or
 * lease that can't be; one that was not granted), FERRY_E_NO_MEMORY. A store that can't be reached
 * now is tried again until the deadline. An attempt whose answer was lost is not blindly repeated:
 * CREATE, SWAP and DELETE look first whether the change they find is their own: in etcd, by value
 * and lease, so of two who create the very same without a lease both may hear FERRY_OK. Who must
 * know who won says in the value who it is. why  one sentence, or NULL
 */
typedef void (*fry_store_done_fn)(fry_store_request *request, ferry_status status,
                                  const fry_store_entry *entries, size_t count, const char *why);

struct fry_store_request {
    fry_store_verb verb;
    const char *key;   /* borrowed until done, as the value */
    const void *value; /* PUT, CREATE, SWAP */
    size_t value_bytes;
    uint64_t version;       /* SWAP, DELETE */
    fry_store_lease *lease; /* PUT, CREATE, SWAP: the key goes with it; NULL: it stays. A SWAP or
                               PUT without one takes the key out of the lease it had. Looked at
                               during fry_store_submit alone */
    /* CREATE, SWAP: made only if this key stands in this lease at that moment, else it ends with
     * FERRY_E_FENCED. So what is asked by somebody whose lease is over, or reaches the store only
     * in its next life, changes nothing. NULL: always. The lease as above */
    const char *guard_key;
    fry_store_lease *guard_lease;
    int64_t deadline_ns; /* on the reactor's clock; 0: none */
    fry_store_done_fn done;
    void *arg;
    /* The store's. */
    fry_store *store;
    TAILQ_ENTRY(fry_store_request) entry;
    fry_timer timer; /* the deadline's, or a verdict's that is given soon */
    ferry_status verdict;
    const char *verdict_why;
    bool is_on;
    uint64_t lease_id, guard_id; /* of the leases; 0: none */
    void *private_;              /* the implementation's; NULL: it has not begun */
};

typedef enum fry_store_event {
    FRY_STORE_IS_PUT,     /* new, or changed: the entry */
    FRY_STORE_IS_DELETED, /* by a delete or by the end of its lease: key and last version known */
    FRY_STORE_IS_LISTED,  /* once, when all that was there at the start has been told; it is
                             healthy from then on */
    FRY_STORE_IS_HEALTHY, /* after a loss, and only then: what the watch has told is what there is,
                             or was a second ago */
    FRY_STORE_IS_LOST,    /* the store can't be reached: it is not known what there is. When it can,
                             what changed meanwhile is told, then FRY_STORE_IS_HEALTHY. Lost
                             before it was listed, a watch may be told the same twice */
    FRY_STORE_IS_ANOTHER, /* the store has lost its past: it was emptied, restored from a copy, or
                             another is in its place. Versions told before say nothing any more. All
                             that is there is told anew, then what was told before and is not
                             there is told to be deleted */
} fry_store_event;

/*
 * Told in the order of the store's changes of each key; changes in quick succession may be told as
 * one, also those of a key that goes and comes back. A deletion is only ever told of what the store
 * was seen not to have: never for want of contact. It may be of a key that was not told before,
 * whose coming and going became one.
 */
typedef void (*fry_store_watch_fn)(fry_store_watch *watch, fry_store_event event,
                                   const fry_store_entry *entry);

struct fry_store_watch {
    const char *prefix; /* borrowed while it is on; "" is all */
    fry_store_watch_fn fn;
    void *arg;
    /* The store's. */
    fry_store *store;
    LIST_ENTRY(fry_store_watch) entry;
    void *private_;
    unsigned private_state;
    bool is_on, is_lost, is_listed;
};

typedef enum fry_lease_event {
    FRY_LEASE_GRANTED, /* once */
    FRY_LEASE_REFUSED, /* could not be had by its deadline, or ever: off */
    FRY_LEASE_ENDED,   /* it ran out, or was taken away: its keys are gone, or will be; off */
} fry_lease_event;

typedef void (*fry_store_lease_fn)(fry_store_lease *lease, fry_lease_event event, const char *why);

/*
 * Kept alive by the store every third of its time, until it is closed. What comes of that is also
 * what is known of the store itself: that it was there for this holder, and so for others.
 */
struct fry_store_lease {
    int64_t ttl_ns; /* FRY_STORE_LEASE_MIN_NS to _MAX_NS, else refused; etcd rounds up to seconds */
    int64_t deadline_ns; /* of being granted; 0: none */
    fry_store_lease_fn fn;
    void *arg;
    /* The store's. */
    fry_store *store;
    LIST_ENTRY(fry_store_lease) entry;
    fry_timer timer;
    uint64_t id;
    int64_t ends_ns; /* as far as is known; on the reactor's clock */
    const char *refusal;
    bool is_on, is_granted;
    void *private_;
    fry_timer late_timer;        /* while a renewal is not answered: when that takes too long */
    int64_t asked_ns;            /* the first renewal that is not answered; 0: none */
    int64_t renewed_ns;          /* when the last that was answered was asked for */
    int64_t steady_ns, there_ns; /* see fry_store_lease_steady_ns */
    bool is_slow;                /* told */
};

typedef struct fry_store_options {
    const char *user, *password; /* etcd; NULL: none */
    const char *ca_path;         /* etcd with TLS (etcds://): whom to trust; NULL: the system's */
    const char *certificate_path, *key_path; /* the client's own; NULL: none */
} fry_store_options;

/*
 * No request, watch or lease may be on, and none of the store's callbacks running. Asks nobody and
 * waits for nothing; NULL is allowed.
 */
void fry_store_close(fry_store *store);

/* The URI without a password, for messages. */
const char *fry_store_name(const fry_store *store);

/* What was heard last of why it can't be reached; NULL: nothing, or it can. Until the next event.
 */
const char *fry_store_trouble(const fry_store *store);

/* The shortest time in which it has answered; 0: nothing has been answered, or at once. */
int64_t fry_store_round_trip_ns(const fry_store *store);

/* Begins a request; `done` is called exactly once, unless it is cancelled. */
void fry_store_submit(fry_store *store, fry_store_request *request);

/* `done` will not be called; what was asked for may happen or not. Nothing if it is not on. */
void fry_store_cancel(fry_store_request *request);

/* Follows the keys that begin with watch->prefix. */
void fry_store_watch_start(fry_store *store, fry_store_watch *watch);
void fry_store_watch_stop(fry_store_watch *watch);

/* Takes a lease. */
void fry_store_lease_open(fry_store *store, fry_store_lease *lease);

/*
 * Gives it up: its keys go at once if the store can be reached (asked in the background, on memory
 * of the store's, until fry_store_close at the latest), else when it has run out. fn is not called
 * any more.
 */
void fry_store_lease_close(fry_store_lease *lease);

/*
 * Since when the store has been there, by what came of this lease's renewals; INT64_MAX: it is not
 * known to be there now. Strictly: no two moments at which it was there are half a lease apart, so
 * whoever could reach it and asked each third of a lease as long, or longer, has kept that one.
 * Else they are three quarters of a lease apart at most: it was there, though perhaps slow.
 */
int64_t fry_store_lease_steady_ns(const fry_store_lease *lease, bool is_strict);

/*
 * A store that takes longer than this for an answer is too slow for a lease: renewals of each third
 * come too late as soon as one of them is lost.
 */
#define FRY_STORE_ROUND_TRIPS_PER_LEASE 4

/*
 * What an implementation gives. What store.c has checked and put on its lists comes in; none of
 * these calls back at once.
 *  submit      begins it; ends with fry_store_finish, unless cancel comes first
 *  cancel      of a request whose submit has been called, for a cancel or a deadline: forgets it
 *  lease_open  ends with fry_store_lease_granted or _gone, unless lease_close comes first
 *  lease_close of one that is on, granted or not
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

/* First in each implementation's own struct, which begins with fry_store_init; zeroed before. */
struct fry_store {
    const fry_store_ops *ops;
    fry_reactor *reactor;
    char *name;
    size_t name_bytes;
    char trouble[FRY_STORE_TROUBLE_BYTES];
    int64_t round_trip_ns;                    /* the shortest; 0: none */
    TAILQ_HEAD(, fry_store_request) requests; /* in the order of their submits */
    LIST_HEAD(, fry_store_watch) watches;
    LIST_HEAD(, fry_store_lease) leases;
    fry_store_watch *next_watch, *told_watch;
    fry_store_lease *next_lease;
};

/*
 * For implementations. What they call back may begin and end requests, watches and leases of the
 * store. So whoever calls back from a walk through a list takes the next from `next_watch` or
 * `next_lease`, which store.c keeps right; one walk of each at a time.
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

/* Why it can't be reached; NULL: it can, again. */
void fry_store_set_trouble(fry_store *store, const char *why);

/* The first request that waits: it has no verdict, and private_ is NULL. NULL: there is none. */
fry_store_request *fry_store_next_request(const fry_store *store);

/* Ends a request and calls its done; not from within a call of the user's. */
void fry_store_finish(fry_store_request *request, ferry_status status,
                      const fry_store_entry *entries, size_t count, const char *why);

/* The same from the loop's next round, also from within submit; `why` lives for ever. */
void fry_store_fail_soon(fry_store_request *request, ferry_status status, const char *why);

/*
 * Tells a watch what is news to it: LISTED once, LOST and HEALTHY in turns. False: it was stopped
 * meanwhile, and may be gone.
 */
bool fry_store_tell(fry_store_watch *watch, fry_store_event event, const fry_store_entry *entry);

/* A request to the store itself was answered in that time, without what came before its sending. */
void fry_store_answered_in(fry_store *store, int64_t round_trip_ns);

/* The deadline's timer stops, unless the implementation has made lease->timer its own before. */
void fry_store_lease_granted(fry_store_lease *lease);

/* A renewal is asked for now; was answered, that was asked for at asked_ns; has failed. */
void fry_store_lease_asks(fry_store_lease *lease);
void fry_store_lease_renewed(fry_store_lease *lease, int64_t asked_ns);
void fry_store_lease_not_renewed(fry_store_lease *lease);

/* REFUSED or ENDED: off. What is in lease->private_ is the implementation's to free before. */
void fry_store_lease_gone(fry_store_lease *lease, fry_lease_event event, const char *why);

/* REFUSED in the loop's next round, after which lease_close is not called; as fail_soon. */
void fry_store_lease_refuse_soon(fry_store_lease *lease, const char *why);

/* 64 bits that stand for some bytes. Any thread. */
uint64_t fry_store_hash(const void *bytes, size_t count);

/* Whether it is a key as above says. Any thread. */
bool fry_store_is_key(const char *key);

/* Makes the loop look soon at a timer that has been set to now. */
void fry_store_timer_soon(fry_store *store, fry_timer *timer);

/* An error of FERRY_E_STORE and others for opening: *error_p is set, `status` is given back. */
ferry_status fry_store_error(const fry_memory *memory, ferry_status status, fry_error **error_p,
                             const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
