/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members that send each other GPU memory over NCCL beside a collective of the program's. On the
 * emulator a GPU has room for one kernel of NCCL, so a message and a collective that do not know of
 * each other stand for ever.
 *
 * - alone: nobody pauses, and the message ends by its deadline alone.
 * - held: one after the other pauses, and stands in the collective; messages wait, others go.
 * - making: communicators that are being made when a member pauses are made later.
 * - beside: each member sends, pauses, reduces and resumes on its own, again and again.
 * - silent: who has paused makes no progress any more, and what it sent before arrives.
 * - late: what goes does not end; pauses that are cancelled, and resumed; members that leave.
 */
#include "tests/emu/emu_nccl.h"
#include "tests/gpu/nccl.h"

#include <semaphore.h>

#define RANKS 3
#define BYTES 4096
#define TURNS (20 * ROUNDS)
#define NCCL(name) ((__typeof__(&(name)))nccl_emulators(#name))

typedef struct rank {
    gpu_engine ge;
    ferry_device *gpu, *host;
    ferry_group *group;
    ncclComm_t comm; /* the program's */
    cudaStream_t stream;
    float *numbers; /* on the GPU: its own, and the sum */
    pthread_t thread;
} rank;

static rank ranks[RANKS];
static int gpu_count;

/* ---- members ---- */

static void open_ranks(int count)
{
    ferry_future *joins[RANKS];
    for (int i = 0; i < count; i++) {
        rank *self = &ranks[i];
        self->gpu = nccl_engine_open(&self->ge, i);
        self->host = ferry_device_find(self->ge.engine, "host:0");
        ferry_group_options group = nccl_group(count, i);
        joins[i] = ferry_group_join(self->ge.engine, &group, &self->group);
    }
    for (int i = count; i-- > 0;)
        CHECK_STATUS(gpu_end(joins[i]), FERRY_OK);
}

static void close_ranks(int count)
{
    for (int i = 0; i < count; i++)
        ferry_group_release(ranks[i].group);
    for (int i = 0; i < count; i++)
        gpu_engine_close(&ranks[i].ge);
}

static uint64_t lots_of(int i)
{
    uint64_t lots = 0;
    for (int k = 0; k < RANKS; k++) {
        ferry_member_info info = FERRY_MEMBER_INFO_INIT;
        CHECK_STATUS(ferry_group_member(ranks[i].group, (ferry_rank)k, &info), FERRY_OK);
        lots += info.nccl_groups;
    }
    return lots;
}

static void pause_one(int i)
{
    CHECK_STATUS(gpu_end(ferry_group_nccl_pause(ranks[i].group, 0)), FERRY_OK);
}

static void resume_one(int i)
{
    CHECK_STATUS(gpu_end(ferry_group_nccl_resume(ranks[i].group)), FERRY_OK);
}

/* ---- messages ---- */

typedef struct message {
    int from, to;
    ferry_buffer *src, *dst;
    ferry_future *send, *receive;
} message;

static void begin(message *self, int from, int to, ferry_tag tag, int64_t deadline_ns)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.deadline_ns = deadline_ns;
    self->from = from;
    self->to = to;
    self->src = gpu_buffer(ranks[from].gpu, BYTES, FERRY_MEMORY_DEFAULT);
    self->dst = gpu_buffer(ranks[to].gpu, BYTES, FERRY_MEMORY_DEFAULT);
    OWN_BUFFER *bytes = gpu_buffer(ranks[from].host, BYTES, FERRY_MEMORY_DEFAULT);
    fill(ferry_buffer_data(bytes), BYTES, tag);
    CHECK_STATUS(gpu_end(ferry_copy(ranks[from].ge.engine, ferry_buffer_span(self->src),
                                    ferry_buffer_span(bytes), NULL)),
                 FERRY_OK);
    self->receive =
        ferry_recv(ranks[to].group, (ferry_rank)from, tag, ferry_buffer_span(self->dst), &options);
    self->send =
        ferry_send(ranks[from].group, (ferry_rank)to, tag, ferry_buffer_span(self->src), &options);
}

static void give_back(message *self)
{
    ferry_buffer_release(self->src);
    ferry_buffer_release(self->dst);
}

static void end(message *self, ferry_tag tag)
{
    CHECK_STATUS(gpu_end(self->send), FERRY_OK);
    CHECK_STATUS(gpu_end(self->receive), FERRY_OK);
    OWN_BUFFER *bytes = gpu_buffer(ranks[self->to].host, BYTES, FERRY_MEMORY_DEFAULT);
    CHECK_STATUS(gpu_end(ferry_copy(ranks[self->to].ge.engine, ferry_buffer_span(bytes),
                                    ferry_buffer_span(self->dst), NULL)),
                 FERRY_OK);
    CHECK(is_filled(ferry_buffer_data(bytes), BYTES, tag));
    give_back(self);
}

static void pass(int from, int to, ferry_tag tag)
{
    message one;
    begin(&one, from, to, tag, 0);
    end(&one, tag);
}

static void pass_all(void)
{
    for (int i = 0; i < RANKS; i++)
        pass(i, (i + 1) % RANKS, 1);
}

/* Which takes the loop some ticks. */
static void pass_to_itself(int i)
{
    OWN_BUFFER *some = gpu_buffer(ranks[i].host, 16, FERRY_MEMORY_DEFAULT);
    ferry_span src = {some, 0, 8}, dst = {some, 8, 8};
    ferry_future *receive = ferry_recv(ranks[i].group, (ferry_rank)i, 6, dst, NULL);
    CHECK_STATUS(gpu_end(ferry_send(ranks[i].group, (ferry_rank)i, 6, src, NULL)), FERRY_OK);
    CHECK_STATUS(gpu_end(receive), FERRY_OK);
}

static void check_pending(const message *self)
{
    CHECK_STATUS(ferry_future_poll(self->send), FERRY_PENDING);
    CHECK_STATUS(ferry_future_poll(self->receive), FERRY_PENDING);
}

/* ---- the program's collective ---- */

static void open_collective(void)
{
    ncclComm_t comms[RANKS];
    int devices[RANKS];
    for (int i = 0; i < RANKS; i++)
        devices[i] = i;
    CHECK(NCCL(ncclCommInitAll)(comms, RANKS, devices) == ncclSuccess);
    for (int i = 0; i < RANKS; i++) {
        const float number = (float)(1 << i);
        ranks[i].comm = comms[i];
        CHECK_CUDA(cudaSetDevice(i));
        CHECK_CUDA(cudaStreamCreateWithFlags(&ranks[i].stream, cudaStreamNonBlocking));
        CHECK_CUDA(cudaMalloc((void **)&ranks[i].numbers, 2 * sizeof number));
        CHECK_CUDA(cudaMemcpy(ranks[i].numbers, &number, sizeof number, cudaMemcpyHostToDevice));
    }
}

static void close_collective(void)
{
    for (int i = 0; i < RANKS; i++) {
        CHECK(NCCL(ncclCommDestroy)(ranks[i].comm) == ncclSuccess);
        CHECK_CUDA(cudaSetDevice(i));
        CHECK_CUDA(cudaStreamDestroy(ranks[i].stream));
        CHECK_CUDA(cudaFree(ranks[i].numbers));
    }
}

static void reduce(int i)
{
    rank *self = &ranks[i];
    CHECK_CUDA(cudaSetDevice(i));
    CHECK_CUDA(cudaMemsetAsync(self->numbers + 1, 0, sizeof(float), self->stream));
    CHECK(NCCL(ncclAllReduce)(self->numbers, self->numbers + 1, 1, ncclFloat, ncclSum, self->comm,
                              self->stream) == ncclSuccess);
}

static void end_reduce(int i)
{
    float sum = 0;
    CHECK_CUDA(cudaSetDevice(i));
    CHECK_CUDA(cudaMemcpyAsync(&sum, ranks[i].numbers + 1, sizeof sum, cudaMemcpyDeviceToHost,
                               ranks[i].stream));
    CHECK_CUDA(cudaStreamSynchronize(ranks[i].stream));
    CHECK(sum == (float)((1 << RANKS) - 1));
}

/* Until a kernel more than that has had room there, or the message is over. */
static void await_kernel(int i, unsigned begun, const message *self)
{
    while (EMU_NCCL(emu_nccl_kernel_count)(i) == begun &&
           (self == NULL || ferry_future_poll(self->receive) == FERRY_PENDING))
        pass_to_itself(i);
}

/* ---- tests ---- */

static void test_alone(void)
{
    message one;
    const char *room = getenv("FERRY_EMU_NCCL_RESIDENT");
    if (room == NULL || strcmp(room, "1") != 0 || EMU_NCCL(emu_nccl_kernel_count) == NULL)
        return;
    gpu_watch("beside a collective, without a pause", 100);
    open_ranks(RANKS);
    open_collective();
    pass_all();
    unsigned begun = EMU_NCCL(emu_nccl_kernel_count)(0);
    reduce(0);
    await_kernel(0, begun, NULL);
    begun = EMU_NCCL(emu_nccl_kernel_count)(1);
    begin(&one, 1, 0, 2, in_ns(300000000));
    await_kernel(1, begun, &one); /* each has one of the GPUs, or it is too late already */
    reduce(1);
    reduce(2);
    CHECK(ferry_future_wait(one.receive, -1) != FERRY_OK);
    CHECK(ferry_future_wait(one.send, -1) != FERRY_OK);
    for (int i = 0; i < RANKS; i++)
        end_reduce(i);
    CHECK(gpu_end(one.receive) != FERRY_OK && gpu_end(one.send) != FERRY_OK);
    give_back(&one);
    pass_all();
    close_collective();
    close_ranks(RANKS);
}

static void test_held(void)
{
    message held;
    gpu_watch("members that pause", 100);
    open_ranks(RANKS);
    open_collective();
    pass_all();
    pause_one(0);
    reduce(0);
    begin(&held, 1, 0, 2, 0);
    pass(1, 2, 3);
    pause_one(1);
    reduce(1);
    pause_one(2);
    pause_one(2);
    reduce(2);
    for (int i = 0; i < RANKS; i++)
        end_reduce(i);
    check_pending(&held);
    resume_one(2);
    resume_one(1);
    pass(2, 1, 4);
    check_pending(&held);
    resume_one(0);
    end(&held, 2);
    pass_all();
    close_collective();
    close_ranks(RANKS);
}

static void test_making(void)
{
    if (EMU_NCCL(emu_nccl_delay) == NULL)
        return;
    gpu_watch("pauses while communicators are made", 100);
    for (int round = 0; round < 6; round++) {
        message ones[RANKS];
        open_ranks(RANKS);
        EMU_NCCL(emu_nccl_delay)(-1);
        for (int i = 0; i < RANKS; i++)
            begin(&ones[i], i, (i + 1) % RANKS, 5, 0);
        for (int i = 0; i < RANKS; i++) { /* the loops have time to come to it, or not */
            for (int k = 0; k < round * 20; k++)
                pass_to_itself(i);
        }
        for (int i = 0; i < RANKS; i++)
            pause_one((i + round) % RANKS);
        EMU_NCCL(emu_nccl_delay)(0);
        for (int i = 0; i < RANKS; i++) {
            check_pending(&ones[i]);
            CHECK(lots_of(i) == 0);
        }
        for (int i = 0; i < RANKS; i++)
            resume_one(i);
        for (int i = 0; i < RANKS; i++)
            end(&ones[i], 5);
        for (int i = 0; i < RANKS; i++)
            CHECK(lots_of(i) != 0); /* over NCCL, as if nothing had been */
        close_ranks(RANKS);
    }
}

/* Nobody waits for a message while another may be paused, or both would wait. */
static void *live(void *arg)
{
    static message messages[RANKS][TURNS][RANKS - 1];
    const int i = (int)((rank *)arg - ranks);
    for (int turn = 0; turn < TURNS; turn++) {
        for (int k = 0; k < RANKS - 1; k++)
            begin(&messages[i][turn][k], i, (i + 1 + k) % RANKS, 100 + (ferry_tag)turn, 0);
        for (int k = 0; k < (turn + i) % 3 * 4; k++) /* some go before it, some after it */
            pass_to_itself(i);
        pause_one(i);
        const uint64_t lots = lots_of(i);
        reduce(i);
        end_reduce(i);
        CHECK(lots_of(i) == lots);
        resume_one(i);
    }
    for (int turn = 0; turn < TURNS; turn++) {
        for (int k = 0; k < RANKS - 1; k++)
            end(&messages[i][turn][k], 100 + (ferry_tag)turn);
    }
    return NULL;
}

static void test_beside(void)
{
    gpu_watch("messages beside collectives", 200);
    open_ranks(RANKS);
    open_collective();
    for (int i = 0; i < RANKS; i++)
        CHECK(pthread_create(&ranks[i].thread, NULL, live, &ranks[i]) == 0);
    for (int i = 0; i < RANKS; i++)
        CHECK(pthread_join(ranks[i].thread, NULL) == 0);
    close_collective();
    close_ranks(RANKS);
}

static ferry_status stand_still(void *arg)
{
    while (sem_wait(arg) != 0)
        continue;
    return FERRY_OK;
}

/* As in a program that drives its engine, and now waits for its collective. */
static void test_silent(void)
{
    sem_t go;
    gpu_watch("a member that makes no progress", 100);
    CHECK(sem_init(&go, 0, 0) == 0);
    open_ranks(2);
    for (int round = 0; round < 20 * ROUNDS; round++) {
        message one;
        begin(&one, 1, 0, 8, 0);
        CHECK_STATUS(gpu_end(ferry_future_issued(one.receive)), FERRY_OK);
        pause_one(1);
        ferry_future *silence =
            ferry_call(ranks[1].ge.engine, ferry_executor_loop(), stand_still, &go, NULL);
        CHECK_STATUS(gpu_end(one.receive), FERRY_OK);
        CHECK(sem_post(&go) == 0);
        CHECK_STATUS(gpu_end(silence), FERRY_OK);
        CHECK_STATUS(gpu_end(one.send), FERRY_OK);
        resume_one(1);
        give_back(&one);
    }
    close_ranks(2);
    CHECK(sem_destroy(&go) == 0);
}

/* A message stands on the GPUs, which the test holds. */
static void test_late(void)
{
    message one;
    if (EMU(emu_hold) == NULL)
        return;
    gpu_watch("pauses that take long", 100);
    open_ranks(2);
    begin(&one, 1, 0, 7, 0);
    end(&one, 7);
    one.src = gpu_buffer(ranks[1].gpu, BYTES, FERRY_MEMORY_DEFAULT);
    one.dst = gpu_buffer(ranks[0].gpu, BYTES, FERRY_MEMORY_DEFAULT);
    EMU(emu_hold)();
    one.receive = ferry_recv(ranks[0].group, 1, 9, ferry_buffer_span(one.dst), NULL);
    one.send = ferry_send(ranks[1].group, 0, 9, ferry_buffer_span(one.src), NULL);
    CHECK_STATUS(gpu_end(ferry_future_issued(one.receive)), FERRY_OK);
    ferry_future *late = ferry_group_nccl_pause(ranks[0].group, in_ns(20000000));
    CHECK_STATUS(ferry_future_wait(late, -1), FERRY_E_DEADLINE);
    CHECK(ferry_future_error(late)->rank == 1);
    ferry_future_release(late);

    ferry_future *cancelled = ferry_group_nccl_pause(ranks[0].group, 0);
    CHECK_STATUS(ferry_future_cancel(cancelled), FERRY_OK);
    CHECK_STATUS(gpu_end(cancelled), FERRY_E_CANCELLED);

    ferry_future *resumed = ferry_group_nccl_pause(ranks[0].group, 0);
    resume_one(0);
    CHECK_STATUS(gpu_end(resumed), FERRY_E_CANCELLED);

    ferry_future *pauses[2] = {ferry_group_nccl_pause(ranks[0].group, 0),
                               ferry_group_nccl_pause(ranks[1].group, 0)};
    CHECK_STATUS(ferry_future_poll(pauses[0]), FERRY_PENDING);
    CHECK_STATUS(ferry_future_poll(pauses[1]), FERRY_PENDING);
    EMU(emu_release)();
    CHECK_STATUS(gpu_end(pauses[0]), FERRY_OK);
    CHECK_STATUS(gpu_end(pauses[1]), FERRY_OK);
    CHECK_STATUS(gpu_end(one.send), FERRY_OK);
    CHECK_STATUS(gpu_end(one.receive), FERRY_OK);
    give_back(&one);
    resume_one(1);

    message held; /* a member that leaves takes part again, and is not waited for when it is gone */
    begin(&held, 0, 1, 10, 0);
    check_pending(&held);
    CHECK_STATUS(gpu_end(ferry_group_leave(ranks[0].group)), FERRY_OK);
    end(&held, 10);
    CHECK_STATUS(gpu_end(ferry_group_nccl_pause(ranks[1].group, 0)), FERRY_OK);
    close_ranks(2);
}

int main(int argc, char **argv)
{
    static const named_test tests[] = {{"alone", test_alone},   {"held", test_held},
                                       {"making", test_making}, {"beside", test_beside},
                                       {"silent", test_silent}, {"late", test_late}};
    CHECK_CUDA(cudaGetDeviceCount(&gpu_count));
    if (gpu_count < RANKS || !nccl_is_here()) {
        (void)printf("skipped: NCCL and %d GPUs are needed\n", RANKS);
        return 77;
    }
    run_named(argc, argv, tests, sizeof tests / sizeof *tests);
    return 0;
}
