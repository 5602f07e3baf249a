/* SPDX-License-Identifier: Apache-2.0 */
/* In a test's process: the functions that Criterion's macros call. They stand in for those of the
 * library, whose versions send messages to its runner. */
#include "tests/support/suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_BYTES 8192

static const suite_case *current;
static suite_note *current_note;
static pid_t current_pid;
static pid_t current_thread;
static jmp_buf phase_end; /* of set-up, the test itself, or take-down */

/* Whoever is not the test's own thread can't jump there: another thread, or a process that the test
 * has forked. */
static bool is_current_thread(void)
{
    return getpid() == current_pid && gettid() == current_thread;
}

bool suite_has_failed(void)
{
    return atomic_load(&current_note->failed_asserts) > 0;
}

/* ---- what the macros call ---- */

/* One write, so that lines of tests that run side by side are not mixed. */
void criterion_send_assert(struct criterion_assert_stats *stats)
{
    char text[TEXT_BYTES];
    if (stats->passed)
        return;
    atomic_fetch_add(&current_note->failed_asserts, 1);
    int size = snprintf(text, sizeof(text), "%s:%u: %s: assertion failed: %s\n", stats->file,
                        stats->line, current->name, stats->message);
    if (size >= (int)sizeof(text))
        size = (int)sizeof(text) - 1;
    (void)fflush(stdout);
    (void)!write(STDERR_FILENO, text, (size_t)size);
}

void criterion_abort_test(void)
{
    if (is_current_thread())
        longjmp(phase_end, 1);
    (void)fflush(NULL);
    _exit(EXIT_FAILURE);
}

void criterion_continue_test(void)
{
}

void cri_asserts_passed_incr(void)
{
}

void criterion_skip_test(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(current_note->reason, sizeof(current_note->reason), format, arguments);
    va_end(arguments);
    atomic_store(&current_note->stage, SUITE_SKIPPED);
    exit(EXIT_SUCCESS);
}

void criterion_test_die(const char *format, ...)
{
    va_list arguments;
    fprintf(stderr, "%s: ", current->name);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    _exit(EXIT_FAILURE);
}

/* ---- the three phases ---- */

static void call(void (*function)(void))
{
    if (function)
        function();
}

/* A test whose set-up fails neither runs nor is taken down. */
void criterion_internal_test_setup(void)
{
    if (setjmp(phase_end) == 0) {
        if (current->suite && current->suite->data)
            call(current->suite->data->init);
        call(current->test->data->init);
    }
    if (suite_has_failed()) {
        atomic_store(&current_note->stage, SUITE_ENDED);
        exit(EXIT_FAILURE);
    }
}

void criterion_internal_test_main(void (*function)(void))
{
    if (setjmp(phase_end) != 0)
        return;
    if (current->parameter)
        ((void (*)(void *))(void *)function)(current->parameter);
    else
        function();
}

void criterion_internal_test_teardown(void)
{
    if (setjmp(phase_end) != 0)
        return;
    call(current->test->data->fini);
    if (current->suite && current->suite->data)
        call(current->suite->data->fini);
}

_Noreturn void suite_case_run(const suite_case *chosen, suite_note *note)
{
    current = chosen;
    current_note = note;
    current_pid = getpid();
    current_thread = gettid();
    chosen->test->test(); /* calls the three */
    atomic_store(&note->stage, SUITE_ENDED);
    /* Not _exit: this is where LeakSanitizer looks. */
    exit(suite_has_failed() ? EXIT_FAILURE : EXIT_SUCCESS);
}
