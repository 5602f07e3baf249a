/* SPDX-License-Identifier: Apache-2.0 */
/* What failed futures say of themselves, and what is refused inside callbacks. */
#include "tests/support/play.h"

#include <stdlib.h>

SCENE_SUITE(errors);

Test(errors, a_cancelled_operation_names_itself)
{
    play("promise p; n = nop after p label weights; cancel n; expect n CANCELLED");
    const ferry_error *error = ferry_future_error(the_future("n"));
    ASSERT_STATUS(error->status, FERRY_E_CANCELLED);
    cr_assert_eq(error->op, ferry_future_id(the_future("n")));
    cr_assert_str_eq(error->label, "weights");
    cr_assert_str_eq(error->domain, "ferry");
    cr_assert_str_not_empty(error->message);
    cr_assert_eq(error->rank, FERRY_RANK_NONE);
    cr_assert_null(error->cause);
    cr_assert_eq(ferry_future_error(the_future("n")), error, "the same as long as it lives");
}

Test(errors, a_missed_deadline_names_the_operation)
{
    play("promise p; n = nop after p label late deadline 10; step 10; settle");
    const ferry_error *error = ferry_future_error(the_future("n"));
    ASSERT_STATUS(error->status, FERRY_E_DEADLINE);
    cr_assert_eq(error->op, ferry_future_id(the_future("n")));
    cr_assert_str_eq(error->label, "late");
    cr_assert_null(error->cause);
}

Test(errors, a_failed_function_gives_its_number)
{
    play("c = call failing label kernel; settle");
    const ferry_error *error = ferry_future_error(the_future("c"));
    ASSERT_STATUS(error->status, FERRY_E_FAILED);
    cr_assert_str_eq(error->domain, "user");
    cr_assert_eq(error->native_code, FERRY_E_FAILED);
    cr_assert_eq(error->op, ferry_future_id(the_future("c")));
    cr_assert_str_eq(error->label, "kernel");
    cr_assert_not_null(strstr(error->message, "FERRY_E_FAILED"));
}

Test(errors, a_failed_promise_gives_its_message)
{
    ferry_promise *promise = own(test_promise(scene()));
    ferry_future *future = own(ferry_promise_future(promise));
    char message[] = "disk 3 is on fire";
    ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_E_FAILED, message), FERRY_OK);
    message[0] = 'X'; /* it was copied */
    const ferry_error *error = ferry_future_error(future);
    cr_assert_str_eq(error->message, "disk 3 is on fire");
    cr_assert_str_eq(error->domain, "user");
    ASSERT_STATUS(error->status, FERRY_E_FAILED);
    cr_assert_eq(error->op, ferry_future_id(future));
}

static void cause_is_the_first_error(bool submitted_before)
{
    play("promise c0");
    ferry_future *root = ferry_promise_future(the_promise("c0"));
    if (!submitted_before)
        play("resolve c0 FAILED root");
    for (int i = 1; i < 4; i++)
        play("c%d = nop after c%d", i, i - 1);
    if (submitted_before)
        play("resolve c0 FAILED root");
    scene_settle();
    for (int i = 1; i < 4; i++) {
        ferry_future *future = the_future("c%d", i);
        const ferry_error *error = ferry_future_error(future);
        ASSERT_STATUS(error->status, FERRY_E_DEPENDENCY);
        cr_assert_eq(error->op, ferry_future_id(future));
        cr_assert_not_null(error->cause);
        ASSERT_STATUS(error->cause->status, FERRY_E_FAILED);
        cr_assert_eq(error->cause->op, ferry_future_id(root));
        cr_assert_str_eq(error->cause->message, "root");
        cr_assert_null(error->cause->cause, "the root has none");
    }
    /* What others hold as their cause outlives its own future. */
    ferry_future_release(root);
    play("release c0 c1 c2; settle");
    cr_assert_str_eq(ferry_future_error(the_future("c3"))->cause->message, "root");
}

Test(errors, the_cause_is_the_first_error_of_a_chain)
{
    cause_is_the_first_error(true);
}

Test(errors, the_cause_is_the_first_error_of_a_chain_submitted_later)
{
    cause_is_the_first_error(false);
}

Test(errors, what_depends_on_what_was_refused_fails_with_it_as_cause)
{
    play("refused = any; now refused INVALID");
    cr_assert_eq(ferry_future_id(the_future("refused")), 0);
    ASSERT_STATUS(ferry_future_error(the_future("refused"))->status, FERRY_E_INVALID);
    play("chain = nop after refused; expect chain DEPENDENCY; cause chain INVALID");
}

Test(errors, without_memory_they_are_static_and_say_the_status)
{
    play("promise p; n = nop after p; last = nop after n");
    failing_allocator_arm(&scene()->memory, 1, true);
    play("cancel n; settle");
    const ferry_error *error = ferry_future_error(the_future("n"));
    const ferry_error *later = ferry_future_error(the_future("last"));
    ASSERT_STATUS(error->status, FERRY_E_CANCELLED);
    cr_assert_str_eq(error->message, ferry_status_text(FERRY_E_CANCELLED));
    cr_assert_eq(error->op, 0);
    ASSERT_STATUS(later->status, FERRY_E_DEPENDENCY);
    failing_allocator_arm(&scene()->memory, 0, false);
    cr_assert_eq(ferry_future_error(the_future("n")), error, "what it said once it says for ever");
    cr_assert_eq(ferry_future_error(the_future("last")), later);
    play("keep p");
}

Test(errors, of_creation_are_handed_out)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.host_devices = 65;
    ferry_engine *engine = NULL;
    ferry_error *error = NULL;
    ASSERT_STATUS(ferry_engine_create(&options, &engine, &error), FERRY_E_INVALID);
    cr_assert_null(engine);
    ASSERT_STATUS(error->status, FERRY_E_INVALID);
    cr_assert_not_null(strstr(error->message, "host_devices"));
    ferry_error_release(error);
    ferry_error_release(NULL);
}

/* ---- inside callbacks ---- */

typedef struct inside {
    ferry_waiter waiter; /* first */
    ferry_future *pending;
    ferry_future *done;
    _Atomic int times;
    ferry_status waited, waited_done, polled, ended;
    int64_t progressed;
} inside;

static void try_what_is_refused(inside *self)
{
    self->waited = ferry_future_wait(self->pending, -1);
    self->waited_done = ferry_future_wait(self->done, -1);
    self->polled = ferry_future_wait(self->pending, 0);
    self->ended = ferry_engine_shutdown(engine(), -1);
    self->progressed = ferry_engine_progress(engine(), 0);
    atomic_fetch_add(&self->times, 1);
}

static void try_in_callback(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future, (void)status;
    try_what_is_refused((inside *)(void *)waiter);
}

static ferry_status try_in_call(void *arg)
{
    try_what_is_refused(arg);
    return FERRY_OK;
}

static void try_in_free(void *arg, void *memory, size_t size_bytes)
{
    (void)size_bytes;
    try_what_is_refused(arg);
    free(memory);
}

/* In the first of several records: by the others' time the futures may have been given back. */
static void try_in_record(void *arg, const ferry_trace_record *record)
{
    inside *self = arg;
    (void)record;
    if (atomic_load(&self->times) == 0)
        try_what_is_refused(self);
}

static void try_in_post(ferry_executor *executor, ferry_task *task)
{
    try_what_is_refused(executor->arg);
    ferry_task_run(task);
}

static void inside_open(inside *self)
{
    play("promise p; pending = nop after p; done = nop");
    *self = (inside){.pending = the_future("pending"), .done = the_future("done")};
}

static void inside_close(inside *self)
{
    while (atomic_load(&self->times) == 0) {
        scene_settle();
        sched_yield();
    }
    ASSERT_STATUS(self->waited, FERRY_E_DEADLOCK);
    ASSERT_STATUS(self->waited_done, FERRY_OK);
    ASSERT_STATUS(self->polled, FERRY_PENDING);
    ASSERT_STATUS(self->ended, FERRY_E_DEADLOCK);
    cr_assert_lt(self->progressed, 0);
    play("keep p; wait pending OK; release p pending done");
}

static void refused_in_callbacks(ferry_loop_mode loop)
{
    scene_begin(loop);
    inside self;
    inside_open(&self);
    self.waiter.fn = try_in_callback;
    ASSERT_STATUS(ferry_future_on_ready(self.done, &self.waiter), FERRY_OK);
    inside_close(&self);

    inside_open(&self);
    ferry_future_release(ferry_call(engine(), NULL, try_in_call, &self, NULL));
    inside_close(&self);

    inside_open(&self);
    ferry_executor executor = {.struct_size = sizeof executor, .post = try_in_post, .arg = &self};
    ferry_future *call = own(ferry_call(engine(), &executor, count_call, scene_calls(), NULL));
    inside_close(&self);
    ASSERT_STATUS(ferry_future_wait(call, -1), FERRY_OK);
    scene_end();
}

Test(errors, waiting_and_shutdown_are_refused_in_callbacks)
{
    refused_in_callbacks(FERRY_LOOP_THREAD);
}

Test(errors, waiting_and_shutdown_are_refused_in_callbacks_embedded)
{
    refused_in_callbacks(FERRY_LOOP_EMBEDDED);
}

static void refused_in_free(ferry_loop_mode loop)
{
    scene_begin(loop);
    inside self;
    inside_open(&self);
    ferry_buffer *buffer = NULL;
    ASSERT_STATUS(ferry_buffer_wrap(ferry_device_at(engine(), 0), malloc(64), 64, try_in_free,
                                    &self, &buffer),
                  FERRY_OK);
    ferry_buffer_release(buffer);
    inside_close(&self);
    scene_end();
}

Test(errors, waiting_and_shutdown_are_refused_in_free_functions)
{
    refused_in_free(FERRY_LOOP_THREAD);
}

Test(errors, waiting_and_shutdown_are_refused_in_free_functions_embedded)
{
    refused_in_free(FERRY_LOOP_EMBEDDED);
}

Test(errors, waiting_and_shutdown_are_refused_in_trace_hooks)
{
    scene_begin(FERRY_LOOP_THREAD);
    inside self;
    inside_open(&self);
    ferry_trace_hooks hooks = {.struct_size = sizeof hooks, .record = try_in_record, .arg = &self};
    ASSERT_STATUS(ferry_engine_trace(engine(), &hooks), FERRY_OK);
    ferry_future_release(ferry_call(engine(), NULL, count_call, scene_calls(), NULL));
    inside_close(&self);
    ASSERT_STATUS(ferry_engine_trace(engine(), NULL), FERRY_OK);
}

Test(errors, another_engines_futures_may_be_waited_for_in_a_callback)
{
    test_engine other;
    test_engine_open(&other, FERRY_LOOP_THREAD);
    inside self = {0};
    self.pending = ferry_call(other.engine, NULL, count_call, scene_calls(), NULL);
    self.done = ferry_nop(engine(), NULL);
    self.waiter.fn = try_in_callback;
    ASSERT_STATUS(ferry_future_on_ready(self.done, &self.waiter), FERRY_OK);
    scene_settle();
    cr_assert_eq(self.times, 1);
    ASSERT_STATUS(self.waited, FERRY_OK);
    ASSERT_STATUS(self.ended, FERRY_E_DEADLOCK);
    ferry_future_release(self.pending);
    ferry_future_release(self.done);
    test_engine_close(&other);
}
