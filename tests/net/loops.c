/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members whose loops sleep, of each sort of loop: what comes wakes them, and nothing that they owe
 * the other end stays with them.
 */
#include "tests/support/net_hosts.h"
#include "tests/support/net_self.h"
#include "tests/support/patience.h"

#include <ev.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define ROUNDS 24
#define REST_NS 5000000 /* in which a loop finds that there is nothing, and sleeps */
#define LONG_RESTS 2    /* in which also what looks after the network comes to rest */
#define LONG_REST_NS INT64_C(2200000000)
#define ANSWER_NS (INT64_C(10000000000) * PATIENCE)

/* ---- the user's loop ---- */

/* Embedded: a round of it, which sleeps until there is something, or end_ns (0: no end). */
static void turn_embedded(net_self *self, int64_t end_ns)
{
    if (ferry_engine_progress(self->engine, 0) > 0 || ferry_engine_arm(self->engine) != FERRY_OK)
        return;
    int64_t left_ns = end_ns - net_now_ns();
    struct pollfd engine = {.fd = ferry_engine_fd(self->engine), .events = POLLIN};
    (void)poll(&engine, 1, end_ns == 0 ? -1 : left_ns < 0 ? 0 : (int)(left_ns / 1000000 + 1));
}

static void break_at_end(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future, (void)status;
    ev_break(waiter->arg, EVBREAK_ALL);
}

static void break_at_time(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)timer, (void)events;
    ev_break(loop, EVBREAK_ALL);
}

/* Runs the loop until the future has resolved, with FERRY_OK; gives it back. */
static void run_until(net_self *self, ferry_future *future)
{
    if (self->ev_loop) {
        ferry_waiter waiter = FERRY_WAITER_INIT(break_at_end, self->ev_loop);
        NET_SELF_CHECK(ferry_future_on_ready(future, &waiter) == FERRY_OK, "no waiter");
        ev_run(self->ev_loop, 0);
    } else {
        while (ferry_future_poll(future) == FERRY_PENDING)
            turn_embedded(self, 0);
    }
    ferry_status status = ferry_future_poll(future);
    NET_SELF_CHECK(status == FERRY_OK, "a message: %s", ferry_status_name(status));
    ferry_future_release(future);
}

static void run_for(net_self *self, int64_t time_ns)
{
    int64_t end_ns = net_now_ns() + time_ns;
    if (self->ev_loop) {
        ev_timer timer;
        ev_timer_init(&timer, break_at_time, (double)time_ns / 1e9, 0);
        ev_timer_start(self->ev_loop, &timer);
        ev_run(self->ev_loop, 0);
    } else {
        while (net_now_ns() < end_ns)
            turn_embedded(self, end_ns);
    }
}

/* ---- loops of the user's ---- */

static const size_t sizes[] = {64, (size_t)16 << 10, (size_t)1 << 20};

/* Rank 0 sends when both have nothing to do, and gets an answer. */
static int member(int argc, char **argv)
{
    net_self self;
    net_traffic ways[2];
    net_self_join(&self, argc, argv);
    for (size_t i = 0; i < ROUNDS; i++) {
        if (self.rank == 0)
            run_for(&self, REST_NS);
        for (uint32_t way = 0; way < 2; way++) {
            ways[way] = (net_traffic){.self = &self,
                                      .peer = self.rank == 0,
                                      .tag = way,
                                      .is_send = way == self.rank,
                                      .count = 1,
                                      .size_bytes = sizes[i % 3],
                                      .seed = (uint32_t)i};
            net_traffic_open(&ways[way]);
        }
        for (size_t way = 0; way < 2; way++) {
            net_traffic_submit(&ways[way], 0, 1);
            if (way == 0 || self.rank == 0)
                run_until(&self, ferry_future_retain(ways[way].futures[0]));
        }
        if (self.rank != 0)
            run_until(&self, ferry_future_retain(ways[1].futures[0]));
        for (size_t way = 0; way < 2; way++) {
            net_traffic_check(&ways[way]);
            net_traffic_close(&ways[way]);
        }
    }
    net_say("done warnings=%zu", net_self_warnings(&self));
    net_self_end(&self);
    return 0;
}

static void run(bool has_hosts, const char *loop)
{
    net_member *members[2];
    if (has_hosts)
        net_hosts_open(2, NET_CABLE_VETH);
    net_pair_start(members, has_hosts, "member", "lease_ms=10000", loop, NULL);
    net_pair_hear(members, "done");
    net_pair_end(members);
}

static void embedded_here(void)
{
    run(false, "loop=embedded");
}

static void embedded_hosts(void)
{
    run(true, "loop=embedded");
}

static void attached_here(void)
{
    run(false, "loop=attached");
}

static void attached_hosts(void)
{
    run(true, "loop=attached");
}

/* ---- a thread that looks ---- */

/*
 * The receiver's loop sleeps and its channel is armed, when a thread that spins takes what comes
 * and goes away: then nobody is left but the loop to answer, and it has to notice.
 */
static int looker(int argc, char **argv)
{
    net_self self;
    net_self_join(&self, argc, argv);
    for (size_t i = 0; i < ROUNDS; i++) {
        (void)net_await("round");
        net_traffic one = {.self = &self,
                           .peer = self.rank == 0,
                           .is_send = self.rank == 0,
                           .count = 1,
                           .size_bytes = i % 2 == 0 ? 64 : (size_t)256 << 10,
                           .seed = (uint32_t)i};
        const struct timespec rest = {.tv_nsec = (self.rank == 0 ? 2 : 1) * REST_NS};
        (void)nanosleep(&rest, NULL);
        net_traffic_open(&one);
        net_traffic_submit(&one, 0, 1);
        ferry_status status = ferry_future_wait(one.futures[0], ANSWER_NS);
        NET_SELF_CHECK(status == FERRY_OK, "round %zu, %s: %s", i,
                       one.is_send ? "no answer comes" : "nothing comes",
                       ferry_status_name(status));
        net_traffic_check(&one);
        net_traffic_close(&one);
        net_say("ended");
    }
    (void)net_await("end");
    net_self_end(&self);
    return 0;
}

static void look(bool has_hosts)
{
    net_member *members[2];
    char store[128];
    (void)snprintf(store, sizeof(store), "store=file:%s/store", net_folder());
    if (has_hosts)
        net_hosts_open(2, NET_CABLE_VETH);
    for (int i = 0; i < 2; i++)
        members[i] =
            net_start(has_hosts ? i : NET_HERE, "looker", store, i == 0 ? "rank=0" : "rank=1",
                      "lease_ms=4000", has_hosts ? "network=eth0" : "network=lo",
                      i == 0 ? "wait_spin_us=0" : "wait_spin_us=10000000", NULL);
    net_pair_hear(members, "joined");
    for (size_t round = 0; round < ROUNDS; round++) {
        net_pair_tell(members, "round");
        net_pair_hear(members, "ended");
    }
    net_pair_tell(members, "end");
    net_pair_end(members);
}

static void looked_at_here(void)
{
    look(false);
}

static void looked_at_hosts(void)
{
    look(true);
}

int main(int argc, char **argv)
{
    static const net_role roles[] = {{"member", member}, {"looker", looker}};
    static const net_case cases[] = {
        {"embedded_here", embedded_here, 60},   {"embedded_hosts", embedded_hosts, 60},
        {"attached_here", attached_here, 60},   {"attached_hosts", attached_hosts, 60},
        {"looked_at_here", looked_at_here, 60}, {"looked_at_hosts", looked_at_hosts, 60}};
    return net_test_main(argc, argv, roles, 2, cases, 6);
}
