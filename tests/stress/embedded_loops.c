/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Embedded mode with several threads that are its loop: they make progress, arm and sleep on the
 * descriptor, while another makes progress and arms now and then and never sleeps, and a third
 * submits and waits. Nobody sleeps over a callback: each is called before the next is registered. A
 * plain program, so that it runs under ThreadSanitizer. Exit 0: everything held.
 */
#include "tests/support/stress.h"
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/eventfd.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define ROUNDS 500
#else
#define ROUNDS 4000
#endif
#define HANG_S 180
#define LOOPS_MAX 2
#define BYTES 4096

static struct {
    ferry_engine *engine;
    int end_fd; /* readable: the loops shall end */
    atomic_bool is_over;
    sem_t called, visits;
} the;

static void *loop_thread(void *arg)
{
    (void)arg;
    struct pollfd fds[] = {{.fd = ferry_engine_fd(the.engine), .events = POLLIN},
                           {.fd = the.end_fd, .events = POLLIN}};
    while (!atomic_load(&the.is_over)) {
        int64_t done = ferry_engine_progress(the.engine, 0);
        CHECK(done >= 0 || done == FERRY_E_BUSY);
        if (done <= 0 && ferry_engine_arm(the.engine) == FERRY_OK)
            CHECK(poll(fds, 2, -1) >= 1);
    }
    return NULL;
}

/* Comes for a call or two in a round, so it is not there when it is needed. */
static void *visiting_thread(void *arg)
{
    (void)arg;
    unsigned seed = 1;
    for (;;) {
        while (sem_wait(&the.visits) != 0)
            continue;
        if (atomic_load(&the.is_over))
            return NULL;
        switch (rand_r(&seed) % 4) {
        case 0:
            (void)ferry_engine_progress(the.engine, 0);
            break;
        case 1:
            (void)ferry_engine_progress(the.engine, 1);
            break;
        case 2:
            (void)ferry_engine_arm(the.engine);
            break;
        default:
            (void)sched_yield();
        }
    }
}

static void tell(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)waiter, (void)future;
    CHECK(status == FERRY_OK);
    CHECK(sem_post(&the.called) == 0);
}

static void one_round(unsigned *seed, ferry_span left, ferry_span right)
{
    ferry_waiter waiters[3];
    size_t count = 1 + (size_t)rand_r(seed) % 3;
    CHECK(sem_post(&the.visits) == 0);
    left.size_bytes = right.size_bytes = 1 + (uint64_t)rand_r(seed) % BYTES;
    ferry_future *there = ferry_copy(the.engine, left, right, NULL);
    ferry_future *back = ferry_copy(the.engine, right, left, NULL);
    if (rand_r(seed) % 2 == 0)
        CHECK(ferry_future_wait(back, -1) == FERRY_OK);
    if (rand_r(seed) % 4 == 0)
        (void)ferry_engine_arm(the.engine);
    for (size_t i = 0; i < count; i++) {
        waiters[i] = (ferry_waiter)FERRY_WAITER_INIT(tell, NULL);
        CHECK(ferry_future_on_ready(i % 2 == 0 ? back : there, &waiters[i]) == FERRY_OK);
    }
    for (size_t i = 0; i < count; i++) {
        while (sem_wait(&the.called) != 0)
            continue;
    }
    ferry_future_release(there);
    ferry_future_release(back);
}

static void with_loops(size_t loop_count)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.loop = FERRY_LOOP_EMBEDDED;
    options.host_workers = 1;
    options.inline_copy_bytes = 64;
    CHECK(ferry_engine_create(&options, &the.engine, NULL) == FERRY_OK);
    the.end_fd = eventfd(0, EFD_CLOEXEC);
    CHECK(the.end_fd >= 0);
    atomic_store(&the.is_over, false);
    ferry_buffer *left = NULL, *right = NULL;
    CHECK(ferry_buffer_alloc(ferry_device_at(the.engine, 0), BYTES, &left) == FERRY_OK);
    CHECK(ferry_buffer_alloc(ferry_device_at(the.engine, 1), BYTES, &right) == FERRY_OK);
    (void)memset(ferry_buffer_data(left), 1, BYTES);
    (void)memset(ferry_buffer_data(right), 2, BYTES);

    pthread_t loops[LOOPS_MAX], visitor;
    for (size_t i = 0; i < loop_count; i++)
        CHECK(pthread_create(&loops[i], NULL, loop_thread, NULL) == 0);
    CHECK(pthread_create(&visitor, NULL, visiting_thread, NULL) == 0);
    unsigned seed = (unsigned)loop_count;
    for (int i = 0; i < ROUNDS; i++)
        one_round(&seed, ferry_buffer_span(left), ferry_buffer_span(right));
    atomic_store(&the.is_over, true);
    CHECK(eventfd_write(the.end_fd, 1) == 0);
    CHECK(sem_post(&the.visits) == 0);
    for (size_t i = 0; i < loop_count; i++)
        CHECK(pthread_join(loops[i], NULL) == 0);
    CHECK(pthread_join(visitor, NULL) == 0);

    ferry_buffer_release(left);
    ferry_buffer_release(right);
    CHECK(ferry_engine_shutdown(the.engine, -1) == FERRY_OK);
    ferry_engine_release(the.engine);
    CHECK(close(the.end_fd) == 0);
}

int main(void)
{
    CHECK(sem_init(&the.called, 0, 0) == 0);
    CHECK(sem_init(&the.visits, 0, 0) == 0);
    now_at("a callback that is due, and everybody sleeps");
    end_if_hung(HANG_S);
    for (size_t i = 1; i <= LOOPS_MAX; i++)
        with_loops(i);
    (void)sem_destroy(&the.called);
    (void)sem_destroy(&the.visits);
    return 0;
}
