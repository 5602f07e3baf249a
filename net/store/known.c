/* SPDX-License-Identifier: Apache-2.0 */
#include "net/store/known.h"

#include <string.h>

static int by_key(fry_known *left, fry_known *right)
{
    return strcmp(left->key, right->key);
}

RB_GENERATE_INTERNAL(fry_known_keys, fry_known, entry, by_key, static __attribute__((unused)))

/* bsd's macros compare whole elements, so searches by key go down the tree themselves. */
fry_known *fry_known_find(const fry_known_keys *keys, const char *key)
{
    fry_known *at = keys->rbh_root;
    int order = 0;

    while (at != NULL && (order = strcmp(key, at->key)) != 0)
        at = order < 0 ? RB_LEFT(at, entry) : RB_RIGHT(at, entry);
    return at;
}

fry_known *fry_known_first(const fry_known_keys *keys)
{
    return fry_known_after(keys, "");
}

fry_known *fry_known_next(const fry_known *known)
{
    return fry_known_keys_RB_NEXT((fry_known *)(uintptr_t)known);
}

fry_known *fry_known_after(const fry_known_keys *keys, const char *key)
{
    fry_known *at = keys->rbh_root, *after = NULL;

    while (at != NULL) {
        const bool is_after = strcmp(at->key, key) > 0;

        after = is_after ? at : after;
        at = is_after ? RB_LEFT(at, entry) : RB_RIGHT(at, entry);
    }
    return after;
}

fry_known *fry_known_learn(fry_known_keys *keys, const char *key)
{
    const size_t key_bytes = strlen(key) + 1;
    fry_known *known = fry_known_find(keys, key);

    if (known != NULL)
        return known;
    known = fry_alloc(keys->memory, sizeof *known + key_bytes, _Alignof(fry_known));
    if (known == NULL)
        return NULL;
    known->size_bytes = sizeof *known + key_bytes;
    memcpy(known->key, key, key_bytes);
    RB_INSERT(fry_known_keys, keys, known);
    keys->count++;
    return known;
}

void fry_known_forget(fry_known_keys *keys, fry_known *known)
{
    RB_REMOVE(fry_known_keys, keys, known);
    keys->count--;
    fry_free(keys->memory, known, known->size_bytes);
}

void fry_known_forget_all(fry_known_keys *keys)
{
    while (keys->rbh_root != NULL)
        fry_known_forget(keys, keys->rbh_root);
}

void fry_known_forget_versions(fry_known_keys *keys)
{
    fry_known *known;

    RB_FOREACH(known, fry_known_keys, keys)
        known->version = 0;
}
