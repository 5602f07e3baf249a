/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links: which member has a lane, who calls whom, and what is told of it.
 *
 *     IDLE ──► WAITING ──► CALLING ──┐
 *       │         ▲           │      ├──► CONNECTED ──► ENDING ──► ENDED ──► IDLE
 *       │         └── failed ─┘      │         └── fry_link_end ──────────────▲
 *       └─────────────────────► ANSWERING
 *
 * Both call at once. The lower rank's call counts: it refuses the other's, which gives up its own
 * and answers. A call counts only once its offer is sent, for then the other end has been reached;
 * before that the lower rank too gives up its own and answers, so that a way that is open in one
 * direction alone is found. So of two calls that both count to their callers the higher rank always
 * yields, and never both: the lower one has answered only if no offer of its own was sent, and then
 * the higher one has nothing to answer. What a failed call left behind may cost a try, never more:
 * who loses its line gives up, and calls again, later each time, while a lane is wanted. The higher
 * rank opens its channel only when its call was answered with an address: opening costs
 * milliseconds, and calls in both directions at once are what most programs begin with.
 *
 * The line stays open as long as the lane stands. For of two who tell each other that they are
 * ready one can't know that its word arrived: if the other gave up, it closes its line, and that
 * ends the lane here as well. And it tells at once that a process across the network has gone,
 * which UCX learns from its keepalive. A line that was cut without a word would leave this end with
 * a lane that the other does not have. So each end counts lanes: who calls with fewer than this one
 * knows has not been through the latest; it is refused, and asked over the line whether it is still
 * there (fry_hello_ping), which a kernel that knows nothing of the line answers by a reset. Who
 * calls with as many had it and ended it. An old call, found late in a socket, can so not end a
 * good lane.
 *
 * A lane's orderly end is told over the channel, behind all else that was said there (net/peer.c).
 * Here it may come sooner, so what comes here waits a little before it counts (ENDING): also for
 * the word of the kernel that a process has ended, which says more.
 */
#include "net/link_parts.h"

#include <errno.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define BACKOFF_MIN_NS INT64_C(5000000)
#define BACKOFF_MAX_NS INT64_C(1000000000)
#define END_GRACE_NS INT64_C(200000000)

static int64_t now_of(const fry_link_peer *link)
{
    return fry_reactor_now_ns(link->links->reactor);
}

/* The one place where a link's state changes. Timers belong to states, so the old one's ends. */
static void set_state(fry_link_peer *link, fry_link_state state)
{
    fry_timer_stop(link->links->reactor, &link->timer);
    link->state = state;
}

/* Until when a lane is wanted. */
static void set_deadline(fry_link_peer *link)
{
    if (link->is_wanted && link->deadline_ns != 0)
        fry_timer_set(link->links->reactor, &link->timer, link->deadline_ns);
}

static void __attribute__((format(printf, 3, 4)))
set_fault(fry_link_peer *link, ferry_status status, const char *format, ...)
{
    va_list arguments;

    link->fault = (fry_fault){.status = status, .rank = (int32_t)link->rank};
    va_start(arguments, format);
    (void)vsnprintf(link->fault.message, sizeof(link->fault.message), format, arguments);
    va_end(arguments);
}

static void set_native_fault(fry_link_peer *link, ferry_status status,
                             const fry_native_error *error)
{
    set_fault(link, status, "no channel to member %u: %s", link->rank,
              error->message[0] != 0 ? error->message : ferry_status_text(status));
    link->fault.native_code = error->code;
    if (error->domain != NULL)
        (void)snprintf(link->fault.domain, sizeof(link->fault.domain), "%s", error->domain);
}

static void settle_soon(fry_links *links)
{
    fry_timer_set(links->reactor, &links->settle_timer, fry_reactor_now_ns(links->reactor));
}

/* ---- calls that come to nothing ---- */

/* Gives back what was opened for a lane that will not be. */
static void undo_lane(fry_link_peer *link)
{
    if (link->channel != NULL)
        link->channel->ops->destroy(link->channel);
    if (link->lane != NULL)
        link->links->opener->close_lane(link->links->opener->arg, link->lane);
    link->channel = NULL;
    link->lane = NULL;
}

static void drop_line(fry_link_peer *link, fry_hello_reason reason)
{
    if (link->line != NULL)
        fry_line_end(link->line, reason);
    link->line = NULL;
}

/* The link may be gone after it. */
static void tell_failed(fry_link_peer *link)
{
    const fry_fault fault = link->fault;

    set_state(link, FRY_LINK_IDLE);
    link->is_wanted = false;
    link->links->events->failed(link, &fault);
}

static void wait_for_next_call(fry_link_peer *link)
{
    int64_t when_ns = now_of(link) + link->backoff_ns;

    set_state(link, FRY_LINK_WAITING);
    link->next_call_ns = when_ns;
    link->backoff_ns *= 2;
    if (link->backoff_ns > BACKOFF_MAX_NS)
        link->backoff_ns = BACKOFF_MAX_NS;
    if (link->deadline_ns != 0 && link->deadline_ns < when_ns)
        when_ns = link->deadline_ns;
    fry_timer_set(link->links->reactor, &link->timer, when_ns);
}

/* The fault is set. is_final: calling again would be of no use. The link may be gone after it. */
static void call_failed(fry_link_peer *link, fry_hello_reason reason, bool is_final)
{
    drop_line(link, reason);
    undo_lane(link);
    if (!link->is_wanted)
        set_state(link, FRY_LINK_IDLE);
    else if (is_final)
        tell_failed(link);
    else
        wait_for_next_call(link);
    /* Who was told to wait for this one's call may be heard now. */
}

/* ---- lanes ---- */

/* The link may be gone after it. */
static void tell_connected(fry_link_peer *link)
{
    fry_peer_lane *lane = link->lane;
    fry_channel *channel = link->channel;

    if (link->line != NULL) {
        const uint64_t others = link->line->hello.other.lanes;
        link->lanes = link->lanes > others ? link->lanes : others;
        fry_timer_stop(link->links->reactor, &link->line->timer);
        fry_line_settle(link->line);
    }
    link->lanes++;
    set_state(link, FRY_LINK_CONNECTED);
    link->is_wanted = false;
    link->lane = NULL;
    link->channel = NULL;
    link->live = channel;
    link->links->events->connected(link, lane, channel);
}

/* Opens lane and channel; the address is in `address`. False: the fault is set. */
static bool open_lane(fry_link_peer *link, fry_channel_path path, const fry_lane_session *session,
                      uint8_t address[FRY_ADDRESS_BYTES_MAX], size_t *address_bytes)
{
    fry_links *links = link->links;
    fry_native_error error = {0};

    *address_bytes = FRY_ADDRESS_BYTES_MAX;
    link->path = path;
    const ferry_status status =
        links->opener->open(links->opener->arg, path, links->events->peer_options(link), session,
                            &link->lane, &link->channel, address, address_bytes, &error);
    if (status == FERRY_OK)
        return true;
    link->lane = NULL;
    link->channel = NULL;
    set_native_fault(link, status, &error);
    return false;
}

static bool connect_lane(fry_link_peer *link, const void *address, size_t address_bytes)
{
    const fry_lane_opener *opener = link->links->opener;
    fry_native_error error = {0};
    const ferry_status status =
        opener->connect(opener->arg, link->channel, address, address_bytes, &error);

    if (status != FERRY_OK)
        set_native_fault(link, status, &error);
    return status == FERRY_OK;
}

/* A member's lane to itself: one channel, both of whose ends are here. */
static void connect_self(fry_link_peer *link)
{
    const fry_hello_offer *own = &link->links->own;
    const fry_lane_session session = {
        .window_messages = own->window_messages,
        .unexpected_max = own->unexpected_max,
        .window_bytes = own->window_bytes,
    };
    uint8_t address[FRY_ADDRESS_BYTES_MAX];
    size_t address_bytes;

    if (open_lane(link, FRY_PATH_SELF, &session, address, &address_bytes) &&
        connect_lane(link, address, address_bytes))
        tell_connected(link);
    else
        call_failed(link, FRY_HELLO_NO_CHANNEL, true);
}

/* Opens this end's and says where it is. False: the link may be gone. */
static bool open_agreed(fry_link_peer *link)
{
    fry_hello *hello = &link->line->hello;
    fry_lane_session session;
    uint8_t address[FRY_ADDRESS_BYTES_MAX];
    size_t address_bytes;

    fry_hello_session(hello, &session);
    const bool is_open = open_lane(link, hello->agreement.path, &session, address, &address_bytes);
    sodium_memzero(&session, sizeof(session));
    if (is_open)
        fry_hello_address(hello, address, address_bytes);
    else
        call_failed(link, FRY_HELLO_NO_CHANNEL, false);
    return is_open;
}

/* ---- the other's process ---- */

static void forget_process(fry_link_peer *link)
{
    if (link->process.fd < 0)
        return;
    fry_poller_remove(&link->links->reactor->poller, &link->process);
    (void)close(link->process.fd);
    link->process.fd = -1;
}

static void process_has_ended(fry_watch *watch, uint32_t events)
{
    fry_link_peer *link = watch->arg;

    (void)events;
    forget_process(link);
    link->has_died = true;
    drop_line(link, FRY_HELLO_TOO_LATE);
    switch (link->state) {
    case FRY_LINK_CONNECTED:
    case FRY_LINK_ENDING:
        set_state(link, FRY_LINK_ENDED); /* `died` says more than `ended` */
        break;
    case FRY_LINK_CALLING:
    case FRY_LINK_ANSWERING:
    case FRY_LINK_WAITING:
        undo_lane(link);
        set_state(link, FRY_LINK_IDLE);
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

/* Whether the process is as it says, and is watched from here on, as far as it can be. */
static bool watch_process(fry_link_peer *link, const fry_hello *hello)
{
    const bool is_one_host =
        sodium_memcmp(hello->own.host, hello->other.host, FRY_HOST_BYTES) == 0 &&
        !sodium_is_zero(hello->own.host, FRY_HOST_BYTES);
    int fd = -1;

    if (!is_one_host || link->process.fd >= 0)
        return true;
    switch (fry_process_watch(hello->other.pid, hello->other.started, &fd)) {
    case FRY_PROCESS_IS_OWN:
        return true;
    case FRY_PROCESS_WATCHED:
        link->process.fd = fd;
        if (fry_poller_add(&link->links->reactor->poller, &link->process, EPOLLIN) == FERRY_OK)
            return true;
        (void)close(fd);
        link->process.fd = -1;
        break;
    case FRY_PROCESS_GONE:
        return false;
    case FRY_PROCESS_UNKNOWN:
        break;
    }
    /* Over the network its death is seen by other means. */
    return hello->agreement.path != FRY_PATH_SHARED;
}

/* Both offers are there. `opens`: also this end's channel. False: the link may be gone. */
static bool agree(fry_link_peer *link, bool opens)
{
    fry_line *line = link->line;
    fry_hello_reason reason = FRY_HELLO_NO_PATH;

    if (fry_hello_agree(&line->hello)) {
        if (watch_process(link, &line->hello))
            return !opens || open_agreed(link);
        reason = FRY_HELLO_NO_PROCESS;
    }
    fry_link_refuse(link->links, line->address, fry_hello_reason_text(reason), "");
    set_fault(link, FERRY_E_PEER, "hello with member %u at %s: %s", link->rank, line->address,
              fry_hello_reason_text(reason));
    call_failed(link, reason, true);
    return false;
}

/* ---- who calls ---- */

static fry_link_peer *find(const fry_links *links, uint32_t rank, uint64_t incarnation)
{
    fry_link_peer *link = links->peers;

    while (link != NULL && (link->rank != rank || link->incarnation != incarnation))
        link = link->next;
    return link;
}

static bool is_old_start(const fry_links *links, uint32_t rank, uint64_t incarnation)
{
    const fry_link_peer *link = links->peers;

    while (link != NULL && (link->rank != rank || link->incarnation <= incarnation))
        link = link->next;
    return link != NULL;
}

/* Always false: the line is gone. */
static bool refuse(fry_line *line, fry_hello_reason reason)
{
    char detail[64];

    (void)snprintf(detail, sizeof(detail), "as member %u, start %llu", line->hello.greeting.rank,
                   (unsigned long long)line->hello.greeting.incarnation);
    switch (reason) {
    case FRY_HELLO_LEFT: /* these are nobody's fault */
    case FRY_HELLO_CALLS_ITSELF:
    case FRY_HELLO_HAS_LANE:
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

/* Somebody who knows the secret, or who repeats what such a one said: decides nothing here. */
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
    own.lanes = link != NULL ? link->lanes : 0;
    if (!fry_hello_answer(&line->hello, &own)) {
        fry_link_refuse(links, line->address, fry_hello_failure_text(line->hello.failure), "");
        fry_line_close(line);
        return false;
    }
    const fry_hello_reason reason = judge_greeting(links, greeting);
    return reason == 0 || refuse(line, reason);
}

/* This call is to be the lane's. */
static bool accept_call(fry_link_peer *link, fry_line *line)
{
    drop_line(link, FRY_HELLO_TOO_LATE);
    undo_lane(link);
    fry_line_adopt(line, link);
    link->line = line;
    set_state(link, FRY_LINK_ANSWERING);
    set_deadline(link);
    return agree(link, true);
}

/* The other end has gone from the lane that stands: the engine hears of it, by the timer. */
static void end_lane(fry_link_peer *link, int64_t grace_ns)
{
    drop_line(link, FRY_HELLO_LANE_ENDED);
    set_state(link, FRY_LINK_ENDING);
    fry_timer_set(link->links->reactor, &link->timer, now_of(link) + grace_ns);
}

/* A member with a lane calls: either had its end, or does not know the lane. */
static bool hear_again(fry_link_peer *link, fry_line *line)
{
    if (line->hello.other.lanes < link->lanes) {
        if (link->line != NULL) {
            fry_hello_ping(&link->line->hello);
            fry_line_settle(link->line);
        }
        return refuse(line, FRY_HELLO_HAS_LANE);
    }
    if (link->state == FRY_LINK_CONNECTED) {
        set_fault(link, FERRY_E_PEER, "member %u ended the lane and calls anew", link->rank);
        end_lane(link, 0);
    }
    return true; /* it waits for fry_link_end */
}

/* The caller has proven itself. False: the line may be gone. */
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
        return true; /* the store's news may come yet */
    }
    if (link->has_died)
        return refuse(line, FRY_HELLO_NO_PROCESS);
    switch (link->state) {
    case FRY_LINK_CALLING:
        if (links->own.rank < link->rank && link->line->hello.state > FRY_HELLO_AWAITS_SECOND)
            return refuse(line, FRY_HELLO_CALLS_ITSELF);
        return accept_call(link, line);
    case FRY_LINK_ANSWERING: /* its later call counts */
        if (line->number < link->line->number)
            return refuse(line, FRY_HELLO_TOO_LATE);
        return accept_call(link, line);
    case FRY_LINK_CONNECTED:
    case FRY_LINK_ENDING:
    case FRY_LINK_ENDED:
        return hear_again(link, line);
    default:
        return accept_call(link, line);
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

/* Those who wait, oldest first: something has changed. */
static void settle_strangers(fry_timer *timer)
{
    fry_links *links = timer->arg;
    fry_line *next;

    for (fry_line *line = links->strangers; line != NULL; line = next) {
        next = line->next;
        if (line->state != FRY_LINE_WAITS)
            continue;
        const bool is_there =
            line->hello.state == FRY_HELLO_AWAITS_ANSWER ? hear_greeting(line) : place_caller(line);
        if (is_there)
            fry_line_settle(line);
    }
}

/* ---- what calls and lanes hear ---- */

/* Who was called has proven itself. */
static bool hear_answer(fry_link_peer *link)
{
    fry_line *line = link->line;
    fry_hello_offer own = link->links->own;

    if (line->hello.other.rank != link->rank ||
        line->hello.other.incarnation != link->incarnation) {
        set_fault(link, FERRY_E_PEER, "at %s is another member than %u", line->address, link->rank);
        call_failed(link, FRY_HELLO_OTHER_MEMBER, true);
        return false;
    }
    own.lanes = link->lanes;
    fry_hello_offer_own(&line->hello, &own);
    fry_line_settle(line); /* so that both open their channels at the same time */
    return agree(link, link->links->own.rank < link->rank);
}

static bool hear_address(fry_link_peer *link)
{
    fry_line *line = link->line;

    if (link->channel == NULL && !open_agreed(link))
        return false;
    if (!connect_lane(link, line->hello.address, line->hello.address_bytes)) {
        call_failed(link, FRY_HELLO_NO_CHANNEL, false);
        return false;
    }
    if (!fry_hello_ready(&line->hello))
        return true;
    tell_connected(link);
    return false;
}

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

/* Always false. */
static bool hear_end(fry_line *line)
{
    fry_link_peer *link = line->link;
    const fry_hello_reason reason = line->hello.reason;

    if (link == NULL) {
        fry_line_close(line);
        return false;
    }
    set_fault(link, reason == FRY_HELLO_LEFT ? FERRY_E_DEAD : FERRY_E_PEER,
              "member %u at %s says: %s", link->rank, line->address, fry_hello_reason_text(reason));
    if (link->state == FRY_LINK_CONNECTED)
        end_lane(link, END_GRACE_NS);
    else
        call_failed(link, reason, is_final(reason));
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
    set_fault(link, FERRY_E_PEER, "hello with member %u at %s: %s%s%s", link->rank, line->address,
              fry_hello_failure_text(failure), detail[0] != 0 ? ": " : "", detail);
    if (link->state == FRY_LINK_CONNECTED)
        end_lane(link, 0);
    else
        call_failed(link, FRY_HELLO_NOT_AGREED, failure == FRY_HELLO_OTHER_VERSION);
    return false;
}

bool fry_link_hear(fry_line *line, fry_hello_event event)
{
    switch (event) {
    case FRY_HELLO_GREETED:
        return hear_greeting(line);
    case FRY_HELLO_OFFERED:
        return line->link != NULL ? hear_answer(line->link) : hear_caller(line);
    case FRY_HELLO_ADDRESSED:
        return hear_address(line->link);
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
            fry_link_refuse(line->links, line->address, "it went in the midst of its hello", "");
        fry_line_close(line);
        return;
    }
    if (link->state == FRY_LINK_CONNECTED) {
        set_fault(link, FERRY_E_PEER, "member %u at %s went without a word: %s", link->rank,
                  line->address, why);
        end_lane(link, link->process.fd >= 0 ? END_GRACE_NS : 0);
        return;
    }
    const bool is_silent = line->state == FRY_LINE_TALKING &&
                           line->hello.state == FRY_HELLO_AWAITS_SECOND &&
                           !line->hello.has_preamble;
    set_fault(link, FERRY_E_PEER, "hello to member %u at %s: %s%s", link->rank, line->address, why,
              is_silent ? " without an answer, as it does for another secret" : "");
    call_failed(link, FRY_HELLO_TOO_LATE, false);
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
        set_fault(link, FERRY_E_PEER, "hello with member %u at %s took too long", link->rank,
                  line->address);
        call_failed(link, FRY_HELLO_TOO_LATE, false);
    }
}

/* ---- a link's time ---- */

static void call(fry_link_peer *link)
{
    fry_links *links = link->links;

    if (link->has_died) {
        set_fault(link, FERRY_E_DEAD, "member %u has died: its process ended", link->rank);
        call_failed(link, FRY_HELLO_TOO_LATE, true);
    } else if (!links->has_own || links->is_leaving) {
        set_fault(link, FERRY_E_PEER, "this member is not in its group");
        call_failed(link, FRY_HELLO_TOO_LATE, links->is_leaving);
    } else if (link->rank == links->own.rank) {
        connect_self(link);
    } else if (!link->has_endpoint) {
        set_fault(link, FERRY_E_PEER, "member %u has an endpoint that can't be read", link->rank);
        call_failed(link, FRY_HELLO_TOO_LATE, true);
    } else {
        link->line = fry_line_call(links, link);
        if (link->line == NULL) {
            char text[FRY_LINK_PLACE_BYTES];
            const int error = errno;
            fry_link_place_text(&link->endpoint.place, text);
            set_fault(link, FERRY_E_PEER, "hello to member %u at %s: %s", link->rank, text,
                      strerror(error));
            call_failed(link, FRY_HELLO_TOO_LATE, false);
            return;
        }
        set_state(link, FRY_LINK_CALLING);
        set_deadline(link);
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
                set_fault(link, FERRY_E_PEER, "member %u was not called in time", link->rank);
            tell_failed(link);
        }
        break;
    case FRY_LINK_CALLING:
    case FRY_LINK_ANSWERING:
        set_fault(link, FERRY_E_PEER, "no lane to member %u in time: its hello had begun",
                  link->rank);
        call_failed(link, FRY_HELLO_TOO_LATE, true);
        break;
    case FRY_LINK_ENDING: {
        const fry_fault fault = link->fault;
        set_state(link, FRY_LINK_ENDED);
        link->links->events->ended(link, &fault);
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
    link->process = (fry_watch){.fd = -1, .fn = process_has_ended, .arg = link};
    link->next = links->peers;
    if (links->peers != NULL)
        links->peers->previous = link;
    links->peers = link;
    settle_soon(links);
    return link;
}

void *fry_link_arg(const fry_link_peer *link)
{
    return link->arg;
}

uint32_t fry_link_rank(const fry_link_peer *link)
{
    return link->rank;
}

static void begin_calls(fry_link_peer *link)
{
    link->fault = (fry_fault){0};
    link->backoff_ns = 0;
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
        set_deadline(link);
        break;
    default: /* by fry_link_end */
        break;
    }
}

void fry_link_end(fry_link_peer *link, fry_channel *channel)
{
    channel->ops->destroy(channel);
    link->live = NULL;
    drop_line(link, link->links->is_leaving ? FRY_HELLO_LEFT : FRY_HELLO_LANE_ENDED);
    set_state(link, FRY_LINK_IDLE);
    if (link->is_wanted)
        begin_calls(link);
    settle_soon(link->links);
}

void fry_link_remove(fry_link_peer *link)
{
    fry_links *links = link->links;

    drop_line(link, links->is_leaving ? FRY_HELLO_LEFT : FRY_HELLO_TOO_LATE);
    undo_lane(link);
    set_state(link, FRY_LINK_IDLE);
    forget_process(link);
    if (link->previous != NULL)
        link->previous->next = link->next;
    else
        links->peers = link->next;
    if (link->next != NULL)
        link->next->previous = link->previous;
    fry_free(links->reactor->memory, link, sizeof(*link));
}

bool fry_link_is_local(const fry_link_peer *link)
{
    const uint8_t *own = link->links->own.host;

    return link->rank == link->links->own.rank ||
           (link->has_endpoint && !sodium_is_zero(own, FRY_HOST_BYTES) &&
            memcmp(link->endpoint.host, own, FRY_HOST_BYTES) == 0);
}

void fry_link_describe(const fry_link_peer *link, char *text, size_t text_bytes)
{
    static const char *const names[] = {[FRY_PATH_SELF] = "itself",
                                        [FRY_PATH_SHARED] = "shared memory",
                                        [FRY_PATH_NET] = "network"};
    char how[128] = "";

    if (link->live == NULL) {
        (void)snprintf(text, text_bytes, "no lane");
        return;
    }
    link->links->opener->describe(link->links->opener->arg, link->live, how, sizeof(how));
    (void)snprintf(text, text_bytes, "%s%s%s", names[link->path], how[0] != 0 ? ": " : "", how);
}

/* ---- all of them ---- */

static void describe_own(fry_links *links, const fry_links_options *options)
{
    fry_hello_offer *own = &links->own;

    own->pid = getpid();
    own->started = fry_process_started(own->pid);
    fry_host_identify(own->host);
    own->window_messages = options->window_messages;
    own->unexpected_max = options->unexpected_max;
    own->window_bytes = options->window_bytes;
    own->paths = FRY_HELLO_PATH(FRY_PATH_NET);
    if (options->is_net_only)
        return;
    if (sodium_is_zero(own->host, FRY_HOST_BYTES) || !fry_process_can_watch())
        fry_log_line(links->reactor->log, FERRY_LOG_WARNING,
                     "members of this host are reached over the network: this host, or when "
                     "processes of it end, can't be told");
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
    links->reactor = options->reactor;
    links->events = events;
    links->opener = options->opener;
    links->port.fd = -1;
    links->settle_timer = (fry_timer){.fn = settle_strangers, .arg = links};
    (void)snprintf(links->job, sizeof(links->job), "%s", options->job);
    status = fry_link_find_network(options->network, &links->place, &why);
    if (status == FERRY_OK) {
        why = "no randomness";
        status = fry_hello_key(links->psk, options->secret, options->secret_bytes);
    }
    if (status != FERRY_OK) {
        *error_p =
            fry_error_create(memory, &(fry_error_facts){.status = status}, "hellos on \"%s\": %s",
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
    while (links->peers != NULL)
        fry_link_remove(links->peers);
    while (links->strangers != NULL)
        fry_line_end(links->strangers, FRY_HELLO_LEFT);
    fry_link_port_close(links);
    fry_timer_stop(links->reactor, &links->settle_timer);
    sodium_memzero(links->psk, sizeof(links->psk));
    fry_free(memory, links, sizeof(*links));
}
