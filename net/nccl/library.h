/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's functions, found at run time. */
#ifndef FRY_NET_NCCL_LIBRARY_H
#define FRY_NET_NCCL_LIBRARY_H

#include "base/fault.h"

#include <nccl.h>
#include <stdbool.h>
#include <stdint.h>

#define FRY_NCCL_FUNCTION_MAP(X)                                                                   \
    X(ncclGetVersion)                                                                              \
    X(ncclGetUniqueId)                                                                             \
    X(ncclGetErrorString)                                                                          \
    X(ncclGetLastError)                                                                            \
    X(ncclCommInitRankConfig)                                                                      \
    X(ncclCommAbort)                                                                               \
    X(ncclCommGetAsyncError)                                                                       \
    X(ncclGroupStart)                                                                              \
    X(ncclGroupEnd)                                                                                \
    X(ncclSend)                                                                                    \
    X(ncclRecv)

#define FRY_NCCL_FIELD_(name) __typeof__(&name) name;
typedef struct fry_nccl_functions {
    FRY_NCCL_FUNCTION_MAP(FRY_NCCL_FIELD_)
} fry_nccl_functions;
#undef FRY_NCCL_FIELD_

extern fry_nccl_functions fry_nccl;

/*
 * Loads NCCL, once a process; it is never closed, because its threads don't end. Returns its
 * version (22809 is 2.28.9); 0: it can't be used. *text_p says what there is or why not. Any
 * thread; may block.
 */
uint32_t fry_nccl_load(const char **text_p);

/* Says what NCCL has answered to a call on that communicator, or NULL. Returns FERRY_E_DEVICE. */
ferry_status fry_nccl_tell(fry_fault *fault, ncclResult_t result, const char *call,
                           ncclComm_t comm);

#endif
