/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of devices in modules share: an engine that keeps its log, and the module for tests.
 * For Criterion programs. */
#ifndef FERRY_TESTS_DEVICE_TEST_H
#define FERRY_TESTS_DEVICE_TEST_H

#include "tests/support/api_test.h"
#include "tests/support/fake_module.h"

typedef struct kept_log {
    pthread_mutex_t lock;
    char last[512];
    int warnings;
} kept_log;

typedef struct device_test {
    test_engine te;
    ferry_engine *engine; /* te's */
    fake_module *fake;
    kept_log log;
} device_test;

/* Keeps warnings and errors. */
static inline void keep_line(void *arg, ferry_log_level level, const char *line)
{
    kept_log *log = arg;
    if (level > FERRY_LOG_WARNING)
        return;
    (void)pthread_mutex_lock(&log->lock);
    (void)snprintf(log->last, sizeof log->last, "%s", line);
    log->warnings++;
    (void)pthread_mutex_unlock(&log->lock);
}

/* An engine, with the module where ferry will find it; `folder` NULL: the good one. */
static inline void device_test_open_from(device_test *t, ferry_loop_mode loop, const char *folder)
{
    memset(t, 0, sizeof *t);
    (void)pthread_mutex_init(&t->log.lock, NULL);
    t->fake = fake_module_load();
    cr_assert_not_null(t->fake, "the module for tests is not there");
    if (folder != NULL)
        fake_module_choose(folder);
    ferry_engine_options options = test_engine_options(&t->te, loop);
    options.log = keep_line;
    options.log_arg = &t->log;
    test_engine_create(&t->te, &options);
    t->engine = t->te.engine;
}

static inline void device_test_open(device_test *t, ferry_loop_mode loop)
{
    device_test_open_from(t, loop, NULL);
}

/* With all memory given back, the engine's and the module's. */
static inline void device_test_close(device_test *t)
{
    test_engine_close(&t->te);
    cr_assert_eq(t->fake->live_allocations, 0);
    cr_assert_eq(t->fake->destroys, t->fake->open_status == FERRY_OK && t->fake->opens > 0);
}

static inline ferry_device *open_gpu(device_test *t, const char *name)
{
    ferry_device *device = NULL;
    ASSERT_STATUS(ferry_device_open(t->engine, name, NULL, &device, NULL), FERRY_OK);
    cr_assert_str_eq(ferry_device_name(device), name);
    return device;
}

#define ASSERT_SAYS(text, part)                                                                    \
    cr_assert(strstr((text), (part)) != NULL, "\"%s\" does not say \"%s\"", (text), (part))

#endif
