/* SPDX-License-Identifier: Apache-2.0 */
/* Moving bytes on the host, a chunk at a time. */
#ifndef FRY_GPU_HOST_COPY_H
#define FRY_GPU_HOST_COPY_H

#include "gpu/device.h"

/*
 * How much is copied between two looks at a cancel. The C library's memcpy chooses how to copy by
 * the size it is told; a chunk this long gets what the whole copy would have got on most machines,
 * and costs under a millisecond.
 */
#define FRY_HOST_CHUNK_BYTES ((size_t)4 << 20)

/*
 * Copies of this size and up go past the caches. memcpy would do that too, but from a size of its
 * own (3/4 of a thread's share of the last cache: from about 1 MiB to over 100 MiB) which a chunk
 * may never reach; then chunks alone would take half as long again as one memcpy.
 */
#define FRY_HOST_STREAMED_BYTES ((size_t)32 << 20)

/*
 * Copies the next chunk of a copy of which `copied_bytes` have been, and more are left: about
 * FRY_HOST_CHUNK_BYTES of one row or of many. Returns how much. The bytes are there for whoever
 * sees a release store that the caller makes afterwards.
 */
size_t fry_host_copy_chunk(const fry_copy *copy, size_t copied_bytes);

/* Copies all of a small one. */
void fry_host_copy_whole(const fry_copy *copy);

#endif
