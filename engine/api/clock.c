/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's clock, as callers see it. */
#include "engine/engine.h"
#include "engine/ground/ground.h"

#include <ferry/engine.h>

int64_t ferry_engine_deadline_in(const ferry_engine *engine, int64_t from_now_ns)
{
    if (fry_engine_check(engine) != FERRY_OK)
        return 0;
    int64_t when_ns, now_ns = fry_clock_now_ns(&engine->clock);
    if (__builtin_add_overflow(now_ns, from_now_ns, &when_ns))
        when_ns = from_now_ns > 0 ? INT64_MAX : INT64_MIN;
    return when_ns != 0 ? when_ns : -1; /* 0 is no deadline. A moment earlier has passed, too */
}
