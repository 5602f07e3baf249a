/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairs: what two members' GPUs send each other memory with, both ways (NCCL: a communicator of two
 * ranks). A module offers them (base/module.h; net/nccl/).
 *
 *     make_token ─► TOKEN          the leader's, for the other end
 *     make ─► MAKING ─► READY      once both ends have begun
 *     launch ─► launched           both ends launch the same lots, in the same order
 *     end ─► ENDED                 whatever it was at; nothing of it uses memory any more
 *
 * A failure, of which the transport may tell at any time, makes it FAILED; what was launched may
 * use its memory until the pair is ENDED.
 *
 * Threads. One thread at a time calls all of this, any thread; no call blocks. All calls to the
 * transport, and those back, come from the module's own threads: so neither a group that the
 * program's thread has open nor its capture gets to see any of it, and a communicator that takes a
 * second to end keeps nobody waiting. A change of state is followed by `notify`.
 */
#ifndef FRY_NET_PAIRS_H
#define FRY_NET_PAIRS_H

#include "base/fault.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/module.h"
#include "base/stack.h"

#include <stdbool.h>

#define FRY_PAIR_TOKEN_BYTES 128
#define FRY_LOT_MOST 64 /* messages launched together at most */

typedef struct fry_pairs fry_pairs; /* an engine's */
typedef struct fry_pair fry_pair;
typedef struct fry_lot fry_lot;

typedef enum fry_pair_state {
    FRY_PAIR_FREE = 0, /* the module's, before open and after close */
    FRY_PAIR_OPEN,
    FRY_PAIR_TOKEN,  /* the token is made */
    FRY_PAIR_MAKING, /* both ends must take part, or it lasts until it is ended */
    FRY_PAIR_READY,
    FRY_PAIR_FAILED, /* it must be ended */
    FRY_PAIR_ENDED,  /* it must be closed */
} fry_pair_state;

/* How a module uses a device, which outlives the pair. On the module's threads. */
typedef struct fry_pair_device {
    void *arg;
    /* From now on the calling thread's calls to the driver are for the device. False: they fail. */
    bool (*make_current)(void *arg);
    /* A native stream of its own, ahead of the device's others; NULL: *fault says why. */
    void *(*open_stream)(void *arg, fry_fault *fault);
    /* Whether all that was put into it is over; true if that will never be known. */
    bool (*is_stream_idle)(void *arg, void *stream);
    void (*close_stream)(void *arg, void *stream);
} fry_pair_device;

typedef struct fry_lot_item {
    void *memory;      /* of the device */
    size_t size_bytes; /* not 0 */
    bool is_send;
} fry_lot_item;

/* Messages that are launched together. It is the caller's memory; the module's until `launched`. */
struct fry_lot {
    fry_link link;  /* first; the module's */
    uint32_t count; /* 1 to FRY_LOT_MOST */
    fry_lot_item items[FRY_LOT_MOST];
    /*
     * On the module's thread. FERRY_OK: all of it is in the native stream, so what is recorded
     * there now is after it. A failure: the pair has failed too, or been ended; some of it may be
     * there.
     */
    void (*launched)(fry_lot *lot, void *stream, ferry_status status, const fry_fault *fault);
    void *arg;
};

/* Tells the engine that a pair has another state. On the module's threads. */
typedef struct fry_pairs_notify {
    void (*fn)(void *arg);
    void *arg;
} fry_pairs_notify;

typedef struct fry_pairs_options {
    fry_pairs_notify notify;
    const fry_log *log;
    uint32_t pairs_most; /* open at once */
} fry_pairs_options;

typedef struct fry_pairs_ops {
    fry_module_ops module; /* first */

    /*
     * The transport's version, in its own numbers; both ends must have the same. 0: it can't be
     * used, and *reason says why, else what there is. Static text, or text of the process. Any
     * thread; may block; loads the transport.
     */
    uint32_t (*probe)(const char **reason);

    /* FERRY_OK; FERRY_E_NO_MEMORY; FERRY_E_NOT_FOUND: the transport can't be used. */
    ferry_status (*open)(const fry_memory *memory, const fry_pairs_options *options,
                         fry_pairs **pairs_p);
    /* All pairs are closed. May wait until the module's threads have ended. */
    void (*close)(fry_pairs *pairs);

    /*
     * Opens a pair between this member's device and another's; the leader is rank 0. NULL:
     * pairs_most are open, or the module's threads can't be made.
     */
    fry_pair *(*pair_open)(fry_pairs *pairs, const fry_pair_device *device, bool is_leader);
    fry_pair_state (*pair_state)(const fry_pair *pair);
    /* Why it FAILED. */
    void (*pair_fault)(const fry_pair *pair, fry_fault *fault);

    /* OPEN; the leader. It will be TOKEN or FAILED. */
    void (*pair_make_token)(fry_pair *pair);
    /* TOKEN: FRY_PAIR_TOKEN_BYTES. */
    const uint8_t *(*pair_token)(const fry_pair *pair);
    /* OPEN, or TOKEN (token NULL: its own). It will be READY or FAILED, or MAKING for ever. */
    void (*pair_make)(fry_pair *pair, const uint8_t *token);

    /* READY, or it has failed since. */
    void (*pair_launch)(fry_pair *pair, fry_lot *lot);
    /*
     * What was launched, and not told to have ended, is watched for failures. Calls with FERRY_OK
     * in `launched` are to be followed by one of these each, unless the pair is ended.
     */
    void (*pair_landed)(fry_pair *pair);

    /* Any state but ENDED; once. Lots that were not launched yet are told so before it is ENDED. */
    void (*pair_end)(fry_pair *pair);
    /* TOKEN, ENDED, or OPEN if nothing was asked of it. */
    void (*pair_close)(fry_pair *pair);
} fry_pairs_ops;

/* What the module of that name offers; NULL: *reason says why, as with fry_module_find. */
static inline const fry_pairs_ops *fry_pairs_find(const char *name, const char **reason)
{
    return (const fry_pairs_ops *)(const void *)fry_module_find(name, reason);
}

#endif
