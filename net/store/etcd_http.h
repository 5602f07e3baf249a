/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of etcd, by libcurl. */
#ifndef FRY_NET_STORE_ETCD_HTTP_H
#define FRY_NET_STORE_ETCD_HTTP_H

#include "net/store/etcd_state.h"

/* FERRY_OK, or FERRY_E_NO_MEMORY. */
ferry_status fry_etcd_http_open(fry_etcd *etcd);
/* Every call must be off. */
void fry_etcd_http_close(fry_etcd *etcd);

/*
 * Posts `body` to the current endpoint and takes it over (malloc's; NULL: there was no memory for
 * it). fn is called later in any case.
 */
void fry_etcd_call_start(fry_etcd *etcd, fry_etcd_call *call, char *body);

/* Cancels a call, if it is on: fn will not be called. Frees its answer in any case. */
void fry_etcd_call_cancel(fry_etcd_call *call);

/* Frees the answer of a call that is over. */
void fry_etcd_call_release(fry_etcd_call *call);

/* A stream's next whole line, without its end; NULL: there is none. Valid until the next call. */
const char *fry_etcd_call_line(fry_etcd_call *call, size_t *bytes_p);

static inline bool fry_etcd_call_waits(const fry_etcd_call *call)
{
    return call->async.state == FRY_ASYNC_UNDER_WAY && call->easy == NULL;
}

/* Ends a call that has not run, for lack of memory or a token. For _auth. */
void fry_etcd_call_fail(fry_etcd_call *call, fry_etcd_outcome outcome, int code, const char *text);

/* Hands a waiting call to libcurl, as a new one. For _auth. */
void fry_etcd_call_run(fry_etcd_call *call);

#endif
