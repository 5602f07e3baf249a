/* SPDX-License-Identifier: Apache-2.0 */
#include "net/store/etcd.h"

#include "net/store/etcd_auth.h"
#include "net/store/etcd_curl.h"
#include "net/store/etcd_endpoint.h"
#include "net/store/etcd_http.h"
#include "net/store/etcd_lease.h"
#include "net/store/etcd_request.h"
#include "net/store/etcd_state.h"
#include "net/store/etcd_watch.h"
#include "net/store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define DEFAULT_PORT "2379"
#define HOST_BYTES_MAX 253

static bool is_host_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '.' || byte == '-' || byte == '_';
}

/* Reads HOST, HOST:PORT, [IPV6] or [IPV6]:PORT, of `bytes`. */
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
    explicit_bzero(etcd->token, sizeof etcd->token);
    fry_free(memory, etcd, sizeof *etcd);
}

static bool copy_options(fry_etcd *etcd, const fry_store_options *options)
{
    const fry_memory *memory = etcd->memory;

    if (options->user != NULL)
        etcd->login = FRY_ETCD_LOGIN_WANTED;
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
    fry_etcd_watches_close(etcd);
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
    TAILQ_INIT(&etcd->leases);
    fry_etcd_watches_open(etcd);
    fry_etcd_login_open(etcd);
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
    etcd->random_state |= 1; /* xorshift never leaves 0 */
    etcd->endpoint = (unsigned)(fry_etcd_random(etcd) % etcd->endpoint_count);
    *store_p = &etcd->base;
    return FERRY_OK;

err_uri:
    dispose(etcd);
    return status;
}
