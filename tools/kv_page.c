/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/kv_page.h"

#define STEP UINT64_C(0x9e3779b97f4a7c15) /* odd, so that no word of a page is like another */

static uint64_t mix(uint64_t value)
{
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

static uint64_t first_word(const kv_page *page)
{
    uint64_t word = mix(page->request + STEP);
    word = mix(word ^ ((uint64_t)page->rank << 32 | page->layer));
    return mix(word ^ page->index);
}

void kv_page_fill(const kv_page *page, void *bytes, size_t size_bytes)
{
    uint64_t *words = bytes;
    uint64_t word = first_word(page);
    for (size_t i = 0; i < size_bytes / sizeof(word); i++)
        words[i] = word + i * STEP;
}

bool kv_page_is_right(const kv_page *page, const void *bytes, size_t size_bytes)
{
    const uint64_t *words = bytes;
    uint64_t word = first_word(page);
    uint64_t differences = 0;
    for (size_t i = 0; i < size_bytes / sizeof(word); i++)
        differences |= words[i] ^ (word + i * STEP);
    return differences == 0;
}
