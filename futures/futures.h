/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What futures/ offers upward: the sealed list, claiming, waiting.
 *
 * A future is one word, `waiters`: a stack of caller-owned waiters with two flags, or FRY_SEALED
 * once resolved. Contract: it resolves exactly once. Whoever resolves it first claims it (the one
 * compare-and-swap on `status` that finds FERRY_PENDING), fills in the error, then seals it: one
 * exchange takes every waiter there is and closes the list. Adding to a sealed list fails, which
 * means "already happened", so no waiter is lost and none fires twice. sealed_list.pml beside this
 * checks it, with removal and parking.
 */
#ifndef FRY_FUTURES_FUTURES_H
#define FRY_FUTURES_FUTURES_H

#include "base/error.h"
#include "base/lf.h"

#include <ferry/future.h>

/* The word's flags; waiters are aligned to 8. */
#define FRY_PARKED ((uintptr_t)1)   /* threads sleep on the word's low half: wake them at the seal \
                                     */
#define FRY_REMOVING ((uintptr_t)2) /* one remover holds the list; pushes go on */
#define FRY_SEALED ((uintptr_t)4)   /* resolved; never changes again */
#define FRY_WAITER_FLAGS ((uintptr_t)7)

typedef struct fry_future_owner fry_future_owner;

/* What the owner of futures (the engine) does for them. Any thread. */
typedef struct fry_future_owner_ops {
    void (*released)(ferry_future *future); /* the last reference is gone */
    /* A waiter's time has come: have its fn called where it should be. */
    void (*fire)(fry_future_owner *owner, ferry_waiter *waiter);
} fry_future_owner_ops;

struct fry_future_owner {
    const fry_future_owner_ops *ops;
};

struct ferry_future {
    uintptr_t waiters;
    uint32_t references;     /* FRY_FUTURE_STATIC: not counted */
    int32_t status;          /* FERRY_PENDING until claimed; meaningful to others once sealed */
    fry_future_owner *owner; /* NULL: belongs to no engine */
    uintptr_t error;         /* fry_error *, FRY_ERROR_IS_CAUSE beside it; set before the seal */
    uint64_t id;
};

#define FRY_FUTURE_STATIC UINT32_MAX

/* Others may be counting meanwhile, but never to or from that. */
static inline bool fry_future_is_static(const ferry_future *future)
{
    return fry_load_relaxed(&future->references) == FRY_FUTURE_STATIC;
}

/*
 * The error is what made the future fail, not its own: fry_future_error_get makes one that names
 * both when somebody asks, so that failing a million nodes allocates nothing.
 */
#define FRY_ERROR_IS_CAUSE ((uintptr_t)1)
/* It was asked for an error of its own when there was no memory: it answers with the static one of
 * its status, from then on. */
#define FRY_ERROR_IS_BARE ((uintptr_t)2)
#define FRY_ERROR_FLAGS (FRY_ERROR_IS_CAUSE | FRY_ERROR_IS_BARE)

/* Pending, with that many references. */
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

/* Acquire: pairs with the seal, so status, error and the bytes are there. */
static inline bool fry_future_is_resolved(const ferry_future *future)
{
    return fry_load_acquire(&future->waiters) == FRY_SEALED;
}

/* Of a resolved future. Atomic, since another thread may still try to claim it, in vain. */
static inline ferry_status fry_future_status(const ferry_future *future)
{
    return (ferry_status)fry_load_relaxed(&future->status);
}

/* True for exactly one caller, who then seals. For futures more than one thread may resolve. */
static inline bool fry_future_claim(ferry_future *future, ferry_status status)
{
    int32_t pending = FERRY_PENDING;
    return fry_cas(&future->status, &pending, (int32_t)status);
}

/* Resolves a claimed future: fires what waits for it. The claimer only. */
void fry_future_seal(ferry_future *future);

/* The same where no other thread can have seen the future yet. */
static inline void fry_future_seal_unshared(ferry_future *future)
{
    fry_store_release(&future->waiters, FRY_SEALED);
}

/* Before the seal: gives one reference on `error` (NULL allowed) to the future. */
void fry_future_set_error(ferry_future *future, fry_error *error, bool is_cause);

/* The error others should name as their cause: the root. Never NULL; not retained. */
fry_error *fry_future_root_error(const ferry_future *future);

/*
 * The resolved future's own error, made now if need be; NULL on success. Lives as long as it, and
 * is the same for all who ask. One that only has the status if it would have to be made and there
 * is no memory, or `memory` is NULL.
 */
fry_error *fry_future_error_get(ferry_future *future, const fry_memory *memory, const char *label);

/* Drops the error, at the end of the future. */
void fry_future_drop_error(ferry_future *future);

/* One reference is left, the caller's: nobody waits, nobody can see it. */
static inline bool fry_future_is_sole(const ferry_future *future)
{
    return fry_load_acquire(&future->references) == 1;
}

/* True: listed. False: already resolved, nothing was done. */
bool fry_future_add_waiter(ferry_future *future, ferry_waiter *waiter);

/* True: taken out, it will not fire. The future must be alive. */
bool fry_future_remove_waiter(ferry_future *future, ferry_waiter *waiter);

/*
 * Parking in two steps, so that a look at something else fits in between: prepare marks the future
 * as parked on (false: it is resolved), commit sleeps until it resolves, is nudged, timeout_ns
 * (relative, negative for ever) has passed, or for no reason. A waiter pushed in between makes it
 * return at once.
 */
bool fry_future_prepare_park(ferry_future *future, uint32_t *key_p);
void fry_future_commit_park(ferry_future *future, uint32_t key, int64_t timeout_ns);

/* Wakes threads that park on the future, also one between prepare and commit; of several that park
 * on the same future, one that prepares again meanwhile may let another sleep on. */
void fry_future_nudge(ferry_future *future);

#endif
