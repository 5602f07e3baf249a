/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs against an oracle that is plain submit order.
 *   random_graph [COUNT [FIRST [TIMES]]]  runs COUNT seeds from FIRST on, each so often; exit 0:
 * all as the oracle says With FERRY_TEST_DEVICES its buffers are on GPUs, or some of them in host
 * memory of both sorts, and among the operations is work of the program's own on streams of its
 * own. A failure names its seed and op; running that seed alone runs the same program again, though
 * its races may end otherwise: some thousand times find what is rare. One thread submits, so that
 * the order is known.
 */
#include "tests/support/failing_allocator.h"
#include "tests/support/outside_work.h"
#include "tests/support/played_plan.h"
#include "tests/support/stress.h"
#include "tests/support/test_device.h"
#include "tests/support/thread_executor.h"

#include <sched.h>

#if defined(__SANITIZE_THREAD__)
#define SEEDS 600
#elif defined(__SANITIZE_ADDRESS__)
#define SEEDS 2000
#else
#define SEEDS 6000
#endif
#define GPU_SEEDS (SEEDS / 10) /* a seed opens its GPUs anew */
#define HANG_S 60              /* a seed takes milliseconds */
#define REFUSED_WRITES_MAX 40  /* so that ferry's reserve can stand for each of them */

/* What there is beside the plan. */
static struct {
    ferry_device *devices[PLAN_DEVICES_MAX];
    device_memory wrapped[PLAN_BUFFERS_MAX];
    atomic_uint freed[PLAN_BUFFERS_MAX];
    failing_allocator allocator;
    uint32_t collected; /* ops before this one have been */
    uint32_t refused_writes;
    bool is_stopped;                         /* too many were refused: nothing more is submitted */
    atomic_bool was_tried[PLAN_BUFFERS_MAX]; /* private: to take it back */
} here;

static played_plan run;
static graph_oracle oracle;
static thread_executor own_thread;
static outside_work outside;
static struct {
    uint64_t ops, succeeded, dependency, cancelled, deadline, refused, shut_down, taken_back;
} totals;

/* ---- failing ---- */

/* The emulated CUDA has caught something. */
static void caught(int signal)
{
    (void)signal;
    (void)!write(STDERR_FILENO, stress_place, strlen(stress_place));
    (void)!write(STDERR_FILENO, ": caught\n", 9);
    _exit(1);
}

static void now_at_op(uint32_t op)
{
    now_at("seed %llu op %u", (unsigned long long)run.plan.seed, op);
}

static void fail(uint32_t op, const char *why)
{
    (void)fprintf(stderr, "random_graph: seed %llu op %u: %s\n", (unsigned long long)run.plan.seed,
                  op, why);
    (void)fprintf(stderr, "  %s, %u devices, %u workers, inline %u, max_nodes %u, depth %u%s\n",
                  run.plan.is_embedded ? "embedded" : "own thread", run.plan.device_count,
                  run.plan.worker_count, run.plan.inline_copy_bytes, run.plan.max_nodes,
                  run.plan.stream_depth, run.plan.is_cut_short ? ", cut short" : "");
    for (uint32_t i = 0; i <= op && i < run.plan.op_count; i++) {
        random_plan_print_op(&run.plan, i);
        if (i < op)
            (void)fprintf(stderr, "    %s, id %llu\n", ferry_status_name(run.outcomes[i].status),
                          (unsigned long long)run.outcomes[i].id);
    }
    (void)fprintf(stderr, "random_graph: seed %llu op %u: %s\n", (unsigned long long)run.plan.seed,
                  op, why);
    exit(1);
}

#define CHECK_OP(op_, condition)                                                                   \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail((op_), "not so: " #condition);                                                    \
    } while (0)

/* ---- what ferry calls ---- */

static void look_at_after(played_op *op)
{
    for (uint32_t i = 0; i < op->after_count; i++) {
        if (ferry_future_poll(op->after[i]) == FERRY_PENDING)
            atomic_fetch_add(&op->too_soon, 1);
    }
}

/* A cancelled op's predecessors may be released while it runs, or pending when it resolves. */
static bool keeps_order(uint32_t op)
{
    const plan_op *planned = &run.plan.ops[op];
    return !planned->is_cancelled && planned->deadline == PLAN_NO_DEADLINE &&
           !run.plan.is_cut_short;
}

/* While the program tries to take its memory back, if it does so within a moment. */
static void stay_under_way(uint32_t index)
{
    const plan_op *op = &run.plan.ops[index];
    for (int i = 0; op->executor == PLAN_OWN_THREAD && i < 500 &&
                    !atomic_load(&here.was_tried[op->private_buffer]);
         i++)
        (void)sched_yield();
}

static ferry_status call_function(void *arg)
{
    played_op *op = arg;
    if (keeps_order(op->index))
        look_at_after(op);
    if (run.plan.ops[op->index].is_taken_back)
        stay_under_way(op->index);
    random_plan_transform(&run.plan, op->index, run.memory);
    atomic_fetch_add(&op->runs, 1);
    return run.plan.ops[op->index].result;
}

static void future_ready(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    played_op *op = waiter->arg;
    plan_kind kind = run.plan.ops[op->index].kind;
    bool waits_for_all = kind <= PLAN_NOP || kind == PLAN_ALL || kind == PLAN_BATCH;
    if (waits_for_all && status == FERRY_OK)
        look_at_after(op);
    if (ferry_future_poll(future) != status || status == FERRY_PENDING)
        atomic_fetch_add(&op->too_soon, 1);
    atomic_fetch_add(&op->fired, 1);
}

static void memory_freed(void *arg, void *memory, size_t size_bytes)
{
    (void)memory, (void)size_bytes;
    atomic_fetch_add((atomic_uint *)arg, 1);
}

static ferry_executor *executor_of(plan_executor executor)
{
    return executor == PLAN_ON_LOOP  ? NULL
           : executor == PLAN_INLINE ? ferry_executor_inline()
                                     : &own_thread.executor;
}

/* ---- submitting ---- */

static int64_t deadline_of(const plan_op *op)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t now_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    switch (op->deadline) {
    case PLAN_PAST:
        return 1;
    case PLAN_SOON:
        return now_ns + op->extra_ns;
    case PLAN_FAR:
        return now_ns + INT64_C(3600000000000);
    default:
        return 0;
    }
}

static ferry_future *submit_outside(const played_op *live, const plan_op *op)
{
    const outside_op place = {.plan = &run.plan,
                              .index = live->index,
                              .engine = run.engine,
                              .device = here.devices[op->gpu],
                              .dst = played_span(&run, op->dst),
                              .executor = executor_of(op->executor)};
    if (op->kind == PLAN_EVENT)
        return outside_event(&outside, &place);
    if (op->kind == PLAN_OUTSIDE_WRITE)
        return outside_write(&outside, &place);
    ferry_future *copy = run.ops[live->index - 1].future;
    return copy != NULL ? outside_read(&outside, &place, copy) : NULL;
}

static void count_refused(const plan_op *op)
{
    here.refused_writes += op->kind == PLAN_COPY || op->kind == PLAN_DEFINE;
    for (uint32_t i = 0; i < op->access_count; i++)
        here.refused_writes += (op->accesses[i].mode & FERRY_WRITE) != 0;
    here.is_stopped = here.refused_writes > REFUSED_WRITES_MAX;
}

static bool has_resolved(uint32_t index)
{
    const played_op *live = &run.ops[index];
    return live->future == NULL || (ferry_future_poll(live->future) != FERRY_PENDING &&
                                    (!live->is_waited || atomic_load(&live->fired) != 0));
}

/* So that few nodes go a long way: gives back what no later op can name. */
static void collect_some(uint32_t submitting)
{
    while (run.plan.max_nodes != 0 && here.collected + PLAN_WINDOW < submitting &&
           run.ops[here.collected].promise == NULL && has_resolved(here.collected))
        played_collect(&run, here.collected++);
}

/* What can be seen of an op right after its submit. */
static void note_submitted(uint32_t index)
{
    const plan_op *op = &run.plan.ops[index];
    played_op *live = &run.ops[index];
    plan_outcome *seen = &run.outcomes[index];
    if (op->is_blind)
        return;
    if (op->kind == PLAN_DEFINE) {
        CHECK_OP(index, seen->status == FERRY_OK || seen->status == FERRY_E_AGAIN);
        seen->is_refused = seen->status == FERRY_E_AGAIN;
    } else if (live->future == NULL) {
        CHECK_OP(index, op->kind != PLAN_PROMISE || seen->status == FERRY_E_AGAIN);
        seen->is_absent = true;
    } else {
        seen->is_refused = ferry_future_poll(live->future) == FERRY_E_AGAIN;
    }
    if (seen->is_refused)
        count_refused(op);
    if (live->future != NULL && op->has_waiter) {
        live->waiter = (ferry_waiter)FERRY_WAITER_INIT(future_ready, live);
        live->waiter.executor = executor_of(op->waiter_executor);
        live->is_waited = true;
        CHECK_OP(index, ferry_future_on_ready(live->future, &live->waiter) == FERRY_OK);
    }
}

static void do_submit(uint32_t index)
{
    const plan_op *op = &run.plan.ops[index];
    uint32_t first = index - op->member_count;
    run.ops[index].index = index;
    for (uint32_t i = first; i <= index; i++)
        run.outcomes[i].is_absent = here.is_stopped;
    if (here.is_stopped)
        return;
    collect_some(first);
    played_hold_after(&run, index, op->after_count);
    if (op->kind == PLAN_BATCH)
        played_submit_batch(&run, first, index);
    else if (op->kind >= PLAN_EVENT)
        run.ops[index].future = submit_outside(&run.ops[index], op);
    else
        run.ops[index].future = played_submit(&run, index);
    for (uint32_t i = first; i <= index; i++)
        note_submitted(i);
}

/* ---- the other steps ---- */

static void end_promise(uint32_t index)
{
    played_op *live = &run.ops[index];
    const plan_op *op = &run.plan.ops[index];
    if (live->promise == NULL)
        return;
    if (!op->is_dropped) {
        ferry_status status = ferry_promise_resolve(live->promise, op->result, "by plan");
        CHECK_OP(index, status == FERRY_OK || (op->is_cancelled && status == FERRY_E_CANCELLED));
        CHECK_OP(index, status != FERRY_OK || ferry_future_poll(live->future) == op->result);
        CHECK_OP(index, ferry_promise_resolve(live->promise, FERRY_OK, NULL) != FERRY_OK);
    }
    ferry_promise_release(live->promise);
    live->promise = NULL;
}

static void remove_waiter(uint32_t index)
{
    played_op *live = &run.ops[index];
    if (live->future == NULL || !live->is_waited)
        return;
    if (ferry_waiter_remove(&live->waiter)) {
        live->is_waited = false;
        CHECK_OP(index, atomic_load(&live->fired) == 0);
    }
}

static void wait_a_little(const plan_step *step)
{
    if (run.ops[step->op].future != NULL)
        (void)ferry_future_wait(run.ops[step->op].future, step->extra_ns);
}

/* The functions of a cancelled batch that run on the loop: others may have begun unseen. */
static void note_runs(uint32_t index)
{
    for (uint32_t i = index - run.plan.ops[index].member_count; i < index; i++) {
        run.ops[i].is_over = run.plan.ops[i].executor != PLAN_OWN_THREAD;
        run.ops[i].runs_then = atomic_load(&run.ops[i].runs);
    }
}

/* If the batch is not quiet soon the step is left out: it may wait for what comes later. */
static void take_back(uint32_t index, bool cancels)
{
    ferry_future *batch = run.ops[index].future;
    uint32_t buffer = run.plan.ops[index].private_buffer;
    if (batch == NULL)
        return;
    if (cancels)
        CHECK_OP(index, ferry_future_cancel(batch) == FERRY_OK);
    if (cancels && ferry_future_wait(batch, 20000000) == FERRY_E_CANCELLED)
        note_runs(index);
    ferry_future *quiet = ferry_future_quiet(batch);
    ferry_status status = ferry_future_wait(quiet, cancels ? 20000000 : 200000);
    ferry_future_release(quiet);
    for (uint32_t at = 0; status == FERRY_OK && at < run.plan.buffers[buffer].size_bytes; at++)
        run.memory[buffer][at] = random_plan_mine(&run.plan, buffer, at);
    run.is_mine[buffer] = status == FERRY_OK;
    totals.taken_back += status == FERRY_OK;
    atomic_store(&here.was_tried[buffer], true);
}

static void do_step(const plan_step *step)
{
    now_at_op(step->op);
    switch (step->action) {
    case PLAN_SUBMIT:
        do_submit(step->op);
        break;
    case PLAN_END_PROMISE:
        end_promise(step->op);
        break;
    case PLAN_CANCEL:
        if (run.ops[step->op].future != NULL)
            CHECK_OP(step->op, ferry_future_cancel(run.ops[step->op].future) == FERRY_OK);
        break;
    case PLAN_REMOVE_WAITER:
        remove_waiter(step->op);
        break;
    case PLAN_WAIT:
        wait_a_little(step);
        break;
    case PLAN_OPEN_GATE:
        outside_open_gate(&outside, step->op);
        break;
    case PLAN_TAKE_BACK:
        take_back(step->op, step->extra_ns != 0);
        break;
    case PLAN_PROGRESS:
        if (run.plan.is_embedded)
            (void)ferry_engine_progress(run.engine, (size_t)step->extra_ns);
        else
            (void)sched_yield();
        break;
    }
}

/* ---- beginning and ending ---- */

static void open_buffers(void)
{
    for (uint32_t i = 0; i < run.plan.buffer_count + run.plan.private_count; i++) {
        const plan_buffer *planned = &run.plan.buffers[i];
        ferry_device *device = planned->place == PLAN_ON_DEVICE
                                   ? here.devices[planned->device]
                                   : ferry_device_at(run.engine, planned->device);
        if (planned->is_wrapped) {
            here.wrapped[i] = alloc_device_memory(device, planned->size_bytes);
            CHECK_OP(0, here.wrapped[i].bytes != NULL);
            CHECK_OP(0,
                     ferry_buffer_wrap(device, here.wrapped[i].bytes, planned->size_bytes,
                                       memory_freed, &here.freed[i], &run.buffers[i]) == FERRY_OK);
        } else {
            ferry_memory kind =
                planned->place == PLAN_PINNED ? FERRY_MEMORY_PINNED : FERRY_MEMORY_DEFAULT;
            CHECK_OP(0, ferry_buffer_alloc_kind(device, planned->size_bytes, kind,
                                                &run.buffers[i]) == FERRY_OK);
        }
        run.memory[i] = ferry_buffer_data(run.buffers[i]);
        for (uint32_t at = 0; at < planned->size_bytes; at++)
            run.memory[i][at] = random_plan_initial(&run.plan, i, at);
    }
}

static void open_devices(void)
{
    for (uint32_t i = 0; i < run.plan.device_count; i++) {
        char name[TEST_DEVICE_NAME_BYTES];
        ferry_device_options options = FERRY_DEVICE_OPTIONS_INIT;
        test_device_name(i, name);
        options.parked_streams = run.plan.parked_streams;
        options.staging_bytes = run.plan.staging_bytes;
        options.completion =
            run.plan.asks_events ? FERRY_COMPLETION_EVENTS : FERRY_COMPLETION_DEFAULT;
        CHECK_OP(0, ferry_device_open(run.engine, name, run.plan.gpu_count != 0 ? &options : NULL,
                                      &here.devices[i], NULL) == FERRY_OK);
    }
}

static void open_engine(void)
{
    static ferry_allocator allocator;
    failing_allocator_init(&here.allocator);
    allocator = failing_allocator_interface(&here.allocator);
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.loop = run.plan.is_embedded ? FERRY_LOOP_EMBEDDED : FERRY_LOOP_THREAD;
    options.host_devices = run.plan.device_count;
    options.host_workers = run.plan.worker_count;
    options.max_nodes = run.plan.max_nodes;
    options.inline_copy_bytes = run.plan.inline_copy_bytes;
    options.stream_depth = run.plan.stream_depth;
    options.flight_records = run.plan.flight_records;
    options.spin_ns = run.plan.spin_ns;
    options.allocator = &allocator;
    options.log = no_log;
    CHECK_OP(0, ferry_engine_create(&options, &run.engine, NULL) == FERRY_OK);
    thread_executor_set_lifo(&own_thread, run.plan.is_executor_lifo);
}

static void release_wrapped_early(void)
{
    for (uint32_t i = 0; i < run.plan.buffer_count; i++) {
        if (run.plan.buffers[i].is_wrapped && run.plan.buffers[i].is_released_early) {
            ferry_buffer_release(run.buffers[i]);
            run.buffers[i] = NULL;
        }
    }
}

/* A view needs a node, and with few of them that may take some waiting. */
static void wait_view(uint32_t index, ferry_future *(*view)(ferry_future *), ferry_future *of)
{
    ferry_status status;
    do {
        ferry_future *future = view(of);
        status = ferry_future_wait(future, -1);
        ferry_future_release(future);
        if (status == FERRY_E_AGAIN && run.plan.is_embedded)
            (void)ferry_engine_progress(run.engine, 0);
    } while (status == FERRY_E_AGAIN && run.plan.max_nodes != 0);
    CHECK_OP(index, status == FERRY_OK);
}

static ferry_future *drain_view(ferry_future *unused)
{
    (void)unused;
    return ferry_engine_drain(run.engine);
}

/* Everything resolves, and gets quiet. With few nodes each handle goes as soon as it can. */
static void settle(void)
{
    for (uint32_t i = 0; i < run.plan.op_count; i++) {
        now_at_op(i);
        if (run.ops[i].future == NULL)
            continue;
        CHECK_OP(i, ferry_future_wait(run.ops[i].future, -1) != FERRY_PENDING);
        if (run.plan.max_nodes == 0)
            wait_view(i, ferry_future_quiet, run.ops[i].future);
    }
    for (uint32_t i = 0; i < run.plan.op_count && run.plan.max_nodes != 0; i++) {
        now_at_op(i);
        while (!has_resolved(i))
            (void)ferry_engine_progress(run.engine, 0); /* for the waiter; else a loop's matter */
        played_collect(&run, i);
    }
    wait_view(run.plan.op_count, drain_view, NULL);
}

static void check_handles(void)
{
    for (uint32_t i = 0; i < run.plan.op_count; i++) {
        played_op *live = &run.ops[i];
        CHECK_OP(i, has_resolved(i));
        CHECK_OP(i, atomic_load(&live->fired) == live->is_waited);
        CHECK_OP(i, atomic_load(&live->too_soon) == 0);
        CHECK_OP(i, !live->is_over || atomic_load(&live->runs) == live->runs_then);
        played_collect(&run, i);
        run.outcomes[i].runs = atomic_load(&live->runs);
        if (run.plan.ops[i].kind == PLAN_OUTSIDE_READ)
            run.outcomes[i].read_bytes = outside_read_bytes(&outside, i);
    }
}

static void check_results(void)
{
    if (!played_check(&run, &oracle))
        fail(oracle.op, oracle.why);
}

static void close_engine(void)
{
    if (run.plan.is_engine_first)
        ferry_engine_release(run.engine);
    for (uint32_t i = 0; i < run.plan.op_count; i++)
        ferry_promise_release(run.ops[i].promise);
    for (uint32_t i = 0; i < PLAN_BUFFERS_MAX; i++)
        ferry_buffer_release(run.buffers[i]);
    for (uint32_t i = 0; i < run.plan.buffer_count; i++) {
        CHECK_OP(i, atomic_load(&here.freed[i]) == run.plan.buffers[i].is_wrapped);
        free_device_memory(&here.wrapped[i]);
    }
    if (!run.plan.is_engine_first)
        ferry_engine_release(run.engine);
    char why[64];
    int64_t live_bytes = failing_allocator_live_bytes(&here.allocator);
    (void)snprintf(why, sizeof why, "%lld bytes are still live", (long long)live_bytes);
    if (live_bytes != 0)
        fail(run.plan.op_count, why);
}

static void count_statuses(void)
{
    for (uint32_t i = 0; i < run.plan.op_count; i++) {
        ferry_status status = run.outcomes[i].status;
        if (run.plan.ops[i].is_blind)
            continue;
        totals.ops += !run.outcomes[i].is_absent;
        totals.succeeded += status == FERRY_OK;
        totals.dependency += status == FERRY_E_DEPENDENCY;
        totals.cancelled += status == FERRY_E_CANCELLED;
        totals.deadline += status == FERRY_E_DEADLINE;
        totals.refused += run.outcomes[i].is_refused;
        totals.shut_down += status == FERRY_E_SHUTDOWN;
    }
}

/* Events that have not fired keep a shutdown from its end. */
static void open_gates(void)
{
    if (run.plan.is_cut_short) {
        ferry_status status = ferry_engine_shutdown(run.engine, 0);
        CHECK_OP(run.plan.op_count, status == FERRY_OK || status == FERRY_E_DEADLINE);
    }
    outside_open_gates(&outside, &run.plan);
}

static void run_seed(uint64_t seed)
{
    memset(&here, 0, sizeof here);
    memset(&run, 0, sizeof run);
    run.deadline_ns = deadline_of;
    run.executor_of = executor_of;
    run.call = call_function;
    random_plan_make(&run.plan, seed, (uint32_t)test_gpu_count());
    if (run.plan.gpu_count != 0)
        outside_work_begin(&outside);
    open_engine();
    open_devices();
    open_buffers();
    for (uint32_t i = 0; i < run.plan.step_count; i++)
        do_step(&run.plan.steps[i]);
    release_wrapped_early();
    if (run.plan.gpu_count != 0)
        open_gates();
    if (!run.plan.is_cut_short)
        settle();
    CHECK_OP(run.plan.op_count, ferry_engine_shutdown(run.engine, -1) == FERRY_OK);
    outside_work_finish(&outside);
    thread_executor_wait_idle(&own_thread);
    check_handles();
    check_results();
    close_engine();
    count_statuses();
}

int main(int argc, char **argv)
{
    uint32_t gpu_count = (uint32_t)test_gpu_count();
    seeds seeds = {.count = gpu_count != 0 ? GPU_SEEDS : SEEDS, .first = 1, .hang_s = HANG_S};
    CHECK(graph_oracle_init(&oracle) && thread_executor_start(&own_thread));
    CHECK(signal(SIGABRT, caught) != SIG_ERR);
    if (gpu_count != 0 && !outside_work_open(&outside, gpu_count)) {
        (void)fputs("random_graph: there is no CUDA\n", stderr);
        return 2;
    }
    run_seeds(argc, argv, &seeds, run_seed);
    thread_executor_stop(&own_thread);
    (void)printf("%llu seeds, %llu ops: %llu ok, %llu dependency, %llu cancelled, %llu deadline, "
                 "%llu refused, %llu shut down; %llu batches taken back; %llu bytes compared\n",
                 (unsigned long long)(seeds.count * seeds.times), (unsigned long long)totals.ops,
                 (unsigned long long)totals.succeeded, (unsigned long long)totals.dependency,
                 (unsigned long long)totals.cancelled, (unsigned long long)totals.deadline,
                 (unsigned long long)totals.refused, (unsigned long long)totals.shut_down,
                 (unsigned long long)totals.taken_back, (unsigned long long)oracle.bytes_compared);
    if (gpu_count != 0)
        (void)printf("outside: %lu events, %lu writes at once, %lu gated, %lu reads, %lu reads "
                     "refused\n",
                     outside.totals.events, outside.totals.writes_at_once,
                     outside.totals.gated_writes, outside.totals.reads,
                     outside.totals.reads_refused);
    outside_work_close(&outside);
    graph_oracle_destroy(&oracle);
    return 0;
}
