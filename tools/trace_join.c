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

/*
 * Whether the two are a message: its sender, and the receiver behind it. A process that was started
 * again counts its operations anew, as does an engine of another group: what more than two ends are
 * of is left alone, as no arrow is better than a wrong one.
 */
static bool is_message(const end *ends, size_t count, size_t at)
{
    uint64_t flow = ends[at].flow;
    return at + 1 < count && ends[at].is_sender && !ends[at + 1].is_sender &&
           ends[at + 1].flow == flow && (at == 0 || ends[at - 1].flow != flow) &&
           (at + 2 >= count || ends[at + 2].flow != flow);
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

/*
 * Then a gap is a bound: the shift of `from` less that of `to` may be no more, or a message would
 * go back in time. Bounds add up along a way from file to file, so that two whose messages went by
 * a third are bound too. Those that contradict each other, as of clocks that do not run alike, meet
 * in the middle; no bound is taken below what its opposite allows, so they stay where they are.
 */
static void close_bounds(gap_table gaps, size_t count)
{
    for (size_t a = 0; a < count; a++) {
        for (size_t b = 0; b < a; b++) {
            int64_t *there = &gaps[a][b], *back = &gaps[b][a];
            if (*there == NO_GAP || *back == NO_GAP || *there >= -*back)
                continue;
            *there = *there / 2 - *back / 2;
            *back = -*there;
        }
    }
    for (size_t by = 0; by < count; by++) {
        for (size_t from = 0; from < count; from++) {
            for (size_t to = 0; to < count; to++) {
                int64_t ns;
                int64_t back_ns = gaps[to][from];
                if (from == to || gaps[from][by] == NO_GAP || gaps[by][to] == NO_GAP ||
                    __builtin_add_overflow(gaps[from][by], gaps[by][to], &ns))
                    continue;
                if (back_ns != NO_GAP && ns < -back_ns)
                    ns = -back_ns;
                if (ns < gaps[from][to])
                    gaps[from][to] = ns;
            }
        }
    }
}

/* What the files that were placed before allow one. */
typedef struct range {
    int64_t least_ns; /* INT64_MIN: any */
    int64_t most_ns;  /* INT64_MAX: any */
} range;

/* False: the times would leave their range. */
static bool find_range(const trace_model *model, gap_table gaps, const bool *is_placed, size_t file,
                       range *allowed)
{
    *allowed = (range){INT64_MIN, INT64_MAX};
    for (size_t i = 0; i < model->file_count; i++) {
        int64_t ns;
        if (is_placed[i] && gaps[i][file] != NO_GAP) {
            if (__builtin_sub_overflow(model->shift_ns[i], gaps[i][file], &ns))
                return false;
            allowed->least_ns = ns > allowed->least_ns ? ns : allowed->least_ns;
        }
        if (is_placed[i] && gaps[file][i] != NO_GAP) {
            if (__builtin_add_overflow(model->shift_ns[i], gaps[file][i], &ns))
                return false;
            allowed->most_ns = ns < allowed->most_ns ? ns : allowed->most_ns;
        }
    }
    return true;
}

static int64_t middle(int64_t a, int64_t b)
{
    int64_t low = a < b ? a : b, high = a < b ? b : a;
    return low + (int64_t)(((uint64_t)high - (uint64_t)low) / 2);
}

/* The clock of a file that was placed before, if it may be one with that. */
static int64_t choose_shift(const trace_model *model, const bool *is_placed, const range *allowed)
{
    for (size_t i = 0; i < model->file_count; i++) {
        int64_t ns = model->shift_ns[i];
        if (is_placed[i] && ns >= allowed->least_ns && ns <= allowed->most_ns)
            return ns;
    }
    if (allowed->least_ns == INT64_MIN)
        return allowed->most_ns;
    if (allowed->most_ns == INT64_MAX)
        return allowed->least_ns;
    return middle(allowed->least_ns, allowed->most_ns);
}

/* Places one more file that is bound to one placed before. False: there is none. */
static bool place_next(trace_model *model, gap_table gaps, bool *is_placed, bool *is_good)
{
    for (size_t file = 0; file < model->file_count; file++) {
        range allowed;
        if (is_placed[file])
            continue;
        *is_good = find_range(model, gaps, is_placed, file, &allowed);
        if (*is_good && allowed.least_ns == INT64_MIN && allowed.most_ns == INT64_MAX)
            continue;
        model->shift_ns[file] = *is_good ? choose_shift(model, is_placed, &allowed) : 0;
        is_placed[file] = true;
        return *is_good;
    }
    return false;
}

/* False: the times would leave their range. */
static bool choose_shifts(trace_model *model, gap_table gaps)
{
    bool is_placed[TRACE_FILES_MAX] = {false};
    bool is_good = true;
    close_bounds(gaps, model->file_count);
    for (size_t first = 0; first < model->file_count && is_good; first++) {
        is_placed[first] = true; /* it was before, unless nothing binds it to those */
        while (place_next(model, gaps, is_placed, &is_good)) {
        }
    }
    return is_good;
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
