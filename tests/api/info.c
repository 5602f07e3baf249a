/* SPDX-License-Identifier: Apache-2.0 */
/* What ferry says of itself. */
#include "tests/support/play.h"

#include <stddef.h>

SCENE_SUITE(info);

Test(info, the_build_is_named)
{
    cr_assert_not_null(strchr(ferry_build_text(), ','));
}

Test(info, every_backend_has_a_name_and_says_why)
{
    bool host_is_here = false, cuda_is_known = false;
    cr_assert_gt(ferry_backend_count(), 0);
    for (size_t i = 0; i < ferry_backend_count(); i++) {
        ferry_backend_info backend = FERRY_BACKEND_INFO_INIT;
        ASSERT_STATUS(ferry_backend_at(i, &backend), FERRY_OK);
        cr_assert_gt(strlen(backend.name), 0);
        cr_assert_gt(strlen(backend.reason), 0);
        host_is_here = host_is_here || (strcmp(backend.name, "host") == 0 && backend.is_here);
        cuda_is_known = cuda_is_known || strcmp(backend.name, "cuda") == 0;
    }
    cr_assert(host_is_here && cuda_is_known);
    ferry_backend_info none = FERRY_BACKEND_INFO_INIT;
    ASSERT_STATUS(ferry_backend_at(ferry_backend_count(), &none), FERRY_E_NOT_FOUND);
    cr_assert_null(none.name);
    ASSERT_STATUS(ferry_backend_at(0, NULL), FERRY_E_INVALID);
    none.struct_size = 4;
    ASSERT_STATUS(ferry_backend_at(0, &none), FERRY_E_INVALID);
}

Test(info, a_device_is_described)
{
    ferry_device_info info = FERRY_DEVICE_INFO_INIT;
    ASSERT_STATUS(ferry_device_describe(ferry_device_at(engine(), 3), &info), FERRY_OK);
    cr_assert_str_eq(info.name, "host:3");
    cr_assert_str_eq(info.backend, "host");
    cr_assert_eq(info.index, 3);
    cr_assert_eq(info.stream_count, 1);
    cr_assert(info.capabilities & FERRY_CAN_COPY_ROWS);
    cr_assert_gt(info.memory_bytes, info.memory_unused_bytes);
    cr_assert_str_eq(ferry_capability_name(FERRY_CAN_COPY_ROWS), "copy-rows");
    cr_assert_str_eq(ferry_capability_name((ferry_capability)3), "?");
    cr_assert_gt(strlen(ferry_capability_text(FERRY_CAN_STOP_COPIES)), 1);
}

Test(info, structs_of_other_versions_are_filled_as_far_as_they_go)
{
    ferry_device *device = ferry_device_at(engine(), 0);
    ferry_device_info info;
    memset(&info, 0x5a, sizeof info);
    info.struct_size = offsetof(ferry_device_info, index);
    ASSERT_STATUS(ferry_device_describe(device, &info), FERRY_OK);
    cr_assert_str_eq(info.backend, "host");
    cr_assert_eq(info.index, 0x5a5a5a5a);

    struct {
        ferry_device_info info;
        char later[64];
    } larger;
    memset(&larger, 0x5a, sizeof larger);
    larger.info.struct_size = sizeof larger;
    ASSERT_STATUS(ferry_device_describe(device, &larger.info), FERRY_OK);
    cr_assert_str_eq(larger.info.name, "host:0");
    for (size_t i = 0; i < sizeof larger.later; i++)
        cr_assert_eq(larger.later[i], 0);

    info.struct_size = 0;
    ASSERT_STATUS(ferry_device_describe(device, &info), FERRY_E_INVALID);
    info.struct_size = 1 << 20;
    ASSERT_STATUS(ferry_device_describe(device, &info), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_device_describe(NULL, &info), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_device_describe(device, NULL), FERRY_E_INVALID);
}

Test(info, limits_are_what_was_given_and_defaults)
{
    ferry_engine_options *given = scene_options(FERRY_LOOP_EMBEDDED);
    given->max_nodes = 1000;
    given->watchdog_path = "/nowhere";
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    ASSERT_STATUS(ferry_engine_limits(engine(), &options), FERRY_OK);
    cr_assert_eq(options.struct_size, sizeof options);
    cr_assert_eq(options.loop, FERRY_LOOP_EMBEDDED);
    cr_assert_eq(options.max_nodes, 1000);
    cr_assert_eq(options.max_edges, 8 * 1000 + 4096);
    cr_assert_eq(options.stream_depth, 4096);
    cr_assert_eq(options.host_workers, 2);
    cr_assert_null(options.allocator);
    cr_assert_null(options.clock);
    cr_assert_null(options.watchdog_path);
    ASSERT_STATUS(ferry_engine_limits(engine(), NULL), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_engine_limits(NULL, &options), FERRY_E_INVALID);
}

Test(info, variables_are_listed_with_their_values)
{
    cr_assert_eq(setenv("FERRY_LOG", "error", 1), 0);
    bool seen = false;
    for (size_t i = 0; i < ferry_variable_count(); i++) {
        ferry_variable_info variable = FERRY_VARIABLE_INFO_INIT;
        ASSERT_STATUS(ferry_variable_at(i, &variable), FERRY_OK);
        cr_assert_gt(strlen(variable.text), 0);
        if (strcmp(variable.name, "FERRY_LOG") == 0) {
            cr_assert_str_eq(variable.value, "error");
            seen = true;
        }
    }
    cr_assert(seen);
    ferry_variable_info none = FERRY_VARIABLE_INFO_INIT;
    ASSERT_STATUS(ferry_variable_at(ferry_variable_count(), &none), FERRY_E_NOT_FOUND);
    cr_assert_null(none.name);
    ASSERT_STATUS(ferry_variable_at(0, NULL), FERRY_E_INVALID);
    none.struct_size = 5000;
    ASSERT_STATUS(ferry_variable_at(0, &none), FERRY_E_INVALID);
}
