/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups as agreed upon in a store: who is a member, with which rank and incarnation, who has died;
 * barriers, values, the set of the living, the step to stop at. It stands once, over the verbs of
 * any store, and knows nothing of lanes.
 *
 * The loop. Nothing blocks; events and answers never come from within the call that asked.
 */
#ifndef FRY_NET_GROUP_H
#define FRY_NET_GROUP_H

#include "net/store.h"

#include <ferry/group.h>

#define FRY_GROUP_LEASE_MAX_NS INT64_C(3600000000000)
#define FRY_GROUP_RECORD_BYTES 512 /* what a member publishes of itself beside: its endpoint */

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
    uint64_t start;       /* no other start has it, also where a store was emptied, and one was
                             given the same incarnation; grows with the incarnation */
    int64_t last_seen_ns; /* on the reactor's clock; 0: never */
    uint32_t device_count, first_device;
    char endpoint[FRY_GROUP_RECORD_BYTES]; /* untrusted, without control characters */
    char host[64];
    int64_t pid;
} fry_group_member;

typedef struct fry_group_events {
    /* Once: FERRY_OK, and rank, size and members are there; or why not (error is borrowed). */
    void (*joined)(void *arg, ferry_status status, fry_error *error);
    /* A member's state or incarnation has changed; after `joined`. Of a restart: the new
     * incarnation HERE, after DEAD or LEFT was told of the old one. */
    void (*changed)(void *arg, uint32_t rank);
    /* This member lost its place (declared dead, or another has it): everything of it fails with
     * FERRY_E_FENCED from here on. Once. */
    void (*fenced)(void *arg, fry_error *error);
} fry_group_events;

ferry_status fry_group_open(const fry_group_options *options, const fry_group_events *events,
                            void *arg, fry_group **group_p, fry_error **error_p);

int32_t fry_group_rank(const fry_group *group);
uint64_t fry_group_incarnation(const fry_group *group);
uint64_t fry_group_start(const fry_group *group); /* as a member's */
uint32_t fry_group_size(const fry_group *group);
const fry_group_member *fry_group_member_at(const fry_group *group, uint32_t rank); /* NULL: none */

/* The kernel says that a member of this host has ended: others are told by the roster. */
void fry_group_report_death(fry_group *group, uint32_t rank, uint64_t start);

/*
 * Gives up the place; all requests that are on end with FERRY_E_CANCELLED; `left` once when the
 * store knows or can't be told within a second or so. After it only fry_group_close.
 */
void fry_group_leave(fry_group *group, void (*left)(void *arg), void *arg);

/*
 * Nothing is told any more; requests that are on are dropped. Without a leave others see it DEAD:
 * at once if the store can be reached, else when the lease has run out. May be called from an event
 * or an answer; called from an answer, some of it is done in the reactor's next run. NULL is
 * allowed.
 */
void fry_group_close(fry_group *group);

typedef enum fry_group_verb {
    FRY_GROUP_BARRIER,
    FRY_GROUP_SET,
    FRY_GROUP_GET,     /* waits until it is there */
    FRY_GROUP_TRY_GET, /* */
    FRY_GROUP_WATCH,   /* waits for a version above `version` */
    FRY_GROUP_ALIVE,   /* value: ranks as uint32_t; version: of the round */
    FRY_GROUP_NOTICE,  /* gives notice */
    FRY_GROUP_STEP,    /* `step` is about to begin: if it is not above the stop step then */
} fry_group_verb;

typedef struct fry_group_request fry_group_request;
typedef void (*fry_group_done_fn)(fry_group_request *request, ferry_status status, fry_error *error,
                                  const void *value, size_t value_bytes, uint64_t version);

/* The caller's memory until done, with what it points to, or until the cancel has returned. */
struct fry_group_request {
    fry_group_verb verb;
    const char *name; /* barrier's or key */
    const void *value;
    size_t value_bytes;
    uint64_t version;
    uint64_t step;
    const uint32_t *members; /* barrier; NULL: all */
    uint32_t member_count;
    int64_t deadline_ns;    /* on the reactor's clock; 0 none */
    fry_group_done_fn done; /* error is borrowed */
    void *arg;
    /* The group's. */
    fry_group *group;
    fry_group_request *next, *previous;
    fry_timer timer;
    fry_store_request store;
    void *private_;
};

void fry_group_submit(fry_group *group, fry_group_request *request);

/* `done` is not called; a barrier tells the others. Nothing if it is not on. */
void fry_group_cancel(fry_group_request *request);

/* After which step to stop; UINT64_MAX: no notice, or not agreed yet. */
uint64_t fry_group_stop_step(const fry_group *group);

#endif
