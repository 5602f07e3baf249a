/* SPDX-License-Identifier: Apache-2.0 */
/* What programs that call the driver make, and how they hold devices back. */
#ifndef DRIVER_H
#define DRIVER_H

#include "program.h"

#include "tests/emu/emu.h"

static inline CUstream new_stream(unsigned flags)
{
    CUstream stream;
    OK(cuStreamCreate(&stream, flags));
    return stream;
}

#define NEW_STREAM new_stream(CU_STREAM_NON_BLOCKING)

static inline CUevent new_event(void)
{
    CUevent event;
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

static inline CUdeviceptr new_memory(size_t size_bytes)
{
    CUdeviceptr memory;
    OK(cuMemAlloc(&memory, size_bytes));
    return memory;
}

static inline void *new_pinned(size_t size_bytes)
{
    void *memory;
    OK(cuMemHostAlloc(&memory, size_bytes, CU_MEMHOSTALLOC_PORTABLE));
    return memory;
}

/* What stands in `before` now comes before what `after` is given from now on; a capture of the one
 * forks into the other so, and comes back from it. */
static inline void order(CUstream before, CUstream after)
{
    CUevent event = new_event();
    OK(cuEventRecord(event, before));
    OK(cuStreamWaitEvent(after, event, 0));
    OK(cuEventDestroy(event));
}

/* Nothing runs on the devices until it is released, where that is possible. */
static inline void hold(void)
{
    void (*function)(void) = EMU(emu_hold);
    if (function != NULL)
        function();
}

static inline void release(void)
{
    void (*function)(void) = EMU(emu_release);
    if (function != NULL)
        function();
}

#endif
