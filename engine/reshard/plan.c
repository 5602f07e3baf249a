/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of a member's part in a reshard. Members go round: in turn k each sends to the member k
 * ranks above it, and receives from the one k ranks below. This is one order of all messages that
 * all members keep to, each with those that are its own. So where a move waits for room in scratch,
 * it waits for messages before it in that order, here and at the other end; and two members never
 * wait for each other. It also spreads the messages: nobody is everybody's first receiver.
 *
 * What is local goes last: it needs nobody, while others wait for what is sent.
 */
#include "base/options.h"
#include "engine/engine.h"
#include "engine/ground/ground.h"
#include "engine/messages/groups.h"
#include "engine/reshard/schedule.h"
#include "engine/reshard/scratch.h"

#include <inttypes.h>
#include <stdalign.h>
#include <stdlib.h>

#define SCRATCH_DEFAULT ((uint64_t)256 << 20)
#define ROWS_MAX ((uint64_t)1 << 16) /* of an operation: ferry_copy_rows */
#define OPS_FIRST 64
#define LOCAL UINT32_MAX

/* A move of this member's. */
typedef struct own_move {
    uint32_t turn; /* LOCAL: it waits for no other member */
    uint32_t index;
} own_move;

/* A span, as the check for overlaps sees it. */
typedef struct place {
    const ferry_buffer *buffer;
    uint64_t begin, end;
    uint32_t index;
    uint8_t side;
} place;

typedef struct work {
    ferry_engine *engine;
    ferry_group *group;
    const ferry_reshard *reshard;
    ferry_reshard_options options;
    const ferry_span *spans[2]; /* by ferry_reshard_side */
    ferry_rank rank;
    fry_reshard_wrong *wrong;
    fry_reshard_scratch scratch;
    own_move *moves;
    size_t move_count;
    ferry_op_options op_options; /* of all operations */
    ferry_op *ops;
    size_t op_count, ops_most;
} work;

static const char *const side_names[2] = {"from", "to"};

/* ---- checks ---- */

static ferry_status check_ranks(const work *self, uint32_t group_size)
{
    for (int side = 0; side < 2 && self->reshard->rank_count > group_size; side++) {
        const fry_reshard_layout *layout = &self->reshard->layouts[side];
        for (uint32_t i = 0; i < layout->position_count; i++) {
            if (layout->ranks[i] >= group_size)
                return fry_reshard_wrong_note(self->wrong, FERRY_E_INVALID,
                                              "`%s`: position %" PRIu32 " is of rank %" PRIu32
                                              "; the group has %" PRIu32 " members",
                                              side_names[side], i, layout->ranks[i], group_size);
        }
    }
    return FERRY_OK;
}

static ferry_status check_span(const work *self, int side, uint32_t position)
{
    const fry_reshard_layout *layout = &self->reshard->layouts[side];
    const ferry_span *span = &self->spans[side][layout->indices[position]];
    fry_reshard_box box;
    fry_reshard_layout_part(layout, &self->reshard->array, position, &box);
    uint64_t size = fry_reshard_box_count(&box) * self->reshard->array.element_bytes;
    if (size == 0)
        return FERRY_OK;
    const char *why = NULL;
    if (span->buffer == NULL)
        why = "has no buffer";
    else if (ferry_buffer_engine(span->buffer) != self->engine)
        why = "is of another engine than the group";
    else if (span->offset_bytes > ferry_buffer_size_bytes(span->buffer) ||
             span->size_bytes > ferry_buffer_size_bytes(span->buffer) - span->offset_bytes)
        why = "reaches past the end of its buffer";
    if (why != NULL)
        return fry_reshard_wrong_note(self->wrong, FERRY_E_INVALID, "span %" PRIu32 " of `%s` %s",
                                      layout->indices[position], side_names[side], why);
    if (span->size_bytes != size)
        return fry_reshard_wrong_note(self->wrong, FERRY_E_INVALID,
                                      "span %" PRIu32 " of `%s` has %zu bytes; the part of "
                                      "position %" PRIu32 " has %" PRIu64,
                                      layout->indices[position], side_names[side], span->size_bytes,
                                      position, size);
    return FERRY_OK;
}

static ferry_status check_spans(const work *self, int side, size_t count)
{
    const ferry_reshard *reshard = self->reshard;
    const fry_reshard_layout *layout = &reshard->layouts[side];
    size_t wanted = 0;
    if (self->rank < reshard->rank_count)
        wanted = side == FERRY_RESHARD_FROM ? reshard->members[self->rank].from_count
                                            : reshard->members[self->rank].to_count;
    if (count != wanted || (count != 0 && self->spans[side] == NULL))
        return fry_reshard_wrong_note(
            self->wrong, FERRY_E_INVALID,
            "%s_count is %zu%s; rank %" PRIu32 " has %zu positions in the layout `%s`",
            side_names[side], count, count == wanted ? ", but the spans are NULL" : "", self->rank,
            wanted, side_names[side]);
    for (uint32_t i = 0; i < layout->position_count && wanted != 0; i++) {
        if (layout->ranks[i] == self->rank && check_span(self, side, i) != FERRY_OK)
            return self->wrong->status;
    }
    return FERRY_OK;
}

static int by_place(const void *left, const void *right)
{
    const place *a = left, *b = right;
    if (a->buffer != b->buffer)
        return (uintptr_t)a->buffer < (uintptr_t)b->buffer ? -1 : 1;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

/* Those that are read may overlap each other. */
static ferry_status find_overlap(const work *self, place *places, size_t count)
{
    const place *last[2] = {NULL, NULL}; /* of each side, that which ends last so far */
    qsort(places, count, sizeof *places, by_place);
    for (size_t i = 0; i < count; i++) {
        const place *at = &places[i];
        if (i != 0 && places[i - 1].buffer != at->buffer)
            last[0] = last[1] = NULL;
        for (int side = 0; side < 2; side++) {
            if (last[side] != NULL && at->begin < last[side]->end &&
                (side == FERRY_RESHARD_TO || at->side == FERRY_RESHARD_TO))
                return fry_reshard_wrong_note(
                    self->wrong, FERRY_E_INVALID,
                    "span %" PRIu32 " of `%s` overlaps span %" PRIu32 " of `%s`", at->index,
                    side_names[at->side], last[side]->index, side_names[side]);
        }
        if (last[at->side] == NULL || at->end > last[at->side]->end)
            last[at->side] = at;
    }
    return FERRY_OK;
}

static ferry_status check_overlaps(const work *self)
{
    const size_t counts[2] = {self->options.from_count, self->options.to_count};
    size_t most = counts[0] + counts[1], count = 0;
    if (counts[1] == 0)
        return FERRY_OK;
    place *places = fry_alloc_raw(&self->engine->memory, most * sizeof *places, alignof(place));
    if (places == NULL)
        return fry_reshard_wrong_memory(self->wrong);
    for (uint8_t side = 0; side < 2; side++) {
        for (uint32_t i = 0; i < counts[side]; i++) {
            const ferry_span *span = &self->spans[side][i];
            if (span->buffer != NULL && span->size_bytes != 0)
                places[count++] = (place){span->buffer, span->offset_bytes,
                                          span->offset_bytes + span->size_bytes, i, side};
        }
    }
    ferry_status status = find_overlap(self, places, count);
    fry_free(&self->engine->memory, places, most * sizeof *places);
    return status;
}

/* ---- this member's moves, in their order ---- */

static bool is_own(const work *self, const fry_reshard_move *move, own_move *own)
{
    uint32_t count = self->reshard->rank_count;
    ferry_rank source = fry_reshard_schedule_source(self->reshard, move);
    ferry_rank target = fry_reshard_schedule_target(self->reshard, move);
    own->turn = source == target ? LOCAL : (target + count - source) % count;
    return source == self->rank || target == self->rank;
}

static int by_turn(const void *left, const void *right)
{
    const own_move *a = left, *b = right;
    if (a->turn != b->turn)
        return a->turn < b->turn ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

static ferry_status list_moves(work *self)
{
    const ferry_reshard *reshard = self->reshard;
    own_move own;
    size_t count = 0;
    for (size_t i = 0; i < reshard->move_count; i++)
        self->move_count += is_own(self, &reshard->moves[i], &own);
    if (self->move_count == 0)
        return FERRY_OK;
    self->moves = fry_alloc_raw(&self->engine->memory, self->move_count * sizeof *self->moves,
                                alignof(own_move));
    if (self->moves == NULL)
        return fry_reshard_wrong_memory(self->wrong);
    for (uint32_t i = 0; i < reshard->move_count; i++) {
        own.index = i;
        if (is_own(self, &reshard->moves[i], &own))
            self->moves[count++] = own;
    }
    qsort(self->moves, count, sizeof *self->moves, by_turn);
    return FERRY_OK;
}

static const ferry_span *source_span(const work *self, const fry_reshard_move *move)
{
    const fry_reshard_layout *layout = &self->reshard->layouts[move->side];
    return &self->spans[move->side][layout->indices[move->source]];
}

static const ferry_span *target_span(const work *self, const fry_reshard_move *move)
{
    const fry_reshard_layout *layout = &self->reshard->layouts[FERRY_RESHARD_TO];
    return &self->spans[FERRY_RESHARD_TO][layout->indices[move->target]];
}

static void count_scratch(work *self)
{
    const ferry_reshard *reshard = self->reshard;
    for (size_t i = 0; i < self->move_count && self->moves[i].turn != LOCAL; i++) {
        const fry_reshard_move *move = &reshard->moves[self->moves[i].index];
        bool is_sent = fry_reshard_schedule_source(reshard, move) == self->rank;
        fry_reshard_box box;
        fry_reshard_schedule_box(reshard, self->moves[i].index, &box);
        uint64_t size = fry_reshard_box_count(&box) * reshard->array.element_bytes;
        if (is_sent && move->is_packed)
            fry_reshard_scratch_count(&self->scratch,
                                      ferry_buffer_device(source_span(self, move)->buffer),
                                      FRY_RESHARD_PACKED, size);
        else if (!is_sent && move->is_unpacked)
            fry_reshard_scratch_count(&self->scratch,
                                      ferry_buffer_device(target_span(self, move)->buffer),
                                      FRY_RESHARD_UNPACKED, size);
    }
}

/* ---- operations ---- */

static bool grow(work *self)
{
    size_t most = self->ops_most != 0 ? 2 * self->ops_most : OPS_FIRST;
    ferry_op *ops = fry_alloc_raw(&self->engine->memory, most * sizeof *ops, alignof(ferry_op));
    if (ops == NULL)
        return false;
    if (self->op_count != 0)
        memcpy(ops, self->ops, self->op_count * sizeof *ops);
    fry_free(&self->engine->memory, self->ops, self->ops_most * sizeof *ops);
    self->ops = ops;
    self->ops_most = most;
    return true;
}

static ferry_status add_op(work *self, const ferry_op *op)
{
    if (self->op_count == FERRY_PLAN_OPS_MAX)
        return fry_reshard_wrong_note(self->wrong, FERRY_E_INVALID,
                                      "rank %" PRIu32 "'s part takes more than %u operations",
                                      self->rank, FERRY_PLAN_OPS_MAX);
    if (self->op_count == self->ops_most && !grow(self))
        return fry_reshard_wrong_memory(self->wrong);
    self->ops[self->op_count] = *op;
    self->ops[self->op_count++].options = &self->op_options;
    return FERRY_OK;
}

/* The level with the most rows. */
static uint32_t longest_level(const fry_reshard_rows *rows)
{
    uint32_t longest = 0;
    for (uint32_t i = 1; i < rows->level_count; i++) {
        if (rows->levels[i].count > rows->levels[longest].count)
            longest = i;
    }
    return longest;
}

/* Rows of one level, from a place on, in as many operations as it takes. */
static ferry_status add_rows(work *self, const ferry_span *dst, const ferry_span *src,
                             const fry_reshard_rows *rows, uint32_t level)
{
    uint64_t most = self->engine->span_count_max / 2;
    uint64_t count = rows->level_count != 0 ? rows->levels[level].count : 1;
    if (most > ROWS_MAX)
        most = ROWS_MAX;
    for (uint64_t done = 0; done < count;) {
        uint64_t step = count - done < most ? count - done : most;
        ferry_op op = {.kind = FERRY_OP_COPY, .dst = *dst, .src = *src, .row_count = step};
        op.dst.size_bytes = op.src.size_bytes = rows->row_bytes;
        if (rows->level_count != 0) {
            op.dst_pitch_bytes = rows->levels[level].target_pitch_bytes;
            op.src_pitch_bytes = rows->levels[level].source_pitch_bytes;
            op.dst.offset_bytes += done * op.dst_pitch_bytes;
            op.src.offset_bytes += done * op.src_pitch_bytes;
        }
        if (add_op(self, &op) != FERRY_OK)
            return self->wrong->status;
        done += step;
    }
    return FERRY_OK;
}

/* Copies a box between two spans, which hold larger ones. */
static ferry_status add_copies(work *self, const ferry_span *dst, const fry_reshard_box *target,
                               const ferry_span *src, const fry_reshard_box *source,
                               const fry_reshard_box *box)
{
    fry_reshard_rows rows;
    uint64_t at[FRY_RESHARD_DIMENSIONS] = {0};
    fry_reshard_rows_of(box, source, target, self->reshard->array.element_bytes, &rows);
    uint32_t by_rows = longest_level(&rows), level;
    do {
        ferry_span to = *dst, from = *src;
        to.offset_bytes += rows.target_bytes;
        from.offset_bytes += rows.source_bytes;
        for (uint32_t i = 0; i < rows.level_count; i++) {
            to.offset_bytes += at[i] * rows.levels[i].target_pitch_bytes;
            from.offset_bytes += at[i] * rows.levels[i].source_pitch_bytes;
        }
        if (add_rows(self, &to, &from, &rows, by_rows) != FERRY_OK)
            return self->wrong->status;
        level = 0;
        while (level < rows.level_count &&
               (level == by_rows || ++at[level] == rows.levels[level].count))
            at[level++] = 0;
    } while (level < rows.level_count);
    return FERRY_OK;
}

/* The part of a span that holds a box in one run. */
static ferry_span run_of(const work *self, const ferry_span *span, const fry_reshard_box *within,
                         const fry_reshard_box *box)
{
    fry_reshard_rows rows;
    fry_reshard_rows_of(box, within, box, self->reshard->array.element_bytes, &rows);
    return (ferry_span){span->buffer, span->offset_bytes + rows.source_bytes, rows.row_bytes};
}

static ferry_status add_send(work *self, const fry_reshard_move *move, const fry_reshard_box *box)
{
    const ferry_reshard *reshard = self->reshard;
    const ferry_span *span = source_span(self, move);
    fry_reshard_box part;
    fry_reshard_layout_part(&reshard->layouts[move->side], &reshard->array, move->source, &part);
    ferry_op op = {.kind = FERRY_OP_SEND,
                   .group = self->group,
                   .tag = self->options.tag,
                   .peer = fry_reshard_schedule_target(reshard, move)};
    if (!move->is_packed) {
        op.src = run_of(self, span, &part, box);
    } else {
        op.src = fry_reshard_scratch_place(
            &self->scratch, ferry_buffer_device(span->buffer), FRY_RESHARD_PACKED,
            fry_reshard_box_count(box) * reshard->array.element_bytes);
        if (add_copies(self, &op.src, box, span, &part, box) != FERRY_OK)
            return self->wrong->status;
    }
    return add_op(self, &op);
}

static ferry_status add_receive(work *self, const fry_reshard_move *move,
                                const fry_reshard_box *box)
{
    const ferry_reshard *reshard = self->reshard;
    const ferry_span *span = target_span(self, move);
    fry_reshard_box part;
    fry_reshard_layout_part(&reshard->layouts[FERRY_RESHARD_TO], &reshard->array, move->target,
                            &part);
    ferry_op op = {.kind = FERRY_OP_RECV,
                   .group = self->group,
                   .tag = self->options.tag,
                   .peer = fry_reshard_schedule_source(reshard, move)};
    op.dst = move->is_unpacked
                 ? fry_reshard_scratch_place(
                       &self->scratch, ferry_buffer_device(span->buffer), FRY_RESHARD_UNPACKED,
                       fry_reshard_box_count(box) * reshard->array.element_bytes)
                 : run_of(self, span, &part, box);
    if (add_op(self, &op) != FERRY_OK)
        return self->wrong->status;
    return move->is_unpacked ? add_copies(self, span, &part, &op.dst, box, box) : FERRY_OK;
}

static ferry_status add_local(work *self, const fry_reshard_move *move, const fry_reshard_box *box)
{
    const ferry_reshard *reshard = self->reshard;
    fry_reshard_box source, target;
    fry_reshard_layout_part(&reshard->layouts[move->side], &reshard->array, move->source, &source);
    fry_reshard_layout_part(&reshard->layouts[FERRY_RESHARD_TO], &reshard->array, move->target,
                            &target);
    return add_copies(self, target_span(self, move), &target, source_span(self, move), &source,
                      box);
}

static ferry_status add_ops(work *self)
{
    for (size_t i = 0; i < self->move_count; i++) {
        const fry_reshard_move *move = &self->reshard->moves[self->moves[i].index];
        fry_reshard_box box;
        fry_reshard_schedule_box(self->reshard, self->moves[i].index, &box);
        if (self->moves[i].turn == LOCAL)
            (void)add_local(self, move, &box);
        else if (fry_reshard_schedule_source(self->reshard, move) == self->rank)
            (void)add_send(self, move, &box);
        else
            (void)add_receive(self, move, &box);
        if (self->wrong->status != FERRY_OK)
            break;
    }
    return self->wrong->status;
}

/* ---- the plan ---- */

/* Better now than at every post. */
static ferry_status check_plan(const work *self, const ferry_plan *plan)
{
    ferry_plan_info info = FERRY_PLAN_INFO_INIT;
    (void)ferry_plan_describe(plan, &info);
    if (info.access_count <= self->engine->span_count_max)
        return FERRY_OK;
    return fry_reshard_wrong_note(self->wrong, FERRY_E_INVALID,
                                  "a post would touch %" PRIu64 " spans, by rows; the engine's "
                                  "max_accesses and max_edges allow %zu",
                                  info.access_count, self->engine->span_count_max);
}

static ferry_status prepare(work *self, const ferry_reshard_options *given)
{
    uint32_t group_size = ferry_group_size(self->group);
    if (fry_options_read(&self->options, sizeof self->options, given) != FERRY_OK)
        return fry_reshard_wrong_note(self->wrong, FERRY_E_INVALID,
                                      "struct_size of the options is invalid, or unknown fields "
                                      "are set: use FERRY_RESHARD_OPTIONS_INIT");
    if (group_size == 0)
        return fry_reshard_wrong_note(self->wrong, FERRY_E_INVALID,
                                      "the group has not been joined");
    self->rank = ferry_group_rank(self->group);
    self->spans[FERRY_RESHARD_FROM] = self->options.from;
    self->spans[FERRY_RESHARD_TO] = self->options.to;
    self->op_options = (ferry_op_options)FERRY_OP_OPTIONS_INIT;
    self->op_options.priority = self->options.priority;
    if (self->options.scratch_bytes_max == 0)
        self->options.scratch_bytes_max = SCRATCH_DEFAULT;
    if (check_ranks(self, group_size) != FERRY_OK ||
        check_spans(self, FERRY_RESHARD_FROM, self->options.from_count) != FERRY_OK ||
        check_spans(self, FERRY_RESHARD_TO, self->options.to_count) != FERRY_OK)
        return self->wrong->status;
    return check_overlaps(self);
}

static ferry_status make(work *self, ferry_plan **plan_p, ferry_error **error_p)
{
    ferry_status status = list_moves(self);
    if (status != FERRY_OK)
        return status;
    count_scratch(self);
    status = fry_reshard_scratch_make(&self->scratch, self->options.scratch_bytes_max, self->wrong);
    if (status == FERRY_OK)
        status = add_ops(self);
    ferry_plan *plan = NULL;
    if (status == FERRY_OK)
        status = ferry_plan_create(self->engine, self->ops, sizeof *self->ops, self->op_count,
                                   &plan, error_p);
    if (status == FERRY_OK)
        status = check_plan(self, plan);
    if (status == FERRY_OK)
        *plan_p = plan;
    else
        ferry_plan_release(plan);
    fry_reshard_scratch_release(&self->scratch);
    fry_free(&self->engine->memory, self->ops, self->ops_most * sizeof *self->ops);
    fry_free(&self->engine->memory, self->moves, self->move_count * sizeof *self->moves);
    return status;
}

/* What is missing before there is an engine to ask. */
static const char *find_null(const ferry_group *group, const ferry_reshard *reshard,
                             ferry_plan *const *plan_p)
{
    if (group == NULL)
        return "the group is NULL";
    if (reshard == NULL)
        return "the reshard is NULL";
    return plan_p == NULL ? "plan_p is NULL" : NULL;
}

ferry_status ferry_reshard_plan(ferry_group *group, const ferry_reshard *reshard,
                                const ferry_reshard_options *options, ferry_plan **plan_p,
                                ferry_error **error_p)
{
    fry_memory memory;
    fry_reshard_wrong wrong = {.status = FERRY_OK};
    fry_memory_init(&memory, NULL);
    const char *missing = find_null(group, reshard, plan_p);
    ferry_engine *engine = group != NULL ? group->engine : NULL;
    ferry_status status = missing != NULL ? FERRY_E_INVALID : fry_engine_check_open(engine);
    if (status != FERRY_OK) {
        (void)fry_reshard_wrong_note(&wrong, status, "%s", missing != NULL ? missing : "");
        return fry_reshard_wrong_tell(&wrong, &memory, error_p);
    }
    work *self = fry_alloc(&engine->memory, sizeof *self, alignof(work));
    if (self == NULL) {
        (void)fry_reshard_wrong_memory(&wrong);
        return fry_reshard_wrong_tell(&wrong, &memory, error_p);
    }
    self->engine = engine;
    self->group = group;
    self->reshard = reshard;
    self->wrong = &wrong;
    status = prepare(self, options);
    if (status == FERRY_OK)
        status = make(self, plan_p, error_p);
    fry_free(&engine->memory, self, sizeof *self);
    return wrong.status != FERRY_OK ? fry_reshard_wrong_tell(&wrong, &engine->memory, error_p)
                                    : status;
}
