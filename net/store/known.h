/* SPDX-License-Identifier: Apache-2.0 */
/* A sorted set of keys, with what is known of each. Only the loop uses it. */
#ifndef FRY_NET_STORE_KNOWN_H
#define FRY_NET_STORE_KNOWN_H

#include "base/memory.h"

#include <bsd/sys/tree.h>

typedef struct fry_known {
    RB_ENTRY(fry_known) entry;
    uint64_t version;
    uint64_t round; /* the owner's last round that found the key */
    uint64_t mark;  /* the owner's */
    size_t size_bytes;
    char key[];
} fry_known;

/* Empty if zeroed, with `memory` set. */
typedef struct fry_known_keys {
    fry_known *rbh_root; /* as bsd's RB_HEAD has it */
    const fry_memory *memory;
    size_t count;
} fry_known_keys;

fry_known *fry_known_find(const fry_known_keys *keys, const char *key);

/* Finds a key, or adds it with all fields zero; NULL: no memory. */
fry_known *fry_known_learn(fry_known_keys *keys, const char *key);

void fry_known_forget(fry_known_keys *keys, fry_known *known);
void fry_known_forget_all(fry_known_keys *keys);

/* NULL: there is none. The key of `after` may have been forgotten. */
fry_known *fry_known_first(const fry_known_keys *keys);
fry_known *fry_known_next(const fry_known *known);
fry_known *fry_known_after(const fry_known_keys *keys, const char *key);

/* Sets all versions to 0, because those of another life of the store mean nothing. */
void fry_known_forget_versions(fry_known_keys *keys);

#endif
