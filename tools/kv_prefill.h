/* SPDX-License-Identifier: Apache-2.0 */
/* The prefill process of `ferry kv`. */
#ifndef KV_PREFILL_H
#define KV_PREFILL_H

#include "tools/kv_end.h"
#include "tools/kv_figures.h"

/* What comes of a run. */
typedef struct kv_outcome {
    uint32_t decoders;
    kv_figures *figures; /* of each, by rank - 1 */
    int64_t duration_ns; /* from when all may ask until the last has what it asked for */
    uint64_t third_resident, end_resident; /* this process's memory, as in kv_figures */
} kv_outcome;

/*
 * Serves until all decode processes have their requests and have said what they measured. The end
 * is closed in any case.
 *  outcome  with room for the figures of all
 * Returns 0, or the exit status after a message on stderr.
 */
int kv_prefill_run(kv_end *end, kv_outcome *outcome);

#endif
