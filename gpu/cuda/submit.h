/* SPDX-License-Identifier: Apache-2.0 */
/* Giving one copy to the driver. */
#ifndef FRY_GPU_CUDA_SUBMIT_H
#define FRY_GPU_CUDA_SUBMIT_H

#include "gpu/device.h"

#include <cuda.h>

/*
 * Puts a plain copy or one of rows on a stream, in a scope of its device. pitch_max_bytes: the
 * device's. Returns the driver's answer; *call_p is the call that gave it, and *entries_p grows by
 * what is in the stream now, also after a failure.
 */
CUresult fry_cuda_submit(CUstream native, const fry_copy *copy, size_t pitch_max_bytes,
                         const char **call_p, size_t *entries_p);

#endif
