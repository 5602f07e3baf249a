/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups, and what is called in them. A call outside of any is a group of its own. What a group
 * has is done at its outer end: by the calling thread for communicators that block, else by one of
 * its own.
 */
#include "tests/emu/nccl_comm.h"
#include "tests/emu/nccl_kernel.h"
#include "tests/emu/nccl_script.h"

#include <stdlib.h>
#include <string.h>

#define CONFIG_MAGIC 0xcafebeefU

/* A communicator to be made. */
typedef struct join {
    ncclComm_t comm;
    ncclComm_t *comm_p; /* the caller's */
} join;

typedef struct group {
    int depth;
    ncclResult_t error; /* the first of a call in it: nothing of it is done */
    bool has_kind, is_blocking;
    emu_nccl_plan *plans;
    size_t plan_count;
    join *joins;
    size_t join_count;
    int64_t begin_ns; /* of its doing */
} group;

static _Thread_local group mine;

/* One more at the end of an array; the array is as long as it has items. */
static void *grow(void *array, size_t count, size_t item_bytes)
{
    array = realloc(array, (count + 1) * item_bytes);
    if (array == NULL)
        abort();
    memset((char *)array + count * item_bytes, 0, item_bytes);
    return array;
}

static void free_plans(group *group)
{
    for (size_t i = 0; i < group->plan_count; i++) {
        emu_nccl_plan *const plan = &group->plans[i];

        for (size_t j = 0; j < plan->stream_count; j++)
            emu_outside_drop_stream(plan->streams[j]);
        free(plan->streams);
        free(plan->pieces);
        free(plan->sums);
        emu_nccl_comm_drop(plan->comm);
    }
    free(group->plans);
    free(group->joins);
    *group = (struct group){0};
}

/* ---- What is in it -------------------------------------------------------------------------- */

static ncclResult_t note_kind(ncclComm_t comm, bool is_blocking)
{
    if (mine.has_kind && mine.is_blocking != is_blocking)
        return emu_nccl_error(comm, ncclInvalidArgument,
                              "Blocking and nonblocking communicators in the same group");
    mine.has_kind = true;
    mine.is_blocking = is_blocking;
    return ncclSuccess;
}

/* The group's for the communicator, which is this thread's until the group ends. */
static ncclResult_t find_plan(ncclComm_t comm, const char *name, emu_nccl_plan **plan_p)
{
    ncclResult_t result = emu_nccl_comm_enter(comm, name);

    if (result != ncclSuccess)
        return result;
    for (size_t i = 0; i < mine.plan_count; i++) {
        if (mine.plans[i].comm == comm) {
            emu_nccl_comm_leave(comm);
            *plan_p = &mine.plans[i];
            return ncclSuccess;
        }
    }
    result = note_kind(comm, comm->is_blocking);
    if (result != ncclSuccess) {
        emu_nccl_comm_leave(comm);
        return result;
    }
    mine.plans = grow(mine.plans, mine.plan_count, sizeof *mine.plans);
    *plan_p = &mine.plans[mine.plan_count++];
    (*plan_p)->comm = comm;
    emu_nccl_comm_hold(comm);
    return ncclSuccess;
}

static ncclResult_t add_stream(emu_nccl_plan *plan, CUstream handle)
{
    int ordinal;
    CUstream stream;
    const CUresult result = emu_outside_stream(handle, &stream, &ordinal);

    if (result != CUDA_SUCCESS)
        return emu_nccl_error(plan->comm, ncclUnhandledCudaError, "Cuda failure %d: the stream",
                              (int)result);
    bool is_known = ordinal != plan->comm->device;
    for (size_t i = 0; i < plan->stream_count; i++)
        is_known |= plan->streams[i] == stream;
    if (is_known) {
        emu_outside_drop_stream(stream);
        if (ordinal != plan->comm->device)
            return emu_nccl_error(plan->comm, ncclUnhandledCudaError,
                                  "Cuda failure 400: the stream is of device %d, not %d", ordinal,
                                  plan->comm->device);
        return ncclSuccess;
    }
    plan->streams = grow(plan->streams, plan->stream_count, sizeof(CUstream));
    plan->streams[plan->stream_count++] = stream;
    return ncclSuccess;
}

static ncclResult_t add_piece(const char *name, ncclComm_t comm, emu_nccl_piece piece, size_t count,
                              ncclDataType_t type, CUstream stream)
{
    emu_nccl_plan *plan;
    ncclResult_t result = find_plan(comm, name, &plan);

    if (result != ncclSuccess)
        return result;
    piece.size_bytes = count * emu_nccl_type_bytes(type);
    if (piece.peer < 0 || piece.peer >= comm->ranks || emu_nccl_type_bytes(type) == 0 ||
        (piece.memory == NULL && count > 0))
        return emu_nccl_error(comm, ncclInvalidArgument, "%s: rank %d, type %d, memory %p", name,
                              piece.peer, (int)type, piece.memory);
    result = add_stream(plan, stream);
    if (result != ncclSuccess)
        return result;
    plan->pieces = grow(plan->pieces, plan->piece_count, sizeof *plan->pieces);
    plan->pieces[plan->piece_count++] = piece;
    return ncclSuccess;
}

static ncclResult_t add_sum(ncclComm_t comm, emu_nccl_sum sum, ncclRedOp_t operation,
                            CUstream stream)
{
    emu_nccl_plan *plan;
    ncclResult_t result = find_plan(comm, "ncclAllReduce", &plan);

    if (result != ncclSuccess)
        return result;
    if (operation != ncclSum || !emu_nccl_has_sum(sum.type) ||
        ((sum.src == NULL || sum.dst == NULL) && sum.count > 0))
        return emu_nccl_error(comm, ncclInvalidArgument, "the emulator has no such ncclAllReduce");
    result = add_stream(plan, stream);
    if (result != ncclSuccess)
        return result;
    plan->sums = grow(plan->sums, plan->sum_count, sizeof *plan->sums);
    plan->sums[plan->sum_count++] = sum;
    return ncclSuccess;
}

/* ---- Doing it ------------------------------------------------------------------------------- */

static ncclResult_t launch_plans(group *group)
{
    ncclResult_t result = ncclSuccess;

    for (size_t i = 0; i < group->plan_count && result == ncclSuccess; i++) {
        if (group->plans[i].stream_count > 0)
            result = emu_nccl_launch(&group->plans[i]);
    }
    return result;
}

static bool is_any_aborted(const group *group)
{
    bool is_any = false;

    for (size_t i = 0; i < group->plan_count; i++)
        is_any |= atomic_load(&group->plans[i].comm->is_aborted);
    return is_any;
}

static void *launch_beside(void *arg)
{
    group *const group = arg;
    ncclResult_t result;

    emu_outside_lock();
    while (!is_any_aborted(group) && emu_nccl_is_delayed(group->begin_ns))
        emu_nccl_nap();
    result = launch_plans(group);
    for (size_t i = 0; i < group->plan_count; i++) {
        const ncclComm_t comm = group->plans[i].comm;

        if (comm->state == ncclInProgress)
            comm->state = result;
        comm->is_working = false;
    }
    free_plans(group);
    emu_outside_unlock();
    free(group);
    return NULL;
}

/* The thread has the communicators no longer; the states say how it went. */
static void set_states(const group *group, ncclResult_t state, bool is_working)
{
    for (size_t i = 0; i < group->plan_count; i++) {
        group->plans[i].comm->state = state;
        group->plans[i].comm->is_working = is_working;
    }
}

static void leave_comms(const group *group)
{
    for (size_t i = 0; i < group->plan_count; i++)
        emu_nccl_comm_leave(group->plans[i].comm);
}

static ncclResult_t start_launching(group *group)
{
    struct group *job = malloc(sizeof *job);

    if (job == NULL)
        abort();
    set_states(group, ncclInProgress, true);
    leave_comms(group);
    *job = *group;
    job->begin_ns = emu_nccl_now_ns();
    *group = (struct group){0};
    if (emu_nccl_spawn(launch_beside, job))
        return ncclInProgress;
    set_states(job, emu_nccl_error(NULL, ncclSystemError, "no thread"), false);
    free_plans(job);
    free(job);
    return ncclSystemError;
}

static void drop_join(join *join)
{
    emu_nccl_comm_end(join->comm, EMU_NCCL_ABORTED);
    *join->comm_p = NULL;
}

static ncclResult_t do_joins(group *group)
{
    ncclResult_t result = ncclSuccess;

    for (size_t i = 0; i < group->join_count; i++)
        emu_nccl_comm_make(group->joins[i].comm);
    if (!group->is_blocking)
        return group->join_count > 0 ? ncclInProgress : ncclSuccess;
    for (size_t i = 0; i < group->join_count; i++) {
        const ncclComm_t comm = group->joins[i].comm;

        while (comm->is_making && !emu_outside_is_ending())
            emu_nccl_nap();
        if (result == ncclSuccess && comm->state != ncclInProgress)
            result = comm->state;
    }
    for (size_t i = 0; i < group->join_count && result != ncclSuccess; i++)
        drop_join(&group->joins[i]);
    return result;
}

/* Nothing of it is done. Who asks a communicator that does not block hears it there. */
static ncclResult_t give_up(group *group)
{
    const ncclResult_t error = group->error;

    if (!group->is_blocking) {
        set_states(group, error, false);
        for (size_t i = 0; i < group->join_count; i++)
            group->joins[i].comm->state = error;
    } else {
        for (size_t i = 0; i < group->join_count; i++)
            drop_join(&group->joins[i]);
    }
    leave_comms(group);
    free_plans(group);
    return error;
}

/* Gives the lock away while it waits. */
static ncclResult_t end_group(void)
{
    group now = mine;
    ncclResult_t result;

    if (--mine.depth > 0)
        return ncclSuccess;
    mine = (group){0};
    if (now.error != ncclSuccess)
        return give_up(&now);
    result = do_joins(&now);
    if (result == ncclSuccess && now.plan_count > 0 && !now.is_blocking)
        return start_launching(&now);
    if (result == ncclSuccess)
        result = launch_plans(&now);
    leave_comms(&now);
    free_plans(&now);
    return result;
}

/* The end of a call that is in a group, if only in its own. */
static ncclResult_t end_call(ncclResult_t result)
{
    ncclResult_t ended;

    if (result != ncclSuccess && mine.error == ncclSuccess)
        mine.error = result;
    ended = end_group();
    return emu_nccl_leave(result != ncclSuccess ? result : ended);
}

ncclResult_t ncclGroupStart(void)
{
    const ncclResult_t result = emu_nccl_enter(EMU_NCCL_CALL_ncclGroupStart);

    if (result != ncclSuccess)
        return result;
    mine.depth++;
    return emu_nccl_leave(ncclSuccess);
}

ncclResult_t ncclGroupEnd(void)
{
    const ncclResult_t result = emu_nccl_enter(EMU_NCCL_CALL_ncclGroupEnd);

    if (result != ncclSuccess)
        return result;
    if (mine.depth == 0)
        return emu_nccl_leave(
            emu_nccl_error(NULL, ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart"));
    return emu_nccl_leave(end_group());
}

/* ---- Calls ---------------------------------------------------------------------------------- */

ncclResult_t ncclSend(const void *memory, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    const ncclResult_t result = emu_nccl_enter(EMU_NCCL_CALL_ncclSend);

    if (result != ncclSuccess)
        return result;
    mine.depth++;
    return end_call(add_piece("ncclSend", comm, (emu_nccl_piece){true, peer, (void *)memory, 0},
                              count, type, (CUstream)stream));
}

ncclResult_t ncclRecv(void *memory, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    const ncclResult_t result = emu_nccl_enter(EMU_NCCL_CALL_ncclRecv);

    if (result != ncclSuccess)
        return result;
    mine.depth++;
    return end_call(add_piece("ncclRecv", comm, (emu_nccl_piece){false, peer, memory, 0}, count,
                              type, (CUstream)stream));
}

ncclResult_t ncclAllReduce(const void *src, void *dst, size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream)
{
    const ncclResult_t result = emu_nccl_enter(EMU_NCCL_CALL_ncclAllReduce);

    if (result != ncclSuccess)
        return result;
    mine.depth++;
    return end_call(
        add_sum(comm, (emu_nccl_sum){src, dst, count, type}, operation, (CUstream)stream));
}

/* As the runtime has it: without a context the thread is on device 0. */
static int current_device(void)
{
    CUdevice device = 0;

    return cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : 0;
}

static ncclResult_t add_join(ncclComm_t *comm_p, int ranks, const ncclUniqueId *id, int rank,
                             int device, bool is_blocking)
{
    ncclComm_t comm;
    ncclResult_t result = note_kind(NULL, is_blocking);

    if (result == ncclSuccess && comm_p == NULL)
        result = emu_nccl_error(NULL, ncclInvalidArgument, "no place for the communicator");
    if (result == ncclSuccess)
        result = emu_nccl_comm_new(&comm, ranks, id, rank, device, is_blocking);
    if (result != ncclSuccess)
        return result;
    mine.joins = grow(mine.joins, mine.join_count, sizeof *mine.joins);
    mine.joins[mine.join_count++] = (join){comm, comm_p};
    *comm_p = comm;
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm_p, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    const int device = current_device();
    const ncclResult_t result = emu_nccl_enter(EMU_NCCL_CALL_ncclCommInitRankConfig);

    if (result != ncclSuccess)
        return result;
    mine.depth++;
    if (config != NULL && config->magic != CONFIG_MAGIC)
        return end_call(emu_nccl_error(NULL, ncclInvalidArgument, "ncclConfig_t: not initialised"));
    return end_call(
        add_join(comm_p, ranks, &id, rank, device, config == NULL || config->blocking != 0));
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm_p, int ranks, ncclUniqueId id, int rank)
{
    const int device = current_device();
    const ncclResult_t result = emu_nccl_enter(EMU_NCCL_CALL_ncclCommInitRank);

    if (result != ncclSuccess)
        return result;
    mine.depth++;
    return end_call(add_join(comm_p, ranks, &id, rank, device, true));
}

ncclResult_t ncclCommInitAll(ncclComm_t *comms, int ranks, const int *devices)
{
    ncclUniqueId id;
    ncclResult_t result = ncclGetUniqueId(&id);

    if (result == ncclSuccess)
        result = emu_nccl_enter(EMU_NCCL_CALL_ncclCommInitAll);
    if (result != ncclSuccess)
        return result;
    mine.depth++;
    for (int i = 0; i < ranks && result == ncclSuccess; i++)
        result = add_join(&comms[i], ranks, &id, i, devices != NULL ? devices[i] : i, true);
    return end_call(result);
}
