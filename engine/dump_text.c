/* SPDX-License-Identifier: Apache-2.0 */
/* Text of dumps: gathered into pieces for the user's write, and safe whatever labels hold. */
#include "engine/dump.h"

#include <stdarg.h>
#include <stdio.h>

#define REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */
#define PRINT_BYTES 512            /* a print is never longer: labels are put */

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

/* Much of a long dump, and several times as fast as a print. */
void fry_text_number(fry_text *text, int64_t number)
{
    char digits[24];
    char *at = digits + sizeof digits;
    uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do {
        *--at = (char)('0' + left % 10);
        left /= 10;
    } while (left != 0);
    if (number < 0)
        *--at = '-';
    fry_text_put(text, at, (size_t)(digits + sizeof digits - at));
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

/*
 * Length of the UTF-8 character at the start of a string, 0 if there is none: Unicode's table 3-7
 * (no overlong forms, no surrogates, nothing above U+10FFFF). The ending zero ends it too.
 */
static size_t character_length(const unsigned char *at)
{
    if (at[0] < 0x80)
        return 1;
    if (at[0] < 0xC2 || at[0] > 0xF4)
        return 0;
    unsigned char low = 0x80, high = 0xBF;
    if (at[0] == 0xE0)
        low = 0xA0;
    else if (at[0] == 0xED)
        high = 0x9F;
    else if (at[0] == 0xF0)
        low = 0x90;
    else if (at[0] == 0xF4)
        high = 0x8F;
    size_t length = at[0] < 0xE0 ? 2 : at[0] < 0xF0 ? 3 : 4;
    if (at[1] < low || at[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++) {
        if (at[i] < 0x80 || at[i] > 0xBF)
            return 0;
    }
    return length;
}

static bool is_control(unsigned char byte)
{
    return byte < 0x20 || byte == 0x7F;
}

void fry_text_json(fry_text *text, const char *string)
{
    const unsigned char *at = (const unsigned char *)string;
    while (*at != '\0') {
        size_t length = character_length(at);
        if (length == 0)
            fry_text_put(text, REPLACEMENT, sizeof REPLACEMENT - 1);
        else if (is_control(*at))
            fry_text_print(text, "\\u%04x", *at);
        else if (*at == '"' || *at == '\\')
            fry_text_print(text, "\\%c", *at);
        else
            fry_text_put(text, (const char *)at, length);
        at += length != 0 ? length : 1;
    }
}

/* A quoted label of graphviz: it knows backslashes, and the entities of HTML. */
void fry_text_dot(fry_text *text, const char *string)
{
    const unsigned char *at = (const unsigned char *)string;
    while (*at != '\0') {
        size_t length = character_length(at);
        if (length == 0 || is_control(*at))
            fry_text_put(text, REPLACEMENT, sizeof REPLACEMENT - 1);
        else if (*at == '"' || *at == '\\')
            fry_text_print(text, "\\%c", *at);
        else if (*at == '&')
            fry_text_print(text, "&amp;");
        else
            fry_text_put(text, (const char *)at, length);
        at += length != 0 ? length : 1;
    }
}
