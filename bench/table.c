/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/table.h"

#include "bench/bench.h"
#include "bench/reach.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIGURE_BYTES 48

/* One row, of all runs that have it. */
typedef struct table_row {
    bench_key key; /* its strings live in the rows read */
    bench_samples medians;
    bench_samples p99s;
} table_row;

typedef struct table {
    json_t *read; /* the objects read, which own the keys' strings */
    table_row *rows;
    size_t count;
    bool is_emulated;      /* some row is of the emulator: nothing is judged */
    size_t suites_passed;  /* script/gpu's test programs, over all runs */
    json_t *suites_failed; /* their names */
} table;

/* ---- reading ---- */

static const char *get_string(const json_t *object, const char *name, const char *path)
{
    const char *value = json_string_value(json_object_get(object, name));
    if (value == NULL)
        bench_fail("%s: a row without \"%s\"", path, name);
    return value;
}

static double get_number(const json_t *object, const char *name, const char *path)
{
    const json_t *value = json_object_get(object, name);
    if (!json_is_number(value))
        bench_fail("%s: a row without the number \"%s\"", path, name);
    return json_number_value(value);
}

static bool keys_are_equal(const bench_key *left, const bench_key *right)
{
    return strcmp(left->bench, right->bench) == 0 && strcmp(left->shape, right->shape) == 0 &&
           strcmp(left->metric, right->metric) == 0 && strcmp(left->rival, right->rival) == 0;
}

static table_row *find_row(const table *table, const bench_key *key)
{
    for (size_t i = 0; i < table->count; i++) {
        if (keys_are_equal(&table->rows[i].key, key))
            return &table->rows[i];
    }
    return NULL;
}

static void add_row(table *table, const json_t *object, const char *path)
{
    bench_key key = {.bench = get_string(object, "bench", path),
                     .shape = get_string(object, "case", path),
                     .metric = get_string(object, "metric", path),
                     .rival = get_string(object, "rival", path)};
    table_row *row = find_row(table, &key);
    if (row == NULL) {
        table->rows = realloc(table->rows, (table->count + 1) * sizeof *table->rows);
        if (table->rows == NULL)
            bench_fail("no memory for a table");
        row = &table->rows[table->count++];
        *row = (table_row){.key = key};
    }
    bench_samples_add(&row->medians, get_number(object, "value", path));
    bench_samples_add(&row->p99s, get_number(object, "p99", path));
    const char *device = json_string_value(json_object_get(object, "device"));
    if (device != NULL && strcmp(device, BENCH_EMULATED) == 0)
        table->is_emulated = true;
}

/* What script/gpu says of the machine, and what the demo says of itself. */
static void print_members(const char *title, const json_t *object)
{
    const char *key;
    json_t *value;
    const char *before = title;
    json_object_foreach((json_t *)object, key, value)
    {
        printf("%s%s: ", before, key);
        if (json_is_string(value))
            printf("%s", json_string_value(value));
        else
            (void)json_dumpf(value, stdout, JSON_ENCODE_ANY);
        before = "; ";
    }
    printf("\n\n");
}

/* A line of `ferry perf`, which is judged by what stands beside it. */
static void print_perf(const json_t *object, const char *path)
{
    const char *test = get_string(object, "test", path);
    const json_t *median = json_object_get(object, "latency_median_us");
    const json_t *limit = json_object_get(object, "limit");
    printf("- perf: %s of %.0f B, %s by %s: ", test, get_number(object, "size_bytes", path),
           get_string(object, "device", path), get_string(object, "way", path));
    if (json_is_number(median))
        printf("%.2f us", json_number_value(median));
    else
        printf("%.3f GB/s", get_number(object, "bytes_per_s", path) / 1e9);
    if (json_is_string(limit))
        printf(", %.3f of %s", get_number(object, "ratio", path), json_string_value(limit));
    printf("\n\n");
}

static void add_suite(table *table, const json_t *object, const char *path)
{
    const char *outcome = get_string(object, "outcome", path);
    if (strcmp(outcome, "passed") == 0)
        table->suites_passed++;
    else if (json_array_append(table->suites_failed, json_object_get(object, "suite")) != 0)
        bench_fail("no memory for a table");
}

static void add_object(table *table, const json_t *object, const char *path)
{
    const json_t *run = json_object_get(object, "run");
    const json_t *demo = json_object_get(object, "demo");
    const json_t *perf = json_object_get(object, "perf");
    if (json_is_object(run))
        print_members("", run);
    else if (json_is_object(demo))
        print_members("demo: ", demo);
    else if (json_is_object(perf))
        print_perf(perf, path);
    else if (json_is_string(json_object_get(object, "suite")))
        add_suite(table, object, path);
    else if (!json_is_string(json_object_get(object, "probe"))) /* ferry_probe has its own table */
        add_row(table, object, path);
}

static void read_table(table *table, const char *path)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    if (file == NULL)
        bench_fail("cannot open %s", path);
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    table->read = json_array();
    table->suites_failed = json_array();
    while ((length = getline(&line, &room, file)) >= 0) {
        json_error_t error;
        json_t *object = json_loadb(line, (size_t)length, 0, &error);
        if (object == NULL)
            bench_fail("%s: not a line that --json prints: %s", path, error.text);
        if (json_array_append_new(table->read, object) != 0)
            bench_fail("no memory for a table");
        add_object(table, object, path);
    }
    free(line);
    if (ferror(file))
        bench_fail("cannot read %s", path);
    if (file != stdin)
        (void)fclose(file);
}

static void close_table(table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        bench_samples_free(&table->rows[i].medians);
        bench_samples_free(&table->rows[i].p99s);
    }
    free(table->rows);
    json_decref(table->suites_failed);
    json_decref(table->read);
}

/* ---- printing ---- */

static double row_value(const table_row *row, bool is_p99)
{
    return bench_samples_quantile(is_p99 ? &row->p99s : &row->medians, 0.5);
}

/* A value in the table's unit, nanoseconds in the unit that suits them. */
static double scale_value(const char *metric, double value, const char **unit_p)
{
    const bench_metric *form = bench_metric_find(metric);
    bool is_time = strcmp(form->unit, "ns") == 0;
    *unit_p = is_time && value >= 1e6 ? "ms" : is_time && value >= 1e4 ? "us" : form->table_unit;
    return is_time && value >= 1e6   ? value / 1e6
           : is_time && value >= 1e4 ? value / 1e3
                                     : value / form->table_scale;
}

static void write_figure(char *text, size_t text_bytes, const char *metric, double value)
{
    const char *unit;
    double scaled = scale_value(metric, value, &unit);
    bool is_whole = scaled == (double)(long long)scaled;
    int decimals = is_whole || scaled >= 100 ? 0 : scaled >= 10 ? 1 : 2;
    (void)snprintf(text, text_bytes, "%.*f%s%s", decimals, scaled, unit[0] != '\0' ? " " : "",
                   unit);
}

/* The case that a reach names beside the row's own. */
static void name_case(char name[FIGURE_BYTES], const char *shape, const char *given)
{
    const char *dash = strrchr(shape, '-');
    if (given == NULL)
        (void)snprintf(name, FIGURE_BYTES, "%s", shape);
    else if (given[0] != '*' || dash == NULL)
        (void)snprintf(name, FIGURE_BYTES, "%s", given);
    else
        (void)snprintf(name, FIGURE_BYTES, "%.*s%s", (int)(dash - shape), shape, given + 1);
}

/* A figure of the same bench that is no ratio: a case's, of a rival ("": ferry's; NULL: any). */
static const table_row *find_figure(const table *table, const char *bench, const char *shape,
                                    const char *rival)
{
    for (size_t i = 0; i < table->count; i++) {
        const bench_key *key = &table->rows[i].key;
        if (strcmp(key->bench, bench) == 0 && strcmp(key->shape, shape) == 0 &&
            strcmp(key->metric, "ratio") != 0 && (rival == NULL || strcmp(key->rival, rival) == 0))
            return &table->rows[i];
    }
    return NULL;
}

/* The columns of one line. */
typedef struct table_line {
    char ferry[FIGURE_BYTES];
    char rival_name[FIGURE_BYTES];
    char rival[FIGURE_BYTES];
    char compared[FIGURE_BYTES];
    char wanted[FIGURE_BYTES];
} table_line;

static void write_beside(char text[FIGURE_BYTES], const table_row *row)
{
    if (row != NULL)
        write_figure(text, FIGURE_BYTES, row->key.metric, row_value(row, false));
}

/* The figures that a row compares stand in rows of their own. */
static void fill_compared(table_line *line, const table *table, const table_row *row,
                          const bench_reach *reach)
{
    const bench_key *key = &row->key;
    const char *rival_case = reach == NULL ? NULL : reach->rival_case;
    char name[FIGURE_BYTES];
    name_case(name, key->shape, reach == NULL ? NULL : reach->ferry_case);
    write_beside(line->ferry, find_figure(table, key->bench, name, ""));
    name_case(name, key->shape, rival_case);
    if (rival_case != NULL || key->rival[0] != '\0')
        write_beside(line->rival,
                     find_figure(table, key->bench, name, rival_case == NULL ? key->rival : NULL));
    (void)snprintf(line->rival_name, FIGURE_BYTES, "%s",
                   rival_case == NULL || key->rival[0] != '\0' ? key->rival : name);
    write_figure(line->compared, FIGURE_BYTES, key->metric, row_value(row, false));
}

static void write_wanted(char text[FIGURE_BYTES], const bench_reach *reach)
{
    const char *unit;
    double scaled = scale_value(reach->key.metric, reach->limit, &unit);
    (void)snprintf(text, FIGURE_BYTES, "%s%s %g%s%s", reach->is_p99 ? "p99 " : "",
                   reach->is_least ? "≥" : "≤", scaled, unit[0] != '\0' ? " " : "", unit);
}

static void write_judged(char text[FIGURE_BYTES], const table_row *row, const bench_reach *reach)
{
    char figure[FIGURE_BYTES - 8];
    write_figure(figure, sizeof figure, row->key.metric, row_value(row, reach->is_p99));
    (void)snprintf(text, FIGURE_BYTES, "%s%s", reach->is_p99 ? "p99 " : "", figure);
}

static void print_line(const char *bench, const char *shape, const table_line *line,
                       const char *reached)
{
    printf("| `%s` `%s` | %s | %s | %s | %s | %s | %s |\n", bench, shape, line->ferry,
           line->rival_name, line->rival, line->compared, line->wanted, reached);
}

/* Returns whether the row is judged; *is_met_p whether it reaches what it should. */
static bool print_table_row(const table *table, const table_row *row, bool *is_met_p)
{
    const bench_key *key = &row->key;
    const bench_reach *reach = bench_reach_find(key);
    bool is_ratio = strcmp(key->metric, "ratio") == 0;
    if (reach == NULL && (!is_ratio || key->rival[0] == '\0'))
        return false;
    table_line line = {0};
    if (is_ratio || reach->ferry_case != NULL)
        fill_compared(&line, table, row, reach);
    else
        write_judged(line.ferry, row, reach);
    bool is_judged = reach != NULL && !table->is_emulated;
    *is_met_p = is_judged && bench_reach_is_met(reach, row_value(row, reach->is_p99));
    if (reach != NULL)
        write_wanted(line.wanted, reach);
    print_line(key->bench, key->shape, &line, !is_judged ? "" : *is_met_p ? "yes" : "**no**");
    return is_judged;
}

static void print_missing(const table *table)
{
    for (size_t i = 0; i < bench_reach_count; i++) {
        const bench_reach *reach = &bench_reaches[i];
        size_t found = 0;
        while (found < table->count && bench_reach_find(&table->rows[found].key) != reach)
            found++;
        if (found < table->count)
            continue;
        table_line line = {0};
        write_wanted(line.wanted, reach);
        print_line(reach->key.bench, reach->key.shape, &line, "not measured");
    }
}

static void print_end(const table *table, size_t met, size_t judged)
{
    if (table->is_emulated)
        printf("\nRun on the emulator, which shows logic and never speed: nothing is judged.\n");
    else
        printf("\n%zu of %zu reached.\n", met, judged);
    size_t failed = json_array_size(table->suites_failed);
    if (failed + table->suites_passed > 0)
        printf("Test programs: %zu passed, %zu failed.\n", table->suites_passed, failed);
    for (size_t i = 0; i < failed; i++)
        printf("- failed: %s\n", json_string_value(json_array_get(table->suites_failed, i)));
}

void bench_table_print(const char *path)
{
    table table = {0};
    read_table(&table, path);
    size_t judged = 0, met = 0;
    printf("| case | ferry | rival | rival's | compared | wanted | reached |\n"
           "| --- | --- | --- | --- | --- | --- | --- |\n");
    for (size_t i = 0; i < table.count; i++) {
        bool is_met = false;
        judged += print_table_row(&table, &table.rows[i], &is_met);
        met += is_met;
    }
    print_missing(&table);
    print_end(&table, met, judged);
    if (fflush(stdout) != 0)
        bench_fail("cannot write to stdout");
    close_table(&table);
}
