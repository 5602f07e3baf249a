/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes that find no room, from several threads at once, with one node to stand for them and a
 * thread that keeps the baton: each thread has a buffer of its own, and so knows in its own program
 * order which of its reads must succeed and which must find what a refused write left. A plain
 * program, so that it runs under ThreadSanitizer. Exit 0: everything held.
 *   refused_writes [ROUNDS]
 */
#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/graph/node.h"
#include "engine/ground/context.h"
#include "engine/ground/ground.h"
#include "engine/ground/refusal.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/stress.h"

#include <sched.h>
#include <stdatomic.h>

#if defined(__SANITIZE_THREAD__)
#define STEPS 3000
#else
#define STEPS 30000
#endif
#define ROUNDS 4
#define HANG_S 180
#define THREADS 3
#define KEPT 8       /* futures that a thread keeps, so that nodes run out */
#define NODES 20     /* less than all threads keep */
#define TOGETHER 500 /* steps after which the threads meet: all have something then */
#define SIZE 64
#define STAND_INS 63

typedef struct kept {
    ferry_future *future; /* NULL: none */
    bool must_fail;
} kept;

typedef struct worker {
    uint64_t random;
    ferry_buffer *buffer, *sink;
    bool is_poisoned; /* in program order */
    kept kept[KEPT];
    unsigned long well, poisoned, refused, barred;
} worker;

static struct {
    ferry_engine *engine;
    worker workers[THREADS];
    pthread_barrier_t meeting; /* without it each may be over before the next begins */
    atomic_bool is_over;
} run;

static struct {
    unsigned long well, poisoned, refused, barred;
} totals;

/* ---- a thread ---- */

/* It was read, or overwritten, as it stood in program order then. */
static void look_at(worker *self, kept *slot)
{
    if (slot->future == NULL)
        return;
    ferry_status status = ferry_future_wait(slot->future, -1);
    CHECK(status == (slot->must_fail ? FERRY_E_DEPENDENCY : FERRY_OK));
    if (slot->must_fail) {
        const ferry_error *cause = ferry_future_error(slot->future)->cause;
        CHECK(cause != NULL && cause->status == FERRY_E_AGAIN && cause->op == 0);
        self->poisoned++;
    } else {
        self->well++;
    }
    ferry_future_release(slot->future);
    slot->future = NULL;
}

static bool was_refused(worker *self, ferry_future *future)
{
    if (ferry_future_poll(future) != FERRY_E_AGAIN)
        return false;
    bool is_barred = ferry_future_error(future) == &fry_refusal_error(FRY_REFUSED_BARRED)->public_;
    self->refused++;
    self->barred += is_barred;
    ferry_future_release(future);
    return true;
}

static void read_it(worker *self, kept *slot)
{
    ferry_future *future = ferry_copy(run.engine, ferry_buffer_span(self->sink),
                                      ferry_buffer_span(self->buffer), NULL);
    if (!was_refused(self, future))
        *slot = (kept){future, self->is_poisoned};
}

/* All of it, so that it heals what was there. */
static void write_it(worker *self, kept *slot)
{
    ferry_access access = {ferry_buffer_span(self->buffer), FERRY_WRITE};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.accesses = &access;
    options.access_count = 1;
    ferry_future *future = ferry_nop(run.engine, &options);
    if (was_refused(self, future)) {
        self->is_poisoned = true;
    } else {
        self->is_poisoned = false;
        *slot = (kept){future, false};
    }
}

static void define_it(worker *self)
{
    ferry_status status = ferry_buffer_define(ferry_buffer_span(self->buffer), NULL);
    CHECK(status == FERRY_OK || status == FERRY_E_AGAIN);
    self->is_poisoned = status != FERRY_OK;
}

static void *worker_main(void *arg)
{
    worker *self = arg;
    for (int i = 0; i < STEPS; i++) {
        kept *slot = &self->kept[below(&self->random, KEPT)];
        uint32_t dice = below(&self->random, 10);
        if (i % TOGETHER == 0)
            (void)pthread_barrier_wait(&run.meeting);
        look_at(self, slot);
        if (dice < 5)
            read_it(self, slot);
        else if (dice < 9)
            write_it(self, slot);
        else
            define_it(self);
    }
    for (size_t i = 0; i < KEPT; i++)
        look_at(self, &self->kept[i]);
    return NULL;
}

/* As a busy thread would, and not for longer than one may. */
static void *keeper_main(void *arg)
{
    (void)arg;
    while (!atomic_load(&run.is_over)) {
        if (fry_baton_take(&run.engine->baton)) {
            for (int i = 0; i < 20; i++)
                (void)sched_yield();
            fry_baton_give(&run.engine->baton);
            fry_wake(run.engine);
        }
        (void)sched_yield();
    }
    return NULL;
}

/* ---- a round ---- */

static ferry_buffer *open_buffer(size_t device)
{
    ferry_buffer *buffer = NULL;
    CHECK(ferry_buffer_alloc(ferry_device_at(run.engine, device), SIZE, &buffer) == FERRY_OK);
    return buffer;
}

static void run_round(uint64_t round)
{
    failing_allocator counting;
    failing_allocator_init(&counting);
    ferry_allocator allocator = failing_allocator_interface(&counting);
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.loop = round % 2 == 1 ? FERRY_LOOP_EMBEDDED : FERRY_LOOP_THREAD;
    options.max_nodes = NODES;
    options.allocator = &allocator;
    options.log = no_log;
    memset(&run, 0, sizeof run);
    CHECK(ferry_engine_create(&options, &run.engine, NULL) == FERRY_OK);
    fry_context *context = fry_context_get(run.engine);
    fry_node *stand_ins[STAND_INS];
    for (size_t i = 0; i < STAND_INS; i++)
        CHECK((stand_ins[i] = fry_node_create_reserve(run.engine, context)) != NULL);
    CHECK(pthread_barrier_init(&run.meeting, NULL, THREADS) == 0);
    pthread_t threads[THREADS], keeper;
    for (size_t i = 0; i < THREADS; i++) {
        run.workers[i] = (worker){.random = (round * THREADS + i + 1) * 0x9e3779b97f4a7c15u,
                                  .buffer = open_buffer(0),
                                  .sink = open_buffer(1)};
        CHECK(pthread_create(&threads[i], NULL, worker_main, &run.workers[i]) == 0);
    }
    CHECK(pthread_create(&keeper, NULL, keeper_main, NULL) == 0);
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    atomic_store(&run.is_over, true);
    CHECK(pthread_join(keeper, NULL) == 0);
    CHECK(pthread_barrier_destroy(&run.meeting) == 0);
    for (size_t i = 0; i < THREADS; i++) {
        const worker *self = &run.workers[i];
        totals.well += self->well;
        totals.poisoned += self->poisoned;
        totals.refused += self->refused;
        totals.barred += self->barred;
        ferry_buffer_release(self->buffer);
        ferry_buffer_release(self->sink);
    }
    CHECK(ferry_engine_shutdown(run.engine, -1) == FERRY_OK);
    for (size_t i = 0; i < STAND_INS; i++)
        fry_node_discard(run.engine, context, stand_ins[i]);
    ferry_engine_release(run.engine);
    CHECK(failing_allocator_live_bytes(&counting) == 0);
}

static bool has_seen_all(void)
{
    return totals.well && totals.poisoned && totals.refused && totals.barred;
}

int main(int argc, char **argv)
{
    uint64_t rounds = given_number(argc, argv, 1, ROUNDS);
    end_if_hung(HANG_S);
    /* Which of the four there are depends on how the threads run. */
    for (uint64_t round = 0; round < rounds || (!has_seen_all() && round < 50 * ROUNDS); round++)
        run_round(round);
    (void)printf("%lu well, %lu poisoned, %lu refused, %lu of them barred\n", totals.well,
                 totals.poisoned, totals.refused, totals.barred);
    CHECK(has_seen_all());
    return 0;
}
