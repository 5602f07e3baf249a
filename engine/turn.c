/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns: holdings of the baton. Whoever takes it drains the inbox; the argument why nothing is
 * stranded is in base/baton.h, and here is who wakes the loop: a thread that stops before
 * everything is done (its budget is spent, the pools are dry, functions wait to be handed out) says
 * so after it has given the baton back, by which time the loop can take it.
 */
#include "engine/graph.h"

bool fry_turn_begin(fry_turn *turn, ferry_engine *engine, fry_context *context, bool is_loop)
{
    if (!fry_baton_take(&engine->baton))
        return false;
    /* Not the rest, which is large and says something after a refusal only. */
    turn->engine = engine;
    turn->context = context;
    turn->is_loop = is_loop;
    turn->wake = false;
    turn->gathers = false;
    return true;
}

/* What is seldom due at the end of a turn. Returns whether the loop is to be woken. */
static bool run_errands(fry_turn *turn)
{
    ferry_engine *engine = turn->engine;
    fry_lanes_flush(engine);
    if (engine->members != NULL)
        fry_messages_flush(turn);
    engine->has_errands = engine->stop_graph;
    return turn->wake || (engine->stop_graph && !turn->is_loop);
}

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
        bool wake = turn->wake || work_left;
        if (fry_unlikely(engine->has_errands))
            wake = run_errands(turn) || wake;
        if (!turn->is_loop) /* the loop sees to the rest itself, before it sleeps */
            wake =
                wake || fry_has_callbacks(engine) || fry_load_relaxed(&engine->frees.top) != NULL;
        bool spent = done >= budget || engine->starved;
        fry_baton_give(&engine->baton);
        if (wake)
            fry_wake(engine);
        if (fry_likely(fry_stack_is_empty(&engine->inbox)))
            return done;
        /* Pushed since, by a thread that found the baton taken. */
        if (spent) {
            fry_wake(engine);
            return done;
        }
        if (!fry_baton_take(&engine->baton))
            return done;
        turn->wake = false;
    }
}

size_t fry_turn_end(fry_turn *turn, size_t budget)
{
    size_t done = work_off(turn, budget);
    if (fry_unlikely(fry_load_relaxed(&turn->engine->room_wanted) != 0))
        fry_room_after_turn(turn->engine);
    return done;
}

void fry_turn_push_chain(ferry_engine *engine, fry_context *context, fry_link *newest,
                         fry_link *oldest, size_t budget)
{
    fry_stack_push_chain(&engine->inbox, newest, oldest);
    fry_turn turn;
    if (context == NULL)
        fry_wake(engine); /* a thread without caches can't work on the graph */
    else if (fry_turn_begin(&turn, engine, context, false))
        (void)fry_turn_end(&turn, budget);
}

void fry_turn_push(ferry_engine *engine, fry_context *context, fry_node *node)
{
    fry_turn_push_chain(engine, context, &node->link, &node->link, engine->submit_budget);
}

/* Entered at once, the node needs no references of its own on what the caller holds during the
 * call. */
static inline bool enter_now(fry_turn *turn, fry_node *node)
{
    bool is_kept = node->future.references > 1; /* by the caller; nobody else knows it yet */
    if (fry_likely(is_kept))
        node->flags |= FRY_NODE_UNSHARED;
    if (!fry_graph_arrive(turn, node)) {
        fry_graph_share(node);
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

/*
 * Nothing may be taken from the system with the baton but by the loop, so a submitter that found no
 * room gives the baton back, sees to the room, and goes on. What then still finds none is the
 * loop's, which may refuse it.
 */
void fry_turn_end_without_room(fry_turn *turn)
{
    ferry_engine *engine = turn->engine;
    fry_context *context = turn->context;
    fry_need need = turn->need;
    fry_lack lack;
    (void)fry_turn_end(turn, 0);
    if (fry_hazard_stock(engine, context, &need, true, &lack) == FERRY_OK &&
        fry_turn_begin(turn, engine, context, false)) {
        engine->starved = false;
        (void)fry_turn_end(turn, engine->submit_budget);
    } else {
        fry_wake(engine);
    }
    fry_hazard_unstock(engine, context); /* another may have entered the node meanwhile */
}

void fry_turn_submit(ferry_engine *engine, fry_context *context, fry_node *node)
{
    fry_turn turn;
    if (fry_turn_begin(&turn, engine, context, false)) {
        bool has_room = true;
        if (fry_likely(fry_turn_is_next(&turn))) {
            has_room = enter_now(&turn, node);
        } else {
            fry_graph_share(node);
            fry_stack_push(&engine->inbox, &node->link);
        }
        if (fry_likely(has_room))
            (void)fry_turn_end(&turn, engine->submit_budget);
        else
            fry_turn_end_without_room(&turn);
        return;
    }
    fry_graph_share(node);
    fry_turn_push(engine, context, node);
}
