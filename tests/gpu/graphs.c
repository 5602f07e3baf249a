/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans that are one command to a GPU: what becomes a graph and what does not, the order of its
 * copies, posts one after another, a driver that refuses to make or to begin it, and the same
 * copies on a stream of the program's, also while that is being captured.
 */
#include "tests/gpu/places.h"
#include "tests/support/paint.h"

#include <pthread.h>
#include <sched.h>

enum { BLOCKS = 24, BLOCK_BYTES = 3000, PITCH_BYTES = 4096, MOVED_BYTES = 50000 };

/* Memory of each sort, as large. */
typedef struct memories {
    ferry_buffer *from, *to, *near, *other;
} memories;

static memories memories_open(const places *at)
{
    size_t size_bytes = (size_t)BLOCKS * PITCH_BYTES;
    return (memories){.from = gpu_buffer(at->host, size_bytes, FERRY_MEMORY_PINNED),
                      .to = gpu_buffer(at->host, size_bytes, FERRY_MEMORY_PINNED),
                      .near = gpu_buffer(at->gpus[0], size_bytes, FERRY_MEMORY_DEFAULT),
                      .other = gpu_buffer(at->gpus[0], size_bytes, FERRY_MEMORY_PLAIN)};
}

static void memories_close(const memories *self)
{
    ferry_buffer_release(self->from);
    ferry_buffer_release(self->to);
    ferry_buffer_release(self->near);
    ferry_buffer_release(self->other);
}

static ferry_op copy_op(ferry_buffer *dst, size_t to, ferry_buffer *src, size_t from, size_t size)
{
    return (ferry_op){.kind = FERRY_OP_COPY, .dst = {dst, to, size}, .src = {src, from, size}};
}

static size_t place(size_t block)
{
    return block * PITCH_BYTES;
}

/* Each block goes up, to another place of the GPU, and down to a third one. */
static size_t there_and_back(const memories *on, ferry_op *ops)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t middle = place(i * 5 % BLOCKS), end = place(i * 7 % BLOCKS);
        ops[i] = copy_op(on->near, place(i), on->from, place(i), BLOCK_BYTES);
        ops[BLOCKS + i] = copy_op(on->other, middle, on->near, place(i), BLOCK_BYTES);
        ops[2 * BLOCKS + i] = copy_op(on->to, end, on->other, middle, BLOCK_BYTES);
    }
    return (size_t)3 * BLOCKS;
}

static void check_back(const memories *on)
{
    const unsigned char *from = ferry_buffer_data(on->from), *to = ferry_buffer_data(on->to);
    for (size_t i = 0; i < BLOCKS; i++)
        CHECK(memcmp(from + place(i), to + place(i * 7 % BLOCKS), BLOCK_BYTES) == 0);
}

static void paint_anew(const memories *on, unsigned salt)
{
    paint(ferry_buffer_data(on->from), ferry_buffer_size_bytes(on->from), salt);
    memset(ferry_buffer_data(on->to), 0, ferry_buffer_size_bytes(on->to));
}

static ferry_plan *plan_of(const places *at, const ferry_op *ops, size_t count)
{
    ferry_plan *plan = NULL;
    ferry_error *error = NULL;
    ferry_status status = ferry_plan_create(at->ge.engine, ops, sizeof *ops, count, &plan, &error);
    if (error != NULL)
        (void)fprintf(stderr, "%s\n", error->message);
    CHECK_STATUS(status, FERRY_OK);
    return plan;
}

static uint64_t graph_count(const ferry_plan *plan)
{
    ferry_plan_info info = FERRY_PLAN_INFO_INIT;
    CHECK_STATUS(ferry_plan_describe(plan, &info), FERRY_OK);
    return info.graph_count;
}

static uint64_t launches(void)
{
    return EMU(emu_call_count) != NULL ? EMU(emu_call_count)("cuGraphLaunch") : 0;
}

/* A post gives its plan back a little later than it is quiet. The watch ends this if one never is.
 */
static void await_no_graphs(void)
{
    emu_counters counters = {0};
    do {
        if (EMU(emu_get_counters) != NULL)
            EMU(emu_get_counters)(&counters);
    } while (counters.live_graphs != 0 && sched_yield() == 0);
}

/* ---- posts ---- */

static void test_posts(places *at)
{
    memories on = memories_open(at);
    ferry_op ops[3 * BLOCKS];
    ferry_plan *plan = plan_of(at, ops, there_and_back(&on, ops));
    CHECK(graph_count(plan) == (uint64_t)3 * BLOCKS);
    for (unsigned round = 0; round < 20; round++) {
        uint64_t before = launches();
        paint_anew(&on, round);
        CHECK_STATUS(gpu_end(ferry_plan_post(plan, NULL, 0, NULL)), FERRY_OK);
        check_back(&on);
        CHECK(EMU(emu_call_count) == NULL || launches() == before + 1);
    }
    /* Posts one behind the other, the plan released before they have ended. */
    ferry_future *posts[50];
    for (size_t i = 0; i < 50; i++)
        posts[i] = ferry_plan_post(plan, NULL, 0, NULL);
    ferry_plan_release(plan);
    for (size_t i = 0; i < 50; i++)
        CHECK_STATUS(gpu_end(posts[i]), FERRY_OK);
    check_back(&on);
    CHECK_STATUS(gpu_end(ferry_engine_drain(at->ge.engine)), FERRY_OK);
    await_no_graphs();
    memories_close(&on);
}

static void test_rows(places *at)
{
    memories on = memories_open(at);
    ferry_op ops[2] = {copy_op(on.near, 0, on.from, 100, BLOCK_BYTES),
                       copy_op(on.to, 0, on.near, 0, BLOCK_BYTES)};
    ops[0].row_count = ops[1].row_count = BLOCKS - 1;
    ops[0].src_pitch_bytes = ops[1].dst_pitch_bytes = PITCH_BYTES;
    ops[0].dst_pitch_bytes = ops[1].src_pitch_bytes = BLOCK_BYTES;
    ferry_plan *plan = plan_of(at, ops, 2);
    CHECK(graph_count(plan) == 2);
    paint_anew(&on, 3);
    CHECK_STATUS(gpu_end(ferry_plan_post(plan, NULL, 0, NULL)), FERRY_OK);
    const unsigned char *from = ferry_buffer_data(on.from), *to = ferry_buffer_data(on.to);
    for (size_t i = 0; i + 1 < BLOCKS; i++) {
        CHECK(memcmp(from + 100 + place(i), to + place(i), BLOCK_BYTES) == 0);
        CHECK(to[place(i) + BLOCK_BYTES] == 0);
    }
    ferry_plan_release(plan);
    memories_close(&on);
}

/* Threads share out differently what there is: it takes a while until a post allocates nothing. */
static void test_warm(places *at)
{
    enum { QUIET_ROUNDS = 50 };
    memories on = memories_open(at);
    ferry_op ops[3 * BLOCKS];
    ferry_plan *plan = plan_of(at, ops, there_and_back(&on, ops));
    for (int quiet = 0; quiet < QUIET_ROUNDS;) {
        uint64_t before = failing_allocator_calls(&at->ge.memory);
        CHECK_STATUS(gpu_end(ferry_plan_post(plan, NULL, 0, NULL)), FERRY_OK);
        CHECK_STATUS(gpu_end(ferry_engine_drain(at->ge.engine)), FERRY_OK);
        quiet = failing_allocator_calls(&at->ge.memory) == before ? quiet + 1 : 0;
    }
    ferry_plan_release(plan);
    memories_close(&on);
}

/* What a graph can't be made of is done one by one; an enqueue says so. */
static void test_others(places *at)
{
    memories on = memories_open(at);
    OWN_BUFFER *pageable = gpu_buffer(at->host, PITCH_BYTES, FERRY_MEMORY_DEFAULT);
    OWN_BUFFER *far = gpu_buffer(at->gpus[1], PITCH_BYTES, FERRY_MEMORY_DEFAULT);
    ferry_op up = copy_op(on.near, 0, on.from, 0, 64);
    ferry_op pairs[][2] = {{up, copy_op(on.near, 128, pageable, 0, 64)},
                           {up, {.kind = FERRY_OP_NOP}},
                           {up, copy_op(on.to, 0, on.from, 0, 64)},
                           {up, copy_op(far, 0, on.from, 128, 64)}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        ferry_error *error = NULL;
        ferry_plan *plan = plan_of(at, pairs[i], 2);
        CHECK(graph_count(plan) == 0);
        CHECK_STATUS(ferry_plan_enqueue(plan, at->gpus[0], NULL, &error), FERRY_E_UNSUPPORTED);
        CHECK(error != NULL && strstr(error->message, "one GPU") != NULL);
        ferry_error_release(error);
        CHECK_STATUS(gpu_end(ferry_plan_post(plan, NULL, 0, NULL)), FERRY_OK);
        ferry_plan_release(plan);
    }
    ferry_plan *single = plan_of(at, &up, 1);
    CHECK(graph_count(single) == 0);
    ferry_plan_release(single);
    memories_close(&on);
}

/*
 * On the device a post waits for the program's stream, and the stream, and a copy, for the post:
 * all of them are issued while the program's work is held.
 */
static void test_on_device(places *at)
{
    memories on = memories_open(at);
    ferry_op ops[2] = {copy_op(on.other, 0, on.near, 0, MOVED_BYTES),
                       copy_op(on.to, 0, on.other, 0, MOVED_BYTES)};
    ferry_plan *plan = plan_of(at, ops, 2);
    gpu_gate gate = gpu_gate_open(0, at->gpus[0]);
    for (unsigned round = 0; round < 3; round++) {
        paint_anew(&on, round + 30);
        gpu_gate_hold(&gate);
        CHECK_CUDA(cudaMemcpyAsync(ferry_buffer_data(on.near), ferry_buffer_data(on.from),
                                   MOVED_BYTES, cudaMemcpyHostToDevice, gpu_gate_stream(&gate)));
        ferry_future *event = ferry_event_record(at->gpus[0], gpu_gate_stream(&gate));
        CHECK_STATUS(ferry_buffer_define(ferry_buffer_span(on.near), event), FERRY_OK);
        ferry_future *post = ferry_plan_post(plan, NULL, 0, NULL);
        CHECK_STATUS(gpu_end(ferry_future_issued(post)), FERRY_OK);
        ferry_future *behind = gpu_copy(&at->ge, on.near, on.other, NULL);
        CHECK_STATUS(gpu_end(ferry_future_issued(behind)), FERRY_OK);
        CHECK_STATUS(ferry_future_stream_wait(post, at->gpus[0], gpu_gate_stream(&gate)), FERRY_OK);
        CHECK_STATUS(ferry_future_poll(post), FERRY_PENDING);
        if (round == 1) { /* The loop carries it out, so it could come after the gate. */
            CHECK_STATUS(ferry_future_cancel(post), FERRY_OK);
            CHECK_STATUS(ferry_future_wait(post, -1), FERRY_E_CANCELLED);
        }
        gpu_gate_let_go(&gate);
        CHECK_STATUS(gpu_end(post), round == 1 ? FERRY_E_CANCELLED : FERRY_OK);
        CHECK_STATUS(gpu_end(behind), round == 1 ? FERRY_E_DEPENDENCY : FERRY_OK);
        CHECK_STATUS(gpu_end(event), FERRY_OK);
        if (round != 1)
            CHECK(memcmp(ferry_buffer_data(on.to), ferry_buffer_data(on.from), MOVED_BYTES) == 0);
        CHECK_STATUS(gpu_end(ferry_engine_drain(at->ge.engine)), FERRY_OK);
        ferry_span written[] = {ferry_buffer_span(on.to), ferry_buffer_span(on.near),
                                ferry_buffer_span(on.other)};
        for (size_t i = 0; i < 3; i++)
            CHECK_STATUS(ferry_buffer_define(written[i], NULL), FERRY_OK);
    }
    gpu_gate_close(&gate);
    ferry_plan_release(plan);
    memories_close(&on);
}

/* Each copy's bytes are counted to its way, and the post as one operation. */
static void test_figures(void)
{
    places with_stats, *at = &with_stats;
    ferry_engine_options options = gpu_engine_options(&at->ge);
    options.stats = 1;
    CHECK_STATUS(ferry_engine_create(&options, &at->ge.engine, NULL), FERRY_OK);
    at->host = ferry_device_find(at->ge.engine, "host:0");
    at->gpus[0] = gpu_device(&at->ge, "cuda:0");
    memories on = memories_open(at);
    ferry_op ops[3 * BLOCKS];
    ferry_plan *plan = plan_of(at, ops, there_and_back(&on, ops));
    paint_anew(&on, 35);
    ferry_stats before = FERRY_STATS_INIT, after = FERRY_STATS_INIT;
    CHECK_STATUS(ferry_stats_read(at->ge.engine, NULL, &before), FERRY_OK);
    CHECK_STATUS(gpu_end(ferry_plan_post(plan, NULL, 0, NULL)), FERRY_OK);
    CHECK_STATUS(ferry_stats_read(at->ge.engine, NULL, &after), FERRY_OK);
    static const ferry_way ways[] = {FERRY_WAY_TO_DEVICE, FERRY_WAY_ON_DEVICE,
                                     FERRY_WAY_FROM_DEVICE};
    for (size_t i = 0; i < 3; i++)
        CHECK(after.bytes_by_way[ways[i]] - before.bytes_by_way[ways[i]] ==
              (uint64_t)BLOCKS * BLOCK_BYTES);
    CHECK(after.resolved_by_kind[FERRY_OP_PLAN] - before.resolved_by_kind[FERRY_OP_PLAN] == 1);
    CHECK(after.resolved_by_kind[FERRY_OP_COPY] == before.resolved_by_kind[FERRY_OP_COPY]);
    ferry_plan_release(plan);
    memories_close(&on);
    places_close(at);
}

/* ---- a driver that refuses ---- */

static void test_refusals(places *at)
{
    static const char *const calls[] = {"cuStreamBeginCapture", "cuGraphInstantiateWithFlags",
                                        "cuMemcpyAsync"};
    if (EMU(emu_fail_call) == NULL)
        return;
    memories on = memories_open(at);
    ferry_op ops[3 * BLOCKS];
    size_t count = there_and_back(&on, ops);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        CHECK(EMU(emu_fail_call)(calls[i], 1, CUDA_ERROR_NOT_SUPPORTED) == CUDA_SUCCESS);
        ferry_plan *plan = plan_of(at, ops, count);
        CHECK(graph_count(plan) == 0);
        paint_anew(&on, 40 + (unsigned)i);
        CHECK_STATUS(gpu_end(ferry_plan_post(plan, NULL, 0, NULL)), FERRY_OK);
        check_back(&on);
        ferry_plan_release(plan);
        await_no_graphs();
    }
    CHECK(EMU(emu_fail_call)("cuGraphInstantiateWithFlags", 1, CUDA_ERROR_OUT_OF_MEMORY) ==
          CUDA_SUCCESS);
    ferry_plan *none = NULL;
    CHECK_STATUS(ferry_plan_create(at->ge.engine, ops, sizeof *ops, count, &none, NULL),
                 FERRY_E_NO_MEMORY);

    /* One post fails and says why; the next is whole. */
    ferry_plan *plan = plan_of(at, ops, count);
    CHECK(EMU(emu_fail_call)("cuGraphLaunch", 1, CUDA_ERROR_INVALID_VALUE) == CUDA_SUCCESS);
    ferry_future *post = ferry_plan_post(plan, NULL, 0, NULL);
    CHECK_STATUS(ferry_future_wait(post, -1), FERRY_E_DEVICE);
    const ferry_error *error = ferry_future_error(post);
    CHECK(error->native_code == CUDA_ERROR_INVALID_VALUE);
    CHECK(strstr(error->message, "cuGraphLaunch") != NULL);
    ferry_future_release(post);
    ferry_span written[] = {ferry_buffer_span(on.to), ferry_buffer_span(on.near),
                            ferry_buffer_span(on.other)};
    for (size_t i = 0; i < 3; i++)
        CHECK_STATUS(ferry_buffer_define(written[i], NULL), FERRY_OK);
    paint_anew(&on, 50);
    CHECK_STATUS(gpu_end(ferry_plan_post(plan, NULL, 0, NULL)), FERRY_OK);
    check_back(&on);
    ferry_plan_release(plan);
    await_no_graphs();
    memories_close(&on);
}

/* ---- the program's streams ---- */

static void test_enqueue(places *at)
{
    memories on = memories_open(at);
    ferry_op ops[3 * BLOCKS];
    ferry_plan *plan = plan_of(at, ops, there_and_back(&on, ops));
    cudaStream_t stream;
    CHECK_CUDA(cudaSetDevice(0));
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (unsigned round = 0; round < 5; round++) {
        uint64_t before = launches();
        paint_anew(&on, 60 + round);
        CHECK_STATUS(ferry_plan_enqueue(plan, at->gpus[0], stream, NULL), FERRY_OK);
        CHECK(EMU(emu_call_count) == NULL || launches() == before + 1);
        CHECK_CUDA(cudaStreamSynchronize(stream));
        check_back(&on);
    }
    paint_anew(&on, 70);
    CHECK_STATUS(ferry_plan_enqueue(plan, at->gpus[0], NULL, NULL), FERRY_OK);
    CHECK_CUDA(cudaDeviceSynchronize());
    check_back(&on);

    ferry_error *error = NULL;
    CHECK_STATUS(ferry_plan_enqueue(NULL, at->gpus[0], stream, NULL), FERRY_E_INVALID);
    CHECK_STATUS(ferry_plan_enqueue(plan, NULL, stream, NULL), FERRY_E_INVALID);
    CHECK_STATUS(ferry_plan_enqueue(plan, at->gpus[1], stream, &error), FERRY_E_INVALID);
    CHECK(error != NULL && strstr(error->message, "not the plan's GPU") != NULL);
    ferry_error_release(error);
    if (EMU(emu_fail_call) != NULL) {
        error = NULL;
        CHECK(EMU(emu_fail_call)("cuGraphLaunch", 1, CUDA_ERROR_NOT_SUPPORTED) == CUDA_SUCCESS);
        CHECK_STATUS(ferry_plan_enqueue(plan, at->gpus[0], stream, &error), FERRY_E_DEVICE);
        CHECK(error != NULL && strstr(error->message, "cuGraphLaunch") != NULL);
        ferry_error_release(error);
        /* The graph for the program's streams is made when it is first needed; the next call tries
         * again. */
        ferry_plan *other = plan_of(at, ops, there_and_back(&on, ops));
        CHECK(EMU(emu_fail_call)("cuGraphInstantiateWithFlags", 1, CUDA_ERROR_OUT_OF_MEMORY) ==
              CUDA_SUCCESS);
        CHECK_STATUS(ferry_plan_enqueue(other, at->gpus[0], stream, NULL), FERRY_E_NO_MEMORY);
        paint_anew(&on, 75);
        CHECK_STATUS(ferry_plan_enqueue(other, at->gpus[0], stream, NULL), FERRY_OK);
        CHECK_CUDA(cudaStreamSynchronize(stream));
        check_back(&on);
        ferry_plan_release(other);
        /* A capture that takes no copies. */
        cudaGraph_t graph;
        CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
        CHECK(EMU(emu_fail_call)("cuMemcpyAsync", 1, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) ==
              CUDA_SUCCESS);
        CHECK_STATUS(ferry_plan_enqueue(plan, at->gpus[0], stream, NULL), FERRY_E_CAPTURE);
        CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
        CHECK_CUDA(cudaGraphDestroy(graph));
    }
    CHECK_CUDA(cudaStreamDestroy(stream));
    ferry_plan_release(plan);
    memories_close(&on);
}

/* Captured, and replayed: the copies are nodes of the program's graph. */
static void test_capture(places *at, enum cudaStreamCaptureMode mode)
{
    memories on = memories_open(at);
    ferry_op ops[3 * BLOCKS];
    ferry_plan *plan = plan_of(at, ops, there_and_back(&on, ops));
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK_CUDA(cudaSetDevice(0));
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    paint_anew(&on, 80);
    uint64_t before = launches();
    CHECK_CUDA(cudaStreamBeginCapture(stream, mode));
    CHECK_STATUS(ferry_plan_enqueue(plan, at->gpus[0], stream, NULL), FERRY_OK);
    CHECK_STATUS(gpu_end(ferry_plan_post(plan, NULL, 0, NULL)), FERRY_OK); /* harms nothing */
    ferry_plan *other = plan_of(at, ops, there_and_back(&on, ops));
    ferry_plan_release(other);
    CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
    CHECK(EMU(emu_call_count) == NULL || launches() == before + 1); /* the post's */
    CHECK_CUDA(cudaGraphInstantiate(&executable, graph, 0));
    for (unsigned round = 0; round < 3; round++) {
        paint_anew(&on, 90 + round);
        CHECK_CUDA(cudaGraphLaunch(executable, stream));
        CHECK_CUDA(cudaStreamSynchronize(stream));
        check_back(&on);
    }
    CHECK_CUDA(cudaGraphExecDestroy(executable));
    CHECK_CUDA(cudaGraphDestroy(graph));
    CHECK_CUDA(cudaStreamDestroy(stream));
    ferry_plan_release(plan);
    memories_close(&on);
}

/* A stream whose capture the program has broken: nothing can be put on it, and the plan is whole.
 */
static void test_invalid_capture(places *at)
{
    memories on = memories_open(at);
    ferry_op ops[3 * BLOCKS];
    ferry_plan *plan = plan_of(at, ops, there_and_back(&on, ops));
    cudaStream_t stream;
    cudaGraph_t graph = NULL;
    ferry_error *error = NULL;
    CHECK_CUDA(cudaSetDevice(0));
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    if (EMU(emu_count_catches) != NULL)
        EMU(emu_count_catches)(true);
    CHECK(cudaStreamSynchronize(stream) != cudaSuccess); /* which breaks it */
    if (EMU(emu_count_catches) != NULL)
        EMU(emu_count_catches)(false);
    CHECK_STATUS(ferry_plan_enqueue(plan, at->gpus[0], stream, &error), FERRY_E_CAPTURE);
    CHECK(error != NULL && strstr(error->message, "capture") != NULL);
    ferry_error_release(error);
    CHECK(cudaStreamEndCapture(stream, &graph) != cudaSuccess);
    (void)cudaGetLastError();
    paint_anew(&on, 95);
    CHECK_STATUS(ferry_plan_enqueue(plan, at->gpus[0], stream, NULL), FERRY_OK);
    CHECK_CUDA(cudaStreamSynchronize(stream));
    check_back(&on);
    CHECK_CUDA(cudaStreamDestroy(stream));
    ferry_plan_release(plan);
    memories_close(&on);
}

/* On a lost GPU nothing is put on a stream, and a post fails by the loss. */
static void test_loss(places *at)
{
    cudaStream_t stream;
    ferry_error *error = NULL;
    if (EMU(emu_lose_device) == NULL || getenv("FERRY_EMU_QUEUES") != NULL) {
        (void)printf("no device can be lost here\n");
        return;
    }
    memories on = memories_open(at);
    ferry_op ops[3 * BLOCKS];
    ferry_plan *plan = plan_of(at, ops, there_and_back(&on, ops));
    CHECK(graph_count(plan) != 0);
    CHECK_CUDA(cudaSetDevice(0));
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(EMU(emu_lose_device)(0, CUDA_ERROR_ECC_UNCORRECTABLE) == CUDA_SUCCESS);
    CHECK_STATUS(ferry_plan_enqueue(plan, at->gpus[0], stream, &error), FERRY_E_DEVICE);
    CHECK(error != NULL && error->native_code == CUDA_ERROR_ECC_UNCORRECTABLE);
    ferry_error_release(error);
    ferry_future *post = ferry_plan_post(plan, NULL, 0, NULL);
    CHECK_STATUS(ferry_future_wait(post, -1), FERRY_E_DEVICE);
    CHECK(ferry_future_error(post)->native_code == CUDA_ERROR_ECC_UNCORRECTABLE);
    ferry_future_release(post);
    CHECK_STATUS(ferry_plan_enqueue(plan, at->gpus[0], stream, NULL), FERRY_E_DEVICE);
    ferry_plan_release(plan);
    memories_close(&on);
}

/* What the emulator would end a program for; and then nothing can use that GPU any more. */
static void test_last(void)
{
    places at;
    places_open(&at, NULL);
    test_invalid_capture(&at);
    test_loss(&at);
    ferry_status status = ferry_engine_shutdown(at.ge.engine, 50000000);
    CHECK(status == FERRY_OK || status == FERRY_E_DEADLINE);
    gpu_leave();
}

/* After the shutdown the plan is refused, and can still be released. */
static void test_shutdown(void)
{
    places at;
    places_open(&at, NULL);
    memories on = memories_open(&at);
    ferry_op ops[3 * BLOCKS];
    ferry_plan *plan = plan_of(&at, ops, there_and_back(&on, ops));
    CHECK_STATUS(ferry_engine_shutdown(at.ge.engine, -1), FERRY_OK);
    CHECK_STATUS(ferry_plan_enqueue(plan, at.gpus[0], NULL, NULL), FERRY_E_SHUTDOWN);
    ferry_plan_release(plan);
    memories_close(&on);
    places_close(&at);
}

/* Several threads put one plan on streams of their own while it is posted: one at a time runs. */
typedef struct enqueuer {
    places *at;
    ferry_plan *plan;
} enqueuer;

static void *enqueue_often(void *arg)
{
    const enqueuer *self = arg;
    cudaStream_t stream;
    CHECK_CUDA(cudaSetDevice(0));
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = 0; i < 50; i++)
        CHECK_STATUS(ferry_plan_enqueue(self->plan, self->at->gpus[0], stream, NULL), FERRY_OK);
    CHECK_CUDA(cudaStreamSynchronize(stream));
    CHECK_CUDA(cudaStreamDestroy(stream));
    return NULL;
}

static void test_threads(places *at)
{
    memories on = memories_open(at);
    ferry_op ops[2] = {copy_op(on.near, 0, on.from, 0, BLOCK_BYTES),
                       copy_op(on.to, 0, on.near, 0, BLOCK_BYTES)};
    enqueuer self = {.at = at, .plan = plan_of(at, ops, 2)};
    pthread_t threads[3];
    paint_anew(&on, 100);
    for (size_t i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, enqueue_often, &self) == 0);
    for (size_t i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(memcmp(ferry_buffer_data(on.from), ferry_buffer_data(on.to), BLOCK_BYTES) == 0);
    ferry_plan_release(self.plan);
    memories_close(&on);
}

/* ---- any copies ---- */

static size_t random_below(uint64_t *state, size_t below)
{
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return (size_t)(*state >> 33) % below;
}

/* Blocks go anywhere but onto themselves: the order of the array decides what is where. */
static void test_random(places *at, uint64_t seed)
{
    enum { MOST = 60 };
    memories on = memories_open(at);
    ferry_buffer *buffers[] = {on.from, on.to, on.near, on.other};
    size_t size_bytes = ferry_buffer_size_bytes(on.from);
    unsigned char *model[4];
    for (size_t i = 0; i < 4; i++)
        CHECK((model[i] = malloc(size_bytes)) != NULL);
    uint64_t random = seed;
    ferry_op ops[MOST];
    size_t count = 2 + random_below(&random, MOST - 1);
    for (size_t i = 0; i < count; i++) {
        size_t dst = random_below(&random, 4), src;
        do { /* one of the two is the GPU's, and the two are not one memory */
            src = random_below(&random, 4);
        } while (src == dst || (src < 2 && dst < 2));
        size_t bytes = 1 + random_below(&random, 3 * PITCH_BYTES);
        ops[i] = copy_op(buffers[dst], random_below(&random, size_bytes - bytes), buffers[src],
                         random_below(&random, size_bytes - bytes), bytes);
    }
    ferry_plan *plan = plan_of(at, ops, count);
    CHECK(graph_count(plan) != 0 || count < 3);
    for (unsigned round = 0; round < 3; round++) {
        paint_anew(&on, (unsigned)seed + round);
        if (round == 0) {
            CHECK_STATUS(gpu_end(gpu_copy(&at->ge, on.near, on.from, NULL)), FERRY_OK);
            CHECK_STATUS(gpu_end(gpu_copy(&at->ge, on.other, on.to, NULL)), FERRY_OK);
            memcpy(model[2], ferry_buffer_data(on.from), size_bytes);
            memcpy(model[3], ferry_buffer_data(on.to), size_bytes);
        }
        memcpy(model[0], ferry_buffer_data(on.from), size_bytes);
        memcpy(model[1], ferry_buffer_data(on.to), size_bytes);
        CHECK_STATUS(gpu_end(ferry_plan_post(plan, NULL, 0, NULL)), FERRY_OK);
        for (size_t i = 0; i < count; i++) {
            size_t dst = 0, src = 0;
            while (buffers[dst] != ops[i].dst.buffer)
                dst++;
            while (buffers[src] != ops[i].src.buffer)
                src++;
            memcpy(model[dst] + ops[i].dst.offset_bytes, model[src] + ops[i].src.offset_bytes,
                   ops[i].src.size_bytes);
        }
        CHECK(memcmp(model[0], ferry_buffer_data(on.from), size_bytes) == 0);
        CHECK(memcmp(model[1], ferry_buffer_data(on.to), size_bytes) == 0);
        for (size_t i = 2; i < 4; i++) {
            CHECK_STATUS(gpu_end(gpu_copy(&at->ge, on.to, buffers[i], NULL)), FERRY_OK);
            CHECK(memcmp(model[i], ferry_buffer_data(on.to), size_bytes) == 0);
        }
    }
    ferry_plan_release(plan);
    for (size_t i = 0; i < 4; i++)
        free(model[i]);
    memories_close(&on);
}

int main(void)
{
    places at;
    gpu_watch("graphs", 100);
    places_open(&at, NULL);
    test_posts(&at);
    test_rows(&at);
    test_warm(&at);
    test_others(&at);
    test_on_device(&at);
    test_enqueue(&at);
    test_capture(&at, cudaStreamCaptureModeGlobal);
    test_capture(&at, cudaStreamCaptureModeThreadLocal);
    test_capture(&at, cudaStreamCaptureModeRelaxed);
    test_threads(&at);
    for (uint64_t seed = 1; seed <= 40; seed++)
        test_random(&at, seed);
    test_refusals(&at);
    places_close(&at);
    test_figures();
    test_shutdown();
    test_last();
    return 0;
}
