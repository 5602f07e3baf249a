/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of GPU memory that both ends launch (NCCL). Two members of one process, each with a GPU.
 * Where there is one GPU, or no NCCL, the messages come another way, and the test says so.
 *
 * - sizes: both ways, from and to memory of all sorts, small and large.
 * - many: messages that are ready at once, both ways, in any order of tags.
 * - together: messages that are ready together go in few groups, both ways in one.
 * - landing: copies and the program's streams wait for receives on the device.
 * - grouped: the program's thread has a group of NCCL open, and a capture, around all that it does.
 * - cut: sends and receives that are cancelled or late while they go: these and what goes with them
 *   fail, their memory is quiet, and messages after them go.
 * - other: spans on another GPU than the first message's.
 * - storm: all of it at random. shut: and one of the members leaves.
 * - lost: a GPU is lost while messages go: all end, and the engines do.
 */
#include "tests/gpu/nccl.h"

#include <sys/wait.h>
#include <unistd.h>

static member members[MEMBERS];
static bool has_pairs; /* messages go over NCCL here */

static void open_pairs(void)
{
    ferry_future *joins[MEMBERS];
    for (int i = 0; i < MEMBERS; i++)
        open_engine(&members[i], 0);
    for (int i = 0; i < MEMBERS; i++) {
        ferry_group_options group = nccl_group(MEMBERS, i);
        joins[i] = ferry_group_join(engine_of(&members[i]), &group, &members[i].group);
    }
    for (int i = MEMBERS; i-- > 0;)
        CHECK_STATUS(gpu_end(joins[i]), FERRY_OK);
}

/* The member's GPU for pairs: rank 0's first, rank 1's second, which may be the same. */
static ferry_device *gpu_of(int rank)
{
    return members[rank].at.gpus[rank];
}

static ferry_member_info seen_by(int rank)
{
    ferry_member_info info = FERRY_MEMBER_INFO_INIT;
    CHECK_STATUS(ferry_group_member(members[rank].group, (ferry_rank)(1 - rank), &info), FERRY_OK);
    return info;
}

/* ---- sizes ---- */

static void pass(int from, size_t size_bytes, ferry_memory from_kind, ferry_memory to_kind,
                 uint64_t seed)
{
    OWN_BUFFER *src = gpu_buffer(gpu_of(from), size_bytes, from_kind);
    OWN_BUFFER *dst = gpu_buffer(gpu_of(1 - from), size_bytes, to_kind);
    bool is_right = false;
    write_to(&members[from], ferry_buffer_span(src), seed);
    ferry_future *receive =
        ferry_recv(members[1 - from].group, (ferry_rank)from, seed, ferry_buffer_span(dst), NULL);
    CHECK_STATUS(gpu_end(ferry_send(members[from].group, (ferry_rank)(1 - from), seed,
                                    ferry_buffer_span(src), NULL)),
                 FERRY_OK);
    CHECK_STATUS(gpu_end(receive), FERRY_OK);
    CHECK_STATUS(read_from(&members[1 - from], ferry_buffer_span(dst), seed, &is_right), FERRY_OK);
    CHECK(is_right);
}

static void test_sizes(void)
{
    static const size_t sizes[] = {1, 100, 9000, 65536, MIB, 5 * MIB + 3};
    static const ferry_memory kinds[] = {FERRY_MEMORY_DEFAULT, FERRY_MEMORY_PLAIN};
    open_pairs();
    uint64_t bytes = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t k = 0; k < 4; k++) {
            pass((int)(i + k) % 2, sizes[i], kinds[k % 2], kinds[k / 2], i * 4 + k);
            bytes += sizes[i];
        }
    }
    ferry_member_info info = seen_by(0);
    CHECK(info.nccl_bytes == (has_pairs ? bytes : 0));
    CHECK(info.staged_bytes == (has_pairs ? 0 : bytes));
    close_members(members);
}

/* ---- grouped ---- */

/* ncclGroupStart, ncclGroupEnd. Also where NCCL's headers are not. */
static void call_nccl(const char *name)
{
    int (*call)(void);
    void *found = nccl_emulators(name);
    CHECK(found != NULL);
    memcpy(&call, &found, sizeof call);
    CHECK(call() == 0);
}

/* The first time the communicator is made meanwhile. */
static void test_grouped(void)
{
    cudaStream_t stream;
    cudaGraph_t graph;
    if (!has_pairs)
        return;
    gpu_watch("messages in the program's group and capture", 60);
    open_pairs();
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (uint64_t round = 0; round < 4; round++) {
        call_nccl("ncclGroupStart");
        CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        pass((int)round % 2, MIB, FERRY_MEMORY_DEFAULT, FERRY_MEMORY_DEFAULT, round);
        CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
        call_nccl("ncclGroupEnd");
        CHECK_CUDA(cudaGraphDestroy(graph));
    }
    CHECK(seen_by(0).nccl_bytes == 4 * (uint64_t)MIB);
    CHECK_CUDA(cudaStreamDestroy(stream));
    close_members(members);
}

/* ---- many ---- */

static void test_many(void)
{
    enum { MANY = 100, SMALL = 4096 };
    ferry_buffer *from[MANY], *into[MANY];
    ferry_future *sends[MANY], *receives[MANY];
    gpu_watch("many messages at once", 60);
    open_pairs();
    for (int i = 0; i < MANY; i++) {
        int rank = i % 2;
        from[i] = gpu_buffer(gpu_of(rank), SMALL, FERRY_MEMORY_DEFAULT);
        into[i] = gpu_buffer(gpu_of(1 - rank), SMALL, FERRY_MEMORY_DEFAULT);
        write_to(&members[rank], ferry_buffer_span(from[i]), (uint64_t)i);
    }
    for (int i = 0; i < MANY; i++) { /* each end in an order of its own */
        int k = (i * 37 + 5) % MANY;
        sends[i] = ferry_send(members[i % 2].group, (ferry_rank)(1 - i % 2), (ferry_tag)i,
                              ferry_buffer_span(from[i]), NULL);
        receives[k] = ferry_recv(members[1 - k % 2].group, (ferry_rank)(k % 2), (ferry_tag)k,
                                 ferry_buffer_span(into[k]), NULL);
    }
    for (int i = 0; i < MANY; i++) {
        bool is_right = false;
        CHECK_STATUS(gpu_end(sends[i]), FERRY_OK);
        CHECK_STATUS(gpu_end(receives[i]), FERRY_OK);
        CHECK_STATUS(
            read_from(&members[1 - i % 2], ferry_buffer_span(into[i]), (uint64_t)i, &is_right),
            FERRY_OK);
        CHECK(is_right);
        ferry_buffer_release(from[i]);
        ferry_buffer_release(into[i]);
    }
    CHECK(seen_by(1).nccl_bytes == (has_pairs ? (uint64_t)MANY * SMALL : 0));
    close_members(members);
}

/* ---- together ---- */

/* What members say to each other after something goes there after it. */
static void say_and_answer(void)
{
    for (int i = 0; i < 6; i++) {
        int rank = i % 2;
        OWN_BUFFER *from = gpu_buffer(members[rank].at.host, 8, FERRY_MEMORY_DEFAULT);
        OWN_BUFFER *into = gpu_buffer(members[1 - rank].at.host, 8, FERRY_MEMORY_DEFAULT);
        ferry_future *receive = ferry_recv(members[1 - rank].group, (ferry_rank)rank, 1000,
                                           ferry_buffer_span(into), NULL);
        CHECK_STATUS(gpu_end(ferry_send(members[rank].group, (ferry_rank)(1 - rank), 1000,
                                        ferry_buffer_span(from), NULL)),
                     FERRY_OK);
        CHECK_STATUS(gpu_end(receive), FERRY_OK);
    }
}

/* Messages of 4 KiB, one way or both: all are ready at both ends when there is a communicator. */
static void go_together(int count, int ways, uint64_t groups_most)
{
    enum { SMALL = 4096, MOST = 100 };
    void (*set_delay)(int64_t) = (void (*)(int64_t))nccl_emulators("emu_nccl_delay");
    ferry_buffer *from[2], *into[2];
    ferry_future *sends[MOST], *receives[MOST];
    open_pairs();
    for (int rank = 0; rank < 2; rank++) {
        from[rank] = gpu_buffer(gpu_of(rank), (size_t)MOST * SMALL, FERRY_MEMORY_DEFAULT);
        into[rank] = gpu_buffer(gpu_of(rank), (size_t)MOST * SMALL, FERRY_MEMORY_DEFAULT);
        write_to(&members[rank], ferry_buffer_span(from[rank]), (uint64_t)rank);
    }
    if (set_delay != NULL)
        set_delay(-1);
    for (int i = 0; i < count; i++) {
        int rank = i % ways;
        ferry_span src = {from[rank], (size_t)i * SMALL, SMALL};
        ferry_span dst = {into[1 - rank], (size_t)i * SMALL, SMALL};
        receives[i] =
            ferry_recv(members[1 - rank].group, (ferry_rank)rank, (ferry_tag)i, dst, NULL);
        sends[i] = ferry_send(members[rank].group, (ferry_rank)(1 - rank), (ferry_tag)i, src, NULL);
    }
    say_and_answer();
    if (set_delay != NULL)
        set_delay(100000);
    for (int i = 0; i < count; i++) {
        CHECK_STATUS(gpu_end(sends[i]), FERRY_OK);
        CHECK_STATUS(gpu_end(receives[i]), FERRY_OK);
    }
    ferry_member_info info = seen_by(0);
    CHECK(info.nccl_bytes == (has_pairs ? (uint64_t)count * SMALL : 0));
    CHECK(!has_pairs || set_delay == NULL ||
          (info.nccl_groups > 0 && info.nccl_groups <= groups_most));
    for (int rank = 0; rank < 2; rank++) {
        ferry_buffer_release(from[rank]);
        ferry_buffer_release(into[rank]);
    }
    close_members(members);
}

static void test_together(void)
{
    gpu_watch("messages that are ready together", 60);
    go_together(100, 1, 3);
    go_together(60, 2, 1);
}

/* ---- landing ---- */

static void land(void)
{
    enum { BYTES = 3 * MIB + 5 };
    OWN_BUFFER *from = gpu_buffer(gpu_of(0), BYTES, FERRY_MEMORY_DEFAULT);
    OWN_BUFFER *into = gpu_buffer(gpu_of(1), BYTES, FERRY_MEMORY_DEFAULT);
    OWN_BUFFER *out = gpu_buffer(members[1].at.host, BYTES, FERRY_MEMORY_PINNED);
    write_to(&members[0], ferry_buffer_span(from), 9);
    pass(0, 100, FERRY_MEMORY_DEFAULT, FERRY_MEMORY_DEFAULT, 1); /* there is a pair */
    if (has_pairs && EMU(emu_hold) != NULL) {
        EMU(emu_hold)();
        ferry_future *receive = ferry_recv(members[1].group, 0, 2, ferry_buffer_span(into), NULL);
        ferry_future *copy = gpu_copy(&members[1].at.ge, out, into, NULL);
        ferry_future *landed = ferry_future_issued(receive), *queued = ferry_future_issued(copy);
        ferry_future *send = ferry_send(members[0].group, 1, 2, ferry_buffer_span(from), NULL);
        CHECK_STATUS(gpu_end(landed), FERRY_OK);
        CHECK_STATUS(gpu_end(queued), FERRY_OK);
        CHECK_STATUS(ferry_future_poll(receive), FERRY_PENDING);
        EMU(emu_release)();
        CHECK_STATUS(gpu_end(send), FERRY_OK);
        CHECK_STATUS(gpu_end(receive), FERRY_OK);
        CHECK_STATUS(gpu_end(copy), FERRY_OK);
        CHECK(is_filled(ferry_buffer_data(out), BYTES, 9));
    }
}

static void test_landing(void)
{
    gpu_watch("a copy behind a receive", 60);
    open_pairs();
    land();
    close_members(members);
}

/* ---- cut ---- */

static void check_quiet(ferry_future *future, ferry_status expected)
{
    ferry_status status = ferry_future_wait(future, -1);
    CHECK(status == expected || (expected == FERRY_PENDING && status != FERRY_OK));
    CHECK_STATUS(gpu_end(ferry_future_quiet(future)), FERRY_OK);
    ferry_future_release(future);
}

/*
 * While the GPUs stand still, one of two messages in a lot is cancelled (0, 1) or late (2, 3).
 * False: it was late before the lot was launched.
 */
static bool cut_one(int which, int64_t late_ns)
{
    OWN_BUFFER *from = gpu_buffer(gpu_of(0), MIB, FERRY_MEMORY_DEFAULT);
    OWN_BUFFER *into = gpu_buffer(gpu_of(1), MIB, FERRY_MEMORY_DEFAULT);
    ferry_status expected = which < 2 ? FERRY_E_CANCELLED : FERRY_E_DEADLINE;
    ferry_op_options late = FERRY_OP_OPTIONS_INIT;
    write_to(&members[0], ferry_buffer_span(from), 4);
    pass(0, 100, FERRY_MEMORY_DEFAULT, FERRY_MEMORY_DEFAULT, 1);
    EMU(emu_hold)();
    late.deadline_ns = in_ns(late_ns);
    ferry_future *receive =
        ferry_recv(members[1].group, 0, 2, ferry_buffer_span(into), which == 2 ? &late : NULL);
    ferry_future *landed = ferry_future_issued(receive);
    ferry_future *send =
        ferry_send(members[0].group, 1, 2, ferry_buffer_span(from), which == 3 ? &late : NULL);
    ferry_future *cut = which % 2 == 0 ? receive : send;
    ferry_status was_launched = gpu_end(landed);
    CHECK(was_launched == FERRY_OK || which >= 2);
    if (which < 2)
        CHECK_STATUS(ferry_future_cancel(cut), FERRY_OK);
    CHECK_STATUS(ferry_future_wait(cut, -1), expected);
    EMU(emu_release)();
    if (cut == send && was_launched != FERRY_OK)
        (void)ferry_future_cancel(receive);
    else if (was_launched != FERRY_OK)
        (void)ferry_future_cancel(send);
    check_quiet(cut == send ? receive : send, FERRY_PENDING);
    check_quiet(cut, expected);
    return was_launched == FERRY_OK;
}

/* Then messages go again. */
static void test_cut(void)
{
    gpu_watch("messages that are cut", 100);
    open_pairs();
    for (int which = 0; which < 4 && has_pairs && EMU(emu_hold) != NULL; which++) {
        int64_t late_ns = 20000000;
        while (!cut_one(which, late_ns))
            late_ns *= 2;
    }
    pass(1, MIB, FERRY_MEMORY_DEFAULT, FERRY_MEMORY_PLAIN, 6);
    close_members(members);
}

/* ---- other ---- */

/* The first message decides on the GPU; those of another go another way. */
static void test_other(void)
{
    gpu_watch("messages of another GPU", 60);
    open_pairs();
    pass(0, MIB, FERRY_MEMORY_DEFAULT, FERRY_MEMORY_DEFAULT, 1);
    uint64_t before = seen_by(0).nccl_bytes;
    for (int which = 0; which < 3; which++) {
        ferry_device *src = members[0].at.gpus[which != 1], *dst = members[1].at.gpus[which == 1];
        OWN_BUFFER *from = gpu_buffer(which == 0 ? gpu_of(0) : src, MIB, FERRY_MEMORY_DEFAULT);
        OWN_BUFFER *into = gpu_buffer(dst, MIB, FERRY_MEMORY_DEFAULT);
        bool is_right = false;
        write_to(&members[0], ferry_buffer_span(from), 7);
        ferry_future *receive = ferry_recv(members[1].group, 0, 3, ferry_buffer_span(into), NULL);
        CHECK_STATUS(gpu_end(ferry_send(members[0].group, 1, 3, ferry_buffer_span(from), NULL)),
                     FERRY_OK);
        CHECK_STATUS(gpu_end(receive), FERRY_OK);
        CHECK_STATUS(read_from(&members[1], ferry_buffer_span(into), 7, &is_right), FERRY_OK);
        CHECK(is_right);
        uint64_t bytes = seen_by(0).nccl_bytes;
        CHECK(bytes == before + (has_pairs && which == 1 ? MIB : 0));
        before = bytes;
    }
    close_members(members);
}

/* ---- storm ---- */

#define STORM 40

static ferry_op_options random_deadline(void)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    if (below(6) == 0)
        options.deadline_ns = in_ns((int64_t)below(20000000));
    return options;
}

typedef struct word {
    ferry_buffer *from, *into;
    ferry_future *send, *receive;
    uint64_t seed;
    int rank;
} word;

static void begin_word(word *self, ferry_tag tag)
{
    static const size_t sizes[] = {4096, MIB / 4, 3 * MIB};
    size_t size_bytes = 1 + below(sizes[below(3)]);
    ferry_op_options send = random_deadline(), receive = random_deadline();
    *self = (word){.rank = (int)below(2), .seed = next_random() % 1000};
    self->from = gpu_buffer(gpu_of(self->rank), size_bytes, FERRY_MEMORY_DEFAULT);
    self->into = gpu_buffer(gpu_of(1 - self->rank), size_bytes, FERRY_MEMORY_DEFAULT);
    write_to(&members[self->rank], ferry_buffer_span(self->from), self->seed);
    self->send = ferry_send(members[self->rank].group, (ferry_rank)(1 - self->rank), tag,
                            ferry_buffer_span(self->from), &send);
    self->receive = ferry_recv(members[1 - self->rank].group, (ferry_rank)self->rank, tag,
                               ferry_buffer_span(self->into), &receive);
}

/* Each ends, and is quiet; a receive that ended well has the bytes. */
static void end_word(word *self, bool is_shut)
{
    (void)ferry_future_wait(self->send, -1);
    ferry_status status = ferry_future_wait(self->receive, -1);
    ferry_status quiets[] = {gpu_end(ferry_future_quiet(self->send)),
                             gpu_end(ferry_future_quiet(self->receive))};
    for (int i = 0; i < 2; i++)
        CHECK(quiets[i] == FERRY_OK || (is_shut && quiets[i] == FERRY_E_SHUTDOWN));
    bool is_right = false;
    if (status == FERRY_OK && !is_shut) {
        CHECK_STATUS(read_from(&members[1 - self->rank], ferry_buffer_span(self->into), self->seed,
                               &is_right),
                     FERRY_OK);
        CHECK(is_right);
    }
    ferry_future_release(self->send);
    ferry_future_release(self->receive);
    ferry_buffer_release(self->from);
    ferry_buffer_release(self->into);
}

static void test_storm(void)
{
    word words[STORM];
    gpu_watch("a storm", 100);
    open_pairs();
    for (int round = 0; round < 4 * ROUNDS; round++) {
        size_t count = 1 + below(STORM);
        for (size_t i = 0; i < count; i++)
            begin_word(&words[i], i % 3);
        if (below(2) == 0)
            (void)usleep((useconds_t)below(3000));
        for (size_t i = 0; i < count && round % 2 != 0; i++) {
            if (below(10) == 0)
                (void)ferry_future_cancel(below(2) == 0 ? words[i].send : words[i].receive);
        }
        for (size_t i = 0; i < count; i++)
            end_word(&words[i], false);
    }
    close_members(members);
}

/* ---- shut ---- */

/* An engine, or both groups, end while messages go. */
static void test_shut(void)
{
    word words[STORM];
    gpu_watch("the end of a storm", 100);
    for (int round = 0; round < ROUNDS; round++) {
        open_pairs();
        for (size_t i = 0; i < STORM; i++)
            begin_word(&words[i], i % 3);
        (void)usleep((useconds_t)below(20000));
        ferry_future *leaving = ferry_group_leave(members[round % 2].group);
        CHECK_STATUS(ferry_future_wait(leaving, -1), FERRY_OK);
        ferry_future_release(leaving);
        for (size_t i = 0; i < STORM; i++)
            end_word(&words[i], true);
        close_members(members);
    }
}

/* ---- lost ---- */

/* What the lost device may touch stays: in a process of its own. */
static void lose(int gpu)
{
    enum { MANY = 60 };
    ferry_buffer *from[MANY], *into[MANY];
    ferry_future *sends[MANY], *receives[MANY];
    int failed = 0;
    gpu_watch("messages of a GPU that is lost", 100);
    open_pairs();
    pass(0, MIB, FERRY_MEMORY_DEFAULT, FERRY_MEMORY_DEFAULT, 1);
    for (int i = 0; i < MANY; i++) {
        from[i] = gpu_buffer(gpu_of(i % 2), MIB, FERRY_MEMORY_DEFAULT);
        into[i] = gpu_buffer(gpu_of(1 - i % 2), MIB, FERRY_MEMORY_DEFAULT);
        write_to(&members[i % 2], ferry_buffer_span(from[i]), (uint64_t)i);
    }
    EMU(emu_hold)();
    for (int i = 0; i < MANY; i++) {
        sends[i] = ferry_send(members[i % 2].group, (ferry_rank)(1 - i % 2), (ferry_tag)i,
                              ferry_buffer_span(from[i]), NULL);
        receives[i] = ferry_recv(members[1 - i % 2].group, (ferry_rank)(i % 2), (ferry_tag)i,
                                 ferry_buffer_span(into[i]), NULL);
    }
    CHECK_STATUS(gpu_end(ferry_future_issued(receives[0])), FERRY_OK); /* a lot stands there */
    CHECK(EMU(emu_lose_device)(gpu, CUDA_ERROR_ECC_UNCORRECTABLE) == CUDA_SUCCESS);
    EMU(emu_release)();
    for (int i = 0; i < MANY; i++) {
        failed += ferry_future_wait(sends[i], -1) != FERRY_OK;
        failed += ferry_future_wait(receives[i], -1) != FERRY_OK;
        CHECK((ferry_future_error(sends[i]) == NULL) == (ferry_future_poll(sends[i]) == FERRY_OK));
        ferry_future_release(sends[i]);
        ferry_future_release(receives[i]);
        ferry_buffer_release(from[i]);
        ferry_buffer_release(into[i]);
    }
    CHECK(failed != 0);
    for (int i = 0; i < MEMBERS; i++) /* a lost GPU has nothing that a pause would wait for */
        CHECK_STATUS(gpu_end(ferry_group_nccl_pause(members[i].group, 0)), FERRY_OK);
    close_after_loss(members);
}

/* The one of the member that leads, and the other's. */
static void test_lost(void)
{
    for (char gpu[] = "0"; has_pairs && EMU(emu_lose_device) != NULL && gpu[0] < '2'; gpu[0]++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            (void)execl("/proc/self/exe", "pairs", "lose", gpu, (char *)NULL);
            _exit(127);
        }
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

int main(int argc, char **argv)
{
    static const named_test tests[] = {{"sizes", test_sizes},       {"many", test_many},
                                       {"together", test_together}, {"landing", test_landing},
                                       {"grouped", test_grouped},   {"cut", test_cut},
                                       {"other", test_other},       {"storm", test_storm},
                                       {"shut", test_shut},         {"lost", test_lost}};
    int count = 0;
    CHECK_CUDA(cudaGetDeviceCount(&count));
    if (count < 2)
        (void)printf("not over NCCL: there is one GPU\n");
    has_pairs = count > 1 && nccl_is_here();
    if (argc == 3 && strcmp(argv[1], "lose") == 0) {
        lose(atoi(argv[2]));
        return 0;
    }
    run_named(argc, argv, tests, sizeof tests / sizeof *tests);
    return 0;
}
