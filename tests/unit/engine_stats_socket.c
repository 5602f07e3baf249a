/* SPDX-License-Identifier: Apache-2.0 */
/* The socket for figures: what it answers, clients that do no good, and paths that others want. */
#include "engine/engine.h"
#include "engine/observe/stats_socket.h"
#include "tests/support/dump_test.h"
#include "tests/support/patience.h"
#include "tests/support/play.h"
#include "tests/support/suite.h"
#include "tests/support/temporary_folder.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CLIENTS = 8, PATH_BYTES = 128 };

#define SHORT_NS 20000000 /* patience, where a case waits for its end */

static char folder[TEMPORARY_FOLDER_BYTES], path[PATH_BYTES];

static void begin(void)
{
    temporary_folder_make(folder);
    (void)snprintf(path, sizeof path, "%s/stats", folder);
}

static void end(void)
{
    scene_end();
    if (!suite_has_failed())
        temporary_folder_remove(folder);
}

TestSuite(engine_stats_socket, .init = begin, .fini = end, .timeout = HANG_S);

/* The scene's engine, which serves the path. */
static void serve(ferry_loop_mode loop)
{
    ferry_engine_options *options = scene_options(loop);
    options->stats = 1;
    options->stats_path = path;
    (void)engine();
}

/* ---- a client ---- */

static struct sockaddr_un address_of(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    cr_assert_lt(strlen(name), sizeof address.sun_path);
    memcpy(address.sun_path, name, strlen(name) + 1);
    return address;
}

/* 0, or the errno. */
static int try_connect(const char *name, int *fd_p)
{
    struct sockaddr_un address = address_of(name);
    *fd_p = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_geq(*fd_p, 0);
    if (connect(*fd_p, (struct sockaddr *)&address, sizeof address) == 0)
        return 0;
    int error = errno;
    (void)close(*fd_p);
    return error;
}

static int connect_to(const char *name)
{
    int fd;
    cr_assert_eq(try_connect(name, &fd), 0, "%s", strerror(errno));
    return fd;
}

static int connect_and_send(const char *words)
{
    int fd = connect_to(path);
    cr_assert_eq(send(fd, words, strlen(words), MSG_NOSIGNAL), (ssize_t)strlen(words));
    return fd;
}

/* All that comes until the other end closes. */
static dump_text take_all(int fd)
{
    char piece[4096];
    dump_text text = {0};
    dump_take(&text, "", 0);
    for (;;) {
        ssize_t got = recv(fd, piece, sizeof piece, 0);
        if (got <= 0)
            break;
        dump_take(&text, piece, (size_t)got);
    }
    (void)close(fd);
    return text;
}

/* The answer to these words, parsed; it stays until the next call. */
static const json_t *ask(const char *words)
{
    static json_t *answer;
    dump_text text = take_all(connect_and_send(words));
    json_decref(answer);
    answer = dump_parse(&text);
    dump_free(&text);
    return answer;
}

static json_int_t number_of(const json_t *object, const char *name)
{
    const json_t *number = json_object_get(object, name);
    cr_assert(json_is_integer(number), "%s", name);
    return json_integer_value(number);
}

static void assert_error(const json_t *answer, const char *status)
{
    const char *error = json_string_value(json_object_get(answer, "error"));
    cr_assert_not_null(error);
    cr_assert_str_eq(error, status);
    cr_assert_not_null(json_string_value(json_object_get(answer, "message")));
}

static bool is_there(const char *name)
{
    struct stat about;
    return lstat(name, &about) == 0;
}

/* An engine beside the scene's, on any path. */
static ferry_status try_engine(const char *on, ferry_engine **engine_p, ferry_error **error_p)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.stats = 1;
    options.stats_path = on;
    return ferry_engine_create(&options, engine_p, error_p);
}

static void assert_refused(const char *on, ferry_status expected, const char *word)
{
    ferry_engine *none = NULL;
    ferry_error *error = NULL;
    ASSERT_STATUS(try_engine(on, &none, &error), expected);
    cr_assert_null(none);
    cr_assert_not_null(strstr(error->message, word), "%s", error->message);
    ferry_error_release(error);
}

/* ---- answers ---- */

Test(engine_stats_socket, figures_are_those_of_the_engine)
{
    serve(FERRY_LOOP_EMBEDDED);
    play("buffer a 100 of 1; buffer b 100 on 1; copy b <- a; copy a <- b; promise p;"
         "n = nop after p; c = nop after p; cancel c; settle; expect c CANCELLED");
    const json_t *answer = ask("stats\n");
    ferry_stats stats = FERRY_STATS_INIT;
    ASSERT_STATUS(ferry_stats_read(engine(), NULL, &stats), FERRY_OK);
    cr_assert_eq(number_of(answer, "format"), 1);
    cr_assert_str_eq(json_string_value(json_object_get(answer, "version")), ferry_version());
    cr_assert_eq(number_of(answer, "pid"), getpid());
    cr_assert_eq(number_of(answer, "engine"), (json_int_t)engine()->id);
    cr_assert_gt(number_of(answer, "time_ns"), 0);
    cr_assert_eq(number_of(answer, "entered"), (json_int_t)stats.entered);
    cr_assert_eq(number_of(answer, "resolved"), (json_int_t)stats.resolved);
    cr_assert_eq(number_of(answer, "in_flight"), 2, "the promise, and the nop behind it");
    const json_t *kinds = json_object_get(answer, "resolved_by_kind");
    cr_assert_eq(number_of(kinds, "copy"), 2);
    cr_assert_eq(number_of(kinds, "nop"), 1);
    cr_assert_eq(json_object_size(kinds), 2, "kinds without a count are left out");
    const json_t *ways = json_object_get(answer, "bytes_by_way");
    cr_assert_eq(number_of(ways, "host"), 200);
    cr_assert_eq(json_object_size(ways), 1);
    cr_assert_eq(number_of(json_object_get(answer, "failures"), "FERRY_E_CANCELLED"), 1);
    cr_assert_eq(number_of(answer, "latency_every"), (json_int_t)stats.latency_every);
    cr_assert_eq(number_of(answer, "latency_count"), (json_int_t)stats.latency_count);
    const json_t *counts = json_object_get(answer, "latency_counts");
    cr_assert_eq(json_array_size(counts), FERRY_STATS_BUCKETS);
    json_int_t sum = 0;
    for (size_t i = 0; i < FERRY_STATS_BUCKETS; i++)
        sum += json_integer_value(json_array_get(counts, i));
    cr_assert_eq(sum, (json_int_t)stats.latency_count);
}

Test(engine_stats_socket, a_dump_says_what_waits_for_what)
{
    serve(FERRY_LOOP_EMBEDDED);
    play("promise p; n = nop after p label later");
    dump_says(dump_of(ask("dump\n"), the_future("n")),
              "label=later state=waiting waits_for=operations");
}

static void take_while_asked(void *arg, const char *bytes, size_t size_bytes)
{
    (void)bytes, (void)size_bytes;
    int *asked = arg;
    if ((*asked)++ == 0)
        assert_error(ask("dump\n"), "FERRY_E_BUSY");
}

Test(engine_stats_socket, one_dump_at_a_time)
{
    int asked = 0;
    serve(FERRY_LOOP_THREAD);
    ASSERT_STATUS(ferry_engine_dump(engine(), FERRY_DUMP_JSON, take_while_asked, &asked), FERRY_OK);
    cr_assert_gt(asked, 0);
}

Test(engine_stats_socket, a_dump_without_memory_is_refused)
{
    serve(FERRY_LOOP_EMBEDDED);
    cr_assert_not_null(ask("dump\n")); /* its thread has all it keeps */
    failing_allocator_arm(&scene()->memory, 1, false);
    assert_error(ask("dump\n"), "FERRY_E_NO_MEMORY");
    failing_allocator_arm(&scene()->memory, 1, true);
    dump_text text = take_all(connect_and_send("dump\n"));
    cr_assert_eq(text.size_bytes, 0, "not even for that: the connection ends");
    dump_free(&text);
    failing_allocator_arm(&scene()->memory, 0, false);
    cr_assert_null(json_object_get(ask("stats\n"), "error"));
}

Test(engine_stats_socket, it_opens_with_all_memory_or_not_at_all)
{
    failing_allocator memory;
    failing_allocator_init(&memory);
    ferry_allocator allocator = failing_allocator_interface(&memory);
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.stats = 1;
    options.stats_path = path;
    options.allocator = &allocator;
    uint64_t failures = 0;
    for (uint64_t nth = 1; nth == 1 || failing_allocator_failures(&memory) != failures; nth++) {
        ferry_engine *one = NULL;
        failures = failing_allocator_failures(&memory);
        failing_allocator_arm(&memory, nth, false);
        ferry_status status = ferry_engine_create(&options, &one, NULL);
        failing_allocator_arm(&memory, 0, false);
        cr_assert_eq(is_there(path), status == FERRY_OK);
        if (status == FERRY_OK)
            ferry_engine_release(one);
        else
            ASSERT_STATUS(status, FERRY_E_NO_MEMORY);
        cr_assert_not(is_there(path));
        cr_assert_eq(failing_allocator_live_bytes(&memory), 0, "call %zu", (size_t)nth);
    }
}

/* ---- clients that do no good ---- */

Test(engine_stats_socket, other_words_are_refused)
{
    static const char *const words[] = {
        "\n",
        "stat\n",
        "stats \n",
        "STATS\n",
        "dump it\n",
        "stats\r\n",
        "GET / HTTP/1.1\r\n",
        "0123456789012345678901234567890123456789012345678901234567890123456789"};
    serve(FERRY_LOOP_THREAD);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        assert_error(ask(words[i]), "FERRY_E_INVALID");
    cr_assert_null(json_object_get(ask("stats\nand more\n"), "error"), "only one line is read");
}

Test(engine_stats_socket, a_line_may_come_in_pieces)
{
    serve(FERRY_LOOP_THREAD);
    int fd = connect_to(path);
    for (const char *at = "stats\n"; *at != '\0'; at++) {
        cr_assert_eq(send(fd, at, 1, MSG_NOSIGNAL), 1);
        cr_assert_null(json_object_get(ask("stats\n"), "error"), "others don't wait for it");
    }
    dump_text text = take_all(fd);
    json_decref(dump_parse(&text));
    dump_free(&text);
}

/* As many as there may be, and they say nothing, or not all: they are dropped, and others come. */
Test(engine_stats_socket, silent_clients_are_dropped)
{
    int fds[CLIENTS];
    fry_test_stats_patience_ns = SHORT_NS;
    serve(FERRY_LOOP_THREAD);
    for (int i = 0; i < CLIENTS; i++)
        fds[i] = i % 2 == 0 ? connect_to(path) : connect_and_send("stat");
    int late = connect_and_send("stats\n"); /* it waits in the kernel's queue */
    for (int i = 0; i < CLIENTS; i++) {
        dump_text text = take_all(fds[i]);
        cr_assert_eq(text.size_bytes, 0);
        dump_free(&text);
    }
    dump_text text = take_all(late);
    json_decref(dump_parse(&text));
    dump_free(&text);
}

Test(engine_stats_socket, clients_that_go_leave_nothing)
{
    serve(FERRY_LOOP_THREAD);
    for (int i = 0; i < 4 * CLIENTS; i++)
        (void)close(i % 2 == 0 ? connect_to(path) : connect_and_send(i % 4 == 1 ? "dump\n" : "d"));
    cr_assert_null(json_object_get(ask("stats\n"), "error"));
}

/* A dump that fits no socket's buffer. */
static void make_much_to_say(void)
{
    enum { OPS = 6000 };
    play("promise p");
    for (int i = 0; i < OPS; i++) {
        ferry_op_options options = FERRY_OP_OPTIONS_INIT;
        ferry_future *after = the_future("p");
        options.after = &after;
        options.after_count = 1;
        options.label =
            "one of very many that wait for the same promise, and that say so at length";
        (void)own(ferry_nop(engine(), &options));
    }
}

Test(engine_stats_socket, a_client_that_does_not_read_is_dropped)
{
    fry_test_stats_patience_ns = SHORT_NS;
    serve(FERRY_LOOP_THREAD);
    make_much_to_say();
    int fds[CLIENTS];
    for (int i = 0; i < CLIENTS; i++)
        fds[i] = connect_and_send("dump\n");
    cr_assert_null(json_object_get(ask("stats\n"), "error"), "others get their turn");
    for (int i = 0; i < CLIENTS; i++) {
        struct pollfd dropped = {.fd = fds[i]};
        json_error_t error;
        cr_assert_eq(poll(&dropped, 1, -1), 1);
        dump_text text = take_all(fds[i]);
        cr_assert_null(json_loadb(text.bytes, text.size_bytes, 0, &error), "it is cut");
        dump_free(&text);
    }
}

Test(engine_stats_socket, a_long_dump_arrives_whole)
{
    serve(FERRY_LOOP_THREAD);
    make_much_to_say();
    const json_t *whole = ask("dump\n");
    cr_assert_eq(json_array_size(json_object_get(whole, "nodes")), 6000);
    cr_assert(json_is_false(json_object_get(json_object_get(whole, "totals"), "cut")));
}

/* Which waits for none of them. */
Test(engine_stats_socket, a_shutdown_with_clients)
{
    serve(FERRY_LOOP_THREAD);
    make_much_to_say();
    int silent = connect_to(path), half = connect_and_send("du"), deaf = connect_and_send("dump\n");
    cr_assert_null(json_object_get(ask("stats\n"), "error"), "the others are taken by now");
    scene_leave();
    dump_text nothing = take_all(silent), cut = take_all(deaf);
    cr_assert_eq(nothing.size_bytes, 0);
    dump_free(&nothing);
    dump_free(&cut);
    (void)close(half);
    cr_assert_not(is_there(path));
}

/* Then the kernel refuses to poll as many as the thread has. */
Test(engine_stats_socket, a_shutdown_where_few_descriptors_are_allowed)
{
    struct rlimit before, few;
    serve(FERRY_LOOP_THREAD);
    int fd = connect_and_send("sta");
    cr_assert_null(json_object_get(ask("stats\n"), "error"), "the other is taken by now");
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = (struct rlimit){.rlim_cur = 5, .rlim_max = before.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    cr_assert_eq(send(fd, "ts\n", 3, MSG_NOSIGNAL), 3);
    scene_leave();
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    cr_assert_not(is_there(path));
    (void)close(fd);
}

/* ---- idle ---- */

/* How often the thread was switched away from; *is_asleep_p: whether it sleeps now. */
static long switches_of_thread(bool *is_asleep_p)
{
    long switches = -1;
    DIR *tasks = opendir("/proc/self/task");
    cr_assert_not_null(tasks);
    for (struct dirent *task = readdir(tasks); task != NULL; task = readdir(tasks)) {
        char name[300], line[128], state = '?';
        bool is_it = false;
        long some, sum = 0;
        (void)snprintf(name, sizeof name, "/proc/self/task/%s/status", task->d_name);
        FILE *status = task->d_name[0] != '.' ? fopen(name, "r") : NULL;
        while (status != NULL && fgets(line, sizeof line, status) != NULL) {
            is_it = is_it || strcmp(line, "Name:\tferry-stats\n") == 0;
            (void)sscanf(line, "State: %c", &state);
            if (sscanf(line, "voluntary_ctxt_switches: %ld", &some) == 1 ||
                sscanf(line, "nonvoluntary_ctxt_switches: %ld", &some) == 1)
                sum += some;
        }
        if (status != NULL)
            (void)fclose(status);
        if (is_it) {
            switches = sum;
            *is_asleep_p = state == 'S';
        }
    }
    (void)closedir(tasks);
    cr_assert_geq(switches, 0, "there is no such thread");
    return switches;
}

static long switches_when_asleep(void)
{
    bool is_asleep = false;
    for (;;) {
        long switches = switches_of_thread(&is_asleep);
        if (is_asleep)
            return switches;
        (void)sched_yield();
    }
}

Test(engine_stats_socket, it_never_wakes_while_nobody_connects)
{
    bool is_asleep;
    serve(FERRY_LOOP_THREAD);
    cr_assert_null(json_object_get(ask("stats\n"), "error")); /* its own look has been seen to */
    long before = switches_when_asleep();
    struct timespec measured = {.tv_nsec = 200 * 1000 * 1000};
    (void)nanosleep(&measured, NULL);
    cr_assert_eq(switches_of_thread(&is_asleep), before);
    cr_assert_null(json_object_get(ask("stats\n"), "error"));
    cr_assert_gt(switches_when_asleep(), before, "the counters do show a wake-up");
}

/* ---- the path ---- */

Test(engine_stats_socket, only_the_user_may_connect)
{
    mode_t before = umask(0);
    serve(FERRY_LOOP_THREAD);
    (void)umask(before);
    struct stat about;
    cr_assert_eq(lstat(path, &about), 0);
    cr_assert(S_ISSOCK(about.st_mode));
    cr_assert_eq(about.st_mode & 07777, 0600);
    scene_leave();
    cr_assert_not(is_there(path));
}

Test(engine_stats_socket, options_that_are_refused)
{
    char longest[109];
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    ferry_engine *none = NULL;
    ferry_error *error = NULL;
    options.stats_path = path;
    ASSERT_STATUS(ferry_engine_create(&options, &none, &error), FERRY_E_INVALID);
    cr_assert_str_eq(error->message, "stats_path needs stats");
    ferry_error_release(error);

    memset(longest, 'x', sizeof longest);
    memcpy(longest, folder, strlen(folder));
    longest[strlen(folder)] = '/';
    longest[108] = '\0';
    assert_refused(longest, FERRY_E_INVALID, "1 to 107 bytes");
    assert_refused("", FERRY_E_INVALID, "1 to 107 bytes");
    longest[107] = '\0';
    ASSERT_STATUS(try_engine(longest, &none, NULL), FERRY_OK);
    (void)close(connect_to(longest));
    ferry_engine_release(none);
    cr_assert_not(is_there(longest));

    (void)snprintf(longest, sizeof longest, "%s/no such folder/stats", folder);
    assert_refused(longest, FERRY_E_SYSTEM, "No such file");
}

Test(engine_stats_socket, the_path_is_copied)
{
    char given[PATH_BYTES];
    memcpy(given, path, sizeof given);
    ferry_engine_options *options = scene_options(FERRY_LOOP_THREAD);
    options->stats = 1;
    options->stats_path = given;
    (void)engine();
    memset(given, '?', sizeof given - 1);
    ferry_engine_options limits = FERRY_ENGINE_OPTIONS_INIT;
    ASSERT_STATUS(ferry_engine_limits(engine(), &limits), FERRY_OK);
    cr_assert_null(limits.stats_path);
    scene_leave();
    cr_assert_not(is_there(path));
}

Test(engine_stats_socket, two_engines_want_one_path)
{
    ferry_engine *second = NULL;
    serve(FERRY_LOOP_THREAD);
    assert_refused(path, FERRY_E_BUSY, "a living process");
    cr_assert_eq(number_of(ask("stats\n"), "engine"), (json_int_t)engine()->id, "the first serves");
    scene_leave();
    ASSERT_STATUS(try_engine(path, &second, NULL), FERRY_OK);
    cr_assert_null(json_object_get(ask("stats\n"), "error"));
    ferry_engine_release(second);
}

Test(engine_stats_socket, restarts)
{
    for (int i = 0; i < 20; i++) {
        ferry_engine *one = NULL;
        ASSERT_STATUS(try_engine(path, &one, NULL), FERRY_OK);
        cr_assert_null(json_object_get(ask("stats\n"), "error"));
        ferry_engine_release(one);
        cr_assert_not(is_there(path));
    }
}

/* Nobody listens at it any more. */
static void leave_socket(const char *name)
{
    struct sockaddr_un address = address_of(name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    cr_assert_eq(listen(fd, 1), 0);
    (void)close(fd);
}

Test(engine_stats_socket, what_a_dead_process_left_is_replaced)
{
    leave_socket(path);
    serve(FERRY_LOOP_THREAD);
    cr_assert_null(json_object_get(ask("stats\n"), "error"));
}

Test(engine_stats_socket, what_is_no_socket_stays)
{
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    cr_assert_geq(fputs("of the user", file), 0);
    (void)fclose(file);
    assert_refused(path, FERRY_E_SYSTEM, "no socket");
    struct stat about;
    cr_assert_eq(stat(path, &about), 0);
    cr_assert_eq(about.st_size, 11);

    char to_it[PATH_BYTES];
    (void)snprintf(to_it, sizeof to_it, "%s/link", folder);
    cr_assert_eq(symlink(path, to_it), 0);
    assert_refused(to_it, FERRY_E_SYSTEM, "no socket");
    cr_assert(is_there(to_it));
}

Test(engine_stats_socket, a_file_of_another_is_not_removed)
{
    serve(FERRY_LOOP_THREAD);
    cr_assert_eq(unlink(path), 0);
    leave_socket(path);
    scene_leave();
    cr_assert(is_there(path));
}

Test(engine_stats_socket, the_process_may_change_its_folder)
{
    ferry_engine *one = NULL;
    char before[PATH_BYTES];
    cr_assert_not_null(getcwd(before, sizeof before));
    cr_assert_eq(chdir(folder), 0);
    ASSERT_STATUS(try_engine("stats", &one, NULL), FERRY_OK);
    cr_assert(is_there(path));
    cr_assert_eq(chdir(before), 0);
    ferry_engine_release(one);
    cr_assert_not(is_there(path));
}

/* ---- forks ---- */

/* The process ends without a shutdown, and a child of it lives on. */
Test(engine_stats_socket, a_child_does_not_serve_its_parents_path)
{
    int go[2], lives[2]; /* the child writes to `lives` once, and holds it as long as it lives */
    cr_assert(pipe(go) == 0 && pipe(lives) == 0);
    pid_t parent = fork();
    if (parent == 0) {
        ferry_engine *one = NULL;
        (void)alarm(HANG_S / 2 * PATIENCE);
        (void)close(go[1]);
        if (try_engine(path, &one, NULL) != FERRY_OK)
            _exit(1);
        pid_t child = fork();
        char byte = 0;
        if (child == 0) { /* its handlers for forks have run */
            ferry_engine_release(one);
            bool is_told = write(lives[1], &byte, 1) == 1;
            _exit(is_told && read(go[0], &byte, 1) == 0 ? 0 : 2);
        }
        _exit(child > 0 ? 0 : 3);
    }
    int status;
    cr_assert_eq(waitpid(parent, &status, 0), parent);
    cr_assert_eq(status, 0);
    cr_assert(is_there(path), "nobody has removed it");
    int fd;
    char byte;
    cr_assert_eq(read(lives[0], &byte, 1), 1);
    cr_assert_eq(try_connect(path, &fd), ECONNREFUSED);
    serve(FERRY_LOOP_THREAD);
    cr_assert_null(json_object_get(ask("stats\n"), "error"));
    (void)close(go[1]); /* the child ends */
    (void)close(lives[1]);
    cr_assert_eq(read(lives[0], &byte, 1), 0);
}

/* ---- many at once ---- */

enum { ASKERS = 4, QUESTIONS = 20 };

static void *ask_often(void *arg)
{
    long *wrong = arg;
    for (int i = 0; i < QUESTIONS; i++) {
        const char *words = i % 2 == 0 ? "stats\n" : "dump\n";
        dump_text text = take_all(connect_and_send(words));
        json_error_t error;
        json_t *answer = json_loadb(text.bytes, text.size_bytes, JSON_REJECT_DUPLICATES, &error);
        const char *refused = json_string_value(json_object_get(answer, "error"));
        *wrong += !json_is_object(answer) || refused != NULL;
        json_decref(answer);
        dump_free(&text);
    }
    return NULL;
}

static void check_busy(ferry_loop_mode loop)
{
    pthread_t threads[ASKERS];
    long wrong[ASKERS] = {0};
    serve(loop);
    play("buffer a 5000 of 1; buffer b 5000 on 1");
    for (int i = 0; i < ASKERS; i++)
        threads[i] = begin_thread(ask_often, &wrong[i]);
    for (int i = 0; i < 2000; i++) {
        ferry_future_release(ferry_copy(engine(), the_span("a"), the_span("b"), NULL));
        ferry_future_release(ferry_copy(engine(), the_span("b"), the_span("a"), NULL));
        if (i % 16 == 0)
            scene_settle();
    }
    for (int i = 0; i < ASKERS; i++) {
        (void)end_thread(threads[i]);
        cr_assert_eq(wrong[i], 0);
    }
    ferry_future *drained = own(ferry_engine_drain(engine()));
    scene_settle();
    ASSERT_STATUS(ferry_future_wait(drained, -1), FERRY_OK);
    const json_t *answer = ask("stats\n");
    cr_assert_eq(number_of(json_object_get(answer, "bytes_by_way"), "host"), 2 * 2000 * 5000);
    cr_assert_eq(number_of(json_object_get(answer, "resolved_by_kind"), "copy"), 2 * 2000);
}

Test(engine_stats_socket, many_ask_while_there_is_work)
{
    check_busy(FERRY_LOOP_THREAD);
}

Test(engine_stats_socket, many_ask_an_embedded_engine)
{
    check_busy(FERRY_LOOP_EMBEDDED);
}
