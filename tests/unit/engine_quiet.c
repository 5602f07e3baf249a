/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ferry_future_quiet promises, of every kind of future and for every way to end: once it has
 * resolved, nothing of what the future stands for touches its memory. One copy, or function, stands
 * still in the midst of its memory; as long as it does, no future that stands for it may be quiet.
 */
#include "tests/support/held_call.h"
#include "tests/unit/inner_play.h"

INNER_SUITE(engine_quiet);

enum { SIZE = 32768 /* half of it is above the inline limit */, THEIRS = 7, MINE = 9, ROW = 64 };

/* ---- what there is ---- */

/* The future that is looked at. Those from ANY on stand for no memory: quiet when resolved. */
#define KINDS_MAP(X)                                                                               \
    X(COPY, "copy")                                                                                \
    X(ROWS, "rows")                                                                                \
    X(CALL, "call")                                                                                \
    X(BATCH_OF_COPIES, "batch of copies")                                                          \
    X(BATCH_OF_CALLS, "batch of calls")                                                            \
    X(BATCH_WITH_EACH, "batch with each")                                                          \
    X(BATCH_WITH_DEADLINES, "batch with deadlines") /* and each[] */                               \
    X(ALL, "all")                                                                                  \
    X(ALL_OF_ALL, "all of all")                                                                    \
    X(ALL_OF_BATCH, "all of a batch")                                                              \
    X(ANY, "any")                                                                                  \
    X(ISSUED, "issued")                                                                            \
    X(QUIET, "quiet")                                                                              \
    X(DRAIN, "drain")                                                                              \
    X(NOP_AFTER, "nop after")

#define ENDS_MAP(X)                                                                                \
    X(SUCCEEDS, "succeeds")                                                                        \
    X(FAILS, "fails")                       /* what is beside it, or before it */                  \
    X(CANCELLED_BEFORE, "cancelled before") /* it waits */                                         \
    X(CANCELLED_UNDER_WAY, "cancelled under way")                                                  \
    X(CANCELLED_OUTSIDE, "cancelled outside") /* what it is made of is cancelled, one by one */    \
    X(DEADLINE_BEFORE, "deadline before")                                                          \
    X(DEADLINE_UNDER_WAY, "deadline under way")                                                    \
    X(SHUTDOWN, "shutdown")

#define NAME(name, text) name,
#define TEXT(name, text) text,
typedef enum kind { KINDS_MAP(NAME) } kind;
typedef enum end { ENDS_MAP(NAME) ENDS } end;
static const char *const kind_names[] = {KINDS_MAP(TEXT)};
static const char *const end_names[] = {ENDS_MAP(TEXT)};

static thread_executor own_thread;

typedef struct rig {
    held_call held;
    kind kind;
    end end;
    ferry_promise *promise; /* it waits for this, where the end comes before it begins */
    ferry_future *after;
    ferry_promise *beside; /* what fails beside it */
    ferry_buffer *src, *dst;
    ferry_access access;
    ferry_op_options options; /* of the operation */
    ferry_future *op;         /* the operation itself, where the future is another */
    ferry_future *future;
} rig;

static bool is_call(kind kind)
{
    return kind == CALL || kind == BATCH_OF_CALLS || kind == ALL_OF_BATCH || kind == ANY;
}

static bool ends_before(end end)
{
    return end == CANCELLED_BEFORE || end == DEADLINE_BEFORE;
}

static bool is_by_deadline(end end)
{
    return end == DEADLINE_BEFORE || end == DEADLINE_UNDER_WAY;
}

static bool stands_for_memory(kind kind)
{
    return kind < ANY;
}

/* ---- making them ---- */

static ferry_future *submit_op(rig *r)
{
    if (is_call(r->kind))
        return ferry_call(engine(), &own_thread.executor, held_call_run, &r->held, &r->options);
    if (r->kind == ROWS)
        return ferry_copy_rows(engine(), span_of(r->dst, 0, ROW), 2 * ROW, span_of(r->src, 0, ROW),
                               2 * ROW, SIZE / (2 * ROW), &r->options);
    return ferry_copy(engine(), ferry_buffer_span(r->dst), ferry_buffer_span(r->src), &r->options);
}

/* One like submit_op makes, and one that fails if the test wants that. */
static ferry_future *submit_batch(rig *r)
{
    bool has_each = r->kind == BATCH_WITH_EACH || r->kind == BATCH_WITH_DEADLINES;
    ferry_future *beside = own(ferry_promise_future(r->beside)), *each[2];
    ferry_op_options waits = behind(&beside, 1);
    if (r->kind == BATCH_WITH_DEADLINES) {
        waits.deadline_ns = INT64_MAX;
        if (r->options.deadline_ns == 0)
            r->options.deadline_ns = INT64_MAX;
    }
    ferry_op ops[2] = {{.kind = FERRY_OP_COPY,
                        .dst = ferry_buffer_span(r->dst),
                        .src = ferry_buffer_span(r->src),
                        .options = &r->options},
                       {.kind = FERRY_OP_NOP, .options = &waits}};
    if (is_call(r->kind))
        ops[0] = (ferry_op){.kind = FERRY_OP_CALL,
                            .executor = &own_thread.executor,
                            .fn = held_call_run,
                            .arg = &r->held,
                            .options = &r->options};
    ferry_future *batch =
        ferry_batch(engine(), ops, sizeof ops[0], 2, has_each ? each : NULL, NULL);
    if (has_each) {
        r->op = own(each[0]);
        (void)own(each[1]);
    }
    return batch;
}

static ferry_future *all_of(ferry_future *left, ferry_future *right)
{
    ferry_future *const futures[2] = {left, right};
    return ferry_future_all(engine(), futures, 2);
}

static void submit_all(rig *r)
{
    ferry_future *beside = own(ferry_promise_future(r->beside));
    if (r->kind == ALL_OF_BATCH)
        r->op = own(submit_batch(r));
    else
        r->op = own(submit_op(r));
    r->future = all_of(r->op, beside);
    if (r->kind == ALL_OF_ALL)
        r->future = all_of(own(r->future), r->future);
}

static void submit_view(rig *r)
{
    ferry_future *beside = own(ferry_promise_future(r->beside));
    r->op = own(submit_op(r));
    ferry_future *const both[2] = {r->op, beside};
    ferry_op_options options = behind(both, 2);
    r->future = r->kind == ANY      ? ferry_future_any(engine(), both, 2)
                : r->kind == ISSUED ? ferry_future_issued(r->op)
                : r->kind == QUIET  ? ferry_future_quiet(r->op)
                : r->kind == DRAIN  ? ferry_engine_drain(engine())
                                    : ferry_nop(engine(), &options);
}

static void rig_submit(rig *r)
{
    r->options = (ferry_op_options)FERRY_OP_OPTIONS_INIT;
    if (ends_before(r->end)) {
        r->options.after = &r->after;
        r->options.after_count = 1;
    }
    if (is_by_deadline(r->end))
        r->options.deadline_ns = START_NS + 100;
    if (is_call(r->kind)) {
        r->access = (ferry_access){ferry_buffer_span(r->dst), FERRY_WRITE};
        r->options.accesses = &r->access;
        r->options.access_count = 1;
    }
    if (r->kind <= CALL)
        r->future = submit_op(r);
    else if (r->kind <= BATCH_WITH_DEADLINES)
        r->future = submit_batch(r);
    else if (r->kind <= ALL_OF_BATCH)
        submit_all(r);
    else
        submit_view(r);
    cr_assert(scene_own_as(SCENE_FUTURE, r->future, "f"));
}

static void rig_open(rig *r, kind kind, end end)
{
    *r = (rig){.kind = kind, .end = end};
    cr_assert(thread_executor_start(&own_thread));
    play("buffer src %d of %d; buffer dst %d on 1; promise p; promise beside; hold dst", SIZE,
         THEIRS, SIZE);
    r->src = the_buffer("src");
    r->dst = the_buffer("dst");
    r->promise = the_promise("p");
    r->after = own(ferry_promise_future(r->promise));
    r->beside = the_promise("beside");
    held_call_init(&r->held, ferry_buffer_span(r->dst), THEIRS);
}

static void rig_close(void)
{
    /* The last task of an executor's may not have returned yet, and keeps the engine's memory. */
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    thread_executor_stop(&own_thread);
    scene_end();
}

/* ---- ending them ---- */

static void await_under_way(rig *r)
{
    scene_settle();
    if (is_call(r->kind))
        held_call_await(&r->held);
    else
        copy_gate_wait_held(&gate);
}

static void let_go(rig *r)
{
    copy_gate_open(&gate);
    held_call_let_go(&r->held);
}

static void make_end(rig *r)
{
    switch (r->end) {
    case FAILS:
        ASSERT_STATUS(ferry_promise_resolve(r->beside, FERRY_E_FAILED, NULL), FERRY_OK);
        break;
    case CANCELLED_BEFORE:
    case CANCELLED_UNDER_WAY:
        ASSERT_STATUS(ferry_future_cancel(r->future), FERRY_OK);
        break;
    case CANCELLED_OUTSIDE:
        ASSERT_STATUS(ferry_future_cancel(r->op), FERRY_OK);
        break;
    case DEADLINE_BEFORE:
    case DEADLINE_UNDER_WAY:
        stepped_clock_step(&scene()->time, 200);
        break;
    default:
        break;
    }
    scene_settle();
}

/* Nothing more is needed for it to be quiet: what else it waits for, or is made of, was cancelled
 * with it. */
static bool is_cancelled_whole(const rig *r)
{
    return r->kind <= BATCH_WITH_DEADLINES &&
           (r->end == CANCELLED_BEFORE || r->end == CANCELLED_UNDER_WAY);
}

/* The future of its quiet is pending while somebody is at the memory, and no longer. */
static void assert_quiet_in_time(rig *r)
{
    ferry_future *quiet = own(ferry_future_quiet(r->future));
    scene_settle();
    bool is_at_memory = !ends_before(r->end);
    if (is_at_memory && stands_for_memory(r->kind))
        cr_assert_eq(ferry_future_poll(quiet), FERRY_PENDING, "%s, %s: quiet too soon",
                     kind_names[r->kind], end_names[r->end]);
    let_go(r);
    if (!is_cancelled_whole(r)) {
        (void)ferry_promise_resolve(r->beside, FERRY_OK, NULL);
        (void)ferry_promise_resolve(r->promise, FERRY_OK, NULL);
    }
    ferry_status status = ferry_future_wait(quiet, -1);
    cr_assert_eq(status, FERRY_OK, "%s, %s: quiet is %s", kind_names[r->kind], end_names[r->end],
                 ferry_status_name(status));
    cr_assert_neq(ferry_future_poll(r->future), FERRY_PENDING);
}

static void assert_untouched_from_now(rig *r)
{
    memset(ferry_buffer_data(r->dst), MINE, SIZE);
    (void)ferry_promise_resolve(r->beside, FERRY_OK, NULL);
    (void)ferry_promise_resolve(r->promise, FERRY_OK, NULL);
    scene_settle();
    thread_executor_wait_idle(&own_thread);
    scene_settle();
    cr_assert(is_filled(r->dst, 0, SIZE, MINE), "%s, %s: touched after quiet", kind_names[r->kind],
              end_names[r->end]);
}

static void shut_down(rig *r)
{
    ASSERT_STATUS(ferry_engine_shutdown(engine(), 0), FERRY_E_DEADLINE);
    let_go(r);
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
}

static void try_end(kind kind, end end)
{
    rig r;
    rig_open(&r, kind, end);
    rig_submit(&r);
    if (!ends_before(end))
        await_under_way(&r);
    make_end(&r);
    if (end == SHUTDOWN)
        shut_down(&r);
    else
        assert_quiet_in_time(&r);
    if (end == SHUTDOWN || stands_for_memory(kind))
        assert_untouched_from_now(&r);
    rig_close();
}

/* It has no handle to what it is made of. */
static bool is_possible(kind kind, end end)
{
    bool has_op = kind >= BATCH_WITH_EACH;
    return end != CANCELLED_OUTSIDE || has_op;
}

static void try_ends(kind first, kind last)
{
    for (kind kind = first; kind <= last; kind++) {
        for (end end = 0; end < ENDS; end++) {
            if (is_possible(kind, end))
                try_end(kind, end);
        }
    }
}

Test(engine_quiet, of_operations)
{
    try_ends(COPY, CALL);
}

Test(engine_quiet, of_batches)
{
    try_ends(BATCH_OF_COPIES, BATCH_WITH_DEADLINES);
}

Test(engine_quiet, of_all)
{
    try_ends(ALL, ALL_OF_BATCH);
}

Test(engine_quiet, of_what_stands_for_no_memory)
{
    try_ends(ANY, NOP_AFTER);
}

/* ---- who comes later ---- */

/*
 * A buffer is said to be valid with the end of several copies elsewhere, say of what a program's
 * own engine does. One fails; who overwrites the buffer still waits for the others.
 */
static void overwrites_what_is_defined(bool by_batch)
{
    rig r;
    rig_open(&r, by_batch ? BATCH_OF_COPIES : ALL, FAILS);
    rig_submit(&r);
    play("buffer defined %d of 1 on 2; define defined by f; writer = copy defined <- src[0:%d]",
         ROW, ROW);
    await_under_way(&r);
    make_end(&r);
    play("now f DEPENDENCY; now writer PENDING; late = copy defined <- src[0:%d]; settle;"
         "now late PENDING; go; wait late OK; now writer OK",
         ROW);
    rig_close();
}

Test(engine_quiet, who_overwrites_what_is_defined_by_several_waits_for_all)
{
    overwrites_what_is_defined(true);
    overwrites_what_is_defined(false);
}

/* Made of one that had failed before and is not quiet yet. */
Test(engine_quiet, all_of_what_has_failed_is_quiet_when_that_is)
{
    rig r;
    rig_open(&r, COPY, CANCELLED_UNDER_WAY);
    rig_submit(&r);
    await_under_way(&r);
    make_end(&r);
    play("now f CANCELLED; both = all f f; end = quiet both; settle; now both DEPENDENCY;"
         "now end PENDING; go; wait end OK");
    rig_close();
}

/* A promise touches no memory, so who is made of one does not wait for it to be kept. */
Test(engine_quiet, of_all_does_not_wait_for_promises)
{
    rig r;
    rig_open(&r, COPY, CANCELLED_BEFORE);
    rig_submit(&r);
    play("both = all f p; end = quiet both; rest = drain");
    make_end(&r);
    play("now both DEPENDENCY; now end rest OK; go");
    rig_close();
}
