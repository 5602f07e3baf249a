/* SPDX-License-Identifier: Apache-2.0 */
/* Stretches of time, and what they have in common. */
#ifndef TRACE_INTERVALS_H
#define TRACE_INTERVALS_H

#include <stddef.h>
#include <stdint.h>

typedef struct trace_interval {
    int64_t begin_ns;
    int64_t end_ns;
} trace_interval;

/* Sorts, joins those that overlap or touch, and leaves out the empty ones; returns how many are
 * left. */
size_t trace_intervals_unite(trace_interval *intervals, size_t count);

/* Length of united intervals together. */
int64_t trace_intervals_length_ns(const trace_interval *intervals, size_t count);

/* Length of what is in both of two sets of united intervals. */
int64_t trace_intervals_shared_ns(const trace_interval *left, size_t left_count,
                                  const trace_interval *right, size_t right_count);

#endif
