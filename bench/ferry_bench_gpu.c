/* SPDX-License-Identifier: Apache-2.0 */
/* ferry_bench_gpu: measures ferry on a GPU beside what programs do without it. */
#include "bench/gpu.h"
#include "bench/rivals/cuda.h"
#include "bench/table.h"

#include <argp.h>
#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOTES_MAX 32

typedef struct bench_case {
    const char *name;
    void (*run)(bool is_smoke);
} bench_case;

static const bench_case cases[] = {
    {"gpu-copy", bench_gpu_copy},   {"gpu-event", bench_gpu_event},
    {"gpu-chain", bench_gpu_chain}, {"gpu-batch", bench_gpu_batch},
    {"gpu-poll", bench_gpu_poll},   {"gpu-pipeline", bench_gpu_pipeline},
    {"gpu-hol", bench_gpu_hol},     {"gpu-calls", bench_gpu_calls},
    {"gpu-plan", bench_gpu_plan},
};

#define CASE_COUNT (sizeof cases / sizeof cases[0])

typedef struct command_line {
    const char *chosen; /* name of a case, "all", "list", "machine", "name" or "table" */
    const char *path;   /* the table's rows */
    const char *notes[NOTES_MAX];
    size_t note_count;
    bool is_smoke;
    bool is_json;
} command_line;

static const char *const commands[] = {"all", "list", "machine", "name", "table"};

static bool is_chosen(const command_line *line, const char *name)
{
    return line->chosen != NULL && strcmp(line->chosen, name) == 0;
}

static bool is_known(const char *name)
{
    for (size_t i = 0; i < CASE_COUNT; i++) {
        if (strcmp(cases[i].name, name) == 0)
            return true;
    }
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(commands[i], name) == 0)
            return true;
    }
    return false;
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    command_line *line = state->input;
    switch (key) {
    case 's':
        line->is_smoke = true;
        return 0;
    case 'j':
        line->is_json = true;
        return 0;
    case 'n':
        if (line->note_count == NOTES_MAX || strchr(argument, '=') == NULL)
            argp_error(state, "a note is KEY=VALUE, and there are at most %d", NOTES_MAX);
        line->notes[line->note_count++] = argument;
        return 0;
    case ARGP_KEY_ARG:
        if (is_chosen(line, "table") && line->path == NULL) {
            line->path = argument;
            return 0;
        }
        if (line->chosen != NULL || !is_known(argument))
            argp_error(state, "one CASE is wanted, and \"%s\" is no further one", argument);
        line->chosen = argument;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_usage(state);
        return 0;
    case ARGP_KEY_END:
        if (is_chosen(line, "table") && line->path == NULL)
            argp_error(state, "which FILE has the rows?");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"smoke", 's', NULL, 0, "So little that only the logic is tried", 0},
    {"json", 'j', NULL, 0, "One JSON object a line instead of a table", 0},
    {"note", 'n', "KEY=VALUE", 0, "Another member for \"machine\"", 0},
    {0},
};

static const struct argp parser = {
    .options = options,
    .parser = parse_option,
    .args_doc = "CASE\ntable FILE\nmachine\nname\nlist",
    .doc = "Measures ferry on GPU 0, each figure beside its rivals in the same run.\v"
           "CASE is gpu-copy, gpu-event, gpu-chain, gpu-batch, gpu-poll, gpu-pipeline, gpu-hol, "
           "gpu-calls (counted on the emulator only) or all; \"list\" prints their names. Figures "
           "are medians; p99 looks at the bad side.\n"
           "\"machine\" prints a line about the GPU, driver and build, to stand above the rows; "
           "\"name\" the GPU's name for the name of a file.\n"
           "\"table FILE\" reads what --json printed, \"-\" from stdin, and prints ferry beside "
           "each rival and each limit, as Markdown.",
};

static const cuda_facts *look_at_gpu(void)
{
    const char *reason = NULL;
    const cuda_facts *facts = cuda_look(&reason);
    if (facts == NULL)
        bench_fail("no GPU: %s", reason);
    return facts;
}

static void set_version(json_t *run, const char *key, int version)
{
    json_t *text = json_sprintf("%d.%d", version / 1000, version % 1000 / 10);
    (void)json_object_set_new(run, key, text);
}

static void print_machine(const command_line *line)
{
    const cuda_facts *facts = look_at_gpu();
    json_t *run =
        json_pack("{s:s, s:b, s:i, s:I, s:i, s:i}", "gpu", facts->name, "emulated",
                  facts->is_emulated, "multiprocessors", facts->multiprocessors, "memory_bytes",
                  (json_int_t)facts->memory_bytes, "peak_clock_mhz", facts->clock_khz / 1000,
                  "peak_memory_clock_mhz", facts->memory_clock_khz / 1000);
    (void)json_object_set_new(run, "connections", json_integer(bench_connections()));
    set_version(run, "driver_cuda", facts->driver_version);
    set_version(run, "runtime_cuda", facts->runtime_version);
    (void)json_object_set_new(run, "ferry", json_string(ferry_version()));
    (void)json_object_set_new(run, "build", json_string(ferry_build_text()));
    for (size_t i = 0; i < line->note_count; i++) {
        const char *equals = strchr(line->notes[i], '=');
        char key[64];
        (void)snprintf(key, sizeof key, "%.*s", (int)(equals - line->notes[i]), line->notes[i]);
        if (equals[1] != '\0') /* what could not be found out is left out */
            (void)json_object_set_new(run, key, json_string(equals + 1));
    }
    json_t *object = json_pack("{s:o}", "run", run);
    if (object == NULL || json_dumpf(object, stdout, JSON_COMPACT) != 0 || putchar('\n') == EOF)
        bench_fail("cannot print the machine as JSON");
    json_decref(object);
}

/* "NVIDIA H200" as "nvidia-h200". */
static void print_name(void)
{
    const cuda_facts *facts = look_at_gpu();
    const char *name = facts->is_emulated ? BENCH_EMULATED : facts->name;
    bool was_dash = true;
    for (; *name != '\0'; name++) {
        bool is_dash = !isalnum((unsigned char)*name);
        if (!is_dash)
            putchar(tolower((unsigned char)*name));
        else if (!was_dash && name[1] != '\0')
            putchar('-');
        was_dash = is_dash;
    }
    putchar('\n');
}

static void run_cases(const command_line *line)
{
    const cuda_facts *facts = look_at_gpu();
    bench_report_open(line->is_json, facts->is_emulated ? BENCH_EMULATED : facts->name);
    (void)cuda_open();
    for (size_t i = 0; i < CASE_COUNT; i++) {
        if (is_chosen(line, "all") || is_chosen(line, cases[i].name))
            cases[i].run(line->is_smoke);
    }
}

/* Before CUDA is: it looks once. What the user has set stays. */
static void ask_for_connections(void)
{
    char text[16];
    (void)snprintf(text, sizeof text, "%d", BENCH_CONNECTIONS);
    if (setenv("CUDA_DEVICE_MAX_CONNECTIONS", text, 0) != 0)
        bench_fail("cannot set an environment variable");
}

int main(int argc, char **argv)
{
    command_line line = {0};
    ask_for_connections();
    error_t error = argp_parse(&parser, argc, argv, 0, NULL, &line);
    if (error != 0)
        bench_fail("%s", strerror(error));
    if (is_chosen(&line, "table")) {
        bench_table_print(line.path);
    } else if (is_chosen(&line, "machine")) {
        print_machine(&line);
    } else if (is_chosen(&line, "name")) {
        print_name();
    } else if (is_chosen(&line, "list")) {
        for (size_t i = 0; i < CASE_COUNT; i++)
            puts(cases[i].name);
    } else {
        run_cases(&line);
    }
    return EXIT_SUCCESS;
}
