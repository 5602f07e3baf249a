/* SPDX-License-Identifier: Apache-2.0 */
/* What NCCL itself does not tell, or tells as a hang: the emulator catches it. */
#include "faults.h"
#include "ranks.h"

#include <pthread.h>

#define BYTES ((size_t)4096)

static const int devices[] = {0, 1};

/* A clique of one, on which all else is done. */
static struct {
    ncclComm_t comm;
    CUstream stream;
    CUdeviceptr src, dst;
} rig;

static void open_rig(bool is_blocking)
{
    rig.comm = join(1, devices, is_blocking).comms[0];
    rig.stream = stream_on(0);
    rig.src = memory_on(0, BYTES, 1);
    rig.dst = memory_on(0, BYTES, 2);
}

static ncclResult_t exchange(void)
{
    OK(ncclGroupStart());
    (void)send_bytes(rig.src, BYTES, 0, rig.comm, rig.stream);
    (void)recv_bytes(rig.dst, BYTES, 0, rig.comm, rig.stream);
    return ncclGroupEnd();
}

/* ---- The two ends ---------------------------------------------------------------------------- */

static void run_sizes(bool faulty)
{
    clique both = join(2, devices, true);
    CUstream streams[] = {stream_on(0), stream_on(1)};
    CUdeviceptr memory[] = {memory_on(0, BYTES, 1), memory_on(1, BYTES, 2)};
    OK(send_bytes(memory[0], BYTES - faulty, 1, both.comms[0], streams[0]));
    OK(recv_bytes(memory[1], BYTES, 0, both.comms[1], streams[1]));
    GIVES(standing(), 0);
}

static void run_self_sizes(bool faulty)
{
    open_rig(true);
    OK(ncclGroupStart());
    OK(send_bytes(rig.src, BYTES - faulty, 0, rig.comm, rig.stream));
    OK(recv_bytes(rig.dst, BYTES, 0, rig.comm, rig.stream));
    OK(ncclGroupEnd());
}

/* ---- Who has a communicator ------------------------------------------------------------------ */

static void *send_beside(void *unused)
{
    use_device(0);
    GIVES(exchange(), ncclSuccess);
    return unused;
}

/* Another thread's group is open that has it. */
static void run_threads(bool faulty)
{
    pthread_t thread;
    open_rig(true);
    OK(ncclGroupStart());
    OK(send_bytes(rig.src, BYTES, 0, rig.comm, rig.stream));
    OK(recv_bytes(rig.dst, BYTES, 0, rig.comm, rig.stream));
    if (!faulty)
        OK(ncclGroupEnd());
    CHECK(pthread_create(&thread, NULL, send_beside, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    if (faulty)
        OK(ncclGroupEnd());
}

static void run_aborted(bool faulty)
{
    open_rig(true);
    if (faulty)
        OK(ncclCommAbort(rig.comm));
    OK(exchange());
}

static void run_aborted_twice(bool faulty)
{
    open_rig(true);
    OK(ncclCommAbort(rig.comm));
    if (faulty)
        OK(ncclCommAbort(rig.comm));
}

static void run_destroyed(bool faulty)
{
    ncclResult_t state;
    open_rig(false);
    if (faulty)
        OK(ncclCommDestroy(rig.comm));
    OK(ncclCommGetAsyncError(rig.comm, &state));
}

static void run_finalised(bool faulty)
{
    open_rig(true);
    if (faulty)
        OK(ncclCommFinalize(rig.comm));
    OK(exchange());
}

/* The thread of a communicator that does not block comes to the stream later. */
static void run_stream(bool faulty)
{
    open_rig(false);
    emu_nccl_delay(-1);
    GIVES(exchange(), ncclInProgress);
    if (faulty)
        OK(cuStreamDestroy(rig.stream));
    emu_nccl_delay(0);
    OK(settle(rig.comm));
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void run_freed(bool faulty)
{
    open_rig(true);
    if (faulty)
        OK(cuMemFree(rig.dst));
    OK(exchange());
}

static void run_past_the_end(bool faulty)
{
    open_rig(true);
    OK(ncclGroupStart());
    OK(send_bytes(rig.src, BYTES, 0, rig.comm, rig.stream));
    OK(recv_bytes(rig.dst + faulty, BYTES, 0, rig.comm, rig.stream));
    OK(ncclGroupEnd());
}

/* Given back to its pool on a stream that does not wait for the kernel that touches it. */
static void run_free_beside(bool faulty)
{
    clique both = join(2, devices, true);
    CUstream stream = stream_on(0);
    CUstream other = stream_on(0);
    CUdeviceptr memory;
    OK(cuMemAllocAsync(&memory, BYTES, stream));
    OK(recv_bytes(memory, BYTES, 1, both.comms[0], stream));
    GIVES(standing(), 1);
    OK(cuMemFreeAsync(memory, faulty ? other : stream));
    OK(ncclCommAbort(both.comms[0]));
}

/* A copy on another stream, without waiting for the group. */
static void run_beside(bool faulty)
{
    open_rig(true);
    CUstream other = stream_on(0);
    hold_back();
    OK(exchange());
    if (!faulty)
        order(rig.stream, other);
    OK(cuMemsetD8Async(rig.dst, 3, BYTES, other));
}

/* An event that is recorded before the group is in its stream orders nothing behind it. */
static void run_event_at_once(bool faulty)
{
    open_rig(false);
    CUstream other = stream_on(0);
    CUevent event = new_event();
    hold_back();
    emu_nccl_delay(-1);
    GIVES(exchange(), ncclInProgress);
    if (!faulty) {
        emu_nccl_delay(0);
        OK(settle(rig.comm));
    }
    OK(cuEventRecord(event, rig.stream));
    OK(cuStreamWaitEvent(other, event, 0));
    OK(cuMemsetD8Async(rig.dst, 3, BYTES, other));
    emu_nccl_delay(0);
    OK(settle(rig.comm));
}

/* Two receives of one group into the same bytes. */
static void run_overlap(bool faulty)
{
    open_rig(true);
    OK(ncclGroupStart());
    for (int i = 0; i < 2; i++) {
        OK(send_bytes(rig.src, BYTES / 2, 0, rig.comm, rig.stream));
        OK(recv_bytes(rig.dst + (size_t)(faulty ? 0 : i) * BYTES / 2, BYTES / 2, 0, rig.comm,
                      rig.stream));
    }
    OK(ncclGroupEnd());
}

int main(int argc, char **argv)
{
    static const fault faults[] = {
        {"sizes", run_sizes},
        {"self_sizes", run_self_sizes},
        {"threads", run_threads},
        {"aborted", run_aborted},
        {"aborted_twice", run_aborted_twice},
        {"destroyed", run_destroyed},
        {"finalised", run_finalised},
        {"stream", run_stream},
        {"freed", run_freed},
        {"past_the_end", run_past_the_end},
        {"free_beside", run_free_beside},
        {"beside", run_beside},
        {"event_at_once", run_event_at_once},
        {"overlap", run_overlap},
    };
    return faults_main(argc, argv, faults, sizeof faults / sizeof faults[0]);
}
