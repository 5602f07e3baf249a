/* SPDX-License-Identifier: Apache-2.0 */
/* Watches of a file: store; net/store_file.c says how. */
#include "net/store_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>

#define EVENT_BYTES 16384
#define READS_PER_EVENT 16                /* then the loop gets its turn */
#define POLL_NS INT64_C(500000000)        /* without inotify, or while the folder can't be read */
#define MAKE_AFTER_NS INT64_C(2000000000) /* a folder that is gone for so long is made again */
#define LOOK_AHEAD 64                     /* events, for one of the same name */

#define KEY_EVENTS                                                                                 \
    (IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_MOVED_FROM | IN_DELETE_SELF | IN_ONLYDIR)
#define LEASE_EVENTS (KEY_EVENTS | IN_CLOSE_WRITE)

/* private_numbers[0] of a watch. */
enum {
    WATCH_NEW,     /* the next scan is for it */
    WATCH_SCANNED, /* it is told of all that the scan finds */
    WATCH_FOLLOWS, /* it is told of what changes */
};

static int by_key(file_key *left, file_key *right)
{
    return strcmp(left->key, right->key);
}

RB_GENERATE_INTERNAL(file_keys, file_key, entry, by_key, static __attribute__((unused)))

static file_key *find_key(file_store *self, const char *key)
{
    file_key like = {.key = key};

    return RB_FIND(file_keys, &self->keys, &like);
}

static void forget_key(file_store *self, file_key *known)
{
    RB_REMOVE(file_keys, &self->keys, known);
    fry_free(self->disk.memory, known, known->size_bytes);
}

static file_key *learn_key(file_store *self, const char *key)
{
    const size_t key_bytes = strlen(key) + 1;
    file_key *known = fry_alloc(self->disk.memory, sizeof *known + key_bytes, _Alignof(file_key));

    if (known == NULL)
        return NULL;
    known->size_bytes = sizeof *known + key_bytes;
    memcpy(known + 1, key, key_bytes);
    known->key = (const char *)(known + 1);
    RB_INSERT(file_keys, &self->keys, known);
    return known;
}

/* --- Telling --- */

static bool matches(const fry_store_watch *watch, const char *key)
{
    return strncmp(key, watch->prefix, strlen(watch->prefix)) == 0;
}

static bool is_watched(const file_store *self, const char *key)
{
    const fry_store_watch *watch = self->base.watches;

    while (watch != NULL && !matches(watch, key))
        watch = watch->next;
    return watch != NULL;
}

static void tell(file_store *self, fry_store_event event, const fry_store_entry *entry,
                 bool is_news)
{
    fry_store *base = &self->base;

    for (fry_store_watch *watch = base->watches; watch != NULL; watch = base->next_watch) {
        const uint64_t state = watch->private_numbers[0];

        base->next_watch = watch->next;
        if (!matches(watch, entry->key))
            continue;
        if ((state == WATCH_FOLLOWS && is_news) ||
            (state == WATCH_SCANNED && event == FRY_STORE_IS_PUT))
            (void)fry_store_tell(watch, event, entry);
    }
}

static void tell_all(file_store *self, fry_store_event event)
{
    fry_store *base = &self->base;

    for (fry_store_watch *watch = base->watches; watch != NULL; watch = base->next_watch) {
        base->next_watch = watch->next;
        if (event == FRY_STORE_IS_LOST || watch->private_numbers[0] == WATCH_FOLLOWS)
            (void)fry_store_tell(watch, event, NULL);
    }
}

static void plan(file_store *self);

void fry_file_lose(file_store *self)
{
    const bool was_removed = self->is_removed;

    self->is_lost = self->needs_scan = true;
    self->is_removed = was_removed || !fry_disk_is_whole(&self->disk);
    self->disk.is_gone = false; /* it is known now */
    if (self->is_removed && !was_removed) {
        fry_log_line(self->base.reactor->log, FERRY_LOG_WARNING, "store %s: its folder is gone",
                     self->base.name);
        self->removed_ns = fry_reactor_now_ns(self->base.reactor);
        self->again_ns = self->removed_ns + POLL_NS;
    }
    tell_all(self, FRY_STORE_IS_LOST);
    if (self->base.watches != NULL)
        plan(self);
}

/* --- Looking at one key --- */

static void is_absent(file_store *self, const char *key)
{
    char name[FRY_STORE_KEY_BYTES + 1];
    file_key *known = find_key(self, key);

    if (known == NULL)
        return;
    (void)snprintf(name, sizeof name, "%s", key);
    const fry_store_entry entry = {.key = name, .version = known->version};
    forget_key(self, known);
    tell(self, FRY_STORE_IS_DELETED, &entry, true);
}

static bool is_present(file_store *self, const fry_disk_key *read)
{
    file_key *known = find_key(self, read->entry.key);
    const bool is_news = known == NULL || known->version != read->entry.version;

    if (known == NULL)
        known = learn_key(self, read->entry.key);
    if (known == NULL)
        return false;
    known->version = read->entry.version;
    known->lease = read->lease;
    known->scan = self->scan;
    tell(self, FRY_STORE_IS_PUT, &read->entry, is_news);
    return true;
}

/* Reads a key and tells what is new. False: it can't be read. */
static bool look_at_key(file_store *self, const char *key)
{
    fry_disk_key read;

    if (!is_watched(self, key)) {
        file_key *known = find_key(self, key);

        if (known != NULL)
            forget_key(self, known);
        return true;
    }
    const ferry_status status = fry_disk_read(&self->disk, key, &read);
    if (status != FERRY_OK && status != FERRY_E_NOT_FOUND && status != FERRY_E_UNSUPPORTED)
        return false;
    if (status == FERRY_OK && !fry_file_key_is_over(self, read.lease))
        return is_present(self, &read);
    is_absent(self, key);
    if (status == FERRY_OK)
        fry_disk_sweep(&self->disk, key, read.lease);
    return true;
}

/* The lease is gone, or its holder: what is known to be of it is looked at. */
static bool look_at_keys_of(file_store *self, uint64_t lease)
{
    char key[FRY_STORE_KEY_BYTES + 1] = "";
    file_key like = {.key = key};

    /* A callback does as it likes meanwhile: the next is found by the key. */
    for (file_key *known = RB_NFIND(file_keys, &self->keys, &like); known != NULL;) {
        (void)snprintf(key, sizeof key, "%s", known->key);
        if (known->lease == lease && !look_at_key(self, key))
            return false;
        known = RB_NFIND(file_keys, &self->keys, &like);
        if (known != NULL && strcmp(known->key, key) == 0)
            known = RB_NEXT(file_keys, &self->keys, known);
    }
    return true;
}

/* --- inotify --- */

/* Whether the same name comes again soon: then this event is told by that one. */
static bool comes_again(const char *at, const char *end, const struct inotify_event *event)
{
    for (int i = 0; i < LOOK_AHEAD && at < end; i++) {
        const struct inotify_event *other = (const struct inotify_event *)(const void *)at;

        if (other->wd == event->wd && other->len > 0 && strcmp(other->name, event->name) == 0)
            return true;
        at += sizeof *other + other->len;
    }
    return false;
}

static bool lease_event(file_store *self, const struct inotify_event *event)
{
    const uint64_t id = fry_disk_lease_id(event->name);

    if (id == 0)
        return true;
    /* New: when it ends is to be known. Closed: by a holder that died, most likely. */
    if (fry_file_lease_is_over(self, id))
        return look_at_keys_of(self, id);
    /* The kernel tells of a close before it frees the locks. */
    if ((event->mask & IN_CLOSE_WRITE) != 0)
        fry_file_look_again(self, id);
    return true;
}

/* False: what there is is not known any more. */
static bool key_or_lease_event(file_store *self, const struct inotify_event *event)
{
    char key[FRY_STORE_KEY_BYTES + 1];

    if ((event->mask & IN_Q_OVERFLOW) != 0) {
        self->needs_scan = true;
        return true;
    }
    if ((event->mask & (IN_DELETE_SELF | IN_UNMOUNT | IN_IGNORED)) != 0)
        return false;
    if (event->len == 0)
        return true;
    if (event->wd == self->leases_watch)
        return lease_event(self, event);
    return !fry_disk_key_of_name(event->name, key) || look_at_key(self, key);
}

/* Whether there is more to read. */
static bool read_events(file_store *self)
{
    char events[EVENT_BYTES] __attribute__((aligned(8)));
    const ssize_t bytes = self->events.fd >= 0 ? read(self->events.fd, events, sizeof events) : 0;

    for (const char *at = events, *end = events + bytes; bytes > 0 && at < end;) {
        const struct inotify_event *event = (const struct inotify_event *)(const void *)at;

        at += sizeof *event + event->len;
        if (event->len > 0 && comes_again(at, end, event))
            continue;
        if (!key_or_lease_event(self, event)) {
            fry_file_lose(self);
            return false;
        }
        if (self->events.fd < 0) /* a callback has stopped the last watch */
            return false;
    }
    return bytes > 0;
}

static void stop_inotify(file_store *self)
{
    if (self->events.fd < 0)
        return;
    fry_poller_remove(&self->base.reactor->poller, &self->events);
    (void)close(self->events.fd);
    self->events.fd = -1;
}

static void are_events(fry_watch *watch, uint32_t events)
{
    file_store *self = watch->arg;

    (void)events;
    for (int i = 0; i < READS_PER_EVENT && read_events(self); i++)
        continue;
    fry_file_run_watches(self);
}

static int add_watch(const file_store *self, int folder_fd, uint32_t mask)
{
    char path[64];

    /* The folder that is open, whatever is at its name now. */
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", folder_fd);
    return inotify_add_watch(self->events.fd, path, mask);
}

/* Where it can't be had the folder is gone through now and then. */
static void start_inotify(file_store *self)
{
    if (self->events.fd >= 0)
        return;
    int code;

    self->events.fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    code = errno;
    if (self->events.fd < 0)
        goto err_init;
    self->keys_watch = add_watch(self, self->disk.keys_fd, KEY_EVENTS);
    self->leases_watch = add_watch(self, self->disk.leases_fd, LEASE_EVENTS);
    if (self->keys_watch < 0 || self->leases_watch < 0)
        goto err_watch;
    if (fry_poller_add(&self->base.reactor->poller, &self->events, EPOLLIN) != FERRY_OK)
        goto err_watch;
    return;

err_watch:
    code = errno;
    (void)close(self->events.fd);
    self->events.fd = -1;
err_init:
    if (!self->has_said_polls)
        fry_log_line(self->base.reactor->log, FERRY_LOG_WARNING,
                     "store %s: no inotify (%s), it is looked at twice a second", self->base.name,
                     strerror(code));
    self->has_said_polls = true;
}

/* --- Scans --- */

static bool look_at_missing(file_store *self)
{
    char key[FRY_STORE_KEY_BYTES + 1] = "";
    file_key like = {.key = key};

    for (file_key *known = RB_NFIND(file_keys, &self->keys, &like); known != NULL;) {
        (void)snprintf(key, sizeof key, "%s", known->key);
        if (known->scan != self->scan && !look_at_key(self, key))
            return false;
        known = RB_NFIND(file_keys, &self->keys, &like);
        if (known != NULL && strcmp(known->key, key) == 0)
            known = RB_NEXT(file_keys, &self->keys, known);
    }
    return true;
}

static bool look_at_all(file_store *self)
{
    file_name *names = NULL;
    size_t count = 0, room = 0;
    bool is_fine = fry_file_names(self, "", &names, &count, &room) == FERRY_OK;

    for (size_t i = 0; i < count && is_fine; i++)
        is_fine = look_at_key(self, names[i].key);
    fry_file_free_names(self, names, count, room);
    return is_fine && look_at_missing(self);
}

static void set_states(file_store *self, uint64_t from, uint64_t to)
{
    for (fry_store_watch *watch = self->base.watches; watch != NULL; watch = watch->next) {
        if (watch->private_numbers[0] == from)
            watch->private_numbers[0] = to;
    }
}

static void scan(file_store *self)
{
    self->needs_scan = false;
    start_inotify(self); /* before anything is read: what changes then is an event */
    self->scan++;
    set_states(self, WATCH_NEW, WATCH_SCANNED);
    fry_file_read_leases(self);
    if (!look_at_all(self)) {
        set_states(self, WATCH_SCANNED, WATCH_NEW);
        fry_file_lose(self);
        return;
    }
    /* A folder that changes while it is read may hide what was there all the time. */
    set_states(self, WATCH_SCANNED, WATCH_FOLLOWS);
    for (int i = 0; i < READS_PER_EVENT && read_events(self); i++)
        continue;
    if (self->needs_scan) /* lost, or the queue ran over: LISTED is told after the next */
        return;
    self->is_lost = false;
    tell_all(self, FRY_STORE_IS_LISTED);
    tell_all(self, FRY_STORE_IS_HEALTHY);
}

/* Sets the timer for what comes next: nothing while nothing can. */
static void plan(file_store *self)
{
    fry_reactor *reactor = self->base.reactor;
    const int64_t now_ns = fry_reactor_now_ns(reactor);
    int64_t next_ns = fry_file_next_end_ns(self);

    if (self->is_lost || self->events.fd < 0)
        next_ns = now_ns + POLL_NS < next_ns ? now_ns + POLL_NS : next_ns;
    else if (RB_EMPTY(&self->leases))
        next_ns = INT64_MAX;
    if (next_ns == INT64_MAX)
        fry_timer_stop(reactor, &self->look);
    else
        fry_timer_set(reactor, &self->look, next_ns);
}

void fry_file_run_watches(file_store *self)
{
    if (self->base.watches == NULL)
        return;
    for (int i = 0; i < 2 && self->needs_scan && !self->is_lost; i++)
        scan(self);
    if (self->needs_scan && !self->is_lost)
        fry_store_timer_soon(&self->base, &self->turn);
    if (self->is_lost)
        tell_all(self, FRY_STORE_IS_LOST); /* those that came since, too */
    if (self->base.watches != NULL)
        plan(self);
}

static void look_is_due(fry_timer *timer)
{
    file_store *self = timer->arg;

    if (fry_file_take_again(self)) {
        fry_file_look_at_leases(self);
        if (self->is_lost || self->events.fd < 0) {
            self->is_lost = false;
            self->needs_scan = true;
        }
    }
    fry_file_run_watches(self);
}

bool fry_file_take_again(file_store *self)
{
    fry_reactor *reactor = self->base.reactor;
    const int64_t now_ns = fry_reactor_now_ns(reactor);
    fry_disk fresh;
    file_key *known;

    if (!self->is_removed)
        return true;
    if (now_ns < self->again_ns)
        return false;
    self->again_ns = now_ns + POLL_NS;
    if (fry_disk_open(&fresh, self->disk.memory, self->disk.path, reactor->clock->is_real,
                      now_ns - self->removed_ns >= MAKE_AFTER_NS) != FERRY_OK) {
        fry_store_set_trouble(&self->base, fresh.why);
        return false;
    }
    fry_log_line(reactor->log, FERRY_LOG_WARNING, "store %s: its folder is there again",
                 self->base.name);
    fry_store_set_trouble(&self->base, NULL);
    stop_inotify(self);
    fry_file_forget_leases(self);
    fry_disk_close(&self->disk);
    self->disk = fresh;
    self->is_removed = self->is_lost = false;
    self->needs_scan = true;
    RB_FOREACH(known, file_keys, &self->keys)
    known->version = 0;
    tell_all(self, FRY_STORE_IS_ANOTHER);
    fry_file_end_leases(self, "the store's folder was removed or moved");
    return true;
}

void fry_file_init_watching(file_store *self)
{
    self->look = (fry_timer){.fn = look_is_due, .arg = self};
    self->events = (fry_watch){.fd = -1, .fn = are_events, .arg = self};
    RB_INIT(&self->keys);
    RB_INIT(&self->leases);
}

void fry_file_stop_watching(file_store *self)
{
    file_key *known, *next;

    stop_inotify(self);
    fry_timer_stop(self->base.reactor, &self->look);
    RB_FOREACH_SAFE(known, file_keys, &self->keys, next)
    forget_key(self, known);
    fry_file_forget_leases(self);
    self->needs_scan = self->is_lost = false;
}

void fry_file_watch_start(fry_store *store, fry_store_watch *watch)
{
    file_store *self = (file_store *)store;

    watch->private_numbers[0] = WATCH_NEW;
    self->needs_scan = true;
    fry_store_timer_soon(store, &self->turn);
}

void fry_file_watch_stop(fry_store_watch *watch)
{
    file_store *self = (file_store *)watch->store;

    if (self->base.watches == NULL)
        fry_file_stop_watching(self);
}
