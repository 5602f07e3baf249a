/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/trace_svg.h"

#include "tools/trace_arrows.h"
#include "tools/trace_strips.h"
#include "tools/trace_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LETTER_PX 5.7 /* average width in slices */
#define LINE_PX 12.0
#define SLICE_MIN_PX 0.8
#define FAILED_MIN_PX 3.0 /* failures are rare, and looked for */
#define LABEL_MIN_PX 16.0
#define TICK_PX 90.0
#define TALL_PX 700.0 /* from here on there is an axis at the top too */

/* The picture has its own background, so its colours don't depend on the page. */
static const char style[] =
    "<style>\n"
    "text{font-family:Arial,\"Liberation Sans\",Helvetica,sans-serif;font-size:12px;fill:#1f2328}\n"
    ".t{font-size:16px;font-weight:bold}.h{font-size:13px;font-weight:bold}\n"
    ".m{fill:#59636e;font-size:11px}.e{text-anchor:end}.i{text-anchor:middle}\n"
    ".w{fill:#fff;font-size:11px;pointer-events:none;text-anchor:middle}\n"
    ".g{stroke:#d8dee4;stroke-width:1}.r{fill:#f6f8fa}\n"
    ".copy{fill:#2f6db0}.call{fill:#1f7a4d}.other{fill:#77569e}.bad{fill:#c9252d}\n"
    ".crit{fill:#0d1117}.hold{fill:#e8a317}.queue{fill:#7f93a8}\n"
    ".a{fill:none;stroke:#9a6700;stroke-width:1;opacity:.55}\n"
    ".n{fill:none;stroke:#2f6db0;stroke-width:1;opacity:.7}\n"
    ".p{fill:none;stroke:#0d1117;stroke-width:1.6}\n"
    "rect:hover{stroke:#0d1117;stroke-width:2}\n"
    "</style>\n"
    "<defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"6\" "
    "markerHeight=\"6\" orient=\"auto\"><path d=\"M0 0 8 4 0 8z\" fill=\"#9a6700\"/></marker>"
    "<marker id=\"n\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"6\" "
    "markerHeight=\"6\" orient=\"auto\"><path d=\"M0 0 8 4 0 8z\" fill=\"#2f6db0\"/></marker>"
    "<marker id=\"p\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"5\" "
    "markerHeight=\"5\" orient=\"auto\"><path d=\"M0 0 8 4 0 8z\" fill=\"#0d1117\"/></marker>"
    "</defs>\n";

typedef struct picture {
    const trace_model *model;
    const trace_summary *summary;
    const trace_layout *layout;
    const bool *is_critical; /* for each operation of the model */
    FILE *to;
} picture;

static void write_text(FILE *to, const char *text)
{
    trace_text_write_xml(to, text, strlen(text));
}

/* ---- frame ---- */

static void write_head(const picture *picture)
{
    const trace_layout *layout = picture->layout;
    FILE *to = picture->to;
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"%.0f\" height=\"%.0f\" "
            "viewBox=\"0 0 %.0f %.0f\">\n<title>Timeline of %zu operations</title>\n%s"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\" style=\"stroke:none\"/>\n",
            layout->width_px, layout->height_px, layout->width_px, layout->height_px,
            picture->model->op_count, style);
}

static void write_headline(const picture *picture)
{
    const trace_model *model = picture->model;
    const trace_layout *layout = picture->layout;
    const trace_summary *summary = picture->summary;
    char span[TRACE_FIGURE_BYTES];
    char size[TRACE_FIGURE_BYTES];
    trace_text_time(span, (double)(model->end_ns - model->begin_ns));
    trace_text_bytes(size, (double)summary->size_bytes);
    FILE *to = picture->to;
    fprintf(to, "<text class=\"t\" x=\"16\" y=\"28\">%zu operations in %s, %s moved</text>\n",
            model->op_count, span, size);
    fputs("<text class=\"m\" x=\"16\" y=\"47\">", to);
    if (layout->from_ns > model->begin_ns || layout->to_ns < model->end_ns) {
        char from[TRACE_FIGURE_BYTES];
        char until[TRACE_FIGURE_BYTES];
        trace_text_time(from, (double)(layout->from_ns - model->begin_ns));
        trace_text_time(until, (double)(layout->to_ns - model->begin_ns));
        fprintf(to, "shown: %s to %s; of the whole: ", from, until);
    }
    fprintf(to, "%.2f rows busy at once", trace_summary_concurrency(model, summary));
    if (summary->streams_busy_ns > 0 && summary->calls_busy_ns > 0)
        fprintf(to, ", copies and calls overlap by %.0f %%", 100 * trace_summary_overlap(summary));
    if (summary->failed_count > 0)
        fprintf(to, ", %zu failed", summary->failed_count);
    if (model->dropped > 0 || model->unwritten > 0)
        fprintf(to, "; %llu records were dropped and %llu operations given up: they lack here",
                (unsigned long long)model->dropped, (unsigned long long)model->unwritten);
    if (model->is_cut)
        fputs("; the file is cut short", to);
    fputs("</text>\n", to);
}

/* Writes one entry: a sample of 22 x 12 and its text. Returns where the next begins. */
static double write_entry(FILE *to, double x, const char *sample, const char *text)
{
    fprintf(
        to,
        "<g transform=\"translate(%.0f 60)\">%s<text class=\"m\" x=\"28\" y=\"10\">%s</text></g>\n",
        x, sample, text);
    return x + 28 + 6.0 * (double)trace_text_length(text) + 18;
}

static void write_legend(const picture *picture, const trace_arrows *arrows)
{
    FILE *to = picture->to;
    double x = 16;
    x = write_entry(to, x, "<rect class=\"copy\" width=\"22\" height=\"12\" rx=\"2\"/>", "copy");
    x = write_entry(to, x, "<rect class=\"call\" width=\"22\" height=\"12\" rx=\"2\"/>", "call");
    if (picture->summary->failed_count > 0)
        x = write_entry(to, x, "<rect class=\"bad\" width=\"22\" height=\"12\" rx=\"2\"/>",
                        "failed");
    x = write_entry(to, x,
                    "<rect class=\"hold\" width=\"11\" height=\"12\" opacity=\".3\"/><rect "
                    "class=\"hold\" x=\"11\" width=\"11\" height=\"12\" opacity=\".75\"/>",
                    "waits for others: one, many");
    x = write_entry(to, x,
                    "<rect class=\"queue\" width=\"11\" height=\"12\" opacity=\".3\"/><rect "
                    "class=\"queue\" x=\"11\" width=\"11\" height=\"12\" opacity=\".75\"/>",
                    "stands in its queue");
    x = write_entry(to, x,
                    "<path class=\"p\" d=\"M0 4H21\" marker-end=\"url(#p)\"/><rect "
                    "class=\"crit\" y=\"9\" width=\"22\" height=\"3\"/>",
                    "critical path");
    if (arrows->count > 0)
        x = write_entry(to, x, "<path class=\"a\" d=\"M0 6H21\" marker-end=\"url(#a)\"/>",
                        arrows->is_all ? "lets go" : "lets go (critical path only)");
    if (arrows->messages > 0 && arrows->is_all)
        (void)write_entry(to, x, "<path class=\"n\" d=\"M0 6H21\" marker-end=\"url(#n)\"/>",
                          "message");
}

/* Returns 1, 2 or 5 times a power of ten. */
static double tick_ns(const trace_layout *layout)
{
    double wanted_ns = (double)(layout->to_ns - layout->from_ns) * TICK_PX / layout->plot_width_px;
    double power_ns = pow(10, floor(log10(fmax(wanted_ns, 1))));
    double times = wanted_ns / power_ns;
    if (times <= 1)
        return power_ns;
    if (times <= 2)
        return power_ns * 2;
    return power_ns * (times <= 5 ? 5 : 10);
}

/* All ticks have the last one's unit, with as many decimals as the steps need. */
static void write_axis(const picture *picture)
{
    static const struct {
        double size_ns;
        const char *name;
    } units[] = {{1, "ns"}, {1e3, "\xc2\xb5s"}, {1e6, "ms"}, {1e9, "s"}};
    const trace_layout *layout = picture->layout;
    double step_ns = tick_ns(layout);
    double from_ns = (double)(layout->from_ns - picture->model->begin_ns);
    double to_ns = (double)(layout->to_ns - picture->model->begin_ns);
    size_t unit = 0;
    while (unit + 1 < sizeof(units) / sizeof(units[0]) && to_ns >= units[unit + 1].size_ns)
        unit++;
    double digits = ceil(-log10(step_ns / units[unit].size_ns) - 1e-9);
    int decimals = digits > 0 ? (int)digits : 0;
    double width_ns = (double)(layout->to_ns - layout->from_ns);
    FILE *to = picture->to;
    double first = ceil(from_ns / step_ns);
    /* Counted: far from 0 a small step may add nothing. */
    size_t count = (size_t)(width_ns / step_ns) + 1;
    for (size_t i = 0; i < count; i++) {
        double at_ns = (first + (double)i) * step_ns;
        if (at_ns > to_ns)
            break;
        double x = layout->plot_left_px + layout->plot_width_px * (at_ns - from_ns) / width_ns;
        fprintf(to, "<path class=\"g\" d=\"M%.1f %.1fV%.1f\"/>", x, layout->plot_top_px - 4,
                layout->plot_bottom_px + 4);
        double value = at_ns / units[unit].size_ns;
        fprintf(to, "<text class=\"m i\" x=\"%.1f\" y=\"%.1f\">%.*f %s</text>\n", x,
                layout->plot_bottom_px + 18, decimals, value, units[unit].name);
        if (layout->plot_bottom_px > TALL_PX)
            fprintf(to, "<text class=\"m i\" x=\"%.1f\" y=\"%.1f\">%.*f %s</text>\n", x,
                    layout->plot_top_px - 7, decimals, value, units[unit].name);
    }
}

/* ---- slices ---- */

static void write_time(FILE *to, const char *before, double time_ns)
{
    char figure[TRACE_FIGURE_BYTES];
    trace_text_time(figure, time_ns);
    fprintf(to, "%s%s", before, figure);
}

static void write_moment(const picture *picture, const char *name, int64_t time_ns)
{
    if (time_ns != TRACE_NO_TIME)
        fprintf(picture->to, "\n%s at %.3f \xc2\xb5s", name,
                (double)(time_ns - picture->model->begin_ns) / 1e3);
}

static void write_tooltip(const picture *picture, const trace_op *op)
{
    FILE *to = picture->to;
    fprintf(to, "<title>%llu: ", (unsigned long long)op->id);
    write_text(to, op->label);
    fputs("\n", to);
    write_text(to, op->kind);
    if (op->size_bytes > 0) {
        char size[TRACE_FIGURE_BYTES];
        trace_text_bytes(size, (double)op->size_bytes);
        fprintf(to, ", %s", size);
    }
    fputs(", ", to);
    write_text(to, op->status);
    int64_t submitted_ns = trace_op_submitted_ns(op);
    int64_t ready_ns = trace_op_ready_ns(op);
    write_time(to, "\nran for ", (double)(op->end_ns - op->begin_ns));
    write_time(to, ", waited for ", (double)(op->begin_ns - submitted_ns));
    if (op->begin_ns > ready_ns && ready_ns > submitted_ns)
        write_time(to, ", in its queue for ", (double)(op->begin_ns - ready_ns));
    if (op->waited_for > 0) {
        fprintf(to, "\nheld last by %llu", (unsigned long long)op->waited_for);
        if (op->cause != TRACE_NO_OP) {
            fputs(": ", to);
            write_text(to, picture->model->ops[op->cause].label);
        }
    }
    write_moment(picture, "submitted", op->submitted_ns);
    write_moment(picture, "ready", op->ready_ns);
    write_moment(picture, "issued", op->issued_ns);
    write_moment(picture, "begun", op->begun_ns != TRACE_NO_TIME ? op->begun_ns : op->begin_ns);
    write_moment(picture, "fired", op->fired_ns);
    write_moment(picture, "resolved", op->resolved_ns);
    fputs("</title>", to);
}

static const char *colour_class(const picture *picture, const trace_op *op)
{
    if (trace_op_failed(picture->model, op))
        return "bad";
    if (strcmp(op->kind, "copy") == 0)
        return "copy";
    return strcmp(op->kind, "call") == 0 ? "call" : "other";
}

static void write_line(FILE *to, double x, double y, const char *text, const char *end,
                       const char *tail)
{
    fprintf(to, "<text class=\"w\" x=\"%.1f\" y=\"%.1f\">", x, y);
    trace_text_write_xml(to, text, (size_t)(end - text));
    fprintf(to, "%s</text>", tail);
}

/* The last blank that divides the label into parts of at most `room` characters; NULL: none. */
static const char *find_break(const char *label, size_t length, size_t room)
{
    const char *found = NULL;
    for (const char *at = strchr(label, ' '); at; at = strchr(at + 1, ' ')) {
        size_t rest = trace_text_length(at + 1);
        if (length - rest - 1 <= room && rest <= room)
            found = at;
    }
    return found;
}

/*
 * Writes "stage 2 batch 5" as "s2 b5": whole numbers, other words' first letters. Returns the end,
 * or `out` if the label has no number: then a cut distinguishes labels as well.
 */
static char *abbreviate(const char *label, char out[TRACE_TEXT_MAX_BYTES + 1])
{
    char *end = out;
    bool has_number = false;
    bool is_after_number = false;
    for (const char *word = label; *word; word += strcspn(word, " ")) {
        word += strspn(word, " ");
        size_t digits = strspn(word, "0123456789");
        size_t taken = digits ? digits : (size_t)(trace_text_skip(word, 1) - word);
        if (is_after_number && taken)
            *end++ = ' ';
        memcpy(end, word, taken);
        end += taken;
        is_after_number = digits > 0;
        has_number |= is_after_number;
    }
    return has_number ? end : out;
}

/* Writes the label in one line, or in two if they fit, or abbreviated, or cut. */
static void write_label(const picture *picture, const trace_shape *shape, const char *label,
                        double y, double height)
{
    double width = shape->end_px - shape->begin_px;
    if (width < LABEL_MIN_PX)
        return;
    double x = (shape->begin_px + shape->end_px) / 2;
    double middle = y + height / 2 + 4;
    size_t room = (size_t)((width - 2) / LETTER_PX);
    size_t length = trace_text_length(label);
    const char *end = label + strlen(label);
    const char *blank = height >= 2 * LINE_PX ? find_break(label, length, room) : NULL;
    char brief[TRACE_TEXT_MAX_BYTES + 1];
    char *brief_end = abbreviate(label, brief);
    *brief_end = '\0';
    size_t brief_length = trace_text_length(brief);
    if (length <= room) {
        write_line(picture->to, x, middle, label, end, "");
    } else if (brief_length > 0 && brief_length <= room && !blank) {
        write_line(picture->to, x, middle, brief, brief_end, "");
    } else if (blank) {
        write_line(picture->to, x, middle - LINE_PX / 2, label, blank, "");
        write_line(picture->to, x, middle + LINE_PX / 2, blank + 1, end, "");
    } else if (room >= 3) {
        write_line(picture->to, x, middle, label, trace_text_skip(label, room - 1), "\xe2\x80\xa6");
    }
}

static void write_slice(const picture *picture, const trace_shape *shape)
{
    const trace_place *place = &picture->layout->places[shape->row];
    const trace_op *op = &picture->model->ops[shape->first];
    double y = trace_layout_y(place, shape->lane);
    double height = place->lane_px - 2;
    double width = fmax(shape->end_px - shape->begin_px, 0.8);
    fprintf(
        picture->to, "<rect class=\"%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\"%s>",
        colour_class(picture, op), shape->begin_px, y, width, height, width > 8 ? " rx=\"2\"" : "");
    write_tooltip(picture, op);
    fputs("</rect>", picture->to);
    if (picture->is_critical[shape->first])
        fprintf(picture->to,
                "<rect class=\"crit\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"3\"/>",
                shape->begin_px, y + height - 1, width);
    write_label(picture, shape, op->label, y, height);
    fputs("\n", picture->to);
}

/* As opaque as its time was busy, but always visible. */
static void write_block(const picture *picture, const trace_shape *shape)
{
    const trace_layout *layout = picture->layout;
    const trace_place *place = &layout->places[shape->row];
    const trace_op *op = &picture->model->ops[shape->first];
    double least = shape->failed_count > 0 ? FAILED_MIN_PX : SLICE_MIN_PX;
    double width = fmax(shape->end_px - shape->begin_px, least);
    double ns_per_px = (double)(layout->to_ns - layout->from_ns) / layout->plot_width_px;
    double busy = fmin(shape->running_ns / (width * ns_per_px), 1);
    const char *class = shape->failed_count > 0 ? "bad" : colour_class(picture, op);
    FILE *to = picture->to;
    fprintf(to,
            "<rect class=\"%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" "
            "opacity=\"%.2f\" shape-rendering=\"crispEdges\"><title>%zu operations",
            class, shape->begin_px, trace_layout_y(place, shape->lane), width, place->lane_px - 2,
            0.35 + 0.65 * busy, shape->count);
    if (shape->failed_count > 0)
        fprintf(to, ", %zu failed", shape->failed_count);
    if (shape->size_bytes > 0) {
        char size[TRACE_FIGURE_BYTES];
        trace_text_bytes(size, shape->size_bytes);
        fprintf(to, ", %s", size);
    }
    write_time(to, "\nran for ", shape->running_ns);
    fprintf(to, "\nfirst: %llu: ", (unsigned long long)op->id);
    write_text(to, op->label);
    fputs("</title></rect>\n", to);
}

static void write_shape(void *arg, const trace_shape *shape)
{
    const picture *picture = arg;
    if (shape->count == 1)
        write_slice(picture, shape);
    else
        write_block(picture, shape);
}

/* ---- rows ---- */

/* Writes a row's name without what the headline says, and as far as it fits. */
static void write_name(const picture *picture, uint32_t row, double y)
{
    const char *name = picture->model->rows[row].name;
    int skipped = 0;
    if (sscanf(name, "engine %*u %n", &skipped) == 0 && skipped > 0 && name[skipped])
        name += skipped;
    size_t room = (size_t)((picture->layout->plot_left_px - 24) / 6.8);
    size_t length = trace_text_length(name);
    const char *end = trace_text_skip(name, length <= room ? length : room - 1);
    fprintf(picture->to, "<text class=\"h\" x=\"16\" y=\"%.1f\">", y);
    trace_text_write_xml(picture->to, name, (size_t)(end - name));
    fprintf(picture->to, "%s</text>", length <= room ? "" : "\xe2\x80\xa6");
}

static void write_row_head(const picture *picture, uint32_t row)
{
    const trace_model *model = picture->model;
    const trace_layout *layout = picture->layout;
    const trace_place *place = &layout->places[row];
    FILE *to = picture->to;
    double bottom = trace_layout_y(place, place->lanes);
    double middle = (place->top_px + bottom) / 2;
    if (place->is_first && model->engine_count > 1)
        fprintf(to, "<text class=\"m\" x=\"16\" y=\"%.1f\">engine %lld of process %lld</text>",
                place->top_px - 12, (long long)(model->rows[row].thread / TRACE_ROWS_OF_ENGINE),
                (long long)model->rows[row].process);
    fprintf(to,
            "<rect class=\"r\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
            "style=\"stroke:none\"/>",
            layout->plot_left_px, place->top_px - 1, layout->plot_width_px,
            bottom - place->top_px + 2 * TRACE_STRIP_PX + 1);
    write_name(picture, row, middle);
    int64_t span_ns = model->end_ns - model->begin_ns;
    double busy =
        span_ns > 0 ? 100 * (double)picture->summary->rows[row].busy_ns / (double)span_ns : 0;
    fprintf(to, "<text class=\"m\" x=\"16\" y=\"%.1f\">busy %.0f %%", middle + 14, busy);
    if (place->most > TRACE_LANES_MAX)
        fprintf(to, ", up to %zu at once", place->most);
    fputs("</text>\n", to);
}

static trace_result write_rows(const picture *picture, const trace_arrows *arrows)
{
    const trace_model *model = picture->model;
    const trace_layout *layout = picture->layout;
    for (uint32_t row = 0; row < model->row_count; row++) {
        if (layout->places[row].is_shown)
            write_row_head(picture, row);
    }
    write_axis(picture);
    trace_result result = TRACE_OK;
    for (uint32_t row = 0; row < model->row_count && result == TRACE_OK; row++) {
        if (layout->places[row].is_shown)
            result = trace_strips_write(model, layout, row, picture->to);
    }
    trace_arrows_write_all(arrows, model, layout, picture->to);
    for (uint32_t row = 0; row < model->row_count; row++)
        trace_layout_shapes(layout, model, row, write_shape, (void *)picture);
    trace_arrows_write_path(model, &picture->summary->path, layout, picture->to);
    return result;
}

trace_result trace_svg_write(const trace_model *model, const trace_summary *summary,
                             const trace_layout *layout, FILE *to)
{
    bool *is_critical = calloc(model->op_count, sizeof(bool));
    if (!is_critical)
        return TRACE_NO_MEMORY;
    for (size_t i = 0; i < summary->path.count; i++)
        is_critical[summary->path.steps[i].op] = true;
    picture picture = {
        .model = model, .summary = summary, .layout = layout, .is_critical = is_critical, .to = to};
    trace_arrows arrows = trace_arrows_choose(model, layout);
    write_head(&picture);
    write_headline(&picture);
    write_legend(&picture, &arrows);
    trace_result result = write_rows(&picture, &arrows);
    fputs("</svg>\n", to);
    free(is_critical);
    return result;
}
