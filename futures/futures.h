/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What futures/ offers upward: the sealed list, claiming, waiting.
 *
 * A future is one word, `waiters`: a stack of caller-owned waiters with two flags, or FRY_SEALED
 * once resolved. Contract: it resolves exactly once. The first thread to resolve it claims it (its
 * compare-and-swap on `status` finds FERRY_PENDING), sets the error, then seals it: one exchange
 * takes all waiters and closes the list. Adding to a sealed list fails, which means "already
 * happened", so no waiter is lost and none fires twice. sealed_list.pml beside this checks it, with
 * removal and parking.
 */
#ifndef FRY_FUTURES_FUTURES_H
#define FRY_FUTURES_FUTURES_H

#include "base/error.h"
#include "base/lf.h"

#include <ferry/future.h>

/* The word's flags; waiters are aligned to 8. */
#define FRY_PARKED ((uintptr_t)1)   /* threads sleep on the word's low half: the seal wakes them */
#define FRY_REMOVING ((uintptr_t)2) /* one remover holds the list; pushes go on */
#define FRY_SEALED ((uintptr_t)4)   /* resolved; never changes again */
#define FRY_WAITER_FLAGS ((uintptr_t)7)

typedef struct fry_future_owner fry_future_owner;

/* Functions of the owner of futures (the engine). Any thread. */
typedef struct fry_future_owner_ops {
    void (*released)(ferry_future *future); /* the last reference is gone */
    /* Fires a waiter: its fn will be called where it should be. */
    void (*fire)(fry_future_owner *owner, ferry_waiter *waiter);
} fry_future_owner_ops;

struct fry_future_owner {
    const fry_future_owner_ops *ops;
};

struct ferry_future {
    uintptr_t waiters;
    uint32_t references; /* FRY_FUTURE_STATIC: not counted */
    int32_t status;      /* FERRY_PENDING until claimed; other threads may read it once sealed */
    fry_future_owner *owner; /* NULL: belongs to no engine */
    uintptr_t error;         /* fry_error *, FRY_ERROR_IS_CAUSE beside it; set before the seal */
    uint64_t id;
};

#define FRY_FUTURE_STATIC UINT32_MAX

/*
 * Whether it is static. Other threads may count references meanwhile, but never to or from that
 * value.
 */
static inline bool fry_future_is_static(const ferry_future *future)
{
    return fry_load_relaxed(&future->references) == FRY_FUTURE_STATIC;
}

/*
 * The error is the cause of the future's failure, not its own error. fry_future_error_get makes the
 * own error, which names both, when somebody asks, so that failing a million nodes allocates
 * nothing.
 */
#define FRY_ERROR_IS_CAUSE ((uintptr_t)1)
/*
 * The future was asked for its own error when there was no memory: from then on it answers with the
 * static error of its status.
 */
#define FRY_ERROR_IS_BARE ((uintptr_t)2)
#define FRY_ERROR_FLAGS (FRY_ERROR_IS_CAUSE | FRY_ERROR_IS_BARE)

/* Initialises a pending future, with that many references. */
static inline void fry_future_init(ferry_future *future, fry_future_owner *owner,
                                   uint32_t references, uint64_t id)
{
    future->waiters = 0;
    future->references = references;
    future->status = FERRY_PENDING;
    future->owner = owner;
    future->error = 0;
    future->id = id;
}

/* Whether it has resolved. Acquire: pairs with the seal, so status, error and bytes are visible. */
static inline bool fry_future_is_resolved(const ferry_future *future)
{
    return fry_load_acquire(&future->waiters) == FRY_SEALED;
}

/*
 * The status of a resolved future. Atomic, because another thread may still try to claim it, in
 * vain.
 */
static inline ferry_status fry_future_status(const ferry_future *future)
{
    return (ferry_status)fry_load_relaxed(&future->status);
}

/*
 * Claims a future that several threads may resolve. True for exactly one caller, which then seals
 * it.
 */
static inline bool fry_future_claim(ferry_future *future, ferry_status status)
{
    int32_t pending = FERRY_PENDING;
    return fry_cas(&future->status, &pending, (int32_t)status);
}

/* Seals a claimed future and fires its waiters. Only the claimer calls it. */
void fry_future_seal(ferry_future *future);

/* The same for a future that no other thread can have seen yet. */
static inline void fry_future_seal_unshared(ferry_future *future)
{
    fry_store_release(&future->waiters, FRY_SEALED);
}

/* Gives one reference on `error` (NULL allowed) to the future, before the seal. */
void fry_future_set_error(ferry_future *future, fry_error *error, bool is_cause);

/* The error that others name as their cause: the root. Never NULL; not retained. */
fry_error *fry_future_root_error(const ferry_future *future);

/*
 * The own error of a resolved future, made now if necessary; NULL on success. It lives as long as
 * the future, and every caller gets the same one. If it must be made and there is no memory, or
 * `memory` is NULL, it has only the status.
 */
fry_error *fry_future_error_get(ferry_future *future, const fry_memory *memory, const char *label);

/* Releases the error, at the end of the future's life. */
void fry_future_drop_error(ferry_future *future);

/* Whether only the caller's reference is left: nobody waits, and nobody else can see the future. */
static inline bool fry_future_is_sole(const ferry_future *future)
{
    return fry_load_acquire(&future->references) == 1;
}

/* Adds a waiter. False: the future has resolved, and nothing was done. */
bool fry_future_add_waiter(ferry_future *future, ferry_waiter *waiter);

/* Removes a waiter. True: it will not fire. The future must be alive. */
bool fry_future_remove_waiter(ferry_future *future, ferry_waiter *waiter);

/*
 * Parking in two steps, so that the caller can look at something else in between. Prepare marks the
 * future as parked on (false: it has resolved). Commit sleeps until the future resolves or is
 * nudged, or until timeout_ns (relative, negative: for ever) has passed; it may return early for no
 * reason. A waiter pushed in between makes it return at once.
 */
bool fry_future_prepare_park(ferry_future *future, uint32_t *key_p);
void fry_future_commit_park(ferry_future *future, uint32_t key, int64_t timeout_ns);

/*
 * Wakes threads that park on the future, also one between prepare and commit. If several park on
 * the same future, one that prepares again meanwhile may let another sleep on.
 */
void fry_future_nudge(ferry_future *future);

#endif
