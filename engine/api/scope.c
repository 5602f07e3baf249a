/* SPDX-License-Identifier: Apache-2.0 */
/* Scopes, as their users see them: engine/graph/scope.c and scope_node.c have the argument. */
#include "engine/graph/scope_node.h"

#include "base/options.h"
#include "engine/engine.h"
#include "engine/ground/context.h"
#include "engine/ground/ground.h"
#include "engine/ground/refusal.h"
#include "engine/loop/late.h"

#define RATE_MAX ((uint64_t)1 << 60)
#define BURST_MAX_NS (3600 * 1000000000.0)
#define BURST_USUAL_NS 10000000

/* Sets what the options say. False: a field is out of its bounds. */
static bool limit(ferry_scope *scope, const ferry_scope_options *options)
{
    scope->deadline_ns = options->deadline_ns;
    if (options->bytes_per_second == 0)
        return options->burst_bytes == 0;
    if (options->bytes_per_second > RATE_MAX)
        return false;
    scope->byte_ns = 1e9 / (double)options->bytes_per_second;
    double burst_ns = (double)options->burst_bytes * scope->byte_ns;
    if (burst_ns > BURST_MAX_NS)
        return false;
    scope->burst_ns = options->burst_bytes == 0 ? BURST_USUAL_NS : (int64_t)burst_ns;
    scope->free_ns = fry_clock_now_ns(&scope->engine->clock) - scope->burst_ns;
    return true;
}

ferry_status ferry_scope_create(ferry_engine *engine, const ferry_scope_options *options,
                                ferry_scope **scope_p)
{
    ferry_scope_options read;
    ferry_status status = fry_engine_check_open(engine);
    if (status != FERRY_OK)
        return status;
    if (scope_p == NULL || fry_options_read(&read, sizeof read, options) != FERRY_OK)
        return FERRY_E_INVALID;
    fry_context *context = fry_context_get(engine);
    fry_refusal why = FRY_REFUSED_NO_MEMORY;
    ferry_scope *scope = context != NULL ? fry_scope_make(engine, context, &why) : NULL;
    if (scope == NULL)
        return fry_refusal_status(why);
    fry_engine_retain(engine); /* until its release */
    if (!limit(scope, &read)) {
        ferry_scope_release(scope);
        return FERRY_E_INVALID;
    }
    *scope_p = scope;
    return FERRY_OK;
}

static ferry_future *close_by(ferry_scope *scope, uint64_t bits)
{
    if (scope == NULL)
        return fry_refusal_future(NULL, FRY_REFUSED_SCOPE_NULL);
    ferry_engine *engine = scope->engine;
    fry_refusal why = fry_engine_refusal(engine);
    if (why != FRY_TAKEN)
        return fry_refusal_future(engine, why);
    ferry_future *future = ferry_future_retain(&scope->own->future);
    fry_scope_set(scope, fry_context_get(engine), bits);
    if ((bits & FRY_SCOPE_CANCELLED) != 0)
        (void)ferry_future_cancel(future);
    fry_late_call_ends(engine);
    return future;
}

ferry_future *ferry_scope_close(ferry_scope *scope)
{
    return close_by(scope, FRY_SCOPE_CLOSED);
}

ferry_future *ferry_scope_cancel(ferry_scope *scope)
{
    return close_by(scope, FRY_SCOPE_CLOSED | FRY_SCOPE_CANCELLED);
}

ferry_engine *ferry_scope_engine(const ferry_scope *scope)
{
    return scope != NULL ? scope->engine : NULL;
}

void ferry_scope_release(ferry_scope *scope)
{
    if (scope == NULL || fry_engine_check(scope->engine) != FERRY_OK)
        return;
    ferry_engine *engine = scope->engine;
    fry_scope_set(scope, fry_context_get(engine), FRY_SCOPE_RELEASED);
    fry_late_call_ends(engine);
    fry_engine_unretain(engine, 1); /* perhaps the last */
}
