/* SPDX-License-Identifier: Apache-2.0 */
/* The suite's cases of watches and leases. */
#include "tests/support/owned.h"
#include "tests/support/store_suite.h"

#include <string.h>

#define SECOND_NS INT64_C(1000000000)

/* --- Watches --- */

void store_suite_watch_lists_then_follows(const store_place *place)
{
    static store_seen seen, other;

    OPENED_WITH(store_rig, rig, place, 2);
    const uint64_t a = store_put(&rig.clients[0], "w/a", "one", NULL);
    (void)store_put(&rig.clients[0], "w/gone", "x", NULL);
    STORE_CHECK(store_delete(&rig.clients[0], "w/gone") == FERRY_OK);
    (void)store_put(&rig.clients[0], "v/a", "elsewhere", NULL);
    store_seen_start(&seen, &rig.clients[1], "w/");
    store_seen_start(&other, &rig.clients[0], "");
    store_rig_until(&rig, &seen.is_listed);
    store_rig_until(&rig, &other.is_listed);
    STORE_CHECK(seen.puts == 1 && seen.before_listed == 1 && seen.deletes == 0);
    STORE_CHECK(other.puts == 2);
    STORE_CHECK(store_seen_of(&seen, "w/a")->version == a);
    STORE_CHECK(strcmp(store_seen_of(&seen, "w/a")->value, "one") == 0);
    const uint64_t b = store_put(&rig.clients[0], "w/b", "two", NULL);
    const uint64_t a2 = store_put(&rig.clients[1], "w/a", "three", NULL);
    store_seen_until(&seen, "w/b", b);
    store_seen_until(&seen, "w/a", a2);
    store_seen_until(&other, "w/a", a2);
    STORE_CHECK(strcmp(store_seen_of(&seen, "w/a")->value, "three") == 0);
    STORE_CHECK(store_delete(&rig.clients[1], "w/a") == FERRY_OK);
    store_seen_until(&seen, "w/a", 0);
    store_seen_until(&other, "w/a", 0);
    const uint64_t a3 = store_put(&rig.clients[0], "w/a", "four", NULL);
    store_seen_until(&seen, "w/a", a3);
    STORE_CHECK(seen.listed == 1 && seen.healthy == seen.lost && !seen.is_lost);
    STORE_CHECK(store_seen_of(&seen, "v/a") == NULL);
    store_seen_free(&seen);
    store_seen_free(&other);
}

void store_suite_watch_of_a_long_list(const store_place *place)
{
    static store_seen seen;
    char key[32];

    OPENED_WITH(store_rig, rig, place, 2);
    const size_t count = store_rig_most(&rig);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(key, sizeof key, "%zu", i);
        (void)store_put(&rig.clients[0], key, "value", NULL);
    }
    store_seen_start(&seen, &rig.clients[1], "");
    /* Changes in the midst of the list are neither missed nor told twice. */
    (void)store_delete(&rig.clients[0], "0");
    (void)store_put(&rig.clients[0], "1", "changed", NULL);
    const uint64_t last = store_put(&rig.clients[0], "last", "value", NULL);
    store_rig_until(&rig, &seen.is_listed);
    store_seen_until(&seen, "last", last);
    store_seen_until(&seen, "0", 0);
    for (size_t i = 1; i < count; i++) {
        (void)snprintf(key, sizeof key, "%zu", i);
        STORE_CHECK(store_seen_of(&seen, key) != NULL);
    }
    STORE_CHECK(strcmp(store_seen_of(&seen, "1")->value, "changed") == 0);
    STORE_CHECK(seen.puts >= count && seen.puts <= count + 2);
    store_seen_free(&seen);
}

void store_suite_quick_changes_end_with_the_last(const store_place *place)
{
    static store_seen seen;
    uint64_t last = 0;
    char value[16];

    OPENED_WITH(store_rig, rig, place, 2);
    store_seen_start(&seen, &rig.clients[1], "");
    store_rig_until(&rig, &seen.is_listed);
    rig.clients[1].is_stopped = true; /* it hears of them all at once */
    for (size_t i = 0; i < 50; i++) {
        (void)snprintf(value, sizeof value, "%zu", i);
        last = store_put(&rig.clients[0], "a", value, NULL);
        if (i == 20)
            STORE_CHECK(store_delete(&rig.clients[0], "a") == FERRY_OK);
        (void)store_put(&rig.clients[0], "brief", "x", NULL);
        STORE_CHECK(store_delete(&rig.clients[0], "brief") == FERRY_OK);
    }
    rig.clients[1].is_stopped = false;
    store_seen_until(&seen, "a", last);
    store_seen_until(&seen, "brief", 0);
    STORE_CHECK(strcmp(store_seen_of(&seen, "a")->value, "49") == 0);
    STORE_CHECK(seen.puts <= 100);
    store_seen_free(&seen);
}

static store_seen stopping, started;

static void stop_and_start(store_seen *seen, fry_store_event event, const fry_store_entry *entry)
{
    (void)entry;
    if (event != FRY_STORE_IS_PUT)
        return;
    seen->on_event = NULL;
    fry_store_watch_stop(&seen->watch);
    fry_store_watch_stop(&stopping.watch); /* another, in the midst of its list or not */
    store_seen_start(&started, seen->client, "");
}

void store_suite_watches_come_and_go_in_callbacks(const store_place *place)
{
    static store_seen first;

    OPENED_WITH(store_rig, rig, place, 2);
    store_seen_start(&stopping, &rig.clients[0], "");
    store_seen_start(&first, &rig.clients[0], "");
    store_rig_until(&rig, &first.is_listed);
    store_rig_until(&rig, &stopping.is_listed);
    first.on_event = stop_and_start;
    (void)store_put(&rig.clients[1], "a", "one", NULL);
    while (first.on_event != NULL)
        store_rig_turn(&rig);
    store_rig_until(&rig, &started.is_listed);
    STORE_CHECK(store_seen_of(&started, "a") != NULL);
    const size_t events = first.events, others = stopping.events;
    const uint64_t b = store_put(&rig.clients[1], "b", "two", NULL);
    store_seen_until(&started, "b", b);
    STORE_CHECK(first.events == events && stopping.events == others);
    store_seen_free(&first);
    store_seen_free(&stopping);
    store_seen_free(&started);
}

void store_suite_a_stopped_watch_is_told_nothing(const store_place *place)
{
    static store_seen seen, witness;

    OPENED_WITH(store_rig, rig, place, 2);
    store_seen_start(&seen, &rig.clients[1], "");
    fry_store_watch_stop(&seen.watch); /* before it began */
    store_rig_settle(&rig);
    STORE_CHECK(seen.events == 0);
    fry_store_watch_stop(&seen.watch); /* twice does no harm */
    store_seen_free(&seen);
    store_seen_start(&seen, &rig.clients[1], "");
    store_seen_start(&witness, &rig.clients[1], "");
    store_rig_until(&rig, &seen.is_listed);
    store_rig_until(&rig, &witness.is_listed);
    rig.clients[1].is_stopped = true;
    const uint64_t version = store_put(&rig.clients[0], "a", "one", NULL);
    const size_t events = seen.events;
    fry_store_watch_stop(&seen.watch); /* with news that it was not told */
    rig.clients[1].is_stopped = false;
    store_seen_until(&witness, "a", version);
    STORE_CHECK(seen.events == events);
    store_seen_free(&seen);
    store_seen_free(&witness);
}

/* --- Leases --- */

void store_suite_lease_keeps_its_keys_while_kept_alive(const store_place *place)
{
    static store_seen seen;
    store_held held;

    OPENED_WITH(store_rig, rig, place, 2);
    store_seen_start(&seen, &rig.clients[1], "");
    /* Until when it is to be granted says nothing of how long it lasts. */
    store_held_open_by(&held, &rig.clients[0], fry_clock_now_ns(&rig.clock) + 2 * STORE_TTL_NS);
    STORE_CHECK(held.lease.is_granted && held.lease.id != 0);
    const uint64_t version = store_put(&rig.clients[0], "a", "mine", &held.lease);
    store_rig_pass(&rig, 2 * STORE_TTL_NS + SECOND_NS);
    STORE_CHECK(!held.is_over);
    STORE_CHECK(store_get(&rig.clients[1], "a", NULL) == FERRY_OK);
    store_seen_until(&seen, "a", version);
    STORE_CHECK(seen.deletes == 0);
    store_held_close(&held);
    store_seen_until(&seen, "a", 0);
    STORE_CHECK(!held.is_over); /* who closes it is not told */
    store_seen_free(&seen);
}

void store_suite_lease_closed_takes_its_keys(const store_place *place)
{
    static store_seen seen;
    store_held held, other;

    OPENED_WITH(store_rig, rig, place, 2);
    store_seen_start(&seen, &rig.clients[1], "");
    store_rig_until(&rig, &seen.is_listed);
    store_held_open(&held, &rig.clients[0]);
    store_held_open(&other, &rig.clients[0]);
    STORE_CHECK(held.lease.id != other.lease.id);
    (void)store_put(&rig.clients[0], "a", "mine", &held.lease);
    (void)store_put(&rig.clients[0], "b", "mine", &held.lease);
    const uint64_t c = store_put(&rig.clients[0], "c", "the other's", &other.lease);
    const uint64_t d = store_put(&rig.clients[0], "d", "nobody's", NULL);
    store_seen_until(&seen, "d", d);
    store_held_close(&held);
    store_seen_until(&seen, "a", 0);
    store_seen_until(&seen, "b", 0);
    STORE_CHECK(store_get(&rig.clients[1], "a", NULL) == FERRY_E_NOT_FOUND);
    STORE_CHECK(store_try(&rig.clients[1], FRY_STORE_CREATE, "b", "x", 0) == FERRY_OK);
    STORE_CHECK(store_seen_of(&seen, "c")->version == c);
    STORE_CHECK(store_seen_of(&seen, "d")->version == d);
    store_held_close(&other);
    store_seen_until(&seen, "c", 0);
    store_seen_free(&seen);
}

void store_suite_lease_of_a_stopped_holder_ends(const store_place *place)
{
    static store_seen seen;
    store_held held;
    store_ask ask;

    OPENED_WITH(store_rig, rig, place, 2);
    store_seen_start(&seen, &rig.clients[1], "");
    store_held_open(&held, &rig.clients[0]);
    const uint64_t version = store_put(&rig.clients[0], "a", "mine", &held.lease);
    store_seen_until(&seen, "a", version);
    rig.clients[0].is_stopped = true;
    store_rig_pass(&rig, STORE_TTL_NS / 3); /* shorter than the lease does nothing */
    STORE_CHECK(store_seen_of(&seen, "a") != NULL);
    rig.clients[0].is_stopped = false;
    store_rig_pass(&rig, STORE_TTL_NS);
    STORE_CHECK(!held.is_over && store_seen_of(&seen, "a") != NULL);
    rig.clients[0].is_stopped = true;
    store_rig_pass(&rig, STORE_TTL_NS + SECOND_NS);
    store_seen_until(&seen, "a", 0);
    STORE_CHECK(store_get(&rig.clients[1], "a", NULL) == FERRY_E_NOT_FOUND);
    rig.clients[0].is_stopped = false;
    store_rig_until(&rig, &held.is_over);
    store_ask_init(&ask, &rig.clients[0], FRY_STORE_PUT, "a");
    ask.request.lease = &held.lease;
    STORE_CHECK(store_ask_run(&rig.clients[0], &ask) == FERRY_E_INVALID);
    store_held_close(&held); /* does nothing any more */
    store_seen_free(&seen);
}

/* Without a watch anywhere; and a write under a lease that ended before its holder heard of it. */
void store_suite_lease_ends_for_those_who_only_ask(const store_place *place)
{
    store_held held, other;
    store_ask ask;

    OPENED_WITH(store_rig, rig, place, 2);
    store_held_open(&held, &rig.clients[0]);
    store_held_open(&other, &rig.clients[0]);
    (void)store_put(&rig.clients[0], "a", "mine", &held.lease);
    (void)store_put(&rig.clients[0], "b", "mine", &held.lease);
    (void)store_put(&rig.clients[0], "c", "mine", &other.lease);
    rig.clients[0].is_stopped = true;
    store_rig_pass(&rig, STORE_TTL_NS + SECOND_NS);
    STORE_CHECK(store_try(&rig.clients[1], FRY_STORE_CREATE, "a", "new", 0) == FERRY_OK);
    STORE_CHECK(store_get(&rig.clients[1], "b", NULL) == FERRY_E_NOT_FOUND);
    STORE_CHECK(store_ask_with(&rig.clients[1], FRY_STORE_LIST, "", NULL, 0, &ask) == FERRY_OK);
    STORE_CHECK(ask.count == 1);
    store_ask_free(&ask);
    store_ask_init(&ask, &rig.clients[0], FRY_STORE_PUT, "b");
    ask.request.lease = &held.lease; /* which it takes for granted still */
    fry_store_submit(rig.clients[0].store, &ask.request);
    rig.clients[0].is_stopped = false;
    store_rig_until(&rig, &ask.is_done);
    STORE_CHECK(ask.status == FERRY_E_STORE);
    store_rig_until(&rig, &held.is_over);
    store_rig_until(&rig, &other.is_over);
    STORE_CHECK(store_get(&rig.clients[0], "a", &ask) == FERRY_OK && store_has_value(&ask, "new"));
    store_ask_free(&ask);
}

void store_suite_key_leaves_its_lease(const store_place *place)
{
    store_held held, other;
    store_ask ask;

    OPENED_WITH(store_rig, rig, place, 2);
    store_held_open(&held, &rig.clients[0]);
    store_held_open(&other, &rig.clients[1]);
    (void)store_put(&rig.clients[0], "put", "mine", &held.lease);
    const uint64_t version = store_put(&rig.clients[0], "swap", "mine", &held.lease);
    (void)store_put(&rig.clients[0], "moved", "mine", &held.lease);
    (void)store_put(&rig.clients[1], "put", "stays", NULL);
    STORE_CHECK(store_try(&rig.clients[0], FRY_STORE_SWAP, "swap", "stays", version) == FERRY_OK);
    (void)store_put(&rig.clients[1], "moved", "the other's", &other.lease);
    store_held_close(&held);
    STORE_CHECK(store_get(&rig.clients[1], "put", NULL) == FERRY_OK);
    STORE_CHECK(store_get(&rig.clients[1], "swap", NULL) == FERRY_OK);
    STORE_CHECK(store_get(&rig.clients[0], "moved", NULL) == FERRY_OK);
    store_held_close(&other);
    do { /* it may be under way still */
        STORE_CHECK(store_ask_with(&rig.clients[0], FRY_STORE_LIST, "moved", NULL, 0, &ask) ==
                    FERRY_OK);
        store_ask_free(&ask);
    } while (ask.count > 0);
    STORE_CHECK(store_get(&rig.clients[1], "put", NULL) == FERRY_OK);
}

/* Also where the change itself could be made: who has lost its standing changes nothing. */
void store_suite_change_needs_its_guard(const store_place *place)
{
    store_held held, other;

    OPENED_WITH(store_rig, rig, place, 2);
    store_client *client = &rig.clients[0];
    store_held_open(&held, client);
    store_held_open(&other, &rig.clients[1]);
    (void)store_put(client, "guard", "stands", &held.lease);
    (void)store_put(client, "free", "stands", NULL);
    (void)store_put(&rig.clients[1], "theirs", "stands", &other.lease);
    STORE_CHECK(store_try_guarded(client, FRY_STORE_CREATE, "a", "1", 0, "guard", &held.lease) ==
                FERRY_OK);
    STORE_CHECK(store_try_guarded(client, FRY_STORE_CREATE, "a", "2", 0, "guard", &held.lease) ==
                FERRY_E_CHANGED);
    uint64_t version = store_put(client, "b", "1", NULL);
    STORE_CHECK(store_try_guarded(client, FRY_STORE_SWAP, "b", "2", version, "guard",
                                  &held.lease) == FERRY_OK);
    STORE_CHECK(store_try_guarded(client, FRY_STORE_SWAP, "b", "3", version, "guard",
                                  &held.lease) == FERRY_E_CHANGED);
    STORE_CHECK(store_try_guarded(client, FRY_STORE_SWAP, "none", "3", version, "guard",
                                  &held.lease) == FERRY_E_NOT_FOUND);
    static const char *const others[] = {"free", "theirs", "nothing"};
    version = store_put(client, "c", "1", NULL);
    for (size_t i = 0; i < 3; i++) {
        STORE_CHECK(store_try_guarded(client, FRY_STORE_CREATE, "d", "1", 0, others[i],
                                      &held.lease) == FERRY_E_FENCED);
        STORE_CHECK(store_try_guarded(client, FRY_STORE_SWAP, "c", "2", version, others[i],
                                      &held.lease) == FERRY_E_FENCED);
    }
    STORE_CHECK(store_try_guarded(client, FRY_STORE_PUT, "c", "2", 0, "guard", &held.lease) ==
                FERRY_E_INVALID);
    STORE_CHECK(store_try_guarded(client, FRY_STORE_CREATE, "d", "2", 0, "guard", &other.lease) ==
                FERRY_E_INVALID); /* of another store */
    STORE_CHECK(store_try_guarded(client, FRY_STORE_CREATE, "d", "2", 0, "a//b", &held.lease) ==
                FERRY_E_INVALID);
    STORE_CHECK(store_get(client, "d", NULL) == FERRY_E_NOT_FOUND);
    STORE_CHECK(store_delete(client, "guard") == FERRY_OK);
    STORE_CHECK(store_try_guarded(client, FRY_STORE_SWAP, "c", "2", version, "guard",
                                  &held.lease) == FERRY_E_FENCED);
    store_held_close(&held);
    STORE_CHECK(store_try_guarded(client, FRY_STORE_SWAP, "c", "2", version, "guard",
                                  &held.lease) == FERRY_E_INVALID);
    store_held_close(&other);
}

/* Asked for in time, and late: its holder was stopped, and does not know yet that it is over. */
void store_suite_guard_of_a_lease_that_ends(const store_place *place)
{
    store_held held;
    store_ask ask;
    char guard[FRY_STORE_KEY_BYTES + 2];

    OPENED_WITH(store_rig, rig, place, 2);
    store_client *client = &rig.clients[0], *other = &rig.clients[1];
    store_held_open(&held, client);
    (void)store_put(client, "guard", "stands", &held.lease);
    const uint64_t version = store_put(client, "a", "1", NULL);
    client->is_stopped = true;
    do
        store_rig_pass(&rig, STORE_TTL_NS / 4);
    while (store_get(other, "guard", NULL) != FERRY_E_NOT_FOUND);
    (void)snprintf(guard, sizeof guard, "%sguard", rig.prefix);
    store_ask_init(&ask, client, FRY_STORE_SWAP, "a");
    ask.request.value = "late";
    ask.request.value_bytes = 4;
    ask.request.version = version;
    ask.request.guard_key = guard;
    ask.request.guard_lease = &held.lease;
    fry_store_submit(client->store, &ask.request);
    client->is_stopped = false;
    store_rig_until(&rig, &ask.is_done);
    STORE_CHECK(ask.status == FERRY_E_FENCED);
    store_ask_free(&ask);
    store_rig_until(&rig, &held.is_over);
    STORE_CHECK(store_get(other, "a", &ask) == FERRY_OK && store_has_value(&ask, "1"));
    store_ask_free(&ask);
}

static void refused(fry_store_lease *lease, fry_lease_event event, const char *why)
{
    STORE_CHECK(event == FRY_LEASE_REFUSED && why != NULL && !lease->is_on);
    *(bool *)lease->arg = true;
}

void store_suite_lease_that_cannot_be(const store_place *place)
{
    static const int64_t times_ns[] = {0, -1, FRY_STORE_LEASE_MIN_NS - 1,
                                       FRY_STORE_LEASE_MAX_NS + 1, INT64_MAX};

    OPENED_WITH(store_rig, rig, place, 1);
    for (size_t i = 0; i < sizeof times_ns / sizeof *times_ns; i++) {
        bool is_told = false;
        fry_store_lease lease = {.ttl_ns = times_ns[i], .fn = refused, .arg = &is_told};

        fry_store_lease_open(rig.clients[0].store, &lease);
        STORE_CHECK(!is_told);
        store_rig_until(&rig, &is_told);
        fry_store_lease_open(rig.clients[0].store, &lease);
        fry_store_lease_close(&lease); /* before it is told */
        is_told = false;
        store_rig_settle(&rig);
        STORE_CHECK(!is_told);
    }
}

void store_suite_lease_closed_at_once(const store_place *place)
{
    bool is_told = false;
    fry_store_lease lease = {.ttl_ns = STORE_TTL_NS, .fn = refused, .arg = &is_told};

    OPENED_WITH(store_rig, rig, place, 1);
    fry_store_lease_open(rig.clients[0].store, &lease);
    fry_store_lease_close(&lease);
    fry_store_lease_close(&lease);
    store_rig_settle(&rig);
    STORE_CHECK(!is_told);
}
