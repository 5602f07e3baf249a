/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Posts: a post of a plan is one operation of the graph, and does its steps itself.
 *
 * As an operation it waits for what its steps touch, holds it, and passes failures on, like a
 * function with those accesses. Once it has started, its steps begin as the plan's order allows
 * (order.c). Small copies in host memory are done at once, by whoever has the baton. Every other
 * step is a *part*: a node of its own, untracked and without edges, that nobody has a future of and
 * whose `batch` is the post. Parts go the ways that all operations go, and tell the post when they
 * have ended and when they are quiet.
 *
 * A post moves on in goes, from the queue of ready nodes, so neither a step's end nor a chain of
 * steps needs a deeper stack; a go is bounded. Parts need memory, which with the baton only the
 * loop may take from the system. So the thread that posts makes the first few before it has the
 * baton, and can start them; others go on with what the pools have, and leave it to the loop when
 * that is not enough.
 *
 * Room. Steps that end by themselves (copies, gets, puts) are limited to FRY_PLAN_ALONE_MOST at a
 * time, since more would not go faster. Others are not: a receive that is held back could be what
 * the other end waits for. For the same reason a post that finds no room waits only for parts that
 * end by themselves, and fails if there are none.
 *
 * Ends. When a part fails the post fails, like whoever waits for it; when the post fails, for
 * whatever reason, no step begins any more, and the next goes cancel the parts. It is quiet when
 * the last part is: until then it keeps the plan, and with that the memory.
 */
#include "engine/plans/post.h"

#include "engine/api/request.h"
#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/graph/due.h"
#include "engine/graph/emit.h"
#include "engine/graph/enter.h"
#include "engine/graph/graph.h"
#include "engine/graph/node.h"
#include "engine/graph/refused_writes.h"
#include "engine/graph/room.h"
#include "engine/graph/tally.h"
#include "engine/graph/turn.h"
#include "engine/ground/context.h"
#include "engine/ground/refusal.h"
#include "engine/loop/late.h"
#include "engine/plans/launch.h"
#include "engine/plans/plan.h"
#include "engine/plans/post_memory.h"

#include <string.h>

#define FRY_PLAN_ALONE_MOST 256
#define MADE_MOST 32                 /* parts made by the thread that posts */
#define GO_STEPS 16                  /* steps begun in a go of a thread that is not the loop */
#define LOOP_GO_STEPS 64             /* in one of the loop; parts cancelled in a go */
#define PART_STEPS 64                /* what a part counts for in a hold: it may move bytes now */
#define GO_BYTES ((size_t)256 << 10) /* copied in a go, and one copy more */

static fry_plan_post *begin_post(ferry_plan *plan, bool has_picks)
{
    fry_plan_post *post = fry_plan_post_take(plan);
    if (post == NULL)
        return NULL;
    (void)fry_fetch_add(&plan->references, 1);
    post->plan = plan;
    post->order = fry_plan_order_of(plan, !has_picks);
    TAILQ_INIT(&post->parts);
    post->made = (fry_queue){0};
    post->left = post->open = post->alone = 0;
    post->has_picks = has_picks;
    post->is_going = post->has_failed = false;
    post->first = post->behind = 0;
    post->line = NULL;
    post->waits = NULL;
    return post;
}

/* Any thread that has the node; nothing of the post is under way. */
static void give_back(ferry_engine *engine, fry_context *context, fry_node *own)
{
    fry_plan_post *post = own->op.plan.post;
    ferry_plan *plan = post->plan;
    own->op.plan.post = NULL;
    for (fry_link *item; (item = fry_queue_pop(&post->made)) != NULL;)
        fry_node_discard(engine, context, FRY_CONTAINER(item, fry_node, link));
    fry_plan_post_give(plan, post);
    fry_plan_unretain(plan);
}

/* ---- which steps ---- */

static fry_refusal note_picks(fry_plan_post *post, const uint32_t *picks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t *word = &post->picked[picks[i] / 64], bit = (uint64_t)1 << picks[i] % 64;
        if ((*word & bit) != 0)
            return FRY_REFUSED_PLAN_PICK_TWICE;
        *word |= bit;
    }
    return FRY_TAKEN;
}

/* Sets up the line of what may begin. */
static void line_up(fry_plan_post *post, const uint32_t *picks, size_t pick_count)
{
    const fry_plan_order *order = post->order;
    if (order->waits != NULL) {
        post->line = post->numbers;
        post->waits = post->numbers + post->plan->count;
        memcpy(post->line, order->roots, order->root_count * sizeof *post->line);
        memcpy(post->waits, order->waits, order->count * sizeof *post->waits);
        post->behind = order->root_count;
        post->left = order->count;
    } else if (post->has_picks) {
        post->line = post->numbers;
        if (pick_count != 0)
            memcpy(post->line, picks, pick_count * sizeof *post->line);
        post->behind = post->left = (uint32_t)pick_count;
    } else {
        post->behind = post->left = order->count;
    }
}

static bool is_picked(const fry_plan_post *post, uint32_t index)
{
    return !post->has_picks || (post->picked[index / 64] >> index % 64 & 1) != 0;
}

static uint32_t at_line(const fry_plan_post *post, uint32_t place)
{
    return post->line != NULL ? post->line[place] : place;
}

/* Those that wait for the step to begin, or to end, wait no more. */
static void let_go(fry_plan_post *post, uint32_t index, uint32_t at_begin)
{
    const fry_plan_order *order = post->order;
    if (order->waits == NULL)
        return;
    for (uint64_t i = order->first[index]; i < order->first[index + 1]; i++) {
        uint32_t next = order->next[i] & ~FRY_PLAN_AT_BEGIN;
        if ((order->next[i] & FRY_PLAN_AT_BEGIN) == at_begin && --post->waits[next] == 0)
            post->line[post->behind++] = next;
    }
}

static void step_is_over(fry_plan_post *post, uint32_t index)
{
    post->left--;
    let_go(post, index, 0);
}

/* ---- parts ---- */

static fry_node *part_make(fry_request *request, fry_node *own, uint32_t index, fry_refusal *why_p)
{
    const fry_plan_post *post = own->op.plan.post;
    memset(&request->options, 0, sizeof request->options);
    request->options.label = fry_node_label(own);
    fry_node *part = fry_plan_step_node(request, &post->order->steps[index], why_p);
    if (part == NULL)
        return NULL;
    part->future.references = 1; /* for its life; there is no handle */
    part->batch = own;
    part->part_index = index;
    fry_emit(request->engine, part, FERRY_TRACE_SUBMITTED, own->future.id);
    return part;
}

static bool is_done_here(const ferry_engine *engine, const fry_plan_step *step)
{
    return fry_plan_step_is_inline(engine, step) && fry_load_relaxed(&engine->tracing) == 0;
}

/* The first parts, which need not wait for the loop. Without the baton. */
static void make_some(fry_request *request, fry_node *own)
{
    fry_plan_post *post = own->op.plan.post;
    fry_refusal why = FRY_TAKEN;
    uint32_t most = post->behind < MADE_MOST ? post->behind : MADE_MOST;
    for (uint32_t i = 0; i < most && why == FRY_TAKEN; i++) {
        uint32_t index = at_line(post, i);
        if (!is_picked(post, index) || is_done_here(request->engine, &post->order->steps[index]))
            continue;
        fry_node *part = part_make(request, own, index, &why);
        if (part != NULL)
            fry_queue_push(&post->made, &part->link);
    }
}

static bool has_slot(fry_pool *pool, fry_pool_cache *cache)
{
    return fry_pool_cache_has(cache, 1) || fry_pool_refill(pool, cache, false) == FERRY_OK;
}

/* Whether a part of the step can be made of what there is. */
static bool has_slots(const fry_turn *turn, const fry_plan_step *step)
{
    ferry_engine *engine = turn->engine;
    fry_context *context = turn->context;
    bool has_peer = fry_plan_step_is_message(step) || step->kind == FERRY_OP_GET ||
                    step->kind == FERRY_OP_PUT || step->kind == FERRY_OP_NOTICE;
    return has_slot(&engine->nodes, &context->nodes) &&
           (!has_peer || has_slot(&engine->transfers, &context->transfers)) &&
           (step->kind != FERRY_OP_NOTICE || has_slot(&engine->notices, &context->notices)) &&
           !(step->kind == FERRY_OP_COPY && step->rows.count > 1); /* its uses */
}

/*
 * The part of a step that begins. NULL: the loop makes it (FRY_TAKEN), or there is no room, or it
 * is refused.
 */
static fry_node *part_for(fry_turn *turn, fry_node *own, uint32_t index, fry_refusal *why_p)
{
    fry_plan_post *post = own->op.plan.post;
    *why_p = FRY_TAKEN;
    if (post->made.first != NULL &&
        FRY_CONTAINER(post->made.first, fry_node, link)->part_index == index)
        return FRY_CONTAINER(fry_queue_pop(&post->made), fry_node, link);
    if (!turn->is_loop && !has_slots(turn, &post->order->steps[index]))
        return NULL;
    fry_request request = {.engine = turn->engine, .context = turn->context};
    return part_make(&request, own, index, why_p);
}

static void part_leaves(fry_plan_post *post, fry_node *part)
{
    TAILQ_REMOVE(&post->parts, part, part);
    post->open--;
    post->alone -= fry_plan_step_ends_alone(&post->order->steps[part->part_index]);
    part->batch = NULL;
}

static void go_later(fry_turn *turn, fry_node *own)
{
    if (!own->op.plan.post->is_going)
        fry_graph_schedule(turn, own);
}

static void part_ended(fry_turn *turn, fry_node *own, fry_node *part, bool is_under_way)
{
    fry_plan_post *post = own->op.plan.post;
    if (fry_unlikely(fry_future_status(&part->future) != FERRY_OK)) {
        post->has_failed = true;
        fry_graph_note_failure(turn, own, fry_future_root_error(&part->future));
    } else {
        step_is_over(post, part->part_index);
    }
    if (fry_unlikely(is_under_way)) {
        TAILQ_REMOVE(&post->parts, part, part);
        TAILQ_INSERT_TAIL(&post->parts, part, part);
    } else {
        part_leaves(post, part);
    }
    go_later(turn, own);
}

static void part_quiet(fry_turn *turn, fry_node *own, fry_node *part)
{
    part_leaves(own->op.plan.post, part);
    go_later(turn, own);
}

/* ---- beginning steps ---- */

static void copy_here(fry_turn *turn, const fry_plan_step *step)
{
    memcpy((char *)step->dst.buffer->data + step->dst.offset_bytes,
           (const char *)step->src.buffer->data + step->src.offset_bytes, step->dst.size_bytes);
    if (fry_unlikely(turn->engine->tally != NULL))
        fry_tally_copied(turn->engine, step->dst.size_bytes);
}

/* Whether the next in line is another get or send, that begins in the same go. */
static bool is_like_next(const fry_plan_post *post, uint8_t kind)
{
    if ((kind != FERRY_OP_SEND && kind != FERRY_OP_GET) || post->first >= post->behind)
        return false;
    uint32_t next = at_line(post, post->first);
    return post->order->steps[next].kind == kind && is_picked(post, next) &&
           post->alone + 1 < FRY_PLAN_ALONE_MOST;
}

static void part_begin(fry_turn *turn, fry_plan_post *post, fry_node *part, bool goes_on)
{
    uint32_t index = part->part_index;
    const fry_plan_step *step = &post->order->steps[index];
    TAILQ_INSERT_HEAD(&post->parts, part, part);
    post->open++;
    post->alone += fry_plan_step_ends_alone(step);
    turn->steps += PART_STEPS;
    turn->gathers = goes_on && is_like_next(post, step->kind);
    fry_graph_enter_part(turn, part); /* it may be gone */
    turn->gathers = false;
    let_go(post, index, FRY_PLAN_AT_BEGIN);
}

/* A step has no part. Its room comes with parts that end by themselves, or never. */
static void part_is_refused(fry_turn *turn, fry_node *own, fry_refusal why)
{
    fry_plan_post *post = own->op.plan.post;
    if (fry_refusal_is_want(why) && post->alone != 0)
        return;
    post->has_failed = true;
    fry_graph_note_failure(turn, own, fry_refusal_error(why));
}

/* Begins the first in line. False: nothing begins now. */
static bool begin_first(fry_turn *turn, fry_node *own, bool goes_on, size_t *bytes_p)
{
    fry_plan_post *post = own->op.plan.post;
    uint32_t index = at_line(post, post->first);
    const fry_plan_step *step = &post->order->steps[index];
    fry_refusal why;
    if (!is_picked(post, index)) {
        post->first++;
        let_go(post, index, FRY_PLAN_AT_BEGIN);
        step_is_over(post, index);
        return true;
    }
    if (is_done_here(turn->engine, step)) {
        post->first++;
        copy_here(turn, step);
        *bytes_p += step->dst.size_bytes;
        let_go(post, index, FRY_PLAN_AT_BEGIN);
        step_is_over(post, index);
        return true;
    }
    if (fry_plan_step_ends_alone(step) && post->alone >= FRY_PLAN_ALONE_MOST)
        return false;
    fry_node *part = part_for(turn, own, index, &why);
    if (part != NULL) {
        post->first++;
        part_begin(turn, post, part, goes_on);
        return true;
    }
    if (why == FRY_TAKEN)
        fry_graph_schedule_on_loop(turn, own);
    else
        part_is_refused(turn, own, why);
    return false;
}

/* ---- goes ---- */

static void begin_steps(fry_turn *turn, fry_node *own)
{
    fry_plan_post *post = own->op.plan.post;
    uint32_t steps = turn->is_loop ? LOOP_GO_STEPS : GO_STEPS;
    size_t bytes = 0;
    bool begins = true;
    post->is_going = true;
    for (;
         steps > 0 && begins && bytes < GO_BYTES && post->first < post->behind && !post->has_failed;
         steps--) {
        begins = begin_first(turn, own, steps > 1, &bytes);
        turn->steps++;
    }
    post->is_going = false;
    if (post->has_failed)
        return; /* it stands in the failing queue */
    if (post->left == 0 && post->open == 0) {
        give_back(turn->engine, turn->context, own);
        fry_graph_complete(turn, own);
    } else if (begins && post->first < post->behind) {
        fry_graph_schedule(turn, own);
    }
}

/* It has failed. Parts that have ended stand last. */
static void cancel_parts(fry_turn *turn, fry_node *own)
{
    fry_plan_post *post = own->op.plan.post;
    fry_node *part;
    uint32_t steps = 0;
    post->is_going = true;
    while (steps++ < LOOP_GO_STEPS && (part = TAILQ_FIRST(&post->parts)) != NULL &&
           part->state < FRY_NODE_RESOLVED) {
        fry_emit(turn->engine, part, FERRY_TRACE_CANCEL, 0);
        fry_graph_fail(turn, part, FERRY_E_CANCELLED,
                       fry_error_retain(fry_future_root_error(&own->future)), true);
    }
    post->is_going = false;
    if (post->open == 0) {
        give_back(turn->engine, turn->context, own);
        fry_graph_complete(turn, own);
    } else if ((part = TAILQ_FIRST(&post->parts)) != NULL && part->state < FRY_NODE_RESOLVED) {
        fry_graph_schedule(turn, own);
    }
}

static void go_on(fry_turn *turn, fry_node *own)
{
    if (own->op.plan.post == NULL || own->state < FRY_NODE_ISSUED)
        return;
    if (own->state >= FRY_NODE_RESOLVED)
        cancel_parts(turn, own);
    else if ((own->flags & FRY_NODE_FAILING) == 0)
        begin_steps(turn, own);
}

/* ---- its row ---- */

static void start(fry_turn *turn, fry_node *own)
{
    fry_graph_issued(turn, own);
    begin_steps(turn, own);
}

static bool span(const fry_node *own, uint8_t index, fry_use *use)
{
    const fry_plan_op *op = &own->op.plan;
    if (index != 0 || op->buffer == NULL)
        return false;
    *use = (fry_use){
        .buffer = op->buffer, .begin = op->begin, .end = op->end, .row_count = 1, .mode = op->mode};
    return true;
}

static bool stop(fry_node *own)
{
    return own->op.plan.post->open != 0;
}

static void failed(fry_turn *turn, fry_node *own, bool is_under_way)
{
    if (own->op.plan.post == NULL)
        return;
    if (is_under_way)
        fry_graph_schedule(turn, own);
    else
        give_back(turn->engine, turn->context, own);
}

static uint64_t moved_bytes(const fry_node *own, uint64_t *flow_p)
{
    (void)flow_p;
    return own->op.plan.size_bytes;
}

/*
 * The member that its oldest part waits for. With the baton it may be asked as the post is about to
 * fail; who asks later, without, must not look at the parts.
 */
static int32_t rank_of(const fry_node *own)
{
    if (fry_load_acquire(&own->state) != FRY_NODE_ISSUED || own->op.plan.post == NULL)
        return -1;
    const fry_node *part = TAILQ_LAST(&own->op.plan.post->parts, fry_plan_parts);
    bool has_peer = part != NULL && (fry_node_is_sent(part) || fry_node_is_received(part));
    return has_peer ? (int32_t)part->op.message.rank : -1;
}

static void describe(const ferry_engine *engine, const fry_node *own, fry_kind_view *view)
{
    (void)engine;
    view->has_size = true;
    view->size_bytes = own->op.plan.size_bytes;
    if (own->state < FRY_NODE_ISSUED)
        return;
    view->reason = FRY_DUMP_OPERATIONS;
    view->more = own->op.plan.post != NULL ? own->op.plan.post->left : 0;
}

const fry_op_kind fry_kind_plan = {
    .traits = FRY_KIND_STAYS | FRY_KIND_ONE_SPAN | FRY_KIND_ENDS_OUTSIDE,
    .span = span,
    .discard = give_back,
    .start = start,
    .stop = stop,
    .failed = failed,
    .go_on = go_on,
    .part_ended = part_ended,
    .part_quiet = part_quiet,
    .moved_bytes = moved_bytes,
    .rank = rank_of,
    .describe = describe,
};

/* ---- posting ---- */

/* What the caller asks for. */
typedef struct posting {
    fry_request request;
    ferry_plan *plan;
    const uint32_t *picks;
    size_t pick_count, access_count;
    bool is_untracked;
} posting;

/* The accesses of the post, from the last one. `each` returns whether to go on. */
typedef bool (*each_access)(posting *self, const ferry_access *access, void *arg);

static bool for_accesses(posting *self, each_access each, void *arg)
{
    const ferry_plan *plan = self->plan;
    if (self->is_untracked)
        return true;
    if (self->picks == NULL) {
        for (size_t i = plan->touch.count; i-- > 0;) {
            if (!each(self, &plan->touch.accesses[i], arg))
                return false;
        }
        return true;
    }
    for (size_t i = self->pick_count; i-- > 0;) {
        ferry_access access;
        for (size_t j = 0; fry_plan_step_access(&plan->steps[self->picks[i]], j, &access); j++) {
            if (access.span.size_bytes != 0 && !each(self, &access, arg))
                return false;
        }
    }
    return true;
}

static bool count_access(posting *self, const ferry_access *access, void *arg)
{
    fry_refusal *why_p = arg;
    self->access_count++;
    if (fry_buffer_is_barred(access->span.buffer))
        *why_p = fry_refused_barred(self->request.engine);
    return *why_p == FRY_TAKEN;
}

static bool add_access(posting *self, const ferry_access *access, void *arg)
{
    fry_node *own = arg;
    if (self->access_count == 1 && own->kind == FERRY_OP_PLAN) {
        own->op.plan.buffer = access->span.buffer;
        own->op.plan.begin = access->span.offset_bytes;
        own->op.plan.end = access->span.offset_bytes + access->span.size_bytes;
        own->op.plan.mode = access->mode;
        fry_node_init_spans(own);
        return true;
    }
    fry_rows row = fry_row_of(access->span);
    fry_refusal why =
        fry_node_add_use(self->request.engine, self->request.context, own, &row, access->mode);
    own->refusal = (int16_t)(why == FRY_TAKEN ? FRY_TAKEN : why); /* until it is discarded */
    return why == FRY_TAKEN;
}

static bool poison(posting *self, const ferry_access *access, void *arg)
{
    if ((access->mode & FERRY_WRITE) != 0) {
        fry_rows row = fry_row_of(access->span);
        fry_refused_write(self->request.engine, self->request.context, &row, *(fry_refusal *)arg);
    }
    return true;
}

static ferry_future *refuse(posting *self, fry_refusal why)
{
    ferry_engine *engine = self->request.engine;
    if (fry_refusal_poisons(why))
        (void)for_accesses(self, poison, &why);
    return fry_request_refuse_writes(&self->request, engine, why, NULL);
}

static fry_refusal check(posting *self)
{
    const ferry_plan *plan = self->plan;
    fry_refusal why = FRY_TAKEN;
    if (self->picks == NULL && self->pick_count != 0)
        return FRY_REFUSED_PLAN_PICKS;
    if (self->pick_count > plan->count)
        return FRY_REFUSED_PLAN_PICK_TWICE; /* or out of range */
    for (size_t i = 0; i < self->pick_count; i++) {
        if (self->picks[i] >= plan->count)
            return FRY_REFUSED_PLAN_PICK;
    }
    if (self->picks == NULL) {
        for (size_t i = 0; i < plan->buffer_count && !self->is_untracked; i++) {
            if (fry_buffer_is_barred(plan->buffers[i]))
                return fry_refused_barred(self->request.engine);
        }
        self->access_count = self->is_untracked ? 0 : plan->touch.count;
    } else {
        (void)for_accesses(self, count_access, &why);
    }
    if (why == FRY_TAKEN &&
        self->access_count + self->request.options.access_count + FRY_COPY_SPANS >
            self->request.engine->span_count_max)
        why = FRY_REFUSED_PLAN_ACCESSES;
    return why;
}

static uint64_t bytes_of(const posting *self)
{
    uint64_t bytes = 0;
    if (self->picks == NULL)
        return self->plan->size_bytes;
    for (size_t i = 0; i < self->pick_count; i++)
        bytes += fry_plan_step_bytes(&self->plan->steps[self->picks[i]]);
    return bytes;
}

static fry_refusal add_accesses(posting *self, fry_node *own)
{
    if (for_accesses(self, add_access, own))
        return FRY_TAKEN;
    fry_refusal why = (fry_refusal)own->refusal;
    own->refusal = FERRY_OK;
    if (why == FRY_REFUSED_MAX_ACCESSES)
        fry_request_lacks_uses(&self->request, self->access_count);
    return why;
}

/* Fills the new node, which the caller discards if this fails. */
static fry_refusal fill(posting *self, fry_node *own, fry_plan_post *post)
{
    fry_request *request = &self->request;
    own->op.plan = (fry_plan_op){.post = post, .size_bytes = bytes_of(self)};
    fry_refusal why = add_accesses(self, own);
    if (why != FRY_TAKEN)
        return why;
    line_up(post, self->picks, self->pick_count);
    const ferry_op_options options = request->options;
    make_some(request, own);
    request->options = options;
    return FRY_TAKEN;
}

static fry_node *make(posting *self, fry_refusal *why_p)
{
    fry_request *request = &self->request;
    fry_plan_post *post = begin_post(self->plan, self->picks != NULL);
    if (post == NULL) {
        *why_p = FRY_REFUSED_NO_MEMORY;
        return NULL;
    }
    fry_refusal why = note_picks(post, self->picks, self->pick_count);
    if (why != FRY_TAKEN)
        why = fry_refuse(request->engine, why);
    fry_node *own = why == FRY_TAKEN ? fry_request_node(request, FERRY_OP_PLAN, &why) : NULL;
    if (own != NULL)
        why = fill(self, own, post);
    *why_p = why;
    if (why == FRY_TAKEN)
        return own;
    if (own != NULL) {
        fry_node_discard(request->engine, request->context, own);
    } else { /* as its node would */
        fry_node none = {.op.plan.post = post};
        give_back(request->engine, request->context, &none);
    }
    return NULL;
}

/* A post of all that is one command: launch.c. */
static fry_node *make_launch(posting *self, fry_refusal *why_p)
{
    fry_node *own = fry_plan_launch_node(&self->request, self->plan, why_p);
    if (own == NULL)
        return NULL;
    *why_p = add_accesses(self, own);
    if (*why_p == FRY_TAKEN)
        return own;
    fry_node_discard(self->request.engine, self->request.context, own);
    return NULL;
}

/* ---- copies that leave nothing ---- */

static bool may_do_at_once(const posting *self)
{
    const ferry_op_options *options = &self->request.options;
    return self->picks == NULL && self->plan->is_inline && options->after_count == 0 &&
           options->access_count == 0 && options->deadline_ns == 0 && options->queue == NULL &&
           options->scope == NULL && options->user_data == 0 &&
           fry_load_relaxed(&self->request.engine->tracing) == 0;
}

static bool are_idle(const posting *self)
{
    for (size_t i = 0; i < self->plan->buffer_count && !self->is_untracked; i++) {
        if (!fry_buffer_is_idle(self->plan->buffers[i]))
            return false;
    }
    return true;
}

/* In the order of the array, which is one of those that the spans allow. NULL: not at once. */
static ferry_future *copy_at_once(const posting *self)
{
    ferry_engine *engine = self->request.engine;
    const ferry_plan *plan = self->plan;
    ferry_future *future = NULL;
    fry_turn turn;
    if (!fry_turn_begin(&turn, engine, self->request.context, false))
        return NULL;
    fry_node *slot = NULL;
    if (fry_turn_is_next(&turn) && !engine->stop_graph && are_idle(self))
        slot = fry_pool_take(&engine->nodes, &turn.context->nodes);
    if (slot != NULL) {
        for (uint32_t i = 0; i < plan->joined_count; i++)
            copy_here(&turn, &plan->joined[i]);
        future = fry_node_init_done(&turn, slot, FERRY_OP_PLAN);
    }
    (void)fry_turn_end(&turn, engine->submit_budget);
    return future;
}

ferry_future *ferry_plan_post(ferry_plan *plan, const uint32_t *picks, size_t pick_count,
                              const ferry_op_options *options)
{
    if (plan == NULL)
        return fry_refusal_future(NULL, FRY_REFUSED_PLAN_NULL);
    ferry_engine *engine = plan->engine;
    posting self = {.plan = plan, .picks = picks, .pick_count = pick_count};
    fry_refusal why = fry_request_open(&self.request, engine, options);
    if (why == FRY_TAKEN) {
        self.is_untracked = (self.request.options.flags & FERRY_OP_UNTRACKED) != 0;
        why = check(&self);
        if (why != FRY_TAKEN && !fry_refusal_is_want(why))
            why = fry_refuse(engine, why);
    }
    if (why == FRY_TAKEN && may_do_at_once(&self)) {
        ferry_future *future = copy_at_once(&self);
        if (future != NULL) {
            fry_late_call_ends(engine);
            return future;
        }
    }
    bool is_launch = picks == NULL && plan->graph != NULL;
    fry_node *own = NULL;
    if (why == FRY_TAKEN)
        own = is_launch ? make_launch(&self, &why) : make(&self, &why);
    if (own == NULL)
        return refuse(&self, why);
    if (self.access_count > FRY_HOLDING_STEPS)
        fry_graph_share(own);
    return fry_request_submit(&self.request, own);
}
