/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells a network that has gone from a peer that is slow.
 *
 * The kernel's TCP keepalive sees to a connection that is silent. Where bytes are under way it is
 * off, and the kernel tries again for a quarter of an hour before it tells UCX. TCP_USER_TIMEOUT
 * is no way out: it also ends connections to a peer that lives and takes nothing, which a program
 * that computes may do for long. So while there may be bytes under way the connections of the
 * channel are looked at: one that sends the same bytes again, with no answer, for the whole
 * keepalive time has lost its network. A peer that takes nothing answers; so does one that is
 * stopped, its kernel does.
 *
 * UCX does not say which sockets are a worker's. The kernel does: they are what the worker's epoll
 * descriptor watches (/proc/self/fdinfo). Where that can't be read nothing is seen.
 *
 * While nothing is under way there is no timer. All of it: whoever makes the channel's progress.
 */
#ifndef FRY_NET_UCX_WATCH_H
#define FRY_NET_UCX_WATCH_H

#include <ferry/status.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct fry_ucx_watch {
    int event_fd; /* readable when the worker's is, or it is time to look */
    int worker_fd;
    int timer_fd;
    int64_t keepalive_ns;
    int64_t look_ns;  /* when next; 0: not before something is sent */
    uint32_t skips;   /* progress without reading the clock, before the next time that it is read */
    int64_t doze_ns;  /* until when it dozes; 0: it does not */
    int64_t stuck_ns; /* since when a connection has no answer; 0: none is so */
    bool has_network; /* there are connections to look at */
    bool has_sent;    /* something may be under way */
    bool is_armed;    /* and nothing has come since: nobody may arm again before something does */
} fry_ucx_watch;

/* TCP's keepalive: a first try after so much silence, and further ones as far apart. */
#define FRY_UCX_KEEPALIVE_TRIES 2
int fry_ucx_keepalive_s(int64_t keepalive_ns);

/* worker_fd: borrowed. keepalive_ns 0: there is no network. FERRY_OK, or FERRY_E_SYSTEM with errno
 * set. */
ferry_status fry_ucx_watch_open(fry_ucx_watch *watch, int worker_fd, int64_t keepalive_ns);

/* A closed one, or a zeroed one, may be closed. */
void fry_ucx_watch_close(fry_ucx_watch *watch);

/* Before sleeping. */
void fry_ucx_watch_arm(fry_ucx_watch *watch);

/* Something is sent. Inline: it is on every message's way. */
void fry_ucx_watch_set_look(fry_ucx_watch *watch);
static inline void fry_ucx_watch_sent(fry_ucx_watch *watch)
{
    if (!watch->has_sent && watch->is_armed)
        fry_ucx_watch_set_look(watch);
    watch->has_sent = true;
}

/*
 * Has event_fd become readable in a moment, whatever comes, and stay so until fry_ucx_watch_wake:
 * nothing else will wake who sleeps on it, and others who look meanwhile are not to take that away.
 */
void fry_ucx_watch_doze(fry_ucx_watch *watch);

/* Who sleeps on event_fd is awake. */
void fry_ucx_watch_wake(fry_ucx_watch *watch);

/* Looks if it is time to. False: the network has gone. */
bool fry_ucx_watch_is_well(fry_ucx_watch *watch);

#endif
