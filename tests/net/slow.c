/* SPDX-License-Identifier: Apache-2.0 */
/* Cables that lose packets, are narrow, or long: all messages come, whole and in order. */
#include "tests/support/net_hosts.h"
#include "tests/support/net_self.h"

#include <stdio.h>

#define SECOND_NS INT64_C(1000000000)
#define SMALL 300
#define LARGE 8

static const struct {
    size_t count, size_bytes;
} sorts[] = {{SMALL, 512}, {LARGE, (size_t)256 << 10}};

static int member(int argc, char **argv)
{
    net_self self;
    net_traffic ways[4];
    net_self_join(&self, argc, argv);
    int64_t begin_ns = net_now_ns();
    for (uint32_t i = 0; i < 4; i++) {
        ways[i] = (net_traffic){.self = &self,
                                .peer = self.rank == 0,
                                .tag = i,
                                .is_send = i % 2 == self.rank,
                                .count = sorts[i / 2].count,
                                .size_bytes = sorts[i / 2].size_bytes,
                                .seed = i};
        net_traffic_open(&ways[i]);
        net_traffic_submit(&ways[i], 0, ways[i].count);
    }
    for (size_t i = 0; i < 4; i++) {
        net_traffic_await(&ways[i], 0, ways[i].count);
        net_traffic_check(&ways[i]);
        net_traffic_close(&ways[i]);
    }
    net_say("done took_ns=%lld", (long long)(net_now_ns() - begin_ns));
    (void)net_await("end");
    net_self_end(&self);
    return 0;
}

/* How long the slower end took. */
static int64_t run(void)
{
    net_member *members[2];
    int64_t took_ns = 0;
    net_pair_start(members, true, "member", "lease_ms=10000", NULL);
    for (int i = 0; i < 2; i++) {
        int64_t one_ns = net_number(net_hear(members[i], "done"), "took_ns");
        took_ns = one_ns > took_ns ? one_ns : took_ns;
    }
    net_pair_tell(members, "end");
    net_pair_end(members);
    printf("took %.3f s\n", (double)took_ns / 1e9);
    return took_ns;
}

/* Three of a hundred packets, at either end. */
static void lossy(void)
{
    net_hosts_open(2, NET_CABLE_VETH);
    for (unsigned i = 0; i < 2; i++)
        net_host_need(i, "nft add table inet t;"
                         "nft 'add chain inet t c { type filter hook input priority 0; }';"
                         "nft add rule inet t c iif eth0 numgen random mod 100 '<' 3 drop");
    (void)run();
}

/* 2 MiB each way and their acknowledgements, at 20 Mbit/s. */
static void narrow(void)
{
    net_hosts_open(2, NET_CABLE_VETH);
    for (unsigned i = 0; i < 2; i++)
        net_host_need(i, "tc qdisc add dev eth0 root tbf rate 20mbit burst 32kbit latency 50ms");
    int64_t took_ns = run();
    NET_CHECK(took_ns > SECOND_NS / 2, "the cable was not narrow");
}

static void distant(void)
{
    net_hosts_open(2, NET_CABLE_RELAY);
    net_relay_delay(20000000);
    int64_t took_ns = run();
    NET_CHECK(took_ns > 40000000, "the cable was not long");
}

int main(int argc, char **argv)
{
    static const net_role roles[] = {{"member", member}};
    static const net_case cases[] = {
        {"lossy", lossy, 90}, {"narrow", narrow, 60}, {"distant", distant, 60}};
    return net_test_main(argc, argv, roles, 1, cases, 3);
}
