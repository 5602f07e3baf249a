/* SPDX-License-Identifier: Apache-2.0 */
/* Events on users' streams. */
#ifndef FRY_GPU_CUDA_EVENT_H
#define FRY_GPU_CUDA_EVENT_H

#include "gpu/device.h"

/* fry_device_ops.event_record, .event_entered, .event_wrap, .stream_wait */
ferry_status fry_cuda_event_record(fry_device *device, void *native_stream, fry_event *event_p,
                                   fry_fault *fault);
void fry_cuda_event_entered(fry_event event);
ferry_status fry_cuda_event_wrap(fry_device *device, void *native_event, void *native_stream,
                                 fry_event *event_p, fry_fault *fault);
ferry_status fry_cuda_stream_wait(fry_device *device, void *native_stream, fry_event event,
                                  fry_fault *fault);

#endif
