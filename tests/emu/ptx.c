/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what a module has: .version, .target, and each .entry with the sizes of its parameters,
 *
 *     .visible .entry name(.param .u64 first, .param .align 8 .b8 second[24])
 */
#include "tests/emu/module.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define PARAM_BYTES_MOST 32764 /* of all parameters of a kernel, since CUDA 12.1 */

typedef struct reader {
    const char *at;
    const char *token; /* the current one; "" at the end of the text */
    size_t length;
} reader;

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.';
}

static const char *skip_blanks(const char *at)
{
    for (;;) {
        if (isspace((unsigned char)*at)) {
            at++;
        } else if (strncmp(at, "//", 2) == 0) {
            at += strcspn(at, "\n");
        } else if (strncmp(at, "/*", 2) == 0) {
            const char *end = strstr(at + 2, "*/");
            at = end == NULL ? at + strlen(at) : end + 2;
        } else {
            return at;
        }
    }
}

/* A word (directives keep their dot), a string, or one other character. */
static void next(reader *reader)
{
    const char *begin = skip_blanks(reader->at);
    const char *end = begin;
    while (is_word(*end) && (*end != '.' || end == begin || isdigit((unsigned char)end[-1])))
        end++;
    if (end == begin && *begin == '"') {
        const char *quote = strchr(begin + 1, '"');
        end = quote == NULL ? begin + strlen(begin) : quote + 1;
    } else if (end == begin && *begin != '\0') {
        end++;
    }
    reader->token = begin;
    reader->length = (size_t)(end - begin);
    reader->at = end;
}

static bool is(const reader *reader, const char *text)
{
    return reader->length == strlen(text) && memcmp(reader->token, text, reader->length) == 0;
}

/* The bytes of .u64, .b8 and so on; 0: it is no type. */
static size_t type_bytes(const reader *reader)
{
    static const struct {
        const char *name;
        size_t size_bytes;
    } types[] = {
        {".b8", 1},  {".u8", 1},  {".s8", 1},  {".b16", 2},   {".u16", 2},   {".s16", 2},
        {".f16", 2}, {".b32", 4}, {".u32", 4}, {".s32", 4},   {".f32", 4},   {".b64", 8},
        {".u64", 8}, {".s64", 8}, {".f64", 8}, {".b128", 16}, {".f16x2", 4}, {".pred", 1},
    };
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (is(reader, types[i].name))
            return types[i].size_bytes;
    }
    return 0;
}

/* Reads a number; the reader stands before it. 0: there is none, or it is too great. */
static size_t read_number(reader *reader)
{
    next(reader);
    if (reader->length == 0 || !isdigit((unsigned char)*reader->token))
        return 0;
    unsigned long value = strtoul(reader->token, NULL, 0);
    return value <= PARAM_BYTES_MOST ? value : 0;
}

/* Reads one parameter; the reader stands on .param, and then on what ends it. */
static bool read_param(reader *reader, emu_ptx_entry *entry, size_t *offset)
{
    size_t size_bytes = 0;
    size_t align = 0;
    size_t count = 1;
    for (next(reader); !is(reader, ",") && !is(reader, ")"); next(reader)) {
        if (reader->length == 0)
            return false;
        if (is(reader, ".ptr")) { /* what it points to has an alignment of its own */
            while (*skip_blanks(reader->at) == '.') {
                next(reader);
                if (is(reader, ".align"))
                    (void)read_number(reader);
            }
        } else if (is(reader, ".align")) {
            align = read_number(reader);
        } else if (is(reader, "[")) {
            count = read_number(reader);
        } else if (type_bytes(reader) > 0) {
            size_bytes = type_bytes(reader);
        }
    }
    if (align == 0)
        align = size_bytes;
    if (size_bytes == 0 || count == 0 || (align & (align - 1)) != 0 ||
        entry->param_count == EMU_PARAMS_MOST)
        return false;
    *offset = (*offset + align - 1) / align * align;
    entry->param_offsets[entry->param_count] = *offset;
    entry->param_bytes[entry->param_count++] = size_bytes * count;
    *offset += size_bytes * count;
    return *offset <= PARAM_BYTES_MOST;
}

/* Reads a name and parameters; the reader stands on .entry. */
static bool read_entry(reader *reader, emu_ptx *ptx)
{
    next(reader);
    if (reader->length == 0 || !is_word(*reader->token))
        return false;
    emu_ptx_entry *entries = realloc(ptx->entries, (ptx->entry_count + 1) * sizeof(*entries));
    if (entries == NULL)
        return false;
    ptx->entries = entries;
    emu_ptx_entry *entry = &entries[ptx->entry_count++];
    *entry = (emu_ptx_entry){.name = strndup(reader->token, reader->length)};
    if (entry->name == NULL)
        return false;

    size_t offset = 0;
    next(reader);
    if (!is(reader, "("))
        return true; /* without parameters the brackets may be left out */
    for (next(reader); !is(reader, ")");) {
        if (!is(reader, ".param") || !read_param(reader, entry, &offset))
            return false;
        if (is(reader, ","))
            next(reader);
    }
    return true;
}

static bool read_target(reader *reader, emu_ptx *ptx)
{
    next(reader);
    if (reader->length < 4 || strncmp(reader->token, "sm_", 3) != 0)
        return false;
    ptx->target = (unsigned)strtoul(reader->token + 3, NULL, 10);
    return true;
}

static bool read_all(reader *reader, emu_ptx *ptx)
{
    size_t depth = 0;
    for (next(reader); reader->length > 0; next(reader)) {
        if (is(reader, ".target") && depth == 0) {
            if (!read_target(reader, ptx))
                return false;
        } else if (is(reader, ".entry") && depth == 0) {
            if (!read_entry(reader, ptx))
                return false;
            if (is(reader, "{"))
                depth++;
        } else if (is(reader, "{")) {
            depth++;
        } else if (is(reader, "}")) {
            if (depth-- == 0)
                return false;
        }
    }
    return depth == 0 && ptx->target != 0;
}

emu_ptx_status emu_ptx_read(const char *text, emu_ptx *ptx)
{
    *ptx = (emu_ptx){0};
    reader reader = {.at = text};
    next(&reader);
    if (!is(&reader, ".version"))
        return EMU_PTX_NOT;
    next(&reader);
    char *rest;
    unsigned long major = strtoul(reader.token, &rest, 10);
    if (rest == reader.token || *rest != '.' || !isdigit((unsigned char)rest[1]))
        return EMU_PTX_BAD;
    ptx->version = (unsigned)(major * 10 + strtoul(rest + 1, NULL, 10));
    return read_all(&reader, ptx) ? EMU_PTX_OK : EMU_PTX_BAD;
}

void emu_ptx_free(emu_ptx *ptx)
{
    for (size_t i = 0; i < ptx->entry_count; i++)
        free(ptx->entries[i].name);
    free(ptx->entries);
    *ptx = (emu_ptx){0};
}
