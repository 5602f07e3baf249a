/* SPDX-License-Identifier: Apache-2.0 */
/* Handles and small value types shared by the other headers. */
#ifndef FERRY_TYPES_H
#define FERRY_TYPES_H

#include <ferry/export.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ferry_engine ferry_engine;     /* owns a graph, a loop, devices and limits */
typedef struct ferry_device ferry_device;     /* a place with memory and streams; the engine's */
typedef struct ferry_buffer ferry_buffer;     /* memory on a device, with who writes and reads it */
typedef struct ferry_future ferry_future;     /* resolves exactly once, with a status */
typedef struct ferry_promise ferry_promise;   /* resolves a future from outside ferry */
typedef struct ferry_executor ferry_executor; /* where functions and callbacks run */
typedef struct ferry_task ferry_task;         /* one run of a function, handed to an executor */

typedef struct ferry_group ferry_group; /* the processes of one job, this one among them */

typedef uint32_t ferry_peer; /* a member of a group, by its rank */
typedef uint64_t ferry_tag;  /* what a receive tells messages of one member apart by */

/* A range of a buffer, passed by value; it holds no reference. */
typedef struct ferry_span {
    ferry_buffer *buffer;
    size_t offset_bytes;
    size_t size_bytes;
} ferry_span;

/*
 * How an operation touches a span. A span whose last writer failed is poisoned until it is wholly
 * overwritten or defined anew: readers of it fail with that writer's failure as cause.
 */
typedef enum ferry_access_mode FERRY_INT_ENUM {
    FERRY_READ = 1,       /* reads it: ordered after its last writer, whose failure it shares */
    FERRY_WRITE = 2,      /* overwrites all of it: ordered after its writers and readers */
    FERRY_READ_WRITE = 3, /* both: shares the last writer's failure */
} ferry_access_mode;

/* A span and what an operation does to it. */
typedef struct ferry_access {
    ferry_span span;
    ferry_access_mode mode;
} ferry_access;

#endif
