/* SPDX-License-Identifier: Apache-2.0 */
/* A file: store whose folder, or a part of it, is removed, moved away, made again. */
#include "tests/support/store_suite.h"
#include "tests/support/temporary_folder.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECOND_NS INT64_C(1000000000)
#define CHECK STORE_CHECK

static char folder[TEMPORARY_FOLDER_BYTES + 8], uri[TEMPORARY_FOLDER_BYTES + 16];
static const store_place place = {.uri = uri, .is_stepped = true};
static store_rig rig;
static store_seen seen;

static void make_folder(void)
{
    temporary_folder_make(folder);
    (void)snprintf(uri, sizeof uri, "file:%s", folder);
}

TestSuite(net_store_removed, .init = make_folder, .timeout = 60);

static const char *path_of(const char *name)
{
    static char path[TEMPORARY_FOLDER_BYTES + 300];

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* One client that holds a lease and a key in it, and one key without; what it sees is `seen`. */
static void open_with_keys(store_held *held)
{
    store_rig_open(&rig, &place, 1);
    rig.prefix[0] = '\0';
    store_client *client = &rig.clients[0];
    (void)store_put(client, "a", "value", NULL);
    store_held_open(held, client);
    (void)store_put(client, "l", "value", &held->lease);
    store_seen_start(&seen, client, "");
    store_rig_until(&rig, &seen.is_listed);
}

static void is_lost_with_all_it_has(void)
{
    store_client *client = &rig.clients[0];

    store_rig_until(&rig, &seen.is_lost);
    CHECK(seen.deletes == 0 && seen.another == 0);
    CHECK(store_get(client, "a", NULL) == FERRY_E_STORE);
    CHECK(store_put_bytes(client, "a", "x", 1) == FERRY_E_STORE);
    CHECK(store_delete(client, "a") == FERRY_E_STORE);
    CHECK(store_try(client, FRY_STORE_LIST, NULL, NULL, 0) == FERRY_E_STORE);
}

/* What is there is another store, without a past: versions begin anew, and leases. */
static void is_another(const store_held *held, size_t deletes)
{
    store_client *client = &rig.clients[0];
    store_held again;

    CHECK(!seen.is_lost && seen.another == 1 && seen.healthy == 1 && seen.deletes == deletes);
    CHECK(held->is_over);
    CHECK(store_get(client, "l", NULL) == FERRY_E_NOT_FOUND);
    store_held_open(&again, client);
    store_seen_until(&seen, "l", store_put(client, "l", "again", &again.lease));
    store_seen_until(&seen, "a", store_put(client, "a", "again", NULL));
    store_held_close(&again);
    store_seen_until(&seen, "l", 0);
}

static void remove_folder(void)
{
    CHECK(unlink(path_of("state")) == 0);
    temporary_folder_remove(folder);
}

Test(net_store_removed, a_removed_folder_is_a_loss_not_a_deletion)
{
    char parent[TEMPORARY_FOLDER_BYTES + 16];
    store_held held;

    (void)snprintf(parent, sizeof parent, "%s", folder);
    (void)snprintf(folder + strlen(folder), 8, "/below");
    CHECK(mkdir(folder, 0700) == 0);
    (void)snprintf(uri, sizeof uri, "file:%s", folder);
    open_with_keys(&held);
    remove_folder();
    CHECK(rmdir(parent) == 0); /* so nobody can make it */
    is_lost_with_all_it_has();
    store_rig_pass(&rig, 20 * SECOND_NS);
    is_lost_with_all_it_has();
    static store_seen late;
    store_seen_start(&late, &rig.clients[0], "");
    store_rig_until(&rig, &late.is_lost);
    store_seen_free(&late);
    CHECK(mkdir(parent, 0700) == 0);
    store_rig_pass(&rig, SECOND_NS);
    is_another(&held, 2);
    store_seen_free(&seen);
    store_rig_close(&rig);
}

/* Not at once: whoever removes it may be about to put another in its place. */
Test(net_store_removed, a_removed_folder_is_made_again)
{
    store_held held;

    open_with_keys(&held);
    remove_folder();
    is_lost_with_all_it_has();
    store_rig_pass(&rig, 3 * SECOND_NS / 2);
    is_lost_with_all_it_has();
    store_rig_pass(&rig, SECOND_NS);
    is_another(&held, 2);
    store_seen_free(&seen);
    store_rig_close(&rig);
}

/* Whoever opens it first makes it, and may have written to it. */
Test(net_store_removed, a_removed_folder_that_another_has_made)
{
    store_held held;

    open_with_keys(&held);
    remove_folder();
    is_lost_with_all_it_has();
    store_rig other;
    store_rig_open(&other, &place, 1);
    other.prefix[0] = '\0';
    (void)store_put(&other.clients[0], "a", "theirs", NULL);
    store_rig_pass(&rig, SECOND_NS);
    CHECK(strcmp(store_seen_of(&seen, "a")->value, "theirs") == 0);
    is_another(&held, 1);
    store_seen_free(&seen);
    store_rig_leave(&other);
    store_rig_close(&rig);
}

/* Parts of it alone: what can't be found there is not known to be gone, until it is another. */
Test(net_store_removed, a_folder_of_which_a_part_is_removed)
{
    char moved[TEMPORARY_FOLDER_BYTES + 32];
    store_held held;

    open_with_keys(&held);
    for (const char *name = "a"; name != NULL; name = *name == 'a' ? "l" : NULL) {
        char key[TEMPORARY_FOLDER_BYTES + 16];

        (void)snprintf(key, sizeof key, "%s/keys/%s", folder, name);
        (void)snprintf(moved, sizeof moved, "%s/%s", folder, name);
        CHECK(rename(key, moved) == 0); /* so that the folder can go */
    }
    CHECK(rmdir(path_of("keys")) == 0);
    is_lost_with_all_it_has();
    store_rig_pass(&rig, SECOND_NS);
    is_another(&held, 2);
    store_seen_free(&seen);
    store_rig_close(&rig);
}

/* Whoever opens the store has another than who had it open: so these go with them. */
Test(net_store_removed, a_folder_that_moves_away_and_comes_back)
{
    char moved[TEMPORARY_FOLDER_BYTES + 32], parent[TEMPORARY_FOLDER_BYTES + 16];
    store_held held;

    (void)snprintf(parent, sizeof parent, "%s", folder);
    (void)snprintf(moved, sizeof moved, "%s/moved", folder);
    (void)snprintf(folder + strlen(folder), 3, "/x");
    (void)snprintf(uri, sizeof uri, "file:%s", folder);
    open_with_keys(&held);
    CHECK(rename(folder, moved) == 0);
    store_rig_pass(&rig, STORE_TTL_NS / 3); /* nothing tells of it but its own renewal */
    is_lost_with_all_it_has();
    CHECK(rename(moved, folder) == 0);
    store_rig_pass(&rig, SECOND_NS);
    CHECK(!seen.is_lost && seen.another == 1 && held.is_over);
    CHECK(store_seen_of(&seen, "a") != NULL && store_seen_of(&seen, "l") == NULL);
    CHECK(rename(folder, moved) == 0);
    CHECK(store_get(&rig.clients[0], "a", NULL) == FERRY_E_STORE && seen.is_lost);
    store_rig_pass(&rig, 3 * SECOND_NS);
    CHECK(!seen.is_lost && seen.another == 2 && store_seen_of(&seen, "a") == NULL);
    store_seen_free(&seen);
    store_rig_close(&rig);
    (void)strcpy(folder, parent);
}
