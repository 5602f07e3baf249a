/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's functions, found at run time, for ferry_probe. Its headers stay in this folder; they may
 * be of another release than the library: what one of them lacks is NULL or declared here.
 */
#ifndef FRY_BENCH_RIVALS_NCCL_H
#define FRY_BENCH_RIVALS_NCCL_H

#include <nccl.h>
#include <stdbool.h>
#include <stdint.h>

#define NCCL_CALL_MAP(X)                                                                           \
    X(ncclGetVersion)                                                                              \
    X(ncclGetUniqueId)                                                                             \
    X(ncclGetLastError)                                                                            \
    X(ncclCommInitRankConfig)                                                                      \
    X(ncclCommFinalize)                                                                            \
    X(ncclCommDestroy)                                                                             \
    X(ncclCommAbort)                                                                               \
    X(ncclCommGetAsyncError)                                                                       \
    X(ncclGroupStart)                                                                              \
    X(ncclGroupEnd)                                                                                \
    X(ncclSend)                                                                                    \
    X(ncclRecv)

#define NCCL_FIELD_(name) __typeof__(&name) name;
typedef struct nccl_calls {
    NCCL_CALL_MAP(NCCL_FIELD_)
    /* Of 2.28.7 or so; NULL: not there, unlike all the others. */
    ncclResult_t (*ncclCommRevoke)(ncclComm_t, int);
} nccl_calls;
#undef NCCL_FIELD_

extern nccl_calls nccl;

/*
 * Once a process: the library that FERRY_NCCL names, or the one that the loader finds.
 *  is_named_only  the loader is not asked: its library is for another driver than this process's
 * False: there is none, and why; the reason lives as long as the process.
 */
bool nccl_find(bool is_named_only, const char **reason);

/* "ncclInvalidUsage". */
const char *nccl_result_name(ncclResult_t result);

#endif
