/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/probe.h"
#include "bench/probe_claims.h"

#include <fnmatch.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 128
#define PATTERNS_BYTES 256
#define SHOWN 3 /* rows of a line that are named */

typedef struct probe_table {
    json_t *rows;
    bool is_emulated; /* some row is: nothing is judged */
    const char *device;
} probe_table;

/* ---- reading ---- */

static const char *get_string(const json_t *row, const char *name)
{
    const char *value = json_string_value(json_object_get(row, name));
    return value != NULL ? value : "";
}

static void read_table(probe_table *table, const char *path)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    if (file == NULL)
        bench_fail("cannot open %s", path);
    table->rows = json_array();
    while ((length = getline(&line, &room, file)) >= 0) {
        json_error_t error;
        json_t *row = json_loadb(line, (size_t)length, 0, &error);
        if (row == NULL)
            bench_fail("%s: not a line that --json prints: %s", path, error.text);
        if (json_array_append_new(table->rows, row) != 0)
            bench_fail("no memory for a table");
        if (!json_is_string(json_object_get(row, "probe")))
            continue; /* another program's */
        table->device = get_string(row, "device");
        if (strcmp(table->device, BENCH_EMULATED) == 0)
            table->is_emulated = true;
    }
    free(line);
    if (ferror(file))
        bench_fail("cannot read %s", path);
    if (file != stdin)
        (void)fclose(file);
}

/* ---- judging ---- */

static bool is_of_claim(const probe_claim *claim, const char *name)
{
    char patterns[PATTERNS_BYTES];
    char *rest = NULL;
    if (claim->rows == NULL)
        return false;
    (void)snprintf(patterns, sizeof patterns, "%s", claim->rows);
    for (char *one = strtok_r(patterns, " ", &rest); one != NULL;
         one = strtok_r(NULL, " ", &rest)) {
        if (fnmatch(one, name, 0) == 0)
            return true;
    }
    return false;
}

static bool is_met(const probe_claim *claim, const json_t *row)
{
    double value = json_number_value(json_object_get(row, "value"));
    switch (claim->rule) {
    case PROBE_RULE_YES:
        return json_is_true(json_object_get(row, "answer"));
    case PROBE_RULE_NO:
        return json_is_false(json_object_get(row, "answer"));
    case PROBE_RULE_LEAST:
        return value >= claim->limit;
    case PROBE_RULE_MOST:
        return value <= claim->limit;
    }
    return false;
}

/* How far a row is from what it should be: more is worse. */
static double badness(const probe_claim *claim, const json_t *row)
{
    const json_t *value = json_object_get(row, "value");
    double number = json_is_number(value) ? json_number_value(value) : -INFINITY;
    return claim->rule == PROBE_RULE_LEAST ? -number : number;
}

typedef struct verdict {
    size_t rows, met, unmet;    /* those that met it or not are of those with an answer */
    const json_t *shown[SHOWN]; /* those that did not, else the worst */
    size_t shown_count;
} verdict;

static void show(verdict *verdict, const probe_claim *claim, const json_t *row, bool is_unmet)
{
    if (is_unmet && verdict->unmet == 1)
        verdict->shown_count = 0; /* what met it says no more */
    if (!is_unmet && verdict->unmet > 0)
        return;
    size_t at = verdict->shown_count;
    while (at > 0 && badness(claim, verdict->shown[at - 1]) < badness(claim, row))
        at--;
    if (at == SHOWN)
        return;
    verdict->shown_count += verdict->shown_count < SHOWN;
    for (size_t i = verdict->shown_count - 1; i > at; i--)
        verdict->shown[i] = verdict->shown[i - 1];
    verdict->shown[at] = row;
}

static verdict judge(const probe_table *table, const probe_claim *claim)
{
    verdict verdict = {0};
    size_t i;
    json_t *row;
    json_array_foreach(table->rows, i, row)
    {
        char name[NAME_BYTES];
        (void)snprintf(name, sizeof name, "%s/%s", get_string(row, "probe"),
                       get_string(row, "case"));
        if (!is_of_claim(claim, name))
            continue;
        verdict.rows++;
        if (!json_is_boolean(json_object_get(row, "answer")))
            continue;
        bool is_unmet = !is_met(claim, row);
        verdict.met += !is_unmet;
        verdict.unmet += is_unmet;
        show(&verdict, claim, row, is_unmet);
    }
    return verdict;
}

/* ---- printing ---- */

static void print_figure(const json_t *row, const char *before)
{
    const json_t *value = json_object_get(row, "value");
    const char *note = get_string(row, "note");
    printf("%s`%s`", before, get_string(row, "case"));
    if (json_is_number(value))
        printf(" %.6g %s", json_number_value(value), get_string(row, "unit"));
    else
        printf(" %s", json_is_true(json_object_get(row, "answer")) ? "yes" : "no");
    if (note[0] != '\0')
        printf(" (%s)", note);
}

static void print_claim(const probe_table *table, const probe_claim *claim)
{
    verdict verdict = judge(table, claim);
    size_t answers = verdict.met + verdict.unmet;
    const char *word = answers == 0         ? "not tried"
                       : table->is_emulated ? ""
                       : verdict.unmet > 0  ? "**false**"
                                            : "true";
    printf("| %s | %s | ", claim->text, word);
    for (size_t i = 0; i < verdict.shown_count; i++)
        print_figure(verdict.shown[i], i == 0 ? "" : "; ");
    if (answers > verdict.shown_count)
        printf("; %zu of %zu rows as assumed", verdict.met, answers);
    if (verdict.rows > answers)
        printf("%srows without an answer: %zu", answers > 0 ? "; " : "", verdict.rows - answers);
    puts(" |");
}

/* The cases that came to no end, of which no row above may be the sign. */
static void print_unanswered(const probe_table *table)
{
    size_t i;
    json_t *row;
    json_array_foreach(table->rows, i, row)
    {
        if (strcmp(get_string(row, "probe"), "case") == 0 &&
            !json_is_true(json_object_get(row, "answer")))
            printf("- `%s`: %s\n", get_string(row, "case"), get_string(row, "note"));
    }
}

void probe_table_print(const char *path)
{
    probe_table table = {.device = "no row names a GPU"};
    read_table(&table, path);
    puts("| what ferry assumes | here | rows that decide it |\n| --- | --- | --- |");
    for (size_t i = 0; i < probe_claim_count; i++)
        print_claim(&table, &probe_claims[i]);
    if (table.is_emulated)
        printf("\nRun on the emulator, which shows logic and nothing of hardware: nothing is "
               "judged.\n");
    else
        printf("\nOn: %s.\n", table.device);
    print_unanswered(&table);
    if (fflush(stdout) != 0)
        bench_fail("cannot write to stdout");
    json_decref(table.rows);
}
