/* SPDX-License-Identifier: Apache-2.0 */
#include "net/store/local.h"

#include "net/reactor.h"
#include "net/store/known.h"
#include "net/store/store.h"

#include <string.h>

#define REQUESTS_PER_TURN 64
#define FOLLOWS_PER_TURN 16
#define PASSES_MAX 3
#define BUSY_MIN_NS INT64_C(500000)
#define BUSY_DOUBLINGS_MAX 7 /* 64 ms */

/* private_state of a watch. */
typedef enum watch_state {
    WATCH_NEW,     /* the next scan is for this watch */
    WATCH_SCANNED, /* told of all that the scan finds */
    WATCH_FOLLOWS, /* told of changes */
} watch_state;

static void take_turn_soon(fry_local *self)
{
    fry_timer_set_soon(self->base.reactor, &self->turn);
}

/* --- Leases: one that the backend has made has an id --- */

static void drop_lease(fry_local *self, fry_store_lease *lease)
{
    self->ops->lease_drop(self, lease);
    lease->id = 0;
    lease->private_ = NULL;
}

void fry_local_lease_ended(fry_local *self, fry_store_lease *lease)
{
    drop_lease(self, lease);
    fry_store_lease_gone(lease, FRY_LEASE_ENDED, "it was not kept alive in time");
}

static void keep_alive(fry_timer *timer)
{
    fry_store_lease *lease = timer->arg;
    fry_local *self = (fry_local *)lease->store;
    const int64_t now_ns = fry_reactor_now_ns(self->base.reactor);
    int64_t next_in_ns = lease->ttl_ns / 3;

    fry_store_lease_asks(lease);
    switch (self->ops->lease_extend(self, lease, now_ns + lease->ttl_ns)) {
    case FERRY_OK:
        lease->ends_ns = now_ns + lease->ttl_ns;
        fry_store_lease_renewed(lease, now_ns);
        break;
    case FERRY_E_NOT_FOUND:
        fry_local_lease_ended(self, lease);
        return;
    case FERRY_E_BUSY:
        next_in_ns = FRY_LOCAL_SOON_NS;
        break;
    default:
        fry_store_lease_not_renewed(lease);
        next_in_ns = lease->ttl_ns / 12; /* leaves time for some tries */
        break;
    }
    fry_timer_set(self->base.reactor, timer, now_ns + next_in_ns);
}

static void make_lease(fry_local *self, fry_store_lease *lease)
{
    const int64_t now_ns = fry_reactor_now_ns(self->base.reactor);

    lease->ends_ns = now_ns + lease->ttl_ns;
    if (self->ops->lease_make(self, lease) != FERRY_OK) {
        fry_store_lease_gone(lease, FRY_LEASE_REFUSED, self->why);
        return;
    }
    lease->timer.fn = keep_alive;
    fry_timer_set(self->base.reactor, &lease->timer, now_ns + lease->ttl_ns / 3);
    fry_store_lease_granted(lease);
}

static void make_leases(fry_local *self)
{
    fry_store_lease *lease;

    FRY_STORE_EACH_LEASE(lease, &self->base) {
        if (lease->grant.state == FRY_ASYNC_UNDER_WAY)
            make_lease(self, lease);
    }
}

static void lease_open(fry_store *store, fry_store_lease *lease)
{
    (void)lease;
    take_turn_soon((fry_local *)store);
}

static void lease_close(fry_store_lease *lease)
{
    if (lease->id != 0)
        drop_lease((fry_local *)lease->store, lease);
}

/* --- Names --- */

typedef struct listing {
    const fry_local *self;
    const char *prefix; /* NULL: the watched keys */
    fry_known_keys names;
    bool has_memory;
} listing;

static bool has_prefix(const char *key, const char *prefix)
{
    return strncmp(key, prefix, strlen(prefix)) == 0;
}

static bool is_watched(const fry_local *self, const char *key)
{
    const fry_store_watch *watch;

    LIST_FOREACH(watch, &self->base.watches, entry) {
        if (has_prefix(key, watch->prefix))
            return true;
    }
    return false;
}

static bool add_name(void *arg, const char *key)
{
    listing *list = arg;

    if (list->prefix != NULL ? !has_prefix(key, list->prefix) : !is_watched(list->self, key))
        return true;
    list->has_memory = fry_known_learn(&list->names, key) != NULL;
    return list->has_memory && list->names.count <= FRY_STORE_ENTRIES_MAX;
}

static ferry_status refused(fry_local *self, ferry_status status, const char *why)
{
    self->why = why;
    return status;
}

/*
 * Lists names. A backend that changes meanwhile may leave out a name that is there all the time:
 * then the names that several passes find are put together. A read shows whether a name has an
 * entry.
 */
static ferry_status list_names(fry_local *self, listing *list, const char *prefix)
{
    ferry_status status = FERRY_OK;
    bool is_settled = false;

    *list = (listing){.self = self,
                      .prefix = prefix,
                      .names.memory = self->base.reactor->memory,
                      .has_memory = true};
    for (int pass = 0; status == FERRY_OK && pass < PASSES_MAX && !is_settled; pass++) {
        status = self->ops->names(self, add_name, list, &is_settled);
        is_settled = is_settled || !list->has_memory;
    }
    if (status == FERRY_OK && !list->has_memory)
        return refused(self, FERRY_E_NO_MEMORY, "no memory for a list");
    if (status == FERRY_OK && list->names.count > FRY_STORE_ENTRIES_MAX)
        return refused(self, FERRY_E_STORE, "the store has too many keys");
    return status;
}

/* --- Requests --- */

static void finish(fry_local *self, fry_store_request *request, ferry_status status,
                   const fry_store_entry *entries, size_t count)
{
    const bool has_reason = status == FERRY_E_STORE || status == FERRY_E_NO_MEMORY;

    fry_store_finish(request, status, entries, count, has_reason ? self->why : NULL);
}

static void finish_get(fry_local *self, fry_store_request *request)
{
    fry_store_entry entry;
    uint64_t lease;
    ferry_status status = self->ops->read(self, request->key, &entry, &lease);

    if (status == FERRY_E_UNSUPPORTED)
        status = FERRY_E_STORE;
    finish(self, request, status, status == FERRY_OK ? &entry : NULL, status == FERRY_OK);
}

/* False: it must be tried again. */
static bool finish_change(fry_local *self, fry_store_request *request)
{
    fry_store_entry entry = {.key = NULL};
    const ferry_status status = self->ops->change(self, request, &entry);

    if (status == FERRY_E_BUSY)
        return false;
    const bool has_entry =
        status == FERRY_E_CHANGED || (status == FERRY_OK && request->verb != FRY_STORE_DELETE);
    finish(self, request, status, has_entry ? &entry : NULL, has_entry);
    return true;
}

/* Reads an entry of a list into memory of its own. FERRY_E_NOT_FOUND: the list leaves it out. */
static ferry_status read_listed(fry_local *self, const char *key, fry_store_entry *entry)
{
    uint64_t lease;
    const ferry_status status = self->ops->read(self, key, entry, &lease);

    if (status != FERRY_OK)
        return status == FERRY_E_UNSUPPORTED ? FERRY_E_NOT_FOUND : status;
    char *value = fry_alloc_raw(self->base.reactor->memory, entry->value_bytes + 1, 1);
    if (value == NULL)
        return refused(self, FERRY_E_NO_MEMORY, "no memory for a list");
    memcpy(value, entry->value, entry->value_bytes + 1);
    entry->key = key;
    entry->value = value;
    return FERRY_OK;
}

static void finish_list(fry_local *self, fry_store_request *request)
{
    const fry_memory *memory = self->base.reactor->memory;
    fry_store_entry *entries = NULL;
    size_t count = 0, value_bytes = 0;
    listing list;
    ferry_status status = list_names(self, &list, request->key != NULL ? request->key : "");
    const size_t entries_bytes = list.names.count * sizeof *entries;

    if (status == FERRY_OK && list.names.count > 0) {
        entries = fry_alloc_raw(memory, entries_bytes, _Alignof(fry_store_entry));
        if (entries == NULL)
            status = refused(self, FERRY_E_NO_MEMORY, "no memory for a list");
    }
    const fry_known *name = fry_known_first(&list.names);
    for (; status == FERRY_OK && name != NULL; name = fry_known_next(name)) {
        status = read_listed(self, name->key, &entries[count]);
        if (status == FERRY_OK)
            value_bytes += entries[count++].value_bytes;
        if (status == FERRY_E_NOT_FOUND)
            status = FERRY_OK;
        if (value_bytes > FRY_STORE_LIST_BYTES)
            status = refused(self, FERRY_E_STORE, "the list is too long");
    }
    finish(self, request, status, status == FERRY_OK && count > 0 ? entries : NULL,
           status == FERRY_OK ? count : 0);
    while (count-- > 0)
        fry_free(memory, (void *)(uintptr_t)entries[count].value, entries[count].value_bytes + 1);
    fry_free(memory, entries, entries_bytes);
    fry_known_forget_all(&list.names);
}

/* Runs requests in the order of their submits. If one finds a lock taken, those behind it wait. */
static void run_requests(fry_local *self)
{
    fry_reactor *reactor = self->base.reactor;
    fry_store_request *request = NULL;

    for (size_t i = 0;
         i < REQUESTS_PER_TURN && (request = fry_store_next_request(&self->base)) != NULL; i++) {
        if (request->verb == FRY_STORE_GET) {
            finish_get(self, request);
        } else if (request->verb == FRY_STORE_LIST) {
            finish_list(self, request);
        } else if (!finish_change(self, request)) {
            const unsigned doublings =
                self->busy < BUSY_DOUBLINGS_MAX ? self->busy : BUSY_DOUBLINGS_MAX;

            self->busy++;
            fry_timer_set(reactor, &self->turn,
                          fry_reactor_now_ns(reactor) + (BUSY_MIN_NS << doublings));
            return;
        }
        self->busy = 0;
    }
    self->busy = 0; /* the request that waited for a lock may have been cancelled */
    if (request != NULL && fry_store_next_request(&self->base) != NULL)
        take_turn_soon(self);
}

static void submit(fry_store *store, fry_store_request *request)
{
    fry_local *self = (fry_local *)store;

    (void)request;
    if (self->busy == 0)
        take_turn_soon(self);
}

static void cancel(fry_store_request *request)
{
    (void)request; /* a request on the list has not begun */
}

/* --- Telling watches --- */

static void tell(fry_local *self, fry_store_event event, const fry_store_entry *entry, bool is_news)
{
    fry_store_watch *watch;

    FRY_STORE_EACH_WATCH(watch, &self->base) {
        const bool is_due =
            watch->private_state == WATCH_FOLLOWS
                ? is_news
                : watch->private_state == WATCH_SCANNED && event == FRY_STORE_IS_PUT;

        if (is_due && has_prefix(entry->key, watch->prefix))
            (void)fry_store_tell(watch, event, entry);
    }
}

static void tell_all(fry_local *self, fry_store_event event)
{
    fry_store_watch *watch;

    FRY_STORE_EACH_WATCH(watch, &self->base) {
        if (event == FRY_STORE_IS_LOST || watch->private_state == WATCH_FOLLOWS)
            (void)fry_store_tell(watch, event, NULL);
    }
}

/* Sets the timer for what comes next; no timer if nothing can. */
static void plan(fry_local *self)
{
    fry_reactor *reactor = self->base.reactor;
    const int64_t poll_ns = fry_reactor_now_ns(reactor) + FRY_LOCAL_POLL_NS;

    if (LIST_EMPTY(&self->base.watches))
        return;
    int64_t next_ns = self->ops->next_ns(self);
    if ((self->is_lost || !self->is_followed) && poll_ns < next_ns)
        next_ns = poll_ns;
    if (next_ns == INT64_MAX)
        fry_timer_stop(reactor, &self->look);
    else
        fry_timer_set(reactor, &self->look, next_ns);
}

void fry_local_lose(fry_local *self)
{
    self->is_lost = self->needs_scan = true;
    if (self->ops->lost != NULL)
        self->ops->lost(self);
    tell_all(self, FRY_STORE_IS_LOST);
    plan(self);
}

void fry_local_is_another(fry_local *self)
{
    self->is_lost = false;
    self->needs_scan = true;
    fry_known_forget_versions(&self->keys);
    tell_all(self, FRY_STORE_IS_ANOTHER);
}

/* --- Looking at keys --- */

static void is_absent(fry_local *self, const char *key)
{
    char name[FRY_STORE_KEY_BYTES + 1];
    fry_known *known = fry_known_find(&self->keys, key);

    if (known == NULL)
        return;
    (void)strcpy(name, known->key);
    const fry_store_entry entry = {.key = name, .version = known->version};
    fry_known_forget(&self->keys, known);
    tell(self, FRY_STORE_IS_DELETED, &entry, true);
}

static bool is_present(fry_local *self, const fry_store_entry *entry, uint64_t lease)
{
    fry_known *known = fry_known_learn(&self->keys, entry->key);

    if (known == NULL)
        return false;
    const bool is_news = known->version != entry->version;
    known->version = entry->version;
    known->mark = lease;
    known->round = self->scan;
    tell(self, FRY_STORE_IS_PUT, entry, is_news);
    return true;
}

bool fry_local_look(fry_local *self, const char *key)
{
    fry_store_entry entry;
    uint64_t lease;

    if (!is_watched(self, key)) {
        fry_known *known = fry_known_find(&self->keys, key);

        if (known != NULL)
            fry_known_forget(&self->keys, known);
        return true;
    }
    const ferry_status status = self->ops->read(self, key, &entry, &lease);
    if (status == FERRY_OK)
        return is_present(self, &entry, lease);
    if (status != FERRY_E_NOT_FOUND && status != FERRY_E_UNSUPPORTED)
        return false;
    is_absent(self, key);
    if (status == FERRY_E_NOT_FOUND && lease != 0)
        self->ops->sweep(self, key, lease);
    return true;
}

/* Looks at the known keys of a lease; for lease 0 at those that the last scan has not found. */
static bool look_at_known(fry_local *self, uint64_t lease)
{
    char key[FRY_STORE_KEY_BYTES + 1];
    const fry_known *known = fry_known_first(&self->keys);

    /* Callbacks may change the tree, so the next key is found by comparison. */
    for (; known != NULL; known = fry_known_after(&self->keys, key)) {
        (void)strcpy(key, known->key);
        if ((lease != 0 ? known->mark == lease : known->round != self->scan) &&
            !fry_local_look(self, key))
            return false;
    }
    return true;
}

bool fry_local_look_at_keys_of(fry_local *self, uint64_t lease)
{
    return look_at_known(self, lease);
}

static bool look_at_all(fry_local *self)
{
    listing list;
    bool is_fine = list_names(self, &list, NULL) == FERRY_OK;
    const fry_known *name = fry_known_first(&list.names);

    for (; name != NULL && is_fine; name = fry_known_next(name))
        is_fine = fry_local_look(self, name->key);
    fry_known_forget_all(&list.names);
    return is_fine && look_at_known(self, 0);
}

/* --- Following --- */

static void follow(fry_local *self)
{
    bool is_more = true;

    for (int i = 0; i < FOLLOWS_PER_TURN && is_more && self->is_followed; i++)
        is_more = self->ops->follow(self);
    if (is_more && self->is_followed)
        take_turn_soon(self);
}

static void set_states(fry_local *self, watch_state from, watch_state to)
{
    fry_store_watch *watch;

    LIST_FOREACH(watch, &self->base.watches, entry) {
        if (watch->private_state == from)
            watch->private_state = to;
    }
}

static void scan(fry_local *self)
{
    self->needs_scan = false;
    /* Before anything is read, so that later changes are followed. */
    self->is_followed = self->ops->scan_starts(self);
    self->scan++;
    set_states(self, WATCH_NEW, WATCH_SCANNED);
    if (!look_at_all(self)) {
        set_states(self, WATCH_SCANNED, WATCH_NEW);
        fry_local_lose(self);
        return;
    }
    /* A backend that changes meanwhile may hide a key that was there all the time. */
    set_states(self, WATCH_SCANNED, WATCH_FOLLOWS);
    follow(self);
    if (self->needs_scan) /* the next scan tells LISTED */
        return;
    self->is_lost = false;
    tell_all(self, FRY_STORE_IS_LISTED);
    tell_all(self, FRY_STORE_IS_HEALTHY);
}

static void run_watches(fry_local *self)
{
    follow(self);
    for (int i = 0; i < 2 && self->needs_scan && !self->is_lost; i++)
        scan(self);
    if (self->needs_scan && !self->is_lost)
        take_turn_soon(self);
    if (self->is_lost)
        tell_all(self, FRY_STORE_IS_LOST); /* also new watches */
    plan(self);
}

static void stop_watching(fry_local *self)
{
    self->ops->follow_stop(self);
    fry_timer_stop(self->base.reactor, &self->look);
    fry_known_forget_all(&self->keys);
    self->is_followed = self->needs_scan = self->is_lost = false;
}

static void watch_start(fry_store *store, fry_store_watch *watch)
{
    fry_local *self = (fry_local *)store;

    watch->private_state = WATCH_NEW;
    self->needs_scan = true;
    take_turn_soon(self);
}

static void watch_stop(fry_store_watch *watch)
{
    fry_local *self = (fry_local *)watch->store;

    if (LIST_EMPTY(&self->base.watches))
        stop_watching(self);
}

/* --- Turns --- */

static void take_turn(fry_local *self, bool is_look)
{
    const bool is_there = self->ops->begin(self, is_look);

    if (is_look && is_there && (self->is_lost || !self->is_followed)) {
        self->is_lost = false;
        self->needs_scan = true;
    }
    make_leases(self);
    run_requests(self);
    if (self->ops->end != NULL)
        self->ops->end(self);
    if (!LIST_EMPTY(&self->base.watches))
        run_watches(self);
}

void fry_local_run(fry_local *self)
{
    take_turn(self, false);
}

static void turn_is_due(fry_timer *timer)
{
    take_turn(timer->arg, false);
}

static void look_is_due(fry_timer *timer)
{
    take_turn(timer->arg, true);
}

/* --- Stores --- */

static void close_store(fry_store *store)
{
    fry_local *self = (fry_local *)store;

    fry_timer_stop(store->reactor, &self->turn);
    stop_watching(self);
    self->ops->close(self);
}

void fry_local_init(fry_local *self, fry_reactor *reactor, const fry_local_ops *ops)
{
    static const fry_store_ops front = {
        .close = close_store,
        .submit = submit,
        .cancel = cancel,
        .watch_start = watch_start,
        .watch_stop = watch_stop,
        .lease_open = lease_open,
        .lease_close = lease_close,
    };

    fry_store_init(&self->base, reactor, &front);
    self->ops = ops;
    self->turn = (fry_timer){.fn = turn_is_due, .arg = self};
    self->look = (fry_timer){.fn = look_is_due, .arg = self};
    self->keys.memory = reactor->memory;
}
