/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why nobody should launch NCCL's kernels as they come. Where few are resident at a time, programs
 * of which each launches in its own order stand for ever; launched in one order that all agree on
 * they end. What stands is not guessed from the time: the emulator says that nothing can go on.
 */
#include "ranks.h"

#define BYTES ((size_t)200000) /* more than is on the way at once */

static const int devices[] = {0, 1, 2};

/* A rank's memory and streams; a stream for each of its peers and directions. */
static struct {
    CUdeviceptr src, dst[3];
    CUstream sends[3], recvs[3];
} ranks[3];

static void open_ranks(int count)
{
    for (int i = 0; i < count; i++) {
        ranks[i].src = memory_on(i, BYTES, 'a' + i);
        for (int j = 0; j < count; j++) {
            ranks[i].dst[j] = memory_on(i, BYTES, 0);
            ranks[i].sends[j] = stream_on(i);
            ranks[i].recvs[j] = stream_on(i);
        }
    }
}

/* Over a communicator of two, in which `rank` and `peer` have those places. */
static void send_to(int rank, int peer, ncclComm_t comm, int place)
{
    OK(send_bytes(ranks[rank].src, BYTES, place, comm, ranks[rank].sends[peer]));
}

static void recv_from(int rank, int peer, ncclComm_t comm, int place)
{
    OK(recv_bytes(ranks[rank].dst[peer], BYTES, place, comm, ranks[rank].recvs[peer]));
}

/* Nothing stands, and all have what was sent to them; or all stand that were launched. */
static void end(bool ends, unsigned launched, int count)
{
    GIVES(standing(), ends ? 0 : launched);
    for (int i = 0; i < count; i++) {
        GIVES(emu_nccl_resident_count(i), ends ? 0 : 1);
        for (int j = 0; j < count; j++) {
            CUresult state = cuStreamQuery(ranks[i].recvs[j]);
            CHECK(!ends || state == CUDA_SUCCESS);
        }
    }
}

static void drain(int count)
{
    for (int i = 0; i < count; i++) {
        use_device(i);
        OK(cuCtxSynchronize());
    }
}

/* Two ranks, a communicator for each direction; both send first, or take them in one order. */
static void run_two(bool is_agreed, unsigned most)
{
    open_ranks(2);
    clique there = join(2, devices, true), back = join(2, devices, true);
    emu_nccl_resident(most);
    send_to(0, 1, there.comms[0], 1);
    recv_from(0, 1, back.comms[0], 1);
    if (!is_agreed)
        send_to(1, 0, back.comms[1], 0);
    recv_from(1, 0, there.comms[1], 0);
    if (is_agreed)
        send_to(1, 0, back.comms[1], 0);
    bool ends = is_agreed || most > 1;
    end(ends, 4, 2);
    if (ends)
        CHECK(is_filled(ranks[1].dst[0], BYTES, 'a') && is_filled(ranks[0].dst[1], BYTES, 'b'));
    abort_all(&there);
    abort_all(&back);
    drain(2);
}

/* One communicator, whose kernels go one after the other: room does not help. */
static void run_one_comm(bool is_agreed)
{
    open_ranks(2);
    clique both = join(2, devices, false);
    for (int i = 0; i < 2; i++) {
        if (is_agreed)
            OK(ncclGroupStart());
        ncclResult_t result =
            send_bytes(ranks[i].src, BYTES, 1 - i, both.comms[i], ranks[i].sends[1 - i]);
        GIVES(result, is_agreed ? ncclSuccess : ncclInProgress);
        if (!is_agreed)
            OK(settle(both.comms[i]));
        result =
            recv_bytes(ranks[i].dst[1 - i], BYTES, 1 - i, both.comms[i], ranks[i].recvs[1 - i]);
        GIVES(result, is_agreed ? ncclSuccess : ncclInProgress);
        if (is_agreed)
            GIVES(ncclGroupEnd(), ncclInProgress);
        OK(settle(both.comms[i]));
    }
    end(is_agreed, 4, 2);
    abort_all(&both);
    drain(2);
}

/* Each of three sends to the next and receives from the one before, a communicator for each pair.
 */
static void run_three(bool is_agreed)
{
    clique pairs[3]; /* the i-th is of i and i + 1, which have those places */
    open_ranks(3);
    for (int i = 0; i < 3; i++)
        pairs[i] = join(2, (const int[]){i, (i + 1) % 3}, true);
    emu_nccl_resident(1);
    for (int i = 0; i < 3; i++) {
        int before = (i + 2) % 3;
        /* Agreed is the order of the pairs. */
        bool recv_first = is_agreed && before < i;
        if (recv_first)
            recv_from(i, before, pairs[before].comms[1], 0);
        send_to(i, (i + 1) % 3, pairs[i].comms[0], 1);
        if (!recv_first)
            recv_from(i, before, pairs[before].comms[1], 0);
    }
    end(is_agreed, 6, 3);
    for (int i = 0; i < 3 && is_agreed; i++)
        CHECK(is_filled(ranks[(i + 1) % 3].dst[i], BYTES, 'a' + i));
    for (int i = 0; i < 3; i++)
        abort_all(&pairs[i]);
    drain(3);
}

/* A transfer beside somebody's all-reduce. */
static void run_foreign(bool is_agreed)
{
    open_ranks(2);
    clique ours = join(2, devices, true), theirs = join(2, devices, true);
    emu_nccl_resident(1);
    for (int i = 0; i < 2; i++) {
        bool reduce_first = i == 1 && !is_agreed;
        for (int step = 0; step < 2; step++) {
            if ((step == 0) == reduce_first)
                OK(ncclAllReduce((const void *)(uintptr_t)ranks[i].src,
                                 (void *)(uintptr_t)ranks[i].dst[i], BYTES, ncclUint8, ncclSum,
                                 theirs.comms[i], ranks[i].sends[i]));
            else if (i == 0)
                send_to(0, 1, ours.comms[0], 1);
            else
                recv_from(1, 0, ours.comms[1], 0);
        }
    }
    end(is_agreed, 4, 2);
    abort_all(&ours);
    abort_all(&theirs);
    drain(2);
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    bool is_agreed = strcmp(argv[2], "agreed") == 0;
    OK(cuInit(0));
    if (strcmp(argv[1], "two") == 0)
        run_two(is_agreed, 1);
    else if (strcmp(argv[1], "room") == 0)
        run_two(is_agreed, 2);
    else if (strcmp(argv[1], "one_comm") == 0)
        run_one_comm(is_agreed);
    else if (strcmp(argv[1], "three") == 0)
        run_three(is_agreed);
    else if (strcmp(argv[1], "foreign") == 0)
        run_foreign(is_agreed);
    else
        return EXIT_FAILURE; /* no such case */
    return EXIT_SUCCESS;
}
