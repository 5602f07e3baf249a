/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/every_call.h"
#include "tests/support/check.h"
#include "tests/support/every_call_table.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WAIT_NS 20000

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

static ferry_engine *engine_of(caller *self)
{
    return self->scene->engine;
}

/* A future as operations give them: looked at, and given back. */
static void drop(ferry_future *future)
{
    MUST(future != NULL);
    (void)ferry_future_poll(future);
    ferry_future_release(future);
}

static ferry_span part_of(caller *self, size_t offset_bytes)
{
    return (ferry_span){self->buffer, offset_bytes, 64};
}

static ferry_status do_nothing(void *arg)
{
    (void)arg;
    return FERRY_OK;
}

static void begin_nothing(void *arg, ferry_promise *promise)
{
    (void)arg;
    (void)ferry_promise_resolve(promise, FERRY_OK, NULL);
    ferry_promise_release(promise);
}

static int64_t soon_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec + 5000000;
}

/* The next of the caller's stock; CALL_STOCK: it is used up. */
static size_t next_of(caller *self)
{
    return self->used < CALL_STOCK ? self->used++ : CALL_STOCK;
}

/* ---- engine.h ---- */

static void call_engine_create(caller *self)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.loop =
        self->scene->loop == FERRY_LOOP_ATTACHED ? FERRY_LOOP_EMBEDDED : self->scene->loop;
    options.host_devices = 1;
    options.host_workers = 1;
    ferry_engine *engine = NULL;
    MUST(ferry_engine_create(&options, &engine, NULL) == FERRY_OK);
    ferry_engine_release(engine);
}

static void call_engine_shutdown(caller *self)
{
    ferry_status status = ferry_engine_shutdown(engine_of(self), 0);
    MUST(status == FERRY_E_DEADLOCK || !self->is_in_callback || status == FERRY_E_FORKED);
}

static void call_engine_release(caller *self)
{
    if (self->scene->loop != FERRY_LOOP_THREAD) {
        ferry_engine_release(NULL);
        return;
    }
    call_engine_create(self);
}

static void call_engine_progress(caller *self)
{
    int64_t done = ferry_engine_progress(engine_of(self), 0);
    MUST(done < 0 || self->scene->loop == FERRY_LOOP_EMBEDDED);
    MUST(done < 0 || !self->is_in_callback);
}

/* ---- device.h ---- */

static void call_device_find(caller *self)
{
    ferry_device *device = ferry_device_find(engine_of(self), "host:0");
    MUST(device == self->scene->device || device == NULL);
}

static void call_device_open(caller *self)
{
    ferry_device *device = NULL;
    (void)ferry_device_open(engine_of(self), "host:0", NULL, &device, NULL);
}

static void call_buffer_alloc(caller *self)
{
    ferry_buffer *buffer = NULL;
    if (ferry_buffer_alloc(self->scene->device, 64, &buffer) == FERRY_OK)
        ferry_buffer_release(buffer);
}

static void call_buffer_alloc_kind(caller *self)
{
    ferry_buffer *buffer = NULL;
    if (ferry_buffer_alloc_kind(self->scene->device, 64, FERRY_MEMORY_DEFAULT, &buffer) == FERRY_OK)
        ferry_buffer_release(buffer);
}

static void free_wrapped(void *arg, void *memory, size_t size_bytes)
{
    (void)arg, (void)size_bytes;
    free(memory);
}

static void call_buffer_wrap(caller *self)
{
    ferry_buffer *buffer = NULL;
    void *memory = malloc(64);
    if (ferry_buffer_wrap(self->scene->device, memory, 64, free_wrapped, NULL, &buffer) == FERRY_OK)
        ferry_buffer_release(buffer);
    else
        free(memory);
}

static void call_buffer_create(caller *self)
{
    static const char bytes[64];
    ferry_buffer_options options = FERRY_BUFFER_OPTIONS_INIT;
    options.source = bytes;
    options.size_bytes = sizeof bytes;
    ferry_buffer *buffer = NULL;
    ferry_error *error = NULL;
    if (ferry_buffer_create(self->scene->device, &options, &buffer, &error) == FERRY_OK) {
        ferry_future *future =
            ferry_copy(engine_of(self), ferry_buffer_span(buffer), part_of(self, 0), NULL);
        MUST(ferry_future_poll(future) != FERRY_OK);
        ferry_future_release(future);
        ferry_buffer_release(buffer);
    } else {
        MUST(error != NULL);
        ferry_error_release(error);
    }
}

static void call_buffer_release(caller *self)
{
    size_t next = next_of(self);
    if (next == CALL_STOCK)
        return;
    ferry_buffer_release(self->buffers[next]);
    self->buffers[next] = NULL;
}

/* ---- op.h ---- */

static void call_copy(caller *self)
{
    drop(ferry_copy(engine_of(self), part_of(self, 0), part_of(self, 128), NULL));
    ferry_span dst = {self->buffer, 0, CALL_BUFFER_BYTES / 2};
    ferry_span src = {self->buffer, CALL_BUFFER_BYTES / 2, CALL_BUFFER_BYTES / 2};
    drop(ferry_copy(engine_of(self), dst, src, NULL)); /* larger than what is copied inline */
}

static void call_copy_rows(caller *self)
{
    ferry_span dst = {self->buffer, 0, 16}, src = {self->buffer, 16, 16};
    drop(ferry_copy_rows(engine_of(self), dst, 32, src, 32, 8, NULL));
}

static void call_nop(caller *self)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &self->scene->pending;
    options.after_count = 1;
    options.deadline_ns = soon_ns();
    drop(ferry_nop(engine_of(self), &options));
    drop(ferry_nop(engine_of(self), NULL));
}

static void call_batch(caller *self)
{
    ferry_op ops[3] = {{.kind = FERRY_OP_NOP},
                       {.kind = FERRY_OP_CALL, .fn = do_nothing},
                       {.kind = FERRY_OP_COPY, .dst = part_of(self, 0), .src = part_of(self, 64)}};
    ferry_future *each[3];
    drop(ferry_batch(engine_of(self), ops, sizeof ops[0], 3, each, NULL));
    for (size_t i = 0; i < 3; i++)
        drop(each[i]);
}

/* ---- plan.h ---- */

/* NULL: the engine is gone. */
static ferry_plan *new_plan(caller *self)
{
    ferry_op ops[3] = {{.kind = FERRY_OP_NOP},
                       {.kind = FERRY_OP_CALL, .fn = do_nothing},
                       {.kind = FERRY_OP_COPY, .dst = part_of(self, 0), .src = part_of(self, 64)}};
    ferry_plan *plan = NULL;
    (void)ferry_plan_create(engine_of(self), ops, sizeof ops[0], 3, &plan, NULL);
    return plan;
}

static void call_plan_post(caller *self)
{
    static const uint32_t picks[] = {2, 0};
    ferry_plan *plan = new_plan(self);
    drop(ferry_plan_post(plan, NULL, 0, NULL));
    drop(ferry_plan_post(plan, picks, 2, NULL));
    ferry_plan_release(plan);
}

static void call_plan_describe(caller *self)
{
    ferry_plan_info info = FERRY_PLAN_INFO_INIT;
    ferry_plan *plan = new_plan(self);
    MUST(plan == NULL || ferry_plan_describe(plan, &info) == FERRY_OK);
    ferry_plan_release(plan);
}

/* The device is a host. */
static void call_plan_enqueue(caller *self)
{
    ferry_plan *plan = new_plan(self);
    if (plan != NULL)
        MUST(ferry_plan_enqueue(plan, ferry_device_at(engine_of(self), 0), NULL, NULL) != FERRY_OK);
    ferry_plan_release(plan);
}

/* ---- reshard.h ---- */

/* 64 bytes of a mesh of one. */
static ferry_reshard *new_reshard(void)
{
    const uint64_t shape[] = {64};
    const ferry_layout layout = FERRY_LAYOUT_INIT;
    ferry_reshard *reshard = NULL;
    MUST(ferry_reshard_create(shape, 1, 1, &layout, &layout, &reshard, NULL) == FERRY_OK);
    return reshard;
}

static void call_reshard_describe(caller *self)
{
    ferry_reshard_info info = FERRY_RESHARD_INFO_INIT;
    ferry_reshard_part part = FERRY_RESHARD_PART_INIT;
    ferry_reshard_move move = FERRY_RESHARD_MOVE_INIT;
    ferry_reshard_member member = FERRY_RESHARD_MEMBER_INIT;
    ferry_reshard *reshard = new_reshard();
    (void)self;
    MUST(ferry_reshard_describe(reshard, &info) == FERRY_OK && info.local_bytes == 64);
    MUST(ferry_reshard_part_at(reshard, FERRY_RESHARD_TO, 0, &part) == FERRY_OK);
    MUST(ferry_reshard_move_at(reshard, 0, &move) == FERRY_OK);
    MUST(ferry_reshard_member_at(reshard, 0, &member) == FERRY_OK);
    ferry_reshard_release(reshard);
}

static void call_reshard_plan(caller *self)
{
    const ferry_span from = part_of(self, 0), to = part_of(self, 64);
    ferry_reshard_options options = FERRY_RESHARD_OPTIONS_INIT;
    options.from = &from;
    options.to = &to;
    options.from_count = options.to_count = 1;
    ferry_plan *plan = NULL;
    ferry_reshard *reshard = new_reshard();
    (void)ferry_reshard_plan(self->scene->group, reshard, &options, &plan, NULL);
    ferry_reshard_release(reshard);
    ferry_plan_release(plan);
}

/* ---- future.h ---- */

static void call_future_cancel(caller *self)
{
    size_t next = next_of(self);
    if (next < CALL_STOCK)
        (void)ferry_future_cancel(self->futures[next]);
    (void)ferry_future_cancel(self->scene->done);
}

static void call_future_release(caller *self)
{
    size_t next = next_of(self);
    if (next == CALL_STOCK)
        return;
    ferry_future_release(self->futures[next]);
    self->futures[next] = NULL;
}

static void count_ready(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future, (void)status;
    caller *self = waiter->arg;
    atomic_fetch_add(&self->called, 1);
}

/* On the loop it is taken back, whatever came first; elsewhere it was called, or will be. */
static void remove_waiter(caller *self, unsigned called)
{
    if (ferry_waiter_remove(&self->waiter))
        return;
    if (self->is_in_callback)
        MUST(atomic_load(&self->called) != called);
    while (atomic_load(&self->called) == called)
        (void)sched_yield();
}

static void register_and_remove(caller *self, ferry_future *future)
{
    unsigned called = atomic_load(&self->called);
    self->waiter = (ferry_waiter)FERRY_WAITER_INIT(count_ready, self);
    if (ferry_future_on_ready(future, &self->waiter) == FERRY_OK)
        remove_waiter(self, called);
}

static void call_future_all(caller *self)
{
    ferry_future *both[] = {self->scene->done, self->scene->pending};
    drop(ferry_future_all(engine_of(self), both, 2));
}

static void call_future_any(caller *self)
{
    ferry_future *both[] = {self->scene->pending, self->scene->failed};
    drop(ferry_future_any(engine_of(self), both, 2));
}

static void call_queue_take(caller *self)
{
    ferry_queue_record record;
    (void)ferry_queue_take(self->scene->queue, &record, sizeof record, 1);
}

static void call_queue_create(caller *self)
{
    ferry_queue *queue = NULL;
    int fd;
    if (ferry_queue_create(engine_of(self), 8, &queue, &fd) != FERRY_OK)
        return;
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.queue = queue;
    drop(ferry_nop(engine_of(self), &options));
    ferry_queue_release(queue);
}

static void call_scope_create(caller *self)
{
    ferry_scope *scope = NULL;
    if (ferry_scope_create(engine_of(self), NULL, &scope) != FERRY_OK)
        return;
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.scope = scope;
    drop(ferry_nop(engine_of(self), &options));
    drop(ferry_scope_close(scope));
    ferry_scope_release(scope);
}

static void read_stats(caller *self)
{
    ferry_stats stats = FERRY_STATS_INIT;
    (void)ferry_stats_read(NULL, self->scene->scope, &stats);
}

static void call_promise_create(caller *self)
{
    ferry_promise *promise = NULL;
    if (ferry_promise_create(engine_of(self), &promise) == FERRY_OK)
        ferry_promise_release(promise);
}

static void call_promise_resolve(caller *self)
{
    size_t next = next_of(self);
    if (next < CALL_STOCK)
        (void)ferry_promise_resolve(self->promises[next], FERRY_E_FAILED, "as told");
}

static void call_promise_resolve_value(caller *self)
{
    size_t next = next_of(self);
    if (next < CALL_STOCK)
        (void)ferry_promise_resolve_value(self->promises[next], "as told", 7);
}

static void call_promise_on_cancel(caller *self)
{
    size_t next = next_of(self);
    if (next == CALL_STOCK)
        return;
    unsigned called = atomic_load(&self->called);
    self->waiter = (ferry_waiter)FERRY_WAITER_INIT(count_ready, self);
    if (ferry_promise_on_cancel(self->promises[next], &self->waiter) == FERRY_OK)
        remove_waiter(self, called);
}

static void call_promise_release(caller *self)
{
    size_t next = next_of(self);
    if (next == CALL_STOCK)
        return;
    ferry_promise_release(self->promises[next]);
    self->promises[next] = NULL;
}

/* ---- group.h, message.h ---- */

static void call_group_join(caller *self)
{
    ferry_group_options options = FERRY_GROUP_OPTIONS_INIT;
    options.store = "mem:every_call";
    options.job = "nobody-comes";
    options.size = 2;
    ferry_group *group = NULL;
    ferry_future *joined = ferry_group_join(engine_of(self), &options, &group);
    (void)ferry_future_cancel(joined);
    drop(joined);
    ferry_group_release(group);
}

/* Once a group, so this is one of no member. */
static void call_group_release(caller *self)
{
    (void)self;
    ferry_group_release(NULL);
}

static void call_group_member(caller *self)
{
    ferry_member_info info = FERRY_MEMBER_INFO_INIT;
    (void)ferry_group_member(self->scene->group, 0, &info);
}

static void call_group_device(caller *self)
{
    ferry_rank rank;
    uint32_t index;
    (void)ferry_group_device(self->scene->group, 0, &rank, &index);
}

static void call_future_value(caller *self)
{
    ferry_value value = FERRY_VALUE_INIT;
    ferry_future *future = self->scene->group != NULL
                               ? ferry_group_try_get(self->scene->group, "key", soon_ns())
                               : ferry_future_retain(self->scene->done);
    (void)ferry_future_value(future, &value);
    drop(future);
}

static void call_barrier(caller *self)
{
    ferry_barrier_options options = FERRY_BARRIER_OPTIONS_INIT;
    options.deadline_ns = soon_ns();
    drop(ferry_barrier(self->scene->group, "here", &options));
}

/* Scenes whose loop is embedded have any source (join_group); in others both are refused. */
static void call_message_probe(caller *self)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.deadline_ns = soon_ns();
    ferry_group *group = self->scene->group;
    drop(ferry_message_probe(group, FERRY_RANK_ANY, FERRY_TAG_ANY, &options));
    drop(ferry_recv(group, FERRY_RANK_ANY, FERRY_TAG_ANY, part_of(self, 64), &options));
}

static void call_message_describe(caller *self)
{
    ferry_message_info info = FERRY_MESSAGE_INFO_INIT;
    MUST(ferry_message_describe(self->scene->done, &info) == FERRY_E_NOT_FOUND);
}

static ferry_window *new_window(caller *self)
{
    static atomic_uint names;
    char name[16];
    (void)snprintf(name, sizeof name, "w%u", atomic_fetch_add(&names, 1));
    ferry_window *window = NULL;
    drop(ferry_window_open(self->scene->group, part_of(self, 0), name, FERRY_WINDOW_GET_PUT,
                           &window));
    return window;
}

static void call_window_open(caller *self)
{
    ferry_window_release(new_window(self));
}

/* The group has no other member. */
static void call_window_find(caller *self)
{
    ferry_window *window = NULL;
    drop(ferry_window_find(self->scene->group, 0, "w", soon_ns(), &window));
    MUST(window == NULL);
    drop(ferry_get(window, 0, part_of(self, 0), NULL));
}

static void call_window_close(caller *self)
{
    ferry_window *window = new_window(self);
    drop(ferry_window_close(window));
    ferry_window_release(window);
}

static void call_window_describe(caller *self)
{
    ferry_window_info info = FERRY_WINDOW_INFO_INIT;
    ferry_window *window = new_window(self);
    MUST(window == NULL || ferry_window_describe(window, &info) == FERRY_OK);
    ferry_window_release(window);
}

static void call_get(caller *self)
{
    ferry_window *window = new_window(self);
    drop(ferry_get(window, 0, part_of(self, 64), NULL));
    ferry_window_release(window);
}

static void call_notice_send(caller *self)
{
    drop(ferry_notice_send(self->scene->group, 0, "notice", 6, NULL));
}

static void call_notice_next(caller *self)
{
    drop(ferry_notice_next(self->scene->group, soon_ns()));
}

static void call_put(caller *self)
{
    ferry_window *window = new_window(self);
    drop(ferry_put(window, 0, part_of(self, 64), NULL));
    ferry_window_release(window);
}

static ferry_symmetric *new_symmetric(caller *self)
{
    ferry_symmetric *symmetric = NULL;
    drop(ferry_symmetric_alloc(self->scene->group, ferry_device_at(engine_of(self), 0), 64, "s", 0,
                               &symmetric));
    return symmetric;
}

/* The group has no other member. */
static void call_symmetric_address(caller *self)
{
    ferry_symmetric_info info = FERRY_SYMMETRIC_INFO_INIT;
    ferry_symmetric *symmetric = new_symmetric(self);
    MUST(symmetric == NULL || ferry_symmetric_describe(symmetric, &info) == FERRY_OK);
    MUST(ferry_symmetric_address(symmetric, 1) == NULL);
    MUST(ferry_symmetric_window(symmetric, 0) == NULL);
    MUST(symmetric == NULL || ferry_symmetric_buffer(symmetric) != NULL);
    ferry_symmetric_release(symmetric);
}

/* ---- the rest ---- */

static void write_nowhere(void *arg, const char *text, size_t size_bytes)
{
    (void)arg, (void)text, (void)size_bytes;
}

static void hear_record(void *arg, const ferry_trace_record *record)
{
    (void)arg, (void)record;
}

static void call_engine_trace(caller *self)
{
    ferry_trace_hooks hooks = {.struct_size = sizeof hooks, .record = hear_record};
    (void)ferry_engine_trace(engine_of(self), &hooks);
    (void)ferry_engine_trace(engine_of(self), NULL);
}

static void call_engine_flight_records(caller *self)
{
    ferry_trace_record records[4];
    MUST(ferry_engine_flight_records(engine_of(self), records, sizeof(ferry_trace_record), 4) <= 4);
}

static void call_trace_open(caller *self)
{
    (void)self;
    if (ferry_trace_open("/dev/null") == FERRY_OK)
        (void)ferry_trace_close();
}

static void call_error_release(caller *self)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.loop = (ferry_loop_mode)77;
    ferry_error *error = NULL;
    ferry_engine *engine = NULL;
    (void)self;
    MUST(ferry_engine_create(&options, &engine, &error) == FERRY_E_INVALID);
    ferry_error_release(error);
}

static void call_device_describe(caller *self)
{
    ferry_device_info info = FERRY_DEVICE_INFO_INIT;
    (void)ferry_device_describe(self->scene->device, &info);
}

static void call_engine_limits(caller *self)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    (void)ferry_engine_limits(engine_of(self), &options);
}

static void call_backend_at(caller *self)
{
    ferry_backend_info info = FERRY_BACKEND_INFO_INIT;
    (void)self;
    MUST(ferry_backend_at(0, &info) == FERRY_OK && info.name != NULL);
}

static void call_variable_at(caller *self)
{
    ferry_variable_info info = FERRY_VARIABLE_INFO_INIT;
    (void)self;
    MUST(ferry_variable_at(0, &info) == FERRY_OK && info.name != NULL);
}

/* ---- the table ---- */

#define DEFINE_SHORT(name_, traits_, statements_)                                                  \
    static void call_##name_(caller *self)                                                         \
    {                                                                                              \
        (void)self;                                                                                \
        statements_;                                                                               \
    }
#define DEFINED(name_, traits_)
EVERY_CALL(DEFINE_SHORT, DEFINED)

#define ROW_OF_SHORT(name_, traits_, statements_) ROW_OF(name_, traits_)
#define ROW_OF(name_, traits_) {.name = "ferry_" #name_, .call = call_##name_, .traits = (traits_)},

const every_call every_calls[] = {EVERY_CALL(ROW_OF_SHORT, ROW_OF)};
const size_t every_call_count = COUNT_OF(every_calls);
