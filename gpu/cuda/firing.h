/* SPDX-License-Identifier: Apache-2.0 */
/* How far streams are. The comment at the top of firing.c says how that is found. */
#ifndef FRY_GPU_CUDA_FIRING_H
#define FRY_GPU_CUDA_FIRING_H

#include "gpu/cuda/stream.h"

/* fry_device_ops.fired */
uint64_t fry_cuda_stream_fired(fry_stream *stream, ferry_status *status_p, fry_fault *fault);

/* Whether nothing is under way, including its words. */
bool fry_cuda_stream_is_idle(fry_cuda_stream *stream);

#endif
