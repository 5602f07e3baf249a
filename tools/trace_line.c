/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/trace_line.h"

#include <string.h>

#define DIGITS_MAX 18 /* all that an int64_t has room for, and a long double has them all */

/* ---- scanning ---- */

typedef struct scanner {
    const char *at;
    const char *end;
} scanner;

static bool skip(scanner *scanner, char byte)
{
    if (scanner->at == scanner->end || *scanner->at != byte)
        return false;
    scanner->at++;
    return true;
}

/* A text without escapes, of printable ASCII. */
static bool scan_text(scanner *scanner, const char **text_p, size_t *length_p)
{
    if (!skip(scanner, '"'))
        return false;
    const char *first = scanner->at;
    while (scanner->at < scanner->end && *scanner->at != '"') {
        if (*scanner->at < ' ' || *scanner->at > '~' || *scanner->at == '\\')
            return false;
        scanner->at++;
    }
    *text_p = first;
    *length_p = (size_t)(scanner->at - first);
    return skip(scanner, '"');
}

/* Appends at most so many digits to a number, and one too many if there are more. */
static size_t scan_digits(scanner *scanner, size_t most, uint64_t *number_p)
{
    const char *first = scanner->at;
    while (scanner->at < scanner->end && *scanner->at >= '0' && *scanner->at <= '9' &&
           (size_t)(scanner->at - first) <= most)
        *number_p = *number_p * 10 + (uint64_t)(*scanner->at++ - '0');
    return (size_t)(scanner->at - first);
}

/* Digits, and perhaps a point and more. What stands behind them is for the caller. */
static bool scan_number(scanner *scanner, trace_value *value)
{
    const char *first = scanner->at;
    uint64_t number = 0;
    long double part = 1;
    size_t digits = scan_digits(scanner, DIGITS_MAX, &number);
    if (digits == 0 || digits > DIGITS_MAX || (digits > 1 && *first == '0'))
        return false;
    *value = (trace_value){.kind = TRACE_VALUE_WHOLE, .whole = (int64_t)number};
    if (skip(scanner, '.')) {
        size_t more = scan_digits(scanner, DIGITS_MAX - digits, &number);
        if (more == 0 || digits + more > DIGITS_MAX)
            return false;
        *value = (trace_value){.kind = TRACE_VALUE_REAL};
        while (more-- > 0)
            part *= 10;
    }
    value->number = (double)((long double)number / part);
    return true;
}

static bool scan_value(scanner *scanner, trace_value *value)
{
    *value = (trace_value){.kind = TRACE_VALUE_TEXT};
    if (scanner->at < scanner->end && *scanner->at == '"')
        return scan_text(scanner, &value->text, &value->length);
    return scan_number(scanner, value);
}

/* The fields of an object whose bracket was read. `args` is one, too, if args_p is not NULL. */
static bool scan_fields(scanner *scanner, trace_line *line, struct scanner *args_p)
{
    do {
        const char *key;
        size_t length;
        if (line->count == TRACE_LINE_FIELDS || !scan_text(scanner, &key, &length) ||
            !skip(scanner, ':'))
            return false;
        if (args_p && length == 4 && memcmp(key, "args", 4) == 0) {
            if (args_p->at || !skip(scanner, '{'))
                return false;
            args_p->at = scanner->at; /* read afterwards: fields stand one behind another */
            while (scanner->at < scanner->end && *scanner->at != '}')
                scanner->at++;
            if (!skip(scanner, '}'))
                return false;
            args_p->end = scanner->at;
            continue;
        }
        trace_field *field = &line->fields[line->count++];
        field->key = key;
        field->key_length = length;
        if (!scan_value(scanner, &field->value))
            return false;
    } while (skip(scanner, ','));
    return skip(scanner, '}');
}

bool trace_line_scan(trace_line *line, const char *text, size_t length)
{
    scanner top = {text, text + length};
    scanner arguments = {0};
    line->count = 0;
    if (!skip(&top, '{') || !scan_fields(&top, line, &arguments) || top.at != top.end)
        return false;
    size_t count = line->count;
    line->top = (trace_object){.fields = line->fields, .count = count};
    line->arguments = (trace_object){.fields = line->fields + count};
    if (!arguments.at)
        return true;
    /* A bracket within a text would have been taken for the end; then this fails. */
    if (!scan_fields(&arguments, line, NULL) || arguments.at != arguments.end)
        return false;
    line->arguments.count = line->count - count;
    return true;
}

/* ---- either ---- */

void trace_line_take(trace_line *line, const json_t *object)
{
    line->top = (trace_object){.json = object};
    line->arguments = (trace_object){.json = json_object_get(object, "args")};
}

static trace_value value_of(const json_t *json)
{
    if (json_is_string(json))
        return (trace_value){.kind = TRACE_VALUE_TEXT,
                             .text = json_string_value(json),
                             .length = json_string_length(json)};
    if (json_is_integer(json))
        return (trace_value){.kind = TRACE_VALUE_WHOLE,
                             .whole = json_integer_value(json),
                             .number = (double)json_integer_value(json)};
    if (json_is_real(json))
        return (trace_value){.kind = TRACE_VALUE_REAL, .number = json_real_value(json)};
    return (trace_value){.kind = TRACE_VALUE_OTHER};
}

bool trace_object_find(const trace_object *object, const char *key, trace_value *value)
{
    size_t length = strlen(key);
    for (size_t i = object->count; i-- > 0;) {
        const trace_field *field = &object->fields[i];
        if (field->key_length == length && memcmp(field->key, key, length) == 0) {
            *value = field->value;
            return true;
        }
    }
    const json_t *json = json_object_get(object->json, key);
    if (!json)
        return false;
    *value = value_of(json);
    return true;
}

bool trace_object_says(const trace_object *object, const char *key, const char *text)
{
    trace_value value;
    size_t length = strlen(text);
    return trace_object_find(object, key, &value) && value.kind == TRACE_VALUE_TEXT &&
           value.length == length && memcmp(value.text, text, length) == 0;
}
