/* SPDX-License-Identifier: Apache-2.0 */
/* A set of keys in their order, with what is known of each. The loop alone. */
#ifndef FRY_NET_STORE_KNOWN_H
#define FRY_NET_STORE_KNOWN_H

#include "net/store.h"

#include <bsd/sys/tree.h>

typedef struct fry_known {
    RB_ENTRY(fry_known) entry;
    uint64_t version;
    uint64_t round; /* the last that found it, of the owner's */
    uint64_t mark;  /* the owner's */
    size_t size_bytes;
    char key[];
} fry_known;

/* Zeroed, with `memory` set: empty. */
typedef struct fry_known_keys {
    fry_known *rbh_root; /* as bsd's RB_HEAD has it */
    const fry_memory *memory;
    size_t count;
} fry_known_keys;

fry_known *fry_known_find(const fry_known_keys *keys, const char *key);

/* Finds a key, or adds it, all zeros then; NULL: no memory. */
fry_known *fry_known_learn(fry_known_keys *keys, const char *key);

void fry_known_forget(fry_known_keys *keys, fry_known *known);
void fry_known_forget_all(fry_known_keys *keys);

/* NULL: there is none. `after` is of a key that may have been forgotten. */
fry_known *fry_known_first(const fry_known_keys *keys);
fry_known *fry_known_next(const fry_known *known);
fry_known *fry_known_after(const fry_known_keys *keys, const char *key);

/* Makes all versions 0: those of another life of the store say nothing. */
void fry_known_forget_versions(fry_known_keys *keys);

#endif
