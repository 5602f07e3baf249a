/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/reshard/box.h"

#include <string.h>

uint64_t fry_reshard_box_count(const fry_reshard_box *box)
{
    return fry_reshard_box_unit(box, 0);
}

uint64_t fry_reshard_box_unit(const fry_reshard_box *box, uint32_t from)
{
    uint64_t unit = 1;
    for (uint32_t d = from; d < FRY_RESHARD_DIMENSIONS; d++)
        unit *= box->extent[d];
    return unit;
}

/*
 * The outermost dimension of which whole indices can be taken decides: it starts at a multiple of
 * its unit, and one unit at least fits.
 */
bool fry_reshard_box_next(const fry_reshard_box *box, uint64_t *begin_p, uint64_t end,
                          fry_reshard_box *part)
{
    uint64_t begin = *begin_p;
    if (begin >= end)
        return false;
    uint32_t d = 0;
    uint64_t unit = fry_reshard_box_unit(box, 1);
    while (begin % unit != 0 || end - begin < unit)
        unit /= box->extent[++d]; /* of the last dimension it is 1 */
    *part = *box;
    uint64_t rest = begin / unit;
    uint64_t first = rest % box->extent[d];
    uint64_t taken = (end - begin) / unit;
    if (taken > box->extent[d] - first)
        taken = box->extent[d] - first;
    part->offset[d] += first;
    part->extent[d] = taken;
    rest /= box->extent[d];
    for (uint32_t outer = d; outer-- > 0;) {
        part->offset[outer] += rest % box->extent[outer];
        part->extent[outer] = 1;
        rest /= box->extent[outer];
    }
    *begin_p = begin + taken * unit;
    return true;
}

uint64_t fry_reshard_box_near(const fry_reshard_box *box, uint64_t at, uint64_t slack)
{
    uint32_t d = 0;
    uint64_t unit = fry_reshard_box_count(box);
    while (unit > 1 && unit > slack)
        unit /= box->extent[d++];
    uint64_t below = at - at % unit;
    return at - below > unit / 2 ? below + unit : below;
}

void fry_reshard_rows_of(const fry_reshard_box *box, const fry_reshard_box *source,
                         const fry_reshard_box *target, uint64_t element_bytes,
                         fry_reshard_rows *rows)
{
    uint64_t source_pitch = element_bytes, target_pitch = element_bytes;
    memset(rows, 0, sizeof *rows);
    rows->row_bytes = element_bytes;
    for (uint32_t d = FRY_RESHARD_DIMENSIONS; d-- > 0;) {
        uint64_t count = box->extent[d];
        uint32_t last = rows->level_count - 1;
        rows->source_bytes += (box->offset[d] - source->offset[d]) * source_pitch;
        rows->target_bytes += (box->offset[d] - target->offset[d]) * target_pitch;
        if (count == 1) {
            /* It adds no rows. */
        } else if (rows->level_count == 0 && source_pitch == rows->row_bytes &&
                   target_pitch == rows->row_bytes) {
            rows->row_bytes *= count;
        } else if (rows->level_count != 0 &&
                   rows->levels[last].source_pitch_bytes * rows->levels[last].count ==
                       source_pitch &&
                   rows->levels[last].target_pitch_bytes * rows->levels[last].count ==
                       target_pitch) {
            rows->levels[last].count *= count;
        } else {
            rows->levels[rows->level_count].count = count;
            rows->levels[rows->level_count].source_pitch_bytes = source_pitch;
            rows->levels[rows->level_count].target_pitch_bytes = target_pitch;
            rows->level_count++;
        }
        source_pitch *= source->extent[d];
        target_pitch *= target->extent[d];
    }
}

/* Outside the outermost dimension that has several indices, everything inside is whole. */
bool fry_reshard_box_is_run(const fry_reshard_box *box, const fry_reshard_box *within)
{
    uint32_t d = 0;
    while (d < FRY_RESHARD_DIMENSIONS && box->extent[d] == 1)
        d++;
    for (d++; d < FRY_RESHARD_DIMENSIONS; d++) {
        if (box->extent[d] != within->extent[d])
            return false;
    }
    return true;
}
