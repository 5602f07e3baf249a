/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/trace/bell.h"

#include "base/futex.h"

fry_bell fry_bell_of_process;

void fry_bell_ring(void)
{
    uint32_t state = fry_load_relaxed(&fry_bell_of_process.state);
    if (state != FRY_BELL_AWAKE && fry_cas(&fry_bell_of_process.state, &state, FRY_BELL_AWAKE))
        fry_futex_wake(&fry_bell_of_process.state, 1);
}
