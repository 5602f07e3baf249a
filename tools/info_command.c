/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/info_command.h"

#include <argp.h>
#include <ferry/ferry.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#define EXIT_FAILED 1

/* ---- gathering: one JSON object, from which the text is printed too ---- */

/* A path may contain any bytes, but JSON is UTF-8. */
static json_t *json_text(const char *text)
{
    json_t *string = json_string(text);
    return string ? string : json_string("(not UTF-8)");
}

static json_t *gather_backends(void)
{
    json_t *backends = json_array();
    for (size_t i = 0; i < ferry_backend_count(); i++) {
        ferry_backend_info backend = FERRY_BACKEND_INFO_INIT;
        (void)ferry_backend_at(i, &backend);
        json_array_append_new(backends,
                              json_pack("{s:s, s:b, s:o, s:i}", "name", backend.name, "is_here",
                                        backend.is_here, "reason", json_text(backend.reason),
                                        "devices", (int)backend.device_count));
    }
    return backends;
}

static const ferry_capability capabilities[] = {
#define CAPABILITY(name, value, word, text) name,
    FERRY_CAPABILITY_MAP(CAPABILITY)
#undef CAPABILITY
};
#define CAPABILITY_COUNT (sizeof(capabilities) / sizeof(capabilities[0]))

static json_t *gather_capabilities(uint32_t set)
{
    json_t *names = json_array();
    for (size_t i = 0; i < CAPABILITY_COUNT; i++) {
        if ((set & (uint32_t)capabilities[i]) != 0)
            json_array_append_new(names, json_string(ferry_capability_name(capabilities[i])));
    }
    return names;
}

/* The reason for each missing capability, by name. */
static json_t *gather_lacks(ferry_device *device)
{
    json_t *lacks = json_object();
    for (size_t i = 0; i < CAPABILITY_COUNT; i++) {
        const char *why = ferry_device_lacks(device, capabilities[i]);
        if (why)
            json_object_set_new(lacks, ferry_capability_name(capabilities[i]), json_text(why));
    }
    return lacks;
}

static json_t *gather_peers(const ferry_device_info *info)
{
    json_t *peers = json_array();
    for (int i = 0; i < 64; i++) {
        if ((info->peers >> i & 1) != 0)
            json_array_append_new(peers, json_sprintf("%s:%d", info->backend, i));
    }
    return peers;
}

static json_t *gather_device(ferry_device *device)
{
    ferry_device_info info = FERRY_DEVICE_INFO_INIT;
    if (ferry_device_describe(device, &info) != FERRY_OK)
        return NULL;
    json_t *object =
        json_pack("{s:s, s:s, s:i, s:I, s:I, s:o, s:o}", "name", info.name, "backend", info.backend,
                  "streams", (int)info.stream_count, "memory_bytes", (json_int_t)info.memory_bytes,
                  "memory_unused_bytes", (json_int_t)info.memory_unused_bytes, "capabilities",
                  gather_capabilities(info.capabilities), "lacks", gather_lacks(device));
    if (info.model)
        json_object_set_new(object, "model", json_text(info.model));
    if (!info.driver)
        return object;
    json_object_set_new(object, "driver", json_text(info.driver));
    json_object_set_new(object, "lowest_priority", json_integer(info.lowest_priority));
    json_object_set_new(object, "highest_priority", json_integer(info.highest_priority));
    json_object_set_new(object, "peers", gather_peers(&info));
    return object;
}

/* Opens all GPUs. Those that fail are listed with the reason. */
static json_t *open_gpus(ferry_engine *engine)
{
    json_t *failures = json_array();
    for (size_t i = 0; i < ferry_backend_count(); i++) {
        ferry_backend_info backend = FERRY_BACKEND_INFO_INIT;
        (void)ferry_backend_at(i, &backend);
        for (uint32_t k = 0; k < backend.device_count; k++) {
            char name[64];
            ferry_device *device;
            ferry_error *error;
            snprintf(name, sizeof(name), "%s:%u", backend.name, k);
            if (ferry_device_open(engine, name, NULL, &device, &error) != FERRY_OK)
                json_array_append_new(failures, json_pack("{s:s, s:o}", "name", name, "error",
                                                          json_text(error->message)));
            ferry_error_release(error);
        }
    }
    return failures;
}

/* Called when all GPUs are open, because a device's peers are among them. */
static json_t *gather_devices(ferry_engine *engine)
{
    json_t *failures = open_gpus(engine), *devices = json_array();
    for (size_t i = 0; i < ferry_device_count(engine); i++)
        json_array_append_new(devices, gather_device(ferry_device_at(engine, i)));
    json_array_extend(devices, failures);
    json_decref(failures);
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
        {"message_staging_bytes", (int64_t)options.message_staging_bytes},
        {"nccl_slots", options.nccl_slots},
        {"nccl_pairs", options.nccl_pairs},
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
        ferry_variable_info variable = FERRY_VARIABLE_INFO_INIT;
        (void)ferry_variable_at(i, &variable);
        json_t *value = variable.value ? json_text(variable.value) : json_null();
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

static int64_t number_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static void print_list(const char *before, const json_t *names)
{
    size_t i;
    const json_t *name;
    json_array_foreach(names, i, name)
        printf("%s%s", i == 0 ? before : ", ", json_string_value(name));
}

/* Prints, indented, what only a driver's device has. */
static void print_driver(json_t *device)
{
    const char *name;
    json_t *why;
    printf("             %s, %s; priorities %lld to %lld", text_of(device, "model"),
           text_of(device, "driver"), (long long)number_of(device, "lowest_priority"),
           (long long)number_of(device, "highest_priority"));
    print_list("; peers ", json_object_get(device, "peers"));
    putchar('\n');
    json_object_foreach(json_object_get(device, "lacks"), name, why)
        printf("             no %s: %s\n", name, json_string_value(why));
}

static void print_devices(const json_t *devices)
{
    size_t i;
    json_t *device;
    puts("\ndevices");
    json_array_foreach(devices, i, device)
    {
        if (json_object_get(device, "error")) {
            printf("  %-10s can't be opened: %s\n", text_of(device, "name"),
                   text_of(device, "error"));
            continue;
        }
        int64_t streams = number_of(device, "streams");
        printf("  %-10s %lld stream%s, %.1f GiB memory, %.1f GiB unused", text_of(device, "name"),
               (long long)streams, streams == 1 ? "" : "s",
               (double)number_of(device, "memory_bytes") / 0x1p30,
               (double)number_of(device, "memory_unused_bytes") / 0x1p30);
        print_list("; ", json_object_get(device, "capabilities"));
        putchar('\n');
        if (json_object_get(device, "driver"))
            print_driver(device);
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
        .doc = "Shows what this build of ferry has and can do on this machine: version, backends "
               "and why one is absent, devices and why one lacks a capability, limits, environment "
               "variables. Opens the GPUs for that, which may take a while."};
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
