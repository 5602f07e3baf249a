/* SPDX-License-Identifier: Apache-2.0 */
#include "net/store_mem.h"

#include "base/lf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define CHANGES_AT_ONCE 64
#define TOMBSTONES_MIN 64 /* fewer are not worth a look */

pthread_mutex_t fry_space_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, mem_space) spaces = LIST_HEAD_INITIALIZER(spaces);

static int by_key(mem_slot *left, mem_slot *right)
{
    return strcmp(left->record->key, right->record->key);
}

RB_GENERATE_INTERNAL(mem_slots, mem_slot, by_key, by_key, static __attribute__((unused)))

/* --- Records --- */

/* With one reference; NULL: no memory. It outlives the engine, so it is the C library's. */
static fry_record *new_record(const char *key, const void *value, size_t value_bytes)
{
    const size_t key_bytes = strlen(key) + 1;
    fry_record *made = malloc(sizeof *made + value_bytes + 1 + key_bytes);

    if (made == NULL)
        return NULL;
    made->references = 1;
    made->version = 0;
    made->value_bytes = value_bytes;
    if (value_bytes > 0)
        memcpy(made->bytes, value, value_bytes);
    made->bytes[value_bytes] = '\0';
    memcpy(made->bytes + value_bytes + 1, key, key_bytes);
    made->key = made->bytes + value_bytes + 1;
    return made;
}

static fry_record *retain(fry_record *item)
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

fry_store_entry fry_record_entry(const fry_record *item)
{
    return (fry_store_entry){.key = item->key,
                             .value = item->bytes,
                             .value_bytes = item->value_bytes,
                             .version = item->version};
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
static mem_slot *find_any(mem_space *in, const char *key)
{
    fry_record sought = {.key = key};
    mem_slot like = {.record = &sought};

    return RB_FIND(mem_slots, &in->slots, &like);
}

static mem_slot *find(mem_space *in, const char *key)
{
    mem_slot *found = find_any(in, key);

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

/* Frees what every store with watches knows to be gone, once it is worth the look. */
static void collect(mem_space *in)
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

/* Sets a key to a record, whose reference goes in. *spare_p becomes its slot if it has none. */
static void set(mem_space *in, mem_slot **spare_p, fry_record *to, uint64_t lease)
{
    mem_slot *found = find_any(in, to->key);

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

/* NULL: it has ended. */
static const mem_lease *find_lease(mem_space *in, uint64_t id)
{
    const mem_lease *lease;

    LIST_FOREACH(lease, &in->leases, entry)
    {
        if (lease->id == id && !lease->has_ended)
            return lease;
    }
    return NULL;
}

static void delete_of(mem_space *in, uint64_t lease)
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
        if (lease->has_ended)
            continue;
        const int64_t left_ns =
            lease->ends_ns - fry_clock_now_ns(lease->holder->local.base.reactor->clock);

        if (left_ns > 0) {
            least_ns = left_ns < least_ns ? left_ns : least_ns;
            continue;
        }
        lease->has_ended = true;
        delete_of(in, lease->id);
        fry_mem_signal(lease->holder);
    }
    if (next_in_ns != NULL)
        *next_in_ns = least_ns;
}

static void free_space(mem_space *in)
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

fry_record **fry_space_list(mem_space *in, const char *prefix, size_t *count_p)
{
    const size_t prefix_bytes = strlen(prefix);
    fry_record **items = NULL;
    size_t count = 0;
    mem_slot *item;

    *count_p = in->live;
    if (in->live > 0)
        items = malloc(in->live * sizeof(fry_record *));
    if (items == NULL)
        return NULL;
    RB_FOREACH(item, mem_slots, &in->slots)
    {
        if (!item->is_deleted && strncmp(item->record->key, prefix, prefix_bytes) == 0)
            items[count++] = retain(item->record);
    }
    *count_p = count;
    return items;
}

/* --- What the front asks --- */

/* What is given stays until the next is. */
static void give(mem_store *self, fry_record *item, fry_store_entry *entry)
{
    fry_record_release(self->given);
    self->given = item;
    if (item != NULL)
        *entry = fry_record_entry(item);
}

static ferry_status read_key(fry_local *local, const char *key, fry_store_entry *entry,
                             uint64_t *lease_p)
{
    mem_store *self = (mem_store *)local;

    (void)pthread_mutex_lock(&fry_space_lock);
    const mem_slot *found = find(self->space, key);
    fry_record *item = found != NULL ? retain(found->record) : NULL;
    *lease_p = found != NULL ? found->lease : 0; /* else there is nothing to sweep */
    (void)pthread_mutex_unlock(&fry_space_lock);
    give(self, item, entry);
    return item != NULL ? FERRY_OK : FERRY_E_NOT_FOUND;
}

static bool guard_stands(mem_space *in, const fry_store_request *request)
{
    if (request->guard_key == NULL)
        return true;
    const mem_slot *guard = find(in, request->guard_key);

    return guard != NULL && guard->lease == request->guard_id &&
           find_lease(in, request->guard_id) != NULL;
}

/* Whether a change is refused by what is there; *out_p is a reference to what it finds changed. */
static ferry_status check(mem_store *self, const fry_store_request *request, fry_record **out_p)
{
    mem_space *in = self->space;
    const fry_store_verb verb = request->verb;
    const mem_slot *found = find(in, request->key);

    if (!guard_stands(in, request))
        return FERRY_E_FENCED;
    if (request->lease_id != 0 && find_lease(in, request->lease_id) == NULL) {
        self->local.why = "the lease has ended";
        return FERRY_E_STORE;
    }
    if (found == NULL && (verb == FRY_STORE_SWAP || verb == FRY_STORE_DELETE))
        return FERRY_E_NOT_FOUND;
    if (found != NULL &&
        (verb == FRY_STORE_CREATE || (verb != FRY_STORE_PUT && request->version != 0 &&
                                      found->record->version != request->version))) {
        *out_p = retain(found->record);
        return FERRY_E_CHANGED;
    }
    if (found == NULL && (in->live >= FRY_STORE_ENTRIES_MAX ||
                          in->live + in->tombstones >= (size_t)2 * FRY_STORE_ENTRIES_MAX)) {
        self->local.why = "the store is full";
        return FERRY_E_STORE;
    }
    return FERRY_OK;
}

static ferry_status change(fry_local *local, const fry_store_request *request,
                           fry_store_entry *entry)
{
    mem_store *self = (mem_store *)local;
    const bool sets = request->verb != FRY_STORE_DELETE;
    fry_record *to = NULL, *out = NULL;
    mem_slot *spare = NULL;
    ferry_status status = FERRY_E_NO_MEMORY;

    /* The value is copied before the mutex is taken. */
    if (sets) {
        to = new_record(request->key, request->value, request->value_bytes);
        spare = malloc(sizeof *spare);
    }
    self->local.why = "no memory for a value";
    if (!sets || (to != NULL && spare != NULL)) {
        (void)pthread_mutex_lock(&fry_space_lock);
        fry_space_expire(self->space, NULL);
        status = check(self, request, &out);
        if (status == FERRY_OK && sets) {
            out = retain(to);
            set(self->space, &spare, to, request->lease_id);
            to = NULL;
        } else if (status == FERRY_OK) {
            fry_space_delete(self->space, find(self->space, request->key));
        }
        collect(self->space);
        (void)pthread_mutex_unlock(&fry_space_lock);
    }
    fry_record_release(to);
    free(spare);
    give(self, out, entry);
    if (status == FERRY_OK) { /* who put it knows the value */
        entry->value = NULL;
        entry->value_bytes = 0;
    }
    return status;
}

static ferry_status names(fry_local *local, fry_local_name_fn fn, void *arg, bool *is_settled_p)
{
    mem_store *self = (mem_store *)local;
    bool goes_on = true;
    size_t count;

    (void)pthread_mutex_lock(&fry_space_lock);
    fry_record **items = fry_space_list(self->space, "", &count);
    (void)pthread_mutex_unlock(&fry_space_lock);
    *is_settled_p = true;
    if (items == NULL && count > 0) {
        local->why = "no memory for a list";
        return FERRY_E_NO_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        goes_on = goes_on && fn(arg, items[i]->key);
        fry_record_release(items[i]);
    }
    free(items);
    return FERRY_OK;
}

/* --- Leases: private_ is the space's --- */

static ferry_status lease_make(fry_local *local, fry_store_lease *lease)
{
    mem_store *self = (mem_store *)local, *member;
    mem_lease *held = malloc(sizeof *held);

    if (held == NULL) {
        local->why = "no memory for a lease";
        return FERRY_E_NO_MEMORY;
    }
    (void)pthread_mutex_lock(&fry_space_lock);
    *held = (mem_lease){.holder = self, .id = ++self->space->lease_ids, .ends_ns = lease->ends_ns};
    LIST_INSERT_HEAD(&self->space->leases, held, entry);
    /* Whoever watches looks anew when the first lease may end. */
    LIST_FOREACH(member, &self->space->members, entry)
    {
        if (member->seen != UINT64_MAX)
            fry_mem_signal(member);
    }
    (void)pthread_mutex_unlock(&fry_space_lock);
    lease->id = held->id;
    lease->private_ = held;
    return FERRY_OK;
}

static ferry_status lease_extend(fry_local *local, fry_store_lease *lease, int64_t ends_ns)
{
    mem_lease *held = lease->private_;

    (void)pthread_mutex_lock(&fry_space_lock);
    fry_space_expire(((mem_store *)local)->space, NULL);
    const bool has_ended = held->has_ended;
    if (!has_ended)
        held->ends_ns = ends_ns;
    (void)pthread_mutex_unlock(&fry_space_lock);
    return has_ended ? FERRY_E_NOT_FOUND : FERRY_OK;
}

static void lease_drop(fry_local *local, fry_store_lease *lease)
{
    mem_lease *held = lease->private_;

    (void)pthread_mutex_lock(&fry_space_lock);
    if (!held->has_ended)
        delete_of(((mem_store *)local)->space, held->id);
    LIST_REMOVE(held, entry);
    (void)pthread_mutex_unlock(&fry_space_lock);
    free(held);
}

/* --- Watching --- */

static bool begin(fry_local *local, bool is_look)
{
    mem_store *self = (mem_store *)local;
    fry_store_lease *lease;
    int64_t next_in_ns;

    (void)is_look;
    (void)pthread_mutex_lock(&fry_space_lock);
    self->is_signalled = false;
    fry_space_expire(self->space, &next_in_ns);
    (void)pthread_mutex_unlock(&fry_space_lock);
    self->next_ns =
        next_in_ns == INT64_MAX ? INT64_MAX : fry_reactor_now_ns(local->base.reactor) + next_in_ns;
    FRY_STORE_EACH_LEASE(lease, &local->base)
    {
        const mem_lease *held = lease->private_;

        (void)pthread_mutex_lock(&fry_space_lock);
        const bool has_ended = held != NULL && held->has_ended;
        (void)pthread_mutex_unlock(&fry_space_lock);
        if (has_ended)
            fry_local_lease_ended(local, lease);
    }
    return true;
}

static int64_t next_ns(fry_local *local)
{
    return ((const mem_store *)local)->next_ns;
}

static bool follow_start(fry_local *local)
{
    mem_store *self = (mem_store *)local;

    (void)pthread_mutex_lock(&fry_space_lock);
    self->seen = self->space->revision;
    (void)pthread_mutex_unlock(&fry_space_lock);
    return true;
}

static void follow_stop(fry_local *local)
{
    mem_store *self = (mem_store *)local;

    (void)pthread_mutex_lock(&fry_space_lock);
    self->seen = UINT64_MAX;
    collect(self->space);
    (void)pthread_mutex_unlock(&fry_space_lock);
}

/* What was changed since the store looked last, the earliest first; it has seen that then. */
static size_t take_changes(mem_store *self, fry_record *changed[CHANGES_AT_ONCE])
{
    mem_slot *item = TAILQ_LAST(&self->space->changes, mem_changes), *next = NULL;
    size_t count = 0;

    for (; item != NULL && item->changed > self->seen;
         item = TAILQ_PREV(item, mem_changes, by_change))
        next = item;
    for (item = next; item != NULL && count < CHANGES_AT_ONCE; item = TAILQ_NEXT(item, by_change)) {
        self->seen = item->changed;
        changed[count++] = retain(item->record);
    }
    return count;
}

static bool follow(fry_local *local)
{
    mem_store *self = (mem_store *)local;
    fry_record *changed[CHANGES_AT_ONCE];
    bool is_known = true;

    (void)pthread_mutex_lock(&fry_space_lock);
    const size_t count = take_changes(self, changed);
    collect(self->space);
    (void)pthread_mutex_unlock(&fry_space_lock);
    for (size_t i = 0; i < count; i++) {
        is_known = is_known && fry_local_look(local, changed[i]->key);
        fry_record_release(changed[i]);
    }
    if (!is_known)
        fry_local_lose(local);
    return is_known && count == CHANGES_AT_ONCE;
}

static void is_signalled(fry_watch *watch, uint32_t events)
{
    (void)events;
    fry_local_run(watch->arg);
}

/* --- Stores --- */

static void close_store(fry_local *local)
{
    mem_store *self = (mem_store *)local;
    fry_reactor *reactor = local->base.reactor;

    (void)pthread_mutex_lock(&fry_space_lock);
    LIST_REMOVE(self, entry);
    if (LIST_EMPTY(&self->space->members))
        free_space(self->space);
    (void)pthread_mutex_unlock(&fry_space_lock);
    fry_poller_remove(&reactor->poller, &self->signal);
    (void)close(self->signal.fd);
    fry_record_release(self->given);
    fry_free(reactor->memory, self, sizeof *self);
}

static const fry_local_ops backend = {
    .close = close_store,
    .begin = begin,
    .read = read_key,
    .change = change,
    .names = names,
    .lease_make = lease_make,
    .lease_extend = lease_extend,
    .lease_drop = lease_drop,
    .follow_start = follow_start,
    .follow = follow,
    .follow_stop = follow_stop,
    .next_ns = next_ns,
};

ferry_status fry_mem_open(fry_reactor *reactor, const char *uri, const fry_store_options *options,
                          fry_store **store_p, fry_error **error_p)
{
    const fry_memory *memory = reactor->memory;
    const char *name = uri + strlen("mem:");
    ferry_status status = FERRY_E_NO_MEMORY;

    (void)options;
    if (*name == '\0' || strlen(name) > FRY_STORE_KEY_BYTES)
        return fry_store_error(memory, FERRY_E_INVALID, error_p,
                               "mem: is followed by a name of 1 to %d bytes", FRY_STORE_KEY_BYTES);
    mem_store *self = fry_alloc(memory, sizeof *self, _Alignof(mem_store));
    if (self == NULL)
        goto err_alloc;
    fry_local_init(&self->local, reactor, &backend);
    self->signal = (fry_watch){.fn = is_signalled, .arg = self};
    self->seen = UINT64_MAX;
    status = FERRY_E_STORE;
    self->signal.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->signal.fd < 0)
        goto err_eventfd;
    if (fry_poller_add(&reactor->poller, &self->signal, EPOLLIN | EPOLLET) != FERRY_OK)
        goto err_add;
    (void)pthread_mutex_lock(&fry_space_lock);
    self->space = fry_space_open(name);
    if (self->space != NULL)
        LIST_INSERT_HEAD(&self->space->members, self, entry);
    (void)pthread_mutex_unlock(&fry_space_lock);
    status = FERRY_E_NO_MEMORY;
    if (self->space == NULL)
        goto err_space;
    *store_p = &self->local.base;
    return FERRY_OK;

err_space:
    fry_poller_remove(&reactor->poller, &self->signal);
err_add:
    (void)close(self->signal.fd);
err_eventfd:
    fry_free(memory, self, sizeof *self);
err_alloc:
    return fry_store_error(memory, status, error_p, "cannot open a store in memory");
}
