/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users' values: each user's key is a key of the store. A get asks once, and watches the key only
 * if that finds nothing. The watch begins with a list, so no value between the two is missed.
 */
#include "net/group/values.h"

#include "net/group/group.h"
#include "net/group/state.h"
#include "net/group/text.h"
#include "net/reactor.h"
#include "net/store/store.h"

#include <stdio.h>
#include <string.h>

typedef struct value_call {
    fry_group_request *request;
    fry_store_request store;
    fry_store_watch watch; /* once the store has answered that there is nothing yet */
    char key[FRY_STORE_KEY_BYTES + 1];
} value_call;

static void call_free(value_call *call)
{
    const fry_memory *memory = call->request->group->memory;

    fry_store_watch_stop(&call->watch);
    fry_store_cancel(&call->store);
    call->request->private_ = NULL;
    fry_free(memory, call, sizeof *call);
}

void fry_values_cancel(fry_group_request *request)
{
    if (request->private_ != NULL)
        call_free(request->private_);
}

static void end(value_call *call, ferry_status status, fry_error *error,
                const fry_store_entry *entry)
{
    fry_group_request *request = call->request;
    fry_group *group = request->group;

    call_free(call);
    fry_group_store_in(group);
    if (entry != NULL)
        fry_group_finish(request, status, error, entry->value, entry->value_bytes, entry->version);
    else
        fry_group_finish(request, status, error, NULL, 0, 0);
    fry_group_store_out(group);
}

void fry_values_late(fry_group_request *request)
{
    fry_group *group = request->group;

    end(request->private_, FERRY_E_DEADLINE,
        fry_group_error(group, FERRY_E_DEADLINE, -1, "value %s of job %s did not come in time%s",
                        request->name, group->job,
                        group->is_lost ? ": the store is unreachable" : ""),
        NULL);
}

static void told(fry_store_watch *watch, fry_store_event event, const fry_store_entry *entry)
{
    value_call *call = watch->arg;

    if (event == FRY_STORE_IS_ANOTHER)
        call->request->version = 0; /* the version seen was another store's */
    /* The watch also tells of longer keys with this prefix. */
    if (event == FRY_STORE_IS_PUT && strcmp(entry->key, call->key) == 0 &&
        entry->version > call->request->version)
        end(call, FERRY_OK, NULL, entry);
}

static void follow(value_call *call)
{
    fry_group_request *request = call->request;
    fry_group *group = request->group;

    fry_async_set_deadline(&request->async, request->deadline_ns);
    call->watch = (fry_store_watch){.prefix = call->key, .fn = told, .arg = call};
    fry_store_watch_start(group->store, &call->watch);
}

static bool is_news(const fry_group_request *request, ferry_status status,
                    const fry_store_entry *entries, size_t count)
{
    return status == FERRY_OK && count == 1 &&
           (request->verb != FRY_GROUP_WATCH || entries[0].version > request->version);
}

static void asked(fry_store_request *store, ferry_status status, const fry_store_entry *entries,
                  size_t count, const char *why)
{
    value_call *call = store->arg;
    fry_group_request *request = call->request;

    if (request->verb == FRY_GROUP_SET && status == FERRY_OK && count == 1) {
        const fry_store_entry version_only = {.version = entries[0].version};

        end(call, FERRY_OK, NULL, &version_only);
    } else if (request->verb != FRY_GROUP_SET && is_news(request, status, entries, count)) {
        end(call, FERRY_OK, NULL, &entries[0]);
    } else if ((status == FERRY_OK || status == FERRY_E_NOT_FOUND) &&
               (request->verb == FRY_GROUP_GET || request->verb == FRY_GROUP_WATCH)) {
        if (request->verb == FRY_GROUP_GET)
            request->version = 0;
        follow(call);
    } else {
        fry_group *group = request->group;

        end(call, status,
            fry_group_error(group, status, -1, "value %s of job %s: %s", request->name, group->job,
                            why != NULL ? why : ferry_status_text(status)),
            NULL);
    }
}

void fry_values_submit(fry_group_request *request)
{
    fry_group *group = request->group;

    value_call *call = fry_alloc(group->memory, sizeof *call, _Alignof(value_call));
    if (call == NULL) {
        fry_async_finish_soon(&request->async, FERRY_E_NO_MEMORY, NULL);
        return;
    }
    call->request = request;
    request->private_ = call;
    (void)snprintf(call->key, sizeof call->key, "ferry/%s/value/%s", group->job, request->name);
    call->store = (fry_store_request){
        .verb = request->verb == FRY_GROUP_SET ? FRY_STORE_PUT : FRY_STORE_GET,
        .key = call->key,
        .value = request->verb == FRY_GROUP_SET ? request->value : NULL,
        .value_bytes = request->verb == FRY_GROUP_SET ? request->value_bytes : 0,
        .deadline_ns = request->deadline_ns,
        .done = asked,
        .arg = call};
    fry_store_submit(group->store, &call->store);
}
