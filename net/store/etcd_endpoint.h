/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints: all calls go to one of them, until it fails. */
#ifndef FRY_NET_STORE_ETCD_ENDPOINT_H
#define FRY_NET_STORE_ETCD_ENDPOINT_H

#include "net/store/etcd_state.h"

/* A call did not reach etcd at an endpoint: other endpoints are tried next. */
void fry_etcd_endpoint_failed(fry_etcd *etcd, unsigned endpoint, const char *why);
void fry_etcd_endpoint_answered(fry_etcd *etcd, unsigned endpoint);

/* How long to wait before the next attempt, after so many failures in a row. */
int64_t fry_etcd_delay_ns(fry_etcd *etcd, unsigned failures);

/* Notes the store's revision from an answer. */
void fry_etcd_revision_is(fry_etcd *etcd, uint64_t revision);

/*
 * Notes that the store has lost its past and is at `revision` now. Signs of that: an answer with a
 * lower revision than was known before the request, which can't be as long as a quorum remembers;
 * or a key with an older version than was told, or with the same version and another value.
 */
void fry_etcd_is_another(fry_etcd *etcd, uint64_t revision);

/* Notes an answer that can't be read: STRANGE. */
void fry_etcd_call_was_garbled(fry_etcd_call *call);

uint64_t fry_etcd_random(fry_etcd *etcd);

#endif
