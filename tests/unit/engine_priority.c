/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Priorities where READY operations wait: behind a full stream, whose copies a gate holds, and for
 * the loop to hand functions out. And how many may stand in a stream. Operations are submitted by
 * letters: H is one of high priority, L of low, any other of the usual one.
 */
#include "tests/unit/inner_play.h"

enum { SIZE = 8192 /* above the inline limit */, SLOTS = 64 };

static ferry_priority priority_of(char letter)
{
    return letter == 'H'   ? FERRY_PRIORITY_HIGH
           : letter == 'L' ? FERRY_PRIORITY_LOW
                           : FERRY_PRIORITY_NORMAL;
}

/* ---- streams ---- */

/* The copies that have begun, in that order: A for the first that was submitted, and so on. */
static char arrived[SLOTS + 1]; /* the gate's mutex */
static size_t arrived_count;
static const char *places; /* that they write, of SIZE bytes each */

/* Notes who comes, then lets the gate hold him. */
static void note_and_pass(void *arg, const fry_copy *copy, size_t copied_bytes)
{
    if (copied_bytes == 0) {
        (void)pthread_mutex_lock(&gate.mutex);
        arrived[arrived_count++] = (char)('A' + ((const char *)copy->dst - places) / SIZE);
        (void)pthread_mutex_unlock(&gate.mutex);
    }
    copy_gate_pass(arg, copy, copied_bytes);
}

static void begin_and_note(void)
{
    inner_begin();
    fry_test_host_gate.fn = note_and_pass;
}

TestSuite(engine_priority, .init = begin_and_note, .fini = scene_end, .timeout = HANG_S);

static void submit_copies(const char *letters)
{
    for (size_t i = 0; letters[i] != '\0'; i++) {
        ferry_op_options options = FERRY_OP_OPTIONS_INIT;
        options.priority = priority_of(letters[i]);
        ferry_future *copy = ferry_copy(engine(), span_of(the_buffer("dst"), i * SIZE, SIZE),
                                        the_span("src"), &options);
        char name[] = {(char)('A' + i), '\0'};
        cr_assert(scene_own_as(SCENE_FUTURE, copy, name));
    }
}

/* To a stream of such depth, of which the first to come is held. */
static void submit_to_a_stream(uint32_t depth, const char *letters)
{
    memset(arrived, 0, sizeof arrived);
    arrived_count = 0;
    scene_options(FERRY_LOOP_EMBEDDED)->stream_depth = depth;
    play("buffer src %d of 1; buffer dst %d on 1; hold dst", SIZE, SLOTS * SIZE);
    places = ferry_buffer_data(the_buffer("dst"));
    submit_copies(letters);
    for (size_t i = 0; letters[i] != '\0'; i++)
        play("issued %c; now it %s", (int)('A' + i), i < depth ? "OK" : "PENDING");
}

/* All that were submitted but those that were cancelled have come, in this order. */
static void assert_arrive(const char *letters, const char *order)
{
    play("go");
    for (size_t i = 0; letters[i] != '\0'; i++)
        cr_assert_neq(ferry_future_wait(the_future("%c", (int)('A' + i)), -1), FERRY_PENDING);
    play("settle");
    cr_assert_str_eq(arrived, order, "%s arrive as %s", letters, arrived);
    for (; *order != '\0'; order++)
        play("bytes dst[%d:%d] 1", (*order - 'A') * SIZE, (*order - 'A' + 1) * SIZE);
    scene_end();
}

static void assert_copied(uint32_t depth, const char *letters, const char *order)
{
    submit_to_a_stream(depth, letters);
    play("await held");
    assert_arrive(letters, order);
}

Test(engine_priority, the_higher_goes_first_onto_a_full_stream)
{
    assert_copied(1, "NLLNNHH", "AFGDEBC");
}

Test(engine_priority, the_lower_does_not_starve_behind_a_full_stream)
{
    assert_copied(1, "HLNHHHHHHHHHHHHHHHH", "ADEFGHIJBCKLMNOPQRS");
}

Test(engine_priority, one_that_fails_while_it_waits_is_passed_over)
{
    submit_to_a_stream(1, "NLHH");
    play("await held; cancel C; settle; now C CANCELLED");
    assert_arrive("NLHH", "ADB");
}

/* What stands in a stream is not overtaken. */
Test(engine_priority, no_more_stand_in_a_stream_than_the_option_says)
{
    static const uint32_t depths[] = {1, 2, 7, 40};
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
        char letters[SLOTS] = "", order[SLOTS] = "";
        size_t depth = depths[i];
        memset(letters, 'L', depth + 1);
        letters[depth + 1] = 'H';
        for (size_t at = 0; at < depth; at++)
            order[at] = (char)('A' + at);
        order[depth] = (char)('A' + depth + 1);
        order[depth + 1] = (char)('A' + depth);
        assert_copied(depths[i], letters, order);
    }
}

/* Overtaking is between READY ones: order over buffers stays as it was submitted. */
Test(engine_priority, a_high_one_does_not_overtake_what_it_depends_on)
{
    submit_to_a_stream(1, "NL");
    play("buffer out 8192 on 2; read = copy out <- dst[8192:16384] priority high;"
         "other = copy dst[16384:24576] <- src; await held; go; wait read OK; bytes out 1;"
         "wait other OK");
}

/* ---- functions ---- */

static char called[SLOTS + 1];
static size_t called_count;

static ferry_status note_call(void *arg)
{
    called[called_count++] = *(const char *)arg;
    return FERRY_OK;
}

/* It notes its letter, which stays. */
static ferry_future *submit_call(ferry_executor *executor, const char *letter,
                                 ferry_future *const *after)
{
    ferry_op_options options = behind(after, after != NULL);
    options.priority = priority_of(*letter);
    return own(ferry_call(engine(), executor, note_call, (void *)(uintptr_t)letter, &options));
}

/* They have run in this order. */
static void assert_called_as(const char *letters, const char *order)
{
    cr_assert_str_eq(called, order, "%s are called as %s", letters, called);
    scene_end();
    memset(called, 0, sizeof called);
    called_count = 0;
}

static void assert_called(const char *letters, const char *order)
{
    ferry_future *futures[SLOTS];
    size_t count = strlen(letters);
    for (size_t i = 0; i < count; i++)
        futures[i] = submit_call(NULL, &letters[i], NULL);
    play("settle");
    for (size_t i = 0; i < count; i++)
        EXPECT_NOW(futures[i], OK);
    assert_called_as(letters, order);
}

Test(engine_priority, the_higher_function_is_handed_out_first)
{
    assert_called("NNN", "NNN");
    assert_called("LNH", "HNL");
    assert_called("LLNNHHLNH", "HHHNNNLLL");
}

Test(engine_priority, the_lower_function_does_not_starve)
{
    assert_called("LHHHHHHHHHH", "HHHHHHHLHHH");
    assert_called("NLHHHHHHHHHH", "HHHHHHHLNHHH");
}

/* ---- what waits for one operation ---- */

/* Submits functions after one, cancels some of them, and has that one end. */
static void assert_started(const char *first, const char *end, const char *cancelled,
                           const char *order)
{
    static const char letters[] = "abcdef";
    ferry_future *futures[6], *after;
    play("%s", first);
    after = the_future("first");
    for (size_t i = 0; i < 6; i++)
        futures[i] = submit_call(NULL, &letters[i], &after);
    play("settle");
    for (; *cancelled != '\0'; cancelled++)
        ASSERT_STATUS(ferry_future_cancel(futures[*cancelled - 'a']), FERRY_OK);
    play("settle; %s; settle", end);
    assert_called_as(letters, order);
}

Test(engine_priority, what_waits_for_one_starts_in_the_order_of_its_submits)
{
    static const char *const firsts[][2] = {{"first = call by hand", "run"},
                                            {"promise first", "keep first"}};
    for (size_t i = 0; i < 2; i++) {
        assert_started(firsts[i][0], firsts[i][1], "", "abcdef");
        assert_started(firsts[i][0], firsts[i][1], "c", "abdef");
        assert_started(firsts[i][0], firsts[i][1], "fad", "bce");
    }
}

/* ---- functions that wait for a task ---- */

/* An executor that has all the tasks there are: calls wait for one, and go by priority then. */
static void assert_posted(const char *letters, const char *order)
{
    ferry_future *futures[SLOTS];
    size_t count = strlen(letters);
    scene_options(FERRY_LOOP_EMBEDDED)->max_tasks = 1;
    for (size_t i = 0; i < count; i++) {
        bool is_inline = letters[i] == 'i';
        futures[i] = submit_call(is_inline ? NULL : &by_hand()->executor, &letters[i], NULL);
        play("settle"); /* each finds those that came before waiting */
    }
    while (manual_waiting(by_hand()) != 0)
        play("posted 1; run");
    for (size_t i = 0; i < count; i++)
        EXPECT_NOW(futures[i], OK);
    assert_called_as(letters, order);
}

Test(engine_priority, the_higher_call_gets_the_next_task)
{
    assert_posted("NNNN", "NNNN");
    assert_posted("NLNH", "NHNL");
    assert_posted("LLLNNHHLNH", "LHHHNNNLLL");
}

Test(engine_priority, the_lower_call_has_its_turn_at_a_task)
{
    assert_posted("NLHHHHHHHHHH", "NHHHHHHHLHHH");
    assert_posted("NNLHHHHHHHHHH", "NHHHHHHHLNHHH");
}

Test(engine_priority, the_loops_functions_pass_calls_that_wait_for_a_task)
{
    assert_posted("NHiLi", "iiNHL");
}

/* What has waited longer does not get the task that is free when a higher one is there too. */
Test(engine_priority, a_high_call_takes_a_task_that_came_back_meanwhile)
{
    static const char letters[] = "NLH";
    ferry_future *futures[3];
    scene_options(FERRY_LOOP_EMBEDDED)->max_tasks = 1;
    for (size_t i = 0; i < 2; i++) {
        futures[i] = submit_call(&by_hand()->executor, &letters[i], NULL);
        play("settle");
    }
    manual_run_one(by_hand()); /* and no tick before the high one comes */
    futures[2] = submit_call(&by_hand()->executor, &letters[2], NULL);
    play("run 2");
    for (size_t i = 0; i < 3; i++)
        EXPECT_NOW(futures[i], OK);
    assert_called_as(letters, "NHL");
}
