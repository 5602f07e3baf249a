/* SPDX-License-Identifier: Apache-2.0 */
/* What 2.28.9 has and 2.28.3 has not: part of the second library alone. */
#include "tests/emu/nccl_comm.h"
#include "tests/emu/nccl_script.h"

static void wait_for_kernels(ncclComm_t comm)
{
    while (comm->resident > 0 && !emu_outside_is_ending())
        emu_nccl_nap();
}

static void *wait_beside(void *arg)
{
    const ncclComm_t comm = arg;

    emu_outside_lock();
    wait_for_kernels(comm);
    if (comm->state == ncclInProgress)
        comm->state = ncclSuccess;
    comm->is_flushing = false;
    emu_nccl_comm_drop(comm);
    emu_outside_unlock();
    return NULL;
}

/* Also of a communicator that an error has: that is what it is for. */
static ncclResult_t revoke(ncclComm_t comm, int flags)
{
    if (flags != 0 || comm->is_making || comm->is_revoked)
        return emu_nccl_error(comm, ncclInvalidArgument, "ncclCommRevoke: flags %d", flags);
    comm->is_revoked = true;
    atomic_store(&comm->is_aborted, true);
    emu_outside_wake(); /* none of its kernels needs a slot any more */
    if (comm->is_blocking) {
        wait_for_kernels(comm);
        return ncclSuccess;
    }
    comm->is_flushing = true;
    comm->state = ncclInProgress;
    emu_nccl_comm_hold(comm);
    if (emu_nccl_spawn(wait_beside, comm))
        return ncclInProgress;
    comm->is_flushing = false;
    emu_nccl_comm_drop(comm);
    return comm->state = emu_nccl_error(comm, ncclSystemError, "no thread");
}

ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags)
{
    ncclResult_t result = emu_nccl_enter(EMU_NCCL_CALL_ncclCommRevoke);

    if (result != ncclSuccess)
        return result;
    result = emu_nccl_comm_find(comm, "ncclCommRevoke");
    return emu_nccl_leave(result == ncclSuccess ? revoke(comm, flags) : result);
}
