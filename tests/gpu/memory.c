/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of GPUs as a program gets, wraps and releases it: kinds, whose memory it is, too little
 * of it, releases while its own kernels run and after the shutdown. With one GPU a logical device
 * is the second.
 */
#include "tests/gpu/places.h"

static void check_nothing_left(void)
{
    if (EMU(emu_get_counters) == NULL)
        return;
    emu_counters counters;
    EMU(emu_get_counters)(&counters);
    CHECK(counters.caught == 0);
    CHECK(counters.live_device_bytes == 0);
    CHECK(counters.live_pinned_bytes == 0 || gpu_is_late);
    CHECK(counters.live_pools == 0);
    CHECK(counters.live_streams == 0);
    CHECK(counters.live_events == 0);
}

static void close_and_check(places *self)
{
    gpu_engine_close(&self->ge);
    check_nothing_left();
}

static ferry_status end_copy(places *at, ferry_buffer *dst, ferry_buffer *src)
{
    return gpu_end(gpu_copy(&at->ge, dst, src, NULL));
}

/* ---- kinds ---- */

static void test_kinds(places *at)
{
    ferry_buffer *refused = NULL;
    CHECK_STATUS(ferry_buffer_alloc_kind(at->host, 1, FERRY_MEMORY_PLAIN, &refused),
                 FERRY_E_UNSUPPORTED);
    CHECK(refused == NULL);
    ferry_buffer *pinned[2];
    for (size_t i = 0; i < 2; i++)
        pinned[i] = gpu_buffer(at->host, MIB, FERRY_MEMORY_PINNED);
    struct cudaPointerAttributes facts;
    CHECK_CUDA(cudaPointerGetAttributes(&facts, ferry_buffer_data(pinned[0])));
    CHECK(facts.type == cudaMemoryTypeHost);
    for (size_t i = 0; i < 4; i++) {
        ferry_memory kind = i % 2 == 0 ? FERRY_MEMORY_DEFAULT : FERRY_MEMORY_PLAIN;
        ferry_buffer *buffer = gpu_buffer(at->gpus[i / 2], MIB, kind);
        CHECK((uintptr_t)ferry_buffer_data(buffer) % 256 == 0);
        CHECK_CUDA(cudaPointerGetAttributes(&facts, ferry_buffer_data(buffer)));
        CHECK(facts.type == cudaMemoryTypeDevice && facts.device == at->ordinals[i / 2]);
        memset(ferry_buffer_data(pinned[0]), (int)i + 1, MIB);
        memset(ferry_buffer_data(pinned[1]), 0, MIB);
        CHECK_STATUS(end_copy(at, buffer, pinned[0]), FERRY_OK);
        CHECK_STATUS(end_copy(at, pinned[1], buffer), FERRY_OK);
        CHECK(memcmp(ferry_buffer_data(pinned[0]), ferry_buffer_data(pinned[1]), MIB) == 0);
        ferry_buffer_release(buffer);
    }
    ferry_buffer_release(pinned[0]);
    ferry_buffer_release(pinned[1]);
}

/* Released right after it was submitted for, over and over: the copies keep it. */
static void test_churn(places *at)
{
    OWN_BUFFER *host = gpu_buffer(at->host, 64 * KIB, FERRY_MEMORY_PINNED);
    OWN_BUFFER *back = gpu_buffer(at->host, 64 * KIB, FERRY_MEMORY_PINNED);
    memset(ferry_buffer_data(host), 5, 64 * KIB);
    for (size_t i = 0; i < 600; i++) {
        size_t size_bytes = 1 + i * 97 % (64 * KIB);
        ferry_memory kind = i % 7 == 0 ? FERRY_MEMORY_PLAIN : FERRY_MEMORY_DEFAULT;
        OWN_BUFFER *gpu = gpu_buffer(at->gpus[i % 2], size_bytes, kind);
        ferry_span from = {host, 0, size_bytes}, to = {back, 0, size_bytes};
        ferry_future_release(ferry_copy(at->ge.engine, ferry_buffer_span(gpu), from, NULL));
        ferry_future_release(ferry_copy(at->ge.engine, to, ferry_buffer_span(gpu), NULL));
    }
    CHECK_STATUS(gpu_end(ferry_engine_drain(at->ge.engine)), FERRY_OK);
    CHECK(memcmp(ferry_buffer_data(host), ferry_buffer_data(back), 50000) == 0);
}

/* ---- the program's own memory ---- */

static void wrap_gives(ferry_device *device, void *memory, size_t size_bytes, ferry_status expected)
{
    ferry_buffer *buffer = NULL;
    CHECK_STATUS(ferry_buffer_wrap(device, memory, size_bytes, NULL, NULL, &buffer), expected);
    CHECK((buffer != NULL) == (expected == FERRY_OK));
    ferry_buffer_release(buffer);
}

static void test_wrap(places *at)
{
    void *on_gpu = NULL, *pinned = NULL, *pageable = malloc(MIB);
    CHECK(pageable != NULL);
    CHECK_CUDA(cudaSetDevice(at->ordinals[0]));
    CHECK_CUDA(cudaMalloc(&on_gpu, MIB));
    CHECK_CUDA(cudaMallocHost(&pinned, MIB));
    bool is_one_gpu = at->ordinals[0] == at->ordinals[1];
    wrap_gives(at->gpus[0], on_gpu, MIB, FERRY_OK);
    wrap_gives(at->gpus[0], (char *)on_gpu + 17, MIB - 17, FERRY_OK);
    wrap_gives(at->gpus[1], on_gpu, MIB, is_one_gpu ? FERRY_OK : FERRY_E_INVALID);
    wrap_gives(at->gpus[0], pinned, MIB, FERRY_E_INVALID);
    wrap_gives(at->gpus[0], pageable, MIB, FERRY_E_INVALID);
    wrap_gives(at->host, on_gpu, MIB, FERRY_E_INVALID);
    wrap_gives(at->host, pinned, MIB, FERRY_OK);
    wrap_gives(at->host, pageable, MIB, FERRY_OK);
    CHECK_STATUS(gpu_end(ferry_engine_drain(at->ge.engine)), FERRY_OK);
    CHECK_CUDA(cudaFree(on_gpu));
    CHECK_CUDA(cudaFreeHost(pinned));
    free(pageable);
}

/* ---- too little ---- */

/* Once the loop has freed what was released. */
static ferry_buffer *alloc_soon(ferry_device *device, size_t size_bytes)
{
    ferry_buffer *buffer = NULL;
    ferry_status status;
    while ((status = ferry_buffer_alloc(device, size_bytes, &buffer)) == FERRY_E_NO_MEMORY)
        (void)usleep(100);
    CHECK_STATUS(status, FERRY_OK);
    return buffer;
}

static void test_too_much(places *at)
{
    ferry_buffer *buffer = NULL;
    /* Not so page-locked memory: it may be promised, and taken from the machine page by page. */
    static const ferry_memory kinds[] = {FERRY_MEMORY_DEFAULT, FERRY_MEMORY_PLAIN};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        CHECK_STATUS(ferry_buffer_alloc_kind(at->gpus[0], (size_t)1 << 46, kinds[i], &buffer),
                     FERRY_E_NO_MEMORY);
        CHECK(buffer == NULL);
    }
    ferry_buffer *fine = gpu_buffer(at->gpus[0], MIB, FERRY_MEMORY_DEFAULT);
    ferry_buffer_release(fine);
    if (EMU(emu_set_memory_limit) == NULL)
        return;
    size_t unused_bytes, gpu_bytes;
    CHECK_CUDA(cudaSetDevice(at->ordinals[0]));
    CHECK_CUDA(cudaMemGetInfo(&unused_bytes, &gpu_bytes));
    CHECK(EMU(emu_set_memory_limit)(at->ordinals[0], 8 * MIB) == CUDA_SUCCESS);
    ferry_buffer *most = alloc_soon(at->gpus[0], 6 * MIB);
    CHECK_STATUS(ferry_buffer_alloc(at->gpus[0], 4 * MIB, &buffer), FERRY_E_NO_MEMORY);
    ferry_buffer_release(most);
    buffer = alloc_soon(at->gpus[0], 4 * MIB);
    ferry_buffer_release(buffer);
    CHECK(EMU(emu_set_memory_limit)(at->ordinals[0], gpu_bytes) == CUDA_SUCCESS);
}

static void test_figures(places *at)
{
    ferry_device_info before = FERRY_DEVICE_INFO_INIT, now = FERRY_DEVICE_INFO_INIT;
    CHECK_STATUS(ferry_device_describe(at->gpus[0], &before), FERRY_OK);
    CHECK(before.memory_bytes > 0 && before.memory_unused_bytes <= before.memory_bytes);
    ferry_buffer *buffer = gpu_buffer(at->gpus[0], 256 * MIB, FERRY_MEMORY_DEFAULT);
    CHECK_STATUS(ferry_device_describe(at->gpus[0], &now), FERRY_OK);
    CHECK(now.memory_bytes == before.memory_bytes);
    CHECK(now.memory_unused_bytes < before.memory_unused_bytes);
    ferry_buffer_release(buffer);
    if (at->ordinals[0] == at->ordinals[1])
        CHECK(before.peers == 0);
    else
        CHECK((before.peers != 0) == ((before.capabilities & FERRY_CAN_COPY_TO_PEERS) != 0));
}

/* ---- releases ---- */

/*
 * While a program's kernel runs, which waits for the program: whatever the driver makes of the
 * frees, ferry goes on, copies of pageable memory too.
 */
static void test_release_beside_kernel(places *at)
{
    gpu_gate gate = gpu_gate_open(at->ordinals[0], at->gpus[0]);
    ferry_buffer *host = gpu_buffer(at->host, MIB, FERRY_MEMORY_DEFAULT);
    ferry_buffer *gpu = gpu_buffer(at->gpus[0], MIB, FERRY_MEMORY_DEFAULT);
    ferry_buffer *plain = gpu_buffer(at->gpus[0], MIB, FERRY_MEMORY_PLAIN);
    ferry_buffer *pinned = gpu_buffer(at->host, MIB, FERRY_MEMORY_PINNED);
    memset(ferry_buffer_data(host), 4, MIB);
    /* Nothing is met for the first time while a stream is held: CUDA may wait for it then. */
    CHECK_STATUS(end_copy(at, gpu, host), FERRY_OK);
    CHECK_STATUS(end_copy(at, host, gpu), FERRY_OK);
    gpu_gate_hold(&gate);
    ferry_buffer_release(plain);
    ferry_buffer_release(pinned);
    for (int i = 0; i < 30; i++) {
        CHECK_STATUS(end_copy(at, gpu, host), FERRY_OK);
        CHECK_STATUS(end_copy(at, host, gpu), FERRY_OK);
    }
    gpu_gate_let_go(&gate);
    ferry_buffer_release(host);
    ferry_buffer_release(gpu);
    gpu_gate_close(&gate);
}

/* What is released after the shutdown is freed all the same, also after the engine. */
static void test_release_late(void)
{
    places at;
    places_open(&at, NULL);
    ferry_buffer *buffers[6];
    for (size_t i = 0; i < 6; i++) {
        static const ferry_memory kinds[] = {FERRY_MEMORY_DEFAULT, FERRY_MEMORY_PLAIN,
                                             FERRY_MEMORY_PINNED};
        bool is_host = kinds[i % 3] == FERRY_MEMORY_PINNED;
        buffers[i] = gpu_buffer(is_host ? at.host : at.gpus[0], MIB, kinds[i % 3]);
    }
    CHECK_STATUS(end_copy(&at, buffers[0], buffers[2]), FERRY_OK);
    CHECK_STATUS(ferry_engine_shutdown(at.ge.engine, -1), FERRY_OK);
    for (size_t i = 0; i < 3; i++)
        ferry_buffer_release(buffers[i]);
    gpu_settle();
    ferry_engine_release(at.ge.engine);
    for (size_t i = 3; i < 6; i++)
        ferry_buffer_release(buffers[i]);
    CHECK(failing_allocator_live_bytes(&at.ge.memory) == 0);
    check_nothing_left();
}

/* Two engines share the GPUs, and what one lets them reach stays when it goes. */
static void test_two_engines(void)
{
    places first, second;
    places_open(&first, NULL);
    places_open(&second, NULL);
    ferry_buffer *near = gpu_buffer(second.gpus[0], MIB, FERRY_MEMORY_DEFAULT);
    ferry_buffer *far = gpu_buffer(second.gpus[1], MIB, FERRY_MEMORY_DEFAULT);
    ferry_buffer *host = gpu_buffer(second.host, MIB, FERRY_MEMORY_DEFAULT);
    memset(ferry_buffer_data(host), 8, MIB);
    CHECK_STATUS(end_copy(&second, near, host), FERRY_OK);
    gpu_engine_close(&first.ge);
    CHECK_STATUS(end_copy(&second, far, near), FERRY_OK);
    memset(ferry_buffer_data(host), 0, MIB);
    CHECK_STATUS(end_copy(&second, host, far), FERRY_OK);
    CHECK(((char *)ferry_buffer_data(host))[MIB - 1] == 8);
    ferry_buffer_release(near);
    ferry_buffer_release(far);
    ferry_buffer_release(host);
    close_and_check(&second);
}

int main(void)
{
    places at;
    gpu_watch("kinds", 100);
    places_open(&at, NULL);
    test_kinds(&at);
    gpu_watch("churn", 100);
    test_churn(&at);
    gpu_watch("wrap", 100);
    test_wrap(&at);
    gpu_watch("too much", 100);
    test_too_much(&at);
    gpu_watch("figures", 100);
    test_figures(&at);
    close_and_check(&at);
    gpu_watch("late release", 100);
    test_release_late();
    gpu_watch("two engines", 100);
    test_two_engines();
    /* The last, as a driver that keeps its locks while a free waits would end it here. */
    gpu_watch("release beside a kernel", 40);
    places_open(&at, NULL);
    test_release_beside_kernel(&at);
    close_and_check(&at);
    return 0;
}
