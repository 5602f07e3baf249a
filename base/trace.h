/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring of trace records. One thread writes, any thread may read. The writer never waits: it
 * overwrites the oldest record.
 *
 * Argument. The writer stores the fields of the record of position p in slot p mod capacity, each
 * with release, then head = p + 1 with release. A reader loads head, copies by acquire loads, and
 * loads head again. The first load of head shows that every record p < head was written whole. If a
 * copied field is already that of position p + capacity, then that store's release and this load's
 * acquire make everything before the store visible, head = p + capacity among it; so the second
 * load of head gives at least p + capacity. Therefore the reader accepts p only while head - p <
 * capacity. Of a full ring capacity - 1 records can be read: never the slot that is written next.
 * (Relaxed stores of the fields would not do: a weakly ordered machine may show one before the
 * older store of head.)
 *
 * Records are copied by field, not by word: a word made of fields just stored waits until these
 * have left the store buffer, which more than doubled the cost of a record.
 */
#ifndef FRY_BASE_TRACE_H
#define FRY_BASE_TRACE_H

#include "base/lf.h"
#include "base/memory.h"

#include <ferry/trace.h>

_Static_assert(sizeof(ferry_trace_record) == 64, "one cache line a record");

typedef struct fry_trace_ring {
    uint64_t head;  /* position of the next record; slot = position & mask */
    uint64_t mask;  /* capacity - 1; the capacity is a power of two */
    uint64_t first; /* position of the oldest record it ever held */
    ferry_trace_record records[] __attribute__((aligned(FRY_CACHE_LINE)));
} fry_trace_ring;

/* Slots of a ring of that capacity: a power of two, at least 2; 0 for more than 2^31. */
size_t fry_trace_ring_slots(size_t capacity);

/* Makes a ring. NULL: no memory, or no ring has that capacity. */
fry_trace_ring *fry_trace_ring_create(const fry_memory *memory, size_t capacity);
void fry_trace_ring_destroy(const fry_memory *memory, fry_trace_ring *ring);

/* All fields of a record. */
#define FRY_TRACE_FIELDS(X)                                                                        \
    X(when_ns)                                                                                     \
    X(op)                                                                                          \
    X(flow)                                                                                        \
    X(size_bytes)                                                                                  \
    X(waited_for)                                                                                  \
    X(label)                                                                                       \
    X(status)                                                                                      \
    X(device)                                                                                      \
    X(stream)                                                                                      \
    X(what)                                                                                        \
    X(way)                                                                                         \
    X(kind)                                                                                        \
    X(thread)

/* Writes a record and returns its position. The writing thread. */
static inline uint64_t fry_trace_ring_write(fry_trace_ring *ring, const ferry_trace_record *record)
{
    uint64_t position = fry_load_relaxed(&ring->head);
    ferry_trace_record *slot = &ring->records[position & ring->mask];
#define FRY_TRACE_STORE(field) fry_store_release(&slot->field, record->field);
    FRY_TRACE_FIELDS(FRY_TRACE_STORE)
#undef FRY_TRACE_STORE
    fry_store_release(&ring->head, position + 1); /* pairs with the reader's loads of head */
    return position;
}

/*
 * Copies the contents of `from` into a new, larger ring with the same positions, so that every
 * reader's cursor means the same in both. The writing thread, which writes into `to` from now on.
 * `from` does not change, for readers that still have it.
 */
void fry_trace_ring_continue(fry_trace_ring *to, const fry_trace_ring *from);

/*
 * Copies up to `capacity` records from *cursor on, oldest first, and moves the cursor past them.
 * Adds records that were overwritten before they could be read to *lost. A reader's first cursor is
 * 0, or head to read only new records. Returns how many were copied. Any thread; each reader has
 * its own cursor.
 */
size_t fry_trace_ring_read(const fry_trace_ring *ring, uint64_t *cursor,
                           ferry_trace_record *records, size_t capacity, uint64_t *lost);

#endif
