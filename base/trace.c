/* SPDX-License-Identifier: Apache-2.0 */
#include "base/trace.h"

#include <string.h>

#define CAPACITY_MIN ((size_t)2)
#define CAPACITY_MAX ((size_t)1 << 31)

const char *ferry_trace_what_name(ferry_trace_what what)
{
#define NAME_CASE(name, value, text)                                                               \
    case name:                                                                                     \
        return text;
    switch (what) {
        FERRY_TRACE_MAP(NAME_CASE)
    }
    return "?";
}

const char *ferry_op_kind_name(ferry_op_kind kind)
{
    switch (kind) {
        FERRY_OP_KIND_MAP(NAME_CASE)
    }
#undef NAME_CASE
    return "?";
}

static size_t ring_size_bytes(size_t slots)
{
    return sizeof(fry_trace_ring) + slots * sizeof(ferry_trace_record);
}

size_t fry_trace_ring_slots(size_t capacity)
{
    if (capacity > CAPACITY_MAX)
        return 0;
    size_t slots = CAPACITY_MIN;
    while (slots < capacity)
        slots *= 2;
    return slots;
}

fry_trace_ring *fry_trace_ring_create(const fry_memory *memory, size_t capacity)
{
    size_t slots = fry_trace_ring_slots(capacity);
    if (slots == 0)
        return NULL;
    fry_trace_ring *ring = fry_alloc(memory, ring_size_bytes(slots), _Alignof(fry_trace_ring));
    if (ring != NULL)
        ring->mask = slots - 1;
    return ring;
}

void fry_trace_ring_destroy(const fry_memory *memory, fry_trace_ring *ring)
{
    if (ring != NULL)
        fry_free(memory, ring, ring_size_bytes(ring->mask + 1));
}

void fry_trace_ring_continue(fry_trace_ring *to, const fry_trace_ring *from)
{
    uint64_t head = from->head;
    uint64_t kept = head <= from->mask ? head : from->mask + 1;
    for (uint64_t position = head - kept; position != head; position++)
        to->records[position & to->mask] = from->records[position & from->mask];
    to->first = head - kept;
    fry_store_release(&to->head, head);
}

static void copy_record(const fry_trace_ring *ring, uint64_t position, ferry_trace_record *record)
{
    const ferry_trace_record *slot = &ring->records[position & ring->mask];
#define LOAD_FIELD(field) record->field = fry_load_acquire(&slot->field);
    FRY_TRACE_FIELDS(LOAD_FIELD)
#undef LOAD_FIELD
}

/* How many positions from `first` on have been or may be overwritten. */
static uint64_t overwritten(const fry_trace_ring *ring, uint64_t first, uint64_t head)
{
    uint64_t readable = ring->mask; /* the slot that is written next is not readable */
    uint64_t oldest = head > readable ? head - readable : 0;
    if (oldest < ring->first)
        oldest = ring->first;
    return oldest > first ? oldest - first : 0;
}

size_t fry_trace_ring_read(const fry_trace_ring *ring, uint64_t *cursor,
                           ferry_trace_record *records, size_t capacity, uint64_t *lost)
{
    uint64_t head = fry_load_acquire(&ring->head);
    uint64_t missed = overwritten(ring, *cursor, head);
    uint64_t first = *cursor + missed;
    uint64_t count = head - first < capacity ? head - first : capacity;
    for (uint64_t i = 0; i < count; i++)
        copy_record(ring, first + i, &records[i]);

    /* The writer may meanwhile have overwritten the oldest part of the copy. */
    uint64_t torn = overwritten(ring, first, fry_load_acquire(&ring->head));
    if (torn > count)
        torn = count;
    count -= torn;
    if (torn != 0)
        memmove(records, records + torn, count * sizeof *records);
    *cursor = first + torn + count;
    *lost += missed + torn;
    return count;
}
