/* SPDX-License-Identifier: Apache-2.0 */
/* Dumps of what only private means bring about: copies stopped midway, full streams, want of room.
 */
#include "engine/graph/buffer.h"
#include "engine/graph/hazard.h"
#include "engine/graph/node.h"
#include "engine/ground/refusal.h"
#include "tests/support/dump_test.h"
#include "tests/unit/inner_play.h"

INNER_SUITE(engine_dump);

enum { SMALL = 8192 /* above the inline limit */ };

static const json_t *node_of(const json_t *whole, const char *name)
{
    return dump_of(whole, the_future("%s", name));
}

static void lane_says(const json_t *whole, size_t device, const char *members)
{
    dump_says(json_array_get(json_object_get(whole, "lanes"), device), members);
}

static void check_stopped_copy(ferry_loop_mode loop)
{
    scene_begin(loop);
    play("buffer b0 8192; buffer b1 8192 of 1 on 1; buffer b2 8192 of 2 on 2; hold b1;"
         "first = copy b1 <- b0; second = copy b2 <- b1; await held");
    const json_t *whole = dump_now(engine());
    dump_says(node_of(whole, "first"), "state=issued waits_for=device device=host:1");
    dump_says(node_of(whole, "second"), "state=issued");
    cr_assert(dump_waits(node_of(whole, "second"), the_future("first"), "read/device"));
    lane_says(whole, 1, "in_flight=1 issued=1 fired=0");
    lane_says(whole, 0, "in_flight=0");

    play("cancel first; settle; wait first CANCELLED; wait second DEPENDENCY");
    whole = dump_now(engine());
    const json_t *node = node_of(whole, "first");
    dump_says(node, "state=resolved status=FERRY_E_CANCELLED not_quiet=hardware");
    cr_assert(dump_has_flag(node, "cancel_requested"));
    node = node_of(whole, "second");
    dump_says(node, "status=FERRY_E_DEPENDENCY not_quiet=hardware");
    cr_assert_not(dump_has_flag(node, "cancel_requested"));
    cr_assert_eq(dump_count(whole, "not_quiet"), 2);
    cr_assert_eq(dump_total(whole, "resolved"), 2);
    cr_assert_eq(dump_count(whole, "poisoned"), 0, "not before they leave");

    play("go; all = drain; wait all OK");
    whole = dump_now(engine());
    cr_assert_eq(dump_total(whole, "nodes"), 0);
    const json_t *poisoned = json_object_get(whole, "poisoned");
    cr_assert_eq(json_array_size(poisoned), 2);
    for (size_t i = 0; i < 2; i++)
        cr_assert_eq((uint64_t)dump_number(json_array_get(poisoned, i), "op"),
                     ferry_future_id(the_future("first")), "the root is to blame");
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
    play("buffer src 8192 of 1; buffer dst %d on 1; hold dst", COPIES * SMALL);
    for (int i = 0; i < COPIES; i++)
        play("c%d = copy dst[%d:%d] <- src", i, i * SMALL, (i + 1) * SMALL);
    const json_t *whole = dump_now(engine());
    char members[64];
    (void)snprintf(members, sizeof members, "in_flight=%d backlog=%d", FRY_STREAM_DEPTH, MORE);
    lane_says(whole, 1, members);
    cr_assert_eq(dump_total(whole, "issued"), FRY_STREAM_DEPTH);
    cr_assert_eq(dump_total(whole, "ready"), MORE);
    dump_says(dump_of(whole, the_future("c%d", COPIES - 1)), "state=ready waits_for=stream");
    play("go");
    for (int i = 0; i < COPIES; i++)
        play("wait c%d OK", i);
}

Test(engine_dump, what_has_no_room_to_enter_is_counted)
{
    play("buffer a 8192 of 1; buffer b 8192 on 1; nop");
    failing_allocator_arm(&scene()->memory, 1, true);
    play("first = copy b <- a; second = copy a <- b");
    failing_allocator_arm(&scene()->memory, 0, false);
    const json_t *whole = dump_now(engine());
    dump_says(json_object_get(whole, "graph"), "entering=2 starved=true");
    cr_assert_eq(dump_total(whole, "nodes"), 0);
    play("wait second OK");
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
    static int64_t now_ns = 1;
    static const ferry_clock clock = {.now_ns = hasty_now_ns, .arg = &now_ns};
    scene_options(FERRY_LOOP_EMBEDDED)->clock = &clock;
    play("promise p; baton taken; late = nop after p; baton given");
    const json_t *whole = dump_now(engine());
    dump_says(node_of(whole, "late"), "state=waiting");
    dump_says(json_object_get(whole, "graph"), "entering=0");
    play("keep p; settle; now late OK");
}

Test(engine_dump, what_is_about_to_fail_says_so)
{
    enum { NODES = 200 };
    /* So little is done by who resolves the promise, and by the dump. */
    scene_options(FERRY_LOOP_EMBEDDED)->submit_budget = 1;
    play("promise p");
    for (int i = 0; i < NODES; i++)
        play("n%d = nop after p", i);
    play("keep p FAILED");
    cr_assert(dump_has_flag(node_of(dump_now(engine()), "n199"), "failing"));
    play("settle");
    for (int i = 0; i < NODES; i++)
        play("now n%d DEPENDENCY", i);
}

Test(engine_dump, what_is_late_waits_for_the_loop)
{
    play("n = nop deadline 0 label late; step 7");
    dump_says(node_of(dump_now(engine()), "n"),
              "state=ready waits_for=loop deadline_in_ns=-7 age_ns=7");
    play("settle; now n DEADLINE");
}

Test(engine_dump, a_buffer_poisoned_as_a_whole_says_so)
{
    play("buffer b 100 on 2; baton taken"); /* as when no node stood for a refused write */
    fry_hazard_poison_buffer(the_buffer("b"), fry_refusal_error(FRY_REFUSED_MAX_NODES));
    play("baton given; define b[0:10]; settle");
    const json_t *whole = dump_now(engine());
    cr_assert_eq(dump_count(whole, "poisoned"), 1);
    const json_t *poison = json_array_get(json_object_get(whole, "poisoned"), 0);
    dump_says(poison, "wide=true status=FERRY_E_AGAIN device=host:2 begin=0 end=100");
    cr_assert_null(json_object_get(poison, "op"));
    play("define b; settle");
    cr_assert_eq(dump_count(dump_now(engine()), "poisoned"), 0);
}

/* The poisoned buffer that the dump is at goes while it writes what it has copied of it. */
static void free_the_first(void *arg, const char *bytes, size_t size_bytes)
{
    static const char *const names[] = {"b0", "b1"};
    dump_take(arg, bytes, size_bytes);
    const ferry_buffer *at = engine()->dump_buffer;
    for (size_t i = 0; at != NULL && i < 2; i++) {
        if (scene_find(SCENE_BUFFER, names[i]) != at)
            continue;
        cr_assert(scene_release(names[i]));
        scene_settle();
        cr_assert_neq(engine()->dump_buffer, at);
        return;
    }
}

Test(engine_dump, a_poisoned_buffer_may_go_under_it)
{
    enum { SPANS = 600 };
    dump_text text = {0};
    play("promise p; buffer b0 %d; buffer b1 %d on 1", 2 * SPANS, 2 * SPANS);
    for (int i = 0; i < SPANS; i++)
        play("define b0[%d:%d] by p; define b1[%d:%d] by p", 2 * i, 2 * i + 1, 2 * i, 2 * i + 1);
    play("keep p FAILED; settle");
    ASSERT_STATUS(ferry_engine_dump(engine(), FERRY_DUMP_JSON, free_the_first, &text), FERRY_OK);
    json_t *whole = dump_parse(&text);
    size_t shown = dump_count(whole, "poisoned");
    cr_assert(shown >= 256 && shown < 2 * SPANS, "%zu", shown);
    json_decref(whole);
    dump_free(&text);
}

/* ---- the clock ---- */

/* As if somebody had looked a long time ago. */
static void make_stale(uint8_t stamps_left)
{
    engine()->stamp_ns = 1;
    engine()->stamps_left = stamps_left;
}

/* A real clock. */
static void begin_with_clock(int64_t watchdog_ns)
{
    ferry_engine_options *options = scene_options(FERRY_LOOP_EMBEDDED);
    options->clock = NULL;
    options->watchdog_ns = watchdog_ns;
}

static int64_t entered_ns(const char *name)
{
    return fry_node_of(the_future("%s", name))->entered_ns;
}

Test(engine_dump, while_many_come_few_look_at_the_clock)
{
    begin_with_clock(0);
    make_stale(2);
    play("promise p");
    cr_assert_gt(entered_ns("p"), 1, "the first of its list looks");
    make_stale(2);
    play(
        "n0 = nop after p; n1 = nop after p; n2 = nop after p; n3 = nop after p; n4 = nop after p");
    cr_assert_gt(entered_ns("n0"), 1);
    make_stale(2);
    play("m0 = nop after p; m1 = nop after p; m2 = nop after p; m3 = nop after p");
    cr_assert_eq(entered_ns("m0"), 1);
    cr_assert_eq(entered_ns("m1"), 1);
    cr_assert_gt(entered_ns("m2"), 1, "the third looks");
    cr_assert_geq(entered_ns("m3"), entered_ns("m2"), "and finds that time has passed");
    play("settle");
    make_stale(2);
    ASSERT_STATUS(ferry_engine_arm(engine()), FERRY_OK);
    play("late = nop after p");
    cr_assert_gt(entered_ns("late"), 1, "the first after the loop has rested looks");
    play("keep p; settle");
}

Test(engine_dump, with_a_watchdog_each_looks_at_the_clock)
{
    begin_with_clock(INT64_C(3600000000000));
    make_stale(0);
    play("promise p");
    for (int i = 0; i < 100; i++) {
        play("nop after p; release it");
        cr_assert_eq(engine()->stamps_left, 0);
    }
    play("keep p; settle");
}

static void assert_timer(int64_t expected_ns)
{
    ASSERT_STATUS(ferry_engine_arm(engine()), FERRY_OK);
    cr_assert_eq(engine()->poller.timer_ns, expected_ns);
}

Test(engine_dump, the_watchdogs_timer_is_off_while_nothing_lives)
{
    begin_with_clock(INT64_C(3600000000000));
    assert_timer(0);
    play("promise p; settle");
    assert_timer(entered_ns("p") + INT64_C(3600000000000));
    play("keep p; settle");
    assert_timer(0);
}
