/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph: entering nodes, firing edges, resolving, retiring. Everything here is called with the
 * baton; a fry_turn is one holding of it.
 */
#ifndef FRY_ENGINE_GRAPH_H
#define FRY_ENGINE_GRAPH_H

#include "engine/engine.h"

/* Room in the pools that a step of entering a node takes at most. */
typedef struct fry_need {
    uint64_t segments, readers, edges, joins;
} fry_need;

/* What of it was not there, of the one sort of slots that was looked for last. */
typedef struct fry_lack {
    uint64_t count;
    bool is_of_edges, is_of_joins;
} fry_lack;

/* Elementary steps of the graph's work (an edge that fires, an entry of a list) under one holding
 * of the baton, from which on it is given back: some hundred microseconds. */
#ifndef FRY_HOLDING_STEPS /* tests make holdings shorter */
#define FRY_HOLDING_STEPS 4096
#endif

typedef struct fry_turn {
    ferry_engine *engine;
    fry_context *context; /* the holding thread's */
    bool is_loop;         /* may take memory from the system, make errors, hand out functions */
    bool wake;            /* something is left that the loop must see */
    bool goes_on;         /* the thread sees to what is left itself: nobody is woken for that */
    bool gathers;         /* what enters next is a send: small ones leave together */
    uint32_t steps;       /* done under this holding: FRY_HOLDING_STEPS */
    fry_need need;        /* once a node has found no room: what its next step takes at most */
    fry_lack lack;        /* and what of it was not there */
} fry_turn;

/* How a node has arrived. */
typedef enum fry_entry {
    FRY_ARRIVED,
    FRY_ARRIVING, /* it is large: more of it is due, before anything behind it */
    FRY_NO_ROOM,  /* the pools ran dry; only the loop can go on, or who sees to room first */
} fry_entry;

/* enter.c: takes an item of the inbox, a new node, or one to which something happened outside. */
fry_entry fry_graph_arrive(fry_turn *turn, fry_node *node);

/* A node whose turn to fail has come while it enters will fail once it is in. */
void fry_graph_fails_entering(ferry_engine *engine, fry_node *node);

/* With room for a join and two edges: an open join for edges into the node that enters beyond
 * FRY_DEGREE_MAX; the node itself if there is none. */
fry_node *fry_entering_gatherer(fry_turn *turn, fry_node *node, fry_edge_nature nature);

/* graph.c */

/* Moves a node's state: this alone does, and only forward. */
void fry_graph_set_state(fry_turn *turn, fry_node *node, fry_node_state state);

/* Of a node that enters, and was refused before: fry_node_refuse has set status and error. */
void fry_graph_fail_refused(fry_turn *turn, fry_node *node);

/* Of a node that is about to enter, and to fail: it waits for nothing but that. */
void fry_graph_drop_edges(fry_node *node);

/* A promise was resolved outside. */
void fry_graph_promise_ended(fry_turn *turn, fry_node *node);

/* Does up to `budget` pieces of work that need nothing but the baton. Returns how many. */
size_t fry_graph_work(fry_turn *turn, size_t budget);

/* Adds an edge, reserved before, and lets it take effect. */
void fry_graph_connect(fry_turn *turn, fry_node *from, fry_node *to, fry_edge_nature nature);

/*
 * Fails an unresolved node now. `error` is its own (caused: the first cause's), one reference given
 * away, or NULL: one that names it is made when somebody asks. Nothing happens if a promise was
 * resolved outside.
 */
void fry_graph_fail(fry_turn *turn, fry_node *node, ferry_status status, fry_error *error,
                    bool caused);

/* The operation's hardware or function has come to its end. */
void fry_graph_complete(fry_turn *turn, fry_node *node);

/* Puts a node where fry_graph_work finds it. */
void fry_graph_schedule(fry_turn *turn, fry_node *node);

/* Does what a node taken out of a queue is due for. */
void fry_graph_step(fry_turn *turn, fry_node *node);

/* Issued: successors on devices that can wait for it go on; those that wait for `issued` too. */
void fry_graph_issued(fry_turn *turn, fry_node *node);

/* Others may have their devices wait for it from now on. Of any issued node. */
void fry_graph_flush(const fry_node *node);

/* Later readers of what failed see this node's status; it fails as soon as the turn comes to it. */
void fry_graph_note_failure(fry_turn *turn, fry_node *node, fry_error *cause);

/*
 * The node has failed, or is about to, and may be at its memory for ever, since its device is lost.
 * What may only touch that once it is quiet never will, and fails.
 */
void fry_graph_stuck(fry_turn *turn, fry_node *node);

/* `node`, which the graph holds until `from` retires, fails with it if that never comes. */
void fry_graph_share_stuck(fry_turn *turn, fry_node *node, const fry_node *from);

/* The graph holds so many things more: operations, promises, writers and readers of segments. */
static inline void fry_load_add(ferry_engine *engine, int64_t count)
{
    fry_store_relaxed(&engine->load, engine->load + count);
}

/* Whether the graph has something to do that needs no event. */
static inline bool fry_graph_has_work(const ferry_engine *engine)
{
    return engine->failing.first != NULL || engine->ready.first != NULL ||
           engine->backlog.first != NULL || !fry_stack_is_empty(&engine->inbox);
}

/* One thing less holds the node. */
void fry_graph_let_go(fry_turn *turn, fry_node *node, const fry_node *from);

/*
 * Does a copy without rows at once if it is small and nobody is at its buffers nor in its stream:
 * it leaves no trace in the graph and needs no node. True: done.
 */
bool fry_graph_copy_at_once(const fry_turn *turn, const fry_lane *lane, const fry_copy_op *copy);

/* hazard.c: what the buffers' access lists say. */

/*
 * Sees to room in a thread's caches; may_grow: also from the system. If it fails nothing is set
 * aside, and *lack says what was not there. fry_hazard_unstock gives back what was not taken.
 */
ferry_status fry_hazard_stock(ferry_engine *engine, fry_context *context, const fry_need *need,
                              bool may_grow, fry_lack *lack);
void fry_hazard_unstock(ferry_engine *engine, fry_context *context);

/*
 * Orders the node after what touches its spans, and puts it into their lists, as engine->entering
 * says how far that has come. False: that says why not all of it is in.
 */
bool fry_hazard_enter(fry_turn *turn, fry_node *node);

/*
 * The same of all its accesses, if they can't meet, hardly anybody is where they are, and there is
 * room: as nearly always. So many edges lead to it. False: fry_hazard_enter does the rest.
 */
bool fry_hazard_enter_at_once(fry_turn *turn, fry_node *node, uint32_t edge_count);

/* The node is refused with what is listed of it: the buffers that it writes are poisoned as a
 * whole. False: not all yet. */
bool fry_hazard_refuse(fry_turn *turn, fry_node *node);

/*
 * In place of that, of a message that touches no more than its span, some bytes: lists it if nobody
 * is at them and there is room. False: nothing was done.
 */
bool fry_hazard_enter_alone(fry_turn *turn, fry_node *node);

/* Takes the node out of the lists; spans it failed to write stay poisoned. At most *steps_p
 * entries, which it takes off. False: there are more. */
bool fry_hazard_leave(fry_turn *turn, fry_node *node, uint32_t *steps_p);

/* The same of a join that stands for others in the lists. */
bool fry_hazard_join_leave(fry_turn *turn, fry_node *join, uint32_t *steps_p);

/* The buffer is poisoned as a whole, as `why` says. */
void fry_hazard_poison_buffer(ferry_buffer *buffer, fry_error *why);

/* Drops what a buffer that nobody uses any more still lists: poison. */
void fry_hazard_close(fry_turn *turn, ferry_buffer *buffer);

/* Sizes of what hazard.c keeps in the engine's pools. */
#define FRY_SEGMENT_BYTES 104
#define FRY_READER_BYTES 48

/* lane.c: streams. */

/* Issues a READY copy, or leaves it in its lane's backlog, or has it held by edges again. */
void fry_lane_issue(fry_turn *turn, fry_node *node);

/* An event that a device has recorded takes its place. */
void fry_lane_enter_event(fry_turn *turn, fry_node *node);

/* Whether another copy may be issued there. */
static inline bool fry_lane_has_room(const fry_lane *lane)
{
    return lane->in_flight < lane->depth && !lane->stream->is_full && lane->refused == NULL &&
           !lane->is_lost;
}

/* What was copied to stands in its stream from now on: of one lane, and of all. */
void fry_lane_flush(fry_lane *lane);
void fry_lanes_flush(ferry_engine *engine);

/* When polled lanes are to be looked at next; INT64_MAX: there is nothing in them. */
int64_t fry_lanes_next_look_ns(const ferry_engine *engine);

/* Completes what has fired on the busy lanes. Returns how many nodes. */
size_t fry_lanes_poll(fry_turn *turn);

/* Copies in the calling thread if the device can do that now. */
bool fry_lane_copy_inline(const fry_node *node);
bool fry_lane_copy_plain_inline(const fry_lane *lane, const fry_copy_op *copy);

/* Asks the device to stop. */
void fry_lane_cancel(fry_node *node);

/* park.c: what waits on the device, and where. */

/* What an operation waits for on its device. */
typedef struct fry_waits {
    size_t count;
    fry_event events[FRY_STREAM_WAITS];
    fry_outside_event outside; /* behind which it stands then */
} fry_waits;

/* Whether `to` can wait for issued `from` on its own device. */
bool fry_lane_can_overtake(const fry_node *from, const fry_node *to, fry_edge_nature nature);

/*
 * The lane that a READY copy is to be issued to, and what it waits for there. NULL: its device
 * can't wait for all of that, and edges hold it from now on.
 */
fry_lane *fry_lane_choose(const fry_node *node, fry_waits *waits);

/* It was issued to a parked lane, in place of `main`. */
void fry_lane_parked(fry_lane *lane, const fry_lane *main, const fry_waits *waits,
                     uint64_t sequence);

/* A READY definition is where its last predecessor stands. False: all of them have come to an end.
 */
bool fry_lane_define(fry_node *node);

/* task.c: READY functions become ISSUED; gives them as a list for fry_hand_out_calls. */
fry_link *fry_calls_issue(fry_turn *turn, bool with_callbacks);

/* message.c: sends and receives. */

/* Takes its place in program order; or its refusal says why not, or the loop will fail it. */
void fry_message_enter(fry_turn *turn, fry_node *node);

/* Nothing holds it any more. */
void fry_message_issue(fry_turn *turn, fry_node *node);

/* Both at once, of one that nothing holds as it enters; then it may be gone, or the loop will fail
 * it. */
void fry_message_start(fry_turn *turn, fry_node *node);

/* Sends that were gathered leave; before the baton is given back. */
void fry_messages_flush(fry_turn *turn);

/* Its future has failed: the other end is told. Under way: it becomes quiet later, perhaps from
 * within. */
void fry_message_failed(fry_turn *turn, fry_node *node, bool is_under_way);

/* Of a node that was never submitted: gives its slot back. */
void fry_message_discard(ferry_engine *engine, fry_context *context, fry_node *node);

/* batch_node.c: a batch's own node, and its operations as far as they have to do with it. */

/* The batch that counts the node; NULL: none, or it has not entered yet. */
fry_node *fry_batch_of(const fry_node *node);

/* A node that is in_batch has been resolved, and perhaps is still under way; then it was quiet. */
void fry_batch_member_ended(fry_turn *turn, fry_node *member, bool is_under_way);
void fry_batch_member_quiet(fry_turn *turn, fry_node *member);

/* One of its operations has failed, or will not be quiet: so does the batch, with this as cause. */
void fry_batch_note_failure(fry_turn *turn, fry_node *batch, fry_error *root);

/* What fails it is kept: it has yet to enter, or its operations are being cancelled first. It must
 * not stand in the failing queue then. */
bool fry_batch_fails_later(const fry_node *batch);

/* One that is counted by an edge had failed and was under way as the batch entered. */
void fry_batch_counts_late(fry_node *batch, fry_node *member);

/* The batch's node enters, behind all its operations. */
void fry_batch_enter(fry_node *batch);

/* All of it is in: a cancel that came before begins. */
void fry_batch_entered(fry_turn *turn, fry_node *batch);

/* On the loop: its operations are to be cancelled, and then itself. */
void fry_batch_cancel(fry_turn *turn, fry_node *batch);

/* On the loop: goes on cancelling, for less than a millisecond. Returns how much was done. */
size_t fry_batches_cancel(fry_turn *turn);

/* deadline.c: a heap of nodes by deadline. */
void fry_deadline_add(ferry_engine *engine, fry_node *node);
void fry_deadline_remove(ferry_engine *engine, fry_node *node);

/* Fails what is due. Returns how many nodes. */
size_t fry_deadlines_expire(fry_turn *turn, int64_t now_ns);

/* turn.c: holding the baton. */

/* Takes the baton for the calling thread if it can be had. */
bool fry_turn_begin(fry_turn *turn, ferry_engine *engine, fry_context *context, bool is_loop);

/* Works off up to `budget`, gives the baton back, looks again. Returns the work done. */
size_t fry_turn_end(fry_turn *turn, size_t budget);

/* Puts a node in the inbox (its place there is its program order), and works if nobody else does.
 */
void fry_turn_push(ferry_engine *engine, fry_context *context, fry_node *node);

/* The same for a chain of them, which leads through their links from the newest to the oldest. */
void fry_turn_push_chain(ferry_engine *engine, fry_context *context, fry_link *newest,
                         fry_link *oldest, size_t budget);

/* Submits a new node: enters it at once if the baton is free and nobody is before it. */
void fry_turn_submit(ferry_engine *engine, fry_context *context, fry_node *node);

/* In a turn: whether a new node would be the next to enter. */
static inline bool fry_turn_is_next(const fry_turn *turn)
{
    return turn->engine->backlog.first == NULL && fry_stack_is_empty(&turn->engine->inbox);
}

/*
 * Enters a new node in whose place nobody else is (fry_turn_is_next). It may be gone afterwards if
 * nobody holds a reference. False: there was no room, or it is too large to enter at once; it waits
 * in the backlog, and the turn is to be ended with fry_turn_end_unfinished.
 */
bool fry_turn_enter(fry_turn *turn, fry_node *node);
void fry_turn_end_unfinished(fry_turn *turn, const fry_node *node);

/* node.c: making and unmaking nodes. */

/* A new node with one reference for the user and one for its life; NULL sets *why_p. */
fry_node *fry_node_create(ferry_engine *engine, fry_context *context, ferry_op_kind kind,
                          fry_refusal *why_p);

/*
 * Makes a slot of the pool the future of an operation that succeeded without a node, and gives the
 * user's reference. With the baton.
 */
ferry_future *fry_node_init_done(fry_turn *turn, fry_node *slot, ferry_op_kind kind);

/* One of the few set aside to stand for refused writes, a definition; NULL if all are in use. The
 * context may be NULL. */
fry_node *fry_node_create_reserve(ferry_engine *engine, fry_context *context);

/* A promise, one of the few set aside to tell of room; NULL if all are in use. */
fry_node *fry_node_create_writable(ferry_engine *engine, fry_context *context);

/* Adds a loose edge after `from` to a new node. FRY_REFUSED_MAX_EDGES: the caller notes how many it
 * lacks; FRY_REFUSED_MAX_ACCESSES: likewise, of uses. */
fry_refusal fry_node_add_edge(ferry_engine *engine, fry_context *context, fry_node *node,
                              fry_node *from, fry_edge_nature nature);

/* refused_writes.c: what is not written since there was no room is not valid from now on. The rows
 * were checked; context NULL: there is no memory for one. */
void fry_refused_write(ferry_engine *engine, fry_context *context, const fry_rows *rows,
                       fry_refusal why);
void fry_refused_mark_init(ferry_engine *engine);

/* With the baton: the mark comes out of the inbox. */
void fry_refused_mark_arrives(fry_turn *turn);

/* Says that the node touches memory. */
static inline void fry_node_init_spans(fry_node *node)
{
    if ((node->flags & FRY_NODE_HAS_SPANS) == 0) {
        node->flags |= FRY_NODE_HAS_SPANS;
        node->listed = NULL;
        node->reads = NULL;
        node->uses = NULL;
    }
}

/* A definition of rows, or of a span. Where what it waits for stands on a device is found out as it
 * enters. */
static inline void fry_node_init_define(fry_node *node, const fry_rows *rows)
{
    node->op.define = *rows;
    node->has_rows = rows->count > 1;
    node->lane = NULL;
    node->sequence = 0;
    fry_node_init_spans(node);
}

/* Adds what it touches to a new node, ahead of what was added before. */
fry_refusal fry_node_add_use(ferry_engine *engine, fry_context *context, fry_node *node,
                             const fry_rows *rows, ferry_access_mode mode);

/* Takes the references to buffers that it has as long as it is in the graph. */
void fry_node_hold_buffers(fry_node *node);

/* Takes the references a node needs once its submit call has returned. Before it is pushed. */
void fry_graph_share(fry_node *node);

/* The same of a node that is half-way into the graph, with the baton. */
void fry_graph_share_entering(const ferry_engine *engine, fry_node *node);

/*
 * A node that has yet to enter, or just does, will fail with this status and error (NULL: one that
 * names it is made when somebody asks; is_cause: that is another's), which is taken. What came
 * first stays.
 */
void fry_node_refuse(fry_node *node, ferry_status status, fry_error *error, bool is_cause);

/* Before it was submitted: takes everything back. */
void fry_node_discard(ferry_engine *engine, fry_context *context, fry_node *node);

/* Drops the node's life; the slot goes when the user's handles are gone too. */
void fry_node_drop_life(fry_turn *turn, fry_node *node);

/* The last reference is gone. */
void fry_node_released(ferry_future *future);

/* writable.c: notes what another try takes. */

/* At submit: so many edges in all, of which `missing` were not there. */
void fry_edges_refused(ferry_engine *engine, uint64_t needed, uint64_t missing);

/* For naming a barred buffer. Gives the reason. */
fry_refusal fry_refused_barred(ferry_engine *engine);

/* As it entered, with so many edges into it; with the baton. */
void fry_entry_refused(ferry_engine *engine, uint64_t edges, const fry_lack *lack);

/* The promise of room enters, which is none of the load that was noted. */
void fry_writable_enters(ferry_engine *engine);

/* promise.c: of an engine that takes operations. Why not, or it is made. */
fry_refusal fry_promise_make(ferry_engine *engine, ferry_promise **promise_p);

/* Resolves it in the calling thread; FERRY_E_BUSY if it has resolved. */
ferry_status fry_promise_end(ferry_promise *promise, ferry_status status, const char *domain,
                             const char *message);

/* The same with an error of the caller's, which is taken, and a value (NULL: none), which is if the
 * answer is FERRY_OK: memory of the engine's. */
ferry_status fry_promise_end_with(ferry_promise *promise, ferry_status status, fry_error *error,
                                  fry_value *value);
void fry_value_free(ferry_engine *engine, fry_value *value);

/* Gives the handle back, as ferry_promise_release. The caller keeps the engine. */
void fry_promise_drop(ferry_promise *promise);

/* buffer.c */
struct fry_pieces {
    fry_segment *rbh_root;
};
struct fry_reads {
    fry_segment *rbh_root;
};
struct fry_spans {
    fry_segment *rbh_root;
};

/* Whether a GPU can copy a host buffer's memory straight. */
enum fry_pages {
    FRY_PAGES_UNASKED = 0, /* no copy between it and a GPU was submitted yet */
    FRY_PAGES_PINNED,      /* page-locked */
    FRY_PAGES_PAGEABLE,    /* not: it goes through the backend's staging */
};

struct ferry_buffer {
    uint32_t references;
    bool is_wrapped;
    uint8_t kind;  /* fry_memory_kind, of memory that is ferry's */
    uint8_t pages; /* fry_pages, of a host's; any thread, and all find the same */
    ferry_engine *engine;
    ferry_device *device;
    fry_device *memory_device; /* whose memory_free takes it: pinned memory is a GPU's to free */
    void *data;
    size_t size_bytes;
    ferry_free_fn free_fn;
    void *free_arg;
    fry_link free_link;
    int32_t
        refused; /* any thread: fry_refusal of a write that has yet to take its place, for which
                    nothing could be put in the inbox: nobody else may name the buffer meanwhile */
    fry_link refused_link; /* engine->refused_buffers, or refused_noted */
    /* Baton. What is being touched, and what is poisoned; else absent: see hazard.c. */
    struct fry_pieces pieces;
    fry_segment *newest;   /* of those, the one that entered last; NULL: it is gone */
    size_t newest_gap_end; /* nobody is at what is behind that up to here; 0: unknown */
    struct fry_reads reads;
    fry_layer *layers;
    struct fry_spans poisons;
    fry_error *wide_poison;                          /* the whole buffer is, for want of memory */
    bool has_more;                                   /* than pieces: any of the four */
    ferry_buffer *poisoned_next, *poisoned_previous; /* is_listed: in engine->poisoned */
    bool is_listed;
};

static inline void fry_buffer_retain(ferry_buffer *buffer)
{
    (void)fry_fetch_add(&buffer->references, 1);
}

/* At zero it goes to the loop to be freed; the caller wakes it. */
void fry_buffer_unretain(ferry_buffer *buffer);

/* Unused buffers, at most so many: what they still list; with the baton. Then their memory; on the
 * loop, without it. */
fry_link *fry_buffers_forget(fry_turn *turn, size_t budget);
size_t fry_buffers_free(ferry_engine *engine, fry_link *buffers);

/* After any of those has begun or ceased to be. */
static inline void fry_buffer_look(ferry_buffer *buffer)
{
    buffer->has_more = buffer->reads.rbh_root != NULL || buffer->layers != NULL ||
                       buffer->poisons.rbh_root != NULL || buffer->wide_poison != NULL;
}

/* Nothing of the buffer is touched or poisoned. */
static inline bool fry_buffer_is_idle(const ferry_buffer *buffer)
{
    return buffer->pieces.rbh_root == NULL && !buffer->has_more;
}

/* At submit: see refused_writes.c. */
static inline bool fry_buffer_is_barred(const ferry_buffer *buffer)
{
    return fry_unlikely(fry_load_acquire(&buffer->refused) != FRY_TAKEN);
}

/* The same where one of them is a GPU's; may ask its driver, so not with the baton. */
fry_lane *fry_lane_of_gpu(ferry_buffer *dst, ferry_buffer *src, size_t plain_bytes);

static inline bool fry_buffers_are_hosts(const ferry_buffer *dst, const ferry_buffer *src)
{
    return dst->device->host_lane != NULL && src->device->host_lane != NULL;
}

/* Whether a stream can copy between the two. */
static inline bool fry_buffers_can_copy(const ferry_buffer *dst, const ferry_buffer *src)
{
    const ferry_device *to = dst->device, *from = src->device;
    return fry_likely(to->host_lane != NULL) || from->host_lane != NULL ||
           strcmp(to->device->ops->backend, from->device->ops->backend) == 0;
}

/* How large a copy is; of one with rows SIZE_MAX. */
static inline size_t fry_copy_plain_bytes(const fry_node *node)
{
    return node->has_rows ? SIZE_MAX : node->op.copy.size_bytes;
}

/*
 * Whether a copy reads its bytes as it is issued: out of pageable memory on a lane that a GPU
 * works off (fry_device_ops.small_stream). Of memory of GPUs nobody asks for its pages.
 */
static inline bool fry_copy_is_read_now(const fry_node *node)
{
    return node->lane->stream->is_polled &&
           fry_load_relaxed(&node->op.copy.src->pages) == FRY_PAGES_PAGEABLE;
}

/*
 * The lane that copies between two buffers go on, which fry_buffers_can_copy. plain_bytes: how
 * large the copy is; of one with rows SIZE_MAX.
 */
static inline fry_lane *fry_lane_between(ferry_buffer *dst, ferry_buffer *src, size_t plain_bytes)
{
    if (fry_likely(fry_buffers_are_hosts(dst, src)))
        return dst->device->host_lane;
    return fry_lane_of_gpu(dst, src, plain_bytes);
}

/* observe.c */
void fry_trace_emit(ferry_engine *engine, const fry_node *node, ferry_trace_what what,
                    uint64_t waited_for);

/* A copy that has fired began then, if that is known (not 0). */
void fry_trace_emit_begun(ferry_engine *engine, const fry_node *node, int64_t begun_ns);

static inline void fry_trace(ferry_engine *engine, const fry_node *node, ferry_trace_what what,
                             uint64_t waited_for)
{
    if (fry_unlikely(fry_load_relaxed(&engine->tracing) != 0))
        fry_trace_emit(engine, node, what, waited_for);
}

#endif
