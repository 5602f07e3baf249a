/* SPDX-License-Identifier: Apache-2.0 */
/* What there is: the build, backends, devices, limits, environment variables. */
#ifndef FERRY_INFO_H
#define FERRY_INFO_H

#include <ferry/engine.h>
#include <ferry/export.h>
#include <ferry/status.h>
#include <ferry/types.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * How the library was built: compiler, kind of build, processor, sanitizer. One line. Any thread,
 * also in a fork's child; static string.
 */
FERRY_API const char *ferry_build_text(void);

/* A part of ferry that a build or a machine may lack. */
typedef struct ferry_backend_info {
    const char *name;      /* "cuda" */
    bool is_here;          /* it can be used */
    const char *reason;    /* why it can't; else what it is */
    uint32_t device_count; /* devices "NAME:0" and so on that ferry_device_open could open; a
                              backend whose devices every engine has: 0 */
} ferry_backend_info;

/*
 * How many backends ferry knows of, and the one of an index (zeros if there is none). To tell of
 * CUDA the first call loads its module and driver, which may take the driver's time; it makes no
 * context. Any thread, also in a fork's child; strings that stay for ever.
 */
FERRY_API size_t ferry_backend_count(void);
FERRY_API ferry_backend_info ferry_backend_at(size_t index);

#define FERRY_CAPABILITY_MAP(X)                                                                    \
    X(FERRY_CAN_COPY_INLINE, 1, "copy-inline", "small copies run in the submitting thread")        \
    X(FERRY_CAN_WAIT_ON_DEVICE, 2, "wait-on-device",                                               \
      "a stream waits for others of its backend without the host")                                 \
    X(FERRY_CAN_COPY_ROWS, 4, "copy-rows", "strided copies")                                       \
    X(FERRY_CAN_STOP_COPIES, 8, "stop-copies", "a cancelled copy stops on its way")                \
    X(FERRY_CAN_USE_HOST_POINTERS, 16, "host-pointers",                                            \
      "any memory of the process can be wrapped, and buffers' memory used by the CPU")             \
    X(FERRY_CAN_WRITE_WORDS, 32, "stream-memory-writes",                                           \
      "streams tell of their progress by numbers in host memory: no call of the driver's")         \
    X(FERRY_CAN_BATCH_COPIES, 64, "batch-copies", "many small copies in one call of the driver's") \
    X(FERRY_CAN_COPY_TO_PEERS, 128, "peer-access",                                                 \
      "copies from and to other devices of its backend without the host")                          \
    X(FERRY_CAN_POOL_MEMORY, 256, "memory-pools",                                                  \
      "memory comes from a pool and goes back without waiting for the device")                     \
    X(FERRY_CAN_PRIORITIZE, 512, "stream-priorities", "streams of several priorities")             \
    X(FERRY_CAN_RECORD_EVENTS, 1024, "native-events",                                              \
      "the program's own streams can be depended on, and made to wait")                            \
    X(FERRY_CAN_PARK_COPIES, 2048, "parked-copies",                                                \
      "copies behind the program's events wait on the device, and hold up no others")

#define FERRY_CAPABILITY_ENUM_(name, value, word, text) name = (value),
/* What a device can do; a set of them is their sum. */
typedef enum ferry_capability FERRY_INT_ENUM {
    FERRY_CAPABILITY_MAP(FERRY_CAPABILITY_ENUM_)
} ferry_capability;
#undef FERRY_CAPABILITY_ENUM_

/* Name of a capability ("copy-rows") and one line about it; "?" if unknown. Static strings. */
FERRY_API const char *ferry_capability_name(ferry_capability capability);
FERRY_API const char *ferry_capability_text(ferry_capability capability);

/* A device. Fields may be added at the end. */
typedef struct ferry_device_info {
    size_t struct_size;           /* sizeof(ferry_device_info), set by the caller */
    const char *name;             /* "host:0"; lives as long as the engine */
    const char *backend;          /* "host"; static */
    uint32_t index;               /* as ferry_device_at counts */
    uint32_t stream_count;        /* in-order queues it has */
    uint32_t capabilities;        /* ferry_capability, summed */
    uint32_t reserved;            /* zero */
    uint64_t memory_bytes;        /* of the device in all; 0 unknown. Host devices share theirs */
    uint64_t memory_unused_bytes; /* of that, about how much could be had now; 0 unknown */
    const char *model;            /* its maker's name for it; NULL: a host, or unknown. Lives as
                                     long as the engine, as the next */
    const char *driver;           /* "CUDA 13.0"; NULL: none */
    uint64_t peers;               /* bit N: device N of its backend, if that is open, which it
                                     copies from and to without the host */
    int32_t lowest_priority;      /* of streams, as the driver counts: lower numbers go first */
    int32_t highest_priority;     /* both 0: there is one priority */
} ferry_device_info;

#define FERRY_DEVICE_INFO_INIT FERRY_SIZED_INIT(ferry_device_info)

/*
 * Tells what a device is.
 *  info  filled in up to its struct_size, which stays
 * Any thread; asks the operating system or driver. Returns FERRY_OK; FERRY_E_INVALID for a NULL or
 * a struct_size that can't be; FERRY_E_FORKED.
 */
FERRY_API ferry_status ferry_device_describe(ferry_device *device, ferry_device_info *info);

/*
 * Why a device has not a capability, in one line that lives as long as the engine; NULL if it has
 * it, or for no device, no capability, and in a fork's child. Any thread.
 */
FERRY_API const char *ferry_device_lacks(ferry_device *device, ferry_capability capability);

/*
 * The options that are in force: those given at create, and defaults for the others. Pointers are
 * as given, but for allocator, clock and watchdog_path, which are NULL.
 *  options  filled in up to its struct_size, which stays
 * Any thread. Returns FERRY_OK; FERRY_E_INVALID for a NULL or a struct_size that can't be;
 * FERRY_E_FORKED.
 */
FERRY_API ferry_status ferry_engine_limits(const ferry_engine *engine,
                                           ferry_engine_options *options);

/* An environment variable that ferry reads. */
typedef struct ferry_variable_info {
    const char *name;  /* "FERRY_LOG" */
    const char *text;  /* what it does, one line */
    const char *value; /* NULL if it is not set or empty; valid until the environment changes */
} ferry_variable_info;

/* How many there are, and the one of an index (zeros if there is none). Any thread. */
FERRY_API size_t ferry_variable_count(void);
FERRY_API ferry_variable_info ferry_variable_at(size_t index);

#ifdef __cplusplus
}
#endif
#endif
