/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines: sockets that carry hellos. A line reads no more than the hello wants at a time, so nothing
 * is ever left over, and the line of a caller that waits for a decision is not read. A line's
 * events go to link_hear.c, which may close the line; then nothing here touches it any more.
 */
#include "net/connect/link_line.h"

#include "net/connect/hello.h"
#include "net/connect/link_endpoint.h"
#include "net/connect/link_hear.h"
#include "net/connect/link_state.h"
#include "net/reactor.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define PIECES_AT_ONCE 32 /* read before other lines have a turn */

static int64_t now_of(const fry_line *line)
{
    return fry_reactor_now_ns(line->links->reactor);
}

/* An end that was called has proven that it is a member only once it has answered. */
static bool is_proven(const fry_line *line)
{
    return line->link != NULL && line->state == FRY_LINE_TALKING &&
           line->hello.state > FRY_HELLO_AWAITS_SECOND;
}

void fry_line_give_time(fry_line *line)
{
    const int64_t lease_ns = line->links->lease_ns;
    const bool has_lease = is_proven(line) && lease_ns > FRY_LINK_HELLO_NS;

    fry_timer_set(line->links->reactor, &line->timer,
                  now_of(line) + (has_lease ? lease_ns : FRY_LINK_HELLO_NS));
}

static void set_watch(fry_line *line, uint32_t events)
{
    if (line->watched == events)
        return;
    if (line->watched != 0)
        fry_poller_remove(line->links->reactor->poller, &line->watch);
    line->watched = 0;
    if (fry_poller_add(line->links->reactor->poller, &line->watch, events) == FERRY_OK)
        line->watched = events;
    /* else nothing is heard of it any more; its timer, or the connection's end, closes it */
}

static void send_out(fry_line *line)
{
    while (line->hello.out_bytes > 0) {
        const ssize_t count = send(line->watch.fd, line->hello.out, line->hello.out_bytes,
                                   MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count >= 0) {
            fry_hello_took(&line->hello, (size_t)count);
        } else if (errno != EINTR) {
            /* Sent later, or never: reading finds the error, after what the other end said last. */
            if (errno != EAGAIN && errno != EWOULDBLOCK)
                fry_hello_took(&line->hello, line->hello.out_bytes);
            return;
        }
    }
}

void fry_line_settle(fry_line *line)
{
    uint32_t events = EPOLLRDHUP;

    if (line->state == FRY_LINE_CONNECTING) {
        set_watch(line, EPOLLOUT);
        return;
    }
    send_out(line);
    if (fry_hello_wants(&line->hello) > 0)
        events |= EPOLLIN;
    if (line->hello.out_bytes > 0)
        events |= EPOLLOUT;
    set_watch(line, events);
}

/* False: it failed, and the line is gone. */
static bool finish_connect(fry_line *line)
{
    int error = 0;
    socklen_t size = sizeof(error);

    if (getsockopt(line->watch.fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        error = errno;
    if (error != 0) {
        fry_link_lose(line, strerror(error));
        return false;
    }
    line->state = FRY_LINE_TALKING;
    return true;
}

/* False: the line may be gone. */
static bool read_in(fry_line *line)
{
    for (int i = 0; i < PIECES_AT_ONCE; i++) {
        uint8_t bytes[FRY_HELLO_FRAME_BYTES_MAX];
        const size_t wants = fry_hello_wants(&line->hello);
        if (wants == 0)
            return true;
        const ssize_t count = recv(line->watch.fd, bytes, wants, MSG_DONTWAIT);
        if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
            return true;
        if (count <= 0) {
            fry_link_lose(line, count == 0 ? "the other end closed it" : strerror(errno));
            return false;
        }
        const fry_hello_event event = fry_hello_feed(&line->hello, bytes, (size_t)count);
        if (event != FRY_HELLO_MORE && !fry_link_hear(line, event))
            return false;
    }
    return true;
}

static void line_is_ready(fry_watch *watch, uint32_t events)
{
    fry_line *line = watch->arg;

    if (line->state == FRY_LINE_CONNECTING && !finish_connect(line))
        return;
    if (!read_in(line))
        return;
    if (fry_hello_wants(&line->hello) == 0 && (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
        fry_link_lose(line, "the other end closed it");
        return;
    }
    fry_line_settle(line);
}

/* Perhaps only this end had no time to read: what has arrived by now counts. */
static void line_is_due(fry_timer *timer)
{
    fry_line *line = timer->arg;

    if (line->state != FRY_LINE_CONNECTING && !read_in(line))
        return;
    if (timer->is_on)
        fry_line_settle(line);
    else
        fry_link_line_timeout(line);
}

static fry_line *line_create(fry_links *links, int fd, const fry_link_place *other)
{
    const int on = 1;
    fry_line *line = fry_alloc(links->reactor->memory, sizeof(*line), _Alignof(fry_line));

    if (line == NULL) {
        (void)close(fd);
        errno = ENOMEM;
        return NULL;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    line->links = links;
    line->number = ++links->line_count;
    line->watch = (fry_watch){.fd = fd, .fn = line_is_ready, .arg = line};
    line->timer = (fry_timer){.fn = line_is_due, .arg = line};
    fry_link_place_text(other, line->address);
    line->since_ns = now_of(line);
    fry_line_give_time(line);
    return line;
}

fry_line *fry_line_answer(fry_links *links, int fd, const fry_link_place *from)
{
    fry_line *line = line_create(links, fd, from);

    if (line == NULL)
        return NULL;
    line->state = FRY_LINE_TALKING;
    TAILQ_INSERT_TAIL(&links->strangers, line, entry);
    links->stranger_count++;
    fry_hello_await(&line->hello, links->psk);
    fry_line_settle(line);
    if (line->watched == 0) {
        fry_line_close(line);
        return NULL;
    }
    return line;
}

fry_line *fry_line_call(fry_links *links, fry_link_peer *link)
{
    fry_link_place *place = &link->endpoint.place;
    fry_hello_greeting greeting = {
        .rank = links->own.rank,
        .incarnation = links->own.incarnation,
        .to_rank = link->rank,
        .to_incarnation = link->incarnation,
    };
    const int fd = socket(place->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return NULL;
    if (connect(fd, &place->any, fry_link_place_size(place)) != 0 && errno != EINPROGRESS) {
        const int error = errno;
        (void)close(fd);
        errno = error;
        return NULL;
    }
    fry_line *line = line_create(links, fd, place);
    if (line == NULL)
        return NULL;
    line->state = FRY_LINE_CONNECTING;
    line->link = link;
    fry_timer_set(links->reactor, &line->timer, line->since_ns + link->answer_ns);
    memcpy(greeting.job, links->job, sizeof(greeting.job));
    fry_hello_call(&line->hello, links->psk, &greeting);
    fry_line_settle(line);
    if (line->watched == 0) {
        const int error = errno;
        fry_line_close(line);
        errno = error;
        return NULL;
    }
    return line;
}

static void leave_strangers(fry_line *line)
{
    TAILQ_REMOVE(&line->links->strangers, line, entry);
    line->links->stranger_count--;
}

void fry_line_adopt(fry_line *line, fry_link_peer *link)
{
    leave_strangers(line);
    line->link = link;
    line->state = FRY_LINE_TALKING;
    fry_line_give_time(line);
}

void fry_line_end(fry_line *line, fry_hello_reason reason)
{
    if (line->state != FRY_LINE_CONNECTING) {
        fry_hello_end(&line->hello, reason);
        send_out(line);
    }
    fry_line_close(line);
}

void fry_line_close(fry_line *line)
{
    fry_links *links = line->links;

    if (line->link == NULL)
        leave_strangers(line);
    fry_timer_stop(links->reactor, &line->timer);
    if (line->watched != 0)
        fry_poller_remove(links->reactor->poller, &line->watch);
    (void)close(line->watch.fd);
    fry_hello_close(&line->hello);
    fry_free(links->reactor->memory, line, sizeof(*line));
}
