/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct heard {
    int lines;
    ferry_log_level level;
    char line[2 * FRY_LOG_LINE_BYTES];
} heard;

static void hear(void *arg, ferry_log_level level, const char *line)
{
    heard *what = arg;
    what->lines++;
    what->level = level;
    (void)strncpy(what->line, line, sizeof what->line - 1);
    errno = EIO; /* a sink may do anything to errno */
}

Test(base_log, the_users_function_hears_every_level)
{
    cr_assert_eq(setenv("FERRY_LOG", "error", 1), 0); /* says nothing about the user's function */
    heard what = {0};
    fry_log log;
    fry_log_init(&log, hear, &what);
    for (int level = FERRY_LOG_ERROR; level <= FERRY_LOG_DEBUG; level++) {
        fry_log_line(&log, (ferry_log_level)level, "number %d of %s", level, "four");
        cr_assert_eq(what.lines, level + 1);
        cr_assert_eq((int)what.level, level);
    }
    cr_assert_str_eq(what.line, "number 3 of four");
}

Test(base_log, keeps_errno_and_can_print_it)
{
    heard what = {0};
    fry_log log;
    fry_log_init(&log, hear, &what);
    errno = ENOSPC;
    fry_log_line(&log, FERRY_LOG_ERROR, "failed: %d", errno);
    cr_assert_eq(errno, ENOSPC);
}

Test(base_log, a_line_is_one_line_and_cut)
{
    heard what = {0};
    fry_log log;
    fry_log_init(&log, hear, &what);
    fry_log_line(&log, FERRY_LOG_INFO, "a label: %s", "x\nferry: error: forged\r\n");
    cr_assert_str_eq(what.line, "a label: x ferry: error: forged  ");

    char text[FRY_LOG_LINE_BYTES * 2];
    memset(text, 'y', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    fry_log_line(&log, FERRY_LOG_INFO, "%s", text);
    cr_assert_eq(strlen(what.line), FRY_LOG_LINE_BYTES - 1);
}

/* What the default log writes to stderr when it is handed one line of each level. */
static void written_to_stderr(const char *environment, char *text, size_t size_bytes)
{
    if (environment != NULL)
        cr_assert_eq(setenv("FERRY_LOG", environment, 1), 0);
    else
        cr_assert_eq(unsetenv("FERRY_LOG"), 0);
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    int saved = dup(STDERR_FILENO);
    cr_assert_geq(dup2(ends[1], STDERR_FILENO), 0);
    fry_log log;
    fry_log_init(&log, NULL, NULL);
    for (int level = FERRY_LOG_ERROR; level <= FERRY_LOG_DEBUG; level++)
        fry_log_line(&log, (ferry_log_level)level, "line %d", level);
    cr_assert_geq(dup2(saved, STDERR_FILENO), 0);
    cr_assert_eq(close(saved), 0);
    cr_assert_eq(close(ends[1]), 0);
    size_t length = 0;
    ssize_t got = 0;
    while ((got = read(ends[0], text + length, size_bytes - 1 - length)) > 0)
        length += (size_t)got;
    text[length] = '\0';
    cr_assert_eq(close(ends[0]), 0);
}

#define ERROR_LINE "ferry: error: line 0\n"
#define WARNING_LINE "ferry: warning: line 1\n"
#define INFO_LINE "ferry: info: line 2\n"
#define DEBUG_LINE "ferry: debug: line 3\n"

Test(base_log, stderr_shows_what_the_environment_asks_for)
{
    static const struct {
        const char *environment;
        const char *expected;
    } cases[] = {
        {NULL, ERROR_LINE WARNING_LINE},
        {"error", ERROR_LINE},
        {"warning", ERROR_LINE WARNING_LINE},
        {"info", ERROR_LINE WARNING_LINE INFO_LINE},
        {"debug", ERROR_LINE WARNING_LINE INFO_LINE DEBUG_LINE},
        {"nonsense", ERROR_LINE WARNING_LINE},
        {"", ERROR_LINE WARNING_LINE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1024];
        written_to_stderr(cases[i].environment, text, sizeof text);
        cr_assert_str_eq(text, cases[i].expected);
    }
}

Test(base_log, a_longest_line_reaches_stderr_with_its_newline)
{
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    int saved = dup(STDERR_FILENO);
    cr_assert_geq(dup2(ends[1], STDERR_FILENO), 0);
    fry_log log;
    fry_log_init(&log, NULL, NULL);
    fry_log_line(&log, FERRY_LOG_WARNING, "%0*d", 2 * FRY_LOG_LINE_BYTES, 0);
    cr_assert_geq(dup2(saved, STDERR_FILENO), 0);
    char text[4 * FRY_LOG_LINE_BYTES];
    ssize_t got = read(ends[0], text, sizeof text);
    cr_assert_eq((size_t)got, strlen("ferry: warning: ") + FRY_LOG_LINE_BYTES - 1 + 1);
    cr_assert_eq(text[got - 1], '\n');
    cr_assert_eq(close(saved), 0);
    cr_assert_eq(close(ends[0]), 0);
    cr_assert_eq(close(ends[1]), 0);
}
