/* SPDX-License-Identifier: Apache-2.0 */
#include "net/store/mem.h"

#include "base/lf.h"
#include "net/reactor.h"
#include "net/store/local.h"
#include "net/store/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define CHANGES_AT_ONCE 64

pthread_mutex_t fry_space_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, mem_space) spaces = LIST_HEAD_INITIALIZER(spaces);

static int by_key(mem_record *left, mem_record *right)
{
    return strcmp(left->key, right->key);
}

RB_GENERATE_INTERNAL(mem_records, mem_record, entry, by_key, static __attribute__((unused)))

/* --- Records --- */

/* Makes a record with one reference; NULL: no memory. It may outlive the engine: malloc's. */
static mem_record *new_record(const fry_store_request *request)
{
    const size_t key_bytes = strlen(request->key) + 1, value_bytes = request->value_bytes;
    mem_record *made = malloc(sizeof *made + value_bytes + 1 + key_bytes);

    if (made == NULL)
        return NULL;
    *made = (mem_record){.references = 1,
                         .lease = request->lease_id,
                         .value_bytes = value_bytes,
                         .key = made->bytes + value_bytes + 1};
    if (value_bytes > 0)
        memcpy(made->bytes, request->value, value_bytes);
    made->bytes[value_bytes] = '\0';
    memcpy(made->bytes + value_bytes + 1, request->key, key_bytes);
    return made;
}

static mem_record *retain(mem_record *item)
{
    (void)fry_fetch_add(&item->references, 1);
    return item;
}

/* A full barrier: all holders have read the record before its memory goes. */
void fry_mem_release(mem_record *item)
{
    if (item != NULL && fry_fetch_sub(&item->references, 1) == 1)
        free(item);
}

fry_store_entry fry_mem_entry(const mem_record *item)
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
    /* EAGAIN: the counter is full, after 2^64 - 2 signals; this can't happen. */
    while (eventfd_write(self->signal.fd, 1) != 0 && errno == EINTR)
        continue;
}

static mem_change *take_change(mem_store *self)
{
    mem_change *first = STAILQ_FIRST(&self->changes);

    if (first != NULL) {
        STAILQ_REMOVE_HEAD(&self->changes, entry);
        self->change_count--;
    }
    return first;
}

static void drop_changes(mem_store *self)
{
    mem_change *change;

    while ((change = take_change(self)) != NULL)
        free(change);
}

static void queue_change(mem_store *self, const char *key)
{
    mem_change *change = NULL;

    if (self->change_count < FRY_STORE_ENTRIES_MAX)
        change = malloc(sizeof *change + strlen(key) + 1);
    if (change == NULL) {
        drop_changes(self);
        self->has_missed = true;
        return;
    }
    (void)strcpy(change->key, key);
    STAILQ_INSERT_TAIL(&self->changes, change, entry);
    self->change_count++;
}

static void has_changed(mem_space *in, const char *key)
{
    mem_store *member;

    in->revision++;
    LIST_FOREACH(member, &in->members, entry) {
        if (!member->has_watches)
            continue;
        queue_change(member, key);
        fry_mem_signal(member);
    }
}

/* NULL: there is no such record. */
static mem_record *find(mem_space *in, const char *key)
{
    mem_record like = {.key = key};

    return RB_FIND(mem_records, &in->records, &like);
}

static void take_out(mem_space *in, mem_record *gone)
{
    RB_REMOVE(mem_records, &in->records, gone);
    in->count--;
    fry_mem_release(gone);
}

void fry_space_delete(mem_space *in, mem_record *gone)
{
    has_changed(in, gone->key);
    take_out(in, gone);
}

/* Takes over a reference to the record. */
static void set(mem_space *in, mem_record *to)
{
    mem_record *found = find(in, to->key);

    if (found != NULL)
        take_out(in, found);
    (void)RB_INSERT(mem_records, &in->records, to);
    in->count++;
    has_changed(in, to->key);
    to->version = in->revision;
}

/* NULL: it has ended. */
static const mem_lease *find_lease(mem_space *in, uint64_t id)
{
    const mem_lease *lease;

    LIST_FOREACH(lease, &in->leases, entry) {
        if (lease->id == id && !lease->has_ended)
            return lease;
    }
    return NULL;
}

static void delete_of(mem_space *in, uint64_t lease)
{
    mem_record *item, *next;

    RB_FOREACH_SAFE(item, mem_records, &in->records, next) {
        if (item->lease == lease)
            fry_space_delete(in, item);
    }
}

void fry_space_expire(mem_space *in, int64_t *next_in_ns)
{
    mem_lease *lease;
    int64_t least_ns = INT64_MAX;

    LIST_FOREACH(lease, &in->leases, entry) {
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
    mem_record *item;

    while ((item = RB_ROOT(&in->records)) != NULL)
        take_out(in, item);
    LIST_REMOVE(in, entry);
    free(in);
}

mem_space *fry_space_open(const char *name)
{
    mem_space *found;

    LIST_FOREACH(found, &spaces, entry) {
        if (strcmp(found->name, name) == 0)
            return found;
    }
    found = calloc(1, sizeof *found + strlen(name) + 1);
    if (found == NULL)
        return NULL;
    (void)strcpy(found->name, name);
    LIST_INSERT_HEAD(&spaces, found, entry);
    return found;
}

mem_record *fry_space_next(mem_space *in, const char *key)
{
    mem_record like = {.key = key};
    mem_record *next = RB_NFIND(mem_records, &in->records, &like);

    if (next != NULL && strcmp(next->key, key) == 0)
        next = RB_NEXT(mem_records, &in->records, next);
    return next != NULL ? retain(next) : NULL;
}

/* --- What the front asks --- */

/* An entry that was given is valid until the next is. */
static void give(mem_store *self, mem_record *item, fry_store_entry *entry)
{
    fry_mem_release(self->given);
    self->given = item;
    if (item != NULL)
        *entry = fry_mem_entry(item);
}

static ferry_status read_key(fry_local *local, const char *key, fry_store_entry *entry,
                             uint64_t *lease_p)
{
    mem_store *self = (mem_store *)local;

    (void)pthread_mutex_lock(&fry_space_lock);
    mem_record *found = find(self->space, key);
    if (found != NULL)
        (void)retain(found);
    (void)pthread_mutex_unlock(&fry_space_lock);
    give(self, found, entry);
    *lease_p = found != NULL ? found->lease : 0; /* 0: there is nothing to sweep */
    return found != NULL ? FERRY_OK : FERRY_E_NOT_FOUND;
}

static bool guard_stands(mem_space *in, const fry_store_request *request)
{
    if (request->guard_key == NULL)
        return true;
    const mem_record *guard = find(in, request->guard_key);

    return guard != NULL && guard->lease == request->guard_id &&
           find_lease(in, request->guard_id) != NULL;
}

/* Returns why a change is refused, or FERRY_OK; *out_p: a reference to the record that differs. */
static ferry_status check(mem_store *self, const fry_store_request *request, mem_record **out_p)
{
    mem_space *in = self->space;
    const fry_store_verb verb = request->verb;
    mem_record *found = find(in, request->key);

    if (!guard_stands(in, request))
        return FERRY_E_FENCED;
    if (request->lease_id != 0 && find_lease(in, request->lease_id) == NULL) {
        self->local.why = "the lease has ended";
        return FERRY_E_STORE;
    }
    if (found == NULL && (verb == FRY_STORE_SWAP || verb == FRY_STORE_DELETE))
        return FERRY_E_NOT_FOUND;
    if (found != NULL &&
        (verb == FRY_STORE_CREATE ||
         (verb != FRY_STORE_PUT && request->version != 0 && found->version != request->version))) {
        *out_p = retain(found);
        return FERRY_E_CHANGED;
    }
    if (found == NULL && in->count >= FRY_STORE_ENTRIES_MAX) {
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
    mem_record *to = sets ? new_record(request) : NULL; /* copied before the mutex is taken */
    mem_record *out = NULL;

    if (sets && to == NULL) {
        local->why = "no memory for a value";
        return FERRY_E_NO_MEMORY;
    }
    (void)pthread_mutex_lock(&fry_space_lock);
    fry_space_expire(self->space, NULL);
    const ferry_status status = check(self, request, &out);
    if (status == FERRY_OK && sets)
        set(self->space, retain(to));
    else if (status == FERRY_OK)
        fry_space_delete(self->space, find(self->space, request->key));
    (void)pthread_mutex_unlock(&fry_space_lock);
    if (status == FERRY_OK)
        out = to;
    else
        fry_mem_release(to);
    give(self, out, entry);
    if (status == FERRY_OK) { /* the caller knows the value that it put */
        entry->value = NULL;
        entry->value_bytes = 0;
    }
    return status;
}

/* Goes from key to key, so it finds every key that is there all the time. */
static ferry_status names(fry_local *local, fry_local_name_fn fn, void *arg, bool *is_settled_p)
{
    mem_store *self = (mem_store *)local;
    mem_record *item = NULL, *before;

    do {
        before = item;
        (void)pthread_mutex_lock(&fry_space_lock);
        item = fry_space_next(self->space, before != NULL ? before->key : "");
        (void)pthread_mutex_unlock(&fry_space_lock);
        fry_mem_release(before);
    } while (item != NULL && fn(arg, item->key));
    fry_mem_release(item);
    *is_settled_p = true;
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
    /* So that stores with watches look again when the first lease may end. */
    LIST_FOREACH(member, &self->space->members, entry) {
        if (member->has_watches)
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
    FRY_STORE_EACH_LEASE(lease, &local->base) {
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

static bool scan_starts(fry_local *local)
{
    (void)pthread_mutex_lock(&fry_space_lock);
    ((mem_store *)local)->has_watches = true;
    (void)pthread_mutex_unlock(&fry_space_lock);
    return true;
}

static void follow_stop(fry_local *local)
{
    mem_store *self = (mem_store *)local;

    (void)pthread_mutex_lock(&fry_space_lock);
    self->has_watches = self->has_missed = false;
    drop_changes(self);
    (void)pthread_mutex_unlock(&fry_space_lock);
}

static bool follow(fry_local *local)
{
    mem_store *self = (mem_store *)local;
    bool is_known = true;

    for (int i = 0; i < CHANGES_AT_ONCE && is_known; i++) {
        (void)pthread_mutex_lock(&fry_space_lock);
        local->needs_scan |= self->has_missed;
        self->has_missed = false;
        mem_change *change = take_change(self);
        (void)pthread_mutex_unlock(&fry_space_lock);
        if (change == NULL)
            return false;
        is_known = fry_local_look(local, change->key);
        free(change);
    }
    if (!is_known)
        fry_local_lose(local);
    return is_known;
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
    fry_poller_remove(reactor->poller, &self->signal);
    (void)close(self->signal.fd);
    fry_mem_release(self->given);
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
    .scan_starts = scan_starts,
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
    STAILQ_INIT(&self->changes);
    status = FERRY_E_STORE;
    self->signal.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->signal.fd < 0)
        goto err_eventfd;
    if (fry_poller_add(reactor->poller, &self->signal, EPOLLIN | EPOLLET) != FERRY_OK)
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
    fry_poller_remove(reactor->poller, &self->signal);
err_add:
    (void)close(self->signal.fd);
err_eventfd:
    fry_free(memory, self, sizeof *self);
err_alloc:
    return fry_store_error(memory, status, error_p, "cannot open a store in memory");
}
