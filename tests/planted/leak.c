/* SPDX-License-Identifier: Apache-2.0 */
/* A passing test that leaks: LeakSanitizer's report does not fail a Criterion suite by itself. */
#include <criterion/criterion.h>
#include <stdlib.h>

static void *volatile keep;

Test(planted, leak)
{
    keep = malloc(100);
    cr_assert_not_null(keep);
    keep = NULL;
}
