/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/probe_nccl.h"

#include <math.h>
#include <sched.h>
#include <string.h>

bool nccl_is_there(const char *shape)
{
    const char *reason;
    bool is_emulated = strcmp(probe.device, BENCH_EMULATED) == 0;
    bool is_there = nccl_find(is_emulated, &reason);
    if (!is_there)
        probe_row(shape, NAN, "", PROBE_NONE, "%s", reason);
    return is_there;
}

bool nccl_open(const char *shape)
{
    bool is_there = nccl_is_there(shape);
    if (is_there)
        probe_gpu_open();
    return is_there;
}

void nccl_check(const char *call, ncclResult_t result)
{
    if (result != ncclSuccess)
        probe_fail("%s: %s: %s", call, nccl_result_name(result), nccl.ncclGetLastError(NULL));
}

ncclUniqueId nccl_id(void)
{
    ncclUniqueId id;
    nccl_check("ncclGetUniqueId", nccl.ncclGetUniqueId(&id));
    return id;
}

ncclResult_t nccl_settle(ncclComm_t comm, int64_t limit_ns)
{
    ncclResult_t state = ncclInProgress;
    int64_t end_ns = bench_now_ns() + limit_ns;
    for (;;) {
        ncclResult_t result = nccl.ncclCommGetAsyncError(comm, &state);
        if (result != ncclSuccess)
            return result;
        if (state != ncclInProgress || bench_now_ns() >= end_ns)
            return state;
        (void)sched_yield();
    }
}

nccl_joined nccl_join(const ncclUniqueId *id, int ranks, int rank, bool is_blocking,
                      int64_t limit_ns)
{
    nccl_joined joined = {.comm = NULL};
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = is_blocking;
    int64_t begin_ns = bench_now_ns();
    joined.result = nccl.ncclCommInitRankConfig(&joined.comm, ranks, *id, rank, &config);
    joined.call_ns = bench_now_ns() - begin_ns;
    if (joined.result == ncclInProgress)
        joined.result = nccl_settle(joined.comm, limit_ns);
    joined.ready_ns = bench_now_ns() - begin_ns;
    return joined;
}

ncclComm_t nccl_alone(bool is_blocking)
{
    ncclUniqueId id = nccl_id();
    nccl_joined joined = nccl_join(&id, 1, 0, is_blocking, NCCL_JOIN_NS);
    nccl_check("ncclCommInitRankConfig", joined.result);
    return joined.comm;
}

ncclResult_t nccl_group(ncclComm_t comm, int rank, CUdeviceptr dst, CUdeviceptr src,
                        size_t size_bytes, CUstream stream)
{
    ncclResult_t result = nccl.ncclGroupStart();
    if (result == ncclSuccess && src != 0)
        result =
            nccl.ncclSend((const void *)(uintptr_t)src, size_bytes, ncclUint8, rank, comm, stream);
    if (result == ncclSuccess && dst != 0)
        result = nccl.ncclRecv((void *)(uintptr_t)dst, size_bytes, ncclUint8, rank, comm, stream);
    ncclResult_t end_result = nccl.ncclGroupEnd();
    return result != ncclSuccess && result != ncclInProgress ? result : end_result;
}

void nccl_row(const char *shape, int64_t took_ns, ncclResult_t result)
{
    bool is_good = result == ncclSuccess;
    probe_row(shape, (double)took_ns, "ns", is_good ? PROBE_YES : PROBE_NO, "%s%s%s",
              is_good ? "" : nccl_result_name(result), is_good ? "" : ": ",
              is_good ? "" : nccl.ncclGetLastError(NULL));
}

CUresult nccl_drain(CUstream stream, int64_t limit_ns)
{
    CUresult result;
    int64_t end_ns = bench_now_ns() + limit_ns;
    do {
        result = driver.cuStreamQuery(stream);
    } while (result == CUDA_ERROR_NOT_READY && bench_now_ns() < end_ns);
    return result;
}
