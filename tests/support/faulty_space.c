/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/faulty_space.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PASTS_MAX 256

static faulty_past pasts[PASTS_MAX];

void faulty_need(bool is_so, const char *what)
{
    if (is_so)
        return;
    (void)fprintf(stderr, "faulty_store: %s\n", what);
    abort();
}

fry_store_entry faulty_entry_copy(const fry_store_entry *entry)
{
    fry_store_entry copy = *entry;
    char *key = strdup(entry->key);
    char *value = calloc(1, entry->value_bytes + 1);

    faulty_need(key != NULL && value != NULL, "no memory");
    if (entry->value != NULL)
        memcpy(value, entry->value, entry->value_bytes);
    copy.key = key;
    copy.value = value;
    return copy;
}

void faulty_entry_free(fry_store_entry *entry)
{
    free((void *)(uintptr_t)entry->key);
    free((void *)(uintptr_t)entry->value);
}

static faulty_past *find_past(const char *name)
{
    for (size_t i = 0; i < PASTS_MAX; i++) {
        if (pasts[i].name[0] == '\0' || strcmp(pasts[i].name, name) == 0)
            return &pasts[i];
    }
    faulty_need(false, "too many spaces that were emptied");
    return NULL;
}

const faulty_past *faulty_space_past(const mem_space *space)
{
    static const faulty_past none;
    const faulty_past *found = find_past(space->name);

    return found->name[0] != '\0' ? found : &none;
}

static mem_space *space_of(const char *uri)
{
    faulty_need(strncmp(uri, "mem:", 4) == 0, "it is of mem: stores");
    return fry_space_open(uri + 4); /* somebody has it open */
}

static int64_t ttl_of(const mem_lease *held)
{
    const fry_store_lease *lease;

    LIST_FOREACH(lease, &held->holder->local.base.leases, entry) {
        if (lease->private_ == held)
            return lease->ttl_ns;
    }
    return 0; /* of who is gone */
}

static void set_ends(const char *uri, bool is_frozen)
{
    mem_lease *held;

    (void)pthread_mutex_lock(&fry_space_lock);
    mem_space *space = space_of(uri);
    LIST_FOREACH(held, &space->leases, entry) {
        const int64_t now_ns = fry_clock_now_ns(held->holder->local.base.reactor->clock);

        if (!held->has_ended)
            held->ends_ns = is_frozen ? INT64_MAX : now_ns + ttl_of(held);
    }
    (void)pthread_mutex_unlock(&fry_space_lock);
}

void faulty_space_freeze(const char *uri)
{
    set_ends(uri, true);
}

void faulty_space_thaw(const char *uri)
{
    set_ends(uri, false);
}

void faulty_space_empty(const char *uri)
{
    mem_lease *held;

    (void)pthread_mutex_lock(&fry_space_lock);
    mem_space *space = space_of(uri);
    faulty_past *of_space = find_past(space->name);
    (void)snprintf(of_space->name, sizeof of_space->name, "%s", space->name);
    LIST_FOREACH(held, &space->leases, entry)
        held->has_ended = true;
    while (RB_ROOT(&space->records) != NULL)
        fry_space_delete(space, RB_ROOT(&space->records));
    of_space->lives++;
    of_space->base = space->revision;
    (void)pthread_mutex_unlock(&fry_space_lock);
}
