/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links: how this member comes to have a lane to another. A link says hello over a socket of
 * ferry's own (net/hello.c): both ends prove that they know the group's secret, name rank and
 * incarnation, agree on version, path and windows, and exchange sealed addresses of channels. Then
 * the channels are connected. Either end may begin; if both do at once, the lower rank's counts.
 * On one host both ends also hold a pidfd of the other, which tells death at once.
 *
 * The loop. Nothing blocks; hellos have a deadline and are tried again while they are wanted.
 */
#ifndef FRY_NET_LINK_H
#define FRY_NET_LINK_H

#include "base/error.h"
#include "net/peer.h"
#include "net/reactor.h"

#define FRY_ENDPOINT_BYTES 512 /* text of where a member's hello port is, and of its host */

typedef struct fry_links fry_links;
typedef struct fry_link_peer fry_link_peer;

/*
 * What opens lanes and their channels for links: net/link_lane.c over UCX, or a test's
 * own. The loop.
 */
typedef struct fry_lane_opener {
    void *arg;
    /*
     * A lane (fry_peer_lane_open) and a channel for its events, not connected yet, and where the
     * other end's is to connect to: *address_bytes is the room, then the length. FERRY_OK, or what
     * it fails with and *error; then nothing is open. `options` are the peer's (fry_link_events).
     */
    ferry_status (*open)(void *arg, fry_channel_path path, const fry_peer_options *options,
                         const fry_lane_session *session, fry_peer_lane **lane_p,
                         fry_channel **channel_p, void *address, size_t *address_bytes,
                         fry_native_error *error);
    ferry_status (*connect)(void *arg, fry_channel *channel, const void *address,
                            size_t address_bytes, fry_native_error *error);
    /* Of a lane that was opened here: the channel was destroyed. */
    void (*close_lane)(void *arg, fry_peer_lane *lane);
} fry_lane_opener;

typedef struct fry_links_options {
    fry_reactor *reactor;
    const char *network;           /* interface or address; NULL: this host alone */
    const fry_lane_opener *opener; /* borrowed; NULL: UCX, looked for when a lane is first wanted */
    const char *job;
    const void *secret; /* NULL: none */
    size_t secret_bytes;
    int64_t lease_ns;
    uint32_t window_messages, unexpected_max;
    uint64_t window_bytes;
    size_t registration_cache_bytes;
} fry_links_options;

/* From the loop, not from within the call that asked. */
typedef struct fry_link_events {
    /* A lane is there: the engine attaches it, with the baton. The channel and the lane are the
     * engine's from here; it gives the channel back by fry_link_end, from anywhere but here. The
     * next comes after fry_link_over. */
    void (*connected)(fry_link_peer *link, fry_peer_lane *lane, fry_channel *channel);
    /* No lane can be had now: FERRY_E_PEER, refused or unreachable until the deadline;
     * FERRY_E_DEAD, it has ended or left; FERRY_E_UNSUPPORTED, no UCX. Wanting it again tries
     * again. */
    void (*failed)(fry_link_peer *link, const fry_fault *fault);
    /* The member's process on this host has ended (pidfd). At most once an incarnation. */
    void (*died)(fry_link_peer *link);
    /* The other end has ended the lane, or has gone: FERRY_E_DEAD if it left, else FERRY_E_PEER.
     * The engine detaches the lane and calls fry_link_end. Once a lane, unless that came first.
     * What the other end said over the channel before it ended it is told first, as far as the
     * two can be compared. */
    void (*ended)(fry_link_peer *link, const fry_fault *fault);
    /* What fry_peer_lane_open wants of this peer. */
    const fry_peer_options *(*peer_options)(fry_link_peer *link);
} fry_link_events;

/*
 * Opens the hello port and writes where it is, for the member's record in the store: text of at
 * most FRY_ENDPOINT_BYTES with its zero. FERRY_OK, FERRY_E_SYSTEM, FERRY_E_INVALID (no such
 * network), FERRY_E_NO_MEMORY; *error_p says why.
 */
ferry_status fry_links_open(const fry_links_options *options, const fry_link_events *events,
                            fry_links **links_p, char *endpoint, fry_error **error_p);

/* Who this member is, once it knows: until then hellos wait, those that wait too long are refused.
 */
void fry_links_set_own(fry_links *links, uint32_t rank, uint64_t incarnation);

/* This member leaves: no hello is answered any more, and ends of lanes say so. */
void fry_links_leave(fry_links *links);

/* Closes what has no lane any more; links whose lanes have not ended are a fault of the caller's.
 */
void fry_links_close(fry_links *links);

/*
 * A member to talk to, of one incarnation, at an endpoint from its record (untrusted text:
 * checked). A hello that comes from a rank and incarnation that was not added waits some seconds
 * for it (the peer may have heard of this member first) and is refused then. An endpoint that can't
 * be read is told when a lane is wanted. Its own rank: a lane to itself, without a hello. NULL: no
 * memory.
 */
fry_link_peer *fry_link_add(fry_links *links, uint32_t rank, uint64_t incarnation,
                            const char *endpoint, void *arg);
void *fry_link_arg(const fry_link_peer *link);

/* A lane is wanted: `connected` or `failed` follows, by deadline_ns (on the reactor's clock; 0:
 * none) at the latest. The other end may want one first: then `connected` comes without this. */
void fry_link_want(fry_link_peer *link, int64_t deadline_ns);

/*
 * The lane's channel has failed: `ended` follows, unless `died` does, with what the other end says
 * of it within a moment, as one that leaves says so after its channel has gone; else with `fault`.
 */
void fry_link_lost(fry_link_peer *link, const fry_fault *fault);

/* The engine has detached the lane: destroys the channel, within the call. The lane is the engine's
 * to close after it. */
void fry_link_end(fry_link_peer *link, fry_channel *channel);

/* It has closed the lane. Not before that does the next one come, whoever calls. */
void fry_link_over(fry_link_peer *link);

/* Forgets the member; a hello under way is ended. No lane is there. */
void fry_link_remove(fry_link_peer *link);

/* Whether both ends are on one host, as far as the endpoints say. */
bool fry_link_is_local(const fry_link_peer *link);

#endif
