/* SPDX-License-Identifier: Apache-2.0 */
/* The pages of all keys with a prefix, of one revision. */
#ifndef FRY_NET_STORE_ETCD_LIST_H
#define FRY_NET_STORE_ETCD_LIST_H

#include "net/store/etcd_state.h"

typedef struct fry_etcd_list fry_etcd_list;

/*
 * Called with each page, from which fn may take entries; the last has has_more false. NULL: failed,
 * as the call says. False: the list was cancelled, started anew or freed.
 */
typedef bool (*fry_etcd_list_fn)(fry_etcd_list *list, fry_etcd_page *page);

struct fry_etcd_list {
    fry_etcd_list_fn fn;
    void *arg;
    const char *prefix;
    uint64_t revision;             /* of all pages; 0 until the first */
    uint64_t heard_revision, life; /* known before the list was asked for */
    uint64_t limit;
    uint8_t last_key[FRY_ETCD_RAW_KEY_BYTES]; /* the next page begins after it */
    size_t last_key_bytes;
    fry_etcd_call call;
};

/* Starts a list. Its call may be cancelled like any other. */
void fry_etcd_list_start(fry_etcd *etcd, fry_etcd_list *list, const char *prefix);

#endif
