/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <ferry/status.h>
#include <stdbool.h>
#include <string.h>

typedef struct status_row {
    ferry_status status;
    const char *name;
    const char *text;
} status_row;

#define ROW(name, value, text) {name, #name, text},
static const status_row rows[] = {FERRY_STATUS_MAP(ROW)};
#define ROW_COUNT (sizeof rows / sizeof rows[0])

Test(base_status, each_has_its_name_and_text)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        cr_assert_str_eq(ferry_status_name(rows[i].status), rows[i].name);
        cr_assert_str_eq(ferry_status_text(rows[i].status), rows[i].text);
        cr_assert_neq(rows[i].text[0], '\0', "%s says nothing", rows[i].name);
    }
}

Test(base_status, known_names)
{
    cr_assert_str_eq(ferry_status_name(FERRY_OK), "FERRY_OK");
    cr_assert_str_eq(ferry_status_name(FERRY_E_AGAIN), "FERRY_E_AGAIN");
    cr_assert_str_eq(ferry_status_text(FERRY_E_CANCELLED), "the operation was cancelled");
}

Test(base_status, unknown_numbers_are_named_so)
{
    static const int strangers[] = {2, -31, -63, -1000, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof strangers / sizeof strangers[0]; i++) {
        cr_assert_str_eq(ferry_status_name((ferry_status)strangers[i]), "FERRY_E_UNKNOWN");
        cr_assert_str_eq(ferry_status_text((ferry_status)strangers[i]), "unknown status");
    }
}

Test(base_status, zero_is_success_one_is_pending_the_rest_negative)
{
    cr_assert_eq(FERRY_OK, 0);
    cr_assert_eq(FERRY_PENDING, 1);
    for (size_t i = 0; i < ROW_COUNT; i++) {
        bool is_error = strncmp(rows[i].name, "FERRY_E_", strlen("FERRY_E_")) == 0;
        cr_assert_eq(is_error, rows[i].status < 0, "%s", rows[i].name);
    }
}
