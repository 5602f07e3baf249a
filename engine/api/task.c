/* SPDX-License-Identifier: Apache-2.0 */
/* Running tasks, on the thread that an executor chose. */
#include "engine/tasks/task.h"

#include "engine/engine.h"
#include "engine/graph/node.h"
#include "engine/ground/ground.h"
#include "engine/loop/late.h"
#include "engine/tasks/task_pool.h"
#include "engine/tasks/waiter.h"

void ferry_task_run(ferry_task *task)
{
    fry_task_begun begun;
    if (task == NULL || !fry_task_begin(task, &begun))
        return;
    ferry_engine *engine = begun.engine;
    fry_late_call_ends(engine);  /* for functions and waiters that waited for a task */
    if (begun.subject == NULL) { /* revoked: only the task kept the engine */
        fry_engine_unretain(engine, 1);
    } else if (begun.kind == FRY_TASK_WAITER) {
        fry_waiter_call(begun.subject);
    } else {
        fry_node *node = begun.subject;
        fry_task_run_call(node);
        fry_late_call_ends(engine);
        ferry_future_release(&node->future);
    }
}
