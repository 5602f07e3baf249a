/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When to look at a stream for which no thread reports (fry_stream.is_polled). The head is looked
 * at when it is nine tenths as old as such heads usually get, then each time it has become a
 * twentieth older. So it is found late by at most 5 % of its time in flight, within the two bounds
 * of a step below. A head that takes much less time than others of its sort is found when they
 * would have been; after that its sort counts as that quick.
 */
#ifndef FRY_ENGINE_GRAPH_LOOK_H
#define FRY_ENGINE_GRAPH_LOOK_H

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
 * The head's age at the next look. age_ns: its age now; usual_ns: the age that such heads reach; 0:
 * unknown.
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

/*
 * The usual age of such heads, after one was found fired at age_ns. It follows quick heads at once
 * and slow ones slowly: a look too early costs a look, a look too late costs the user time.
 */
static inline int64_t fry_look_usual_ns(int64_t usual_ns, int64_t age_ns)
{
    if (usual_ns == 0 || age_ns < usual_ns)
        return age_ns > 0 ? age_ns : 0;
    return usual_ns + (age_ns - usual_ns) / 8;
}

#endif
