/* SPDX-License-Identifier: Apache-2.0 */
#include "base/environment.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

Test(base_environment, every_variable_has_its_name_and_a_line)
{
    for (int i = 0; i < FRY_ENVIRONMENT_COUNT; i++) {
        const char *text = fry_environment_text((fry_environment_variable)i);
        cr_assert_gt(strlen(text), 0);
        cr_assert_null(strchr(text, '\n'));
    }
    cr_assert_str_eq(fry_environment_name(FRY_ENV_FERRY_LOG), "FERRY_LOG");
    cr_assert_str_eq(fry_environment_name(FRY_ENV_NVTX_INJECTION64_PATH), "NVTX_INJECTION64_PATH");
}

Test(base_environment, an_empty_one_is_not_set)
{
    cr_assert_eq(unsetenv("FERRY_TRACE"), 0);
    cr_assert_null(fry_environment(FRY_ENV_FERRY_TRACE));
    cr_assert_eq(setenv("FERRY_TRACE", "", 1), 0);
    cr_assert_null(fry_environment(FRY_ENV_FERRY_TRACE));
    cr_assert_eq(setenv("FERRY_TRACE", "here", 1), 0);
    cr_assert_str_eq(fry_environment(FRY_ENV_FERRY_TRACE), "here");
}
