/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real etcd of three nodes that goes away and comes back: the tables in docs/design.md. In each
 * case several jobs share the cluster, and in each of them something else becomes of the second
 * member: it lives, dies, leaves, is stopped, is started anew; or others come. Meanwhile bytes go
 * on.
 */
#include "tests/support/etcd_server.h"
#include "tests/support/net_self.h"
#include "tests/support/tcp_relay.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define SECOND_NS INT64_C(1000000000)
#define COUNT 50
#define SIZE_BYTES 16384
/* Longer than loaded machines keep a process or an etcd waiting: who is, is dead for the others. */
#define LEASE "lease_ms=6000"
#define SHORT_MS 800
#define LONG_MS 9000
#define LATER_MS 14000 /* by when who would be taken for dead is */

/* ---- what members do ---- */

static void exchange(net_self *self, ferry_tag tag)
{
    net_self_probe(self, self->rank == 0,
                   tag + 2); /* a connection that took too long is tried anew */
    net_self_exchange(self, tag, COUNT, SIZE_BYTES);
}

static void meet(net_self *self, const char *name)
{
    ferry_barrier_options options = FERRY_BARRIER_OPTIONS_INIT;
    options.deadline_ns = net_self_deadline(60 * SECOND_NS);
    (void)net_self_tell(self, "met", ferry_barrier(self->group, name, &options));
}

/* Says what it was told of the other: how often, and how it is. */
static void tell_of_other(net_self *self)
{
    ferry_member_info info = FERRY_MEMBER_INFO_INIT;
    (void)ferry_group_member(self->group, self->rank == 0, &info);
    net_say("other news=%zu state=%d incarnation=%lld slow=%zu", net_self_news(self),
            (int)info.state, (long long)info.incarnation, net_self_slow_lines(self));
}

static void use_value(net_self *self, bool is_set)
{
    const int64_t deadline_ns = net_self_deadline(60 * SECOND_NS);
    if (is_set)
        (void)net_self_tell(self, "set", ferry_group_set(self->group, "key", "v", 1, deadline_ns));
    else
        (void)net_self_tell(self, "got", ferry_group_try_get(self->group, "key", deadline_ns));
}

static int worker(int argc, char **argv)
{
    net_self self;
    ferry_tag tag = 10;
    net_self_join(&self, argc, argv);
    for (;;) {
        const char *what = net_await("do");
        if (strcmp(what, "exchange") == 0) {
            exchange(&self, tag += 10);
            net_say("exchanged");
        } else if (strncmp(what, "meet ", 5) == 0) {
            meet(&self, what + 5);
        } else if (strcmp(what, "set") == 0 || strcmp(what, "get") == 0) {
            use_value(&self, *what == 's');
        } else if (strcmp(what, "look") == 0) {
            tell_of_other(&self);
        } else if (strcmp(what, "await death") == 0) {
            (void)net_self_await_member(&self, self.rank == 0, FERRY_MEMBER_DEAD, 0);
            net_say("dead");
        } else if (strcmp(what, "await new start") == 0) {
            (void)net_self_await_member(&self, self.rank == 0, FERRY_MEMBER_HERE, 1);
            net_say("new");
        } else {
            break;
        }
    }
    net_self_end(&self);
    return 0;
}

/* Says how joining went, whatever that is. */
static int joiner(int argc, char **argv)
{
    net_self self;
    ferry_future *future = net_self_begin(&self, argc, argv);
    (void)net_self_tell(&self, "joining", future);
    (void)net_await("end");
    ferry_group_release(self.group);
    self.group = NULL;
    net_self_end(&self);
    return 0;
}

/* ---- what the tests do with them ---- */

/* What becomes of the second member while the store is away. */
typedef enum fate {
    LIVES,
    WAITS, /* the first is in a barrier meanwhile */
    DIES,
    LEAVES,
    IS_STOPPED,      /* and goes on before the store is back */
    IS_STOPPED_LONG, /* and goes on when it is dead */
    IS_STARTED_ANEW,
    ALL_ARE_STARTED_ANEW, /* both members */
    IS_DOUBLED,           /* a second start of its rank, elsewhere */
    ANOTHER_COMES,        /* without a rank */
    FATES
} fate;

/* How it goes away, and comes back. */
typedef struct absence {
    void (*begin)(etcd_cluster *cluster);
    void (*end)(etcd_cluster *cluster);
    int64_t ms;
    bool is_emptied;
} absence;

typedef struct job {
    fate fate;
    const absence *away;
    char name[16], store[512];
    net_member *members[2], *third;
} job;

static void rest_ms(int64_t ms)
{
    const struct timespec rest = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    (void)nanosleep(&rest, NULL);
}

static net_member *start_member(const job *of, const char *role, const char *rank)
{
    return net_start(NET_HERE, role, of->store, of->name, rank, "size=2", LEASE,
                     "deadline_ms=120000", NULL);
}

static void start_job(job *it, fate fate, const absence *away, const char *uri)
{
    *it = (job){.fate = fate, .away = away};
    (void)snprintf(it->name, sizeof(it->name), "job=j%d", (int)fate);
    (void)snprintf(it->store, sizeof(it->store), "store=%s", uri);
    it->members[0] = start_member(it, "worker", "rank=0");
    it->members[1] = start_member(it, "worker", "rank=1");
}

static void both(const job *it, const char *what, const char *word)
{
    net_pair_tell(it->members, "do %s", what);
    net_pair_hear(it->members, word);
}

static void both_meet(const job *it, const char *name)
{
    net_pair_tell(it->members, "do meet %s", name);
    for (int i = 0; i < 2; i++) {
        const char *met = net_hear(it->members[i], "met");
        NET_CHECK(strncmp(met, "FERRY_OK", 8) == 0, "%s at %s: %s", it->name, name, met);
    }
}

/* Both have been told to meet. That it was lost with the store can be when that was emptied, and is
 * told to all. True: it was. */
static bool is_lost_by_both(const job *it, const char *name)
{
    bool is_lost[2];
    for (int i = 0; i < 2; i++) {
        const char *met = net_hear(it->members[i], "met");
        is_lost[i] = it->away->is_emptied && strncmp(met, "FERRY_E_STORE", 13) == 0 &&
                     strstr(met, "emptied or replaced");
        NET_CHECK(is_lost[i] || strncmp(met, "FERRY_OK", 8) == 0, "%s at %s: %s", it->name, name,
                  met);
    }
    NET_CHECK(is_lost[0] == is_lost[1], "%s at %s: one has met, and one has not", it->name, name);
    return is_lost[0];
}

/* Who is in a barrier when it is found that the store has lost it is told so; the next is as ever.
 */
static void both_meet_again(const job *it, const char *name)
{
    net_pair_tell(it->members, "do meet %s", name);
    if (is_lost_by_both(it, name))
        both_meet(it, name);
}

static void check_news(const job *it, int member, int64_t news)
{
    net_tell(it->members[member], "do look");
    const char *said = net_hear(it->members[member], "other");
    NET_CHECK(net_number(said, "news") == news && net_number(said, "state") == FERRY_MEMBER_HERE,
              "%s: member %d was told: %s", it->name, member, said);
}

static void kill_member(const job *it, int member)
{
    net_signal(it->members[member], SIGKILL);
    net_end_by(it->members[member], SIGKILL);
}

/* Before the store goes away. */
static void prepare(const job *it)
{
    net_pair_hear(it->members, "joined");
    both(it, "exchange", "exchanged");
    both_meet(it, "before");
    net_tell(it->members[0], "do set");
    const char *said = net_hear(it->members[0], "set");
    NET_CHECK(strncmp(said, "FERRY_OK", 8) == 0, "%s: set: %s", it->name, said);
    if (it->fate == WAITS)
        net_tell(it->members[0], "do meet before");
}

/* While it is away. */
static void meet_fate(job *it)
{
    switch (it->fate) {
    case LIVES:
    case WAITS:
    case FATES:
        break;
    case DIES:
        kill_member(it, 1);
        break;
    case LEAVES:
        net_tell(it->members[1], "do end");
        break;
    case IS_STOPPED:
    case IS_STOPPED_LONG:
        net_signal(it->members[1], SIGSTOP);
        break;
    case ALL_ARE_STARTED_ANEW:
        kill_member(it, 0);
        it->members[0] = start_member(it, "worker", "rank=0");
        /* fall through */
    case IS_STARTED_ANEW:
        kill_member(it, 1);
        it->members[1] = start_member(it, "worker", "rank=1");
        break;
    case IS_DOUBLED:
        it->third = start_member(it, "joiner", "rank=1");
        break;
    case ANOTHER_COMES:
        it->third = start_member(it, "joiner", "rank=-1");
        break;
    }
}

static void check_third(const job *it)
{
    const char *said = net_hear(it->third, "joining");
    NET_CHECK(strncmp(said, "FERRY_E_FENCED", 14) == 0, "%s: %s", it->name, said);
    NET_CHECK(it->fate == IS_DOUBLED || strstr(said, "came late"), "%s: %s", it->name, said);
    net_tell(it->third, "end");
    net_end(it->third);
}

/* Who has lost its place hears it with whatever it asks for. */
static void check_fenced(const job *it)
{
    const char *met;
    do {
        net_tell(it->members[1], "do meet before");
        met = net_hear(it->members[1], "met");
    } while (it->away->is_emptied && strncmp(met, "FERRY_E_STORE", 13) == 0);
    NET_CHECK(strncmp(met, "FERRY_E_FENCED", 14) == 0, "%s: %s", it->name, met);
}

/* The value that was set before. */
static void check_value(const job *it)
{
    const char *expected = it->away->is_emptied ? "FERRY_E_NOT_FOUND" : "FERRY_OK";
    net_tell(it->members[1], "do get");
    const char *said = net_hear(it->members[1], "got");
    NET_CHECK(strncmp(said, expected, strlen(expected)) == 0, "%s: got %s", it->name, said);
}

static int64_t await_new_start(const job *it, int member)
{
    return net_number(net_hear(it->members[member], "joined"), "incarnation");
}

/* When it is back. */
static void check_fate(job *it)
{
    switch (it->fate) {
    case FATES:
        break;
    case IS_DOUBLED:
    case ANOTHER_COMES:
        check_third(it);
        /* fall through */
    case LIVES:
    case IS_STOPPED:
        both_meet_again(it, "before");
        both_meet_again(it, "after");
        both(it, "exchange", "exchanged");
        check_value(it);
        break;
    case WAITS:
        net_tell(it->members[1], "do meet before");
        (void)is_lost_by_both(it, "before");
        both_meet(it, "before");
        break;
    case IS_STOPPED_LONG:
        net_tell(it->members[0], "do await death");
        (void)net_hear(it->members[0], "dead");
        net_signal(it->members[1], SIGCONT);
        check_fenced(it);
        break;
    case DIES:
        net_tell(it->members[0], "do await death");
        (void)net_hear(it->members[0], "dead");
        /* fall through */
    case LEAVES:
        if (it->fate == LEAVES)
            net_end(it->members[1]);
        it->members[1] = start_member(it, "worker", "rank=1");
        /* fall through */
    case IS_STARTED_ANEW: {
        const int64_t incarnation = await_new_start(it, 1);
        NET_CHECK(incarnation > 1, "%s: incarnation %lld", it->name, (long long)incarnation);
        net_tell(it->members[0], "do await new start");
        (void)net_hear(it->members[0], "new");
        both_meet_again(it, "after");
        check_news(it, 0, 2);
        break;
    }
    case ALL_ARE_STARTED_ANEW:
        NET_CHECK(await_new_start(it, 0) == await_new_start(it, 1), "%s: two groups", it->name);
        both_meet(it, "after");
        break;
    }
}

/* And nothing comes of it later either. */
static void check_later(const job *it)
{
    const bool all_live = it->fate == LIVES || it->fate == WAITS || it->fate == IS_STOPPED ||
                          it->fate == IS_DOUBLED || it->fate == ANOTHER_COMES;
    for (int i = 0; all_live && i < 2; i++)
        check_news(it, i, 0);
    if (it->fate != IS_STOPPED_LONG)
        both_meet(it, "after");
    net_pair_tell(it->members, "do end");
    net_pair_end(it->members);
}

static etcd_cluster *start_etcd(void)
{
    const char *missing = etcd_absent();
    if (missing)
        net_skip("%s", missing);
    etcd_cluster *cluster = etcd_cluster_start(3, NULL);
    NET_CHECK(cluster, "etcd does not start");
    return cluster;
}

static void run(const absence *away)
{
    etcd_cluster *cluster = start_etcd();
    job jobs[FATES];
    for (fate fate = 0; fate < FATES; fate++)
        start_job(&jobs[fate], fate, away, etcd_cluster_uri(cluster));
    for (fate fate = 0; fate < FATES; fate++)
        prepare(&jobs[fate]);
    away->begin(cluster);
    for (fate fate = 0; fate < FATES; fate++)
        meet_fate(&jobs[fate]);
    rest_ms(away->ms / 2);
    both(&jobs[LIVES], "exchange", "exchanged"); /* bytes need no store */
    rest_ms(away->ms / 2);
    net_signal(jobs[IS_STOPPED].members[1], SIGCONT);
    away->end(cluster);
    for (fate fate = 0; fate < FATES; fate++)
        check_fate(&jobs[fate]);
    rest_ms(LATER_MS);
    for (fate fate = 0; fate < FATES; fate++)
        check_later(&jobs[fate]);
    etcd_cluster_stop(cluster);
}

static void kill_all(etcd_cluster *cluster)
{
    for (unsigned node = 0; node < 3; node++)
        etcd_node_kill(cluster, node);
}

/* One after the other would wait for the others' votes. */
static void start_all(etcd_cluster *cluster)
{
    NET_CHECK(etcd_cluster_restart(cluster), "etcd does not start again");
}

static void empty(etcd_cluster *cluster)
{
    NET_CHECK(etcd_cluster_empty(cluster), "etcd does not start again");
}

static void pause_majority(etcd_cluster *cluster)
{
    const unsigned leader = etcd_cluster_leader(cluster) % 3;
    etcd_node_pause(cluster, leader);
    etcd_node_pause(cluster, (leader + 1) % 3);
}

static void stands_still_shortly(void)
{
    run(&(absence){etcd_cluster_pause, etcd_cluster_resume, SHORT_MS, false});
}

static void stands_still(void)
{
    run(&(absence){etcd_cluster_pause, etcd_cluster_resume, LONG_MS, false});
}

static void majority_stands_still(void)
{
    run(&(absence){pause_majority, etcd_cluster_resume, LONG_MS, false});
}

static void is_started_again(void)
{
    run(&(absence){kill_all, start_all, LONG_MS, false});
}

static void is_emptied_at_once(void)
{
    run(&(absence){kill_all, empty, 0, true});
}

static void is_emptied(void)
{
    run(&(absence){kill_all, empty, LONG_MS, true});
}

/* ---- one alone is cut off ---- */

static void one_is_cut_off(void)
{
    etcd_cluster *cluster = start_etcd();
    tcp_relay *relay = tcp_relay_start(etcd_node_address(cluster, 0));
    char direct[64], relayed[64];
    static const absence away;
    job it = {.name = "job=cut", .away = &away};
    (void)snprintf(direct, sizeof(direct), "store=etcd://%s", etcd_node_address(cluster, 1));
    (void)snprintf(relayed, sizeof(relayed), "store=etcd://127.0.0.1:%u", tcp_relay_port(relay));
    it.members[0] = net_start(NET_HERE, "worker", direct, it.name, "rank=0", "size=2", LEASE, NULL);
    it.members[1] =
        net_start(NET_HERE, "worker", relayed, it.name, "rank=1", "size=2", LEASE, NULL);
    net_pair_hear(it.members, "joined");
    both_meet(&it, "before");
    rest_ms(LONG_MS);
    tcp_relay_hold(relay, "/v3/");
    tcp_relay_cut(relay);
    rest_ms(SHORT_MS);
    tcp_relay_release(relay);
    both_meet(&it, "before");
    check_news(&it, 0, 0);
    tcp_relay_hold(relay, "/v3/");
    tcp_relay_cut(relay);
    /* Who can't reach the store for a lease is dead for those who can. */
    net_tell(it.members[0], "do await death");
    (void)net_hear(it.members[0], "dead");
    tcp_relay_release(relay);
    check_fenced(&it);
    net_pair_tell(it.members, "do end");
    net_pair_end(it.members);
    tcp_relay_stop(relay);
    etcd_cluster_stop(cluster);
}

/* ---- a store that is slow ---- */

static void one_is_slow(void)
{
    etcd_cluster *cluster = start_etcd();
    tcp_relay *relay = tcp_relay_start(etcd_node_address(cluster, 0));
    char direct[64], relayed[64];
    static const absence away;
    job it = {.name = "job=slow", .away = &away};
    (void)snprintf(direct, sizeof(direct), "store=etcd://%s", etcd_node_address(cluster, 1));
    (void)snprintf(relayed, sizeof(relayed), "store=etcd://127.0.0.1:%u", tcp_relay_port(relay));
    tcp_relay_slow(relay, 6 * SECOND_NS / 5);
    net_member *refused = net_start(NET_HERE, "joiner", relayed, it.name, "rank=1", "size=2",
                                    "lease_ms=2000", "deadline_ms=120000", NULL);
    const char *said = net_hear(refused, "joining");
    NET_CHECK(strncmp(said, "FERRY_E_INVALID", 15) == 0 &&
                  strstr(said, "a lease of 2.0 s is too short for it, as it takes") &&
                  strstr(said, "set lease_ns to"),
              "joining: %s", said);
    net_tell(refused, "end");
    net_end(refused);
    tcp_relay_slow(relay, 0);
    it.members[0] =
        net_start(NET_HERE, "worker", direct, it.name, "rank=0", "size=2", "lease_ms=9000", NULL);
    it.members[1] =
        net_start(NET_HERE, "worker", relayed, it.name, "rank=1", "size=2", "lease_ms=9000", NULL);
    net_pair_hear(it.members, "joined");
    both_meet(&it, "before");
    tcp_relay_slow(relay, 12 * SECOND_NS / 5); /* more than a quarter, and less than a third */
    rest_ms(16000);
    net_tell(it.members[1], "do look");
    const int64_t lines = net_number(net_hear(it.members[1], "other"), "slow");
    NET_CHECK(lines == 1, "it was said %lld times that the store is slow", (long long)lines);
    tcp_relay_slow(relay, 0);
    both_meet(&it, "before");
    for (int i = 0; i < 2; i++)
        check_news(&it, i, 0);
    net_pair_tell(it.members, "do end");
    net_pair_end(it.members);
    tcp_relay_stop(relay);
    etcd_cluster_stop(cluster);
}

int main(int argc, char **argv)
{
    static const net_role roles[] = {{"joiner", joiner}, {"worker", worker}};
    static const net_case cases[] = {{"stands_still_shortly", stands_still_shortly, 600},
                                     {"stands_still", stands_still, 600},
                                     {"majority_stands_still", majority_stands_still, 600},
                                     {"is_started_again", is_started_again, 600},
                                     {"is_emptied_at_once", is_emptied_at_once, 600},
                                     {"is_emptied", is_emptied, 600},
                                     {"one_is_cut_off", one_is_cut_off, 600},
                                     {"one_is_slow", one_is_slow, 600}};
    return net_test_main(argc, argv, roles, 2, cases, 8);
}
