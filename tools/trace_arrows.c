/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/trace_arrows.h"

#include <math.h>

#define BEND_PX 14.0

static bool is_drawn(const trace_layout *layout, const trace_op *op, uint32_t index)
{
    return layout->places[op->row].is_shown && layout->lanes[index] != TRACE_NO_LANE;
}

static bool has_arrow(const trace_model *model, const trace_layout *layout, uint32_t from,
                      uint32_t to)
{
    if (from == TRACE_NO_OP || model->ops[from].row == model->ops[to].row)
        return false;
    return is_drawn(layout, &model->ops[from], from) && is_drawn(layout, &model->ops[to], to);
}

/* A send's slice stands where it ended, and it ends after its receive. */
static int64_t sent_ns(const trace_op *op)
{
    return op->issued_ns != TRACE_NO_TIME ? op->issued_ns : op->begin_ns;
}

static bool has_message(const trace_model *model, const trace_layout *layout, uint32_t to)
{
    return !model->ops[to].is_sender && has_arrow(model, layout, model->ops[to].peer, to);
}

trace_arrows trace_arrows_choose(const trace_model *model, const trace_layout *layout)
{
    trace_arrows arrows = {0};
    for (uint32_t i = 0; i < model->op_count; i++) {
        arrows.count += has_arrow(model, layout, model->ops[i].cause, i);
        arrows.messages += has_message(model, layout, i);
    }
    arrows.is_all = arrows.count + arrows.messages <= TRACE_ARROWS_MAX;
    return arrows;
}

/* Draws from a moment in one slice to a moment in another, at their facing edges. */
static void write_arrow_at(const trace_model *model, const trace_layout *layout, uint32_t from,
                           int64_t from_ns, uint32_t to, int64_t to_ns, const char *class,
                           FILE *file)
{
    const trace_op *cause = &model->ops[from];
    const trace_op *op = &model->ops[to];
    const trace_place *from_place = &layout->places[cause->row];
    const trace_place *to_place = &layout->places[op->row];
    bool is_down = to_place->top_px > from_place->top_px;
    double left = layout->plot_left_px;
    double right = left + layout->plot_width_px;
    double x1 = fmax(fmin(trace_layout_x(layout, from_ns), right), left);
    double x2 = fmax(fmin(trace_layout_x(layout, to_ns), right), left);
    double y1 =
        trace_layout_y(from_place, layout->lanes[from]) + (is_down ? from_place->lane_px - 2 : 0);
    double y2 = trace_layout_y(to_place, layout->lanes[to]) + (is_down ? 0 : to_place->lane_px - 2);
    double bend = is_down ? BEND_PX : -BEND_PX;
    fprintf(file,
            "<path class=\"%s\" d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\" "
            "marker-end=\"url(#%s)\"/>\n",
            class, x1, y1, x1, y1 + bend, x2, y2 - bend, x2, y2, class);
}

/* From the end of what let go to the begin of what waited for it. */
static void write_arrow(const trace_model *model, const trace_layout *layout, uint32_t from,
                        uint32_t to, const char *class, FILE *file)
{
    write_arrow_at(model, layout, from, model->ops[from].end_ns, to, model->ops[to].begin_ns, class,
                   file);
}

void trace_arrows_write_all(const trace_arrows *arrows, const trace_model *model,
                            const trace_layout *layout, FILE *to)
{
    for (uint32_t i = 0; i < model->op_count && arrows->is_all; i++) {
        const trace_op *op = &model->ops[i];
        if (has_arrow(model, layout, op->cause, i))
            write_arrow(model, layout, op->cause, i, "a", to);
        if (has_message(model, layout, i))
            write_arrow_at(model, layout, op->peer, sent_ns(&model->ops[op->peer]), i, op->end_ns,
                           "n", to);
    }
}

void trace_arrows_write_path(const trace_model *model, const trace_path *path,
                             const trace_layout *layout, FILE *to)
{
    size_t left = TRACE_ARROWS_MAX;
    for (size_t i = path->count; i > 1 && left > 0; i--) {
        const trace_step *step = &path->steps[i - 1];
        uint32_t from = path->steps[i - 2].op;
        if (step->is_behind || !has_arrow(model, layout, from, step->op))
            continue;
        write_arrow(model, layout, from, step->op, "p", to);
        left--;
    }
}
