/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program must have done: its operations one after the other in submit order, with the
 * status of every byte. Only what races decide is taken from what was observed: whether a cancel, a
 * deadline, the shutdown or a refusal hit an operation, and which of several failures it names as
 * its cause.
 */
#ifndef FERRY_TESTS_GRAPH_ORACLE_H
#define FERRY_TESTS_GRAPH_ORACLE_H

#include "tests/support/random_plan.h"

/* What was seen of an op. */
typedef struct plan_outcome {
    bool is_absent;  /* it was not submitted */
    bool is_refused; /* FERRY_E_AGAIN at its submit */
    ferry_status status;
    uint64_t id;
    ferry_status error_status; /* FERRY_OK: no error */
    uint64_t error_op;
    ferry_status cause_status; /* FERRY_OK: no cause */
    uint64_t cause_op;
    uint32_t runs;                   /* of a call's function */
    const unsigned char *read_bytes; /* by an outside read */
} plan_outcome;

/* Why an op failed, in the first place. */
typedef struct oracle_root {
    ferry_status status; /* FERRY_OK: it didn't */
    uint64_t op;
} oracle_root;

typedef struct graph_oracle {
    const random_plan *plan;
    const plan_outcome *outcomes;
    unsigned char *memory[PLAN_BUFFERS_MAX];
    unsigned char *known[PLAN_BUFFERS_MAX]; /* 1: memory says what the byte must be */
    uint16_t *poison[PLAN_BUFFERS_MAX];     /* op that failed to write the byte, plus 1; or 0 */
    ferry_status statuses[PLAN_OPS_MAX];
    oracle_root roots[PLAN_OPS_MAX];
    oracle_root candidates[PLAN_OPS_MAX]; /* failures the op at hand may name */
    uint32_t candidate_count;
    uint32_t op;   /* at hand; where it stopped */
    char why[256]; /* it stopped */
    uint64_t bytes_compared;
} graph_oracle;

/* Takes memory for plans of any size; false if there is none. */
bool graph_oracle_init(graph_oracle *oracle);
void graph_oracle_destroy(graph_oracle *oracle);

/* False: an outcome is not what it must be; `op` and `why` say which and why. */
bool graph_oracle_check_outcomes(graph_oracle *oracle, const random_plan *plan,
                                 const plan_outcome *outcomes);

/* After the outcomes: false, with `why`, if a byte of a buffer is not what it must be. */
bool graph_oracle_check_bytes(graph_oracle *oracle, uint32_t buffer, const unsigned char *bytes);

#endif
