/* SPDX-License-Identifier: Apache-2.0 */
/* A clock that stands still until the test steps it. Any thread. */
#ifndef FERRY_TESTS_STEPPED_CLOCK_H
#define FERRY_TESTS_STEPPED_CLOCK_H

#include <ferry/engine.h>
#include <stdatomic.h>

typedef struct stepped_clock {
    _Atomic int64_t now_ns;
} stepped_clock;

void stepped_clock_init(stepped_clock *sc, int64_t start_ns);

/* The clock to hand to ferry; sc stays in place while it is in use. */
ferry_clock stepped_clock_interface(stepped_clock *sc);

/* Moves time on by ns, which is not negative: the clock never goes back. */
void stepped_clock_step(stepped_clock *sc, int64_t ns);

#endif
