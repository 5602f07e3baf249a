/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/program_player.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { AFTER_MAX = 2 + PROGRAM_MEMBERS_MAX * PROGRAM_WINDOWS_MAX };

/* What an operation of ferry's needs while it is submitted. */
typedef struct made {
    ferry_op op;
    ferry_op_options options;
    ferry_access access;
    unsigned char note[FERRY_NOTICE_BYTES_MAX];
} made;

typedef struct after {
    ferry_future *futures[AFTER_MAX];
    size_t count;
} after;

_Noreturn void player_fail(const player *player, const char *format, ...)
{
    va_list arguments;
    char text[1024];
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "rank %u, round %u: %s\n  again: %s\n", (unsigned)player->self.rank,
            (unsigned)player->program.round, text, player->again);
    _exit(1);
}

static const program_act *act_at(const player *player, uint32_t index)
{
    return &player->program.members[player->self.rank].acts[index];
}

static bool is_in(const player_job *job, uint32_t index)
{
    return (act_at(job->player, index)->picks >> job->post & 1) != 0;
}

static const char *kind_name(const player_job *job)
{
    const program_act *act = act_at(job->player, job->first);
    return act->block != 0 ? "post" : ferry_op_kind_name(act->kind);
}

/* ---- memory ---- */

void player_map(player *player, const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    PLAYER_CHECK(player, fd >= 0, "no memory in %s", path);
    player->memories = mmap(NULL, PLAYER_MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    PLAYER_CHECK(player, player->memories != MAP_FAILED, "no memory in %s", path);
    (void)close(fd);
}

unsigned char *player_memory(const player *player, uint32_t member, uint32_t buffer)
{
    return player->memories + ((size_t)member * PROGRAM_BUFFERS + buffer) * PROGRAM_BYTES;
}

static bool is_filled(const unsigned char *bytes, size_t size_bytes)
{
    return bytes[0] == PROGRAM_PAINT && memcmp(bytes, bytes + 1, size_bytes - 1) == 0;
}

/* Bytes of a loose part, when the act that writes them is quiet: all that should come if it ended
 * well, else each byte one of two. */
static void check_loose(const player *player, const unsigned char *bytes,
                        const unsigned char *before, const program_act *act, ferry_status status)
{
    if (status == FERRY_OK && act->picks != 0) {
        PLAYER_CHECK(player, memcmp(bytes, act->expected, act->size) == 0,
                     "a %s of %u bytes is well, and they are wrong", ferry_op_kind_name(act->kind),
                     (unsigned)act->size);
        return;
    }
    for (uint32_t i = 0; i < act->size; i++)
        PLAYER_CHECK(player, bytes[i] == before[i] || bytes[i] == act->expected[i],
                     "byte %u of %u of a %s is 0x%02x: nobody's", (unsigned)i, (unsigned)act->size,
                     ferry_op_kind_name(act->kind), bytes[i]);
}

void player_check_put(const player *player, const program_act *put, ferry_status status)
{
    const unsigned char *bytes =
        player_memory(player, put->peer, 1 + put->window) + put->window_offset;
    const unsigned char *before =
        player->program.members[put->peer].memory[1 + put->window] + put->window_offset;
    check_loose(player, bytes, before, put, status);
}

/* An act's own bytes, if they are its alone. */
static void paint_own(player *player, uint32_t index, ferry_status status)
{
    const program_act *act = act_at(player, index);
    if (act->kind == FERRY_OP_NOTICE || act->at < PROGRAM_FIRM_BYTES)
        return;
    unsigned char *bytes = player->bytes[act->buffer] + act->at;
    const unsigned char *before =
        player->program.members[player->self.rank].memory[act->buffer] + act->at;
    if (program_writes_own(act))
        check_loose(player, bytes, before, act, status);
    else
        PLAYER_CHECK(player, memcmp(bytes, before, act->size) == 0, "a %s changes what it reads",
                     ferry_op_kind_name(act->kind));
    memset(bytes, PROGRAM_PAINT, act->size);
    player->is_painted[index] = true;
}

/* Whether who does a put paints the window when that is quiet. One that is closed meanwhile is its
 * owner's then, and so is one of somebody who may not live to see it. */
static bool paints_window(const player *player, uint32_t who, const program_act *act)
{
    const program_window *window = &player->program.members[act->peer].windows[act->window];
    return program_writes_window(act) && act->fate != PROGRAM_FIRM && act->picks != 0 &&
           act->end != PROGRAM_REFUSED && window->use != PROGRAM_CLOSING &&
           random_program_lives(&player->program, who) &&
           random_program_lives(&player->program, act->peer);
}

static void check_window_paint(const player *player, uint32_t who, const program_act *put)
{
    if (put->peer != player->self.rank || !paints_window(player, who, put))
        return;
    PLAYER_CHECK(player, is_filled(player->bytes[1 + put->window] + put->window_offset, put->size),
                 "a put of rank %u is written after it was quiet", (unsigned)who);
}

void player_check_paint(const player *player)
{
    const random_program *program = &player->program;
    for (uint32_t i = 0; i < program->members[player->self.rank].act_count; i++) {
        const program_act *act = act_at(player, i);
        PLAYER_CHECK(player,
                     !player->is_painted[i] ||
                         is_filled(player->bytes[act->buffer] + act->at, act->size),
                     "memory of a %s is written after it was quiet", ferry_op_kind_name(act->kind));
    }
    for (uint32_t rank = 0; rank < program->member_count; rank++) {
        for (uint32_t i = 0; i < program->members[rank].act_count; i++)
            check_window_paint(player, rank, &program->members[rank].acts[i]);
    }
    for (uint32_t i = 0; i < program->window_count; i++)
        PLAYER_CHECK(
            player, !player->is_window_painted[i] || is_filled(player->bytes[1 + i], PROGRAM_BYTES),
            "window %u is written after it was closed", (unsigned)i);
}

/* ---- ends ---- */

/* On the loop. */
static void note_end(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    player_job *job = waiter->arg;
    player *player = job->player;
    (void)future;
    pthread_mutex_lock(&player->mutex);
    player->calls++;
    job->ended_times++;
    job->ended_with = status;
    pthread_cond_broadcast(&player->changed);
    pthread_mutex_unlock(&player->mutex);
}

/* An act of a job that is quiet. */
static void calm_act(player *player, uint32_t index, ferry_status status)
{
    const program_act *act = act_at(player, index);
    paint_own(player, index, status);
    if (!paints_window(player, player->self.rank, act))
        return;
    player_check_put(player, act, status);
    memset(player_memory(player, act->peer, 1 + act->window) + act->window_offset, PROGRAM_PAINT,
           act->size);
}

/* On the loop, which holds no lock meanwhile. */
static void calm(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    player_job *job = waiter->arg;
    player *player = job->player;
    (void)future;
    PLAYER_CHECK(player, status == FERRY_OK, "a quiet fails: %s", ferry_status_name(status));
    ferry_status ended = ferry_future_poll(job->future);
    PLAYER_CHECK(player, ended != FERRY_PENDING, "it is quiet and has not resolved");
    pthread_mutex_lock(&player->mutex);
    for (uint32_t i = job->first; i < job->first + job->count && job->fate != PROGRAM_FIRM; i++)
        calm_act(player, i, ended);
    player->calls++;
    job->calmed_times++;
    pthread_cond_broadcast(&player->changed);
    pthread_mutex_unlock(&player->mutex);
}

/* On the loop: a window of its own is closed. */
static void paint_window(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    player *player = waiter->arg;
    uint32_t window = (uint32_t)(waiter - player->closed);
    (void)future;
    PLAYER_CHECK(player, status == FERRY_OK, "closing a window: %s", ferry_status_name(status));
    pthread_mutex_lock(&player->mutex);
    memset(player->bytes[1 + window], PROGRAM_PAINT, PROGRAM_BYTES);
    player->is_window_painted[window] = true;
    player->calls++;
    pthread_cond_broadcast(&player->changed);
    pthread_mutex_unlock(&player->mutex);
}

static void watch(player *player, ferry_future *future, ferry_waiter *waiter)
{
    pthread_mutex_lock(&player->mutex);
    player->waiters++;
    pthread_mutex_unlock(&player->mutex);
    PLAYER_CHECK(player, ferry_future_on_ready(future, waiter) == FERRY_OK, "no waiter");
}

/* ---- submitting ---- */

static ferry_span span_of(const player *player, uint32_t buffer, uint32_t at, uint32_t size)
{
    return (ferry_span){player->buffers[buffer], at, size};
}

static ferry_status run_change(void *arg)
{
    const player_change *change = arg;
    random_program_change(change->bytes, change->size_bytes, change->salt);
    return FERRY_OK;
}

static void make(player *player, uint32_t index, made *made)
{
    const program_act *act = act_at(player, index);
    ferry_span own = span_of(player, act->buffer, act->at, act->size);
    made->options = (ferry_op_options)FERRY_OP_OPTIONS_INIT;
    made->op = (ferry_op){.kind = act->kind, .peer = act->peer, .tag = act->tag};
    made->op.options = &made->options;
    made->op.group = player->self.group;
    switch (act->kind) {
    case FERRY_OP_CALL:
        made->access = (ferry_access){own, FERRY_READ_WRITE};
        made->options.accesses = &made->access;
        made->options.access_count = 1;
        made->op.group = NULL;
        made->op.fn = run_change;
        made->op.arg = &player->changes[index];
        player->changes[index] =
            (player_change){player->bytes[act->buffer] + act->at, act->size, act->salt};
        break;
    case FERRY_OP_COPY:
        made->op.group = NULL;
        made->op.dst = own;
        made->op.src = span_of(player, act->src_buffer, act->src_at, act->size);
        break;
    case FERRY_OP_SEND:
        made->op.src = own;
        break;
    case FERRY_OP_RECV:
        made->op.dst = own;
        break;
    case FERRY_OP_NOTICE:
        made->op.data = made->note;
        made->op.data_bytes = player_note_make(player, player->self.rank, index, made->note);
        break;
    default:
        made->op.group = NULL;
        *(act->kind == FERRY_OP_GET ? &made->op.dst : &made->op.src) = own;
        made->op.window = player->found[act->peer][act->window].window;
        made->op.window_offset = act->window_offset;
        break;
    }
}

static ferry_future *submit(player *player, const ferry_op *op, const ferry_op_options *options)
{
    ferry_engine *engine = player->self.engine;
    switch (op->kind) {
    case FERRY_OP_CALL:
        return ferry_call(engine, NULL, op->fn, op->arg, options);
    case FERRY_OP_COPY:
        return ferry_copy(engine, op->dst, op->src, options);
    case FERRY_OP_SEND:
        return ferry_send(op->group, op->peer, op->tag, op->src, options);
    case FERRY_OP_RECV:
        return ferry_recv(op->group, op->peer, op->tag, op->dst, options);
    case FERRY_OP_NOTICE:
        return ferry_notice_send(op->group, op->peer, op->data, op->data_bytes, options);
    case FERRY_OP_GET:
        return ferry_get(op->window, op->window_offset, op->dst, options);
    default:
        return ferry_put(op->window, op->window_offset, op->src, options);
    }
}

/* What a member is still looking for holds what is on it. */
static void wait_for_window(const player *player, const program_act *act, after *after)
{
    const program_member *own = &player->program.members[player->self.rank];
    if ((act->kind != FERRY_OP_GET && act->kind != FERRY_OP_PUT) || !own->is_hasty)
        return;
    ferry_future *future = player->found[act->peer][act->window].future;
    bool is_new = future != NULL;
    for (size_t i = 0; i < after->count; i++)
        is_new = is_new && after->futures[i] != future;
    if (is_new)
        after->futures[after->count++] = future;
}

static void choose_options(player *player, player_job *job, int64_t soon_ns, after *after,
                           ferry_op_options *options)
{
    if (job->end == PROGRAM_GATED || job->end == PROGRAM_GATE_FAILS) {
        PLAYER_CHECK(player, ferry_promise_create(player->self.engine, &job->gate) == FERRY_OK,
                     "no promise");
        after->futures[after->count++] = ferry_promise_future(job->gate);
    }
    if (job->end == PROGRAM_PAST)
        options->deadline_ns = -1;
    else if (job->end == PROGRAM_SOON)
        options->deadline_ns = ferry_engine_deadline_in(player->self.engine, soon_ns);
    options->after = after->futures;
    options->after_count = after->count;
}

/* Its future, which is there, is looked after from now on. */
static void begin_job(player_job *job, ferry_future *future)
{
    player *player = job->player;
    job->future = future;
    job->quiet = ferry_future_quiet(future);
    job->ended = (ferry_waiter)FERRY_WAITER_INIT(note_end, job);
    job->calmed = (ferry_waiter)FERRY_WAITER_INIT(calm, job);
    watch(player, job->future, &job->ended);
    watch(player, job->quiet, &job->calmed);
}

static player_job *new_job(player *player, uint32_t first, uint32_t count)
{
    player_job *job = &player->jobs[player->job_count++];
    *job = (player_job){.player = player, .first = first, .count = count};
    return job;
}

static ferry_future *future_of(const player *player, uint32_t index)
{
    for (uint32_t i = 0; i < player->job_count; i++) {
        const player_job *job = &player->jobs[i];
        if (index >= job->first && index < job->first + job->count)
            return job->future;
    }
    player_fail(player, "act %u has no future", (unsigned)index);
}

static void submit_act(player *player, uint32_t index)
{
    made made;
    after after = {.count = 0};
    const program_act *act = act_at(player, index);
    player_job *job = new_job(player, index, 1);
    job->fate = act->fate;
    job->end = act->end;
    job->due = index + act->later;
    make(player, index, &made);
    wait_for_window(player, act, &after);
    if (act->told != 0)
        after.futures[after.count++] = future_of(player, act->told - 1);
    choose_options(player, job, act->soon_ns, &after, &made.options);
    begin_job(job, submit(player, &made.op, &made.options));
    if (job->gate != NULL)
        ferry_future_release(after.futures[after.count - 1]);
}

static ferry_plan *plan_of(player *player, const program_block *block)
{
    made *all = calloc(block->count, sizeof *all);
    ferry_op *ops = calloc(block->count, sizeof *ops);
    ferry_plan *plan = NULL;
    ferry_error *error = NULL;
    PLAYER_CHECK(player, all != NULL && ops != NULL, "no memory");
    for (uint32_t i = 0; i < block->count; i++) {
        make(player, block->first + i, &all[i]);
        ops[i] = all[i].op;
    }
    if (ferry_plan_create(player->self.engine, ops, sizeof *ops, block->count, &plan, &error) !=
        FERRY_OK)
        player_fail(player, "no plan: %s", error->message);
    free(ops);
    free(all);
    return plan;
}

static void post_block(player *player, ferry_plan *plan, const program_block *block, uint32_t post)
{
    uint32_t picks[PROGRAM_ACTS_MAX], count = 0;
    after after = {.count = 0};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    player_job *job = new_job(player, block->first, block->count);
    job->post = post;
    job->fate = block->fate;
    job->end = block->end;
    job->due = block->first + block->count + block->later;
    for (uint32_t i = block->count; i > 0; i--) {
        if (is_in(job, block->first + i - 1))
            picks[count++] = i - 1;
        wait_for_window(player, act_at(player, block->first + i - 1), &after);
    }
    choose_options(player, job, block->soon_ns, &after, &options);
    begin_job(job, count == block->count ? ferry_plan_post(plan, NULL, 0, &options)
                                         : ferry_plan_post(plan, picks, count, &options));
    if (job->gate != NULL)
        ferry_future_release(after.futures[after.count - 1]);
}

/* Cancels and gates whose time has come. */
static void do_due(player *player, uint32_t submitted)
{
    for (uint32_t i = 0; i < player->job_count; i++) {
        player_job *job = &player->jobs[i];
        if (job->is_due_done || job->due > submitted)
            continue;
        job->is_due_done = true;
        if (job->end == PROGRAM_CANCELLED)
            PLAYER_CHECK(player, ferry_future_cancel(job->future) == FERRY_OK, "no cancel");
        if (job->gate == NULL)
            continue;
        if (job->end == PROGRAM_GATED)
            PLAYER_CHECK(player, ferry_promise_resolve(job->gate, FERRY_OK, NULL) == FERRY_OK,
                         "a promise can't be resolved");
        ferry_promise_release(job->gate);
    }
}

void player_submit(player *player, void (*at)(struct player *player, uint32_t submitted))
{
    program_member *own = &player->program.members[player->self.rank];
    player->job_count = 0;
    uint32_t next = 0;
    for (uint32_t index = 0; index < own->act_count; index = next) {
        uint32_t number = own->acts[index].block;
        at(player, index);
        next = index + 1;
        if (number == 0) {
            submit_act(player, index);
        } else {
            const program_block *block = &own->blocks[number];
            ferry_plan *plan = plan_of(player, block);
            for (uint32_t post = 0; post < block->posts; post++)
                post_block(player, plan, block, post);
            ferry_plan_release(plan);
            next = index + block->count;
        }
        do_due(player, next);
    }
    do_due(player, UINT32_MAX);
    at(player, UINT32_MAX);
}

void player_close(player *player, uint32_t window)
{
    player->closing[window] = ferry_window_close(player->own[window]);
    player->closed[window] = (ferry_waiter)FERRY_WAITER_INIT(paint_window, player);
    watch(player, player->closing[window], &player->closed[window]);
}

void player_let_go(player *player, uint32_t owner, uint32_t window)
{
    player_found *found = &player->found[owner][window];
    found->closing = ferry_window_close(found->window);
}

/* ---- collecting ---- */

/* Whether it may end so. */
static bool may_end(const player_job *job, ferry_status status)
{
    const program_act *act = act_at(job->player, job->first);
    bool is_reach = act->kind == FERRY_OP_GET || act->kind == FERRY_OP_PUT;
    bool is_message = act->kind == FERRY_OP_SEND || act->kind == FERRY_OP_RECV;
    bool is_post = act->block != 0;
    if (job->end == PROGRAM_REFUSED)
        return status == FERRY_E_INVALID;
    if (job->end == PROGRAM_GATE_FAILS)
        return status == FERRY_E_DEPENDENCY;
    if (status == FERRY_OK)
        return true;
    if (job->fate == PROGRAM_FIRM)
        return false;
    bool waits_for_dead = job->fate == PROGRAM_BEREFT && is_reach &&
                          job->player->program.members[job->player->self.rank].is_hasty;
    if (status == FERRY_E_DEPENDENCY)
        return is_post || is_message || waits_for_dead;
    if (job->fate == PROGRAM_BEREFT)
        return status == FERRY_E_DEAD || status == FERRY_E_PEER ||
               (is_reach && status == FERRY_E_NOT_FOUND);
    const program_window *window = &job->player->program.members[act->peer].windows[act->window];
    bool is_let_go =
        job->player->program.members[job->player->self.rank].lets_go[act->peer][act->window];
    if (is_reach && (window->use == PROGRAM_CLOSING || is_let_go) && status == FERRY_E_NOT_FOUND)
        return true;
    return job->end == PROGRAM_CANCELLED ? status == FERRY_E_CANCELLED
                                         : (job->end == PROGRAM_PAST || job->end == PROGRAM_SOON) &&
                                               status == FERRY_E_DEADLINE;
}

/* Who has died is named. */
static void check_error(const player_job *job)
{
    player *player = job->player;
    const ferry_error *error = ferry_future_error(job->future);
    PLAYER_CHECK(player, error != NULL, "a %s has no error", kind_name(job));
    while (error->cause != NULL)
        error = error->cause;
    PLAYER_CHECK(player, error->rank == player->program.victim,
                 "a %s with rank %u names rank %d: %s: %s", kind_name(job),
                 (unsigned)player->program.victim, (int)error->rank,
                 ferry_status_name(error->status), error->message);
}

static void end_job(player_job *job)
{
    player *player = job->player;
    ferry_status status = ferry_future_wait(job->future, -1);
    const ferry_error *error = ferry_future_error(job->future);
    PLAYER_CHECK(player, may_end(job, status),
                 "a %s (act %u, fate %d, end %d) ends with %s: %s: %s", kind_name(job),
                 (unsigned)job->first, (int)job->fate, (int)job->end, ferry_status_name(status),
                 error != NULL ? error->message : "",
                 error != NULL && error->cause != NULL ? error->cause->message : "");
    if (job->fate == PROGRAM_BEREFT && status != FERRY_OK)
        check_error(job);
    player->firm_count += job->fate == PROGRAM_FIRM;
    player->loose_well += job->fate != PROGRAM_FIRM && status == FERRY_OK;
    player->loose_failed += job->fate != PROGRAM_FIRM && status != FERRY_OK;
    PLAYER_CHECK(player, ferry_future_wait(job->quiet, -1) == FERRY_OK, "it is never quiet");
}

static void await_waiters(player *player)
{
    pthread_mutex_lock(&player->mutex);
    while (player->calls < player->waiters)
        pthread_cond_wait(&player->changed, &player->mutex);
    PLAYER_CHECK(player, player->calls == player->waiters, "a waiter is called twice");
    pthread_mutex_unlock(&player->mutex);
}

static void end_let_go(player *player, const player_found *found)
{
    ferry_status status = found->closing != NULL ? ferry_future_wait(found->closing, -1) : FERRY_OK;
    PLAYER_CHECK(player, status == FERRY_OK, "closing a window of another: %s",
                 ferry_status_name(status));
}

void player_collect(player *player)
{
    for (uint32_t i = 0; i < player->job_count; i++)
        end_job(&player->jobs[i]);
    for (uint32_t i = 0; i < PROGRAM_MEMBERS_MAX * PROGRAM_WINDOWS_MAX; i++)
        end_let_go(player, &player->found[i / PROGRAM_WINDOWS_MAX][i % PROGRAM_WINDOWS_MAX]);
    await_waiters(player);
    for (uint32_t i = 0; i < player->job_count; i++) {
        player_job *job = &player->jobs[i];
        PLAYER_CHECK(player, job->ended_times == 1 && job->calmed_times == 1,
                     "a %s has resolved %u times, and was quiet %u times", kind_name(job),
                     (unsigned)job->ended_times, (unsigned)job->calmed_times);
        PLAYER_CHECK(player, job->ended_with == ferry_future_poll(job->future),
                     "a %s has two statuses", kind_name(job));
        ferry_future_release(job->quiet);
        ferry_future_release(job->future);
    }
    for (uint32_t i = 0; i < PROGRAM_WINDOWS_MAX; i++) {
        ferry_future_release(player->closing[i]);
        player->closing[i] = NULL;
    }
}
