/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeping on a 32-bit word. */
#ifndef FRY_BASE_FUTEX_H
#define FRY_BASE_FUTEX_H

#include <stdint.h>

/*
 * Sleeps while *word is `expected`, for timeout_ns at most (relative; negative: for ever). Returns
 * early for signals and for no reason.
 */
void fry_futex_wait(const uint32_t *word, uint32_t expected, int64_t timeout_ns);

/* Wakes up to `count` threads that sleep on the word, whose memory may be gone already. */
void fry_futex_wake(const uint32_t *word, int32_t count);

#endif
