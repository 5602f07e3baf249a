/* SPDX-License-Identifier: Apache-2.0 */
#include "base/futex.h"

#include "base/eventcount.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if FRY_TSAN
uint32_t fry_tsan_fence;
#endif

void fry_futex_wait(const uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
    struct timespec relative = {.tv_sec = timeout_ns / 1000000000,
                                .tv_nsec = timeout_ns % 1000000000};
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, timeout_ns < 0 ? NULL : &relative,
                  NULL, 0);
}

void fry_futex_wake(const uint32_t *word, int32_t count)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

void fry_eventcount_commit(fry_eventcount *eventcount, uint32_t key, int64_t timeout_ns)
{
    if (fry_load_acquire(&eventcount->epoch) == key)
        fry_futex_wait(&eventcount->epoch, key, timeout_ns);
    (void)fry_fetch_sub(&eventcount->sleepers, 1);
}

void fry_eventcount_wake(fry_eventcount *eventcount, int32_t count)
{
    (void)fry_fetch_add(&eventcount->epoch, 1);
    fry_futex_wake(&eventcount->epoch, count);
}
