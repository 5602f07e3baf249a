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

/* What this thread has run: calibration must not depend on who else wants the processor. */
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

/* Samples walk over all buffers, as a round does, so that the caches help no more than there. */
static double measure_copy_s(const demo_plan *plan, size_t sample)
{
    ferry_buffer *out = plan->buffers.slots[sample % (plan->options.stages * 2)];
    ferry_buffer *in = plan->buffers.masters[sample % plan->layer_count];
    double begin_s = thread_now_s();
    memcpy(ferry_buffer_data(out), ferry_buffer_data(in), ferry_buffer_size_bytes(out));
    return thread_now_s() - begin_s;
}

static double measure_layer_s(const demo_plan *plan, size_t sample, size_t rows, const float *in,
                              float *out)
{
    ferry_buffer *weights = plan->buffers.slots[sample % (plan->options.stages * 2)];
    double begin_s = thread_now_s();
    demo_layer_compute(plan->options.width, rows, ferry_buffer_data(weights), in, out);
    return thread_now_s() - begin_s;
}

/*
 * How many times longer a layer takes than a copy of its weights, each alone. The shortest of each
 * counts, as others on the machine can only lengthen them.
 */
static double measure_weight(const demo_plan *plan, size_t rows, const float *in, float *out)
{
    double copy_s = HUGE_VAL;
    double layer_s = HUGE_VAL;
    for (size_t i = 0; i < SAMPLES; i++)
        copy_s = fmin(copy_s, measure_copy_s(plan, i));
    for (size_t i = 0; i < SAMPLES; i++)
        layer_s = fmin(layer_s, measure_layer_s(plan, i, rows, in, out));
    return layer_s / copy_s;
}

/* The most rows that fit into the memory the demo allows itself. */
static size_t rows_limit(const demo_options *options)
{
    size_t limit = DEMO_ROWS_MAX;
    while (limit > 1 && demo_options_memory_bytes(options, limit) > DEMO_MEMORY_MAX_BYTES)
        limit /= 2;
    return limit;
}

int demo_calibrate_rows(const demo_plan *plan, size_t *rows_p)
{
    static const unsigned char byte = 'f';
    size_t limit = rows_limit(&plan->options);
    size_t count = limit * plan->options.width;
    float *in = malloc(count * sizeof(float));
    float *out = malloc(count * sizeof(float));
    if (!in || !out) {
        fputs("ferry: out of memory\n", stderr);
        free(in);
        free(out);
        return EXIT_FAILURE;
    }
    demo_input_fill(in, count, &byte, 1);
    demo_plan_fill_slots(plan);

    size_t low = 0; /* lighter than the copy */
    size_t high = 1;
    double low_weight = 0;
    double high_weight = measure_weight(plan, high, in, out);
    while (high_weight < 1 && high < limit) {
        low = high;
        low_weight = high_weight;
        high = high * 2 < limit ? high * 2 : limit;
        high_weight = measure_weight(plan, high, in, out);
    }
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        double middle_weight = measure_weight(plan, middle, in, out);
        if (middle_weight < 1) {
            low = middle;
            low_weight = middle_weight;
        } else {
            high = middle;
            high_weight = middle_weight;
        }
    }
    /* Nearer as a quotient: 1 / low_weight against high_weight. */
    *rows_p = low > 0 && low_weight * high_weight > 1 ? low : high;
    free(in);
    free(out);
    return 0;
}
