/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/messages/membership.h"

#include "engine/engine.h"
#include "engine/ground/ground.h"
#include "engine/messages/members.h"
#include "engine/messages/route.h"
#include "engine/messages/symmetric_past.h"
#include "net/peer/any.h"

/* ---- making ---- */

static const char *keep(char **at, const char *text)
{
    if (text == NULL)
        return NULL;
    size_t size_bytes = strlen(text) + 1;
    char *kept = memcpy(*at, text, size_bytes);
    *at += size_bytes;
    return kept;
}

static size_t text_bytes(const char *text)
{
    return text != NULL ? strlen(text) + 1 : 0;
}

ferry_group *fry_membership_create(fry_members *members, const ferry_group_options *options)
{
    ferry_engine *engine = members->engine;
    ferry_group *group = fry_alloc(&engine->memory, sizeof *group, _Alignof(ferry_group));
    if (group == NULL)
        return NULL;
    const ferry_group_options *o = options;
    group->text_bytes =
        text_bytes(o->store) + text_bytes(o->job) + text_bytes(o->place) + text_bytes(o->network) +
        text_bytes(o->store_user) + text_bytes(o->store_password) + text_bytes(o->store_ca_path) +
        text_bytes(o->store_certificate_path) + text_bytes(o->store_key_path) + o->secret_bytes;
    group->text = fry_alloc_raw(&engine->memory, group->text_bytes, 1);
    if (group->text == NULL) {
        fry_free(&engine->memory, group, sizeof *group);
        return NULL;
    }
    group->engine = engine;
    group->members = members;
    group->references = 1;
    TAILQ_INIT(&group->windows);
    TAILQ_INIT(&group->symmetrics);
    TAILQ_INIT(&group->nexts);
    TAILQ_INIT(&group->noticing);
    TAILQ_INIT(&group->happenings.takers);
    group->rank = FRY_RANK_ANY;
    group->pause.waits_for = -1;
    group->stop_step = UINT64_MAX;
    group->options = *o;
    char *at = group->text;
    group->options.store = keep(&at, o->store);
    group->options.job = keep(&at, o->job);
    group->options.place = keep(&at, o->place);
    group->options.network = keep(&at, o->network);
    group->options.store_user = keep(&at, o->store_user);
    group->options.store_password = keep(&at, o->store_password);
    group->options.store_ca_path = keep(&at, o->store_ca_path);
    group->options.store_certificate_path = keep(&at, o->store_certificate_path);
    group->options.store_key_path = keep(&at, o->store_key_path);
    if (o->secret != NULL)
        group->options.secret = memcpy(at, o->secret, o->secret_bytes);
    (void)pthread_mutex_init(&group->lock, NULL);
    fry_engine_retain(engine);
    return group;
}

void fry_membership_free_tables(ferry_group *group)
{
    const fry_memory *memory = &group->engine->memory;
    if (group->routes != NULL) {
        for (uint32_t i = 0; i < group->size; i++)
            fry_peer_close(group->routes[i].peer);
        fry_free(memory, group->routes, group->size * sizeof *group->routes);
    }
    fry_any_close(group->any);
    fry_happenings_close(memory, &group->happenings);
    if (group->news != NULL)
        fry_free(memory, group->news, group->size * sizeof *group->news);
    fry_free(memory, group->past, group->past_room * sizeof *group->past);
}

void fry_membership_unretain(ferry_group *group)
{
    if (fry_fetch_sub(&group->references, 1) != 1)
        return;
    ferry_engine *engine = group->engine;
    fry_membership_free_tables(group);
    (void)pthread_mutex_destroy(&group->lock);
    explicit_bzero(group->text, group->text_bytes); /* has the secret and a password */
    fry_free(&engine->memory, group->text, group->text_bytes);
    fry_free(&engine->memory, group, sizeof *group);
    fry_engine_unretain(engine, 1);
}

/* ---- whether it takes operations; any thread ---- */

ferry_status fry_membership_takes(const ferry_group *group)
{
    switch ((fry_membership_life)fry_load_acquire(&group->life)) {
    case FRY_GROUP_HERE:
        return FERRY_OK;
    case FRY_GROUP_FENCED:
        return FERRY_E_FENCED;
    case FRY_GROUP_JOINING:
        return FERRY_E_INVALID;
    case FRY_GROUP_LEAVING:
    case FRY_GROUP_OVER:
        break;
    }
    return FERRY_E_DEAD;
}

fry_refusal fry_membership_refusal(const ferry_group *group)
{
    switch (fry_membership_takes(group)) {
    case FERRY_OK:
        return FRY_TAKEN;
    case FERRY_E_FENCED:
        return FRY_REFUSED_GROUP_FENCED;
    case FERRY_E_INVALID:
        return FRY_REFUSED_GROUP_NOT_JOINED;
    default:
        return FRY_REFUSED_GROUP_DEAD;
    }
}
