/* SPDX-License-Identifier: Apache-2.0 */
/* Symmetric memory: memory that every member of a group has. How it comes and goes: symmetric.c. */
#ifndef FRY_ENGINE_MESSAGES_SYMMETRIC_H
#define FRY_ENGINE_MESSAGES_SYMMETRIC_H

#include "engine/graph/buffer.h"
#include "engine/graph/kind.h"
#include "engine/graph/turn.h"
#include "engine/messages/groups.h"
#include "engine/messages/window.h"

#include <ferry/symmetric.h>

#define FRY_SYMMETRIC_NAME_BYTES 65 /* with its end */

typedef struct fry_symmetric fry_symmetric;

typedef enum fry_symmetric_life {
    FRY_SYMMETRIC_NEW = 0, /* nobody else knows of it */
    FRY_SYMMETRIC_SEEKING, /* others can find it, and theirs are sought */
    FRY_SYMMETRIC_WHOLE,   /* all are here */
    FRY_SYMMETRIC_BROKEN,  /* one of them is not any more, or will not come */
    FRY_SYMMETRIC_RESTING, /* others can find it, and theirs have been left */
    FRY_SYMMETRIC_OVER,    /* nothing knows of it but its references */
} fry_symmetric_life;

/* What this member has of another's. Baton, but for what `life` says can be read. */
typedef struct fry_symmetric_part {
    ferry_window *window; /* with a reference; NULL: it is not sought */
    fry_shared_map map;   /* by which it is written, too */
    uint64_t incarnation; /* the member's; final */
    uint32_t asks;        /* how often it has asked, as far as it told */
    bool is_here;
} fry_symmetric_part;

/* One memory of this member's, and all that it has of the others'. */
struct fry_symmetric {
    uint32_t references; /* atomic: of the group's list, and of each handle */
    uint8_t life;        /* fry_symmetric_life; atomic, written with the baton by set_life */
    ferry_group *group;  /* it has a reference */
    ferry_device *device;
    ferry_buffer *buffer; /* it has a reference */
    uint64_t members;     /* a number for the members' incarnations */
    uint64_t key[2];      /* of name, size and members */
    TAILQ_ENTRY(fry_symmetric)
    entry;             /* until OVER; group->lock for changes. Who was used last is
                          the last */
    uint32_t attached; /* handles that are not given back: group->lock */

    /* Baton. */
    TAILQ_ENTRY(fry_symmetric) due; /* is_due: members->symmetrics_due */
    bool is_due;
    bool is_served;   /* an ask for this very memory has ended well */
    uint32_t started; /* of the attached: whose asks have begun */
    uint32_t holders; /* of these: whose asks have ended well */
    uint32_t asks;    /* all that have ended well, ever */
    uint32_t waiting; /* length of `asking` */
    TAILQ_HEAD(, ferry_symmetric) asking;
    ferry_window *own;
    fry_fault fault; /* BROKEN */
    char name[FRY_SYMMETRIC_NAME_BYTES];
    char own_name[FRY_WINDOW_NAME_BYTES]; /* of its window */
    fry_symmetric_part parts[];           /* by rank */
};

struct ferry_symmetric {
    uint32_t references; /* atomic: its holder's, and its operation's */
    uint8_t outcome; /* ferry_symmetric_state, without IS_BROKEN; atomic, written with the baton */
    bool has_submitted;    /* there is an operation */
    fry_symmetric *memory; /* it has a reference */
    fry_link release_link; /* members->symmetric_releases */

    /* Baton. */
    TAILQ_ENTRY(ferry_symmetric) asking; /* ask is not NULL */
    fry_node *ask;                       /* the operation, from its start to its end */
    bool is_started, is_released;
};

/*
 * A handle of this member's memory. If there is none it is made of a buffer, which is taken;
 * without one nothing is made. NULL: *why_p says why, or FRY_TAKEN: a buffer is wanted. The group
 * has been joined. Any thread, not with the baton.
 */
ferry_symmetric *fry_symmetric_attach(ferry_group *group, ferry_device *device, size_t size_bytes,
                                      const char *name, ferry_buffer **buffer_p,
                                      fry_refusal *why_p);

static inline void fry_symmetric_retain(ferry_symmetric *handle)
{
    (void)fry_fetch_add(&handle->references, 1);
}

/* Gives the handle back. Any thread. */
void fry_symmetric_release(ferry_symmetric *handle);

static inline fry_symmetric_life fry_symmetric_life_of(const fry_symmetric *memory)
{
    return (fry_symmetric_life)fry_load_acquire(&memory->life);
}

static inline ferry_symmetric_state fry_symmetric_outcome(const ferry_symmetric *handle)
{
    return (ferry_symmetric_state)fry_load_acquire(&handle->outcome);
}

/* ---- the loop, with the role and the baton ---- */

bool fry_symmetrics_have_work(const fry_members *members);
size_t fry_symmetrics_turn(fry_turn *turn, fry_members *members);

/* A member has ended: whether all have let go. */
void fry_symmetrics_look(fry_turn *turn, ferry_group *group);

/* The group's connections end. */
void fry_symmetrics_end(fry_turn *turn, ferry_group *group);

extern const fry_op_kind fry_kind_symmetric;

#endif
