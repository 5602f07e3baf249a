/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of memory that is not page-locked, as a program makes them: bytes, order, rows, cancels,
 * how much page-locked memory they take, that one that waits holds up no other. With one GPU a
 * logical device is the second.
 */
#include "tests/gpu/places.h"
#include "tests/support/paint.h"

#include <dirent.h>
#include <pthread.h>

#define THREADS 3

/* On the emulator: all that was taken was given back. */
static void close_and_check(places *self)
{
    places_close(self);
    if (EMU(emu_get_counters) != NULL) {
        emu_counters counters;
        EMU(emu_get_counters)(&counters);
        CHECK(counters.live_pinned_bytes == 0 || gpu_is_late);
        CHECK(counters.live_device_bytes == 0);
    }
}

static ferry_buffer *pageable(const places *self, size_t size_bytes)
{
    return gpu_buffer(self->host, size_bytes, FERRY_MEMORY_DEFAULT);
}

static ferry_buffer *on_gpu(const places *self, size_t index, size_t size_bytes)
{
    return gpu_buffer(self->gpus[index], size_bytes, FERRY_MEMORY_DEFAULT);
}

static void fill(ferry_buffer *buffer, unsigned seed)
{
    paint(ferry_buffer_data(buffer), ferry_buffer_size_bytes(buffer), seed);
}

static ferry_future *copy_part(places *self, ferry_buffer *dst, size_t dst_at, ferry_buffer *src,
                               size_t src_at, size_t size_bytes)
{
    ferry_span to = {dst, dst_at, size_bytes}, from = {src, src_at, size_bytes};
    return ferry_copy(self->ge.engine, to, from, NULL);
}

/* ---- bytes ---- */

/* To a GPU, to the other, and back, of any size and from any place; nothing beside is touched. */
static void test_sizes(places *at)
{
    static const size_t sizes[] = {1,           2,       63, 4095, 4096, 64 * KIB, 300 * KIB + 1,
                                   3 * MIB - 7, 40 * MIB};
    size_t most = 40 * MIB + 256;
    OWN_BUFFER *src = pageable(at, most), *back = pageable(at, most);
    OWN_BUFFER *near = on_gpu(at, 0, most), *far = on_gpu(at, 1, most);
    unsigned char *from = ferry_buffer_data(src), *to = ferry_buffer_data(back);
    fill(src, 1);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t size = sizes[i], a = i * 13 % 101, b = i * 29 % 97, c = i * 7 % 89;
        memset(to, 0xee, size + 256);
        ferry_future_release(copy_part(at, near, b, src, a, size));
        ferry_future_release(copy_part(at, far, c, near, b, size));
        CHECK_STATUS(gpu_end(copy_part(at, back, a, far, c, size)), FERRY_OK);
        CHECK(memcmp(to + a, from + a, size) == 0);
        for (size_t k = 0; k < a; k++)
            CHECK(to[k] == 0xee);
        for (size_t k = a + size; k < size + 256; k++)
            CHECK(to[k] == 0xee);
        /* Its owner may write to the source as soon as the copy has resolved. */
        CHECK_STATUS(gpu_end(copy_part(at, near, 0, src, 0, size)), FERRY_OK);
        memset(from, (int)i, size);
        CHECK_STATUS(gpu_end(copy_part(at, back, 0, near, 0, size)), FERRY_OK);
        paint(from, size, 1);
        CHECK(memcmp(to, from, size) == 0);
    }
}

static void test_rows(places *at)
{
    static const struct {
        size_t row_count, width, host_pitch, gpu_pitch;
    } cases[] = {{200, 333, 1021, 340}, {3, MIB + 1, MIB + 5, MIB + 1}, {10000, 4, 8, 12}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t rows = cases[i].row_count, width = cases[i].width, pitch = cases[i].host_pitch;
        OWN_BUFFER *src = pageable(at, rows * pitch), *dst = pageable(at, rows * pitch);
        OWN_BUFFER *gpu = on_gpu(at, 0, rows * cases[i].gpu_pitch);
        const unsigned char *from = ferry_buffer_data(src), *to = ferry_buffer_data(dst);
        fill(src, (unsigned)i);
        memset(ferry_buffer_data(dst), 0x77, rows * pitch);
        ferry_span there = {gpu, 0, width}, here = {src, 0, width}, back = {dst, 0, width};
        ferry_future_release(
            ferry_copy_rows(at->ge.engine, there, cases[i].gpu_pitch, here, pitch, rows, NULL));
        CHECK_STATUS(gpu_end(ferry_copy_rows(at->ge.engine, back, pitch, there, cases[i].gpu_pitch,
                                             rows, NULL)),
                     FERRY_OK);
        for (size_t row = 0; row < rows; row++) {
            CHECK(memcmp(to + row * pitch, from + row * pitch, width) == 0);
            for (size_t k = width; k < pitch; k++)
                CHECK(to[row * pitch + k] == 0x77);
        }
    }
}

/* ---- order ---- */

/*
 * A queue through two slots on the GPU, into pageable memory and on into other pageable memory by
 * the host: everything is submitted at once, and comes in program order.
 */
static void test_slots(places *at, size_t bytes)
{
    enum { STEPS = 60 };
    OWN_BUFFER *src = pageable(at, STEPS * bytes), *dst = pageable(at, STEPS * bytes);
    ferry_buffer *slots[2] = {on_gpu(at, 0, bytes), on_gpu(at, 1, bytes)};
    OWN_BUFFER *landing = pageable(at, bytes);
    fill(src, 5);
    memset(ferry_buffer_data(dst), 0, STEPS * bytes);
    for (size_t i = 0; i < STEPS; i++) {
        ferry_future_release(copy_part(at, slots[i % 2], 0, src, i * bytes, bytes));
        ferry_future_release(copy_part(at, landing, 0, slots[i % 2], 0, bytes));
        ferry_future_release(copy_part(at, slots[(i + 1) % 2], 0, landing, 0, bytes));
        ferry_future_release(copy_part(at, dst, i * bytes, slots[(i + 1) % 2], 0, bytes));
    }
    CHECK_STATUS(gpu_end(ferry_engine_drain(at->ge.engine)), FERRY_OK);
    CHECK(memcmp(ferry_buffer_data(dst), ferry_buffer_data(src), STEPS * bytes) == 0);
    ferry_buffer_release(slots[0]);
    ferry_buffer_release(slots[1]);
}

/* Pageable and pinned memory, both ways, over the same bytes of a GPU. */
static void test_mixed(places *at)
{
    enum { STEPS = 200 };
    const size_t bytes = 3000;
    ferry_buffer *sources[2] = {pageable(at, STEPS * bytes),
                                gpu_buffer(at->host, STEPS * bytes, FERRY_MEMORY_PINNED)};
    ferry_buffer *places_back[2] = {pageable(at, STEPS * bytes),
                                    gpu_buffer(at->host, STEPS * bytes, FERRY_MEMORY_PINNED)};
    OWN_BUFFER *gpu = on_gpu(at, 0, bytes), *far = on_gpu(at, 1, bytes);
    for (size_t i = 0; i < 2; i++) {
        fill(sources[i], 8);
        memset(ferry_buffer_data(places_back[i]), 0, STEPS * bytes);
    }
    for (size_t i = 0; i < STEPS; i++) {
        ferry_future_release(copy_part(at, gpu, 0, sources[i & 1], i * bytes, bytes));
        if ((i & 4) != 0)
            ferry_future_release(copy_part(at, far, 0, gpu, 0, bytes));
        ferry_future_release(
            copy_part(at, places_back[i >> 1 & 1], i * bytes, (i & 4) != 0 ? far : gpu, 0, bytes));
    }
    CHECK_STATUS(gpu_end(ferry_engine_drain(at->ge.engine)), FERRY_OK);
    for (size_t i = 0; i < STEPS; i++)
        CHECK(memcmp((char *)ferry_buffer_data(places_back[i >> 1 & 1]) + i * bytes,
                     (char *)ferry_buffer_data(sources[0]) + i * bytes, bytes) == 0);
    for (size_t i = 0; i < 2; i++) {
        ferry_buffer_release(sources[i]);
        ferry_buffer_release(places_back[i]);
    }
}

/* ---- what waits ---- */

/* Until what a copy comes after has fired its source is the program's to write, however small. */
static void test_source_written(places *at)
{
    gpu_gate gate = gpu_gate_open(at->ordinals[0], at->gpus[0]);
    static const size_t sizes[] = {1, 4 * KIB, 16 * KIB, 16 * KIB + 1, 256 * KIB};
    OWN_BUFFER *src = pageable(at, MIB), *dst = pageable(at, MIB), *gpu = on_gpu(at, 0, MIB);
    fill(src, 3);
    CHECK_STATUS(gpu_end(gpu_copy(&at->ge, gpu, src, NULL)), FERRY_OK); /* nothing is new then */
    CHECK_STATUS(gpu_end(gpu_copy(&at->ge, dst, gpu, NULL)), FERRY_OK);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        gpu_gate_hold(&gate);
        ferry_future *event = ferry_event_record(at->gpus[0], gpu_gate_stream(&gate));
        ferry_op_options options = FERRY_OP_OPTIONS_INIT;
        options.after = &event;
        options.after_count = 1;
        ferry_future *copy = ferry_copy(at->ge.engine, (ferry_span){gpu, 0, sizes[i]},
                                        (ferry_span){src, 0, sizes[i]}, &options);
        memset(ferry_buffer_data(src), (int)i + 1, sizes[i]);
        CHECK_STATUS(ferry_future_poll(copy), FERRY_PENDING);
        gpu_gate_let_go(&gate);
        CHECK_STATUS(gpu_end(copy), FERRY_OK);
        CHECK_STATUS(gpu_end(event), FERRY_OK);
        CHECK_STATUS(gpu_end(copy_part(at, dst, 0, gpu, 0, sizes[i])), FERRY_OK);
        CHECK(memcmp(ferry_buffer_data(dst), ferry_buffer_data(src), sizes[i]) == 0);
    }
    gpu_gate_close(&gate);
}

/* A copy that waits for a program's stream holds up no other. */
static void test_beside(places *at)
{
    gpu_gate gate = gpu_gate_open(at->ordinals[0], at->gpus[0]);
    OWN_BUFFER *src = pageable(at, MIB), *dst = pageable(at, MIB);
    OWN_BUFFER *gpu = on_gpu(at, 0, MIB), *other = on_gpu(at, 0, MIB), *far = on_gpu(at, 1, MIB);
    fill(src, 6);
    /* Nothing is met for the first time while a stream is held: CUDA may wait for it then. */
    CHECK_STATUS(gpu_end(gpu_copy(&at->ge, other, src, NULL)), FERRY_OK);
    CHECK_STATUS(gpu_end(gpu_copy(&at->ge, far, src, NULL)), FERRY_OK);
    CHECK_STATUS(gpu_end(gpu_copy(&at->ge, dst, far, NULL)), FERRY_OK);
    CHECK_STATUS(gpu_end(gpu_copy(&at->ge, dst, other, NULL)), FERRY_OK);
    memset(ferry_buffer_data(dst), 0, MIB);

    gpu_gate_hold(&gate);
    ferry_future *event = ferry_event_record(at->gpus[0], gpu_gate_stream(&gate));
    ferry_future *held = gpu_copy(&at->ge, gpu, src, event);
    for (int i = 0; i < 20; i++) {
        CHECK_STATUS(gpu_end(gpu_copy(&at->ge, other, src, NULL)), FERRY_OK);
        CHECK_STATUS(gpu_end(gpu_copy(&at->ge, far, src, NULL)), FERRY_OK);
        CHECK_STATUS(gpu_end(gpu_copy(&at->ge, dst, i % 2 != 0 ? far : other, NULL)), FERRY_OK);
    }
    CHECK(memcmp(ferry_buffer_data(dst), ferry_buffer_data(src), MIB) == 0);
    CHECK_STATUS(ferry_future_poll(held), FERRY_PENDING);
    gpu_gate_let_go(&gate);
    CHECK_STATUS(gpu_end(held), FERRY_OK);
    CHECK_STATUS(gpu_end(event), FERRY_OK);
    CHECK_STATUS(gpu_end(gpu_copy(&at->ge, dst, gpu, NULL)), FERRY_OK);
    CHECK(memcmp(ferry_buffer_data(dst), ferry_buffer_data(src), MIB) == 0);
    gpu_gate_close(&gate);
}

/* Cancelled on its way: resolved at once, quiet soon, and the memory is free to use then. */
static void test_cancel(places *at)
{
    OWN_BUFFER *host = pageable(at, 40 * MIB), *gpu = on_gpu(at, 0, 40 * MIB);
    fill(host, 3);
    for (int i = 0; i < 10; i++) {
        ferry_future *copy =
            gpu_copy(&at->ge, i % 2 != 0 ? host : gpu, i % 2 != 0 ? gpu : host, NULL);
        ferry_future *quiet = ferry_future_quiet(copy);
        ferry_future_cancel(copy);
        ferry_status status = gpu_end(copy);
        CHECK(status == FERRY_E_CANCELLED || status == FERRY_OK);
        CHECK_STATUS(gpu_end(quiet), FERRY_OK);
        fill(host, (unsigned)i); /* what was cut short is poisoned until it is written anew */
        CHECK_STATUS(ferry_buffer_define(ferry_buffer_span(host), NULL), FERRY_OK);
        CHECK_STATUS(gpu_end(gpu_copy(&at->ge, gpu, host, NULL)), FERRY_OK);
    }
    memset(ferry_buffer_data(host), 0, 40 * MIB);
    CHECK_STATUS(gpu_end(gpu_copy(&at->ge, host, gpu, NULL)), FERRY_OK);
    OWN_BUFFER *same = pageable(at, 40 * MIB);
    fill(same, 9);
    CHECK(memcmp(ferry_buffer_data(host), ferry_buffer_data(same), 40 * MIB) == 0);
}

/* ---- many threads ---- */

typedef struct traveller {
    places *at;
    pthread_t thread;
    unsigned seed;
} traveller;

static void *travel(void *arg)
{
    traveller *self = arg;
    places *at = self->at;
    size_t most = MIB;
    OWN_BUFFER *src = pageable(at, most), *back = pageable(at, most);
    OWN_BUFFER *near = on_gpu(at, self->seed % 2, most);
    fill(src, self->seed);
    uint32_t state = self->seed + 1;
    for (int i = 0; i < 60; i++) {
        state = state * 1664525u + 1013904223u;
        size_t size = 1 + state % (i % 8 == 0 ? most : 10000);
        memset(ferry_buffer_data(back), 0, size);
        ferry_future_release(copy_part(at, near, 0, src, 0, size));
        CHECK_STATUS(gpu_end(copy_part(at, back, 0, near, 0, size)), FERRY_OK);
        CHECK(memcmp(ferry_buffer_data(back), ferry_buffer_data(src), size) == 0);
    }
    return NULL;
}

static void test_threads(places *at)
{
    traveller travellers[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        travellers[i] = (traveller){.at = at, .seed = i};
        CHECK(pthread_create(&travellers[i].thread, NULL, travel, &travellers[i]) == 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_join(travellers[i].thread, NULL) == 0);
}

/* ---- what it takes ---- */

static bool has_thread(const char *name)
{
    char path[300], line[64];
    bool is_there = false;
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    while (tasks != NULL && (entry = readdir(tasks)) != NULL) {
        (void)snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        if (file == NULL)
            continue;
        if (fgets(line, sizeof line, file) != NULL) {
            line[strcspn(line, "\n")] = '\0';
            is_there |= strcmp(line, name) == 0;
        }
        (void)fclose(file);
    }
    if (tasks != NULL)
        (void)closedir(tasks);
    return is_there;
}

/* Who does not need it does not pay for it; who does pays no more than was said. */
static void test_cost(size_t staging_bytes)
{
    ferry_device_options options = FERRY_DEVICE_OPTIONS_INIT;
    options.staging_bytes = staging_bytes;
    places at;
    places_open(&at, &options);
    ferry_buffer *pinned = gpu_buffer(at.host, MIB, FERRY_MEMORY_PINNED);
    ferry_buffer *gpu = on_gpu(&at, 0, 4 * MIB), *host = pageable(&at, 4 * MIB);
    emu_counters before = {0}, now = {0};
    if (EMU(emu_get_counters) != NULL)
        EMU(emu_get_counters)(&before);
    CHECK_STATUS(gpu_end(copy_part(&at, gpu, 0, pinned, 0, MIB)), FERRY_OK);
    CHECK(!has_thread("ferry-cuda"));
    if (EMU(emu_get_counters) != NULL)
        EMU(emu_get_counters)(&now);
    CHECK(now.live_pinned_bytes == before.live_pinned_bytes);

    fill(host, 2);
    CHECK_STATUS(gpu_end(gpu_copy(&at.ge, gpu, host, NULL)), FERRY_OK);
    memset(ferry_buffer_data(host), 0, 4 * MIB);
    CHECK_STATUS(gpu_end(gpu_copy(&at.ge, host, gpu, NULL)), FERRY_OK);
    CHECK(has_thread("ferry-cuda"));
    ferry_buffer *same = pageable(&at, 4 * MIB);
    fill(same, 2);
    CHECK(memcmp(ferry_buffer_data(host), ferry_buffer_data(same), 4 * MIB) == 0);
    if (EMU(emu_get_counters) != NULL) {
        EMU(emu_get_counters)(&now);
        CHECK(now.live_pinned_bytes > before.live_pinned_bytes);
        CHECK(now.live_pinned_bytes - before.live_pinned_bytes <= staging_bytes);
    }
    ferry_buffer_release(pinned);
    ferry_buffer_release(gpu);
    ferry_buffer_release(host);
    ferry_buffer_release(same);
    close_and_check(&at);
    CHECK(!has_thread("ferry-cuda"));
}

static void test_options(void)
{
    gpu_engine ge;
    gpu_engine_open(&ge);
    static const size_t wrong[] = {1, 64 * KIB - 1, 1024 * MIB + 1};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ferry_device_options options = FERRY_DEVICE_OPTIONS_INIT;
        ferry_device *device = NULL;
        options.staging_bytes = wrong[i];
        CHECK_STATUS(ferry_device_open(ge.engine, "cuda:0", &options, &device, NULL),
                     FERRY_E_INVALID);
        CHECK(device == NULL);
    }
    gpu_engine_close(&ge);
}

/* ---- failures, on the emulator ---- */

static void test_no_pinned(void)
{
    if (EMU(emu_fail_call) == NULL)
        return;
    places at;
    places_open(&at, NULL);
    ferry_buffer *host = pageable(&at, MIB), *gpu = on_gpu(&at, 0, MIB);
    fill(host, 1);
    CHECK(EMU(emu_fail_call)("cuMemHostRegister", 0, CUDA_ERROR_OUT_OF_MEMORY) == CUDA_SUCCESS);
    ferry_future *refused = gpu_copy(&at.ge, gpu, host, NULL);
    CHECK_STATUS(ferry_future_wait(refused, -1), FERRY_E_NO_MEMORY);
    const ferry_error *error = ferry_future_error(refused);
    CHECK(error->native_code == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(strstr(error->message, "cuMemHostRegister") != NULL);
    ferry_future_release(refused);
    CHECK_STATUS(gpu_end(gpu_copy(&at.ge, host, gpu, NULL)), FERRY_E_DEPENDENCY);
    CHECK(EMU(emu_fail_call)("cuMemHostRegister", 0, CUDA_SUCCESS) == CUDA_SUCCESS);
    fill(host, 1); /* its last writer failed */
    CHECK_STATUS(ferry_buffer_define(ferry_buffer_span(host), NULL), FERRY_OK);
    CHECK_STATUS(gpu_end(gpu_copy(&at.ge, gpu, host, NULL)), FERRY_OK);
    ferry_buffer_release(host);
    ferry_buffer_release(gpu);
    close_and_check(&at);
}

/* GPUs that don't reach each other: their copies go through the host. */
static void test_unreachable(void)
{
    int count = 0;
    CHECK_CUDA(cudaGetDeviceCount(&count));
    if (EMU(emu_fail_call) == NULL || count < 2)
        return;
    CHECK(EMU(emu_fail_call)("cuDeviceCanAccessPeer", 0, CUDA_ERROR_NOT_SUPPORTED) == CUDA_SUCCESS);
    places at;
    places_open(&at, NULL);
    CHECK(EMU(emu_fail_call)("cuDeviceCanAccessPeer", 0, CUDA_SUCCESS) == CUDA_SUCCESS);
    ferry_device_info info = FERRY_DEVICE_INFO_INIT;
    CHECK_STATUS(ferry_device_describe(at.gpus[0], &info), FERRY_OK);
    CHECK((info.capabilities & FERRY_CAN_COPY_TO_PEERS) == 0 && info.peers == 0);
    CHECK(ferry_device_lacks(at.gpus[0], FERRY_CAN_COPY_TO_PEERS) != NULL);
    test_sizes(&at);
    test_slots(&at, 100 * KIB);
    test_slots(&at, 3000);
    test_mixed(&at);
    close_and_check(&at);
}

int main(void)
{
    gpu_watch("options", 100);
    test_options();
    gpu_watch("cost", 100);
    test_cost(64 * KIB);
    test_cost(16 * MIB);
    places at;
    places_open(&at, NULL);
    gpu_watch("sizes", 100);
    test_sizes(&at);
    gpu_watch("rows", 100);
    test_rows(&at);
    gpu_watch("slots", 100);
    test_slots(&at, 100 * KIB);
    test_slots(&at, 3000);
    gpu_watch("mixed", 100);
    test_mixed(&at);
    gpu_watch("source written", 100);
    test_source_written(&at);
    gpu_watch("beside", 100);
    test_beside(&at);
    gpu_watch("cancel", 100);
    test_cancel(&at);
    gpu_watch("threads", 100);
    test_threads(&at);
    close_and_check(&at);
    gpu_watch("no pinned memory", 100);
    test_no_pinned();
    gpu_watch("unreachable", 100);
    test_unreachable();
    return 0;
}
