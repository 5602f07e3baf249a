/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An open group of three processes at most: two stay, and third ones come and go. They are killed
 * while they join, once they have joined, and while they leave; or a member that stays is stopped
 * or killed before it has acknowledged that another one left. Whatever the moment,
 *
 *  - the next member gets the rank, as soon as no live member holds it back, and not before;
 *  - it exchanges messages with the members that stay;
 *  - these hear the same events in the same order, with nothing left out.
 *
 * By a store of files on one host, the same by etcd, and with a host for each of them.
 */
#include "tests/support/etcd_server.h"
#include "tests/support/net_hosts.h"
#include "tests/support/net_self.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MILLISECOND_NS INT64_C(1000000)
#define KEEPER 0
#define WITNESS 1
#define THIRD 2
#define TIMES 12
#define EVENTS_MAX 256

/* ---- who stays ---- */

/* Says each event, and meets each third member that comes. */
static void *hear(void *arg)
{
    net_self *self = arg;
    ferry_status status = FERRY_OK;
    while (status == FERRY_OK) {
        ferry_value value = FERRY_VALUE_INIT;
        ferry_future *next = ferry_group_event_next(self->group, 0);
        status = ferry_future_wait(next, -1);
        if (status == FERRY_OK && ferry_future_value(next, &value) == FERRY_OK) {
            const ferry_group_event *event = value.data;
            NET_SELF_CHECK(event->lost == 0, "%" PRIu64 " events were lost", event->lost);
            net_say("event number=%" PRIu64 " rank=%u what=%d incarnation=%" PRIu64, value.version,
                    event->rank, (int)event->what, event->incarnation);
        }
        ferry_future_release(next);
    }
    return NULL;
}

static int stays(int argc, char **argv)
{
    net_self self;
    pthread_t hearer;
    net_self_join(&self, argc, argv);
    if (self.rank == KEEPER) /* so that its events begin with the other one that stays */
        (void)net_await("hear");
    NET_SELF_CHECK(pthread_create(&hearer, NULL, hear, &self) == 0, "no thread");
    (void)net_await("end");
    ferry_future *left = ferry_group_leave(self.group);
    NET_SELF_CHECK(ferry_future_wait(left, -1) == FERRY_OK, "it does not leave");
    ferry_future_release(left);
    pthread_join(hearer, NULL);
    net_say("left");
    net_self_end(&self);
    return 0;
}

/* ---- who comes and goes ---- */

static int comes(int argc, char **argv)
{
    net_self self;
    net_self_join(&self, argc, argv);
    for (ferry_rank peer = 0; peer < 2; peer++) {
        ferry_future *told = ferry_notice_send(self.group, peer, "here", 4, NULL);
        ferry_future_release(told); /* nobody takes it: it only makes a connection */
    }
    (void)net_await("leave");
    net_say("leaving");
    ferry_future *left = ferry_group_leave(self.group);
    NET_SELF_CHECK(ferry_future_wait(left, -1) == FERRY_OK, "it does not leave");
    ferry_future_release(left);
    net_say("left");
    net_self_end(&self);
    return 0;
}

/* ---- the test ---- */

typedef struct scene {
    net_member *keeper, *witness;
} scene;

/* Of the case that runs. */
static struct {
    const char *uri; /* NULL: files in the test's folder */
    bool has_hosts;  /* each rank has a host of its own */
    int times;
} place = {.times = TIMES};

static net_member *start(const char *role, int host)
{
    char store[512];
    if (place.uri != NULL)
        (void)snprintf(store, sizeof store, "store=%s", place.uri);
    else
        (void)snprintf(store, sizeof store, "store=file:%s/store", net_folder());
    return net_start(place.has_hosts ? host : NET_HERE, role, store, "size=3", "open=1",
                     "linger_ms=1", place.has_hosts ? "lease_ms=2000" : "lease_ms=5000",
                     place.has_hosts ? "network=eth0" : "network=lo", NULL);
}

static scene begin(void)
{
    scene s = {.keeper = start("stays", KEEPER)};
    NET_CHECK(net_number(net_hear(s.keeper, "joined"), "rank") == KEEPER, "it is not the first");
    s.witness = start("stays", WITNESS);
    NET_CHECK(net_number(net_hear(s.witness, "joined"), "rank") == WITNESS, "it is not the second");
    net_tell(s.keeper, "hear");
    return s;
}

/* A third member that joins whatever its former one has come to; its incarnation. */
static int64_t join_third(net_member **third_p)
{
    *third_p = start("comes", THIRD);
    const char *joined = net_hear(*third_p, "joined");
    NET_CHECK(net_number(joined, "rank") == THIRD, "it has another rank: %s", joined);
    return net_number(joined, "incarnation");
}

/* The member's events, up to that one; returns how many. */
static size_t read_events(net_member *member, int64_t incarnation, char (*events)[128])
{
    for (size_t i = 0; i < EVENTS_MAX; i++) {
        (void)snprintf(events[i], sizeof events[i], "%s", net_hear(member, "event"));
        if (net_number(events[i], "what") == FERRY_MEMBER_HERE &&
            net_number(events[i], "incarnation") == incarnation)
            return i + 1;
    }
    net_fail("no event says that incarnation %" PRId64 " has joined", incarnation);
}

/* Both that stay have heard the same, in which joining and ending take turns. */
static void check_events(const scene *s, int64_t last)
{
    static char heard[2][EVENTS_MAX][128];
    size_t count = read_events(s->keeper, last, heard[0]);
    size_t witnessed = read_events(s->witness, last, heard[1]);
    NET_CHECK(count == witnessed + 1, "%zu events, and %zu", count, witnessed);
    int64_t number = 0;
    for (size_t i = 0; i < count; i++) {
        const char *event = heard[0][i];
        NET_CHECK(i == 0 || strcmp(event, heard[1][i - 1]) == 0, "%s, and %s", event,
                  heard[1][i - 1]);
        NET_CHECK(net_number(event, "number") > number, "out of order: %s", event);
        number = net_number(event, "number");
        NET_CHECK(net_number(event, "rank") == (i == 0 ? WITNESS : THIRD), "whose: %s", event);
        NET_CHECK(i == 0 || (net_number(event, "what") == FERRY_MEMBER_HERE) == (i % 2 == 1),
                  "joining and ending do not take turns: %s", event);
    }
}

static void end_third(net_member *third)
{
    net_tell(third, "leave");
    (void)net_hear(third, "leaving");
    (void)net_hear(third, "left");
    net_end(third);
}

static void end(const scene *s)
{
    net_member *both[] = {s->keeper, s->witness};
    for (size_t i = 0; i < 2; i++)
        net_tell(both[i], "end");
    for (size_t i = 0; i < 2; i++) {
        net_member *const one[] = {both[i]};
        const char *line = "";
        size_t which;
        while (strncmp(line, "left", 4) != 0) /* events may come before */
            NET_CHECK(net_listen(one, 1, INT64_MAX, &which, &line) == NET_LINE, "it has ended");
        net_end(both[i]);
    }
}

/* At a moment that comes a little later each time. */
static void while_joining(void)
{
    scene s = begin();
    net_member *third;
    for (int i = 0; i < place.times; i++) {
        third = start("comes", THIRD);
        net_rest(i * 2 * MILLISECOND_NS);
        net_signal(third, SIGKILL);
        net_end_by(third, SIGKILL);
    }
    check_events(&s, join_third(&third));
    end_third(third);
    end(&s);
}

static void once_joined(void)
{
    scene s = begin();
    net_member *third;
    for (int i = 0; i < place.times; i++) {
        (void)join_third(&third);
        net_signal(third, SIGKILL);
        net_end_by(third, SIGKILL);
    }
    check_events(&s, join_third(&third));
    end_third(third);
    end(&s);
}

static void while_leaving(void)
{
    scene s = begin();
    net_member *third;
    for (int i = 0; i < place.times; i++) {
        (void)join_third(&third);
        net_tell(third, "leave");
        (void)net_hear(third, "leaving");
        net_rest(i * MILLISECOND_NS / 2);
        net_signal(third, SIGKILL);
        int status = net_end_status(third); /* it may have ended by itself */
        NET_CHECK(status == 0 || status == SIGKILL, "it ends with %d", status);
    }
    check_events(&s, join_third(&third));
    end_third(third);
    end(&s);
}

/*
 * A third member leaves while the witness stands still, so the next one is not let in. Then the
 * witness goes on, or it is killed.
 */
static void before_acknowledging(bool is_killed)
{
    scene s = begin();
    net_member *third, *next;
    (void)join_third(&third);
    net_signal(s.witness, SIGSTOP);
    end_third(third);
    next = start("comes", THIRD);
    size_t which;
    const char *line;
    net_news news = net_listen(&next, 1, 700 * MILLISECOND_NS, &which, &line);
    NET_CHECK(news == NET_NOTHING, "it has joined though a member has not acknowledged");
    net_signal(s.witness, is_killed ? SIGKILL : SIGCONT);
    int64_t rank = net_number(net_hear(next, "joined"), "rank");
    NET_CHECK(rank == THIRD || (is_killed && rank == WITNESS), "rank %" PRId64, rank);
    end_third(next);
    if (!is_killed) {
        end(&s);
        return;
    }
    net_end_by(s.witness, SIGKILL);
    net_tell(s.keeper, "end");
    net_member *const one[] = {s.keeper};
    line = "";
    while (strncmp(line, "left", 4) != 0)
        NET_CHECK(net_listen(one, 1, INT64_MAX, &which, &line) == NET_LINE, "it has ended");
    net_end(s.keeper);
}

static void acknowledged_late(void)
{
    before_acknowledging(false);
}

static void killed_before_acknowledging(void)
{
    before_acknowledging(true);
}

/* The lowest rank, which lets others in, is killed while one waits. */
static void keeper_is_killed(void)
{
    scene s = begin();
    net_member *third, *next;
    (void)join_third(&third);
    net_signal(s.keeper, SIGSTOP);
    end_third(third);
    next = start("comes", THIRD);
    net_signal(s.keeper, SIGKILL);
    net_end_by(s.keeper, SIGKILL);
    int64_t rank = net_number(net_hear(next, "joined"), "rank");
    NET_CHECK(rank == THIRD || rank == KEEPER, "rank %" PRId64, rank);
    end_third(next);
    net_signal(s.witness, SIGKILL);
    net_end_by(s.witness, SIGKILL);
    /* All have ended: the next one forms the group anew. */
    net_member *first = start("comes", THIRD);
    NET_CHECK(net_number(net_hear(first, "joined"), "rank") == 0, "it is not the first");
    net_signal(first, SIGKILL);
    net_end_by(first, SIGKILL);
}

/* ---- elsewhere ---- */

static void by_etcd(void (*body)(void))
{
    const char *missing = etcd_absent();
    if (missing)
        net_skip("%s", missing);
    etcd_cluster *cluster = etcd_cluster_start(1, NULL);
    NET_CHECK(cluster != NULL, "etcd does not start");
    place.uri = etcd_cluster_uri(cluster);
    body();
    etcd_cluster_stop(cluster);
}

static void with_hosts(void (*body)(void))
{
    net_hosts_open(3, NET_CABLE_VETH);
    place.has_hosts = true;
    place.times = 3; /* a death is known after a lease */
    body();
}

static void etcd_while_joining(void)
{
    by_etcd(while_joining);
}

static void etcd_while_leaving(void)
{
    by_etcd(while_leaving);
}

static void etcd_acknowledged_late(void)
{
    by_etcd(acknowledged_late);
}

static void etcd_keeper_is_killed(void)
{
    by_etcd(keeper_is_killed);
}

static void hosts_once_joined(void)
{
    with_hosts(once_joined);
}

static void hosts_while_leaving(void)
{
    with_hosts(while_leaving);
}

static void hosts_keeper_is_killed(void)
{
    with_hosts(keeper_is_killed);
}

int main(int argc, char **argv)
{
    static const net_role roles[] = {{"stays", stays}, {"comes", comes}};
    static const net_case cases[] = {
        {"while_joining", while_joining, 60},
        {"once_joined", once_joined, 60},
        {"while_leaving", while_leaving, 60},
        {"acknowledged_late", acknowledged_late, 60},
        {"killed_before_acknowledging", killed_before_acknowledging, 60},
        {"keeper_is_killed", keeper_is_killed, 60},
        {"etcd_while_joining", etcd_while_joining, 90},
        {"etcd_while_leaving", etcd_while_leaving, 90},
        {"etcd_acknowledged_late", etcd_acknowledged_late, 90},
        {"etcd_keeper_is_killed", etcd_keeper_is_killed, 90},
        {"hosts_once_joined", hosts_once_joined, 90},
        {"hosts_while_leaving", hosts_while_leaving, 90},
        {"hosts_keeper_is_killed", hosts_keeper_is_killed, 90},
    };
    return net_test_main(argc, argv, roles, 2, cases, sizeof cases / sizeof *cases);
}
