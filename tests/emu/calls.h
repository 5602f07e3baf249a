/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every call of the emulated driver: its name without a suffix, since which CUDA it has the form
 * that cuda.h gives it, and what it is to a capture or a script.
 */
#ifndef EMU_CALLS_H
#define EMU_CALLS_H

#define EMU_CALL_PLAIN 0
#define EMU_CALL_EARLY 1  /* works before cuInit and in the child of a fork */
#define EMU_CALL_UNSAFE 2 /* potentially unsafe while a stream is captured */

#define EMU_CALLS(X)                                                                               \
    X(cuInit, 2000, EMU_CALL_EARLY)                                                                \
    X(cuDriverGetVersion, 2020, EMU_CALL_EARLY)                                                    \
    X(cuGetProcAddress, 12000, EMU_CALL_EARLY)                                                     \
    X(cuGetErrorName, 6000, EMU_CALL_EARLY)                                                        \
    X(cuGetErrorString, 6000, EMU_CALL_EARLY)                                                      \
    X(cuDeviceGetCount, 2000, EMU_CALL_PLAIN)                                                      \
    X(cuDeviceGet, 2000, EMU_CALL_PLAIN)                                                           \
    X(cuDeviceGetName, 2000, EMU_CALL_PLAIN)                                                       \
    X(cuDeviceGetAttribute, 2000, EMU_CALL_PLAIN)                                                  \
    X(cuDeviceTotalMem, 3020, EMU_CALL_PLAIN)                                                      \
    X(cuDeviceGetUuid, 9020, EMU_CALL_PLAIN)                                                       \
    X(cuDeviceGetPCIBusId, 4010, EMU_CALL_PLAIN)                                                   \
    X(cuDeviceCanAccessPeer, 4000, EMU_CALL_PLAIN)                                                 \
    X(cuDeviceGetP2PAttribute, 8000, EMU_CALL_PLAIN)                                               \
    X(cuDevicePrimaryCtxRetain, 7000, EMU_CALL_PLAIN)                                              \
    X(cuDevicePrimaryCtxRelease, 7000, EMU_CALL_PLAIN)                                             \
    X(cuDevicePrimaryCtxGetState, 7000, EMU_CALL_PLAIN)                                            \
    X(cuDevicePrimaryCtxReset, 11000, EMU_CALL_PLAIN)                                              \
    X(cuCtxCreate, 12050, EMU_CALL_PLAIN)                                                          \
    X(cuCtxDestroy, 4000, EMU_CALL_PLAIN)                                                          \
    X(cuCtxPushCurrent, 4000, EMU_CALL_PLAIN)                                                      \
    X(cuCtxPopCurrent, 4000, EMU_CALL_PLAIN)                                                       \
    X(cuCtxGetCurrent, 4000, EMU_CALL_PLAIN)                                                       \
    X(cuCtxSetCurrent, 4000, EMU_CALL_PLAIN)                                                       \
    X(cuCtxGetDevice, 2000, EMU_CALL_PLAIN)                                                        \
    X(cuCtxGetId, 12000, EMU_CALL_PLAIN)                                                           \
    X(cuCtxGetFlags, 7000, EMU_CALL_PLAIN)                                                         \
    X(cuCtxGetApiVersion, 3020, EMU_CALL_PLAIN)                                                    \
    X(cuCtxSynchronize, 2000, EMU_CALL_UNSAFE)                                                     \
    X(cuCtxGetStreamPriorityRange, 5050, EMU_CALL_PLAIN)                                           \
    X(cuCtxEnablePeerAccess, 4000, EMU_CALL_PLAIN)                                                 \
    X(cuCtxDisablePeerAccess, 4000, EMU_CALL_PLAIN)                                                \
    X(cuStreamCreate, 2000, EMU_CALL_PLAIN)                                                        \
    X(cuStreamCreateWithPriority, 5050, EMU_CALL_PLAIN)                                            \
    X(cuStreamDestroy, 4000, EMU_CALL_PLAIN)                                                       \
    X(cuStreamQuery, 2000, EMU_CALL_UNSAFE)                                                        \
    X(cuStreamSynchronize, 2000, EMU_CALL_UNSAFE)                                                  \
    X(cuStreamWaitEvent, 3020, EMU_CALL_PLAIN)                                                     \
    X(cuStreamGetId, 12000, EMU_CALL_PLAIN)                                                        \
    X(cuStreamGetCtx, 9020, EMU_CALL_PLAIN)                                                        \
    X(cuStreamGetDevice, 12080, EMU_CALL_PLAIN)                                                    \
    X(cuStreamGetPriority, 5050, EMU_CALL_PLAIN)                                                   \
    X(cuStreamGetFlags, 5050, EMU_CALL_PLAIN)                                                      \
    X(cuStreamWriteValue32, 11070, EMU_CALL_PLAIN)                                                 \
    X(cuStreamWaitValue32, 11070, EMU_CALL_PLAIN)                                                  \
    X(cuStreamWriteValue64, 11070, EMU_CALL_PLAIN)                                                 \
    X(cuStreamWaitValue64, 11070, EMU_CALL_PLAIN)                                                  \
    X(cuLaunchHostFunc, 10000, EMU_CALL_PLAIN)                                                     \
    X(cuEventCreate, 2000, EMU_CALL_PLAIN)                                                         \
    X(cuEventDestroy, 4000, EMU_CALL_PLAIN)                                                        \
    X(cuEventRecord, 2000, EMU_CALL_PLAIN)                                                         \
    X(cuEventRecordWithFlags, 11010, EMU_CALL_PLAIN)                                               \
    X(cuEventQuery, 2000, EMU_CALL_UNSAFE)                                                         \
    X(cuEventSynchronize, 2000, EMU_CALL_UNSAFE)                                                   \
    X(cuEventElapsedTime, 2000, EMU_CALL_PLAIN)                                                    \
    X(cuMemAlloc, 3020, EMU_CALL_UNSAFE)                                                           \
    X(cuMemFree, 3020, EMU_CALL_UNSAFE)                                                            \
    X(cuMemAllocAsync, 11020, EMU_CALL_PLAIN)                                                      \
    X(cuMemAllocFromPoolAsync, 11020, EMU_CALL_PLAIN)                                              \
    X(cuMemFreeAsync, 11020, EMU_CALL_PLAIN)                                                       \
    X(cuDeviceGetDefaultMemPool, 11020, EMU_CALL_PLAIN)                                            \
    X(cuDeviceGetMemPool, 11020, EMU_CALL_PLAIN)                                                   \
    X(cuDeviceSetMemPool, 11020, EMU_CALL_PLAIN)                                                   \
    X(cuMemPoolCreate, 11020, EMU_CALL_PLAIN)                                                      \
    X(cuMemPoolDestroy, 11020, EMU_CALL_PLAIN)                                                     \
    X(cuMemPoolSetAttribute, 11020, EMU_CALL_PLAIN)                                                \
    X(cuMemPoolGetAttribute, 11020, EMU_CALL_PLAIN)                                                \
    X(cuMemPoolSetAccess, 11020, EMU_CALL_PLAIN)                                                   \
    X(cuMemPoolGetAccess, 11020, EMU_CALL_PLAIN)                                                   \
    X(cuMemPoolTrimTo, 11020, EMU_CALL_PLAIN)                                                      \
    X(cuMemHostAlloc, 2020, EMU_CALL_UNSAFE)                                                       \
    X(cuMemAllocHost, 3020, EMU_CALL_UNSAFE)                                                       \
    X(cuMemFreeHost, 2000, EMU_CALL_UNSAFE)                                                        \
    X(cuMemHostRegister, 6050, EMU_CALL_UNSAFE)                                                    \
    X(cuMemHostUnregister, 4000, EMU_CALL_UNSAFE)                                                  \
    X(cuMemHostGetDevicePointer, 3020, EMU_CALL_PLAIN)                                             \
    X(cuMemHostGetFlags, 2030, EMU_CALL_PLAIN)                                                     \
    X(cuMemGetAddressRange, 3020, EMU_CALL_PLAIN)                                                  \
    X(cuMemGetInfo, 3020, EMU_CALL_PLAIN)                                                          \
    X(cuPointerGetAttribute, 4000, EMU_CALL_PLAIN)                                                 \
    X(cuPointerGetAttributes, 7000, EMU_CALL_PLAIN)                                                \
    X(cuMemcpy, 4000, EMU_CALL_UNSAFE)                                                             \
    X(cuMemcpyAsync, 4000, EMU_CALL_PLAIN)                                                         \
    X(cuMemcpyHtoD, 3020, EMU_CALL_UNSAFE)                                                         \
    X(cuMemcpyDtoH, 3020, EMU_CALL_UNSAFE)                                                         \
    X(cuMemcpyDtoD, 3020, EMU_CALL_UNSAFE)                                                         \
    X(cuMemcpyHtoDAsync, 3020, EMU_CALL_PLAIN)                                                     \
    X(cuMemcpyDtoHAsync, 3020, EMU_CALL_PLAIN)                                                     \
    X(cuMemcpyDtoDAsync, 3020, EMU_CALL_PLAIN)                                                     \
    X(cuMemcpyPeer, 4000, EMU_CALL_UNSAFE)                                                         \
    X(cuMemcpyPeerAsync, 4000, EMU_CALL_PLAIN)                                                     \
    X(cuMemcpy2D, 3020, EMU_CALL_UNSAFE)                                                           \
    X(cuMemcpy2DUnaligned, 3020, EMU_CALL_UNSAFE)                                                  \
    X(cuMemcpy2DAsync, 3020, EMU_CALL_PLAIN)                                                       \
    X(cuMemcpyBatchAsync, 13000, EMU_CALL_PLAIN)                                                   \
    X(cuMemsetD8, 3020, EMU_CALL_UNSAFE)                                                           \
    X(cuMemsetD32, 3020, EMU_CALL_UNSAFE)                                                          \
    X(cuMemsetD8Async, 3020, EMU_CALL_PLAIN)                                                       \
    X(cuMemsetD32Async, 3020, EMU_CALL_PLAIN)                                                      \
    X(cuIpcGetMemHandle, 4010, EMU_CALL_PLAIN)                                                     \
    X(cuIpcOpenMemHandle, 11000, EMU_CALL_UNSAFE)                                                  \
    X(cuIpcCloseMemHandle, 4010, EMU_CALL_UNSAFE)                                                  \
    X(cuIpcGetEventHandle, 4010, EMU_CALL_PLAIN)                                                   \
    X(cuIpcOpenEventHandle, 4010, EMU_CALL_PLAIN)                                                  \
    X(cuStreamIsCapturing, 10000, EMU_CALL_PLAIN)                                                  \
    X(cuStreamGetCaptureInfo, 12030, EMU_CALL_PLAIN)                                               \
    X(cuStreamBeginCapture, 10010, EMU_CALL_PLAIN)                                                 \
    X(cuStreamEndCapture, 10000, EMU_CALL_PLAIN)                                                   \
    X(cuThreadExchangeStreamCaptureMode, 10010, EMU_CALL_PLAIN)                                    \
    X(cuModuleLoadData, 2000, EMU_CALL_PLAIN)                                                      \
    X(cuModuleLoadDataEx, 2010, EMU_CALL_PLAIN)                                                    \
    X(cuModuleUnload, 2000, EMU_CALL_PLAIN)                                                        \
    X(cuModuleGetFunction, 2000, EMU_CALL_PLAIN)                                                   \
    X(cuFuncGetName, 12030, EMU_CALL_PLAIN)                                                        \
    X(cuFuncGetModule, 11000, EMU_CALL_PLAIN)                                                      \
    X(cuFuncGetParamInfo, 12040, EMU_CALL_PLAIN)                                                   \
    X(cuLaunchKernel, 4000, EMU_CALL_PLAIN)                                                        \
    X(cuGraphInstantiate, 12000, EMU_CALL_PLAIN)                                                   \
    X(cuGraphInstantiateWithFlags, 11040, EMU_CALL_PLAIN)                                          \
    X(cuGraphLaunch, 10000, EMU_CALL_PLAIN)                                                        \
    X(cuGraphDestroy, 10000, EMU_CALL_PLAIN)                                                       \
    X(cuGraphExecDestroy, 10000, EMU_CALL_PLAIN)

#endif
