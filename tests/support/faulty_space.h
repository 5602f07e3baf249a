/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What befalls a mem: store itself, whoever uses it; all of them are to be cut off meanwhile
 * (faulty_store.h).
 */
#ifndef FERRY_TESTS_FAULTY_SPACE_H
#define FERRY_TESTS_FAULTY_SPACE_H

#include "net/store/mem.h"

#include <stdbool.h>
#include <stdint.h>

/* Leases don't run out while it stands still, and all begin anew then, as with a new leader. */
void faulty_space_freeze(const char *uri);
void faulty_space_thaw(const char *uri);

/* All it has is gone: keys, leases, versions. */
void faulty_space_empty(const char *uri);

/* What became of a space, by its name; zeros: it was never emptied. */
typedef struct faulty_past {
    char name[FRY_STORE_KEY_BYTES + 1];
    uint64_t lives; /* how often it was emptied */
    uint64_t base;  /* its revision then */
} faulty_past;

const faulty_past *faulty_space_past(const mem_space *space);

/* The caller's own, with key and value; and its end. */
fry_store_entry faulty_entry_copy(const fry_store_entry *entry);
void faulty_entry_free(fry_store_entry *entry);

/* Ends the program, and says so, if it is not. */
void faulty_need(bool is_so, const char *what);

#endif
