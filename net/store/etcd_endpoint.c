/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endpoints: all calls go to one endpoint, until it fails; then they go to the next. The first is
 * chosen at random, so that many members don't all ask the same. Any answer shows that an endpoint
 * works.
 */
#include "net/store/etcd_endpoint.h"

#include "net/reactor.h"
#include "net/store/etcd_state.h"
#include "net/store/store.h"

#include <inttypes.h>
#include <stdio.h>

#define NS_PER_MS INT64_C(1000000)
#define TOLD_NS (INT64_C(10000) * NS_PER_MS)
#define DELAY_FIRST_NS (INT64_C(50) * NS_PER_MS)
#define DELAY_DOUBLINGS_MAX 4 /* so at most 0.8 s, and a quarter more */

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
        return 0; /* the others are tried first */
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

/* Reports an endpoint that answers and fails in turns only now and then. */
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
    etcd->left_endpoint(etcd, endpoint);
}

void fry_etcd_call_was_garbled(fry_etcd_call *call)
{
    call->outcome = FRY_ETCD_STRANGE;
    (void)snprintf(call->text, sizeof call->text, "an answer that is none of etcd's");
    fry_etcd_endpoint_failed(call->etcd, call->endpoint, call->text);
}
