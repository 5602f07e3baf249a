/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After the stop there is no loop. A call that causes work then (a callback on a resolved future, a
 * buffer's last reference, a submit that began before the shutdown and is refused) does that work
 * before it returns: fry_late_call_ends is the last step of such a call. Each of the engine's own
 * threads does the same after it has reported something.
 *
 * Nothing is left behind. The visitor publishes the work, passes a full barrier, then looks whether
 * the engine closes and whether the loop has stopped. If it does not see both, the loop stores
 * STOPPED after that look. The loop then gives the role, a full barrier, and looks once more
 * whether anything is left, and this look sees the work.
 *
 * After the stop a visitor takes the role, or leaves the work to the role's holder. So a thread
 * that gives the role back looks once more after the give (base/baton.h has the argument; a look
 * before the give would miss what came between). Nobody waits for the baton, so work that needs the
 * baton too is left alone while a thread has the baton. That thread looks as its call ends, after
 * giving the baton, as ferry_engine_release does. This is after the visitor's look, so it finds the
 * role free, or with a holder that has yet to look. stopped.pml checks this.
 */
#include "engine/loop/late.h"

#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/ground/callbacks.h"
#include "engine/loop/loop.h"
#include "engine/messages/members.h"
#include "engine/tasks/task_pool.h"
#include "engine/tasks/waiter.h"

/* Without the role, after a full barrier: whether a tick would find something to do. */
static bool is_left_over(const ferry_engine *engine)
{
    if (fry_callbacks_are_due(engine) || fry_load_relaxed(&engine->has_due) != 0)
        return true;
    const fry_members *members = fry_load_acquire(&engine->members);
    bool for_the_graph = (members != NULL && fry_members_have_work(members)) ||
                         !fry_stack_is_empty(&engine->requests) || fry_frees_are_due(engine) ||
                         !fry_stack_is_empty(&engine->inbox) ||
                         fry_load_relaxed(&engine->work_left) != 0 ||
                         fry_tasks_can_go_on(&engine->tasks, FRY_TASKS_FOR_CALLS);
    return for_the_graph && fry_load_seq_cst(&engine->baton.taken) == 0;
}

void fry_late_work(ferry_engine *engine)
{
    if (fry_load_seq_cst(&engine->asleep) != FRY_STOPPED)
        return;
    while (is_left_over(engine) && fry_baton_take(&engine->role)) {
        while (fry_tick(engine, FRY_TICK_BUDGET, true) != 0)
            continue;
        fry_baton_give(&engine->role);
    }
}
