/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs over the whole public API, from 1 to 8 threads and the callbacks that they cause,
 * in all loop modes, half of them with memory that fails. Exit 0: of each program
 *  - every call answered with what its header allows, and every error agrees with its status;
 *  - every future resolved, before the shutdown if nothing cut that short, and every waiter was
 *    called once or taken back; where a thread sleeps until the engine has work, the program waits
 *    for that thread alone;
 *  - a function ran at most once, not after a future said that it was quiet, nor after a shutdown
 *    that succeeded;
 *  - memory that ferry was given came back, and all that ferry took was given back, whichever of
 *    engine, threads, tasks and handles was the last to go.
 * ThreadSanitizer and AddressSanitizer see what the counts can't. A plain program, for the former.
 *   random_api [SEEDS [FIRST]]
 */
#include "tests/support/random_api.h"
#include "tests/support/stress.h"

#include <dirent.h>
#include <ev.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/eventfd.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SEEDS 150
#else
#define SEEDS 1000
#endif
#define SEEDS_MET 900 /* from so many on, every act has succeeded at least once */
#define HANG_S 30     /* of one program */

static api_world world;
static thread_executor own_thread;
static pthread_barrier_t acted, settled;

/* Who runs the loop beside the threads that act; NULL loop and no thread: nobody. */
static struct {
    pthread_t thread;
    bool is_on;
    int stop_fd; /* embedded: readable: it is to end */
    struct ev_loop *loop;
    ev_async stop;
} runner;

static void look_at_line(void *arg, ferry_log_level level, const char *line)
{
    (void)arg, (void)level;
    API_CHECK(line != NULL);
}

/* ---- who runs the loop ---- */

/* As a program that embeds the engine sleeps: nothing but its descriptor wakes it. */
static void *run_embedded(void *arg)
{
    (void)arg;
    struct pollfd descriptors[2] = {{.fd = ferry_engine_fd(world.engine), .events = POLLIN},
                                    {.fd = runner.stop_fd, .events = POLLIN}};
    while (descriptors[1].revents == 0) {
        while (ferry_engine_progress(world.engine, 0) > 0)
            continue;
        if (ferry_engine_arm(world.engine) == FERRY_OK)
            API_CHECK(poll(descriptors, 2, -1) > 0);
        else
            API_CHECK(poll(&descriptors[1], 1, 0) >= 0);
    }
    return NULL;
}

static void stop_attached(struct ev_loop *loop, ev_async *watcher, int events)
{
    (void)watcher, (void)events;
    ev_break(loop, EVBREAK_ALL);
}

static void *run_attached(void *arg)
{
    (void)arg;
    (void)ev_run(runner.loop, 0);
    return NULL;
}

static void start_runner(void)
{
    runner.is_on = world.loop == FERRY_LOOP_ATTACHED ||
                   (world.loop == FERRY_LOOP_EMBEDDED && api_one_in(&world.random, 2));
    if (!runner.is_on)
        return;
    if (world.loop == FERRY_LOOP_EMBEDDED)
        API_CHECK((runner.stop_fd = eventfd(0, EFD_CLOEXEC)) >= 0);
    API_CHECK(pthread_create(&runner.thread, NULL,
                             world.loop == FERRY_LOOP_EMBEDDED ? run_embedded : run_attached,
                             NULL) == 0);
}

static void stop_runner(void)
{
    if (!runner.is_on)
        return;
    if (world.loop == FERRY_LOOP_EMBEDDED)
        API_CHECK(eventfd_write(runner.stop_fd, 1) == 0);
    else
        ev_async_send(runner.loop, &runner.stop);
    API_CHECK(pthread_join(runner.thread, NULL) == 0);
    if (world.loop == FERRY_LOOP_EMBEDDED)
        API_CHECK(close(runner.stop_fd) == 0);
    runner.is_on = false;
}

/* ---- the world ---- */

static void plan(uint64_t seed)
{
    api_random random = {seed * 0x9e3779b97f4a7c15 | 1};
    for (int i = 0; i < 8; i++)
        (void)api_below(&random, 2);
    world.seed = seed;
    world.loop = (ferry_loop_mode)api_below(&random, 3);
    world.fails_memory = api_one_in(&random, 2);
    world.has_limits = api_one_in(&random, 4);
    world.has_group = api_one_in(&random, 8);
    world.has_hooks = api_one_in(&random, 4);
    world.keeps_tasks = api_one_in(&random, 8);
    world.is_cut_short = world.keeps_tasks || api_one_in(&random, 5);
    world.is_engine_first = api_one_in(&random, 2);
    world.is_threads_last = api_one_in(&random, 2);
    world.thread_count = 1 + api_below(&random, API_THREADS_MAX);
    world.step_count = 4 + api_below(&random, 60);
    world.random = random;
}

static void no_record(void *arg, const ferry_trace_record *record)
{
    (void)arg, (void)record;
}

static void direct_post(ferry_executor *executor, ferry_task *task)
{
    (void)executor;
    ferry_task_run(task);
}

static ferry_engine_options random_options(const ferry_allocator *memory)
{
    api_random *random = &world.random;
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.loop = world.loop;
    options.host_devices = 2;
    options.host_workers = 1 + api_below(random, 2);
    options.allocator = memory;
    options.stats = api_below(random, 2);
    options.log = look_at_line;
    options.ev_loop = world.loop == FERRY_LOOP_ATTACHED ? runner.loop : NULL;
    if (world.has_limits) {
        options.max_nodes = 16 + api_below(random, 64);
        options.max_edges = 64 + api_below(random, 64);
        options.max_accesses = 64 + api_below(random, 64);
    }
    options.max_tasks = api_one_in(random, 4) ? 1 + api_below(random, 4) : 0;
    options.stream_depth = api_one_in(random, 4) ? 1 + api_below(random, 4) : 0;
    options.submit_budget = api_one_in(random, 4) ? 1 : 0;
    options.inline_copy_bytes = api_one_in(random, 3) ? 16 : 0;
    options.flight_records = api_one_in(random, 4) ? 64 : 0;
    options.wait_spin_ns = api_one_in(random, 3) ? -1 : 0;
    options.watchdog_ns = api_one_in(random, 8) ? 1000000 : 0;
    if (api_one_in(random, 4))
        options.executor = api_executor(&world.actors[0]);
    return options;
}

static void open_world(void)
{
    failing_allocator_init(&world.memory);
    api_bag_init(&world.bag);
    world.own_thread = &own_thread;
    world.direct = (ferry_executor){.struct_size = sizeof world.direct, .post = direct_post};
    API_CHECK(pthread_rwlock_init(&world.engine_lock, NULL) == 0);
    api_actor_init(&world.actors[0], &world, world.random);
    if (world.loop == FERRY_LOOP_ATTACHED) {
        API_CHECK((runner.loop = ev_loop_new(EVFLAG_AUTO)) != NULL);
        ev_async_init(&runner.stop, stop_attached);
        ev_async_start(runner.loop, &runner.stop);
    }
    ferry_allocator memory = failing_allocator_interface(&world.memory);
    ferry_engine_options options = random_options(&memory);
    ferry_error *error = NULL;
    API_CHECK(ferry_engine_create(&options, &world.engine, &error) == FERRY_OK && error == NULL);
    for (size_t i = 0; i < 2; i++)
        API_CHECK((world.devices[i] = ferry_device_at(world.engine, i)) != NULL);
    for (size_t i = 0; i < API_SHARED_BUFFERS; i++)
        API_CHECK(ferry_buffer_alloc(world.devices[i % 2], API_BUFFER_BYTES, &world.shared[i]) ==
                  FERRY_OK);
    API_CHECK(ferry_queue_create(world.engine, 4 + api_below(&world.random, 200), &world.queue,
                                 &world.queue_fd) == FERRY_OK);
    api_scopes_open(&world);
    ferry_trace_hooks hooks = {.struct_size = sizeof hooks, .record = no_record};
    if (world.has_hooks)
        API_CHECK(ferry_engine_trace(world.engine, &hooks) == FERRY_OK);
    start_runner();
    if (world.has_group)
        world.group = api_group_join(&world);
    world.has_engine = true;
}

/* ---- the threads ---- */

static void *thread_main(void *arg)
{
    api_actor *self = arg;
    for (uint32_t i = 0; i < world.step_count; i++)
        api_act(self, true);
    (void)pthread_barrier_wait(&acted);
    (void)pthread_barrier_wait(&settled);
    /* The engine is shut down meanwhile, and released. */
    for (uint32_t i = 0; world.is_threads_last && i < world.step_count / 2; i++)
        api_act(self, false);
    return NULL;
}

static void resolved(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future, (void)status;
    API_CHECK(sem_post(waiter->arg) == 0);
}

/* Without a hand at the engine's work if another runs its loop. */
static void await(ferry_future *future)
{
    if (!runner.is_on && world.loop != FERRY_LOOP_THREAD) {
        API_CHECK(ferry_future_wait(future, -1) != FERRY_PENDING);
        return;
    }
    sem_t done;
    API_CHECK(sem_init(&done, 0, 0) == 0);
    ferry_waiter waiter = FERRY_WAITER_INIT(resolved, &done);
    waiter.executor = ferry_executor_inline();
    API_CHECK(ferry_future_on_ready(future, &waiter) == FERRY_OK);
    while (sem_wait(&done) != 0)
        continue;
    (void)sem_destroy(&done);
    API_CHECK(ferry_future_poll(future) != FERRY_PENDING);
}

/* Ends what nobody else need end; then all must resolve. The threads hold still. */
static void settle(void)
{
    failing_allocator_arm(&world.memory, 0, false);
    for (uint32_t i = 0; i < API_BOARD; i++)
        ferry_promise_release(atomic_exchange(&world.promises[i], NULL));
    api_end_all_begun(&world);
    if (!world.keeps_tasks)
        api_bag_open(&world.bag);
    for (uint32_t t = 0; t < world.thread_count; t++) {
        api_actor *actor = &world.actors[t];
        for (uint32_t i = 0; i < actor->held_count; i++) {
            if (actor->held[i].may_last)
                API_CHECK(ferry_future_cancel(actor->held[i].future) == FERRY_OK);
        }
    }
    for (uint32_t i = 0; i < API_BOARD; i++) {
        ferry_future *future = atomic_load(&world.futures[i]);
        API_CHECK(future == NULL || ferry_future_cancel(future) == FERRY_OK);
    }
    for (uint32_t t = 0; !world.is_cut_short && t < world.thread_count; t++) {
        for (uint32_t i = 0; i < world.actors[t].held_count; i++)
            await(world.actors[t].held[i].future);
    }
}

/* ---- the end ---- */

static void shut_down(void)
{
    api_random *random = &world.random;
    if (api_one_in(random, 2))
        stop_runner();
    if (api_one_in(random, 2)) {
        ferry_status status = ferry_engine_shutdown(world.engine, api_below(random, 100000));
        API_CHECK(status == FERRY_OK || status == FERRY_E_DEADLINE);
    }
    API_CHECK(ferry_engine_shutdown(world.engine, -1) == FERRY_OK);
    stop_runner();
    uint32_t count = atomic_load(&world.record_count);
    for (uint32_t i = 0; i < count && i < API_RECORDS_MAX; i++) {
        api_record *record = &world.records[i];
        if (atomic_load(&record->registered) == 0)
            atomic_store(&record->is_quiet, true); /* of a call: it is over, or never will be */
    }
}

static void release_handles(void)
{
    for (uint32_t t = 0; t < world.thread_count; t++) {
        for (uint32_t i = 0; i < world.actors[t].held_count; i++)
            (void)api_check_held(&world.actors[t].held[i], true);
        api_let_go(&world.actors[t]);
    }
    for (uint32_t i = 0; i < API_BOARD; i++) {
        ferry_future_release(atomic_exchange(&world.futures[i], NULL));
        ferry_promise_release(atomic_exchange(&world.promises[i], NULL));
        ferry_buffer_release(atomic_exchange(&world.buffers[i], NULL));
    }
    api_end_all_begun(&world);
    for (size_t i = 0; i < API_SHARED_BUFFERS; i++)
        ferry_buffer_release(world.shared[i]);
    (void)api_take_all(&world);
    ferry_queue_release(world.queue);
    api_scopes_release(&world);
    ferry_group_release(world.group);
}

static void check_records(void)
{
    uint32_t count = atomic_load(&world.record_count);
    for (uint32_t i = 0; i < count && i < API_RECORDS_MAX; i++) {
        api_record *record = &world.records[i];
        uint32_t begun = atomic_load(&record->begun);
        if (atomic_load(&record->registered) == 0)
            API_CHECK(begun <= 1 && atomic_load(&record->ended) == begun);
        else
            API_CHECK(
                begun + atomic_load(&record->removed) == atomic_load(&record->registered) ||
                (begun + atomic_load(&record->removed) == 0 && atomic_load(&record->is_let_go)));
    }
}

static void release_waited(void)
{
    uint32_t count = atomic_load(&world.record_count);
    for (uint32_t i = 0; i < count && i < API_RECORDS_MAX; i++)
        ferry_future_release(world.records[i].future);
}

/* Threads, engine, tasks and handles go in an order of the seed's. */
static void end_world(pthread_t *threads)
{
    bool joins_first = !world.is_threads_last;
    (void)pthread_barrier_wait(&settled);
    for (uint32_t t = 0; joins_first && t < world.thread_count; t++)
        API_CHECK(pthread_join(threads[t], NULL) == 0);
    API_CHECK(pthread_rwlock_wrlock(&world.engine_lock) == 0);
    world.has_engine = false;
    API_CHECK(pthread_rwlock_unlock(&world.engine_lock) == 0);
    shut_down();
    if (world.is_engine_first)
        ferry_engine_release(world.engine);
    for (uint32_t t = 0; !joins_first && t < world.thread_count; t++)
        API_CHECK(pthread_join(threads[t], NULL) == 0);
    failing_allocator_arm(&world.memory, 0, false);
    api_bag_open(&world.bag);
    thread_executor_wait_idle(&own_thread);
    check_records();
    release_waited();
    release_handles();
    if (!world.is_engine_first)
        ferry_engine_release(world.engine);
    thread_executor_wait_idle(&own_thread);
    API_CHECK(atomic_load(&world.freed) == atomic_load(&world.wrapped));
    API_CHECK(failing_allocator_live_bytes(&world.memory) == 0);
    if (runner.loop != NULL) {
        ev_async_stop(runner.loop, &runner.stop);
        ev_loop_destroy(runner.loop);
        runner.loop = NULL;
    }
    (void)pthread_rwlock_destroy(&world.engine_lock);
    (void)pthread_mutex_destroy(&world.bag.mutex);
}

static void run_seed(uint64_t seed)
{
    pthread_t threads[API_THREADS_MAX];
    memset(&world, 0, sizeof world);
    atomic_store(&api_seed, seed);
    plan(seed);
    bool has_trace = api_one_in(&world.random, 64);
    if (has_trace)
        API_CHECK(ferry_trace_open("/dev/null") == FERRY_OK);
    open_world();
    API_CHECK(pthread_barrier_init(&acted, NULL, world.thread_count + 1) == 0);
    API_CHECK(pthread_barrier_init(&settled, NULL, world.thread_count + 1) == 0);
    for (uint32_t t = 0; t < world.thread_count; t++) {
        api_random random = {((seed + 1) * 0xd1342543de82ef95 + t * 0x9e3779b97f4a7c15) | 1};
        api_actor_init(&world.actors[t], &world, random);
        API_CHECK(pthread_create(&threads[t], NULL, thread_main, &world.actors[t]) == 0);
    }
    (void)pthread_barrier_wait(&acted);
    settle();
    end_world(threads);
    if (has_trace)
        API_CHECK(ferry_trace_close() == FERRY_OK);
    (void)pthread_barrier_destroy(&acted);
    (void)pthread_barrier_destroy(&settled);
}

static unsigned descriptors;

static unsigned open_descriptors(void)
{
    unsigned count = 0;
    DIR *folder = opendir("/proc/self/fd");
    API_CHECK(folder != NULL);
    while (readdir(folder) != NULL)
        count++;
    (void)closedir(folder);
    return count;
}

static void print_tallies(bool must_be_met)
{
    for (const api_tally *tally = api_tallies(); tally->name != NULL; tally++) {
        (void)printf("%s%s %lu/%lu", tally == api_tallies() ? "" : ", ", tally->name, tally->done,
                     tally->refused);
        /* Host devices have no native streams. */
        bool can_be = strcmp(tally->name, "event") != 0 && strcmp(tally->name, "stream wait") != 0;
        API_CHECK(!must_be_met || !can_be || tally->done != 0);
    }
    (void)printf("\n");
}

/* What the process keeps for itself is there after the 64th. */
static void run_one(uint64_t seed)
{
    static unsigned runs;
    run_seed(seed);
    if (++runs == 64)
        descriptors = open_descriptors();
}

int main(int argc, char **argv)
{
    seeds seeds = {.count = SEEDS, .first = 1, .hang_s = HANG_S};
    CHECK(thread_executor_start(&own_thread));
    run_seeds(argc, argv, &seeds, run_one);
    API_CHECK(seeds.count <= 64 || open_descriptors() == descriptors);
    thread_executor_stop(&own_thread);
    (void)printf("%llu seeds from %llu; done/refused: ", (unsigned long long)seeds.count,
                 (unsigned long long)seeds.first);
    print_tallies(seeds.count >= SEEDS_MET);
    return 0;
}
