/* SPDX-License-Identifier: Apache-2.0 */
/* Names in dumps and in the watchdog's log. */
#include "engine/observe/dump_names.h"

#include "engine/engine.h"
#include "engine/graph/lane.h"
#include "engine/graph/node.h"
#include "engine/ground/ground.h"
#include "engine/observe/dump.h"

const char *fry_dump_mode_name(const ferry_engine *engine)
{
    return engine->attachment != NULL ? "attached" : engine->embedded ? "embedded" : "thread";
}

const char *fry_dump_state_name(uint8_t state)
{
    static const char *const names[] = {
        [FRY_NODE_NEW] = "new",       [FRY_NODE_WAITING] = "waiting",   [FRY_NODE_READY] = "ready",
        [FRY_NODE_ISSUED] = "issued", [FRY_NODE_RESOLVED] = "resolved", [FRY_NODE_QUIET] = "quiet",
    };
    return names[state];
}

const char *fry_dump_nature_name(uint8_t nature)
{
    static const char *const names[] = {
        [FRY_EDGE_AFTER] = "after",   [FRY_EDGE_READ] = "read",     [FRY_EDGE_ORDER] = "order",
        [FRY_EDGE_ANY] = "any",       [FRY_EDGE_ISSUED] = "issued", [FRY_EDGE_QUIET] = "quiet",
        [FRY_DUMP_BEFORE] = "before",
    };
    return names[nature];
}

const char *fry_dump_reason_name(uint8_t reason)
{
    static const char *const names[] = {
        [FRY_DUMP_NOTHING] = "",          [FRY_DUMP_OPERATIONS] = "operations",
        [FRY_DUMP_STREAM] = "stream",     [FRY_DUMP_DEVICE] = "device",
        [FRY_DUMP_MEMBER] = "member",     [FRY_DUMP_LOOP] = "loop",
        [FRY_DUMP_EXECUTOR] = "executor", [FRY_DUMP_FUNCTION] = "function",
        [FRY_DUMP_OUTSIDE] = "outside",   [FRY_DUMP_RATE] = "rate",
    };
    return names[reason];
}

const char *fry_dump_device_name(const ferry_engine *engine, uint16_t device)
{
    return device < fry_engine_device_count(engine) ? engine->devices[device].device->name : "";
}
