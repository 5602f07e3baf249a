/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EMU_ROWS_H
#define EMU_ROWS_H

#include <stddef.h>

/* Rows of one size, whose beginnings are a pitch apart on each side; a plain copy is one row. */
typedef struct emu_rows {
    void *dst;
    const void *src;
    size_t row_bytes, row_count;
    size_t dst_pitch_bytes, src_pitch_bytes;
} emu_rows;

/* From the first byte of the first row to the end of the last. */
static inline size_t emu_rows_extent(const emu_rows *rows, size_t pitch_bytes)
{
    return (rows->row_count - 1) * pitch_bytes + rows->row_bytes;
}

#endif
