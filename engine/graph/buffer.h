/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers: memory, and the operations that use it. */
#ifndef FRY_ENGINE_GRAPH_BUFFER_H
#define FRY_ENGINE_GRAPH_BUFFER_H

#include "engine/graph/lane.h"
#include "engine/ground/ground.h"

#include <bsd/sys/queue.h>

struct fry_pieces {
    fry_segment *rbh_root;
};
struct fry_reads {
    fry_segment *rbh_root;
};
struct fry_spans {
    fry_segment *rbh_root;
};

/* Whether a GPU can copy a host buffer's memory directly. */
enum fry_pages {
    FRY_PAGES_UNASKED = 0, /* no copy between the buffer and a GPU was submitted yet */
    FRY_PAGES_PINNED,      /* page-locked */
    FRY_PAGES_PAGEABLE,    /* not page-locked: copies go through the backend's staging */
};

struct ferry_buffer {
    uint32_t references;
    bool is_wrapped;
    bool is_source; /* operations only read it */
    uint8_t kind;   /* fry_memory_kind, of memory that ferry allocated */
    uint8_t pages;  /* fry_pages, of a host's buffer; any thread writes it, and all find the same */
    ferry_engine *engine;
    ferry_device *device;
    fry_device *memory_device; /* frees the memory: a GPU's device for pinned memory */
    void *data;
    size_t size_bytes;
    ferry_free_fn free_fn;
    void *free_arg;
    fry_link free_link;
    int32_t refused; /* any thread: fry_refusal of a refused write that is not recorded yet, because
                        nothing could be put in the inbox; the buffer is barred meanwhile */
    fry_link refused_link; /* engine->refused_buffers, or refused_noted */
    /* With the baton: entries of users, and poison, if any; see hazard.c. */
    struct fry_pieces pieces;
    fry_segment *newest;   /* the piece that entered last; NULL: it is gone */
    size_t newest_gap_end; /* from its end to here no entry exists; 0: unknown */
    struct fry_reads reads;
    fry_layer *layers;
    struct fry_spans poisons;
    fry_error *wide_poison; /* the whole buffer is poisoned, because room or memory was missing */
    bool has_more;          /* has any of the four below */
    LIST_ENTRY(ferry_buffer) poisoned; /* is_listed: in engine->poisoned */
    bool is_listed;
    uint64_t shown_generation; /* of memory that other processes may have open; 0: none has.
                                  engine/messages/hidden.c, like the rest */
    uint64_t hide_serial;
    TAILQ_ENTRY(ferry_buffer) hidden;
    uint32_t hide_awaited;
};

static inline void fry_buffer_retain(ferry_buffer *buffer)
{
    (void)fry_fetch_add(&buffer->references, 1);
}

/* Releases a reference. At zero the loop will free the buffer; the caller wakes the loop. */
void fry_buffer_unretain(ferry_buffer *buffer);

/*
 * Takes at most `budget` unused buffers out of what lists them; with the baton. The second function
 * then frees their memory; on the loop, without the baton.
 */
fry_link *fry_buffers_forget(fry_turn *turn, size_t budget);
size_t fry_buffers_free(ferry_engine *engine, fry_link *buffers);

/* Updates has_more; call it after any of these was added or removed. */
static inline void fry_buffer_look(ferry_buffer *buffer)
{
    buffer->has_more = buffer->reads.rbh_root != NULL || buffer->layers != NULL ||
                       buffer->poisons.rbh_root != NULL || buffer->wide_poison != NULL;
}

/* Whether the buffer has no users and no poison. */
static inline bool fry_buffer_is_idle(const ferry_buffer *buffer)
{
    return buffer->pieces.rbh_root == NULL && !buffer->has_more;
}

/* Whether submits that name the buffer are refused: see refused_writes.c. */
static inline bool fry_buffer_is_barred(const ferry_buffer *buffer)
{
    return fry_unlikely(fry_load_acquire(&buffer->refused) != FRY_TAKEN);
}

/*
 * The lane for a copy if one of the buffers is on a GPU; may ask its driver, so not with the baton.
 */
fry_lane *fry_lane_of_gpu(ferry_buffer *dst, ferry_buffer *src, size_t plain_bytes);

static inline bool fry_buffers_are_hosts(const ferry_buffer *dst, const ferry_buffer *src)
{
    return dst->device->host_lane != NULL && src->device->host_lane != NULL;
}

/* Whether any stream can copy between the two. */
static inline bool fry_buffers_can_copy(const ferry_buffer *dst, const ferry_buffer *src)
{
    const ferry_device *to = dst->device, *from = src->device;
    return fry_likely(to->host_lane != NULL) || from->host_lane != NULL ||
           strcmp(to->device->ops->backend, from->device->ops->backend) == 0;
}

/* Size of a copy; SIZE_MAX for a copy of rows. */
static inline size_t fry_node_copy_plain_bytes(const fry_node *node)
{
    return node->has_rows ? SIZE_MAX : node->op.copy.size_bytes;
}

/*
 * Whether a copy reads its source when it is issued: from pageable memory, on a lane that a GPU
 * works off (fry_device_ops.small_stream). GPU memory is never pageable.
 */
static inline bool fry_node_copy_is_read_now(const fry_node *node)
{
    return node->op.copy.stand.lane->stream->is_polled &&
           fry_load_relaxed(&node->op.copy.src->pages) == FRY_PAGES_PAGEABLE;
}

/*
 * The lane for a copy between two buffers for which fry_buffers_can_copy holds. plain_bytes: the
 * copy's size; SIZE_MAX for a copy of rows.
 */
static inline fry_lane *fry_lane_between(ferry_buffer *dst, ferry_buffer *src, size_t plain_bytes)
{
    if (fry_likely(fry_buffers_are_hosts(dst, src)))
        return dst->device->host_lane;
    return fry_lane_of_gpu(dst, src, plain_bytes);
}

/* Whether there are unused buffers to free. */
static inline bool fry_frees_are_due(const ferry_engine *engine)
{
    return !fry_stack_is_empty(&engine->frees) || fry_load_relaxed(&engine->frees_left) != NULL;
}

#endif
