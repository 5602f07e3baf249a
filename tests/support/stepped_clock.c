/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/stepped_clock.h"

#include <stdio.h>
#include <stdlib.h>

static int64_t stepped_now_ns(void *arg)
{
    stepped_clock *sc = arg;
    return atomic_load(&sc->now_ns);
}

void stepped_clock_init(stepped_clock *sc, int64_t start_ns)
{
    atomic_init(&sc->now_ns, start_ns);
}

ferry_clock stepped_clock_interface(stepped_clock *sc)
{
    return (ferry_clock){.now_ns = stepped_now_ns, .arg = sc};
}

void stepped_clock_step(stepped_clock *sc, int64_t ns)
{
    if (ns < 0) {
        (void)fputs("stepped_clock_step: a test steps its clock back\n", stderr);
        abort();
    }
    atomic_fetch_add(&sc->now_ns, ns);
}
