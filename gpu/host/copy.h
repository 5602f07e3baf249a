/* SPDX-License-Identifier: Apache-2.0 */
/* Moving bytes on the host, a chunk at a time. */
#ifndef FRY_GPU_HOST_COPY_H
#define FRY_GPU_HOST_COPY_H

#include "gpu/device.h"

/*
 * Bytes copied between two looks for a cancel. The C library's memcpy chooses its method by the
 * size; on most machines a chunk of this size gets the method of the whole copy, and it takes less
 * than a millisecond.
 */
#define FRY_HOST_CHUNK_BYTES ((size_t)4 << 20)

/*
 * Copies of this size and larger bypass the caches. memcpy would do that too, but above a size of
 * its own (3/4 of a thread's share of the last cache: from about 1 MiB to over 100 MiB) that a
 * chunk may never reach; chunks alone would then take 1.5 times as long as one memcpy.
 */
#define FRY_HOST_STREAMED_BYTES ((size_t)32 << 20)

/*
 * Copies the next chunk of a copy, of which `copied_bytes` have been copied and more are left:
 * about FRY_HOST_CHUNK_BYTES of one row or of several. Returns the chunk's size. The bytes are
 * visible to a thread that sees a release store that the caller makes afterwards.
 */
size_t fry_host_copy_chunk(const fry_copy *copy, size_t copied_bytes);

/* Copies all of a small copy. */
void fry_host_copy_whole(const fry_copy *copy);

#endif
