/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dump comes from another process: a member that is missing, or of another type, shows as
 * nothing, and its texts are made harmless for terminals.
 */
#include "tools/top_page.h"

#include "tools/trace_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SLOWEST_SHOWN 20 /* where no terminal says how many lines there are */
#define REASONS_MAX 32
#define LABEL_COLUMNS 24

/* ---- pieces of text ---- */

/* Prints the text in so many columns, cut if it is longer. */
static void print_text(FILE *to, const char *text, size_t columns)
{
    char clean[TRACE_TEXT_MAX_BYTES + 1];
    text = text ? text : "";
    trace_text_clean(text, strlen(text), clean);
    const char *end = trace_text_skip(clean, columns);
    size_t length = trace_text_length(clean);
    int blanks = length < columns ? (int)(columns - length) : 0;
    fprintf(to, "%.*s%*s", (int)(end - clean), clean, blanks, "");
}

static void print_time(FILE *to, int64_t time_ns, int columns)
{
    char figure[TRACE_FIGURE_BYTES];
    trace_text_time(figure, (double)time_ns);
    int length = (int)trace_text_length(figure);
    fprintf(to, "%*s%s", length < columns ? columns - length : 0, "", figure);
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static int64_t number_of(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

/* ---- rates ---- */

static double seconds_of(const top_view *view)
{
    if (!view->before || view->now->time_ns <= view->before->time_ns)
        return 0;
    return (double)(view->now->time_ns - view->before->time_ns) / 1e9;
}

static double rate(const top_view *view, int64_t before, int64_t now)
{
    return now > before ? (double)(now - before) / seconds_of(view) : 0;
}

static void print_operations(const top_view *view, FILE *to)
{
    const stats_model *now = view->now, *before = view->before;
    fprintf(to, "operations: %" PRId64 " in flight", now->in_flight);
    if (seconds_of(view) > 0)
        fprintf(to, ", %.0f entered a second, %.0f resolved, %.0f failed",
                rate(view, before->entered, now->entered),
                rate(view, before->resolved, now->resolved),
                rate(view, stats_model_sum(before->failures), stats_model_sum(now->failures)));
    putc('\n', to);
}

/* What has a count: how much it grew in a second, and what it is by now. */
static void print_rates(const top_view *view, FILE *to, const char *title, json_t *before,
                        json_t *now, bool are_bytes)
{
    const char *name;
    json_t *count;
    fprintf(to, "\n%-28s %16s %16s\n", title, seconds_of(view) > 0 ? "a second" : "", "in all");
    json_object_foreach(now, name, count)
    {
        char of_second[TRACE_FIGURE_BYTES] = "", in_all[TRACE_FIGURE_BYTES];
        int64_t value = json_integer_value(count);
        double grown =
            seconds_of(view) > 0 ? rate(view, stats_model_count(before, name), value) : 0;
        (void)snprintf(in_all, sizeof(in_all), "%" PRId64, value);
        if (are_bytes)
            trace_text_bytes(in_all, (double)value);
        if (are_bytes && seconds_of(view) > 0)
            trace_text_bytes(of_second, grown);
        else if (seconds_of(view) > 0)
            (void)snprintf(of_second, sizeof(of_second), "%.0f", grown);
        fputs("  ", to);
        print_text(to, name, 26);
        fprintf(to, " %16s %16s\n", of_second, in_all);
    }
}

/* ---- operations that live ---- */

/* Those of the dump that have not resolved, the oldest first. */
typedef struct live_list {
    json_t **ops;
    size_t count;
} live_list;

static int compare_ages(const void *left, const void *right)
{
    const json_t *const *a = left, *const *b = right;
    int64_t a_ns = number_of(*a, "age_ns"), b_ns = number_of(*b, "age_ns");
    return (a_ns < b_ns) - (a_ns > b_ns);
}

static void add_live(live_list *list, json_t *ops)
{
    size_t i;
    json_t *op;
    json_array_foreach(ops, i, op)
    {
        if (json_is_object(op) && !json_object_get(op, "status"))
            list->ops[list->count++] = op;
    }
}

static bool make_list(live_list *list, json_t *dump)
{
    json_t *promises = json_object_get(dump, "promises"), *nodes = json_object_get(dump, "nodes");
    size_t most = json_array_size(promises) + json_array_size(nodes);
    *list = (live_list){.ops = calloc(most + 1, sizeof(json_t *))};
    if (!list->ops)
        return false;
    add_live(list, promises);
    add_live(list, nodes);
    qsort(list->ops, list->count, sizeof(json_t *), compare_ages);
    return true;
}

static void print_op(FILE *to, const json_t *op)
{
    fprintf(to, "%10" PRId64 " ", number_of(op, "id"));
    print_text(to, text_of(op, "kind"), 8);
    putc(' ', to);
    print_text(to, text_of(op, "label"), LABEL_COLUMNS);
    putc(' ', to);
    print_time(to, number_of(op, "age_ns"), 8);
}

/* "op 7, op 9 and 3 more", or what else it waits for. */
static void print_wait(FILE *to, const json_t *op)
{
    const json_t *waits = json_object_get(op, "waits");
    size_t listed = json_array_size(waits), shown = listed < 3 ? listed : 3;
    const char *device = text_of(op, "device");
    int64_t more = number_of(op, "more");
    for (size_t i = 0; i < shown; i++)
        fprintf(to, "%sop %" PRId64, i == 0 ? "" : ", ", number_of(json_array_get(waits, i), "op"));
    if (listed > 0 && (more > 0 || listed > shown))
        fprintf(to, " and %" PRId64 " more", (more > 0 ? more : 0) + (int64_t)(listed - shown));
    if (listed > 0)
        return;
    print_text(to, text_of(op, "waits_for"), trace_text_length(text_of(op, "waits_for")));
    if (*device) {
        putc(' ', to);
        print_text(to, device, trace_text_length(device));
    }
    if (json_object_get(op, "peer"))
        fprintf(to, " %" PRId64, number_of(op, "peer"));
}

/* ---- what waits for what ---- */

typedef struct reason {
    const char *name;
    size_t count;
    const json_t *oldest;
} reason;

static size_t count_reasons(const live_list *list, reason reasons[REASONS_MAX])
{
    size_t used = 0;
    for (size_t i = 0; i < list->count; i++) {
        const char *name = text_of(list->ops[i], "waits_for");
        size_t at = 0;
        while (at < used && strcmp(reasons[at].name, name) != 0)
            at++;
        if (at == REASONS_MAX)
            continue; /* ferry has ten */
        if (at == used)
            reasons[used++] = (reason){.name = name, .oldest = list->ops[i]};
        reasons[at].count++;
    }
    return used;
}

static void print_reasons(const live_list *list, FILE *to)
{
    reason reasons[REASONS_MAX];
    size_t count = count_reasons(list, reasons);
    fprintf(to, "\n%-14s %9s %10s %-8s %-*s %8s\n", "waits for", "count", "oldest op", "kind",
            LABEL_COLUMNS, "label", "age");
    for (size_t i = 0; i < count; i++) {
        print_text(to, *reasons[i].name ? reasons[i].name : "nothing", 14);
        fprintf(to, " %9zu ", reasons[i].count);
        print_op(to, reasons[i].oldest);
        putc('\n', to);
    }
}

static void print_slowest(const live_list *list, FILE *to, size_t most)
{
    fprintf(to, "\n%10s %-8s %-*s %8s %-8s %s\n", "slowest op", "kind", LABEL_COLUMNS, "label",
            "age", "state", "waits for");
    for (size_t i = 0; i < list->count && i < most; i++) {
        print_op(to, list->ops[i]);
        putc(' ', to);
        print_text(to, text_of(list->ops[i], "state"), 8);
        putc(' ', to);
        print_wait(to, list->ops[i]);
        putc('\n', to);
    }
}

static bool print_live(const top_view *view, FILE *to)
{
    live_list list;
    if (!view->dump) {
        fputc('\n', to);
        print_text(to, view->no_dump, trace_text_length(view->no_dump));
        fputc('\n', to);
        return true;
    }
    if (!make_list(&list, view->dump))
        return false;
    print_reasons(&list, to);
    print_slowest(&list, to, view->rows != 0 ? view->rows : SLOWEST_SHOWN);
    if (json_is_true(json_object_get(json_object_get(view->dump, "totals"), "cut")))
        fputs("(the dump has the oldest operations only)\n", to);
    free(list.ops);
    return true;
}

/* ---- the page ---- */

static void print_whole(const top_view *view, FILE *to, bool *is_whole_p)
{
    const stats_model *before = view->before, *now = view->now;
    fprintf(to, "process %" PRId64 ", engine %" PRId64 ", ferry ", now->pid, now->engine);
    print_text(to, now->version, trace_text_length(now->version));
    if (seconds_of(view) > 0)
        fprintf(to, ", over %.2f s", seconds_of(view));
    putc('\n', to);
    print_operations(view, to);
    print_rates(view, to, "resolved operations", before ? before->kinds : NULL, now->kinds, false);
    print_rates(view, to, "bytes by way", before ? before->ways : NULL, now->ways, true);
    *is_whole_p = print_live(view, to);
}

/* Lines cut to the terminal; what stood behind them is cleared. */
static void show(const top_view *view, const char *text, FILE *to)
{
    size_t row = 1;
    if (view->is_live)
        fputs("\033[H", to);
    for (const char *line = text; *line && (view->rows == 0 || row < view->rows); row++) {
        const char *end = strchrnul(line, '\n');
        const char *cut = view->columns != 0 ? trace_text_skip(line, view->columns) : end;
        (void)fwrite(line, 1, (size_t)((cut < end ? cut : end) - line), to);
        fputs(view->is_live ? "\033[K\n" : "\n", to);
        line = *end ? end + 1 : end;
    }
    if (view->is_live)
        fputs("\033[J", to);
}

bool top_page_print(const top_view *view, FILE *to)
{
    char *text = NULL;
    size_t size_bytes = 0;
    bool is_whole = false;
    FILE *page = open_memstream(&text, &size_bytes);
    if (!page)
        return false;
    print_whole(view, page, &is_whole);
    is_whole = fclose(page) == 0 && is_whole;
    if (is_whole)
        show(view, text, to);
    free(text);
    return is_whole;
}
