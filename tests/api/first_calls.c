/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread's first call on an engine takes memory, whichever call it is. Here each function is the
 * first call of a new thread while the allocator fails: it answers with a clear status, what it has
 * to do without memory it does, and what it keeps from being written is not read as if it had been.
 */
#include "tests/support/member_test.h"
#include "tests/support/play.h"

SCENE_SUITE(first_calls);

enum { SIZE = 64, NTH_MAX = 5 };

/* Beside the scene's buffers "src" and "dst", which is what is to be written. */
typedef struct stage {
    ferry_group *group;                /* of groups' functions */
    ferry_promise *promise;            /* unresolved */
    ferry_future *pending;             /* its future */
    ferry_future *done, *failed;       /* resolved */
    ferry_future *waiting;             /* an operation behind the promise */
    counted_waiter waiter, registered; /* the latter on `pending` */
    _Atomic(ferry_promise *) begun;    /* of an operation that ends later */
    ferry_future *later;               /* that operation */
    /* What the call gave. */
    ferry_future *futures[3];
    ferry_status status; /* FERRY_PENDING: it gives none */
    ferry_promise *made_promise;
    ferry_buffer *made_buffer;
} stage;

static ferry_op_options writing(ferry_access *access)
{
    *access = (ferry_access){the_span("dst"), FERRY_WRITE};
    return touching(access, 1);
}

/* ---- operations ---- */

static void do_nop(stage *s)
{
    ferry_access access;
    ferry_op_options options = writing(&access);
    s->futures[0] = ferry_nop(engine(), &options);
}

static void do_copy(stage *s)
{
    s->futures[0] = ferry_copy(engine(), the_span("dst"), the_span("src"), NULL);
}

static void do_rows(stage *s)
{
    s->futures[0] =
        ferry_copy_rows(engine(), the_span("dst[0:8]"), 16, the_span("src[0:8]"), 16, 4, NULL);
}

static void do_call(stage *s)
{
    ferry_access access;
    ferry_op_options options = writing(&access);
    s->futures[0] = ferry_call(engine(), NULL, count_call, scene_calls(), &options);
}

static ferry_op copy_op(void)
{
    return (ferry_op){.kind = FERRY_OP_COPY, .dst = the_span("dst"), .src = the_span("src")};
}

static void begin_and_end(void *arg, ferry_promise *promise)
{
    (void)arg;
    ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_OK, NULL), FERRY_OK);
    ferry_promise_release(promise);
}

static void do_call_async(stage *s)
{
    ferry_access access;
    ferry_op_options options = writing(&access);
    s->futures[0] = ferry_call_async(engine(), NULL, begin_and_end, NULL, NULL, &options);
}

static void do_batch(stage *s)
{
    ferry_op op = copy_op();
    s->futures[0] = ferry_batch(engine(), &op, sizeof op, 1, NULL, NULL);
}

static void do_batch_with_each(stage *s)
{
    ferry_access access;
    ferry_op_options options = writing(&access);
    ferry_op ops[2] = {copy_op(), {.kind = FERRY_OP_NOP, .options = &options}};
    s->futures[2] = ferry_batch(engine(), ops, sizeof ops[0], 2, s->futures, NULL);
}

static void do_plan(stage *s)
{
    ferry_op op = copy_op();
    ferry_plan *plan = NULL;
    if (ferry_plan_create(engine(), &op, sizeof op, 1, &plan, NULL) == FERRY_OK)
        s->futures[0] = ferry_plan_post(plan, NULL, 0, NULL);
    else
        s->futures[0] = ferry_copy(engine(), op.dst, op.src, NULL); /* as if nothing had been */
    ferry_plan_release(plan);
}

static void do_define(stage *s)
{
    s->status = ferry_buffer_define(the_span("dst"), NULL);
}

static void do_define_by(stage *s)
{
    s->status = ferry_buffer_define(the_span("dst"), s->done);
}

/* ---- futures and promises ---- */

static void do_all(stage *s)
{
    s->futures[0] = ferry_future_all(engine(), &s->pending, 1);
}

static void do_any(stage *s)
{
    s->futures[0] = ferry_future_any(engine(), &s->pending, 1);
}

static void do_issued(stage *s)
{
    s->futures[0] = ferry_future_issued(s->waiting);
}

static void do_quiet(stage *s)
{
    s->futures[0] = ferry_future_quiet(s->waiting);
}

static void do_drain(stage *s)
{
    s->futures[0] = ferry_engine_drain(engine());
}

static void do_writable(stage *s)
{
    s->futures[0] = ferry_engine_writable(engine());
}

static void do_event(stage *s)
{
    s->futures[0] = ferry_event_record(ferry_device_at(engine(), 0), NULL);
}

static void do_promise(stage *s)
{
    s->status = ferry_promise_create(engine(), &s->made_promise);
}

static void do_resolve(stage *s)
{
    s->status = ferry_promise_resolve(s->promise, FERRY_E_FAILED, "a message");
    ASSERT_STATUS(s->status, FERRY_OK);
    ASSERT_STATUS(ferry_future_poll(s->pending), FERRY_E_FAILED);
}

static void do_queue(stage *s)
{
    ferry_queue *queue = NULL;
    s->status = ferry_queue_create(engine(), 4, &queue, NULL);
    if (s->status != FERRY_OK)
        return;
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.queue = queue;
    s->futures[0] = ferry_nop(engine(), &options);
    ferry_queue_release(queue);
}

static void do_scope(stage *s)
{
    ferry_scope *scope = NULL;
    s->status = ferry_scope_create(engine(), NULL, &scope);
    if (s->status != FERRY_OK)
        return;
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.scope = scope;
    s->futures[0] = ferry_nop(engine(), &options);
    s->futures[1] = ferry_scope_cancel(scope);
    ferry_scope_release(scope);
}

static void do_resolve_later(stage *s)
{
    ferry_promise *promise = atomic_exchange(&s->begun, NULL);
    s->status = ferry_promise_resolve(promise, FERRY_E_FAILED, "a message");
    ASSERT_STATUS(s->status, FERRY_OK);
    ferry_promise_release(promise);
    ASSERT_STATUS(ferry_future_wait(s->later, -1), FERRY_E_FAILED);
}

static void do_on_cancel(stage *s)
{
    s->status = ferry_promise_on_cancel(s->promise, &s->waiter.waiter);
    ASSERT_STATUS(s->status, FERRY_OK);
    cr_assert(ferry_waiter_remove(&s->waiter.waiter));
}

static void do_break_promise(stage *s)
{
    play("release p");
    s->promise = NULL;
    ASSERT_STATUS(ferry_future_poll(s->pending), FERRY_E_BROKEN_PROMISE);
}

static void do_wait(stage *s)
{
    ASSERT_STATUS(ferry_future_wait(s->pending, 1000000), FERRY_PENDING);
    ASSERT_STATUS(ferry_future_wait(s->done, -1), FERRY_OK);
}

static void do_cancel(stage *s)
{
    s->status = ferry_future_cancel(s->waiting);
    ASSERT_STATUS(s->status, FERRY_OK);
}

static void do_error(stage *s)
{
    const ferry_error *error = ferry_future_error(s->failed);
    ASSERT_STATUS(error->status, FERRY_E_DEPENDENCY);
}

static void do_on_ready(stage *s)
{
    s->status = ferry_future_on_ready(s->pending, &s->waiter.waiter);
    ASSERT_STATUS(s->status, FERRY_OK);
    ASSERT_STATUS(ferry_future_on_ready(s->done, &s->registered.waiter), FERRY_E_INVALID);
}

static void do_remove(stage *s)
{
    cr_assert(ferry_waiter_remove(&s->registered.waiter));
}

static void do_release(stage *s)
{
    ferry_future_release(ferry_future_retain(s->done));
    play("release failed");
}

static void do_run_task(stage *s)
{
    (void)s;
    manual_run_one(by_hand());
}

/* ---- memory, devices, the engine ---- */

static void do_alloc(stage *s)
{
    s->status = ferry_buffer_alloc(ferry_device_at(engine(), 0), SIZE, &s->made_buffer);
}

static void do_wrap(stage *s)
{
    static char bytes[SIZE];
    s->status =
        ferry_buffer_wrap(ferry_device_at(engine(), 0), bytes, SIZE, NULL, NULL, &s->made_buffer);
}

static void do_release_buffer(stage *s)
{
    (void)s;
    play("release src");
}

static void do_find(stage *s)
{
    (void)s;
    cr_assert_not_null(ferry_device_find(engine(), "host:0"));
    cr_assert_null(ferry_device_find(engine(), "host:99"));
}

static void forget_text(void *arg, const char *text, size_t size_bytes)
{
    (void)arg, (void)text, (void)size_bytes;
}

static void do_dump(stage *s)
{
    s->status = ferry_engine_dump(engine(), FERRY_DUMP_JSON, forget_text, NULL);
}

static void do_progress(stage *s)
{
    (void)s;
    cr_assert_geq(ferry_engine_progress(engine(), 0), FERRY_E_INVALID);
    (void)ferry_engine_arm(engine());
    (void)ferry_engine_timeout_ns(engine());
}

static void do_shutdown(stage *s)
{
    s->status = ferry_engine_shutdown(engine(), -1);
    ASSERT_STATUS(s->status, FERRY_OK);
}

/* ---- groups ---- */

static void do_alive(stage *s)
{
    s->futures[0] = ferry_group_alive(s->group, 0);
}

static void do_set_and_get(stage *s)
{
    s->futures[0] = ferry_group_set(s->group, "key", "value", 5, 0);
    s->futures[1] = ferry_group_try_get(s->group, "key", 0);
    s->futures[2] = ferry_group_get(s->group, "none", test_in_ns(50000000));
}

static void do_watch(stage *s)
{
    s->futures[0] = ferry_group_watch(s->group, "key", 0, test_in_ns(100000000));
}

static void do_barrier(stage *s)
{
    s->futures[0] = ferry_barrier(s->group, "name", NULL);
}

static void do_notice(stage *s)
{
    s->futures[0] = ferry_group_give_notice(s->group);
    s->futures[1] = ferry_group_step(s->group, 1, 0);
}

static void do_happening(stage *s)
{
    s->futures[0] = ferry_group_event_next(s->group, 1);
}

static void do_pause(stage *s)
{
    s->futures[0] = ferry_group_nccl_pause(s->group, 0);
    s->futures[1] = ferry_group_nccl_resume(s->group);
}

static void do_leave(stage *s)
{
    s->futures[0] = ferry_group_leave(s->group);
}

static void do_messages(stage *s)
{
    s->futures[0] = ferry_recv(s->group, 0, 1, the_span("dst"), NULL);
    s->futures[1] = ferry_send(s->group, 0, 1, the_span("src"), NULL);
    for (int i = 0; i < 2; i++) {
        if (ferry_future_poll(s->futures[i]) != FERRY_PENDING)
            (void)ferry_future_cancel(s->futures[1 - i]); /* it would wait for this one */
    }
}

static void do_open_messages(stage *s)
{
    s->futures[0] = ferry_recv(s->group, FERRY_RANK_ANY, FERRY_TAG_ANY, the_span("dst"), NULL);
    s->futures[1] = ferry_send(s->group, 0, 1, the_span("src"), NULL);
    for (int i = 0; i < 2; i++) {
        if (ferry_future_poll(s->futures[i]) != FERRY_PENDING)
            (void)ferry_future_cancel(s->futures[1 - i]); /* it would wait for this one */
    }
}

static void do_probe(stage *s)
{
    s->futures[0] = ferry_message_probe(s->group, FERRY_RANK_ANY, 1, NULL);
    (void)ferry_future_cancel(s->futures[0]);
}

static void do_notices(stage *s)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.deadline_ns = test_in_ns(100000000); /* without one, the other would wait for it */
    s->futures[0] = ferry_notice_send(s->group, 0, "notice", 6, &options);
    s->futures[1] = ferry_notice_next(s->group, options.deadline_ns);
}

static void do_window(stage *s)
{
    ferry_window *window = NULL;
    s->futures[0] = ferry_window_open(s->group, the_span("dst"), "w", FERRY_WINDOW_GET, &window);
    if (window != NULL)
        s->futures[1] = ferry_window_close(window);
    ferry_window_release(window);
}

static void do_symmetric(stage *s)
{
    ferry_symmetric *symmetric = NULL;
    s->futures[0] = ferry_symmetric_alloc(
        s->group,
        the_span("dst").buffer != NULL ? ferry_buffer_device(the_span("dst").buffer) : NULL, 64,
        "s", 0, &symmetric);
    (void)ferry_future_wait(s->futures[0], -1);
    ferry_symmetric_release(symmetric);
}

/* ---- the table ---- */

enum {
    WRITES = 1, /* dst, as futures[0] or the status says */
    GROUP = 2,
    LATER = 4,
    OPEN = 8, /* a group with any source */
};

typedef struct first_call {
    const char *name;
    void (*run)(stage *s);
    unsigned flags;
} first_call;

static const first_call all_calls[] = {
    {"nop", do_nop, WRITES},
    {"copy", do_copy, WRITES},
    {"copy_rows", do_rows, WRITES},
    {"call", do_call, WRITES},
    {"call_async", do_call_async, WRITES},
    {"batch", do_batch, WRITES},
    {"batch with each", do_batch_with_each, WRITES},
    {"plan_create, plan_post", do_plan, WRITES},
    {"buffer_define", do_define, WRITES},
    {"buffer_define by a future", do_define_by, WRITES},
    {"future_all", do_all, 0},
    {"future_any", do_any, 0},
    {"future_issued", do_issued, 0},
    {"future_quiet", do_quiet, 0},
    {"engine_drain", do_drain, 0},
    {"engine_writable", do_writable, 0},
    {"event_record", do_event, 0},
    {"queue_create, an operation that names it", do_queue, 0},
    {"scope_create, an operation that names it", do_scope, 0},
    {"promise_create", do_promise, 0},
    {"promise_resolve", do_resolve, 0},
    {"promise_resolve of what ends later", do_resolve_later, LATER},
    {"promise_on_cancel", do_on_cancel, 0},
    {"promise_release", do_break_promise, 0},
    {"future_wait", do_wait, 0},
    {"future_cancel", do_cancel, 0},
    {"future_error", do_error, 0},
    {"future_on_ready", do_on_ready, 0},
    {"waiter_remove", do_remove, 0},
    {"future_release", do_release, 0},
    {"task_run", do_run_task, 0},
    {"buffer_alloc", do_alloc, 0},
    {"buffer_wrap", do_wrap, 0},
    {"buffer_release", do_release_buffer, 0},
    {"device_find", do_find, 0},
    {"engine_dump", do_dump, 0},
    {"engine_progress", do_progress, 0},
    {"engine_shutdown", do_shutdown, 0},
    {"group_alive", do_alive, GROUP},
    {"group_set, _get", do_set_and_get, GROUP},
    {"group_watch", do_watch, GROUP},
    {"barrier", do_barrier, GROUP},
    {"group_give_notice, _step", do_notice, GROUP},
    {"group_event_next", do_happening, GROUP},
    {"group_nccl_pause, _resume", do_pause, GROUP},
    {"group_leave", do_leave, GROUP},
    {"send, recv", do_messages, WRITES | GROUP},
    {"send, recv of any", do_open_messages, WRITES | GROUP | OPEN},
    {"message_probe", do_probe, GROUP | OPEN},
    {"notice_send, notice_next", do_notices, GROUP},
    {"window_open, window_close", do_window, GROUP},
    {"symmetric_alloc, _release", do_symmetric, GROUP},
};
enum { CALLS = sizeof all_calls / sizeof all_calls[0] };

/* ---- a run ---- */

static void join(stage *s, bool is_open)
{
    ferry_group_options options = test_group_options(1, 0);
    options.any_source_max = is_open ? 4 : 0;
    ferry_future *future = ferry_group_join(engine(), &options, &s->group);
    while (ferry_future_wait(future, 1000000) == FERRY_PENDING)
        continue;
    ASSERT_STATUS(ferry_future_poll(future), FERRY_OK);
    ferry_future_release(future);
}

static void begin_later(void *arg, ferry_promise *promise)
{
    atomic_store(&((stage *)arg)->begun, promise);
}

static void start_later(stage *s)
{
    s->later = own(ferry_call_async(engine(), NULL, begin_later, NULL, s, NULL));
    while (atomic_load(&s->begun) == NULL)
        (void)ferry_future_wait(s->later, 1000000);
}

static void stage_open(stage *s, ferry_loop_mode loop, unsigned flags)
{
    memset(s, 0, sizeof *s);
    scene_options(loop)->clock = NULL;
    play("buffer src %d of 1; buffer dst %d of 2 on 1; promise p; done = nop; refused = any;"
         "failed = nop after refused; waiting = nop after p; call by hand",
         SIZE, SIZE);
    s->promise = the_promise("p");
    s->pending = own(ferry_promise_future(s->promise));
    s->done = the_future("done");
    s->failed = the_future("failed");
    s->waiting = the_future("waiting");
    counted_waiter_init(&s->waiter, NULL);
    counted_waiter_init(&s->registered, NULL);
    ASSERT_STATUS(ferry_future_on_ready(s->pending, &s->registered.waiter), FERRY_OK);
    wait_posted(1);
    play("expect failed DEPENDENCY");
    if ((flags & GROUP) != 0)
        join(s, (flags & OPEN) != 0);
    if ((flags & LATER) != 0)
        start_later(s);
    s->status = FERRY_PENDING;
}

static bool is_want(ferry_status status)
{
    return status == FERRY_E_NO_MEMORY || status == FERRY_E_AGAIN;
}

/* What the call gave resolves, with a status that says what became of it. */
static ferry_status look_at(stage *s, ferry_future *future, const char *name)
{
    while (ferry_future_wait(future, 1000000) == FERRY_PENDING) {
        run_posted();
        if (s->promise != NULL)
            (void)ferry_promise_resolve(s->promise, FERRY_OK, NULL);
    }
    ferry_status status = ferry_future_poll(future);
    const ferry_error *error = ferry_future_error(future);
    cr_assert_eq(error == NULL, status == FERRY_OK, "%s", name);
    if (error != NULL)
        cr_assert_eq(error->status, status, "%s", name);
    return status;
}

static void look_at_written(stage *s, ferry_status status, const char *name)
{
    play("buffer sink %d of 3 on 2; reader = copy sink[0:8] <- dst[0:8]", SIZE);
    ferry_status read = look_at(s, the_future("reader"), name);
    if (status != FERRY_OK)
        cr_assert_eq(read, FERRY_E_DEPENDENCY, "%s: it was %s, and a later reader is %s", name,
                     ferry_status_name(status), ferry_status_name(read));
}

static void stage_close(stage *s)
{
    for (int i = 0; i < 3; i++)
        (void)own(s->futures[i]);
    (void)own(s->made_promise);
    (void)own(s->made_buffer);
    ferry_group_release(s->group);
    run_posted();
    scene_end();
}

typedef struct stranger {
    const first_call *call;
    stage *stage;
} stranger;

static void *stranger_main(void *arg)
{
    stranger *self = arg;
    self->call->run(self->stage);
    return NULL;
}

/* Returns whether an allocation was made to fail. */
static bool run(const first_call *call, ferry_loop_mode loop, uint64_t nth, bool persistent)
{
    static stage s;
    char name[100];
    (void)snprintf(name, sizeof name, "%s, %s from %d on, %s", call->name,
                   persistent ? "all" : "one", (int)nth,
                   loop == FERRY_LOOP_EMBEDDED ? "embedded" : "own thread");
    stage_open(&s, loop, call->flags);
    uint64_t failures = failing_allocator_failures(&scene()->memory);
    stranger self = {call, &s};
    failing_allocator_arm(&scene()->memory, nth, persistent);
    (void)in_thread(stranger_main, &self);
    failing_allocator_arm(&scene()->memory, 0, false);
    failures = failing_allocator_failures(&scene()->memory) - failures;
    ferry_status status = s.status;
    cr_assert(status == FERRY_PENDING || status == FERRY_OK || is_want(status), "%s: %s", name,
              ferry_status_name(status));
    for (int i = 0; i < 3; i++) {
        if (s.futures[i] == NULL)
            continue;
        ferry_status seen = look_at(&s, s.futures[i], name);
        status = i == 0 ? seen : status;
    }
    if ((call->flags & WRITES) != 0)
        look_at_written(&s, status, name);
    stage_close(&s);
    return failures != 0;
}

static void sweep(const first_call *call, ferry_loop_mode loop)
{
    bool persistent = true, failed = true;
    for (uint64_t nth = 1; failed && nth <= NTH_MAX; nth++) {
        failed = run(call, loop, nth, persistent);
        failed |= run(call, loop, nth, !persistent);
    }
}

static void sweep_all(ferry_loop_mode loop, bool needs_group)
{
    for (size_t i = 0; i < CALLS; i++) {
        if (((all_calls[i].flags & GROUP) != 0) == needs_group)
            sweep(&all_calls[i], loop);
    }
}

Test(first_calls, without_memory_embedded)
{
    sweep_all(FERRY_LOOP_EMBEDDED, false);
}

Test(first_calls, without_memory)
{
    sweep_all(FERRY_LOOP_THREAD, false);
}

Test(first_calls, of_groups_without_memory)
{
    sweep_all(FERRY_LOOP_THREAD, true);
}
