/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dumps while submitters submit, cancel, poison and release, in own-thread and in embedded mode,
 * with the watchdog at work beside them, and through a shutdown. A plain program, so that it runs
 * under ThreadSanitizer. Exit 0: every dump came whole, nothing hung, nothing leaked.
 */
#include "tests/support/failing_allocator.h"
#include "tests/support/stress.h"

#include <sched.h>

#if defined(__SANITIZE_THREAD__)
#define OPS 6000 /* of each submitter in a round */
#define ROUNDS 4
#else
#define OPS 60000
#define ROUNDS 6
#endif
#define HANG_S 150
#define SUBMITTERS 2
#define DUMPERS 2
#define HELD 64 /* futures of a submitter's that it has not let go */
#define BUFFER_BYTES 65536
#define LABELS 4

typedef struct submitter {
    pthread_t thread;
    uint64_t random;
    ferry_future *held[HELD];
    ferry_promise *promise; /* what holds some of them */
    ferry_promise *old;     /* what lives too long for the watchdog */
    char *labels[LABELS];   /* freed once what bore them is quiet */
} submitter;

static struct {
    ferry_engine *engine;
    ferry_buffer *buffers[4];
    submitter submitters[SUBMITTERS];
    atomic_bool stop;
    atomic_bool takes_turns; /* after each dump the watchdog has its turn */
    atomic_ulong dumps, refused, lines;
} run;

static void count_line(void *arg, ferry_log_level level, const char *line)
{
    (void)arg, (void)level;
    if (strncmp(line, "watchdog: ", 10) == 0)
        atomic_fetch_add(&run.lines, 1);
}

/* ---- submitting ---- */

static ferry_status call(void *arg)
{
    (void)arg;
    return FERRY_OK;
}

static ferry_span random_span(submitter *self, size_t buffer, size_t size_bytes)
{
    size_t offset_bytes = (size_t)below(&self->random, BUFFER_BYTES / 64 - 256) * 64;
    return (ferry_span){run.buffers[buffer], offset_bytes, size_bytes};
}

static ferry_future *submit(submitter *self)
{
    ferry_future *after[3];
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = after;
    for (uint32_t i = below(&self->random, 4); i > 0; i--) {
        ferry_future *future = self->held[below(&self->random, HELD)];
        if (future != NULL)
            after[options.after_count++] = future;
    }
    size_t label = below(&self->random, 2 * LABELS);
    if (label < LABELS)
        options.label = self->labels[label];
    size_t size_bytes = 64 + (size_t)below(&self->random, 200) * 64;
    switch (below(&self->random, 6)) {
    case 0:
        return ferry_call(run.engine, NULL, call, NULL, &options);
    case 1:
        return ferry_future_any(run.engine, after, options.after_count);
    case 2: {
        ferry_op ops[3] = {
            {.kind = FERRY_OP_NOP}, {.kind = FERRY_OP_CALL, .fn = call}, {.kind = FERRY_OP_NOP}};
        return ferry_batch(run.engine, ops, sizeof ops[0], 3, NULL, &options);
    }
    case 3:
        return ferry_nop(run.engine, &options);
    default: {
        size_t to = below(&self->random, 4);
        return ferry_copy(run.engine, random_span(self, to, size_bytes),
                          random_span(self, (to + 1) % 4, size_bytes), &options);
    }
    }
}

static void meddle(submitter *self)
{
    ferry_future *future = self->held[below(&self->random, HELD)];
    if (future != NULL && below(&self->random, 8) == 0)
        (void)ferry_future_cancel(future);
    if (below(&self->random, 50) == 0) {
        if (self->promise != NULL) {
            (void)ferry_promise_resolve(self->promise,
                                        below(&self->random, 3) == 0 ? FERRY_E_FAILED : FERRY_OK,
                                        "on purpose");
            ferry_promise_release(self->promise);
        }
        self->promise = NULL;
        (void)ferry_promise_create(run.engine, &self->promise);
        size_t at = below(&self->random, HELD);
        ferry_future_release(self->held[at]);
        self->held[at] = ferry_promise_future(self->promise);
    }
    if (below(&self->random, 100) == 0)
        (void)ferry_buffer_define(
            (ferry_span){run.buffers[below(&self->random, 4)], 0, BUFFER_BYTES}, NULL);
}

static void *submit_and_meddle(void *arg)
{
    submitter *self = arg;
    for (size_t i = 0; i < LABELS; i++) {
        self->labels[i] = malloc(64);
        CHECK(self->labels[i] != NULL);
        (void)snprintf(self->labels[i], 64, "%zu \"\\\xff\n", i);
    }
    CHECK(ferry_promise_create(run.engine, &self->old) == FERRY_OK);
    for (int i = 0; i < OPS; i++) {
        size_t at = below(&self->random, HELD);
        ferry_future *future = submit(self);
        ferry_future_release(self->held[at]);
        self->held[at] = future;
        meddle(self);
    }
    return NULL;
}

/* ---- dumping ---- */

/* How a text begins and ends. */
typedef struct shape {
    char first, last[2];
    size_t size_bytes;
} shape;

static void take_shape(void *arg, const char *text, size_t size_bytes)
{
    shape *self = arg;
    if (self->size_bytes == 0)
        self->first = text[0];
    for (size_t i = size_bytes < 2 ? 0 : size_bytes - 2; i < size_bytes; i++) {
        self->last[0] = self->last[1];
        self->last[1] = text[i];
    }
    self->size_bytes += size_bytes;
}

static void *dump(void *arg)
{
    bool is_json = arg == NULL;
    while (!atomic_load(&run.stop)) {
        shape seen = {0};
        ferry_status status = ferry_engine_dump(
            run.engine, is_json ? FERRY_DUMP_JSON : FERRY_DUMP_DOT, take_shape, &seen);
        CHECK(status == FERRY_OK || status == FERRY_E_BUSY);
        if (status == FERRY_E_BUSY) {
            CHECK(seen.size_bytes == 0);
            atomic_fetch_add(&run.refused, 1);
            sched_yield();
            continue;
        }
        CHECK(seen.first == (is_json ? '{' : 'd'));
        CHECK(seen.last[0] == '}' && seen.last[1] == '\n');
        atomic_fetch_add(&run.dumps, 1);
        unsigned long lines = atomic_load(&run.lines);
        while (atomic_load(&run.takes_turns) && atomic_load(&run.lines) == lines)
            sched_yield();
    }
    return NULL;
}

static void *make_progress(void *arg)
{
    (void)arg;
    while (!atomic_load(&run.stop)) {
        if (ferry_engine_progress(run.engine, 0) == 0)
            sched_yield();
    }
    return NULL;
}

/* ---- a round ---- */

static void open_engine(failing_allocator *memory, ferry_allocator *allocator, ferry_loop_mode loop)
{
    failing_allocator_init(memory);
    *allocator = failing_allocator_interface(memory);
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.loop = loop;
    options.host_workers = 2;
    options.allocator = allocator;
    options.log = count_line;
    options.watchdog_ns = 200000;
    CHECK(ferry_engine_create(&options, &run.engine, NULL) == FERRY_OK);
    for (size_t i = 0; i < 4; i++) {
        CHECK(ferry_buffer_alloc(ferry_device_at(run.engine, i), BUFFER_BYTES, &run.buffers[i]) ==
              FERRY_OK);
        memset(ferry_buffer_data(run.buffers[i]), 1, BUFFER_BYTES);
    }
}

static void let_go(submitter *self)
{
    for (size_t i = 0; i < HELD; i++) {
        ferry_future_release(self->held[i]);
        self->held[i] = NULL;
    }
    ferry_promise_release(self->promise);
    ferry_promise_release(self->old);
    self->promise = NULL;
}

static void run_round(int round)
{
    static failing_allocator memory;
    static ferry_allocator allocator;
    bool is_embedded = round % 2 == 1;
    unsigned long lines = atomic_load(&run.lines);
    open_engine(&memory, &allocator, is_embedded ? FERRY_LOOP_EMBEDDED : FERRY_LOOP_THREAD);
    atomic_store(&run.stop, false);
    atomic_store(&run.takes_turns, round % 4 >= 2);
    pthread_t dumpers[DUMPERS], progress;
    for (int i = 0; i < DUMPERS; i++)
        CHECK(pthread_create(&dumpers[i], NULL, dump, i % 2 == 0 ? NULL : &run) == 0);
    if (is_embedded)
        CHECK(pthread_create(&progress, NULL, make_progress, NULL) == 0);
    for (int i = 0; i < SUBMITTERS; i++) {
        submitter *self = &run.submitters[i];
        self->random = (uint64_t)(round * SUBMITTERS + i + 1) * 0x9E3779B97F4A7C15u;
        CHECK(pthread_create(&self->thread, NULL, submit_and_meddle, self) == 0);
    }
    for (int i = 0; i < SUBMITTERS; i++)
        CHECK(pthread_join(run.submitters[i].thread, NULL) == 0);
    while (atomic_load(&run.takes_turns) && atomic_load(&run.lines) == lines)
        sched_yield();
    atomic_store(&run.takes_turns, false);
    CHECK(ferry_engine_shutdown(run.engine, -1) == FERRY_OK); /* the dumpers go on */
    unsigned long dumps = atomic_load(&run.dumps);
    while (atomic_load(&run.dumps) < dumps + 3)
        sched_yield();
    atomic_store(&run.stop, true);
    for (int i = 0; i < DUMPERS; i++)
        CHECK(pthread_join(dumpers[i], NULL) == 0);
    if (is_embedded)
        CHECK(pthread_join(progress, NULL) == 0);
    for (int i = 0; i < SUBMITTERS; i++)
        let_go(&run.submitters[i]);
    for (int i = 0; i < 4; i++)
        ferry_buffer_release(run.buffers[i]);
    ferry_engine_release(run.engine);
    for (int i = 0; i < SUBMITTERS; i++) {
        for (size_t k = 0; k < LABELS; k++)
            free(run.submitters[i].labels[k]);
    }
    CHECK(failing_allocator_live_bytes(&memory) == 0);
}

int main(void)
{
    end_if_hung(HANG_S * (ROUNDS > 4 ? 1 : 3));
    for (int round = 0; round < ROUNDS; round++)
        run_round(round);
    printf("dumps: %lu dumps, %lu refused, %lu lines of the watchdog\n", atomic_load(&run.dumps),
           atomic_load(&run.refused), atomic_load(&run.lines));
    CHECK(atomic_load(&run.dumps) > 0 && atomic_load(&run.lines) > 0);
    return 0;
}
