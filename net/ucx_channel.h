/* SPDX-License-Identifier: Apache-2.0 */
/* What net/ucx.c, which makes channels over UCX, and net/ucx_channel.c, which runs them, share. */
#ifndef FRY_NET_UCX_CHANNEL_H
#define FRY_NET_UCX_CHANNEL_H

#include "net/transport.h"
#include "net/ucx_library.h"
#include "net/ucx_mark.h"
#include "net/ucx_watch.h"

#include <sys/types.h>

/* Header and data that are worth a try at once: what fits into an entry of a shared queue, beside
 * UCX's own header. TCP takes more, but is not quicker for it. */
#define FRY_UCX_SHORT_BYTES 92
#define FRY_UCX_OFFER_BYTES 24 /* what an offer's header has behind the message's own */

/* What UCX's active messages are. */
typedef enum fry_ucx_id {
    FRY_UCX_MESSAGE, /* with its data, or UCX's own announcement of it */
    /* Of net/ucx_offer.c, on one host. */
    FRY_UCX_OFFER,  /* a message whose data lies in the sender's memory */
    FRY_UCX_TAKEN,  /* of an offer: it is of no use any more */
    FRY_UCX_ASKED,  /* of an offer: its data can't be read here, and is to be sent */
    FRY_UCX_ANSWER, /* that data */
    FRY_UCX_IDS,
} fry_ucx_id;

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

/* fry_ucx_parcel_set_state alone moves it. */
typedef enum fry_ucx_parcel_state {
    FRY_UCX_PARCEL_FREE = 0,
    FRY_UCX_PARCEL_LEAVES,   /* a message that has not left by the end of its post */
    FRY_UCX_PARCEL_OFFERED,  /* an offer, until the other end has taken it */
    FRY_UCX_PARCEL_ANSWERED, /* one that the other end asked for, and whose data is on its way */
    FRY_UCX_PARCEL_FOUND,    /* the other end's offer, of which the peer was told */
    FRY_UCX_PARCEL_READ,     /* it waits to be read, or is being so */
    FRY_UCX_PARCEL_AWAITED,  /* it was asked for */
} fry_ucx_parcel_state;

/* A message on its way. */
typedef struct fry_ucx_parcel {
    struct fry_ucx_parcel *next; /* FREE; READ, AWAITED: of those */
    fry_ucx_channel *channel;
    uint32_t index;  /* among the channel's */
    uint32_t uses;   /* so that a word of an earlier use is told from one of this */
    uint8_t state;   /* fry_ucx_parcel_state */
    bool is_leaving; /* UCX reads `header` */
    fry_post *post;  /* its own */
    fry_pull *pull;  /* the other end's: who wants it */
    uint64_t id, address, size_bytes;
    uint64_t offset_bytes; /* READ: so much is there */
    unsigned char header[FRY_HEADER_BYTES_MAX + FRY_UCX_OFFER_BYTES];
} fry_ucx_parcel;

typedef struct fry_ucx_parcels {
    struct fry_ucx_parcels *next; /* older and smaller */
    uint32_t first, count;        /* indices */
    fry_ucx_parcel parcels[];
} fry_ucx_parcels;

/* Only fry_ucx_channel_set_state moves it, and only forward. */
typedef enum fry_ucx_channel_state {
    FRY_UCX_CHANNEL_OPEN,      /* has an address, and is connected to nobody */
    FRY_UCX_CHANNEL_CONNECTED, /* takes and brings messages */
    FRY_UCX_CHANNEL_BROKEN,    /* on one host: takes nothing more, and brings what has come */
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
    fry_ucx_mark mark;        /* stands as long as what was offered does */
    fry_ucx_mark_place other; /* the other end's */
    bool reads_other;         /* its memory; else it is asked to send what it offers */
    bool is_reading;          /* just now */
    size_t may_read_bytes;    /* before the next progress */
    fry_ucx_parcel *to_read, *last_to_read;
    fry_ucx_parcel *awaited, *last_awaited;
    void *arriving;           /* token of the arrival that is being told of just now */
    bool arriving_is_dropped; /* meanwhile */
    fry_ucx_channel_state state;
    ucs_status_t arm_status;    /* what arm was refused with, told of by progress */
    ucs_status_t broken_status; /* BROKEN: what will be told */
    const char *broken_call;    /* of what */
    uint32_t broken_rounds;     /* of progress since */
};

extern const fry_channel_ops fry_ucx_channel_ops;

void fry_ucx_channel_set_state(fry_ucx_channel *channel, fry_ucx_channel_state state);

/* The channel fails, if it has not; it may tell of that later. call: static. */
void fry_ucx_channel_fail(fry_ucx_channel *channel, ucs_status_t status, const char *call);

/* Has UCX call that with messages of a kind, and the channel as arg. */
ucs_status_t fry_ucx_channel_listen(fry_ucx_channel *channel, fry_ucx_id id,
                                    ucp_am_recv_callback_t heard);

/* UCX's receive handler of FRY_UCX_MESSAGE. */
ucs_status_t fry_ucx_channel_receive(void *arg, const void *header, size_t header_bytes, void *data,
                                     size_t size_bytes, const ucp_am_recv_param_t *param);

/* UCX's error handler, with the channel as arg. */
void fry_ucx_channel_broken(void *arg, ucp_ep_h endpoint, ucs_status_t status);

/* More parcels; false: no memory. */
bool fry_ucx_channel_add_parcels(fry_ucx_channel *channel);

/* NULL: no memory. */
fry_ucx_parcel *fry_ucx_parcel_take(fry_ucx_channel *channel, fry_ucx_parcel_state state);
void fry_ucx_parcel_set_state(fry_ucx_parcel *parcel, fry_ucx_parcel_state state);

/* ---- net/ucx_offer.c ---- */

/* Sets the mark, of which *place tells the other end. There is a worker. */
ucs_status_t fry_ucx_offers_open(fry_ucx_channel *channel, fry_ucx_mark_place *place);

/* The other end's. Finds out whether its memory can be read. */
void fry_ucx_offers_connect(fry_ucx_channel *channel, const fry_ucx_mark_place *other);

/* As fry_channel_ops has them, where memory is offered. */
fry_post_result fry_ucx_offers_post(fry_ucx_channel *channel, fry_post *post);
void fry_ucx_offers_pull(fry_ucx_channel *channel, fry_pull *pull);
void fry_ucx_offers_drop(fry_ucx_channel *channel, void *token);

/* Reads on. Returns how much there was to do. */
size_t fry_ucx_offers_progress(fry_ucx_channel *channel);

#endif
