/* SPDX-License-Identifier: Apache-2.0 */
/* Keys in their order, found, added and forgotten in any. */
#include "net/store/known.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define KEYS 500

static fry_memory memory;

static void open_memory(void)
{
    fry_memory_init(&memory, NULL);
}

TestSuite(net_store_known, .init = open_memory, .timeout = 60);

/* All keys, of three digits, in an order that is not theirs. */
static void learn_all(fry_known_keys *keys)
{
    char key[16];

    *keys = (fry_known_keys){.memory = &memory};
    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(key, sizeof key, "%03d", i * 7 % KEYS);
        cr_assert_not_null(fry_known_learn(keys, key));
    }
    cr_assert_eq(keys->count, KEYS);
}

Test(net_store_known, keys_are_in_order)
{
    fry_known_keys keys;
    char key[16];
    int at = 0;

    learn_all(&keys);
    for (const fry_known *k = fry_known_first(&keys); k != NULL; k = fry_known_next(k)) {
        (void)snprintf(key, sizeof key, "%03d", at++);
        cr_assert_str_eq(k->key, key);
    }
    cr_assert_eq(at, KEYS);
    fry_known_forget_all(&keys);
    cr_assert(keys.count == 0 && fry_known_first(&keys) == NULL);
}

Test(net_store_known, one_key_is_there_once)
{
    fry_known_keys keys;

    learn_all(&keys);
    fry_known *known = fry_known_learn(&keys, "123");
    cr_assert(known == fry_known_find(&keys, "123") && keys.count == KEYS);
    known->version = 5;
    cr_assert_eq(fry_known_learn(&keys, "123")->version, 5);
    cr_assert_eq(fry_known_learn(&keys, "12")->version, 0);
    fry_known_forget_versions(&keys);
    cr_assert_eq(fry_known_find(&keys, "123")->version, 0);
    cr_assert_null(fry_known_find(&keys, "1234"));
    fry_known_forget_all(&keys);
}

Test(net_store_known, the_next_is_found_by_a_key_that_is_forgotten)
{
    fry_known_keys keys;

    learn_all(&keys);
    fry_known_forget(&keys, fry_known_find(&keys, "200"));
    fry_known_forget(&keys, fry_known_find(&keys, "201"));
    cr_assert_null(fry_known_find(&keys, "200"));
    cr_assert_str_eq(fry_known_after(&keys, "200")->key, "202");
    cr_assert_str_eq(fry_known_after(&keys, "")->key, "000");
    cr_assert_null(fry_known_after(&keys, "499"));
    fry_known_forget_all(&keys);
}
