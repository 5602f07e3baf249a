/* SPDX-License-Identifier: Apache-2.0 */
/* Every function of the emulated NCCL, and every rule: one case a run, in one process or two. */
#include "ranks.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES ((size_t)300000) /* more than is on the way at once */

static const int devices[] = {0, 1};

typedef struct end {
    CUstream stream;
    CUdeviceptr src, dst;
} end;

static end open_end(int device)
{
    return (end){stream_on(device), memory_on(device, BYTES, 'a' + device),
                 memory_on(device, BYTES, 0)};
}

/* A send and a receive, to and from that rank. */
static ncclResult_t exchange(const end *of, int peer, ncclComm_t comm)
{
    OK(ncclGroupStart());
    OK(send_bytes(of->src, BYTES, peer, comm, of->stream));
    OK(recv_bytes(of->dst, BYTES, peer, comm, of->stream));
    return ncclGroupEnd();
}

/* ---- What can be asked ---------------------------------------------------------------------- */

static void run_asked(void)
{
    int number = 0;
    clique both = join(2, devices, true);
    OK(ncclGetVersion(&number));
    GIVES(number, 22803);
    for (int i = 0; i < 2; i++) {
        OK(ncclCommCount(both.comms[i], &number));
        GIVES(number, 2);
        OK(ncclCommUserRank(both.comms[i], &number));
        GIVES(number, i);
        OK(ncclCommCuDevice(both.comms[i], &number));
        GIVES(number, i);
    }
    CHECK(strcmp(ncclGetErrorString(ncclSuccess), "no error") == 0);
    GIVES(ncclGetVersion(NULL), ncclInvalidArgument);
    CHECK(ncclGetLastError(NULL)[0] != '\0');
    CHECK(dlsym(RTLD_DEFAULT, "ncclCommRevoke") == NULL);
    abort_all(&both);
    OK(ncclCommInitAll(both.comms, 2, NULL));
    for (int i = 0; i < 2; i++)
        OK(ncclCommDestroy(both.comms[i]));
    ncclUniqueId id;
    ncclComm_t alone;
    OK(ncclGetUniqueId(&id));
    OK(ncclCommInitRank(&alone, 1, id, 0));
    GIVES(ncclCommInitRank(&alone, 1, id, 1), ncclInvalidArgument);
    GIVES(ncclGroupEnd(), ncclInvalidUsage);
}

/* ---- Transfers ------------------------------------------------------------------------------ */

static void run_transfer(bool is_blocking)
{
    end ends[] = {open_end(0), open_end(1)};
    clique both = join(2, devices, is_blocking);
    for (int i = 0; i < 2; i++) {
        GIVES(exchange(&ends[i], 1 - i, both.comms[i]), is_blocking ? ncclSuccess : ncclInProgress);
        OK(settle(both.comms[i]));
    }
    for (int i = 0; i < 2; i++) {
        OK(cuStreamSynchronize(ends[i].stream));
        CHECK(is_filled(ends[i].dst, BYTES, 'a' + 1 - i));
        ncclResult_t result = ncclCommFinalize(both.comms[i]);
        GIVES(result, is_blocking ? ncclSuccess : ncclInProgress);
        OK(settle(both.comms[i]));
        OK(ncclCommDestroy(both.comms[i]));
    }
}

static void run_blocking(void)
{
    run_transfer(true);
}

static void run_nonblocking(void)
{
    run_transfer(false);
}

static void run_self(void)
{
    end alone = open_end(0);
    clique one = join(1, devices, true);
    OK(exchange(&alone, 0, one.comms[0]));
    OK(cuStreamSynchronize(alone.stream));
    CHECK(is_filled(alone.dst, BYTES, 'a'));
    GIVES(send_bytes(alone.src, BYTES, 0, one.comms[0], alone.stream), ncclInvalidUsage);
    GIVES(recv_bytes(alone.dst, BYTES, 0, one.comms[0], alone.stream), ncclInvalidUsage);
    GIVES(send_bytes(alone.src, BYTES, 1, one.comms[0], alone.stream), ncclInvalidArgument);
    OK(exchange(&alone, 0, one.comms[0]));
    OK(ncclCommDestroy(one.comms[0]));
}

/* Several between the same ranks, of none and of one byte, too, meet in order. */
static void run_many(void)
{
    static const size_t sizes[] = {100, 0, 1, 70000, 5};
    end ends[] = {open_end(0), open_end(1)};
    clique both = join(2, devices, true);
    for (int i = 0; i < 2; i++) {
        size_t offset = 0;
        OK(ncclGroupStart());
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++) {
            if (i == 0)
                OK(send_bytes(ends[0].src + offset, sizes[j], 1, both.comms[0], ends[0].stream));
            else
                OK(recv_bytes(ends[1].dst + offset, sizes[j], 0, both.comms[1], ends[1].stream));
            offset += sizes[j];
        }
        OK(ncclGroupEnd());
    }
    OK(cuStreamSynchronize(ends[1].stream));
    CHECK(is_filled(ends[1].dst, 70106, 'a') && is_filled(ends[1].dst + 70106, 100, 0));
    abort_all(&both);
}

static void run_reduce(void)
{
    float ones[3] = {1, 2, 3};
    CUstream streams[2];
    CUdeviceptr memory[2];
    clique both = join(2, devices, true);
    for (int i = 0; i < 2; i++) {
        streams[i] = stream_on(i);
        memory[i] = memory_on(i, sizeof ones, 0);
        OK(cuMemcpyHtoD(memory[i], ones, sizeof ones));
        void *in_place = (void *)(uintptr_t)memory[i];
        GIVES(ncclAllReduce(in_place, in_place, 3, ncclFloat, ncclProd, both.comms[i], streams[i]),
              ncclInvalidArgument);
        OK(ncclAllReduce(in_place, in_place, 3, ncclFloat, ncclSum, both.comms[i], streams[i]));
    }
    for (int i = 0; i < 2; i++) {
        const float *sums = (const float *)(uintptr_t)memory[i];
        OK(cuStreamSynchronize(streams[i]));
        CHECK(sums[0] == 2 && sums[1] == 4 && sums[2] == 6);
    }
    abort_all(&both);
}

/* A group with two streams: the second stands behind it, too. */
static void run_streams(void)
{
    end ends[] = {open_end(0), open_end(1)};
    CUstream second = stream_on(0);
    clique both = join(2, devices, true);
    OK(ncclGroupStart());
    OK(send_bytes(ends[0].src, BYTES, 1, both.comms[0], ends[0].stream));
    OK(recv_bytes(ends[0].dst, BYTES, 1, both.comms[0], second));
    OK(ncclGroupEnd());
    GIVES(standing(), 1);
    GIVES(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
    OK(exchange(&ends[1], 0, both.comms[1]));
    OK(cuStreamSynchronize(second));
    CHECK(is_filled(ends[0].dst, BYTES, 'b'));
    abort_all(&both);
}

/* ---- When ------------------------------------------------------------------------------------ */

/* Neither end is over before the other has begun; a communicator's kernels go in their order. */
static void run_meet(void)
{
    end ends[] = {open_end(0), open_end(1)};
    CUstream other = stream_on(0);
    clique both = join(2, devices, true);
    OK(send_bytes(ends[0].src, 10, 1, both.comms[0], ends[0].stream));
    OK(send_bytes(ends[0].src, 20, 1, both.comms[0], other));
    GIVES(standing(), 2);
    GIVES(emu_nccl_resident_count(0), 1);
    GIVES(cuStreamQuery(ends[0].stream), CUDA_ERROR_NOT_READY);
    OK(recv_bytes(ends[1].dst, 10, 0, both.comms[1], ends[1].stream));
    GIVES(standing(), 1);
    OK(cuStreamQuery(ends[0].stream));
    OK(recv_bytes(ends[1].dst, 20, 0, both.comms[1], ends[1].stream));
    GIVES(standing(), 0);
    OK(recv_bytes(ends[1].dst, 1, 0, both.comms[1], ends[1].stream));
    GIVES(standing(), 1);
    OK(send_bytes(ends[0].src, 1, 1, both.comms[0], ends[0].stream));
    GIVES(standing(), 0);
    abort_all(&both);
}

/* Of those that wait for a slot the first is launched first, whatever its stream. */
static void run_slots(void)
{
    end ends[] = {open_end(0), open_end(1)};
    clique pairs[3];
    CUstream streams[3];
    for (int i = 0; i < 3; i++) {
        pairs[i] = join(2, devices, true);
        streams[i] = stream_on(0);
    }
    emu_nccl_resident(1);
    for (int i = 0; i < 3; i++)
        OK(send_bytes(ends[0].src, BYTES, 1, pairs[i].comms[0], streams[i]));
    OK(recv_bytes(ends[1].dst, BYTES, 0, pairs[0].comms[1], ends[1].stream));
    (void)standing();
    OK(cuStreamQuery(streams[0]));
    OK(recv_bytes(ends[1].dst, BYTES, 0, pairs[1].comms[1], ends[1].stream));
    (void)standing();
    OK(cuStreamQuery(streams[1]));
    GIVES(cuStreamQuery(streams[2]), CUDA_ERROR_NOT_READY);
    OK(recv_bytes(ends[1].dst, BYTES, 0, pairs[2].comms[1], ends[1].stream));
    GIVES(standing(), 0);
    for (int i = 0; i < 3; i++)
        abort_all(&pairs[i]);
}

/* An event that is recorded at once covers nothing of what a communicator does beside the thread.
 */
static void run_event(void)
{
    end alone = open_end(0);
    clique one = join(1, devices, false);
    ncclResult_t state;
    CUevent event = new_event();
    emu_nccl_delay(-1);
    GIVES(exchange(&alone, 0, one.comms[0]), ncclInProgress);
    OK(cuEventRecord(event, alone.stream));
    OK(cuEventSynchronize(event));
    OK(ncclCommGetAsyncError(one.comms[0], &state));
    GIVES(state, ncclInProgress);
    CHECK(is_filled(alone.dst, BYTES, 0));
    GIVES(send_bytes(alone.src, 1, 0, one.comms[0], alone.stream), ncclInvalidArgument);
    emu_nccl_delay(0);
    OK(settle(one.comms[0]));
    OK(cuEventRecord(event, alone.stream));
    OK(cuEventSynchronize(event));
    CHECK(is_filled(alone.dst, BYTES, 'a'));
    OK(ncclCommDestroy(one.comms[0]));
}

/* ---- Groups ---------------------------------------------------------------------------------- */

/* An open group takes in what is done on other communicators, and their making. */
static void run_group(void)
{
    end alone = open_end(0);
    clique one = join(1, devices, false);
    ncclUniqueId id;
    ncclComm_t made = NULL;
    ncclResult_t state;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    OK(ncclGroupStart());
    OK(exchange(&alone, 0, one.comms[0]));
    OK(ncclGetUniqueId(&id));
    OK(ncclCommInitRankConfig(&made, 1, id, 0, &config));
    GIVES(standing(), 0);
    CHECK(is_filled(alone.dst, BYTES, 0));
    OK(ncclCommGetAsyncError(made, &state));
    GIVES(state, ncclInProgress);
    GIVES(ncclGroupEnd(), ncclInProgress);
    OK(settle(made));
    OK(ncclCommAbort(made));
    OK(ncclGroupStart());
    OK(exchange(&alone, 0, one.comms[0]));
    GIVES(ncclGroupEnd(), ncclInProgress);
    OK(settle(one.comms[0]));
    GIVES(standing(), 0);
    CHECK(is_filled(alone.dst, BYTES, 'a'));
    abort_all(&one);
}

/* What fails in a group is all of it; kinds of communicators do not mix. */
static void run_group_fails(void)
{
    end alone = open_end(0);
    clique one = join(1, devices, true), other = join(1, devices, false);
    OK(ncclGroupStart());
    OK(send_bytes(alone.src, 1, 0, one.comms[0], alone.stream));
    GIVES(recv_bytes(alone.dst, 1, 1, one.comms[0], alone.stream), ncclInvalidArgument);
    GIVES(ncclGroupEnd(), ncclInvalidArgument);
    GIVES(standing(), 0);
    OK(ncclGroupStart());
    OK(send_bytes(alone.src, 1, 0, one.comms[0], alone.stream));
    GIVES(send_bytes(alone.src, 1, 0, other.comms[0], alone.stream), ncclInvalidArgument);
    GIVES(ncclGroupEnd(), ncclInvalidArgument);
    OK(exchange(&alone, 0, one.comms[0]));
    GIVES(recv_bytes(alone.dst, 1, 0, other.comms[0], alone.stream), ncclInProgress);
    GIVES(settle(other.comms[0]), ncclInvalidUsage);
    abort_all(&one);
    abort_all(&other);
}

/* ---- Ends and errors ------------------------------------------------------------------------- */

/* This side's kernels end, and those that have not begun; the other's stand, and it hears nothing.
 */
static void run_abort(void)
{
    end ends[] = {open_end(0), open_end(1)};
    clique both = join(2, devices, true);
    ncclResult_t state;
    OK(recv_bytes(ends[0].dst, BYTES, 1, both.comms[0], ends[0].stream));
    OK(recv_bytes(ends[0].dst, BYTES, 1, both.comms[0], ends[0].stream));
    OK(recv_bytes(ends[1].dst, BYTES, 0, both.comms[1], ends[1].stream));
    GIVES(standing(), 3);
    OK(ncclCommAbort(both.comms[0]));
    OK(cuStreamSynchronize(ends[0].stream));
    GIVES(standing(), 1);
    OK(ncclCommGetAsyncError(both.comms[1], &state));
    OK(state);
    OK(ncclCommAbort(both.comms[1]));
    OK(cuStreamSynchronize(ends[1].stream));
    use_device(0);
    OK(cuCtxSynchronize());
}

/* Behind something that is held: the abort does not wait for that. */
static void run_abort_held(void)
{
    end alone = open_end(0);
    clique one = join(1, devices, false);
    emu_hold_stream(alone.stream);
    GIVES(exchange(&alone, 0, one.comms[0]), ncclInProgress);
    OK(settle(one.comms[0]));
    GIVES(standing(), 1);
    abort_all(&one);
    emu_release_stream(alone.stream);
    OK(cuStreamSynchronize(alone.stream));
    CHECK(is_filled(alone.dst, BYTES, 0));
}

static void run_alone(void)
{
    ncclUniqueId id;
    ncclComm_t comm;
    ncclResult_t state;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    OK(ncclGetUniqueId(&id));
    GIVES(ncclCommInitRankConfig(&comm, 2, id, 0, &config), ncclInProgress);
    GIVES(standing(), 0);
    OK(ncclCommGetAsyncError(comm, &state));
    GIVES(state, ncclInProgress);
    OK(ncclCommAbort(comm));
}

static void run_one_device(void)
{
    ncclUniqueId id;
    ncclComm_t comms[2];
    OK(ncclGetUniqueId(&id));
    OK(ncclGroupStart());
    OK(ncclCommInitRank(&comms[0], 2, id, 0));
    OK(ncclCommInitRank(&comms[1], 2, id, 1));
    GIVES(ncclGroupEnd(), ncclInvalidUsage);
    CHECK(comms[0] == NULL && comms[1] == NULL);
}

static void run_script(void)
{
    int number;
    end alone = open_end(0);
    clique one = join(1, devices, true);
    OK(emu_nccl_fail_call("ncclCommCount", 2, ncclSystemError));
    OK(ncclCommCount(one.comms[0], &number));
    GIVES(ncclCommCount(one.comms[0], &number), ncclSystemError);
    OK(ncclCommCount(one.comms[0], &number));
    OK(emu_nccl_fail_call("ncclCommCount", 0, ncclInternalError));
    GIVES(ncclCommCount(one.comms[0], &number), ncclInternalError);
    GIVES(ncclCommCount(one.comms[0], &number), ncclInternalError);
    OK(emu_nccl_fail_call("ncclCommCount", 0, ncclSuccess));
    OK(ncclCommCount(one.comms[0], &number));
    GIVES(emu_nccl_fail_call("ncclNothing", 1, ncclSystemError), ncclInvalidArgument);
    emu_nccl_fail_kernel(2, ncclRemoteError);
    OK(exchange(&alone, 0, one.comms[0]));
    GIVES(standing(), 0);
    OK(exchange(&alone, 0, one.comms[0]));
    GIVES(standing(), 1);
    GIVES(settle(one.comms[0]), ncclRemoteError);
    GIVES(send_bytes(alone.src, 1, 0, one.comms[0], alone.stream), ncclRemoteError);
    abort_all(&one);
    GIVES(standing(), 0);
    clique next = join(1, devices, true);
    OK(emu_nccl_fail_comm(next.comms[0], ncclSystemError));
    GIVES(settle(next.comms[0]), ncclSystemError);
    OK(ncclCommDestroy(next.comms[0]));
}

/* With 2.28.9: this side's kernels end, the communicator is whole enough to be destroyed. */
static void run_revoke(void)
{
    int version;
    end mine = open_end(0);
    clique both = join(2, devices, false);
    ncclResult_t (*revoke)(ncclComm_t, int);
    void *symbol = dlsym(RTLD_DEFAULT, "ncclCommRevoke");
    OK(ncclGetVersion(&version));
    GIVES(version, 22809);
    CHECK(symbol != NULL);
    memcpy(&revoke, &symbol, sizeof symbol); /* ISO C has no cast for it */
    GIVES(recv_bytes(mine.dst, BYTES, 1, both.comms[0], mine.stream), ncclInProgress);
    OK(settle(both.comms[0]));
    GIVES(standing(), 1);
    GIVES(revoke(both.comms[0], 1), ncclInvalidArgument);
    GIVES(revoke(both.comms[0], 0), ncclInProgress);
    OK(settle(both.comms[0]));
    OK(cuStreamSynchronize(mine.stream));
    GIVES(recv_bytes(mine.dst, BYTES, 1, both.comms[0], mine.stream), ncclInvalidUsage);
    GIVES(ncclCommFinalize(both.comms[0]), ncclInvalidUsage);
    OK(ncclCommDestroy(both.comms[0]));
    OK(ncclCommAbort(both.comms[1]));
}

/* The environment has: fail ncclSend 1 3; nccl_error 1 6; nccl_delay 0. */
static void run_environment(void)
{
    int version;
    end alone = open_end(0);
    clique one = join(1, devices, true);
    OK(ncclGetVersion(&version));
    GIVES(version, 22809);
    GIVES(send_bytes(alone.src, 1, 0, one.comms[0], alone.stream), ncclInternalError);
    OK(exchange(&alone, 0, one.comms[0]));
    GIVES(standing(), 1);
    GIVES(settle(one.comms[0]), ncclRemoteError);
    abort_all(&one);
}

/* ---- Two processes --------------------------------------------------------------------------- */

/* The other end, on the same device of another host; it sends twice and stays, or leaves. */
static void be_other(int from, bool leaves)
{
    ncclUniqueId id;
    ncclComm_t comm;
    CHECK(setenv("NCCL_HOSTID", "other", 1) == 0);
    CHECK(read(from, &id, sizeof id) == sizeof id);
    OK(cuInit(0));
    end mine = open_end(0);
    OK(ncclCommInitRank(&comm, 2, id, 1));
    OK(exchange(&mine, 0, comm));
    OK(cuStreamSynchronize(mine.stream));
    CHECK(is_filled(mine.dst, BYTES, 'a'));
    if (leaves)
        OK(ncclCommDestroy(comm));
    else
        (void)pause();
    exit(EXIT_SUCCESS);
}

static void run_with_other(bool leaves)
{
    int fds[2], status;
    ncclUniqueId id;
    ncclComm_t comm;
    ncclResult_t state = ncclSuccess;
    CHECK(pipe(fds) == 0);
    pid_t other = fork(); /* before the driver is there */
    CHECK(other >= 0);
    if (other == 0)
        be_other(fds[0], leaves);
    OK(cuInit(0));
    end mine = open_end(0);
    OK(ncclGetUniqueId(&id));
    CHECK(write(fds[1], &id, sizeof id) == sizeof id);
    OK(ncclCommInitRank(&comm, 2, id, 0));
    OK(exchange(&mine, 1, comm));
    OK(cuStreamSynchronize(mine.stream));
    CHECK(is_filled(mine.dst, BYTES, 'a'));
    OK(recv_bytes(mine.dst, BYTES, 1, comm, mine.stream));
    if (!leaves)
        CHECK(kill(other, SIGKILL) == 0);
    CHECK(waitpid(other, &status, 0) == other);
    OK(ncclCommGetAsyncError(comm, &state));
    GIVES(state, leaves ? ncclSuccess : ncclRemoteError);
    GIVES(cuStreamQuery(mine.stream), CUDA_ERROR_NOT_READY);
    OK(ncclCommAbort(comm));
    OK(cuStreamSynchronize(mine.stream));
}

static void run_process_leaves(void)
{
    run_with_other(true);
}

static void run_process_killed(void)
{
    run_with_other(false);
}

/* The process ends while a kernel stands: that keeps it from nothing. */
static void run_exit(void)
{
    end mine = open_end(0);
    clique both = join(2, devices, true);
    OK(recv_bytes(mine.dst, BYTES, 1, both.comms[0], mine.stream));
    GIVES(standing(), 1);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"asked", run_asked},
        {"blocking", run_blocking},
        {"nonblocking", run_nonblocking},
        {"self", run_self},
        {"many", run_many},
        {"reduce", run_reduce},
        {"streams", run_streams},
        {"meet", run_meet},
        {"slots", run_slots},
        {"event", run_event},
        {"group", run_group},
        {"group_fails", run_group_fails},
        {"abort", run_abort},
        {"abort_held", run_abort_held},
        {"alone", run_alone},
        {"one_device", run_one_device},
        {"script", run_script},
        {"revoke", run_revoke},
        {"environment", run_environment},
        {"process_leaves", run_process_leaves},
        {"process_killed", run_process_killed},
        {"exit", run_exit},
    };
    CHECK(argc == 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(argv[1], cases[i].name) != 0)
            continue;
        if (strncmp(argv[1], "process", strlen("process")) != 0)
            OK(cuInit(0));
        cases[i].run();
        return EXIT_SUCCESS;
    }
    fprintf(stderr, "no case %s\n", argv[1]);
    return EXIT_FAILURE;
}
