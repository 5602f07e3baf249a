/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/reshard/layout.h"

#include "base/options.h"

#include <inttypes.h>
#include <stdalign.h>

#define NAME_SHOWN 64 /* bytes of an axis's name in a message */

/* ---- the array ---- */

ferry_status fry_reshard_array_read(fry_reshard_array *array, const uint64_t *shape,
                                    size_t dimension_count, uint64_t element_bytes,
                                    fry_reshard_wrong *wrong)
{
    if (shape == NULL)
        return fry_reshard_wrong_note(wrong, FERRY_E_INVALID, "shape is NULL");
    if (dimension_count == 0 || dimension_count > FRY_RESHARD_DIMENSIONS)
        return fry_reshard_wrong_note(wrong, FERRY_E_INVALID,
                                      "the shape has %zu dimensions; it may have 1 to %d",
                                      dimension_count, FRY_RESHARD_DIMENSIONS);
    if (element_bytes == 0)
        return fry_reshard_wrong_note(wrong, FERRY_E_INVALID, "element_bytes is 0");
    array->dimension_count = (uint32_t)dimension_count;
    array->element_bytes = array->size_bytes = element_bytes;
    for (size_t d = 0; d < FRY_RESHARD_DIMENSIONS; d++) {
        array->shape[d] = d < dimension_count ? shape[d] : 1;
        if (array->shape[d] == 0)
            return fry_reshard_wrong_note(wrong, FERRY_E_INVALID, "dimension %zu of the shape is 0",
                                          d);
        if (__builtin_mul_overflow(array->size_bytes, array->shape[d], &array->size_bytes) ||
            array->size_bytes > INT64_MAX)
            return fry_reshard_wrong_note(wrong, FERRY_E_INVALID,
                                          "the array has 2^63 bytes or more: elements of %" PRIu64
                                          " bytes times the shape up to dimension %zu",
                                          element_bytes, d);
    }
    return FERRY_OK;
}

/* ---- checks ---- */

/* What a reading knows; `strides` are of the positions' numbers. */
typedef struct reading {
    const ferry_layout *given;
    const fry_reshard_array *array;
    const char *name;
    fry_reshard_wrong *wrong;
    uint64_t strides[FERRY_RESHARD_AXES_MAX];
    bool is_used[FERRY_RESHARD_AXES_MAX];
} reading;

static ferry_status check_axis(const reading *self, size_t index)
{
    const ferry_mesh_axis *axis = &self->given->axes[index];
    if (axis->name == NULL || *axis->name == '\0')
        return fry_reshard_wrong_note(self->wrong, FERRY_E_INVALID,
                                      "`%s`: axis %zu of the mesh has no name", self->name, index);
    if (axis->size == 0 || axis->size > FERRY_RESHARD_POSITIONS_MAX)
        return fry_reshard_wrong_note(
            self->wrong, FERRY_E_INVALID,
            "`%s`: axis \"%.*s\" of the mesh has size %" PRIu64 "; it may have 1 to %u", self->name,
            NAME_SHOWN, axis->name, axis->size, FERRY_RESHARD_POSITIONS_MAX);
    for (size_t i = 0; i < index; i++) {
        if (strcmp(self->given->axes[i].name, axis->name) == 0)
            return fry_reshard_wrong_note(self->wrong, FERRY_E_INVALID,
                                          "`%s`: the mesh has two axes \"%.*s\"", self->name,
                                          NAME_SHOWN, axis->name);
    }
    return FERRY_OK;
}

static ferry_status check_ranks(const reading *self, uint32_t position_count)
{
    const ferry_layout *given = self->given;
    if (given->ranks == NULL && given->rank_count == 0) {
        if (position_count <= FERRY_GROUP_SIZE_MAX)
            return FERRY_OK;
        return fry_reshard_wrong_note(self->wrong, FERRY_E_INVALID,
                                      "`%s`: the mesh has %u positions and names no ranks; a group "
                                      "has at most %d members",
                                      self->name, position_count, FERRY_GROUP_SIZE_MAX);
    }
    if (given->ranks == NULL || given->rank_count != position_count)
        return fry_reshard_wrong_note(self->wrong, FERRY_E_INVALID,
                                      "`%s`: the mesh has %u positions, but %zu ranks%s",
                                      self->name, position_count, given->rank_count,
                                      given->ranks == NULL ? ", which are NULL" : "");
    for (size_t i = 0; i < given->rank_count; i++) {
        if (given->ranks[i] >= FERRY_GROUP_SIZE_MAX)
            return fry_reshard_wrong_note(self->wrong, FERRY_E_INVALID,
                                          "`%s`: position %zu is of rank %" PRIu32
                                          "; a group has at most %d members",
                                          self->name, i, given->ranks[i], FERRY_GROUP_SIZE_MAX);
    }
    return FERRY_OK;
}

static ferry_status check_mesh(reading *self, uint32_t *position_count_p)
{
    const ferry_layout *given = self->given;
    if (given->axis_count > FERRY_RESHARD_AXES_MAX || (given->axes == NULL && given->axis_count))
        return fry_reshard_wrong_note(
            self->wrong, FERRY_E_INVALID, "`%s`: the mesh has %zu axes%s; it may have up to %d",
            self->name, given->axis_count, given->axes == NULL ? ", which are NULL" : "",
            FERRY_RESHARD_AXES_MAX);
    uint64_t count = 1;
    for (size_t i = 0; i < given->axis_count; i++) {
        if (check_axis(self, i) != FERRY_OK)
            return self->wrong->status;
        count *= given->axes[i].size; /* each is below 2^17 */
        if (count > FERRY_RESHARD_POSITIONS_MAX)
            return fry_reshard_wrong_note(self->wrong, FERRY_E_INVALID,
                                          "`%s`: the mesh has more than %u positions", self->name,
                                          FERRY_RESHARD_POSITIONS_MAX);
    }
    uint64_t stride = 1;
    for (size_t i = given->axis_count; i-- > 0;) {
        self->strides[i] = stride;
        stride *= given->axes[i].size;
    }
    *position_count_p = (uint32_t)count;
    return check_ranks(self, (uint32_t)count);
}

/* The index of an axis that a dimension names; axis_count: there is none, or it was named before.
 */
static size_t find_axis(reading *self, size_t dimension, const char *name)
{
    const ferry_layout *given = self->given;
    size_t i = 0;
    while (name != NULL && i < given->axis_count && strcmp(given->axes[i].name, name) != 0)
        i++;
    if (name == NULL || i == given->axis_count) {
        (void)fry_reshard_wrong_note(self->wrong, FERRY_E_INVALID,
                                     "`%s`: dimension %zu is split by axis \"%.*s\", which the "
                                     "mesh does not have",
                                     self->name, dimension, NAME_SHOWN, name ? name : "(NULL)");
        return given->axis_count;
    }
    if (self->is_used[i]) {
        (void)fry_reshard_wrong_note(self->wrong, FERRY_E_INVALID,
                                     "`%s`: axis \"%.*s\" is named twice, the second time for "
                                     "dimension %zu",
                                     self->name, NAME_SHOWN, name, dimension);
        return given->axis_count;
    }
    self->is_used[i] = true;
    return i;
}

static ferry_status check_splits(const reading *self)
{
    const ferry_layout *given = self->given;
    if (given->splits == NULL && given->split_count == 0)
        return FERRY_OK;
    if (given->splits == NULL || given->split_count != self->array->dimension_count)
        return fry_reshard_wrong_note(self->wrong, FERRY_E_INVALID,
                                      "`%s`: the shape has %u dimensions, but %zu splits%s",
                                      self->name, self->array->dimension_count, given->split_count,
                                      given->splits == NULL ? ", which are NULL" : "");
    for (size_t d = 0; d < given->split_count; d++) {
        if (given->splits[d].axes == NULL && given->splits[d].axis_count != 0)
            return fry_reshard_wrong_note(self->wrong, FERRY_E_INVALID,
                                          "`%s`: dimension %zu is split by %zu axes, which are "
                                          "NULL",
                                          self->name, d, given->splits[d].axis_count);
    }
    return FERRY_OK;
}

/* ---- blocks ---- */

/* The places of all positions on a dimension's axes, added to the numbers of their blocks. */
static ferry_status split(reading *self, fry_reshard_layout *layout, size_t dimension)
{
    const ferry_layout *given = self->given;
    const ferry_split *by = given->splits != NULL ? &given->splits[dimension] : NULL;
    uint64_t count = 1;
    for (uint32_t i = 0; i < layout->position_count; i++)
        layout->by_block[i] = 0; /* its place, for now */
    for (size_t i = 0; by != NULL && i < by->axis_count; i++) {
        size_t axis = find_axis(self, dimension, by->axes[i]);
        if (axis == given->axis_count)
            return self->wrong->status;
        uint64_t size = given->axes[axis].size;
        for (uint32_t j = 0; j < layout->position_count; j++)
            layout->by_block[j] =
                (uint32_t)(layout->by_block[j] * size + j / self->strides[axis] % size);
        count *= size;
    }
    for (uint32_t i = 0; i < layout->position_count; i++)
        layout->blocks[i] = (uint32_t)(layout->blocks[i] * count + layout->by_block[i]);
    uint64_t extent = self->array->shape[dimension];
    layout->split_counts[dimension] = (uint32_t)count;
    layout->block_extents[dimension] = extent / count + (extent % count != 0);
    layout->block_count *= (uint32_t)count;
    return FERRY_OK;
}

/* Positions by block, by counting. */
static void sort_positions(fry_reshard_layout *layout)
{
    uint32_t *begins = layout->block_positions;
    for (uint32_t i = 0; i < layout->position_count; i++)
        begins[layout->blocks[i] + 1]++;
    for (uint32_t i = 0; i < layout->block_count; i++)
        begins[i + 1] += begins[i];
    /* Each begin moves to its end, which is the next one's begin. */
    for (uint32_t i = 0; i < layout->position_count; i++)
        layout->by_block[begins[layout->blocks[i]]++] = i;
    for (uint32_t i = layout->block_count; i > 0; i--)
        begins[i] = begins[i - 1];
    begins[0] = 0;
}

/* counts: of each rank's positions so far. */
static void number_positions(fry_reshard_layout *layout, uint32_t *counts)
{
    for (uint32_t i = 0; i < layout->position_count; i++)
        layout->indices[i] = counts[layout->ranks[i]]++;
}

/* seen: for each rank the last block that it was seen with, and one. */
static void list_owners(fry_reshard_layout *layout, uint32_t *seen)
{
    uint32_t count = 0;
    for (uint32_t block = 0; block < layout->block_count; block++) {
        layout->block_owners[block] = count;
        for (uint32_t i = layout->block_positions[block]; i < layout->block_positions[block + 1];
             i++) {
            uint32_t position = layout->by_block[i];
            ferry_rank rank = layout->ranks[position];
            if (seen[rank] == block + 1)
                continue;
            seen[rank] = block + 1;
            layout->owners[count++] = (fry_reshard_owner){rank, position};
        }
    }
    layout->block_owners[layout->block_count] = count;
}

static void read_ranks(fry_reshard_layout *layout, const ferry_layout *given)
{
    for (uint32_t i = 0; i < layout->position_count; i++) {
        layout->ranks[i] = given->ranks != NULL ? given->ranks[i] : i;
        if (layout->ranks[i] >= layout->rank_count)
            layout->rank_count = layout->ranks[i] + 1;
    }
}

static bool make_tables(fry_reshard_layout *layout, const fry_memory *memory)
{
    size_t count = layout->position_count;
    layout->ranks = fry_alloc(memory, count * sizeof *layout->ranks, alignof(ferry_rank));
    layout->indices = fry_alloc(memory, count * sizeof *layout->indices, alignof(uint32_t));
    layout->blocks = fry_alloc(memory, count * sizeof *layout->blocks, alignof(uint32_t));
    layout->by_block = fry_alloc(memory, count * sizeof *layout->by_block, alignof(uint32_t));
    layout->block_positions =
        fry_alloc(memory, (count + 1) * sizeof *layout->block_positions, alignof(uint32_t));
    layout->owners = fry_alloc(memory, count * sizeof *layout->owners, alignof(fry_reshard_owner));
    layout->block_owners =
        fry_alloc(memory, (count + 1) * sizeof *layout->block_owners, alignof(uint32_t));
    return layout->ranks != NULL && layout->indices != NULL && layout->blocks != NULL &&
           layout->by_block != NULL && layout->block_positions != NULL && layout->owners != NULL &&
           layout->block_owners != NULL;
}

ferry_status fry_reshard_layout_read(fry_reshard_layout *layout, const fry_memory *memory,
                                     const fry_reshard_array *array, const ferry_layout *given,
                                     const char *name, fry_reshard_wrong *wrong)
{
    ferry_layout own;
    if (given == NULL)
        return fry_reshard_wrong_note(wrong, FERRY_E_INVALID, "`%s` is NULL", name);
    if (fry_options_read(&own, sizeof own, given) != FERRY_OK)
        return fry_reshard_wrong_note(wrong, FERRY_E_INVALID,
                                      "`%s`: struct_size is invalid, or unknown fields are set: "
                                      "use FERRY_LAYOUT_INIT",
                                      name);
    reading self = {.given = &own, .array = array, .name = name, .wrong = wrong};
    if (check_mesh(&self, &layout->position_count) != FERRY_OK || check_splits(&self) != FERRY_OK)
        return wrong->status;
    if (!make_tables(layout, memory))
        return fry_reshard_wrong_memory(wrong);
    read_ranks(layout, &own);
    layout->block_count = 1;
    for (size_t d = 0; d < FRY_RESHARD_DIMENSIONS; d++) {
        layout->split_counts[d] = 1;
        layout->block_extents[d] = 1;
        if (d < array->dimension_count && split(&self, layout, d) != FERRY_OK)
            return wrong->status;
    }
    size_t seen_bytes = layout->rank_count * sizeof(uint32_t);
    uint32_t *seen = fry_alloc(memory, seen_bytes, alignof(uint32_t));
    if (seen == NULL)
        return fry_reshard_wrong_memory(wrong);
    number_positions(layout, seen);
    memset(seen, 0, seen_bytes);
    sort_positions(layout);
    list_owners(layout, seen);
    fry_free(memory, seen, seen_bytes);
    return FERRY_OK;
}

void fry_reshard_layout_free(fry_reshard_layout *layout, const fry_memory *memory)
{
    size_t count = layout->position_count;
    fry_free(memory, layout->ranks, count * sizeof *layout->ranks);
    fry_free(memory, layout->indices, count * sizeof *layout->indices);
    fry_free(memory, layout->blocks, count * sizeof *layout->blocks);
    fry_free(memory, layout->by_block, count * sizeof *layout->by_block);
    fry_free(memory, layout->block_positions, (count + 1) * sizeof *layout->block_positions);
    fry_free(memory, layout->owners, count * sizeof *layout->owners);
    fry_free(memory, layout->block_owners, (count + 1) * sizeof *layout->block_owners);
}

/* ---- boxes ---- */

void fry_reshard_layout_places(const fry_reshard_layout *layout, uint32_t block,
                               uint32_t places[FRY_RESHARD_DIMENSIONS])
{
    for (uint32_t d = FRY_RESHARD_DIMENSIONS; d-- > 0;) {
        places[d] = block % layout->split_counts[d];
        block /= layout->split_counts[d];
    }
}

void fry_reshard_layout_box(const fry_reshard_layout *layout, const fry_reshard_array *array,
                            const uint32_t places[FRY_RESHARD_DIMENSIONS], fry_reshard_box *box)
{
    for (uint32_t d = 0; d < FRY_RESHARD_DIMENSIONS; d++) {
        uint64_t extent = layout->block_extents[d];
        uint64_t left = array->shape[d] / extent; /* blocks that are full */
        uint64_t place = places[d];
        box->offset[d] = place <= left ? place * extent : array->shape[d];
        uint64_t rest = array->shape[d] - box->offset[d];
        box->extent[d] = rest < extent ? rest : extent;
    }
}

void fry_reshard_layout_part(const fry_reshard_layout *layout, const fry_reshard_array *array,
                             uint32_t position, fry_reshard_box *box)
{
    uint32_t places[FRY_RESHARD_DIMENSIONS];
    fry_reshard_layout_places(layout, layout->blocks[position], places);
    fry_reshard_layout_box(layout, array, places, box);
}
