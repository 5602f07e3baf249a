/* SPDX-License-Identifier: Apache-2.0 */
/* What the graph does for scopes. scope.c. */
#ifndef FRY_ENGINE_GRAPH_SCOPE_H
#define FRY_ENGINE_GRAPH_SCOPE_H

#include "base/timers.h"
#include "engine/engine.h"
#include "engine/graph/node.h"
#include "engine/graph/ready_queue.h"

#include <ferry/scope.h>

/* What ferry_scope.held counts in its lower bits, and the bits above: scope.c. */
#define FRY_SCOPE_RELEASED ((uint64_t)1 << 63)
#define FRY_SCOPE_CLOSED ((uint64_t)1 << 62)
#define FRY_SCOPE_CANCELLED ((uint64_t)1 << 61)
#define FRY_SCOPE_COUNT (FRY_SCOPE_CANCELLED - 1)

LIST_HEAD(fry_scope_list, fry_note);
TAILQ_HEAD(fry_scope_line, fry_note);

/* In memory that `own` gives back. */
struct ferry_scope {
    ferry_engine *engine;
    fry_node *own;       /* the node of the future that close and cancel return */
    int64_t deadline_ns; /* of each operation that has no earlier one; 0: none */
    double byte_ns;      /* what a byte adds to free_ns; 0: there is no limit */
    int64_t burst_ns;    /* how far free_ns may lie behind the clock */
    fry_tally *tally;    /* behind it; NULL: the engine does not count */

    pthread_mutex_t closing; /* scope_node.c */

    uint64_t held __attribute__((aligned(64))); /* atomic: scope.c */

    /* With the baton. */
    struct fry_scope_list members;            /* have entered and do not wait for the rate */
    struct fry_scope_list ending;             /* their walk has been here, or their wait is over */
    struct fry_scope_line waiting[FRY_RANKS]; /* READY; by priority, the oldest first */
    uint8_t overtaken[FRY_RANKS];             /* as in fry_ready_queue */
    bool is_timed;                            /* `timer` is in engine->rates */
    fry_error *why;        /* the reason to cancel its operations; NULL: they are not cancelled */
    fry_timers_link timer; /* when the first of those who wait may begin */
    int64_t free_ns;       /* when all bytes that have begun have had their time; engine's clock */
    double free_rest_ns;   /* what free_ns lacks, less than 1 */
};

/*
 * Counts a new node, which has a note, as the scope's. Returns why it must not join, or FRY_TAKEN.
 * Any thread. _forget: the node was not submitted after all.
 */
fry_refusal fry_scope_expect(ferry_scope *scope, fry_node *node);
void fry_scope_forget(fry_node *node);

/*
 * One less holds the scope, which may be gone after this. Any thread. True: its own node was put
 * into the inbox; a thread without the baton sees to it that somebody works on that.
 */
bool fry_scope_count_down(ferry_scope *scope);

/* ---- with the baton; for nodes that have a note ---- */

/* The node's turn to enter has come. */
void fry_scope_enter(fry_node *node);

/*
 * The node is READY. True: it waits until its scope's rate lets it begin, when it is scheduled
 * again.
 */
bool fry_scope_holds_back(fry_turn *turn, fry_node *node);

/* The node has resolved; it is quiet. */
void fry_scope_member_resolved(fry_turn *turn, fry_node *node);
void fry_scope_member_quiet(fry_node *node);

/* Lets those begin for whom the rates have room by now_ns (engine's clock). Returns how many. */
size_t fry_scopes_begin_due(fry_turn *turn, int64_t now_ns);

/* Who comes next by the rate; NULL: nobody waits. */
fry_note *fry_scope_next_waiting(const ferry_scope *scope);

/* Whether a scope's rate may keep the node, READY, from beginning. */
static inline bool fry_node_is_rated(const fry_node *node)
{
    return fry_node_has_note(node) && node->note->scope != NULL && node->note->scope->byte_ns > 0;
}

/* Whether that is what the node waits for. */
static inline bool fry_node_waits_for_rate(const fry_node *node)
{
    return fry_node_has_note(node) && node->note->scope != NULL &&
           node->note->pace == FRY_PACE_WAITS;
}

#endif
