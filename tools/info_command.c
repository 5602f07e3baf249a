/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/info_command.h"

#include <argp.h>
#include <ferry/ferry.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#define EXIT_FAILED 1

/* ---- gathering: one JSON object, which the text is printed from too ---- */

static json_t *gather_backends(void)
{
    json_t *backends = json_array();
    for (size_t i = 0; i < ferry_backend_count(); i++) {
        ferry_backend_info backend = ferry_backend_at(i);
        json_array_append_new(backends,
                              json_pack("{s:s, s:b, s:s}", "name", backend.name, "is_here",
                                        backend.is_here, "reason", backend.reason));
    }
    return backends;
}

static json_t *gather_capabilities(uint32_t set)
{
    static const ferry_capability capabilities[] = {
#define CAPABILITY(name, value, word, text) name,
        FERRY_CAPABILITY_MAP(CAPABILITY)
#undef CAPABILITY
    };
    json_t *names = json_array();
    for (size_t i = 0; i < sizeof(capabilities) / sizeof(capabilities[0]); i++) {
        if ((set & (uint32_t)capabilities[i]) != 0)
            json_array_append_new(names, json_string(ferry_capability_name(capabilities[i])));
    }
    return names;
}

static json_t *gather_devices(ferry_engine *engine)
{
    json_t *devices = json_array();
    for (size_t i = 0; i < ferry_device_count(engine); i++) {
        ferry_device_info info = FERRY_DEVICE_INFO_INIT;
        if (ferry_device_describe(ferry_device_at(engine, i), &info) != FERRY_OK)
            continue;
        json_array_append_new(devices,
                              json_pack("{s:s, s:s, s:i, s:I, s:I, s:o}", "name", info.name,
                                        "backend", info.backend, "streams", (int)info.stream_count,
                                        "memory_bytes", (json_int_t)info.memory_bytes,
                                        "memory_unused_bytes", (json_int_t)info.memory_unused_bytes,
                                        "capabilities", gather_capabilities(info.capabilities)));
    }
    return devices;
}

static json_t *gather_limits(const ferry_engine *engine)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    if (ferry_engine_limits(engine, &options) != FERRY_OK)
        return json_object();
    const struct {
        const char *name;
        int64_t value;
    } limits[] = {
        {"host_devices", options.host_devices},
        {"host_workers", options.host_workers},
        {"max_nodes", options.max_nodes},
        {"max_edges", (int64_t)options.max_edges},
        {"max_accesses", (int64_t)options.max_accesses},
        {"max_tasks", options.max_tasks},
        {"stream_depth", options.stream_depth},
        {"submit_budget", options.submit_budget},
        {"trace_records", options.trace_records},
        {"flight_records", options.flight_records},
        {"inline_copy_bytes", (int64_t)options.inline_copy_bytes},
        {"spin_ns", options.spin_ns},
        {"wait_spin_ns", options.wait_spin_ns},
        {"watchdog_ns", options.watchdog_ns},
    };
    json_t *object = json_object();
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        json_object_set_new(object, limits[i].name, json_integer(limits[i].value));
    return object;
}

static json_t *gather_environment(void)
{
    json_t *variables = json_array();
    for (size_t i = 0; i < ferry_variable_count(); i++) {
        ferry_variable_info variable = ferry_variable_at(i);
        /* A value may be any bytes; JSON is UTF-8. */
        json_t *value = variable.value ? json_string(variable.value) : json_null();
        if (!value)
            value = json_string("(not UTF-8)");
        json_array_append_new(variables, json_pack("{s:s, s:o, s:s}", "name", variable.name,
                                                   "value", value, "text", variable.text));
    }
    return variables;
}

static json_t *gather(ferry_engine *engine)
{
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "version", ferry_version(), "build",
                     ferry_build_text(), "backends", gather_backends(), "devices",
                     gather_devices(engine), "limits", gather_limits(engine), "environment",
                     gather_environment());
}

/* ---- printing ---- */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static void print_devices(const json_t *devices)
{
    size_t i, k;
    const json_t *device, *capability;
    puts("\ndevices");
    json_array_foreach(devices, i, device)
    {
        json_int_t streams = json_integer_value(json_object_get(device, "streams"));
        double bytes = (double)json_integer_value(json_object_get(device, "memory_bytes"));
        double unused = (double)json_integer_value(json_object_get(device, "memory_unused_bytes"));
        printf("  %-10s %lld stream%s, %.1f GiB memory, %.1f GiB unused;", text_of(device, "name"),
               (long long)streams, streams == 1 ? "" : "s", bytes / 0x1p30, unused / 0x1p30);
        json_array_foreach(json_object_get(device, "capabilities"), k, capability)
            printf("%s %s", k == 0 ? "" : ",", json_string_value(capability));
        putchar('\n');
    }
}

static void print_text(json_t *info)
{
    size_t i;
    const json_t *item;
    const char *name;
    json_t *value;
    printf("ferry %s\nbuilt with %s\n\nbackends\n", text_of(info, "version"),
           text_of(info, "build"));
    json_array_foreach(json_object_get(info, "backends"), i, item)
        printf("  %-10s %-7s %s\n", text_of(item, "name"),
               json_is_true(json_object_get(item, "is_here")) ? "here" : "absent",
               text_of(item, "reason"));
    print_devices(json_object_get(info, "devices"));
    puts("\nlimits of an engine with default options");
    json_object_foreach(json_object_get(info, "limits"), name, value)
        printf("  %-18s %" JSON_INTEGER_FORMAT "\n", name, json_integer_value(value));
    puts("\nenvironment variables");
    json_array_foreach(json_object_get(info, "environment"), i, item)
    {
        const char *set = json_string_value(json_object_get(item, "value"));
        printf("  %s=%s\n      %s\n", text_of(item, "name"), set ? set : "", text_of(item, "text"));
    }
}

static bool print_json(const json_t *info)
{
    bool printed = json_dumpf(info, stdout, JSON_COMPACT) == 0;
    putchar('\n');
    return printed;
}

/* ---- the command ---- */

static error_t parse(int key, char *argument, struct argp_state *state)
{
    (void)argument;
    if (key == 'j') {
        *(bool *)state->input = true;
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

int info_command_run(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"json", 'j', NULL, 0, "One JSON object instead of text", 0},
        {0},
    };
    static const struct argp parser = {
        .options = options,
        .parser = parse,
        .doc = "Tells what this build of ferry has and can do on this machine: version, backends "
               "and why one is absent, devices, limits, environment variables."};
    bool is_json = false;
    if (argp_parse(&parser, argc, argv, 0, NULL, &is_json) != 0)
        return EXIT_FAILED;
    ferry_engine *engine = NULL;
    ferry_error *error = NULL;
    if (ferry_engine_create(NULL, &engine, &error) != FERRY_OK) {
        fprintf(stderr, "ferry: no engine: %s\n", error->message);
        ferry_error_release(error);
        return EXIT_FAILED;
    }
    json_t *info = gather(engine);
    bool printed = info != NULL;
    if (printed && is_json)
        printed = print_json(info);
    else if (printed)
        print_text(info);
    printed = printed && fflush(stdout) == 0 && !ferror(stdout);
    if (!printed)
        fputs("ferry: the output could not be written\n", stderr);
    json_decref(info);
    ferry_engine_release(engine);
    return printed ? EXIT_SUCCESS : EXIT_FAILED;
}
