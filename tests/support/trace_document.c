/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/trace_document.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_OF_ENGINE 4096

static bool complain(trace_document *document, size_t line, const char *what)
{
    (void)snprintf(document->complaint, sizeof document->complaint, "line %zu: %s", line, what);
    return false;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static bool has_phase(const json_t *object, const char *phase)
{
    return strcmp(text_of(object, "ph"), phase) == 0;
}

static const json_t *member(const json_t *object, const char *key)
{
    const json_t *found = json_object_get(object, key);
    return found != NULL ? found : json_object_get(json_object_get(object, "args"), key);
}

const char *trace_text(const json_t *object, const char *key)
{
    return text_of(json_object_get(object, "args"), key);
}

int64_t trace_number(const json_t *object, const char *key)
{
    const json_t *found = member(object, key);
    return json_is_integer(found) ? (int64_t)json_integer_value(found) : -1;
}

int64_t trace_time_ns(const json_t *object, const char *key)
{
    const json_t *found = member(object, key);
    return json_is_real(found) ? llround(json_real_value(found) * 1000) : -1;
}

const json_t *trace_document_find(const trace_document *document, uint64_t engine,
                                  const char *phase, const char *key, uint64_t value)
{
    size_t i;
    const json_t *object;
    json_array_foreach(document->objects, i, object)
    {
        if (has_phase(object, phase) && trace_number(object, key) == (int64_t)value &&
            trace_number(object, "tid") / ROWS_OF_ENGINE == (int64_t)engine)
            return object;
    }
    return NULL;
}

const json_t *trace_document_slice(const trace_document *document, uint64_t engine, uint64_t op)
{
    return trace_document_find(document, engine, "X", "op", op);
}

size_t trace_document_count(const trace_document *document, const char *phase)
{
    size_t i, count = 0;
    const json_t *object;
    json_array_foreach(document->objects, i, object) count += has_phase(object, phase);
    return count;
}

const char *trace_row_name(const trace_document *document, const json_t *object)
{
    const json_t *named =
        trace_document_find(document, (uint64_t)trace_number(object, "tid") / ROWS_OF_ENGINE, "M",
                            "tid", (uint64_t)trace_number(object, "tid"));
    return trace_text(named, "name");
}

int64_t trace_end_number(const trace_document *document, const char *key)
{
    return trace_number(json_array_get(document->objects, json_array_size(document->objects) - 1),
                        key);
}

/* ---- reading ---- */

static bool read_lines(trace_document *document, FILE *file, bool is_whole)
{
    char *line = NULL;
    size_t room = 0, number = 0;
    ssize_t length;
    bool is_good = true, is_ended = false, is_last = false;
    while (is_good && (length = getline(&line, &room, file)) > 0) {
        number++;
        if (line[length - 1] == '\n')
            line[--length] = '\0';
        else if (is_whole)
            is_good = complain(document, number, "has no end");
        else
            break; /* cut in its midst */
        if (number == 1) {
            is_good = strcmp(line, "[") == 0 || complain(document, number, "is not [");
            continue;
        }
        if (is_ended || (is_last && strcmp(line, "]") != 0))
            is_good = complain(document, number, "comes after the end");
        is_ended = strcmp(line, "]") == 0;
        if (is_ended)
            continue;
        is_last = line[length - 1] != ',';
        if (!is_last)
            line[length - 1] = '\0';
        json_error_t error;
        json_t *object = json_loads(line, 0, &error);
        if (!json_is_object(object))
            is_good = complain(document, number, error.text);
        else
            (void)json_array_append(document->objects, object);
        json_decref(object);
    }
    free(line);
    if (is_good && is_whole && !is_ended)
        is_good = complain(document, number, "is the last, and there is no ]");
    return is_good;
}

static bool read_whole(trace_document *document, FILE *file)
{
    json_error_t error;
    rewind(file);
    json_t *whole = json_loadf(file, 0, &error);
    bool is_good = json_is_array(whole) || complain(document, (size_t)error.line, error.text);
    json_decref(whole);
    return is_good;
}

/* ---- what must hold ---- */

static bool check_names(trace_document *document)
{
    json_t *named = json_object();
    size_t i;
    const json_t *object;
    bool is_good = true;
    json_array_foreach(document->objects, i, object)
    {
        char row[32];
        (void)snprintf(row, sizeof row, "%lld", (long long)trace_number(object, "tid"));
        if (trace_number(object, "pid") < 1)
            is_good = complain(document, i + 2, "has no pid");
        bool is_name = strcmp(text_of(object, "name"), "thread_name") == 0;
        if (is_name && json_object_get(named, row) != NULL)
            is_good = complain(document, i + 2, "names a row again");
        if (is_name && json_object_set_new(named, row, json_true()) != 0)
            is_good = complain(document, i + 2, "cannot be kept");
        if (!has_phase(object, "M") && json_object_get(named, row) == NULL)
            is_good = complain(document, i + 2, "stands in a row without a name");
    }
    json_decref(named);
    return is_good;
}

typedef struct slice {
    int64_t row, start_ns, end_ns;
    size_t line;
} slice;

static int compare_slices(const void *left, const void *right)
{
    const slice *a = left, *b = right;
    if (a->row != b->row)
        return a->row < b->row ? -1 : 1;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->end_ns < b->end_ns ? -1 : a->end_ns > b->end_ns;
}

static slice *list_slices(const trace_document *document, size_t *count_p)
{
    size_t i, count = 0;
    const json_t *object;
    slice *slices = calloc(json_array_size(document->objects) + 1, sizeof *slices);
    json_array_foreach(document->objects, i, object)
    {
        if (slices == NULL || !has_phase(object, "X"))
            continue;
        int64_t start_ns = trace_time_ns(object, "ts");
        slices[count++] = (slice){.row = trace_number(object, "tid"),
                                  .start_ns = start_ns,
                                  .end_ns = start_ns + trace_time_ns(object, "dur"),
                                  .line = i + 2};
    }
    if (slices != NULL)
        qsort(slices, count, sizeof *slices, compare_slices);
    *count_p = count;
    return slices;
}

static bool check_slices(trace_document *document, const slice *slices, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (slices[i].end_ns < slices[i].start_ns)
            return complain(document, slices[i].line, "ends before it begins");
        if (i != 0 && slices[i].row == slices[i - 1].row &&
            slices[i].start_ns < slices[i - 1].end_ns)
            return complain(document, slices[i].line, "overlaps another slice of its row");
    }
    return true;
}

/* The last slice of the row that begins no later is the only one that may hold it. */
static bool is_in_slice(const slice *slices, size_t count, const json_t *object)
{
    slice wanted = {.row = trace_number(object, "tid"),
                    .start_ns = trace_time_ns(object, "ts"),
                    .end_ns = INT64_MAX};
    size_t first = 0, last = count; /* in between is the first that comes after it */
    while (first < last) {
        size_t middle = first + (last - first) / 2;
        if (compare_slices(&slices[middle], &wanted) <= 0)
            first = middle + 1;
        else
            last = middle;
    }
    return first != 0 && slices[first - 1].row == wanted.row &&
           slices[first - 1].end_ns >= wanted.start_ns;
}

/* Each object of the first phase is followed by one of the second, of the same id and no earlier.
 */
static bool check_pairs(trace_document *document, const char *first, const char *second)
{
    size_t i;
    const json_t *object;
    json_array_foreach(document->objects, i, object)
    {
        if (!has_phase(object, first))
            continue;
        const json_t *other = json_array_get(document->objects, i + 1);
        if (!has_phase(other, second) || trace_number(object, "id") != trace_number(other, "id") ||
            trace_time_ns(other, "ts") < trace_time_ns(object, "ts"))
            return complain(document, i + 2, "has no other half behind it");
    }
    if (trace_document_count(document, first) != trace_document_count(document, second))
        return complain(document, 0, "half a pair is alone");
    return true;
}

static bool check_arrows(trace_document *document, const slice *slices, size_t count)
{
    size_t i;
    const json_t *object;
    json_array_foreach(document->objects, i, object)
    {
        if ((has_phase(object, "s") || has_phase(object, "f")) &&
            !is_in_slice(slices, count, object))
            return complain(document, i + 2, "an arrow's end is in no slice");
    }
    return true;
}

static bool check_end(trace_document *document)
{
    size_t last = json_array_size(document->objects);
    const json_t *end = json_array_get(document->objects, last - 1);
    if (strcmp(text_of(end, "name"), "ferry_end") != 0 || trace_number(end, "records") < 0 ||
        trace_number(end, "dropped") < 0 || trace_text(end, "version")[0] == '\0')
        return complain(document, last + 1, "is not the end");
    return true;
}

const char *trace_document_read(trace_document *document, const char *path, bool is_whole)
{
    document->complaint[0] = '\0';
    document->objects = json_array();
    size_t count = 0;
    slice *slices = NULL;
    FILE *file = fopen(path, "re");
    if (file == NULL || document->objects == NULL) {
        (void)complain(document, 0, "the file can't be read");
        goto out;
    }
    if (!read_lines(document, file, is_whole) || (is_whole && !read_whole(document, file)))
        goto out;
    slices = list_slices(document, &count);
    (void)(slices != NULL && check_names(document) && check_slices(document, slices, count) &&
           check_pairs(document, "b", "e") && check_pairs(document, "s", "f") &&
           check_arrows(document, slices, count) && (!is_whole || check_end(document)));
out:
    free(slices);
    if (file != NULL)
        (void)fclose(file);
    return document->complaint[0] != '\0' ? document->complaint : NULL;
}

void trace_document_release(trace_document *document)
{
    json_decref(document->objects);
    document->objects = NULL;
}
