/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows: memory of this member that others may read and write, and such memory of others. What
 * moves the bytes is in reach.c; net/peer/find.c has the words between members.
 */
#ifndef FRY_ENGINE_MESSAGES_WINDOW_H
#define FRY_ENGINE_MESSAGES_WINDOW_H

#include "engine/graph/buffer.h"
#include "engine/graph/kind.h"
#include "engine/graph/turn.h"
#include "engine/messages/groups.h"
#include "net/peer/find.h"

#include <ferry/window.h>

typedef struct fry_transfer fry_transfer;
typedef struct ferry_window ferry_window;

#define FRY_WINDOWS_OWN_MOST 1024 /* of this member, in one group */

typedef enum fry_window_life {
    FRY_WINDOW_NEW = 0, /* the loop has yet to open it, or to look for it */
    FRY_WINDOW_SEEKING, /* its owner is asked */
    FRY_WINDOW_USABLE,  /* own: others can find it. Found: operations may use it */
    FRY_WINDOW_ENDING,  /* no operation begins; it waits for those that use it */
    FRY_WINDOW_OVER,    /* nothing knows of it but its references */
} fry_window_life;

/* Whoever made it, if that is not a program. Baton. */
typedef struct fry_window_watch {
    /* It is USABLE, or ENDING. Changes nothing of windows itself. */
    void (*changed)(fry_turn *turn, ferry_window *window);
    /* Own: whether that member means it by that name. */
    bool (*is_meant)(fry_turn *turn, ferry_window *window, ferry_rank rank, const char *name);
    /* Own: that member has left it, and told something by that, or 0. */
    void (*left)(fry_turn *turn, ferry_window *window, ferry_rank rank, uint32_t told);
} fry_window_watch;

/* Who may end it: the handle's holder, or the window's owner. */
struct ferry_window {
    uint32_t references; /* atomic: the handle's, each transfer's, that of members->windows */
    uint8_t life;        /* fry_window_life; atomic, written with the baton by set_life */
    bool is_own;
    uint8_t rights;       /* of a found one: once USABLE, like its size */
    uint8_t end_asked;    /* atomic: a close was submitted */
    bool is_counted;      /* found, in an open group: in route->windows until the handle is back */
    ferry_group *group;   /* it has a reference */
    fry_route *route;     /* found: its owner's */
    ferry_buffer *buffer; /* own: it has a reference until it is OVER */
    size_t offset;        /* own: in the buffer */
    uint64_t size_bytes;
    fry_link release_link;         /* members->window_releases */
    const fry_window_watch *watch; /* NULL: it is a program's */
    void *watch_arg;

    /* Baton. */
    TAILQ_ENTRY(ferry_window) entry; /* group->windows, from USABLE or SEEKING until OVER */
    TAILQ_ENTRY(ferry_window) due;   /* is_due: members->windows_due */
    bool is_due, is_listed;
    bool begins, ends;   /* is_due: what for */
    fry_node *begin;     /* the operation that opens or finds it, until it has ended */
    fry_node *end;       /* the close that waits; or NULL */
    uint32_t grants;     /* own: members that have found it and not left it */
    uint32_t uses;       /* own: transfers for others. Found: gets and puts that have begun */
    fry_found found;     /* found */
    ferry_status status; /* OVER or ENDING: what operations fail with */
    fry_fault fault;     /* the same */
    char name[FRY_WINDOW_NAME_BYTES];
};

/* Makes one that is NEW, with one reference for the handle. NULL: no memory. Any thread. */
ferry_window *fry_window_make(ferry_group *group, const char *name);

static inline void fry_window_retain(ferry_window *window)
{
    (void)fry_fetch_add(&window->references, 1);
}

/* Any thread. The last one frees it, and its group if that waits for it. */
void fry_window_unretain(ferry_window *window);

static inline fry_window_life fry_window_life_of(const ferry_window *window)
{
    return (fry_window_life)fry_load_acquire(&window->life);
}

/*
 * In an open group the handle of a found window keeps its owner's rank from being given away
 * (ending.c): from before the operation that finds it, any thread, until the handle is back.
 */
void fry_window_count(ferry_window *window);
void fry_window_count_no_more(ferry_window *window);

/* Gives the handle back: closes it, if nobody has. Any thread. */
void fry_window_release(ferry_window *window);

/* ---- for whoever watches windows of its own making: the loop, with the role and the baton ---- */

/* Opens or seeks a window that was made and set up. */
void fry_window_begin(fry_turn *turn, ferry_window *window);

/* Closes it. It has no watch any more, and the reference of whoever made it stays. */
void fry_window_end(fry_turn *turn, ferry_window *window);

/*
 * Why an operation that is about to begin may not use those bytes of a found window; FERRY_OK: it
 * may. With the baton.
 */
ferry_status fry_window_refusal(const ferry_window *window, bool is_put, uint64_t offset,
                                uint64_t size_bytes, fry_fault *fault);

/* The same of its bounds and rights alone: for the owner, while others may still use it. */
ferry_status fry_window_check(const ferry_window *window, bool is_put, uint64_t offset,
                              uint64_t size_bytes, fry_fault *fault);

/* A transfer of the window has ended, and is about to be given back: with its reference. Baton. */
void fry_window_is_used_no_more(fry_turn *turn, const fry_transfer *transfer);

/* ---- the loop, with the role and the baton ---- */

/* Whether windows are to be opened, sought, closed or released. */
bool fry_windows_have_work(const fry_members *members);
size_t fry_windows_turn(fry_turn *turn, fry_members *members);

/* This member begins to leave: what it seeks is not found any more. */
void fry_windows_stop(fry_turn *turn, ferry_group *group);

/* The group's connections end, and so do all its windows. True: there are none any more. */
bool fry_windows_end(fry_turn *turn, ferry_group *group);

/* ---- what peers tell: fry_peer_events. Baton ---- */

void fry_window_found(void *turn, fry_found *found);
void fry_window_closing(void *turn, fry_found *found);
void fry_window_lost(void *turn, fry_found *found, ferry_status status, const fry_fault *fault);
bool fry_window_sought(void *turn, fry_peer *peer, const char *name, fry_grant *grant);
void fry_window_left(void *turn, fry_peer *peer, void *window, uint32_t told);

extern const fry_op_kind fry_kind_window, fry_kind_find;

#endif
