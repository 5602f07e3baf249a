/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu-poll, launches: what a thread that launches kernels notices of somebody else's looking. It
 * launches bursts, short enough for the stream to take whole, and the time of the launching calls
 * counts; once while nothing is in flight and everybody sleeps (`idle`), once while 10,000 of
 * ferry's transfers are, by turns. `-spinning`: ferry's loop looks all the time; `-asleep`: now and
 * then. Rivals: a thread that asks one event (event-head) or a hundred (event-each) all the time.
 */
#include "bench/gpu_flight.h"
#include "bench/rivals/cuda.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

#define IN_FLIGHT 10000
#define BURST 400 /* launches */
#define BURSTS 10 /* a sample; all of them end within LOOP_SPIN_NS */
#define LOOP_SPIN_NS INT64_C(30000000)
#define RIVAL_EVENTS 100

typedef struct launcher {
    void *stream;
    uint32_t *word;
} launcher;

static double launch_ns(launcher *launcher)
{
    int64_t total_ns = 0;
    for (int i = 0; i < BURSTS; i++) {
        int64_t begin_ns = bench_now_ns();
        for (uint32_t k = 0; k < BURST; k++)
            cuda_touch(launcher->word, k, launcher->stream);
        total_ns += bench_now_ns() - begin_ns;
        cuda_stream_synchronize(launcher->stream);
    }
    return (double)total_ns / (BURST * BURSTS);
}

/* Until a loop that spins has gone to sleep. */
static void let_sleep(void)
{
    struct timespec rest = {.tv_nsec = LOOP_SPIN_NS + LOOP_SPIN_NS / 5};
    (void)nanosleep(&rest, NULL);
}

static bench_rounds begin_rounds(bool is_smoke)
{
    return is_smoke ? bench_rounds_begin(1, 1, 0) : bench_rounds_begin(5, 50, 1200000000);
}

static void run_ferry(launcher *launcher, ferry_completion completion, bool is_spinning,
                      bool is_smoke)
{
    bench_flight flight;
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.spin_ns = is_spinning ? LOOP_SPIN_NS : 0;
    bench_flight_open(&flight, &options, completion, IN_FLIGHT);
    bench_pair pair = bench_pair_begin(false);
    bench_rounds rounds = begin_rounds(is_smoke);
    while (bench_rounds_next(&rounds)) {
        let_sleep();
        double idle_ns = launch_ns(launcher);
        bench_flight_begin(&flight);
        bench_pair_add(&pair, launch_ns(launcher), idle_ns);
        bench_flight_end(&flight);
    }
    char shape[48];
    (void)snprintf(shape, sizeof shape, "launch-%s-%s", bench_completion_name(completion),
                   is_spinning ? "spinning" : "asleep");
    bench_pair_report(&pair, "gpu-poll", shape, "latency_ns", "idle");
    bench_flight_close(&flight);
}

/* ---- rivals ---- */

typedef struct asker {
    pthread_t thread;
    void *events[RIVAL_EVENTS];
    size_t count;
    void *stream;
    bench_flag flag;
    int is_ending; /* atomic */
} asker;

static void *asker_main(void *arg)
{
    asker *self = arg;
    while (__atomic_load_n(&self->is_ending, __ATOMIC_ACQUIRE) == 0) {
        for (size_t i = 0; i < self->count; i++)
            (void)cuda_event_is_fired(self->events[i]);
    }
    return NULL;
}

static void asker_begin(asker *self)
{
    self->is_ending = 0;
    bench_flag_hold(&self->flag, self->stream);
    for (size_t i = 0; i < self->count; i++)
        cuda_event_record(self->events[i], self->stream);
    if (pthread_create(&self->thread, NULL, asker_main, self) != 0)
        bench_fail("cannot start a thread");
}

static void asker_end(asker *self)
{
    __atomic_store_n(&self->is_ending, 1, __ATOMIC_RELEASE);
    (void)pthread_join(self->thread, NULL);
    bench_flag_raise(&self->flag);
    cuda_stream_synchronize(self->stream);
}

static void run_rival(launcher *launcher, const char *shape, size_t count, bool is_smoke)
{
    asker asker = {.count = count, .stream = cuda_stream_open(false), .flag = bench_flag_open()};
    for (size_t i = 0; i < count; i++)
        asker.events[i] = cuda_event_open(CUDA_EVENT_PLAIN);
    bench_pair pair = bench_pair_begin(false);
    bench_rounds rounds = begin_rounds(is_smoke);
    while (bench_rounds_next(&rounds)) {
        double idle_ns = launch_ns(launcher);
        asker_begin(&asker);
        bench_pair_add(&pair, launch_ns(launcher), idle_ns);
        asker_end(&asker);
    }
    bench_report((bench_key){"gpu-poll", shape, "latency_ns", "idle"}, &pair.rival);
    bench_report((bench_key){"gpu-poll", shape, "latency_ns", "asking"}, &pair.ferry);
    bench_report((bench_key){"gpu-poll", shape, "ratio", "idle"}, &pair.ratio);
    bench_samples_free(&pair.ferry);
    bench_samples_free(&pair.rival);
    bench_samples_free(&pair.ratio);
    for (size_t i = 0; i < count; i++)
        cuda_event_close(asker.events[i]);
    cuda_stream_close(asker.stream);
    bench_flag_close(&asker.flag);
}

void bench_gpu_poll_launches(bool is_smoke)
{
    launcher launcher = {.stream = cuda_stream_open(false),
                         .word = cuda_memory_alloc(sizeof(uint32_t))};
    (void)launch_ns(&launcher);
    run_ferry(&launcher, FERRY_COMPLETION_WORDS, true, is_smoke);
    run_ferry(&launcher, FERRY_COMPLETION_WORDS, false, is_smoke);
    run_ferry(&launcher, FERRY_COMPLETION_EVENTS, true, is_smoke);
    run_ferry(&launcher, FERRY_COMPLETION_EVENTS, false, is_smoke);
    run_rival(&launcher, "launch-event-head", 1, is_smoke);
    run_rival(&launcher, "launch-event-each", RIVAL_EVENTS, is_smoke);
    cuda_memory_free(launcher.word);
    cuda_stream_close(launcher.stream);
}
