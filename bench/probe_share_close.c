/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share-close-busy: another process's memory is closed while the GPU is at work for this process:
 * with a kernel that has nothing to do with it; with a stream that waits for an event of the owner;
 * with a copy out of that memory. Does the call wait for it, does it fail, does it keep other
 * threads out of the driver, and is the copy whole afterwards? A process of its own closes, as the
 * last of these may end it.
 *
 * share-open-time: what opening and closing take, of memory that was never open here, and again and
 * again: how much is it worth to keep memory open?
 */
#include "bench/probe_share.h"

#include <math.h>
#include <stdio.h>

#define MEMORY_BYTES ((size_t)1073741824)
#define SMOKE_BYTES ((size_t)16777216)
#define COPIES 200 /* many times as long as a call takes */
#define SMOKE_COPIES 16
#define COPIES_MOST_NS INT64_C(3000000000)
#define CLOSER_LIMIT_NS INT64_C(7000000000)
#define BLOCKED_NS (PROBE_HOLD_NS / 3)
#define WORD 0x0c105ed0U
#define NOT_YET 0x0badbad0U /* in the place of the word until the last copy */

#define TIME_BYTES ((size_t)67108864)
#define TIME_SMOKE_BYTES ((size_t)1048576)
#define FIRSTS 8
#define ROUNDS 50

static struct {
    probe_child owner;
    CUstream stream;
    size_t size_bytes;
    probe_message made;
    CUevent written; /* the owner's */
} rig;

static CUdeviceptr open_memory(void)
{
    CUresult result;
    CUdeviceptr memory = share_open(&rig.made, &result);
    probe_check("cuIpcOpenMemHandle", result);
    return memory;
}

/* ---- share-close-busy ---- */

/* Closes while the stream has work. `-waits`: was that over when the call returned? */
static void close_beside(const char *what, CUdeviceptr memory)
{
    char shape[64];
    int64_t took_ns;
    bool was_at_work = driver.cuStreamQuery(rig.stream) == CUDA_ERROR_NOT_READY;
    CUresult result = share_close(memory, &took_ns);
    bool is_over = driver.cuStreamQuery(rig.stream) != CUDA_ERROR_NOT_READY;
    (void)snprintf(shape, sizeof shape, "busy-%s-close", what);
    share_row(shape, took_ns, result);
    (void)snprintf(shape, sizeof shape, "busy-%s-waits", what);
    if (!was_at_work)
        probe_row(shape, NAN, "ns", PROBE_NONE, "the stream's work was over before the call");
    else
        probe_row(shape, (double)took_ns, "ns", is_over ? PROBE_YES : PROBE_NO, "%s",
                  is_over ? "the stream's work is over when it returns"
                          : "the stream is still at work when it returns");
}

/* `-other`: was a call of another thread held up meanwhile? */
static void close_beside_thread(const char *what, CUdeviceptr memory)
{
    char shape[64];
    const char *slow;
    probe_other_begin();
    close_beside(what, memory);
    int64_t longest_ns = probe_other_end(&slow);
    (void)snprintf(shape, sizeof shape, "busy-%s-other", what);
    probe_row(shape, (double)longest_ns, "ns", longest_ns >= BLOCKED_NS ? PROBE_YES : PROBE_NO,
              "the longest, of %s", slow);
}

static void try_kernel(void)
{
    CUdeviceptr memory = open_memory();
    probe_hold_running(rig.stream);
    close_beside_thread("kernel", memory);
    (void)probe_hold_end();
}

/* What the stream waits for is a kernel of the other process: this one's has nothing to run. */
static void try_wait(void)
{
    probe_message fill = {
        .order = SHARE_FILL, .word = WORD, .size_bytes = rig.size_bytes, .took_ns = PROBE_HOLD_NS};
    CUdeviceptr memory = open_memory();
    fill = probe_ask(&rig.owner, &fill, "fill");
    probe_check("the owner, fill", (CUresult)fill.result);
    PROBE_CALL(cuStreamWaitEvent, rig.stream, rig.written, CU_EVENT_WAIT_DEFAULT);
    close_beside_thread("wait", memory);
    PROBE_CALL(cuStreamSynchronize, rig.stream);
}

/* The last copy alone puts the words in their places: without it they are others. */
static void try_copy(void)
{
    CUresult result;
    int64_t took_ns;
    uint32_t copies = probe.is_smoke ? SMOKE_COPIES : COPIES;
    CUdeviceptr own = probe_memory(rig.size_bytes), memory = open_memory();
    CUdeviceptr own_end = own + rig.size_bytes - sizeof(uint32_t);
    for (uint32_t i = 1; i < copies; i++)
        PROBE_CALL(cuMemcpyAsync, own, memory, rig.size_bytes, rig.stream);
    probe_fill(own, NOT_YET, rig.stream);
    probe_fill(own_end, NOT_YET, rig.stream);
    PROBE_CALL(cuMemcpyAsync, own, memory, rig.size_bytes, rig.stream);
    close_beside("copy", memory);
    result = share_drain(rig.stream, COPIES_MOST_NS, &took_ns);
    share_row("busy-copy-ends", took_ns, result);
    uint32_t word = share_read(own, rig.stream, &result);
    share_row_word("busy-copy-first", result, word, WORD, "the first word of the copy");
    word = share_read(own_end, rig.stream, &result);
    share_row_word("busy-copy-last", result, word, WORD, "the last word of the copy");
}

void probe_share_closer(const probe_case *which)
{
    int64_t took_ns;
    (void)which;
    rig.owner = probe_peer_start("share-owner");
    probe_gpu_open();
    if (!share_is_there("busy"))
        return;
    rig.stream = probe_stream(0);
    rig.size_bytes = probe.is_smoke ? SMOKE_BYTES : MEMORY_BYTES;
    probe_other_open();
    rig.made = share_ask(&rig.owner, SHARE_MAKE, WORD, rig.size_bytes);
    PROBE_CALL(cuIpcOpenEventHandle, &rig.written, rig.made.event);
    CUresult result = share_close(open_memory(), &took_ns);
    share_row("busy-idle-close", took_ns, result);
    try_kernel();
    try_wait();
    try_copy();
    share_row("busy-healthy", 0, share_health(rig.stream));
}

void probe_share_close_busy(const probe_case *which)
{
    char how[64];
    int status;
    (void)which;
    probe_child closer = probe_child_start(probe_case_find("share-closer"), false, false);
    bool is_by_itself = probe_child_end(&closer, CLOSER_LIMIT_NS, &status, how, sizeof how);
    probe_row("busy-closer-ends", NAN, "", is_by_itself && status == 0 ? PROBE_YES : PROBE_NO, "%s",
              how);
}

/* ---- share-open-time ---- */

typedef struct open_times {
    bench_samples opens, closes;
} open_times;

static CUdeviceptr time_open(const probe_message *made, bench_samples *opens)
{
    CUresult result;
    int64_t begin_ns = bench_now_ns();
    CUdeviceptr memory = share_open(made, &result);
    bench_samples_add(opens, (double)(bench_now_ns() - begin_ns));
    probe_check("cuIpcOpenMemHandle", result);
    return memory;
}

static void time_close(CUdeviceptr memory, bench_samples *closes)
{
    int64_t took_ns;
    probe_check("cuIpcCloseMemHandle", share_close(memory, &took_ns));
    bench_samples_add(closes, (double)took_ns);
}

static void tell_times(const char *size, const char *which, open_times *times)
{
    char shape[64];
    (void)snprintf(shape, sizeof shape, "open-time-%s-%s", size, which);
    probe_row_median(shape, &times->opens, "ns");
    (void)snprintf(shape, sizeof shape, "close-time-%s-%s", size, which);
    probe_row_median(shape, &times->closes, "ns");
    bench_samples_free(&times->opens);
    bench_samples_free(&times->closes);
}

/* Further opening of what is open only counts; so may a process keep what it may need again. */
static void time_again(const probe_message *made, open_times *again, open_times *counted)
{
    int rounds = probe.is_smoke ? 3 : ROUNDS;
    for (int i = 0; i < rounds; i++) {
        CUdeviceptr memory = time_open(made, &again->opens);
        time_close(time_open(made, &counted->opens), &counted->closes);
        time_close(memory, &again->closes);
    }
}

void probe_share_open_time(const probe_case *which)
{
    open_times first = {0}, again = {0}, counted = {0};
    CUdeviceptr memories[FIRSTS];
    char size[16];
    (void)which;
    rig.owner = probe_peer_start("share-owner");
    probe_gpu_open();
    if (!share_is_there("open-time"))
        return;
    rig.size_bytes = probe.is_smoke ? TIME_SMOKE_BYTES : TIME_BYTES;
    bench_size_name(size, sizeof size, rig.size_bytes);
    for (uint32_t i = 0; i < FIRSTS; i++) {
        rig.made = share_ask(&rig.owner, SHARE_MAKE, WORD, rig.size_bytes);
        memories[i] = time_open(&rig.made, &first.opens);
    }
    for (uint32_t i = 0; i < FIRSTS; i++)
        time_close(memories[i], &first.closes);
    time_again(&rig.made, &again, &counted);
    tell_times(size, "first", &first);
    tell_times(size, "again", &again);
    tell_times(size, "counted", &counted);
}
