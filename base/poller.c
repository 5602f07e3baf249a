/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why the eventfd and the timerfd are edge-triggered and never read. Each write and each expiry
 * puts the descriptor on epoll's ready list anew, whatever its counter, and epoll_wait takes an
 * edge-triggered descriptor off the list. So a wake is one write and no read, and the next wait
 * finds a wake that came before it. A program that watches epoll_fd sees it readable while the
 * entry is on the list, until fry_poller_wait has taken the entry. Setting a timerfd clears its
 * expiry, and epoll asks the descriptor again before it reports it, so a timer that was moved or
 * switched off after its expiry is not reported.
 */
#include "base/poller.h"

#include "base/lf.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000
#define NS_PER_MS 1000000
#define EVENTS_PER_WAIT 64

/* What an epoll entry carries: one of these marks, or the address of a watch. */
enum { MARK_WAKE = 0, MARK_TIMER = 1, MARK_REMOVED = 2 };

struct fry_poller_batch {
    struct epoll_event events[EVENTS_PER_WAIT];
    int count;
};

static int add_edge_triggered(int epoll_fd, int fd, uint64_t mark)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = mark};
    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

ferry_status fry_poller_open(fry_poller *poller)
{
    *poller = (fry_poller)FRY_POLLER_CLOSED;
    poller->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (poller->epoll_fd < 0)
        goto err_open;
    poller->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (poller->event_fd < 0)
        goto err_open;
    poller->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (poller->timer_fd < 0)
        goto err_open;
    if (add_edge_triggered(poller->epoll_fd, poller->event_fd, MARK_WAKE) != 0)
        goto err_open;
    if (add_edge_triggered(poller->epoll_fd, poller->timer_fd, MARK_TIMER) != 0)
        goto err_open;
    return FERRY_OK;

err_open:;
    int saved_errno = errno;
    fry_poller_close(poller);
    errno = saved_errno;
    return FERRY_E_SYSTEM;
}

static void close_descriptor(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

void fry_poller_close(fry_poller *poller)
{
    close_descriptor(&poller->timer_fd);
    close_descriptor(&poller->event_fd);
    close_descriptor(&poller->epoll_fd);
    poller->timer_ns = 0;
}

void fry_poller_wake(fry_poller *poller)
{
    int saved_errno = errno;
    /*
     * EAGAIN: the counter is full, after 2^64 - 2 wakes. A read empties it. All threads that found
     * it full write again, whichever of them reads, so each makes its edge.
     */
    while (eventfd_write(poller->event_fd, 1) != 0 && errno == EAGAIN) {
        eventfd_t count;
        (void)eventfd_read(poller->event_fd, &count);
    }
    errno = saved_errno;
}

void fry_poller_set_timer(fry_poller *poller, int64_t when_ns)
{
    if (when_ns < 0)
        when_ns = 1; /* long past; the kernel refuses negative times */
    if (when_ns == poller->timer_ns)
        return;
    struct itimerspec when = {
        .it_value = {.tv_sec = when_ns / NS_PER_S, .tv_nsec = when_ns % NS_PER_S}};
    if (timerfd_settime(poller->timer_fd, TFD_TIMER_ABSTIME, &when, NULL) == 0)
        poller->timer_ns = when_ns;
}

static int timeout_to_ms(int64_t timeout_ns)
{
    if (timeout_ns < 0)
        return -1;
    int64_t timeout_ms = timeout_ns / NS_PER_MS + (timeout_ns % NS_PER_MS != 0);
    return timeout_ms < INT_MAX ? (int)timeout_ms : INT_MAX;
}

/* Waits to the nanosecond if the kernel can, else to the next millisecond. */
static int wait_ns(int epoll_fd, struct epoll_event *events, int64_t timeout_ns)
{
    static bool has_no_pwait2; /* only ever becomes true */
    if (!fry_load_relaxed(&has_no_pwait2)) {
        struct timespec timeout = {.tv_sec = timeout_ns / NS_PER_S,
                                   .tv_nsec = timeout_ns % NS_PER_S};
        int count =
            epoll_pwait2(epoll_fd, events, EVENTS_PER_WAIT, timeout_ns < 0 ? NULL : &timeout, NULL);
        /* ENOSYS: Linux before 5.11. EPERM: a sandbox that does not know the call. */
        if (count >= 0 || (errno != ENOSYS && errno != EPERM))
            return count;
        fry_store_relaxed(&has_no_pwait2, true);
    }
    return epoll_wait(epoll_fd, events, EVENTS_PER_WAIT, timeout_to_ms(timeout_ns));
}

static void dispatch(fry_poller *poller, fry_poller_batch *batch)
{
    /* The timer first: if a watch of this batch sets it anew, that must not be forgotten. */
    for (int i = 0; i < batch->count; i++) {
        if (batch->events[i].data.u64 == MARK_TIMER)
            poller->timer_ns = 0;
    }
    poller->batch = batch;
    for (int i = 0; i < batch->count; i++) {
        if (batch->events[i].data.u64 <= MARK_REMOVED)
            continue;
        fry_watch *watch = batch->events[i].data.ptr;
        poller->calls++;
        watch->fn(watch, batch->events[i].events);
    }
    poller->batch = NULL;
}

int fry_poller_wait(fry_poller *poller, int64_t timeout_ns)
{
    fry_poller_batch batch;
    batch.count = wait_ns(poller->epoll_fd, batch.events, timeout_ns);
    if (batch.count < 0)
        return errno == EINTR ? 0 : -1;
    dispatch(poller, &batch);
    return batch.count;
}

ferry_status fry_poller_add(fry_poller *poller, fry_watch *watch, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};
    if (epoll_ctl(poller->epoll_fd, EPOLL_CTL_ADD, watch->fd, &event) != 0)
        return FERRY_E_SYSTEM;
    return FERRY_OK;
}

ferry_status fry_poller_change(fry_poller *poller, fry_watch *watch, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};
    if (epoll_ctl(poller->epoll_fd, EPOLL_CTL_MOD, watch->fd, &event) != 0)
        return FERRY_E_SYSTEM;
    return FERRY_OK;
}

void fry_poller_remove(fry_poller *poller, fry_watch *watch)
{
    (void)epoll_ctl(poller->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
    /* Another watch has removed it: its own event of this batch must not reach freed memory. */
    for (int i = 0; poller->batch != NULL && i < poller->batch->count; i++) {
        if (poller->batch->events[i].data.ptr == watch)
            poller->batch->events[i].data.u64 = MARK_REMOVED;
    }
}
