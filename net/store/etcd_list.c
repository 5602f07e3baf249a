/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists all keys with a prefix, page by page, so that no answer is large. Every page is of the
 * first page's revision, so together they are one moment of the store. If that revision is
 * compacted meanwhile, the list fails, and its owner begins anew.
 */
#include "net/store/etcd_list.h"

#include "net/store/etcd_endpoint.h"
#include "net/store/etcd_http.h"
#include "net/store/etcd_json.h"
#include "net/store/etcd_state.h"

#include <string.h>

#define PAGE_LIMIT 512
#define PAGE_LIMIT_FACTOR 8
#define PAGE_PATIENCE_MS 6000

static void ask(fry_etcd *etcd, fry_etcd_list *list)
{
    const fry_etcd_range range = {
        .key = list->revision != 0 ? list->last_key : NULL, /* NULL: from the first key on */
        .key_bytes = list->last_key_bytes + 1, /* with a zero byte: the next possible key */
        .prefix = list->prefix,
        .revision = list->revision,
        .limit = list->limit,
    };

    fry_etcd_call_start(etcd, &list->call, fry_etcd_write_range(&range));
}

static void tell_failure(fry_etcd_list *list)
{
    fry_etcd_call_release(&list->call);
    (void)list->fn(list, NULL);
}

static void take_page(fry_etcd *etcd, fry_etcd_list *list)
{
    const fry_memory *memory = etcd->memory;
    fry_etcd_call *call = &list->call;
    fry_etcd_page page;

    const fry_etcd_read read = fry_etcd_read_page(memory, call->answer, call->answer_bytes, &page);
    fry_etcd_call_release(call);
    if (read != FRY_ETCD_READ) {
        if (read == FRY_ETCD_GARBLED)
            fry_etcd_call_was_garbled(call);
        else
            call->outcome = FRY_ETCD_UNSENT;
        tell_failure(list);
        return;
    }
    if (list->revision == 0) {
        /* Unless another list has noticed since this one was asked for. */
        if (page.revision < list->heard_revision && list->life == etcd->life)
            fry_etcd_is_another(etcd, page.revision);
        list->revision = page.revision;
    }
    fry_etcd_revision_is(etcd, page.revision);
    memcpy(list->last_key, page.last_key, sizeof list->last_key);
    list->last_key_bytes = page.last_key_bytes;
    if (page.kvs.foreign > 0)
        fry_log_line(etcd->reactor->log, FERRY_LOG_DEBUG,
                     "store: %zu keys or values below '%s' are not ferry's", page.kvs.foreign,
                     list->prefix);
    const bool has_more = page.has_more;
    if (list->fn(list, &page) && has_more)
        ask(etcd, list);
    fry_etcd_kvs_release(memory, &page.kvs);
}

static void page_is_over(fry_etcd_call *call)
{
    fry_etcd_list *list = call->arg;

    if (call->outcome == FRY_ETCD_ANSWERED) {
        take_page(call->etcd, list);
    } else if (call->is_too_long && list->limit > 1) {
        list->limit /= PAGE_LIMIT_FACTOR;
        ask(call->etcd, list);
    } else {
        if (call->is_too_long)
            fry_etcd_call_was_garbled(call);
        tell_failure(list);
    }
}

void fry_etcd_list_start(fry_etcd *etcd, fry_etcd_list *list, const char *prefix)
{
    fry_etcd_call_cancel(&list->call);
    list->prefix = prefix;
    list->revision = 0;
    list->heard_revision = etcd->revision;
    list->life = etcd->life;
    list->limit = PAGE_LIMIT;
    list->call.fn = page_is_over;
    list->call.arg = list;
    list->call.path = "/v3/kv/range";
    list->call.is_page = true;
    list->call.patience_ms = PAGE_PATIENCE_MS;
    ask(etcd, list);
}
