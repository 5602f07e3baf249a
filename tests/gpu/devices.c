/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening GPUs, and memory that is theirs, the program's or page-locked: what ferry takes, what it
 * refuses and says, and that it leaves the calling thread's device and last error as they were.
 */
#include "tests/gpu/program.h"
#include "tests/support/forked_child.h"

#include <sys/wait.h>

enum { SIZE = 100000 };

static int gpu_count(void)
{
    int count = 0;
    CHECK_CUDA(cudaGetDeviceCount(&count));
    CHECK(count > 0);
    return count;
}

/* An error of the program's own must still be there, and its device be the current one. */
static void leave_marks(void)
{
    CHECK_CUDA(cudaSetDevice(gpu_count() - 1));
    CHECK(cudaSetDevice(9999) != cudaSuccess);
}

static void check_marks(void)
{
    int device = -1;
    CHECK(cudaPeekAtLastError() == cudaErrorInvalidDevice);
    CHECK_CUDA(cudaGetDevice(&device));
    CHECK(device == gpu_count() - 1);
}

static void refuse(gpu_engine *ge, const char *name, const ferry_device_options *options,
                   ferry_status expected)
{
    ferry_device *device = NULL;
    ferry_error *error = NULL;
    CHECK_STATUS(ferry_device_open(ge->engine, name, options, &device, &error), expected);
    CHECK(device == NULL && error != NULL && error->status == expected);
    CHECK(strncmp(error->message, name, strlen(name)) == 0 && error->message[strlen(name)] == ':');
    ferry_error_release(error);
}

/* ---- opening ---- */

static void open_and_find(void)
{
    gpu_watch("opening and finding", 60);
    gpu_engine ge;
    gpu_engine_open(&ge);
    leave_marks();
    int count = gpu_count();
    char name[32];
    for (int i = 0; i < count; i++) {
        (void)snprintf(name, sizeof name, "cuda:%d", i);
        ferry_device *device = gpu_device(&ge, name);
        CHECK(device != NULL && device == ferry_device_find(ge.engine, name));
        ferry_device_info info = FERRY_DEVICE_INFO_INIT;
        CHECK_STATUS(ferry_device_describe(device, &info), FERRY_OK);
        CHECK(strcmp(info.name, name) == 0 && strcmp(info.backend, "cuda") == 0);
        CHECK(info.model != NULL && info.driver != NULL);
        CHECK(info.memory_bytes >= info.memory_unused_bytes && info.memory_unused_bytes > 0);
        CHECK(info.stream_count >= 5 && info.lowest_priority >= info.highest_priority);
        CHECK(ferry_device_lacks(device, FERRY_CAN_COPY_ROWS) == NULL);
        CHECK(ferry_device_lacks(device, FERRY_CAN_USE_HOST_POINTERS) != NULL);
    }
    CHECK(gpu_device(&ge, "cuda:0/15") != NULL);
    CHECK(ferry_device_count(ge.engine) == 1 + (size_t)count + 1);
    CHECK(ge.log_lines == 0);

    (void)snprintf(name, sizeof name, "cuda:%d", count);
    refuse(&ge, name, NULL, FERRY_E_NOT_FOUND);
    static const char *const wrong[] = {"cuda:00",  "cuda:-1",    "cuda:x",  "cuda:0/16",
                                        "cuda:0/0", "cuda:0/1/1", "cuda: 0", "cuda:0 "};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        refuse(&ge, wrong[i], NULL, FERRY_E_INVALID);
    ferry_device_options options = FERRY_DEVICE_OPTIONS_INIT;
    options.parked_streams = 2;
    refuse(&ge, "cuda:0", &options, FERRY_E_BUSY);
    CHECK(ferry_device_find(ge.engine, name) == NULL && ge.log_lines == 1);
    check_marks();
    gpu_engine_close(&ge);
    check_marks();
}

static void tell_of_backends(void)
{
    gpu_watch("telling of backends", 60);
    bool is_seen = false;
    leave_marks();
    for (size_t i = 0; i < ferry_backend_count(); i++) {
        ferry_backend_info backend = FERRY_BACKEND_INFO_INIT;
        (void)ferry_backend_at(i, &backend);
        if (strcmp(backend.name, "cuda") != 0)
            continue;
        is_seen = true;
        CHECK(backend.is_here && backend.device_count == (uint32_t)gpu_count());
    }
    CHECK(is_seen);
    check_marks();
}

/* Two engines on one GPU: each has its own, and one's end is not the other's. */
static void share_with_another_engine(void)
{
    gpu_watch("two engines on a GPU", 60);
    gpu_engine first, second;
    gpu_engine_open(&first);
    gpu_engine_open(&second);
    ferry_buffer *from = gpu_buffer(gpu_device(&first, "cuda:0"), SIZE, FERRY_MEMORY_DEFAULT);
    (void)gpu_device(&second, "cuda:0");
    gpu_engine_close(&second);
    ferry_buffer *to = gpu_buffer(ferry_device_at(first.engine, 0), SIZE, FERRY_MEMORY_PINNED);
    CHECK_STATUS(gpu_end(gpu_copy(&first, to, from, NULL)), FERRY_OK);
    ferry_buffer_release(from);
    ferry_buffer_release(to);
    gpu_engine_close(&first);
}

/* Each allocation of opening one fails in turn, or one of ferry's threads beside; the next call
 * makes up for it. */
static void open_without_memory(void)
{
    gpu_watch("opening without memory", 60);
    bool is_over = false;
    for (uint64_t nth = 1; !is_over; nth++) {
        gpu_engine ge;
        gpu_engine_open(&ge);
        ferry_device *device = NULL;
        ferry_error *error = NULL;
        failing_allocator_arm(&ge.memory, nth, false);
        ferry_status status = ferry_device_open(ge.engine, "cuda:0", NULL, &device, &error);
        failing_allocator_arm(&ge.memory, 0, false);
        is_over = failing_allocator_failures(&ge.memory) == 0;
        CHECK(status == FERRY_OK || (status == FERRY_E_NO_MEMORY && !is_over));
        CHECK((error != NULL) == (status != FERRY_OK));
        ferry_error_release(error);
        CHECK(gpu_device(&ge, "cuda:0") != NULL && ferry_device_count(ge.engine) == 2);
        gpu_engine_close(&ge);
    }
}

/* ---- memory ---- */

static ferry_status wrap(ferry_device *device, void *memory, size_t size_bytes)
{
    ferry_buffer *buffer = NULL;
    ferry_status status = ferry_buffer_wrap(device, memory, size_bytes, NULL, NULL, &buffer);
    ferry_buffer_release(buffer);
    return status;
}

static void wrap_memory(void)
{
    gpu_watch("wrapping memory", 60);
    gpu_engine ge;
    gpu_engine_open(&ge);
    ferry_device *host = ferry_device_at(ge.engine, 0), *gpu = gpu_device(&ge, "cuda:0");
    char *on_gpu, *pinned, *plain = malloc(SIZE);
    CHECK(plain != NULL);
    CHECK_CUDA(cudaSetDevice(0));
    CHECK_CUDA(cudaMalloc((void **)&on_gpu, SIZE));
    CHECK_CUDA(cudaMallocHost((void **)&pinned, SIZE));
    leave_marks();

    CHECK_STATUS(wrap(gpu, on_gpu, SIZE), FERRY_OK);
    CHECK_STATUS(wrap(gpu, on_gpu + 7, SIZE - 7), FERRY_OK);
    CHECK_STATUS(wrap(host, plain, SIZE), FERRY_OK);
    CHECK_STATUS(wrap(host, pinned, SIZE), FERRY_OK);
    CHECK(ge.log_lines == 0);
    CHECK_STATUS(wrap(host, on_gpu, SIZE), FERRY_E_INVALID);
    CHECK(gpu_has_logged(&ge, "wrapping a GPU's memory as a host's is refused"));
    CHECK_STATUS(wrap(host, on_gpu + SIZE - 1, 1), FERRY_E_INVALID);
    CHECK_STATUS(wrap(gpu, plain, SIZE), FERRY_E_INVALID);
    CHECK(gpu_has_logged(&ge, "wrapping memory that is not this device's is refused"));
    CHECK_STATUS(wrap(gpu, pinned, SIZE), FERRY_E_INVALID);
    if (gpu_count() > 1) {
        ferry_device *other = gpu_device(&ge, "cuda:1");
        CHECK_STATUS(wrap(other, on_gpu, SIZE), FERRY_E_INVALID);
    }
    CHECK_STATUS(wrap(gpu_device(&ge, "cuda:0/1"), on_gpu, SIZE), FERRY_OK);
    check_marks();
    gpu_engine_close(&ge);
    CHECK_CUDA(cudaFree(on_gpu));
    CHECK_CUDA(cudaFreeHost(pinned));
    free(plain);
}

static ferry_buffer *wrapped(ferry_device *device, void *memory)
{
    ferry_buffer *buffer = NULL;
    CHECK_STATUS(ferry_buffer_wrap(device, memory, SIZE, NULL, NULL, &buffer), FERRY_OK);
    return buffer;
}

/* The same bytes come back, whatever the host's memory is: pageable, registered, page-locked. */
static void copy_all_kinds(void)
{
    gpu_watch("copying all kinds of memory", 60);
    gpu_engine ge;
    gpu_engine_open(&ge);
    ferry_device *host = ferry_device_at(ge.engine, 0), *gpu = gpu_device(&ge, "cuda:0");
    char *registered = aligned_alloc(4096, (SIZE / 4096 + 1) * 4096), *plain = malloc(SIZE);
    CHECK(registered != NULL && plain != NULL);
    CHECK_CUDA(cudaHostRegister(registered, SIZE, cudaHostRegisterDefault));
    leave_marks();
    ferry_buffer *hosts[] = {wrapped(host, plain), wrapped(host, registered),
                             gpu_buffer(host, SIZE, FERRY_MEMORY_PINNED),
                             gpu_buffer(host, SIZE, FERRY_MEMORY_DEFAULT)};
    enum { KINDS = sizeof hosts / sizeof hosts[0] };
    ferry_buffer *through[] = {gpu_buffer(gpu, SIZE, FERRY_MEMORY_DEFAULT),
                               gpu_buffer(gpu, SIZE, FERRY_MEMORY_PLAIN)};
    for (int i = 0; i < KINDS * KINDS; i++) {
        ferry_buffer *from = hosts[i / KINDS], *to = hosts[i % KINDS];
        if (from == to)
            continue;
        memset(ferry_buffer_data(from), i + 1, SIZE);
        memset(ferry_buffer_data(to), 0, SIZE);
        ferry_future_release(gpu_copy(&ge, through[i % 2], from, NULL));
        CHECK_STATUS(gpu_end(gpu_copy(&ge, to, through[i % 2], NULL)), FERRY_OK);
        CHECK(memcmp(ferry_buffer_data(to), ferry_buffer_data(from), SIZE) == 0);
    }
    for (int i = 0; i < KINDS; i++)
        ferry_buffer_release(hosts[i]);
    ferry_buffer_release(through[0]);
    ferry_buffer_release(through[1]);
    check_marks();
    gpu_engine_close(&ge);
    CHECK_CUDA(cudaHostUnregister(registered));
    free(registered);
    free(plain);
}

/* ---- fork ---- */

static void child_of(gpu_engine *ge)
{
    ferry_device *device = NULL;
    ferry_engine *own = NULL;
    gpu_watch("a fork's child", 60);
    CHECK_STATUS(ferry_device_open(ge->engine, "cuda:0", NULL, &device, NULL), FERRY_E_FORKED);
    CHECK_STATUS(ferry_engine_create(NULL, &own, NULL), FERRY_OK);
    ferry_error *error = NULL;
    CHECK_STATUS(ferry_device_open(own, "cuda:0", NULL, &device, &error), FERRY_E_NOT_FOUND);
    CHECK(strstr(error->message, "parent process") != NULL);
    ferry_error_release(error);
    CHECK_STATUS(ferry_engine_shutdown(own, -1), FERRY_OK);
    ferry_engine_release(own);
}

static void fork_with_gpus(void)
{
    gpu_watch("a fork with GPUs open", 60);
    gpu_engine ge;
    gpu_engine_open(&ge);
    (void)gpu_device(&ge, "cuda:0");
    if (CHILD_MAY_ALLOCATE) {
        pid_t child = fork();
        if (child == 0) {
            child_of(&ge);
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
        CHECK(WEXITSTATUS(status) == 0);
    }
    gpu_engine_close(&ge);
}

/* On the emulator: nothing of the driver's is left. */
static void check_nothing_is_left(void)
{
    __typeof__(&emu_get_counters) get_counters = EMU(emu_get_counters);
    if (get_counters == NULL)
        return;
    emu_counters counters;
    get_counters(&counters);
    CHECK(counters.live_streams == 0 && counters.live_events == 0 && counters.live_pools == 0);
    CHECK(counters.live_device_bytes == 0);
    CHECK((counters.live_pinned_bytes == 0 && counters.live_registered_ranges == 0) || gpu_is_late);
}

int main(void)
{
    tell_of_backends();
    open_and_find();
    share_with_another_engine();
    open_without_memory();
    wrap_memory();
    copy_all_kinds();
    check_nothing_is_left();
    fork_with_gpus();
    check_nothing_is_left();
    (void)printf("devices: all right on %d GPUs\n", gpu_count());
    return 0;
}
