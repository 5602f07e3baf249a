/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry_engine_writable: when is it worth trying again after a submit was refused with
 * FERRY_E_AGAIN?
 *
 * Three kinds of refusal.
 *   at submit    A pool of nodes, edges or uses had too few slots. The pool records how many were
 *                needed (fry_pool_refused), and base/pool.h tells when they are there
 *   at entering  The access lists had no room for the next step. Slots come back to several pools
 *                as operations ahead end. So engine->load counts, with the baton, what the graph
 *                holds (operations, promises, uses of segments), and the refused operation records
 *                to what value the load must fall
 *   barred       The operation names a buffer in which a refused write has yet to take its place:
 *                until the engine's mark has had its turn (refused_writes.c)
 * An operation refused for its edges records a load too: edges are for predecessors that have not
 * resolved, so when these have resolved the operation may need none.
 *
 * The news. Room for one refused operation is enough. Of two, one that lacks a node must not wait
 * for the thousand edges that the other lacks, since those may be held until the first has
 * submitted. An operation that tries too early is refused again and records what it lacks then.
 * That happens at most once for each other refusal, and only after the load has really fallen. A
 * refused operation and its dependents leave the load as they found it, so nobody tries over and
 * over while nothing ends.
 *
 * All callers share one future, whose node comes from a small pool of its own: a promise that the
 * loop resolves. room_lock guards it and makes lookers come one at a time. No user code runs under
 * room_lock, and nothing is allocated.
 *
 *     asker   room_wanted = 1; barrier; look (pools; load); nothing: leave the promise
 *     giver   gives slots, or the load falls; barrier; if wanted: room_came = 1; wake the loop
 *     loop    room_came = 0; look; room: resolve
 *
 * No news is missed. For the pools base/pool.h says why. The load is written with the baton, whose
 * give is a full barrier; after the give the thread looks at room_wanted and the load
 * (fry_turn_end). Either this look sees room_wanted, or the asker's look comes later and sees the
 * load. room_came is set before the loop is woken, and a loop that is about to sleep looks at it,
 * as at all work (loop.c). The loop clears room_came before it looks, so it looks again if news
 * comes during the look. writable.pml checks this, and finds each planted mistake.
 */
#include "engine/graph/room.h"

#include "engine/engine.h"
#include "engine/graph/stock.h"
#include "engine/ground/ground.h"
#include "engine/ground/refusal.h"

void fry_room_stop_wanting(ferry_engine *engine)
{
    fry_store_relaxed(&engine->room_wanted, 0);
    fry_pool_rest(&engine->nodes);
    fry_pool_rest(&engine->edges);
    fry_pool_rest(&engine->uses);
    fry_pool_rest(&engine->transfers);
}

static void forget_refusals(ferry_engine *engine)
{
    fry_store_relaxed(&engine->load_target, FRY_LOAD_NOT_REFUSED);
    fry_store_relaxed(&engine->mark_refused, 0);
    fry_pool_forget_refusals(&engine->nodes);
    fry_pool_forget_refusals(&engine->edges);
    fry_pool_forget_refusals(&engine->uses);
    fry_pool_forget_refusals(&engine->transfers);
}

/* Any thread, with or without the baton; called by a pool. */
void fry_room_has_come(void *arg)
{
    ferry_engine *engine = arg;
    if (fry_exchange(&engine->room_came, 1) == 0)
        fry_wake(engine);
}

/* ---- refusals ---- */

static void note_target(ferry_engine *engine, int64_t target)
{
    int64_t noted = fry_load_relaxed(&engine->load_target);
    while ((noted == FRY_LOAD_NOT_REFUSED || target > noted) &&
           !fry_cas_weak(&engine->load_target, &noted, target))
        continue;
}

static int64_t target_of(int64_t load, uint64_t fall)
{
    return load > (int64_t)fall ? load - (int64_t)fall : 0;
}

void fry_edges_refused(ferry_engine *engine, uint64_t needed, uint64_t missing)
{
    fry_pool_refused(&engine->edges, needed);
    int64_t load = fry_load_relaxed(&engine->load); /* operations may be on their way in */
    if (load > 0)
        note_target(engine, target_of(load, missing));
}

void fry_entry_refused(ferry_engine *engine, uint64_t edges, const fry_lack *lack)
{
    /* If the graph holds one thing less, one more slot is free. */
    int64_t load = fry_load_relaxed(&engine->load);
    if (load == 0)
        note_target(engine, FRY_LOAD_HOPELESS); /* nothing ahead of the operation could end */
    else
        note_target(engine, target_of(load, lack->count > 0 ? lack->count : 1));
    if (lack->is_of_edges) /* one node may give back many edges */
        fry_pool_refused(&engine->edges, edges + lack->count);
}

/* If the promise is cancelled, the target stays one too high, and the next try may be too early. */
void fry_writable_enters(ferry_engine *engine)
{
    int64_t target = fry_load_relaxed(&engine->load_target);
    while (target >= 0 && !fry_cas_weak(&engine->load_target, &target, target + 1))
        continue;
}

static fry_pool_room look_at_load(ferry_engine *engine)
{
    int64_t target = fry_load_seq_cst(&engine->load_target);
    if (target == FRY_LOAD_NOT_REFUSED)
        return FRY_POOL_NOT_REFUSED;
    return fry_load_seq_cst(&engine->load) > target ? FRY_POOL_NO_ROOM : FRY_POOL_ROOM;
}

fry_refusal fry_refused_barred(ferry_engine *engine)
{
    fry_store_seq_cst(&engine->mark_refused, 1);
    return FRY_REFUSED_BARRED;
}

/* Buffers stay barred until the mark has had its turn. */
static fry_pool_room look_at_mark(ferry_engine *engine)
{
    if (fry_load_seq_cst(&engine->mark_refused) == 0)
        return FRY_POOL_NOT_REFUSED;
    return fry_load_seq_cst(&engine->mark_is_pushed) != 0 ? FRY_POOL_NO_ROOM : FRY_POOL_ROOM;
}

void fry_room_after_turn(ferry_engine *engine)
{
    if (look_at_load(engine) == FRY_POOL_ROOM || look_at_mark(engine) == FRY_POOL_ROOM)
        fry_room_has_come(engine);
}

/* ---- looking ---- */

/* With room_lock. ROOM if any source has room; NO_ROOM if any was refused and none has room. */
fry_pool_room fry_room_find(ferry_engine *engine)
{
    fry_pool *const pools[] = {&engine->nodes, &engine->edges, &engine->uses, &engine->transfers};
    (void)fry_exchange(&engine->room_wanted, 1); /* pairs with the baton's give in fry_turn_end */
    fry_pool_room found = look_at_load(engine), mark = look_at_mark(engine);
    if (mark == FRY_POOL_ROOM || found == FRY_POOL_NOT_REFUSED)
        found = mark;
    for (size_t i = 0; i < sizeof pools / sizeof *pools; i++) {
        fry_pool_room room = fry_pool_look(pools[i]);
        if (room == FRY_POOL_ROOM || found == FRY_POOL_NOT_REFUSED)
            found = room;
        else if (room == FRY_POOL_BUSY && found == FRY_POOL_NO_ROOM)
            found = room;
    }
    if (found == FRY_POOL_ROOM)
        forget_refusals(engine); /* all are told; a try that is too early is refused again */
    if (found == FRY_POOL_ROOM || found == FRY_POOL_NOT_REFUSED)
        fry_room_stop_wanting(engine);
    else if (found == FRY_POOL_BUSY)
        fry_room_has_come(engine); /* the loop looks again */
    return found;
}
