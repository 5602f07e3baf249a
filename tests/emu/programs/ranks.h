/* SPDX-License-Identifier: Apache-2.0 */
/* What programs make that call NCCL: ranks in one process, each on a device of its own. */
#ifndef RANKS_H
#define RANKS_H

#include "driver.h"

#include <nccl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "tests/emu/emu_nccl.h"

#define RANKS_MOST 4

/* A communicator of a few ranks, the i-th on device devices[i]. */
typedef struct clique {
    int ranks;
    ncclComm_t comms[RANKS_MOST];
} clique;

static inline void use_device(int ordinal)
{
    static CUcontext contexts[RANKS_MOST];
    if (contexts[ordinal] == NULL)
        OK(cuDevicePrimaryCtxRetain(&contexts[ordinal], ordinal));
    OK(cuCtxSetCurrent(contexts[ordinal]));
}

static inline ncclResult_t settle(ncclComm_t comm)
{
    ncclResult_t state;
    do {
        OK(ncclCommGetAsyncError(comm, &state));
        (void)sched_yield();
    } while (state == ncclInProgress);
    return state;
}

/* All that stands is let be. */
static inline unsigned standing(void)
{
    return emu_nccl_standing();
}

static inline clique join(int ranks, const int *devices, bool is_blocking)
{
    clique made = {.ranks = ranks};
    ncclUniqueId id;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = is_blocking;
    OK(ncclGetUniqueId(&id));
    OK(ncclGroupStart());
    for (int i = 0; i < ranks; i++) {
        use_device(devices[i]);
        OK(ncclCommInitRankConfig(&made.comms[i], ranks, id, i, &config));
    }
    GIVES(ncclGroupEnd(), is_blocking ? ncclSuccess : ncclInProgress);
    for (int i = 0; i < ranks; i++)
        OK(settle(made.comms[i]));
    return made;
}

static inline void abort_all(const clique *which)
{
    for (int i = 0; i < which->ranks; i++)
        OK(ncclCommAbort(which->comms[i]));
}

static inline CUstream stream_on(int device)
{
    use_device(device);
    return NEW_STREAM;
}

/* Filled with that byte. */
static inline CUdeviceptr memory_on(int device, size_t size_bytes, int byte)
{
    use_device(device);
    CUdeviceptr memory = new_memory(size_bytes);
    OK(cuMemsetD8(memory, (unsigned char)byte, size_bytes));
    OK(cuCtxSynchronize());
    return memory;
}

/* On the emulator device memory can be looked into. */
static inline bool is_filled(CUdeviceptr memory, size_t size_bytes, int byte)
{
    const unsigned char *bytes = (const unsigned char *)(uintptr_t)memory;
    for (size_t i = 0; i < size_bytes; i++) {
        if (bytes[i] != (unsigned char)byte)
            return false;
    }
    return true;
}

static inline ncclResult_t send_bytes(CUdeviceptr src, size_t size_bytes, int peer, ncclComm_t comm,
                                      CUstream stream)
{
    return ncclSend((const void *)(uintptr_t)src, size_bytes, ncclUint8, peer, comm, stream);
}

static inline ncclResult_t recv_bytes(CUdeviceptr dst, size_t size_bytes, int peer, ncclComm_t comm,
                                      CUstream stream)
{
    return ncclRecv((void *)(uintptr_t)dst, size_bytes, ncclUint8, peer, comm, stream);
}

#endif
