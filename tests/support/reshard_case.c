/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/reshard_case.h"

#include <stdio.h>
#include <string.h>

static const char *const axis_names[RESHARD_AXES] = {"data", "model", "pipe", "x", "expert"};

/* splitmix64 */
uint64_t reshard_case_next(uint64_t *random, uint64_t below)
{
    uint64_t z = (*random += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % below;
}

static void make_shape(reshard_case *self, uint64_t elements)
{
    uint64_t *random = &self->random;
    self->dimension_count = 1 + reshard_case_next(random, RESHARD_DIMENSIONS);
    self->element_count = 1;
    for (size_t d = 0; d < self->dimension_count; d++) {
        uint64_t most = elements / self->element_count;
        if (d + 1 < self->dimension_count && most > 12)
            most = 12;
        self->shape[d] = 1 + reshard_case_next(random, most != 0 ? most : 1);
        self->element_count *= self->shape[d];
    }
    static const uint64_t sizes[] = {1, 2, 4, 8, 3};
    self->element_bytes = sizes[reshard_case_next(random, 5)];
}

static void make_mesh(reshard_case *self, reshard_case_layout *of)
{
    uint64_t *random = &self->random;
    size_t count = reshard_case_next(random, RESHARD_AXES);
    uint32_t most = reshard_case_next(random, 3) == 0 ? RESHARD_POSITIONS : self->member_count;
    of->position_count = 1;
    for (size_t i = 0; i < count; i++) {
        uint64_t size = 1 + reshard_case_next(random, most / of->position_count);
        of->axes[i] = (ferry_mesh_axis){axis_names[i], size};
        of->position_count *= (uint32_t)size;
    }
    of->layout.axes = of->axes;
    of->layout.axis_count = count;
}

/* All the same, some twice, or any. */
static void make_ranks(reshard_case *self, reshard_case_layout *of)
{
    uint64_t *random = &self->random;
    uint64_t way = reshard_case_next(random, 4);
    if (way == 0 && of->position_count <= self->member_count)
        return;
    for (uint32_t i = 0; i < of->position_count; i++)
        of->ranks[i] = way == 1 ? i / 2 % self->member_count : i % self->member_count;
    for (uint32_t i = of->position_count; way >= 2 && i > 1; i--) {
        uint32_t other = (uint32_t)reshard_case_next(random, i);
        ferry_rank rank = of->ranks[i - 1];
        of->ranks[i - 1] = of->ranks[other];
        of->ranks[other] = rank;
    }
    for (uint32_t i = 0; way == 3 && i < of->position_count; i++)
        of->ranks[i] = (ferry_rank)reshard_case_next(random, self->member_count);
    of->layout.ranks = of->ranks;
    of->layout.rank_count = of->position_count;
}

/* Each axis splits one dimension, or none; the last to come is the innermost. */
static void make_splits(reshard_case *self, reshard_case_layout *of)
{
    uint64_t *random = &self->random;
    size_t first = reshard_case_next(random, RESHARD_AXES);
    for (size_t i = 0; i < of->layout.axis_count; i++) {
        size_t axis = (first + i) % of->layout.axis_count;
        size_t d = reshard_case_next(random, self->dimension_count + 1);
        if (d == self->dimension_count)
            continue;
        of->names[d][of->splits[d].axis_count++] = of->axes[axis].name;
    }
    for (size_t d = 0; d < self->dimension_count; d++)
        of->splits[d].axes = of->names[d];
    of->layout.splits = of->splits;
    of->layout.split_count = self->dimension_count;
}

void reshard_case_make(reshard_case *self, uint64_t seed, uint32_t members, uint64_t elements)
{
    memset(self, 0, sizeof *self);
    self->random = seed;
    self->member_count = 2 + (uint32_t)reshard_case_next(&self->random, members - 1);
    make_shape(self, elements);
    for (int side = 0; side < 2; side++) {
        reshard_case_layout *of = &self->sides[side];
        of->layout = (ferry_layout)FERRY_LAYOUT_INIT;
        make_mesh(self, of);
        make_ranks(self, of);
        make_splits(self, of);
    }
}

ferry_rank reshard_case_rank(const reshard_case *self, int side, uint32_t position)
{
    const ferry_layout *layout = &self->sides[side].layout;
    return layout->ranks != NULL ? layout->ranks[position] : position;
}

/* A position's place on an axis. */
static uint64_t place_on(const ferry_layout *layout, uint32_t position, const char *name)
{
    uint64_t rest = position;
    for (size_t i = layout->axis_count; i-- > 0;) {
        if (strcmp(layout->axes[i].name, name) == 0)
            return rest % layout->axes[i].size;
        rest /= layout->axes[i].size;
    }
    return 0;
}

static uint64_t size_of(const ferry_layout *layout, const char *name)
{
    for (size_t i = 0; i < layout->axis_count; i++) {
        if (strcmp(layout->axes[i].name, name) == 0)
            return layout->axes[i].size;
    }
    return 1;
}

bool reshard_case_has(const reshard_case *self, int side, uint32_t position, uint64_t element)
{
    const ferry_layout *layout = &self->sides[side].layout;
    for (size_t d = self->dimension_count; d-- > 0;) {
        uint64_t index = element % self->shape[d];
        element /= self->shape[d];
        uint64_t blocks = 1, block = 0;
        for (size_t i = 0; i < layout->splits[d].axis_count; i++) {
            uint64_t size = size_of(layout, layout->splits[d].axes[i]);
            blocks *= size;
            block = block * size + place_on(layout, position, layout->splits[d].axes[i]);
        }
        uint64_t extent = (self->shape[d] + blocks - 1) / blocks;
        if (index / extent != block)
            return false;
    }
    return true;
}

uint64_t reshard_case_element(const reshard_case *self, const uint64_t *offset,
                              const uint64_t *extent, uint64_t index)
{
    uint64_t element = 0, stride = 1;
    for (size_t d = self->dimension_count; d-- > 0;) {
        element += (offset[d] + index % extent[d]) * stride;
        index /= extent[d];
        stride *= self->shape[d];
    }
    return element;
}

ferry_reshard *reshard_case_create(const reshard_case *self)
{
    ferry_reshard *reshard = NULL;
    ferry_error *error = NULL;
    ferry_status status =
        ferry_reshard_create(self->shape, self->dimension_count, self->element_bytes,
                             &self->sides[0].layout, &self->sides[1].layout, &reshard, &error);
    if (status != FERRY_OK)
        (void)fprintf(stderr, "a reshard is refused: %s\n",
                      error != NULL ? error->message : ferry_status_text(status));
    ferry_error_release(error);
    return reshard;
}
