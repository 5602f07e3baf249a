/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups, as their members agree on them in a store: members with their ranks and incarnations,
 * deaths, barriers, values, the set of the living, and the step to stop at. Written once, over the
 * verbs of any store; it knows nothing of connections.
 *
 * The loop. Nothing blocks; events and answers never come from within the call that asked.
 */
#ifndef FRY_NET_GROUP_GROUP_H
#define FRY_NET_GROUP_GROUP_H

#include "net/store/store.h"

#include <ferry/group.h>

#define FRY_RANK_ANY (-1) /* it is assigned, or not known yet */
#define FRY_GROUP_LEASE_MAX_NS INT64_C(3600000000000)
#define FRY_GROUP_RECORD_BYTES 512 /* what a member publishes besides: its endpoint */

typedef struct fry_group fry_group;

/* Who joins has checked all of them (engine/api/group.c), but for what only the store can say. */
typedef struct fry_group_options {
    fry_reactor *reactor;
    const char *store;
    fry_store_options store_options;
    const char *job;    /* a name (fry_group_is_name) of at most FRY_GROUP_JOB_BYTES */
    const void *secret; /* NULL: none; used during the call alone */
    size_t secret_bytes;
    uint32_t size, size_min; /* at most FERRY_GROUP_SIZE_MAX. size 0: there is a deadline */
    bool is_open;            /* members come and go; size is not 0 */
    int32_t rank;            /* below the size, or FRY_RANK_ANY */
    uint32_t device_count;   /* at most FRY_GROUP_DEVICES_MAX */
    const char *place;       /* NULL: none. At most FRY_GROUP_PLACE_BYTES, no spaces, not "-" */
    const char *endpoint;    /* published in the member's record */
    int64_t lease_ns;        /* FRY_STORE_LEASE_MIN_NS to FRY_GROUP_LEASE_MAX_NS */
    int64_t deadline_ns;
} fry_group_options;

typedef struct fry_group_member {
    ferry_member_state state;
    uint64_t incarnation;
    uint64_t start;       /* unique to this start, also if a store was emptied and gave the same
                             incarnation twice; grows with the incarnation */
    int64_t last_seen_ns; /* on the reactor's clock; 0: never */
    uint32_t device_count, first_device;
    char endpoint[FRY_GROUP_RECORD_BYTES]; /* untrusted, without control characters */
    char host[64];
    int64_t pid;
} fry_group_member;

typedef struct fry_group_events {
    /*
     * Called once: FERRY_OK, and rank, size and members are known; or the status and error of the
     * failure (borrowed).
     */
    void (*joined)(void *arg, ferry_status status, fry_error *error);
    /*
     * A member's state or incarnation has changed; only after `joined`. For a restart: the new
     * incarnation is HERE, after the old one was reported DEAD or LEFT.
     */
    void (*changed)(void *arg, uint32_t rank);
    /*
     * What happened since this member joined, one by one: that a start has joined (HERE), left or
     * died. In an open group all members are told the same in the same order, and `number` grows;
     * in others it is 0, and only what happens to one rank has an order. After `changed` for it.
     */
    void (*happened)(void *arg, uint32_t rank, ferry_member_state what, uint64_t incarnation,
                     uint64_t number);
    /*
     * This member lost its place (it was declared dead, or another has the place): everything of it
     * fails with FERRY_E_FENCED from now on. Called once.
     */
    void (*fenced)(void *arg, fry_error *error);
} fry_group_events;

ferry_status fry_group_open(const fry_group_options *options, const fry_group_events *events,
                            void *arg, fry_group **group_p, fry_error **error_p);

int32_t fry_group_rank(const fry_group *group);
uint64_t fry_group_incarnation(const fry_group *group);
uint64_t fry_group_start(const fry_group *group); /* this member's start */
uint32_t fry_group_size(const fry_group *group);

/*
 * Leaves: gives up the place; all requests under way end with FERRY_E_CANCELLED; calls `left` once,
 * when the store knows or can't be told within about a second. After it only fry_group_close may be
 * called.
 */
void fry_group_leave(fry_group *group, void (*left)(void *arg), void *arg);

/*
 * Closes the group: no more events; requests under way are dropped. Without a leave others see this
 * member DEAD: at once if the store is reachable, else when the lease has expired. May be called
 * from an event or an answer; in an answer, part of it is done in the reactor's next run. NULL is
 * allowed.
 */
void fry_group_close(fry_group *group);

typedef enum fry_group_verb {
    FRY_GROUP_BARRIER,
    FRY_GROUP_SET,
    FRY_GROUP_GET,     /* waits until the key exists */
    FRY_GROUP_TRY_GET, /* */
    FRY_GROUP_WATCH,   /* waits for a version above `version` */
    FRY_GROUP_ALIVE,   /* value: ranks as uint32_t; version: that of the round */
    FRY_GROUP_NOTICE,  /* gives notice */
    FRY_GROUP_STEP,    /* `step` is about to begin, unless it is above the stop step then */
} fry_group_verb;

typedef struct fry_group_request fry_group_request;
typedef void (*fry_group_done_fn)(fry_group_request *request, ferry_status status, fry_error *error,
                                  const void *value, size_t value_bytes, uint64_t version);

/*
 * A request. It is the caller's memory, with what it points to, until `done` or until the cancel
 * has returned.
 */
struct fry_group_request {
    fry_async async; /* the group's own */
    fry_group_verb verb;
    const char *name; /* name of the barrier, or key: fry_group_is_name */
    const void *value;
    size_t value_bytes;
    uint64_t version;
    uint64_t step;
    const uint32_t *members; /* barrier: ranks of the group, each once, this member's among them;
                                NULL: all */
    uint32_t member_count;
    int64_t deadline_ns;    /* on the reactor's clock; 0: none */
    fry_group_done_fn done; /* error is borrowed */
    void *arg;
    /* Owned by the group. */
    fry_group *group;
    void *private_;
};

void fry_group_submit(fry_group *group, fry_group_request *request);

/*
 * Cancels a request; `done` is not called. A barrier tells the other members. No effect if the
 * request is not under way.
 */
void fry_group_cancel(fry_group_request *request);

/* The step to stop after; UINT64_MAX: no notice, or not agreed yet. */
uint64_t fry_group_stop_step(const fry_group *group);

/* ---- for the files of a group ---- */

typedef struct fry_group_op fry_group_op; /* net/group/state.h */
typedef void (*fry_group_op_fn)(fry_group_op *op, ferry_status status,
                                const fry_store_entry *entries, size_t count, const char *why);

/* Makes `work` run soon. */
void fry_group_tell_later(fry_group *group);

/* Makes `work` run again by then. From `work`. */
void fry_group_again_at(fry_group *group, int64_t when_ns);

bool fry_group_is_over(const fry_group *group); /* nothing is left to do */

int64_t fry_group_now_ns(const fry_group *group);

/* The number that identifies a start, by its id and incarnation. */
uint64_t fry_group_start_of(uint64_t id, uint64_t incarnation);

/*
 * Asks the store what `asked` says, which is copied with its key and value. NULL: no memory, and
 * `fn` is not called. For verbs that do not write, the value is the caller's own: fn finds a copy
 * in op->value.
 */
fry_group_op *fry_group_op_start(fry_group *group, const fry_store_request *asked,
                                 fry_group_op_fn fn, void *arg);
/*
 * Changes a key that decides for all members: CREATE if version is 0, else SWAP. It takes effect
 * only if this member's record is in its lease at that moment. NULL: no memory, or the record is
 * not in its lease as far as is known; `work` runs again when it is.
 */
fry_group_op *fry_group_decide(fry_group *group, const char *key, const void *value,
                               size_t value_bytes, uint64_t version, fry_group_op_fn fn, void *arg);
/*
 * Handles a refusal: logs why, and the store will be asked again in a second. If the request was
 * for this member's standing, that is checked.
 */
void fry_group_refused(fry_group *group, const fry_group_op *op, ferry_status status,
                       const char *why);
/* Says that something was left undone for lack of memory: `work` runs again in a second. */
void fry_group_lacks_memory(fry_group *group);
/* Says that news of the watch was lost for lack of memory: it will be reported again. */
void fry_group_lost_news(fry_group *group);
/* Whether the store may be asked now. False: `work` runs again when it may. */
bool fry_group_may_ask(fry_group *group);
/*
 * Whether it is this member's turn to restore what the store has lost: with `is_own` it goes first.
 */
bool fry_group_may_restore(fry_group *group, bool is_own);

/* Removes a request and calls `done`; takes the error, which may be NULL: the status's. */
void fry_group_finish(fry_group_request *request, ferry_status status, fry_error *error,
                      const void *value, size_t value_bytes, uint64_t version);

/* Fails the join; takes the error. From `work`. */
void fry_group_join_failed(fry_group *group, fry_error *error);

/* Fences this member, which has lost its place; takes the error. From `work`. */
void fry_group_fence(fry_group *group, fry_error *error);

/* Called at the begin and end of each callback of the store. */
void fry_group_store_in(fry_group *group);
void fry_group_store_out(fry_group *group);

#endif
