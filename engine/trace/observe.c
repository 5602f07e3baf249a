/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers of the threads' rings: the loop for the user's hooks, any thread for the flight recorder.
 */
#include "engine/trace/observe.h"

#include "base/options.h"
#include "engine/engine.h"
#include "engine/ground/context.h"
#include "engine/ground/ground.h"
#include "engine/ground/ring.h"

#include <stdlib.h>

#define DUMP_RECORDS 32

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
        status = fry_ring_add(engine, context, FRY_SINK_HOOKS);
        if (status != FERRY_OK)
            goto out;
        context->ring_cursor = fry_load_acquire(&fry_load_acquire(&context->ring)->head);
    }
    engine->hooks = hooks != NULL ? *hooks : (ferry_trace_hooks){0};
    fry_store_release(&engine->has_hooks, hooks != NULL);
    fry_sink_set(engine, FRY_SINK_HOOKS, hooks != NULL);
out:
    (void)pthread_mutex_unlock(&engine->cold);
    fry_fence(); /* pairs with the fence in fry_arm: a sleeping loop has to learn of the hooks */
    fry_wake(engine);
    return status;
}

#define HOOK_BATCH 64

/*
 * Reads what the ring has by now and no more, because hooks that submit make records. Hooks run
 * without the lock, so they may call ferry. False: there is more, or may be.
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
        uint64_t cursor = context->ring_cursor; /* read under the lock, because new hooks set it */
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

bool fry_observe_is_due(ferry_engine *engine)
{
    if (fry_likely(fry_load_relaxed(&engine->has_hooks) == 0))
        return false;
    bool is_due = false;
    (void)pthread_mutex_lock(&engine->cold);
    for (const fry_context *context = engine->contexts;
         engine->hooks.record != NULL && context != NULL && !is_due; context = context->next) {
        const fry_trace_ring *ring = fry_load_acquire(&context->ring);
        is_due = ring != NULL && fry_load_acquire(&ring->head) != context->ring_cursor;
    }
    (void)pthread_mutex_unlock(&engine->cold);
    return is_due;
}

bool fry_observe_pump(ferry_engine *engine)
{
    bool is_all = true;
    fry_callback_frame frame;
    fry_callbacks_begin(&frame, engine);
    (void)pthread_mutex_lock(&engine->cold);
    fry_context *context = engine->contexts; /* new ones are added in front, none is removed */
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

/* How many records of a ring the flight recorder shows: other sinks may need a larger ring. */
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
                                   size_t record_size_bytes, size_t capacity)
{
    if (fry_engine_check(engine) != FERRY_OK || records == NULL || engine->flight_records == 0 ||
        record_size_bytes < sizeof records->when_ns || record_size_bytes > FRY_OPTIONS_BYTES_MAX)
        return 0;
    size_t count, room;
    ferry_trace_record *all = gather(engine, &count, &room);
    if (all == NULL)
        return 0;
    size_t skip = count > capacity ? count - capacity : 0;
    size_t copied_bytes = record_size_bytes < sizeof *all ? record_size_bytes : sizeof *all;
    char *to = (char *)records;
    for (size_t i = skip; i < count; i++, to += record_size_bytes) {
        memset(to, 0, record_size_bytes);
        memcpy(to, &all[i], copied_bytes);
    }
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
