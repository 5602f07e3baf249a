/* SPDX-License-Identifier: Apache-2.0 */
/* Each reason for which a plan or a post is refused is given for its cause, and logged. */
#include "engine/ground/refusal.h"
#include "tests/support/play.h"
#include "tests/support/suite.h"

#include <stdio.h>

SCENE_SUITE(engine_plans);

static char logged[512];

static const char *text_of(fry_refusal why)
{
    return fry_refusal_error(why)->public_.message;
}

static void take_line(void *arg, ferry_log_level level, const char *line)
{
    (void)arg, (void)level;
    (void)snprintf(logged, sizeof logged, "%s", line);
}

/* Gives the future back. */
static void expect(fry_refusal why, ferry_future *future)
{
    const ferry_error *error = ferry_future_error(future);
    cr_assert_not_null(error, "%s", text_of(why));
    cr_assert_str_eq(error->message, text_of(why));
    ASSERT_STATUS(ferry_future_poll(future), fry_refusal_status(why));
    cr_assert(why == FRY_REFUSED_PLAN_NULL || strstr(logged, text_of(why)) != NULL, "\"%s\"",
              logged);
    ferry_future_release(future);
}

static void expect_no_plan(fry_refusal why, const ferry_op *ops, size_t count)
{
    ferry_plan *plan = NULL;
    ferry_error *error = NULL;
    ferry_status status = ferry_plan_create(engine(), ops, sizeof *ops, count, &plan, &error);
    ASSERT_STATUS(status, fry_refusal_status(why));
    cr_assert(strstr(error->message, text_of(why)) != NULL, "%s", error->message);
    ferry_error_release(error);
}

/* Of FRY_REFUSED_PLAN_DEVICE, for which there must be a graph, tests/gpu/graphs.c takes care. */
static void expect_no_enqueue(fry_refusal why, ferry_plan *plan)
{
    ferry_error *error = NULL;
    ferry_status status = ferry_plan_enqueue(plan, ferry_device_at(engine(), 0), NULL, &error);
    ASSERT_STATUS(status, fry_refusal_status(why));
    cr_assert(strstr(error->message, text_of(why)) != NULL, "%s", error->message);
    ferry_error_release(error);
}

Test(engine_plans, each_reason_is_given_for_its_cause)
{
    enum { OVERLAPS = 10000 };
    static ferry_op ops[OVERLAPS];
    static ferry_access accesses[OVERLAPS];
    static ferry_op_options each[OVERLAPS];
    static const uint32_t far[] = {2}, twice[] = {1, 1};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    scene_options(FERRY_LOOP_EMBEDDED)->log = take_line;
    ferry_op op[2] = {{.kind = FERRY_OP_NOP}, {.kind = FERRY_OP_NOP, .options = &options}};
    ferry_plan *plan = NULL;
    expect(FRY_REFUSED_PLAN_NULL, ferry_plan_post(NULL, NULL, 0, NULL));
    options.deadline_ns = 1;
    expect_no_plan(FRY_REFUSED_PLAN_OP_OPTIONS, op, 2);
    options.deadline_ns = 0;
    ASSERT_STATUS(ferry_plan_create(engine(), op, sizeof op[0], 2, &plan, NULL), FERRY_OK);
    expect(FRY_REFUSED_PLAN_PICKS, ferry_plan_post(plan, NULL, 1, NULL));
    expect(FRY_REFUSED_PLAN_PICK, ferry_plan_post(plan, far, 1, NULL));
    expect(FRY_REFUSED_PLAN_PICK_TWICE, ferry_plan_post(plan, twice, 2, NULL));
    expect_no_enqueue(FRY_REFUSED_PLAN_NULL, NULL);
    expect_no_enqueue(FRY_REFUSED_PLAN_NO_GRAPH, plan);
    ferry_plan_release(plan);
    op[1].kind = FERRY_OP_BATCH;
    expect_no_plan(FRY_REFUSED_PLAN_OP_KIND, op, 2);
    ferry_buffer *buffer = own(test_buffer(scene(), 0, 3 * OVERLAPS, 0));
    for (size_t i = 0; i < OVERLAPS; i++) {
        accesses[i] = (ferry_access){{buffer, i, OVERLAPS}, FERRY_READ};
        each[i] = touching(&accesses[i], 1);
        ops[i] = (ferry_op){.kind = FERRY_OP_NOP, .options = &each[i]};
    }
    expect_no_plan(FRY_REFUSED_PLAN_OVERLAPS, ops, OVERLAPS);
}

/* Where there are few accesses. */
Test(engine_plans, spans_have_to_have_room)
{
    enum { SPANS = 24 };
    ferry_engine_options *given = scene_options(FERRY_LOOP_EMBEDDED);
    given->max_accesses = 64;
    given->log = take_line;
    ferry_buffer *buffer = own(test_buffer(scene(), 0, 4 * SPANS, 0));
    ferry_op ops[SPANS];
    for (size_t i = 0; i < SPANS; i++)
        ops[i] = (ferry_op){
            .kind = FERRY_OP_COPY, .dst = {buffer, 4 * i, 1}, .src = {buffer, 4 * i + 2, 1}};
    ferry_plan *plan = NULL;
    ASSERT_STATUS(ferry_plan_create(engine(), ops, sizeof ops[0], SPANS, &plan, NULL), FERRY_OK);
    play("promise p");
    ferry_future *after = the_future("p");
    ferry_op_options options = behind(&after, 1);
    expect(FRY_REFUSED_PLAN_ACCESSES, ferry_plan_post(plan, NULL, 0, &options));
    ferry_plan_release(plan);
}
