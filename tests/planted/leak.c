/* SPDX-License-Identifier: Apache-2.0 */
/* A test that passes and leaks. */
#include <criterion/criterion.h>
#include <stdlib.h>

static void *volatile keep;

Test(planted, leak)
{
    keep = malloc(100);
    cr_assert_not_null(keep);
    keep = NULL;
}
