/* SPDX-License-Identifier: Apache-2.0 */
/* What stores share, and what one alone has: names, lack of memory, several threads. */
#include "tests/support/store_suite.h"
#include "tests/support/temporary_folder.h"

#include <criterion/criterion.h>
#include <string.h>

#define CHECK STORE_CHECK

TestSuite(net_store, .timeout = 60);

static store_rig rig;
static store_seen seen;

static ferry_status try_uri(const char *uri, char message[FRY_ERROR_MESSAGE_BYTES])
{
    static const store_place nowhere = {.uri = "mem:nowhere", .is_stepped = true};
    fry_store *store = NULL;
    fry_error *error = NULL;

    store_rig_open(&rig, &nowhere, 1);
    const ferry_status status = fry_store_open(&rig.clients[0].reactor, uri, NULL, &store, &error);
    CHECK((status == FERRY_OK) == (error == NULL) && (status == FERRY_OK) == (store != NULL));
    (void)strcpy(message, error != NULL ? error->public_.message : "");
    fry_error_release(error);
    fry_store_close(store);
    store_rig_close(&rig);
    return status;
}

Test(net_store, what_is_no_store_is_refused)
{
    static const char *const bad[] = {"",      "mem",  "mem:",   "memory:x",
                                      "/tmp",  "file", "file:",  "http://x/",
                                      "MEM:x", ":",    " mem:x", "etc://x"};
    char message[FRY_ERROR_MESSAGE_BYTES], long_uri[5000];

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert_eq(try_uri(bad[i], message), FERRY_E_INVALID, "%s", bad[i]);
        cr_assert_neq(message[0], '\0');
    }
    cr_assert_eq(try_uri(NULL, message), FERRY_E_INVALID);
    memset(long_uri, 'x', sizeof long_uri);
    memcpy(long_uri, "mem:", 4);
    long_uri[300] = '\0';
    cr_assert_eq(try_uri(long_uri, message), FERRY_E_INVALID);
    long_uri[300] = 'x';
    long_uri[sizeof long_uri - 1] = '\0';
    cr_assert_eq(try_uri(long_uri, message), FERRY_E_INVALID);
    fry_store_close(NULL);
}

Test(net_store, it_is_called_by_its_uri)
{
    static const store_place place = {.uri = "mem:a/name@all", .is_stepped = true};

    store_rig_open(&rig, &place, 1);
    cr_assert_str_eq(fry_store_name(rig.clients[0].store), "mem:a/name@all");
    store_rig_close(&rig);
}

Test(net_store, spaces_are_apart_and_end_with_their_last_user)
{
    static const store_place place = {.uri = "mem:one", .is_stepped = true};
    static const store_place other = {.uri = "mem:two", .is_stepped = true};
    static store_rig first, second;

    store_rig_open(&first, &place, 1);
    store_rig_open(&second, &other, 1);
    (void)strcpy(first.prefix, "p/");
    (void)strcpy(second.prefix, "p/");
    (void)store_put(&first.clients[0], "a", "value", NULL);
    CHECK(store_get(&second.clients[0], "a", NULL) == FERRY_E_NOT_FOUND);
    store_rig_close(&second);
    store_rig_open(&second, &place, 1);
    (void)strcpy(second.prefix, "p/");
    CHECK(store_get(&second.clients[0], "a", NULL) == FERRY_OK);
    store_rig_leave(&first); /* its keys stay while the other is there */
    CHECK(store_get(&second.clients[0], "a", NULL) == FERRY_OK);
    store_rig_leave(&second);
    store_rig_open(&second, &place, 1);
    (void)strcpy(second.prefix, "p/");
    CHECK(store_get(&second.clients[0], "a", NULL) == FERRY_E_NOT_FOUND);
    store_rig_close(&second);
}

/* Keys that come and go leave nothing that grows. */
Test(net_store, what_is_deleted_is_forgotten_once_all_have_heard)
{
    static const store_place place = {.uri = "mem:tombs", .is_stepped = true};
    char key[32];

    store_rig_open(&rig, &place, 2);
    store_seen_start(&seen, &rig.clients[1], "stays");
    store_rig_until(&rig, &seen.is_listed);
    rig.clients[1].is_stopped = true;
    for (int i = 0; i < 3000; i++) {
        (void)snprintf(key, sizeof key, "k%d", i);
        (void)store_put(&rig.clients[0], key, "x", NULL);
        CHECK(store_delete(&rig.clients[0], key) == FERRY_OK);
    }
    const uint64_t version = store_put(&rig.clients[0], "stays", "x", NULL);
    rig.clients[1].is_stopped = false;
    store_seen_until(&seen, "stays", version);
    CHECK(seen.puts == 1 && seen.deletes == 0);
    store_seen_free(&seen);
    store_rig_close(&rig);
}

/* More changes than are kept for one that does not look: it goes through all there is. */
Test(net_store, who_has_missed_changes_knows_what_there_is)
{
    static const store_place place = {.uri = "mem:missed", .is_stepped = true};
    uint64_t version = 0;

    store_rig_open(&rig, &place, 2);
    store_client *busy = &rig.clients[0], *stopped = &rig.clients[1];
    (void)store_put(busy, "goes", "x", NULL);
    (void)store_put(busy, "stays", "x", NULL);
    store_seen_start(&seen, stopped, "");
    store_rig_until(&rig, &seen.is_listed);
    stopped->is_stopped = true;
    CHECK(store_delete(busy, "goes") == FERRY_OK);
    const uint64_t stays = store_put(busy, "stays", "changed", NULL);
    for (size_t i = 0; i <= FRY_STORE_ENTRIES_MAX; i++)
        version = store_put(busy, "often", "x", NULL);
    stopped->is_stopped = false;
    store_seen_until(&seen, "often", version);
    store_seen_until(&seen, "stays", stays);
    store_seen_until(&seen, "goes", 0);
    CHECK(!seen.is_lost && seen.lost == 0);
    store_seen_free(&seen);
    store_rig_close(&rig);
}

Test(net_store, it_has_room_for_so_many_keys_and_no_more)
{
    static const store_place place = {.uri = "mem:many", .is_stepped = true};
    fry_reactor *reactor;
    store_ask ask;
    char key[32];

    store_rig_open(&rig, &place, 1);
    store_client *client = &rig.clients[0];
    reactor = &client->reactor;
    for (size_t i = 0; i < FRY_STORE_ENTRIES_MAX; i++) {
        (void)snprintf(key, sizeof key, "k%zu", i);
        store_ask_init(&ask, client, FRY_STORE_PUT, key);
        fry_store_submit(client->store, &ask.request);
        while (!ask.is_done)
            (void)driven_reactor_run(reactor, 0);
        CHECK(ask.status == FERRY_OK);
        store_ask_free(&ask);
    }
    CHECK(store_try(client, FRY_STORE_CREATE, "one more", "", 0) == FERRY_E_INVALID);
    CHECK(store_try(client, FRY_STORE_CREATE, "one-more", "", 0) == FERRY_E_STORE);
    CHECK(store_put(client, "k7", "that is there", NULL) != 0);
    CHECK(store_ask_with(client, FRY_STORE_LIST, "", NULL, 0, &ask) == FERRY_OK);
    CHECK(ask.count == FRY_STORE_ENTRIES_MAX);
    store_ask_free(&ask);
    CHECK(store_delete(client, "k0") == FERRY_OK);
    CHECK(store_try(client, FRY_STORE_CREATE, "one-more", "", 0) == FERRY_OK);
    store_rig_leave(&rig);
}

Test(net_store, a_list_has_so_many_bytes_and_no_more)
{
    static const store_place place = {.uri = "mem:bytes", .is_stepped = true};
    static char value[FRY_STORE_VALUE_BYTES];
    const size_t count = FRY_STORE_LIST_BYTES / sizeof value;
    store_ask ask;
    char key[32];

    store_rig_open(&rig, &place, 1);
    for (size_t i = 0; i <= count; i++) {
        (void)snprintf(key, sizeof key, "k%zu", i);
        store_ask_init(&ask, &rig.clients[0], FRY_STORE_PUT, key);
        ask.request.value = value;
        ask.request.value_bytes = sizeof value;
        CHECK(store_ask_run(&rig.clients[0], &ask) == FERRY_OK);
        store_ask_free(&ask);
    }
    CHECK(store_try(&rig.clients[0], FRY_STORE_LIST, "", NULL, 0) == FERRY_E_STORE);
    CHECK(store_delete(&rig.clients[0], "k0") == FERRY_OK);
    CHECK(store_try(&rig.clients[0], FRY_STORE_LIST, "", NULL, 0) == FERRY_OK);
    store_rig_leave(&rig);
}

/* --- Without memory --- */

/* Everything that a client does, with the nth allocation failing; gives how often one failed. */
static uint64_t do_all(const store_place *place, uint64_t nth)
{
    fry_store *store = NULL;
    fry_error *error = NULL;
    static const fry_store_verb verbs[] = {FRY_STORE_PUT, FRY_STORE_GET, FRY_STORE_LIST,
                                           FRY_STORE_CREATE, FRY_STORE_DELETE};
    store_held held = {.lease = {.ttl_ns = STORE_TTL_NS}};

    store_rig_open(&rig, place, 1);
    store_client *client = &rig.clients[0];
    (void)store_put(client, "there", "value", NULL);
    const uint64_t failures = failing_allocator_failures(&rig.allocator);
    failing_allocator_arm(&rig.allocator, nth, false);
    const ferry_status status = fry_store_open(&client->reactor, place->uri, NULL, &store, &error);
    CHECK(status == FERRY_OK || status == FERRY_E_NO_MEMORY);
    CHECK((status == FERRY_OK) == (error == NULL));
    fry_error_release(error);
    fry_store *own = client->store;
    client->store = store != NULL ? store : own;
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        store_ask ask;
        const ferry_status got = store_ask_with(client, verbs[i], "a", "value", 0, &ask);

        CHECK(got == FERRY_OK || got == FERRY_E_NO_MEMORY || got == FERRY_E_NOT_FOUND ||
              got == FERRY_E_CHANGED);
        store_ask_free(&ask);
    }
    store_seen_start(&seen, client, "");
    for (int i = 0; i < 100 && !seen.is_listed; i++) {
        store_rig_turn(&rig);
        if (place->is_stepped)
            stepped_clock_step(&rig.stepped, STORE_TTL_NS / 4);
    }
    CHECK(seen.is_listed && !seen.is_lost && store_seen_of(&seen, "there") != NULL);
    failing_allocator_arm(&rig.allocator, 0, false);
    store_held_open(&held, client);
    store_held_close(&held);
    store_seen_free(&seen);
    if (store != NULL)
        fry_store_close(store);
    client->store = own;
    const uint64_t failed = failing_allocator_failures(&rig.allocator) - failures;
    store_rig_close(&rig);
    return failed;
}

Test(net_store, lack_of_memory_is_a_status)
{
    static const store_place mem = {.uri = "mem:memory", .is_stepped = true};
    static char folder[TEMPORARY_FOLDER_BYTES], uri[TEMPORARY_FOLDER_BYTES + 8];
    static const store_place file = {.uri = uri, .is_stepped = true};
    const store_place *const places[] = {&mem, &file};

    temporary_folder_make(folder);
    (void)snprintf(uri, sizeof uri, "file:%s", folder);
    for (size_t i = 0; i < 2; i++) {
        uint64_t nth = 1;

        while (do_all(places[i], nth) > 0)
            nth++;
        cr_assert_gt(nth, 1);
    }
}
