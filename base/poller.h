/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One epoll descriptor for everything that can wake a loop: an eventfd other threads write, a
 * timerfd with nanosecond resolution, and descriptors that transports watch. The epoll descriptor
 * itself can be watched by anybody else's loop.
 */
#ifndef FRY_BASE_POLLER_H
#define FRY_BASE_POLLER_H

#include <ferry/status.h>
#include <stdint.h>

typedef struct fry_watch fry_watch;
typedef struct fry_poller_batch fry_poller_batch;

/*
 * Called by fry_poller_wait with the epoll events that are ready. May add and remove watches, its
 * own too, and set the timer; must not call fry_poller_wait.
 */
typedef void (*fry_watch_fn)(fry_watch *watch, uint32_t events);

/* A watched descriptor; the caller owns the memory and keeps it until after fry_poller_remove. */
struct fry_watch {
    int fd;
    fry_watch_fn fn;
    void *arg;
};

typedef struct fry_poller {
    int epoll_fd; /* what the outside watches; -1 when closed */
    int event_fd;
    int timer_fd;
    int64_t timer_ns;        /* absolute time the timer is set to, 0 off; saves system calls */
    fry_poller_batch *batch; /* events being handed out; NULL outside fry_poller_wait */
} fry_poller;

#define FRY_POLLER_CLOSED                                                                          \
    {                                                                                              \
        .epoll_fd = -1, .event_fd = -1, .timer_fd = -1                                             \
    }

/* FERRY_OK, or FERRY_E_SYSTEM with errno set; then nothing is left open. */
ferry_status fry_poller_open(fry_poller *poller);

/* Closes what is open; twice is allowed. No fry_poller_wake may be under way or follow. */
void fry_poller_close(fry_poller *poller);

/*
 * Makes fry_poller_wait, or whoever watches epoll_fd, wake up. A wake between two waits ends the
 * next one at once; several may be one. Any thread; never blocks; keeps errno.
 */
void fry_poller_wake(fry_poller *poller);

/*
 * Sets the timer to an absolute CLOCK_MONOTONIC time (one that has passed expires at once), 0
 * switches it off. An expiry switches it off too. Loop only.
 */
void fry_poller_set_timer(fry_poller *poller, int64_t when_ns);

/*
 * Waits up to timeout_ns (0: looks only; negative: for ever) and calls the watches that are ready.
 * Consumes wakes and timer expiries; until then epoll_fd stays readable. A kernel without
 * epoll_pwait2 rounds the timeout up to a millisecond. Loop only. Returns how many events there
 * were; signals and timeouts give 0. A failing epoll_wait gives -1 with errno set.
 */
int fry_poller_wait(fry_poller *poller, int64_t timeout_ns);

/*
 * Watches watch->fd for epoll `events` (EPOLLIN, EPOLLOUT, EPOLLET, ..). Loop only. FERRY_OK, or
 * FERRY_E_SYSTEM with errno set.
 */
ferry_status fry_poller_add(fry_poller *poller, fry_watch *watch, uint32_t events);

/*
 * Watches it, which is watched already, for these events from now on; what is ready now is told as
 * if it came just now. With EPOLLONESHOT it is told of once, and then no more until the next call;
 * with 0 it is not. Loop only. FERRY_OK, or FERRY_E_SYSTEM with errno set.
 */
ferry_status fry_poller_change(fry_poller *poller, fry_watch *watch, uint32_t events);

/* From here on watch->fn is not called. Call it before closing the descriptor. Loop only. */
void fry_poller_remove(fry_poller *poller, fry_watch *watch);

#endif
