/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/trace_layout.h"

#include "tools/trace_text.h"

#include <math.h>
#include <stdlib.h>

#define SHAPES_MAX 12000
#define COLUMNS_MAX 60000 /* of the strips of all rows together */
#define GRAIN_MIN_PX 1.5
#define BLOCK_MAX_GRAINS 4 /* a block's shade stands for a short time */

#define HEAD_PX 92.0 /* title, summary and legend */
#define AXIS_PX 30.0
#define HEADLINE_PX 26.0
#define ROW_GAP_PX 12.0
#define LEFT_MIN_PX 96.0
#define LEFT_MAX_PX 230.0
#define RIGHT_PX 24.0
#define NAME_CHARACTER_PX 6.8

static bool is_shown(const trace_model *model, const trace_row *row)
{
    if (row->kind == TRACE_ROW_STREAM || row->kind == TRACE_ROW_CALLS)
        return row->count > 0;
    for (size_t i = 0; i < row->count; i++) {
        const trace_op *op = &model->ops[row->first + i];
        if (op->end_ns > op->begin_ns || op->peer != TRACE_NO_OP)
            return true; /* arrows of messages lead there */
    }
    return false;
}

/* ---- lanes ---- */

static bool is_inside(const trace_layout *layout, const trace_op *op)
{
    return op->begin_ns <= layout->to_ns && op->end_ns >= layout->from_ns;
}

/*
 * Gives each operation a lane. A stream is in order and has one. Others take the first lane that is
 * free when they begin, while there may be more.
 */
static void give_lanes(trace_layout *layout, const trace_model *model, const trace_row *row,
                       trace_place *place)
{
    int64_t free_from_ns[TRACE_LANES_MAX];
    for (size_t i = row->first; i < row->first + row->count; i++) {
        const trace_op *op = &model->ops[i];
        layout->lanes[i] = TRACE_NO_LANE;
        if (!is_inside(layout, op))
            continue;
        bool is_moment = op->end_ns == op->begin_ns;
        bool is_any_free = is_moment || row->kind == TRACE_ROW_STREAM;
        size_t lane = 0;
        while (lane < place->lanes && free_from_ns[lane] > op->begin_ns && !is_any_free)
            lane++;
        if (lane == TRACE_LANES_MAX)
            continue;
        if (lane == place->lanes)
            free_from_ns[place->lanes++] = op->end_ns;
        if (!is_moment)
            free_from_ns[lane] = op->end_ns;
        layout->lanes[i] = (uint8_t)lane;
    }
    if (place->lanes == 0)
        place->lanes = 1;
}

static int compare_times(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left;
    int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* ends_ns has room for each operation of the row. */
static size_t count_most(const trace_model *model, const trace_row *row, int64_t *ends_ns)
{
    for (size_t i = 0; i < row->count; i++)
        ends_ns[i] = model->ops[row->first + i].end_ns;
    qsort(ends_ns, row->count, sizeof(ends_ns[0]), compare_times);
    size_t most = 0;
    size_t ended = 0;
    for (size_t i = 0; i < row->count; i++) {
        while (ends_ns[ended] <= model->ops[row->first + i].begin_ns && ended < i)
            ended++;
        if (i + 1 - ended > most)
            most = i + 1 - ended;
    }
    return most;
}

/* ---- places ---- */

static double lane_height_px(size_t lanes)
{
    if (lanes == 1)
        return 28;
    return lanes <= 3 ? 22 : 16;
}

static void place_rows(trace_layout *layout, const trace_model *model)
{
    double top_px = layout->plot_top_px;
    uint32_t engine = UINT32_MAX;
    for (size_t i = 0; i < model->row_count; i++) {
        trace_place *place = &layout->places[i];
        if (!place->is_shown)
            continue;
        place->is_first = model->rows[i].engine != engine;
        engine = model->rows[i].engine;
        if (place->is_first && model->engine_count > 1)
            top_px += HEADLINE_PX;
        place->lane_px = lane_height_px(place->lanes);
        place->top_px = top_px + ROW_GAP_PX / 2;
        top_px = trace_layout_y(place, place->lanes) + 2 * TRACE_STRIP_PX + ROW_GAP_PX / 2;
    }
    layout->plot_bottom_px = top_px;
    layout->height_px = top_px + AXIS_PX;
}

static double left_px(const trace_layout *layout, const trace_model *model)
{
    size_t longest = 0;
    for (size_t i = 0; i < model->row_count; i++) {
        size_t length = trace_text_length(model->rows[i].name);
        if (layout->places[i].is_shown && length > longest)
            longest = length;
    }
    double wanted_px = 24 + (double)longest * NAME_CHARACTER_PX;
    return fmin(fmax(wanted_px, LEFT_MIN_PX), LEFT_MAX_PX);
}

static void choose_window(trace_layout *layout, const trace_model *model, const trace_view *view)
{
    int64_t span_ns = model->end_ns - model->begin_ns;
    double from_ns = view->from_ms * 1e6;
    double to_ns = view->to_ms * 1e6;
    layout->from_ns = model->begin_ns + (from_ns < (double)span_ns ? (int64_t)from_ns : span_ns);
    layout->to_ns = model->begin_ns + (to_ns < (double)span_ns ? (int64_t)ceil(to_ns) : span_ns);
    if (layout->to_ns <= layout->from_ns) /* a trace may cover one moment only */
        layout->to_ns = layout->from_ns + 1;
}

static void count_shape(void *arg, const trace_shape *shape)
{
    (void)shape;
    ++*(size_t *)arg;
}

static void choose_grain(trace_layout *layout, const trace_model *model)
{
    size_t count = SHAPES_MAX + 1;
    for (layout->grain_px = GRAIN_MIN_PX; count > SHAPES_MAX; layout->grain_px *= 2) {
        count = 0;
        for (uint32_t row = 0; row < model->row_count; row++)
            trace_layout_shapes(layout, model, row, count_shape, &count);
        if (count <= SHAPES_MAX || layout->grain_px > layout->plot_width_px)
            return;
    }
}

trace_result trace_layout_make(trace_layout *layout, const trace_model *model,
                               const trace_view *view)
{
    *layout = (trace_layout){.width_px = (double)view->width_px, .plot_top_px = HEAD_PX};
    layout->places = calloc(model->row_count, sizeof(trace_place));
    layout->lanes = calloc(model->op_count, sizeof(uint8_t));
    int64_t *ends_ns = calloc(model->op_count, sizeof(int64_t));
    if (!layout->places || !layout->lanes || !ends_ns) {
        free(ends_ns);
        return TRACE_NO_MEMORY;
    }
    choose_window(layout, model, view);
    size_t shown = 0;
    for (size_t i = 0; i < model->row_count; i++) {
        trace_place *place = &layout->places[i];
        place->is_shown = is_shown(model, &model->rows[i]);
        if (!place->is_shown)
            continue;
        shown++;
        give_lanes(layout, model, &model->rows[i], place);
        place->most = count_most(model, &model->rows[i], ends_ns);
    }
    free(ends_ns);
    layout->plot_left_px = left_px(layout, model);
    layout->plot_width_px = layout->width_px - layout->plot_left_px - RIGHT_PX;
    layout->column_count = (size_t)layout->plot_width_px;
    if (shown > 0 && layout->column_count > COLUMNS_MAX / shown)
        layout->column_count = COLUMNS_MAX / shown;
    place_rows(layout, model);
    choose_grain(layout, model);
    return TRACE_OK;
}

void trace_layout_release(trace_layout *layout)
{
    free(layout->places);
    free(layout->lanes);
    *layout = (trace_layout){0};
}

double trace_layout_x(const trace_layout *layout, int64_t time_ns)
{
    return layout->plot_left_px + layout->plot_width_px * (double)(time_ns - layout->from_ns) /
                                      (double)(layout->to_ns - layout->from_ns);
}

double trace_layout_y(const trace_place *place, size_t lane)
{
    return place->top_px + (double)lane * place->lane_px;
}

/* ---- shapes ---- */

static void join(trace_shape *block, const trace_shape *slice)
{
    block->end_px = fmax(block->end_px, slice->end_px);
    block->count += slice->count;
    block->failed_count += slice->failed_count;
    block->running_ns += slice->running_ns;
    block->size_bytes += slice->size_bytes;
}

void trace_layout_shapes(const trace_layout *layout, const trace_model *model, uint32_t row,
                         trace_shape_visit visit, void *arg)
{
    trace_shape blocks[TRACE_LANES_MAX] = {0}; /* the ones that may grow; count 0: none */
    const trace_row *all = &model->rows[row];
    size_t end = layout->places[row].is_shown ? all->first + all->count : all->first;
    for (size_t i = all->first; i < end; i++) {
        const trace_op *op = &model->ops[i];
        if (layout->lanes[i] == TRACE_NO_LANE)
            continue;
        int64_t begin_ns = op->begin_ns > layout->from_ns ? op->begin_ns : layout->from_ns;
        int64_t end_ns = op->end_ns < layout->to_ns ? op->end_ns : layout->to_ns;
        trace_shape slice = {
            .row = row,
            .first = (uint32_t)i,
            .lane = layout->lanes[i],
            .begin_px = trace_layout_x(layout, begin_ns),
            .end_px = trace_layout_x(layout, end_ns),
            .count = 1,
            .failed_count = trace_op_failed(model, op),
            .running_ns = (double)(op->end_ns - op->begin_ns),
            .size_bytes = (double)op->size_bytes,
        };
        trace_shape *block = &blocks[slice.lane];
        bool is_narrow = slice.end_px - slice.begin_px < layout->grain_px;
        if (is_narrow && block->count > 0 && slice.begin_px <= block->end_px + layout->grain_px &&
            slice.end_px <= block->begin_px + BLOCK_MAX_GRAINS * layout->grain_px) {
            join(block, &slice);
            continue;
        }
        if (block->count > 0)
            visit(arg, block);
        *block = slice;
        if (!is_narrow) {
            visit(arg, &slice);
            block->count = 0;
        }
    }
    for (size_t lane = 0; lane < TRACE_LANES_MAX; lane++) {
        if (blocks[lane].count > 0)
            visit(arg, &blocks[lane]);
    }
}
