/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Poisoned spans: a span whose last writer failed stays so until it is wholly overwritten or
 * defined anew, and a reader fails the same way whether it was submitted before or after.
 */
#include "tests/support/api_test.h"

#include <stdlib.h>

TestSuite(poison, .timeout = HANG_S);

typedef struct fixture {
    test_engine te;
    ferry_buffer *buffer; /* 100 bytes of 1 */
    ferry_buffer *other;  /* 100 bytes of 2 */
    ferry_promise *held;
} fixture;

static void fixture_open(fixture *f)
{
    test_engine_open(&f->te, FERRY_LOOP_EMBEDDED);
    f->buffer = test_buffer(&f->te, 0, 100, 1);
    f->other = test_buffer(&f->te, 1, 100, 2);
    f->held = test_promise(&f->te);
}

static void fixture_close(fixture *f)
{
    ferry_promise_release(f->held);
    settle(&f->te);
    ferry_buffer_release(f->buffer);
    ferry_buffer_release(f->other);
    test_engine_close(&f->te);
}

static ferry_future *touch(fixture *f, size_t begin, size_t end, ferry_access_mode mode)
{
    ferry_access access = {span_of(f->buffer, begin, end - begin), mode};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.accesses = &access;
    options.access_count = 1;
    return ferry_nop(f->te.engine, &options);
}

static ferry_status status_after_settling(fixture *f, ferry_future *future)
{
    settle(&f->te);
    return status_of(future);
}

/* Whether a part of the buffer can be read now. */
static bool is_healthy(fixture *f, size_t begin, size_t end)
{
    return status_after_settling(f, touch(f, begin, end, FERRY_READ)) == FERRY_OK;
}

/* A write of [begin, end) that fails when the promise `held` or the test says so. */
static ferry_future *held_write(fixture *f, size_t begin, size_t end, int64_t deadline_ns)
{
    ferry_future *after = ferry_promise_future(f->held);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &after;
    options.after_count = 1;
    options.deadline_ns = deadline_ns;
    ferry_future *write = ferry_copy(f->te.engine, span_of(f->buffer, begin, end - begin),
                                     span_of(f->other, 0, end - begin), &options);
    ferry_future_release(after);
    return write;
}

/* Poisons [begin, end) by a cancelled write. */
static void poison(fixture *f, size_t begin, size_t end)
{
    ferry_future *write = held_write(f, begin, end, 0);
    ASSERT_STATUS(ferry_future_cancel(write), FERRY_OK);
    ASSERT_STATUS(status_after_settling(f, write), FERRY_E_CANCELLED);
}

/* ---- the same before and after ---- */

typedef void (*fail_fn)(fixture *f, ferry_future *write);

static void by_cancel(fixture *f, ferry_future *write)
{
    (void)f;
    ASSERT_STATUS(ferry_future_cancel(write), FERRY_OK);
}

static void by_deadline(fixture *f, ferry_future *write)
{
    (void)write;
    stepped_clock_step(&f->te.time, 100);
}

static void by_dependency(fixture *f, ferry_future *write)
{
    (void)write;
    ASSERT_STATUS(ferry_promise_resolve(f->held, FERRY_E_FAILED, "root"), FERRY_OK);
}

static void readers_agree(fail_fn fail, ferry_status writes, ferry_status root, bool root_is_write)
{
    fixture f;
    fixture_open(&f);
    ferry_future *write = held_write(&f, 0, 100, fail == by_deadline ? START_NS + 100 : 0);
    ferry_future *readers[5] = {touch(&f, 10, 20, FERRY_READ)};
    readers[1] = touch(&f, 30, 40, FERRY_READ_WRITE);
    settle(&f.te);
    fail(&f, write);
    readers[2] = touch(&f, 50, 60, FERRY_READ); /* the failure has not been noticed */
    settle(&f.te);
    readers[3] = touch(&f, 70, 80, FERRY_READ_WRITE);
    readers[4] = touch(&f, 50, 60, FERRY_READ);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(write), writes);
    for (int i = 0; i < 5; i++) {
        ASSERT_STATUS(ferry_future_poll(readers[i]), FERRY_E_DEPENDENCY);
        const ferry_error *cause = ferry_future_error(readers[i])->cause;
        cr_assert_not_null(cause);
        ASSERT_STATUS(cause->status, root);
        if (root_is_write)
            cr_assert_eq(cause->op, ferry_future_id(write));
        cr_assert_eq(cause, ferry_future_error(readers[0])->cause, "reader %d", i);
    }
    for (int i = 0; i < 5; i++)
        ferry_future_release(readers[i]);
    ferry_future_release(write);
    fixture_close(&f);
}

Test(poison, readers_before_and_after_a_cancelled_write_agree)
{
    readers_agree(by_cancel, FERRY_E_CANCELLED, FERRY_E_CANCELLED, true);
}

Test(poison, readers_before_and_after_a_late_write_agree)
{
    readers_agree(by_deadline, FERRY_E_DEADLINE, FERRY_E_DEADLINE, true);
}

Test(poison, readers_before_and_after_a_failed_write_agree)
{
    readers_agree(by_dependency, FERRY_E_DEPENDENCY, FERRY_E_FAILED, false);
}

Test(poison, readers_before_and_after_a_failed_function_agree)
{
    fixture f;
    fixture_open(&f);
    ferry_future *write =
        call_on(&f.te, NULL, fail_call, NULL, ferry_buffer_span(f.buffer), FERRY_WRITE);
    ferry_future *before = touch(&f, 0, 10, FERRY_READ);
    settle(&f.te);
    ferry_future *after = touch(&f, 0, 10, FERRY_READ);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(before), FERRY_E_DEPENDENCY);
    ASSERT_STATUS(ferry_future_poll(after), FERRY_E_DEPENDENCY);
    cr_assert_eq(ferry_future_error(before)->cause, ferry_future_error(after)->cause);
    cr_assert_eq(ferry_future_error(before)->cause->op, ferry_future_id(write));
    ferry_future_release(before);
    ferry_future_release(after);
    ferry_future_release(write);
    fixture_close(&f);
}

Test(poison, a_copy_out_of_poison_fails_and_poisons_its_destination)
{
    fixture f;
    fixture_open(&f);
    ferry_buffer *last = test_buffer(&f.te, 2, 100, 3);
    poison(&f, 40, 60);
    ferry_future *copy =
        ferry_copy(f.te.engine, ferry_buffer_span(last), ferry_buffer_span(f.buffer), NULL);
    ASSERT_STATUS(status_after_settling(&f, copy), FERRY_E_DEPENDENCY);
    cr_assert(is_filled(last, 0, 100, 3));
    ferry_future *next =
        ferry_copy(f.te.engine, span_of(f.other, 0, 10), span_of(last, 0, 10), NULL);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(next), FERRY_E_DEPENDENCY);
    ASSERT_STATUS(ferry_future_error(next)->cause->status, FERRY_E_CANCELLED);
    ferry_future_release(next);
    ferry_buffer_release(last);
    fixture_close(&f);
}

/* ---- healing ---- */

Test(poison, stays_within_its_span)
{
    fixture f;
    fixture_open(&f);
    poison(&f, 40, 60);
    cr_assert(is_healthy(&f, 0, 40));
    cr_assert(is_healthy(&f, 60, 100));
    cr_assert_not(is_healthy(&f, 40, 41));
    cr_assert_not(is_healthy(&f, 59, 60));
    cr_assert_not(is_healthy(&f, 0, 100));
    fixture_close(&f);
}

Test(poison, wholly_overwritten_heals)
{
    fixture f;
    fixture_open(&f);
    poison(&f, 40, 60);
    ASSERT_STATUS(status_after_settling(&f, ferry_copy(f.te.engine, span_of(f.buffer, 40, 20),
                                                       span_of(f.other, 0, 20), NULL)),
                  FERRY_OK);
    cr_assert(is_healthy(&f, 0, 100));
    fixture_close(&f);
}

Test(poison, partly_overwritten_stays_poisoned_in_the_rest)
{
    fixture f;
    fixture_open(&f);
    poison(&f, 40, 60);
    ASSERT_STATUS(status_after_settling(&f, touch(&f, 45, 50, FERRY_WRITE)), FERRY_OK);
    cr_assert(is_healthy(&f, 45, 50));
    cr_assert_not(is_healthy(&f, 40, 45));
    cr_assert_not(is_healthy(&f, 50, 60));
    cr_assert_not(is_healthy(&f, 44, 46));
    ASSERT_STATUS(status_after_settling(&f, touch(&f, 30, 45, FERRY_WRITE)), FERRY_OK);
    ASSERT_STATUS(status_after_settling(&f, touch(&f, 50, 70, FERRY_WRITE)), FERRY_OK);
    cr_assert(is_healthy(&f, 0, 100));
    fixture_close(&f);
}

Test(poison, read_write_does_not_heal)
{
    fixture f;
    fixture_open(&f);
    poison(&f, 40, 60);
    ASSERT_STATUS(status_after_settling(&f, touch(&f, 40, 60, FERRY_READ_WRITE)),
                  FERRY_E_DEPENDENCY);
    cr_assert_not(is_healthy(&f, 40, 60));
    fixture_close(&f);
}

/* A function that names the same bytes twice reads them, whichever it names first. */
Test(poison, read_and_write_named_apart_share_the_failure_in_either_order)
{
    for (int order = 0; order < 2; order++) {
        fixture f;
        fixture_open(&f);
        poison(&f, 40, 60);
        ferry_future *write = held_write(&f, 0, 30, 0);
        ferry_access accesses[2];
        accesses[order] = (ferry_access){span_of(f.buffer, 40, 20), FERRY_READ};
        accesses[1 - order] = (ferry_access){span_of(f.buffer, 40, 20), FERRY_WRITE};
        ferry_op_options options = FERRY_OP_OPTIONS_INIT;
        options.accesses = accesses;
        options.access_count = 2;
        ASSERT_STATUS(status_after_settling(&f, ferry_nop(f.te.engine, &options)),
                      FERRY_E_DEPENDENCY);
        accesses[order].span.offset_bytes = accesses[1 - order].span.offset_bytes = 5;
        ferry_future *behind = ferry_nop(f.te.engine, &options);
        ASSERT_STATUS(ferry_future_cancel(write), FERRY_OK);
        ASSERT_STATUS(status_after_settling(&f, behind), FERRY_E_DEPENDENCY);
        ferry_future_release(write);
        fixture_close(&f);
    }
}

Test(poison, a_definition_heals)
{
    fixture f;
    fixture_open(&f);
    poison(&f, 40, 60);
    ASSERT_STATUS(ferry_buffer_define(span_of(f.buffer, 40, 20), NULL), FERRY_OK);
    cr_assert(is_healthy(&f, 0, 100));
    fixture_close(&f);
}

Test(poison, a_definition_by_a_future_heals_once_it_resolves)
{
    fixture f;
    fixture_open(&f);
    poison(&f, 40, 60);
    ferry_promise *promise = test_promise(&f.te);
    ferry_future *future = ferry_promise_future(promise);
    ASSERT_STATUS(ferry_buffer_define(span_of(f.buffer, 40, 20), future), FERRY_OK);
    ferry_future_release(future);
    ferry_future *reader = touch(&f, 45, 50, FERRY_READ);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(reader), FERRY_PENDING);
    keep_promise(promise, FERRY_OK);
    ASSERT_STATUS(status_after_settling(&f, reader), FERRY_OK);
    fixture_close(&f);
}

static void failed_definition(bool before)
{
    fixture f;
    fixture_open(&f);
    ferry_promise *promise = test_promise(&f.te);
    ferry_future *future = ferry_promise_future(promise);
    if (before)
        ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_E_FAILED, "root"), FERRY_OK);
    ASSERT_STATUS(ferry_buffer_define(span_of(f.buffer, 40, 20), future), FERRY_OK);
    if (!before)
        ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_E_FAILED, "root"), FERRY_OK);
    ferry_future *reader = touch(&f, 45, 50, FERRY_READ);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(reader), FERRY_E_DEPENDENCY);
    cr_assert_str_eq(ferry_future_error(reader)->cause->message, "root");
    cr_assert(is_healthy(&f, 0, 40));
    ferry_future_release(reader);
    ferry_future_release(future);
    ferry_promise_release(promise);
    fixture_close(&f);
}

Test(poison, a_definition_that_fails_poisons)
{
    failed_definition(false);
}

Test(poison, a_definition_that_has_failed_poisons)
{
    failed_definition(true);
}

Test(poison, a_definition_by_a_refused_future_poisons)
{
    fixture f;
    fixture_open(&f);
    ferry_future *refused = ferry_future_any(f.te.engine, NULL, 0);
    ASSERT_STATUS(ferry_buffer_define(span_of(f.buffer, 40, 20), refused), FERRY_OK);
    ferry_future_release(refused);
    cr_assert_not(is_healthy(&f, 40, 60));
    cr_assert(is_healthy(&f, 60, 100));
    fixture_close(&f);
}

Test(poison, a_write_behind_the_failed_one_is_not_touched_by_it)
{
    fixture f;
    fixture_open(&f);
    ferry_future *first = held_write(&f, 0, 100, 0);
    ferry_future *second =
        ferry_copy(f.te.engine, ferry_buffer_span(f.buffer), ferry_buffer_span(f.other), NULL);
    ferry_future *reader = touch(&f, 0, 100, FERRY_READ);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_cancel(first), FERRY_OK);
    settle(&f.te);
    ASSERT_STATUS(status_of(first), FERRY_E_CANCELLED);
    ASSERT_STATUS(status_of(second), FERRY_OK);
    ASSERT_STATUS(status_of(reader), FERRY_OK);
    cr_assert(is_filled(f.buffer, 0, 100, 2));
    fixture_close(&f);
}

Test(poison, goes_with_its_buffer)
{
    fixture f;
    fixture_open(&f);
    for (size_t i = 0; i < 50; i++)
        poison(&f, i * 2, i * 2 + 1);
    fixture_close(&f); /* no byte is left */
}

/* ---- refused for want of room ---- */

enum { FEW = 8 };

static void open_with_few_nodes(fixture *f)
{
    ferry_engine_options options = test_engine_options(&f->te, FERRY_LOOP_EMBEDDED);
    options.max_nodes = FEW;
    test_engine_create(&f->te, &options);
    f->buffer = test_buffer(&f->te, 0, 100, 1);
    f->other = test_buffer(&f->te, 1, 100, 2);
    f->held = NULL;
}

/* Takes every node there is; gives how many. */
static size_t take_all_nodes(fixture *f, ferry_promise *promises[FEW + 1])
{
    size_t count = 0;
    while (count <= FEW && ferry_promise_create(f->te.engine, &promises[count]) == FERRY_OK)
        count++;
    cr_assert_leq(count, FEW);
    return count;
}

static void give_all_nodes(fixture *f, ferry_promise *promises[FEW + 1], size_t count)
{
    while (count > 0)
        ferry_promise_release(promises[--count]);
    settle(&f->te);
}

Test(poison, a_refused_copy_poisons)
{
    fixture f;
    open_with_few_nodes(&f);
    ferry_promise *promises[FEW + 1];
    size_t count = take_all_nodes(&f, promises);
    ferry_future *refused =
        ferry_copy(f.te.engine, span_of(f.buffer, 40, 20), span_of(f.other, 0, 20), NULL);
    ASSERT_STATUS(status_of(refused), FERRY_E_AGAIN);
    give_all_nodes(&f, promises, count);
    ferry_future *reader = touch(&f, 45, 50, FERRY_READ);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(reader), FERRY_E_DEPENDENCY);
    ASSERT_STATUS(ferry_future_error(reader)->cause->status, FERRY_E_AGAIN);
    ferry_future_release(reader);
    cr_assert(is_healthy(&f, 0, 40));
    cr_assert(is_healthy(&f, 60, 100));
    ASSERT_STATUS(status_after_settling(&f, touch(&f, 40, 60, FERRY_WRITE)), FERRY_OK);
    cr_assert(is_healthy(&f, 0, 100));
    fixture_close(&f);
}

Test(poison, refused_functions_nops_and_definitions_poison_what_they_write)
{
    fixture f;
    open_with_few_nodes(&f);
    ferry_promise *promises[FEW + 1];
    size_t count = take_all_nodes(&f, promises);
    ASSERT_STATUS(
        status_of(call_on(&f.te, NULL, fail_call, NULL, span_of(f.buffer, 0, 10), FERRY_WRITE)),
        FERRY_E_AGAIN);
    ASSERT_STATUS(status_of(touch(&f, 20, 30, FERRY_READ_WRITE)), FERRY_E_AGAIN);
    ASSERT_STATUS(status_of(touch(&f, 40, 50, FERRY_READ)), FERRY_E_AGAIN);
    ASSERT_STATUS(ferry_buffer_define(span_of(f.buffer, 60, 10), NULL), FERRY_E_AGAIN);
    give_all_nodes(&f, promises, count);
    cr_assert_not(is_healthy(&f, 0, 10));
    cr_assert(is_healthy(&f, 10, 20));
    cr_assert_not(is_healthy(&f, 20, 30));
    cr_assert(is_healthy(&f, 30, 60));
    cr_assert_not(is_healthy(&f, 60, 70));
    cr_assert(is_healthy(&f, 70, 100));
    fixture_close(&f);
}

Test(poison, many_refused_writes_poison_at_least_what_they_name)
{
    fixture f;
    open_with_few_nodes(&f);
    ferry_promise *promises[FEW + 1];
    size_t count = take_all_nodes(&f, promises);
    for (size_t i = 0; i < 100; i++)
        ASSERT_STATUS(status_of(touch(&f, i, i + 1, FERRY_WRITE)), FERRY_E_AGAIN);
    give_all_nodes(&f, promises, count);
    for (size_t i = 0; i < 100; i++)
        cr_assert_not(is_healthy(&f, i, i + 1), "byte %zu", i);
    ASSERT_STATUS(status_after_settling(&f, touch(&f, 0, 100, FERRY_WRITE)), FERRY_OK);
    cr_assert(is_healthy(&f, 0, 100));
    fixture_close(&f);
}

Test(poison, what_is_wrong_does_not_poison)
{
    fixture f;
    fixture_open(&f);
    ASSERT_STATUS(
        status_of(ferry_copy(f.te.engine, span_of(f.buffer, 0, 20), span_of(f.other, 0, 10), NULL)),
        FERRY_E_INVALID);
    cr_assert(is_healthy(&f, 0, 100));
    fixture_close(&f);
}

static void *submit_without_memory(void *arg)
{
    fixture *f = arg;
    ferry_status *status = malloc(sizeof *status);
    *status = status_of(
        ferry_copy(f->te.engine, span_of(f->buffer, 40, 20), span_of(f->other, 0, 20), NULL));
    return status;
}

Test(poison, a_thread_with_no_memory_at_all_poisons_what_it_could_not_write)
{
    fixture f;
    fixture_open(&f);
    pthread_t thread;
    void *answer;
    failing_allocator_arm(&f.te.memory, 1, true);
    cr_assert_eq(pthread_create(&thread, NULL, submit_without_memory, &f), 0);
    cr_assert_eq(pthread_join(thread, &answer), 0);
    failing_allocator_arm(&f.te.memory, 0, false);
    ASSERT_STATUS(*(ferry_status *)answer, FERRY_E_NO_MEMORY);
    free(answer);
    cr_assert_not(is_healthy(&f, 40, 60));
    ASSERT_STATUS(status_after_settling(&f, touch(&f, 0, 100, FERRY_WRITE)), FERRY_OK);
    cr_assert(is_healthy(&f, 0, 100));
    fixture_close(&f);
}
