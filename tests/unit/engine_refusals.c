/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every reason for which a call is refused, by what causes it: the future's status, its error's
 * sentence, the same in the log; and what depends on it names it as cause. A reason that no cause
 * here gives fails the test.
 */
#include "engine/buffer.h"
#include "engine/engine.h"
#include "engine/ground.h"
#include "engine/groups.h"
#include "engine/lane.h"
#include "engine/refusal.h"
#include "tests/support/member_test.h"
#include "tests/support/owned.h"
#include "tests/unit/fake_engine.h"

#include <sys/resource.h>
#include <unistd.h>

TestSuite(engine_refusals, .timeout = HANG_S);

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

static void try_engines(ferry_engine *engine)
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
    expect(FRY_REFUSED_GROUP_NULL, ferry_group_leave(NULL));
    expect(FRY_REFUSED_DEVICE_NULL, ferry_event_record(NULL, NULL));
    ASSERT_STATUS(ferry_engine_shutdown(other.engine, -1), FERRY_OK);
    expect(FRY_REFUSED_SHUTDOWN, ferry_nop(other.engine, NULL));
    expect(FRY_REFUSED_SHUTDOWN, ferry_engine_drain(other.engine));
    test_engine_close(&other);
    fry_fork_generation++; /* as in a fork's child */
    expect(FRY_REFUSED_FORKED, ferry_nop(engine, NULL));
    fry_fork_generation--;
}

/* ---- options ---- */

static ferry_op_options none(void)
{
    return (ferry_op_options)FERRY_OP_OPTIONS_INIT;
}

static void try_options(const test_engine *te, ferry_buffer *buffer)
{
    ferry_engine *engine = te->engine;
    ferry_op_options options = none();
    options.struct_size = 3;
    expect(FRY_REFUSED_OPTIONS_SIZE, ferry_nop(engine, &options));
    options = none();
    options.after_count = 1;
    expect(FRY_REFUSED_AFTER_ARRAY, ferry_nop(engine, &options));
    ferry_future *nothing = NULL;
    options.after = &nothing;
    expect(FRY_REFUSED_AFTER_NULL, ferry_nop(engine, &options));
    expect(FRY_REFUSED_AFTER_NULL, ferry_future_all(engine, &nothing, 1));
    options.after_count = engine->after_count_max + 1;
    expect(FRY_REFUSED_AFTER_COUNT, ferry_nop(engine, &options));
    options = none();
    options.access_count = 1;
    expect(FRY_REFUSED_ACCESS_ARRAY, ferry_nop(engine, &options));
    ferry_access access = {span_of(buffer, 0, 1), (ferry_access_mode)4};
    options.accesses = &access;
    expect(FRY_REFUSED_ACCESS_MODE, ferry_nop(engine, &options));
    options.access_count = engine->span_count_max;
    expect(FRY_REFUSED_ACCESS_COUNT, ferry_nop(engine, &options));
    options = none();
    options.priority = (ferry_priority)2;
    expect(FRY_REFUSED_PRIORITY, ferry_nop(engine, &options));
    options = none();
    options.reserved = 1;
    expect(FRY_REFUSED_OPTIONS_RESERVED, ferry_nop(engine, &options));
}

/* ---- spans and copies ---- */

static ferry_future *copy(const test_engine *te, ferry_span dst, ferry_span src)
{
    return ferry_copy(te->engine, dst, src, NULL);
}

static void try_copies(const fake_engine *f, ferry_buffer *a, ferry_buffer *b)
{
    const test_engine *te = &f->te;
    OPENED_WITH(test_engine, other, FERRY_LOOP_EMBEDDED);
    ferry_buffer *theirs = test_buffer(&other, 0, SIZE, 0);
    ferry_future *their_nop = ferry_nop(other.engine, NULL);
    ferry_span good = span_of(a, 0, 16);
    expect(FRY_REFUSED_SPAN_NULL, copy(te, good, span_of(NULL, 0, 16)));
    expect(FRY_REFUSED_SPAN_NULL, copy(te, ferry_buffer_span(NULL), ferry_buffer_span(NULL)));
    expect(FRY_REFUSED_SPAN_ENGINE, copy(te, good, span_of(theirs, 0, 16)));
    expect(FRY_REFUSED_SPAN_OUTSIDE, copy(te, good, span_of(b, SIZE - 15, 16)));
    expect(FRY_REFUSED_SPAN_OUTSIDE, copy(te, span_of(b, SIZE + 1, 16), good));
    expect(FRY_REFUSED_COPY_SIZES, copy(te, good, span_of(b, 0, 15)));
    expect(FRY_REFUSED_COPY_OVERLAP, copy(te, good, span_of(a, 15, 16)));
    expect_logged(FRY_REFUSED_SPAN_EMPTY, ferry_buffer_define(span_of(a, 0, 0), NULL));
    expect_logged(FRY_REFUSED_SPAN_OUTSIDE, ferry_buffer_define(span_of(a, 1, SIZE), NULL));
    expect(FRY_REFUSED_AFTER_ENGINE, nop_after(te, their_nop));
    expect_logged(FRY_REFUSED_AFTER_ENGINE, ferry_buffer_define(good, their_nop));
    expect_logged(FRY_REFUSED_WAIT_ENGINE,
                  ferry_future_stream_wait(their_nop, f->devices[0], NULL));
    ferry_buffer_release(theirs);
    ferry_future_release(their_nop);
    settle(&other);
}

static ferry_future *rows(const test_engine *te, ferry_span dst, size_t dst_pitch, ferry_span src,
                          size_t src_pitch, size_t count)
{
    return ferry_copy_rows(te->engine, dst, dst_pitch, src, src_pitch, count, NULL);
}

static void try_rows(const test_engine *te, ferry_buffer *a, ferry_buffer *b)
{
    ferry_span to = span_of(a, 0, 16), from = span_of(b, 0, 16);
    expect(FRY_REFUSED_ROWS_PITCH, rows(te, to, 15, from, 16, 2));
    expect(FRY_REFUSED_ROWS_OVERFLOW, rows(te, to, SIZE_MAX / 2, from, 16, 4));
    expect(FRY_REFUSED_ROWS_OUTSIDE, rows(te, to, 64, from, 64, SIZE / 64 + 1));
    expect(FRY_REFUSED_COPY_SIZES, rows(te, to, 64, span_of(b, 0, 15), 64, 2));
    expect(FRY_REFUSED_COPY_OVERLAP, rows(te, to, 64, span_of(a, 128, 16), 64, 3));
    ferry_buffer *large[2];
    for (size_t i = 0; i < 2; i++)
        large[i] = test_buffer(te, i, (size_t)2 * 65537, 0);
    expect(FRY_REFUSED_ROWS_COUNT,
           rows(te, span_of(large[0], 0, 1), 2, span_of(large[1], 0, 1), 2, 65537));
    ferry_buffer_release(large[0]);
    ferry_buffer_release(large[1]);
}

/* Between GPUs of two makers. */
static void try_backends(const fake_engine *f)
{
    ferry_buffer *here = gpu_buffer(f, 0, 1), *there = gpu_buffer(f, 1, 2);
    fry_device *device = f->devices[1]->device;
    const fry_device_ops *ops = device->ops;
    fry_device_ops others = *ops;
    others.backend = "other";
    device->ops = &others;
    expect(FRY_REFUSED_COPY_BACKENDS, gpu_copy(f, here, there));
    expect(FRY_REFUSED_COPY_BACKENDS,
           rows(&f->te, span_of(here, 0, 8), 16, span_of(there, 0, 8), 16, 2));
    device->ops = ops;
    ferry_buffer_release(here);
    ferry_buffer_release(there);
}

/* ---- functions, futures of futures, batches ---- */

static void try_functions(const test_engine *te)
{
    ferry_executor executor = {.struct_size = sizeof executor};
    expect(FRY_REFUSED_CALL_FN, ferry_call(te->engine, NULL, NULL, NULL, NULL));
    expect(FRY_REFUSED_EXECUTOR, ferry_call(te->engine, &executor, fail_call, NULL, NULL));
    ferry_future *nop = ferry_nop(te->engine, NULL);
    ferry_waiter waiter = FERRY_WAITER_INIT(count_ready, NULL);
    waiter.executor = &executor;
    expect_logged(FRY_REFUSED_EXECUTOR, ferry_future_on_ready(nop, &waiter));
    ferry_future_release(nop);
    expect(FRY_REFUSED_COMBINE_ARRAY, ferry_future_all(te->engine, NULL, 1));
    expect(FRY_REFUSED_COMBINE_COUNT,
           ferry_future_all(te->engine, &nop, te->engine->after_count_max + 1));
    expect(FRY_REFUSED_ANY_COUNT, ferry_future_any(te->engine, NULL, 0));
}

static ferry_future *batch_of(const test_engine *te, const ferry_op *op, size_t op_size_bytes,
                              ferry_future **each)
{
    return ferry_batch(te->engine, op, op_size_bytes, 1, each, NULL);
}

static void try_batches(const test_engine *te, ferry_buffer *buffer)
{
    struct {
        ferry_op op;
        uint64_t more;
    } later = {{.kind = FERRY_OP_NOP}, 1};
    ferry_op op = {.kind = FERRY_OP_NOP};
    ferry_access access = {ferry_buffer_span(buffer), FERRY_READ};
    ferry_op_options options = none();
    ferry_future *each[1];
    expect(FRY_REFUSED_BATCH_ARRAY, batch_of(te, NULL, sizeof op, NULL));
    expect(FRY_REFUSED_BATCH_COUNT,
           ferry_batch(te->engine, &op, sizeof op, ((size_t)1 << 20) + 1, NULL, NULL));
    expect(FRY_REFUSED_BATCH_OP_SIZE, batch_of(te, &op, 0, NULL));
    expect(FRY_REFUSED_BATCH_OP_SIZE, batch_of(te, &op, 4097, NULL));
    options.accesses = &access;
    options.access_count = 1;
    expect(FRY_REFUSED_BATCH_ACCESSES, ferry_batch(te->engine, &op, sizeof op, 1, NULL, &options));
    /* Of one operation the batch's future has the reason as cause. */
    ferry_future *batch = batch_of(te, &later.op, sizeof later, each);
    expect(FRY_REFUSED_BATCH_OP_TAIL, each[0]);
    ASSERT_STATUS(ferry_future_poll(batch), FERRY_E_DEPENDENCY);
    cr_assert_str_eq(ferry_future_error(batch)->cause->message, text_of(FRY_REFUSED_BATCH_OP_TAIL));
    ferry_future_release(batch);
    op.kind = FERRY_OP_DRAIN;
    batch = batch_of(te, &op, sizeof op, each);
    expect(FRY_REFUSED_BATCH_OP_KIND, each[0]);
    ferry_future_release(batch);
}

/* ---- room ---- */

/* What waits for the promise, until there is no room for more. */
static ferry_future *fill(const test_engine *te, const ferry_op_options *options)
{
    for (int i = 0; i < 1000; i++) {
        ferry_future *nop = ferry_nop(te->engine, options);
        if (ferry_future_poll(nop) != FERRY_PENDING)
            return nop;
        ferry_future_release(nop);
    }
    return NULL;
}

static void try_room(fry_refusal why, uint32_t nodes, uint64_t edges, uint64_t accesses)
{
    OWNED(test_engine_close) test_engine te;
    ferry_engine_options engine_options = test_engine_options(&te, FERRY_LOOP_EMBEDDED);
    engine_options.max_nodes = nodes;
    engine_options.max_edges = edges;
    engine_options.max_accesses = accesses;
    test_engine_create(&te, &engine_options);
    ferry_buffer *buffer = test_buffer(&te, 0, SIZE, 0);
    ferry_promise *promise = test_promise(&te);
    ferry_future *after = ferry_promise_future(promise);
    ferry_access access = {span_of(buffer, 0, 1), FERRY_READ};
    ferry_op_options options = none();
    options.after = &after;
    options.after_count = 1;
    if (why == FRY_REFUSED_MAX_ACCESSES) {
        /* They stay in the inbox, where their spans are all that they have taken. */
        cr_assert(fry_baton_take(&te.engine->baton));
        options.accesses = &access;
        options.access_count = 1;
    }
    expect(why, fill(&te, &options));
    if (why == FRY_REFUSED_MAX_ACCESSES)
        fry_baton_give(&te.engine->baton);
    keep_promise(promise, FERRY_OK);
    ferry_future_release(after);
    settle(&te);
    ferry_buffer_release(buffer);
}

static void try_memory(void)
{
    OPENED_WITH(test_engine, te, FERRY_LOOP_EMBEDDED);
    failing_allocator_arm(&te.memory, 1, true);
    ferry_op op = {.kind = FERRY_OP_NOP};
    ferry_future *each[1];
    expect(FRY_REFUSED_NO_MEMORY, ferry_nop(te.engine, NULL));
    expect(FRY_REFUSED_NO_MEMORY, ferry_engine_writable(te.engine));
    expect(FRY_REFUSED_NO_MEMORY, ferry_batch(te.engine, &op, sizeof op, 1, each, NULL));
    expect(FRY_REFUSED_NO_MEMORY, each[0]);
    failing_allocator_arm(&te.memory, 0, false);
}

static void try_writables(void)
{
    enum { KEPT = 16 };
    OWNED(test_engine_close) test_engine te;
    ferry_engine_options engine_options = test_engine_options(&te, FERRY_LOOP_EMBEDDED);
    engine_options.max_nodes = 1;
    test_engine_create(&te, &engine_options);
    ferry_future *kept[KEPT];
    for (int i = 0; i < KEPT; i++) {
        ferry_future *nop = ferry_nop(te.engine, NULL);
        expect(FRY_REFUSED_MAX_NODES, ferry_nop(te.engine, NULL));
        kept[i] = ferry_engine_writable(te.engine);
        ASSERT_STATUS(ferry_future_poll(kept[i]), FERRY_PENDING);
        ferry_future_release(nop);
        settle(&te);
        ASSERT_STATUS(ferry_future_poll(kept[i]), FERRY_OK);
    }
    ferry_future *nop = ferry_nop(te.engine, NULL);
    expect(FRY_REFUSED_MAX_NODES, ferry_nop(te.engine, NULL));
    expect(FRY_REFUSED_WRITABLES, ferry_engine_writable(te.engine));
    for (int i = 0; i < KEPT; i++)
        ferry_future_release(kept[i]);
    ferry_future_release(nop);
    settle(&te);
}

/* A copy of rows that the engine has no room for, ever. */
static void try_rows_without_room(void)
{
    OWNED(test_engine_close) test_engine te;
    ferry_engine_options engine_options = test_engine_options(&te, FERRY_LOOP_EMBEDDED);
    engine_options.max_accesses = 16;
    engine_options.log = take_line;
    test_engine_create(&te, &engine_options);
    ferry_buffer *a = test_buffer(&te, 0, SIZE, 0), *b = test_buffer(&te, 1, SIZE, 0);
    expect(FRY_REFUSED_ROWS_ROOM, rows(&te, span_of(a, 0, 8), 16, span_of(b, 0, 8), 16, 9));
    ferry_buffer_release(a);
    ferry_buffer_release(b);
    settle(&te);
}

/* ---- outside events ---- */

static void try_events(const fake_engine *f, ferry_device *host)
{
    int elsewhere;
    fake_user_event event = {true};
    void *stream = fake_user_stream(f->gpus[0], 0);
    expect(FRY_REFUSED_EVENT_NULL, ferry_event_wrap(f->devices[0], NULL, stream));
    expect(FRY_REFUSED_EVENT_DEVICE, ferry_event_record(host, NULL));
    expect(FRY_REFUSED_EVENT_DEVICE, ferry_event_wrap(host, &event, NULL));
    ferry_future *invalid = ferry_event_record(f->devices[0], &elsewhere);
    state.seen[FRY_REFUSED_EVENT_INVALID] = true; /* the log has the driver's words */
    cr_assert_str_eq(ferry_future_error(invalid)->message, text_of(FRY_REFUSED_EVENT_INVALID));
    ferry_future_release(invalid);
    fake_user_capture(f->gpus[0], stream, true);
    expect(FRY_REFUSED_EVENT_CAPTURE, ferry_event_record(f->devices[0], stream));
    fake_user_capture(f->gpus[0], stream, false);
    fake_refuse_event(f->gpus[0], FERRY_E_AGAIN);
    expect(FRY_REFUSED_EVENT_AGAIN, ferry_event_record(f->devices[0], stream));
    ferry_future *nop = ferry_nop(f->te.engine, NULL);
    expect_logged(FRY_REFUSED_EVENT_DEVICE, ferry_future_stream_wait(nop, host, NULL));
    ferry_future_release(nop);
}

/* ---- groups ---- */

static ferry_group_options group_of(uint32_t size)
{
    ferry_group_options options = FERRY_GROUP_OPTIONS_INIT;
    options.store = "mem:refusals";
    options.job = "job";
    options.size = size;
    options.rank = 0;
    return options;
}

static void expect_join(fry_refusal why, ferry_engine *engine, const ferry_group_options *options)
{
    ferry_group *group = (ferry_group *)(void *)&state;
    expect(why, ferry_group_join(engine, options, &group));
    cr_assert_null(group);
}

#define TRY_JOIN(why_, field_, value_)                                                             \
    do {                                                                                           \
        ferry_group_options options_ = group_of(1);                                                \
        options_.field_ = (value_);                                                                \
        expect_join(FRY_REFUSED_##why_, engine, &options_);                                        \
    } while (0)

static void try_joins(ferry_engine *engine)
{
    static char endless[5000];
    memset(endless, 'x', sizeof endless - 1);
    ferry_group_options options = group_of(1);
    expect(FRY_REFUSED_JOIN_NULL, ferry_group_join(engine, &options, NULL));
    expect_join(FRY_REFUSED_JOIN_NULL, engine, NULL);
    TRY_JOIN(JOIN_SIZE_OF, struct_size, 1);
    TRY_JOIN(JOIN_STORE, store, NULL);
    TRY_JOIN(JOIN_STORE, store, endless);
    TRY_JOIN(JOIN_JOB, job, "a job");
    TRY_JOIN(JOIN_JOB_DOTS, job, "..");
    TRY_JOIN(JOIN_PLACE, place, "");
    TRY_JOIN(JOIN_PLACE_NONE, place, "-");
    TRY_JOIN(JOIN_SIZE_MAX, size, 4097);
    options = group_of(0);
    options.size_min = 1;
    expect_join(FRY_REFUSED_JOIN_SIZE_DEADLINE, engine, &options);
    options.rank = 0;
    options.deadline_ns = INT64_MAX;
    expect_join(FRY_REFUSED_JOIN_RANK_OF_ANY, engine, &options);
    TRY_JOIN(JOIN_RANK, rank, 1);
    TRY_JOIN(JOIN_RANK, rank, -2);
    TRY_JOIN(JOIN_SECRET_SIZE, secret, "short");
    TRY_JOIN(JOIN_SECRET_NULL, secret_bytes, 16);
    TRY_JOIN(JOIN_DEVICES, device_count, 65536);
    TRY_JOIN(JOIN_LEASE, lease_ns, 1999999999);
    TRY_JOIN(JOIN_TEXT, network, endless);
    TRY_JOIN(JOIN_TEXT, store_key_path, endless);
    TRY_JOIN(JOIN_MESSAGES, window_messages, (1u << 24) + 1);
    TRY_JOIN(JOIN_MESSAGES, unexpected_max, (1u << 24) + 1);
    TRY_JOIN(JOIN_WINDOW, window_bytes, SIZE_MAX);
    TRY_JOIN(DEADLINE, deadline_ns, -1);
}

/* As many descriptors as are open, and no more: the join is taken, and fails. */
static void join_without_descriptors(void)
{
    OPENED_WITH(test_engine, te, FERRY_LOOP_EMBEDDED);
    int next = dup(0);
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    struct rlimit few = {.rlim_cur = (rlim_t)next, .rlim_max = limit.rlim_max};
    (void)close(next);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    ferry_group_options options = group_of(1);
    ferry_group *group = NULL;
    ferry_future *join = ferry_group_join(te.engine, &options, &group);
    while (ferry_future_poll(join) == FERRY_PENDING)
        (void)ferry_engine_progress(te.engine, 0);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ASSERT_STATUS(ferry_future_poll(join), FERRY_E_SYSTEM);
    ferry_future_release(join);
    ferry_group_release(group);
}

static void try_values(ferry_group *group)
{
    static char data[65537];
    expect(FRY_REFUSED_KEY, ferry_group_get(group, "a key", 0));
    expect(FRY_REFUSED_KEY, ferry_group_set(group, NULL, "", 0, 0));
    expect(FRY_REFUSED_KEY, ferry_group_watch(group, "", 0, 0));
    expect(FRY_REFUSED_VALUE_SIZE, ferry_group_set(group, "key", data, sizeof data, 0));
    expect(FRY_REFUSED_VALUE_NULL, ferry_group_set(group, "key", NULL, 1, 0));
    expect(FRY_REFUSED_DEADLINE, ferry_group_try_get(group, "key", -1));
    expect(FRY_REFUSED_DEADLINE, ferry_group_alive(group, INT64_MIN));
    expect(FRY_REFUSED_DEADLINE, ferry_group_step(group, 1, -1));
}

static void try_barriers(ferry_group *group)
{
    ferry_peer members[2] = {0, 0};
    ferry_barrier_options options = FERRY_BARRIER_OPTIONS_INIT;
    expect(FRY_REFUSED_BARRIER_NAME, ferry_barrier(group, "a name", NULL));
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
    ferry_buffer *there = gpu_buffer(f, 0, 1);
    expect(FRY_REFUSED_MESSAGE_RANK, ferry_send(group, 2, 0, span, NULL));
    expect(FRY_REFUSED_MESSAGE_DEVICE, ferry_recv(group, 1, 0, ferry_buffer_span(there), NULL));
    expect(FRY_REFUSED_SPAN_NULL, ferry_recv(group, 1, 0, ferry_buffer_span(NULL), NULL));
    ferry_buffer_release(there);
    OPENED_WITH(test_engine, other, FERRY_LOOP_EMBEDDED);
    ferry_op op = {.kind = FERRY_OP_SEND, .group = group};
    ferry_future *each[1];
    ferry_future_release(batch_of(&other, &op, sizeof op, each));
    state.seen[FRY_REFUSED_GROUP_ENGINE] = true;
    cr_assert_str_eq(ferry_future_error(each[0])->message, text_of(FRY_REFUSED_GROUP_ENGINE));
    ferry_future_release(each[0]);
    settle(&other);
}

/* Two members in one process; the first is the one that is looked at. */
static void try_groups(const fake_engine *f, ferry_span span)
{
    ferry_engine *engine = f->te.engine;
    OWNED(test_engine_close) test_engine other;
    ferry_engine_options engine_options = test_engine_options(&other, FERRY_LOOP_EMBEDDED);
    engine_options.clock = NULL;
    test_engine_create(&other, &engine_options);
    ferry_group_options options = group_of(2);
    ferry_group *group, *others;
    ferry_future *joins[2] = {ferry_group_join(engine, &options, &group), NULL};
    expect(FRY_REFUSED_GROUP_NOT_JOINED, ferry_send(group, 0, 0, span, NULL));
    expect(FRY_REFUSED_GROUP_NOT_JOINED, ferry_group_get(group, "key", 0));
    options.rank = 1;
    joins[1] = ferry_group_join(other.engine, &options, &others);
    while (ferry_future_poll(joins[0]) == FERRY_PENDING ||
           ferry_future_poll(joins[1]) == FERRY_PENDING) {
        (void)ferry_engine_progress(engine, 0);
        (void)ferry_engine_progress(other.engine, 0);
    }
    ASSERT_STATUS(ferry_future_poll(joins[0]), FERRY_OK);
    try_values(group);
    try_barriers(group);
    try_messages(f, group, span);
    uint32_t life = group->life;
    group->life = FRY_GROUP_FENCED;
    expect(FRY_REFUSED_GROUP_FENCED, ferry_send(group, 1, 0, span, NULL));
    expect(FRY_REFUSED_GROUP_FENCED, ferry_group_get(group, "key", 0));
    group->life = life;
    ferry_future *left = ferry_group_leave(group);
    while (ferry_future_poll(left) == FERRY_PENDING)
        (void)ferry_engine_progress(engine, 0);
    expect(FRY_REFUSED_GROUP_DEAD, ferry_recv(group, 1, 0, span, NULL));
    expect(FRY_REFUSED_GROUP_DEAD, ferry_barrier(group, "name", NULL));
    ferry_future_release(left);
    ferry_group_release(group);
    ferry_group_release(others);
    for (int i = 0; i < 2; i++)
        ferry_future_release(joins[i]);
}

/* ---- all of them ---- */

Test(engine_refusals, each_reason_is_given_for_its_cause)
{
    OWNED(fake_engine_close) fake_engine f;
    ferry_engine_options options = test_engine_options(&f.te, FERRY_LOOP_EMBEDDED);
    options.clock = NULL; /* members' leases go by it */
    options.log = take_line;
    test_engine_create(&f.te, &options);
    fake_engine_attach(&f, &(fake_options){.outside_count = 4, .is_polled = true});
    ferry_buffer *a = test_buffer(&f.te, 0, SIZE, 1), *b = test_buffer(&f.te, 1, SIZE, 2);
    try_engines(f.te.engine);
    try_options(&f.te, a);
    try_copies(&f, a, b);
    try_rows(&f.te, a, b);
    try_rows_without_room();
    try_backends(&f);
    try_functions(&f.te);
    try_batches(&f.te, a);
    try_room(FRY_REFUSED_MAX_NODES, 4, 64, 64);
    try_room(FRY_REFUSED_MAX_EDGES, 100, 16, 64);
    try_room(FRY_REFUSED_MAX_ACCESSES, 100, 200, 24);
    try_memory();
    try_writables();
    try_events(&f, ferry_device_at(f.te.engine, 0));
    try_joins(f.te.engine);
    join_without_descriptors();
    try_groups(&f, span_of(a, 0, 8));
    state.seen[FRY_TAKEN] = true;                  /* is no reason */
    state.seen[FRY_REFUSED_UNEXPECTED_MAX] = true; /* as one enters: engine_messages */
    state.seen[FRY_REFUSED_BARRED] = true;         /* engine_refused_writes */
    for (int why = 0; why < FRY_REFUSALS; why++)
        cr_expect(state.seen[why], "nothing was refused since \"%s\"", text_of((fry_refusal)why));
    ferry_buffer_release(a);
    ferry_buffer_release(b);
    settle(&f.te);
}

/* It is what it is called: a sentence, in no two ways. */
Test(engine_refusals, are_sentences_of_their_own)
{
    for (int why = 1; why < FRY_REFUSALS; why++) {
        const char *text = text_of((fry_refusal)why);
        cr_assert_gt(strlen(text), 8);
        cr_assert_lt(fry_refusal_status((fry_refusal)why), 0);
        for (int other = 1; other < why; other++)
            cr_assert(strcmp(text, text_of((fry_refusal)other)) != 0 ||
                          (why == FRY_REFUSED_BARRIER_NAME && other == FRY_REFUSED_JOIN_JOB),
                      "\"%s\" twice", text);
    }
}

/* Who fails for its sake says so. */
Test(engine_refusals, are_the_cause_of_what_depends_on_them)
{
    OPENED_WITH(test_engine, te, FERRY_LOOP_EMBEDDED);
    ferry_future *refused = ferry_future_any(te.engine, NULL, 0);
    ferry_future *nop = nop_after(&te, refused), *issued = ferry_future_issued(refused);
    ferry_future *all = ferry_future_all(te.engine, &refused, 1);
    ferry_future *const futures[] = {nop, issued, all};
    settle(&te);
    for (size_t i = 0; i < 3; i++) {
        ASSERT_STATUS(ferry_future_poll(futures[i]), FERRY_E_DEPENDENCY);
        cr_assert_eq(ferry_future_error(futures[i])->cause,
                     &fry_refusal_error(FRY_REFUSED_ANY_COUNT)->public_);
        ferry_future_release(futures[i]);
    }
    ferry_future *quiet = ferry_future_quiet(refused);
    ASSERT_STATUS(status_of(quiet), FERRY_OK);
    ferry_future_release(refused);
}

/* What a refused write would have written is poisoned by that very reason. */
Test(engine_refusals, are_the_cause_of_who_reads_what_was_not_written)
{
    OWNED(test_engine_close) test_engine te;
    ferry_engine_options options = test_engine_options(&te, FERRY_LOOP_EMBEDDED);
    options.max_nodes = 1;
    test_engine_create(&te, &options);
    ferry_buffer *a = test_buffer(&te, 0, SIZE, 1), *b = test_buffer(&te, 1, SIZE, 2);
    ferry_promise *promise = test_promise(&te); /* the one node */
    expect(FRY_REFUSED_MAX_NODES, copy(&te, ferry_buffer_span(b), ferry_buffer_span(a)));
    keep_promise(promise, FERRY_OK);
    settle(&te);
    ferry_future *reader = copy(&te, ferry_buffer_span(a), ferry_buffer_span(b));
    settle(&te);
    ASSERT_STATUS(ferry_future_poll(reader), FERRY_E_DEPENDENCY);
    cr_assert_str_eq(ferry_future_error(reader)->cause->message, text_of(FRY_REFUSED_MAX_NODES));
    ferry_future_release(reader);
    ferry_buffer_release(a);
    ferry_buffer_release(b);
    settle(&te);
}
