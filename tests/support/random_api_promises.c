/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Promises, and what was begun and ends later. A record that has a promise, of an operation that
 * ends later or with a waiter for its cancel, is on the world's board until somebody ends it.
 */
#include "tests/support/random_api.h"

/* ---- promises ---- */

static void end_promise(api_actor *actor, ferry_promise *promise)
{
    if (promise != NULL && !api_one_in(&actor->random, 3)) {
        bool fails = api_one_in(&actor->random, 4);
        ferry_status status =
            fails || api_one_in(&actor->random, 2)
                ? ferry_promise_resolve(promise, fails ? FERRY_E_FAILED : FERRY_OK, "by chance")
                : ferry_promise_resolve_value(promise, "by chance", 9);
        ferry_future *future = ferry_promise_future(promise);
        /* Else another came first, and may be on its way from the claim to the seal. */
        API_CHECK(status != FERRY_OK || ferry_future_poll(future) != FERRY_PENDING);
        API_CHECK(status == FERRY_OK || status == FERRY_E_CANCELLED || status == FERRY_E_SHUTDOWN ||
                  status == FERRY_E_NO_MEMORY);
        API_CHECK(status == FERRY_E_NO_MEMORY ||
                  ferry_promise_resolve(promise, FERRY_OK, NULL) != FERRY_OK);
        ferry_future_release(future);
    }
    ferry_promise_release(promise);
}

bool api_act_promise(api_actor *actor)
{
    ferry_promise *promise = NULL;
    ferry_status status = ferry_promise_create(actor->world->engine, &promise);
    API_CHECK((status == FERRY_OK) == (promise != NULL));
    if (status != FERRY_OK)
        return false;
    api_hold(actor, (api_held){.future = ferry_promise_future(promise)});
    uint32_t slot = api_below(&actor->random, API_BOARD);
    end_promise(actor, atomic_exchange(&actor->world->promises[slot], promise));
    return true;
}

bool api_act_end_promise(api_actor *actor)
{
    uint32_t slot = api_below(&actor->random, API_BOARD);
    ferry_promise *promise = atomic_exchange(&actor->world->promises[slot], NULL);
    end_promise(actor, promise);
    return promise != NULL;
}

/* ---- records with promises ---- */

/* Ends what the record has begun, unless another has; NULL is nothing. */
static void end_begun(api_record *record, api_random *random)
{
    ferry_promise *promise = record != NULL ? atomic_exchange(&record->promise, NULL) : NULL;
    if (promise == NULL)
        return;
    ferry_status status = FERRY_E_NO_MEMORY;
    atomic_fetch_add(&record->ended, record->is_async); /* before its future says so */
    if (record->result == FERRY_OK && api_one_in(random, 2))
        status = ferry_promise_resolve_value(promise, "begun", 5);
    if (status == FERRY_E_NO_MEMORY && !api_one_in(random, 8))
        status = ferry_promise_resolve(promise, record->result, "by chance");
    bool may_be_late = status == FERRY_E_CANCELLED || status == FERRY_E_SHUTDOWN;
    API_CHECK(status == FERRY_OK || status == FERRY_E_NO_MEMORY ||
              (may_be_late && !record->is_async));
    atomic_store(&record->is_let_go, !may_be_late); /* its waiter: else it is called */
    ferry_promise_release(promise);
}

/* Puts it on the board, where the promise is anybody's. Settling ends what is there, and it is set
 * before that, so nothing is left there. */
static void publish(api_world *world, api_record *record, ferry_promise *promise,
                    api_random *random)
{
    uint32_t slot = api_below(random, API_BOARD);
    atomic_store(&record->promise, promise);
    end_begun(atomic_exchange(&world->begun[slot], record), random);
    if (atomic_load(&world->is_settling))
        end_begun(record, random);
}

void api_end_all_begun(api_world *world)
{
    atomic_store(&world->is_settling, true);
    for (uint32_t i = 0; i < API_BOARD; i++)
        end_begun(atomic_exchange(&world->begun[i], NULL), &world->random);
}

bool api_act_end_begun(api_actor *actor)
{
    uint32_t slot = api_below(&actor->random, API_BOARD);
    api_record *record = atomic_exchange(&actor->world->begun[slot], NULL);
    end_begun(record, &actor->random);
    return record != NULL;
}

/* ---- operations that end later ---- */

void api_begin(void *arg, ferry_promise *promise)
{
    api_record *record = arg;
    API_CHECK(!atomic_load(&record->is_quiet));
    API_CHECK(atomic_fetch_add(&record->begun, 1) == 0);
    record->is_async = true;
    api_act_within(record);
    if (api_one_in(&record->random, 3)) {
        atomic_store(&record->promise, promise);
        end_begun(record, &record->random);
    } else {
        publish(record->world, record, promise, &record->random);
    }
    API_CHECK(!atomic_load(&record->is_quiet));
    API_CHECK(atomic_load(&record->cancelled) == 0);
    atomic_store(&record->has_returned, true);
}

/* It ends what was begun, or a shutdown would wait for another act. */
void api_cancel(void *arg)
{
    api_record *record = arg;
    API_CHECK(!atomic_load(&record->is_quiet) && atomic_load(&record->has_returned));
    API_CHECK(atomic_fetch_add(&record->cancelled, 1) == 0);
    api_act_within(record);
    end_begun(record, &record->random);
    API_CHECK(!atomic_load(&record->is_quiet));
}

bool api_act_async(api_actor *actor)
{
    api_record *record = api_record_take(actor->world, &actor->random);
    if (record == NULL)
        return false;
    api_room room;
    ferry_op_options options = api_options(actor, &room);
    record->result = api_one_in(&actor->random, 6) ? FERRY_E_FAILED : FERRY_OK;
    ferry_future *future = ferry_call_async(actor->world->engine, api_executor(actor), api_begin,
                                            api_cancel, record, &options);
    api_hold(actor, (api_held){.future = future, .calls = record});
    return true;
}

/* ---- promises whose holder is told of a cancel ---- */

bool api_act_on_cancel(api_actor *actor)
{
    api_record *record = api_record_take(actor->world, &actor->random);
    ferry_promise *promise = NULL;
    if (record == NULL || ferry_promise_create(actor->world->engine, &promise) != FERRY_OK)
        return false;
    ferry_future *future = ferry_promise_future(promise);
    api_wait_for_cancel(record, promise, future, api_executor(actor));
    api_hold(actor, (api_held){.future = future});
    if (api_one_in(&actor->random, 2))
        atomic_store(&actor->world->waited[api_below(&actor->random, API_BOARD)], record);
    publish(actor->world, record, promise, &actor->random);
    return true;
}
