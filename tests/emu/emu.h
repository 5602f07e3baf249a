/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An emulated CUDA 13: libcuda.so.1 and libcudart.so.13 that run on CPUs alone, and what tests do
 * to them beyond CUDA. LD_LIBRARY_PATH=<build>/tests/emu/lib chooses them; the same binaries run on
 * a GPU without it. It shows logic, never speed. Its main worth is that it catches mistakes which
 * hardware would turn into wrong bytes, now and then.
 *
 * WHAT IS EMULATED. Devices of an H200's kind, with memory that is ordinary memory of the process
 * (so a test may look into it), contexts, streams, events, pinned and registered memory, memory
 * pools, copies (plain, two-dimensional, to peers, in batches), memsets, values written and waited
 * for, functions of the program's, kernels by name (kernel.h), captures and graphs. Each stream has
 * a thread that runs its operations in turn; streams run beside each other. At most 1024 operations
 * stand in a stream undone, or in a hardware queue where streams share them (FERRY_EMU_QUEUES): the
 * next call blocks until there is room, as with CUDA. A pool takes memory from its device in blocks
 * of 2 MiB. A copy of cuMemAlloc's memory on a stream of another context of the same device is
 * refused. A context that is destroyed takes what has not begun with it. Memory of cuMemAlloc and
 * events can be shared with other processes of the user that run on this emulator (ipc.c has the
 * rules). What a call waits for:
 *   - asynchronous copies from pageable memory return when it is staged, up to 64 KiB; above that,
 *     and into pageable memory, and from host to host, when they are done;
 *   - synchronous copies when they are done, but between devices at once, as are memsets;
 *   - cuMemFree, cuMemFreeHost and the last cuIpcCloseMemHandle of a range when the memory's
 *     context has nothing left to do;
 *   - a kernel's first launch, which loads it, likewise, unless a test holds something.
 * As the process exits the driver goes first, while other threads may still be there: its calls
 * give CUDA_ERROR_DEINITIALIZED, nothing more is done, and who touches memory of cuMemHostAlloc is
 * ended by a fault.
 *
 * WHAT IS CAUGHT. One line on stderr, "emu: caught WHAT: details", and abort(); with
 * FERRY_EMU_CATCH=count it is only counted.
 *   freed       an operation touches device or pinned memory that is not allocated, as it is
 *               issued or as it runs; memory is freed, closed or unregistered while an operation
 *               that touches it is not done, or, with cuMemFreeAsync, in no order before it
 *   unordered   an operation is issued while another is not done that touches the same bytes,
 *               one of them writes, and neither streams nor events order the two. Rows are taken
 *               exactly, and the copies of a batch stand in no order among each other (they run
 *               shuffled). Also memory that is used in no order behind its cuMemAllocAsync
 *   unrecorded  an event is queried, synchronised or waited for that was never recorded
 *   capture     what a capture forbids
 *   misuse      a handle that was destroyed; an event recorded on a stream of another context; a
 *               pointer that is not of the kind that the call demands; CUDA called in a function
 *               that a stream runs
 *   A call that blocked for room is not caught but counted: emu_counters.blocked.
 *
 * WHAT IT CANNOT SEE
 *   - The host's own reads and writes of memory.
 *   - Races with what is done already: two operations that nothing orders are caught if the first
 *     is not done when the second is issued. emu_hold makes that certain, many seeds make it
 *     likelier. Nor an order that the host makes by polling memory: what is done is no longer
 *     looked at. Copies and kernels count as undone until they are over, also where the host has
 *     polled their last byte; a written value is there when its operation is done, not earlier.
 *   - An order between streams that cuStreamWaitValue alone makes: what the waiting stream does
 *     counts as unordered while the writing stream's operations are not done.
 *   - What kernels touch that do not declare it (kernel.h).
 *   - Misuse that hardware allows for now, as of alignment, and how fast things are.
 *   - An order between processes, by events or otherwise: what two processes do with shared memory
 *     is never compared. Nor an order in one process that goes through another one.
 *   - Devices are each process's own: what is lost or held, full or busy is so in that one alone.
 * Not there: managed memory, arrays, virtual memory, external semaphores, memory pools that
 * processes share, cudaIpc*, the other names that calls have in programs compiled for per-thread
 * default streams. Allocations while a stream is captured give CUDA_ERROR_NOT_SUPPORTED.
 *
 * THE ENVIRONMENT, read when the library is loaded, or by cuInit:
 *   FERRY_EMU_DEVICES=n  devices, 1 to 8; 2 if not given; 0: cuInit says that there are none
 *   FERRY_EMU_VERSION=n  the driver is of that version, 13000 or older: 12080 is 12.8. It says so,
 *                        and functions that came later are not found
 *   FERRY_EMU_CATCH=count  catches are only counted
 *   FERRY_EMU_SEED=n     operations are delayed at random places, from this seed; 0: they are not
 *   FERRY_EMU_TIMING=1   copies take latency + bytes/bandwidth, and a device has few copy engines,
 *                        for which the priorities of streams decide; events, waits and numbers that
 *                        are written keep what is behind them waiting (timing.c)
 *   FERRY_EMU_LATE_US=n  emu_late_words, in microseconds
 *   FERRY_EMU_LOCKS=1    while a call waits for room in a stream, or to free memory, other threads'
 *                        calls that are about the same context wait with it
 *   FERRY_EMU_QUEUES=n   the streams of a context share n hardware queues for copies and n for all
 *                        else, 1 to 32 (channel.c); 0: each stream has one of its own
 *   FERRY_EMU_LAZY=1     the first copy of a form (plain, rows, batch) and direction (to devices,
 *                        to hosts, between devices or in one) waits until its context has nothing
 *                        left to do, unless a test holds something: as a kernel's first launch does
 *   FERRY_EMU_IPC=0      emu_set_ipc(false)
 *   FERRY_EMU_PEERS=0    devices have no access to each other's memory: cuDeviceCanAccessPeer says
 *                        so; copies between them work
 *   FERRY_EMU_SCRIPT     commands, with `;` between them:
 *     fail NAME NTH RESULT       emu_fail_call
 *     operation NTH RESULT       emu_fail_operation
 *     lose ORDINAL RESULT        emu_lose_device
 *     memory ORDINAL BYTES       emu_set_memory_limit
 *   and what emu_nccl.h says of the emulated NCCL.
 *
 * Programs find the functions below with dlsym, so that they also run where there is a real driver.
 * All of them: any thread, except functions that streams run; none blocks but emu_lose_device.
 */
#ifndef EMU_H
#define EMU_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * A device's range of addresses. Places are given out around so much of it as long as there is
 * room, and keep their pages: to touch a page for the first time costs as much as to copy twenty,
 * and ThreadSanitizer has four of shadow for each. Under AddressSanitizer they go around all of it,
 * and are new each time.
 */
#define EMU_ADDRESSES_BYTES ((uint64_t)64 << 30)
#ifdef __SANITIZE_ADDRESS__
#define EMU_AROUND_BYTES EMU_ADDRESSES_BYTES
#else
#define EMU_AROUND_BYTES ((uint64_t)64 << 20)
#endif

typedef enum emu_catch_kind {
    EMU_CATCH_FREED,
    EMU_CATCH_UNORDERED,
    EMU_CATCH_UNRECORDED,
    EMU_CATCH_CAPTURE,
    EMU_CATCH_MISUSE,
    EMU_CATCH_KINDS,
} emu_catch_kind;

/* Counted since the process began; `live` and `waiting` as it is now. */
typedef struct emu_counters {
    uint64_t blocked;        /* calls that waited for room in a stream or queue */
    uint64_t caught;         /* catches of all kinds */
    uint64_t operations;     /* operations that have completed */
    uint64_t waiting_copies; /* that wait for a copy engine */
    uint64_t live_contexts;  /* cuCtxCreate's; primary ones while they are retained */
    uint64_t live_streams;   /* those of cuStreamCreate */
    uint64_t live_events;
    uint64_t live_pools;        /* those of cuMemPoolCreate */
    uint64_t live_device_bytes; /* allocated, all devices together */
    uint64_t live_device_ranges;
    uint64_t live_pinned_bytes; /* also what is registered */
    uint64_t live_pinned_ranges;
    uint64_t live_registered_ranges; /* of those */
    uint64_t captured;               /* operations that captures took */
    uint64_t captured_joined;        /* of those, on streams that joined a capture */
    uint64_t capture_joins;          /* streams that joined one by waiting for a captured event */
    uint64_t live_modules, live_graphs; /* graphs and instantiated ones */
    uint64_t live_imports; /* what is to be closed of cuIpcOpenMemHandle's, each opening one */
    uint64_t live_import_ranges; /* that they have mapped; not in live_device_ranges */
    uint64_t freed_open;         /* allocations freed while another process had them open */
} emu_counters;

#pragma GCC visibility push(default)

/*
 * While held no stream begins an operation: queries say CUDA_ERROR_NOT_READY, and calls that wait
 * for what has not begun wait for the release. Counted: as many releases as holds.
 */
void emu_hold(void);
void emu_release(void);
/* The same for one stream; not counted. */
void emu_hold_stream(CUstream stream);
void emu_release_stream(CUstream stream);
/*
 * The next call of the first function holds as emu_hold does, and the next one of the second after
 * that releases, each before it does anything; names as in emu_fail_call. For what a test's thread
 * can't do between two calls of the program's. Gives CUDA_ERROR_NOT_FOUND likewise.
 */
CUresult emu_hold_between(const char *from, const char *to);
/* With the timing model: while held nobody who waits for a copy engine gets one. Not counted. */
void emu_hold_engines(void);
void emu_release_engines(void);

/*
 * Waits until no stream has an operation under way, or one that could begin; what is held, hangs,
 * or waits for such does not count, nor does a kernel of NCCL whose other end has not begun.
 * Returns emu_counters.operations.
 */
uint64_t emu_settle(void);

/*
 * The `nth` call from now (1 is the next, 0 every one) of the function of that name, as cuda.h has
 * it ("cuMemcpyAsync"), gives `result` and does nothing. CUDA_SUCCESS takes back what was said of
 * the name. Gives CUDA_ERROR_NOT_FOUND if there is no such function.
 */
CUresult emu_fail_call(const char *name, unsigned nth, CUresult result);
/*
 * From now on every call on the device's contexts gives `result`; nothing in flight completes or
 * touches memory any more. Waits for what is just being copied. CUDA_ERROR_INVALID_VALUE: there is
 * no such device, or `result` is CUDA_SUCCESS.
 */
CUresult emu_lose_device(int ordinal, CUresult result);
/*
 * Of the operations that touch memory or run something the `nth` issued from now (1 is the next)
 * raises `result` when its turn comes, as an illegal address does: its context gives that from then
 * on. 0: none.
 */
void emu_fail_operation(unsigned nth, CUresult result);
/*
 * What streams write by cuStreamWriteValue* is seen up to so much later than the stream is done
 * with it; one of eight words up to four times as much. Of each stream they come in order. 0: at
 * once. emu_settle waits for them.
 */
void emu_late_words(int64_t late_ns);
/* What is at the head of the stream never completes, nor does what comes behind it. */
void emu_hang_stream(CUstream stream);
/* The event never fires, however often it is recorded; what stands behind its records does. */
void emu_never_fire(CUevent event);
/*
 * The device has `size_bytes` of memory from now on; what is allocated stays.
 * CUDA_ERROR_INVALID_VALUE: there is no such device.
 */
CUresult emu_set_memory_limit(int ordinal, uint64_t size_bytes);

/*
 * False: from now on this process gives out and opens no handles (CUDA_ERROR_NOT_SUPPORTED), and
 * its devices say that they can't; what is open stays. What cuMemAlloc gives out meanwhile never
 * has a handle.
 */
void emu_set_ipc(bool allowed);

/* How often it was called, also without success; the name as in emu_fail_call. */
uint64_t emu_call_count(const char *name);
/* How often any was. */
uint64_t emu_call_total(void);
void emu_get_counters(emu_counters *counters);
/* How much of a kind was caught. */
uint64_t emu_caught(emu_catch_kind kind);
/* True: catches are only counted from now on; false: the next one ends the process. */
void emu_count_catches(bool only_count);

#pragma GCC visibility pop

#endif
