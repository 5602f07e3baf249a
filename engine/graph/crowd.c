/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/crowd.h"

#include "engine/graph/buffer.h"
#include "engine/graph/node.h"
#include "engine/graph/piece.h"
#include "engine/graph/segment.h"
#include "engine/graph/turn.h"

/* Several reads may begin at the same offset; any order among them will do if it stays the same. */
static int compare(size_t left_begin, const fry_segment *left, size_t right_begin,
                   const fry_segment *right)
{
    if (left_begin != right_begin)
        return left_begin < right_begin ? -1 : 1;
    return (uintptr_t)left < (uintptr_t)right ? -1 : left != right;
}

static int by_begin(const fry_segment *left, const fry_segment *right)
{
    return compare(left->begin, left, right->begin, right);
}

static size_t most_end_of(const fry_segment *read)
{
    const fry_segment *left = RB_LEFT(read, entry), *right = RB_RIGHT(read, entry);
    size_t end = read->end;
    if (left != NULL && left->most_end > end)
        end = left->most_end;
    if (right != NULL && right->most_end > end)
        end = right->most_end;
    return end;
}

/*
 * Rotations and removals change only what is right below a read. A caller that inserts a read or
 * changes an end also calls look_upwards.
 */
static void look_below(fry_segment *read)
{
    read->most_end = most_end_of(read);
}

static void look_upwards(fry_segment *read)
{
    for (; read != NULL; read = RB_PARENT(read, entry)) {
        size_t end = most_end_of(read);
        if (end == read->most_end)
            return;
        read->most_end = end;
    }
}

#undef RB_AUGMENT
#define RB_AUGMENT(read) look_below(read)

/* RB_GENERATE_STATIC relies on a BSD's spelling of the attribute. */
RB_GENERATE_INTERNAL(fry_reads, fry_segment, entry, by_begin, __attribute__((unused)) static)

static void insert(fry_segment *read)
{
    struct fry_reads *reads = &read->buffer->reads;
    fry_segment *parent = NULL, **at = &reads->rbh_root;
    while (*at != NULL) {
        parent = *at;
        at = by_begin(read, parent) < 0 ? &RB_LEFT(parent, entry) : &RB_RIGHT(parent, entry);
    }
    RB_SET(read, parent, entry);
    read->most_end = read->end;
    *at = read;
    look_upwards(parent);
    fry_reads_RB_INSERT_COLOR(reads, read);
    read->buffer->has_more = true;
}

/*
 * Sets the read's end to 0 for those above it first, so that they need no look after the removal.
 */
static void detach(fry_segment *read)
{
    struct fry_reads *reads = &read->buffer->reads;
    size_t end = read->end;
    if (reads->rbh_root == read && RB_LEFT(read, entry) == NULL && RB_RIGHT(read, entry) == NULL) {
        reads->rbh_root = NULL; /* as in most cases */
        fry_buffer_look(read->buffer);
        return;
    }
    read->end = 0;
    look_upwards(read);
    (void)fry_reads_RB_REMOVE(reads, read);
    read->end = end;
}

void fry_crowd_add(fry_turn *turn, fry_node *reader, ferry_buffer *buffer, size_t begin, size_t end)
{
    fry_segment *read = fry_segment_take(turn, buffer, FRY_SEGMENT_READ, begin, end);
    fry_segment_list(turn, read, reader);
    insert(read);
}

void fry_crowd_remove(fry_turn *turn, fry_segment *read)
{
    detach(read);
    fry_segment_unlist(turn, read);
    fry_segment_give(turn, read);
}

/* ---- looking ---- */

static fry_segment *first_behind(fry_segment *root, size_t offset)
{
    if (root == NULL || root->most_end <= offset)
        return NULL;
    for (;;) {
        fry_segment *left = RB_LEFT(root, entry);
        if (left != NULL && left->most_end > offset)
            root = left;
        else if (root->end > offset)
            return root;
        else
            root = RB_RIGHT(root, entry);
    }
}

/* The next read, by begin, that ends behind `offset`. */
static fry_segment *next_behind(fry_segment *read, size_t offset)
{
    fry_segment *found = first_behind(RB_RIGHT(read, entry), offset);
    while (found == NULL) {
        fry_segment *above = RB_PARENT(read, entry);
        if (above == NULL)
            return NULL;
        if (RB_LEFT(above, entry) == read) {
            if (above->end > offset)
                return above;
            found = first_behind(RB_RIGHT(above, entry), offset);
        }
        read = above;
    }
    return found;
}

size_t fry_crowd_spanning(const ferry_buffer *buffer, size_t offset,
                          fry_segment *found[FRY_FEW + 1])
{
    size_t count = 0;
    fry_segment *read = first_behind(buffer->reads.rbh_root, offset);
    for (; read != NULL && read->begin < offset && count <= FRY_FEW;
         read = next_behind(read, offset))
        found[count++] = read;
    return count;
}

size_t fry_crowd_within(const ferry_buffer *buffer, size_t begin, size_t end,
                        fry_segment *found[FRY_FEW])
{
    size_t count = 0;
    fry_segment *read = first_behind(buffer->reads.rbh_root, begin);
    for (; read != NULL && read->begin < end; read = next_behind(read, begin)) {
        if (count == FRY_FEW || read->begin < begin || read->end > end)
            return SIZE_MAX;
        found[count++] = read;
    }
    return count;
}

fry_segment *fry_crowd_begins_first(const ferry_buffer *buffer, size_t offset)
{
    fry_segment *first = first_behind(buffer->reads.rbh_root, offset);
    return first != NULL && first->begin < offset ? first : NULL;
}

fry_segment *fry_crowd_ends_last(const ferry_buffer *buffer, size_t offset)
{
    /*
     * The reads that begin before the offset are whole subtrees, and single reads on the way down.
     */
    fry_segment *last = NULL;
    size_t end = offset;
    bool is_subtree = false;
    for (fry_segment *at = buffer->reads.rbh_root; at != NULL;) {
        if (at->begin >= offset) {
            at = RB_LEFT(at, entry);
            continue;
        }
        fry_segment *left = RB_LEFT(at, entry);
        if (left != NULL && left->most_end > end) {
            last = left;
            end = left->most_end;
            is_subtree = true;
        }
        if (at->end > end) {
            last = at;
            end = at->end;
            is_subtree = false;
        }
        at = RB_RIGHT(at, entry);
    }
    while (is_subtree && last->end != end) {
        fry_segment *left = RB_LEFT(last, entry);
        last = left != NULL && left->most_end == end ? left : RB_RIGHT(last, entry);
    }
    return last;
}

fry_segment *fry_crowd_from(const ferry_buffer *buffer, size_t offset, const fry_segment *last)
{
    fry_segment *found = NULL;
    for (fry_segment *at = buffer->reads.rbh_root; at != NULL;) {
        if (compare(at->begin, at, offset, last) > 0) {
            found = at;
            at = RB_LEFT(at, entry);
        } else {
            at = RB_RIGHT(at, entry);
        }
    }
    return found;
}

/* ---- cutting ---- */

void fry_crowd_cut(fry_turn *turn, fry_segment *read, size_t offset)
{
    fry_crowd_add(turn, read->node, read->buffer, offset, read->end);
    read->end = offset;
    look_upwards(read);
}

void fry_crowd_end_at(fry_turn *turn, fry_segment *read, size_t offset)
{
    if (offset <= read->begin) {
        fry_crowd_remove(turn, read);
        return;
    }
    read->end = offset;
    look_upwards(read);
}

void fry_crowd_begin_at(fry_turn *turn, fry_segment *read, size_t offset)
{
    if (offset >= read->end) {
        fry_crowd_remove(turn, read);
        return;
    }
    detach(read);
    read->begin = offset;
    insert(read);
}
