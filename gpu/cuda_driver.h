/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver's functions, found at run time. The driver alone, not the runtime library: so the
 * module runs beside whatever runtime a program has, never touches the runtime's last error of a
 * thread, and can say itself that there is no driver. Streams and events of the runtime are the
 * driver's own, and are what the module is given.
 */
#ifndef FRY_GPU_CUDA_DRIVER_H
#define FRY_GPU_CUDA_DRIVER_H

#include "gpu/device.h"

#include <cuda.h>

/*
 * What every driver that will do has, with the version in which the function got the form that
 * cuda.h declares. cuda.h's macros rename some of these (cuMemFree is cuMemFree_v2), also here and
 * where they are called; only the names in quotes stay.
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

/* What a driver may lack; then the pointer is NULL. */
#define FRY_CUDA_OPTIONAL_MAP(X) X(cuMemcpyBatchAsync, 13000)

#define FRY_CUDA_FIELD_(name, version) __typeof__(&name) name;
typedef struct fry_cuda_functions {
    FRY_CUDA_FUNCTION_MAP(FRY_CUDA_FIELD_)
    FRY_CUDA_OPTIONAL_MAP(FRY_CUDA_FIELD_)
} fry_cuda_functions;
#undef FRY_CUDA_FIELD_

/* Filled in once fry_cuda_load has succeeded. */
extern fry_cuda_functions fry_cuda;

/*
 * Finds and starts the driver, once a process. True: it is there, with *count_p devices. *text_p
 * says why not, else which driver it is and what it lacks; it lives as long as the process. Any
 * thread; blocks for the driver the first time.
 */
bool fry_cuda_load(uint32_t *count_p, const char **text_p);

/* "CUDA 13.0": what the driver is of; once it is loaded. Lives as long as the process. */
const char *fry_cuda_driver_text(void);

/*
 * Says what a call answered: "cuEventQuery: CUDA_ERROR_ILLEGAL_ADDRESS, an illegal memory access
 * was encountered". call: static; error may be NULL.
 */
void fry_cuda_tell(fry_native_error *error, CUresult result, const char *call);

/*
 * Whether the call was refused and the context lives on; otherwise everything in it is lost, or
 * nobody can tell. Of a query that is not CUDA_ERROR_NOT_READY.
 */
bool fry_cuda_is_refusal(CUresult result);

#endif
