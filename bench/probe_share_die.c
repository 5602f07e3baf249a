/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share-die: the owner is killed while another process copies out of its memory. Does the copy end
 * well, is the reader's context whole, can it read on, and close?
 *
 * share-die-reader: the reader is killed as it copies: is the owner's context whole, and does
 * cuMemFree give the memory back?
 *
 * share-stop: the owner's process is stopped, not dead: what can the reader do meanwhile?
 */
#include "bench/probe_share.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>

#define MEMORY_BYTES ((size_t)2147483648)
#define SMOKE_BYTES ((size_t)1048576)
#define COPIES 400 /* longer than a process takes to die */
#define COPIES_MOST_NS INT64_C(3000000000)
#define KILL_AFTER_NS 20000000
#define STOP_BYTES ((size_t)16777216)
#define WORD 0x0badf00dU

static struct {
    probe_child other;
    CUstream stream;
    size_t size_bytes;
    uint32_t copies;
} rig;

static void open_rig(void)
{
    rig.stream = probe_stream(0);
    rig.size_bytes = probe.is_smoke ? SMOKE_BYTES : MEMORY_BYTES;
    rig.copies = probe.is_smoke ? 4 : COPIES;
}

/* ---- share-die ---- */

static void copy_as_it_dies(CUdeviceptr theirs, CUdeviceptr own)
{
    int64_t took_ns;
    for (uint32_t i = 0; i < rig.copies; i++)
        PROBE_CALL(cuMemcpyAsync, own, theirs, rig.size_bytes, rig.stream);
    bench_spin_ns(KILL_AFTER_NS);
    share_kill(&rig.other, "die-gone");
    bool is_running = driver.cuStreamQuery(rig.stream) == CUDA_ERROR_NOT_READY;
    probe_row("die-copies-outlive", NAN, "", is_running ? PROBE_YES : PROBE_NONE, "%s",
              is_running ? "the owner is gone and the copies run"
                         : "they were over before the owner was gone");
    CUresult result = share_drain(rig.stream, COPIES_MOST_NS, &took_ns);
    share_row("die-copies-end", took_ns, result);
    uint32_t word = share_read(own + rig.size_bytes - sizeof word, rig.stream, &result);
    share_row_word("die-copies-right", result, word, WORD, "the last word of the copy");
}

void probe_share_die(const probe_case *which)
{
    CUresult result;
    (void)which;
    rig.other = probe_peer_start("share-owner");
    probe_gpu_open();
    if (!share_is_there("die"))
        return;
    open_rig();
    CUdeviceptr own = probe_memory(rig.size_bytes);
    probe_message made = share_ask(&rig.other, SHARE_MAKE, WORD, rig.size_bytes);
    CUdeviceptr theirs = share_open(&made, &result);
    probe_check("cuIpcOpenMemHandle", result);
    copy_as_it_dies(theirs, own);
    share_row("die-healthy", 0, share_health(rig.stream));
    uint32_t word = share_read(theirs, rig.stream, &result);
    share_row_word("die-reads-on", result, word, WORD, "the memory, once its owner is gone");
    (void)share_open(&made, &result);
    probe_row("die-opens-no-more", NAN, "", result == CUDA_SUCCESS ? PROBE_NO : PROBE_YES, "%s",
              driver_error_name(result));
    CUevent written = NULL;
    result = driver.cuIpcOpenEventHandle(&written, made.event);
    probe_row("die-event-opens-no-more", NAN, "", result == CUDA_SUCCESS ? PROBE_NO : PROBE_YES,
              "%s", driver_error_name(result));
    int64_t begin_ns = bench_now_ns();
    result = driver.cuIpcCloseMemHandle(theirs);
    share_row("die-close", bench_now_ns() - begin_ns, result);
    share_row("die-healthy-after", 0, share_health(rig.stream));
}

/* ---- share-die-reader ---- */

void probe_share_die_reader(const probe_case *which)
{
    probe_message reading = {.order = SHARE_READER};
    (void)which;
    rig.other = probe_peer_start("share-owner");
    probe_gpu_open();
    if (!share_is_there("die-reader"))
        return;
    open_rig();
    CUdeviceptr memory = probe_memory(rig.size_bytes);
    probe_fill(memory, WORD, rig.stream);
    PROBE_CALL(cuStreamSynchronize, rig.stream);
    PROBE_CALL(cuIpcGetMemHandle, &reading.memory, memory);
    reading.size_bytes = rig.size_bytes;
    reading.count = rig.copies;
    reading = probe_ask(&rig.other, &reading, "reader");
    share_row("reader-copies", 0, (CUresult)reading.result);
    bench_spin_ns(KILL_AFTER_NS);
    share_kill(&rig.other, "reader-gone");
    CUresult result = share_health(rig.stream);
    share_row("reader-owner-healthy", 0, result);
    uint32_t word = share_read(memory, rig.stream, &result);
    share_row_word("reader-owner-reads", result, word, WORD, "its own memory");
    int64_t begin_ns = bench_now_ns();
    result = driver.cuMemFree(memory);
    share_row("reader-owner-frees", bench_now_ns() - begin_ns, result);
    share_row("reader-owner-healthy-after", 0, share_health(rig.stream));
}

/* ---- share-stop ---- */

#define TIMED(shape, call)                                                                         \
    do {                                                                                           \
        int64_t begin_ns_ = bench_now_ns();                                                        \
        CUresult result_ = (call);                                                                 \
        share_row((shape), bench_now_ns() - begin_ns_, result_);                                   \
    } while (0)

static CUresult copy_and_wait(CUdeviceptr dst, CUdeviceptr src)
{
    CUresult result = driver.cuMemcpyAsync(dst, src, STOP_BYTES, rig.stream);
    return result == CUDA_SUCCESS ? driver.cuStreamSynchronize(rig.stream) : result;
}

/* Each is a row as soon as it returned: the last one tells in which call the case was ended. */
static void go_on_beside_stopped(const probe_message *made)
{
    CUdeviceptr theirs = 0, extra = 0;
    CUevent written = NULL;
    CUdeviceptr own = probe_memory(2 * STOP_BYTES);
    TIMED("stop-open",
          driver.cuIpcOpenMemHandle(&theirs, made->memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    if (theirs != 0)
        TIMED("stop-copy", copy_and_wait(own, theirs));
    TIMED("stop-open-event", driver.cuIpcOpenEventHandle(&written, made->event));
    if (written != NULL)
        TIMED("stop-wait-event",
              driver.cuStreamWaitEvent(rig.stream, written, CU_EVENT_WAIT_DEFAULT));
    TIMED("stop-own-copy", copy_and_wait(own, own + STOP_BYTES));
    TIMED("stop-alloc", driver.cuMemAlloc(&extra, STOP_BYTES));
    TIMED("stop-free", driver.cuMemFree(extra));
    if (theirs != 0)
        TIMED("stop-close", driver.cuIpcCloseMemHandle(theirs));
}

void probe_share_stop(const probe_case *which)
{
    probe_message healthy = {.order = SHARE_HEALTHY};
    (void)which;
    rig.other = probe_peer_start("share-owner");
    probe_gpu_open();
    if (!share_is_there("stop"))
        return;
    open_rig();
    probe_message made = share_ask(&rig.other, SHARE_MAKE, WORD, STOP_BYTES);
    if (kill(rig.other.pid, SIGSTOP) != 0)
        probe_fail("cannot stop the owner");
    bench_spin_ns(KILL_AFTER_NS);
    go_on_beside_stopped(&made);
    if (kill(rig.other.pid, SIGCONT) != 0)
        probe_fail("cannot let the owner go on");
    healthy = probe_ask(&rig.other, &healthy, "healthy");
    share_row("stop-owner-healthy", 0, (CUresult)healthy.result);
}
