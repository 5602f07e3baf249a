/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members: an engine's groups, and its connections to other members. None of it exists before the
 * first join. The comment at the top of members.c says how loop and baton share it. The holder of
 * the role owns the reactor, groups' states, routes' states and the contents of `orders`. The
 * holder of the baton owns peers, transfers, the lists of polled and open routes, and the contents
 * of `asks`.
 */
#ifndef FRY_ENGINE_MESSAGES_MEMBERS_H
#define FRY_ENGINE_MESSAGES_MEMBERS_H

#include "engine/messages/groups.h"
#include "engine/messages/hidden.h"
#include "engine/messages/message.h"
#include "engine/messages/pairing.h"
#include "engine/messages/stage.h"

typedef struct fry_members fry_members;

struct fry_members {
    ferry_engine *engine;
    const fry_peer_events *message_events; /* message.c's, which peers are given */
    fry_reactor reactor;
    fry_stack errands;         /* any thread pushes */
    fry_stack window_releases; /* likewise */
    fry_stack symmetric_releases;

    /* The role. */
    bool must_look; /* the reactor's timers may be due */
    bool has_seen_closing;
    bool has_steps;  /* a group has a next step */
    uint32_t ticks;  /* ticks since the poller was looked at */
    uint64_t called; /* calls of watches that groups' steps have followed, or need not */
    ferry_group *groups;
    fry_queue orders;    /* routes with work due under the baton */
    fry_queue finishing; /* routes with work due without it */
    uint64_t looks_seen;
    int64_t grace_ns, grace_end_ns;
    int64_t busy_since_ns;
    bool has_stuck;        /* one of the polled routes is stuck */
    fry_timers look_times; /* armed routes that must be looked at, by the monotonic clock */

    /* Baton. */
    LIST_HEAD(, fry_route) polled;
    LIST_HEAD(, fry_route) open;
    uint32_t look_round;
    fry_route *gathered; /* with sends that this turn must post before it ends */
    fry_queue asks;
    fry_queue faulted;
    TAILQ_HEAD(, ferry_window) windows_due; /* to be opened, sought or closed */
    TAILQ_HEAD(, fry_symmetric) symmetrics_due;
    TAILQ_HEAD(, fry_node) nexts_refused; /* of groups that had ended: notices.c */
    fry_hiding hiding;
    fry_pairings pairings;
    fry_stages stages; /* like `asks`: threads that are not the loop leave its work to the loop */

    /* Hints, and the threads that look: atomic. */
    uint32_t has_open;      /* a route is open: waiting threads may look */
    uint32_t has_polled;    /* a route is polled: its descriptor reports nothing */
    uint32_t has_orders;    /* work is due under the baton */
    uint32_t must_arm;      /* a thread that looked has parked */
    uint32_t has_callbacks; /* on_member is owed calls */
    uint32_t has_looks;     /* a leaving group must be looked at with the baton */
    uint32_t watchers;      /* waiting threads that look */
    uint64_t looks;         /* how often waiting threads have looked */
    int64_t next_ns;        /* when the reactor's first timer is due */
} __attribute__((aligned(64)));

/* The engine's members, made if necessary; NULL: no memory. Any thread. */
fry_members *fry_members_get(ferry_engine *engine);
void fry_members_free(ferry_engine *engine);

/* Hands an errand to the loop. Any thread, not with the baton. */
void fry_members_push(fry_members *members, fry_errand *errand);

/* With the baton: whether the loop is to see that a device has closed memory. */
bool fry_members_have_closed(ferry_engine *engine);

/* A tick's three parts: before, with and after the baton. */
size_t fry_members_run(fry_members *members);
size_t fry_members_turn(fry_turn *turn, fry_members *members);
size_t fry_members_finish(fry_members *members, bool with_callbacks);

/* Arms before the loop sleeps, with the role and the baton. False: there is work. */
bool fry_members_arm(fry_turn *turn, fry_members *members);

/*
 * With the role, about to sleep: when the loop must look again, since another thread looks at the
 * channels or has the baton. INT64_MAX: it need not.
 */
int64_t fry_members_again_ns(ferry_engine *engine, bool has_looked);

/* When the reactor's first timer is due; INT64_MAX: none is on. Any thread. */
int64_t fry_members_next_ns(ferry_engine *engine);

/* Whether there is work for the role's holder without the baton. Any thread. */
bool fry_members_have_work(const fry_members *members);

/* For the shutdown: whether everything has ended. The role. */
bool fry_members_are_over(const fry_members *members);

/* A waiting thread looks at the channels. Returns whether something has come. */
bool fry_members_look(ferry_engine *engine, const ferry_future *future);

/* The same for a thread that acts as the loop, so the loop need not leave the channels to it. */
bool fry_members_look_on(ferry_engine *engine, const ferry_future *future);

#endif
