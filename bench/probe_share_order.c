/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share-order: two processes order their work on the device by each other's events, with no more
 * than control bytes between the hosts: the owner writes its memory behind the reader's copy and
 * the reader copies behind the owner's writing. Does each copy hold what it should? Without the
 * waits it should not, or the question is none. What does such a copy cost beside one in one
 * process?
 */
#include "bench/probe_share.h"

#include <math.h>
#include <stdio.h>

#define ORDERED_BYTES ((size_t)1048576)
#define SPIN_NS 300000 /* of each end, so that the other's work stands before it is over */
#define ORDERED_ROUNDS 20
#define ROUNDS 30
#define WARM 3

static const size_t sizes[] = {65536, 1048576, 16777216, 67108864};
#define SIZES (sizeof sizes / sizeof sizes[0])

static struct {
    probe_child owner;
    CUstream stream;
    CUdeviceptr theirs, own, source;
    CUevent written;    /* the owner's */
    CUevent copied;     /* this process's, which the owner has open */
    CUevent begin, end; /* that have a time */
    uint32_t *words;
    uint32_t round;
} rig;

static void exchange_events(const probe_message *made)
{
    probe_message heard = {.order = SHARE_HEAR};
    int64_t begin_ns = bench_now_ns();
    PROBE_CALL(cuIpcOpenEventHandle, &rig.written, made->event);
    share_row("open-event", bench_now_ns() - begin_ns, CUDA_SUCCESS);
    rig.copied = probe_event(CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
    PROBE_CALL(cuEventRecord, rig.copied, rig.stream);
    PROBE_CALL(cuIpcGetEventHandle, &heard.event, rig.copied);
    heard = probe_ask(&rig.owner, &heard, "hear");
    if (heard.result != CUDA_SUCCESS)
        probe_fail("the owner, cuIpcOpenEventHandle: %s",
                   driver_error_name((CUresult)heard.result));
}

/* The owner's next word, queued there behind the copy that was recorded last. */
static void ask_fill(uint32_t word, size_t size_bytes, int64_t spin_ns)
{
    probe_message message = {
        .order = SHARE_FILL, .word = word, .size_bytes = size_bytes, .took_ns = spin_ns};
    message = probe_ask(&rig.owner, &message, "fill");
    if (message.result != CUDA_SUCCESS)
        probe_fail("the owner, fill: %s", driver_error_name((CUresult)message.result));
}

static void copy_word(uint32_t *to, CUdeviceptr from)
{
    PROBE_CALL(cuMemcpyAsync, probe_address(to), from, sizeof *to, rig.stream);
}

/*
 * Both ends run ahead of the device: as the owner is asked for the next word, the copy of this one
 * is not over yet, and as the copy is queued, its word is not written yet.
 */
static uint32_t count_right(uint32_t rounds, bool are_ordered)
{
    uint32_t right = 0;
    uint32_t first = rig.round + 1;
    for (uint32_t i = 0; i < rounds; i++) {
        ask_fill(++rig.round, ORDERED_BYTES, SPIN_NS);
        if (are_ordered)
            PROBE_CALL(cuStreamWaitEvent, rig.stream, rig.written, CU_EVENT_WAIT_DEFAULT);
        probe_spin(SPIN_NS / 2, rig.stream);
        PROBE_CALL(cuMemcpyAsync, rig.own, rig.theirs, ORDERED_BYTES, rig.stream);
        PROBE_CALL(cuEventRecord, rig.copied, rig.stream);
        copy_word(&rig.words[2 * i], rig.own);
        copy_word(&rig.words[2 * i + 1], rig.own + ORDERED_BYTES - sizeof *rig.words);
    }
    PROBE_CALL(cuStreamSynchronize, rig.stream);
    for (uint32_t i = 0; i < rounds; i++)
        right += rig.words[2 * i] == first + i && rig.words[2 * i + 1] == first + i;
    (void)share_ask(&rig.owner, SHARE_READ, 0, 0); /* its stream is empty again */
    return right;
}

static void try_order(void)
{
    uint32_t rounds = probe.is_smoke ? 2 : ORDERED_ROUNDS;
    uint32_t right = count_right(rounds, true);
    probe_row("ordered", right, "right", right == rounds ? PROBE_YES : PROBE_NO,
              "of %u copies behind the owner's event", rounds);
    right = count_right(rounds, false);
    probe_row("control-unordered", right, "right", PROBE_NONE,
              "of %u copies that wait for nothing: fewer, or `ordered` shows nothing", rounds);
}

/* From the call until an event behind it is seen; *device_ns_p: of the copy itself. */
static double time_copy(CUdeviceptr from, size_t size_bytes, bool is_shared, double *device_ns_p)
{
    float between_ms = 0;
    int64_t begin_ns = bench_now_ns();
    if (is_shared)
        PROBE_CALL(cuStreamWaitEvent, rig.stream, rig.written, CU_EVENT_WAIT_DEFAULT);
    PROBE_CALL(cuEventRecord, rig.begin, rig.stream);
    PROBE_CALL(cuMemcpyAsync, rig.own, from, size_bytes, rig.stream);
    PROBE_CALL(cuEventRecord, rig.end, rig.stream);
    if (is_shared)
        PROBE_CALL(cuEventRecord, rig.copied, rig.stream);
    while (driver.cuEventQuery(is_shared ? rig.copied : rig.end) == CUDA_ERROR_NOT_READY)
        continue;
    double seen_ns = (double)(bench_now_ns() - begin_ns);
    PROBE_CALL(cuStreamSynchronize, rig.stream);
    PROBE_CALL(cuEventElapsedTime, &between_ms, rig.begin, rig.end);
    *device_ns_p = (double)between_ms * 1e6;
    return seen_ns;
}

/* A figure beside its rival's: theirs, and the ratio. */
static void tell_pair(const char *size, const char *what, const bench_samples samples[2])
{
    char shape[64];
    static const char *const ends[] = {"shared", "local"};
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(shape, sizeof shape, "copy-%s-%s-%s", size, what, ends[i]);
        probe_row_median(shape, &samples[i], "ns");
    }
    (void)snprintf(shape, sizeof shape, "copy-%s-%s-ratio", size, what);
    probe_row(shape,
              bench_samples_quantile(&samples[0], 0.5) / bench_samples_quantile(&samples[1], 0.5),
              "", PROBE_YES, "%s", "");
}

static void time_size(size_t size_bytes)
{
    char size[16], shape[64];
    bench_samples seen[2] = {{0}}, device[2] = {{0}}, round = {0};
    int rounds = probe.is_smoke ? 2 : ROUNDS;
    bench_size_name(size, sizeof size, size_bytes);
    for (int i = -WARM; i < rounds; i++) {
        for (size_t j = 0; j < 2; j++) {
            double device_ns;
            double seen_ns =
                time_copy(j == 0 ? rig.theirs : rig.source, size_bytes, j == 0, &device_ns);
            if (i < 0)
                continue;
            bench_samples_add(&seen[j], seen_ns);
            bench_samples_add(&device[j], device_ns);
        }
        double unused;
        int64_t begin_ns = bench_now_ns();
        ask_fill(++rig.round, size_bytes, 0);
        (void)time_copy(rig.theirs, size_bytes, true, &unused);
        if (i >= 0)
            bench_samples_add(&round, (double)(bench_now_ns() - begin_ns));
    }
    tell_pair(size, "device", device);
    tell_pair(size, "seen", seen);
    (void)snprintf(shape, sizeof shape, "round-%s", size);
    probe_row_median(shape, &round, "ns"); /* asked, written there, copied here, seen */
    for (size_t j = 0; j < 2; j++) {
        bench_samples_free(&seen[j]);
        bench_samples_free(&device[j]);
    }
    bench_samples_free(&round);
}

void probe_share_order(const probe_case *which)
{
    CUresult result;
    (void)which;
    rig.owner = probe_peer_start("share-owner");
    probe_gpu_open();
    if (!share_is_there("order"))
        return;
    size_t largest = sizes[probe.is_smoke ? 1 : SIZES - 1];
    rig.stream = probe_stream(0);
    rig.own = probe_memory(largest);
    rig.source = probe_memory(largest);
    rig.begin = probe_event(CU_EVENT_DEFAULT);
    rig.end = probe_event(CU_EVENT_DEFAULT);
    rig.words = probe_pinned((size_t)2 * ORDERED_ROUNDS * sizeof *rig.words);
    probe_message made = share_ask(&rig.owner, SHARE_MAKE, rig.round, largest);
    rig.theirs = share_open(&made, &result);
    probe_check("cuIpcOpenMemHandle", result);
    exchange_events(&made);
    try_order();
    for (size_t i = 0; i < SIZES && sizes[i] <= largest; i++)
        time_size(sizes[i]);
}
