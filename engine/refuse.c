/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Futures of what could not be submitted: one a status in each engine, resolved from the start, and
 * one a status for callers without an engine. They need no memory, so saying "no memory" never
 * fails. A reference to an engine's is a reference to the engine itself.
 */
#include "engine/engine.h"

#define REFUSED_(name, value, text)                                                                \
    {.waiters = FRY_SEALED, .references = FRY_FUTURE_STATIC, .status = (name)},

static ferry_future refused_without_engine[] = {FERRY_STATUS_MAP(REFUSED_)};

void fry_refused_init(ferry_engine *engine)
{
    for (size_t i = 0; i < FRY_STATUS_COUNT; i++) {
        engine->refused[i] = refused_without_engine[i];
        engine->refused[i].owner = &engine->owner;
    }
}

ferry_future *fry_refused(ferry_engine *engine, ferry_status status)
{
    ferry_future *refused = refused_without_engine;
    if (engine != NULL && status != FERRY_E_FORKED) {
        fry_engine_retain(engine);
        refused = engine->refused;
    }
    size_t i = 0;
    while (refused[i].status != (int32_t)status)
        i++;
    return &refused[i];
}
