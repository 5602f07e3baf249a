/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text of dumps: gathered into pieces for the user's write function, and safe whatever labels hold.
 */
#include "engine/observe/dump_text.h"

#include "base/json_text.h"
#include "engine/graph/node.h"

#include <stdarg.h>
#include <stdio.h>

#define PRINT_BYTES 512 /* no print is longer: labels don't go through it */
#define LABEL_TEXT_BYTES FRY_JSON_STRING_BYTES(FRY_LABEL_BYTES)

_Static_assert(LABEL_TEXT_BYTES <= sizeof(((fry_text *)0)->bytes), "a label is one piece");

void fry_text_flush(fry_text *text)
{
    if (text->used != 0)
        text->write(text->arg, text->bytes, text->used);
    text->used = 0;
}

void fry_text_put(fry_text *text, const char *bytes, size_t size_bytes)
{
    if (size_bytes > sizeof text->bytes - text->used)
        fry_text_flush(text);
    memcpy(text->bytes + text->used, bytes, size_bytes);
    text->used += size_bytes;
}

void fry_text_string(fry_text *text, const char *string)
{
    fry_text_put(text, string, strlen(string));
}

/* Makes room for some bytes in one piece; the caller moves text->used. */
static char *make_room(fry_text *text, size_t size_bytes)
{
    if (size_bytes > sizeof text->bytes - text->used)
        fry_text_flush(text);
    return text->bytes + text->used;
}

/* Numbers are much of a long dump, and this is several times as fast as a print. */
void fry_text_number(fry_text *text, int64_t number)
{
    char *at = make_room(text, FRY_JSON_NUMBER_BYTES);
    text->used += (size_t)(fry_json_signed(at, number) - at);
}

void fry_text_print(fry_text *text, const char *format, ...)
{
    char bytes[PRINT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(bytes, sizeof bytes, format, arguments);
    va_end(arguments);
    if (length > 0)
        fry_text_put(text, bytes, (size_t)length);
}

void fry_text_json(fry_text *text, const char *label)
{
    char *at = make_room(text, LABEL_TEXT_BYTES);
    text->used += (size_t)(fry_json_string(at, label, FRY_LABEL_BYTES - 1) - at);
}

/*
 * Writes a quoted string for graphviz, without its quotes. Graphviz reads backslashes as JSON does,
 * except for control characters, which its SVG could not hold, and knows HTML's entities.
 */
void fry_text_dot(fry_text *text, const char *label)
{
    char json[LABEL_TEXT_BYTES];
    const char *end = fry_json_string(json, label, FRY_LABEL_BYTES - 1) - 1;
    for (const char *at = json + 1; at < end; at++) {
        if (at[0] == '\\' && at[1] == 'u') {
            fry_text_string(text, "\xef\xbf\xbd"); /* U+FFFD */
            at += 5;
        } else if (at[0] == '\\') {
            fry_text_put(text, at++, 2);
        } else if (at[0] == '&') {
            fry_text_string(text, "&amp;");
        } else {
            fry_text_put(text, at, 1);
        }
    }
}
