/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes and edges: what the graph is made of.
 *
 * After its submit only the holder of the engine's baton touches a node, except for the future
 * (lock-free), `request_link` and `requested` (the requests stack) and `outside`; `state` is read
 * without the baton too. An edge belongs to its successor, which takes it from the pool, and gives
 * it back when it retires.
 */
#ifndef FRY_ENGINE_GRAPH_NODE_H
#define FRY_ENGINE_GRAPH_NODE_H

#include "base/stack.h"
#include "base/timers.h"
#include "engine/ground/refusal.h"
#include "futures/futures.h"
#include "gpu/device.h"

#include <bsd/sys/queue.h>
#include <ferry/op.h>
#include <ferry/trace.h>
#include <string.h>

typedef struct fry_node fry_node;
typedef struct fry_edge fry_edge;
typedef struct fry_use fry_use;
typedef struct fry_segment fry_segment;
typedef struct fry_reader fry_reader;
typedef struct fry_layer fry_layer;
typedef struct fry_lane fry_lane;
typedef struct fry_turn fry_turn;
typedef struct fry_tally fry_tally;
typedef struct fry_context fry_context;

/* Kinds beyond ferry_op_kind, for ferry itself: see kind.h. */
enum {
    FRY_OP_JOIN = FERRY_OP_SYMMETRIC + 1, /* stands for others: join.h */
    FRY_OP_MARK,                          /* lifts bars from buffers: refused_mark.c */
    FRY_OP_TAKE,                          /* a receive in a group with any source: take.c */
    FRY_OP_GIVE,                          /* a send for another member's get: reach.c */
    FRY_OP_ACCEPT,                        /* a receive for another member's put: reach.c */
    FRY_OP_STAGE,                         /* a copy of a piece of a message: stage.c */
    FRY_OP_LOT,                           /* messages launched together: pairing.c */
    FRY_OP_LAUNCH,                        /* a post of a plan that is one command: plans/launch.c */
    FRY_OP_KINDS,
};

/* A node's state; only set_state in graph.c moves it, and only forward. */
typedef enum fry_node_state {
    FRY_NODE_NEW = 0,  /* made, perhaps in the inbox: not in the graph yet */
    FRY_NODE_WAITING,  /* in the graph; edges hold its start */
    FRY_NODE_READY,    /* nothing holds it; waits for room in its stream or for the loop. A copy
                          that found no parked stream is held again, by edges, and stays READY */
    FRY_NODE_ISSUED,   /* in its stream, or its function was handed out. A definition: its
                          predecessors are. A message: its peer may touch its memory */
    FRY_NODE_RESOLVED, /* its future has a status; hardware may still touch its memory */
    FRY_NODE_QUIET,    /* nobody touches its memory any more */
} fry_node_state;

enum fry_node_flags {
    FRY_NODE_QUEUED = 1 << 0,       /* in a queue through `link`: the memory must stay */
    FRY_NODE_FAILING = 1 << 1,      /* in the failing queue: the same */
    FRY_NODE_FIRED = 1 << 2,        /* its hardware or function has ended */
    FRY_NODE_RETIRED = 1 << 3,      /* out of the graph: order edges fired, accesses dropped */
    FRY_NODE_LIVE = 1 << 4,         /* in the list of live nodes */
    FRY_NODE_UNSHARED = 1 << 5,     /* no other thread has seen it: inside its submit call */
    FRY_NODE_HELD_AFTER = 1 << 6,   /* its edges hold references to their predecessors' futures */
    FRY_NODE_HELD_BUFFERS = 1 << 7, /* it holds references to its buffers */
    FRY_NODE_HAS_SPANS = 1 << 8,    /* it touches memory */
    FRY_NODE_HAS_DEADLINE = 1 << 9, /* until it resolves; in the heap once it has entered */
    FRY_NODE_SATISFIED = 1 << 10,   /* any, and its joins: a predecessor had resolved as it
                                       entered */
    FRY_NODE_HAS_NOTE = 1 << 10,    /* others: it has a note, to be given back with it. Like
                                       has_note, for who may know a node's first line alone */
    FRY_NODE_DETACHED = 1 << 12,    /* out of the graph, but users hold handles */
    FRY_NODE_RESERVE = 1 << 11,     /* not from the pool of nodes: a join, or a reserved one */
    FRY_NODE_WAS_ISSUED = 1 << 13,  /* it was issued, and may have failed since */
    FRY_NODE_STUCK = 1 << 14,       /* will not be quiet, or will not retire: a lost device may
                                       still touch memory */
    FRY_NODE_BOTH_WAYS = 1 << 15,   /* its successors know the edge before them: edge.h */
};

/*
 * Two counts share fry_node.counts: things that hold the node, and its successors. More edges than
 * FRY_DEGREE_MAX, in or out of a node, go through joins.
 */
#define FRY_HOLDING_BITS 22
#define FRY_HOLDING_MASK ((1u << FRY_HOLDING_BITS) - 1)
#define FRY_DEGREE_MAX (UINT32_MAX >> FRY_HOLDING_BITS)

/* What an edge makes its successor wait for, and what it carries. */
typedef enum fry_edge_nature {
    FRY_EDGE_AFTER,  /* after[]: until resolved; carries failure */
    FRY_EDGE_READ,   /* read after write: until resolved; carries failure; orders memory too. Also
                        into a definition, whose predecessor may still write after it has failed */
    FRY_EDGE_ORDER,  /* write after read or write: until retired; carries nothing */
    FRY_EDGE_ANY,    /* until resolved, either way, and one is enough */
    FRY_EDGE_ISSUED, /* until issued; carries a failure before that */
    FRY_EDGE_QUIET,  /* until quiet; carries nothing. Also to an `all` that has failed */
} fry_edge_nature;

typedef enum fry_edge_state {
    FRY_EDGE_LOOSE = 0, /* not in its predecessor's list */
    FRY_EDGE_HOLDING,   /* holds its successor's start */
    FRY_EDGE_ON_DEVICE, /* the successor's device waits for (from->lane, from->sequence) */
} fry_edge_state;

struct fry_edge {
    fry_edge *next;     /* in from's successors */
    fry_edge *previous; /* in that list, if FRY_NODE_BOTH_WAYS */
    fry_node *from;
    fry_node *to;
    fry_edge *sibling; /* next of to->edges */
    uint8_t nature;
    uint8_t state;
};

/* Rows of equal size in a buffer, each of which begins pitch_bytes after the one before. */
typedef struct fry_rows {
    ferry_buffer *buffer;
    size_t offset, row_bytes, pitch_bytes;
    uint32_t count;
} fry_rows;

/* What an operation touches in one way: a span, or rows, each of which is one access. */
struct fry_use {
    fry_use *next;
    ferry_buffer *buffer;
    size_t begin, end;  /* of the first row */
    size_t pitch_bytes; /* if row_count > 1 */
    uint32_t row_count;
    ferry_access_mode mode;
};

/* Whether a scope's rate lets an operation begin: scope.c. */
enum fry_pace {
    FRY_PACE_FREE = 0, /* it has not asked, or need not */
    FRY_PACE_WAITS,    /* READY, in the line of those who wait */
    FRY_PACE_BEGUN,    /* it may begin, or has failed meanwhile */
};

/* What a caller attached to an operation besides a label. Only a scope uses its second line. */
typedef struct fry_note {
    const char *label; /* or NULL */
    uint64_t user_data;
    ferry_queue *queue; /* where its record goes: completion.h; NULL: nowhere, or it was made */
    ferry_scope *scope; /* that counts it until it is quiet; or NULL. The rest is the scope's */
    union {             /* with the baton, once `node` is set */
        LIST_ENTRY(fry_note) member;
        TAILQ_ENTRY(fry_note) in_line; /* FRY_PACE_WAITS */
    };
    fry_node *node; /* whose note it is; NULL: it has not entered */
    uint8_t pace;   /* fry_pace */
} fry_note;

/* A place on a stream. */
typedef struct fry_stand {
    fry_lane *lane;
    uint64_t sequence; /* its number there once issued, else 0 */
} fry_stand;

/*
 * fry_node.outside of a call: how far its function is. Moved by compare-and-swap. An async has
 * more: engine/tasks/later.h.
 */
enum fry_call_begun {
    FRY_CALL_NOT_BEGUN = 0,
    FRY_CALL_BEGUN,
    FRY_CALL_NEVER, /* a cancel came first */
};

/* fry_node.outside of a promise: resolving and entering may happen at the same time. */
enum fry_outside {
    FRY_OUTSIDE_ENTERING = 0, /* not in the graph yet */
    FRY_OUTSIDE_ENTERED,      /* in the graph; a resolver must push it to the inbox */
    FRY_OUTSIDE_RESOLVED,     /* claimed and sealed by a user's thread */
};

/*
 * fry_node.outside of a receive, and of who takes a notice: the baton's holder writes it, who makes
 * a record reads it.
 */
enum fry_outside_message {
    FRY_OUTSIDE_NO_FLOW = 0,
    FRY_OUTSIDE_FLOWS, /* op.message.offset, or op.notice.sent_op, is the sender's operation */
};

/* ---- tails: what the nodes of one kind have besides the head ---- */

/* An event: its place on the stream where it was recorded; no lane: it has fired, or failed. */
typedef struct fry_event_op {
    fry_stand stand; /* first */
} fry_event_op;

/* A copy: its stream, final once ISSUED; no lane: it is empty. */
typedef struct fry_copy_op {
    fry_stand stand; /* first */
    ferry_buffer *dst;
    ferry_buffer *src;
    union {
        struct {
            size_t dst_offset, src_offset;
        };
        struct {
            fry_graph *graph;
            void *owner; /* the plan, which is kept */
        };               /* of a launch, whose buffers are those of the graph's first copy */
    };
    size_t size_bytes; /* of all rows, or of all copies of the graph */
} fry_copy_op;

/* A definition: the place of its last predecessor; no lane: on no device. */
typedef struct fry_define_op {
    fry_stand stand; /* first */
    fry_rows rows;
} fry_define_op;

typedef struct fry_call_op {
    ferry_executor *executor; /* NULL: the loop */
    struct fry_task *task;    /* from being issued until posted, if there is an executor */
    union {
        ferry_call_fn fn;
        ferry_begin_fn begin; /* of an async */
    };
    void *arg;
    fry_error *error; /* of a failure; made by the thread that ran the function */
} fry_call_op;

struct fry_transfer;

#define FRY_MESSAGE_RANK_ANY 0xffffu /* above all ranks */

/* No address space has more; a message's node keeps sizes in as many bits. */
#define FRY_BUFFER_BYTES_MAX (((uint64_t)1 << 48) - 1)

/* The message that a receive with any source, or a probe, has met. */
typedef struct fry_message_met {
    uint64_t came; /* the message's bytes and 1; 0: none has come */
    uint32_t rank; /* of its sender */
} fry_message_met;

/*
 * A message, or a get or a put, whose tag is the offset in its window. A receive's flow is known as
 * it ends, and then stands in place of the offset (FRY_OUTSIDE_FLOWS), which nobody reads any more.
 * A receive with any source, and a probe, get `met` and the tag when they meet a message; until
 * then rank and tag say what they wait for. What is written after the submit shares no word with
 * what other threads read meanwhile, beside the baton's holder: sizes for records, and what
 * describes a message that has resolved.
 */
typedef struct fry_message_op {
    union {
        fry_stand stand;     /* first; of a receive: see fry_node_is_landing */
        uint64_t flow;       /* of a send; joins both ends in traces */
        fry_message_met met; /* FRY_OP_TAKE, FERRY_OP_PROBE */
    };
    struct fry_transfer *transfer; /* the peer's slot; NULL: given back */
    union {
        ferry_buffer *buffer;
        ferry_group *group; /* FERRY_OP_NOTICE: it keeps the group */
    };
    uint64_t offset; /* or the sender's operation, also of a receive that has failed */
    uint64_t size_bytes : 48;
    uint64_t rank : 16; /* of the other end; FRY_MESSAGE_RANK_ANY */
    uint64_t tag;
} fry_message_op;

/* The value of a promise's future. */
typedef struct fry_value {
    size_t size_bytes;
    uint64_t version;
    char bytes[]; /* and a zero byte */
} fry_value;

/* Who takes the next notice. It keeps the group. */
typedef struct fry_notice_op {
    fry_message_met met; /* first, like a message's */
    fry_value *value;    /* of the engine's notices */
    ferry_group *group;
    union {
        TAILQ_ENTRY(fry_node) entry; /* is_waiting: of group->nexts. is_refused: of nexts_refused */
        uint64_t sent_op; /* the sender's operation, once it has one (FRY_OUTSIDE_FLOWS) */
    };
    bool is_waiting, is_refused;
} fry_notice_op;

/* A function that begins what its promise ends: engine/tasks/later.h. */
typedef struct fry_call_async_op {
    fry_call_op call; /* first: it is handed out like a call */
    ferry_cancel_fn cancel;
    fry_value *value; /* or NULL; freed with the node */
} fry_call_async_op;

typedef struct fry_promise_op {
    fry_value *value;         /* or NULL; freed with the node */
    ferry_waiter *on_cancel;  /* fired if it fails, or a mark: promise.h. Atomic */
    fry_error *refusal_error; /* for a cancel before it entered, if `refusal` is set */
} fry_promise_op;

/* A scope's own node: scope.c. */
typedef struct fry_scope_op {
    ferry_scope *scope; /* freed with the node */
} fry_scope_op;

/* Of an operation about a window itself. It holds a reference to the window. */
typedef struct fry_window_op {
    ferry_window *window;
    bool is_close; /* else it opens or finds it */
} fry_window_op;

/* Of an ask for symmetric memory. It holds a reference to the handle. */
typedef struct fry_symmetric_op {
    ferry_symmetric *handle;
} fry_symmetric_op;

/* A batch's own node: batch_count.h. */
typedef struct fry_batch_op {
    fry_error *cancel;       /* the reason to cancel its operations; NULL: they are not cancelled */
    struct fry_node *notice; /* which it holds until all before that have ended; NULL: none */
    uint32_t count;
    uint32_t settled; /* operations that don't count themselves off */
    uint32_t unquiet; /* operations that have failed and are not quiet yet */
    uint32_t notices; /* at its end; and how many of them have ended */
    uint32_t notices_ended;
    int32_t refused; /* fry_refusal of the first refused operation; FRY_TAKEN: none */
    bool has_failed;
    bool has_failed_ahead; /* of the notices; */
    bool is_refused_ahead; /* or was refused */
} fry_batch_op;

typedef struct fry_plan_post fry_plan_post;

/* A post of a plan: engine/plans/post.c. */
typedef struct fry_plan_op {
    fry_plan_post *post; /* NULL: it is over, and given back */
    uint64_t size_bytes; /* that its parts move */
    /* The access, if it is the only one; else accesses are uses. No buffer: none. */
    ferry_buffer *buffer;
    uint64_t begin, end;
    ferry_access_mode mode;
} fry_plan_op;

#define FRY_JOIN_STANDS 3

/* What a join has in place of an operation's fields behind the head. */
typedef struct fry_join_op {
    fry_edge edge;                     /* its first edge */
    fry_stand stands[FRY_JOIN_STANDS]; /* places of its members */
    fry_segment *cached_at;            /* the piece whose sum it is: sum.h */
    uint16_t member_count;             /* number of edges added */
    uint8_t stand_count;               /* number of lanes in `stands` */
    bool is_between;                   /* its one member has too many successors */
} fry_join_op;

TAILQ_HEAD(fry_live_list, fry_node); /* live.h */

/*
 * Four cache lines: two for the head, of which an edge from the node touches only the first; one
 * for operations that touch memory, have a deadline or are cancelled; one for the kind's tail. A
 * plain nop touches the head only. The other lines are valid only where `flags` says so, or for the
 * kinds that use them, and are not even zeroed otherwise. A line that two threads write costs more
 * than all else that a node does.
 */
struct fry_node {
    ferry_future future; /* first, so that an engine's future is a node */
    fry_link link;       /* for inbox, ready queue, stream or executor's queue: one at a time */
    uint8_t kind;        /* ferry_op_kind, or one of ferry itself */
    uint8_t state;       /* fry_node_state; atomic: event.c reads it without the baton */
    uint16_t flags;
    uint32_t counts;      /* what holds its start, and its successors: fry_node_holding */
    fry_edge *successors; /* its edges to successors, newest first: edge.h */

    fry_edge *edges; /* its edges from predecessors */
    TAILQ_ENTRY(fry_node) live;
    union {
        const char *label; /* fry_node_label */
        fry_note *note;    /* if has_note */
    };
    fry_link failing_link;
    fry_node *batch;      /* the batch, or post, that counts it until it is quiet; or NULL */
    uint16_t unconfirmed; /* predecessors overtaken on the device, and not resolved: status edges */
    int16_t refusal;      /* status with which it fails as it enters; a call: its function's */
    uint8_t device_waits : 4; /* edges ON_DEVICE from other streams: less than FRY_STREAM_WAITS */
    uint8_t way : 2;          /* ferry_gpu_way of a message of GPU memory that has gone; else 0 */
    uint8_t has_rows : 1;     /* definition: several rows. Copy: rows on at least one side; its
                                 source, then its destination are its first two uses. Also a launch,
                                 whose uses are the accesses of its plan */
    uint8_t is_timed : 1;     /* entered_ns is exact, and its latency is counted */
    uint8_t : 0;              /* else C has one place of them all, written as one */
    uint8_t priority : 2;     /* the lowest bits of a ferry_priority. This byte is not written once
                                 the node is submitted: any thread may read it */
    uint8_t has_note : 1;     /* like FRY_NODE_HAS_NOTE */
    uint8_t is_staged : 1;    /* message: a device alone reads and writes its memory */
    uint8_t is_untracked : 1; /* its spans are not listed with their buffers */
    uint8_t outside;          /* state of what happens outside the graph: fry_call_begun,
                                 fry_outside. Atomic */
    uint8_t requested;        /* a cancel is in the requests stack. Atomic */
    int64_t entered_ns;       /* when it entered; 0: it was not expected to stay */

    fry_segment *listed; /* if HAS_SPANS, like reads and uses: segments that name it */
    union {
        struct {
            union {
                struct {
                    fry_link request_link;    /* for the requests stack; batches: cancelled queue */
                    fry_timers_link deadline; /* if HAS_DEADLINE */
                };
                struct {
                    TAILQ_ENTRY(fry_node) part; /* of a post of a plan: with its others */
                    uint32_t part_index;        /* in the plan */
                };
            };
            fry_reader *reads; /* pieces that it reads */
            fry_use *uses;     /* spans of calls and nops, further ones of copies */
            union {
                fry_stand stand; /* the first field of copies, definitions and events */
                fry_copy_op copy;
                fry_define_op define;
                fry_event_op event;
                fry_call_op call;
                fry_call_async_op async;
                fry_message_op message;
                fry_promise_op promise;
                fry_batch_op batch;
                fry_scope_op scope;
                fry_window_op window;
                fry_symmetric_op symmetric;
                fry_notice_op notice;
                fry_plan_op plan;
            } op;
        };
        fry_join_op join;
    };
};
_Static_assert(__builtin_offsetof(struct fry_node, listed) == 128, "two lines for a nop");
_Static_assert(__builtin_offsetof(struct fry_node, op) == 192, "a line for the kind's own");
/* The pool uses the last word of a slot. */
_Static_assert(sizeof(fry_node) <= 256 - 8, "a node with its future is four cache lines");
_Static_assert(sizeof(fry_edge) <= 64 - 8, "an edge is one");
_Static_assert(sizeof(fry_use) <= 64 - 8, "and so is a use");

/* The ferry_op_kind that users see. */
static inline uint8_t fry_node_shown_kind(const fry_node *node)
{
    if (fry_likely(node->kind < FRY_OP_TAKE))
        return node->kind;
    return node->kind == FRY_OP_GIVE     ? FERRY_OP_SEND
           : node->kind < FRY_OP_STAGE   ? FERRY_OP_RECV
           : node->kind == FRY_OP_LAUNCH ? FERRY_OP_PLAN
                                         : FERRY_OP_COPY;
}

static inline fry_node *fry_node_of(const ferry_future *future)
{
    return (fry_node *)future;
}

/*
 * Two counts in one word, since a node's first line has no room for two. The lower bits count what
 * holds its start: edges, and one more while it enters. There is room for them: after[] has at most
 * 2^20, and as many of its batch; without slots for joins other edges lead here only as long as
 * there are less than 2^20 (fry_access_find_room). The upper bits count the successors added since
 * it had none, up to FRY_DEGREE_MAX, which also stands for more.
 */
static inline uint32_t fry_node_holding(const fry_node *node)
{
    return node->counts & FRY_HOLDING_MASK;
}

static inline void fry_node_set_holding(fry_node *node, uint32_t holding)
{
    node->counts = (node->counts & ~FRY_HOLDING_MASK) | holding;
}

static inline void fry_node_hold(fry_node *node)
{
    node->counts++;
}

/* Returns how many things still hold it. */
static inline uint32_t fry_node_unhold(fry_node *node)
{
    return --node->counts & FRY_HOLDING_MASK;
}

static inline uint32_t fry_node_successor_count(const fry_node *node)
{
    return node->counts >> FRY_HOLDING_BITS;
}

static inline void fry_node_count_successor(fry_node *node)
{
    node->counts += 1u << FRY_HOLDING_BITS;
}

static inline void fry_node_forget_successors(fry_node *node)
{
    node->counts &= FRY_HOLDING_MASK;
}

static inline ferry_priority fry_node_priority(const fry_node *node)
{
    return (ferry_priority)((node->priority ^ 2) - 2);
}

/* The places of an issued node; a join may be on several lanes. */
static inline size_t fry_node_stand_count(const fry_node *node)
{
    return fry_unlikely(node->kind == FRY_OP_JOIN) ? node->join.stand_count : 1;
}

static inline fry_stand fry_node_stand(const fry_node *node, size_t index)
{
    return fry_unlikely(node->kind == FRY_OP_JOIN) ? node->join.stands[index] : node->op.stand;
}

/*
 * Whether the receive's last bytes are on their way into a device's memory: the copy that brings
 * them stands at op.stand, and all others come before it there. With the baton, or once ISSUED.
 */
static inline bool fry_node_is_landing(const fry_node *node)
{
    return (node->kind == FERRY_OP_RECV || node->kind == FERRY_OP_GET) &&
           node->op.message.stand.sequence != 0;
}

/* Whether it moves bytes of this member to another one, or the other way round. */
static inline bool fry_node_is_sent(const fry_node *node)
{
    return node->kind == FERRY_OP_SEND || node->kind == FERRY_OP_PUT ||
           node->kind == FERRY_OP_NOTICE || node->kind == FRY_OP_GIVE;
}

static inline bool fry_node_is_received(const fry_node *node)
{
    return node->kind == FERRY_OP_RECV || node->kind == FERRY_OP_GET || node->kind == FRY_OP_TAKE ||
           node->kind == FRY_OP_ACCEPT;
}

/* Whether a copy touches more than its source and destination. */
static inline bool fry_node_has_more_uses(const fry_node *copy)
{
    return copy->uses != NULL && (!copy->has_rows || copy->uses->next->next != NULL);
}

/* Whether the node, which may be a join, has a note. */
static inline bool fry_node_has_note(const fry_node *node)
{
    return fry_unlikely((node->flags & FRY_NODE_HAS_NOTE) != 0) && node->kind != FRY_OP_JOIN &&
           node->has_note;
}

/* Any thread, while it knows the node: the second line is valid. */
static inline const char *fry_node_label(const fry_node *node)
{
    return fry_unlikely(node->has_note) ? node->note->label : node->label;
}

static inline uint64_t fry_node_user_data(const fry_node *node)
{
    return fry_unlikely(node->has_note) ? node->note->user_data : 0;
}

#define FRY_LABEL_BYTES 128 /* bytes of a label, with its zero, shown by dumps and the log */

/* Copies the part of a label that is shown. False: there is none. */
static inline bool fry_label_copy(char copy[FRY_LABEL_BYTES], const char *label)
{
    if (label == NULL)
        return false;
    size_t length = strnlen(label, FRY_LABEL_BYTES - 1);
    memcpy(copy, label, length);
    copy[length] = '\0';
    return true;
}

#define FRY_CONTAINER(pointer, type, member)                                                       \
    ((type *)(void *)((char *)(pointer) - __builtin_offsetof(type, member)))

/* ---- making and unmaking ---- */

/* Makes a node with one reference for the user and one for its life; NULL: *why_p says why. */
fry_node *fry_node_create(ferry_engine *engine, fry_context *context, ferry_op_kind kind,
                          fry_refusal *why_p);

/*
 * Makes a slot of the pool the future of an operation that succeeded without a node. Returns the
 * user's reference. With the baton.
 */
ferry_future *fry_node_init_done(fry_turn *turn, fry_node *slot, ferry_op_kind kind);

/*
 * Takes one of the few nodes reserved for refused writes, a definition; NULL: all are in use. The
 * context may be NULL.
 */
fry_node *fry_node_create_reserve(ferry_engine *engine, fry_context *context);

/* Takes one of the few promises reserved for ferry_engine_writable; NULL: all are in use. */
fry_node *fry_node_create_writable(ferry_engine *engine, fry_context *context);

/* Makes a node, of ferry itself, in memory that its kind's `free` gets back. */
void fry_node_init_own(ferry_engine *engine, fry_context *context, fry_node *node, uint8_t kind);

/*
 * Adds a loose edge from `from` to a new node. FRY_REFUSED_MAX_EDGES: the caller records how many
 * edges it lacks. fry_node_add_use: the same with FRY_REFUSED_MAX_ACCESSES and uses.
 */
fry_refusal fry_node_add_edge(ferry_engine *engine, fry_context *context, fry_node *node,
                              fry_node *from, fry_edge_nature nature);

/* Marks that the node touches memory. */
static inline void fry_node_init_spans(fry_node *node)
{
    if ((node->flags & FRY_NODE_HAS_SPANS) == 0) {
        node->flags |= FRY_NODE_HAS_SPANS;
        node->listed = NULL;
        node->reads = NULL;
        node->uses = NULL;
    }
}

/* Makes it a definition of rows or of a span. It gets its place on a device as it enters. */
static inline void fry_node_init_define(fry_node *node, const fry_rows *rows)
{
    node->op.define = (fry_define_op){.rows = *rows};
    node->has_rows = rows->count > 1;
    fry_node_init_spans(node);
}

/* Attaches the caller's data to a new node that has its label. */
fry_refusal fry_node_add_note(ferry_engine *engine, fry_context *context, fry_node *node,
                              uint64_t user_data);

/* Adds a use to a new node, before those added earlier. */
fry_refusal fry_node_add_use(ferry_engine *engine, fry_context *context, fry_node *node,
                             const fry_rows *rows, ferry_access_mode mode);

/*
 * Takes the references to buffers that the node has while it is in the graph. fry_node_drop_buffers
 * drops those of its own spans, after those of its uses.
 */
void fry_node_hold_buffers(fry_node *node);
void fry_node_drop_buffers(const fry_node *node);

/* Takes the references that a node needs once its submit call has returned. Before it is pushed. */
void fry_graph_share(fry_node *node);

/* The same for a node that has entered in part, with the baton. */
void fry_graph_share_entering(const ferry_engine *engine, fry_node *node);

/* Gives back all of a node that was not submitted. _new: its tail holds nothing yet. */
void fry_node_discard(ferry_engine *engine, fry_context *context, fry_node *node);
void fry_node_discard_new(ferry_engine *engine, fry_context *context, fry_node *node);

/* A fault of the node's operation, and an error of one; text NULL: the status's. */
fry_fault fry_node_fault(const fry_node *node, ferry_status status);
fry_error *fry_node_error(const fry_node *node, ferry_status status, const char *text);

/*
 * Drops the reference of the node's life; the slot is given back when users' handles are gone too.
 */
void fry_node_drop_life(fry_turn *turn, fry_node *node);

/* The last reference is gone: gives the slot back. */
void fry_node_released(ferry_future *future);

#endif
