/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cell is what a block of `from` and a block of `to` have in common. The blocks of `to` that meet
 * a block of `from` are known by their places, so only cells that have elements are looked at.
 *
 * All cells of a block of `from`, once for each member that wants one and does not have the block,
 * make a line of elements; the members that have the block take consecutive pieces of it, as long
 * as their shares. So there are at most as many moves more than wanted cells as there are owners,
 * but for cells that are cut within a dimension, which take several boxes.
 */
#include "engine/reshard/schedule.h"

#include "engine/reshard/share.h"

#include <stdalign.h>
#include <string.h>

#define MOVES_FIRST 256
/* A cut may be so much of the shorter share away from where it should be: two such to a share. */
#define CUT_SLACK 64

typedef struct work {
    ferry_reshard *reshard;
    const fry_reshard_layout *from, *to;
    fry_reshard_wrong *wrong;
    uint64_t *wanted; /* of each block of `from`: elements that members want who don't have it */
    uint64_t *shares; /* of each of its owners */
    uint32_t *seen;   /* each rank: the block that it has, and one */
    uint32_t *places; /* each rank that has it: its position there */
    /* The block of `from` at hand. */
    uint32_t block;
    fry_reshard_box box;
    uint32_t owner; /* whose piece of the line is given out */
    uint64_t cut;   /* where the piece should end */
    uint64_t line;  /* where the cell begins */
} work;

/* ---- moves ---- */

static bool grow(ferry_reshard *reshard)
{
    size_t most = reshard->moves_most != 0 ? 2 * reshard->moves_most : MOVES_FIRST;
    size_t box_bytes = 2 * reshard->array.dimension_count * sizeof(uint64_t);
    fry_reshard_move *moves =
        fry_alloc_raw(&reshard->memory, most * sizeof *moves, alignof(fry_reshard_move));
    uint64_t *boxes = fry_alloc_raw(&reshard->memory, most * box_bytes, alignof(uint64_t));
    if (moves == NULL || boxes == NULL) {
        fry_free(&reshard->memory, moves, most * sizeof *moves);
        fry_free(&reshard->memory, boxes, most * box_bytes);
        return false;
    }
    if (reshard->move_count != 0) {
        memcpy(moves, reshard->moves, reshard->move_count * sizeof *moves);
        memcpy(boxes, reshard->boxes, reshard->move_count * box_bytes);
    }
    fry_free(&reshard->memory, reshard->moves, reshard->moves_most * sizeof *moves);
    fry_free(&reshard->memory, reshard->boxes, reshard->moves_most * box_bytes);
    reshard->moves = moves;
    reshard->boxes = boxes;
    reshard->moves_most = most;
    return true;
}

ferry_rank fry_reshard_schedule_source(const ferry_reshard *reshard, const fry_reshard_move *move)
{
    return reshard->layouts[move->side].ranks[move->source];
}

ferry_rank fry_reshard_schedule_target(const ferry_reshard *reshard, const fry_reshard_move *move)
{
    return reshard->layouts[FERRY_RESHARD_TO].ranks[move->target];
}

void fry_reshard_schedule_box(const ferry_reshard *reshard, size_t index, fry_reshard_box *box)
{
    uint32_t count = reshard->array.dimension_count;
    const uint64_t *at = reshard->boxes + 2 * count * index;
    for (uint32_t d = 0; d < FRY_RESHARD_DIMENSIONS; d++) {
        box->offset[d] = d < count ? at[d] : 0;
        box->extent[d] = d < count ? at[count + d] : 1;
    }
}

static void count_move(ferry_reshard *reshard, const fry_reshard_move *move, uint64_t size)
{
    ferry_reshard_member *from = &reshard->members[fry_reshard_schedule_source(reshard, move)];
    ferry_reshard_member *to = &reshard->members[fry_reshard_schedule_target(reshard, move)];
    if (from == to) {
        from->local_bytes += size;
        reshard->info.local_bytes += size;
        return;
    }
    from->out_bytes += size;
    from->send_count++;
    to->in_bytes += size;
    to->receive_count++;
    reshard->info.crossing_bytes += size;
    reshard->info.message_count++;
    if (move->is_packed)
        from->scratch_bytes += size;
    if (move->is_unpacked)
        to->scratch_bytes += size;
}

/* Whether so many more may be added: asked early, as they take memory. */
static bool allows_moves(work *self, uint64_t count)
{
    if (count <= FERRY_RESHARD_MOVES_MAX - self->reshard->move_count)
        return true;
    (void)fry_reshard_wrong_note(self->wrong, FERRY_E_INVALID,
                                 "the reshard takes more than %u moves", FERRY_RESHARD_MOVES_MAX);
    return false;
}

static bool add_move(work *self, const fry_reshard_move *move, const fry_reshard_box *box)
{
    ferry_reshard *reshard = self->reshard;
    uint32_t count = reshard->array.dimension_count;
    if (!allows_moves(self, 1))
        return false;
    if (reshard->move_count == reshard->moves_most && !grow(reshard)) {
        (void)fry_reshard_wrong_memory(self->wrong);
        return false;
    }
    uint64_t *at = reshard->boxes + 2 * count * reshard->move_count;
    memcpy(at, box->offset, count * sizeof *at);
    memcpy(at + count, box->extent, count * sizeof *at);
    reshard->moves[reshard->move_count++] = *move;
    count_move(reshard, move, fry_reshard_box_count(box) * reshard->array.element_bytes);
    return true;
}

/*
 * Adds the move of a box between members, in pieces if it takes scratch: each dimension outside is
 * cut at every index, the one where a piece is too large for once into ranges, those inside not.
 */
static bool add_message(work *self, fry_reshard_move *move, const fry_reshard_box *target,
                        const fry_reshard_box *box)
{
    move->is_packed = !fry_reshard_box_is_run(box, &self->box);
    move->is_unpacked = !fry_reshard_box_is_run(box, target);
    uint64_t most = FERRY_RESHARD_PACKED_BYTES_MAX / self->reshard->array.element_bytes;
    uint64_t count = fry_reshard_box_count(box);
    if (most == 0)
        most = 1;
    if ((!move->is_packed && !move->is_unpacked) || count <= most)
        return add_move(self, move, box);
    uint32_t d = 0;
    while (fry_reshard_box_unit(box, d + 1) > most)
        d++;
    uint64_t unit = fry_reshard_box_unit(box, d + 1), row = unit * box->extent[d];
    uint64_t step = unit * (most / unit);
    if (!allows_moves(self, count / row * (row / step)))
        return false;
    for (uint64_t begin = 0; begin < count;) {
        uint64_t row_end = begin - begin % row + row;
        uint64_t end = row_end - begin < step ? row_end : begin + step;
        fry_reshard_box piece;
        (void)fry_reshard_box_next(box, &begin, end, &piece);
        move->is_packed = !fry_reshard_box_is_run(&piece, &self->box);
        move->is_unpacked = !fry_reshard_box_is_run(&piece, target);
        if (!add_move(self, move, &piece))
            return false;
    }
    return true;
}

/* ---- cells ---- */

/* The blocks of `to` that meet the block at hand: ranges of places, and the place at hand. */
typedef struct cells {
    uint32_t first[FRY_RESHARD_DIMENSIONS], last[FRY_RESHARD_DIMENSIONS];
    uint32_t place[FRY_RESHARD_DIMENSIONS];
    uint32_t block;         /* of `to` */
    fry_reshard_box target; /* its box */
    fry_reshard_box box;    /* what it and the block at hand have in common */
} cells;

static void look_at_cell(const work *self, cells *at)
{
    fry_reshard_layout_box(self->to, &self->reshard->array, at->place, &at->target);
    at->block = 0;
    for (uint32_t d = 0; d < FRY_RESHARD_DIMENSIONS; d++) {
        uint64_t begin = self->box.offset[d], end = begin + self->box.extent[d];
        uint64_t target_end = at->target.offset[d] + at->target.extent[d];
        at->box.offset[d] = begin > at->target.offset[d] ? begin : at->target.offset[d];
        at->box.extent[d] = (end < target_end ? end : target_end) - at->box.offset[d];
        at->block = at->block * self->to->split_counts[d] + at->place[d];
    }
}

/* False: the block at hand has no elements. */
static bool first_cell(const work *self, cells *at)
{
    if (fry_reshard_box_count(&self->box) == 0)
        return false;
    for (uint32_t d = 0; d < FRY_RESHARD_DIMENSIONS; d++) {
        uint64_t extent = self->to->block_extents[d];
        at->first[d] = at->place[d] = (uint32_t)(self->box.offset[d] / extent);
        at->last[d] = (uint32_t)((self->box.offset[d] + self->box.extent[d] - 1) / extent);
    }
    look_at_cell(self, at);
    return true;
}

static bool next_cell(const work *self, cells *at)
{
    uint32_t d = self->reshard->array.dimension_count;
    while (d-- > 0) {
        if (at->place[d] < at->last[d]) {
            at->place[d]++;
            look_at_cell(self, at);
            return true;
        }
        at->place[d] = at->first[d];
    }
    return false;
}

/* Makes a block of `from` the one at hand. */
static void take_block(work *self, uint32_t block)
{
    uint32_t places[FRY_RESHARD_DIMENSIONS];
    self->block = block;
    fry_reshard_layout_places(self->from, block, places);
    fry_reshard_layout_box(self->from, &self->reshard->array, places, &self->box);
    for (uint32_t i = self->from->block_owners[block]; i < self->from->block_owners[block + 1];
         i++) {
        self->seen[self->from->owners[i].rank] = block + 1;
        self->places[self->from->owners[i].rank] = self->from->owners[i].position;
    }
}

static bool has_block(const work *self, ferry_rank rank)
{
    return self->seen[rank] == self->block + 1;
}

/* Counts the moves, too, as if no cell was cut. */
static bool count_wanted(work *self)
{
    cells at;
    uint64_t moves = 0;
    for (uint32_t block = 0; block < self->from->block_count; block++) {
        take_block(self, block);
        for (bool is_there = first_cell(self, &at); is_there; is_there = next_cell(self, &at)) {
            uint64_t wanting = 0;
            for (uint32_t i = self->to->block_owners[at.block];
                 i < self->to->block_owners[at.block + 1]; i++)
                wanting += !has_block(self, self->to->owners[i].rank);
            self->wanted[block] += wanting * fry_reshard_box_count(&at.box);
            moves += self->to->block_owners[at.block + 1] - self->to->block_owners[at.block];
        }
        if (!allows_moves(self, moves))
            return false;
    }
    return true;
}

/* ---- the line of a block ---- */

/* The next owner that has a share. There is one while something of the line is left. */
static uint32_t owner_from(const work *self, uint32_t owner)
{
    uint32_t end = self->from->block_owners[self->block + 1];
    while (owner < end && self->shares[owner] == 0)
        owner++;
    return owner;
}

static void begin_line(work *self)
{
    self->owner = owner_from(self, self->from->block_owners[self->block]);
    self->line = 0;
    self->cut = self->wanted[self->block] != 0 ? self->shares[self->owner] : 0;
}

static uint64_t cut_slack(const work *self, uint32_t next)
{
    uint64_t share = self->shares[self->owner];
    uint64_t other = next < self->from->block_owners[self->block + 1] ? self->shares[next] : share;
    uint64_t slack = (share < other ? share : other) / CUT_SLACK;
    return slack != 0 ? slack : 1;
}

/* Adds what one member wants of a cell: from one owner, or from several in a row. */
static bool add_wanted(work *self, const cells *at, uint32_t position)
{
    uint64_t count = fry_reshard_box_count(&at->box);
    for (uint64_t done = 0; done < count;) {
        uint64_t left = self->cut - self->line;
        uint64_t end = count;
        uint32_t next = owner_from(self, self->owner + 1);
        if (left < count)
            end = fry_reshard_box_near(&at->box, left, cut_slack(self, next));
        fry_reshard_move move = {.source = self->from->owners[self->owner].position,
                                 .target = position,
                                 .side = FERRY_RESHARD_FROM};
        fry_reshard_box part;
        while (fry_reshard_box_next(&at->box, &done, end, &part)) {
            if (!add_message(self, &move, &at->target, &part))
                return false;
        }
        if (left < count) {
            self->owner = next;
            self->cut += self->shares[next];
        }
    }
    self->line += count;
    return true;
}

static bool add_cell(work *self, const cells *at)
{
    for (uint32_t i = self->to->block_owners[at->block]; i < self->to->block_owners[at->block + 1];
         i++) {
        const fry_reshard_owner *to = &self->to->owners[i];
        if (!has_block(self, to->rank)) {
            if (!add_wanted(self, at, to->position))
                return false;
            continue;
        }
        fry_reshard_move move = {
            .source = self->places[to->rank], .target = to->position, .side = FERRY_RESHARD_FROM};
        if (!add_move(self, &move, &at->box))
            return false;
    }
    return true;
}

static bool add_moves(work *self)
{
    cells at;
    memset(self->seen, 0, self->reshard->rank_count * sizeof *self->seen);
    for (uint32_t block = 0; block < self->from->block_count; block++) {
        take_block(self, block);
        begin_line(self);
        for (bool is_there = first_cell(self, &at); is_there; is_there = next_cell(self, &at)) {
            if (!add_cell(self, &at))
                return false;
        }
    }
    return true;
}

/* To further positions of a member that has a block of `to` now. */
static bool add_copies(work *self)
{
    const fry_reshard_layout *to = self->to;
    for (uint32_t block = 0; block < to->block_count; block++) {
        fry_reshard_box box;
        fry_reshard_layout_part(to, &self->reshard->array, to->by_block[to->block_positions[block]],
                                &box);
        if (fry_reshard_box_count(&box) == 0)
            continue;
        for (uint32_t i = to->block_owners[block]; i < to->block_owners[block + 1]; i++)
            self->places[to->owners[i].rank] = to->owners[i].position;
        for (uint32_t i = to->block_positions[block]; i < to->block_positions[block + 1]; i++) {
            uint32_t position = to->by_block[i];
            fry_reshard_move move = {.source = self->places[to->ranks[position]],
                                     .target = position,
                                     .side = FERRY_RESHARD_TO};
            if (move.source != position && !add_move(self, &move, &box))
                return false;
        }
    }
    return true;
}

/* ---- the whole ---- */

/* All that is summed up is at most this. */
static bool check_sum(work *self)
{
    const fry_reshard_layout *to = self->to;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < to->position_count; i++) {
        fry_reshard_box box;
        fry_reshard_layout_part(to, &self->reshard->array, i, &box);
        sum += fry_reshard_box_count(&box) * self->reshard->array.element_bytes;
        if (sum > INT64_MAX) {
            (void)fry_reshard_wrong_note(self->wrong, FERRY_E_INVALID,
                                         "`to`: the parts of all positions together have 2^63 "
                                         "bytes or more");
            return false;
        }
    }
    return true;
}

static bool make_tables(work *self)
{
    ferry_reshard *reshard = self->reshard;
    const fry_memory *memory = &reshard->memory;
    uint32_t from = self->from->rank_count, to = self->to->rank_count;
    size_t positions = self->from->position_count;
    reshard->rank_count = from > to ? from : to;
    reshard->members = fry_alloc(memory, reshard->rank_count * sizeof *reshard->members,
                                 alignof(ferry_reshard_member));
    self->wanted = fry_alloc(memory, positions * sizeof *self->wanted, alignof(uint64_t));
    self->shares = fry_alloc(memory, positions * sizeof *self->shares, alignof(uint64_t));
    self->seen = fry_alloc(memory, reshard->rank_count * sizeof *self->seen, alignof(uint32_t));
    self->places = fry_alloc(memory, reshard->rank_count * sizeof *self->places, alignof(uint32_t));
    return reshard->members != NULL && self->wanted != NULL && self->shares != NULL &&
           self->seen != NULL && self->places != NULL;
}

static void free_tables(work *self)
{
    const fry_memory *memory = &self->reshard->memory;
    size_t positions = self->from->position_count;
    fry_free(memory, self->wanted, positions * sizeof *self->wanted);
    fry_free(memory, self->shares, positions * sizeof *self->shares);
    fry_free(memory, self->seen, self->reshard->rank_count * sizeof *self->seen);
    fry_free(memory, self->places, self->reshard->rank_count * sizeof *self->places);
}

static void sum_up(work *self, uint64_t least_sent)
{
    ferry_reshard *reshard = self->reshard;
    ferry_reshard_info *info = &reshard->info;
    for (uint32_t i = 0; i < self->from->position_count; i++)
        reshard->members[self->from->ranks[i]].from_count++;
    for (uint32_t i = 0; i < self->to->position_count; i++)
        reshard->members[self->to->ranks[i]].to_count++;
    info->bound_bytes = least_sent * reshard->array.element_bytes;
    for (uint32_t i = 0; i < reshard->rank_count; i++) {
        const ferry_reshard_member *member = &reshard->members[i];
        uint64_t out = member->out_bytes, in = member->in_bytes;
        info->busiest_bytes = out > info->busiest_bytes ? out : info->busiest_bytes;
        info->busiest_bytes = in > info->busiest_bytes ? in : info->busiest_bytes;
        info->bound_bytes = in > info->bound_bytes ? in : info->bound_bytes;
    }
    info->array_bytes = reshard->array.size_bytes;
    info->move_count = reshard->move_count;
    info->from_positions = self->from->position_count;
    info->to_positions = self->to->position_count;
    info->rank_count = reshard->rank_count;
}

ferry_status fry_reshard_schedule_make(ferry_reshard *reshard, fry_reshard_wrong *wrong)
{
    work self = {.reshard = reshard,
                 .from = &reshard->layouts[FERRY_RESHARD_FROM],
                 .to = &reshard->layouts[FERRY_RESHARD_TO],
                 .wrong = wrong};
    uint64_t least_sent = 0;
    if (!make_tables(&self)) {
        (void)fry_reshard_wrong_memory(wrong);
        goto end;
    }
    if (!check_sum(&self) || !count_wanted(&self))
        goto end;
    if (!fry_reshard_share(&reshard->memory, self.from, self.wanted, self.shares, &least_sent)) {
        (void)fry_reshard_wrong_memory(wrong);
        goto end;
    }
    if (add_moves(&self) && add_copies(&self))
        sum_up(&self, least_sent);
end:
    free_tables(&self);
    return wrong->status;
}

void fry_reshard_schedule_free(ferry_reshard *reshard)
{
    const fry_memory *memory = &reshard->memory;
    size_t box_bytes = 2 * reshard->array.dimension_count * sizeof(uint64_t);
    fry_free(memory, reshard->moves, reshard->moves_most * sizeof *reshard->moves);
    fry_free(memory, reshard->boxes, reshard->moves_most * box_bytes);
    fry_free(memory, reshard->members, reshard->rank_count * sizeof *reshard->members);
    for (size_t i = 0; i < 2; i++)
        fry_reshard_layout_free(&reshard->layouts[i], memory);
}
