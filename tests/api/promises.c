/* SPDX-License-Identifier: Apache-2.0 */
/* Promises: futures that somebody outside resolves. */
#include "tests/support/play.h"

SCENE_SUITE(promises);

Test(promises, resolve_is_visible_on_return)
{
    play("promise good; promise bad; now good PENDING");
    ferry_future *futures[] = {own(ferry_promise_future(the_promise("good"))),
                               own(ferry_promise_future(the_promise("bad")))};
    play("resolve good");
    ASSERT_STATUS(ferry_promise_resolve(the_promise("bad"), -4711, NULL), FERRY_OK);
    for (int i = 0; i < 2; i++) {
        ASSERT_STATUS(ferry_future_poll(futures[0]), FERRY_OK);
        ASSERT_STATUS(ferry_future_poll(futures[1]), (ferry_status)-4711);
        if (i == 0)
            play("release good bad");
    }
}

Test(promises, resolved_twice_is_refused_and_changes_nothing)
{
    play("promise p; resolve p FAILED first; resolve p OK gives INVALID; settle;"
         "resolve p FAILED third gives INVALID; now p FAILED");
    ferry_future *future = own(ferry_promise_future(the_promise("p")));
    cr_assert_str_eq(ferry_future_error(future)->message, "first");
    cr_assert_gt(scene()->log_lines, 0);
    play("release p");
    EXPECT_NOW(future, E_FAILED);
}

Test(promises, resolved_by_the_user_with_a_status_of_ferrys_own_twice)
{
    play("promise p; resolve p CANCELLED; resolve p OK gives INVALID; release p; settle");
}

Test(promises, pending_is_no_way_to_resolve_one)
{
    play("promise p; resolve p PENDING gives INVALID");
    ASSERT_STATUS(ferry_promise_resolve(the_promise("p"), 77, NULL), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_promise_resolve(NULL, FERRY_OK, NULL), FERRY_E_INVALID);
    play("now p PENDING; keep p; now p OK");
}

Test(promises, resolved_with_a_value)
{
    play("promise p; promise empty; promise none");
    ferry_future *future = own(ferry_promise_future(the_promise("p")));
    ferry_future *empty = own(ferry_promise_future(the_promise("empty")));
    ferry_future *none = own(ferry_promise_future(the_promise("none")));
    ferry_value value = FERRY_VALUE_INIT;
    char given[] = "what it gave";
    ASSERT_STATUS(ferry_future_value(future, &value), FERRY_E_NOT_FOUND);
    ASSERT_STATUS(ferry_promise_resolve_value(the_promise("p"), given, 12), FERRY_OK);
    memset(given, 'x', 12);
    ASSERT_STATUS(ferry_future_poll(future), FERRY_OK);
    ASSERT_STATUS(ferry_promise_resolve_value(the_promise("p"), "other", 5), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_promise_resolve(the_promise("p"), FERRY_E_FAILED, NULL), FERRY_E_INVALID);
    play("release p; settle");
    ASSERT_STATUS(ferry_future_value(future, &value), FERRY_OK);
    cr_assert_eq(value.size_bytes, 12);
    cr_assert_str_eq(value.data, "what it gave");
    cr_assert_eq(value.version, 0);
    ASSERT_STATUS(ferry_promise_resolve_value(the_promise("empty"), NULL, 0), FERRY_OK);
    ASSERT_STATUS(ferry_future_value(empty, &value), FERRY_OK);
    cr_assert(value.size_bytes == 0 && value.data != NULL);
    ASSERT_STATUS(ferry_promise_resolve(the_promise("none"), FERRY_OK, NULL), FERRY_OK);
    ASSERT_STATUS(ferry_future_value(none, &value), FERRY_E_NOT_FOUND);
    cr_assert(value.size_bytes == 0 && value.data == NULL,
              "nothing stays of what was there before");
}

Test(promises, values_that_cannot_be_leave_them_unresolved)
{
    static const char large[65537];
    play("promise p");
    ferry_promise *promise = the_promise("p");
    ferry_value value = FERRY_VALUE_INIT;
    ASSERT_STATUS(ferry_promise_resolve_value(NULL, "a", 1), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_promise_resolve_value(promise, NULL, 1), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_promise_resolve_value(promise, large, 65537), FERRY_E_INVALID);
    failing_allocator_arm(&scene()->memory, 1, false);
    ASSERT_STATUS(ferry_promise_resolve_value(promise, "a", 1), FERRY_E_NO_MEMORY);
    play("now p PENDING");
    ASSERT_STATUS(ferry_promise_resolve_value(promise, large, 65536), FERRY_OK);
    ferry_future *future = own(ferry_promise_future(promise));
    ASSERT_STATUS(ferry_future_value(future, NULL), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_future_value(NULL, &value), FERRY_E_INVALID);
    value.struct_size = 7;
    ASSERT_STATUS(ferry_future_value(future, &value), FERRY_E_INVALID);
    struct {
        size_t struct_size;
        const void *data;
    } older = {.struct_size = sizeof older};
    ASSERT_STATUS(ferry_future_value(future, (ferry_value *)(void *)&older), FERRY_OK);
    cr_assert_not_null(older.data);
    play("promise late; cancel late; settle");
    ASSERT_STATUS(ferry_promise_resolve_value(the_promise("late"), "a", 1), FERRY_E_CANCELLED);
}

Test(promises, dropped_ones_are_broken)
{
    play("promise p; n = nop after p");
    ferry_future *future = own(ferry_promise_future(the_promise("p")));
    play("release p");
    ferry_promise_release(NULL);
    EXPECT_NOW(future, E_BROKEN_PROMISE);
    play("expect n DEPENDENCY; cause n BROKEN_PROMISE");
    cr_assert_eq(ferry_future_error(the_future("n"))->cause->op, ferry_future_id(future));
}

Test(promises, dropped_with_nobody_looking_leave_nothing)
{
    for (int i = 0; i < 100; i++)
        play("promise p; release p");
}

Test(promises, cancelled_first_answers_cancelled)
{
    play("promise p; cancel p; expect p CANCELLED; resolve p OK gives CANCELLED;"
         "resolve p OK gives CANCELLED; now p CANCELLED");
    ferry_future *future = own(ferry_promise_future(the_promise("p")));
    play("release p");
    EXPECT_NOW(future, E_CANCELLED);
}

Test(promises, a_cancel_that_comes_too_late_changes_nothing)
{
    play("promise p; cancel p; resolve p; expect p OK"); /* a request, not looked at yet */
}

Test(promises, after_shutdown_they_answer_shutdown)
{
    scene_begin(FERRY_LOOP_THREAD);
    play("promise p");
    ferry_promise *refused = NULL;
    ferry_future *future = own(ferry_promise_future(the_promise("p")));
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    EXPECT_NOW(future, E_SHUTDOWN);
    play("resolve p OK gives SHUTDOWN");
    ASSERT_STATUS(ferry_promise_create(engine(), &refused), FERRY_E_SHUTDOWN);
    cr_assert_null(refused);
    play("now p SHUTDOWN; release p"); /* a future of it that is made now, too */
    EXPECT_NOW(future, E_SHUTDOWN);
}

Test(promises, the_future_outlives_the_promise_and_the_other_way_round)
{
    play("promise p; now p PENDING; keep p; expect p OK");
    EXPECT_NOW(own(ferry_promise_future(NULL)), E_INVALID);
}

/* ---- many threads ---- */

enum { ROUNDS = 2000, RESOLVERS = 3 };

typedef struct contest {
    ferry_promise *promises[ROUNDS];
    pthread_barrier_t barrier;
    _Atomic int won[ROUNDS];
    _Atomic int lost[ROUNDS];
} contest;

static void *resolve_all(void *arg)
{
    contest *self = arg;
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 100 == 0)
            (void)pthread_barrier_wait(&self->barrier);
        ferry_status status = ferry_promise_resolve(self->promises[i], FERRY_OK, NULL);
        if (status == FERRY_OK)
            atomic_fetch_add(&self->won[i], 1);
        else
            atomic_fetch_add(&self->lost[i], status == FERRY_E_INVALID);
    }
    return NULL;
}

Test(promises, one_of_many_resolvers_wins)
{
    static contest self;
    scene_begin(FERRY_LOOP_THREAD);
    for (int i = 0; i < ROUNDS; i++)
        self.promises[i] = own(test_promise(scene()));
    cr_assert_eq(pthread_barrier_init(&self.barrier, NULL, RESOLVERS), 0);
    pthread_t threads[RESOLVERS];
    for (int i = 0; i < RESOLVERS; i++)
        threads[i] = begin_thread(resolve_all, &self);
    for (int i = 0; i < RESOLVERS; i++)
        (void)end_thread(threads[i]);
    for (int i = 0; i < ROUNDS; i++) {
        cr_assert_eq(self.won[i], 1);
        cr_assert_eq(self.lost[i], RESOLVERS - 1);
    }
}
