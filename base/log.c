/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include "base/environment.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const level_names[] = {
    [FERRY_LOG_ERROR] = "error",
    [FERRY_LOG_WARNING] = "warning",
    [FERRY_LOG_INFO] = "info",
    [FERRY_LOG_DEBUG] = "debug",
};
#define LEVEL_COUNT (sizeof level_names / sizeof level_names[0])

static const char *level_name(ferry_log_level level)
{
    return (size_t)level < LEVEL_COUNT ? level_names[level] : "?";
}

static void write_to_stderr(void *arg, ferry_log_level level, const char *line)
{
    (void)arg;
    char whole[FRY_LOG_LINE_BYTES + 32];
    int length = snprintf(whole, sizeof whole, "ferry: %s: %s\n", level_name(level), line);
    /* One write, so that threads' lines don't mix. A line that can't be written is lost. */
    ssize_t written = write(STDERR_FILENO, whole, (size_t)length);
    (void)written;
}

static ferry_log_level level_from_environment(void)
{
    const char *wanted = fry_environment(FRY_ENV_FERRY_LOG);
    for (size_t i = 0; wanted != NULL && i < LEVEL_COUNT; i++) {
        if (strcmp(wanted, level_names[i]) == 0)
            return (ferry_log_level)i;
    }
    return FERRY_LOG_WARNING;
}

void fry_log_init(fry_log *log, ferry_log_fn fn, void *arg)
{
    log->fn = fn != NULL ? fn : write_to_stderr;
    log->arg = arg;
    log->max_level = fn != NULL ? FERRY_LOG_DEBUG : level_from_environment();
}

void fry_log_line(const fry_log *log, ferry_log_level level, const char *format, ...)
{
    if (level > log->max_level)
        return;
    int saved_errno = errno; /* the caller still reads errno */
    char line[FRY_LOG_LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length < 0)
        line[0] = '\0';
    /* Labels are the user's. A newline in one must not forge a line. */
    for (char *c = line; *c != '\0'; c++) {
        if (*c == '\n' || *c == '\r')
            *c = ' ';
    }
    log->fn(log->arg, level, line);
    errno = saved_errno;
}
