/* SPDX-License-Identifier: Apache-2.0 */
/* What net/ucx.c, which makes channels over UCX, and net/ucx_channel.c, which runs them, share. */
#ifndef FRY_NET_UCX_CHANNEL_H
#define FRY_NET_UCX_CHANNEL_H

#include "net/transport.h"
#include "net/ucx_library.h"
#include "net/ucx_watch.h"

#include <sys/types.h>

#define FRY_UCX_MESSAGE_ID 0 /* of all that a channel sends */
/* Header and data that are worth a try at once: what fits into an entry of a shared queue, beside
 * UCX's own header. TCP takes more, but is not quicker for it. */
#define FRY_UCX_SHORT_BYTES 92
#define FRY_UCX_DESCRIPTION_BYTES 64

typedef struct fry_ucx_channel fry_ucx_channel;

/* A kind of UCX context: what its channels may cross by. */
typedef enum fry_ucx_kind {
    FRY_UCX_POSIX, /* shared memory of this host */
    FRY_UCX_SYSV,  /* the same, where that can't be had */
    FRY_UCX_NET,   /* networks */
    FRY_UCX_KINDS,
} fry_ucx_kind;

struct fry_ucx {
    const fry_memory *memory;
    const fry_log *log;
    char *net_devices; /* NULL: all */
    size_t net_devices_bytes;
    int64_t keepalive_ns;
    size_t registration_cache_bytes;
    pid_t pid;                             /* only this process may touch anything of UCX's */
    ucp_context_h contexts[FRY_UCX_KINDS]; /* made when one is needed first */
};

/* A message that has not left by the end of its post: UCX reads the header until it has. */
typedef struct fry_ucx_parcel {
    struct fry_ucx_parcel *next; /* while it is free */
    fry_ucx_channel *channel;
    unsigned char header[FRY_HEADER_BYTES_MAX];
} fry_ucx_parcel;

typedef struct fry_ucx_parcels {
    struct fry_ucx_parcels *next;
    uint32_t count;
    fry_ucx_parcel parcels[];
} fry_ucx_parcels;

/* Only fry_ucx_channel_set_state moves it, and only forward. */
typedef enum fry_ucx_channel_state {
    FRY_UCX_CHANNEL_OPEN,      /* has an address, and is connected to nobody */
    FRY_UCX_CHANNEL_CONNECTED, /* takes and brings messages */
    FRY_UCX_CHANNEL_FAILED,    /* `failed` has been called; only done still comes */
    FRY_UCX_CHANNEL_ENDED,     /* being destroyed: calls nobody */
} fry_ucx_channel_state;

struct fry_ucx_channel {
    fry_channel public_; /* first: a fry_channel * is a fry_ucx_channel * */
    fry_ucx *ucx;
    ucp_context_h own_context; /* NULL: it shares one */
    ucp_worker_h worker;
    ucp_ep_h endpoint;
    fry_ucx_watch watch;
    uint32_t fruitless; /* times that arm was refused since there was progress */
    fry_ucx_parcel *free_parcels;
    fry_ucx_parcels *chunks;
    fry_pull *waiting; /* pulls that have not begun, in order; linked by private_ */
    fry_pull *last_waiting;
    size_t reading; /* pulls that have begun */
    size_t reading_bytes;
    void *arriving;           /* token of the arrival that is being told of just now */
    bool arriving_is_dropped; /* meanwhile */
    fry_ucx_channel_state state;
    bool reads_itself;       /* pulls are reads of the peer's memory, and don't need the peer */
    ucs_status_t arm_status; /* what arm was refused with, told of by progress */
    char description[FRY_UCX_DESCRIPTION_BYTES];
};

extern const fry_channel_ops fry_ucx_channel_ops;

void fry_ucx_channel_set_state(fry_ucx_channel *channel, fry_ucx_channel_state state);

/* UCX's receive handler, with the channel as arg. */
ucs_status_t fry_ucx_channel_receive(void *arg, const void *header, size_t header_bytes, void *data,
                                     size_t size_bytes, const ucp_am_recv_param_t *param);

/* UCX's error handler, likewise. */
void fry_ucx_channel_broken(void *arg, ucp_ep_h endpoint, ucs_status_t status);

/* More parcels; false: no memory. */
bool fry_ucx_channel_add_parcels(fry_ucx_channel *channel);

#endif
