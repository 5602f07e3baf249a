/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with a trace file: the first few are told one by one, the rest counted. */
#ifndef TRACE_PROBLEMS_H
#define TRACE_PROBLEMS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TRACE_PROBLEMS_TOLD 10

typedef struct trace_problems {
    const char *path; /* as it was given */
    FILE *to;         /* NULL: nobody is told */
    size_t count;
} trace_problems;

/*
 * One more. What the text takes from the file is made printable.
 *  line          counted from 1; 0: none in particular
 *  offset_bytes  in the file, counted from 0
 */
void trace_problems_add(trace_problems *problems, size_t line, uint64_t offset_bytes,
                        const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Says how many were not told. */
void trace_problems_end(const trace_problems *problems);

#endif
