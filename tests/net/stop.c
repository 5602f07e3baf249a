/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer is stopped. For less than the lease: nobody fails, all of it comes late. For longer: it is
 * dead to the others within the lease and a second; when it goes on it finds itself shut out, and
 * nothing of it hangs.
 */
#include "tests/support/net_hosts.h"
#include "tests/support/net_self.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>

#define SECOND_NS INT64_C(1000000000)
#define COUNT 200

static void open_ways(net_self *self, net_traffic ways[2], uint32_t peer)
{
    for (uint32_t i = 0; i < 2; i++) {
        ways[i] = (net_traffic){.self = self,
                                .peer = peer,
                                .tag = 1 + i,
                                .is_send = (i == 0) == (self->rank < peer),
                                .count = COUNT,
                                .size_bytes = i == 0 ? 128 : 65536,
                                .seed = 5 + i};
        net_traffic_open(&ways[i]);
    }
}

/* Rank 0 is never stopped. Half is exchanged before, half is under way meanwhile. */
static int member(int argc, char **argv)
{
    net_self self;
    net_traffic ways[2];
    net_tally tally = {0};
    net_self_join(&self, argc, argv);
    open_ways(&self, ways, self.rank == 0);
    for (size_t i = 0; i < 2; i++)
        net_traffic_submit(&ways[i], 0, COUNT / 2);
    for (size_t i = 0; i < 2; i++)
        net_traffic_await(&ways[i], 0, COUNT / 2);
    net_say("half");
    (void)net_await("go");
    for (size_t i = 0; i < 2; i++)
        net_traffic_submit(&ways[i], COUNT / 2, COUNT);
    net_say("under way");
    for (size_t i = 0; i < 2; i++)
        net_traffic_tally(&ways[i], &tally);
    net_say("tally %s", net_tally_text(&tally));
    for (size_t i = 0; i < 2; i++) {
        net_traffic_quiet(&ways[i]);
        net_traffic_check(&ways[i]);
        net_traffic_close(&ways[i]);
    }
    net_say("quiet");
    (void)net_await("end");
    net_self_end(&self);
    return 0;
}

/* Returns when one was stopped. */
static net_stopwatch begin(net_member *members[2], const char *lease, bool has_hosts)
{
    net_pair_start(members, has_hosts, "member", lease, NULL);
    net_pair_hear(members, "half");
    net_stopwatch watch = net_stopwatch_start();
    net_signal(members[1], SIGSTOP);
    net_tell(members[0], "go");
    (void)net_hear(members[0], "under way");
    return watch;
}

static void finish(net_member *members[2])
{
    net_pair_hear(members, "quiet");
    net_pair_tell(members, "end");
    net_pair_end(members);
}

static void short_stop(bool has_hosts)
{
    net_member *members[2];
    (void)begin(members, "lease_ms=8000", has_hosts);
    net_rest(3 * SECOND_NS);
    net_signal(members[1], SIGCONT);
    net_tell(members[1], "go");
    (void)net_hear(members[1], "under way");
    for (int i = 0; i < 2; i++) {
        const char *tally = net_hear(members[i], "tally");
        NET_CHECK(net_number(tally, "good") == 2 * COUNT, "member %d: %s", i, tally);
    }
    finish(members);
}

static void long_stop(bool has_hosts)
{
    net_member *members[2];
    net_stopwatch watch = begin(members, "lease_ms=2000", has_hosts);
    const char *tally = net_hear(members[0], "tally");
    net_stopwatch_check(&watch, net_number(tally, "at"), 3 * SECOND_NS, "being dead");
    NET_CHECK(net_number(tally, "good") == COUNT, "%s", tally);
    NET_CHECK(net_number(tally, "unnamed") == 0, "errors without the peer's rank: %s", tally);
    net_signal(members[1], SIGCONT);
    net_tell(members[1], "go");
    (void)net_hear(members[1], "under way");
    tally = net_hear(members[1], "tally");
    /* What had come before it was dead it may still receive; nobody answers what it sends. */
    NET_CHECK(net_number(tally, "failed") >= COUNT / 2, "it was dead, and yet: %s", tally);
    finish(members);
}

static void short_same_host(void)
{
    short_stop(false);
}

static void short_other_hosts(void)
{
    net_hosts_open(2, NET_CABLE_VETH);
    short_stop(true);
}

static void long_same_host(void)
{
    long_stop(false);
}

static void long_other_hosts(void)
{
    net_hosts_open(2, NET_CABLE_VETH);
    long_stop(true);
}

int main(int argc, char **argv)
{
    static const net_role roles[] = {{"member", member}};
    static const net_case cases[] = {{"short_same_host", short_same_host, 60},
                                     {"short_other_hosts", short_other_hosts, 60},
                                     {"long_same_host", long_same_host, 60},
                                     {"long_other_hosts", long_other_hosts, 60}};
    return net_test_main(argc, argv, roles, 1, cases, 4);
}
