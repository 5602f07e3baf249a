/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notices of other processes. Rank 1 sends many, of all sizes, more at a time than rank 0 keeps;
 * rank 0 takes them, and looks at each byte. Either is killed in the midst:
 *
 *  - what is taken is whole, in order, and of one life of its sender;
 *  - who sent to the dead gets the status of a dead member, with its rank;
 *  - who waits for the next goes on waiting, and takes those of the next life.
 */
#include "tests/support/net_hosts.h"
#include "tests/support/net_self.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { AHEAD = 300, BUSY = 500 }; /* at a time; so many, and it is in the midst of them */

typedef struct note {
    uint64_t life, number;
} note;

static size_t size_of(uint64_t number)
{
    return sizeof(note) + number * 37 % (FERRY_NOTICE_BYTES_MAX - sizeof(note) + 1);
}

/* ---- who takes ---- */

static void check(const note *note, const ferry_value *value)
{
    NET_SELF_CHECK(value->size_bytes == size_of(note->number), "notice %llu has %zu bytes",
                   (unsigned long long)note->number, value->size_bytes);
    const unsigned char *bytes = value->data;
    for (size_t i = sizeof *note; i < value->size_bytes; i++)
        NET_SELF_CHECK(bytes[i] == (unsigned char)(note->number + i), "byte %zu is wrong", i);
}

static int taker(net_self *self, uint64_t count, bool is_idle)
{
    uint64_t life = 0, number = 0;
    if (is_idle)
        (void)net_await("go");
    while (number < count) {
        ferry_value value = FERRY_VALUE_INIT;
        note note;
        ferry_future *next = ferry_notice_next(self->group, 0);
        NET_SELF_CHECK(ferry_future_wait(next, -1) == FERRY_OK, "no next notice");
        NET_SELF_CHECK(ferry_future_value(next, &value) == FERRY_OK, "it has no value");
        memcpy(&note, value.data, sizeof note);
        if (note.life != life)
            number = 0;
        NET_SELF_CHECK(note.number == number, "notice %llu comes in place of %llu",
                       (unsigned long long)note.number, (unsigned long long)number);
        life = note.life;
        check(&note, &value);
        ferry_future_release(next);
        if (++number == BUSY && life == 0)
            net_say("busy");
    }
    net_say("taken");
    (void)net_await("end");
    net_self_end(self);
    return 0;
}

/* ---- who sends ---- */

static ferry_future *notify(net_self *self, uint64_t life, uint64_t number)
{
    unsigned char bytes[FERRY_NOTICE_BYTES_MAX];
    note note = {life, number};
    memcpy(bytes, &note, sizeof note);
    for (size_t i = sizeof note; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(number + i);
    return ferry_notice_send(self->group, 0, bytes, size_of(number), NULL);
}

static int sender(net_self *self, uint64_t count, uint64_t life)
{
    ferry_future *ring[AHEAD] = {NULL};
    bool has_failed = false;
    net_say("sending");
    for (uint64_t i = 0; i < count + AHEAD; i++) {
        ferry_future **at = &ring[i % AHEAD];
        if (*at != NULL && ferry_future_wait(*at, -1) != FERRY_OK && !has_failed) {
            has_failed = true;
            count = i; /* the others are given back */
            (void)net_self_tell(self, "failed", ferry_future_retain(*at));
        }
        ferry_future_release(*at);
        *at = i < count ? notify(self, life, i) : NULL;
    }
    if (!has_failed)
        net_say("sent");
    (void)net_await("end");
    net_self_end(self);
    return 0;
}

static int member(int argc, char **argv)
{
    net_self self;
    net_self_join(&self, argc, argv);
    const char *what = self.rank == 0 ? "take" : "count";
    uint64_t count = (uint64_t)net_argument_number(argc, argv, what, INT64_MAX / 2);
    return self.rank == 0
               ? taker(&self, count, net_argument(argc, argv, "idle") != NULL)
               : sender(&self, count, (uint64_t)net_argument_number(argc, argv, "life", 0));
}

/* ---- cases ---- */

static void end(net_member *member)
{
    net_tell(member, "end");
    net_end(member);
}

static void all_are_taken(bool has_hosts)
{
    net_member *members[2];
    net_pair_start(members, has_hosts, "member", "lease_ms=10000", "count=3000", "take=3000", NULL);
    (void)net_hear(members[1], "sending");
    (void)net_hear(members[0], "busy");
    (void)net_hear(members[0], "taken");
    (void)net_hear(members[1], "sent");
    end(members[1]);
    end(members[0]);
}

static void taker_is_killed(bool has_hosts, const char *more)
{
    net_member *members[2];
    net_pair_start(members, has_hosts, "member", "lease_ms=5000", more, NULL);
    (void)net_hear(members[1], "sending");
    if (more == NULL)
        (void)net_hear(members[0], "busy");
    net_signal(members[0], SIGKILL);
    net_end_by(members[0], SIGKILL);
    const char *failed = net_hear(members[1], "failed");
    NET_CHECK(strstr(failed, "rank=0") != NULL && (strstr(failed, "FERRY_E_DEAD") != NULL ||
                                                   strstr(failed, "FERRY_E_PEER") != NULL),
              "%s", failed);
    end(members[1]);
}

static void sender_is_killed(bool has_hosts)
{
    net_member *members[2];
    net_pair_start(members, has_hosts, "member", "lease_ms=5000", "take=20000", NULL);
    (void)net_hear(members[0], "busy");
    net_signal(members[1], SIGKILL);
    net_end_by(members[1], SIGKILL);
    char store[512];
    (void)snprintf(store, sizeof store, "store=file:%s/store", net_folder());
    net_member *next = net_start(has_hosts ? 1 : NET_HERE, "member", store,
                                 has_hosts ? "network=eth0" : "network=lo", "rank=1", "size=2",
                                 "lease_ms=5000", "life=1", "count=20000", NULL);
    (void)net_hear(next, "joined");
    (void)net_hear(next, "sending");
    (void)net_hear(next, "sent");
    (void)net_hear(members[0], "taken");
    end(next);
    end(members[0]);
}

static void pass_same_host(void)
{
    all_are_taken(false);
}

static void pass_other_hosts(void)
{
    net_hosts_open(2, NET_CABLE_VETH);
    all_are_taken(true);
}

static void taker_killed_same_host(void)
{
    taker_is_killed(false, NULL);
}

static void taker_killed_that_took_none(void)
{
    taker_is_killed(false, "idle=yes");
}

static void taker_killed_other_hosts(void)
{
    net_hosts_open(2, NET_CABLE_VETH);
    taker_is_killed(true, NULL);
}

static void sender_killed_same_host(void)
{
    sender_is_killed(false);
}

static void sender_killed_other_hosts(void)
{
    net_hosts_open(2, NET_CABLE_VETH);
    sender_is_killed(true);
}

int main(int argc, char **argv)
{
    static const net_role roles[] = {{"member", member}};
    static const net_case cases[] = {
        {"pass_same_host", pass_same_host, 60},
        {"pass_other_hosts", pass_other_hosts, 60},
        {"taker_killed_same_host", taker_killed_same_host, 60},
        {"taker_killed_that_took_none", taker_killed_that_took_none, 60},
        {"taker_killed_other_hosts", taker_killed_other_hosts, 60},
        {"sender_killed_same_host", sender_killed_same_host, 60},
        {"sender_killed_other_hosts", sender_killed_other_hosts, 60},
    };
    return net_test_main(argc, argv, roles, 1, cases, sizeof cases / sizeof cases[0]);
}
