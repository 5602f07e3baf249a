/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion queues, while several threads submit, take and sleep: each operation that was not
 * refused makes one record, what is refused makes none, a queue that is full has room again once
 * records are taken, and nobody sleeps while there are records. Each round has a queue of its own,
 * which is released while operations of the next round go on. A plain program, so that it runs
 * under ThreadSanitizer. Exit 0: everything held.
 */
#include "tests/support/stress.h"

#include <poll.h>
#include <sched.h>
#include <stdatomic.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define ROUNDS 60
#else
#define ROUNDS 400
#endif
#define HANG_S 180
#define SUBMITTERS 2
#define TAKERS 2
#define OPERATIONS 500 /* of each submitter, in a round */
#define DEPTH 37

static struct {
    ferry_engine *engine;
    ferry_buffer *buffers[SUBMITTERS];
    ferry_queue *queue;
    int fd;
    pthread_barrier_t turn;
    atomic_bool is_over;
    atomic_ulong submitted, refused, taken; /* in this round */
    atomic_ulong sum_in, sum_out;
    unsigned long all_refused;
    atomic_ulong slept;
} run;

static void submit(unsigned number, uint64_t user_data, uint64_t *random)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.queue = run.queue;
    options.user_data = user_data;
    ferry_span from = {run.buffers[number], 0, 64}, to = {run.buffers[number], 64, 64};
    ferry_future *future = below(random, 2) == 0 ? ferry_nop(run.engine, &options)
                                                 : ferry_copy(run.engine, to, from, &options);
    if (ferry_future_id(future) == 0) {
        CHECK(ferry_future_poll(future) == FERRY_E_AGAIN);
        atomic_fetch_add(&run.refused, 1);
    } else {
        atomic_fetch_add(&run.sum_in, user_data);
        atomic_fetch_add(&run.submitted, 1);
        if (below(random, 8) == 0)
            CHECK(ferry_future_cancel(future) == FERRY_OK);
    }
    ferry_future_release(future);
}

static void *run_submitter(void *arg)
{
    unsigned number = *(const unsigned *)arg;
    uint64_t random = 7 + number;
    for (;;) {
        (void)pthread_barrier_wait(&run.turn);
        if (atomic_load(&run.is_over))
            return NULL;
        for (unsigned i = 0; i < OPERATIONS; i++)
            submit(number, 1 + below(&random, 1000), &random);
        (void)pthread_barrier_wait(&run.turn);
    }
}

static size_t take(uint64_t *random)
{
    ferry_queue_record records[16];
    size_t count = ferry_queue_take(run.queue, records, sizeof *records, 1 + below(random, 16));
    for (size_t i = 0; i < count; i++) {
        ferry_status status = records[i].status;
        CHECK(status == FERRY_OK || status == FERRY_E_CANCELLED || status == FERRY_E_DEPENDENCY);
        atomic_fetch_add(&run.sum_out, records[i].user_data);
    }
    atomic_fetch_add(&run.taken, count);
    return count;
}

/* Takes and sleeps until the submitters have done; the records after that are the main thread's. */
static void *run_taker(void *arg)
{
    uint64_t random = 77 + *(const unsigned *)arg;
    for (;;) {
        (void)pthread_barrier_wait(&run.turn);
        if (atomic_load(&run.is_over))
            return NULL;
        unsigned long enough = (unsigned long)SUBMITTERS * OPERATIONS;
        while (atomic_load(&run.submitted) + atomic_load(&run.refused) < enough) {
            if (take(&random) != 0 || ferry_queue_arm(run.queue) != FERRY_OK)
                continue;
            struct pollfd descriptor = {.fd = run.fd, .events = POLLIN};
            atomic_fetch_add(&run.slept, 1);
            (void)poll(&descriptor, 1, 1); /* not for ever: the last record may be another's */
        }
        (void)pthread_barrier_wait(&run.turn);
    }
}

/* Alone with the queue: it sleeps without a time-out until all records have come. */
static void take_rest(uint64_t *random)
{
    struct pollfd descriptor = {.fd = run.fd, .events = POLLIN};
    while (atomic_load(&run.taken) < atomic_load(&run.submitted)) {
        if (take(random) == 0 && ferry_queue_arm(run.queue) == FERRY_OK)
            CHECK(poll(&descriptor, 1, -1) >= 0);
    }
    CHECK(take(random) == 0);
    CHECK(atomic_load(&run.sum_in) == atomic_load(&run.sum_out));
}

static void run_round(unsigned round)
{
    uint64_t random = round + 1;
    atomic_store(&run.submitted, 0);
    atomic_store(&run.refused, 0);
    atomic_store(&run.taken, 0);
    CHECK(ferry_queue_create(run.engine, DEPTH, &run.queue, &run.fd) == FERRY_OK);
    (void)pthread_barrier_wait(&run.turn);
    (void)pthread_barrier_wait(&run.turn);
    if (round % 2 == 0) {
        take_rest(&random);
    } else { /* what was not taken goes with it */
        atomic_store(&run.sum_in, 0);
        atomic_store(&run.sum_out, 0);
    }
    run.all_refused += atomic_load(&run.refused);
    ferry_queue_release(run.queue);
}

int main(int argc, char **argv)
{
    unsigned rounds = (unsigned)given_number(argc, argv, 1, ROUNDS);
    unsigned numbers[SUBMITTERS + TAKERS];
    pthread_t threads[SUBMITTERS + TAKERS];
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.host_workers = 1;
    options.log = no_log;
    end_if_hung(HANG_S);
    CHECK(ferry_engine_create(&options, &run.engine, NULL) == FERRY_OK);
    CHECK(pthread_barrier_init(&run.turn, NULL, SUBMITTERS + TAKERS + 1) == 0);
    for (unsigned i = 0; i < SUBMITTERS; i++)
        CHECK(ferry_buffer_alloc(ferry_device_at(run.engine, 0), 128, &run.buffers[i]) == FERRY_OK);
    for (unsigned i = 0; i < SUBMITTERS + TAKERS; i++) {
        numbers[i] = i;
        threads[i] = start_thread(i < SUBMITTERS ? run_submitter : run_taker, &numbers[i]);
    }
    for (unsigned i = 0; i < rounds; i++) {
        now_at("round %u", i);
        run_round(i);
    }
    atomic_store(&run.is_over, true);
    (void)pthread_barrier_wait(&run.turn);
    for (unsigned i = 0; i < SUBMITTERS + TAKERS; i++)
        join_thread(threads[i]);
    for (unsigned i = 0; i < SUBMITTERS; i++)
        ferry_buffer_release(run.buffers[i]);
    CHECK(ferry_engine_shutdown(run.engine, -1) == FERRY_OK);
    ferry_engine_release(run.engine);
    printf("%u rounds: %lu refused, slept %lu times\n", rounds, run.all_refused,
           atomic_load(&run.slept));
    return 0;
}
