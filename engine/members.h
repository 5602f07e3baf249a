/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members: an engine's groups, and its lanes to other members. There is none of it until the first
 * join. How loop and baton share it stands atop members.c.
 *
 *   role    the reactor, groups' lives, routes' states, what stands in `orders`
 *   baton   peers, transfers, the lists of routes that are polled or open, what stands in `asks`
 */
#ifndef FRY_ENGINE_MEMBERS_H
#define FRY_ENGINE_MEMBERS_H

#include "engine/graph.h"
#include "net/group.h"
#include "net/link.h"

#include <ferry/message.h>

typedef struct fry_members fry_members;
typedef struct fry_route fry_route;
typedef struct fry_transfer fry_transfer;
typedef struct fry_errand fry_errand;

/* ---- messages ---- */

enum fry_transfer_flags {
    FRY_TRANSFER_ENTERED = 1 << 0,   /* the peer has it */
    FRY_TRANSFER_RESOLVED = 1 << 1,  /* the peer said how it ended, or was told */
    FRY_TRANSFER_QUIET = 1 << 2,     /* the peer is done with it */
    FRY_TRANSFER_FAULTED = 1 << 3,   /* in members->faulted: the loop will fail its node */
    FRY_TRANSFER_UNTOUCHED = 1 << 4, /* FAULTED: the peer keeps it, and not its memory */
};

/* What a send or recv has beside its node, from a pool; until the peer is done with it. */
struct fry_transfer {
    fry_message message; /* first */
    fry_node *node;      /* NULL: that has failed, and nobody touches its memory any more */
    fry_route *route;
    fry_link link; /* FAULTED */
    uint8_t flags;
    int32_t status;  /* FAULTED; how */
    fry_fault fault; /* FAULTED */
};

/* message.c: what the peer tells. */
extern const fry_peer_events fry_message_events;

/* On the loop, with the baton: fails what peers said had failed. Returns how many. */
size_t fry_transfers_fail(fry_turn *turn, fry_members *members);

/* ---- routes ---- */

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

/* ---- groups ---- */

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

/* How far a group has come with leaving; the role, and the first three the baton too. */
typedef enum fry_group_leaving {
    FRY_LEAVING_NOT = 0,
    FRY_LEAVING_ENTERS,  /* HERE: what was submitted before is to enter the graph yet */
    FRY_LEAVING_LINGERS, /* no more is taken; others may receive yet what was sent */
    FRY_LEAVING_PARTS,   /* lanes tell their other ends all that these need to know */
    FRY_LEAVING_ENDS,    /* routes end */
    FRY_LEAVING_TELLS,   /* the store is told */
} fry_group_leaving;

typedef enum fry_group_life {
    FRY_GROUP_JOINING = 0, /* */
    FRY_GROUP_HERE,        /* operations are taken */
    FRY_GROUP_FENCED,      /* lost its place; all operations fail */
    FRY_GROUP_LEAVING,     /* everything is being ended, and the store told */
    FRY_GROUP_OVER,        /* of no use but to be released */
} fry_group_life;

/* A member as last told: what on_member is owed, in the order of the fields. */
typedef struct fry_member_news {
    ferry_member_info info;  /* what ferry_group_member tells; group->lock */
    ferry_member_info ended; /* has_ended: the incarnation before */
    bool has_ended, has_changed;
} fry_member_news;

struct ferry_group {
    ferry_engine *engine;
    uint32_t life; /* fry_group_life; atomic, written by the role's holder */
    int32_t rank;  /* final once HERE, as size and routes */
    uint32_t size;
    uint64_t stop_step; /* atomic */
    fry_route *routes;
    pthread_mutex_t lock; /* news[].info; nobody waits with it */
    fry_member_news *news;
    ferry_group_options options; /* strings are in `text` */
    char *text;
    size_t text_bytes;
    fry_errand release; /* so that giving the handle back takes no memory */

    /* The role. */
    fry_members *members;
    ferry_group *next;
    fry_group *net;
    fry_links *links;
    fry_errand *join; /* the join that has yet to resolve */
    fry_errand *errands;
    bool is_handle_gone;
    uint8_t leaving;         /* fry_group_leaving; atomic, written by the role's holder */
    bool has_ended_routes;   /* FRY_LEAVING_ENDS: they have been told to */
    bool has_none_open;      /* likewise: the peers have nothing of it */
    bool has_left;           /* FRY_LEAVING_TELLS: the store knows */
    bool has_timer, is_late; /* the step's; it is over */
    bool has_seen_inbox;     /* FRY_LEAVING_ENTERS */
    uint64_t takes_awaited;  /* likewise: of the inbox, by when all has entered */
    int64_t linger_until_ns; /* INT64_MAX: for ever */
    fry_timer timer;
    bool is_quiet;           /* OVER: nor does any operation that has yet to enter */
    ferry_status end_status; /* LEAVING: what its operations fail with */
    int64_t refreshed_ns;    /* when `news` heard of all members last */

    uint64_t open; /* baton: transfers */
};

/* groups.c: a group of no use yet; NULL: no memory. Any thread, as the freeing. */
ferry_group *fry_group_create(fry_members *members, const ferry_group_options *options);
void fry_group_free(ferry_group *group);

/* The role, without the baton. Begins to join; is_over: the future was cancelled already. */
void fry_group_begin(fry_members *members, ferry_group *group, bool is_over);

/* And to leave, if it has not: in order, or at once, and then operations fail with the status. */
void fry_group_leave_in_order(ferry_group *group);
void fry_group_end(ferry_group *group, ferry_status status);

/* Whether it has lanes to members, and makes more if they are wanted. The role. */
bool fry_group_keeps_lanes(const ferry_group *group);

/* Or has those that it had, until they have parted: a death ends them. The role. */
bool fry_group_has_lanes(const ferry_group *group);

/* Takes what net/group.h knows of its members and of the step to stop after, for any thread. */
void fry_group_refresh(ferry_group *group);

/* The join's future has resolved. */
void fry_group_join_is_over(ferry_group *group);

/* Whether the group takes operations: FERRY_OK, or what they fail with. Any thread. */
ferry_status fry_group_takes(const ferry_group *group);

/* The same as a reason. */
fry_refusal fry_group_refusal(const ferry_group *group);

/* The role, without the baton. Returns how much was done. */
size_t fry_groups_step(fry_members *members);

/* With the role, without the baton, not in a user's call: tells of members. */
size_t fry_groups_tell(fry_members *members);

/* The role and the baton: whose operations have left the graph. */
void fry_groups_look(fry_turn *turn, fry_members *members);

/* ---- errands: group.c ---- */

/* Takes a caller's errand; the role, without the baton. group.c */
void fry_errand_begin(fry_members *members, fry_errand *errand);

/* Resolves its future; the errand is freed when the loop has heard of that. `error` is taken. */
void fry_errand_end(fry_errand *errand, ferry_status status, fry_error *error, const void *value,
                    size_t value_bytes, uint64_t version);

/* ---- the engine's ---- */

struct fry_members {
    ferry_engine *engine;
    fry_reactor reactor;
    fry_stack errands; /* any thread pushes */

    /* The role. */
    fry_watch watch;
    bool is_watched;
    bool is_due; /* the reactor's descriptor was readable */
    bool has_seen_closing;
    bool has_steps; /* a group has something to go on with */
    uint32_t ticks; /* since the reactor was looked at */
    ferry_group *groups;
    fry_queue orders;    /* routes, with something due with the baton */
    fry_queue finishing; /* and without it */
    uint64_t looks_seen;
    int64_t grace_ns, grace_end_ns;
    int64_t busy_since_ns;
    bool has_unwatched; /* of those that are polled */

    /* Baton. */
    fry_route *polled;
    fry_route *open;
    uint32_t look_round;
    fry_route *gathered; /* with sends that this turn has to post before it ends */
    fry_queue asks;
    fry_queue faulted;

    /* Hints, and who looks: atomic. */
    uint32_t has_open;      /* a route is: threads that wait may look */
    uint32_t has_polled;    /* a route's descriptor tells nothing */
    uint32_t has_orders;    /* something is due with the baton */
    uint32_t must_arm;      /* who looked has parked */
    uint32_t has_callbacks; /* on_member is owed calls */
    uint32_t has_looks;     /* a group that leaves is to be looked at with the baton */
    uint32_t watchers;      /* waiting threads that look */
    uint64_t looks;         /* how often they came */
    int64_t next_ns;        /* when the reactor's first timer is due */
} __attribute__((aligned(64)));

/* members.c. The engine's, made if need be; NULL sets *status_p. Any thread. */
fry_members *fry_members_get(ferry_engine *engine, ferry_status *status_p);
void fry_members_free(ferry_engine *engine);

/* Hands an errand to the loop. Any thread, not with the baton. */
void fry_members_push(fry_members *members, fry_errand *errand);

/* Puts the route where the next turn of the loop's finds it. The role. */
void fry_members_order(fry_route *route);

/* A tick's three parts: before, with and after the baton. */
size_t fry_members_run(fry_members *members);
size_t fry_members_turn(fry_turn *turn, fry_members *members);
size_t fry_members_finish(fry_members *members, bool with_callbacks);

/* With the role and the baton, about to sleep: false, there is work. */
bool fry_members_arm(fry_turn *turn, fry_members *members);

/* With the role, about to sleep: when the loop must look again, since somebody else looks at the
 * channels now, or has the baton. INT64_MAX: it need not. */
int64_t fry_members_grace_ns(fry_members *members, bool has_looked);

/* Whether the role's holder has something to do that needs no baton. Any thread. */
bool fry_members_have_work(const fry_members *members);

/* When a reactor's timer is due by the engine's clock, which is a user's. */
int64_t fry_members_next_ns(const ferry_engine *engine);

/* The shutdown: everything has ended. The role. */
bool fry_members_are_over(const fry_members *members);

/* handle.c: a waiting thread looks for what has come. Returns whether something has. */
bool fry_members_look(ferry_engine *engine, const ferry_future *future);

/* The same of one that is the loop meanwhile, so that nobody need leave the channels to it. */
bool fry_members_look_on(ferry_engine *engine, const ferry_future *future);

#endif
