/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole library from many threads at once. A plain program, so that it runs under
 * ThreadSanitizer, which proves what the counts can't. Exit 0: everything held.
 *   storm     submitters on two engines with threads of their own, while others cancel, wait,
 *             register and remove waiters, end promises, read traces, drain; then shutdown in the
 *             midst of it
 *   errors    threads that ask for the error of the same future at once
 *   embedded  threads that wait on an embedded engine, with and without one that makes progress
 */
#include "tests/support/failing_allocator.h"
#include "tests/support/stress.h"
#include "tests/support/test_device.h"
#include "tests/support/thread_executor.h"

#include <poll.h>
#include <sched.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define EFFORT 1
#define ROUNDS 8
#else
#define EFFORT 3
#define ROUNDS 8
#endif
#define HANG_S 180

#define ENGINES 2
#define SUBMITTERS 4
#define MEDDLERS 2
#define BOARD 64                            /* futures, and promises, that any thread may take */
#define OPS_BEFORE_SHUTDOWN (1200 * EFFORT) /* of each submitter */
#define OPS_MAX (OPS_BEFORE_SHUTDOWN * 8)   /* of each submitter */
#define BUFFER_BYTES 20000

static thread_executor own_thread;

/* ---- storm ---- */

typedef struct op_record {
    ferry_future *future; /* NULL: let go at once */
    ferry_waiter waiter;
    bool is_call, is_waited;
    atomic_uint runs, fired, removed;
    ferry_status result; /* of a call */
} op_record;

typedef struct submitter {
    uint64_t random;
    op_record *ops;
    uint32_t op_count;
    bool saw_shutdown[ENGINES];
} submitter;

static struct {
    ferry_engine *engines[ENGINES];
    failing_allocator allocators[ENGINES];
    submitter submitters[SUBMITTERS];
    ferry_future *futures[BOARD];
    ferry_promise *promises[BOARD];
    op_record *waited[BOARD]; /* with a waiter that any thread may remove */
    atomic_uint submitted;
    atomic_bool is_ending; /* both shutdowns have begun */
    atomic_bool stop;      /* meddlers and the like end */
    atomic_ulong records, cancels, removals, resolutions, freed;
} storm;

/* In all rounds: a storm that never met something proves nothing about it. */
static struct {
    unsigned long cancels, removals, resolutions, records, shut_down;
} met;

static ferry_status storm_call(void *arg)
{
    op_record *op = arg;
    atomic_fetch_add(&op->runs, 1);
    return op->result;
}

static void storm_ready(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    op_record *op = waiter->arg;
    CHECK(status != FERRY_PENDING && ferry_future_poll(future) == status);
    CHECK(ferry_future_wait(future, -1) == status); /* resolved: no deadlock to refuse */
    atomic_fetch_add(&op->fired, 1);
}

static void storm_freed(void *arg, void *memory, size_t size_bytes)
{
    (void)arg, (void)size_bytes;
    free(memory);
    atomic_fetch_add(&storm.freed, 1);
}

static ferry_executor *random_executor(uint64_t *random)
{
    uint32_t dice = below(random, 3);
    return dice == 0 ? NULL : dice == 1 ? ferry_executor_inline() : &own_thread.executor;
}

/* Gives the board a future and gets another; both with a reference. */
static ferry_future *swap_future(uint64_t *random, ferry_future *future)
{
    return __atomic_exchange_n(&storm.futures[below(random, BOARD)], future, __ATOMIC_ACQ_REL);
}

static ferry_promise *swap_promise(uint64_t *random, ferry_promise *promise)
{
    return __atomic_exchange_n(&storm.promises[below(random, BOARD)], promise, __ATOMIC_ACQ_REL);
}

static op_record *swap_waited(uint64_t *random, op_record *op)
{
    return __atomic_exchange_n(&storm.waited[below(random, BOARD)], op, __ATOMIC_ACQ_REL);
}

static ferry_buffer *random_buffer(uint64_t *random, ferry_engine *engine)
{
    size_t index = below(random, 3);
    ferry_buffer *buffer = NULL;
    if (below(random, 2) == 0) {
        (void)ferry_buffer_alloc(test_device(engine, index), BUFFER_BYTES, &buffer);
        return buffer;
    }
    ferry_device *device = ferry_device_at(engine, index); /* a host's: pageable memory */
    void *memory = calloc(1, BUFFER_BYTES);
    CHECK(memory != NULL);
    if (ferry_buffer_wrap(device, memory, BUFFER_BYTES, storm_freed, NULL, &buffer) != FERRY_OK)
        free(memory);
    return buffer;
}

/* Copies there and back, and lets the buffers go at once. */
static ferry_future *submit_copies(uint64_t *random, ferry_engine *engine,
                                   const ferry_op_options *options)
{
    ferry_buffer *left = random_buffer(random, engine), *right = random_buffer(random, engine);
    size_t size = below(random, 2) == 0 ? 64 : BUFFER_BYTES;
    ferry_future *there =
        ferry_copy(engine, (ferry_span){right, 0, size}, (ferry_span){left, 0, size}, options);
    ferry_future *back =
        ferry_copy(engine, (ferry_span){left, 0, size}, (ferry_span){right, 0, size}, NULL);
    ferry_future_release(there);
    ferry_buffer_release(left);
    ferry_buffer_release(right);
    return back;
}

static ferry_future *submit_promise(uint64_t *random, ferry_engine *engine)
{
    ferry_promise *promise;
    ferry_status status = ferry_promise_create(engine, &promise);
    if (status != FERRY_OK) {
        CHECK(status == FERRY_E_SHUTDOWN);
        return ferry_nop(engine, NULL); /* refused likewise */
    }
    ferry_future *future = ferry_promise_future(promise);
    ferry_promise_release(swap_promise(random, promise));
    return future;
}

static ferry_future *submit_some(submitter *self, op_record *op, ferry_engine *engine)
{
    uint64_t *random = &self->random;
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    /* After something of one's own: it lives as long as the record, and belongs to this engine. */
    ferry_future *after = NULL;
    if (self->op_count >= ENGINES) {
        uint32_t back = ENGINES * (1 + below(random, 8));
        uint32_t earlier =
            self->op_count >= back ? self->op_count - back : self->op_count % ENGINES;
        after = self->ops[earlier].future;
    }
    options.after = &after;
    options.after_count = after != NULL && below(random, 2) == 0;
    options.deadline_ns = below(random, 40) == 0 ? 1 : 0;
    options.label = "storm";
    switch (below(random, 8)) {
    case 0:
    case 1:
        return submit_copies(random, engine, &options);
    case 2:
    case 3:
        op->is_call = true;
        op->result = below(random, 8) == 0 ? FERRY_E_FAILED : FERRY_OK;
        return ferry_call(engine, random_executor(random), storm_call, op, &options);
    case 4:
        return submit_promise(random, engine);
    case 5:
        return after != NULL ? ferry_future_all(engine, &after, 1) : ferry_nop(engine, NULL);
    case 6:
        return after != NULL ? ferry_future_quiet(after) : ferry_engine_drain(engine);
    default:
        return ferry_nop(engine, &options);
    }
}

static void submit_one(submitter *self)
{
    op_record *op = &self->ops[self->op_count];
    uint32_t which = self->op_count % ENGINES;
    ferry_future *future = submit_some(self, op, storm.engines[which]);
    CHECK(future != NULL);
    self->op_count++;
    if (ferry_future_id(future) == 0 && ferry_future_poll(future) == FERRY_E_SHUTDOWN)
        self->saw_shutdown[which] = true;
    if (below(&self->random, 4) == 0) {
        op->waiter = (ferry_waiter)FERRY_WAITER_INIT(storm_ready, op);
        op->waiter.executor = random_executor(&self->random);
        op->is_waited = true;
        CHECK(ferry_future_on_ready(future, &op->waiter) == FERRY_OK);
    }
    if (below(&self->random, 2) == 0)
        ferry_future_release(swap_future(&self->random, ferry_future_retain(future)));
    if (below(&self->random, 3) == 0)
        ferry_future_release(future);
    else
        op->future = future;
    if (op->is_waited && op->future != NULL)
        (void)swap_waited(&self->random, op);
    atomic_fetch_add(&storm.submitted, 1);
}

static void *submitter_main(void *arg)
{
    submitter *self = arg;
    while (self->op_count < OPS_MAX && !(self->saw_shutdown[0] && self->saw_shutdown[1])) {
        /* The other half is for after the shutdown began, whenever that thread gets to it. */
        while (self->op_count == OPS_MAX / 2 && !atomic_load(&storm.is_ending))
            (void)sched_yield();
        submit_one(self);
    }
    return NULL;
}

/* A waiter of one's own, taken back or seen to run. */
static void register_and_remove(uint64_t *random, ferry_future *future)
{
    op_record local = {.is_call = false};
    local.waiter = (ferry_waiter)FERRY_WAITER_INIT(storm_ready, &local);
    local.waiter.executor = random_executor(random);
    if (ferry_future_on_ready(future, &local.waiter) != FERRY_OK)
        return;
    if (ferry_waiter_remove(&local.waiter)) {
        CHECK(atomic_load(&local.fired) == 0);
        atomic_fetch_add(&storm.removals, 1);
        return;
    }
    while (atomic_load(&local.fired) == 0)
        (void)sched_yield(); /* the loop, or the executor's thread, calls it */
}

/* The waiter of a submitter, whose record holds the future. */
static void remove_waited(uint64_t *random)
{
    op_record *op = swap_waited(random, NULL);
    if (op != NULL && ferry_waiter_remove(&op->waiter)) {
        atomic_fetch_add(&op->removed, 1);
        atomic_fetch_add(&storm.removals, 1);
    }
}

static void meddle_with(uint64_t *random, ferry_future *future)
{
    switch (below(random, 6)) {
    case 0:
        CHECK(ferry_future_cancel(future) == FERRY_OK);
        atomic_fetch_add(&storm.cancels, 1);
        break;
    case 1:
        (void)ferry_future_wait(future, below(random, 200000));
        break;
    case 2:
        register_and_remove(random, future);
        break;
    case 3: {
        const ferry_error *error = ferry_future_error(future);
        CHECK(error == NULL || error->status == ferry_future_poll(future));
        break;
    }
    case 4:
        remove_waited(random);
        break;
    default:
        ferry_future_release(ferry_future_retain(future));
    }
}

static void *meddler_main(void *arg)
{
    uint64_t random = {(uint64_t)(uintptr_t)arg};
    ferry_future *future = NULL;
    while (!atomic_load(&storm.stop)) {
        future = swap_future(&random, future);
        if (future == NULL)
            (void)sched_yield();
        for (uint32_t times = below(&random, 3); future != NULL && times > 0; times--)
            meddle_with(&random, future);
    }
    ferry_future_release(future);
    return NULL;
}

static void end_promise(uint64_t *random, ferry_promise *promise)
{
    static const ferry_status results[] = {FERRY_OK, FERRY_OK, FERRY_E_FAILED};
    if (below(random, 4) != 0) {
        ferry_status result = results[below(random, 3)];
        ferry_status status = ferry_promise_resolve(promise, result, "storm");
        CHECK(status == FERRY_OK || status == FERRY_E_CANCELLED || status == FERRY_E_SHUTDOWN);
        atomic_fetch_add(&storm.resolutions, status == FERRY_OK);
    }
    ferry_promise_release(promise);
}

static void *resolver_main(void *arg)
{
    uint64_t random = {(uint64_t)(uintptr_t)arg};
    while (!atomic_load(&storm.stop)) {
        ferry_promise *promise = swap_promise(&random, NULL);
        if (promise != NULL)
            end_promise(&random, promise);
        else
            (void)sched_yield();
    }
    return NULL;
}

static void record_hook(void *arg, const ferry_trace_record *record)
{
    (void)arg;
    CHECK(record->op != 0 && record->what >= FERRY_TRACE_SUBMITTED &&
          record->what <= FERRY_TRACE_CANCEL);
    atomic_fetch_add(&storm.records, 1);
}

/* Turns hooks on and off, reads the flight recorder, drains. */
static void *observer_main(void *arg)
{
    uint64_t random = {(uint64_t)(uintptr_t)arg};
    ferry_trace_record records[64];
    ferry_trace_hooks hooks = {.struct_size = sizeof hooks, .record = record_hook};
    while (!atomic_load(&storm.stop)) {
        ferry_engine *engine = storm.engines[below(&random, ENGINES)];
        ferry_status status = ferry_engine_trace(engine, below(&random, 2) == 0 ? &hooks : NULL);
        CHECK(status == FERRY_OK || status == FERRY_E_SHUTDOWN);
        size_t count = ferry_engine_flight_records(engine, records, sizeof(ferry_trace_record), 64);
        for (size_t i = 1; i < count; i++)
            CHECK(records[i - 1].when_ns <= records[i].when_ns);
        ferry_future *drained = ferry_engine_drain(engine);
        status = ferry_future_wait(drained, below(&random, 1000000));
        CHECK(status == FERRY_OK || status == FERRY_PENDING || status == FERRY_E_SHUTDOWN);
        ferry_future_release(drained);
    }
    return NULL;
}

static bool is_expected(const op_record *op, ferry_status status)
{
    switch (status) {
    case FERRY_OK:
    case FERRY_E_CANCELLED:
    case FERRY_E_DEADLINE:
    case FERRY_E_DEPENDENCY:
    case FERRY_E_SHUTDOWN:
    case FERRY_E_FAILED: /* a call, a promise */
    case FERRY_E_BROKEN_PROMISE:
        return true;
    case FERRY_E_INVALID: /* no buffer could be had: shutdown had begun */
        return !op->is_call;
    default:
        return false;
    }
}

static void check_op(const op_record *op, unsigned long by_status[3])
{
    uint32_t runs = atomic_load(&op->runs);
    CHECK(runs <= op->is_call);
    CHECK(atomic_load(&op->fired) + atomic_load(&op->removed) == op->is_waited);
    if (op->future == NULL)
        return;
    ferry_status status = ferry_future_poll(op->future);
    CHECK(is_expected(op, status));
    CHECK((ferry_future_error(op->future) == NULL) == (status == FERRY_OK));
    if (op->is_call && (status == FERRY_OK || status == FERRY_E_FAILED))
        CHECK(runs == 1 && status == op->result);
    if (op->is_call && status == FERRY_E_DEPENDENCY)
        CHECK(runs == 0);
    by_status[status == FERRY_OK ? 0 : status == FERRY_E_SHUTDOWN ? 1 : 2]++;
}

static void open_storm(uint64_t round)
{
    static ferry_allocator allocators[ENGINES];
    memset(&storm, 0, sizeof storm);
    for (int i = 0; i < ENGINES; i++) {
        failing_allocator_init(&storm.allocators[i]);
        allocators[i] = failing_allocator_interface(&storm.allocators[i]);
        ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
        options.host_devices = 3;
        options.host_workers = 1 + (uint32_t)i;
        options.flight_records = i == 0 ? 256 : 0;
        options.spin_ns = round % 2 == 1 ? 50000 : 0;
        options.allocator = &allocators[i];
        options.log = no_log;
        CHECK(ferry_engine_create(&options, &storm.engines[i], NULL) == FERRY_OK);
        for (size_t device = 0; device < 3; device++)
            CHECK(test_device(storm.engines[i], device) != NULL);
    }
    for (int i = 0; i < SUBMITTERS; i++) {
        storm.submitters[i].random = round * 1000 + (uint64_t)i + 1;
        storm.submitters[i].ops = calloc(OPS_MAX, sizeof(op_record));
        CHECK(storm.submitters[i].ops != NULL);
    }
}

static void close_storm(unsigned long by_status[3])
{
    for (int i = 0; i < BOARD; i++) {
        ferry_future_release(storm.futures[i]);
        ferry_promise_release(storm.promises[i]);
    }
    for (int i = 0; i < SUBMITTERS; i++) {
        submitter *each = &storm.submitters[i];
        for (uint32_t k = 0; k < each->op_count; k++) {
            check_op(&each->ops[k], by_status);
            ferry_future_release(each->ops[k].future);
        }
        free(each->ops);
    }
    for (int i = 0; i < ENGINES; i++) {
        ferry_engine_release(storm.engines[i]);
        CHECK(failing_allocator_live_bytes(&storm.allocators[i]) == 0);
    }
}

static void run_storm(uint64_t round)
{
    unsigned long by_status[3] = {0};
    pthread_t submitters[SUBMITTERS], meddlers[MEDDLERS], resolver, observer;
    open_storm(round);
    for (int i = 0; i < SUBMITTERS; i++)
        submitters[i] = start_thread(submitter_main, &storm.submitters[i]);
    for (uintptr_t i = 0; i < MEDDLERS; i++)
        meddlers[i] = start_thread(meddler_main, (void *)(round * 100 + i + 11)); /* NOLINT */
    resolver = start_thread(resolver_main, (void *)(uintptr_t)(round * 100 + 33));
    observer = start_thread(observer_main, (void *)(uintptr_t)(round * 100 + 44));
    while (atomic_load(&storm.submitted) < SUBMITTERS * OPS_BEFORE_SHUTDOWN)
        (void)sched_yield();
    for (int i = 0; i < ENGINES; i++) {
        ferry_status status = ferry_engine_shutdown(storm.engines[i], 0);
        CHECK(status == FERRY_OK || status == FERRY_E_DEADLINE); /* begun, perhaps not finished */
    }
    atomic_store(&storm.is_ending, true);
    for (int i = 0; i < ENGINES; i++)
        CHECK(ferry_engine_shutdown(storm.engines[i], -1) == FERRY_OK);
    for (int i = 0; i < SUBMITTERS; i++)
        join_thread(submitters[i]);
    for (int i = 0; i < SUBMITTERS; i++)
        CHECK(storm.submitters[i].saw_shutdown[0] && storm.submitters[i].saw_shutdown[1]);
    atomic_store(&storm.stop, true);
    for (int i = 0; i < MEDDLERS; i++)
        join_thread(meddlers[i]);
    join_thread(resolver);
    join_thread(observer);
    thread_executor_wait_idle(&own_thread);
    unsigned submitted = atomic_load(&storm.submitted);
    close_storm(by_status);
    (void)printf("storm: %u submitted; of those kept %lu ok, %lu shut down, %lu failed; "
                 "%lu cancels, %lu removals, %lu resolutions, %lu records, %lu freed\n",
                 submitted, by_status[0], by_status[1], by_status[2], atomic_load(&storm.cancels),
                 atomic_load(&storm.removals), atomic_load(&storm.resolutions),
                 atomic_load(&storm.records), atomic_load(&storm.freed));
    CHECK(by_status[0] != 0 && by_status[2] != 0);
    met.cancels += atomic_load(&storm.cancels);
    met.removals += atomic_load(&storm.removals);
    met.resolutions += atomic_load(&storm.resolutions);
    met.records += atomic_load(&storm.records);
    met.shut_down += by_status[1];
}

/* ---- errors ---- */

#define READERS 3

static struct {
    pthread_barrier_t barrier;
    ferry_future *failed;
    uint64_t promise_id;
    int rounds;
    const ferry_error *seen[READERS];
} errors;

static void *reader_main(void *arg)
{
    const ferry_error **seen = arg;
    for (int round = 0; round < errors.rounds; round++) {
        (void)pthread_barrier_wait(&errors.barrier);
        const ferry_error *error = ferry_future_error(errors.failed);
        CHECK(error != NULL && error->status == FERRY_E_DEPENDENCY);
        CHECK(error->op == ferry_future_id(errors.failed));
        CHECK(error->cause != NULL && error->cause->op == errors.promise_id);
        CHECK(error->cause->status == FERRY_E_NOT_FOUND);
        *seen = error;
        (void)pthread_barrier_wait(&errors.barrier);
    }
    return NULL;
}

static void fail_one(ferry_engine *engine)
{
    ferry_promise *promise;
    CHECK(ferry_promise_create(engine, &promise) == FERRY_OK);
    ferry_future *future = ferry_promise_future(promise);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &future;
    options.after_count = 1;
    errors.failed = ferry_nop(engine, &options);
    errors.promise_id = ferry_future_id(future);
    CHECK(ferry_promise_resolve(promise, FERRY_E_NOT_FOUND, "gone") == FERRY_OK);
    ferry_promise_release(promise);
    ferry_future_release(future);
    CHECK(ferry_future_wait(errors.failed, -1) == FERRY_E_DEPENDENCY);
}

static void run_errors(void)
{
    failing_allocator counting;
    failing_allocator_init(&counting);
    ferry_allocator allocator = failing_allocator_interface(&counting);
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.allocator = &allocator;
    ferry_engine *engine;
    CHECK(ferry_engine_create(&options, &engine, NULL) == FERRY_OK);
    errors.rounds = 1000 * EFFORT;
    CHECK(pthread_barrier_init(&errors.barrier, NULL, READERS + 1) == 0);
    pthread_t readers[READERS];
    for (int i = 0; i < READERS; i++)
        readers[i] = start_thread(reader_main, &errors.seen[i]);
    for (int round = 0; round < errors.rounds; round++) {
        fail_one(engine);
        (void)pthread_barrier_wait(&errors.barrier);
        (void)pthread_barrier_wait(&errors.barrier);
        for (int i = 1; i < READERS; i++)
            CHECK(errors.seen[i] == errors.seen[0]);
        ferry_future_release(errors.failed);
    }
    for (int i = 0; i < READERS; i++)
        join_thread(readers[i]);
    ferry_engine_release(engine);
    CHECK(failing_allocator_live_bytes(&counting) == 0);
    (void)printf("errors: %d rounds\n", errors.rounds);
}

/* ---- embedded ---- */

#define WAITING 3

static struct {
    ferry_engine *engine;
    ferry_promise *to_resolve; /* one waiting thread leaves them, another ends them */
    atomic_bool stop;
    atomic_ulong waits, calls, progress, sleeps;
} embedded;

static ferry_status embedded_call(void *arg)
{
    atomic_uint *runs = arg;
    atomic_fetch_add(runs, 1);
    atomic_fetch_add(&embedded.calls, 1);
    return FERRY_OK;
}

static void exchange_promise(ferry_promise *promise)
{
    ferry_promise *other = __atomic_exchange_n(&embedded.to_resolve, promise, __ATOMIC_ACQ_REL);
    if (other != NULL) {
        CHECK(ferry_promise_resolve(other, FERRY_OK, NULL) == FERRY_OK);
        ferry_promise_release(other);
    }
}

/* Waits for ever for work that workers, calls or another thread finish. */
static void wait_for_some(uint64_t *random, ferry_buffer *left, ferry_buffer *right)
{
    atomic_uint runs = 0;
    ferry_future *futures[3];
    futures[0] =
        ferry_copy(embedded.engine, ferry_buffer_span(right), ferry_buffer_span(left), NULL);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = futures;
    options.after_count = below(random, 2);
    futures[1] =
        ferry_call(embedded.engine, random_executor(random), embedded_call, &runs, &options);
    futures[2] = ferry_future_all(embedded.engine, futures, 2);
    ferry_status status = ferry_future_wait(futures[2], below(random, 50000));
    CHECK(status == FERRY_PENDING || status == FERRY_OK);
    CHECK(ferry_future_wait(futures[2], -1) == FERRY_OK);
    CHECK(atomic_load(&runs) == 1);
    for (int i = 0; i < 3; i++)
        ferry_future_release(futures[i]);
    atomic_fetch_add(&embedded.waits, 1);
}

static void *waiting_main(void *arg)
{
    uint64_t random = {(uint64_t)(uintptr_t)arg};
    ferry_buffer *left, *right;
    CHECK(ferry_buffer_alloc(test_device(embedded.engine, 0), BUFFER_BYTES, &left) == FERRY_OK);
    CHECK(ferry_buffer_alloc(test_device(embedded.engine, 1), BUFFER_BYTES, &right) == FERRY_OK);
    memset(ferry_buffer_data(left), 7, BUFFER_BYTES);
    for (int i = 0; i < 400 * EFFORT; i++) {
        wait_for_some(&random, left, right);
        if (below(&random, 4) != 0)
            continue;
        ferry_promise *promise;
        CHECK(ferry_promise_create(embedded.engine, &promise) == FERRY_OK);
        exchange_promise(promise);
    }
    const unsigned char *bytes = ferry_buffer_data(right);
    CHECK(bytes[0] == 7 && bytes[BUFFER_BYTES - 1] == 7);
    ferry_buffer_release(left);
    ferry_buffer_release(right);
    return NULL;
}

/* The user's loop: progress, and sleep on the descriptor. */
static void *progress_main(void *arg)
{
    (void)arg;
    struct pollfd readable = {.fd = ferry_engine_fd(embedded.engine), .events = POLLIN};
    while (!atomic_load(&embedded.stop)) {
        if (ferry_engine_progress(embedded.engine, 0) > 0) {
            atomic_fetch_add(&embedded.progress, 1); /* that may have been what stops this */
            continue;
        }
        if (ferry_engine_arm(embedded.engine) == FERRY_OK) {
            atomic_fetch_add(&embedded.sleeps, 1);
            CHECK(poll(&readable, 1, -1) >= 0);
        } else {
            (void)sched_yield();
        }
    }
    return NULL;
}

static void stop_progress(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)waiter, (void)future, (void)status;
    atomic_store(&embedded.stop, true);
}

static void run_embedded(bool with_progress)
{
    static ferry_waiter stopper;
    failing_allocator counting;
    failing_allocator_init(&counting);
    ferry_allocator allocator = failing_allocator_interface(&counting);
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.loop = FERRY_LOOP_EMBEDDED;
    options.allocator = &allocator;
    options.host_devices = 2;
    memset(&embedded, 0, sizeof embedded);
    CHECK(ferry_engine_create(&options, &embedded.engine, NULL) == FERRY_OK);
    pthread_t waiting[WAITING], progress;
    if (with_progress)
        progress = start_thread(progress_main, NULL);
    for (uintptr_t i = 0; i < WAITING; i++)
        waiting[i] = start_thread(waiting_main, (void *)(i + 1)); /* NOLINT */
    for (int i = 0; i < WAITING; i++)
        join_thread(waiting[i]);
    if (with_progress) {
        stopper = (ferry_waiter)FERRY_WAITER_INIT(stop_progress, NULL);
        ferry_future *last = ferry_nop(embedded.engine, NULL);
        CHECK(ferry_future_on_ready(last, &stopper) == FERRY_OK); /* wakes it, wherever it sleeps */
        ferry_future_release(last);
        join_thread(progress);
    }
    exchange_promise(NULL);
    CHECK(ferry_engine_shutdown(embedded.engine, -1) == FERRY_OK);
    thread_executor_wait_idle(&own_thread);
    ferry_engine_release(embedded.engine);
    CHECK(failing_allocator_live_bytes(&counting) == 0);
    CHECK(atomic_load(&embedded.waits) == WAITING * 400 * EFFORT);
    CHECK(atomic_load(&embedded.calls) == atomic_load(&embedded.waits));
    (void)printf("embedded%s: %lu waits, %lu progress, %lu sleeps\n",
                 with_progress ? " with a loop" : "", atomic_load(&embedded.waits),
                 atomic_load(&embedded.progress), atomic_load(&embedded.sleeps));
}

int main(void)
{
    end_if_hung(HANG_S);
    CHECK(thread_executor_start(&own_thread));
    for (uint64_t round = 0; round < ROUNDS; round++)
        run_storm(round);
    CHECK(met.cancels && met.removals && met.resolutions && met.records && met.shut_down);
    run_errors();
    run_embedded(true);
    run_embedded(false);
    thread_executor_stop(&own_thread);
    return 0;
}
