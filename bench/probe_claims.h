/* SPDX-License-Identifier: Apache-2.0 */
/* What ferry assumes of hardware, and which rows of ferry_probe decide it. */
#ifndef FRY_BENCH_PROBE_CLAIMS_H
#define FRY_BENCH_PROBE_CLAIMS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum probe_rule {
    PROBE_RULE_YES, /* the answer of each row is yes */
    PROBE_RULE_NO,
    PROBE_RULE_LEAST, /* the value of each row is at least the limit */
    PROBE_RULE_MOST,
} probe_rule;

typedef struct probe_claim {
    const char *text;
    const char *rows; /* patterns of PROBE/CASE, blanks between; NULL: no row decides it */
    probe_rule rule;
    double limit;
} probe_claim;

extern const probe_claim probe_claims[];
extern const size_t probe_claim_count;

#endif
