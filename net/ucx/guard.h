/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protects the program from UCX: UCX's constructors, those of its modules and its initialisation
 * set signal handlers and a signal stack, and start threads, which must block all signals like
 * ferry's. Between enter and leave the calling thread blocks signals; leave restores the handlers
 * and the stack. A handler that another thread sets meanwhile may be lost.
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
