/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sealed list alone, with an owner that only counts: adders, removers, parkers, nudgers and one
 * seal on one future at a time. A plain program, so that it runs under ThreadSanitizer. Exit 0:
 * each waiter that was listed fired once or was removed, never both; who parked woke up.
 */
#include "futures/futures.h"
#include "tests/support/stress.h"

#include <sched.h>

#define ROUNDS 20000
#define ADDERS 3
#define PARKERS 2
#define THREADS (ADDERS + PARKERS + 1) /* and the one that nudges and seals */
#define WAITERS 6                      /* of each adder */
#define HANG_S 150

/* Plain but for the list's own words: only one thread may touch each of them at a time. */
typedef struct counted_waiter {
    ferry_waiter waiter;
    int fired;
    bool was_added, was_removed;
} counted_waiter;

typedef struct worker {
    uint64_t random;
    counted_waiter waiters[WAITERS];
    unsigned long added, refused, removed, too_late, parked;
} worker;

static struct {
    ferry_future future;
    pthread_barrier_t barrier;
    worker workers[THREADS];
    int rounds;   /* so far */
    bool is_over; /* set between two rounds */
} shared;

/* Threads that take turns on one busy processor meet in no race if none of them ever gives way. */
static void idle(worker *self, uint32_t most)
{
    if (below(&self->random, 64) == 0)
        (void)sched_yield();
    for (uint32_t pauses = below(&self->random, most); pauses > 0; pauses--)
        fry_pause();
}

static void count_released(ferry_future *future)
{
    (void)future;
    CHECK(false && "nobody releases it");
}

static void count_fired(fry_future_owner *owner, ferry_waiter *waiter)
{
    (void)owner;
    counted_waiter *counted = waiter->arg;
    counted->fired++;
}

static const fry_future_owner_ops counting_ops = {count_released, count_fired};
static fry_future_owner counting_owner = {&counting_ops};

static void remove_some(worker *self, int count)
{
    counted_waiter *victim = &self->waiters[below(&self->random, (uint32_t)count)];
    if (!victim->was_added || victim->was_removed)
        return;
    victim->was_removed = fry_future_remove_waiter(&shared.future, &victim->waiter);
    self->removed += victim->was_removed;
    self->too_late += !victim->was_removed;
}

static void add_and_remove(worker *self)
{
    for (int i = 0; i < WAITERS; i++) {
        counted_waiter *counted = &self->waiters[i];
        counted->waiter = (ferry_waiter){.arg = counted};
        counted->fired = 0;
        counted->was_removed = false;
        counted->was_added = fry_future_add_waiter(&shared.future, &counted->waiter);
        self->added += counted->was_added;
        self->refused += !counted->was_added;
        idle(self, 30);
        if (below(&self->random, 2) == 0)
            remove_some(self, i + 1);
    }
    idle(self, 400);
    remove_some(self, WAITERS); /* more often than not while the list is sealed */
}

static void park_until_resolved(worker *self)
{
    uint32_t key;
    while (fry_future_prepare_park(&shared.future, &key)) {
        idle(self, 30);
        fry_future_commit_park(&shared.future, key, -1);
        self->parked++;
    }
    CHECK(fry_future_is_resolved(&shared.future));
    CHECK(shared.future.status == FERRY_OK); /* plain, written before the seal */
}

static void nudge_and_seal(worker *self)
{
    for (uint32_t nudges = below(&self->random, 4); nudges > 0; nudges--) {
        idle(self, 200);
        fry_future_nudge(&shared.future);
    }
    idle(self, 400);
    if (below(&self->random, 4) == 0)
        (void)sched_yield();
    CHECK(fry_future_claim(&shared.future, FERRY_OK));
    CHECK(!fry_future_claim(&shared.future, FERRY_E_FAILED));
    fry_future_seal(&shared.future);
}

static void check_round(const worker *self)
{
    for (int i = 0; i < WAITERS; i++) {
        const counted_waiter *counted = &self->waiters[i];
        CHECK(counted->fired == (counted->was_added && !counted->was_removed));
    }
}

static worker sum_up(void)
{
    worker total = {0};
    for (int i = 0; i < THREADS; i++) {
        total.added += shared.workers[i].added;
        total.refused += shared.workers[i].refused;
        total.removed += shared.workers[i].removed;
        total.too_late += shared.workers[i].too_late;
        total.parked += shared.workers[i].parked;
    }
    return total;
}

static void start_round(void)
{
    fry_future_init(&shared.future, &counting_owner, 1, 1);
}

/* Adders look at their own waiters alone meanwhile. Rounds go on until all races were met. */
static void end_round(void)
{
    shared.rounds++;
    if (shared.rounds >= ROUNDS) {
        worker total = sum_up();
        shared.is_over =
            total.added && total.refused && total.removed && total.too_late && total.parked;
    }
    start_round();
}

static void *work(void *arg)
{
    worker *self = arg;
    int index = (int)(self - shared.workers);
    for (;;) {
        (void)pthread_barrier_wait(&shared.barrier);
        if (shared.is_over)
            return NULL;
        if (index < ADDERS)
            add_and_remove(self);
        else if (index < ADDERS + PARKERS)
            park_until_resolved(self);
        else
            nudge_and_seal(self);
        (void)pthread_barrier_wait(&shared.barrier);
        if (index < ADDERS)
            check_round(self);
        else if (index == THREADS - 1)
            end_round();
    }
}

int main(void)
{
    end_if_hung(HANG_S);
    CHECK(pthread_barrier_init(&shared.barrier, NULL, THREADS) == 0);
    start_round();
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        shared.workers[i].random = (uint64_t)i * 0x9e3779b97f4a7c15u + 1;
        CHECK(pthread_create(&threads[i], NULL, work, &shared.workers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    worker total = sum_up();
    (void)printf("%d rounds: %lu added, %lu refused, %lu removed, %lu too late, %lu parks\n",
                 shared.rounds, total.added, total.refused, total.removed, total.too_late,
                 total.parked);
    return 0;
}
