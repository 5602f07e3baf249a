/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns: holds of the baton. The thread that takes the baton drains the inbox; base/baton.h argues
 * that nothing is stranded. Here threads also wake the loop: a thread that stops before everything
 * is done (its budget is spent, the pools are dry, functions must be handed out) wakes the loop
 * after it has given the baton back, when the loop can take it.
 */
#include "engine/graph/turn.h"

#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/graph/completion.h"
#include "engine/graph/enter.h"
#include "engine/graph/join.h"
#include "engine/graph/lane.h"
#include "engine/graph/node.h"
#include "engine/graph/room.h"
#include "engine/graph/stock.h"
#include "engine/graph/work.h"
#include "engine/ground/callbacks.h"
#include "engine/ground/context.h"
#include "engine/ground/ground.h"

bool fry_turn_begin(fry_turn *turn, ferry_engine *engine, fry_context *context, bool is_loop)
{
    if (!fry_baton_take(&engine->baton))
        return false;
    /* The other fields are large, and only set after a refusal. */
    turn->engine = engine;
    turn->context = context;
    turn->is_loop = is_loop;
    turn->wake = turn->goes_on = turn->gathers = false;
    turn->queue = NULL;
    turn->steps = 0;
    return true;
}

/* What is seldom due at the end of a turn. Returns whether to wake the loop. */
static bool run_errands(fry_turn *turn)
{
    ferry_engine *engine = turn->engine;
    if (fry_load_acquire(&engine->members) != NULL) /* pairs with fry_members_get */
        engine->members_flush(turn);                /* may issue copies */
    fry_lanes_flush(engine);
    /* The loop looks after each turn: whether it may stop, or for the hooks' records. */
    bool is_followed = engine->stop_graph || fry_load_relaxed(&engine->has_hooks) != 0;
    engine->has_errands = is_followed;
    return turn->wake || (is_followed && !turn->is_loop);
}

/* tests/unit/engine_overlaps counts the steps of each hold, in a build of its own. */
#ifdef FRY_COUNT_STEPS
uint64_t fry_steps_in_all, fry_steps_at_most;
static void count_steps(const fry_turn *turn)
{
    fry_steps_in_all += turn->steps;
    if (fry_steps_at_most < turn->steps)
        fry_steps_at_most = turn->steps;
}
#else
#define count_steps(turn) ((void)0)
#endif

static inline size_t work_off(fry_turn *turn, size_t budget)
{
    ferry_engine *engine = turn->engine;
    size_t done = 0;
    for (;;) {
        bool work_left = fry_graph_has_work(engine);
        if (work_left) {
            done += fry_graph_work(turn, budget - done);
            work_left = fry_graph_has_work(engine);
        }
        if (fry_unlikely(work_left != (fry_load_relaxed(&engine->work_left) != 0)))
            fry_store_relaxed(&engine->work_left, work_left);
        bool wake = turn->wake || (work_left && !turn->goes_on);
        if (fry_unlikely(engine->has_errands))
            wake = run_errands(turn) || wake;
        if (!turn->is_loop) { /* the loop does the rest itself before it sleeps */
            if (fry_unlikely(turn->wake))
                engine->loop_wanted = true; /* the loop may be awake and about to sleep */
            wake = wake || fry_callbacks_are_due(engine) || fry_frees_are_due(engine);
        }
        if (fry_unlikely(turn->queue != NULL))
            fry_completion_flush(turn);
        bool spent = done >= budget || engine->starved;
        count_steps(turn);
        fry_baton_give(&engine->baton);
        if (wake) {
            fry_wake(engine);
            if (fry_load_relaxed(&engine->joins_wanted) != 0)
                fry_joins_stock(engine);
        }
        if (fry_likely(fry_stack_is_empty(&engine->inbox)))
            return done;
        /* Pushed since by a thread that found the baton taken. */
        if (spent || turn->steps >= FRY_HOLDING_STEPS) {
            fry_wake(engine);
            return done;
        }
        if (!fry_baton_take(&engine->baton))
            return done;
        turn->wake = false;
        turn->steps = 0;
    }
}

size_t fry_turn_end(fry_turn *turn, size_t budget)
{
    size_t done = work_off(turn, budget);
    if (fry_unlikely(fry_load_relaxed(&turn->engine->room_wanted) != 0))
        fry_room_after_turn(turn->engine);
    return done;
}

static void help(ferry_engine *engine, fry_context *context, size_t budget)
{
    fry_turn turn;
    if (context == NULL)
        fry_wake(engine); /* a thread without caches can't work on the graph */
    else if (fry_turn_begin(&turn, engine, context, false))
        (void)fry_turn_end(&turn, budget);
}

void fry_turn_push_chain(ferry_engine *engine, fry_context *context, fry_link *newest,
                         fry_link *oldest, size_t budget)
{
    fry_stack_push_chain(&engine->inbox, newest, oldest);
    help(engine, context, budget);
}

void fry_turn_help(ferry_engine *engine, fry_context *context)
{
    help(engine, context, engine->submit_budget);
}

void fry_turn_push(ferry_engine *engine, fry_context *context, fry_node *node)
{
    fry_turn_push_chain(engine, context, &node->link, &node->link, engine->submit_budget);
}

/*
 * A node that enters at once needs no references of its own to what the caller holds during the
 * call. A large node goes on as far as one hold allows; if that is enough, nobody is woken for it.
 */
static inline bool enter_now(fry_turn *turn, fry_node *node)
{
    bool is_kept = node->future.references > 1; /* by the caller; others don't know the node yet */
    if (fry_likely(is_kept))
        node->flags |= FRY_NODE_UNSHARED;
    fry_entry entry = fry_graph_arrive(turn, node);
    while (fry_unlikely(entry == FRY_ARRIVING) && turn->steps < FRY_HOLDING_STEPS)
        entry = fry_graph_arrive(turn, node);
    if (fry_unlikely(entry != FRY_ARRIVED)) {
        fry_graph_share_entering(turn->engine, node);
        fry_queue_push(&turn->engine->backlog, &node->link);
        return false;
    }
    if (fry_likely(is_kept))
        node->flags &= (uint16_t)~FRY_NODE_UNSHARED;
    return true;
}

bool fry_turn_enter(fry_turn *turn, fry_node *node)
{
    return enter_now(turn, node);
}

/* Goes on with the large operation at the head of the backlog as far as this hold allows. */
static fry_entry enter_more(fry_turn *turn)
{
    ferry_engine *engine = turn->engine;
    fry_entry entry = FRY_ARRIVING;
    while (entry == FRY_ARRIVING && turn->steps < FRY_HOLDING_STEPS) {
        fry_link *item = engine->backlog.first, *next = item->next;
        engine->backlog.first = next; /* arriving may queue it elsewhere */
        entry = fry_graph_arrive(turn, FRY_CONTAINER(item, fry_node, link));
        if (entry != FRY_ARRIVED)
            engine->backlog.first = item;
    }
    return entry;
}

/*
 * The calling thread's operation has entered only in part. If the operation is large, the thread
 * goes on with it, and gives the baton back now and then, unless another thread goes on with it
 * meanwhile.
 *
 * With the baton only the loop may call the allocator. So a submitter that found no room gives the
 * baton back, makes room, and goes on. If there is still no room, the operation is left to the
 * loop, which may refuse it.
 */
void fry_turn_end_unfinished(fry_turn *turn, const fry_node *node)
{
    ferry_engine *engine = turn->engine;
    fry_context *context = turn->context;
    for (;;) {
        fry_need need = turn->need;
        fry_lack lack;
        (void)fry_turn_end(turn, 0);
        if (fry_stock_fill(engine, context, &need, true, &lack) != FERRY_OK ||
            !fry_turn_begin(turn, engine, context, false)) {
            fry_wake(engine);
            break;
        }
        engine->starved = false;
        /*
         * Only compared: another thread may have entered the node meanwhile, and the slot may be
         * reused.
         */
        if (engine->entering.node != node || enter_more(turn) == FRY_ARRIVED) {
            (void)fry_turn_end(turn, engine->submit_budget);
            break;
        }
    }
    fry_stock_return(engine, context);
}

void fry_turn_submit(ferry_engine *engine, fry_context *context, fry_node *node)
{
    fry_turn turn;
    if (fry_turn_begin(&turn, engine, context, false)) {
        bool is_in = true;
        if (fry_likely(fry_turn_is_next(&turn))) {
            is_in = enter_now(&turn, node);
        } else {
            fry_graph_share(node);
            fry_stack_push(&engine->inbox, &node->link);
        }
        if (fry_likely(is_in))
            (void)fry_turn_end(&turn, engine->submit_budget);
        else
            fry_turn_end_unfinished(&turn, node);
        return;
    }
    fry_graph_share(node);
    fry_turn_push(engine, context, node);
}
