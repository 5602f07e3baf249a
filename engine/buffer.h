/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers: memory with who touches it. */
#ifndef FRY_ENGINE_BUFFER_H
#define FRY_ENGINE_BUFFER_H

#include "engine/ground.h"
#include "engine/lane.h"

struct fry_pieces {
    fry_segment *rbh_root;
};
struct fry_reads {
    fry_segment *rbh_root;
};
struct fry_spans {
    fry_segment *rbh_root;
};

/* Whether a GPU can copy a host buffer's memory straight. */
enum fry_pages {
    FRY_PAGES_UNASKED = 0, /* no copy between it and a GPU was submitted yet */
    FRY_PAGES_PINNED,      /* page-locked */
    FRY_PAGES_PAGEABLE,    /* not: it goes through the backend's staging */
};

struct ferry_buffer {
    uint32_t references;
    bool is_wrapped;
    uint8_t kind;  /* fry_memory_kind, of memory that is ferry's */
    uint8_t pages; /* fry_pages, of a host's; any thread, and all find the same */
    ferry_engine *engine;
    ferry_device *device;
    fry_device *memory_device; /* whose memory_free takes it: pinned memory is a GPU's to free */
    void *data;
    size_t size_bytes;
    ferry_free_fn free_fn;
    void *free_arg;
    fry_link free_link;
    int32_t
        refused; /* any thread: fry_refusal of a write that has yet to take its place, for which
                    nothing could be put in the inbox: nobody else may name the buffer meanwhile */
    fry_link refused_link; /* engine->refused_buffers, or refused_noted */
    /* Baton. What is being touched, and what is poisoned; else absent: see hazard.c. */
    struct fry_pieces pieces;
    fry_segment *newest;   /* of those, the one that entered last; NULL: it is gone */
    size_t newest_gap_end; /* nobody is at what is behind that up to here; 0: unknown */
    struct fry_reads reads;
    fry_layer *layers;
    struct fry_spans poisons;
    fry_error *wide_poison;                          /* the whole buffer is, for want of memory */
    bool has_more;                                   /* than pieces: any of the four */
    ferry_buffer *poisoned_next, *poisoned_previous; /* is_listed: in engine->poisoned */
    bool is_listed;
};

static inline void fry_buffer_retain(ferry_buffer *buffer)
{
    (void)fry_fetch_add(&buffer->references, 1);
}

/* At zero it goes to the loop to be freed; the caller wakes it. */
void fry_buffer_unretain(ferry_buffer *buffer);

/* Unused buffers, at most so many: what they still list; with the baton. Then their memory; on the
 * loop, without it. */
fry_link *fry_buffers_forget(fry_turn *turn, size_t budget);
size_t fry_buffers_free(ferry_engine *engine, fry_link *buffers);

/* After any of those has begun or ceased to be. */
static inline void fry_buffer_look(ferry_buffer *buffer)
{
    buffer->has_more = buffer->reads.rbh_root != NULL || buffer->layers != NULL ||
                       buffer->poisons.rbh_root != NULL || buffer->wide_poison != NULL;
}

/* Nothing of the buffer is touched or poisoned. */
static inline bool fry_buffer_is_idle(const ferry_buffer *buffer)
{
    return buffer->pieces.rbh_root == NULL && !buffer->has_more;
}

/* At submit: see refused_writes.c. */
static inline bool fry_buffer_is_barred(const ferry_buffer *buffer)
{
    return fry_unlikely(fry_load_acquire(&buffer->refused) != FRY_TAKEN);
}

/* The same where one of them is a GPU's; may ask its driver, so not with the baton. */
fry_lane *fry_lane_of_gpu(ferry_buffer *dst, ferry_buffer *src, size_t plain_bytes);

static inline bool fry_buffers_are_hosts(const ferry_buffer *dst, const ferry_buffer *src)
{
    return dst->device->host_lane != NULL && src->device->host_lane != NULL;
}

/* Whether a stream can copy between the two. */
static inline bool fry_buffers_can_copy(const ferry_buffer *dst, const ferry_buffer *src)
{
    const ferry_device *to = dst->device, *from = src->device;
    return fry_likely(to->host_lane != NULL) || from->host_lane != NULL ||
           strcmp(to->device->ops->backend, from->device->ops->backend) == 0;
}

/* How large a copy is; of one with rows SIZE_MAX. */
static inline size_t fry_copy_plain_bytes(const fry_node *node)
{
    return node->has_rows ? SIZE_MAX : node->op.copy.size_bytes;
}

/*
 * Whether a copy reads its bytes as it is issued: out of pageable memory on a lane that a GPU
 * works off (fry_device_ops.small_stream). Of memory of GPUs nobody asks for its pages.
 */
static inline bool fry_copy_is_read_now(const fry_node *node)
{
    return node->op.copy.stand.lane->stream->is_polled &&
           fry_load_relaxed(&node->op.copy.src->pages) == FRY_PAGES_PAGEABLE;
}

/*
 * The lane that copies between two buffers go on, which fry_buffers_can_copy. plain_bytes: how
 * large the copy is; of one with rows SIZE_MAX.
 */
static inline fry_lane *fry_lane_between(ferry_buffer *dst, ferry_buffer *src, size_t plain_bytes)
{
    if (fry_likely(fry_buffers_are_hosts(dst, src)))
        return dst->device->host_lane;
    return fry_lane_of_gpu(dst, src, plain_bytes);
}

/* Buffers that nobody uses any more are to be freed. */
static inline bool fry_has_frees(const ferry_engine *engine)
{
    return !fry_stack_is_empty(&engine->frees) || fry_load_relaxed(&engine->frees_left) != NULL;
}

#endif
