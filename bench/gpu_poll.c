/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu-poll: what it costs the host to look, with N transfers in flight that don't end. `tick-N`:
 * one ferry_engine_progress of an embedded engine that finds nothing new, by words and by events.
 * Rivals: one query for each transfer's event (event-each), and one of the oldest (event-head). No
 * program can have 10,000 events in streams that stand: the driver would make it wait. So they take
 * turns with the 512 there are, which makes their queries cheaper, if anything.
 */
#include "bench/gpu_flight.h"
#include "bench/rivals/cuda.h"

#include <stdio.h>

#define TICKS 1000 /* a sample */
#define EVENTS_A_STREAM 128
#define EVENT_STREAMS 4
#define EVENTS_MAX (EVENTS_A_STREAM * EVENT_STREAMS)

static bench_rounds begin_rounds(bool is_smoke)
{
    return is_smoke ? bench_rounds_begin(1, 1, 0) : bench_rounds_begin(10, 100, 400000000);
}

static double ferry_tick_ns(ferry_engine *engine)
{
    int64_t begin_ns = bench_now_ns();
    for (int i = 0; i < TICKS; i++)
        (void)ferry_engine_progress(engine, 0);
    return (double)(bench_now_ns() - begin_ns) / TICKS;
}

static bench_samples run_ferry(ferry_completion completion, size_t count, bool is_smoke)
{
    bench_samples samples = {0};
    bench_flight flight;
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.loop = FERRY_LOOP_EMBEDDED;
    bench_flight_open(&flight, &options, completion, count);
    bench_flight_begin(&flight);
    (void)ferry_tick_ns(flight.engine); /* what can be issued is */
    bench_rounds rounds = begin_rounds(is_smoke);
    while (bench_rounds_next(&rounds))
        bench_samples_add(&samples, ferry_tick_ns(flight.engine));
    bench_flight_end(&flight);
    bench_flight_close(&flight);
    return samples;
}

/* ---- rivals ---- */

/* Events recorded behind a stream that stands. */
typedef struct event_flight {
    void *events[EVENTS_MAX];
    size_t count;
    void *stream; /* that stands */
    void *streams[EVENT_STREAMS];
    void *held;
    bench_flag flag;
} event_flight;

/* All is made before the stream stands: making may wait for what runs. */
static void event_flight_begin(event_flight *flight, size_t count)
{
    *flight = (event_flight){.count = count < EVENTS_MAX ? count : EVENTS_MAX,
                             .stream = cuda_stream_open(false),
                             .held = cuda_event_open(CUDA_EVENT_PLAIN),
                             .flag = bench_flag_open()};
    for (size_t i = 0; i < EVENT_STREAMS; i++)
        flight->streams[i] = cuda_stream_open(false);
    for (size_t i = 0; i < flight->count; i++)
        flight->events[i] = cuda_event_open(CUDA_EVENT_PLAIN);
    bench_flag_hold(&flight->flag, flight->stream);
    cuda_event_record(flight->held, flight->stream);
    for (size_t i = 0; i < EVENT_STREAMS; i++)
        cuda_stream_wait(flight->streams[i], flight->held);
    for (size_t i = 0; i < flight->count; i++)
        cuda_event_record(flight->events[i], flight->streams[i / EVENTS_A_STREAM]);
}

static void event_flight_end(event_flight *flight)
{
    bench_flag_raise(&flight->flag);
    cuda_synchronize();
    for (size_t i = 0; i < flight->count; i++)
        cuda_event_close(flight->events[i]);
    for (size_t i = 0; i < EVENT_STREAMS; i++)
        cuda_stream_close(flight->streams[i]);
    cuda_stream_close(flight->stream);
    cuda_event_close(flight->held);
    bench_flag_close(&flight->flag);
}

static double event_tick_ns(const event_flight *flight, size_t count)
{
    int ticks = count >= 1000 ? TICKS / 100 : TICKS;
    int64_t begin_ns = bench_now_ns();
    for (int i = 0; i < ticks; i++) {
        for (size_t k = 0; k < count; k++) {
            if (cuda_event_is_fired(flight->events[k % flight->count]))
                bench_fail("gpu-poll: an event of a stream that stands has fired");
        }
    }
    return (double)(bench_now_ns() - begin_ns) / ticks;
}

/* ---- all of them ---- */

/* The ratio is that of words to the way: below 1, words cost less. */
static double report_way(const char *shape, const char *rival, bench_samples *samples,
                         double words_ns)
{
    double median_ns = bench_samples_quantile(samples, 0.5);
    bench_report((bench_key){"gpu-poll", shape, "latency_ns", rival}, samples);
    if (rival[0] != '\0')
        bench_report_value((bench_key){"gpu-poll", shape, "ratio", rival}, words_ns / median_ns);
    bench_samples_free(samples);
    return median_ns;
}

static double run_count(size_t count, bool is_smoke)
{
    char shape[32];
    (void)snprintf(shape, sizeof shape, "tick-%zu", count);
    bench_samples words = run_ferry(FERRY_COMPLETION_WORDS, count, is_smoke);
    bench_samples events = run_ferry(FERRY_COMPLETION_EVENTS, count, is_smoke);
    bench_samples each = {0};
    bench_samples head = {0};
    event_flight flight;
    event_flight_begin(&flight, count);
    bench_rounds rounds = begin_rounds(is_smoke);
    while (bench_rounds_next(&rounds)) {
        bench_samples_add(&each, event_tick_ns(&flight, count));
        bench_samples_add(&head, event_tick_ns(&flight, 1));
    }
    event_flight_end(&flight);
    double words_ns = report_way(shape, "", &words, 0);
    (void)report_way(shape, "completion-events", &events, words_ns);
    (void)report_way(shape, "event-each", &each, words_ns);
    (void)report_way(shape, "event-head", &head, words_ns);
    return words_ns;
}

void bench_gpu_poll(bool is_smoke)
{
    double one_ns = run_count(1, is_smoke);
    double hundred_ns = run_count(100, is_smoke);
    double many_ns = run_count(10000, is_smoke);
    bench_report_value((bench_key){"gpu-poll", "flat-100", "ratio", ""}, hundred_ns / one_ns);
    bench_report_value((bench_key){"gpu-poll", "flat-10000", "ratio", ""}, many_ns / one_ns);
    bench_gpu_poll_launches(is_smoke);
}
