/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Static futures of refused calls: one for each reason in each engine, resolved from the start, and
 * one for each reason for calls without an engine. They need no memory, so a refusal never fails. A
 * reference to an engine's static future is a reference to the engine.
 */
#include "engine/ground/refusal.h"

#include "engine/engine.h"
#include "engine/ground/ground.h"

#define FUTURE_(name_, status_, text_)                                                             \
    {.waiters = FRY_SEALED, .references = FRY_FUTURE_STATIC, .status = (status_)},
#define ERROR_(name_, status_, text_) FRY_ERROR_STATIC(status_, text_),

static ferry_future refused_without_engine[] = {FRY_REFUSAL_MAP(FUTURE_)};
static fry_error errors[] = {FRY_REFUSAL_MAP(ERROR_)}; /* never written */

ferry_status fry_refusal_status(fry_refusal why)
{
    return errors[why].public_.status;
}

fry_error *fry_refusal_error(fry_refusal why)
{
    return &errors[why];
}

void fry_refusal_init(ferry_engine *engine)
{
    for (size_t i = 0; i < FRY_REFUSALS; i++) {
        engine->refused[i] = refused_without_engine[i];
        engine->refused[i].owner = &engine->owner;
    }
}

fry_refusal fry_refuse(ferry_engine *engine, fry_refusal why)
{
    fry_log_line(&engine->log, FERRY_LOG_WARNING, "refused: %s", errors[why].public_.message);
    return why;
}

ferry_future *fry_refusal_future(ferry_engine *engine, fry_refusal why)
{
    if (engine == NULL || why == FRY_REFUSED_FORKED)
        return &refused_without_engine[why];
    fry_engine_retain(engine);
    return &engine->refused[why];
}

fry_refusal fry_refusal_of(const ferry_future *future)
{
    const ferry_engine *engine = fry_engine_of(future);
    return (fry_refusal)(future - (engine != NULL ? engine->refused : refused_without_engine));
}
