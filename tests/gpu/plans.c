/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans of copies between hosts and GPUs, with functions between them: order, picks, streams of the
 * program's that a post waits for, ends, and a GPU that is lost.
 */
#include "tests/gpu/places.h"
#include "tests/support/paint.h"

enum { SLICES = 300, SLICE_BYTES = 5000, GAP_BYTES = 200 };

static ferry_plan *plan_of(places *at, const ferry_op *ops, size_t count)
{
    ferry_plan *plan = NULL;
    ferry_error *error = NULL;
    ferry_status status = ferry_plan_create(at->ge.engine, ops, sizeof *ops, count, &plan, &error);
    if (error != NULL)
        (void)fprintf(stderr, "%s\n", error->message);
    CHECK_STATUS(status, FERRY_OK);
    return plan;
}

static ferry_op copy_op(ferry_span dst, ferry_span src)
{
    return (ferry_op){.kind = FERRY_OP_COPY, .dst = dst, .src = src};
}

static ferry_status end_of(ferry_plan *plan)
{
    return gpu_end(ferry_plan_post(plan, NULL, 0, NULL));
}

/* ---- order ---- */

static void test_chain(places *at, size_t size_bytes)
{
    OWN_BUFFER *src = gpu_buffer(at->host, size_bytes, FERRY_MEMORY_PINNED);
    OWN_BUFFER *back = gpu_buffer(at->host, size_bytes, FERRY_MEMORY_DEFAULT);
    OWN_BUFFER *near = gpu_buffer(at->gpus[0], size_bytes, FERRY_MEMORY_DEFAULT);
    OWN_BUFFER *far = gpu_buffer(at->gpus[1], size_bytes, FERRY_MEMORY_PLAIN);
    ferry_op ops[] = {copy_op(ferry_buffer_span(near), ferry_buffer_span(src)),
                      copy_op(ferry_buffer_span(far), ferry_buffer_span(near)),
                      copy_op(ferry_buffer_span(back), ferry_buffer_span(far))};
    ferry_plan *plan = plan_of(at, ops, 3);
    for (unsigned round = 0; round < 5; round++) {
        paint(ferry_buffer_data(src), size_bytes, round + (unsigned)size_bytes);
        CHECK_STATUS(end_of(plan), FERRY_OK);
        CHECK(memcmp(ferry_buffer_data(src), ferry_buffer_data(back), size_bytes) == 0);
    }
    ferry_plan_release(plan);
}

static ferry_status add_one(void *arg)
{
    unsigned char *bytes = arg;
    for (size_t i = 0; i < MIB; i++)
        bytes[i]++;
    return FERRY_OK;
}

/* Down from a GPU, changed here, up again: each post begins with what the last one left. */
static void test_function(places *at)
{
    OWN_BUFFER *host = gpu_buffer(at->host, MIB, FERRY_MEMORY_PINNED);
    OWN_BUFFER *gpu = gpu_buffer(at->gpus[0], MIB, FERRY_MEMORY_DEFAULT);
    ferry_access access = {ferry_buffer_span(host), FERRY_READ_WRITE};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.accesses = &access;
    options.access_count = 1;
    ferry_op ops[] = {
        copy_op(ferry_buffer_span(host), ferry_buffer_span(gpu)),
        {.kind = FERRY_OP_CALL, .fn = add_one, .arg = ferry_buffer_data(host), .options = &options},
        copy_op(ferry_buffer_span(gpu), ferry_buffer_span(host))};
    ferry_plan *plan = plan_of(at, ops, 3);
    memset(ferry_buffer_data(host), 0, MIB);
    CHECK_STATUS(gpu_end(gpu_copy(&at->ge, gpu, host, NULL)), FERRY_OK);
    for (int i = 0; i < 10; i++)
        ferry_future_release(ferry_plan_post(plan, NULL, 0, NULL));
    CHECK_STATUS(gpu_end(gpu_copy(&at->ge, host, gpu, NULL)), FERRY_OK);
    const unsigned char *bytes = ferry_buffer_data(host);
    for (size_t i = 0; i < MIB; i++)
        CHECK(bytes[i] == 10);
    ferry_plan_release(plan);
}

/* ---- many, and some of them ---- */

static void test_slices(places *at, uint32_t flags)
{
    static ferry_op ops[2 * SLICES];
    static uint32_t picks[SLICES];
    size_t size_bytes = (size_t)SLICES * (SLICE_BYTES + GAP_BYTES);
    OWN_BUFFER *src = gpu_buffer(at->host, size_bytes, FERRY_MEMORY_PINNED);
    OWN_BUFFER *gpu = gpu_buffer(at->gpus[1], size_bytes, FERRY_MEMORY_DEFAULT);
    OWN_BUFFER *dst = gpu_buffer(at->host, size_bytes, FERRY_MEMORY_PINNED);
    paint(ferry_buffer_data(src), size_bytes, 9);
    for (size_t i = 0; i < SLICES; i++) {
        size_t here = i * (SLICE_BYTES + GAP_BYTES);
        size_t there = (i * 7 % SLICES) * (SLICE_BYTES + GAP_BYTES);
        ops[i] =
            copy_op((ferry_span){gpu, there, SLICE_BYTES}, (ferry_span){src, here, SLICE_BYTES});
        ops[SLICES + i] =
            copy_op((ferry_span){dst, here, SLICE_BYTES}, (ferry_span){gpu, there, SLICE_BYTES});
    }
    ferry_plan *plan = plan_of(at, ops, 2 * SLICES);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.flags = flags;
    unsigned char *from = ferry_buffer_data(src), *to = ferry_buffer_data(dst);
    for (int round = 0; round < 3; round++) {
        memset(to, 0, size_bytes);
        CHECK_STATUS(gpu_end(ferry_plan_post(plan, NULL, 0, &options)), FERRY_OK);
        for (size_t i = 0; i < SLICES; i++) {
            size_t here = i * (SLICE_BYTES + GAP_BYTES);
            CHECK(memcmp(from + here, to + here, SLICE_BYTES) == 0);
            CHECK(to[here + SLICE_BYTES] == 0);
        }
    }
    /* Every other one, up and down again. */
    memset(to, 0, size_bytes);
    memset(from, 77, size_bytes);
    for (uint32_t i = 0; i < SLICES; i++)
        picks[i] = 2 * i;
    CHECK_STATUS(gpu_end(ferry_plan_post(plan, picks, SLICES, &options)), FERRY_OK);
    for (size_t i = 0; i < SLICES; i++)
        CHECK(to[i * (SLICE_BYTES + GAP_BYTES)] == (i % 2 == 0 ? 77 : 0));
    ferry_plan_release(plan);
}

/* ---- the program's stream ---- */

/* A post waits for what the stream computes, and can be cancelled meanwhile. */
static void test_stream(places *at)
{
    OWN_BUFFER *host = gpu_buffer(at->host, MIB, FERRY_MEMORY_PINNED);
    OWN_BUFFER *gpu = gpu_buffer(at->gpus[0], MIB, FERRY_MEMORY_DEFAULT);
    OWN_BUFFER *other = gpu_buffer(at->gpus[0], MIB, FERRY_MEMORY_DEFAULT);
    ferry_op ops[] = {copy_op(ferry_buffer_span(other), ferry_buffer_span(gpu)),
                      copy_op(ferry_buffer_span(host), ferry_buffer_span(other))};
    ferry_plan *plan = plan_of(at, ops, 2);
    gpu_gate gate = gpu_gate_open(0, at->gpus[0]);
    memset(ferry_buffer_data(host), 5, MIB);
    CHECK_STATUS(gpu_end(gpu_copy(&at->ge, gpu, host, NULL)), FERRY_OK);
    CHECK_STATUS(end_of(plan), FERRY_OK);
    for (int i = 0; i < 2; i++) {
        gpu_gate_hold(&gate);
        ferry_future *event = ferry_event_record(at->gpus[0], gpu_gate_stream(&gate));
        CHECK_STATUS(ferry_buffer_define(ferry_buffer_span(gpu), event), FERRY_OK);
        ferry_future *post = ferry_plan_post(plan, NULL, 0, NULL);
        CHECK_STATUS(ferry_future_poll(post), FERRY_PENDING);
        if (i == 1) {
            CHECK_STATUS(ferry_future_cancel(post), FERRY_OK);
            CHECK_STATUS(ferry_future_wait(post, -1), FERRY_E_CANCELLED);
        }
        ferry_future *quiet = ferry_future_quiet(post); /* it may stand on the device */
        gpu_gate_let_go(&gate);
        CHECK_STATUS(gpu_end(quiet), FERRY_OK);
        CHECK_STATUS(gpu_end(post), i == 1 ? FERRY_E_CANCELLED : FERRY_OK);
        CHECK_STATUS(gpu_end(event), FERRY_OK);
    }
    gpu_gate_close(&gate);
    ferry_plan_release(plan);
}

/* ---- ends ---- */

/* Wherever a cancel finds it, it is quiet soon, and then nothing writes the memory. */
static void test_cancels(places *at)
{
    enum { BLOCKS = 64 };
    static ferry_op ops[BLOCKS];
    OWN_BUFFER *host = gpu_buffer(at->host, BLOCKS * 2 * 64 * KIB, FERRY_MEMORY_PINNED);
    OWN_BUFFER *gpu = gpu_buffer(at->gpus[0], BLOCKS * 2 * 64 * KIB, FERRY_MEMORY_DEFAULT);
    unsigned char *bytes = ferry_buffer_data(host);
    memset(bytes, 1, ferry_buffer_size_bytes(host));
    CHECK_STATUS(gpu_end(gpu_copy(&at->ge, gpu, host, NULL)), FERRY_OK);
    for (size_t i = 0; i < BLOCKS; i++)
        ops[i] = copy_op((ferry_span){host, i * 128 * KIB, 64 * KIB},
                         (ferry_span){gpu, i * 128 * KIB, 64 * KIB});
    ferry_plan *plan = plan_of(at, ops, BLOCKS);
    for (unsigned i = 0; i < 40; i++) {
        ferry_future *post = ferry_plan_post(plan, NULL, 0, NULL);
        if (i % 4 != 0)
            CHECK_STATUS(gpu_end(ferry_future_issued(post)), FERRY_OK);
        for (volatile unsigned spin = i * 2000; spin > 0; spin--)
            continue;
        CHECK_STATUS(ferry_future_cancel(post), FERRY_OK);
        ferry_status status = ferry_future_wait(post, -1);
        CHECK(status == FERRY_OK || status == FERRY_E_CANCELLED);
        CHECK_STATUS(gpu_end(ferry_future_quiet(post)), FERRY_OK);
        ferry_future_release(post);
        memset(bytes, 2, ferry_buffer_size_bytes(host));
        CHECK_STATUS(ferry_buffer_define(ferry_buffer_span(host), NULL), FERRY_OK);
        CHECK_STATUS(gpu_end(ferry_engine_drain(at->ge.engine)), FERRY_OK);
        gpu_settle();
        for (size_t j = 0; j < ferry_buffer_size_bytes(host); j += 4096)
            CHECK(bytes[j] == 2);
    }
    ferry_plan_release(plan);
}

/* ---- a lost GPU ---- */

/* Posts fail with its loss as the cause, those under way and later ones; the engine ends in time.
 */
static void test_loss(void)
{
    int count = 0;
    CHECK_CUDA(cudaGetDeviceCount(&count));
    if (EMU(emu_lose_device) == NULL || count < 2 || getenv("FERRY_EMU_QUEUES") != NULL) {
        (void)printf("no device can be lost here\n");
        return;
    }
    places at;
    places_open(&at, NULL);
    ferry_buffer *host = gpu_buffer(at.host, MIB, FERRY_MEMORY_PINNED);
    ferry_buffer *gpu = gpu_buffer(at.gpus[0], MIB, FERRY_MEMORY_DEFAULT);
    ferry_op ops[] = {copy_op(ferry_buffer_span(gpu), ferry_buffer_span(host)),
                      copy_op(ferry_buffer_span(host), ferry_buffer_span(gpu))};
    ferry_plan *plan = plan_of(&at, ops, 2);
    CHECK_STATUS(end_of(plan), FERRY_OK);
    EMU(emu_hold)();
    ferry_future *posts[2];
    for (int i = 0; i < 2; i++) {
        posts[i] = ferry_plan_post(plan, NULL, 0, NULL);
        if (i == 0) {
            CHECK_STATUS(gpu_end(ferry_future_issued(posts[i])), FERRY_OK);
            CHECK(EMU(emu_lose_device)(0, CUDA_ERROR_ECC_UNCORRECTABLE) == CUDA_SUCCESS);
            EMU(emu_release)();
        }
        CHECK_STATUS(ferry_future_wait(posts[i], -1), i == 0 ? FERRY_E_DEVICE : FERRY_E_DEPENDENCY);
        const ferry_error *error = ferry_future_error(posts[i]);
        for (; error->cause != NULL; error = error->cause)
            continue;
        CHECK_STATUS(error->status, FERRY_E_DEVICE);
        CHECK(error->native_code == CUDA_ERROR_ECC_UNCORRECTABLE);
        ferry_future_release(posts[i]);
    }
    ferry_plan_release(plan);
    ferry_buffer_release(host);
    ferry_buffer_release(gpu);
    ferry_status status = ferry_engine_shutdown(at.ge.engine, 50000000);
    CHECK(status == FERRY_OK || status == FERRY_E_DEADLINE);
    gpu_leave();
}

int main(void)
{
    static const size_t sizes[] = {1, 4095, 65536, 262144, 4 * MIB + 17};
    places at;
    gpu_watch("plans", 100);
    places_open(&at, NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        test_chain(&at, sizes[i]);
    test_function(&at);
    test_slices(&at, 0);
    test_slices(&at, FERRY_OP_UNTRACKED);
    test_stream(&at);
    test_cancels(&at);
    places_close(&at);
    test_loss(); /* the last: nothing in the process can use that GPU afterwards */
    return 0;
}
