/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An emulated NCCL 2.28.3: libnccl.so.2 beside the emulated driver, on whose streams it runs
 * (emu.h). nccl-2.28.9/libnccl.so.2 is of that version, and has ncclCommRevoke besides, which ends
 * this rank's kernels and leaves a communicator that can only be destroyed. Ranks are threads of
 * one process, or processes of one machine. It shows logic, never speed.
 *
 * WHAT IS EMULATED. Communicators (blocking or not), groups, ncclSend, ncclRecv, and ncclAllReduce
 * (sums of float, double, int32, uint8) as somebody else's collective.
 *   - What a group has for a communicator is one kernel, on the first of its streams there; the
 *     others wait for it. Kernels of a communicator run in the order in which they are launched.
 *   - A kernel is not over before the other ends of all that it sends and receives have begun and
 *     the bytes are there. Until then it is resident on its device. At most
 *     FERRY_EMU_NCCL_RESIDENT kernels are (of one process; not given: any number). The next one
 *     waits for a slot: of those whose turn has come in their streams, the one launched first.
 *   - Groups are per thread and nest. A group that a thread has open takes in all communicators'
 *     calls, and the making of communicators, until the outer end.
 *   - A communicator that does not block answers ncclInProgress, and a thread of its own does the
 *     rest after emu_nccl_delay: an event recorded at once covers nothing. Until it says so by
 *     ncclCommGetAsyncError, other calls give ncclInvalidArgument.
 *   - Two ranks on one device of one host are refused (ncclInvalidUsage) once all are there;
 *     NCCL_HOSTID, read once, makes hosts. What is sent to itself without a receive, or the other
 *     way round, is ncclInvalidUsage.
 *   - ncclCommAbort ends this rank's kernels, also those that have not begun, and the others'
 *     stand on. They hear nothing of it; of a rank whose process is gone they hear
 *     ncclRemoteError.
 *   - ncclCommFinalize and ncclCommDestroy wait for this rank's kernels.
 *
 * WHAT IS CAUGHT, as the driver's "misuse": a send and its receive of different sizes (both stand
 * for ever); a communicator that two threads use at once, one of them perhaps in an open group; one
 * that was finalised, aborted or destroyed; a stream that is gone when the group comes to it. The
 * driver itself catches memory that is freed and operations in no order.
 *
 * NOT THERE: other collectives, splitting and shrinking, groups in captures, the device memory that
 * communicators take, the calls that wait while one is made. Of several ranks' deadlocks
 * emu_nccl_standing tells only where all are in this process.
 *
 * THE ENVIRONMENT, read when the library is loaded:
 *   FERRY_EMU_NCCL_VERSION=n    what ncclGetVersion says, if not the truth
 *   FERRY_EMU_NCCL_RESIDENT=n   emu_nccl_resident
 *   FERRY_EMU_SCRIPT            also has, for this library:
 *     fail NAME NTH RESULT      emu_nccl_fail_call; NAME begins with nccl
 *     nccl_error NTH RESULT     emu_nccl_fail_kernel
 *     nccl_delay MICROSECONDS   emu_nccl_delay
 */
#ifndef EMU_NCCL_H
#define EMU_NCCL_H

#include <nccl.h>
#include <stdint.h>

#pragma GCC visibility push(default)

/* At most so many kernels are resident on a device from now on; 0: any number. */
void emu_nccl_resident(unsigned most);
/*
 * Between a call on a communicator that does not block and what is done of it. Negative: that waits
 * until this is called anew. 100 us if it never was.
 */
void emu_nccl_delay(int64_t delay_ns);
/*
 * Waits as emu_settle does, and until no thread of this library has something to do. Returns how
 * many kernels are launched and not over. If nothing is held, and no other process and no thread of
 * the program will do anything, these stand for ever.
 */
unsigned emu_nccl_standing(void);
/*
 * From now on a kernel on that device takes so long before any of its bytes move, so those that
 * exchange bytes with it take longer, too. 0 if it never was.
 */
void emu_nccl_kernel_time(int ordinal, int64_t time_ns);
/* How many kernels have begun on the device. */
unsigned emu_nccl_kernel_count(int ordinal);
/* How many are resident on the device. */
unsigned emu_nccl_resident_count(int ordinal);
/*
 * The `nth` call from now (1 is the next, 0 every one) gives `result` and does nothing; ncclSuccess
 * takes that back. ncclInvalidArgument: there is no function of that name.
 */
ncclResult_t emu_nccl_fail_call(const char *name, unsigned nth, ncclResult_t result);
/* The communicator says that from now on; its kernels stand until it is aborted. */
ncclResult_t emu_nccl_fail_comm(ncclComm_t comm, ncclResult_t result);
/* The same of the communicator of the `nth` kernel that begins from now (1 is the next); 0: none.
 */
void emu_nccl_fail_kernel(unsigned nth, ncclResult_t result);

#pragma GCC visibility pop

#endif
