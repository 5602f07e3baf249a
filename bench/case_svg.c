/* SPDX-License-Identifier: Apache-2.0 */
/*
 * svg: a trace of 10^5 operations, recorded here, and how long `ferry trace` takes to draw it and
 * sum it up. Beside it what jansson takes to parse the lines of the same file.
 */
#include "bench/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPERATIONS 100000
#define OPERATIONS_QUICK 10000
#define IN_FLIGHT 250
#define TRACE_RECORDS (1U << 20) /* a thread: none is dropped, however slow the disk */
#define DEVICES 8
#define COPY_BYTES 16384 /* too large to run within the submit */
#define LINE_MAX_BYTES 65536

/* Files of one run, in a folder that goes with it. */
typedef struct svg_files {
    char folder[64];
    char trace[96];
    char picture[96];
    char summary[96];
} svg_files;

static void make_files(svg_files *files)
{
    (void)snprintf(files->folder, sizeof files->folder, "/tmp/ferry-bench.XXXXXX");
    if (mkdtemp(files->folder) == NULL)
        bench_fail("cannot make a folder in /tmp: %s", strerror(errno));
    (void)snprintf(files->trace, sizeof files->trace, "%s/trace.json", files->folder);
    (void)snprintf(files->picture, sizeof files->picture, "%s/trace.svg", files->folder);
    (void)snprintf(files->summary, sizeof files->summary, "%s/summary.json", files->folder);
}

static void remove_files(const svg_files *files)
{
    (void)unlink(files->trace);
    (void)unlink(files->picture);
    (void)unlink(files->summary);
    (void)rmdir(files->folder);
}

static ferry_status touch(void *data)
{
    *(char *)data = 1;
    return FERRY_OK;
}

/* Copies around a ring of devices, and now and then a function on what was copied. */
static ferry_future *submit(ferry_engine *engine, ferry_buffer *const *buffers, int i)
{
    static const char *const labels[] = {"weights 1", "weights 2", "activations", "gradients"};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    ferry_buffer *from = buffers[i % DEVICES];
    ferry_buffer *to = buffers[(i + 1) % DEVICES];
    options.label = labels[i % 4];
    if (i % 3 != 0)
        return ferry_copy(engine, ferry_buffer_span(to), ferry_buffer_span(from), &options);
    const ferry_access access = {ferry_buffer_span(to), FERRY_WRITE};
    options.accesses = &access;
    options.access_count = 1;
    return ferry_call(engine, NULL, touch, ferry_buffer_data(to), &options);
}

static void record_trace(const char *path, int operations)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.host_devices = DEVICES;
    options.trace_records = TRACE_RECORDS;
    ferry_engine *engine = bench_engine_open(&options);
    ferry_buffer *buffers[DEVICES];
    for (int i = 0; i < DEVICES; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "host:%d", i);
        buffers[i] = bench_buffer(engine, name, COPY_BYTES, i);
        bench_check(ferry_buffer_define(ferry_buffer_span(buffers[i]), NULL),
                    "ferry_buffer_define");
    }
    bench_check(ferry_trace_open(path), "ferry_trace_open");
    for (int i = 0; i < operations; i++) {
        ferry_future_release(submit(engine, buffers, i));
        if (i % IN_FLIGHT == IN_FLIGHT - 1)
            bench_finish(ferry_engine_drain(engine));
    }
    bench_finish(ferry_engine_drain(engine));
    bench_check(ferry_trace_close(), "ferry_trace_close");
    for (int i = 0; i < DEVICES; i++)
        ferry_buffer_release(buffers[i]);
    bench_engine_close(engine);
}

/* Every line parsed, and forgotten. */
static int64_t parse_ns(const char *path)
{
    static char line[LINE_MAX_BYTES];
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        bench_fail("cannot open %s: %s", path, strerror(errno));
    int64_t start_ns = bench_now_ns();
    while (fgets(line, sizeof line, file) != NULL) {
        size_t length = strcspn(line, "\n");
        if (length > 0 && line[length - 1] == ',')
            length--;
        json_error_t error;
        json_decref(json_loadb(line, length, 0, &error));
    }
    int64_t duration_ns = bench_now_ns() - start_ns;
    (void)fclose(file);
    return duration_ns;
}

static int64_t draw_ns(char *tool, const svg_files *files)
{
    char *const arguments[] = {
        tool, "trace", "--json", "-o", (char *)files->picture, (char *)files->trace, NULL};
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0 ||
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, files->summary,
                                         O_WRONLY | O_CREAT | O_TRUNC, 0600) != 0)
        bench_fail("cannot prepare to run %s", tool);
    pid_t pid;
    int status;
    int64_t start_ns = bench_now_ns();
    int error = posix_spawn(&pid, tool, &actions, NULL, arguments, environ);
    if (error != 0)
        bench_fail("cannot run %s: %s", tool, strerror(error));
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            bench_fail("cannot wait for %s", tool);
    }
    int64_t duration_ns = bench_now_ns() - start_ns;
    (void)posix_spawn_file_actions_destroy(&actions);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        bench_fail("ferry trace failed");
    return duration_ns;
}

/* Everything that was submitted is in the summary. */
static void check_summary(const char *path, int operations)
{
    json_error_t error;
    json_t *summary = json_load_file(path, 0, &error);
    json_int_t count = json_integer_value(json_object_get(summary, "operations"));
    json_int_t dropped = json_integer_value(json_object_get(summary, "dropped"));
    json_decref(summary);
    if (count < operations || dropped != 0)
        bench_fail("the trace has %lld operations of %d, and %lld records were dropped",
                   (long long)count, operations, (long long)dropped);
}

void bench_svg(bool is_quick)
{
    char tool[PATH_MAX + 32];
    bench_find_tool(tool, sizeof tool);
    svg_files files;
    make_files(&files);
    int operations = is_quick ? OPERATIONS_QUICK : OPERATIONS;
    record_trace(files.trace, operations);
    bench_samples drawn = {0};
    bench_samples parsed = {0};
    bench_samples ratio = {0};
    for (int round = 0; round < (is_quick ? 3 : 7); round++) {
        int64_t parsed_ns = parse_ns(files.trace);
        int64_t drawn_ns = draw_ns(tool, &files);
        bench_samples_add(&drawn, (double)drawn_ns);
        bench_samples_add(&parsed, (double)parsed_ns);
        bench_samples_add(&ratio, (double)drawn_ns / (double)parsed_ns);
    }
    check_summary(files.summary, operations);
    struct stat picture;
    if (stat(files.picture, &picture) != 0)
        bench_fail("no picture: %s", strerror(errno));
    remove_files(&files);
    const char *shape = is_quick ? "1e4-operations" : "1e5-operations";
    bench_report((bench_key){"svg", shape, "duration_ns", ""}, &drawn);
    bench_report((bench_key){"svg", shape, "duration_ns", "jansson"}, &parsed);
    bench_report((bench_key){"svg", shape, "ratio", "jansson"}, &ratio);
    bench_report_value((bench_key){"svg", shape, "picture_bytes", ""}, (double)picture.st_size);
    bench_samples_free(&drawn);
    bench_samples_free(&parsed);
    bench_samples_free(&ratio);
}
