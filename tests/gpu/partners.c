/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of GPU memory over NCCL between two processes, each of which has a GPU. Where there is
 * one GPU, each pretends to have a host of its own (NCCL_HOSTID), which NCCL allows. Where there is
 * no NCCL, the messages come another way, and the test says so.
 *
 * - sizes: both ways.
 * - launch: how long it takes from when both ends are ready until the lot is on the GPU.
 * - failing: NCCL says of a communicator that it failed, as it does some time after a launch: what
 *   was on it fails at both ends, and messages go again.
 * - STEP.FATE.RANK: one of the two is killed, or stopped until it counts as dead. Its rank is 0,
 *   which leads, or 1; it is at a step:
 *     offered    its messages are ready; with luck, a lot is agreed
 *     making     it makes its end of the communicator
 *     launching  NCCL has been given the lot, and has not put it into the stream
 *     launched   the lot stands on its GPU
 *     ending     it has cancelled a message, and ends the communicator, which its GPU keeps up
 *   The emulated GPU is held at the step. A real one is not: long messages are on their way then,
 *   most of the time; of these it is not known whether they end well.
 *   The other's messages fail and name that member, and are quiet; the memory is its own then, also
 *   when the one that was stopped goes on.
 */
#include "tests/gpu/nccl.h"
#include "tests/gpu/two.h"

#include "tests/emu/emu_nccl.h"

#define TOGETHER 3 /* cases that run at once: most of their time is that of a lease */
#define LAUNCHES 31
#define LONG_BYTES (128 * (size_t)MIB)

typedef struct pair_of_messages {
    ferry_buffer *from, *into;
    ferry_future *send, *receive;
} pair_of_messages;

static bool has_nccl;
static int gpu_count;
static bool can_hold; /* the emulated GPU can be */
static int victim_rank;
static const char *step;
static bool is_stopped;

static ferry_device *own_gpu(const scene *self)
{
    return self->own.at.gpus[gpu_count > 1 ? self->rank : 0];
}

static ferry_rank peer_of(const scene *self)
{
    return (ferry_rank)(1 - self->rank);
}

static uint64_t seed_of(int rank)
{
    return (uint64_t)rank + 40;
}

static pair_of_messages prepare(scene *self, size_t size_bytes)
{
    pair_of_messages out = {0};
    out.from = gpu_buffer(own_gpu(self), size_bytes, FERRY_MEMORY_DEFAULT);
    out.into = gpu_buffer(own_gpu(self), size_bytes, FERRY_MEMORY_DEFAULT);
    write_to(&self->own, ferry_buffer_span(out.from), seed_of(self->rank));
    return out;
}

/* Both ends do this: a message each way. */
static void begin(scene *self, pair_of_messages *both)
{
    ferry_group *group = self->own.group;
    both->receive = ferry_recv(group, peer_of(self), 7, ferry_buffer_span(both->into), NULL);
    both->send = ferry_send(group, peer_of(self), 7, ferry_buffer_span(both->from), NULL);
}

static void let_go(pair_of_messages *self)
{
    CHECK_STATUS(gpu_end(ferry_future_quiet(self->send)), FERRY_OK);
    CHECK_STATUS(gpu_end(ferry_future_quiet(self->receive)), FERRY_OK);
    ferry_future_release(self->send);
    ferry_future_release(self->receive);
    ferry_buffer_release(self->from);
    ferry_buffer_release(self->into);
}

static void pass(scene *self, size_t size_bytes)
{
    bool is_right = false;
    pair_of_messages both = prepare(self, size_bytes);
    begin(self, &both);
    CHECK_STATUS(ferry_future_wait(both.send, -1), FERRY_OK);
    CHECK_STATUS(ferry_future_wait(both.receive, -1), FERRY_OK);
    CHECK_STATUS(
        read_from(&self->own, ferry_buffer_span(both.into), seed_of(1 - self->rank), &is_right),
        FERRY_OK);
    CHECK(is_right);
    let_go(&both);
}

/* ---- sizes ---- */

static void test_sizes(scene *self)
{
    static const size_t sizes[] = {1, 4096, MIB, 3 * MIB + 7};
    ferry_member_info info = FERRY_MEMBER_INFO_INIT;
    uint64_t bytes = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        pass(self, sizes[i]);
        bytes += 2 * sizes[i];
    }
    CHECK_STATUS(ferry_group_member(self->own.group, peer_of(self), &info), FERRY_OK);
    CHECK(info.nccl_bytes == (has_nccl ? bytes : 0));
}

/* ---- launch ---- */

static int compare_ns(const void *a, const void *b)
{
    const int64_t *left = a, *right = b;
    return *left < *right ? -1 : *left > *right;
}

/* How long this end's receive takes to be issued: the lot has been given to the GPU. */
static int64_t time_launch(scene *self)
{
    pair_of_messages both = prepare(self, 4096);
    meet(self);
    int64_t begin_ns = in_ns(0);
    begin(self, &both);
    CHECK_STATUS(gpu_end(ferry_future_issued(both.receive)), FERRY_OK);
    int64_t took_ns = in_ns(0) - begin_ns;
    CHECK_STATUS(ferry_future_wait(both.send, -1), FERRY_OK);
    CHECK_STATUS(ferry_future_wait(both.receive, -1), FERRY_OK);
    let_go(&both);
    return took_ns;
}

static void test_launch(scene *self)
{
    int64_t took_ns[LAUNCHES];
    if (!has_nccl)
        return;
    pass(self, 4096); /* there is a communicator */
    for (size_t i = 0; i < LAUNCHES; i++)
        took_ns[i] = time_launch(self);
    qsort(took_ns, LAUNCHES, sizeof *took_ns, compare_ns);
    (void)printf("launch: rank %d: %.1f us from ready until launched, the median of %d\n",
                 self->rank, (double)took_ns[LAUNCHES / 2] / 1e3, LAUNCHES);
}

/* ---- failing ---- */

/* Whether one of the errors that led to the future's is of that domain; of that rank. */
static bool names_domain(ferry_future *future, const char *domain)
{
    const ferry_error *error = ferry_future_error(future);
    while (error != NULL && strcmp(error->domain, domain) != 0)
        error = error->cause;
    return error != NULL;
}

static bool names_rank(ferry_future *future, int rank)
{
    const ferry_error *error = ferry_future_error(future);
    while (error != NULL && error->rank != (ferry_rank)rank)
        error = error->cause;
    return error != NULL;
}

/* Whether it fails; if so it names the other member. */
static bool fails_in_name(const scene *self, ferry_future *future)
{
    bool fails = ferry_future_wait(future, -1) != FERRY_OK;
    CHECK(!fails || names_rank(future, 1 - self->rank));
    return fails;
}

static void test_failing(scene *self)
{
    if (!has_nccl || EMU_NCCL(emu_nccl_fail_kernel) == NULL)
        return;
    pass(self, MIB);
    for (int i = 0; i < 4; i++) {
        bool fails = self->rank == i % 2;
        if (fails)
            EMU_NCCL(emu_nccl_fail_kernel)(1, ncclRemoteError);
        pair_of_messages both = prepare(self, MIB);
        begin(self, &both);
        bool send_fails = fails_in_name(self, both.send);
        bool receive_fails = fails_in_name(self, both.receive);
        CHECK(send_fails || receive_fails ||
              !fails); /* the other may go in another lot, and by another pair */
        if (fails)
            CHECK(names_domain(both.send, "nccl") || names_domain(both.receive, "nccl"));
        let_go(&both);
        meet(self);
        pass(self, MIB);
    }
}

/* ---- killed, stopped ---- */

static bool is_step(const char *name)
{
    return strcmp(step, name) == 0;
}

static size_t fate_bytes(void)
{
    return can_hold ? MIB : LONG_BYTES;
}

/* Whether the messages can't have ended well. */
static bool is_sure_to_fail(void)
{
    return can_hold && !is_step("offered");
}

static void hold(void)
{
    if (!can_hold)
        return;
    if (is_step("making") || is_step("launching"))
        EMU_NCCL(emu_nccl_delay)(-1);
    if (is_step("launched") || is_step("ending"))
        EMU(emu_hold)();
}

static void let_run(void)
{
    if (!can_hold)
        return;
    EMU_NCCL(emu_nccl_delay)(0);
    EMU(emu_release)();
}

/* The witness says that it has begun, too; the victim may fall before it has answered. */
static void say_word(scene *self)
{
    OWN_BUFFER *word = gpu_buffer(self->own.at.host, 8, FERRY_MEMORY_DEFAULT);
    (void)gpu_end(ferry_send(self->own.group, peer_of(self), 1001, ferry_buffer_span(word), NULL));
}

static void await_word(scene *self)
{
    OWN_BUFFER *word = gpu_buffer(self->own.at.host, 8, FERRY_MEMORY_DEFAULT);
    CHECK_STATUS(
        gpu_end(ferry_recv(self->own.group, peer_of(self), 1001, ferry_buffer_span(word), NULL)),
        FERRY_OK);
}

/* Goes on later than anybody waits for. */
static void be_victim(scene *self)
{
    pair_of_messages both = prepare(self, fate_bytes());
    hold();
    begin(self, &both);
    if (is_step("launched") || is_step("ending"))
        CHECK_STATUS(gpu_end(ferry_future_issued(both.receive)), FERRY_OK);
    if (is_step("ending")) {
        CHECK_STATUS(ferry_future_cancel(both.receive), FERRY_OK);
        CHECK(ferry_future_wait(both.receive, -1) == FERRY_E_CANCELLED || !can_hold);
    }
    meet(self);
    await_word(self);
    CHECK(raise(is_stopped ? SIGSTOP : SIGKILL) == 0);
    let_run();
    CHECK(ferry_future_wait(both.send, -1) != FERRY_OK || !is_sure_to_fail());
    CHECK(ferry_future_wait(both.receive, -1) != FERRY_OK || !is_sure_to_fail());
    let_go(&both);
}

/* Other bytes, in memory that is this member's own again. */
static void use_again(scene *self, const pair_of_messages *both)
{
    write_to(&self->own, ferry_buffer_span(both->from), 1);
    write_to(&self->own, ferry_buffer_span(both->into), 2);
}

static void be_witness(scene *self)
{
    bool is_right = false;
    pair_of_messages both = prepare(self, fate_bytes());
    if (!is_step("offered"))
        begin(self, &both);
    meet(self);
    if (is_step("offered"))
        begin(self, &both);
    say_word(self);
    await_other(self, is_stopped ? WSTOPPED : WEXITED);
    bool send_fails = fails_in_name(self, both.send);
    bool receive_fails = fails_in_name(self, both.receive);
    CHECK((send_fails && receive_fails) || !is_sure_to_fail());
    CHECK_STATUS(gpu_end(ferry_future_quiet(both.send)), FERRY_OK);
    CHECK_STATUS(gpu_end(ferry_future_quiet(both.receive)), FERRY_OK);
    use_again(self, &both);
    if (is_stopped) {
        CHECK(kill(self->other, SIGCONT) == 0);
        await_other(self, WEXITED);
    }
    CHECK_STATUS(read_from(&self->own, ferry_buffer_span(both.into), 2, &is_right), FERRY_OK);
    CHECK(is_right);
    let_go(&both);
}

static void test_fate(scene *self)
{
    if (!is_step("making") && !is_step("offered"))
        pass(self, MIB); /* there is a communicator */
    if (self->rank == victim_rank)
        be_victim(self);
    else
        be_witness(self);
}

/* ---- main ---- */

static void look_for_nccl(int rank)
{
    CHECK_CUDA(cudaGetDeviceCount(&gpu_count));
    if (gpu_count < 2)
        CHECK(setenv("NCCL_HOSTID", rank == 0 ? "ferry-0" : "ferry-1", 1) == 0);
    has_nccl = nccl_is_here();
    can_hold = EMU(emu_hold) != NULL;
}

/* The emulator tries these with two GPUs. A real one, on which no time stands, tries some. */
static bool can_meet_fate(void)
{
    if (can_hold)
        return has_nccl && gpu_count > 1;
    return has_nccl && (is_stopped ? is_step("launched") : !is_step("launching"));
}

/* Makes what `name` says: STEP.FATE.RANK. */
static bool read_fate(const char *name)
{
    static char text[64];
    (void)snprintf(text, sizeof text, "%s", name);
    char *fate = strchr(text, '.'), *rank = strrchr(text, '.');
    if (fate == NULL)
        return false;
    *fate++ = *rank++ = '\0';
    step = text;
    is_stopped = strcmp(fate, "stopped") == 0;
    victim_rank = rank[0] - '0';
    return true;
}

/* One case, as the first of two processes or as the other. */
static void run(const char *name, bool is_other)
{
    bool has_fate = read_fate(name);
    two_test test = {name, test_failing, has_fate};
    if (has_fate)
        test.fn = test_fate;
    else if (strcmp(name, "sizes") == 0)
        test.fn = test_sizes;
    else if (strcmp(name, "launch") == 0)
        test.fn = test_launch;
    int first_rank = has_fate ? 1 - victim_rank : 0;
    int rank = is_other ? 1 - first_rank : first_rank;
    gpu_watch(name, 100);
    test_name = name;
    lease_ns = has_fate ? 3000000000 : 100000000000;
    gpu_way = FERRY_GPU_WAY_NCCL;
    look_for_nccl(rank);
    if (has_fate && !can_meet_fate())
        return;
    if (!is_other)
        temporary_folder_make(folder);
    two_run(&test, rank, !is_other);
    if (!is_other)
        temporary_folder_remove(folder);
}

static void await_one(void)
{
    int status = 0;
    CHECK(wait(&status) > 0 && status == 0);
}

/* Each case in processes of its own. */
static void run_all(void)
{
    static const char *const steps[] = {"offered", "making", "launching", "launched", "ending"};
    static char names[3 + 4 * 5][64] = {"sizes", "launch", "failing"};
    size_t count = 3;
    for (size_t i = 0; i < 4 * sizeof steps / sizeof *steps; i++)
        (void)snprintf(names[count++], sizeof *names, "%s.%s.%d", steps[i / 4],
                       i % 2 != 0 ? "stopped" : "killed", (int)(i / 2 % 2));
    for (size_t i = 0; i < count; i++) {
        if (i >= TOGETHER)
            await_one();
        pid_t child = fork();
        if (child == 0) {
            end_with_parent();
            (void)execl(program_path, program_path, names[i], (char *)NULL);
            _exit(127);
        }
        CHECK(child > 0);
    }
    for (size_t i = 0; i < TOGETHER; i++)
        await_one();
}

int main(int argc, char **argv)
{
    bool is_other = two_is_other(argc, argv);
    if (argc > 1)
        run(argv[1], is_other);
    else
        run_all();
    return 0;
}
