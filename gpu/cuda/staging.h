/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that works off an engine's staged streams (gpu/cuda/staged.h), and the engine's view
 * of these streams. The thread, `ferry-cuda`, is made with the first copy. It sleeps while there is
 * none; while a device is at work it looks at growing intervals, at least once a millisecond.
 */
#ifndef FRY_GPU_CUDA_STAGING_H
#define FRY_GPU_CUDA_STAGING_H

#include "gpu/backend.h"

#define FRY_CUDA_STAGING_DEFAULT_BYTES ((size_t)16 << 20)
#define FRY_CUDA_STAGING_LEAST_BYTES ((size_t)64 << 10)
#define FRY_CUDA_STAGING_MOST_BYTES ((size_t)1 << 30)

typedef struct fry_cuda_device fry_cuda_device;
typedef struct fry_cuda_staging fry_cuda_staging;

/* Makes an engine's staging; NULL: no memory. It costs nothing until something is copied. */
fry_cuda_staging *fry_cuda_staging_open(fry_backend *backend);

/*
 * Gives the device its staged streams: device->staged, one for each way. The last step of opening a
 * device, because they can't be removed again. staging_bytes: their pinned memory; 0: the default.
 * One call at a time. FERRY_OK; FERRY_E_NO_MEMORY; FERRY_E_AGAIN: there are 64.
 */
ferry_status fry_cuda_staging_add(fry_cuda_staging *staging, fry_cuda_device *device,
                                  size_t staging_bytes);

/* Whether everything issued has fired. */
bool fry_cuda_staging_is_idle(const fry_cuda_staging *staging);

/* Ends the thread. The staging is idle. */
void fry_cuda_staging_stop(fry_cuda_staging *staging);

/*
 * Frees the staging, which was stopped, and its streams, while contexts still exist. NULL is
 * allowed.
 */
void fry_cuda_staging_close(fry_cuda_staging *staging);

/* fry_device_ops of the same names, for staged streams. */
ferry_status fry_cuda_staging_copy(fry_stream *stream, const fry_copy *copy, const fry_event *waits,
                                   size_t wait_count, uint64_t *sequence_p, fry_fault *fault);
void fry_cuda_staging_flush(fry_stream *stream);
bool fry_cuda_staging_can_wait(const fry_stream *stream, const fry_stream *other);
uint64_t fry_cuda_staging_fired(fry_stream *stream, ferry_status *status_p, fry_fault *fault);
ferry_status fry_cuda_staging_outcome(fry_stream *stream, uint64_t sequence, fry_fault *fault);
int64_t fry_cuda_staging_begun_ns(fry_stream *stream, uint64_t sequence);
void fry_cuda_staging_cancel(fry_stream *stream, uint64_t sequence);

#endif
