/* SPDX-License-Identifier: Apache-2.0 */
/* An engine with a host and two GPUs; with one GPU a logical device is the second. */
#ifndef FERRY_TESTS_GPU_PLACES_H
#define FERRY_TESTS_GPU_PLACES_H

#include "tests/gpu/program.h"

#define KIB ((size_t)1024)
#define MIB (KIB * KIB)

typedef struct places {
    gpu_engine ge;
    ferry_device *host, *gpus[2];
    int ordinals[2];
} places;

static inline void places_open_in(places *self, ferry_loop_mode loop,
                                  const ferry_device_options *device_options)
{
    int count = 0;
    CHECK_CUDA(cudaGetDeviceCount(&count));
    ferry_engine_options options = gpu_engine_options(&self->ge);
    options.loop = loop;
    CHECK_STATUS(ferry_engine_create(&options, &self->ge.engine, NULL), FERRY_OK);
    self->host = ferry_device_find(self->ge.engine, "host:0");
    CHECK(self->host != NULL);
    const char *const names[] = {"cuda:0", count > 1 ? "cuda:1" : "cuda:0/1"};
    for (size_t i = 0; i < 2; i++)
        CHECK_STATUS(
            ferry_device_open(self->ge.engine, names[i], device_options, &self->gpus[i], NULL),
            FERRY_OK);
    self->ordinals[0] = 0;
    self->ordinals[1] = count > 1 ? 1 : 0;
}

/* The options may be NULL. */
static inline void places_open(places *self, const ferry_device_options *options)
{
    places_open_in(self, FERRY_LOOP_THREAD, options);
}

/* On the emulator: nothing waited for room in the driver, or did what it must not. */
static inline void places_close(places *self)
{
    gpu_engine_close(&self->ge);
    if (EMU(emu_get_counters) != NULL) {
        emu_counters counters;
        EMU(emu_get_counters)(&counters);
        CHECK(counters.blocked == 0);
        CHECK(counters.caught == 0);
    }
}

#endif
