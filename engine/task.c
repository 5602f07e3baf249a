/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callbacks and functions: everything of the user's that ferry runs. All of it starts here, on the
 * loop, with the baton released; executors take it from there.
 */
#include "engine/graph.h"

_Thread_local ferry_engine *fry_callback_engine;

/* Marks, never posted to. */
static ferry_executor inline_executor = {.struct_size = sizeof inline_executor};
static ferry_executor loop_executor = {.struct_size = sizeof loop_executor};

ferry_executor *ferry_executor_inline(void)
{
    return &inline_executor;
}

ferry_executor *ferry_executor_loop(void)
{
    return &loop_executor;
}

bool fry_executor_is_whole(const ferry_executor *executor)
{
    if (executor == NULL || executor == &inline_executor || executor == &loop_executor)
        return true;
    if (fry_likely(executor->struct_size == sizeof *executor))
        return executor->post != NULL;
    ferry_executor whole; /* of another version's size, which may have no post yet */
    return fry_options_read(&whole, sizeof whole, executor) == FERRY_OK && whole.post != NULL;
}

ferry_status fry_executor_check(ferry_engine *engine, const ferry_executor *executor)
{
    if (fry_likely(fry_executor_is_whole(executor)))
        return FERRY_OK;
    fry_log_line(&engine->log, FERRY_LOG_WARNING,
                 "an executor of another size, or one that can't be posted to, is refused");
    return FERRY_E_INVALID;
}

ferry_executor *fry_executor_for(const ferry_engine *engine, ferry_executor *executor)
{
    if (executor == NULL)
        executor = fry_load_relaxed(&engine->executor);
    return executor != &loop_executor ? executor : NULL;
}

/* ---- functions ---- */

static fry_error *call_error(const fry_node *node, int result)
{
    fry_error_facts facts = {.status = (ferry_status)node->refusal,
                             .domain = "user",
                             .native_code = result,
                             .op = node->future.id,
                             .label = node->label};
    return fry_error_create(&fry_engine_of(&node->future)->memory, &facts,
                            "the function returned %s (%d)",
                            ferry_status_name((ferry_status)node->refusal), result);
}

/* On the loop or whatever thread the executor chose. The reference taken in issue_call keeps the
 * node. */
static void call_run(fry_node *node)
{
    ferry_engine *engine = fry_engine_of(&node->future);
    uint8_t not_begun = FRY_CALL_NOT_BEGUN;
    if (fry_cas(&node->begun, &not_begun, FRY_CALL_BEGUN)) {
        fry_trace(engine, node, FERRY_TRACE_BEGUN, 0);
        int result = node->op.call.fn(node->op.call.arg);
        bool is_status = result <= 0 && result >= INT16_MIN;
        node->refusal = (int16_t)(is_status ? result : FERRY_E_FAILED);
        if (result != FERRY_OK)
            node->op.call.error = call_error(node, result);
        fry_turn_push(engine, fry_context_get(engine), node);
    }
    ferry_future_release(&node->future);
}

void ferry_task_run(ferry_task *task)
{
    fry_task_begun begun;
    if (task == NULL || !fry_task_begin(task, &begun))
        return;
    if (begun.kind == FRY_TASK_CALL)
        call_run(begun.subject);
    else
        fry_waiter_call(begun.subject);
}

void fry_hand_out_calls(ferry_engine *engine, fry_link *calls)
{
    ferry_engine *outer = fry_callback_engine;
    fry_callback_engine = engine;
    while (calls != NULL) {
        fry_node *node = FRY_CONTAINER(calls, fry_node, link);
        calls = calls->next; /* running it uses the link again */
        fry_call *call = &node->op.call;
        if (call->executor == NULL)
            call_run(node);
        else
            fry_task_post(call->executor, call->task, FRY_TASK_CALL, node, node->future.id);
    }
    fry_callback_engine = outer;
}

static bool is_to_run(const fry_node *node)
{
    return (node->flags & FRY_NODE_RETIRED) == 0 && node->state == FRY_NODE_READY;
}

/* Out of its queue: it is handed out, or has failed meanwhile. */
static void issue_call(fry_turn *turn, fry_node *node, fry_queue *issued)
{
    if ((node->flags & FRY_NODE_RETIRED) != 0) {
        fry_graph_step(turn, node);
        return;
    }
    node->flags &= (uint16_t)~FRY_NODE_QUEUED;
    if (node->state != FRY_NODE_READY)
        return; /* retires when its order edges have fired */
    (void)fry_fetch_add(&node->future.references, 1);
    fry_graph_issued(turn, node);
    fry_queue_push(issued, &node->link);
}

static bool needs_task(const fry_node *node)
{
    return node->op.call.executor != NULL && is_to_run(node);
}

/* A task for a call of an executor's, if it needs one; at most *left_p more. */
static bool equip_call(fry_tasks *tasks, fry_node *node, uint32_t *left_p)
{
    if (!needs_task(node))
        return true;
    fry_task *task = *left_p != 0 ? fry_task_take(tasks) : NULL;
    if (task == NULL)
        return false;
    (*left_p)--;
    node->op.call.task = task;
    return true;
}

/*
 * With the baton: READY functions become ISSUED, as a list for fry_hand_out_calls. Those that find
 * no task, or others of executors' before them, stay READY in a queue of their own, so that the
 * loop's functions pass them.
 */
fry_link *fry_calls_issue(fry_turn *turn, bool with_callbacks)
{
    ferry_engine *engine = turn->engine;
    fry_tasks *tasks = &engine->tasks;
    bool must_wait = !fry_ready_queue_is_empty(&tasks->calls);
    if (fry_likely(fry_ready_queue_is_empty(&engine->calls) && !must_wait))
        return NULL;
    fry_queue issued = {0};
    uint32_t left = fry_tasks_for_calls(tasks, with_callbacks);
    fry_link *item;
    while ((item = fry_ready_queue_pop(&engine->calls)) != NULL) {
        fry_node *node = FRY_CONTAINER(item, fry_node, link);
        if (!(must_wait && needs_task(node)) && equip_call(tasks, node, &left)) {
            issue_call(turn, node, &issued);
        } else {
            fry_ready_queue_push(&tasks->calls, item, fry_node_priority(node));
            must_wait = true; /* or a task that comes back meanwhile would be a later one's */
        }
    }
    while ((item = fry_ready_queue_next(&tasks->calls)) != NULL) {
        fry_node *node = FRY_CONTAINER(item, fry_node, link);
        if (!equip_call(tasks, node, &left))
            break;
        (void)fry_ready_queue_pop(&tasks->calls);
        issue_call(turn, node, &issued);
    }
    return issued.first;
}

/* ---- callbacks ---- */

void fry_fire_waiter(fry_future_owner *owner, ferry_waiter *waiter)
{
    ferry_engine *engine = (ferry_engine *)owner;
    if (fry_unlikely(waiter->fn == fry_waiter_is_embedded)) {
        fry_store_relaxed(&engine->waiter_fired, 1);
        fry_store_release(&waiter->private_.state, 0); /* its thread may return now */
        fry_fence();
        if (fry_load_relaxed(&engine->asleep) != FRY_AWAKE)
            (void)fry_wake_sleeper(engine); /* not fry_wake: this may be under the baton */
        return;
    }
    fry_stack_push(&engine->fired, (fry_link *)(void *)&waiter->private_.next);
}

static ferry_waiter *waiter_of(fry_link *link)
{
    return FRY_CONTAINER(link, ferry_waiter, private_.next);
}

bool fry_has_callbacks(const ferry_engine *engine)
{
    return fry_load_seq_cst(&engine->fired.top) != NULL ||
           fry_tasks_can_go_on(&engine->tasks, FRY_TASKS_FOR_WAITERS);
}

static void post_waiter(ferry_executor *executor, fry_task *task, ferry_waiter *waiter)
{
    fry_task_post(executor, task, FRY_TASK_WAITER, waiter, waiter->private_.future->id);
}

/* Those that have waited longest for a task, as far as there are any. */
static size_t post_waiting(ferry_engine *engine, size_t budget)
{
    fry_tasks *tasks = &engine->tasks;
    size_t count = 0;
    for (; count < budget && tasks->waiters.first != NULL; count++) {
        ferry_waiter *waiter = waiter_of(tasks->waiters.first);
        ferry_executor *executor = fry_executor_for(engine, waiter->executor);
        fry_task *task = executor != NULL ? fry_task_take_or_grow(engine) : NULL;
        if (executor != NULL && task == NULL)
            break;
        (void)fry_queue_pop(&tasks->waiters); /* before it is posted, and its memory is reused */
        if (executor == NULL)
            fry_waiter_call(waiter); /* the engine's executor has gone with its handle */
        else
            post_waiter(executor, task, waiter);
    }
    return count;
}

/* Has the callback called where it wants to be. */
static void dispatch(ferry_engine *engine, ferry_waiter *waiter)
{
    ferry_executor *executor = fry_executor_for(engine, waiter->executor);
    if (executor == NULL || executor == &inline_executor) {
        fry_waiter_call(waiter);
        return;
    }
    fry_task *task = NULL;
    if (engine->tasks.waiters.first == NULL) /* else it comes after those */
        task = fry_task_take_or_grow(engine);
    if (task != NULL)
        post_waiter(executor, task, waiter);
    else
        fry_queue_push(&engine->tasks.waiters, (fry_link *)(void *)&waiter->private_.next);
}

/* Inline ones go first; the others wait their turn in `due`. The role's holder. */
size_t fry_run_callbacks(ferry_engine *engine, size_t budget)
{
    ferry_engine *outer = fry_callback_engine;
    fry_callback_engine = engine;
    size_t count = 0;
    fry_link *fired = NULL;
    if (fry_load_relaxed(&engine->fired.top) != NULL)
        fired = fry_stack_take_all(&engine->fired);
    while (fired != NULL) {
        ferry_waiter *waiter = waiter_of(fired);
        fired = fired->next;
        if (fry_executor_for(engine, waiter->executor) == &inline_executor) {
            fry_waiter_call(waiter);
            count++;
        } else {
            fry_queue_push(&engine->due, (fry_link *)(void *)&waiter->private_.next);
        }
    }
    if (fry_unlikely(engine->tasks.waiters.first != NULL && count < budget))
        count += post_waiting(engine, budget - count);
    fry_link *item;
    while (count < budget && (item = fry_queue_pop(&engine->due)) != NULL) {
        dispatch(engine, waiter_of(item));
        count++;
    }
    fry_store_relaxed(&engine->has_due, engine->due.first != NULL);
    fry_callback_engine = outer;
    return count;
}
