/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/observe/dump.h"

#include "engine/engine.h"
#include "engine/ground/context.h"
#include "engine/ground/ground.h"
#include "engine/loop/late.h"
#include "engine/observe/dump_dot.h"
#include "engine/observe/dump_json.h"

ferry_status ferry_engine_dump(ferry_engine *engine, ferry_dump_format format, ferry_write_fn write,
                               void *arg)
{
    ferry_status status = fry_engine_check(engine);
    if (status != FERRY_OK)
        return status;
    if (write == NULL || (format != FERRY_DUMP_JSON && format != FERRY_DUMP_DOT)) {
        fry_log_line(&engine->log, FERRY_LOG_WARNING,
                     "a dump is refused: write is NULL, or format is not a ferry_dump_format");
        return FERRY_E_INVALID;
    }
    fry_context *context = fry_context_get(engine);
    if (context == NULL)
        return FERRY_E_NO_MEMORY;
    if (!fry_baton_take(&engine->dumping))
        return FERRY_E_BUSY;
    /*
     * The pools have made no more nodes than this; without a limit, nodes that enter could keep it
     * going.
     */
    uint64_t limit =
        fry_load_relaxed(&engine->nodes.made) + fry_load_relaxed(&engine->reserve.made);
    fry_dump *dump = fry_dump_open(engine, context, limit, limit);
    if (dump != NULL) {
        fry_dump_print(dump, format == FERRY_DUMP_JSON ? &fry_dump_json : &fry_dump_dot, write,
                       arg);
        fry_dump_close(dump);
    }
    fry_baton_give(&engine->dumping);
    fry_late_call_ends(engine);
    return dump != NULL ? FERRY_OK : FERRY_E_NO_MEMORY;
}
