/* SPDX-License-Identifier: Apache-2.0 */
/*
 * current: whether calls that name a stream or an event ask which context is current in the thread:
 * none is, or another one of the same GPU. If they don't, ferry need not ask for it before each
 * copy either.
 */
#include "bench/probe.h"

#include <math.h>
#include <stdio.h>

static void tell(const char *current, const char *call, CUresult result)
{
    char shape[64];
    (void)snprintf(shape, sizeof shape, "%s-%s", current, call);
    probe_row(shape, NAN, "", result == CUDA_SUCCESS ? PROBE_YES : PROBE_NO, "%s",
              result == CUDA_SUCCESS ? "" : driver_error_name(result));
}

#define TRY(name, ...) tell(current, #name, driver.name(__VA_ARGS__))

/* What was made before lives in gpu.context. */
static void call_under(const char *current, CUcontext context)
{
    PROBE_CALL(cuCtxSetCurrent, gpu.context);
    CUstream stream = probe_stream(0);
    uint32_t *host = probe_pinned(2 * sizeof *host), *word = probe_pinned(sizeof *word);
    CUdeviceptr memory = probe_memory(sizeof *host);
    CUevent event = probe_event(CU_EVENT_DISABLE_TIMING);
    CUstreamCaptureStatus status;
    unsigned long long id;
    host[0] = 0x600df00d;
    PROBE_CALL(cuCtxSetCurrent, context);
    TRY(cuStreamIsCapturing, stream, &status);
    TRY(cuStreamGetId, stream, &id);
    TRY(cuMemcpyAsync, memory, probe_address(host), sizeof *host, stream);
    TRY(cuMemcpyAsync, probe_address(host + 1), memory, sizeof *host, stream);
    TRY(cuEventRecord, event, stream);
    TRY(cuStreamWriteValue32, stream, probe_address(word), 1, CU_STREAM_WRITE_VALUE_DEFAULT);
    TRY(cuStreamWaitEvent, stream, event, CU_EVENT_WAIT_DEFAULT);
    if (driver.cuMemcpyBatchAsync != NULL) {
        CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
        CUdeviceptr from = probe_address(host);
        size_t size_bytes = sizeof *host, first = 0;
        TRY(cuMemcpyBatchAsync, &memory, &from, &size_bytes, 1, &attributes, &first, 1, stream);
    }
    PROBE_CALL(cuCtxSetCurrent, gpu.context);
    PROBE_CALL(cuStreamSynchronize, stream);
    bool is_right = host[1] == host[0] && probe_word(word) == 1;
    tell(current, "bytes-and-word", is_right ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
}

void probe_current(const probe_case *which)
{
    CUcontext other;
    (void)which;
    probe_gpu_open();
    call_under("none", NULL);
    PROBE_CALL(cuCtxCreate, &other, NULL, 0, gpu.device);
    call_under("other", other);
}
