/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/trace_model.h"

#include "tools/trace_join.h"
#include "tools/trace_text.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPERATIONS_FIRST 1024

static int compare_texts(const void *left, const void *right)
{
    return strcmp(left, right);
}

trace_result trace_model_init(trace_model *model)
{
    *model = (trace_model){0};
    model->rows = calloc(TRACE_ROWS_MAX, sizeof(trace_row));
    model->row_order = calloc(TRACE_ROWS_MAX, sizeof(uint32_t));
    model->status_ok = trace_model_text(model, "FERRY_OK", strlen("FERRY_OK"));
    model->status_pending = trace_model_text(model, "FERRY_PENDING", strlen("FERRY_PENDING"));
    return model->rows && model->row_order && model->status_ok && model->status_pending
               ? TRACE_OK
               : TRACE_NO_MEMORY;
}

void trace_model_release(trace_model *model)
{
    tdestroy(model->texts, free);
    free(model->rows);
    free(model->row_order);
    free(model->ops);
    free(model->by_id);
    *model = (trace_model){0};
}

const char *trace_model_text(trace_model *model, const char *text, size_t length_bytes)
{
    char clean[TRACE_TEXT_MAX_BYTES + 1];
    trace_text_clean(text, length_bytes, clean);
    char *const *found = tfind(clean, &model->texts, compare_texts);
    if (found)
        return *found;
    char *copy = strdup(clean);
    if (!copy)
        return NULL;
    found = tsearch(copy, &model->texts, compare_texts);
    if (!found) {
        free(copy);
        return NULL;
    }
    return *found;
}

static trace_row_kind row_kind(int64_t thread)
{
    int64_t number = thread % TRACE_ROWS_OF_ENGINE;
    if (number < TRACE_NUMBER_CALLS)
        return TRACE_ROW_STREAM;
    if (number == TRACE_NUMBER_CALLS)
        return TRACE_ROW_CALLS;
    return number == TRACE_NUMBER_GRAPH ? TRACE_ROW_GRAPH : TRACE_ROW_OTHER;
}

/* In the file calls that ran at once have rows of their own; here they share one. */
static int64_t shared_thread(int64_t thread)
{
    int64_t number = thread % TRACE_ROWS_OF_ENGINE;
    bool is_calls = number > TRACE_NUMBER_GRAPH && number <= TRACE_NUMBER_CALLS_LAST;
    return is_calls ? thread - number + TRACE_NUMBER_CALLS : thread;
}

static int compare(int64_t left, int64_t right)
{
    return (left > right) - (left < right);
}

trace_result trace_model_row(trace_model *model, int64_t process, int64_t thread, uint32_t *row_p)
{
    uint32_t file = model->file_count - 1;
    thread = shared_thread(thread);
    size_t low = 0;
    size_t high = model->row_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const trace_row *row = &model->rows[model->row_order[middle]];
        int order = compare(row->file, file);
        if (!order)
            order = compare(row->process, process);
        if (!order)
            order = compare(row->thread, thread);
        if (!order) {
            *row_p = model->row_order[middle];
            return TRACE_OK;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (model->row_count == TRACE_ROWS_MAX)
        return TRACE_FULL;
    uint32_t *place = &model->row_order[low];
    memmove(place + 1, place, (model->row_count - low) * sizeof(*place));
    *place = (uint32_t)model->row_count++;
    model->rows[*place] =
        (trace_row){.file = file, .process = process, .thread = thread, .kind = row_kind(thread)};
    *row_p = *place;
    return TRACE_OK;
}

trace_result trace_model_add(trace_model *model, const trace_op *op)
{
    if (model->op_count == TRACE_OPERATIONS_MAX)
        return TRACE_FULL;
    if (model->op_count == model->op_capacity) {
        size_t capacity = model->op_capacity ? model->op_capacity * 2 : OPERATIONS_FIRST;
        trace_op *ops = reallocarray(model->ops, capacity, sizeof(trace_op));
        if (!ops)
            return TRACE_NO_MEMORY;
        model->ops = ops;
        model->op_capacity = capacity;
    }
    model->ops[model->op_count++] = *op;
    return TRACE_OK;
}

int64_t trace_op_submitted_ns(const trace_op *op)
{
    bool is_told = op->submitted_ns != TRACE_NO_TIME && op->submitted_ns < op->begin_ns;
    return is_told ? op->submitted_ns : op->begin_ns;
}

int64_t trace_op_ready_ns(const trace_op *op)
{
    int64_t submitted_ns = trace_op_submitted_ns(op);
    if (op->ready_ns == TRACE_NO_TIME || op->ready_ns > op->begin_ns)
        return op->begin_ns;
    return op->ready_ns < submitted_ns ? submitted_ns : op->ready_ns;
}

bool trace_op_failed(const trace_model *model, const trace_op *op)
{
    return op->status != model->status_ok && op->status != model->status_pending;
}

/* ---- finishing ---- */

static int compare_ids(uint64_t left, uint64_t right)
{
    return (left > right) - (left < right);
}

/* Equal names stay in the file's order. */
static int compare_names(const void *left, const void *right, void *arg)
{
    const trace_row *rows = arg;
    const trace_op *a = left;
    const trace_op *b = right;
    int order = compare(rows[a->row].engine, rows[b->row].engine);
    if (!order)
        order = compare_ids(a->id, b->id);
    return order ? order : compare(a->line, b->line);
}

static int compare_places(const void *left, const void *right)
{
    const trace_op *a = left;
    const trace_op *b = right;
    int order = compare(a->row, b->row);
    if (!order)
        order = compare(a->begin_ns, b->begin_ns);
    if (!order)
        order = compare(a->end_ns, b->end_ns);
    return order ? order : compare_ids(a->id, b->id);
}

static int compare_indices(const void *left, const void *right, void *arg)
{
    const trace_model *model = arg;
    return compare_names(&model->ops[*(const uint32_t *)left],
                         &model->ops[*(const uint32_t *)right], model->rows);
}

static int64_t engine_of(const trace_row *row)
{
    return row->thread / TRACE_ROWS_OF_ENGINE;
}

static trace_result name_row(trace_model *model, trace_row *row)
{
    char name[96];
    int64_t engine = engine_of(row);
    int64_t number = row->thread % TRACE_ROWS_OF_ENGINE;
    static const char *const parts[] = {"stream", "calls", "graph", "row"};
    int length =
        snprintf(name, sizeof(name), "engine %lld %s", (long long)engine, parts[row->kind]);
    if (row->kind == TRACE_ROW_STREAM || row->kind == TRACE_ROW_OTHER)
        length +=
            snprintf(name + length, sizeof(name) - (size_t)length, " %lld", (long long)number);
    row->name = trace_model_text(model, name, (size_t)length);
    return row->name ? TRACE_OK : TRACE_NO_MEMORY;
}

/* Engines in order of appearance; in each streams by name and number, calls, the rest. */
static int compare_rows(const void *left, const void *right, void *arg)
{
    const trace_row *rows = arg;
    const trace_row *a = &rows[*(const uint32_t *)left];
    const trace_row *b = &rows[*(const uint32_t *)right];
    int order = compare(a->file, b->file);
    if (!order)
        order = compare(a->process, b->process);
    if (!order)
        order = compare(engine_of(a), engine_of(b));
    if (!order)
        order = compare((int64_t)a->kind, (int64_t)b->kind);
    if (!order)
        order = strverscmp(a->name, b->name);
    return order ? order : compare(a->thread, b->thread);
}

/* Sorts rows into the order of the picture, and operations with them. */
static trace_result sort_rows(trace_model *model)
{
    for (size_t i = 0; i < model->row_count; i++) {
        if (!model->rows[i].name && name_row(model, &model->rows[i]) != TRACE_OK)
            return TRACE_NO_MEMORY;
    }
    uint32_t place[TRACE_ROWS_MAX];
    qsort_r(model->row_order, model->row_count, sizeof(uint32_t), compare_rows, model->rows);
    trace_row *sorted = calloc(TRACE_ROWS_MAX, sizeof(trace_row));
    if (!sorted)
        return TRACE_NO_MEMORY;
    for (uint32_t i = 0; i < model->row_count; i++) {
        place[model->row_order[i]] = i;
        sorted[i] = model->rows[model->row_order[i]];
    }
    free(model->rows);
    model->rows = sorted;
    for (size_t i = 0; i < model->op_count; i++)
        model->ops[i].row = place[model->ops[i].row];

    for (size_t i = 0; i < model->row_count; i++) {
        trace_row *row = &model->rows[i];
        bool is_next =
            i > 0 && (row[-1].file != row->file || row[-1].process != row->process ||
                      row[-1].thread / TRACE_ROWS_OF_ENGINE != row->thread / TRACE_ROWS_OF_ENGINE);
        model->engine_count = i == 0 ? 1 : model->engine_count + is_next;
        row->engine = model->engine_count - 1;
    }
    return TRACE_OK;
}

static void drop_duplicates(trace_model *model, trace_problems *problems)
{
    qsort_r(model->ops, model->op_count, sizeof(trace_op), compare_names, model->rows);
    size_t kept = 0;
    for (size_t i = 0; i < model->op_count; i++) {
        const trace_op *op = &model->ops[i];
        const trace_op *last = kept > 0 ? &model->ops[kept - 1] : NULL;
        if (last && last->id == op->id &&
            model->rows[last->row].engine == model->rows[op->row].engine)
            trace_problems_add(&problems[model->rows[op->row].file], op->line, op->offset_bytes,
                               "operation %llu stands in line %u already",
                               (unsigned long long)op->id, (unsigned)last->line);
        else
            model->ops[kept++] = *op;
    }
    model->op_count = kept;
}

static uint32_t find_cause(const trace_model *model, const trace_op *op)
{
    uint32_t engine = model->rows[op->row].engine;
    size_t low = 0;
    size_t high = op->waited_for ? model->op_count : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const trace_op *other = &model->ops[model->by_id[middle]];
        int order = compare(model->rows[other->row].engine, engine);
        if (!order)
            order = compare_ids(other->id, op->waited_for);
        if (!order)
            return model->by_id[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return TRACE_NO_OP;
}

static void find_span(trace_model *model)
{
    for (size_t i = 0; i < model->op_count; i++) {
        const trace_op *op = &model->ops[i];
        int64_t begin_ns = trace_op_submitted_ns(op);
        int64_t end_ns = op->resolved_ns > op->end_ns ? op->resolved_ns : op->end_ns;
        if (i == 0 || begin_ns < model->begin_ns)
            model->begin_ns = begin_ns;
        if (i == 0 || end_ns > model->end_ns)
            model->end_ns = end_ns;
    }
}

trace_result trace_model_finish(trace_model *model, trace_problems *problems)
{
    if (sort_rows(model) != TRACE_OK)
        return TRACE_NO_MEMORY;
    if (model->op_count == 0)
        return TRACE_OK;
    drop_duplicates(model, problems);
    if (trace_join_clocks(model) != TRACE_OK)
        return TRACE_NO_MEMORY;
    qsort(model->ops, model->op_count, sizeof(trace_op), compare_places);
    model->by_id = calloc(model->op_count, sizeof(uint32_t));
    if (!model->by_id)
        return TRACE_NO_MEMORY;
    for (size_t i = 0; i < model->op_count; i++) {
        trace_row *row = &model->rows[model->ops[i].row];
        if (row->count++ == 0)
            row->first = i;
        model->by_id[i] = (uint32_t)i;
    }
    qsort_r(model->by_id, model->op_count, sizeof(uint32_t), compare_indices, model);
    for (size_t i = 0; i < model->op_count; i++)
        model->ops[i].cause = find_cause(model, &model->ops[i]);
    find_span(model);
    return trace_join_ends(model);
}
