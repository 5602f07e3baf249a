/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs of copies.
 *
 * A graph is captured on streams of its own, so that its copies are put together by the lines that
 * put copies on any stream, and is instantiated when it is made; so launching it warms nothing up.
 * Each branch is a straight line, as a main stream is: the copies of one direction would share a
 * copy engine anyway, and the driver launches a straight line at the least cost.
 *
 * The driver allows one call at a time on an executable graph, and one launch of it at a time to
 * run. So there are two: ferry's streams launch the first, always with the baton. The program's
 * streams launch the second, under a lock that nobody takes who has the baton; it is made when it
 * is first needed. A stream under capture gets the copies themselves, as nodes of the program's
 * graph like any others.
 */
#include "gpu/cuda/graph.h"

#include "base/memory.h"
#include "gpu/cuda/call.h"
#include "gpu/cuda/context.h"
#include "gpu/cuda/cuda.h"
#include "gpu/cuda/driver.h"
#include "gpu/cuda/lost.h"
#include "gpu/cuda/submit.h"

#include <pthread.h>
#include <string.h>

struct fry_graph {
    CUgraphExec launched;
    CUgraph captured;
    pthread_mutex_t lock;
    CUgraphExec enqueued; /* under the lock; NULL: not made yet */
    size_t pitch_max_bytes;
    size_t count;
    fry_graph_copy copies[];
};

/* What a capture needs. */
typedef struct capture {
    CUstream branches[2]; /* it begins and ends on the first */
    CUevent event;        /* recorded again for each wait between them */
    const char *call;     /* the last, for a fault */
} capture;

static bool has_graphs(void)
{
    return fry_cuda.cuStreamBeginCapture != NULL && fry_cuda.cuStreamEndCapture != NULL &&
           fry_cuda.cuGraphInstantiate != NULL && fry_cuda.cuGraphLaunch != NULL &&
           fry_cuda.cuGraphDestroy != NULL && fry_cuda.cuGraphExecDestroy != NULL;
}

/* ---- making ---- */

static CUresult open_capture(capture *self)
{
    CUresult result = CUDA_SUCCESS;
    self->call = "cuStreamCreateWithPriority";
    for (size_t i = 0; i < 2 && result == CUDA_SUCCESS; i++)
        result = fry_cuda.cuStreamCreateWithPriority(&self->branches[i], CU_STREAM_NON_BLOCKING, 0);
    if (result != CUDA_SUCCESS)
        return result;
    self->call = "cuEventCreate";
    return fry_cuda.cuEventCreate(&self->event, CU_EVENT_DISABLE_TIMING);
}

static void close_capture(const capture *self)
{
    if (self->event != NULL)
        (void)fry_cuda.cuEventDestroy(self->event);
    for (size_t i = 0; i < 2; i++) {
        if (self->branches[i] != NULL)
            (void)fry_cuda.cuStreamDestroy(self->branches[i]);
    }
}

/* What comes next on one branch is behind all that is on the other. */
static CUresult join(capture *self, size_t to)
{
    self->call = "cuEventRecord";
    CUresult result = fry_cuda.cuEventRecord(self->event, self->branches[1 - to]);
    if (result != CUDA_SUCCESS)
        return result;
    self->call = "cuStreamWaitEvent";
    return fry_cuda.cuStreamWaitEvent(self->branches[to], self->event, CU_EVENT_WAIT_DEFAULT);
}

static CUresult capture_copies(capture *self, const fry_graph *graph)
{
    bool has_second = false;
    CUresult result = CUDA_SUCCESS;
    size_t entries = 0;
    for (size_t i = 0; i < graph->count && result == CUDA_SUCCESS; i++) {
        const fry_graph_copy *next = &graph->copies[i];
        bool begins_second = next->is_second && !has_second; /* it belongs to no capture before */
        if (begins_second || (next->is_behind && has_second))
            result = join(self, next->is_second);
        has_second = has_second || next->is_second;
        if (result == CUDA_SUCCESS)
            result = fry_cuda_submit(self->branches[next->is_second], &next->copy,
                                     graph->pitch_max_bytes, &self->call, &entries);
    }
    return result == CUDA_SUCCESS && has_second ? join(self, 0) : result;
}

/* In a scope. */
static CUresult capture_graph(capture *self, fry_graph *graph)
{
    CUresult result = open_capture(self);
    if (result != CUDA_SUCCESS)
        return result;
    self->call = "cuStreamBeginCapture";
    result = fry_cuda.cuStreamBeginCapture(self->branches[0], CU_STREAM_CAPTURE_MODE_RELAXED);
    if (result != CUDA_SUCCESS)
        return result;
    result = capture_copies(self, graph);
    CUresult ended = fry_cuda.cuStreamEndCapture(self->branches[0], &graph->captured);
    if (result == CUDA_SUCCESS && ended != CUDA_SUCCESS) {
        self->call = "cuStreamEndCapture";
        result = ended;
    }
    if (result == CUDA_SUCCESS) {
        self->call = "cuGraphInstantiate";
        result = fry_cuda.cuGraphInstantiate(&graph->launched, graph->captured, 0);
    }
    return result;
}

static fry_graph *graph_of(const fry_cuda_device *device, const fry_graph_copy *copies,
                           size_t count)
{
    const fry_memory *memory = &device->backend->memory;
    size_t size_bytes = sizeof(fry_graph) + count * sizeof *copies;
    fry_graph *graph = fry_alloc(memory, size_bytes, _Alignof(fry_graph));
    if (graph == NULL)
        return NULL;
    if (pthread_mutex_init(&graph->lock, NULL) != 0) {
        fry_free(memory, graph, size_bytes);
        return NULL;
    }
    graph->pitch_max_bytes = device->pitch_max_bytes;
    graph->count = count;
    memcpy(graph->copies, copies, count * sizeof *copies);
    return graph;
}

/* In a scope, or of a lost device, whose handles are gone with its context. */
static void give_graph(const fry_cuda_device *device, fry_graph *graph)
{
    if (fry_cuda_lost(device) == CUDA_SUCCESS) {
        if (graph->launched != NULL)
            (void)fry_cuda.cuGraphExecDestroy(graph->launched);
        if (graph->enqueued != NULL)
            (void)fry_cuda.cuGraphExecDestroy(graph->enqueued);
        if (graph->captured != NULL)
            (void)fry_cuda.cuGraphDestroy(graph->captured);
    }
    (void)pthread_mutex_destroy(&graph->lock);
    fry_free(&device->backend->memory, graph,
             sizeof(fry_graph) + graph->count * sizeof *graph->copies);
}

ferry_status fry_cuda_graph_make(fry_device *base, const fry_graph_copy *copies, size_t count,
                                 fry_graph **graph_p, fry_fault *fault)
{
    fry_cuda_device *device = fry_cuda_device_of(base);
    if (!has_graphs())
        return fry_cuda_tell(fault, FERRY_E_UNSUPPORTED, CUDA_ERROR_NOT_SUPPORTED,
                             "graphs of this driver");
    fry_graph *graph = graph_of(device, copies, count);
    if (graph == NULL)
        return fry_cuda_tell(fault, FERRY_E_NO_MEMORY, CUDA_ERROR_OUT_OF_MEMORY, "a graph");
    fry_cuda_scope scope;
    capture capture = {0};
    ferry_status status = fry_cuda_call_enter(device, &scope, fault);
    if (status == FERRY_OK) {
        CUresult result = capture_graph(&capture, graph);
        close_capture(&capture);
        if (result != CUDA_SUCCESS)
            status = fry_cuda_call_refuse(device, result, capture.call, fault);
    }
    if (status == FERRY_OK)
        *graph_p = graph;
    else
        give_graph(device, graph);
    fry_cuda_leave(&scope);
    return status;
}

void fry_cuda_graph_free(fry_device *base, fry_graph *graph)
{
    const fry_cuda_device *device = fry_cuda_device_of(base);
    fry_cuda_scope scope;
    /* Whatever comes of it: without a context the handles are gone. */
    (void)fry_cuda_enter(&scope, device->context);
    give_graph(device, graph);
    fry_cuda_leave(&scope);
}

/* ---- beginning them ---- */

CUresult fry_cuda_graph_launch(fry_graph *graph, CUstream native, const char **call_p)
{
    CUresult result;
    *call_p = "cuGraphLaunch";
    FRY_CUDA_ISSUE(result, fry_cuda.cuGraphLaunch(graph->launched, native));
    return result;
}

static CUresult launch_enqueued(fry_graph *graph, CUstream native, const char **call_p)
{
    CUresult result = CUDA_SUCCESS;
    (void)pthread_mutex_lock(&graph->lock);
    if (graph->enqueued == NULL) {
        *call_p = "cuGraphInstantiate";
        result = fry_cuda.cuGraphInstantiate(&graph->enqueued, graph->captured, 0);
    }
    if (result == CUDA_SUCCESS) {
        *call_p = "cuGraphLaunch";
        result = fry_cuda.cuGraphLaunch(graph->enqueued, native);
    }
    (void)pthread_mutex_unlock(&graph->lock);
    return result;
}

static CUresult submit_copies(const fry_graph *graph, CUstream native, const char **call_p)
{
    CUresult result = CUDA_SUCCESS;
    size_t entries = 0;
    for (size_t i = 0; i < graph->count && result == CUDA_SUCCESS; i++)
        result = fry_cuda_submit(native, &graph->copies[i].copy, graph->pitch_max_bytes, call_p,
                                 &entries);
    return result;
}

static CUresult check_context(const fry_cuda_device *device, CUstream native, const char **call_p)
{
    CUcontext context = NULL;
    *call_p = "cuStreamGetCtx";
    CUresult result = fry_cuda.cuStreamGetCtx(native, &context);
    if (result != CUDA_SUCCESS || context == device->context)
        return result;
    *call_p = "a stream of another device or context";
    return CUDA_ERROR_INVALID_CONTEXT;
}

/* In a scope. */
static CUresult enqueue(const fry_cuda_device *device, fry_graph *graph, CUstream native,
                        const char **call_p)
{
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    *call_p = "cuStreamIsCapturing";
    CUresult result = fry_cuda.cuStreamIsCapturing(native, &capture);
    if (result != CUDA_SUCCESS)
        return result;
    result = check_context(device, native, call_p);
    if (result != CUDA_SUCCESS)
        return result;
    /* The driver refuses a copy into an invalid capture, and says so. */
    return capture != CU_STREAM_CAPTURE_STATUS_NONE ? submit_copies(graph, native, call_p)
                                                    : launch_enqueued(graph, native, call_p);
}

ferry_status fry_cuda_graph_enqueue(fry_device *base, fry_graph *graph, void *native_stream,
                                    fry_fault *fault)
{
    fry_cuda_device *device = fry_cuda_device_of(base);
    fry_cuda_scope scope;
    const char *call = NULL;
    ferry_status status = fry_cuda_call_enter(device, &scope, fault);
    if (status == FERRY_OK) {
        CUresult result = enqueue(device, graph, native_stream, &call);
        if (result != CUDA_SUCCESS)
            status = fry_cuda_call_refuse(device, result, call, fault);
    }
    fry_cuda_leave(&scope);
    return status;
}
