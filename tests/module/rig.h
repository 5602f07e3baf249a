/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backend of the CUDA module with the test in the engine's place: it holds the baton, steps the
 * clock, and looks at what fires. Every call that goes through here also checks that it leaves the
 * thread's current context and its capture mode as they were.
 */
#ifndef FERRY_TESTS_RIG_H
#define FERRY_TESTS_RIG_H

#include "gpu/cuda/cuda.h"
#include "gpu/backend.h"
#include "tests/emu/emu.h"
#include "tests/support/check.h"
#include "tests/support/stepped_clock.h"

#include <ferry/device.h>
#include <ferry/info.h>
#include <string.h>

#define RIG_LOG_BYTES 4096

typedef struct rig {
    const fry_backend_ops *ops;
    fry_backend *backend;
    fry_memory memory;
    fry_log log;
    stepped_clock stepped;
    ferry_clock interface;
    fry_clock clock;
    uint32_t tracing;
    uint32_t notified; /* atomic */
    char logged[RIG_LOG_BYTES];
    fry_fault fault; /* of the last call that failed */
    CUcontext own;   /* NULL, or what the test made, and rig_close destroys */
} rig;

/* The thread's own context is GPU 0's primary one, its capture mode the default. All GPUs' primary
 * contexts live until rig_close. */
void rig_open(rig *self);

/* Stops the backend, once what is being freed is, and destroys it; nothing of the driver's is left.
 */
void rig_close(rig *self);

/* NULL sets `fault`, and *status_p if that is not NULL. */
fry_device *rig_try_device(rig *self, const fry_device_request *request, ferry_status *status_p);
fry_device *rig_device(rig *self, const char *name, uint32_t completion);

/* device_open has given the main streams the order of fry_cuda_direction. */
fry_stream *rig_main(fry_device *device, fry_cuda_direction direction);
fry_stream *rig_parked(fry_device *device, size_t index);

/* Issues a plain copy that must succeed, behind waits (NULL, 0: none). */
fry_event rig_copy(rig *self, fry_stream *stream, void *dst, const void *src, size_t size_bytes,
                   const fry_event *waits, size_t wait_count);
ferry_status rig_try_copy(rig *self, fry_stream *stream, const fry_copy *copy,
                          const fry_event *waits, size_t wait_count, fry_event *event_p);
void rig_flush(fry_stream *stream);

/* What fired, which must be no failure of the device. */
uint64_t rig_fired(rig *self, fry_stream *stream);
uint64_t rig_try_fired(rig *self, fry_stream *stream, ferry_status *status_p);
ferry_status rig_outcome(rig *self, fry_event event);

/* Until the event has fired; the clock moves on. */
void rig_await(rig *self, fry_event event);

ferry_status rig_record(rig *self, fry_device *device, CUstream stream, fry_event *event_p);
ferry_status rig_wrap(rig *self, fry_device *device, CUevent event, CUstream stream,
                      fry_event *event_p);
ferry_status rig_stream_wait(rig *self, fry_device *device, CUstream stream, fry_event event);
void rig_entered(fry_event event);

/* Memory that the test takes from the driver itself. */
char *rig_pinned(size_t size_bytes, int fill);
char *rig_on_gpu(int ordinal, size_t size_bytes, int fill);
void rig_free_pinned(char *memory);
void rig_free_on_gpu(char *memory);
bool rig_is_all(const char *memory, int fill, size_t size_bytes);

/* The test on a rig of its own. */
#define RIG_RUN(self, test)                                                                        \
    do {                                                                                           \
        rig_open(self);                                                                            \
        test;                                                                                      \
        rig_close(self);                                                                           \
    } while (0)

typedef struct rig_test {
    const char *name;
    void (*run)(void);
} rig_test;

/*
 * Runs each test in a process of its own, or in this one that which the arguments name: a driver is
 * not for a fork's child, and a lost device is lost for good. Returns main's result.
 */
int rig_run_apart(int count, char **arguments, const rig_test *tests, size_t test_count);

static inline uint64_t rig_calls(const char *name)
{
    return emu_call_count(name);
}

#endif
