/* SPDX-License-Identifier: Apache-2.0 */
/*
 * visible: whether the bytes of a copy to the host are there in the moment in which the word behind
 * it appears. Each copy brings other bytes than its target had, in four streams at once; looked at
 * is the end first, which is written last. `teller`: the word is written in another stream, which
 * waits for an event behind the copy.
 */
#include "bench/probe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LANES 4
#define LEAST_BYTES ((size_t)64)
#define MOST_BYTES ((size_t)262144)
#define SOURCE_BYTES ((size_t)8388608)
#define COPIES 100000 /* of each of the two cases */
#define LIMIT_NS INT64_C(5000000000)

typedef struct visible {
    bool has_teller;
    uint64_t random;
    uint8_t *expected; /* on the host, what the device has */
    CUdeviceptr source;
    uint32_t *words;
    size_t copies, wrong, wrong_bytes;
    struct {
        CUstream stream, teller;
        CUevent event;
        uint8_t *target;
        size_t offset, size_bytes;
        uint32_t value;
    } lanes[LANES];
} visible;

static uint64_t draw(visible *visible)
{
    visible->random ^= visible->random << 13;
    visible->random ^= visible->random >> 7;
    visible->random ^= visible->random << 17;
    return visible->random;
}

static void open_visible(visible *visible, bool has_teller)
{
    CUstream stream = probe_stream(0);
    visible->has_teller = has_teller;
    visible->random = 0x9e3779b97f4a7c15U;
    visible->expected = probe_pinned(SOURCE_BYTES);
    for (size_t i = 0; i < SOURCE_BYTES; i += sizeof(uint64_t)) {
        uint64_t word = draw(visible);
        memcpy(visible->expected + i, &word, sizeof word);
    }
    visible->source = probe_memory(SOURCE_BYTES);
    PROBE_CALL(cuMemcpyAsync, visible->source, probe_address(visible->expected), SOURCE_BYTES,
               stream);
    PROBE_CALL(cuStreamSynchronize, stream);
    visible->words = probe_pinned(LANES * sizeof *visible->words);
    for (size_t i = 0; i < LANES; i++) {
        visible->lanes[i].stream = probe_stream(0);
        visible->lanes[i].teller = has_teller ? probe_stream(0) : visible->lanes[i].stream;
        visible->lanes[i].event = probe_event(CU_EVENT_DISABLE_TIMING);
        visible->lanes[i].target = probe_pinned(MOST_BYTES);
    }
}

static void start_copy(visible *visible, size_t i)
{
    size_t sizes = 0; /* all powers of two alike */
    while (LEAST_BYTES << sizes <= MOST_BYTES)
        sizes++;
    size_t size_bytes = LEAST_BYTES << (draw(visible) % sizes);
    size_t steps = (SOURCE_BYTES - size_bytes) / LEAST_BYTES + 1;
    size_t offset = draw(visible) % steps * LEAST_BYTES;
    CUstream stream = visible->lanes[i].stream;
    PROBE_CALL(cuMemcpyAsync, probe_address(visible->lanes[i].target), visible->source + offset,
               size_bytes, stream);
    if (visible->has_teller) {
        PROBE_CALL(cuEventRecord, visible->lanes[i].event, stream);
        PROBE_CALL(cuStreamWaitEvent, visible->lanes[i].teller, visible->lanes[i].event,
                   CU_EVENT_WAIT_DEFAULT);
    }
    visible->lanes[i].offset = offset;
    visible->lanes[i].size_bytes = size_bytes;
    probe_write(visible->lanes[i].teller, &visible->words[i], ++visible->lanes[i].value);
}

static void check_copy(visible *visible, size_t i)
{
    const uint8_t *target = visible->lanes[i].target;
    const uint8_t *expected = visible->expected + visible->lanes[i].offset;
    size_t end = visible->lanes[i].size_bytes - LEAST_BYTES;
    bool is_wrong = memcmp(target + end, expected + end, LEAST_BYTES) != 0;
    is_wrong = memcmp(target, expected, visible->lanes[i].size_bytes) != 0 || is_wrong;
    visible->wrong += is_wrong;
    if (is_wrong)
        visible->wrong_bytes = visible->lanes[i].size_bytes;
    visible->copies++;
}

void probe_visible(const probe_case *which)
{
    static visible visible;
    size_t copies = probe.is_smoke ? 200 : COPIES;
    probe_gpu_open();
    const char *shape = which->variant != 0 ? "teller" : "same-stream";
    if (driver.cuStreamWriteValue32 == NULL) {
        probe_row_absent(shape, "cuStreamWriteValue32");
        return;
    }
    open_visible(&visible, which->variant != 0);
    int64_t begin_ns = bench_now_ns();
    for (size_t i = 0; i < LANES; i++)
        start_copy(&visible, i);
    while (visible.copies < copies && bench_now_ns() - begin_ns < LIMIT_NS) {
        for (size_t i = 0; i < LANES; i++) {
            if (probe_word(&visible.words[i]) != visible.lanes[i].value)
                continue;
            check_copy(&visible, i);
            start_copy(&visible, i);
        }
    }
    probe_row(shape, (double)visible.wrong, "copies",
              visible.copies == 0 ? PROBE_NONE : visible.wrong == 0, "wrong, of %zu; a size: %zu B",
              visible.copies, visible.wrong_bytes);
    PROBE_CALL(cuCtxSynchronize);
}
