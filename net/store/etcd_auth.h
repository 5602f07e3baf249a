/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens, which etcd gives for a user and a password. */
#ifndef FRY_NET_STORE_ETCD_AUTH_H
#define FRY_NET_STORE_ETCD_AUTH_H

typedef struct fry_etcd fry_etcd;

void fry_etcd_login_open(fry_etcd *etcd);

#endif
