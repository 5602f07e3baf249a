/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_text.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

Test(base_json_text, numbers)
{
    static const uint64_t values[] = {0,
                                      1,
                                      9,
                                      10,
                                      11,
                                      99,
                                      100,
                                      101,
                                      999,
                                      1000,
                                      1001,
                                      9999,
                                      10000,
                                      UINT32_MAX,
                                      (uint64_t)INT64_MAX,
                                      (uint64_t)INT64_MAX + 1,
                                      UINT64_MAX - 1,
                                      UINT64_MAX};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char expected[32], text[FRY_JSON_NUMBER_BYTES + 1];
        (void)snprintf(expected, sizeof expected, "%" PRIu64, values[i]);
        *fry_json_unsigned(text, values[i]) = '\0';
        cr_assert_str_eq(text, expected);
        int64_t value = (int64_t)values[i];
        (void)snprintf(expected, sizeof expected, "%" PRId64, value);
        *fry_json_signed(text, value) = '\0';
        cr_assert_str_eq(text, expected);
    }
}

Test(base_json_text, microseconds)
{
    static const struct {
        int64_t ns;
        const char *text;
    } cases[] = {
        {0, "0.000"},
        {1, "0.001"},
        {999, "0.999"},
        {1000, "1.000"},
        {-1, "-0.001"},
        {-1500, "-1.500"},
        {1234567890123456, "1234567890123.456"},
        {INT64_MAX, "9223372036854775.807"},
        {INT64_MIN, "-9223372036854775.808"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[FRY_JSON_NUMBER_BYTES + 1];
        char *end = fry_json_microseconds(text, cases[i].ns);
        cr_assert_leq(end - text, FRY_JSON_NUMBER_BYTES);
        *end = '\0';
        cr_assert_str_eq(text, cases[i].text);
    }
}

/* What a JSON parser makes of it. */
static void assert_string(const char *given, size_t bytes, const char *expected)
{
    char text[FRY_JSON_STRING_BYTES(4096)];
    cr_assert_leq(bytes, 4096);
    char *end = fry_json_string(text, given, bytes);
    cr_assert_leq((size_t)(end - text), FRY_JSON_STRING_BYTES(bytes));
    json_error_t error;
    json_t *parsed = json_loadb(text, (size_t)(end - text), JSON_DECODE_ANY, &error);
    cr_assert_not_null(parsed, "%s: %.*s", error.text, (int)(end - text), text);
    cr_assert_str_eq(json_string_value(parsed), expected);
    json_decref(parsed);
}

Test(base_json_text, strings_are_escaped_and_valid)
{
    static const struct {
        const char *given, *expected;
    } cases[] = {
        {"", ""},
        {"weights", "weights"},
        {"a \"b\" \\ c/", "a \"b\" \\ c/"},
        {"\x01\x1f\n\t\r\x7f", "\x01\x1f\n\t\r\x7f"},
        {"ä€𝄞", "ä€𝄞"},
        {"\x80", "\xef\xbf\xbd"},
        {"a\xffz", "a\xef\xbf\xbdz"},
        {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},                                 /* overlong */
        {"\xe0\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},                 /* overlong */
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},                 /* a surrogate */
        {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* too large */
        {"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd"}, /* the text ends in its midst */
        {"\xc3x", "\xef\xbf\xbdx"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string(cases[i].given, 4096, cases[i].expected);
}

Test(base_json_text, long_strings_are_cut_between_characters)
{
    assert_string("weights", 3, "wei");
    assert_string("ab\xe2\x82\xac", 5, "ab\xe2\x82\xac");
    assert_string("ab\xe2\x82\xac", 4, "ab");
    assert_string("ab\xe2\x82\xac", 3, "ab");
    assert_string("weights", 0, "");
}

Test(base_json_text, every_pair_of_bytes_can_be_parsed)
{
    for (int first = 1; first < 256; first++) {
        for (int second = 1; second < 256; second++) {
            char given[] = {(char)first, (char)second, 'x', '\0'};
            char text[FRY_JSON_STRING_BYTES(3)];
            char *end = fry_json_string(text, given, 3);
            json_t *parsed = json_loadb(text, (size_t)(end - text), JSON_DECODE_ANY, NULL);
            cr_assert_not_null(parsed, "%02x %02x", (unsigned)first, (unsigned)second);
            json_decref(parsed);
        }
    }
}
