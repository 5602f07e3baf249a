/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a trace file as ferry writes it: a JSON array with one object a line (Chrome's format). */
#ifndef TRACE_READER_H
#define TRACE_READER_H

#include "tools/trace_model.h"

#include <stdio.h>

#define TRACE_LINE_MAX_BYTES ((size_t)1 << 20)

/*
 * Reads a further file of the model's to its end. What can't be read is told as a problem, line by
 * line, and the rest is taken; nothing the file says can do harm. model  initialized;
 * trace_model_finish comes after the last file Returns TRACE_OK; TRACE_FULL if the model has
 * TRACE_FILES_MAX files; or TRACE_NO_MEMORY.
 */
trace_result trace_read(FILE *file, trace_model *model, trace_problems *problems);

#endif
