/* SPDX-License-Identifier: Apache-2.0 */
/* What `ferry reshard` prints and draws of a schedule. */
#ifndef RESHARD_REPORT_H
#define RESHARD_REPORT_H

#include <ferry/reshard.h>
#include <stdbool.h>
#include <stdio.h>

/* What the words of the text mean; for --help. */
extern const char reshard_report_definitions[];

typedef struct reshard_report {
    const ferry_reshard *reshard;
    ferry_reshard_info info;
    size_t dimension_count;
    uint64_t moves_max;            /* moves that are listed */
    const char *from, *to, *shape; /* as they were given */
} reshard_report;

void reshard_report_text(const reshard_report *report, FILE *to);

/* One JSON object on a line. */
void reshard_report_json(const reshard_report *report, FILE *to);

#endif
