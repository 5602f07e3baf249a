/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/trace_text.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd"
#define ELLIPSIS "\xe2\x80\xa6"

/* Bytes of a character that begins with `lead`. */
static size_t character_bytes(unsigned char lead)
{
    if (lead < 0x80)
        return 1;
    if (lead < 0xe0)
        return 2;
    return lead < 0xf0 ? 3 : 4;
}

static bool is_harmless(const unsigned char *at, size_t length_bytes)
{
    if (length_bytes == 1)
        return at[0] >= 0x20 && at[0] != 0x7f;
    if (length_bytes == 2)
        return at[0] != 0xc2 || at[1] >= 0xa0; /* U+0080 to U+009F */
    if (length_bytes == 3 && at[0] == 0xe2 && at[1] == 0x80)
        return at[2] < 0x8e || (at[2] > 0x8f && at[2] < 0xa8) || at[2] > 0xae; /* U+200E to 202E */
    if (length_bytes == 3 && at[0] == 0xe2 && at[1] == 0x81)
        return at[2] < 0xa6 || at[2] > 0xa9; /* U+2066 to U+2069 */
    if (length_bytes == 3 && at[0] == 0xef && at[1] == 0xbf)
        return at[2] < 0xbe; /* U+FFFE and U+FFFF */
    return true;
}

void trace_text_clean(const char *text, size_t length_bytes, char out[TRACE_TEXT_MAX_BYTES + 1])
{
    size_t used = 0;
    for (size_t at = 0; at < length_bytes;) {
        size_t bytes = character_bytes((unsigned char)text[at]);
        bool is_whole = bytes <= length_bytes - at;
        bool is_kept = is_whole && is_harmless((const unsigned char *)text + at, bytes);
        size_t wanted = is_kept ? bytes : strlen(REPLACEMENT);
        if (used + wanted + strlen(ELLIPSIS) > TRACE_TEXT_MAX_BYTES) {
            memcpy(out + used, ELLIPSIS, strlen(ELLIPSIS));
            used += strlen(ELLIPSIS);
            break;
        }
        memcpy(out + used, is_kept ? text + at : REPLACEMENT, wanted);
        used += wanted;
        at += is_whole ? bytes : length_bytes - at;
    }
    out[used] = '\0';
}

size_t trace_text_length(const char *text)
{
    size_t count = 0;
    for (; *text; text++)
        count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

const char *trace_text_skip(const char *text, size_t count)
{
    while (*text && count > 0) {
        size_t bytes = character_bytes((unsigned char)*text);
        while (bytes > 0 && *text) {
            text++;
            bytes--;
        }
        count--;
    }
    return text;
}

void trace_text_write_xml(FILE *to, const char *text, size_t length_bytes)
{
    for (size_t i = 0; i < length_bytes; i++) {
        switch (text[i]) {
        case '&':
            fputs("&amp;", to);
            break;
        case '<':
            fputs("&lt;", to);
            break;
        case '>':
            fputs("&gt;", to);
            break;
        case '"':
            fputs("&quot;", to);
            break;
        case '\'':
            fputs("&#39;", to);
            break;
        default:
            (void)putc_unlocked(text[i], to);
        }
    }
}

/* Prints three digits or more, as "1.23", "12.3", "123". */
static void print_figure(char out[TRACE_FIGURE_BYTES], double value, const char *unit)
{
    int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    (void)snprintf(out, TRACE_FIGURE_BYTES, "%.*f %s", decimals, value, unit);
}

void trace_text_time(char out[TRACE_FIGURE_BYTES], double time_ns)
{
    if (time_ns < 999.5)
        (void)snprintf(out, TRACE_FIGURE_BYTES, "%.0f ns", time_ns);
    else if (time_ns < 999.5e3)
        print_figure(out, time_ns / 1e3, "\xc2\xb5s");
    else if (time_ns < 999.5e6)
        print_figure(out, time_ns / 1e6, "ms");
    else
        print_figure(out, time_ns / 1e9, "s");
}

void trace_text_bytes(char out[TRACE_FIGURE_BYTES], double size_bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    while (size_bytes >= 1000 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        size_bytes /= 1024;
        unit++;
    }
    if (unit == 0)
        (void)snprintf(out, TRACE_FIGURE_BYTES, "%.0f bytes", size_bytes);
    else
        print_figure(out, size_bytes, units[unit]);
}
