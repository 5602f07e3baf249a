/* SPDX-License-Identifier: Apache-2.0 */
/* all and any; the views issued and quiet. */
#include "tests/support/play.h"

SCENE_SUITE(combine);

/* ---- all ---- */

Test(combine, all_waits_for_all)
{
    play("promise p; promise q; promise r; a = all p q r;" /* borrowed during the call only */
         "expect a PENDING; keep p; expect a PENDING; keep q; expect a PENDING; keep r;"
         "expect a OK");
}

Test(combine, all_of_nothing_resolves_at_once)
{
    play("all; now it OK");
}

Test(combine, all_fails_as_soon_as_one_has_with_it_as_cause)
{
    play("promise slow; promise bad; a = all slow bad; keep bad FAILED; expect a DEPENDENCY;"
         "cause a FAILED of bad");
    cr_assert_eq(ferry_future_error(the_future("a"))->op, ferry_future_id(the_future("a")));
    play("keep slow; expect a DEPENDENCY");
}

Test(combine, all_of_what_has_failed_already_fails)
{
    play("promise bad; done = nop; keep bad FAILED; a = all bad done; expect a DEPENDENCY;"
         "cause a FAILED of bad");
}

Test(combine, the_same_future_twice_counts_once_or_twice_but_resolves)
{
    play("promise p; a = all p p p; o = any p p p; expect a o PENDING; keep p; expect a o OK");
}

/* ---- any ---- */

Test(combine, any_with_no_futures_is_refused)
{
    play("any; now it INVALID; n = nop");
    ferry_future *nop = the_future("n");
    EXPECT_NOW(own(ferry_future_any(engine(), &nop, 0)), E_INVALID);
}

Test(combine, any_resolves_with_the_first)
{
    play("promise first; promise second; a = any second first; expect a PENDING;"
         "keep first; expect a OK; keep second FAILED; expect a OK");
}

Test(combine, any_fails_if_the_first_did)
{
    play("promise bad; promise slow; a = any slow bad; keep bad FAILED; expect a DEPENDENCY;"
         "cause a FAILED of bad; keep slow");
}

Test(combine, any_of_several_that_resolve_together_resolves_once)
{
    for (size_t count = 1; count <= 9; count++) {
        bool is_good = count % 2 == 0;
        ferry_future *futures[9];
        play("promise p");
        for (size_t i = 0; i < count; i++)
            futures[i] = own(nop_after_promise(scene(), the_promise("p")));
        ferry_future *any = own(ferry_future_any(engine(), futures, count));
        counted_waiter waiter;
        counted_waiter_init(&waiter, NULL);
        ASSERT_STATUS(ferry_future_on_ready(any, &waiter.waiter), FERRY_OK);
        play("keep p %s; settle; release p", is_good ? "OK" : "FAILED");
        ASSERT_STATUS(scene_status(any, FERRY_OK), is_good ? FERRY_OK : FERRY_E_DEPENDENCY);
        cr_assert_eq(waiter.calls, 1);
    }
}

Test(combine, any_of_what_is_resolved_resolves_at_once)
{
    play("promise slow; done = nop; a = any slow done; b = any done slow; expect a b OK;"
         "keep slow; settle");
}

Test(combine, any_on_a_promise_that_lasts_does_not_grow)
{
    play("promise lasting");
    ferry_future *futures[] = {own(ferry_promise_future(the_promise("lasting"))), NULL};
    uint64_t warm_calls = 0;
    int64_t warm_bytes = 0;
    for (int i = 0; i < 100000; i++) {
        if (i == 1000) {
            warm_calls = failing_allocator_calls(&scene()->memory);
            warm_bytes = failing_allocator_live_bytes(&scene()->memory);
        }
        ferry_promise *promise = test_promise(scene());
        futures[1] = ferry_promise_future(promise);
        ferry_future *any = ferry_future_any(engine(), futures, 2);
        keep_promise(promise, FERRY_OK);
        ferry_future_release(futures[1]);
        ASSERT_STATUS(status_of(any), FERRY_OK);
    }
    cr_assert_eq(failing_allocator_live_bytes(&scene()->memory), warm_bytes);
    cr_assert_eq(failing_allocator_calls(&scene()->memory), warm_calls);
    play("keep lasting; settle");
}

/* ---- issued and quiet ---- */

Test(combine, views_of_what_waits_are_pending_until_it_goes_on)
{
    play("promise p; n = nop after p; i = issued n; q = quiet n; expect i q PENDING;"
         "keep p; expect i q n OK");
}

Test(combine, views_of_what_is_done_resolve_at_once)
{
    play("n = nop; issued n; now it OK; quiet n; now it OK");
}

Test(combine, views_of_what_was_cancelled_while_it_waited)
{
    play("promise p; n = nop after p; i0 = issued n; q0 = quiet n; cancel n; settle;"
         "i1 = issued n; q1 = quiet n; expect i0 i1 DEPENDENCY; expect q0 q1 OK;"
         "cause i0 CANCELLED of n; cause i1 CANCELLED of n; keep p");
}

Test(combine, issued_of_a_function_that_failed_is_the_same_before_and_after)
{
    play("c = call failing; before = issued c; expect c FAILED; after = issued c;"
         "expect before after OK");
}

Test(combine, a_cancelled_function_that_runs_is_issued_resolved_and_not_quiet)
{
    play("c = call by hand; i = issued c; q = quiet c; now i PENDING; expect i OK;"
         "expect q PENDING; run; expect q c OK");
}

Test(combine, views_of_what_was_refused)
{
    ferry_future *refused[] = {own(ferry_future_any(engine(), NULL, 0)),
                               own(ferry_nop(NULL, NULL))};
    for (int i = 0; i < 2; i++) {
        EXPECT_NOW(refused[i], E_INVALID);
        cr_assert_lt(ferry_future_poll(own(ferry_future_issued(refused[i]))), 0,
                     "it never was issued");
        EXPECT_NOW(own(ferry_future_quiet(refused[i])), OK);
    }
}

Test(combine, cancelling_a_combination_leaves_its_parts)
{
    play("promise p; n = nop after p; a = all n; o = any n; q = quiet n; i = issued n;"
         "cancel a o q i; expect a o q i CANCELLED; expect n PENDING; keep p; expect n OK");
}
