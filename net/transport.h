/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels: how messages go to one other member, by any transport (net/ucx/ucx.c, or a test's own).
 * A channel is a separate worker with one endpoint, so that destroying it ends everything that it
 * may be at, and nothing else.
 *
 * Threads. Opening, address, connect and destroy: the loop, without the baton, while no thread is
 * in any other function of that channel. All others: the holder of the engine's baton, one thread
 * at a time, any thread; none of them blocks. A channel calls its events from within progress, post
 * or pull.
 */
#ifndef FRY_NET_TRANSPORT_H
#define FRY_NET_TRANSPORT_H

#include "base/fault.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/shared.h"

#include <ferry/status.h>
#include <stdbool.h>
#include <stddef.h>

#define FRY_HEADER_BYTES_MAX 256 /* header bytes of a message, without its data */
#define FRY_ADDRESS_BYTES_MAX 4096

typedef struct fry_channel fry_channel;
typedef struct fry_post fry_post;
typedef struct fry_pull fry_pull;

typedef enum fry_channel_path {
    FRY_PATH_SELF,   /* to this very member */
    FRY_PATH_SHARED, /* processes of one host: shared memory. It does not see the peer fail: a pidfd
                        reports that, and the channel is then destroyed */
    FRY_PATH_NET,    /* other hosts: it reports the peer's failure */
} fry_channel_path;

/* A post: something to send. It is the caller's memory until `done`. */
struct fry_post {
    const void *header; /* copied by the call */
    size_t header_bytes;
    const void *data; /* borrowed until done */
    size_t size_bytes;
    bool
        is_pulled; /* only the header is sent; the peer pulls the data when it has a place for it */
    /*
     * The data has left or never will: the memory is not touched any more. FERRY_OK, or
     * FERRY_E_PEER with the transport's error. Not called if `post` returns FRY_POST_DONE, and
     * perhaps not if the channel fails: the post then ends with the channel.
     */
    void (*done)(fry_post *post, ferry_status status, const fry_fault *fault);
    void *arg;
    void *private_; /* the channel's */
};

typedef enum fry_post_result {
    FRY_POST_DONE = 0, /* has left: `done` will not be called */
    FRY_POST_BEGUN,    /* `done` will be called */
    FRY_POST_FAILED,   /* the channel fails: `failed` has been or will be called; `done` won't */
} fry_post_result;

/* A pull: of data that stays at the sender until then. It is the receiver's memory until `done`. */
struct fry_pull {
    void *token; /* of the arrival */
    void *memory;
    size_t size_bytes;         /* of all the data */
    uint64_t address;          /* a read: of the data in the other process */
    const fry_shared_map *map; /* a read: it is mapped here, at map_offset; or NULL. Kept until the
                                  channel is destroyed, or until done */
    uint64_t map_offset;
    bool may_wait; /* likewise: others follow at once, so that all are read together */
    /*
     * The bytes are there or the pull failed, and nothing touches the memory any more; perhaps
     * never called if the channel fails. May be called from within fry_channel_ops.pull, or read.
     */
    void (*done)(fry_pull *pull, ferry_status status, const fry_fault *fault);
    void *arg;
    void *private_; /* the channel's */
};

/* An arrival; header and data are valid during the call. */
typedef struct fry_arrival {
    const void *header;
    size_t header_bytes;
    const void *data; /* NULL: it must be pulled, or there is none */
    size_t size_bytes;
    void *token; /* not NULL: must be pulled or dropped, exactly once */
} fry_arrival;

typedef struct fry_channel_events {
    void (*arrived)(void *arg, const fry_arrival *arrival);
    /*
     * The channel has failed: nothing comes or goes any more; called once, after all that had come.
     * Posts and pulls may still use their memory until the caller destroys the channel.
     */
    void (*failed)(void *arg, const fry_fault *fault);
} fry_channel_events;

/* What arming a channel has come to. */
typedef enum fry_arming {
    FRY_ARMING_BUSY = 0, /* there is something; make progress */
    FRY_ARMING_ARMED,    /* the descriptor reports what comes */
    FRY_ARMING_STUCK,    /* it reports nothing, and nothing moves: make progress in a moment */
} fry_arming;

typedef struct fry_channel_ops {
    fry_post_result (*post)(fry_channel *channel, fry_post *post);
    void (*pull)(fry_channel *channel, fry_pull *pull);
    /*
     * Reads data that the other end has said may be read, at `address`, without its help: like a
     * pull without a token. `done` with FERRY_E_UNSUPPORTED: this memory can't be read. If the
     * other end has destroyed its channel meanwhile, the channel fails, and the bytes are of no
     * use. False: this channel reads nothing. NULL: likewise.
     */
    bool (*read)(fry_channel *channel, fry_pull *pull);
    /* Drops an arrival that will not be pulled; the sender's post is done. */
    void (*drop)(fry_channel *channel, void *token);
    /* Makes progress: takes what has come. Returns how much there was. */
    size_t (*progress)(fry_channel *channel);
    /*
     * Arms the channel. ARMED: from now on `event_fd` becomes readable when something comes, or
     * something that waits can go; until then, or until look_ns, no progress is needed. If other
     * progress finds something meanwhile, the descriptor may not report it, or what comes after it:
     * arm again before sleeping. STUCK: the descriptor may be readable all the time.
     */
    fry_arming (*arm)(fry_channel *channel);
    /* Destroys the channel: afterwards it uses no memory, and calls no `done`. The loop. */
    void (*destroy)(fry_channel *channel);
} fry_channel_ops;

struct fry_channel {
    const fry_channel_ops *ops;
    fry_channel_path path;
    int event_fd;
    /*
     * When progress is due though nothing has come, by the monotonic clock; 0: not. Progress and
     * arm change it, and a post or a pull may set it, also of an armed channel.
     */
    int64_t look_ns;
    size_t eager_bytes_max; /* posts up to this size need not be pulled */
    /*
     * Headers of posts to be pulled, and messages about pulls, that have not left yet and that no
     * `done` reports: progress sends them. Owned by the channel.
     */
    uint32_t leaving;
    const fry_channel_events *events;
    void *events_arg;
};

#endif
