/* SPDX-License-Identifier: Apache-2.0 */
/* What the cases share that ask NCCL: its communicators are non-blocking unless a case says so. */
#ifndef FRY_BENCH_PROBE_NCCL_H
#define FRY_BENCH_PROBE_NCCL_H

#include "bench/probe_peer.h"
#include "bench/rivals/nccl.h"

#define NCCL_JOIN_NS INT64_C(8000000000)
#define NCCL_SETTLE_NS INT64_C(4000000000)

/* Finds NCCL. False, and a row without an answer: there is none. */
bool nccl_is_there(const char *shape);

/* The same, and opens the GPU. */
bool nccl_open(const char *shape);

/* A call that has to succeed. */
void nccl_check(const char *call, ncclResult_t result);

ncclUniqueId nccl_id(void);

typedef struct nccl_joined {
    ncclComm_t comm;
    ncclResult_t result; /* ncclInProgress: the limit came first */
    int64_t call_ns;     /* until the call returned */
    int64_t ready_ns;    /* until it was known how it ended */
} nccl_joined;

nccl_joined nccl_join(const ncclUniqueId *id, int ranks, int rank, bool is_blocking,
                      int64_t limit_ns);

/* A communicator of one rank, which sends to itself. One that is not made ends this process. */
ncclComm_t nccl_alone(bool is_blocking);

/* Until nothing of it is in progress. ncclInProgress: the limit came first. */
ncclResult_t nccl_settle(ncclComm_t comm, int64_t limit_ns);

/* A group of one send and one receive, each of size_bytes, to and from that rank; 0 for either is
 * none. Its result is ncclGroupEnd's, or of what failed before. */
ncclResult_t nccl_group(ncclComm_t comm, int rank, CUdeviceptr dst, CUdeviceptr src,
                        size_t size_bytes, CUstream stream);

/* The answer is whether it succeeded, the note its error and what NCCL says of it. */
void nccl_row(const char *shape, int64_t took_ns, ncclResult_t result);

/* Until the stream is empty: CUDA_ERROR_NOT_READY: the limit came first. */
CUresult nccl_drain(CUstream stream, int64_t limit_ns);

#endif
