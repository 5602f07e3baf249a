/* SPDX-License-Identifier: Apache-2.0 */
/* Callbacks on futures: registering them and taking them back. */
#include "engine/tasks/waiter.h"

#include "engine/engine.h"
#include "engine/ground/callbacks.h"
#include "engine/ground/ground.h"
#include "engine/ground/refusal.h"
#include "engine/loop/embedded.h"
#include "engine/loop/late.h"
#include "engine/tasks/executor.h"
#include "engine/tasks/on_cancel.h"
#include "engine/tasks/waiter_list.h"

ferry_status ferry_future_on_ready(ferry_future *future, ferry_waiter *waiter)
{
    if (future == NULL || waiter == NULL || waiter->fn == NULL)
        return FERRY_E_INVALID;
    ferry_engine *engine = fry_engine_of(future);
    if (engine != NULL) {
        ferry_status status = fry_engine_check(engine);
        if (status == FERRY_OK)
            status = fry_refusal_status(fry_executor_check(engine, waiter->executor));
        if (status != FERRY_OK)
            return status;
    }
    uint32_t idle = FRY_WAITER_IDLE;
    if (!fry_cas(&waiter->private_.state, &idle, FRY_WAITER_LISTED))
        return FERRY_E_INVALID;
    fry_store_relaxed(&waiter->private_.future, ferry_future_retain(future));
    if (engine == NULL) {
        fry_waiter_call(waiter);
        return FERRY_OK;
    }
    if (!fry_future_add_waiter(future, waiter)) {
        fry_engine_retain(engine); /* the callback may drop the last other reference */
        fry_fire_waiter(&engine->owner, waiter);
        fry_wake(engine);
        fry_late_call_ends(engine);
        fry_engine_unretain(engine, 1);
    }
    return FERRY_OK;
}

static bool remove_waiter(ferry_engine *engine, ferry_waiter *waiter)
{
    if (fry_is_in_callback(engine))
        return fry_waiter_take_back(engine, waiter);
    enum fry_waiter_state state = fry_load_acquire(&waiter->private_.state);
    if ((state == FRY_WAITER_LISTED && fry_waiter_take_out(waiter)) ||
        (state == FRY_WAITER_ON_CANCEL && fry_on_cancel_take_back(waiter)))
        return true;
    if (!fry_role_borrow(engine))
        return false;
    bool removed = fry_waiter_take_back(engine, waiter);
    fry_role_return(engine);
    return removed;
}

bool ferry_waiter_remove(ferry_waiter *waiter)
{
    if (waiter == NULL || fry_load_acquire(&waiter->private_.state) == FRY_WAITER_IDLE)
        return false;
    ferry_future *future = fry_load_relaxed(&waiter->private_.future);
    ferry_engine *engine = fry_engine_of(future);
    if (fry_engine_check(engine) != FERRY_OK)
        return false;
    bool removed = remove_waiter(engine, waiter);
    if (fry_callbacks_are_due(engine)) {
        fry_wake(engine); /* putting the others back may have fired them */
        fry_late_call_ends(engine);
    }
    if (removed)
        ferry_future_release(future);
    return removed;
}
