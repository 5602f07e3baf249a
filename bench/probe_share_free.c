/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share-free: the owner frees memory that another process has open. Does that return, does the
 * reader still read the old bytes, and does what the owner allocates next get into the reader's
 * sight, or the reader's writing into what the owner has next?
 *
 * share-offset: what a handle means of a pointer in the middle of an allocation, or of a small one
 * that shares its block with a neighbour; whether memory can be opened twice in one process.
 */
#include "bench/probe_share.h"

#include <inttypes.h>
#include <math.h>

#define MEMORY_BYTES ((size_t)67108864)
#define SMOKE_BYTES ((size_t)4194304)
#define OLD 0x01d01d01U
#define NEW 0x0e30e30eU
#define WRITTEN 0x317e317eU
#define AGAIN 4 /* allocations, one of which may get the old place */

static struct {
    probe_child owner;
    CUstream stream;
    size_t size_bytes;
} rig;

static void open_rig(void)
{
    rig.stream = probe_stream(0);
    rig.size_bytes = probe.is_smoke ? SMOKE_BYTES : MEMORY_BYTES;
}

static int64_t free_mib(void)
{
    size_t free_bytes = 0, all_bytes = 0;
    PROBE_CALL(cuMemGetInfo, &free_bytes, &all_bytes);
    return (int64_t)(free_bytes >> 20);
}

/* ---- share-free ---- */

/* False: the owner's call stands until the memory is closed here, which it is then. */
static bool free_there(CUdeviceptr memory)
{
    probe_message message = {.order = SHARE_FREE};
    int64_t took_ns;
    probe_tell(&rig.owner, &message);
    if (probe_hear(&rig.owner, &message, INT64_C(1000000000))) {
        share_row("free-returns", message.took_ns, (CUresult)message.result);
        return true;
    }
    (void)share_close(memory, &took_ns);
    bool is_heard = probe_hear(&rig.owner, &message, PROBE_ANSWER_NS);
    probe_row("free-returns", NAN, "", PROBE_NO, "%s",
              is_heard ? "it stands until the memory is closed" : "nor when the memory is closed");
    return false;
}

static void look_for_new(CUdeviceptr memory, CUdeviceptr old)
{
    CUresult result;
    bool is_old_place = false, is_seen = false, is_reached = false;
    for (uint32_t i = 0; i < AGAIN; i++) {
        probe_message made = share_ask(&rig.owner, SHARE_AGAIN, NEW + i, 0);
        is_old_place = is_old_place || made.address == old;
        is_seen = is_seen || share_read(memory, rig.stream, &result) != OLD;
        probe_fill(memory, WRITTEN, rig.stream);
        PROBE_CALL(cuStreamSynchronize, rig.stream);
        probe_message read = share_ask(&rig.owner, SHARE_READ, 0, 0);
        is_reached = is_reached || read.word != NEW + i;
        probe_fill(memory, OLD, rig.stream);
        PROBE_CALL(cuStreamSynchronize, rig.stream);
    }
    probe_row("freed-new-unseen", NAN, "", is_seen ? PROBE_NO : PROBE_YES,
              "what the owner allocated next, %s",
              is_old_place ? "one at the old address" : "elsewhere");
    probe_row("freed-new-untouched", NAN, "", is_reached ? PROBE_NO : PROBE_YES,
              "by what this process wrote to the old memory");
}

void probe_share_free(const probe_case *which)
{
    CUresult result;
    int64_t took_ns;
    (void)which;
    rig.owner = probe_peer_start("share-owner");
    probe_gpu_open();
    if (!share_is_there("free"))
        return;
    open_rig();
    probe_message made = share_ask(&rig.owner, SHARE_MAKE, OLD, rig.size_bytes);
    CUdeviceptr memory = share_open(&made, &result);
    probe_check("cuIpcOpenMemHandle", result);
    uint32_t word = share_read(memory, rig.stream, &result);
    share_row_word("free-before", result, word, OLD, "what the owner wrote");
    int64_t before_mib = free_mib();
    if (!free_there(memory))
        return;
    int64_t freed_mib = free_mib() - before_mib;
    word = share_read(memory, rig.stream, &result);
    share_row_word("freed-old-read", result, word, OLD, "what the owner wrote before it freed");
    probe_row("freed-at-close", (double)freed_mib, "MiB", freed_mib == 0 ? PROBE_YES : PROBE_NO,
              "more free memory once the owner freed %zu MiB", rig.size_bytes >> 20);
    look_for_new(memory, made.address);
    before_mib = free_mib();
    result = share_close(memory, &took_ns);
    share_row("freed-close", took_ns, result);
    probe_row("freed-close-gives", (double)(free_mib() - before_mib), "MiB", PROBE_YES,
              "more free memory at the close");
    (void)share_open(&made, &result);
    probe_row("freed-opens-no-more", NAN, "", result == CUDA_SUCCESS ? PROBE_NO : PROBE_YES, "%s",
              driver_error_name(result));
    share_row("freed-healthy", 0, share_health(rig.stream));
}

/* ---- share-offset ---- */

static size_t tell_range(const char *shape, CUdeviceptr memory, CUdeviceptr *base_p)
{
    size_t range_bytes = 0;
    *base_p = memory;
    if (driver.cuMemGetAddressRange == NULL) {
        probe_row_absent(shape, "cuMemGetAddressRange");
        return 0;
    }
    CUresult result = driver.cuMemGetAddressRange(base_p, &range_bytes, memory);
    probe_row(shape, (double)range_bytes, "B", result == CUDA_SUCCESS ? PROBE_YES : PROBE_NO,
              "the range, from %" PRIu64 " B before the pointer on; %s",
              (uint64_t)(memory - *base_p), driver_error_name(result));
    return range_bytes;
}

/* The owner's words are at the ends: what a handle of the middle opens shows where it points. */
static void try_middle(size_t offset)
{
    CUresult result;
    CUdeviceptr base;
    int64_t took_ns;
    probe_message inside = share_ask(&rig.owner, SHARE_INSIDE, 0, offset);
    CUdeviceptr memory = share_open(&inside, &result);
    probe_row("middle-opens", NAN, "", result == CUDA_SUCCESS ? PROBE_YES : PROBE_NO,
              "the handle of a pointer %zu B inside: %s", offset, driver_error_name(result));
    if (result != CUDA_SUCCESS)
        return;
    uint32_t word = share_read(memory, rig.stream, &result);
    share_row_word("middle-is-base", result, word, OLD, "the word there, first of the allocation");
    (void)tell_range("middle-range", memory, &base);
    (void)share_close(memory, &took_ns);
}

static void try_twice(const probe_message *made)
{
    CUresult first_result, second_result, result;
    int64_t took_ns;
    CUdeviceptr first = share_open(made, &first_result);
    int64_t begin_ns = bench_now_ns();
    CUdeviceptr second = share_open(made, &second_result);
    share_row("twice-opens", bench_now_ns() - begin_ns, second_result);
    if (first_result != CUDA_SUCCESS || second_result != CUDA_SUCCESS)
        return;
    probe_row("twice-same-address", NAN, "", first == second ? PROBE_YES : PROBE_NO, "%s", "");
    result = share_close(second, &took_ns);
    share_row("twice-close-one", took_ns, result);
    uint32_t word = share_read(first, rig.stream, &result);
    share_row_word("twice-reads-on", result, word, OLD, "when one of two is closed");
    if (result == CUDA_SUCCESS)
        share_row("twice-close-both", took_ns, share_close(first, &took_ns));
}

/* Whoever may read the first may read its neighbour, too: what is shared is the block. */
static void try_small(void)
{
    CUresult result;
    CUdeviceptr base;
    probe_message small = share_ask(&rig.owner, SHARE_SMALL, NEW, 0);
    CUdeviceptr memory = share_open(&small, &result);
    probe_row("small-opens", NAN, "", result == CUDA_SUCCESS ? PROBE_YES : PROBE_NO, "%s",
              driver_error_name(result));
    if (result != CUDA_SUCCESS)
        return;
    size_t range_bytes = tell_range("small-range", memory, &base);
    uint32_t word = share_read(memory, rig.stream, &result);
    share_row_word("small-is-itself", result, word, NEW, "the word where a small one is opened");
    if (small.size_bytes == 0 || small.size_bytes > ((size_t)2 << 20))
        return;
    /* The driver would take an address past the range for one of the process's own memory. */
    if (memory + small.size_bytes >= base + range_bytes) {
        probe_row("small-neighbour-hidden", (double)small.size_bytes, "B", PROBE_YES,
                  "the next allocation, so far behind the first, is out of the range");
        return;
    }
    word = share_read(memory + small.size_bytes, rig.stream, &result);
    probe_row("small-neighbour-hidden", (double)small.size_bytes, "B",
              result == CUDA_SUCCESS && word == NEW + 1 ? PROBE_NO : PROBE_YES,
              "the next allocation, so far behind the first: %s", driver_error_name(result));
}

void probe_share_offset(const probe_case *which)
{
    (void)which;
    rig.owner = probe_peer_start("share-owner");
    probe_gpu_open();
    if (!share_is_there("offset"))
        return;
    open_rig();
    probe_message made = share_ask(&rig.owner, SHARE_MAKE, OLD, rig.size_bytes);
    try_middle(rig.size_bytes / 2);
    try_twice(&made);
    try_small();
}
