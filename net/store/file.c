/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file:DIR, for processes of one machine that share a folder. net/store_disk.[ch] has the folder's
 * contents; this file decides when to look at them. A turn makes one system call after the other:
 * it waits for a local disk as any program does.
 *
 * A store with watches follows the folder by inotify, so an event costs reading one file. It scans
 * the folder when inotify's queue has overflowed, when there is no inotify (a user may have 128),
 * or after an error.
 *
 * A folder that was removed or moved away is no store any more, because processes that open its
 * name get another folder. Then the store is lost until a folder has that name again; after some
 * time the store makes the folder. The new folder is a store without a past, even if it should be
 * the same one.
 *
 * Leases that hold keys are known by the end that was read last. When the first of them may be
 * over, it is read again with all others that nearly are, most of which have been extended. So a
 * client at rest wakes up about once in the time of a lease. A process that finds a lease over ends
 * it.
 */
#include "net/store/file.h"

#include "net/reactor.h"
#include "net/store/disk.h"
#include "net/store/disk_lease.h"
#include "net/store/disk_open.h"
#include "net/store/local.h"
#include "net/store/store.h"

#include <bsd/sys/tree.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define STAMP_NS INT64_C(20000000) /* two changes may have the same stamp: a tick of the kernel */
#define EVENT_BYTES 16384
#define MAKE_AFTER_NS INT64_C(2000000000) /* when a missing folder is made again */
#define LOOK_AHEAD 64                     /* events, to find one of the same name */

#define KEY_EVENTS                                                                                 \
    (IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_MOVED_FROM | IN_DELETE_SELF | IN_ONLYDIR)
#define LEASE_EVENTS (KEY_EVENTS | IN_CLOSE_WRITE)

/* A lease that was read, of this store or another. */
typedef struct file_lease {
    RB_ENTRY(file_lease) entry;
    fry_disk_lease is; /* as it was read last */
    int64_t seen_ns;   /* when its end was first read, on our clock */
    int64_t read_ns;   /* when it was read last */
    int64_t again_ns;  /* when to read it again in any case; 0: no need */
} file_lease;

typedef RB_HEAD(file_leases, file_lease) file_leases;

typedef struct file_store {
    fry_local local;
    fry_disk disk;
    fry_watch events; /* inotify; -1: no watches, or no inotify */
    int keys_watch, leases_watch;
    file_leases leases;
    int64_t removed_ns; /* when the folder was seen to be gone */
    int64_t again_ns;   /* is_removed: when to look for it again */
    bool needs_sweep, is_removed, has_said_polls;
} file_store;

/* --- Leases of others --- */

static int by_id(file_lease *left, file_lease *right)
{
    return left->is.id < right->is.id ? -1 : left->is.id > right->is.id;
}

RB_GENERATE_INTERNAL(file_leases, file_lease, entry, by_id, static __attribute__((unused)))

static file_lease *find_lease(file_store *self, uint64_t id)
{
    file_lease like = {.is.id = id};

    return RB_FIND(file_leases, &self->leases, &like);
}

static void forget_lease(file_store *self, file_lease *known)
{
    if (known == NULL)
        return;
    RB_REMOVE(file_leases, &self->leases, known);
    fry_free(self->disk.memory, known, sizeof *known);
}

static void forget_leases(file_store *self)
{
    file_lease *known, *next;

    RB_FOREACH_SAFE(known, file_leases, &self->leases, next)
        forget_lease(self, known);
}

/* When a lease is over by our clock, as far as known. Another clock's end must stand still. */
static int64_t end_of(const file_lease *known)
{
    return known->is.is_other_clock ? known->seen_ns + known->is.ttl_ns + FILE_OTHER_CLOCK_NS
                                    : known->is.ends_ns;
}

/*
 * When a lease must be read next. A lease of another clock is read more often than it is extended;
 * else its last change would be seen late.
 */
static int64_t look_of(const file_lease *known)
{
    const int64_t often_ns = known->read_ns + known->is.ttl_ns / 4;
    int64_t next_ns = end_of(known);

    if (known->is.is_other_clock && often_ns < next_ns)
        next_ns = often_ns;
    return known->again_ns != 0 && known->again_ns < next_ns ? known->again_ns : next_ns;
}

/*
 * Notes a lease that was read. NULL: not kept, so it is read anew each time. A lease of our clock
 * is not kept while nothing is watched, because nobody would forget it. Without memory a lease of
 * another clock lasts too long.
 */
static file_lease *note_lease(file_store *self, const fry_disk_lease *read)
{
    file_lease *known = find_lease(self, read->id);

    if (known == NULL) {
        if (LIST_EMPTY(&self->local.base.watches) && !read->is_other_clock)
            return NULL;
        known = fry_alloc(self->disk.memory, sizeof *known, _Alignof(file_lease));
        if (known == NULL)
            return NULL;
        known->is = (fry_disk_lease){.id = read->id, .ends_ns = ~read->ends_ns};
        RB_INSERT(file_leases, &self->leases, known);
    }
    known->read_ns = fry_reactor_now_ns(self->local.base.reactor);
    known->again_ns = 0;
    if (known->is.ends_ns != read->ends_ns)
        known->seen_ns = known->read_ns;
    known->is = *read;
    return known;
}

/* Whether a lease is over; if so, ends it. False: also if that is not known. */
static bool lease_is_over(void *arg, uint64_t id)
{
    file_store *self = arg;
    fry_disk_lease read;
    const ferry_status status = fry_disk_lease_read(&self->disk, id, &read);

    if (status == FERRY_E_NOT_FOUND || status == FERRY_E_UNSUPPORTED) {
        forget_lease(self, find_lease(self, id));
        return true;
    }
    if (status != FERRY_OK)
        return false; /* not known to be over */
    const int64_t now_ns = fry_reactor_now_ns(self->local.base.reactor);
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
    fry_timer_set_soon(self->local.base.reactor, &self->local.turn);
    return true;
}

/* The same for reading. A lease whose known end is ahead only needs to have a file. */
static bool key_is_over(file_store *self, uint64_t id)
{
    if (id == 0)
        return false;
    const file_lease *known = find_lease(self, id);
    if (known != NULL && !known->is.is_other_clock &&
        known->is.ends_ns > fry_reactor_now_ns(self->local.base.reactor))
        return !fry_disk_lease_exists(&self->disk, id);
    return lease_is_over(self, id);
}

/* Has a lease that is not over read again in a moment. */
static void look_again(file_store *self, uint64_t id)
{
    file_lease *known = find_lease(self, id);

    if (known != NULL)
        known->again_ns = fry_reactor_now_ns(self->local.base.reactor) + FRY_LOCAL_SOON_NS;
}

static int64_t next_ns(fry_local *local)
{
    file_store *self = (file_store *)local;
    const int64_t now_ns = fry_reactor_now_ns(self->local.base.reactor);
    int64_t next_ns = INT64_MAX;
    file_lease *known;

    RB_FOREACH(known, file_leases, &self->leases)
        next_ns = look_of(known) < next_ns ? look_of(known) : next_ns;
    return next_ns > now_ns + FRY_LOCAL_SOON_NS ? next_ns : now_ns + FRY_LOCAL_SOON_NS;
}

static void look_at_leases(file_store *self)
{
    const int64_t now_ns = fry_reactor_now_ns(self->local.base.reactor);
    file_lease *known, *next;

    /* Also those that end within a third of their time: holders extend them each third. */
    RB_FOREACH_SAFE(known, file_leases, &self->leases, next) {
        if (look_of(known) - known->is.ttl_ns / 3 <= now_ns)
            (void)lease_is_over(self, known->is.id);
    }
}

static bool look_at_lease(void *arg, const char *name)
{
    const uint64_t id = fry_disk_lease_id(name);

    if (id != 0)
        (void)lease_is_over(arg, id);
    return true;
}

static void read_leases(file_store *self)
{
    (void)fry_disk_names(&self->disk, self->disk.leases_fd, look_at_lease, self);
}

/* --- Reading and changing --- */

static ferry_status read_key(fry_local *local, const char *key, fry_store_entry *entry,
                             uint64_t *lease_p)
{
    file_store *self = (file_store *)local;
    fry_disk_key read;
    const ferry_status status =
        self->is_removed ? fry_disk_gone(&self->disk) : fry_disk_read(&self->disk, key, &read);

    *lease_p = status == FERRY_OK ? read.lease : 0;
    if (status != FERRY_OK)
        return status;
    *entry = read.entry;
    return key_is_over(self, read.lease) ? FERRY_E_NOT_FOUND : FERRY_OK;
}

static void sweep(fry_local *local, const char *key, uint64_t lease)
{
    fry_disk_sweep(&((file_store *)local)->disk, key, lease);
}

/* The open file of a lease that was made, kept in private_. */
static int fd_of(const fry_store_lease *lease)
{
    return (int)(intptr_t)lease->private_;
}

static const fry_store_lease *own_lease(const file_store *self, uint64_t id)
{
    const fry_store_lease *lease;

    LIST_FOREACH(lease, &self->local.base.leases, entry) {
        if (id != 0 && lease->id == id)
            return lease;
    }
    return NULL;
}

static ferry_status change(fry_local *local, const fry_store_request *request,
                           fry_store_entry *entry)
{
    file_store *self = (file_store *)local;
    const int64_t now_ns = fry_reactor_now_ns(local->base.reactor);
    const fry_store_lease *lease = own_lease(self, request->lease_id);
    const fry_store_lease *guard = own_lease(self, request->guard_id);
    fry_disk_key found = {.lease = 0};

    if (self->is_removed)
        return fry_disk_gone(&self->disk);
    if (request->lease_id != 0 && lease == NULL)
        return fry_disk_refused(&self->disk, FERRY_E_STORE, "the lease has ended");
    const fry_disk_change change = {
        .request = request,
        .lease_fd = lease != NULL ? fd_of(lease) : -1,
        .lease_left_ns = lease != NULL ? lease->ends_ns - now_ns : 0,
        .guard_fd = guard != NULL ? fd_of(guard) : -1,
        .guard_left_ns = guard != NULL ? guard->ends_ns - now_ns : 0,
        .is_over = lease_is_over,
        .arg = self,
    };
    const ferry_status status = fry_disk_change_key(&self->disk, &change, &found);
    *entry = found.entry;
    return status;
}

/* Whether nothing was put into the folder or taken out since `before`, by its time stamps. */
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
 * A name that is renamed over meanwhile may not be found at all: btrfs and tmpfs give it a new
 * place, perhaps one that was passed already.
 */
static ferry_status names(fry_local *local, fry_local_name_fn fn, void *arg, bool *is_settled_p)
{
    file_store *self = (file_store *)local;
    struct stat before = {0};

    if (self->is_removed)
        return fry_disk_gone(&self->disk);
    (void)fstat(self->disk.keys_fd, &before);
    const ferry_status status = fry_disk_names(&self->disk, self->disk.keys_fd, fn, arg);
    *is_settled_p = is_quiet(self, &before.st_mtim);
    return status == FERRY_OK && !fry_disk_is_whole(&self->disk) ? fry_disk_gone(&self->disk)
                                                                 : status;
}

/* --- Own leases --- */

static ferry_status lease_make(fry_local *local, fry_store_lease *lease)
{
    file_store *self = (file_store *)local;
    int fd = -1;

    if (self->is_removed)
        return fry_disk_gone(&self->disk);
    const ferry_status status =
        fry_disk_lease_make(&self->disk, lease->ttl_ns, lease->ends_ns, &lease->id, &fd);
    if (status == FERRY_OK)
        lease->private_ = (void *)(intptr_t)fd;
    return status;
}

/* If the folder is gone, the lease ends when it is known what has replaced it. */
static ferry_status lease_extend(fry_local *local, fry_store_lease *lease, int64_t ends_ns)
{
    file_store *self = (file_store *)local;

    if (!fry_disk_is_whole(&self->disk)) {
        fry_timer_set_soon(local->base.reactor, &local->turn);
        return fry_disk_gone(&self->disk);
    }
    return fry_reactor_now_ns(local->base.reactor) < lease->ends_ns
               ? fry_disk_lease_extend(&self->disk, fd_of(lease), ends_ns)
               : FERRY_E_NOT_FOUND;
}

static void lease_drop(fry_local *local, fry_store_lease *lease)
{
    file_store *self = (file_store *)local;

    fry_disk_lease_drop(&self->disk, lease->id);
    fry_disk_sweep_all(&self->disk, lease->id);
    (void)close(fd_of(lease));
}

/* --- inotify --- */

/* Whether the same name comes again soon: then the later event stands for this one. */
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
    /* A new lease: its end must be known. A closed one: most likely its holder died. */
    if (lease_is_over(self, id))
        return fry_local_look_at_keys_of(&self->local, id);
    /* The kernel tells of a close before it frees the locks. */
    if ((event->mask & IN_CLOSE_WRITE) != 0)
        look_again(self, id);
    return true;
}

/* False: it is no longer known what the folder has. */
static bool key_or_lease_event(file_store *self, const struct inotify_event *event)
{
    char key[FRY_STORE_KEY_BYTES + 1];

    if ((event->mask & IN_Q_OVERFLOW) != 0) {
        self->local.needs_scan = true;
        return true;
    }
    if ((event->mask & (IN_DELETE_SELF | IN_UNMOUNT | IN_IGNORED)) != 0)
        return false;
    if (event->len == 0)
        return true;
    if (event->wd == self->leases_watch)
        return lease_event(self, event);
    return !fry_disk_key_of_name(event->name, key) || fry_local_look(&self->local, key);
}

static bool follow(fry_local *local)
{
    file_store *self = (file_store *)local;
    char events[EVENT_BYTES] __attribute__((aligned(8)));
    const ssize_t bytes = read(self->events.fd, events, sizeof events);

    for (const char *at = events, *end = events + bytes; bytes > 0 && at < end;) {
        const struct inotify_event *event = (const struct inotify_event *)(const void *)at;

        at += sizeof *event + event->len;
        if (event->len > 0 && comes_again(at, end, event))
            continue;
        if (!key_or_lease_event(self, event)) {
            fry_local_lose(local);
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
    fry_poller_remove(self->local.base.reactor->poller, &self->events);
    (void)close(self->events.fd);
    self->events.fd = -1;
}

static void are_events(fry_watch *watch, uint32_t events)
{
    (void)events;
    fry_local_run(watch->arg);
}

static int add_watch(const file_store *self, int folder_fd, uint32_t mask)
{
    char path[64];

    /* Names the open folder, whatever has its name now. */
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", folder_fd);
    return inotify_add_watch(self->events.fd, path, mask);
}

/* Without inotify the folder is scanned now and then. */
static void start_inotify(file_store *self)
{
    int code;

    self->events.fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    code = errno;
    if (self->events.fd < 0)
        goto err_init;
    self->keys_watch = add_watch(self, self->disk.keys_fd, KEY_EVENTS);
    self->leases_watch = add_watch(self, self->disk.leases_fd, LEASE_EVENTS);
    if (self->keys_watch < 0 || self->leases_watch < 0)
        goto err_watch;
    if (fry_poller_add(self->local.base.reactor->poller, &self->events, EPOLLIN) != FERRY_OK)
        goto err_watch;
    return;

err_watch:
    code = errno;
    (void)close(self->events.fd);
    self->events.fd = -1;
err_init:
    if (!self->has_said_polls)
        fry_log_line(self->local.base.reactor->log, FERRY_LOG_WARNING,
                     "store %s: no inotify (%s), it is looked at twice a second",
                     self->local.base.name, strerror(code));
    self->has_said_polls = true;
}

/* Reads leases anew, too: the death of a holder may have been missed. */
static bool scan_starts(fry_local *local)
{
    file_store *self = (file_store *)local;

    if (self->events.fd < 0)
        start_inotify(self);
    read_leases(self);
    return self->events.fd >= 0;
}

static void follow_stop(fry_local *local)
{
    file_store *self = (file_store *)local;

    stop_inotify(self);
    forget_leases(self);
}

/* --- A folder that is gone --- */

static void lost(fry_local *local)
{
    file_store *self = (file_store *)local;
    const bool was_removed = self->is_removed;

    self->is_removed = was_removed || !fry_disk_is_whole(&self->disk);
    self->disk.is_gone = false; /* it is known now */
    if (!self->is_removed || was_removed)
        return;
    fry_log_line(local->base.reactor->log, FERRY_LOG_WARNING, "store %s: its folder is gone",
                 local->base.name);
    self->removed_ns = fry_reactor_now_ns(local->base.reactor);
    self->again_ns = self->removed_ns + FRY_LOCAL_POLL_NS;
}

/* If it is time, opens the folder that has the name now. False: the store has no folder. */
static bool take_again(file_store *self)
{
    fry_reactor *reactor = self->local.base.reactor;
    const int64_t now_ns = fry_reactor_now_ns(reactor);
    fry_disk fresh;
    fry_store_lease *lease;

    if (!self->is_removed)
        return true;
    if (now_ns < self->again_ns)
        return false;
    self->again_ns = now_ns + FRY_LOCAL_POLL_NS;
    if (fry_disk_open(&fresh, self->disk.memory, self->disk.path, reactor->clock->is_real,
                      now_ns - self->removed_ns >= MAKE_AFTER_NS) != FERRY_OK) {
        fry_store_set_trouble(&self->local.base, fresh.fault.message);
        return false;
    }
    fry_log_line(reactor->log, FERRY_LOG_WARNING, "store %s: its folder is there again",
                 self->local.base.name);
    fry_store_set_trouble(&self->local.base, NULL);
    stop_inotify(self);
    forget_leases(self);
    fry_disk_close(&self->disk);
    self->disk = fresh;
    self->is_removed = self->local.is_followed = false;
    fry_local_is_another(&self->local);
    FRY_STORE_EACH_LEASE(lease, &self->local.base) {
        if (lease->id == 0)
            continue;
        (void)close(fd_of(lease));
        lease->id = 0;
        fry_store_lease_gone(lease, FRY_LEASE_ENDED, "the store's folder was removed or moved");
    }
    return true;
}

/* --- Turns --- */

static bool begin(fry_local *local, bool is_look)
{
    file_store *self = (file_store *)local;

    if (!self->is_removed && !fry_disk_is_named(&self->disk))
        fry_local_lose(local);
    if (!take_again(self))
        return false;
    if (is_look)
        look_at_leases(self);
    return true;
}

static void end(fry_local *local)
{
    file_store *self = (file_store *)local;

    if (!self->is_removed && self->disk.is_gone)
        fry_local_lose(local);
    if (self->needs_sweep) {
        self->needs_sweep = false;
        fry_disk_sweep_all(&self->disk, 0);
    }
}

/* --- Stores --- */

static void close_store(fry_local *local)
{
    file_store *self = (file_store *)local;

    fry_disk_close(&self->disk);
    fry_free(local->base.reactor->memory, self, sizeof *self);
}

static const fry_local_ops backend = {
    .close = close_store,
    .begin = begin,
    .end = end,
    .read = read_key,
    .sweep = sweep,
    .change = change,
    .names = names,
    .lease_make = lease_make,
    .lease_extend = lease_extend,
    .lease_drop = lease_drop,
    .scan_starts = scan_starts,
    .follow = follow,
    .follow_stop = follow_stop,
    .next_ns = next_ns,
    .lost = lost,
};

ferry_status fry_file_open(fry_reactor *reactor, const char *uri, const fry_store_options *options,
                           fry_store **store_p, fry_error **error_p)
{
    const fry_memory *memory = reactor->memory;
    const char *folder = uri + strlen("file:");

    (void)options;
    if (*folder == '\0')
        return fry_store_error(memory, FERRY_E_INVALID, error_p, "file: is followed by a folder");
    file_store *self = fry_alloc(memory, sizeof *self, _Alignof(file_store));
    if (self == NULL)
        return fry_store_error(memory, FERRY_E_NO_MEMORY, error_p, "no memory for a store");
    const ferry_status status =
        fry_disk_open(&self->disk, memory, folder, reactor->clock->is_real, true);
    if (status != FERRY_OK) {
        *error_p = fry_error_create(memory, &self->disk.fault, NULL, "%s: %s", folder,
                                    self->disk.fault.message);
        fry_free(memory, self, sizeof *self);
        return status;
    }
    fry_local_init(&self->local, reactor, &backend);
    self->local.why = self->disk.fault.message;
    self->events = (fry_watch){.fd = -1, .fn = are_events, .arg = self};
    RB_INIT(&self->leases);
    /* Removes what the dead have left before anybody asks. */
    read_leases(self);
    fry_disk_tidy(&self->disk);
    forget_leases(self);
    fry_timer_stop(reactor, &self->local.turn);
    self->needs_sweep = false;
    *store_p = &self->local.base;
    return FERRY_OK;
}
