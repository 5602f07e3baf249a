/* SPDX-License-Identifier: Apache-2.0 */
/* The picture of a trace: a timeline as SVG. */
#ifndef TRACE_SVG_H
#define TRACE_SVG_H

#include "tools/trace_layout.h"
#include "tools/trace_summary.h"

#include <stdio.h>

/* Writes one whole document, or as much as `to` takes (ferror tells). TRACE_NO_MEMORY: some of the
 * picture is missing. */
trace_result trace_svg_write(const trace_model *model, const trace_summary *summary,
                             const trace_layout *layout, FILE *to);

#endif
