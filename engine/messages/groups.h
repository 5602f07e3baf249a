/* SPDX-License-Identifier: Apache-2.0 */
/* Groups: their states, and what is known of their members: groups.c. */
#ifndef FRY_ENGINE_MESSAGES_GROUPS_H
#define FRY_ENGINE_MESSAGES_GROUPS_H

#include "engine/ground/refusal.h"
#include "engine/messages/errand.h"
#include "engine/messages/happenings.h"
#include "engine/messages/route.h"

typedef struct fry_symmetric_past fry_symmetric_past;

/* Steps of leaving a group; the role, and for the first three the baton too. */
typedef enum fry_membership_leaving {
    FRY_LEAVING_NOT = 0,
    FRY_LEAVING_ENTERS,  /* HERE: operations submitted before have yet to enter the graph */
    FRY_LEAVING_LINGERS, /* no new operations; others may still receive what was sent */
    FRY_LEAVING_PARTS,   /* connections tell their other ends all that these need to know */
    FRY_LEAVING_ENDS,    /* routes end */
    FRY_LEAVING_TELLS,   /* the store is told */
} fry_membership_leaving;

typedef enum fry_membership_life {
    FRY_GROUP_JOINING = 0, /* */
    FRY_GROUP_HERE,        /* operations are taken */
    FRY_GROUP_FENCED,      /* this member lost its place; all operations fail */
    FRY_GROUP_LEAVING,     /* operations and routes end, and the store is told */
    FRY_GROUP_OVER,        /* can only be released */
} fry_membership_life;

/*
 * A member as last reported, and the calls of on_member that are due, in the order of the fields.
 */
typedef struct fry_member_news {
    ferry_member_info info;  /* the answer of ferry_group_member; group->lock */
    ferry_member_info ended; /* has_ended: the incarnation before */
    bool has_ended, has_changed;
} fry_member_news;

/* A group's pause of NCCL: pause.c. */
typedef struct fry_membership_pause {
    /* The role. */
    uint32_t asked; /* futures that wait for it, or have yet to be over */
    bool is_held;   /* one has succeeded, and no resume came since */
    /* Written with the role and the baton. */
    bool is_on;
    bool is_quiet;     /* nothing of this group's is on this member's GPUs */
    int32_t waits_for; /* rank whose pairing is not quiet; -1: none that is known */
} fry_membership_pause;

struct ferry_group {
    ferry_engine *engine;
    uint32_t life; /* fry_membership_life; atomic, written by the role's holder */
    int32_t rank;  /* final once HERE, like size and routes */
    uint32_t size;
    uint32_t plain_size; /* ranks below it may take the short way of messages: size; with any source
                            0, since its receives are of another kind */
    uint64_t stop_step;  /* atomic */
    fry_route *routes;
    uint32_t references;  /* atomic: its own, and those of windows and notices */
    fry_any *any;         /* what waits for messages of any source; NULL: the option is off */
    pthread_mutex_t lock; /* for news[].info; nobody waits while holding it */
    fry_member_news *news;
    ferry_group_options options; /* strings are in `text` */
    char *text;
    size_t text_bytes;
    fry_errand release; /* so that releasing the handle takes no memory */

    /* The role. */
    fry_members *members;
    ferry_group *next;
    fry_group *net;
    fry_links *links;
    fry_errand *join; /* the unresolved join */
    LIST_HEAD(, fry_errand) errands;
    bool is_handle_gone;
    uint8_t leaving;         /* fry_membership_leaving; atomic, written by the role's holder */
    bool has_ended_routes;   /* FRY_LEAVING_ENDS: the routes have been told to end */
    bool has_none_open;      /* likewise: the peers have no open transfer of it */
    bool has_left;           /* FRY_LEAVING_TELLS: the store knows */
    bool has_timer, is_late; /* the step has a timer; it has expired */
    bool has_seen_inbox;     /* FRY_LEAVING_ENTERS */
    bool has_any_news;       /* who waits for any member may wait in vain from now on */
    uint64_t takes_awaited;  /* likewise: after this many takes of the inbox all has entered */
    int64_t linger_until_ns; /* INT64_MAX: for ever */
    fry_timer timer;
    bool is_quiet;           /* OVER: no operation of it has yet to enter */
    ferry_status end_status; /* LEAVING: the status that its operations fail with */
    int64_t refreshed_ns;    /* when `news` was last updated for all members */
    fry_happenings happenings;
    LIST_HEAD(, fry_route) endings; /* is_ending */
    uint32_t has_ending_news;       /* atomic: something of these may be gone */
    bool has_let_go;                /* of some of these nothing is left */

    fry_membership_pause pause;
    /* Baton. */
    uint64_t open;                          /* transfers */
    TAILQ_HEAD(, fry_symmetric) symmetrics; /* and their memory of what went, `lock` besides */
    fry_symmetric_past *past;
    uint32_t past_count, past_room;
    TAILQ_HEAD(, ferry_window) windows; /* sought, found or own, until they are over */
    TAILQ_HEAD(, fry_node) nexts;       /* who waits for the next notice, in order: notices.c */
    TAILQ_HEAD(, fry_route) noticing;   /* has_notices, in order */
};

/* Begins to join; is_over: the future was already cancelled. The role, without the baton. */
void fry_membership_begin(fry_members *members, ferry_group *group, bool is_over);

/*
 * Begins to leave, unless it has: in order, or at once, and then operations fail with the status.
 * The role, without the baton.
 */
void fry_membership_leave_in_order(ferry_group *group);
void fry_membership_end(ferry_group *group, ferry_status status);

/* Whether the group has connections and makes more if wanted. The role. */
static inline bool fry_membership_keeps_connections(const ferry_group *group)
{
    uint32_t life = fry_load_relaxed(&group->life);
    return life == FRY_GROUP_HERE ||
           (life == FRY_GROUP_LEAVING && group->leaving == FRY_LEAVING_LINGERS);
}

/* The same, or it has connections that are parting, which a death ends. The role. */
static inline bool fry_membership_has_connections(const ferry_group *group)
{
    return fry_membership_keeps_connections(group) || group->leaving == FRY_LEAVING_PARTS;
}

/* Copies what net/group/group.h knows of its members and of the stop step, for any thread to read.
 */
void fry_membership_refresh(ferry_group *group);

/* Called when the join's future has resolved. */
void fry_membership_join_is_over(ferry_group *group);

/* Takes the groups' next steps. Returns how much was done. The role, without the baton. */
size_t fry_memberships_step(fry_members *members);

/* Calls on_member. The role, without the baton, and not inside a call of the user. */
size_t fry_memberships_tell(fry_members *members);

/* Looks which leaving groups have no operations left in the graph. The role and the baton. */
void fry_memberships_look(fry_turn *turn, fry_members *members);

#endif
