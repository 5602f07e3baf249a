/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Imports: memory of other processes of this host that is open here. With the baton, if not said
 * otherwise.
 */
#ifndef FRY_ENGINE_MESSAGES_IMPORT_H
#define FRY_ENGINE_MESSAGES_IMPORT_H

#include "engine/graph/buffer.h"
#include "gpu/device.h"

#define FRY_IMPORTS_MOST 32
#define FRY_IMPORTS_KEPT 24 /* from so many on, one without users is closed for each new one */

typedef struct fry_route fry_route;

typedef enum fry_import_state {
    FRY_IMPORT_FREE = 0,
    FRY_IMPORT_WANTED,   /* the loop is to open it */
    FRY_IMPORT_OPENING,  /* the role does */
    FRY_IMPORT_OPEN,     /* it can be read */
    FRY_IMPORT_REFUSED,  /* it can't be opened; remembered, so that it is not tried each time */
    FRY_IMPORT_UNWANTED, /* it has no users: the loop is to close it */
    FRY_IMPORT_CLOSING,  /* the device does */
} fry_import_state;

/* An allocation of another process, for one device of this engine. */
typedef struct fry_import {
    ferry_buffer buffer; /* first; what copies name */
    fry_memory_share share;
    fry_route *route; /* whose memory it is; NULL: that connection is over */
    TAILQ_ENTRY(fry_import) entry;
    uint32_t users;
    uint8_t state;       /* fry_import_state */
    bool is_hidden;      /* its owner waits for its end */
    bool was_in_the_way; /* REFUSED: something that could not be closed was */
    bool has_cleared;    /* what was in the way was to be closed once */
    uint32_t is_closed;  /* atomic; CLOSING: the device has done it */
} fry_import;

typedef struct fry_imports {
    fry_import all[FRY_IMPORTS_MOST];
    TAILQ_HEAD(, fry_import) used; /* the longest unused first */
    uint32_t count;                /* in `used` */
    uint32_t closing_count;        /* of these, CLOSING */
    bool has_news;   /* whoever waits for an import is to look; or one is to be opened or closed */
    fry_import *job; /* OPENING; NULL: none; only the loop sets it */

    /* The role. */
    bool is_done; /* the job is */
    void *memory;
    ferry_status status;
} fry_imports;

void fry_imports_init(fry_imports *imports);

/* Closes all that is open. Nothing reads any more; any thread. */
void fry_imports_free(fry_imports *imports);

/*
 * The import of that memory, which is to be opened if it is not; it has one more user. NULL: there
 * is none to spare.
 */
fry_import *fry_import_use(fry_imports *imports, fry_route *route, ferry_device *device,
                           const fry_memory_share *share);
void fry_import_leave(fry_imports *imports, fry_import *import);

/* That memory is closed, once it has no users, and used by no others; whether some is yet to be. */
void fry_imports_hide(fry_imports *imports, const fry_route *route, uint64_t generation);
bool fry_imports_have(const fry_imports *imports, const fry_route *route, uint64_t generation);

/* The connection is over: what it had opened is closed, once it has no users. */
void fry_imports_part(fry_imports *imports, const fry_route *route);

/* On the loop: ends what is done, closes, and begins to open. Returns how much was done. */
size_t fry_imports_turn(fry_imports *imports);

/* Opens one, if that is due: the role, without the baton. Returns how much was done. */
size_t fry_imports_work(fry_imports *imports);

/* Whether the loop has something to do here now. */
bool fry_imports_are_due(const fry_imports *imports);

#endif
