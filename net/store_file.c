/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file:DIR, for processes of one machine that share a folder. net/store_disk.[ch] says what is in
 * it; here is when it is looked at. What is asked for is done in the loop's next round, one system
 * call after the other: a local disk's answers are not waited for anywhere else either. A lock that
 * another process holds is tried again by a timer, a little later each time.
 *
 * A store with watches follows the folder by inotify and knows the version of each key it has told
 * of, so an event costs reading one file, and a change that is known already nothing more. When
 * inotify's queue ran over, when there is no inotify to be had (a user may have 128), or after an
 * error, the whole folder is gone through and compared with what is known.
 *
 * A folder that is removed, or moved away, is no store any more: whoever opens it by its name has
 * another. So it is lost, and what has that name is taken as soon as it is there; after some time
 * it is made again. It is a store without a past then, even if it should be the same.
 *
 * Leases that hold keys are known by the end that was read last. When the first of them may be over
 * it is read again, with all others that are nearly so, which have mostly been extended: a client
 * at rest wakes up about once in the time of a lease. Whoever finds one over ends it.
 */
#include "net/store_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define REQUESTS_PER_TURN 64
#define BUSY_MIN_NS INT64_C(500000)
#define BUSY_DOUBLINGS_MAX 7 /* 64 ms */
#define PASSES_MAX 3
#define STAMP_NS INT64_C(20000000) /* two changes may have one stamp: a tick of the kernel */
#define SOON_NS INT64_C(20000000)  /* when somebody else is ending a lease just now */

/* --- Leases of others --- */

static int by_id(file_lease *left, file_lease *right)
{
    return left->id < right->id ? -1 : left->id > right->id;
}

RB_GENERATE_INTERNAL(file_leases, file_lease, entry, by_id, static __attribute__((unused)))

static file_lease *find_lease(file_store *self, uint64_t id)
{
    file_lease like = {.id = id};

    return RB_FIND(file_leases, &self->leases, &like);
}

static void forget_lease(file_store *self, file_lease *known)
{
    if (known == NULL)
        return;
    RB_REMOVE(file_leases, &self->leases, known);
    fry_free(self->disk.memory, known, sizeof *known);
}

void fry_file_forget_leases(file_store *self)
{
    file_lease *known, *next;

    RB_FOREACH_SAFE(known, file_leases, &self->leases, next)
    forget_lease(self, known);
}

/* When it is over, by our clock, as far as is known. One of another clock must stand still. */
static int64_t end_of(const file_lease *known)
{
    return known->is_other_clock ? known->seen_ns + known->ttl_ns + FILE_OTHER_CLOCK_NS
                                 : known->ends_ns;
}

/*
 * When it is to be read next. One of another clock is looked at more often than it is kept alive,
 * or its last change is seen late.
 */
static int64_t look_of(const file_lease *known)
{
    const int64_t often_ns = known->read_ns + known->ttl_ns / 4;
    int64_t next_ns = end_of(known);

    if (known->is_other_clock && often_ns < next_ns)
        next_ns = often_ns;
    return known->again_ns != 0 && known->again_ns < next_ns ? known->again_ns : next_ns;
}

/*
 * NULL: it is not kept, and read anew each time: one of our clock while nothing is watched, when
 * nobody would forget it either. Without memory one of another clock lasts too long.
 */
static file_lease *note_lease(file_store *self, const fry_disk_lease *read)
{
    file_lease *known = find_lease(self, read->id);

    if (known == NULL) {
        if (self->base.watches == NULL && !read->is_other_clock)
            return NULL;
        known = fry_alloc(self->disk.memory, sizeof *known, _Alignof(file_lease));
        if (known == NULL)
            return NULL;
        known->id = read->id;
        known->ends_ns = ~read->ends_ns;
        RB_INSERT(file_leases, &self->leases, known);
    }
    known->read_ns = fry_reactor_now_ns(self->base.reactor);
    known->again_ns = 0;
    if (known->ends_ns != read->ends_ns)
        known->seen_ns = known->read_ns;
    known->ends_ns = read->ends_ns;
    known->ttl_ns = read->ttl_ns;
    known->is_other_clock = read->is_other_clock;
    return known;
}

bool fry_file_lease_is_over(void *arg, uint64_t id)
{
    file_store *self = arg;
    fry_disk_lease read;
    const ferry_status status = fry_disk_lease_read(&self->disk, id, &read);

    if (status == FERRY_E_NOT_FOUND || status == FERRY_E_UNSUPPORTED) {
        forget_lease(self, find_lease(self, id));
        return true;
    }
    if (status != FERRY_OK)
        return false; /* not known to be */
    const int64_t now_ns = fry_reactor_now_ns(self->base.reactor);
    const file_lease *known = note_lease(self, &read);
    const bool is_late =
        known != NULL ? end_of(known) <= now_ns : !read.is_other_clock && read.ends_ns <= now_ns;
    if (!is_late && !read.is_dead)
        return false;
    if (fry_disk_lease_end(&self->disk, &read) != FERRY_OK)
        return false;
    forget_lease(self, find_lease(self, id));
    /* Not now: a key's lock may be held. */
    self->needs_sweep = true;
    fry_store_timer_soon(&self->base, &self->turn);
    return true;
}

/* The same for reading: one that lasts by what is known only needs to be there. */
bool fry_file_key_is_over(file_store *self, uint64_t id)
{
    if (id == 0)
        return false;
    const file_lease *known = find_lease(self, id);
    if (known != NULL && !known->is_other_clock &&
        known->ends_ns > fry_reactor_now_ns(self->base.reactor))
        return !fry_disk_lease_exists(&self->disk, id);
    return fry_file_lease_is_over(self, id);
}

void fry_file_look_again(file_store *self, uint64_t id)
{
    file_lease *known = find_lease(self, id);

    if (known != NULL)
        known->again_ns = fry_reactor_now_ns(self->base.reactor) + SOON_NS;
}

int64_t fry_file_next_end_ns(file_store *self)
{
    const int64_t now_ns = fry_reactor_now_ns(self->base.reactor);
    int64_t next_ns = INT64_MAX;
    file_lease *known;

    RB_FOREACH(known, file_leases, &self->leases)
    next_ns = look_of(known) < next_ns ? look_of(known) : next_ns;
    return next_ns > now_ns + SOON_NS ? next_ns : now_ns + SOON_NS;
}

void fry_file_look_at_leases(file_store *self)
{
    const int64_t now_ns = fry_reactor_now_ns(self->base.reactor);
    file_lease *known, *next;

    /* Those that end within a third, too: who keeps one alive does it each third. */
    RB_FOREACH_SAFE(known, file_leases, &self->leases, next)
    {
        if (look_of(known) - known->ttl_ns / 3 <= now_ns)
            (void)fry_file_lease_is_over(self, known->id);
    }
}

/* --- Own leases: private_ is an own_lease --- */

typedef struct own_lease {
    int fd;
} own_lease;

static void free_own(file_store *self, fry_store_lease *lease)
{
    own_lease *own = lease->private_;

    (void)close(own->fd);
    fry_free(self->disk.memory, own, sizeof *own);
    lease->private_ = NULL;
}

static void lease_has_ended(file_store *self, fry_store_lease *lease)
{
    fry_disk_lease_drop(&self->disk, lease->id);
    fry_disk_sweep_all(&self->disk, lease->id);
    free_own(self, lease);
    fry_store_lease_gone(lease, FRY_LEASE_ENDED, "it was not kept alive in time");
}

void fry_file_end_leases(file_store *self, const char *why)
{
    fry_store *base = &self->base;

    for (fry_store_lease *lease = base->leases; lease != NULL; lease = base->next_lease) {
        base->next_lease = lease->next;
        if (lease->private_ == NULL)
            continue;
        free_own(self, lease);
        fry_store_lease_gone(lease, FRY_LEASE_ENDED, why);
    }
}

static void keep_alive(fry_timer *timer)
{
    fry_store_lease *lease = timer->arg;
    file_store *self = (file_store *)lease->store;
    const own_lease *own = lease->private_;
    const int64_t now_ns = fry_reactor_now_ns(self->base.reactor);
    ferry_status status = FERRY_E_NOT_FOUND;
    int64_t next_in_ns = lease->ttl_ns / 12; /* after an error there is time for some tries */

    fry_store_lease_asks(lease);
    if (!fry_disk_is_whole(&self->disk)) {
        fry_file_lose(self); /* the lease goes when it is known what is there instead */
        fry_store_lease_not_renewed(lease);
        fry_timer_set(self->base.reactor, timer, now_ns + next_in_ns);
        return;
    }
    if (now_ns < lease->ends_ns)
        status = fry_disk_lease_extend(&self->disk, own->fd, now_ns + lease->ttl_ns);
    if (status == FERRY_E_NOT_FOUND) {
        lease_has_ended(self, lease);
        return;
    }
    if (status == FERRY_OK) {
        lease->ends_ns = now_ns + lease->ttl_ns;
        fry_store_lease_renewed(lease, now_ns);
        next_in_ns = lease->ttl_ns / 3;
    } else if (status == FERRY_E_BUSY) {
        next_in_ns = SOON_NS;
    }
    fry_timer_set(self->base.reactor, timer, now_ns + next_in_ns);
}

static void make_lease(file_store *self, fry_store_lease *lease)
{
    const int64_t now_ns = fry_reactor_now_ns(self->base.reactor);
    own_lease *own = NULL;

    if (self->is_removed) {
        (void)fry_disk_gone(&self->disk);
        fry_store_lease_gone(lease, FRY_LEASE_REFUSED, self->disk.why);
        return;
    }
    own = fry_alloc(self->disk.memory, sizeof *own, _Alignof(own_lease));
    if (own == NULL) {
        fry_store_lease_gone(lease, FRY_LEASE_REFUSED, "no memory for a lease");
        return;
    }
    if (fry_disk_lease_make(&self->disk, lease->ttl_ns, now_ns + lease->ttl_ns, &lease->id,
                            &own->fd) != FERRY_OK) {
        fry_free(self->disk.memory, own, sizeof *own);
        fry_store_lease_gone(lease, FRY_LEASE_REFUSED, self->disk.why);
        return;
    }
    lease->ends_ns = now_ns + lease->ttl_ns;
    lease->private_ = own;
    lease->timer.fn = keep_alive;
    fry_timer_set(self->base.reactor, &lease->timer, now_ns + lease->ttl_ns / 3);
    fry_store_lease_granted(lease);
}

static void make_leases(file_store *self)
{
    fry_store *base = &self->base;

    for (fry_store_lease *lease = base->leases; lease != NULL; lease = base->next_lease) {
        base->next_lease = lease->next;
        if (!lease->is_granted && lease->refusal == NULL)
            make_lease(self, lease);
    }
}

static void lease_open(fry_store *store, fry_store_lease *lease)
{
    (void)lease;
    fry_store_timer_soon(store, &((file_store *)store)->turn);
}

static void lease_close(fry_store_lease *lease)
{
    file_store *self = (file_store *)lease->store;

    if (lease->private_ == NULL)
        return;
    fry_disk_lease_drop(&self->disk, lease->id);
    fry_disk_sweep_all(&self->disk, lease->id);
    free_own(self, lease);
}

static const fry_store_lease *own_lease_of(const file_store *self, uint64_t id)
{
    const fry_store_lease *lease = self->base.leases;

    while (lease != NULL && (lease->id != id || lease->private_ == NULL))
        lease = lease->next;
    return lease;
}

/* --- Requests --- */

static void finish_get(file_store *self, fry_store_request *request)
{
    fry_disk_key read;
    ferry_status status = fry_disk_read(&self->disk, request->key, &read);

    if (status == FERRY_OK && fry_file_key_is_over(self, read.lease))
        status = FERRY_E_NOT_FOUND;
    if (status == FERRY_E_UNSUPPORTED)
        status = FERRY_E_STORE;
    const bool is_there = status == FERRY_OK;
    const bool has_reason = !is_there && status != FERRY_E_NOT_FOUND;
    fry_store_finish(request, status, is_there ? &read.entry : NULL, is_there,
                     has_reason ? self->disk.why : NULL);
}

/* False: somebody holds the key's lock. */
static bool finish_change(file_store *self, fry_store_request *request)
{
    const fry_store_lease *lease = NULL;
    fry_disk_key found = {.lease = 0};

    if (request->private_number != 0) {
        lease = own_lease_of(self, request->private_number);
        if (lease == NULL) {
            fry_store_finish(request, FERRY_E_STORE, NULL, 0, "the lease has ended");
            return true;
        }
    }
    const int64_t now_ns = fry_reactor_now_ns(self->base.reactor);
    const fry_store_lease *guard =
        request->guard_key != NULL ? own_lease_of(self, request->guard_id) : NULL;
    const own_lease *own = lease != NULL ? lease->private_ : NULL;
    const own_lease *own_guard = guard != NULL ? guard->private_ : NULL;
    const fry_disk_change change = {
        .verb = request->verb,
        .key = request->key,
        .value = request->value,
        .value_bytes = request->value_bytes,
        .version = request->verb == FRY_STORE_SWAP || request->verb == FRY_STORE_DELETE
                       ? request->version
                       : 0,
        .lease = request->private_number,
        .lease_fd = own != NULL ? own->fd : -1,
        .lease_left_ns = lease != NULL ? lease->ends_ns - now_ns : 0,
        .guard_key = request->guard_key,
        .guard_lease = request->guard_id,
        .guard_fd = own_guard != NULL ? own_guard->fd : -1,
        .guard_left_ns = guard != NULL ? guard->ends_ns - now_ns : 0,
        .is_over = fry_file_lease_is_over,
        .arg = self,
    };
    const ferry_status status = fry_disk_change_key(&self->disk, &change, &found);

    if (status == FERRY_E_BUSY)
        return false;
    const bool has_entry =
        status == FERRY_E_CHANGED || (status == FERRY_OK && request->verb != FRY_STORE_DELETE);
    const bool has_reason = status == FERRY_E_STORE || status == FERRY_E_NO_MEMORY;
    fry_store_finish(request, status, has_entry ? &found.entry : NULL, has_entry,
                     has_reason ? self->disk.why : NULL);
    return true;
}

typedef struct listing {
    file_store *self;
    const char *prefix;
    file_name *names; /* keys, copied */
    size_t count, room;
    bool has_memory;
} listing;

static bool add_name(void *arg, const char *key)
{
    listing *list = arg;

    if (strncmp(key, list->prefix, strlen(list->prefix)) != 0)
        return true;
    list->has_memory = false;
    if (list->count == list->room) {
        const size_t room = list->room != 0 ? list->room * 2 : 64;
        file_name *names = fry_alloc_raw(list->self->disk.memory, room * sizeof *names, 8);

        if (names == NULL)
            return false;
        if (list->count > 0)
            memcpy(names, list->names, list->count * sizeof *names);
        fry_free(list->self->disk.memory, list->names, list->room * sizeof *names);
        list->names = names;
        list->room = room;
    }
    file_name *name = &list->names[list->count];
    name->bytes = strlen(key) + 1;
    name->key = fry_alloc_raw(list->self->disk.memory, name->bytes, 1);
    if (name->key == NULL)
        return false;
    memcpy(name->key, key, name->bytes);
    list->count++;
    list->has_memory = true;
    return list->count <= FRY_STORE_ENTRIES_MAX;
}

static int by_key(const void *left, const void *right)
{
    return strcmp(((const file_name *)left)->key, ((const file_name *)right)->key);
}

/* Names that more than one pass has found once, in order. */
static void sort_names(listing *list)
{
    size_t kept = 0;

    if (list->count == 0)
        return;
    qsort(list->names, list->count, sizeof *list->names, by_key);
    for (size_t i = 1; i < list->count; i++) {
        if (strcmp(list->names[kept].key, list->names[i].key) != 0)
            list->names[++kept] = list->names[i];
        else
            fry_free(list->self->disk.memory, list->names[i].key, list->names[i].bytes);
    }
    list->count = kept + 1;
}

/* Whether nothing was put into the folder or taken out since `before`, as far as stamps tell. */
static bool is_quiet(const file_store *self, const struct timespec *before)
{
    struct timespec now;
    struct stat about;

    if (fstat(self->disk.keys_fd, &about) != 0 || clock_gettime(CLOCK_REALTIME_COARSE, &now) != 0)
        return true;
    const int64_t age_ns = (now.tv_sec - about.st_mtim.tv_sec) * INT64_C(1000000000) +
                           (now.tv_nsec - about.st_mtim.tv_nsec);
    return age_ns > STAMP_NS && before->tv_sec == about.st_mtim.tv_sec &&
           before->tv_nsec == about.st_mtim.tv_nsec;
}

/*
 * A name that is renamed over while its folder is read may not be found at all (btrfs and tmpfs
 * give it a new place, perhaps behind us): of a folder that changes all that several passes find
 * is taken. Whether a name has a key is seen when it is read.
 */
ferry_status fry_file_names(file_store *self, const char *prefix, file_name **names_p,
                            size_t *count_p, size_t *room_p)
{
    listing list = {.self = self, .prefix = prefix, .has_memory = true};
    ferry_status status = FERRY_OK;
    bool is_settled = false;

    for (int pass = 0; status == FERRY_OK && pass < PASSES_MAX && !is_settled; pass++) {
        struct stat before = {0};

        (void)fstat(self->disk.keys_fd, &before);
        status = fry_disk_names(&self->disk, self->disk.keys_fd, add_name, &list);
        is_settled = is_quiet(self, &before.st_mtim) || !list.has_memory;
        sort_names(&list);
    }
    if (status == FERRY_OK && !fry_disk_is_whole(&self->disk))
        status = fry_disk_gone(&self->disk);
    if (status == FERRY_OK && !list.has_memory)
        status = fry_disk_refused(&self->disk, FERRY_E_NO_MEMORY, "no memory for a list");
    if (status == FERRY_OK && list.count > FRY_STORE_ENTRIES_MAX)
        status = fry_disk_refused(&self->disk, FERRY_E_STORE, "the store has too many keys");
    *names_p = list.names;
    *count_p = list.count;
    *room_p = list.room;
    return status;
}

void fry_file_free_names(file_store *self, file_name *names, size_t count, size_t room)
{
    for (size_t i = 0; i < count; i++)
        fry_free(self->disk.memory, names[i].key, names[i].bytes);
    fry_free(self->disk.memory, names, room * sizeof *names);
}

/* Reads one of a list into memory of its own. FERRY_E_NOT_FOUND: it is not to be in it. */
static ferry_status read_listed(file_store *self, const char *key, fry_store_entry *entry)
{
    fry_disk_key read;
    ferry_status status = fry_disk_read(&self->disk, key, &read);

    if (status == FERRY_E_UNSUPPORTED ||
        (status == FERRY_OK && fry_file_key_is_over(self, read.lease)))
        return FERRY_E_NOT_FOUND;
    if (status != FERRY_OK)
        return status;
    *entry = read.entry;
    char *value = fry_alloc_raw(self->disk.memory, entry->value_bytes + 1, 1);
    if (value == NULL)
        return fry_disk_refused(&self->disk, FERRY_E_NO_MEMORY, "no memory for a list");
    memcpy(value, entry->value, entry->value_bytes + 1);
    entry->value = value;
    return FERRY_OK;
}

static void finish_list(file_store *self, fry_store_request *request)
{
    const fry_memory *memory = self->disk.memory;
    const char *prefix = request->key != NULL ? request->key : "";
    file_name *names = NULL;
    fry_store_entry *entries = NULL;
    size_t names_count = 0, room = 0, count = 0, value_bytes = 0;
    ferry_status status = fry_file_names(self, prefix, &names, &names_count, &room);

    if (status == FERRY_OK && names_count > 0) {
        entries = fry_alloc_raw(memory, names_count * sizeof *entries, 8);
        if (entries == NULL)
            status = fry_disk_refused(&self->disk, FERRY_E_NO_MEMORY, "no memory for a list");
    }
    for (size_t i = 0; status == FERRY_OK && i < names_count; i++) {
        status = read_listed(self, names[i].key, &entries[count]);
        if (status == FERRY_OK)
            value_bytes += entries[count++].value_bytes;
        if (status == FERRY_E_NOT_FOUND)
            status = FERRY_OK;
        if (value_bytes > FRY_STORE_LIST_BYTES)
            status = fry_disk_refused(&self->disk, FERRY_E_STORE, "the list is too long");
    }
    if (status == FERRY_OK)
        fry_store_finish(request, FERRY_OK, count > 0 ? entries : NULL, count, NULL);
    else
        fry_store_finish(request, status, NULL, 0, self->disk.why);
    for (size_t i = 0; i < count; i++)
        fry_free(memory, (void *)(uintptr_t)entries[i].value, entries[i].value_bytes + 1);
    fry_free(memory, entries, names_count * sizeof *entries);
    fry_file_free_names(self, names, names_count, room);
}

static fry_store_request *first_request(const file_store *self)
{
    fry_store_request *request = self->base.requests;

    while (request != NULL && request->verdict != FERRY_OK)
        request = request->next;
    return request;
}

/* In the order of their submits: one that finds a lock taken holds up those behind it. */
static void run_requests(file_store *self)
{
    fry_reactor *reactor = self->base.reactor;
    fry_store_request *request = NULL;

    for (size_t i = 0; i < REQUESTS_PER_TURN && (request = first_request(self)) != NULL; i++) {
        if (self->is_removed) {
            (void)fry_disk_gone(&self->disk);
            fry_store_finish(request, FERRY_E_STORE, NULL, 0, self->disk.why);
        } else if (request->verb == FRY_STORE_GET) {
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
    if (request != NULL && first_request(self) != NULL)
        fry_store_timer_soon(&self->base, &self->turn);
    else
        self->busy = 0; /* who waited for a lock was cancelled */
}

static void take_turn(fry_timer *timer)
{
    file_store *self = timer->arg;

    if (!self->is_removed && !fry_disk_is_named(&self->disk))
        fry_file_lose(self);
    (void)fry_file_take_again(self);
    make_leases(self);
    run_requests(self);
    if (!self->is_removed && self->disk.is_gone)
        fry_file_lose(self);
    if (self->needs_sweep) {
        self->needs_sweep = false;
        fry_disk_sweep_all(&self->disk, 0);
    }
    fry_file_run_watches(self);
}

static void submit(fry_store *store, fry_store_request *request)
{
    file_store *self = (file_store *)store;

    request->private_number = request->lease != NULL ? request->lease->id : 0;
    if (self->busy == 0)
        fry_store_timer_soon(store, &self->turn);
}

static void cancel(fry_store_request *request)
{
    (void)request; /* one that is on the list has not begun */
}

/* --- Stores --- */

static bool look_at_lease(void *arg, const char *name)
{
    const uint64_t id = fry_disk_lease_id(name);

    if (id != 0)
        (void)fry_file_lease_is_over(arg, id);
    return true;
}

void fry_file_read_leases(file_store *self)
{
    (void)fry_disk_names(&self->disk, self->disk.leases_fd, look_at_lease, self);
}

static void close_store(fry_store *store)
{
    file_store *self = (file_store *)store;
    const fry_memory *memory = self->disk.memory;

    fry_timer_stop(store->reactor, &self->turn);
    fry_file_stop_watching(self);
    fry_disk_close(&self->disk);
    fry_free(memory, self, sizeof *self);
}

static ferry_status open_store(fry_reactor *reactor, const char *uri,
                               const fry_store_options *options, fry_store **store_p,
                               fry_error **error_p)
{
    const fry_memory *memory = reactor->memory;
    const char *folder = uri + strlen(fry_store_file.scheme);

    (void)options;
    if (*folder == '\0')
        return fry_store_error(memory, FERRY_E_INVALID, error_p, "file: is followed by a folder");
    file_store *self = fry_alloc(memory, sizeof *self, _Alignof(file_store));
    if (self == NULL)
        return fry_store_error(memory, FERRY_E_NO_MEMORY, error_p, "no memory for a store");
    const ferry_status status =
        fry_disk_open(&self->disk, memory, folder, reactor->clock->is_real, true);
    if (status != FERRY_OK) {
        const fry_error_facts facts = {.status = status,
                                       .domain = self->disk.code != 0 ? "errno" : NULL,
                                       .native_code = self->disk.code};
        *error_p = fry_error_create(memory, &facts, "%s: %s", folder, self->disk.why);
        fry_free(memory, self, sizeof *self);
        return status;
    }
    self->base.reactor = reactor;
    self->turn = (fry_timer){.fn = take_turn, .arg = self};
    fry_file_init_watching(self);
    /* What the dead have left goes before anybody asks. */
    fry_file_read_leases(self);
    fry_disk_tidy(&self->disk);
    fry_file_forget_leases(self);
    fry_timer_stop(reactor, &self->turn);
    self->needs_sweep = false;
    *store_p = &self->base;
    return FERRY_OK;
}

const fry_store_ops fry_store_file = {
    .scheme = "file:",
    .open = open_store,
    .close = close_store,
    .submit = submit,
    .cancel = cancel,
    .watch_start = fry_file_watch_start,
    .watch_stop = fry_file_watch_stop,
    .lease_open = lease_open,
    .lease_close = lease_close,
};
