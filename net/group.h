/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups, as their members agree on them in a store: members with their ranks and incarnations,
 * deaths, barriers, values, the set of the living, and the step to stop at. Written once, over the
 * verbs of any store; it knows nothing of lanes.
 *
 * The loop. Nothing blocks; events and answers never come from within the call that asked.
 */
#ifndef FRY_NET_GROUP_H
#define FRY_NET_GROUP_H

#include "net/store.h"

#include <ferry/group.h>

#define FRY_GROUP_LEASE_MAX_NS INT64_C(3600000000000)
#define FRY_GROUP_RECORD_BYTES 512 /* what a member publishes besides: its endpoint */

typedef struct fry_group fry_group;

typedef struct fry_group_options {
    fry_reactor *reactor;
    const char *store;
    fry_store_options store_options;
    const char *job;
    const void *secret; /* NULL: none; used during the call alone */
    size_t secret_bytes;
    uint32_t size, size_min;
    int32_t rank;
    uint32_t device_count;
    const char *place;    /* NULL: none */
    const char *endpoint; /* published in the member's record */
    int64_t lease_ns;
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
const fry_group_member *fry_group_member_at(const fry_group *group, uint32_t rank); /* NULL: none */

/* Reports that the kernel has seen a member on this host end; the roster tells the others. */
void fry_group_report_death(fry_group *group, uint32_t rank, uint64_t start);

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
    fry_group_verb verb;
    const char *name; /* name of the barrier, or key */
    const void *value;
    size_t value_bytes;
    uint64_t version;
    uint64_t step;
    const uint32_t *members; /* barrier; NULL: all */
    uint32_t member_count;
    int64_t deadline_ns;    /* on the reactor's clock; 0: none */
    fry_group_done_fn done; /* error is borrowed */
    void *arg;
    /* Owned by the group. */
    fry_group *group;
    fry_group_request *next, *previous;
    fry_timer timer;
    fry_store_request store;
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

#endif
