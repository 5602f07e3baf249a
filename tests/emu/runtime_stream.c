/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events, capture and graphs. The handles are the driver's own. */
#include "tests/emu/runtime.h"

/* Streams. */

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    RT_FORWARD(cuStreamCreate(stream, CU_STREAM_DEFAULT));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
    RT_FORWARD(cuStreamCreate(stream, flags));
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority)
{
    RT_FORWARD(cuStreamCreateWithPriority(stream, flags, priority));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    if (stream == NULL)
        return rt_error(cudaErrorInvalidResourceHandle);
    RT_FORWARD(cuStreamDestroy(stream));
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    RT_FORWARD(cuStreamQuery(stream));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    RT_FORWARD(cuStreamSynchronize(stream));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    RT_FORWARD(cuStreamWaitEvent(stream, event, flags));
}

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *id)
{
    RT_FORWARD(cuStreamGetId(stream, id));
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority)
{
    RT_FORWARD(cuStreamGetPriority(stream, priority));
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int *flags)
{
    RT_FORWARD(cuStreamGetFlags(stream, flags));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *arg)
{
    RT_FORWARD(cuLaunchHostFunc(stream, function, arg));
}

/* Events. */

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    RT_FORWARD(cuEventCreate(event, CU_EVENT_DEFAULT));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    RT_FORWARD(cuEventCreate(event, flags));
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    if (event == NULL)
        return rt_error(cudaErrorInvalidResourceHandle);
    RT_FORWARD(cuEventDestroy(event));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    RT_FORWARD(cuEventRecord(event, stream));
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags)
{
    RT_FORWARD(cuEventRecordWithFlags(event, stream, flags));
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    RT_FORWARD(cuEventQuery(event));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    RT_FORWARD(cuEventSynchronize(event));
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end)
{
    RT_FORWARD(cuEventElapsedTime(milliseconds, start, end));
}

/* Capture. */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    RT_FORWARD(cuStreamBeginCapture(stream, (CUstreamCaptureMode)mode));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    RT_FORWARD(cuStreamEndCapture(stream, graph));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    CUstreamCaptureStatus said = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = rt_ready();
    if (result == CUDA_SUCCESS)
        result = cuStreamIsCapturing(stream, status == NULL ? NULL : &said);
    if (result == CUDA_SUCCESS)
        *status = (enum cudaStreamCaptureStatus)said;
    return rt_result(result);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    if (mode == NULL)
        return rt_error(cudaErrorInvalidValue);
    CUstreamCaptureMode exchanged = (CUstreamCaptureMode)*mode;
    CUresult result = cuInit(0);
    if (result == CUDA_SUCCESS)
        result = cuThreadExchangeStreamCaptureMode(&exchanged);
    if (result == CUDA_SUCCESS)
        *mode = (enum cudaStreamCaptureMode)exchanged;
    return rt_result(result);
}

/* Graphs. */

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph,
                                 unsigned long long flags)
{
    RT_FORWARD(cuGraphInstantiate(executable, graph, flags));
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *executable, cudaGraph_t graph,
                                          unsigned long long flags)
{
    RT_FORWARD(cuGraphInstantiate(executable, graph, flags));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream)
{
    RT_FORWARD(cuGraphLaunch(executable, stream));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable)
{
    RT_FORWARD(cuGraphExecDestroy(executable));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    RT_FORWARD(cuGraphDestroy(graph));
}
