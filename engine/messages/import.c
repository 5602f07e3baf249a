/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Imports. An allocation of another process is opened once for each device that reads it, and kept:
 * opening takes the driver longer than most copies. Who reads it counts as a user.
 *
 * The driver may block in opening, so the loop does that without the baton, one at a time
 * (fry_imports_work). Closing may take it as long as something runs on the GPU, a program's kernel
 * perhaps that waits for a message: the device does it, and says when it is done. What the other
 * member says of its memory is checked by neighbour.c and by the device: it can make this member
 * read nothing but what it has shown.
 *
 * An import is closed when its owner asks for that, when its connection is over, when there are
 * many, and when it is in the way: the other process has freed that allocation, and has another at
 * its address, which can only be opened when the old one is closed. None is closed while it has
 * users. What waits to be opened does not wait for what is closed: if that is still in the way, the
 * message comes in pieces, and a later one tries again.
 */
#include "engine/messages/import.h"

#include "base/lf.h"

#include <string.h>

/* ---- imports ---- */

void fry_imports_init(fry_imports *imports)
{
    TAILQ_INIT(&imports->used);
}

static void close_soon(const fry_import *import, uint32_t *is_closed)
{
    fry_device *device = import->buffer.device->device;
    device->ops->memory_close_shared(device, import->buffer.data, is_closed);
}

static void give(fry_imports *imports, fry_import *import)
{
    TAILQ_REMOVE(&imports->used, import, entry);
    imports->count--;
    import->state = FRY_IMPORT_FREE;
}

/* Nobody reads it: it goes, now or when it is closed. */
static void let_go(fry_imports *imports, fry_import *import)
{
    if (import->state == FRY_IMPORT_OPEN) {
        import->state = FRY_IMPORT_UNWANTED;
        imports->has_news = true;
    } else if (import->state == FRY_IMPORT_REFUSED || import->state == FRY_IMPORT_WANTED) {
        give(imports, import);
    }
}

/* Nobody is to read it any more; or what was in the way of its opening may be gone next time. */
static bool is_done_with(const fry_import *import)
{
    return import->route == NULL || import->is_hidden ||
           (import->state == FRY_IMPORT_REFUSED && import->was_in_the_way);
}

void fry_import_leave(fry_imports *imports, fry_import *import)
{
    imports->has_news = true; /* who waits may have its copy, or its place */
    if (--import->users == 0 && is_done_with(import))
        let_go(imports, import);
}

void fry_imports_hide(fry_imports *imports, const fry_route *route, uint64_t generation)
{
    for (size_t i = 0; i < FRY_IMPORTS_MOST; i++) {
        fry_import *import = &imports->all[i];
        if (import->state == FRY_IMPORT_FREE || import->route != route ||
            import->share.generation != generation)
            continue;
        import->is_hidden = true;
        if (import->users == 0)
            let_go(imports, import);
    }
}

bool fry_imports_have(const fry_imports *imports, const fry_route *route, uint64_t generation)
{
    for (size_t i = 0; i < FRY_IMPORTS_MOST; i++) {
        const fry_import *import = &imports->all[i];
        if (import->state != FRY_IMPORT_FREE && import->route == route && import->is_hidden &&
            import->share.generation == generation)
            return true;
    }
    return false;
}

void fry_imports_part(fry_imports *imports, const fry_route *route)
{
    for (size_t i = 0; i < FRY_IMPORTS_MOST; i++) {
        fry_import *import = &imports->all[i];
        if (import->state == FRY_IMPORT_FREE || import->route != route)
            continue;
        import->route = NULL;
        if (import->users == 0)
            let_go(imports, import);
    }
}

static bool is_of(const fry_import *import, const fry_route *route, const ferry_device *device,
                  const fry_memory_share *share)
{
    return import->route == route && import->buffer.device == device &&
           import->share.generation == share->generation &&
           import->share.allocation_bytes == share->allocation_bytes &&
           memcmp(import->share.handle, share->handle, sizeof share->handle) == 0 &&
           !import->is_hidden && import->state != FRY_IMPORT_UNWANTED &&
           import->state != FRY_IMPORT_CLOSING;
}

/* Lets go of the one that was not read for the longest time. */
static void make_room(fry_imports *imports)
{
    fry_import *import;
    TAILQ_FOREACH(import, &imports->used, entry) {
        if (import->users == 0 &&
            (import->state == FRY_IMPORT_OPEN || import->state == FRY_IMPORT_REFUSED)) {
            let_go(imports, import);
            return;
        }
    }
}

static fry_import *take(fry_imports *imports, fry_route *route, ferry_device *device,
                        const fry_memory_share *share)
{
    if (imports->count >= FRY_IMPORTS_KEPT)
        make_room(imports);
    if (imports->count == FRY_IMPORTS_MOST)
        return NULL;
    fry_import *import = imports->all;
    while (import->state != FRY_IMPORT_FREE)
        import++;
    *import = (fry_import){.buffer = {.references = 1,
                                      .is_wrapped = true,
                                      .engine = device->engine,
                                      .device = device,
                                      .size_bytes = share->allocation_bytes},
                           .share = *share,
                           .route = route,
                           .state = FRY_IMPORT_WANTED};
    TAILQ_INSERT_TAIL(&imports->used, import, entry);
    imports->count++;
    imports->has_news = true;
    return import;
}

static fry_import *find(fry_imports *imports, fry_route *route, ferry_device *device,
                        const fry_memory_share *share)
{
    fry_import *import;
    TAILQ_FOREACH(import, &imports->used, entry) {
        if (!is_of(import, route, device, share))
            continue;
        TAILQ_REMOVE(&imports->used, import, entry);
        TAILQ_INSERT_TAIL(&imports->used, import, entry);
        return import;
    }
    return take(imports, route, device, share);
}

/* ---- opening and closing ---- */

size_t fry_imports_work(fry_imports *imports)
{
    const fry_import *import = imports->job;
    if (fry_likely(import == NULL || imports->is_done))
        return 0;
    fry_device *device = import->buffer.device->device;
    fry_fault fault;
    imports->status =
        device->ops->memory_open_shared(device, &import->share, &imports->memory, &fault);
    imports->is_done = true;
    return 1;
}

/* Whether the device has closed it. */
static bool is_closed(const fry_import *import)
{
    return import->state == FRY_IMPORT_CLOSING && fry_load_acquire(&import->is_closed) != 0;
}

bool fry_imports_are_due(const fry_imports *imports)
{
    bool is_due = imports->has_news || imports->job != NULL;
    for (size_t i = 0; i < FRY_IMPORTS_MOST && imports->closing_count != 0 && !is_due; i++)
        is_due = is_closed(&imports->all[i]);
    return is_due;
}

/* Lets go of all other imports of that device that nobody reads. True: some were open. */
static bool clear_way(fry_imports *imports, const fry_import *for_import)
{
    bool has_some = false;
    for (size_t i = 0; i < FRY_IMPORTS_MOST; i++) {
        fry_import *import = &imports->all[i];
        if (import == for_import || import->buffer.device != for_import->buffer.device ||
            import->state == FRY_IMPORT_FREE || import->users != 0)
            continue;
        has_some |= import->state == FRY_IMPORT_OPEN || import->state == FRY_IMPORT_UNWANTED;
        let_go(imports, import);
    }
    return has_some;
}

/* The role has opened one, or not. */
static void end_job(fry_imports *imports)
{
    fry_import *import = imports->job;
    imports->job = NULL;
    imports->has_news = true;
    if (imports->status == FERRY_OK) {
        import->buffer.data = imports->memory;
        import->state = FRY_IMPORT_OPEN;
    } else if (imports->status == FERRY_E_AGAIN && !import->has_cleared &&
               clear_way(imports, import)) {
        import->has_cleared = true;
        import->state = FRY_IMPORT_WANTED;
    } else {
        import->state = FRY_IMPORT_REFUSED;
        import->was_in_the_way = imports->status == FERRY_E_AGAIN;
    }
    if (import->users == 0 && is_done_with(import))
        let_go(imports, import);
}

static void begin_to_close(fry_imports *imports, fry_import *import)
{
    import->state = FRY_IMPORT_CLOSING;
    fry_store_relaxed(&import->is_closed, 0);
    imports->closing_count++;
    close_soon(import, &import->is_closed);
}

/* Ends what is closed, and begins to close. */
static size_t close_unwanted(fry_imports *imports)
{
    size_t done = 0;
    fry_import *import, *next;
    TAILQ_FOREACH_SAFE(import, &imports->used, entry, next) {
        if (import->state == FRY_IMPORT_UNWANTED) {
            begin_to_close(imports, import);
            done++;
        } else if (is_closed(import)) {
            give(imports, import);
            imports->closing_count--;
            imports->has_news = true;
            done++;
        }
    }
    return done;
}

static size_t begin_to_open(fry_imports *imports)
{
    fry_import *import;
    TAILQ_FOREACH(import, &imports->used, entry) {
        if (import->state == FRY_IMPORT_WANTED)
            break;
    }
    if (import == NULL)
        return 0;
    import->state = FRY_IMPORT_OPENING;
    imports->job = import;
    imports->is_done = false;
    return 1;
}

fry_import *fry_import_use(fry_imports *imports, fry_route *route, ferry_device *device,
                           const fry_memory_share *share)
{
    fry_import *import = find(imports, route, device, share);
    if (import == NULL)
        return NULL;
    import->users++;
    imports->has_news = true;
    return import;
}

size_t fry_imports_turn(fry_imports *imports)
{
    size_t done = 0;
    if (imports->job != NULL && imports->is_done) {
        end_job(imports);
        done++;
    }
    done += close_unwanted(imports);
    return imports->job == NULL ? done + begin_to_open(imports) : done;
}

void fry_imports_free(fry_imports *imports)
{
    if (imports->job != NULL && imports->is_done)
        end_job(imports);
    for (size_t i = 0; i < FRY_IMPORTS_MOST; i++) {
        const fry_import *import = &imports->all[i];
        if (import->users == 0 &&
            (import->state == FRY_IMPORT_OPEN || import->state == FRY_IMPORT_UNWANTED))
            close_soon(import, NULL);
    }
}
