/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/store_suite.h"
#include "tests/support/owned.h"

#include <string.h>

#define SECOND_NS INT64_C(1000000000)

/* One ask after the other: what came of the last is freed. */
static void begin_ask(store_ask *ask, store_client *client, fry_store_verb verb, const char *key)
{
    store_ask_free(ask);
    store_ask_init(ask, client, verb, key);
}

static ferry_status ask_with(store_client *client, fry_store_verb verb, const char *key,
                             const char *value, uint64_t version, store_ask *ask)
{
    store_ask_free(ask);
    return store_ask_with(client, verb, key, value, version, ask);
}

/* --- What is asked --- */

void store_suite_bad_requests_are_refused(const store_place *place)
{
    static const char *const bad[] = {
        "",    "/a",   "a/",   "a//b", ".",         "..",   "a/./b", "a/../b", "...",
        "a b", "a\nb", "a\\b", "a:b",  "a\xc3\xa4", "a/..", "a*",    "+",      "%2e",
    };
    static const fry_store_verb verbs[] = {FRY_STORE_GET, FRY_STORE_PUT, FRY_STORE_CREATE,
                                           FRY_STORE_SWAP, FRY_STORE_DELETE};
    OWNED(store_ask_free) store_ask ask = {.count = 0};
    OPENED_WITH(store_rig, rig, place, 1);
    store_client *client = &rig.clients[0];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        for (size_t v = 0; v < sizeof verbs / sizeof *verbs; v++) {
            begin_ask(&ask, client, verbs[v], NULL);
            ask.request.key = bad[i];
            ask.request.version = 1;
            STORE_CHECK(store_ask_run(client, &ask) == FERRY_E_INVALID && ask.count == 0);
        }
    }
    for (size_t v = 0; v < sizeof verbs / sizeof *verbs; v++) {
        begin_ask(&ask, client, verbs[v], NULL); /* no key */
        STORE_CHECK(store_ask_run(client, &ask) == FERRY_E_INVALID);
    }
    STORE_CHECK(store_try(client, FRY_STORE_SWAP, "a", "value", 0) == FERRY_E_INVALID);
    STORE_CHECK(store_try(client, (fry_store_verb)77, "a", "value", 0) == FERRY_E_INVALID);
    begin_ask(&ask, client, FRY_STORE_PUT, "a");
    ask.request.value_bytes = 5; /* of no value */
    STORE_CHECK(store_ask_run(client, &ask) == FERRY_E_INVALID);
    fry_store_lease none = {.ttl_ns = STORE_TTL_NS};
    begin_ask(&ask, client, FRY_STORE_PUT, "a");
    ask.request.lease = &none; /* that nobody granted */
    STORE_CHECK(store_ask_run(client, &ask) == FERRY_E_INVALID);
    STORE_CHECK(store_get(client, "a", NULL) == FERRY_E_NOT_FOUND);
}

/* Any bytes, as many as there may be, under the longest key. */
void store_suite_sizes_at_their_limits(const store_place *place)
{
    OWNED(store_ask_free) store_ask ask = {.count = 0};
    char key[FRY_STORE_KEY_BYTES + 2];
    unsigned char *value = malloc(FRY_STORE_VALUE_BYTES + 1);

    for (size_t i = 0; i <= FRY_STORE_VALUE_BYTES; i++)
        value[i] = (unsigned char)(i * 7 + i / 256);
    OPENED_WITH(store_rig, rig, place, 1);
    store_client *client = &rig.clients[0];
    memset(key, 'k', sizeof key);
    key[FRY_STORE_KEY_BYTES - strlen(rig.prefix)] = '\0';
    begin_ask(&ask, client, FRY_STORE_PUT, key);
    ask.request.value = value;
    ask.request.value_bytes = FRY_STORE_VALUE_BYTES;
    STORE_CHECK(strlen(ask.key) == FRY_STORE_KEY_BYTES);
    STORE_CHECK(store_ask_run(client, &ask) == FERRY_OK);
    STORE_CHECK(ask_with(client, FRY_STORE_GET, key, NULL, 0, &ask) == FERRY_OK);
    STORE_CHECK(ask.entry.value_bytes == FRY_STORE_VALUE_BYTES &&
                memcmp(ask.entry.value, value, FRY_STORE_VALUE_BYTES) == 0);
    begin_ask(&ask, client, FRY_STORE_PUT, key);
    ask.request.value = value;
    ask.request.value_bytes = FRY_STORE_VALUE_BYTES + 1;
    STORE_CHECK(store_ask_run(client, &ask) == FERRY_E_INVALID);
    memset(key, 'k', sizeof key);
    key[FRY_STORE_KEY_BYTES - strlen(rig.prefix) + 1] = '\0';
    STORE_CHECK(store_get(client, key, NULL) == FERRY_E_INVALID);
    STORE_CHECK(store_put(client, "a", "", NULL) != 0); /* and as few */
    STORE_CHECK(ask_with(client, FRY_STORE_GET, "a", NULL, 0, &ask) == FERRY_OK &&
                store_has_value(&ask, ""));
    free(value);
}

void store_suite_nothing_is_not_found(const store_place *place)
{
    OPENED_WITH(store_rig, rig, place, 1);
    store_client *client = &rig.clients[0];
    STORE_CHECK(store_get(client, "a", NULL) == FERRY_E_NOT_FOUND);
    STORE_CHECK(store_delete(client, "a") == FERRY_E_NOT_FOUND);
    STORE_CHECK(store_try(client, FRY_STORE_DELETE, "a", NULL, 5) == FERRY_E_NOT_FOUND);
    STORE_CHECK(store_try(client, FRY_STORE_SWAP, "a", "value", 5) == FERRY_E_NOT_FOUND);
}

void store_suite_put_and_get(const store_place *place)
{
    OWNED(store_ask_free) store_ask ask = {.count = 0};
    OPENED_WITH(store_rig, rig, place, 2);
    const uint64_t first = store_put(&rig.clients[0], "a/b.c_d-E9", "one", NULL);
    STORE_CHECK(ask_with(&rig.clients[1], FRY_STORE_GET, "a/b.c_d-E9", NULL, 0, &ask) == FERRY_OK);
    STORE_CHECK(store_has_value(&ask, "one") && ask.entry.version == first);
    STORE_CHECK(strcmp(ask.entry.key, ask.key) == 0);
    const uint64_t second = store_put(&rig.clients[1], "a/b.c_d-E9", "two", NULL);
    STORE_CHECK(second > first);
    STORE_CHECK(ask_with(&rig.clients[0], FRY_STORE_GET, "a/b.c_d-E9", NULL, 0, &ask) == FERRY_OK);
    STORE_CHECK(store_has_value(&ask, "two") && ask.entry.version == second);
    /* A key that begins like another is another. */
    STORE_CHECK(store_get(&rig.clients[0], "a/b.c_d-E", NULL) == FERRY_E_NOT_FOUND);
    STORE_CHECK(store_get(&rig.clients[0], "a", NULL) == FERRY_E_NOT_FOUND);
    STORE_CHECK(store_put(&rig.clients[0], "a", "beside what is below it", NULL) != 0);
}

void store_suite_create_is_for_what_is_not_there(const store_place *place)
{
    OWNED(store_ask_free) store_ask ask = {.count = 0};
    OPENED_WITH(store_rig, rig, place, 2);
    STORE_CHECK(ask_with(&rig.clients[0], FRY_STORE_CREATE, "a", "one", 0, &ask) == FERRY_OK);
    STORE_CHECK(ask.count == 1 && ask.entry.value == NULL);
    const uint64_t version = ask.entry.version;
    STORE_CHECK(ask_with(&rig.clients[1], FRY_STORE_CREATE, "a", "two", 0, &ask) ==
                FERRY_E_CHANGED);
    STORE_CHECK(store_has_value(&ask, "one") && ask.entry.version == version);
    STORE_CHECK(store_delete(&rig.clients[1], "a") == FERRY_OK);
    STORE_CHECK(ask_with(&rig.clients[1], FRY_STORE_CREATE, "a", "two", 0, &ask) == FERRY_OK);
    STORE_CHECK(ask.entry.version > version);
}

void store_suite_swap_is_for_what_is_known(const store_place *place)
{
    OWNED(store_ask_free) store_ask ask = {.count = 0};
    OPENED_WITH(store_rig, rig, place, 2);
    const uint64_t first = store_put(&rig.clients[0], "a", "one", NULL);
    STORE_CHECK(ask_with(&rig.clients[1], FRY_STORE_SWAP, "a", "two", first, &ask) == FERRY_OK);
    const uint64_t second = ask.entry.version;
    STORE_CHECK(second > first && ask.count == 1 && ask.entry.value == NULL);
    STORE_CHECK(ask_with(&rig.clients[0], FRY_STORE_SWAP, "a", "three", first, &ask) ==
                FERRY_E_CHANGED);
    STORE_CHECK(store_has_value(&ask, "two") && ask.entry.version == second);
    /* The same value again is a change all the same. */
    STORE_CHECK(ask_with(&rig.clients[0], FRY_STORE_SWAP, "a", "two", second, &ask) == FERRY_OK);
    STORE_CHECK(ask.entry.version > second);
    STORE_CHECK(store_delete(&rig.clients[0], "a") == FERRY_OK);
    STORE_CHECK(store_try(&rig.clients[0], FRY_STORE_SWAP, "a", "x", second) == FERRY_E_NOT_FOUND);
}

void store_suite_delete_of_any_or_of_a_version(const store_place *place)
{
    OWNED(store_ask_free) store_ask ask = {.count = 0};
    OPENED_WITH(store_rig, rig, place, 2);
    const uint64_t first = store_put(&rig.clients[0], "a", "one", NULL);
    const uint64_t second = store_put(&rig.clients[0], "a", "two", NULL);
    STORE_CHECK(ask_with(&rig.clients[1], FRY_STORE_DELETE, "a", NULL, first, &ask) ==
                FERRY_E_CHANGED);
    STORE_CHECK(store_has_value(&ask, "two") && ask.entry.version == second);
    STORE_CHECK(store_try(&rig.clients[1], FRY_STORE_DELETE, "a", NULL, second) == FERRY_OK);
    STORE_CHECK(store_get(&rig.clients[0], "a", NULL) == FERRY_E_NOT_FOUND);
    (void)store_put(&rig.clients[0], "a", "three", NULL);
    STORE_CHECK(store_delete(&rig.clients[1], "a") == FERRY_OK);
    STORE_CHECK(store_delete(&rig.clients[1], "a") == FERRY_E_NOT_FOUND);
}

/* Also over deletions: a version is never given twice. */
void store_suite_versions_only_grow(const store_place *place)
{
    uint64_t last = 0;

    OPENED_WITH(store_rig, rig, place, 2);
    for (size_t i = 0; i < 30; i++) {
        const uint64_t version = store_put(&rig.clients[i % 2], "a", "value", NULL);

        STORE_CHECK(version > last);
        last = version;
        if (i % 3 == 0)
            STORE_CHECK(store_delete(&rig.clients[(i + 1) % 2], "a") == FERRY_OK);
    }
}

void store_suite_list_is_by_prefix_and_in_order(const store_place *place)
{
    static const char *const keys[] = {"b/2", "a", "b", "b/1", "b-c", "bb", "c", "b/1/x", "B"};
    OWNED(store_ask_free) store_ask ask = {.count = 0};
    char expected[1024];

    OPENED_WITH(store_rig, rig, place, 2);
    STORE_CHECK(ask_with(&rig.clients[1], FRY_STORE_LIST, "", NULL, 0, &ask) == FERRY_OK);
    STORE_CHECK(ask.count == 0);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        (void)store_put(&rig.clients[0], keys[i], keys[i], NULL);
    STORE_CHECK(ask_with(&rig.clients[1], FRY_STORE_LIST, "b/", NULL, 0, &ask) == FERRY_OK);
    (void)snprintf(expected, sizeof expected, "%sb/1 %sb/1/x %sb/2 ", rig.prefix, rig.prefix,
                   rig.prefix);
    STORE_CHECK(ask.count == 3 && strcmp(ask.keys, expected) == 0);
    STORE_CHECK(strcmp(ask.entry.value, "b/1") == 0);
    STORE_CHECK(ask_with(&rig.clients[1], FRY_STORE_LIST, "b", NULL, 0, &ask) == FERRY_OK);
    STORE_CHECK(ask.count == 6);
    STORE_CHECK(ask_with(&rig.clients[1], FRY_STORE_LIST, "d", NULL, 0, &ask) == FERRY_OK);
    STORE_CHECK(ask.count == 0 && ask.keys == NULL);
    STORE_CHECK(ask_with(&rig.clients[1], FRY_STORE_LIST, NULL, NULL, 0, &ask) == FERRY_OK);
    STORE_CHECK(ask.count >= sizeof keys / sizeof *keys);
}

void store_suite_a_long_list(const store_place *place)
{
    OWNED(store_ask_free) store_ask list = {.count = 0};
    OPENED_WITH(store_rig, rig, place, 2);
    const size_t count = store_rig_most(&rig);
    store_ask *puts = calloc(count, sizeof *puts);
    for (size_t i = 0; i < count; i++) {
        char key[32];

        (void)snprintf(key, sizeof key, "%zu", i);
        store_ask_init(&puts[i], &rig.clients[i % 2], FRY_STORE_PUT, key);
        puts[i].request.value = "value";
        puts[i].request.value_bytes = 5;
        fry_store_submit(rig.clients[i % 2].store, &puts[i].request); /* all at once */
    }
    for (size_t i = 0; i < count; i++) {
        store_rig_until(&rig, &puts[i].is_done);
        STORE_CHECK(puts[i].status == FERRY_OK);
        store_ask_free(&puts[i]);
    }
    STORE_CHECK(ask_with(&rig.clients[0], FRY_STORE_LIST, "", NULL, 0, &list) == FERRY_OK);
    STORE_CHECK(list.count == count);
    free(puts);
}

/* --- Races --- */

#define RACE_KEYS 50

void store_suite_of_two_creates_one_wins(const store_place *place)
{
    static store_ask asks[2][RACE_KEYS];
    char key[32];

    OPENED_WITH(store_rig, rig, place, 2);
    for (size_t i = 0; i < RACE_KEYS; i++) {
        (void)snprintf(key, sizeof key, "%zu", i);
        for (size_t c = 0; c < 2; c++) {
            const size_t who = (c + i) % 2;

            store_ask_init(&asks[who][i], &rig.clients[who], FRY_STORE_CREATE, key);
            asks[who][i].request.value = who == 0 ? "0" : "1";
            asks[who][i].request.value_bytes = 1;
            fry_store_submit(rig.clients[who].store, &asks[who][i].request);
        }
    }
    for (size_t i = 0; i < RACE_KEYS; i++) {
        store_rig_until(&rig, &asks[0][i].is_done);
        store_rig_until(&rig, &asks[1][i].is_done);
        const size_t winner = asks[0][i].status == FERRY_OK ? 0 : 1;

        STORE_CHECK(asks[winner][i].status == FERRY_OK);
        STORE_CHECK(asks[1 - winner][i].status == FERRY_E_CHANGED);
        STORE_CHECK(store_has_value(&asks[1 - winner][i], winner == 0 ? "0" : "1"));
        STORE_CHECK(asks[1 - winner][i].entry.version == asks[winner][i].entry.version);
        store_ask_free(&asks[0][i]);
        store_ask_free(&asks[1][i]);
    }
}

typedef struct counting {
    store_client *client;
    store_ask ask;
    char value[16];
    size_t left;
    bool is_done;
} counting;

static void count_on(counting *self, uint64_t version, unsigned from)
{
    store_ask_init(&self->ask, self->client, FRY_STORE_SWAP, "counter");
    (void)snprintf(self->value, sizeof self->value, "%u", from + 1);
    self->ask.request.value = self->value;
    self->ask.request.value_bytes = strlen(self->value);
    self->ask.request.version = version;
    fry_store_submit(self->client->store, &self->ask.request);
}

/* Two clients that count a number up together, each step only from what it has seen. */
void store_suite_no_swap_is_lost(const store_place *place)
{
    OWNED(store_ask_free) store_ask ask = {.count = 0};
    counting both[2];

    OPENED_WITH(store_rig, rig, place, 2);
    const uint64_t start = store_put(&rig.clients[0], "counter", "0", NULL);
    for (size_t c = 0; c < 2; c++) {
        both[c] = (counting){.client = &rig.clients[c], .left = 50};
        count_on(&both[c], start, 0);
    }
    while (both[0].left + both[1].left > 0) {
        store_rig_turn(&rig);
        for (size_t c = 0; c < 2; c++) {
            counting *self = &both[c];

            if (self->left == 0 || !self->ask.is_done)
                continue;
            const bool won = self->ask.status == FERRY_OK;
            const uint64_t version = self->ask.entry.version;

            STORE_CHECK(won || self->ask.status == FERRY_E_CHANGED);
            const unsigned long seen =
                strtoul(won ? self->value : (const char *)self->ask.entry.value, NULL, 10);
            store_ask_free(&self->ask);
            self->left -= won;
            if (self->left > 0)
                count_on(self, version, (unsigned)seen);
        }
    }
    STORE_CHECK(ask_with(&rig.clients[0], FRY_STORE_GET, "counter", NULL, 0, &ask) == FERRY_OK &&
                store_has_value(&ask, "100"));
}

/* --- Calling back --- */

void store_suite_done_is_not_called_by_submit(const store_place *place)
{
    static store_ask asks[5];
    static const fry_store_verb verbs[] = {FRY_STORE_GET, FRY_STORE_PUT, FRY_STORE_LIST,
                                           FRY_STORE_DELETE, FRY_STORE_GET};

    OPENED_WITH(store_rig, rig, place, 1);
    for (size_t i = 0; i < 5; i++) {
        store_ask_init(&asks[i], &rig.clients[0], verbs[i], i == 4 ? NULL : "a");
        fry_store_submit(rig.clients[0].store, &asks[i].request);
    }
    for (size_t i = 0; i < 5; i++)
        STORE_CHECK(!asks[i].is_done);
    for (size_t i = 0; i < 5; i++) {
        store_rig_until(&rig, &asks[i].is_done);
        store_ask_free(&asks[i]);
        STORE_CHECK(asks[i].times == 1);
    }
}

void store_suite_cancelled_is_never_done(const store_place *place)
{
    static store_ask asks[12], last;

    OPENED_WITH(store_rig, rig, place, 1);
    for (size_t i = 0; i < 12; i++) {
        store_ask_init(&asks[i], &rig.clients[0],
                       i % 3 == 0   ? FRY_STORE_PUT
                       : i % 3 == 1 ? FRY_STORE_GET
                                    : FRY_STORE_LIST,
                       i < 9 ? "a" : NULL); /* those are refused, or all */
        asks[i].request.deadline_ns = fry_reactor_now_ns(&rig.clients[0].reactor) + SECOND_NS;
        fry_store_submit(rig.clients[0].store, &asks[i].request);
    }
    for (size_t i = 0; i < 12; i++) {
        fry_store_cancel(&asks[i].request);
        fry_store_cancel(&asks[i].request);
    }
    store_ask_init(&last, &rig.clients[0], FRY_STORE_GET, "b");
    STORE_CHECK(store_ask_run(&rig.clients[0], &last) == FERRY_E_NOT_FOUND);
    fry_store_cancel(&last.request); /* too late does nothing */
    store_rig_pass(&rig, 2 * SECOND_NS);
    for (size_t i = 0; i < 12; i++)
        STORE_CHECK(asks[i].times == 0);
}

void store_suite_deadlines(const store_place *place)
{
    OWNED(store_ask_free) store_ask ask = {.count = 0};
    OPENED_WITH(store_rig, rig, place, 1);
    store_client *client = &rig.clients[0];
    const int64_t now_ns = fry_reactor_now_ns(&client->reactor);
    begin_ask(&ask, client, FRY_STORE_GET, "a");
    ask.request.deadline_ns = now_ns + 60 * SECOND_NS;
    STORE_CHECK(store_ask_run(client, &ask) == FERRY_E_NOT_FOUND);
    STORE_CHECK(fry_reactor_next_ns(&client->reactor) != now_ns + 60 * SECOND_NS); /* off */
    begin_ask(&ask, client, FRY_STORE_PUT, "a");
    ask.request.deadline_ns = 1; /* long past: it is not tried */
    STORE_CHECK(store_ask_run(client, &ask) == FERRY_E_DEADLINE && ask.count == 0);
    store_rig_settle(&rig);
    STORE_CHECK(ask.times == 1);
    STORE_CHECK(store_get(client, "a", NULL) == FERRY_E_NOT_FOUND);
}

typedef struct chain {
    fry_store_request request;
    fry_store *store;
    fry_store_request *other;
    size_t left;
    bool is_over;
} chain;

static void next_of_chain(fry_store_request *request, ferry_status status,
                          const fry_store_entry *entries, size_t count, const char *why)
{
    chain *self = request->arg;

    (void)entries;
    (void)count;
    (void)why;
    STORE_CHECK(status == FERRY_E_NOT_FOUND);
    if (self->left == 10 && self->other != NULL)
        fry_store_cancel(self->other);
    self->is_over = --self->left == 0;
    if (!self->is_over)
        fry_store_submit(self->store, request); /* the same memory, again */
}

void store_suite_requests_from_callbacks(const store_place *place)
{
    OWNED(store_ask_free) store_ask ask = {.count = 0};
    OPENED_WITH(store_rig, rig, place, 1);
    chain self = {.store = rig.clients[0].store, .left = 20};
    chain cancelled = {.store = rig.clients[0].store, .left = 1000000};
    self.request = (fry_store_request){
        .verb = FRY_STORE_GET, .key = "nothing", .done = next_of_chain, .arg = &self};
    cancelled.request = self.request;
    cancelled.request.arg = &cancelled;
    self.other = &cancelled.request;
    fry_store_submit(self.store, &self.request);
    fry_store_submit(self.store, &cancelled.request);
    store_rig_until(&rig, &self.is_over);
    const size_t left = cancelled.left;
    STORE_CHECK(ask_with(&rig.clients[0], FRY_STORE_GET, "a", NULL, 0, &ask) == FERRY_E_NOT_FOUND);
    STORE_CHECK(cancelled.left == left && !fry_async_is_on(&cancelled.request.async));
}

/* What was cancelled, stopped and closed an instant ago does not reach into freed memory. */
void store_suite_close_with_news_untold(const store_place *place)
{
    static store_seen seen;
    static store_ask asks[3];
    store_held held;

    OPENED_WITH(store_rig, rig, place, 3);
    store_client *gone = &rig.clients[2];
    store_seen_start(&seen, gone, "");
    store_rig_until(&rig, &seen.is_listed);
    store_held_open(&held, gone);
    gone->is_stopped = true;
    (void)store_put(&rig.clients[0], "a", "news", NULL);
    for (size_t i = 0; i < 3; i++) {
        store_ask_init(&asks[i], gone, i == 2 ? FRY_STORE_LIST : FRY_STORE_PUT, "b");
        asks[i].request.lease = i == 1 ? &held.lease : NULL;
        fry_store_submit(gone->store, &asks[i].request);
    }
    store_held_close(&held);
    store_seen_free(&seen);
    for (size_t i = 0; i < 3; i++)
        fry_store_cancel(&asks[i].request);
    fry_store_close(gone->store);
    STORE_CHECK(fry_reactor_next_ns(&gone->reactor) == INT64_MAX);
    (void)driven_reactor_run(&gone->reactor, 0);
    driven_reactor_close(&gone->reactor);
    rig.count = 2;
    (void)store_put(&rig.clients[0], "a", "more", NULL);
}
