/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl-make: what making a communicator costs that is non-blocking: how long the call takes, how
 * long until it can be used, how much GPU memory it takes, whether another thread's calls to the
 * driver wait meanwhile; what ending it takes.
 *
 * nccl-capture-group: the calling thread is inside somebody else's group. Is what is done on
 * another communicator, inside a group of its own, delayed to the outer end?
 */
#include "bench/probe_nccl.h"

#include <math.h>
#include <stdio.h>

#define COMMS 5
#define BLOCKED_NS INT64_C(10000000)
#define LINGER_NS INT64_C(100000000)
#define WORD 0x6209f00dU

/* ---- nccl-make ---- */

static int64_t free_kib(void)
{
    size_t free_bytes = 0, all_bytes = 0;
    PROBE_CALL(cuMemGetInfo, &free_bytes, &all_bytes);
    return (int64_t)(free_bytes >> 10);
}

static const char *name_shape(const char *what, int number)
{
    static char shape[32];
    (void)snprintf(shape, sizeof shape, "%s-%d", what, number);
    return shape;
}

static ncclComm_t make_one(int number)
{
    const char *slow;
    int64_t before_kib = free_kib();
    int64_t begin_ns = bench_now_ns();
    ncclUniqueId id = nccl_id();
    probe_row(name_shape("make-id", number), (double)(bench_now_ns() - begin_ns), "ns", PROBE_YES,
              "%s", "");
    probe_other_begin();
    nccl_joined joined = nccl_join(&id, 1, 0, false, NCCL_JOIN_NS);
    int64_t longest_ns = probe_other_end(&slow);
    nccl_row(name_shape("make-call", number), joined.call_ns, joined.result);
    nccl_check("ncclCommInitRankConfig", joined.result);
    nccl_row(name_shape("make-ready", number), joined.ready_ns, joined.result);
    probe_row(name_shape("make-other", number), (double)longest_ns / 1e3, "us",
              longest_ns >= BLOCKED_NS ? PROBE_YES : PROBE_NO, "the longest, of %s", slow);
    probe_row(name_shape("make-memory", number), (double)(before_kib - free_kib()), "KiB",
              PROBE_YES, "of the GPU's");
    return joined.comm;
}

static void end_one(ncclComm_t comm, int number)
{
    const char *slow;
    probe_other_begin();
    int64_t begin_ns = bench_now_ns();
    ncclResult_t result = nccl.ncclCommFinalize(comm);
    int64_t call_ns = bench_now_ns() - begin_ns;
    if (result == ncclInProgress)
        result = nccl_settle(comm, NCCL_SETTLE_NS);
    nccl_row(name_shape("finalize-call", number), call_ns, result);
    nccl_row(name_shape("finalize-ready", number), bench_now_ns() - begin_ns, result);
    begin_ns = bench_now_ns();
    result = nccl.ncclCommDestroy(comm);
    nccl_row(name_shape("destroy", number), bench_now_ns() - begin_ns, result);
    int64_t longest_ns = probe_other_end(&slow);
    probe_row(name_shape("end-other", number), (double)longest_ns / 1e3, "us",
              longest_ns >= BLOCKED_NS ? PROBE_YES : PROBE_NO, "the longest, of %s", slow);
}

void probe_nccl_make(const probe_case *which)
{
    int version = 0;
    ncclComm_t comms[COMMS];
    (void)which;
    if (!nccl_open("make"))
        return;
    nccl_check("ncclGetVersion", nccl.ncclGetVersion(&version));
    probe_row("version", version, "", PROBE_YES, "nccl.h was %d; ncclCommRevoke is %s",
              NCCL_VERSION_CODE, nccl.ncclCommRevoke != NULL ? "there" : "absent");
    probe_other_open();
    int count = probe.is_smoke ? 2 : COMMS;
    for (int i = 0; i < count; i++)
        comms[i] = make_one(i + 1);
    for (int i = 0; i < count && i < 2; i++)
        end_one(comms[i], i + 1);
}

/* ---- nccl-capture-group ---- */

/* Whether the word came within the time; the stream is another than the group's. */
static bool has_come(CUdeviceptr word, uint32_t *seen, CUstream beside)
{
    int64_t end_ns = bench_now_ns() + LINGER_NS;
    do {
        PROBE_CALL(cuMemcpyAsync, probe_address(seen), word, sizeof *seen, beside);
        PROBE_CALL(cuStreamSynchronize, beside);
    } while (probe_word(seen) != WORD && bench_now_ns() < end_ns);
    return probe_word(seen) == WORD;
}

static void try_transfer(ncclComm_t comm)
{
    CUstream stream = probe_stream(0), beside = probe_stream(0);
    uint32_t *seen = probe_pinned(sizeof *seen);
    CUdeviceptr src = probe_memory(sizeof *seen), dst = probe_memory(sizeof *seen);
    probe_fill(src, WORD, stream);
    probe_fill(dst, 0, stream);
    PROBE_CALL(cuStreamSynchronize, stream);
    nccl_check("ncclGroupStart", nccl.ncclGroupStart());
    ncclResult_t result = nccl_group(comm, 0, dst, src, sizeof *seen, stream);
    bool is_early = has_come(dst, seen, beside);
    probe_row("group-nested-goes-on", NAN, "", is_early ? PROBE_YES : PROBE_NO,
              "the inner ncclGroupEnd answers %s", nccl_result_name(result));
    result = nccl.ncclGroupEnd();
    if (result == ncclInProgress || result == ncclSuccess)
        result = nccl_settle(comm, NCCL_SETTLE_NS);
    bool is_late = has_come(dst, seen, beside);
    probe_row("group-nested-after-outer", NAN, "", is_late ? PROBE_YES : PROBE_NO, "%s",
              nccl_result_name(result));
}

static void try_join(void)
{
    ncclComm_t comm = NULL;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id = nccl_id();
    config.blocking = 0;
    nccl_check("ncclGroupStart", nccl.ncclGroupStart());
    ncclResult_t result = nccl.ncclCommInitRankConfig(&comm, 1, id, 0, &config);
    const char *answer = nccl_result_name(result);
    bool has_comm = comm != NULL;
    ncclResult_t state = has_comm ? nccl_settle(comm, LINGER_NS) : ncclInProgress;
    probe_row("group-join-goes-on", NAN, "",
              has_comm && state == ncclSuccess ? PROBE_YES : PROBE_NO,
              "the call answers %s and gives %s; then %s", answer,
              has_comm ? "a communicator" : "none", nccl_result_name(state));
    int64_t begin_ns = bench_now_ns();
    result = nccl.ncclGroupEnd();
    int64_t took_ns = bench_now_ns() - begin_ns;
    if ((result == ncclInProgress || result == ncclSuccess) && comm != NULL)
        result = nccl_settle(comm, NCCL_SETTLE_NS);
    nccl_row("group-join-outer-end", took_ns, result);
}

void probe_nccl_capture_group(const probe_case *which)
{
    (void)which;
    if (!nccl_open("group"))
        return;
    ncclComm_t comm = nccl_alone(false);
    CUstream stream = probe_stream(0);
    CUdeviceptr memory = probe_memory(2 * sizeof(uint32_t));
    (void)nccl_group(comm, 0, memory, memory + sizeof(uint32_t), sizeof(uint32_t), stream);
    nccl_check("the first group", nccl_settle(comm, NCCL_SETTLE_NS));
    try_transfer(comm);
    try_join();
}
