/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How eight members get on with each other over NCCL, each with a GPU of its own on which one
 * kernel finds room at a time. On the emulator alone, whose kernels take the time that they are
 * told to, whatever the machine does. Transfers are of 256 bytes, between any two, and begin at
 * each end in an order of its own.
 *
 * - crowd [TRANSFERS [MICROSECONDS]]: prints how long all of them took, and how much longer that
 *   was than the kernels of the busiest GPU alone (ratio); and, with a member whose kernels take
 *   fifty times as long, how much later the median of the transfers that don't touch it ended
 *   (slow): not ten times, as if they all waited for it.
 * - Without arguments: few transfers, which all arrive.
 */
#include "tests/gpu/nccl.h"

#include "tests/emu/emu_nccl.h"

#define RANKS 8
#define BYTES 256
#define SLOW (RANKS - 1)
#define SLOWER 50
#define SLOW_MOST 5000 /* transfers with a slow member, which take long */

typedef struct transfer {
    int from, to;
    ferry_future *send, *receive;
    ferry_waiter waiter;
    int64_t ended_ns; /* of the receive */
} transfer;

typedef struct rank {
    gpu_engine ge;
    ferry_device *gpu;
    ferry_group *group;
    ferry_buffer *out, *in;
} rank;

static rank ranks[RANKS];
static transfer *transfers;
static int transfer_count;

static void open_ranks(void)
{
    ferry_future *joins[RANKS];
    for (int i = 0; i < RANKS; i++) {
        rank *self = &ranks[i];
        self->gpu = nccl_engine_open(&self->ge, i);
        size_t bytes = (size_t)transfer_count * BYTES;
        self->out = gpu_buffer(self->gpu, bytes, FERRY_MEMORY_DEFAULT);
        self->in = gpu_buffer(self->gpu, bytes, FERRY_MEMORY_DEFAULT);
        ferry_group_options group = nccl_group(RANKS, i);
        group.unexpected_max = 0; /* the default: all are sent at once */
        joins[i] = ferry_group_join(self->ge.engine, &group, &self->group);
    }
    for (int i = 0; i < RANKS; i++)
        CHECK_STATUS(gpu_end(joins[i]), FERRY_OK);
}

static void close_ranks(void)
{
    for (int i = 0; i < RANKS; i++) {
        ferry_buffer_release(ranks[i].out);
        ferry_buffer_release(ranks[i].in);
        ferry_group_release(ranks[i].group);
    }
    for (int i = 0; i < RANKS; i++)
        gpu_engine_close(&ranks[i].ge);
}

static void note_end(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    transfer *self = (transfer *)(void *)((char *)waiter - offsetof(transfer, waiter));
    (void)future, (void)status;
    self->ended_ns = in_ns(0);
}

static void begin_half(int i, bool is_send)
{
    transfer *self = &transfers[i];
    const rank *from = &ranks[self->from], *to = &ranks[self->to];
    if (is_send) {
        self->send = ferry_send(from->group, (ferry_rank)self->to, (ferry_tag)i,
                                (ferry_span){from->out, (size_t)i * BYTES, BYTES}, NULL);
        return;
    }
    self->receive = ferry_recv(to->group, (ferry_rank)self->from, (ferry_tag)i,
                               (ferry_span){to->in, (size_t)i * BYTES, BYTES}, NULL);
    self->waiter = (ferry_waiter){.fn = note_end};
    CHECK_STATUS(ferry_future_on_ready(self->receive, &self->waiter), FERRY_OK);
}

static int *shuffled(void)
{
    int *order = calloc((size_t)transfer_count, sizeof *order);
    for (int i = 0; i < transfer_count; i++) {
        int k = (int)below((size_t)i + 1);
        order[i] = order[k];
        order[k] = i;
    }
    return order;
}

static unsigned most_kernels(const unsigned *before)
{
    unsigned most = 0;
    for (int i = 0; i < RANKS; i++) {
        unsigned count = EMU_NCCL(emu_nccl_kernel_count)(i) - before[i];
        most = count > most ? count : most;
    }
    return most;
}

/* All of them, with all communicators made. Returns how long that took, and the kernels of the
 * busiest GPU. */
static int64_t exchange(unsigned *kernels_p)
{
    unsigned before[RANKS];
    int *sends = shuffled(), *receives = shuffled();
    for (int i = 0; i < RANKS; i++)
        before[i] = EMU_NCCL(emu_nccl_kernel_count)(i);
    int64_t begun_ns = in_ns(0);
    for (int i = 0; i < transfer_count; i++) {
        begin_half(sends[i], true);
        begin_half(receives[i], false);
    }
    for (int i = 0; i < transfer_count; i++) {
        CHECK_STATUS(gpu_end(transfers[i].send), FERRY_OK);
        CHECK_STATUS(gpu_end(transfers[i].receive), FERRY_OK);
    }
    int64_t took_ns = in_ns(0) - begun_ns;
    *kernels_p = most_kernels(before);
    for (int i = 0; i < transfer_count; i++)
        transfers[i].ended_ns -= begun_ns;
    free(sends);
    free(receives);
    return took_ns;
}

static int by_time(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

/* Of those that don't touch the slow member. */
static double median_s(void)
{
    size_t count = 0;
    int64_t *times = calloc((size_t)transfer_count, sizeof *times);
    for (int i = 0; i < transfer_count; i++) {
        if (transfers[i].from != SLOW && transfers[i].to != SLOW)
            times[count++] = transfers[i].ended_ns;
    }
    qsort(times, count, sizeof *times, by_time);
    double median = (double)times[count / 2] / 1e9;
    free(times);
    return median;
}

int main(int argc, char **argv)
{
    int count = 0;
    unsigned kernels = 0;
    bool is_test = argc < 2;
    transfer_count = argc > 1 ? atoi(argv[1]) : 2000;
    int64_t kernel_ns = argc > 2 ? atoi(argv[2]) * INT64_C(1000) : 2000000;
    CHECK_CUDA(cudaGetDeviceCount(&count));
    if (count < RANKS || EMU_NCCL(emu_nccl_kernel_time) == NULL) {
        (void)printf("there are no %d GPUs with the emulated NCCL\n", RANKS);
        return 0;
    }
    gpu_watch("a crowd", is_test ? 100 : 1000);
    EMU_NCCL(emu_nccl_resident)(1);
    transfers = calloc((size_t)transfer_count, sizeof *transfers);
    for (int i = 0; i < transfer_count; i++) {
        transfers[i].from = (int)below(RANKS);
        transfers[i].to = (transfers[i].from + 1 + (int)below(RANKS - 1)) % RANKS;
    }
    open_ranks();
    (void)exchange(&kernels); /* there are communicators */
    for (int i = 0; i < RANKS; i++)
        EMU_NCCL(emu_nccl_kernel_time)(i, kernel_ns);
    int64_t took_ns = exchange(&kernels);
    double ratio = (double)took_ns / ((double)kernels * (double)kernel_ns), alike_s = median_s();
    (void)printf("transfers %d, kernel %lld us: took %.3f s, ratio %.2f\n", transfer_count,
                 (long long)kernel_ns / 1000, (double)took_ns / 1e9, ratio);
    if (transfer_count <= SLOW_MOST) {
        EMU_NCCL(emu_nccl_kernel_time)(SLOW, kernel_ns * SLOWER);
        (void)exchange(&kernels);
        double slow = median_s() / alike_s;
        (void)printf("slow %.2f\n", slow);
        CHECK(slow <= 10);
    }
    close_ranks();
    free(transfers);
    return 0;
}
