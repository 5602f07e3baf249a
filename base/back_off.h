/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for another thread that is in the midst of some steps and waits for nobody. It may have
 * lost its core, and then looking on keeps this one's from it.
 */
#ifndef FRY_BASE_BACK_OFF_H
#define FRY_BASE_BACK_OFF_H

#include "base/lf.h"

#include <sched.h>

#define FRY_PAUSES_BEFORE_YIELD 64

/* After so many looks in vain. */
static inline void fry_back_off(unsigned tries)
{
    if (tries < FRY_PAUSES_BEFORE_YIELD)
        fry_pause();
    else
        (void)sched_yield();
}

#endif
