/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits, drawn pale: behind the slices of a row and below them. */
#ifndef TRACE_STRIPS_H
#define TRACE_STRIPS_H

#include "tools/trace_layout.h"

#include <stdio.h>

/*
 * Writes a row's two strips: operations that wait for others, which also shows where nothing runs,
 * and operations whose turn has not come in their stream or executor. The more there are at a time,
 * the darker.
 */
trace_result trace_strips_write(const trace_model *model, const trace_layout *layout, uint32_t row,
                                FILE *to);

#endif
