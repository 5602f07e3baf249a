/* SPDX-License-Identifier: Apache-2.0 */
/*
 * late: how long after its event is a word seen, where both are looked at by turns. gap: what ferry
 * would put between two kernels of a user's stream costs it, on the device's clock.
 */
#include "bench/probe.h"

#include <math.h>
#include <stdio.h>

#define KERNEL_NS 20000
#define ROUND_LIMIT_NS INT64_C(1000000000)
#define LATE_NS 1e6 /* when ferry gives words up, if it has to wait so long */
#define GAP_KERNELS 100
#define GAP_ROUNDS 9

typedef struct late {
    CUstream stream, teller;
    CUevent event;
    uint32_t *word;
    uint32_t value;
} late;

/* Positive: the word came after the event. NAN: one of them did not come. */
static double time_word(late *late, bool has_teller)
{
    int64_t event_ns = 0, word_ns = 0;
    int64_t begin_ns = bench_now_ns(), now_ns = begin_ns;
    probe_spin(KERNEL_NS, late->stream);
    PROBE_CALL(cuEventRecord, late->event, late->stream);
    if (has_teller)
        PROBE_CALL(cuStreamWaitEvent, late->teller, late->event, CU_EVENT_WAIT_DEFAULT);
    probe_write(has_teller ? late->teller : late->stream, late->word, ++late->value);
    while ((event_ns == 0 || word_ns == 0) && now_ns - begin_ns < ROUND_LIMIT_NS) {
        if (word_ns == 0 && probe_word(late->word) == late->value)
            word_ns = bench_now_ns();
        if (event_ns == 0 && driver.cuEventQuery(late->event) == CUDA_SUCCESS)
            event_ns = bench_now_ns();
        now_ns = bench_now_ns();
    }
    return event_ns == 0 || word_ns == 0 ? (double)NAN : (double)(word_ns - event_ns);
}

static void try_word(late *late, const char *shape, bool has_teller)
{
    bench_samples samples = {0};
    int rounds = probe.is_smoke ? 10 : 3000;
    int lost = 0;
    for (int i = 0; i < rounds && lost == 0; i++) {
        double late_ns = time_word(late, has_teller);
        if (isnan(late_ns))
            lost++;
        else
            bench_samples_add(&samples, late_ns);
    }
    if (samples.count == 0) {
        probe_row(shape, NAN, "ns", PROBE_NO, "no word came within 1 s");
        return;
    }
    /* Once in a thousand the host may have looked away between the two. */
    double most = bench_samples_quantile(&samples, 0.999);
    const char *end = lost == 0 ? "" : "; one did not come within 1 s";
    bool is_in_time = lost == 0 && most < LATE_NS;
    probe_row(shape, most, "ns", is_in_time ? PROBE_YES : PROBE_NO,
              "that is p99.9; median %.0f, the most %.0f%s", bench_samples_quantile(&samples, 0.5),
              bench_samples_quantile(&samples, 1), end);
    bench_samples_free(&samples);
}

void probe_late(const probe_case *which)
{
    late late = {0};
    (void)which;
    probe_gpu_open();
    late.stream = probe_stream(0);
    late.teller = probe_stream(0);
    late.event = probe_event(CU_EVENT_DISABLE_TIMING);
    late.word = probe_pinned(sizeof *late.word);
    if (driver.cuStreamWriteValue32 == NULL) {
        probe_row_absent("same-stream", "cuStreamWriteValue32");
        return;
    }
    try_word(&late, "same-stream", false);
    try_word(&late, "teller", true);
}

/* ---- between two kernels ---- */

typedef enum between { BETWEEN_NOTHING, BETWEEN_RECORD, BETWEEN_WRITE, BETWEEN_BOTH } between;

typedef struct gap {
    CUstream stream;
    CUevent start, end, event;
    CUdeviceptr word;
    uint32_t *told;
} gap;

/* All stand behind a held kernel first, so that the host's time is none of it. */
static double time_kernels(const gap *gap, between between)
{
    float elapsed_ms = 0;
    probe_hold(gap->stream);
    PROBE_CALL(cuEventRecord, gap->start, gap->stream);
    for (uint32_t i = 0; i < GAP_KERNELS; i++) {
        probe_fill(gap->word, i, gap->stream);
        if (between == BETWEEN_RECORD || between == BETWEEN_BOTH)
            PROBE_CALL(cuEventRecord, gap->event, gap->stream);
        if (between == BETWEEN_WRITE || between == BETWEEN_BOTH)
            probe_write(gap->stream, gap->told, i);
    }
    PROBE_CALL(cuEventRecord, gap->end, gap->stream);
    if (!probe_hold_end())
        return (double)NAN;
    PROBE_CALL(cuEventElapsedTime, &elapsed_ms, gap->start, gap->end);
    return (double)elapsed_ms * 1e6 / GAP_KERNELS;
}

void probe_gap(const probe_case *which)
{
    static const char *const shapes[] = {"plain", "record", "write", "record-write"};
    gap gap = {0};
    bench_samples samples[4] = {{0}};
    (void)which;
    probe_gpu_open();
    gap.stream = probe_stream(0);
    gap.start = probe_event(CU_EVENT_DEFAULT);
    gap.end = probe_event(CU_EVENT_DEFAULT);
    gap.event = probe_event(CU_EVENT_DISABLE_TIMING);
    gap.word = probe_memory(sizeof(uint32_t));
    gap.told = probe_pinned(sizeof *gap.told);
    bool has_write = driver.cuStreamWriteValue32 != NULL;
    for (int i = 0; i < (probe.is_smoke ? 1 : GAP_ROUNDS); i++) {
        for (between between = 0; between <= (has_write ? BETWEEN_BOTH : BETWEEN_RECORD);
             between++) {
            double each_ns = time_kernels(&gap, between);
            if (!isnan(each_ns))
                bench_samples_add(&samples[between], each_ns);
        }
    }
    for (between between = 0; between <= BETWEEN_BOTH; between++) {
        if (samples[between].count > 0)
            probe_row_median(shapes[between], &samples[between], "ns");
        else if (between >= BETWEEN_WRITE && !has_write)
            probe_row_absent(shapes[between], "cuStreamWriteValue32");
        else
            probe_row(shapes[between], NAN, "ns", PROBE_NONE, "a call waited for room");
        bench_samples_free(&samples[between]);
    }
}
