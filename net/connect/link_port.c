/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The port that others call. A caller is a stranger until it has proven that it is a member with a
 * link (fry_line_adopt). The number of strangers is limited. At the limit the oldest stranger that
 * has not shown that it knows the secret goes: a silent caller keeps its place only until another
 * caller wants it. If all have shown it, as when very many members call at the same moment, callers
 * wait in the kernel for a while; then the oldest stranger goes.
 *
 * If accepting fails for lack of descriptors or memory the port stays readable, so it is not
 * watched for a while: no spinning.
 */
#include "net/connect/link_port.h"

#include "net/connect/hello.h"
#include "net/connect/link_endpoint.h"
#include "net/connect/link_line.h"
#include "net/connect/link_state.h"
#include "net/reactor.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define ACCEPTS_AT_ONCE 16 /* fewer than lines that are read at once, so none goes unheard */
#define KNOWN_STAYS_NS INT64_C(1000000000) /* for a stranger that knows the secret */
#define FULL_AGAIN_NS INT64_C(10000000)
#define ACCEPT_AGAIN_NS INT64_C(100000000)
#define REFUSAL_AGAIN_NS INT64_C(60000000000) /* the same reason from the same address */
#define REFUSALS_TIME_NS INT64_C(10000000000) /* in which at most so many are logged at all */
#define REFUSALS_LOGGED_MAX 16

/* ---- what is logged ---- */

/* Leaves out the port, which is another with each call. */
static size_t host_length(const char *address)
{
    const char *end = strrchr(address, ':');

    return end != NULL ? (size_t)(end - address) : strlen(address);
}

static bool is_same(const fry_link_refusal *refusal, const char *address, const char *reason)
{
    const size_t length = host_length(address);

    return refusal->reason == reason && host_length(refusal->address) == length &&
           strncmp(refusal->address, address, length) == 0;
}

static bool may_log(fry_links *links, int64_t now_ns)
{
    if (now_ns - links->refusals_since_ns >= REFUSALS_TIME_NS) {
        links->refusals_since_ns = now_ns;
        links->refusals_logged = 0;
    }
    return links->refusals_logged < REFUSALS_LOGGED_MAX;
}

void fry_link_refuse(fry_links *links, const char *address, const char *reason, const char *detail)
{
    const int64_t now_ns = fry_reactor_now_ns(links->reactor);
    fry_link_refusal *refusal = &links->refusals[0];

    for (size_t i = 0; i < FRY_LINK_REFUSALS; i++) {
        fry_link_refusal *one = &links->refusals[i];
        if (is_same(one, address, reason)) {
            refusal = one;
            break;
        }
        if (one->logged_ns < refusal->logged_ns)
            refusal = one; /* the oldest makes room */
    }
    const bool is_known = is_same(refusal, address, reason);
    if ((is_known && now_ns - refusal->logged_ns < REFUSAL_AGAIN_NS) || !may_log(links, now_ns)) {
        refusal->unlogged += is_known;
        return;
    }
    links->refusals_logged++;
    fry_log_line(links->reactor->log, FERRY_LOG_WARNING, "hello from %s refused: %s%s%s", address,
                 reason, detail[0] != 0 ? ": " : "", detail);
    if (is_known && refusal->unlogged > 0)
        fry_log_line(links->reactor->log, FERRY_LOG_WARNING,
                     "%llu more like that were refused before",
                     (unsigned long long)refusal->unlogged);
    *refusal = (fry_link_refusal){.reason = reason, .logged_ns = now_ns};
    (void)memccpy(refusal->address, address, 0, sizeof(refusal->address) - 1);
}

/* ---- the port ---- */

/* False: no stranger may be removed for one more now. */
static bool make_room(fry_links *links)
{
    const int64_t old_ns = fry_reactor_now_ns(links->reactor) - KNOWN_STAYS_NS;
    fry_line *line, *victim = TAILQ_FIRST(&links->strangers);

    if (links->stranger_count < FRY_LINK_STRANGERS_MAX)
        return true;
    TAILQ_FOREACH(line, &links->strangers, entry) {
        if (line->hello.state == FRY_HELLO_AWAITS_FIRST) {
            victim = line;
            break;
        }
    }
    if (victim->hello.state != FRY_HELLO_AWAITS_FIRST && victim->since_ns > old_ns)
        return false;
    fry_link_refuse(links, victim->address, "too many hellos at once, and this is the oldest", "");
    fry_line_end(victim, FRY_HELLO_TOO_MANY);
    return true;
}

/* Stops accepting for a while. Callers wait in the kernel meanwhile. */
static void rest(fry_links *links, int64_t rest_ns)
{
    fry_poller_remove(links->reactor->poller, &links->port);
    links->is_port_watched = false;
    fry_timer_set(links->reactor, &links->port_timer, fry_reactor_now_ns(links->reactor) + rest_ns);
}

static void rest_without(fry_links *links, int error)
{
    const int64_t now_ns = fry_reactor_now_ns(links->reactor);

    if (!links->has_rested || now_ns - links->rested_ns >= REFUSAL_AGAIN_NS)
        fry_log_line(links->reactor->log, FERRY_LOG_ERROR, "hellos can't be answered now: %s",
                     strerror(error));
    links->has_rested = true;
    links->rested_ns = now_ns;
    rest(links, ACCEPT_AGAIN_NS);
}

static void port_is_readable(fry_watch *watch, uint32_t events)
{
    fry_links *links = watch->arg;

    (void)events;
    for (int i = 0; i < ACCEPTS_AT_ONCE; i++) {
        if (i > 0 && links->stranger_count == FRY_LINK_STRANGERS_MAX)
            return; /* perhaps nobody calls; else it is readable still */
        if (!make_room(links)) {
            rest(links, FULL_AGAIN_NS);
            return;
        }
        fry_link_place from = {0};
        socklen_t size = sizeof(from);
        const int fd = accept4(watch->fd, &from.any, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            (void)fry_line_answer(links, fd, &from);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            rest_without(links, errno);
            return;
        } /* else that caller has gone already, see accept(2) */
    }
}

static bool watch_port(fry_links *links)
{
    links->is_port_watched =
        fry_poller_add(links->reactor->poller, &links->port, EPOLLIN) == FERRY_OK;
    return links->is_port_watched;
}

static void accept_again(fry_timer *timer)
{
    fry_links *links = timer->arg;

    if (!watch_port(links))
        fry_timer_set(links->reactor, timer, fry_reactor_now_ns(links->reactor) + ACCEPT_AGAIN_NS);
}

ferry_status fry_link_port_open(fry_links *links, fry_error **error_p)
{
    socklen_t size = fry_link_place_size(&links->place);
    char text[FRY_LINK_PLACE_BYTES];

    links->port_timer = (fry_timer){.fn = accept_again, .arg = links};
    links->port = (fry_watch){.fn = port_is_readable, .arg = links};
    links->port.fd =
        socket(links->place.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (links->port.fd >= 0 && bind(links->port.fd, &links->place.any, size) == 0 &&
        listen(links->port.fd, SOMAXCONN) == 0 &&
        getsockname(links->port.fd, &links->place.any, &size) == 0 && watch_port(links))
        return FERRY_OK;
    const int error = errno;
    fry_link_place_text(&links->place, text);
    fry_link_port_close(links);
    *error_p = fry_error_create(
        links->reactor->memory,
        &(fry_fault){.status = FERRY_E_SYSTEM, .rank = -1, .domain = "errno", .native_code = error},
        NULL, "a port for hellos at %s: %s", text, strerror(error));
    return error == EADDRNOTAVAIL ? FERRY_E_INVALID : FERRY_E_SYSTEM;
}

void fry_link_port_close(fry_links *links)
{
    fry_timer_stop(links->reactor, &links->port_timer);
    if (links->is_port_watched)
        fry_poller_remove(links->reactor->poller, &links->port);
    links->is_port_watched = false;
    if (links->port.fd >= 0)
        (void)close(links->port.fd);
    links->port.fd = -1;
}
