/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying the graph by slices.
 *
 * With the baton: the cursor stands at the next operation to copy (dump_node), and at its next edge
 * (dump_edge) if it has more edges than one hold may look at. The lists are in the order in which
 * operations entered, and only grow at their end. An operation that leaves moves the cursor to the
 * next (fry_live_remove). So each operation that stays is copied once. What enters during the dump
 * comes later in the list, and ends the dump.
 *
 * One dump at a time owns the cursors: that of the thread which has taken engine->dumping.
 */
#include "engine/observe/dump.h"

#include "engine/engine.h"
#include "engine/graph/batch_count.h"
#include "engine/graph/buffer.h"
#include "engine/graph/join.h"
#include "engine/graph/lane.h"
#include "engine/graph/node.h"
#include "engine/graph/scope.h"
#include "engine/graph/segment.h"
#include "engine/graph/turn.h"
#include "engine/ground/context.h"
#include "engine/ground/ground.h"
#include "engine/observe/dump_text.h"
#include "engine/tasks/task_pool.h"

#include <sched.h>
#include <time.h>

/* A thread that waits for the baton first looks, then gives up its core, then sleeps. */
#define LOOKS 64
#define YIELDS 256
#define NAP_NS 50000

_Static_assert(sizeof(fry_dump) <= (size_t)104 << 10, "dump.h says about 100 KiB");

/*
 * Each holder of the baton does a bounded share of work and gives it back, so this ends. But the
 * holder may have lost its core, and then looking is of no use.
 */
static void turn_begin(fry_dump *dump, fry_turn *turn)
{
    for (uint32_t tries = 0; !fry_turn_begin(turn, dump->engine, dump->context, false); tries++) {
        if (tries < LOOKS) {
            for (int i = 0; i < 16; i++)
                fry_pause();
        } else if (tries < LOOKS + YIELDS) {
            (void)sched_yield();
        } else {
            struct timespec nap = {.tv_nsec = NAP_NS};
            (void)nanosleep(&nap, NULL);
        }
    }
}

/* Does the work that came during the hold, as after a submit. */
static void turn_end(fry_turn *turn)
{
    (void)fry_turn_end(turn, turn->engine->submit_budget);
}

/* ---- one operation ---- */

/* The reason in most kinds. */
static fry_dump_reason usual_reason(const fry_op_kind *kind, const fry_node *node)
{
    fry_dump_reason of_edges = fry_node_holding(node) != 0 ? FRY_DUMP_OPERATIONS : FRY_DUMP_LOOP;
    switch ((fry_node_state)node->state) {
    case FRY_NODE_WAITING:
    case FRY_NODE_QUIET:
        return of_edges;
    case FRY_NODE_ISSUED:
        if ((kind->traits & FRY_KIND_ON_STREAM) != 0 && (node->flags & FRY_NODE_FIRED) == 0)
            return FRY_DUMP_DEVICE;
        return node->unconfirmed != 0 ? FRY_DUMP_OPERATIONS : FRY_DUMP_LOOP;
    case FRY_NODE_RESOLVED:
        return (kind->traits & FRY_KIND_OF_OTHERS) != 0 ? FRY_DUMP_OPERATIONS : FRY_DUMP_DEVICE;
    case FRY_NODE_NEW:
    case FRY_NODE_READY:
        break;
    }
    return FRY_DUMP_LOOP;
}

static void view_of(const ferry_engine *engine, const fry_node *node, fry_kind_view *view)
{
    const fry_op_kind *kind = fry_kind(engine, node);
    bool has_lane = (kind->traits & FRY_KIND_ON_STREAM) != 0 && node->op.stand.lane != NULL;
    *view = (fry_kind_view){
        .reason = usual_reason(kind, node),
        .device = has_lane ? node->op.stand.lane->stream->device : NULL,
    };
    if (kind->describe != NULL)
        kind->describe(engine, node, view);
    if (fry_node_waits_for_rate(node))
        view->reason = FRY_DUMP_RATE;
}

static void describe(const fry_dump *dump, const fry_node *node, int64_t now_ns,
                     fry_dump_node *record)
{
    bool is_resolved = fry_future_is_resolved(&node->future);
    fry_kind_view view;
    view_of(dump->engine, node, &view);
    *record = (fry_dump_node){
        .id = node->future.id,
        .age_ns = node->entered_ns != 0 ? now_ns - node->entered_ns : 0,
        .status = is_resolved ? fry_future_status(&node->future) : FERRY_PENDING,
        .device = view.device != NULL ? view.device->index : FRY_DUMP_NO_DEVICE,
        .lane = view.shown_stream != NULL ? view.shown_stream->index : FRY_DUMP_NO_DEVICE,
        .kind = fry_node_shown_kind(node),
        .priority = (int8_t)fry_node_priority(node),
        .state = node->state,
        .reason = (uint8_t)view.reason,
        .is_message = view.is_message,
        .has_size = view.has_size,
        .size_bytes = view.size_bytes,
        .tag = view.tag,
        .rank = view.rank,
        .more = view.more,
        .has_deadline = (node->flags & FRY_NODE_HAS_DEADLINE) != 0,
        .is_failing = (node->flags & FRY_NODE_FAILING) != 0,
        .is_cancel_requested = fry_load_relaxed(&node->requested) != 0,
        .has_fired = (node->flags & FRY_NODE_FIRED) != 0,
        .is_refused_write = (node->flags & FRY_NODE_RESERVE) != 0 && node->kind != FRY_OP_STAGE &&
                            node->kind != FRY_OP_LOT,
        .is_untracked = node->is_untracked,
    };
    record->user_data = fry_node_user_data(node);
    record->batch = node->batch != NULL ? node->batch->future.id : 0;
    if (record->has_deadline)
        record->deadline_in_ns = node->deadline.when_ns - fry_clock_now_ns(&dump->engine->clock);
    if (node->state == FRY_NODE_READY && record->has_deadline && record->deadline_in_ns <= 0)
        record->reason = FRY_DUMP_LOOP; /* the loop will fail it */
    if (node->state < FRY_NODE_QUIET)   /* the label may be gone later */
        record->has_label = fry_label_copy(record->label, fry_node_label(node));
    if (view.before != 0)
        record->waits[record->wait_count++] =
            (fry_dump_wait){.op = view.before, .nature = FRY_DUMP_BEFORE};
}

/* Copies edges from *edge_p on. False: there are more than *left_p. */
static bool copy_waits(fry_dump_node *record, const fry_edge **edge_p, size_t *left_p)
{
    const fry_edge *edge = *edge_p;
    for (; edge != NULL && *left_p != 0; edge = edge->sibling, (*left_p)--) {
        if (edge->state == FRY_EDGE_LOOSE)
            continue;                                     /* its predecessor may be gone */
        bool is_counted = record->kind == FERRY_OP_BATCH; /* counted in `more` already */
        const fry_node *from = edge->from;
        if (fry_node_is_join(from)) {
            record->more += fry_join_pending(from) - 1;
            from = fry_join_member(from);
        }
        if (record->wait_count == FRY_DUMP_WAITS || from == NULL) {
            record->more += !is_counted;
            continue;
        }
        record->more -= is_counted;
        record->waits[record->wait_count++] =
            (fry_dump_wait){.op = from->future.id,
                            .nature = edge->nature,
                            .is_on_device = edge->state == FRY_EDGE_ON_DEVICE};
    }
    *edge_p = edge;
    return edge == NULL;
}

/* ---- slices ---- */

/*
 * With the baton: fills the slice from the cursor on. Returns how many operations are whole; if
 * is_partial, an incomplete one follows them.
 */
static size_t copy_nodes(fry_dump *dump, size_t capacity)
{
    ferry_engine *engine = dump->engine;
    int64_t now_ns = fry_clock_coarse_ns(&engine->clock);
    now_ns = now_ns > dump->start_ns ? now_ns : dump->start_ns;
    size_t count = 0, edges_left = FRY_DUMP_EDGES;
    if (dump->is_partial && engine->dump_edge == NULL) {
        dump->is_partial = false; /* it left the graph: its copy is as whole as it can be */
        count++;
    }
    while (count < capacity && engine->dump_node != NULL && edges_left != 0) {
        const fry_node *node = engine->dump_node;
        const fry_edge *edge = engine->dump_edge;
        if (!dump->is_partial) {
            if (node->entered_ns > dump->start_ns)
                engine->dump_node = NULL;
            if (engine->dump_node == NULL || dump->left == 0)
                break;
            dump->left--;
            describe(dump, node, now_ns, &dump->slice.nodes[count]);
            edge = node->edges;
        }
        dump->is_partial = !copy_waits(&dump->slice.nodes[count], &edge, &edges_left);
        engine->dump_edge = edge;
        if (dump->is_partial)
            break;
        count++;
        engine->dump_node = TAILQ_NEXT(node, live);
    }
    return count;
}

static void count_shown(fry_dump *dump, const fry_dump_node *node, bool is_promise)
{
    if (is_promise) {
        dump->totals.promises++;
        return;
    }
    dump->totals.nodes++;
    dump->totals.states[node->state]++;
    if (node->state == FRY_NODE_RESOLVED && dump->not_quiet_count < FRY_DUMP_NOT_QUIET)
        dump->not_quiet[dump->not_quiet_count++] = node->id;
    if (node->state == FRY_NODE_READY && node->lane < dump->lane_count)
        dump->lanes[node->lane].backlog++;
}

static void print_nodes(fry_dump *dump, const fry_dump_form *form, bool are_promises)
{
    ferry_engine *engine = dump->engine;
    bool is_first = true, is_over = false;
    for (bool has_begun_list = false; !is_over; has_begun_list = true) {
        fry_turn turn;
        turn_begin(dump, &turn);
        if (!has_begun_list)
            engine->dump_node = TAILQ_FIRST(are_promises ? &engine->promises : &engine->live);
        size_t count = copy_nodes(dump, FRY_DUMP_SLICE);
        is_over = engine->dump_node == NULL || (dump->left == 0 && !dump->is_partial);
        dump->totals.is_cut |= is_over && engine->dump_node != NULL;
        if (is_over)
            engine->dump_node = NULL;
        turn_end(&turn);
        for (size_t i = 0; i < count; i++) {
            count_shown(dump, &dump->slice.nodes[i], are_promises);
            form->node(dump, &dump->slice.nodes[i], is_first);
            is_first = false;
        }
        if (dump->is_partial)
            dump->slice.nodes[0] = dump->slice.nodes[count];
    }
}

static void copy_poison(const ferry_buffer *buffer, size_t begin, size_t end,
                        const fry_error *error, fry_dump_poison *poison)
{
    *poison = (fry_dump_poison){.buffer = (uintptr_t)buffer->data,
                                .begin = begin,
                                .end = end,
                                .op = error->public_.op,
                                .status = error->public_.status,
                                .device = buffer->device->device->index};
    poison->has_label = fry_label_copy(poison->label, error->public_.label);
}

/* Copies poison from the cursor on, and moves the cursor. Baton. */
static size_t copy_poisons(ferry_engine *engine, fry_dump_poison *poisons, size_t capacity)
{
    size_t count = 0, looks = FRY_DUMP_SEGMENTS;
    while (engine->dump_buffer != NULL && count < capacity && looks != 0) {
        ferry_buffer *buffer = engine->dump_buffer;
        const fry_segment *segment = fry_spans_from(&buffer->poisons, engine->dump_offset);
        looks--;
        if (segment != NULL) {
            copy_poison(buffer, segment->begin, segment->end, segment->poison, &poisons[count++]);
            engine->dump_offset = segment->end;
            continue;
        }
        if (buffer->wide_poison != NULL) {
            copy_poison(buffer, 0, buffer->size_bytes, buffer->wide_poison, &poisons[count]);
            poisons[count++].is_wide = true;
        }
        engine->dump_buffer = LIST_NEXT(buffer, poisoned);
        engine->dump_offset = 0;
    }
    return count;
}

static void print_poisons(fry_dump *dump, const fry_dump_form *form)
{
    ferry_engine *engine = dump->engine;
    uint64_t shown = 0;
    bool is_first = true, is_over = false;
    for (bool has_begun_list = false; !is_over; has_begun_list = true) {
        fry_turn turn;
        turn_begin(dump, &turn);
        if (!has_begun_list) {
            engine->dump_buffer = LIST_FIRST(&engine->poisoned);
            engine->dump_offset = 0;
        }
        size_t count = copy_poisons(engine, dump->slice.poisons, FRY_DUMP_SLICE);
        shown += count;
        is_over = engine->dump_buffer == NULL || shown >= dump->poison_limit;
        dump->totals.is_cut |= engine->dump_buffer != NULL && is_over;
        engine->dump_buffer = is_over ? NULL : engine->dump_buffer;
        turn_end(&turn);
        for (size_t i = 0; i < count; i++) {
            form->poison(dump, &dump->slice.poisons[i], is_first);
            is_first = false;
        }
    }
}

/* ---- the engine ---- */

static uint32_t count_new(const fry_link *link, uint32_t *looks_p)
{
    uint32_t count = 0;
    for (; link != NULL && *looks_p != 0; link = link->next, (*looks_p)--)
        count += FRY_CONTAINER(link, const fry_node, link)->state == FRY_NODE_NEW;
    return count;
}

/*
 * Lets what was submitted before the dump enter: the last holder of the baton may have left it.
 * What enters from now on need not be shown.
 */
static void let_enter(fry_dump *dump)
{
    fry_turn turn;
    turn_begin(dump, &turn);
    turn_end(&turn);
    dump->start_ns = fry_clock_now_ns(&dump->engine->clock);
}

static void copy_facts(fry_dump *dump)
{
    ferry_engine *engine = dump->engine;
    fry_turn turn;
    turn_begin(dump, &turn);
    uint32_t looks = FRY_DUMP_ENTERING;
    uint32_t entering = count_new(engine->backlog.first, &looks);
    /* Others only push on top: what is below the top belongs to the baton's holder. */
    entering += count_new(fry_load_acquire(&engine->inbox.top), &looks);
    dump->facts = (fry_dump_facts){.is_closing = fry_load_relaxed(&engine->closing) != 0,
                                   .is_stopped = fry_load_relaxed(&engine->asleep) == FRY_STOPPED,
                                   .is_starved = engine->starved,
                                   .entering = entering};
    turn_end(&turn);
    dump->facts.tasks_posted = fry_tasks_posted(&engine->tasks, NULL, NULL);
    dump->facts.tasks_misrun = fry_tasks_misrun(&engine->tasks);
}

static void copy_lane(const fry_lane *lane, fry_dump_lane *lanes)
{
    fry_stream *stream = lane->stream;
    fry_dump_lane *copy = &lanes[stream->index];
    ferry_status status;
    fry_fault fault;
    copy->device = stream->device->index;
    copy->stream = stream->index;
    copy->in_flight = lane->in_flight;
    copy->issued = fry_load_relaxed(&stream->issued);
    if (copy->issued != 0)
        copy->fired = stream->device->ops->fired(stream, &status, &fault);
    copy->is_shown = stream->kind == FRY_STREAM_MAIN || copy->issued != 0;
}

static void copy_lanes(fry_dump *dump)
{
    ferry_engine *engine = dump->engine;
    fry_turn turn;
    turn_begin(dump, &turn);
    for (uint32_t i = 0; i < dump->device_count; i++) {
        const ferry_device *device = &engine->devices[i];
        for (uint32_t j = 0; j < device->lane_count; j++)
            copy_lane(&device->lanes[j], dump->lanes);
    }
    turn_end(&turn);
}

static size_t dump_bytes(size_t lane_count)
{
    return sizeof(fry_dump) + lane_count * sizeof(fry_dump_lane);
}

fry_dump *fry_dump_open(ferry_engine *engine, fry_context *context, uint64_t promise_limit,
                        uint64_t node_limit)
{
    uint32_t device_count = fry_engine_device_count(engine);
    size_t lane_count = 0;
    for (uint32_t i = 0; i < device_count; i++)
        lane_count += engine->devices[i].lane_count;
    fry_dump *dump = fry_alloc_raw(&engine->memory, dump_bytes(lane_count), _Alignof(fry_dump));
    if (dump == NULL)
        return NULL;
    memset(dump, 0, __builtin_offsetof(fry_dump, slice));
    dump->lanes = (fry_dump_lane *)(void *)(dump + 1);
    dump->lane_count = lane_count;
    dump->device_count = device_count;
    memset(dump->lanes, 0, lane_count * sizeof *dump->lanes);
    dump->engine = engine;
    dump->context = context;
    /* Exact: so is the time of entering of some, and what looks later ends the dump. */
    dump->start_ns = fry_clock_now_ns(&engine->clock);
    dump->left = promise_limit;
    dump->node_limit = node_limit;
    dump->poison_limit = UINT64_MAX;
    return dump;
}

void fry_dump_close(fry_dump *dump)
{
    fry_free(&dump->engine->memory, dump, dump_bytes(dump->lane_count));
}

void fry_dump_print(fry_dump *dump, const fry_dump_form *form, ferry_write_fn write, void *arg)
{
    dump->text.write = write;
    dump->text.arg = arg;
    let_enter(dump);
    copy_facts(dump);
    form->begin(dump);
    form->promises_begin(dump);
    print_nodes(dump, form, true);
    dump->left = dump->node_limit;
    form->nodes_begin(dump);
    print_nodes(dump, form, false);
    copy_lanes(dump);
    form->lanes(dump);
    form->poisons_begin(dump);
    print_poisons(dump, form);
    form->end(dump);
    fry_text_flush(&dump->text);
}

size_t fry_dump_oldest(fry_dump *dump, bool are_promises, size_t capacity)
{
    ferry_engine *engine = dump->engine;
    fry_turn turn;
    turn_begin(dump, &turn);
    engine->dump_node = TAILQ_FIRST(are_promises ? &engine->promises : &engine->live);
    size_t count = copy_nodes(dump, capacity);
    count += dump->is_partial; /* some of its edges are enough */
    dump->is_partial = false;
    engine->dump_node = NULL;
    engine->dump_edge = NULL;
    turn_end(&turn);
    return count;
}
