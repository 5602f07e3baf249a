/* SPDX-License-Identifier: Apache-2.0 */
/* etcd over TLS, with certificates that openssl makes here. */
#include "tests/support/etcd_server.h"
#include "tests/support/store_suite.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_MS INT64_C(1000000)

static const char *folder;
static char path_room[8][64];
static etcd_cluster *keeper; /* of the folder, which goes with it however the test ends */
static etcd_cluster *cluster;
static store_place place;
static fry_store_options trusting;

/* Two authorities, and certificates of the first for a server on loopback and for a client. */
static const char script[] =
    "cd \"$0\" && exec >log 2>&1 && "
    "for ca in good other; do openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=$ca "
    "-keyout $ca.key -out $ca.pem || exit 1; done && "
    "for who in server client; do "
    "openssl req -newkey rsa:2048 -nodes -subj /CN=$who -keyout $who.key -out $who.csr && "
    "printf 'subjectAltName=IP:127.0.0.1\\nextendedKeyUsage=serverAuth,clientAuth\\n' >$who.ext && "
    "openssl x509 -req -in $who.csr -CA good.pem -CAkey good.key -CAcreateserial -days 2 "
    "-extfile $who.ext -out $who.pem || exit 1; done";

static const char *path(unsigned slot, const char *name)
{
    (void)snprintf(path_room[slot], sizeof path_room[slot], "%s/%s", folder, name);
    return path_room[slot];
}

static void start_for(const char *client_ca)
{
    char command[sizeof script + 256];

    if (etcd_absent() != NULL)
        cr_skip_test("%s", etcd_absent());
    if (system("openssl version >/dev/null 2>&1") != 0)
        cr_skip_test("openssl is not installed");
    keeper = etcd_cluster_start(1, NULL);
    cr_assert_not_null(keeper);
    folder = etcd_cluster_folder(keeper);
    FILE *file = fopen(path(0, "make"), "w");
    cr_assert_not_null(file);
    (void)fputs(script, file);
    (void)fclose(file);
    (void)snprintf(command, sizeof command, "sh -c \"$(cat %s/make)\" %s", folder, folder);
    cr_assert_eq(system(command), 0);
    const etcd_tls tls = {.certificate_path = path(0, "server.pem"),
                          .key_path = path(1, "server.key"),
                          .client_ca_path = client_ca != NULL ? path(2, client_ca) : NULL};
    cluster = etcd_cluster_start(1, &tls);
    cr_assert_not_null(cluster);
    trusting = (fry_store_options){.ca_path = path(3, "good.pem")};
    place = (store_place){.uri = etcd_cluster_uri(cluster), .options = &trusting};
}

static void start(void)
{
    start_for(NULL);
}

static void start_strict(void)
{
    start_for("good.pem");
}

static void stop(void)
{
    etcd_cluster_stop(cluster);
    etcd_cluster_stop(keeper);
}

static char why_text[256];

static void keep(fry_store_request *request, ferry_status status, const fry_store_entry *entries,
                 size_t count, const char *why)
{
    (void)entries;
    (void)count;
    *(ferry_status *)request->arg = status;
    (void)snprintf(why_text, sizeof why_text, "%s", why != NULL ? why : "");
}

static void no_line(void *arg, ferry_log_level level, const char *line)
{
    (void)arg;
    (void)level;
    (void)line;
}

/* The status of a get with these options. */
static ferry_status get_with(const fry_store_options *options, int64_t within_ms)
{
    ferry_status status = FERRY_PENDING;
    fry_memory memory;
    fry_log log;
    fry_clock clock;
    fry_reactor reactor;
    fry_error *error;
    fry_store *store;
    fry_store_request request = {.verb = FRY_STORE_GET, .key = "key", .done = keep, .arg = &status};

    fry_memory_init(&memory, NULL);
    fry_log_init(&log, no_line, NULL);
    fry_clock_init(&clock, NULL);
    cr_assert_eq(driven_reactor_open(&reactor, &memory, &log, &clock), FERRY_OK);
    cr_assert_eq(fry_store_open(&reactor, place.uri, options, &store, &error), FERRY_OK);
    request.deadline_ns = fry_reactor_now_ns(&reactor) + within_ms * NS_PER_MS;
    fry_store_submit(store, &request);
    while (status == FERRY_PENDING)
        (void)driven_reactor_run(&reactor, -1);
    fry_store_close(store);
    driven_reactor_close(&reactor);
    return status;
}

Test(net_store_etcd_tls, who_is_trusted_is_used, .init = start, .fini = stop, .timeout = 60)
{
    store_suite_watch_lists_then_follows(&place);
    store_suite_lease_closed_takes_its_keys(&place);
}

Test(net_store_etcd_tls, who_is_not_trusted_is_not, .init = start, .fini = stop, .timeout = 60)
{
    const fry_store_options other = {.ca_path = path(4, "other.pem")};
    const fry_store_options none = {.ca_path = path(5, "missing.pem")};
    static const fry_store_options system_trust;

    cr_assert_eq(get_with(&trusting, 10000), FERRY_E_NOT_FOUND, "%s", why_text);
    cr_assert_eq(get_with(&other, 10000), FERRY_E_STORE);
    cr_assert_not_null(strstr(why_text, "certificate"), "%s", why_text);
    cr_assert_eq(get_with(&system_trust, 10000), FERRY_E_STORE);
    cr_assert_eq(get_with(&none, 10000), FERRY_E_STORE);
}

Test(net_store_etcd_tls, a_client_shows_its_own, .init = start_strict, .fini = stop, .timeout = 60)
{
    const fry_store_options own = {.ca_path = path(3, "good.pem"),
                                   .certificate_path = path(4, "client.pem"),
                                   .key_path = path(5, "client.key")};
    const fry_store_options wrong = {.ca_path = path(3, "good.pem"),
                                     .certificate_path = path(6, "other.pem"),
                                     .key_path = path(7, "other.key")};

    cr_assert_eq(get_with(&own, 10000), FERRY_E_NOT_FOUND, "%s", why_text);
    /* With TLS 1.3 the server's no comes after the handshake. */
    cr_assert_eq(get_with(&trusting, 10000), FERRY_E_STORE);
    cr_assert_not_null(strstr(why_text, "alert"), "%s", why_text);
    cr_assert_eq(get_with(&wrong, 10000), FERRY_E_STORE);
}
