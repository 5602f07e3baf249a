/* SPDX-License-Identifier: Apache-2.0 */
/* file: does what every store must, on clocks that are stepped. */
#include "tests/support/store_suite.h"
#include "tests/support/temporary_folder.h"

#include <criterion/criterion.h>

static char folder[TEMPORARY_FOLDER_BYTES], uri[TEMPORARY_FOLDER_BYTES + 8];
static store_place place = {.uri = uri, .is_stepped = true};

static void make_folder(void)
{
    temporary_folder_make(folder);
    (void)snprintf(uri, sizeof uri, "file:%s", folder);
}

TestSuite(net_store_file, .init = make_folder, .timeout = 60);

#define CASE(name)                                                                                 \
    Test(net_store_file, name)                                                                     \
    {                                                                                              \
        store_suite_##name(&place);                                                                \
    }
STORE_SUITE(CASE)
