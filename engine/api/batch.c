/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches: many operations submitted by one call, as if one by one.
 *
 * Up to 256 operations at a time are staged: checked, and made into nodes, without the baton. Then
 * one hold of the baton enters them all; between two holds other threads can have the baton. If the
 * baton is taken, or others are before them, they go to the inbox as one chain. Both keep their
 * order: a chain is pushed whole, and nodes enter directly only if nobody is before them.
 *
 * A small copy is staged without a node. With the baton it is copied at once if nobody uses its
 * buffers. That is all: without each[] it leaves nothing, with each[] a resolved future. If it
 * can't be copied at once, it and the operations behind it get nodes, without the baton again.
 *
 * Staging must not make room run out where submitting one by one would have found enough, because a
 * node that has entered may be done and free. So an operation that finds no room waits until all
 * before it are submitted, and is refused only if there is still none. By then nothing before it is
 * staged any more, so the poison of its spans takes the right place in program order.
 *
 * The batch's own node is made first, so that the others can point to it, and enters last. Only
 * then is what the submitter alone knows (how many operations never counted, whether one was
 * refused) added to the node's account, so no atomics are needed: batch_node.c.
 *
 * Notices start when all before them have ended well. So they stand at the array's end: then the
 * batch's count says when that is (batch_count.c), and other operations don't pay for it.
 */
#include "engine/api/call.h"
#include "engine/api/call_async.h"
#include "engine/api/copy.h"
#include "engine/api/notice.h"
#include "engine/api/reach.h"
#include "engine/api/request.h"
#include "engine/api/send.h"
#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/graph/due.h"
#include "engine/graph/emit.h"
#include "engine/graph/enter.h"
#include "engine/graph/graph.h"
#include "engine/graph/lane.h"
#include "engine/graph/node.h"
#include "engine/graph/room.h"
#include "engine/graph/turn.h"
#include "engine/graph/work.h"
#include "engine/ground/context.h"
#include "engine/ground/refusal.h"
#include "engine/loop/late.h"

#define STAGE_OPS 256
#define OP_BYTES_MAX 4096
#define HOLDING_COPY_BYTES ((size_t)256 << 10) /* copied in one hold, and one copy more */

/* An operation that waits to be submitted. */
typedef struct batch_entry {
    size_t op;      /* its index; `count` for the batch's own node */
    fry_node *node; /* NULL: a copy to be done at once if possible */
} batch_entry;

typedef struct batch {
    fry_request request; /* for operations without options of their own */
    const char *ops;
    size_t op_size_bytes, count;
    ferry_future **each;
    fry_node *node;
    uint32_t settled;      /* operations that don't count themselves off */
    fry_refusal refused;   /* why the first refused operation was refused */
    bool is_traced;        /* each operation makes records, so it needs a node */
    bool is_plain;         /* its options don't affect its operations */
    bool is_refused_ahead; /* an operation before the notices was refused */
    size_t first_notice;   /* of those at its end; all of them are behind it */
    fry_node *notice;      /* the first that has a node; the batch holds it */
    fry_node *last_notice; /* the last, with a reference of this call's */
    uint32_t notices;      /* that have nodes */
    size_t next;           /* the first operation not yet staged */
    size_t entry_count, submitted;
    batch_entry entries[STAGE_OPS + 1];
} batch;

/* ---- the batch's node ---- */

static fry_refusal create_own_node(batch *self)
{
    fry_refusal why = FRY_TAKEN;
    fry_request request = self->request;
    if (self->count != 0) /* an empty batch has the options itself */
        request.options = (ferry_op_options){.label = self->request.options.label,
                                             .flags = self->request.options.flags,
                                             .user_data = self->request.options.user_data};
    fry_node *node = fry_request_node(&request, FERRY_OP_BATCH, &why);
    if (node == NULL)
        return why;
    fry_node_set_holding(node, 1 + (uint32_t)self->count);
    node->op.batch.cancel = NULL;
    node->op.batch.count = (uint32_t)self->count;
    node->op.batch.settled = 0;
    node->op.batch.unquiet = 0;
    node->op.batch.notice = NULL;
    node->op.batch.notices = node->op.batch.notices_ended = 0;
    node->op.batch.has_failed = false;
    node->op.batch.has_failed_ahead = node->op.batch.is_refused_ahead = false;
    node->op.batch.refused = FRY_TAKEN;
    self->node = node;
    return FRY_TAKEN;
}

/* Makes the new node report its end to the batch. */
static void join(const batch *self, fry_node *node)
{
    node->batch = self->node;
    if (self->each == NULL)
        node->future.references = 1; /* for its life; there is no handle */
}

/* ---- reading operations ---- */

/* The operation, which has the caller's size; `local` is used if that is not this version's. */
static const ferry_op *op_at(const batch *self, size_t index, ferry_op *local)
{
    const char *given = self->ops + index * self->op_size_bytes;
    if (fry_likely(self->op_size_bytes == sizeof *local))
        return (const ferry_op *)(const void *)given;
    memset(local, 0, sizeof *local);
    memcpy(local, given, self->op_size_bytes < sizeof *local ? self->op_size_bytes : sizeof *local);
    return local;
}

/* Whether the operation sets fields that this version does not know. */
static bool has_tail(const batch *self, size_t index)
{
    const char *given = self->ops + index * self->op_size_bytes;
    for (size_t i = sizeof(ferry_op); i < self->op_size_bytes; i++) {
        if (given[i] != 0)
            return true;
    }
    return false;
}

/*
 * The request for an operation: the batch's own if the operation has no options, or else `own`,
 * filled with its options and what the batch's add.
 */
static fry_refusal request_of(batch *self, const ferry_op *op, fry_request *own,
                              fry_request **request_p)
{
    const ferry_op_options *shared = &self->request.options;
    *request_p = &self->request;
    if (op->options == NULL)
        return FRY_TAKEN;
    own->engine = self->request.engine;
    own->context = self->request.context;
    own->shared = shared;
    *request_p = own;
    fry_refusal why = fry_request_options(own, own->engine, op->options);
    if (own->options.deadline_ns == 0)
        own->options.deadline_ns = shared->deadline_ns;
    if (own->options.label == NULL) {
        own->options.label = shared->label;
        own->options.flags |= shared->flags & FERRY_OP_LABEL_COPIED;
    }
    own->options.flags |= shared->flags & FERRY_OP_UNTRACKED;
    if (own->options.queue == NULL)
        own->options.queue = shared->queue;
    if (own->options.scope == NULL)
        own->options.scope = shared->scope;
    if (own->options.user_data == 0)
        own->options.user_data = shared->user_data;
    if (own->options.priority == FERRY_PRIORITY_NORMAL)
        own->options.priority = shared->priority;
    return why;
}

static fry_row_span dst_of(const ferry_op *op)
{
    return (fry_row_span){op->dst, op->dst_pitch_bytes, op->row_count <= 1 ? 1 : op->row_count};
}

static fry_row_span src_of(const ferry_op *op)
{
    return (fry_row_span){op->src, op->src_pitch_bytes, op->row_count <= 1 ? 1 : op->row_count};
}

static fry_node *node_of(const ferry_op *op, fry_request *request, fry_refusal *why_p)
{
    if (op->kind == FERRY_OP_COPY && op->row_count <= 1)
        return fry_request_copy(request, &op->dst, &op->src, why_p);
    if (op->kind == FERRY_OP_COPY) {
        fry_row_span dst = dst_of(op), src = src_of(op);
        return fry_request_copy_rows(request, &dst, &src, why_p);
    }
    if (op->kind == FERRY_OP_CALL)
        return fry_request_call(request, op->executor, op->fn, op->arg, why_p);
    if (op->kind == FERRY_OP_ASYNC)
        return fry_request_call_async(request, op->executor, op->begin, op->cancel, op->arg, why_p);
    if (op->kind == FERRY_OP_NOP)
        return fry_request_node(request, FERRY_OP_NOP, why_p);
    if (op->kind == FERRY_OP_SEND || op->kind == FERRY_OP_RECV)
        return fry_request_message(request, op->kind, op->group, op->peer, op->tag,
                                   op->kind == FERRY_OP_SEND ? &op->src : &op->dst, why_p);
    if (op->kind == FERRY_OP_GET || op->kind == FERRY_OP_PUT)
        return fry_request_reach(request, op->kind, op->window, op->window_offset,
                                 op->kind == FERRY_OP_PUT ? &op->src : &op->dst, why_p);
    if (op->kind == FERRY_OP_NOTICE)
        return fry_request_notice(request, op->group, op->peer, op->data, op->data_bytes, why_p);
    *why_p = fry_refuse(request->engine, FRY_REFUSED_BATCH_OP_KIND);
    return NULL;
}

/* NULL: not a message, or one that needs all checks. */
static inline fry_node *plain_message_of(const batch *self, const ferry_op *op)
{
    bool is_send = op->kind == FERRY_OP_SEND;
    if (!self->is_plain || op->options != NULL || (!is_send && op->kind != FERRY_OP_RECV))
        return NULL;
    return fry_request_plain_message(self->request.engine, self->request.context, op->kind,
                                     op->group, op->peer, op->tag, is_send ? &op->src : &op->dst);
}

/*
 * A new notice: the first is held until its batch lets it go, each other one waits for the notice
 * before it.
 */
static fry_refusal chain_notice(const batch *self, fry_request *request, fry_node *node)
{
    if (self->last_notice == NULL)
        return FRY_TAKEN;
    ferry_future *before = &self->last_notice->future;
    fry_refusal why = fry_request_add_after(request, node, before, FRY_EDGE_AFTER);
    if (why == FRY_REFUSED_MAX_EDGES)
        fry_request_lacks_edges(request, node, &before, 1, FRY_EDGE_AFTER);
    if (why == FRY_TAKEN && self->refused != FRY_TAKEN)
        fry_node_refuse(node, FERRY_E_DEPENDENCY, fry_refusal_error(self->refused), true);
    return why;
}

/* It will be submitted. */
static void keep_notice(batch *self, fry_node *node)
{
    if (self->notice == NULL) {
        fry_node_set_holding(node, 2); /* by its entering, and by the batch */
        self->notice = node;
        self->node->op.batch.notice = node; /* nobody looks at it before this notice is in */
        self->is_refused_ahead |= self->refused != FRY_TAKEN;
    }
    fry_graph_share(node); /* of its edge's other end, from now on */
    if (self->last_notice != NULL)
        ferry_future_release(&self->last_notice->future);
    self->last_notice = node;
    (void)ferry_future_retain(&node->future);
    self->notices++;
}

static fry_refusal make_node(batch *self, size_t index, const ferry_op *op, fry_request *request,
                             fry_node **node_p)
{
    fry_refusal why = FRY_TAKEN;
    fry_node *node = plain_message_of(self, op);
    if (node == NULL)
        node = node_of(op, request, &why);
    if (node != NULL && op->kind == FERRY_OP_NOTICE &&
        (why = chain_notice(self, request, node)) != FRY_TAKEN) {
        fry_node_discard(request->engine, request->context, node);
        node = NULL;
    }
    if (node == NULL)
        return why;
    join(self, node);
    if (op->kind == FERRY_OP_NOTICE)
        keep_notice(self, node);
    if (self->each != NULL)
        self->each[index] = &node->future;
    fry_request_share_large(request, node);
    fry_emit(request->engine, node, FERRY_TRACE_SUBMITTED, 0);
    *node_p = node;
    return FRY_TAKEN;
}

/* ---- refusing ---- */

/*
 * Refuses an operation. If it is for lack of room, nothing before the operation may still be
 * staged.
 */
static ferry_future *refuse_op(batch *self, size_t index, fry_refusal why)
{
    ferry_engine *engine = self->request.engine;
    if (!fry_refusal_poisons(why))
        return fry_refusal_future(engine, why);
    ferry_op local;
    const ferry_op *op = op_at(self, index, &local);
    fry_request own, *request;
    if (request_of(self, op, &own, &request) != FRY_TAKEN)
        return fry_refusal_future(engine, why);
    fry_row_span dst = dst_of(op), src = src_of(op);
    bool writes =
        op->kind == FERRY_OP_RECV || op->kind == FERRY_OP_GET ||
        (op->kind == FERRY_OP_COPY && fry_request_check_rows(engine, &dst, &src) == FRY_TAKEN);
    if (op->kind == FERRY_OP_RECV || op->kind == FERRY_OP_GET)
        dst.row_count = 1;
    return fry_request_refuse_writes(request, engine, why, writes ? &dst : NULL);
}

static void settle_refused(batch *self, size_t index, fry_refusal why)
{
    ferry_future *future = refuse_op(self, index, why);
    if (self->each != NULL)
        self->each[index] = future;
    else
        ferry_future_release(future);
    self->settled++;
    self->is_refused_ahead |= index < self->first_notice;
    if (self->refused == FRY_TAKEN)
        self->refused = why;
}

static ferry_future *refuse_all(batch *self, ferry_engine *engine, fry_refusal why)
{
    self->request.engine = engine;
    for (size_t i = 0; i < self->count && (self->each != NULL || fry_refusal_is_want(why)); i++)
        settle_refused(self, i, why);
    return fry_refusal_future(engine, why);
}

/* ---- staging ---- */

/*
 * Whether a copy, which may be invalid, needs no node if nobody uses its buffers. Never with a
 * GPU's buffer: such copies are never done at once, and finding the lane may ask the driver.
 */
static bool may_do_at_once(const batch *self, const ferry_op *op, const fry_request *request)
{
    const ferry_op_options *options = &request->options;
    return op->kind == FERRY_OP_COPY && op->row_count <= 1 && op->dst.size_bytes != 0 &&
           op->dst.buffer != NULL && op->src.buffer != NULL &&
           fry_buffers_are_hosts(op->dst.buffer, op->src.buffer) &&
           op->dst.size_bytes <= request->engine->inline_copy_bytes && options->after_count == 0 &&
           options->access_count == 0 && options->deadline_ns == 0 && options->queue == NULL &&
           options->scope == NULL && self->request.options.after_count == 0 && !self->is_traced;
}

static fry_refusal stage_op(batch *self, size_t index, fry_node **node_p)
{
    ferry_op local;
    const ferry_op *op = op_at(self, index, &local);
    fry_request own, *request;
    *node_p = NULL;
    if (fry_unlikely(has_tail(self, index)))
        return fry_refuse(self->request.engine, FRY_REFUSED_BATCH_OP_TAIL);
    if (fry_unlikely(op->kind == FERRY_OP_NOTICE) && index < self->first_notice)
        return fry_refuse(self->request.engine, FRY_REFUSED_BATCH_NOTICE);
    fry_refusal why = request_of(self, op, &own, &request);
    if (why != FRY_TAKEN)
        return why;
    if (may_do_at_once(self, op, request))
        return fry_request_check_copy(request->engine, &op->dst, &op->src);
    return make_node(self, index, op, request, node_p);
}

/* Fills the entries. True: the last entry is the batch itself. */
static bool stage(batch *self)
{
    self->entry_count = self->submitted = 0;
    for (; self->next < self->count && self->entry_count < STAGE_OPS; self->next++) {
        fry_node *node;
        fry_refusal why = stage_op(self, self->next, &node);
        if (fry_likely(why == FRY_TAKEN))
            self->entries[self->entry_count++] = (batch_entry){self->next, node};
        else if (self->entry_count != 0 && fry_refusal_is_want(why))
            return false; /* there may be room once these are submitted */
        else
            settle_refused(self, self->next, why);
    }
    if (self->next < self->count)
        return false;
    fry_emit(self->request.engine, self->node, FERRY_TRACE_SUBMITTED, 0);
    self->entries[self->entry_count++] = (batch_entry){self->count, self->node};
    return true;
}

/* Makes nodes for the staged copies that have none, as far as there is room. */
static void make_missing_nodes(batch *self)
{
    for (size_t i = self->submitted; i < self->entry_count; i++) {
        batch_entry *entry = &self->entries[i];
        if (entry->node != NULL)
            continue;
        ferry_op local;
        const ferry_op *op = op_at(self, entry->op, &local);
        fry_request own, *request;
        fry_refusal why = request_of(self, op, &own, &request);
        if (why == FRY_TAKEN)
            why = make_node(self, entry->op, op, request, &entry->node);
        if (why == FRY_TAKEN)
            continue;
        if (i == self->submitted) {
            settle_refused(self, entry->op, why);
            self->submitted++;
        }
        return;
    }
}

/* ---- submitting ---- */

/* Puts the account into the batch's node, before that enters: all about its operations is known. */
static void close_account(batch *self, const batch_entry *entry)
{
    if (entry->op == self->count) {
        self->node->op.batch.settled = self->settled;
        self->node->op.batch.refused = (int32_t)self->refused;
        self->node->op.batch.notices = self->notices;
        self->node->op.batch.is_refused_ahead = self->is_refused_ahead;
    }
}

/* False: the copy needs a node. */
static bool copy_at_once(batch *self, fry_turn *turn, size_t index, size_t *bytes_p)
{
    ferry_engine *engine = turn->engine;
    ferry_op local;
    const ferry_op *op = op_at(self, index, &local);
    fry_copy_op copy = {.dst = op->dst.buffer,
                        .src = op->src.buffer,
                        .dst_offset = op->dst.offset_bytes,
                        .src_offset = op->src.offset_bytes,
                        .size_bytes = op->dst.size_bytes};
    fry_node *slot = NULL;
    if (self->each != NULL && (slot = fry_pool_take(&engine->nodes, &turn->context->nodes)) == NULL)
        return false;
    if (!fry_graph_copy_at_once(
            turn, fry_lane_between(op->dst.buffer, op->src.buffer, copy.size_bytes), &copy)) {
        if (slot != NULL)
            fry_pool_give(&engine->nodes, &turn->context->nodes, slot);
        return false;
    }
    if (slot != NULL)
        self->each[index] = fry_node_init_done(turn, slot, FERRY_OP_COPY);
    self->settled++;
    *bytes_p += copy.size_bytes;
    return true;
}

/* Whether the next to enter is a send or a get like this one. */
static inline bool is_like_behind(const batch *self, uint8_t kind)
{
    size_t next = self->submitted + 1;
    return (kind == FERRY_OP_SEND || fry_unlikely(kind == FERRY_OP_GET)) &&
           next < self->entry_count && self->entries[next].node != NULL &&
           self->entries[next].node->kind == kind;
}

/* How many bytes this thread may copy as the node enters; 0 for a device that is polled. */
static size_t bytes_here(const ferry_engine *engine, const fry_node *node)
{
    if (node->kind != FERRY_OP_COPY || node->op.copy.size_bytes > engine->inline_copy_bytes)
        return 0;
    const fry_lane *lane = node->op.copy.stand.lane;
    return lane != NULL && lane->stream->is_polled ? 0 : node->op.copy.size_bytes;
}

/* Enters what one turn can enter. False: others are before it. */
static bool enter_entries(batch *self)
{
    ferry_engine *engine = self->request.engine;
    fry_turn turn;
    if (!fry_turn_begin(&turn, engine, self->request.context, false))
        return false;
    if (fry_unlikely(!fry_turn_is_next(&turn)))
        (void)fry_graph_work(&turn, engine->submit_budget);
    bool is_next = fry_turn_is_next(&turn), is_in = true, lacks_node = false;
    const fry_node *node = NULL;
    size_t first = self->submitted, bytes = 0;
    while (is_next && is_in && self->submitted < self->entry_count && bytes < HOLDING_COPY_BYTES) {
        const batch_entry *entry = &self->entries[self->submitted];
        if (entry->node == NULL) {
            lacks_node = !copy_at_once(self, &turn, entry->op, &bytes);
            if (lacks_node)
                break;
        } else {
            bytes += bytes_here(engine, entry->node);
            close_account(self, entry);
            turn.gathers = is_like_behind(self, entry->node->kind);
            node = entry->node;
            is_in = fry_turn_enter(&turn, entry->node);
        }
        self->submitted++;
    }
    turn.gathers = false;
    if (fry_likely(is_in))
        (void)fry_turn_end(&turn, engine->submit_budget + self->submitted - first);
    else
        fry_turn_end_unfinished(&turn, node);
    if (lacks_node)
        make_missing_nodes(self);
    return is_next;
}

/* Leaves the entries that have nodes to the baton's holder. */
static void push_entries(batch *self)
{
    ferry_engine *engine = self->request.engine;
    fry_link *newest = NULL, *oldest = NULL;
    make_missing_nodes(self);
    size_t first = self->submitted;
    for (; self->submitted < self->entry_count; self->submitted++) {
        const batch_entry *entry = &self->entries[self->submitted];
        if (entry->node == NULL)
            break;
        close_account(self, entry);
        fry_graph_share(entry->node);
        entry->node->link.next = newest;
        newest = &entry->node->link;
        if (oldest == NULL)
            oldest = newest;
    }
    if (newest != NULL)
        fry_turn_push_chain(engine, self->request.context, newest, oldest,
                            engine->submit_budget + self->submitted - first);
}

static void submit(batch *self)
{
    bool is_last;
    do {
        is_last = stage(self);
        while (self->submitted < self->entry_count) {
            if (!enter_entries(self))
                push_entries(self);
        }
    } while (!is_last);
}

static fry_refusal check(const batch *self)
{
    if (self->ops == NULL && self->count != 0)
        return FRY_REFUSED_BATCH_ARRAY;
    if (self->count > FRY_BATCH_COUNT_MAX)
        return FRY_REFUSED_BATCH_COUNT;
    if (self->op_size_bytes < sizeof(ferry_op_kind) || self->op_size_bytes > OP_BYTES_MAX)
        return FRY_REFUSED_BATCH_OP_SIZE;
    return self->request.options.access_count != 0 ? FRY_REFUSED_BATCH_ACCESSES : FRY_TAKEN;
}

/* Where the notices at the array's end begin. */
static size_t find_notices(const batch *self)
{
    ferry_op local;
    size_t first = self->count;
    while (first > 0 && op_at(self, first - 1, &local)->kind == FERRY_OP_NOTICE)
        first--;
    return first;
}

ferry_future *ferry_batch(ferry_engine *engine, const ferry_op *ops, size_t op_size_bytes,
                          size_t count, ferry_future *each[], const ferry_op_options *options)
{
    batch self;
    memset(&self, 0, __builtin_offsetof(batch, entries));
    self.ops = (const char *)ops;
    self.op_size_bytes = op_size_bytes;
    self.count = count;
    self.each = each;
    fry_refusal why = fry_request_open(&self.request, engine, options);
    if (why == FRY_TAKEN || why == FRY_REFUSED_NO_MEMORY) {
        fry_refusal wrong = check(&self);
        why = wrong != FRY_TAKEN ? fry_refuse(engine, wrong) : why;
    }
    if (why == FRY_TAKEN)
        why = create_own_node(&self);
    if (why != FRY_TAKEN)
        return refuse_all(&self, engine, why);
    self.first_notice = find_notices(&self);
    self.is_traced = fry_load_relaxed(&engine->tracing) != 0;
    const ferry_op_options *shared = &self.request.options;
    self.is_plain = shared->after_count == 0 && shared->deadline_ns == 0 && shared->label == NULL &&
                    shared->user_data == 0 && shared->queue == NULL && shared->scope == NULL &&
                    shared->priority == FERRY_PRIORITY_NORMAL && shared->flags == 0;
    submit(&self);
    if (self.last_notice != NULL)
        ferry_future_release(&self.last_notice->future);
    fry_late_call_ends(engine);
    return &self.node->future;
}
