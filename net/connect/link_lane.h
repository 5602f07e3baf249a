/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes as links open them, over UCX. */
#ifndef FRY_NET_CONNECT_LINK_LANE_H
#define FRY_NET_CONNECT_LINK_LANE_H

#include "net/connect/link.h"

void fry_link_use_ucx(fry_links *links);
void fry_link_close_ucx(fry_links *links);

#endif
