/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capture: what ferry calls beside an operation is taken while the same thread captures another
 * stream, in the mode that allows least, and the capture goes on. So no call has to change the
 * thread's mode for it.
 */
#include "bench/probe.h"

#include <math.h>
#include <stdio.h>

static void tell(const char *mode, const char *call, CUresult result)
{
    char shape[64];
    (void)snprintf(shape, sizeof shape, "%s-%s", mode, call);
    probe_row(shape, NAN, "", result == CUDA_SUCCESS ? PROBE_YES : PROBE_NO, "%s",
              result == CUDA_SUCCESS ? "" : driver_error_name(result));
}

#define TRY(name, ...) tell(mode, #name, driver.name(__VA_ARGS__))

static void capture_beside(const char *mode, CUstreamCaptureMode capture_mode)
{
    CUstream captured = probe_stream(0), beside = probe_stream(0);
    uint32_t *host = probe_pinned(sizeof *host);
    CUdeviceptr memory = probe_memory(sizeof *host);
    CUdeviceptr word = probe_address(probe_pinned(sizeof *host));
    CUevent event = probe_event(CU_EVENT_DISABLE_TIMING), made;
    CUstreamCaptureStatus status;
    CUgraph graph = NULL;
    CUcontext context;
    unsigned long long id;
    PROBE_CALL(cuStreamBeginCapture, captured, capture_mode);
    TRY(cuCtxGetCurrent, &context);
    TRY(cuStreamIsCapturing, beside, &status);
    TRY(cuStreamGetId, beside, &id);
    TRY(cuStreamGetCtx, beside, &context);
    TRY(cuEventCreate, &made, CU_EVENT_DISABLE_TIMING);
    TRY(cuMemcpyAsync, memory, probe_address(host), sizeof *host, beside);
    TRY(cuEventRecord, event, beside);
    TRY(cuStreamWriteValue32, beside, word, 1, CU_STREAM_WRITE_VALUE_DEFAULT);
    TRY(cuStreamWaitEvent, beside, event, CU_EVENT_WAIT_DEFAULT);
    if (driver.cuMemcpyBatchAsync != NULL) {
        CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
        CUdeviceptr from = probe_address(host);
        size_t size_bytes = sizeof *host, first = 0;
        TRY(cuMemcpyBatchAsync, &memory, &from, &size_bytes, 1, &attributes, &first, 1, beside);
    }
    tell(mode, "goes-on", driver.cuStreamEndCapture(captured, &graph));
    if (graph != NULL)
        PROBE_CALL(cuGraphDestroy, graph);
    PROBE_CALL(cuStreamSynchronize, beside);
}

void probe_capture(const probe_case *which)
{
    (void)which;
    probe_gpu_open();
    if (driver.cuStreamBeginCapture == NULL || driver.cuStreamEndCapture == NULL) {
        probe_row_absent("global", "cuStreamBeginCapture");
        return;
    }
    capture_beside("global", CU_STREAM_CAPTURE_MODE_GLOBAL);
    capture_beside("thread", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}
