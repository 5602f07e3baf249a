/* SPDX-License-Identifier: Apache-2.0 */
/* Dumps of what only private means bring about: copies stopped midway, full streams, want of room.
 */
#include "engine/buffer.h"
#include "engine/engine.h"
#include "engine/hazard.h"
#include "engine/node.h"
#include "engine/refusal.h"
#include "tests/support/api_test.h"
#include "tests/support/dump_test.h"
#include "tests/support/owned.h"
#include "tests/unit/copy_gate.h"

TestSuite(engine_dump, .timeout = HANG_S);

enum { SMALL = 8192 /* above the inline limit */ };

typedef struct fixture {
    test_engine te;
    copy_gate gate;
} fixture;

static void fixture_open(fixture *f, ferry_loop_mode loop)
{
    copy_gate_install(&f->gate);
    test_engine_open(&f->te, loop);
}

static ferry_future *copy(fixture *f, ferry_buffer *dst, ferry_buffer *src)
{
    return ferry_copy(f->te.engine, ferry_buffer_span(dst), ferry_buffer_span(src), NULL);
}

static const json_t *lane_of(const json_t *whole, size_t device)
{
    return json_array_get(json_object_get(whole, "lanes"), device);
}

static void check_stopped_copy(ferry_loop_mode loop)
{
    fixture f;
    fixture_open(&f, loop);
    ferry_buffer *buffers[3];
    for (size_t i = 0; i < 3; i++)
        buffers[i] = test_buffer(&f.te, i, SMALL, (int)i);
    copy_gate_hold(&f.gate, ferry_buffer_data(buffers[1]), 0);
    ferry_future *first = copy(&f, buffers[1], buffers[0]);
    ferry_future *second = copy(&f, buffers[2], buffers[1]);
    copy_gate_wait_held(&f.gate);
    json_t *whole = dump_json(f.te.engine);
    ASSERT_WORD(dump_of(whole, first), "state", "issued");
    ASSERT_WORD(dump_of(whole, first), "waits_for", "device");
    ASSERT_WORD(dump_of(whole, first), "device", "host:1");
    ASSERT_WORD(dump_of(whole, second), "state", "issued");
    cr_assert(dump_waits(dump_of(whole, second), first, "read/device"));
    cr_assert_eq(dump_number(lane_of(whole, 1), "in_flight"), 1);
    cr_assert_eq(dump_number(lane_of(whole, 1), "issued"), 1);
    cr_assert_eq(dump_number(lane_of(whole, 1), "fired"), 0);
    cr_assert_eq(dump_number(lane_of(whole, 0), "in_flight"), 0);
    json_decref(whole);

    ASSERT_STATUS(ferry_future_cancel(first), FERRY_OK);
    if (loop == FERRY_LOOP_EMBEDDED)
        settle(&f.te);
    ASSERT_STATUS(ferry_future_wait(first, -1), FERRY_E_CANCELLED);
    ASSERT_STATUS(ferry_future_wait(second, -1), FERRY_E_DEPENDENCY);
    whole = dump_json(f.te.engine);
    const json_t *node = dump_of(whole, first);
    ASSERT_WORD(node, "state", "resolved");
    ASSERT_WORD(node, "status", "FERRY_E_CANCELLED");
    ASSERT_WORD(node, "not_quiet", "hardware");
    cr_assert(dump_has_flag(node, "cancel_requested"));
    node = dump_of(whole, second);
    ASSERT_WORD(node, "status", "FERRY_E_DEPENDENCY");
    ASSERT_WORD(node, "not_quiet", "hardware");
    cr_assert_not(dump_has_flag(node, "cancel_requested"));
    cr_assert_eq(json_array_size(json_object_get(whole, "not_quiet")), 2);
    cr_assert_eq(dump_total(whole, "resolved"), 2);
    cr_assert_eq(json_array_size(json_object_get(whole, "poisoned")), 0, "not before they leave");
    json_decref(whole);

    copy_gate_open(&f.gate);
    ferry_future *drain = ferry_engine_drain(f.te.engine);
    ASSERT_STATUS(ferry_future_wait(drain, -1), FERRY_OK);
    whole = dump_json(f.te.engine);
    cr_assert_eq(dump_total(whole, "nodes"), 0);
    const json_t *poisoned = json_object_get(whole, "poisoned");
    cr_assert_eq(json_array_size(poisoned), 2);
    for (size_t i = 0; i < 2; i++)
        cr_assert_eq((uint64_t)dump_number(json_array_get(poisoned, i), "op"),
                     ferry_future_id(first), "the root is to blame");
    json_decref(whole);
    ferry_future_release(first);
    ferry_future_release(second);
    ferry_future_release(drain);
    for (size_t i = 0; i < 3; i++)
        ferry_buffer_release(buffers[i]);
    test_engine_close(&f.te);
}

Test(engine_dump, a_copy_cancelled_midway_is_resolved_and_not_quiet)
{
    check_stopped_copy(FERRY_LOOP_THREAD);
}

Test(engine_dump, a_copy_cancelled_midway_is_resolved_and_not_quiet_embedded)
{
    check_stopped_copy(FERRY_LOOP_EMBEDDED);
}

Test(engine_dump, what_finds_its_stream_full_waits_for_the_stream)
{
    enum { MORE = 40, COPIES = FRY_STREAM_DEPTH + MORE };
    static ferry_future *copies[COPIES];
    fixture f;
    fixture_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_buffer *src = test_buffer(&f.te, 0, SMALL, 1);
    ferry_buffer *dst = test_buffer(&f.te, 1, (size_t)COPIES * SMALL, 0);
    copy_gate_hold(&f.gate, ferry_buffer_data(dst), 0);
    for (size_t i = 0; i < COPIES; i++)
        copies[i] =
            ferry_copy(f.te.engine, span_of(dst, i * SMALL, SMALL), ferry_buffer_span(src), NULL);
    json_t *whole = dump_json(f.te.engine);
    cr_assert_eq(dump_number(lane_of(whole, 1), "in_flight"), FRY_STREAM_DEPTH);
    cr_assert_eq(dump_number(lane_of(whole, 1), "backlog"), MORE);
    cr_assert_eq(dump_total(whole, "issued"), FRY_STREAM_DEPTH);
    cr_assert_eq(dump_total(whole, "ready"), MORE);
    const json_t *node = dump_of(whole, copies[COPIES - 1]);
    ASSERT_WORD(node, "state", "ready");
    ASSERT_WORD(node, "waits_for", "stream");
    json_decref(whole);
    copy_gate_open(&f.gate);
    for (size_t i = 0; i < COPIES; i++) {
        ASSERT_STATUS(ferry_future_wait(copies[i], -1), FERRY_OK);
        ferry_future_release(copies[i]);
    }
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
    test_engine_close(&f.te);
}

Test(engine_dump, what_has_no_room_to_enter_is_counted)
{
    fixture f;
    fixture_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_buffer *a = test_buffer(&f.te, 0, SMALL, 1), *b = test_buffer(&f.te, 1, SMALL, 0);
    ferry_future_release(ferry_nop(f.te.engine, NULL));
    failing_allocator_arm(&f.te.memory, 1, true);
    ferry_future *first = copy(&f, b, a), *second = copy(&f, a, b);
    failing_allocator_arm(&f.te.memory, 0, false);
    json_t *whole = dump_json(f.te.engine);
    cr_assert_eq(dump_number(json_object_get(whole, "graph"), "entering"), 2);
    cr_assert(json_is_true(json_object_get(json_object_get(whole, "graph"), "starved")));
    cr_assert_eq(dump_total(whole, "nodes"), 0);
    json_decref(whole);
    ASSERT_STATUS(ferry_future_wait(second, -1), FERRY_OK);
    ferry_future_release(first);
    ferry_future_release(second);
    ferry_buffer_release(a);
    ferry_buffer_release(b);
    test_engine_close(&f.te);
}

/* Later at each look. */
static int64_t hasty_now_ns(void *arg)
{
    int64_t *now_ns = arg;
    return ++*now_ns;
}

/* Another thread had the baton, and gave it back before it saw what had come. */
Test(engine_dump, what_was_submitted_before_is_shown_though_it_enters_during_the_dump)
{
    int64_t now_ns = 1;
    ferry_clock clock = {.now_ns = hasty_now_ns, .arg = &now_ns};
    OWNED(test_engine_close) test_engine te;
    ferry_engine_options options = test_engine_options(&te, FERRY_LOOP_EMBEDDED);
    options.clock = &clock;
    test_engine_create(&te, &options);
    ferry_promise *promise = test_promise(&te);
    cr_assert(fry_baton_take(&te.engine->baton));
    ferry_future *waits = nop_after_promise(&te, promise);
    fry_baton_give(&te.engine->baton);
    json_t *whole = dump_json(te.engine);
    ASSERT_WORD(dump_of(whole, waits), "state", "waiting");
    cr_assert_eq(dump_number(json_object_get(whole, "graph"), "entering"), 0);
    json_decref(whole);
    keep_promise(promise, FERRY_OK);
    settle(&te);
    ASSERT_STATUS(status_of(waits), FERRY_OK);
}

Test(engine_dump, what_is_about_to_fail_says_so)
{
    enum { NODES = 200 };
    OWNED(test_engine_close) test_engine te;
    ferry_engine_options options = test_engine_options(&te, FERRY_LOOP_EMBEDDED);
    options.submit_budget = 1; /* so little is done by who resolves the promise, and by the dump */
    test_engine_create(&te, &options);
    ferry_promise *promise = test_promise(&te);
    ferry_future *nops[NODES];
    for (int i = 0; i < NODES; i++)
        nops[i] = nop_after_promise(&te, promise);
    keep_promise(promise, FERRY_E_FAILED);
    json_t *whole = dump_json(te.engine);
    cr_assert(dump_has_flag(dump_of(whole, nops[NODES - 1]), "failing"));
    json_decref(whole);
    settle(&te);
    for (int i = 0; i < NODES; i++)
        ASSERT_STATUS(status_of(nops[i]), FERRY_E_DEPENDENCY);
}

Test(engine_dump, what_is_late_waits_for_the_loop)
{
    OPENED_WITH(test_engine, te, FERRY_LOOP_EMBEDDED);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.deadline_ns = START_NS;
    options.label = "late";
    ferry_future *nop = ferry_nop(te.engine, &options);
    stepped_clock_step(&te.time, 7);
    json_t *whole = dump_json(te.engine);
    const json_t *node = dump_of(whole, nop);
    ASSERT_WORD(node, "state", "ready");
    ASSERT_WORD(node, "waits_for", "loop");
    cr_assert_eq(dump_number(node, "deadline_in_ns"), -7);
    cr_assert_eq(dump_number(node, "age_ns"), 7);
    json_decref(whole);
    settle(&te);
    ASSERT_STATUS(status_of(nop), FERRY_E_DEADLINE);
}

Test(engine_dump, a_buffer_poisoned_as_a_whole_says_so)
{
    OPENED_WITH(test_engine, te, FERRY_LOOP_EMBEDDED);
    ferry_buffer *buffer = test_buffer(&te, 2, 100, 0);
    cr_assert(fry_baton_take(&te.engine->baton)); /* as when no node stood for a refused write */
    fry_hazard_poison_buffer(buffer, fry_refusal_error(FRY_REFUSED_MAX_NODES));
    fry_baton_give(&te.engine->baton);
    ASSERT_STATUS(ferry_buffer_define(span_of(buffer, 0, 10), NULL), FERRY_OK);
    settle(&te);
    json_t *whole = dump_json(te.engine);
    const json_t *poisoned = json_object_get(whole, "poisoned");
    cr_assert_eq(json_array_size(poisoned), 1);
    const json_t *poison = json_array_get(poisoned, 0);
    cr_assert(json_is_true(json_object_get(poison, "wide")));
    ASSERT_WORD(poison, "status", "FERRY_E_AGAIN");
    ASSERT_WORD(poison, "device", "host:2");
    cr_assert_eq(dump_number(poison, "begin"), 0);
    cr_assert_eq(dump_number(poison, "end"), 100);
    cr_assert_null(json_object_get(poison, "op"));
    json_decref(whole);
    ASSERT_STATUS(ferry_buffer_define(ferry_buffer_span(buffer), NULL), FERRY_OK);
    settle(&te);
    whole = dump_json(te.engine);
    cr_assert_eq(json_array_size(json_object_get(whole, "poisoned")), 0);
    json_decref(whole);
    ferry_buffer_release(buffer);
}

/* The poisoned buffer that the dump is at goes while it writes what it has copied of it. */
typedef struct freeing {
    test_engine te;
    dump_text text;
    ferry_buffer *buffers[2];
} freeing;

static void free_the_first(void *arg, const char *bytes, size_t size_bytes)
{
    freeing *self = arg;
    dump_take(&self->text, bytes, size_bytes);
    ferry_buffer *at = self->te.engine->dump_buffer;
    if (at == NULL)
        return;
    for (int i = 0; i < 2; i++) {
        if (self->buffers[i] != at)
            continue;
        self->buffers[i] = NULL;
        ferry_buffer_release(at);
        settle(&self->te);
        cr_assert_neq(self->te.engine->dump_buffer, at);
    }
}

Test(engine_dump, a_poisoned_buffer_may_go_under_it)
{
    enum { SPANS = 600 };
    static freeing self;
    test_engine_open(&self.te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&self.te);
    ferry_future *future = ferry_promise_future(promise);
    for (size_t i = 0; i < 2; i++) {
        self.buffers[i] = test_buffer(&self.te, i, 2 * SPANS, 0);
        for (size_t k = 0; k < SPANS; k++)
            ASSERT_STATUS(ferry_buffer_define(span_of(self.buffers[i], 2 * k, 1), future),
                          FERRY_OK);
    }
    keep_promise(promise, FERRY_E_FAILED);
    settle(&self.te);
    ASSERT_STATUS(ferry_engine_dump(self.te.engine, FERRY_DUMP_JSON, free_the_first, &self),
                  FERRY_OK);
    json_t *whole = dump_parse(&self.text);
    size_t shown = json_array_size(json_object_get(whole, "poisoned"));
    cr_assert(shown >= 256 && shown < 2 * SPANS, "%zu", shown);
    json_decref(whole);
    dump_free(&self.text);
    ferry_buffer_release(self.buffers[0]);
    ferry_buffer_release(self.buffers[1]);
    ferry_future_release(future);
    test_engine_close(&self.te);
}

/* A real clock, and one that says 1 as if somebody had looked a long time ago. */
static void open_with_stale_clock(test_engine *te, int64_t watchdog_ns)
{
    ferry_engine_options options = test_engine_options(te, FERRY_LOOP_EMBEDDED);
    options.clock = NULL;
    options.watchdog_ns = watchdog_ns;
    test_engine_create(te, &options);
    te->engine->stamp_ns = 1;
    te->engine->stamps_left = 2;
}

static int64_t entered_ns(const ferry_future *future)
{
    return fry_node_of(future)->entered_ns;
}

Test(engine_dump, while_many_come_few_look_at_the_clock)
{
    OWNED(test_engine_close) test_engine te;
    open_with_stale_clock(&te, 0);
    ferry_promise *promise = test_promise(&te);
    ferry_future *root = ferry_promise_future(promise);
    cr_assert_gt(entered_ns(root), 1, "the first of its list looks");
    te.engine->stamp_ns = 1;
    te.engine->stamps_left = 2;
    ferry_future *nops[5];
    for (int i = 0; i < 5; i++)
        nops[i] = nop_after(&te, root);
    cr_assert_gt(entered_ns(nops[0]), 1);
    te.engine->stamp_ns = 1;
    te.engine->stamps_left = 2;
    ferry_future *more[4];
    for (int i = 0; i < 4; i++)
        more[i] = nop_after(&te, root);
    cr_assert_eq(entered_ns(more[0]), 1);
    cr_assert_eq(entered_ns(more[1]), 1);
    cr_assert_gt(entered_ns(more[2]), 1, "the third looks");
    cr_assert_geq(entered_ns(more[3]), entered_ns(more[2]), "and finds that time has passed");
    settle(&te);
    te.engine->stamp_ns = 1;
    te.engine->stamps_left = 2;
    ASSERT_STATUS(ferry_engine_arm(te.engine), FERRY_OK);
    ferry_future *late = nop_after(&te, root);
    cr_assert_gt(entered_ns(late), 1, "the first after the loop has rested looks");
    keep_promise(promise, FERRY_OK);
    settle(&te);
    ferry_future_release(late);
    ferry_future_release(root);
    for (int i = 0; i < 5; i++)
        ferry_future_release(nops[i]);
    for (int i = 0; i < 4; i++)
        ferry_future_release(more[i]);
}

Test(engine_dump, with_a_watchdog_each_looks_at_the_clock)
{
    OWNED(test_engine_close) test_engine te;
    open_with_stale_clock(&te, INT64_C(3600000000000));
    te.engine->stamps_left = 0;
    ferry_promise *promise = test_promise(&te);
    ferry_future *root = ferry_promise_future(promise);
    for (int i = 0; i < 100; i++) {
        ferry_future_release(nop_after(&te, root));
        cr_assert_eq(te.engine->stamps_left, 0);
    }
    keep_promise(promise, FERRY_OK);
    settle(&te);
    ferry_future_release(root);
}

Test(engine_dump, the_watchdogs_timer_is_off_while_nothing_lives)
{
    OWNED(test_engine_close) test_engine te;
    ferry_engine_options options = test_engine_options(&te, FERRY_LOOP_EMBEDDED);
    options.clock = NULL;
    options.watchdog_ns = INT64_C(3600000000000);
    test_engine_create(&te, &options);
    ASSERT_STATUS(ferry_engine_arm(te.engine), FERRY_OK);
    cr_assert_eq(te.engine->poller.timer_ns, 0);
    ferry_promise *promise = test_promise(&te);
    settle(&te);
    ASSERT_STATUS(ferry_engine_arm(te.engine), FERRY_OK);
    cr_assert_eq(te.engine->poller.timer_ns, te.engine->promises->entered_ns + options.watchdog_ns);
    keep_promise(promise, FERRY_OK);
    settle(&te);
    ASSERT_STATUS(ferry_engine_arm(te.engine), FERRY_OK);
    cr_assert_eq(te.engine->poller.timer_ns, 0);
}
