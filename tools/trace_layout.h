/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where everything stands in the picture. Rows lie below each other. In a row each operation has a
 * lane, so that slices don't overlap; a stream's row has one. Below the lanes two strips show how
 * many operations waited. What would be too narrow to see is joined to blocks, as wide as it takes
 * to keep their number bounded.
 */
#ifndef TRACE_LAYOUT_H
#define TRACE_LAYOUT_H

#include "tools/trace_model.h"

#define TRACE_WIDTH_MIN_PX 400
#define TRACE_WIDTH_MAX_PX 20000
#define TRACE_LANES_MAX 6
#define TRACE_NO_LANE UINT8_MAX
#define TRACE_STRIP_PX 4.0

/* What of a trace is drawn, and how wide. */
typedef struct trace_view {
    size_t width_px;
    double from_ms; /* from the begin of the trace; not below 0 */
    double to_ms;   /* greater; what is behind the end of the trace is not drawn */
} trace_view;

/* Where a row stands. */
typedef struct trace_place {
    bool is_shown;
    bool is_first; /* of its engine: a headline stands above */
    size_t lanes;
    size_t most;    /* operations running at once */
    double top_px;  /* of the first lane */
    double lane_px; /* height of a lane */
} trace_place;

typedef struct trace_layout {
    int64_t from_ns; /* as in the model */
    int64_t to_ns;   /* greater than from_ns */
    double plot_left_px;
    double plot_width_px;
    double plot_top_px;
    double plot_bottom_px;
    double width_px;
    double height_px;
    double grain_px;     /* what is narrower goes into a block */
    size_t column_count; /* of the strips */
    trace_place *places; /* of the model's rows */
    uint8_t *lanes;      /* of the model's operations; TRACE_NO_LANE: not drawn */
} trace_layout;

/* A slice of one operation, or a block of several. */
typedef struct trace_shape {
    uint32_t row;
    uint32_t first; /* index of its operation, or of the first */
    uint8_t lane;
    double begin_px;
    double end_px;
    size_t count;
    size_t failed_count;
    double running_ns; /* together */
    double size_bytes;
} trace_shape;

typedef void (*trace_shape_visit)(void *arg, const trace_shape *shape);

/* model is finished, has operations and begins before view->from_ms. The layout is to be released
 * either way. */
trace_result trace_layout_make(trace_layout *layout, const trace_model *model,
                               const trace_view *view);

void trace_layout_release(trace_layout *layout);

/* Calls for each shape of a row, by begin within a lane. */
void trace_layout_shapes(const trace_layout *layout, const trace_model *model, uint32_t row,
                         trace_shape_visit visit, void *arg);

/* Where a moment stands, which may be outside the plot. */
double trace_layout_x(const trace_layout *layout, int64_t time_ns);

/* Top of a lane, or of the strips below the lanes with lane = place->lanes. */
double trace_layout_y(const trace_place *place, size_t lane);

#endif
