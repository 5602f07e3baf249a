/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Garbage on the hello port, a million bytes and more, in many connections and in few, also many
 * that say nothing: each is refused, with a line in the log, and the group does not notice.
 */
#include "tests/support/net_hosts.h"
#include "tests/support/net_self.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define GARBAGE_BYTES 1000000
#define COUNT 100
#define SIZE_BYTES 4096
#define SILENT 50
#define SECRET "secret=0123456789abcdef"

static int member(int argc, char **argv)
{
    net_self self;
    net_self_join(&self, argc, argv);
    for (ferry_tag tag = 10; strcmp(net_await("do"), "exchange") == 0; tag += 10) {
        net_self_exchange(&self, tag, COUNT, SIZE_BYTES);
        net_say("exchanged warnings=%zu", net_self_warnings(&self));
    }
    net_self_end(&self);
    return 0;
}

static int call(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)inet_pton(AF_INET, "10.77.0.1", &address.sin_addr);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        net_fail("cannot reach the hello port: %s", strerror(errno));
    return fd;
}

static uint64_t next_random(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t word = *state;
    word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
    return word ^ word >> 31;
}

/* Sends until so many bytes have gone or the other end has had enough. Returns how many went. */
static size_t send_garbage(int fd, size_t bytes, uint64_t *state)
{
    size_t sent = 0;
    while (sent < bytes) {
        uint64_t words[128];
        for (size_t i = 0; i < 128; i++)
            words[i] = next_random(state);
        size_t size = bytes - sent < sizeof(words) ? bytes - sent : sizeof(words);
        ssize_t went = send(fd, words, size, MSG_NOSIGNAL);
        if (went <= 0)
            break;
        sent += (size_t)went;
    }
    return sent;
}

/* The other end closes by itself, whatever it says before. */
static void await_close(int fd)
{
    char bytes[4096];
    (void)shutdown(fd, SHUT_WR);
    while (recv(fd, bytes, sizeof(bytes), 0) > 0)
        continue;
    (void)close(fd);
}

static void garbage(void)
{
    net_member *members[2];
    uint16_t ports[4];
    uint64_t state = 1;
    net_hosts_open(2, NET_CABLE_VETH);
    net_pair_start(members, true, "member", SECRET, NULL);
    /* Nothing else listens before the first connection is made. */
    unsigned listeners = net_host_listeners(0, ports, 4);
    NET_CHECK(listeners == 1, "%u ports listen, not the hello's alone", listeners);

    int silent[SILENT];
    for (int i = 0; i < SILENT; i++)
        silent[i] = call(ports[0]);
    size_t sent = 0;
    size_t calls = 0;
    for (size_t size = 1; sent < GARBAGE_BYTES; size = size < 65536 ? size * 2 : 1) {
        int fd = call(ports[0]);
        sent += send_garbage(fd, size, &state);
        await_close(fd);
        calls++;
    }
    printf("%zu bytes in %zu calls\n", sent, calls);
    net_pair_tell(members, "do exchange");
    int64_t warnings = net_number(net_hear(members[0], "exchanged"), "warnings");
    (void)net_hear(members[1], "exchanged");
    NET_CHECK(warnings > 0, "nothing was logged of %zu calls", calls);
    for (int i = 0; i < SILENT; i++)
        (void)close(silent[i]);
    net_pair_tell(members, "do exchange");
    net_pair_hear(members, "exchanged");
    net_pair_tell(members, "do end");
    net_pair_end(members);
}

int main(int argc, char **argv)
{
    static const net_role roles[] = {{"member", member}};
    static const net_case cases[] = {{"garbage", garbage, 90}};
    return net_test_main(argc, argv, roles, 1, cases, 1);
}
