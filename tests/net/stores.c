/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes wrong where members meet: some never come, two want one rank, the disk is full or can't
 * be written, secrets differ, etcd loses a node or is gone. What is under way goes on; what needs
 * the store fails, by its deadline at the latest.
 */
#include "tests/support/etcd_server.h"
#include "tests/support/net_self.h"
#include "tests/support/own_mounts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECOND_NS INT64_C(1000000000)
#define COUNT 200
#define SIZE_BYTES 16384
#define DEADLINE_MS 3000

/* ---- what members do ---- */

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

static void meet(net_self *self)
{
    ferry_barrier_options options = FERRY_BARRIER_OPTIONS_INIT;
    options.deadline_ns = net_self_deadline(DEADLINE_MS * INT64_C(1000000));
    (void)net_self_tell(self, "met", ferry_barrier(self->group, "here", &options));
}

/* Of a pair: does what it is told, and says when it is done. */
static int worker(int argc, char **argv)
{
    net_self self;
    ferry_tag tag = 10;
    net_self_join(&self, argc, argv);
    for (;;) {
        const char *what = net_await("do");
        if (strcmp(what, "exchange") == 0) {
            net_self_exchange(&self, tag += 10, COUNT, SIZE_BYTES);
            net_say("exchanged");
        } else if (strcmp(what, "probe") == 0) {
            net_self_probe(&self, self.rank == 0, tag += 10);
            net_say("probed");
        } else if (strcmp(what, "meet") == 0) {
            meet(&self);
        } else if (strcmp(what, "set") == 0) {
            static char value[60000];
            (void)net_self_tell(&self, "set",
                                ferry_group_set(self.group, "key", value, sizeof(value),
                                                net_self_deadline(3 * SECOND_NS)));
        } else {
            break;
        }
    }
    net_self_end(&self);
    return 0;
}

/* ---- what the tests do with them ---- */

static const char *file_store(void)
{
    static char store[128];
    (void)snprintf(store, sizeof(store), "store=file:%s/store", net_folder());
    return store;
}

static void start_pair_with_lease(net_member *pair[2], const char *store, const char *lease)
{
    for (int i = 0; i < 2; i++)
        pair[i] = net_start(NET_HERE, "worker", store, i == 0 ? "rank=0" : "rank=1", "size=2",
                            lease, NULL);
    net_pair_hear(pair, "joined");
}

static void start_pair(net_member *pair[2], const char *store)
{
    start_pair_with_lease(pair, store, "lease_ms=10000");
}

/* Both do it, and say so. */
static void both(net_member *pair[2], const char *what, const char *word)
{
    net_pair_tell(pair, "do %s", what);
    net_pair_hear(pair, word);
}

static void both_meet(net_member *pair[2], bool is_good)
{
    net_pair_tell(pair, "do meet");
    net_stopwatch watch = net_stopwatch_start();
    for (int i = 0; i < 2; i++) {
        const char *met = net_hear(pair[i], "met");
        NET_CHECK((strncmp(met, "FERRY_OK", 8) == 0) == is_good, "a barrier: %s", met);
        net_stopwatch_check(&watch, net_number(met, "at"),
                            DEADLINE_MS * INT64_C(1000000) + SECOND_NS, "a barrier");
    }
}

static void end_pair(net_member *pair[2])
{
    net_pair_tell(pair, "do end");
    net_pair_end(pair);
}

/* A join that must fail in one of these ways, by its deadline. Returns what it said. */
static const char *fail_to_join(const char *store, const char *rank, const char *size,
                                const char *more, const char *const *statuses)
{
    net_stopwatch watch = net_stopwatch_start();
    net_member *member =
        net_start(NET_HERE, "joiner", store, rank, size, "deadline_ms=3000", more, NULL);
    const char *said = net_hear(member, "joining");
    bool is_right = false;
    for (size_t i = 0; statuses[i]; i++)
        is_right |= strncmp(said, statuses[i], strlen(statuses[i])) == 0;
    NET_CHECK(is_right, "a join that can't be: %s", said);
    net_stopwatch_check(&watch, net_number(said, "at"), (DEADLINE_MS + 1500) * INT64_C(1000000),
                        "a join that can't be");
    net_tell(member, "end");
    net_end(member);
    return said;
}

static void absent(void)
{
    net_member *members[2];
    net_stopwatch watch = net_stopwatch_start();
    for (int i = 0; i < 2; i++)
        members[i] = net_start(NET_HERE, "joiner", file_store(), i == 0 ? "rank=0" : "rank=2",
                               "size=4", "deadline_ms=3000", NULL);
    for (int i = 0; i < 2; i++) {
        const char *said = net_hear(members[i], "joining");
        NET_CHECK(strncmp(said, "FERRY_E_DEADLINE ", 17) == 0, "%s", said);
        const char *message = strstr(said, " at=");
        message = message ? strchr(message + 1, ' ') : NULL;
        NET_CHECK(message && strpbrk(message, "1") && strpbrk(message, "3"),
                  "1 and 3 never came, but: %s", said);
        net_stopwatch_check(&watch, net_number(said, "at"), (DEADLINE_MS + 1500) * INT64_C(1000000),
                            "not being joined");
        net_tell(members[i], "end");
    }
    net_pair_end(members);
}

static void same_rank(void)
{
    static const char *const fenced[] = {"FERRY_E_FENCED", NULL};
    net_member *pair[2];
    start_pair(pair, file_store());
    both(pair, "exchange", "exchanged");
    (void)fail_to_join(file_store(), "rank=1", "size=2", NULL, fenced);
    both(pair, "exchange", "exchanged");
    both_meet(pair, true);
    end_pair(pair);
}

static void secrets(void)
{
    static const char *const refused[] = {"FERRY_E_", NULL};
    char store[128];
    (void)snprintf(store, sizeof(store), "%s", file_store());
    net_member *first =
        net_start(NET_HERE, "worker", store, "rank=0", "size=2", "secret=0123456789abcdef", NULL);
    (void)fail_to_join(store, "rank=1", "size=2", "secret=another one of 16", refused);
    net_member *second =
        net_start(NET_HERE, "worker", store, "rank=1", "size=2", "secret=0123456789abcdef", NULL);
    net_member *pair[2] = {first, second};
    net_pair_hear(pair, "joined");
    both(pair, "probe", "probed");
    both(pair, "exchange", "exchanged");
    end_pair(pair);
}

/* A disk of its own for the store, that only this test and its members see. */
static const char *own_disk(const char *options)
{
    static char path[128];
    if (geteuid() != 0)
        net_skip("mounting takes root");
    (void)snprintf(path, sizeof(path), "%s/disk", net_folder());
    if (own_mounts() != 0)
        net_skip("no mounts of our own: %s", strerror(errno));
    if (mkdir(path, 0700) != 0)
        net_fail("cannot make %s: %s", path, strerror(errno));
    if (mount("tmpfs", path, "tmpfs", 0, options) != 0)
        net_skip("a disk of our own is not allowed here: %s", strerror(errno));
    return path;
}

static void unwritable(void)
{
    static const char *const refused[] = {"FERRY_E_STORE", "FERRY_E_SYSTEM", NULL};
    char store[192];
    const char *disk = own_disk("size=64k,mode=0700");
    NET_CHECK(mount(NULL, disk, NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0, "%s", strerror(errno));
    (void)snprintf(store, sizeof(store), "store=file:%s/store", disk);
    (void)fail_to_join(store, "rank=0", "size=1", NULL, refused);
}

static void full_disk(void)
{
    net_member *pair[2];
    char store[192];
    char path[192];
    static const char zeros[4096];
    const char *disk = own_disk("size=512k,mode=0700");
    (void)snprintf(store, sizeof(store), "store=file:%s/store", disk);
    (void)snprintf(path, sizeof(path), "%s/rest", disk);
    start_pair(pair, store);
    both(pair, "exchange", "exchanged");
    FILE *rest = fopen(path, "we");
    NET_CHECK(rest, "%s: %s", path, strerror(errno));
    while (fwrite(zeros, sizeof(zeros), 1, rest) == 1 && fflush(rest) == 0)
        continue;
    (void)fclose(rest);
    net_tell(pair[0], "do set");
    const char *said = net_hear(pair[0], "set");
    NET_CHECK(strncmp(said, "FERRY_E_STORE", 13) == 0, "setting on a full disk: %s", said);
    both(pair, "exchange", "exchanged");
    NET_CHECK(unlink(path) == 0, "%s: %s", path, strerror(errno));
    net_tell(pair[0], "do set");
    said = net_hear(pair[0], "set");
    NET_CHECK(strncmp(said, "FERRY_OK", 8) == 0, "when there is room again: %s", said);
    both_meet(pair, true);
    end_pair(pair);
}

static etcd_cluster *start_etcd(unsigned nodes, char *store, size_t store_bytes)
{
    const char *missing = etcd_absent();
    if (missing)
        net_skip("%s", missing);
    etcd_cluster *cluster = etcd_cluster_start(nodes, NULL);
    NET_CHECK(cluster, "etcd does not start");
    (void)snprintf(store, store_bytes, "store=%s", etcd_cluster_uri(cluster));
    return cluster;
}

static void etcd_node(void)
{
    net_member *pair[2];
    char store[512];
    etcd_cluster *cluster = start_etcd(3, store, sizeof(store));
    start_pair(pair, store);
    both(pair, "exchange", "exchanged");
    etcd_node_kill(cluster, etcd_cluster_leader(cluster) % 3);
    both(pair, "exchange", "exchanged");
    const char *said;
    /*
     * Whom the old leader's death has left without an answer fails by the deadline; then all is as
     * before. On a busy machine etcd may need several of these deadlines to agree on a leader.
     */
    unsigned tries = 0;
    do {
        net_tell(pair[0], "do set");
        said = net_hear(pair[0], "set");
        printf("setting without a node: %s\n", said);
    } while (strncmp(said, "FERRY_OK", 8) != 0 && ++tries < 10);
    NET_CHECK(strncmp(said, "FERRY_OK", 8) == 0, "setting without a node: %s", said);
    both_meet(pair, true);
    end_pair(pair);
    etcd_cluster_stop(cluster);
}

static void etcd_gone(void)
{
    static const char *const refused[] = {"FERRY_E_STORE", "FERRY_E_DEADLINE", NULL};
    net_member *pair[2];
    char store[512];
    etcd_cluster *cluster = start_etcd(1, store, sizeof(store));
    start_pair_with_lease(pair, store, "lease_ms=2000");
    both(pair, "exchange", "exchanged");
    etcd_node_kill(cluster, 0);
    /* This takes longer than the lease. */
    (void)fail_to_join(store, "rank=0", "size=1", NULL, refused);
    both(pair, "exchange", "exchanged");
    both_meet(pair, false);
    both(pair, "exchange", "exchanged");
    NET_CHECK(etcd_node_restart(cluster, 0), "etcd does not start again");
    both(pair, "exchange", "exchanged");
    end_pair(pair);
    etcd_cluster_stop(cluster);
}

int main(int argc, char **argv)
{
    static const net_role roles[] = {{"joiner", joiner}, {"worker", worker}};
    static const net_case cases[] = {{"absent", absent, 30},       {"same_rank", same_rank, 30},
                                     {"secrets", secrets, 60},     {"unwritable", unwritable, 30},
                                     {"full_disk", full_disk, 40}, {"etcd_node", etcd_node, 60},
                                     {"etcd_gone", etcd_gone, 60}};
    return net_test_main(argc, argv, roles, 2, cases, 7);
}
