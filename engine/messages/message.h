/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives. */
#ifndef FRY_ENGINE_MESSAGES_MESSAGE_H
#define FRY_ENGINE_MESSAGES_MESSAGE_H

#include "engine/graph/kind.h"
#include "engine/graph/turn.h"
#include "net/peer/peer.h"
#include <ferry/message.h>

typedef struct fry_members fry_members;
typedef struct fry_route fry_route;

enum fry_transfer_flags {
    FRY_TRANSFER_ENTERED = 1 << 0,   /* the peer has the message */
    FRY_TRANSFER_RESOLVED = 1 << 1,  /* the peer has reported how it ended, or was told */
    FRY_TRANSFER_QUIET = 1 << 2,     /* the peer is done with it */
    FRY_TRANSFER_FAULTED = 1 << 3,   /* in members->faulted: the loop will fail its node */
    FRY_TRANSFER_UNTOUCHED = 1 << 4, /* the peer keeps it, but not its memory; FAULTED, or a copy
                                        of its bytes runs */
    FRY_TRANSFER_ENDS = 1 << 5,      /* the peer is done with it, but a copy of its bytes runs */
    FRY_TRANSFER_FETCHING = 1 << 6,  /* in stages->small: it waits for a chunk */
    FRY_TRANSFER_HAS_CHUNK = 1 << 7, /* `chunk` has its bytes, which the channel may be reading */
};

#define FRY_TRANSFER_STAGES (FRY_TRANSFER_FETCHING | FRY_TRANSFER_HAS_CHUNK)

/* Where the bytes of a staged receive are: see landed in stage.c. */
typedef struct fry_landed {
    size_t size_bytes; /* of those whose copies to the device are issued, or over */
    fry_stand stand;   /* the latest of these copies; no lane: none */
    bool is_apart;     /* not all of them are in that stream */
} fry_landed;

/* What a send or receive has besides its node, from a pool, until the peer is done with it. */
typedef struct fry_transfer {
    fry_message message; /* first */
    fry_node *node;      /* NULL: it has failed, and nobody touches its memory any more */
    fry_route *route;
    union {
        TAILQ_ENTRY(fry_transfer) small; /* if FETCHING */
        struct fry_stage *chunk;         /* if HAS_CHUNK */
    };
    fry_link link; /* if FAULTED, like status and fault */
    uint8_t flags;
    uint8_t copies; /* of its pieces, from or to its memory: stage.c */
    bool is_in_lot; /* staged: launched together with others: pairing.c */
    int32_t status;
    fry_fault fault;
    fry_landed landed;       /* a staged receive */
    ferry_window *window;    /* a get or a put, or what is done for one; or NULL. It holds a
                                reference to the window */
    struct fry_stage *ahead; /* a staged send: the chunk that has its first bytes before it starts,
                                or will have them; or NULL */
} fry_transfer;

#define FRY_FLOW_OP_MASK (((uint64_t)1 << 40) - 1)

/* A number for both ends, unique in the group: the sender's rank and operation. */
static inline uint64_t fry_flow_of(uint32_t sender, uint64_t op)
{
    return ((uint64_t)sender + 1) << 40 | (op & FRY_FLOW_OP_MASK);
}

extern const fry_op_kind fry_kind_send, fry_kind_recv;

/* ---- what rows of messages, gets and puts are made of: kind.h ---- */

#define FRY_MESSAGE_TRAITS (FRY_KIND_STAYS | FRY_KIND_ONE_SPAN | FRY_KIND_ENDS_OUTSIDE)

bool fry_messages_sent_span(const fry_node *node, uint8_t index, fry_use *use);
bool fry_messages_received_span(const fry_node *node, uint8_t index, fry_use *use);
uint64_t fry_messages_sent_bytes(const fry_node *node, uint64_t *flow_p);
uint64_t fry_messages_received_bytes(const fry_node *node, uint64_t *flow_p);
void fry_messages_discard(ferry_engine *engine, fry_context *context, fry_node *node);
void fry_messages_start(fry_turn *turn, fry_node *node);
bool fry_messages_stop(fry_node *node);
void fry_messages_failed(fry_turn *turn, fry_node *node, bool is_under_way);
void fry_messages_describe(const ferry_engine *engine, const fry_node *node, fry_kind_view *view);

/* Whether the turn likely does another send next: then this one waits, to go with it. */
bool fry_messages_gather(const fry_turn *turn);

/*
 * The peer has gathered sends; they are flushed at the end of this turn at the latest:
 * fry_messages_flush.
 */
void fry_messages_note_gathered(fry_turn *turn, fry_route *route);

/* The engine stops: the message, which enters, goes to nobody. */
void fry_messages_refuse(fry_turn *turn, fry_node *node);

extern const fry_peer_events fry_transfer_events;

/*
 * On the loop, with the baton: fails the nodes whose failure peers have reported. Returns how many.
 */
size_t fry_transfers_fail(fry_turn *turn, fry_members *members);

/* Posts the gathered sends, before the baton is given back. */
void fry_messages_flush(fry_turn *turn);

#endif
