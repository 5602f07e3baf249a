/* SPDX-License-Identifier: Apache-2.0 */
/* What tests on a rig of group members say in one word. */
#ifndef FERRY_TESTS_GROUP_TEST_H
#define FERRY_TESTS_GROUP_TEST_H

#include "tests/support/group_rig.h"

#include <criterion/criterion.h>
#include <string.h>

static uint64_t group_seed; /* that is being tried; what fails says so */

/* A case of a suite that holds for seeds from 1 to SEEDS. */
#define SEEDED(suite_, name_)                                                                      \
    static void name_(uint64_t seed);                                                              \
    Test(suite_, name_, .timeout = 60)                                                             \
    {                                                                                              \
        for (group_seed = 1; group_seed <= SEEDS; group_seed++)                                    \
            name_(group_seed);                                                                     \
    }                                                                                              \
    static void name_(uint64_t seed)

#define GROUP_ASSERT(condition_, format_, ...)                                                     \
    cr_assert(condition_, "seed %llu: " format_, (unsigned long long)group_seed, __VA_ARGS__)

/* A rig whose members have joined, each of the rank that is its index. */
#define GROUP_JOINED(name_, count_, seed_)                                                         \
    GROUP_RIG(name_, count_, seed_);                                                               \
    rig_join_all(&(name_), 0, count_, false)

static inline bool is_joined(void *arg)
{
    return ((rig_member *)arg)->is_joined;
}

static inline bool is_fenced(void *arg)
{
    return ((rig_member *)arg)->is_fenced;
}

static inline void begin_join(group_rig *rig, size_t index, uint32_t size, int32_t rank)
{
    const fry_group_options options = rig_options(rig, index, size, rank);

    rig_join(rig, index, &options);
}

/* The same, for so long and no longer. */
static inline void begin_join_until(group_rig *rig, size_t index, uint32_t size, int32_t rank,
                                    uint32_t size_min, int64_t within_ns)
{
    fry_group_options options = rig_options(rig, index, size, rank);

    options.size_min = size_min;
    options.deadline_ns = fry_clock_now_ns(&rig->clock) + within_ns;
    rig_join(rig, index, &options);
}

static inline void expect_join(const group_rig *rig, size_t index, ferry_status status)
{
    const rig_member *member = &rig->members[index];

    GROUP_ASSERT(member->is_joined, "%zu has no answer", index);
    GROUP_ASSERT(member->status == status, "%zu: %s", index, member->message);
}

/* Its joining ends within so long, with the status. */
static inline void join_within(group_rig *rig, size_t index, int64_t limit_ns, ferry_status status)
{
    GROUP_ASSERT(rig_until(rig, is_joined, &rig->members[index], limit_ns), "%zu has no answer",
                 index);
    expect_join(rig, index, status);
}

/* ---- asks, each of the member with its index ---- */

#define NOBODY SIZE_MAX /* who is left out */

static inline void submit(group_rig *rig, size_t index, rig_ask *ask)
{
    fry_group_submit(rig->members[index].group, &ask->request);
}

/* Without anything else to be filled in. */
static inline void ask_for(group_rig *rig, size_t index, rig_ask *ask, fry_group_verb verb,
                           const char *name)
{
    rig_ask_begin(rig, index, ask, verb, name);
    submit(rig, index, ask);
}

/* They come to a barrier. */
static inline void come(group_rig *rig, rig_ask *asks, size_t first, size_t end, size_t but,
                        const char *name, int64_t within_ns)
{
    for (size_t i = first; i < end; i++) {
        if (i != but)
            rig_barrier(rig, i, &asks[i], name, within_ns);
    }
}

static inline void expect_answers(group_rig *rig, rig_ask *asks, size_t first, size_t end,
                                  size_t but, ferry_status status)
{
    for (size_t i = first; i < end; i++) {
        if (i != but)
            GROUP_ASSERT(rig_answer(rig, &asks[i]) == status, "%zu: %s", i, asks[i].message);
    }
}

/* Without waiting for them; has_text: what their messages have in them, or NULL. */
static inline void expect_done(const rig_ask *asks, size_t first, size_t end, size_t but,
                               ferry_status status, const char *has_text)
{
    for (size_t i = first; i < end; i++) {
        if (i == but)
            continue;
        GROUP_ASSERT(asks[i].is_done, "%zu", i);
        GROUP_ASSERT(asks[i].status == status, "%zu: %s", i, asks[i].message);
        GROUP_ASSERT(has_text == NULL || strstr(asks[i].message, has_text) != NULL, "%zu: %s", i,
                     asks[i].message);
    }
}

static inline void expect_none_done(const rig_ask *asks, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++)
        GROUP_ASSERT(!asks[i].is_done, "%zu", i);
}

/* They come, and that ends so for all. */
static inline void meet(group_rig *rig, size_t first, size_t end, size_t but, const char *name,
                        ferry_status status)
{
    rig_ask asks[RIG_MEMBERS_MAX];

    come(rig, asks, first, end, but, name, 0);
    expect_answers(rig, asks, first, end, but, status);
}

#endif
