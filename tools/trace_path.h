/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The critical path: from the operation that ended last, of those that ran if there are any, back
 * to one that waited for nothing, by what each one waited for.
 *
 * An operation of a stream that was issued while the one before it in the stream still ran waited
 * for that one, unless its cause (waited_for) ended later: its device may have waited for that. Any
 * other waited for its cause. A step runs from the end of the step
 * before, or from its begin if that is later, to its own end; from the end of the step before to
 * its begin it waits. The first step waits from its submission. So running and waiting of all steps
 * together are the path's length.
 */
#ifndef TRACE_PATH_H
#define TRACE_PATH_H

#include "tools/trace_model.h"

typedef struct trace_step {
    uint32_t op;
    bool is_behind; /* it waited for the one before it in its stream */
    int64_t waiting_ns;
    int64_t running_ns;
} trace_step;

typedef struct trace_path {
    trace_step *steps; /* in the order of time */
    size_t count;
    int64_t begin_ns;
    int64_t end_ns;
    int64_t waiting_ns;
    int64_t running_ns;
} trace_path;

/* model has operations. The path is to be released either way. */
trace_result trace_path_find(const trace_model *model, trace_path *path);

void trace_path_release(trace_path *path);

#endif
