/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases. A lease's number is chosen here, at random. So if an answer was lost, asking again can't
 * make a second lease: then "already exists" means yes.
 *
 * Only etcd's answer ends a lease. While etcd can't be asked the lease's state is not known: a
 * store that stood still, or changed its leader, gives leases more time than their holders count.
 */
#include "net/store/etcd_lease.h"

#include "net/reactor.h"
#include "net/store/etcd_endpoint.h"
#include "net/store/etcd_http.h"
#include "net/store/etcd_json.h"
#include "net/store/etcd_state.h"
#include "net/store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)
#define KEEPS_PER_TTL 3
#define PATIENCE_MIN_MS 500
#define PATIENCE_DOUBLINGS_MAX 2

typedef enum fry_etcd_lease_state {
    LEASE_ASKED, /* being granted */
    LEASE_KEPT,
    LEASE_LEFT, /* its owner is gone; it is being revoked, in the store's memory */
} fry_etcd_lease_state;

struct fry_etcd_lease {
    fry_etcd *etcd;
    fry_store_lease *lease; /* NULL once left */
    fry_etcd_lease_state state;
    TAILQ_ENTRY(fry_etcd_lease) entry;
    uint64_t id;
    int64_t ttl_s;
    int64_t sent_ns; /* when the attempt that counts was sent */
    int64_t ends_ns;
    unsigned failures, strange;
    fry_timer timer;
    fry_etcd_call call;
};

static void dispose(fry_etcd_lease *mine)
{
    fry_etcd *etcd = mine->etcd;

    fry_etcd_call_cancel(&mine->call);
    fry_timer_stop(etcd->reactor, &mine->timer);
    TAILQ_REMOVE(&etcd->leases, mine, entry);
    if (mine->lease != NULL)
        mine->lease->private_ = NULL;
    fry_free(etcd->memory, mine, sizeof *mine);
}

static void is_gone(fry_etcd_lease *mine, fry_lease_event event, const char *text)
{
    fry_store_lease *lease = mine->lease;
    const fry_log *log = mine->etcd->reactor->log;
    char why[FRY_ETCD_TEXT_BYTES];

    (void)snprintf(why, sizeof why, "%s", text);
    fry_log_line(log, FERRY_LOG_WARNING, "store: lease %" PRIx64 " %s: %s", mine->id,
                 event == FRY_LEASE_ENDED ? "has ended" : "is refused", why);
    dispose(mine);
    fry_store_lease_gone(lease, event, why);
}

static void ask(fry_etcd_lease *mine)
{
    static const char *const paths[] = {[LEASE_ASKED] = "/v3/lease/grant",
                                        [LEASE_KEPT] = "/v3/lease/keepalive",
                                        [LEASE_LEFT] = "/v3/lease/revoke"};
    /* Patience grows when all endpoints have had their turn. */
    const unsigned rounds = mine->failures / mine->etcd->endpoint_count;
    const unsigned doublings = rounds < PATIENCE_DOUBLINGS_MAX ? rounds : PATIENCE_DOUBLINGS_MAX;
    int64_t third_ms = mine->ttl_s * 1000 / KEEPS_PER_TTL;

    mine->sent_ns = fry_reactor_now_ns(mine->etcd->reactor);
    mine->call.path = paths[mine->state];
    mine->call.patience_ms = FRY_ETCD_PATIENCE_MS;
    if (third_ms < PATIENCE_MIN_MS)
        third_ms = PATIENCE_MIN_MS;
    /* Another endpoint may answer sooner; or all are slow, and none does in a third. */
    third_ms <<= doublings;
    if (mine->state == LEASE_KEPT && third_ms < FRY_ETCD_PATIENCE_MS)
        mine->call.patience_ms = (long)third_ms;
    if (mine->state == LEASE_KEPT)
        fry_store_lease_asks(mine->lease);
    fry_etcd_call_start(
        mine->etcd, &mine->call,
        fry_etcd_write_lease(mine->id, mine->state == LEASE_ASKED ? mine->ttl_s : 0));
}

static void time_has_come(fry_timer *timer)
{
    ask(timer->arg);
}

static void ask_at(fry_etcd_lease *mine, int64_t when_ns)
{
    fry_timer_set(mine->etcd->reactor, &mine->timer, when_ns);
}

static void try_again(fry_etcd_lease *mine)
{
    const int64_t now_ns = fry_reactor_now_ns(mine->etcd->reactor);
    const int64_t most_ns = mine->ttl_s * NS_PER_S / (KEEPS_PER_TTL * 2);
    const int64_t delay_ns = fry_etcd_delay_ns(mine->etcd, ++mine->failures);

    if (mine->state == LEASE_KEPT)
        fry_store_lease_not_renewed(mine->lease);
    if (mine->state == LEASE_LEFT && now_ns >= mine->ends_ns)
        dispose(mine); /* it has run out by itself */
    else
        ask_at(mine, now_ns + (delay_ns < most_ns ? delay_ns : most_ns));
}

/* Counts from the sending, which is the earliest moment from which etcd can have counted. */
static void lives(fry_etcd_lease *mine, int64_t ttl_s)
{
    mine->ttl_s = ttl_s;
    mine->failures = mine->strange = 0;
    mine->ends_ns = mine->sent_ns + ttl_s * NS_PER_S;
    mine->lease->ends_ns = mine->ends_ns;
    ask_at(mine, mine->sent_ns + ttl_s * NS_PER_S / KEEPS_PER_TTL);
}

static void is_granted(fry_etcd_lease *mine, int64_t ttl_s)
{
    mine->state = LEASE_KEPT;
    mine->lease->id = mine->id;
    lives(mine, ttl_s);
    fry_store_lease_granted(mine->lease);
}

static void was_not_answered(fry_etcd_lease *mine)
{
    const fry_etcd_call *call = &mine->call;

    if (call->outcome == FRY_ETCD_STRANGE)
        mine->strange++;
    if (mine->state == LEASE_ASKED && call->outcome == FRY_ETCD_REFUSED &&
        strstr(call->text, "already exists") != NULL)
        is_granted(mine, mine->ttl_s);
    else if (mine->state == LEASE_ASKED &&
             (call->outcome == FRY_ETCD_REFUSED || mine->strange >= mine->etcd->endpoint_count))
        is_gone(mine, FRY_LEASE_REFUSED, call->text);
    else if (mine->state == LEASE_KEPT && call->outcome == FRY_ETCD_REFUSED &&
             call->code == FRY_ETCD_CODE_NOT_FOUND)
        is_gone(mine, FRY_LEASE_ENDED, call->text);
    else
        try_again(mine);
}

static void take_answer(fry_etcd_lease *mine)
{
    uint64_t id;
    int64_t ttl_s;

    if (fry_etcd_read_lease(mine->call.answer, mine->call.answer_bytes, &id, &ttl_s) !=
            FRY_ETCD_READ ||
        id != mine->id || (mine->state == LEASE_ASKED && ttl_s == 0)) {
        fry_etcd_call_was_garbled(&mine->call);
        was_not_answered(mine);
    } else if (ttl_s == 0) {
        is_gone(mine, FRY_LEASE_ENDED, "etcd has it no more");
    } else if (mine->state == LEASE_ASKED) {
        is_granted(mine, ttl_s);
    } else {
        lives(mine, ttl_s);
        fry_store_lease_renewed(mine->lease, mine->sent_ns);
    }
}

static void leave(fry_etcd_lease *mine)
{
    fry_timer_stop(mine->etcd->reactor, &mine->timer);
    mine->failures = 0;
    ask(mine);
}

static void call_is_over(fry_etcd_call *call)
{
    fry_etcd_lease *mine = call->arg;

    if (mine->state != LEASE_LEFT) {
        if (call->outcome == FRY_ETCD_ANSWERED)
            take_answer(mine);
        else
            was_not_answered(mine);
    } else if (strcmp(call->path, "/v3/lease/revoke") != 0) {
        leave(mine); /* the call was under way when the lease was left */
    } else if (call->outcome == FRY_ETCD_ANSWERED || call->outcome == FRY_ETCD_REFUSED) {
        dispose(mine);
    } else {
        try_again(mine);
    }
}

void fry_etcd_lease_open(fry_store *store, fry_store_lease *lease)
{
    fry_etcd *etcd = (fry_etcd *)store;
    fry_etcd_lease *mine = fry_alloc(etcd->memory, sizeof *mine, _Alignof(fry_etcd_lease));

    if (mine == NULL) {
        fry_async_finish_soon(&lease->grant, FERRY_E_NO_MEMORY, "no memory for a lease");
        return;
    }
    mine->etcd = etcd;
    mine->lease = lease;
    mine->ttl_s = (lease->ttl_ns + NS_PER_S - 1) / NS_PER_S;
    while (mine->id == 0) {
        if (getrandom(&mine->id, sizeof mine->id, 0) != (ssize_t)sizeof mine->id)
            mine->id = fry_etcd_random(etcd);
        mine->id &= INT64_MAX;
    }
    mine->timer = (fry_timer){.fn = time_has_come, .arg = mine};
    mine->call.fn = call_is_over;
    mine->call.arg = mine;
    lease->private_ = mine;
    TAILQ_INSERT_TAIL(&etcd->leases, mine, entry);
    ask(mine);
}

/* A lease that is being granted is revoked when etcd has answered: then it exists or not. */
void fry_etcd_lease_close(fry_store_lease *lease)
{
    fry_etcd_lease *mine = lease->private_;
    const bool is_asked = mine->state == LEASE_ASKED;

    lease->private_ = NULL;
    mine->lease = NULL;
    mine->state = LEASE_LEFT;
    if (is_asked)
        mine->ends_ns = mine->sent_ns + mine->ttl_s * NS_PER_S;
    if (is_asked && fry_async_is_on(&mine->call.async))
        return;
    leave(mine);
}

void fry_etcd_leases_drop(fry_etcd *etcd)
{
    fry_etcd_lease *mine;

    while ((mine = TAILQ_FIRST(&etcd->leases)) != NULL)
        dispose(mine);
}
