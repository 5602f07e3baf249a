/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is ordered before what. A place is (stream, sequence number). Each stream has a vector
 * clock: for every other stream the last place that what is issued next stands behind. An event's
 * record keeps the clock of its place; a wait joins it, and the place itself, to the waiting
 * stream's. What is complete is ordered before everything, so clocks hold only what is not, and
 * stay short.
 *
 * The pending accesses stand in one interval tree. One leaves it early when a later access that is
 * ordered behind it covers its range and conflicts with all that it conflicts with: what is not
 * ordered behind the earlier one is not behind the later one either. So a buffer that is used again
 * and again has one access in the tree, not a thousand.
 */
#include "tests/emu/driver.h"
#include <stdlib.h>
#include <string.h>

typedef struct mark {
    CUstream stream; /* a reference */
    uint64_t sequence;
} mark;

/* Never changed once it is made; sorted by the streams' ids. */
struct emu_clock {
    unsigned references;
    size_t count;
    mark marks[];
};

emu_clock *emu_clock_hold(emu_clock *clock)
{
    if (clock != NULL)
        clock->references++;
    return clock;
}

void emu_clock_drop(emu_clock *clock)
{
    if (clock == NULL || --clock->references > 0)
        return;
    for (size_t i = 0; i < clock->count; i++)
        emu_object_drop(clock->marks[i].stream);
    free(clock);
}

/* The last place of `stream` that the clock knows, or 0. */
static uint64_t clock_of(const emu_clock *clock, CUstream stream)
{
    size_t low = 0, high = clock != NULL ? clock->count : 0;

    while (low < high) {
        const size_t middle = (low + high) / 2;

        if (clock->marks[middle].stream == stream)
            return clock->marks[middle].sequence;
        if (clock->marks[middle].stream->id < stream->id)
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}

bool emu_ordered(CUstream stream, uint64_t sequence, CUstream after)
{
    return stream == after || stream->completed >= sequence ||
           clock_of(after->clock, stream) >= sequence;
}

static void add(emu_clock *clock, const mark *mark, CUstream after)
{
    if (mark->stream == after || mark->stream->completed >= mark->sequence)
        return;
    emu_object_hold(mark->stream);
    clock->marks[clock->count++] = *mark;
}

/* The later of both places in each stream, without what is complete. */
static emu_clock *join(const emu_clock *a, const mark *b, size_t b_count, CUstream after)
{
    const size_t a_count = a != NULL ? a->count : 0;
    emu_clock *joined = emu_allocate(sizeof *joined + (a_count + b_count) * sizeof(mark));
    size_t i = 0, j = 0;

    joined->references = 1;
    while (i < a_count || j < b_count) {
        const mark *const left = i < a_count ? &a->marks[i] : NULL;
        const mark *const right = j < b_count ? &b[j] : NULL;

        if (left != NULL && right != NULL && left->stream == right->stream) {
            add(joined, left->sequence > right->sequence ? left : right, after);
            i++, j++;
        } else if (right == NULL || (left != NULL && left->stream->id < right->stream->id)) {
            add(joined, left, after);
            i++;
        } else {
            add(joined, right, after);
            j++;
        }
    }
    return joined;
}

static void clock_replace(CUstream stream, emu_clock *clock)
{
    emu_clock_drop(stream->clock);
    stream->clock = clock;
}

void emu_order(CUstream after, CUstream stream, uint64_t sequence, const emu_clock *clock)
{
    const mark place = {stream, sequence};

    if (emu_ordered(stream, sequence, after))
        return;
    if (clock != NULL)
        clock_replace(after, join(after->clock, clock->marks, clock->count, after));
    clock_replace(after, join(after->clock, &place, 1, after));
}

/* ---- Pending accesses ----------------------------------------------------------------------- */

static int access_compare(const emu_access *a, const emu_access *b)
{
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return (a > b) - (a < b);
}

static void access_augment(emu_access *access);

#undef RB_AUGMENT
#define RB_AUGMENT(access) access_augment(access)
static RB_HEAD(access_tree, emu_access) accesses = RB_INITIALIZER(&accesses);
/* RB_GENERATE_STATIC relies on a BSD's spelling of the attribute. */
RB_GENERATE_INTERNAL(access_tree, emu_access, entry, access_compare, __attribute__((unused)) static)

/*
 * The tree calls this for nodes whose children have changed, but not always for those above, which
 * the change may concern as well.
 */
static void access_augment(emu_access *access)
{
    for (; access != NULL; access = RB_PARENT(access, entry)) {
        const emu_access *const left = RB_LEFT(access, entry), *const right =
                                                                   RB_RIGHT(access, entry);

        access->most_end = access->end;
        if (left != NULL && left->most_end > access->most_end)
            access->most_end = left->most_end;
        if (right != NULL && right->most_end > access->most_end)
            access->most_end = right->most_end;
    }
}

static void link_one(emu_access *access)
{
    access->most_end = access->end;
    access->linked = true;
    RB_INSERT(access_tree, &accesses, access); /* which augments its parent, if it has one */
}

static void unlink_one(emu_access *access)
{
    if (access->linked)
        RB_REMOVE(access_tree, &accesses, access);
    access->linked = false;
}

void emu_accesses_unlink(emu_operation *operation)
{
    for (size_t i = 0; i < operation->access_count; i++)
        unlink_one(&operation->accesses[i]);
}

/* Whether a row of `access` has bytes in [start, end). */
static bool rows_touch(const emu_access *access, uintptr_t start, uintptr_t end)
{
    uintptr_t first, row;

    if (access->start >= end || start >= access->end)
        return false;
    if (access->row_count == 1)
        return true;
    /* The last row that begins at or before `start`, and the one after it. */
    first = start < access->start ? 0 : (start - access->start) / access->pitch_bytes;
    row = access->start + first * access->pitch_bytes;
    if (start < row + access->row_bytes)
        return row < end;
    return first + 1 < access->row_count && row + access->pitch_bytes < end;
}

/* Whether both have a byte in common, rows taken exactly. */
static bool overlap(const emu_access *a, const emu_access *b)
{
    const emu_access *const few = a->row_count <= b->row_count ? a : b;
    const emu_access *const many = few == a ? b : a;

    if (a->start >= b->end || b->start >= a->end)
        return false;
    for (size_t i = 0; i < few->row_count; i++) {
        const uintptr_t row = few->start + i * few->pitch_bytes;

        if (rows_touch(many, row, row + few->row_bytes))
            return true;
    }
    return false;
}

bool emu_accesses_conflict(const emu_access *a, const emu_access *b)
{
    return (a->write || b->write) && !(a->atomic && b->atomic) && !a->polls && !b->polls &&
           overlap(a, b);
}

typedef bool (*access_visit)(emu_access *pending, void *arg);

/*
 * Visits what may have bytes in [start, end) until `visit` says true; false: none did. `visit` must
 * not change the tree. The tree's height bounds the recursion.
 */
static bool visit_range(emu_access *node, uintptr_t start, uintptr_t end, access_visit visit,
                        void *arg)
{
    for (; node != NULL && node->most_end > start; node = RB_RIGHT(node, entry)) {
        if (visit_range(RB_LEFT(node, entry), start, end, visit, arg))
            return true;
        if (node->start >= end)
            return false;
        if (node->end > start && visit(node, arg))
            return true;
    }
    return false;
}

typedef struct order_check {
    emu_access *access;
    emu_access *covered[16]; /* those that `access` makes needless, as many as there is room for */
    size_t covered_count;
} order_check;

static void catch_unordered(const emu_access *later, const emu_access *earlier)
{
    const emu_operation *const x = later->operation, *const y = earlier->operation;

    emu_catch(EMU_CATCH_UNORDERED,
              "%s (stream %llu, its number %llu) %s [%p, %p), which %s (stream %llu, its number "
              "%llu) %s, and is in no order with it",
              x->name, (unsigned long long)x->stream->id, (unsigned long long)x->sequence,
              later->write ? "writes" : "reads", (void *)later->start, (void *)later->end, y->name,
              (unsigned long long)y->stream->id, (unsigned long long)y->sequence,
              earlier->write ? "writes" : "reads");
}

/* Whether every byte of `inner` is one of `outer`; false also where it is hard to say. */
static bool covers(const emu_access *outer, const emu_access *inner)
{
    if (outer->row_count == 1)
        return outer->start <= inner->start && inner->end <= outer->end;
    return outer->start == inner->start && outer->row_bytes == inner->row_bytes &&
           outer->row_count == inner->row_count && outer->pitch_bytes == inner->pitch_bytes;
}

/* Whether what conflicts with `inner` conflicts with `outer` too, where both have the same bytes.
 */
static bool covers_kind(const emu_access *outer, const emu_access *inner)
{
    if (outer->polls)
        return false;
    return (outer->write && !outer->atomic) ||
           (outer->write == inner->write && outer->atomic == inner->atomic);
}

static bool check_one(emu_access *pending, void *arg)
{
    order_check *const check = arg;
    emu_access *const access = check->access;
    const emu_operation *const later = access->operation, *const earlier = pending->operation;

    if (!emu_ordered(earlier->stream, earlier->sequence, later->stream)) {
        if (emu_accesses_conflict(access, pending))
            catch_unordered(access, pending);
        return false;
    }
    if (covers_kind(access, pending) && check->covered_count < 16 && covers(access, pending))
        check->covered[check->covered_count++] = pending;
    return false;
}

static int by_start(const void *a, const void *b)
{
    return access_compare(*(emu_access *const *)a, *(emu_access *const *)b);
}

/*
 * The copies of a batch among each other: sorted by their beginnings, each is compared with those
 * before it that reach it.
 */
void emu_check_parts(const emu_operation *operation)
{
    const size_t count = operation->access_count;
    emu_access **sorted;
    size_t open = 0; /* sorted[0..open): those before that may still reach */

    if (count < 3)
        return;
    sorted = emu_allocate(count * sizeof *sorted);
    for (size_t i = 0; i < count; i++)
        sorted[i] = &operation->accesses[i];
    qsort(sorted, count, sizeof *sorted, by_start);
    for (size_t i = 0; i < count; i++) {
        emu_access *const access = sorted[i];
        size_t kept = 0;

        for (size_t j = 0; j < open; j++) {
            if (sorted[j]->end <= access->start)
                continue;
            if (access->part != sorted[j]->part && emu_accesses_conflict(access, sorted[j]))
                catch_unordered(access, sorted[j]);
            sorted[kept++] = sorted[j];
        }
        sorted[kept++] = access; /* kept <= i: what is there has been looked at */
        open = kept;
    }
    free(sorted);
}

void emu_check_order(emu_operation *operation)
{
    emu_check_parts(operation);
    for (size_t i = 0; i < operation->access_count; i++) {
        order_check check = {.access = &operation->accesses[i]};

        visit_range(RB_ROOT(&accesses), check.access->start, check.access->end, check_one, &check);
        for (size_t j = 0; j < check.covered_count; j++)
            unlink_one(check.covered[j]);
    }
}

void emu_accesses_link(emu_operation *operation)
{
    for (size_t i = 0; i < operation->access_count; i++)
        link_one(&operation->accesses[i]);
}

typedef struct range_check {
    const emu_access *range;
    CUstream stream;
    emu_operation *found;
} range_check;

static bool find_pending(emu_access *pending, void *arg)
{
    range_check *const check = arg;
    const emu_operation *const earlier = pending->operation;

    if ((check->stream != NULL && emu_ordered(earlier->stream, earlier->sequence, check->stream)) ||
        !overlap(check->range, pending))
        return false;
    check->found = pending->operation;
    return true;
}

bool emu_range_pending(const void *start, size_t size_bytes, CUstream stream,
                       emu_operation **operation_p)
{
    const uintptr_t first = (uintptr_t)start;
    const emu_access range = {
        .start = first, .end = first + size_bytes, .row_bytes = size_bytes, .row_count = 1};
    range_check check = {.range = &range, .stream = stream};

    visit_range(RB_ROOT(&accesses), range.start, range.end, find_pending, &check);
    *operation_p = check.found;
    return check.found != NULL;
}
