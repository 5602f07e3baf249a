/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links: which member has a connection, who calls whom, and what is reported.
 *
 *     IDLE ──► WAITING ──► CALLING ────┐
 *      │ ▲          ▲─ failed ─┘         ├──► CONNECTED ──► LOST ──► OVER
 *      │ │                               │        └───────────┴───────┴──► DETACHED
 *      └─┼───────────────► ANSWERING ────┘                                    │ destroyed
 *        └───── fry_link_over ────── TOLD ◄────────── DESTROYED ◄─────────────┘
 *
 * The engine moves a link to DETACHED and to TOLD, with its baton (engine/messages/route.c). All
 * else is here and in link_hear.c. If the other end's process has ended, CONNECTED is OVER at once.
 *
 * Both call at once. The lower rank's call counts: it refuses the other call, and the higher rank
 * gives up its own call and answers. A call counts only once its offer is sent, because then the
 * other end has been reached. Before that the lower rank too gives up its call and answers, so that
 * a path open in one direction only is found. So of two calls that both count to their callers the
 * higher rank always yields, and both never yield: the lower rank has answered only if it had sent
 * no offer, and then the higher rank has nothing to answer. What a failed call leaves behind may
 * cost a try, never more: an end that loses its line gives up and calls again, later each time,
 * while a connection is wanted. The higher rank opens its channel only when its call was answered
 * with an address: opening costs milliseconds, and most programs begin with calls in both
 * directions at once.
 *
 * The line stays open as long as the connection stands. When two ends tell each other that they are
 * ready, one can't know that its message arrived. If the other end gave up, it closes its line, and
 * that ends the connection here as well. The line also tells at once that a process across the
 * network has gone, which UCX learns only from its keepalive. A line that was cut silently would
 * leave this end with a connection that the other end does not have. So each end counts
 * connections. A caller with fewer connections than this end has not been through the latest
 * connection. This end refuses it, and asks over the standing line whether the other end is still
 * there (fry_hello_ping); a kernel that does not know the line answers with a reset. A caller with
 * as many connections had the latest connection and ended it. So an old call, found late in a
 * socket, can't end a good connection.
 *
 * A connection's orderly end is told over the channel, after everything else that was said there
 * (net/peer/peer.c). The line may tell an end sooner. Such an end waits a little before it counts
 * (LOST), also for the kernel's report that a process has ended, which says more.
 */
#include "net/connect/link.h"

#include "net/connect/hello.h"
#include "net/connect/link_connection.h"
#include "net/connect/link_endpoint.h"
#include "net/connect/link_hear.h"
#include "net/connect/link_line.h"
#include "net/connect/link_port.h"
#include "net/connect/link_state.h"
#include "net/connect/process.h"
#include "net/reactor.h"
#include "net/transport.h"

#include <errno.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define BACKOFF_MIN_NS INT64_C(5000000)
#define BACKOFF_MAX_NS INT64_C(1000000000)

static int64_t now_of(const fry_link_peer *link)
{
    return fry_reactor_now_ns(link->links->reactor);
}

/* Changes a link's state; nothing else does. The old state's timer stops. */
void fry_link_set_state(fry_link_peer *link, fry_link_state state)
{
    fry_timer_stop(link->links->reactor, &link->timer);
    link->state = state;
}

/* Sets the timer for the moment until which a connection is wanted. */
void fry_link_set_deadline(fry_link_peer *link)
{
    if (link->is_wanted && link->deadline_ns != 0)
        fry_timer_set(link->links->reactor, &link->timer, link->deadline_ns);
}

void fry_link_set_fault(fry_link_peer *link, ferry_status status, const char *format, ...)
{
    va_list arguments;

    link->fault = (fry_fault){.status = status, .rank = (int32_t)link->rank};
    va_start(arguments, format);
    (void)vsnprintf(link->fault.message, sizeof(link->fault.message), format, arguments);
    va_end(arguments);
}

static void settle_soon(fry_links *links)
{
    fry_timer_set(links->reactor, &links->settle_timer, fry_reactor_now_ns(links->reactor));
}

/* ---- calls that come to nothing ---- */

/* Closes what there is yet of a connection that is over, or will not be made. */
void fry_link_undo_connection(fry_link_peer *link)
{
    if (link->channel != NULL)
        link->channel->ops->destroy(link->channel);
    if (link->connection != NULL)
        link->links->opener->close_connection(link->links->opener->arg, link->connection);
    link->channel = NULL;
    link->connection = NULL;
}

void fry_link_drop_line(fry_link_peer *link, fry_hello_reason reason)
{
    if (link->line != NULL)
        fry_line_end(link->line, reason);
    link->line = NULL;
}

/* The link may be gone afterwards. */
static void tell_failed(fry_link_peer *link)
{
    const fry_fault fault = link->fault;

    fry_link_set_state(link, FRY_LINK_IDLE);
    link->is_wanted = false;
    link->links->events->failed(link, &fault);
}

static void wait_for_next_call(fry_link_peer *link)
{
    int64_t when_ns = now_of(link) + link->backoff_ns;

    fry_link_set_state(link, FRY_LINK_WAITING);
    link->next_call_ns = when_ns;
    link->backoff_ns *= 2;
    if (link->backoff_ns > BACKOFF_MAX_NS)
        link->backoff_ns = BACKOFF_MAX_NS;
    if (link->deadline_ns != 0 && link->deadline_ns < when_ns)
        when_ns = link->deadline_ns;
    fry_timer_set(link->links->reactor, &link->timer, when_ns);
}

void fry_link_wait_longer(fry_link_peer *link)
{
    const int64_t lease_ns = link->links->lease_ns;

    if (link->answer_ns <= lease_ns / 2)
        link->answer_ns *= 2;
}

/* The fault must be set. is_final: calling again is of no use. The link may be gone afterwards. */
void fry_link_call_failed(fry_link_peer *link, fry_hello_reason reason, bool is_final)
{
    fry_link_drop_line(link, reason);
    fry_link_undo_connection(link);
    if (!link->is_wanted)
        fry_link_set_state(link, FRY_LINK_IDLE);
    else if (is_final)
        tell_failed(link);
    else
        wait_for_next_call(link);
}

/* ---- the other end's process ---- */

static void forget_process(fry_link_peer *link)
{
    if (link->process.fd < 0)
        return;
    fry_poller_remove(link->links->reactor->poller, &link->process);
    (void)close(link->process.fd);
    link->process.fd = -1;
}

void fry_link_process_ended(fry_link_peer *link)
{
    forget_process(link);
    link->has_died = true;
    fry_link_drop_line(link, FRY_HELLO_TOO_LATE);
    switch (link->state) {
    case FRY_LINK_CONNECTED:
    case FRY_LINK_LOST:
        fry_link_set_state(link, FRY_LINK_OVER); /* `died` says more than `failed` */
        break;
    case FRY_LINK_CALLING:
    case FRY_LINK_ANSWERING:
    case FRY_LINK_WAITING:
        fry_link_undo_connection(link);
        fry_link_set_state(link, FRY_LINK_IDLE);
        if (link->is_wanted) { /* `failed` follows */
            link->backoff_ns = 0;
            wait_for_next_call(link);
        }
        break;
    default:
        break;
    }
    link->links->events->died(link);
}

static void process_is_readable(fry_watch *watch, uint32_t events)
{
    (void)events;
    fry_link_process_ended(watch->arg);
}

/* Checks that the other end is the process that it names; watches it if possible. 0, or why not. */
fry_hello_reason fry_link_watch_process(fry_link_peer *link, const fry_hello *hello)
{
    const bool is_one_host =
        sodium_memcmp(hello->own.host, hello->other.host, FRY_MACHINE_BYTES) == 0 &&
        !sodium_is_zero(hello->own.host, FRY_MACHINE_BYTES);
    int fd = -1;

    if (!is_one_host || link->process.fd >= 0)
        return 0;
    switch (fry_process_watch(hello->other.pid, hello->other.started, &fd)) {
    case FRY_PROCESS_IS_OWN:
        return 0;
    case FRY_PROCESS_WATCHED:
        link->process.fd = fd;
        link->pid = hello->other.pid;
        link->started = hello->other.started;
        if (fry_poller_add(link->links->reactor->poller, &link->process, EPOLLIN) == FERRY_OK)
            return 0;
        (void)close(fd);
        link->process.fd = -1;
        break;
    case FRY_PROCESS_GONE:
        return FRY_HELLO_NO_PROCESS;
    case FRY_PROCESS_UNWATCHED:
        break;
    }
    /* Over the network the death is seen by other means. */
    return hello->agreement.path == FRY_PATH_SHARED ? FRY_HELLO_NOT_WATCHED : 0;
}

/* ---- a link's time ---- */

static void call(fry_link_peer *link)
{
    fry_links *links = link->links;

    if (link->has_died) {
        fry_link_set_fault(link, FERRY_E_DEAD, "member %u has died: its process ended", link->rank);
        fry_link_call_failed(link, FRY_HELLO_TOO_LATE, true);
    } else if (!links->has_own || links->is_leaving) {
        fry_link_set_fault(link, FERRY_E_PEER, "this member is not in its group");
        fry_link_call_failed(link, FRY_HELLO_TOO_LATE, links->is_leaving);
    } else if (link->rank == links->own.rank) {
        fry_link_connect_self(link);
    } else if (!link->has_endpoint) {
        fry_link_set_fault(link, FERRY_E_PEER, "member %u has an invalid endpoint", link->rank);
        fry_link_call_failed(link, FRY_HELLO_TOO_LATE, true);
    } else {
        link->line = fry_line_call(links, link);
        if (link->line == NULL) {
            char text[FRY_LINK_PLACE_BYTES];
            const int error = errno;
            fry_link_place_text(&link->endpoint.place, text);
            fry_link_set_fault(link, FERRY_E_PEER, "hello to member %u at %s: %s", link->rank, text,
                               strerror(error));
            fry_link_call_failed(link, FRY_HELLO_TOO_LATE, false);
            return;
        }
        fry_link_set_state(link, FRY_LINK_CALLING);
        fry_link_set_deadline(link);
    }
}

static bool is_late(const fry_link_peer *link)
{
    return link->is_wanted && link->deadline_ns != 0 && now_of(link) >= link->deadline_ns;
}

static void link_is_due(fry_timer *timer)
{
    fry_link_peer *link = timer->arg;

    switch (link->state) {
    case FRY_LINK_WAITING:
        if (!is_late(link)) {
            call(link);
        } else {
            if (link->fault.status == FERRY_OK)
                fry_link_set_fault(link, FERRY_E_PEER, "member %u was not called in time",
                                   link->rank);
            tell_failed(link);
        }
        break;
    case FRY_LINK_CALLING:
    case FRY_LINK_ANSWERING:
        if (link->fault.status == FERRY_OK) /* the fault of an earlier call says more */
            fry_link_set_fault(link, FERRY_E_PEER,
                               "no connection to member %u in time: its hello had begun",
                               link->rank);
        fry_link_call_failed(link, FRY_HELLO_TOO_LATE, true);
        break;
    case FRY_LINK_LOST: {
        const fry_fault fault = link->fault;
        fry_link_set_state(link, FRY_LINK_OVER);
        link->links->events->failed(link, &fault);
        break;
    }
    default:
        break;
    }
}

/* ---- members ---- */

fry_link_peer *fry_link_add(fry_links *links, uint32_t rank, uint64_t incarnation,
                            const char *endpoint, void *arg)
{
    fry_link_peer *link = fry_alloc(links->reactor->memory, sizeof(*link), _Alignof(fry_link_peer));

    if (link == NULL)
        return NULL;
    link->links = links;
    link->arg = arg;
    link->rank = rank;
    link->incarnation = incarnation;
    link->has_endpoint = fry_link_read_endpoint(endpoint, &link->endpoint);
    link->timer = (fry_timer){.fn = link_is_due, .arg = link};
    link->process = (fry_watch){.fd = -1, .fn = process_is_readable, .arg = link};
    LIST_INSERT_HEAD(&links->peers, link, entry);
    settle_soon(links);
    return link;
}

void *fry_link_arg(const fry_link_peer *link)
{
    return link->arg;
}

static void begin_calls(fry_link_peer *link)
{
    link->fault = (fry_fault){0};
    link->backoff_ns = 0;
    link->answer_ns = FRY_LINK_HELLO_NS;
    wait_for_next_call(link);
    link->backoff_ns = BACKOFF_MIN_NS;
}

void fry_link_want(fry_link_peer *link, int64_t deadline_ns)
{
    link->is_wanted = true;
    link->deadline_ns = deadline_ns;
    switch (link->state) {
    case FRY_LINK_IDLE:
    case FRY_LINK_WAITING:
        begin_calls(link);
        break;
    case FRY_LINK_CALLING:
    case FRY_LINK_ANSWERING:
        link->backoff_ns = BACKOFF_MIN_NS;
        fry_link_set_deadline(link);
        break;
    default: /* fry_link_over does it */
        break;
    }
}

bool fry_link_has_connection(const fry_link_peer *link)
{
    return link != NULL && link->state >= FRY_LINK_CONNECTED;
}

void fry_link_destroy(fry_link_peer *link)
{
    link->channel->ops->destroy(link->channel);
    link->channel = NULL;
    fry_link_drop_line(link, link->links->is_leaving ? FRY_HELLO_LEFT : FRY_HELLO_CONNECTION_ENDED);
    fry_link_set_state(link, FRY_LINK_DESTROYED);
}

void fry_link_over(fry_link_peer *link)
{
    fry_link_undo_connection(link);
    fry_link_set_state(link, FRY_LINK_IDLE);
    if (link->is_wanted)
        begin_calls(link);
    settle_soon(link->links);
}

void fry_link_remove(fry_link_peer *link)
{
    fry_links *links = link->links;

    fry_link_drop_line(link, links->is_leaving ? FRY_HELLO_LEFT : FRY_HELLO_TOO_LATE);
    fry_link_undo_connection(link);
    fry_link_set_state(link, FRY_LINK_IDLE);
    forget_process(link);
    LIST_REMOVE(link, entry);
    fry_free(links->reactor->memory, link, sizeof(*link));
}

bool fry_link_is_local(const fry_link_peer *link)
{
    const uint8_t *own = link->links->own.host;

    return (link->links->has_own && link->rank == link->links->own.rank) ||
           (link->has_endpoint && !sodium_is_zero(own, FRY_MACHINE_BYTES) &&
            memcmp(link->endpoint.host, own, FRY_MACHINE_BYTES) == 0);
}

/* ---- all links ---- */

static void describe_own(fry_links *links, const fry_links_options *options)
{
    fry_hello_offer *own = &links->own;

    own->pid = getpid();
    own->started = fry_process_started(own->pid);
    fry_machine_identify(own->host);
    own->window_messages = options->window_messages;
    own->unexpected_max = options->unexpected_max;
    own->window_bytes = options->window_bytes;
    own->paths =
        FRY_HELLO_PATH(FRY_PATH_NET) | FRY_HELLO_PIECES | FRY_HELLO_WINDOWS | FRY_HELLO_MAPS;
    if (options->has_views)
        own->paths |= FRY_HELLO_VIEWS;
    if (options->has_pairs)
        own->paths |= FRY_HELLO_PAIRS;
    if (sodium_is_zero(own->host, FRY_MACHINE_BYTES) || !fry_process_can_watch())
        fry_log_line(links->reactor->log, FERRY_LOG_WARNING,
                     "members on this host are reached over the network, because this host can't "
                     "be identified or its processes can't be watched");
    else
        own->paths |= FRY_HELLO_PATH(FRY_PATH_SHARED);
}

ferry_status fry_links_open(const fry_links_options *options, const fry_link_events *events,
                            fry_links **links_p, char *endpoint, fry_error **error_p)
{
    const fry_memory *memory = options->reactor->memory;
    const char *why = NULL;
    fry_links *links = fry_alloc(memory, sizeof(*links), _Alignof(fry_links));
    ferry_status status = FERRY_E_NO_MEMORY;

    *links_p = NULL;
    if (links == NULL) {
        *error_p = fry_error_static(status);
        return status;
    }
    TAILQ_INIT(&links->strangers);
    links->reactor = options->reactor;
    links->events = events;
    links->lease_ns = options->lease_ns;
    links->registration_cache_bytes = options->registration_cache_bytes;
    links->opener = options->opener;
    if (links->opener == NULL)
        fry_link_use_ucx(links);
    links->port.fd = -1;
    links->settle_timer = (fry_timer){.fn = fry_link_settle_strangers, .arg = links};
    (void)snprintf(links->job, sizeof(links->job), "%s", options->job);
    status = fry_link_find_network(options->network, &links->place, &why);
    if (status == FERRY_OK) {
        why = "no randomness";
        status = fry_hello_key(links->psk, options->secret, options->secret_bytes);
    }
    if (status != FERRY_OK) {
        *error_p = fry_error_create(memory, &(fry_fault){.status = status, .rank = -1}, NULL,
                                    "hellos on \"%s\": %s",
                                    options->network != NULL ? options->network : "lo", why);
        goto err_links;
    }
    status = fry_link_port_open(links, error_p);
    if (status != FERRY_OK)
        goto err_links;
    describe_own(links, options);
    fry_link_endpoint own = {.place = links->place};
    memcpy(own.host, links->own.host, sizeof(own.host));
    fry_link_write_endpoint(&own, endpoint);
    *links_p = links;
    return FERRY_OK;

err_links:
    sodium_memzero(links->psk, sizeof(links->psk));
    fry_free(memory, links, sizeof(*links));
    return status;
}

void fry_links_set_own(fry_links *links, uint32_t rank, uint64_t incarnation)
{
    links->own.rank = rank;
    links->own.incarnation = incarnation;
    links->has_own = true;
    settle_soon(links);
}

void fry_links_leave(fry_links *links)
{
    links->is_leaving = true;
    settle_soon(links);
}

void fry_links_close(fry_links *links)
{
    const fry_memory *memory = links->reactor->memory;

    links->is_leaving = true;
    while (!LIST_EMPTY(&links->peers))
        fry_link_remove(LIST_FIRST(&links->peers));
    while (!TAILQ_EMPTY(&links->strangers))
        fry_line_end(TAILQ_FIRST(&links->strangers), FRY_HELLO_LEFT);
    fry_link_port_close(links);
    fry_timer_stop(links->reactor, &links->settle_timer);
    fry_link_close_ucx(links);
    sodium_memzero(links->psk, sizeof(links->psk));
    fry_free(memory, links, sizeof(*links));
}
