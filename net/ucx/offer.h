/* SPDX-License-Identifier: Apache-2.0 */
/* Offers: how large messages cross between processes of one host. */
#ifndef FRY_NET_UCX_OFFER_H
#define FRY_NET_UCX_OFFER_H

#include "net/ucx/channel.h"

/* Sets the mark; *place describes it for the other end. There is a worker. */
ucs_status_t fry_ucx_offers_open(fry_ucx_channel *channel, fry_ucx_mark_place *place);

/* Takes the other end's mark, and finds out whether its memory can be read. */
void fry_ucx_offers_connect(fry_ucx_channel *channel, const fry_ucx_mark_place *other);

/* Like those of fry_channel_ops, for offered memory. */
fry_post_result fry_ucx_offers_post(fry_ucx_channel *channel, fry_post *post);
void fry_ucx_offers_pull(fry_ucx_channel *channel, fry_pull *pull);
/* Reads without an offer: fry_channel_ops.read. */
bool fry_ucx_offers_read(fry_ucx_channel *channel, fry_pull *pull);
void fry_ucx_offers_drop(fry_ucx_channel *channel, void *token);

/* Continues reading. Returns how much there was to do. */
size_t fry_ucx_offers_progress(fry_ucx_channel *channel);

#endif
