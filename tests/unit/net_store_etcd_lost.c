/* SPDX-License-Identifier: Apache-2.0 */
/* etcd: answers that are lost on their way, streams that are cut, revisions that are compacted. */
#include "tests/support/etcd_server.h"
#include "tests/support/store_suite.h"
#include "tests/support/tcp_relay.h"

#include <criterion/criterion.h>
#include <string.h>

#define WATCHES 8

static etcd_cluster *cluster;
static tcp_relay *relay;
static store_place relayed, direct;
static store_rig rig, other_rig;
static store_client *client, *other; /* through the relay, and not */

static void start_with(bool is_stepped)
{
    static char uri[64];

    if (etcd_absent() != NULL)
        cr_skip_test("%s", etcd_absent());
    cluster = etcd_cluster_start(1, NULL);
    cr_assert_not_null(cluster);
    relay = tcp_relay_start(etcd_node_address(cluster, 0));
    (void)snprintf(uri, sizeof uri, "etcd://127.0.0.1:%u", tcp_relay_port(relay));
    relayed.uri = uri;
    relayed.is_stepped = is_stepped;
    direct.uri = etcd_cluster_uri(cluster);
    store_rig_open(&rig, &relayed, 1);
    store_rig_open(&other_rig, &direct, 1);
    (void)strcpy(other_rig.prefix, rig.prefix);
    client = &rig.clients[0];
    other = &other_rig.clients[0];
}

static void start(void)
{
    start_with(false);
}

static void start_stepped(void)
{
    start_with(true);
}

static void stop(void)
{
    store_rig_close(&rig);
    store_rig_close(&other_rig);
    tcp_relay_stop(relay);
    etcd_cluster_stop(cluster);
}

TestSuite(net_store_etcd_lost, .init = start, .fini = stop, .timeout = 60);

static uint64_t version_of(const char *key)
{
    store_ask ask;

    cr_assert_eq(store_get(other, key, &ask), FERRY_OK);
    const uint64_t version = ask.entry.version;
    store_ask_free(&ask);
    return version;
}

Test(net_store_etcd_lost, a_create_happens_once_and_is_its_own)
{
    store_ask ask;

    tcp_relay_drop(relay, "/v3/kv/txn", 2);
    cr_assert_eq(store_ask_with(client, FRY_STORE_CREATE, "key", "mine", 0, &ask), FERRY_OK);
    cr_assert_eq(tcp_relay_dropped(relay), 2);
    cr_assert_eq(ask.count, 1);
    cr_assert_eq(ask.entry.version, version_of("key"));
    store_ask_free(&ask);
}

Test(net_store_etcd_lost, a_create_does_not_take_anothers_for_its_own)
{
    store_ask ask;

    cr_assert_eq(store_try(other, FRY_STORE_CREATE, "key", "theirs", 0), FERRY_OK);
    tcp_relay_drop(relay, "/v3/kv/txn", 1);
    cr_assert_eq(store_ask_with(client, FRY_STORE_CREATE, "key", "mine", 0, &ask), FERRY_E_CHANGED);
    cr_assert(store_has_value(&ask, "theirs"));
    cr_assert_eq(tcp_relay_dropped(relay), 1);
    store_ask_free(&ask);
}

Test(net_store_etcd_lost, a_lease_tells_whose_a_create_was)
{
    store_held mine, theirs;
    store_ask ask;

    store_held_open(&mine, client);
    store_held_open(&theirs, other);
    (void)store_put(other, "key", "same", &theirs.lease);
    tcp_relay_drop(relay, "/v3/kv/txn", 1);
    store_ask_init(&ask, client, FRY_STORE_CREATE, "key");
    ask.request.value = "same";
    ask.request.value_bytes = 4;
    ask.request.lease = &mine.lease;
    cr_assert_eq(store_ask_run(client, &ask), FERRY_E_CHANGED);
    store_ask_free(&ask);
    cr_assert_eq(store_delete(other, "key"), FERRY_OK);

    tcp_relay_drop(relay, "/v3/kv/txn", 1);
    store_ask_init(&ask, client, FRY_STORE_CREATE, "key");
    ask.request.value = "same";
    ask.request.value_bytes = 4;
    ask.request.lease = &mine.lease;
    cr_assert_eq(store_ask_run(client, &ask), FERRY_OK);
    cr_assert_eq(tcp_relay_dropped(relay), 2);
    store_ask_free(&ask);
    store_held_close(&theirs);
    store_held_close(&mine);
}

Test(net_store_etcd_lost, a_swap_happens_once)
{
    store_ask ask;
    const uint64_t version = store_put(other, "key", "old", NULL);

    tcp_relay_drop(relay, "/v3/kv/txn", 1);
    cr_assert_eq(store_ask_with(client, FRY_STORE_SWAP, "key", "new", version, &ask), FERRY_OK);
    cr_assert_eq(ask.entry.version, version_of("key"));
    cr_assert_eq(tcp_relay_dropped(relay), 1);
    store_ask_free(&ask);
    tcp_relay_drop(relay, "/v3/kv/txn", 1);
    cr_assert_eq(store_try(client, FRY_STORE_SWAP, "key", "newer", version), FERRY_E_CHANGED);
}

Test(net_store_etcd_lost, a_delete_that_happened_is_not_repeated)
{
    const uint64_t version = store_put(other, "key", "value", NULL);
    store_ask ask;

    tcp_relay_drop(relay, "/v3/kv/txn", 1);
    cr_assert_eq(store_try(client, FRY_STORE_DELETE, "key", NULL, version), FERRY_OK);
    cr_assert_eq(store_get(other, "key", NULL), FERRY_E_NOT_FOUND);

    /* Of anything: what is created after it happened stays, however often it has to ask. */
    (void)store_put(client, "key", "first", NULL);
    tcp_relay_drop(relay, "/v3/kv/txn", 1);
    store_ask_init(&ask, client, FRY_STORE_DELETE, "key");
    fry_store_submit(client->store, &ask.request);
    while (tcp_relay_dropped(relay) < 2)
        store_rig_turn(&rig);
    tcp_relay_hold(relay, "/v3/kv/txn");
    while (tcp_relay_held(relay) == 0 && !ask.is_done)
        store_rig_turn(&rig);
    (void)store_put(other, "key", "second", NULL);
    tcp_relay_release(relay);
    store_rig_until(&rig, &ask.is_done);
    cr_assert_eq(ask.status, FERRY_OK);
    store_ask_free(&ask);
    cr_assert_eq(store_get(client, "key", &ask), FERRY_OK);
    cr_assert(store_has_value(&ask, "second"));
    store_ask_free(&ask);
}

Test(net_store_etcd_lost, a_delete_that_did_not_happen_is_made_good)
{
    store_ask ask;

    (void)store_put(client, "key", "value", NULL);
    tcp_relay_hold(relay, "/v3/kv/txn");
    store_ask_init(&ask, client, FRY_STORE_DELETE, "key");
    fry_store_submit(client->store, &ask.request);
    while (tcp_relay_held(relay) == 0)
        store_rig_turn(&rig);
    tcp_relay_hold(relay, "");
    tcp_relay_cut(relay);
    store_rig_until(&rig, &ask.is_done);
    cr_assert_eq(ask.status, FERRY_OK);
    store_ask_free(&ask);
    cr_assert_eq(store_get(other, "key", NULL), FERRY_E_NOT_FOUND);
    cr_assert_eq(store_delete(client, "key"), FERRY_E_NOT_FOUND);
}

Test(net_store_etcd_lost, a_lease_whose_grant_was_lost_is_had)
{
    store_held held;

    tcp_relay_drop(relay, "/v3/lease/grant", 1);
    store_held_open(&held, client);
    cr_assert_eq(tcp_relay_dropped(relay), 1);
    (void)store_put(client, "key", "value", &held.lease);
    tcp_relay_drop(relay, "/v3/lease/keepalive", 2);
    store_rig_pass(&rig, 2 * STORE_TTL_NS);
    cr_assert_eq(tcp_relay_dropped(relay), 3);
    cr_assert(!held.is_over);
    cr_assert_eq(store_get(other, "key", NULL), FERRY_OK);
    store_held_close(&held);
}

/* What happened behind its back is told as differences, each once. */
Test(net_store_etcd_lost, a_cut_stream_is_listed_anew)
{
    store_seen seen;

    (void)store_put(other, "w/stays", "1", NULL);
    (void)store_put(other, "w/goes", "1", NULL);
    (void)store_put(other, "w/changes", "1", NULL);
    store_seen_start(&seen, client, "w/");
    store_rig_until(&rig, &seen.is_listed);
    store_rig_pass(&rig, 100000000);
    tcp_relay_hold(relay, "/v3/");
    tcp_relay_cut(relay);
    store_rig_until(&rig, &seen.is_lost);
    cr_assert_eq(store_delete(other, "w/goes"), FERRY_OK);
    const uint64_t version = store_put(other, "w/changes", "2", NULL);
    (void)store_put(other, "w/comes", "1", NULL);
    tcp_relay_release(relay);
    while (seen.healthy == 0)
        store_rig_turn(&rig);
    cr_assert_eq(seen.deletes, 1);
    cr_assert_eq(seen.puts, 5);
    cr_assert_null(store_seen_of(&seen, "w/goes"));
    cr_assert_eq(store_seen_of(&seen, "w/changes")->version, version);
    cr_assert_not_null(store_seen_of(&seen, "w/comes"));
    cr_assert_eq(seen.lost, 1);
    store_seen_until(&seen, "w/last", store_put(other, "w/last", "1", NULL));
    store_seen_free(&seen);
}

/* Several watches find out by lists of their own, which were all on their way, that the store has
 * lost its past: each tells of it once. */
Test(net_store_etcd_lost, a_lost_past_is_told_once_by_each_watch)
{
    store_seen seen[WATCHES];
    char key[32];

    for (int i = 0; i < WATCHES; i++) {
        (void)snprintf(key, sizeof key, "w%d/", i);
        (void)store_put(other, "w0/key", "old", NULL);
        store_seen_start(&seen[i], client, key);
        store_rig_until(&rig, &seen[i].is_listed);
    }
    (void)store_put(client, "w0/key", "newest", NULL);
    tcp_relay_hold(relay, "/v3/kv/range");
    cr_assert(etcd_cluster_empty(cluster));
    while (tcp_relay_held(relay) < 2) /* else one would have been told before the next asks */
        store_rig_turn(&rig);
    tcp_relay_release(relay);
    for (int i = 0; i < WATCHES; i++) {
        while (seen[i].another == 0 || seen[i].is_lost)
            store_rig_turn(&rig);
    }
    tcp_relay_cut(relay); /* and they list anew */
    for (int i = 0; i < WATCHES; i++) {
        (void)snprintf(key, sizeof key, "w%d/key", i);
        store_seen_until(&seen[i], key, store_put(other, key, "new", NULL));
    }
    for (int i = 0; i < WATCHES; i++) {
        cr_assert_eq(seen[i].another, 1, "%d: %d times", i, (int)seen[i].another);
        store_seen_free(&seen[i]);
    }
}

/* The stream is asked for from a revision that is gone by then: it ends with compact_revision. */
Test(net_store_etcd_lost, what_was_compacted_is_listed_anew)
{
    char body[64], answer[512];
    store_seen seen;

    (void)store_put(other, "w/goes", "1", NULL);
    tcp_relay_hold(relay, "/v3/watch");
    store_seen_start(&seen, client, "w/");
    store_rig_until(&rig, &seen.is_listed);
    while (tcp_relay_held(relay) == 0)
        store_rig_turn(&rig);
    cr_assert_eq(store_delete(other, "w/goes"), FERRY_OK);
    const uint64_t version = store_put(other, "w/comes", "1", NULL);
    (void)snprintf(body, sizeof body, "{\"revision\":\"%llu\",\"physical\":true}",
                   (unsigned long long)version);
    cr_assert(etcd_post(cluster, 0, "/v3/kv/compaction", body, answer, sizeof answer));
    cr_assert_null(strstr(answer, "error"), "%s", answer);
    tcp_relay_release(relay);
    store_seen_until(&seen, "w/comes", version);
    store_seen_until(&seen, "w/goes", 0);
    cr_assert_eq(seen.deletes, 1);
    store_seen_until(&seen, "w/last", store_put(other, "w/last", "1", NULL));
    store_seen_free(&seen);
}

/* Its connection stays and so does its endpoint, yet nothing comes: forgotten by somebody. */
Test(net_store_etcd_silent, a_silent_stream_is_listed_anew, .init = start_stepped, .fini = stop,
     .timeout = 60)
{
    store_seen seen;

    store_seen_start(&seen, client, "w/");
    store_rig_until(&rig, &seen.is_listed);
    store_seen_until(&seen, "w/first", store_put(client, "w/first", "1", NULL));
    tcp_relay_mute(relay, "/v3/watch");
    const uint64_t version = store_put(client, "w/second", "1", NULL);
    for (int i = 0; i < 10; i++)
        store_rig_turn(&rig);
    cr_assert_null(store_seen_of(&seen, "w/second"));
    tcp_relay_mute(relay, "");
    while (store_seen_of(&seen, "w/second") == NULL) {
        store_rig_pass(&rig, INT64_C(1000000000));
        store_rig_turn(&rig);
    }
    cr_assert_eq(store_seen_of(&seen, "w/second")->version, version);
    cr_assert_eq(seen.lost, 0);
    cr_assert_eq(seen.puts, 2);
    store_seen_free(&seen);
}
