/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_text.h"

#include <stdbool.h>

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* "00" to "99". */
static const char digit_pairs[] = "00010203040506070809101112131415161718192021222324"
                                  "25262728293031323334353637383940414243444546474849"
                                  "50515253545556575859606162636465666768697071727374"
                                  "75767778798081828384858687888990919293949596979899";

char *fry_json_unsigned(char *at, uint64_t value)
{
    char digits[20]; /* of the largest number */
    char *first = digits + sizeof digits;
    while (value >= 100) {
        first -= 2;
        memcpy(first, &digit_pairs[value % 100 * 2], 2);
        value /= 100;
    }
    if (value >= 10) {
        first -= 2;
        memcpy(first, &digit_pairs[value * 2], 2);
    } else {
        *--first = (char)('0' + value);
    }
    size_t length = (size_t)(digits + sizeof digits - first);
    memcpy(at, first, length);
    return at + length;
}

/* The value without its sign. INT64_MIN has no positive int64_t. */
static uint64_t magnitude(int64_t value)
{
    return value < 0 ? -(uint64_t)value : (uint64_t)value;
}

char *fry_json_signed(char *at, int64_t value)
{
    if (value < 0)
        *at++ = '-';
    return fry_json_unsigned(at, magnitude(value));
}

char *fry_json_microseconds(char *at, int64_t value_ns)
{
    if (value_ns < 0)
        *at++ = '-';
    uint64_t whole_us = magnitude(value_ns) / 1000;
    uint32_t rest_ns = (uint32_t)(magnitude(value_ns) % 1000);
    at = fry_json_unsigned(at, whole_us);
    *at++ = '.';
    *at++ = (char)('0' + rest_ns / 100);
    memcpy(at, &digit_pairs[rest_ns % 100 * 2], 2);
    return at + 2;
}

static bool is_continuation(unsigned char byte)
{
    return (byte & 0xc0) == 0x80;
}

/*
 * Length of the character at the start of `text`, of which `room` bytes are given; 0: not a
 * character by Table 3-7 of the Unicode standard (no overlong forms, surrogates, or above
 * U+10FFFF). *is_cut_p: it may be one, but room ends first. Reads no byte behind an ending zero.
 */
static size_t character_bytes(const unsigned char *text, size_t room, bool *is_cut_p)
{
    *is_cut_p = false;
    unsigned char lead = text[0];
    if (lead < 0x80)
        return 1;
    if (lead < 0xc2 || lead > 0xf4)
        return 0;
    size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    unsigned char second_min = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    unsigned char second_max = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    for (size_t i = 1; i < length; i++) {
        if (i == room) {
            *is_cut_p = true;
            return 0;
        }
        if (i == 1 ? text[1] < second_min || text[1] > second_max : !is_continuation(text[i]))
            return 0;
    }
    return length;
}

static char *escape(char *at, unsigned char byte)
{
    static const char hex[] = "0123456789abcdef";
    *at++ = '\\';
    if (byte == '"' || byte == '\\') {
        *at++ = (char)byte;
        return at;
    }
    at = fry_json_literal(at, "u00");
    *at++ = hex[byte >> 4];
    *at++ = hex[byte & 15];
    return at;
}

char *fry_json_string(char *at, const char *text, size_t text_bytes)
{
    const unsigned char *from = (const unsigned char *)text;
    *at++ = '"';
    for (size_t i = 0; i < text_bytes && from[i] != '\0';) {
        bool is_cut;
        size_t length = character_bytes(from + i, text_bytes - i, &is_cut);
        if (is_cut)
            break;
        if (length == 0)
            at = fry_json_literal(at, REPLACEMENT);
        else if (length == 1 && (from[i] < 0x20 || from[i] == '"' || from[i] == '\\'))
            at = escape(at, from[i]);
        else
            at = (char *)memcpy(at, from + i, length) + length;
        i += length == 0 ? 1 : length;
    }
    *at++ = '"';
    return at;
}
