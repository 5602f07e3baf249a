/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a receive reads in a neighbour's memory (net/peer/view.c): one copy on the device, out of an
 * import (import.c), by a node of the graph like that of a chunk (stage.c). A view that finds no
 * import to spare, or memory that can't be opened, is answered at once: its message comes in
 * pieces. So does a message out of memory of the pool, which no other process can open.
 *
 * A neighbour that frees such memory asks that it be closed (net/peer/hide.c), and is answered when
 * it is.
 */
#include "engine/messages/neighbour.h"

#include "engine/engine.h"
#include "engine/messages/chunk.h"
#include "engine/messages/groups.h"
#include "engine/messages/hidden.h"
#include "engine/messages/import.h"
#include "engine/messages/members.h"
#include "engine/messages/message.h"
#include "engine/messages/route.h"
#include "engine/messages/stage.h"
#include "net/peer/ask.h"
#include "net/peer/hide.h"

#include <string.h>

_Static_assert(sizeof(fry_memory_share) == FRY_PLACE_BYTES, "a place is a share, as it is");

/* ---- showing ---- */

bool fry_neighbour_show(void *turn, fry_message *message, fry_place *place_p)
{
    (void)turn;
    const fry_transfer *transfer = (const fry_transfer *)(const void *)message;
    const fry_message_op *op = &transfer->node->op.message;
    const ferry_buffer *buffer = op->buffer;
    fry_device *device = buffer->device->device;
    fry_memory_share share;
    fry_fault fault;
    if (device->ops->memory_share == NULL ||
        (!buffer->is_wrapped && buffer->kind == FRY_MEMORY_DEFAULT) ||
        device->ops->memory_share(device, (char *)buffer->data + op->offset, message->size_bytes,
                                  &share, &fault) != FERRY_OK)
        return false;
    memcpy(place_p->bytes, &share, sizeof share);
    fry_hidden_shown(transfer->route, op->buffer, share.generation);
    return true;
}

/* ---- reading ---- */

static fry_import *import_of(const fry_slice *view)
{
    return view->memory;
}

void fry_neighbour_shown(void *arg, fry_slice *view, const fry_place *place)
{
    fry_turn *turn = arg;
    fry_transfer *transfer = (fry_transfer *)(void *)view->message;
    fry_stages *stages = &transfer->route->group->members->stages;
    size_t size_bytes = transfer->message.size_bytes;
    fry_memory_share share;
    memcpy(&share, place->bytes, sizeof share);
    bool is_whole = share.offset <= share.allocation_bytes &&
                    size_bytes <= share.allocation_bytes - share.offset;
    fry_import *import = is_whole
                             ? fry_import_use(&stages->imports, transfer->route,
                                              transfer->node->op.message.buffer->device, &share)
                             : NULL;
    if (import == NULL) {
        fry_peer_viewed(view, false, turn);
        return;
    }
    view->memory = import;
    view->offset = share.offset;
    TAILQ_INSERT_TAIL(&stages->views, view, owners);
    turn->engine->has_errands = true;
}

static void copy(fry_turn *turn, fry_stages *stages, fry_slice *view, fry_stage *stage)
{
    view->owner = stage;
    stage->slice = view;
    stage->transfer = (fry_transfer *)(void *)view->message;
    stage->import = import_of(view);
    stage->offset = view->offset;
    stage->is_small = stage->is_ahead = false;
    fry_stage_copy(turn, stages, stage);
}

/* False: it has to wait. */
static bool go_on(fry_turn *turn, fry_stages *stages, fry_slice *view)
{
    fry_import *import = import_of(view);
    if (view->is_given_up || import->state == FRY_IMPORT_REFUSED ||
        fry_stage_views_are_stuck(turn->engine, stages)) {
        TAILQ_REMOVE(&stages->views, view, owners);
        fry_import_leave(&stages->imports, import);
        fry_peer_viewed(view, false, turn);
        return true;
    }
    fry_link *item =
        import->state == FRY_IMPORT_OPEN ? fry_queue_pop(&stages->free[FRY_STAGE_VIEW]) : NULL;
    if (item == NULL)
        return false;
    TAILQ_REMOVE(&stages->views, view, owners);
    copy(turn, stages, view, FRY_CONTAINER(item, fry_stage, link));
    return true;
}

/* Going on may begin other views, at the end of the list, and end some. */
static size_t views_go_on(fry_turn *turn, fry_stages *stages)
{
    size_t done = 0;
    fry_slice *view = TAILQ_FIRST(&stages->views);
    while (view != NULL) {
        bool has_gone = go_on(turn, stages, view);
        done += has_gone;
        view = has_gone ? TAILQ_FIRST(&stages->views) : TAILQ_NEXT(view, owners);
    }
    return done;
}

/* ---- closing ---- */

void fry_neighbour_hide(void *arg, fry_peer *peer, uint64_t generation)
{
    fry_turn *turn = arg;
    fry_route *route = fry_peer_arg(peer);
    fry_stages *stages = &route->group->members->stages;
    fry_imports_hide(&stages->imports, route, generation);
    route->is_closing = true;
    route->closing_generation = generation;
    LIST_INSERT_HEAD(&stages->closing, route, closing);
    stages->imports.has_news = true;
    turn->engine->has_errands = true;
}

static void close_no_more(fry_route *route)
{
    LIST_REMOVE(route, closing);
    route->is_closing = false;
}

static size_t answer_closed(fry_turn *turn, fry_stages *stages)
{
    size_t done = 0;
    fry_route *route, *next;
    LIST_FOREACH_SAFE(route, &stages->closing, closing, next) {
        if (fry_imports_have(&stages->imports, route, route->closing_generation))
            continue;
        close_no_more(route);
        fry_peer_has_closed(fry_route_made_peer(route), turn);
        fry_route_launched(turn, route);
        done++;
    }
    return done;
}

void fry_neighbour_gone(void *turn, fry_peer *peer)
{
    fry_route *route = fry_peer_arg(peer);
    if (route->is_closing)
        close_no_more(route);
    fry_imports_part(&route->group->members->stages.imports, route);
    fry_hidden_part(turn, route);
}

size_t fry_neighbours_run(fry_turn *turn, fry_members *members)
{
    fry_imports *imports = &members->stages.imports;
    size_t done = 0;
    if (turn->is_loop) {
        imports->has_news = false;
        done += fry_imports_turn(imports);
    }
    done += views_go_on(turn, &members->stages);
    return done + answer_closed(turn, &members->stages);
}
