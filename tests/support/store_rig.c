/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/patience.h"
#include "tests/support/store_suite.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#define HANG_NS (INT64_C(30000000000) * PATIENCE)
#define TURN_MS 20
#define STEP_NS INT64_C(50000000)

static void no_log(void *arg, ferry_log_level level, const char *line)
{
    (void)arg;
    (void)level;
    (void)line;
}

static void open_client(store_rig *rig, store_client *client)
{
    fry_error *error = NULL;

    client->rig = rig;
    STORE_CHECK(driven_reactor_open(&client->reactor, &rig->memory, &rig->log, &rig->clock) ==
                FERRY_OK);
    const ferry_status status = fry_store_open(&client->reactor, rig->place->uri,
                                               rig->place->options, &client->store, &error);
    if (status != FERRY_OK)
        (void)fprintf(stderr, "%s: %s\n", rig->place->uri, error->public_.message);
    STORE_CHECK(status == FERRY_OK && error == NULL);
}

void store_rig_open(store_rig *rig, const store_place *place, size_t count)
{
    static _Atomic unsigned number;

    *rig = (store_rig){.place = place, .count = count};
    failing_allocator_init(&rig->allocator);
    const ferry_allocator allocator = failing_allocator_interface(&rig->allocator);
    fry_memory_init(&rig->memory, &allocator);
    fry_log_init(&rig->log, no_log, NULL);
    stepped_clock_init(&rig->stepped, INT64_C(1000000000000));
    const ferry_clock stepped = stepped_clock_interface(&rig->stepped);
    fry_clock_init(&rig->clock, place->is_stepped ? &stepped : NULL);
    (void)snprintf(rig->prefix, sizeof rig->prefix, "case-%d-%u/", (int)getpid(),
                   atomic_fetch_add(&number, 1));
    STORE_CHECK(count <= STORE_CLIENTS_MAX);
    for (size_t i = 0; i < count; i++)
        open_client(rig, &rig->clients[i]);
}

/* What a case leaves behind is taken away, so that a store that lasts does not grow. */
static void delete_all(store_rig *rig)
{
    store_ask list;

    store_ask_init(&list, &rig->clients[0], FRY_STORE_LIST, "");
    STORE_CHECK(store_ask_run(&rig->clients[0], &list) == FERRY_OK);
    for (char *key = list.keys; key != NULL && *key != '\0';) {
        char *end = strchr(key, ' ');

        *end = '\0';
        (void)store_delete(&rig->clients[0], key + strlen(rig->prefix));
        key = end + 1;
    }
    store_ask_free(&list);
}

void store_rig_close(store_rig *rig)
{
    for (size_t i = 0; i < rig->count; i++)
        rig->clients[i].is_stopped = false;
    if (rig->count > 0)
        delete_all(rig);
    store_rig_leave(rig);
}

void store_rig_leave(store_rig *rig)
{
    for (size_t i = 0; i < rig->count; i++) {
        fry_store_close(rig->clients[i].store);
        STORE_CHECK(fry_reactor_next_ns(&rig->clients[i].reactor) == INT64_MAX);
        driven_reactor_close(&rig->clients[i].reactor);
    }
    STORE_CHECK(failing_allocator_live_bytes(&rig->allocator) == 0);
}

size_t store_rig_most(const store_rig *rig)
{
    return rig->place->most_entries != 0 ? rig->place->most_entries : 1000;
}

void store_rig_turn(store_rig *rig)
{
    struct pollfd fds[STORE_CLIENTS_MAX];
    nfds_t count = 0;
    size_t ran = 0;

    for (size_t i = 0; i < rig->count; i++) {
        if (rig->clients[i].is_stopped)
            continue;
        ran += driven_reactor_run(&rig->clients[i].reactor, 0);
        fds[count++] =
            (struct pollfd){.fd = rig->clients[i].reactor.poller->epoll_fd, .events = POLLIN};
    }
    if (ran == 0)
        (void)poll(fds, count, TURN_MS);
}

void store_rig_until(store_rig *rig, const bool *flag)
{
    const int64_t end_ns = fry_clock_monotonic_ns() + HANG_NS;

    while (!*flag) {
        store_rig_turn(rig);
        STORE_CHECK(fry_clock_monotonic_ns() < end_ns);
    }
}

void store_rig_settle(store_rig *rig)
{
    for (size_t quiet = 0; quiet < 2;) {
        size_t ran = 0;

        for (size_t i = 0; i < rig->count; i++) {
            if (!rig->clients[i].is_stopped)
                ran += driven_reactor_run(&rig->clients[i].reactor, 0);
        }
        quiet = ran == 0 ? quiet + 1 : 0;
    }
}

void store_rig_pass(store_rig *rig, int64_t ns)
{
    const int64_t end_ns = fry_clock_now_ns(&rig->clock) + ns;

    while (fry_clock_now_ns(&rig->clock) < end_ns) {
        if (rig->place->is_stepped) {
            stepped_clock_step(&rig->stepped, STEP_NS);
            store_rig_settle(rig);
        } else {
            store_rig_turn(rig);
        }
    }
}

/* --- Requests --- */

static void ask_is_done(fry_store_request *request, ferry_status status,
                        const fry_store_entry *entries, size_t count, const char *why)
{
    store_ask *ask = request->arg;
    size_t bytes = 1;

    STORE_CHECK(!fry_async_is_on(&request->async));
    STORE_CHECK(why == NULL || *why != '\0');
    STORE_CHECK((count == 0) == (entries == NULL) || request->verb == FRY_STORE_LIST);
    ask->is_done = true;
    ask->times++;
    ask->status = status;
    ask->count = count;
    if (count == 0)
        return;
    for (size_t i = 0; i < count; i++)
        bytes += strlen(entries[i].key) + 1;
    ask->keys = calloc(1, bytes);
    char *at = ask->keys;
    for (size_t i = 0; i < count; i++) {
        at = stpcpy(stpcpy(at, entries[i].key), " ");
        STORE_CHECK(entries[i].version != 0);
        STORE_CHECK(i == 0 || strcmp(entries[i - 1].key, entries[i].key) < 0);
    }
    ask->entry = entries[0];
    ask->entry.key = strdup(entries[0].key);
    ask->entry.value = NULL;
    if (entries[0].value != NULL) {
        char *copy = malloc(entries[0].value_bytes + 1);

        memcpy(copy, entries[0].value, entries[0].value_bytes + 1);
        STORE_CHECK(copy[entries[0].value_bytes] == '\0');
        ask->entry.value = copy;
    }
}

void store_ask_init(store_ask *ask, store_client *client, fry_store_verb verb, const char *key)
{
    memset(ask, 0, sizeof *ask);
    if (key != NULL)
        (void)snprintf(ask->key, sizeof ask->key, "%s%s", client->rig->prefix, key);
    ask->request = (fry_store_request){
        .verb = verb, .key = key != NULL ? ask->key : NULL, .done = ask_is_done, .arg = ask};
}

ferry_status store_ask_run(store_client *client, store_ask *ask)
{
    fry_store_submit(client->store, &ask->request);
    store_rig_until(client->rig, &ask->is_done);
    return ask->status;
}

void store_ask_free(store_ask *ask)
{
    free((void *)(uintptr_t)ask->entry.key);
    free((void *)(uintptr_t)ask->entry.value);
    free(ask->keys);
    ask->entry = (fry_store_entry){.key = NULL};
    ask->keys = NULL;
}

ferry_status store_ask_with(store_client *client, fry_store_verb verb, const char *key,
                            const char *value, uint64_t version, store_ask *ask)
{
    store_ask_init(ask, client, verb, key);
    ask->request.value = value;
    ask->request.value_bytes = value != NULL ? strlen(value) : 0;
    ask->request.version = version;
    return store_ask_run(client, ask);
}

/* The same, of which only the status counts. */
ferry_status store_try(store_client *client, fry_store_verb verb, const char *key,
                       const char *value, uint64_t version)
{
    store_ask ask;
    const ferry_status status = store_ask_with(client, verb, key, value, version, &ask);

    store_ask_free(&ask);
    return status;
}

ferry_status store_try_guarded(store_client *client, fry_store_verb verb, const char *key,
                               const char *value, uint64_t version, const char *guard,
                               fry_store_lease *lease)
{
    char whole[FRY_STORE_KEY_BYTES + 2];
    store_ask ask;

    (void)snprintf(whole, sizeof whole, "%s%s", client->rig->prefix, guard);
    store_ask_init(&ask, client, verb, key);
    ask.request.value = value;
    ask.request.value_bytes = strlen(value);
    ask.request.version = version;
    ask.request.guard_key = whole;
    ask.request.guard_lease = lease;
    const ferry_status status = store_ask_run(client, &ask);
    store_ask_free(&ask);
    return status;
}

bool store_has_value(const store_ask *ask, const char *value)
{
    return ask->count == 1 && ask->entry.value_bytes == strlen(value) &&
           strcmp(ask->entry.value, value) == 0;
}

ferry_status store_get(store_client *client, const char *key, store_ask *ask)
{
    store_ask own;
    store_ask *to = ask != NULL ? ask : &own;

    store_ask_init(to, client, FRY_STORE_GET, key);
    const ferry_status status = store_ask_run(client, to);
    if (ask == NULL)
        store_ask_free(&own);
    return status;
}

uint64_t store_put(store_client *client, const char *key, const char *value, fry_store_lease *lease)
{
    store_ask ask;

    store_ask_init(&ask, client, FRY_STORE_PUT, key);
    ask.request.value = value;
    ask.request.value_bytes = strlen(value);
    ask.request.lease = lease;
    STORE_CHECK(store_ask_run(client, &ask) == FERRY_OK);
    STORE_CHECK(ask.count == 1 && strcmp(ask.entry.key, ask.key) == 0);
    STORE_CHECK(ask.entry.value == NULL && ask.entry.value_bytes == 0);
    const uint64_t version = ask.entry.version;
    store_ask_free(&ask);
    return version;
}

ferry_status store_put_bytes(store_client *client, const char *key, const void *value,
                             size_t value_bytes)
{
    store_ask ask;

    store_ask_init(&ask, client, FRY_STORE_PUT, key);
    ask.request.value = value;
    ask.request.value_bytes = value_bytes;
    const ferry_status status = store_ask_run(client, &ask);
    store_ask_free(&ask);
    return status;
}

ferry_status store_delete(store_client *client, const char *key)
{
    store_ask ask;

    store_ask_init(&ask, client, FRY_STORE_DELETE, key);
    const ferry_status status = store_ask_run(client, &ask);
    store_ask_free(&ask);
    return status;
}

/* --- Watches --- */

static store_known *known_of(store_seen *seen, const char *key)
{
    for (size_t i = 0; i < seen->known_count; i++) {
        if (strcmp(seen->known[i].key, key) == 0)
            return &seen->known[i];
    }
    STORE_CHECK(seen->known_count < STORE_KNOWN_MAX && strlen(key) <= FRY_STORE_KEY_BYTES);
    store_known *made = &seen->known[seen->known_count++];
    (void)strcpy(made->key, key);
    return made;
}

static void note_entry(store_seen *seen, fry_store_event event, const fry_store_entry *entry)
{
    store_known *known = known_of(seen, entry->key);

    STORE_CHECK(strncmp(entry->key, seen->prefix, strlen(seen->prefix)) == 0);
    STORE_CHECK(!seen->is_lost || event == FRY_STORE_IS_PUT || event == FRY_STORE_IS_DELETED);
    seen->before_listed += !seen->is_listed;
    if (event == FRY_STORE_IS_DELETED) {
        seen->deletes++;
        known->is_there = false;
        return;
    }
    seen->puts++;
    /* Nothing backwards, and nothing twice but for a loss in the midst of the list. */
    STORE_CHECK(entry->version > known->version ||
                (seen->lost > 0 && entry->version == known->version));
    STORE_CHECK(((const char *)entry->value)[entry->value_bytes] == '\0');
    known->version = entry->version;
    known->is_there = true;
    (void)snprintf(known->value, sizeof known->value, "%s", (const char *)entry->value);
}

static void is_told(fry_store_watch *watch, fry_store_event event, const fry_store_entry *entry)
{
    store_seen *seen = watch->arg;

    seen->events++;
    switch (event) {
    case FRY_STORE_IS_PUT:
    case FRY_STORE_IS_DELETED:
        note_entry(seen, event, entry);
        break;
    case FRY_STORE_IS_LISTED:
        STORE_CHECK(!seen->is_listed);
        seen->is_listed = true;
        seen->listed++;
        break;
    case FRY_STORE_IS_HEALTHY:
        STORE_CHECK(seen->is_lost && seen->is_listed);
        seen->is_lost = false;
        seen->healthy++;
        break;
    case FRY_STORE_IS_LOST:
        STORE_CHECK(!seen->is_lost);
        seen->is_lost = true;
        seen->lost++;
        break;
    case FRY_STORE_IS_ANOTHER:
        seen->another++;
        for (size_t i = 0; i < seen->known_count; i++)
            seen->known[i].version = 0;
        break;
    }
    if (seen->on_event != NULL)
        seen->on_event(seen, event, entry);
}

void store_seen_start(store_seen *seen, store_client *client, const char *prefix)
{
    memset(seen, 0, sizeof *seen);
    seen->client = client;
    seen->known = calloc(STORE_KNOWN_MAX, sizeof *seen->known);
    (void)snprintf(seen->prefix, sizeof seen->prefix, "%s%s", client->rig->prefix, prefix);
    seen->watch = (fry_store_watch){.prefix = seen->prefix, .fn = is_told, .arg = seen};
    fry_store_watch_start(client->store, &seen->watch);
    STORE_CHECK(seen->events == 0);
}

void store_seen_free(store_seen *seen)
{
    fry_store_watch_stop(&seen->watch);
    free(seen->known);
    seen->known = NULL;
}

const store_known *store_seen_of(const store_seen *seen, const char *key)
{
    char whole[FRY_STORE_KEY_BYTES + 1];

    (void)snprintf(whole, sizeof whole, "%s%s", seen->client->rig->prefix, key);
    for (size_t i = 0; i < seen->known_count; i++) {
        if (strcmp(seen->known[i].key, whole) == 0)
            return seen->known[i].is_there ? &seen->known[i] : NULL;
    }
    return NULL;
}

void store_seen_until(store_seen *seen, const char *key, uint64_t version)
{
    const int64_t end_ns = fry_clock_monotonic_ns() + HANG_NS;

    for (;;) {
        const store_known *known = store_seen_of(seen, key);

        if (known == NULL ? version == 0 : known->version == version)
            return;
        store_rig_turn(seen->client->rig);
        STORE_CHECK(fry_clock_monotonic_ns() < end_ns);
    }
}

/* --- Leases --- */

static void lease_is_told(fry_store_lease *lease, fry_lease_event event, const char *why)
{
    store_held *held = lease->arg;

    switch (event) {
    case FRY_LEASE_GRANTED:
        STORE_CHECK(!held->is_granted && lease->is_granted);
        held->is_granted = true;
        break;
    case FRY_LEASE_REFUSED:
        STORE_CHECK(!held->is_granted && why != NULL);
        held->is_refused = true;
        break;
    case FRY_LEASE_ENDED:
        STORE_CHECK(held->is_granted && !held->is_over && !lease->is_on);
        held->is_over = true;
        break;
    }
}

static void open_held(store_held *held, store_client *client, int64_t ttl_ns, int64_t deadline_ns)
{
    *held = (store_held){
        .lease = {.ttl_ns = ttl_ns, .deadline_ns = deadline_ns, .fn = lease_is_told, .arg = held}};
    fry_store_lease_open(client->store, &held->lease);
    STORE_CHECK(!held->is_granted);
    store_rig_until(client->rig, &held->is_granted);
}

void store_held_open(store_held *held, store_client *client)
{
    open_held(held, client, STORE_TTL_NS, 0);
}

void store_held_open_by(store_held *held, store_client *client, int64_t deadline_ns)
{
    open_held(held, client, STORE_TTL_NS, deadline_ns);
}

void store_held_open_for(store_held *held, store_client *client, int64_t ttl_ns)
{
    open_held(held, client, ttl_ns, 0);
}

void store_held_close(store_held *held)
{
    fry_store_lease_close(&held->lease);
}
