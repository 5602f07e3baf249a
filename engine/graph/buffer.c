/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers. The memory is freed when the user's handle and all nodes that touch it are gone, on the
 * loop: the user's free_fn is a callback, and a submitting thread that has the baton must not call
 * the system's allocator.
 */
#include "engine/graph/buffer.h"

#include "engine/engine.h"
#include "engine/graph/hazard.h"
#include "engine/graph/lane.h"
#include "engine/graph/node.h"
#include "engine/graph/turn.h"
#include "engine/ground/ground.h"

/*
 * Asked once: page-locked memory stays page-locked while a GPU may copy it. Two threads that ask at
 * the same time get the same answer.
 */
static bool is_pageable(ferry_buffer *buffer, fry_device *gpu)
{
    uint8_t pages = fry_load_relaxed(&buffer->pages);
    if (pages == FRY_PAGES_UNASKED) {
        bool is_pinned = gpu->ops->memory_is_pinned == NULL ||
                         gpu->ops->memory_is_pinned(gpu, buffer->data, buffer->size_bytes);
        pages = is_pinned ? FRY_PAGES_PINNED : FRY_PAGES_PAGEABLE;
        fry_store_relaxed(&buffer->pages, pages);
    }
    return pages == FRY_PAGES_PAGEABLE;
}

fry_lane *fry_lane_of_gpu(ferry_buffer *dst, ferry_buffer *src, size_t plain_bytes)
{
    fry_device *to = dst->device->device, *from = src->device->device;
    if (dst->device->host_lane != NULL)
        return from->ops->copy_stream(to, from, is_pageable(dst, from))->lane;
    bool from_pageable = src->device->host_lane != NULL && is_pageable(src, to);
    fry_stream *small = from_pageable && to->ops->small_stream != NULL
                            ? to->ops->small_stream(to, plain_bytes)
                            : NULL;
    return small != NULL ? small->lane : to->ops->copy_stream(to, from, from_pageable)->lane;
}

void fry_buffer_unretain(ferry_buffer *buffer)
{
    if (fry_fetch_sub(&buffer->references, 1) != 1)
        return;
    fry_stack_push(&buffer->engine->frees, &buffer->free_link); /* the caller wakes the loop */
}

fry_link *fry_buffers_forget(fry_turn *turn, size_t budget)
{
    ferry_engine *engine = turn->engine;
    fry_link *first = engine->frees_left;
    if (first == NULL)
        first = fry_stack_take_all(&engine->frees);
    fry_link *next = first, *to_free = NULL, **end = &to_free;
    for (size_t count = 0; count < budget && next != NULL; count++) {
        fry_link *link = next;
        ferry_buffer *buffer = FRY_CONTAINER(link, ferry_buffer, free_link);
        next = next->next;
        fry_hazard_close(turn, buffer);
        if (fry_unlikely(buffer->shown_generation != 0) && engine->members_hide(turn, buffer))
            continue; /* it comes here again */
        *end = link;
        end = &link->next;
    }
    *end = NULL;
    fry_store_relaxed(&engine->frees_left, next);
    return to_free;
}

size_t fry_buffers_free(ferry_engine *engine, fry_link *buffers)
{
    fry_callback_frame frame;
    fry_callbacks_begin(&frame, engine); /* free_fn is a callback like any other */
    size_t count = 0;
    while (buffers != NULL) {
        ferry_buffer *buffer = FRY_CONTAINER(buffers, ferry_buffer, free_link);
        buffers = buffers->next;
        if (!buffer->is_wrapped) {
            fry_device *from = buffer->memory_device;
            from->ops->memory_free(from, buffer->data, buffer->size_bytes,
                                   (fry_memory_kind)buffer->kind);
        } else if (buffer->free_fn != NULL) {
            buffer->free_fn(buffer->free_arg, buffer->data, buffer->size_bytes);
        }
        fry_free(&engine->memory, buffer, sizeof *buffer);
        count++;
        if (fry_gives_up(engine))
            break;
    }
    while (buffers != NULL) { /* in another tick */
        fry_link *next = buffers->next;
        fry_stack_push(&engine->frees, buffers);
        buffers = next;
    }
    fry_callbacks_end(&frame);
    return count;
}
