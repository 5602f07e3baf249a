/* SPDX-License-Identifier: Apache-2.0 */
/* A driver without memory for more events: what stands in streams still has marks. */
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

int main(void)
{
    events_are_scarce(FERRY_COMPLETION_WORDS);
    events_are_scarce(FERRY_COMPLETION_EVENTS);
    return EXIT_SUCCESS;
}
