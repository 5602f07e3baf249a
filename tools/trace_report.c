/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/trace_report.h"

#include "tools/trace_text.h"

#include <jansson.h>

#define STEPS_PRINTED 20
#define NAME_COLUMNS 28
#define FIGURE_DIGITS 6

const char trace_report_definitions[] =
    "What the figures mean:\n"
    "  span           from the first submission to the last recorded moment\n"
    "  busy           time in which an operation of the row ran\n"
    "  waited         time in which at least one operation of the row had been\n"
    "                 submitted and did not run yet; in sum: added up over all of\n"
    "                 them\n"
    "  overlap        time in which at least one stream and at least one row of\n"
    "                 calls were busy, relative to the smaller of both busy times\n"
    "  at once        streams and rows of calls that were busy at the same time,\n"
    "                 on average over the span\n"
    "  critical path  the chain back from the operation that ended last: each time\n"
    "                 to the one before it in its row, if that ended after it was\n"
    "                 issued, otherwise to the one that held it last\n"
    "  dropped        records that were overwritten before they were written\n"
    "An operation runs from when a thread or device began with it. If that is not\n"
    "known of a copy, it runs from when it was issued and was the next in its\n"
    "stream.\n";

static double share(int64_t part_ns, int64_t whole_ns)
{
    return whole_ns > 0 ? (double)part_ns / (double)whole_ns : 0;
}

static int64_t span_ns(const trace_model *model)
{
    return model->end_ns - model->begin_ns;
}

static bool is_shown(const trace_row *row)
{
    return row->count > 0;
}

/* printf's widths count bytes, and some figures have a Greek letter of two. */
static void print_column(FILE *to, const char *text, size_t columns)
{
    size_t length = trace_text_length(text);
    fprintf(to, "%*s%s", length < columns ? (int)(columns - length) : 0, "", text);
}

static void print_time(FILE *to, double time_ns)
{
    char figure[TRACE_FIGURE_BYTES];
    trace_text_time(figure, time_ns);
    print_column(to, figure, 10);
}

/* Prints at most `columns` columns, padded with blanks. */
static void print_name(FILE *to, const char *name, size_t columns)
{
    const char *end = trace_text_skip(name, columns);
    fprintf(to, "%.*s", (int)(end - name), name);
    for (size_t length = trace_text_length(name); length < columns; length++)
        (void)putc_unlocked(' ', to);
}

/* ---- for people ---- */

static void print_head(const trace_model *model, const trace_summary *summary, FILE *to)
{
    char time[TRACE_FIGURE_BYTES];
    char size[TRACE_FIGURE_BYTES];
    trace_text_time(time, (double)span_ns(model));
    trace_text_bytes(size, (double)summary->size_bytes);
    fprintf(to, "span %s, %zu operations, %s", time, model->op_count, size);
    if (model->engine_count > 1)
        fprintf(to, ", %u engines", (unsigned)model->engine_count);
    fputs("\n\n", to);
    for (size_t i = 0; i < summary->tally_count; i++) {
        const trace_tally *tally = &summary->tallies[i];
        trace_text_bytes(size, (double)tally->size_bytes);
        fprintf(to, "  %8zu  ", tally->count);
        print_name(to, tally->kind ? tally->kind : "others", 12);
        if (tally->size_bytes > 0) {
            print_name(to, tally->kind ? tally->status : "", 22);
            fputs(size, to);
        } else {
            fputs(tally->kind ? tally->status : "", to);
        }
        fputs("\n", to);
    }
}

static void print_rows(const trace_model *model, const trace_summary *summary, FILE *to)
{
    fputs("\n  row                          operations      busy           waited   (in sum)   "
          "longest\n",
          to);
    for (size_t i = 0; i < model->row_count; i++) {
        const trace_row *row = &model->rows[i];
        const trace_row_figures *figures = &summary->rows[i];
        if (!is_shown(row))
            continue;
        fputs("  ", to);
        print_name(to, row->name, NAME_COLUMNS);
        fprintf(to, " %10zu", row->count);
        print_time(to, (double)figures->busy_ns);
        fprintf(to, " %5.1f %%", 100 * share(figures->busy_ns, span_ns(model)));
        print_time(to, (double)figures->waiting_ns);
        print_time(to, figures->waiting_sum_ns);
        const trace_op *longest = &model->ops[figures->longest];
        print_time(to, (double)(longest->end_ns - longest->begin_ns));
        fprintf(to, "  %s\n", longest->label);
    }
}

static void print_overlap(const trace_model *model, const trace_summary *summary, FILE *to)
{
    char both[TRACE_FIGURE_BYTES];
    char streams[TRACE_FIGURE_BYTES];
    char calls[TRACE_FIGURE_BYTES];
    trace_text_time(both, (double)summary->both_busy_ns);
    trace_text_time(streams, (double)summary->streams_busy_ns);
    trace_text_time(calls, (double)summary->calls_busy_ns);
    if (summary->streams_busy_ns == 0 || summary->calls_busy_ns == 0)
        fprintf(to, "\n  overlap   none: streams were busy for %s, calls for %s\n", streams, calls);
    else
        fprintf(to,
                "\n  overlap   %.1f %%: for %s a stream and calls were busy at the same time; "
                "streams for %s, calls for %s\n",
                100 * trace_summary_overlap(summary), both, streams, calls);
    fprintf(to, "  at once   %.2f streams and rows of calls busy, on average over the span\n",
            trace_summary_concurrency(model, summary));
}

static void print_path(const trace_model *model, const trace_summary *summary, FILE *to)
{
    const trace_path *path = &summary->path;
    char length[TRACE_FIGURE_BYTES];
    char running[TRACE_FIGURE_BYTES];
    char waiting[TRACE_FIGURE_BYTES];
    trace_text_time(length, (double)(path->end_ns - path->begin_ns));
    trace_text_time(running, (double)path->running_ns);
    trace_text_time(waiting, (double)path->waiting_ns);
    fprintf(to,
            "\n  critical path: %zu steps, %s, %.1f %% of the span; running for %s, waiting for "
            "%s\n\n      begin/ms    waited       ran\n",
            path->count, length, 100 * share(path->end_ns - path->begin_ns, span_ns(model)),
            running, waiting);
    size_t first = path->count > STEPS_PRINTED ? path->count - STEPS_PRINTED : 0;
    if (first > 0)
        fprintf(to, "  (%zu steps before these)\n", first);
    for (size_t i = first; i < path->count; i++) {
        const trace_step *step = &path->steps[i];
        const trace_op *op = &model->ops[step->op];
        fprintf(to, "  %12.3f", (double)(op->begin_ns - model->begin_ns) / 1e6);
        print_time(to, (double)step->waiting_ns);
        print_time(to, (double)step->running_ns);
        fputs("  ", to);
        print_name(to, model->rows[op->row].name, NAME_COLUMNS);
        fprintf(to, " %s%s%s\n", op->label, trace_op_failed(model, op) ? ", " : "",
                trace_op_failed(model, op) ? op->status : "");
    }
}

/* How the files of a job were joined. */
static void print_files(const trace_model *model, FILE *to)
{
    if (model->file_count < 2)
        return;
    fprintf(to, "  %u files, joined by %zu messages\n", model->file_count, model->joined);
    for (uint32_t i = 0; i < model->file_count; i++) {
        char figure[TRACE_FIGURE_BYTES];
        if (model->shift_ns[i] == 0)
            continue;
        trace_text_time(figure, (double)model->shift_ns[i]);
        fprintf(to, "  the times of file %u are taken %s later: its clock is another\n", i + 1,
                figure);
    }
    fputs("\n", to);
}

void trace_report_print(const trace_model *model, const trace_summary *summary, FILE *to)
{
    print_head(model, summary, to);
    print_files(model, to);
    print_rows(model, summary, to);
    print_overlap(model, summary, to);
    print_path(model, summary, to);
    if (model->dropped > 0 || model->unwritten > 0)
        fprintf(to,
                "\n  warning: %llu records were dropped and %llu operations given up; figures and "
                "picture lack them\n",
                (unsigned long long)model->dropped, (unsigned long long)model->unwritten);
}

/* ---- for programs ---- */

static json_t *pack_tallies(const trace_summary *summary)
{
    json_t *array = json_array();
    for (size_t i = 0; i < summary->tally_count; i++) {
        const trace_tally *tally = &summary->tallies[i];
        json_t *object = json_pack(
            "{s:s, s:s*, s:I, s:I}", "kind", tally->kind ? tally->kind : "others", "status",
            tally->kind ? tally->status : NULL, "count", (json_int_t)tally->count, "bytes",
            (json_int_t)(tally->size_bytes > INT64_MAX ? INT64_MAX : tally->size_bytes));
        if (json_array_append_new(array, object) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

static json_t *pack_rows(const trace_model *model, const trace_summary *summary)
{
    static const char *const kinds[] = {"stream", "calls", "graph", "other"};
    json_t *array = json_array();
    for (size_t i = 0; i < model->row_count; i++) {
        const trace_row *row = &model->rows[i];
        const trace_row_figures *figures = &summary->rows[i];
        if (!is_shown(row))
            continue;
        const trace_op *longest = &model->ops[figures->longest];
        json_t *object = json_pack(
            "{s:s, s:s, s:I, s:I, s:I, s:f, s:I, s:f, s:I, s:s}", "name", row->name, "kind",
            kinds[row->kind], "thread", (json_int_t)row->thread, "operations",
            (json_int_t)row->count, "busy_ns", (json_int_t)figures->busy_ns, "busy_share",
            share(figures->busy_ns, span_ns(model)), "waiting_ns", (json_int_t)figures->waiting_ns,
            "waiting_sum_ns", figures->waiting_sum_ns, "longest_ns",
            (json_int_t)(longest->end_ns - longest->begin_ns), "longest_label", longest->label);
        if (json_array_append_new(array, object) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

static json_t *pack_path(const trace_model *model, const trace_path *path)
{
    json_t *steps = json_array();
    size_t first = path->count > STEPS_PRINTED ? path->count - STEPS_PRINTED : 0;
    for (size_t i = first; i < path->count; i++) {
        const trace_step *step = &path->steps[i];
        const trace_op *op = &model->ops[step->op];
        json_t *object =
            json_pack("{s:I, s:s, s:s, s:s, s:I, s:I, s:I}", "op", (json_int_t)op->id, "label",
                      op->label, "row", model->rows[op->row].name, "status", op->status, "at_ns",
                      (json_int_t)(op->begin_ns - model->begin_ns), "waiting_ns",
                      (json_int_t)step->waiting_ns, "running_ns", (json_int_t)step->running_ns);
        if (json_array_append_new(steps, object) != 0) {
            json_decref(steps);
            return NULL;
        }
    }
    int64_t length_ns = path->end_ns - path->begin_ns;
    return json_pack("{s:I, s:I, s:f, s:I, s:I, s:o}", "step_count", (json_int_t)path->count,
                     "length_ns", (json_int_t)length_ns, "share", share(length_ns, span_ns(model)),
                     "running_ns", (json_int_t)path->running_ns, "waiting_ns",
                     (json_int_t)path->waiting_ns, "last_steps", steps);
}

trace_result trace_report_print_json(const trace_model *model, const trace_summary *summary,
                                     size_t problem_count, FILE *to)
{
    json_t *object = json_pack(
        "{s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:I, s:I, s:I, s:f, "
        "s:f, s:o}",
        "is_whole", (int)(problem_count == 0), "problems", (json_int_t)problem_count, "dropped",
        (json_int_t)model->dropped, "unwritten", (json_int_t)model->unwritten, "files",
        (json_int_t)model->file_count, "messages", (json_int_t)model->joined, "engines",
        (json_int_t)model->engine_count, "span_ns", (json_int_t)span_ns(model), "operations",
        (json_int_t)model->op_count, "failed", (json_int_t)summary->failed_count, "bytes",
        (json_int_t)(summary->size_bytes > INT64_MAX ? INT64_MAX : summary->size_bytes), "by_kind",
        pack_tallies(summary), "rows", pack_rows(model, summary), "streams_busy_ns",
        (json_int_t)summary->streams_busy_ns, "calls_busy_ns", (json_int_t)summary->calls_busy_ns,
        "both_busy_ns", (json_int_t)summary->both_busy_ns, "overlap",
        trace_summary_overlap(summary), "busy_at_once", trace_summary_concurrency(model, summary),
        "critical_path", pack_path(model, &summary->path));
    if (!object)
        return TRACE_NO_MEMORY;
    int error = json_dumpf(object, to, JSON_REAL_PRECISION(FIGURE_DIGITS));
    json_decref(object);
    if (error)
        return TRACE_NO_MEMORY;
    fputs("\n", to);
    return TRACE_OK;
}
