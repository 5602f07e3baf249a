/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for another thread that is in the middle of some steps and waits for nobody. That thread
 * may have lost its core, and may need this one's.
 */
#ifndef FRY_BASE_BACK_OFF_H
#define FRY_BASE_BACK_OFF_H

#include "base/lf.h"

#include <sched.h>

#define FRY_PAUSES_BEFORE_YIELD 64

/* Pauses after `tries` failed looks. */
static inline void fry_back_off(unsigned tries)
{
    if (tries < FRY_PAUSES_BEFORE_YIELD)
        fry_pause();
    else
        (void)sched_yield();
}

#endif
