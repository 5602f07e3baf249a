/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that begin what ends later, and what tells the holder of a promise of a cancel. */
#include "tests/support/dump_test.h"
#include "tests/support/play.h"
#include "tests/support/thread_executor.h"

#include <semaphore.h>

SCENE_SUITE(calls_async);

/* What was begun. */
typedef struct work {
    ferry_promise *promise; /* until it ends */
    _Atomic int begun, cancelled;
    bool ends_in_begin, ends_in_cancel;
    ferry_status status; /* with which it ends then */
} work;

static void end(work *self, ferry_status status, const char *message)
{
    ASSERT_STATUS(ferry_promise_resolve(self->promise, status, message), FERRY_OK);
    ferry_promise_release(self->promise);
    self->promise = NULL;
}

static void begin(void *arg, ferry_promise *promise)
{
    work *self = arg;
    atomic_fetch_add(&self->begun, 1);
    self->promise = promise;
    if (self->ends_in_begin)
        end(self, self->status, NULL);
}

static void cancel(void *arg)
{
    work *self = arg;
    cr_assert_eq(self->begun, 1);
    atomic_fetch_add(&self->cancelled, 1);
    if (self->ends_in_cancel)
        end(self, self->status, NULL);
}

/* Submits it under a name; the executor may be NULL. */
static ferry_future *submit(const char *name, work *self, ferry_executor *executor,
                            const ferry_op_options *options)
{
    ferry_future *future = ferry_call_async(engine(), executor, begin, cancel, self, options);
    cr_assert(scene_own_as(SCENE_FUTURE, future, name));
    return future;
}

static ferry_future *quiet(ferry_future *future)
{
    return own(ferry_future_quiet(future));
}

/* ---- going well ---- */

Test(calls_async, it_ends_when_its_promise_is_resolved_and_holds_its_accesses_until_then)
{
    work self = {0};
    play("promise p; buffer a 64 of 1; buffer b 64");
    ferry_access writes = {the_span("a"), FERRY_WRITE};
    ferry_future *after = the_future("p");
    ferry_op_options options = behind(&after, 1);
    options.accesses = &writes;
    options.access_count = 1;
    submit("read", &self, NULL, &options);
    play("i = issued read; c = copy b <- a; settle");
    cr_assert_eq(self.begun, 0);
    play("keep p; expect read c PENDING; expect i OK");
    cr_assert_eq(self.begun, 1);
    memset(ferry_buffer_data(the_buffer("a")), 7, 64);
    end(&self, FERRY_OK, NULL);
    play("expect read c OK; bytes b 7");
    cr_assert(self.begun == 1 && self.cancelled == 0);
}

Test(calls_async, it_may_end_as_it_begins)
{
    work good = {.ends_in_begin = true}, bad = {.ends_in_begin = true, .status = FERRY_E_FAILED};
    submit("good", &good, NULL, NULL);
    submit("bad", &bad, NULL, NULL);
    play(
        "n = nop after bad; expect good OK; expect bad FAILED; expect n DEPENDENCY; cause n FAILED "
        "of bad");
    EXPECT(quiet(the_future("bad")), OK);
    cr_assert(good.cancelled == 0 && bad.cancelled == 0);
}

Test(calls_async, its_error_says_what_its_promise_was_resolved_with)
{
    work self = {0};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.label = "a read of a file";
    ferry_future *future = submit("read", &self, NULL, &options);
    play("buffer b 8");
    scene_settle();
    end(&self, -4711, "the disk is on fire");
    ASSERT_STATUS(scene_status(future, (ferry_status)-4711), (ferry_status)-4711);
    const ferry_error *error = ferry_future_error(future);
    cr_assert_str_eq(error->message, "the disk is on fire");
    cr_assert_str_eq(error->label, "a read of a file");
    cr_assert_eq(error->op, ferry_future_id(future));
    cr_assert_str_eq(error->domain, "user");
}

Test(calls_async, it_keeps_numbers_of_the_users_own_as_promises_do)
{
    static const int numbers[] = {-1, -32768, -32769, -65536, -131072, INT32_MIN};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        work self = {0};
        ferry_status number = (ferry_status)numbers[i];
        ferry_future *future = own(ferry_call_async(engine(), NULL, begin, cancel, &self, NULL));
        scene_settle();
        end(&self, number, NULL);
        ASSERT_STATUS(scene_status(future, number), number);
        ASSERT_STATUS(ferry_future_error(future)->status, number);
    }
}

Test(calls_async, its_future_has_the_value)
{
    work self = {0};
    ferry_value value = FERRY_VALUE_INIT;
    ferry_future *future = submit("read", &self, NULL, NULL);
    scene_settle();
    ferry_future *same = own(ferry_promise_future(self.promise));
    cr_assert_eq(same, future);
    ASSERT_STATUS(ferry_promise_resolve_value(self.promise, "17 bytes were read", 18), FERRY_OK);
    ASSERT_STATUS(ferry_promise_resolve_value(self.promise, "again", 5), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_promise_resolve(self.promise, FERRY_OK, NULL), FERRY_E_INVALID);
    ferry_promise_release(self.promise);
    play("expect read OK");
    ASSERT_STATUS(ferry_future_value(future, &value), FERRY_OK);
    cr_assert_str_eq(value.data, "17 bytes were read");
    cr_assert_eq(value.size_bytes, 18);
}

Test(calls_async, a_promise_that_is_dropped_fails_it_and_poisons_what_it_was_to_write)
{
    work self = {0};
    play("buffer a 64; buffer b 64");
    ferry_access writes = {the_span("a"), FERRY_WRITE};
    ferry_op_options options = touching(&writes, 1);
    submit("read", &self, NULL, &options);
    play("c = copy b <- a; settle");
    ferry_promise_release(self.promise);
    play("expect read BROKEN_PROMISE; expect c DEPENDENCY; cause c BROKEN_PROMISE of read; "
         "poisoned a");
    cr_assert_eq(self.cancelled, 0);
}

Test(calls_async, many_in_a_batch)
{
    enum { MANY = 300 };
    static work works[MANY];
    static ferry_op ops[MANY];
    for (int i = 0; i < MANY; i++)
        ops[i] =
            (ferry_op){.kind = FERRY_OP_ASYNC, .begin = begin, .cancel = cancel, .arg = &works[i]};
    ferry_future *batch = own(ferry_batch(engine(), ops, sizeof *ops, MANY, NULL, NULL));
    scene_settle();
    for (int i = 0; i < MANY; i++) {
        EXPECT_NOW(batch, PENDING);
        end(&works[i], FERRY_OK, NULL);
    }
    EXPECT(batch, OK);
    memset(works, 0, sizeof works);
    batch = own(ferry_batch(engine(), ops, sizeof *ops, MANY, NULL, NULL));
    scene_settle();
    ASSERT_STATUS(ferry_future_cancel(batch), FERRY_OK);
    EXPECT(batch, E_CANCELLED);
    ferry_future *all = quiet(batch);
    for (int i = 0; i < MANY; i++) {
        EXPECT(all, PENDING);
        cr_assert_eq(works[i].cancelled, 1);
        end(&works[i], FERRY_OK, NULL);
    }
    EXPECT(all, OK);
    ops[0].begin = NULL;
    EXPECT(own(ferry_batch(engine(), ops, sizeof *ops, 1, NULL, NULL)), E_DEPENDENCY);
}

/* ---- cancelled ---- */

Test(calls_async, cancelled_before_it_begins_it_never_begins)
{
    work self = {0};
    play("promise p");
    ferry_future *after = the_future("p");
    ferry_op_options options = behind(&after, 1);
    ferry_future *future = submit("read", &self, NULL, &options);
    play("settle; cancel read; expect read CANCELLED");
    EXPECT(quiet(future), OK);
    play("keep p; settle");
    cr_assert(self.begun == 0 && self.cancelled == 0);
}

Test(calls_async, cancelled_later_it_fails_at_once_and_is_quiet_when_its_promise_is_resolved)
{
    work self = {0};
    play("buffer a 64; buffer b 64 of 9");
    ferry_access writes = {the_span("a"), FERRY_WRITE};
    ferry_op_options options = touching(&writes, 1);
    ferry_future *future = submit("read", &self, NULL, &options);
    ferry_future *is_quiet = quiet(future);
    play("settle; w = copy a <- b; cancel read; expect read CANCELLED; expect w PENDING; settle");
    cr_assert_eq(self.cancelled, 1);
    EXPECT(is_quiet, PENDING);
    play("cancel read; settle");
    cr_assert_eq(self.cancelled, 1, "once");
    end(&self, FERRY_OK, NULL);
    EXPECT(is_quiet, OK);
    play("expect read CANCELLED; expect w OK; bytes a 9");
}

Test(calls_async, ended_with_a_failure_or_a_value_after_a_cancel_nothing_is_left)
{
    work failure = {0}, value = {0};
    submit("f", &failure, NULL, NULL);
    submit("v", &value, NULL, NULL);
    play("settle; cancel f v; expect f v CANCELLED");
    end(&failure, FERRY_E_FAILED, "cut short");
    ASSERT_STATUS(ferry_promise_resolve_value(value.promise, "part", 4), FERRY_OK);
    ferry_promise_release(value.promise);
    play("d = drain; expect d OK; now f v CANCELLED");
    ferry_value none = FERRY_VALUE_INIT;
    ASSERT_STATUS(ferry_future_value(the_future("v"), &none), FERRY_E_NOT_FOUND);
}

Test(calls_async, cancel_may_end_it)
{
    work self = {.ends_in_cancel = true, .status = FERRY_E_FAILED};
    ferry_future *future = submit("read", &self, NULL, NULL);
    play("settle; cancel read; expect read CANCELLED");
    EXPECT(quiet(future), OK);
    cr_assert_eq(self.cancelled, 1);
}

Test(calls_async, without_cancel_nobody_is_told)
{
    work self = {0};
    ferry_future *future = own(ferry_call_async(engine(), NULL, begin, NULL, &self, NULL));
    scene_settle();
    ASSERT_STATUS(ferry_future_cancel(future), FERRY_OK);
    EXPECT(future, E_CANCELLED);
    EXPECT(quiet(future), PENDING);
    end(&self, FERRY_OK, NULL);
    EXPECT(quiet(future), OK);
}

Test(calls_async, its_deadline_cancels_it)
{
    work self = {0};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.deadline_ns = START_NS + 1000;
    ferry_future *future = submit("read", &self, NULL, &options);
    play("settle; step 999; expect read PENDING; step 1; expect read DEADLINE");
    cr_assert_eq(self.cancelled, 1);
    EXPECT(quiet(future), PENDING);
    end(&self, FERRY_OK, NULL);
    EXPECT(quiet(future), OK);
}

Test(calls_async, a_shutdown_cancels_it_and_waits_for_its_promise)
{
    work self = {0};
    ferry_future *future = submit("read", &self, NULL, NULL);
    scene_settle();
    ASSERT_STATUS(ferry_engine_shutdown(engine(), 0), FERRY_E_DEADLINE);
    EXPECT_NOW(future, E_SHUTDOWN);
    cr_assert_eq(self.cancelled, 1);
    end(&self, FERRY_OK, NULL);
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
}

static void *end_soon(void *arg)
{
    work *self = arg;
    while (self->cancelled == 0)
        sched_yield();
    end(self, FERRY_OK, NULL);
    return NULL;
}

Test(calls_async, a_shutdown_with_a_thread_that_ends_it)
{
    work self = {0};
    scene_begin(FERRY_LOOP_THREAD);
    submit("read", &self, NULL, NULL);
    while (self.begun == 0)
        sched_yield();
    pthread_t thread = begin_thread(end_soon, &self);
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    (void)end_thread(thread);
}

/* ---- on an executor ---- */

Test(calls_async, an_executor_runs_begin_and_the_loop_cancel)
{
    work self = {0};
    ferry_future *future = submit("read", &self, &by_hand()->executor, NULL);
    play("posted 1; cancel read; expect read CANCELLED");
    EXPECT(quiet(future), OK);
    play("run; settle");
    cr_assert(self.begun == 0 && self.cancelled == 0, "it was cancelled before its turn");
    submit("second", &self, &by_hand()->executor, NULL);
    play("posted 1; run; expect second PENDING; cancel second; expect second CANCELLED; posted 0");
    cr_assert(self.begun == 1 && self.cancelled == 1);
    end(&self, FERRY_OK, NULL);
}

typedef struct slow_begin {
    work work; /* first */
    sem_t begun, go;
    _Atomic bool has_returned;
    bool ends;
} slow_begin;

static void begin_slowly(void *arg, ferry_promise *promise)
{
    slow_begin *self = arg;
    begin(&self->work, promise);
    cr_assert_eq(sem_post(&self->begun), 0);
    while (sem_wait(&self->go) != 0)
        continue;
    if (self->ends)
        end(&self->work, FERRY_OK, NULL);
    atomic_store(&self->has_returned, true);
}

static void cancel_after_return(void *arg)
{
    slow_begin *self = arg;
    cr_assert(atomic_load(&self->has_returned));
    cancel(&self->work);
}

static thread_executor on_thread;

static ferry_future *begun_slowly(slow_begin *self)
{
    cr_assert_eq(sem_init(&self->begun, 0, 0), 0);
    cr_assert_eq(sem_init(&self->go, 0, 0), 0);
    ferry_future *future = own(ferry_call_async(engine(), &on_thread.executor, begin_slowly,
                                                cancel_after_return, self, NULL));
    scene_settle();
    while (sem_wait(&self->begun) != 0)
        continue;
    return future;
}

/* While begin runs it is cancelled; then it returns, and may have ended it before. */
static void cancelled_while_it_begins(bool ends)
{
    slow_begin self = {.ends = ends};
    cr_assert(thread_executor_start(&on_thread));
    ferry_future *future = begun_slowly(&self);
    ASSERT_STATUS(ferry_future_cancel(future), FERRY_OK);
    EXPECT(future, E_CANCELLED);
    ferry_future *is_quiet = quiet(future);
    EXPECT(is_quiet, PENDING);
    cr_assert_eq(self.work.cancelled, 0);
    cr_assert_eq(sem_post(&self.go), 0);
    thread_executor_wait_idle(&on_thread);
    ferry_status expected = ends ? FERRY_OK : FERRY_PENDING;
    ASSERT_STATUS(scene_status(is_quiet, expected), expected);
    cr_assert_eq(self.work.cancelled, ends ? 0 : 1);
    if (!ends)
        end(&self.work, FERRY_OK, NULL);
    EXPECT(is_quiet, OK);
    thread_executor_stop(&on_thread);
}

Test(calls_async, cancel_comes_after_begin_has_returned)
{
    cancelled_while_it_begins(false);
}

Test(calls_async, no_cancel_comes_if_begin_has_ended_it)
{
    cancelled_while_it_begins(true);
}

/* ---- looked at, and wrong ---- */

Test(calls_async, a_dump_says_what_it_waits_for)
{
    work self = {0};
    ferry_future *future = submit("read", &self, &by_hand()->executor, NULL);
    scene_settle();
    const json_t *node = dump_of(dump_now(engine()), future);
    cr_assert_str_eq(dump_word(node, "kind"), "async");
    cr_assert_str_eq(dump_word(node, "waits_for"), "executor");
    play("run");
    node = dump_of(dump_now(engine()), future);
    cr_assert_str_eq(dump_word(node, "waits_for"), "outside");
    play("cancel read; expect read CANCELLED");
    node = dump_of(dump_now(engine()), future);
    cr_assert_str_eq(dump_word(node, "not_quiet"), "outside");
    end(&self, FERRY_OK, NULL);
}

Test(calls_async, wrong_arguments)
{
    ferry_executor hollow = {.struct_size = sizeof hollow};
    work self = {0};
    counted_waiter waiter;
    EXPECT_NOW(own(ferry_call_async(engine(), NULL, NULL, cancel, &self, NULL)), E_INVALID);
    EXPECT_NOW(own(ferry_call_async(engine(), &hollow, begin, cancel, &self, NULL)), E_INVALID);
    EXPECT_NOW(own(ferry_call_async(NULL, NULL, begin, cancel, &self, NULL)), E_INVALID);
    submit("read", &self, NULL, NULL);
    scene_settle();
    counted_waiter_init(&waiter, NULL);
    ASSERT_STATUS(ferry_promise_on_cancel(self.promise, &waiter.waiter), FERRY_E_UNSUPPORTED);
    ASSERT_STATUS(ferry_promise_resolve(self.promise, FERRY_PENDING, NULL), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_promise_resolve_value(self.promise, NULL, 1), FERRY_E_INVALID);
    play("now read PENDING");
    end(&self, FERRY_OK, NULL);
    play("expect read OK");
}

/* ---- ferry_promise_on_cancel ---- */

static counted_waiter told;

static ferry_status tell(const char *promise)
{
    counted_waiter_init(&told, NULL);
    return ferry_promise_on_cancel(the_promise("%s", promise), &told.waiter);
}

Test(calls_async, the_holder_of_a_promise_is_told_of_a_cancel)
{
    play("promise p");
    ASSERT_STATUS(tell("p"), FERRY_OK);
    play("settle");
    cr_assert_eq(told.calls, 0);
    play("cancel p; expect p CANCELLED");
    cr_assert_eq(told.calls, 1);
    cr_assert_eq(told.status, FERRY_E_CANCELLED);
    play("resolve p OK gives CANCELLED; release p; settle");
    cr_assert_eq(told.calls, 1);
}

Test(calls_async, the_holder_of_a_promise_is_told_late)
{
    play("promise p; cancel p; expect p CANCELLED");
    ASSERT_STATUS(tell("p"), FERRY_OK);
    cr_assert_eq(told.calls, 0);
    scene_settle();
    cr_assert_eq(told.calls, 1);
    ASSERT_STATUS(tell("p"), FERRY_OK); /* again, as often as it asks */
    scene_settle();
    cr_assert_eq(told.calls, 1);
    play("release p");
}

Test(calls_async, the_holder_of_a_promise_is_told_of_the_shutdown)
{
    play("promise p");
    ASSERT_STATUS(tell("p"), FERRY_OK);
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    cr_assert_eq(told.calls, 1);
    cr_assert_eq(told.status, FERRY_E_SHUTDOWN);
    ASSERT_STATUS(tell("p"), FERRY_OK);
    cr_assert_eq(told.calls, 1, "in the call");
    play("release p");
}

Test(calls_async, whoever_resolves_the_promise_is_told_nothing)
{
    play("promise a; promise b; promise c");
    ASSERT_STATUS(tell("a"), FERRY_OK);
    play("keep a");
    ASSERT_STATUS(tell("b"), FERRY_OK); /* the waiter is free again */
    ASSERT_STATUS(ferry_promise_resolve_value(the_promise("b"), NULL, 0), FERRY_OK);
    ASSERT_STATUS(tell("c"), FERRY_OK);
    play("release c; settle");
    memset(&told, 0xee, sizeof told); /* and its memory the test's */
    ASSERT_STATUS(tell("b"), FERRY_E_INVALID);
    cr_assert_not(ferry_waiter_remove(&told.waiter));
}

Test(calls_async, one_waiter_at_a_time_and_it_can_be_taken_back)
{
    counted_waiter second;
    play("promise p; promise q");
    counted_waiter_init(&second, NULL);
    ASSERT_STATUS(tell("p"), FERRY_OK);
    ASSERT_STATUS(ferry_promise_on_cancel(the_promise("p"), &second.waiter), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_promise_on_cancel(the_promise("q"), &told.waiter), FERRY_E_INVALID);
    cr_assert(ferry_waiter_remove(&told.waiter));
    cr_assert_not(ferry_waiter_remove(&told.waiter));
    ASSERT_STATUS(ferry_promise_on_cancel(the_promise("p"), &second.waiter), FERRY_OK);
    play("cancel p; expect p CANCELLED");
    cr_assert(told.calls == 0 && second.calls == 1);
    ASSERT_STATUS(ferry_promise_on_cancel(NULL, &told.waiter), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_promise_on_cancel(the_promise("q"), NULL), FERRY_E_INVALID);
    told.waiter.fn = NULL;
    ASSERT_STATUS(ferry_promise_on_cancel(the_promise("q"), &told.waiter), FERRY_E_INVALID);
}

static void take_back(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future, (void)status;
    cr_assert(ferry_waiter_remove(waiter->arg));
}

Test(calls_async, a_callback_takes_back_what_is_due)
{
    play("promise p");
    ASSERT_STATUS(tell("p"), FERRY_OK);
    ferry_waiter first = FERRY_WAITER_INIT(take_back, &told.waiter);
    first.executor = ferry_executor_inline();
    ASSERT_STATUS(ferry_future_on_ready(the_future("p"), &first), FERRY_OK);
    play("cancel p; expect p CANCELLED");
    cr_assert_eq(told.calls, 0);
}
