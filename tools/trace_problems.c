/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/trace_problems.h"

#include <stdarg.h>

#define MESSAGE_BYTES 512

/* Parsers quote the input, and a terminal obeys control bytes. */
static void make_printable(char *text)
{
    for (; *text; text++) {
        const unsigned char byte = (unsigned char)*text; /* char has no sign on aarch64 */
        if (byte < 0x20 || byte >= 0x7f)
            *text = '?';
    }
}

void trace_problems_add(trace_problems *problems, size_t line, uint64_t offset_bytes,
                        const char *format, ...)
{
    problems->count++;
    if (problems->count > TRACE_PROBLEMS_TOLD || !problems->to)
        return;
    char message[MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    make_printable(message);
    if (line > 0)
        fprintf(problems->to, "ferry: %s: line %zu, byte %llu: %s\n", problems->path, line,
                (unsigned long long)offset_bytes, message);
    else
        fprintf(problems->to, "ferry: %s: %s\n", problems->path, message);
}

void trace_problems_end(const trace_problems *problems)
{
    if (problems->to && problems->count > TRACE_PROBLEMS_TOLD)
        fprintf(problems->to, "ferry: %s: %zu more problems that are not listed\n", problems->path,
                problems->count - TRACE_PROBLEMS_TOLD);
}
