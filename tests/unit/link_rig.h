/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members with links and without anything else: fake connections and channels that know who is at
 * their other end, what was told of each link, and every line of the log. On a stepped clock; one
 * thread runs all of them until what a test waits for is so.
 */
#ifndef FERRY_TESTS_LINK_RIG_H
#define FERRY_TESTS_LINK_RIG_H

#include "net/connect/link_endpoint.h"
#include "net/connect/link_state.h"
#include "tests/support/driven_reactor.h"
#include "tests/support/stepped_clock.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RIG_LOG_BYTES 65536
#define RIG_MEMBERS 256
#define RIG_HOPS 4 /* packets that may follow on one another, before a program has its turn */

typedef struct rig_member rig_member;

/* A fake channel. */
typedef struct rig_channel {
    fry_channel channel;
    rig_member *member;
    uint64_t id, other; /* other: 0 until connected */
    fry_connection_session session;
} rig_channel;

struct rig_member {
    fry_reactor reactor;
    fry_reactor *runs_on; /* it, or another's */
    fry_memory memory;
    fry_log log;
    fry_clock clock;
    fry_links *links;
    fry_connection_opener opener;
    fry_peer_options peer;
    char endpoint[FRY_ENDPOINT_BYTES];
    uint32_t rank;
    uint64_t incarnation;
    /* Its one link, and what was told of it. */
    fry_link_peer *link;
    rig_channel *channel; /* the connection's; NULL: none */
    int connected, failed, died, ended;
    fry_fault fault; /* the last */
    int open_channels, open_connections, opened;
    int fails_to_open, fails_to_connect; /* so many times */
    char lines[RIG_LOG_BYTES];           /* of the log */
    size_t lines_length;
};

typedef struct rig_options {
    const char *job, *secret, *network;
    bool is_net_only;
    rig_member *with;                 /* on its reactor; NULL: on one of its own */
    const ferry_allocator *allocator; /* NULL: the C library's */
} rig_options;

static const rig_options rig_usual = {.job = "job", .secret = "a secret that all know"};
static stepped_clock rig_time;
static rig_member *rig_members[RIG_MEMBERS];
static uint64_t rig_channel_count;

/* ---- fake connections ---- */

static void rig_destroy(fry_channel *channel)
{
    rig_channel *self = (rig_channel *)(void *)channel;

    self->member->open_channels--;
    free(self);
}

static const fry_channel_ops rig_channel_ops = {.destroy = rig_destroy};

static ferry_status rig_open_connection(void *arg, fry_channel_path path,
                                        const fry_peer_options *options,
                                        const fry_connection_session *session,
                                        fry_peer_connection **connection_p, fry_channel **channel_p,
                                        void *address, size_t *address_bytes, fry_fault *fault)
{
    rig_member *member = arg;

    cr_assert_not_null(options);
    if (member->fails_to_open > 0) {
        member->fails_to_open--;
        *fault = (fry_fault){.domain = "rig", .native_code = 7, .message = "it does not open"};
        return FERRY_E_PEER;
    }
    rig_channel *channel = calloc(1, sizeof(*channel));
    cr_assert_not_null(channel);
    channel->channel = (fry_channel){.ops = &rig_channel_ops, .path = path, .event_fd = -1};
    channel->member = member;
    channel->id = ++rig_channel_count;
    channel->session = *session;
    *connection_p = malloc(1);
    *channel_p = &channel->channel;
    cr_assert_geq(*address_bytes, sizeof(channel->id));
    memcpy(address, &channel->id, sizeof(channel->id));
    *address_bytes = sizeof(channel->id);
    member->open_channels++;
    member->open_connections++;
    member->opened++;
    return FERRY_OK;
}

static ferry_status rig_connect_connection(void *arg, fry_channel *channel, const void *address,
                                           size_t address_bytes, fry_fault *fault)
{
    rig_member *member = arg;
    rig_channel *self = (rig_channel *)(void *)channel;

    if (member->fails_to_connect > 0) {
        member->fails_to_connect--;
        *fault = (fry_fault){.domain = "rig", .message = "it does not connect"};
        return FERRY_E_PEER;
    }
    cr_assert_eq(address_bytes, sizeof(self->other));
    memcpy(&self->other, address, sizeof(self->other));
    return FERRY_OK;
}

static void rig_close_connection(void *arg, fry_peer_connection *connection)
{
    rig_member *member = arg;

    member->open_connections--;
    free(connection);
}

/* ---- what is told ---- */

static void rig_connected(fry_link_peer *link)
{
    rig_member *member = fry_link_arg(link);

    cr_assert_null(member->channel);
    member->channel = (rig_channel *)(void *)link->channel;
    cr_assert_neq(member->channel->other, 0);
    member->connected++;
}

static void rig_failed(fry_link_peer *link, const fry_fault *fault)
{
    rig_member *member = fry_link_arg(link);

    member->fault = *fault;
    if (member->channel != NULL)
        member->ended++;
    else
        member->failed++;
}

static void rig_died(fry_link_peer *link)
{
    rig_member *member = fry_link_arg(link);

    member->died++;
}

static const fry_peer_options *rig_peer_options(fry_link_peer *link)
{
    rig_member *member = fry_link_arg(link);

    return &member->peer;
}

static const fry_link_events rig_events = {
    .connected = rig_connected,
    .failed = rig_failed,
    .died = rig_died,
    .peer_options = rig_peer_options,
};

static void rig_log(void *arg, ferry_log_level level, const char *line)
{
    rig_member *member = arg;
    const size_t length = strlen(line);

    (void)level;
    cr_assert_lt(member->lines_length + length + 2, sizeof(member->lines), "too much is logged");
    memcpy(member->lines + member->lines_length, line, length);
    member->lines_length += length;
    member->lines[member->lines_length++] = '\n';
}

/* How often a text is in what was logged. */
static inline int rig_logged(const rig_member *member, const char *text)
{
    int count = 0;

    for (const char *at = member->lines; (at = strstr(at, text)) != NULL; at++)
        count++;
    return count;
}

/* ---- members ---- */

static inline void rig_init(rig_member *member, const rig_options *options)
{
    static bool has_time;
    const ferry_clock clock = stepped_clock_interface(&rig_time);
    fry_error *error = NULL;

    if (!has_time)
        stepped_clock_init(&rig_time, 1000);
    has_time = true;
    memset(member, 0, sizeof(*member));
    fry_memory_init(&member->memory, options->allocator);
    fry_log_init(&member->log, rig_log, member);
    fry_clock_init(&member->clock, &clock);
    member->runs_on = options->with != NULL ? options->with->runs_on : &member->reactor;
    if (options->with == NULL)
        cr_assert_eq(
            driven_reactor_open(&member->reactor, &member->memory, &member->log, &member->clock),
            FERRY_OK);
    member->opener = (fry_connection_opener){.arg = member,
                                             .open = rig_open_connection,
                                             .connect = rig_connect_connection,
                                             .close_connection = rig_close_connection};
    const fry_links_options all = {
        .reactor = member->runs_on,
        .opener = &member->opener,
        .network = options->network,
        .job = options->job,
        .secret = options->secret,
        .secret_bytes = options->secret != NULL ? strlen(options->secret) : 0,
        .window_messages = 16,
        .unexpected_max = 32,
        .window_bytes = 4096,
    };
    cr_assert_eq(fry_links_open(&all, &rig_events, &member->links, member->endpoint, &error),
                 FERRY_OK);
    if (options->is_net_only)
        member->links->own.paths = FRY_HELLO_PATH(FRY_PATH_NET);
    for (size_t i = 0; i < RIG_MEMBERS; i++) {
        if (rig_members[i] == NULL) {
            rig_members[i] = member;
            return;
        }
    }
    cr_assert_fail("too many members");
}

/* A member of rank and incarnation with a port of its own; it knows nobody. */
static inline void rig_open(rig_member *member, uint32_t rank, uint64_t incarnation,
                            const rig_options *options)
{
    rig_init(member, options);
    member->rank = rank;
    member->incarnation = incarnation;
    fry_links_set_own(member->links, rank, incarnation);
}

/* Its one link, to another as that says of itself. */
static inline void rig_meet(rig_member *member, const rig_member *other)
{
    member->link =
        fry_link_add(member->links, other->rank, other->incarnation, other->endpoint, member);
    cr_assert_not_null(member->link);
}

/* Ends the connection as an engine does. */
static inline void rig_end_connection(rig_member *member)
{
    member->channel = NULL;
    fry_link_set_state(member->link, FRY_LINK_DETACHED);
    fry_link_destroy(member->link);
    fry_link_set_state(member->link, FRY_LINK_TOLD);
    fry_link_over(member->link);
}

static inline void rig_close(rig_member *member)
{
    if (member->channel != NULL)
        rig_end_connection(member);
    fry_links_close(member->links);
    if (member->runs_on == &member->reactor)
        driven_reactor_close(&member->reactor);
    cr_assert_eq(member->open_channels, 0);
    cr_assert_eq(member->open_connections, 0);
    for (size_t i = 0; i < RIG_MEMBERS; i++) {
        if (rig_members[i] == member)
            rig_members[i] = NULL;
    }
}

/* The end of each test: closes who is open yet, the last first. */
static inline void rig_close_all(void)
{
    for (size_t i = RIG_MEMBERS; i > 0; i--) {
        if (rig_members[i - 1] != NULL)
            rig_close(rig_members[i - 1]);
    }
}

/* Returns when what this process has sent to itself is there. A packet to the loopback waits in a
 * queue of its processor, at most that long as the kernel's thread for it has to wait for its turn;
 * where a machine is busy that is long, and a rig that only counts its turns would take what is on
 * its way for nothing. So the process stays on one processor, whose queue is in order, and sends
 * itself packets: when one is there, so are those before it. */
static inline void rig_flush(void)
{
    static int fd;
    static pid_t owner; /* not the one that forked this */

    if (owner != getpid()) {
        struct sockaddr_in self = {.sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        const struct timeval patience = {.tv_sec = 1};
        socklen_t size = sizeof(self);
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET((size_t)sched_getcpu(), &one);
        cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
        fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        cr_assert_eq(bind(fd, (const struct sockaddr *)&self, size), 0);
        cr_assert_eq(getsockname(fd, (struct sockaddr *)&self, &size), 0);
        cr_assert_eq(connect(fd, (const struct sockaddr *)&self, size), 0);
        cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
        owner = getpid();
    }
    for (int hops = 0; hops < RIG_HOPS;) {
        char byte = 0;
        cr_assert_eq(send(fd, &byte, 1, 0), 1);
        hops += recv(fd, &byte, 1, 0) == 1; /* else it was lost */
    }
}

/* Lets each that is open run once; returns how much ran. If nothing did, then in the next turn
 * there is all that was sent to one of them. */
static inline size_t rig_turn(void)
{
    size_t count = 0;

    for (size_t i = 0; i < RIG_MEMBERS; i++) {
        if (rig_members[i] != NULL && rig_members[i]->runs_on == &rig_members[i]->reactor)
            count += driven_reactor_run(&rig_members[i]->reactor, 0);
    }
    if (count == 0)
        rig_flush();
    return count;
}

/* When nothing is to be expected: until nothing happens, and nothing is on its way. */
static inline void rig_rest(void)
{
    for (int quiet = 0; quiet < 3; quiet++) {
        if (rig_turn() > 0)
            quiet = 0;
    }
}

static inline void rig_step_ns(int64_t ns)
{
    stepped_clock_step(&rig_time, ns);
}

static inline int64_t rig_now_ns(void)
{
    return rig_time.now_ns;
}

/* Lets them run until the condition holds. Where that never comes the test's time-out ends it. */
#define RIG_UNTIL(condition)                                                                       \
    do {                                                                                           \
        while (!(condition))                                                                       \
            (void)rig_turn();                                                                      \
    } while (0)

/* The same; whenever they rest so much time goes by, at most so often. */
#define RIG_STEP_UNTIL(condition, ns, times)                                                       \
    do {                                                                                           \
        for (int time_ = 0; !(condition); time_++) {                                               \
            rig_rest();                                                                            \
            rig_step_ns(ns);                                                                       \
            cr_assert_lt(time_, times, "not for so long: %s", #condition);                         \
        }                                                                                          \
    } while (0)

/* Two members in most tests, who know each other. */
static rig_member low, high;

static inline void rig_open_two(const rig_options *low_options, const rig_options *high_options)
{
    rig_open(&low, 2, 10, low_options);
    rig_open(&high, 5, 20, high_options);
    rig_meet(&low, &high);
    rig_meet(&high, &low);
}

static inline void rig_open_both(void)
{
    rig_open_two(&rig_usual, &rig_usual);
}

/* A socket to a member's port, that does not block. */
static inline int rig_dial(const rig_member *member)
{
    fry_link_endpoint endpoint;

    cr_assert(fry_link_read_endpoint(member->endpoint, &endpoint));
    const int fd = socket(endpoint.place.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_geq(fd, 0);
    cr_assert_eq(connect(fd, &endpoint.place.any, fry_link_place_size(&endpoint.place)), 0);
    return fd;
}

/* Descriptors that this process has open. */
static inline size_t rig_count_descriptors(void)
{
    rig_flush(); /* has one */
    DIR *folder = opendir("/proc/self/fd");
    size_t count = 0;

    cr_assert_not_null(folder);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

#endif
