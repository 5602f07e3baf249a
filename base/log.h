/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines, written where an error occurs. */
#ifndef FRY_BASE_LOG_H
#define FRY_BASE_LOG_H

#include <ferry/engine.h>

#define FRY_LOG_LINE_BYTES 512 /* with the ending zero */

typedef struct fry_log {
    ferry_log_fn fn; /* always filled in */
    void *arg;
    ferry_log_level max_level; /* lines above it are dropped before they are formatted */
} fry_log;

/*
 * Sets up the log. fn NULL: lines go to stderr as "ferry: LEVEL: line", for levels up to FERRY_LOG
 * (error, warning, info, debug in the environment; default warning). A user's fn gets lines of
 * every level.
 */
void fry_log_init(fry_log *log, ferry_log_fn fn, void *arg);

/*
 * Logs one line, cut to FRY_LOG_LINE_BYTES; newlines in it become spaces. Keeps errno. Any thread.
 */
void fry_log_line(const fry_log *log, ferry_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
