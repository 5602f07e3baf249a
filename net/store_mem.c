/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem:NAME, a store of this process alone: for engines of one process, and for tests. A space lives
 * as long as anybody has it open. One mutex for all of them, held for moments; nobody is called
 * back, and nothing big is copied, while it is held.
 *
 * A key has one slot, and slots stand in the order of their last changes, the deleted ones too. So
 * a watch is no more than the revision up to which it has told: what comes behind that is what is
 * to tell, each key once. Deleted slots go when every watch is past them.
 *
 * A change wakes the others' reactors by an eventfd each, not by a job: a job that is posted can't
 * be taken back when its store is closed.
 *
 * A lease goes by the clock of its holder's reactor, which whoever looks asks, so that the keys of
 * a holder whose reactor does not run go all the same.
 */
#include "base/lf.h"
#include "net/store.h"

#include <bsd/sys/queue.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define TOLD_AT_ONCE 64   /* then the loop gets its turn */
#define TOMBSTONES_MIN 64 /* fewer are not worth a look */

/* What a key was set to. Never changed; freed with the last reference, by any thread. */
typedef struct record {
    uint32_t references; /* atomic */
    uint64_t version;
    size_t size_bytes, value_bytes;
    const char *key; /* behind the value, in bytes */
    char bytes[];
} record;

typedef struct slot {
    RB_ENTRY(slot) by_key;
    TAILQ_ENTRY(slot) by_change;
    record *record;   /* of a deleted one the last */
    uint64_t changed; /* the space's revision at its last change */
    uint64_t lease;   /* 0: none */
    bool is_deleted;
} slot;

typedef RB_HEAD(slots, slot) slots;

typedef enum lease_state {
    LEASE_NEW,     /* its holder is not told yet */
    LEASE_GRANTED, /* told */
    LEASE_ENDED,   /* its keys are gone; its holder is to be told */
} lease_state;

typedef struct mem_store mem_store;

typedef struct mem_lease {
    LIST_ENTRY(mem_lease) entry;
    mem_store *holder;
    uint64_t id;
    int64_t ends_ns; /* on the holder's clock */
    lease_state state;
} mem_lease;

typedef struct space {
    LIST_ENTRY(space) entry;
    LIST_HEAD(, mem_store) members;
    LIST_HEAD(, mem_lease) leases;
    slots slots;
    TAILQ_HEAD(changes, slot) changes; /* the latest last */
    uint64_t revision, lease_ids;
    size_t live, tombstones;
    char name[];
} space;

struct mem_store {
    fry_store base;
    space *space;
    LIST_ENTRY(mem_store) entry;
    fry_watch signal; /* an eventfd, edge-triggered and never read, as the poller's own */
    fry_timer expiry; /* while there are watches: when the first lease may end */
    uint64_t seen;    /* no watch is behind this revision; UINT64_MAX: there is none */
    bool is_signalled;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, space) spaces = LIST_HEAD_INITIALIZER(spaces);

static int by_key(slot *left, slot *right)
{
    return strcmp(left->record->key, right->record->key);
}

RB_GENERATE_INTERNAL(slots, slot, by_key, by_key, static __attribute__((unused)))

/* --- Records --- */

/* A space outlives the engines that use it, so its memory is the C library's. */
static record *new_record(const char *key, const void *value, size_t value_bytes)
{
    const size_t key_bytes = strlen(key) + 1;
    const size_t size_bytes = sizeof(record) + value_bytes + 1 + key_bytes;
    record *made = malloc(size_bytes);

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

static record *retain(record *item)
{
    (void)fry_fetch_add(&item->references, 1);
    return item;
}

/* A full barrier: what other holders read is read before the memory goes. */
static void release(record *item)
{
    if (item != NULL && fry_fetch_sub(&item->references, 1) == 1)
        free(item);
}

static fry_store_entry entry_of(const record *item, bool with_value)
{
    return (fry_store_entry){
        .key = item->key,
        .value = with_value ? item->bytes : NULL,
        .value_bytes = with_value ? item->value_bytes : 0,
        .version = item->version,
    };
}

/* --- Spaces, with the mutex held --- */

static void signal_store(mem_store *self)
{
    if (self->is_signalled)
        return;
    self->is_signalled = true;
    /* EAGAIN: the counter is full, after 2^64 - 2 signals; it can't be in a life. */
    while (eventfd_write(self->signal.fd, 1) != 0 && errno == EINTR)
        continue;
}

static void signal_watchers(space *in)
{
    mem_store *member;

    LIST_FOREACH(member, &in->members, entry)
    {
        if (member->seen != UINT64_MAX)
            signal_store(member);
    }
}

static void slot_has_changed(space *in, slot *changed)
{
    changed->changed = ++in->revision;
    TAILQ_INSERT_TAIL(&in->changes, changed, by_change);
    signal_watchers(in);
}

/* The slot of a key, deleted or not; NULL: there is none. */
static slot *find(space *in, const char *key)
{
    record sought = {.key = key};
    slot like = {.record = &sought};

    return RB_FIND(slots, &in->slots, &like);
}

static slot *find_live(space *in, const char *key)
{
    slot *found = find(in, key);

    return found != NULL && !found->is_deleted ? found : NULL;
}

static void delete_slot(space *in, slot *gone)
{
    TAILQ_REMOVE(&in->changes, gone, by_change);
    gone->is_deleted = true;
    gone->lease = 0;
    in->live--;
    in->tombstones++;
    slot_has_changed(in, gone);
}

/* Frees what every watch knows to be gone, once it is worth the look: amortised to nothing. */
static void collect_tombstones(space *in)
{
    uint64_t seen = UINT64_MAX;
    mem_store *member;
    slot *item, *next;

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
        RB_REMOVE(slots, &in->slots, item);
        in->tombstones--;
        release(item->record);
        free(item);
    }
}

/* Sets a key to a record, whose reference goes in. `spare` becomes its slot if it has none. */
static void set_slot(space *in, slot **spare_p, record *to, uint64_t lease)
{
    slot *found = find(in, to->key);

    if (found == NULL) {
        found = *spare_p;
        *spare_p = NULL;
        *found = (slot){.record = to, .is_deleted = true};
        RB_INSERT(slots, &in->slots, found);
        in->tombstones++;
    } else {
        TAILQ_REMOVE(&in->changes, found, by_change);
        /* The tree's order is by the key in the record: an equal one takes its place. */
        release(found->record);
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

static mem_lease *find_lease(space *in, uint64_t id)
{
    mem_lease *lease;

    LIST_FOREACH(lease, &in->leases, entry)
    {
        if (lease->id == id)
            return lease;
    }
    return NULL;
}

static void delete_keys_of(space *in, uint64_t lease)
{
    slot *item, *next;

    /* Those that are deleted go behind the rest, which are not of a lease: it ends. */
    TAILQ_FOREACH_SAFE(item, &in->changes, by_change, next)
    {
        if (item->lease == lease)
            delete_slot(in, item);
    }
}

/* Ends what has run out, whoever is looking; what is left may last until *next_in_ns from now. */
static void expire(space *in, int64_t *next_in_ns)
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
        delete_keys_of(in, lease->id);
        signal_store(lease->holder);
    }
    if (next_in_ns != NULL)
        *next_in_ns = least_ns;
}

static void free_space(space *in)
{
    slot *item, *next;

    TAILQ_FOREACH_SAFE(item, &in->changes, by_change, next)
    {
        release(item->record);
        free(item);
    }
    LIST_REMOVE(in, entry);
    free(in);
}

/* Finds it, or makes it; NULL: no memory. */
static space *find_space(const char *name)
{
    space *found;

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

/* --- Requests --- */

/* What a request that sets or deletes comes to; *out_p is a reference that the caller releases. */
static ferry_status change(space *in, fry_store_request *request, record **to_p, slot **spare_p,
                           record **out_p, const char **why_p)
{
    slot *found = find_live(in, request->key);
    const bool sets = request->verb != FRY_STORE_DELETE;
    const bool has_version = request->version != 0 && request->verb != FRY_STORE_PUT &&
                             request->verb != FRY_STORE_CREATE;
    const uint64_t lease = request->private_number;

    if (lease != 0) {
        const mem_lease *held = find_lease(in, lease);

        if (held == NULL || held->state == LEASE_ENDED) {
            *why_p = "the lease has ended";
            return FERRY_E_STORE;
        }
    }
    if (found == NULL && (request->verb == FRY_STORE_SWAP || request->verb == FRY_STORE_DELETE))
        return FERRY_E_NOT_FOUND;
    if (found != NULL && (request->verb == FRY_STORE_CREATE ||
                          (has_version && found->record->version != request->version))) {
        *out_p = retain(found->record);
        return FERRY_E_CHANGED;
    }
    if (!sets) {
        delete_slot(in, found);
        return FERRY_OK;
    }
    if (found == NULL && (in->live >= FRY_STORE_ENTRIES_MAX ||
                          in->live + in->tombstones >= (size_t)2 * FRY_STORE_ENTRIES_MAX)) {
        *why_p = "the store is full";
        return FERRY_E_STORE;
    }
    set_slot(in, spare_p, *to_p, lease);
    *out_p = retain(*to_p);
    *to_p = NULL;
    return FERRY_OK;
}

static void finish_change(mem_store *self, fry_store_request *request)
{
    const bool sets = request->verb != FRY_STORE_DELETE;
    record *to = NULL, *out = NULL;
    slot *spare = NULL;
    const char *why = NULL;
    ferry_status status = FERRY_E_NO_MEMORY;

    /* The value is copied before the mutex is taken. */
    if (sets) {
        to = new_record(request->key, request->value, request->value_bytes);
        spare = malloc(sizeof *spare);
    }
    if (!sets || (to != NULL && spare != NULL)) {
        (void)pthread_mutex_lock(&lock);
        expire(self->space, NULL);
        status = change(self->space, request, &to, &spare, &out, &why);
        collect_tombstones(self->space);
        (void)pthread_mutex_unlock(&lock);
    }
    release(to);
    free(spare);
    const fry_store_entry entry =
        out != NULL ? entry_of(out, status == FERRY_E_CHANGED) : (fry_store_entry){.key = NULL};

    fry_store_finish(request, status, out != NULL ? &entry : NULL, out != NULL ? 1 : 0, why);
    release(out);
}

static void finish_get(mem_store *self, fry_store_request *request)
{
    record *out = NULL;

    (void)pthread_mutex_lock(&lock);
    expire(self->space, NULL);
    const slot *found = find_live(self->space, request->key);
    if (found != NULL)
        out = retain(found->record);
    (void)pthread_mutex_unlock(&lock);
    if (out == NULL) {
        fry_store_finish(request, FERRY_E_NOT_FOUND, NULL, 0, NULL);
        return;
    }
    const fry_store_entry entry = entry_of(out, true);

    fry_store_finish(request, FERRY_OK, &entry, 1, NULL);
    release(out);
}

static bool begins_with(const char *key, const char *prefix)
{
    return prefix == NULL || strncmp(key, prefix, strlen(prefix)) == 0;
}

/* References to all that a list gives, in order. NULL with a count: no memory. */
static record **take_list(space *in, const char *prefix, size_t *count_p, size_t *value_bytes_p)
{
    record **items = NULL;
    size_t count = 0, value_bytes = 0;
    slot *item;

    RB_FOREACH(item, slots, &in->slots)
    count += !item->is_deleted && begins_with(item->record->key, prefix);
    *count_p = count;
    if (count > 0)
        items = malloc(count * sizeof(record *));
    if (items == NULL)
        return NULL;
    count = 0;
    RB_FOREACH(item, slots, &in->slots)
    {
        if (item->is_deleted || !begins_with(item->record->key, prefix))
            continue;
        items[count++] = retain(item->record);
        value_bytes += item->record->value_bytes;
    }
    *value_bytes_p = value_bytes;
    return items;
}

static void finish_list(mem_store *self, fry_store_request *request)
{
    size_t count = 0, value_bytes = 0;
    fry_store_entry *entries = NULL;

    (void)pthread_mutex_lock(&lock);
    expire(self->space, NULL);
    record **items = take_list(self->space, request->key, &count, &value_bytes);
    (void)pthread_mutex_unlock(&lock);
    if (items != NULL)
        entries = malloc(count * sizeof *entries);
    for (size_t i = 0; entries != NULL && i < count; i++)
        entries[i] = entry_of(items[i], true);
    if (entries == NULL && count > 0)
        fry_store_finish(request, FERRY_E_NO_MEMORY, NULL, 0, NULL);
    else if (value_bytes > FRY_STORE_LIST_BYTES)
        fry_store_finish(request, FERRY_E_STORE, NULL, 0, "the list is too long");
    else
        fry_store_finish(request, FERRY_OK, entries, count, NULL);
    for (size_t i = 0; items != NULL && i < count; i++)
        release(items[i]);
    free(items);
    free(entries);
}

/* The first that waits for its turn; those with a verdict wait for the timer. */
static fry_store_request *first_request(const mem_store *self)
{
    fry_store_request *request = self->base.requests;

    while (request != NULL && request->verdict != FERRY_OK)
        request = request->next;
    return request;
}

/* Whether some are left. */
static bool run_requests(mem_store *self)
{
    for (size_t i = 0; i < TOLD_AT_ONCE; i++) {
        fry_store_request *request = first_request(self);

        if (request == NULL)
            return false;
        if (request->verb == FRY_STORE_GET)
            finish_get(self, request);
        else if (request->verb == FRY_STORE_LIST)
            finish_list(self, request);
        else
            finish_change(self, request);
    }
    return first_request(self) != NULL;
}

/* --- Watches: private_numbers are the revision told up to, and the one at the start --- */

enum { TOLD = 0, STARTED = 1 };

typedef struct change_told {
    record *record;
    bool is_deleted;
} change_told;

/* What comes next for a watch, up to TOLD_AT_ONCE; the watch is past it then. */
static size_t take_changes(space *in, fry_store_watch *watch, change_told *changes, bool *is_all_p)
{
    slot *item = TAILQ_LAST(&in->changes, changes), *next = NULL;
    size_t count = 0;

    *is_all_p = false;
    for (; item != NULL && item->changed > watch->private_numbers[TOLD];
         item = TAILQ_PREV(item, changes, by_change))
        next = item;
    for (item = next; item != NULL; item = TAILQ_NEXT(item, by_change)) {
        if (count == TOLD_AT_ONCE)
            return count;
        watch->private_numbers[TOLD] = item->changed;
        if (!begins_with(item->record->key, watch->prefix))
            continue;
        if (item->is_deleted && item->changed <= watch->private_numbers[STARTED])
            continue;
        changes[count++] = (change_told){retain(item->record), item->is_deleted};
    }
    watch->private_numbers[TOLD] = in->revision;
    *is_all_p = true;
    return count;
}

/* Whether more is left; not for one that was stopped, which may be gone. */
static bool run_watch(mem_store *self, fry_store_watch *watch)
{
    change_told changes[TOLD_AT_ONCE];
    bool is_all, is_on = true;

    (void)pthread_mutex_lock(&lock);
    const size_t count = take_changes(self->space, watch, changes, &is_all);
    (void)pthread_mutex_unlock(&lock);
    for (size_t i = 0; i < count; i++) {
        const fry_store_entry entry = entry_of(changes[i].record, !changes[i].is_deleted);
        const fry_store_event event =
            changes[i].is_deleted ? FRY_STORE_IS_DELETED : FRY_STORE_IS_PUT;

        is_on = is_on && fry_store_tell(watch, event, &entry);
        release(changes[i].record);
    }
    if (is_on && is_all)
        (void)fry_store_tell(watch, FRY_STORE_IS_LISTED, NULL);
    return is_on && !is_all;
}

static bool run_watches(mem_store *self)
{
    fry_store *base = &self->base;
    bool is_more = false;

    for (fry_store_watch *watch = base->watches; watch != NULL; watch = base->next_watch) {
        base->next_watch = watch->next;
        is_more |= run_watch(self, watch);
    }
    return is_more;
}

/* --- Leases: private_ is the space's --- */

static void lease_has_ended(fry_store_lease *lease)
{
    mem_lease *held = lease->private_;

    (void)pthread_mutex_lock(&lock);
    LIST_REMOVE(held, entry);
    (void)pthread_mutex_unlock(&lock);
    free(held);
    fry_store_lease_gone(lease, FRY_LEASE_ENDED, "it was not kept alive in time");
}

static void keep_alive(fry_timer *timer)
{
    fry_store_lease *lease = timer->arg;
    mem_store *self = (mem_store *)lease->store;
    mem_lease *held = lease->private_;
    const int64_t now_ns = fry_reactor_now_ns(self->base.reactor);

    (void)pthread_mutex_lock(&lock);
    expire(self->space, NULL);
    const bool is_over = held->state == LEASE_ENDED;
    if (!is_over)
        held->ends_ns = lease->ends_ns = now_ns + lease->ttl_ns;
    (void)pthread_mutex_unlock(&lock);
    if (is_over)
        lease_has_ended(lease);
    else
        fry_timer_set(self->base.reactor, timer, now_ns + lease->ttl_ns / 3);
}

static void run_lease(mem_store *self, fry_store_lease *lease)
{
    mem_lease *held = lease->private_;
    lease_state state = LEASE_GRANTED;

    if (held == NULL) /* refused */
        return;
    (void)pthread_mutex_lock(&lock);
    state = held->state;
    if (state == LEASE_NEW)
        held->state = LEASE_GRANTED;
    (void)pthread_mutex_unlock(&lock);
    if (state == LEASE_ENDED) {
        lease_has_ended(lease);
    } else if (state == LEASE_NEW) {
        lease->timer.fn = keep_alive;
        fry_timer_set(self->base.reactor, &lease->timer,
                      lease->ends_ns - lease->ttl_ns + lease->ttl_ns / 3);
        fry_store_lease_granted(lease);
    }
}

static void run_leases(mem_store *self)
{
    fry_store *base = &self->base;

    for (fry_store_lease *lease = base->leases; lease != NULL; lease = base->next_lease) {
        base->next_lease = lease->next;
        run_lease(self, lease);
    }
}

static void lease_open(fry_store *store, fry_store_lease *lease)
{
    mem_store *self = (mem_store *)store;
    mem_lease *held = malloc(sizeof *held);
    mem_store *member;

    if (held == NULL) {
        fry_store_lease_refuse_soon(lease, "no memory for a lease");
        return;
    }
    lease->ends_ns = fry_reactor_now_ns(store->reactor) + lease->ttl_ns;
    (void)pthread_mutex_lock(&lock);
    *held = (mem_lease){.holder = self, .id = ++self->space->lease_ids, .ends_ns = lease->ends_ns};
    LIST_INSERT_HEAD(&self->space->leases, held, entry);
    /* Whoever watches looks anew when the first lease may end. */
    LIST_FOREACH(member, &self->space->members, entry)
    {
        if (member == self || member->seen != UINT64_MAX)
            signal_store(member);
    }
    (void)pthread_mutex_unlock(&lock);
    lease->id = held->id;
    lease->private_ = held;
}

static void lease_close(fry_store_lease *lease)
{
    mem_store *self = (mem_store *)lease->store;
    mem_lease *held = lease->private_;

    (void)pthread_mutex_lock(&lock);
    if (held->state != LEASE_ENDED)
        delete_keys_of(self->space, held->id);
    LIST_REMOVE(held, entry);
    (void)pthread_mutex_unlock(&lock);
    free(held);
    lease->private_ = NULL;
}

/* --- Stores --- */

/* What no watch needs to be told any more, and when to look again. With the mutex held. */
static void note_watches(mem_store *self)
{
    uint64_t seen = UINT64_MAX;

    for (const fry_store_watch *watch = self->base.watches; watch != NULL; watch = watch->next)
        seen = watch->private_numbers[TOLD] < seen ? watch->private_numbers[TOLD] : seen;
    self->seen = seen;
    collect_tombstones(self->space);
}

static void run(mem_store *self)
{
    fry_reactor *reactor = self->base.reactor;
    int64_t next_in_ns;

    (void)pthread_mutex_lock(&lock);
    self->is_signalled = false;
    expire(self->space, &next_in_ns);
    (void)pthread_mutex_unlock(&lock);
    run_leases(self);
    bool is_more = run_requests(self);
    is_more |= run_watches(self);
    (void)pthread_mutex_lock(&lock);
    note_watches(self);
    if (is_more)
        signal_store(self);
    (void)pthread_mutex_unlock(&lock);
    if (self->base.watches == NULL || next_in_ns == INT64_MAX)
        fry_timer_stop(reactor, &self->expiry);
    else
        fry_timer_set(reactor, &self->expiry, fry_reactor_now_ns(reactor) + next_in_ns);
}

static void is_signalled(fry_watch *watch, uint32_t events)
{
    (void)events;
    run(watch->arg);
}

static void may_have_expired(fry_timer *timer)
{
    run(timer->arg);
}

static void signal_self(mem_store *self)
{
    (void)pthread_mutex_lock(&lock);
    signal_store(self);
    (void)pthread_mutex_unlock(&lock);
}

static void submit(fry_store *store, fry_store_request *request)
{
    request->private_number = request->lease != NULL ? request->lease->id : 0;
    signal_self((mem_store *)store);
}

static void cancel(fry_store_request *request)
{
    (void)request; /* one that is on the list has not begun */
}

static void watch_start(fry_store *store, fry_store_watch *watch)
{
    mem_store *self = (mem_store *)store;

    (void)pthread_mutex_lock(&lock);
    watch->private_numbers[STARTED] = self->space->revision;
    note_watches(self);
    signal_store(self);
    (void)pthread_mutex_unlock(&lock);
}

static void watch_stop(fry_store_watch *watch)
{
    mem_store *self = (mem_store *)watch->store;

    (void)pthread_mutex_lock(&lock);
    note_watches(self);
    (void)pthread_mutex_unlock(&lock);
}

static void close_store(fry_store *store)
{
    mem_store *self = (mem_store *)store;
    const fry_memory *memory = store->reactor->memory;

    (void)pthread_mutex_lock(&lock);
    LIST_REMOVE(self, entry);
    if (LIST_EMPTY(&self->space->members))
        free_space(self->space);
    (void)pthread_mutex_unlock(&lock);
    fry_timer_stop(store->reactor, &self->expiry);
    fry_poller_remove(&store->reactor->poller, &self->signal);
    (void)close(self->signal.fd);
    fry_free(memory, self, sizeof *self);
}

static ferry_status open_store(fry_reactor *reactor, const char *uri,
                               const fry_store_options *options, fry_store **store_p,
                               fry_error **error_p)
{
    const fry_memory *memory = reactor->memory;
    const char *name = uri + strlen(fry_store_mem.scheme);
    ferry_status status = FERRY_E_NO_MEMORY;

    (void)options;
    if (*name == '\0' || strlen(name) > FRY_STORE_KEY_BYTES)
        return fry_store_error(memory, FERRY_E_INVALID, error_p,
                               "mem: is followed by a name of 1 to %d bytes", FRY_STORE_KEY_BYTES);
    mem_store *self = fry_alloc(memory, sizeof *self, _Alignof(mem_store));
    if (self == NULL)
        goto err_alloc;
    self->signal = (fry_watch){.fn = is_signalled, .arg = self};
    self->expiry = (fry_timer){.fn = may_have_expired, .arg = self};
    self->seen = UINT64_MAX;
    status = FERRY_E_STORE;
    self->signal.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->signal.fd < 0)
        goto err_eventfd;
    if (fry_poller_add(&reactor->poller, &self->signal, EPOLLIN | EPOLLET) != FERRY_OK)
        goto err_add;
    self->base.reactor = reactor; /* before others see it: its clock is asked */
    (void)pthread_mutex_lock(&lock);
    self->space = find_space(name);
    if (self->space != NULL)
        LIST_INSERT_HEAD(&self->space->members, self, entry);
    (void)pthread_mutex_unlock(&lock);
    status = FERRY_E_NO_MEMORY;
    if (self->space == NULL)
        goto err_space;
    *store_p = &self->base;
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

const fry_store_ops fry_store_mem = {
    .scheme = "mem:",
    .open = open_store,
    .close = close_store,
    .submit = submit,
    .cancel = cancel,
    .watch_start = watch_start,
    .watch_stop = watch_stop,
    .lease_open = lease_open,
    .lease_close = lease_close,
};
