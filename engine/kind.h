/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kinds of operations: a row for each says what the graph can't know of it. The graph, entering,
 * cancels, dumps and trace records know rows, not kinds, but for copies, which the hottest paths
 * call directly, and for what the graph itself is made with: promises, definitions, joins, drains.
 *
 * Each row stands in the file of its kind, and engine/kinds.c lists them; the engine's creation
 * puts that list where fry_kind finds it, so that nothing here uses what is above it.
 * docs/design.md shows what a new kind takes.
 *
 * What a row leaves NULL is as each comment says.
 */
#ifndef FRY_ENGINE_KIND_H
#define FRY_ENGINE_KIND_H

#include "engine/engine.h"
#include "engine/node.h"

enum fry_kind_traits {
    /* Once issued it stands in a device's stream, at op.stand, and fires there in its turn. */
    FRY_KIND_ON_STREAM = 1 << 0,
    /* It has no operation of its own: where what it waits for stands on devices, there it stands,
     * and it is over when all of that is. */
    FRY_KIND_STANDS = 1 << 1,
    /* It is made of what its edges come from: it is quiet when all of them are, and RESOLVED till
     * then. So it keeps each of its edges, however many they are. */
    FRY_KIND_OF_OTHERS = 1 << 2,
    /* As it fails, its edges wait until what they come from is quiet. */
    FRY_KIND_SEES_QUIET = 1 << 3,
    /* It does not count its edges: one is enough, or none holds it. */
    FRY_KIND_UNCOUNTED = 1 << 4,
    /* It may stay in the graph though nothing holds it: when it entered is noted. */
    FRY_KIND_STAYS = 1 << 5,
    /* It touches one span by itself, or none. */
    FRY_KIND_ONE_SPAN = 1 << 6,
    /* Its memory is let go of with its function or by its peer, which no device can wait for. */
    FRY_KIND_ENDS_OUTSIDE = 1 << 7,
};

/* What an operation waits for. */
typedef enum fry_dump_reason {
    FRY_DUMP_NOTHING = 0,
    FRY_DUMP_OPERATIONS, /* others, which its waits name */
    FRY_DUMP_STREAM,     /* room in it */
    FRY_DUMP_DEVICE,     /* it stands in its stream, which has not come to it */
    FRY_DUMP_LOOP,       /* the loop's turn, or anybody's who works on the graph */
    FRY_DUMP_EXECUTOR,   /* the user's has its task, or will */
    FRY_DUMP_FUNCTION,   /* it has begun */
    FRY_DUMP_MEMBER,     /* the other end of a message, or the lane to it */
    FRY_DUMP_OUTSIDE,    /* a promise is the user's to resolve */
} fry_dump_reason;

/* What dumps and records show of an operation beside its head. */
typedef struct fry_kind_view {
    uint64_t size_bytes;      /* has_size */
    uint64_t flow;            /* joins the ends of a transfer; its own number if there is but one */
    uint64_t tag;             /* is_message */
    uint64_t more;            /* things that it waits for beside its edges */
    uint64_t before;          /* the operation that it waits behind without an edge; 0: none */
    const fry_device *device; /* where it has to do with one; or NULL */
    const fry_stream *shown_stream; /* of a dump; or NULL */
    fry_dump_reason reason;         /* preset to what is true of most kinds */
    uint32_t rank;                  /* is_message */
    bool has_size, is_message;
} fry_kind_view;

typedef struct fry_op_kind {
    uint16_t traits; /* fry_kind_traits */

    /* ---- what it touches; whoever has the node ---- */

    /* The index-th span that it has beside its uses, or false: it has no more. NULL: none. */
    bool (*span)(const fry_node *node, uint8_t index, fry_use *use);
    /* It was not submitted: gives back what its tail holds. NULL: nothing. */
    void (*discard)(ferry_engine *engine, fry_context *context, fry_node *node);
    /* Its slot goes: the same. */
    void (*free)(ferry_engine *engine, fry_node *node);

    /* ---- with the baton ---- */

    /* Its turn to enter has come. True: it has entered by this; false, or NULL: it goes on as
     * operations do. */
    bool (*enter)(fry_turn *turn, fry_node *node);
    /* All of it is in. may_start: nothing holds it, so it may start now; true: it did, and may be
     * gone. NULL: nothing is to be done. */
    bool (*entered)(fry_turn *turn, fry_node *node, bool may_start);
    /* It came out of the inbox again: something has happened to it outside. */
    void (*arrive)(fry_turn *turn, fry_node *node);
    /* Nothing holds it any more: issues it, or leaves it READY to be issued later. NULL: it has
     * nothing to do, and is over. */
    void (*start)(fry_turn *turn, fry_node *node);
    /* It fails while ISSUED: asks for its end. True: it may be at its memory until that comes.
     * NULL: it is not. */
    bool (*stop)(fry_node *node);
    /* OF_OTHERS: something that it is made of may be under way beside what its edges say. NULL: no.
     */
    bool (*awaits)(const fry_node *node);
    /* It has failed, which its waiters know; under way it may be gone after this. NULL: no matter.
     */
    void (*failed)(fry_turn *turn, fry_node *node, bool is_under_way);
    /* On the loop: somebody asks for its cancel. NULL: it fails with FERRY_E_CANCELLED. */
    void (*cancel)(fry_turn *turn, fry_node *node);

    /* ---- being looked at ---- */

    /* Overwrites what of the view is different. NULL: nothing. */
    void (*describe)(const ferry_engine *engine, const fry_node *node, fry_kind_view *view);
} fry_op_kind;

static inline const fry_op_kind *fry_kind(const ferry_engine *engine, const fry_node *node)
{
    return engine->kinds[node->kind];
}

/* One of them. */
static inline bool fry_kind_has(const fry_node *node, uint32_t traits)
{
    return (fry_kind(fry_engine_of(&node->future), node)->traits & traits) != 0;
}

/* Copies are most of what stands on streams. */
static inline bool fry_node_is_on_stream(const fry_node *node)
{
    return fry_likely(node->kind == FERRY_OP_COPY) || fry_kind_has(node, FRY_KIND_ON_STREAM);
}

/* Definitions and joins. */
static inline bool fry_node_stands(const fry_node *node)
{
    return fry_kind_has(node, FRY_KIND_STANDS);
}

/* OF_OTHERS: something of it may be under way. */
static inline bool fry_node_awaits_others(const fry_op_kind *kind, const fry_node *node)
{
    return fry_node_holding(node) != 0 || (kind->awaits != NULL && kind->awaits(node));
}

#endif
