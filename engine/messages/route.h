/* SPDX-License-Identifier: Apache-2.0 */
/* Routes: connections to other members, as the engine sees them: route.c. */
#ifndef FRY_ENGINE_MESSAGES_ROUTE_H
#define FRY_ENGINE_MESSAGES_ROUTE_H

#include "engine/graph/turn.h"
#include "net/connect/link.h"
#include "net/peer/joint.h"

#include <bsd/sys/queue.h>

typedef struct fry_members fry_members;
typedef struct fry_route fry_route;
typedef struct fry_pairing fry_pairing;
typedef struct fry_slots fry_slots;

/*
 * What is to be done on a route. What its connection needs next is not among it: the link's state
 * says that.
 */
enum fry_route_due {
    /* With the role and the baton. */
    FRY_DUE_POLL = 1 << 0, /* its descriptor became readable: it is polled from now on */
    FRY_DUE_FAIL = 1 << 1, /* all that is open fails with `fault`, and the connection is over */
    /* With the role alone. */
    FRY_DUE_LOSE = 1 << 2, /* the channel has failed, and the link must be told */
    FRY_DUE_WANT = 1 << 3, /* something is open that needs a connection */
    FRY_DUE_PART = 1 << 4, /* the link's incarnation is over: it goes with its connection */
};

/* The engine's view of a member of a group. */
struct fry_route {
    ferry_group *group;
    uint32_t rank;
    bool can_pair;  /* the group's options say so, and there is the module */
    fry_peer *peer; /* any thread; NULL: no message with that member yet */
    fry_peer_options peer_options;
    const ferry_device *pair_device; /* atomic: of its pairs; NULL: not known yet */
    uint64_t nccl_groups;            /* atomic; lots that went */
    uint64_t nccl_bytes, ipc_bytes,
        staged_bytes; /* atomic, written with the baton: ferry_member_info */

    /* Baton. */
    LIST_ENTRY(fry_route) polled; /* is_polled */
    LIST_ENTRY(fry_route) opened; /* open != 0 */
    uint64_t open;                /* number of transfers that the peer has */
    uint32_t look_round;          /* when a waiting thread looked last */
    int64_t look_ns;              /* armed: the channel's look_ns that the loop knows of */
    bool is_up;                   /* the link's connection is attached */
    bool is_polled;    /* in members->polled: attached, and its descriptor reports nothing */
    bool is_asking;    /* in members->asks */
    bool has_gathered; /* in members->gathered */
    bool is_showing;   /* in hiding->showing: hidden.c */
    bool is_hiding;    /* its member is asked to close what has the serial hide_next */
    bool is_closing;   /* in stages->closing: its member asks this one: neighbour.c */
    LIST_ENTRY(fry_route) showing, closing;
    uint64_t hide_next, closing_generation;
    uint32_t asked;           /* FRY_DUE_: FAIL (with connection_fault), WANT */
    fry_pairing *pairing;     /* NULL: none */
    fry_slots *pair_slots;    /* of pair_device; NULL: there was no pairing yet */
    bool pair_is_wanted;      /* in pairings->wanted */
    uint64_t pair_generation; /* of the latest, at the leader */
    fry_pair_note pair_note;  /* pair_is_wanted: what is to be made */
    TAILQ_ENTRY(fry_route) pair_wanted;
    fry_route *gathered_next;
    uint32_t windows; /* atomic: handles of windows of its that were found, in an open group */
    bool has_notices; /* in group->noticing: somebody may take them */
    TAILQ_ENTRY(fry_route) noticing;
    fry_link ask_link;
    fry_fault connection_fault;

    /* The role. */
    bool is_ordered;   /* in members->orders */
    bool is_finishing; /* in members->finishing */
    bool is_watched;   /* its descriptor is watched */
    uint32_t due;      /* FRY_DUE_ */
    bool is_ending;    /* in group->endings: its member has ended; read with the baton, too */
    bool has_let_go;   /* nothing of that member is left here */
    LIST_ENTRY(fry_route) ending;
    fry_fault fault; /* FRY_DUE_FAIL */
    fry_link order_link, finish_link;
    fry_link_peer *link; /* its state is the connection's; NULL: the member is not here */
    fry_watch watch;
    fry_timers_link look; /* in members->look_times until look.when_ns; that is 0: in no heap */
};

/*
 * The peer, made by the first thread that needs it; NULL: no memory. Any thread, not with the
 * baton.
 */
fry_peer *fry_route_peer(fry_route *route);

/*
 * The peer, or NULL if nobody has made it yet. Atomic even when the peer is known to exist: another
 * thread may still try to make one, in vain.
 */
static inline fry_peer *fry_route_made_peer(const fry_route *route)
{
    return fry_load_acquire(&route->peer);
}

/* Ends the connection, if there is one, and everything open. The role. */
void fry_route_end(fry_route *route, const fry_fault *fault);

/* Brings the link in line with what the group knows of the member. The role, without the baton. */
void fry_route_sync(fry_route *route);

/* For message.c, which passes it to the peer. Baton. */
void fry_route_wants_connection(void *turn, fry_peer *peer);
void fry_route_connection_failed(void *turn, fry_peer *peer, const fry_fault *fault);
void fry_route_parted(void *turn, fry_peer *peer);

/*
 * Arms a route. ARMED: the next arrival makes its descriptor wake the loop, once, or the channel's
 * look_ns does. STUCK also if the descriptor can't be watched. The role and the baton.
 */
fry_arming fry_route_arm(fry_turn *turn, fry_route *route);

/* Finds armed routes that are to be looked at by now. The role. */
void fry_routes_look(fry_members *members);

/* Whether nothing of the route is left except memory. */
bool fry_route_is_over(const fry_route *route);

/* Does what was asked and ordered. Returns how much. The role and the baton. */
size_t fry_routes_step(fry_turn *turn, fry_members *members);

/* Does the rest of it. The role, without the baton. */
size_t fry_routes_finish(fry_members *members);

/* Counts one more, or one less, open transfer. Baton. */
void fry_route_opened(fry_route *route);
void fry_route_closed(fry_turn *turn, fry_route *route);

/* Polls the route from now on, until it can be slept on again. Baton. */
void fry_route_poll(fry_route *route);

/* Something was launched on the route, which progress may have to finish. Baton. */
void fry_route_launched(fry_turn *turn, fry_route *route);

/*
 * Lets the route progress, armed or not; for a thread that is not the loop. If anything came, the
 * loop polls and arms the route from now on: this look may have taken what its descriptor was to
 * report, and answers wait to be sent. Returns how much came. Baton.
 */
size_t fry_route_look(fry_turn *turn, fry_route *route);

extern const fry_link_events fry_route_link_events;

#endif
