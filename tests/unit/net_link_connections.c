/* SPDX-License-Identifier: Apache-2.0 */
/* Links whose connections are real ones, over UCX, in one process: bytes cross on each path. */
#include "net/connect/link_state.h"
#include "net/peer/connection.h"
#include "tests/support/driven_reactor.h"
#include "tests/support/patience.h"
#include "tests/support/place.h"

#include <criterion/criterion.h>
#include <ifaddrs.h>
#include <linux/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROUNDS_MAX 10000000

typedef struct member {
    fry_reactor reactor;
    fry_memory memory;
    fry_log log;
    fry_clock clock;
    fry_links *links;
    fry_link_peer *link;
    fry_peer *peer;
    fry_peer_options options;
    fry_peer_connection *connection;
    fry_channel *channel;
    char endpoint[FRY_ENDPOINT_BYTES];
    int failed, ended, connection_failed, resolved_well, resolved_badly, quiet;
    fry_fault fault;
} member;

static void resolved(void *turn, fry_message *message, ferry_status status, const fry_fault *fault)
{
    (void)turn;
    member *self = message->owner;

    (void)fault;
    if (status == FERRY_OK)
        self->resolved_well++;
    else
        self->resolved_badly++;
}

static void quiet(void *turn, fry_message *message)
{
    (void)turn;
    member *self = message->owner;

    self->quiet++;
}

static void wants_connection(void *turn, fry_peer *peer)
{
    (void)turn;
    member *self = fry_peer_arg(peer);

    fry_link_want(self->link, 0);
}

/* Over the channel, behind all else: before the link tells of it. */
static void connection_failed(void *turn, fry_peer *peer, const fry_fault *fault)
{
    (void)turn;
    member *self = fry_peer_arg(peer);

    self->connection_failed++;
    self->fault = *fault;
}

static const fry_peer_events peer_events = {.resolved = resolved,
                                            .quiet = quiet,
                                            .wants_connection = wants_connection,
                                            .connection_failed = connection_failed};

static void connected(fry_link_peer *link)
{
    member *self = fry_link_arg(link);

    self->connection = link->connection;
    self->channel = link->channel;
    fry_peer_attach(self->peer, link->connection, link->channel, NULL);
}

static void failed(fry_link_peer *link, const fry_fault *fault)
{
    member *self = fry_link_arg(link);

    if (self->connection != NULL)
        self->ended++;
    else
        self->failed++;
    self->fault = *fault;
}

static void died(fry_link_peer *link)
{
    (void)link;
    cr_assert_fail("nobody did");
}

static const fry_peer_options *peer_options(fry_link_peer *link)
{
    const member *self = fry_link_arg(link);

    return &self->options;
}

static const fry_link_events link_events = {
    .connected = connected, .failed = failed, .died = died, .peer_options = peer_options};

static void open_member(member *self, uint32_t rank, const char *network, bool is_net_only)
{
    fry_error *error = NULL;

    memset(self, 0, sizeof(*self));
    fry_memory_init(&self->memory, NULL);
    fry_log_init(&self->log, NULL, NULL);
    fry_clock_init(&self->clock, NULL);
    cr_assert_eq(driven_reactor_open(&self->reactor, &self->memory, &self->log, &self->clock),
                 FERRY_OK);
    const fry_links_options options = {
        .reactor = &self->reactor,
        .network = network,
        .job = "job",
        .secret = "what all members know",
        .secret_bytes = 21,
        .lease_ns = INT64_C(5000000000) * PATIENCE,
        .window_messages = 64,
        .unexpected_max = 256,
        .window_bytes = 65536,
        .registration_cache_bytes = 1 << 20,
    };
    cr_assert_eq(fry_links_open(&options, &link_events, &self->links, self->endpoint, &error),
                 FERRY_OK);
    if (is_net_only)
        self->links->own.paths = FRY_HELLO_PATH(FRY_PATH_NET);
    fry_links_set_own(self->links, rank, 1);
    self->options = (fry_peer_options){.memory = &self->memory,
                                       .log = &self->log,
                                       .own_rank = (int32_t)rank,
                                       .window_messages = 64,
                                       .unexpected_max = 256,
                                       .window_bytes = 65536,
                                       .events = &peer_events,
                                       .arg = self};
}

static void meet(member *self, const member *other, uint32_t rank)
{
    self->options.rank = (int32_t)rank;
    self->peer = fry_peer_open(&self->options);
    cr_assert_not_null(self->peer);
    self->link = fry_link_add(self->links, rank, 1, other->endpoint, self);
    cr_assert_not_null(self->link);
}

static void end_connection(member *self)
{
    const fry_fault fault = {.status = FERRY_E_DEAD, .rank = self->options.rank};
    fry_channel *channel = NULL;
    fry_peer_connection *connection =
        fry_peer_detach(self->peer, FERRY_E_DEAD, &fault, &channel, NULL);

    cr_assert_eq(connection, self->connection);
    cr_assert_eq(channel, self->channel);
    fry_link_set_state(self->link, FRY_LINK_DETACHED);
    fry_link_destroy(self->link);
    fry_peer_destroyed(self->peer, connection, NULL);
    fry_link_set_state(self->link, FRY_LINK_TOLD);
    fry_link_over(self->link);
    self->connection = NULL;
}

static void close_member(member *self)
{
    if (self->connection != NULL)
        end_connection(self);
    fry_links_close(self->links);
    fry_peer_close(self->peer);
    driven_reactor_close(&self->reactor);
}

static void turn(member *self)
{
    (void)driven_reactor_run(&self->reactor, 0);
    (void)fry_peer_progress(self->peer, NULL);
}

#define UNTIL(condition, one, two)                                                                 \
    do {                                                                                           \
        int left = ROUNDS_MAX;                                                                     \
        while (!(condition)) {                                                                     \
            turn(one);                                                                             \
            turn(two);                                                                             \
            cr_assert(left-- > 0, "never: %s", #condition);                                        \
            cr_assert_eq((one)->failed + (two)->failed, 0, "%s%s", (one)->fault.message,           \
                         (two)->fault.message);                                                    \
        }                                                                                          \
    } while (0)

static void submit(fry_message *message, member *self, bool is_send, void *memory, size_t size)
{
    *message = (fry_message){
        .owner = self, .memory = memory, .size_bytes = size, .tag = 9, .is_send = is_send};
    cr_assert(fry_peer_enter(self->peer, message, NULL));
    fry_peer_ready(message, NULL);
}

/* The connection comes because a message wants it. */
static void exchange(member *one, member *two, size_t size, fry_channel_path path)
{
    fry_message messages[2];
    unsigned char *from = malloc(size), *to = calloc(1, size);

    cr_assert(from != NULL && to != NULL);
    memset(from, 0x5a, size);
    const int before = one->quiet + (two != one ? two->quiet : 0);
    submit(&messages[0], one, true, from, size);
    submit(&messages[1], two, false, to, size);
    UNTIL(one->quiet + (two != one ? two->quiet : 0) == before + 2, one, two);
    cr_assert_eq(one->resolved_badly + two->resolved_badly, 0);
    cr_assert_arr_eq(from, to, size);
    cr_assert_eq(one->channel->path, path);
    free(from);
    free(to);
}

static void between_two(const char *network, bool is_net_only, fry_channel_path path)
{
    static member one, two;

    open_member(&one, 0, network, is_net_only);
    open_member(&two, 1, network, false);
    meet(&one, &two, 1);
    meet(&two, &one, 0);
    for (int i = 0; i < 3; i++) {
        exchange(&one, &two, 8, path);
        exchange(&two, &one, 1 << 20, path);
        end_connection(&one);
        UNTIL(two.connection_failed == i + 1, &one, &two);
        cr_assert_eq(two.fault.status, FERRY_E_DEAD, "%s", two.fault.message);
        cr_assert_eq(two.ended, 0);
        end_connection(&two);
    }
    close_member(&one);
    close_member(&two);
}

Test(net_link_connections, shared_memory)
{
    PLACE_NEEDS(place_lacks_this_host);
    between_two(NULL, false, FRY_PATH_SHARED);
}

Test(net_link_connections, network)
{
    PLACE_NEEDS(place_lacks_this_host);
    PLACE_NEEDS(place_lacks_ucx_tcp);
    between_two(NULL, true, FRY_PATH_NET);
}

/* By its name, where there is one that is not loopback. */
Test(net_link_connections, an_interface)
{
    PLACE_NEEDS(place_lacks_this_host);
    PLACE_NEEDS(place_lacks_ucx_tcp);
    struct ifaddrs *all = NULL;
    char name[IFNAMSIZ] = "";

    cr_assert_eq(getifaddrs(&all), 0);
    for (const struct ifaddrs *one = all; one != NULL; one = one->ifa_next) {
        if ((one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_RUNNING) != 0 &&
            (one->ifa_flags & IFF_LOOPBACK) == 0 && one->ifa_addr != NULL &&
            one->ifa_addr->sa_family == AF_INET)
            (void)snprintf(name, sizeof(name), "%s", one->ifa_name);
    }
    freeifaddrs(all);
    if (name[0] == 0)
        cr_skip_test("no interface but loopback");
    between_two(name, true, FRY_PATH_NET);
    between_two(name, false, FRY_PATH_SHARED);
}

static void with_itself(void)
{
    static member one;

    open_member(&one, 0, NULL, false);
    meet(&one, &one, 0);
    exchange(&one, &one, 8, FRY_PATH_SELF);
    exchange(&one, &one, 1 << 20, FRY_PATH_SELF);
    close_member(&one);
}

Test(net_link_connections, itself)
{
    PLACE_NEEDS(place_lacks_ucx);
    with_itself();
}

/* Where /dev/shm is no more, a connection to oneself is made of other memory. */
Test(net_link_connections, itself_without_posix_memory)
{
    PLACE_NEEDS(place_lacks_ucx);
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", "/dev", "tmpfs", 0, NULL) != 0)
        cr_skip_test("mounts of one's own are not allowed here");
    cr_assert_neq(access("/dev/shm", F_OK), 0);
    with_itself();
}
