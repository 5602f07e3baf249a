/* SPDX-License-Identifier: Apache-2.0 */
/* Figures, as their users read them: engine/graph/tally.h. */
#include "base/options.h"
#include "engine/engine.h"
#include "engine/graph/scope.h"
#include "engine/graph/tally.h"
#include "engine/ground/ground.h"

#include <ferry/stats.h>

ferry_status ferry_stats_read(ferry_engine *engine, const ferry_scope *scope, ferry_stats *stats)
{
    if (stats == NULL || (engine == NULL && scope == NULL) ||
        (engine != NULL && scope != NULL && scope->engine != engine))
        return FERRY_E_INVALID;
    if (engine == NULL)
        engine = scope->engine;
    ferry_status status = fry_engine_check(engine);
    if (status != FERRY_OK)
        return status;
    if (engine->tally == NULL)
        return FERRY_E_UNSUPPORTED;
    ferry_stats read = {0};
    fry_tally_read(scope != NULL ? scope->tally : engine->tally, &read);
    return fry_struct_hand_out(stats, &read, sizeof read);
}
