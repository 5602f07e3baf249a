/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches from several threads at once, with single operations, cancels, deadlines and a shutdown
 * among them. A plain program, so that it runs under ThreadSanitizer: functions count without
 * atomics what their accesses protect. Exit 0: everything held.
 */
#include "tests/support/failing_allocator.h"
#include "tests/support/stress.h"
#include "tests/support/test_device.h"
#include "tests/support/thread_executor.h"

#include <sched.h>

#if defined(__SANITIZE_THREAD__)
#define BATCHES 60 /* of each submitter, before the shutdown may come */
#elif defined(__SANITIZE_ADDRESS__)
#define BATCHES 120
#else
#define BATCHES 300
#endif
#define ROUNDS 6
#define HANG_S 180
#define SUBMITTERS 4
#define OPS_MAX 600 /* of a batch: more than go into one holding of the baton */
#define SLICE 64
#define SHARED_BYTES 20000

typedef struct submitter submitter;

/* A function that was submitted. */
typedef struct call_record {
    submitter *owner;
    uint64_t sequence; /* in its owner's program order */
    bool is_shared;    /* touches what all submitters touch */
    atomic_uint runs;
} call_record;

/* What must stay until the engine is quiet. */
typedef struct record_block {
    struct record_block *next;
    size_t count;
    call_record records[];
} record_block;

struct submitter {
    uint64_t random;
    ferry_buffer *src, *dst; /* OPS_MAX slices */
    ferry_buffer *order;     /* its functions write it, and so run one by one */
    uint64_t last_sequence;  /* of those that ran; protected by `order` */
    uint64_t next_sequence;
    record_block *blocks;
    bool saw_shutdown;
};

static struct {
    ferry_engine *engine;
    submitter submitters[SUBMITTERS];
    ferry_buffer *shared[2];
    uint64_t shared_count; /* protected by shared[0] */
    atomic_uint batches;
    atomic_ulong refused;
} storm;

static struct {
    unsigned long batches, calls, verified, refused, cancelled, taken_back;
} totals;

static thread_executor own_thread;

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- operations ---- */

static ferry_status run_call(void *arg)
{
    call_record *self = arg;
    CHECK(self->owner->last_sequence < self->sequence);
    self->owner->last_sequence = self->sequence;
    if (self->is_shared)
        storm.shared_count++;
    atomic_fetch_add(&self->runs, 1);
    return FERRY_OK;
}

static ferry_executor *random_executor(submitter *self)
{
    uint32_t dice = below(&self->random, 3);
    return dice == 0 ? NULL : dice == 1 ? ferry_executor_inline() : &own_thread.executor;
}

static call_record *take_records(submitter *self, size_t count)
{
    record_block *block = calloc(1, sizeof *block + count * sizeof block->records[0]);
    CHECK(block != NULL);
    block->next = self->blocks;
    block->count = count;
    self->blocks = block;
    return block->records;
}

static void init_record(submitter *self, call_record *record, bool is_shared)
{
    record->owner = self;
    record->sequence = ++self->next_sequence;
    record->is_shared = is_shared;
}

/* Options that the functions of a batch share: what they write, with the common buffer or not. */
typedef struct call_options {
    ferry_access accesses[2];
    ferry_op_options own, shared;
} call_options;

static void init_call_options(submitter *self, call_options *options)
{
    options->accesses[0] = (ferry_access){ferry_buffer_span(self->order), FERRY_WRITE};
    options->accesses[1] = (ferry_access){ferry_buffer_span(storm.shared[0]), FERRY_WRITE};
    options->own = (ferry_op_options)FERRY_OP_OPTIONS_INIT;
    options->own.accesses = options->accesses;
    options->own.access_count = 1;
    options->shared = options->own;
    options->shared.access_count = 2;
}

/* Copies within the batch's own slices: what they copy is known. */
static void fill_ops(submitter *self, ferry_op *ops, size_t count, call_record *records,
                     const call_options *options)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t dice = below(&self->random, 100);
        ops[i] = (ferry_op){.kind = FERRY_OP_COPY,
                            .dst = {self->dst, i * SLICE, SLICE},
                            .src = {self->src, i * SLICE, SLICE}};
        if (dice < 10) {
            init_record(self, &records[i], dice < 3);
            ops[i] = (ferry_op){.kind = FERRY_OP_CALL,
                                .executor = random_executor(self),
                                .fn = run_call,
                                .arg = &records[i],
                                .options = dice < 3 ? &options->shared : &options->own};
        } else if (dice < 13) {
            ops[i].dst = ferry_buffer_span(storm.shared[dice % 2]);
            ops[i].src = ferry_buffer_span(storm.shared[(dice + 1) % 2]);
        } else if (dice < 16) {
            ops[i] = (ferry_op){.kind = FERRY_OP_NOP};
        }
    }
}

static void submit_single(submitter *self, const call_options *options)
{
    call_record *record = take_records(self, 1);
    init_record(self, record, true);
    ferry_future_release(
        ferry_call(storm.engine, random_executor(self), run_call, record, &options->shared));
}

/* ---- looking at them ---- */

static void check_statuses(ferry_future *all, ferry_future **each, size_t count)
{
    ferry_status status = ferry_future_wait(all, -1);
    CHECK(status != FERRY_PENDING);
    if (status == FERRY_OK) {
        for (size_t i = 0; i < count; i++)
            CHECK(ferry_future_poll(each[i]) == FERRY_OK);
        return;
    }
    size_t failed = 0;
    for (size_t i = 0; i < count; i++)
        failed += ferry_future_wait(each[i], -1) != FERRY_OK;
    CHECK(failed != 0 || status == FERRY_E_CANCELLED || status == FERRY_E_SHUTDOWN ||
          status == FERRY_E_AGAIN || (count == 0 && status == FERRY_E_DEADLINE));
}

/* Everything of its own is over, so the bytes can be looked at and changed. */
static void verify_bytes(submitter *self, const ferry_op *ops, size_t count)
{
    const char *src = ferry_buffer_data(self->src), *dst = ferry_buffer_data(self->dst);
    for (size_t i = 0; i < count; i++) {
        if (ops[i].kind == FERRY_OP_COPY && ops[i].dst.buffer == self->dst)
            CHECK(memcmp(dst + i * SLICE, src + i * SLICE, SLICE) == 0);
    }
    __atomic_fetch_add(&totals.verified, 1, __ATOMIC_RELAXED);
}

static bool drain(submitter *self)
{
    ferry_future *drained = ferry_engine_drain(storm.engine);
    ferry_status status = ferry_future_wait(drained, -1);
    ferry_future_release(drained);
    self->saw_shutdown |= status == FERRY_E_SHUTDOWN;
    return status == FERRY_OK;
}

/* Once a cancelled batch is quiet its memory is the submitter's, who has nothing else under way:
 * nobody writes there any more, and nobody reads. */
static void take_back(submitter *self, ferry_future *all)
{
    enum { BYTES = OPS_MAX * SLICE };
    if (below(&self->random, 4) == 0)
        (void)ferry_future_wait(all, (int64_t)below(&self->random, 50000));
    CHECK(ferry_future_cancel(all) == FERRY_OK);
    ferry_future *quiet = ferry_future_quiet(all);
    ferry_status status = ferry_future_wait(quiet, -1);
    ferry_future_release(quiet);
    if (status != FERRY_OK)
        return;
    unsigned char *dst = ferry_buffer_data(self->dst);
    CHECK(ferry_future_poll(all) != FERRY_PENDING);
    memset(dst, 0x5a, BYTES);
    memset(ferry_buffer_data(self->src), (int)below(&self->random, 256), BYTES);
    if (!drain(self))
        return;
    for (size_t i = 0; i < BYTES; i++)
        CHECK(dst[i] == 0x5a);
    __atomic_fetch_add(&totals.taken_back, 1, __ATOMIC_RELAXED);
}

static void one_batch(submitter *self)
{
    static _Thread_local ferry_op ops[OPS_MAX];
    static _Thread_local ferry_future *each[OPS_MAX];
    call_options calls;
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    size_t count =
        below(&self->random, 4) == 0 ? below(&self->random, OPS_MAX + 1) : below(&self->random, 40);
    bool with_each = below(&self->random, 2) == 0, verifies = below(&self->random, 8) == 0;
    init_call_options(self, &calls);
    fill_ops(self, ops, count, take_records(self, count), &calls);
    if (below(&self->random, 10) == 0)
        options.deadline_ns = now_ns() + (int64_t)below(&self->random, 2000000);
    bool takes_back = !verifies && below(&self->random, 8) == 0 && drain(self);
    verifies = verifies && drain(self);
    if (verifies)
        memset(ferry_buffer_data(self->src), (int)below(&self->random, 256),
               (size_t)OPS_MAX * SLICE);
    ferry_future *all =
        ferry_batch(storm.engine, ops, sizeof ops[0], count, with_each ? each : NULL, &options);
    atomic_fetch_add(&storm.batches, 1);
    if (takes_back)
        take_back(self, all);
    if (below(&self->random, 3) == 0)
        submit_single(self, &calls);
    if (below(&self->random, 8) == 0)
        CHECK(ferry_future_cancel(all) == FERRY_OK);
    for (int i = 0; with_each && count != 0 && i < 3 && below(&self->random, 4) == 0; i++)
        CHECK(ferry_future_cancel(each[below(&self->random, (uint32_t)count)]) == FERRY_OK);
    if (with_each && below(&self->random, 2) == 0)
        check_statuses(all, each, count);
    for (size_t i = 0; with_each && i < count; i++)
        ferry_future_release(each[i]);
    if (verifies && ferry_future_wait(all, -1) == FERRY_OK)
        verify_bytes(self, ops, count);
    ferry_status status = ferry_future_poll(all);
    __atomic_fetch_add(&totals.cancelled, status == FERRY_E_CANCELLED, __ATOMIC_RELAXED);
    const ferry_error *error = ferry_future_error(all);
    if (status == FERRY_E_AGAIN ||
        (error != NULL && error->cause != NULL && error->cause->status == FERRY_E_AGAIN))
        atomic_fetch_add(&storm.refused, 1);
    self->saw_shutdown |= status == FERRY_E_SHUTDOWN;
    ferry_future_release(all);
}

static void *submitter_main(void *arg)
{
    submitter *self = arg;
    for (int i = 0; i < BATCHES * 8 && !self->saw_shutdown; i++) {
        one_batch(self);
        if (below(&self->random, 16) == 0)
            (void)drain(self); /* else it would be ahead of the copies for ever */
    }
    return NULL;
}

/* ---- a round ---- */

static ferry_buffer *open_buffer(size_t device, size_t size_bytes)
{
    ferry_buffer *buffer = NULL;
    CHECK(ferry_buffer_alloc(test_device(storm.engine, device), size_bytes, &buffer) == FERRY_OK);
    memset(ferry_buffer_data(buffer), 1, size_bytes);
    return buffer;
}

static void open_submitter(submitter *self, uint64_t seed, size_t index)
{
    *self = (submitter){.random = (seed * SUBMITTERS + index + 1) * 0x9e3779b97f4a7c15u};
    self->src = open_buffer(index % 3, (size_t)OPS_MAX * SLICE);
    self->dst = open_buffer((index + 1) % 3, (size_t)OPS_MAX * SLICE);
    self->order = open_buffer(2, 1);
}

/* Nothing runs any more. Returns how many of its functions ran on what all share. */
static uint64_t close_submitter(submitter *self)
{
    uint64_t shared_runs = 0;
    while (self->blocks != NULL) {
        record_block *block = self->blocks;
        self->blocks = block->next;
        for (size_t i = 0; i < block->count; i++) {
            uint32_t runs = atomic_load(&block->records[i].runs);
            CHECK(runs <= 1);
            shared_runs += block->records[i].is_shared ? runs : 0;
        }
        free(block);
    }
    ferry_buffer_release(self->src);
    ferry_buffer_release(self->dst);
    ferry_buffer_release(self->order);
    return shared_runs;
}

static void run_round(uint64_t round)
{
    failing_allocator counting;
    failing_allocator_init(&counting);
    ferry_allocator allocator = failing_allocator_interface(&counting);
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.loop = round % 3 == 2 ? FERRY_LOOP_EMBEDDED : FERRY_LOOP_THREAD;
    options.host_devices = 3;
    options.host_workers = 2;
    options.max_nodes = round % 2 == 1 ? 700 : 0;
    options.flight_records = round == 3 ? 64 : 0;
    options.allocator = &allocator;
    options.log = no_log;
    memset(&storm, 0, sizeof storm);
    CHECK(ferry_engine_create(&options, &storm.engine, NULL) == FERRY_OK);
    for (size_t i = 0; i < 2; i++)
        storm.shared[i] = open_buffer(i, SHARED_BYTES);
    pthread_t threads[SUBMITTERS];
    for (size_t i = 0; i < SUBMITTERS; i++)
        open_submitter(&storm.submitters[i], round, i);
    for (size_t i = 0; i < SUBMITTERS; i++)
        CHECK(pthread_create(&threads[i], NULL, submitter_main, &storm.submitters[i]) == 0);
    while (atomic_load(&storm.batches) < SUBMITTERS * BATCHES)
        (void)sched_yield();
    CHECK(ferry_engine_shutdown(storm.engine, -1) == FERRY_OK);
    for (size_t i = 0; i < SUBMITTERS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    thread_executor_wait_idle(&own_thread);
    totals.batches += atomic_load(&storm.batches);
    totals.calls += storm.shared_count;
    totals.refused += atomic_load(&storm.refused);
    uint64_t shared_runs = 0;
    for (size_t i = 0; i < SUBMITTERS; i++)
        shared_runs += close_submitter(&storm.submitters[i]);
    CHECK(shared_runs == storm.shared_count);
    for (size_t i = 0; i < 2; i++)
        ferry_buffer_release(storm.shared[i]);
    ferry_engine_release(storm.engine);
    CHECK(failing_allocator_live_bytes(&counting) == 0);
}

int main(void)
{
    end_if_hung(HANG_S);
    CHECK(thread_executor_start(&own_thread));
    for (uint64_t round = 0; round < ROUNDS; round++)
        run_round(round);
    thread_executor_stop(&own_thread);
    (void)printf("%lu batches, %lu functions on what all share, %lu verified, %lu refused, %lu "
                 "cancelled, %lu taken back\n",
                 totals.batches, totals.calls, totals.verified, totals.refused, totals.cancelled,
                 totals.taken_back);
    CHECK(totals.calls && totals.verified && totals.refused && totals.cancelled &&
          totals.taken_back);
    return 0;
}
