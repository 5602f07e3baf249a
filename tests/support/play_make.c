/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/play_make.h"
#include "tests/support/play_words.h"

#include <stdio.h>
#include <stdlib.h>

enum { LISTED = 32 };

/* ---- an operation, and its options ---- */

typedef struct made {
    ferry_op op;
    ferry_op_options options;
    ferry_future *after[LISTED];
    ferry_access accesses[LISTED];
} made;

static bool add_access(made *self, ferry_access_mode mode)
{
    if (self->options.access_count == LISTED)
        return play_complain("too many spans");
    ferry_access *access = &self->accesses[self->options.access_count++];
    access->mode = mode;
    return play_take_span(&access->span);
}

static bool add_after(made *self)
{
    do {
        if (self->options.after_count == LISTED)
            return play_complain("too many futures");
        if (!play_take_future(&self->after[self->options.after_count++]))
            return false;
    } while (play_is_future(play_peek()));
    return true;
}

static bool take_priority(made *self)
{
    self->options.priority = FERRY_PRIORITY_HIGH;
    if (play_skip("high"))
        return true;
    self->options.priority = FERRY_PRIORITY_LOW;
    return play_must("low");
}

/* It outlives the play. */
static bool take_label(made *self)
{
    enum { LABELS = 16 };
    static char labels[LABELS][SCENE_NAME_BYTES];
    const char *word = play_take("label");
    for (size_t i = 0; i < LABELS; i++) {
        if (labels[i][0] == '\0')
            (void)snprintf(labels[i], sizeof labels[i], "%s", word);
        self->options.label = labels[i];
        if (strcmp(labels[i], word) == 0)
            return true;
    }
    return play_complain("too many labels, or \"%s\" is too long", word);
}

static bool take_deadline(made *self)
{
    int64_t ns = 0;
    if (!play_take_number(&ns))
        return false;
    self->options.deadline_ns = START_NS + ns;
    return true;
}

static bool take_option(made *self)
{
    if (play_skip("after"))
        return add_after(self);
    if (play_skip("reads"))
        return add_access(self, FERRY_READ);
    if (play_skip("writes"))
        return add_access(self, FERRY_WRITE);
    if (play_skip("changes"))
        return add_access(self, FERRY_READ_WRITE);
    if (play_skip("priority"))
        return take_priority(self);
    if (play_skip("untracked")) {
        self->options.flags |= FERRY_OP_UNTRACKED;
        return true;
    }
    if (play_skip("label"))
        return take_label(self);
    if (play_skip("by")) {
        self->op.executor = &by_hand()->executor;
        return play_must("hand");
    }
    return play_must("deadline") && take_deadline(self);
}

/* Up to the end of the step, or of the operation within a batch. */
static bool take_options(made *self)
{
    while (!play_is_read() && strcmp(play_peek(), ",") != 0) {
        if (!take_option(self))
            return false;
    }
    return true;
}

static bool take_rows(ferry_op *op)
{
    return play_take_size(&op->row_count) && play_take_span(&op->dst) && play_must("pitch") &&
           play_take_size(&op->dst_pitch_bytes) && play_must("<-") && play_take_span(&op->src) &&
           play_must("pitch") && play_take_size(&op->src_pitch_bytes);
}

static bool take_words_of(const char *word, ferry_op *op)
{
    op->kind = FERRY_OP_COPY;
    if (strcmp(word, "rows") == 0)
        return take_rows(op);
    if (strcmp(word, "copy") == 0)
        return play_take_span(&op->dst) && play_must("<-") && play_take_span(&op->src);
    op->kind = FERRY_OP_NOP;
    if (strcmp(word, "nop") == 0)
        return true;
    op->kind = FERRY_OP_CALL;
    op->fn = play_skip("failing") ? fail_call : count_call;
    op->arg = scene_calls();
    return strcmp(word, "call") == 0 || play_complain("\"%s\" is no operation of a batch", word);
}

/* The options point into self, which stays in place. */
static bool take_operation(const char *word, made *self)
{
    *self = (made){.options = FERRY_OP_OPTIONS_INIT};
    self->options.after = self->after;
    self->options.accesses = self->accesses;
    self->op.options = &self->options;
    return take_words_of(word, &self->op) && take_options(self);
}

/* ---- operations alone ---- */

typedef ferry_future *(*make_fn)(const char *word, const char *name);

static ferry_future *make_operation(const char *word, const char *name)
{
    made self;
    (void)name;
    if (!take_operation(word, &self))
        return NULL;
    const ferry_op *op = &self.op;
    if (op->kind == FERRY_OP_NOP)
        return ferry_nop(engine(), op->options);
    if (op->kind == FERRY_OP_CALL)
        return ferry_call(engine(), op->executor, op->fn, op->arg, op->options);
    if (strcmp(word, "copy") == 0)
        return ferry_copy(engine(), op->dst, op->src, op->options);
    return ferry_copy_rows(engine(), op->dst, op->dst_pitch_bytes, op->src, op->src_pitch_bytes,
                           op->row_count, op->options);
}

static ferry_future *make_combination(const char *word, const char *name)
{
    ferry_future *futures[LISTED];
    size_t count = 0;
    (void)name;
    while (!play_is_read()) {
        if (count == LISTED || !play_take_future(&futures[count++]))
            return NULL;
    }
    return strcmp(word, "all") == 0 ? ferry_future_all(engine(), futures, count)
                                    : ferry_future_any(engine(), futures, count);
}

static ferry_future *make_view(const char *word, const char *name)
{
    ferry_future *future;
    (void)name;
    if (!play_take_future(&future))
        return NULL;
    return strcmp(word, "issued") == 0 ? ferry_future_issued(future) : ferry_future_quiet(future);
}

static ferry_future *make_drain(const char *word, const char *name)
{
    (void)word, (void)name;
    return ferry_engine_drain(engine());
}

static ferry_future *make_writable(const char *word, const char *name)
{
    (void)word, (void)name;
    return ferry_engine_writable(engine());
}

/* ---- batches ---- */

typedef struct batch {
    made parts[LISTED];
    made shared; /* its options alone */
    ferry_op ops[LISTED];
    size_t count;
} batch;

/* "nop , copy a <- b after p , with deadline 5", behind the word "batch". */
static bool take_batch(batch *self)
{
    self->shared = (made){.options = FERRY_OP_OPTIONS_INIT};
    self->shared.options.after = self->shared.after;
    self->shared.options.accesses = self->shared.accesses;
    while (!play_is_read()) {
        if (play_skip("with"))
            return take_options(&self->shared);
        if (self->count == LISTED)
            return play_complain("too many operations");
        made *part = &self->parts[self->count];
        if (!take_operation(play_take("operation"), part))
            return false;
        self->ops[self->count++] = part->op;
        if (!play_is_read() && !play_must(","))
            return false;
    }
    return true;
}

/* With a future for each, they are called by its name and their number. */
static ferry_future *make_batch(const char *word, const char *name)
{
    static batch self;
    ferry_future *each[LISTED];
    bool has_each = play_skip("each");
    (void)word;
    self.count = 0;
    if (!take_batch(&self))
        return NULL;
    ferry_future *all = ferry_batch(engine(), self.ops, sizeof self.ops[0], self.count,
                                    has_each ? each : NULL, &self.shared.options);
    for (size_t i = 0; has_each && i < self.count; i++) {
        char part[2 * SCENE_NAME_BYTES];
        (void)snprintf(part, sizeof part, "%s%zu", name, i);
        if (!play_keep_as(SCENE_FUTURE, each[i], part))
            return NULL;
    }
    return all;
}

/* ---- all of them ---- */

static const struct {
    const char *word;
    make_fn make;
} makers[] = {
    {"nop", make_operation},   {"call", make_operation},    {"copy", make_operation},
    {"rows", make_operation},  {"batch", make_batch},       {"all", make_combination},
    {"any", make_combination}, {"issued", make_view},       {"quiet", make_view},
    {"drain", make_drain},     {"writable", make_writable},
};

static make_fn maker_of(const char *word)
{
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        if (strcmp(makers[i].word, word) == 0)
            return makers[i].make;
    }
    return NULL;
}

bool play_makes(const char *word)
{
    return maker_of(word) != NULL;
}

bool play_make(const char *name, const char *word)
{
    make_fn make = maker_of(word);
    if (make == NULL)
        return play_complain("\"%s\" is no operation", word);
    ferry_future *future = make(word, name);
    if (future == NULL)
        return play_complain("it can't be made");
    return play_keep_as(SCENE_FUTURE, future, name);
}
