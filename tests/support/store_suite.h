/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every store must do, whichever it is: cases that a test file names its store to.
 *
 *     #define CASE(name) Test(net_store_mem, name) { store_suite_##name(&place); }
 *     STORE_SUITE(CASE)
 *
 * A case keeps to keys of its own, so a store that others use too will do. What is not as it should
 * be ends the program with a line that says where.
 */
#ifndef FERRY_TESTS_STORE_SUITE_H
#define FERRY_TESTS_STORE_SUITE_H

#include "net/store/open.h"
#include "tests/support/driven_reactor.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/stepped_clock.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct store_place {
    const char *uri;
    const fry_store_options *options;
    bool is_stepped;     /* the store goes by the clocks of its users' reactors */
    size_t most_entries; /* that a case makes at once; 0: 1000 */
} store_place;

#define STORE_SUITE(X)                                                                             \
    X(bad_requests_are_refused)                                                                    \
    X(sizes_at_their_limits)                                                                       \
    X(nothing_is_not_found)                                                                        \
    X(put_and_get)                                                                                 \
    X(create_is_for_what_is_not_there)                                                             \
    X(swap_is_for_what_is_known)                                                                   \
    X(delete_of_any_or_of_a_version)                                                               \
    X(versions_only_grow)                                                                          \
    X(list_is_by_prefix_and_in_order)                                                              \
    X(a_long_list)                                                                                 \
    X(of_two_creates_one_wins)                                                                     \
    X(no_swap_is_lost)                                                                             \
    X(watch_lists_then_follows)                                                                    \
    X(watch_of_a_long_list)                                                                        \
    X(quick_changes_end_with_the_last)                                                             \
    X(watches_come_and_go_in_callbacks)                                                            \
    X(a_stopped_watch_is_told_nothing)                                                             \
    X(lease_keeps_its_keys_while_kept_alive)                                                       \
    X(lease_closed_takes_its_keys)                                                                 \
    X(lease_of_a_stopped_holder_ends)                                                              \
    X(lease_ends_for_those_who_only_ask)                                                           \
    X(key_leaves_its_lease)                                                                        \
    X(change_needs_its_guard)                                                                      \
    X(guard_of_a_lease_that_ends)                                                                  \
    X(lease_that_cannot_be)                                                                        \
    X(lease_closed_at_once)                                                                        \
    X(done_is_not_called_by_submit)                                                                \
    X(cancelled_is_never_done)                                                                     \
    X(deadlines)                                                                                   \
    X(requests_from_callbacks)                                                                     \
    X(close_with_news_untold)

#define STORE_SUITE_DECLARE(name) void store_suite_##name(const store_place *place);
STORE_SUITE(STORE_SUITE_DECLARE)

/* --- The rig, for tests of one store alone too --- */

#define STORE_CHECK(condition)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);          \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#define STORE_CLIENTS_MAX 64
#define STORE_TTL_NS FRY_STORE_LEASE_MIN_NS

typedef struct store_rig store_rig;

/* Somebody who uses the store, with a reactor of its own. */
typedef struct store_client {
    store_rig *rig;
    fry_reactor reactor;
    fry_store *store;
    bool is_stopped; /* its reactor is not run */
} store_client;

struct store_rig {
    const store_place *place;
    failing_allocator allocator;
    fry_memory memory;
    fry_log log;
    stepped_clock stepped;
    fry_clock clock;
    store_client clients[STORE_CLIENTS_MAX];
    size_t count;
    char prefix[64]; /* of a case's keys, with a slash */
};

/* Opens `count` clients. */
void store_rig_open(store_rig *rig, const store_place *place, size_t count);

/* Closes them; nothing may be left of their memory. */
void store_rig_close(store_rig *rig);

/* The same, but what is in the store stays there. */
void store_rig_leave(store_rig *rig);

/* How many entries a case makes that makes many. */
size_t store_rig_most(const store_rig *rig);

/* Runs the reactors once; waits a moment if none has anything to do. */
void store_rig_turn(store_rig *rig);

/* Until *flag; ends the program if that takes half a minute. */
void store_rig_until(store_rig *rig, const bool *flag);

/* Lets time go by, the store's time, while the clients run that are not stopped. */
void store_rig_pass(store_rig *rig, int64_t ns);

/* Until all that is under way has come through, as far as that can be known: a few turns. */
void store_rig_settle(store_rig *rig);

/* A request and what came of it. */
typedef struct store_ask {
    fry_store_request request;
    char key[FRY_STORE_KEY_BYTES + 2];
    bool is_done;
    size_t times;
    ferry_status status;
    size_t count;          /* of entries */
    fry_store_entry entry; /* the first; its key and value are the ask's */
    char *keys;            /* of all, each with a space behind it */
} store_ask;

/* Zeroes it and fills in; key is put behind the rig's prefix unless it is NULL. */
void store_ask_init(store_ask *ask, store_client *client, fry_store_verb verb, const char *key);

/* Submits and waits; gives the status. store_ask_free frees what came. */
ferry_status store_ask_run(store_client *client, store_ask *ask);
void store_ask_free(store_ask *ask);

/* The same with a value and a version; store_try is for the status alone. */
ferry_status store_ask_with(store_client *client, fry_store_verb verb, const char *key,
                            const char *value, uint64_t version, store_ask *ask);
ferry_status store_try(store_client *client, fry_store_verb verb, const char *key,
                       const char *value, uint64_t version);
bool store_has_value(const store_ask *ask, const char *value);

/* The same where a key has to stand in a lease. */
ferry_status store_try_guarded(store_client *client, fry_store_verb verb, const char *key,
                               const char *value, uint64_t version, const char *guard,
                               fry_store_lease *lease);

ferry_status store_get(store_client *client, const char *key, store_ask *ask);
uint64_t store_put(store_client *client, const char *key, const char *value,
                   fry_store_lease *lease); /* the version */
ferry_status store_put_bytes(store_client *client, const char *key, const void *value,
                             size_t value_bytes);
ferry_status store_delete(store_client *client, const char *key);

/* A watch and what it has told. */
#define STORE_KNOWN_MAX 2048
typedef struct store_known {
    char key[FRY_STORE_KEY_BYTES + 1];
    uint64_t version;
    bool is_there;
    char value[32]; /* its beginning */
} store_known;

typedef struct store_seen {
    fry_store_watch watch;
    store_client *client;
    bool is_listed, is_lost;
    size_t events, listed, healthy, lost, another, puts, deletes, before_listed;
    store_known *known;
    size_t known_count;
    void (*on_event)(struct store_seen *seen, fry_store_event event, const fry_store_entry *entry);
    char prefix[FRY_STORE_KEY_BYTES + 1];
} store_seen;

/* Behind the rig's prefix. store_seen_free stops it, too. */
void store_seen_start(store_seen *seen, store_client *client, const char *prefix);
void store_seen_free(store_seen *seen);

/* What it knows of a key that is there; NULL: that it is not, or nothing. */
const store_known *store_seen_of(const store_seen *seen, const char *key);

/* Waits until it knows a key at this version, or, 0, gone. */
void store_seen_until(store_seen *seen, const char *key, uint64_t version);

typedef struct store_held {
    fry_store_lease lease;
    bool is_granted, is_over, is_refused;
} store_held;

void store_held_open(store_held *held, store_client *client); /* and waits for it */

/* The same, by a deadline on the rig's clock; 0: none. */
void store_held_open_by(store_held *held, store_client *client, int64_t deadline_ns);

/* The same with another ttl than STORE_TTL_NS. */
void store_held_open_for(store_held *held, store_client *client, int64_t ttl_ns);
void store_held_close(store_held *held);

#endif
