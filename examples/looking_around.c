/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is there? The program asks the library for its version and build, the machine for backends
 * and devices, and the engine for its limits, and prints what it hears. `ferry info` does the same.
 */
#include <ferry/ferry.h>
#include <stdio.h>

static void show_version(void)
{
    printf("ferry %s (%d); %s\n", ferry_version(), ferry_version_number(), ferry_build_text());
    if (ferry_version_number() < FERRY_VERSION_NUMBER)
        printf("this program was compiled for a newer one, %d\n", FERRY_VERSION_NUMBER);
}

/* What the build or the machine may lack, and why. */
static void show_backends(void)
{
    for (size_t i = 0; i < ferry_backend_count(); i++) {
        ferry_backend_info info = FERRY_BACKEND_INFO_INIT;
        if (ferry_backend_at(i, &info) == FERRY_OK)
            printf("backend %s: %s, %s\n", info.name, info.is_here ? "here" : "absent",
                   info.reason);
    }
}

static void show_variables(void)
{
    for (size_t i = 0; i < ferry_variable_count(); i++) {
        ferry_variable_info info = FERRY_VARIABLE_INFO_INIT;
        if (ferry_variable_at(i, &info) == FERRY_OK)
            printf("%s=%s: %s\n", info.name, info.value != NULL ? info.value : "", info.text);
    }
}

/* A device's capabilities, each with a line about it or with the reason why it lacks. */
static void show_capabilities(ferry_device *device, uint32_t capabilities)
{
    for (uint32_t bit = 1; bit <= FERRY_CAN_SHARE_MEMORY; bit *= 2) {
        ferry_capability capability = (ferry_capability)bit;
        const char *missing = ferry_device_lacks(device, capability);
        printf("  %s %s: %s\n", capabilities & bit ? "+" : "-", ferry_capability_name(capability),
               missing != NULL ? missing : ferry_capability_text(capability));
    }
}

static size_t show_devices(ferry_engine *engine)
{
    size_t count = ferry_device_count(engine);
    for (size_t i = 0; i < count; i++) {
        ferry_device *device = ferry_device_at(engine, i);
        ferry_device_info info = FERRY_DEVICE_INFO_INIT;
        if (ferry_device_describe(device, &info) != FERRY_OK)
            return 0;
        printf("%s: %s, %u streams\n", ferry_device_name(device), info.backend, info.stream_count);
        if (i == 0)
            show_capabilities(device, info.capabilities);
    }
    return count;
}

/* The options in force, with the defaults filled in. */
static ferry_status show_limits(const ferry_engine *engine)
{
    ferry_engine_options limits = FERRY_ENGINE_OPTIONS_INIT;
    ferry_status status = ferry_engine_limits(engine, &limits);
    printf("max_nodes %u, max_tasks %u, stream_depth %u\n", limits.max_nodes, limits.max_tasks,
           limits.stream_depth);
    return status;
}

int main(void)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.host_devices = 3;
    ferry_engine *engine = NULL;
    ferry_error *error = NULL;
    show_version();
    show_backends();
    show_variables();
    if (ferry_engine_create(&options, &engine, &error) != FERRY_OK) {
        fprintf(stderr, "%s: %s\n", ferry_status_name(error->status), error->message);
        ferry_error_release(error);
        return 1;
    }
    size_t devices = show_devices(engine);
    ferry_status status = show_limits(engine);
    ferry_engine_release(engine);
    return devices == 3 && status == FERRY_OK ? 0 : 1;
}
