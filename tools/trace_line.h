/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line of a trace file: one JSON object, and the object `args` in it. Lines as ferry writes them
 * are scanned here, at a fifth of what a parser takes; any other line is left to jansson. Both give
 * the same.
 */
#ifndef TRACE_LINE_H
#define TRACE_LINE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_LINE_FIELDS 48

typedef enum trace_value_kind {
    TRACE_VALUE_TEXT,
    TRACE_VALUE_WHOLE,
    TRACE_VALUE_REAL,
    TRACE_VALUE_OTHER, /* true, false, null, an array, an object */
} trace_value_kind;

typedef struct trace_value {
    trace_value_kind kind;
    const char *text; /* TEXT: so many bytes, with or without a zero behind them */
    size_t length;
    int64_t whole; /* WHOLE */
    double number; /* WHOLE, REAL */
} trace_value;

typedef struct trace_field {
    const char *key;
    size_t key_length;
    trace_value value;
} trace_field;

/* An object: jansson's, or so many fields, which point into the line. */
typedef struct trace_object {
    const json_t *json;
    const trace_field *fields;
    size_t count;
} trace_object;

typedef struct trace_line {
    trace_object top;
    trace_object arguments; /* without fields if there is none */
    trace_field fields[TRACE_LINE_FIELDS];
    size_t count;
} trace_line;

/* False: it is not as ferry writes lines, and may still be one. */
bool trace_line_scan(trace_line *line, const char *text, size_t length);

/* What jansson has parsed; borrowed. */
void trace_line_take(trace_line *line, const json_t *object);

/* Of fields of one name the last. False: there is none. */
bool trace_object_find(const trace_object *object, const char *key, trace_value *value);

/* Whether there is one, and it is that text. */
bool trace_object_says(const trace_object *object, const char *key, const char *text);

#endif
