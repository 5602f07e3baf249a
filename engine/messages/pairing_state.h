/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a pairing share: pairing.c says how one lives. With the baton. */
#ifndef FRY_ENGINE_MESSAGES_PAIRING_STATE_H
#define FRY_ENGINE_MESSAGES_PAIRING_STATE_H

#include "engine/graph/node.h"
#include "engine/messages/members.h"
#include "engine/messages/route.h"
#include "engine/messages/slots.h"

typedef enum fry_pairing_state {
    FRY_PAIRING_OPEN = 0,
    FRY_PAIRING_NAMING, /* leader: the token is made */
    FRY_PAIRING_MAKING,
    FRY_PAIRING_READY,
    FRY_PAIRING_ENDING, /* the pair is asked to end */
    FRY_PAIRING_ENDED,  /* the other end has yet to say the same */
} fry_pairing_state;

typedef enum fry_launch_state {
    FRY_LAUNCH_FREE = 0,
    FRY_LAUNCH_GIVEN,    /* to the module */
    FRY_LAUNCH_LAUNCHED, /* by it; the event is recorded */
    FRY_LAUNCH_FAILED,   /* not launched, or without an event */
    FRY_LAUNCH_STANDS,   /* its node is in the graph */
    FRY_LAUNCH_FIRED,    /* and is over */
} fry_launch_state;

/* A lot: launch.c. */
typedef struct fry_launch {
    fry_lot lot;   /* first */
    fry_node node; /* STANDS */
    fry_pairing *pairing;
    uint32_t state;  /* atomic, fry_launch_state; the module's thread sets it while GIVEN */
    uint32_t number; /* net/peer/joint.h */
    bool is_flown;   /* FIRED: what it received waits for the other end's word */
    fry_transfer *transfers[FRY_LOT_MOST];
    fry_event event;
    fry_fault fault;
} fry_launch;

struct fry_pairing {
    fry_route *route; /* NULL: its connection is over */
    ferry_device *device;
    ferry_engine *engine;
    fry_pair *pair;
    uint8_t state; /* fry_pairing_state */
    bool is_leader;
    bool is_retiring;    /* it admits nothing more: others need its place, here or there */
    bool has_said;       /* retiring: that nothing goes here any more */
    bool is_heard;       /* the other end has said that nothing goes there any more */
    bool is_failing;     /* it is to end, or does */
    bool is_put_off;     /* is_failing: another is made later */
    bool is_end_heard;   /* the other end's END: it is not told */
    bool is_ended_there; /* the other end has ended its pair, or is gone */
    bool is_left_behind; /* a lost GPU has some of it: it stays, and takes nobody's place */
    uint64_t lots_over;  /* lots that went */
    uint64_t used_at;    /* the number of the engine's last such, of all pairings */
    fry_slot_wish wish;
    fry_pair_note note; /* generation; the token, too, once it is known */
    fry_fault fault;    /* why it ends */
    LIST_ENTRY(fry_pairing) entry;
    fry_launch launches[FRY_JOINT_PLACES];
};

static inline fry_pairings *fry_pairings_of(const ferry_engine *engine)
{
    return &engine->members->pairings;
}

static inline fry_peer *fry_pairing_peer(const fry_pairing *pairing)
{
    return fry_route_made_peer(pairing->route);
}

/* Made, and not about to end. */
static inline bool fry_pairing_is_open(const fry_pairing *pairing)
{
    return pairing->route != NULL && pairing->state == FRY_PAIRING_READY && !pairing->is_failing;
}

static inline void fry_pairings_note(fry_turn *turn)
{
    fry_pairings_of(turn->engine)->has_news = true;
    turn->wake = true;
}

/* It ends, unless it does already: the next turn of pairing.c. */
static inline void fry_pairing_fail(fry_turn *turn, fry_pairing *pairing, const fry_fault *fault)
{
    if (pairing->is_failing)
        return;
    pairing->is_failing = true;
    pairing->fault = *fault;
    if (pairing->route != NULL)
        pairing->fault.rank = (int32_t)pairing->route->rank;
    fry_pairings_note(turn);
}

#endif
