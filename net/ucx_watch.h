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
 * With nothing under way there is no timer. All of it is called by the thread that makes the
 * channel's progress.
 */
#ifndef FRY_NET_UCX_WATCH_H
#define FRY_NET_UCX_WATCH_H

#include <ferry/status.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct fry_ucx_watch {
    int event_fd; /* readable when the worker's descriptor is, or when it is time to look */
    int worker_fd;
    int timer_fd;
    int64_t keepalive_ns;
    int64_t look_ns;  /* time of the next look; 0: not before something is sent */
    uint32_t skips;   /* progress calls that may skip reading the clock */
    int64_t doze_ns;  /* end of its doze; 0: it does not doze */
    int64_t stuck_ns; /* since when a connection gets no answer; 0: none */
    bool has_network; /* there are connections to look at */
    bool has_sent;    /* something may be under way */
    bool is_armed; /* armed, and nothing has come since: nobody may arm again before something does
                    */
} fry_ucx_watch;

/* TCP's keepalive: a first try after that much silence, and further ones at the same interval. */
#define FRY_UCX_KEEPALIVE_TRIES 2
int fry_ucx_keepalive_s(int64_t keepalive_ns);

/*
 * Opens a watch. worker_fd: borrowed. keepalive_ns 0: no network. FERRY_OK, or FERRY_E_SYSTEM with
 * errno set.
 */
ferry_status fry_ucx_watch_open(fry_ucx_watch *watch, int worker_fd, int64_t keepalive_ns);

/* Closes a watch; a closed or zeroed one is allowed. */
void fry_ucx_watch_close(fry_ucx_watch *watch);

/* Arms it before sleeping. */
void fry_ucx_watch_arm(fry_ucx_watch *watch);

/* Says that something is sent. Inline, because every message calls it. */
void fry_ucx_watch_set_look(fry_ucx_watch *watch);
static inline void fry_ucx_watch_sent(fry_ucx_watch *watch)
{
    if (!watch->has_sent && watch->is_armed)
        fry_ucx_watch_set_look(watch);
    watch->has_sent = true;
}

/*
 * Makes event_fd readable in a moment, whatever comes, and keeps it so until fry_ucx_watch_wake:
 * nothing else will wake the thread that sleeps on it, and other threads that look meanwhile must
 * not take that away.
 */
void fry_ucx_watch_doze(fry_ucx_watch *watch);

/* Says that the thread that slept on event_fd is awake. */
void fry_ucx_watch_wake(fry_ucx_watch *watch);

/* Looks at the connections if it is time to. False: the network has failed. */
bool fry_ucx_watch_is_well(fry_ucx_watch *watch);

#endif
