/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells a failed network from a slow peer.
 *
 * The kernel's TCP keepalive handles a silent connection. While bytes are under way it is off, and
 * the kernel retries for a quarter of an hour before it tells UCX. TCP_USER_TIMEOUT does not help:
 * it also ends connections to a live peer that takes nothing, which a program that computes may do
 * for long. So while bytes may be under way, ferry looks at the channel's connections: one that
 * sends the same bytes again without an answer for the whole keepalive time has lost its network. A
 * peer that takes nothing answers; so does a stopped one, whose kernel answers.
 *
 * UCX does not say which sockets belong to a worker. The kernel does: they are what the worker's
 * epoll descriptor watches (/proc/self/fdinfo). If that can't be read, nothing is detected.
 *
 * With nothing under way no time is set (fry_channel.look_ns). All of it is called by the thread
 * that makes the channel's progress.
 */
#ifndef FRY_NET_UCX_WATCH_H
#define FRY_NET_UCX_WATCH_H

#include "net/transport.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct fry_ucx_watch {
    fry_channel *channel; /* its event_fd is the worker's; the watch sets look_ns */
    int64_t keepalive_ns; /* 0: there are no connections to look at */
    int64_t stuck_ns;     /* since when a connection gets no answer; 0: none */
    uint32_t skips;       /* progress calls that may skip reading the clock */
    bool has_sent;        /* something may be under way */
    bool is_armed; /* and nothing has come since: perhaps nobody arms before something does */
} fry_ucx_watch;

/* TCP's keepalive: a first try after that much silence, and further ones at the same interval. */
#define FRY_UCX_KEEPALIVE_TRIES 2
int fry_ucx_keepalive_s(int64_t keepalive_ns);

/* The channel is borrowed. keepalive_ns 0: no network. */
void fry_ucx_watch_init(fry_ucx_watch *watch, fry_channel *channel, int64_t keepalive_ns);

/* The channel is armed. */
void fry_ucx_watch_arm(fry_ucx_watch *watch);

/* Sets the time of a look, if none is set. */
void fry_ucx_watch_set_look(fry_ucx_watch *watch);

/* Says that something is sent. Inline, because every message calls it. */
static inline void fry_ucx_watch_sent(fry_ucx_watch *watch)
{
    if (!watch->has_sent && watch->is_armed)
        fry_ucx_watch_set_look(watch);
    watch->has_sent = true;
}

/* Looks at the connections if it is time to. False: the network has failed. */
bool fry_ucx_watch_is_well(fry_ucx_watch *watch);

#endif
