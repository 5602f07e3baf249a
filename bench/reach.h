/* SPDX-License-Identifier: Apache-2.0 */
/* What every figure is to reach: ferry_bench's in reach.c, ferry_bench_gpu's in gpu_reach.c. */
#ifndef FRY_BENCH_REACH_H
#define FRY_BENCH_REACH_H

#include "bench/report.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct bench_reach {
    /* Of the rows it is for. Cases and rivals are patterns, as for fnmatch. */
    bench_key key;
    bool is_least; /* at least the limit; otherwise at most */
    bool is_p99;   /* of the 99th percentile; otherwise of the median */
    double limit;  /* in the metric's own unit */
    /* Cases whose figures stand beside it in the table; NULL: its own. One that begins with '*' is
     * the row's case with all from its last '-' on replaced by the rest. */
    const char *ferry_case;
    const char *rival_case;
} bench_reach;

/* The program's own. */
extern const bench_reach bench_reaches[];
extern const size_t bench_reach_count;

/* The first that is for a row, or NULL. */
const bench_reach *bench_reach_find(const bench_key *key);

bool bench_reach_is_met(const bench_reach *reach, double value);

#endif
