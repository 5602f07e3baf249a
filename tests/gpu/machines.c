/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machines and GPUs that are not as one would like: each gives a status and a sentence that says
 * why, the engine goes on without, and nothing is left or hangs. Every case is a process of its
 * own, in an environment that tells the emulated CUDA what to be.
 */
#include "tests/gpu/program.h"

#include <cuda.h>
#include <sys/wait.h>

#define KIB ((size_t)1024)
#define BYTES (64 * KIB)

/* A function of the driver's, with which the program is not linked; cuda.h renames some. */
#define SYMBOL_OF(name) #name
#define SYMBOL(name) SYMBOL_OF(name)
#define DRIVER(name) ((__typeof__(&(name)))gpu_emulators(SYMBOL(name)))

/* What opening the GPU says. */
static ferry_status open_gpu(gpu_engine *ge, const char *name, char *text, size_t text_bytes)
{
    ferry_device *device = NULL;
    ferry_error *error = NULL;
    ferry_status status = ferry_device_open(ge->engine, name, NULL, &device, &error);
    CHECK((status == FERRY_OK) == (device != NULL) && (status == FERRY_OK) == (error == NULL));
    (void)snprintf(text, text_bytes, "%s", error != NULL ? error->message : "");
    ferry_error_release(error);
    return status;
}

static void open_gives(const char *name, ferry_status expected, const char *why)
{
    gpu_engine ge;
    char text[512];
    gpu_engine_open(&ge);
    CHECK_STATUS(open_gpu(&ge, name, text, sizeof text), expected);
    if (strstr(text, why) == NULL)
        (void)fprintf(stderr, "%s: \"%s\" does not say \"%s\"\n", name, text, why);
    CHECK(strstr(text, why) != NULL);

    /* The engine copies on, without. */
    ferry_device *host = ferry_device_find(ge.engine, "host:0");
    ferry_buffer *src = gpu_buffer(host, BYTES, FERRY_MEMORY_DEFAULT);
    ferry_buffer *dst = gpu_buffer(host, BYTES, FERRY_MEMORY_DEFAULT);
    memset(ferry_buffer_data(src), 5, BYTES);
    CHECK_STATUS(gpu_end(gpu_copy(&ge, dst, src, NULL)), FERRY_OK);
    CHECK(memcmp(ferry_buffer_data(dst), ferry_buffer_data(src), BYTES) == 0);
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
    gpu_engine_close(&ge);
}

/* ---- a program that uses a GPU ---- */

typedef struct user {
    gpu_engine ge;
    ferry_device *gpu;
    ferry_buffer *src, *near, *dst;
} user;

static void user_open(user *self, void *native_context)
{
    ferry_device_options options = FERRY_DEVICE_OPTIONS_INIT;
    options.native_context = native_context;
    gpu_engine_open(&self->ge);
    CHECK_STATUS(ferry_device_open(self->ge.engine, "cuda:0", &options, &self->gpu, NULL),
                 FERRY_OK);
    ferry_device *host = ferry_device_find(self->ge.engine, "host:0");
    self->src = gpu_buffer(host, BYTES, FERRY_MEMORY_PINNED);
    self->dst = gpu_buffer(host, BYTES, FERRY_MEMORY_PINNED);
    self->near = gpu_buffer(self->gpu, BYTES, FERRY_MEMORY_DEFAULT);
    memset(ferry_buffer_data(self->src), 7, BYTES);
    memset(ferry_buffer_data(self->dst), 0, BYTES);
}

static void release_buffers(user *self)
{
    ferry_buffer_release(self->src);
    ferry_buffer_release(self->dst);
    ferry_buffer_release(self->near);
}

static void go_round(user *self)
{
    ferry_future *there = gpu_copy(&self->ge, self->near, self->src, NULL);
    CHECK_STATUS(gpu_end(gpu_copy(&self->ge, self->dst, self->near, there)), FERRY_OK);
    CHECK_STATUS(gpu_end(there), FERRY_OK);
    CHECK(memcmp(ferry_buffer_data(self->dst), ferry_buffer_data(self->src), BYTES) == 0);
}

/* The future fails by the device, itself or since what it depends on did, and says so. */
static void fails_by_device(ferry_future *future, const char *why)
{
    ferry_status status = ferry_future_wait(future, -1);
    const ferry_error *error = ferry_future_error(future);
    CHECK(error != NULL && (status == FERRY_E_DEVICE || status == FERRY_E_DEPENDENCY));
    if (status == FERRY_E_DEPENDENCY)
        error = error->cause;
    CHECK(error != NULL);
    CHECK_STATUS(error->status, FERRY_E_DEVICE);
    CHECK(strcmp(error->domain, "cuda") == 0 && error->native_code != 0);
    if (strstr(error->message, why) == NULL)
        (void)fprintf(stderr, "\"%s\" does not say \"%s\"\n", error->message, why);
    CHECK(strstr(error->message, why) != NULL);
    ferry_future_release(future);
}

/* ---- the cases ---- */

static void old_driver(void)
{
    open_gives("cuda:0", FERRY_E_NOT_FOUND, "is of CUDA 11.8, and 12.0 or later is needed");
}

static void oldest_driver(void)
{
    user self;
    user_open(&self, NULL);
    go_round(&self);
    ferry_device_info info = FERRY_DEVICE_INFO_INIT;
    CHECK_STATUS(ferry_device_describe(self.gpu, &info), FERRY_OK);
    CHECK((info.capabilities & FERRY_CAN_BATCH_COPIES) == 0);
    CHECK(strstr(ferry_device_lacks(self.gpu, FERRY_CAN_BATCH_COPIES), "CUDA 13.0") != NULL);
    ferry_op ops[8];
    for (size_t i = 0; i < 8; i++)
        ops[i] = (ferry_op){.kind = FERRY_OP_COPY,
                            .dst = {self.near, i * 4 * KIB, 4 * KIB},
                            .src = {self.src, i * 4 * KIB, 4 * KIB}};
    CHECK_STATUS(gpu_end(ferry_batch(self.ge.engine, ops, sizeof *ops, 8, NULL, NULL)), FERRY_OK);
    release_buffers(&self);
    gpu_engine_close(&self.ge);
}

static void no_gpu(void)
{
    open_gives("cuda:0", FERRY_E_NOT_FOUND, "CUDA_ERROR_NO_DEVICE");
}

static void no_such_gpu(void)
{
    open_gives("cuda:7", FERRY_E_NOT_FOUND, "there is no GPU 7, the driver counts 2");
}

/* Another process has the GPU for itself; once that has ended it can be opened. */
static void exclusive(void)
{
    open_gives("cuda:0", FERRY_E_DEVICE, "CUDA_ERROR_DEVICE_UNAVAILABLE");
    user self;
    user_open(&self, NULL);
    go_round(&self);
    release_buffers(&self);
    gpu_engine_close(&self.ge);
}

static void full_device(void)
{
    user self;
    user_open(&self, NULL);
    CHECK(EMU(emu_set_memory_limit)(0, 256 * KIB) == CUDA_SUCCESS);
    ferry_buffer *more = NULL;
    CHECK_STATUS(ferry_buffer_alloc(self.gpu, 64 << 20, &more), FERRY_E_NO_MEMORY);
    CHECK_STATUS(ferry_buffer_alloc_kind(self.gpu, 64 << 20, FERRY_MEMORY_PLAIN, &more),
                 FERRY_E_NO_MEMORY);
    CHECK(more == NULL);
    go_round(&self);
    CHECK(EMU(emu_set_memory_limit)(0, UINT64_C(1) << 30) == CUDA_SUCCESS);
    CHECK_STATUS(ferry_buffer_alloc(self.gpu, 1 << 20, &more), FERRY_OK);
    ferry_buffer_release(more);
    release_buffers(&self);
    gpu_engine_close(&self.ge);
}

/*
 * What was on its way when the GPU was lost is never known to be over, so the engine stays, on
 * purpose, and with it what a leak checker would find.
 */
static void end_lost(user *self)
{
    release_buffers(self);
    CHECK_STATUS(ferry_engine_shutdown(self->ge.engine, 100000000), FERRY_E_DEADLINE);
    gpu_leave();
}

static void lost_gpu(void)
{
    user self;
    user_open(&self, NULL);
    go_round(&self);
    EMU(emu_hold)();
    ferry_future *there = gpu_copy(&self.ge, self.near, self.src, NULL);
    ferry_future *back = gpu_copy(&self.ge, self.dst, self.near, there);
    CHECK(EMU(emu_lose_device)(0, CUDA_ERROR_ILLEGAL_ADDRESS) == CUDA_SUCCESS);
    fails_by_device(there, "CUDA_ERROR_ILLEGAL_ADDRESS");
    fails_by_device(back, "CUDA_ERROR_ILLEGAL_ADDRESS");
    fails_by_device(gpu_copy(&self.ge, self.near, self.src, NULL), "CUDA_ERROR_ILLEGAL_ADDRESS");
    end_lost(&self);
}

static void context_destroyed(void)
{
    user self;
    CUcontext mine, left;
    CHECK(DRIVER(cuInit)(0) == CUDA_SUCCESS);
    CHECK(DRIVER(cuCtxCreate)(&mine, NULL, 0, 0) == CUDA_SUCCESS);
    CHECK(DRIVER(cuCtxPopCurrent)(&left) == CUDA_SUCCESS);
    user_open(&self, mine);
    go_round(&self);
    CHECK(DRIVER(cuCtxDestroy)(mine) == CUDA_SUCCESS);
    fails_by_device(gpu_copy(&self.ge, self.near, self.src, NULL), "CUDA_ERROR_");
    CHECK(gpu_has_logged(&self.ge, "cuda:0 is lost"));
    end_lost(&self);
}

/* The same in the middle of a copy, as by cudaDeviceReset. */
static void context_reset(void)
{
    user self;
    user_open(&self, NULL);
    go_round(&self);
    EMU(emu_hold)();
    ferry_future *there = gpu_copy(&self.ge, self.near, self.src, NULL);
    CHECK(DRIVER(cuDevicePrimaryCtxReset)(0) == CUDA_SUCCESS);
    fails_by_device(there, "CUDA_ERROR_");
    fails_by_device(gpu_copy(&self.ge, self.dst, self.near, NULL), "CUDA_ERROR_");
    end_lost(&self);
}

/* A stream of the program's is borrowed during the call alone. */
static void stream_destroyed(void)
{
    user self;
    cudaStream_t stream;
    user_open(&self, NULL);
    CHECK_CUDA(cudaStreamCreate(&stream));
    EMU(emu_hold)();
    ferry_future *event = ferry_event_record(self.gpu, stream);
    CHECK_CUDA(cudaStreamDestroy(stream));
    ferry_future *copy = gpu_copy(&self.ge, self.near, self.src, event);
    ferry_status status;
    while ((status = ferry_future_stream_wait(copy, self.gpu, stream)) == FERRY_E_NOT_ISSUED) {
    }
    CHECK_STATUS(status, FERRY_E_INVALID);
    CHECK_STATUS(gpu_end(ferry_event_record(self.gpu, stream)), FERRY_E_INVALID);
    EMU(emu_release)();
    CHECK_STATUS(gpu_end(copy), FERRY_OK);
    CHECK_STATUS(gpu_end(event), FERRY_OK);
    go_round(&self);
    release_buffers(&self);
    gpu_engine_close(&self.ge);
}

/* ---- all of them ---- */

typedef struct machine {
    const char *name;
    void (*run)(void);
    const char *environment[3]; /* "NAME=value" */
} machine;

static const machine machines[] = {
    {"old_driver", old_driver, {"FERRY_EMU_VERSION=11080"}},
    {"oldest_driver", oldest_driver, {"FERRY_EMU_VERSION=12000"}},
    {"driver_12_8", oldest_driver, {"FERRY_EMU_VERSION=12080"}},
    {"no_gpu", no_gpu, {"FERRY_EMU_DEVICES=0"}},
    {"no_such_gpu", no_such_gpu, {"FERRY_EMU_DEVICES=2"}},
    {"exclusive", exclusive, {"FERRY_EMU_SCRIPT=fail cuDevicePrimaryCtxRetain 1 46"}},
    {"full_device", full_device, {NULL}},
    {"lost_gpu", lost_gpu, {NULL}},
    {"context_destroyed", context_destroyed, {"FERRY_EMU_CATCH=count"}},
    {"context_reset", context_reset, {"FERRY_EMU_CATCH=count"}},
    {"stream_destroyed", stream_destroyed, {"FERRY_EMU_CATCH=count"}},
};

static bool runs_well(const machine *of)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (size_t i = 0; i < 3 && of->environment[i] != NULL; i++)
            (void)putenv((char *)(uintptr_t)of->environment[i]);
        (void)execl("/proc/self/exe", "machines", of->name, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    if (status != 0)
        (void)fprintf(stderr, "machines: %s: status %#x\n", of->name, (unsigned)status);
    return status == 0;
}

int main(int argc, char **argv)
{
    unsigned failed = 0;
    if (EMU(emu_fail_call) == NULL) {
        (void)puts("machines: this is not the emulated CUDA, which can be told what to be");
        return 77; /* script/gpu: skipped */
    }
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        if (argc < 2) {
            failed += !runs_well(&machines[i]);
        } else if (strcmp(argv[1], machines[i].name) == 0) {
            gpu_watch(machines[i].name, 60);
            machines[i].run();
        }
    }
    return failed != 0;
}
