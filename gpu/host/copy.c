/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/host/copy.h"

#include "base/lf.h"
#include "gpu/device.h"

#include <stdint.h>
#include <string.h>

/* The block size of streaming: a shorter row would get only the fence. */
#define BLOCK_BYTES ((size_t)32 << 10)

/* ThreadSanitizer does not see streaming stores, so memcpy copies everything under it. */
#if defined(__SSE2__) && !FRY_TSAN

#include <emmintrin.h>

#define LINE_BYTES 64
#define RUN_BYTES                                                                                  \
    ((size_t)4 * LINE_BYTES) /* what is copied of a page before the next one's turn                \
                              */
#define PAGE_BYTES ((size_t)4096)

/* `to` is aligned to 16 bytes. */
static inline void stream_line(char *to, const char *from)
{
    __m128i a = _mm_loadu_si128((const __m128i *)(const void *)from);
    __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(from + 16));
    __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(from + 32));
    __m128i d = _mm_loadu_si128((const __m128i *)(const void *)(from + 48));
    _mm_stream_si128((__m128i *)(void *)to, a);
    _mm_stream_si128((__m128i *)(void *)(to + 16), b);
    _mm_stream_si128((__m128i *)(void *)(to + 32), c);
    _mm_stream_si128((__m128i *)(void *)(to + 48), d);
}

/*
 * Copies a block's pages side by side, not one after the other: that keeps several pages of DRAM
 * open and several hardware prefetchers busy, which is worth a third of the bandwidth.
 */
static void stream_block(char *to, const char *from)
{
    for (size_t run = 0; run < PAGE_BYTES; run += RUN_BYTES) {
        for (size_t page = 0; page < BLOCK_BYTES; page += PAGE_BYTES) {
            size_t at = page + run;
            for (size_t line = 0; line < RUN_BYTES; line += LINE_BYTES) {
                /* After a page's last run comes another block. */
                if (run + RUN_BYTES < PAGE_BYTES)
                    _mm_prefetch(from + at + RUN_BYTES + line, _MM_HINT_T0);
            }
            for (size_t line = 0; line < RUN_BYTES; line += LINE_BYTES)
                stream_line(to + at + line, from + at + line);
        }
    }
}

static void stream_chunk(char *to, const char *from, size_t size_bytes)
{
    size_t head = (size_t)(-(uintptr_t)to % LINE_BYTES);
    if (head > size_bytes)
        head = size_bytes;
    memcpy(to, from, head);
    size_t done = head;
    for (; size_bytes - done >= BLOCK_BYTES; done += BLOCK_BYTES)
        stream_block(to + done, from + done);
    /* Streaming stores are weakly ordered: a release store alone does not wait for them. */
    _mm_sfence();
    memcpy(to + done, from + done, size_bytes - done);
}

#else

static void stream_chunk(char *to, const char *from, size_t size_bytes)
{
    memcpy(to, from, size_bytes);
}

#endif

static void copy_part(char *to, const char *from, size_t size_bytes, bool is_streamed)
{
    if (is_streamed)
        stream_chunk(to, from, size_bytes);
    else
        memcpy(to, from, size_bytes);
}

size_t fry_host_copy_chunk(const fry_copy *copy, size_t copied_bytes)
{
    char *dst = copy->dst;
    const char *src = copy->src;
    size_t row_bytes = fry_copy_row_bytes(copy);
    bool is_streamed = copy->size_bytes >= FRY_HOST_STREAMED_BYTES && row_bytes >= BLOCK_BYTES;
    size_t chunk_bytes = copy->size_bytes - copied_bytes;
    if (chunk_bytes > FRY_HOST_CHUNK_BYTES)
        chunk_bytes = FRY_HOST_CHUNK_BYTES;
    if (copy->row_count == 1) {
        copy_part(dst + copied_bytes, src + copied_bytes, chunk_bytes, is_streamed);
        return chunk_bytes;
    }
    size_t row = copied_bytes / row_bytes, at = copied_bytes % row_bytes;
    for (size_t left = chunk_bytes; left > 0; row++, at = 0) {
        size_t part_bytes = row_bytes - at < left ? row_bytes - at : left;
        copy_part(dst + row * copy->dst_pitch_bytes + at, src + row * copy->src_pitch_bytes + at,
                  part_bytes, is_streamed);
        left -= part_bytes;
    }
    return chunk_bytes;
}

void fry_host_copy_whole(const fry_copy *copy)
{
    size_t row_bytes = fry_copy_row_bytes(copy);
    for (size_t row = 0; row < copy->row_count; row++)
        memcpy((char *)copy->dst + row * copy->dst_pitch_bytes,
               (const char *)copy->src + row * copy->src_pitch_bytes, row_bytes);
}
