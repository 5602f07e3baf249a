/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text of `ferry trace`, `ferry stats` and `ferry top`: what a file or another process says made
 * harmless, and figures with their units.
 */
#ifndef TRACE_TEXT_H
#define TRACE_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TRACE_TEXT_MAX_BYTES 256 /* what is longer is cut */
#define TRACE_FIGURE_BYTES 32

/*
 * Copies UTF-8 text to `out`, with a replacement character for each one that steers a terminal or
 * that XML does not allow: control characters, those that turn the direction of writing, and the
 * two that are none.
 *  text  valid UTF-8 (jansson gives no other)
 */
void trace_text_clean(const char *text, size_t length_bytes, char out[TRACE_TEXT_MAX_BYTES + 1]);

/* How many characters of UTF-8 text there are. */
size_t trace_text_length(const char *text);

/* Where the first `count` characters end. */
const char *trace_text_skip(const char *text, size_t count);

/* Writes bytes of clean text as XML content or attribute. */
void trace_text_write_xml(FILE *to, const char *text, size_t length_bytes);

/* "12.3 us" (with the Greek letter), "4.56 ms", "1.2 s". */
void trace_text_time(char out[TRACE_FIGURE_BYTES], double time_ns);

/* "4.0 KiB". */
void trace_text_bytes(char out[TRACE_FIGURE_BYTES], double size_bytes);

#endif
