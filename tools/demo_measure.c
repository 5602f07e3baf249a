/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo_measure.h"

#include "tools/demo_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SAMPLES 64

static double read_clock_s(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double demo_now_s(void)
{
    return read_clock_s(CLOCK_MONOTONIC);
}

/* The time that this thread has run: calibration must not depend on other load. */
static double thread_now_s(void)
{
    return read_clock_s(CLOCK_THREAD_CPUTIME_ID);
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

double demo_median(double *values, size_t count)
{
    qsort(values, count, sizeof(values[0]), compare);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

/*
 * The state of a measurement. On the host each sample takes the next buffers, as a round does, so
 * that caches help no more than there. On GPUs the first stage measures.
 */
typedef struct trial {
    const demo_plan *plan;
    float *in, *out; /* where the layers run */
    ferry_buffer *buffers[2];
    int result; /* of the first failure */
} trial;

static ferry_buffer *slot_of(const trial *trial, size_t sample)
{
    size_t count = trial->plan->cuda ? 2 : trial->plan->options.stages * 2;
    return trial->plan->buffers.slots[sample % count];
}

static double measure_copy_s(trial *trial, size_t sample)
{
    const demo_plan *plan = trial->plan;
    ferry_buffer *to = slot_of(trial, sample);
    void *out = ferry_buffer_data(to);
    const void *in = ferry_buffer_data(plan->buffers.masters[sample % plan->layer_count]);
    size_t size_bytes = ferry_buffer_size_bytes(to);
    if (plan->cuda) {
        double begin_s = demo_now_s();
        if (!trial->result)
            trial->result = demo_cuda_put(plan->cuda, 0, out, in, size_bytes);
        return demo_now_s() - begin_s;
    }
    double begin_s = thread_now_s();
    memcpy(out, in, size_bytes);
    return thread_now_s() - begin_s;
}

static double measure_layer_s(trial *trial, size_t sample, size_t rows)
{
    const demo_plan *plan = trial->plan;
    size_t width = plan->options.width;
    const void *weights = ferry_buffer_data(slot_of(trial, sample));
    if (plan->cuda) {
        double begin_s = demo_now_s();
        if (!trial->result)
            trial->result =
                demo_cuda_layer(plan->cuda, 0, width, rows, weights, trial->in, trial->out);
        if (!trial->result)
            trial->result = demo_cuda_finish(plan->cuda, 0, DEMO_CUDA_COMPUTE);
        return demo_now_s() - begin_s;
    }
    double begin_s = thread_now_s();
    demo_layer_compute(width, rows, weights, trial->in, trial->out);
    return thread_now_s() - begin_s;
}

/*
 * Measures how many times longer a layer takes than a copy of its weights, each alone. The shortest
 * time of each counts, because other load only lengthens them.
 */
static double measure_weight(trial *trial, size_t rows)
{
    double copy_s = HUGE_VAL;
    double layer_s = HUGE_VAL;
    for (size_t i = 0; i < SAMPLES; i++)
        copy_s = fmin(copy_s, measure_copy_s(trial, i));
    for (size_t i = 0; i < SAMPLES; i++)
        layer_s = fmin(layer_s, measure_layer_s(trial, i, rows));
    return layer_s / copy_s;
}

/* The most rows that fit into the demo's memory. */
static size_t rows_limit(const demo_options *options)
{
    size_t limit = DEMO_ROWS_MAX;
    while (limit > 1 && demo_options_memory_bytes(options, limit) > DEMO_MEMORY_MAX_BYTES)
        limit /= 2;
    return limit;
}

static int open_trial(trial *trial, size_t count)
{
    static const unsigned char byte = 'f';
    const demo_plan *plan = trial->plan;
    for (size_t i = 0; i < 2; i++) {
        ferry_status status =
            ferry_buffer_alloc(plan->places[0], count * sizeof(float), &trial->buffers[i]);
        if (status != FERRY_OK) {
            fprintf(stderr, "ferry: allocating a buffer: %s (%s)\n", ferry_status_text(status),
                    ferry_status_name(status));
            return EXIT_FAILURE;
        }
    }
    trial->in = ferry_buffer_data(trial->buffers[0]);
    trial->out = ferry_buffer_data(trial->buffers[1]);
    int result = 0;
    if (plan->cuda)
        result = demo_cuda_fill(plan->cuda, 0, trial->in, 0, count * sizeof(float));
    else
        demo_input_fill(trial->in, count, &byte, 1);
    return result ? result : demo_plan_fill_slots(plan);
}

static size_t find_rows(trial *trial, size_t limit)
{
    size_t low = 0; /* rows with which a layer takes less than the copy */
    size_t high = 1;
    double low_weight = 0;
    double high_weight = measure_weight(trial, high);
    while (high_weight < 1 && high < limit) {
        low = high;
        low_weight = high_weight;
        high = high * 2 < limit ? high * 2 : limit;
        high_weight = measure_weight(trial, high);
    }
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        double middle_weight = measure_weight(trial, middle);
        if (middle_weight < 1) {
            low = middle;
            low_weight = middle_weight;
        } else {
            high = middle;
            high_weight = middle_weight;
        }
    }
    /* Compares quotients: 1 / low_weight with high_weight. */
    return low > 0 && low_weight * high_weight > 1 ? low : high;
}

int demo_calibrate_rows(const demo_plan *plan, size_t *rows_p)
{
    size_t limit = rows_limit(&plan->options);
    trial trial = {.plan = plan};
    trial.result = open_trial(&trial, limit * plan->options.width);
    if (!trial.result)
        *rows_p = find_rows(&trial, limit);
    ferry_buffer_release(trial.buffers[0]);
    ferry_buffer_release(trial.buffers[1]);
    return trial.result;
}
