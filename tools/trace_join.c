/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/trace_join.h"

#include <stdlib.h>

#define NO_GAP INT64_MAX

/* An end of a message. */
typedef struct end {
    uint64_t flow;
    uint32_t op;
    bool is_sender;
} end;

static int compare_ends(const void *left, const void *right)
{
    const end *a = left;
    const end *b = right;
    if (a->flow != b->flow)
        return a->flow < b->flow ? -1 : 1;
    if (a->is_sender != b->is_sender)
        return a->is_sender ? -1 : 1; /* senders first */
    return (a->op > b->op) - (a->op < b->op);
}

/* All ends, by message. NULL with *count_p 0: there are none. */
static trace_result list_ends(const trace_model *model, end **ends_p, size_t *count_p)
{
    size_t count = 0;
    for (size_t i = 0; i < model->op_count; i++)
        count += model->ops[i].flow != 0;
    *count_p = count;
    *ends_p = NULL;
    if (count == 0)
        return TRACE_OK;
    end *ends = calloc(count, sizeof(*ends));
    if (!ends)
        return TRACE_NO_MEMORY;
    size_t at = 0;
    for (uint32_t i = 0; i < model->op_count; i++) {
        const trace_op *op = &model->ops[i];
        if (op->flow != 0)
            ends[at++] = (end){.flow = op->flow, .op = i, .is_sender = op->is_sender};
    }
    qsort(ends, count, sizeof(*ends), compare_ends);
    *ends_p = ends;
    return TRACE_OK;
}

/* Whether the two are a message: its sender, and the receiver behind it. */
static bool is_message(const end *ends, size_t count, size_t at)
{
    return at + 1 < count && ends[at].is_sender && !ends[at + 1].is_sender &&
           ends[at].flow == ends[at + 1].flow;
}

/* ---- clocks ---- */

/* gaps[from][to]: the shortest time from a send to the end of its receive, by the files' clocks. */
typedef int64_t gap_table[TRACE_FILES_MAX][TRACE_FILES_MAX];

static int64_t sent_ns(const trace_op *op)
{
    return op->issued_ns != TRACE_NO_TIME ? op->issued_ns : trace_op_submitted_ns(op);
}

static void measure_gaps(const trace_model *model, const end *ends, size_t count, gap_table gaps)
{
    for (size_t from = 0; from < TRACE_FILES_MAX; from++) {
        for (size_t to = 0; to < TRACE_FILES_MAX; to++)
            gaps[from][to] = NO_GAP;
    }
    for (size_t i = 0; i < count; i++) {
        if (!is_message(ends, count, i))
            continue;
        const trace_op *send = &model->ops[ends[i].op];
        const trace_op *receive = &model->ops[ends[i + 1].op];
        int64_t *gap = &gaps[model->rows[send->row].file][model->rows[receive->row].file];
        int64_t ns = receive->end_ns - sent_ns(send);
        if (ns < *gap)
            *gap = ns;
    }
}

/* How much later than `base` the clock of `file` is to be taken; 0 if no message goes back. */
static int64_t choose_shift(gap_table gaps, size_t base, size_t file)
{
    int64_t there_ns = gaps[base][file];
    int64_t back_ns = gaps[file][base];
    if (there_ns >= 0 && back_ns >= 0)
        return 0;
    if (there_ns == NO_GAP)
        return back_ns;
    if (back_ns == NO_GAP)
        return -there_ns;
    return back_ns / 2 - there_ns / 2;
}

/* Goes from file to file by messages. False: the times would leave their range. */
static bool choose_shifts(trace_model *model, gap_table gaps)
{
    uint32_t order[TRACE_FILES_MAX];
    bool is_reached[TRACE_FILES_MAX] = {false};
    for (uint32_t first = 0; first < model->file_count; first++) {
        size_t reached = 0;
        if (is_reached[first])
            continue;
        is_reached[first] = true;
        order[reached++] = first;
        for (size_t at = 0; at < reached; at++) {
            uint32_t base = order[at];
            for (uint32_t file = 0; file < model->file_count; file++) {
                if (is_reached[file] || (gaps[base][file] == NO_GAP && gaps[file][base] == NO_GAP))
                    continue;
                if (__builtin_add_overflow(model->shift_ns[base], choose_shift(gaps, base, file),
                                           &model->shift_ns[file]))
                    return false;
                is_reached[file] = true;
                order[reached++] = file;
            }
        }
    }
    return true;
}

static size_t list_times(trace_op *op, int64_t *times[8])
{
    int64_t *const all[] = {&op->begin_ns,  &op->end_ns,   &op->submitted_ns, &op->ready_ns,
                            &op->issued_ns, &op->begun_ns, &op->fired_ns,     &op->resolved_ns};
    size_t count = 0;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (*all[i] != TRACE_NO_TIME)
            times[count++] = all[i];
    }
    return count;
}

/* Makes the least shift 0, so that no time gets negative. False: they would leave their range. */
static bool raise_shifts(trace_model *model)
{
    int64_t least_ns = 0;
    int64_t most_ns = 0;
    for (size_t i = 0; i < model->file_count; i++) {
        if (model->shift_ns[i] < least_ns)
            least_ns = model->shift_ns[i];
    }
    for (size_t i = 0; i < model->file_count; i++) {
        if (__builtin_sub_overflow(model->shift_ns[i], least_ns, &model->shift_ns[i]))
            return false;
        if (model->shift_ns[i] > most_ns)
            most_ns = model->shift_ns[i];
    }
    for (size_t i = 0; i < model->op_count; i++) {
        int64_t *times[8];
        size_t count = list_times(&model->ops[i], times);
        for (size_t k = 0; k < count; k++) {
            if (*times[k] > TRACE_TIME_MAX_NS - most_ns)
                return false;
        }
    }
    return true;
}

static void shift_times(trace_model *model)
{
    for (size_t i = 0; i < model->op_count; i++) {
        trace_op *op = &model->ops[i];
        int64_t by_ns = model->shift_ns[model->rows[op->row].file];
        int64_t *times[8];
        size_t count = list_times(op, times);
        for (size_t k = 0; k < count; k++)
            *times[k] += by_ns;
    }
}

trace_result trace_join_clocks(trace_model *model)
{
    end *ends = NULL;
    size_t count = 0;
    if (model->file_count < 2)
        return TRACE_OK;
    int64_t(*gaps)[TRACE_FILES_MAX] = malloc(sizeof(gap_table));
    trace_result result = gaps ? list_ends(model, &ends, &count) : TRACE_NO_MEMORY;
    if (result == TRACE_OK) {
        measure_gaps(model, ends, count, gaps);
        if (choose_shifts(model, gaps) && raise_shifts(model)) {
            shift_times(model);
        } else {
            for (size_t i = 0; i < TRACE_FILES_MAX; i++)
                model->shift_ns[i] = 0;
        }
    }
    free(ends);
    free(gaps);
    return result;
}

/* ---- ends ---- */

trace_result trace_join_ends(trace_model *model)
{
    end *ends = NULL;
    size_t count = 0;
    for (size_t i = 0; i < model->op_count; i++)
        model->ops[i].peer = TRACE_NO_OP;
    trace_result result = list_ends(model, &ends, &count);
    for (size_t i = 0; i < count && result == TRACE_OK; i++) {
        if (!is_message(ends, count, i))
            continue;
        model->ops[ends[i].op].peer = ends[i + 1].op;
        model->ops[ends[i + 1].op].peer = ends[i].op;
        model->joined++;
    }
    free(ends);
    return result;
}
