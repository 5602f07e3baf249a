/* SPDX-License-Identifier: Apache-2.0 */
/* A stream of a device for pieces of staged copies, with an event for each. */
#ifndef FRY_GPU_CUDA_TRACK_H
#define FRY_GPU_CUDA_TRACK_H

#include "gpu/cuda/driver.h"

#define FRY_CUDA_PIECES 32 /* under way at once */

typedef struct fry_cuda_device fry_cuda_device;

typedef struct fry_cuda_track {
    fry_cuda_device *device;
    CUstream native;
    CUevent events[FRY_CUDA_PIECES];
} fry_cuda_track;

/*
 * Makes a track. NULL: *result_p is the driver's answer, *call_p (static) the call;
 * CUDA_ERROR_OUT_OF_MEMORY also if ferry's own memory is missing.
 */
fry_cuda_track *fry_cuda_track_open(fry_cuda_device *device, CUresult *result_p,
                                    const char **call_p);

/* Frees an idle track; the driver's part of a lost device is left alone. NULL is allowed. */
void fry_cuda_track_close(fry_cuda_track *track);

/*
 * Copies rows of row_bytes from or to packed pinned memory. Rows too far apart for the driver go
 * one by one: a piece has few of these. In any scope.
 */
CUresult fry_cuda_track_copy(const fry_cuda_track *track, char *pinned, char *first,
                             size_t row_bytes, size_t row_count, size_t pitch_bytes,
                             bool is_to_device);

#endif
