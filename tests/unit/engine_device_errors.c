/* SPDX-License-Identifier: Apache-2.0 */
/* Devices that refuse, fail and are lost: what of it reaches whom. */
#include "engine/buffer.h"
#include "engine/engine.h"
#include "engine/ground.h"
#include "engine/lane.h"
#include "engine/turn.h"
#include "tests/unit/fake_engine.h"

TestSuite(engine_device_errors, .timeout = HANG_S);

/* It failed by itself, with the device's own words. */
static void check_error(ferry_future *future, const char *message)
{
    ASSERT_STATUS(ferry_future_poll(future), FERRY_E_DEVICE);
    const ferry_error *error = ferry_future_error(future);
    cr_assert_eq(error->status, FERRY_E_DEVICE);
    cr_assert_str_eq(error->domain, "fake");
    cr_assert_eq(error->native_code, FAKE_ERROR_CODE);
    cr_assert_eq(error->op, ferry_future_id(future));
    cr_assert_str_eq(error->message, message);
    cr_assert_null(error->cause);
}

static void check_shares(ferry_future *future, const ferry_future *of)
{
    ASSERT_STATUS(ferry_future_poll(future), FERRY_E_DEPENDENCY);
    const ferry_error *cause = ferry_future_error(future)->cause;
    cr_assert_eq(cause->status, FERRY_E_DEVICE);
    cr_assert_eq(cause->native_code, FAKE_ERROR_CODE);
    cr_assert_eq(cause->op, ferry_future_id(of));
}

typedef struct three {
    ferry_buffer *src, *dst[3];
    ferry_future *copies[3]; /* from src to dst[0], to dst[1], from dst[1] to dst[2] */
} three;

static void three_make(const fake_engine *f, three *t)
{
    t->src = gpu_buffer(f, 0, 1);
    for (size_t i = 0; i < 3; i++)
        t->dst[i] = gpu_buffer(f, 0, 2);
}

static void three_submit(const fake_engine *f, three *t)
{
    for (size_t i = 0; i < 3; i++)
        t->copies[i] = gpu_copy(f, t->dst[i], i == 2 ? t->dst[1] : t->src);
}

static void three_free(three *t)
{
    ferry_buffer_release(t->src);
    for (size_t i = 0; i < 3; i++) {
        ferry_future_release(t->copies[i]);
        ferry_buffer_release(t->dst[i]);
    }
}

/* ---- refused copies ---- */

Test(engine_device_errors, a_refused_copy_fails_alone_with_the_devices_number)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    three t;
    three_make(&f, &t);
    fake_refuse_copy(f.gpus[0], 1);
    three_submit(&f, &t);
    ASSERT_STATUS(ferry_future_poll(t.copies[1]), FERRY_PENDING); /* its error takes memory */
    run_all(&f);
    ASSERT_STATUS(ferry_future_poll(t.copies[0]), FERRY_OK);
    check_error(t.copies[1], "the copy is refused");
    check_shares(t.copies[2], t.copies[1]);
    cr_assert(is_quiet(t.copies[1]));
    ferry_future *poisoned = gpu_copy(&f, t.src, t.dst[1]);
    run_all(&f);
    check_shares(poisoned, t.copies[1]);
    ferry_future_release(poisoned);
    three_free(&t);
    fake_engine_close(&f);
}

Test(engine_device_errors, what_comes_behind_a_refused_copy_is_issued_after_it_in_order)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    three t;
    three_make(&f, &t);
    fake_refuse_copy(f.gpus[0], 0);
    three_submit(&f, &t);
    cr_assert_eq(issued_to(fake_stream(f.gpus[0], FAKE_WITHIN)), 0);
    fake_refuse_copy(f.gpus[0], 0); /* the next one, too */
    run_all(&f);
    check_error(t.copies[0], "the copy is refused");
    check_error(t.copies[1], "the copy is refused");
    check_shares(t.copies[2], t.copies[1]);
    three_free(&t);
    fake_engine_close(&f);
}

Test(engine_device_errors, one_that_the_loop_issues_fails_at_once)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_buffer *src = gpu_buffer(&f, 0, 1), *dst = gpu_buffer(&f, 0, 2);
    ferry_future *event = record(&f, 1, 0);
    ferry_future *nop = nop_after(&f.te, event);
    ferry_future *copy = gpu_copy_after(&f, dst, src, nop);
    fake_refuse_copy(f.gpus[0], 0);
    user_goes(&f, 1, 0);
    run_all(&f);
    check_error(copy, "the copy is refused");
    ferry_future *futures[] = {event, nop, copy};
    for (size_t i = 0; i < 3; i++)
        ferry_future_release(futures[i]);
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
    fake_engine_close(&f);
}

Test(engine_device_errors, one_that_is_cancelled_before_the_loop_comes_is_cancelled)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    three t;
    three_make(&f, &t);
    fake_refuse_copy(f.gpus[0], 0);
    three_submit(&f, &t);
    ASSERT_STATUS(ferry_future_cancel(t.copies[0]), FERRY_OK);
    run_all(&f);
    ASSERT_STATUS(ferry_future_poll(t.copies[0]), FERRY_E_CANCELLED);
    ASSERT_STATUS(ferry_future_poll(t.copies[1]), FERRY_OK);
    ASSERT_STATUS(ferry_future_poll(t.copies[2]), FERRY_OK);
    three_free(&t);
    fake_engine_close(&f);
}

Test(engine_device_errors, refused_on_a_parked_stream_it_is_the_same)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_buffer *src = gpu_buffer(&f, 0, 1),
                 *dst[2] = {gpu_buffer(&f, 0, 2), gpu_buffer(&f, 0, 3)};
    ferry_future *event = record(&f, 0, 0), *copies[2];
    fake_refuse_copy(f.gpus[0], 0);
    for (size_t i = 0; i < 2; i++)
        copies[i] = gpu_copy_after(&f, dst[i], src, event);
    cr_assert(is_issued(copies[1]), "another parked stream takes it");
    settle(&f.te);
    check_error(copies[0], "the copy is refused");
    user_goes(&f, 0, 0);
    run_all(&f);
    ASSERT_STATUS(status_of(copies[1]), FERRY_OK);
    ferry_future_release(copies[0]);
    ferry_future_release(event);
    for (size_t i = 0; i < 2; i++)
        ferry_buffer_release(dst[i]);
    ferry_buffer_release(src);
    fake_engine_close(&f);
}

Test(engine_device_errors, a_batch_goes_on_behind_a_refused_copy)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    enum { COUNT = 8, PART = GPU_SIZE / COUNT };
    ferry_buffer *src = gpu_buffer(&f, 0, 1), *dst = gpu_buffer(&f, 0, 2);
    ferry_op ops[COUNT];
    ferry_future *each[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        ops[i] = (ferry_op){.kind = FERRY_OP_COPY,
                            .dst = span_of(dst, i * PART, PART),
                            .src = span_of(src, i * PART, PART)};
    fake_refuse_copy(f.gpus[0], 3);
    ferry_future *batch = ferry_batch(f.te.engine, ops, sizeof ops[0], COUNT, each, NULL);
    run_all(&f);
    check_error(each[3], "the copy is refused");
    check_shares(batch, each[3]);
    for (size_t i = 0; i < COUNT; i++) {
        cr_assert(is_filled(dst, i * PART, PART, i == 3 ? 2 : 1));
        cr_assert_eq(ferry_future_poll(each[i]), i == 3 ? FERRY_E_DEVICE : FERRY_OK);
        ferry_future_release(each[i]);
    }
    ferry_future_release(batch);
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
    fake_engine_close(&f);
}

/* ---- copies that stood in a stream and failed ---- */

Test(engine_device_errors, a_struck_copy_fails_alone_and_is_quiet)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    three t;
    three_make(&f, &t);
    fake_strike_copy(f.gpus[0], 1);
    three_submit(&f, &t);
    for (size_t i = 0; i < 3; i++)
        cr_assert(is_issued(t.copies[i]));
    run_all(&f);
    ASSERT_STATUS(ferry_future_poll(t.copies[0]), FERRY_OK);
    check_error(t.copies[1], "the copy failed");
    cr_assert(is_quiet(t.copies[1]));
    check_shares(t.copies[2], t.copies[1]);
    cr_assert(is_quiet(t.copies[2]));
    cr_assert(is_filled(t.dst[1], 0, GPU_SIZE, 2));
    three_free(&t);
    fake_engine_close(&f);
}

Test(engine_device_errors, nobody_asks_for_outcomes_where_nothing_was_struck)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    three t;
    three_make(&f, &t);
    three_submit(&f, &t);
    run_all(&f);
    cr_assert_eq(fake_count(f.gpus[0]).outcomes, 0);
    three_free(&t);
    fake_engine_close(&f);
}

Test(engine_device_errors, a_struck_copy_that_was_cancelled_is_cancelled_and_quiet)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    three t;
    three_make(&f, &t);
    fake_strike_copy(f.gpus[0], 0);
    three_submit(&f, &t);
    ASSERT_STATUS(ferry_future_cancel(t.copies[0]), FERRY_OK);
    settle(&f.te);
    run_all(&f);
    ASSERT_STATUS(ferry_future_poll(t.copies[0]), FERRY_E_CANCELLED);
    cr_assert(is_quiet(t.copies[0]));
    ASSERT_STATUS(ferry_future_poll(t.copies[2]), FERRY_OK);
    three_free(&t);
    fake_engine_close(&f);
}

Test(engine_device_errors, a_definition_by_a_struck_copy_poisons)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_buffer *src = gpu_buffer(&f, 0, 1), *alias = gpu_buffer(&f, 0, 2);
    ferry_buffer *defined = gpu_buffer(&f, 0, 3), *dst = gpu_buffer(&f, 1, 4);
    fake_strike_copy(f.gpus[0], 0);
    ferry_future *copy = gpu_copy(&f, alias, src);
    ASSERT_STATUS(ferry_buffer_define(ferry_buffer_span(defined), copy), FERRY_OK);
    ferry_future *reader = gpu_copy(&f, dst, defined);
    cr_assert(is_issued(reader));
    run_all(&f);
    check_error(copy, "the copy failed");
    check_shares(reader, copy);
    ferry_future *late = gpu_copy(&f, dst, defined);
    run_all(&f);
    check_shares(late, copy);
    ferry_future *futures[] = {copy, reader, late};
    for (size_t i = 0; i < 3; i++)
        ferry_future_release(futures[i]);
    ferry_buffer *buffers[] = {src, alias, defined, dst};
    for (size_t i = 0; i < 4; i++)
        ferry_buffer_release(buffers[i]);
    fake_engine_close(&f);
}

/* A thread that is not the loop finds it: it leaves it to the loop. */
Test(engine_device_errors, what_others_find_struck_the_loop_fails)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    three t;
    three_make(&f, &t);
    fake_strike_copy(f.gpus[0], 0);
    three_submit(&f, &t);
    (void)fake_run(f.world);
    fry_turn turn;
    fry_store_seq_cst(&f.te.engine->asleep, FRY_ASLEEP);
    cr_assert(fry_turn_begin(&turn, f.te.engine, fry_context_get(f.te.engine), false));
    cr_assert_eq(fry_lanes_poll(&turn), 0);
    (void)fry_turn_end(&turn, 64);
    ASSERT_STATUS(ferry_future_poll(t.copies[0]), FERRY_PENDING);
    cr_assert_eq(fry_load_relaxed(&f.te.engine->asleep), FRY_AWAKE, "the loop was woken");
    run_all(&f);
    check_error(t.copies[0], "the copy failed");
    ASSERT_STATUS(ferry_future_poll(t.copies[2]), FERRY_OK);
    three_free(&t);
    fake_engine_close(&f);
}

/* ---- lost devices ---- */

Test(engine_device_errors, with_a_lost_device_what_stands_there_fails_and_is_not_quiet)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    three t;
    three_make(&f, &t);
    fake_hold(fake_stream(f.gpus[0], FAKE_WITHIN), true);
    three_submit(&f, &t);
    ferry_future *event = record(&f, 0, 0);
    ferry_buffer *other[2] = {gpu_buffer(&f, 1, 5), gpu_buffer(&f, 1, 6)};
    ferry_future *elsewhere = gpu_copy(&f, other[1], other[0]);
    fake_lose(f.gpus[0], true);
    run_all(&f);
    check_error(t.copies[0], "the device is lost");
    check_error(t.copies[1], "the device is lost");
    cr_assert_lt(ferry_future_poll(t.copies[2]), 0);
    check_error(event, "the device is lost");
    for (size_t i = 0; i < 3; i++)
        cr_assert_not(is_quiet(t.copies[i]));
    cr_assert_not(is_quiet(event));
    ASSERT_STATUS(status_of(elsewhere), FERRY_OK);

    ferry_future *late = gpu_copy(&f, t.dst[0], other[1]); /* its memory may be written for ever */
    ferry_future *fresh = gpu_copy(&f, other[0], other[1]);
    ferry_buffer *untouched = gpu_buffer(&f, 0, 0);
    ferry_future *refused = gpu_copy(&f, untouched, other[1]);
    ferry_future *late_event = record(&f, 0, 0);
    run_all(&f);
    check_shares(late, t.copies[0]);
    ASSERT_STATUS(status_of(fresh), FERRY_OK);
    check_error(refused, "the device is lost");
    check_error(late_event, "no event can be recorded");
    ASSERT_STATUS(ferry_engine_shutdown(f.te.engine, 0), FERRY_E_DEADLINE);

    fake_lose(f.gpus[0], false); /* so that this test can end */
    fake_hold(fake_stream(f.gpus[0], FAKE_WITHIN), false);
    user_goes(&f, 0, 0);
    (void)fake_run(f.world);
    ASSERT_STATUS(ferry_engine_shutdown(f.te.engine, -1), FERRY_OK);
    ferry_future *futures[] = {event, late, refused, late_event};
    for (size_t i = 0; i < 4; i++)
        ferry_future_release(futures[i]);
    ferry_buffer_release(untouched);
    ferry_buffer_release(other[0]);
    ferry_buffer_release(other[1]);
    three_free(&t);
    fake_engine_close(&f);
}

Test(engine_device_errors, what_waits_for_room_in_a_lost_stream_fails_too)
{
    fake_engine f;
    ferry_engine_options options = test_engine_options(&f.te, FERRY_LOOP_EMBEDDED);
    options.stream_depth = 2;
    test_engine_create(&f.te, &options);
    fake_engine_attach(&f, &(fake_options){.parked_count = 1, .outside_count = 1});
    enum { COUNT = 6, PART = GPU_SIZE / COUNT };
    ferry_buffer *src = gpu_buffer(&f, 0, 1), *dst = gpu_buffer(&f, 0, 2);
    ferry_future *copies[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        copies[i] = ferry_copy(f.te.engine, span_of(dst, i * PART, PART),
                               span_of(src, i * PART, PART), NULL);
    fake_lose(f.gpus[0], true);
    run_all(&f);
    for (size_t i = 0; i < COUNT; i++) {
        check_error(copies[i], "the device is lost");
        cr_assert_eq(is_quiet(copies[i]), i >= 2, "copy %zu", i);
        ferry_future_release(copies[i]);
    }
    fake_lose(f.gpus[0], false);
    run_all(&f);
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
    fake_engine_close(&f);
}

/* Ends a test in which a device was lost: it goes on after all, and so all gets quiet. */
static void find_again(const fake_engine *f)
{
    for (size_t i = 0; i < 2; i++) {
        fake_lose(f->gpus[i], false);
        fake_hold(fake_stream(f->gpus[i], FAKE_WITHIN), false);
    }
    run_all(f);
}

Test(engine_device_errors, who_would_wait_for_what_a_lost_device_may_touch_fails)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_buffer *src = gpu_buffer(&f, 0, 1), *dst = gpu_buffer(&f, 0, 2);
    ferry_buffer *host = test_buffer(&f.te, 0, GPU_SIZE, 3), *other = gpu_buffer(&f, 1, 4);
    ferry_promise *promise = test_promise(&f.te);
    fake_hold(fake_stream(f.gpus[0], FAKE_WITHIN), true);
    ferry_future *struck = gpu_copy(&f, dst, src);
    ferry_future *waiting =
        copy_after_promise(&f.te, ferry_buffer_span(src), ferry_buffer_span(host), promise);
    ferry_future *behind = gpu_copy(&f, host, other); /* overwrites what that one reads */
    ferry_future *cancelled = gpu_copy(&f, dst, host);
    ferry_future *last = gpu_copy(&f, dst, other);
    ASSERT_STATUS(ferry_future_cancel(cancelled), FERRY_OK);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(last), FERRY_PENDING);
    fake_lose(f.gpus[0], true);
    settle(&f.te);
    check_error(struck, "the device is lost");
    check_shares(waiting, struck); /* it would overwrite what that may read */
    check_shares(last, struck);
    ASSERT_STATUS(ferry_future_poll(cancelled), FERRY_E_CANCELLED);
    check_shares(behind, struck);
    ferry_future *late = gpu_copy(&f, src, other), *reader = gpu_copy(&f, other, dst);
    settle(&f.te);
    check_shares(late, struck);
    check_shares(reader, struck);
    ASSERT_STATUS(ferry_buffer_define(ferry_buffer_span(dst), NULL), FERRY_OK);
    ferry_future *redefined = gpu_copy(&f, other, dst);
    settle(&f.te);
    check_shares(redefined, struck);
    find_again(&f);
    cr_assert(is_quiet(struck));
    cr_assert_null(f.te.engine->live_first, "all of them have retired");
    keep_promise(promise, FERRY_OK);
    settle(&f.te);
    ferry_future *futures[] = {struck, waiting, behind, cancelled, last, late, reader, redefined};
    for (size_t i = 0; i < sizeof futures / sizeof *futures; i++)
        ferry_future_release(futures[i]);
    ferry_buffer *buffers[] = {src, dst, host, other};
    for (size_t i = 0; i < 4; i++)
        ferry_buffer_release(buffers[i]);
    fake_engine_close(&f);
}

/* Whichever of the two is looked at first. */
Test(engine_device_errors, what_depends_on_a_lost_device_and_stands_on_one_shares_the_first_failure)
{
    for (size_t first = 0; first < 2; first++) {
        fake_engine f;
        fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
        ferry_buffer *a = gpu_buffer(&f, first, 1), *b = gpu_buffer(&f, first, 2);
        ferry_buffer *c = gpu_buffer(&f, 1 - first, 3);
        fake_hold(fake_stream(f.gpus[first], FAKE_WITHIN), true);
        ferry_future *one = gpu_copy(&f, b, a), *two = gpu_copy(&f, c, b);
        cr_assert(is_issued(two));
        fake_lose(f.gpus[0], true);
        fake_lose(f.gpus[1], true);
        settle(&f.te);
        check_error(one, "the device is lost");
        check_shares(two, one);
        find_again(&f);
        ferry_future_release(one);
        ferry_future_release(two);
        ferry_buffer *buffers[] = {a, b, c};
        for (size_t i = 0; i < 3; i++)
            ferry_buffer_release(buffers[i]);
        fake_engine_close(&f);
    }
}

Test(engine_device_errors, what_depends_on_a_device_that_is_well_fails_when_that_is_done)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_buffer *a = gpu_buffer(&f, 0, 1), *b = gpu_buffer(&f, 0, 2), *c = gpu_buffer(&f, 1, 3);
    fake_hold(fake_stream(f.gpus[0], FAKE_WITHIN), true);
    fake_hold(fake_stream(f.gpus[1], FAKE_WITHIN), true);
    ferry_future *one = gpu_copy(&f, b, a), *two = gpu_copy(&f, c, b);
    ferry_promise *promise = test_promise(&f.te);
    ferry_future *writer =
        copy_after_promise(&f.te, ferry_buffer_span(c), ferry_buffer_span(a), promise);
    fake_lose(f.gpus[1], true);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(two), FERRY_PENDING);
    fake_hold(fake_stream(f.gpus[0], FAKE_WITHIN), false);
    run_all(&f);
    ASSERT_STATUS(ferry_future_poll(one), FERRY_OK);
    check_error(two, "the device is lost");
    check_shares(writer, two);
    find_again(&f);
    keep_promise(promise, FERRY_OK);
    run_all(&f);
    ferry_future *futures[] = {one, two, writer};
    for (size_t i = 0; i < 3; i++)
        ferry_future_release(futures[i]);
    ferry_buffer *buffers[] = {a, b, c};
    for (size_t i = 0; i < 3; i++)
        ferry_buffer_release(buffers[i]);
    fake_engine_close(&f);
}

/* What stands for several, of which one is lost, never gets quiet either; who may only write once
 * it is fails. In turn: a batch without each[], one with it, one with deadlines too, and an `all`;
 * each before and after it has failed for another reason. */
static ferry_future *stand_for(const fake_engine *f, int how, ferry_buffer *dst, ferry_buffer *src,
                               ferry_future *beside, ferry_future **copy_p)
{
    ferry_op_options waits = FERRY_OP_OPTIONS_INIT, has_deadline = FERRY_OP_OPTIONS_INIT;
    waits.after = &beside;
    waits.after_count = 1;
    has_deadline.deadline_ns = INT64_MAX;
    ferry_future *each[2] = {NULL, NULL}, *future;
    if (how < 3) {
        ferry_op ops[2] = {{.kind = FERRY_OP_COPY,
                            .dst = ferry_buffer_span(dst),
                            .src = ferry_buffer_span(src),
                            .options = how == 2 ? &has_deadline : NULL},
                           {.kind = FERRY_OP_NOP, .options = &waits}};
        future = ferry_batch(f->te.engine, ops, sizeof ops[0], 2, how == 0 ? NULL : each, NULL);
        ferry_future_release(each[1]);
    } else {
        each[0] = gpu_copy(f, dst, src);
        ferry_future *const both[2] = {each[0], beside};
        future = ferry_future_all(f->te.engine, both, 2);
    }
    *copy_p = each[0];
    return future;
}

Test(engine_device_errors, what_stands_for_a_lost_copy_among_others_is_never_quiet)
{
    for (int how = 0; how < 8; how++) {
        fake_engine f;
        fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
        ferry_buffer *src = gpu_buffer(&f, 0, 1), *dst = gpu_buffer(&f, 0, 2);
        ferry_buffer *defined = test_buffer(&f.te, 0, GPU_SIZE, 3);
        ferry_buffer *host = test_buffer(&f.te, 1, GPU_SIZE, 4);
        ferry_promise *promise = test_promise(&f.te);
        ferry_future *beside = ferry_promise_future(promise), *copy;
        fake_hold(fake_stream(f.gpus[0], FAKE_WITHIN), true);
        ferry_future *future = stand_for(&f, how % 4, dst, src, beside, &copy);
        ASSERT_STATUS(ferry_buffer_define(ferry_buffer_span(defined), future), FERRY_OK);
        ferry_future *writer = gpu_copy(&f, defined, host);
        if (how >= 4)
            ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_E_FAILED, NULL), FERRY_OK);
        settle(&f.te);
        ASSERT_STATUS(ferry_future_poll(writer), FERRY_PENDING);
        fake_lose(f.gpus[0], true);
        settle(&f.te);
        ASSERT_STATUS(ferry_future_poll(future), FERRY_E_DEPENDENCY);
        ASSERT_STATUS(ferry_future_poll(writer), FERRY_E_DEPENDENCY);
        cr_assert(!is_quiet(future), "%d", how);
        ferry_future *late = gpu_copy(&f, defined, host);
        settle(&f.te);
        ASSERT_STATUS(status_of(late), FERRY_E_DEPENDENCY);
        if (how < 4)
            ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_OK, NULL), FERRY_OK);
        find_again(&f);
        cr_assert(is_quiet(future), "%d", how);
        cr_assert_null(f.te.engine->live_first, "all of them have retired");
        ferry_promise_release(promise);
        ferry_future *futures[] = {future, copy, writer, beside};
        for (size_t i = 0; i < 4; i++)
            ferry_future_release(futures[i]);
        ferry_buffer *buffers[] = {src, dst, defined, host};
        for (size_t i = 0; i < 4; i++)
            ferry_buffer_release(buffers[i]);
        fake_engine_close(&f);
    }
}

enum batch_kind { BY_HANDLES, WITHOUT_HANDLES, WITH_DEADLINES, CANCELLED, BATCH_KINDS };

enum { PARTS = 8, PART_SIZE = GPU_SIZE / PARTS };

static ferry_future *batch_of_copies(const fake_engine *f, enum batch_kind kind, ferry_buffer *dst,
                                     ferry_buffer *src, ferry_future **each)
{
    ferry_op ops[PARTS];
    for (size_t i = 0; i < PARTS; i++)
        ops[i] = (ferry_op){.kind = FERRY_OP_COPY,
                            .dst = span_of(dst, i * PART_SIZE, PART_SIZE),
                            .src = span_of(src, i * PART_SIZE, PART_SIZE)};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.deadline_ns = kind == WITH_DEADLINES ? INT64_MAX / 2 : 0;
    return ferry_batch(f->te.engine, ops, sizeof ops[0], PARTS,
                       kind == WITHOUT_HANDLES ? NULL : each, &options);
}

/* It touches so much that it enters in several steps. */
static ferry_future *nop_on_bytes(const fake_engine *f, ferry_buffer *buffer)
{
    static ferry_access accesses[GPU_SIZE / 2];
    for (size_t i = 0; i < GPU_SIZE / 2; i++)
        accesses[i] = (ferry_access){span_of(buffer, 2 * i, 1), FERRY_WRITE};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.accesses = accesses;
    options.access_count = GPU_SIZE / 2;
    return ferry_nop(f->te.engine, &options);
}

static void check_batch(enum batch_kind kind, const ferry_future *struck, ferry_future *batch,
                        ferry_future *const *each)
{
    bool is_cancelled = kind == CANCELLED && ferry_future_poll(batch) == FERRY_E_CANCELLED;
    if (!is_cancelled) /* or it had failed before the cancel came to it */
        check_shares(batch, struck);
    for (size_t i = 0; i < PARTS && each[i] != NULL; i++) {
        if (!is_cancelled || ferry_future_poll(each[i]) != FERRY_E_CANCELLED)
            check_shares(each[i], struck);
        ferry_future_release(each[i]);
    }
    ferry_future_release(batch);
}

/*
 * Its operations enter, and learn that they would wait for ever, before the batch itself is in the
 * graph. What comes next is no part of it.
 */
Test(engine_device_errors, a_batch_behind_a_lost_copy_fails_and_nobody_else_does)
{
    for (enum batch_kind kind = 0; kind < BATCH_KINDS; kind++) {
        fake_engine f;
        fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
        ferry_buffer *src = gpu_buffer(&f, 0, 1), *dst = gpu_buffer(&f, 0, 2);
        ferry_buffer *host = test_buffer(&f.te, 0, GPU_SIZE, 3);
        fake_hold(fake_stream(f.gpus[0], FAKE_WITHIN), true);
        ferry_future *struck = gpu_copy(&f, dst, src);
        fake_lose(f.gpus[0], true);
        settle(&f.te);
        check_error(struck, "the device is lost");

        bool is_kept = kind == CANCELLED && fry_baton_take(&f.te.engine->baton);
        ferry_future *each[PARTS] = {NULL};
        ferry_future *batch = batch_of_copies(&f, kind, dst, host, each);
        ferry_future *stuck = ferry_future_all(f.te.engine, &batch, 1);
        if (is_kept) { /* else it has failed by now */
            ASSERT_STATUS(ferry_future_cancel(batch), FERRY_OK);
            fry_baton_give(&f.te.engine->baton);
        }
        ferry_buffer *fine = test_buffer(&f.te, 0, GPU_SIZE, 4);
        ferry_future *beside = nop_on_bytes(&f, fine);
        settle(&f.te);
        ASSERT_STATUS(status_of(beside), FERRY_OK);
        ASSERT_STATUS(ferry_future_poll(stuck), FERRY_E_DEPENDENCY);
        check_batch(kind, struck, batch, each);

        find_again(&f);
        cr_assert(is_quiet(stuck));
        cr_assert_null(f.te.engine->live_first, "all of them have retired");
        ferry_future_release(struck);
        ferry_future_release(stuck);
        ferry_buffer *buffers[] = {src, dst, host, fine};
        for (size_t i = 0; i < 4; i++)
            ferry_buffer_release(buffers[i]);
        fake_engine_close(&f);
    }
}

/* An event's definition stands past earlier users of its span, one of which is lost. */
Test(engine_device_errors, a_definition_behind_a_lost_copy_fails_with_its_readers)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_buffer *span = gpu_buffer(&f, 0, 1), *far = gpu_buffer(&f, 1, 2);
    ferry_buffer *dst = gpu_buffer(&f, 0, 3);
    fake_hold(fake_stream(f.gpus[1], FAKE_WITHIN), true);
    ferry_future *older = gpu_copy(&f, far, span); /* reads it on the device that is lost */
    ferry_future *event = record(&f, 0, 0);
    ASSERT_STATUS(ferry_buffer_define(ferry_buffer_span(span), event), FERRY_OK);
    ferry_future *reader = gpu_copy(&f, dst, span);
    cr_assert(is_issued(reader));
    fake_lose(f.gpus[1], true);
    user_goes(&f, 0, 0);
    run_all(&f);
    check_error(older, "the device is lost");
    ASSERT_STATUS(ferry_future_poll(event), FERRY_OK);
    check_shares(reader, older);
    find_again(&f);
    ferry_future *futures[] = {older, event, reader};
    for (size_t i = 0; i < 3; i++)
        ferry_future_release(futures[i]);
    ferry_buffer *buffers[] = {span, far, dst};
    for (size_t i = 0; i < 3; i++)
        ferry_buffer_release(buffers[i]);
    fake_engine_close(&f);
}

/* A thread that is not the loop meets it. */
Test(engine_device_errors, a_submitter_leaves_a_lost_stream_to_the_loop)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    three t;
    three_make(&f, &t);
    fake_hold(fake_stream(f.gpus[0], FAKE_WITHIN), true);
    t.copies[0] = gpu_copy(&f, t.dst[0], t.src);
    fake_lose(f.gpus[0], true);
    settle(&f.te);
    check_error(t.copies[0], "the device is lost");
    t.copies[1] = gpu_copy(&f, t.dst[1], t.src);
    t.copies[2] = gpu_copy(&f, t.dst[2], t.src);
    ASSERT_STATUS(ferry_future_poll(t.copies[1]), FERRY_PENDING);
    settle(&f.te);
    check_error(t.copies[1], "the device is lost");
    check_error(t.copies[2], "the device is lost");
    cr_assert(is_quiet(t.copies[2]));
    fake_lose(f.gpus[0], false);
    fake_hold(fake_stream(f.gpus[0], FAKE_WITHIN), false);
    run_all(&f);
    cr_assert(is_quiet(t.copies[0]), "should it fire after all");
    three_free(&t);
    fake_engine_close(&f);
}

/* ---- without memory ---- */

Test(engine_device_errors, without_memory_for_an_error_there_is_the_status)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    three t;
    three_make(&f, &t);
    fake_refuse_copy(f.gpus[0], 0);
    three_submit(&f, &t);
    failing_allocator_arm(&f.te.memory, 1, true);
    settle(&f.te);
    failing_allocator_arm(&f.te.memory, 0, false);
    ASSERT_STATUS(ferry_future_poll(t.copies[0]), FERRY_E_DEVICE);
    run_all(&f);
    ASSERT_STATUS(ferry_future_poll(t.copies[1]), FERRY_OK);
    three_free(&t);
    fake_engine_close(&f);
}
