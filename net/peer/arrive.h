/* SPDX-License-Identifier: Apache-2.0 */
/* What comes over the channel: headers, with or without data. */
#ifndef FRY_NET_PEER_ARRIVE_H
#define FRY_NET_PEER_ARRIVE_H

#include "net/transport.h"

/* fry_channel_events.arrived, of a connection. */
void fry_connection_arrived(void *arg, const fry_arrival *arrival);

#endif
