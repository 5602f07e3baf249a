/* SPDX-License-Identifier: Apache-2.0 */
/* A trace file, read line by line as a tool would, and what must hold in every one of them. */
#ifndef FERRY_TESTS_TRACE_DOCUMENT_H
#define FERRY_TESTS_TRACE_DOCUMENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct trace_document {
    json_t *objects; /* one of each line */
    char complaint[512];
} trace_document;

/*
 * Reads the file and checks it: each line is one JSON object, and the whole is a JSON array too,
 * where `is_whole`; rows are named once and ahead; slices of a row don't overlap; waits come in
 * pairs and arrows in pairs of which each end lies in a slice; the last object is ferry_end. NULL,
 * or what is wrong. Release it in either case.
 */
const char *trace_document_read(trace_document *document, const char *path, bool is_whole);
void trace_document_release(trace_document *document);

/* The object of that phase ("X", "b") whose `key` is the number; at the top, or in its args. */
const json_t *trace_document_find(const trace_document *document, uint64_t engine,
                                  const char *phase, const char *key, uint64_t value);

/* The slice of an operation; NULL if there is none. */
const json_t *trace_document_slice(const trace_document *document, uint64_t engine, uint64_t op);

/* How many objects there are of a phase. */
size_t trace_document_count(const trace_document *document, const char *phase);

/* A member of an object's args; "" or -1 if there is none. */
const char *trace_text(const json_t *object, const char *key);
int64_t trace_number(const json_t *object, const char *key);
/* Likewise a time, in ns; also "ts" and "dur" of the object itself. */
int64_t trace_time_ns(const json_t *object, const char *key);

/* The name of the row that an object stands in. */
const char *trace_row_name(const trace_document *document, const json_t *object);

/* A number of the last object. */
int64_t trace_end_number(const trace_document *document, const char *key);

#endif
