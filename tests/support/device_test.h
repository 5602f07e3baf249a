/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of devices in modules share: an engine that keeps its log, and the module for tests.
 * For Criterion programs. */
#ifndef FERRY_TESTS_DEVICE_TEST_H
#define FERRY_TESTS_DEVICE_TEST_H

#include "tests/support/fake_module.h"
#include "tests/support/play.h"
#include "tests/support/suite.h"

static fake_module *fake; /* the module for tests */

/* A scene, with the module where ferry will find it; `folder` NULL: the good one. */
static inline void begin_from(ferry_loop_mode loop, const char *folder)
{
    fake = fake_module_load();
    cr_assert_not_null(fake, "the module for tests is not there");
    if (folder != NULL)
        fake_module_choose(folder);
    scene_begin(loop);
}

static inline void begin(ferry_loop_mode loop)
{
    begin_from(loop, NULL);
}

/* With all memory given back, the engine's and the module's. */
static inline void end(void)
{
    scene_end();
    if (fake == NULL || suite_has_failed())
        return;
    cr_assert_eq(fake->live_allocations, 0);
    cr_assert_eq(fake->destroys, fake->open_status == FERRY_OK && fake->opens > 0);
}

#define DEVICE_SUITE(name) TestSuite(name, .fini = end, .timeout = HANG_S)

static inline ferry_device *open_gpu(const char *name)
{
    ferry_device *device = NULL;
    ASSERT_STATUS(ferry_device_open(engine(), name, NULL, &device, NULL), FERRY_OK);
    cr_assert_str_eq(ferry_device_name(device), name);
    return device;
}

#define ASSERT_SAYS(text, part)                                                                    \
    cr_assert(strstr((text), (part)) != NULL, "\"%s\" does not say \"%s\"", (text), (part))

#endif
