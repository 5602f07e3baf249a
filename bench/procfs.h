/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel tells about the threads of this process. */
#ifndef FRY_BENCH_PROCFS_H
#define FRY_BENCH_PROCFS_H

#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define BENCH_THREADS_MAX 256

typedef struct bench_threads {
    pid_t ids[BENCH_THREADS_MAX];
    size_t count;
} bench_threads;

/* All threads there are now. */
void bench_threads_list(bench_threads *threads);

/* Takes out of `threads` those that are in `others` too. */
void bench_threads_subtract(bench_threads *threads, const bench_threads *others);

/* How often these threads were switched away from, by themselves or by the kernel. */
uint64_t bench_threads_switches(const bench_threads *threads);

/* What this process holds in memory. */
int64_t bench_rss_bytes(void);

/* Looks again and again until the kernel says that the thread sleeps; fails after a second. */
void bench_thread_await_sleep(pid_t id);

/* The CPUs that the calling thread may use; fails the bench if the kernel won't say. */
cpu_set_t bench_cpus_allowed(void);

/* Pins a thread (0: the calling one) to the nth of them; does nothing where there are fewer. */
void bench_thread_pin(pid_t id, const cpu_set_t *allowed, int nth);

#endif
