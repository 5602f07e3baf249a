/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all stores share: checks of requests, lists of what is on, and the rules of calling back.
 */
#include "net/store/store.h"

#include "net/reactor.h"

#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

ferry_status fry_store_error(const fry_memory *memory, ferry_status status, fry_error **error_p,
                             const char *format, ...)
{
    const fry_fault fault = {.status = status, .rank = -1};
    char text[FRY_ERROR_MESSAGE_BYTES];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    *error_p = fry_error_create(memory, &fault, NULL, "%s", text);
    return status;
}

const char *fry_store_name(const fry_store *store)
{
    return store->name;
}

const char *fry_store_trouble(const fry_store *store)
{
    return store->trouble[0] != '\0' ? store->trouble : NULL;
}

void fry_store_set_trouble(fry_store *store, const char *why)
{
    (void)snprintf(store->trouble, sizeof store->trouble, "%s", why != NULL ? why : "");
}

uint64_t fry_store_hash(const void *bytes, size_t count)
{
    static const unsigned char key[crypto_shorthash_KEYBYTES] = "ferry's store v1";
    uint64_t hash;

    _Static_assert(crypto_shorthash_BYTES == sizeof hash, "SipHash-2-4");
    (void)crypto_shorthash((unsigned char *)&hash, bytes, count, key);
    return hash;
}

static bool is_key_byte(char byte)
{
    return (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') ||
           (byte >= '0' && byte <= '9') || byte == '.' || byte == '_' || byte == '-';
}

bool fry_store_is_key(const char *key)
{
    size_t bytes = 0, part_bytes = 0, dots = 0;

    if (key == NULL)
        return false;
    for (;; bytes++) {
        const char byte = key[bytes];

        if (bytes > FRY_STORE_KEY_BYTES)
            return false;
        if (byte == '/' || byte == '\0') {
            if (part_bytes == dots) /* also if the part is empty */
                return false;
            if (byte == '\0')
                return true;
            part_bytes = dots = 0;
            continue;
        }
        if (!is_key_byte(byte))
            return false;
        part_bytes++;
        dots += byte == '.';
    }
}

/* Says why a request is invalid; NULL: it is valid. */
static const char *fault_of(const fry_store *store, const fry_store_request *request)
{
    const fry_store_lease *lease = request->lease;

    switch (request->verb) {
    case FRY_STORE_LIST:
        if (request->key != NULL &&
            strnlen(request->key, FRY_STORE_KEY_BYTES + 1) > FRY_STORE_KEY_BYTES)
            return "the prefix is too long";
        return NULL;
    case FRY_STORE_SWAP:
        if (request->version == 0)
            return "no version is 0";
        break;
    case FRY_STORE_GET:
    case FRY_STORE_PUT:
    case FRY_STORE_CREATE:
    case FRY_STORE_DELETE:
        break;
    default:
        return "there is no such verb";
    }
    if (!fry_store_is_key(request->key))
        return "the key is too long, or has bytes or parts that keys don't have";
    if (request->verb == FRY_STORE_GET || request->verb == FRY_STORE_DELETE)
        return NULL;
    if (request->value_bytes > FRY_STORE_VALUE_BYTES)
        return "the value is too long";
    if (request->value == NULL && request->value_bytes > 0)
        return "there is no value";
    if (lease != NULL && (!lease->is_granted || lease->store != store))
        return "the lease is not granted, or is over";
    if (request->guard_key == NULL)
        return NULL;
    if (request->verb == FRY_STORE_PUT || !fry_store_is_key(request->guard_key))
        return "a guard is a key, and not of this verb";
    lease = request->guard_lease;
    if (lease == NULL || !lease->is_granted || lease->store != store)
        return "the guard's lease is not granted, or is over";
    return NULL;
}

fry_store_request *fry_store_next_request(const fry_store *store)
{
    fry_async *async;

    TAILQ_FOREACH(async, &store->requests.asyncs, entry) {
        fry_store_request *request = (fry_store_request *)(void *)async;

        if (async->state == FRY_ASYNC_UNDER_WAY && request->private_ == NULL)
            return request;
    }
    return NULL;
}

void fry_store_finish(fry_store_request *request, ferry_status status,
                      const fry_store_entry *entries, size_t count, const char *why)
{
    fry_async_finish(&request->async);
    request->done(request, status, entries, count, why);
}

static void is_late(fry_async *async)
{
    fry_async_abort(async, FERRY_E_DEADLINE, "the store did not answer in time");
}

static void drop(fry_async *async)
{
    fry_store_request *request = (fry_store_request *)(void *)async;

    request->store->ops->cancel(request);
}

static void tell(fry_async *async, ferry_status verdict, const char *why)
{
    fry_store_request *request = (fry_store_request *)(void *)async;

    request->done(request, verdict, NULL, 0, why);
}

void fry_store_submit(fry_store *store, fry_store_request *request)
{
    const char *fault = fault_of(store, request);

    request->store = store;
    request->private_ = NULL;
    request->lease_id = fault == NULL && request->lease != NULL ? request->lease->id : 0;
    request->guard_id = fault == NULL && request->guard_key != NULL ? request->guard_lease->id : 0;
    fry_async_begin(&request->async, &store->requests);
    if (fault != NULL) {
        fry_async_finish_soon(&request->async, FERRY_E_INVALID, fault);
        return;
    }
    if (request->deadline_ns != 0 && request->deadline_ns <= fry_reactor_now_ns(store->reactor)) {
        fry_async_finish_soon(&request->async, FERRY_E_DEADLINE,
                              "the deadline was over at the start");
        return;
    }
    fry_async_set_deadline(&request->async, request->deadline_ns);
    store->ops->submit(store, request);
}

void fry_store_cancel(fry_store_request *request)
{
    fry_async_cancel(&request->async);
}

/* --- Watches --- */

void fry_store_watch_start(fry_store *store, fry_store_watch *watch)
{
    watch->store = store;
    LIST_INSERT_HEAD(&store->watches, watch, entry);
    watch->is_on = true;
    watch->is_lost = watch->is_listed = false;
    watch->private_ = NULL;
    watch->private_state = 0;
    store->ops->watch_start(store, watch);
}

void fry_store_watch_stop(fry_store_watch *watch)
{
    fry_store *store = watch->store;

    if (!watch->is_on)
        return;
    watch->is_on = false;
    if (store->next_watch == watch)
        store->next_watch = LIST_NEXT(watch, entry);
    LIST_REMOVE(watch, entry);
    if (store->told_watch == watch)
        store->told_watch = NULL;
    store->ops->watch_stop(watch);
}

/* Notes an event. Returns whether it is news. */
static bool notes_event(fry_store_watch *watch, fry_store_event event)
{
    const bool was_lost = watch->is_lost, was_listed = watch->is_listed;

    switch (event) {
    case FRY_STORE_IS_LISTED:
        watch->is_listed = true;
        return !was_listed;
    case FRY_STORE_IS_LOST:
        watch->is_lost = true;
        return !was_lost;
    case FRY_STORE_IS_HEALTHY:
        watch->is_lost = false;
        return was_lost;
    case FRY_STORE_IS_PUT:
    case FRY_STORE_IS_DELETED:
    case FRY_STORE_IS_ANOTHER:
        break;
    }
    return true;
}

bool fry_store_tell(fry_store_watch *watch, fry_store_event event, const fry_store_entry *entry)
{
    fry_store *store = watch->store;

    store->told_watch = watch;
    if (notes_event(watch, event))
        watch->fn(watch, event, entry);
    return store->told_watch == watch;
}

/* --- Leases --- */

static void take_lease_off(fry_store_lease *lease)
{
    fry_store *store = lease->store;

    fry_timer_stop(store->reactor, &lease->timer);
    fry_timer_stop(store->reactor, &lease->late_timer);
    if (store->next_lease == lease)
        store->next_lease = LIST_NEXT(lease, entry);
    LIST_REMOVE(lease, entry);
    lease->is_on = lease->is_granted = false;
}

void fry_store_lease_gone(fry_store_lease *lease, fry_lease_event event, const char *why)
{
    if (fry_async_is_on(&lease->grant))
        fry_async_finish(&lease->grant);
    take_lease_off(lease);
    lease->fn(lease, event, why);
}

static void grant_is_late(fry_async *grant)
{
    fry_async_abort(grant, FERRY_E_DEADLINE, "the store did not grant it in time");
}

static void drop_grant(fry_async *grant)
{
    fry_store_lease *lease = (fry_store_lease *)(void *)grant;

    lease->store->ops->lease_close(lease);
}

static void tell_refusal(fry_async *grant, ferry_status verdict, const char *why)
{
    (void)verdict;
    fry_store_lease_gone((fry_store_lease *)(void *)grant, FRY_LEASE_REFUSED, why);
}

void fry_store_lease_granted(fry_store_lease *lease)
{
    fry_async_finish(&lease->grant);
    lease->is_granted = true;
    lease->renewed_ns = lease->steady_ns = lease->there_ns =
        fry_reactor_now_ns(lease->store->reactor);
    lease->fn(lease, FRY_LEASE_GRANTED, NULL);
}

/* --- What a lease's renewals say of the store --- */

static int64_t too_long_ns(const fry_store_lease *lease)
{
    return lease->ttl_ns / FRY_STORE_ROUND_TRIPS_PER_LEASE;
}

/* Logs a slow renewal, before the lease runs out; again only after a quick renewal. */
static void say_slow(fry_store_lease *lease)
{
    const int64_t took_ns = fry_reactor_now_ns(lease->store->reactor) - lease->asked_ns;

    if (lease->is_slow)
        return;
    lease->is_slow = true;
    fry_log_line(lease->store->reactor->log, FERRY_LOG_WARNING,
                 "store: %s is slow: the renewal of a lease of %.1f s was not answered in %.1f s. "
                 "One that answers in more than a quarter of a lease loses it sooner or later: "
                 "set lease_ns to four times of what it takes, or more",
                 lease->store->name, (double)lease->ttl_ns / 1e9, (double)took_ns / 1e9);
}

static void late_is_due(fry_timer *timer)
{
    say_slow(timer->arg);
}

void fry_store_lease_asks(fry_store_lease *lease)
{
    const int64_t now_ns = fry_reactor_now_ns(lease->store->reactor);

    if (lease->asked_ns == 0)
        lease->asked_ns = now_ns;
    if (!lease->is_slow && !lease->late_timer.is_on)
        fry_timer_set(lease->store->reactor, &lease->late_timer, now_ns + too_long_ns(lease));
}

void fry_store_lease_not_renewed(fry_store_lease *lease)
{
    fry_timer_stop(lease->store->reactor, &lease->late_timer);
}

void fry_store_lease_renewed(fry_store_lease *lease, int64_t asked_ns)
{
    const int64_t now_ns = fry_reactor_now_ns(lease->store->reactor);
    const int64_t apart_ns = now_ns - lease->renewed_ns;

    /* The store was there since the request before, and since this one. */
    if (apart_ns > lease->ttl_ns / 2)
        lease->steady_ns = now_ns;
    if (apart_ns > lease->ttl_ns / 4 * 3)
        lease->there_ns = now_ns;
    lease->renewed_ns = asked_ns;
    fry_timer_stop(lease->store->reactor, &lease->late_timer);
    if (now_ns - asked_ns > too_long_ns(lease))
        say_slow(lease);
    else if (now_ns - asked_ns <= too_long_ns(lease) / 2)
        lease->is_slow = false;
    lease->asked_ns = 0;
}

int64_t fry_store_lease_steady_ns(const fry_store_lease *lease, bool is_strict)
{
    const int64_t apart_ns = fry_reactor_now_ns(lease->store->reactor) - lease->renewed_ns;

    if (!lease->is_on || !lease->is_granted ||
        apart_ns > (is_strict ? lease->ttl_ns / 2 : lease->ttl_ns / 4 * 3))
        return INT64_MAX;
    return is_strict ? lease->steady_ns : lease->there_ns;
}

int64_t fry_store_round_trip_ns(const fry_store *store)
{
    return store->round_trip_ns;
}

void fry_store_answered_in(fry_store *store, int64_t round_trip_ns)
{
    if (store->round_trip_ns == 0 || round_trip_ns < store->round_trip_ns)
        store->round_trip_ns = round_trip_ns;
}

/* --- Taking leases --- */

void fry_store_lease_open(fry_store *store, fry_store_lease *lease)
{
    lease->store = store;
    LIST_INSERT_HEAD(&store->leases, lease, entry);
    lease->timer = (fry_timer){.arg = lease};
    lease->late_timer = (fry_timer){.fn = late_is_due, .arg = lease};
    lease->asked_ns = 0;
    lease->is_slow = false;
    lease->id = 0;
    lease->ends_ns = 0;
    lease->is_on = true;
    lease->is_granted = false;
    lease->private_ = NULL;
    fry_async_begin(&lease->grant, &store->grants);
    if (lease->ttl_ns < FRY_STORE_LEASE_MIN_NS || lease->ttl_ns > FRY_STORE_LEASE_MAX_NS) {
        fry_async_finish_soon(&lease->grant, FERRY_E_INVALID,
                              "a lease lasts from 2 seconds to a day");
        return;
    }
    fry_async_set_deadline(&lease->grant, lease->deadline_ns);
    store->ops->lease_open(store, lease);
}

void fry_store_lease_close(fry_store_lease *lease)
{
    if (!lease->is_on)
        return;
    if (fry_async_is_on(&lease->grant))
        fry_async_cancel(&lease->grant);
    else
        lease->store->ops->lease_close(lease);
    take_lease_off(lease);
}

/* --- Opening and closing --- */

void fry_store_init(fry_store *store, fry_reactor *reactor, const fry_store_ops *ops)
{
    static const fry_provider_ops of_requests = {.late = is_late, .drop = drop, .tell = tell};
    static const fry_provider_ops of_grants = {
        .late = grant_is_late, .drop = drop_grant, .tell = tell_refusal};

    store->reactor = reactor;
    store->ops = ops;
    fry_provider_init(&store->requests, reactor, &of_requests);
    fry_provider_init(&store->grants, reactor, &of_grants);
}

void fry_store_close(fry_store *store)
{
    if (store == NULL)
        return;
    fry_free(store->reactor->memory, store->name, store->name_bytes);
    store->ops->close(store);
}
