/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Static futures of refused calls: one for each reason in each engine, resolved from the start, and
 * one for each reason for calls without an engine. They need no memory, so a refusal never fails. A
 * reference to an engine's static future is a reference to the engine.
 */
#include "engine/ground/refusal.h"

#include "engine/engine.h"
#include "engine/ground/ground.h"

#define LOGGED_EACH 16 /* of a reason; then each time that the number has doubled */

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

/* A program that is refused again and again does not fill its log, and still hears of it. */
fry_refusal fry_refuse(ferry_engine *engine, fry_refusal why)
{
    const char *text = errors[why].public_.message;
    uint32_t count = fry_fetch_add(&engine->refusals[why], 1) + 1;
    if (count <= LOGGED_EACH)
        fry_log_line(&engine->log, FERRY_LOG_WARNING, "refused: %s", text);
    else if ((count & (count - 1)) == 0)
        fry_log_line(&engine->log, FERRY_LOG_WARNING, "refused (%u times by now): %s", count, text);
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
