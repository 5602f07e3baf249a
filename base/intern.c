/* SPDX-License-Identifier: Apache-2.0 */
#include "base/intern.h"

#include "base/lf.h"

#include <sodium.h>
#include <string.h>
#include <sys/random.h>

_Static_assert(sizeof(((fry_intern *)0)->key) == crypto_shorthash_KEYBYTES, "SipHash's key");

void fry_intern_open(fry_intern *self)
{
    memset(self, 0, sizeof *self);
    (void)getrandom(self->key, sizeof self->key, GRND_NONBLOCK); /* else all have one */
}

static size_t size_of(const fry_interned *entry)
{
    return sizeof *entry + entry->length + 1;
}

void fry_intern_close(fry_intern *self, const fry_memory *memory)
{
    for (size_t i = 0; i < FRY_INTERN_BUCKETS; i++) {
        for (fry_interned *entry = self->buckets[i], *next; entry != NULL; entry = next) {
            next = entry->next;
            fry_free(memory, entry, size_of(entry));
        }
    }
}

static fry_interned **bucket_of(fry_intern *self, const char *text, size_t length)
{
    uint8_t hash[crypto_shorthash_BYTES];
    (void)crypto_shorthash(hash, (const uint8_t *)text, length, self->key);
    return &self->buckets[hash[0] % FRY_INTERN_BUCKETS];
}

/* Looks from `from` until `until`, which was looked at before. */
static const fry_interned *find(const fry_interned *from, const fry_interned *until,
                                const char *text, size_t length)
{
    for (; from != until; from = from->next) {
        if (from->length == length && memcmp(from->text, text, length) == 0)
            return from;
    }
    return NULL;
}

static fry_interned *make(fry_intern *self, const fry_memory *memory, const char *text,
                          size_t length)
{
    fry_interned *entry = NULL;
    if (fry_fetch_add(&self->count, 1) < FRY_INTERN_TEXTS_MAX)
        entry = fry_alloc_raw(memory, sizeof *entry + length + 1, _Alignof(fry_interned));
    if (entry == NULL) {
        (void)fry_fetch_sub(&self->count, 1);
        return NULL;
    }
    entry->length = length;
    memcpy(entry->text, text, length);
    entry->text[length] = '\0';
    return entry;
}

const char *fry_intern_text(fry_intern *self, const fry_memory *memory, const char *text)
{
    size_t length = strnlen(text, FRY_INTERN_TEXT_BYTES - 1);
    fry_interned **bucket = bucket_of(self, text, length);
    fry_interned *head = fry_load_acquire(bucket);
    const fry_interned *found = find(head, NULL, text, length);
    if (fry_likely(found != NULL))
        return found->text;
    fry_interned *entry = make(self, memory, text, length);
    if (entry == NULL)
        return NULL;
    fry_interned *seen = head;
    for (;;) {
        entry->next = head;
        if (fry_cas(bucket, &head, entry))
            return entry->text;
        found = find(head, seen, text, length);
        if (found != NULL)
            break;
        seen = head;
    }
    fry_free(memory, entry, size_of(entry));
    (void)fry_fetch_sub(&self->count, 1);
    return found->text;
}
