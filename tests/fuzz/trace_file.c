/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace file of any bytes: read, summed up both ways and drawn. Beside not crashing, what comes
 * out has to be bounded and harmless: no control bytes, and no markup that the file brought along.
 */
#include "tests/fuzz/fuzz.h"

#include "tools/trace_line.h"
#include "tools/trace_reader.h"
#include "tools/trace_report.h"
#include "tools/trace_svg.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PICTURE_MAX_BYTES ((size_t)32 << 20)

static void expect(bool is_so, const char *what)
{
    if (is_so)
        return;
    fprintf(stderr, "trace_file: %s\n", what);
    abort();
}

static void expect_harmless(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        expect((unsigned char)text[i] >= 0x20 ? text[i] != 0x7f : text[i] == '\n',
               "a control byte came through");
}

/* Each '<' of the document's own is followed by its '>'. */
static void expect_markup(const char *text, size_t size)
{
    bool is_inside = false;
    for (size_t i = 0; i < size; i++) {
        expect(text[i] != '<' || !is_inside, "'<' within a tag");
        expect(text[i] != '>' || is_inside, "'>' outside of a tag");
        if (text[i] == '<' || text[i] == '>')
            is_inside = text[i] == '<';
    }
    expect(!is_inside, "an open tag at the end");
}

static void draw(const trace_model *model, const trace_summary *summary, const trace_view *view)
{
    trace_layout layout;
    char *text = NULL;
    size_t size = 0;
    FILE *sink = open_memstream(&text, &size);
    expect(sink != NULL, "no memory");
    if (trace_layout_make(&layout, model, view) == TRACE_OK)
        (void)trace_svg_write(model, summary, &layout, sink);
    trace_layout_release(&layout);
    fclose(sink);
    expect(size <= PICTURE_MAX_BYTES, "the picture is too large");
    expect_harmless(text, size);
    expect_markup(text, size);
    free(text);
}

static void report(const trace_model *model, const trace_summary *summary)
{
    char *text = NULL;
    size_t size = 0;
    FILE *sink = open_memstream(&text, &size);
    expect(sink != NULL, "no memory");
    trace_report_print(model, summary, sink);
    expect(trace_report_print_json(model, summary, 0, sink) == TRACE_OK, "no summary as JSON");
    fclose(sink);
    expect_harmless(text, size);
    free(text);
}

static void use(const trace_model *model)
{
    static const trace_view whole = {.width_px = 1200, .to_ms = 1e300};
    static const trace_view part = {.width_px = 400, .from_ms = 0.001, .to_ms = 0.5};
    double span_ms = (double)(model->end_ns - model->begin_ns) / 1e6;
    trace_view narrow = {
        .width_px = 400, .from_ms = span_ms * 0.75, .to_ms = span_ms * 0.75 + 1e-5};
    trace_summary summary;
    if (trace_summary_make(model, &summary) == TRACE_OK) {
        draw(model, &summary, &whole);
        draw(model, &summary, &part);
        draw(model, &summary, &narrow);
        report(model, &summary);
    }
    trace_summary_release(&summary);
}

/* What was scanned of an object, jansson has found as well. */
static void expect_same_fields(const trace_object *scanned, const trace_object *parsed)
{
    for (size_t i = 0; i < scanned->count; i++) {
        char key[256];
        trace_value own, other;
        if (scanned->fields[i].key_length >= sizeof key)
            continue;
        memcpy(key, scanned->fields[i].key, scanned->fields[i].key_length);
        key[scanned->fields[i].key_length] = '\0';
        expect(trace_object_find(scanned, key, &own), "a field is there and not found");
        expect(trace_object_find(parsed, key, &other), "a field that a parser does not see");
        expect(own.kind == other.kind, "a field of another kind");
        if (own.kind == TRACE_VALUE_TEXT)
            expect(own.length == other.length && memcmp(own.text, other.text, own.length) == 0,
                   "another text");
        else
            expect(own.whole == other.whole &&
                       fabs(own.number - other.number) <= fabs(other.number) * 1e-15,
                   "another number");
    }
}

/* A line that is scanned is one that jansson takes, and says the same. */
static void expect_same(const char *text, size_t length)
{
    trace_line scanned, parsed;
    json_error_t error;
    if (!trace_line_scan(&scanned, text, length))
        return;
    json_t *object = json_loadb(text, length, 0, &error);
    expect(json_is_object(object), "a line was scanned that is none");
    trace_line_take(&parsed, object);
    expect_same_fields(&scanned.top, &parsed.top);
    expect_same_fields(&scanned.arguments, &parsed.arguments);
    expect((scanned.arguments.count > 0) == (parsed.arguments.json != NULL), "args, or none");
    json_decref(object);
}

static void scan_lines(const char *text, size_t size)
{
    const char *end = text + size, *newline;
    for (; text < end; text = newline < end ? newline + 1 : end) {
        newline = memchr(text, '\n', (size_t)(end - text));
        if (newline == NULL)
            newline = end;
        size_t length = (size_t)(newline - text);
        expect_same(text, length > 0 && text[length - 1] == ',' ? length - 1 : length);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_object_seed(1); /* the same each time */
    scan_lines((const char *)data, size);
    FILE *file = fmemopen((void *)data, size, "rb");
    if (!file)
        return 0; /* without a byte */
    trace_model model;
    trace_problems problems[2] = {{.path = "fuzz"}, {.path = "fuzz again"}};
    /* Half of the inputs are two files of one job, whose messages have the same numbers. */
    size_t files = 1 + size % 2;
    bool is_read = trace_model_init(&model) == TRACE_OK;
    for (size_t i = 0; i < files && is_read; i++) {
        rewind(file);
        is_read = trace_read(file, &model, &problems[i]) == TRACE_OK;
    }
    if (is_read && trace_model_finish(&model, problems) == TRACE_OK) {
        expect(!model.is_cut || problems[0].count > 0, "a cut file was taken for whole");
        if (model.op_count > 0)
            use(&model);
    }
    trace_model_release(&model);
    fclose(file);
    return 0;
}
