/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to etcd. */
#ifndef FRY_NET_STORE_ETCD_REQUEST_H
#define FRY_NET_STORE_ETCD_REQUEST_H

#include "net/store/store.h"

void fry_etcd_submit(fry_store *store, fry_store_request *request);
void fry_etcd_cancel(fry_store_request *request);

#endif
