/* SPDX-License-Identifier: Apache-2.0 */
/* What a decode process has measured, of one size however long it runs. */
#ifndef KV_FIGURES_H
#define KV_FIGURES_H

#include <stdint.h>

#define KV_STEPS 16 /* of a bucket for each doubling, so that times are 3 % wide of the mark */
#define KV_BUCKETS (KV_STEPS * 36)

/* Times in buckets: from 1 us in steps of a sixteenth of a power of two, up to more than an hour.
 */
typedef struct kv_times {
    uint32_t counts[KV_BUCKETS];
} kv_times;

/* On the wire. */
typedef struct kv_figures {
    uint64_t requests;
    uint64_t bytes;
    int64_t duration_ns; /* of these */
    uint64_t raw_bytes;
    int64_t raw_ns;
    uint64_t pages;          /* that were compared */
    uint64_t verified;       /* of these, with the bytes they should have */
    uint64_t third_resident; /* bytes of the process's memory after a third of the time */
    uint64_t end_resident;   /* and at its end */
    kv_times ttft;
} kv_figures;

void kv_times_add(kv_times *times, int64_t time_ns);
void kv_times_sum(kv_times *sum, const kv_times *times);

/* The time below which so much of the times are, 0 to 1; 0 if there are none. */
double kv_times_quantile_us(const kv_times *times, double share);

/* Bytes of this process's memory that are resident. */
uint64_t kv_resident_bytes(void);

#endif
