/* SPDX-License-Identifier: Apache-2.0 */
/* Which store a URI names, and opening it. */
#ifndef FRY_NET_STORE_OPEN_H
#define FRY_NET_STORE_OPEN_H

#include "net/store.h"

/*
 * Opens a store: "mem:NAME", "file:DIR" (made if its parent is there), "etcd://h:p[,h:p...]",
 * "etcds://..." for TLS. Waits for nobody: that it can't be reached shows in the requests.
 * FERRY_OK, FERRY_E_INVALID (a URI or options that can't be), FERRY_E_UNSUPPORTED (a network file
 * system, no libcurl), FERRY_E_STORE, FERRY_E_NO_MEMORY; *error_p (never NULL then) says why, and
 * is the caller's.
 */
ferry_status fry_store_open(fry_reactor *reactor, const char *uri, const fry_store_options *options,
                            fry_store **store_p, fry_error **error_p);

#endif
