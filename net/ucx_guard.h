/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps UCX from what is the program's: its constructors, those of its modules and its
 * initialisation put handlers on signals, a stack under them, and start threads, which are to block
 * all signals as ferry's do. Between enter and leave the calling thread blocks them; leave puts
 * handlers and stack back. Another thread that sets a handler meanwhile may lose it.
 */
#ifndef FRY_NET_UCX_GUARD_H
#define FRY_NET_UCX_GUARD_H

#include <signal.h>
#include <stdbool.h>

typedef struct fry_ucx_guard {
    sigset_t mask;
    stack_t stack;
    struct sigaction actions[_NSIG];
} fry_ucx_guard;

void fry_ucx_guard_enter(fry_ucx_guard *guard);
void fry_ucx_guard_leave(const fry_ucx_guard *guard);

#endif
