/* SPDX-License-Identifier: Apache-2.0 */
/* Turns: holds of the baton. */
#ifndef FRY_ENGINE_GRAPH_TURN_H
#define FRY_ENGINE_GRAPH_TURN_H

#include "engine/engine.h"
#include "engine/graph/stock.h"

/*
 * Elementary steps of the graph's work (an edge that fires, an entry of a list) after which the
 * baton is given back: some hundred microseconds.
 */
#ifndef FRY_HOLDING_STEPS /* tests use shorter holds */
#define FRY_HOLDING_STEPS 4096
#endif

struct fry_turn {
    ferry_engine *engine;
    fry_context *context; /* the holding thread's */
    bool is_loop;         /* may take memory from the system, make errors, hand out functions */
    bool wake;            /* there is work left that the loop must see */
    bool goes_on;         /* the thread does the rest itself: nobody is woken for it */
    bool gathers;         /* the next node to enter is a send, like this one, or a get: small ones
                             leave together, or are read together */
    uint32_t recorded;    /* records made in `queue` */
    ferry_queue *queue;   /* the last that a record was made in, in this hold: completion.h */
    uint32_t steps;       /* done in this hold: FRY_HOLDING_STEPS */
    fry_need need;        /* after a node found no room: what its next step takes at most */
    fry_lack lack;        /* and what was missing */
};

/* Takes the baton for the calling thread, if it is free. */
bool fry_turn_begin(fry_turn *turn, ferry_engine *engine, fry_context *context, bool is_loop);

/* Does up to `budget` pieces of work, gives the baton back, looks again. Returns the work done. */
size_t fry_turn_end(fry_turn *turn, size_t budget);

/*
 * Puts a node in the inbox (its place there is its program order), and works unless another thread
 * does.
 */
void fry_turn_push(ferry_engine *engine, fry_context *context, fry_node *node);

/* Works on what was put in the inbox, unless another thread does. The context may be NULL. */
void fry_turn_help(ferry_engine *engine, fry_context *context);

/* The same as fry_turn_push for a chain of nodes, linked from the newest to the oldest. */
void fry_turn_push_chain(ferry_engine *engine, fry_context *context, fry_link *newest,
                         fry_link *oldest, size_t budget);

/* Submits a new node: enters it at once if the baton is free and no node is before it. */
void fry_turn_submit(ferry_engine *engine, fry_context *context, fry_node *node);

/* In a turn: whether a new node would be the next to enter. */
static inline bool fry_turn_is_next(const fry_turn *turn)
{
    return turn->engine->backlog.first == NULL && fry_stack_is_empty(&turn->engine->inbox);
}

/*
 * Enters a new node that is next (fry_turn_is_next). If nobody holds a reference it may be gone
 * afterwards. False: there was no room, or it is too large to enter at once; it waits in the
 * backlog, and the caller ends the turn with fry_turn_end_unfinished.
 */
bool fry_turn_enter(fry_turn *turn, fry_node *node);
void fry_turn_end_unfinished(fry_turn *turn, const fry_node *node);

#endif
