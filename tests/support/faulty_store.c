/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store's ops are replaced by these, which call the real ones. A request is on its way there,
 * with the real store, or on its way back; only then the real store knows it (what it may begin has
 * a private_ of NULL), and a lease that it names has to be granted still: it is refused else, as a
 * store would. A watch's function is replaced by one that may keep events until there is contact
 * again; a lease's renewal by one that asks the space itself.
 *
 * A store that was emptied has versions that begin anew: the space's go on, so what is told is less
 * by its revision at that moment, and what is asked for is more.
 */
#include "tests/support/faulty_store.h"

#include "net/store/mem.h"
#include "tests/support/faulty_space.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAULTY_MAX 256
#define WATCHES_MAX 64
#define LOST_AFTER_NS INT64_C(1000000000)

typedef enum way {
    WAY_THERE,
    WAY_IN, /* the real store has it */
    WAY_BACK,
} way;

typedef struct held {
    struct held *next, **link;
    faulty_store *faulty;
    fry_store_request *request;
    fry_store_done_fn done;
    void *arg;
    uint64_t version;
    way way;
    fry_timer timer;
    ferry_status status; /* WAY_BACK: the answer */
    fry_store_entry *entries;
    size_t count;
    char *why;
} held;

typedef struct event {
    struct event *next;
    fry_store_event kind;
    fry_store_entry entry; /* key NULL: none */
} event;

typedef struct known {
    struct known *next;
    bool is_there;
    uint64_t version;
    char key[FRY_STORE_KEY_BYTES + 1];
} known;

typedef struct watched {
    faulty_store *faulty;
    fry_store_watch *watch; /* NULL: free */
    fry_store_watch_fn fn;
    void *arg;
    bool is_told_lost;
    event *first, **last;
    known *known;   /* that it was told of */
    fry_timer news; /* of a slow store: when the first is told */
    int64_t due_ns;
} watched;

/* One lease at a time. */
typedef struct renewal {
    fry_store_lease *lease; /* NULL: none */
    fry_store_lease_fn fn;
    void *arg;
    int64_t asked_ns;
    way way;
    bool is_over, is_waiting; /* for contact */
    bool is_kept;             /* what is to be told of it when there is contact */
    fry_lease_event kept;
    char why[64];
} renewal;

struct faulty_store {
    fry_store *store;
    const fry_store_ops *real;
    faulty_counts counts;
    held *held;
    int64_t most_ns, way_ns;
    uint64_t random;
    uint64_t life; /* of the space's, that its watches were told of */
    bool is_lost, is_cut;
    fry_timer lost_timer;
    renewal renewal;
    watched watches[WATCHES_MAX];
};

static faulty_store *all[FAULTY_MAX];

static faulty_store *of(const fry_store *store)
{
    for (size_t i = 0; i < FAULTY_MAX; i++) {
        if (all[i] != NULL && all[i]->store == store)
            return all[i];
    }
    faulty_need(false, "a store that it does not know");
    return NULL;
}

static mem_store *mem_of(const faulty_store *faulty)
{
    return (mem_store *)faulty->store;
}

static uint64_t base_of(const faulty_store *faulty)
{
    return faulty_space_past(mem_of(faulty)->space)->base;
}

static bool has_contact(const faulty_store *faulty)
{
    return !faulty->is_lost && !faulty->is_cut;
}

static int64_t now_of(const faulty_store *faulty)
{
    return fry_reactor_now_ns(faulty->store->reactor);
}

/* ---- requests ---- */

static void free_answer(held *h)
{
    for (size_t i = 0; i < h->count; i++)
        faulty_entry_free(&h->entries[i]);
    free(h->entries);
    free(h->why);
}

static void unhold(held *h)
{
    *h->link = h->next;
    if (h->next != NULL)
        h->next->link = h->link;
    fry_timer_stop(h->faulty->store->reactor, &h->timer);
    free_answer(h);
    free(h);
}

static void tell_answer(held *h)
{
    fry_store_request *request = h->request;
    fry_store_entry *entries = h->entries;
    const size_t count = h->count;
    const ferry_status status = h->status;
    char *why = h->why;

    if (h->faulty->way_ns > 0)
        fry_store_answered_in(h->faulty->store, 2 * h->faulty->way_ns);
    h->entries = NULL;
    h->count = 0;
    h->why = NULL;
    if (fry_async_is_on(&request->async))
        fry_async_finish(&request->async);
    request->done = h->done;
    request->arg = h->arg;
    unhold(h);
    request->done(request, status, entries, count, why);
    held rest = {.entries = entries, .count = count, .why = why};
    free_answer(&rest);
}

static void keep_answer(held *h, ferry_status status, const fry_store_entry *entries, size_t count,
                        const char *why)
{
    const uint64_t base = base_of(h->faulty);

    h->status = status;
    h->count = count;
    h->why = why != NULL ? strdup(why) : NULL;
    h->entries = calloc(count + 1, sizeof *h->entries);
    faulty_need(h->entries != NULL, "no memory");
    for (size_t i = 0; i < count; i++) {
        h->entries[i] = faulty_entry_copy(&entries[i]);
        h->entries[i].version -= base;
    }
}

/* The real store's answer; it has taken the request off its list. */
static void is_done(fry_store_request *request, ferry_status status, const fry_store_entry *entries,
                    size_t count, const char *why)
{
    held *h = request->arg;
    faulty_store *faulty = h->faulty;

    request->version = h->version;
    keep_answer(h, status, entries, count, why);
    h->way = WAY_BACK;
    if (faulty->is_cut || faulty->way_ns > 0) {
        fry_async_begin(&request->async, &faulty->store->requests); /* it can be cancelled */
        request->private_ = h;
        if (!faulty->is_cut)
            fry_timer_set(faulty->store->reactor, &h->timer, now_of(faulty) + faulty->way_ns);
        return;
    }
    tell_answer(h);
}

static void give_on(held *h)
{
    faulty_store *faulty = h->faulty;
    fry_store_request *request = h->request;

    fry_timer_stop(faulty->store->reactor, &h->timer);
    h->way = WAY_IN;
    h->version = request->version;
    if (request->version != 0)
        request->version += base_of(faulty);
    request->private_ = NULL;
    /* The real store begins requests in the order in which they come. */
    TAILQ_REMOVE(&faulty->store->requests.asyncs, &request->async, entry);
    TAILQ_INSERT_TAIL(&faulty->store->requests.asyncs, &request->async, entry);
    faulty->real->submit(faulty->store, request);
}

static void hold_is_over(fry_timer *timer)
{
    held *h = timer->arg;

    if (h->way == WAY_BACK && !h->faulty->is_cut)
        tell_answer(h);
    else if (h->way == WAY_THERE && has_contact(h->faulty))
        give_on(h);
}

static void faulty_submit(fry_store *store, fry_store_request *request)
{
    faulty_store *faulty = of(store);
    int64_t delay_ns = faulty->way_ns;
    held *h = calloc(1, sizeof *h), **end = &faulty->held;

    faulty_need(h != NULL, "no memory");
    faulty->counts.verbs[request->verb]++;
    if (faulty->most_ns > 0) {
        faulty->random = faulty->random * UINT64_C(6364136223846793005) + 1442695040888963407U;
        delay_ns += (int64_t)((faulty->random >> 33) % (uint64_t)faulty->most_ns);
    }
    while (*end != NULL)
        end = &(*end)->next;
    *h = (held){.link = end,
                .faulty = faulty,
                .request = request,
                .done = request->done,
                .arg = request->arg,
                .way = WAY_THERE};
    *end = h;
    h->timer = (fry_timer){.fn = hold_is_over, .arg = h};
    request->done = is_done;
    request->arg = h;
    request->private_ = h;
    if (delay_ns > 0)
        fry_timer_set(store->reactor, &h->timer, now_of(faulty) + delay_ns);
    else if (has_contact(faulty))
        give_on(h);
}

/* What was asked of the real store may happen all the same. */
static void faulty_cancel(fry_store_request *request)
{
    faulty_store *faulty = of(request->store);
    held *h = request->arg;

    if (h->way == WAY_IN) {
        faulty->real->cancel(request);
        request->version = h->version;
    }
    request->done = h->done;
    request->arg = h->arg;
    unhold(h);
}

/* ---- watches ---- */

static void free_event(event *e)
{
    faulty_entry_free(&e->entry);
    free(e);
}

static void keep(watched *w, fry_store_event kind, const fry_store_entry *entry)
{
    event *e = calloc(1, sizeof *e);

    faulty_need(e != NULL, "no memory");
    e->kind = kind;
    if (entry != NULL)
        e->entry = faulty_entry_copy(entry);
    *w->last = e;
    w->last = &e->next;
}

static void drop_events(watched *w)
{
    while (w->first != NULL) {
        event *e = w->first;

        w->first = e->next;
        free_event(e);
    }
    w->last = &w->first;
}

static known *find_known(const watched *w, const char *key)
{
    known *k = w->known;

    while (k != NULL && strcmp(k->key, key) != 0)
        k = k->next;
    return k;
}

static void learn(watched *w, const fry_store_entry *entry, bool is_there)
{
    known *k = find_known(w, entry->key);

    if (k == NULL) {
        k = calloc(1, sizeof *k);
        faulty_need(k != NULL, "no memory");
        (void)snprintf(k->key, sizeof k->key, "%s", entry->key);
        k->next = w->known;
        w->known = k;
    }
    k->is_there = is_there;
    k->version = entry->version;
}

static void forget_known(watched *w)
{
    while (w->known != NULL) {
        known *next = w->known->next;

        free(w->known);
        w->known = next;
    }
}

/* As the real store or this one has it; entries have the versions that are told. */
static void pass_on(watched *w, fry_store_event kind, const fry_store_entry *entry)
{
    fry_store_watch *watch = w->watch;

    if (kind == FRY_STORE_IS_PUT || kind == FRY_STORE_IS_DELETED)
        learn(w, entry, kind == FRY_STORE_IS_PUT);
    if (kind == FRY_STORE_IS_LOST || kind == FRY_STORE_IS_HEALTHY)
        watch->is_lost = w->is_told_lost = kind == FRY_STORE_IS_LOST;
    watch->arg = w->arg;
    w->fn(watch, kind, entry);
    if (w->watch == watch)
        watch->arg = w;
}

/* What the real store has told of a store that is another by now may have been told anew. */
static void pass_on_news(watched *w, fry_store_event kind, const fry_store_entry *entry)
{
    const known *k = entry != NULL ? find_known(w, entry->key) : NULL;

    if (k != NULL &&
        (kind == FRY_STORE_IS_PUT ? k->is_there && k->version == entry->version : !k->is_there))
        return;
    pass_on(w, kind, entry);
}

static void replay(watched *w)
{
    while (w->watch != NULL && w->first != NULL) {
        event *e = w->first;

        w->first = e->next;
        if (w->first == NULL)
            w->last = &w->first;
        pass_on_news(w, e->kind, e->entry.key != NULL ? &e->entry : NULL);
        free_event(e);
    }
}

static void news_are_due(fry_timer *timer)
{
    watched *w = timer->arg;

    if (has_contact(w->faulty))
        replay(w);
}

static void told(fry_store_watch *watch, fry_store_event kind, const fry_store_entry *entry)
{
    watched *w = watch->arg;
    faulty_store *faulty = w->faulty;
    fry_store_entry translated = {0};

    faulty->counts.events += kind == FRY_STORE_IS_PUT || kind == FRY_STORE_IS_DELETED;
    if (entry != NULL) {
        translated = *entry;
        translated.version -= base_of(faulty);
        entry = &translated;
    }
    if (!has_contact(faulty)) {
        keep(w, kind, entry);
    } else if (faulty->way_ns > 0) {
        keep(w, kind, entry);
        fry_timer_set(faulty->store->reactor, &w->news, now_of(faulty) + faulty->way_ns);
    } else {
        pass_on_news(w, kind, entry);
    }
}

static void begin_watched(faulty_store *faulty, watched *w, fry_store_watch *watch)
{
    *w = (watched){.faulty = faulty, .watch = watch, .fn = watch->fn, .arg = watch->arg};
    w->last = &w->first;
    w->news = (fry_timer){.fn = news_are_due, .arg = w};
    watch->fn = told;
    watch->arg = w;
}

static void end_watched(watched *w)
{
    fry_timer_stop(w->faulty->store->reactor, &w->news);
    w->watch->fn = w->fn;
    w->watch->arg = w->arg;
    w->watch = NULL;
    drop_events(w);
    forget_known(w);
}

static void faulty_watch_start(fry_store *store, fry_store_watch *watch)
{
    faulty_store *faulty = of(store);
    watched *w = NULL;

    faulty->counts.watches++;
    for (size_t i = 0; i < WATCHES_MAX && w == NULL; i++) {
        if (faulty->watches[i].watch == NULL)
            w = &faulty->watches[i];
    }
    faulty_need(w != NULL, "too many watches");
    begin_watched(faulty, w, watch);
    faulty->real->watch_start(store, watch);
}

static void faulty_watch_stop(fry_store_watch *watch)
{
    faulty_store *faulty = of(watch->store);

    for (size_t i = 0; i < WATCHES_MAX; i++) {
        if (faulty->watches[i].watch == watch)
            end_watched(&faulty->watches[i]);
    }
    faulty->real->watch_stop(watch);
}

/* The record behind this one, which is released; NULL: the first, and none. */
static mem_record *next_of(const mem_store *mem, mem_record *item)
{
    (void)pthread_mutex_lock(&fry_space_lock);
    mem_record *next = fry_space_next(mem->space, item != NULL ? item->key : "");
    (void)pthread_mutex_unlock(&fry_space_lock);
    fry_mem_release(item);
    return next;
}

/* What is there is told anew, and what was told and is not there, to be gone. */
static void tell_another(watched *w)
{
    mem_store *mem = mem_of(w->faulty);
    const uint64_t base = base_of(w->faulty);
    fry_store_watch *watch = w->watch;
    bool is_listed = false;

    for (const event *e = w->first; e != NULL; e = e->next)
        is_listed |= e->kind == FRY_STORE_IS_LISTED;
    drop_events(w);
    for (known *k = w->known; k != NULL; k = k->next)
        k->is_there = false;
    pass_on(w, FRY_STORE_IS_ANOTHER, NULL);
    for (mem_record *item = next_of(mem, NULL); item != NULL; item = next_of(mem, item)) {
        fry_store_entry entry = fry_mem_entry(item);

        entry.version -= base;
        if (w->watch == watch && strncmp(entry.key, watch->prefix, strlen(watch->prefix)) == 0)
            pass_on(w, FRY_STORE_IS_PUT, &entry);
    }
    for (known *k = w->known; w->watch == watch && k != NULL; k = k->next) {
        const fry_store_entry entry = {.key = k->key};

        if (!k->is_there)
            pass_on(w, FRY_STORE_IS_DELETED, &entry);
    }
    if (w->watch == watch && is_listed)
        pass_on(w, FRY_STORE_IS_LISTED, NULL);
}

static void tell_all(faulty_store *faulty, fry_store_event kind)
{
    for (size_t i = 0; i < WATCHES_MAX; i++) {
        watched *w = &faulty->watches[i];

        if (w->watch != NULL && w->is_told_lost != (kind == FRY_STORE_IS_LOST))
            pass_on(w, kind, NULL);
    }
}

static void lost_is_due(fry_timer *timer)
{
    tell_all(timer->arg, FRY_STORE_IS_LOST);
}

/* ---- leases ---- */

static void renewal_goes_on(faulty_store *faulty)
{
    renewal *r = &faulty->renewal;
    fry_store_lease *lease = r->lease;
    mem_lease *held = lease->private_;

    if (r->way == WAY_THERE) {
        (void)pthread_mutex_lock(&fry_space_lock);
        fry_space_expire(mem_of(faulty)->space, NULL);
        r->is_over = held->has_ended;
        if (!r->is_over)
            held->ends_ns = now_of(faulty) + lease->ttl_ns;
        (void)pthread_mutex_unlock(&fry_space_lock);
        r->way = WAY_BACK;
        fry_timer_set(faulty->store->reactor, &lease->timer, now_of(faulty) + faulty->way_ns);
        return;
    }
    r->way = WAY_IN;
    if (r->is_over) {
        fry_mem_signal(mem_of(faulty)); /* it tells that it has ended */
        return;
    }
    if (faulty->way_ns > 0)
        fry_store_answered_in(faulty->store, 2 * faulty->way_ns);
    lease->ends_ns = r->asked_ns + lease->ttl_ns;
    fry_store_lease_renewed(lease, r->asked_ns);
    fry_timer_set(faulty->store->reactor, &lease->timer, r->asked_ns + lease->ttl_ns / 3);
}

static void renewal_is_due(fry_timer *timer)
{
    fry_store_lease *lease = timer->arg;
    faulty_store *faulty = of(lease->store);
    renewal *r = &faulty->renewal;

    if (r->way == WAY_IN) { /* at rest: the next begins */
        r->way = WAY_THERE;
        r->asked_ns = now_of(faulty);
        fry_store_lease_asks(lease);
        if (faulty->way_ns > 0) {
            fry_timer_set(faulty->store->reactor, timer, r->asked_ns + faulty->way_ns);
            return;
        }
    }
    r->is_waiting = faulty->is_cut;
    if (!faulty->is_cut)
        renewal_goes_on(faulty);
}

/* Its timer is this one's from now on. */
static void adopt_lease(faulty_store *faulty, fry_store_lease *lease)
{
    lease->timer.fn = renewal_is_due;
    faulty->renewal.way = WAY_IN;
    fry_timer_set(faulty->store->reactor, &lease->timer,
                  lease->ends_ns - lease->ttl_ns + lease->ttl_ns / 3);
}

static void lease_told(fry_store_lease *lease, fry_lease_event kind, const char *why)
{
    faulty_store *faulty = of(lease->store);
    renewal *r = &faulty->renewal;

    r->is_kept = faulty->is_cut;
    if (r->is_kept) {
        r->kept = kind;
        (void)snprintf(r->why, sizeof r->why, "%s", why != NULL ? why : "");
        fry_timer_stop(faulty->store->reactor, &lease->timer);
        lease->is_granted = false; /* as far as its holder knows */
        return;
    }
    if (kind == FRY_LEASE_GRANTED)
        lease->is_granted = true;
    lease->fn = r->fn;
    lease->arg = r->arg;
    if (kind == FRY_LEASE_GRANTED) {
        if (faulty->way_ns > 0)
            fry_store_answered_in(faulty->store, 2 * faulty->way_ns);
        adopt_lease(faulty, lease);
        lease->fn(lease, kind, why);
        if (r->lease == lease && lease->is_on) {
            lease->fn = lease_told;
            lease->arg = NULL;
        }
        return;
    }
    r->lease = NULL;
    lease->fn(lease, kind, why);
}

static void begin_lease(faulty_store *faulty, fry_store_lease *lease)
{
    faulty_need(faulty->renewal.lease == NULL, "a second lease");
    faulty->renewal = (renewal){.lease = lease, .fn = lease->fn, .arg = lease->arg, .way = WAY_IN};
    lease->fn = lease_told;
}

static void faulty_lease_open(fry_store *store, fry_store_lease *lease)
{
    faulty_store *faulty = of(store);

    faulty->counts.leases++;
    begin_lease(faulty, lease);
    faulty->real->lease_open(store, lease);
}

static void faulty_lease_close(fry_store_lease *lease)
{
    faulty_store *faulty = of(lease->store);

    lease->fn = faulty->renewal.fn;
    lease->arg = faulty->renewal.arg;
    faulty->renewal.lease = NULL;
    faulty->real->lease_close(lease);
}

/* ---- contact ---- */

static void go_on_with_requests(faulty_store *faulty)
{
    held *next = NULL;

    for (held *h = faulty->held; h != NULL; h = next) {
        next = h->next;
        if (h->timer.is_on)
            continue;
        if (h->way == WAY_THERE)
            give_on(h);
        else if (h->way == WAY_BACK) /* not from within this call */
            fry_timer_set(faulty->store->reactor, &h->timer, 0);
    }
}

static void go_on_with_watches(faulty_store *faulty)
{
    const uint64_t lives = faulty_space_past(mem_of(faulty)->space)->lives;
    const bool is_another = faulty->life != lives;

    faulty->life = lives;
    for (size_t i = 0; i < WATCHES_MAX; i++) {
        watched *w = &faulty->watches[i];

        if (w->watch != NULL && is_another)
            tell_another(w);
        replay(w);
    }
    tell_all(faulty, FRY_STORE_IS_HEALTHY);
}

void faulty_store_lose(faulty_store *faulty, bool is_lost)
{
    if (faulty->is_lost == is_lost)
        return;
    faulty->is_lost = is_lost;
    if (is_lost) {
        tell_all(faulty, FRY_STORE_IS_LOST);
    } else if (!faulty->is_cut) {
        go_on_with_requests(faulty);
        go_on_with_watches(faulty);
    }
}

void faulty_store_cut(faulty_store *faulty, bool is_cut)
{
    fry_reactor *reactor = faulty->store->reactor;
    renewal *r = &faulty->renewal;

    if (faulty->is_cut == is_cut)
        return;
    faulty->is_cut = is_cut;
    if (is_cut) {
        fry_timer_set(reactor, &faulty->lost_timer, now_of(faulty) + LOST_AFTER_NS);
        return;
    }
    fry_timer_stop(reactor, &faulty->lost_timer);
    if (r->lease != NULL && r->is_waiting && r->lease->is_on)
        fry_timer_set(reactor, &r->lease->timer, 0);
    r->is_waiting = false;
    if (r->lease != NULL && r->is_kept)
        lease_told(r->lease, r->kept, r->why);
    if (faulty->is_lost)
        return;
    go_on_with_requests(faulty);
    go_on_with_watches(faulty);
}

/* ---- putting it in and out ---- */

static void faulty_close(fry_store *store)
{
    faulty_store *faulty = of(store);
    const fry_store_ops *real = faulty->real;

    if (faulty->renewal.is_kept) /* it is off, and its holder gone */
        faulty->renewal.lease = NULL;
    faulty_store_remove(faulty);
    real->close(store);
}

static const fry_store_ops faulty_ops = {.close = faulty_close,
                                         .submit = faulty_submit,
                                         .cancel = faulty_cancel,
                                         .watch_start = faulty_watch_start,
                                         .watch_stop = faulty_watch_stop,
                                         .lease_open = faulty_lease_open,
                                         .lease_close = faulty_lease_close};

faulty_store *faulty_store_put(fry_store *store)
{
    faulty_store *faulty = calloc(1, sizeof *faulty);
    size_t at = 0, count = 0;
    fry_store_watch *watch;
    fry_store_lease *lease;

    faulty_need(faulty != NULL, "no memory");
    while (at < FAULTY_MAX && all[at] != NULL)
        at++;
    faulty_need(at < FAULTY_MAX, "too many of them");
    all[at] = faulty;
    faulty->store = store;
    faulty->real = store->ops;
    faulty->lost_timer = (fry_timer){.fn = lost_is_due, .arg = faulty};
    faulty->life = faulty_space_past(mem_of(faulty)->space)->lives;
    store->ops = &faulty_ops;
    faulty_need(TAILQ_EMPTY(&store->requests.asyncs), "it is put in before anything is asked");
    LIST_FOREACH(watch, &store->watches, entry)
        begin_watched(faulty, &faulty->watches[count++], watch);
    LIST_FOREACH(lease, &store->leases, entry)
        begin_lease(faulty, lease);
    return faulty;
}

void faulty_store_remove(faulty_store *faulty)
{
    fry_timer_stop(faulty->store->reactor, &faulty->lost_timer);
    faulty_need(faulty->held == NULL && faulty->renewal.lease == NULL, "something is still on");
    for (size_t i = 0; i < WATCHES_MAX; i++)
        faulty_need(faulty->watches[i].watch == NULL, "a watch is still on");
    faulty->store->ops = faulty->real;
    for (size_t i = 0; i < FAULTY_MAX; i++) {
        if (all[i] == faulty)
            all[i] = NULL;
    }
    free(faulty);
}

const faulty_counts *faulty_store_counts(const faulty_store *faulty)
{
    return &faulty->counts;
}

size_t faulty_store_requests(const faulty_store *faulty)
{
    size_t count = 0;

    for (size_t verb = 0; verb <= FRY_STORE_LIST; verb++)
        count += faulty->counts.verbs[verb];
    return count;
}

void faulty_store_delay(faulty_store *faulty, int64_t most_ns, uint64_t seed)
{
    faulty->most_ns = most_ns;
    faulty->random = seed;
}

void faulty_store_slow(faulty_store *faulty, int64_t way_ns)
{
    faulty->way_ns = way_ns;
}
