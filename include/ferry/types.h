/* SPDX-License-Identifier: Apache-2.0 */
/* Handles and small value types shared by the other headers. */
#ifndef FERRY_TYPES_H
#define FERRY_TYPES_H

#include <ferry/export.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ferry_engine ferry_engine;     /* owns a graph, a loop, devices and limits */
typedef struct ferry_device ferry_device;     /* a place with memory and streams */
typedef struct ferry_buffer ferry_buffer;     /* memory on a device; tracks its readers, writers */
typedef struct ferry_future ferry_future;     /* resolves exactly once, with a status */
typedef struct ferry_promise ferry_promise;   /* resolves a future from outside ferry */
typedef struct ferry_executor ferry_executor; /* where functions and callbacks run */
typedef struct ferry_task ferry_task;         /* one run of a function, handed to an executor */

typedef struct ferry_queue ferry_queue;         /* records of operations that have resolved */
typedef struct ferry_scope ferry_scope;         /* operations that end, or are limited, together */
typedef struct ferry_window ferry_window;       /* memory of a member that others read and write */
typedef struct ferry_symmetric ferry_symmetric; /* memory that each member has, for all */
typedef struct ferry_plan ferry_plan;   /* operations that are prepared once and posted often */
typedef struct ferry_group ferry_group; /* the processes of one job, including this one */

typedef uint32_t ferry_rank; /* a member of a group: 0 to the group's size, exclusive */
typedef uint64_t ferry_tag;  /* tells messages of one member apart */

#define FERRY_RANK_NONE UINT32_MAX      /* no member */
#define FERRY_RANK_ANY (UINT32_MAX - 1) /* a receive or a probe: of any member: message.h */
#define FERRY_TAG_ANY UINT64_MAX        /* likewise: with any tag */

/* A range of a buffer. Passed by value; holds no reference to the buffer. */
typedef struct ferry_span {
    ferry_buffer *buffer;
    size_t offset_bytes;
    size_t size_bytes;
} ferry_span;

/*
 * How an operation touches a span. If the last writer of a span fails, the span is poisoned: later
 * readers fail, with the writer's failure as cause, until the whole span is overwritten or defined
 * again (ferry_buffer_define).
 */
typedef enum ferry_access_mode FERRY_INT_ENUM {
    FERRY_READ = 1,       /* ordered after the last writer; fails if that writer fails */
    FERRY_WRITE = 2,      /* overwrites the whole span; ordered after its writers and readers */
    FERRY_READ_WRITE = 3, /* both; fails if the last writer fails */
} ferry_access_mode;

/* A span, and how an operation touches it. */
typedef struct ferry_access {
    ferry_span span;
    ferry_access_mode mode;
} ferry_access;

#endif
