/* SPDX-License-Identifier: Apache-2.0 */
/* batch: 256 copies of 4 KiB one by one, and by one call with either flag: posted, and done. */
#include "bench/probe.h"

#include <stdio.h>

#define COPIES 256
#define COPY_BYTES ((size_t)4096)
#define ROUNDS 50

typedef enum by { BY_ONE, BY_BATCH, BY_BATCH_OVERLAP, BYS } by;

static const char *const names[BYS] = {"single", "flags-0", "flags-1"};

typedef struct batch {
    CUstream stream;
    CUdeviceptr dsts[COPIES], srcs[COPIES];
    size_t sizes[COPIES];
    bench_samples post[BYS], done[BYS]; /* ns a copy */
} batch;

static void post(batch *batch, by by)
{
    CUmemcpyAttributes attributes = {
        .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
        .flags =
            by == BY_BATCH ? CU_MEMCPY_FLAG_DEFAULT : CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE,
    };
    size_t first = 0;
    if (by != BY_ONE)
        PROBE_CALL(cuMemcpyBatchAsync, batch->dsts, batch->srcs, batch->sizes, COPIES, &attributes,
                   &first, 1, batch->stream);
    for (size_t i = 0; i < COPIES && by == BY_ONE; i++)
        PROBE_CALL(cuMemcpyAsync, batch->dsts[i], batch->srcs[i], COPY_BYTES, batch->stream);
}

static void run_round(batch *batch, by by, bool is_counted)
{
    int64_t begin_ns = bench_now_ns();
    post(batch, by);
    int64_t posted_ns = bench_now_ns();
    PROBE_CALL(cuStreamSynchronize, batch->stream);
    int64_t done_ns = bench_now_ns();
    if (!is_counted)
        return;
    bench_samples_add(&batch->post[by], (double)(posted_ns - begin_ns) / COPIES);
    bench_samples_add(&batch->done[by], (double)(done_ns - begin_ns) / COPIES);
}

static void try_way(batch *batch, probe_way way)
{
    char shape[48];
    probe_ends ends = probe_ends_make(way, COPIES * COPY_BYTES);
    for (size_t i = 0; i < COPIES; i++) {
        batch->dsts[i] = ends.dst + i * COPY_BYTES;
        batch->srcs[i] = ends.src + i * COPY_BYTES;
        batch->sizes[i] = COPY_BYTES;
    }
    by most = driver.cuMemcpyBatchAsync != NULL ? BYS : BY_BATCH;
    for (int i = -1; i < (probe.is_smoke ? 1 : ROUNDS); i++) {
        for (by by = 0; by < most; by++)
            run_round(batch, by, i >= 0);
    }
    for (by by = 0; by < most; by++) {
        (void)snprintf(shape, sizeof shape, "%s-%s-post", probe_way_names[way], names[by]);
        probe_row_median(shape, &batch->post[by], "ns");
        (void)snprintf(shape, sizeof shape, "%s-%s-done", probe_way_names[way], names[by]);
        probe_row_median(shape, &batch->done[by], "ns");
        bench_samples_free(&batch->post[by]);
        bench_samples_free(&batch->done[by]);
    }
}

void probe_batch(const probe_case *which)
{
    static batch batch;
    (void)which;
    probe_gpu_open();
    batch.stream = probe_stream(0);
    if (driver.cuMemcpyBatchAsync == NULL)
        probe_row_absent("batch", "cuMemcpyBatchAsync");
    for (probe_way way = 0; way < PROBE_WAYS; way++)
        try_way(&batch, way);
}
