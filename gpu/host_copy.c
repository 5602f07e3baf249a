/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/host_copy.h"

#include "base/lf.h"

#include <stdint.h>
#include <string.h>

/* ThreadSanitizer does not see streaming stores: under it memcpy does everything. */
#if defined(__SSE2__) && !FRY_TSAN

#include <emmintrin.h>

#define LINE_BYTES 64
#define RUN_BYTES                                                                                  \
    ((size_t)4 * LINE_BYTES) /* what is copied of a page before the next one's turn                \
                              */
#define PAGE_BYTES ((size_t)4096)
#define BLOCK_BYTES (8 * PAGE_BYTES)

/* to is aligned to 16 bytes. */
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
 * A block's pages side by side rather than one after the other: that keeps several pages of DRAM
 * open and as many hardware prefetchers busy, which is worth a third of the bandwidth.
 */
static void stream_block(char *to, const char *from)
{
    for (size_t run = 0; run < PAGE_BYTES; run += RUN_BYTES) {
        for (size_t page = 0; page < BLOCK_BYTES; page += PAGE_BYTES) {
            size_t at = page + run;
            for (size_t line = 0; line < RUN_BYTES; line += LINE_BYTES) {
                /* The last run of a page has its next one in another block. */
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

void fry_host_copy_chunk(void *dst, const void *src, size_t size_bytes, bool is_streamed)
{
    if (is_streamed)
        stream_chunk(dst, src, size_bytes);
    else
        memcpy(dst, src, size_bytes);
}
