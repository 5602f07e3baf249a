/* SPDX-License-Identifier: Apache-2.0 */
/* Information: the build, backends, devices, limits, environment variables. */
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
 * One line on how the library was built: compiler, kind of build, processor, sanitizer. Any thread,
 * also in a fork's child; static string.
 */
FERRY_API const char *ferry_build_text(void);

/*
 * A backend: a part of ferry that a build or a machine may lack. Later versions may add fields at
 * the end.
 */
typedef struct ferry_backend_info {
    size_t struct_size;    /* sizeof(ferry_backend_info), set by the caller */
    const char *name;      /* "cuda" */
    const char *reason;    /* why it can't be used; else what it is */
    uint32_t device_count; /* devices "NAME:0"... that ferry_device_open could open; 0 for a
                              backend whose devices every engine has */
    bool is_here;          /* whether it can be used */
} ferry_backend_info;

#define FERRY_BACKEND_INFO_INIT FERRY_SIZED_INIT(ferry_backend_info)

/* The number of backends that ferry knows. Any thread, also in a fork's child. */
FERRY_API size_t ferry_backend_count(void);

/*
 * Describes the backend with an index.
 *  info  filled in up to its struct_size, which the caller has set; the strings stay valid for ever
 * The first call loads CUDA's module and driver, which may block; it makes no context. Any thread,
 * also in a fork's child. Returns FERRY_OK; FERRY_E_NOT_FOUND if there is none with that index;
 * FERRY_E_INVALID for a NULL or an invalid struct_size.
 */
FERRY_API ferry_status ferry_backend_at(size_t index, ferry_backend_info *info);

#define FERRY_CAPABILITY_MAP(X)                                                                    \
    X(FERRY_CAN_COPY_INLINE, 1, "copy-inline", "small copies run in the submitting thread")        \
    X(FERRY_CAN_WAIT_ON_DEVICE, 2, "wait-on-device",                                               \
      "a stream waits for others of its backend without the host")                                 \
    X(FERRY_CAN_COPY_ROWS, 4, "copy-rows", "strided copies")                                       \
    X(FERRY_CAN_STOP_COPIES, 8, "stop-copies", "a cancelled copy stops on its way")                \
    X(FERRY_CAN_USE_HOST_POINTERS, 16, "host-pointers",                                            \
      "any memory of the process can be wrapped, and the CPU can use buffers' memory")             \
    X(FERRY_CAN_WRITE_WORDS, 32, "stream-memory-writes",                                           \
      "streams report their progress by numbers in host memory, without calls of the driver")      \
    X(FERRY_CAN_BATCH_COPIES, 64, "batch-copies", "many small copies in one call of the driver")   \
    X(FERRY_CAN_COPY_TO_PEERS, 128, "peer-access",                                                 \
      "copies from and to other devices of its backend without the host")                          \
    X(FERRY_CAN_POOL_MEMORY, 256, "memory-pools",                                                  \
      "memory comes from a pool and goes back without waiting for the device")                     \
    X(FERRY_CAN_PRIORITIZE, 512, "stream-priorities", "streams of several priorities")             \
    X(FERRY_CAN_RECORD_EVENTS, 1024, "native-events",                                              \
      "operations can wait for the program's own streams, and these for operations")               \
    X(FERRY_CAN_PARK_COPIES, 2048, "parked-copies",                                                \
      "copies that wait for the program's events wait on the device, and delay no others")         \
    X(FERRY_CAN_SHARE_MEMORY, 4096, "shared-memory",                                               \
      "messages are read in the memory of another process's device (CUDA IPC), if the driver "     \
      "lets the two open it")

#define FERRY_CAPABILITY_ENUM_(name, value, word, text) name = (value),
/* What a device can do; a set of capabilities is their sum. */
typedef enum ferry_capability FERRY_INT_ENUM {
    FERRY_CAPABILITY_MAP(FERRY_CAPABILITY_ENUM_)
} ferry_capability;
#undef FERRY_CAPABILITY_ENUM_

/* Name of a capability ("copy-rows") and one line about it; "?" if unknown. Static strings. */
FERRY_API const char *ferry_capability_name(ferry_capability capability);
FERRY_API const char *ferry_capability_text(ferry_capability capability);

/* A device. Later versions may add fields at the end. */
typedef struct ferry_device_info {
    size_t struct_size;           /* sizeof(ferry_device_info), set by the caller */
    const char *name;             /* "host:0"; lives as long as the engine */
    const char *backend;          /* "host"; static */
    uint32_t index;               /* as in ferry_device_at */
    uint32_t stream_count;        /* in-order queues */
    uint32_t capabilities;        /* ferry_capability, summed */
    uint32_t reserved;            /* zero */
    uint64_t memory_bytes;        /* of the device in all; 0: unknown. Host devices share theirs */
    uint64_t memory_unused_bytes; /* of that, about how much is free now; 0: unknown */
    const char *model;            /* the maker's name for it; NULL: a host, or unknown. Lives as
                                     long as the engine, like driver */
    const char *driver;           /* "CUDA 13.0"; NULL: none */
    uint64_t peers;               /* bit N: it copies from and to device N of its backend, which is
                                     open, without the host */
    int32_t lowest_priority;      /* of streams, in the driver's numbers: lower ones go first */
    int32_t highest_priority;     /* both 0: there is one priority */
} ferry_device_info;

#define FERRY_DEVICE_INFO_INIT FERRY_SIZED_INIT(ferry_device_info)

/*
 * Describes a device.
 *  info  filled in up to its struct_size, which the caller has set
 * Any thread; asks the operating system or driver. Returns FERRY_OK; FERRY_E_INVALID for a NULL or
 * an invalid struct_size; FERRY_E_FORKED.
 */
FERRY_API ferry_status ferry_device_describe(ferry_device *device, ferry_device_info *info);

/*
 * Why a device lacks a capability, in one line that lives as long as the engine. NULL if the device
 * has the capability, for an invalid device or capability, and in a fork's child. Any thread.
 */
FERRY_API const char *ferry_device_lacks(ferry_device *device, ferry_capability capability);

/*
 * The options in force: those given to ferry_engine_create, and defaults for the others. Pointers
 * are as given, except that allocator, clock and watchdog_path are NULL.
 *  options  filled in up to its struct_size, which the caller has set
 * Any thread. Returns FERRY_OK; FERRY_E_INVALID for a NULL or an invalid struct_size;
 * FERRY_E_FORKED.
 */
FERRY_API ferry_status ferry_engine_limits(const ferry_engine *engine,
                                           ferry_engine_options *options);

/* An environment variable that ferry reads. Later versions may add fields at the end. */
typedef struct ferry_variable_info {
    size_t struct_size; /* sizeof(ferry_variable_info), set by the caller */
    const char *name;   /* "FERRY_LOG" */
    const char *text;   /* one line on what it does */
    const char *value;  /* NULL if it is not set or empty; valid until the environment changes */
} ferry_variable_info;

#define FERRY_VARIABLE_INFO_INIT FERRY_SIZED_INIT(ferry_variable_info)

/* The number of environment variables that ferry reads. Any thread. */
FERRY_API size_t ferry_variable_count(void);

/*
 * Describes the variable with an index; `info` and what is returned are like ferry_backend_at's.
 * Any thread.
 */
FERRY_API ferry_status ferry_variable_at(size_t index, ferry_variable_info *info);

#ifdef __cplusplus
}
#endif
#endif
