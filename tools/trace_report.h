/* SPDX-License-Identifier: Apache-2.0 */
/* What `ferry trace` prints of a trace beside the picture. */
#ifndef TRACE_REPORT_H
#define TRACE_REPORT_H

#include "tools/trace_summary.h"

#include <stdio.h>

/* What the figures mean; a part of --help. */
extern const char trace_report_definitions[];

/* For people. */
void trace_report_print(const trace_model *model, const trace_summary *summary, FILE *to);

/* One object on one line; times in nanoseconds. TRACE_NO_MEMORY if it could not be made. */
trace_result trace_report_print_json(const trace_model *model, const trace_summary *summary,
                                     size_t problem_count, FILE *to);

#endif
