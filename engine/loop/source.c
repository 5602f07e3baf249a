/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/loop/source.h"

#include "engine/engine.h"
#include "engine/graph/lane.h"
#include "engine/messages/members.h"
#include "engine/observe/watchdog.h"

/*
 * One source's part in the functions of source.h. NULL: it never keeps the loop from sleeping that
 * way.
 */
typedef struct fry_source {
    bool (*arm)(fry_turn *turn);
    int64_t (*next_ns)(ferry_engine *engine);
    int64_t (*again_ns)(ferry_engine *engine, bool has_looked);
} fry_source;

static bool arm_lanes(fry_turn *turn)
{
    return fry_lanes_poll(turn) == 0;
}

static bool arm_members(fry_turn *turn)
{
    fry_members *members = fry_load_acquire(&turn->engine->members);
    return fry_likely(members == NULL) || fry_members_arm(turn, members);
}

static int64_t next_deadline_ns(ferry_engine *engine)
{
    return fry_timers_next_ns(&engine->deadlines);
}

static int64_t next_rate_ns(ferry_engine *engine)
{
    return fry_timers_next_ns(&engine->rates);
}

/*
 * In the order of a tick. Loops over the table are unrolled, so that the functions are called
 * directly.
 */
static const fry_source sources[] = {
    {.arm = arm_lanes, .next_ns = fry_lanes_next_look_ns},
    {.arm = arm_members, .next_ns = fry_members_next_ns, .again_ns = fry_members_again_ns},
    {.next_ns = next_deadline_ns},
    {.next_ns = next_rate_ns},
    {.next_ns = fry_watchdog_next_ns, .again_ns = fry_watchdog_again_ns},
};
#define SOURCES (sizeof sources / sizeof sources[0])

bool fry_sources_arm(fry_turn *turn)
{
#pragma GCC unroll 8
    for (size_t i = 0; i < SOURCES; i++) {
        if (sources[i].arm != NULL && !sources[i].arm(turn))
            return false;
    }
    return true;
}

int64_t fry_sources_next_ns(ferry_engine *engine)
{
    int64_t first_ns = INT64_MAX;
    engine->stamps_left = 0; /* the loop is about to rest, perhaps for long */
#pragma GCC unroll 8
    for (size_t i = 0; i < SOURCES; i++)
        first_ns = fry_sooner_ns(first_ns, sources[i].next_ns(engine));
    return first_ns;
}

int64_t fry_sources_again_ns(ferry_engine *engine, bool has_looked)
{
    int64_t first_ns = INT64_MAX;
#pragma GCC unroll 8
    for (size_t i = 0; i < SOURCES; i++) {
        if (sources[i].again_ns != NULL)
            first_ns = fry_sooner_ns(first_ns, sources[i].again_ns(engine, has_looked));
    }
    return first_ns;
}
