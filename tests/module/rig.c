/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/module/rig.h"

#include <sys/wait.h>
#include <unistd.h>

typedef struct thread_state {
    CUcontext context;
    CUstreamCaptureMode mode;
} thread_state;

static thread_state look_at_thread(void)
{
    thread_state state = {.mode = CU_STREAM_CAPTURE_MODE_RELAXED};
    OK(cuCtxGetCurrent(&state.context));
    OK(cuThreadExchangeStreamCaptureMode(&state.mode));
    CUstreamCaptureMode mode = state.mode;
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    return state;
}

static void check_thread(thread_state before)
{
    thread_state now = look_at_thread();
    CHECK(now.context == before.context);
    CHECK(now.mode == before.mode);
}

static void keep_line(void *arg, ferry_log_level level, const char *line)
{
    rig *self = arg;
    (void)level;
    size_t length = strlen(self->logged);
    (void)snprintf(self->logged + length, RIG_LOG_BYTES - length, "%s\n", line);
}

static void count_notify(void *arg)
{
    (void)fry_fetch_add(&((rig *)arg)->notified, 1);
}

/* A test that ends without closing leaves what it must: LeakSanitizer finds it from here. */
static fry_backend *volatile left_open;

static int gpu_count(void)
{
    int count = 0;
    OK(cuDeviceGetCount(&count));
    return count;
}

void rig_open(rig *self)
{
    const char *reason = "";
    memset(self, 0, sizeof *self);
    self->ops = fry_backend_find("cuda", &reason);
    if (self->ops == NULL) {
        (void)fprintf(stderr, "no module: %s\n", reason);
        exit(EXIT_FAILURE);
    }
    CUcontext context;
    OK(cuInit(0));
    for (int i = gpu_count(); i-- > 0;)
        OK(cuDevicePrimaryCtxRetain(&context, i));
    OK(cuCtxSetCurrent(context));
    fry_memory_init(&self->memory, NULL);
    fry_log_init(&self->log, keep_line, self);
    stepped_clock_init(&self->stepped, 1000000000);
    self->interface = stepped_clock_interface(&self->stepped);
    fry_clock_init(&self->clock, &self->interface);
    fry_backend_options options = {.notify = {count_notify, self},
                                   .log = &self->log,
                                   .clock = &self->clock,
                                   .tracing = &self->tracing};
    CHECK(self->ops->probe(&reason) > 0);
    OK(self->ops->open(&self->memory, &options, &self->backend));
    left_open = self->backend;
}

void rig_close(rig *self)
{
    thread_state before = look_at_thread();
    ferry_status status;
    while ((status = self->ops->stop(self->backend)) == FERRY_E_BUSY) /* memory is being freed */
        (void)usleep(100);
    OK(status);
    check_thread(before);
    self->ops->destroy(self->backend);
    left_open = NULL;
    check_thread(before);
    OK(cuCtxSetCurrent(NULL));
    if (self->own != NULL)
        OK(cuCtxDestroy(self->own));
    for (int i = 0; i < gpu_count(); i++)
        OK(cuDevicePrimaryCtxRelease(i));
    emu_counters counters;
    emu_get_counters(&counters);
    GIVES(counters.live_streams, 0);
    GIVES(counters.live_events, 0);
    GIVES(counters.live_pools, 0);
    GIVES(counters.live_pinned_bytes, 0);
    GIVES(counters.live_device_bytes, 0);
    GIVES(counters.live_contexts, 0);
    GIVES(counters.blocked, 0);
    GIVES(counters.caught, 0);
}

/* A call that fails has written the whole fault; one that does not has left it alone. */
static void check_fault(const rig *self, ferry_status status)
{
    GIVES(self->fault.status, status);
    GIVES(self->fault.rank, status == FERRY_OK ? 0 : -1);
}

fry_device *rig_try_device(rig *self, const fry_device_request *request, ferry_status *status_p)
{
    fry_device *device = NULL;
    thread_state before = look_at_thread();
    memset(&self->fault, 0, sizeof self->fault);
    ferry_status status = self->ops->device_open(self->backend, request, &device, &self->fault);
    check_thread(before);
    check_fault(self, status);
    if (status_p != NULL)
        *status_p = status;
    return status == FERRY_OK ? device : NULL;
}

fry_device *rig_device(rig *self, const char *name, uint32_t completion)
{
    fry_device_request request = {.name = name, .completion = completion, .parked_count = 8};
    fry_device *device = rig_try_device(self, &request, NULL);
    if (device == NULL) {
        (void)fprintf(stderr, "%s: %s\n", name, self->fault.message);
        exit(EXIT_FAILURE);
    }
    return device;
}

fry_stream *rig_main(fry_device *device, fry_cuda_direction direction)
{
    return device->ops->stream_at(device, direction);
}

fry_stream *rig_parked(fry_device *device, size_t index)
{
    return device->ops->parked_stream(rig_main(device, FRY_CUDA_FROM_HOST), index);
}

ferry_status rig_try_copy(rig *self, fry_stream *stream, const fry_copy *copy,
                          const fry_event *waits, size_t wait_count, fry_event *event_p)
{
    thread_state before = look_at_thread();
    memset(&self->fault, 0, sizeof self->fault);
    event_p->stream = stream;
    ferry_status status = stream->device->ops->copy(stream, copy, waits, wait_count,
                                                    &event_p->sequence, &self->fault);
    check_thread(before);
    check_fault(self, status);
    return status;
}

fry_event rig_copy(rig *self, fry_stream *stream, void *dst, const void *src, size_t size_bytes,
                   const fry_event *waits, size_t wait_count)
{
    fry_event event;
    fry_copy copy = {.dst = dst, .src = src, .size_bytes = size_bytes, .row_count = 1};
    CHECK(!stream->is_full);
    OK(rig_try_copy(self, stream, &copy, waits, wait_count, &event));
    return event;
}

void rig_flush(fry_stream *stream)
{
    thread_state before = look_at_thread();
    if (stream->device->ops->flush != NULL)
        stream->device->ops->flush(stream);
    check_thread(before);
}

uint64_t rig_try_fired(rig *self, fry_stream *stream, ferry_status *status_p)
{
    thread_state before = look_at_thread();
    uint64_t fired = stream->device->ops->fired(stream, status_p, &self->fault);
    check_thread(before);
    return fired;
}

uint64_t rig_fired(rig *self, fry_stream *stream)
{
    ferry_status status;
    uint64_t fired = rig_try_fired(self, stream, &status);
    OK(status);
    return fired;
}

ferry_status rig_outcome(rig *self, fry_event event)
{
    return event.stream->device->ops->outcome(event.stream, event.sequence, &self->fault);
}

void rig_await(rig *self, fry_event event)
{
    while (rig_fired(self, event.stream) < event.sequence) {
        stepped_clock_step(&self->stepped, 100000);
        (void)usleep(50);
    }
}

ferry_status rig_record(rig *self, fry_device *device, CUstream stream, fry_event *event_p)
{
    thread_state before = look_at_thread();
    ferry_status status = device->ops->event_record(device, stream, event_p, &self->fault);
    check_thread(before);
    return status;
}

ferry_status rig_wrap(rig *self, fry_device *device, CUevent event, CUstream stream,
                      fry_event *event_p)
{
    thread_state before = look_at_thread();
    ferry_status status = device->ops->event_wrap(device, event, stream, event_p, &self->fault);
    check_thread(before);
    return status;
}

ferry_status rig_stream_wait(rig *self, fry_device *device, CUstream stream, fry_event event)
{
    thread_state before = look_at_thread();
    ferry_status status = device->ops->stream_wait(device, stream, event, &self->fault);
    check_thread(before);
    return status;
}

void rig_entered(fry_event event)
{
    event.stream->device->ops->event_entered(event);
}

char *rig_pinned(size_t size_bytes, int fill)
{
    void *memory;
    OK(cuMemHostAlloc(&memory, size_bytes, CU_MEMHOSTALLOC_PORTABLE));
    memset(memory, fill, size_bytes);
    return memory;
}

/* The emulator's device memory is the process's own, so it can be filled from here. */
char *rig_on_gpu(int ordinal, size_t size_bytes, int fill)
{
    CUcontext context, left;
    CUdeviceptr memory;
    OK(cuDevicePrimaryCtxRetain(&context, ordinal));
    OK(cuCtxPushCurrent(context));
    OK(cuMemAlloc(&memory, size_bytes));
    OK(cuCtxPopCurrent(&left));
    OK(cuDevicePrimaryCtxRelease(ordinal));
    memset((void *)(uintptr_t)memory, fill, size_bytes);
    return (char *)(uintptr_t)memory;
}

void rig_free_pinned(char *memory)
{
    OK(cuMemFreeHost(memory));
}

void rig_free_on_gpu(char *memory)
{
    OK(cuMemFree((CUdeviceptr)(uintptr_t)memory));
}

bool rig_is_all(const char *memory, int fill, size_t size_bytes)
{
    return size_bytes == 0 ||
           (memory[0] == (char)fill && memcmp(memory, memory + 1, size_bytes - 1) == 0);
}

static int run_named(const char *name, const rig_test *tests, size_t test_count)
{
    for (size_t i = 0; i < test_count; i++) {
        if (strcmp(name, tests[i].name) == 0) {
            tests[i].run();
            return EXIT_SUCCESS;
        }
    }
    return EXIT_FAILURE;
}

int rig_run_apart(int count, char **arguments, const rig_test *tests, size_t test_count)
{
    int failed = 0;
    if (count > 1)
        return run_named(arguments[1], tests, test_count);
    for (size_t i = 0; i < test_count; i++) {
        char *const child_arguments[] = {arguments[0], (char *)(uintptr_t)tests[i].name, NULL};
        pid_t child = fork();
        if (child == 0) {
            (void)execv("/proc/self/exe", child_arguments);
            _exit(EXIT_FAILURE);
        }
        int ended = -1;
        CHECK(child > 0 && waitpid(child, &ended, 0) == child);
        if (ended != 0) {
            (void)fprintf(stderr, "%s fails (%#x)\n", tests[i].name, (unsigned)ended);
            failed++;
        }
    }
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
