/* SPDX-License-Identifier: Apache-2.0 */
/* A child made by fork has the handles and none of the threads: every call says so or does nothing.
 */
#include "tests/support/forked_child.h"
#include "tests/support/patience.h"
#include "tests/support/play.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

SCENE_SUITE(fork);

/* What the scene has by these names; a child looks nothing up, which could allocate. */
typedef struct family {
    ferry_engine *engine;
    ferry_device *device;
    ferry_buffer *buffer;
    ferry_promise *promise;
    ferry_future *pending, *done, *refused, *failed, *call;
    counted_waiter *listed; /* on `pending` */
} family;

/* Criterion's assertions are for the parent: here the first that fails is the exit status. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return __LINE__ % 255 + 1;                                                             \
    } while (0)
#define CHECK_FORKED(call) CHECK((call) == FERRY_E_FORKED)

static int check_engine(family *f)
{
    ferry_trace_record record;
    ferry_engine *engine = f->engine;
    CHECK_FORKED(ferry_engine_shutdown(engine, -1));
    CHECK(ferry_engine_fd(engine) == -1);
    CHECK(ferry_engine_progress(engine, 0) == FERRY_E_FORKED);
    CHECK_FORKED(ferry_engine_arm(engine));
    CHECK(ferry_engine_timeout_ns(engine) == -1);
    CHECK_FORKED(ferry_engine_trace(engine, NULL));
    CHECK(ferry_engine_flight_records(engine, &record, sizeof(ferry_trace_record), 1) == 0);
    CHECK_FORKED(status_of(ferry_engine_drain(engine)));
    CHECK_FORKED(status_of(ferry_engine_writable(engine)));
    return 0;
}

static int check_operations(family *f)
{
    ferry_engine *engine = f->engine;
    ferry_buffer *none = NULL;
    ferry_span whole = ferry_buffer_span(f->buffer);
    CHECK(ferry_device_find(engine, "host:0") == NULL);
    CHECK(ferry_device_at(engine, 0) == NULL);
    CHECK(ferry_device_count(engine) == 0);
    CHECK(strcmp(ferry_device_name(f->device), "host:0") == 0);
    CHECK_FORKED(ferry_buffer_alloc(f->device, 1, &none));
    CHECK_FORKED(ferry_buffer_wrap(f->device, f, 1, NULL, NULL, &none));
    CHECK_FORKED(ferry_buffer_define(whole, NULL));
    CHECK_FORKED(status_of(ferry_copy(engine, whole, whole, NULL)));
    CHECK_FORKED(status_of(ferry_copy_rows(engine, whole, 0, whole, 0, 1, NULL)));
    CHECK_FORKED(status_of(ferry_call(engine, NULL, count_call, scene_calls(), NULL)));
    CHECK_FORKED(status_of(ferry_nop(engine, NULL)));
    ferry_op op = {.kind = FERRY_OP_CALL, .fn = count_call, .arg = scene_calls()};
    ferry_future *each = NULL;
    CHECK_FORKED(status_of(ferry_batch(engine, &op, sizeof op, 1, &each, NULL)));
    CHECK_FORKED(status_of(each));
    CHECK_FORKED(status_of(ferry_future_all(engine, &f->done, 1)));
    CHECK_FORKED(status_of(ferry_future_any(engine, &f->done, 1)));
    CHECK_FORKED(status_of(ferry_future_issued(f->pending)));
    CHECK_FORKED(status_of(ferry_future_quiet(f->pending)));
    CHECK(*(char *)ferry_buffer_data(f->buffer) == 1);
    CHECK(none == NULL);
    return 0;
}

static int check_futures(family *f)
{
    ferry_promise *none = NULL;
    counted_waiter waiter;
    counted_waiter_init(&waiter, NULL);
    CHECK(ferry_future_poll(f->pending) == FERRY_PENDING);
    CHECK(ferry_future_poll(f->done) == FERRY_OK);
    CHECK_FORKED(ferry_future_wait(f->pending, -1));
    CHECK(ferry_future_wait(f->done, -1) == FERRY_OK);
    CHECK_FORKED(ferry_future_cancel(f->pending));
    CHECK_FORKED(ferry_future_on_ready(f->done, &waiter.waiter));
    CHECK(!ferry_waiter_remove(&f->listed->waiter));
    CHECK_FORKED(ferry_promise_create(f->engine, &none));
    CHECK_FORKED(ferry_promise_resolve(f->promise, FERRY_OK, NULL));
    CHECK_FORKED(status_of(ferry_promise_future(f->promise)));
    CHECK(ferry_future_error(f->refused)->status == FERRY_E_INVALID);
    CHECK(ferry_future_error(f->failed)->status == FERRY_E_DEPENDENCY);
    CHECK(ferry_future_id(f->pending) != 0);
    run_posted(); /* the parent's to run */
    CHECK(*scene_calls() == 0 && waiter.calls == 0 && f->listed->calls == 0);
    return 0;
}

static int check_releases(family *f)
{
    ferry_future_release(ferry_future_retain(f->pending));
    ferry_future_release(f->pending);
    ferry_future_release(f->done);
    ferry_future_release(f->refused);
    ferry_future_release(f->failed);
    ferry_future_release(f->call);
    ferry_promise_release(f->promise);
    ferry_buffer_release(f->buffer);
    ferry_engine_release(f->engine);
    return 0;
}

/* What a child may have: an engine of its own. */
static int check_own_engine(void)
{
    ferry_engine *engine = NULL;
    _Atomic int calls = 0;
    CHECK(ferry_engine_create(NULL, &engine, NULL) == FERRY_OK);
    ferry_future *call = ferry_call(engine, NULL, count_call, &calls, NULL);
    CHECK(ferry_future_wait(call, -1) == FERRY_OK);
    CHECK(calls == 1);
    ferry_future_release(call);
    CHECK(ferry_engine_shutdown(engine, -1) == FERRY_OK);
    ferry_engine_release(engine);
    return 0;
}

static int child(family *f)
{
    (void)alarm(HANG_S / 2 * PATIENCE); /* nobody else would end one that hangs */
    uint64_t allocations = failing_allocator_calls(&scene()->memory);
    int64_t live_bytes = failing_allocator_live_bytes(&scene()->memory);
    int failed = check_engine(f);
    if (failed == 0)
        failed = check_operations(f);
    if (failed == 0)
        failed = check_futures(f);
    if (failed == 0)
        failed = check_releases(f);
    if (failed != 0)
        return failed;
    /* The user's allocator may have locks too. */
    CHECK(failing_allocator_calls(&scene()->memory) == allocations);
    CHECK(failing_allocator_live_bytes(&scene()->memory) == live_bytes);
    return CHILD_MAY_ALLOCATE ? check_own_engine() : 0;
}

/* Nobody has asked for the error of `failed` yet. */
static void family_open(family *f, ferry_loop_mode loop)
{
    scene_begin(loop);
    play("buffer b 64 of 1; promise p; pending = nop after p; done = nop; refused = any;"
         "promise bad; failed = nop after bad; keep bad FAILED; wait failed DEPENDENCY;"
         "waiter listed on pending; wait done OK; c = call by hand");
    wait_posted(1);
    *f = (family){.engine = engine(),
                  .device = ferry_device_at(engine(), 0),
                  .buffer = the_buffer("b"),
                  .promise = the_promise("p"),
                  .pending = the_future("pending"),
                  .done = the_future("done"),
                  .refused = the_future("refused"),
                  .failed = the_future("failed"),
                  .call = the_future("c"),
                  .listed = the_waiter("listed")};
}

/* The parent's engine has noticed nothing. */
static void family_goes_on(void)
{
    manual_run_one(by_hand());
    play("keep p; wait pending c OK; calls 1; buffer dst 64 on 1; copy dst <- b; wait it OK;"
         "bytes dst 1; cause failed FAILED");
    const counted_waiter *listed = the_waiter("listed");
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    cr_assert_eq(listed->calls, 1);
}

static void fork_and_check(ferry_loop_mode loop)
{
    family f;
    family_open(&f, loop);
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(child(&f));
    cr_assert_gt(pid, 0);
    int status = 0;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status), "the child died of signal %d", WTERMSIG(status));
    cr_assert_eq(WEXITSTATUS(status), 0, "the check in a line of which %d is the rest by 255",
                 WEXITSTATUS(status) - 1);
    family_goes_on();
}

Test(fork, the_child_is_told_and_the_parent_goes_on)
{
    fork_and_check(FERRY_LOOP_THREAD);
}

Test(fork, the_child_is_told_and_the_parent_goes_on_embedded)
{
    fork_and_check(FERRY_LOOP_EMBEDDED);
}

static _Atomic bool going_on;

static void *submit_on_and_on(void *arg)
{
    while (atomic_load(&going_on))
        ferry_future_release(ferry_nop(arg, NULL));
    return NULL;
}

static void *open_on_and_on(void *arg)
{
    (void)arg;
    while (atomic_load(&going_on)) {
        ferry_engine *engine = NULL;
        ASSERT_STATUS(ferry_engine_create(NULL, &engine, NULL), FERRY_OK);
        ferry_future_release(ferry_nop(engine, NULL));
        ferry_engine_release(engine);
    }
    return NULL;
}

/* Locks that other threads held at the fork stay taken in the child. */
Test(fork, in_the_midst_of_other_threads)
{
    family f;
    family_open(&f, FERRY_LOOP_THREAD);
    void *(*const on_and_on[])(void *) = {submit_on_and_on, submit_on_and_on, open_on_and_on};
    pthread_t threads[3];
    atomic_store(&going_on, true);
    for (int i = 0; i < 3; i++)
        threads[i] = begin_thread(on_and_on[i], f.engine);
    for (int i = 0; i < 20; i++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(child(&f));
        int status = 0;
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "wait status %d", status);
    }
    atomic_store(&going_on, false);
    for (int i = 0; i < 3; i++)
        (void)end_thread(threads[i]);
    family_goes_on();
}
