/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The identity of this host and of processes, as another process can check it. The loop; may read
 * /proc.
 */
#ifndef FRY_NET_CONNECT_PROCESS_H
#define FRY_NET_CONNECT_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#define FRY_MACHINE_BYTES 16

/*
 * The host's identity. It is the same for processes that can share memory and watch each other, and
 * for no others: one boot of one kernel, one user, one net, pid, ipc and user namespace, and one
 * /dev/shm. Zeros: unknown.
 */
void fry_machine_identify(uint8_t host[FRY_MACHINE_BYTES]);

/*
 * When a process was started, in the kernel's ticks since boot; 0: it does not exist, or can't be
 * seen.
 */
uint64_t fry_process_started(int64_t pid);

typedef enum fry_process_state {
    FRY_PROCESS_UNKNOWN, /* it may exist, and can't be looked at */
    FRY_PROCESS_RUNS,
    FRY_PROCESS_ENDING, /* its first thread is ending, or has ended while others have not */
    FRY_PROCESS_ENDED,  /* also if nobody has waited for it; a process with its number is another */
} fry_process_state;

/* State of the process with that number and start time. */
fry_process_state fry_process_look(int64_t pid, uint64_t started);

typedef enum fry_process_result {
    FRY_PROCESS_IS_OWN,    /* this very process: nothing to watch */
    FRY_PROCESS_WATCHED,   /* *fd_p: readable once it has ended */
    FRY_PROCESS_GONE,      /* it has ended; a process with its number is another */
    FRY_PROCESS_UNWATCHED, /* the system refuses: errno */
} fry_process_result;

/* Watches the process that claims this number and start time. */
fry_process_result fry_process_watch(int64_t pid, uint64_t started, int *fd_p);

/*
 * Whether the process has ended or is about to: it was told to exit or was killed, and none of its
 * threads runs its program any more. On a busy machine this is true some time before the descriptor
 * says so. Call it only after the process's sockets were seen closed: before that its threads may
 * run.
 */
bool fry_process_is_ending(int64_t pid, uint64_t started);

/* Whether this kernel, and the container it may run in, allow processes to be watched. */
bool fry_process_can_watch(void);

#endif
