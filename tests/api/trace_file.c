/* SPDX-License-Identifier: Apache-2.0 */
/* The trace file: what it says of a known program, and that it does no harm. */
#include "tests/support/forked_child.h"
#include "tests/support/play.h"
#include "tests/support/trace_document.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BIG = 65536, SMALL_RING = 64 };

static char folder[] = "/tmp/ferry-trace.XXXXXX";
static char path[128];
static trace_document document;
static pid_t first_process; /* of the test; others are its children */

static void set_up(void)
{
    first_process = getpid();
    cr_assert_not_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/trace.json", folder);
}

static void take_down(void)
{
    scene_end();
    trace_document_release(&document);
    (void)unlink(path);
    (void)rmdir(folder);
}

TestSuite(trace_file, .init = set_up, .fini = take_down, .timeout = HANG_S);

static void read_document(const char *from, bool is_whole)
{
    trace_document_release(&document);
    const char *complaint = trace_document_read(&document, from, is_whole);
    cr_assert_null(complaint, "%s: %s", from, complaint);
}

static void close_and_read(void)
{
    ASSERT_STATUS(ferry_trace_close(), FERRY_OK);
    read_document(path, true);
}

/* The number of the engine whose rows are the newest: tests make one or two. */
static uint64_t engine_of(const json_t *object)
{
    return (uint64_t)trace_number(object, "tid") / 4096;
}

static const json_t *find_slice(uint64_t engine, uint64_t op)
{
    const json_t *slice = trace_document_slice(&document, engine, op);
    cr_assert_not_null(slice, "engine %llu op %llu is not in the file", (unsigned long long)engine,
                       (unsigned long long)op);
    return slice;
}

static const char *name_of(const json_t *slice)
{
    return json_string_value(json_object_get(slice, "name"));
}

static uint64_t op_of(const char *name)
{
    return ferry_future_id(the_future("%s", name));
}

/* Submits nops and lets go of them; returns how many records they make. */
static uint64_t make_nops(int count)
{
    for (int i = 0; i < count; i++)
        ferry_future_release(ferry_nop(engine(), NULL));
    return (uint64_t)count * 5; /* submitted ready issued resolved quiet */
}

/* ---- what it says ---- */

Test(trace_file, a_small_program)
{
    scene_begin(FERRY_LOOP_EMBEDDED);
    ASSERT_STATUS(ferry_trace_open(path), FERRY_OK);
    play("buffer src %d of 1; buffer dst %d on 2; promise p; promise broken;"
         "c = copy dst <- src after p label weights; n = nop after c; failed = nop after broken;"
         "settle; step 2000",
         BIG, BIG);
    uint64_t copy_op = op_of("c"), nop_op = op_of("n"), failed_op = op_of("failed");
    play("keep p; wait n OK; step 500; release broken; wait failed DEPENDENCY");
    uint64_t promise_op = op_of("p");
    scene_end();
    close_and_read();

    const json_t *slice = find_slice(1, copy_op);
    cr_assert_str_eq(name_of(slice), "weights");
    cr_assert_str_eq(trace_row_name(&document, slice), "engine 1 host:2 stream 2");
    cr_assert_str_eq(trace_text(slice, "device"), "host:2");
    cr_assert_eq(trace_number(slice, "stream"), 2);
    cr_assert_eq(trace_number(slice, "bytes"), BIG);
    cr_assert_eq(trace_number(slice, "waited_for"), (int64_t)promise_op);
    cr_assert_str_eq(trace_text(slice, "status"), "FERRY_OK");
    cr_assert_eq(trace_number(slice, "pid"), getpid());
    cr_assert_eq(trace_time_ns(slice, "submitted"), START_NS);
    cr_assert_eq(trace_time_ns(slice, "ready"), START_NS + 2000);
    cr_assert_geq(trace_time_ns(slice, "fired"), START_NS + 2000);
    const json_t *wait = trace_document_find(&document, 1, "b", "id", copy_op);
    cr_assert_eq(trace_time_ns(wait, "ts"), START_NS);
    wait = trace_document_find(&document, 1, "e", "id", copy_op);
    cr_assert_eq(trace_time_ns(wait, "ts"), START_NS + 2000);

    const json_t *arrow = trace_document_find(&document, 1, "s", "id", nop_op);
    cr_assert_str_eq(trace_row_name(&document, arrow), "engine 1 host:2 stream 2");
    cr_assert_str_eq(trace_row_name(&document, find_slice(1, nop_op)), "engine 1 graph");
    cr_assert_str_eq(trace_text(find_slice(1, nop_op), "kind"), "nop");
    cr_assert_str_eq(trace_text(find_slice(1, promise_op), "kind"), "promise");
    cr_assert_str_eq(trace_text(find_slice(1, failed_op), "status"), "FERRY_E_DEPENDENCY");
    cr_assert_eq(trace_document_count(&document, "X"), 5);
    cr_assert_eq(trace_end_number(&document, "dropped"), 0);
    cr_assert_str_eq(
        trace_text(json_array_get(document.objects, json_array_size(document.objects) - 1),
                   "version"),
        ferry_version());
}

Test(trace_file, engines_before_and_after_two_at_once)
{
    test_engine first, second;
    test_engine_open(&first, FERRY_LOOP_EMBEDDED);
    ferry_future *unseen = ferry_nop(first.engine, NULL);
    uint64_t unseen_op = ferry_future_id(unseen);
    ferry_future_release(unseen);
    ASSERT_STATUS(ferry_trace_open(path), FERRY_OK);
    test_engine_open(&second, FERRY_LOOP_THREAD);
    ferry_future *nops[2] = {ferry_nop(first.engine, NULL), ferry_nop(second.engine, NULL)};
    uint64_t ops[2] = {ferry_future_id(nops[0]), ferry_future_id(nops[1])};
    ferry_future_release(nops[0]);
    ferry_future_release(nops[1]);
    test_engine_close(&first);
    test_engine_close(&second);
    close_and_read();
    cr_assert_null(trace_document_slice(&document, 1, unseen_op));
    cr_assert_str_eq(trace_row_name(&document, find_slice(1, ops[0])), "engine 1 graph");
    cr_assert_str_eq(trace_row_name(&document, find_slice(2, ops[1])), "engine 2 graph");
}

Test(trace_file, it_is_whole_up_to_each_engines_release)
{
    ASSERT_STATUS(ferry_trace_open(path), FERRY_OK);
    scene_begin(FERRY_LOOP_THREAD);
    play("buffer src %d of 1; buffer dst %d on 1; c = copy dst <- src", BIG, BIG);
    uint64_t op = op_of("c");
    play("release c src dst");
    scene_end();
    read_document(path, false);
    (void)find_slice(1, op);
    close_and_read();
    (void)find_slice(1, op);
}

Test(trace_file, what_is_under_way_is_pending)
{
    scene_begin(FERRY_LOOP_THREAD);
    ASSERT_STATUS(ferry_trace_open(path), FERRY_OK);
    play("promise p; n = nop after p; c = call by hand; i = issued c; wait i OK");
    uint64_t nop_op = op_of("n"), call_op = op_of("c");
    close_and_read();
    while (manual_waiting(by_hand()) == 0)
        sched_yield();
    manual_run_one(by_hand());
    play("keep p");
    scene_end();
    cr_assert_str_eq(trace_text(find_slice(1, nop_op), "status"), "FERRY_PENDING");
    cr_assert_str_eq(trace_row_name(&document, find_slice(1, nop_op)), "engine 1 graph");
    cr_assert_str_eq(trace_text(find_slice(1, call_op), "status"), "FERRY_PENDING");
    cr_assert_str_eq(trace_row_name(&document, find_slice(1, call_op)), "engine 1 calls");
    cr_assert_null(
        json_object_get(json_object_get(find_slice(1, call_op), "args"), "may_have_ended"));
}

Test(trace_file, one_after_the_other)
{
    uint64_t last = 0;
    scene_begin(FERRY_LOOP_EMBEDDED);
    for (int i = 0; i < 5; i++) {
        ASSERT_STATUS(ferry_trace_open(path), FERRY_OK);
        play("n = nop");
        uint64_t op = op_of("n");
        play("release n");
        close_and_read();
        (void)find_slice(1, op);
        cr_assert_null(trace_document_slice(&document, 1, last), "the file begins anew");
        cr_assert_eq(trace_end_number(&document, "records"), 5);
        last = op;
        (void)make_nops(3); /* in no file */
    }
}

Test(trace_file, copies_and_functions_in_numbers)
{
    enum { COPIES = 400 };
    scene_begin(FERRY_LOOP_THREAD);
    ASSERT_STATUS(ferry_trace_open(path), FERRY_OK);
    for (int i = 0; i < 4; i++)
        play("buffer b%d %d of %d on %d", i, BIG, i, i);
    for (int i = 0; i < COPIES; i++)
        play("copy b%d <- b%d; release it; call changes b%d[0:64]; release it", i % 4, (i + 1) % 4,
             i % 4);
    play("drain; wait it OK");
    scene_end();
    close_and_read(); /* its rules are checked */
    cr_assert_eq(trace_document_count(&document, "X"), 2 * COPIES + 1);
    cr_assert_eq(trace_end_number(&document, "dropped"), 0);
    cr_assert_gt(trace_document_count(&document, "s"), 0);
}

/* ---- statuses ---- */

Test(trace_file, statuses)
{
    ASSERT_STATUS(ferry_trace_close(), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_trace_open(NULL), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_trace_open(""), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_trace_open("/nowhere/at/all"), FERRY_E_SYSTEM);
    ASSERT_STATUS(ferry_trace_open(folder), FERRY_E_SYSTEM);
    ASSERT_STATUS(ferry_trace_close(), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_trace_open(path), FERRY_OK);
    ASSERT_STATUS(ferry_trace_open(path), FERRY_E_BUSY);
    close_and_read();
    cr_assert_eq(json_array_size(document.objects), 2, "no engine, no rows");
    ASSERT_STATUS(ferry_trace_close(), FERRY_E_INVALID);
}

Test(trace_file, a_full_disk)
{
    scene_begin(FERRY_LOOP_THREAD);
    ASSERT_STATUS(ferry_trace_open("/dev/full"), FERRY_OK);
    for (int i = 0; i < 20; i++)
        play("nop; wait it OK; release it");
    ASSERT_STATUS(ferry_trace_close(), FERRY_E_SYSTEM);
    ASSERT_STATUS(ferry_trace_open("/dev/full"), FERRY_OK);
    (void)make_nops(10);
    scene_end(); /* does not wait for what will never be written */
    ASSERT_STATUS(ferry_trace_close(), FERRY_E_SYSTEM);
    ASSERT_STATUS(ferry_trace_open(path), FERRY_OK);
    close_and_read();
}

Test(trace_file, no_memory_for_rings)
{
    (void)make_nops(1);
    failing_allocator_arm(&scene()->memory, 1, true);
    ASSERT_STATUS(ferry_trace_open(path), FERRY_E_NO_MEMORY);
    ASSERT_STATUS(ferry_trace_close(), FERRY_E_INVALID);
    failing_allocator_arm(&scene()->memory, 0, false);
    ASSERT_STATUS(ferry_trace_open(path), FERRY_OK);
    uint64_t made = make_nops(2);
    close_and_read();
    cr_assert_eq(trace_end_number(&document, "records"), (int64_t)made);
}

static void *one_nop(void *arg)
{
    (void)arg;
    (void)make_nops(1);
    return NULL;
}

/* Its context can be had, its ring cannot. */
Test(trace_file, a_thread_without_a_ring_is_counted)
{
    scene_begin(FERRY_LOOP_EMBEDDED);
    ASSERT_STATUS(ferry_trace_open(path), FERRY_OK);
    uint64_t made = make_nops(300); /* pools have grown */
    failing_allocator_arm(&scene()->memory, 2, false);
    (void)in_thread(one_nop, NULL);
    cr_assert_eq(failing_allocator_failures(&scene()->memory), 1);
    scene_end();
    close_and_read();
    cr_assert_eq(trace_end_number(&document, "records"), (int64_t)made);
    cr_assert_eq(trace_end_number(&document, "dropped"), 5);
}

/* ---- more than it can follow ---- */

typedef struct slow_reader {
    const char *from;
    _Atomic bool may_read;
    FILE *to;
} slow_reader;

/* Opens the pipe, so that the other end can be, and reads it when it may. */
static void *read_pipe(void *arg)
{
    slow_reader *self = arg;
    FILE *from = fopen(self->from, "re");
    while (!atomic_load(&self->may_read))
        sched_yield();
    for (int byte; from != NULL && (byte = fgetc(from)) != EOF;)
        (void)fputc(byte, self->to);
    if (from != NULL)
        (void)fclose(from);
    return NULL;
}

/* The pipe is full, so the file's thread is stuck; nobody else is. */
Test(trace_file, what_it_cannot_follow_is_dropped_and_counted)
{
    enum { NOPS = 20000 };
    char pipe_path[sizeof path + 8];
    (void)snprintf(pipe_path, sizeof pipe_path, "%s.pipe", path);
    cr_assert_eq(mkfifo(pipe_path, 0600), 0);
    slow_reader reader = {.from = pipe_path, .to = fopen(path, "we")};
    pthread_t thread = begin_thread(read_pipe, &reader);
    scene_options(FERRY_LOOP_EMBEDDED)->trace_records = 1024;
    ASSERT_STATUS(ferry_trace_open(pipe_path), FERRY_OK);
    uint64_t made = make_nops(NOPS);
    atomic_store(&reader.may_read, true);
    ASSERT_STATUS(ferry_trace_close(), FERRY_OK);
    (void)end_thread(thread);
    (void)fclose(reader.to);
    (void)unlink(pipe_path);
    scene_end();
    read_document(path, true);
    uint64_t records = (uint64_t)trace_end_number(&document, "records");
    uint64_t dropped = (uint64_t)trace_end_number(&document, "dropped");
    cr_assert_eq(records + dropped, made, "%llu + %llu", (unsigned long long)records,
                 (unsigned long long)dropped);
    cr_assert_gt(dropped, made / 2, "a pipe of 64 KiB, a buffer and a ring hold less");
    cr_assert_gt(trace_document_count(&document, "X"), 100);
}

static void count_record(void *arg, const ferry_trace_record *record)
{
    (void)record;
    atomic_fetch_add((_Atomic uint64_t *)arg, 1);
}

/* The flight recorder's rings are small; the others must not suffer from that, nor it from them. */
Test(trace_file, beside_hooks_and_a_small_flight_recorder)
{
    scene_options(FERRY_LOOP_EMBEDDED)->flight_records = SMALL_RING;
    (void)make_nops(100); /* the small ring is in use, and has gone round */
    _Atomic uint64_t hooked = 0;
    ferry_trace_hooks hooks = {.struct_size = sizeof hooks, .record = count_record, .arg = &hooked};
    ASSERT_STATUS(ferry_engine_trace(engine(), &hooks), FERRY_OK);
    ASSERT_STATUS(ferry_trace_open(path), FERRY_OK);
    uint64_t made = make_nops(300);
    scene_settle();
    cr_assert_eq(hooked, made);
    ferry_trace_record records[4 * SMALL_RING];
    size_t count =
        ferry_engine_flight_records(engine(), records, sizeof(ferry_trace_record), 4 * SMALL_RING);
    cr_assert_leq(count, SMALL_RING);
    cr_assert_geq(count, SMALL_RING - 1);
    ASSERT_STATUS(ferry_engine_trace(engine(), NULL), FERRY_OK);
    made += make_nops(10);
    close_and_read();
    cr_assert_eq(trace_end_number(&document, "records"), (int64_t)made);
    cr_assert_eq(trace_end_number(&document, "dropped"), 0);
    (void)make_nops(100);
    cr_assert_geq(
        ferry_engine_flight_records(engine(), records, sizeof(ferry_trace_record), 4 * SMALL_RING),
        SMALL_RING - 1);
}

/* ---- idle ---- */

/* The file's thread; 0 if there is none. */
static long trace_thread(void)
{
    long found = 0;
    DIR *tasks = opendir("/proc/self/task");
    cr_assert_not_null(tasks);
    const struct dirent *task;
    while ((task = readdir(tasks)) != NULL) {
        char name[64 + sizeof task->d_name], comm[32] = "";
        (void)snprintf(name, sizeof name, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = fopen(name, "re");
        if (file == NULL)
            continue;
        if (fgets(comm, sizeof comm, file) != NULL && strcmp(comm, "ferry-trace\n") == 0)
            found = strtol(task->d_name, NULL, 10);
        (void)fclose(file);
    }
    (void)closedir(tasks);
    return found;
}

/* It waits on a futex without a timeout: nothing but a wake brings it back. */
static bool sleeps_for_good(long thread)
{
    char name[64];
    (void)snprintf(name, sizeof name, "/proc/self/task/%ld/syscall", thread);
    FILE *file = fopen(name, "re");
    if (file == NULL)
        cr_skip_test("this kernel does not tell what a thread waits for");
    long number = -1;
    unsigned long word, operation, value, timeout = 1;
    int read = fscanf(file, "%ld %lx %lx %lx %lx", &number, &word, &operation, &value, &timeout);
    (void)fclose(file);
    return read == 5 && number == SYS_futex && timeout == 0;
}

Test(trace_file, idle_means_asleep_and_a_record_wakes)
{
    scene_begin(FERRY_LOOP_THREAD);
    ASSERT_STATUS(ferry_trace_open(path), FERRY_OK);
    long thread = trace_thread();
    cr_assert_neq(thread, 0);
    for (int round = 0; round < 20; round++) {
        while (!sleeps_for_good(thread))
            sched_yield();
        ferry_future *nop = ferry_nop(engine(), NULL);
        uint64_t op = ferry_future_id(nop);
        ferry_future_release(nop);
        do { /* it comes into the file though nobody asks */
            sched_yield();
            read_document(path, false);
        } while (trace_document_slice(&document, 1, op) == NULL);
    }
    scene_end();
    close_and_read();
}

/* ---- the environment; fork ---- */

/* LeakSanitizer would look for the parent's threads in a child that exits, and tell that it finds
 * none. It asks this. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return first_process != 0 && getpid() != first_process;
}

/* In a child that has not used ferry yet. Exits as programs do. */
static _Noreturn void traced_program(const char *trace, bool releases, void (*leave)(int))
{
    ferry_engine *engine = NULL;
    if (setenv("FERRY_TRACE", trace, 1) != 0 || ferry_engine_create(NULL, &engine, NULL) != 0)
        _exit(10);
    ferry_future *nop = ferry_nop(engine, NULL);
    if (ferry_future_wait(nop, -1) != FERRY_OK || ferry_future_id(nop) == 0)
        _exit(11);
    ferry_future_release(nop);
    if (releases)
        ferry_engine_release(engine);
    leave(0);
    _exit(12);
}

static pid_t run_traced(const char *trace, bool releases, void (*leave)(int))
{
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        traced_program(trace, releases, leave);
    int status = 0;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "wait status %d", status);
    return pid;
}

Test(trace_file, the_environment_names_a_file)
{
    (void)run_traced(path, true, exit);
    read_document(path, true);
    cr_assert_eq(trace_document_count(&document, "X"), 1);
    cr_assert_eq(trace_end_number(&document, "records"), 5);
}

Test(trace_file, the_process_id_in_the_environments_path)
{
    char with_id[sizeof path];
    (void)snprintf(with_id, sizeof with_id, "%s/%%p.json", folder);
    pid_t pid = run_traced(with_id, true, exit);
    (void)snprintf(path, sizeof path, "%s/%d.json", folder, (int)pid);
    read_document(path, true);
}

Test(trace_file, an_engine_that_is_not_released_before_the_exit)
{
    (void)run_traced(path, false, exit);
    read_document(path, true);
    cr_assert_eq(trace_document_count(&document, "X"), 1);
}

Test(trace_file, a_process_that_dies_after_the_release)
{
    (void)run_traced(path, true, _exit);
    read_document(path, false);
    cr_assert_eq(trace_document_count(&document, "X"), 1);
}

Test(trace_file, an_environment_that_cannot_be_followed_is_no_error)
{
    (void)run_traced("/nowhere/at/all", true, exit);
    static char endless[8192];
    memset(endless, 'x', sizeof endless - 1);
    (void)run_traced(endless, true, exit);
}

Test(trace_file, a_childs_work_is_not_in_the_parents_file)
{
    scene_begin(FERRY_LOOP_THREAD);
    ASSERT_STATUS(ferry_trace_open(path), FERRY_OK);
    uint64_t made = make_nops(7);
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        if (ferry_trace_open("/dev/null") != FERRY_E_FORKED ||
            ferry_trace_close() != FERRY_E_FORKED)
            _exit(20);
        if (!CHILD_MAY_ALLOCATE)
            _exit(0);
        traced_program(path, true, exit);
    }
    int status = 0;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "wait status %d", status);
    made += make_nops(7);
    scene_end();
    close_and_read();
    cr_assert_eq(trace_document_count(&document, "X"), 14);
    cr_assert_eq(trace_end_number(&document, "records"), (int64_t)made);
    cr_assert_eq(engine_of(json_array_get(document.objects, 1)), 1);
}
