/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When to look at a stream that nobody tells of (fry_stream.is_polled). What stands at its head is
 * looked at when it is nine tenths as old as such heads usually get, and if it has not fired then,
 * each time it has grown a twentieth older: so it is found late by at most 5 % of its time in
 * flight, within these two bounds of a step. A head that for once takes much less than others of
 * its sort is found when they would have been; its sort is then known to be as quick as that.
 */
#ifndef FRY_ENGINE_LOOK_H
#define FRY_ENGINE_LOOK_H

#include <stddef.h>
#include <stdint.h>

#define FRY_LOOK_STEP_MIN_NS 50000
#define FRY_LOOK_STEP_MAX_NS 1000000

/* Sorts of heads, by size: up to 4 KiB, 16 KiB, .. 4 GiB, and above; sort 0 also has no size. */
#define FRY_LOOK_SORTS 12

static inline size_t fry_look_sort(uint64_t size_bytes)
{
    size_t sort = 0;
    for (uint64_t bound = 4096; size_bytes > bound && sort < FRY_LOOK_SORTS - 1; bound *= 4)
        sort++;
    return sort;
}

/*
 * How old the head will be at the next look.
 *  age_ns    how old it is now
 *  usual_ns  how old such heads get; 0: not known
 */
static inline int64_t fry_look_at_age_ns(int64_t age_ns, int64_t usual_ns)
{
    if (age_ns < 0) /* a user's clock */
        age_ns = 0;
    int64_t first_ns = usual_ns / 10 * 9, step_ns = age_ns / 20;
    if (step_ns < FRY_LOOK_STEP_MIN_NS)
        step_ns = FRY_LOOK_STEP_MIN_NS;
    if (step_ns > FRY_LOOK_STEP_MAX_NS)
        step_ns = FRY_LOOK_STEP_MAX_NS;
    return first_ns > age_ns + FRY_LOOK_STEP_MIN_NS ? first_ns : age_ns + step_ns;
}

/* How old such heads get, now that one was found fired at that age. It follows the quick ones at
 * once and the slow ones slowly: to look too early costs a look, too late costs the user time. */
static inline int64_t fry_look_usual_ns(int64_t usual_ns, int64_t age_ns)
{
    if (usual_ns == 0 || age_ns < usual_ns)
        return age_ns > 0 ? age_ns : 0;
    return usual_ns + (age_ns - usual_ns) / 8;
}

#endif
