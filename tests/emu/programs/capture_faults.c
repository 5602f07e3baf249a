/* SPDX-License-Identifier: Apache-2.0 */
/* What a capture forbids; and what two branches of a graph must not do. */
#include "faults.h"

#include <pthread.h>

#define BYTES 4096

static CUstream begin(CUstreamCaptureMode mode)
{
    CUstream stream = NEW_STREAM;
    OK(cuStreamBeginCapture(stream, mode));
    return stream;
}

static void end(CUstream stream)
{
    CUgraph graph;
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphDestroy(graph));
    OK(cuStreamDestroy(stream));
}

/* Memory is allocated by the thread that captures. */
static void run_allocate(bool faulty)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUstream stream = begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    if (!faulty)
        OK(cuThreadExchangeStreamCaptureMode(&mode));
    OK(cuMemFree(new_memory(BYTES)));
    if (!faulty)
        OK(cuThreadExchangeStreamCaptureMode(&mode));
    end(stream);
}

static void *query_elsewhere(void *arg)
{
    CUevent event = arg;
    OK(cuEventQuery(event));
    return NULL;
}

/* An event is queried by another thread, as a watchdog does it. */
static void run_watchdog(bool faulty)
{
    pthread_t thread;
    CUevent event = new_event();
    CUstream other = NEW_STREAM;
    OK(cuEventRecord(event, other));
    OK(cuStreamSynchronize(other));
    CUstream stream =
        begin(faulty ? CU_STREAM_CAPTURE_MODE_GLOBAL : CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    CHECK(pthread_create(&thread, NULL, query_elsewhere, event) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    end(stream);
}

/* What is captured is waited for. */
static void run_synchronize(bool faulty)
{
    CUstream other = NEW_STREAM;
    CUstream stream = begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    OK(cuStreamSynchronize(faulty ? stream : other));
    end(stream);
}

static void run_query_captured(bool faulty)
{
    CUevent event = new_event();
    CUevent other = new_event();
    CUstream stream = NEW_STREAM;
    OK(cuEventRecord(other, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuEventRecord(event, stream));
    OK(cuEventQuery(faulty ? event : other));
    end(stream);
}

/* The captured stream waits for what is not captured; the twin puts the wait before the capture. */
static void run_isolation(bool faulty)
{
    CUevent event = new_event();
    CUstream other = NEW_STREAM;
    CUstream stream = NEW_STREAM;
    OK(cuEventRecord(event, other));
    if (!faulty)
        OK(cuStreamWaitEvent(stream, event, 0));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    if (faulty)
        OK(cuStreamWaitEvent(stream, event, 0));
    end(stream);
}

/* Two captures meet. */
static void run_merge(bool faulty)
{
    CUstream one = begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    CUstream other = begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    CUevent event = new_event();
    OK(cuEventRecord(event, one));
    OK(cuStreamWaitEvent(faulty ? other : one, event, 0));
    end(one);
    end(other);
}

/* A branch is not joined when the capture ends. */
static void run_unjoined(bool faulty)
{
    CUdeviceptr memory = new_memory(BYTES);
    CUstream branch = NEW_STREAM;
    CUstream stream = begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    order(stream, branch);
    OK(cuMemsetD8Async(memory, 1, BYTES, branch));
    if (!faulty)
        order(branch, stream);
    end(stream);
}

/* The legacy stream is used while a blocking stream is captured. */
static void run_legacy(bool faulty)
{
    CUdeviceptr memory = new_memory(BYTES);
    CUstream stream = new_stream(faulty ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemsetD8Async(memory, 1, BYTES, NULL));
    end(stream);
}

/* The whole context is waited for, also by a thread that is relaxed. */
static void run_context(bool faulty)
{
    CUstream stream = begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    if (faulty)
        OK(cuCtxSynchronize());
    end(stream);
}

static void *end_elsewhere(void *arg)
{
    CUgraph graph;
    CUcontext context;
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuStreamEndCapture(arg, &graph));
    OK(cuGraphDestroy(graph));
    return NULL;
}

static void run_wrong_thread(bool faulty)
{
    pthread_t thread;
    CUstream stream =
        begin(faulty ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL : CU_STREAM_CAPTURE_MODE_RELAXED);
    CHECK(pthread_create(&thread, NULL, end_elsewhere, stream) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

/* The capture is ended on the branch. */
static void run_unmatched(bool faulty)
{
    CUstream branch = NEW_STREAM;
    CUstream stream = begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    order(stream, branch);
    end(faulty ? branch : stream);
}

/* An event of a capture is waited for when that has ended. */
static void run_ended(bool faulty)
{
    CUevent event = new_event();
    CUstream other = NEW_STREAM;
    CUstream stream = begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    OK(cuEventRecord(event, stream));
    CUgraph graph;
    OK(cuStreamEndCapture(stream, &graph));
    if (!faulty)
        OK(cuEventRecord(event, stream));
    OK(cuStreamWaitEvent(other, event, 0));
    OK(cuGraphDestroy(graph));
}

static void run_destroy(bool faulty)
{
    CUstream stream = begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    if (faulty)
        OK(cuStreamDestroy(stream));
    else
        end(stream);
}

/* Two branches of a graph write the same bytes. */
static void run_branches(bool faulty)
{
    CUdeviceptr memory = new_memory(BYTES);
    CUstream branch = NEW_STREAM;
    CUstream stream = begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    order(stream, branch);
    OK(cuMemsetD8Async(memory, 1, BYTES / 2, branch));
    OK(cuMemsetD8Async(memory + BYTES / 2 - faulty, 2, BYTES / 2, stream));
    order(branch, stream);
    OK(cuMemsetD8Async(memory, 3, BYTES, stream));
    end(stream);
}

/* A copy of the graph's result that does not wait for the graph. */
static void run_graph_beside(bool faulty)
{
    CUdeviceptr memory = new_memory(BYTES);
    CUstream other = NEW_STREAM;
    CUstream stream = begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    CUgraph graph;
    CUgraphExec executable;
    void *pinned = new_pinned(BYTES);
    OK(cuMemsetD8Async(memory, 1, BYTES, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&executable, graph, 0));
    hold();
    OK(cuGraphLaunch(executable, stream));
    if (!faulty)
        order(stream, other);
    OK(cuMemcpyDtoHAsync(pinned, memory, BYTES, other));
    release();
    OK(cuStreamSynchronize(other));
    OK(cuStreamSynchronize(stream));
    OK(cuGraphExecDestroy(executable));
    OK(cuGraphDestroy(graph));
    OK(cuStreamDestroy(stream));
    OK(cuStreamDestroy(other));
    OK(cuMemFreeHost(pinned));
    OK(cuMemFree(memory));
}

/* The memory goes before the graph is launched. */
static void run_graph_freed(bool faulty)
{
    CUdeviceptr memory = new_memory(BYTES);
    CUstream stream = begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    CUgraph graph;
    CUgraphExec executable;
    OK(cuMemsetD8Async(memory, 1, BYTES, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&executable, graph, 0));
    if (faulty)
        OK(cuMemFree(memory));
    OK(cuGraphLaunch(executable, stream));
    OK(cuStreamSynchronize(stream));
    if (!faulty)
        OK(cuMemFree(memory));
    OK(cuGraphExecDestroy(executable));
    OK(cuGraphDestroy(graph));
    OK(cuStreamDestroy(stream));
}

int main(int argc, char **argv)
{
    static const fault faults[] = {
        {"allocate", run_allocate},         {"watchdog", run_watchdog},
        {"synchronize", run_synchronize},   {"query_captured", run_query_captured},
        {"isolation", run_isolation},       {"merge", run_merge},
        {"unjoined", run_unjoined},         {"legacy", run_legacy},
        {"context", run_context},           {"wrong_thread", run_wrong_thread},
        {"unmatched", run_unmatched},       {"ended", run_ended},
        {"destroy", run_destroy},           {"branches", run_branches},
        {"graph_beside", run_graph_beside}, {"graph_freed", run_graph_freed},
    };
    return faults_main(argc, argv, faults, sizeof(faults) / sizeof(faults[0]));
}
