/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by net/ucx/ucx.c, which makes channels over UCX, and net/ucx/channel.c, which runs them.
 */
#ifndef FRY_NET_UCX_CHANNEL_H
#define FRY_NET_UCX_CHANNEL_H

#include "net/ucx/mark.h"
#include "net/ucx/ucx.h"
#include "net/ucx/watch.h"

#include <sys/types.h>
#include <ucp/api/ucp.h>

/*
 * Bytes of header and data that are worth an attempt at once: they fit into an entry of a shared
 * queue, with UCX's own header. TCP takes more, but is not faster for it.
 */
#define FRY_UCX_SHORT_BYTES 92
#define FRY_UCX_OFFER_BYTES 24 /* bytes of an offer's header after the message's own */

/* Kinds of UCX's active messages. */
typedef enum fry_ucx_id {
    FRY_UCX_MESSAGE, /* with its data, or UCX's own announcement of it */
    /* For net/ucx/offer.c, on one host. */
    FRY_UCX_OFFER,  /* a message whose data is in the sender's memory */
    FRY_UCX_TAKEN,  /* for an offer: it is finished */
    FRY_UCX_ASKED,  /* for an offer: its data can't be read and must be sent */
    FRY_UCX_ANSWER, /* that data */
    FRY_UCX_IDS,
} fry_ucx_id;

typedef struct fry_ucx_channel fry_ucx_channel;

/* A kind of UCX context: the transports of its channels. */
typedef enum fry_ucx_kind {
    FRY_UCX_POSIX, /* shared memory of this host */
    FRY_UCX_SYSV,  /* the same, if that is not available */
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
    ucp_context_h contexts[FRY_UCX_KINDS]; /* made when first needed */
};

/* State of a parcel; only fry_ucx_parcel_set_state moves it. */
typedef enum fry_ucx_parcel_state {
    FRY_UCX_PARCEL_FREE = 0,
    FRY_UCX_PARCEL_LEAVES,   /* a message that had not left at the end of its post */
    FRY_UCX_PARCEL_OFFERED,  /* an offer, until the other end has taken it */
    FRY_UCX_PARCEL_ANSWERED, /* an offer that the other end asked for; its data is under way */
    FRY_UCX_PARCEL_FOUND,    /* the other end's offer, which was reported to the peer */
    FRY_UCX_PARCEL_READ,     /* it waits to be read, or is being read */
    FRY_UCX_PARCEL_AWAITED,  /* its data was asked for */
} fry_ucx_parcel_state;

/* A parcel: a message under way. */
typedef struct fry_ucx_parcel {
    struct fry_ucx_parcel *next; /* in the list of FREE, READ or AWAITED ones */
    fry_ucx_channel *channel;
    uint32_t index;  /* among the channel's */
    uint32_t uses;   /* tells an answer to an earlier use from one to this use */
    uint8_t state;   /* fry_ucx_parcel_state */
    bool is_leaving; /* UCX reads `header` */
    bool is_offered; /* READ: the other end waits for TAKEN */
    fry_post *post;  /* of this end */
    fry_pull *pull;  /* of the other end's offer: the pull that wants it */
    uint64_t id, address, size_bytes;
    uint64_t offset_bytes; /* READ: bytes read so far */
    unsigned char header[FRY_HEADER_BYTES_MAX + FRY_UCX_OFFER_BYTES];
} fry_ucx_parcel;

typedef struct fry_ucx_parcels {
    struct fry_ucx_parcels *next; /* older and smaller */
    uint32_t first, count;        /* indices */
    fry_ucx_parcel parcels[];
} fry_ucx_parcels;

/* State of a channel; only fry_ucx_channel_set_state moves it, and only forward. */
typedef enum fry_ucx_channel_state {
    FRY_UCX_CHANNEL_OPEN,      /* has an address; not connected */
    FRY_UCX_CHANNEL_CONNECTED, /* sends and receives messages */
    FRY_UCX_CHANNEL_BROKEN,    /* on one host: sends nothing more, and delivers what has come */
    FRY_UCX_CHANNEL_FAILED,    /* `failed` was called; only `done` is still called */
    FRY_UCX_CHANNEL_ENDED,     /* being destroyed: calls nobody */
} fry_ucx_channel_state;

struct fry_ucx_channel {
    fry_channel public_; /* first: a fry_channel * is a fry_ucx_channel * */
    fry_ucx *ucx;
    ucp_context_h own_context; /* NULL: it shares one */
    ucp_worker_h worker;
    ucp_ep_h endpoint;
    fry_ucx_watch watch;
    uint32_t fruitless; /* refusals of arm since the last progress */
    fry_ucx_parcel *free_parcels;
    fry_ucx_parcels *chunks;
    fry_ucx_mark mark;        /* valid as long as the offers are */
    fry_ucx_mark_place other; /* the other end's */
    bool reads_other;      /* this end reads the other's memory; else it asks the other to send */
    bool is_reading;       /* a read is in progress */
    size_t may_read_bytes; /* bytes that may be read before the next progress */
    fry_ucx_parcel *to_read, *last_to_read;
    fry_ucx_parcel *awaited, *last_awaited;
    void *arriving;           /* token of the arrival being reported */
    bool arriving_is_dropped; /* it was dropped meanwhile */
    fry_ucx_channel_state state;
    ucs_status_t arm_status;    /* UCX's refusal of arm, reported by progress */
    ucs_status_t broken_status; /* BROKEN: the status to report */
    const char *broken_call;    /* the call that failed */
    uint32_t broken_rounds;     /* rounds of progress since */
};

extern const fry_channel_ops fry_ucx_channel_ops;

void fry_ucx_channel_set_state(fry_ucx_channel *channel, fry_ucx_channel_state state);

/* Fails the channel, unless it has failed; it may report that later. call: static. */
void fry_ucx_channel_fail(fry_ucx_channel *channel, ucs_status_t status, const char *call);

/* Makes UCX call the handler with messages of a kind, and the channel as arg. */
ucs_status_t fry_ucx_channel_listen(fry_ucx_channel *channel, fry_ucx_id id,
                                    ucp_am_recv_callback_t heard);

/* UCX's receive handler of FRY_UCX_MESSAGE. */
ucs_status_t fry_ucx_channel_receive(void *arg, const void *header, size_t header_bytes, void *data,
                                     size_t size_bytes, const ucp_am_recv_param_t *param);

/* UCX's error handler, with the channel as arg. */
void fry_ucx_channel_broken(void *arg, ucp_ep_h endpoint, ucs_status_t status);

/* Adds parcels; false: no memory. */
bool fry_ucx_channel_add_parcels(fry_ucx_channel *channel);

/* Takes a parcel; NULL: no memory. */
fry_ucx_parcel *fry_ucx_parcel_take(fry_ucx_channel *channel, fry_ucx_parcel_state state);
void fry_ucx_parcel_set_state(fry_ucx_parcel *parcel, fry_ucx_parcel_state state);

#endif
