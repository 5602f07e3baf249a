/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The waiter for a promise's failure. It hangs on one pointer of the promise, on_cancel, and
 * whoever takes it off that pointer has it:
 *
 *     listen      NULL → waiter
 *     taken back  waiter → NULL                 by compare-and-swap: the remover has it
 *     resolved    anything → was_resolved       by exchange: the resolver gives it back
 *     failed      anything → has_failed         by exchange, with the baton: promise.c fires it
 *
 * The last two exclude each other, because only the thread that has claimed the future does either.
 * They are final: a later listen finds the mark, which says what happened, so no waiter is left
 * behind by a promise that ends at the same moment. The state ON_CANCEL is stored before the
 * pointer and left after it: by the resolver, whose store of IDLE is its last touch, or by the
 * firing. So a remover that has lost keeps the waiter in place until the state has moved.
 */
#include "engine/tasks/on_cancel.h"

#include "engine/engine.h"
#include "engine/graph/promise.h"
#include "engine/ground/ground.h"
#include "engine/tasks/waiter_list.h"

static void give_back(ferry_waiter *waiter)
{
    ferry_future *future = fry_load_relaxed(&waiter->private_.future);
    fry_store_release(&waiter->private_.state, FRY_WAITER_IDLE);
    ferry_future_release(future);
}

ferry_status fry_on_cancel_listen(fry_node *promise, ferry_waiter *waiter)
{
    ferry_engine *engine = fry_engine_of(&promise->future);
    uint32_t idle = FRY_WAITER_IDLE;
    if (!fry_cas(&waiter->private_.state, &idle, FRY_WAITER_ON_CANCEL))
        return FERRY_E_INVALID;
    fry_store_relaxed(&waiter->private_.future, ferry_future_retain(&promise->future));
    ferry_waiter *found = NULL;
    if (fry_cas(&promise->op.promise.on_cancel, &found, waiter))
        return FERRY_OK;
    if (found != &fry_promise_has_failed) {
        give_back(waiter);
        return FERRY_E_INVALID;
    }
    engine->owner.ops->fire(&engine->owner, waiter);
    fry_wake(engine);
    return FERRY_OK;
}

void fry_on_cancel_let_go(fry_node *promise)
{
    ferry_waiter *waiter = fry_exchange(&promise->op.promise.on_cancel, &fry_promise_was_resolved);
    if (fry_unlikely(waiter != NULL))
        give_back(waiter);
}

bool fry_on_cancel_take_back(ferry_waiter *waiter)
{
    fry_node *promise = fry_node_of(fry_load_relaxed(&waiter->private_.future));
    ferry_waiter *found = waiter;
    if (!fry_cas(&promise->op.promise.on_cancel, &found, NULL))
        return false;
    fry_store_release(&waiter->private_.state, FRY_WAITER_IDLE);
    return true;
}
