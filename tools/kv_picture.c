/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/kv_picture.h"

#include "tools/kv_end.h"
#include "tools/trace_reader.h"
#include "tools/trace_svg.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENDS 2
#define WIDTH_PX 1200

static int fail(const char *path, const char *why)
{
    fprintf(stderr, "ferry: drawing '%s': %s\n", path, why);
    return EXIT_FAILURE;
}

static int fail_memory(const char *path)
{
    return fail(path, "out of memory");
}

/*
 * What runs nowhere is a moment in a trace. Here the posts of plans and the notices are what one
 * wants to see, from when they start until they have ended; of what they wait for, and of single
 * pages, there is a moment as ever.
 */
static void lengthen(trace_model *model)
{
    for (size_t i = 0; i < model->op_count; i++) {
        trace_op *op = &model->ops[i];
        bool is_shown = strcmp(op->kind, "plan") == 0 || strcmp(op->kind, "notice") == 0;
        int64_t start_ns = op->ready_ns != TRACE_NO_TIME ? op->ready_ns : op->submitted_ns;
        if (is_shown && start_ns != TRACE_NO_TIME && start_ns < op->begin_ns)
            op->begin_ns = start_ns;
    }
}

static int read_ends(const char *folder, trace_model *model)
{
    static char paths[ENDS][PATH_MAX];
    trace_problems problems[ENDS];
    for (int rank = 0; rank < ENDS; rank++) {
        kv_end_trace_path(paths[rank], sizeof(paths[rank]), folder, rank);
        problems[rank] = (trace_problems){.path = paths[rank], .to = stderr};
        FILE *file = fopen(paths[rank], "rbe");
        if (!file)
            return fail(paths[rank], strerror(errno));
        trace_result result = trace_read(file, model, &problems[rank]);
        (void)fclose(file);
        if (result != TRACE_OK)
            return fail_memory(paths[rank]);
    }
    lengthen(model);
    if (trace_model_finish(model, problems) != TRACE_OK)
        return fail_memory(folder);
    return model->op_count > 0 ? 0 : fail(folder, "there are no operations in the traces");
}

/* When the last operation had ended: behind that the traces wait to be closed. */
static double end_ms(const trace_model *model)
{
    int64_t end_ns = model->begin_ns + 1;
    for (size_t i = 0; i < model->op_count; i++) {
        const trace_op *op = &model->ops[i];
        if (op->status != model->status_pending && op->end_ns > end_ns)
            end_ns = op->end_ns;
    }
    return (double)(end_ns - model->begin_ns) / 1e6;
}

static int write_picture(const trace_model *model, const char *svg)
{
    const trace_view view = {.width_px = WIDTH_PX, .to_ms = end_ms(model)};
    FILE *file = fopen(svg, "wbe");
    if (!file)
        return fail(svg, strerror(errno));
    trace_summary summary;
    trace_layout layout;
    trace_result result = trace_summary_make(model, &summary);
    if (result == TRACE_OK) {
        result = trace_layout_make(&layout, model, &view);
        if (result == TRACE_OK)
            result = trace_svg_write(model, &summary, &layout, file);
        trace_layout_release(&layout);
    }
    trace_summary_release(&summary);
    bool is_failed = fflush(file) != 0 || ferror(file);
    int error = errno;
    is_failed |= fclose(file) != 0;
    if (result != TRACE_OK)
        return fail_memory(svg);
    return is_failed ? fail(svg, strerror(error)) : 0;
}

int kv_picture_draw(const char *folder, const char *svg)
{
    trace_model model = {0};
    int result = trace_model_init(&model) == TRACE_OK ? 0 : fail_memory(svg);
    if (!result)
        result = read_ends(folder, &model);
    if (!result)
        result = write_picture(&model, svg);
    trace_model_release(&model);
    return result;
}
