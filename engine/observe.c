/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trace records and the flight recorder. Each thread writes a ring of its own (base/trace.h); the
 * loop reads them for the user's hooks, anybody for the flight recorder.
 */
#include "engine/graph.h"

#include <stdlib.h>

#define NONE 65535
#define DUMP_RECORDS 32
#define SINKS_THAT_READ (FRY_SINK_HOOKS | FRY_SINK_FILE)
#define SINKS_WITH_RINGS (FRY_SINK_FLIGHT | SINKS_THAT_READ)

/* The calling thread's ring; NULL: there was no memory for one. */
static fry_trace_ring *ring_of(fry_context *context)
{
    fry_trace_ring *ring = fry_load_acquire(&context->ring);
    fry_trace_ring *next = fry_load_acquire(&context->next_ring);
    if (fry_likely(next == NULL || next == ring))
        return ring;
    fry_trace_ring_continue(next, ring);
    fry_store_relaxed(&context->past_ring, ring);
    fry_store_release(&context->ring, next);
    return next;
}

/* Both moments are the baton's holder's. */
static void nvtx_emit(ferry_engine *engine, const fry_node *node, ferry_trace_what what)
{
    if (what == FERRY_TRACE_ISSUED)
        fry_nvtx_start(engine->nvtx, node->future.id,
                       node->label != NULL ? node->label
                                           : ferry_op_kind_name((ferry_op_kind)node->kind));
    else if (what == FERRY_TRACE_RESOLVED)
        fry_nvtx_end(engine->nvtx, node->future.id);
}

static void emit(ferry_engine *engine, const fry_node *node, ferry_trace_what what,
                 uint64_t waited_for, int64_t when_ns)
{
    uint32_t sinks = fry_load_relaxed(&engine->tracing);
    if (node->kind == FRY_OP_JOIN)
        return;
    if (fry_unlikely((sinks & FRY_SINK_NVTX) != 0))
        nvtx_emit(engine, node, what);
    if ((sinks & SINKS_WITH_RINGS) == 0)
        return;
    fry_context *context = fry_context_get(engine);
    fry_trace_ring *ring = context != NULL ? ring_of(context) : NULL;
    if (fry_unlikely(ring == NULL)) {
        (void)fry_fetch_add(&engine->unrecorded, 1);
        return;
    }
    bool has_lane =
        (node->kind == FERRY_OP_COPY || node->kind == FERRY_OP_EVENT) && node->lane != NULL;
    const fry_stream *stream = has_lane ? node->lane->stream : NULL;
    ferry_trace_record record = {
        .when_ns = when_ns,
        .op = node->future.id,
        .flow = fry_node_is_message(node) ? node->flow : node->future.id,
        .size_bytes = node->kind == FERRY_OP_COPY ? node->op.copy.size_bytes
                      : fry_node_is_message(node) ? node->op.message.size_bytes
                                                  : 0,
        .waited_for = waited_for,
        .label = node->label,
        .status = what == FERRY_TRACE_RESOLVED ? fry_future_status(&node->future) : FERRY_PENDING,
        .device = has_lane ? stream->device->index : NONE,
        .stream = has_lane ? stream->index : NONE,
        .what = (uint16_t)what,
        .kind = node->kind,
        .thread = context->number,
    };
    uint64_t position = fry_trace_ring_write(ring, &record);
    if ((sinks & FRY_SINK_FILE) != 0)
        fry_trace_writer_tell(position, ring->mask);
}

void fry_trace_emit(ferry_engine *engine, const fry_node *node, ferry_trace_what what,
                    uint64_t waited_for)
{
    emit(engine, node, what, waited_for, fry_clock_now_ns(&engine->clock));
}

void fry_trace_emit_begun(ferry_engine *engine, const fry_node *node, int64_t begun_ns)
{
    if (begun_ns != 0)
        emit(engine, node, FERRY_TRACE_BEGUN, 0, begun_ns);
}

void fry_engine_set_sink(ferry_engine *engine, fry_sink sink, bool is_on)
{
    uint32_t others = fry_load_relaxed(&engine->tracing) & ~(uint32_t)sink;
    fry_store_release(&engine->tracing, is_on ? others | (uint32_t)sink : others);
}

/*
 * A ring that only the flight recorder needed may be too small for a sink that reads behind the
 * recording thread. Its thread alone can leave it, so it is given the larger one to go on in.
 */
ferry_status fry_trace_ring_add(ferry_engine *engine, fry_context *context, uint32_t sinks)
{
    if ((sinks & SINKS_WITH_RINGS) == 0)
        return FERRY_OK;
    size_t records = engine->flight_records;
    if ((sinks & SINKS_THAT_READ) != 0 && records < engine->trace_records)
        records = engine->trace_records;
    const fry_trace_ring *largest = context->next_ring;
    if (largest == NULL)
        largest = fry_load_acquire(&context->ring);
    if (largest != NULL && largest->mask + 1 >= records)
        return FERRY_OK;
    fry_trace_ring *ring = fry_trace_ring_create(&engine->memory, records);
    if (ring == NULL)
        return FERRY_E_NO_MEMORY;
    fry_store_release(largest == NULL ? &context->ring : &context->next_ring, ring);
    return FERRY_OK;
}

void fry_trace_rings_free(fry_context *context)
{
    const fry_memory *memory = &context->engine->memory;
    if (context->next_ring != context->ring)
        fry_trace_ring_destroy(memory, context->next_ring);
    fry_trace_ring_destroy(memory, context->past_ring);
    fry_trace_ring_destroy(memory, context->ring);
}

ferry_status ferry_engine_trace(ferry_engine *engine, const ferry_trace_hooks *hooks)
{
    ferry_status status = fry_engine_check_open(engine);
    if (status != FERRY_OK)
        return status;
    if (hooks != NULL && (hooks->struct_size != sizeof *hooks || hooks->record == NULL))
        return FERRY_E_INVALID;
    (void)pthread_mutex_lock(&engine->cold);
    for (fry_context *context = engine->contexts; hooks != NULL && context != NULL;
         context = context->next) {
        status = fry_trace_ring_add(engine, context, FRY_SINK_HOOKS);
        if (status != FERRY_OK)
            goto out;
        context->ring_cursor = fry_load_acquire(&fry_load_acquire(&context->ring)->head);
    }
    engine->hooks = hooks != NULL ? *hooks : (ferry_trace_hooks){0};
    fry_store_release(&engine->has_hooks, hooks != NULL);
    fry_engine_set_sink(engine, FRY_SINK_HOOKS, hooks != NULL);
out:
    (void)pthread_mutex_unlock(&engine->cold);
    return status;
}

#define HOOK_BATCH 64

/*
 * What the ring has by now, and no more: hooks that submit make records. They run without the lock,
 * so that they may call ferry. False: there is more, or there may be.
 */
static bool pump_ring(ferry_engine *engine, fry_context *context)
{
    ferry_trace_record records[HOOK_BATCH];
    const fry_trace_ring *first = fry_load_acquire(&context->ring);
    uint64_t end = first != NULL ? fry_load_acquire(&first->head) : 0;
    size_t batch = engine->give_up_ns == FRY_NEVER_NS ? HOOK_BATCH : 1;
    for (;;) {
        uint64_t lost = 0;
        (void)pthread_mutex_lock(&engine->cold);
        ferry_trace_hooks hooks = engine->hooks;
        const fry_trace_ring *ring = fry_load_acquire(&context->ring);
        size_t count = ring != NULL && hooks.record != NULL
                           ? fry_trace_ring_read(ring, &context->ring_cursor, records, batch, &lost)
                           : 0;
        uint64_t cursor = context->ring_cursor; /* under the lock: new hooks set it */
        (void)pthread_mutex_unlock(&engine->cold);
        if (lost != 0 && hooks.lost != NULL)
            hooks.lost(hooks.arg, lost);
        for (size_t i = 0; i < count; i++)
            hooks.record(hooks.arg, &records[i]);
        if (count < batch)
            return true;
        if (cursor >= end || fry_gives_up(engine))
            return false;
    }
}

bool fry_trace_pump(ferry_engine *engine)
{
    bool is_all = true;
    fry_callback_frame frame;
    fry_callbacks_begin(&frame, engine);
    (void)pthread_mutex_lock(&engine->cold);
    fry_context *context = engine->contexts; /* new ones are put in front, none is taken out */
    (void)pthread_mutex_unlock(&engine->cold);
    for (; context != NULL && (is_all || !fry_gives_up(engine)); context = context->next)
        is_all = pump_ring(engine, context) && is_all;
    fry_callbacks_end(&frame);
    return is_all;
}

static int compare_when(const void *left, const void *right)
{
    int64_t left_ns = ((const ferry_trace_record *)left)->when_ns;
    int64_t right_ns = ((const ferry_trace_record *)right)->when_ns;
    return left_ns < right_ns ? -1 : left_ns > right_ns;
}

/* How many records of a ring are the flight recorder's: other sinks may need a larger one. */
static size_t flight_room(const ferry_engine *engine, const fry_trace_ring *ring)
{
    return ring != NULL ? fry_trace_ring_slots(engine->flight_records) : 0;
}

/* All rings' records, sorted by time; NULL if there are none or no memory. */
static ferry_trace_record *gather(ferry_engine *engine, size_t *count_p, size_t *room_p)
{
    size_t room = 0, count = 0;
    (void)pthread_mutex_lock(&engine->cold);
    for (fry_context *context = engine->contexts; context != NULL; context = context->next)
        room += flight_room(engine, fry_load_acquire(&context->ring));
    ferry_trace_record *all =
        fry_alloc_raw(&engine->memory, room * sizeof *all, _Alignof(ferry_trace_record));
    for (fry_context *context = engine->contexts; all != NULL && context != NULL;
         context = context->next) {
        const fry_trace_ring *ring = fry_load_acquire(&context->ring);
        size_t newest = flight_room(engine, ring);
        if (ring == NULL)
            continue;
        uint64_t head = fry_load_acquire(&ring->head), lost = 0;
        uint64_t cursor = head > newest ? head - newest : 0;
        count += fry_trace_ring_read(ring, &cursor, all + count, newest, &lost);
    }
    (void)pthread_mutex_unlock(&engine->cold);
    if (all != NULL)
        qsort(all, count, sizeof *all, compare_when);
    *count_p = count;
    *room_p = room;
    return all;
}

size_t ferry_engine_flight_records(ferry_engine *engine, ferry_trace_record *records,
                                   size_t capacity)
{
    if (fry_engine_check(engine) != FERRY_OK || records == NULL || engine->flight_records == 0)
        return 0;
    size_t count, room;
    ferry_trace_record *all = gather(engine, &count, &room);
    if (all == NULL)
        return 0;
    size_t skip = count > capacity ? count - capacity : 0;
    memcpy(records, all + skip, (count - skip) * sizeof *all);
    fry_free(&engine->memory, all, room * sizeof *all);
    return count - skip;
}

void fry_flight_dump(ferry_engine *engine)
{
    uint64_t op = engine->flight_due;
    engine->flight_due = 0;
    size_t count, room;
    ferry_trace_record *all = gather(engine, &count, &room);
    if (all == NULL)
        return;
    size_t skip = count > DUMP_RECORDS ? count - DUMP_RECORDS : 0;
    fry_log_line(&engine->log, FERRY_LOG_WARNING,
                 "flight recorder, last %zu records before op %llu failed:", count - skip,
                 (unsigned long long)op);
    for (const ferry_trace_record *record = all + skip; record != all + count; record++)
        fry_log_line(&engine->log, FERRY_LOG_WARNING,
                     "  %lld ns op %llu %s %s%s%s, %llu bytes, status %s, thread %u",
                     (long long)record->when_ns, (unsigned long long)record->op,
                     ferry_op_kind_name((ferry_op_kind)record->kind),
                     ferry_trace_what_name((ferry_trace_what)record->what),
                     record->label != NULL ? " " : "", record->label != NULL ? record->label : "",
                     (unsigned long long)record->size_bytes,
                     ferry_status_name((ferry_status)record->status), record->thread);
    fry_free(&engine->memory, all, room * sizeof *all);
}
