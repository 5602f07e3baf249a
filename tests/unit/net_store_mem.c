/* SPDX-License-Identifier: Apache-2.0 */
/* mem: does what every store must; more of it in net_store.c. */
#include "tests/support/store_suite.h"

#include <criterion/criterion.h>

static const store_place place = {.uri = "mem:suite", .is_stepped = true};

#define CASE(name)                                                                                 \
    Test(net_store_mem, name, .timeout = 60)                                                       \
    {                                                                                              \
        store_suite_##name(&place);                                                                \
    }
STORE_SUITE(CASE)
