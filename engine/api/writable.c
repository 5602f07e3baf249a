/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/writable.h"

#include "engine/context.h"
#include "engine/engine.h"
#include "engine/ground.h"
#include "engine/late.h"
#include "engine/node.h"
#include "engine/refusal.h"

ferry_future *ferry_engine_writable(ferry_engine *engine)
{
    fry_refusal why = fry_engine_refusal_open(engine);
    if (why != FRY_TAKEN)
        return fry_refused(engine, why);
    fry_context *context = fry_context_get(engine);
    if (context == NULL)
        return fry_refused(engine, FRY_REFUSED_NO_MEMORY);
    fry_node *node = fry_writable_get(engine, context, &why);
    fry_call_ends(engine);
    return node != NULL ? &node->future : fry_refused(engine, why);
}
