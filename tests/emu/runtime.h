/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcudart.so.13 of the emulator: CUDA's runtime as a thin layer over libcuda.so.1, as the real
 * one is. It keeps what is the runtime's own: each thread's device and last error, and one
 * reference to the primary context of every device it was used with. runtime.map says what is
 * exported.
 */
#ifndef EMU_RUNTIME_H
#define EMU_RUNTIME_H

#include <cuda.h>
#include <cuda_runtime_api.h>

/*
 * Makes an error the calling thread's last, and returns it. Success leaves the last error as it is;
 * cudaErrorNotReady is kept as any other is.
 */
cudaError_t rt_error(cudaError_t error);

/* The same with what the driver said. */
cudaError_t rt_result(CUresult result);

/*
 * Sees to it that the driver is initialised and that the thread has a context: the one that is
 * current, whoever made it so; without one, the primary context of the thread's device.
 */
CUresult rt_ready(void);

/* The primary context of a device; retained at the first call, and for as long as the process
 * lives. */
CUresult rt_primary(int device, CUcontext *context_p);

/* Takes away all that the device's primary context has, if this runtime ever used it. */
CUresult rt_reset(int device);

/* The whole of a function that is one call of the driver in the current context. */
#define RT_FORWARD(call)                                                                           \
    do {                                                                                           \
        CUresult rt_said = rt_ready();                                                             \
        return rt_result(rt_said == CUDA_SUCCESS ? (call) : rt_said);                              \
    } while (0)

#endif
