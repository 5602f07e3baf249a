/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store's ops are replaced by these, which call the real ones. A request that is held back is
 * in a list of its own, and the real store does not know it (a lease that it names has to be
 * granted still when it is given on: it is refused else, as a store would); a watch's function is
 * replaced by one that may keep events until there is contact again.
 */
#include "tests/support/faulty_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAULTY_MAX 256
#define WATCHES_MAX 64

typedef struct held {
    struct held *next, **link;
    faulty_store *faulty;
    fry_store_request *request;
    fry_timer timer;
} held;

typedef struct event {
    struct event *next;
    fry_store_event kind;
    fry_store_entry entry;
    char *key, *value;
} event;

typedef struct watched {
    faulty_store *faulty;
    fry_store_watch *watch; /* NULL: free */
    fry_store_watch_fn fn;
    void *arg;
    event *first, **last;
} watched;

struct faulty_store {
    fry_store *store;
    const fry_store_ops *real;
    faulty_counts counts;
    held *held;
    int64_t most_ns;
    uint64_t random;
    bool is_lost;
    watched watches[WATCHES_MAX];
};

static faulty_store *all[FAULTY_MAX];

static void need(bool is_so, const char *what)
{
    if (is_so)
        return;
    (void)fprintf(stderr, "faulty_store: %s\n", what);
    abort();
}

static faulty_store *of(const fry_store *store)
{
    for (size_t i = 0; i < FAULTY_MAX; i++) {
        if (all[i] != NULL && all[i]->store == store)
            return all[i];
    }
    need(false, "a store that it does not know");
    return NULL;
}

static void unhold(held *h)
{
    *h->link = h->next;
    if (h->next != NULL)
        h->next->link = h->link;
    fry_timer_stop(h->faulty->store->reactor, &h->timer);
    free(h);
}

/* The real store finds its requests in the store's list: one that is held back is not in it. */
static void unlink_request(fry_store_request *request)
{
    fry_store *store = request->store;

    if (request->previous != NULL)
        request->previous->next = request->next;
    else
        store->requests = request->next;
    if (request->next != NULL)
        request->next->previous = request->previous;
    else
        store->last_request = request->previous;
    request->next = request->previous = NULL;
}

static void link_request(fry_store_request *request)
{
    fry_store *store = request->store;

    request->next = NULL;
    request->previous = store->last_request;
    if (store->last_request != NULL)
        store->last_request->next = request;
    else
        store->requests = request;
    store->last_request = request;
}

static void give_on(held *h)
{
    faulty_store *faulty = h->faulty;
    fry_store_request *request = h->request;

    unhold(h);
    link_request(request);
    faulty->real->submit(faulty->store, request);
}

static void hold_is_over(fry_timer *timer)
{
    held *h = timer->arg;

    if (!h->faulty->is_lost)
        give_on(h);
}

static void hold(faulty_store *faulty, fry_store_request *request, int64_t ns)
{
    held *h = calloc(1, sizeof *h);
    held **end = &faulty->held;

    need(h != NULL, "no memory");
    unlink_request(request);
    while (*end != NULL)
        end = &(*end)->next;
    *h = (held){.link = end, .faulty = faulty, .request = request};
    *end = h;
    h->timer = (fry_timer){.fn = hold_is_over, .arg = h};
    if (ns > 0)
        fry_timer_set(faulty->store->reactor, &h->timer,
                      fry_reactor_now_ns(faulty->store->reactor) + ns);
}

static void faulty_submit(fry_store *store, fry_store_request *request)
{
    faulty_store *faulty = of(store);
    int64_t delay_ns = 0;

    faulty->counts.verbs[request->verb]++;
    if (faulty->most_ns > 0) {
        faulty->random = faulty->random * UINT64_C(6364136223846793005) + 1442695040888963407U;
        delay_ns = (int64_t)((faulty->random >> 33) % (uint64_t)faulty->most_ns);
    }
    if (faulty->is_lost || delay_ns > 0)
        hold(faulty, request, delay_ns);
    else
        faulty->real->submit(store, request);
}

static void faulty_cancel(fry_store_request *request)
{
    faulty_store *faulty = of(request->store);

    for (held *h = faulty->held; h != NULL; h = h->next) {
        if (h->request == request) {
            unhold(h);
            link_request(request);
            return;
        }
    }
    faulty->real->cancel(request);
}

/* ---- watches ---- */

static void free_event(event *e)
{
    free(e->key);
    free(e->value);
    free(e);
}

static void keep(watched *w, fry_store_event kind, const fry_store_entry *entry)
{
    event *e = calloc(1, sizeof *e);

    need(e != NULL, "no memory");
    e->kind = kind;
    if (entry != NULL) {
        e->entry = *entry;
        e->key = strdup(entry->key);
        e->value = calloc(1, entry->value_bytes + 1);
        need(e->key != NULL && e->value != NULL, "no memory");
        if (entry->value != NULL)
            memcpy(e->value, entry->value, entry->value_bytes);
        e->entry.key = e->key;
        e->entry.value = e->value;
    }
    *w->last = e;
    w->last = &e->next;
}

static void told(fry_store_watch *watch, fry_store_event kind, const fry_store_entry *entry)
{
    watched *w = watch->arg;

    w->faulty->counts.events += kind == FRY_STORE_IS_PUT || kind == FRY_STORE_IS_DELETED;
    if (w->faulty->is_lost) {
        keep(w, kind, entry);
        return;
    }
    watch->arg = w->arg;
    w->fn(watch, kind, entry);
    if (w->watch == watch)
        watch->arg = w;
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
    need(w != NULL, "too many watches");
    *w = (watched){.faulty = faulty, .watch = watch, .fn = watch->fn, .arg = watch->arg};
    w->last = &w->first;
    watch->fn = told;
    watch->arg = w;
    faulty->real->watch_start(store, watch);
}

static void faulty_watch_stop(fry_store_watch *watch)
{
    faulty_store *faulty = of(watch->store);

    for (size_t i = 0; i < WATCHES_MAX; i++) {
        watched *w = &faulty->watches[i];

        if (w->watch != watch)
            continue;
        watch->fn = w->fn;
        watch->arg = w->arg;
        w->watch = NULL;
        while (w->first != NULL) {
            event *e = w->first;

            w->first = e->next;
            free_event(e);
        }
    }
    faulty->real->watch_stop(watch);
}

static void faulty_lease_open(fry_store *store, fry_store_lease *lease)
{
    faulty_store *faulty = of(store);

    faulty->counts.leases++;
    faulty->real->lease_open(store, lease);
}

static void faulty_lease_close(fry_store_lease *lease)
{
    of(lease->store)->real->lease_close(lease);
}

static void faulty_close(fry_store *store)
{
    faulty_store *faulty = of(store);
    const fry_store_ops *real = faulty->real;

    faulty_store_remove(faulty);
    real->close(store);
}

static const fry_store_ops faulty_ops = {.scheme = "faulty:",
                                         .close = faulty_close,
                                         .submit = faulty_submit,
                                         .cancel = faulty_cancel,
                                         .watch_start = faulty_watch_start,
                                         .watch_stop = faulty_watch_stop,
                                         .lease_open = faulty_lease_open,
                                         .lease_close = faulty_lease_close};

faulty_store *faulty_store_put(fry_store *store)
{
    faulty_store *faulty = calloc(1, sizeof *faulty);
    size_t at = 0;

    need(faulty != NULL, "no memory");
    while (at < FAULTY_MAX && all[at] != NULL)
        at++;
    need(at < FAULTY_MAX, "too many of them");
    all[at] = faulty;
    faulty->store = store;
    faulty->real = store->ops;
    store->ops = &faulty_ops;
    for (fry_store_watch *watch = store->watches; watch != NULL; watch = watch->next) {
        watched *w = faulty->watches;

        while (w->watch != NULL)
            w++;
        *w = (watched){.faulty = faulty, .watch = watch, .fn = watch->fn, .arg = watch->arg};
        w->last = &w->first;
        watch->fn = told;
        watch->arg = w;
    }
    return faulty;
}

void faulty_store_remove(faulty_store *faulty)
{
    faulty_store_lose(faulty, false);
    while (faulty->held != NULL)
        give_on(faulty->held);
    for (size_t i = 0; i < WATCHES_MAX; i++) {
        watched *w = &faulty->watches[i];

        if (w->watch != NULL) {
            w->watch->fn = w->fn;
            w->watch->arg = w->arg;
        }
    }
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

static void replay(watched *w)
{
    while (w->watch != NULL && w->first != NULL) {
        event *e = w->first;

        w->first = e->next;
        if (w->first == NULL)
            w->last = &w->first;
        told(w->watch, e->kind, e->key != NULL ? &e->entry : NULL);
        free_event(e);
    }
}

void faulty_store_lose(faulty_store *faulty, bool is_lost)
{
    held *next = NULL;

    if (faulty->is_lost == is_lost)
        return;
    if (is_lost) {
        for (size_t i = 0; i < WATCHES_MAX; i++) {
            if (faulty->watches[i].watch != NULL)
                told(faulty->watches[i].watch, FRY_STORE_IS_LOST, NULL);
        }
        faulty->is_lost = true;
        return;
    }
    faulty->is_lost = false;
    for (held *h = faulty->held; h != NULL; h = next) {
        next = h->next;
        give_on(h);
    }
    for (size_t i = 0; i < WATCHES_MAX; i++) {
        replay(&faulty->watches[i]);
        if (faulty->watches[i].watch != NULL)
            told(faulty->watches[i].watch, FRY_STORE_IS_HEALTHY, NULL);
    }
}
