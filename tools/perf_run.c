/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/perf_run.h"

#include "tools/perf_copies.h"
#include "tools/perf_stream.h"
#include "tools/progress_bar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The bound of the slots of all messages under way, if there are more than two. */
#define SLOTS_BYTES ((size_t)64 << 20)
/* The share of a line's time in which its number of messages is found. */
#define PROBE_SHARE 0.15
/* A line's least part of an even share of the time; with more delay than LATE_SHARE it is none. */
#define LEAST_SHARE 0.2
#define LATE_SHARE 0.25
#define PROBE_FIRST 4 /* 1 for large messages */
#define PROBE_LARGE_BYTES ((size_t)8 << 20)
#define PROBE_GROWTH 8
/* With a GPU, from this size on a line of PERF_BW has its limits beside it, up to LIMIT_COUNT. */
#define LIMIT_LEAST_BYTES ((size_t)1 << 20)
#define LIMIT_COUNT 3

static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

typedef struct driver {
    perf_end *end;
    bool is_on_gpu;        /* the device of the options */
    ferry_buffer *control; /* a step, and a byte for ready */
    perf_samples samples;
    progress_bar bar;
    double end_s;  /* when all lines should be done */
    size_t lines;  /* lines not yet measured */
    double line_s; /* the time for this line */
    double least_s;
    uint32_t number;
} driver;

static int make_control(perf_end *end, ferry_buffer **buffer_p)
{
    ferry_status status = ferry_buffer_alloc(end->member.device, 2 * sizeof(perf_step), buffer_p);
    if (status == FERRY_OK)
        return 0;
    fprintf(stderr, "ferry: allocating a buffer: %s\n", ferry_status_text(status));
    return EXIT_FAILURE;
}

static ferry_span step_span(ferry_buffer *control)
{
    return (ferry_span){control, 0, sizeof(perf_step)};
}

static ferry_span ready_span(ferry_buffer *control)
{
    return (ferry_span){control, sizeof(perf_step), 1};
}

/* ---- rank 0 ---- */

static int tell(driver *driver, const perf_step *step)
{
    perf_end *end = driver->end;
    memcpy(ferry_buffer_data(driver->control), step, sizeof(*step));
    return perf_end_finish(end, perf_end_send(end, PERF_TAG_STEP, step_span(driver->control)),
                           "telling the other end what to do");
}

static int run_step(driver *driver, perf_step *step, perf_samples *samples, double *seconds_p)
{
    perf_end *end = driver->end;
    step->number = driver->number++;
    int result = tell(driver, step);
    if (!result)
        result = perf_stream_prepare(end, step);
    if (!result)
        result =
            perf_end_finish(end, perf_end_recv(end, PERF_TAG_READY, ready_span(driver->control)),
                            "waiting for the other end");
    return result ? result : perf_stream_run(end, step, samples, seconds_p);
}

/* Enlarges a step until it has taken its part of the line's time, which also warms up. */
static int probe(driver *driver, perf_step *step, double *message_s_p)
{
    perf_samples none = {0};
    double seconds = 0;
    step->iterations = step->size_bytes < PROBE_LARGE_BYTES ? PROBE_FIRST : 1;
    for (;;) {
        int result = run_step(driver, step, &none, &seconds);
        if (result)
            return result;
        *message_s_p = seconds / (double)step->iterations;
        if (seconds * PROBE_GROWTH > driver->line_s * PROBE_SHARE * 2 ||
            step->iterations > PERF_COUNT_MAX / PROBE_GROWTH)
            return 0;
        step->iterations *= PROBE_GROWTH;
    }
}

static int warm_up(driver *driver, perf_step *step, uint64_t *iterations_p)
{
    const perf_options *options = driver->end->options;
    perf_samples none = {0};
    double seconds = 0;
    int result = 0;
    *iterations_p = options->iterations;
    if (options->warmup != UINT64_MAX && options->warmup > 0) {
        step->iterations = options->warmup;
        result = run_step(driver, step, &none, &seconds);
    }
    if (!result && (options->iterations == 0 || options->warmup == UINT64_MAX)) {
        if (options->iterations > 0) { /* a few messages are enough */
            step->iterations = options->iterations < 100 ? 1 : options->iterations / 20;
            return run_step(driver, step, &none, &seconds);
        }
        double message_s = 1e9;
        if (driver->line_s > 0) /* otherwise one message must do */
            result = probe(driver, step, &message_s);
        double count = driver->line_s * (1 - PROBE_SHARE) / (message_s > 1e-9 ? message_s : 1e-9);
        *iterations_p = count < 1 ? 1 : count > 1e9 ? (uint64_t)1e9 : (uint64_t)count;
    }
    return result;
}

static uint32_t window_of(const perf_options *options, perf_test test, size_t size_bytes)
{
    if (test == PERF_LAT)
        return 1;
    size_t window = options->window                            ? options->window
                    : test == PERF_RATE || test == PERF_NOTICE ? 256
                                                               : 64;
    size_t room = SLOTS_BYTES / size_bytes;
    if (window > room)
        window = room > 2 ? room : window < 2 ? window : 2;
    if (test == PERF_PLAN && window > 1)
        window &= ~(size_t)1;                       /* two halves */
    if (window > 1 && size_bytes > (size_t)1 << 29) /* two of a GiB at either end are too many */
        window = 1;
    return (uint32_t)window;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

static void sum_up(perf_samples *samples, perf_line *line)
{
    if (samples->count == 0)
        return;
    qsort(samples->values_s, samples->count, sizeof(double), compare);
    line->latency_s[0] = samples->values_s[0];
    line->latency_s[1] = samples->values_s[samples->count / 2];
    line->latency_s[2] = samples->values_s[samples->count * 99 / 100];
}

/*
 * Large messages take more than their share. Other lines divide the time left, but each has a least
 * time. When much more than all of the time is gone, each line is one message.
 */
static double line_time_s(driver *driver)
{
    double time_s = driver->end->options->time_s;
    double left_s = driver->end_s - now_s();
    double share_s = left_s / (double)driver->lines--;
    double least_s = left_s > -LATE_SHARE * time_s ? driver->least_s : 0;
    return share_s > least_s ? share_s : least_s;
}

static perf_step make_step(const driver *driver, const perf_line *line, const char *device)
{
    const perf_options *options = driver->end->options;
    perf_step step = {.version = PERF_STEP_VERSION,
                      .test = line->test,
                      .size_bytes = line->size_bytes,
                      .window = line->window,
                      .is_checked = options->is_checked,
                      .is_batch = options->is_batch,
                      .is_shared = options->is_shared};
    bool is_host = strcmp(device, PERF_DEVICE_HOST) == 0;
    for (int rank = 0; rank < 2; rank++)
        (void)snprintf(step.devices[rank], PERF_DEVICE_BYTES, "%s",
                       is_host ? device : options->devices[rank]);
    return step;
}

static perf_step begin_line(driver *driver, const perf_line *line, const char *device)
{
    char name[32];
    (void)snprintf(name, sizeof(name), "%s %zu B", line->name, line->size_bytes);
    progress_bar_show(&driver->bar, name);
    driver->line_s = line_time_s(driver);
    return make_step(driver, line, device);
}

/* limit: what could be fastest, in bytes a second, if the line names it. */
static int end_line(driver *driver, perf_line *line, double limit)
{
    /* A turn of `lat` is two messages in turn; a message of `bi` is one each way. */
    double directions = line->test == PERF_LAT || line->test == PERF_BI ? 2 : 1;
    line->messages_per_s = (double)line->iterations * directions / line->seconds;
    line->bytes_per_s = line->messages_per_s * (double)line->size_bytes;
    line->ratio = line->limit ? line->bytes_per_s / limit : 0;
    progress_bar_advance(&driver->bar);
    if (driver->bar.shown && isatty(STDOUT_FILENO) == 1)
        fputs("\r\033[K", stderr); /* the line replaces the bar */
    return perf_report_line(driver->end->options, line);
}

/* Whether bytes arrive at all, in each place of the messages. */
static int check_once(driver *driver, const perf_line *line, const char *device)
{
    perf_step step = make_step(driver, line, device);
    perf_samples none = {0};
    double seconds = 0;
    step.is_checked = 1;
    step.iterations = step.window;
    return run_step(driver, &step, &none, &seconds);
}

static int measure(driver *driver, perf_line *line, const char *device)
{
    perf_step step = begin_line(driver, line, device);
    int result = warm_up(driver, &step, &line->iterations);
    if (result)
        return result;
    step.iterations = line->iterations;
    driver->samples.count = 0;
    result = run_step(driver, &step, &driver->samples, &line->seconds);
    sum_up(&driver->samples, line);
    return result;
}

/* ---- beside messages of GPU memory ---- */

static bool wants_limits(const driver *driver, perf_test test, size_t size_bytes)
{
    return driver->is_on_gpu && test == PERF_BW && size_bytes >= LIMIT_LEAST_BYTES;
}

/* On which way bytes have gone since then. */
static const char *way_since(const driver *driver, perf_ways before)
{
    perf_ways now = perf_end_ways(driver->end);
    const char *name = NULL;
    for (int way = 0; way < PERF_WAY_COUNT; way++) {
        if (now.bytes[way] != before.bytes[way])
            name = name == NULL ? perf_way_names[way] : "mixed";
    }
    return name != NULL ? name : perf_way_names[PERF_WAY_STAGING];
}

static int measure_copies(driver *driver, perf_line *line)
{
    perf_step step = begin_line(driver, line, driver->end->options->devices[0]);
    step.number = driver->number++;
    step.iterations = driver->end->options->iterations;
    perf_copy_way way = strcmp(line->name, "d2h") == 0   ? PERF_FROM_GPU
                        : strcmp(line->name, "h2d") == 0 ? PERF_TO_GPU
                                                         : PERF_ON_GPU;
    return perf_copies_run(driver->end, &step, way, driver->line_s, &line->iterations,
                           &line->seconds);
}

static int measure_limit(driver *driver, perf_line *limit)
{
    if (strcmp(limit->way, "copy") == 0)
        return measure_copies(driver, limit);
    int result = check_once(driver, limit, limit->device);
    return result ? result : measure(driver, limit, limit->device);
}

/* Names the slowest of the limits in the line, and gives its bandwidth. */
static int run_limits(driver *driver, perf_line *line, double *bytes_per_s_p)
{
    const char *device = driver->end->options->devices[0];
    perf_line limits[LIMIT_COUNT] = {
        {.name = line->name, .device = PERF_DEVICE_HOST, .way = "ucx"},
        {.name = "d2h", .device = device, .way = "copy"},
        {.name = "h2d", .device = device, .way = "copy"},
    };
    size_t count = LIMIT_COUNT;
    if (strcmp(line->way, "ipc") == 0) {
        limits[0] = (perf_line){.name = "d2d", .device = device, .way = "copy"};
        count = 1;
    } else if (strcmp(line->way, "nccl") == 0) {
        count = 0;
    }
    for (size_t i = 0; i < count; i++) {
        perf_line *limit = &limits[i];
        limit->test = line->test;
        limit->size_bytes = line->size_bytes;
        limit->window = line->window;
        int result = measure_limit(driver, limit);
        if (!result)
            result = end_line(driver, limit, 0);
        if (result)
            return result;
        if (i > 0 && limit->bytes_per_s >= *bytes_per_s_p)
            continue;
        line->limit = strcmp(limit->way, "copy") == 0 ? limit->name : limit->way;
        *bytes_per_s_p = limit->bytes_per_s;
    }
    for (; count < LIMIT_COUNT; count++) { /* their time is the others' */
        driver->lines--;
        progress_bar_advance(&driver->bar);
    }
    return 0;
}

static int run_line(driver *driver, perf_test test, size_t size_bytes)
{
    const perf_options *options = driver->end->options;
    const perf_ways before = perf_end_ways(driver->end);
    perf_line line = {.test = test,
                      .name = perf_test_names[test],
                      .size_bytes = size_bytes,
                      .window = window_of(options, test, size_bytes)};
    double limit = 0;
    int result = 0;
    if (driver->is_on_gpu) {
        result = check_once(driver, &line, options->devices[0]);
        line.device = options->devices[0];
        line.way = way_since(driver, before);
    }
    if (!result && wants_limits(driver, test, size_bytes))
        result = run_limits(driver, &line, &limit);
    if (!result)
        result = measure(driver, &line, options->devices[0]);
    if (driver->is_on_gpu)
        line.way = way_since(driver, before);
    return result ? result : end_line(driver, &line, limit);
}

static size_t default_sizes(perf_test test, size_t *sizes)
{
    static const size_t lasts[] = {[PERF_LAT] = (size_t)1 << 21,
                                   [PERF_RATE] = 512,
                                   [PERF_BW] = (size_t)1 << 30,
                                   [PERF_BI] = (size_t)1 << 30,
                                   [PERF_GET] = (size_t)1 << 26,
                                   [PERF_PUT] = (size_t)1 << 26,
                                   [PERF_NOTICE] = FERRY_NOTICE_BYTES_MAX,
                                   [PERF_PLAN] = (size_t)1 << 26};
    size_t last = lasts[test];
    size_t count = 0;
    for (size_t size = 8; size <= last; size *= 8)
        sizes[count++] = size;
    return count;
}

/* The sizes of a test. Returns how many. */
static size_t sizes_of(const perf_options *options, perf_test test, size_t *sizes)
{
    if (!options->tests[test])
        return 0;
    if (options->size_count == 0)
        return default_sizes(test, sizes);
    memcpy(sizes, options->sizes, options->size_count * sizeof(*sizes));
    return options->size_count;
}

static int run_all(driver *driver)
{
    const perf_options *options = driver->end->options;
    size_t sizes[PERF_SIZES_MAX];
    size_t lines = 0;
    for (int test = 0; test < PERF_TEST_COUNT; test++) {
        size_t count = sizes_of(options, (perf_test)test, sizes);
        for (size_t i = 0; i < count; i++)
            lines += wants_limits(driver, (perf_test)test, sizes[i]) ? 1 + LIMIT_COUNT : 1;
    }
    driver->lines = lines;
    driver->least_s = LEAST_SHARE * options->time_s / (double)lines;
    driver->end_s = now_s() + options->time_s;
    progress_bar_begin(&driver->bar, lines);
    int result = perf_report_begin(driver->end);
    for (int test = 0; test < PERF_TEST_COUNT; test++) {
        size_t count = sizes_of(options, (perf_test)test, sizes);
        for (size_t i = 0; i < count && !result; i++)
            result = run_line(driver, (perf_test)test, sizes[i]);
    }
    progress_bar_end(&driver->bar);
    return result;
}

int perf_run_driver(perf_end *end)
{
    static const perf_step last = {.version = PERF_STEP_VERSION};
    driver driver = {.end = end, .is_on_gpu = !perf_end_is_on_host(end)};
    driver.samples.values_s = calloc(PERF_SAMPLES_MAX + 1, sizeof(double));
    if (!driver.samples.values_s) {
        fputs("ferry: out of memory\n", stderr);
        return EXIT_FAILURE;
    }
    int result = make_control(end, &driver.control);
    if (!result)
        result = run_all(&driver);
    if (!result)
        result = tell(&driver, &last);
    ferry_buffer_release(driver.control);
    free(driver.samples.values_s);
    return result;
}

/* ---- rank 1 ---- */

static bool is_possible(const perf_step *step)
{
    return step->version == PERF_STEP_VERSION && step->test < PERF_TEST_COUNT &&
           step->size_bytes > 0 && step->size_bytes <= PERF_SIZE_MAX_BYTES && step->window > 0 &&
           step->window <= PERF_WINDOW_MAX && memchr(step->devices[1], 0, PERF_DEVICE_BYTES) &&
           step->size_bytes <= PERF_SIZE_MAX_BYTES / step->window;
}

static int follow(perf_end *end, ferry_buffer *control, bool *is_last_p)
{
    perf_step step;
    int result = perf_end_finish(end, perf_end_recv(end, PERF_TAG_STEP, step_span(control)),
                                 "waiting for what to do");
    if (result)
        return result;
    memcpy(&step, ferry_buffer_data(control), sizeof(step));
    *is_last_p = step.version == PERF_STEP_VERSION && step.iterations == 0;
    if (*is_last_p)
        return 0;
    if (!is_possible(&step)) {
        fprintf(stderr,
                "ferry: rank %d: the other end wants what can't be; is it another "
                "version of ferry?\n",
                end->member.rank);
        return EXIT_FAILURE;
    }
    result = perf_stream_prepare(end, &step);
    if (!result)
        result = perf_end_finish(end, perf_end_send(end, PERF_TAG_READY, ready_span(control)),
                                 "telling the other end to begin");
    perf_samples none = {0};
    double seconds = 0;
    return result ? result : perf_stream_run(end, &step, &none, &seconds);
}

int perf_run_follower(perf_end *end)
{
    ferry_buffer *control = NULL;
    int result = make_control(end, &control);
    for (bool is_last = false; !is_last && !result;)
        result = follow(end, control, &is_last);
    ferry_buffer_release(control);
    return result;
}
