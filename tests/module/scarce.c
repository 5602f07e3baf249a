/* SPDX-License-Identifier: Apache-2.0 */
/* What a driver may come short of: events, batches, memory of others, its words' time. */
#include "gpu/cuda/staged.h"
#include "tests/module/rig.h"

#define COPIES 40

/*
 * No more events can be made than were made ahead: marks take over each other's, and what waits for
 * one that lost its own waits for another behind it, never for less. With memory there are more.
 */
static void events_are_scarce(uint32_t completion)
{
    rig self;
    rig_open(&self);
    fry_device *device = rig_device(&self, "cuda:0", completion);
    fry_stream *in = rig_main(device, FRY_CUDA_FROM_HOST);
    uint64_t made = rig_calls("cuEventCreate");
    size_t size_bytes = FRY_CUDA_MARKED_BYTES;
    char *host = rig_pinned(size_bytes, 0), *source = rig_pinned(size_bytes, 7);
    char *gpu = rig_on_gpu(0, (COPIES + 1) * size_bytes, 0);
    emu_hold();
    fry_event events[COPIES];
    for (size_t i = 0; i < COPIES; i++) {
        OK(emu_fail_call("cuEventCreate", 1, CUDA_ERROR_OUT_OF_MEMORY));
        events[i] = rig_copy(&self, in, gpu + i * size_bytes, source, size_bytes, NULL, 0);
    }
    OK(emu_fail_call("cuEventCreate", 1, CUDA_SUCCESS));
    GIVES(rig_calls("cuEventCreate"), made + COPIES - FRY_CUDA_EVENTS_AHEAD);
    char *taken = gpu + FRY_CUDA_EVENTS_AHEAD * size_bytes; /* whose event the next has taken */
    fry_event back = rig_copy(&self, rig_main(device, FRY_CUDA_TO_HOST), host, taken, size_bytes,
                              &events[FRY_CUDA_EVENTS_AHEAD], 1);
    fry_event more = rig_copy(&self, in, gpu + COPIES * size_bytes, source, size_bytes, NULL, 0);
    GIVES(rig_calls("cuEventCreate"), made + COPIES - FRY_CUDA_EVENTS_AHEAD + 1);
    emu_release();
    for (size_t i = 0; i < COPIES; i++) {
        rig_await(&self, events[i]);
        OK(rig_outcome(&self, events[i]));
    }
    rig_await(&self, more);
    rig_await(&self, back);
    CHECK(rig_is_all(host, 7, size_bytes));
    rig_free_pinned(host);
    rig_free_pinned(source);
    rig_free_on_gpu(gpu);
    rig_close(&self);
}

#define PAIRS 10

/* One that refuses all batches is asked no more after some, and the log and the device say so. */
static void batches_are_refused(void)
{
    rig self;
    rig_open(&self);
    fry_device *device = rig_device(&self, "cuda:0", FERRY_COMPLETION_WORDS);
    fry_stream *in = rig_main(device, FRY_CUDA_FROM_HOST);
    uint64_t batches = rig_calls("cuMemcpyBatchAsync");
    char *host = rig_pinned(2, 3), *gpu = rig_on_gpu(0, 2, 0);
    for (uint64_t i = 1; i <= PAIRS; i++) {
        fry_device_facts facts = {0};
        uint64_t singly = rig_calls("cuMemcpyAsync");
        OK(emu_fail_call("cuMemcpyBatchAsync", 1, CUDA_ERROR_NOT_SUPPORTED));
        (void)rig_copy(&self, in, gpu, host, 1, NULL, 0);
        fry_event event = rig_copy(&self, in, gpu + 1, host + 1, 1, NULL, 0);
        rig_flush(in);
        rig_await(&self, event);
        OK(rig_outcome(&self, event));
        GIVES(rig_calls("cuMemcpyBatchAsync"), batches + (i < 8 ? i : 8));
        GIVES(rig_calls("cuMemcpyAsync"), singly + 2);
        CHECK((strstr(self.logged, "one by one from now on") != NULL) == (i >= 8));
        device->ops->describe(device, &facts);
        CHECK(((facts.capabilities & FERRY_CAN_BATCH_COPIES) == 0) == (i >= 8));
    }
    CHECK(rig_is_all(gpu, 3, 2));
    OK(emu_fail_call("cuMemcpyBatchAsync", 1, CUDA_SUCCESS));
    rig_free_pinned(host);
    rig_free_on_gpu(gpu);
    rig_close(&self);
}

/* Words that are there some time after their events, and after the stream is done. */
static void words_are_late(void)
{
    rig self;
    rig_open(&self);
    emu_late_words(300000);
    fry_device *device = rig_device(&self, "cuda:0", FERRY_COMPLETION_WORDS);
    fry_stream *in = rig_main(device, FRY_CUDA_FROM_HOST);
    char *host = rig_pinned(1, 3), *gpu = rig_on_gpu(0, 1, 0);
    for (int i = 0; i < COPIES; i++) {
        fry_event event = rig_copy(&self, in, gpu, host, 1, NULL, 0);
        rig_flush(in);
        rig_await(&self, event);
        OK(rig_outcome(&self, event));
        if (i % 4 == 3) /* fewer than are taken for words that never come, also on a busy machine */
            (void)emu_settle();
    }
    CHECK(strstr(self.logged, "do not arrive") == NULL);
    rig_free_pinned(host);
    rig_free_on_gpu(gpu);
    rig_close(&self);
    emu_late_words(0);
}

/* One that pins no memory but its own. */
static void nothing_is_registered(void)
{
    rig self;
    rig_open(&self);
    emu_counters before, now;
    emu_get_counters(&before);
    OK(emu_fail_call("cuMemHostRegister", 0, CUDA_ERROR_NOT_SUPPORTED));
    fry_device *device = rig_device(&self, "cuda:0", FERRY_COMPLETION_WORDS);
    emu_get_counters(&now);
    GIVES(now.live_registered_ranges, before.live_registered_ranges);
    GIVES(now.live_pinned_ranges, before.live_pinned_ranges + 2); /* words, and a trial's */
    char pageable[100] = {3}, *gpu = rig_on_gpu(0, sizeof pageable, 0);
    fry_stream *in = &fry_cuda_device_of(device)->staged[FRY_CUDA_WAY_IN].stream;
    fry_event event = rig_copy(&self, in, gpu, pageable, sizeof pageable, NULL, 0);
    rig_flush(in);
    rig_await(&self, event);
    OK(rig_outcome(&self, event));
    GIVES(gpu[0], 3);
    OK(emu_fail_call("cuMemHostRegister", 0, CUDA_SUCCESS));
    rig_free_on_gpu(gpu);
    rig_close(&self);
    emu_get_counters(&now);
    GIVES(now.live_pinned_ranges, before.live_pinned_ranges);
}

int main(void)
{
    batches_are_refused();
    events_are_scarce(FERRY_COMPLETION_WORDS);
    events_are_scarce(FERRY_COMPLETION_EVENTS);
    nothing_is_registered();
    words_are_late();
    return EXIT_SUCCESS;
}
