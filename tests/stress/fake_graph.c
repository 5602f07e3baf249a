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
#include "engine/buffer.h"
#include "engine/engine.h"
#include "engine/lane.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/fake_device.h"
#include "tests/support/graph_oracle.h"
#include "tests/support/random_plan.h"
#include "tests/support/stepped_clock.h"
#include "tests/support/stress.h"

#include <sched.h>

#if defined(__SANITIZE_THREAD__)
#define SEEDS 1000
#elif defined(__SANITIZE_ADDRESS__)
#define SEEDS 1500
#else
#define SEEDS 4000
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

typedef struct live_op {
    ferry_future *future; /* NULL: none */
    ferry_promise *promise;
    ferry_future *after[PLAN_AFTER_MAX];
    uint32_t after_count, planned_after_count;
    uint32_t event; /* it is one: its number plus 1 */
    atomic_uint runs;
} live_op;

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

typedef struct run_state {
    random_plan plan;
    plan_outcome outcomes[PLAN_OPS_MAX];
    live_op ops[PLAN_OPS_MAX];
    uint64_t random;
    bool is_mixed; /* some devices are hosts */
    bool loses;    /* a device, before this step */
    uint32_t lost_gpu, lost_at;
    bool is_lost;
    failing_allocator allocator;
    stepped_clock time;
    ferry_engine *engine;
    fake_world *world;
    fake_device *gpus[GPUS];
    ferry_device *devices[GPUS];
    user_stream streams[GPUS][STREAMS];
    outside_event events[EVENTS_MAX];
    uint32_t event_count;
    ferry_buffer *buffers[PLAN_BUFFERS_MAX];
    unsigned char *memory[PLAN_BUFFERS_MAX];
    bool is_mine[PLAN_BUFFERS_MAX]; /* private, taken back: it holds what the program wrote */
    ferry_buffer *scratch[GPUS][2];
    pthread_t thread; /* the devices', unless it is embedded */
    atomic_bool is_over;
} run_state;

static run_state run;
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
    run.random ^= run.random << 13;
    run.random ^= run.random >> 7;
    run.random ^= run.random << 17;
    return run.random % bound;
}

/* ---- events ---- */

static void release_events(void)
{
    for (uint32_t gpu = 0; gpu < GPUS; gpu++) {
        for (uint32_t i = 0; i < STREAMS; i++) {
            user_stream *stream = &run.streams[gpu][i];
            for (; stream->gone < stream->count; stream->gone++) {
                outside_event *event = &run.events[stream->events[stream->gone]];
                if (event->before != NULL && ferry_future_poll(event->before) != FERRY_PENDING)
                    event->is_released = true;
                if (!event->is_released)
                    break;
                fake_user_go(run.gpus[gpu], fake_user_stream(run.gpus[gpu], i), 1);
            }
        }
    }
}

static ferry_future *record_event(uint32_t index)
{
    outside_event *event = &run.events[run.event_count];
    event->gpu = (uint32_t)draw(GPUS);
    if (run.is_lost && event->gpu == run.lost_gpu)
        event->gpu = (event->gpu + 1) % GPUS; /* one that a lost device refuses is never quiet */
    event->stream = (uint32_t)draw(STREAMS);
    user_stream *stream = &run.streams[event->gpu][event->stream];
    void *native = fake_user_stream(run.gpus[event->gpu], event->stream);
    ferry_future *future = ferry_event_record(run.devices[event->gpu], native);
    CHECK_OP(index, ferry_future_poll(future) >= 0 || run.loses);
    stream->events[stream->count++] = run.event_count++;
    totals.events++;
    return future;
}

/* On the device whose stream it is. */
static void let_event_fire(outside_event *event)
{
    ferry_buffer *const *scratch = run.scratch[event->gpu];
    if (event->before == NULL)
        event->before = ferry_copy(run.engine, ferry_buffer_span(scratch[1]),
                                   ferry_buffer_span(scratch[0]), NULL);
}

/* ---- time ---- */

/* Then it is up to others, too, whether anything happens: only time tells a hang. */
static bool has_threads(void)
{
    return !run.plan.is_embedded || run.is_mixed;
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
        if (run.loses) /* the loop sleeps beside a lost device, and need not see that it is back */
            ferry_future_release(ferry_call(run.engine, NULL, do_nothing, NULL, NULL));
        release_events();
        return true;
    }
    release_events();
    bool moved = fake_run_some(run.world, draw(4)) != 0;
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
    while (!atomic_load(&run.is_over)) {
        if (fake_run_some(run.world, 3) == 0)
            (void)sched_yield();
    }
    return NULL;
}

/* ---- submitting ---- */

static ferry_status call_function(void *arg)
{
    live_op *op = arg;
    uint32_t index = (uint32_t)(op - run.ops);
    random_plan_transform(&run.plan, index, run.memory);
    atomic_fetch_add(&op->runs, 1);
    return run.plan.ops[index].result;
}

static ferry_span span_of(plan_span span)
{
    return (ferry_span){run.buffers[span.buffer], span.offset, span.size};
}

static int64_t deadline_of(const plan_op *op)
{
    int64_t now_ns = run.plan.is_embedded ? atomic_load(&run.time.now_ns) : START_NS;
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

static void hold_after(live_op *live, const plan_op *op, uint32_t count)
{
    for (; live->planned_after_count < count; live->planned_after_count++)
        live->after[live->after_count++] =
            ferry_future_retain(run.ops[op->after[live->planned_after_count]].future);
}

static ferry_op_options options_of(const live_op *live, const plan_op *op, ferry_access *accesses)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    for (uint32_t i = 0; i < op->access_count; i++)
        accesses[i] = (ferry_access){span_of(op->accesses[i].span), op->accesses[i].mode};
    options.accesses = accesses;
    options.access_count = op->access_count;
    options.after = live->after;
    options.after_count = live->after_count;
    options.deadline_ns = deadline_of(op);
    options.priority = op->priority;
    return options;
}

static ferry_future *submit_promise(live_op *live, const plan_op *op, uint32_t index)
{
    if (op->result == FERRY_OK && !op->is_dropped && draw(4) != 0) {
        live->event = run.event_count + 1;
        return record_event(index);
    }
    CHECK_OP(index, ferry_promise_create(run.engine, &live->promise) == FERRY_OK);
    return ferry_promise_future(live->promise);
}

static ferry_future *submit(live_op *live, const plan_op *op, uint32_t index)
{
    ferry_access accesses[PLAN_ACCESSES_MAX];
    ferry_op_options options = options_of(live, op, accesses);
    switch (op->kind) {
    case PLAN_COPY:
        if (op->row_count == 1)
            return ferry_copy(run.engine, span_of(op->dst), span_of(op->src), &options);
        return ferry_copy_rows(run.engine, span_of(op->dst), op->dst_pitch, span_of(op->src),
                               op->src_pitch, op->row_count, &options);
    case PLAN_CALL:
        return ferry_call(run.engine, NULL, call_function, live, &options);
    case PLAN_NOP:
        return ferry_nop(run.engine, &options);
    case PLAN_DEFINE:
        CHECK_OP(index,
                 ferry_buffer_define(span_of(op->dst),
                                     live->after_count != 0 ? live->after[0] : NULL) == FERRY_OK);
        return NULL;
    case PLAN_PROMISE:
        return submit_promise(live, op, index);
    case PLAN_ALL:
        return ferry_future_all(run.engine, live->after, live->after_count);
    case PLAN_ANY:
        return ferry_future_any(run.engine, live->after, live->after_count);
    case PLAN_ISSUED:
        return ferry_future_issued(live->after[0]);
    case PLAN_QUIET:
        return ferry_future_quiet(live->after[0]);
    default:
        return ferry_engine_drain(run.engine);
    }
}

static ferry_op member_of(const plan_op *op, live_op *live, const ferry_op_options *options)
{
    ferry_op member = {.kind = FERRY_OP_NOP, .options = options};
    if (op->kind == PLAN_COPY) {
        member.kind = FERRY_OP_COPY;
        member.dst = span_of(op->dst);
        member.src = span_of(op->src);
        member.row_count = op->row_count;
        member.dst_pitch_bytes = op->dst_pitch;
        member.src_pitch_bytes = op->src_pitch;
    } else if (op->kind == PLAN_CALL) {
        member.kind = FERRY_OP_CALL;
        member.fn = call_function;
        member.arg = live;
    }
    return member;
}

static void submit_batch(uint32_t first, uint32_t index)
{
    const plan_op *batch = &run.plan.ops[index];
    ferry_op ops[PLAN_BATCH_MAX];
    ferry_op_options options[PLAN_BATCH_MAX];
    ferry_access accesses[PLAN_BATCH_MAX][PLAN_ACCESSES_MAX];
    ferry_future *each[PLAN_BATCH_MAX];
    for (uint32_t i = 0; i < batch->member_count; i++) {
        const plan_op *op = &run.plan.ops[first + i];
        live_op *live = &run.ops[first + i];
        hold_after(live, op, op->own_after_count);
        options[i] = options_of(live, op, accesses[i]);
        if (op->has_batch_deadline)
            options[i].deadline_ns = 0;
        hold_after(live, op, op->after_count);
        ops[i] = member_of(op, live, &options[i]);
    }
    bool is_blind = batch->member_count != 0 && run.plan.ops[first].is_blind;
    ferry_op_options shared = options_of(&run.ops[index], batch, NULL);
    run.ops[index].future = ferry_batch(run.engine, ops, sizeof ops[0], batch->member_count,
                                        is_blind ? NULL : each, &shared);
    for (uint32_t i = 0; i < batch->member_count; i++)
        run.ops[first + i].future = is_blind ? NULL : each[i];
}

static void do_submit(uint32_t index)
{
    const plan_op *op = &run.plan.ops[index];
    live_op *live = &run.ops[index];
    hold_after(live, op, op->after_count);
    if (op->kind == PLAN_COPY && live->after_count < PLAN_AFTER_MAX && !run.plan.is_cut_short &&
        draw(2) == 0)
        live->after[live->after_count++] = record_event(index); /* which only delays it */
    if (op->kind == PLAN_BATCH)
        submit_batch(index - op->member_count, index);
    else
        live->future = submit(live, op, index);
    run.outcomes[index].is_absent =
        live->future == NULL && op->kind != PLAN_DEFINE && !op->is_blind;
    CHECK_OP(index, !run.outcomes[index].is_absent);
}

/* ---- the other steps ---- */

static void end_promise(uint32_t index)
{
    live_op *live = &run.ops[index];
    const plan_op *op = &run.plan.ops[index];
    if (live->event != 0)
        let_event_fire(&run.events[live->event - 1]);
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

/* Nothing of ferry's has been there since. */
static void check_taken_back(void)
{
    for (uint32_t i = run.plan.buffer_count; i < run.plan.buffer_count + run.plan.private_count;
         i++) {
        for (uint32_t at = 0; run.is_mine[i] && at < run.plan.buffers[i].size_bytes; at++)
            CHECK_OP(run.plan.op_count, run.memory[i][at] == random_plan_mine(&run.plan, i, at));
    }
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
        stepped_clock_step(&run.time, (int64_t)draw(20000));
    else if (step->action == PLAN_WAIT && run.ops[step->op].future != NULL)
        (void)ferry_future_wait(run.ops[step->op].future, step->extra_ns);
    if (run.event_count != 0 && draw(6) == 0)
        let_event_fire(&run.events[draw(run.event_count)]);
    if (draw(3) == 0)
        (void)advance();
}

/* ---- beginning ---- */

static void open_engine(void)
{
    static ferry_allocator allocator;
    static ferry_clock clock;
    failing_allocator_init(&run.allocator);
    allocator = failing_allocator_interface(&run.allocator);
    stepped_clock_init(&run.time, START_NS);
    clock = stepped_clock_interface(&run.time);
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
    run.world = fake_world_create(run.plan.seed);
    CHECK_OP(0, run.world != NULL);
    for (uint32_t i = 0; i < GPUS; i++) {
        char name[] = "fake:0";
        name[5] = (char)('0' + i);
        fake_options gpu = {.name = name,
                            .parked_count = draw(5),
                            .outside_count = STREAMS,
                            .is_polled = run.loses || !run.plan.is_embedded || draw(2) == 0};
        run.gpus[i] = fake_world_add(run.world, &gpu);
        CHECK_OP(0, run.gpus[i] != NULL);
        CHECK_OP(0, fry_device_attach(run.engine, fake_backend(run.gpus[i]), &run.devices[i]) ==
                        FERRY_OK);
        for (int j = 0; j < 2; j++)
            CHECK_OP(0, ferry_buffer_alloc(run.devices[i], SCRATCH_BYTES, &run.scratch[i][j]) ==
                            FERRY_OK);
    }
}

static void open_buffers(void)
{
    for (uint32_t i = 0; i < run.plan.buffer_count + run.plan.private_count; i++) {
        const plan_buffer *planned = &run.plan.buffers[i];
        bool is_host = run.is_mixed && planned->device % 2 == 0;
        ferry_device *device = is_host ? ferry_device_at(run.engine, planned->device)
                                       : run.devices[planned->device % GPUS];
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
    if (run.loses) {
        run.lost_gpu = (uint32_t)draw(GPUS);
        run.lost_at = (uint32_t)draw(run.plan.step_count);
    }
    if (run.plan.seed % 8 != 0 || has_blind_ops())
        return;
    run.plan.copies_may_fail = true;
    for (uint32_t i = 0; i < GPUS; i++) {
        fake_refuse_copy(run.gpus[i], draw(20));
        fake_strike_copy(run.gpus[i], draw(20));
    }
}

static void lose(bool is_lost)
{
    run.is_lost = is_lost;
    fake_lose(run.gpus[run.lost_gpu], is_lost);
}

/* ---- ending ---- */

static void end_all_promises(void)
{
    for (uint32_t i = 0; i < run.plan.op_count; i++)
        end_promise(i);
    for (uint32_t i = 0; i < run.event_count; i++)
        let_event_fire(&run.events[i]);
}

static void release_all_events(void)
{
    for (uint32_t i = 0; i < run.event_count; i++)
        run.events[i].is_released = true;
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
        bool moved = fake_run_some(run.world, 3) != 0 || has_threads();
        idle = moved ? 0 : idle + 1;
        CHECK_OP(run.plan.op_count, idle < IDLE_ROUNDS);
        (void)sched_yield();
    }
}

static void collect(uint32_t index)
{
    live_op *live = &run.ops[index];
    plan_outcome *seen = &run.outcomes[index];
    CHECK_OP(index, !is_pending(live->future));
    seen->runs = atomic_load(&live->runs);
    if (live->future != NULL) {
        seen->status = ferry_future_poll(live->future);
        seen->id = ferry_future_id(live->future);
        const ferry_error *error = ferry_future_error(live->future);
        if (error != NULL) {
            seen->error_status = error->status;
            seen->error_op = error->op;
            seen->cause_status = error->cause != NULL ? error->cause->status : FERRY_OK;
            seen->cause_op = error->cause != NULL ? error->cause->op : 0;
        }
    }
    ferry_future_release(live->future);
    for (uint32_t i = 0; i < live->after_count; i++)
        ferry_future_release(live->after[i]);
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
        const ferry_device *device = run.devices[i];
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
    if (fake_complaint(run.world) != NULL)
        fail(run.plan.op_count, fake_complaint(run.world));
    if (run.loses) {
        check_causes();
        return;
    }
    check_taken_back();
    if (!graph_oracle_check_outcomes(&oracle, &run.plan, run.outcomes))
        fail(oracle.op, oracle.why);
    for (uint32_t i = 0; i < run.plan.buffer_count; i++) {
        if (!graph_oracle_check_bytes(&oracle, i, run.memory[i]))
            fail(run.plan.op_count, oracle.why);
    }
}

static void close_engine(void)
{
    for (uint32_t i = 0; i < PLAN_BUFFERS_MAX; i++)
        ferry_buffer_release(run.buffers[i]);
    for (uint32_t i = 0; i < GPUS; i++) {
        ferry_buffer_release(run.scratch[i][0]);
        ferry_buffer_release(run.scratch[i][1]);
    }
    ferry_engine_release(run.engine);
    CHECK_OP(run.plan.op_count, failing_allocator_live_bytes(&run.allocator) == 0);
    fake_world_destroy(run.world);
}

static void run_seed(uint64_t seed)
{
    memset(&run, 0, sizeof run);
    random_plan_make(&run.plan, seed, 0);
    run.plan.max_nodes = 0; /* nothing is refused here */
    run.random = seed * 0x9e3779b97f4a7c15 + 1;
    run.is_mixed = draw(3) == 0;
    run.loses = seed % LOSES_EACH == 0;
    open_engine();
    open_buffers();
    script_faults();
    if (!run.plan.is_embedded)
        CHECK_OP(0, pthread_create(&run.thread, NULL, devices_run, NULL) == 0);
    for (uint32_t i = 0; i < run.plan.step_count; i++) {
        if (run.loses && i == run.lost_at)
            lose(true);
        do_step(&run.plan.steps[i]);
    }
    if (run.loses)
        lose(false);
    if (run.plan.is_cut_short) {
        release_all_events();
    } else {
        end_all_promises();
        settle();
    }
    shut_down();
    if (!run.plan.is_embedded) {
        atomic_store(&run.is_over, true);
        CHECK_OP(0, pthread_join(run.thread, NULL) == 0);
    }
    for (uint32_t i = 0; i < run.plan.op_count; i++) {
        ferry_promise_release(run.ops[i].promise);
        collect(i);
    }
    for (uint32_t i = 0; i < run.event_count; i++) {
        CHECK_OP(run.plan.op_count, !is_pending(run.events[i].before));
        ferry_future_release(run.events[i].before);
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
