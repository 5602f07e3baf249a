/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What members of a group share besides messages: barriers, values under keys, who is alive, and
 * one step after which all stop. Both members are in this process; each has an engine and a thread.
 */
#include <ferry/ferry.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { MEMBERS = 2 };

typedef struct member {
    ferry_rank rank;
    bool is_right;
    pthread_t thread;
} member;

static ferry_status end(ferry_future *future)
{
    ferry_status status = ferry_future_wait(future, -1);
    ferry_future_release(future);
    return status;
}

static ferry_status join(ferry_engine *engine, ferry_rank rank, ferry_group **group_p)
{
    ferry_group_options options = FERRY_GROUP_OPTIONS_INIT;
    options.store = "mem:members-agree";
    options.job = "members-agree";
    options.size = MEMBERS;
    options.rank = rank;
    options.has_rank = true;
    return end(ferry_group_join(engine, &options, group_p));
}

static ferry_status meet(ferry_group *group)
{
    ferry_barrier_options options = FERRY_BARRIER_OPTIONS_INIT;
    options.deadline_ns = ferry_engine_deadline_in(ferry_group_engine(group), 600000000000);
    return end(ferry_barrier(group, "together", &options));
}

/* Rank 0 sets a value; each member waits for it, looks at it, and hears of the next one. */
static bool share_values(ferry_group *group)
{
    ferry_value value = FERRY_VALUE_INIT;
    if (ferry_group_rank(group) == 0 &&
        end(ferry_group_set(group, "model/path", "/data/a", 7, 0)) != FERRY_OK)
        return false;
    ferry_future *got = ferry_group_get(group, "model/path", 0); /* waits until there is one */
    bool is_right = ferry_future_wait(got, -1) == FERRY_OK &&
                    ferry_future_value(got, &value) == FERRY_OK && value.size_bytes == 7 &&
                    memcmp(value.data, "/data/a", 7) == 0;
    uint64_t seen = value.version;
    ferry_future_release(got);

    is_right = is_right && end(ferry_barrier(group, "all-have-seen", NULL)) == FERRY_OK;
    if (ferry_group_rank(group) == 0)
        is_right = end(ferry_group_set(group, "model/path", "/data/b", 7, 0)) == FERRY_OK;
    ferry_status watched = end(ferry_group_watch(group, "model/path", seen, 0));
    ferry_status missing = end(ferry_group_try_get(group, "no/such/key", 0));
    return is_right && watched == FERRY_OK && missing == FERRY_E_NOT_FOUND;
}

/* What this member knows of another one, and which member has a device of the group's. */
static bool look_at_others(ferry_group *group)
{
    ferry_rank other = 1 - ferry_group_rank(group), owner = FERRY_RANK_NONE;
    ferry_member_info info = FERRY_MEMBER_INFO_INIT;
    uint32_t index = 0;
    if (ferry_group_member(group, other, &info) != FERRY_OK || info.state != FERRY_MEMBER_HERE)
        return false;
    printf("rank %u is on %s, process %lld, of %u members\n", other, info.host, (long long)info.pid,
           ferry_group_size(group));
    return ferry_group_device(group, info.first_device + 1, &owner, &index) == FERRY_OK &&
           owner == other && index == 1;
}

/* Steps until one member gives notice; both stop after the same step. Returns that step. */
static uint64_t run_steps(ferry_group *group)
{
    uint64_t step = 1;
    for (; ferry_group_stop_step(group) >= step; step++) {
        ferry_status status = end(ferry_group_step(group, step, 0));
        if (status != FERRY_OK || ferry_group_stop_step(group) < step)
            break;
        if (step == 10 && ferry_group_rank(group) == 1) /* its scheduler wants the machine */
            ferry_future_release(ferry_group_give_notice(group));
    }
    return step - 1;
}

/* A program's own NCCL collective, between pause and resume. Without NCCL both do nothing. */
static ferry_status run_collective(ferry_group *group)
{
    ferry_status status = end(ferry_group_nccl_pause(group, 0));
    /* ncclAllReduce(...), and cudaStreamSynchronize */
    ferry_status resumed = end(ferry_group_nccl_resume(group));
    return status == FERRY_OK ? resumed : status;
}

static void *run(void *arg)
{
    member *self = arg;
    ferry_engine *engine = NULL;
    ferry_group *group = NULL;
    if (ferry_engine_create(NULL, &engine, NULL) != FERRY_OK)
        return NULL;
    self->is_right = join(engine, self->rank, &group) == FERRY_OK && meet(group) == FERRY_OK &&
                     share_values(group) && look_at_others(group) &&
                     run_collective(group) == FERRY_OK && meet(group) == FERRY_OK;
    if (self->is_right) {
        uint64_t last = run_steps(group);
        self->is_right = last == ferry_group_stop_step(group);
        printf("rank %u stops after the agreed step\n", self->rank);
    }
    (void)end(ferry_group_leave(group));
    ferry_group_release(group);
    ferry_engine_release(engine);
    return NULL;
}

int main(void)
{
    member members[MEMBERS] = {{.rank = 0}, {.rank = 1}};
    int right = 0;
    for (int i = 0; i < MEMBERS; i++)
        if (pthread_create(&members[i].thread, NULL, run, &members[i]) != 0)
            return 1;
    for (int i = 0; i < MEMBERS; i++) {
        pthread_join(members[i].thread, NULL);
        right += members[i].is_right;
    }
    return right == MEMBERS ? 0 : 1;
}
