/* SPDX-License-Identifier: Apache-2.0 */
#include "net/ucx/guard.h"

#include <pthread.h>
#include <string.h>

void fry_ucx_guard_enter(fry_ucx_guard *guard)
{
    sigset_t all;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &guard->mask);
    (void)sigaltstack(NULL, &guard->stack);
    memset(guard->actions, 0, sizeof guard->actions);
    for (int number = 1; number < _NSIG; number++)
        (void)sigaction(number, NULL, &guard->actions[number]); /* the C library reserves two */
}

static bool is_same(const struct sigaction *a, const struct sigaction *b)
{
    return a->sa_handler == b->sa_handler && a->sa_flags == b->sa_flags;
}

void fry_ucx_guard_leave(const fry_ucx_guard *guard)
{
    for (int number = 1; number < _NSIG; number++) {
        struct sigaction now;
        if (sigaction(number, NULL, &now) == 0 && !is_same(&now, &guard->actions[number]))
            (void)sigaction(number, &guard->actions[number], NULL);
    }
    stack_t now;
    if (sigaltstack(NULL, &now) == 0 && now.ss_sp != guard->stack.ss_sp)
        (void)sigaltstack(&guard->stack, NULL);
    (void)pthread_sigmask(SIG_SETMASK, &guard->mask, NULL);
}
