/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs: communicators of two ranks, and what the module's two threads do with each. */
#ifndef FRY_NET_NCCL_PAIR_H
#define FRY_NET_NCCL_PAIR_H

#include "base/lf.h"
#include "net/nccl/library.h"
#include "net/pairs.h"

/* Whose a pair is. */
typedef enum fry_nccl_owner {
    FRY_NCCL_BUILDER = 0, /* makes and ends communicators, which may block */
    FRY_NCCL_LAUNCHER,    /* launches, and watches; it never blocks */
} fry_nccl_owner;

struct fry_pair {
    fry_pairs *pairs;
    uint32_t state;                                /* atomic, fry_pair_state */
    uint32_t wants_token, wants_making, wants_end; /* atomic; the engine's thread sets them */
    uint32_t owner;    /* atomic, fry_nccl_owner; only the owner changes it */
    uint32_t unlanded; /* atomic; lots that are in the stream, as the engine knows */
    fry_stack lots;    /* the engine's thread pushes, the launcher takes */
    bool is_leader;
    uint8_t token[FRY_PAIR_TOKEN_BYTES];
    fry_fault fault; /* set before FAILED */
    fry_pair_device device;

    /* The owner's. */
    ncclComm_t comm;
    void *stream;
    bool is_draining;  /* the communicator is gone; its kernels may be in the stream yet */
    fry_queue waiting; /* lots */
    fry_lot
        *launching;   /* its group has been given, and NCCL has not said yet that it is enqueued */
    int64_t pause_ns; /* before the next question */
};

/* One step of a pair by its owner. Returns in how long the next is due; INT64_MAX: when something
 * is wanted. */
int64_t fry_nccl_build(fry_pair *pair);
int64_t fry_nccl_launch(fry_pair *pair);

/* For pair.c: says that a pair has another state, and that it has another owner. */
void fry_nccl_changed(fry_pair *pair, fry_pair_state state);
void fry_nccl_hand_over(fry_pair *pair, fry_nccl_owner owner);

#endif
