/* SPDX-License-Identifier: Apache-2.0 */
/* The watchdog: when it tells of operations that have lived too long, and what. */
#include "tests/support/dump_test.h"
#include "tests/support/play.h"
#include "tests/support/suite.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#define BOUND_NS INT64_C(5000000000)
enum { LINE_BYTES = 512 };

/* The folder of the case, if it has one, and the file there. */
static char folder[64], path[96];

static void end(void)
{
    scene_end();
    if (folder[0] == '\0' || suite_has_failed())
        return;
    (void)unlink(path);
    cr_assert_eq(rmdir(folder), 0, "nothing else was left there");
}

TestSuite(watchdog, .fini = end, .timeout = HANG_S);

static ferry_engine_options *begin(ferry_loop_mode loop)
{
    ferry_engine_options *options = scene_options(loop);
    options->watchdog_ns = BOUND_NS;
    return options;
}

/* With a file in a folder of its own. */
static void begin_with_file(void)
{
    (void)snprintf(folder, sizeof folder, "/tmp/ferry-watchdog-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/dump.json", folder);
    char given[sizeof path];
    memcpy(given, path, sizeof given);
    begin(FERRY_LOOP_EMBEDDED)->watchdog_path = given;
    (void)engine();
    memset(given, '?', sizeof given - 1); /* it was copied */
}

static int count_files(void)
{
    DIR *opened = opendir(folder);
    cr_assert_not_null(opened);
    int count = 0;
    while (readdir(opened) != NULL)
        count++;
    (void)closedir(opened);
    return count - 2;
}

static json_t *load_file(void)
{
    json_error_t error;
    json_t *whole = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    cr_assert_not_null(whole, "%s", error.text);
    return whole;
}

static void step(int64_t ns)
{
    stepped_clock_step(&scene()->time, ns);
    scene_settle();
}

/* ---- the log ---- */

Test(watchdog, it_tells_of_the_oldest_once_in_its_time)
{
    (void)begin(FERRY_LOOP_EMBEDDED);
    play("promise p");
    ferry_future *root = own(ferry_promise_future(the_promise("p")));
    step(1000000000);
    play("slow = nop after p label slow; slower = nop after slow");
    ferry_future *slow = the_future("slow"), *slower = the_future("slower");
    cr_assert_eq(ferry_engine_timeout_ns(engine()), BOUND_NS - 1000000000);
    step(BOUND_NS - 1000000001);
    cr_assert_eq(scene_warnings(), 0);
    cr_assert_eq(ferry_engine_timeout_ns(engine()), 1);
    ASSERT_STATUS(ferry_engine_arm(engine()), FERRY_OK);

    stepped_clock_step(&scene()->time, 1);
    cr_assert_eq(ferry_engine_timeout_ns(engine()), 0);
    ASSERT_STATUS(ferry_engine_arm(engine()), FERRY_E_BUSY);
    step(0);
    cr_assert_eq(scene_warnings(), 1, "the others have not lived so long");
    char expected[LINE_BYTES];
    (void)snprintf(expected, sizeof expected,
                   "watchdog: op %llu promise has lived 5.0 s, waiting, waits for the outside",
                   (unsigned long long)ferry_future_id(root));
    cr_assert_str_eq(scene_warning(0), expected);
    ASSERT_STATUS(ferry_engine_arm(engine()), FERRY_OK);
    cr_assert_eq(ferry_engine_timeout_ns(engine()), BOUND_NS);

    step(BOUND_NS - 1);
    cr_assert_eq(scene_warnings(), 1, "not again so soon");
    step(100000001);
    cr_assert_eq(scene_warnings(), 4);
    (void)snprintf(expected, sizeof expected,
                   "watchdog: op %llu nop \"slow\" has lived 9.1 s, waiting, waits for op %llu "
                   "(after)",
                   (unsigned long long)ferry_future_id(slow),
                   (unsigned long long)ferry_future_id(root));
    cr_assert_str_eq(scene_warning(2), expected);
    (void)snprintf(expected, sizeof expected,
                   "watchdog: op %llu nop has lived 9.1 s, waiting, waits for op %llu (after)",
                   (unsigned long long)ferry_future_id(slower),
                   (unsigned long long)ferry_future_id(slow));
    cr_assert_str_eq(scene_warning(3), expected);

    play("keep p");
    step(10 * BOUND_NS);
    cr_assert_eq(scene_warnings(), 4, "nothing lives");
    play("timer -1");
}

Test(watchdog, it_is_off_by_default)
{
    begin(FERRY_LOOP_EMBEDDED)->watchdog_ns = 0;
    play("promise p");
    cr_assert_eq(ferry_engine_timeout_ns(engine()), -1);
    step(INT64_C(1) << 60);
    cr_assert_eq(scene_warnings(), 0);
}

Test(watchdog, short_lives_do_not_interest_it)
{
    (void)begin(FERRY_LOOP_EMBEDDED);
    for (int i = 0; i < 20; i++) {
        play("promise p; n = nop after p");
        step(BOUND_NS - 1);
        play("keep p; expect n OK; release p n");
    }
    cr_assert_eq(scene_warnings(), 0);
}

Test(watchdog, a_bound_that_never_ends_is_none)
{
    begin(FERRY_LOOP_EMBEDDED)->watchdog_ns = INT64_MAX;
    play("promise p");
    step(INT64_C(1) << 60);
    cr_assert_eq(scene_warnings(), 0);
}

Test(watchdog, at_most_sixteen_lines_of_the_oldest)
{
    (void)begin(FERRY_LOOP_EMBEDDED);
    enum { PAIRS = 20 };
    ferry_future *roots[PAIRS], *nops[PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        play("promise p%d", i);
        roots[i] = own(ferry_promise_future(the_promise("p%d", i)));
        stepped_clock_step(&scene()->time, 1);
        nops[i] = own(nop_after(scene(), roots[i]));
        stepped_clock_step(&scene()->time, 1);
    }
    (void)own(ferry_future_all(engine(), nops, PAIRS));
    step(2 * BOUND_NS);
    cr_assert_eq(scene_warnings(), 16);
    for (int i = 0; i < 16; i++) {
        char start[64];
        uint64_t op = ferry_future_id(i % 2 == 0 ? roots[i / 2] : nops[i / 2]);
        (void)snprintf(start, sizeof start, "watchdog: op %llu ", (unsigned long long)op);
        cr_assert_eq(strncmp(scene_warning(i), start, strlen(start)), 0, "%s", scene_warning(i));
    }
}

Test(watchdog, a_line_names_four_and_counts_the_rest)
{
    (void)begin(FERRY_LOOP_EMBEDDED);
    enum { PARTS = 3000 };
    static ferry_future *parts[PARTS];
    play("promise p");
    ferry_future *root = own(ferry_promise_future(the_promise("p")));
    for (int i = 0; i < PARTS; i++)
        parts[i] = root;
    (void)own(ferry_future_all(engine(), parts, 6));
    (void)own(ferry_future_all(engine(), parts, PARTS));
    step(BOUND_NS);
    cr_assert_eq(scene_warnings(), 3);
    cr_assert_not_null(strstr(scene_warning(1), " (after) and 2 more"), "%s", scene_warning(1));
    cr_assert_not_null(strstr(scene_warning(2), " more"), "%s", scene_warning(2));
}

/* ---- the file ---- */

Test(watchdog, it_writes_a_whole_file)
{
    begin_with_file();
    play("promise p; n = nop after p");
    step(BOUND_NS - 1);
    cr_assert_eq(count_files(), 0);
    step(1);
    cr_assert_eq(count_files(), 1, "the temporary one has its name now");
    json_t *whole = load_file();
    cr_assert_eq(dump_number(dump_of(whole, the_future("n")), "age_ns"), BOUND_NS);
    cr_assert(json_is_false(json_object_get(json_object_get(whole, "totals"), "cut")));
    json_decref(whole);
    cr_assert_eq(scene_warnings(), 1);
    cr_assert_not_null(strstr(scene_warning(0), path), "%s", scene_warning(0));
    step(BOUND_NS);
    whole = load_file();
    cr_assert_eq(dump_number(dump_of(whole, the_future("n")), "age_ns"), 2 * BOUND_NS, "a new one");
    json_decref(whole);
}

Test(watchdog, its_file_shows_the_oldest_alone)
{
    begin_with_file();
    enum { NODES = 5000 };
    static ferry_future *nops[NODES];
    play("promise p");
    for (int i = 0; i < NODES; i++)
        nops[i] = own(nop_after_promise(scene(), the_promise("p")));
    step(BOUND_NS);
    json_t *whole = load_file();
    cr_assert_eq(dump_total(whole, "promises"), 1);
    size_t shown = (size_t)dump_total(whole, "nodes");
    cr_assert(shown > 1000 && shown < 4096, "%zu", shown);
    (void)dump_of(whole, nops[shown - 1]);
    cr_assert(json_is_true(json_object_get(json_object_get(whole, "totals"), "cut")));
    json_decref(whole);
}

Test(watchdog, a_path_that_cannot_be_written_is_logged)
{
    begin(FERRY_LOOP_EMBEDDED)->watchdog_path = "/nowhere/at/all/dump.json";
    play("promise p");
    step(BOUND_NS);
    cr_assert_eq(scene_warnings(), 1);
    cr_assert_not_null(
        strstr(scene_warning(0), "cannot write /nowhere/at/all/dump.json: No such file"), "%s",
        scene_warning(0));
}

Test(watchdog, a_path_that_cannot_be_replaced_leaves_nothing_beside)
{
    begin_with_file();
    cr_assert_eq(mkdir(path, 0700), 0);
    play("promise p");
    step(BOUND_NS);
    cr_assert_eq(scene_warnings(), 1);
    cr_assert_not_null(strstr(scene_warning(0), "cannot write"), "%s", scene_warning(0));
    cr_assert_eq(rmdir(path), 0);
    cr_assert_eq(count_files(), 0);
    step(BOUND_NS);
    json_decref(load_file());
}

/* ---- what comes in its way ---- */

Test(watchdog, without_memory_it_says_so)
{
    begin_with_file();
    play("promise p");
    for (uint64_t nth = 1; nth <= 2; nth++) {
        stepped_clock_step(&scene()->time, BOUND_NS);
        failing_allocator_arm(&scene()->memory, nth, false);
        scene_settle();
        failing_allocator_arm(&scene()->memory, 0, false);
        cr_assert_eq(scene_warnings(), (int)nth);
        cr_assert_eq(count_files(), 0);
    }
    step(BOUND_NS);
    cr_assert_eq(count_files(), 1);
}

Test(watchdog, an_engine_that_finds_no_memory_leaves_none_behind)
{
    test_engine te;
    ferry_engine_options options = test_engine_options(&te, FERRY_LOOP_EMBEDDED);
    options.watchdog_ns = BOUND_NS;
    options.watchdog_path = "/nowhere";
    for (uint64_t nth = 1;; nth++) {
        failing_allocator_arm(&te.memory, nth, false);
        ferry_status status = ferry_engine_create(&options, &te.engine, NULL);
        if (status == FERRY_OK)
            break;
        ASSERT_STATUS(status, FERRY_E_NO_MEMORY);
        cr_assert_eq(failing_allocator_live_bytes(&te.memory), 0, "allocation %llu",
                     (unsigned long long)nth);
    }
    failing_allocator_arm(&te.memory, 0, false);
    test_engine_close(&te);
}

static void step_within(void *arg, const char *text, size_t size_bytes)
{
    (void)arg, (void)text, (void)size_bytes;
    step(scene_warnings() == 0 ? BOUND_NS : 0);
}

Test(watchdog, while_the_user_dumps_it_waits_a_little)
{
    (void)begin(FERRY_LOOP_EMBEDDED);
    play("promise p");
    ASSERT_STATUS(ferry_engine_dump(engine(), FERRY_DUMP_JSON, step_within, NULL), FERRY_OK);
    cr_assert_eq(scene_warnings(), 0);
    ASSERT_STATUS(ferry_engine_arm(engine()), FERRY_OK);
    step(BOUND_NS / 4);
    cr_assert_eq(scene_warnings(), 1);
}

/* ---- by real time ---- */

Test(watchdog, the_first_that_lives_wakes_the_loop_and_no_other)
{
    ferry_engine_options *options = begin(FERRY_LOOP_EMBEDDED);
    options->clock = NULL;
    options->watchdog_ns = INT64_C(3600000000000);
    scene_settle();
    ASSERT_STATUS(ferry_engine_arm(engine()), FERRY_OK);
    cr_assert_not(scene_is_readable());
    play("promise p");
    cr_assert(scene_is_readable(), "the loop must set its timer");
    scene_settle();
    cr_assert_geq(ferry_engine_timeout_ns(engine()), options->watchdog_ns / 2);
    ASSERT_STATUS(ferry_engine_arm(engine()), FERRY_OK);
    play("n = nop after p");
    cr_assert_not(scene_is_readable(), "it is set already");
}

Test(watchdog, an_engine_with_its_own_thread_wakes_for_it)
{
    begin(FERRY_LOOP_THREAD)->watchdog_ns = 1000000;
    play("promise p");
    while (scene_warnings() < 3) /* the first, and again */
        sched_yield();
    cr_assert_not_null(strstr(scene_warning(0), "promise has lived"), "%s", scene_warning(0));
}
