/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces of JSON text. Each function writes at `at` and returns where it stopped, without an ending
 * zero. The caller makes room, by the limits here.
 */
#ifndef FRY_BASE_JSON_TEXT_H
#define FRY_BASE_JSON_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FRY_JSON_NUMBER_BYTES 24 /* the longest number below */

/* A string literal, unchanged. */
#define fry_json_literal(at, literal)                                                              \
    ((char *)memcpy((at), (literal), sizeof(literal) - 1) + (sizeof(literal) - 1))

char *fry_json_unsigned(char *at, uint64_t value);
char *fry_json_signed(char *at, int64_t value);

/* Nanoseconds as microseconds with three decimals: 12.345. */
char *fry_json_microseconds(char *at, int64_t value_ns);

/*
 * A string with its quotes, escaped, and made valid UTF-8: each byte that is not part of a
 * character becomes U+FFFD. Reads at most `text_bytes` of `text`, up to its ending zero; a
 * character that is cut there is left out. Takes up to FRY_JSON_STRING_BYTES(text_bytes).
 */
#define FRY_JSON_STRING_BYTES(text_bytes) ((text_bytes)*6 + 2)
char *fry_json_string(char *at, const char *text, size_t text_bytes);

#endif
