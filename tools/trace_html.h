/* SPDX-License-Identifier: Apache-2.0 */
/* The page of a trace: one HTML file to zoom and search in, which fetches nothing. */
#ifndef TRACE_HTML_H
#define TRACE_HTML_H

#include "tools/trace_summary.h"

#include <stdio.h>

/* Writes one whole document, or as much as `to` takes (ferror tells). model has operations. */
trace_result trace_html_write(const trace_model *model, const trace_summary *summary, FILE *to);

#endif
