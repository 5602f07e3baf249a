/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endpoints: all calls go to one of them, until it fails; then the next is the one. Which is the
 * first is chosen at random, so that many members don't all ask the same. Answers of any sort keep
 * it in good repute; while there is a watch and nothing else has been answered for two seconds, a
 * probe asks, through the quorum, and no answer to that breaks the watches.
 */
#include "net/store_etcd.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define NS_PER_MS INT64_C(1000000)
#define PROBE_NS (INT64_C(2000) * NS_PER_MS)
#define TOLD_NS (INT64_C(10000) * NS_PER_MS)
#define DELAY_FIRST_NS (INT64_C(50) * NS_PER_MS)
#define DELAY_DOUBLINGS_MAX 4 /* so at most 0.8 s, and a quarter more */
#define DEFAULT_PORT "2379"
#define HOST_BYTES_MAX 253

/* ---- endpoints ---- */

uint64_t fry_etcd_random(fry_etcd *etcd)
{
    etcd->random_state ^= etcd->random_state << 13;
    etcd->random_state ^= etcd->random_state >> 7;
    etcd->random_state ^= etcd->random_state << 17;
    return etcd->random_state;
}

int64_t fry_etcd_delay_ns(fry_etcd *etcd, unsigned failures)
{
    if (failures < etcd->endpoint_count)
        return 0; /* there are others */
    unsigned doublings = failures - etcd->endpoint_count;
    if (doublings > DELAY_DOUBLINGS_MAX)
        doublings = DELAY_DOUBLINGS_MAX;
    const int64_t delay_ns = DELAY_FIRST_NS << doublings;
    return delay_ns + (int64_t)(fry_etcd_random(etcd) % (uint64_t)(delay_ns / 4));
}

void fry_etcd_revision_is(fry_etcd *etcd, uint64_t revision)
{
    if (revision > etcd->revision)
        etcd->revision = revision;
}

void fry_etcd_is_another(fry_etcd *etcd, uint64_t revision)
{
    fry_log_line(etcd->reactor->log, FERRY_LOG_WARNING,
                 "store: %s has lost its past: it was at revision %" PRIu64 ", and is at %" PRIu64,
                 etcd->base.name, etcd->revision, revision);
    etcd->revision = revision;
    etcd->life++;
}

void fry_etcd_endpoint_answered(fry_etcd *etcd, unsigned endpoint)
{
    fry_etcd_endpoint *it = &etcd->endpoints[endpoint];

    if (endpoint == etcd->endpoint)
        etcd->heard_ns = fry_reactor_now_ns(etcd->reactor);
    it->is_down = false;
    fry_store_set_trouble(&etcd->base, NULL);
    if (it->is_told)
        fry_log_line(etcd->reactor->log, FERRY_LOG_WARNING, "store: %s answers again", it->url);
    it->is_told = false;
}

/* One that answers and fails in turns is told of now and then. */
static void note_failure(fry_etcd *etcd, fry_etcd_endpoint *it, const char *why)
{
    const int64_t now_ns = fry_reactor_now_ns(etcd->reactor);

    if (it->is_down)
        return;
    it->is_down = true;
    if (it->told_ns != 0 && now_ns - it->told_ns < TOLD_NS)
        return;
    it->is_told = true;
    it->told_ns = now_ns;
    fry_log_line(etcd->reactor->log, FERRY_LOG_WARNING, "store: %s: %s", it->url, why);
}

void fry_etcd_endpoint_failed(fry_etcd *etcd, unsigned endpoint, const char *why)
{
    note_failure(etcd, &etcd->endpoints[endpoint], why);
    fry_store_set_trouble(&etcd->base, why);
    if (endpoint != etcd->endpoint || etcd->endpoint_count == 1)
        return;
    etcd->endpoint = (endpoint + 1) % etcd->endpoint_count;
    etcd->heard_ns = 0;
    fry_etcd_watches_break(etcd, endpoint);
}

void fry_etcd_call_was_garbled(fry_etcd_call *call)
{
    call->outcome = FRY_ETCD_STRANGE;
    (void)snprintf(call->text, sizeof call->text, "an answer that is none of etcd's");
    fry_etcd_endpoint_failed(call->etcd, call->endpoint, call->text);
}

/* ---- the probe ---- */

static void probe_is_over(fry_etcd_call *call)
{
    fry_etcd *etcd = call->arg;
    fry_etcd_page page;
    bool is_another = false;

    if (call->outcome == FRY_ETCD_ANSWERED) {
        if (fry_etcd_read_page(etcd->memory, call->answer, call->answer_bytes, &page) ==
            FRY_ETCD_READ) {
            is_another = page.revision < etcd->probe_revision;
            fry_etcd_revision_is(etcd, page.revision);
            fry_etcd_page_release(etcd->memory, &page);
        } else {
            fry_etcd_call_was_garbled(call);
        }
    }
    fry_etcd_call_release(call);
    /* Their lists will find it out. */
    if (is_another || (call->outcome != FRY_ETCD_ANSWERED && call->outcome != FRY_ETCD_REFUSED))
        fry_etcd_watches_break(etcd, call->endpoint);
    fry_etcd_probe(etcd);
}

/* A count of one key, which costs etcd nothing but the question to the quorum. */
static void ask_probe(fry_etcd *etcd)
{
    const char *prefix = LIST_FIRST(&etcd->base.watches)->prefix;
    const char *key = *prefix != '\0' ? prefix : "ferry";
    const fry_etcd_range range = {.key = key, .key_bytes = strlen(key), .is_count_only = true};

    etcd->probe_revision = etcd->revision;
    etcd->probe.fn = probe_is_over;
    etcd->probe.arg = etcd;
    etcd->probe.path = "/v3/kv/range";
    etcd->probe.answer_max = FRY_ETCD_ANSWER_BYTES;
    etcd->probe.patience_ms = FRY_ETCD_PATIENCE_MS;
    fry_etcd_call_start(etcd, &etcd->probe, fry_etcd_write_range(&range));
}

static void probe_is_due(fry_timer *timer)
{
    fry_etcd *etcd = timer->arg;

    if (TAILQ_EMPTY(&etcd->watches) || LIST_EMPTY(&etcd->base.watches))
        return;
    fry_etcd_watches_check(etcd);
    if (fry_reactor_now_ns(etcd->reactor) - etcd->heard_ns >= PROBE_NS)
        ask_probe(etcd);
    else
        fry_etcd_probe(etcd);
}

void fry_etcd_probe(fry_etcd *etcd)
{
    const int64_t now_ns = fry_reactor_now_ns(etcd->reactor);
    int64_t when_ns = etcd->heard_ns + PROBE_NS;

    /* After a failure nothing was heard for long: not at once again. */
    if (when_ns <= now_ns)
        when_ns = now_ns + PROBE_NS;
    if (!etcd->probe_timer.is_on && etcd->probe.state != FRY_ETCD_CALL_RUNS &&
        etcd->probe.state != FRY_ETCD_CALL_WAITS)
        fry_timer_set(etcd->reactor, &etcd->probe_timer, when_ns);
}

/* ---- opening ---- */

static bool is_host_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '.' || byte == '-' || byte == '_';
}

/* HOST, HOST:PORT, [IPV6] or [IPV6]:PORT, of `bytes`. */
static bool read_endpoint(const char *text, size_t bytes, const char *scheme,
                          fry_etcd_endpoint *endpoint)
{
    const bool is_v6 = bytes > 0 && text[0] == '[';
    size_t host = is_v6 ? 1 : 0, port = 0;
    unsigned long number = 0;

    while (host < bytes && (is_v6 ? text[host] == ':' || text[host] == '.' ||
                                        strchr("0123456789abcdefABCDEF", text[host]) != NULL
                                  : is_host_byte(text[host])))
        host++;
    if (is_v6) {
        if (host == bytes || text[host] != ']' || host < 3)
            return false;
        host++;
    }
    if (host == 0 || host > HOST_BYTES_MAX)
        return false;
    if (host < bytes) {
        for (port = host + 1; port < bytes && number <= UINT16_MAX; port++) {
            if (text[port] < '0' || text[port] > '9')
                return false;
            number = number * 10 + (unsigned long)(text[port] - '0');
        }
        if (text[host] != ':' || number == 0 || number > UINT16_MAX)
            return false;
    }
    const int size = snprintf(endpoint->url, sizeof endpoint->url, "%s://%.*s%s", scheme,
                              (int)bytes, text, host < bytes ? "" : ":" DEFAULT_PORT);
    return size > 0 && (size_t)size < sizeof endpoint->url;
}

static ferry_status read_uri(fry_etcd *etcd, const char *uri, fry_error **error_p)
{
    const bool has_tls = strncmp(uri, "etcds://", 8) == 0;
    const char *at = strstr(uri, "://");

    if (at == NULL || (!has_tls && strncmp(uri, "etcd://", 7) != 0))
        return fry_store_error(etcd->memory, FERRY_E_INVALID, error_p,
                               "a store in etcd is etcd://HOST:PORT,... or etcds://...");
    if (strchr(uri, '@') != NULL)
        return fry_store_error(etcd->memory, FERRY_E_INVALID, error_p,
                               "etcd's user and password are options, not part of the URI");
    for (at += 3;; at++) {
        const size_t bytes = strcspn(at, ",");

        if (etcd->endpoint_count == FRY_ETCD_ENDPOINTS_MAX)
            return fry_store_error(etcd->memory, FERRY_E_INVALID, error_p,
                                   "a store in etcd has at most %d endpoints",
                                   FRY_ETCD_ENDPOINTS_MAX);
        if (!read_endpoint(at, bytes, has_tls ? "https" : "http",
                           &etcd->endpoints[etcd->endpoint_count++]))
            return fry_store_error(etcd->memory, FERRY_E_INVALID, error_p,
                                   "'%.64s' does not name a host and port of etcd", at);
        at += bytes;
        if (*at == '\0')
            return FERRY_OK;
    }
}

static ferry_status check_options(const fry_memory *memory, const char *uri,
                                  const fry_store_options *options, fry_error **error_p)
{
    const bool has_tls = strncmp(uri, "etcds://", 8) == 0;

    if ((options->user == NULL) != (options->password == NULL))
        return fry_store_error(memory, FERRY_E_INVALID, error_p,
                               "a user needs a password, and a password a user");
    if ((options->certificate_path == NULL) != (options->key_path == NULL))
        return fry_store_error(memory, FERRY_E_INVALID, error_p,
                               "a certificate needs its key, and a key its certificate");
    if (!has_tls && (options->ca_path != NULL || options->certificate_path != NULL))
        return fry_store_error(memory, FERRY_E_INVALID, error_p,
                               "certificates are for etcds://, and this is etcd://");
    return FERRY_OK;
}

static bool copy(const fry_memory *memory, const char *from, char **to)
{
    if (from == NULL)
        return true;
    const size_t bytes = strlen(from) + 1;
    *to = fry_alloc_raw(memory, bytes, 1);
    if (*to != NULL)
        memcpy(*to, from, bytes);
    return *to != NULL;
}

static void drop(const fry_memory *memory, char *text)
{
    if (text == NULL)
        return;
    const size_t bytes = strlen(text) + 1;
    explicit_bzero(text, bytes);
    fry_free(memory, text, bytes);
}

static void dispose(fry_etcd *etcd)
{
    const fry_memory *memory = etcd->memory;

    drop(memory, etcd->user);
    drop(memory, etcd->password);
    drop(memory, etcd->ca_path);
    drop(memory, etcd->certificate_path);
    drop(memory, etcd->key_path);
    if (etcd->token != NULL)
        explicit_bzero(etcd->token, FRY_ETCD_TOKEN_BYTES);
    fry_free(memory, etcd->token, FRY_ETCD_TOKEN_BYTES);
    fry_free(memory, etcd, sizeof *etcd);
}

static bool copy_options(fry_etcd *etcd, const fry_store_options *options)
{
    const fry_memory *memory = etcd->memory;

    if (options->user != NULL) {
        etcd->token = fry_alloc(memory, FRY_ETCD_TOKEN_BYTES, 1);
        etcd->login = FRY_ETCD_LOGIN_WANTED;
        if (etcd->token == NULL)
            return false;
    }
    return copy(memory, options->user, &etcd->user) &&
           copy(memory, options->password, &etcd->password) &&
           copy(memory, options->ca_path, &etcd->ca_path) &&
           copy(memory, options->certificate_path, &etcd->certificate_path) &&
           copy(memory, options->key_path, &etcd->key_path);
}

static void close_etcd(fry_store *store)
{
    fry_etcd *etcd = (fry_etcd *)store;

    fry_etcd_leases_drop(etcd);
    fry_timer_stop(etcd->reactor, &etcd->probe_timer);
    fry_timer_stop(etcd->reactor, &etcd->watch_timer);
    if (etcd->probe.etcd != NULL)
        fry_etcd_call_cancel(&etcd->probe);
    if (etcd->login_call.etcd != NULL)
        fry_etcd_call_cancel(&etcd->login_call);
    fry_etcd_http_close(etcd);
    dispose(etcd);
}

ferry_status fry_etcd_open(fry_reactor *reactor, const char *uri, const fry_store_options *options,
                           fry_store **store_p, fry_error **error_p)
{
    static const fry_store_ops ops = {
        .close = close_etcd,
        .submit = fry_etcd_submit,
        .cancel = fry_etcd_cancel,
        .watch_start = fry_etcd_watch_start,
        .watch_stop = fry_etcd_watch_stop,
        .lease_open = fry_etcd_lease_open,
        .lease_close = fry_etcd_lease_close,
    };
    const fry_memory *memory = reactor->memory;
    const char *why;
    ferry_status status = check_options(memory, uri, options, error_p);

    if (status != FERRY_OK)
        return status;
    fry_etcd *etcd = fry_alloc(memory, sizeof *etcd, _Alignof(fry_etcd));
    if (etcd == NULL)
        return fry_store_error(memory, FERRY_E_NO_MEMORY, error_p, "no memory for a store");
    fry_store_init(&etcd->base, reactor, &ops);
    etcd->reactor = reactor;
    etcd->memory = memory;
    etcd->probe_timer = (fry_timer){.fn = probe_is_due, .arg = etcd};
    TAILQ_INIT(&etcd->queued);
    TAILQ_INIT(&etcd->watches);
    TAILQ_INIT(&etcd->leases);
    status = read_uri(etcd, uri, error_p);
    if (status != FERRY_OK)
        goto err_uri;
    if (!fry_curl_load(&why)) {
        status = fry_store_error(memory, FERRY_E_UNSUPPORTED, error_p,
                                 "no etcd without libcurl: %s", why);
        goto err_uri;
    }
    if (!copy_options(etcd, options) || fry_etcd_http_open(etcd) != FERRY_OK) {
        status = fry_store_error(memory, FERRY_E_NO_MEMORY, error_p, "no memory for a store");
        goto err_uri;
    }
    if (getrandom(&etcd->random_state, sizeof etcd->random_state, 0) < 0)
        etcd->random_state = (uint64_t)(uintptr_t)etcd;
    etcd->random_state |= 1; /* xorshift stays where it is at 0 */
    etcd->endpoint = (unsigned)(fry_etcd_random(etcd) % etcd->endpoint_count);
    *store_p = &etcd->base;
    return FERRY_OK;

err_uri:
    dispose(etcd);
    return status;
}
