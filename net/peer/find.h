/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows, as two peers tell each other of them: find.c. What goes in and out of them: reach.h.
 */
#ifndef FRY_NET_PEER_FIND_H
#define FRY_NET_PEER_FIND_H

#include "base/shared.h"
#include "net/peer/peer.h"
#include "net/peer/untaken.h"

typedef struct fry_record fry_record;
typedef struct fry_wire_header fry_wire_header;

#define FRY_WINDOWS_MOST 1024 /* windows of one member that another seeks or has found, at once */

/* What it is for: ferry_window_rights. */
#define FRY_WINDOW_GET 1
#define FRY_WINDOW_PUT 2

typedef enum fry_found_state {
    FRY_FOUND_NEW = 0,
    FRY_FOUND_WAITS,  /* for a connection */
    FRY_FOUND_SOUGHT, /* its owner is asked, or is to be asked */
    FRY_FOUND_HERE,   /* it is open */
    FRY_FOUND_GONE,   /* the peer has nothing of it any more */
} fry_found_state;

/* A window of the other end that this end seeks or has found. The engine's memory until GONE. */
struct fry_found {
    /* Set by the engine. */
    void *owner;
    const char *name;
    uint32_t told; /* for the owner, as it is left: window_left */
    /* Owned by the peer. */
    fry_peer *peer;
    TAILQ_ENTRY(fry_found) entry; /* WAITS */
    uint32_t number;              /* for the connection */
    uint8_t state;                /* fry_found_state */
    uint8_t rights;               /* HERE, like the rest */
    uint64_t size_bytes;
    uint64_t address;          /* in the other process, for reads; 0: they go by messages */
    const fry_shared_map *map; /* of memory that it is in; NULL: there is none */
    uint64_t map_offset;
    fry_shared_place place; /* which the map is of; its number is 0: there is none */
};

/* What the owner says of a window that it has open. */
struct fry_grant {
    void *window; /* the engine's */
    uint8_t rights;
    uint64_t size_bytes, address;
    void *shared; /* fry_shared_alloc's, in which it is, if others may read it; or NULL */
    uint64_t shared_offset;
};

/* Seeks a window, now or when there is a connection. On the loop. */
void fry_peer_find(fry_peer *peer, fry_found *found, void *turn);

/* This end does not seek it, or does not use it, any more. No event follows. */
void fry_peer_leave_window(fry_found *found, void *turn);

/* The owner has opened a window: whoever seeks it finds it, by `window_sought`. */
void fry_peer_window_opened(fry_peer *peer, void *turn);

/* The owner would close it: the other end is asked to leave it, if it has found it. */
void fry_peer_close_window(fry_peer *peer, const void *window, void *turn);

/* ---- for the files of a peer ---- */

typedef enum fry_grant_state {
    FRY_GRANT_NONE = 0,
    FRY_GRANT_SOUGHT,  /* its window is not open yet */
    FRY_GRANT_GIVEN,   /* the other end may use it */
    FRY_GRANT_CLOSING, /* likewise, and is asked to leave it */
    FRY_GRANT_LEFT,    /* LEFT has come before its FIND */
} fry_grant_state;

/* What this end seeks or has found, by the lower digits of its number. */
typedef struct fry_find_slot {
    fry_found *found;   /* NULL: left */
    uint32_t number;    /* the latest */
    uint8_t due;        /* the word that waits for a control: FIND or LEFT; 0: none */
    bool is_closing;    /* CLOSE has come */
    uint32_t told;      /* with LEFT, if that is due */
    fry_shared_map map; /* also of one that was lost: reads may be in flight */
} fry_find_slot;

/* What the other end seeks or has found, likewise. */
typedef struct fry_grant_slot {
    fry_grant grant;
    uint32_t number;
    uint8_t state; /* fry_grant_state */
    bool is_found_due, is_close_due;
    bool is_marked; /* in grant.shared: */
    uint32_t mark;
    char name[FRY_WINDOW_NAME_BYTES];
} fry_grant_slot;

/* What a connection has for windows and notices. Tables are used from the front. */
typedef struct fry_finds {
    uint32_t due;                     /* number of words that wait for a control */
    uint32_t find_count, grant_count; /* slots that were ever used */
    size_t copyable_bytes;            /* reach.c: until the next progress */
    TAILQ_HEAD(, fry_message) untold; /* send.c: they wait for a control */
    fry_find_slot finds[FRY_WINDOWS_MOST];
    fry_grant_slot grants[FRY_WINDOWS_MOST];
    /* notice.c */
    fry_record *notice_first, *notice_last; /* that can be taken */
    uint32_t notice_fresh, notice_free_count;
    uint16_t notice_free[FRY_NOTICES_UNTAKEN];
} fry_finds;

void fry_finds_attach(fry_peer *peer);
void fry_finds_detach(fry_peer *peer, fry_peer_connection *connection, ferry_status status,
                      const fry_fault *fault);
void fry_finds_destroyed(const fry_peer_connection *connection);

/* Handles FIND, FOUND, CLOSE and LEFT. False: the other end broke the rules. */
bool fry_finds_heard(fry_peer_connection *connection, const fry_wire_header *header);

/* The window that the other end has found by that number; NULL: it has left it. */
void *fry_finds_granted(const fry_peer_connection *connection, uint32_t number);

/* Whether something waits for a control, here or in send.c. Inline: each progress asks it. */
static inline bool fry_finds_are_due(const fry_finds *windows)
{
    return windows->due > 0 || !TAILQ_EMPTY(&windows->untold);
}

/* Says what is here, as far as possible. There are windows. */
void fry_finds_go_on(fry_peer_connection *connection);

#endif
