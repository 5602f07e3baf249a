/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations that end later, and promises whose holder is told of a cancel, while several threads
 * begin, end, cancel and take back at once. Each work's numbers are plain ones, which begin and
 * cancel write and the main thread reads once the work is quiet, before it frees the work: so
 * ThreadSanitizer sees whether quiet comes after both. Exit 0:
 *  - begin ran once at most, and so did cancel, after begin and only for what had begun;
 *  - a waiter for a cancel was called if and only if the promise was not resolved first and the
 *    waiter was not taken back.
 */
#include "tests/support/stress.h"
#include "tests/support/thread_executor.h"

#include <sched.h>
#include <stdatomic.h>

#if defined(__SANITIZE_THREAD__)
#define ROUNDS 1500
#elif defined(__SANITIZE_ADDRESS__)
#define ROUNDS 2000
#else
#define ROUNDS 8000
#endif
#define HANG_S 180
#define WORKS 8
#define RACERS 3

typedef struct work {
    ferry_future *future;
    _Atomic(ferry_promise *) promise; /* NULL: ended, or not begun */
    bool is_async;
    unsigned begun, cancelled, told; /* plain */
    ferry_waiter waiter;
    atomic_bool was_told, was_removed;
    _Atomic ferry_status resolved; /* what resolving it said; FERRY_PENDING: nobody has */
} work;

static struct {
    ferry_engine *engine;
    thread_executor executor;
    work *works[WORKS];
    pthread_barrier_t turn;
    atomic_bool is_over;
    unsigned ended, cancelled, told, removed; /* over all rounds */
} run;

static void end(work *self, uint64_t *random)
{
    ferry_promise *promise = atomic_exchange(&self->promise, NULL);
    if (promise == NULL)
        return;
    ferry_status status = below(random, 2) == 0 ? ferry_promise_resolve_value(promise, "it", 2)
                                                : ferry_promise_resolve(promise, -4711, "it");
    CHECK(status == FERRY_OK || (!self->is_async && status == FERRY_E_CANCELLED));
    atomic_store(&self->resolved, status);
    ferry_promise_release(promise);
}

static void begin(void *arg, ferry_promise *promise)
{
    work *self = arg;
    self->begun++;
    atomic_store(&self->promise, promise);
    if (((uintptr_t)self >> 6) % 4 == 0)
        (void)sched_yield(); /* another may end it before begin has returned */
}

static void cancel(void *arg)
{
    work *self = arg;
    CHECK(self->begun == 1);
    self->cancelled++;
}

static void tell(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    work *self = waiter->arg;
    CHECK(future == self->future && status == FERRY_E_CANCELLED);
    self->told++;
    atomic_store(&self->was_told, true);
}

/* Ends, cancels and takes back, in an order of its own. */
static void *race(void *arg)
{
    uint64_t random = 77 + *(const unsigned *)arg;
    for (;;) {
        (void)pthread_barrier_wait(&run.turn);
        if (atomic_load(&run.is_over))
            return NULL;
        for (int i = 0; i < 4 * WORKS; i++) {
            work *self = run.works[below(&random, WORKS)];
            uint32_t dice = below(&random, 4);
            if (dice == 0)
                CHECK(ferry_future_cancel(self->future) == FERRY_OK);
            else if (dice == 1 && !self->is_async && ferry_waiter_remove(&self->waiter))
                CHECK(!atomic_exchange(&self->was_removed, true));
            else
                end(self, &random);
        }
        (void)pthread_barrier_wait(&run.turn);
    }
}

static work *start(unsigned index)
{
    work *self = calloc(1, sizeof *self);
    CHECK(self != NULL);
    atomic_store(&self->resolved, FERRY_PENDING);
    self->is_async = index % 3 != 0;
    self->waiter = (ferry_waiter)FERRY_WAITER_INIT(tell, self);
    self->waiter.executor = index % 2 == 0 ? &run.executor.executor : NULL;
    if (self->is_async) {
        self->future =
            ferry_call_async(run.engine, self->waiter.executor, begin, cancel, self, NULL);
        return self;
    }
    ferry_promise *promise = NULL;
    CHECK(ferry_promise_create(run.engine, &promise) == FERRY_OK);
    self->future = ferry_promise_future(promise);
    CHECK(ferry_promise_on_cancel(promise, &self->waiter) == FERRY_OK);
    atomic_store(&self->promise, promise);
    return self;
}

static void finish_async(work *self, uint64_t *random)
{
    ferry_future *quiet = ferry_future_quiet(self->future);
    while (ferry_future_wait(quiet, 100000) == FERRY_PENDING)
        end(self, random);
    ferry_future_release(quiet);
    ferry_status status = ferry_future_poll(self->future);
    CHECK(status == FERRY_OK || status == -4711 || status == FERRY_E_CANCELLED);
    CHECK(self->begun <= 1 && self->cancelled <= self->begun);
    CHECK(self->cancelled == 0 || status == FERRY_E_CANCELLED);
    CHECK((self->begun == 1) == (atomic_load(&self->resolved) == FERRY_OK));
    run.ended += status != FERRY_E_CANCELLED;
    run.cancelled += self->cancelled;
}

static void finish_promise(work *self, uint64_t *random)
{
    end(self, random);
    bool is_told =
        atomic_load(&self->resolved) == FERRY_E_CANCELLED && !atomic_load(&self->was_removed);
    while (is_told && !atomic_load(&self->was_told))
        (void)sched_yield();
    CHECK(self->told == is_told);
    run.told += is_told;
    run.removed += atomic_load(&self->was_removed);
}

static void run_round(unsigned round)
{
    uint64_t random = round + 1;
    for (unsigned i = 0; i < WORKS; i++)
        run.works[i] = start(round + i);
    (void)pthread_barrier_wait(&run.turn);
    (void)pthread_barrier_wait(&run.turn);
    for (unsigned i = 0; i < WORKS; i++) {
        work *self = run.works[i];
        if (self->is_async)
            finish_async(self, &random);
        else
            finish_promise(self, &random);
        ferry_future_release(self->future);
        free(self);
    }
}

/*
 * What races need not have brought about, where the machine is busy with something else: an end
 * before a cancel, a cancel after begin, a waiter that is told, and one that is taken back.
 */
static void run_sure_cases(void)
{
    uint64_t random = 1;
    for (unsigned i = 1; i <= 2; i++) {
        work *self = start(i);
        while (atomic_load(&self->promise) == NULL)
            (void)sched_yield();
        if (i == 2)
            CHECK(ferry_future_cancel(self->future) == FERRY_OK &&
                  ferry_future_wait(self->future, -1) == FERRY_E_CANCELLED);
        finish_async(self, &random);
        ferry_future_release(self->future);
        free(self);
    }
    for (unsigned i = 0; i <= 3; i += 3) {
        work *self = start(i);
        if (i == 0)
            atomic_store(&self->was_removed, ferry_waiter_remove(&self->waiter));
        CHECK(ferry_future_cancel(self->future) == FERRY_OK);
        CHECK(ferry_future_wait(self->future, -1) == FERRY_E_CANCELLED);
        finish_promise(self, &random);
        ferry_future_release(self->future);
        free(self);
    }
}

int main(int argc, char **argv)
{
    unsigned rounds = (unsigned)given_number(argc, argv, 1, ROUNDS), numbers[RACERS];
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.host_workers = 1;
    options.max_tasks = 5; /* some wait for one */
    options.log = no_log;
    end_if_hung(HANG_S);
    CHECK(ferry_engine_create(&options, &run.engine, NULL) == FERRY_OK);
    CHECK(thread_executor_start(&run.executor));
    CHECK(pthread_barrier_init(&run.turn, NULL, RACERS + 1) == 0);
    pthread_t racers[RACERS];
    for (unsigned i = 0; i < RACERS; i++) {
        numbers[i] = i;
        racers[i] = start_thread(race, &numbers[i]);
    }
    for (unsigned i = 0; i < rounds; i++) {
        now_at("round %u", i);
        run_round(i);
    }
    run_sure_cases();
    atomic_store(&run.is_over, true);
    (void)pthread_barrier_wait(&run.turn);
    for (unsigned i = 0; i < RACERS; i++)
        join_thread(racers[i]);
    CHECK(ferry_engine_shutdown(run.engine, -1) == FERRY_OK);
    ferry_engine_release(run.engine);
    thread_executor_stop(&run.executor);
    printf("%u rounds: %u ended, %u cancelled, %u told, %u taken back\n", rounds, run.ended,
           run.cancelled, run.told, run.removed);
    CHECK(run.ended != 0 && run.cancelled != 0 && run.told != 0 && run.removed != 0);
    return 0;
}
