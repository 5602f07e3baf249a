/* SPDX-License-Identifier: Apache-2.0 */
/* Reads memory after it was freed. */
#include <criterion/criterion.h>
#include <stdlib.h>

static char *volatile keep;

Test(planted, early_free)
{
    keep = calloc(1, 100);
    cr_assert_not_null(keep);
    free(keep);
    cr_assert(keep[0] == keep[0]);
}
