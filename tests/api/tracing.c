/* SPDX-License-Identifier: Apache-2.0 */
/* Trace hooks and the flight recorder. */
#include "tests/support/play.h"
#include "tests/support/thread_executor.h"

#include <semaphore.h>

SCENE_SUITE(tracing);

enum { RECORDS_MAX = 4096, BIG = 65536 };

/* What the hooks were told. */
static struct {
    ferry_trace_record records[RECORDS_MAX];
    size_t count;
    uint64_t lost;
    pthread_t thread;
} self;

static void take_record(void *arg, const ferry_trace_record *record)
{
    (void)arg;
    if (self.count < RECORDS_MAX)
        self.records[self.count] = *record;
    self.count++;
    self.thread = pthread_self();
}

static void take_lost(void *arg, uint64_t count)
{
    (void)arg;
    self.lost += count;
}

static void hook(void)
{
    ferry_trace_hooks hooks = {
        .struct_size = sizeof hooks, .record = take_record, .lost = take_lost};
    ASSERT_STATUS(ferry_engine_trace(engine(), &hooks), FERRY_OK);
}

static uint64_t op_of(const char *name)
{
    return ferry_future_id(the_future("%s", name));
}

/* The transitions of one operation, as in "submitted ready issued". */
static const char *life_of(const ferry_trace_record *records, size_t count, uint64_t op)
{
    static char life[256];
    life[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        if (records[i].op != op)
            continue;
        if (life[0] != '\0')
            strcat(life, " ");
        strcat(life, ferry_trace_what_name((ferry_trace_what)records[i].what));
    }
    return life;
}

/* The same of what the hooks were told of a future. */
static const char *life(const char *name)
{
    return life_of(self.records, self.count, op_of(name));
}

static const ferry_trace_record *find(uint64_t op, ferry_trace_what what)
{
    for (size_t i = 0; i < self.count; i++) {
        if (self.records[i].op == op && self.records[i].what == what)
            return &self.records[i];
    }
    cr_assert_fail("no such record");
    return NULL;
}

/* Of one that does not run in the call that submits it. A GPU does not tell when one begins. */
static const char *life_of_copy(void)
{
    return test_devices_are_hosts() ? "submitted ready issued begun fired resolved quiet"
                                    : "submitted ready issued fired resolved quiet";
}

Test(tracing, a_copy_tells_its_whole_life_in_order)
{
    hook();
    play("buffer src %d of 1; buffer dst %d on 2; promise p; c = copy dst <- src after p label "
         "weights",
         BIG, BIG);
    cr_assert_eq(self.count, 0, "never inside a submit");
    uint64_t op = op_of("c");
    play("settle; step 500; keep p; wait c OK; settle");
    cr_assert_str_eq(life("c"), life_of_copy());
    const ferry_trace_record *submitted = find(op, FERRY_TRACE_SUBMITTED);
    const ferry_trace_record *ready = find(op, FERRY_TRACE_READY);
    const ferry_trace_record *resolved = find(op, FERRY_TRACE_RESOLVED);
    cr_assert_eq(submitted->when_ns, START_NS);
    cr_assert_eq(submitted->size_bytes, BIG);
    cr_assert_str_eq(submitted->label, "weights");
    cr_assert_eq(submitted->kind, FERRY_OP_COPY);
    ferry_device_info place = FERRY_DEVICE_INFO_INIT;
    ASSERT_STATUS(ferry_device_describe(
                      test_device_that_copies(the_buffer("dst"), the_buffer("src")), &place),
                  FERRY_OK);
    cr_assert_eq(submitted->device, place.index);
    cr_assert_eq(submitted->flow, op);
    cr_assert_eq(submitted->status, FERRY_PENDING);
    cr_assert_eq(ready->waited_for, op_of("p"));
    cr_assert_eq(ready->when_ns, START_NS + 500);
    cr_assert_eq(resolved->status, FERRY_OK);
}

Test(tracing, operations_that_wait_for_nothing_tell_the_same_life)
{
    hook();
    play("buffer src %d of 1; buffer dst %d on 1; small = copy dst[0:64] <- src[0:64];"
         "big = copy dst <- src; n = nop; c = call; wait big OK; settle",
         BIG, BIG);
    cr_assert_str_eq(life("small"), "submitted ready issued fired resolved quiet");
    cr_assert_str_eq(life("big"), life_of_copy());
    cr_assert_str_eq(life("n"), "submitted ready issued resolved quiet");
    cr_assert_str_eq(life("c"), "submitted ready issued begun resolved quiet");
    cr_assert_eq(find(op_of("n"), FERRY_TRACE_READY)->waited_for, 0);
    cr_assert_eq(find(op_of("n"), FERRY_TRACE_READY)->device, 65535);
}

Test(tracing, a_cancelled_operation_tells_of_the_cancel)
{
    hook();
    play("promise p; n = nop after p; cancel n; settle");
    cr_assert_str_eq(life("n"), "submitted cancel resolved quiet");
    cr_assert_eq(find(op_of("n"), FERRY_TRACE_RESOLVED)->status, FERRY_E_CANCELLED);
    play("keep p");
}

Test(tracing, hooks_run_on_the_loops_thread)
{
    scene_begin(FERRY_LOOP_THREAD);
    hook();
    play("c = call; wait c OK");
    uint64_t op = op_of("c");
    scene_end();
    cr_assert_not(pthread_equal(self.thread, pthread_self()));
    (void)find(op, FERRY_TRACE_SUBMITTED);
}

Test(tracing, off_gives_none)
{
    ferry_trace_record record;
    ferry_future_release(ferry_nop(engine(), NULL));
    hook();
    scene_settle();
    cr_assert_eq(self.count, 0, "what was before is not shown");
    play("nop; release it; settle");
    cr_assert_gt(self.count, 0);
    ASSERT_STATUS(ferry_engine_trace(engine(), NULL), FERRY_OK);
    size_t count = self.count;
    play("nop; release it; settle");
    cr_assert_eq(self.count, count);
    cr_assert_eq(ferry_engine_flight_records(engine(), &record, sizeof(ferry_trace_record), 1), 0);
}

Test(tracing, what_was_overwritten_is_counted_as_lost)
{
    hook();
    enum { NOPS = 20000 };
    for (int i = 0; i < NOPS; i++)
        ferry_future_release(ferry_nop(engine(), NULL)); /* nobody makes progress meanwhile */
    scene_settle();
    cr_assert_gt(self.lost, 0);
    cr_assert_gt(self.count, 1000);
    cr_assert_eq(self.lost + self.count, (uint64_t)NOPS * 5, "%llu lost, %zu shown",
                 (unsigned long long)self.lost, self.count);
}

Test(tracing, the_flight_recorder_keeps_the_newest)
{
    scene_options(FERRY_LOOP_EMBEDDED)->flight_records = 64;
    ferry_trace_record records[256];
    cr_assert_eq(ferry_engine_flight_records(engine(), records, sizeof(ferry_trace_record), 256),
                 0);
    uint64_t last = 0;
    for (int i = 0; i < 100; i++) {
        stepped_clock_step(&scene()->time, 1);
        ferry_future *nop = ferry_nop(engine(), NULL);
        last = ferry_future_id(nop);
        ferry_future_release(nop);
    }
    size_t count = ferry_engine_flight_records(engine(), records, sizeof(ferry_trace_record), 256);
    cr_assert_geq(count, 60);
    cr_assert_leq(count, 64);
    for (size_t i = 1; i < count; i++)
        cr_assert_leq(records[i - 1].when_ns, records[i].when_ns, "oldest first");
    cr_assert_str_eq(life_of(records, count, last), "submitted ready issued resolved quiet");
    cr_assert_eq(records[count - 1].op, last);

    size_t few = ferry_engine_flight_records(engine(), records, sizeof(ferry_trace_record), 3);
    cr_assert_eq(few, 3);
    cr_assert_eq(records[2].op, last);
    cr_assert_eq(records[2].what, FERRY_TRACE_QUIET);
    cr_assert_eq(ferry_engine_flight_records(engine(), NULL, sizeof(ferry_trace_record), 3), 0);
    cr_assert_eq(ferry_engine_flight_records(engine(), records, sizeof(ferry_trace_record), 0), 0);
}

Test(tracing, both_at_once)
{
    scene_options(FERRY_LOOP_EMBEDDED)->flight_records = 64;
    hook();
    play("n = nop; settle");
    ferry_trace_record records[64];
    size_t count = ferry_engine_flight_records(engine(), records, sizeof(ferry_trace_record), 64);
    cr_assert_str_eq(life_of(records, count, op_of("n")), "submitted ready issued resolved quiet");
    cr_assert_str_eq(life("n"), "submitted ready issued resolved quiet");
}

static void submit_in_hook(void *arg, const ferry_trace_record *record)
{
    ferry_engine **engine = arg;
    if (*engine != NULL && record->what == FERRY_TRACE_QUIET) {
        ferry_engine *once = *engine;
        *engine = NULL;
        ferry_future_release(ferry_nop(once, NULL));
    }
}

Test(tracing, hooks_may_submit)
{
    ferry_engine *to = engine();
    ferry_trace_hooks hooks = {.struct_size = sizeof hooks, .record = submit_in_hook, .arg = &to};
    ASSERT_STATUS(ferry_engine_trace(engine(), &hooks), FERRY_OK);
    play("nop; release it; settle");
    cr_assert_null(to);
    ASSERT_STATUS(ferry_engine_trace(engine(), NULL), FERRY_OK);
}

/* ---- records that other threads make ---- */

typedef struct held_call {
    thread_executor executor;
    sem_t begun, go_on;
    ferry_future *future;
    uint64_t op;
    bool is_quiet; /* as the hook has heard */
} held_call;

static held_call held_calls[2];

static void await(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0)
        continue;
}

static ferry_status held_function(void *arg)
{
    held_call *self = arg;
    (void)sem_post(&self->begun);
    await(&self->go_on);
    return FERRY_OK;
}

static int first_heard; /* of the two calls */
static sem_t both_heard;

/*
 * When one call is quiet the other becomes so, behind the back of the loop that is here: it may
 * have read the other thread's records already.
 */
static void hear_quiet(void *arg, const ferry_trace_record *record)
{
    (void)arg;
    for (int i = 0; i < 2 && record->what == FERRY_TRACE_QUIET; i++) {
        if (record->op != held_calls[i].op)
            continue;
        held_calls[i].is_quiet = true;
        if (i == first_heard) {
            thread_executor_wait_idle(&held_calls[i].executor);
            (void)sem_post(&held_calls[1 - i].go_on);
            thread_executor_wait_idle(&held_calls[1 - i].executor);
        } else {
            (void)sem_post(&both_heard);
        }
    }
}

/* Two calls that run, each on a thread of its own, and hooks that hear of their ends. */
static void hold_two_calls(int first)
{
    ferry_trace_hooks hooks = {.struct_size = sizeof hooks, .record = hear_quiet};
    first_heard = first;
    (void)sem_init(&both_heard, 0, 0);
    for (int i = 0; i < 2; i++) {
        held_call *self = &held_calls[i];
        self->is_quiet = false;
        (void)sem_init(&self->begun, 0, 0);
        (void)sem_init(&self->go_on, 0, 0);
        cr_assert(thread_executor_start(&self->executor));
        self->future = ferry_call(engine(), &self->executor.executor, held_function, self, NULL);
        self->op = ferry_future_id(self->future);
        await(&self->begun);
    }
    ASSERT_STATUS(ferry_engine_trace(engine(), &hooks), FERRY_OK);
}

static void end_two_calls(void)
{
    for (int i = 0; i < 2; i++) {
        cr_assert(held_calls[i].is_quiet, "call %d", i);
        ferry_future_release(held_calls[i].future);
        thread_executor_stop(&held_calls[i].executor);
    }
}

/* Nothing else wakes the loop for it, and nobody waits for an operation. */
Test(tracing, hooks_hear_of_what_ended_behind_the_back_of_the_loop)
{
    scene_begin(FERRY_LOOP_THREAD);
    for (int first = 0; first < 2; first++) {
        hold_two_calls(first);
        (void)sem_post(&held_calls[first].go_on);
        await(&both_heard);
        end_two_calls();
    }
}

static void post_quiet(void *arg, const ferry_trace_record *record)
{
    if (record->what == FERRY_TRACE_QUIET)
        (void)sem_post(arg);
}

Test(tracing, hooks_hear_of_what_a_thread_did_while_the_loop_slept)
{
    scene_begin(FERRY_LOOP_THREAD);
    sem_t quiet;
    (void)sem_init(&quiet, 0, 0);
    ferry_trace_hooks hooks = {.struct_size = sizeof hooks, .record = post_quiet, .arg = &quiet};
    ASSERT_STATUS(ferry_engine_trace(engine(), &hooks), FERRY_OK);
    for (int i = 0; i < 100; i++) {
        ferry_future_release(ferry_nop(engine(), NULL));
        await(&quiet);
    }
}

static void *shut_down(void *arg)
{
    ASSERT_STATUS(ferry_engine_shutdown(arg, -1), FERRY_OK);
    return NULL;
}

Test(tracing, a_shutdown_that_succeeded_has_shown_every_record)
{
    scene_begin(FERRY_LOOP_THREAD);
    hold_two_calls(0);
    pthread_t ending = begin_thread(shut_down, engine());
    ASSERT_STATUS(ferry_future_wait(held_calls[1].future, -1), FERRY_E_SHUTDOWN);
    (void)sem_post(&held_calls[0].go_on);
    (void)end_thread(ending);
    end_two_calls();
}

Test(tracing, names_are_known)
{
    cr_assert_str_eq(ferry_trace_what_name(FERRY_TRACE_ISSUED), "issued");
    cr_assert_str_eq(ferry_trace_what_name((ferry_trace_what)0), "?");
    cr_assert_str_eq(ferry_op_kind_name(FERRY_OP_COPY), "copy");
    cr_assert_str_eq(ferry_op_kind_name((ferry_op_kind)99), "?");
}
