/* SPDX-License-Identifier: Apache-2.0 */
/* The module's own threads. They block all signals, which are for the program's threads. */
#ifndef FRY_GPU_CUDA_THREAD_H
#define FRY_GPU_CUDA_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* Starts a thread. False: the system refuses. name: at most 15 bytes, the kernel's limit. */
static inline bool fry_cuda_thread_start(pthread_t *thread, const char *name, void *(*run)(void *),
                                         void *arg)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    bool is_started = pthread_create(thread, NULL, run, arg) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (is_started)
        (void)pthread_setname_np(*thread, name);
    return is_started;
}

#endif
