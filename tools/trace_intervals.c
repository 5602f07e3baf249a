/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/trace_intervals.h"

#include <stdlib.h>

static int compare(const void *left, const void *right)
{
    const trace_interval *a = left;
    const trace_interval *b = right;
    return (a->begin_ns > b->begin_ns) - (a->begin_ns < b->begin_ns);
}

size_t trace_intervals_unite(trace_interval *intervals, size_t count)
{
    if (count == 0)
        return 0;
    qsort(intervals, count, sizeof(intervals[0]), compare);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        trace_interval next = intervals[i];
        trace_interval *last = kept > 0 ? &intervals[kept - 1] : NULL;
        if (next.end_ns <= next.begin_ns)
            continue;
        if (!last || next.begin_ns > last->end_ns)
            intervals[kept++] = next;
        else if (next.end_ns > last->end_ns)
            last->end_ns = next.end_ns;
    }
    return kept;
}

int64_t trace_intervals_length_ns(const trace_interval *intervals, size_t count)
{
    int64_t length_ns = 0;
    for (size_t i = 0; i < count; i++)
        length_ns += intervals[i].end_ns - intervals[i].begin_ns;
    return length_ns;
}

int64_t trace_intervals_shared_ns(const trace_interval *left, size_t left_count,
                                  const trace_interval *right, size_t right_count)
{
    int64_t shared_ns = 0;
    size_t i = 0;
    size_t j = 0;
    while (i < left_count && j < right_count) {
        int64_t begin_ns =
            left[i].begin_ns > right[j].begin_ns ? left[i].begin_ns : right[j].begin_ns;
        int64_t end_ns = left[i].end_ns < right[j].end_ns ? left[i].end_ns : right[j].end_ns;
        if (end_ns > begin_ns)
            shared_ns += end_ns - begin_ns;
        if (left[i].end_ns < right[j].end_ns)
            i++;
        else
            j++;
    }
    return shared_ns;
}
