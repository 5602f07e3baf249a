/* SPDX-License-Identifier: Apache-2.0 */
/* Which host and which process this is, as another process can check it. The loop; may read /proc.
 */
#ifndef FRY_NET_HOST_H
#define FRY_NET_HOST_H

#include <stdbool.h>
#include <stdint.h>

#define FRY_HOST_BYTES 16

/*
 * The same for processes that can share memory and watch each other, and for no others: of one boot
 * of one kernel, one user, one net, pid, ipc and user namespace, and with one /dev/shm. Zeros: it
 * can't be told.
 */
void fry_host_identify(uint8_t host[FRY_HOST_BYTES]);

/* When a process was started, in the kernel's ticks since it booted; 0: it is not there, or can't
 * be seen. */
uint64_t fry_process_started(int64_t pid);

typedef enum fry_process_state {
    FRY_PROCESS_UNKNOWN, /* it may be there, and can't be looked at */
    FRY_PROCESS_RUNS,
    FRY_PROCESS_ENDING, /* its first thread is, or has ended and others have not */
    FRY_PROCESS_ENDED,  /* also if nobody has waited for it; whoever has its number is another */
} fry_process_state;

/* How the process that was started then is doing. */
fry_process_state fry_process_look(int64_t pid, uint64_t started);

typedef enum fry_process_result {
    FRY_PROCESS_IS_OWN,    /* this very process: there is nothing to watch */
    FRY_PROCESS_WATCHED,   /* *fd_p: readable once it has ended */
    FRY_PROCESS_GONE,      /* it has ended; whoever has its number now is another */
    FRY_PROCESS_UNWATCHED, /* the system refuses: errno */
} fry_process_result;

/* Watches a process that says of itself that it has this number and was started then. */
fry_process_result fry_process_watch(int64_t pid, uint64_t started, int *fd_p);

/*
 * Whether that process has ended, or is about to: it was told to exit, or was killed, and none of
 * its threads runs its program any more. Some time before the descriptor says so, if the machine is
 * busy. Only after its sockets were seen closed: until then threads of it may run.
 */
bool fry_process_is_ending(int64_t pid, uint64_t started);

/* Whether this kernel, and what it is run in, lets processes be watched at all. */
bool fry_process_can_watch(void);

#endif
