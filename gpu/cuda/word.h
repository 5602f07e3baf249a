/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the words that streams write: without a call. */
#ifndef FRY_GPU_CUDA_WORD_H
#define FRY_GPU_CUDA_WORD_H

#include "gpu/cuda/stream.h"

/* How far the words say that the stream is; `fired` if no further. Any thread. */
uint64_t fry_cuda_word_read(const fry_cuda_stream *stream, uint64_t fired);

/* The last operation that is seen to have fired, without the baton and without a call. */
uint64_t fry_cuda_stream_peek(const fry_cuda_stream *stream);

/*
 * Whether the words of all marks are written; by the thread that may write `issued`, or when nobody
 * does. Nobody waits for words that were given up.
 */
bool fry_cuda_stream_has_words(const fry_cuda_stream *stream);
bool fry_cuda_stream_waits_for_no_word(const fry_cuda_stream *stream);

#endif
