/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The emulated NCCL's communicators. The driver's lock (outside.h) guards everything but what is
 * atomic; "with the lock" says that the caller holds it.
 */
#ifndef EMU_NCCL_COMM_H
#define EMU_NCCL_COMM_H

#include <nccl.h>

#include "tests/emu/nccl_region.h"
#include "tests/emu/outside.h"

#define EMU_NCCL_ERROR_BYTES 160
#define EMU_NCCL_NAP_NS 50000

/* One stays after it is gone, so that its use is told from garbage. */
struct ncclComm {
    struct ncclComm *next; /* of all */
    bool is_gone;          /* aborted or destroyed */
    bool is_finalised;
    bool is_revoked;
    bool is_blocking;
    bool is_making;   /* a thread waits for the others */
    bool is_working;  /* a thread has a group of it to launch */
    bool is_flushing; /* a thread waits for its kernels */
    int rank, ranks, device;
    ncclUniqueId id;
    emu_nccl_region *region; /* NULL: not yet, or not any more */
    int pidfds[EMU_NCCL_RANKS_MOST];
    unsigned references; /* of the region: the handle's, each kernel's, each thread's */
    unsigned kernels;    /* launched and not over */
    unsigned resident;
    ncclResult_t state;
    uint64_t owner;         /* the thread whose call or open group has it; 0: none */
    unsigned owned;         /* how often */
    emu_outside_place last; /* the newest kernel's; its stream is a reference, or NULL */
    _Atomic(bool) is_aborted;
    _Atomic(bool) is_stuck; /* a script's error: its kernels stand */
    char error[EMU_NCCL_ERROR_BYTES];
};

/* Makes one, in progress, and takes its rank. Without success there is none. With the lock. */
ncclResult_t emu_nccl_comm_new(ncclComm_t *comm_p, int ranks, const ncclUniqueId *id, int rank,
                               int device, bool is_blocking);
/*
 * Joins the others and has a thread wait for them, which says how it ended in `state` and clears
 * `is_making`. With the lock.
 */
void emu_nccl_comm_make(ncclComm_t comm);
/*
 * Nobody finds it any more; ABORTED: its kernels end. Gives the lock away while it waits for what
 * is just being done of it. With the lock.
 */
void emu_nccl_comm_end(ncclComm_t comm, emu_nccl_presence presence);
void emu_nccl_comm_hold(ncclComm_t comm); /* with the lock */
void emu_nccl_comm_drop(ncclComm_t comm); /* with the lock */

/* Whether it is one that is not gone; else the result, noted. With the lock. */
ncclResult_t emu_nccl_comm_find(ncclComm_t comm, const char *name);
/*
 * The call has the communicator: it is one, not gone, no other thread's, ready. Otherwise the
 * result, which is noted. With the lock.
 */
ncclResult_t emu_nccl_comm_enter(ncclComm_t comm, const char *name);
void emu_nccl_comm_leave(ncclComm_t comm); /* with the lock */

/* Notes what ncclGetLastError says, of the communicator too unless NULL; returns the result. */
ncclResult_t emu_nccl_error(ncclComm_t comm, ncclResult_t result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Gives the lock away for a moment. With the lock. */
void emu_nccl_nap(void);
/* Without waiting: whether the thread was made. */
bool emu_nccl_spawn(void *(*function)(void *), void *arg);

/* Whether one of this library's threads could go on. With the lock. */
bool emu_nccl_comms_are_busy(void);
unsigned emu_nccl_comms_kernels(void); /* with the lock */

#endif
