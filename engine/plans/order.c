/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which step waits for which.
 *
 * The ends of all spans cut each buffer into pieces that no span ends within. For each piece the
 * last step that writes it is known, and those that have read it since; so a step that reads waits
 * for the writer, and one that writes waits for the readers, or for the writer if there are none.
 * What comes before these is before the step already. A post of some steps lets those that it lacks
 * pass as soon as what they wait for is over, so it keeps the order of the others.
 *
 * A step looks at each piece of its spans. That is in proportion to the number of spans where these
 * are apart or equal, as blocks are; LOOKS_MAX bounds the rest.
 *
 * What all touch is read off the same pieces: one that is written before it is read needs nothing
 * of before, and neighbours that are touched in the same way are one access.
 */
#include "engine/plans/order.h"

#include "engine/graph/node.h"

#include <stdlib.h>
#include <string.h>

#define LOOKS_MAX ((uint64_t)1 << 24)
#define NONE UINT32_MAX

/* A span of a step, in the order of the steps. */
typedef struct use {
    ferry_buffer *buffer;
    uint64_t begin, end;    /* bytes */
    uint32_t first, behind; /* pieces */
    uint32_t step;
    ferry_access_mode mode;
} use;

typedef struct point {
    ferry_buffer *buffer;
    uint64_t offset;
} point;

/* From a point to the next; the last of a buffer has no bytes. */
typedef struct piece {
    uint32_t writer; /* the last; or NONE */
    uint32_t reader; /* since then, the last; in `readers`; or NONE */
    uint8_t mode;    /* ferry_access_mode of all; 0: not touched */
} piece;

typedef struct reader {
    uint32_t step;
    uint32_t next; /* or NONE */
} reader;

typedef struct wait {
    uint32_t from, to; /* `from` with FRY_PLAN_AT_BEGIN */
} wait;

/* A step that sends or receives. */
typedef struct message {
    const fry_plan_step *step;
    uint32_t index;
} message;

typedef struct work {
    const fry_memory *memory;
    const fry_plan_step *steps;
    uint32_t count;
    use *uses;
    point *points;
    piece *pieces;
    reader *readers;
    wait *waits;
    uint32_t *seen; /* of each step: the last that waits for it, and 1 */
    size_t use_count, point_count, reader_count, readers_most, wait_count, waits_most;
    uint32_t fence; /* the last notice; or NONE */
    bool has_no_memory;
} work;

static void *table(const fry_memory *memory, size_t count, size_t size_bytes)
{
    return fry_alloc_raw(memory, (count != 0 ? count : 1) * size_bytes, 8);
}

static void free_table(const fry_memory *memory, void *table, size_t count, size_t size_bytes)
{
    fry_free(memory, table, (count != 0 ? count : 1) * size_bytes);
}

/* ---- pieces ---- */

static size_t count_uses(const work *self)
{
    ferry_access access;
    size_t count = 0;
    for (uint32_t i = 0; i < self->count; i++) {
        for (size_t j = 0; fry_plan_step_access(&self->steps[i], j, &access); j++)
            count += access.span.size_bytes != 0;
    }
    return count;
}

static void list_uses(work *self)
{
    ferry_access access;
    size_t count = 0;
    for (uint32_t i = 0; i < self->count; i++) {
        for (size_t j = 0; fry_plan_step_access(&self->steps[i], j, &access); j++) {
            if (access.span.size_bytes == 0)
                continue;
            uint64_t begin = access.span.offset_bytes;
            self->uses[count] = (use){.buffer = access.span.buffer,
                                      .begin = begin,
                                      .end = begin + access.span.size_bytes,
                                      .step = i,
                                      .mode = access.mode};
            self->points[2 * count] = (point){access.span.buffer, begin};
            self->points[2 * count + 1] = (point){access.span.buffer, self->uses[count].end};
            count++;
        }
    }
}

static int by_place(const void *left, const void *right)
{
    const point *a = left, *b = right;
    if (a->buffer != b->buffer)
        return (uintptr_t)a->buffer < (uintptr_t)b->buffer ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

static uint32_t place_of(const work *self, ferry_buffer *buffer, uint64_t offset)
{
    const point key = {buffer, offset};
    const point *found = bsearch(&key, self->points, self->point_count, sizeof key, by_place);
    return (uint32_t)(found - self->points);
}

/* False: the spans overlap in too many ways. */
static bool cut(work *self)
{
    size_t kept = 0;
    uint64_t looks = 0;
    qsort(self->points, 2 * self->use_count, sizeof *self->points, by_place);
    for (size_t i = 0; i < 2 * self->use_count; i++) {
        if (kept == 0 || by_place(&self->points[kept - 1], &self->points[i]) != 0)
            self->points[kept++] = self->points[i];
    }
    self->point_count = kept;
    for (size_t i = 0; i < self->use_count; i++) {
        use *at = &self->uses[i];
        at->first = place_of(self, at->buffer, at->begin);
        at->behind = place_of(self, at->buffer, at->end);
        looks += at->behind - at->first;
        if ((at->mode & FERRY_READ) != 0)
            self->readers_most += at->behind - at->first;
    }
    return looks <= LOOKS_MAX;
}

/* ---- waits ---- */

/* Makes room for one more. */
static bool grow_waits(work *self)
{
    size_t most = self->waits_most != 0 ? 2 * self->waits_most : 256;
    wait *grown = table(self->memory, most, sizeof *grown);
    if (grown == NULL)
        return false;
    if (self->waits != NULL) {
        memcpy(grown, self->waits, self->wait_count * sizeof *grown);
        free_table(self->memory, self->waits, self->waits_most, sizeof *grown);
    }
    self->waits = grown;
    self->waits_most = most;
    return true;
}

static void add_wait(work *self, uint32_t from, uint32_t to, uint32_t bits)
{
    if (from == to || self->has_no_memory || (bits == 0 && self->seen[from] == to + 1))
        return;
    if (bits == 0)
        self->seen[from] = to + 1;
    if (self->wait_count == self->waits_most && !grow_waits(self)) {
        self->has_no_memory = true;
        return;
    }
    self->waits[self->wait_count++] = (wait){from | bits, to};
}

static void note_mode(piece *at, ferry_access_mode mode)
{
    if (at->mode == 0)
        at->mode = (uint8_t)mode;
    else if ((mode & FERRY_WRITE) != 0)
        at->mode |= FERRY_WRITE; /* a first write needs nothing of before */
}

static void read_piece(work *self, piece *at, uint32_t step)
{
    if (at->writer != NONE)
        add_wait(self, at->writer, step, 0);
    self->readers[self->reader_count] = (reader){step, at->reader};
    at->reader = (uint32_t)self->reader_count++;
}

static void write_piece(work *self, piece *at, uint32_t step)
{
    bool has_other = false;
    for (uint32_t i = at->reader; i != NONE; i = self->readers[i].next) {
        has_other = has_other || self->readers[i].step != step;
        add_wait(self, self->readers[i].step, step, 0);
    }
    if (!has_other && at->writer != NONE)
        add_wait(self, at->writer, step, 0);
    at->writer = step;
    at->reader = NONE;
}

static void enter_use(work *self, const use *given)
{
    for (uint32_t i = given->first; i < given->behind; i++) {
        piece *at = &self->pieces[i];
        note_mode(at, given->mode);
        if ((given->mode & FERRY_READ) != 0)
            read_piece(self, at, given->step);
        if ((given->mode & FERRY_WRITE) != 0)
            write_piece(self, at, given->step);
    }
}

/* A notice comes after all before it; those before an earlier notice are before that. */
static void enter_notice(work *self, uint32_t step)
{
    for (uint32_t i = self->fence != NONE ? self->fence : 0; i < step; i++)
        add_wait(self, i, step, 0);
    self->fence = step;
}

static void enter_all(work *self)
{
    size_t next = 0;
    for (uint32_t i = 0; i < self->count; i++) {
        for (; next < self->use_count && self->uses[next].step == i; next++)
            enter_use(self, &self->uses[next]);
        if (self->steps[i].kind == FERRY_OP_NOTICE)
            enter_notice(self, i);
    }
}

/* ---- messages ---- */

static int by_tag(const void *left, const void *right)
{
    const message *a = left, *b = right;
    const fry_plan_step *x = a->step, *y = b->step;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->message.group != y->message.group)
        return (uintptr_t)x->message.group < (uintptr_t)y->message.group ? -1 : 1;
    if (x->message.peer != y->message.peer)
        return x->message.peer < y->message.peer ? -1 : 1;
    if (x->message.tag != y->message.tag)
        return x->message.tag < y->message.tag ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

/* Those of one member and tag begin one after the other. */
static void enter_messages(work *self)
{
    size_t count = 0;
    for (uint32_t i = 0; i < self->count; i++)
        count += fry_plan_step_is_message(&self->steps[i]);
    message *messages = count > 1 ? table(self->memory, count, sizeof *messages) : NULL;
    if (messages == NULL) {
        self->has_no_memory = self->has_no_memory || count > 1;
        return;
    }
    size_t at = 0;
    for (uint32_t i = 0; i < self->count; i++) {
        if (fry_plan_step_is_message(&self->steps[i]))
            messages[at++] = (message){&self->steps[i], i};
    }
    qsort(messages, count, sizeof *messages, by_tag);
    for (size_t i = 1; i < count; i++) {
        message same = messages[i];
        same.index = messages[i - 1].index;
        if (by_tag(&messages[i - 1], &same) == 0)
            add_wait(self, messages[i - 1].index, messages[i].index, FRY_PLAN_AT_BEGIN);
    }
    free_table(self->memory, messages, count, sizeof *messages);
}

/* ---- what comes of it ---- */

static fry_refusal list_touch(const work *self, fry_plan_touch *touch)
{
    size_t count = 0;
    for (size_t i = 0; i < self->point_count; i++)
        count += self->pieces[i].mode != 0;
    ferry_access *accesses = table(self->memory, count, sizeof *accesses);
    if (accesses == NULL)
        return FRY_REFUSED_NO_MEMORY;
    *touch = (fry_plan_touch){.accesses = accesses, .count = count};
    ferry_access *last = NULL;
    for (size_t i = 0; i < self->point_count; i++) {
        const point *begin = &self->points[i];
        if (self->pieces[i].mode == 0)
            continue;
        size_t size = (size_t)(begin[1].offset - begin->offset);
        if (last != NULL && last->span.buffer == begin->buffer &&
            (uint8_t)last->mode == self->pieces[i].mode &&
            last->span.offset_bytes + last->span.size_bytes == begin->offset) {
            last->span.size_bytes += size;
            touch->count--;
            continue;
        }
        last = last == NULL ? accesses : last + 1;
        *last = (ferry_access){{begin->buffer, (size_t)begin->offset, size},
                               (ferry_access_mode)self->pieces[i].mode};
    }
    if (touch->count == count)
        return FRY_TAKEN;
    ferry_access *fitting = table(self->memory, touch->count, sizeof *fitting);
    if (fitting != NULL)
        memcpy(fitting, accesses, touch->count * sizeof *fitting);
    free_table(self->memory, accesses, count, sizeof *accesses);
    touch->accesses = fitting;
    return fitting != NULL ? FRY_TAKEN : FRY_REFUSED_NO_MEMORY;
}

static void fill_order(const work *self, fry_plan_order *order)
{
    memset(order->waits, 0, self->count * sizeof *order->waits);
    memset(order->first, 0, (self->count + 1) * sizeof *order->first);
    for (size_t i = 0; i < self->wait_count; i++) {
        order->waits[self->waits[i].to]++;
        order->first[(self->waits[i].from & ~FRY_PLAN_AT_BEGIN) + 1]++;
    }
    for (uint32_t i = 0; i < self->count; i++) {
        order->first[i + 1] += order->first[i];
        if (order->waits[i] == 0)
            order->roots[order->root_count++] = i;
    }
    /* `seen` has done its part: how many of each step's are there. */
    memset(self->seen, 0, self->count * sizeof *self->seen);
    for (size_t i = 0; i < self->wait_count; i++) {
        uint32_t from = self->waits[i].from & ~FRY_PLAN_AT_BEGIN;
        order->next[order->first[from] + self->seen[from]++] =
            self->waits[i].to | (self->waits[i].from & FRY_PLAN_AT_BEGIN);
    }
}

static fry_refusal list_order(const work *self, fry_plan_order *order)
{
    *order = (fry_plan_order){
        .steps = self->steps, .count = self->count, .wait_count = self->wait_count};
    if (self->wait_count == 0)
        return FRY_TAKEN;
    order->waits = table(self->memory, self->count, sizeof *order->waits);
    order->roots = table(self->memory, self->count, sizeof *order->roots);
    order->first = table(self->memory, self->count + 1, sizeof *order->first);
    order->next = table(self->memory, self->wait_count, sizeof *order->next);
    if (order->waits == NULL || order->roots == NULL || order->first == NULL ||
        order->next == NULL) {
        fry_plan_order_free(self->memory, order);
        return FRY_REFUSED_NO_MEMORY;
    }
    fill_order(self, order);
    return FRY_TAKEN;
}

void fry_plan_order_free(const fry_memory *memory, fry_plan_order *order)
{
    free_table(memory, order->waits, order->count, sizeof *order->waits);
    free_table(memory, order->roots, order->count, sizeof *order->roots);
    free_table(memory, order->first, order->count + 1, sizeof *order->first);
    free_table(memory, order->next, order->wait_count, sizeof *order->next);
    *order = (fry_plan_order){0};
}

void fry_plan_touch_free(const fry_memory *memory, fry_plan_touch *touch)
{
    free_table(memory, touch->accesses, touch->count, sizeof *touch->accesses);
    *touch = (fry_plan_touch){0};
}

/* ---- all of it ---- */

static bool open_work(work *self)
{
    self->use_count = count_uses(self);
    self->uses = table(self->memory, self->use_count, sizeof *self->uses);
    self->points = table(self->memory, 2 * self->use_count, sizeof *self->points);
    self->seen = table(self->memory, self->count, sizeof *self->seen);
    return self->uses != NULL && self->points != NULL && self->seen != NULL;
}

/* The pieces are known. */
static bool open_pieces(work *self)
{
    self->pieces = table(self->memory, self->point_count, sizeof *self->pieces);
    self->readers = table(self->memory, self->readers_most, sizeof *self->readers);
    if (self->pieces == NULL || self->readers == NULL)
        return false;
    memset(self->seen, 0, self->count * sizeof *self->seen);
    for (size_t i = 0; i < self->point_count; i++)
        self->pieces[i] = (piece){.writer = NONE, .reader = NONE};
    return true;
}

static void close_work(work *self)
{
    free_table(self->memory, self->uses, self->use_count, sizeof *self->uses);
    free_table(self->memory, self->points, 2 * self->use_count, sizeof *self->points);
    free_table(self->memory, self->seen, self->count, sizeof *self->seen);
    free_table(self->memory, self->pieces, self->point_count, sizeof *self->pieces);
    free_table(self->memory, self->readers, self->readers_most, sizeof *self->readers);
    if (self->waits != NULL)
        free_table(self->memory, self->waits, self->waits_most, sizeof *self->waits);
}

fry_refusal fry_plan_order_make(const fry_memory *memory, const fry_plan_step *steps,
                                uint32_t count, fry_plan_order *order, fry_plan_touch *touch_p)
{
    work self = {.memory = memory, .steps = steps, .count = count, .fence = NONE};
    fry_refusal why = FRY_REFUSED_NO_MEMORY;
    if (!open_work(&self))
        goto end;
    list_uses(&self);
    if (!cut(&self)) {
        why = FRY_REFUSED_PLAN_OVERLAPS;
        goto end;
    }
    if (!open_pieces(&self))
        goto end;
    enter_all(&self);
    enter_messages(&self);
    if (self.has_no_memory)
        goto end;
    why = list_order(&self, order);
    if (why == FRY_TAKEN && touch_p != NULL) {
        why = list_touch(&self, touch_p);
        if (why != FRY_TAKEN)
            fry_plan_order_free(memory, order);
    }
end:
    close_work(&self);
    return why;
}
