/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem:NAME, a store of this process alone: for engines of one process, and for tests. It lives as
 * long as anybody has it open.
 *
 * A change wakes the others' reactors by an eventfd each, not by a job: a job that is posted can't
 * be taken back when its store is closed.
 *
 * A lease goes by the clock of its holder's reactor, which whoever looks asks, so that the keys of
 * a holder whose reactor does not run go all the same.
 */
#include "net/store_space.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define TOLD_AT_ONCE 64 /* then the loop gets its turn */

/* --- Requests --- */

static bool guard_stands(mem_space *in, const fry_store_request *request)
{
    if (request->guard_key == NULL)
        return true;
    const mem_slot *guard = fry_space_find(in, request->guard_key);
    const mem_lease *held = fry_space_lease(in, request->guard_id);

    return guard != NULL && held != NULL && held->state != LEASE_ENDED && guard->lease == held->id;
}

/* What a request that sets or deletes comes to; *out_p is a reference that the caller releases. */
static ferry_status change(mem_space *in, fry_store_request *request, fry_record **to_p,
                           mem_slot **spare_p, fry_record **out_p, const char **why_p)
{
    mem_slot *found = fry_space_find(in, request->key);
    const bool sets = request->verb != FRY_STORE_DELETE;
    const bool has_version = request->version != 0 && request->verb != FRY_STORE_PUT &&
                             request->verb != FRY_STORE_CREATE;
    const uint64_t lease = request->private_number;

    if (!guard_stands(in, request))
        return FERRY_E_FENCED;
    if (lease != 0) {
        const mem_lease *held = fry_space_lease(in, lease);

        if (held == NULL || held->state == LEASE_ENDED) {
            *why_p = "the lease has ended";
            return FERRY_E_STORE;
        }
    }
    if (found == NULL && (request->verb == FRY_STORE_SWAP || request->verb == FRY_STORE_DELETE))
        return FERRY_E_NOT_FOUND;
    if (found != NULL && (request->verb == FRY_STORE_CREATE ||
                          (has_version && found->record->version != request->version))) {
        *out_p = fry_record_retain(found->record);
        return FERRY_E_CHANGED;
    }
    if (!sets) {
        fry_space_delete(in, found);
        return FERRY_OK;
    }
    if (found == NULL && (in->live >= FRY_STORE_ENTRIES_MAX ||
                          in->live + in->tombstones >= (size_t)2 * FRY_STORE_ENTRIES_MAX)) {
        *why_p = "the store is full";
        return FERRY_E_STORE;
    }
    fry_space_set(in, spare_p, *to_p, lease);
    *out_p = fry_record_retain(*to_p);
    *to_p = NULL;
    return FERRY_OK;
}

static void finish_change(mem_store *self, fry_store_request *request)
{
    const bool sets = request->verb != FRY_STORE_DELETE;
    fry_record *to = NULL, *out = NULL;
    mem_slot *spare = NULL;
    const char *why = NULL;
    ferry_status status = FERRY_E_NO_MEMORY;

    /* The value is copied before the mutex is taken. */
    if (sets) {
        to = fry_record_new(request->key, request->value, request->value_bytes);
        spare = malloc(sizeof *spare);
    }
    if (!sets || (to != NULL && spare != NULL)) {
        (void)pthread_mutex_lock(&fry_space_lock);
        fry_space_expire(self->space, NULL);
        status = change(self->space, request, &to, &spare, &out, &why);
        fry_space_collect(self->space);
        (void)pthread_mutex_unlock(&fry_space_lock);
    }
    fry_record_release(to);
    free(spare);
    const fry_store_entry entry = out != NULL ? fry_record_entry(out, status == FERRY_E_CHANGED)
                                              : (fry_store_entry){.key = NULL};

    fry_store_finish(request, status, out != NULL ? &entry : NULL, out != NULL ? 1 : 0, why);
    fry_record_release(out);
}

static void finish_get(mem_store *self, fry_store_request *request)
{
    fry_record *out = NULL;

    (void)pthread_mutex_lock(&fry_space_lock);
    fry_space_expire(self->space, NULL);
    const mem_slot *found = fry_space_find(self->space, request->key);
    if (found != NULL)
        out = fry_record_retain(found->record);
    (void)pthread_mutex_unlock(&fry_space_lock);
    if (out == NULL) {
        fry_store_finish(request, FERRY_E_NOT_FOUND, NULL, 0, NULL);
        return;
    }
    const fry_store_entry entry = fry_record_entry(out, true);

    fry_store_finish(request, FERRY_OK, &entry, 1, NULL);
    fry_record_release(out);
}

static void finish_list(mem_store *self, fry_store_request *request)
{
    size_t count = 0, value_bytes = 0;
    fry_store_entry *entries = NULL;

    (void)pthread_mutex_lock(&fry_space_lock);
    fry_space_expire(self->space, NULL);
    fry_record **items = fry_space_list(self->space, request->key, &count, &value_bytes);
    (void)pthread_mutex_unlock(&fry_space_lock);
    if (items != NULL)
        entries = malloc(count * sizeof *entries);
    for (size_t i = 0; entries != NULL && i < count; i++)
        entries[i] = fry_record_entry(items[i], true);
    if (entries == NULL && count > 0)
        fry_store_finish(request, FERRY_E_NO_MEMORY, NULL, 0, NULL);
    else if (value_bytes > FRY_STORE_LIST_BYTES)
        fry_store_finish(request, FERRY_E_STORE, NULL, 0, "the list is too long");
    else
        fry_store_finish(request, FERRY_OK, entries, count, NULL);
    for (size_t i = 0; items != NULL && i < count; i++)
        fry_record_release(items[i]);
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
    fry_record *record;
    bool is_deleted;
} change_told;

/* What comes next for a watch, up to TOLD_AT_ONCE; the watch is past it then. */
static size_t take_changes(mem_space *in, fry_store_watch *watch, change_told *changes,
                           bool *is_all_p)
{
    mem_slot *item = TAILQ_LAST(&in->changes, mem_changes), *next = NULL;
    size_t count = 0;

    *is_all_p = false;
    for (; item != NULL && item->changed > watch->private_numbers[TOLD];
         item = TAILQ_PREV(item, mem_changes, by_change))
        next = item;
    for (item = next; item != NULL; item = TAILQ_NEXT(item, by_change)) {
        if (count == TOLD_AT_ONCE)
            return count;
        watch->private_numbers[TOLD] = item->changed;
        if (!fry_space_has_prefix(item->record->key, watch->prefix))
            continue;
        if (item->is_deleted && item->changed <= watch->private_numbers[STARTED])
            continue;
        changes[count++] = (change_told){fry_record_retain(item->record), item->is_deleted};
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

    (void)pthread_mutex_lock(&fry_space_lock);
    const size_t count = take_changes(self->space, watch, changes, &is_all);
    (void)pthread_mutex_unlock(&fry_space_lock);
    for (size_t i = 0; i < count; i++) {
        const fry_store_entry entry = fry_record_entry(changes[i].record, !changes[i].is_deleted);
        const fry_store_event event =
            changes[i].is_deleted ? FRY_STORE_IS_DELETED : FRY_STORE_IS_PUT;

        is_on = is_on && fry_store_tell(watch, event, &entry);
        fry_record_release(changes[i].record);
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

    (void)pthread_mutex_lock(&fry_space_lock);
    LIST_REMOVE(held, entry);
    (void)pthread_mutex_unlock(&fry_space_lock);
    free(held);
    fry_store_lease_gone(lease, FRY_LEASE_ENDED, "it was not kept alive in time");
}

static void keep_alive(fry_timer *timer)
{
    fry_store_lease *lease = timer->arg;
    mem_store *self = (mem_store *)lease->store;
    mem_lease *held = lease->private_;
    const int64_t now_ns = fry_reactor_now_ns(self->base.reactor);

    (void)pthread_mutex_lock(&fry_space_lock);
    fry_space_expire(self->space, NULL);
    const bool is_over = held->state == LEASE_ENDED;
    fry_store_lease_asks(lease);
    if (!is_over)
        held->ends_ns = lease->ends_ns = now_ns + lease->ttl_ns;
    (void)pthread_mutex_unlock(&fry_space_lock);
    if (is_over) {
        lease_has_ended(lease);
        return;
    }
    fry_store_lease_renewed(lease, now_ns);
    fry_timer_set(self->base.reactor, timer, now_ns + lease->ttl_ns / 3);
}

static void run_lease(mem_store *self, fry_store_lease *lease)
{
    mem_lease *held = lease->private_;
    mem_lease_state state = LEASE_GRANTED;

    if (held == NULL) /* refused */
        return;
    (void)pthread_mutex_lock(&fry_space_lock);
    state = held->state;
    if (state == LEASE_NEW)
        held->state = LEASE_GRANTED;
    (void)pthread_mutex_unlock(&fry_space_lock);
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
    (void)pthread_mutex_lock(&fry_space_lock);
    *held = (mem_lease){.holder = self, .id = ++self->space->lease_ids, .ends_ns = lease->ends_ns};
    LIST_INSERT_HEAD(&self->space->leases, held, entry);
    /* Whoever watches looks anew when the first lease may end. */
    LIST_FOREACH(member, &self->space->members, entry)
    {
        if (member == self || member->seen != UINT64_MAX)
            fry_mem_signal(member);
    }
    (void)pthread_mutex_unlock(&fry_space_lock);
    lease->id = held->id;
    lease->private_ = held;
}

static void lease_close(fry_store_lease *lease)
{
    mem_store *self = (mem_store *)lease->store;
    mem_lease *held = lease->private_;

    (void)pthread_mutex_lock(&fry_space_lock);
    if (held->state != LEASE_ENDED)
        fry_space_delete_of(self->space, held->id);
    LIST_REMOVE(held, entry);
    (void)pthread_mutex_unlock(&fry_space_lock);
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
    fry_space_collect(self->space);
}

static void run(mem_store *self)
{
    fry_reactor *reactor = self->base.reactor;
    int64_t next_in_ns;

    (void)pthread_mutex_lock(&fry_space_lock);
    self->is_signalled = false;
    fry_space_expire(self->space, &next_in_ns);
    (void)pthread_mutex_unlock(&fry_space_lock);
    run_leases(self);
    bool is_more = run_requests(self);
    is_more |= run_watches(self);
    (void)pthread_mutex_lock(&fry_space_lock);
    note_watches(self);
    if (is_more)
        fry_mem_signal(self);
    (void)pthread_mutex_unlock(&fry_space_lock);
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
    (void)pthread_mutex_lock(&fry_space_lock);
    fry_mem_signal(self);
    (void)pthread_mutex_unlock(&fry_space_lock);
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

    (void)pthread_mutex_lock(&fry_space_lock);
    watch->private_numbers[STARTED] = self->space->revision;
    note_watches(self);
    fry_mem_signal(self);
    (void)pthread_mutex_unlock(&fry_space_lock);
}

static void watch_stop(fry_store_watch *watch)
{
    mem_store *self = (mem_store *)watch->store;

    (void)pthread_mutex_lock(&fry_space_lock);
    note_watches(self);
    (void)pthread_mutex_unlock(&fry_space_lock);
}

static void close_store(fry_store *store)
{
    mem_store *self = (mem_store *)store;
    const fry_memory *memory = store->reactor->memory;

    (void)pthread_mutex_lock(&fry_space_lock);
    LIST_REMOVE(self, entry);
    if (LIST_EMPTY(&self->space->members))
        fry_space_free(self->space);
    (void)pthread_mutex_unlock(&fry_space_lock);
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
    (void)pthread_mutex_lock(&fry_space_lock);
    self->space = fry_space_open(name);
    if (self->space != NULL)
        LIST_INSERT_HEAD(&self->space->members, self, entry);
    (void)pthread_mutex_unlock(&fry_space_lock);
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
