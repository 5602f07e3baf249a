/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests. An attempt that failed is made again, at the next endpoint, until the deadline.
 *
 * An attempt whose answer was lost may have been carried out, or may still be, when a process that
 * stood still goes on. So each change is a transaction that compares first, and returns what is
 * there if the comparison fails. To repeat the transaction is to look, in one step, and only one of
 * its attempts can take effect. These conditions are compared:
 *
 *  CREATE  the key does not exist
 *  SWAP, DELETE of a version  the key has that version, which it will never have again
 *  PUT, DELETE of anything  the key has not changed since the request began; if it has, then since
 *          that answer, and so on. Otherwise a late first attempt would undo what was put after the
 *          second
 *
 * If an answer was lost, a value that is there with the request's value and lease is taken for the
 * request's own. If another store put the same value without a lease (a lease belongs to one
 * store), both hear FERRY_OK; callers that must know who won name themselves in the value. A number
 * for each attempt would have to be kept in etcd beside the key, where every watch would see it and
 * somebody would have to remove it; that was not worth it. A DELETE takes a key that is absent, or
 * was created since, for its own work.
 *
 * What remains: a first attempt at a CREATE or PUT may come after the second was answered and the
 * key was deleted again. Then it brings the key back. With a lease that has ended it can't.
 */
#include "net/store/etcd_request.h"

#include "net/reactor.h"
#include "net/store/etcd_endpoint.h"
#include "net/store/etcd_http.h"
#include "net/store/etcd_json.h"
#include "net/store/etcd_list.h"
#include "net/store/etcd_state.h"
#include "net/store/store.h"

#include <string.h>

#define RUNNING_MAX 16 /* each has a connection of its own */

typedef struct fry_etcd_request {
    fry_etcd *etcd;
    fry_store_request *request;
    bool is_uncertain;
    unsigned failures, strange;
    uint64_t known_revision; /* PUT and DELETE have not seen later changes */
    fry_timer timer;         /* for the next attempt */
    fry_etcd_call call;
    fry_etcd_list list;
    fry_etcd_kvs kvs; /* of a list */
    size_t value_bytes;
} fry_etcd_request;

static void pump(fry_etcd *etcd);

/* ---- the end ---- */

static void drop_kvs(fry_etcd_request *mine)
{
    fry_etcd_kvs_release(mine->etcd->memory, &mine->kvs);
    mine->value_bytes = 0;
}

static void stop(fry_etcd_request *mine)
{
    fry_etcd *etcd = mine->etcd;

    fry_etcd_call_cancel(&mine->call);
    fry_etcd_call_cancel(&mine->list.call);
    fry_timer_stop(etcd->reactor, &mine->timer);
    etcd->running_requests--;
}

static void dispose(fry_etcd_request *mine)
{
    drop_kvs(mine);
    fry_free(mine->etcd->memory, mine, sizeof *mine);
}

static void finish(fry_etcd_request *mine, ferry_status status, const fry_store_entry *entries,
                   size_t count, const char *why)
{
    fry_etcd *etcd = mine->etcd;

    stop(mine);
    fry_store_finish(mine->request, status, entries, count, why);
    dispose(mine);
    pump(etcd);
}

/* `why` may be the text of one of its calls, which stays until the request is disposed of. */
static void fail(fry_etcd_request *mine, ferry_status status, const char *why)
{
    finish(mine, status, NULL, 0, why);
}

/* Finishes with the entry that is there or was written. The verdict or the caller owns it. */
static void finish_one(fry_etcd_request *mine, ferry_status status, const fry_store_entry *entry,
                       const char *why)
{
    finish(mine, status, entry, entry != NULL ? 1 : 0, why);
}

static void finish_written(fry_etcd_request *mine, uint64_t version)
{
    const fry_store_entry entry = {.key = mine->request->key, .version = version};

    finish_one(mine, FERRY_OK, &entry, NULL);
}

/* ---- attempts ---- */

static void attempt(fry_etcd_request *mine);

static void retry_is_due(fry_timer *timer)
{
    attempt(timer->arg);
}

static void try_again(fry_etcd_request *mine)
{
    fry_etcd *etcd = mine->etcd;

    mine->failures++;
    fry_timer_set(etcd->reactor, &mine->timer,
                  fry_reactor_now_ns(etcd->reactor) + fry_etcd_delay_ns(etcd, mine->failures));
}

/* Handles a call, of the request or of its list, that got no answer. */
static void was_not_answered(fry_etcd_request *mine, const fry_etcd_call *call)
{
    switch (call->outcome) {
    case FRY_ETCD_REFUSED:
        /* "too many requests" passes; a full disk is not worth waiting for. */
        if ((call->code == FRY_ETCD_CODE_EXHAUSTED && strstr(call->text, "space") == NULL) ||
            (call->code == FRY_ETCD_CODE_OUT_OF_RANGE && mine->request->verb == FRY_STORE_LIST)) {
            try_again(mine);
            return;
        }
        fail(mine, FERRY_E_STORE, call->text);
        return;
    case FRY_ETCD_STRANGE:
        mine->is_uncertain = mine->is_uncertain || call->body_sent > 0;
        if (++mine->strange >= mine->etcd->endpoint_count) {
            fail(mine, FERRY_E_STORE, call->text);
            return;
        }
        try_again(mine);
        return;
    case FRY_ETCD_UNKNOWN:
        mine->is_uncertain = true;
        try_again(mine);
        return;
    case FRY_ETCD_UNSENT:
    case FRY_ETCD_ANSWERED:
        try_again(mine);
        return;
    }
}

/* Whether an answer could be read. If not, this has handled it. */
static bool was_read(fry_etcd_request *mine, fry_etcd_read read)
{
    switch (read) {
    case FRY_ETCD_READ:
        return true;
    case FRY_ETCD_FOREIGN:
        fail(mine, FERRY_E_STORE, "what is there is no value of ferry's");
        return false;
    case FRY_ETCD_NO_MEMORY:
        fail(mine, FERRY_E_NO_MEMORY, "no memory for what the store answered");
        return false;
    case FRY_ETCD_GARBLED:
        break;
    }
    fry_etcd_call_was_garbled(&mine->call);
    was_not_answered(mine, &mine->call);
    return false;
}

/* ---- answers ---- */

static bool is_own(const fry_etcd_request *mine, const fry_etcd_kv *found)
{
    const fry_store_request *request = mine->request;

    return mine->is_uncertain && found->lease == request->lease_id &&
           found->entry.value_bytes == request->value_bytes &&
           (request->value_bytes == 0 ||
            memcmp(found->entry.value, request->value, request->value_bytes) == 0);
}

/* Tries again after somebody changed the key since the last known revision. */
static void attempt_later(fry_etcd_request *mine, uint64_t revision)
{
    const bool is_news = revision > mine->known_revision;

    mine->known_revision = revision;
    if (is_news)
        attempt(mine);
    else
        try_again(mine);
}

/* The condition was not met, and the key does not exist. */
static void was_absent(fry_etcd_request *mine)
{
    const fry_store_request *request = mine->request;

    if (request->verb == FRY_STORE_CREATE || request->verb == FRY_STORE_PUT ||
        (request->verb == FRY_STORE_DELETE && request->version == 0))
        try_again(mine); /* wrong: a key that is absent meets the condition */
    else if (mine->request->verb == FRY_STORE_DELETE && mine->is_uncertain)
        finish_one(mine, FERRY_OK, NULL, NULL);
    else
        finish_one(mine, FERRY_E_NOT_FOUND, NULL, NULL);
}

/* A condition was not met; the verdict says why. */
static void was_other(fry_etcd_request *mine, const fry_etcd_verdict *verdict)
{
    const fry_etcd_kv *found = &verdict->found;
    const uint64_t revision = verdict->revision, guard_lease = verdict->guard_lease;
    const bool is_deletion = mine->request->verb == FRY_STORE_DELETE;

    if (found->entry.key != NULL && !is_deletion && is_own(mine, found))
        finish_written(mine, found->entry.version);
    else if (mine->request->guard_key != NULL && guard_lease != mine->request->guard_id)
        finish_one(mine, FERRY_E_FENCED, NULL, "its own lease is over");
    else if (found->entry.key == NULL)
        was_absent(mine);
    else if (is_deletion && mine->request->version == 0 && mine->is_uncertain &&
             mine->known_revision != 0 && found->create_revision > mine->known_revision)
        finish_one(mine, FERRY_OK, NULL, NULL);
    else if (mine->request->verb == FRY_STORE_PUT || (is_deletion && mine->request->version == 0))
        attempt_later(mine, revision);
    else
        finish_one(mine, FERRY_E_CHANGED, &found->entry, NULL);
}

static void take_verdict(fry_etcd_request *mine)
{
    const fry_memory *memory = mine->etcd->memory;
    fry_etcd_verdict verdict;

    if (!was_read(mine, fry_etcd_read_verdict(memory, mine->call.answer, mine->call.answer_bytes,
                                              &verdict)))
        return;
    fry_etcd_revision_is(mine->etcd, verdict.revision);
    if (!verdict.has_succeeded)
        was_other(mine, &verdict);
    else if (mine->request->verb != FRY_STORE_DELETE)
        finish_written(mine, verdict.revision);
    else if (verdict.deleted > 0 || mine->is_uncertain)
        finish_one(mine, FERRY_OK, NULL, NULL);
    else
        finish_one(mine, FERRY_E_NOT_FOUND, NULL, NULL);
    fry_etcd_kv_release(memory, &verdict.found);
}

static void take_entry(fry_etcd_request *mine)
{
    const fry_memory *memory = mine->etcd->memory;
    fry_etcd_page page;

    if (!was_read(mine,
                  fry_etcd_read_page(memory, mine->call.answer, mine->call.answer_bytes, &page)))
        return;
    fry_etcd_revision_is(mine->etcd, page.revision);
    const fry_etcd_kv *found = page.kvs.count > 0 ? &page.kvs.items[0] : NULL;
    if (page.kvs.foreign > 0)
        fail(mine, FERRY_E_STORE, "what is there is no value of ferry's");
    else if (found != NULL)
        finish_one(mine, FERRY_OK, &found->entry, NULL);
    else
        finish_one(mine, FERRY_E_NOT_FOUND, NULL, NULL);
    fry_etcd_kvs_release(memory, &page.kvs);
}

static void call_is_over(fry_etcd_call *call)
{
    fry_etcd_request *mine = call->arg;

    if (call->outcome != FRY_ETCD_ANSWERED)
        was_not_answered(mine, call);
    else if (mine->request->verb == FRY_STORE_GET)
        take_entry(mine);
    else
        take_verdict(mine);
}

/* ---- lists ---- */

static void finish_list(fry_etcd_request *mine)
{
    const fry_memory *memory = mine->etcd->memory;
    const size_t count = mine->kvs.count;
    const size_t bytes = count * sizeof(fry_store_entry);
    fry_store_entry *entries = fry_alloc_raw(memory, bytes, _Alignof(fry_store_entry));

    if (entries == NULL && count > 0) {
        fail(mine, FERRY_E_NO_MEMORY, "no memory for the list");
        return;
    }
    for (size_t i = 0; i < count; i++)
        entries[i] = mine->kvs.items[i].entry;
    finish(mine, FERRY_OK, entries, count, NULL);
    fry_free(memory, entries, bytes);
}

static bool list_has_come(fry_etcd_list *list, fry_etcd_page *page)
{
    fry_etcd_request *mine = list->arg;

    if (page == NULL) {
        drop_kvs(mine);
        was_not_answered(mine, &list->call);
        return false;
    }
    if (!fry_etcd_kvs_grow(mine->etcd->memory, &mine->kvs, page->kvs.count)) {
        fail(mine, FERRY_E_NO_MEMORY, "no memory for the list");
        return false;
    }
    for (size_t i = 0; i < page->kvs.count; i++) {
        fry_etcd_kv *kv = &page->kvs.items[i];

        mine->value_bytes += kv->entry.value_bytes;
        if (mine->kvs.count == FRY_STORE_ENTRIES_MAX || mine->value_bytes > FRY_STORE_LIST_BYTES) {
            fail(mine, FERRY_E_STORE, "there are more entries, or bytes, than a list may have");
            return false;
        }
        mine->kvs.items[mine->kvs.count++] = *kv;
        *kv = (fry_etcd_kv){0}; /* ours now */
    }
    if (page->has_more)
        return true;
    finish_list(mine);
    return false;
}

/* ---- asking ---- */

static void post(fry_etcd_request *mine, const char *path, char *body)
{
    mine->call.fn = call_is_over;
    mine->call.arg = mine;
    mine->call.path = path;
    fry_etcd_call_start(mine->etcd, &mine->call, body);
}

static void ask_for_entry(fry_etcd_request *mine)
{
    const char *key = mine->request->key;
    const fry_etcd_range range = {.key = key, .key_bytes = strlen(key)};

    post(mine, "/v3/kv/range", fry_etcd_write_range(&range));
}

static void ask_for_list(fry_etcd_request *mine)
{
    const char *prefix = mine->request->key;

    mine->list.fn = list_has_come;
    mine->list.arg = mine;
    fry_etcd_list_start(mine->etcd, &mine->list, prefix != NULL ? prefix : "");
}

static void ask_for_change(fry_etcd_request *mine)
{
    const fry_store_request *request = mine->request;
    fry_etcd_change change = {
        .key = request->key,
        .value = request->value,
        .value_bytes = request->value_bytes,
        .lease = request->lease_id,
        .is_deletion = request->verb == FRY_STORE_DELETE,
        .guard_key = request->guard_key,
        .guard_lease = request->guard_id,
    };

    if (request->verb == FRY_STORE_CREATE) {
        change.condition = FRY_ETCD_IF_CREATED_AT; /* revision 0 */
    } else if (request->verb == FRY_STORE_SWAP || (change.is_deletion && request->version != 0)) {
        change.condition = FRY_ETCD_IF_CHANGED_AT;
        change.revision = request->version;
    } else {
        change.condition = FRY_ETCD_IF_NOT_CHANGED_AFTER;
        change.revision = mine->known_revision;
    }
    post(mine, "/v3/kv/txn", fry_etcd_write_txn(&change));
}

static void attempt(fry_etcd_request *mine)
{
    switch (mine->request->verb) {
    case FRY_STORE_GET:
        ask_for_entry(mine);
        break;
    case FRY_STORE_LIST:
        ask_for_list(mine);
        break;
    case FRY_STORE_PUT:
    case FRY_STORE_CREATE:
    case FRY_STORE_SWAP:
    case FRY_STORE_DELETE:
        ask_for_change(mine);
        break;
    }
}

static void begin(fry_etcd *etcd, fry_store_request *request)
{
    fry_etcd_request *mine = fry_alloc(etcd->memory, sizeof *mine, _Alignof(fry_etcd_request));

    if (mine == NULL) {
        fry_async_finish_soon(&request->async, FERRY_E_NO_MEMORY, "no memory for a request");
        return;
    }
    mine->etcd = etcd;
    mine->request = request;
    mine->timer = (fry_timer){.fn = retry_is_due, .arg = mine};
    mine->known_revision = etcd->revision;
    request->private_ = mine;
    etcd->running_requests++;
    attempt(mine);
}

static void pump(fry_etcd *etcd)
{
    fry_store_request *request;

    while (etcd->running_requests < RUNNING_MAX &&
           (request = fry_store_next_request(&etcd->base)) != NULL)
        begin(etcd, request);
}

void fry_etcd_submit(fry_store *store, fry_store_request *request)
{
    (void)request; /* it is the last of the list */
    pump((fry_etcd *)store);
}

void fry_etcd_cancel(fry_store_request *request)
{
    fry_etcd *etcd = (fry_etcd *)request->store;
    fry_etcd_request *mine = request->private_;

    if (mine == NULL)
        return;
    stop(mine);
    dispose(mine);
    pump(etcd);
}
