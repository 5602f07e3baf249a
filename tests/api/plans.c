/* SPDX-License-Identifier: Apache-2.0 */
/* Plans within one engine: order, picks, what posts wait for and leave, ends, room and memory. */
#include "tests/support/batch_test.h"
#include "tests/support/held_call.h"

#include <stdlib.h>

SCENE_SUITE(plans);

static ferry_plan *plan_of(const ferry_op *ops, size_t count)
{
    ferry_plan *plan = NULL;
    ferry_error *error = NULL;
    ferry_status status = ferry_plan_create(engine(), ops, sizeof *ops, count, &plan, &error);
    cr_assert(status == FERRY_OK, "%s: %s", ferry_status_name(status),
              error != NULL ? error->message : "");
    return plan;
}

static ferry_future *post(ferry_plan *plan)
{
    return own(ferry_plan_post(plan, NULL, 0, NULL));
}

static ferry_plan_info info_of(const ferry_plan *plan)
{
    ferry_plan_info info = FERRY_PLAN_INFO_INIT;
    ASSERT_STATUS(ferry_plan_describe(plan, &info), FERRY_OK);
    return info;
}

static const ferry_error *cause_of(const ferry_future *future)
{
    const ferry_error *error = ferry_future_error(future);
    cr_assert_not_null(error);
    cr_assert_not_null(error->cause);
    return error->cause;
}

/* ---- order ---- */

enum { GRAIN = 1000, STATIONS = 6 };

/* Along a row of buffers, of small copies and large ones, posted again and again. */
static void pass_along(ferry_loop_mode loop, size_t size)
{
    scene_begin(loop);
    ferry_buffer *stations[STATIONS];
    ferry_op ops[STATIONS - 1];
    for (size_t i = 0; i < STATIONS; i++)
        stations[i] = own(test_buffer(scene(), i % TEST_DEVICES, size, 0));
    for (size_t i = 0; i + 1 < STATIONS; i++)
        ops[i] = copy_op(ferry_buffer_span(stations[i + 1]), ferry_buffer_span(stations[i]));
    ferry_plan *plan = plan_of(ops, STATIONS - 1);
    cr_assert_eq(info_of(plan).wait_count, STATIONS - 2);
    for (int round = 1; round < 20; round++) {
        memset(ferry_buffer_data(stations[0]), round, size);
        WAIT(post(plan), OK);
        cr_assert(is_filled(stations[STATIONS - 1], 0, size, round), "round %d", round);
    }
    ferry_plan_release(plan);
    scene_end();
}

Test(plans, are_ordered_by_what_they_touch)
{
    static const ferry_loop_mode loops[] = {FERRY_LOOP_EMBEDDED, FERRY_LOOP_THREAD};
    for (size_t i = 0; i < 2; i++) {
        pass_along(loops[i], 100);
        pass_along(loops[i], 1 << 20);
    }
}

/* What lies between two picked ones is left out, and the two keep their order. */
Test(plans, keep_the_order_of_those_that_are_picked)
{
    scene_begin(FERRY_LOOP_THREAD);
    for (size_t size = 100; size <= 1 << 20; size *= 100) {
        ferry_buffer *a = own(test_buffer(scene(), 0, size, 1));
        ferry_buffer *b = own(test_buffer(scene(), 1, size, 2));
        ferry_buffer *c = own(test_buffer(scene(), 2, size, 3));
        ferry_span at[] = {ferry_buffer_span(a), ferry_buffer_span(b), ferry_buffer_span(c)};
        /* The first reads what the last writes; the one between writes what the first has read. */
        ferry_op ops[] = {copy_op(at[2], at[0]), copy_op(at[1], at[2]), copy_op(at[0], at[1])};
        ferry_plan *plan = plan_of(ops, 3);
        static const uint32_t outer[] = {2, 0}, inner[] = {1};
        WAIT(own(ferry_plan_post(plan, outer, 2, NULL)), OK);
        cr_assert(is_filled(c, 0, size, 1) && is_filled(b, 0, size, 2) && is_filled(a, 0, size, 2));
        WAIT(own(ferry_plan_post(plan, inner, 1, NULL)), OK);
        cr_assert(is_filled(b, 0, size, 1));
        WAIT(own(ferry_plan_post(plan, NULL, 0, NULL)), OK);
        cr_assert(is_filled(a, 0, size, 2) && is_filled(b, 0, size, 2) && is_filled(c, 0, size, 2));
        ferry_plan_release(plan);
    }
}

Test(plans, run_functions_between_copies)
{
    scene_begin(FERRY_LOOP_THREAD);
    ferry_buffer *buffer = own(test_buffer(scene(), 0, BIG, 0));
    ferry_buffer *other = own(test_buffer(scene(), 1, BIG, 0));
    ferry_access access = {ferry_buffer_span(buffer), FERRY_READ_WRITE};
    ferry_op_options options = touching(&access, 1);
    ferry_op ops[] = {copy_op(ferry_buffer_span(buffer), ferry_buffer_span(other)),
                      call_op(count_call, scene_calls()), call_op(count_call, scene_calls()),
                      nop_op(), copy_op(ferry_buffer_span(other), ferry_buffer_span(buffer))};
    ops[1].options = ops[2].options = &options;
    ferry_plan *plan = plan_of(ops, 5);
    cr_assert_eq(info_of(plan).wait_count, 4); /* 1, 2 and the last in a row; the last on the
                                                  first's source, too */
    for (int i = 1; i < 10; i++) {
        WAIT(post(plan), OK);
        cr_assert_eq(atomic_load(scene_calls()), 2 * i);
    }
    ferry_plan_release(plan);
}

Test(plans, join_neighbours_that_touch)
{
    slices s;
    slices_open(&s);
    ferry_plan *plan = plan_of(s.ops, MANY);
    ferry_plan_info info = info_of(plan);
    cr_assert_eq(info.op_count, MANY);
    cr_assert_eq(info.part_count, 1);
    cr_assert_eq(info.access_count, 2);
    cr_assert_eq(info.size_bytes, MANY * SLICE);
    WAIT(post(plan), OK);
    cr_assert(is_filled(s.dst, 0, MANY * SLICE, 7));
    memset(ferry_buffer_data(s.dst), 0, MANY * SLICE);
    static const uint32_t picks[] = {5, 3, 999};
    WAIT(own(ferry_plan_post(plan, picks, 3, NULL)), OK);
    cr_assert(is_filled(s.dst, 3 * SLICE, SLICE, 7) && is_filled(s.dst, 5 * SLICE, SLICE, 7) &&
              is_filled(s.dst, 999 * SLICE, SLICE, 7) && is_filled(s.dst, 0, 3 * SLICE, 0) &&
              is_filled(s.dst, 4 * SLICE, SLICE, 0) && is_filled(s.dst, 6 * SLICE, SLICE, 0));
    ferry_plan_release(plan);
}

/* Each reads what the one before has written: as one copy they would be another one. */
Test(plans, do_not_join_what_depends)
{
    play("buffer b 640 of 0");
    ferry_buffer *buffer = the_buffer("b");
    unsigned char *bytes = ferry_buffer_data(buffer);
    ferry_op ops[9];
    for (size_t i = 0; i < 9; i++)
        ops[i] =
            copy_op(span_of(buffer, (i + 1) * SLICE, SLICE), span_of(buffer, i * SLICE, SLICE));
    memset(bytes, 9, SLICE);
    ferry_plan *plan = plan_of(ops, 9);
    cr_assert_eq(info_of(plan).part_count, 9);
    WAIT(post(plan), OK);
    cr_assert(is_filled(buffer, 0, 10 * SLICE, 9));
    ferry_plan_release(plan);
}

Test(plans, copy_rows)
{
    enum { ROWS = 16, PITCH = 256 };
    play("buffer a %d of 5; buffer b %d on 1", ROWS * PITCH, ROWS * PITCH);
    ferry_buffer *a = the_buffer("a"), *b = the_buffer("b");
    ferry_op ops[] = {columns_op(b, a, 0, 64, PITCH, ROWS), columns_op(b, a, 64, 64, PITCH, ROWS),
                      columns_op(a, b, 0, 32, PITCH, ROWS)};
    ferry_plan *plan = plan_of(ops, 3);
    cr_assert_eq(info_of(plan).wait_count, 1);
    WAIT(post(plan), OK);
    for (size_t row = 0; row < ROWS; row++)
        cr_assert(is_filled(b, row * PITCH, 128, 5) && is_filled(b, row * PITCH + 128, 128, 0));
    ferry_plan_release(plan);
}

/* ---- among others ---- */

Test(plans, wait_for_those_before_and_hold_up_those_behind)
{
    play("buffer a 64 of 1; buffer b 64 of 2; buffer c 64 of 3; promise p");
    ferry_span a = ferry_buffer_span(the_buffer("a")), b = ferry_buffer_span(the_buffer("b"));
    ferry_span c = ferry_buffer_span(the_buffer("c"));
    ferry_op ops[] = {copy_op(b, a)};
    ferry_plan *plan = plan_of(ops, 1);
    ferry_future *defined = own(ferry_promise_future(the_promise("p")));
    ASSERT_STATUS(ferry_buffer_define(a, defined), FERRY_OK);
    ferry_future *first = post(plan), *second = post(plan);
    ferry_future *behind = own(ferry_copy(engine(), c, b, NULL));
    EXPECT(first, PENDING);
    EXPECT(second, PENDING);
    EXPECT(behind, PENDING);
    memset(ferry_buffer_data(the_buffer("a")), 8, 64);
    ASSERT_STATUS(ferry_promise_resolve(the_promise("p"), FERRY_OK, NULL), FERRY_OK);
    EXPECT(first, OK);
    EXPECT(second, OK);
    EXPECT(behind, OK);
    cr_assert(is_filled(the_buffer("c"), 0, 64, 8));
    ferry_plan_release(plan);
}

Test(plans, wait_for_their_after_and_nothing_else_if_untracked)
{
    play("buffer a 64 of 1; buffer b 64 of 2; promise p");
    ferry_span a = ferry_buffer_span(the_buffer("a")), b = ferry_buffer_span(the_buffer("b"));
    ferry_op ops[] = {copy_op(b, a)};
    ferry_plan *plan = plan_of(ops, 1);
    ASSERT_STATUS(ferry_buffer_define(a, own(ferry_promise_future(the_promise("p")))), FERRY_OK);
    ferry_op_options options = behind_promise();
    options.flags = FERRY_OP_UNTRACKED;
    ferry_future *waits = own(ferry_plan_post(plan, NULL, 0, &options));
    options = (ferry_op_options)FERRY_OP_OPTIONS_INIT;
    options.flags = FERRY_OP_UNTRACKED;
    EXPECT(own(ferry_plan_post(plan, NULL, 0, &options)), OK);
    EXPECT(waits, PENDING);
    ASSERT_STATUS(ferry_promise_resolve(the_promise("p"), FERRY_OK, NULL), FERRY_OK);
    EXPECT(waits, OK);
    ferry_plan_release(plan);
}

/* What a post writes before it reads may be poisoned before; what it reads first may not. */
Test(plans, fail_with_what_they_read_and_poison_what_they_write)
{
    play("buffer a 64 of 1; buffer b 64 of 2; buffer c 64 of 3; promise p");
    ferry_span a = ferry_buffer_span(the_buffer("a")), b = ferry_buffer_span(the_buffer("b"));
    ferry_span c = ferry_buffer_span(the_buffer("c"));
    ferry_op ops[] = {copy_op(b, a), copy_op(c, b)};
    ferry_plan *plan = plan_of(ops, 2);
    ASSERT_STATUS(ferry_buffer_define(b, own(ferry_promise_future(the_promise("p")))), FERRY_OK);
    ASSERT_STATUS(ferry_promise_resolve(the_promise("p"), FERRY_E_INVALID, "it is bad"), FERRY_OK);
    EXPECT(post(plan), OK);
    play("promise q");
    ASSERT_STATUS(ferry_buffer_define(a, own(ferry_promise_future(the_promise("q")))), FERRY_OK);
    ASSERT_STATUS(ferry_promise_resolve(the_promise("q"), FERRY_E_INVALID, "it is bad"), FERRY_OK);
    ferry_future *failed = post(plan);
    EXPECT(failed, E_DEPENDENCY);
    cr_assert_str_eq(cause_of(failed)->message, "it is bad");
    EXPECT(own(ferry_copy(engine(), a, c, NULL)), E_DEPENDENCY);
    ASSERT_STATUS(ferry_buffer_define(a, NULL), FERRY_OK);
    EXPECT(post(plan), OK);
    EXPECT(own(ferry_copy(engine(), a, c, NULL)), OK);
    ferry_plan_release(plan);
}

/* ---- ends ---- */

Test(plans, fail_with_their_first_failure_and_begin_no_more)
{
    scene_begin(FERRY_LOOP_THREAD);
    ferry_buffer *buffer = own(test_buffer(scene(), 0, SLICE, 0));
    ferry_access access = {ferry_buffer_span(buffer), FERRY_READ_WRITE};
    ferry_op_options options = touching(&access, 1);
    options.label = "the one that fails";
    ferry_op ops[] = {call_op(fail_call, NULL), call_op(count_call, scene_calls())};
    ops[0].options = ops[1].options = &options;
    ferry_plan *plan = plan_of(ops, 2);
    for (int i = 0; i < 10; i++) {
        ferry_future *failed = post(plan);
        WAIT(failed, E_DEPENDENCY);
        ASSERT_STATUS(cause_of(failed)->status, FERRY_E_FAILED);
        cr_assert_str_eq(cause_of(failed)->label, "the one that fails");
        cr_assert_neq(cause_of(failed)->op, ferry_future_id(failed));
        WAIT(own(ferry_future_quiet(failed)), OK);
        ASSERT_STATUS(ferry_buffer_define(ferry_buffer_span(buffer), NULL), FERRY_OK);
    }
    cr_assert_eq(atomic_load(scene_calls()), 0);
    ferry_plan_release(plan);
}

/* Some have ended, one is under way, others wait. */
static void end_midway(bool is_late)
{
    scene_options(FERRY_LOOP_EMBEDDED)->executor = &by_hand()->executor;
    ferry_buffer *buffer = own(test_buffer(scene(), 0, SLICE, 0));
    ferry_access access = {ferry_buffer_span(buffer), FERRY_READ_WRITE};
    ferry_op_options options = touching(&access, 1);
    ferry_op ops[4];
    for (size_t i = 0; i < 4; i++) {
        ops[i] = call_op(count_call, scene_calls());
        ops[i].options = &options;
    }
    ferry_plan *plan = plan_of(ops, 4);
    ferry_op_options given = FERRY_OP_OPTIONS_INIT;
    given.deadline_ns = is_late ? START_NS + 1000000 : 0;
    given.label = "the post";
    ferry_future *future = own(ferry_plan_post(plan, NULL, 0, &given));
    scene_settle();
    for (int i = 0; i < 2; i++) {
        run_posted();
        scene_settle();
    }
    cr_assert_eq(atomic_load(scene_calls()), 2);
    EXPECT(future, PENDING);
    if (is_late) {
        stepped_clock_step(&scene()->time, 2000000);
        EXPECT(future, E_DEADLINE);
    } else {
        ferry_future_cancel(future);
        EXPECT(future, E_CANCELLED);
    }
    cr_assert_str_eq(ferry_future_error(future)->label, "the post");
    EXPECT(own(ferry_future_quiet(future)), OK); /* its function had not begun */
    run_posted();
    scene_settle();
    cr_assert_eq(atomic_load(scene_calls()), 2);
    ferry_plan_release(plan);
    scene_end();
}

Test(plans, are_cancelled_midway)
{
    end_midway(false);
}

Test(plans, are_late_midway)
{
    end_midway(true);
}

/* A function that has begun holds up the quiet of the whole post. */
Test(plans, are_quiet_when_the_last_part_is)
{
    static thread_executor thread;
    cr_assert(thread_executor_start(&thread));
    scene_options(FERRY_LOOP_THREAD)->executor = &thread.executor;
    ferry_buffer *buffer = own(test_buffer(scene(), 0, SLICE, 0));
    held_call held;
    held_call_init(&held, ferry_buffer_span(buffer), 5);
    ferry_access access = {ferry_buffer_span(buffer), FERRY_WRITE};
    ferry_op_options options = touching(&access, 1);
    ferry_op op = call_op(held_call_run, &held);
    op.options = &options;
    ferry_plan *plan = plan_of(&op, 1);
    ferry_future *future = post(plan), *quiet = own(ferry_future_quiet(future));
    held_call_await(&held);
    ferry_future_cancel(future);
    WAIT(future, E_CANCELLED);
    ASSERT_STATUS(ferry_future_poll(quiet), FERRY_PENDING);
    ferry_plan_release(plan); /* the post keeps it */
    held_call_let_go(&held);
    WAIT(quiet, OK);
    cr_assert(is_filled(buffer, 0, SLICE, 5));
    scene_leave();
    thread_executor_stop(&thread);
}

Test(plans, end_with_the_engine)
{
    scene_options(FERRY_LOOP_EMBEDDED)->executor = &by_hand()->executor;
    ferry_op ops[40];
    for (size_t i = 0; i < 40; i++)
        ops[i] = call_op(count_call, scene_calls());
    ferry_plan *plan = plan_of(ops, 40);
    ferry_future *future = post(plan);
    play("promise p");
    ferry_op_options options = behind_promise();
    ferry_future *waits = own(ferry_plan_post(plan, NULL, 0, &options));
    scene_settle();
    scene_leave();
    ASSERT_STATUS(ferry_future_poll(future), FERRY_E_SHUTDOWN);
    ferry_status status = ferry_future_poll(waits);
    cr_assert(status == FERRY_E_SHUTDOWN || status == FERRY_E_DEPENDENCY);
    run_posted(); /* tasks keep the engine's memory */
    cr_assert_eq(atomic_load(scene_calls()), 0);
    EXPECT_NOW(own(ferry_plan_post(plan, NULL, 0, NULL)), E_SHUTDOWN);
    ferry_plan_release(plan);
}

/* ---- bad input ---- */

static void refuse_op(const ferry_op *op, ferry_status status, const char *words)
{
    ferry_op ops[] = {nop_op(), *op};
    ferry_plan *plan = (ferry_plan *)(uintptr_t)1;
    ferry_error *error = NULL;
    ASSERT_STATUS(ferry_plan_create(engine(), ops, sizeof *ops, 2, &plan, &error), status);
    cr_assert_eq(plan, (ferry_plan *)(uintptr_t)1);
    cr_assert(strstr(error->message, words) != NULL && strstr(error->message, "operation 1: ") != 0,
              "%s", error->message);
    ferry_error_release(error);
    ASSERT_STATUS(ferry_plan_create(engine(), ops, sizeof *ops, 2, &plan, NULL), status);
}

Test(plans, refuse_bad_operations)
{
    play("buffer a 64; buffer b 64; promise p");
    ferry_span a = ferry_buffer_span(the_buffer("a")), b = ferry_buffer_span(the_buffer("b"));
    ferry_span outside = {the_buffer("a"), 32, 64};
    ferry_op op = copy_op(a, outside);
    op.dst.size_bytes = 64;
    refuse_op(&op, FERRY_E_INVALID, "past the end");
    op = copy_op(a, span_of(the_buffer("b"), 0, 32));
    refuse_op(&op, FERRY_E_INVALID, "differ in size");
    op = copy_op(a, a);
    refuse_op(&op, FERRY_E_INVALID, "overlap");
    op = call_op(NULL, NULL);
    refuse_op(&op, FERRY_E_INVALID, "fn is NULL");
    op = (ferry_op){.kind = FERRY_OP_PROMISE};
    refuse_op(&op, FERRY_E_INVALID, "kind");
    op = (ferry_op){.kind = (ferry_op_kind)77};
    refuse_op(&op, FERRY_E_INVALID, "kind");
    op = (ferry_op){.kind = FERRY_OP_SEND, .src = a};
    refuse_op(&op, FERRY_E_INVALID, "group is NULL");
    op = (ferry_op){.kind = FERRY_OP_NOTICE};
    refuse_op(&op, FERRY_E_INVALID, "group is NULL");
    op = (ferry_op){.kind = FERRY_OP_GET, .dst = a};
    refuse_op(&op, FERRY_E_INVALID, "window");
    ferry_op_options options = behind_promise();
    op = copy_op(a, b);
    op.options = &options;
    refuse_op(&op, FERRY_E_INVALID, "options of its posts");
    options = (ferry_op_options)FERRY_OP_OPTIONS_INIT;
    options.deadline_ns = 1;
    refuse_op(&op, FERRY_E_INVALID, "options of its posts");
    options = (ferry_op_options)FERRY_OP_OPTIONS_INIT;
    options.flags = 1u << 20;
    refuse_op(&op, FERRY_E_INVALID, "flags");
    ferry_access access = {outside, FERRY_READ};
    options = touching(&access, 1);
    refuse_op(&op, FERRY_E_INVALID, "past the end");
}

Test(plans, refuse_bad_calls)
{
    play("buffer a 64; buffer b 64");
    ferry_op ops[] = {
        copy_op(ferry_buffer_span(the_buffer("a")), ferry_buffer_span(the_buffer("b")))};
    ferry_plan *plan = NULL;
    ASSERT_STATUS(ferry_plan_create(NULL, ops, sizeof *ops, 1, &plan, NULL), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_plan_create(engine(), NULL, sizeof *ops, 1, &plan, NULL), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_plan_create(engine(), ops, sizeof *ops, 1, NULL, NULL), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_plan_create(engine(), ops, 0, 1, &plan, NULL), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_plan_create(engine(), ops, 5000, 1, &plan, NULL), FERRY_E_INVALID);
    ASSERT_STATUS(
        ferry_plan_create(engine(), ops, sizeof *ops, FERRY_PLAN_OPS_MAX + 1, &plan, NULL),
        FERRY_E_INVALID);
    cr_assert_null(plan);
    EXPECT(own(ferry_plan_post(NULL, NULL, 0, NULL)), E_INVALID);
    ASSERT_STATUS(ferry_plan_describe(NULL, NULL), FERRY_E_INVALID);
    ferry_plan_release(NULL);

    plan = plan_of(ops, 1);
    static const uint32_t outside[] = {1}, far[] = {UINT32_MAX}, twice[] = {0, 0};
    EXPECT(own(ferry_plan_post(plan, outside, 1, NULL)), E_INVALID);
    EXPECT(own(ferry_plan_post(plan, far, 1, NULL)), E_INVALID);
    EXPECT(own(ferry_plan_post(plan, twice, 2, NULL)), E_INVALID);
    EXPECT(own(ferry_plan_post(plan, NULL, 1, NULL)), E_INVALID);
    EXPECT(own(ferry_plan_post(plan, outside, 0, NULL)), OK); /* none */
    EXPECT(post(plan), OK);                                   /* the marks of picks are gone */
    ferry_plan_info info = {.struct_size = 8};
    ASSERT_STATUS(ferry_plan_describe(plan, &info), FERRY_OK);
    cr_assert_eq(info.op_count, 0);
    ferry_plan_release(plan);

    plan = plan_of(NULL, 0);
    EXPECT(post(plan), OK);
    play("promise p");
    ferry_op_options options = behind_promise();
    ferry_future *waits = own(ferry_plan_post(plan, NULL, 0, &options));
    EXPECT(waits, PENDING);
    ASSERT_STATUS(ferry_promise_resolve(the_promise("p"), FERRY_OK, NULL), FERRY_OK);
    EXPECT(waits, OK);
    ferry_plan_release(plan);
}

/* Spans that overlap in each other's middle cut each other up: there is a bound to that. */
Test(plans, refuse_too_many_overlaps)
{
    enum { COUNT = 20000 };
    scene_begin(FERRY_LOOP_THREAD);
    ferry_buffer *buffer = own(test_buffer(scene(), 0, 2 * COUNT + 64, 0));
    ferry_op *ops = calloc(COUNT, sizeof *ops);
    ferry_access *accesses = calloc(COUNT, sizeof *accesses);
    ferry_op_options *options = calloc(COUNT, sizeof *options);
    for (size_t i = 0; i < COUNT; i++) {
        accesses[i] = (ferry_access){span_of(buffer, i, COUNT), FERRY_READ};
        options[i] = touching(&accesses[i], 1);
        ops[i] = nop_op();
        ops[i].options = &options[i];
    }
    ferry_plan *plan = NULL;
    ferry_error *error = NULL;
    ASSERT_STATUS(ferry_plan_create(engine(), ops, sizeof *ops, COUNT, &plan, &error),
                  FERRY_E_INVALID);
    cr_assert(strstr(error->message, "overlap") != NULL, "%s", error->message);
    ferry_error_release(error);
    free(ops);
    free(accesses);
    free(options);
}

/* ---- room ---- */

static void many_copies(size_t count, size_t size, bool is_untracked)
{
    scene_begin(FERRY_LOOP_THREAD);
    ferry_buffer *from = own(test_buffer(scene(), 0, 2 * count * size, 4));
    ferry_buffer *to = own(test_buffer(scene(), 1, 2 * count * size, 0));
    ferry_op *ops = calloc(count, sizeof *ops);
    for (size_t i = 0; i < count; i++) /* with gaps, and so not joined */
        ops[i] = copy_op(span_of(to, 2 * i * size, size), span_of(from, 2 * i * size, size));
    ferry_plan *plan = plan_of(ops, count);
    free(ops);
    cr_assert_eq(info_of(plan).part_count, count);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.flags = is_untracked ? FERRY_OP_UNTRACKED : 0;
    WAIT(own(ferry_plan_post(plan, NULL, 0, &options)), OK);
    const unsigned char *bytes = ferry_buffer_data(to);
    for (size_t i = 0; i < count; i++)
        cr_assert(bytes[2 * i * size] == 4 && bytes[2 * i * size + size - 1] == 4 &&
                  bytes[2 * i * size + size] == 0);
    ferry_plan_release(plan);
    scene_end();
}

Test(plans, have_room_for_many)
{
    many_copies(1000, 16, false);
    many_copies(1000, 20000, false);
    many_copies(1000000, 8, true);
}

/* A post needs as many nodes as it has parts under way; without room it waits, or says so. */
Test(plans, say_where_there_is_no_room)
{
    ferry_engine_options *given = scene_options(FERRY_LOOP_EMBEDDED);
    given->max_nodes = 1024;
    given->executor = &by_hand()->executor;
    enum { COUNT = 2000, SIZE = 20000 };
    ferry_buffer *from = own(test_buffer(scene(), 0, SIZE, 4));
    ferry_buffer *to = own(test_buffer(scene(), 1, SIZE, 0));
    ferry_op *ops = calloc(COUNT, sizeof *ops);
    for (size_t i = 0; i < COUNT; i++)
        ops[i] = copy_op(ferry_buffer_span(to), ferry_buffer_span(from));
    ferry_plan *copies = plan_of(ops, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        ops[i] = call_op(count_call, scene_calls());
    ferry_plan *calls = plan_of(ops, COUNT);
    free(ops);
    WAIT(post(copies), OK);
    ferry_future *future = post(calls);
    EXPECT(future, E_DEPENDENCY);
    ASSERT_STATUS(cause_of(future)->status, FERRY_E_AGAIN);
    run_posted();
    EXPECT(own(ferry_future_quiet(future)), OK);
    cr_assert_eq(atomic_load(scene_calls()), 0);
    WAIT(post(copies), OK);
    size_t nodes = take_all_nodes();
    cr_assert_gt(nodes, 900);
    EXPECT(post(copies), E_AGAIN);
    EXPECT(own(ferry_copy(engine(), ferry_buffer_span(from), ferry_buffer_span(to), NULL)),
           E_AGAIN);
    give_all_nodes();
    ferry_plan_release(copies);
    ferry_plan_release(calls);
}

/* ---- memory ---- */

Test(plans, allocate_nothing_once_they_are_warm)
{
    scene_begin(FERRY_LOOP_THREAD);
    enum { COUNT = 600, SIZE = 6000, QUIET_ROUNDS = 50 };
    ferry_buffer *from = own(test_buffer(scene(), 0, 2 * COUNT * SIZE, 4));
    ferry_buffer *to = own(test_buffer(scene(), 1, 2 * COUNT * SIZE, 0));
    ferry_op ops[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        ops[i] = copy_op(span_of(to, 2 * i * SIZE, i % 2 != 0 ? SIZE : 100),
                         span_of(from, 2 * i * SIZE, i % 2 != 0 ? SIZE : 100));
    ferry_plan *plan = plan_of(ops, COUNT);
    static const uint32_t picks[] = {1, 2, 3};
    /* Threads share out differently what there is, so it takes them a while to have enough. */
    for (int round = 0, quiet = 0; quiet < QUIET_ROUNDS; round++) {
        uint64_t before = failing_allocator_calls(&scene()->memory);
        ferry_future *all = ferry_plan_post(plan, NULL, 0, NULL);
        ferry_future *some = ferry_plan_post(plan, picks, 3, NULL);
        WAIT(all, OK);
        WAIT(some, OK);
        ferry_future_release(all);
        ferry_future_release(some);
        ferry_future *all_is_over = ferry_engine_drain(engine());
        WAIT(all_is_over, OK);
        ferry_future_release(all_is_over);
        quiet = failing_allocator_calls(&scene()->memory) == before ? quiet + 1 : 0;
        cr_assert_lt(round, 100 * QUIET_ROUNDS);
    }
    ferry_plan_release(plan);
}

/* Each allocation fails once, of the plan and of its post. */
Test(plans, fail_without_memory)
{
    play("buffer a 4000 of 1; buffer b 4000; buffer c 4000");
    ferry_span a = ferry_buffer_span(the_buffer("a")), b = ferry_buffer_span(the_buffer("b"));
    ferry_span c = ferry_buffer_span(the_buffer("c"));
    ferry_access access = {c, FERRY_READ_WRITE};
    ferry_op_options options = touching(&access, 1);
    options.flags = FERRY_OP_LABEL_COPIED;
    options.label = "a label";
    ferry_op ops[] = {
        copy_op(b, a), copy_op(c, b), call_op(count_call, scene_calls()),
        copy_op(span_of(the_buffer("a"), 0, 100), span_of(the_buffer("c"), 0, 100)),
        copy_op(span_of(the_buffer("a"), 100, 100), span_of(the_buffer("c"), 100, 100))};
    ops[2].options = &options;
    failing_allocator *memory = &scene()->memory;
    int failed = 0, made = 0;
    for (uint64_t nth = 1; made < 5; nth++) {
        ferry_plan *plan = NULL;
        ferry_error *error = NULL;
        uint64_t failures = failing_allocator_failures(memory);
        failing_allocator_arm(memory, nth, false);
        ferry_status status = ferry_plan_create(engine(), ops, sizeof *ops, 5, &plan, &error);
        if (status == FERRY_OK) {
            ferry_future *future = ferry_plan_post(plan, NULL, 0, NULL);
            ferry_status end = scene_status(future, FERRY_OK);
            cr_assert(end == FERRY_OK || end == FERRY_E_NO_MEMORY || end == FERRY_E_DEPENDENCY,
                      "%s", ferry_status_name(end));
            ferry_future_release(future);
        } else {
            ASSERT_STATUS(status, FERRY_E_NO_MEMORY);
            cr_assert_not_null(error);
            ferry_error_release(error);
            failed++;
        }
        failing_allocator_arm(memory, 0, false);
        made += failing_allocator_failures(memory) == failures;
        for (size_t i = 0; i < 3; i++)
            ASSERT_STATUS(ferry_buffer_define(i == 0 ? a : i == 1 ? b : c, NULL), FERRY_OK);
        if (plan != NULL) {
            EXPECT(post(plan), OK);
            ferry_plan_release(plan);
        }
    }
    cr_assert_gt(failed, 5);
}

/* ---- beside others ---- */

enum { POSTERS = 4, POSTS = 200 };

static void *post_often(void *arg)
{
    for (int i = 0; i < POSTS; i++)
        ferry_future_release(ferry_plan_post(arg, NULL, 0, NULL));
    return NULL;
}

Test(plans, are_posted_by_any_thread)
{
    scene_begin(FERRY_LOOP_THREAD);
    ferry_buffer *buffer = own(test_buffer(scene(), 0, SLICE, 0));
    ferry_access access = {ferry_buffer_span(buffer), FERRY_READ_WRITE};
    ferry_op_options options = touching(&access, 1);
    ferry_op ops[] = {call_op(count_call, scene_calls()), nop_op(),
                      call_op(count_call, scene_calls())};
    ops[0].options = ops[2].options = &options;
    ferry_plan *plan = plan_of(ops, 3);
    pthread_t threads[POSTERS];
    for (size_t i = 0; i < POSTERS; i++)
        threads[i] = begin_thread(post_often, plan);
    for (size_t i = 0; i < POSTERS; i++)
        (void)end_thread(threads[i]);
    drain();
    cr_assert_eq(atomic_load(scene_calls()), 2 * POSTERS * POSTS);
    ferry_plan_release(plan);
}

Test(plans, are_of_a_scope_and_a_queue)
{
    scene_begin(FERRY_LOOP_THREAD);
    ferry_buffer *from = own(test_buffer(scene(), 0, BIG, 4));
    ferry_buffer *to = own(test_buffer(scene(), 1, BIG, 0));
    ferry_op ops[] = {copy_op(ferry_buffer_span(to), ferry_buffer_span(from)), nop_op()};
    ferry_plan *plan = plan_of(ops, 2);
    ferry_scope *scope = NULL;
    ferry_queue *queue = NULL;
    ASSERT_STATUS(ferry_scope_create(engine(), NULL, &scope), FERRY_OK);
    ASSERT_STATUS(ferry_queue_create(engine(), 4, &queue, NULL), FERRY_OK);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.scope = scope;
    options.queue = queue;
    options.user_data = 77;
    ferry_future *future = own(ferry_plan_post(plan, NULL, 0, &options));
    WAIT(own(ferry_scope_close(scope)), OK);
    ASSERT_STATUS(ferry_future_poll(future), FERRY_OK);
    ferry_queue_record record[2];
    cr_assert_eq(ferry_queue_take(queue, record, sizeof record[0], 2), 1);
    cr_assert_eq(record[0].user_data, 77);
    cr_assert_eq(record[0].kind, FERRY_OP_PLAN);
    ferry_queue_release(queue);
    ferry_scope_release(scope);
    ferry_plan_release(plan);
}
