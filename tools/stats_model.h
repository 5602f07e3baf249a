/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The figures of an engine as its socket answers them. They come from another process: everything
 * is checked once, here.
 */
#ifndef STATS_MODEL_H
#define STATS_MODEL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define STATS_FORMAT 1   /* of the answers that are understood */
#define STATS_BUCKETS 48 /* [i]: latencies from 2^i ns to less than 2^(i+1); [0]: less than 2 */
#define STATS_WHY_BYTES 256

typedef struct stats_model {
    json_t *document; /* owned; the pointers below lead into it */
    const char *version;
    int64_t pid, engine, time_ns;
    int64_t entered, resolved, in_flight;
    json_t *kinds, *ways, *failures; /* objects: name -> count */
    int64_t latency_every, latency_count, latency_sum_ns;
    int64_t latency_counts[STATS_BUCKETS];
} stats_model;

/*
 * Takes the document, also when it returns false: then `why` says what is wrong with it, and the
 * model holds nothing.
 */
bool stats_model_take(stats_model *model, json_t *document, char why[STATS_WHY_BYTES]);

void stats_model_release(stats_model *model);

/* The count of that name in one of the objects; 0: there is none. */
int64_t stats_model_count(const json_t *counts, const char *name);

/* The sum of an object's counts. */
int64_t stats_model_sum(json_t *counts);

/*
 * The latency that a share of the operations does not exceed, as far as buckets tell: the end of
 * the bucket in which that operation is. 0 if nothing was measured.
 */
double stats_model_latency_ns(const stats_model *model, double share);

/* Counts with their names are at most this; what is more is garbage. */
#define STATS_COUNT_MAX (INT64_C(1) << 62)

#endif
