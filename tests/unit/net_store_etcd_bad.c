/* SPDX-License-Identifier: Apache-2.0 */
/* What says it is etcd, or is asked as if it were: it may say what it likes, and nothing hangs. */
#include "tests/support/bad_server.h"
#include "tests/support/driven_reactor.h"
#include "tests/support/etcd_server.h"
#include "tests/support/failing_allocator.h"

#include "net/store/open.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define NS_PER_MS INT64_C(1000000)
#define DEADLINE_NS (INT64_C(400) * NS_PER_MS)
#define MEMORY_BYTES_MAX (INT64_C(40) << 20)

static failing_allocator allocator;
static fry_memory memory;
static fry_log sink;
static fry_clock real;
static fry_reactor reactor;
static fry_store *store;
static char last_line[FRY_LOG_LINE_BYTES];

static void take_line(void *arg, ferry_log_level level, const char *line)
{
    (void)arg;
    (void)level;
    (void)snprintf(last_line, sizeof last_line, "%s", line);
}

static void open_reactor(void)
{
    failing_allocator_init(&allocator);
    const ferry_allocator interface = failing_allocator_interface(&allocator);
    fry_memory_init(&memory, &interface);
    fry_log_init(&sink, take_line, NULL);
    fry_clock_init(&real, NULL);
    cr_assert_eq(driven_reactor_open(&reactor, &memory, &sink, &real), FERRY_OK);
}

static void close_reactor(void)
{
    cr_assert_eq(fry_reactor_next_ns(&reactor), INT64_MAX);
    driven_reactor_close(&reactor);
    cr_assert_eq(failing_allocator_live_bytes(&allocator), 0);
}

static void open_store(const char *uri, const fry_store_options *options)
{
    fry_error *error;

    cr_assert_eq(fry_store_open(&reactor, uri, options, &store, &error), FERRY_OK);
}

static void turn(void)
{
    (void)driven_reactor_run(&reactor, 100 * NS_PER_MS);
    cr_assert_lt(failing_allocator_live_bytes(&allocator), MEMORY_BYTES_MAX);
}

typedef struct ask {
    fry_store_request request;
    ferry_status status;
    char why[256];
} ask;

static void is_done(fry_store_request *request, ferry_status status, const fry_store_entry *entries,
                    size_t count, const char *why)
{
    ask *a = request->arg;

    (void)entries;
    (void)count;
    a->status = status;
    (void)snprintf(a->why, sizeof a->why, "%s", why != NULL ? why : "");
}

static void submit(ask *a, fry_store_verb verb, int64_t within_ns)
{
    *a = (ask){.status = FERRY_PENDING,
               .request = {.verb = verb,
                           .key = "bad/key",
                           .value = "value",
                           .value_bytes = 5,
                           .version = verb == FRY_STORE_SWAP ? 3 : 0,
                           .deadline_ns = fry_reactor_now_ns(&reactor) + within_ns,
                           .done = is_done,
                           .arg = a}};
    fry_store_submit(store, &a->request);
}

static bool is_harmless(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return false;
    return true;
}

typedef struct told {
    fry_store_watch watch;
    size_t lost, healthy, entries;
} told;

static void is_told(fry_store_watch *watch, fry_store_event event, const fry_store_entry *entry)
{
    told *t = watch->arg;

    (void)entry;
    t->lost += event == FRY_STORE_IS_LOST;
    t->healthy += event == FRY_STORE_IS_HEALTHY;
    t->entries += event == FRY_STORE_IS_PUT || event == FRY_STORE_IS_DELETED;
}

typedef struct lease_told {
    fry_store_lease lease;
    bool is_refused, is_granted;
} lease_told;

static void lease_is_told(fry_store_lease *lease, fry_lease_event event, const char *why)
{
    lease_told *t = lease->arg;

    cr_assert(is_harmless(why != NULL ? why : ""));
    t->is_refused = event == FRY_LEASE_REFUSED;
    t->is_granted = event == FRY_LEASE_GRANTED;
}

ParameterizedTestParameters(net_store_etcd_bad, every_request_ends)
{
    static bad_manner manners[BAD_MANNERS];

    for (int i = 0; i < BAD_MANNERS; i++)
        manners[i] = (bad_manner)i;
    return cr_make_param_array(bad_manner, manners, BAD_MANNERS);
}

/* Requests of every verb, a lease and a watch, of a server that is none. */
ParameterizedTest(bad_manner *manner, net_store_etcd_bad, every_request_ends, .init = open_reactor,
                  .fini = close_reactor, .timeout = 60)
{
    bad_server *server = bad_server_start(*manner);
    char uri[64];
    ask asks[6];
    told t = {.lost = 0};
    lease_told l = {.is_refused = false};

    (void)snprintf(uri, sizeof uri, "etcd://127.0.0.1:%u", bad_server_port(server));
    open_store(uri, NULL);
    t.watch = (fry_store_watch){.prefix = "bad/", .fn = is_told, .arg = &t};
    fry_store_watch_start(store, &t.watch);
    l.lease = (fry_store_lease){.ttl_ns = FRY_STORE_LEASE_MIN_NS,
                                .deadline_ns = fry_reactor_now_ns(&reactor) + DEADLINE_NS,
                                .fn = lease_is_told,
                                .arg = &l};
    fry_store_lease_open(store, &l.lease);
    for (int verb = FRY_STORE_GET; verb <= FRY_STORE_LIST; verb++)
        submit(&asks[verb], (fry_store_verb)verb, DEADLINE_NS);
    const bool is_list_good = *manner >= BAD_WATCH_GARBAGE;
    for (int verb = FRY_STORE_GET; verb <= FRY_STORE_LIST; verb++) {
        while (asks[verb].status == FERRY_PENDING)
            turn();
        cr_assert(is_harmless(asks[verb].why), "%s", bad_manner_name(*manner));
        cr_assert_neq(asks[verb].why[0] == '\0' && asks[verb].status != FERRY_OK &&
                          asks[verb].status != FERRY_E_NOT_FOUND,
                      1);
        if (!is_list_good)
            cr_assert(asks[verb].status == FERRY_E_STORE || asks[verb].status == FERRY_E_DEADLINE,
                      "%s: verb %d: %s", bad_manner_name(*manner), verb,
                      ferry_status_name(asks[verb].status));
    }
    while (!l.is_refused)
        turn();
    while (t.lost == 0 && *manner != BAD_WATCH_ENDLESS && !is_list_good)
        turn();
    for (int i = 0; i < 20; i++)
        turn();
    cr_assert_eq(t.entries, 0);
    cr_assert(is_harmless(last_line));
    cr_assert_gt(bad_server_requests(server), 0);
    fry_store_watch_stop(&t.watch);
    fry_store_close(store);
    bad_server_stop(server);
}

/* With a real one beside them they do no harm but delay. */
static void beside(bad_manner manner)
{
    etcd_cluster *cluster = etcd_cluster_start(1, NULL);
    bad_server *server = bad_server_start(manner);
    char uri[128];
    ask a;

    cr_assert_not_null(cluster);
    for (int order = 0; order < 2; order++) {
        told t = {.lost = 0};

        (void)snprintf(uri, sizeof uri,
                       order == 0 ? "etcd://127.0.0.1:%u,%s" : "etcd://%2$s,127.0.0.1:%1$u",
                       bad_server_port(server), etcd_node_address(cluster, 0));
        open_store(uri, NULL);
        t.watch = (fry_store_watch){.prefix = "bad/", .fn = is_told, .arg = &t};
        fry_store_watch_start(store, &t.watch);
        submit(&a, FRY_STORE_PUT, 30000 * NS_PER_MS);
        while (a.status == FERRY_PENDING || t.entries == 0)
            turn();
        cr_assert_eq(a.status, FERRY_OK, "%s", a.why);
        submit(&a, FRY_STORE_GET, 30000 * NS_PER_MS);
        while (a.status == FERRY_PENDING)
            turn();
        cr_assert_eq(a.status, FERRY_OK, "%s", a.why);
        fry_store_watch_stop(&t.watch);
        fry_store_close(store);
    }
    bad_server_stop(server);
    etcd_cluster_stop(cluster);
}

#define BESIDE(name, manner)                                                                       \
    Test(net_store_etcd_bad, name, .init = open_reactor, .fini = close_reactor, .timeout = 60)     \
    {                                                                                              \
        if (etcd_absent() != NULL)                                                                 \
            cr_skip_test("%s", etcd_absent());                                                     \
        beside(manner);                                                                            \
    }
BESIDE(beside_one_that_closes, BAD_CLOSES)
BESIDE(beside_one_without_json, BAD_NO_JSON)
BESIDE(beside_one_that_is_silent, BAD_SILENT)
BESIDE(beside_one_with_errors, BAD_ERROR_500)

Test(net_store_etcd_bad, uris_and_options, .init = open_reactor, .fini = close_reactor)
{
    static const char *const bad[] = {"etcd://",
                                      "etcd://,a:1",
                                      "etcd://a:1,",
                                      "etcd://a:0",
                                      "etcd://a:65536",
                                      "etcd://a:",
                                      "etcd://a:1x",
                                      "etcd://a/b",
                                      "etcd://a b",
                                      "etcd://[::1",
                                      "etcd://[]:1",
                                      "etcd://[::g]:1",
                                      "etcd://u:secret@a:1",
                                      "etcd://a:1\r\nX: y",
                                      "etcd://a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a"};
    static const char *const good[] = {"etcd://a", "etcds://a.b-c:2379,10.0.0.1",
                                       "etcd://[::1]:1,[::1]"};
    static const fry_store_options halves[] = {{.user = "u"},
                                               {.password = "secret"},
                                               {.certificate_path = "c"},
                                               {.key_path = "k"},
                                               {.ca_path = "c"}};
    fry_error *error;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert_eq(fry_store_open(&reactor, bad[i], NULL, &store, &error), FERRY_E_INVALID, "%s",
                     bad[i]);
        cr_assert_null(strstr(error->public_.message, "secret"));
        fry_error_release(error);
    }
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++) {
        cr_assert_eq(fry_store_open(&reactor, "etcd://a", &halves[i], &store, &error),
                     FERRY_E_INVALID);
        cr_assert_null(strstr(error->public_.message, "secret"));
        fry_error_release(error);
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        open_store(good[i], NULL);
        cr_assert_str_eq(fry_store_name(store), good[i]);
        fry_store_close(store);
    }
}

/* A name that does not exist: asked for on another thread, and given up without waiting for it. */
Test(net_store_etcd_bad, a_name_that_is_none, .init = open_reactor, .fini = close_reactor,
     .timeout = 60)
{
    ask a;

    open_store("etcd://no-such-host.invalid:1", NULL);
    submit(&a, FRY_STORE_GET, DEADLINE_NS);
    while (a.status == FERRY_PENDING)
        turn();
    cr_assert_eq(a.status, FERRY_E_DEADLINE);
    fry_store_close(store);
}

/* Each allocation in turn fails: every request ends, and nothing is lost. */
Test(net_store_etcd_bad, without_memory, .timeout = 120)
{
    if (etcd_absent() != NULL)
        cr_skip_test("%s", etcd_absent());
    etcd_cluster *cluster = etcd_cluster_start(1, NULL);
    cr_assert_not_null(cluster);
    for (uint64_t nth = 1;; nth++) {
        ask asks[6];
        told t = {.lost = 0};
        lease_told l = {.is_refused = false};
        fry_error *error;

        open_reactor();
        failing_allocator_arm(&allocator, nth, false);
        if (fry_store_open(&reactor, etcd_cluster_uri(cluster), NULL, &store, &error) == FERRY_OK) {
            t.watch = (fry_store_watch){.prefix = "bad/", .fn = is_told, .arg = &t};
            fry_store_watch_start(store, &t.watch);
            l.lease =
                (fry_store_lease){.ttl_ns = FRY_STORE_LEASE_MIN_NS, .fn = lease_is_told, .arg = &l};
            fry_store_lease_open(store, &l.lease);
            for (int verb = FRY_STORE_GET; verb <= FRY_STORE_LIST; verb++) {
                submit(&asks[verb], (fry_store_verb)verb, 20000 * NS_PER_MS);
                while (asks[verb].status == FERRY_PENDING)
                    turn();
                cr_assert_neq(asks[verb].status, FERRY_E_DEADLINE, "%d of %d", verb, (int)nth);
            }
            while (!l.is_refused && !l.is_granted)
                turn();
            fry_store_lease_close(&l.lease);
            submit(&asks[0], FRY_STORE_PUT, 20000 * NS_PER_MS);
            while (asks[0].status == FERRY_PENDING || t.entries == 0)
                turn();
            fry_store_watch_stop(&t.watch);
            fry_store_close(store);
        } else {
            fry_error_release(error);
        }
        const bool is_over = failing_allocator_failures(&allocator) == 0;
        close_reactor();
        if (is_over)
            break;
    }
    etcd_cluster_stop(cluster);
}
