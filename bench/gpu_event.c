/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu-event: from the moment a user's stream is let go until a transfer on the host that depends on
 * its event is done, which is 64 bytes from one host device to another; the rivals notice in their
 * way and call memcpy. A thread of its own lets go, at a time that who waits does not know; both
 * sides have been waiting by then. Rounds of all ways alternate.
 *
 * What passes between letting go and the earliest the host can know (the kernel looks at its flag,
 * ends, and the GPU tells) is the same for all: `word` measures it, and `spinning-over` and
 * `asleep-*` are what a way takes beyond its median.
 *
 * spinning  ferry's loop looks all the time, and a thread sees by ferry_future_poll that the
 *           transfer is done; `waiting`: that thread helps in ferry_future_wait instead. As rivals
 *           also what takes ferry's place with FERRY_COMPLETION_EVENTS
 * asleep-T  the loop sleeps between looks while the event is T ahead; cpu_share: of the time that
 *           passed, how much of a CPU the process used
 */
#include "bench/gpu.h"
#include "bench/rivals/cuda.h"
#include "bench/rivals/cuda_notice.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define COPY_BYTES 64
#define WAYS_MAX 12
#define WAIT_SPIN_NS INT64_C(1000000000)
#define LOOP_SPIN_NS 400000 /* so that a loop sleeps while it is the others' turn */
#define SPINNING_HOLD_NS 50000
#define RELEASE_SPIN_NS 200000 /* how early the releasing thread wakes, to be on time */

/* ---- who lets go ---- */

typedef struct releaser {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bench_flag flag;
    int64_t due_ns; /* 0: nothing is to be released */
    int64_t released_ns;
    bool is_ending;
} releaser;

static void sleep_until(int64_t due_ns)
{
    struct timespec due = {.tv_sec = due_ns / 1000000000, .tv_nsec = due_ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) != 0)
        continue;
}

static void *releaser_main(void *arg)
{
    releaser *self = arg;
    (void)pthread_mutex_lock(&self->mutex);
    for (;;) {
        while (self->due_ns == 0 && !self->is_ending)
            (void)pthread_cond_wait(&self->changed, &self->mutex);
        if (self->is_ending)
            break;
        int64_t due_ns = self->due_ns;
        (void)pthread_mutex_unlock(&self->mutex);
        if (due_ns - bench_now_ns() > RELEASE_SPIN_NS)
            sleep_until(due_ns - RELEASE_SPIN_NS);
        while (bench_now_ns() < due_ns)
            continue;
        int64_t released_ns = bench_now_ns();
        bench_flag_raise(&self->flag);
        (void)pthread_mutex_lock(&self->mutex);
        self->released_ns = released_ns;
        self->due_ns = 0;
        (void)pthread_cond_signal(&self->changed);
    }
    (void)pthread_mutex_unlock(&self->mutex);
    return NULL;
}

static void releaser_open(releaser *self)
{
    *self = (releaser){.mutex = PTHREAD_MUTEX_INITIALIZER,
                       .changed = PTHREAD_COND_INITIALIZER,
                       .flag = bench_flag_open()};
    if (pthread_create(&self->thread, NULL, releaser_main, self) != 0)
        bench_fail("cannot start a thread");
}

static void releaser_close(releaser *self)
{
    (void)pthread_mutex_lock(&self->mutex);
    self->is_ending = true;
    (void)pthread_cond_signal(&self->changed);
    (void)pthread_mutex_unlock(&self->mutex);
    (void)pthread_join(self->thread, NULL);
    bench_flag_close(&self->flag);
}

static void releaser_order(releaser *self, int64_t hold_ns)
{
    (void)pthread_mutex_lock(&self->mutex);
    self->due_ns = bench_now_ns() + hold_ns;
    (void)pthread_cond_signal(&self->changed);
    (void)pthread_mutex_unlock(&self->mutex);
}

/* When it let go. */
static int64_t releaser_await(releaser *self)
{
    (void)pthread_mutex_lock(&self->mutex);
    while (self->due_ns != 0)
        (void)pthread_cond_wait(&self->changed, &self->mutex);
    int64_t released_ns = self->released_ns;
    (void)pthread_mutex_unlock(&self->mutex);
    return released_ns;
}

/* ---- the ways ---- */

/* An engine that a way has to itself, and the transfer that waits for the event. */
typedef struct ferry_side {
    ferry_engine *engine;
    ferry_device *device;
    ferry_buffer *source, *target;
    ferry_future *event, *copy;
    ferry_waiter waiter;
    int64_t called_ns; /* atomic: when the waiter was called, 0 before */
} ferry_side;

/* How it is seen that the transfer is done. */
typedef enum side_kind {
    SIDE_WATCHED,  /* the loop spins; a thread looks at the future */
    SIDE_WAITED,   /* that thread waits for it, and spins; the loop sleeps */
    SIDE_CALLBACK, /* the loop sleeps between looks and calls back; nobody else is awake */
} side_kind;

typedef struct way {
    const char *name;          /* as a rival; "": ferry's own row */
    const char *suffix;        /* of its shape */
    const cuda_notice *notice; /* NULL: ferry */
    ferry_side side;
    side_kind kind;
    bench_samples samples;
    double cpu_ns, passed_ns; /* over all rounds */
} way;

typedef struct event_bench {
    void *stream;
    releaser releaser;
    way ways[WAYS_MAX];
    size_t way_count;
} event_bench;

static void side_open(ferry_side *side, ferry_completion completion, side_kind kind, void *stream)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.spin_ns = kind == SIDE_WATCHED ? LOOP_SPIN_NS : 0;
    options.wait_spin_ns = kind == SIDE_WAITED ? WAIT_SPIN_NS : -1;
    side->engine = bench_gpu_engine(&options, completion, 1, &side->device);
    side->source = bench_buffer(side->engine, "host:0", COPY_BYTES, 1);
    side->target = bench_buffer(side->engine, "host:1", COPY_BYTES, 0);
    bench_stream_meet(side->device, stream);
}

static void side_close(ferry_side *side)
{
    ferry_buffer_release(side->source);
    ferry_buffer_release(side->target);
    bench_engine_close(side->engine);
}

static void side_post(ferry_side *side, void *stream)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    side->event = ferry_event_record(side->device, stream);
    options.after = &side->event;
    options.after_count = 1;
    side->copy = ferry_copy(side->engine, ferry_buffer_span(side->target),
                            ferry_buffer_span(side->source), &options);
}

static void on_ready(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future;
    ferry_side *side = waiter->arg;
    bench_check(status, "gpu-event: the transfer");
    __atomic_store_n(&side->called_ns, bench_now_ns(), __ATOMIC_RELEASE);
}

/* Returns when the transfer was known to be done. */
static int64_t side_await(ferry_side *side, side_kind kind)
{
    if (kind == SIDE_WATCHED) {
        while (ferry_future_poll(side->copy) == FERRY_PENDING)
            continue;
        return bench_now_ns();
    }
    if (kind == SIDE_WAITED) {
        bench_wait(side->copy);
        return bench_now_ns();
    }
    side->called_ns = 0;
    side->waiter = (ferry_waiter)FERRY_WAITER_INIT(on_ready, side);
    bench_check(ferry_future_on_ready(side->copy, &side->waiter), "ferry_future_on_ready");
    bench_wait(side->copy);
    int64_t called_ns;
    while ((called_ns = __atomic_load_n(&side->called_ns, __ATOMIC_ACQUIRE)) == 0)
        (void)sched_yield();
    return called_ns;
}

static void side_end(ferry_side *side)
{
    bench_finish(side->copy);
    ferry_future_release(side->event);
}

static way *add_way(event_bench *bench, const char *name, const char *suffix)
{
    if (bench->way_count == WAYS_MAX)
        bench_fail("gpu-event: too many ways");
    way *added = &bench->ways[bench->way_count++];
    *added = (way){.name = name, .suffix = suffix};
    return added;
}

static void add_side(event_bench *bench, const char *name, const char *suffix,
                     ferry_completion completion, side_kind kind)
{
    way *added = add_way(bench, name, suffix);
    added->kind = kind;
    side_open(&added->side, completion, kind, bench->stream);
}

static void add_notice(event_bench *bench, const cuda_notice *notice)
{
    add_way(bench, notice->name, "")->notice = notice;
    notice->open();
}

static int64_t read_clock_ns(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Of all threads but the releasing one. */
static int64_t cpu_now_ns(const releaser *releaser)
{
    clockid_t clock;
    if (pthread_getcpuclockid(releaser->thread, &clock) != 0)
        bench_fail("a thread has no clock");
    return read_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - read_clock_ns(clock);
}

/* Returns when the transfer was done. */
static int64_t way_await(way *way, void *stream)
{
    static uint8_t source[COPY_BYTES], target[COPY_BYTES];
    if (way->notice == NULL)
        return side_await(&way->side, way->kind);
    way->notice->await(stream);
    memcpy(target, source, COPY_BYTES);
    __asm__ volatile("" : : "r"(target) : "memory");
    return bench_now_ns();
}

/* One event of one way: from letting go until the transfer is done. */
static double way_once_ns(event_bench *bench, way *way, int64_t hold_ns)
{
    bench_flag_hold(&bench->releaser.flag, bench->stream);
    if (way->notice != NULL)
        way->notice->post(bench->stream);
    else
        side_post(&way->side, bench->stream);
    int64_t cpu_ns = cpu_now_ns(&bench->releaser);
    int64_t start_ns = bench_now_ns();
    releaser_order(&bench->releaser, hold_ns);
    int64_t end_ns = way_await(way, bench->stream);
    way->cpu_ns += (double)(cpu_now_ns(&bench->releaser) - cpu_ns);
    way->passed_ns += (double)(bench_now_ns() - start_ns);
    if (way->notice == NULL)
        side_end(&way->side);
    int64_t released_ns = releaser_await(&bench->releaser);
    cuda_stream_synchronize(bench->stream);
    return (double)(end_ns - released_ns);
}

static void run_rounds(event_bench *bench, int64_t hold_ns, bench_rounds rounds)
{
    for (size_t i = 0; i < bench->way_count; i++)
        (void)way_once_ns(bench, &bench->ways[i], hold_ns);
    while (bench_rounds_next(&rounds)) {
        for (size_t i = 0; i < bench->way_count; i++) {
            way *way = &bench->ways[i];
            bench_samples_add(&way->samples, way_once_ns(bench, way, hold_ns));
        }
    }
}

/* ---- reporting ---- */

static way *find_way(event_bench *bench, const char *name)
{
    for (size_t i = 0; i < bench->way_count; i++) {
        if (strcmp(bench->ways[i].name, name) == 0)
            return &bench->ways[i];
    }
    return NULL;
}

/* What the samples are above the floor. */
static void report_over(const way *way, const char *shape, double floor_ns)
{
    bench_samples over = {0};
    for (size_t i = 0; i < way->samples.count; i++)
        bench_samples_add(&over, way->samples.values[i] - floor_ns);
    bench_report((bench_key){"gpu-event", shape, "latency_ns", way->name}, &over);
    bench_samples_free(&over);
}

static void report(event_bench *bench, const char *name, bool has_totals)
{
    const way *floor = find_way(bench, "word");
    double floor_ns = floor == NULL ? 0 : bench_samples_quantile(&floor->samples, 0.5);
    double ferry_ns = bench_samples_quantile(&find_way(bench, "")->samples, 0.5);
    char shape[48];
    for (size_t i = 0; i < bench->way_count; i++) {
        const way *way = &bench->ways[i];
        (void)snprintf(shape, sizeof shape, "%s%s", name, way->suffix);
        if (has_totals)
            bench_report((bench_key){"gpu-event", shape, "latency_ns", way->name}, &way->samples);
        if (has_totals && way->name[0] != '\0')
            bench_report_value((bench_key){"gpu-event", shape, "ratio", way->name},
                               ferry_ns / bench_samples_quantile(&way->samples, 0.5));
        if (!has_totals)
            bench_report_value((bench_key){"gpu-event", shape, "cpu_share", way->name},
                               way->cpu_ns / way->passed_ns);
        (void)snprintf(shape, sizeof shape, "%s%s%s", name, has_totals ? "-over" : "", way->suffix);
        if (way != floor && floor != NULL)
            report_over(way, shape, floor_ns);
    }
}

/* ---- running ---- */

static void event_bench_open(event_bench *bench, bool is_spinning)
{
    *bench = (event_bench){.stream = cuda_stream_open(false)};
    releaser_open(&bench->releaser);
    side_kind kind = is_spinning ? SIDE_WATCHED : SIDE_CALLBACK;
    add_side(bench, "", "", FERRY_COMPLETION_WORDS, kind);
    add_side(bench, "completion-events", "", FERRY_COMPLETION_EVENTS, kind);
    if (is_spinning)
        add_side(bench, "", "-waiting", FERRY_COMPLETION_WORDS, SIDE_WAITED);
    if (cuda_notice_word() != NULL)
        add_notice(bench, cuda_notice_word());
    const cuda_notice *notice;
    for (size_t i = 0; (notice = cuda_notice_at(i)) != NULL; i++) {
        if (is_spinning || notice->is_asleep)
            add_notice(bench, notice);
    }
}

static void event_bench_close(event_bench *bench)
{
    for (size_t i = 0; i < bench->way_count; i++) {
        way *way = &bench->ways[i];
        bench_samples_free(&way->samples);
        if (way->notice != NULL)
            way->notice->close();
        else
            side_close(&way->side);
    }
    releaser_close(&bench->releaser);
    cuda_stream_close(bench->stream);
}

static void run_asleep(const char *name, int64_t hold_ns, int rounds)
{
    event_bench bench;
    event_bench_open(&bench, false);
    run_rounds(&bench, hold_ns, bench_rounds_begin(rounds, rounds, 0));
    report(&bench, name, false);
    event_bench_close(&bench);
}

void bench_gpu_event(bool is_smoke)
{
    event_bench bench;
    event_bench_open(&bench, true);
    run_rounds(&bench, SPINNING_HOLD_NS,
               is_smoke ? bench_rounds_begin(3, 3, 0)
                        : bench_rounds_begin(200, 2000, INT64_C(5000000000)));
    report(&bench, "spinning", true);
    event_bench_close(&bench);

    run_asleep("asleep-1ms", 1000000, is_smoke ? 2 : 200);
    if (!is_smoke) {
        run_asleep("asleep-10ms", 10000000, 30);
        run_asleep("asleep-100ms", 100000000, 7);
    }
    bench_gpu_event_device(is_smoke);
}
