/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver's functions, found at run time. Only the driver, not the runtime library: so the
 * module works with any runtime that a program has, never touches a thread's last error of the
 * runtime, and can say itself that there is no driver. The runtime's streams and events are the
 * driver's own, and the module takes these.
 */
#ifndef FRY_GPU_CUDA_DRIVER_H
#define FRY_GPU_CUDA_DRIVER_H

#include "gpu/device.h"

#include <cuda.h>

/*
 * Functions that every usable driver has, with the version in which each got the form that cuda.h
 * declares. Macros of cuda.h rename some of them (cuMemFree is cuMemFree_v2), also here and at
 * their calls; only the quoted names stay.
 */
#define FRY_CUDA_FUNCTION_MAP(X)                                                                   \
    X(cuInit, 2000)                                                                                \
    X(cuGetErrorName, 6000)                                                                        \
    X(cuGetErrorString, 6000)                                                                      \
    X(cuDeviceGetCount, 2000)                                                                      \
    X(cuDeviceGet, 2000)                                                                           \
    X(cuDeviceGetName, 2000)                                                                       \
    X(cuDeviceGetAttribute, 2000)                                                                  \
    X(cuDeviceTotalMem, 3020)                                                                      \
    X(cuDeviceCanAccessPeer, 4000)                                                                 \
    X(cuDevicePrimaryCtxRetain, 7000)                                                              \
    X(cuDevicePrimaryCtxRelease, 11000)                                                            \
    X(cuCtxPushCurrent, 4000)                                                                      \
    X(cuCtxPopCurrent, 4000)                                                                       \
    X(cuCtxGetCurrent, 4000)                                                                       \
    X(cuCtxSetCurrent, 4000)                                                                       \
    X(cuCtxGetDevice, 2000)                                                                        \
    X(cuCtxGetStreamPriorityRange, 5050)                                                           \
    X(cuCtxEnablePeerAccess, 4000)                                                                 \
    X(cuThreadExchangeStreamCaptureMode, 10010)                                                    \
    X(cuStreamCreateWithPriority, 5050)                                                            \
    X(cuStreamDestroy, 4000)                                                                       \
    X(cuStreamQuery, 2000)                                                                         \
    X(cuStreamSynchronize, 2000)                                                                   \
    X(cuStreamWaitEvent, 3020)                                                                     \
    X(cuStreamGetId, 12000)                                                                        \
    X(cuStreamGetCtx, 9020)                                                                        \
    X(cuStreamIsCapturing, 10000)                                                                  \
    X(cuStreamWriteValue32, 11070)                                                                 \
    X(cuStreamWaitValue32, 11070)                                                                  \
    X(cuEventCreate, 2000)                                                                         \
    X(cuEventDestroy, 4000)                                                                        \
    X(cuEventRecord, 2000)                                                                         \
    X(cuEventQuery, 2000)                                                                          \
    X(cuEventSynchronize, 2000)                                                                    \
    X(cuMemcpyAsync, 4000)                                                                         \
    X(cuMemcpy2DAsync, 3020)                                                                       \
    X(cuMemAlloc, 3020)                                                                            \
    X(cuMemFree, 3020)                                                                             \
    X(cuMemAllocFromPoolAsync, 11020)                                                              \
    X(cuMemFreeAsync, 11020)                                                                       \
    X(cuMemPoolCreate, 11020)                                                                      \
    X(cuMemPoolDestroy, 11020)                                                                     \
    X(cuMemPoolSetAttribute, 11020)                                                                \
    X(cuMemPoolGetAttribute, 11020)                                                                \
    X(cuMemPoolSetAccess, 11020)                                                                   \
    X(cuMemPoolTrimTo, 11020)                                                                      \
    X(cuMemHostAlloc, 2020)                                                                        \
    X(cuMemFreeHost, 2000)                                                                         \
    X(cuMemHostRegister, 6050)                                                                     \
    X(cuMemHostUnregister, 4000)                                                                   \
    X(cuMemHostGetDevicePointer, 3020)                                                             \
    X(cuMemGetInfo, 3020)                                                                          \
    X(cuPointerGetAttributes, 7000)

/* Functions that a driver may lack; the pointer is then NULL. */
#define FRY_CUDA_OPTIONAL_MAP(X)                                                                   \
    X(cuMemcpyBatchAsync, 13000)                                                                   \
    X(cuIpcGetMemHandle, 4010)                                                                     \
    X(cuIpcOpenMemHandle, 11000)                                                                   \
    X(cuIpcCloseMemHandle, 4010)                                                                   \
    X(cuStreamBeginCapture, 10010)                                                                 \
    X(cuStreamEndCapture, 10000)                                                                   \
    X(cuGraphInstantiate, 12000)                                                                   \
    X(cuGraphLaunch, 10000)                                                                        \
    X(cuGraphDestroy, 10000)                                                                       \
    X(cuGraphExecDestroy, 10000)

#define FRY_CUDA_FIELD_(name, version) __typeof__(&name) name;
typedef struct fry_cuda_functions {
    FRY_CUDA_FUNCTION_MAP(FRY_CUDA_FIELD_)
    FRY_CUDA_OPTIONAL_MAP(FRY_CUDA_FIELD_)
} fry_cuda_functions;
#undef FRY_CUDA_FIELD_

/* Set when fry_cuda_load has succeeded. */
extern fry_cuda_functions fry_cuda;

/*
 * Finds and starts the driver, once a process. True: it exists and has *count_p devices. *text_p
 * says why not, or which driver it is and what it lacks; it lives as long as the process. Any
 * thread; the first call blocks for the driver.
 */
bool fry_cuda_load(uint32_t *count_p, const char **text_p);

/* Hardware queues of a context: CUDA_DEVICE_MAX_CONNECTIONS as it was when the driver was loaded.
 */
uint32_t fry_cuda_queue_count(void);

/* The version of the loaded driver, for example "CUDA 13.0". Lives as long as the process. */
const char *fry_cuda_driver_text(void);

/*
 * Makes `fault`, which may be NULL, of a status and a call's answer: "cuEventQuery:
 * CUDA_ERROR_ILLEGAL_ADDRESS, an illegal memory access was encountered". Returns the status.
 */
ferry_status fry_cuda_tell(fry_fault *fault, ferry_status status, CUresult result,
                           const char *call);

/*
 * Whether a result means that only the call was refused. Otherwise everything in the context is
 * lost, or nobody can tell. For a query: any result except CUDA_ERROR_NOT_READY.
 */
bool fry_cuda_is_refusal(CUresult result);

#endif
