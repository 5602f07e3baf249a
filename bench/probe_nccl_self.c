/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl-self: a send and a receive of one rank to itself, in a group on a stream. What the calls
 * take and answer on a communicator that is non-blocking or not; whether an event that is recorded
 * behind them covers what they do, at once or when the communicator says success; what the device
 * takes, beside a copy by cuMemcpyAsync; what a group of many costs each.
 */
#include "bench/probe_nccl.h"

#include <math.h>
#include <stdio.h>

#define CALLS 100
#define COVER_ROUNDS 20
#define COVER_BYTES ((size_t)67108864)
#define DEVICE_ROUNDS 10
#define PAIRS 64
#define PAIR_BYTES ((size_t)4096)

static const size_t sizes[] = {4096, 65536, 1048576, 16777216, 268435456};
#define SIZES (sizeof sizes / sizeof sizes[0])

static struct {
    ncclComm_t comm;
    const char *kind; /* of it */
    CUstream stream, beside;
    CUdeviceptr src, dst;
    CUevent begin, end;
    uint32_t *words;
    size_t largest;
} rig;

static int rounds_of(int rounds)
{
    return probe.is_smoke ? 2 : rounds;
}

static const char *name_shape(const char *what)
{
    static char shape[64];
    (void)snprintf(shape, sizeof shape, "%s-%s", what, rig.kind);
    return shape;
}

static void open_comm(const char *kind, bool is_blocking)
{
    rig.kind = kind;
    rig.comm = nccl_alone(is_blocking);
    int64_t begin_ns = bench_now_ns();
    (void)nccl_group(rig.comm, 0, rig.dst, rig.src, PAIR_BYTES, rig.stream);
    int64_t call_ns = bench_now_ns() - begin_ns;
    nccl_check("the first group", nccl_settle(rig.comm, NCCL_SETTLE_NS));
    PROBE_CALL(cuStreamSynchronize, rig.stream);
    probe_row(name_shape("first"), (double)(bench_now_ns() - begin_ns), "ns", PROBE_YES,
              "until it is over; %.6g ns of it in the calls", (double)call_ns);
}

/* ---- calls ---- */

static void time_calls(void)
{
    bench_samples calls = {0}, settled = {0};
    int rounds = rounds_of(CALLS), in_progress = 0;
    for (int i = 0; i < rounds; i++) {
        int64_t begin_ns = bench_now_ns();
        ncclResult_t result = nccl_group(rig.comm, 0, rig.dst, rig.src, PAIR_BYTES, rig.stream);
        bench_samples_add(&calls, (double)(bench_now_ns() - begin_ns));
        in_progress += result == ncclInProgress;
        nccl_check("a group", nccl_settle(rig.comm, NCCL_SETTLE_NS));
        bench_samples_add(&settled, (double)(bench_now_ns() - begin_ns));
        PROBE_CALL(cuStreamSynchronize, rig.stream);
    }
    probe_row_median(name_shape("calls"), &calls, "ns");
    probe_row_median(name_shape("settled"), &settled, "ns");
    probe_row(name_shape("in-progress"), in_progress, "groups",
              in_progress > 0 ? PROBE_YES : PROBE_NO, "of %d that ncclGroupEnd leaves in progress",
              rounds);
    bench_samples_free(&calls);
    bench_samples_free(&settled);
}

/* ---- what an event covers ---- */

/* When the event has fired, the last word is looked at from another stream. */
static bool try_event(uint32_t word, size_t size_bytes, bool is_settled)
{
    CUdeviceptr last = size_bytes - sizeof word;
    probe_fill(rig.src + last, word, rig.stream);
    probe_fill(rig.dst + last, 0, rig.stream);
    PROBE_CALL(cuStreamSynchronize, rig.stream);
    (void)nccl_group(rig.comm, 0, rig.dst, rig.src, size_bytes, rig.stream);
    if (is_settled)
        nccl_check("a group", nccl_settle(rig.comm, NCCL_SETTLE_NS));
    PROBE_CALL(cuEventRecord, rig.end, rig.stream);
    while (driver.cuEventQuery(rig.end) == CUDA_ERROR_NOT_READY)
        continue;
    PROBE_CALL(cuMemcpyAsync, probe_address(rig.words), rig.dst + last, sizeof word, rig.beside);
    PROBE_CALL(cuStreamSynchronize, rig.beside);
    bool is_there = probe_word(rig.words) == word;
    nccl_check("a group", nccl_settle(rig.comm, NCCL_SETTLE_NS));
    PROBE_CALL(cuStreamSynchronize, rig.stream);
    return is_there;
}

static void try_events(const char *what, bool is_settled)
{
    size_t size_bytes = COVER_BYTES < rig.largest ? COVER_BYTES : rig.largest;
    int rounds = rounds_of(COVER_ROUNDS), right = 0;
    for (int i = 0; i < rounds; i++)
        right += try_event((uint32_t)i + 1, size_bytes, is_settled);
    probe_row(name_shape(what), right, "right", right == rounds ? PROBE_YES : PROBE_NO,
              "of %d events whose bytes were there", rounds);
}

/* ---- what the device takes ---- */

static ncclResult_t queue_pairs(size_t size_bytes, size_t pairs)
{
    nccl_check("ncclGroupStart", nccl.ncclGroupStart());
    for (size_t i = 0; i < pairs; i++)
        (void)nccl_group(rig.comm, 0, rig.dst + i * size_bytes, rig.src + i * size_bytes,
                         size_bytes, rig.stream);
    return nccl.ncclGroupEnd();
}

/*
 * All stands behind a kernel that is held, so that no launching is in the time. False: the group
 * waited until the kernel was let go, so that it is.
 */
static bool time_device(size_t size_bytes, size_t pairs, bool is_copy, double *took_ns_p)
{
    float between_ms = 0;
    probe_hold(rig.stream);
    PROBE_CALL(cuEventRecord, rig.begin, rig.stream);
    if (is_copy) {
        for (size_t i = 0; i < pairs; i++)
            PROBE_CALL(cuMemcpyAsync, rig.dst + i * size_bytes, rig.src + i * size_bytes,
                       size_bytes, rig.stream);
    } else {
        (void)queue_pairs(size_bytes, pairs);
        nccl_check("a group", nccl_settle(rig.comm, NCCL_SETTLE_NS));
    }
    PROBE_CALL(cuEventRecord, rig.end, rig.stream);
    bool stood = probe_hold_let_go();
    PROBE_CALL(cuStreamSynchronize, rig.stream);
    PROBE_CALL(cuEventElapsedTime, &between_ms, rig.begin, rig.end);
    *took_ns_p = (double)between_ms * 1e6 / (double)pairs;
    return stood;
}

static void compare(const char *name, size_t size_bytes, size_t pairs)
{
    char shape[64];
    double took_ns;
    bench_samples samples[2] = {{0}};
    static const char *const ends[] = {"nccl", "copy"};
    for (int i = -1; i < rounds_of(DEVICE_ROUNDS); i++) {
        for (size_t j = 0; j < 2; j++) {
            /* The first of a size may wait: it makes what the others find. */
            if (!time_device(size_bytes, pairs, j == 1, &took_ns) && i >= 0) {
                probe_row(name, NAN, "", PROBE_NONE, "it waits for the kernel before it");
                return;
            }
            if (i >= 0)
                bench_samples_add(&samples[j], took_ns);
        }
    }
    for (size_t j = 0; j < 2; j++) {
        (void)snprintf(shape, sizeof shape, "%s-%s", name, ends[j]);
        probe_row_median(shape, &samples[j], "ns");
    }
    (void)snprintf(shape, sizeof shape, "%s-ratio", name);
    probe_row(shape,
              bench_samples_quantile(&samples[0], 0.5) / bench_samples_quantile(&samples[1], 0.5),
              "", PROBE_YES, "of NCCL's time to the copy's, each on the device");
    for (size_t j = 0; j < 2; j++)
        bench_samples_free(&samples[j]);
}

static void compare_all(void)
{
    char size[16], name[32];
    for (size_t i = 0; i < SIZES && sizes[i] <= rig.largest; i++) {
        bench_size_name(size, sizeof size, sizes[i]);
        (void)snprintf(name, sizeof name, "device-%s", size);
        compare(name, sizes[i], 1);
    }
    compare("device-64x4KiB-each", PAIR_BYTES, PAIRS);
}

void probe_nccl_self(const probe_case *which)
{
    (void)which;
    if (!nccl_open("self"))
        return;
    rig.largest = sizes[probe.is_smoke ? 2 : SIZES - 1];
    rig.stream = probe_stream(0);
    rig.beside = probe_stream(0);
    rig.src = probe_memory(rig.largest);
    rig.dst = probe_memory(rig.largest);
    rig.begin = probe_event(CU_EVENT_DEFAULT);
    rig.end = probe_event(CU_EVENT_DEFAULT);
    rig.words = probe_pinned(sizeof *rig.words);
    open_comm("blocking", true);
    time_calls();
    try_events("event", false);
    open_comm("nonblocking", false);
    time_calls();
    try_events("event-at-once", false);
    try_events("event-settled", true);
    compare_all();
}
