/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several threads on an engine with too little room for them: who is refused waits until the engine
 * is writable and tries again. Nobody may hang, and nobody may try in vain all the time. A plain
 * program, so that it runs under ThreadSanitizer. Exit 0: everything held.
 *   few nodes     the bound is exact, there are no caches
 *   few edges     operations that wait for many others
 *   few accesses  operations refused as they enter
 *   cached        a bound above which threads keep caches
 * Each with the engine's own thread and embedded, to the end and with a shutdown in the midst.
 */
#include "tests/support/failing_allocator.h"
#include "tests/support/stress.h"
#include "tests/support/test_device.h"

#include <poll.h>
#include <stdatomic.h>

#if defined(__SANITIZE_THREAD__)
#define OPERATIONS 1000
#elif defined(__SANITIZE_ADDRESS__)
#define OPERATIONS 1500
#else
#define OPERATIONS 3000
#endif
#define HANG_S 180

#define SUBMITTERS 4
#define KEPT_MAX 600
#define AFTER_MAX 8
#define BUFFERS 2
#define BUFFER_BYTES 8192

typedef struct shape {
    const char *name;
    uint32_t max_nodes;
    uint64_t max_edges, max_accesses;
    uint32_t kept;     /* futures that a submitter keeps at most */
    uint32_t after;    /* of an operation at most; they are held while it waits to try again */
    uint32_t accesses; /* of an operation at most */
} shape;

static const shape shapes[] = {
    {.name = "few nodes", .max_nodes = 6, .kept = 4, .accesses = 2},
    {.name = "few edges", .max_nodes = 400, .max_edges = 40, .kept = 40, .after = 8, .accesses = 2},
    {.name = "few accesses",
     .max_nodes = 400,
     .max_accesses = 64,
     .kept = 40,
     .after = 2,
     .accesses = 6},
    {.name = "cached",
     .max_nodes = 1100,
     .max_edges = 1100,
     .kept = 500,
     .after = 8,
     .accesses = 2},
};

typedef struct submitter {
    uint64_t random;
    ferry_future *kept[KEPT_MAX];
    uint32_t kept_count;
    unsigned long refusals, done;
    bool saw_shutdown;
} submitter;

static struct {
    const shape *shape;
    ferry_engine *engine;
    failing_allocator allocator;
    ferry_buffer *buffers[BUFFERS];
    submitter submitters[SUBMITTERS];
    atomic_bool stop;
    atomic_ulong done, cancels;
} run;

static ferry_span random_span(uint64_t *random, uint32_t which)
{
    static const size_t sizes[] = {64, 512, BUFFER_BYTES}; /* the last is more than is inline */
    size_t size = sizes[below(random, 3)];
    return (ferry_span){run.buffers[which],
                        below(random, BUFFER_BYTES / 64) * 64 % (BUFFER_BYTES - size + 1), size};
}

/* One operation, described before it is tried, so that each try is the same. */
typedef struct operation {
    uint32_t kind;
    ferry_future *after[AFTER_MAX];
    ferry_access accesses[8];
    ferry_span dst, src;
    ferry_op_options options;
} operation;

static void describe(submitter *self, operation *op)
{
    uint64_t *random = &self->random;
    *op = (operation){.kind = below(random, 4), .options = FERRY_OP_OPTIONS_INIT};
    op->options.after = op->after;
    op->options.accesses = op->accesses;
    if (self->kept_count > 0 && below(random, 2) == 0)
        op->options.after_count = below(random, run.shape->after + 1);
    for (size_t i = 0; i < op->options.after_count; i++)
        op->after[i] = ferry_future_retain(self->kept[below(random, self->kept_count)]);
    if (below(random, 3) == 0)
        op->options.access_count = below(random, run.shape->accesses + 1);
    for (size_t i = 0; i < op->options.access_count; i++)
        op->accesses[i] = (ferry_access){random_span(random, below(random, BUFFERS)),
                                         (ferry_access_mode)(1 + below(random, 3))};
    op->dst = random_span(random, 0);
    op->src = random_span(random, 1);
    op->src.size_bytes = op->dst.size_bytes;
    if (op->src.offset_bytes + op->src.size_bytes > BUFFER_BYTES)
        op->src.offset_bytes = 0;
}

static ferry_future *try_operation(const operation *op)
{
    switch (op->kind) {
    case 0:
        return ferry_nop(run.engine, &op->options);
    case 1:
        return ferry_future_all(run.engine, op->after, op->options.after_count);
    default:
        return ferry_copy(run.engine, op->dst, op->src, &op->options);
    }
}

static void release_kept(submitter *self)
{
    while (self->kept_count > 0)
        ferry_future_release(self->kept[--self->kept_count]);
}

/* Lets go of what it keeps itself, then sleeps until there is room. */
static void wait_until_writable(submitter *self)
{
    self->refusals++;
    release_kept(self);
    ferry_future *writable = ferry_engine_writable(run.engine);
    ferry_status status = ferry_future_wait(writable, -1);
    bool is_known = status == FERRY_OK || status == FERRY_E_CANCELLED || status == FERRY_E_SHUTDOWN;
    if (!is_known)
        (void)fprintf(stderr, "writable: %s\n", ferry_future_error(writable)->message);
    CHECK(is_known);
    ferry_future_release(writable);
}

/* False: the shutdown has begun. */
static bool do_operation(submitter *self)
{
    operation op;
    describe(self, &op);
    ferry_future *future;
    ferry_status status;
    for (;;) {
        future = try_operation(&op);
        bool is_looked_at = self->kept_count >= run.shape->kept || below(&self->random, 4) == 0;
        status = is_looked_at ? ferry_future_wait(future, -1) : ferry_future_poll(future);
        if (status != FERRY_E_AGAIN)
            break;
        ferry_future_release(future);
        wait_until_writable(self);
    }
    for (size_t i = 0; i < op.options.after_count; i++)
        ferry_future_release(op.after[i]);
    if (self->kept_count == run.shape->kept)
        release_kept(self);
    self->kept[self->kept_count++] = future;
    self->done++;
    atomic_fetch_add(&run.done, 1);
    /* What others' refusals poisoned fails its readers. */
    CHECK(status == FERRY_OK || status == FERRY_PENDING || status == FERRY_E_DEPENDENCY ||
          status == FERRY_E_SHUTDOWN);
    return status != FERRY_E_SHUTDOWN;
}

static void *submitter_main(void *arg)
{
    submitter *self = arg;
    while (self->done < OPERATIONS && !self->saw_shutdown)
        self->saw_shutdown = !do_operation(self);
    release_kept(self);
    return NULL;
}

/* Cancels what others wait for, now and then. */
static void *canceller_main(void *arg)
{
    (void)arg;
    while (!atomic_load(&run.stop)) {
        ferry_future *writable = ferry_engine_writable(run.engine);
        if (ferry_future_poll(writable) == FERRY_PENDING &&
            atomic_fetch_add(&run.cancels, 1) % 16 == 0)
            CHECK(ferry_future_cancel(writable) == FERRY_OK);
        (void)ferry_future_wait(writable, 100000);
        ferry_future_release(writable);
        (void)usleep(300);
    }
    return NULL;
}

/* The user's loop of an embedded engine. */
static void *progress_main(void *arg)
{
    (void)arg;
    struct pollfd fd = {.fd = ferry_engine_fd(run.engine), .events = POLLIN};
    while (!atomic_load(&run.stop)) {
        while (ferry_engine_progress(run.engine, 0) > 0)
            continue;
        if (ferry_engine_arm(run.engine) == FERRY_OK)
            (void)poll(&fd, 1, 10);
    }
    return NULL;
}

static void open_run(const shape *shape, ferry_loop_mode loop, uint64_t seed)
{
    memset(&run, 0, sizeof run);
    run.shape = shape;
    failing_allocator_init(&run.allocator);
    ferry_allocator allocator = failing_allocator_interface(&run.allocator);
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.loop = loop;
    options.allocator = &allocator;
    options.host_workers = 1;
    options.max_nodes = shape->max_nodes;
    options.max_edges = shape->max_edges;
    options.max_accesses = shape->max_accesses;
    options.log = no_log;
    CHECK(ferry_engine_create(&options, &run.engine, NULL) == FERRY_OK);
    for (size_t i = 0; i < BUFFERS; i++) {
        CHECK(ferry_buffer_alloc(test_device(run.engine, i), BUFFER_BYTES, &run.buffers[i]) ==
              FERRY_OK);
        memset(ferry_buffer_data(run.buffers[i]), 0, BUFFER_BYTES);
    }
    for (size_t i = 0; i < SUBMITTERS; i++)
        run.submitters[i].random = seed * 1000 + i + 1;
}

static unsigned long run_shape(const shape *shape, ferry_loop_mode loop, bool is_cut_short,
                               uint64_t seed)
{
    static char what[80];
    (void)snprintf(what, sizeof what, "%s, %s%s", shape->name,
                   loop == FERRY_LOOP_THREAD ? "own thread" : "embedded",
                   is_cut_short ? ", cut short" : "");
    now_at("%s", what);
    open_run(shape, loop, seed);
    pthread_t threads[SUBMITTERS], canceller, progress;
    for (size_t i = 0; i < SUBMITTERS; i++)
        threads[i] = start_thread(submitter_main, &run.submitters[i]);
    canceller = start_thread(canceller_main, NULL);
    /* Every other embedded engine moves by its waiting threads alone. */
    bool has_loop = loop == FERRY_LOOP_EMBEDDED && seed % 2 == 0;
    if (has_loop)
        progress = start_thread(progress_main, NULL);
    while (is_cut_short && atomic_load(&run.done) < SUBMITTERS * OPERATIONS / 3)
        (void)usleep(100);
    if (is_cut_short)
        CHECK(ferry_engine_shutdown(run.engine, -1) == FERRY_OK);
    unsigned long refusals = 0, done = 0;
    for (size_t i = 0; i < SUBMITTERS; i++) {
        (void)pthread_join(threads[i], NULL);
        CHECK(run.submitters[i].saw_shutdown <= is_cut_short);
        refusals += run.submitters[i].refusals;
        done += run.submitters[i].done;
    }
    atomic_store(&run.stop, true);
    (void)pthread_join(canceller, NULL);
    if (has_loop)
        (void)pthread_join(progress, NULL);
    for (size_t i = 0; i < BUFFERS; i++)
        ferry_buffer_release(run.buffers[i]);
    CHECK(ferry_engine_shutdown(run.engine, -1) == FERRY_OK);
    ferry_engine_release(run.engine);
    CHECK(failing_allocator_live_bytes(&run.allocator) == 0);
    (void)printf("%s: %lu done, %lu refused\n", what, done, refusals);
    CHECK(refusals < 100 * (done + SUBMITTERS)); /* not in vain all the time */
    return refusals;
}

int main(void)
{
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    uint64_t seed = 0;
    unsigned long refusals = 0; /* how many a run meets is its threads' luck */
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (int how = 0; how < 6; how++) {
            end_if_hung(HANG_S);
            refusals +=
                run_shape(&shapes[i], how % 2 == 0 ? FERRY_LOOP_THREAD : FERRY_LOOP_EMBEDDED,
                          how / 2 == 1, ++seed);
        }
    }
    CHECK(refusals > 0); /* else nothing was tried */
    return 0;
}
