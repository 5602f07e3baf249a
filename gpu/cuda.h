/* SPDX-License-Identifier: Apache-2.0 */
/* An engine's CUDA devices. Each is a GPU, or a logical one with streams of its own on a GPU. */
#ifndef FRY_GPU_CUDA_H
#define FRY_GPU_CUDA_H

#include "gpu/cuda_base.h"
#include "gpu/cuda_context.h"
#include "gpu/cuda_memory.h"
#include "gpu/cuda_pinned.h"
#include "gpu/cuda_stream.h"

#include <ferry/info.h>

#define FRY_CUDA_LOGICAL_MAX 15 /* beside the GPU itself: "cuda:0/15" */
#define FRY_CUDA_PARKED_DEFAULT 4
#define FRY_CUDA_PARKED_MAX 64
#define FRY_CUDA_OUTSIDE_COUNT 64 /* users' streams that events stand in at once */
#define FRY_CUDA_BRIDGE_COUNT 32  /* streams that wait for users' own events */
#define FRY_CUDA_SPARE_COUNT 3    /* a direction; see cuda_spare.h */

#define FRY_CUDA_MODEL_BYTES 64

/* The streams of a device that ferry copies on, ahead of the parked ones. */
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
    uint32_t number;  /* of the backend's devices, as they were opened */
    uint32_t ordinal; /* as the driver counts */
    uint32_t logical; /* 0: the GPU itself */
    CUcontext context;
    bool is_primary; /* the context is, and is retained */
    size_t pitch_max_bytes;
    int lowest_priority, highest_priority; /* of streams: lower numbers go first */
    char model[FRY_CUDA_MODEL_BYTES];
    const char *wordless; /* why it has no words; NULL: it has */

    uint32_t batches_refused; /* baton; in a row, though each of their copies was taken alone */
    uint32_t has_no_batches;  /* atomic; so many that none is tried any more */

    /* The first error after which nothing of the context can be trusted; see fry_cuda_lose. */
    uint32_t lost;         /* atomic; a CUresult */
    const char *lost_call; /* atomic; set just after it */

    /* Numbers that streams write: pinned, each on a cache line of its own. */
    fry_cuda_pinned words;
    CUdeviceptr words_address;
    uint32_t has_stray_words; /* atomic; one was given up and may yet be written */

    /* cuda_apart.c's: what its trial copies and reads, and why nothing can be parked; NULL: it can.
     */
    fry_cuda_pinned trial;
    CUdeviceptr trial_address;
    const char *parkless;

    /* Directions, parked, outside, bridges, spares of each direction. */
    fry_cuda_stream *streams;
    uint32_t spares_used[FRY_CUDA_DIRECTIONS]; /* atomic */
    uint32_t stream_count, parked_count;
    uint32_t parked_apart;   /* of the parked, the first ones, which hold up no main stream */
    uint32_t parked_entries; /* baton; in the driver's queues, of all parked together */
    struct fry_cuda_staged *staged; /* copies of pageable memory, of GPUs that don't reach others;
                                       numbered behind `streams` */

    fry_cuda_memory memory;
};

struct fry_backend {
    fry_memory memory;
    fry_backend_options options;
    fry_cuda_device *devices; /* atomic; grows in front */
    uint32_t device_count;    /* as devices are opened one at a time, it is theirs who opens one */
    uint32_t has_lost;        /* atomic; one of them is */
    struct fry_cuda_staging *staging;
    struct fry_cuda_reclaim *reclaim;
};

static inline fry_cuda_device *fry_cuda_device_of(const fry_device *device)
{
    return (fry_cuda_device *)(uintptr_t)device;
}

/*
 * Streams of the driver are kept apart by queues of the hardware, of which there are few
 * (CUDA_DEVICE_MAX_CONNECTIONS); where two share one, what waits in the first may hold up the
 * second. By what is said of it, streams of different priorities don't share: so each sort has one
 * of its own as far as there are any, and the program's streams are mostly at the lowest. What
 * copies goes first, which matters where kernels and it compete; for copies from and to the host
 * cuda.h says that priorities have no effect. So none of this is relied on: which parked streams
 * share with main ones is tried (cuda_apart.h).
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

/*
 * The device's context answers with an error that is not of one call: from now on its streams say
 * so, and nothing more is asked of it. call: which one answered, static. Any thread, also twice.
 */
void fry_cuda_lose(fry_cuda_device *device, CUresult result, const char *call);

/*
 * Whether a call that failed with `result` found the context broken, and then the device is lost;
 * else it was only that call. In a scope of the device.
 */
bool fry_cuda_is_fatal(fry_cuda_device *device, CUresult result, const char *call);

/* NULL, or why small copies are not given to the driver together. Any thread. */
static inline const char *fry_cuda_batchless(const fry_cuda_device *device)
{
    if (fry_cuda.cuMemcpyBatchAsync == NULL)
        return "the driver has no cuMemcpyBatchAsync, which came with CUDA 13.0";
    return fry_load_relaxed(&device->has_no_batches) != 0
               ? "the driver refused batches of copies, each of which it took alone"
               : NULL;
}

static inline CUresult fry_cuda_lost(const fry_cuda_device *device)
{
    return (CUresult)fry_load_acquire(&device->lost);
}

/* Which call it was; another thread may be about to say so. */
static inline const char *fry_cuda_lost_call(const fry_cuda_device *device)
{
    const char *call = fry_load_acquire(&device->lost_call);
    return call != NULL ? call : "a call to the cuda driver";
}

/* Notes that the device has it, or why it has not: one line, static. */
static inline void fry_cuda_add_capability(fry_device_facts *facts, ferry_capability capability,
                                           const char *lack)
{
    if (lack == NULL)
        facts->capabilities |= (uint32_t)capability;
    else
        facts->lacks[__builtin_ctz((unsigned)capability)] = lack;
}

/* Says why the device is lost; gives FERRY_E_DEVICE. */
ferry_status fry_cuda_tell_lost(const fry_cuda_device *device, fry_native_error *error);

#endif
