/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several threads ask failed futures for their errors at once, while the allocator fails now and
 * then: all of them are told the same error, which says the future's status and never changes. A
 * plain program, so that it runs under ThreadSanitizer. Exit 0: everything held.
 */
#include "tests/support/failing_allocator.h"
#include "tests/support/stress.h"

#include <stdatomic.h>

#if defined(__SANITIZE_THREAD__)
#define ROUNDS 400
#else
#define ROUNDS 4000
#endif
#define HANG_S 180
#define ASKERS 3
#define FUTURES 24

/* What one thread was told of a future. */
typedef struct told {
    const ferry_error *error;
    ferry_status status, cause;
} told;

static struct {
    ferry_engine *engine;
    ferry_promise *promise;
    ferry_future *futures[FUTURES];
    told told[ASKERS][FUTURES];
    pthread_barrier_t begun, asked;
    bool is_over;
} run;

static struct {
    unsigned long errors, bare;
} totals;

/* In an order of its own, each as soon as it has failed. */
static void ask_all(size_t asker)
{
    for (size_t i = 0; i < FUTURES; i++) {
        size_t at = asker % 2 == 0 ? i : FUTURES - 1 - i;
        told *seen = &run.told[asker][at];
        ferry_status status = ferry_future_wait(run.futures[at], -1);
        const ferry_error *error = ferry_future_error(run.futures[at]);
        CHECK(error != NULL && error->status == status);
        *seen = (told){error, error->status, error->cause != NULL ? error->cause->status : 0};
    }
}

static void *asker_main(void *arg)
{
    for (;;) {
        (void)pthread_barrier_wait(&run.begun);
        if (run.is_over)
            return NULL;
        ask_all((size_t)(uintptr_t)arg);
        (void)pthread_barrier_wait(&run.asked);
    }
}

static ferry_future *behind(ferry_future *after, int64_t deadline_ns)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &after;
    options.after_count = 1;
    options.deadline_ns = deadline_ns;
    options.label = "behind";
    return ferry_nop(run.engine, &options);
}

/* They fail of a promise, a deadline, a cancel, a batch's cancel, or of want of memory at once. */
static void submit(unsigned round)
{
    CHECK(ferry_promise_create(run.engine, &run.promise) == FERRY_OK);
    ferry_future *root = ferry_promise_future(run.promise);
    ferry_op op = {.kind = FERRY_OP_NOP};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &root;
    options.after_count = 1;
    for (size_t i = 0; i < FUTURES; i++) {
        if (i == 0)
            run.futures[i] = ferry_future_retain(root);
        else if (i % 6 == 5)
            run.futures[i] = ferry_batch(run.engine, &op, sizeof op, 1, NULL, &options);
        else
            run.futures[i] = behind(i % 3 == 0 ? root : run.futures[i - 1], i % 5 == 4 ? -1 : 0);
        if (i != 0 && (round + i) % 7 == 0)
            CHECK(ferry_future_cancel(run.futures[i]) == FERRY_OK);
    }
    ferry_future_release(root);
}

static void compare(void)
{
    for (size_t i = 0; i < FUTURES; i++) {
        const told *first = &run.told[0][i];
        const ferry_error *error = ferry_future_error(run.futures[i]);
        ferry_status status = ferry_future_poll(run.futures[i]);
        CHECK(error == first->error && error->status == status && first->status == status);
        for (size_t k = 1; k < ASKERS; k++) {
            CHECK(run.told[k][i].error == error);
            CHECK(run.told[k][i].cause == first->cause);
        }
        totals.errors++;
        totals.bare += error->op == 0 && ferry_future_id(run.futures[i]) != 0;
    }
}

static void run_round(failing_allocator *memory, unsigned round)
{
    static const ferry_status numbers[] = {FERRY_E_FAILED, FERRY_E_DEVICE, (ferry_status)-777,
                                           (ferry_status)-70000};
    submit(round);
    failing_allocator_arm(memory, 1 + round % 40, round % 3 == 0);
    (void)pthread_barrier_wait(&run.begun);
    CHECK(ferry_promise_resolve(run.promise, numbers[round % 4], "on purpose") != FERRY_PENDING);
    (void)pthread_barrier_wait(&run.asked);
    failing_allocator_arm(memory, 0, false);
    compare();
    for (size_t i = 0; i < FUTURES; i++)
        ferry_future_release(run.futures[i]);
    ferry_promise_release(run.promise);
}

int main(void)
{
    end_if_hung(HANG_S);
    failing_allocator memory;
    failing_allocator_init(&memory);
    ferry_allocator allocator = failing_allocator_interface(&memory);
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.allocator = &allocator;
    options.log = no_log;
    CHECK(ferry_engine_create(&options, &run.engine, NULL) == FERRY_OK);
    CHECK(pthread_barrier_init(&run.begun, NULL, ASKERS + 1) == 0);
    CHECK(pthread_barrier_init(&run.asked, NULL, ASKERS + 1) == 0);
    pthread_t threads[ASKERS];
    for (size_t i = 0; i < ASKERS; i++)
        CHECK(pthread_create(&threads[i], NULL, asker_main, (void *)(uintptr_t)i) == 0);
    for (unsigned round = 0; round < ROUNDS; round++)
        run_round(&memory, round);
    run.is_over = true;
    (void)pthread_barrier_wait(&run.begun);
    for (size_t i = 0; i < ASKERS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    ferry_engine_release(run.engine);
    CHECK(failing_allocator_live_bytes(&memory) == 0);
    (void)printf("%lu errors, %lu of them bare\n", totals.errors, totals.bare);
    CHECK(totals.bare != 0 && totals.bare < totals.errors);
    return 0;
}
