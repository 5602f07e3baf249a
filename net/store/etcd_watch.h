/* SPDX-License-Identifier: Apache-2.0 */
/* Watches of etcd. */
#ifndef FRY_NET_STORE_ETCD_WATCH_H
#define FRY_NET_STORE_ETCD_WATCH_H

#include "net/store/store.h"

typedef struct fry_etcd fry_etcd;

void fry_etcd_watch_start(fry_store *store, fry_store_watch *watch);
void fry_etcd_watch_stop(fry_store_watch *watch);

void fry_etcd_watches_open(fry_etcd *etcd);
void fry_etcd_watches_close(fry_etcd *etcd);

#endif
