/* SPDX-License-Identifier: Apache-2.0 */
/* overlap: the demo, which compares itself with a bare control in interleaved rounds. */
#include "bench/bench.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEMO_OUTPUT_BYTES 65536

extern char **environ;

static pid_t start_demo(char *path, int *output_fd)
{
    int ends[2];
    pid_t pid;
    posix_spawn_file_actions_t actions;
    char *arguments[] = {path, "demo", "pipeline", "--json", NULL};
    if (pipe(ends) != 0 || posix_spawn_file_actions_init(&actions) != 0 ||
        posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO) != 0 ||
        posix_spawn_file_actions_addclose(&actions, ends[0]) != 0 ||
        posix_spawn_file_actions_addclose(&actions, ends[1]) != 0)
        bench_fail("cannot prepare to run %s", path);
    int error = posix_spawn(&pid, path, &actions, NULL, arguments, environ);
    if (error != 0)
        bench_fail("cannot run %s: %s", path, strerror(error));
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(ends[1]);
    *output_fd = ends[0];
    return pid;
}

/* Its result: the last line of what it prints. */
static json_t *run_demo(char *path)
{
    static char output[DEMO_OUTPUT_BYTES];
    size_t used = 0;
    int output_fd;
    pid_t pid = start_demo(path, &output_fd);
    for (;;) {
        ssize_t size = read(output_fd, output + used, sizeof output - 1 - used);
        if (size < 0 && errno == EINTR)
            continue;
        if (size <= 0)
            break;
        used += (size_t)size;
    }
    (void)close(output_fd);
    int status;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            bench_fail("cannot wait for the demo");
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        bench_fail("the demo failed");
    while (used > 0 && output[used - 1] == '\n')
        used--;
    output[used] = '\0';
    const char *newline = strrchr(output, '\n');
    json_error_t error;
    json_t *result = json_loads(newline == NULL ? output : newline + 1, 0, &error);
    if (result == NULL)
        bench_fail("the demo's last line is no JSON: %s", error.text);
    if (!json_is_true(json_object_get(result, "verified")))
        bench_fail("the demo does not say that its output is verified");
    return result;
}

static double get_number(const json_t *result, const char *key)
{
    const json_t *value = json_object_get(result, key);
    if (!json_is_number(value))
        bench_fail("the demo prints no number %s", key);
    return json_number_value(value);
}

void bench_overlap(bool is_quick)
{
    char path[PATH_MAX + 32];
    bench_find_tool(path, sizeof path);
    bench_samples efficiency = {.larger_is_better = true};
    bench_samples serial_ratio = {0};
    int runs = is_quick ? 1 : 3;
    for (int i = 0; i < runs; i++) {
        json_t *result = run_demo(path);
        bench_samples_add(&efficiency, get_number(result, "efficiency"));
        bench_samples_add(&serial_ratio,
                          get_number(result, "ferry_s") / get_number(result, "serial_s"));
        json_decref(result);
    }
    bench_report((bench_key){"overlap", "pipeline", "efficiency", ""}, &efficiency);
    bench_report((bench_key){"overlap", "pipeline", "ratio", "serial"}, &serial_ratio);
    bench_samples_free(&efficiency);
    bench_samples_free(&serial_ratio);
}
