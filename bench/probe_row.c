/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/probe.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define NOTE_BYTES 256

probe_run probe;

static json_t *answer_json(probe_answer answer)
{
    return answer == PROBE_NONE ? json_null() : json_boolean(answer == PROBE_YES);
}

static void print_json(const char *shape, double value, const char *unit, probe_answer answer,
                       const char *note)
{
    json_t *number = isfinite(value) ? json_real(value) : json_null();
    json_t *row =
        json_pack("{s:s, s:s, s:o, s:s, s:o, s:s}", "probe", probe.probe, "case", shape, "value",
                  number, "unit", unit, "answer", answer_json(answer), "device", probe.device);
    if (row != NULL && note[0] != '\0' && json_object_set_new(row, "note", json_string(note)) != 0)
        bench_fail("cannot add a note to a row");
    if (row == NULL || json_dumpf(row, stdout, JSON_COMPACT | JSON_REAL_PRECISION(7)) != 0)
        bench_fail("cannot print %s %s as JSON", probe.probe, shape);
    json_decref(row);
    putchar('\n');
}

static void print_text(const char *shape, double value, const char *unit, probe_answer answer,
                       const char *note)
{
    static const char *const answers[] = {"no", "yes", "-"};
    char figure[32] = "-";
    if (isfinite(value))
        (void)snprintf(figure, sizeof figure, "%.6g", value);
    printf("%-9s %-44s %12s %-8s %-4s %s\n", probe.probe, shape, figure, unit, answers[answer],
           note);
}

static void print_row(const char *shape, double value, const char *unit, probe_answer answer,
                      const char *note)
{
    (probe.is_json ? print_json : print_text)(shape, value, unit, answer, note);
    if (fflush(stdout) != 0)
        bench_fail("cannot write to stdout");
}

void probe_row(const char *shape, double value, const char *unit, probe_answer answer,
               const char *note, ...)
{
    char text[NOTE_BYTES];
    va_list arguments;
    va_start(arguments, note);
    (void)vsnprintf(text, sizeof text, note, arguments);
    va_end(arguments);
    print_row(shape, value, unit, answer, text);
}

void probe_row_median(const char *shape, const bench_samples *samples, const char *unit)
{
    probe_row(shape, bench_samples_quantile(samples, 0.5), unit, PROBE_YES, "n %zu, p99 %.6g",
              samples->count, bench_samples_quantile(samples, 0.99));
}

void probe_row_absent(const char *shape, const char *call)
{
    probe_row(shape, NAN, "", PROBE_NONE, "absent: %s", call);
}

_Noreturn void probe_fail(const char *note, ...)
{
    char text[NOTE_BYTES];
    va_list arguments;
    va_start(arguments, note);
    (void)vsnprintf(text, sizeof text, note, arguments);
    va_end(arguments);
    print_row("failed", NAN, "", PROBE_NONE, text);
    _Exit(EXIT_FAILURE); /* other threads are at work still */
}
