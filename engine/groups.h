/* SPDX-License-Identifier: Apache-2.0 */
/* Groups: their lives, and what is known of their members: groups.c. */
#ifndef FRY_ENGINE_GROUPS_H
#define FRY_ENGINE_GROUPS_H

#include "engine/errand.h"
#include "engine/refusal.h"
#include "engine/route.h"

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

/* A group of no use yet; NULL: no memory. Any thread, as the freeing. */
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

#endif
