/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that are kept once each: what is found again, what is cut, where it ends. */
#include "base/intern.h"
#include "tests/support/failing_allocator.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static failing_allocator allocator;
static fry_memory memory;
static fry_intern intern;

static void begin(void)
{
    failing_allocator_init(&allocator);
    ferry_allocator interface = failing_allocator_interface(&allocator);
    fry_memory_init(&memory, &interface);
    fry_intern_open(&intern);
}

static void end(void)
{
    fry_intern_close(&intern, &memory);
    cr_assert_eq(failing_allocator_live_bytes(&allocator), 0);
}

TestSuite(base_intern, .init = begin, .fini = end, .timeout = 60);

Test(base_intern, equal_texts_are_one)
{
    char text[] = "weights";
    const char *kept = fry_intern_text(&intern, &memory, text);
    cr_assert(kept != text && strcmp(kept, "weights") == 0);
    uint64_t calls = failing_allocator_calls(&allocator);
    cr_assert_eq(fry_intern_text(&intern, &memory, "weights"), kept);
    cr_assert_eq(failing_allocator_calls(&allocator), calls);
    text[0] = 'W';
    cr_assert_str_eq(kept, "weights");
    cr_assert_neq(fry_intern_text(&intern, &memory, text), kept);
    cr_assert_neq(fry_intern_text(&intern, &memory, "weight"), kept);
    cr_assert_str_eq(fry_intern_text(&intern, &memory, ""), "");
}

Test(base_intern, long_ones_are_cut)
{
    char text[1000];
    memset(text, 'x', sizeof text);
    text[999] = '\0';
    const char *kept = fry_intern_text(&intern, &memory, text);
    cr_assert_eq(strlen(kept), FRY_INTERN_TEXT_BYTES - 1);
    text[500] = 'y'; /* behind the cut */
    cr_assert_eq(fry_intern_text(&intern, &memory, text), kept);
    text[FRY_INTERN_TEXT_BYTES - 1] = '\0';
    cr_assert_eq(fry_intern_text(&intern, &memory, text), kept);
}

Test(base_intern, without_memory_the_next_try_may_succeed)
{
    failing_allocator_arm(&allocator, 1, false);
    cr_assert_null(fry_intern_text(&intern, &memory, "a"));
    cr_assert_str_eq(fry_intern_text(&intern, &memory, "a"), "a");
}

Test(base_intern, past_their_bound_only_known_ones_are_found)
{
    char text[32];
    const char *first = fry_intern_text(&intern, &memory, "0");
    for (int i = 1; i < FRY_INTERN_TEXTS_MAX; i++) {
        (void)snprintf(text, sizeof text, "%d", i);
        const char *kept = fry_intern_text(&intern, &memory, text);
        cr_assert(kept != NULL && strcmp(kept, text) == 0);
    }
    cr_assert_null(fry_intern_text(&intern, &memory, "one more"));
    cr_assert_null(fry_intern_text(&intern, &memory, "one more"));
    cr_assert_eq(fry_intern_text(&intern, &memory, "0"), first);
}
