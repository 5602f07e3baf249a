/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that show their step, message and sender, so that one in a wrong place is seen. */
#ifndef PERF_BYTES_H
#define PERF_BYTES_H

#include <stddef.h>
#include <stdint.h>

typedef struct perf_mark {
    uint32_t step;
    uint64_t message;
    int rank;
} perf_mark;

void perf_bytes_fill(unsigned char *bytes, size_t size_bytes, perf_mark mark);

/* The position of the first wrong byte, or a few before it; size_bytes: none. */
size_t perf_bytes_find_wrong(const unsigned char *bytes, size_t size_bytes, perf_mark mark);

#endif
