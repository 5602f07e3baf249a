/* SPDX-License-Identifier: Apache-2.0 */
/* all and any; the views issued and quiet. */
#include "tests/support/api_test.h"

TestSuite(combine, .timeout = HANG_S);

/* ---- all ---- */

Test(combine, all_waits_for_all)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promises[3];
    ferry_future *futures[3];
    for (int i = 0; i < 3; i++) {
        promises[i] = test_promise(&te);
        futures[i] = ferry_promise_future(promises[i]);
    }
    ferry_future *all = ferry_future_all(te.engine, futures, 3);
    for (int i = 0; i < 3; i++) {
        settle(&te);
        ASSERT_STATUS(ferry_future_poll(all), FERRY_PENDING);
        ferry_future_release(futures[i]); /* borrowed during the call only */
        keep_promise(promises[i], FERRY_OK);
    }
    settle(&te);
    ASSERT_STATUS(status_of(all), FERRY_OK);
    test_engine_close(&te);
}

Test(combine, all_of_nothing_resolves_at_once)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ASSERT_STATUS(status_of(ferry_future_all(te.engine, NULL, 0)), FERRY_OK);
    test_engine_close(&te);
}

Test(combine, all_fails_as_soon_as_one_has_with_it_as_cause)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *slow = test_promise(&te), *bad = test_promise(&te);
    ferry_future *futures[] = {ferry_promise_future(slow), ferry_promise_future(bad)};
    ferry_future *all = ferry_future_all(te.engine, futures, 2);
    keep_promise(bad, FERRY_E_FAILED);
    settle(&te);
    ASSERT_STATUS(ferry_future_poll(all), FERRY_E_DEPENDENCY);
    const ferry_error *error = ferry_future_error(all);
    cr_assert_eq(error->op, ferry_future_id(all));
    cr_assert_not_null(error->cause);
    cr_assert_eq(error->cause->op, ferry_future_id(futures[1]));
    ASSERT_STATUS(error->cause->status, FERRY_E_FAILED);
    keep_promise(slow, FERRY_OK);
    settle(&te);
    ASSERT_STATUS(status_of(all), FERRY_E_DEPENDENCY);
    ferry_future_release(futures[0]);
    ferry_future_release(futures[1]);
    test_engine_close(&te);
}

Test(combine, all_of_what_has_failed_already_fails)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *bad = test_promise(&te);
    ferry_future *futures[] = {ferry_promise_future(bad), ferry_nop(te.engine, NULL)};
    keep_promise(bad, FERRY_E_FAILED);
    ferry_future *all = ferry_future_all(te.engine, futures, 2);
    settle(&te);
    ASSERT_STATUS(ferry_future_poll(all), FERRY_E_DEPENDENCY);
    cr_assert_eq(ferry_future_error(all)->cause->op, ferry_future_id(futures[0]));
    ferry_future_release(all);
    ferry_future_release(futures[0]);
    ferry_future_release(futures[1]);
    test_engine_close(&te);
}

Test(combine, the_same_future_twice_counts_once_or_twice_but_resolves)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    ferry_future *future = ferry_promise_future(promise);
    ferry_future *futures[] = {future, future, future};
    ferry_future *all = ferry_future_all(te.engine, futures, 3);
    ferry_future *any = ferry_future_any(te.engine, futures, 3);
    settle(&te);
    ASSERT_STATUS(ferry_future_poll(all), FERRY_PENDING);
    ASSERT_STATUS(ferry_future_poll(any), FERRY_PENDING);
    keep_promise(promise, FERRY_OK);
    settle(&te);
    ASSERT_STATUS(status_of(all), FERRY_OK);
    ASSERT_STATUS(status_of(any), FERRY_OK);
    ferry_future_release(future);
    test_engine_close(&te);
}

/* ---- any ---- */

Test(combine, any_with_no_futures_is_refused)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ASSERT_STATUS(status_of(ferry_future_any(te.engine, NULL, 0)), FERRY_E_INVALID);
    ferry_future *nop = ferry_nop(te.engine, NULL);
    ASSERT_STATUS(status_of(ferry_future_any(te.engine, &nop, 0)), FERRY_E_INVALID);
    ferry_future_release(nop);
    test_engine_close(&te);
}

Test(combine, any_resolves_with_the_first)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *first = test_promise(&te), *second = test_promise(&te);
    ferry_future *futures[] = {ferry_promise_future(second), ferry_promise_future(first)};
    ferry_future *any = ferry_future_any(te.engine, futures, 2);
    settle(&te);
    ASSERT_STATUS(ferry_future_poll(any), FERRY_PENDING);
    keep_promise(first, FERRY_OK);
    settle(&te);
    ASSERT_STATUS(ferry_future_poll(any), FERRY_OK);
    keep_promise(second, FERRY_E_FAILED);
    settle(&te);
    ASSERT_STATUS(status_of(any), FERRY_OK);
    ferry_future_release(futures[0]);
    ferry_future_release(futures[1]);
    test_engine_close(&te);
}

Test(combine, any_fails_if_the_first_did)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *bad = test_promise(&te), *slow = test_promise(&te);
    ferry_future *futures[] = {ferry_promise_future(slow), ferry_promise_future(bad)};
    ferry_future *any = ferry_future_any(te.engine, futures, 2);
    keep_promise(bad, FERRY_E_FAILED);
    settle(&te);
    ASSERT_STATUS(ferry_future_poll(any), FERRY_E_DEPENDENCY);
    cr_assert_eq(ferry_future_error(any)->cause->op, ferry_future_id(futures[1]));
    keep_promise(slow, FERRY_OK);
    ferry_future_release(any);
    ferry_future_release(futures[0]);
    ferry_future_release(futures[1]);
    settle(&te);
    test_engine_close(&te);
}

Test(combine, any_of_several_that_resolve_together_resolves_once)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    for (size_t count = 1; count <= 9; count++) {
        ferry_promise *promise = test_promise(&te);
        ferry_future *futures[9];
        for (size_t i = 0; i < count; i++)
            futures[i] = nop_after_promise(&te, promise);
        ferry_future *any = ferry_future_any(te.engine, futures, count);
        counted_waiter waiter;
        counted_waiter_init(&waiter, NULL);
        ASSERT_STATUS(ferry_future_on_ready(any, &waiter.waiter), FERRY_OK);
        keep_promise(promise, count % 2 == 0 ? FERRY_OK : FERRY_E_FAILED);
        settle(&te);
        ASSERT_STATUS(status_of(any), count % 2 == 0 ? FERRY_OK : FERRY_E_DEPENDENCY);
        cr_assert_eq(waiter.calls, 1);
        for (size_t i = 0; i < count; i++)
            ferry_future_release(futures[i]);
    }
    test_engine_close(&te);
}

Test(combine, any_of_what_is_resolved_resolves_at_once)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *slow = test_promise(&te);
    ferry_future *pending = ferry_promise_future(slow), *done = ferry_nop(te.engine, NULL);
    ferry_future *orders[][2] = {{pending, done}, {done, pending}};
    for (int i = 0; i < 2; i++) {
        ferry_future *any = ferry_future_any(te.engine, orders[i], 2);
        settle(&te);
        ASSERT_STATUS(status_of(any), FERRY_OK);
    }
    keep_promise(slow, FERRY_OK);
    settle(&te);
    ferry_future_release(pending);
    ferry_future_release(done);
    test_engine_close(&te);
}

Test(combine, any_on_a_promise_that_lasts_does_not_grow)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *lasting = test_promise(&te);
    ferry_future *futures[] = {ferry_promise_future(lasting), NULL};
    uint64_t warm_calls = 0;
    int64_t warm_bytes = 0;
    for (int i = 0; i < 100000; i++) {
        if (i == 1000) {
            warm_calls = failing_allocator_calls(&te.memory);
            warm_bytes = failing_allocator_live_bytes(&te.memory);
        }
        ferry_promise *promise = test_promise(&te);
        futures[1] = ferry_promise_future(promise);
        ferry_future *any = ferry_future_any(te.engine, futures, 2);
        keep_promise(promise, FERRY_OK);
        ferry_future_release(futures[1]);
        ASSERT_STATUS(status_of(any), FERRY_OK);
    }
    cr_assert_eq(failing_allocator_live_bytes(&te.memory), warm_bytes);
    cr_assert_eq(failing_allocator_calls(&te.memory), warm_calls);
    keep_promise(lasting, FERRY_OK);
    ferry_future_release(futures[0]);
    settle(&te);
    test_engine_close(&te);
}

/* ---- issued and quiet ---- */

Test(combine, views_of_what_waits_are_pending_until_it_goes_on)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    ferry_future *nop = nop_after_promise(&te, promise);
    ferry_future *issued = ferry_future_issued(nop), *quiet = ferry_future_quiet(nop);
    settle(&te);
    ASSERT_STATUS(ferry_future_poll(issued), FERRY_PENDING);
    ASSERT_STATUS(ferry_future_poll(quiet), FERRY_PENDING);
    keep_promise(promise, FERRY_OK);
    settle(&te);
    ASSERT_STATUS(status_of(issued), FERRY_OK);
    ASSERT_STATUS(status_of(quiet), FERRY_OK);
    ASSERT_STATUS(status_of(nop), FERRY_OK);
    test_engine_close(&te);
}

Test(combine, views_of_what_is_done_resolve_at_once)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_future *nop = ferry_nop(te.engine, NULL);
    ASSERT_STATUS(status_of(ferry_future_issued(nop)), FERRY_OK);
    ASSERT_STATUS(status_of(ferry_future_quiet(nop)), FERRY_OK);
    ferry_future_release(nop);
    test_engine_close(&te);
}

Test(combine, views_of_what_was_cancelled_while_it_waited)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    ferry_future *nop = nop_after_promise(&te, promise);
    ferry_future *issued[2] = {ferry_future_issued(nop)};
    ferry_future *quiet[2] = {ferry_future_quiet(nop)};
    ASSERT_STATUS(ferry_future_cancel(nop), FERRY_OK);
    settle(&te);
    issued[1] = ferry_future_issued(nop);
    quiet[1] = ferry_future_quiet(nop);
    settle(&te);
    for (int i = 0; i < 2; i++) {
        ASSERT_STATUS(ferry_future_poll(issued[i]), FERRY_E_DEPENDENCY);
        cr_assert_eq(ferry_future_error(issued[i])->cause->op, ferry_future_id(nop));
        ferry_future_release(issued[i]);
        ASSERT_STATUS(status_of(quiet[i]), FERRY_OK);
    }
    keep_promise(promise, FERRY_OK);
    settle(&te);
    ferry_future_release(nop);
    test_engine_close(&te);
}

Test(combine, issued_of_a_function_that_failed_is_the_same_before_and_after)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_future *call = ferry_call(te.engine, NULL, fail_call, NULL, NULL);
    ferry_future *before = ferry_future_issued(call);
    settle(&te);
    ASSERT_STATUS(ferry_future_poll(call), FERRY_E_FAILED);
    ferry_future *after = ferry_future_issued(call);
    settle(&te);
    ASSERT_STATUS(status_of(before), FERRY_OK);
    ASSERT_STATUS(status_of(after), FERRY_OK);
    ferry_future_release(call);
    test_engine_close(&te);
}

Test(combine, a_cancelled_function_that_runs_is_issued_resolved_and_not_quiet)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    manual_executor executor;
    manual_executor_init(&executor);
    _Atomic int calls = 0;
    ferry_future *call = ferry_call(te.engine, &executor.executor, count_call, &calls, NULL);
    ferry_future *issued = ferry_future_issued(call), *quiet = ferry_future_quiet(call);
    ASSERT_STATUS(ferry_future_poll(issued), FERRY_PENDING);
    settle(&te);
    ASSERT_STATUS(status_of(issued), FERRY_OK);
    ASSERT_STATUS(ferry_future_poll(quiet), FERRY_PENDING);
    manual_run_one(&executor);
    settle(&te);
    ASSERT_STATUS(status_of(quiet), FERRY_OK);
    ASSERT_STATUS(status_of(call), FERRY_OK);
    test_engine_close(&te);
}

Test(combine, views_of_what_was_refused)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_future *refused[] = {ferry_future_any(te.engine, NULL, 0), ferry_nop(NULL, NULL)};
    for (int i = 0; i < 2; i++) {
        ASSERT_STATUS(ferry_future_poll(refused[i]), FERRY_E_INVALID);
        ferry_future *issued = ferry_future_issued(refused[i]);
        cr_assert_lt(ferry_future_poll(issued), 0, "it never was issued");
        ferry_future_release(issued);
        ASSERT_STATUS(status_of(ferry_future_quiet(refused[i])), FERRY_OK);
        ferry_future_release(refused[i]);
    }
    test_engine_close(&te);
}

Test(combine, cancelling_a_combination_leaves_its_parts)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    ferry_future *nop = nop_after_promise(&te, promise);
    ferry_future *all = ferry_future_all(te.engine, &nop, 1);
    ferry_future *any = ferry_future_any(te.engine, &nop, 1);
    ferry_future *quiet = ferry_future_quiet(nop), *issued = ferry_future_issued(nop);
    ferry_future *combined[] = {all, any, quiet, issued};
    for (int i = 0; i < 4; i++)
        ASSERT_STATUS(ferry_future_cancel(combined[i]), FERRY_OK);
    settle(&te);
    for (int i = 0; i < 4; i++)
        ASSERT_STATUS(status_of(combined[i]), FERRY_E_CANCELLED);
    ASSERT_STATUS(ferry_future_poll(nop), FERRY_PENDING);
    keep_promise(promise, FERRY_OK);
    settle(&te);
    ASSERT_STATUS(status_of(nop), FERRY_OK);
    test_engine_close(&te);
}
