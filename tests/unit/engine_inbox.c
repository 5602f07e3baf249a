/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is still in the inbox: the test holds the baton as a busy thread would, submits, and gives
 * the baton back. And who takes over when the thread that makes the progress for others leaves.
 */
#include "tests/unit/inner_play.h"

INNER_SUITE(engine_inbox);

/* One of each kind, submitted while the baton is taken. */
#define SUBMIT(option)                                                                             \
    "buffer src 64 of 1; buffer dst 64 on 1; baton taken; c = copy dst <- src" option              \
    "; f = call" option "; n = nop" option "; promise p; a = all c f n; now c f n p a PENDING;"

static void assert_are_to_blame(const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ferry_future *future = the_future("%s", names[i]);
        cr_assert_eq(ferry_future_error(future)->op, ferry_future_id(future), "%s", names[i]);
    }
}

Test(engine_inbox, what_was_left_there_is_worked_off_by_the_next)
{
    play(SUBMIT("") "end = quiet c; baton given; settle; now c f n a end OK; now p PENDING;"
                    "bytes dst 1; calls 1");
}

Test(engine_inbox, a_cancel_reaches_it_there)
{
    static const char *const names[] = {"c", "f", "n", "a", "p"};
    play(SUBMIT("") "cancel c f n p a; baton given; settle; now c f n p a CANCELLED;"
                    "resolve p gives CANCELLED; calls 0; bytes dst 0");
    assert_are_to_blame(names, 5);
    play("reader = call reads dst; settle; now reader DEPENDENCY; cause reader CANCELLED of c");
}

Test(engine_inbox, a_deadline_that_passed_there_is_kept)
{
    static const char *const names[] = {"c", "f", "n"};
    play(SUBMIT(" deadline 10") "step 10; baton given; settle; now c f n DEADLINE;"
                                "now a DEPENDENCY; calls 0; bytes dst 0");
    assert_are_to_blame(names, 3);
}

Test(engine_inbox, a_promise_may_be_resolved_there)
{
    play(SUBMIT("") "late = nop after p; resolve p; now p OK; now late PENDING;"
                    "baton given; settle; now late OK");
}

Test(engine_inbox, a_promise_cancelled_and_then_resolved_there_is_resolved)
{
    play(SUBMIT("") "cancel p; resolve p; baton given; settle; now p OK");
}

Test(engine_inbox, buffers_released_while_it_is_there_are_kept)
{
    play(SUBMIT("") "buffer from 64 of 8 on 2; buffer to 64 on 2; copy to <- from;"
                    "late = nop after it; release it from to; baton given; settle; now late OK");
}

Test(engine_inbox, shutdown_reaches_it_there)
{
    play(SUBMIT(""));
    ASSERT_STATUS(ferry_engine_shutdown(engine(), 0), FERRY_E_DEADLINE);
    play("baton given");
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    static const char *const names[] = {"c", "f", "n", "a", "p"};
    for (size_t i = 0; i < 5; i++)
        cr_assert_lt(ferry_future_poll(the_future("%s", names[i])), 0, "%s", names[i]);
    play("calls 0");
}

/* ---- threads that wait, embedded ---- */

static void *wait_for_it(void *arg)
{
    return ferry_future_wait(arg, -1) == FERRY_OK ? arg : NULL;
}

static size_t parked(void)
{
    size_t count = 0;
    (void)pthread_mutex_lock(&engine()->cold);
    struct entry {
        struct entry *next;
    } *entry = (struct entry *)(void *)engine()->embedded_waiters;
    for (; entry != NULL; entry = entry->next)
        count++;
    (void)pthread_mutex_unlock(&engine()->cold);
    return count;
}

static bool is_seat_taken(void)
{
    return fry_load_acquire(&engine()->seat.taken) != 0;
}

/*
 * One thread makes the progress, two are parked; the same round resolves the first and one of the
 * parked, which must not leave with the progress that the third still needs.
 */
Test(engine_inbox, a_thread_that_leaves_hands_the_progress_to_one_that_stays)
{
    static const char *const names[] = {"first", "c", "last"};
    pthread_t threads[3];
    play("buffer src 8192 of 1; buffer dst 8192 on 1");
    for (int round = 0; round < 50; round++) {
        play("promise p; hold dst; c = copy dst <- src; await held; first = nop after p;"
             "last = nop after p");
        for (size_t i = 0; i < 3; i++) {
            threads[i] = begin_thread(wait_for_it, the_future("%s", names[i]));
            while (i == 0 ? !is_seat_taken() : parked() < i)
                sched_yield();
        }
        play("keep p");
        cr_assert_not_null(end_thread(threads[0]));
        cr_assert_not_null(end_thread(threads[2]));
        play("go");
        cr_assert_not_null(end_thread(threads[1]));
        play("release last first c p");
    }
}
