/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts that are kept once each, for as long as their owner lives. Any thread may ask for one, and
 * waits for none.
 *
 * Why that is right. A bucket is a list that only grows at its head, by compare-and-swap, and what
 * is in it never changes, so whoever has loaded a head (acquire; pairs with the swap) may walk the
 * list. A thread that fails to put its text in looks at the entries that have come, so no list has
 * a text twice: each was put in behind all that its thread had looked at.
 *
 * The hash is libsodium's crypto_shorthash (SipHash) with a key of its own, since texts may come
 * from anywhere.
 */
#ifndef FRY_BASE_INTERN_H
#define FRY_BASE_INTERN_H

#include "base/memory.h"

#define FRY_INTERN_BUCKETS 256
#define FRY_INTERN_TEXTS_MAX 4096
#define FRY_INTERN_TEXT_BYTES 256 /* with its zero; the rest is cut off */

typedef struct fry_interned {
    struct fry_interned *next;
    size_t length;
    char text[];
} fry_interned;

typedef struct fry_intern {
    fry_interned *buckets[FRY_INTERN_BUCKETS];
    uint32_t count; /* that are in, or on their way */
    uint8_t key[16];
} fry_intern;

void fry_intern_open(fry_intern *self);

/* Nobody asks for one any more, or has one. */
void fry_intern_close(fry_intern *self, const fry_memory *memory);

/* The kept text. NULL: it is new, and there is no memory, or as many are kept as may be. */
const char *fry_intern_text(fry_intern *self, const fry_memory *memory, const char *text);

#endif
