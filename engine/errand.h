/* SPDX-License-Identifier: Apache-2.0 */
/* Errands: what callers want of the loop for a group: errand.c. */
#ifndef FRY_ENGINE_ERRAND_H
#define FRY_ENGINE_ERRAND_H

#include "engine/promise.h"
#include "net/group.h"

typedef struct fry_members fry_members;
typedef struct fry_errand fry_errand;

typedef enum fry_errand_sort {
    FRY_ERRAND_JOIN,
    FRY_ERRAND_LEAVE,
    FRY_ERRAND_RELEASE, /* has no promise */
    FRY_ERRAND_REQUEST,
} fry_errand_sort;

/* What a caller wants of the loop. */
struct fry_errand {
    fry_link link; /* members->errands */
    fry_errand_sort sort;
    ferry_group *group;
    size_t size_bytes; /* of this block */
    ferry_promise *promise;
    ferry_waiter
        waiter; /* of the promise's future: ends the request if the user does, frees this */
    bool is_on; /* the request is net/group.h's */
    fry_errand *next, *previous; /* of its group's: there may be a million, so it leaves at once */
    fry_group_request request;   /* its value or members, and its name, stand behind this */
};

/* Takes a caller's errand; the role, without the baton. */
void fry_errand_begin(fry_members *members, fry_errand *errand);

/* Resolves its future; the errand is freed when the loop has heard of that. `error` is taken. */
void fry_errand_end(fry_errand *errand, ferry_status status, fry_error *error, const void *value,
                    size_t value_bytes, uint64_t version);

#endif
