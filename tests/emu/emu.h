/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EMU_H
#define EMU_H

#include <cuda.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum emu_catch_kind {
    EMU_CATCH_FREED,      /* memory that is not allocated, or freed under an operation */
    EMU_CATCH_UNORDERED,  /* two operations on the same bytes in no order */
    EMU_CATCH_UNRECORDED, /* an event that was never recorded */
    EMU_CATCH_CAPTURE,    /* what a capture forbids */
    EMU_CATCH_MISUSE,     /* a handle or pointer that is not what the call demands */
    EMU_CATCH_KINDS,
} emu_catch_kind;

/* Counted since the process began, `live` as it is now. */
typedef struct emu_counters {
    uint64_t blocked;       /* calls that waited for room in a stream */
    uint64_t caught;        /* catches of all kinds */
    uint64_t operations;    /* operations that have completed */
    uint64_t live_contexts; /* cuCtxCreate's; primary ones while they are retained */
    uint64_t live_streams;  /* those of cuStreamCreate */
    uint64_t live_events;
    uint64_t live_pools;        /* those of cuMemPoolCreate */
    uint64_t live_device_bytes; /* allocated, all devices together */
    uint64_t live_device_ranges;
    uint64_t live_pinned_bytes;
    uint64_t live_pinned_ranges;
    uint64_t live_registered_ranges;
    uint64_t captured;        /* operations that captures took */
    uint64_t captured_joined; /* of those, on streams that joined a capture */
    uint64_t capture_joins;   /* streams that joined one by waiting for a captured event */
    uint64_t live_modules, live_graphs; /* graphs and instantiated ones */
} emu_counters;

#pragma GCC visibility push(default)

/* While held no stream begins an operation. Counted: as many releases as holds. Any thread. */
void emu_hold(void);
void emu_release(void);
void emu_hold_stream(CUstream stream);
void emu_release_stream(CUstream stream);

/*
 * Waits until no stream has an operation under way, or one that could begin; what is held, hangs,
 * or waits for such does not count. Returns emu_counters.operations.
 */
uint64_t emu_settle(void);

/*
 * The `nth` call from now (1 is the next, 0 every one) of the function of that name, as cuda.h has
 * it ("cuMemcpyAsync"), returns `result` and does nothing. CUDA_SUCCESS takes back what was said of
 * the name. CUDA_ERROR_NOT_FOUND: there is no such function.
 */
CUresult emu_fail_call(const char *name, unsigned nth, CUresult result);
/* From now on every call on the device's contexts gives `result`; nothing in flight completes. */
CUresult emu_lose_device(int ordinal, CUresult result);
/* The `nth` operation from now raises `result` when it runs; it is its context's from then on. */
void emu_fail_operation(unsigned nth, CUresult result);
/* Nothing in the stream begins any more. */
void emu_hang_stream(CUstream stream);
/* The event never fires, however often it is recorded. */
void emu_never_fire(CUevent event);
/* The device has so much memory from now on. */
CUresult emu_set_memory_limit(int ordinal, uint64_t size_bytes);

/* How often it was called; the name as in emu_fail_call. */
uint64_t emu_call_count(const char *name);
void emu_get_counters(emu_counters *counters);
/* How much of a kind was caught. */
uint64_t emu_caught(emu_catch_kind kind);
/* True: catches are counted, false: the first ends the process. */
void emu_count_catches(bool only_count);

#pragma GCC visibility pop

#endif
