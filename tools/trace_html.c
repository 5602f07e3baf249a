/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/trace_html.h"

#include "tools/trace_page.h"
#include "tools/trace_text.h"

#include <jansson.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)3 * 4096) /* base64 has no remainder between chunks */

/* As in trace_page.html. */
#define FLAG_FAILED 1
#define FLAG_CRITICAL 2
#define FLAG_SENDER 4
#define FLAG_PENDING 8

typedef struct numbered_text {
    const char *text;
    uint32_t number; /* in the order of texts, so that the page is the same each time */
} numbered_text;

/* The texts of a model, by address. */
typedef struct text_table {
    numbered_text *texts;
    size_t count;
    size_t capacity;
    bool is_full;
} text_table;

typedef struct page {
    const trace_model *model;
    text_table table;
    const bool *is_critical; /* for each operation */
    FILE *to;
} page;

/* ---- texts ---- */

static void take_text(const void *node, VISIT visit, void *arg)
{
    text_table *table = arg;
    if (visit != postorder && visit != leaf)
        return;
    if (table->count == table->capacity) {
        size_t capacity = table->capacity ? table->capacity * 2 : 64;
        numbered_text *texts = reallocarray(table->texts, capacity, sizeof(*texts));
        if (!texts) {
            table->is_full = true;
            return;
        }
        table->texts = texts;
        table->capacity = capacity;
    }
    table->texts[table->count] =
        (numbered_text){.text = *(char *const *)node, .number = (uint32_t)table->count};
    table->count++;
}

static int compare_addresses(const void *left, const void *right)
{
    const char *a = ((const numbered_text *)left)->text;
    const char *b = ((const numbered_text *)right)->text;
    return (a > b) - (a < b);
}

static void list_texts(const trace_model *model, text_table *table)
{
    twalk_r(model->texts, take_text, table);
}

static void sort_texts(text_table *table)
{
    qsort(table->texts, table->count, sizeof(*table->texts), compare_addresses);
}

static uint32_t index_of(const text_table *table, const char *text)
{
    numbered_text wanted = {.text = text};
    const numbered_text *found =
        bsearch(&wanted, table->texts, table->count, sizeof(wanted), compare_addresses);
    return found->number;
}

/* ---- columns ---- */

static void write_base64(FILE *to, const unsigned char *bytes, size_t count)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < count; i += 3) {
        size_t left = count - i;
        uint32_t three = (uint32_t)bytes[i] << 16 | (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                         (left > 2 ? bytes[i + 2] : 0U);
        const char four[4] = {letters[three >> 18], letters[three >> 12 & 63],
                              left > 1 ? letters[three >> 6 & 63] : '=',
                              left > 2 ? letters[three & 63] : '='};
        fwrite(four, 1, sizeof(four), to);
    }
}

/* Writes a value of an operation to `out`, and returns its size. */
typedef size_t (*value_fn)(const page *page, uint32_t op, unsigned char *out);

static size_t put(unsigned char *out, const void *value, size_t size)
{
    memcpy(out, value, size); /* ferry runs on little-endian machines, and so do browsers */
    return size;
}

static size_t put_ns(unsigned char *out, int64_t ns)
{
    float value = (float)ns;
    return put(out, &value, sizeof(value));
}

static size_t put_double(unsigned char *out, double value)
{
    return put(out, &value, sizeof(value));
}

static size_t put_text(const page *page, const char *text, unsigned char *out)
{
    uint32_t index = index_of(&page->table, text);
    return put(out, &index, sizeof(index));
}

static size_t value_begin(const page *page, uint32_t op, unsigned char *out)
{
    return put_double(out, (double)(page->model->ops[op].begin_ns - page->model->begin_ns));
}

static size_t value_run(const page *page, uint32_t op, unsigned char *out)
{
    return put_ns(out, page->model->ops[op].end_ns - page->model->ops[op].begin_ns);
}

static size_t value_wait(const page *page, uint32_t op, unsigned char *out)
{
    const trace_op *of = &page->model->ops[op];
    return put_ns(out, trace_op_ready_ns(of) - trace_op_submitted_ns(of));
}

static size_t value_queue(const page *page, uint32_t op, unsigned char *out)
{
    const trace_op *of = &page->model->ops[op];
    return put_ns(out, of->begin_ns - trace_op_ready_ns(of));
}

static size_t value_bytes(const page *page, uint32_t op, unsigned char *out)
{
    return put_double(out, (double)page->model->ops[op].size_bytes);
}

static size_t value_id(const page *page, uint32_t op, unsigned char *out)
{
    return put(out, &page->model->ops[op].id, sizeof(uint64_t));
}

static size_t value_cause(const page *page, uint32_t op, unsigned char *out)
{
    return put(out, &page->model->ops[op].cause, sizeof(uint32_t));
}

static size_t value_peer(const page *page, uint32_t op, unsigned char *out)
{
    return put(out, &page->model->ops[op].peer, sizeof(uint32_t));
}

static size_t value_label(const page *page, uint32_t op, unsigned char *out)
{
    return put_text(page, page->model->ops[op].label, out);
}

static size_t value_kind(const page *page, uint32_t op, unsigned char *out)
{
    return put_text(page, page->model->ops[op].kind, out);
}

static size_t value_status(const page *page, uint32_t op, unsigned char *out)
{
    return put_text(page, page->model->ops[op].status, out);
}

static size_t value_flags(const page *page, uint32_t op, unsigned char *out)
{
    const trace_op *of = &page->model->ops[op];
    out[0] = (unsigned char)((trace_op_failed(page->model, of) ? FLAG_FAILED : 0) |
                             (page->is_critical[op] ? FLAG_CRITICAL : 0) |
                             (of->is_sender ? FLAG_SENDER : 0) |
                             (of->status == page->model->status_pending ? FLAG_PENDING : 0));
    return 1;
}

static const struct {
    const char *name;
    value_fn value;
} columns[] = {
    {"begin", value_begin}, {"run", value_run},   {"wait", value_wait},     {"queue", value_queue},
    {"bytes", value_bytes}, {"id", value_id},     {"cause", value_cause},   {"peer", value_peer},
    {"label", value_label}, {"kind", value_kind}, {"status", value_status}, {"flags", value_flags},
};

static void write_column(const page *page, const char *name, value_fn value)
{
    unsigned char chunk[CHUNK_BYTES + sizeof(uint64_t)];
    size_t filled = 0;
    fprintf(page->to, "<script type=\"application/octet-stream\" id=\"c-%s\">", name);
    for (uint32_t i = 0; i < page->model->op_count; i++) {
        filled += value(page, i, chunk + filled);
        if (filled < CHUNK_BYTES)
            continue;
        write_base64(page->to, chunk, CHUNK_BYTES);
        memmove(chunk, chunk + CHUNK_BYTES, filled - CHUNK_BYTES);
        filled -= CHUNK_BYTES;
    }
    write_base64(page->to, chunk, filled);
    fputs("</script>\n", page->to);
}

/* ---- the rest ---- */

static json_t *pack_rows(const trace_model *model)
{
    json_t *array = json_array();
    for (size_t i = 0; i < model->row_count; i++) {
        const trace_row *row = &model->rows[i];
        char place[96];
        snprintf(place, sizeof(place), "engine %lld of process %lld",
                 (long long)(row->thread / TRACE_ROWS_OF_ENGINE), (long long)row->process);
        if (model->file_count > 1)
            snprintf(place + strlen(place), sizeof(place) - strlen(place), ", file %u",
                     row->file + 1);
        json_t *object =
            json_pack("{s:s, s:s, s:I, s:I}", "name", row->name, "place", place, "first",
                      (json_int_t)row->first, "count", (json_int_t)row->count);
        if (json_array_append_new(array, object) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

static json_t *pack_texts(const text_table *table)
{
    json_t *array = json_array();
    for (size_t i = 0; i < table->count; i++) {
        if (json_array_append_new(array, json_string(table->texts[i].text)) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

static void write_headline(const trace_model *model, const trace_summary *summary, char *out,
                           size_t size)
{
    char span[TRACE_FIGURE_BYTES];
    char moved[TRACE_FIGURE_BYTES];
    trace_text_time(span, (double)(model->end_ns - model->begin_ns));
    trace_text_bytes(moved, (double)summary->size_bytes);
    int length =
        snprintf(out, size, "%zu operations in %s, %s moved", model->op_count, span, moved);
    if (model->joined > 0)
        length += snprintf(out + length, size - (size_t)length, ", %zu messages", model->joined);
    if (summary->failed_count > 0)
        length +=
            snprintf(out + length, size - (size_t)length, ", %zu failed", summary->failed_count);
    if (model->is_cut || model->dropped > 0 || model->unwritten > 0)
        snprintf(out + length, size - (size_t)length, "; the trace is not whole");
}

/* What a label says must not end the script that it stands in. */
static int write_json(const char *text, size_t size, void *to)
{
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '<')
            fputs("\\u003c", to);
        else
            fputc(text[i], to);
    }
    return 0;
}

static trace_result write_head(const page *page, const trace_summary *summary)
{
    const trace_model *model = page->model;
    char headline[256];
    write_headline(model, summary, headline, sizeof(headline));
    json_t *object = json_pack("{s:s, s:I, s:I, s:o, s:o}", "headline", headline, "span_ns",
                               (json_int_t)(model->end_ns - model->begin_ns), "engines",
                               (json_int_t)model->engine_count, "rows", pack_rows(model), "texts",
                               pack_texts(&page->table));
    if (!object)
        return TRACE_NO_MEMORY;
    fputs("<script type=\"application/json\" id=\"head\">", page->to);
    int error = json_dump_callback(object, write_json, page->to, JSON_COMPACT);
    fputs("</script>\n", page->to);
    json_decref(object);
    return error ? TRACE_NO_MEMORY : TRACE_OK;
}

trace_result trace_html_write(const trace_model *model, const trace_summary *summary, FILE *to)
{
    const char *data = strstr(trace_page, TRACE_PAGE_DATA);
    bool *is_critical = calloc(model->op_count, sizeof(bool));
    page page = {.model = model, .is_critical = is_critical, .to = to};
    trace_result result = TRACE_NO_MEMORY;
    list_texts(model, &page.table);
    if (!is_critical || page.table.is_full)
        goto out;
    for (size_t i = 0; i < summary->path.count; i++)
        is_critical[summary->path.steps[i].op] = true;
    fwrite(trace_page, 1, (size_t)(data - trace_page), to);
    result = write_head(&page, summary); /* the texts in their order */
    sort_texts(&page.table);
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]) && result == TRACE_OK; i++)
        write_column(&page, columns[i].name, columns[i].value);
    fputs(data + strlen(TRACE_PAGE_DATA), to);
out:
    free(page.table.texts);
    free(is_critical);
    return result;
}
