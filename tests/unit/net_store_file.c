/* SPDX-License-Identifier: Apache-2.0 */
/* file: does what every store must, on clocks that are stepped. */
#include "tests/support/store_suite.h"

#include <criterion/criterion.h>
#include <ftw.h>
#include <string.h>
#include <unistd.h>

static char folder[64], uri[80];
static store_place place = {.uri = uri, .is_stepped = true};

static int remove_one(const char *path, const struct stat *about, int type, struct FTW *where)
{
    (void)about;
    (void)type;
    (void)where;
    return remove(path);
}

static void make_folder(void)
{
    (void)strcpy(folder, "/tmp/ferry-store-file.XXXXXX");
    cr_assert(mkdtemp(folder) != NULL);
    (void)snprintf(uri, sizeof uri, "file:%s", folder);
}

static void remove_folder(void)
{
    (void)nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

TestSuite(net_store_file, .init = make_folder, .fini = remove_folder, .timeout = 60);

#define CASE(name)                                                                                 \
    Test(net_store_file, name)                                                                     \
    {                                                                                              \
        store_suite_##name(&place);                                                                \
        remove_folder();                                                                           \
    }
STORE_SUITE(CASE)
