/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symmetric memory, from the first ask for it to the moment after which no member can reach it.
 *
 *     NEW ── ask ──► SEEKING ── all found ──► WHOLE ── one lost ──► BROKEN
 *                      ▲  │ one lost             │ handles gone,      │ handles gone
 *                  ask │  └──────► BROKEN        │ room is wanted     │
 *                      └──────────────────── RESTING ◄────────────────┘
 *                                               └── all have let go ──► OVER
 *
 * It is made of windows: each member opens one over its memory and finds those of the others. Finds
 * may come before opens, so no order of asks can make two members wait for each other, and the
 * store is not needed.
 *
 * Asks are counted, and the n-th of a member is the n-th of every other. Who has a memory whole
 * asks without a word to anybody, and who has it not must be answered all the same, whatever the
 * others have kept or thrown away since. So:
 *
 *  - whoever has memory of the name, for whatever ask, lets others find it;
 *  - who lets go says how often it has asked, with LEFT, and keeps its own window. It closes that
 *    only when all have let go and all have asked equally often: then nobody is behind who may
 * still need it, and the next ask of each begins anew with all;
 *  - who seeks says with which ask of its own, at the end of the name, as that tells a count too;
 *  - counts outlive memory: `past`, 32 bytes for each name and size.
 *
 * So the n-th ask is answered at the latest when all have asked n times: whoever has asked that
 * often keeps its window until this member has told that it has, too.
 *
 * A count that is lost, because words overtook one another or a connection failed, is told with the
 * next seek or leave. Until then memory stays, which harms nobody.
 *
 * A member that has died, or started again, lets go of everything by that. The incarnations are
 * part of the name: what members with other incarnations had is another memory.
 *
 * Mapped memory. A member writes into that of another through a mapping, which cannot be taken
 * back. Nobody minds: an owner uses the memory for nothing else as long as it has it, and when it
 * frees it, the pages stay until the last mapping of them has gone.
 *
 * An ask that can be answered at once is so in whichever thread has the baton; all else is the
 * loop's, in `look`, which sees what has changed.
 */
#include "engine/messages/symmetric.h"

#include "engine/engine.h"
#include "engine/graph/emit.h"
#include "engine/graph/graph.h"
#include "engine/graph/node.h"
#include "engine/ground/ground.h"
#include "engine/messages/members.h"
#include "engine/messages/membership.h"
#include "engine/messages/route.h"
#include "engine/messages/symmetric_past.h"
#include "net/group/members.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMED_MOST 8 /* ranks that a deadline's error names */

static const fry_window_watch watch;

static void set_life(fry_symmetric *memory, fry_symmetric_life life)
{
    fry_store_release(&memory->life, (uint8_t)life); /* pairs with fry_symmetric_life_of */
}

static size_t bytes_of(const ferry_group *group)
{
    return sizeof(fry_symmetric) + group->size * sizeof(fry_symmetric_part);
}

static bool is_own(const fry_symmetric *memory, uint32_t rank)
{
    return (int32_t)rank == memory->group->rank;
}

/* ---- memory ---- */

/* Any thread. The last one frees it. */
static void unretain(fry_symmetric *memory)
{
    if (fry_fetch_sub(&memory->references, 1) != 1)
        return;
    ferry_group *group = memory->group;
    ferry_engine *engine = group->engine;
    for (uint32_t i = 0; i < group->size; i++) {
        fry_shared_close(&memory->parts[i].map);
        if (memory->parts[i].window != NULL)
            fry_window_unretain(memory->parts[i].window);
    }
    if (memory->own != NULL)
        fry_window_unretain(memory->own);
    if (memory->buffer != NULL) {
        fry_buffer_unretain(memory->buffer);
        fry_wake(engine);
    }
    fry_free(&engine->memory, memory, bytes_of(group));
    fry_membership_unretain(group);
}

static void handle_unretain(ferry_symmetric *handle)
{
    if (fry_fetch_sub(&handle->references, 1) != 1)
        return;
    fry_symmetric *memory = handle->memory;
    fry_free(&memory->group->engine->memory, handle, sizeof *handle);
    unretain(memory);
}

void fry_symmetric_release(ferry_symmetric *handle)
{
    if (fry_symmetric_life_of(handle->memory) == FRY_SYMMETRIC_OVER) {
        handle_unretain(handle);
        return;
    }
    fry_members *members = handle->memory->group->members;
    fry_stack_push(&members->symmetric_releases, &handle->release_link);
    fry_wake(members->engine);
}

/* ---- attaching: any thread; `find`, `make` and `attach` with the group's lock ---- */

static fry_symmetric *find(const ferry_group *group, uint64_t members, size_t size_bytes,
                           const char *name)
{
    fry_symmetric *memory;
    TAILQ_FOREACH(memory, &group->symmetrics, entry) {
        if (memory->members == members && memory->buffer->size_bytes == size_bytes &&
            strcmp(memory->name, name) == 0)
            return memory;
    }
    return NULL;
}

/*
 * What is allocated before the lock is taken, as the loop takes it too, and must not wait for an
 * allocator.
 */
typedef struct spare {
    fry_symmetric *memory; /* NULL: none is to be made */
    fry_symmetric_past *past;
    uint32_t past_room; /* 0: none */
} spare;

static bool spare_past(const fry_memory *memory, spare *spare, uint32_t room)
{
    fry_free(memory, spare->past, spare->past_room * sizeof *spare->past);
    spare->past = fry_alloc(memory, room * sizeof *spare->past, _Alignof(fry_symmetric_past));
    spare->past_room = spare->past != NULL ? room : 0;
    return spare->past != NULL;
}

static void spare_free(const ferry_group *group, const spare *spare)
{
    const fry_memory *memory = &group->engine->memory;
    fry_free(memory, spare->past, spare->past_room * sizeof *spare->past);
    fry_free(memory, spare->memory, bytes_of(group));
}

/* Of the spare, with the buffer. There is room for the count. */
static fry_symmetric *make(ferry_group *group, spare *spare, ferry_buffer *buffer, uint64_t members,
                           const uint64_t key[2], const char *name)
{
    fry_symmetric *memory = spare->memory;
    spare->memory = NULL;
    memory->members = members;
    memory->key[0] = key[0];
    memory->key[1] = key[1];
    memory->asks = fry_symmetric_past_recall(group, key, members);
    memory->references = 1;
    memory->group = group;
    fry_membership_retain(group);
    memory->device = buffer->device;
    memory->buffer = buffer;
    TAILQ_INIT(&memory->asking);
    (void)snprintf(memory->name, sizeof memory->name, "%s", name);
    (void)snprintf(memory->own_name, sizeof memory->own_name, "+%s/%zx/%016" PRIx64, name,
                   buffer->size_bytes, members);
    for (uint32_t i = 0; i < group->size; i++)
        memory->parts[i].incarnation = group->news[i].info.incarnation;
    TAILQ_INSERT_TAIL(&group->symmetrics, memory, entry);
    return memory;
}

/*
 * Gives the handle its memory, if there is some or it can be made. Returns the counts that a larger
 * spare table is to have room for; 0: that is all.
 */
static uint32_t attach(ferry_group *group, ferry_symmetric *handle, const ferry_device *device,
                       size_t size_bytes, const char *name, spare *spare, ferry_buffer **buffer_p,
                       fry_refusal *why_p)
{
    uint64_t key[2], members = fry_symmetric_past_members(group);
    fry_symmetric *memory = find(group, members, size_bytes, name);
    if (memory != NULL && memory->device != device) {
        *why_p = FRY_REFUSED_SYMMETRIC_DEVICE;
        return 0;
    }
    if (memory == NULL && *buffer_p != NULL) {
        fry_symmetric_past_key(key, members, size_bytes, name);
        uint32_t wants = fry_symmetric_past_wants(group, key, members);
        if (wants > spare->past_room) {
            *why_p = wants > FERRY_SYMMETRIC_NAMES_MAX ? FRY_REFUSED_SYMMETRIC_NAMES : FRY_TAKEN;
            return *why_p == FRY_TAKEN ? wants : 0;
        }
        if (wants != 0)
            fry_symmetric_past_move(group, &spare->past, &spare->past_room);
        memory = make(group, spare, *buffer_p, members, key, name);
        *buffer_p = NULL;
    }
    handle->memory = memory;
    if (memory == NULL)
        return 0;
    memory->attached++;
    (void)fry_fetch_add(&memory->references, 1);
    return 0;
}

ferry_symmetric *fry_symmetric_attach(ferry_group *group, ferry_device *device, size_t size_bytes,
                                      const char *name, ferry_buffer **buffer_p, fry_refusal *why_p)
{
    const fry_memory *memory = &group->engine->memory;
    spare spare = {0};
    ferry_symmetric *handle = fry_alloc(memory, sizeof *handle, _Alignof(ferry_symmetric));
    *why_p = FRY_REFUSED_NO_MEMORY;
    if (handle == NULL)
        return NULL;
    if (*buffer_p != NULL)
        spare.memory = fry_alloc(memory, bytes_of(group), _Alignof(fry_symmetric));
    if (*buffer_p == NULL || spare.memory != NULL)
        *why_p = FRY_TAKEN;
    handle->references = 1;
    for (uint32_t wants = 1; wants != 0 && *why_p == FRY_TAKEN;) {
        (void)pthread_mutex_lock(&group->lock);
        wants = attach(group, handle, device, size_bytes, name, &spare, buffer_p, why_p);
        (void)pthread_mutex_unlock(&group->lock);
        if (wants != 0 && !spare_past(memory, &spare, wants))
            *why_p = FRY_REFUSED_NO_MEMORY;
    }
    spare_free(group, &spare);
    if (handle->memory != NULL)
        return handle;
    if (*why_p != FRY_TAKEN && *why_p != FRY_REFUSED_NO_MEMORY)
        *why_p = fry_refuse(group->engine, *why_p);
    fry_free(memory, handle, sizeof *handle);
    return NULL;
}

/* ---- asks ---- */

static void be_due(fry_turn *turn, fry_symmetric *memory)
{
    turn->wake = true;
    if (memory->is_due || memory->life == FRY_SYMMETRIC_OVER)
        return;
    memory->is_due = true;
    TAILQ_INSERT_TAIL(&memory->group->members->symmetrics_due, memory, due);
}

static void ask_is_over(ferry_symmetric *handle, ferry_symmetric_state outcome)
{
    handle->ask = NULL;
    fry_store_release(&handle->outcome, (uint8_t)outcome); /* pairs with fry_symmetric_outcome */
    TAILQ_REMOVE(&handle->memory->asking, handle, asking);
    handle->memory->waiting--;
}

static void succeed(fry_turn *turn, ferry_symmetric *handle)
{
    fry_symmetric *memory = handle->memory;
    fry_node *node = handle->ask;
    ask_is_over(handle, FERRY_SYMMETRIC_IS_WHOLE);
    memory->asks++;
    memory->holders++;
    memory->is_served = true;
    fry_emit(turn->engine, node, FERRY_TRACE_FIRED, 0);
    fry_graph_complete(turn, node);
}

/* On the loop. */
static void fail(fry_turn *turn, ferry_symmetric *handle, const fry_fault *from)
{
    fry_node *node = handle->ask;
    fry_fault fault = *from;
    fault.op = node->future.id;
    fault.label = fry_node_label(node);
    fry_error *error = fry_error_create(
        &turn->engine->memory, &fault, NULL, "symmetric memory %s: %s", handle->memory->name,
        fault.message[0] != '\0' ? fault.message : ferry_status_text(fault.status));
    ask_is_over(handle, FERRY_SYMMETRIC_HAS_FAILED);
    fry_graph_fail(turn, node, fault.status, error, false);
}

static void fail_all(fry_turn *turn, fry_symmetric *memory, const fry_fault *fault)
{
    ferry_symmetric *handle;
    while ((handle = TAILQ_FIRST(&memory->asking)) != NULL)
        fail(turn, handle, fault);
}

static void fail_released(fry_turn *turn, fry_symmetric *memory)
{
    static const fry_fault fault = {
        .status = FERRY_E_NOT_FOUND, .rank = -1, .message = "its handle was released"};
    ferry_symmetric *handle, *next;
    TAILQ_FOREACH_SAFE(handle, &memory->asking, asking, next) {
        if (handle->is_released)
            fail(turn, handle, &fault);
    }
}

/* The handle is given back, and its operation has begun or there is none. */
static void detach(fry_turn *turn, ferry_symmetric *handle)
{
    fry_symmetric *memory = handle->memory;
    if (memory->life == FRY_SYMMETRIC_OVER)
        return;
    if (fry_symmetric_outcome(handle) == FERRY_SYMMETRIC_IS_WHOLE)
        memory->holders--;
    memory->started -= handle->is_started;
    (void)pthread_mutex_lock(&memory->group->lock);
    memory->attached--;
    (void)pthread_mutex_unlock(&memory->group->lock);
    be_due(turn, memory);
}

static void begin(fry_turn *turn, ferry_symmetric *handle)
{
    handle->is_started = true;
    handle->memory->started++;
    if (handle->is_released)
        detach(turn, handle);
}

static void release(fry_turn *turn, ferry_symmetric *handle)
{
    handle->is_released = true;
    if (handle->ask != NULL)
        fail_released(turn, handle->memory);
    if (handle->is_started || !handle->has_submitted)
        detach(turn, handle);
    handle_unretain(handle);
}

/* ---- windows: the loop ---- */

static void leave(fry_turn *turn, const fry_symmetric *memory, fry_symmetric_part *part)
{
    ferry_window *window = part->window;
    part->is_here = false;
    part->window = NULL;
    fry_shared_close(&part->map);
    if (window == NULL)
        return;
    window->found.told = memory->asks;
    fry_window_end(turn, window);
    fry_window_unretain(window);
}

static void leave_all(fry_turn *turn, fry_symmetric *memory)
{
    for (uint32_t i = 0; i < memory->group->size; i++)
        leave(turn, memory, &memory->parts[i]);
}

/* True: it is open; or it has failed to open, and says so itself. */
static bool open_own(fry_turn *turn, fry_symmetric *memory)
{
    ferry_window *window = fry_window_make(memory->group, memory->own_name);
    if (window == NULL)
        return false;
    window->is_own = true;
    window->rights = FERRY_WINDOW_GET_PUT;
    window->size_bytes = memory->buffer->size_bytes;
    window->buffer = memory->buffer;
    fry_buffer_retain(memory->buffer);
    window->watch = &watch;
    window->watch_arg = memory;
    memory->own = window;
    fry_window_begin(turn, window);
    return true;
}

static bool seek_one(fry_turn *turn, fry_symmetric *memory, uint32_t rank)
{
    char name[FRY_WINDOW_NAME_BYTES + 16];
    ferry_group *group = memory->group;
    (void)snprintf(name, sizeof name, "%s/%" PRIx32, memory->own_name, memory->asks + 1);
    ferry_window *window = fry_window_make(group, name);
    if (window == NULL)
        return false;
    window->route = &group->routes[rank];
    window->watch = &watch;
    window->watch_arg = memory;
    memory->parts[rank].window = window;
    fry_window_begin(turn, window);
    return true;
}

static void seek(fry_turn *turn, fry_symmetric *memory)
{
    static const fry_fault no_memory = {.status = FERRY_E_NO_MEMORY, .rank = -1};
    bool can = memory->own != NULL || open_own(turn, memory);
    set_life(memory, FRY_SYMMETRIC_SEEKING);
    for (uint32_t i = 0; can && i < memory->group->size; i++)
        can = is_own(memory, i) || seek_one(turn, memory, i);
    if (can)
        return;
    memory->fault = no_memory;
    set_life(memory, FRY_SYMMETRIC_BROKEN);
}

static void lose(fry_symmetric *memory, uint32_t rank)
{
    const ferry_window *window = memory->parts[rank].window;
    memory->fault = window->fault;
    if (memory->fault.rank < 0)
        memory->fault.rank = (int32_t)rank;
    set_life(memory, FRY_SYMMETRIC_BROKEN);
}

/* What has come since, and what has gone. */
static void take_in(fry_symmetric *memory)
{
    bool is_whole = true;
    for (uint32_t i = 0; i < memory->group->size; i++) {
        fry_symmetric_part *part = &memory->parts[i];
        if (is_own(memory, i))
            continue;
        if (part->window->life >= FRY_WINDOW_ENDING) {
            lose(memory, i);
            return;
        }
        if (part->window->life == FRY_WINDOW_USABLE && !part->is_here) {
            const fry_shared_place *place = &part->window->found.place;
            part->is_here = true;
            if (place->number != 0 && memory->device->host_lane != NULL)
                (void)fry_shared_open_writable(&part->map, place);
        }
        is_whole = is_whole && part->is_here;
    }
    if (is_whole)
        set_life(memory, FRY_SYMMETRIC_WHOLE);
}

/* ---- the end ---- */

static void remember(const fry_symmetric *memory)
{
    fry_symmetric_past *past = fry_symmetric_past_find(memory->group, memory->key);
    if (past != NULL)
        past->asks = memory->asks;
}

/* False: there is an ask that has not come here yet. The membership's end waits for none. */
static bool be_over(fry_turn *turn, fry_symmetric *memory, bool is_ended)
{
    ferry_group *group = memory->group;
    (void)pthread_mutex_lock(&group->lock);
    bool may = is_ended || memory->attached == memory->started;
    if (may) {
        TAILQ_REMOVE(&group->symmetrics, memory, entry);
        remember(memory);
    }
    (void)pthread_mutex_unlock(&group->lock);
    if (!may)
        return false;
    set_life(memory, FRY_SYMMETRIC_OVER);
    if (memory->is_due)
        TAILQ_REMOVE(&group->members->symmetrics_due, memory, due);
    memory->is_due = false;
    for (uint32_t i = 0; i < group->size; i++) {
        if (memory->holders == 0)
            leave(turn, memory, &memory->parts[i]);
        else if (memory->parts[i].window != NULL) /* lent to who has a handle */
            fry_window_end(turn, memory->parts[i].window);
    }
    if (memory->own != NULL)
        fry_window_end(turn, memory->own);
    unretain(memory);
    return true;
}

static bool is_gone(const fry_symmetric *memory, uint32_t rank)
{
    const ferry_group *group = memory->group;
    const fry_group_member *member =
        group->net != NULL ? fry_group_member_at(group->net, rank) : NULL;
    return member == NULL || member->state != FERRY_MEMBER_HERE ||
           member->incarnation != memory->parts[rank].incarnation;
}

static bool have_all_let_go(const fry_symmetric *memory)
{
    if (memory->own == NULL || memory->own->grants != 0)
        return memory->own == NULL;
    for (uint32_t i = 0; i < memory->group->size; i++) {
        if (!is_own(memory, i) && memory->parts[i].asks != memory->asks && !is_gone(memory, i))
            return false;
    }
    return true;
}

/* Nobody here uses it: it is over, or stays for the others. */
static void rest(fry_turn *turn, fry_symmetric *memory)
{
    leave_all(turn, memory);
    set_life(memory, FRY_SYMMETRIC_RESTING);
    if (!memory->is_served || have_all_let_go(memory))
        (void)be_over(turn, memory, false);
}

static bool is_idle(const fry_symmetric *memory)
{
    return memory->life == FRY_SYMMETRIC_WHOLE && memory->holders == 0 && memory->waiting == 0;
}

/* The last one used is kept, and the first goes if there are too many. */
static void keep_idle(fry_turn *turn, fry_symmetric *memory)
{
    ferry_group *group = memory->group;
    fry_symmetric *other, *first = NULL;
    uint32_t count = 0;
    (void)pthread_mutex_lock(&group->lock);
    TAILQ_REMOVE(&group->symmetrics, memory, entry);
    TAILQ_INSERT_TAIL(&group->symmetrics, memory, entry);
    TAILQ_FOREACH(other, &group->symmetrics, entry) {
        if (!is_idle(other))
            continue;
        first = first == NULL ? other : first;
        count++;
    }
    (void)pthread_mutex_unlock(&group->lock);
    if (count > FERRY_SYMMETRIC_IDLE_MAX)
        rest(turn, first);
}

/* ---- the loop's look ---- */

static void be_unused(fry_turn *turn, fry_symmetric *memory)
{
    switch ((fry_symmetric_life)memory->life) {
    case FRY_SYMMETRIC_NEW:
        (void)be_over(turn, memory, false);
        break;
    case FRY_SYMMETRIC_WHOLE:
        keep_idle(turn, memory);
        break;
    case FRY_SYMMETRIC_SEEKING:
    case FRY_SYMMETRIC_BROKEN:
    case FRY_SYMMETRIC_RESTING:
        rest(turn, memory);
        break;
    case FRY_SYMMETRIC_OVER:
        break;
    }
}

static void look(fry_turn *turn, fry_symmetric *memory)
{
    fry_refusal why = fry_membership_refusal(memory->group);
    fail_released(turn, memory);
    if (memory->own != NULL && memory->own->life >= FRY_WINDOW_ENDING) {
        if (memory->life != FRY_SYMMETRIC_BROKEN)
            memory->fault = memory->own->fault;
        fail_all(turn, memory, &memory->fault);
        (void)be_over(turn, memory, true);
        return;
    }
    if (why != FRY_TAKEN && memory->waiting != 0) {
        const fry_fault fault = fry_error_fault(fry_refusal_error(why));
        fail_all(turn, memory, &fault);
    }
    if (memory->life == FRY_SYMMETRIC_BROKEN && memory->holders == 0) {
        leave_all(turn, memory); /* the last handle was given back, and there may be new ones */
        set_life(memory, FRY_SYMMETRIC_RESTING);
    }
    if (memory->waiting != 0 &&
        (memory->life == FRY_SYMMETRIC_NEW || memory->life == FRY_SYMMETRIC_RESTING))
        seek(turn, memory);
    if (memory->life == FRY_SYMMETRIC_SEEKING || memory->life == FRY_SYMMETRIC_WHOLE)
        take_in(memory);
    while (memory->life == FRY_SYMMETRIC_WHOLE && memory->waiting != 0)
        succeed(turn, TAILQ_FIRST(&memory->asking));
    if (memory->life == FRY_SYMMETRIC_BROKEN)
        fail_all(turn, memory, &memory->fault);
    if (memory->waiting == 0 && memory->holders == 0)
        be_unused(turn, memory);
}

bool fry_symmetrics_have_work(const fry_members *members)
{
    return !TAILQ_EMPTY(&members->symmetrics_due) ||
           fry_load_relaxed(&members->symmetric_releases.top) != NULL;
}

size_t fry_symmetrics_turn(fry_turn *turn, fry_members *members)
{
    size_t done = 0;
    fry_symmetric *memory;
    fry_link *item = fry_stack_take_all(&members->symmetric_releases);
    while (item != NULL) {
        ferry_symmetric *handle = FRY_CONTAINER(item, ferry_symmetric, release_link);
        item = item->next;
        release(turn, handle);
        done++;
    }
    while ((memory = TAILQ_FIRST(&members->symmetrics_due)) != NULL) {
        TAILQ_REMOVE(&members->symmetrics_due, memory, due);
        memory->is_due = false;
        look(turn, memory);
        done++;
    }
    return done;
}

void fry_symmetrics_look(fry_turn *turn, ferry_group *group)
{
    fry_symmetric *memory;
    (void)pthread_mutex_lock(&group->lock); /* others attach meanwhile */
    TAILQ_FOREACH(memory, &group->symmetrics, entry) {
        if (memory->life == FRY_SYMMETRIC_RESTING)
            be_due(turn, memory);
    }
    (void)pthread_mutex_unlock(&group->lock);
}

static fry_symmetric *first_of(ferry_group *group)
{
    (void)pthread_mutex_lock(&group->lock);
    fry_symmetric *memory = TAILQ_FIRST(&group->symmetrics);
    (void)pthread_mutex_unlock(&group->lock);
    return memory;
}

/* What is attached later is over by its handle's release, as no ask for it is taken any more. */
void fry_symmetrics_end(fry_turn *turn, ferry_group *group)
{
    fry_symmetric *memory;
    const fry_fault fault = {
        .status = FERRY_E_DEAD, .rank = group->rank, .message = "this member has left the group"};
    while ((memory = first_of(group)) != NULL) {
        fail_all(turn, memory, &fault);
        if (memory->life != FRY_SYMMETRIC_BROKEN)
            memory->fault = fault;
        (void)be_over(turn, memory, true);
    }
}

/* ---- what windows tell: baton ---- */

static void changed(fry_turn *turn, ferry_window *window)
{
    be_due(turn, window->watch_arg);
}

static void has_asked(fry_turn *turn, fry_symmetric *memory, uint32_t rank, uint32_t asks)
{
    if (asks <= memory->parts[rank].asks)
        return;
    memory->parts[rank].asks = asks;
    if (memory->life == FRY_SYMMETRIC_RESTING)
        be_due(turn, memory);
}

/* The name has come from outside. */
static bool is_meant(fry_turn *turn, ferry_window *window, ferry_rank rank, const char *name)
{
    fry_symmetric *memory = window->watch_arg;
    size_t length = strlen(memory->own_name);
    if (strncmp(name, memory->own_name, length) != 0 || name[length] != '/')
        return false;
    char *end;
    unsigned long ask = strtoul(name + length + 1, &end, 16);
    if (*end != '\0' || ask == 0 || ask > UINT32_MAX)
        return false;
    has_asked(turn, memory, rank, (uint32_t)ask - 1);
    return true;
}

static void left(fry_turn *turn, ferry_window *window, ferry_rank rank, uint32_t told)
{
    fry_symmetric *memory = window->watch_arg;
    has_asked(turn, memory, rank, told);
    if (memory->life == FRY_SYMMETRIC_RESTING)
        be_due(turn, memory);
}

static const fry_window_watch watch = {.changed = changed, .is_meant = is_meant, .left = left};

/* ---- the row ---- */

static void start(fry_turn *turn, fry_node *node)
{
    ferry_symmetric *handle = node->op.symmetric.handle;
    fry_symmetric *memory = handle->memory;
    fry_graph_issued(turn, node);
    if (memory->life == FRY_SYMMETRIC_OVER) { /* the membership has ended */
        fry_graph_fail(turn, node, FERRY_E_DEAD, NULL, false);
        return;
    }
    begin(turn, handle);
    handle->ask = node;
    TAILQ_INSERT_TAIL(&memory->asking, handle, asking);
    memory->waiting++;
    if (memory->life == FRY_SYMMETRIC_WHOLE && !memory->is_due && !handle->is_released &&
        fry_membership_takes(memory->group) == FERRY_OK) {
        succeed(turn, handle);
        return;
    }
    be_due(turn, memory);
}

/* It was cancelled, or its deadline has passed; or this file has failed it. */
static void failed(fry_turn *turn, fry_node *node, bool is_under_way)
{
    (void)is_under_way;
    ferry_symmetric *handle = node->op.symmetric.handle;
    if (handle->ask == node)
        ask_is_over(handle, FERRY_SYMMETRIC_HAS_FAILED);
    else
        fry_store_release(&handle->outcome, FERRY_SYMMETRIC_HAS_FAILED);
    if (handle->memory->life == FRY_SYMMETRIC_OVER)
        return;
    if (!handle->is_started)
        begin(turn, handle);
    be_due(turn, handle->memory);
}

static void freed(ferry_engine *engine, fry_node *node)
{
    (void)engine;
    handle_unretain(node->op.symmetric.handle);
}

static void describe(const ferry_engine *engine, const fry_node *node, fry_kind_view *view)
{
    (void)engine;
    const fry_symmetric *memory = node->op.symmetric.handle->memory;
    if (node->state == FRY_NODE_ISSUED)
        view->reason = memory->is_due ? FRY_DUMP_LOOP : FRY_DUMP_MEMBER;
}

static int32_t lacks(const fry_node *node, char *text, size_t text_bytes)
{
    const fry_symmetric *memory = node->op.symmetric.handle->memory;
    int32_t first = -1;
    uint32_t count = 0;
    size_t length = 0;
    for (uint32_t i = 0; i < memory->group->size; i++) {
        if (is_own(memory, i) || memory->parts[i].is_here)
            continue;
        first = first < 0 ? (int32_t)i : first;
        if (count++ < NAMED_MOST && length < text_bytes)
            length += (size_t)snprintf(text + length, text_bytes - length, "%s%" PRIu32,
                                       count == 1 ? "there is no memory of ranks " : ", ", i);
    }
    if (count > NAMED_MOST && length < text_bytes)
        (void)snprintf(text + length, text_bytes - length, " and %" PRIu32 " more",
                       count - NAMED_MOST);
    return first;
}

const fry_op_kind fry_kind_symmetric = {
    .traits = FRY_KIND_STAYS,
    .free = freed,
    .start = start,
    .failed = failed,
    .lacks = lacks,
    .describe = describe,
};
