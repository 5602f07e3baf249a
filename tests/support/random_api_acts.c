/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/random_api.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 3 /* callbacks within callbacks: after a shutdown they run in the calls */

/* Whether a future was refused at once: a tally of its own. */
bool api_keep(api_actor *actor, ferry_future *future)
{
    API_CHECK(future != NULL);
    bool is_refused = ferry_future_id(future) == 0 && ferry_future_poll(future) < 0;
    api_hold(actor, (api_held){.future = future});
    return !is_refused;
}

static ferry_span random_span(api_actor *actor, ferry_buffer *buffer)
{
    size_t size = ferry_buffer_size_bytes(buffer);
    size_t begin = api_below(&actor->random, (uint32_t)size);
    size_t left = size - begin;
    size_t length = api_one_in(&actor->random, 4) ? left : api_below(&actor->random, 256);
    return (ferry_span){buffer, begin, length < left ? length : left};
}

ferry_op_options api_options(api_actor *actor, api_room *room)
{
    api_random *random = &actor->random;
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = room->after;
    for (uint32_t i = api_below(random, 4); i != 0; i--) {
        api_held *held = api_some_held(actor);
        if (held != NULL)
            room->after[options.after_count++] = held->future;
    }
    options.accesses = room->accesses;
    for (uint32_t i = api_one_in(random, 2) ? 0 : api_below(random, 4); i != 0; i--) {
        ferry_buffer *buffer = api_buffer(actor);
        if (buffer != NULL)
            room->accesses[options.access_count++] = (ferry_access){
                random_span(actor, buffer), (ferry_access_mode)(1 + api_below(random, 3))};
    }
    switch (api_below(random, 12)) {
    case 0:
        options.deadline_ns = 1;
        break;
    case 1:
        options.deadline_ns =
            ferry_engine_deadline_in(actor->world->engine, api_below(random, 200000));
        break;
    case 2:
        options.deadline_ns = api_in_ns(3600 * (int64_t)1000000000);
        break;
    default:
        break;
    }
    options.priority = (ferry_priority)((int)api_below(random, 3) - 1);
    options.label = api_one_in(random, 2) ? "random" : NULL;
    if (api_one_in(random, 4)) {
        (void)snprintf(room->label, sizeof room->label, "copied %u",
                       (unsigned)api_below(random, 64));
        options.label = room->label;
        options.flags = FERRY_OP_LABEL_COPIED;
    }
    options.user_data = api_one_in(random, 2) ? api_below(random, 1000) : 0;
    options.queue = api_one_in(random, 3) ? actor->world->queue : NULL;
    options.scope = api_scope(actor);
    return options;
}

/* ---- operations ---- */

static bool act_copy(api_actor *actor)
{
    ferry_buffer *to = api_buffer(actor), *from = api_buffer(actor);
    if (to == NULL || from == NULL)
        return false;
    api_room room;
    ferry_op_options options = api_options(actor, &room);
    ferry_span dst = random_span(actor, to), src = random_span(actor, from);
    dst.size_bytes = src.size_bytes =
        dst.size_bytes < src.size_bytes ? dst.size_bytes : src.size_bytes;
    return api_keep(actor, ferry_copy(actor->world->engine, dst, src, &options));
}

static bool act_rows(api_actor *actor)
{
    ferry_buffer *to = api_buffer(actor), *from = api_buffer(actor);
    if (to == NULL || from == NULL)
        return false;
    api_room room;
    ferry_op_options options = api_options(actor, &room);
    size_t row = 1 + api_below(&actor->random, 16), pitch = row + api_below(&actor->random, 32);
    ferry_span dst = {to, api_below(&actor->random, 512), row};
    ferry_span src = {from, 4096 + api_below(&actor->random, 512), row};
    return api_keep(actor, ferry_copy_rows(actor->world->engine, dst, pitch, src, row + pitch,
                                           api_below(&actor->random, 40), &options));
}

static bool act_call(api_actor *actor)
{
    api_record *record = api_record_take(actor->world, &actor->random);
    if (record == NULL)
        return false;
    api_room room;
    ferry_op_options options = api_options(actor, &room);
    record->result = api_one_in(&actor->random, 6) ? FERRY_E_FAILED : FERRY_OK;
    ferry_future *future =
        ferry_call(actor->world->engine, api_executor(actor), api_called, record, &options);
    api_hold(actor, (api_held){.future = future, .calls = record});
    return true;
}

static bool act_nop(api_actor *actor)
{
    api_room room;
    ferry_op_options options = api_options(actor, &room);
    if (api_one_in(&actor->random, 4)) /* of what really touches bytes, order is the caller's */
        options.flags |= FERRY_OP_UNTRACKED;
    return api_keep(
        actor, ferry_nop(actor->world->engine, api_one_in(&actor->random, 8) ? NULL : &options));
}

static ferry_op random_op(api_actor *actor, api_room *room, ferry_op_options *options,
                          api_record **calls)
{
    *options = api_options(actor, room);
    ferry_op op = {.kind = FERRY_OP_NOP, .options = options};
    ferry_buffer *to = api_buffer(actor), *from = api_buffer(actor);
    if (api_one_in(&actor->random, 2) && to != NULL && from != NULL) {
        op.kind = FERRY_OP_COPY;
        op.dst = (ferry_span){to, 8 * (size_t)api_below(&actor->random, 64), 8};
        op.src = (ferry_span){from, 4096 + 8 * (size_t)api_below(&actor->random, 64), 8};
    } else if (api_one_in(&actor->random, 2)) {
        api_record *record = api_record_take(actor->world, &actor->random);
        if (record != NULL) {
            bool ends_later = api_one_in(&actor->random, 3);
            op.kind = ends_later ? FERRY_OP_ASYNC : FERRY_OP_CALL;
            op.executor = api_executor(actor);
            op.fn = api_called;
            op.begin = api_begin;
            op.cancel = api_cancel;
            op.arg = record;
            record->result = FERRY_OK;
            record->sibling = *calls;
            *calls = record;
        }
    }
    return op;
}

static bool act_batch(api_actor *actor)
{
    enum { OPS_MAX = 8 };
    ferry_op ops[OPS_MAX];
    api_room rooms[OPS_MAX + 1];
    ferry_op_options options[OPS_MAX + 1];
    ferry_future *each[OPS_MAX];
    api_record *calls = NULL;
    uint32_t count = api_below(&actor->random, OPS_MAX + 1);
    for (uint32_t i = 0; i < count; i++)
        ops[i] = random_op(actor, &rooms[i], &options[i], &calls);
    options[count] = api_options(actor, &rooms[count]);
    options[count].access_count = 0;
    bool has_each = api_one_in(&actor->random, 2);
    ferry_future *batch = ferry_batch(actor->world->engine, count != 0 ? ops : NULL, sizeof ops[0],
                                      count, has_each ? each : NULL, &options[count]);
    for (uint32_t i = 0; has_each && i < count; i++)
        (void)api_keep(actor, each[i]);
    api_hold(actor, (api_held){.future = batch, .calls = calls});
    return true;
}

static bool act_combine(api_actor *actor)
{
    ferry_future *some[4];
    size_t count = 0;
    for (uint32_t i = api_below(&actor->random, 5); i != 0; i--) {
        api_held *held = api_some_held(actor);
        if (held != NULL)
            some[count++] = held->future;
    }
    ferry_engine *engine = actor->world->engine;
    return api_keep(actor, count != 0 && api_one_in(&actor->random, 2)
                               ? ferry_future_any(engine, some, count)
                               : ferry_future_all(engine, some, count));
}

static bool act_drain(api_actor *actor)
{
    return api_keep(actor, ferry_engine_drain(actor->world->engine));
}

static bool act_writable(api_actor *actor)
{
    ferry_future *future = ferry_engine_writable(actor->world->engine);
    api_hold(actor, (api_held){.future = future, .may_last = true});
    return true;
}

static bool act_event(api_actor *actor)
{
    ferry_device *device = actor->world->devices[0];
    int no_event;
    return api_keep(actor, api_one_in(&actor->random, 2)
                               ? ferry_event_record(device, NULL)
                               : ferry_event_wrap(device, &no_event, NULL));
}

static bool act_stream_wait(api_actor *actor)
{
    api_held *held = api_some_held(actor);
    if (held == NULL)
        return false;
    ferry_status status = ferry_future_stream_wait(held->future, actor->world->devices[0], NULL);
    API_CHECK(status <= FERRY_OK);
    return status == FERRY_OK;
}

/* ---- buffers ---- */

static void freed(void *arg, void *memory, size_t size_bytes)
{
    api_world *world = arg;
    memset(memory, 0, size_bytes);
    free(memory);
    atomic_fetch_add(&world->freed, 1);
}

/* NULL: no memory, or the shutdown has begun. */
static ferry_buffer *wrap(api_world *world, unsigned char first, size_t size_bytes, bool is_source)
{
    unsigned char *memory = malloc(size_bytes);
    API_CHECK(memory != NULL);
    for (size_t i = 0; i < size_bytes; i++)
        memory[i] = (unsigned char)(first + i);
    ferry_device *device = world->devices[first % 2];
    ferry_buffer_options options = FERRY_BUFFER_OPTIONS_INIT;
    options.source = memory;
    options.size_bytes = size_bytes;
    options.free_fn = freed;
    options.free_arg = world;
    ferry_buffer *buffer = NULL;
    ferry_error *error = NULL;
    ferry_status status =
        is_source ? ferry_buffer_create(device, &options, &buffer, &error)
                  : ferry_buffer_wrap(device, memory, size_bytes, freed, world, &buffer);
    API_CHECK((status == FERRY_OK) == (buffer != NULL));
    API_CHECK((error != NULL) == (is_source && status != FERRY_OK));
    ferry_error_release(error);
    if (buffer == NULL) {
        free(memory);
        return NULL;
    }
    atomic_fetch_add(&world->wrapped, 1);
    return buffer;
}

static void publish_buffer(api_actor *actor, ferry_buffer *buffer)
{
    ferry_buffer_release(
        atomic_exchange(&actor->world->buffers[api_below(&actor->random, API_BOARD)], buffer));
}

static bool act_buffer(api_actor *actor)
{
    api_world *world = actor->world;
    ferry_buffer *buffer = NULL;
    if (api_one_in(&actor->random, 2)) {
        ferry_device *device = world->devices[api_below(&actor->random, 2)];
        ferry_status status =
            api_one_in(&actor->random, 4)
                ? ferry_buffer_alloc_kind(device, API_BUFFER_BYTES,
                                          api_one_in(&actor->random, 2) ? FERRY_MEMORY_PINNED
                                                                        : FERRY_MEMORY_SHARED,
                                          &buffer)
                : ferry_buffer_alloc(device, API_BUFFER_BYTES, &buffer);
        API_CHECK((status == FERRY_OK) == (buffer != NULL));
    } else {
        buffer =
            wrap(world, (unsigned char)api_below(&actor->random, 256), API_BUFFER_BYTES, false);
    }
    if (buffer == NULL)
        return false;
    API_CHECK(ferry_buffer_size_bytes(buffer) == API_BUFFER_BYTES);
    API_CHECK(ferry_buffer_data(buffer) != NULL && ferry_buffer_device(buffer) != NULL);
    API_CHECK(ferry_buffer_engine(buffer) == ferry_device_engine(ferry_buffer_device(buffer)));
    api_room room;
    ferry_op_options options = api_options(actor, &room);
    ferry_buffer *from = api_buffer(actor);
    if (from != NULL) /* used, and let go with the copy under way */
        (void)api_keep(actor,
                       ferry_copy(world->engine, (ferry_span){buffer, 0, API_BUFFER_BYTES / 2},
                                  (ferry_span){from, 0, API_BUFFER_BYTES / 2}, &options));
    publish_buffer(actor, buffer);
    return true;
}

/* Nobody else knows the two buffers: what was copied is what must be there. */
static bool act_echo(api_actor *actor)
{
    enum { BYTES = 6000 };
    api_world *world = actor->world;
    unsigned char first = (unsigned char)api_below(&actor->random, 256);
    bool is_source = api_one_in(&actor->random, 2);
    ferry_buffer *from = wrap(world, first, BYTES, is_source), *to = wrap(world, 0, BYTES, false);
    bool is_done = false;
    if (from != NULL && to != NULL) {
        ferry_future *future =
            ferry_copy(world->engine, ferry_buffer_span(to), ferry_buffer_span(from), NULL);
        ferry_status status = ferry_future_wait(future, api_below(&actor->random, 500000));
        is_done = status == FERRY_OK;
        const unsigned char *bytes = ferry_buffer_data(to);
        for (size_t i = 0; is_done && i < BYTES; i++)
            API_CHECK(bytes[i] == (unsigned char)(first + i));
        api_hold(actor, (api_held){.future = future});
        future = ferry_copy(world->engine, ferry_span_slice(ferry_buffer_span(from), 0, 100),
                            ferry_span_slice(ferry_buffer_span(to), 100, 100), NULL);
        API_CHECK(!is_source || ferry_future_poll(future) < FERRY_OK);
        ferry_future_release(future);
    }
    ferry_buffer_release(ferry_buffer_retain(from));
    ferry_buffer_release(from);
    ferry_buffer_release(to);
    return is_done;
}

static bool act_define(api_actor *actor)
{
    ferry_buffer *buffer = api_buffer(actor);
    if (buffer == NULL)
        return false;
    api_held *held = api_some_held(actor);
    ferry_span span = random_span(actor, buffer);
    span.size_bytes += span.size_bytes == 0;
    ferry_status status = ferry_buffer_define(span, held != NULL ? held->future : NULL);
    API_CHECK(status <= FERRY_OK);
    return status == FERRY_OK;
}

static bool act_release_buffer(api_actor *actor)
{
    publish_buffer(actor, NULL);
    return true;
}

/* ---- futures ---- */

static bool act_cancel(api_actor *actor)
{
    api_held *held = api_some_held(actor);
    API_CHECK(held == NULL || ferry_future_cancel(held->future) == FERRY_OK);
    return held != NULL;
}

static bool act_wait(api_actor *actor)
{
    api_held *held = api_some_held(actor);
    if (held == NULL)
        return false;
    ferry_status status = ferry_future_wait(held->future, api_below(&actor->random, 100000));
    if (status == FERRY_OK)
        (void)api_check_held(held, true);
    return status == FERRY_OK;
}

static bool act_look_at_future(api_actor *actor)
{
    api_held *held = api_some_held(actor);
    if (held == NULL)
        return false;
    ferry_value value = FERRY_VALUE_INIT;
    ferry_status status = ferry_future_value(held->future, &value);
    API_CHECK(status == FERRY_OK || status == FERRY_E_NOT_FOUND);
    API_CHECK((value.data != NULL) == (status == FERRY_OK));
    API_CHECK(ferry_future_engine(held->future) == actor->world->engine);
    return api_check_held(held, false);
}

static bool act_quiet(api_actor *actor)
{
    api_held *held = api_some_held(actor);
    if (held == NULL)
        return false;
    api_hold(actor, (api_held){.future = ferry_future_quiet(held->future),
                               .quiet_of = held->calls,
                               .may_last = held->may_last});
    return true;
}

static bool act_issued(api_actor *actor)
{
    api_held *held = api_some_held(actor);
    if (held == NULL)
        return false;
    api_hold(actor,
             (api_held){.future = ferry_future_issued(held->future), .may_last = held->may_last});
    return true;
}

static bool act_publish(api_actor *actor)
{
    api_held *held = api_some_held(actor);
    uint32_t slot = api_below(&actor->random, API_BOARD);
    ferry_future *mine = held != NULL ? ferry_future_retain(held->future) : NULL;
    ferry_future *other = atomic_exchange(&actor->world->futures[slot], mine);
    if (other == NULL)
        return false;
    api_hold(actor, (api_held){.future = other, .may_last = true});
    return true;
}

static bool act_waiter(api_actor *actor)
{
    api_held *held = api_some_held(actor);
    api_record *record = held != NULL ? api_record_take(actor->world, &actor->random) : NULL;
    if (record == NULL)
        return false;
    record->again = api_one_in(&actor->random, 6) ? 1 : 0;
    bool is_again = record->again != 0; /* its callback's from now on */
    api_wait_for(record, held->future, api_executor(actor));
    if (!is_again) {
        uint32_t slot = api_below(&actor->random, API_BOARD);
        (void)atomic_exchange(&actor->world->waited[slot], record);
    }
    return true;
}

static bool act_remove_waiter(api_actor *actor)
{
    uint32_t slot = api_below(&actor->random, API_BOARD);
    api_record *record = atomic_exchange(&actor->world->waited[slot], NULL);
    if (record == NULL || !ferry_waiter_remove(&record->waiter))
        return false;
    atomic_fetch_add(&record->removed, 1);
    return true;
}

static bool act_run_task(api_actor *actor)
{
    return api_bag_run_one(&actor->world->bag, &actor->random);
}

/* ---- the engine ---- */

static void count_text(void *arg, const char *text, size_t size_bytes)
{
    API_CHECK(text != NULL);
    *(size_t *)arg += size_bytes;
}

static bool act_dump(api_actor *actor)
{
    size_t size = 0;
    ferry_status status = ferry_engine_dump(
        actor->world->engine, (ferry_dump_format)api_below(&actor->random, 2), count_text, &size);
    API_CHECK((status == FERRY_OK) == (size != 0));
    return status == FERRY_OK;
}

static void take_record(void *arg, const ferry_trace_record *record)
{
    (void)arg;
    API_CHECK(record->what >= FERRY_TRACE_SUBMITTED && record->what <= FERRY_TRACE_CANCEL);
}

static bool act_trace(api_actor *actor)
{
    ferry_trace_hooks hooks = {.struct_size = sizeof hooks, .record = take_record};
    return ferry_engine_trace(actor->world->engine,
                              api_one_in(&actor->random, 2) ? NULL : &hooks) == FERRY_OK;
}

static bool act_progress(api_actor *actor)
{
    api_world *world = actor->world;
    int64_t done = ferry_engine_progress(world->engine, api_below(&actor->random, 64));
    if (world->loop != FERRY_LOOP_EMBEDDED)
        API_CHECK(done == FERRY_E_INVALID || done == FERRY_E_DEADLOCK);
    else
        API_CHECK(done >= 0 || done == FERRY_E_BUSY || done == FERRY_E_DEADLOCK);
    return done >= 0;
}

/* As a loop that polls would; but not longer than a millisecond, as others' threads end. */
static bool act_arm(api_actor *actor)
{
    api_world *world = actor->world;
    ferry_status status = ferry_engine_arm(world->engine);
    if (world->loop != FERRY_LOOP_EMBEDDED) {
        API_CHECK(status == FERRY_E_INVALID || status == FERRY_E_DEADLOCK);
        return false;
    }
    API_CHECK(status == FERRY_OK || status == FERRY_E_BUSY || status == FERRY_E_DEADLOCK);
    int64_t timeout_ns = ferry_engine_timeout_ns(world->engine);
    API_CHECK(timeout_ns >= -1);
    if (status == FERRY_OK && !actor->is_callback) {
        struct pollfd descriptor = {.fd = ferry_engine_fd(world->engine), .events = POLLIN};
        API_CHECK(descriptor.fd >= 0 && poll(&descriptor, 1, timeout_ns == 0 ? 0 : 1) >= 0);
    }
    return status == FERRY_OK;
}

static bool act_shutdown(api_actor *actor)
{
    api_world *world = actor->world;
    if (!world->is_cut_short || !api_one_in(&actor->random, 8))
        return false;
    int64_t timeout_ns = actor->is_callback || api_one_in(&actor->random, 2)
                             ? 0
                             : (int64_t)api_below(&actor->random, 2000000);
    ferry_status status = ferry_engine_shutdown(world->engine, timeout_ns);
    API_CHECK(status == FERRY_OK || status == FERRY_E_DEADLINE || status == FERRY_E_BUSY ||
              status == FERRY_E_DEADLOCK);
    return status == FERRY_OK;
}

/* An engine beside, which its creator alone knows. */
static bool act_engine(api_actor *actor)
{
    ferry_allocator memory = failing_allocator_interface(&actor->world->memory);
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.loop = FERRY_LOOP_EMBEDDED;
    options.host_devices = options.host_workers = 1;
    options.allocator = &memory;
    ferry_engine *engine = NULL;
    ferry_error *error = NULL;
    ferry_status status = ferry_engine_create(&options, &engine, &error);
    API_CHECK((status == FERRY_OK) == (engine != NULL) && (engine != NULL) == (error == NULL));
    if (status != FERRY_OK) {
        API_CHECK(error->status == status);
        ferry_error_release(error);
        return false;
    }
    ferry_future *future = ferry_nop(engine, NULL);
    API_CHECK(ferry_future_wait(future, -1) != FERRY_PENDING);
    API_CHECK(ferry_engine_shutdown(engine, -1) == FERRY_OK);
    ferry_engine_release(engine);
    api_check_resolved(future);
    ferry_future_release(future);
    return true;
}

/* ---- the table ---- */

typedef struct act {
    const char *name;
    bool (*fn)(api_actor *actor);
    uint32_t weight;
    bool needs_engine; /* it names the engine or a device, which may go before other handles */
} act;

static const act acts[] = {
    {"copy", act_copy, 12, true},
    {"rows", act_rows, 4, true},
    {"call", act_call, 12, true},
    {"nop", act_nop, 6, true},
    {"batch", act_batch, 6, true},
    {"plan", api_act_plan, 5, true},
    {"reshard", api_act_reshard, 3, true},
    {"combine", act_combine, 4, true},
    {"drain", act_drain, 2, true},
    {"writable", act_writable, 2, true},
    {"event", act_event, 1, true},
    {"stream wait", act_stream_wait, 1, true},
    {"buffer", act_buffer, 4, true},
    {"echo", act_echo, 4, true},
    {"define", act_define, 4, false},
    {"release buffer", act_release_buffer, 2, false},
    {"promise", api_act_promise, 6, true},
    {"end promise", api_act_end_promise, 6, false},
    {"async", api_act_async, 8, true},
    {"cancel waiter", api_act_on_cancel, 4, true},
    {"end begun", api_act_end_begun, 8, false},
    {"queue", api_act_queue, 2, true},
    {"take", api_act_take, 8, false},
    {"scope", api_act_scope, 3, true},
    {"stats", api_act_stats, 2, true},
    {"cancel", act_cancel, 5, false},
    {"wait", act_wait, 6, false},
    {"look at future", act_look_at_future, 5, false},
    {"quiet", act_quiet, 5, false},
    {"issued", act_issued, 4, false},
    {"publish", act_publish, 6, false},
    {"waiter", act_waiter, 10, false},
    {"remove waiter", act_remove_waiter, 5, false},
    {"run task", act_run_task, 8, false},
    {"dump", act_dump, 1, true},
    {"trace", act_trace, 1, true},
    {"progress", act_progress, 8, true},
    {"arm", act_arm, 4, true},
    {"shutdown", act_shutdown, 1, true},
    {"engine", act_engine, 1, true},
    {"looks", api_act_looks, 2, true},
    {"bad input", api_act_bad_input, 4, true},
    {"group", api_act_group, 4, false},
    {"message", api_act_message, 6, false},
    {"window", api_act_window, 3, false},
    {"symmetric", api_act_symmetric, 3, false},
    {"notice", api_act_notice, 3, false},
};

#define ACTS (sizeof acts / sizeof acts[0])

static atomic_ulong done[ACTS], refused[ACTS];
static _Thread_local uint32_t depth; /* of callbacks in this thread */

static size_t pick(api_actor *actor, bool has_engine)
{
    uint32_t all = 0;
    for (size_t i = 0; i < ACTS; i++)
        all += has_engine || !acts[i].needs_engine ? acts[i].weight : 0;
    uint32_t dice = api_below(&actor->random, all);
    for (size_t i = 0;; i++) {
        uint32_t weight = has_engine || !acts[i].needs_engine ? acts[i].weight : 0;
        if (dice < weight)
            return i;
        dice -= weight;
    }
}

void api_act(api_actor *actor, bool has_engine)
{
    if (actor->world->fails_memory && api_one_in(&actor->random, 12))
        failing_allocator_arm(&actor->world->memory, api_below(&actor->random, 24),
                              api_one_in(&actor->random, 2));
    size_t i = pick(actor, has_engine);
    atomic_fetch_add(acts[i].fn(actor) ? &done[i] : &refused[i], 1);
}

const api_tally *api_tallies(void)
{
    static api_tally tallies[ACTS + 1];
    for (size_t i = 0; i < ACTS; i++)
        tallies[i] = (api_tally){acts[i].name, atomic_load(&done[i]), atomic_load(&refused[i])};
    return tallies;
}

/* What callbacks do. They are callbacks of the loop, or run on executors of the program's. */
void api_act_within(api_record *record)
{
    if (depth == DEPTH_MAX)
        return;
    depth++;
    api_world *world = record->world;
    api_actor actor;
    api_actor_init(&actor, world, record->random);
    actor.is_callback = true;
    /* The engine may have been released, if this is a task that was kept, or a late waiter. */
    bool is_locked = pthread_rwlock_tryrdlock(&world->engine_lock) == 0;
    bool has_engine = is_locked && world->has_engine;
    for (uint32_t i = api_below(&actor.random, 3); i != 0; i--)
        api_act(&actor, has_engine);
    if (is_locked)
        (void)pthread_rwlock_unlock(&world->engine_lock);
    api_let_go(&actor);
    record->random = actor.random;
    depth--;
}

ferry_status api_called(void *arg)
{
    api_record *record = arg;
    API_CHECK(!atomic_load(&record->is_quiet));
    API_CHECK(atomic_fetch_add(&record->begun, 1) == 0);
    api_act_within(record);
    API_CHECK(!atomic_load(&record->is_quiet));
    ferry_status result = record->result;
    atomic_fetch_add(&record->ended, 1);
    return result;
}

static void ready(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    api_record *record = waiter->arg;
    API_CHECK(status != FERRY_PENDING && ferry_future_poll(future) == status);
    api_check_resolved(future);
    api_act_within(record);
    if (record->again != 0) {
        record->again--;
        atomic_fetch_add(&record->registered, 1);
        API_CHECK(ferry_future_on_ready(future, waiter) == FERRY_OK);
    }
    atomic_fetch_add(&record->begun, 1);
}

static void prepare_waiter(api_record *record, ferry_future *future, ferry_executor *executor)
{
    record->waiter = (ferry_waiter)FERRY_WAITER_INIT(ready, record);
    record->waiter.executor = executor;
    record->future = ferry_future_retain(future);
    atomic_store(&record->registered, 1);
}

void api_wait_for(api_record *record, ferry_future *future, ferry_executor *executor)
{
    prepare_waiter(record, future, executor);
    API_CHECK(ferry_future_on_ready(future, &record->waiter) == FERRY_OK);
}

void api_wait_for_cancel(api_record *record, ferry_promise *promise, ferry_future *future,
                         ferry_executor *executor)
{
    prepare_waiter(record, future, executor);
    API_CHECK(ferry_promise_on_cancel(promise, &record->waiter) == FERRY_OK);
}
