/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making marks, and the events for them. The comment at the top of stream.c says what marks
 * are.
 */
#ifndef FRY_GPU_CUDA_MARK_H
#define FRY_GPU_CUDA_MARK_H

#include "gpu/cuda/stream.h"

/* Makes an event for the slot if it has none. In a scope. */
CUresult fry_cuda_mark_make_event(fry_cuda_slot *slot);

/*
 * Records an event and writes the number of `issued` on `native`, which is the stream itself or the
 * stream that an outside stream stands for. In a scope; by the thread that may write `issued`.
 * Returns the answer of the record.
 */
CUresult fry_cuda_stream_mark(fry_cuda_stream *stream, CUstream native);

/*
 * The same on a stream of ferry's own, with the baton, reusing the event of a mark that has fired.
 */
CUresult fry_cuda_mark_newest(fry_cuda_stream *stream);

#endif
