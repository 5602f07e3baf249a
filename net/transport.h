/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels: how messages cross to one other member, by whatever means (net/ucx.c; a test's own).
 * A channel is a worker of its own with one endpoint, so that destroying it ends everything that it
 * may be at, and nothing else.
 *
 * Threads. Opening, address, connect and destroy: the loop, without the baton, and then nobody is
 * in any other function of that channel. Everything else: the holder of the engine's baton, one
 * thread at a time, any thread; none of it blocks. What a channel tells, it tells from within
 * progress, post or pull.
 */
#ifndef FRY_NET_TRANSPORT_H
#define FRY_NET_TRANSPORT_H

#include "base/log.h"
#include "base/memory.h"
#include "base/native_error.h"

#include <ferry/status.h>
#include <stdbool.h>
#include <stddef.h>

#define FRY_HEADER_BYTES_MAX 256 /* of a message, beside its data */
#define FRY_ADDRESS_BYTES_MAX 4096

typedef struct fry_channel fry_channel;
typedef struct fry_post fry_post;
typedef struct fry_pull fry_pull;

typedef enum fry_channel_path {
    FRY_PATH_SELF,   /* to this very member */
    FRY_PATH_SHARED, /* processes of one host: shared memory. No failure of the peer is seen here: a
                        pidfd tells, and then the channel is destroyed */
    FRY_PATH_NET,    /* hosts: failure of the peer is told */
} fry_channel_path;

/* Something to be sent. The caller's memory until `done`. */
struct fry_post {
    const void *header; /* copied by the call */
    size_t header_bytes;
    const void *data; /* borrowed until done */
    size_t size_bytes;
    bool is_pulled; /* only the header goes; the peer pulls the data when it has a place for it */
    /*
     * The data has left, or will not: the memory is not touched any more. FERRY_OK,
     * FERRY_E_PEER (with what the transport said). Not called when `post` itself gives
     * FRY_POST_DONE, nor perhaps where the channel fails: then it is over with the channel.
     */
    void (*done)(fry_post *post, ferry_status status, const fry_native_error *error);
    void *arg;
    void *private_; /* the channel's */
};

typedef enum fry_post_result {
    FRY_POST_DONE = 0, /* left already: `done` will not be called */
    FRY_POST_BEGUN,    /* `done` will be */
    FRY_POST_FAILED,   /* the channel fails: `failed` has been called, or will be; `done` won't */
} fry_post_result;

/* Data that stays at the sender until it is pulled; the receiver's memory until `done`. */
struct fry_pull {
    void *token; /* of the arrival */
    void *memory;
    size_t size_bytes; /* all of it */
    /* The bytes are there and nothing touches the memory any more, or not, and likewise, or
     * perhaps never. May be called from within fry_channel_ops.pull. */
    void (*done)(fry_pull *pull, ferry_status status, const fry_native_error *error);
    void *arg;
    void *private_; /* the channel's */
};

/* What has come; header and data are valid during the call. */
typedef struct fry_arrival {
    const void *header;
    size_t header_bytes;
    const void *data; /* NULL: it is to be pulled, or there is none */
    size_t size_bytes;
    void *token; /* not NULL: to be pulled or dropped, exactly once */
} fry_arrival;

typedef struct fry_channel_events {
    void (*arrived)(void *arg, const fry_arrival *arrival);
    /* Nothing comes or goes any more; called once, after what had come. What was posted or pulled
     * may still be at its memory until the channel is destroyed, which is the caller's to see to.
     */
    void (*failed)(void *arg, const fry_native_error *error);
} fry_channel_events;

typedef struct fry_channel_ops {
    fry_post_result (*post)(fry_channel *channel, fry_post *post);
    void (*pull)(fry_channel *channel, fry_pull *pull);
    /* It will not be pulled; the sender's post is done. */
    void (*drop)(fry_channel *channel, void *token);
    /* Lets come what has come. Returns how much there was. */
    size_t (*progress)(fry_channel *channel);
    /* True: from now on `event_fd` becomes readable when something comes, or something that waits
     * can go; until then no progress is needed. If other progress finds something meanwhile, the
     * descriptor may not tell of it, nor of what comes after: arm again before sleeping. False:
     * there is something, make progress. */
    bool (*arm)(fry_channel *channel);
    /* Ends it: after this nothing of it is at any memory, and no done is called. The loop. */
    void (*destroy)(fry_channel *channel);
} fry_channel_ops;

struct fry_channel {
    const fry_channel_ops *ops;
    fry_channel_path path;
    int event_fd;
    size_t eager_bytes_max; /* posts of at most this need not be pulled */
    /* Headers of posts that are to be pulled, and words about pulls, which have yet to leave and
     * which no `done` tells of: progress has them leave. The channel's. */
    uint32_t leaving;
    const fry_channel_events *events;
    void *events_arg;
};

/* ---- channels over UCX: net/ucx.c ---- */

/*
 * Finds UCX, once a process. FERRY_OK, or FERRY_E_UNSUPPORTED; *text_p says why not, else which it
 * is; it lives as long as the process. Any thread.
 */
ferry_status fry_ucx_load(const char **text_p);

typedef struct fry_ucx fry_ucx;

typedef struct fry_ucx_options {
    const fry_memory *memory;
    const fry_log *log;
    const char
        *net_devices; /* UCX_NET_DEVICES for other hosts: "eth0"; NULL: all but what is down */
    /* FRY_PATH_NET: a network that does not answer for so long, and a second, has failed; where
     * nothing is under way TCP tells, which counts whole seconds, and 3 of them at least. */
    int64_t keepalive_ns;
    size_t registration_cache_bytes;
} fry_ucx_options;

/*
 * Finds libucp.so.0 at run time. FERRY_OK, FERRY_E_UNSUPPORTED (there is no UCX, or one that is too
 * old), FERRY_E_SYSTEM; *why says more, static. The loop.
 */
ferry_status fry_ucx_open(const fry_ucx_options *options, fry_ucx **ucx_p, const char **why);
void fry_ucx_close(fry_ucx *ucx);

/*
 * Opens a channel, not connected yet, and writes where the peer's is to connect to. FERRY_OK,
 * FERRY_E_NO_MEMORY, FERRY_E_PEER with *error. The loop.
 */
ferry_status fry_ucx_channel_open(fry_ucx *ucx, fry_channel_path path,
                                  const fry_channel_events *events, void *events_arg,
                                  fry_channel **channel_p, void *address, size_t *address_bytes,
                                  fry_native_error *error);

/* To the address of the peer's. Waits for nobody. The loop. */
ferry_status fry_ucx_channel_connect(fry_channel *channel, const void *address,
                                     size_t address_bytes, fry_native_error *error);

#endif
