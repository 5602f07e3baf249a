/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/perf_bytes.h"

#include <string.h>

static uint64_t word_of(perf_mark mark, size_t index)
{
    uint64_t word = ((uint64_t)mark.step << 33 ^ mark.message << 1 ^ (uint64_t)mark.rank) + index;
    return word * UINT64_C(0x9e3779b97f4a7c15) ^ word >> 29;
}

void perf_bytes_fill(unsigned char *bytes, size_t size_bytes, perf_mark mark)
{
    for (size_t at = 0; at < size_bytes; at += sizeof(uint64_t)) {
        uint64_t word = word_of(mark, at);
        size_t rest = size_bytes - at;
        memcpy(bytes + at, &word, rest < sizeof(word) ? rest : sizeof(word));
    }
}

size_t perf_bytes_find_wrong(const unsigned char *bytes, size_t size_bytes, perf_mark mark)
{
    for (size_t at = 0; at < size_bytes; at += sizeof(uint64_t)) {
        uint64_t word = word_of(mark, at);
        size_t rest = size_bytes - at;
        if (memcmp(bytes + at, &word, rest < sizeof(word) ? rest : sizeof(word)) != 0)
            return at;
    }
    return size_bytes;
}
