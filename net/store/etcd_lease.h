/* SPDX-License-Identifier: Apache-2.0 */
/* Leases of etcd. */
#ifndef FRY_NET_STORE_ETCD_LEASE_H
#define FRY_NET_STORE_ETCD_LEASE_H

#include "net/store/store.h"

typedef struct fry_etcd fry_etcd;

void fry_etcd_lease_open(fry_store *store, fry_store_lease *lease);
void fry_etcd_lease_close(fry_store_lease *lease);
void fry_etcd_leases_drop(fry_etcd *etcd);

#endif
