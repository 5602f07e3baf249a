/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process that serves figures may answer, any bytes: shown as a table, for Prometheus, and
 * as a page of `ferry top`, where it is the dump too. No control byte may come through to a
 * terminal, and no name may begin a line of its own for Prometheus.
 */
#include "tests/fuzz/fuzz.h"

#include "tools/stats_model.h"
#include "tools/stats_prometheus.h"
#include "tools/stats_table.h"
#include "tools/top_page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect(bool is_so, const char *what)
{
    if (is_so)
        return;
    (void)fprintf(stderr, "stats_answer: %s\n", what);
    abort();
}

static void expect_harmless(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        expect((unsigned char)text[i] >= 0x20 ? text[i] != 0x7f : text[i] == '\n',
               "a control byte came through");
}

static void expect_lines(const char *text)
{
    for (; *text != '\0'; text = strchr(text, '\n') + 1) {
        expect(strncmp(text, "ferry_", 6) == 0 || strncmp(text, "# HELP ferry_", 13) == 0 ||
                   strncmp(text, "# TYPE ferry_", 13) == 0,
               "a line that is none of ferry's");
        expect(strchr(text, '\n') != NULL, "no end of the last line");
    }
}

static void show(const stats_model *model, json_t *dump)
{
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    expect(to != NULL, "no memory");
    stats_table_print(model, to);
    const top_view view = {.before = model, .now = model, .dump = dump, .columns = 60, .rows = 40};
    expect(top_page_print(&view, to), "no page");
    (void)fclose(to);
    expect_harmless(text, size);
    free(text);

    to = open_memstream(&text, &size);
    expect(to != NULL, "no memory");
    stats_prometheus_print(model, to);
    (void)fclose(to);
    expect_lines(text);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_error_t error;
    stats_model model;
    char why[STATS_WHY_BYTES];
    json_t *document = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, &error);
    json_t *dump = json_incref(document);
    if (document != NULL && stats_model_take(&model, document, why)) {
        show(&model, dump);
        stats_model_release(&model);
    }
    json_decref(dump);
    return 0;
}
