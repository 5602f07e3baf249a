/* SPDX-License-Identifier: Apache-2.0 */
/* Copies that the driver has prepared together, and begins at one command. */
#ifndef FRY_GPU_CUDA_GRAPH_H
#define FRY_GPU_CUDA_GRAPH_H

#include "gpu/device.h"

#include <cuda.h>

/* fry_device_ops.graph_make, .graph_free, .graph_enqueue */
ferry_status fry_cuda_graph_make(fry_device *device, const fry_graph_copy *copies, size_t count,
                                 fry_graph **graph_p, fry_fault *fault);
void fry_cuda_graph_free(fry_device *device, fry_graph *graph);
ferry_status fry_cuda_graph_enqueue(fry_device *device, fry_graph *graph, void *native_stream,
                                    fry_fault *fault);

/* Begins them on a stream of ferry's: in a scope, with the baton. *call_p: the call, static. */
CUresult fry_cuda_graph_launch(fry_graph *graph, CUstream native, const char **call_p);

#endif
