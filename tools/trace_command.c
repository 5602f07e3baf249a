/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/trace_command.h"

#include "tools/trace_options.h"
#include "tools/trace_reader.h"
#include "tools/trace_report.h"
#include "tools/trace_svg.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int fail_memory(void)
{
    fputs("ferry: out of memory\n", stderr);
    return TRACE_EXIT_NOTHING;
}

static int fail_file(const char *doing, const char *path)
{
    fprintf(stderr, "ferry: %s '%s': %s\n", doing, path, strerror(errno));
    return TRACE_EXIT_NOTHING;
}

static bool is_standard(const char *path)
{
    return strcmp(path, "-") == 0;
}

static int read_model(const char *path, trace_model *model, trace_problems *problems)
{
    FILE *file = is_standard(path) ? stdin : fopen(path, "rb");
    if (!file)
        return fail_file("opening", path);
    trace_result result = trace_model_init(model);
    if (result == TRACE_OK)
        result = trace_read(file, model, problems);
    if (file != stdin)
        fclose(file);
    if (result != TRACE_OK)
        return fail_memory();
    trace_problems_end(problems);
    if (model->op_count > 0)
        return 0;
    fprintf(stderr, "ferry: %s: no operation could be read\n", path);
    return TRACE_EXIT_NOTHING;
}

/* The given output, or the path with .svg for its .json; NULL: out of memory. */
static char *choose_output(const trace_options *options)
{
    if (options->output)
        return strdup(options->output);
    if (is_standard(options->path))
        return strdup("-");
    size_t length = strlen(options->path);
    if (length > strlen(".json") && strcmp(options->path + length - strlen(".json"), ".json") == 0)
        length -= strlen(".json");
    char *output = NULL;
    return asprintf(&output, "%.*s.svg", (int)length, options->path) < 0 ? NULL : output;
}

/* Whether both are one file, which opening for writing would empty. */
static bool is_same_file(const char *left, const char *right)
{
    struct stat a;
    struct stat b;
    return stat(left, &a) == 0 && stat(right, &b) == 0 && S_ISREG(a.st_mode) &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static int write_picture(const trace_model *model, const trace_summary *summary,
                         const trace_options *options, const char *output)
{
    trace_layout layout;
    if (trace_layout_make(&layout, model, &options->view) != TRACE_OK) {
        trace_layout_release(&layout);
        return fail_memory();
    }
    int result = 0;
    FILE *file = stdout;
    if (!is_standard(output)) {
        bool is_input = !is_standard(options->path) && is_same_file(output, options->path);
        errno = EEXIST;
        file = is_input ? NULL : fopen(output, "wb");
    }
    if (!file) {
        result = fail_file("writing", output);
    } else {
        trace_result drawn = trace_svg_write(model, summary, &layout, file);
        bool is_failed = fflush(file) != 0 || ferror(file);
        if (file != stdout)
            is_failed |= fclose(file) != 0;
        if (drawn != TRACE_OK)
            result = fail_memory();
        else if (is_failed)
            result = fail_file("writing", output);
    }
    trace_layout_release(&layout);
    return result;
}

static int write_report(const trace_model *model, const trace_summary *summary,
                        const trace_options *options, const trace_problems *problems, FILE *to)
{
    trace_result printed = TRACE_OK;
    if (options->json)
        printed = trace_report_print_json(model, summary, problems->count, to);
    else
        trace_report_print(model, summary, to);
    if (fflush(to) != 0 || ferror(to))
        return fail_file("writing", "the summary");
    return printed == TRACE_OK ? 0 : fail_memory();
}

static int draw(const trace_model *model, const trace_options *options,
                const trace_problems *problems)
{
    double span_ms = (double)(model->end_ns - model->begin_ns) / 1e6;
    if (options->view.from_ms > 0 && options->view.from_ms >= span_ms) {
        fprintf(stderr, "ferry: --from is behind the end of the trace, which is %.3f ms long\n",
                span_ms);
        return TRACE_EXIT_NOTHING;
    }
    trace_summary summary;
    char *output = choose_output(options);
    int result = 0;
    if (trace_summary_make(model, &summary) != TRACE_OK || !output)
        result = fail_memory();
    if (!result)
        result = write_picture(model, &summary, options, output);
    if (!result)
        result =
            write_report(model, &summary, options, problems, is_standard(output) ? stderr : stdout);
    trace_summary_release(&summary);
    free(output);
    return result;
}

int trace_command_run(int argc, char **argv)
{
    trace_options options;
    trace_options_parse(&options, argc, argv);
    trace_model model = {0};
    trace_problems problems = {.path = options.path, .to = stderr};
    int result = read_model(options.path, &model, &problems);
    if (!result)
        result = draw(&model, &options, &problems);
    if (!result && problems.count > 0)
        result = TRACE_EXIT_DAMAGED;
    trace_model_release(&model);
    return result;
}
