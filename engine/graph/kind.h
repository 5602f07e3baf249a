/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kinds of operations: each has a row that says what the graph can't know of it. The graph,
 * entering, cancels, dumps and trace records know rows, not kinds. Exceptions are copies, which the
 * hottest paths call directly, and what the graph itself is made with: promises, definitions,
 * joins, drains.
 *
 * Each row stands in the file of its kind, and engine/kinds.c lists them. The engine's creation
 * puts that list where fry_kind finds it, so nothing here uses what is above it. docs/design.md
 * shows what a new kind takes.
 *
 * Each comment says what NULL means.
 */
#ifndef FRY_ENGINE_GRAPH_KIND_H
#define FRY_ENGINE_GRAPH_KIND_H

#include "engine/engine.h"
#include "engine/graph/node.h"
#include "engine/ground/ground.h"

enum fry_kind_traits {
    /* Once issued it stands in a device's stream, at op.stand, and fires there in its turn. */
    FRY_KIND_ON_STREAM = 1 << 0,
    /*
     * It has no operation of its own: it stands where its predecessors stand on devices, and is
     * over when all of them are.
     */
    FRY_KIND_STANDS = 1 << 1,
    /*
     * It is made of its predecessors: it is quiet when all of them are, and RESOLVED until then. So
     * it keeps all its edges, however many.
     */
    FRY_KIND_OF_OTHERS = 1 << 2,
    /* When it fails, its edges wait until their predecessors are quiet. */
    FRY_KIND_SEES_QUIET = 1 << 3,
    /* It does not count its edges: one is enough, or none holds it. */
    FRY_KIND_UNCOUNTED = 1 << 4,
    /* It may stay in the graph though nothing holds it, so its time of entering is recorded. */
    FRY_KIND_STAYS = 1 << 5,
    /* Its kind gives it one span at most. */
    FRY_KIND_ONE_SPAN = 1 << 6,
    /* Its function or its peer lets go of its memory, which no device can wait for. */
    FRY_KIND_ENDS_OUTSIDE = 1 << 7,
};

/* What an operation waits for. */
typedef enum fry_dump_reason {
    FRY_DUMP_NOTHING = 0,
    FRY_DUMP_OPERATIONS, /* others; its waits name them */
    FRY_DUMP_STREAM,     /* room in its stream */
    FRY_DUMP_DEVICE,     /* its stream, which has not reached it */
    FRY_DUMP_LOOP,       /* a turn of the loop or of another thread that works on the graph */
    FRY_DUMP_EXECUTOR,   /* the user's executor has its task, or will have it */
    FRY_DUMP_FUNCTION,   /* its function, which has begun */
    FRY_DUMP_MEMBER,     /* the other end of a message, or the lane to it */
    FRY_DUMP_OUTSIDE,    /* the user, who resolves the promise */
    FRY_DUMP_RATE,       /* the limit of its scope */
} fry_dump_reason;

/* What dumps and records show of an operation besides its head. */
typedef struct fry_kind_view {
    uint64_t size_bytes;      /* has_size */
    uint64_t tag;             /* is_message */
    uint64_t more;            /* things that it waits for besides its edges */
    uint64_t before;          /* the operation that it waits behind without an edge; 0: none */
    const fry_device *device; /* its device; NULL: none */
    const fry_stream *shown_stream; /* its stream, for dumps; NULL: none */
    fry_dump_reason reason;         /* preset to the reason of most kinds */
    uint32_t rank;                  /* is_message */
    bool has_size, is_message;
} fry_kind_view;

typedef struct fry_op_kind {
    uint16_t traits; /* fry_kind_traits */

    /* ---- its memory; for the thread that has the node ---- */

    /* The index-th span besides its uses. False: there are no more. NULL: none. */
    bool (*span)(const fry_node *node, uint8_t index, fry_use *use);
    /* For a node that was not submitted: gives back what its tail holds. NULL: nothing. */
    void (*discard)(ferry_engine *engine, fry_context *context, fry_node *node);
    /* The same as the slot is given back. */
    void (*free)(ferry_engine *engine, fry_node *node);

    /* ---- with the baton ---- */

    /*
     * Its turn to enter has come. True: this has entered it. False, or NULL: it enters like others.
     */
    bool (*enter)(fry_turn *turn, fry_node *node);
    /*
     * All of it is in. may_start: nothing holds it, so it may start now. True: it did, and may be
     * gone. NULL: nothing to do.
     */
    bool (*entered)(fry_turn *turn, fry_node *node, bool may_start);
    /* It came out of the inbox again, because something happened to it outside. */
    void (*arrive)(fry_turn *turn, fry_node *node);
    /*
     * Nothing holds it any more: issues it, or leaves it READY to be issued later. NULL: it has
     * nothing to do, and is over.
     */
    void (*start)(fry_turn *turn, fry_node *node);
    /*
     * It fails while ISSUED: asks for its end. True: until that comes it may touch its memory.
     * NULL: it does not.
     */
    bool (*stop)(fry_node *node);
    /*
     * It fails before it was ISSUED: whether something of it may touch its memory until its end
     * comes. NULL: no.
     */
    bool (*has_begun)(const fry_node *node);
    /* It was scheduled while ISSUED, or RESOLVED and not quiet. NULL: nothing to do. */
    void (*go_on)(fry_turn *turn, fry_node *node);
    /*
     * It is the `batch` of a node that has resolved and may be under way; if so the second is
     * called when that is quiet. NULL: for a batch, to which batch_count.c does it.
     */
    void (*part_ended)(fry_turn *turn, fry_node *own, fry_node *part, bool is_under_way);
    void (*part_quiet)(fry_turn *turn, fry_node *own, fry_node *part);
    /* OF_OTHERS: whether a part of it that has no edge may be under way. NULL: no. */
    bool (*awaits)(const fry_node *node);
    /*
     * It has failed, and its waiters have been told. If under way it may be gone after this. NULL:
     * nothing to do.
     */
    void (*failed)(fry_turn *turn, fry_node *node, bool is_under_way);
    /* On the loop: a cancel was requested. NULL: it fails with FERRY_E_CANCELLED. */
    void (*cancel)(fry_turn *turn, fry_node *node);
    /*
     * On the loop: goes on cancelling its operations, after `cancel` has put it into
     * engine->cancelled, by as many looks as are left, and until end_ns by the monotonic clock.
     * Returns how many are left; 0: there is more. Then walk_ends is called.
     */
    size_t (*walk)(fry_turn *turn, fry_node *node, int64_t end_ns, size_t left);
    void (*walk_ends)(fry_turn *turn, fry_node *node);

    /* ---- views ---- */

    /* How many bytes it moves, for records; sets *flow_p if it has two ends. Any thread that has
     * the node, also beside the baton's holder, so it reads what submitting has set. NULL: none. */
    uint64_t (*moved_bytes)(const fry_node *node, uint64_t *flow_p);
    /* The same by ferry_way, if these are not one: a launch. */
    void (*moved_by_way)(const fry_node *node, uint64_t *bytes_by_way);
    /*
     * Says, in a text, what it lacked as its deadline passed, and returns the member that lacked,
     * or -1. With the baton. NULL: nothing is said.
     */
    int32_t (*lacks)(const fry_node *node, char *text, size_t text_bytes);
    /* The member that a failure of its own is about. Whoever has the node. NULL: none. */
    int32_t (*rank)(const fry_node *node);
    /* Sets the fields of the view that differ from the preset. With the baton. NULL: none. */
    void (*describe)(const ferry_engine *engine, const fry_node *node, fry_kind_view *view);
} fry_op_kind;

static inline const fry_op_kind *fry_kind(const ferry_engine *engine, const fry_node *node)
{
    return engine->kinds[node->kind];
}

/* Whether its kind has one of these traits. */
static inline bool fry_kind_has(const fry_node *node, uint32_t traits)
{
    return (fry_kind(fry_engine_of(&node->future), node)->traits & traits) != 0;
}

/* Most nodes on streams are copies. */
static inline bool fry_node_is_on_stream(const fry_node *node)
{
    return fry_likely(node->kind == FERRY_OP_COPY) || fry_kind_has(node, FRY_KIND_ON_STREAM);
}

/* Whether the node, which is ISSUED, is over when what is at op.stand has fired, or soon after. */
static inline bool fry_node_has_place(const fry_node *node)
{
    return fry_node_is_on_stream(node) || fry_node_is_landing(node);
}

/* Whether it is a definition or a join. */
static inline bool fry_node_stands(const fry_node *node)
{
    return fry_kind_has(node, FRY_KIND_STANDS);
}

/* OF_OTHERS: whether a part of it may be under way. */
static inline bool fry_node_awaits_others(const fry_op_kind *kind, const fry_node *node)
{
    return fry_node_holding(node) != 0 || (kind->awaits != NULL && kind->awaits(node));
}

#endif
