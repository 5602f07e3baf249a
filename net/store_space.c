/* SPDX-License-Identifier: Apache-2.0 */
#include "net/store_space.h"

#include "base/lf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#define TOMBSTONES_MIN 64 /* fewer are not worth a look */

pthread_mutex_t fry_space_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, mem_space) spaces = LIST_HEAD_INITIALIZER(spaces);

static int by_key(mem_slot *left, mem_slot *right)
{
    return strcmp(left->record->key, right->record->key);
}

RB_GENERATE_INTERNAL(mem_slots, mem_slot, by_key, by_key, static __attribute__((unused)))

/* --- Records --- */

/* A space outlives the engines that use it, so its memory is the C library's. */
fry_record *fry_record_new(const char *key, const void *value, size_t value_bytes)
{
    const size_t key_bytes = strlen(key) + 1;
    const size_t size_bytes = sizeof(fry_record) + value_bytes + 1 + key_bytes;
    fry_record *made = malloc(size_bytes);

    if (made == NULL)
        return NULL;
    made->references = 1;
    made->version = 0;
    made->size_bytes = size_bytes;
    made->value_bytes = value_bytes;
    if (value_bytes > 0)
        memcpy(made->bytes, value, value_bytes);
    made->bytes[value_bytes] = '\0';
    memcpy(made->bytes + value_bytes + 1, key, key_bytes);
    made->key = made->bytes + value_bytes + 1;
    return made;
}

fry_record *fry_record_retain(fry_record *item)
{
    (void)fry_fetch_add(&item->references, 1);
    return item;
}

/* A full barrier: what other holders read is read before the memory goes. */
void fry_record_release(fry_record *item)
{
    if (item != NULL && fry_fetch_sub(&item->references, 1) == 1)
        free(item);
}

fry_store_entry fry_record_entry(const fry_record *item, bool with_value)
{
    return (fry_store_entry){
        .key = item->key,
        .value = with_value ? item->bytes : NULL,
        .value_bytes = with_value ? item->value_bytes : 0,
        .version = item->version,
    };
}

/* --- Spaces, with the mutex held --- */

void fry_mem_signal(mem_store *self)
{
    if (self->is_signalled)
        return;
    self->is_signalled = true;
    /* EAGAIN: the counter is full, after 2^64 - 2 signals; it can't be in a life. */
    while (eventfd_write(self->signal.fd, 1) != 0 && errno == EINTR)
        continue;
}

static void signal_watchers(mem_space *in)
{
    mem_store *member;

    LIST_FOREACH(member, &in->members, entry)
    {
        if (member->seen != UINT64_MAX)
            fry_mem_signal(member);
    }
}

static void slot_has_changed(mem_space *in, mem_slot *changed)
{
    changed->changed = ++in->revision;
    TAILQ_INSERT_TAIL(&in->changes, changed, by_change);
    signal_watchers(in);
}

/* The slot of a key, deleted or not; NULL: there is none. */
static mem_slot *find(mem_space *in, const char *key)
{
    fry_record sought = {.key = key};
    mem_slot like = {.record = &sought};

    return RB_FIND(mem_slots, &in->slots, &like);
}

mem_slot *fry_space_find(mem_space *in, const char *key)
{
    mem_slot *found = find(in, key);

    return found != NULL && !found->is_deleted ? found : NULL;
}

void fry_space_delete(mem_space *in, mem_slot *gone)
{
    TAILQ_REMOVE(&in->changes, gone, by_change);
    gone->is_deleted = true;
    gone->lease = 0;
    in->live--;
    in->tombstones++;
    slot_has_changed(in, gone);
}

void fry_space_collect(mem_space *in)
{
    uint64_t seen = UINT64_MAX;
    mem_store *member;
    mem_slot *item, *next;

    if (in->tombstones < TOMBSTONES_MIN || in->tombstones < in->live)
        return;
    LIST_FOREACH(member, &in->members, entry)
    seen = member->seen < seen ? member->seen : seen;
    TAILQ_FOREACH_SAFE(item, &in->changes, by_change, next)
    {
        if (item->changed > seen)
            break;
        if (!item->is_deleted)
            continue;
        TAILQ_REMOVE(&in->changes, item, by_change);
        RB_REMOVE(mem_slots, &in->slots, item);
        in->tombstones--;
        fry_record_release(item->record);
        free(item);
    }
}

void fry_space_set(mem_space *in, mem_slot **spare_p, fry_record *to, uint64_t lease)
{
    mem_slot *found = find(in, to->key);

    if (found == NULL) {
        found = *spare_p;
        *spare_p = NULL;
        *found = (mem_slot){.record = to, .is_deleted = true};
        RB_INSERT(mem_slots, &in->slots, found);
        in->tombstones++;
    } else {
        TAILQ_REMOVE(&in->changes, found, by_change);
        /* The tree's order is by the key in the record: an equal one takes its place. */
        fry_record_release(found->record);
        found->record = to;
    }
    if (found->is_deleted) {
        in->tombstones--;
        in->live++;
    }
    found->is_deleted = false;
    found->lease = lease;
    slot_has_changed(in, found);
    to->version = in->revision;
}

mem_lease *fry_space_lease(mem_space *in, uint64_t id)
{
    mem_lease *lease;

    LIST_FOREACH(lease, &in->leases, entry)
    {
        if (lease->id == id)
            return lease;
    }
    return NULL;
}

void fry_space_delete_of(mem_space *in, uint64_t lease)
{
    mem_slot *item, *next;

    /* Those that are deleted go behind the rest, which are not of a lease: it ends. */
    TAILQ_FOREACH_SAFE(item, &in->changes, by_change, next)
    {
        if (item->lease == lease)
            fry_space_delete(in, item);
    }
}

void fry_space_expire(mem_space *in, int64_t *next_in_ns)
{
    mem_lease *lease;
    int64_t least_ns = INT64_MAX;

    LIST_FOREACH(lease, &in->leases, entry)
    {
        if (lease->state == LEASE_ENDED)
            continue;
        const int64_t left_ns =
            lease->ends_ns - fry_clock_now_ns(lease->holder->base.reactor->clock);

        if (left_ns > 0) {
            least_ns = left_ns < least_ns ? left_ns : least_ns;
            continue;
        }
        lease->state = LEASE_ENDED;
        fry_space_delete_of(in, lease->id);
        fry_mem_signal(lease->holder);
    }
    if (next_in_ns != NULL)
        *next_in_ns = least_ns;
}

void fry_space_free(mem_space *in)
{
    mem_slot *item, *next;

    TAILQ_FOREACH_SAFE(item, &in->changes, by_change, next)
    {
        fry_record_release(item->record);
        free(item);
    }
    LIST_REMOVE(in, entry);
    free(in);
}

mem_space *fry_space_open(const char *name)
{
    mem_space *found;

    LIST_FOREACH(found, &spaces, entry)
    {
        if (strcmp(found->name, name) == 0)
            return found;
    }
    found = calloc(1, sizeof *found + strlen(name) + 1);
    if (found == NULL)
        return NULL;
    LIST_INIT(&found->members);
    LIST_INIT(&found->leases);
    RB_INIT(&found->slots);
    TAILQ_INIT(&found->changes);
    (void)strcpy(found->name, name);
    LIST_INSERT_HEAD(&spaces, found, entry);
    return found;
}

bool fry_space_has_prefix(const char *key, const char *prefix)
{
    return prefix == NULL || strncmp(key, prefix, strlen(prefix)) == 0;
}

fry_record **fry_space_list(mem_space *in, const char *prefix, size_t *count_p,
                            size_t *value_bytes_p)
{
    fry_record **items = NULL;
    size_t count = 0, value_bytes = 0;
    mem_slot *item;

    RB_FOREACH(item, mem_slots, &in->slots)
    count += !item->is_deleted && fry_space_has_prefix(item->record->key, prefix);
    *count_p = count;
    if (count > 0)
        items = malloc(count * sizeof(fry_record *));
    if (items == NULL)
        return NULL;
    count = 0;
    RB_FOREACH(item, mem_slots, &in->slots)
    {
        if (item->is_deleted || !fry_space_has_prefix(item->record->key, prefix))
            continue;
        items[count++] = fry_record_retain(item->record);
        value_bytes += item->record->value_bytes;
    }
    *value_bytes_p = value_bytes;
    return items;
}
