/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of a trace file: turns the records of one engine, in the order of their times, into the
 * lines that <ferry/trace.h> describes. One thread.
 *
 * What is known of an operation is kept in a table by its number modulo FRY_TRACE_STORIES: until
 * its line is written, and after that for arrows from it. A newer operation of the same slot takes
 * the slot over; if the older one's line was not written yet, it never will be, and is counted.
 */
#ifndef FRY_BASE_TRACE_LINES_H
#define FRY_BASE_TRACE_LINES_H

#include "base/trace_file.h"

#include <ferry/trace.h>

#define FRY_TRACE_STORIES ((uint64_t)1 << 16)
#define FRY_TRACE_LABEL_BYTES 1024 /* bytes of a label at most; the rest is cut */

/* Rows: the thread number of a line is engine * FRY_TRACE_ENGINE_ROWS + row. */
#define FRY_TRACE_ENGINE_ROWS 4096
#define FRY_TRACE_STREAM_ROWS 1024 /* from 0 on: streams in the order of their first record */
#define FRY_TRACE_CALLS_ROW 4000   /* functions; overlapping ones: FRY_TRACE_MORE_CALLS_ROW */
#define FRY_TRACE_GRAPH_ROW 4001
#define FRY_TRACE_MORE_CALLS_ROW 4002
#define FRY_TRACE_CALLS_ROWS 64 /* rows for functions in all */

/* The name of a device by its index; never NULL. */
typedef const char *(*fry_trace_device_name_fn)(void *arg, uint16_t device);

typedef struct fry_trace_lines fry_trace_lines;

/* Makes the lines' state of an engine; NULL: no memory. */
fry_trace_lines *fry_trace_lines_create(uint64_t engine, int32_t process,
                                        fry_trace_device_name_fn name, void *arg);
void fry_trace_lines_destroy(fry_trace_lines *lines);

void fry_trace_lines_take(fry_trace_lines *lines, fry_trace_file *file,
                          const ferry_trace_record *record);

/* Says that `count` of the engine's records will never be taken. */
void fry_trace_lines_lose(fry_trace_lines *lines, uint64_t count);

/* Writes the operations that have not ended, as of now. Returns how many were never written. */
uint64_t fry_trace_lines_finish(fry_trace_lines *lines, fry_trace_file *file, int64_t now_ns);

/* Time of the latest record taken. */
int64_t fry_trace_lines_latest_ns(const fry_trace_lines *lines);

/* The first and the last lines of a file. */
void fry_trace_lines_open(fry_trace_file *file, int32_t process);
void fry_trace_lines_close(fry_trace_file *file, int32_t process, uint64_t records,
                           uint64_t dropped, uint64_t unwritten);

#endif
