/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/trace_path.h"

#include <stdlib.h>

#define STEPS_FIRST 64

/* Whether it did more than wait: the way back begins at such an operation. */
static bool has_run(const trace_model *model, const trace_op *op)
{
    trace_row_kind kind = model->rows[op->row].kind;
    return op->end_ns > op->begin_ns && (kind == TRACE_ROW_STREAM || kind == TRACE_ROW_CALLS);
}

static uint32_t find_last(const trace_model *model)
{
    uint32_t last = 0;
    for (uint32_t i = 1; i < model->op_count; i++) {
        const trace_op *op = &model->ops[i];
        const trace_op *best = &model->ops[last];
        bool is_runner = has_run(model, op);
        if (is_runner == has_run(model, best) ? op->end_ns > best->end_ns : is_runner)
            last = i;
    }
    return last;
}

/*
 * Finds what the operation waited for: the operation before it in its row, if that ended after this
 * was issued, or its cause, which its device may have waited for; whichever ended last. Neither may
 * end later than this one. So, and because no operation is visited twice, a file that contradicts
 * itself still gives a path that ends.
 */
static uint32_t find_previous(const trace_model *model, uint32_t index, bool *is_behind_p)
{
    const trace_op *op = &model->ops[index];
    const trace_row *row = &model->rows[op->row];
    const trace_op *cause = op->cause != TRACE_NO_OP ? &model->ops[op->cause] : NULL;
    if (cause && cause->end_ns > op->end_ns)
        cause = NULL;
    *is_behind_p = false;
    bool is_queue = row->kind == TRACE_ROW_STREAM || row->kind == TRACE_ROW_CALLS;
    if (is_queue && index > row->first && op->issued_ns != TRACE_NO_TIME) {
        const trace_op *before = op - 1;
        if (before->end_ns > op->issued_ns && before->end_ns <= op->begin_ns &&
            (!cause || cause->end_ns <= before->end_ns)) {
            *is_behind_p = true;
            return index - 1;
        }
    }
    return cause ? op->cause : TRACE_NO_OP;
}

static trace_step *add_step(trace_path *path, size_t *capacity)
{
    if (path->count == *capacity) {
        size_t wanted = *capacity ? *capacity * 2 : STEPS_FIRST;
        trace_step *steps = reallocarray(path->steps, wanted, sizeof(trace_step));
        if (!steps)
            return NULL;
        path->steps = steps;
        *capacity = wanted;
    }
    return &path->steps[path->count++];
}

static void reverse(trace_path *path)
{
    for (size_t i = 0; i < path->count / 2; i++) {
        trace_step swap = path->steps[i];
        path->steps[i] = path->steps[path->count - 1 - i];
        path->steps[path->count - 1 - i] = swap;
    }
}

static void measure(const trace_model *model, trace_path *path)
{
    const trace_op *first = &model->ops[path->steps[0].op];
    int64_t at_ns = trace_op_submitted_ns(first);
    path->begin_ns = at_ns;
    for (size_t i = 0; i < path->count; i++) {
        trace_step *step = &path->steps[i];
        const trace_op *op = &model->ops[step->op];
        int64_t begin_ns = op->begin_ns > at_ns ? op->begin_ns : at_ns;
        step->waiting_ns = begin_ns - at_ns;
        step->running_ns = op->end_ns > begin_ns ? op->end_ns - begin_ns : 0;
        at_ns = begin_ns + step->running_ns;
        path->waiting_ns += step->waiting_ns;
        path->running_ns += step->running_ns;
    }
    path->end_ns = at_ns;
}

trace_result trace_path_find(const trace_model *model, trace_path *path)
{
    *path = (trace_path){0};
    size_t capacity = 0;
    bool *is_visited = calloc(model->op_count, sizeof(bool));
    uint32_t index = find_last(model);
    while (is_visited && index != TRACE_NO_OP && !is_visited[index]) {
        trace_step *step = add_step(path, &capacity);
        if (!step)
            break;
        is_visited[index] = true;
        *step = (trace_step){.op = index};
        index = find_previous(model, index, &step->is_behind);
    }
    bool is_whole = index == TRACE_NO_OP || (is_visited && is_visited[index]);
    free(is_visited);
    if (!is_whole)
        return TRACE_NO_MEMORY;
    reverse(path);
    measure(model, path);
    return TRACE_OK;
}

void trace_path_release(trace_path *path)
{
    free(path->steps);
    *path = (trace_path){0};
}
