/* SPDX-License-Identifier: Apache-2.0 */
/* Spans and rows as callers give them: checking and converting them. Any thread. */
#ifndef FRY_ENGINE_API_SPANS_H
#define FRY_ENGINE_API_SPANS_H

#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/graph/room.h"
#include "engine/ground/refusal.h"

/* One side of a copy, as the caller gives it. */
typedef struct fry_row_span {
    ferry_span first;
    size_t pitch_bytes;
    size_t row_count;
} fry_row_span;

/*
 * Whether a non-empty span lies within a buffer of the engine. Inline like the next: each copy
 * comes here twice.
 */
static inline fry_refusal fry_span_check(ferry_engine *engine, const ferry_span *span)
{
    const ferry_buffer *buffer = span->buffer;
    if (fry_unlikely(buffer == NULL))
        return fry_refuse(engine, FRY_REFUSED_SPAN_NULL);
    if (fry_unlikely(buffer->engine != engine))
        return fry_refuse(engine, FRY_REFUSED_SPAN_ENGINE);
    if (fry_unlikely(span->offset_bytes > buffer->size_bytes ||
                     span->size_bytes > buffer->size_bytes - span->offset_bytes))
        return fry_refuse(engine, FRY_REFUSED_SPAN_OUTSIDE);
    return FRY_TAKEN;
}

/* The same, and whether the buffer is not barred. */
static inline fry_refusal fry_span_check_open(ferry_engine *engine, const ferry_span *span)
{
    fry_refusal why = fry_span_check(engine, span);
    if (fry_unlikely(why == FRY_TAKEN && fry_buffer_is_barred(span->buffer)))
        why = fry_refused_barred(engine);
    return why;
}

/* The same for a span that the operation writes. */
static inline fry_refusal fry_span_check_written(ferry_engine *engine, const ferry_span *span)
{
    fry_refusal why = fry_span_check_open(engine, span);
    if (fry_unlikely(why == FRY_TAKEN && span->buffer->is_source))
        why = fry_refuse(engine, FRY_REFUSED_SPAN_SOURCE);
    return why;
}

/* Whether non-empty rows lie within their buffer, one behind the other. */
fry_refusal fry_rows_check(ferry_engine *engine, const fry_row_span *rows);

static inline bool fry_rows_are_empty(const fry_row_span *rows)
{
    return rows->first.size_bytes == 0 || rows->row_count == 0;
}

/* Converts checked rows. Rows without gaps become one. */
fry_rows fry_rows_of(const fry_row_span *rows);

static inline fry_rows fry_row_of(ferry_span span)
{
    return (fry_rows){.buffer = span.buffer,
                      .offset = span.offset_bytes,
                      .row_bytes = span.size_bytes,
                      .count = 1};
}

#endif
