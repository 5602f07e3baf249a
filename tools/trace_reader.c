/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/trace_reader.h"

#include "tools/trace_line.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LINES_MAX ((size_t)1 << 28)
#define SKIPPED_MAX_BYTES ((uint64_t)64 << 20) /* no line of a trace is longer: give up */
#define TIME_MAX_US (TRACE_TIME_MAX_NS / 1000)

typedef struct trace_reader {
    FILE *file;
    trace_model *model;
    trace_problems *problems;
    char *line; /* without its newline */
    size_t length;
    size_t number; /* the line's number, from 1 */
    uint64_t line_begin;
    uint64_t offset; /* where the next read begins */
    bool has_op;     /* the line before told of an operation, which is the model's last */
    bool is_whole;   /* the record that ends a trace was read */
    bool is_begun;   /* '[' was read */
    bool is_ended;   /* ']' was read */
    trace_result result;
} trace_reader;

static void tell(trace_reader *reader, const char *what)
{
    trace_problems_add(reader->problems, reader->number, reader->line_begin, "%s", what);
}

static bool tell_bad(trace_reader *reader, const char *key, const char *what)
{
    trace_problems_add(reader->problems, reader->number, reader->line_begin, "\"%s\" %s", key,
                       what);
    return false;
}

/* True if the row, text or operation was stored; else reports the reason. */
static bool is_stored(trace_reader *reader, trace_result result, const char *limit)
{
    if (result == TRACE_FULL)
        tell(reader, limit);
    else if (result == TRACE_NO_MEMORY)
        reader->result = TRACE_NO_MEMORY;
    return result == TRACE_OK;
}

/* ---- fields ---- */

static bool get_text(trace_reader *reader, const trace_object *object, const char *key,
                     const char **text_p)
{
    trace_value value;
    bool is_there = trace_object_find(object, key, &value);
    if (!is_there || value.kind != TRACE_VALUE_TEXT)
        return tell_bad(reader, key, is_there ? "is no text" : "is missing");
    *text_p = trace_model_text(reader->model, value.text, value.length);
    return is_stored(reader, *text_p ? TRACE_OK : TRACE_NO_MEMORY, "");
}

/* The same, but leaves *text_p as it is if the field is missing. */
static bool get_text_if_any(trace_reader *reader, const trace_object *object, const char *key,
                            const char **text_p)
{
    trace_value value;
    return !trace_object_find(object, key, &value) || get_text(reader, object, key, text_p);
}

static bool get_count(trace_reader *reader, const trace_object *object, const char *key,
                      int64_t *count_p)
{
    trace_value value;
    bool is_there = trace_object_find(object, key, &value);
    if (!is_there || value.kind != TRACE_VALUE_WHOLE)
        return tell_bad(reader, key, is_there ? "is no whole number" : "is missing");
    if (value.whole < 0)
        return tell_bad(reader, key, "is negative");
    *count_p = value.whole;
    return true;
}

static bool get_count_if_any(trace_reader *reader, const trace_object *object, const char *key,
                             uint64_t *count_p)
{
    trace_value value;
    int64_t count = 0;
    if (!trace_object_find(object, key, &value))
        return true;
    if (!get_count(reader, object, key, &count))
        return false;
    *count_p = (uint64_t)count;
    return true;
}

/* Reads a time in microseconds. */
static bool get_time(trace_reader *reader, const trace_object *object, const char *key,
                     int64_t *time_ns_p)
{
    trace_value value;
    bool is_there = trace_object_find(object, key, &value);
    if (!is_there || (value.kind != TRACE_VALUE_WHOLE && value.kind != TRACE_VALUE_REAL))
        return tell_bad(reader, key, is_there ? "is no number" : "is missing");
    double time_us = value.number;
    if (!(time_us >= 0))
        return tell_bad(reader, key, "is negative");
    if (!(time_us <= (double)TIME_MAX_US))
        return tell_bad(reader, key, "is more than 285 years");
    *time_ns_p = llround(time_us * 1000);
    return true;
}

static bool get_time_if_any(trace_reader *reader, const trace_object *object, const char *key,
                            int64_t *time_ns_p)
{
    trace_value value;
    return !trace_object_find(object, key, &value) || get_time(reader, object, key, time_ns_p);
}

static bool get_row(trace_reader *reader, const trace_object *object, uint32_t *row_p)
{
    int64_t process = 0;
    int64_t thread = 0;
    return get_count(reader, object, "pid", &process) &&
           get_count(reader, object, "tid", &thread) &&
           is_stored(reader, trace_model_row(reader->model, process, thread, row_p),
                     "a row too many; there may be 4096");
}

/* ---- lines ---- */

static void read_end_record(trace_reader *reader, const trace_object *arguments)
{
    trace_model *model = reader->model;
    uint64_t records = 0, dropped = 0, unwritten = 0;
    if (!get_count_if_any(reader, arguments, "records", &records) ||
        !get_count_if_any(reader, arguments, "dropped", &dropped) ||
        !get_count_if_any(reader, arguments, "unwritten", &unwritten) || reader->is_whole)
        return;
    model->records += records;
    model->dropped += dropped;
    model->unwritten += unwritten;
    reader->is_whole = true;
}

static void read_metadata(trace_reader *reader, const trace_line *line)
{
    if (trace_object_says(&line->top, "name", "ferry_end")) {
        read_end_record(reader, &line->arguments);
    } else if (trace_object_says(&line->top, "name", "thread_name")) {
        uint32_t row = 0;
        const char *row_name = NULL;
        if (get_row(reader, &line->top, &row) &&
            get_text(reader, &line->arguments, "name", &row_name) &&
            (!reader->model->rows[row].name || reader->model->rows[row].kind != TRACE_ROW_CALLS))
            reader->model->rows[row].name = row_name; /* of a shared row the first name */
    }
}

static bool read_moments(trace_reader *reader, const trace_object *arguments, trace_op *op)
{
    return get_time_if_any(reader, arguments, "submitted", &op->submitted_ns) &&
           get_time_if_any(reader, arguments, "ready", &op->ready_ns) &&
           get_time_if_any(reader, arguments, "issued", &op->issued_ns) &&
           get_time_if_any(reader, arguments, "begun", &op->begun_ns) &&
           get_time_if_any(reader, arguments, "fired", &op->fired_ns) &&
           get_time_if_any(reader, arguments, "resolved", &op->resolved_ns);
}

/* Names a row that has no name after its first operation. */
static bool name_row(trace_reader *reader, const trace_object *arguments, trace_row *row)
{
    trace_value device, stream;
    if (row->name || row->kind != TRACE_ROW_STREAM ||
        !trace_object_find(arguments, "device", &device) || device.kind != TRACE_VALUE_TEXT)
        return true;
    char name[128];
    int length = snprintf(name, sizeof(name), "engine %lld %.*s",
                          (long long)(row->thread / TRACE_ROWS_OF_ENGINE),
                          device.length < 64 ? (int)device.length : 64, device.text);
    if (trace_object_find(arguments, "stream", &stream) && stream.kind == TRACE_VALUE_WHOLE)
        length += snprintf(name + length, sizeof(name) - (size_t)length, " stream %lld",
                           (long long)stream.whole);
    row->name = trace_model_text(reader->model, name, (size_t)length);
    return is_stored(reader, row->name ? TRACE_OK : TRACE_NO_MEMORY, "");
}

static void read_operation(trace_reader *reader, const trace_line *line)
{
    const trace_object *object = &line->top, *arguments = &line->arguments;
    int64_t id = 0;
    int64_t duration_ns = 0;
    reader->has_op = false;
    trace_op op = {
        .submitted_ns = TRACE_NO_TIME,
        .ready_ns = TRACE_NO_TIME,
        .issued_ns = TRACE_NO_TIME,
        .begun_ns = TRACE_NO_TIME,
        .fired_ns = TRACE_NO_TIME,
        .resolved_ns = TRACE_NO_TIME,
        .status = reader->model->status_pending,
        .offset_bytes = reader->line_begin,
        .line = reader->number < UINT32_MAX ? (uint32_t)reader->number : UINT32_MAX,
    };
    if (!get_text(reader, object, "name", &op.label) ||
        !get_time(reader, object, "ts", &op.begin_ns) ||
        !get_time(reader, object, "dur", &duration_ns) ||
        !get_count(reader, arguments, "op", &id) ||
        !get_text(reader, arguments, "kind", &op.kind) ||
        !get_text_if_any(reader, arguments, "status", &op.status) ||
        !get_count_if_any(reader, arguments, "bytes", &op.size_bytes) ||
        !get_count_if_any(reader, arguments, "waited_for", &op.waited_for) ||
        !read_moments(reader, arguments, &op))
        return;
    if (id == 0) {
        (void)tell_bad(reader, "op", "is 0");
        return;
    }
    if (duration_ns > TRACE_TIME_MAX_NS - op.begin_ns) {
        (void)tell_bad(reader, "dur", "ends after more than 285 years");
        return;
    }
    op.id = (uint64_t)id;
    op.end_ns = op.begin_ns + duration_ns;
    if (get_row(reader, object, &op.row) &&
        name_row(reader, arguments, &reader->model->rows[op.row]))
        reader->has_op = is_stored(reader, trace_model_add(reader->model, &op),
                                   "an operation too many; there may be 16777216");
}

/* An end of a message. Its line comes right behind that of its operation, in the same row. */
static void read_message(trace_reader *reader, const trace_object *object, bool is_sender)
{
    int64_t flow = 0;
    uint32_t row = 0;
    trace_model *model = reader->model;
    if (!reader->has_op || !get_count(reader, object, "id", &flow) ||
        !get_row(reader, object, &row) || model->ops[model->op_count - 1].row != row)
        return;
    trace_op *op = &model->ops[model->op_count - 1];
    op->flow = (uint64_t)flow;
    op->is_sender = is_sender;
}

static void read_line(trace_reader *reader, const trace_line *line)
{
    trace_value phase, name;
    const trace_object *top = &line->top;
    bool has_name = trace_object_find(top, "name", &name) && name.kind == TRACE_VALUE_TEXT;
    if (!trace_object_find(top, "ph", &phase) || phase.kind != TRACE_VALUE_TEXT)
        (void)tell_bad(reader, "ph", "is missing, or no text");
    else if (has_name && trace_object_says(top, "ph", "M"))
        read_metadata(reader, line);
    else if (trace_object_says(top, "ph", "X") && trace_object_says(top, "cat", "ferry"))
        read_operation(reader, line);
    else if (trace_object_says(top, "name", "message") && phase.length > 0 &&
             (*phase.text == 's' || *phase.text == 'f'))
        read_message(reader, top, *phase.text == 's');
    /* The rest is for other viewers: is_for_others. */
}

/*
 * Waits, and what released whom: the operations' args have it. Of the lines of a trace they are a
 * half, and parsing them would be a third of all the work.
 */
static bool is_for_others(const char *text, size_t length)
{
    static const char *const begins[] = {"{\"name\":\"wait\",\"cat\":\"ferry\",",
                                         "{\"name\":\"released\",\"cat\":\"ferry\","};
    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
        size_t begin = strlen(begins[i]);
        if (length > begin && memcmp(text, begins[i], begin) == 0 && text[length - 1] == '}')
            return true;
    }
    return false;
}

static void parse(trace_reader *reader, const char *text, size_t length)
{
    trace_line line;
    if (trace_line_scan(&line, text, length)) {
        read_line(reader, &line);
        return;
    }
    json_error_t error;
    json_t *object = json_loadb(text, length, 0, &error);
    if (!object && json_error_code(&error) == json_error_out_of_memory)
        reader->result = TRACE_NO_MEMORY;
    else if (!object)
        trace_problems_add(reader->problems, reader->number,
                           reader->line_begin + (uint64_t)(text - reader->line) +
                               (error.position > 0 ? (uint64_t)error.position : 0),
                           "%s", error.text);
    else if (!json_is_object(object))
        tell(reader, "no object");
    else {
        trace_line_take(&line, object);
        read_line(reader, &line);
    }
    json_decref(object);
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r';
}

static void take_line(trace_reader *reader)
{
    const char *text = reader->line;
    size_t length = reader->length;
    while (length > 0 && is_blank(text[length - 1]))
        length--;
    while (length > 0 && is_blank(*text)) {
        text++;
        length--;
    }
    if (length == 0)
        return;
    bool is_first = !reader->is_begun;
    reader->is_begun = true;
    if (is_first && length == 1 && *text == '[')
        return;
    if (is_first)
        tell(reader, "a trace begins with a line '['");
    if (reader->is_ended) {
        tell(reader, "text after the end");
        return;
    }
    if (length == 1 && *text == ']') {
        reader->is_ended = true;
        return;
    }
    length -= text[length - 1] == ',';
    if (!is_for_others(text, length))
        parse(reader, text, length);
}

/* Skips the rest of a line that is too long for a trace. */
static bool skip_line(trace_reader *reader)
{
    uint64_t first = reader->offset;
    int byte;
    tell(reader, "a line of more than 1 MiB");
    while ((byte = getc_unlocked(reader->file)) != EOF) {
        reader->offset++;
        if (byte == '\n')
            return true;
        if (reader->offset - first > SKIPPED_MAX_BYTES) {
            tell(reader, "the line does not end; what follows it is not read");
            return false;
        }
    }
    return false;
}

/* Reads a line. False: the file has ended. */
static bool next_line(trace_reader *reader)
{
    reader->number++;
    reader->line_begin = reader->offset;
    reader->length = 0;
    int byte;
    while ((byte = getc_unlocked(reader->file)) != EOF) {
        reader->offset++;
        if (byte == '\n')
            return true;
        if (reader->length == TRACE_LINE_MAX_BYTES) {
            reader->length = 0;
            return skip_line(reader);
        }
        reader->line[reader->length++] = (char)byte;
    }
    if (reader->length == 0)
        reader->number--; /* there was no line */
    return reader->length > 0;
}

trace_result trace_read(FILE *file, trace_model *model, trace_problems *problems)
{
    if (model->file_count == TRACE_FILES_MAX)
        return TRACE_FULL;
    model->file_count++;
    trace_reader reader = {
        .file = file,
        .model = model,
        .problems = problems,
        .line = malloc(TRACE_LINE_MAX_BYTES),
    };
    if (!reader.line)
        return TRACE_NO_MEMORY;
    while (reader.result == TRACE_OK && next_line(&reader)) {
        take_line(&reader);
        if (reader.number == LINES_MAX) {
            tell(&reader, "more lines than a trace may have; what follows is not read");
            break;
        }
    }
    if (ferror(file))
        trace_problems_add(problems, reader.number, reader.offset, "reading: %s", strerror(errno));
    free(reader.line);
    if (reader.result != TRACE_OK)
        return reader.result;
    model->is_cut |= !reader.is_whole;
    if (!reader.is_whole)
        trace_problems_add(problems, reader.number, reader.offset,
                           "cut short: the record that ends a trace is missing");
    else if (!reader.is_ended)
        trace_problems_add(problems, reader.number, reader.offset, "cut short: no ']'");
    return TRACE_OK;
}
