/* SPDX-License-Identifier: Apache-2.0 */
/* An engine's CUDA devices. Each is a GPU, or a logical device with its own streams on a GPU. */
#ifndef FRY_GPU_CUDA_CUDA_H
#define FRY_GPU_CUDA_CUDA_H

#include "base/lf.h"
#include "gpu/cuda/driver.h"
#include "gpu/cuda/memory.h"
#include "gpu/cuda/pinned.h"
#include "gpu/cuda/stream.h"
#include "gpu/backend.h"

#include <ferry/info.h>

#define FRY_CUDA_LOGICAL_MAX 15 /* beside the GPU itself: "cuda:0/15" */
#define FRY_CUDA_PARKED_DEFAULT 4
#define FRY_CUDA_PARKED_MAX 64
#define FRY_CUDA_OUTSIDE_COUNT 64 /* users' streams with events at one time */
#define FRY_CUDA_BRIDGE_COUNT 32  /* streams that wait for users' own events */
#define FRY_CUDA_SPARE_COUNT 3    /* for each direction; see spare.h */

/* With so many hardware queues there are tellers (stream.c): it is the most a program can ask for.
 */
#define FRY_CUDA_TELLER_QUEUES 32

#define FRY_CUDA_MODEL_BYTES 64

/* The main streams of a device, which come ahead of the parked ones. */
typedef enum fry_cuda_direction {
    FRY_CUDA_FROM_HOST = 0,
    FRY_CUDA_TO_HOST,
    FRY_CUDA_ON_DEVICE, /* and to other devices */
    FRY_CUDA_DIRECTIONS
} fry_cuda_direction;

struct fry_cuda_staged;
struct fry_cuda_staging;
struct fry_cuda_reclaim;

struct fry_cuda_device {
    fry_device device; /* first */
    fry_backend *backend;
    fry_cuda_device *next; /* of the backend's */
    CUdevice gpu;
    uint32_t number;  /* among the backend's devices, in the order of their opening */
    uint32_t ordinal; /* the driver's number of the GPU */
    uint32_t logical; /* 0: the GPU itself */
    CUcontext context;
    bool is_primary; /* the context is the GPU's primary one, and is retained */
    size_t pitch_max_bytes;
    int lowest_priority, highest_priority; /* of streams: lower numbers go first */
    char model[FRY_CUDA_MODEL_BYTES];
    const char *wordless; /* why the device uses no words; NULL: it uses them */
    bool has_tellers;     /* main streams have tellers: stream.c */

    uint32_t
        batches_refused; /* baton; refused batches in a row of which each copy was accepted alone */
    uint32_t has_no_batches; /* atomic; too many were refused, so none is tried any more */

    /* The first error after which the context can't be trusted; see fry_cuda_lose. */
    uint32_t lost;         /* atomic; a CUresult */
    const char *lost_call; /* atomic; set just after it */

    /* Numbers that streams write: pinned, each on its own cache line. */
    fry_cuda_pinned words;
    CUdeviceptr words_address;
    bool has_stray_words; /* a word was given up and may still be written */

    /*
     * For apart.c: the memory of its trial, and why nothing can be parked; NULL: copies can be
     * parked.
     */
    fry_cuda_pinned trial;
    CUdeviceptr trial_address;
    const char *parkless;

    /* Main streams, parked, outside, bridges, spares of each direction. */
    fry_cuda_stream *streams;
    uint32_t spares_used[FRY_CUDA_DIRECTIONS]; /* atomic */
    uint32_t stream_count, parked_count;
    uint32_t parked_apart; /* the first of the parked streams, which delay no main stream */
    uint32_t
        parked_entries; /* baton; entries in the driver's queues of all parked streams together */
    struct fry_cuda_staged *staged; /* streams for copies of pageable memory, and from GPUs that
                                       this one does not reach; numbered after `streams` */

    fry_cuda_memory memory;
};

struct fry_backend {
    fry_memory memory;
    fry_backend_options options;
    fry_cuda_device *devices; /* atomic; new devices are added in front */
    uint32_t device_count; /* belongs to the thread that opens a device, of which there is one at a
                              time */
    uint32_t has_lost;     /* atomic; one of the devices is lost */
    struct fry_cuda_staging *staging;
    struct fry_cuda_reclaim *reclaim;
};

static inline fry_cuda_device *fry_cuda_device_of(const fry_device *device)
{
    return (fry_cuda_device *)(uintptr_t)device;
}

/*
 * Priorities of streams. The hardware keeps streams apart by few queues
 * (CUDA_DEVICE_MAX_CONNECTIONS). If two streams share a queue, one that waits may delay the other.
 * Reports say that streams of different priorities do not share, so each sort of streams has its
 * own priority as far as there are any, and the program's streams are mostly at the lowest. Copies
 * go first, which matters where they compete with kernels; for copies from and to the host cuda.h
 * says that priorities have no effect. ferry does not rely on any of this: it tries which parked
 * streams share with main ones (apart.h).
 */
typedef enum fry_cuda_level {
    FRY_CUDA_LEVEL_MAIN = 0,
    FRY_CUDA_LEVEL_PARKED,
    FRY_CUDA_LEVEL_BRIDGE,
} fry_cuda_level;

/* Lower numbers go first. */
static inline int fry_cuda_priority(const fry_cuda_device *device, fry_cuda_level level)
{
    int priority = device->highest_priority + (int)level;
    return priority < device->lowest_priority ? priority : device->lowest_priority;
}

static inline fry_cuda_stream *fry_cuda_parked(fry_cuda_device *device)
{
    return device->streams + FRY_CUDA_DIRECTIONS;
}

static inline fry_cuda_stream *fry_cuda_outside(fry_cuda_device *device)
{
    return fry_cuda_parked(device) + device->parked_count;
}

static inline fry_cuda_stream *fry_cuda_bridges(fry_cuda_device *device)
{
    return fry_cuda_outside(device) + FRY_CUDA_OUTSIDE_COUNT;
}

static inline fry_cuda_stream *fry_cuda_spares(fry_cuda_device *device)
{
    return fry_cuda_bridges(device) + FRY_CUDA_BRIDGE_COUNT;
}

/* Why small copies are not given to the driver together; NULL: they are. Any thread. */
static inline const char *fry_cuda_batchless(const fry_cuda_device *device)
{
    if (fry_cuda.cuMemcpyBatchAsync == NULL)
        return "the driver has no cuMemcpyBatchAsync, which came with CUDA 13.0";
    return fry_load_relaxed(&device->has_no_batches) != 0
               ? "the driver refused batches of copies, each of which it took alone"
               : NULL;
}

/* Records that the device has a capability, or why it lacks it: one line, static. */
static inline void fry_cuda_add_capability(fry_device_facts *facts, ferry_capability capability,
                                           const char *lack)
{
    if (lack == NULL)
        facts->capabilities |= (uint32_t)capability;
    else
        facts->lacks[__builtin_ctz((unsigned)capability)] = lack;
}

#endif
