/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/trace_strips.h"

#include <math.h>
#include <stdlib.h>

#define LEVELS 5

/*
 * How many operations wait in each column. `part` gathers those that cover a column partly,
 * `change` where whole columns begin and end.
 */
typedef struct depths {
    double *part;
    double *change;
    size_t count;
    double most;
} depths;

static void cover(depths *depths, double begin, double end)
{
    double limit = (double)depths->count;
    begin = fmax(begin, 0);
    end = fmin(end, limit);
    if (!(begin < end))
        return;
    size_t first = (size_t)begin;
    size_t last = (size_t)end; /* the end's column; at the right border one too many */
    if (first == last) {
        depths->part[first] += end - begin;
        return;
    }
    depths->part[first] += (double)(first + 1) - begin;
    depths->change[first + 1] += 1;
    depths->change[last] -= 1;
    depths->part[last] += end - (double)last;
}

/* 1, 2, 4, 8 or more operations at a time; 0: less than a tenth of one. */
static int level_of(double depth)
{
    if (depth < 0.1)
        return 0;
    int level = 1 + (int)floor(log2(fmax(depth, 1)) + 0.5);
    return level < LEVELS ? level : LEVELS;
}

static void write_runs(const depths *depths, const trace_layout *layout, int level, double y,
                       double height, FILE *to)
{
    double column_px = layout->plot_width_px / (double)depths->count;
    double whole = 0;
    size_t begin = 0;
    bool is_open = false;
    for (size_t i = 0; i <= depths->count; i++) {
        bool is_in = false;
        if (i < depths->count) {
            whole += depths->change[i];
            is_in = level_of(whole + depths->part[i]) == level;
        }
        if (is_in && !is_open)
            begin = i;
        if (!is_in && is_open)
            fprintf(to, "M%.4g %.1fh%.4gv%.1fH%.4gz",
                    layout->plot_left_px + (double)begin * column_px, y,
                    (double)(i - begin) * column_px, height,
                    layout->plot_left_px + (double)begin * column_px);
        is_open = is_in;
    }
}

/* opacity: of the darkest level. */
static void write_strip(const depths *depths, const trace_layout *layout, const char *class,
                        double opacity, double y, double height, FILE *to)
{
    bool is_there[LEVELS + 1] = {false};
    double whole = 0;
    for (size_t i = 0; i < depths->count; i++) {
        whole += depths->change[i];
        is_there[level_of(whole + depths->part[i])] = true;
    }
    for (int level = 1; level <= LEVELS; level++) {
        if (!is_there[level])
            continue;
        fprintf(to, "<path class=\"%s\" opacity=\"%.2f\" d=\"", class,
                opacity * (0.2 + 0.8 * level / LEVELS));
        write_runs(depths, layout, level, y, height, to);
        fputs("\"/>\n", to);
    }
}

trace_result trace_strips_write(const trace_model *model, const trace_layout *layout, uint32_t row,
                                FILE *to)
{
    size_t count = layout->column_count;
    double *numbers = calloc(4 * (count + 2), sizeof(double));
    if (!numbers)
        return TRACE_NO_MEMORY;
    depths held = {.part = numbers, .change = numbers + count + 2, .count = count};
    depths queued = {
        .part = numbers + 2 * (count + 2), .change = numbers + 3 * (count + 2), .count = count};
    double scale = (double)count / (double)(layout->to_ns - layout->from_ns);
    const trace_row *all = &model->rows[row];
    for (size_t i = all->first; i < all->first + all->count; i++) {
        const trace_op *op = &model->ops[i];
        double submitted = (double)(trace_op_submitted_ns(op) - layout->from_ns) * scale;
        double ready = (double)(trace_op_ready_ns(op) - layout->from_ns) * scale;
        /* An operation that has no slice, because no lane was left, is shown in its queue. */
        int64_t begin_ns = layout->lanes[i] == TRACE_NO_LANE ? op->end_ns : op->begin_ns;
        double begin = (double)(begin_ns - layout->from_ns) * scale;
        cover(&held, submitted, ready);
        cover(&queued, ready, begin);
    }
    const trace_place *place = &layout->places[row];
    double bottom = trace_layout_y(place, place->lanes);
    write_strip(&held, layout, "hold", 0.4, place->top_px, bottom - place->top_px, to);
    write_strip(&held, layout, "hold", 1, bottom, TRACE_STRIP_PX, to);
    write_strip(&queued, layout, "queue", 1, bottom + TRACE_STRIP_PX, TRACE_STRIP_PX, to);
    free(numbers);
    return TRACE_OK;
}
