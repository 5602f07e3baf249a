/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of the CUDA module: order, marks, words, batches, waits, rows, room. */
#include "tests/module/rig.h"

#define KIB ((size_t)1024)
#define MS ((int64_t)1000000)

static fry_stream *from_host(fry_device *device)
{
    return rig_main(device, FRY_CUDA_FROM_HOST);
}

/* What is issued fires in order, is found without a call, and the bytes are there. */
static void test_order(rig *self, uint32_t completion)
{
    fry_device *device = rig_device(self, "cuda:0", completion);
    fry_stream *stream = from_host(device);
    char *host = rig_pinned(256 * KIB, 7), *gpu = rig_on_gpu(0, 256 * KIB, 0);
    emu_hold();
    for (size_t i = 0; i < 3; i++) {
        fry_event event =
            rig_copy(self, stream, gpu + i * 80 * KIB, host + i * 80 * KIB, 80 * KIB, NULL, 0);
        GIVES(event.sequence, i + 1);
        rig_flush(stream);
    }
    uint64_t queries = rig_calls("cuEventQuery");
    for (int i = 0; i < 100; i++)
        GIVES(rig_fired(self, stream), 0);
    if (completion == FERRY_COMPLETION_WORDS)
        GIVES(rig_calls("cuEventQuery"), queries);
    else
        GIVES(rig_calls("cuEventQuery"), queries + 100);
    emu_release();
    (void)emu_settle();
    GIVES(rig_fired(self, stream), 3);
    if (completion == FERRY_COMPLETION_WORDS)
        GIVES(rig_calls("cuEventQuery"), queries);
    CHECK(rig_is_all(gpu, 7, 240 * KIB) && rig_is_all(gpu + 240 * KIB, 0, 16 * KIB));
    rig_flush(stream); /* nothing new: no mark */
    queries = rig_calls("cuEventQuery");
    for (int i = 0; i < 100; i++)
        GIVES(rig_fired(self, stream), 3);
    GIVES(rig_calls("cuEventQuery"), queries); /* nothing in flight: no question either way */
    rig_free_pinned(host);
    rig_free_on_gpu(gpu);
}

static void test_batches(rig *self)
{
    fry_device *device = rig_device(self, "cuda:0", 0);
    fry_stream *stream = from_host(device);
    char *host = rig_pinned(4096 * KIB, 3), *gpu = rig_on_gpu(0, 4096 * KIB, 0);
    uint64_t batches = rig_calls("cuMemcpyBatchAsync"), singles = rig_calls("cuMemcpyAsync");
    uint64_t records = rig_calls("cuEventRecord"), words = rig_calls("cuStreamWriteValue32");
    emu_hold();
    for (size_t i = 0; i < 10; i++)
        (void)rig_copy(self, stream, gpu + i * KIB, host + i * KIB, KIB, NULL, 0);
    GIVES(rig_calls("cuMemcpyBatchAsync"), batches);
    rig_flush(stream);
    GIVES(rig_calls("cuMemcpyBatchAsync"), ++batches);
    GIVES(rig_calls("cuMemcpyAsync"), singles);
    GIVES(rig_calls("cuEventRecord"), ++records);
    GIVES(rig_calls("cuStreamWriteValue32"), ++words);

    /* One alone. */
    (void)rig_copy(self, stream, gpu + 10 * KIB, host + 10 * KIB, KIB, NULL, 0);
    rig_flush(stream);
    GIVES(rig_calls("cuMemcpyBatchAsync"), batches);
    GIVES(rig_calls("cuMemcpyAsync"), ++singles);

    /* What must come behind another of its own stream is not in the same batch. */
    char *other = rig_on_gpu(0, 64 * KIB, 0);
    fry_event first = rig_copy(self, stream, other, host, KIB, NULL, 0);
    (void)rig_copy(self, stream, other + 8 * KIB, host, KIB, NULL, 0);
    fry_event second = rig_copy(self, stream, other, host + 4 * KIB, KIB, &first, 1);
    fry_event unrelated = rig_copy(self, stream, other + 9 * KIB, host, KIB, &first, 1);
    rig_flush(stream);
    batches += 2;
    GIVES(rig_calls("cuMemcpyBatchAsync"), batches);

    /* A large one goes at once, behind the small ones. */
    (void)rig_copy(self, stream, gpu + 20 * KIB, host + 20 * KIB, KIB, NULL, 0);
    (void)rig_copy(self, stream, gpu + 21 * KIB, host + 21 * KIB, KIB, NULL, 0);
    (void)rig_copy(self, stream, gpu + 64 * KIB, host + 64 * KIB, 65 * KIB, NULL, 0);
    GIVES(rig_calls("cuMemcpyBatchAsync"), ++batches);
    rig_flush(stream);

    /* Many bytes: a mark without a flush, behind a mebibyte. */
    records = rig_calls("cuEventRecord");
    uint64_t sequence = 0;
    for (size_t i = 0; i < 16; i++)
        sequence =
            rig_copy(self, stream, gpu + (256 + i * 64) * KIB, host, 64 * KIB, NULL, 0).sequence;
    GIVES(rig_calls("cuEventRecord"), records + 1);
    emu_release();
    rig_await(self, (fry_event){stream, sequence});
    GIVES(stream->struck, 0);
    CHECK(second.sequence < unrelated.sequence);
    CHECK(rig_is_all(other, 3, KIB) && rig_is_all(gpu, 3, 11 * KIB));
    CHECK(rig_is_all(gpu + 64 * KIB, 3, 65 * KIB) && rig_is_all(gpu + 256 * KIB, 3, 1024 * KIB));

    /* More than a batch takes: as many calls as that needs. */
    batches = rig_calls("cuMemcpyBatchAsync");
    for (size_t i = 0; i < FRY_CUDA_BATCH_COUNT + 20; i++)
        (void)rig_copy(self, stream, gpu + i * KIB, host, KIB, NULL, 0);
    rig_flush(stream);
    GIVES(rig_calls("cuMemcpyBatchAsync"), batches + 2);
    rig_await(self, (fry_event){stream, stream->issued});
    rig_free_on_gpu(other);
    rig_free_pinned(host);
    rig_free_on_gpu(gpu);
}

/* Over two GPUs and back, all issued before the first byte moves; order is the devices' alone. */
static void test_chain(rig *self)
{
    fry_device *first = rig_device(self, "cuda:0", 0), *second = rig_device(self, "cuda:1", 0);
    char *host = rig_pinned(64 * KIB, 9), *back = rig_pinned(64 * KIB, 0);
    char *near = rig_on_gpu(0, 64 * KIB, 0), *far = rig_on_gpu(1, 64 * KIB, 0);
    fry_stream *across = first->ops->copy_stream(second, first, false);
    fry_stream *down = first->ops->copy_stream(second, second, false);
    CHECK(down == rig_main(second, FRY_CUDA_ON_DEVICE));
    CHECK(across->device == first);
    fry_stream *home = rig_main(second, FRY_CUDA_TO_HOST);
    CHECK(first->ops->can_wait(across, from_host(first)));
    CHECK(first->ops->can_wait(home, across));
    emu_hold();
    /* Not flushed in between: a wait sees to that itself. */
    fry_event a = rig_copy(self, from_host(first), near, host, 64 * KIB, NULL, 0);
    fry_event b = rig_copy(self, across, far, near, 64 * KIB, &a, 1);
    uint64_t waits = rig_calls("cuStreamWaitEvent");
    fry_event c = rig_copy(self, home, back, far, 32 * KIB, &b, 1);
    GIVES(rig_calls("cuStreamWaitEvent"), waits + 1);
    /* What a stream has waited for it does not wait for again. */
    fry_event d = rig_copy(self, home, back + 32 * KIB, far + 32 * KIB, 32 * KIB, &b, 1);
    GIVES(rig_calls("cuStreamWaitEvent"), waits + 1);
    rig_flush(home);
    CHECK(rig_is_all(back, 0, 64 * KIB));
    emu_release();
    rig_await(self, d);
    CHECK(rig_is_all(back, 9, 64 * KIB));
    GIVES(rig_fired(self, across), b.sequence);
    GIVES(rig_fired(self, from_host(first)), a.sequence);
    CHECK(c.sequence < d.sequence);

    /* Nor for what has fired. */
    waits = rig_calls("cuStreamWaitEvent");
    fry_event e = rig_copy(self, from_host(second), far, host, 64 * KIB, &d, 1);
    GIVES(rig_calls("cuStreamWaitEvent"), waits);
    rig_flush(from_host(second));
    rig_await(self, e);
    rig_free_pinned(host);
    rig_free_pinned(back);
    rig_free_on_gpu(near);
    rig_free_on_gpu(far);
}

/* The words begin anew after 2^32 marks. */
static void test_wrap(rig *self)
{
    fry_device *device = rig_device(self, "cuda:0", FERRY_COMPLETION_WORDS);
    fry_stream *stream = from_host(device);
    const uint64_t first = ((uint64_t)1 << 32) - 300;
    fry_cuda_stream_start_at(fry_cuda_stream_of(stream), first);
    char *host = rig_pinned(KIB, 1), *gpu = rig_on_gpu(0, 256 * KIB, 0);
    uint64_t queries = rig_calls("cuEventQuery"), fired = first - 1;
    emu_hold();
    for (uint64_t i = 0; i < 600; i++) {
        fry_event event = rig_copy(self, stream, gpu + i % 256 * KIB, host, KIB, NULL, 0);
        GIVES(event.sequence, first + i);
        rig_flush(stream);
        GIVES(rig_fired(self, stream), fired);
        if (i % 100 != 99)
            continue;
        emu_release();
        (void)emu_settle();
        fired = event.sequence;
        GIVES(rig_fired(self, stream), fired);
        emu_hold();
    }
    emu_release();
    GIVES(rig_calls("cuEventQuery"), queries);

    /* A word that can't be: nothing has fired by it. */
    fry_cuda_stream *inner = fry_cuda_stream_of(stream);
    emu_hold();
    fry_event last = rig_copy(self, stream, gpu, host, KIB, NULL, 0);
    rig_flush(stream);
    uint32_t kept = *inner->words;
    const uint32_t wrong[] = {kept - 1, kept + 2, kept + 1000, kept + ((uint32_t)1 << 31)};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        *inner->words = wrong[i];
        GIVES(rig_fired(self, stream), fired);
    }
    *inner->words = kept;
    emu_release();
    rig_await(self, last);
    rig_free_pinned(host);
    rig_free_on_gpu(gpu);
}

/* The driver is asked about what stays, ever more seldom. */
static void test_questions(rig *self)
{
    fry_device *device = rig_device(self, "cuda:0", FERRY_COMPLETION_WORDS);
    fry_stream *stream = from_host(device);
    char *host = rig_pinned(KIB, 1), *gpu = rig_on_gpu(0, KIB, 0);
    emu_hold();
    fry_event event = rig_copy(self, stream, gpu, host, KIB, NULL, 0);
    GIVES(rig_fired(self, stream), 0); /* not yet handed over: nothing to ask about */
    stepped_clock_step(&self->stepped, 100 * MS);
    uint64_t queries = rig_calls("cuEventQuery");
    GIVES(rig_fired(self, stream), 0);
    rig_flush(stream);
    const int64_t ages_ms[] = {0, 1, 3, 7, 15, 31, 63, 127, 191, 255}; /* of the questions */
    int64_t age_ms = -1;
    for (size_t i = 0; i < sizeof ages_ms / sizeof *ages_ms; i++) {
        for (; age_ms < ages_ms[i]; age_ms++) {
            GIVES(rig_calls("cuEventQuery"), queries);
            if (age_ms >= 0)
                stepped_clock_step(&self->stepped, MS);
            GIVES(rig_fired(self, stream), 0);
        }
        if (ages_ms[i] > 0)
            queries++;
        GIVES(rig_calls("cuEventQuery"), queries);
    }
    emu_release();
    (void)emu_settle();
    GIVES(rig_fired(self, stream), event.sequence);
    GIVES(rig_calls("cuEventQuery"), queries);

    /* The next head is young again. */
    emu_hold();
    event = rig_copy(self, stream, gpu, host, KIB, NULL, 0);
    rig_flush(stream);
    GIVES(rig_fired(self, stream), event.sequence - 1);
    stepped_clock_step(&self->stepped, MS - 1);
    GIVES(rig_fired(self, stream), event.sequence - 1);
    GIVES(rig_calls("cuEventQuery"), queries);
    stepped_clock_step(&self->stepped, 1);
    GIVES(rig_fired(self, stream), event.sequence - 1);
    GIVES(rig_calls("cuEventQuery"), queries + 1);
    emu_release();
    rig_await(self, event);
    rig_free_pinned(host);
    rig_free_on_gpu(gpu);
}

static void fill_rows(char *memory, size_t size_bytes, unsigned seed)
{
    for (size_t i = 0; i < size_bytes; i++)
        memory[i] = (char)(i * 31 + seed);
}

static void check_rows(const fry_copy *copy)
{
    for (size_t row = 0; row < copy->row_count; row++)
        OK(memcmp((const char *)copy->dst + row * copy->dst_pitch_bytes,
                  (const char *)copy->src + row * copy->src_pitch_bytes,
                  copy->size_bytes / copy->row_count));
}

static void test_rows(rig *self)
{
    fry_device *device = rig_device(self, "cuda:0", 0);
    fry_stream *stream = from_host(device);
    char *host = rig_pinned(256 * KIB, 0), *gpu = rig_on_gpu(0, 256 * KIB, 0);
    fill_rows(host, 256 * KIB, 5);
    fry_copy copy = {.dst = gpu,
                     .src = host,
                     .size_bytes = (size_t)100 * 300,
                     .row_count = 100,
                     .dst_pitch_bytes = 512,
                     .src_pitch_bytes = 301};
    fry_event event;
    uint64_t rows = rig_calls("cuMemcpy2DAsync");
    OK(rig_try_copy(self, stream, &copy, NULL, 0, &event));
    rig_flush(stream);
    rig_await(self, event);
    GIVES(rig_calls("cuMemcpy2DAsync"), rows + 1);
    check_rows(&copy);
    CHECK(rig_is_all(gpu + 300, 0, 212));

    /* The driver refuses few rows together: they go one by one. */
    copy = (fry_copy){.dst = gpu + 100 * KIB,
                      .src = host + 100 * KIB,
                      .size_bytes = (size_t)64 * 10,
                      .row_count = 64,
                      .dst_pitch_bytes = 20,
                      .src_pitch_bytes = 11};
    uint64_t singles = rig_calls("cuMemcpyAsync");
    OK(emu_fail_call("cuMemcpy2DAsync", 1, CUDA_ERROR_INVALID_VALUE));
    OK(rig_try_copy(self, stream, &copy, NULL, 0, &event));
    rig_flush(stream);
    rig_await(self, event);
    GIVES(rig_calls("cuMemcpyAsync"), singles + 64);
    check_rows(&copy);

    /* Many are refused, and nothing stands in the stream. */
    copy.row_count = 65;
    copy.size_bytes = (size_t)65 * 10;
    OK(emu_fail_call("cuMemcpy2DAsync", 1, CUDA_ERROR_INVALID_VALUE));
    GIVES(rig_try_copy(self, stream, &copy, NULL, 0, &event), FERRY_E_DEVICE);
    GIVES(self->fault.native_code, CUDA_ERROR_INVALID_VALUE);
    GIVES(rig_fired(self, stream), stream->issued);

    /* One row fails: it is struck, since others stand in the stream. */
    copy.row_count = 10;
    copy.size_bytes = (size_t)10 * 10;
    OK(emu_fail_call("cuMemcpy2DAsync", 1, CUDA_ERROR_INVALID_VALUE));
    OK(emu_fail_call("cuMemcpyAsync", 5, CUDA_ERROR_INVALID_VALUE));
    OK(rig_try_copy(self, stream, &copy, NULL, 0, &event));
    rig_flush(stream);
    rig_await(self, event);
    GIVES(stream->struck, 1);
    GIVES(rig_outcome(self, event), FERRY_E_DEVICE);
    CHECK(strstr(self->fault.message, "CUDA_ERROR_INVALID_VALUE") != NULL);

    /* Above the greatest pitch they are not even tried together; these are one row far apart. */
    rows = rig_calls("cuMemcpy2DAsync");
    singles = rig_calls("cuMemcpyAsync");
    fry_cuda_device_of(device)->pitch_max_bytes = 512;
    copy = (fry_copy){.dst = gpu,
                      .src = host,
                      .size_bytes = (size_t)10 * 300,
                      .row_count = 10,
                      .dst_pitch_bytes = 513,
                      .src_pitch_bytes = 301};
    OK(rig_try_copy(self, stream, &copy, NULL, 0, &event));
    rig_flush(stream);
    rig_await(self, event);
    GIVES(rig_calls("cuMemcpy2DAsync"), rows);
    GIVES(rig_calls("cuMemcpyAsync"), singles + 10);
    check_rows(&copy);
    rig_free_pinned(host);
    rig_free_on_gpu(gpu);
}

/*
 * A batch takes few entries of the driver's queue: so many small copies stand in a stream at once.
 * Where the driver refuses batches each of them is one.
 */
static void test_depth(rig *self, bool has_batches)
{
    fry_device *device = rig_device(self, "cuda:0", 0);
    fry_stream *stream = rig_main(device, FRY_CUDA_FROM_HOST);
    char *host = rig_pinned(16, 4), *gpu = rig_on_gpu(0, FRY_CUDA_MAIN_DEPTH, 0);
    GIVES(fry_stream_depth(stream), FRY_CUDA_MAIN_DEPTH);
    if (!has_batches)
        OK(emu_fail_call("cuMemcpyBatchAsync", 0, CUDA_ERROR_NOT_SUPPORTED));
    emu_hold();
    size_t count = 0;
    while (count < FRY_CUDA_MAIN_DEPTH && !stream->is_full)
        (void)rig_copy(self, stream, gpu + count++, host, 1, NULL, 0);
    rig_flush(stream);
    CHECK(has_batches ? count == FRY_CUDA_MAIN_DEPTH : count < FRY_CUDA_QUEUE_ENTRIES);
    CHECK(has_batches == !stream->is_full);
    emu_counters counters;
    emu_get_counters(&counters);
    GIVES(counters.blocked, 0);
    emu_release();
    rig_await(self, (fry_event){stream, stream->issued});
    CHECK(!stream->is_full && rig_is_all(gpu, 4, count));
    OK(emu_fail_call("cuMemcpyBatchAsync", 0, CUDA_SUCCESS));
    rig_free_pinned(host);
    rig_free_on_gpu(gpu);
}

/* However it is used, a stream is full before the driver's queue is: no call ever waits. */
static void test_room(rig *self, bool with_waits, bool with_rows)
{
    fry_device *device = rig_device(self, "cuda:0", 0);
    char *host = rig_pinned(1024 * KIB, 1), *gpu = rig_on_gpu(0, 1024 * KIB, 0);
    fry_stream *stream = rig_main(device, FRY_CUDA_TO_HOST);
    fry_event waits[8];
    emu_hold();
    size_t count = 0, marks = 0;
    while (!stream->is_full && count < FRY_STREAM_DEPTH) {
        for (size_t i = 0; with_waits && i < 8; i++) {
            fry_stream *parked = rig_parked(device, i);
            if (parked->is_full || parked->issued == FRY_STREAM_DEPTH)
                break;
            waits[i] = rig_copy(self, parked, gpu + (i * 256 + count) * 64, host, 64, NULL, 0);
            rig_flush(parked);
        }
        fry_copy copy = {.dst = host + 512 * KIB + count * 640,
                         .src = gpu + 512 * KIB + count * 640,
                         .size_bytes = 640,
                         .row_count = with_rows ? 64 : 1,
                         .dst_pitch_bytes = 10,
                         .src_pitch_bytes = 10};
        fry_event event;
        if (with_rows)
            OK(emu_fail_call("cuMemcpy2DAsync", 1, CUDA_ERROR_INVALID_VALUE));
        OK(rig_try_copy(self, stream, &copy, waits, with_waits ? 8 : 0, &event));
        rig_flush(stream);
        count++, marks++;
    }
    CHECK(count > (with_waits || with_rows ? 5 : 100) && count < FRY_STREAM_DEPTH);
    emu_counters counters;
    emu_get_counters(&counters);
    GIVES(counters.blocked, 0);
    emu_release();
    rig_await(self, (fry_event){stream, stream->issued});
    CHECK(!stream->is_full);
    for (size_t i = 0; i < 8; i++)
        rig_await(self, (fry_event){rig_parked(device, i), rig_parked(device, i)->issued});
    GIVES(fry_cuda_stream_of(stream)->entries, 0);
    rig_free_pinned(host);
    rig_free_on_gpu(gpu);
}

static void test_names(rig *self)
{
    const char *const bad[] = {"cuda:",      "cuda",     "cuda:x",    "cuda:00",
                               "cuda:0/",    "cuda:0/0", "cuda:0/16", "cuda:0/01",
                               "cuda:0/1/2", "cuda:-1",  "cuda: 0",   "host:0"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ferry_status status;
        fry_device_request request = {.name = bad[i]};
        CHECK(rig_try_device(self, &request, &status) == NULL);
        GIVES(status, FERRY_E_INVALID);
        CHECK(self->fault.message[0] != '\0');
    }
    ferry_status status;
    fry_device_request request = {.name = "cuda:2"};
    CHECK(rig_try_device(self, &request, &status) == NULL);
    GIVES(status, FERRY_E_NOT_FOUND);
    CHECK(strstr(self->fault.message, "there is no GPU 2, the driver counts 2") != NULL);
    request = (fry_device_request){.name = "cuda:0", .parked_count = 65};
    CHECK(rig_try_device(self, &request, &status) == NULL);
    GIVES(status, FERRY_E_INVALID);

    /* Another GPU's context, one that is none, and one that will do. */
    CUcontext contexts[2];
    for (int i = 0; i < 2; i++)
        OK(cuDevicePrimaryCtxRetain(&contexts[i], i));
    request = (fry_device_request){.name = "cuda:0", .native_context = contexts[1]};
    CHECK(rig_try_device(self, &request, &status) == NULL);
    GIVES(status, FERRY_E_INVALID);
    CHECK(strcmp(self->fault.message, "the native context is of another GPU") == 0);
    request.name = "cuda:1";
    fry_device *borrowed = rig_try_device(self, &request, &status);
    CHECK(borrowed != NULL);
    CHECK(fry_cuda_device_of(borrowed)->context == contexts[1]);

    /* A logical device is another with the same context. */
    fry_device *plain = rig_device(self, "cuda:0", 0), *logical = rig_device(self, "cuda:0/15", 0);
    CHECK(strcmp(logical->name, "cuda:0/15") == 0);
    CHECK(fry_cuda_device_of(plain)->context == fry_cuda_device_of(logical)->context);
    CHECK(from_host(plain) != from_host(logical));
    CHECK(fry_cuda_stream_of(from_host(plain))->native !=
          fry_cuda_stream_of(from_host(logical))->native);
    int priority;
    OK(cuStreamGetPriority(fry_cuda_stream_of(from_host(plain))->native, &priority));
    GIVES(priority, fry_cuda_device_of(plain)->highest_priority);
    OK(cuStreamGetPriority(fry_cuda_stream_of(rig_parked(plain, 0))->native, &priority));
    GIVES(priority, fry_cuda_device_of(plain)->highest_priority + 1);
    fry_device_facts facts = {0};
    plain->ops->describe(plain, &facts);
    GIVES(facts.stream_count >= 11, 1);
    CHECK((facts.capabilities & (FERRY_CAN_WAIT_ON_DEVICE | FERRY_CAN_WRITE_WORDS |
                                 FERRY_CAN_BATCH_COPIES | FERRY_CAN_RECORD_EVENTS)) ==
          (FERRY_CAN_WAIT_ON_DEVICE | FERRY_CAN_WRITE_WORDS | FERRY_CAN_BATCH_COPIES |
           FERRY_CAN_RECORD_EVENTS));
    CHECK(strcmp(facts.driver, "CUDA 13.0") == 0);
    CHECK(facts.highest_priority < facts.lowest_priority);
    for (int i = 0; i < 2; i++)
        OK(cuDevicePrimaryCtxRelease(i));
}

int main(void)
{
    rig self;
    RIG_RUN(&self, test_order(&self, FERRY_COMPLETION_WORDS));
    RIG_RUN(&self, test_order(&self, FERRY_COMPLETION_EVENTS));
    RIG_RUN(&self, test_batches(&self));
    RIG_RUN(&self, test_chain(&self));
    RIG_RUN(&self, test_wrap(&self));
    RIG_RUN(&self, test_questions(&self));
    RIG_RUN(&self, test_rows(&self));
    RIG_RUN(&self, test_depth(&self, true));
    RIG_RUN(&self, test_depth(&self, false));
    RIG_RUN(&self, test_room(&self, false, false));
    RIG_RUN(&self, test_room(&self, true, false));
    RIG_RUN(&self, test_room(&self, false, true));
    RIG_RUN(&self, test_room(&self, true, true));
    RIG_RUN(&self, test_names(&self));
    return EXIT_SUCCESS;
}
