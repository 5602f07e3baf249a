/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symmetric memory of processes, of which one is stopped and killed in each phase. What must hold:
 *
 *  - what one writes at an address is in the memory of the other, on one host; between hosts there
 *    is no address, and gets and puts reach it;
 *  - no ask hangs past its deadline or a lease, and what fails names the rank;
 *  - who is alive goes on with all that is left, also at the addresses of who is not;
 *  - the next life of a rank has memory of its own with the others, and what was before is another.
 */
#include "tests/support/net_hosts.h"
#include "tests/support/net_self.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS INT64_C(1000000000)
#define BYTES ((size_t)1 << 20)
#define PLACE_BYTES 4096 /* of each rank, in each memory */

enum { MEMBERS = 3 };

/* ---- a member ---- */

static void ask(net_self *self, const char *what, ferry_symmetric **symmetric_p)
{
    char name[32];
    long long deadline_ms;
    NET_SELF_CHECK(sscanf(what, "ask %31s %lld", name, &deadline_ms) == 2, "what to ask: %s", what);
    int64_t deadline_ns = deadline_ms != 0 ? net_self_deadline(deadline_ms * 1000000) : 0;
    ferry_future *future =
        ferry_symmetric_alloc(self->group, ferry_device_find(self->engine, "host:0"), BYTES, name,
                              deadline_ns, symmetric_p);
    net_say("asking");
    (void)net_self_tell(self, "asked", future);
}

/* All that it can reach; says how many. */
static void write_all(const ferry_symmetric *symmetric, const net_self *self, int byte)
{
    uint32_t count = 0;
    for (ferry_rank i = 0; i < MEMBERS; i++) {
        unsigned char *there = ferry_symmetric_address(symmetric, i);
        if (there == NULL)
            continue;
        memset(there + self->rank * (size_t)PLACE_BYTES, byte, PLACE_BYTES);
        count++;
    }
    net_say("wrote %u", count);
}

/* Into the others' memory, without addresses, and what is there then. */
static void put_all(const ferry_symmetric *symmetric, net_self *self, int byte)
{
    ferry_buffer *local = NULL;
    NET_SELF_CHECK(ferry_buffer_alloc(ferry_device_find(self->engine, "host:0"), PLACE_BYTES,
                                      &local) == FERRY_OK,
                   "no buffer");
    for (ferry_rank i = 0; i < MEMBERS; i++) {
        ferry_window *window = ferry_symmetric_window(symmetric, i);
        if (window == NULL)
            continue;
        memset(ferry_buffer_data(local), byte, PLACE_BYTES);
        ferry_future *put =
            ferry_put(window, self->rank * (size_t)PLACE_BYTES, ferry_buffer_span(local), NULL);
        NET_SELF_CHECK(ferry_future_wait(put, -1) == FERRY_OK, "a put has failed");
        ferry_future_release(put);
        memset(ferry_buffer_data(local), 0, PLACE_BYTES);
        ferry_future *get =
            ferry_get(window, self->rank * (size_t)PLACE_BYTES, ferry_buffer_span(local), NULL);
        NET_SELF_CHECK(ferry_future_wait(get, -1) == FERRY_OK, "a get has failed");
        ferry_future_release(get);
        const unsigned char *bytes = ferry_buffer_data(local);
        NET_SELF_CHECK(bytes[0] == byte && bytes[PLACE_BYTES - 1] == byte, "%u", bytes[0]);
    }
    memset((char *)ferry_symmetric_address(symmetric, self->rank) +
               self->rank * (size_t)PLACE_BYTES,
           byte, PLACE_BYTES);
    ferry_buffer_release(local);
    net_say("put");
}

/* What is in its own memory: a byte of each rank's place. */
static void tell(const ferry_symmetric *symmetric)
{
    const unsigned char *own = ferry_buffer_data(ferry_symmetric_buffer(symmetric));
    for (size_t i = 0; i < MEMBERS; i++) {
        for (size_t k = 1; k < PLACE_BYTES; k++)
            NET_SELF_CHECK(own[i * PLACE_BYTES] == own[i * PLACE_BYTES + k], "at %zu of %zu", k, i);
    }
    net_say("has %u %u %u", own[0], own[PLACE_BYTES], own[2 * PLACE_BYTES]);
}

static void look(net_self *self, const ferry_symmetric *symmetric)
{
    ferry_symmetric_info info = FERRY_SYMMETRIC_INFO_INIT;
    do {
        NET_SELF_CHECK(ferry_symmetric_describe(symmetric, &info) == FERRY_OK, "no info");
        (void)net_self_news(self);
    } while (info.state != FERRY_SYMMETRIC_IS_BROKEN);
    net_say("broken rank=%d mapped=%u", info.failed_rank, info.mapped);
}

static int member(int argc, char **argv)
{
    net_self self;
    ferry_symmetric *symmetric = NULL;
    net_self_join(&self, argc, argv);
    for (;;) {
        char what[64] = "";
        const char *said = net_await("do");
        NET_SELF_CHECK(said != NULL, "nothing to do");
        (void)snprintf(what, sizeof what, "%s", said + strspn(said, " "));
        int byte = 0;
        if (strncmp(what, "ask", 3) == 0) {
            ferry_symmetric_release(symmetric);
            ask(&self, what, &symmetric);
        } else if (sscanf(what, "write %d", &byte) == 1) {
            write_all(symmetric, &self, byte);
        } else if (sscanf(what, "put %d", &byte) == 1) {
            put_all(symmetric, &self, byte);
        } else if (strcmp(what, "tell") == 0) {
            tell(symmetric);
        } else if (strcmp(what, "look") == 0) {
            look(&self, symmetric);
        } else if (strcmp(what, "await 2") == 0) {
            (void)net_self_await_member(&self, 2, FERRY_MEMBER_HERE, 1);
            net_say("here");
        } else {
            NET_SELF_CHECK(strcmp(what, "end") == 0, "what to do: %s", what);
            break;
        }
    }
    ferry_symmetric_release(symmetric);
    net_self_end(&self);
    return 0;
}

/* ---- cases ---- */

static net_member *start(bool has_hosts, int rank, const char *lease)
{
    char store[512], rank_text[16];
    (void)snprintf(store, sizeof store, "store=file:%s/store", net_folder());
    (void)snprintf(rank_text, sizeof rank_text, "rank=%d", rank);
    return net_start(has_hosts ? rank % 2 : NET_HERE, "member", store,
                     has_hosts ? "network=eth0" : "network=lo", rank_text, "size=3", lease, NULL);
}

static void begin(net_member *all[MEMBERS], bool has_hosts, const char *lease)
{
    for (int i = 0; i < MEMBERS; i++)
        all[i] = start(has_hosts, i, lease);
    for (int i = 0; i < MEMBERS; i++)
        (void)net_hear(all[i], "joined");
}

static void tell_all(net_member *const *all, size_t count, const char *what)
{
    for (size_t i = 0; i < count; i++)
        net_tell(all[i], "do %s", what);
}

static void hear_all(net_member *const *all, size_t count, const char *word, const char *begin)
{
    for (size_t i = 0; i < count; i++) {
        const char *said = net_hear(all[i], word);
        if (begin[0] != '\0' && strstr(said, begin) == NULL)
            net_fail("%zu: %s %s, not %s", i, word, said, begin);
    }
}

static void ask_all(net_member *const *all, size_t count, const char *what)
{
    tell_all(all, count, what);
    hear_all(all, count, "asking", "");
}

static void have(net_member *const *all, const char *what)
{
    ask_all(all, MEMBERS, what);
    hear_all(all, MEMBERS, "asked", "FERRY_OK");
}

static void end_all(net_member *const *all, size_t count)
{
    tell_all(all, count, "end");
    for (size_t i = 0; i < count; i++)
        net_end(all[i]);
}

/* Each writes a byte in turn, and all have it. */
static void exchange(net_member *const *all, size_t count, const char *mapped)
{
    for (size_t i = 0; i < count; i++) {
        net_tell(all[i], "do write %zu", 10 + i);
        const char *said = net_hear(all[i], "wrote");
        NET_CHECK(strstr(said, mapped) != NULL, "%s", said);
    }
}

static void addresses_same_host(void)
{
    net_member *all[MEMBERS];
    begin(all, false, "lease_ms=20000");
    have(all, "ask kv/a 0");
    exchange(all, MEMBERS, "3");
    tell_all(all, MEMBERS, "tell");
    hear_all(all, MEMBERS, "has", "10 11 12");
    tell_all(all, MEMBERS, "put 20");
    hear_all(all, MEMBERS, "put", "");
    tell_all(all, MEMBERS, "tell");
    hear_all(all, MEMBERS, "has", "20 20 20");
    end_all(all, MEMBERS);
}

/* Ranks 0 and 2 are on one host. */
static void windows_other_hosts(void)
{
    net_member *all[MEMBERS];
    net_hosts_open(2, NET_CABLE_VETH);
    begin(all, true, "lease_ms=20000");
    have(all, "ask kv/a 0");
    net_tell(all[1], "do write 7");
    hear_all(&all[1], 1, "wrote", "1"); /* its own alone has an address */
    tell_all(all, MEMBERS, "put 20");
    hear_all(all, MEMBERS, "put", "");
    tell_all(all, MEMBERS, "tell");
    hear_all(all, MEMBERS, "has", "20 20 20");
    end_all(all, MEMBERS);
}

/* The rank that died joins again, and all have memory, which is new. */
static void restart(net_member *all[MEMBERS], const char *what)
{
    all[2] = start(false, 2, "lease_ms=2000");
    (void)net_hear(all[2], "joined");
    tell_all(all, 2, "await 2");
    hear_all(all, 2, "here", "");
    have(all, what);
    tell_all(all, MEMBERS, "tell");
    hear_all(all, MEMBERS, "has", "0 0 0");
    exchange(all, MEMBERS, "3");
    tell_all(all, MEMBERS, "tell");
    hear_all(all, MEMBERS, "has", "10 11 12");
}

static void kill_third(net_member *all[MEMBERS])
{
    net_signal(all[2], SIGKILL);
    net_end_by(all[2], SIGKILL);
}

static void killed_before(void)
{
    net_member *all[MEMBERS];
    begin(all, false, "lease_ms=2000");
    ask_all(all, 2, "ask kv/a 0");
    net_stopwatch watch = net_stopwatch_start();
    kill_third(all);
    for (size_t i = 0; i < 2; i++) {
        const char *said = net_hear(all[i], "asked");
        NET_CHECK(strstr(said, "FERRY_E_DEAD") != NULL || strstr(said, "FERRY_E_PEER") != NULL ||
                      strstr(said, "FERRY_E_NOT_FOUND") != NULL,
                  "%s", said);
        net_stopwatch_check(&watch, net_number(said, "at"), 3 * SECOND_NS, "failing");
    }
    restart(all, "ask kv/a 0");
    end_all(all, MEMBERS);
}

static void killed_after(void)
{
    net_member *all[MEMBERS];
    begin(all, false, "lease_ms=2000");
    have(all, "ask kv/a 0");
    exchange(all, MEMBERS, "3");
    kill_third(all);
    tell_all(all, 2, "look");
    hear_all(all, 2, "broken", "rank=2 mapped=3");
    tell_all(all, 2, "write 40"); /* into that of the dead, too */
    hear_all(all, 2, "wrote", "3");
    tell_all(all, 2, "tell");
    hear_all(all, 2, "has", "40 40 12");
    restart(all, "ask kv/a 0");
    end_all(all, MEMBERS);
}

/* It is killed somewhere between the others' asks and its own having it. */
static void killed_while_it_asks(void)
{
    net_member *all[MEMBERS];
    begin(all, false, "lease_ms=2000");
    for (int round = 0; round < 6; round++) {
        if (round % 2 == 0)
            ask_all(all, 2, "ask kv/a 20000");
        net_tell(all[2], "do ask kv/a 0");
        if (round % 3 > 0)
            (void)net_hear(all[2], "asking");
        if (round % 2 != 0)
            ask_all(all, 2, "ask kv/a 20000");
        if (round % 3 > 1)
            (void)net_hear(all[2], "asked");
        kill_third(all);
        for (size_t i = 0; i < 2; i++) { /* they had it, or not */
            const char *said = net_hear(all[i], "asked");
            NET_CHECK(strstr(said, "FERRY_E_DEADLINE") == NULL, "%s", said);
        }
        char what[32];
        (void)snprintf(what, sizeof what, "ask kv/%d 0", round);
        restart(all, what);
    }
    end_all(all, MEMBERS);
}

static void stopped_before(void)
{
    net_member *all[MEMBERS];
    begin(all, false, "lease_ms=20000");
    net_signal(all[2], SIGSTOP);
    net_tell(all[1], "do ask kv/a 0");
    (void)net_hear(all[1], "asking");
    net_tell(all[0], "do ask kv/a 2000");
    (void)net_hear(all[0], "asking");
    net_stopwatch watch = net_stopwatch_start();
    const char *said = net_hear(all[0], "asked");
    NET_CHECK(strstr(said, "FERRY_E_DEADLINE") != NULL && strstr(said, "rank=2") != NULL, "%s",
              said);
    net_stopwatch_check(&watch, net_number(said, "at"), 3 * SECOND_NS, "failing");
    said = net_hear(all[1], "asked");
    NET_CHECK(strstr(said, "FERRY_E_NOT_FOUND") != NULL && strstr(said, "rank=0") != NULL, "%s",
              said);
    net_signal(all[2], SIGCONT);
    have(all, "ask kv/a 0");
    exchange(all, MEMBERS, "3");
    end_all(all, MEMBERS);
}

/* Nobody needs it for what they have: not for its memory, nor for another handle. */
static void stopped_after(void)
{
    net_member *all[MEMBERS];
    begin(all, false, "lease_ms=20000");
    have(all, "ask kv/a 0");
    exchange(all, MEMBERS, "3");
    net_signal(all[2], SIGSTOP);
    tell_all(all, 2, "write 50");
    hear_all(all, 2, "wrote", "3");
    ask_all(all, 2, "ask kv/a 0");
    hear_all(all, 2, "asked", "FERRY_OK");
    tell_all(all, 2, "write 51");
    hear_all(all, 2, "wrote", "3");
    net_signal(all[2], SIGCONT);
    net_tell(all[2], "do tell");
    hear_all(&all[2], 1, "has", "51 51 12");
    end_all(all, MEMBERS);
}

/* It is declared dead, and writes on into memory that the others have let go of. */
static void stopped_for_too_long(void)
{
    net_member *all[MEMBERS];
    begin(all, false, "lease_ms=2000");
    have(all, "ask kv/a 0");
    exchange(all, MEMBERS, "3");
    net_signal(all[2], SIGSTOP);
    tell_all(all, 2, "look");
    hear_all(all, 2, "broken", "rank=2 mapped=3");
    ask_all(all, 2, "ask kv/b 300"); /* which gives the first one back */
    hear_all(all, 2, "asked", "FERRY_E_");
    net_signal(all[2], SIGCONT);
    net_tell(all[2], "do write 60");
    hear_all(&all[2], 1, "wrote", "3");
    net_tell(all[2], "do look");
    (void)net_hear(all[2], "broken");
    kill_third(all);
    restart(all, "ask kv/a 0");
    end_all(all, MEMBERS);
}

int main(int argc, char **argv)
{
    static const net_role roles[] = {{"member", member}};
    static const net_case cases[] = {
        {"addresses_same_host", addresses_same_host, 60},
        {"windows_other_hosts", windows_other_hosts, 60},
        {"killed_before", killed_before, 60},
        {"killed_after", killed_after, 60},
        {"killed_while_it_asks", killed_while_it_asks, 120},
        {"stopped_before", stopped_before, 60},
        {"stopped_after", stopped_after, 60},
        {"stopped_for_too_long", stopped_for_too_long, 60},
    };
    return net_test_main(argc, argv, roles, 1, cases, sizeof cases / sizeof cases[0]);
}
