/* SPDX-License-Identifier: Apache-2.0 */
/* Errands: requests of callers to the loop, about a group: errand.c. */
#ifndef FRY_ENGINE_MESSAGES_ERRAND_H
#define FRY_ENGINE_MESSAGES_ERRAND_H

#include "engine/graph/promise.h"
#include "net/group/group.h"

#include <bsd/sys/queue.h>

typedef struct fry_members fry_members;
typedef struct fry_errand fry_errand;

typedef enum fry_errand_sort {
    FRY_ERRAND_JOIN,
    FRY_ERRAND_LEAVE,
    FRY_ERRAND_RELEASE, /* has no promise */
    FRY_ERRAND_REQUEST,
    FRY_ERRAND_PAUSE,
    FRY_ERRAND_RESUME,
    FRY_ERRAND_EVENT,
} fry_errand_sort;

/* A request of a caller to the loop. */
struct fry_errand {
    fry_link link; /* members->errands */
    fry_errand_sort sort;
    ferry_group *group;
    size_t size_bytes; /* of this block */
    ferry_promise *promise;
    ferry_waiter waiter; /* on the promise's future: cancels the request, frees this */
    LIST_ENTRY(fry_errand) entry;
    fry_timer timer; /* PAUSE, EVENT: the deadline of the request */
    bool is_taking;  /* EVENT: in group->happenings.takers */
    TAILQ_ENTRY(fry_errand) taking;
    bool is_resumed;           /* PAUSE: a resume has come since */
    fry_group_request request; /* its value or members, and its name, are behind this struct */
};

/* Begins a caller's errand; the role, without the baton. */
void fry_errand_begin(fry_members *members, fry_errand *errand);

#endif
