/* SPDX-License-Identifier: Apache-2.0 */
/* A layout as `ferry reshard` is told it: AXIS=SIZE,...[@RANKS]:[SPLIT,...]. */
#ifndef RESHARD_LAYOUT_H
#define RESHARD_LAYOUT_H

#include <ferry/reshard.h>
#include <stdbool.h>

#define RESHARD_LAYOUT_TEXT_BYTES 4096
#define RESHARD_LAYOUT_WHY_BYTES 160

typedef struct reshard_layout {
    ferry_layout layout; /* points into this struct, which must stay where it is */
    char text[RESHARD_LAYOUT_TEXT_BYTES];
    ferry_mesh_axis axes[FERRY_RESHARD_AXES_MAX];
    ferry_rank ranks[FERRY_RESHARD_POSITIONS_MAX];
    ferry_split splits[FERRY_RESHARD_DIMENSIONS_MAX];
    const char *names[FERRY_RESHARD_DIMENSIONS_MAX * FERRY_RESHARD_AXES_MAX];
    size_t name_count;
} reshard_layout;

/* False: `why` says what is wrong with the text. Whether the layout makes sense ferry says. */
bool reshard_layout_parse(reshard_layout *self, const char *text,
                          char why[RESHARD_LAYOUT_WHY_BYTES]);

/* "64,128" or "64x128"; returns how many dimensions; 0: `why` says what is wrong. */
size_t reshard_shape_parse(uint64_t shape[FERRY_RESHARD_DIMENSIONS_MAX], const char *text,
                           char why[RESHARD_LAYOUT_WHY_BYTES]);

#endif
