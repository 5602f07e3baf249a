/* SPDX-License-Identifier: Apache-2.0 */
/* Reshards on paper: the public functions that need no engine. */
#include "base/options.h"
#include "engine/reshard/schedule.h"

#include <stdalign.h>

static void reshard_free(ferry_reshard *reshard)
{
    const fry_memory memory = reshard->memory;
    fry_reshard_schedule_free(reshard);
    fry_free(&memory, reshard, sizeof *reshard);
}

ferry_status ferry_reshard_create(const uint64_t *shape, size_t dimension_count,
                                  uint64_t element_bytes, const ferry_layout *from,
                                  const ferry_layout *to, ferry_reshard **reshard_p,
                                  ferry_error **error_p)
{
    fry_memory memory;
    fry_reshard_wrong wrong = {.status = FERRY_OK};
    fry_memory_init(&memory, NULL);
    ferry_reshard *reshard = fry_alloc(&memory, sizeof *reshard, alignof(ferry_reshard));
    if (reshard == NULL) {
        (void)fry_reshard_wrong_memory(&wrong);
        return fry_reshard_wrong_tell(&wrong, &memory, error_p);
    }
    reshard->memory = memory;
    if (reshard_p == NULL)
        (void)fry_reshard_wrong_note(&wrong, FERRY_E_INVALID, "reshard_p is NULL");
    if (wrong.status == FERRY_OK)
        (void)fry_reshard_array_read(&reshard->array, shape, dimension_count, element_bytes,
                                     &wrong);
    if (wrong.status == FERRY_OK)
        (void)fry_reshard_layout_read(&reshard->layouts[FERRY_RESHARD_FROM], &memory,
                                      &reshard->array, from, "from", &wrong);
    if (wrong.status == FERRY_OK)
        (void)fry_reshard_layout_read(&reshard->layouts[FERRY_RESHARD_TO], &memory, &reshard->array,
                                      to, "to", &wrong);
    if (wrong.status == FERRY_OK)
        (void)fry_reshard_schedule_make(reshard, &wrong);
    if (wrong.status != FERRY_OK) {
        reshard_free(reshard);
        return fry_reshard_wrong_tell(&wrong, &memory, error_p);
    }
    *reshard_p = reshard;
    return FERRY_OK;
}

void ferry_reshard_release(ferry_reshard *reshard)
{
    if (reshard != NULL)
        reshard_free(reshard);
}

ferry_status ferry_reshard_describe(const ferry_reshard *reshard, ferry_reshard_info *info)
{
    if (reshard == NULL || info == NULL)
        return FERRY_E_INVALID;
    return fry_struct_hand_out(info, &reshard->info, sizeof *info);
}

ferry_status ferry_reshard_part_at(const ferry_reshard *reshard, ferry_reshard_side side,
                                   uint32_t position, ferry_reshard_part *part)
{
    if (reshard == NULL || part == NULL || (side != FERRY_RESHARD_FROM && side != FERRY_RESHARD_TO))
        return FERRY_E_INVALID;
    const fry_reshard_layout *layout = &reshard->layouts[side];
    if (position >= layout->position_count)
        return FERRY_E_NOT_FOUND;
    fry_reshard_box box;
    fry_reshard_layout_part(layout, &reshard->array, position, &box);
    ferry_reshard_part own = {
        .struct_size = sizeof own,
        .rank = layout->ranks[position],
        .index = layout->indices[position],
        .size_bytes = fry_reshard_box_count(&box) * reshard->array.element_bytes,
    };
    memcpy(own.offset, box.offset, sizeof own.offset);
    memcpy(own.extent, box.extent, sizeof own.extent);
    return fry_struct_hand_out(part, &own, sizeof own);
}

ferry_status ferry_reshard_move_at(const ferry_reshard *reshard, uint64_t index,
                                   ferry_reshard_move *move)
{
    if (reshard == NULL || move == NULL)
        return FERRY_E_INVALID;
    if (index >= reshard->move_count)
        return FERRY_E_NOT_FOUND;
    const fry_reshard_move *at = &reshard->moves[index];
    fry_reshard_box box;
    fry_reshard_schedule_box(reshard, index, &box);
    ferry_reshard_move own = {
        .struct_size = sizeof own,
        .side = (ferry_reshard_side)at->side,
        .source_position = at->source,
        .target_position = at->target,
        .source_rank = fry_reshard_schedule_source(reshard, at),
        .target_rank = fry_reshard_schedule_target(reshard, at),
        .is_packed = at->is_packed,
        .is_unpacked = at->is_unpacked,
        .size_bytes = fry_reshard_box_count(&box) * reshard->array.element_bytes,
    };
    memcpy(own.offset, box.offset, sizeof own.offset);
    memcpy(own.extent, box.extent, sizeof own.extent);
    return fry_struct_hand_out(move, &own, sizeof own);
}

ferry_status ferry_reshard_member_at(const ferry_reshard *reshard, ferry_rank rank,
                                     ferry_reshard_member *member)
{
    static const ferry_reshard_member none;
    if (reshard == NULL || member == NULL)
        return FERRY_E_INVALID;
    return fry_struct_hand_out(member, rank < reshard->rank_count ? &reshard->members[rank] : &none,
                               sizeof none);
}
