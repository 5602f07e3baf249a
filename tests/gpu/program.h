/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the programs of this folder share. Each is a plain user of ferry and of CUDA: the same file
 * runs on the emulator and on a GPU.
 */
#ifndef FERRY_TESTS_GPU_PROGRAM_H
#define FERRY_TESTS_GPU_PROGRAM_H

#include "tests/emu/emu.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/patience.h"
#include "tests/support/user_gpu.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <ferry/ferry.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);          \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

#define CHECK_STATUS(expression, expected)                                                         \
    do {                                                                                           \
        ferry_status status_ = (expression);                                                       \
        if (status_ != (expected)) {                                                               \
            (void)fprintf(stderr, "%s:%d: %s is %s, not %s\n", __FILE__, __LINE__, #expression,    \
                          ferry_status_name(status_), ferry_status_name(expected));                \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

#define CHECK_CUDA(call)                                                                           \
    do {                                                                                           \
        cudaError_t error_ = (call);                                                               \
        if (error_ != cudaSuccess) {                                                               \
            (void)fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                    \
                          cudaGetErrorName(error_));                                               \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* A control function of the emulator's, or NULL: this is a real driver. */
static inline void *gpu_emulators(const char *name)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    return driver != NULL ? dlsym(driver, name) : NULL;
}

#define EMU(name) ((__typeof__(&(name)))gpu_emulators(#name))

/*
 * Before a program begins. The emulator is there for EMU also if the program itself calls nothing
 * of CUDA's, and so is not linked with it.
 *
 * The driver keeps 8 streams of a process apart unless it is asked for more before it begins, 32 at
 * most; streams beyond share a queue, and one that stands holds up another. Programs that hold a
 * stream until they have seen what another did would wait for ever then, by chance.
 */
__attribute__((constructor)) static void gpu_begin(void)
{
    (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    (void)dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
}

/* ---- an engine ---- */

typedef struct gpu_engine {
    failing_allocator memory;
    ferry_allocator allocator;
    atomic_uint log_lines;
    char log[8192]; /* warnings and errors; with gpu_log_mutex */
    size_t log_bytes;
    ferry_engine *engine;
} gpu_engine;

static pthread_mutex_t gpu_log_mutex = PTHREAD_MUTEX_INITIALIZER;

/* A driver took more than a second to write a number: ferry does not free what it may write yet. */
static atomic_bool gpu_is_late;

/* Any thread. What would be too much is forgotten with what was before it. */
static inline void gpu_log(void *arg, ferry_log_level level, const char *line)
{
    gpu_engine *self = arg;
    size_t bytes = strlen(line) + 1;
    if (level > FERRY_LOG_WARNING)
        return;
    if (strstr(line, "a number that cuStreamWriteValue32 was to write") != NULL)
        atomic_store(&gpu_is_late, true);
    (void)pthread_mutex_lock(&gpu_log_mutex);
    if (bytes >= sizeof self->log - self->log_bytes)
        self->log_bytes = 0;
    if (bytes < sizeof self->log)
        self->log_bytes += (size_t)snprintf(self->log + self->log_bytes, bytes + 1, "%s\n", line);
    (void)pthread_mutex_unlock(&gpu_log_mutex);
    atomic_fetch_add(&self->log_lines, 1);
}

static inline void gpu_forget_log(gpu_engine *self)
{
    (void)pthread_mutex_lock(&gpu_log_mutex);
    self->log_bytes = 0;
    self->log[0] = '\0';
    (void)pthread_mutex_unlock(&gpu_log_mutex);
}

/* Since it was forgotten. */
static inline bool gpu_has_logged(gpu_engine *self, const char *text)
{
    (void)pthread_mutex_lock(&gpu_log_mutex);
    bool has = strstr(self->log, text) != NULL;
    (void)pthread_mutex_unlock(&gpu_log_mutex);
    return has;
}

static inline ferry_engine_options gpu_engine_options(gpu_engine *self)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    memset(self, 0, sizeof *self);
    failing_allocator_init(&self->memory);
    self->allocator = failing_allocator_interface(&self->memory);
    options.host_devices = 1;
    options.host_workers = 1;
    options.allocator = &self->allocator;
    options.log = gpu_log;
    options.log_arg = self;
    return options;
}

static inline void gpu_engine_open(gpu_engine *self)
{
    ferry_engine_options options = gpu_engine_options(self);
    CHECK_STATUS(ferry_engine_create(&options, &self->engine, NULL), FERRY_OK);
}

/*
 * On the emulator waits for numbers that come late. ferry may have given them up, and frees what
 * they are written to only if they have come.
 */
static inline void gpu_settle(void)
{
    if (EMU(emu_settle) != NULL)
        (void)EMU(emu_settle)();
}

/*
 * Ends the process with an engine that may stay for good, on purpose: it has what a lost GPU may
 * still touch. No leak checker is asked, and ThreadSanitizer neither: to it a thread that has just
 * ended and that nobody has joined is a leak, and the engine's own may end just now. What else it
 * finds ends the process as soon as it is found.
 */
_Noreturn static inline void gpu_leave(void)
{
    (void)fflush(NULL);
    (void)syscall(SYS_exit_group, 0);
    abort();
}

/* Everything is quiet, and all handles are released. */
static inline void gpu_engine_close(gpu_engine *self)
{
    CHECK_STATUS(ferry_engine_shutdown(self->engine, -1), FERRY_OK);
    gpu_settle();
    ferry_engine_release(self->engine);
    CHECK(failing_allocator_live_bytes(&self->memory) == 0);
}

static inline ferry_device *gpu_device(gpu_engine *self, const char *name)
{
    ferry_device *device = NULL;
    ferry_error *error = NULL;
    ferry_status status = ferry_device_open(self->engine, name, NULL, &device, &error);
    if (error != NULL)
        (void)fprintf(stderr, "%s: %s\n", name, error->message);
    CHECK_STATUS(status, FERRY_OK);
    return device;
}

static inline ferry_buffer *gpu_buffer(ferry_device *device, size_t size_bytes, ferry_memory kind)
{
    ferry_buffer *buffer = NULL;
    CHECK_STATUS(ferry_buffer_alloc_kind(device, size_bytes, kind, &buffer), FERRY_OK);
    return buffer;
}

static inline void gpu_release_buffer(ferry_buffer **buffer)
{
    ferry_buffer_release(*buffer);
}

/* A buffer that is released where its block ends. */
#define OWN_BUFFER __attribute__((cleanup(gpu_release_buffer))) ferry_buffer

static inline ferry_future *gpu_copy(gpu_engine *self, ferry_buffer *dst, ferry_buffer *src,
                                     ferry_future *after)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &after;
    options.after_count = after != NULL;
    return ferry_copy(self->engine, ferry_buffer_span(dst), ferry_buffer_span(src), &options);
}

/* Waits for the future and gives it back. */
static inline ferry_status gpu_end(ferry_future *future)
{
    ferry_status status = ferry_future_wait(future, -1);
    ferry_future_release(future);
    return status;
}

/* ---- a stream of the program's that stands ---- */

typedef struct gpu_gate {
    user_gpu *user;
    uint32_t *flag; /* atomic, in page-locked memory; the stream goes on once it is 1 */
} gpu_gate;

static inline void *gpu_gate_stream(const gpu_gate *self)
{
    return user_gpu_stream(self->user, 0);
}

static inline void gpu_gate_hold(gpu_gate *self)
{
    __atomic_store_n(self->flag, 0, __ATOMIC_RELEASE);
    user_gpu_wait_flag(self->user, 0, self->flag, 1);
}

static inline void gpu_gate_let_go(gpu_gate *self)
{
    __atomic_store_n(self->flag, 1, __ATOMIC_RELEASE);
}

/* Nothing is met for the first time while the stream stands: CUDA may wait for it then. */
static inline gpu_gate gpu_gate_open(int ordinal, ferry_device *device)
{
    gpu_gate self = {.user = user_gpu_open(ordinal)};
    self.flag = user_gpu_alloc_pinned(self.user, sizeof *self.flag);
    gpu_gate_hold(&self);
    gpu_gate_let_go(&self);
    CHECK_STATUS(gpu_end(ferry_event_record(device, gpu_gate_stream(&self))), FERRY_OK);
    return self;
}

static inline void gpu_gate_close(gpu_gate *self)
{
    user_gpu_finish(self->user);
    user_gpu_free_pinned(self->user, self->flag);
    user_gpu_close(self->user);
}

/* ---- hanging ---- */

static const char *volatile gpu_doing = "";

static inline void gpu_hung(int signal)
{
    (void)signal;
    (void)!write(STDERR_FILENO, "hung: ", 6);
    (void)!write(STDERR_FILENO, gpu_doing, strlen(gpu_doing));
    (void)!write(STDERR_FILENO, "\n", 1);
    _exit(1);
}

/* From now on whoever takes longer hangs; `doing` says at what. */
static inline void gpu_watch(const char *doing, unsigned seconds)
{
    gpu_doing = doing;
    (void)signal(SIGALRM, gpu_hung);
    (void)alarm(seconds * PATIENCE);
}

#endif
