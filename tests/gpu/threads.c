/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything at once, and a shutdown in the midst of it. For each seed a storm of
 *   carriers    a number goes round: the program's stream writes it on a GPU, ferry carries it on
 *               behind an event, to the host or to a second device where the program's stream waits
 *               for ferry and reads; then the next one, with nothing but streams between that and
 *               the last reader. Bytes are checked each time
 *   submitters  copies of all sorts between buffers they share, with deadlines, cancels, rows and
 *               batches; futures are dropped, kept, left to others, waited for by streams
 *   a meddler   takes futures that others left, cancels and waits
 *   a capturer  captures a stream of its own in each mode
 *   an opener   opens logical devices, and takes memory of them
 * Then: every future has resolved, with a status that can be; the emulator has caught nothing and
 * no call has blocked; nothing is left of ferry's memory nor of what it had of the driver.
 */
#include "tests/gpu/program.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SEEDS 6
#define STEPS 200 /* of all carriers, until the shutdown begins */
#else
#define SEEDS 8
#define STEPS 800
#endif

#define KIB ((size_t)1024)
#define CARRIERS 3
#define SUBMITTERS 3
#define CARRIED (48 * KIB)
#define SHARED 7
#define SHARED_BYTES (96 * KIB)
#define LARGE_BYTES (700 * KIB) /* of pageable memory: more than one piece */
#define BATCHED 24
#define BOARD 32
#define KEPT 4096 /* futures of a submitter's */
#define LOGICAL 4 /* devices that are opened meanwhile */

typedef struct random_state {
    uint64_t word;
} random_state;

static uint32_t below(random_state *random, uint32_t bound)
{
    random->word ^= random->word << 13;
    random->word ^= random->word >> 7;
    random->word ^= random->word << 17;
    return (uint32_t)((random->word >> 32) * bound >> 32);
}

typedef struct carrier {
    pthread_t thread;
    random_state random;
    cudaStream_t own, other;   /* on the first GPU, and where `far` is */
    ferry_buffer *near, *far;  /* on the two */
    ferry_buffer *back[2];     /* pinned, pageable */
    unsigned char *seen;       /* what the program's stream has read of `far`; pinned */
    ferry_future *reader;      /* the newest copy from `near`; NULL: none */
    ferry_future *far_is_read; /* an event: the program is done with `far`; NULL: it is */
    unsigned value;
} carrier;

typedef struct submitter {
    pthread_t thread;
    random_state random;
    cudaStream_t stream;
    ferry_future *kept[KEPT];
    size_t kept_count;
    ferry_future *last;
} submitter;

static struct {
    gpu_engine ge;
    ferry_device *host, *gpu, *second;
    int second_ordinal;
    cudaStream_t common;
    ferry_buffer *shared[SHARED], *large[2];
    ferry_future *board[BOARD];
    carrier carriers[CARRIERS];
    submitter submitters[SUBMITTERS];
    atomic_uint steps;
    atomic_bool is_ending;
    atomic_bool stop;
} storm;

/* In all storms: what never happened was not tried. */
static struct {
    atomic_ulong steps, on_device, by_host, captures, cancels, submitted, ok, opened, shut_down;
} met;

static pthread_t start(void *(*fn)(void *), void *arg)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, fn, arg) == 0);
    return thread;
}

/* Captures by other threads don't concern this one. */
static void begin_thread(int ordinal)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    CHECK_CUDA(cudaSetDevice(ordinal));
    CHECK_CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
}

static cudaStream_t make_stream(int ordinal)
{
    cudaStream_t stream;
    CHECK_CUDA(cudaSetDevice(ordinal));
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static bool is_all(const unsigned char *bytes, unsigned value, size_t size_bytes)
{
    for (size_t i = 0; i < size_bytes; i++) {
        if (bytes[i] != value)
            return false;
    }
    return true;
}

/* Ended well; what failed did so because of the shutdown. Gives the future back. */
static bool went_well(ferry_future *future)
{
    ferry_status status = gpu_end(future);
    if (status == FERRY_OK)
        return true;
    if (!atomic_load(&storm.is_ending) ||
        (status != FERRY_E_SHUTDOWN && status != FERRY_E_DEPENDENCY)) {
        (void)fprintf(stderr, "a carrier's operation is %s\n", ferry_status_name(status));
        CHECK(!"an operation that nobody cancels ends well, until the shutdown");
    }
    return false;
}

/* ---- carriers ---- */

/*
 * The stream waits for the operation, on the device if that can be; afterwards it need not be
 * waited for by the host. False: the shutdown has begun.
 */
static bool stream_waits(ferry_future *future, ferry_device *device, cudaStream_t stream)
{
    ferry_status status = ferry_future_stream_wait(future, device, stream);
    if (status == FERRY_E_NOT_ISSUED) {
        if (!went_well(ferry_future_issued(future)))
            return false;
        status = ferry_future_stream_wait(future, device, stream);
    }
    if (status == FERRY_OK) {
        atomic_fetch_add(&met.on_device, 1);
        return true;
    }
    if (status == FERRY_E_SHUTDOWN)
        return false;
    CHECK(status == FERRY_E_NOT_ISSUED || status == FERRY_E_UNSUPPORTED);
    atomic_fetch_add(&met.by_host, 1);
    return went_well(ferry_future_retain(future));
}

static void delay(void *arg)
{
    const struct timespec nap = {.tv_nsec = (long)(uintptr_t)arg};
    (void)nanosleep(&nap, NULL);
}

/* An event behind what the stream holds now, recorded by ferry or by the program. */
static ferry_future *event_of(carrier *self, ferry_device *device, cudaStream_t stream)
{
    if (below(&self->random, 3) != 0)
        return ferry_event_record(device, stream);
    cudaEvent_t event;
    CHECK_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK_CUDA(cudaEventRecord(event, stream));
    /* Of the stream that all use: not in the order they were recorded, perhaps. */
    ferry_future *future = ferry_event_wrap(device, event, stream == storm.common ? NULL : stream);
    CHECK_CUDA(cudaEventDestroy(event));
    return future;
}

/* The next copy from `near` comes behind what the stream has written there. */
static ferry_future *carry(carrier *self, ferry_buffer *dst, ferry_future *event)
{
    ferry_future *after[2] = {event, self->far_is_read};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = after;
    options.after_count = dst == self->far && self->far_is_read != NULL ? 2 : 1;
    if (below(&self->random, 2) == 0) {
        ferry_status status = ferry_buffer_define(ferry_buffer_span(self->near), event);
        CHECK(status == FERRY_OK || status == FERRY_E_SHUTDOWN);
        options.after++;
        options.after_count--;
    }
    return ferry_copy(storm.ge.engine, ferry_buffer_span(dst), ferry_buffer_span(self->near),
                      &options);
}

/* The program's stream reads `far` once ferry has written it. */
static bool read_far(carrier *self)
{
    if (!stream_waits(self->reader, storm.second, self->other))
        return false;
    memset(self->seen, 0, CARRIED);
    CHECK_CUDA(cudaSetDevice(storm.second_ordinal));
    CHECK_CUDA(cudaMemcpyAsync(self->seen, ferry_buffer_data(self->far), CARRIED,
                               cudaMemcpyDeviceToHost, self->other));
    ferry_future_release(self->far_is_read);
    self->far_is_read = event_of(self, storm.second, self->other);
    CHECK_CUDA(cudaSetDevice(0));
    if (!went_well(ferry_future_retain(self->far_is_read)))
        return false;
    CHECK(is_all(self->seen, self->value, CARRIED));
    return true;
}

static bool read_back(carrier *self, ferry_buffer *back)
{
    if (!went_well(ferry_future_retain(self->reader)))
        return false;
    CHECK(is_all(ferry_buffer_data(back), self->value, CARRIED));
    return true;
}

static bool carrier_step(carrier *self)
{
    cudaStream_t stream = below(&self->random, 3) == 0 ? storm.common : self->own;
    if (self->reader != NULL && !stream_waits(self->reader, storm.gpu, stream))
        return false;
    ferry_future_release(self->reader);
    self->reader = NULL;
    self->value = self->value % 255 + 1;
    if (below(&self->random, 8) == 0)
        CHECK_CUDA(
            cudaLaunchHostFunc(stream, delay, (void *)(uintptr_t)below(&self->random, 2000000)));
    CHECK_CUDA(cudaMemsetAsync(ferry_buffer_data(self->near), (int)self->value, CARRIED, stream));
    ferry_future *event = event_of(self, storm.gpu, stream);
    if (ferry_future_poll(event) < 0 && !went_well(ferry_future_retain(event))) {
        ferry_future_release(event);
        return false;
    }
    uint32_t where = below(&self->random, 3);
    ferry_buffer *dst = where == 2 ? self->far : self->back[where];
    self->reader = carry(self, dst, event);
    ferry_future_release(event);
    atomic_fetch_add(&storm.steps, 1);
    return where == 2 ? read_far(self) : read_back(self, dst);
}

static void *carrier_main(void *arg)
{
    carrier *self = arg;
    begin_thread(0);
    while (carrier_step(self))
        atomic_fetch_add(&met.steps, 1);
    CHECK(atomic_load(&storm.is_ending));
    return NULL;
}

/* ---- submitters ---- */

static ferry_span random_span(random_state *random, ferry_buffer *buffer, size_t size_bytes)
{
    size_t room = ferry_buffer_size_bytes(buffer) - size_bytes;
    return (ferry_span){buffer, room == 0 ? 0 : below(random, (uint32_t)room), size_bytes};
}

static void heal(ferry_buffer *buffer)
{
    ferry_status status = ferry_buffer_define(ferry_buffer_span(buffer), NULL);
    CHECK(status == FERRY_OK || status == FERRY_E_SHUTDOWN);
}

/* What was cancelled poisons what it would have written, so all would soon fail for it. */
static void random_pair(random_state *random, ferry_buffer **dst, ferry_buffer **src)
{
    uint32_t first = below(random, SHARED), second = below(random, SHARED - 1);
    *dst = storm.shared[first];
    *src = storm.shared[(first + 1 + second) % SHARED];
    if (below(random, 4) == 0)
        heal(*src);
}

static ferry_future *submit_batch(random_state *random, const ferry_op_options *options)
{
    ferry_op ops[BATCHED];
    ferry_future *each[BATCHED];
    memset(ops, 0, sizeof ops);
    bool has_each = below(random, 2) == 0;
    for (size_t i = 0; i < BATCHED; i++) {
        ferry_buffer *dst, *src;
        size_t size_bytes = 1 + below(random, 2000);
        random_pair(random, &dst, &src);
        ops[i].kind = FERRY_OP_COPY;
        ops[i].dst = random_span(random, dst, size_bytes);
        ops[i].src = random_span(random, src, size_bytes);
    }
    ferry_future *all =
        ferry_batch(storm.ge.engine, ops, sizeof *ops, BATCHED, has_each ? each : NULL, options);
    for (size_t i = 0; has_each && i < BATCHED; i++)
        ferry_future_release(each[i]);
    return all;
}

static ferry_future *submit_rows(random_state *random, const ferry_op_options *options)
{
    ferry_buffer *dst, *src;
    random_pair(random, &dst, &src);
    size_t rows = 2 + below(random, 6), pitch_bytes = 4 * KIB + below(random, 512);
    size_t size_bytes = 1 + below(random, 3000);
    return ferry_copy_rows(storm.ge.engine, (ferry_span){dst, below(random, 512), size_bytes},
                           pitch_bytes, (ferry_span){src, below(random, 512), size_bytes}, 4 * KIB,
                           rows, options);
}

/* Through memory that nobody else knows, and that is let go at once. */
static ferry_future *submit_through_new(random_state *random, const ferry_op_options *options)
{
    ferry_device *devices[] = {storm.host, storm.gpu, storm.second};
    ferry_buffer *through = NULL, *dst, *src;
    size_t size_bytes = 1 + below(random, (uint32_t)SHARED_BYTES);
    random_pair(random, &dst, &src);
    (void)ferry_buffer_alloc(devices[below(random, 3)], size_bytes, &through);
    ferry_span span = ferry_buffer_span(through);
    ferry_future_release(
        ferry_copy(storm.ge.engine, span, random_span(random, src, size_bytes), options));
    ferry_future *future =
        ferry_copy(storm.ge.engine, random_span(random, dst, size_bytes), span, NULL);
    ferry_buffer_release(through);
    return future;
}

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static ferry_future *submit_some(submitter *self)
{
    random_state *random = &self->random;
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &self->last;
    options.after_count = self->last != NULL && below(random, 3) == 0;
    if (below(random, 10) == 0)
        options.deadline_ns = now_ns() + below(random, 1000000);
    ferry_buffer *dst, *src;
    size_t size_bytes = 1 + below(random, (uint32_t)SHARED_BYTES);
    random_pair(random, &dst, &src);
    switch (below(random, 8)) {
    case 0:
        return submit_batch(random, &options);
    case 1:
        return submit_rows(random, &options);
    case 2:
        return submit_through_new(random, &options);
    case 3:
        if (below(random, 8) != 0)
            return ferry_future_retain(self->last);
        heal(storm.large[1]);
        return ferry_copy(storm.ge.engine, ferry_buffer_span(storm.large[below(random, 2)]),
                          ferry_buffer_span(storm.large[1]), &options); /* refused, if the same */
    case 4:
        return ferry_event_record(storm.gpu, self->stream);
    default:
        return ferry_copy(storm.ge.engine, random_span(random, dst, size_bytes),
                          random_span(random, src, size_bytes), &options);
    }
}

static ferry_future *swap(random_state *random, ferry_future *future)
{
    return __atomic_exchange_n(&storm.board[below(random, BOARD)], future, __ATOMIC_ACQ_REL);
}

static bool is_possible(ferry_status status)
{
    return status == FERRY_OK || status == FERRY_E_CANCELLED || status == FERRY_E_DEADLINE ||
           status == FERRY_E_DEPENDENCY || status == FERRY_E_SHUTDOWN || status == FERRY_E_INVALID;
}

/* What becomes of a future: the submitter gives its reference away. */
static void dispose(submitter *self, ferry_future *future)
{
    random_state *random = &self->random;
    if (below(random, 5) == 0) {
        (void)ferry_future_cancel(future);
        atomic_fetch_add(&met.cancels, 1);
    }
    if (below(random, 6) == 0) {
        ferry_status status = ferry_future_stream_wait(future, storm.gpu, self->stream);
        CHECK(status == FERRY_OK || status == FERRY_E_NOT_ISSUED || status == FERRY_E_UNSUPPORTED ||
              status == FERRY_E_SHUTDOWN);
    }
    if (below(random, 3) == 0)
        ferry_future_release(swap(random, ferry_future_retain(future)));
    if (below(random, 16) == 0)
        (void)ferry_future_wait(future, below(random, 300000));
    if (self->kept_count < KEPT && below(random, 3) != 0)
        self->kept[self->kept_count++] = future;
    else
        ferry_future_release(future);
}

static void *submitter_main(void *arg)
{
    submitter *self = arg;
    begin_thread(0);
    for (unsigned i = 1;; i++) {
        ferry_future *future = submit_some(self);
        atomic_fetch_add(&met.submitted, 1);
        ferry_future_release(self->last);
        self->last = ferry_future_retain(future);
        bool is_over = ferry_future_id(future) == 0 && atomic_load(&storm.stop);
        bool is_refused = ferry_future_id(future) == 0 && atomic_load(&storm.is_ending);
        dispose(self, future);
        if (is_over)
            return NULL;
        if (is_refused)
            delay((void *)(uintptr_t)100000); /* NOLINT: a number */
        if (i % 32 == 0)                      /* others have their turn */
            CHECK(is_possible(ferry_future_wait(self->last, -1)));
    }
}

/* ---- others ---- */

static void *meddler_main(void *arg)
{
    random_state random = {(uint64_t)(uintptr_t)arg};
    ferry_future *future = NULL;
    begin_thread(0);
    while (!atomic_load(&storm.stop)) {
        future = swap(&random, future);
        if (future == NULL) {
            (void)sched_yield();
            continue;
        }
        switch (below(&random, 4)) {
        case 0:
            CHECK_STATUS(ferry_future_cancel(future), FERRY_OK);
            break;
        case 1:
            (void)ferry_future_wait(future, below(&random, 400000));
            break;
        case 2:
            ferry_future_release(ferry_future_quiet(future));
            break;
        default:
            (void)ferry_future_error(future);
        }
        delay((void *)(uintptr_t)10000); /* NOLINT: a number; nobody is to be flooded */
    }
    ferry_future_release(future);
    return NULL;
}

static void capture_once(random_state *random, cudaStream_t stream, void *gpu)
{
    static const enum cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeGlobal,
                                                       cudaStreamCaptureModeThreadLocal,
                                                       cudaStreamCaptureModeRelaxed};
    cudaGraph_t graph;
    CHECK_CUDA(cudaStreamBeginCapture(stream, modes[below(random, 3)]));
    CHECK_CUDA(cudaMemsetAsync(gpu, 7, KIB, stream));
    ferry_future_release(ferry_copy(storm.ge.engine,
                                    random_span(random, storm.shared[0], SHARED_BYTES),
                                    random_span(random, storm.shared[5], SHARED_BYTES), NULL));
    ferry_status status = gpu_end(ferry_event_record(storm.gpu, stream));
    if (status != FERRY_E_CAPTURE && status != FERRY_E_SHUTDOWN)
        (void)fprintf(stderr, "an event on a captured stream is %s\n", ferry_status_name(status));
    CHECK(status == FERRY_E_CAPTURE || status == FERRY_E_SHUTDOWN);
    ferry_buffer *buffer = NULL;
    if (ferry_buffer_alloc(storm.gpu, KIB, &buffer) == FERRY_OK)
        ferry_buffer_release(buffer);
    CHECK_CUDA(cudaStreamEndCapture(stream, &graph)); /* it was not broken */
    CHECK_CUDA(cudaGraphDestroy(graph));
    atomic_fetch_add(&met.captures, 1);
}

static void *capturer_main(void *arg)
{
    random_state random = {(uint64_t)(uintptr_t)arg};
    cudaStream_t stream = make_stream(0);
    void *gpu;
    CHECK_CUDA(cudaMalloc(&gpu, KIB));
    while (!atomic_load(&storm.stop)) {
        capture_once(&random, stream, gpu);
        delay((void *)(uintptr_t)500000); /* NOLINT: a number */
    }
    CHECK_CUDA(cudaStreamDestroy(stream));
    return gpu;
}

static void *opener_main(void *arg)
{
    random_state random = {(uint64_t)(uintptr_t)arg};
    for (int i = 1; i <= LOGICAL; i++) {
        char name[32];
        ferry_device *device = NULL;
        ferry_device_info info = FERRY_DEVICE_INFO_INIT;
        ferry_buffer *buffer = NULL;
        (void)snprintf(name, sizeof name, "cuda:%d/%d", storm.second_ordinal, i + 1);
        delay((void *)(uintptr_t)below(&random, 3000000)); /* NOLINT: a number */
        ferry_status status = ferry_device_open(storm.ge.engine, name, NULL, &device, NULL);
        if (status == FERRY_E_SHUTDOWN)
            return NULL;
        CHECK_STATUS(status, FERRY_OK);
        CHECK(ferry_device_find(storm.ge.engine, name) == device);
        CHECK_STATUS(ferry_device_describe(device, &info), FERRY_OK);
        atomic_fetch_add(&met.opened, 1);
        status = ferry_buffer_alloc(device, SHARED_BYTES, &buffer);
        CHECK(status == FERRY_OK || status == FERRY_E_SHUTDOWN);
        ferry_future_release(ferry_copy(storm.ge.engine, ferry_buffer_span(buffer),
                                        ferry_buffer_span(storm.shared[2]), NULL));
        status = gpu_end(ferry_copy(storm.ge.engine, ferry_buffer_span(storm.shared[3]),
                                    ferry_buffer_span(buffer), NULL));
        CHECK(is_possible(status));
        ferry_buffer_release(buffer);
    }
    return NULL;
}

/* ---- a storm ---- */

static void free_wrapped(void *arg, void *memory, size_t size_bytes)
{
    (void)arg, (void)size_bytes;
    free(memory);
}

static ferry_buffer *wrapped(void)
{
    ferry_buffer *buffer = NULL;
    void *memory = calloc(1, SHARED_BYTES);
    CHECK(memory != NULL);
    CHECK_STATUS(ferry_buffer_wrap(storm.host, memory, SHARED_BYTES, free_wrapped, NULL, &buffer),
                 FERRY_OK);
    return buffer;
}

/* What the program has its stream do is done once here, while nothing else runs. */
static void warm_up(cudaStream_t stream)
{
    CHECK_CUDA(cudaMemsetAsync(ferry_buffer_data(storm.shared[1]), 0, 1, stream));
    CHECK_CUDA(cudaLaunchHostFunc(stream, delay, NULL));
    CHECK_CUDA(cudaStreamSynchronize(stream));
}

static void open_carrier(carrier *self, uint64_t seed)
{
    bool is_plain = seed % 2 == 0;
    *self = (carrier){.random = {seed * 77 + 1}};
    self->own = make_stream(0);
    self->other = make_stream(storm.second_ordinal);
    self->near = gpu_buffer(storm.gpu, CARRIED, is_plain ? FERRY_MEMORY_PLAIN : 0);
    self->far = gpu_buffer(storm.second, CARRIED, is_plain ? 0 : FERRY_MEMORY_PLAIN);
    self->back[0] = gpu_buffer(storm.host, CARRIED, FERRY_MEMORY_PINNED);
    self->back[1] = gpu_buffer(storm.host, CARRIED, FERRY_MEMORY_DEFAULT);
    CHECK_CUDA(cudaMallocHost((void **)&self->seen, CARRIED));
}

static void close_carrier(carrier *self)
{
    CHECK_CUDA(cudaStreamSynchronize(self->own));
    CHECK_CUDA(cudaStreamSynchronize(self->other));
    ferry_future_release(self->reader);
    ferry_future_release(self->far_is_read);
    ferry_buffer_release(self->near);
    ferry_buffer_release(self->far);
    ferry_buffer_release(self->back[0]);
    ferry_buffer_release(self->back[1]);
    CHECK_CUDA(cudaFreeHost(self->seen));
    CHECK_CUDA(cudaStreamDestroy(self->own));
    CHECK_CUDA(cudaStreamDestroy(self->other));
}

static void close_submitter(submitter *self)
{
    CHECK_CUDA(cudaStreamSynchronize(self->stream));
    CHECK_CUDA(cudaStreamDestroy(self->stream));
    ferry_future_release(self->last);
    for (size_t i = 0; i < self->kept_count; i++) {
        ferry_status status = ferry_future_poll(self->kept[i]);
        if (!is_possible(status))
            (void)fprintf(stderr, "a submitter's operation is %s\n", ferry_status_name(status));
        CHECK(is_possible(status));
        atomic_fetch_add(&met.shut_down, status == FERRY_E_SHUTDOWN);
        atomic_fetch_add(&met.ok, status == FERRY_OK);
        ferry_future_release(self->kept[i]);
    }
}

static void no_log(void *arg, ferry_log_level level, const char *line)
{
    (void)arg, (void)level, (void)line;
}

static void open_storm(uint64_t seed, int gpu_count)
{
    memset(&storm, 0, sizeof storm);
    ferry_engine_options engine_options = gpu_engine_options(&storm.ge);
    engine_options.log = no_log;
    CHECK_STATUS(ferry_engine_create(&engine_options, &storm.ge.engine, NULL), FERRY_OK);
    ferry_device_options options = FERRY_DEVICE_OPTIONS_INIT;
    options.completion = seed % 3 == 2 ? FERRY_COMPLETION_EVENTS : FERRY_COMPLETION_DEFAULT;
    options.parked_streams = 1 + (uint32_t)seed % 4;
    CHECK_STATUS(ferry_device_open(storm.ge.engine, "cuda:0", &options, &storm.gpu, NULL),
                 FERRY_OK);
    storm.second_ordinal = gpu_count > 1 && seed % 4 != 3 ? 1 : 0;
    storm.second = gpu_device(&storm.ge, storm.second_ordinal == 1 ? "cuda:1" : "cuda:0/1");
    storm.host = ferry_device_find(storm.ge.engine, "host:0");
    storm.shared[0] = gpu_buffer(storm.gpu, SHARED_BYTES, FERRY_MEMORY_DEFAULT);
    storm.shared[1] = gpu_buffer(storm.gpu, SHARED_BYTES, FERRY_MEMORY_PLAIN);
    storm.shared[2] = gpu_buffer(storm.second, SHARED_BYTES, FERRY_MEMORY_DEFAULT);
    storm.shared[3] = gpu_buffer(storm.host, SHARED_BYTES, FERRY_MEMORY_PINNED);
    storm.shared[4] = gpu_buffer(storm.host, SHARED_BYTES, FERRY_MEMORY_DEFAULT);
    storm.shared[5] = wrapped();
    storm.shared[6] = gpu_buffer(storm.second, SHARED_BYTES, FERRY_MEMORY_PLAIN);
    storm.large[0] = gpu_buffer(storm.gpu, LARGE_BYTES, FERRY_MEMORY_DEFAULT);
    storm.large[1] = gpu_buffer(storm.host, LARGE_BYTES, FERRY_MEMORY_DEFAULT);
    storm.common = make_stream(0);
    warm_up(storm.common);
    for (uint64_t i = 0; i < CARRIERS; i++)
        open_carrier(&storm.carriers[i], seed * 10 + i + 1);
    for (uint64_t i = 0; i < SUBMITTERS; i++) {
        storm.submitters[i].random.word = seed * 1000 + i + 1;
        storm.submitters[i].stream = make_stream(0);
    }
}

static void close_storm(void)
{
    CHECK_CUDA(cudaStreamSynchronize(storm.common));
    for (size_t i = 0; i < BOARD; i++)
        ferry_future_release(storm.board[i]);
    for (size_t i = 0; i < SUBMITTERS; i++)
        close_submitter(&storm.submitters[i]);
    for (size_t i = 0; i < CARRIERS; i++)
        close_carrier(&storm.carriers[i]);
    for (size_t i = 0; i < SHARED; i++)
        ferry_buffer_release(storm.shared[i]);
    ferry_buffer_release(storm.large[0]);
    ferry_buffer_release(storm.large[1]);
    CHECK_CUDA(cudaStreamDestroy(storm.common));
    gpu_engine_close(&storm.ge);
}

static void shut_down(void)
{
    while (atomic_load(&storm.steps) < STEPS)
        delay((void *)(uintptr_t)200000); /* NOLINT: a number */
    atomic_store(&storm.is_ending, true);
    ferry_status status = ferry_engine_shutdown(storm.ge.engine, 0);
    CHECK(status == FERRY_OK || status == FERRY_E_DEADLINE);
    CHECK_STATUS(ferry_engine_shutdown(storm.ge.engine, -1), FERRY_OK);
    atomic_store(&storm.stop, true);
}

static void run_storm(uint64_t seed, int gpu_count)
{
    pthread_t meddler, capturer, opener;
    void *captured;
    open_storm(seed, gpu_count);
    for (size_t i = 0; i < CARRIERS; i++)
        storm.carriers[i].thread = start(carrier_main, &storm.carriers[i]);
    for (size_t i = 0; i < SUBMITTERS; i++)
        storm.submitters[i].thread = start(submitter_main, &storm.submitters[i]);
    meddler = start(meddler_main, (void *)(uintptr_t)(seed * 100 + 33));   /* NOLINT */
    capturer = start(capturer_main, (void *)(uintptr_t)(seed * 100 + 44)); /* NOLINT */
    opener = start(opener_main, (void *)(uintptr_t)(seed * 100 + 55));     /* NOLINT */
    shut_down();
    for (size_t i = 0; i < CARRIERS; i++)
        CHECK(pthread_join(storm.carriers[i].thread, NULL) == 0);
    for (size_t i = 0; i < SUBMITTERS; i++)
        CHECK(pthread_join(storm.submitters[i].thread, NULL) == 0);
    CHECK(pthread_join(meddler, NULL) == 0);
    CHECK(pthread_join(capturer, &captured) == 0);
    CHECK(pthread_join(opener, NULL) == 0);
    close_storm();
    CHECK_CUDA(cudaFree(captured));
}

static void check_counter(const char *name, uint64_t before, uint64_t after)
{
    if (before != after) {
        (void)fprintf(stderr, "%s: %llu before the storm, %llu after it\n", name,
                      (unsigned long long)before, (unsigned long long)after);
        CHECK(!"nothing is left of a storm, and nothing was caught");
    }
}

static void check_counters(const emu_counters *before)
{
    emu_counters after;
    EMU(emu_get_counters)(&after);
    check_counter("streams", before->live_streams, after.live_streams);
    check_counter("events", before->live_events, after.live_events);
    check_counter("pools", before->live_pools, after.live_pools);
    check_counter("contexts", before->live_contexts, after.live_contexts);
    check_counter("memory of GPUs", before->live_device_ranges, after.live_device_ranges);
    check_counter("pinned memory", before->live_pinned_ranges, after.live_pinned_ranges);
    check_counter("graphs", before->live_graphs, after.live_graphs);
    check_counter("catches", before->caught, after.caught);
    check_counter("calls that blocked", before->blocked, after.blocked);
}

int main(void)
{
    int gpu_count = 0;
    emu_counters before;
    begin_thread(0);
    CHECK_CUDA(cudaGetDeviceCount(&gpu_count));
    for (int i = 0; i < gpu_count; i++)
        CHECK_CUDA(cudaInitDevice(i, 0, 0));
    CHECK_CUDA(cudaSetDevice(0));
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        gpu_watch("a storm", 100);
        if (EMU(emu_get_counters) != NULL)
            EMU(emu_get_counters)(&before);
        run_storm(seed, gpu_count);
        if (EMU(emu_get_counters) != NULL)
            check_counters(&before);
    }
    (void)printf("%lu numbers carried, %lu waits on the device and %lu by the host, %lu "
                 "submitted (%lu kept went well), %lu cancels, %lu shut down, %lu captures, %lu "
                 "devices opened\n",
                 met.steps, met.on_device, met.by_host, met.submitted, met.ok, met.cancels,
                 met.shut_down, met.captures, met.opened);
    CHECK(met.on_device != 0 && met.cancels != 0 && met.captures != 0 && met.opened != 0);
    return EXIT_SUCCESS;
}
