/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A receive is cancelled while its bytes are being pulled, at another moment each time. Once it is
 * quiet nothing is written, whatever is under way on the connection, and the connection serves
 * others.
 */
#include "tests/support/net_hosts.h"
#include "tests/support/net_self.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_BYTES ((size_t)8 << 20)
#define ROUNDS 12
#define ROUNDS_MAX 240 /* as long as no cancel came in time */
#define FILL 0x3c

static net_traffic one(net_self *self, ferry_tag tag, bool is_send, size_t size_bytes)
{
    return (net_traffic){.self = self,
                         .peer = self->rank == 0,
                         .tag = tag,
                         .is_send = is_send,
                         .count = 1,
                         .size_bytes = size_bytes,
                         .seed = (uint32_t)tag};
}

static void round_of_sender(net_self *self, ferry_tag tag, net_tally *tally)
{
    net_traffic large = one(self, tag, true, SIZE_BYTES);
    net_traffic_open(&large);
    net_traffic_submit(&large, 0, 1);
    net_traffic_tally(&large, tally);
    net_traffic_quiet(&large);
    net_self_exchange(self, tag + 1, 1, 64); /* what was under way before has come by */
    net_traffic_close(&large);
}

/*
 * Cancels when a share of the bytes is there, the later the higher the round. Memory is looked at
 * while it may be written, byte by byte: of any use only to choose a moment.
 */
static void round_of_receiver(net_self *self, ferry_tag tag, size_t number, net_tally *tally)
{
    net_traffic large = one(self, tag, false, SIZE_BYTES);
    net_traffic_open(&large);
    unsigned char *bytes = ferry_buffer_data(large.buffer);
    memset(bytes, FILL, SIZE_BYTES);
    net_traffic_submit(&large, 0, 1);
    const volatile unsigned char *mark = bytes + number * (SIZE_BYTES / ROUNDS);
    while (number > 0 && ferry_future_poll(large.futures[0]) == FERRY_PENDING && mark[0] == FILL &&
           mark[1] == FILL && mark[2] == FILL && mark[3] == FILL)
        (void)sched_yield();
    (void)ferry_future_cancel(large.futures[0]);
    net_traffic_tally(&large, tally);
    net_traffic_quiet(&large);
    /* From now on the memory is this program's. */
    memset(bytes, FILL, SIZE_BYTES);
    net_self_exchange(self, tag + 1, 1, 64); /* what was under way before has come by */
    bool is_good = ferry_future_poll(large.futures[0]) == FERRY_OK;
    for (size_t i = 0; i < SIZE_BYTES; i++)
        NET_SELF_CHECK(bytes[i] == FILL, "byte %zu written after quiet (%s)", i,
                       is_good ? "received" : "cancelled");
    net_traffic_close(&large);
}

static int member(int argc, char **argv)
{
    net_self self;
    net_tally tally = {0};
    net_self_join(&self, argc, argv);
    /* Both ends see how each round ends, so both go on alike. */
    for (size_t i = 0; i < ROUNDS || (tally.failed == 0 && i < ROUNDS_MAX); i++) {
        ferry_tag tag = 10 * (i + 1);
        if (self.rank == 0)
            round_of_sender(&self, tag, &tally);
        else
            round_of_receiver(&self, tag, i % ROUNDS, &tally);
    }
    net_say("done %s", net_tally_text(&tally));
    (void)net_await("end");
    net_self_end(&self);
    return 0;
}

static void run(bool has_hosts)
{
    net_member *members[2];
    net_pair_start(members, has_hosts, "member", NULL);
    for (int i = 0; i < 2; i++) {
        const char *tally = net_hear(members[i], "done");
        printf("rank %d: %s\n", i, tally);
        NET_CHECK(net_number(tally, "good") + net_number(tally, "failed") >= ROUNDS, "%s", tally);
        NET_CHECK(i == 0 || net_number(tally, "failed") > 0, "no receive was cancelled in time");
    }
    net_pair_tell(members, "end");
    net_pair_end(members);
}

static void same_host(void)
{
    run(false);
}

/* 8 MiB take a third of a second here. */
static void other_hosts(void)
{
    net_hosts_open(2, NET_CABLE_VETH);
    net_hub_run("tc qdisc add dev up1 root tbf rate 200mbit burst 256kbit latency 50ms");
    run(true);
}

int main(int argc, char **argv)
{
    static const net_role roles[] = {{"member", member}};
    static const net_case cases[] = {{"same_host", same_host, 60},
                                     {"other_hosts", other_hosts, 90}};
    return net_test_main(argc, argv, roles, 1, cases, 2);
}
