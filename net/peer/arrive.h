/* SPDX-License-Identifier: Apache-2.0 */
/* What comes over the channel: headers, with or without data. */
#ifndef FRY_NET_PEER_ARRIVE_H
#define FRY_NET_PEER_ARRIVE_H

#include "net/transport.h"

/*
 * The events with which a channel of a connection is opened (fry_ucx_channel_open); their argument:
 * fry_peer_channel_arg.
 */
extern const fry_channel_events fry_peer_channel_events;

#endif
