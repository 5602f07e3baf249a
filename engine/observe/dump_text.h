/* SPDX-License-Identifier: Apache-2.0 */
/* Text for the user, written in pieces. */
#ifndef FRY_ENGINE_OBSERVE_DUMP_TEXT_H
#define FRY_ENGINE_OBSERVE_DUMP_TEXT_H

#include <ferry/dump.h>

#include <stdint.h>

/* A buffer that passes text to the user's function; no lock is held. */
typedef struct fry_text {
    ferry_write_fn write;
    void *arg;
    size_t used;
    char bytes[4096];
} fry_text;

void fry_text_flush(fry_text *text);
void fry_text_put(fry_text *text, const char *bytes, size_t size_bytes);
void fry_text_string(fry_text *text, const char *string);
void fry_text_number(fry_text *text, int64_t number);
void fry_text_print(fry_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Writes a label, cut at FRY_LABEL_BYTES; bytes that are not UTF-8 show as U+FFFD. For JSON with
 * its quotes, for graphviz without.
 */
void fry_text_json(fry_text *text, const char *label);
void fry_text_dot(fry_text *text, const char *label);

#endif
