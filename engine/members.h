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

#include "engine/groups.h"
#include "engine/message.h"

typedef struct fry_members fry_members;

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

/* The engine's, made if need be; NULL sets *status_p. Any thread. */
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
int64_t fry_members_grace_ns(ferry_engine *engine, bool has_looked);

/* When the reactor's first timer is due; INT64_MAX: none is on. Any thread. */
int64_t fry_members_next_ns(ferry_engine *engine);

/* Whether the role's holder has something to do that needs no baton. Any thread. */
bool fry_members_have_work(const fry_members *members);

/* The shutdown: everything has ended. The role. */
bool fry_members_are_over(const fry_members *members);

/* A waiting thread looks for what has come. Returns whether something has. */
bool fry_members_look(ferry_engine *engine, const ferry_future *future);

/* The same of one that is the loop meanwhile, so that nobody need leave the channels to it. */
bool fry_members_look_on(ferry_engine *engine, const ferry_future *future);

#endif
