/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One epoll descriptor for everything that can wake a loop: an eventfd that other threads write, a
 * timerfd with nanosecond resolution, and descriptors that transports watch. Any other loop can
 * watch the epoll descriptor itself.
 */
#ifndef FRY_BASE_POLLER_H
#define FRY_BASE_POLLER_H

#include <ferry/status.h>
#include <stdint.h>

typedef struct fry_watch fry_watch;
typedef struct fry_poller_batch fry_poller_batch;

/*
 * Called by fry_poller_wait with the ready epoll events. May add and remove watches, its own too,
 * and set the timer. Must not call fry_poller_wait.
 */
typedef void (*fry_watch_fn)(fry_watch *watch, uint32_t events);

/* A watched descriptor; the caller owns the memory and keeps it until after fry_poller_remove. */
struct fry_watch {
    int fd;
    fry_watch_fn fn;
    void *arg;
};

typedef struct fry_poller {
    int epoll_fd; /* outside loops watch it; -1 when closed */
    int event_fd;
    int timer_fd;
    int64_t timer_ns;        /* the timer's absolute time, 0: off; saves system calls */
    uint64_t calls;          /* how often a watch was called */
    fry_poller_batch *batch; /* events being handed out; NULL outside fry_poller_wait */
} fry_poller;

#define FRY_POLLER_CLOSED                                                                          \
    {                                                                                              \
        .epoll_fd = -1, .event_fd = -1, .timer_fd = -1                                             \
    }

/* Opens a poller. FERRY_OK; FERRY_E_SYSTEM with errno set: nothing is left open. */
ferry_status fry_poller_open(fry_poller *poller);

/* Closes an open poller; may be called twice. No fry_poller_wake may be under way or follow. */
void fry_poller_close(fry_poller *poller);

/*
 * Wakes fry_poller_wait, and loops that watch epoll_fd. A wake between two waits ends the next one
 * at once; several may count as one. Any thread; never blocks; keeps errno.
 */
void fry_poller_wake(fry_poller *poller);

/*
 * Sets the timer to an absolute CLOCK_MONOTONIC time; a time that has passed expires at once. 0
 * switches it off, and so does an expiry. Loop only.
 */
void fry_poller_set_timer(fry_poller *poller, int64_t when_ns);

/*
 * Waits up to timeout_ns (0: only looks; negative: for ever) and calls the watches that are ready.
 * Consumes wakes and timer expiries; until then epoll_fd stays readable. Returns the number of
 * events; signals and timeouts give 0, a failing epoll_wait -1 with errno set. A kernel without
 * epoll_pwait2 rounds the timeout up to a millisecond. Loop only.
 */
int fry_poller_wait(fry_poller *poller, int64_t timeout_ns);

/*
 * Watches watch->fd for epoll `events` (EPOLLIN, EPOLLOUT, EPOLLET, ..). Loop only. FERRY_OK, or
 * FERRY_E_SYSTEM with errno set.
 */
ferry_status fry_poller_add(fry_poller *poller, fry_watch *watch, uint32_t events);

/*
 * Watches an already watched descriptor for these `events` from now on; 0: for none. What is ready
 * now is reported as if it came now. EPOLLONESHOT: reports once, then nothing until the next call.
 * Loop only. FERRY_OK, or FERRY_E_SYSTEM with errno set.
 */
ferry_status fry_poller_change(fry_poller *poller, fry_watch *watch, uint32_t events);

/* Ends calls of watch->fn. Call it before closing the descriptor. Loop only. */
void fry_poller_remove(fry_poller *poller, fry_watch *watch);

#endif
