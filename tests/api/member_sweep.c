/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every allocation of a member's fails in turn, once and then for ever: each call answers with a
 * clear status, every future resolves, shutting down does not hang, and not a byte is left.
 */
#include "tests/support/member_test.h"

TestSuite(member_sweep, .timeout = 3 * HANG_S);

enum { SIZE = 20000, FUTURES_MAX = 32, RUNS_MAX = 1500 };

/* How a run came out. */
typedef enum outcome {
    FAILED,   /* an allocation was made to fail */
    TOO_SLOW, /* none was, and yet it was not done by its deadlines */
    WHOLE,    /* none was: the sweep has had them all */
} outcome;

typedef struct scenario {
    test_member member;
    bool is_open;        /* the group has any source */
    int64_t patience_ns; /* with what may wait for something that was not to be had */
    ferry_future *futures[FUTURES_MAX];
    size_t count;
} scenario;

static void keep(scenario *s, ferry_future *future)
{
    cr_assert_not_null(future);
    cr_assert_lt(s->count, FUTURES_MAX);
    s->futures[s->count++] = future;
}

static void keep_all_waiting(scenario *s)
{
    for (size_t i = 0; i < s->count; i++) {
        (void)ferry_future_retain(s->futures[i]);
        ferry_status status = test_await(&s->member, 1, s->futures[i]);
        cr_assert_neq(status, FERRY_PENDING);
        if (status != FERRY_OK)
            cr_assert_not_null(ferry_future_error(s->futures[i])->message);
        ferry_future_release(s->futures[i]);
    }
    s->count = 0;
}

/* A group with any source has no receives in plans. */
static void post_plan(scenario *s, ferry_buffer *source, ferry_buffer *sink,
                      const ferry_op_options *options)
{
    ferry_group *group = s->member.group;
    ferry_op ops[3] = {
        {.kind = FERRY_OP_RECV, .dst = ferry_buffer_span(sink), .group = group, .tag = 19},
        {.kind = FERRY_OP_SEND, .src = ferry_buffer_span(source), .group = group, .tag = 19},
        {.kind = FERRY_OP_NOTICE, .group = group, .data = "plan", .data_bytes = 4}};
    ferry_plan *plan = NULL;
    ferry_status status =
        ferry_plan_create(s->member.te.engine, ops, sizeof ops[0], 3, &plan, NULL);
    cr_assert(status == FERRY_OK || status == FERRY_E_NO_MEMORY || status == FERRY_E_AGAIN ||
                  s->is_open,
              "%s", ferry_status_name(status));
    if (plan == NULL)
        return;
    keep(s, ferry_plan_post(plan, NULL, 0, options));
    keep(s, ferry_notice_next(group, options->deadline_ns));
    ferry_plan_release(plan);
}

/* Of a member with two devices, whose columns are brought together: copies alone. */
static void post_reshard(scenario *s, ferry_buffer *source, ferry_buffer *sink,
                         const ferry_op_options *options)
{
    const uint64_t shape[] = {100, 200};
    const ferry_mesh_axis axis = {"x", 2};
    const ferry_rank ranks[] = {0, 0};
    const char *name = "x";
    const ferry_split splits[] = {{NULL, 0}, {&name, 1}};
    const ferry_layout from = {sizeof from, &axis, 1, ranks, 2, splits, 2};
    const ferry_layout to = FERRY_LAYOUT_INIT;
    const ferry_span halves[] = {span_of(source, 0, SIZE / 2), span_of(source, SIZE / 2, SIZE / 2)};
    const ferry_span whole = ferry_buffer_span(sink);
    ferry_reshard_options of = FERRY_RESHARD_OPTIONS_INIT;
    of.from = halves;
    of.from_count = 2;
    of.to = &whole;
    of.to_count = 1;
    ferry_reshard *reshard = NULL;
    ASSERT_STATUS(ferry_reshard_create(shape, 2, 1, &from, &to, &reshard, NULL), FERRY_OK);
    ferry_plan *plan = NULL;
    ferry_error *error = NULL;
    ferry_status status = ferry_reshard_plan(s->member.group, reshard, &of, &plan, &error);
    cr_assert(status == FERRY_OK || status == FERRY_E_NO_MEMORY || status == FERRY_E_AGAIN, "%s",
              ferry_status_name(status));
    cr_assert((status == FERRY_OK) == (plan != NULL) && (plan == NULL) == (error != NULL));
    ferry_error_release(error);
    ferry_reshard_release(reshard);
    if (plan == NULL)
        return;
    keep(s, ferry_plan_post(plan, NULL, 0, options));
    ferry_plan_release(plan);
}

static void exchange(scenario *s, ferry_buffer *source, ferry_buffer *sink)
{
    ferry_group *group = s->member.group;
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.deadline_ns = test_in_ns(s->patience_ns);
    for (ferry_tag tag = 0; tag < 3; tag++) {
        size_t size = tag == 0 ? 8 : SIZE;
        keep(s, ferry_send(group, 0, tag, span_of(source, 0, size), &options));
        keep(s, ferry_recv(group, 0, tag, span_of(sink, 0, size), &options));
    }
    if (s->is_open) {
        keep(s, ferry_message_probe(group, FERRY_RANK_ANY, FERRY_TAG_ANY, &options));
        keep(s, ferry_send(group, 0, 5, span_of(source, 0, 8), &options));
        keep(s, ferry_recv(group, FERRY_RANK_ANY, 5, span_of(sink, 0, SIZE), &options));
    }
    ferry_op ops[2] = {
        {.kind = FERRY_OP_RECV, .dst = ferry_buffer_span(sink), .group = group, .tag = 9},
        {.kind = FERRY_OP_SEND, .src = ferry_buffer_span(source), .group = group, .tag = 9}};
    keep(s, ferry_batch(s->member.te.engine, ops, sizeof ops[0], 2, NULL, &options));
    ferry_window *window;
    keep(s, ferry_window_open(group, ferry_buffer_span(sink), "w", FERRY_WINDOW_GET, &window));
    if (window != NULL)
        keep(s, ferry_window_close(window));
    ferry_window_release(window);
    ferry_symmetric *symmetric;
    keep(s, ferry_symmetric_alloc(group, test_device(s->member.te.engine, 0), SIZE, "s",
                                  options.deadline_ns, &symmetric));
    ferry_symmetric_release(symmetric);
    keep(s, ferry_notice_next(group, options.deadline_ns));
    keep(s, ferry_notice_send(group, 0, "notice", 6, &options));
    post_plan(s, source, sink, &options);
    post_reshard(s, source, sink, &options);
    ferry_rank sender = s->is_open ? FERRY_RANK_ANY : 0;
    keep(s, ferry_recv(group, sender, 77, ferry_buffer_span(sink), &options)); /* nobody sends */
    (void)ferry_future_cancel(s->futures[s->count - 1]);
}

/* Whether it came to its end: a machine that is too slow for the deadlines may cut it short. */
static bool use(scenario *s)
{
    ferry_group_options options = test_group_options(1, 0);
    options.deadline_ns = test_in_ns(s->patience_ns);
    options.any_source_max = s->is_open ? 4 : 0;
    options.kind = s->is_open ? FERRY_GROUP_OPEN : FERRY_GROUP_CLOSED;
    keep(s, ferry_group_join(s->member.te.engine, &options, &s->member.group));
    ferry_status status = ferry_future_wait(s->futures[0], 0);
    while (status == FERRY_PENDING) {
        test_members_move(&s->member, 1);
        status = ferry_future_wait(s->futures[0], 1000000);
    }
    ferry_buffer *buffers[2] = {NULL, NULL};
    bool has_buffers = true;
    for (size_t i = 0; i < 2; i++)
        has_buffers &=
            ferry_buffer_alloc(test_device(s->member.te.engine, i), SIZE, &buffers[i]) == FERRY_OK;
    if (status == FERRY_OK && has_buffers) {
        exchange(s, buffers[0], buffers[1]);
        int64_t end_ns = test_in_ns(s->patience_ns);
        keep(s, ferry_group_set(s->member.group, "k", "v", 1, end_ns));
        keep(s, ferry_group_get(s->member.group, "k", end_ns));
        keep(s, ferry_group_alive(s->member.group, end_ns));
        ferry_barrier_options barrier = FERRY_BARRIER_OPTIONS_INIT;
        barrier.deadline_ns = end_ns;
        const ferry_rank own = 0;
        barrier.members = &own;
        barrier.member_count = 1;
        keep(s, ferry_group_event_next(s->member.group, options.deadline_ns));
        (void)ferry_future_cancel(s->futures[s->count - 1]);
        keep(s, ferry_barrier(s->member.group, "b", &barrier));
        keep_all_waiting(s);
        keep(s, ferry_group_leave(s->member.group));
    }
    keep_all_waiting(s);
    for (size_t i = 0; i < 2; i++) {
        if (buffers[i] != NULL)
            ferry_buffer_release(buffers[i]);
    }
    ferry_group_release(s->member.group);
    return status == FERRY_OK && has_buffers;
}

/* The engine itself has a sweep of its own. */
static outcome run(ferry_loop_mode loop, uint64_t nth, bool persistent, int64_t patience_ns)
{
    static scenario s;
    memset(&s, 0, sizeof s);
    s.patience_ns = patience_ns;
    s.is_open = loop == FERRY_LOOP_EMBEDDED;
    test_member_open(&s.member, loop);
    failing_allocator *memory = &s.member.te.memory;
    failing_allocator_arm(memory, nth, persistent);
    bool is_whole = use(&s);
    ASSERT_STATUS(ferry_engine_shutdown(s.member.te.engine, -1), FERRY_OK);
    bool has_failed = failing_allocator_failures(memory) != 0;
    ferry_engine_release(s.member.te.engine);
    cr_assert_eq(failing_allocator_live_bytes(memory), 0, "%lld bytes left, allocation %llu",
                 (long long)failing_allocator_live_bytes(memory), (unsigned long long)nth);
    return has_failed ? FAILED : is_whole ? WHOLE : TOO_SLOW;
}

static void sweep(ferry_loop_mode loop, bool persistent)
{
    uint64_t nth = 1;
    int64_t patience_ns = 60000000;
    for (outcome came; (came = run(loop, nth, persistent, patience_ns)) != WHOLE;) {
        if (came == TOO_SLOW)
            patience_ns *= 2;
        else
            cr_assert_lt(++nth, RUNS_MAX);
    }
    cr_assert_gt(nth, 20, "it got as far as messages");
}

Test(member_sweep, each_allocation_fails_once)
{
    sweep(FERRY_LOOP_THREAD, false);
}

Test(member_sweep, all_allocations_fail_from_one_on)
{
    sweep(FERRY_LOOP_THREAD, true);
}

Test(member_sweep, each_allocation_fails_once_embedded)
{
    sweep(FERRY_LOOP_EMBEDDED, false);
}
