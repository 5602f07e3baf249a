/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver's functions by themselves, for ferry_probe: what it asks is asked of the driver,
 * and a machine without the CUDA runtime can be asked too. ferry's own table (gpu/) is a module's
 * and out of reach here; this one also has what ferry does not call yet.
 */
#ifndef FRY_BENCH_RIVALS_CUDA_DRIVER_H
#define FRY_BENCH_RIVALS_CUDA_DRIVER_H

#include <cuda.h>
#include <stdbool.h>

/*
 * With the version in which each got the form that cuda.h declares. cuda.h's macros rename some
 * (cuMemFree is cuMemFree_v2), here and where they are called; only the names in quotes stay.
 */
#define DRIVER_CALL_MAP(X)                                                                         \
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
    X(cuCtxCreate, 12050)                                                                          \
    X(cuCtxPushCurrent, 4000)                                                                      \
    X(cuCtxPopCurrent, 4000)                                                                       \
    X(cuCtxSetCurrent, 4000)                                                                       \
    X(cuCtxGetCurrent, 4000)                                                                       \
    X(cuCtxGetDevice, 2000)                                                                        \
    X(cuCtxGetStreamPriorityRange, 5050)                                                           \
    X(cuCtxEnablePeerAccess, 4000)                                                                 \
    X(cuCtxSynchronize, 2000)                                                                      \
    X(cuThreadExchangeStreamCaptureMode, 10010)                                                    \
    X(cuModuleLoadData, 2000)                                                                      \
    X(cuModuleGetFunction, 2000)                                                                   \
    X(cuLaunchKernel, 4000)                                                                        \
    X(cuStreamCreateWithPriority, 5050)                                                            \
    X(cuStreamDestroy, 4000)                                                                       \
    X(cuStreamQuery, 2000)                                                                         \
    X(cuStreamSynchronize, 2000)                                                                   \
    X(cuStreamWaitEvent, 3020)                                                                     \
    X(cuStreamGetId, 12000)                                                                        \
    X(cuStreamGetCtx, 9020)                                                                        \
    X(cuStreamIsCapturing, 10000)                                                                  \
    X(cuStreamBeginCapture, 10010)                                                                 \
    X(cuStreamEndCapture, 10000)                                                                   \
    X(cuGraphDestroy, 10000)                                                                       \
    X(cuGraphInstantiate, 12000)                                                                   \
    X(cuGraphExecDestroy, 10000)                                                                   \
    X(cuGraphLaunch, 10000)                                                                        \
    X(cuStreamWriteValue32, 11070)                                                                 \
    X(cuStreamWaitValue32, 11070)                                                                  \
    X(cuEventCreate, 2000)                                                                         \
    X(cuEventDestroy, 4000)                                                                        \
    X(cuEventRecord, 2000)                                                                         \
    X(cuEventQuery, 2000)                                                                          \
    X(cuEventSynchronize, 2000)                                                                    \
    X(cuEventElapsedTime, 2000)                                                                    \
    X(cuMemcpyAsync, 4000)                                                                         \
    X(cuMemcpy2DAsync, 3020)                                                                       \
    X(cuMemcpyBatchAsync, 13000)                                                                   \
    X(cuMemAlloc, 3020)                                                                            \
    X(cuMemFree, 3020)                                                                             \
    X(cuMemGetAddressRange, 3020)                                                                  \
    X(cuMemAllocFromPoolAsync, 11020)                                                              \
    X(cuMemFreeAsync, 11020)                                                                       \
    X(cuMemPoolCreate, 11020)                                                                      \
    X(cuMemPoolDestroy, 11020)                                                                     \
    X(cuMemPoolSetAttribute, 11020)                                                                \
    X(cuMemPoolGetAttribute, 11020)                                                                \
    X(cuMemPoolSetAccess, 11020)                                                                   \
    X(cuMemPoolTrimTo, 11020)                                                                      \
    X(cuMemPoolExportToShareableHandle, 11020)                                                     \
    X(cuMemPoolImportFromShareableHandle, 11020)                                                   \
    X(cuMemPoolExportPointer, 11020)                                                               \
    X(cuMemPoolImportPointer, 11020)                                                               \
    X(cuMemHostAlloc, 2020)                                                                        \
    X(cuMemFreeHost, 2000)                                                                         \
    X(cuMemHostRegister, 6050)                                                                     \
    X(cuMemHostUnregister, 4000)                                                                   \
    X(cuMemHostGetDevicePointer, 3020)                                                             \
    X(cuMemGetInfo, 3020)                                                                          \
    X(cuPointerGetAttributes, 7000)                                                                \
    X(cuIpcGetMemHandle, 4010)                                                                     \
    X(cuIpcOpenMemHandle, 11000)                                                                   \
    X(cuIpcCloseMemHandle, 4010)                                                                   \
    X(cuIpcGetEventHandle, 4010)                                                                   \
    X(cuIpcOpenEventHandle, 4010)

#define DRIVER_FIELD_(name, version) __typeof__(&name) name;
typedef struct driver_calls {
    DRIVER_CALL_MAP(DRIVER_FIELD_)
} driver_calls;
#undef DRIVER_FIELD_

/* What the driver lacks is NULL. */
extern driver_calls driver;

/* Once a process. False: there is none, and why; the reason lives as long as the process. */
bool driver_find(const char **reason);

/* "CUDA_ERROR_INVALID_VALUE". */
const char *driver_error_name(CUresult result);

#endif
