/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl-two-ranks: two processes want one communicator on one GPU, which NCCL refuses. With which
 * result, after how long, do both hear it, and do they get rid of what they have? What does it take
 * to abort a communicator whose other rank never comes?
 *
 * nccl-two-hosts: the same two processes, each of which pretends to NCCL that it is on a host of
 * its own (NCCL_HOSTID), so that it takes them, over sockets. That is slow, but the logic is that
 * of two hosts: does a transfer work, what does aborting take while a receive without its send runs
 * on the GPU, what does either end hear of that, and how does one hear that the other was killed?
 */
#include "bench/probe_nccl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_BYTES ((size_t)1048576)
#define ROUNDS 10
#define ALONE_NS INT64_C(300000000)
#define STANDS_NS INT64_C(50000000)
#define NEWS_NS INT64_C(2000000000)
#define BLOCKED_NS INT64_C(10000000)
#define WORD 0x2a9c2a9cU

enum { SAME_HOST, TWO_HOSTS };
enum { RANK_JOIN, RANK_SEND, RANK_RECV, RANK_WAIT, RANK_NEWS, RANK_ABORT };

/* Either process's. */
static struct {
    nccl_joined joined;
    CUstream stream;
    CUdeviceptr memory;
    uint32_t *word;
} rig;

/* Before NCCL is opened, which asks once. */
static bool open_rank(int variant, int rank, const char *shape)
{
    char host[32];
    (void)snprintf(host, sizeof host, "ferry-probe-%d", rank);
    if (variant == TWO_HOSTS && setenv("NCCL_HOSTID", host, 1) != 0)
        bench_fail("cannot set an environment variable");
    if (!nccl_open(shape))
        return false;
    rig.stream = probe_stream(0);
    rig.memory = probe_memory(SIZE_BYTES);
    rig.word = probe_pinned(sizeof *rig.word);
    return true;
}

static ncclResult_t queue(bool is_send, int rank)
{
    ncclResult_t result = nccl_group(rig.joined.comm, rank, is_send ? 0 : rig.memory,
                                     is_send ? rig.memory : 0, SIZE_BYTES, rig.stream);
    return result == ncclInProgress ? nccl_settle(rig.joined.comm, NCCL_SETTLE_NS) : result;
}

/* What the communicator says of itself when that is no longer success. */
static ncclResult_t hear_news(int64_t limit_ns, int64_t *took_ns_p)
{
    ncclResult_t state = ncclSuccess, result = ncclSuccess;
    int64_t begin_ns = bench_now_ns();
    do {
        result = nccl.ncclCommGetAsyncError(rig.joined.comm, &state);
        *took_ns_p = bench_now_ns() - begin_ns;
    } while (result == ncclSuccess && (state == ncclSuccess || state == ncclInProgress) &&
             *took_ns_p < limit_ns);
    return result == ncclSuccess ? state : result;
}

static ncclResult_t abort_comm(int64_t *took_ns_p)
{
    int64_t begin_ns = bench_now_ns();
    ncclResult_t result =
        rig.joined.comm != NULL ? nccl.ncclCommAbort(rig.joined.comm) : ncclSuccess;
    *took_ns_p = bench_now_ns() - begin_ns;
    rig.joined.comm = NULL;
    return result;
}

static uint32_t read_word(void)
{
    PROBE_CALL(cuMemcpyAsync, probe_address(rig.word), rig.memory + SIZE_BYTES - sizeof *rig.word,
               sizeof *rig.word, rig.stream);
    PROBE_CALL(cuStreamSynchronize, rig.stream);
    return probe_word(rig.word);
}

/* ---- the other process: rank 1 ---- */

static void obey(probe_message *message)
{
    ncclUniqueId id;
    switch (message->order) {
    case RANK_JOIN:
        memcpy(&id, message->id, sizeof id);
        rig.joined = nccl_join(&id, 2, 1, false, NCCL_JOIN_NS);
        message->took_ns = rig.joined.ready_ns;
        message->result = (int32_t)rig.joined.result;
        break;
    case RANK_SEND:
        probe_fill(rig.memory + SIZE_BYTES - sizeof message->word, message->word, rig.stream);
        message->result = (int32_t)queue(true, 0);
        break;
    case RANK_RECV:
        message->result = (int32_t)queue(false, 0);
        break;
    case RANK_WAIT:
        message->result = (int32_t)nccl_drain(rig.stream, NEWS_NS);
        message->word = read_word();
        break;
    case RANK_NEWS:
        message->result = (int32_t)hear_news(message->took_ns, &message->took_ns);
        break;
    default:
        message->result = (int32_t)abort_comm(&message->took_ns);
        break;
    }
}

void probe_nccl_rank(const probe_case *which)
{
    probe_message message;
    if (!open_rank(which->variant, 1, "rank"))
        return;
    while (probe_listen(&message)) {
        obey(&message);
        probe_reply(&message);
    }
}

/* ---- rank 0 ---- */

static probe_child other;

/* Both at the same time; each hears how it went. */
static void join_both(const char *shape, const char *other_shape)
{
    probe_message message = {.order = RANK_JOIN};
    ncclUniqueId id = nccl_id();
    memcpy(message.id, &id, sizeof id);
    probe_tell(&other, &message);
    rig.joined = nccl_join(&id, 2, 0, false, NCCL_JOIN_NS);
    nccl_row(shape, rig.joined.ready_ns, rig.joined.result);
    if (!probe_hear(&other, &message, NCCL_JOIN_NS))
        probe_fail("the other rank does not answer");
    probe_row(other_shape, (double)message.took_ns, "ns",
              message.result == ncclSuccess ? PROBE_YES : PROBE_NO, "%s",
              nccl_result_name((ncclResult_t)message.result));
}

static probe_message ask(int order, uint32_t word, int64_t limit_ns)
{
    probe_message message = {.order = order, .word = word, .took_ns = limit_ns};
    probe_tell(&other, &message);
    if (!probe_hear(&other, &message, NCCL_JOIN_NS))
        probe_fail("the other rank does not answer order %d", order);
    return message;
}

static void abort_both(const char *shape, const char *other_shape)
{
    int64_t took_ns;
    ncclResult_t result = abort_comm(&took_ns);
    nccl_row(shape, took_ns, result);
    probe_message message = ask(RANK_ABORT, 0, 0);
    probe_row(other_shape, (double)message.took_ns, "ns",
              message.result == ncclSuccess ? PROBE_YES : PROBE_NO, "%s",
              nccl_result_name((ncclResult_t)message.result));
}

static void tell_health(const char *shape)
{
    CUresult result = nccl_drain(rig.stream, NEWS_NS);
    if (result == CUDA_SUCCESS)
        result = driver.cuCtxSynchronize();
    probe_row(shape, NAN, "", result == CUDA_SUCCESS ? PROBE_YES : PROBE_NO, "%s",
              driver_error_name(result));
}

static void try_alone(void)
{
    int64_t took_ns;
    ncclUniqueId id = nccl_id();
    rig.joined = nccl_join(&id, 2, 0, false, ALONE_NS);
    probe_row("ranks-alone-waits", (double)rig.joined.call_ns, "ns",
              rig.joined.result == ncclInProgress ? PROBE_YES : PROBE_NO,
              "the call alone; after 0.3 s %s", nccl_result_name(rig.joined.result));
    ncclResult_t result = abort_comm(&took_ns);
    nccl_row("ranks-alone-abort", took_ns, result);
    tell_health("ranks-alone-healthy");
}

void probe_nccl_two_ranks(const probe_case *which)
{
    if (!nccl_is_there("ranks"))
        return;
    other = probe_peer_start("nccl-rank");
    if (!open_rank(which->variant, 0, "ranks"))
        return;
    join_both("ranks-join", "ranks-join-other");
    abort_both("ranks-abort", "ranks-abort-other");
    tell_health("ranks-healthy");
    try_alone();
}

/* ---- two hosts ---- */

static void try_transfers(void)
{
    bench_samples samples = {0};
    int right = 0, rounds = probe.is_smoke ? 2 : ROUNDS;
    for (int i = -1; i < rounds; i++) {
        probe_message message = {.order = RANK_SEND, .word = WORD + (uint32_t)i};
        int64_t begin_ns = bench_now_ns();
        probe_tell(&other, &message);
        nccl_check("a receive", queue(false, 1));
        PROBE_CALL(cuStreamSynchronize, rig.stream);
        if (i >= 0)
            bench_samples_add(&samples, (double)(bench_now_ns() - begin_ns));
        if (!probe_hear(&other, &message, NCCL_JOIN_NS))
            probe_fail("the other rank does not answer a send");
        right += i >= 0 && read_word() == WORD + (uint32_t)i;
    }
    probe_row("hosts-right", right, "right", right == rounds ? PROBE_YES : PROBE_NO,
              "of %d transfers of 1 MiB", rounds);
    probe_row_median("hosts-1MiB", &samples, "ns");
    bench_samples_free(&samples);
}

/* A receive without its send: its kernel runs, and waits there. */
static void stand(const char *shape)
{
    ncclResult_t result = queue(false, 1);
    bench_spin_ns(STANDS_NS);
    CUresult state = driver.cuStreamQuery(rig.stream);
    probe_row(shape, NAN, "",
              result == ncclSuccess && state == CUDA_ERROR_NOT_READY ? PROBE_YES : PROBE_NO,
              "a receive without its send after 50 ms: %s, %s", nccl_result_name(result),
              driver_error_name(state));
}

static void abort_standing(void)
{
    const char *slow;
    int64_t took_ns;
    stand("hosts-stuck-stands");
    probe_other_begin();
    ncclResult_t result = abort_comm(&took_ns);
    CUresult drained = nccl_drain(rig.stream, NEWS_NS);
    int64_t longest_ns = probe_other_end(&slow);
    nccl_row("hosts-stuck-abort", took_ns, result);
    probe_row("hosts-stuck-other", (double)longest_ns / 1e3, "us",
              longest_ns >= BLOCKED_NS ? PROBE_YES : PROBE_NO, "the longest, of %s", slow);
    probe_row("hosts-stuck-quiet", NAN, "", drained == CUDA_SUCCESS ? PROBE_YES : PROBE_NO,
              "the stream, after the abort: %s", driver_error_name(drained));
    tell_health("hosts-stuck-healthy");
    probe_message news = ask(RANK_NEWS, 0, NEWS_NS / 2);
    probe_row("hosts-stuck-other-hears", (double)news.took_ns, "ns",
              news.result != ncclSuccess && news.result != ncclInProgress ? PROBE_YES : PROBE_NO,
              "the other rank, within 1 s: %s", nccl_result_name((ncclResult_t)news.result));
    news = ask(RANK_ABORT, 0, 0);
    probe_row("hosts-stuck-other-abort", (double)news.took_ns, "ns",
              news.result == ncclSuccess ? PROBE_YES : PROBE_NO, "%s",
              nccl_result_name((ncclResult_t)news.result));
}

static void lose_other(void)
{
    int64_t took_ns;
    stand("hosts-killed-stands");
    (void)probe_peer_kill(&other);
    ncclResult_t result = hear_news(NEWS_NS, &took_ns);
    probe_row("hosts-killed-heard", (double)took_ns, "ns",
              result != ncclSuccess && result != ncclInProgress ? PROBE_YES : PROBE_NO,
              "by the communicator, within 2 s: %s", nccl_result_name(result));
    CUresult state = driver.cuStreamQuery(rig.stream);
    probe_row("hosts-killed-still-stands", NAN, "",
              state == CUDA_ERROR_NOT_READY ? PROBE_YES : PROBE_NO, "the receive: %s",
              driver_error_name(state));
    result = abort_comm(&took_ns);
    nccl_row("hosts-killed-abort", took_ns, result);
    tell_health("hosts-killed-healthy");
}

void probe_nccl_two_hosts(const probe_case *which)
{
    if (!nccl_is_there("hosts"))
        return;
    other = probe_peer_start("nccl-rank-host");
    if (!open_rank(which->variant, 0, "hosts"))
        return;
    probe_other_open();
    join_both("hosts-join", "hosts-join-other");
    if (rig.joined.result != ncclSuccess)
        return;
    try_transfers();
    abort_standing();
    join_both("hosts-join-again", "hosts-join-again-other");
    if (rig.joined.result != ncclSuccess)
        return;
    try_transfers();
    lose_other();
}
