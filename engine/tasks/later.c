/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations that end later. begin starts something; the promise that begin was given ends it, in
 * any thread; if the operation fails before, cancel is called, on the loop.
 *
 * One word, node->outside, says what has happened, and each move of it says what its thread must
 * do. The operation is over, once, when begin has returned, the promise was resolved, and no cancel
 * is to be called or runs. So arg is not touched any more when the operation is quiet, and cancel
 * runs neither beside begin nor after quiet.
 *
 *     returned   and ENDED: over. Else, if FAILED: cancel
 *     ended      and RETURNED, and no cancel is to come or runs: over
 *     failed     and RETURNED, and not ENDED: cancel
 *     cancelled  and ENDED: over
 *
 * Each of the four happens at most once, and the moves of one word have one order. "Over" comes
 * from exactly one of them: the move after which RETURNED and ENDED are set and CANCELLING is not,
 * for the first time. `failed` is never that move, since it sets none of the three but CANCELLING,
 * which it sets only before ENDED. Cancel is called at most once, as only `returned` and `failed`
 * start it, and of these the second one. later.pml beside this checks it.
 *
 * The node's link has one user at a time. Cancel and over both send the node to the graph through
 * its link, and over does not come while CANCELLING is set, which the loop takes back only after
 * the node has left all queues.
 */
#include "engine/tasks/later.h"

#include "engine/engine.h"
#include "engine/graph/emit.h"
#include "engine/graph/turn.h"
#include "engine/ground/context.h"

typedef enum event { RETURNED, ENDED, FAILED, CANCELLED } event;

static fry_later_duty duty_after(event event, uint8_t *state)
{
    bool has_ended = (*state & FRY_LATER_ENDED) != 0;
    switch (event) {
    case RETURNED:
        *state |= FRY_LATER_RETURNED;
        break;
    case ENDED:
        *state |= FRY_LATER_ENDED;
        if ((*state & FRY_LATER_RETURNED) == 0 || (*state & FRY_LATER_CANCELLING) != 0)
            return FRY_LATER_NOTHING;
        return FRY_LATER_OVER;
    case FAILED:
        *state |= FRY_LATER_FAILED;
        if ((*state & FRY_LATER_RETURNED) == 0 || has_ended)
            return FRY_LATER_NOTHING;
        break;
    case CANCELLED:
        *state &= (uint8_t)~FRY_LATER_CANCELLING;
        return has_ended ? FRY_LATER_OVER : FRY_LATER_NOTHING;
    }
    if (has_ended)
        return FRY_LATER_OVER;
    if ((*state & FRY_LATER_FAILED) == 0)
        return FRY_LATER_NOTHING;
    *state |= FRY_LATER_CANCELLING;
    return FRY_LATER_CANCEL;
}

/*
 * Moves the state. Release: what this thread did with arg comes before whatever the mover of the
 * next state does.
 */
static fry_later_duty move(fry_node *node, event event)
{
    uint8_t from = fry_load_relaxed(&node->outside), to;
    fry_later_duty duty;
    do {
        to = from;
        duty = duty_after(event, &to);
    } while (!fry_cas_weak(&node->outside, &from, to));
    return duty;
}

/* Sends it to the graph, which looks whether to cancel it or whether it is over. */
static void tell(fry_node *node, fry_later_duty duty)
{
    ferry_engine *engine = fry_engine_of(&node->future);
    if (duty != FRY_LATER_NOTHING)
        fry_turn_push(engine, fry_context_get(engine), node);
}

void fry_later_begin(fry_node *node)
{
    uint8_t not_begun = FRY_CALL_NOT_BEGUN;
    if (!fry_cas(&node->outside, &not_begun, FRY_LATER_BEGUN))
        return;
    fry_emit(fry_engine_of(&node->future), node, FERRY_TRACE_BEGUN, 0);
    ferry_future *promise = ferry_future_retain(&node->future);
    node->op.async.call.begin(node->op.async.call.arg, (ferry_promise *)(void *)promise);
    tell(node, move(node, RETURNED)); /* the caller's reference keeps it */
}

bool fry_later_end(fry_node *node, fry_error *error, fry_value *value)
{
    uint8_t from = fry_load_relaxed(&node->outside);
    do {
        if ((from & FRY_LATER_CLAIMED) != 0)
            return false;
    } while (!fry_cas_weak(&node->outside, &from, from | FRY_LATER_CLAIMED));
    node->op.async.call.error = error;
    node->op.async.value = value;
    node->refusal = error != NULL ? FERRY_E_FAILED : FERRY_OK; /* the error has the status */
    tell(node, move(node, ENDED));                             /* the promise keeps it */
    return true;
}

fry_later_duty fry_later_failed(fry_node *node)
{
    return node->op.async.cancel != NULL ? move(node, FAILED) : FRY_LATER_NOTHING;
}

void fry_later_cancel(fry_node *node)
{
    if ((fry_load_acquire(&node->outside) & FRY_LATER_ENDED) == 0)
        node->op.async.cancel(node->op.async.call.arg);
    tell(node, move(node, CANCELLED));
}
