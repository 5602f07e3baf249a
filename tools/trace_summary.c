/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/trace_summary.h"

#include "tools/trace_intervals.h"

#include <stdlib.h>

static uint64_t add_bounded(uint64_t left, uint64_t right)
{
    return left > UINT64_MAX - right ? UINT64_MAX : left + right;
}

static void count_op(trace_summary *summary, const trace_op *op)
{
    /* Equal texts of a model have equal pointers. */
    size_t i = 0;
    while (i < summary->tally_count &&
           (summary->tallies[i].kind != op->kind || summary->tallies[i].status != op->status))
        i++;
    if (i == TRACE_TALLIES_MAX)
        summary->tallies[--i].kind = NULL; /* the last one is for all other kinds */
    else if (i == summary->tally_count)
        summary->tallies[summary->tally_count++] =
            (trace_tally){.kind = op->kind, .status = op->status};
    summary->tallies[i].count++;
    summary->tallies[i].size_bytes = add_bounded(summary->tallies[i].size_bytes, op->size_bytes);
}

static int compare_tallies(const void *left, const void *right)
{
    const trace_tally *a = left;
    const trace_tally *b = right;
    return (a->count < b->count) - (a->count > b->count);
}

static void count_ops(const trace_model *model, trace_summary *summary)
{
    for (size_t i = 0; i < model->op_count; i++) {
        const trace_op *op = &model->ops[i];
        count_op(summary, op);
        summary->failed_count += trace_op_failed(model, op);
        if (op->status == model->status_ok)
            summary->size_bytes = add_bounded(summary->size_bytes, op->size_bytes);
    }
    qsort(summary->tallies, summary->tally_count, sizeof(trace_tally), compare_tallies);
}

/* Measures a row. `intervals` has room for its waits. */
static void measure_row(const trace_model *model, size_t index, trace_row_figures *figures,
                        trace_interval *intervals)
{
    const trace_row *row = &model->rows[index];
    const trace_op *ops = model->ops + row->first;
    for (size_t i = 0; i < row->count; i++) {
        int64_t submitted_ns = trace_op_submitted_ns(&ops[i]);
        intervals[i] = (trace_interval){submitted_ns, ops[i].begin_ns};
        figures->waiting_sum_ns += (double)(ops[i].begin_ns - submitted_ns);
        if (figures->longest == TRACE_NO_OP ||
            ops[i].end_ns - ops[i].begin_ns >
                model->ops[figures->longest].end_ns - model->ops[figures->longest].begin_ns)
            figures->longest = (uint32_t)(row->first + i);
    }
    size_t count = trace_intervals_unite(intervals, row->count);
    figures->waiting_ns = trace_intervals_length_ns(intervals, count);
}

static bool runs(trace_row_kind kind)
{
    return kind == TRACE_ROW_STREAM || kind == TRACE_ROW_CALLS;
}

/* Replaces the intervals by those in which the row was busy. Returns how many. */
static size_t unite_busy(const trace_model *model, const trace_row *row, trace_interval *intervals)
{
    for (size_t i = 0; i < row->count; i++) {
        const trace_op *op = &model->ops[row->first + i];
        intervals[i] = (trace_interval){op->begin_ns, op->end_ns};
    }
    return trace_intervals_unite(intervals, row->count);
}

static trace_result measure_rows(const trace_model *model, trace_summary *summary)
{
    /*
     * The first half gathers streams from the front and calls from the back; the second half is for
     * one row at a time.
     */
    trace_interval *streams = calloc(model->op_count, 2 * sizeof(trace_interval));
    summary->rows = calloc(model->row_count, sizeof(trace_row_figures));
    if (!streams || !summary->rows) {
        free(streams);
        return TRACE_NO_MEMORY;
    }
    trace_interval *middle = streams + model->op_count;
    trace_interval *calls = middle;
    size_t stream_count = 0;
    for (size_t i = 0; i < model->row_count; i++) {
        const trace_row *row = &model->rows[i];
        trace_row_figures *figures = &summary->rows[i];
        figures->longest = TRACE_NO_OP;
        measure_row(model, i, figures, middle);
        size_t count = unite_busy(model, row, middle);
        figures->busy_ns = trace_intervals_length_ns(middle, count);
        if (runs(row->kind))
            summary->busy_sum_ns += (double)figures->busy_ns;
        for (size_t j = 0; j < count && row->kind == TRACE_ROW_STREAM; j++)
            streams[stream_count++] = middle[j];
        for (size_t j = 0; j < count && row->kind == TRACE_ROW_CALLS; j++)
            *--calls = middle[j];
    }
    size_t call_count = trace_intervals_unite(calls, (size_t)(middle - calls));
    stream_count = trace_intervals_unite(streams, stream_count);
    summary->streams_busy_ns = trace_intervals_length_ns(streams, stream_count);
    summary->calls_busy_ns = trace_intervals_length_ns(calls, call_count);
    summary->both_busy_ns = trace_intervals_shared_ns(streams, stream_count, calls, call_count);
    free(streams);
    return TRACE_OK;
}

trace_result trace_summary_make(const trace_model *model, trace_summary *summary)
{
    *summary = (trace_summary){0};
    count_ops(model, summary);
    if (measure_rows(model, summary) != TRACE_OK)
        return TRACE_NO_MEMORY;
    return trace_path_find(model, &summary->path);
}

void trace_summary_release(trace_summary *summary)
{
    free(summary->rows);
    trace_path_release(&summary->path);
    *summary = (trace_summary){0};
}

double trace_summary_overlap(const trace_summary *summary)
{
    int64_t smaller_ns = summary->streams_busy_ns < summary->calls_busy_ns
                             ? summary->streams_busy_ns
                             : summary->calls_busy_ns;
    return smaller_ns > 0 ? (double)summary->both_busy_ns / (double)smaller_ns : 0;
}

double trace_summary_concurrency(const trace_model *model, const trace_summary *summary)
{
    int64_t span_ns = model->end_ns - model->begin_ns;
    return span_ns > 0 ? summary->busy_sum_ns / (double)span_ns : 0;
}
