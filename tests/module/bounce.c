/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small copies out of pageable memory: read as they are issued, through a ring of pinned memory
 * that comes back as they fire, with three calls and no thread.
 */
#include "tests/module/rig.h"

#define KIB ((size_t)1024)
#define SMALL ((size_t)FRY_CUDA_BOUNCED_BYTES)
#define AREA ((size_t)FRY_CUDA_BOUNCE_BYTES * 3)

static fry_stream *small_stream(fry_device *device)
{
    fry_stream *stream = device->ops->small_stream(device, SMALL);
    CHECK(stream == rig_main(device, FRY_CUDA_FROM_HOST));
    CHECK(device->ops->small_stream(device, 1) == stream);
    CHECK(device->ops->small_stream(device, SMALL + 1) == NULL);
    CHECK(device->ops->small_stream(device, SIZE_MAX) == NULL);
    return stream;
}

typedef struct place {
    rig rig;
    fry_device *device;
    fry_stream *stream;
    char *source, *gpu;
} place;

static void place_open(place *self)
{
    rig_open(&self->rig);
    self->device = rig_device(&self->rig, "cuda:0", FERRY_COMPLETION_WORDS);
    self->stream = small_stream(self->device);
    self->source = malloc(SMALL);
    self->gpu = rig_on_gpu(0, AREA, 0);
    CHECK(self->source != NULL);
    memset(self->source, 1, SMALL);
}

static void place_close(place *self)
{
    rig_free_on_gpu(self->gpu);
    free(self->source);
    rig_close(&self->rig);
}

static fry_copy small_copy(char *dst, const char *src, size_t size_bytes)
{
    return (fry_copy){
        .dst = dst, .src = src, .size_bytes = size_bytes, .row_count = 1, .is_read_now = true};
}

/* Rounds of every size: the source is another's as soon as the call is back. */
static void test_bytes(void)
{
    place self;
    place_open(&self);
    fry_stream *stream = self.stream;
    char *source = self.source, *gpu = self.gpu;
    uint64_t streams = rig_calls("cuStreamCreateWithPriority");
    for (int round = 1; round < 200; round++) {
        size_t at = 0, sizes[64], count = 0;
        fry_event event = {0};
        emu_hold();
        for (; count < 64 && !stream->is_full; count++) {
            size_t size_bytes = (count * 977 + (size_t)round * 131) % SMALL + 1;
            fry_copy copy = small_copy(gpu + at, source, size_bytes);
            memset(source, (int)(round + (int)count) & 0x7f, size_bytes);
            OK(rig_try_copy(&self.rig, stream, &copy, NULL, 0, &event));
            memset(source, 0xee, size_bytes);
            sizes[count] = size_bytes;
            at += size_bytes;
        }
        CHECK(count >= 8);
        rig_flush(stream);
        emu_release();
        rig_await(&self.rig, event);
        CHECK(!stream->is_full);
        at = 0;
        for (size_t i = 0; i < count; i++) {
            CHECK(rig_is_all(gpu + at, (int)(round + (int)i) & 0x7f, sizes[i]));
            at += sizes[i];
        }
    }
    GIVES(stream->struck, 0);
    GIVES(rig_calls("cuStreamCreateWithPriority"), streams); /* the thread's first copy makes one */
    place_close(&self);
}

/* A stream whose ring is full says so, and takes copies again when the first have fired. */
static void test_full(void)
{
    place self;
    place_open(&self);
    fry_stream *stream = self.stream;
    char *source = self.source, *gpu = self.gpu;
    emu_hold();
    fry_copy copy = small_copy(gpu, source, SMALL);
    size_t count = 0;
    fry_event event = {0};
    for (; !stream->is_full; count++) {
        copy.dst = gpu + count * SMALL;
        OK(rig_try_copy(&self.rig, stream, &copy, NULL, 0, &event));
        rig_flush(stream);
        CHECK(count < FRY_CUDA_BOUNCE_BYTES / SMALL);
    }
    CHECK(count >= FRY_CUDA_BOUNCE_BYTES / SMALL - 2);
    GIVES(rig_fired(&self.rig, stream), 0);
    CHECK(stream->is_full);
    emu_release();
    rig_await(&self.rig, event);
    CHECK(!stream->is_full);
    place_close(&self);
}

/* What the driver refuses at once takes nothing of the ring. */
static void test_refused(void)
{
    place self;
    place_open(&self);
    fry_cuda_stream *stream = fry_cuda_stream_of(self.stream);
    fry_store_relaxed(&fry_cuda_device_of(self.device)->has_no_batches, 1); /* none is kept back */
    fry_copy copy = small_copy(self.gpu, self.source, SMALL);
    fry_event event;
    OK(emu_fail_call("cuMemcpyAsync", 0, CUDA_ERROR_OUT_OF_MEMORY));
    for (int i = 0; i < 100; i++) {
        GIVES(rig_try_copy(&self.rig, &stream->stream, &copy, NULL, 0, &event), FERRY_E_DEVICE);
        GIVES(stream->bounce.taken, 0);
    }
    OK(emu_fail_call("cuMemcpyAsync", 0, CUDA_SUCCESS));
    for (int i = 0; i < 100; i++) {
        OK(rig_try_copy(&self.rig, &stream->stream, &copy, NULL, 0, &event));
        rig_flush(&stream->stream);
        rig_await(&self.rig, event);
    }
    GIVES(stream->bounce.taken, 100 * SMALL);
    GIVES(stream->bounce.given, 100 * SMALL);
    place_close(&self);
}

/* Without numbers in pinned memory there is no ring either: all goes through the thread. */
static void test_none(void)
{
    rig self;
    rig_open(&self);
    fry_device *device = rig_device(&self, "cuda:0", FERRY_COMPLETION_EVENTS);
    CHECK(device->ops->small_stream(device, 1) == NULL);
    OK(emu_fail_call("cuStreamWriteValue32", 0, CUDA_ERROR_NOT_SUPPORTED));
    fry_device *other = rig_device(&self, "cuda:1", FERRY_COMPLETION_DEFAULT);
    CHECK(other->ops->small_stream(other, 1) == NULL);
    rig_close(&self);
}

int main(int count, char **arguments)
{
    static const rig_test tests[] = {
        {"bytes", test_bytes},
        {"full", test_full},
        {"refused", test_refused},
        {"none", test_none},
    };
    return rig_run_apart(count, arguments, tests, sizeof tests / sizeof *tests);
}
