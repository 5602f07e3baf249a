/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trace file while everything else goes on. A plain program, so that it runs under
 * ThreadSanitizer. Exit 0: everything held.
 *   wakes  one operation at a time, at any moment of the file's thread falling asleep: each comes
 *          into the file although nothing follows it; with membarrier and without
 *   storm  files are opened and closed while threads submit, hooks go on and off, and engines come
 *          and go; each file keeps its rules, and has all of an engine that lived while it was open
 */
#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/trace/bell.h"
#include "engine/trace/writer.h"
#include "tests/support/stress.h"
#include "tests/support/trace_document.h"

#include <sched.h>
#include <stdatomic.h>
#include <sys/stat.h>

#if FRY_TSAN
#define WAKES 250
#define FILES 3
#else
#define WAKES 2000
#define FILES 8
#endif
#define HANG_S 180
#define SUBMITTERS 2
#define BUFFER_BYTES 20000

static char path[] = "/tmp/ferry-trace-stress.XXXXXX";

static ferry_engine *open_engine(ferry_loop_mode loop)
{
    ferry_engine *engine = NULL;
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.loop = loop;
    options.host_devices = 2;
    CHECK(ferry_engine_create(&options, &engine, NULL) == FERRY_OK);
    return engine;
}

static off_t file_bytes(void)
{
    struct stat about;
    CHECK(stat(path, &about) == 0);
    return about.st_size;
}

/* ---- wakes ---- */

static void run_wakes(bool without_membarrier)
{
    fry_test_no_membarrier = without_membarrier;
    fry_test_linger_ns = 1; /* it is asleep, or about to be, nearly always */
    ferry_engine *engine = open_engine(FERRY_LOOP_EMBEDDED);
    CHECK(ferry_trace_open(path) == FERRY_OK);
    CHECK((fry_bell_of_process.needs_fence != 0) == without_membarrier);
    unsigned seed = 1;
    for (int i = 0; i < WAKES; i++) {
        off_t before = file_bytes();
        for (int pauses = rand_r(&seed) % 2000; pauses > 0; pauses--)
            fry_pause();
        ferry_future_release(ferry_nop(engine, NULL));
        while (file_bytes() == before)
            sched_yield();
    }
    CHECK(ferry_trace_close() == FERRY_OK);
    ferry_engine_release(engine);
    fry_test_no_membarrier = false;
    fry_test_linger_ns = 0;
}

/* ---- storm ---- */

static _Atomic bool over;
static _Atomic unsigned long submitted, engines, hooked;

/* A chain of copies and functions over two buffers. */
static ferry_status nothing(void *arg)
{
    (void)arg;
    return FERRY_OK;
}

static void submit_some(ferry_engine *engine, ferry_buffer *const buffers[2], unsigned *seed)
{
    for (int i = 0; i < 20; i++) {
        int from = rand_r(seed) % 2;
        ferry_op_options options = FERRY_OP_OPTIONS_INIT;
        options.label = from == 0 ? "there" : "back";
        ferry_future *copy = ferry_copy(engine, ferry_buffer_span(buffers[1 - from]),
                                        ferry_buffer_span(buffers[from]), &options);
        if (rand_r(seed) % 8 == 0)
            (void)ferry_future_cancel(copy);
        if (rand_r(seed) % 4 == 0)
            ferry_future_release(ferry_call(engine, NULL, nothing, NULL, NULL));
        ferry_future_release(ferry_nop(engine, NULL));
        ferry_future_release(copy);
        (void)atomic_fetch_add(&submitted, 1);
    }
    ferry_future *drain = ferry_engine_drain(engine);
    CHECK(ferry_future_wait(drain, -1) == FERRY_OK);
    ferry_future_release(drain);
}

static void open_buffers(ferry_engine *engine, ferry_buffer *buffers[2])
{
    for (size_t i = 0; i < 2; i++)
        CHECK(ferry_buffer_alloc(ferry_device_at(engine, i), BUFFER_BYTES, &buffers[i]) ==
              FERRY_OK);
}

static void *submit_main(void *arg)
{
    ferry_engine *engine = arg;
    unsigned seed = (unsigned)(uintptr_t)&seed;
    ferry_buffer *buffers[2];
    open_buffers(engine, buffers);
    while (!atomic_load(&over))
        submit_some(engine, buffers, &seed);
    ferry_buffer_release(buffers[0]);
    ferry_buffer_release(buffers[1]);
    return NULL;
}

static void *engines_main(void *arg)
{
    unsigned seed = 7;
    (void)arg;
    while (!atomic_load(&over)) {
        ferry_engine *engine = open_engine(FERRY_LOOP_THREAD);
        ferry_buffer *buffers[2];
        open_buffers(engine, buffers);
        submit_some(engine, buffers, &seed);
        ferry_buffer_release(buffers[0]);
        ferry_buffer_release(buffers[1]);
        ferry_engine_release(engine);
        (void)atomic_fetch_add(&engines, 1);
    }
    return NULL;
}

static void count_hooked(void *arg, const ferry_trace_record *record)
{
    (void)arg, (void)record;
    (void)atomic_fetch_add(&hooked, 1);
}

static void *hooks_main(void *arg)
{
    ferry_trace_hooks hooks = {.struct_size = sizeof hooks, .record = count_hooked};
    while (!atomic_load(&over)) {
        CHECK(ferry_engine_trace(arg, &hooks) == FERRY_OK);
        sched_yield();
        CHECK(ferry_engine_trace(arg, NULL) == FERRY_OK);
    }
    return NULL;
}

/* An engine of its own, all of it while the file is open. */
static void check_one_file(void)
{
    CHECK(ferry_trace_open(path) == FERRY_OK);
    ferry_engine *engine = open_engine(FERRY_LOOP_THREAD);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.label = "mine";
    for (int i = 0; i < 100; i++)
        ferry_future_release(ferry_nop(engine, &options));
    ferry_engine_release(engine);
    CHECK(ferry_trace_close() == FERRY_OK);

    trace_document document;
    const char *complaint = trace_document_read(&document, path, true);
    if (complaint != NULL)
        (void)fprintf(stderr, "%s\n", complaint);
    CHECK(complaint == NULL);
    size_t i, mine = 0;
    const json_t *object;
    json_array_foreach(document.objects, i, object)
    {
        const char *name = json_string_value(json_object_get(object, "name"));
        mine += name != NULL && strcmp(name, "mine") == 0;
    }
    CHECK(mine == 100);
    trace_document_release(&document);
}

static void run_storm(void)
{
    ferry_engine *engine = open_engine(FERRY_LOOP_THREAD);
    pthread_t threads[SUBMITTERS + 2];
    for (int i = 0; i < SUBMITTERS; i++)
        CHECK(pthread_create(&threads[i], NULL, submit_main, engine) == 0);
    CHECK(pthread_create(&threads[SUBMITTERS], NULL, engines_main, NULL) == 0);
    CHECK(pthread_create(&threads[SUBMITTERS + 1], NULL, hooks_main, engine) == 0);
    for (int i = 0; i < FILES; i++) {
        fry_test_no_membarrier = i % 2 != 0;
        check_one_file();
    }
    while (atomic_load(&hooked) == 0 || atomic_load(&engines) == 0)
        sched_yield(); /* on a busy machine the files may be over before these threads begin */
    atomic_store(&over, true);
    for (int i = 0; i < SUBMITTERS + 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    ferry_engine_release(engine);
    (void)printf("storm: %d files, %lu copies, %lu engines, %lu records hooked\n", FILES,
                 atomic_load(&submitted), atomic_load(&engines), atomic_load(&hooked));
}

int main(void)
{
    end_if_hung(HANG_S);
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    (void)close(fd);
    run_wakes(false);
    run_wakes(true);
    (void)printf("wakes: %d\n", 2 * WAKES);
    (void)fflush(stdout);
    run_storm();
    (void)unlink(path);
    return 0;
}
