/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bubble: what stands between copies of one stream costs them, on the device's clock: nothing; an
 * event each; an event and a word each, as ferry has it today; an event each, and the word written
 * by a second stream that waits for it.
 */
#include "bench/probe.h"

#include <math.h>
#include <stdio.h>

#define COPIES_MOST 64
#define ROUNDS 5
#define KIB ((size_t)1024)
#define MIB ((size_t)1048576)

typedef enum between { BUBBLE_PLAIN, BUBBLE_EVENT, BUBBLE_WORD, BUBBLE_TELLER, BUBBLES } between;

static const char *const names[BUBBLES] = {"plain", "event", "event-word", "event-teller"};

static const struct {
    size_t size_bytes;
    int copies;
} sizes[] = {{64 * KIB, 64}, {256 * KIB, 64}, {MIB, 32}, {16 * MIB, 16}, {64 * MIB, 8}};

typedef struct bubble {
    CUstream stream, teller;
    CUevent start, end, events[COPIES_MOST];
    uint32_t *word;
    probe_ends ends;
} bubble;

/* All stand behind a held kernel first, so that the host's time is none of it. */
static double time_copies(const bubble *bubble, between between, int copies)
{
    float elapsed_ms = 0;
    probe_hold(bubble->stream);
    PROBE_CALL(cuEventRecord, bubble->start, bubble->stream);
    for (int i = 0; i < copies; i++) {
        probe_copy(&bubble->ends, bubble->stream);
        if (between == BUBBLE_PLAIN)
            continue;
        PROBE_CALL(cuEventRecord, bubble->events[i], bubble->stream);
        if (between == BUBBLE_TELLER)
            PROBE_CALL(cuStreamWaitEvent, bubble->teller, bubble->events[i], CU_EVENT_WAIT_DEFAULT);
        if (between != BUBBLE_EVENT)
            probe_write(between == BUBBLE_TELLER ? bubble->teller : bubble->stream, bubble->word,
                        (uint32_t)i);
    }
    PROBE_CALL(cuEventRecord, bubble->end, bubble->stream);
    if (!probe_hold_end())
        return (double)NAN;
    PROBE_CALL(cuEventElapsedTime, &elapsed_ms, bubble->start, bubble->end);
    return (double)elapsed_ms * 1e6 / copies;
}

static void tell(const char *shape, const bench_samples samples[BUBBLES])
{
    char name[64];
    for (between between = 0; between < BUBBLES; between++) {
        (void)snprintf(name, sizeof name, "%s-%s", shape, names[between]);
        if (samples[between].count == 0) {
            probe_row(name, NAN, "ns", PROBE_NONE, "a call waited for room, or is absent");
            continue;
        }
        probe_row_median(name, &samples[between], "ns");
        double plain_ns = samples[BUBBLE_PLAIN].count > 0
                              ? bench_samples_quantile(&samples[BUBBLE_PLAIN], 0.5)
                              : (double)NAN;
        (void)snprintf(name, sizeof name, "%s-%s-ratio", shape, names[between]);
        if (between != BUBBLE_PLAIN && plain_ns > 0)
            probe_row(name, bench_samples_quantile(&samples[between], 0.5) / plain_ns, "1",
                      PROBE_YES, "%s", "");
    }
}

static void try_size(bubble *bubble, probe_way way, size_t size_bytes, int copies)
{
    char size[16], shape[32];
    bench_samples samples[BUBBLES] = {{0}};
    bench_size_name(size, sizeof size, size_bytes);
    (void)snprintf(shape, sizeof shape, "%s-%s", probe_way_names[way], size);
    bubble->ends.size_bytes = size_bytes;
    for (int i = 0; i < (probe.is_smoke ? 1 : ROUNDS); i++) {
        for (between between = 0; between < BUBBLES; between++) {
            if (between >= BUBBLE_WORD && driver.cuStreamWriteValue32 == NULL)
                continue;
            double each_ns = time_copies(bubble, between, probe.is_smoke ? 4 : copies);
            if (!isnan(each_ns))
                bench_samples_add(&samples[between], each_ns);
        }
    }
    tell(shape, samples);
    for (between between = 0; between < BUBBLES; between++)
        bench_samples_free(&samples[between]);
}

void probe_bubble(const probe_case *which)
{
    bubble bubble = {0};
    probe_way way = (probe_way)which->variant;
    size_t count = probe.is_smoke ? 2 : sizeof sizes / sizeof sizes[0];
    probe_gpu_open();
    bubble.stream = probe_stream(0);
    bubble.teller = probe_stream(0);
    bubble.start = probe_event(CU_EVENT_DEFAULT);
    bubble.end = probe_event(CU_EVENT_DEFAULT);
    for (size_t i = 0; i < COPIES_MOST; i++)
        bubble.events[i] = probe_event(CU_EVENT_DISABLE_TIMING);
    bubble.word = probe_pinned(sizeof *bubble.word);
    bubble.ends = probe_ends_make(way, sizes[count - 1].size_bytes);
    for (size_t i = 0; i < count; i++)
        try_size(&bubble, way, sizes[i].size_bytes, sizes[i].copies);
}
