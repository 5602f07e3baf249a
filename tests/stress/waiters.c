/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiters are registered, fired, called, posted and taken back by several threads at once: each
 * registration ends once, by a call or by a removal that said true. On the loop a removal says
 * false only of what has begun. A plain program, so that it runs under ThreadSanitizer. Exit 0:
 * everything held.
 */
#include "tests/support/stress.h"
#include "tests/support/thread_executor.h"

#include <poll.h>
#include <sched.h>
#include <stdatomic.h>

#if defined(__SANITIZE_THREAD__)
#define ROUNDS 1000
#elif defined(__SANITIZE_ADDRESS__)
#define ROUNDS 2000
#else
#define ROUNDS 20000
#endif
#define HANG_S 180
#define SLOTS 24
#define FUTURES 6
#define REMOVERS 2
#define ANEW_MAX                                                                                   \
    2 /* how often a waiter is registered again, by its callback or who took it back               \
       */

typedef struct slot {
    ferry_waiter waiter;
    unsigned index;
    ferry_future *future;
    atomic_uint registered, listed; /* begun, and done */
    atomic_uint called, taken_back;
} slot;

static struct {
    ferry_engine *engine;
    ferry_promise *promises[FUTURES];
    ferry_future *futures[FUTURES];
    slot slots[SLOTS];
    thread_executor executor;
    pthread_barrier_t turn;
    atomic_bool is_over, is_resolved;
    atomic_uint round, in_callbacks;
    atomic_ulong called, taken_back, taken_on_loop; /* over all rounds */
} run;

/* One registration at a time, so only the one that ended the last comes here. */
static void enlist(slot *self)
{
    atomic_fetch_add(&self->registered, 1);
    ferry_status status = ferry_future_on_ready(self->future, &self->waiter);
    CHECK(status == FERRY_OK);
    atomic_fetch_add(&self->listed, 1);
}

static void maybe_anew(slot *self, uint64_t seed)
{
    if (atomic_load(&self->registered) <= ANEW_MAX && below(&seed, 3) == 0)
        enlist(self);
}

/* True only once for a registration; who was told so may register it anew. */
static void take_back(slot *self, bool is_on_loop)
{
    bool runs_on_loop = self->waiter.executor != &run.executor.executor;
    unsigned listed = atomic_load(&self->listed);
    if (ferry_waiter_remove(&self->waiter)) {
        atomic_fetch_add(is_on_loop ? &run.taken_on_loop : &run.taken_back, 1);
        atomic_fetch_add(&self->taken_back, 1);
        maybe_anew(self, atomic_load(&run.round) * 977 + self->index + 1);
    } else if (is_on_loop && runs_on_loop) {
        /* Its call, which comes first on this very thread, or another's removal came before. */
        while (atomic_load(&self->called) + atomic_load(&self->taken_back) < listed)
            (void)sched_yield(); /* another thread's removal has yet to count itself */
    }
}

static void was_called(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    slot *self = (slot *)(void *)waiter;
    atomic_fetch_add(&run.in_callbacks, 1);
    CHECK(future == self->future && status == FERRY_OK);
    atomic_fetch_add(&run.called, 1);
    atomic_fetch_add(&self->called, 1);
    uint64_t random = atomic_load(&run.round) * 31 + self->index + 1;
    bool is_on_loop = waiter->executor != &run.executor.executor;
    maybe_anew(self, random);
    for (int i = 0; is_on_loop && i < 3; i++)
        take_back(&run.slots[below(&random, SLOTS)], true);
    atomic_fetch_sub(&run.in_callbacks, 1);
}

static void *run_remover(void *arg)
{
    uint64_t random = 77 + *(const unsigned *)arg;
    for (;;) {
        (void)pthread_barrier_wait(&run.turn);
        if (atomic_load(&run.is_over))
            return NULL;
        for (int i = 0; i < SLOTS; i++)
            take_back(&run.slots[below(&random, SLOTS)], false);
        (void)pthread_barrier_wait(&run.turn);
    }
}

static void *run_resolver(void *arg)
{
    (void)arg;
    for (;;) {
        (void)pthread_barrier_wait(&run.turn);
        if (atomic_load(&run.is_over))
            return NULL;
        for (int i = 0; i < FUTURES; i++)
            CHECK(ferry_promise_resolve(run.promises[i], FERRY_OK, NULL) == FERRY_OK);
        (void)pthread_barrier_wait(&run.turn);
    }
}

/* Embedded: the loop, as often as the round lasts. */
static void *run_loop(void *arg)
{
    const ferry_loop_mode *loop = arg;
    while (*loop == FERRY_LOOP_EMBEDDED && !atomic_load(&run.is_resolved)) {
        if (ferry_engine_progress(run.engine, 0) <= 0)
            (void)sched_yield();
    }
    return NULL;
}

static unsigned count_registered(void)
{
    unsigned count = 0;
    for (int i = 0; i < SLOTS; i++)
        count += atomic_load(&run.slots[i].registered);
    return count;
}

/* And no callback is left that might register one anew, or did so while this looked. */
static bool all_have_ended(void)
{
    unsigned registered = count_registered();
    for (int i = 0; i < SLOTS; i++) {
        const slot *self = &run.slots[i];
        if (atomic_load(&self->called) + atomic_load(&self->taken_back) !=
            atomic_load(&self->registered))
            return false;
    }
    return atomic_load(&run.in_callbacks) == 0 && count_registered() == registered;
}

static void open_round(unsigned round)
{
    static ferry_executor *const executors[] = {NULL, NULL, &run.executor.executor};
    atomic_store(&run.round, round);
    for (int i = 0; i < FUTURES; i++) {
        CHECK(ferry_promise_create(run.engine, &run.promises[i]) == FERRY_OK);
        run.futures[i] = ferry_promise_future(run.promises[i]);
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        slot *self = &run.slots[i];
        memset(self, 0, sizeof *self);
        self->index = i;
        self->future = run.futures[(i + round) % FUTURES];
        self->waiter.fn = was_called;
        self->waiter.executor = i % 4 == 3 ? ferry_executor_inline() : executors[i % 3];
        enlist(self);
    }
}

static void close_round(void)
{
    while (!all_have_ended())
        (void)sched_yield();
    for (int i = 0; i < FUTURES; i++) {
        ferry_promise_release(run.promises[i]);
        ferry_future_release(run.futures[i]);
    }
}

static void run_mode(ferry_loop_mode loop)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.loop = loop;
    options.host_workers = 1;
    options.max_tasks = 3; /* some wait for one */
    CHECK(ferry_engine_create(&options, &run.engine, NULL) == FERRY_OK);
    CHECK(thread_executor_start(&run.executor));
    CHECK(pthread_barrier_init(&run.turn, NULL, REMOVERS + 2) == 0);
    atomic_store(&run.is_over, false);
    atomic_store(&run.is_resolved, false);
    pthread_t removers[REMOVERS], resolver, looper;
    unsigned numbers[REMOVERS];
    CHECK(pthread_create(&looper, NULL, run_loop, &loop) == 0);
    CHECK(pthread_create(&resolver, NULL, run_resolver, NULL) == 0);
    for (unsigned i = 0; i < REMOVERS; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&removers[i], NULL, run_remover, &numbers[i]) == 0);
    }
    for (unsigned round = 1; round <= ROUNDS; round++) {
        open_round(round);
        (void)pthread_barrier_wait(&run.turn);
        (void)pthread_barrier_wait(&run.turn);
        close_round();
    }
    atomic_store(&run.is_over, true);
    (void)pthread_barrier_wait(&run.turn);
    for (int i = 0; i < REMOVERS; i++)
        CHECK(pthread_join(removers[i], NULL) == 0);
    CHECK(pthread_join(resolver, NULL) == 0);
    atomic_store(&run.is_resolved, true);
    CHECK(pthread_join(looper, NULL) == 0);
    CHECK(ferry_engine_shutdown(run.engine, -1) == FERRY_OK);
    thread_executor_stop(&run.executor);
    ferry_engine_release(run.engine);
    CHECK(pthread_barrier_destroy(&run.turn) == 0);
}

int main(void)
{
    end_if_hung(HANG_S);
    run_mode(FERRY_LOOP_THREAD);
    run_mode(FERRY_LOOP_EMBEDDED);
    (void)printf("waiters: %lu called, %lu taken back elsewhere, %lu on the loop\n",
                 atomic_load(&run.called), atomic_load(&run.taken_back),
                 atomic_load(&run.taken_on_loop));
    CHECK(run.called > 0 && run.taken_back > 0 && run.taken_on_loop > 0);
    return 0;
}
