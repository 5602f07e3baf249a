/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands between a group (or whoever) and its mem: store: counts what is asked, holds requests
 * back, loses contact, is slow. It is put in after the store was opened, and out before it closes.
 * faulty_space.h has the store itself stand still, lose its leases, or all it has.
 */
#ifndef FERRY_TESTS_FAULTY_STORE_H
#define FERRY_TESTS_FAULTY_STORE_H

#include "net/store/store.h"

#include <stddef.h>

typedef struct faulty_store faulty_store;

typedef struct faulty_counts {
    size_t verbs[FRY_STORE_LIST + 1]; /* requests, by fry_store_verb */
    size_t watches, leases;
    size_t events; /* entries told by watches */
} faulty_counts;

/* Its memory is the C library's. */
faulty_store *faulty_store_put(fry_store *store);

/* Before the store is closed; requests held back are given on first. */
void faulty_store_remove(faulty_store *faulty);

const faulty_counts *faulty_store_counts(const faulty_store *faulty);
size_t faulty_store_requests(const faulty_store *faulty); /* of all verbs */

/* From now on each request reaches the store after up to so long, as the seed says. 0: at once. */
void faulty_store_delay(faulty_store *faulty, int64_t most_ns, uint64_t seed);

/* From now on each way to the store and back takes so long, for leases too. */
void faulty_store_slow(faulty_store *faulty, int64_t way_ns);

/* Its watches are told that there is no contact, requests wait; until it is called with false, when
 * what has happened meanwhile is told. Leases are kept alive. */
void faulty_store_lose(faulty_store *faulty, bool is_lost);

/*
 * Nothing gets through any more, neither requests and answers nor renewals, until it is called with
 * false; watches are told after a second. What was under way goes on then.
 */
void faulty_store_cut(faulty_store *faulty, bool is_cut);

#endif
