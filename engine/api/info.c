/* SPDX-License-Identifier: Apache-2.0 */
/* What this build and machine have, for `ferry info` and others. */
#include "base/environment.h"
#include "base/options.h"
#include "engine/engine.h"
#include "engine/graph/lane.h"
#include "engine/ground/ground.h"
#include "gpu/backend.h"
#include "net/pairs.h"
#include "net/ucx/library.h"

#include <ferry/info.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZER "AddressSanitizer"
#elif defined(__SANITIZE_THREAD__)
#define SANITIZER "ThreadSanitizer"
#else
#define SANITIZER "no sanitizer"
#endif

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

#if defined(__x86_64__)
#define PROCESSOR "x86-64"
#elif defined(__aarch64__)
#define PROCESSOR "aarch64"
#else
#define PROCESSOR "another processor"
#endif

/* CMake sets FRY_BUILD_TYPE. */
const char *ferry_build_text(void)
{
    return COMPILER ", " FRY_BUILD_TYPE ", " PROCESSOR ", " SANITIZER;
}

/* ---- backends ---- */

size_t ferry_backend_count(void)
{
    return 6;
}

/* A backend that is found at run time. */
static ferry_backend_info find_backend(const char *name)
{
    ferry_backend_info info = {.name = name};
    if (strcmp(name, "ucx") == 0) {
        info.is_here = fry_ucx_load(&info.reason) == FERRY_OK;
        return info;
    }
    if (strcmp(name, "nccl") == 0) {
        const fry_pairs_ops *pairs = fry_pairs_find(name, &info.reason);
        info.is_here = pairs != NULL && pairs->probe(&info.reason) != 0;
        return info;
    }
    const fry_backend_ops *ops = fry_backend_find(name, &info.reason);
    if (ops != NULL)
        info.device_count = ops->probe(&info.reason);
    info.is_here = info.device_count != 0;
    return info;
}

ferry_status ferry_backend_at(size_t index, ferry_backend_info *info)
{
    const ferry_backend_info backends[] = {
        {.name = "host",
         .is_here = true,
         .reason = "devices in the memory of this process, copied by worker threads"},
        {.name = "cuda"},
        {.name = "nccl"},
        {.name = "ucx"},
        {.name = "libev",
         .is_here = true,
         .reason = "engines can be attached to the user's libev loop"},
        {.name = "nvtx",
         .is_here = fry_nvtx_is_built,
         .reason = fry_nvtx_is_built ? "operations are NVTX ranges if a tool is injected"
                                     : "nvtx3/nvToolsExt.h was not found when ferry was built"},
    };
    _Static_assert(sizeof backends / sizeof backends[0] == 6, "ferry_backend_count");
    static const ferry_backend_info none = {.struct_size = sizeof none};
    ferry_status status =
        info != NULL ? fry_struct_hand_out(info, &none, sizeof none) : FERRY_E_INVALID;
    if (status != FERRY_OK)
        return status;
    if (index >= 6)
        return FERRY_E_NOT_FOUND;
    ferry_backend_info found = backends[index];
    if (found.reason == NULL)
        found = find_backend(found.name);
    return fry_struct_hand_out(info, &found, sizeof found);
}

/* ---- devices ---- */

const char *ferry_capability_name(ferry_capability capability)
{
#define NAME_CASE(name, value, word, text)                                                         \
    case name:                                                                                     \
        return word;
    switch (capability) {
        FERRY_CAPABILITY_MAP(NAME_CASE)
    }
#undef NAME_CASE
    return "?";
}

const char *ferry_capability_text(ferry_capability capability)
{
#define TEXT_CASE(name, value, word, text)                                                         \
    case name:                                                                                     \
        return text;
    switch (capability) {
        FERRY_CAPABILITY_MAP(TEXT_CASE)
    }
#undef TEXT_CASE
    return "?";
}

static void describe(const ferry_device *device, fry_device_facts *facts)
{
    memset(facts, 0, sizeof *facts);
    device->device->ops->describe(device->device, facts);
}

ferry_status ferry_device_describe(ferry_device *device, ferry_device_info *info)
{
    if (device == NULL || info == NULL)
        return FERRY_E_INVALID;
    ferry_status status = fry_engine_check(device->engine);
    if (status != FERRY_OK)
        return status;
    const fry_device *of = device->device;
    fry_device_facts facts;
    describe(device, &facts);
    ferry_device_info found = {.name = of->name,
                               .backend = of->ops->backend,
                               .index = of->index,
                               .stream_count = facts.stream_count,
                               .capabilities = facts.capabilities,
                               .memory_bytes = facts.memory_bytes,
                               .memory_unused_bytes = facts.memory_unused_bytes,
                               .model = facts.model,
                               .driver = facts.driver,
                               .peers = facts.peers,
                               .lowest_priority = facts.lowest_priority,
                               .highest_priority = facts.highest_priority};
    return fry_struct_hand_out(info, &found, sizeof found);
}

const char *ferry_device_lacks(ferry_device *device, ferry_capability capability)
{
    bool is_one = false;
#define IS_ONE(name, value, word, text) is_one |= capability == name;
    FERRY_CAPABILITY_MAP(IS_ONE)
#undef IS_ONE
    if (device == NULL || !is_one || fry_engine_check(device->engine) != FERRY_OK)
        return NULL;
    fry_device_facts facts;
    describe(device, &facts);
    if ((facts.capabilities & (uint32_t)capability) != 0)
        return NULL;
    const char *why = facts.lacks[__builtin_ctz((uint32_t)capability)];
    return why != NULL ? why : "its backend does not support it";
}

/* ---- limits ---- */

ferry_status ferry_engine_limits(const ferry_engine *engine, ferry_engine_options *options)
{
    ferry_status status = fry_engine_check(engine);
    if (status != FERRY_OK)
        return status;
    if (options == NULL)
        return FERRY_E_INVALID;
    return fry_struct_hand_out(options, &engine->options, sizeof engine->options);
}

/* ---- environment ---- */

size_t ferry_variable_count(void)
{
    return FRY_ENVIRONMENT_COUNT;
}

ferry_status ferry_variable_at(size_t index, ferry_variable_info *info)
{
    ferry_variable_info found = {.struct_size = sizeof found};
    ferry_status status =
        info != NULL ? fry_struct_hand_out(info, &found, sizeof found) : FERRY_E_INVALID;
    if (status != FERRY_OK)
        return status;
    if (index >= FRY_ENVIRONMENT_COUNT)
        return FERRY_E_NOT_FOUND;
    fry_environment_variable variable = (fry_environment_variable)index;
    found.name = fry_environment_name(variable);
    found.text = fry_environment_text(variable);
    found.value = fry_environment(variable);
    return fry_struct_hand_out(info, &found, sizeof found);
}
