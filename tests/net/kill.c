/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer is killed in the middle of 1,000 transfers, on the same host and on another: each of their
 * futures resolves, with the peer's rank; transfers with others go on; memory that was given is
 * left alone; the peer comes back with a new incarnation, and traffic resumes.
 */
#include "tests/support/net_hosts.h"
#include "tests/support/net_self.h"

#include <signal.h>
#include <stdio.h>

#define SECOND_NS INT64_C(1000000000)
#define LEASE_NS (5 * SECOND_NS) /* as long as a busy machine keeps nobody from a CPU */
#define SURVIVOR 0
#define BYSTANDER 1
#define VICTIM 2
#define PART 250   /* messages of each of four sorts */
#define MIDDLE 100 /* of each are received before the kill */
#define AGAIN 100
#define BESIDE 1000

/* Small ones and ones that are pulled, both ways. */
static void open_parts(net_self *self, net_traffic parts[4], uint32_t peer, ferry_tag tag,
                       size_t count)
{
    for (size_t i = 0; i < 4; i++) {
        bool is_large = i / 2 == 1;
        bool is_up = i % 2 == 0; /* to the higher rank */
        parts[i] = (net_traffic){.self = self,
                                 .peer = peer,
                                 .tag = tag + i,
                                 .is_send = is_up == (self->rank < peer),
                                 .count = count,
                                 .size_bytes = is_large ? 65536 : 256,
                                 .seed = (uint32_t)(tag + i)};
        net_traffic_open(&parts[i]);
    }
}

static void beside_open(net_self *self, uint32_t peer, net_traffic beside[2])
{
    for (uint32_t i = 0; i < 2; i++) {
        beside[i] = (net_traffic){.self = self,
                                  .peer = peer,
                                  .tag = 100 + i,
                                  .is_send = (i == 0) == (self->rank < peer),
                                  .count = BESIDE,
                                  .size_bytes = 1024,
                                  .seed = 77 + i};
        net_traffic_open(&beside[i]);
    }
}

static void beside_run(net_traffic beside[2], size_t first, size_t end)
{
    for (size_t i = 0; i < 2; i++)
        net_traffic_submit(&beside[i], first, end);
    for (size_t i = 0; i < 2; i++)
        net_traffic_await(&beside[i], first, end);
}

static void beside_close(net_traffic beside[2])
{
    for (size_t i = 0; i < 2; i++) {
        net_traffic_check(&beside[i]);
        net_traffic_close(&beside[i]);
    }
}

static void run_again(net_self *self, uint32_t peer)
{
    net_traffic parts[4];
    open_parts(self, parts, peer, 20, AGAIN);
    for (size_t i = 0; i < 4; i++)
        net_traffic_submit(&parts[i], 0, AGAIN);
    for (size_t i = 0; i < 4; i++) {
        net_traffic_await(&parts[i], 0, AGAIN);
        net_traffic_check(&parts[i]);
        net_traffic_close(&parts[i]);
    }
}

static int survivor(int argc, char **argv)
{
    net_self self;
    net_traffic parts[4];
    net_traffic beside[2];
    net_tally tally = {0};
    net_self_join(&self, argc, argv);
    ferry_member_info victim = FERRY_MEMBER_INFO_INIT;
    (void)ferry_group_member(self.group, VICTIM, &victim);

    beside_open(&self, BYSTANDER, beside);
    open_parts(&self, parts, VICTIM, 10, PART);
    for (size_t i = 0; i < 4; i++)
        net_traffic_submit(&parts[i], 0, PART);
    beside_run(beside, 0, BESIDE / 2);
    for (size_t i = 0; i < 4; i++)
        net_traffic_await(&parts[i], 0, MIDDLE);
    net_say("middle");
    for (size_t i = 0; i < 4; i++)
        net_traffic_tally(&parts[i], &tally);
    net_say("tally %s", net_tally_text(&tally));
    for (size_t i = 0; i < 4; i++)
        net_traffic_quiet(&parts[i]);
    net_say("quiet");
    beside_run(beside, BESIDE / 2, BESIDE);
    net_say("beside");
    (void)net_self_await_member(&self, VICTIM, FERRY_MEMBER_HERE, victim.incarnation);
    run_again(&self, VICTIM);
    for (size_t i = 0; i < 4; i++) {
        net_traffic_check(&parts[i]);
        net_traffic_close(&parts[i]);
    }
    beside_close(beside);
    net_say("done");
    (void)net_await("end");
    net_self_end(&self);
    return 0;
}

static int bystander(int argc, char **argv)
{
    net_self self;
    net_traffic beside[2];
    net_self_join(&self, argc, argv);
    beside_open(&self, SURVIVOR, beside);
    beside_run(beside, 0, BESIDE / 2);
    beside_run(beside, BESIDE / 2, BESIDE);
    beside_close(beside);
    net_say("done");
    (void)net_await("end");
    net_self_end(&self);
    return 0;
}

/* Its own end of what it sends and receives is only half there when it is killed. */
static int victim(int argc, char **argv)
{
    net_self self;
    net_traffic parts[4];
    net_self_join(&self, argc, argv);
    open_parts(&self, parts, SURVIVOR, 10, PART);
    for (size_t i = 0; i < 4; i++)
        net_traffic_submit(&parts[i], 0, MIDDLE + MIDDLE / 2);
    (void)net_await("nothing more");
    return 1;
}

static int revived(int argc, char **argv)
{
    net_self self;
    net_self_join(&self, argc, argv);
    run_again(&self, SURVIVOR);
    net_say("done");
    (void)net_await("end");
    net_self_end(&self);
    return 0;
}

static net_member *start(const char *role, int rank, bool has_hosts)
{
    char store[128];
    char number[16];
    (void)snprintf(store, sizeof(store), "store=file:%s/store", net_folder());
    (void)snprintf(number, sizeof(number), "rank=%d", rank);
    return net_start(has_hosts ? rank : NET_HERE, role, store, number, "size=3", "lease_ms=5000",
                     has_hosts ? "network=eth0" : "network=lo", NULL);
}

static void kill_in_the_middle(bool has_hosts)
{
    net_member *survivor = start("survivor", SURVIVOR, has_hosts);
    net_member *bystander = start("bystander", BYSTANDER, has_hosts);
    net_member *victim = start("victim", VICTIM, has_hosts);
    (void)net_hear(survivor, "joined");
    (void)net_hear(bystander, "joined");
    int64_t first = net_number(net_hear(victim, "joined"), "incarnation");
    (void)net_hear(survivor, "middle");
    net_stopwatch watch = net_stopwatch_start();
    net_signal(victim, SIGKILL);
    const char *tally = net_hear(survivor, "tally");
    printf("tally: %s\n", tally);
    net_stopwatch_check(&watch, net_number(tally, "at"),
                        has_hosts ? LEASE_NS + SECOND_NS : SECOND_NS, "hearing of the death");
    int64_t good = net_number(tally, "good");
    NET_CHECK(good >= 4 * MIDDLE && good <= 4 * (MIDDLE + MIDDLE / 2),
              "%lld transfers were good, which can't be", (long long)good);
    NET_CHECK(good + net_number(tally, "failed") == 4 * PART, "some have not resolved");
    NET_CHECK(net_number(tally, "unnamed") == 0, "errors without the peer's rank: %s", tally);
    net_end_by(victim, SIGKILL);
    (void)net_hear(survivor, "quiet");
    (void)net_hear(survivor, "beside");
    (void)net_hear(bystander, "done");

    net_member *revived = start("revived", VICTIM, has_hosts);
    int64_t second = net_number(net_hear(revived, "joined"), "incarnation");
    NET_CHECK(second > first, "incarnation %lld after %lld", (long long)second, (long long)first);
    (void)net_hear(survivor, "done");
    (void)net_hear(revived, "done");
    net_member *all[] = {survivor, bystander, revived};
    for (size_t i = 0; i < 3; i++)
        net_tell(all[i], "end");
    for (size_t i = 0; i < 3; i++)
        net_end(all[i]);
}

static void same_host(void)
{
    kill_in_the_middle(false);
}

static void other_hosts(void)
{
    net_hosts_open(3, NET_CABLE_VETH);
    kill_in_the_middle(true);
}

int main(int argc, char **argv)
{
    static const net_role roles[] = {
        {"survivor", survivor}, {"bystander", bystander}, {"victim", victim}, {"revived", revived}};
    static const net_case cases[] = {{"same_host", same_host, 60},
                                     {"other_hosts", other_hosts, 60}};
    return net_test_main(argc, argv, roles, 4, cases, 2);
}
