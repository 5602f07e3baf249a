/* SPDX-License-Identifier: Apache-2.0 */
/* The watchdog: when it tells of operations that have lived too long, and what. */
#include "tests/support/api_test.h"
#include "tests/support/dump_test.h"

#include <dirent.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(watchdog, .timeout = HANG_S);

#define BOUND_NS INT64_C(5000000000)
enum { LINES_MAX = 64, LINE_BYTES = 512 };

typedef struct fixture {
    test_engine te;
    pthread_mutex_t mutex;
    char lines[LINES_MAX][LINE_BYTES];
    int line_count;
    char folder[64], path[96];
} fixture;

static void keep_line(void *arg, ferry_log_level level, const char *line)
{
    fixture *f = arg;
    if (level > FERRY_LOG_WARNING)
        return;
    (void)pthread_mutex_lock(&f->mutex);
    if (f->line_count < LINES_MAX)
        (void)snprintf(f->lines[f->line_count++], LINE_BYTES, "%s", line);
    (void)pthread_mutex_unlock(&f->mutex);
}

static int line_count(fixture *f)
{
    (void)pthread_mutex_lock(&f->mutex);
    int count = f->line_count;
    (void)pthread_mutex_unlock(&f->mutex);
    return count;
}

static ferry_engine_options fixture_options(fixture *f, ferry_loop_mode loop)
{
    memset(f, 0, sizeof *f);
    (void)pthread_mutex_init(&f->mutex, NULL);
    ferry_engine_options options = test_engine_options(&f->te, loop);
    options.watchdog_ns = BOUND_NS;
    options.log = keep_line;
    options.log_arg = f;
    return options;
}

static void fixture_open(fixture *f)
{
    ferry_engine_options options = fixture_options(f, FERRY_LOOP_EMBEDDED);
    test_engine_create(&f->te, &options);
}

/* With a file in a folder of its own. */
static void fixture_open_file(fixture *f)
{
    ferry_engine_options options = fixture_options(f, FERRY_LOOP_EMBEDDED);
    (void)snprintf(f->folder, sizeof f->folder, "/tmp/ferry-watchdog-XXXXXX");
    cr_assert_not_null(mkdtemp(f->folder));
    char path[96];
    (void)snprintf(path, sizeof path, "%s/dump.json", f->folder);
    options.watchdog_path = path;
    test_engine_create(&f->te, &options);
    (void)snprintf(f->path, sizeof f->path, "%s", path);
    memset(path, '?', sizeof path - 1); /* it was copied */
}

static int count_files(const fixture *f)
{
    DIR *folder = opendir(f->folder);
    cr_assert_not_null(folder);
    int count = 0;
    while (readdir(folder) != NULL)
        count++;
    (void)closedir(folder);
    return count - 2;
}

static json_t *load_file(const fixture *f)
{
    json_error_t error;
    json_t *whole = json_load_file(f->path, JSON_REJECT_DUPLICATES, &error);
    cr_assert_not_null(whole, "%s", error.text);
    return whole;
}

static void fixture_close(fixture *f)
{
    test_engine_close(&f->te);
    if (f->folder[0] != '\0') {
        (void)unlink(f->path);
        cr_assert_eq(rmdir(f->folder), 0, "nothing else was left there");
    }
}

static void step(fixture *f, int64_t ns)
{
    stepped_clock_step(&f->te.time, ns);
    settle(&f->te);
}

static ferry_future *labelled(const fixture *f, ferry_future *after, const char *label)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &after;
    options.after_count = 1;
    options.label = label;
    return ferry_nop(f->te.engine, &options);
}

/* ---- the log ---- */

Test(watchdog, it_tells_of_the_oldest_once_in_its_time)
{
    static fixture f;
    fixture_open(&f);
    ferry_promise *promise = test_promise(&f.te);
    ferry_future *root = ferry_promise_future(promise);
    step(&f, 1000000000);
    ferry_future *slow = labelled(&f, root, "slow");
    ferry_future *slower = labelled(&f, slow, NULL);
    cr_assert_eq(ferry_engine_timeout_ns(f.te.engine), BOUND_NS - 1000000000);
    step(&f, BOUND_NS - 1000000001);
    cr_assert_eq(f.line_count, 0);
    cr_assert_eq(ferry_engine_timeout_ns(f.te.engine), 1);
    ASSERT_STATUS(ferry_engine_arm(f.te.engine), FERRY_OK);

    stepped_clock_step(&f.te.time, 1);
    cr_assert_eq(ferry_engine_timeout_ns(f.te.engine), 0);
    ASSERT_STATUS(ferry_engine_arm(f.te.engine), FERRY_E_BUSY);
    step(&f, 0);
    cr_assert_eq(f.line_count, 1, "the others have not lived so long");
    char expected[LINE_BYTES];
    (void)snprintf(expected, sizeof expected,
                   "watchdog: op %llu promise has lived 5.0 s, waiting, waits for the outside",
                   (unsigned long long)ferry_future_id(root));
    cr_assert_str_eq(f.lines[0], expected);
    ASSERT_STATUS(ferry_engine_arm(f.te.engine), FERRY_OK);
    cr_assert_eq(ferry_engine_timeout_ns(f.te.engine), BOUND_NS);

    step(&f, BOUND_NS - 1);
    cr_assert_eq(f.line_count, 1, "not again so soon");
    step(&f, 100000001);
    cr_assert_eq(f.line_count, 4);
    (void)snprintf(expected, sizeof expected,
                   "watchdog: op %llu nop \"slow\" has lived 9.1 s, waiting, waits for op %llu "
                   "(after)",
                   (unsigned long long)ferry_future_id(slow),
                   (unsigned long long)ferry_future_id(root));
    cr_assert_str_eq(f.lines[2], expected);
    (void)snprintf(expected, sizeof expected,
                   "watchdog: op %llu nop has lived 9.1 s, waiting, waits for op %llu (after)",
                   (unsigned long long)ferry_future_id(slower),
                   (unsigned long long)ferry_future_id(slow));
    cr_assert_str_eq(f.lines[3], expected);

    keep_promise(promise, FERRY_OK);
    step(&f, 10 * BOUND_NS);
    cr_assert_eq(f.line_count, 4, "nothing lives");
    cr_assert_eq(ferry_engine_timeout_ns(f.te.engine), -1);
    ferry_future_release(root);
    ferry_future_release(slow);
    ferry_future_release(slower);
    fixture_close(&f);
}

Test(watchdog, it_is_off_by_default)
{
    static fixture f;
    ferry_engine_options options = fixture_options(&f, FERRY_LOOP_EMBEDDED);
    options.watchdog_ns = 0;
    test_engine_create(&f.te, &options);
    ferry_promise *promise = test_promise(&f.te);
    cr_assert_eq(ferry_engine_timeout_ns(f.te.engine), -1);
    step(&f, INT64_C(1) << 60);
    cr_assert_eq(f.line_count, 0);
    keep_promise(promise, FERRY_OK);
    settle(&f.te);
    fixture_close(&f);
}

Test(watchdog, short_lives_do_not_interest_it)
{
    static fixture f;
    fixture_open(&f);
    for (int i = 0; i < 20; i++) {
        ferry_promise *promise = test_promise(&f.te);
        ferry_future *nop = nop_after_promise(&f.te, promise);
        step(&f, BOUND_NS - 1);
        keep_promise(promise, FERRY_OK);
        settle(&f.te);
        ASSERT_STATUS(status_of(nop), FERRY_OK);
    }
    cr_assert_eq(f.line_count, 0);
    fixture_close(&f);
}

Test(watchdog, a_bound_that_never_ends_is_none)
{
    static fixture f;
    ferry_engine_options options = fixture_options(&f, FERRY_LOOP_EMBEDDED);
    options.watchdog_ns = INT64_MAX;
    test_engine_create(&f.te, &options);
    ferry_promise *promise = test_promise(&f.te);
    step(&f, INT64_C(1) << 60);
    cr_assert_eq(f.line_count, 0);
    keep_promise(promise, FERRY_OK);
    settle(&f.te);
    fixture_close(&f);
}

Test(watchdog, at_most_sixteen_lines_of_the_oldest)
{
    static fixture f;
    fixture_open(&f);
    enum { PAIRS = 20 };
    ferry_promise *promises[PAIRS];
    ferry_future *roots[PAIRS], *nops[PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        promises[i] = test_promise(&f.te);
        roots[i] = ferry_promise_future(promises[i]);
        stepped_clock_step(&f.te.time, 1);
        nops[i] = nop_after(&f.te, roots[i]);
        stepped_clock_step(&f.te.time, 1);
    }
    ferry_future *all = ferry_future_all(f.te.engine, nops, PAIRS);
    step(&f, 2 * BOUND_NS);
    cr_assert_eq(f.line_count, 16);
    for (int i = 0; i < 16; i++) {
        char start[64];
        uint64_t op = ferry_future_id(i % 2 == 0 ? roots[i / 2] : nops[i / 2]);
        (void)snprintf(start, sizeof start, "watchdog: op %llu ", (unsigned long long)op);
        cr_assert_eq(strncmp(f.lines[i], start, strlen(start)), 0, "%s", f.lines[i]);
    }
    for (int i = 0; i < PAIRS; i++)
        keep_promise(promises[i], FERRY_OK);
    settle(&f.te);
    for (int i = 0; i < PAIRS; i++) {
        ferry_future_release(roots[i]);
        ferry_future_release(nops[i]);
    }
    ferry_future_release(all);
    fixture_close(&f);
}

Test(watchdog, a_line_names_four_and_counts_the_rest)
{
    static fixture f;
    fixture_open(&f);
    enum { PARTS = 3000 };
    static ferry_future *parts[PARTS];
    ferry_promise *promise = test_promise(&f.te);
    ferry_future *root = ferry_promise_future(promise);
    for (int i = 0; i < PARTS; i++)
        parts[i] = root;
    ferry_future *few = ferry_future_all(f.te.engine, parts, 6);
    ferry_future *many = ferry_future_all(f.te.engine, parts, PARTS);
    step(&f, BOUND_NS);
    cr_assert_eq(f.line_count, 3);
    cr_assert_not_null(strstr(f.lines[1], " (after) and 2 more"), "%s", f.lines[1]);
    cr_assert_not_null(strstr(f.lines[2], " more"), "%s", f.lines[2]);
    keep_promise(promise, FERRY_OK);
    settle(&f.te);
    ferry_future_release(root);
    ferry_future_release(few);
    ferry_future_release(many);
    fixture_close(&f);
}

/* ---- the file ---- */

Test(watchdog, it_writes_a_whole_file)
{
    static fixture f;
    fixture_open_file(&f);
    ferry_promise *promise = test_promise(&f.te);
    ferry_future *nop = nop_after_promise(&f.te, promise);
    step(&f, BOUND_NS - 1);
    cr_assert_eq(count_files(&f), 0);
    step(&f, 1);
    cr_assert_eq(count_files(&f), 1, "the temporary one has its name now");
    json_t *whole = load_file(&f);
    cr_assert_eq(dump_number(dump_of(whole, nop), "age_ns"), BOUND_NS);
    cr_assert(json_is_false(json_object_get(json_object_get(whole, "totals"), "cut")));
    json_decref(whole);
    cr_assert_eq(f.line_count, 1);
    cr_assert_not_null(strstr(f.lines[0], f.path), "%s", f.lines[0]);
    step(&f, BOUND_NS);
    whole = load_file(&f);
    cr_assert_eq(dump_number(dump_of(whole, nop), "age_ns"), 2 * BOUND_NS, "a new one");
    json_decref(whole);
    keep_promise(promise, FERRY_OK);
    settle(&f.te);
    ferry_future_release(nop);
    fixture_close(&f);
}

Test(watchdog, its_file_shows_the_oldest_alone)
{
    static fixture f;
    fixture_open_file(&f);
    enum { NODES = 5000 };
    static ferry_future *nops[NODES];
    ferry_promise *promise = test_promise(&f.te);
    for (int i = 0; i < NODES; i++)
        nops[i] = nop_after_promise(&f.te, promise);
    step(&f, BOUND_NS);
    json_t *whole = load_file(&f);
    cr_assert_eq(dump_total(whole, "promises"), 1);
    size_t shown = (size_t)dump_total(whole, "nodes");
    cr_assert(shown > 1000 && shown < 4096, "%zu", shown);
    (void)dump_of(whole, nops[shown - 1]);
    cr_assert(json_is_true(json_object_get(json_object_get(whole, "totals"), "cut")));
    json_decref(whole);
    keep_promise(promise, FERRY_OK);
    settle(&f.te);
    for (int i = 0; i < NODES; i++)
        ferry_future_release(nops[i]);
    fixture_close(&f);
}

Test(watchdog, a_path_that_cannot_be_written_is_logged)
{
    static fixture f;
    ferry_engine_options options = fixture_options(&f, FERRY_LOOP_EMBEDDED);
    options.watchdog_path = "/nowhere/at/all/dump.json";
    test_engine_create(&f.te, &options);
    ferry_promise *promise = test_promise(&f.te);
    step(&f, BOUND_NS);
    cr_assert_eq(f.line_count, 1);
    cr_assert_not_null(strstr(f.lines[0], "cannot write /nowhere/at/all/dump.json: No such file"),
                       "%s", f.lines[0]);
    keep_promise(promise, FERRY_OK);
    settle(&f.te);
    fixture_close(&f);
}

Test(watchdog, a_path_that_cannot_be_replaced_leaves_nothing_beside)
{
    static fixture f;
    fixture_open_file(&f);
    cr_assert_eq(mkdir(f.path, 0700), 0);
    ferry_promise *promise = test_promise(&f.te);
    step(&f, BOUND_NS);
    cr_assert_eq(f.line_count, 1);
    cr_assert_not_null(strstr(f.lines[0], "cannot write"), "%s", f.lines[0]);
    cr_assert_eq(rmdir(f.path), 0);
    cr_assert_eq(count_files(&f), 0);
    step(&f, BOUND_NS);
    json_decref(load_file(&f));
    keep_promise(promise, FERRY_OK);
    settle(&f.te);
    fixture_close(&f);
}

/* ---- what comes in its way ---- */

Test(watchdog, without_memory_it_says_so)
{
    static fixture f;
    fixture_open_file(&f);
    ferry_promise *promise = test_promise(&f.te);
    for (uint64_t nth = 1; nth <= 2; nth++) {
        stepped_clock_step(&f.te.time, BOUND_NS);
        failing_allocator_arm(&f.te.memory, nth, false);
        settle(&f.te);
        failing_allocator_arm(&f.te.memory, 0, false);
        cr_assert_eq(f.line_count, (int)nth);
        cr_assert_eq(count_files(&f), 0);
    }
    step(&f, BOUND_NS);
    cr_assert_eq(count_files(&f), 1);
    keep_promise(promise, FERRY_OK);
    settle(&f.te);
    fixture_close(&f);
}

static void step_within(void *arg, const char *text, size_t size_bytes)
{
    (void)text, (void)size_bytes;
    fixture *f = arg;
    step(f, f->line_count == 0 ? BOUND_NS : 0);
}

Test(watchdog, while_the_user_dumps_it_waits_a_little)
{
    static fixture f;
    fixture_open(&f);
    ferry_promise *promise = test_promise(&f.te);
    ASSERT_STATUS(ferry_engine_dump(f.te.engine, FERRY_DUMP_JSON, step_within, &f), FERRY_OK);
    cr_assert_eq(f.line_count, 0);
    ASSERT_STATUS(ferry_engine_arm(f.te.engine), FERRY_OK);
    step(&f, BOUND_NS / 4);
    cr_assert_eq(f.line_count, 1);
    keep_promise(promise, FERRY_OK);
    settle(&f.te);
    fixture_close(&f);
}

/* ---- by real time ---- */

static bool is_readable(int fd)
{
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    return poll(&readable, 1, 0) == 1;
}

Test(watchdog, the_first_that_lives_wakes_the_loop_and_no_other)
{
    static fixture f;
    ferry_engine_options options = fixture_options(&f, FERRY_LOOP_EMBEDDED);
    options.clock = NULL;
    options.watchdog_ns = INT64_C(3600000000000);
    test_engine_create(&f.te, &options);
    int fd = ferry_engine_fd(f.te.engine);
    settle(&f.te);
    ASSERT_STATUS(ferry_engine_arm(f.te.engine), FERRY_OK);
    cr_assert_not(is_readable(fd));
    ferry_promise *promise = test_promise(&f.te);
    cr_assert(is_readable(fd), "the loop must set its timer");
    settle(&f.te);
    cr_assert_geq(ferry_engine_timeout_ns(f.te.engine), options.watchdog_ns / 2);
    ASSERT_STATUS(ferry_engine_arm(f.te.engine), FERRY_OK);
    ferry_future *nop = nop_after_promise(&f.te, promise);
    cr_assert_not(is_readable(fd), "it is set already");
    keep_promise(promise, FERRY_OK);
    settle(&f.te);
    ferry_future_release(nop);
    fixture_close(&f);
}

Test(watchdog, an_engine_with_its_own_thread_wakes_for_it)
{
    static fixture f;
    ferry_engine_options options = fixture_options(&f, FERRY_LOOP_THREAD);
    options.watchdog_ns = 1000000;
    test_engine_create(&f.te, &options);
    ferry_promise *promise = test_promise(&f.te);
    while (line_count(&f) < 3) /* the first, and again */
        sched_yield();
    cr_assert_not_null(strstr(f.lines[0], "promise has lived"), "%s", f.lines[0]);
    keep_promise(promise, FERRY_OK);
    fixture_close(&f);
}
