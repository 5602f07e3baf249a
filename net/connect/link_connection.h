/* SPDX-License-Identifier: Apache-2.0 */
/* Connections as links open them, over UCX. */
#ifndef FRY_NET_CONNECT_LINK_CONNECTION_H
#define FRY_NET_CONNECT_LINK_CONNECTION_H

#include "net/connect/link.h"

void fry_link_use_ucx(fry_links *links);
void fry_link_close_ucx(fry_links *links);

#endif
