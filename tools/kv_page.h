/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of pages, of which each word says whose it is and where it stands. */
#ifndef KV_PAGE_H
#define KV_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whose page it is. */
typedef struct kv_page {
    uint32_t rank;
    uint32_t layer;
    uint32_t index; /* in the layer of its request */
    uint32_t reserved;
    uint64_t request;
} kv_page;

/* bytes: aligned to 8; size_bytes: a multiple of 8 */
void kv_page_fill(const kv_page *page, void *bytes, size_t size_bytes);

/* Looks at every byte. */
bool kv_page_is_right(const kv_page *page, const void *bytes, size_t size_bytes);

#endif
