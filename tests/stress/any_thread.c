/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "Any thread, at any time", for every public function in each loop mode: a plain program, so that
 * it runs under ThreadSanitizer. Exit 0: everything held. Two threads call the function again and
 * again, each for itself, and meanwhile
 *   together  the engine goes on: what is submitted beside them resolves, and its callback is
 *             called, though nobody but the callers and the sleeping loops is awake
 *   shutdown  another thread shuts the engine down, which succeeds
 *   release   another thread releases it: those functions alone that are given no engine and no
 *             device. What callers hold is good until they release it, and then nothing is left
 *   callback  one of them does so in a callback
 * In embedded mode two threads are the user's loop, each with arms of its own; in attached mode
 * libev's loop runs in a thread of its own. Argument: the name of one function.
 */
#include "tests/support/every_call.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/stress.h"

#include <ev.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/eventfd.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define ROUNDS 1 /* of each function */
#else
#define ROUNDS 2
#endif
#define HANG_S 30 /* of one function */
#define CALLERS 2
#define LOOPS 2
#define GOES_ON 10 /* submits that must resolve beside the callers */
#define NODES_MAX                                                                                  \
    8192 /* callers submit faster than the loop works off, as many as there may be                 \
          */
#define CALLS_IN_A_ROW 8
#define CALLS_AHEAD 256 /* of each caller, until the loop has followed */
#define CALLS_AFTER 8   /* of each caller, once what went on beside it is over */

static struct {
    const every_call *row;
    const char *moment;
    failing_allocator memory;
    ferry_allocator allocator;
    call_scene scene;
    caller callers[CALLERS];
    pthread_t caller_threads[CALLERS];
    pthread_barrier_t start;
    atomic_bool is_over;
    int stop_fd;
    struct ev_loop *ev_loop;
    ev_async stop_ev;
    pthread_t loops[LOOPS];
    size_t loop_count;
} run;

/* What is refused is logged as a warning, and there is much of that; and so there is of shutdowns
 * that are given no time. */
static void log_errors(void *arg, ferry_log_level level, const char *line)
{
    (void)arg;
    bool shuts_down = strcmp(run.row->name, "ferry_engine_shutdown") == 0;
    if (level == FERRY_LOG_ERROR && !(shuts_down && strstr(line, "shutdown timed out") != NULL))
        (void)fprintf(stderr, "%s, loop mode %d, %s: %s\n", run.row->name, (int)run.scene.loop,
                      run.moment, line);
}

/* ---- loops ---- */

static void *run_embedded(void *arg)
{
    (void)arg;
    struct pollfd fds[] = {{.fd = ferry_engine_fd(run.scene.engine), .events = POLLIN},
                           {.fd = run.stop_fd, .events = POLLIN}};
    do {
        while (ferry_engine_progress(run.scene.engine, 0) > 0)
            continue;
        if (ferry_engine_arm(run.scene.engine) == FERRY_OK)
            (void)poll(fds, 2, -1);
    } while (fds[1].revents == 0);
    return NULL;
}

static void stop_ev(struct ev_loop *loop, ev_async *async, int events)
{
    (void)async, (void)events;
    ev_break(loop, EVBREAK_ALL);
}

static void *run_attached(void *arg)
{
    (void)arg;
    (void)ev_run(run.ev_loop, 0);
    return NULL;
}

static void loops_start(void)
{
    static void *(*const mains[])(void *) = {
        [FERRY_LOOP_EMBEDDED] = run_embedded, [FERRY_LOOP_ATTACHED] = run_attached};
    static const size_t counts[] = {
        [FERRY_LOOP_THREAD] = 0, [FERRY_LOOP_EMBEDDED] = LOOPS, [FERRY_LOOP_ATTACHED] = 1};
    run.loop_count = counts[run.scene.loop];
    for (size_t i = 0; i < run.loop_count; i++)
        CHECK(pthread_create(&run.loops[i], NULL, mains[run.scene.loop], NULL) == 0);
}

static void loops_stop(void)
{
    eventfd_t count;
    if (run.scene.loop == FERRY_LOOP_ATTACHED)
        ev_async_send(run.ev_loop, &run.stop_ev);
    CHECK(eventfd_write(run.stop_fd, 1) == 0); /* nobody reads it: it is there for all */
    for (size_t i = 0; i < run.loop_count; i++)
        CHECK(pthread_join(run.loops[i], NULL) == 0);
    run.loop_count = 0;
    CHECK(eventfd_read(run.stop_fd, &count) == 0);
}

/* ---- a round ---- */

static void round_open(ferry_loop_mode loop)
{
    now_at("%s, loop mode %d, %s", run.row->name, (int)loop, run.moment);
    failing_allocator_init(&run.memory);
    run.allocator = failing_allocator_interface(&run.memory);
    atomic_store(&run.is_over, false);
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.loop = loop;
    options.host_devices = 2;
    options.host_workers = 1;
    options.max_nodes = NODES_MAX;
    options.allocator = &run.allocator;
    options.log = log_errors;
    if (loop == FERRY_LOOP_ATTACHED) {
        options.ev_loop = run.ev_loop = ev_loop_new(EVFLAG_AUTO);
        ev_async_init(&run.stop_ev, stop_ev);
        ev_async_start(run.ev_loop, &run.stop_ev);
    }
    CHECK(call_scene_open(&run.scene, &options, (run.row->traits & CALL_NEEDS_GROUP) != 0));
    for (int i = 0; i < CALLERS; i++)
        CHECK(caller_open(&run.callers[i], &run.scene));
    CHECK(pthread_barrier_init(&run.start, NULL, CALLERS + 1) == 0);
}

static ferry_status do_nothing(void *arg)
{
    (void)arg;
    return FERRY_OK;
}

/* The loop has come by, and freed what it was to free: callers may be faster than it, and there is
 * no bound on buffers that wait for that. */
static void let_loop_follow(void)
{
    ferry_future *call = ferry_call(run.scene.engine, NULL, do_nothing, NULL, NULL);
    (void)ferry_future_wait(call, -1);
    ferry_future_release(call);
}

/* The same of requests of the group's, which may outlive the engine. */
static void let_group_follow(void)
{
    ferry_future *value = ferry_group_try_get(run.scene.group, "key", 0);
    (void)ferry_future_wait(value, -1);
    ferry_future_release(value);
}

static void *run_caller(void *arg)
{
    caller *self = arg;
    (void)pthread_barrier_wait(&run.start);
    bool is_heavy = (run.row->traits & CALL_IS_HEAVY) != 0;
    bool names_engine = (run.row->traits & CALL_TAKES_ENGINE) != 0; /* so it is there */
    unsigned calls = 0;
    for (int left = is_heavy ? 2 : CALLS_AFTER; left > 0;) {
        if (is_heavy || atomic_load(&run.is_over))
            left--;
        run.row->call(self);
        if (++calls % CALLS_IN_A_ROW == 0)
            (void)sched_yield(); /* mutexes are not fair: who asks again at once may keep one */
        if (calls % CALLS_AHEAD != 0)
            continue;
        if (run.scene.group != NULL)
            let_group_follow();
        else if (names_engine)
            let_loop_follow();
    }
    return NULL;
}

static void callers_start(void)
{
    for (int i = 0; i < CALLERS; i++)
        CHECK(pthread_create(&run.caller_threads[i], NULL, run_caller, &run.callers[i]) == 0);
    (void)pthread_barrier_wait(&run.start);
}

static void callers_end(void)
{
    atomic_store(&run.is_over, true);
    for (int i = 0; i < CALLERS; i++)
        CHECK(pthread_join(run.caller_threads[i], NULL) == 0);
}

/* A caller may be at it too. */
static void shut_down(void)
{
    ferry_status status;
    while ((status = ferry_engine_shutdown(run.scene.engine, -1)) == FERRY_E_BUSY)
        (void)sched_yield();
    CHECK(status == FERRY_OK);
}

/* The engine is released; all that is left is in handles. */
static void round_close(void)
{
    CHECK(failing_allocator_live_bytes(&run.memory) > 0);
    CHECK(ferry_future_poll(run.scene.pending) != FERRY_PENDING);
    call_scene_close(&run.scene);
    for (int i = 0; i < CALLERS; i++)
        caller_close(&run.callers[i]);
    CHECK(failing_allocator_live_bytes(&run.memory) == 0);
    (void)pthread_barrier_destroy(&run.start);
    if (run.ev_loop != NULL)
        ev_loop_destroy(run.ev_loop);
    run.ev_loop = NULL;
}

/* ---- moments ---- */

static void post_ready(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future, (void)status;
    CHECK(sem_post(waiter->arg) == 0);
}

static void goes_on(void)
{
    sem_t called;
    CHECK(sem_init(&called, 0, 0) == 0);
    for (int i = 0; i < GOES_ON; i++) {
        ferry_waiter waiter = FERRY_WAITER_INIT(post_ready, &called);
        ferry_future *nop = ferry_nop(run.scene.engine, NULL);
        ferry_status status = ferry_future_on_ready(nop, &waiter);
        CHECK(status == FERRY_OK);
        while (sem_wait(&called) != 0)
            continue;
        ferry_future_release(nop);
    }
    CHECK(sem_destroy(&called) == 0);
}

static void beside_each_other(ferry_loop_mode loop)
{
    run.moment = "together";
    round_open(loop);
    loops_start();
    callers_start();
    goes_on();
    callers_end();
    goes_on();
    shut_down();
    loops_stop();
    ferry_engine_release(run.scene.engine);
    round_close();
}

static void beside_shutdown(ferry_loop_mode loop)
{
    run.moment = "shutdown";
    round_open(loop);
    loops_start();
    callers_start();
    shut_down();
    callers_end();
    loops_stop();
    ferry_engine_release(run.scene.engine);
    round_close();
}

/* libev's thread is no caller: the release takes the watchers out of its loop. */
static void beside_release(ferry_loop_mode loop)
{
    run.moment = "release";
    if ((run.row->traits & CALL_TAKES_ENGINE) != 0)
        return;
    round_open(loop);
    if (loop == FERRY_LOOP_ATTACHED)
        loops_start();
    callers_start();
    ferry_engine_release(run.scene.engine);
    callers_end();
    if (loop == FERRY_LOOP_ATTACHED)
        loops_stop();
    round_close();
}

static void call_in_callback(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future, (void)status;
    run.callers[0].is_in_callback = true;
    for (int i = 0; i < CALLS_AFTER; i++)
        run.row->call(&run.callers[0]);
    run.callers[0].is_in_callback = false;
    CHECK(sem_post(waiter->arg) == 0);
}

static void in_callback(ferry_loop_mode loop)
{
    run.moment = "callback";
    round_open(loop);
    loops_start();
    sem_t called;
    CHECK(sem_init(&called, 0, 0) == 0);
    ferry_waiter waiter = FERRY_WAITER_INIT(call_in_callback, &called);
    CHECK(ferry_future_on_ready(run.scene.done, &waiter) == FERRY_OK);
    while (sem_wait(&called) != 0)
        continue;
    goes_on();
    shut_down();
    CHECK(sem_destroy(&called) == 0);
    loops_stop();
    ferry_engine_release(run.scene.engine);
    round_close();
}

static void try_row(const every_call *row)
{
    static void (*const moments[])(ferry_loop_mode) = {beside_each_other, beside_shutdown,
                                                       beside_release, in_callback};
    run.row = row;
    end_if_hung(HANG_S);
    for (int i = 0; i < ROUNDS; i++) {
        for (size_t moment = 0; moment < sizeof moments / sizeof moments[0]; moment++) {
            for (int loop = FERRY_LOOP_THREAD; loop <= FERRY_LOOP_ATTACHED; loop++)
                moments[moment]((ferry_loop_mode)loop);
        }
    }
}

int main(int argc, char **argv)
{
    spare_ucx_hooks();
    run.stop_fd = eventfd(0, EFD_NONBLOCK);
    const char *lacking = every_call_lacks(FERRY_INCLUDE_DIR);
    if (lacking != NULL) {
        (void)fprintf(stderr, "the table of public functions is not whole: %s\n", lacking);
        return 1;
    }
    size_t tried = 0;
    for (size_t i = 0; i < every_call_count; i++) {
        if (argc > 1 && strcmp(every_calls[i].name, argv[1]) != 0)
            continue;
        try_row(&every_calls[i]);
        tried++;
    }
    (void)close(run.stop_fd);
    return tried > 0 ? 0 : 1;
}
