/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What calls give while streams are captured, which CUDA documents: errors, what they invalidate,
 * and how a capture is got rid of. Most of it the emulator catches, so catches are counted here.
 */
#include "driver.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define BYTES 4096

static CUstreamCaptureStatus status_of(CUstream stream)
{
    CUstreamCaptureStatus status;
    OK(cuStreamIsCapturing(stream, &status));
    return status;
}

static void set_mode(CUstreamCaptureMode mode)
{
    OK(cuThreadExchangeStreamCaptureMode(&mode));
}

/* Ends a capture that is invalid: no graph, and the stream is as before. */
static void end_invalid(CUstream stream, CUresult expected)
{
    CUgraph graph = (CUgraph)(uintptr_t)1;
    GIVES(cuStreamEndCapture(stream, &graph), expected);
    CHECK(graph == NULL && status_of(stream) == CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cuStreamSynchronize(stream));
}

static void rules_of_states(CUdeviceptr memory)
{
    CUstream stream = NEW_STREAM;
    CUgraph graph;
    CUgraphExec executable;
    CUstreamCaptureStatus status;
    cuuint64_t ids[2];
    GIVES(cuStreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
    GIVES(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL),
          CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    for (int i = 0; i < 2; i++) {
        OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        GIVES(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
              CUDA_ERROR_ILLEGAL_STATE);
        OK(cuStreamGetCaptureInfo(stream, &status, &ids[i], NULL, NULL, NULL, NULL));
        CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
        OK(cuMemsetD8Async(memory, 1, BYTES, stream));
        OK(cuStreamEndCapture(stream, &graph));
        OK(cuGraphInstantiate(&executable, graph, 0));
        OK(cuGraphDestroy(graph));
        OK(cuGraphExecDestroy(executable));
    }
    CHECK(ids[0] != ids[1]);
    OK(cuStreamDestroy(stream));
}

/* What is invalid gives errors until it is ended. */
static void rules_of_the_invalid(CUdeviceptr memory)
{
    CUstream stream = NEW_STREAM;
    CUstream other = NEW_STREAM;
    CUevent event = new_event();
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuEventRecord(event, stream));
    GIVES(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    GIVES(cuMemsetD8Async(memory, 1, BYTES, stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    GIVES(cuStreamWaitEvent(other, event, 0), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK(status_of(other) == CU_STREAM_CAPTURE_STATUS_NONE);
    end_invalid(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuEventRecord(event, stream));
    GIVES(cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
    CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    end_invalid(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(cuEventRecord(event, stream)); /* outside, it is an event like any */
    OK(cuEventSynchronize(event));
    OK(cuEventDestroy(event));
    OK(cuStreamDestroy(stream));
    OK(cuStreamDestroy(other));
}

static void rules_of_events(CUdeviceptr memory)
{
    CUstream one = NEW_STREAM;
    CUstream other = NEW_STREAM;
    CUevent event = new_event();
    CUevent captured = new_event();
    OK(cuEventRecord(event, other));
    OK(cuStreamBeginCapture(one, CU_STREAM_CAPTURE_MODE_RELAXED));
    GIVES(cuStreamWaitEvent(one, event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    end_invalid(one, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    OK(cuStreamBeginCapture(one, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuEventRecord(captured, one));
    GIVES(cuStreamWaitEvent(other, captured, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    end_invalid(one, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    end_invalid(other, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    OK(cuStreamBeginCapture(one, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuEventRecord(captured, one));
    OK(cuStreamWaitEvent(other, captured, 0));
    CHECK(status_of(other) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(cuMemsetD8Async(memory, 1, BYTES, other));
    end_invalid(one, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    CHECK(status_of(other) == CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cuEventDestroy(event));
    OK(cuEventDestroy(captured));
    OK(cuStreamDestroy(one));
    OK(cuStreamDestroy(other));
}

static void rules_of_the_legacy_stream(CUdeviceptr memory)
{
    CUstream stream = new_stream(CU_STREAM_DEFAULT);
    CUstreamCaptureStatus status;
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    GIVES(cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    set_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    GIVES(cuMemsetD8Async(memory, 1, BYTES, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    set_mode(CU_STREAM_CAPTURE_MODE_GLOBAL);
    CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    end_invalid(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(cuStreamDestroy(stream));
}

typedef struct elsewhere {
    CUcontext context;
    CUevent event;
    CUstreamCaptureMode mode;
    CUresult result;
} elsewhere;

static void *query_elsewhere(void *arg)
{
    elsewhere *elsewhere = arg;
    OK(cuCtxSetCurrent(elsewhere->context));
    set_mode(elsewhere->mode);
    elsewhere->result = cuEventQuery(elsewhere->event);
    return NULL;
}

/* Every mode of a capture against every mode of this thread, or of another one. */
static void rules_of_modes(void)
{
    CUstream stream = NEW_STREAM;
    elsewhere elsewhere = {.event = new_event()};
    CUgraph graph;
    OK(cuCtxGetCurrent(&elsewhere.context));
    OK(cuEventRecord(elsewhere.event, stream));
    OK(cuStreamSynchronize(stream));
    for (int capture = 0; capture <= CU_STREAM_CAPTURE_MODE_RELAXED; capture++) {
        for (int mode = 0; mode <= CU_STREAM_CAPTURE_MODE_RELAXED; mode++) {
            for (int other = 0; other < 2; other++) {
                bool forbidden = mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
                                 capture != CU_STREAM_CAPTURE_MODE_RELAXED;
                if (other)
                    forbidden = mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                                capture == CU_STREAM_CAPTURE_MODE_GLOBAL;
                OK(cuStreamBeginCapture(stream, (CUstreamCaptureMode)capture));
                elsewhere.mode = (CUstreamCaptureMode)mode;
                if (other) {
                    pthread_t thread;
                    CHECK(pthread_create(&thread, NULL, query_elsewhere, &elsewhere) == 0);
                    CHECK(pthread_join(thread, NULL) == 0);
                } else {
                    (void)query_elsewhere(&elsewhere);
                    set_mode(CU_STREAM_CAPTURE_MODE_GLOBAL);
                }
                GIVES(elsewhere.result,
                      forbidden ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS);
                if (forbidden) {
                    end_invalid(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
                } else {
                    OK(cuStreamEndCapture(stream, &graph));
                    OK(cuGraphDestroy(graph));
                }
            }
        }
    }
    OK(cuEventDestroy(elsewhere.event));
    OK(cuStreamDestroy(stream));
}

/* A graph is launched into a capture of another, and that one many times. */
static void rules_of_graphs(CUdeviceptr memory)
{
    CUstream stream = NEW_STREAM;
    CUgraph graph;
    CUgraphExec inner;
    CUgraphExec outer;
    unsigned char *pinned;
    OK(cuMemHostAlloc((void **)&pinned, 2, 0));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemcpyDtoDAsync(memory + 1, memory, 1, stream));
    OK(cuMemsetD8Async(memory, 9, 1, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&inner, graph, 0));
    OK(cuGraphDestroy(graph));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemsetD8Async(memory, 7, 1, stream));
    OK(cuGraphLaunch(inner, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&outer, graph, 0));
    OK(cuGraphDestroy(graph));
    OK(cuGraphExecDestroy(inner));
    for (int i = 0; i < 3; i++) {
        OK(cuMemsetD8Async(memory, 0, 2, stream));
        OK(cuGraphLaunch(outer, stream));
        OK(cuMemcpyDtoHAsync(pinned, memory, 2, stream));
        OK(cuStreamSynchronize(stream));
        CHECK(pinned[0] == 9 && pinned[1] == 7);
    }
    OK(cuGraphExecDestroy(outer));
    OK(cuMemFreeHost(pinned));
    OK(cuStreamDestroy(stream));
}

/* Nothing of all that has stayed, and what was captured was counted. */
static void rules_of_counters(void)
{
    void (*get)(emu_counters * counters) = EMU(emu_get_counters);
    emu_counters counters;
    if (get == NULL)
        return;
    get(&counters);
    CHECK(counters.live_graphs == 0 && counters.live_streams == 0 && counters.live_events == 0);
    CHECK(counters.capture_joins == 1 && counters.captured_joined == 1);
    CHECK(counters.captured == 7); /* 2 and the unjoined one, 2 and 2 of rules_of_graphs */
}

int main(void)
{
    CUcontext context;
    CUdeviceptr memory;
    void (*count_catches)(bool only_count) = EMU(emu_count_catches);
    if (count_catches != NULL)
        count_catches(true);
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc(&memory, BYTES));
    rules_of_states(memory);
    rules_of_the_invalid(memory);
    rules_of_events(memory);
    rules_of_the_legacy_stream(memory);
    rules_of_modes();
    rules_of_graphs(memory);
    OK(cuMemFree(memory));
    rules_of_counters();
    OK(cuDevicePrimaryCtxRelease(0));
    puts("capture_rules: all as it should be");
    return EXIT_SUCCESS;
}
