/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the graph does for scopes: it counts their operations, and lets them begin at the rate.
 *
 * The count. `held` counts, from its submit to its quiet, each operation that names the scope, and
 * has three bits: closed, cancelled (then closed too), and released. Whoever closes or releases it
 * counts itself meanwhile, so that one of all that count down finds zero and one of the bits, and
 * no other does: nothing joins after those bits. That one ends the scope: it puts the scope's own
 * node into the inbox, with the count's reference (scope_node.c). Where the thread does not have
 * the baton, it wakes the loop.
 *
 * The rate. An operation that moves bytes takes its turn when it is READY, so it holds up nothing
 * but what waits for its memory, and waits itself for nothing but the rate: no stream or connection
 * knows it yet. The generic cell rate algorithm (ITU-T I.371): free_ns is when all bytes that have
 * begun have had their time at the limit. Who comes at or after that begins, and moves it on by
 * its own bytes, from at most a burst before now. So an operation larger than the burst begins too,
 * and what follows waits the longer. Those who wait begin by priority and in order, as in
 * ready_queue.h, by one timer for the scope. Where several small ones wait the timer is late by
 * some of the burst, and they begin together: a wake-up each would cost more than they do. The
 * burst makes up for it, so the rate stays.
 */
#include "engine/graph/scope.h"

#include "engine/graph/due.h"
#include "engine/graph/kind.h"
#include "engine/graph/live.h"
#include "engine/graph/tally.h"
#include "engine/graph/turn.h"
#include "engine/ground/ground.h"
#include "engine/ground/refusal.h"

#define BEGIN_AT_ONCE 256 /* how many of a scope may begin in one turn */
#define LATE_SHARE 4      /* of the burst, by which small ones may be late */

/* ---- the count ---- */

/* Puts the scope's own node into the inbox. False: it waits for nothing in the graph. */
static bool end(ferry_engine *engine, fry_node *own, bool is_closed)
{
    if (is_closed && fry_exchange(&own->outside, FRY_OUTSIDE_RESOLVED) != FRY_OUTSIDE_ENTERED) {
        ferry_future_release(&own->future); /* it ends as it enters, or the engine stops */
        return false;
    }
    fry_stack_push(&engine->inbox, &own->link);
    return true;
}

bool fry_scope_count_down(ferry_scope *scope)
{
    ferry_engine *engine = scope->engine;
    fry_node *own = scope->own;
    uint64_t left = fry_fetch_sub(&scope->held, 1) - 1;
    return (left & FRY_SCOPE_COUNT) == 0 && (left & (FRY_SCOPE_CLOSED | FRY_SCOPE_RELEASED)) != 0 &&
           end(engine, own, (left & FRY_SCOPE_CLOSED) != 0);
}

/* ---- operations come and go ---- */

fry_refusal fry_scope_expect(ferry_scope *scope, fry_node *node)
{
    uint64_t held = fry_load_relaxed(&scope->held);
    do {
        if ((held & FRY_SCOPE_CANCELLED) != 0)
            return FRY_REFUSED_SCOPE_CANCELLED;
        if ((held & FRY_SCOPE_CLOSED) != 0)
            return fry_refuse(scope->engine, FRY_REFUSED_SCOPE_CLOSED);
    } while (!fry_cas_weak(&scope->held, &held, held + 1));
    node->note->scope = scope;
    node->note->node = NULL;
    node->note->pace = FRY_PACE_FREE;
    return FRY_TAKEN;
}

void fry_scope_forget(fry_node *node)
{
    ferry_scope *scope = node->note->scope;
    ferry_engine *engine = scope->engine;
    node->note->scope = NULL;
    if (fry_scope_count_down(scope))
        fry_wake(engine);
}

void fry_scope_enter(fry_node *node)
{
    fry_note *note = node->note;
    ferry_scope *scope = note->scope;
    if (scope == NULL || note->node != NULL)
        return;
    note->node = node;
    if (scope->tally != NULL)
        fry_tally_add(&scope->tally->entered, 1);
    LIST_INSERT_HEAD(&scope->members, note, member);
    if (scope->why != NULL)
        fry_node_refuse(node, FERRY_E_CANCELLED, fry_error_retain(scope->why), true);
}

void fry_scope_member_quiet(fry_node *node)
{
    ferry_scope *scope = node->note->scope;
    if (scope == NULL)
        return;
    LIST_REMOVE(node->note, member);
    node->note->scope = NULL;
    (void)fry_scope_count_down(scope);
}

/* ---- the rate ---- */

static uint64_t moved_bytes(const fry_turn *turn, const fry_node *node)
{
    const fry_op_kind *kind = fry_kind(turn->engine, node);
    uint64_t flow;
    return kind->moved_bytes != NULL ? kind->moved_bytes(node, &flow) : 0;
}

/* True: the operation has begun. */
static bool begin(ferry_scope *scope, uint64_t size_bytes, int64_t now_ns)
{
    if (scope->free_ns > now_ns)
        return false;
    if (scope->free_ns < now_ns - scope->burst_ns) {
        scope->free_ns = now_ns - scope->burst_ns;
        scope->free_rest_ns = 0;
    }
    double cost_ns = (double)size_bytes * scope->byte_ns + scope->free_rest_ns;
    if (cost_ns > (double)(INT64_MAX / 4)) /* some 73 years */
        cost_ns = (double)(INT64_MAX / 4);
    int64_t whole_ns = (int64_t)cost_ns;
    scope->free_ns += whole_ns;
    scope->free_rest_ns = cost_ns - (double)whole_ns;
    return true;
}

/* A bit for each rank in which somebody waits. */
static unsigned waiting_of(const ferry_scope *scope)
{
    unsigned waiting = 0;
    for (size_t rank = 0; rank < FRY_RANKS; rank++)
        waiting |= (unsigned)!TAILQ_EMPTY(&scope->waiting[rank]) << rank;
    return waiting;
}

fry_note *fry_scope_next_waiting(const ferry_scope *scope)
{
    unsigned waiting = waiting_of(scope);
    return waiting == 0
               ? NULL
               : TAILQ_FIRST(&scope->waiting[fry_ready_rank_next(waiting, scope->overtaken)]);
}

static size_t rank_of(const fry_node *node)
{
    return (size_t)(fry_node_priority(node) - FERRY_PRIORITY_LOW);
}

static void stop_timer(fry_turn *turn, ferry_scope *scope)
{
    if (scope->is_timed)
        fry_timers_remove(&turn->engine->rates, &scope->timer, NULL);
    scope->is_timed = false;
}

static void set_timer(fry_turn *turn, ferry_scope *scope, int64_t when_ns)
{
    scope->timer.when_ns = when_ns;
    fry_timers_add(&turn->engine->rates, &scope->timer, NULL);
    scope->is_timed = true;
    turn->wake |= turn->engine->rates.first == &scope->timer;
}

/* Somebody waits: by how much the timer is late. */
static int64_t late_ns(const fry_turn *turn, const ferry_scope *scope)
{
    unsigned waiting = waiting_of(scope);
    const fry_note *next = fry_scope_next_waiting(scope);
    bool is_alone = (waiting & (waiting - 1)) == 0 && TAILQ_NEXT(next, in_line) == NULL;
    int64_t share_ns = scope->burst_ns / LATE_SHARE;
    bool is_small = (double)moved_bytes(turn, next->node) * scope->byte_ns < (double)share_ns;
    return is_small && !is_alone ? share_ns : 0;
}

bool fry_scope_holds_back(fry_turn *turn, fry_node *node)
{
    fry_note *note = node->note;
    ferry_scope *scope = note->scope;
    if (scope == NULL || scope->byte_ns == 0 || note->pace == FRY_PACE_BEGUN)
        return false;
    if (note->pace == FRY_PACE_WAITS)
        return true; /* it stands in line: what it no longer waits for has stepped it again */
    uint64_t size_bytes = moved_bytes(turn, node);
    if (size_bytes == 0)
        return false;
    if (waiting_of(scope) == 0 &&
        begin(scope, size_bytes, fry_clock_now_ns(&turn->engine->clock))) {
        note->pace = FRY_PACE_BEGUN;
        return false;
    }
    note->pace = FRY_PACE_WAITS;
    LIST_REMOVE(note, member);
    TAILQ_INSERT_TAIL(&scope->waiting[rank_of(node)], note, in_line);
    if (!scope->is_timed)
        set_timer(turn, scope, scope->free_ns);
    if (node->entered_ns == 0)
        fry_live_stamp(turn, node);
    return true;
}

static void leave_line(fry_turn *turn, ferry_scope *scope, fry_note *note,
                       struct fry_scope_list *to)
{
    TAILQ_REMOVE(&scope->waiting[rank_of(note->node)], note, in_line);
    LIST_INSERT_HEAD(to, note, member);
    if (waiting_of(scope) == 0)
        stop_timer(turn, scope);
}

void fry_scope_member_resolved(fry_turn *turn, fry_node *node)
{
    fry_note *note = node->note;
    if (note->scope == NULL || note->pace != FRY_PACE_WAITS)
        return;
    note->pace = FRY_PACE_BEGUN; /* it never will */
    leave_line(turn, note->scope, note, &note->scope->ending);
}

static size_t begin_due_of(fry_turn *turn, ferry_scope *scope, int64_t now_ns)
{
    size_t count = 0;
    fry_note *note;
    while ((note = fry_scope_next_waiting(scope)) != NULL && count < BEGIN_AT_ONCE) {
        if (!begin(scope, moved_bytes(turn, note->node), now_ns))
            break;
        fry_ready_rank_goes(waiting_of(scope), scope->overtaken, (int)rank_of(note->node));
        note->pace = FRY_PACE_BEGUN;
        leave_line(turn, scope, note, &scope->members);
        fry_graph_schedule(turn, note->node);
        count++;
    }
    return count;
}

size_t fry_scopes_begin_due(fry_turn *turn, int64_t now_ns)
{
    size_t count = 0;
    fry_timers_link *first;
    while ((first = turn->engine->rates.first) != NULL && first->when_ns <= now_ns &&
           count < BEGIN_AT_ONCE) {
        ferry_scope *scope = FRY_CONTAINER(first, ferry_scope, timer);
        size_t begun = begin_due_of(turn, scope, now_ns);
        count += begun;
        if (waiting_of(scope) == 0)
            continue; /* the last took the timer away */
        stop_timer(turn, scope);
        set_timer(turn, scope, scope->free_ns + late_ns(turn, scope));
    }
    return count;
}
