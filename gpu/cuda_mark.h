/* SPDX-License-Identifier: Apache-2.0 */
/* How marks are made, and which events they are made with. What they are stands atop cuda_stream.c.
 */
#ifndef FRY_GPU_CUDA_MARK_H
#define FRY_GPU_CUDA_MARK_H

#include "gpu/cuda.h"

/* An event for the slot, if it has none. In a scope. */
CUresult fry_cuda_mark_make_event(fry_cuda_slot *slot);

/*
 * Records and writes the number of `issued` on `native`, which is the stream itself or what an
 * outside one stands for. In a scope; by who may write `issued`. What it answers is of the record.
 */
CUresult fry_cuda_stream_mark(fry_cuda_stream *stream, CUstream native);

/* The same on a stream of ferry's own, with the baton, and with an event of a mark that has fired.
 */
CUresult fry_cuda_mark_newest(fry_cuda_stream *stream);

#endif
