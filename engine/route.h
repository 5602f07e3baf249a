/* SPDX-License-Identifier: Apache-2.0 */
/* Routes: lanes to other members, as the engine sees them: route.c. */
#ifndef FRY_ENGINE_ROUTE_H
#define FRY_ENGINE_ROUTE_H

#include "engine/turn.h"
#include "net/link.h"

typedef struct fry_members fry_members;
typedef struct fry_route fry_route;

/* How this member's lane to another is doing; route_set_state alone moves it. The role. */
typedef enum fry_route_state {
    FRY_ROUTE_IDLE = 0, /* there is no lane, and none was asked for */
    FRY_ROUTE_WANTED,   /* the link says hello */
    FRY_ROUTE_ARRIVED,  /* there is a channel, to be attached with the baton */
    FRY_ROUTE_UP,       /* attached */
    FRY_ROUTE_ENDING,   /* detached; its channel is to be destroyed, without the baton */
    FRY_ROUTE_ENDED,    /* destroyed; the peer is to be told, with the baton */
    FRY_ROUTE_TOLD,     /* what attaching took is to be freed, without the baton */
} fry_route_state;

/* The engine's view of a member of a group. */
struct fry_route {
    ferry_group *group;
    uint32_t rank;
    fry_peer *peer; /* any thread; NULL: nobody has talked to that member */
    fry_peer_options peer_options;

    /* Baton. */
    fry_route *polled_next;               /* is_polled */
    fry_route *open_next, *open_previous; /* open != 0 */
    uint64_t open;                        /* transfers that the peer has */
    uint32_t look_round;                  /* when a waiting thread looked last */
    bool is_up;                           /* attached */
    bool is_polled; /* in members->polled: attached, and its descriptor tells nothing */
    bool is_asking; /* in members->asks */
    bool wants_lane, has_failed;
    bool has_gathered; /* in members->gathered */
    fry_route *gathered_next;
    fry_link ask_link;
    fry_fault lane_fault; /* has_failed */

    /* The role. */
    uint8_t state;
    bool is_ordered;    /* in members->orders */
    bool is_finishing;  /* in members->finishing */
    bool has_event;     /* its descriptor became readable */
    bool is_wanted;     /* something is open, and there is no lane */
    bool is_over;       /* the link is of an incarnation that is */
    bool is_lost;       /* the channel has failed; the link is to be told */
    bool is_watched;    /* its descriptor is */
    int32_t end_status; /* FERRY_OK, or the lane and all that is open fails with it */
    fry_fault end_fault;
    fry_link order_link, finish_link;
    fry_link_peer *link; /* NULL: the member is not here */
    uint64_t start;      /* of the member that the link leads to */
    fry_peer_lane *lane;
    fry_channel *channel;
    fry_watch watch;
};

/* The peer, made by the first who wants it; NULL: no memory. Any thread, not with the baton. */
fry_peer *fry_route_peer(fry_route *route);

/* NULL: nobody has made it yet. Atomic also where it is known to be there: another thread may still
 * try to make one, in vain. */
static inline fry_peer *fry_route_made_peer(const fry_route *route)
{
    return fry_load_acquire(&route->peer);
}

/* The role. Ends the lane, if there is one, and all that is open. */
void fry_route_end(fry_route *route, ferry_status status, const fry_fault *fault);

/* The role, without the baton: brings the link in line with what the group knows of the member. */
void fry_route_sync(fry_route *route);

/* message.c tells the peer: baton. */
void fry_route_wants_lane(void *turn, fry_peer *peer);
void fry_route_lane_failed(void *turn, fry_peer *peer, const fry_fault *fault);
void fry_route_parted(void *turn, fry_peer *peer);

/* The role and the baton; it is watched. True: the next that comes makes its descriptor wake the
 * loop, once. False: something has come. */
bool fry_route_arm(fry_turn *turn, fry_route *route);

/* Nothing of it is left but memory. */
bool fry_route_is_over(const fry_route *route);

/* The role and the baton: does what was asked for and ordered. Returns how much. */
size_t fry_routes_step(fry_turn *turn, fry_members *members);

/* The role, without the baton: the rest of it. */
size_t fry_routes_finish(fry_members *members);

/* Baton: a transfer more, or less, is open. */
void fry_route_opened(fry_route *route);
void fry_route_closed(fry_turn *turn, fry_route *route);

/* Baton: it is looked at from now on, until it can be slept on again. */
void fry_route_poll(fry_route *route);

/* Baton: something was launched, which progress may have to end. */
void fry_route_launched(fry_turn *turn, fry_route *route);

/* Baton, not the loop's: lets the route progress, armed or not. If anything had come it is the
 * loop's to poll and arm from now on: what the descriptor had to tell may have been taken from it,
 * and answers wait to be sent. Returns how much had. */
size_t fry_route_look(fry_turn *turn, fry_route *route);

extern const fry_link_events fry_route_link_events;

#endif
