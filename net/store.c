/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all stores share: who is asked for, whether what is asked can be, lists of what is on, and
 * the rules of calling back. A request is on from its submit until its done or its cancel, and
 * exactly one of fry_store_finish, the deadline and fry_store_cancel takes it off.
 */
#include "net/store.h"

#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NAME_BYTES_MAX 4096 /* of a URI */

static const fry_store_ops *const implementations[] = {
    &fry_store_mem,
    &fry_store_file,
    &fry_store_etcd,
    &fry_store_etcd_tls,
};

ferry_status fry_store_error(const fry_memory *memory, ferry_status status, fry_error **error_p,
                             const char *format, ...)
{
    const fry_error_facts facts = {.status = status};
    char text[FRY_ERROR_MESSAGE_BYTES];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    *error_p = fry_error_create(memory, &facts, "%s", text);
    return status;
}

/* The URI without what stands between "://" and the last "@" of the same part. */
static void write_name(char *name, const char *uri)
{
    const char *from = strstr(uri, "://");
    const size_t head_bytes = from != NULL ? (size_t)(from + 3 - uri) : 0;
    const char *rest = uri + head_bytes;
    const char *at = head_bytes > 0 ? strrchr(rest, '@') : NULL;

    memcpy(name, uri, head_bytes);
    (void)strcpy(name + head_bytes, at != NULL ? at + 1 : rest);
}

ferry_status fry_store_open(fry_reactor *reactor, const char *uri, const fry_store_options *options,
                            fry_store **store_p, fry_error **error_p)
{
    static const fry_store_options none;
    const fry_memory *memory = reactor->memory;
    const fry_store_ops *ops = NULL;
    fry_store *store = NULL;

    *error_p = NULL;
    if (uri == NULL || strlen(uri) > NAME_BYTES_MAX)
        return fry_store_error(memory, FERRY_E_INVALID, error_p, "a store's URI has 1 to %d bytes",
                               NAME_BYTES_MAX);
    for (size_t i = 0; i < sizeof implementations / sizeof *implementations; i++) {
        if (strncmp(uri, implementations[i]->scheme, strlen(implementations[i]->scheme)) == 0)
            ops = implementations[i];
    }
    if (ops == NULL)
        return fry_store_error(memory, FERRY_E_INVALID, error_p,
                               "'%.60s' is not mem:, file:, etcd:// or etcds://", uri);
    const size_t name_bytes = strlen(uri) + 1;
    char *name = fry_alloc(memory, name_bytes, 1);
    if (name == NULL)
        return fry_store_error(memory, FERRY_E_NO_MEMORY, error_p, "no memory for a store");
    write_name(name, uri);
    const ferry_status status =
        ops->open(reactor, uri, options != NULL ? options : &none, &store, error_p);
    if (status != FERRY_OK) {
        fry_free(memory, name, name_bytes);
        return status;
    }
    store->ops = ops;
    store->reactor = reactor;
    store->name = name;
    store->name_bytes = name_bytes;
    *store_p = store;
    return FERRY_OK;
}

void fry_store_close(fry_store *store)
{
    if (store == NULL)
        return;
    fry_free(store->reactor->memory, store->name, store->name_bytes);
    store->ops->close(store);
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

void fry_store_timer_soon(fry_store *store, fry_timer *timer)
{
    fry_timer_set(store->reactor, timer, fry_reactor_now_ns(store->reactor));
    /* Of a user's clock the kernel knows nothing. */
    if (!store->reactor->clock->is_real)
        fry_poller_wake(&store->reactor->poller);
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
            if (part_bytes == dots) /* empty, too */
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

/* Why a request can't be; NULL: it can. */
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

static void take_request_off(fry_store_request *request)
{
    fry_store *store = request->store;

    fry_timer_stop(store->reactor, &request->timer);
    if (request->previous != NULL)
        request->previous->next = request->next;
    else
        store->requests = request->next;
    if (request->next != NULL)
        request->next->previous = request->previous;
    else
        store->last_request = request->previous;
    request->next = request->previous = NULL;
    request->is_on = false;
}

void fry_store_finish(fry_store_request *request, ferry_status status,
                      const fry_store_entry *entries, size_t count, const char *why)
{
    take_request_off(request);
    request->done(request, status, entries, count, why);
}

static void verdict_is_due(fry_timer *timer)
{
    fry_store_request *request = timer->arg;

    fry_store_finish(request, request->verdict, NULL, 0, request->verdict_why);
}

static void deadline_is_due(fry_timer *timer)
{
    fry_store_request *request = timer->arg;

    request->store->ops->cancel(request);
    fry_store_finish(request, FERRY_E_DEADLINE, NULL, 0, "the store did not answer in time");
}

void fry_store_fail_soon(fry_store_request *request, ferry_status status, const char *why)
{
    request->verdict = status;
    request->verdict_why = why;
    request->timer.fn = verdict_is_due;
    fry_store_timer_soon(request->store, &request->timer);
}

void fry_store_submit(fry_store *store, fry_store_request *request)
{
    const char *fault = fault_of(store, request);

    request->store = store;
    request->next = NULL;
    request->previous = store->last_request;
    if (store->last_request != NULL)
        store->last_request->next = request;
    else
        store->requests = request;
    store->last_request = request;
    request->verdict = FERRY_OK;
    request->timer = (fry_timer){.fn = deadline_is_due, .arg = request};
    request->is_on = true;
    request->private_ = NULL;
    request->private_number = 0;
    request->guard_id = fault == NULL && request->guard_key != NULL ? request->guard_lease->id : 0;
    if (fault != NULL) {
        fry_store_fail_soon(request, FERRY_E_INVALID, fault);
        return;
    }
    if (request->deadline_ns != 0 && request->deadline_ns <= fry_reactor_now_ns(store->reactor)) {
        fry_store_fail_soon(request, FERRY_E_DEADLINE, "the deadline was over at the start");
        return;
    }
    if (request->deadline_ns != 0)
        fry_timer_set(store->reactor, &request->timer, request->deadline_ns);
    store->ops->submit(store, request);
}

void fry_store_cancel(fry_store_request *request)
{
    if (!request->is_on)
        return;
    /* One with a verdict is the implementation's no more. */
    if (request->verdict == FERRY_OK)
        request->store->ops->cancel(request);
    take_request_off(request);
}

void fry_store_watch_start(fry_store *store, fry_store_watch *watch)
{
    watch->store = store;
    watch->previous = NULL;
    watch->next = store->watches;
    if (watch->next != NULL)
        watch->next->previous = watch;
    store->watches = watch;
    watch->is_on = true;
    watch->is_lost = watch->is_listed = false;
    watch->private_ = NULL;
    watch->private_numbers[0] = watch->private_numbers[1] = 0;
    store->ops->watch_start(store, watch);
}

void fry_store_watch_stop(fry_store_watch *watch)
{
    fry_store *store = watch->store;

    if (!watch->is_on)
        return;
    watch->is_on = false;
    if (watch->previous != NULL)
        watch->previous->next = watch->next;
    else
        store->watches = watch->next;
    if (watch->next != NULL)
        watch->next->previous = watch->previous;
    if (store->next_watch == watch)
        store->next_watch = watch->next;
    if (store->told_watch == watch)
        store->told_watch = NULL;
    store->ops->watch_stop(watch);
}

/* Whether it is news. */
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
    if (lease->previous != NULL)
        lease->previous->next = lease->next;
    else
        store->leases = lease->next;
    if (lease->next != NULL)
        lease->next->previous = lease->previous;
    if (store->next_lease == lease)
        store->next_lease = lease->next;
    lease->is_on = lease->is_granted = false;
}

void fry_store_lease_gone(fry_store_lease *lease, fry_lease_event event, const char *why)
{
    take_lease_off(lease);
    lease->fn(lease, event, why);
}

static void refusal_is_due(fry_timer *timer)
{
    fry_store_lease *lease = timer->arg;

    fry_store_lease_gone(lease, FRY_LEASE_REFUSED, lease->refusal);
}

static void granting_is_due(fry_timer *timer)
{
    fry_store_lease *lease = timer->arg;

    lease->store->ops->lease_close(lease);
    fry_store_lease_gone(lease, FRY_LEASE_REFUSED, "the store did not grant it in time");
}

void fry_store_lease_granted(fry_store_lease *lease)
{
    /* The deadline was of this, and would end the lease. */
    if (lease->timer.fn == granting_is_due)
        fry_timer_stop(lease->store->reactor, &lease->timer);
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

/* Once, until it was fine in between: it is told before the lease runs out. */
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

    /* It was there at some moment since the asking before, and at some moment since this one. */
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

/* --- Taking them --- */

void fry_store_lease_refuse_soon(fry_store_lease *lease, const char *why)
{
    lease->refusal = why;
    lease->timer.fn = refusal_is_due;
    fry_store_timer_soon(lease->store, &lease->timer);
}

void fry_store_lease_open(fry_store *store, fry_store_lease *lease)
{
    lease->store = store;
    lease->previous = NULL;
    lease->next = store->leases;
    if (lease->next != NULL)
        lease->next->previous = lease;
    store->leases = lease;
    lease->timer = (fry_timer){.fn = granting_is_due, .arg = lease};
    lease->late_timer = (fry_timer){.fn = late_is_due, .arg = lease};
    lease->asked_ns = 0;
    lease->is_slow = false;
    lease->id = 0;
    lease->ends_ns = 0;
    lease->refusal = NULL;
    lease->is_on = true;
    lease->is_granted = false;
    lease->private_ = NULL;
    if (lease->ttl_ns < FRY_STORE_LEASE_MIN_NS || lease->ttl_ns > FRY_STORE_LEASE_MAX_NS) {
        fry_store_lease_refuse_soon(lease, "a lease lasts from 2 seconds to a day");
        return;
    }
    if (lease->deadline_ns != 0)
        fry_timer_set(store->reactor, &lease->timer, lease->deadline_ns);
    store->ops->lease_open(store, lease);
}

void fry_store_lease_close(fry_store_lease *lease)
{
    if (!lease->is_on)
        return;
    if (lease->refusal == NULL)
        lease->store->ops->lease_close(lease);
    take_lease_off(lease);
}
