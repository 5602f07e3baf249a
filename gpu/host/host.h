/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host devices: CPU memory, and streams that worker threads work off in order. All host devices of
 * an engine share one set of workers.
 */
#ifndef FRY_GPU_HOST_HOST_H
#define FRY_GPU_HOST_HOST_H

#include "base/clock.h"
#include "base/memory.h"
#include "gpu/device.h"

typedef struct fry_host fry_host;

/*
 * Called by a worker before a copy's first byte (copied_bytes 0) and after each chunk: a test can
 * stop a copy anywhere by not returning.
 */
typedef struct fry_host_gate {
    void (*fn)(void *arg, const fry_copy *copy, size_t copied_bytes);
    void *arg;
} fry_host_gate;

typedef struct fry_host_options {
    uint32_t device_count; /* 1 to 64 */
    uint32_t worker_count; /* 1 to 8 */
    size_t inline_copy_bytes;
    fry_notify notify;       /* called by a worker each time an operation has fired */
    fry_host_gate gate;      /* fn NULL: none */
    const uint32_t *tracing; /* not 0: workers record when they begin; NULL: never */
    const fry_clock *clock;  /* the clock for that */
} fry_host_options;

/*
 * Opens the host devices: FERRY_OK, FERRY_E_NO_MEMORY, or FERRY_E_SYSTEM (a thread could not be
 * made). Devices get the indices 0.. and the names "host:0"..
 */
ferry_status fry_host_open(const fry_memory *memory, const fry_host_options *options,
                           fry_host **host_p);

fry_device *fry_host_device(fry_host *host, size_t index);

/*
 * Ends the workers. FERRY_OK; FERRY_E_BUSY if something issued has not fired (nothing happens
 * then); FERRY_E_DEADLINE if a worker had not ended by end_ns (CLOCK_MONOTONIC; FRY_NEVER_NS), and
 * the caller must call again. Blocks until the threads are gone. Afterwards only memory_free may be
 * called.
 */
ferry_status fry_host_stop(fry_host *host, int64_t end_ns);

/* Frees the host, which was stopped, but not buffers' memory. NULL is allowed. */
void fry_host_destroy(fry_host *host);

#endif
