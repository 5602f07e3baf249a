/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scopes, while several threads submit into them, and two others close, cancel and release them:
 * the future of the end resolves once, when all operations that joined are quiet, and what the
 * operations wrote is seen by then (plain numbers, which ThreadSanitizer watches). A scope with a
 * limit lets all begin. A plain program, so that it runs under ThreadSanitizer. Exit 0: everything
 * held.
 */
#include "tests/support/stress.h"

#include <sched.h>
#include <stdatomic.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define ROUNDS 300
#else
#define ROUNDS 2000
#endif
#define HANG_S 180
#define SUBMITTERS 2
#define ENDERS 2
#define OPERATIONS 60 /* of each submitter, in a round */

static struct {
    ferry_engine *engine;
    ferry_buffer *buffer;
    ferry_scope *scope;
    pthread_barrier_t turn;
    atomic_bool is_over;
    ferry_future *ends[ENDERS];
    bool cancels[ENDERS];
    int written[SUBMITTERS][OPERATIONS]; /* plain: each by its call, read after the end */
    bool joined[SUBMITTERS][OPERATIONS];
    atomic_ulong refused, done;
} run;

static ferry_status write_number(void *arg)
{
    *(int *)arg += 1;
    return FERRY_OK;
}

static ferry_future *submit(unsigned thread, unsigned number, uint64_t *random)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.scope = run.scope;
    ferry_span from = {run.buffer, 0, 64}, to = {run.buffer, 64 + 64 * thread, 64};
    switch (below(random, 3)) {
    case 0:
        return ferry_copy(run.engine, to, from, &options);
    case 1:
        return ferry_nop(run.engine, &options);
    default:
        return ferry_call(run.engine, NULL, write_number, &run.written[thread][number], &options);
    }
}

static void *run_submitter(void *arg)
{
    unsigned thread = *(const unsigned *)arg;
    uint64_t random = 7 + thread;
    for (;;) {
        (void)pthread_barrier_wait(&run.turn);
        if (atomic_load(&run.is_over))
            return NULL;
        for (unsigned i = 0; i < OPERATIONS; i++) {
            ferry_future *future = submit(thread, i, &random);
            if (ferry_future_id(future) == 0) {
                ferry_status status = ferry_future_poll(future);
                CHECK(status == FERRY_E_INVALID || status == FERRY_E_CANCELLED);
                atomic_fetch_add(&run.refused, 1);
            } else {
                run.joined[thread][i] = true;
            }
            if (below(&random, 16) == 0)
                CHECK(ferry_future_cancel(future) == FERRY_OK);
            ferry_future_release(future);
        }
        (void)pthread_barrier_wait(&run.turn);
        (void)pthread_barrier_wait(&run.turn); /* the main thread has looked */
    }
}

static void *run_ender(void *arg)
{
    unsigned thread = *(const unsigned *)arg - SUBMITTERS;
    for (;;) {
        (void)pthread_barrier_wait(&run.turn);
        if (atomic_load(&run.is_over))
            return NULL;
        for (unsigned i = 0; i < thread * 20; i++)
            (void)sched_yield();
        run.ends[thread] =
            run.cancels[thread] ? ferry_scope_cancel(run.scope) : ferry_scope_close(run.scope);
        CHECK(ferry_future_wait(run.ends[thread], -1) == FERRY_OK);
        (void)pthread_barrier_wait(&run.turn);
        (void)pthread_barrier_wait(&run.turn);
    }
}

static void look(void)
{
    CHECK(ferry_future_id(run.ends[0]) == ferry_future_id(run.ends[1]));
    for (unsigned t = 0; t < SUBMITTERS; t++) {
        for (unsigned i = 0; i < OPERATIONS; i++) {
            CHECK(run.written[t][i] <= 1 && (run.joined[t][i] || run.written[t][i] == 0));
            atomic_fetch_add(&run.done, (unsigned long)run.written[t][i]);
            run.written[t][i] = 0;
            run.joined[t][i] = false;
        }
    }
    for (unsigned i = 0; i < ENDERS; i++)
        ferry_future_release(run.ends[i]);
}

static void run_round(unsigned round)
{
    ferry_scope_options limits = FERRY_SCOPE_OPTIONS_INIT;
    limits.bytes_per_second = round % 3 == 0 ? 50000000 : 0;
    limits.burst_bytes = round % 3 == 0 ? 200 : 0;
    run.cancels[0] = round % 2 == 0;
    run.cancels[1] = round % 4 == 0;
    CHECK(ferry_scope_create(run.engine, &limits, &run.scope) == FERRY_OK);
    (void)pthread_barrier_wait(&run.turn);
    (void)pthread_barrier_wait(&run.turn);
    look();
    ferry_scope_release(run.scope);
    (void)pthread_barrier_wait(&run.turn);
}

/* Released while its operations go on: the last of them frees it. */
static void release_beside(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        CHECK(ferry_scope_create(run.engine, NULL, &run.scope) == FERRY_OK);
        uint64_t random = i;
        for (unsigned k = 0; k < 4; k++)
            ferry_future_release(submit(0, k, &random));
        if (i % 2 == 0)
            ferry_future_release(ferry_scope_close(run.scope));
        ferry_scope_release(run.scope);
    }
}

int main(int argc, char **argv)
{
    unsigned rounds = (unsigned)given_number(argc, argv, 1, ROUNDS);
    unsigned numbers[SUBMITTERS + ENDERS];
    pthread_t threads[SUBMITTERS + ENDERS];
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.host_workers = 1;
    options.log = no_log;
    end_if_hung(HANG_S);
    CHECK(ferry_engine_create(&options, &run.engine, NULL) == FERRY_OK);
    CHECK(ferry_buffer_alloc(ferry_device_at(run.engine, 0), 4096, &run.buffer) == FERRY_OK);
    CHECK(pthread_barrier_init(&run.turn, NULL, SUBMITTERS + ENDERS + 1) == 0);
    for (unsigned i = 0; i < SUBMITTERS + ENDERS; i++) {
        numbers[i] = i;
        threads[i] = start_thread(i < SUBMITTERS ? run_submitter : run_ender, &numbers[i]);
    }
    for (unsigned i = 0; i < rounds; i++) {
        now_at("round %u", i);
        run_round(i);
    }
    atomic_store(&run.is_over, true);
    (void)pthread_barrier_wait(&run.turn);
    for (unsigned i = 0; i < SUBMITTERS + ENDERS; i++)
        join_thread(threads[i]);
    release_beside(rounds);
    ferry_buffer_release(run.buffer);
    CHECK(ferry_engine_shutdown(run.engine, -1) == FERRY_OK);
    ferry_engine_release(run.engine);
    printf("%u rounds: %lu refused, %lu functions ran\n", rounds, atomic_load(&run.refused),
           atomic_load(&run.done));
    return 0;
}
