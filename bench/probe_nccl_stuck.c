/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl-stuck-abort, nccl-stuck-revoke: a group stands in a stream behind a kernel that is held, and
 * its communicator is ended by the thread that made it. How long does that take, does another
 * thread's call to the driver wait meanwhile, what does the group do when the kernel is let go, and
 * are the stream and the context whole?
 *
 * nccl-unmatched: what does a receive from itself without its send answer?
 */
#include "bench/probe_nccl.h"

#include <math.h>
#include <stdio.h>

#define SIZE_BYTES ((size_t)1048576)
#define BLOCKED_NS (PROBE_HOLD_NS / 3)
#define WORD 0x57ac57acU

enum { ABORT, REVOKE };

static const char *const names[] = {"abort", "revoke"};

static struct {
    const char *name;
    CUstream stream;
    CUdeviceptr src, dst;
    uint32_t *word;
} rig;

static const char *name_shape(const char *what)
{
    static char shape[64];
    (void)snprintf(shape, sizeof shape, "stuck-%s-%s", rig.name, what);
    return shape;
}

static void open_rig(const char *name)
{
    rig.name = name;
    rig.stream = probe_stream(0);
    rig.src = probe_memory(SIZE_BYTES);
    rig.dst = probe_memory(SIZE_BYTES);
    rig.word = probe_pinned(sizeof *rig.word);
    probe_other_open();
}

/* The first of a communicator makes its connections, which may wait for all that runs. */
static ncclComm_t open_comm(void)
{
    ncclComm_t comm = nccl_alone(false);
    (void)nccl_group(comm, 0, rig.dst, rig.src, SIZE_BYTES, rig.stream);
    nccl_check("the first group", nccl_settle(comm, NCCL_SETTLE_NS));
    PROBE_CALL(cuStreamSynchronize, rig.stream);
    return comm;
}

static void queue_behind_hold(ncclComm_t comm)
{
    CUdeviceptr last = SIZE_BYTES - sizeof(uint32_t);
    probe_fill(rig.src + last, WORD, rig.stream);
    probe_fill(rig.dst + last, 0, rig.stream);
    PROBE_CALL(cuStreamSynchronize, rig.stream);
    probe_hold_running(rig.stream);
    int64_t begin_ns = bench_now_ns();
    (void)nccl_group(comm, 0, rig.dst, rig.src, SIZE_BYTES, rig.stream);
    ncclResult_t result = nccl_settle(comm, NCCL_SETTLE_NS);
    bool stands = probe_hold_stands();
    probe_row(name_shape("queued"), (double)(bench_now_ns() - begin_ns), "ns",
              stands && result == ncclSuccess ? PROBE_YES : PROBE_NO, "%s",
              stands ? nccl_result_name(result) : "it waits for the kernel before it");
}

/* The call, and for a revocation until it is settled; the answer is whether it waited. */
static void end_comm(ncclComm_t comm, int way)
{
    const char *slow;
    probe_other_begin();
    int64_t begin_ns = bench_now_ns();
    ncclResult_t result = way == ABORT ? nccl.ncclCommAbort(comm) : nccl.ncclCommRevoke(comm, 0);
    int64_t call_ns = bench_now_ns() - begin_ns;
    bool stands = probe_hold_stands();
    probe_row(name_shape("waits"), (double)call_ns / 1e3, "us", stands ? PROBE_NO : PROBE_YES,
              "the call answers %s%s", nccl_result_name(result),
              stands ? "" : "; the kernel was let go meanwhile");
    if (way == REVOKE) {
        result = nccl_settle(comm, NCCL_SETTLE_NS);
        probe_row(name_shape("settle-waits"), (double)(bench_now_ns() - begin_ns) / 1e3, "us",
                  probe_hold_stands() ? PROBE_NO : PROBE_YES, "%s", nccl_result_name(result));
    }
    int64_t longest_ns = probe_other_end(&slow);
    probe_row(name_shape("other"), (double)longest_ns / 1e3, "us",
              longest_ns >= BLOCKED_NS ? PROBE_YES : PROBE_NO, "the longest, of %s", slow);
}

static void tell(const char *what, CUresult result)
{
    probe_row(name_shape(what), NAN, "", result == CUDA_SUCCESS ? PROBE_YES : PROBE_NO, "%s",
              result == CUDA_SUCCESS ? "" : driver_error_name(result));
}

static uint32_t read_last(CUresult *result_p)
{
    *rig.word = 0;
    *result_p =
        driver.cuMemcpyAsync(probe_address(rig.word), rig.dst + SIZE_BYTES - sizeof *rig.word,
                             sizeof *rig.word, rig.stream);
    if (*result_p == CUDA_SUCCESS)
        *result_p = nccl_drain(rig.stream, NCCL_SETTLE_NS);
    return probe_word(rig.word);
}

/* What was queued still stands in the stream, whatever became of its communicator. */
static void look_around(bool was_held)
{
    CUresult result = nccl_drain(rig.stream, NCCL_SETTLE_NS);
    tell("stream", result);
    uint32_t word = read_last(&result);
    tell("stream-usable", result);
    if (result != CUDA_SUCCESS)
        return;
    probe_row(name_shape("writes-later"), NAN, "",
              !was_held      ? PROBE_NONE
              : word == WORD ? PROBE_YES
                             : PROBE_NO,
              "%s",
              was_held ? "whether the bytes came after all, once the kernel was let go"
                       : "the kernel was let go before");
    tell("healthy", driver.cuCtxSynchronize());
}

void probe_nccl_stuck(const probe_case *which)
{
    if (!nccl_open(which->name))
        return;
    open_rig(names[which->variant]);
    if (which->variant == REVOKE && nccl.ncclCommRevoke == NULL) {
        probe_row_absent(name_shape("waits"), "ncclCommRevoke");
        return;
    }
    ncclComm_t comm = open_comm();
    queue_behind_hold(comm);
    end_comm(comm, which->variant);
    look_around(probe_hold_let_go());
    if (which->variant == REVOKE) {
        int64_t begin_ns = bench_now_ns();
        ncclResult_t result = nccl.ncclCommAbort(comm);
        nccl_row(name_shape("then-abort"), bench_now_ns() - begin_ns, result);
    }
    int64_t begin_ns = bench_now_ns();
    (void)open_comm();
    nccl_row(name_shape("next"), bench_now_ns() - begin_ns, ncclSuccess);
}

/* ---- nccl-unmatched ---- */

void probe_nccl_unmatched(const probe_case *which)
{
    (void)which;
    if (!nccl_open("unmatched"))
        return;
    open_rig("unmatched");
    ncclComm_t comm = open_comm();
    int64_t begin_ns = bench_now_ns();
    ncclResult_t result = nccl_group(comm, 0, rig.dst, 0, SIZE_BYTES, rig.stream);
    int64_t took_ns = bench_now_ns() - begin_ns;
    ncclResult_t state = nccl_settle(comm, NCCL_SETTLE_NS / 4);
    bool is_refused = state != ncclSuccess && state != ncclInProgress;
    probe_row("unmatched-is-refused", (double)took_ns, "ns", is_refused ? PROBE_YES : PROBE_NO,
              "ncclGroupEnd answers %s, the communicator %s: %s", nccl_result_name(result),
              nccl_result_name(state), nccl.ncclGetLastError(comm));
    begin_ns = bench_now_ns();
    result = nccl.ncclCommAbort(comm);
    nccl_row("unmatched-abort", bench_now_ns() - begin_ns, result);
    CUresult drained = nccl_drain(rig.stream, NCCL_SETTLE_NS / 4);
    probe_row("unmatched-healthy", NAN, "", drained == CUDA_SUCCESS ? PROBE_YES : PROBE_NO, "%s",
              driver_error_name(drained));
}
