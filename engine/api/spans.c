/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/api/spans.h"

#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/graph/node.h"
#include "engine/ground/refusal.h"

#define ROW_COUNT_MAX ((size_t)1 << 16)

fry_refusal fry_rows_check(ferry_engine *engine, const fry_row_span *rows)
{
    ferry_span first = rows->first;
    fry_refusal why = fry_span_check(engine, &first);
    if (why != FRY_TAKEN || rows->row_count <= 1)
        return why;
    if (rows->pitch_bytes < first.size_bytes)
        return fry_refuse(engine, FRY_REFUSED_ROWS_PITCH);
    size_t last_bytes;
    if (__builtin_mul_overflow(rows->pitch_bytes, rows->row_count - 1, &last_bytes))
        return fry_refuse(engine, FRY_REFUSED_ROWS_OVERFLOW);
    if (last_bytes > first.buffer->size_bytes - first.offset_bytes - first.size_bytes)
        return fry_refuse(engine, FRY_REFUSED_ROWS_OUTSIDE);
    if (rows->pitch_bytes != first.size_bytes && rows->row_count > ROW_COUNT_MAX)
        return fry_refuse(engine, FRY_REFUSED_ROWS_COUNT);
    return FRY_TAKEN;
}

fry_rows fry_rows_of(const fry_row_span *rows)
{
    size_t row_bytes = rows->first.size_bytes, count = rows->row_count;
    bool is_one = count <= 1 || row_bytes == 0 || rows->pitch_bytes == row_bytes;
    return (fry_rows){.buffer = rows->first.buffer,
                      .offset = rows->first.offset_bytes,
                      .row_bytes = is_one ? row_bytes * count : row_bytes,
                      .pitch_bytes = rows->pitch_bytes,
                      .count = is_one ? 1 : (uint32_t)count};
}
