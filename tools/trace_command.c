/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/trace_command.h"

#include "tools/trace_html.h"
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

static int read_file(const char *path, trace_model *model, trace_problems *problems)
{
    FILE *file = is_standard(path) ? stdin : fopen(path, "rb");
    if (!file)
        return fail_file("opening", path);
    trace_result result = trace_read(file, model, problems);
    if (file != stdin)
        fclose(file);
    return result == TRACE_OK ? 0 : fail_memory();
}

static int read_model(const trace_options *options, trace_model *model, trace_problems *problems)
{
    if (trace_model_init(model) != TRACE_OK)
        return fail_memory();
    int result = 0;
    for (size_t i = 0; i < options->path_count && !result; i++) {
        size_t op_count = model->op_count;
        result = read_file(options->paths[i], model, &problems[i]);
        if (result || model->op_count > op_count)
            continue;
        trace_problems_end(&problems[i]);
        fprintf(stderr, "ferry: %s: no operation could be read\n", options->paths[i]);
        result = TRACE_EXIT_NOTHING;
    }
    if (!result && trace_model_finish(model, problems) != TRACE_OK)
        result = fail_memory();
    for (size_t i = 0; i < options->path_count && !result; i++)
        trace_problems_end(&problems[i]);
    return result;
}

/* The given output, or the first path with .svg for its .json; NULL: out of memory. */
static char *choose_output(const trace_options *options)
{
    const char *path = options->paths[0];
    if (options->output)
        return strdup(options->output);
    if (is_standard(path))
        return strdup("-");
    size_t length = strlen(path);
    if (length > strlen(".json") && strcmp(path + length - strlen(".json"), ".json") == 0)
        length -= strlen(".json");
    char *output = NULL;
    return asprintf(&output, "%.*s.svg", (int)length, path) < 0 ? NULL : output;
}

/* Whether both are one file, which opening for writing would empty. */
static bool is_same_file(const char *left, const char *right)
{
    struct stat a;
    struct stat b;
    return stat(left, &a) == 0 && stat(right, &b) == 0 && S_ISREG(a.st_mode) &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static FILE *open_output(const trace_options *options, const char *output)
{
    if (is_standard(output))
        return stdout;
    for (size_t i = 0; i < options->path_count; i++) {
        if (!is_standard(options->paths[i]) && is_same_file(output, options->paths[i])) {
            errno = EEXIST;
            return NULL;
        }
    }
    return fopen(output, "wb");
}

typedef trace_result (*write_fn)(const trace_model *model, const trace_summary *summary,
                                 const trace_options *options, FILE *to);

static trace_result write_svg(const trace_model *model, const trace_summary *summary,
                              const trace_options *options, FILE *to)
{
    trace_layout layout;
    trace_result result = trace_layout_make(&layout, model, &options->view);
    if (result == TRACE_OK)
        result = trace_svg_write(model, summary, &layout, to);
    trace_layout_release(&layout);
    return result;
}

static trace_result write_html(const trace_model *model, const trace_summary *summary,
                               const trace_options *options, FILE *to)
{
    (void)options;
    return trace_html_write(model, summary, to);
}

static int write_output(write_fn write, const trace_model *model, const trace_summary *summary,
                        const trace_options *options, const char *output)
{
    FILE *file = open_output(options, output);
    if (!file)
        return fail_file("writing", output);
    trace_result written = write(model, summary, options, file);
    bool is_failed = fflush(file) != 0 || ferror(file);
    if (file != stdout)
        is_failed |= fclose(file) != 0;
    if (written != TRACE_OK)
        return fail_memory();
    return is_failed ? fail_file("writing", output) : 0;
}

static int write_report(const trace_model *model, const trace_summary *summary,
                        const trace_options *options, size_t problem_count, FILE *to)
{
    trace_result printed = TRACE_OK;
    if (options->json)
        printed = trace_report_print_json(model, summary, problem_count, to);
    else
        trace_report_print(model, summary, to);
    if (fflush(to) != 0 || ferror(to))
        return fail_file("writing", "the summary");
    return printed == TRACE_OK ? 0 : fail_memory();
}

static size_t count_problems(const trace_options *options, const trace_problems *problems)
{
    size_t count = 0;
    for (size_t i = 0; i < options->path_count; i++)
        count += problems[i].count;
    return count;
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
    bool has_picture = !options->html || options->output;
    int result = 0;
    if (trace_summary_make(model, &summary) != TRACE_OK || !output)
        result = fail_memory();
    if (!result && has_picture)
        result = write_output(write_svg, model, &summary, options, output);
    if (!result && options->html)
        result = write_output(write_html, model, &summary, options, options->html);
    if (!result) {
        bool is_taken =
            (has_picture && is_standard(output)) || (options->html && is_standard(options->html));
        result = write_report(model, &summary, options, count_problems(options, problems),
                              is_taken ? stderr : stdout);
    }
    trace_summary_release(&summary);
    free(output);
    return result;
}

int trace_command_run(int argc, char **argv)
{
    trace_options options;
    trace_options_parse(&options, argc, argv);
    trace_model model = {0};
    trace_problems problems[TRACE_FILES_MAX];
    for (size_t i = 0; i < options.path_count; i++)
        problems[i] = (trace_problems){.path = options.paths[i], .to = stderr};
    int result = read_model(&options, &model, problems);
    if (!result)
        result = draw(&model, &options, problems);
    if (!result && count_problems(&options, problems) > 0)
        result = TRACE_EXIT_DAMAGED;
    trace_model_release(&model);
    return result;
}
