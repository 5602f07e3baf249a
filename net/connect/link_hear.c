/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lines hear: who may call, which of two calls counts, and when a connection exists. link.c
 * has the reasons.
 */
#include "net/connect/link_hear.h"

#include "net/connect/hello.h"
#include "net/connect/link.h"
#include "net/connect/link_line.h"
#include "net/connect/link_port.h"
#include "net/connect/link_state.h"
#include "net/connect/process.h"
#include "net/reactor.h"
#include "net/transport.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#define END_GRACE_NS INT64_C(200000000)

static void set_channel_fault(fry_link_peer *link, ferry_status status, const fry_fault *fault)
{
    fry_link_set_fault(link, status, "no channel to member %u: %s", link->rank,
                       fault->message[0] != 0 ? fault->message : ferry_status_text(status));
    link->fault.native_code = fault->native_code;
    link->fault.domain = fault->domain;
}

/* ---- connections ---- */

/* The link may be gone afterwards. */
static void tell_connected(fry_link_peer *link)
{
    if (link->line != NULL) {
        const uint64_t others = link->line->hello.other.connections;
        link->connections = link->connections > others ? link->connections : others;
        fry_timer_stop(link->links->reactor, &link->line->timer);
        fry_line_settle(link->line);
    }
    link->connections++;
    fry_link_set_state(link, FRY_LINK_CONNECTED);
    link->is_wanted = false;
    link->links->events->connected(link);
}

/* Opens connection and channel; fills in `address`. False: the fault is set. */
static bool open_connection(fry_link_peer *link, fry_channel_path path,
                            const fry_connection_session *session,
                            uint8_t address[FRY_ADDRESS_BYTES_MAX], size_t *address_bytes)
{
    fry_links *links = link->links;
    fry_fault fault = {.rank = -1};

    *address_bytes = FRY_ADDRESS_BYTES_MAX;
    link->path = path;
    const ferry_status status =
        links->opener->open(links->opener->arg, path, links->events->peer_options(link), session,
                            &link->connection, &link->channel, address, address_bytes, &fault);
    if (status == FERRY_OK)
        return true;
    link->connection = NULL;
    link->channel = NULL;
    set_channel_fault(link, status, &fault);
    return false;
}

static bool connect_connection(fry_link_peer *link, const void *address, size_t address_bytes)
{
    const fry_connection_opener *opener = link->links->opener;
    fry_fault fault = {.rank = -1};
    const ferry_status status =
        opener->connect(opener->arg, link->channel, address, address_bytes, &fault);

    if (status != FERRY_OK)
        set_channel_fault(link, status, &fault);
    return status == FERRY_OK;
}

/* Makes a member's connection to itself: one channel, both of whose ends are here. */
void fry_link_connect_self(fry_link_peer *link)
{
    const fry_hello_offer *own = &link->links->own;
    const fry_connection_session session = {
        .window_messages = own->window_messages,
        .unexpected_max = own->unexpected_max,
        .window_bytes = own->window_bytes,
        .has_pieces = true,
        .has_windows = true,
        .has_maps = true,
    };
    uint8_t address[FRY_ADDRESS_BYTES_MAX];
    size_t address_bytes;

    if (open_connection(link, FRY_PATH_SELF, &session, address, &address_bytes) &&
        connect_connection(link, address, address_bytes))
        tell_connected(link);
    else
        fry_link_call_failed(link, FRY_HELLO_NO_CHANNEL, true);
}

/* Opens this end's connection and sends its address. False: the link may be gone. */
static bool open_agreed(fry_link_peer *link)
{
    fry_hello *hello = &link->line->hello;
    fry_connection_session session;
    uint8_t address[FRY_ADDRESS_BYTES_MAX];
    size_t address_bytes;

    fry_hello_session(hello, &session);
    const bool is_open =
        open_connection(link, hello->agreement.path, &session, address, &address_bytes);
    sodium_memzero(&session, sizeof(session));
    if (is_open)
        fry_hello_address(hello, address, address_bytes);
    else
        fry_link_call_failed(link, FRY_HELLO_NO_CHANNEL, link->fault.status == FERRY_E_UNSUPPORTED);
    return is_open;
}

/* Whether calling again would be of no use. */
static bool is_final(fry_hello_reason reason)
{
    switch (reason) {
    case FRY_HELLO_LEFT:
    case FRY_HELLO_OTHER_JOB:
    case FRY_HELLO_OTHER_MEMBER:
    case FRY_HELLO_OLD_START:
    case FRY_HELLO_NO_PATH:
    case FRY_HELLO_NO_PROCESS:
        return true;
    default:
        return false;
    }
}

/* Both offers are there. `opens`: also opens this end's channel. False: the link may be gone. */
static bool agree(fry_link_peer *link, bool opens)
{
    fry_line *line = link->line;
    fry_hello_reason reason = FRY_HELLO_NO_PATH;

    if (fry_hello_agree(&line->hello)) {
        reason = fry_link_watch_process(link, &line->hello);
        if (reason == 0)
            return !opens || open_agreed(link);
    }
    if (reason == FRY_HELLO_NO_PROCESS) {
        /* It said so a moment ago, on this host: it has ended since. */
        fry_link_drop_line(link, reason);
        fry_link_process_ended(link);
        return false;
    }
    fry_link_refuse(link->links, line->address, fry_hello_reason_text(reason), "");
    fry_link_set_fault(link, FERRY_E_PEER, "hello with member %u at %s: %s", link->rank,
                       line->address, fry_hello_reason_text(reason));
    fry_link_call_failed(link, reason, is_final(reason));
    return false;
}

/* ---- who calls ---- */

static fry_link_peer *find(const fry_links *links, uint32_t rank, uint64_t incarnation)
{
    fry_link_peer *link;

    LIST_FOREACH(link, &links->peers, entry)
        if (link->rank == rank && link->incarnation == incarnation)
            break;
    return link;
}

static bool is_old_start(const fry_links *links, uint32_t rank, uint64_t incarnation)
{
    const fry_link_peer *link;

    LIST_FOREACH(link, &links->peers, entry)
        if (link->rank == rank && link->incarnation > incarnation)
            return true;
    return false;
}

/* Always false: the line is gone. */
static bool refuse(fry_line *line, fry_hello_reason reason)
{
    char detail[64];

    (void)snprintf(detail, sizeof(detail), "as member %u, start %llu", line->hello.greeting.rank,
                   (unsigned long long)line->hello.greeting.incarnation);
    switch (reason) {
    case FRY_HELLO_LEFT: /* these are no errors */
    case FRY_HELLO_CALLS_ITSELF:
    case FRY_HELLO_HAS_CONNECTION:
    case FRY_HELLO_TOO_LATE:
        break;
    default:
        fry_link_refuse(line->links, line->address, fry_hello_reason_text(reason), detail);
        break;
    }
    fry_line_end(line, reason);
    return false;
}

static fry_hello_reason judge_greeting(const fry_links *links, const fry_hello_greeting *greeting)
{
    if (strcmp(greeting->job, links->job) != 0)
        return FRY_HELLO_OTHER_JOB;
    if (greeting->to_rank != links->own.rank ||
        greeting->to_incarnation != links->own.incarnation || greeting->rank == links->own.rank)
        return FRY_HELLO_OTHER_MEMBER;
    if (links->is_leaving)
        return FRY_HELLO_LEFT;
    if (is_old_start(links, greeting->rank, greeting->incarnation))
        return FRY_HELLO_OLD_START;
    return 0;
}

/* The caller knows the secret, or repeats one that does: the greeting decides nothing here. */
static bool hear_greeting(fry_line *line)
{
    fry_links *links = line->links;
    const fry_hello_greeting *greeting = &line->hello.greeting;
    fry_hello_offer own = links->own;

    line->state = FRY_LINE_WAITS;
    if (!links->has_own)
        return true;
    line->state = FRY_LINE_TALKING;
    const fry_link_peer *link = find(links, greeting->rank, greeting->incarnation);
    own.connections = link != NULL ? link->connections : 0;
    if (!fry_hello_answer(&line->hello, &own)) {
        fry_link_refuse(links, line->address, fry_hello_failure_text(line->hello.failure), "");
        fry_line_close(line);
        return false;
    }
    const fry_hello_reason reason = judge_greeting(links, greeting);
    return reason == 0 || refuse(line, reason);
}

/* Makes this call the connection's. */
static bool accept_call(fry_link_peer *link, fry_line *line)
{
    fry_link_drop_line(link, FRY_HELLO_TOO_LATE);
    fry_link_undo_connection(link);
    fry_line_adopt(line, link);
    link->line = line;
    fry_link_set_state(link, FRY_LINK_ANSWERING);
    fry_link_set_deadline(link);
    return agree(link, true);
}

/* The connection is lost, which the timer tells the engine. */
static void lose_connection(fry_link_peer *link, int64_t grace_ns)
{
    fry_link_set_state(link, FRY_LINK_LOST);
    fry_timer_set(link->links->reactor, &link->timer,
                  fry_reactor_now_ns(link->links->reactor) + grace_ns);
}

/*
 * A member's line has no more to say: the fault is set. In a hello that is the end of a call, and
 * later the end of the connection, unless the engine was told of that before. The link may be gone
 * afterwards.
 */
static void end_line(fry_link_peer *link, fry_hello_reason reason, bool is_final, int64_t grace_ns)
{
    if (!fry_link_has_connection(link)) {
        fry_link_call_failed(link, reason, is_final);
        return;
    }
    fry_link_drop_line(link, FRY_HELLO_CONNECTION_ENDED);
    if (link->state <= FRY_LINK_LOST)
        lose_connection(link, grace_ns);
}

void fry_link_lost(fry_link_peer *link, const fry_fault *fault)
{
    if (link->state != FRY_LINK_CONNECTED)
        return; /* the other end's word came first, and is or was told */
    link->fault = *fault;
    lose_connection(link, link->line != NULL ? END_GRACE_NS : 0);
}

/* A member with a connection calls: it has ended the connection, or does not know it. */
static bool hear_again(fry_link_peer *link, fry_line *line)
{
    if (line->hello.other.connections < link->connections) {
        if (link->line != NULL) {
            fry_hello_ping(&link->line->hello);
            fry_line_settle(link->line);
        }
        return refuse(line, FRY_HELLO_HAS_CONNECTION);
    }
    if (link->state == FRY_LINK_CONNECTED) {
        fry_link_set_fault(link, FERRY_E_PEER, "member %u ended the connection and calls again",
                           link->rank);
        end_line(link, FRY_HELLO_CONNECTION_ENDED, false, 0);
    }
    return true; /* the caller waits for fry_link_over */
}

/* The caller has proven that it is a member. False: the line may be gone. */
static bool place_caller(fry_line *line)
{
    fry_links *links = line->links;
    const fry_hello_offer *other = &line->hello.other;
    fry_link_peer *link = find(links, other->rank, other->incarnation);

    line->state = FRY_LINE_WAITS;
    if (links->is_leaving)
        return refuse(line, FRY_HELLO_LEFT);
    if (link == NULL) {
        if (is_old_start(links, other->rank, other->incarnation))
            return refuse(line, FRY_HELLO_OLD_START);
        return true; /* the store may yet tell of it */
    }
    if (link->has_died)
        return refuse(line, FRY_HELLO_NO_PROCESS);
    switch (link->state) {
    case FRY_LINK_CALLING:
        if (links->own.rank < link->rank && link->line->hello.state > FRY_HELLO_AWAITS_SECOND)
            return refuse(line, FRY_HELLO_CALLS_ITSELF);
        return accept_call(link, line);
    case FRY_LINK_ANSWERING: /* the caller's later call counts */
        if (line->number < link->line->number)
            return refuse(line, FRY_HELLO_TOO_LATE);
        return accept_call(link, line);
    case FRY_LINK_IDLE:
    case FRY_LINK_WAITING:
        return accept_call(link, line);
    default:
        return hear_again(link, line);
    }
}

static bool hear_caller(fry_line *line)
{
    const fry_hello_greeting *greeting = &line->hello.greeting;

    if (line->hello.other.rank != greeting->rank ||
        line->hello.other.incarnation != greeting->incarnation)
        return refuse(line, FRY_HELLO_NOT_AGREED);
    fry_timer_set(line->links->reactor, &line->timer,
                  fry_reactor_now_ns(line->links->reactor) + FRY_LINK_NEWS_NS);
    return place_caller(line);
}

/* Something has changed: looks again at the callers that wait, oldest first. */
void fry_link_settle_strangers(fry_timer *timer)
{
    fry_links *links = timer->arg;
    fry_line *line, *next;

    TAILQ_FOREACH_SAFE(line, &links->strangers, entry, next) {
        if (line->state != FRY_LINE_WAITS)
            continue;
        const bool is_there =
            line->hello.state == FRY_HELLO_AWAITS_ANSWER ? hear_greeting(line) : place_caller(line);
        if (is_there)
            fry_line_settle(line);
    }
}

/* ---- what calls and connections hear ---- */

/* The called end has proven that it is a member. */
static bool hear_answer(fry_link_peer *link)
{
    fry_line *line = link->line;
    fry_hello_offer own = link->links->own;

    if (line->hello.other.rank != link->rank ||
        line->hello.other.incarnation != link->incarnation) {
        fry_link_set_fault(link, FERRY_E_PEER, "the process at %s is not member %u", line->address,
                           link->rank);
        fry_link_call_failed(link, FRY_HELLO_OTHER_MEMBER, true);
        return false;
    }
    own.connections = link->connections;
    fry_hello_offer_own(&line->hello, &own);
    fry_line_settle(line); /* so that both ends open their channels at the same time */
    return agree(link, link->links->own.rank < link->rank);
}

static bool hear_address(fry_link_peer *link)
{
    fry_line *line = link->line;

    if (link->channel == NULL && !open_agreed(link))
        return false;
    if (!connect_connection(link, line->hello.address, line->hello.address_bytes)) {
        fry_link_call_failed(link, FRY_HELLO_NO_CHANNEL, false);
        return false;
    }
    if (!fry_hello_ready(&line->hello))
        return true;
    tell_connected(link);
    return false;
}

/* Always false. */
static bool hear_end(fry_line *line)
{
    fry_link_peer *link = line->link;
    const fry_hello_reason reason = line->hello.reason;

    if (link == NULL) {
        fry_line_close(line);
        return false;
    }
    const bool is_lost = link->state == FRY_LINK_LOST;
    if (!is_lost || reason == FRY_HELLO_LEFT)
        fry_link_set_fault(link, reason == FRY_HELLO_LEFT ? FERRY_E_DEAD : FERRY_E_PEER,
                           "member %u at %s says: %s", link->rank, line->address,
                           fry_hello_reason_text(reason));
    end_line(link, reason, is_final(reason), is_lost ? 0 : END_GRACE_NS);
    return false;
}

/* Always false. */
static bool hear_failure(fry_line *line)
{
    fry_link_peer *link = line->link;
    const fry_hello_failure failure = line->hello.failure;
    char detail[64] = "";

    if (failure == FRY_HELLO_OTHER_VERSION)
        (void)snprintf(detail, sizeof(detail), "it speaks %u, this one %u",
                       line->hello.other_version, FRY_HELLO_VERSION);
    fry_link_refuse(line->links, line->address, fry_hello_failure_text(failure), detail);
    if (link == NULL) {
        fry_line_end(line, FRY_HELLO_NOT_AGREED);
        return false;
    }
    if (link->state != FRY_LINK_LOST)
        fry_link_set_fault(link, FERRY_E_PEER, "hello with member %u at %s: %s%s%s", link->rank,
                           line->address, fry_hello_failure_text(failure),
                           detail[0] != 0 ? ": " : "", detail);
    end_line(link, FRY_HELLO_NOT_AGREED, failure == FRY_HELLO_OTHER_VERSION, 0);
    return false;
}

/* Each step gives time for the next, except to a caller that waits for this member's own news. */
bool fry_link_hear(fry_line *line, fry_hello_event event)
{
    switch (event) {
    case FRY_HELLO_GREETED:
        if (!hear_greeting(line))
            return false;
        fry_line_give_time(line);
        return true;
    case FRY_HELLO_OFFERED:
        if (line->link == NULL)
            return hear_caller(line);
        if (!hear_answer(line->link))
            return false;
        fry_line_give_time(line);
        return true;
    case FRY_HELLO_ADDRESSED:
        if (!hear_address(line->link))
            return false;
        fry_line_give_time(line);
        return true;
    case FRY_HELLO_DONE:
        tell_connected(line->link);
        return false;
    case FRY_HELLO_ENDED:
        return hear_end(line);
    case FRY_HELLO_FAILED:
        return hear_failure(line);
    default:
        return true;
    }
}

void fry_link_lose(fry_line *line, const char *why)
{
    fry_link_peer *link = line->link;

    if (link == NULL) {
        if (line->hello.state == FRY_HELLO_AWAITS_FIRST &&
            (line->hello.in_bytes > 0 || line->hello.has_preamble))
            fry_link_refuse(line->links, line->address, "it closed the socket during its hello",
                            "");
        fry_line_close(line);
        return;
    }
    if (link->process.fd >= 0 && fry_process_is_ending(link->pid, link->started)) {
        fry_link_process_ended(link);
        return;
    }
    const int64_t grace_ns = link->process.fd >= 0 ? END_GRACE_NS : 0;
    const bool is_silent = line->state == FRY_LINE_TALKING &&
                           line->hello.state == FRY_HELLO_AWAITS_SECOND &&
                           !line->hello.has_preamble;
    if (link->state == FRY_LINK_CONNECTED)
        fry_link_set_fault(link, FERRY_E_PEER,
                           "member %u at %s closed the socket without an answer: %s", link->rank,
                           line->address, why);
    else if (!fry_link_has_connection(link))
        fry_link_set_fault(link, FERRY_E_PEER, "hello to member %u at %s: %s%s", link->rank,
                           line->address, why,
                           is_silent ? " without an answer, as for another secret" : "");
    end_line(link, FRY_HELLO_TOO_LATE, false, grace_ns);
}

void fry_link_line_timeout(fry_line *line)
{
    fry_link_peer *link = line->link;

    if (link == NULL && line->state == FRY_LINE_WAITS) {
        const fry_hello_offer *other = &line->hello.other;
        (void)refuse(line, find(line->links, other->rank, other->incarnation) == NULL &&
                                   line->links->has_own
                               ? FRY_HELLO_NOT_A_MEMBER
                               : FRY_HELLO_TOO_LATE);
    } else if (link == NULL) {
        fry_link_refuse(line->links, line->address, "its hello took too long", "");
        fry_line_end(line, FRY_HELLO_TOO_LATE);
    } else {
        fry_link_set_fault(link, FERRY_E_PEER, "hello with member %u at %s took too long",
                           link->rank, line->address);
        fry_link_wait_longer(link);
        fry_link_call_failed(link, FRY_HELLO_TOO_LATE, false);
    }
}
