/* SPDX-License-Identifier: Apache-2.0 */
/* An NVTX tool that only counts: what NVTX_INJECTION64_PATH names, and tests look into. */
#ifndef FERRY_TESTS_NVTX_TOOL_H
#define FERRY_TESTS_NVTX_TOOL_H

#include <stdint.h>

#define NVTX_TOOL_NAMES 64

typedef struct nvtx_tool_report {
    uint64_t started, ended;
    uint64_t strange; /* ends of ranges that are not under way; ranges outside the domain */
    char domain[32];
    char names[NVTX_TOOL_NAMES][32]; /* of the first ranges */
    uint64_t payloads[NVTX_TOOL_NAMES];
} nvtx_tool_report;

/* What there was up to now; exported under this name. Any thread. */
typedef void (*nvtx_tool_report_fn)(nvtx_tool_report *report);
#define NVTX_TOOL_REPORT "nvtx_tool_get_report"

#endif
