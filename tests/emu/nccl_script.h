/* SPDX-License-Identifier: Apache-2.0 */
/* What tests say to the emulated NCCL. */
#ifndef EMU_NCCL_SCRIPT_H
#define EMU_NCCL_SCRIPT_H

#include <nccl.h>

#include <stdbool.h>
#include <stdint.h>

#define EMU_NCCL_CALLS(X)                                                                          \
    X(ncclGetVersion)                                                                              \
    X(ncclGetUniqueId)                                                                             \
    X(ncclCommInitRank)                                                                            \
    X(ncclCommInitRankConfig)                                                                      \
    X(ncclCommInitAll)                                                                             \
    X(ncclCommFinalize)                                                                            \
    X(ncclCommRevoke)                                                                              \
    X(ncclCommDestroy)                                                                             \
    X(ncclCommAbort)                                                                               \
    X(ncclCommGetAsyncError)                                                                       \
    X(ncclCommCount)                                                                               \
    X(ncclCommCuDevice)                                                                            \
    X(ncclCommUserRank)                                                                            \
    X(ncclGroupStart)                                                                              \
    X(ncclGroupEnd)                                                                                \
    X(ncclSend)                                                                                    \
    X(ncclRecv)                                                                                    \
    X(ncclAllReduce)

typedef enum emu_nccl_call {
#define CALL(name) EMU_NCCL_CALL_##name,
    EMU_NCCL_CALLS(CALL)
#undef CALL
        EMU_NCCL_CALL_COUNT,
} emu_nccl_call;

/* Takes the lock. Without ncclSuccess the call is over, and the lock is not held. */
ncclResult_t emu_nccl_enter(emu_nccl_call call);
ncclResult_t emu_nccl_leave(ncclResult_t result); /* gives it back */

/* All with the lock. */
unsigned emu_nccl_resident_most(void);
/* The scripted error of a kernel that begins now; ncclSuccess: none. */
ncclResult_t emu_nccl_kernel_error(void);
int64_t emu_nccl_now_ns(void);
/* Whether what was asked for then has to wait on. */
bool emu_nccl_is_delayed(int64_t since_ns);
/* Whether somebody waits there whom only a test lets go. */
bool emu_nccl_is_held(void);

#endif
