/* SPDX-License-Identifier: Apache-2.0 */
/* The emulated NCCL's kernels: what a group has for one communicator, in a stream. */
#ifndef EMU_NCCL_KERNEL_H
#define EMU_NCCL_KERNEL_H

#include "tests/emu/nccl_comm.h"

/* What is to be moved. */
typedef struct emu_nccl_piece {
    bool is_send;
    int peer;
    void *memory;
    size_t size_bytes;
} emu_nccl_piece;

/* A sum over all ranks. */
typedef struct emu_nccl_sum {
    const void *src;
    void *dst;
    size_t count;
    ncclDataType_t type;
} emu_nccl_sum;

/* What a thread's group has for a communicator. */
typedef struct emu_nccl_plan {
    ncclComm_t comm;
    emu_nccl_piece *pieces;
    size_t piece_count;
    emu_nccl_sum *sums;
    size_t sum_count;
    CUstream *streams; /* references, each once */
    size_t stream_count;
} emu_nccl_plan;

size_t emu_nccl_type_bytes(ncclDataType_t type); /* 0: there is no such type */
bool emu_nccl_has_sum(ncclDataType_t type);

/* Into its streams. Gives the lock away where a stream has no room. With the lock. */
ncclResult_t emu_nccl_launch(const emu_nccl_plan *plan);

#endif
