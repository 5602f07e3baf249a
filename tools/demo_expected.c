/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo_expected.h"

#include "tools/demo_model.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS_MAX 64

/* Rows don't depend on each other, so a thread takes its rows through all layers. */
typedef struct share {
    size_t width, rows, layer_count;
    const float *const *weights;
    float *from, *to; /* its rows, there and back; the result is in `from` */
} share;

static void *compute(void *arg)
{
    share *share = arg;
    for (size_t i = 0; i < share->layer_count; i++) {
        demo_layer_compute(share->width, share->rows, share->weights[i], share->from, share->to);
        float *swap = share->from;
        share->from = share->to;
        share->to = swap;
    }
    return NULL;
}

static size_t thread_count(size_t rows)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t count = processors > 0 ? (size_t)processors : 1;
    if (count > THREADS_MAX)
        count = THREADS_MAX;
    return count < rows ? count : rows;
}

/* Shares without a thread are computed here. */
static void compute_all(share *shares, size_t count)
{
    pthread_t threads[THREADS_MAX];
    bool is_started[THREADS_MAX] = {false};
    for (size_t i = 1; i < count; i++)
        is_started[i] = pthread_create(&threads[i], NULL, compute, &shares[i]) == 0;
    for (size_t i = 0; i < count; i++) {
        if (is_started[i])
            pthread_join(threads[i], NULL);
        else
            compute(&shares[i]);
    }
}

int demo_expected_make(size_t width, size_t rows, const float *const *weights, size_t layer_count,
                       const float *in, float **out_p)
{
    size_t size_bytes = rows * width * sizeof(float);
    float *here = malloc(size_bytes);
    float *there = malloc(size_bytes);
    *out_p = NULL;
    if (!here || !there) {
        free(here);
        free(there);
        fputs("ferry: out of memory\n", stderr);
        return EXIT_FAILURE;
    }
    memcpy(here, in, size_bytes);
    share shares[THREADS_MAX];
    size_t count = thread_count(rows);
    for (size_t i = 0; i < count; i++) {
        size_t first = rows * i / count;
        shares[i] = (share){.width = width,
                            .rows = rows * (i + 1) / count - first,
                            .layer_count = layer_count,
                            .weights = weights,
                            .from = here + first * width,
                            .to = there + first * width};
    }
    compute_all(shares, count);
    bool is_there = layer_count % 2 != 0;
    *out_p = is_there ? there : here;
    free(is_there ? here : there);
    return 0;
}
