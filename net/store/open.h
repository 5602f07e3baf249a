/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the implementation that a URI names, and opens the store. */
#ifndef FRY_NET_STORE_OPEN_H
#define FRY_NET_STORE_OPEN_H

#include "net/store/store.h"

/*
 * Opens a store: "mem:NAME", "file:DIR" (made if its parent exists), "etcd://h:p[,h:p...]",
 * "etcds://..." for TLS. Waits for nobody: only requests show that a store can't be reached.
 * FERRY_OK, FERRY_E_INVALID (an invalid URI or option), FERRY_E_UNSUPPORTED (a network file system,
 * no libcurl), FERRY_E_STORE, FERRY_E_NO_MEMORY; then *error_p, which the caller owns, says why.
 */
ferry_status fry_store_open(fry_reactor *reactor, const char *uri, const fry_store_options *options,
                            fry_store **store_p, fry_error **error_p);

#endif
