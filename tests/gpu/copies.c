/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between hosts and GPUs, as a program makes them: bytes, order, many at once, rows, what
 * the thread's CUDA state is afterwards. With one GPU a logical device is the second.
 */
#include "tests/gpu/places.h"
#include "tests/support/paint.h"

#include <pthread.h>

#define SLICES 1000
#define SLICE_BYTES 192

/* ---- over two GPUs and back ---- */

/* All submitted at once; nobody waits but for the end. */
static void test_chain(places *at, size_t size_bytes, ferry_memory kind)
{
    OWN_BUFFER *src = gpu_buffer(at->host, size_bytes, kind);
    OWN_BUFFER *back = gpu_buffer(at->host, size_bytes, kind);
    OWN_BUFFER *near = gpu_buffer(at->gpus[0], size_bytes, FERRY_MEMORY_DEFAULT);
    OWN_BUFFER *far = gpu_buffer(at->gpus[1], size_bytes, FERRY_MEMORY_PLAIN);
    for (unsigned round = 0; round < 3; round++) {
        paint(ferry_buffer_data(src), size_bytes, round + (unsigned)size_bytes);
        memset(ferry_buffer_data(back), 0, size_bytes);
        ferry_future_release(gpu_copy(&at->ge, near, src, NULL));
        ferry_future_release(gpu_copy(&at->ge, far, near, NULL));
        CHECK_STATUS(gpu_end(gpu_copy(&at->ge, back, far, NULL)), FERRY_OK);
        CHECK(memcmp(ferry_buffer_data(src), ferry_buffer_data(back), size_bytes) == 0);
    }
}

/* ---- the thread's state ---- */

/* Memory of the program's; its last CUDA error and its device are what they were. */
static void test_thread_state(places *at)
{
    void *pinned, *on_gpu;
    ferry_buffer *host, *gpu;
    CHECK_CUDA(cudaSetDevice(at->ordinals[1]));
    CHECK_CUDA(cudaMallocHost(&pinned, 2 * MIB));
    CHECK_CUDA(cudaMalloc(&on_gpu, MIB));
    paint(pinned, MIB, 1);
    CHECK_STATUS(ferry_buffer_wrap(at->host, pinned, 2 * MIB, NULL, NULL, &host), FERRY_OK);
    CHECK_STATUS(ferry_buffer_wrap(at->gpus[1], on_gpu, MIB, NULL, NULL, &gpu), FERRY_OK);
    CHECK_CUDA(cudaSetDevice(at->ordinals[0]));
    CHECK(cudaSetDevice(1000) == cudaErrorInvalidDevice);
    CHECK(cudaPeekAtLastError() == cudaErrorInvalidDevice);

    ferry_span first = {host, 0, MIB}, second = {host, MIB, MIB};
    ferry_future *in = ferry_copy(at->ge.engine, ferry_buffer_span(gpu), first, NULL);
    ferry_future *out = ferry_copy(at->ge.engine, second, ferry_buffer_span(gpu), NULL);
    CHECK_STATUS(gpu_end(out), FERRY_OK);
    CHECK_STATUS(gpu_end(in), FERRY_OK);
    CHECK(memcmp(pinned, (char *)pinned + MIB, MIB) == 0);
    ferry_buffer *made = gpu_buffer(at->gpus[0], MIB, FERRY_MEMORY_DEFAULT);
    ferry_buffer_release(made);

    int now = -1;
    CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
    CHECK_CUDA(cudaGetLastError());
    CHECK_CUDA(cudaGetDevice(&now));
    CHECK(now == at->ordinals[0]);
    ferry_buffer_release(host);
    ferry_buffer_release(gpu);
    CHECK_STATUS(gpu_end(ferry_engine_drain(at->ge.engine)), FERRY_OK);
    CHECK_CUDA(cudaFree(on_gpu));
    CHECK_CUDA(cudaFreeHost(pinned));
}

/* ---- many small ones ---- */

static void test_slices(places *at)
{
    size_t size_bytes = (size_t)SLICES * SLICE_BYTES;
    OWN_BUFFER *src = gpu_buffer(at->host, size_bytes, FERRY_MEMORY_PINNED);
    OWN_BUFFER *gpu = gpu_buffer(at->gpus[0], size_bytes, FERRY_MEMORY_DEFAULT);
    OWN_BUFFER *dst = gpu_buffer(at->host, size_bytes, FERRY_MEMORY_PINNED);
    static ferry_op ops[2 * SLICES];
    paint(ferry_buffer_data(src), size_bytes, 9);
    memset(ferry_buffer_data(dst), 0, size_bytes);
    memset(ops, 0, sizeof ops);
    for (size_t i = 0; i < SLICES; i++) {
        size_t to = (i * 7 % SLICES) * SLICE_BYTES;
        ops[i] = (ferry_op){.kind = FERRY_OP_COPY,
                            .dst = {gpu, to, SLICE_BYTES},
                            .src = {src, i * SLICE_BYTES, SLICE_BYTES}};
        ops[SLICES + i] = (ferry_op){.kind = FERRY_OP_COPY,
                                     .dst = {dst, i * SLICE_BYTES, SLICE_BYTES},
                                     .src = {gpu, to, SLICE_BYTES}};
    }
    CHECK_STATUS(gpu_end(ferry_batch(at->ge.engine, ops, sizeof *ops, 2 * SLICES, NULL, NULL)),
                 FERRY_OK);
    CHECK(memcmp(ferry_buffer_data(src), ferry_buffer_data(dst), size_bytes) == 0);
}

/* The same few bytes written again and again, and read in between: always in program order. */
static void test_hazards(places *at)
{
    OWN_BUFFER *src = gpu_buffer(at->host, 256 * 64, FERRY_MEMORY_PINNED);
    OWN_BUFFER *dst = gpu_buffer(at->host, 256 * 64, FERRY_MEMORY_PINNED);
    OWN_BUFFER *gpu = gpu_buffer(at->gpus[0], 64, FERRY_MEMORY_DEFAULT);
    OWN_BUFFER *far = gpu_buffer(at->gpus[1], 64, FERRY_MEMORY_DEFAULT);
    paint(ferry_buffer_data(src), 256 * 64, 3);
    memset(ferry_buffer_data(dst), 0, 256 * 64);
    for (size_t i = 0; i < 256; i++) {
        ferry_span from = {src, i * 64, 64}, to = {dst, i * 64, 64};
        ferry_engine *engine = at->ge.engine;
        ferry_future_release(ferry_copy(engine, ferry_buffer_span(gpu), from, NULL));
        ferry_future_release(
            ferry_copy(engine, ferry_buffer_span(far), ferry_buffer_span(gpu), NULL));
        ferry_future_release(ferry_copy(engine, to, ferry_buffer_span(far), NULL));
    }
    CHECK_STATUS(gpu_end(ferry_engine_drain(at->ge.engine)), FERRY_OK);
    CHECK(memcmp(ferry_buffer_data(src), ferry_buffer_data(dst), 256 * 64) == 0);
}

/* A block of columns goes to the GPU, to the other one as a block, and back into place. */
static void test_rows(places *at)
{
    enum { ROWS = 200, WIDTH = 333, PITCH = 1021 };
    ferry_engine *engine = at->ge.engine;
    OWN_BUFFER *src = gpu_buffer(at->host, ROWS * PITCH, FERRY_MEMORY_PINNED);
    OWN_BUFFER *dst = gpu_buffer(at->host, ROWS * PITCH, FERRY_MEMORY_PINNED);
    OWN_BUFFER *gpu = gpu_buffer(at->gpus[0], ROWS * PITCH, FERRY_MEMORY_DEFAULT);
    OWN_BUFFER *block = gpu_buffer(at->gpus[1], ROWS * WIDTH, FERRY_MEMORY_DEFAULT);
    unsigned char *from = ferry_buffer_data(src), *to = ferry_buffer_data(dst);
    paint(from, ROWS * PITCH, 5);
    memset(to, 0, ROWS * PITCH);
    ferry_span rows = {src, 100, WIDTH}, on_gpu = {gpu, 7, WIDTH}, packed = {block, 0, WIDTH};
    ferry_span back = {dst, 100, WIDTH};
    ferry_future_release(ferry_copy_rows(engine, on_gpu, PITCH, rows, PITCH, ROWS, NULL));
    ferry_future_release(ferry_copy_rows(engine, packed, WIDTH, on_gpu, PITCH, ROWS, NULL));
    CHECK_STATUS(gpu_end(ferry_copy_rows(engine, back, PITCH, packed, WIDTH, ROWS, NULL)),
                 FERRY_OK);
    for (size_t row = 0; row < ROWS; row++) {
        size_t start = 100 + row * PITCH, next = start + PITCH;
        CHECK(memcmp(to + start, from + start, WIDTH) == 0);
        for (size_t i = start + WIDTH; i < next && i < ROWS * PITCH; i++)
            CHECK(to[i] == 0);
    }
}

/* ---- a full stream ---- */

/*
 * A program's stream does not go on, and thousands of copies depend on it: each submit returns, a
 * copy that depends on nothing passes, and all of them come to their end.
 */
static void test_full_streams(places *at)
{
    enum { COUNT = 3000, BYTES = 16 };
    gpu_gate gate = gpu_gate_open(at->ordinals[0], at->gpus[0]);
    OWN_BUFFER *src = gpu_buffer(at->host, COUNT * BYTES, FERRY_MEMORY_PINNED);
    OWN_BUFFER *gpu = gpu_buffer(at->gpus[0], COUNT * BYTES, FERRY_MEMORY_DEFAULT);
    OWN_BUFFER *far = gpu_buffer(at->gpus[1], COUNT * BYTES, FERRY_MEMORY_DEFAULT);
    OWN_BUFFER *dst = gpu_buffer(at->host, COUNT * BYTES, FERRY_MEMORY_PINNED);
    OWN_BUFFER *free = gpu_buffer(at->gpus[0], KIB, FERRY_MEMORY_DEFAULT);
    paint(ferry_buffer_data(src), COUNT * BYTES, 8);
    memset(ferry_buffer_data(dst), 0, COUNT * BYTES);
    gpu_gate_hold(&gate);
    ferry_future *held = ferry_event_record(at->gpus[0], gpu_gate_stream(&gate));
    ferry_op_options behind = FERRY_OP_OPTIONS_INIT;
    behind.after = &held;
    behind.after_count = 1;
    for (size_t i = 0; i < COUNT; i++) {
        ferry_span from = {src, i * BYTES, BYTES}, near = {gpu, i * BYTES, BYTES};
        ferry_span there = {far, i * BYTES, BYTES}, to = {dst, i * BYTES, BYTES};
        ferry_engine *engine = at->ge.engine;
        ferry_future_release(ferry_copy(engine, near, from, &behind));
        ferry_future_release(ferry_copy(engine, there, near, NULL));
        ferry_future_release(ferry_copy(engine, to, there, NULL));
        if (i % 100 == 0) {
            ferry_span some = {src, 0, KIB};
            CHECK_STATUS(gpu_end(ferry_copy(engine, ferry_buffer_span(free), some, NULL)),
                         FERRY_OK);
        }
    }
    CHECK_STATUS(ferry_future_poll(held), FERRY_PENDING);
    gpu_gate_let_go(&gate);
    CHECK_STATUS(gpu_end(ferry_engine_drain(at->ge.engine)), FERRY_OK);
    CHECK_STATUS(gpu_end(held), FERRY_OK);
    CHECK(memcmp(ferry_buffer_data(src), ferry_buffer_data(dst), COUNT * BYTES) == 0);
    gpu_gate_close(&gate);
}

/* ---- untracked ---- */

/*
 * Who has all of a GPU's buffer waits for a stream of the program's, and a copy out of it waits for
 * that. Copies of its blocks that the program keeps in order by itself go on meanwhile, to the host
 * and the other GPU.
 */
static void test_untracked(places *at)
{
    enum { BLOCKS = 64, BYTES = 4096 };
    const size_t size_bytes = (size_t)BLOCKS * BYTES;
    ferry_engine *engine = at->ge.engine;
    gpu_gate gate = gpu_gate_open(at->ordinals[0], at->gpus[0]);
    OWN_BUFFER *first = gpu_buffer(at->host, size_bytes, FERRY_MEMORY_PINNED);
    OWN_BUFFER *back = gpu_buffer(at->host, size_bytes, FERRY_MEMORY_PINNED);
    OWN_BUFFER *gpu = gpu_buffer(at->gpus[0], size_bytes, FERRY_MEMORY_DEFAULT);
    OWN_BUFFER *far = gpu_buffer(at->gpus[1], size_bytes, FERRY_MEMORY_DEFAULT);
    paint(ferry_buffer_data(first), size_bytes, 11);
    CHECK_STATUS(gpu_end(gpu_copy(&at->ge, gpu, first, NULL)), FERRY_OK);
    gpu_gate_hold(&gate);
    ferry_future *held = ferry_event_record(at->gpus[0], gpu_gate_stream(&gate));
    ferry_access all = {ferry_buffer_span(gpu), FERRY_READ_WRITE};
    ferry_op_options uses = FERRY_OP_OPTIONS_INIT, options = FERRY_OP_OPTIONS_INIT;
    uses.after = &held;
    uses.after_count = 1;
    uses.accesses = &all;
    uses.access_count = 1;
    ferry_future *user = ferry_nop(engine, &uses);
    options.flags = FERRY_OP_UNTRACKED;
    for (size_t i = 0; i < BLOCKS; i++) {
        ferry_span from = {gpu, i * BYTES, BYTES}, there = {far, i * BYTES, BYTES};
        ferry_span to = {back, i * BYTES, BYTES};
        ferry_future *away = ferry_copy(engine, there, from, &options);
        ferry_op_options behind = options;
        behind.after = &away;
        behind.after_count = 1;
        CHECK_STATUS(gpu_end(ferry_copy(engine, to, i % 2 == 0 ? from : there, &behind)), FERRY_OK);
        CHECK_STATUS(gpu_end(away), FERRY_OK);
    }
    CHECK(memcmp(ferry_buffer_data(back), ferry_buffer_data(first), size_bytes) == 0);
    ferry_future *tracked = gpu_copy(&at->ge, far, gpu, NULL);
    CHECK_STATUS(ferry_future_poll(user), FERRY_PENDING);
    CHECK_STATUS(ferry_future_poll(tracked), FERRY_PENDING);
    gpu_gate_let_go(&gate);
    CHECK_STATUS(gpu_end(tracked), FERRY_OK);
    CHECK_STATUS(gpu_end(user), FERRY_OK);
    CHECK_STATUS(gpu_end(held), FERRY_OK);
    gpu_gate_close(&gate);
}

/* ---- by events ---- */

static void test_completion(ferry_completion completion)
{
    places at = {.ordinals = {0, 0}};
    gpu_engine_open(&at.ge);
    at.host = ferry_device_find(at.ge.engine, "host:0");
    ferry_device_options options = FERRY_DEVICE_OPTIONS_INIT;
    options.completion = completion;
    options.parked_streams = 2;
    const char *const names[] = {"cuda:0", "cuda:0/7"};
    for (size_t i = 0; i < 2; i++)
        CHECK_STATUS(ferry_device_open(at.ge.engine, names[i], &options, &at.gpus[i], NULL),
                     FERRY_OK);
    test_chain(&at, 100000, FERRY_MEMORY_PINNED);
    test_slices(&at);
    test_hazards(&at);
    test_full_streams(&at);
    test_untracked(&at);
    places_close(&at);
}

/* ---- a lost device ---- */

static void test_loss(void)
{
    int count = 0;
    CHECK_CUDA(cudaGetDeviceCount(&count));
    if (EMU(emu_lose_device) == NULL || count < 2) {
        (void)printf("no device can be lost here\n");
        return;
    }
    /* docs/design.md, "Known limits": a spare stream may share a queue with what stands for ever.
     */
    if (getenv("FERRY_EMU_QUEUES") != NULL) {
        (void)printf("no device is lost where streams share queues\n");
        return;
    }
    places at;
    places_open(&at, NULL);
    ferry_buffer *host = gpu_buffer(at.host, MIB, FERRY_MEMORY_PINNED);
    ferry_buffer *other = gpu_buffer(at.host, MIB, FERRY_MEMORY_PINNED);
    ferry_buffer *gpu = gpu_buffer(at.gpus[0], MIB, FERRY_MEMORY_DEFAULT);
    ferry_buffer *untouched = gpu_buffer(at.gpus[0], MIB, FERRY_MEMORY_DEFAULT);
    ferry_buffer *far = gpu_buffer(at.gpus[1], MIB, FERRY_MEMORY_DEFAULT);
    paint(ferry_buffer_data(host), MIB, 4);
    paint(ferry_buffer_data(other), MIB, 6);
    EMU(emu_hold)();
    ferry_future *struck = gpu_copy(&at.ge, gpu, host, NULL);
    ferry_future *dependent = gpu_copy(&at.ge, far, other, struck); /* the other GPU waits */
    ferry_future *beside = gpu_copy(&at.ge, far, host, NULL);
    /* Another thread may have the baton just now; what the device gets only once it is lost is
     * refused, and quiet. */
    CHECK_STATUS(gpu_end(ferry_future_issued(struck)), FERRY_OK);
    CHECK(EMU(emu_lose_device)(0, CUDA_ERROR_ECC_UNCORRECTABLE) == CUDA_SUCCESS);
    EMU(emu_release)();
    CHECK_STATUS(ferry_future_wait(struck, -1), FERRY_E_DEVICE);
    const ferry_error *error = ferry_future_error(struck);
    CHECK(strcmp(error->domain, "cuda") == 0);
    CHECK(error->native_code == CUDA_ERROR_ECC_UNCORRECTABLE);
    CHECK(strstr(error->message, "CUDA_ERROR_ECC_UNCORRECTABLE") != NULL);
    CHECK(error->op == ferry_future_id(struck));
    ferry_status status = ferry_future_wait(dependent, -1);
    CHECK(status == FERRY_E_DEPENDENCY || status == FERRY_E_DEVICE);
    error = ferry_future_error(dependent);
    CHECK((error->cause != NULL ? error->cause : error)->native_code ==
          CUDA_ERROR_ECC_UNCORRECTABLE);
    /* If it stands behind that one in its stream, it never begins; nor does it wait for ever. */
    status = ferry_future_wait(beside, -1);
    CHECK(status == FERRY_OK || status == FERRY_E_DEVICE);
    ferry_future_release(struck);
    ferry_future_release(dependent);
    ferry_future_release(beside);

    /* At once from now on; the other GPU goes on. */
    CHECK_STATUS(gpu_end(gpu_copy(&at.ge, untouched, other, NULL)), FERRY_E_DEVICE);
    ferry_buffer *fine = gpu_buffer(at.gpus[1], MIB, FERRY_MEMORY_DEFAULT);
    ferry_buffer *back = gpu_buffer(at.host, MIB, FERRY_MEMORY_DEFAULT);
    ferry_device *logical = gpu_device(&at.ge, "cuda:1/1");
    ferry_buffer *there = gpu_buffer(logical, MIB, FERRY_MEMORY_DEFAULT);
    ferry_future_release(gpu_copy(&at.ge, fine, other, NULL));
    ferry_future_release(gpu_copy(&at.ge, there, fine, NULL));
    CHECK_STATUS(gpu_end(gpu_copy(&at.ge, back, there, NULL)), FERRY_OK);
    CHECK(memcmp(ferry_buffer_data(back), ferry_buffer_data(other), MIB) == 0);

    ferry_buffer *const buffers[] = {host, other, gpu, untouched, far, fine, back, there};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        ferry_buffer_release(buffers[i]);

    /* What the lost one has never gets quiet, and the shutdown says so in time. */
    gpu_forget_log(&at.ge);
    CHECK_STATUS(ferry_engine_shutdown(at.ge.engine, 50000000), FERRY_E_DEADLINE);
    CHECK(gpu_has_logged(&at.ge, "shutdown timed out"));
}

int main(int count, char **arguments)
{
    /* Under a checker that reports each answer that is an error, none is asked for. */
    bool is_checked = count > 1 && strcmp(arguments[1], "--checked") == 0;
    static const size_t sizes[] = {1, 3, 4095, 65536, 65537, 262144, 4 * MIB + 17};
    places at;
    gpu_watch("copies", 100);
    places_open(&at, NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        test_chain(&at, sizes[i], FERRY_MEMORY_PINNED);
        test_chain(&at, sizes[i], FERRY_MEMORY_DEFAULT);
    }
    if (!is_checked)
        test_thread_state(&at);
    test_slices(&at);
    test_hazards(&at);
    test_rows(&at);
    test_full_streams(&at);
    test_untracked(&at);
    places_close(&at);
    test_completion(FERRY_COMPLETION_WORDS);
    test_completion(FERRY_COMPLETION_EVENTS);
    test_loss(); /* the last: nothing in the process can use that GPU afterwards */
    return 0;
}
