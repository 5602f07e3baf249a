/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of GPU memory between two processes of one host, which read it where it is (CUDA IPC).
 * The program starts itself once more; both do the same steps, each as its rank.
 *
 * - sizes: from memory that others can open and from memory that they can't, to all places, both
 *   ways. What is open is not opened again.
 * - staged: the same where one of the two allows host memory alone.
 * - freed: the sender frees memory and gets its address again.
 * - hidden: what is freed by ferry is freed when the other has closed it.
 * - standing: that takes as long as the other's GPU is busy, and keeps nothing else up.
 * - many: more allocations than are kept open.
 * - cut: sends and receives that are cancelled while the bytes are read: the send is quiet when
 *   nobody reads any more, and no sooner.
 * - refused: the driver opens nothing: the messages come in pieces.
 * - stopped: the sender is, when all was read; killed: either end is, while the bytes are read.
 * - storm: cancels and deadlines at random.
 * - open: receives of any member, larger than their messages.
 */
#include "tests/gpu/two.h"

#define BYTES_MOST (5 * MIB + 3)

static uint64_t calls_of(const char *name)
{
    return EMU(emu_call_count) != NULL ? EMU(emu_call_count)(name) : 0;
}

/* ---- sizes ---- */

static const size_t sizes[] = {100, 9000, 65536, MIB, BYTES_MOST};

/* All sizes, both ways. Returns how many bytes they are. */
static uint64_t exchange_all(scene *self)
{
    uint64_t bytes = 0;
    static const ferry_memory kinds[] = {FERRY_MEMORY_PLAIN, FERRY_MEMORY_DEFAULT};
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
            for (size_t place = 0; place < PLACES; place++) {
                bool sends = self->rank == (int)(i + place) % 2;
                size_t size = sizes[i / 2];
                size_t at = sends || place == 0 ? 1 + place % 2 : place;
                OWN_BUFFER *buffer = gpu_buffer(place_of(&self->own, at), size,
                                                sends ? kinds[i % 2] : FERRY_MEMORY_DEFAULT);
                if (sends)
                    send_one(self, buffer, i * 10 + place, i);
                else
                    receive_one(self, buffer, i * 10 + place, i);
                bytes += size;
            }
        }
    }
    return bytes;
}

static ferry_member_info other_member(scene *self)
{
    ferry_member_info info = FERRY_MEMBER_INFO_INIT;
    CHECK_STATUS(ferry_group_member(self->own.group, (ferry_rank)(1 - self->rank), &info),
                 FERRY_OK);
    return info;
}

static void test_sizes(scene *self)
{
    uint64_t bytes = exchange_all(self);
    ferry_member_info other = other_member(self);
    CHECK(other.ipc_bytes + other.staged_bytes == bytes);
    CHECK(other.staged_bytes != 0); /* the pool's, and what is small */
    CHECK(EMU(emu_call_count) == NULL ||
          (other.ipc_bytes != 0 && calls_of("cuIpcOpenMemHandle") != 0));
}

/* ---- staged ---- */

static void test_staged(scene *self)
{
    uint64_t calls = calls_of("cuIpcOpenMemHandle") + calls_of("cuIpcGetMemHandle");
    uint64_t bytes = exchange_all(self);
    ferry_member_info other = other_member(self);
    CHECK(other.ipc_bytes == 0 && other.staged_bytes == bytes);
    CHECK(calls_of("cuIpcOpenMemHandle") + calls_of("cuIpcGetMemHandle") == calls);
}

/* ---- freed ---- */

static ferry_buffer *wrap(scene *self, void *memory, size_t size_bytes)
{
    ferry_buffer *buffer = NULL;
    CHECK_STATUS(ferry_buffer_wrap(self->own.at.gpus[0], memory, size_bytes, NULL, NULL, &buffer),
                 FERRY_OK);
    return buffer;
}

static void test_freed(scene *self)
{
    for (uint64_t i = 0; i < 12; i++) {
        size_t size = MIB + i % 3 * 4096;
        if (self->rank == 1) {
            OWN_BUFFER *into = gpu_buffer(self->own.at.gpus[0], size, FERRY_MEMORY_DEFAULT);
            receive_one(self, into, 70 + i, i);
            continue;
        }
        void *memory = NULL;
        CHECK_CUDA(cudaMalloc(&memory, size));
        ferry_buffer *buffer = wrap(self, memory, size);
        send_one(self, buffer, 70 + i, i);
        ferry_buffer_release(buffer);
        CHECK_CUDA(cudaFree(memory));
    }
}

/* ---- hidden ---- */

static uint64_t freed_open(void)
{
    emu_counters now = {0};
    if (EMU(emu_get_counters) != NULL)
        EMU(emu_get_counters)(&now);
    return now.freed_open;
}

static void free_memory(void *arg, void *memory, size_t size_bytes)
{
    (void)size_bytes;
    CHECK_CUDA(cudaFree(memory));
    __atomic_store_n((int *)arg, 1, __ATOMIC_RELEASE);
}

static void test_hidden(scene *self)
{
    uint64_t before = freed_open(); /* what the program has freed itself */
    for (uint64_t i = 0; i < 12; i++) {
        size_t size = MIB + i % 3 * 4096;
        if (self->rank == 1) {
            OWN_BUFFER *into = gpu_buffer(self->own.at.gpus[0], size, FERRY_MEMORY_DEFAULT);
            receive_one(self, into, 30 + i, i);
            meet(self);
            continue;
        }
        void *memory = NULL;
        int is_freed = 0;
        ferry_buffer *buffer = NULL;
        CHECK_CUDA(cudaMalloc(&memory, size));
        CHECK_STATUS(
            ferry_buffer_wrap(self->own.at.gpus[0], memory, size, free_memory, &is_freed, &buffer),
            FERRY_OK);
        send_one(self, buffer, 30 + i, i);
        ferry_buffer_release(buffer);
        while (__atomic_load_n(&is_freed, __ATOMIC_ACQUIRE) == 0)
            (void)sched_yield();
        CHECK(freed_open() == before);
        meet(self);
    }
}

/* ---- standing ---- */

/* The reader's GPU is busy with something of the program's, for as long as that likes, when the
 * memory is to be closed, for which the driver waits. Messages come and go meanwhile. */
static void test_standing(scene *self)
{
    if (self->rank == 1) {
        gpu_gate gate = gpu_gate_open(0, self->own.at.gpus[0]);
        OWN_BUFFER *into = gpu_buffer(self->own.at.gpus[0], MIB, FERRY_MEMORY_DEFAULT);
        receive_one(self, into, 30, 3);
        gpu_gate_hold(&gate);
        meet(self);
        for (int i = 0; i < 20; i++)
            meet(self); /* it is freed */
        gpu_gate_let_go(&gate);
        meet(self);
        gpu_gate_close(&gate);
        return;
    }
    void *memory = NULL;
    int is_freed = 0;
    ferry_buffer *buffer = NULL;
    CHECK_CUDA(cudaMalloc(&memory, MIB));
    CHECK_STATUS(
        ferry_buffer_wrap(self->own.at.gpus[0], memory, MIB, free_memory, &is_freed, &buffer),
        FERRY_OK);
    send_one(self, buffer, 30, 3);
    meet(self);
    ferry_buffer_release(buffer);
    for (int i = 0; i < 20; i++)
        meet(self);
    meet(self);
    while (__atomic_load_n(&is_freed, __ATOMIC_ACQUIRE) == 0)
        (void)sched_yield();
}

/* ---- many ---- */

#define MANY 40
#define OPEN_MOST 32

static void test_many(scene *self)
{
    ferry_buffer *buffers[MANY];
    for (int i = 0; i < MANY; i++)
        buffers[i] = gpu_buffer(self->own.at.gpus[0], 128 << 10,
                                self->rank == 0 ? FERRY_MEMORY_PLAIN : FERRY_MEMORY_DEFAULT);
    for (int i = 0; i < 3 * MANY; i++) {
        if (self->rank == 0)
            send_one(self, buffers[i % MANY], (uint64_t)i, 1);
        else
            receive_one(self, buffers[i % MANY], (uint64_t)i, 1);
        emu_counters now = {0};
        if (EMU(emu_get_counters) != NULL)
            EMU(emu_get_counters)(&now);
        CHECK(now.live_import_ranges <= OPEN_MOST);
    }
    for (int i = 0; i < MANY; i++)
        ferry_buffer_release(buffers[i]);
}

/* ---- refused ---- */

static void test_refused(scene *self)
{
    static const char *const calls[] = {"cuIpcOpenMemHandle", "cuIpcGetMemHandle"};
    static const CUresult results[] = {CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_INVALID_CONTEXT,
                                       CUDA_ERROR_ALREADY_MAPPED, CUDA_ERROR_OUT_OF_MEMORY,
                                       CUDA_ERROR_UNKNOWN};
    if (EMU(emu_fail_call) == NULL)
        return;
    for (size_t i = 0; i < 2 * sizeof results / sizeof *results; i++) {
        OWN_BUFFER *buffer =
            gpu_buffer(self->own.at.gpus[0], BYTES_MOST,
                       self->rank == 0 ? FERRY_MEMORY_PLAIN : FERRY_MEMORY_DEFAULT);
        CHECK(EMU(emu_fail_call)(calls[i % 2], 0, results[i / 2]) == CUDA_SUCCESS);
        if (self->rank == 0)
            send_one(self, buffer, i, i);
        else
            receive_one(self, buffer, i, i);
        CHECK(EMU(emu_fail_call)(calls[i % 2], 0, CUDA_SUCCESS) == CUDA_SUCCESS);
        meet(self);
    }
}

/* ---- cut ---- */

typedef struct reading {
    ferry_buffer *buffer;
    ferry_future *future, *quiet;
} reading;

/* What the other has freed is closed. A GPU that is held would keep that up, and in the hardest
 * setting all other calls with it. */
static void await_closed(void)
{
    emu_counters now;
    do {
        (void)sched_yield();
        EMU(emu_get_counters)(&now);
    } while (now.live_imports != 0);
}

/* One sends, and the other reads what is there, or would if its GPU did anything. */
static reading begin_reading(scene *self, int sender, ferry_tag tag)
{
    reading out;
    bool sends = self->rank == sender;
    ferry_rank peer = (ferry_rank)(1 - self->rank);
    out.buffer =
        gpu_buffer(self->own.at.gpus[0], MIB, sends ? FERRY_MEMORY_PLAIN : FERRY_MEMORY_DEFAULT);
    write_to(&self->own, ferry_buffer_span(out.buffer), tag);
    ferry_span span = ferry_buffer_span(out.buffer);
    if (!sends) {
        await_closed();
        EMU(emu_hold)();
    }
    out.future = sends ? ferry_send(self->own.group, peer, tag, span, NULL)
                       : ferry_recv(self->own.group, peer, tag, span, NULL);
    out.quiet = ferry_future_quiet(out.future);
    if (!sends)
        CHECK_STATUS(gpu_end(ferry_future_issued(out.future)), FERRY_OK);
    return out;
}

static void end_reading(reading *self)
{
    CHECK_STATUS(gpu_end(self->quiet), FERRY_OK);
    ferry_future_release(self->future);
    ferry_buffer_release(self->buffer);
}

static void test_cut(scene *self)
{
    if (EMU(emu_hold) == NULL)
        return;
    for (int i = 0; i < 8; i++) {
        int sender = i / 2 % 2;
        bool sends = self->rank == sender, cuts = sends == (i % 2 == 0);
        reading reading = begin_reading(self, sender, (ferry_tag)i);
        meet(self); /* it is read */
        if (cuts)
            CHECK_STATUS(ferry_future_cancel(reading.future), FERRY_OK);
        CHECK_STATUS(ferry_future_wait(reading.future, -1),
                     cuts ? FERRY_E_CANCELLED : FERRY_E_DEPENDENCY);
        CHECK_STATUS(ferry_future_poll(reading.quiet), FERRY_PENDING);
        meet(self); /* both have failed */
        CHECK_STATUS(ferry_future_poll(reading.quiet), FERRY_PENDING);
        meet(self);
        if (!sends)
            EMU(emu_release)();
        end_reading(&reading);
    }
}

/* ---- killed, stopped ---- */

static void test_killed(scene *self, int sender)
{
    if (EMU(emu_hold) == NULL)
        return;
    reading reading = begin_reading(self, sender, 1);
    meet(self);
    while (self->rank == 1)
        (void)pause();
    CHECK(kill(self->other, SIGKILL) == 0);
    CHECK_STATUS(ferry_future_wait(reading.future, -1), FERRY_E_DEAD);
    if (sender == 1) {
        CHECK_STATUS(ferry_future_poll(reading.quiet), FERRY_PENDING);
        EMU(emu_release)();
    }
    end_reading(&reading);
}

static void test_killed_reader(scene *self)
{
    test_killed(self, 0);
}

static void test_killed_sender(scene *self)
{
    test_killed(self, 1);
}

/* What the stopped sender would say of the bytes is awaited; not for longer than wanted. */
static void test_stopped(scene *self)
{
    if (EMU(emu_hold) == NULL)
        return;
    reading reading = begin_reading(self, 1, 1);
    meet(self);
    if (self->rank == 0) {
        CHECK(kill(self->other, SIGSTOP) == 0);
        await_other(self, WSTOPPED);
        EMU(emu_release)();
        (void)EMU(emu_settle)();
        CHECK_STATUS(ferry_future_poll(reading.future), FERRY_PENDING);
        CHECK_STATUS(ferry_future_cancel(reading.future), FERRY_OK);
        CHECK_STATUS(ferry_future_wait(reading.future, -1), FERRY_E_CANCELLED);
        end_reading(&reading);
        CHECK(kill(self->other, SIGCONT) == 0);
    } else {
        CHECK_STATUS(ferry_future_wait(reading.future, -1), FERRY_E_DEPENDENCY);
        end_reading(&reading);
    }
}

/* The loop's thread, in a callback until it is let go. */
typedef struct stuck_loop {
    ferry_waiter waiter; /* first */
    int is_there, may_go;
} stuck_loop;

static void stay(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    stuck_loop *self = (stuck_loop *)(void *)waiter;
    (void)future, (void)status;
    __atomic_store_n(&self->is_there, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&self->may_go, __ATOMIC_ACQUIRE) == 0)
        (void)sched_yield();
}

static void hold_loop(scene *self, stuck_loop *loop)
{
    ferry_promise *promise = NULL;
    *loop = (stuck_loop){.waiter.fn = stay};
    CHECK_STATUS(ferry_promise_create(engine_of(&self->own), &promise), FERRY_OK);
    ferry_future *future = ferry_promise_future(promise);
    CHECK_STATUS(ferry_future_on_ready(future, &loop->waiter), FERRY_OK);
    CHECK_STATUS(ferry_promise_resolve(promise, FERRY_OK, NULL), FERRY_OK);
    ferry_promise_release(promise);
    ferry_future_release(future);
    while (__atomic_load_n(&loop->is_there, __ATOMIC_ACQUIRE) == 0)
        (void)sched_yield();
}

/*
 * The reader is stopped for so long that it counts as dead: the sender's memory is its own again,
 * and has other bytes when the reader goes on. Its loop, which would hear of that, is busy; a
 * thread that waits sees what the GPU has done.
 */
static void test_overtaken(scene *self)
{
    if (EMU(emu_hold) == NULL)
        return;
    reading reading = begin_reading(self, 0, 1);
    meet(self);
    if (self->rank == 1) {
        stuck_loop loop;
        hold_loop(self, &loop);
        (void)raise(SIGSTOP);
        EMU(emu_release)();
        (void)EMU(emu_settle)();
        CHECK_STATUS(ferry_future_wait(reading.future, 200000000), FERRY_PENDING);
        __atomic_store_n(&loop.may_go, 1, __ATOMIC_RELEASE);
        CHECK(ferry_future_wait(reading.future, -1) != FERRY_OK);
        end_reading(&reading);
        return;
    }
    int status = 0;
    CHECK(waitpid(self->other, &status, WUNTRACED) == self->other && WIFSTOPPED(status));
    CHECK_STATUS(ferry_future_wait(reading.future, -1), FERRY_E_DEAD);
    CHECK_STATUS(gpu_end(reading.quiet), FERRY_OK);
    write_to(&self->own, ferry_buffer_span(reading.buffer), 999);
    CHECK(kill(self->other, SIGCONT) == 0);
    ferry_future_release(reading.future);
    ferry_buffer_release(reading.buffer);
}

/* ---- storm ---- */

#define STORM 24

static void storm_once(scene *self, uint64_t round)
{
    ferry_buffer *buffers[STORM];
    ferry_future *futures[STORM];
    for (uint64_t i = 0; i < STORM; i++) {
        uint64_t word = (round * STORM + i) * UINT64_C(0x9e3779b97f4a7c15); /* the same of both */
        bool sends = self->rank == (int)(word >> 40 & 1);
        size_t size = 1 + (size_t)(word >> 20) % (BYTES_MOST / 2);
        ferry_rank peer = (ferry_rank)(1 - self->rank);
        buffers[i] = gpu_buffer(place_of(&self->own, 1 + below(PLACES - 1)), size,
                                below(4) != 0 ? FERRY_MEMORY_PLAIN : FERRY_MEMORY_DEFAULT);
        ferry_span span = ferry_buffer_span(buffers[i]);
        ferry_op_options options = FERRY_OP_OPTIONS_INIT;
        if (below(8) == 0)
            options.deadline_ns = in_ns((int64_t)below(10000000));
        if (sends)
            write_to(&self->own, span, i);
        futures[i] = sends ? ferry_send(self->own.group, peer, i, span, &options)
                           : ferry_recv(self->own.group, peer, i, span, &options);
        if (below(8) == 0)
            (void)ferry_future_cancel(futures[below((uint64_t)i + 1)]);
    }
    for (uint64_t i = 0; i < STORM; i++) {
        uint64_t word = (round * STORM + i) * UINT64_C(0x9e3779b97f4a7c15);
        bool sends = self->rank == (int)(word >> 40 & 1), is_right = true;
        if (ferry_future_wait(futures[i], -1) == FERRY_OK && !sends)
            CHECK_STATUS(read_from(&self->own, ferry_buffer_span(buffers[i]), i, &is_right),
                         FERRY_OK);
        CHECK(is_right);
        CHECK_STATUS(gpu_end(ferry_future_quiet(futures[i])), FERRY_OK);
        ferry_future_release(futures[i]);
        ferry_buffer_release(buffers[i]);
    }
}

static void test_storm(scene *self)
{
    random_state = (uint64_t)self->rank + 7;
    for (uint64_t round = 0; round < 20; round++)
        storm_once(self, round);
}

/* The first sends, the second takes from any member, into more than is sent. */
static void test_open(scene *self)
{
    for (uint64_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        OWN_BUFFER *buffer = gpu_buffer(self->own.at.gpus[0], sizes[i] + 4096 * (size_t)self->rank,
                                        FERRY_MEMORY_PLAIN);
        bool is_right = false;
        if (self->rank == 0) {
            send_one(self, buffer, 70 + i, i);
            continue;
        }
        write_to(&self->own, ferry_buffer_span(buffer), 5);
        CHECK_STATUS(gpu_end(ferry_recv(self->own.group, FERRY_RANK_ANY, i,
                                        ferry_buffer_span(buffer), NULL)),
                     FERRY_OK);
        CHECK_STATUS(read_from(&self->own, (ferry_span){buffer, 0, sizes[i]}, 70 + i, &is_right),
                     FERRY_OK);
        CHECK(is_right);
    }
}

/* ---- main ---- */

static const two_test tests[] = {{"sizes", test_sizes, false},
                                 {"staged", test_staged, false},
                                 {"freed", test_freed, false},
                                 {"hidden", test_hidden, false},
                                 {"standing", test_standing, false},
                                 {"many", test_many, false},
                                 {"refused", test_refused, false},
                                 {"cut", test_cut, false},
                                 {"stopped", test_stopped, false},
                                 {"storm", test_storm, false},
                                 {"open", test_open, false},
                                 {"overtaken", test_overtaken, true},
                                 {"killed_reader", test_killed_reader, true},
                                 {"killed_sender", test_killed_sender, true}};

static void run(const two_test *test, bool is_other)
{
    gpu_watch(test->name, 100);
    test_name = test->name;
    lease_ns = test->ends ? 3000000000 : 100000000000;
    any_source_max = test->fn == test_open ? 4 : 0;
    gpu_way = !is_other && test->fn == test_staged ? FERRY_GPU_WAY_STAGING : FERRY_GPU_WAY_ANY;
    if (!is_other)
        temporary_folder_make(folder);
    two_run(test, is_other ? 1 : 0, !is_other);
    if (is_other)
        return;
    temporary_folder_remove(folder);
    (void)printf("%s\n", test->name);
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    bool is_other = two_is_other(argc, argv);
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        if (argc < 2 || strcmp(argv[1], tests[i].name) == 0)
            run(&tests[i], is_other);
    }
    return 0;
}
