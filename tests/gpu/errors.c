/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a user sees when the driver fails. For each function that ferry calls, the nth call fails
 * during one and the same program; so does, in its turn, the nth thing that a GPU does, which ends
 * its context, and a GPU has less memory than is wanted: devices are opened, memory of all sorts is
 * taken, copies of all sorts are made, the program's events are waited for and it waits for
 * ferry's; then all is given back. Whatever fails,
 *  - each call and each future answers with a status that the headers document for it;
 *  - an error of the device's names the driver's number, and says which call it was;
 *  - what succeeded has copied its bytes;
 *  - nothing hangs; the shutdown ends, or says in time that something is not quiet;
 *  - after a shutdown that succeeded nothing is left of ferry's memory, nor of the driver's
 *    streams, events, memory and contexts;
 *  - a call that merely was refused leaves the engine usable: the second round works.
 * Each case runs in a process of its own. Needs the emulator, and says so where it is not.
 */
#include "tests/gpu/program.h"
#include "tests/support/stacks.h"

#include <sys/wait.h>

#define SIZE 65536
#define LARGE (1 << 20)
#define SMALL 256
#define SLICES 16
#define CASES_MAX 4000
#if defined(__SANITIZE_ADDRESS__)
#define STEP 4 /* from one nth call to the next */
#else
#define STEP 2
#endif
#define HELD_NS 20000000000 /* an operation takes milliseconds */

/* ---- the table ---- */

typedef enum where {
    AT_OPENING = 1, /* ferry_device_open answers it */
    AT_MEMORY = 2,  /* ferry_buffer_alloc_kind, ferry_buffer_wrap */
    AT_COPIES = 4,  /* futures of copies, and what depends on them */
    AT_EVENTS = 8,  /* ferry_event_record, _wrap, ferry_future_stream_wait */
    UNSEEN = 16,    /* nobody need see it: there is another way, or nothing is left to tell */
    IN_LOG = 64,    /* ferry could not find which streams delay others: the log says so */
    LOSES = 32,     /* without it nobody can tell what a device is doing: it counts as lost */
} where;

typedef struct failing_call {
    const char *name;
    unsigned seen; /* where a failure of it may be seen */
} failing_call;

/* No calls: the nth operation fails when its turn comes; a GPU has so many pieces of memory. */
#define OPERATION "operation"
#define MEMORY "memory"
#define PIECE_BYTES 150000

static const failing_call calls[] = {
    {"cuInit", AT_OPENING},
    {"cuDeviceGetCount", AT_OPENING},
    {"cuDeviceGet", AT_OPENING},
    {"cuDeviceGetName", AT_OPENING | UNSEEN},
    {"cuDeviceGetAttribute", AT_OPENING | UNSEEN},
    {"cuDeviceTotalMem", AT_OPENING | UNSEEN},
    {"cuDeviceCanAccessPeer", AT_OPENING | AT_COPIES | UNSEEN},
    {"cuDevicePrimaryCtxRetain", AT_OPENING},
    {"cuDevicePrimaryCtxRelease", UNSEEN},
    {"cuCtxPushCurrent", IN_LOG | AT_OPENING | AT_MEMORY | AT_COPIES | AT_EVENTS | UNSEEN | LOSES},
    {"cuCtxPopCurrent", AT_OPENING | AT_MEMORY | AT_COPIES | AT_EVENTS | UNSEEN},
    {"cuCtxGetCurrent", UNSEEN},
    {"cuCtxGetDevice", AT_OPENING | AT_EVENTS | UNSEEN},
    {"cuCtxGetStreamPriorityRange", AT_OPENING},
    {"cuCtxEnablePeerAccess", AT_OPENING | AT_COPIES | UNSEEN},
    {"cuThreadExchangeStreamCaptureMode",
     IN_LOG | AT_OPENING | AT_MEMORY | AT_COPIES | AT_EVENTS | UNSEEN | LOSES},
    {"cuStreamCreateWithPriority", AT_OPENING | AT_MEMORY | AT_COPIES | AT_EVENTS | UNSEEN},
    {"cuStreamDestroy", UNSEEN},
    {"cuStreamQuery", AT_COPIES | UNSEEN},
    {"cuStreamSynchronize", IN_LOG | AT_OPENING | AT_MEMORY | AT_COPIES | UNSEEN},
    {"cuStreamWaitEvent", AT_COPIES | AT_EVENTS | UNSEEN},
    {"cuStreamGetId", AT_EVENTS},
    {"cuStreamGetCtx", AT_EVENTS},
    {"cuStreamIsCapturing", AT_EVENTS},
    {"cuStreamWriteValue32", IN_LOG | AT_OPENING | AT_COPIES | AT_EVENTS | UNSEEN},
    {"cuStreamWaitValue32", AT_OPENING | IN_LOG},
    {"cuEventCreate", AT_OPENING | AT_MEMORY | AT_COPIES | AT_EVENTS},
    {"cuEventDestroy", UNSEEN},
    {"cuEventRecord", AT_COPIES | AT_EVENTS | UNSEEN | LOSES},
    {"cuEventQuery", AT_COPIES | AT_EVENTS | LOSES},
    {"cuEventSynchronize", AT_COPIES | UNSEEN},
    {"cuMemcpyAsync", AT_OPENING | IN_LOG | AT_COPIES | UNSEEN},
    {"cuMemcpy2DAsync", AT_OPENING | AT_COPIES | UNSEEN},
    {"cuMemcpyBatchAsync", AT_OPENING | AT_COPIES | UNSEEN},
    {"cuMemcpyPeerAsync", AT_COPIES | UNSEEN},
    {"cuMemAlloc", AT_MEMORY | UNSEEN},
    {"cuMemFree", UNSEEN},
    {"cuMemAllocFromPoolAsync", AT_OPENING | IN_LOG | AT_MEMORY | UNSEEN},
    {"cuMemFreeAsync", UNSEEN},
    {"cuMemPoolCreate", AT_OPENING | AT_MEMORY | UNSEEN},
    {"cuMemPoolDestroy", UNSEEN},
    {"cuMemPoolSetAttribute", AT_OPENING | AT_MEMORY | UNSEEN},
    {"cuMemPoolGetAttribute", AT_OPENING | AT_MEMORY | UNSEEN},
    {"cuMemPoolSetAccess", AT_OPENING | AT_MEMORY | AT_COPIES | UNSEEN},
    {"cuMemPoolTrimTo", AT_MEMORY | UNSEEN},
    {"cuMemHostAlloc", AT_MEMORY | UNSEEN},
    {"cuMemFreeHost", UNSEEN},
    {"cuMemHostRegister", IN_LOG | AT_OPENING | AT_COPIES | UNSEEN},
    {"cuMemHostUnregister", UNSEEN},
    {"cuMemHostGetDevicePointer", IN_LOG | AT_OPENING},
    {"cuMemGetInfo", UNSEEN},
    {"cuPointerGetAttributes", AT_MEMORY | AT_COPIES | UNSEEN},
    {OPERATION, IN_LOG | AT_OPENING | AT_MEMORY | AT_COPIES | AT_EVENTS | LOSES},
    {MEMORY, IN_LOG | AT_OPENING | AT_MEMORY | AT_COPIES},
};

#define CALL_COUNT (sizeof calls / sizeof calls[0])

/* What the driver answers: a refusal, want of memory, and the end of the context. */
static const CUresult results[] = {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY,
                                   CUDA_ERROR_ILLEGAL_ADDRESS};

#define RESULT_COUNT (sizeof results / sizeof results[0])

/* ---- one program ---- */

typedef struct program {
    gpu_engine ge;
    ferry_device *host, *gpus[2];
    size_t gpu_count;
    ferry_buffer *pinned, *pageable, *plain, *far, *near, *back, *wrapped;
    void *wrapped_memory;
    user_gpu *user;
    ferry_completion completion;
    CUresult result; /* that the driver was told to answer */
    unsigned seen;   /* where it showed */
    unsigned char *bytes;
} program;

static const char *describe(const ferry_error *error)
{
    return error != NULL ? error->message : "(no error)";
}

/* A failure that the injected one may be behind. */
static void note_failure(program *self, unsigned at, ferry_status status, const ferry_error *error)
{
    bool is_known = status == FERRY_E_DEVICE || status == FERRY_E_NO_MEMORY ||
                    (status == FERRY_E_INVALID && (at & (AT_OPENING | AT_EVENTS | AT_MEMORY))) ||
                    (status == FERRY_E_NOT_FOUND && at == AT_OPENING) ||
                    (status == FERRY_E_UNSUPPORTED && at == AT_MEMORY) ||
                    (status == FERRY_E_DEPENDENCY && at == AT_COPIES);
    if (!is_known)
        (void)fprintf(stderr, "%s: %s\n", ferry_status_name(status), describe(error));
    CHECK(is_known);
    self->seen |= at;
    if (status != FERRY_E_DEVICE || error == NULL)
        return;
    if (strcmp(error->domain, "cuda") != 0 || error->native_code != (int64_t)self->result ||
        strstr(error->message, "cu") == NULL) {
        (void)fprintf(stderr, "it says: %s %lld: %s\n", error->domain,
                      (long long)error->native_code, error->message);
        CHECK(false && "the error names the driver's");
    }
}

static void write_out(void *arg, const char *text, size_t size_bytes)
{
    (void)arg;
    (void)fwrite(text, 1, size_bytes, stderr);
}

/* What hangs, seen from both sides: the operations ferry has, and where its threads stand. */
static void show_hung(const program *self)
{
    (void)ferry_engine_dump(self->ge.engine, FERRY_DUMP_JSON, write_out, NULL);
    stacks_show(getpid());
    gpu_hung(0);
}

/* Whether it succeeded; gives the future back. */
static bool look_at(program *self, unsigned at, ferry_future *future)
{
    ferry_status status = ferry_future_wait(future, HELD_NS);
    if (status == FERRY_PENDING)
        show_hung(self);
    if (status != FERRY_OK) {
        const ferry_error *error = ferry_future_error(future);
        CHECK(error != NULL);
        note_failure(self, at, status, error);
        if (error->cause != NULL)
            note_failure(self, at, error->cause->status, error->cause);
    }
    ferry_future_release(future);
    return status == FERRY_OK;
}

static ferry_device *open_device(program *self, const char *name)
{
    ferry_device_options options = FERRY_DEVICE_OPTIONS_INIT;
    options.completion = self->completion;
    options.parked_streams = 2;
    ferry_device *device = NULL;
    ferry_error *error = NULL;
    ferry_status status = ferry_device_open(self->ge.engine, name, &options, &device, &error);
    CHECK((error == NULL) == (status == FERRY_OK));
    CHECK((device == NULL) == (status != FERRY_OK));
    if (status != FERRY_OK)
        note_failure(self, AT_OPENING, status, error);
    ferry_error_release(error);
    return device;
}

static ferry_buffer *take_memory(program *self, ferry_device *device, size_t size_bytes,
                                 ferry_memory kind)
{
    ferry_buffer *buffer = NULL;
    if (device == NULL)
        return NULL;
    ferry_status status = ferry_buffer_alloc_kind(device, size_bytes, kind, &buffer);
    CHECK((buffer == NULL) == (status != FERRY_OK));
    if (status != FERRY_OK)
        note_failure(self, AT_MEMORY, status, NULL);
    return buffer;
}

static void open_all(program *self)
{
    gpu_engine_open(&self->ge);
    self->host = ferry_device_at(self->ge.engine, 0);
    self->gpus[0] = open_device(self, "cuda:0");
    self->gpus[1] = open_device(self, self->gpu_count > 1 ? "cuda:1" : "cuda:0/1");
    self->pageable = take_memory(self, self->host, LARGE, FERRY_MEMORY_DEFAULT);
    bool has_gpu = self->gpus[0] != NULL || self->gpus[1] != NULL;
    if (has_gpu)
        self->pinned = take_memory(self, self->host, SIZE, FERRY_MEMORY_PINNED);
    self->plain = take_memory(self, self->gpus[0], LARGE, FERRY_MEMORY_PLAIN);
    self->near = take_memory(self, self->gpus[0], SIZE, FERRY_MEMORY_DEFAULT);
    self->far = take_memory(self, self->gpus[1], SIZE, FERRY_MEMORY_DEFAULT);
    self->back = take_memory(self, self->host, LARGE, FERRY_MEMORY_DEFAULT);
    self->wrapped_memory = malloc(SIZE);
    CHECK(self->wrapped_memory != NULL);
    ferry_status status =
        ferry_buffer_wrap(self->host, self->wrapped_memory, SIZE, NULL, NULL, &self->wrapped);
    if (status != FERRY_OK)
        note_failure(self, AT_MEMORY, status, NULL);
}

static ferry_future *copy(program *self, ferry_buffer *dst, ferry_buffer *src, size_t size_bytes,
                          ferry_future *after)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &after;
    options.after_count = after != NULL;
    return ferry_copy(self->ge.engine, (ferry_span){dst, 0, size_bytes},
                      (ferry_span){src, 0, size_bytes}, &options);
}

static void fill(program *self, ferry_buffer *buffer, unsigned char salt)
{
    (void)self;
    unsigned char *bytes = ferry_buffer_data(buffer);
    for (size_t i = 0; i < ferry_buffer_size_bytes(buffer); i++)
        bytes[i] = (unsigned char)(i * 7 + i / 251 + salt);
}

static bool is_filled(const ferry_buffer *buffer, size_t size_bytes, unsigned char salt)
{
    const unsigned char *bytes = ferry_buffer_data(buffer);
    for (size_t i = 0; i < size_bytes; i++) {
        if (bytes[i] != (unsigned char)(i * 7 + i / 251 + salt))
            return false;
    }
    return true;
}

/* Pinned memory to a GPU, to the other, and back. */
static void go_round(program *self, unsigned char salt)
{
    if (self->pinned == NULL || self->near == NULL || self->far == NULL)
        return;
    fill(self, self->pinned, salt);
    ferry_future *one = copy(self, self->near, self->pinned, SIZE, NULL);
    ferry_future *two = copy(self, self->far, self->near, SIZE, NULL);
    ferry_future *three = copy(self, self->pinned, self->far, SIZE, NULL);
    bool is_done = look_at(self, AT_COPIES, three);
    is_done &= look_at(self, AT_COPIES, two);
    is_done &= look_at(self, AT_COPIES, one);
    CHECK(!is_done || is_filled(self->pinned, SIZE, salt));
}

/* Pageable memory to a GPU and back. */
static void go_staged(program *self, unsigned char salt)
{
    if (self->plain == NULL)
        return;
    fill(self, self->pageable, salt);
    ferry_future *there = copy(self, self->plain, self->pageable, LARGE, NULL);
    ferry_future *back = copy(self, self->back, self->plain, LARGE, NULL);
    bool is_done = look_at(self, AT_COPIES, back);
    is_done &= look_at(self, AT_COPIES, there);
    CHECK(!is_done || is_filled(self->back, LARGE, salt));
    CHECK(!look_at(self, AT_COPIES, copy(self, self->wrapped, self->plain, SIZE, NULL)) ||
          !is_done || is_filled(self->wrapped, SIZE, salt));
}

/* Many small ones at once, and rows. */
static void go_in_batches(program *self)
{
    if (self->pinned == NULL || self->near == NULL)
        return;
    ferry_op ops[SLICES];
    ferry_future *each[SLICES];
    for (size_t i = 0; i < SLICES; i++)
        ops[i] = (ferry_op){.kind = FERRY_OP_COPY,
                            .dst = {self->near, i * SMALL, SMALL},
                            .src = {self->pinned, (SLICES - i) * SMALL, SMALL}};
    ferry_future_release(ferry_batch(self->ge.engine, ops, sizeof ops[0], SLICES, each, NULL));
    for (size_t i = 0; i < SLICES; i++)
        (void)look_at(self, AT_COPIES, each[i]);
    (void)look_at(self, AT_COPIES,
                  ferry_copy_rows(self->ge.engine, (ferry_span){self->near, 0, 100}, 256,
                                  (ferry_span){self->pinned, 0, 100}, 128, 20, NULL));
}

/* The program's streams: what ferry waits for there, and what it makes them wait for. */
static void use_events(program *self)
{
    if (self->gpus[0] == NULL || self->pinned == NULL || self->near == NULL)
        return;
    void *stream = user_gpu_stream(self->user, 0);
    ferry_future *recorded = ferry_event_record(self->gpus[0], stream);
    ferry_future *behind = copy(self, self->near, self->pinned, SMALL, recorded);
    ferry_status status = ferry_future_stream_wait(behind, self->gpus[0], stream);
    if (status != FERRY_OK && status != FERRY_E_NOT_ISSUED)
        note_failure(self, AT_EVENTS, status, NULL);
    bool was_recorded = look_at(self, AT_EVENTS, recorded);
    if (was_recorded)
        (void)look_at(self, AT_COPIES, behind);
    else
        CHECK(gpu_end(behind) == FERRY_E_DEPENDENCY);
}

static void close_all(program *self)
{
    ferry_buffer *const buffers[] = {self->pinned, self->pageable, self->plain,  self->far,
                                     self->near,   self->back,     self->wrapped};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        ferry_buffer_release(buffers[i]);
}

/* How much the driver has of a program's. */
static uint64_t live(const emu_counters *counters)
{
    return counters->live_contexts + counters->live_streams + counters->live_events +
           counters->live_pools + counters->live_device_bytes + counters->live_pinned_bytes;
}

static void run_program(program *self)
{
    open_all(self);
    if (gpu_has_logged(&self->ge, "could not find which streams"))
        self->seen |= IN_LOG;
    for (unsigned char round = 0; round < 2; round++) {
        go_round(self, round);
        go_staged(self, (unsigned char)(round + 100));
        go_in_batches(self);
        use_events(self);
    }
    close_all(self);
}

/* ---- a case, in a process of its own ---- */

typedef struct test_case {
    const failing_call *call;
    unsigned nth;
    CUresult result;
    ferry_completion completion;
} test_case;

static int gpu_count(void)
{
    const char *text = getenv("FERRY_EMU_DEVICES");
    return text != NULL ? atoi(text) : 2;
}

/* Before anything fails, in the same process: so that what loads but once is loaded. */
static void begin(program *self, const test_case *of)
{
    memset(self, 0, sizeof *self);
    self->gpu_count = (size_t)gpu_count();
    self->completion = of->completion;
    self->result = of->result;
    self->user = user_gpu_open(0);
    CHECK(self->user != NULL);
}

/* False: what a lost device may touch stays, and with it the engine. */
static bool end(program *self, bool may_leave, const emu_counters *before)
{
    ferry_status status = ferry_engine_shutdown(self->ge.engine, may_leave ? 50000000 : -1);
    CHECK(status == FERRY_OK || (may_leave && status == FERRY_E_DEADLINE));
    if (status != FERRY_OK)
        return false;
    gpu_settle();
    ferry_engine_release(self->ge.engine);
    free(self->wrapped_memory);
    CHECK(failing_allocator_live_bytes(&self->ge.memory) == 0);
    emu_counters after;
    EMU(emu_get_counters)(&after);
    if (!may_leave && live(&after) != live(before)) {
        (void)fprintf(stderr,
                      "left: %lld contexts, %lld streams, %lld events, %lld pools, %lld bytes, "
                      "%lld pinned\n",
                      (long long)(after.live_contexts - before->live_contexts),
                      (long long)(after.live_streams - before->live_streams),
                      (long long)(after.live_events - before->live_events),
                      (long long)(after.live_pools - before->live_pools),
                      (long long)(after.live_device_bytes - before->live_device_bytes),
                      (long long)(after.live_pinned_bytes - before->live_pinned_bytes));
        CHECK(false && "nothing is left");
    }
    return true;
}

/*
 * A call that destroys and fails leaves what it should have destroyed; and after the end of a
 * context nothing of it is given back.
 */
static bool may_leave(const test_case *of)
{
    return of->call->seen == UNSEEN || (of->call->seen & LOSES) != 0 ||
           of->result == CUDA_ERROR_ILLEGAL_ADDRESS;
}

static bool is_call(const test_case *of)
{
    return strcmp(of->call->name, OPERATION) != 0 && strcmp(of->call->name, MEMORY) != 0;
}

static void limit_memory(uint64_t size_bytes)
{
    for (int i = 0; i < gpu_count(); i++)
        CHECK(EMU(emu_set_memory_limit)(i, size_bytes) == CUDA_SUCCESS);
}

static void make_fail(const test_case *of)
{
    if (strcmp(of->call->name, OPERATION) == 0)
        EMU(emu_fail_operation)(of->nth, of->result);
    else if (strcmp(of->call->name, MEMORY) == 0)
        limit_memory((uint64_t)(of->nth - 1) * PIECE_BYTES);
    else
        CHECK(EMU(emu_fail_call)(of->call->name, of->nth, of->result) == CUDA_SUCCESS);
}

static void make_well(const test_case *of)
{
    if (strcmp(of->call->name, MEMORY) == 0)
        limit_memory(UINT64_C(1) << 36);
    else if (is_call(of))
        CHECK(EMU(emu_fail_call)(of->call->name, 0, CUDA_SUCCESS) == CUDA_SUCCESS);
}

static int run_case(const test_case *of)
{
    static program self;
    char doing[96];
    emu_counters before;
    (void)snprintf(doing, sizeof doing, "%s, call %u, %d, completion %d", of->call->name, of->nth,
                   (int)of->result, (int)of->completion);
    gpu_watch(doing, 60);
    bool is_loading =
        strcmp(of->call->name, "cuInit") == 0 || strcmp(of->call->name, "cuDeviceGetCount") == 0;
    begin(&self, of);
    EMU(emu_get_counters)(&before);
    uint64_t count = is_call(of) ? EMU(emu_call_count)(of->call->name) : 0;
    make_fail(of);
    run_program(&self);
    bool has_ended = end(&self, may_leave(of), &before);
    bool has_failed =
        is_call(of) ? EMU(emu_call_count)(of->call->name) - count >= of->nth : self.seen != 0;
    make_well(of);
    if (!has_failed)
        return 2; /* it is not called so often */
    CHECK((self.seen & ~of->call->seen) == 0);
    CHECK(self.seen != 0 || (of->call->seen & UNSEEN) != 0);
    if (!has_ended)
        gpu_leave();
    if (may_leave(of) || is_loading)
        return 0;

    /* It was that one call: another engine finds nothing wrong. */
    static program again;
    again =
        (program){.gpu_count = self.gpu_count, .completion = self.completion, .user = self.user};
    run_program(&again);
    CHECK(again.seen == 0);
    CHECK(end(&again, may_leave(of), &before));
    return 0;
}

/* The exit status, which is 2 if the call is not made so often. A driver is of one process. */
static int run_apart(const test_case *of)
{
    char numbers[3][16], name[64];
    (void)snprintf(name, sizeof name, "%s", of->call->name);
    (void)snprintf(numbers[0], sizeof numbers[0], "%u", of->nth);
    (void)snprintf(numbers[1], sizeof numbers[1], "%d", (int)of->result);
    (void)snprintf(numbers[2], sizeof numbers[2], "%d", (int)of->completion);
    char *const arguments[] = {"errors", name, numbers[0], numbers[1], numbers[2], NULL};
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        (void)execv("/proc/self/exe", arguments);
        _exit(127);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 2))
        return WEXITSTATUS(status);
    (void)fprintf(stderr, "failed: %s, call %u, answers %d, completion %d\n", of->call->name,
                  of->nth, (int)of->result, (int)of->completion);
    return 1;
}

static int run_one(char **argv)
{
    for (size_t i = 0; i < CALL_COUNT; i++) {
        if (strcmp(argv[1], calls[i].name) != 0)
            continue;
        const test_case of = {&calls[i], (unsigned)atoi(argv[2]), (CUresult)atoi(argv[3]),
                              (ferry_completion)atoi(argv[4])};
        return run_case(&of);
    }
    return 127;
}

/* All with two GPUs, some with other numbers of them, and where all takes its time. What is no call
 * can be answered in one way only. */
static bool is_wanted(size_t call, size_t result)
{
    if (strcmp(calls[call].name, OPERATION) == 0)
        return results[result] == CUDA_ERROR_ILLEGAL_ADDRESS;
    if (strcmp(calls[call].name, MEMORY) == 0)
        return results[result] == CUDA_ERROR_OUT_OF_MEMORY;
#if defined(__SANITIZE_ADDRESS__)
    return call % RESULT_COUNT == result;
#else
    return gpu_count() == 2 || call % RESULT_COUNT == result;
#endif
}

/* errors [CALL [NTH RESULT COMPLETION]]: all of them, those of a call, or one. */
int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : NULL;
    unsigned ran = 0, failed = 0;
    if (argc == 5)
        return run_one(argv);
    if (EMU(emu_fail_call) == NULL) {
        (void)puts("errors: this is not the emulated CUDA, nothing can be made to fail");
        return 77; /* script/gpu: skipped */
    }
    for (size_t i = 0; i < CALL_COUNT; i++) {
        if (only != NULL && strcmp(only, calls[i].name) != 0)
            continue;
        for (size_t k = 0; k < RESULT_COUNT; k++) {
            if (only == NULL && !is_wanted(i, k))
                continue;
            /* The first ones, then fewer and fewer. */
            for (unsigned nth = 1; ran < CASES_MAX; nth *= STEP) {
                test_case one = {&calls[i], nth, results[k], FERRY_COMPLETION_WORDS};
                if ((nth + k) % 3 == 0)
                    one.completion = FERRY_COMPLETION_EVENTS;
                int status = run_apart(&one);
                if (status == 2)
                    break;
                ran++;
                failed += status == 1;
            }
        }
    }
    (void)printf("errors: %u calls made to fail, %u not as documented\n", ran, failed);
    return failed != 0;
}
