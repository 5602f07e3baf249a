/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/trace/trace_bell.h"

#include "base/futex.h"

fry_trace_bell fry_trace_the_bell;

void fry_trace_bell_ring(void)
{
    uint32_t state = fry_load_relaxed(&fry_trace_the_bell.state);
    if (state != FRY_TRACE_AWAKE && fry_cas(&fry_trace_the_bell.state, &state, FRY_TRACE_AWAKE))
        fry_futex_wake(&fry_trace_the_bell.state, 1);
}
