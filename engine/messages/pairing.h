/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairings: a member's GPU and another's that send each other memory through a pair (net/pairs.h),
 * in lots that both launch (net/peer/joint.h). The comment at the top of pairing.c says how one
 * lives. With the baton, if not said otherwise.
 */
#ifndef FRY_ENGINE_MESSAGES_PAIRING_H
#define FRY_ENGINE_MESSAGES_PAIRING_H

#include "engine/engine.h"
#include "engine/graph/turn.h"
#include "net/pairs.h"
#include "net/peer/joint.h"

#include <bsd/sys/queue.h>

typedef struct fry_members fry_members;
typedef struct fry_pairing fry_pairing;
typedef struct fry_route fry_route;
typedef struct fry_transfer fry_transfer;

/* What the role is to do, or has done. */
typedef enum fry_pairing_job_state {
    FRY_PAIRING_IDLE = 0,
    FRY_PAIRING_ASKED, /* one is to be opened */
    FRY_PAIRING_DONE,
} fry_pairing_job_state;

typedef struct fry_pairing_job {
    fry_pairing_job_state state; /* the loop sets ASKED and IDLE, with the baton; the role DONE */
    bool is_leader;
    fry_route *route; /* NULL: nobody wants it any more; not the role's */
    ferry_device *device;
    fry_pairing *pairing; /* NULL: it could not be opened */
} fry_pairing_job;

typedef struct fry_pairings {
    LIST_HEAD(, fry_pairing) all;
    TAILQ_HEAD(, fry_route) wanted;
    uint32_t count;       /* in `all` */
    uint32_t left_behind; /* of these, for ever: a lost GPU has something of them */
    uint64_t uses;        /* lots that went */
    bool has_news;        /* something in `all` has a next step */

    fry_pairing_job job;
    /* The role; read by the baton's holder too, once a job is done. */
    const fry_pairs_ops *ops; /* NULL: not found yet, or not at all */
    fry_pairs *pairs;
    uint32_t version;
    bool has_tried;
    char reason[FRY_FAULT_MESSAGE_BYTES]; /* why there are none */
} fry_pairings;

/* Whether a member with such options can take part, as far as is known without the transport. */
static inline bool fry_pairings_are_here(void)
{
    return fry_pairs_find("nccl", NULL) != NULL;
}

/* A message of a device: the first of a route decides which device the route's pair is of. Any
 * thread. */
bool fry_pairing_takes(fry_route *route, const ferry_device *device);

/* fry_peer_events. */
void fry_pairing_wanted(void *turn, fry_peer *peer);
void fry_pairing_heard(void *turn, fry_peer *peer, fry_pair_word word, const fry_pair_note *note);
bool fry_pairing_admit(void *turn, fry_peer *peer);
void fry_pairing_dismiss(void *turn, fry_peer *peer);
void fry_pairing_unpaired(void *turn, fry_peer *peer);

/* Nothing goes here, and nothing is agreed. There is a connection. */
bool fry_pairing_is_idle(const fry_pairing *pairing);

/* A message has failed that may be in a lot: if it is, the pair ends, so that the lot does. */
void fry_pairing_failed(fry_turn *turn, const fry_transfer *transfer);

/* On the loop: takes the next steps. Returns how much was done. */
size_t fry_pairings_turn(fry_turn *turn, fry_members *members);

/* Whether the loop has to look here at all; and whether it may not sleep before it has. */
bool fry_pairings_have_work(const fry_pairings *pairings);
bool fry_pairings_must_not_sleep(const fry_pairings *pairings);

#endif
