/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo_part.h"

#include "tools/demo_ferry.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define JOIN_NS INT64_C(60000000000)
#define LEAVE_NS INT64_C(10000000000)

demo_part demo_part_of(const demo_options *options, size_t rank, const char *store)
{
    size_t count = options->processes;
    return (demo_part){.rank = rank,
                       .count = count,
                       .first = rank * options->stages / count,
                       .end = (rank + 1) * options->stages / count,
                       .store = store};
}

demo_part demo_part_whole(const demo_options *options)
{
    return (demo_part){.end = options->stages};
}

bool demo_part_is_last(const demo_part *part)
{
    return part->count == 0 || part->rank + 1 == part->count;
}

/* Waits, reports a failure, releases the future. */
static int finish(ferry_future *future, const char *label)
{
    (void)ferry_future_wait(future, -1);
    int result = demo_ferry_check(future, label);
    ferry_future_release(future);
    return result;
}

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int demo_part_join(demo_part *part, ferry_engine *engine)
{
    if (part->count == 0)
        return 0;
    ferry_group_options options = FERRY_GROUP_OPTIONS_INIT;
    options.store = part->store;
    options.job = "demo";
    options.size = (uint32_t)part->count;
    options.rank = (ferry_rank)part->rank;
    options.has_rank = true;
    options.deadline_ns = now_ns() + JOIN_NS;
    return finish(ferry_group_join(engine, &options, &part->group), "joining the other processes");
}

int demo_part_meet(const demo_part *part)
{
    if (part->count == 0)
        return 0;
    return finish(ferry_barrier(part->group, "round", NULL), "meeting the other processes");
}

int demo_part_share_rows(const demo_part *part, size_t *rows_p)
{
    if (part->count == 0)
        return 0;
    if (part->rank == 0)
        return finish(ferry_group_set(part->group, "rows", rows_p, sizeof(*rows_p), 0),
                      "telling how many rows there are");
    ferry_future *future = ferry_group_get(part->group, "rows", 0);
    ferry_value value = FERRY_VALUE_INIT;
    (void)ferry_future_wait(future, -1);
    int result = demo_ferry_check(future, "hearing how many rows there are");
    if (!result && ferry_future_value(future, &value) == FERRY_OK &&
        value.size_bytes == sizeof(*rows_p))
        memcpy(rows_p, value.data, sizeof(*rows_p));
    ferry_future_release(future);
    return result;
}

void demo_part_leave(demo_part *part)
{
    if (!part->group)
        return;
    ferry_future *left = ferry_group_leave(part->group);
    (void)ferry_future_wait(left, LEAVE_NS);
    ferry_future_release(left);
    ferry_group_release(part->group);
    part->group = NULL;
}
