/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/writable.h"

#include "engine/engine.h"
#include "engine/graph/node.h"
#include "engine/ground/context.h"
#include "engine/ground/ground.h"
#include "engine/ground/refusal.h"
#include "engine/loop/late.h"

ferry_future *ferry_engine_writable(ferry_engine *engine)
{
    fry_refusal why = fry_engine_refusal_open(engine);
    if (why != FRY_TAKEN)
        return fry_refusal_future(engine, why);
    fry_context *context = fry_context_get(engine);
    if (context == NULL)
        return fry_refusal_future(engine, FRY_REFUSED_NO_MEMORY);
    fry_node *node = fry_writable_get(engine, context, &why);
    fry_late_call_ends(engine);
    return node != NULL ? &node->future : fry_refusal_future(engine, why);
}
