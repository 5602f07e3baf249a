/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs on devices that run things in the worst order allowed (tests/support/fake_device)
 * against an oracle that is plain submit order.
 *   fake_graph [COUNT [FIRST]]  runs COUNT seeds from FIRST on; exit 0: all as the oracle says
 * Many of a plan's promises are events of the program's own streams, and many copies are after
 * another one. Such an event fires only after a copy that has nothing to do with it, submitted when
 * much already waits for the event: so whatever keeps that copy behind it hangs, and is caught.
 * Some seeds have devices that refuse or fail single copies. In others a device is lost somewhere
 * in the midst, and found again at the end: which operations that hits is not the oracle's to say,
 * but all must resolve, name a failure that happened, and be quiet in the end. Embedded plans run
 * in one thread, by a clock that stands still between steps: a seed repeats exactly. The others
 * have the loop's thread and one for the devices.
 */
#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/graph/lane.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/fake_device.h"
#include "tests/support/played_plan.h"
#include "tests/support/stepped_clock.h"
#include "tests/support/stress.h"

#include <sched.h>

#if defined(__SANITIZE_THREAD__)
#define SEEDS 300
#elif defined(__SANITIZE_ADDRESS__)
#define SEEDS 750
#else
#define SEEDS 2500
#endif
#define HANG_S 60
#define GPUS 3
#define STREAMS 3 /* of the program's, a device */
#define SCRATCH_BYTES 64
#define START_NS 1000000000
#define EVENTS_MAX (2 * PLAN_OPS_MAX)
#define IDLE_ROUNDS 200 /* in one thread: so often nothing can go on before it hangs */
#define TAKE_BACK_ROUNDS 30
#define LOSES_EACH 5 /* so many seeds */

typedef struct outside_event {
    uint32_t gpu, stream;
    ferry_future *before; /* it may fire when this has resolved */
    bool is_released;
} outside_event;

/* What was recorded on a stream of the program's. */
typedef struct user_stream {
    uint32_t events[EVENTS_MAX];
    uint32_t count, gone; /* how many may fire, from the first on */
} user_stream;

/* What there is beside the plan. */
static struct {
    uint64_t random;
    bool is_mixed; /* some devices are hosts */
    bool loses;    /* a device, before this step */
    uint32_t lost_gpu, lost_at;
    bool is_lost;
    failing_allocator allocator;
    stepped_clock time;
    fake_world *world;
    fake_device *gpus[GPUS];
    ferry_device *devices[GPUS];
    user_stream streams[GPUS][STREAMS];
    outside_event events[EVENTS_MAX];
    uint32_t event_count;
    ferry_buffer *scratch[GPUS][2];
    pthread_t thread; /* the devices', unless it is embedded */
    atomic_bool is_over;
} here;

static played_plan run;
static graph_oracle oracle;
static struct {
    uint64_t ops, succeeded, dependency, cancelled, deadline, device, shut_down, events, parked,
        taken_back;
} totals;

static void write_out(void *arg, const char *text, size_t size_bytes)
{
    (void)arg;
    (void)fwrite(text, 1, size_bytes, stderr);
}

static void now_at_op(uint32_t op)
{
    now_at("seed %llu op %u", (unsigned long long)run.plan.seed, op);
}

static void fail(uint32_t op, const char *why)
{
    if (run.engine != NULL)
        (void)ferry_engine_dump(run.engine, FERRY_DUMP_JSON, write_out, NULL);
    for (uint32_t i = 0; i <= op && i < run.plan.op_count; i++) {
        random_plan_print_op(&run.plan, i);
        (void)fprintf(stderr, "    %s%s, id %llu\n", run.ops[i].event != 0 ? "event, " : "",
                      ferry_status_name(run.outcomes[i].status),
                      (unsigned long long)run.outcomes[i].id);
    }
    (void)fprintf(stderr, "fake_graph: seed %llu op %u, %s: %s\n",
                  (unsigned long long)run.plan.seed, op,
                  run.plan.is_embedded ? "embedded" : "own thread", why);
    exit(1);
}

#define CHECK_OP(op_, condition)                                                                   \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail((op_), "not so: " #condition);                                                    \
    } while (0)

static uint64_t draw(uint64_t bound)
{
    here.random ^= here.random << 13;
    here.random ^= here.random >> 7;
    here.random ^= here.random << 17;
    return here.random % bound;
}

/* ---- events ---- */

static void release_events(void)
{
    for (uint32_t gpu = 0; gpu < GPUS; gpu++) {
        for (uint32_t i = 0; i < STREAMS; i++) {
            user_stream *stream = &here.streams[gpu][i];
            for (; stream->gone < stream->count; stream->gone++) {
                outside_event *event = &here.events[stream->events[stream->gone]];
                if (event->before != NULL && ferry_future_poll(event->before) != FERRY_PENDING)
                    event->is_released = true;
                if (!event->is_released)
                    break;
                fake_user_go(here.gpus[gpu], fake_user_stream(here.gpus[gpu], i), 1);
            }
        }
    }
}

static ferry_future *record_event(uint32_t index)
{
    outside_event *event = &here.events[here.event_count];
    event->gpu = (uint32_t)draw(GPUS);
    if (here.is_lost && event->gpu == here.lost_gpu)
        event->gpu = (event->gpu + 1) % GPUS; /* one that a lost device refuses is never quiet */
    event->stream = (uint32_t)draw(STREAMS);
    user_stream *stream = &here.streams[event->gpu][event->stream];
    void *native = fake_user_stream(here.gpus[event->gpu], event->stream);
    ferry_future *future = ferry_event_record(here.devices[event->gpu], native);
    CHECK_OP(index, ferry_future_poll(future) >= 0 || here.loses);
    stream->events[stream->count++] = here.event_count++;
    totals.events++;
    return future;
}

/* On the device whose stream it is. */
static void let_event_fire(outside_event *event)
{
    ferry_buffer *const *scratch = here.scratch[event->gpu];
    if (event->before == NULL)
        event->before = ferry_copy(run.engine, ferry_buffer_span(scratch[1]),
                                   ferry_buffer_span(scratch[0]), NULL);
}

/* ---- time ---- */

/* Then it is up to others, too, whether anything happens: only time tells a hang. */
static bool has_threads(void)
{
    return !run.plan.is_embedded || here.is_mixed;
}

static ferry_status do_nothing(void *arg)
{
    (void)arg;
    return FERRY_OK;
}

/* The devices do something, then the engine. Returns whether anything happened, or still may. */
static bool advance(void)
{
    if (!run.plan.is_embedded) {
        (void)sched_yield();
        if (here.loses) /* the loop sleeps beside a lost device, and need not see that it is back */
            ferry_future_release(ferry_call(run.engine, NULL, do_nothing, NULL, NULL));
        release_events();
        return true;
    }
    release_events();
    bool moved = fake_run_some(here.world, draw(4)) != 0;
    moved = ferry_engine_progress(run.engine, draw(3)) > 0 || moved;
    return moved || has_threads();
}

static bool is_pending(const ferry_future *future)
{
    return future != NULL && ferry_future_poll(future) == FERRY_PENDING;
}

/* With everything released. */
static void wait_for(uint32_t index, ferry_future *future)
{
    now_at_op(index);
    uint32_t idle = 0;
    while (is_pending(future)) {
        idle = advance() ? 0 : idle + 1;
        CHECK_OP(index, idle < IDLE_ROUNDS);
    }
}

static void *devices_run(void *arg)
{
    (void)arg;
    while (!atomic_load(&here.is_over)) {
        if (fake_run_some(here.world, 3) == 0)
            (void)sched_yield();
    }
    return NULL;
}

/* ---- submitting ---- */

static ferry_status call_function(void *arg)
{
    played_op *op = arg;
    random_plan_transform(&run.plan, op->index, run.memory);
    atomic_fetch_add(&op->runs, 1);
    return run.plan.ops[op->index].result;
}

static int64_t deadline_of(const plan_op *op)
{
    int64_t now_ns = run.plan.is_embedded ? atomic_load(&here.time.now_ns) : START_NS;
    switch (op->deadline) {
    case PLAN_PAST:
        return 1;
    case PLAN_SOON:
        return run.plan.is_embedded ? now_ns + op->extra_ns : INT64_MAX;
    case PLAN_FAR:
        return INT64_MAX;
    default:
        return 0;
    }
}

/* An event that fires in place of it, or NULL. */
static ferry_future *event_for_promise(played_op *live, const plan_op *op)
{
    if (op->result != FERRY_OK || op->is_dropped || draw(4) == 0)
        return NULL;
    live->event = here.event_count + 1;
    return record_event(live->index);
}

static ferry_executor *on_loop(plan_executor executor)
{
    (void)executor;
    return NULL;
}

static void do_submit(uint32_t index)
{
    const plan_op *op = &run.plan.ops[index];
    played_op *live = &run.ops[index];
    live->index = index;
    played_hold_after(&run, index, op->after_count);
    if (op->kind == PLAN_COPY && live->after_count < PLAN_AFTER_MAX && !run.plan.is_cut_short &&
        draw(2) == 0)
        live->after[live->after_count++] = record_event(index); /* which only delays it */
    if (op->kind == PLAN_PROMISE)
        live->future = event_for_promise(live, op);
    if (op->kind == PLAN_BATCH)
        played_submit_batch(&run, index - op->member_count, index);
    else if (live->future == NULL)
        live->future = played_submit(&run, index);
    run.outcomes[index].is_absent =
        live->future == NULL && op->kind != PLAN_DEFINE && !op->is_blind;
    CHECK_OP(index, !run.outcomes[index].is_absent && run.outcomes[index].status == FERRY_OK);
}

/* ---- the other steps ---- */

static void end_promise(uint32_t index)
{
    played_op *live = &run.ops[index];
    const plan_op *op = &run.plan.ops[index];
    if (live->event != 0)
        let_event_fire(&here.events[live->event - 1]);
    if (live->promise == NULL)
        return;
    if (!op->is_dropped)
        (void)ferry_promise_resolve(live->promise, op->result, NULL);
    ferry_promise_release(live->promise);
    live->promise = NULL;
}

/* If the batch is not quiet soon the step is left out: it may wait for what comes later. */
static void take_back(uint32_t index, bool cancels)
{
    ferry_future *batch = run.ops[index].future;
    uint32_t buffer = run.plan.ops[index].private_buffer;
    if (cancels)
        CHECK_OP(index, ferry_future_cancel(batch) == FERRY_OK);
    ferry_future *quiet = ferry_future_quiet(batch);
    for (int i = 0; i < TAKE_BACK_ROUNDS && is_pending(quiet); i++)
        (void)advance();
    ferry_status status = ferry_future_poll(quiet);
    ferry_future_release(quiet);
    if (status != FERRY_OK)
        return;
    for (uint32_t at = 0; at < run.plan.buffers[buffer].size_bytes; at++)
        run.memory[buffer][at] = random_plan_mine(&run.plan, buffer, at);
    run.is_mine[buffer] = true;
    totals.taken_back++;
}

static void do_step(const plan_step *step)
{
    now_at_op(step->op);
    if (step->action == PLAN_SUBMIT)
        do_submit(step->op);
    else if (step->action == PLAN_END_PROMISE)
        end_promise(step->op);
    else if (step->action == PLAN_CANCEL && run.ops[step->op].future != NULL)
        CHECK_OP(step->op, ferry_future_cancel(run.ops[step->op].future) == FERRY_OK);
    else if (step->action == PLAN_TAKE_BACK)
        take_back(step->op, step->extra_ns != 0);
    else if (step->action == PLAN_WAIT && run.plan.is_embedded)
        stepped_clock_step(&here.time, (int64_t)draw(20000));
    else if (step->action == PLAN_WAIT && run.ops[step->op].future != NULL)
        (void)ferry_future_wait(run.ops[step->op].future, step->extra_ns);
    if (here.event_count != 0 && draw(6) == 0)
        let_event_fire(&here.events[draw(here.event_count)]);
    if (draw(3) == 0)
        (void)advance();
}

/* ---- beginning ---- */

static void open_engine(void)
{
    static ferry_allocator allocator;
    static ferry_clock clock;
    failing_allocator_init(&here.allocator);
    allocator = failing_allocator_interface(&here.allocator);
    stepped_clock_init(&here.time, START_NS);
    clock = stepped_clock_interface(&here.time);
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.loop = run.plan.is_embedded ? FERRY_LOOP_EMBEDDED : FERRY_LOOP_THREAD;
    options.host_devices = PLAN_DEVICES_MAX;
    options.host_workers = 1;
    options.stream_depth = run.plan.stream_depth;
    options.flight_records = run.plan.flight_records;
    options.submit_budget = draw(2) == 0 ? 0 : 1 + (uint32_t)draw(3);
    options.allocator = &allocator;
    options.clock = run.plan.is_embedded ? &clock : NULL;
    options.log = no_log;
    CHECK_OP(0, ferry_engine_create(&options, &run.engine, NULL) == FERRY_OK);
    here.world = fake_world_create(run.plan.seed);
    CHECK_OP(0, here.world != NULL);
    for (uint32_t i = 0; i < GPUS; i++) {
        char name[] = "fake:0";
        name[5] = (char)('0' + i);
        fake_options gpu = {.name = name,
                            .parked_count = draw(5),
                            .outside_count = STREAMS,
                            .is_polled = here.loses || !run.plan.is_embedded || draw(2) == 0};
        here.gpus[i] = fake_world_add(here.world, &gpu);
        CHECK_OP(0, here.gpus[i] != NULL);
        CHECK_OP(0, fry_lane_attach(run.engine, fake_backend(here.gpus[i]), &here.devices[i]) ==
                        FERRY_OK);
        for (int j = 0; j < 2; j++)
            CHECK_OP(0, ferry_buffer_alloc(here.devices[i], SCRATCH_BYTES, &here.scratch[i][j]) ==
                            FERRY_OK);
    }
}

static void open_buffers(void)
{
    for (uint32_t i = 0; i < run.plan.buffer_count + run.plan.private_count; i++) {
        const plan_buffer *planned = &run.plan.buffers[i];
        bool is_host = here.is_mixed && planned->device % 2 == 0;
        ferry_device *device = is_host ? ferry_device_at(run.engine, planned->device)
                                       : here.devices[planned->device % GPUS];
        CHECK_OP(0, ferry_buffer_alloc(device, planned->size_bytes, &run.buffers[i]) == FERRY_OK);
        run.memory[i] = ferry_buffer_data(run.buffers[i]);
        for (uint32_t at = 0; at < planned->size_bytes; at++)
            run.memory[i][at] = random_plan_initial(&run.plan, i, at);
    }
}

/* The oracle knows what can't happen to an op of which nothing is seen. */
static bool has_blind_ops(void)
{
    for (uint32_t i = 0; i < run.plan.op_count; i++) {
        if (run.plan.ops[i].is_blind)
            return true;
    }
    return false;
}

static void script_faults(void)
{
    if (here.loses) {
        here.lost_gpu = (uint32_t)draw(GPUS);
        here.lost_at = (uint32_t)draw(run.plan.step_count);
    }
    if (run.plan.seed % 8 != 0 || has_blind_ops())
        return;
    run.plan.copies_may_fail = true;
    for (uint32_t i = 0; i < GPUS; i++) {
        fake_refuse_copy(here.gpus[i], draw(20));
        fake_strike_copy(here.gpus[i], draw(20));
    }
}

static void lose(bool is_lost)
{
    here.is_lost = is_lost;
    fake_lose(here.gpus[here.lost_gpu], is_lost);
}

/* ---- ending ---- */

static void end_all_promises(void)
{
    for (uint32_t i = 0; i < run.plan.op_count; i++)
        end_promise(i);
    for (uint32_t i = 0; i < here.event_count; i++)
        let_event_fire(&here.events[i]);
}

static void release_all_events(void)
{
    for (uint32_t i = 0; i < here.event_count; i++)
        here.events[i].is_released = true;
}

static void settle(void)
{
    for (uint32_t i = 0; i < run.plan.op_count; i++)
        wait_for(i, run.ops[i].future);
    ferry_future *drain = ferry_engine_drain(run.engine);
    wait_for(run.plan.op_count, drain);
    ferry_future_release(drain);
}

static void shut_down(void)
{
    for (uint32_t idle = 0; ferry_engine_shutdown(run.engine, 0) == FERRY_E_DEADLINE;) {
        release_events();
        bool moved = fake_run_some(here.world, 3) != 0 || has_threads();
        idle = moved ? 0 : idle + 1;
        CHECK_OP(run.plan.op_count, idle < IDLE_ROUNDS);
        (void)sched_yield();
    }
}

static void count_statuses(void)
{
    for (uint32_t i = 0; i < run.plan.op_count; i++) {
        ferry_status status = run.outcomes[i].status;
        totals.ops++;
        totals.succeeded += status == FERRY_OK;
        totals.dependency += status == FERRY_E_DEPENDENCY;
        totals.cancelled += status == FERRY_E_CANCELLED;
        totals.deadline += status == FERRY_E_DEADLINE;
        totals.device += status == FERRY_E_DEVICE;
        totals.shut_down += status == FERRY_E_SHUTDOWN;
    }
    for (uint32_t i = 0; i < GPUS; i++) {
        const ferry_device *device = here.devices[i];
        for (uint32_t j = 0; j < device->lane_count; j++) {
            if (device->lanes[j].stream->kind == FRY_STREAM_PARKED)
                totals.parked += device->lanes[j].stream->issued;
        }
    }
}

/* What an operation names as its cause has failed itself, and in that way; or it is a batch that
 * was cancelled, which may have failed before that. */
static void check_causes(void)
{
    for (uint32_t i = 0; i < run.plan.op_count; i++) {
        const plan_outcome *seen = &run.outcomes[i];
        CHECK_OP(i, seen->error_status == seen->status && seen->runs <= 1);
        for (uint32_t j = 0; seen->cause_op != 0 && j < run.plan.op_count; j++) {
            if (run.outcomes[j].id == seen->cause_op && run.plan.ops[j].kind != PLAN_BATCH)
                CHECK_OP(i, run.outcomes[j].status == seen->cause_status);
        }
    }
}

static void check_results(void)
{
    if (fake_complaint(here.world) != NULL)
        fail(run.plan.op_count, fake_complaint(here.world));
    if (here.loses) {
        check_causes();
        return;
    }
    if (!played_check(&run, &oracle))
        fail(oracle.op, oracle.why);
}

static void close_engine(void)
{
    for (uint32_t i = 0; i < PLAN_BUFFERS_MAX; i++)
        ferry_buffer_release(run.buffers[i]);
    for (uint32_t i = 0; i < GPUS; i++) {
        ferry_buffer_release(here.scratch[i][0]);
        ferry_buffer_release(here.scratch[i][1]);
    }
    ferry_engine_release(run.engine);
    CHECK_OP(run.plan.op_count, failing_allocator_live_bytes(&here.allocator) == 0);
    fake_world_destroy(here.world);
}

static void run_seed(uint64_t seed)
{
    memset(&here, 0, sizeof here);
    memset(&run, 0, sizeof run);
    run.deadline_ns = deadline_of;
    run.executor_of = on_loop;
    run.call = call_function;
    random_plan_make(&run.plan, seed, 0);
    run.plan.max_nodes = 0; /* nothing is refused here */
    here.random = seed * 0x9e3779b97f4a7c15 + 1;
    here.is_mixed = draw(3) == 0;
    here.loses = seed % LOSES_EACH == 0;
    open_engine();
    open_buffers();
    script_faults();
    if (!run.plan.is_embedded)
        CHECK_OP(0, pthread_create(&here.thread, NULL, devices_run, NULL) == 0);
    for (uint32_t i = 0; i < run.plan.step_count; i++) {
        if (here.loses && i == here.lost_at)
            lose(true);
        do_step(&run.plan.steps[i]);
    }
    if (here.loses)
        lose(false);
    if (run.plan.is_cut_short) {
        release_all_events();
    } else {
        end_all_promises();
        settle();
    }
    shut_down();
    if (!run.plan.is_embedded) {
        atomic_store(&here.is_over, true);
        CHECK_OP(0, pthread_join(here.thread, NULL) == 0);
    }
    for (uint32_t i = 0; i < run.plan.op_count; i++) {
        ferry_promise_release(run.ops[i].promise);
        CHECK_OP(i, !is_pending(run.ops[i].future));
        run.outcomes[i].runs = atomic_load(&run.ops[i].runs);
        played_collect(&run, i);
    }
    for (uint32_t i = 0; i < here.event_count; i++) {
        CHECK_OP(run.plan.op_count, !is_pending(here.events[i].before));
        ferry_future_release(here.events[i].before);
    }
    check_results();
    count_statuses();
    close_engine();
}

int main(int argc, char **argv)
{
    seeds seeds = {.count = SEEDS, .first = 1, .hang_s = HANG_S};
    CHECK(graph_oracle_init(&oracle));
    run_seeds(argc, argv, &seeds, run_seed);
    (void)printf(
        "%llu seeds, %llu ops, %llu events, %llu parked copies: %llu ok, %llu dependency, "
        "%llu cancelled, %llu deadline, %llu device, %llu shut down; %llu batches taken back; "
        "%llu bytes compared\n",
        (unsigned long long)seeds.count, (unsigned long long)totals.ops,
        (unsigned long long)totals.events, (unsigned long long)totals.parked,
        (unsigned long long)totals.succeeded, (unsigned long long)totals.dependency,
        (unsigned long long)totals.cancelled, (unsigned long long)totals.deadline,
        (unsigned long long)totals.device, (unsigned long long)totals.shut_down,
        (unsigned long long)totals.taken_back, (unsigned long long)oracle.bytes_compared);
    graph_oracle_destroy(&oracle);
    return 0;
}
