/* SPDX-License-Identifier: Apache-2.0 */
/* etcd: nodes that are killed, stopped and started again; who may come in. */
#include "tests/support/etcd_server.h"
#include "tests/support/store_suite.h"

#include <criterion/criterion.h>
#include <string.h>

#define ASKS 120
#define NS_PER_MS INT64_C(1000000)

/* Of a lease that outlives leaders: a machine that is busy with other work may keep them all, and
 * the renewals, from a CPU for longer than the shortest lease. */
#define KEPT_TTL_NS (4 * STORE_TTL_NS)

static etcd_cluster *cluster;
static store_place place;
static store_rig rig;
static store_client *client;

static void start(unsigned nodes)
{
    if (etcd_absent() != NULL)
        cr_skip_test("%s", etcd_absent());
    cluster = etcd_cluster_start(nodes, NULL);
    cr_assert_not_null(cluster);
    place.uri = etcd_cluster_uri(cluster);
    store_rig_open(&rig, &place, 1);
    client = &rig.clients[0];
}

static void stop(void)
{
    store_rig_close(&rig);
    etcd_cluster_stop(cluster);
}

static void start_one(void)
{
    start(1);
}

static void start_three(void)
{
    start(3);
}

static void pass_ms(int64_t ms)
{
    store_rig_pass(&rig, ms * NS_PER_MS);
}

/* --- nodes --- */

/* Creates that are under way while each node in turn, so the leader as well, is killed. */
Test(net_store_etcd_faults, each_node_dies_in_the_midst, .init = start_three, .fini = stop,
     .timeout = 120)
{
    static store_ask asks[ASKS];
    store_seen seen;
    store_held held;
    size_t done = 0;

    store_held_open_for(&held, client, KEPT_TTL_NS);
    (void)store_put(client, "w/lease", "mine", &held.lease);
    store_seen_start(&seen, client, "w/");
    store_rig_until(&rig, &seen.is_listed);
    for (unsigned node = 0; node < 3; node++) {
        const size_t from = node * ASKS / 3, to = (node + 1) * ASKS / 3;

        for (size_t i = from; i < to; i++) {
            char key[32];

            (void)snprintf(key, sizeof key, "w/%zu", i);
            store_ask_init(&asks[i], client, FRY_STORE_CREATE, key);
            asks[i].request.value = "value";
            asks[i].request.value_bytes = 5;
            fry_store_submit(client->store, &asks[i].request);
        }
        while (!asks[from].is_done)
            store_rig_turn(&rig);
        etcd_node_kill(cluster, node);
        for (size_t i = from; i < to; i++)
            store_rig_until(&rig, &asks[i].is_done);
        cr_assert(etcd_node_restart(cluster, node));
    }
    for (size_t i = 0; i < ASKS; i++) {
        cr_assert_eq(asks[i].status, FERRY_OK, "%zu: %s", i, ferry_status_name(asks[i].status));
        store_seen_until(&seen, asks[i].key + strlen(rig.prefix), asks[i].entry.version);
        store_ask_free(&asks[i]);
        done++;
    }
    pass_ms(2 * KEPT_TTL_NS / NS_PER_MS);
    cr_assert_eq(done, ASKS);
    cr_assert_eq(seen.puts, ASKS + 1);
    cr_assert_eq(seen.deletes, 0);
    cr_assert(!seen.is_lost);
    cr_assert(!held.is_over);
    cr_assert_eq(store_get(client, "w/lease", NULL), FERRY_OK);
    store_held_close(&held);
    store_seen_free(&seen);
}

/* A node that stands still answers nobody, yet its connections stay. */
Test(net_store_etcd_faults, a_node_stands_still, .init = start_three, .fini = stop, .timeout = 120)
{
    store_seen seen;

    store_seen_start(&seen, client, "w/");
    store_rig_until(&rig, &seen.is_listed);
    for (unsigned node = 0; node < 3; node++) {
        char key[32];

        (void)snprintf(key, sizeof key, "w/%u", node);
        etcd_node_pause(cluster, node);
        store_seen_until(&seen, key, store_put(client, key, "value", NULL));
        etcd_node_resume(cluster, node);
    }
    cr_assert_eq(seen.puts, 3);
    cr_assert_eq(seen.deletes, 0);
    store_seen_free(&seen);
}

Test(net_store_etcd_faults, all_stand_still_and_go_on, .init = start_three, .fini = stop,
     .timeout = 120)
{
    store_seen seen;
    store_held held;
    store_ask ask;

    store_held_open(&held, client);
    (void)store_put(client, "w/lease", "mine", &held.lease);
    (void)store_put(client, "w/stays", "value", NULL);
    store_seen_start(&seen, client, "w/");
    store_rig_until(&rig, &seen.is_listed);
    etcd_cluster_pause(cluster);
    store_rig_until(&rig, &seen.is_lost);
    store_ask_init(&ask, client, FRY_STORE_GET, "w/stays");
    ask.request.deadline_ns = fry_reactor_now_ns(&client->reactor) + 200 * NS_PER_MS;
    cr_assert_eq(store_ask_run(client, &ask), FERRY_E_DEADLINE);
    store_ask_free(&ask);
    cr_assert_eq(seen.deletes, 0);
    etcd_cluster_resume(cluster);
    while (seen.healthy == 0)
        store_rig_turn(&rig);
    /* etcd may have let the lease run out meanwhile; then both its ends are told. */
    pass_ms(2 * STORE_TTL_NS / NS_PER_MS);
    const bool is_there = store_seen_of(&seen, "w/lease") != NULL;
    cr_assert_eq(is_there, !held.is_over);
    cr_assert_eq(store_get(client, "w/lease", NULL), is_there ? FERRY_OK : FERRY_E_NOT_FOUND);
    cr_assert_not_null(store_seen_of(&seen, "w/stays"));
    cr_assert_eq(seen.deletes, is_there ? 0 : 1);
    store_held_close(&held);
    store_seen_free(&seen);
}

Test(net_store_etcd_faults, a_store_that_is_gone_comes_back, .init = start_one, .fini = stop,
     .timeout = 120)
{
    store_seen seen;
    store_held held = {.is_granted = false};
    store_ask ask;

    (void)store_put(client, "w/stays", "value", NULL);
    store_seen_start(&seen, client, "w/");
    store_rig_until(&rig, &seen.is_listed);
    etcd_node_kill(cluster, 0);
    store_rig_until(&rig, &seen.is_lost);
    store_ask_init(&ask, client, FRY_STORE_PUT, "w/late");
    ask.request.value = "value";
    ask.request.value_bytes = 5;
    fry_store_submit(client->store, &ask.request);
    store_ask refused;
    store_ask_init(&refused, client, FRY_STORE_GET, "w/stays");
    refused.request.deadline_ns = fry_reactor_now_ns(&client->reactor) + 300 * NS_PER_MS;
    cr_assert_eq(store_ask_run(client, &refused), FERRY_E_DEADLINE);
    cr_assert(!ask.is_done);
    cr_assert(etcd_node_restart(cluster, 0));
    store_rig_until(&rig, &ask.is_done);
    cr_assert_eq(ask.status, FERRY_OK);
    store_seen_until(&seen, "w/late", ask.entry.version);
    while (seen.healthy == 0)
        store_rig_turn(&rig);
    cr_assert_eq(seen.deletes, 0);
    cr_assert_eq(seen.puts, 2);
    store_ask_free(&ask);
    store_ask_free(&refused);
    store_held_open(&held, client);
    store_held_close(&held);
    store_seen_free(&seen);
}

/* --- a store without its past --- */

static void ask_guarded(store_ask *ask, const char *key, uint64_t version, store_held *held)
{
    static char guard[FRY_STORE_KEY_BYTES + 2];

    (void)snprintf(guard, sizeof guard, "%sw/lease", rig.prefix);
    store_ask_init(ask, client, FRY_STORE_SWAP, key);
    ask->request.value = "late";
    ask->request.value_bytes = 4;
    ask->request.version = version;
    ask->request.guard_key = guard;
    ask->request.guard_lease = &held->lease;
    fry_store_submit(client->store, &ask->request);
}

/*
 * Emptied while it is away: versions begin anew, and what has the number that was known may be
 * another value. All of that is told; a change that was on its way does not take it for the old.
 */
static void loses_its_past(void)
{
    store_rig other;
    store_seen seen;
    store_held held;
    store_ask late;

    store_held_open(&held, client);
    (void)store_put(client, "w/lease", "mine", &held.lease);
    (void)store_put(client, "w/goes", "old", NULL);
    const uint64_t version = store_put(client, "w/stays", "old", NULL);
    store_seen_start(&seen, client, "w/");
    store_rig_until(&rig, &seen.is_listed);
    cr_assert(etcd_cluster_empty(cluster));
    ask_guarded(&late, "w/stays", version, &held);
    /* Somebody is there before, until the number is the same. */
    store_rig_open(&other, &place, 1);
    (void)strcpy(other.prefix, rig.prefix);
    for (uint64_t at = 0; at < version; at = store_put(&other.clients[0], "w/stays", "new", NULL))
        continue;
    store_rig_until(&rig, &late.is_done);
    cr_assert_neq(late.status, FERRY_OK);
    store_ask_free(&late);
    store_seen_until(&seen, "w/goes", 0);
    cr_assert_eq(seen.another, 1);
    while (store_seen_of(&seen, "w/stays") == NULL ||
           store_seen_of(&seen, "w/stays")->version != version)
        store_rig_turn(&rig);
    cr_assert_str_eq(store_seen_of(&seen, "w/stays")->value, "new");
    store_rig_until(&rig, &held.is_over);
    cr_assert_eq(seen.deletes, 2);
    while (seen.is_lost)
        store_rig_turn(&rig);
    store_held_open(&held, client);
    store_seen_until(&seen, "w/lease", store_put(client, "w/lease", "again", &held.lease));
    ask_guarded(&late, "w/stays", version, &held);
    store_rig_until(&rig, &late.is_done);
    cr_assert_eq(late.status, FERRY_OK);
    store_ask_free(&late);
    store_held_close(&held);
    store_seen_free(&seen);
    store_rig_leave(&other);
}

Test(net_store_etcd_faults, one_that_loses_its_past, .init = start_one, .fini = stop,
     .timeout = 120)
{
    loses_its_past();
}

Test(net_store_etcd_faults, three_that_lose_their_past, .init = start_three, .fini = stop,
     .timeout = 120)
{
    loses_its_past();
}

/* --- users --- */

static void post(const char *path, const char *body)
{
    char answer[512];

    cr_assert(etcd_post(cluster, 0, path, body, answer, sizeof answer));
    cr_assert_null(strstr(answer, "error"), "%s", answer);
}

static void start_with_users(void)
{
    static const fry_store_options root = {.user = "root", .password = "se\"cret"};

    place.options = &root;
    start(1);
    post("/v3/auth/user/add", "{\"name\":\"root\",\"password\":\"se\\\"cret\"}");
    post("/v3/auth/role/add", "{\"name\":\"root\"}");
    post("/v3/auth/user/grant", "{\"user\":\"root\",\"role\":\"root\"}");
    post("/v3/auth/enable", "{}");
}

static char why_text[256];

static void keep_why(fry_store_request *request, ferry_status status,
                     const fry_store_entry *entries, size_t count, const char *why)
{
    (void)entries;
    (void)count;
    *(ferry_status *)request->arg = status;
    (void)snprintf(why_text, sizeof why_text, "%s", why != NULL ? why : "");
}

/* The status of a get by somebody else; what it was told is in why_text. */
static ferry_status get_as(const fry_store_options *options)
{
    ferry_status status = FERRY_PENDING;
    fry_error *error;
    fry_store *store;
    fry_store_request request = {
        .verb = FRY_STORE_GET, .key = "key", .done = keep_why, .arg = &status};

    cr_assert_eq(fry_store_open(&client->reactor, place.uri, options, &store, &error), FERRY_OK);
    fry_store_submit(store, &request);
    while (status == FERRY_PENDING)
        store_rig_turn(&rig);
    fry_store_close(store);
    return status;
}

Test(net_store_etcd_faults, a_user_with_the_password_comes_in, .init = start_with_users,
     .fini = stop, .timeout = 60)
{
    store_seen seen;
    store_held held;

    store_seen_start(&seen, client, "w/");
    store_held_open(&held, client);
    store_seen_until(&seen, "w/key", store_put(client, "w/key", "value", &held.lease));
    /* A new etcd knows no tokens of before. */
    etcd_node_kill(cluster, 0);
    cr_assert(etcd_node_restart(cluster, 0));
    store_seen_until(&seen, "w/more", store_put(client, "w/more", "value", NULL));
    pass_ms(STORE_TTL_NS / NS_PER_MS);
    cr_assert(!held.is_over);
    cr_assert_eq(store_get(client, "w/key", NULL), FERRY_OK);
    store_held_close(&held);
    store_seen_free(&seen);
}

Test(net_store_etcd_faults, others_do_not, .init = start_with_users, .fini = stop, .timeout = 60)
{
    static const fry_store_options wrong = {.user = "root", .password = "guess"};
    static const fry_store_options stranger = {.user = "nobody", .password = "guess"};

    cr_assert_eq(get_as(&wrong), FERRY_E_STORE);
    cr_assert_not_null(strstr(why_text, "authentication failed"), "%s", why_text);
    cr_assert_null(strstr(why_text, "guess"), "%s", why_text);
    cr_assert_eq(get_as(&stranger), FERRY_E_STORE);
    cr_assert_eq(get_as(NULL), FERRY_E_STORE);
    cr_assert_not_null(strstr(why_text, "user name is empty"), "%s", why_text);
    cr_assert_eq(get_as(place.options), FERRY_E_NOT_FOUND);
}

Test(net_store_etcd_faults, a_user_where_none_is_asked_for, .init = start_one, .fini = stop,
     .timeout = 60)
{
    static const fry_store_options user = {.user = "root", .password = "secret"};

    cr_assert_eq(get_as(&user), FERRY_E_NOT_FOUND);
}
