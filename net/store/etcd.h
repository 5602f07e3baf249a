/* SPDX-License-Identifier: Apache-2.0 */
/* etcd as a store. */
#ifndef FRY_NET_STORE_ETCD_H
#define FRY_NET_STORE_ETCD_H

#include "net/store/store.h"

ferry_status fry_etcd_open(fry_reactor *reactor, const char *uri, const fry_store_options *options,
                           fry_store **store_p, fry_error **error_p);

#endif
