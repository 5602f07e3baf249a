/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of pageable memory, and between GPUs that don't reach each other. */
#include "tests/module/rig.h"

#include "gpu/cuda/staged.h"
#include "tests/support/paint.h"

#include <dirent.h>
#include <unistd.h>

#define KIB ((size_t)1024)
#define MIB (KIB * KIB)

static fry_stream *staged_at(fry_device *device, fry_cuda_way way)
{
    return &fry_cuda_device_of(device)->staged[way].stream;
}

static CUstream native_of(fry_stream *stream)
{
    return fry_cuda_stream_is_native(stream) ? fry_cuda_stream_of(stream)->native
                                             : fry_cuda_staged_of(stream)->track->native;
}

static char *pageable(size_t size_bytes, int fill)
{
    char *memory = malloc(size_bytes);
    CHECK(memory != NULL);
    memset(memory, fill, size_bytes);
    return memory;
}

/* Until it has, which is not long. */
#define UNTIL(condition)                                                                           \
    while (!(condition))                                                                           \
    (void)usleep(50)

static fry_event issue(rig *self, fry_stream *stream, void *dst, const void *src, size_t size_bytes)
{
    fry_event event = rig_copy(self, stream, dst, src, size_bytes, NULL, 0);
    rig_flush(stream);
    return event;
}

static fry_event issue_after(rig *self, fry_stream *stream, void *dst, const void *src,
                             size_t size_bytes, const fry_event *waits, size_t wait_count)
{
    fry_event event = rig_copy(self, stream, dst, src, size_bytes, waits, wait_count);
    rig_flush(stream);
    return event;
}

/* Every size and offset there and back, and nothing beside. */
static void test_bytes(rig *self)
{
    static const size_t sizes[] = {
        1, 3, 255, 256, 257, 4095, 64 * KIB, 256 * KIB + 1, MIB - 5, 5 * MIB + 77, 40 * MIB};
    fry_device *device = rig_device(self, "cuda:0", 0);
    fry_stream *in = staged_at(device, FRY_CUDA_WAY_IN), *out = staged_at(device, FRY_CUDA_WAY_OUT);
    CHECK(device->ops->copy_stream(device, device, false) != in);
    size_t most = 40 * MIB + 64;
    char *source = pageable(most, 0), *back = pageable(most, 0), *gpu = rig_on_gpu(0, most, 0);
    paint(source, most, 1);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t size = sizes[i], at = i % 3 * 13, gpu_at = i % 5 * 3;
        memset(gpu, 0x55, size + 64);
        memset(back, 0x66, size + 64);
        fry_event sent = issue(self, in, gpu + gpu_at, source + at, size);
        rig_await(self, sent);
        CHECK(memcmp(gpu + gpu_at, source + at, size) == 0);
        CHECK(rig_is_all(gpu, 0x55, gpu_at) && rig_is_all(gpu + gpu_at + size, 0x55, 64 - gpu_at));
        rig_await(self, issue(self, out, back + at, gpu + gpu_at, size));
        CHECK(memcmp(back + at, source + at, size) == 0);
        CHECK(rig_is_all(back, 0x66, at) && rig_is_all(back + at + size, 0x66, 64 - at));
    }
    GIVES(in->struck, 0);
    GIVES(out->struck, 0);
    free(source);
    free(back);
    rig_free_on_gpu(gpu);
}

static void copy_rows(rig *self, fry_stream *stream, const fry_copy *copy)
{
    fry_event event;
    OK(rig_try_copy(self, stream, copy, NULL, 0, &event));
    rig_flush(stream);
    rig_await(self, event);
}

static void check_rows(const fry_copy *copy)
{
    size_t row_bytes = fry_copy_row_bytes(copy);
    for (size_t row = 0; row < copy->row_count; row++)
        CHECK(memcmp((char *)copy->dst + row * copy->dst_pitch_bytes,
                     (const char *)copy->src + row * copy->src_pitch_bytes, row_bytes) == 0);
}

static void test_rows(rig *self)
{
    static const struct {
        size_t row_bytes, row_count, near_pitch, far_pitch;
    } cases[] = {
        {1, 1000, 3, 2},
        {100, 37, 100, 128},
        {4096, 300, 5000, 4096},
        {3 * MIB + 1, 3, 3 * MIB + 9, 3 * MIB + 100},
        {700 * KIB, 9, 701 * KIB, 700 * KIB},
        {4, 65536, 12, 16},
    };
    fry_device *device = rig_device(self, "cuda:0", 0);
    size_t most = 16 * MIB;
    char *source = pageable(most, 0), *back = pageable(most, 0), *gpu = rig_on_gpu(0, most, 0);
    paint(source, most, 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memset(gpu, 0x11, most);
        memset(back, 0x22, most);
        fry_copy in = {.dst = gpu,
                       .src = source,
                       .size_bytes = cases[i].row_bytes * cases[i].row_count,
                       .row_count = cases[i].row_count,
                       .dst_pitch_bytes = cases[i].far_pitch,
                       .src_pitch_bytes = cases[i].near_pitch};
        fry_copy out = {.dst = back,
                        .src = gpu,
                        .size_bytes = in.size_bytes,
                        .row_count = in.row_count,
                        .dst_pitch_bytes = cases[i].near_pitch,
                        .src_pitch_bytes = cases[i].far_pitch};
        copy_rows(self, staged_at(device, FRY_CUDA_WAY_IN), &in);
        check_rows(&in);
        copy_rows(self, staged_at(device, FRY_CUDA_WAY_OUT), &out);
        check_rows(&out);
        if (cases[i].near_pitch > cases[i].row_bytes) /* the gap is left alone */
            CHECK(back[cases[i].row_bytes] == 0x22);
    }
    free(source);
    free(back);
    rig_free_on_gpu(gpu);
}

/* While the device holds still, pieces are made until the ring is full, and no more. */
static void test_pipeline(rig *self)
{
    fry_device_request request = {.name = "cuda:0", .staging_bytes = 8 * MIB};
    fry_device *device = rig_try_device(self, &request, NULL);
    fry_cuda_staged *in = fry_cuda_staged_of(staged_at(device, FRY_CUDA_WAY_IN));
    char *source = pageable(40 * MIB, 4), *gpu = rig_on_gpu(0, 40 * MIB, 0);
    emu_counters before, now;
    emu_get_counters(&before);
    emu_hold();
    uint64_t copies = rig_calls("cuMemcpyAsync");
    fry_event event = issue(self, &in->stream, gpu, source, 40 * MIB);
    UNTIL(rig_calls("cuMemcpyAsync") >= copies + 2);
    GIVES(rig_fired(self, event.stream), 0);
    emu_release();
    rig_await(self, event);
    CHECK(rig_is_all(gpu, 4, 40 * MIB));

    /* All ways together keep within what they were given. */
    char *back = pageable(40 * MIB, 0);
    fry_event out = issue(self, staged_at(device, FRY_CUDA_WAY_OUT), back, gpu, 40 * MIB);
    rig_await(self, out);
    emu_get_counters(&now);
    CHECK(now.live_pinned_bytes - before.live_pinned_bytes <= 8 * MIB);
    CHECK(now.live_pinned_bytes - before.live_pinned_bytes >= 5 * MIB);

    /* Small ones too are many on their way at once, and fire in order. */
    emu_hold();
    copies = rig_calls("cuMemcpyAsync");
    for (size_t i = 0; i < 200; i++)
        event = rig_copy(self, &in->stream, gpu + i * KIB, source, KIB, NULL, 0);
    rig_flush(&in->stream);
    UNTIL(rig_calls("cuMemcpyAsync") >= copies + FRY_CUDA_PIECES);
    emu_release();
    rig_await(self, event);
    GIVES(rig_calls("cuMemcpyAsync"), copies + 200);
    free(source);
    free(back);
    rig_free_on_gpu(gpu);
}

/* Stops where it is, keeps its turn, and what is left of its bytes is not touched. */
static void test_cancel(rig *self)
{
    fry_device *device = rig_device(self, "cuda:0", 0);
    char *host = pageable(40 * MIB, 5), *gpu = rig_on_gpu(0, 40 * MIB, 6);
    for (int way = FRY_CUDA_WAY_IN; way <= FRY_CUDA_WAY_OUT; way++) {
        fry_stream *stream = staged_at(device, (fry_cuda_way)way);
        char *dst = way == FRY_CUDA_WAY_IN ? gpu : host, *src = dst == gpu ? host : gpu;
        char *last = dst + 40 * MIB - 1;
        emu_hold();
        *last = 77;
        *dst = 78;
        uint64_t copies = rig_calls("cuMemcpyAsync");
        fry_event first = issue(self, stream, dst, src, 40 * MIB);
        fry_event second = issue(self, stream, dst, src, KIB); /* never begins */
        fry_event third = issue(self, stream, dst + MIB, src, KIB);
        UNTIL(rig_calls("cuMemcpyAsync") >= copies + 2);
        device->ops->cancel(stream, second.sequence);
        device->ops->cancel(stream, first.sequence);
        GIVES(rig_fired(self, stream), 0);
        emu_release();
        rig_await(self, third);
        CHECK(*last == 77);
        if (way == FRY_CUDA_WAY_OUT) /* what had been fetched is dropped */
            CHECK(*dst == 78);
        CHECK(dst[MIB] == src[0]);
        GIVES(rig_outcome(self, first), FERRY_OK);
        device->ops->cancel(stream, third.sequence); /* too late: nothing */
        rig_await(self, issue(self, stream, dst, src, 40 * MIB));
        CHECK(*last == src[0]);
    }
    free(host);
    rig_free_on_gpu(gpu);
}

/* The device waits for what still reads the destination; the host fills pieces meanwhile. */
static void test_waits_on_device(rig *self)
{
    fry_device *device = rig_device(self, "cuda:0", 0);
    fry_stream *in = staged_at(device, FRY_CUDA_WAY_IN), *out = staged_at(device, FRY_CUDA_WAY_OUT);
    fry_stream *within = rig_main(device, FRY_CUDA_ON_DEVICE);
    CHECK(device->ops->can_wait(in, within) && !device->ops->can_wait(within, in));
    CHECK(device->ops->can_wait(in, out) && !device->ops->can_wait(in, rig_parked(device, 0)));
    char *source = pageable(MIB, 1), *back = pageable(MIB, 0);
    char *gpu = rig_on_gpu(0, MIB, 2), *kept = rig_on_gpu(0, MIB, 0);
    rig_await(self, issue(self, in, kept, source, MIB)); /* its stream is there */

    emu_hold_stream(native_of(within));
    uint64_t waits = rig_calls("cuStreamWaitEvent");
    fry_event read = rig_copy(self, within, kept, gpu, MIB, NULL, 0);
    fry_event over = issue_after(self, in, gpu, source, MIB, &read, 1);
    UNTIL(fry_load_relaxed(&fry_cuda_staged_of(in)->stream.issued) == over.sequence &&
          rig_calls("cuStreamWaitEvent") == waits + 1);
    memset(back, 9, MIB);
    /* Others go on beside it. */
    char *other = rig_on_gpu(0, MIB, 3);
    rig_await(self, issue(self, out, back, other, MIB));
    CHECK(rig_is_all(back, 3, MIB));
    GIVES(rig_fired(self, in), over.sequence - 1);
    /* A cancelled one stays behind it, too. */
    fry_event skipped = issue_after(self, out, back, other, MIB, &read, 1);
    device->ops->cancel(out, skipped.sequence);
    fry_event next = issue(self, out, back, other, 1);
    UNTIL(rig_calls("cuStreamWaitEvent") == waits + 2);
    GIVES(rig_fired(self, out), skipped.sequence - 1);
    emu_release_stream(native_of(within));
    rig_await(self, over);
    rig_await(self, next);
    CHECK(rig_is_all(kept, 2, MIB) && rig_is_all(gpu, 1, MIB));
    free(source);
    free(back);
    rig_free_on_gpu(gpu);
    rig_free_on_gpu(kept);
    rig_free_on_gpu(other);
}

/* A device writes the source, which was pageable when ferry first saw it: the host waits. */
static void test_waits_for_source(rig *self)
{
    fry_device *device = rig_device(self, "cuda:0", 0);
    fry_stream *in = staged_at(device, FRY_CUDA_WAY_IN), *to = rig_main(device, FRY_CUDA_TO_HOST);
    char *source = rig_pinned(MIB, 1), *gpu = rig_on_gpu(0, MIB, 2), *dst = rig_on_gpu(0, MIB, 0);
    emu_hold_stream(native_of(to));
    fry_event written = rig_copy(self, to, source, gpu, MIB, NULL, 0);
    fry_event event = issue_after(self, in, dst, source, MIB, &written, 1);
    for (int i = 0; i < 200; i++) {
        GIVES(rig_fired(self, in), 0);
        (void)usleep(50);
    }
    emu_release_stream(native_of(to));
    rig_await(self, event);
    CHECK(rig_is_all(dst, 2, MIB));
    rig_free_pinned(source);
    rig_free_on_gpu(gpu);
    rig_free_on_gpu(dst);
}

/* Of another GPU's streams the thread waits itself; of staged streams always. */
static void test_waits_on_host(rig *self, uint32_t completion)
{
    fry_device *first = rig_device(self, "cuda:0", completion);
    fry_device *second = rig_device(self, "cuda:1", completion);
    fry_stream *within = rig_main(second, FRY_CUDA_ON_DEVICE);
    fry_stream *in = staged_at(first, FRY_CUDA_WAY_IN), *out = staged_at(first, FRY_CUDA_WAY_OUT);
    char *host = pageable(4 * MIB, 1), *gpu = rig_on_gpu(0, 4 * MIB, 2);
    char *a = rig_on_gpu(1, KIB, 0), *b = rig_on_gpu(1, KIB, 0);
    emu_hold_stream(native_of(within));
    fry_event before = rig_copy(self, within, a, b, KIB, NULL, 0);
    rig_flush(within);
    /* From the GPU to the host, and what the host then has back to another place. */
    fry_event down = issue_after(self, out, host, gpu, 2 * MIB, &before, 1);
    fry_event up = issue_after(self, in, gpu + 2 * MIB, host, 2 * MIB, &down, 1);
    for (int i = 0; i < 200; i++) {
        GIVES(rig_fired(self, out), 0);
        GIVES(rig_fired(self, in), 0);
        (void)usleep(50);
    }
    CHECK(rig_is_all(host, 1, 4 * MIB));
    emu_release_stream(native_of(within));
    rig_await(self, before);
    rig_await(self, up);
    CHECK(rig_is_all(gpu, 2, 4 * MIB) && rig_is_all(host, 2, 2 * MIB));
    free(host);
    rig_free_on_gpu(gpu);
    rig_free_on_gpu(a);
    rig_free_on_gpu(b);
}

/* Cancelled when pieces are filled but the thread itself still waits: behind all of it even so. */
static void test_cancel_of_filled(rig *self)
{
    fry_device *first = rig_device(self, "cuda:0", 0), *second = rig_device(self, "cuda:1", 0);
    fry_stream *in = staged_at(first, FRY_CUDA_WAY_IN);
    fry_stream *here = rig_main(first, FRY_CUDA_ON_DEVICE);
    fry_stream *there = rig_main(second, FRY_CUDA_ON_DEVICE);
    char *host = pageable(KIB, 1), *gpu = rig_on_gpu(0, KIB, 2);
    char *a = rig_on_gpu(0, KIB, 0), *b = rig_on_gpu(1, KIB, 0), *c = rig_on_gpu(1, KIB, 3);
    rig_await(self, issue(self, in, a, host, KIB));
    emu_hold_stream(native_of(here));
    emu_hold_stream(native_of(there));
    uint64_t queries = rig_calls("cuEventQuery");
    fry_event before[] = {rig_copy(self, here, a, gpu, KIB, NULL, 0),
                          rig_copy(self, there, b, c, KIB, NULL, 0)};
    fry_event event = issue_after(self, in, gpu, host, KIB, before, 2);
    fry_event next = issue(self, in, gpu, host, 1);
    UNTIL(rig_calls("cuEventQuery") > queries + 3);
    first->ops->cancel(in, event.sequence);
    emu_release_stream(native_of(there));
    rig_await(self, before[1]);
    for (int i = 0; i < 200; i++) {
        GIVES(rig_fired(self, in), event.sequence - 1);
        (void)usleep(50);
    }
    emu_release_stream(native_of(here));
    rig_await(self, next);
    CHECK(rig_is_all(a, 2, KIB) && gpu[0] == 1 && rig_is_all(gpu + 1, 2, KIB - 1));
    free(host);
    rig_free_on_gpu(gpu);
    rig_free_on_gpu(a);
    rig_free_on_gpu(b);
    rig_free_on_gpu(c);
}

static void test_peers(rig *self)
{
    (void)emu_fail_call("cuDeviceCanAccessPeer", 0, CUDA_ERROR_NOT_SUPPORTED);
    fry_device *first = rig_device(self, "cuda:0", 0), *second = rig_device(self, "cuda:1", 0);
    (void)emu_fail_call("cuDeviceCanAccessPeer", 0, CUDA_SUCCESS);
    fry_stream *across = first->ops->copy_stream(second, first, false);
    CHECK(across == staged_at(second, FRY_CUDA_WAY_PEER));
    char *from = rig_on_gpu(0, 20 * MIB, 0), *to = rig_on_gpu(1, 20 * MIB, 0);
    paint(from, 20 * MIB, 3);
    fry_event event = {0};
    for (size_t size = 1; size < 20 * MIB; size = size * 7 + 3) {
        event = issue(self, across, to + 5, from + 3, size);
        fry_event small = issue(self, across, to + 19 * MIB, from, 100);
        rig_await(self, event);
        CHECK(memcmp(to + 5, from + 3, size) == 0);
        rig_await(self, small);
    }
    fry_copy rows = {.dst = to,
                     .src = from,
                     .size_bytes = 1000 * 1000,
                     .row_count = 1000,
                     .dst_pitch_bytes = 1001,
                     .src_pitch_bytes = 4096};
    copy_rows(self, across, &rows);
    check_rows(&rows);
    /* The other way, with both in flight and one cancelled. */
    emu_hold();
    fry_stream *back = first->ops->copy_stream(first, second, false);
    fry_event there = issue(self, across, to, from, 8 * MIB);
    fry_event here = issue(self, back, from + 10 * MIB, to + 10 * MIB, 8 * MIB);
    first->ops->cancel(across, there.sequence);
    emu_release();
    rig_await(self, there);
    rig_await(self, here);
    CHECK(memcmp(from + 10 * MIB, to + 10 * MIB, 8 * MIB) == 0);
    rig_free_on_gpu(from);
    rig_free_on_gpu(to);
}

/*
 * Two contexts of one GPU: neither has access to the other's memory, unless the driver says that a
 * GPU is its own peer. So copies go through the host, each half in its own context.
 */
static void test_contexts(rig *self)
{
    CUcontext left;
    CUdeviceptr own_memory;
    ferry_status status;
    OK(cuCtxCreate(&self->own, NULL, 0, 0));
    OK(cuMemAlloc(&own_memory, 3 * MIB));
    OK(cuCtxPopCurrent(&left));
    char *to = (char *)(uintptr_t)own_memory;
    char *from = rig_on_gpu(0, 3 * MIB, 0);
    fry_device *first = rig_device(self, "cuda:0", 0), *peer = rig_device(self, "cuda:1", 0);
    fry_device_request request = {.name = "cuda:0/1", .native_context = self->own};
    fry_device *second = rig_try_device(self, &request, &status);
    CHECK(second != NULL && fry_cuda_device_of(second)->context == self->own);
    fry_stream *across = first->ops->copy_stream(second, first, false);
    CHECK(across == staged_at(second, FRY_CUDA_WAY_PEER));
    paint(from, 3 * MIB, 3);
    rig_await(self, issue(self, across, to, from, 3 * MIB));
    CHECK(memcmp(to, from, 3 * MIB) == 0);
    paint(to, 3 * MIB, 5);
    fry_stream *back = first->ops->copy_stream(first, second, false);
    CHECK(back == staged_at(first, FRY_CUDA_WAY_PEER));
    rig_await(self, issue(self, back, from, to, 3 * MIB));
    CHECK(memcmp(to, from, 3 * MIB) == 0);

    /* Each of them and the other GPU have met; with one context there is nothing to meet for. */
    CHECK(first->ops->copy_stream(peer, first, false) == rig_main(first, FRY_CUDA_ON_DEVICE));
    CHECK(first->ops->copy_stream(peer, second, false) == rig_main(second, FRY_CUDA_ON_DEVICE));
    fry_device *same = rig_device(self, "cuda:0/2", 0);
    CHECK(first->ops->copy_stream(same, first, false) == rig_main(first, FRY_CUDA_ON_DEVICE));
    OK(cuCtxPushCurrent(self->own));
    OK(cuMemFree(own_memory));
    OK(cuCtxPopCurrent(&left));
    rig_free_on_gpu(from);
}

/* Reads a number of the thread of that name; -1: there is none. */
static long thread_number(const char *thread, const char *key)
{
    long number = -1;
    char path[300], line[200];
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    while ((entry = readdir(tasks)) != NULL) {
        (void)snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        FILE *file = fopen(path, "r");
        bool is_it = false;
        while (file != NULL && fgets(line, sizeof line, file) != NULL) {
            line[strcspn(line, "\n")] = '\0';
            if (strncmp(line, "Name:\t", 6) == 0)
                is_it = strcmp(line + 6, thread) == 0;
            size_t length = strlen(key);
            if (is_it && strncmp(line, key, length) == 0)
                number = strtol(line + length + 1, NULL, 10);
        }
        if (file != NULL)
            (void)fclose(file);
    }
    (void)closedir(tasks);
    return number;
}

/* There is no thread until something is copied, and then it sleeps when nothing is. */
static void test_sleep(rig *self)
{
    static const char key[] = "voluntary_ctxt_switches:";
    fry_device *device = rig_device(self, "cuda:0", 0);
    fry_stream *in = staged_at(device, FRY_CUDA_WAY_IN);
    char *source = pageable(KIB, 1), *gpu = rig_on_gpu(0, KIB, 0);
    GIVES(thread_number("ferry-cuda", key), -1);
    uint32_t notified = fry_load_relaxed(&self->notified);
    fry_event event = issue(self, in, gpu, source, KIB);
    rig_await(self, event);
    UNTIL(fry_load_relaxed(&self->notified) != notified);
    long before = -1, now;
    while ((now = thread_number("ferry-cuda", key)) != before) { /* until it has lain down */
        before = now;
        (void)usleep(20000);
    }
    (void)usleep(100000);
    GIVES(thread_number("ferry-cuda", key), before);
    free(source);
    rig_free_on_gpu(gpu);
}

static void test_begun(rig *self)
{
    fry_device *device = rig_device(self, "cuda:0", 0);
    fry_stream *in = staged_at(device, FRY_CUDA_WAY_IN);
    char *source = pageable(KIB, 1), *gpu = rig_on_gpu(0, KIB, 0);
    fry_event event = issue(self, in, gpu, source, KIB);
    rig_await(self, event);
    GIVES(device->ops->begun_ns(in, event.sequence), 0);
    fry_store_relaxed(&self->tracing, 1);
    event = issue(self, in, gpu, source, KIB);
    rig_await(self, event);
    CHECK(device->ops->begun_ns(in, event.sequence) != 0);
    free(source);
    rig_free_on_gpu(gpu);
}

static void run(void (*test)(rig *))
{
    rig self;
    rig_open(&self);
    test(&self);
    rig_close(&self);
}

static void wait_by_words(rig *self)
{
    test_waits_on_host(self, FERRY_COMPLETION_WORDS);
}

static void wait_by_events(rig *self)
{
    test_waits_on_host(self, FERRY_COMPLETION_EVENTS);
}

int main(void)
{
    run(test_bytes);
    run(test_rows);
    run(test_pipeline);
    run(test_cancel);
    run(test_waits_on_device);
    run(test_waits_for_source);
    run(wait_by_words);
    run(wait_by_events);
    run(test_cancel_of_filled);
    run(test_peers);
    run(test_contexts);
    run(test_sleep);
    run(test_begun);
    return EXIT_SUCCESS;
}
