/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every reason for which a call is refused, by what causes it: the future's status, its error's
 * sentence, the same in the log; and what depends on it names it as cause. A reason that no cause
 * here gives fails the test.
 */
#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/graph/lane.h"
#include "engine/ground/ground.h"
#include "engine/ground/refusal.h"
#include "engine/messages/groups.h"
#include "engine/messages/window.h"
#include "tests/support/member_test.h"
#include "tests/support/owned.h"
#include "tests/support/play.h"
#include "tests/unit/fake_engine.h"

#include <sys/resource.h>
#include <unistd.h>

SCENE_SUITE(engine_refusals);

enum { SIZE = 4096 };

static struct {
    bool seen[FRY_REFUSALS];
    char logged[1024]; /* the newest line */
} state;

static const char *text_of(fry_refusal why)
{
    return fry_refusal_error(why)->public_.message;
}

static void take_line(void *arg, ferry_log_level level, const char *line)
{
    (void)arg, (void)level;
    (void)snprintf(state.logged, sizeof state.logged, "%s", line);
}

/* Of what gives a status alone. */
static void expect_logged(fry_refusal why, ferry_status status)
{
    ASSERT_STATUS(status, fry_refusal_status(why));
    cr_assert_not_null(strstr(state.logged, text_of(why)), "\"%s\" is logged, not \"%s\"",
                       state.logged, text_of(why));
    state.logged[0] = '\0';
    state.seen[why] = true;
}

/* Gives the future back. What is wrong is logged as well; want of room would only fill the log. */
static void expect(fry_refusal why, ferry_future *future)
{
    ferry_status status = ferry_future_poll(future);
    const ferry_error *error = ferry_future_error(future);
    cr_assert_not_null(error, "\"%s\": %s", text_of(why), ferry_status_name(status));
    cr_assert_str_eq(error->message, text_of(why), "\"%s\", not \"%s\"", error->message,
                     text_of(why));
    ASSERT_STATUS(status, fry_refusal_status(why));
    ASSERT_STATUS(error->status, status);
    cr_assert_eq(error, ferry_future_error(future));
    cr_assert_eq(ferry_future_id(future), 0);
    if (status == FERRY_E_INVALID && fry_engine_of(future) != NULL)
        expect_logged(why, status);
    state.seen[why] = true;
    ferry_future_release(future);
}

/* ---- the engine and handles ---- */

static void try_engines(void)
{
    test_engine other;
    test_engine_open(&other, FERRY_LOOP_EMBEDDED);
    expect(FRY_REFUSED_ENGINE_NULL, ferry_nop(NULL, NULL));
    expect(FRY_REFUSED_ENGINE_NULL, ferry_future_all(NULL, NULL, 0));
    expect(FRY_REFUSED_ENGINE_NULL, ferry_engine_writable(NULL));
    expect(FRY_REFUSED_FUTURE_NULL, ferry_future_quiet(NULL));
    expect(FRY_REFUSED_FUTURE_NULL, ferry_future_issued(NULL));
    expect(FRY_REFUSED_PROMISE_NULL, ferry_promise_future(NULL));
    expect(FRY_REFUSED_GROUP_NULL, ferry_send(NULL, 0, 0, (ferry_span){0}, NULL));
    expect(FRY_REFUSED_GROUP_NULL, ferry_message_probe(NULL, 0, 0, NULL));
    expect(FRY_REFUSED_GROUP_NULL, ferry_group_leave(NULL));
    expect(FRY_REFUSED_DEVICE_NULL, ferry_event_record(NULL, NULL));
    ASSERT_STATUS(ferry_engine_shutdown(other.engine, -1), FERRY_OK);
    expect(FRY_REFUSED_SHUTDOWN, ferry_nop(other.engine, NULL));
    expect(FRY_REFUSED_SHUTDOWN, ferry_engine_drain(other.engine));
    test_engine_close(&other);
    fry_fork_generation++; /* as in a fork's child */
    expect(FRY_REFUSED_FORKED, ferry_nop(engine(), NULL));
    fry_fork_generation--;
}

/* ---- options ---- */

static void try_options(void)
{
    ferry_future *nothing = NULL;
    ferry_access access = {the_span("a[0:1]"), (ferry_access_mode)4};
    size_t after_max = engine()->after_count_max, span_max = engine()->span_count_max;
    const struct {
        fry_refusal why;
        ferry_op_options options;
    } cases[] = {
        {FRY_REFUSED_OPTIONS_SIZE, {.struct_size = 3}},
        {FRY_REFUSED_AFTER_ARRAY, behind(NULL, 1)},
        {FRY_REFUSED_AFTER_NULL, behind(&nothing, 1)},
        {FRY_REFUSED_AFTER_COUNT, behind(&nothing, after_max + 1)},
        {FRY_REFUSED_ACCESS_ARRAY, touching(NULL, 1)},
        {FRY_REFUSED_ACCESS_MODE, touching(&access, 1)},
        {FRY_REFUSED_ACCESS_COUNT, touching(&access, span_max)},
        {FRY_REFUSED_PRIORITY,
         {.struct_size = sizeof(ferry_op_options), .priority = (ferry_priority)2}},
        {FRY_REFUSED_OPTIONS_FLAGS, {.struct_size = sizeof(ferry_op_options), .flags = 4}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect(cases[i].why, ferry_nop(engine(), &cases[i].options));
    expect(FRY_REFUSED_AFTER_NULL, ferry_future_all(engine(), &nothing, 1));
}

/* ---- spans and copies ---- */

static ferry_future *copy(ferry_span dst, ferry_span src)
{
    return ferry_copy(engine(), dst, src, NULL);
}

static void try_copies(const fake_engine *f)
{
    OPENED_WITH(test_engine, other, FERRY_LOOP_EMBEDDED);
    ferry_buffer *theirs = test_buffer(&other, 0, SIZE, 0), *a = the_buffer("a");
    ferry_future *their_nop = ferry_nop(other.engine, NULL);
    ferry_span good = span_of(a, 0, 16);
    expect(FRY_REFUSED_SPAN_NULL, copy(good, span_of(NULL, 0, 16)));
    expect(FRY_REFUSED_SPAN_NULL, copy(ferry_buffer_span(NULL), ferry_buffer_span(NULL)));
    expect(FRY_REFUSED_SPAN_ENGINE, copy(good, span_of(theirs, 0, 16)));
    expect(FRY_REFUSED_SPAN_OUTSIDE, copy(good, the_span("b[4081:4097]")));
    expect(FRY_REFUSED_SPAN_OUTSIDE, copy(the_span("b[4097:4113]"), good));
    expect(FRY_REFUSED_COPY_SIZES, copy(good, the_span("b[0:15]")));
    expect(FRY_REFUSED_COPY_OVERLAP, copy(good, span_of(a, 15, 16)));
    expect_logged(FRY_REFUSED_SPAN_EMPTY, ferry_buffer_define(span_of(a, 0, 0), NULL));
    expect_logged(FRY_REFUSED_SPAN_OUTSIDE, ferry_buffer_define(span_of(a, 1, SIZE), NULL));
    expect(FRY_REFUSED_AFTER_ENGINE, nop_after(scene(), their_nop));
    expect_logged(FRY_REFUSED_AFTER_ENGINE, ferry_buffer_define(good, their_nop));
    expect_logged(FRY_REFUSED_WAIT_ENGINE,
                  ferry_future_stream_wait(their_nop, f->devices[0], NULL));
    ferry_buffer_release(theirs);
    ferry_future_release(their_nop);
    settle(&other);
}

static ferry_future *rows(ferry_span dst, size_t dst_pitch, ferry_span src, size_t src_pitch,
                          size_t count);

static ferry_buffer *source_buffer(void)
{
    static const char bytes[64];
    ferry_buffer_options of = FERRY_BUFFER_OPTIONS_INIT;
    of.source = bytes;
    of.size_bytes = sizeof bytes;
    ferry_buffer *buffer = NULL;
    ASSERT_STATUS(ferry_buffer_create(ferry_device_at(engine(), 0), &of, &buffer, NULL), FERRY_OK);
    return own(buffer);
}

static void try_sources(void)
{
    ferry_span span = span_of(source_buffer(), 0, 16), other = the_span("a[0:16]");
    expect(FRY_REFUSED_SPAN_SOURCE, copy(span, other));
    expect(FRY_REFUSED_SPAN_SOURCE, rows(span, 32, other, 32, 2));
    ferry_access access = {.span = span, .mode = FERRY_WRITE};
    ferry_op_options options = touching(&access, 1);
    expect(FRY_REFUSED_SPAN_SOURCE, ferry_nop(engine(), &options));
    access.mode = FERRY_READ_WRITE;
    expect(FRY_REFUSED_SPAN_SOURCE, ferry_nop(engine(), &options));
}

static ferry_future *rows(ferry_span dst, size_t dst_pitch, ferry_span src, size_t src_pitch,
                          size_t count)
{
    return ferry_copy_rows(engine(), dst, dst_pitch, src, src_pitch, count, NULL);
}

static void try_rows(void)
{
    ferry_span to = the_span("a[0:16]"), from = the_span("b[0:16]");
    expect(FRY_REFUSED_ROWS_PITCH, rows(to, 15, from, 16, 2));
    expect(FRY_REFUSED_ROWS_OVERFLOW, rows(to, SIZE_MAX / 2, from, 16, 4));
    expect(FRY_REFUSED_ROWS_OUTSIDE, rows(to, 64, from, 64, SIZE / 64 + 1));
    expect(FRY_REFUSED_COPY_SIZES, rows(to, 64, the_span("b[0:15]"), 64, 2));
    expect(FRY_REFUSED_COPY_OVERLAP, rows(to, 64, the_span("a[128:144]"), 64, 3));
    play("buffer large0 %d; buffer large1 %d on 1", 2 * 65537, 2 * 65537);
    expect(FRY_REFUSED_ROWS_COUNT,
           rows(the_span("large0[0:1]"), 2, the_span("large1[0:1]"), 2, 65537));
}

/* Between GPUs of two makers. */
static void try_backends(const fake_engine *f)
{
    ferry_buffer *here = own(gpu_buffer(f, 0, 1)), *there = own(gpu_buffer(f, 1, 2));
    fry_device *device = f->devices[1]->device;
    const fry_device_ops *ops = device->ops;
    fry_device_ops others = *ops;
    others.backend = "other";
    device->ops = &others;
    expect(FRY_REFUSED_COPY_BACKENDS, gpu_copy(f, here, there));
    expect(FRY_REFUSED_COPY_BACKENDS, rows(span_of(here, 0, 8), 16, span_of(there, 0, 8), 16, 2));
    device->ops = ops;
}

/* ---- functions, futures of futures, batches ---- */

static void try_functions(void)
{
    ferry_executor executor = {.struct_size = sizeof executor};
    expect(FRY_REFUSED_CALL_FN, ferry_call(engine(), NULL, NULL, NULL, NULL));
    expect(FRY_REFUSED_BEGIN_FN, ferry_call_async(engine(), NULL, NULL, NULL, NULL, NULL));
    expect(FRY_REFUSED_EXECUTOR, ferry_call(engine(), &executor, fail_call, NULL, NULL));
    ferry_future *nop = own(ferry_nop(engine(), NULL));
    ferry_waiter waiter = FERRY_WAITER_INIT(count_ready, NULL);
    waiter.executor = &executor;
    expect_logged(FRY_REFUSED_EXECUTOR, ferry_future_on_ready(nop, &waiter));
    expect(FRY_REFUSED_COMBINE_ARRAY, ferry_future_all(engine(), NULL, 1));
    expect(FRY_REFUSED_COMBINE_COUNT,
           ferry_future_all(engine(), &nop, engine()->after_count_max + 1));
    expect(FRY_REFUSED_ANY_COUNT, ferry_future_any(engine(), NULL, 0));
}

static void try_queues(void)
{
    ferry_queue *queue = NULL, *others = NULL;
    ferry_engine_options plain = FERRY_ENGINE_OPTIONS_INIT;
    plain.loop = FERRY_LOOP_EMBEDDED;
    ferry_engine *other = NULL;
    ASSERT_STATUS(ferry_engine_create(&plain, &other, NULL), FERRY_OK);
    ASSERT_STATUS(ferry_queue_create(other, 1, &others, NULL), FERRY_OK);
    ASSERT_STATUS(ferry_queue_create(engine(), 1, &queue, NULL), FERRY_OK);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.queue = others;
    expect(FRY_REFUSED_QUEUE_ENGINE, ferry_nop(engine(), &options));
    options.queue = queue;
    (void)own(ferry_nop(engine(), &options));
    expect(FRY_REFUSED_QUEUE_FULL, ferry_nop(engine(), &options));
    ferry_queue_release(queue);
    ferry_queue_release(others);
    ferry_engine_release(other);
}

static void try_scopes(void)
{
    ferry_scope *scope = NULL, *others = NULL;
    ferry_engine_options plain = FERRY_ENGINE_OPTIONS_INIT;
    plain.loop = FERRY_LOOP_EMBEDDED;
    ferry_engine *other = NULL;
    ASSERT_STATUS(ferry_engine_create(&plain, &other, NULL), FERRY_OK);
    ASSERT_STATUS(ferry_scope_create(other, NULL, &others), FERRY_OK);
    ASSERT_STATUS(ferry_scope_create(engine(), NULL, &scope), FERRY_OK);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.scope = others;
    expect(FRY_REFUSED_SCOPE_ENGINE, ferry_nop(engine(), &options));
    options.scope = scope;
    (void)own(ferry_scope_close(scope));
    expect(FRY_REFUSED_SCOPE_CLOSED, ferry_nop(engine(), &options));
    (void)own(ferry_scope_cancel(scope));
    expect(FRY_REFUSED_SCOPE_CANCELLED, ferry_nop(engine(), &options));
    expect(FRY_REFUSED_SCOPE_NULL, ferry_scope_close(NULL));
    ferry_scope_release(scope);
    ferry_scope_release(others);
    ferry_engine_release(other);
}

static ferry_future *batch_of(const ferry_op *op, size_t op_size_bytes, ferry_future **each)
{
    return ferry_batch(engine(), op, op_size_bytes, 1, each, NULL);
}

static void try_batches(void)
{
    struct {
        ferry_op op;
        uint64_t more;
    } later = {{.kind = FERRY_OP_NOP}, 1};
    ferry_op op = {.kind = FERRY_OP_NOP};
    ferry_access access = {the_span("a"), FERRY_READ};
    ferry_op_options options = touching(&access, 1);
    ferry_future *each[1];
    expect(FRY_REFUSED_BATCH_ARRAY, batch_of(NULL, sizeof op, NULL));
    expect(FRY_REFUSED_BATCH_COUNT,
           ferry_batch(engine(), &op, sizeof op, ((size_t)1 << 20) + 1, NULL, NULL));
    expect(FRY_REFUSED_BATCH_OP_SIZE, batch_of(&op, 0, NULL));
    expect(FRY_REFUSED_BATCH_OP_SIZE, batch_of(&op, 4097, NULL));
    expect(FRY_REFUSED_BATCH_ACCESSES, ferry_batch(engine(), &op, sizeof op, 1, NULL, &options));
    /* Of one operation the batch's future has the reason as cause. */
    ferry_future *batch = own(batch_of(&later.op, sizeof later, each));
    expect(FRY_REFUSED_BATCH_OP_TAIL, each[0]);
    ASSERT_STATUS(ferry_future_poll(batch), FERRY_E_DEPENDENCY);
    cr_assert_str_eq(ferry_future_error(batch)->cause->message, text_of(FRY_REFUSED_BATCH_OP_TAIL));
    op.kind = FERRY_OP_DRAIN;
    (void)own(batch_of(&op, sizeof op, each));
    expect(FRY_REFUSED_BATCH_OP_KIND, each[0]);
}

/* ---- outside events ---- */

static void try_events(const fake_engine *f)
{
    ferry_device *host = ferry_device_at(engine(), 0);
    int elsewhere;
    fake_user_event event = {true};
    void *stream = fake_user_stream(f->gpus[0], 0);
    expect(FRY_REFUSED_EVENT_NULL, ferry_event_wrap(f->devices[0], NULL, stream));
    expect(FRY_REFUSED_EVENT_DEVICE, ferry_event_record(host, NULL));
    expect(FRY_REFUSED_EVENT_DEVICE, ferry_event_wrap(host, &event, NULL));
    ferry_future *invalid = own(ferry_event_record(f->devices[0], &elsewhere));
    state.seen[FRY_REFUSED_EVENT_INVALID] = true; /* the log has the driver's words */
    cr_assert_str_eq(ferry_future_error(invalid)->message, text_of(FRY_REFUSED_EVENT_INVALID));
    fake_user_capture(f->gpus[0], stream, true);
    expect(FRY_REFUSED_EVENT_CAPTURE, ferry_event_record(f->devices[0], stream));
    fake_user_capture(f->gpus[0], stream, false);
    fake_refuse_event(f->gpus[0], FERRY_E_AGAIN);
    expect(FRY_REFUSED_EVENT_AGAIN, ferry_event_record(f->devices[0], stream));
    ferry_future *nop = own(ferry_nop(engine(), NULL));
    expect_logged(FRY_REFUSED_EVENT_DEVICE, ferry_future_stream_wait(nop, host, NULL));
}

/* ---- groups ---- */

static ferry_group_options group_of(uint32_t size)
{
    ferry_group_options options = FERRY_GROUP_OPTIONS_INIT;
    options.store = "mem:refusals";
    options.job = "job";
    options.size = size;
    options.rank = 0;
    options.has_rank = true;
    return options;
}

static void expect_join(fry_refusal why, const ferry_group_options *options)
{
    ferry_group *group = (ferry_group *)(void *)&state;
    expect(why, ferry_group_join(engine(), options, &group));
    cr_assert_null(group);
}

#define TRY_JOIN(why_, field_, value_)                                                             \
    do {                                                                                           \
        ferry_group_options options_ = group_of(1);                                                \
        options_.field_ = (value_);                                                                \
        expect_join(FRY_REFUSED_##why_, &options_);                                                \
    } while (0)

static void try_joins(void)
{
    static char endless[5000];
    memset(endless, 'x', sizeof endless - 1);
    ferry_group_options options = group_of(1);
    expect(FRY_REFUSED_JOIN_NULL, ferry_group_join(engine(), &options, NULL));
    expect_join(FRY_REFUSED_JOIN_NULL, NULL);
    TRY_JOIN(JOIN_SIZE_OF, struct_size, 1);
    TRY_JOIN(JOIN_STORE, store, NULL);
    TRY_JOIN(JOIN_STORE, store, endless);
    TRY_JOIN(JOIN_JOB, job, "a job");
    TRY_JOIN(JOIN_JOB, job, "..");
    TRY_JOIN(JOIN_PLACE, place, "");
    TRY_JOIN(JOIN_PLACE, place, "..");
    TRY_JOIN(JOIN_PLACE_NONE, place, "-");
    TRY_JOIN(JOIN_SIZE_MAX, size, 4097);
    options = group_of(0);
    options.has_rank = false;
    options.size_min = 1;
    expect_join(FRY_REFUSED_JOIN_SIZE_DEADLINE, &options);
    options.rank = 0;
    options.has_rank = true;
    options.deadline_ns = INT64_MAX;
    expect_join(FRY_REFUSED_JOIN_RANK_OF_ANY, &options);
    TRY_JOIN(JOIN_RANK, rank, 1);
    TRY_JOIN(JOIN_RANK, rank, FERRY_RANK_NONE);
    TRY_JOIN(JOIN_KIND, kind, (ferry_group_kind)(FERRY_GROUP_OPEN + 1));
    TRY_JOIN(JOIN_EVENTS, events_max, 65537);
    options = group_of(2);
    options.kind = FERRY_GROUP_OPEN;
    options.size_min = 2;
    expect_join(FRY_REFUSED_JOIN_OPEN_SIZE, &options);
    TRY_JOIN(JOIN_RESERVED, reserved[2], 1);
    options = group_of(2);
    options.rank = 1;
    options.has_rank = false;
    expect_join(FRY_REFUSED_JOIN_RANK_UNSAID, &options);
    TRY_JOIN(JOIN_SECRET_SIZE, secret, "short");
    TRY_JOIN(JOIN_SECRET_NULL, secret_bytes, 16);
    TRY_JOIN(JOIN_DEVICES, device_count, 65536);
    TRY_JOIN(JOIN_LEASE, lease_ns, 1999999999);
    TRY_JOIN(JOIN_TEXT, network, endless);
    TRY_JOIN(JOIN_TEXT, store_key_path, endless);
    TRY_JOIN(JOIN_MESSAGES, window_messages, (1u << 24) + 1);
    TRY_JOIN(JOIN_MESSAGES, unexpected_max, (1u << 24) + 1);
    TRY_JOIN(JOIN_WINDOW, window_bytes, SIZE_MAX);
    TRY_JOIN(JOIN_GPU_WAY, gpu_way, (ferry_gpu_way)(FERRY_GPU_WAY_ALL + 1));
    TRY_JOIN(JOIN_ANY_SOURCE, any_source_max, (1u << 24) + 1);
    for (int way = FERRY_GPU_WAY_NCCL; way <= FERRY_GPU_WAY_ALL; way++) {
        options = group_of(1);
        options.any_source_max = 1;
        options.gpu_way = (ferry_gpu_way)way;
        expect_join(FRY_REFUSED_JOIN_ANY_SOURCE_WAY, &options);
    }
    TRY_JOIN(DEADLINE, deadline_ns, -1);
}

/* As many descriptors as are open, and no more: the join is taken, and fails. */
static void join_without_descriptors(void)
{
    scene_begin(FERRY_LOOP_EMBEDDED);
    int next = dup(0);
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    struct rlimit few = {.rlim_cur = (rlim_t)next, .rlim_max = limit.rlim_max};
    (void)close(next);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    ferry_group_options options = group_of(1);
    ferry_group *group = NULL;
    ferry_future *join = own(ferry_group_join(engine(), &options, &group));
    while (ferry_future_poll(join) == FERRY_PENDING)
        (void)ferry_engine_progress(engine(), 0);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ASSERT_STATUS(ferry_future_poll(join), FERRY_E_SYSTEM);
    ferry_group_release(group);
    scene_end();
}

static void try_values(ferry_group *group)
{
    static char data[65537];
    expect(FRY_REFUSED_KEY, ferry_group_get(group, "a key", 0));
    expect(FRY_REFUSED_KEY, ferry_group_set(group, NULL, "", 0, 0));
    expect(FRY_REFUSED_KEY, ferry_group_watch(group, "", 0, 0));
    expect(FRY_REFUSED_KEY, ferry_group_get(group, "a//b", 0));
    expect(FRY_REFUSED_KEY, ferry_group_get(group, "a/", 0));
    expect(FRY_REFUSED_KEY, ferry_group_get(group, "a/../b", 0));
    expect(FRY_REFUSED_VALUE_SIZE, ferry_group_set(group, "key", data, sizeof data, 0));
    expect(FRY_REFUSED_VALUE_NULL, ferry_group_set(group, "key", NULL, 1, 0));
    expect(FRY_REFUSED_DEADLINE, ferry_group_try_get(group, "key", -1));
    expect(FRY_REFUSED_DEADLINE, ferry_group_alive(group, INT64_MIN));
    expect(FRY_REFUSED_DEADLINE, ferry_group_step(group, 1, -1));
    expect(FRY_REFUSED_DEADLINE, ferry_group_event_next(group, -1));
}

static void try_barriers(ferry_group *group)
{
    ferry_rank members[2] = {0, 0};
    ferry_barrier_options options = FERRY_BARRIER_OPTIONS_INIT;
    expect(FRY_REFUSED_BARRIER_NAME, ferry_barrier(group, "a name", NULL));
    expect(FRY_REFUSED_BARRIER_NAME, ferry_barrier(group, "..", NULL));
    group->options.kind = FERRY_GROUP_OPEN; /* as if */
    expect(FRY_REFUSED_BARRIER_OPEN, ferry_barrier(group, "name", NULL));
    group->options.kind = FERRY_GROUP_CLOSED;
    options.struct_size = 1;
    expect(FRY_REFUSED_BARRIER_SIZE_OF, ferry_barrier(group, "name", &options));
    options.struct_size = sizeof options;
    options.member_count = 1;
    expect(FRY_REFUSED_BARRIER_MEMBERS, ferry_barrier(group, "name", &options));
    options.members = members;
    options.member_count = 2;
    expect(FRY_REFUSED_BARRIER_TWICE, ferry_barrier(group, "name", &options));
    members[1] = 2;
    expect(FRY_REFUSED_BARRIER_RANK, ferry_barrier(group, "name", &options));
    options.member_count = 1;
    members[0] = 1;
    expect(FRY_REFUSED_BARRIER_OWN, ferry_barrier(group, "name", &options));
    members[0] = 0;
    options.reserved = 1;
    expect(FRY_REFUSED_BARRIER_RESERVED, ferry_barrier(group, "name", &options));
    options.reserved = 0;
    options.deadline_ns = -1;
    expect(FRY_REFUSED_DEADLINE, ferry_barrier(group, "name", &options));
}

static void try_messages(const fake_engine *f, ferry_group *group, ferry_span span)
{
    ferry_buffer *there = own(gpu_buffer(f, 0, 1));
    expect(FRY_REFUSED_MESSAGE_RANK, ferry_send(group, 2, 0, span, NULL));
    expect(FRY_REFUSED_MESSAGE_DEVICE, ferry_recv(group, 1, 0, ferry_buffer_span(there), NULL));
    expect(FRY_REFUSED_SPAN_NULL, ferry_recv(group, 1, 0, ferry_buffer_span(NULL), NULL));
    ferry_span source = ferry_buffer_span(source_buffer());
    ferry_op_options plain = FERRY_OP_OPTIONS_INIT;
    expect(FRY_REFUSED_SPAN_SOURCE, ferry_recv(group, 1, 0, source, NULL));
    expect(FRY_REFUSED_SPAN_SOURCE, ferry_recv(group, 1, 0, source, &plain));
    expect(FRY_REFUSED_ANY_SOURCE_OFF, ferry_recv(group, FERRY_RANK_ANY, 0, span, NULL));
    expect(FRY_REFUSED_ANY_SOURCE_OFF, ferry_message_probe(group, 1, 0, NULL));
    expect(FRY_REFUSED_MESSAGE_RANK, ferry_send(group, FERRY_RANK_ANY, 0, span, NULL));
    ferry_future *sent = own(ferry_send(group, 1, 0, source, NULL));
    ASSERT_STATUS(ferry_future_poll(sent), FERRY_PENDING);
    (void)ferry_future_cancel(sent);
    OPENED_WITH(test_engine, other, FERRY_LOOP_EMBEDDED);
    ferry_op op = {.kind = FERRY_OP_SEND, .group = group};
    ferry_future *each[1];
    ferry_future_release(ferry_batch(other.engine, &op, sizeof op, 1, each, NULL));
    state.seen[FRY_REFUSED_GROUP_ENGINE] = true;
    cr_assert_str_eq(ferry_future_error(each[0])->message, text_of(FRY_REFUSED_GROUP_ENGINE));
    ferry_future_release(each[0]);
    settle(&other);
}

static void try_notices(ferry_group *group)
{
    static const char data[FERRY_NOTICE_BYTES_MAX + 1];
    expect(FRY_REFUSED_NOTICE_DATA, ferry_notice_send(group, 0, NULL, 1, NULL));
    expect(FRY_REFUSED_NOTICE_SIZE, ferry_notice_send(group, 0, data, sizeof data, NULL));
    expect(FRY_REFUSED_MESSAGE_RANK, ferry_notice_send(group, 2, data, 1, NULL));
    expect(FRY_REFUSED_DEADLINE, ferry_notice_next(group, -1));
}

static void try_windows(ferry_group *group, ferry_span span)
{
    ferry_window *window = NULL, *none = NULL, *theirs = NULL;
    ferry_window_rights get = FERRY_WINDOW_GET;
    expect(FRY_REFUSED_WINDOW_NULL, ferry_get(NULL, 0, span, NULL));
    expect(FRY_REFUSED_WINDOW_NULL, ferry_window_open(group, span, "w", get, NULL));
    expect(FRY_REFUSED_WINDOW_NAME, ferry_window_open(group, span, "a name", get, &none));
    expect(FRY_REFUSED_WINDOW_RIGHTS,
           ferry_window_open(group, span, "w", (ferry_window_rights)8, &none));
    expect(FRY_REFUSED_SPAN_EMPTY, ferry_window_open(group, (ferry_span){0}, "w", get, &none));
    expect(FRY_REFUSED_SPAN_SOURCE, ferry_window_open(group, ferry_buffer_span(source_buffer()),
                                                      "w", FERRY_WINDOW_PUT, &none));
    expect(FRY_REFUSED_WINDOW_RANK, ferry_window_find(group, 0, "w", 0, &none));
    expect(FRY_REFUSED_MESSAGE_RANK, ferry_window_find(group, 2, "w", 0, &none));
    expect(FRY_REFUSED_DEADLINE, ferry_window_find(group, 1, "w", -1, &none));
    cr_assert_null(none);
    ferry_future *open = own(ferry_window_open(group, span, "w", get, &window));
    expect(FRY_REFUSED_WINDOW_OWN, ferry_get(window, 0, span, NULL));
    ferry_future *find = own(ferry_window_find(group, 1, "w", 0, &theirs));
    while (ferry_future_poll(open) == FERRY_PENDING)
        (void)ferry_engine_progress(engine(), 0);
    /* What its owner would say: it has the right to get 16 bytes. */
    theirs->rights = FERRY_WINDOW_GET;
    theirs->size_bytes = 16;
    uint8_t life = theirs->life;
    theirs->life = FRY_WINDOW_USABLE;
    expect(FRY_REFUSED_WINDOW_RIGHT, ferry_put(theirs, 0, span, NULL));
    expect(FRY_REFUSED_WINDOW_OUTSIDE, ferry_get(theirs, 9, span, NULL));
    theirs->life = life;
    OPENED_WITH(test_engine, other, FERRY_LOOP_EMBEDDED);
    ferry_op op = {.kind = FERRY_OP_GET, .window = theirs};
    ferry_future *each[1];
    ferry_future_release(ferry_batch(other.engine, &op, sizeof op, 1, each, NULL));
    state.seen[FRY_REFUSED_WINDOW_ENGINE] = true;
    cr_assert_str_eq(ferry_future_error(each[0])->message, text_of(FRY_REFUSED_WINDOW_ENGINE));
    ferry_future_release(each[0]);
    settle(&other);
    ferry_future *close = own(ferry_window_close(theirs));
    while (ferry_future_poll(close) == FERRY_PENDING)
        (void)ferry_engine_progress(engine(), 0);
    ASSERT_STATUS(ferry_future_poll(find), FERRY_E_NOT_FOUND);
    expect(FRY_REFUSED_WINDOW_CLOSED, ferry_window_close(theirs));
    ferry_window_release(theirs);
    ferry_window_release(window);
}

/* A member alone, with any source. */
static void try_any_source(ferry_span span)
{
    ferry_group_options options = group_of(1);
    options.any_source_max = 1;
    ferry_group *group;
    ferry_future *join = own(ferry_group_join(engine(), &options, &group));
    expect(FRY_REFUSED_GROUP_NOT_JOINED, ferry_message_probe(group, 0, 0, NULL));
    while (ferry_future_poll(join) == FERRY_PENDING)
        (void)ferry_engine_progress(engine(), 0);
    ASSERT_STATUS(ferry_future_poll(join), FERRY_OK);
    ferry_op_options bad = FERRY_OP_OPTIONS_INIT;
    bad.struct_size = 1;
    expect(FRY_REFUSED_MESSAGE_TAG_ANY, ferry_send(group, 0, FERRY_TAG_ANY, span, NULL));
    expect(FRY_REFUSED_MESSAGE_RANK, ferry_send(group, FERRY_RANK_ANY, 0, span, NULL));
    expect(FRY_REFUSED_MESSAGE_RANK, ferry_message_probe(group, 1, 0, NULL));
    expect(FRY_REFUSED_MESSAGE_RANK, ferry_recv(group, FERRY_RANK_NONE, 0, span, NULL));
    expect(FRY_REFUSED_OPTIONS_SIZE, ferry_message_probe(group, 0, 0, &bad));
    /* As net_fenced leaves it. */
    ferry_future *open = own(ferry_recv(group, FERRY_RANK_ANY, 0, span, NULL));
    ASSERT_STATUS(ferry_future_poll(open), FERRY_PENDING);
    uint32_t life = group->life;
    group->life = FRY_GROUP_FENCED;
    group->has_any_news = true;
    while (ferry_future_poll(open) == FERRY_PENDING)
        (void)ferry_engine_progress(engine(), 0);
    ASSERT_STATUS(ferry_future_poll(open), FERRY_E_FENCED);
    expect(FRY_REFUSED_GROUP_FENCED, ferry_message_probe(group, 0, 0, NULL));
    group->life = life;
    ferry_future *left = own(ferry_group_leave(group));
    while (ferry_future_poll(left) == FERRY_PENDING)
        (void)ferry_engine_progress(engine(), 0);
    expect(FRY_REFUSED_GROUP_DEAD, ferry_message_probe(group, 0, 0, NULL));
    ferry_group_release(group);
}

/* Two members in one process; the first is the one that is looked at. */
static void try_groups(const fake_engine *f, ferry_span span)
{
    OWNED(test_engine_close) test_engine other;
    ferry_engine_options engine_options = test_engine_options(&other, FERRY_LOOP_EMBEDDED);
    engine_options.clock = NULL;
    test_engine_create(&other, &engine_options);
    ferry_group_options options = group_of(2);
    ferry_group *group, *others;
    ferry_future *joins[2] = {own(ferry_group_join(engine(), &options, &group)), NULL};
    expect(FRY_REFUSED_GROUP_NOT_JOINED, ferry_send(group, 0, 0, span, NULL));
    expect(FRY_REFUSED_GROUP_NOT_JOINED, ferry_group_get(group, "key", 0));
    options.rank = 1;
    options.has_rank = true;
    joins[1] = ferry_group_join(other.engine, &options, &others);
    while (ferry_future_poll(joins[0]) == FERRY_PENDING ||
           ferry_future_poll(joins[1]) == FERRY_PENDING) {
        (void)ferry_engine_progress(engine(), 0);
        (void)ferry_engine_progress(other.engine, 0);
    }
    ASSERT_STATUS(ferry_future_poll(joins[0]), FERRY_OK);
    try_values(group);
    try_barriers(group);
    try_messages(f, group, span);
    try_windows(group, span);
    try_notices(group);
    uint32_t life = group->life;
    group->life = FRY_GROUP_FENCED;
    expect(FRY_REFUSED_GROUP_FENCED, ferry_send(group, 1, 0, span, NULL));
    expect(FRY_REFUSED_GROUP_FENCED, ferry_group_get(group, "key", 0));
    group->life = life;
    ferry_future *left = own(ferry_group_leave(group));
    while (ferry_future_poll(left) == FERRY_PENDING)
        (void)ferry_engine_progress(engine(), 0);
    expect(FRY_REFUSED_GROUP_DEAD, ferry_recv(group, 1, 0, span, NULL));
    expect(FRY_REFUSED_GROUP_DEAD, ferry_barrier(group, "name", NULL));
    ferry_group_release(group);
    ferry_group_release(others);
    ferry_future_release(joins[1]);
}

/* ---- room ---- */

/* What waits for "p", until there is no room for more. */
static ferry_future *fill(const ferry_access *access)
{
    ferry_future *after = the_future("p");
    ferry_op_options options = behind(&after, 1);
    options.accesses = access;
    options.access_count = access != NULL;
    for (int i = 0; i < 1000; i++) {
        ferry_future *nop = ferry_nop(engine(), &options);
        if (ferry_future_poll(nop) != FERRY_PENDING)
            return nop;
        ferry_future_release(nop);
    }
    return NULL;
}

static void try_room(fry_refusal why, uint32_t nodes, uint64_t edges, uint64_t accesses)
{
    ferry_engine_options *options = scene_options(FERRY_LOOP_EMBEDDED);
    options->max_nodes = nodes;
    options->max_edges = edges;
    options->max_accesses = accesses;
    play("buffer b 4096; promise p");
    if (why == FRY_REFUSED_MAX_ACCESSES) {
        /* They stay in the inbox, where their spans are all that they have taken. */
        ferry_access access = {the_span("b[0:1]"), FERRY_READ};
        cr_assert(fry_baton_take(&engine()->baton));
        expect(why, fill(&access));
        fry_baton_give(&engine()->baton);
    } else {
        expect(why, fill(NULL));
    }
    play("keep p; settle");
    scene_end();
}

static void try_memory(void)
{
    ferry_op op = {.kind = FERRY_OP_NOP};
    ferry_future *each[1];
    failing_allocator_arm(&scene()->memory, 1, true);
    expect(FRY_REFUSED_NO_MEMORY, ferry_nop(engine(), NULL));
    expect(FRY_REFUSED_NO_MEMORY, ferry_engine_writable(engine()));
    expect(FRY_REFUSED_NO_MEMORY, batch_of(&op, sizeof op, each));
    expect(FRY_REFUSED_NO_MEMORY, each[0]);
    failing_allocator_arm(&scene()->memory, 0, false);
    scene_end();
}

static void try_writables(void)
{
    enum { KEPT = 16 };
    scene_options(FERRY_LOOP_EMBEDDED)->max_nodes = 1;
    for (int i = 0; i < KEPT; i++) {
        play("n = nop");
        expect(FRY_REFUSED_MAX_NODES, ferry_nop(engine(), NULL));
        play("w%d = writable; now w%d PENDING; release n; settle; now w%d OK", i, i, i);
    }
    play("n = nop");
    expect(FRY_REFUSED_MAX_NODES, ferry_nop(engine(), NULL));
    expect(FRY_REFUSED_WRITABLES, ferry_engine_writable(engine()));
    scene_end();
}

/* A copy of rows that the engine has no room for, ever. */
static void try_rows_without_room(void)
{
    ferry_engine_options *options = scene_options(FERRY_LOOP_EMBEDDED);
    options->max_accesses = 16;
    options->log = take_line;
    play("buffer a 4096; buffer b 4096 on 1");
    expect(FRY_REFUSED_ROWS_ROOM, rows(the_span("a[0:8]"), 16, the_span("b[0:8]"), 16, 9));
    scene_end();
}

/* ---- all of them ---- */

static void try_what_one_engine_has(void)
{
    fake_engine f;
    ferry_engine_options *options = scene_options(FERRY_LOOP_EMBEDDED);
    options->clock = NULL; /* members' leases go by it */
    options->log = take_line;
    f.te.engine = engine();
    fake_engine_attach(&f, &(fake_options){.outside_count = 4, .is_polled = true});
    play("buffer a 4096 of 1; buffer b 4096 of 2 on 1");
    try_engines();
    try_options();
    try_copies(&f);
    try_sources();
    try_rows();
    try_backends(&f);
    try_functions();
    try_queues();
    try_scopes();
    try_batches();
    try_events(&f);
    try_joins();
    try_groups(&f, the_span("a[0:8]"));
    try_any_source(the_span("a[0:8]"));
    scene_end();
    cr_assert_null(fake_complaint(f.world), "%s", fake_complaint(f.world));
    fake_world_destroy(f.world);
}

Test(engine_refusals, each_reason_is_given_for_its_cause)
{
    try_what_one_engine_has();
    try_rows_without_room();
    try_room(FRY_REFUSED_MAX_NODES, 4, 64, 64);
    try_room(FRY_REFUSED_MAX_EDGES, 100, 16, 64);
    try_room(FRY_REFUSED_MAX_ACCESSES, 100, 200, 24);
    try_memory();
    try_writables();
    join_without_descriptors();
    /* Of no reason, engine_messages, api.any_source, engine_refused_writes, api.batch_notices. */
    state.seen[FRY_TAKEN] = state.seen[FRY_REFUSED_UNEXPECTED_MAX] = true;
    state.seen[FRY_REFUSED_ANY_SOURCE_MAX] = state.seen[FRY_REFUSED_ANY_SOURCE_ALONE] = true;
    state.seen[FRY_REFUSED_BARRED] = state.seen[FRY_REFUSED_BATCH_NOTICE] = true;
    for (int why = FRY_REFUSED_PLAN_NULL; why <= FRY_REFUSED_PLAN_ACCESSES; why++)
        state.seen[why] = true; /* engine_plans */
    for (int why = FRY_REFUSED_SYMMETRIC_NULL; why <= FRY_REFUSED_SYMMETRIC_NAMES; why++)
        state.seen[why] = true; /* engine_symmetric */
    for (int why = 0; why < FRY_REFUSALS; why++)
        cr_expect(state.seen[why], "nothing was refused since \"%s\"", text_of((fry_refusal)why));
}

/* It is what it is called: a sentence, in no two ways. */
Test(engine_refusals, are_sentences_of_their_own)
{
    for (int why = 1; why < FRY_REFUSALS; why++) {
        const char *text = text_of((fry_refusal)why);
        cr_assert_gt(strlen(text), 8);
        cr_assert_lt(fry_refusal_status((fry_refusal)why), 0);
        for (int other = 1; other < why; other++)
            cr_assert_str_neq(text, text_of((fry_refusal)other));
    }
}

/* Who fails for its sake says so. */
Test(engine_refusals, are_the_cause_of_what_depends_on_them)
{
    static const char *const names[] = {"n", "i", "a"};
    cr_assert(scene_own_as(SCENE_FUTURE, ferry_future_any(engine(), NULL, 0), "refused"));
    play("n = nop after refused; i = issued refused; a = all refused; settle;"
         "now n i a DEPENDENCY");
    for (size_t i = 0; i < 3; i++)
        cr_assert_eq(ferry_future_error(the_future("%s", names[i]))->cause,
                     &fry_refusal_error(FRY_REFUSED_ANY_COUNT)->public_);
    play("q = quiet refused; now q OK");
}

/* What a refused write would have written is poisoned by that very reason. */
Test(engine_refusals, are_the_cause_of_who_reads_what_was_not_written)
{
    scene_options(FERRY_LOOP_EMBEDDED)->max_nodes = 1;
    play("buffer a 4096 of 1; buffer b 4096 of 2 on 1; promise p"); /* the one node */
    expect(FRY_REFUSED_MAX_NODES, copy(the_span("b"), the_span("a")));
    play("keep p; release p; settle; reader = copy a <- b; settle; now reader DEPENDENCY");
    cr_assert_str_eq(ferry_future_error(the_future("reader"))->cause->message,
                     text_of(FRY_REFUSED_MAX_NODES));
}
