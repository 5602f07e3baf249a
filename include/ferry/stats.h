/* SPDX-License-Identifier: Apache-2.0 */
/* Figures: what an engine, or a scope of it, has done since it was made. */
#ifndef FERRY_STATS_H
#define FERRY_STATS_H

#include <ferry/export.h>
#include <ferry/op.h>
#include <ferry/status.h>
#include <ferry/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Copies within host memory, from it to a device's, back, within a device's, and between devices'.
 * Messages of host memory, and of devices' memory by each ferry_gpu_way. */
#define FERRY_WAY_MAP(X)                                                                           \
    X(FERRY_WAY_HOST, 0, "host")                                                                   \
    X(FERRY_WAY_TO_DEVICE, 1, "to_device")                                                         \
    X(FERRY_WAY_FROM_DEVICE, 2, "from_device")                                                     \
    X(FERRY_WAY_ON_DEVICE, 3, "on_device")                                                         \
    X(FERRY_WAY_BETWEEN_DEVICES, 4, "between_devices")                                             \
    X(FERRY_WAY_SENT, 5, "sent")                                                                   \
    X(FERRY_WAY_RECEIVED, 6, "received")                                                           \
    X(FERRY_WAY_SENT_STAGED, 7, "sent_staged")                                                     \
    X(FERRY_WAY_RECEIVED_STAGED, 8, "received_staged")                                             \
    X(FERRY_WAY_SENT_IPC, 9, "sent_ipc")                                                           \
    X(FERRY_WAY_RECEIVED_IPC, 10, "received_ipc")                                                  \
    X(FERRY_WAY_SENT_NCCL, 11, "sent_nccl")                                                        \
    X(FERRY_WAY_RECEIVED_NCCL, 12, "received_nccl")

#define FERRY_WAY_ENUM_(name, value, text) name = (value),
/* By which way bytes have gone. */
typedef enum ferry_way FERRY_INT_ENUM { FERRY_WAY_MAP(FERRY_WAY_ENUM_) FERRY_WAYS } ferry_way;
#undef FERRY_WAY_ENUM_

/* Name of a way ("to_device"); "?" if unknown. Any thread; static string. */
FERRY_API const char *ferry_way_name(ferry_way way);

#define FERRY_STATS_KINDS 32    /* room for kinds of operations */
#define FERRY_STATS_WAYS 16     /* and for ways */
#define FERRY_STATS_FAILURES 32 /* and for statuses */
#define FERRY_STATS_BUCKETS 48  /* of latencies: the last takes all from 39 hours on */

/* How many operations have failed with a status. */
typedef struct ferry_stats_failure {
    ferry_status status; /* FERRY_E_FAILED stands for users' own numbers too */
    uint32_t reserved;   /* zero */
    uint64_t count;
} ferry_stats_failure;

/*
 * Figures. Initialise them with FERRY_STATS_INIT. All but in_flight only grow. Promises and the
 * futures of several others (ferry_future_all, for example) are operations too.
 */
typedef struct ferry_stats {
    size_t struct_size;                           /* sizeof(ferry_stats) */
    uint64_t entered;                             /* operations that have entered the graph */
    uint64_t resolved;                            /* those that have resolved, well or not */
    uint64_t in_flight;                           /* those that have not */
    uint64_t resolved_by_kind[FERRY_STATS_KINDS]; /* by ferry_op_kind */
    uint64_t bytes_by_way[FERRY_STATS_WAYS];      /* by ferry_way, of what has ended well */
    uint64_t failure_count;                       /* of `failures`: those that follow are zero */
    ferry_stats_failure failures[FERRY_STATS_FAILURES]; /* those with a count */
    uint64_t latency_every; /* latencies, from entering to resolving, are those of one operation
                               in so many */
    uint64_t latency_count, latency_sum_ns;
    uint64_t latency_counts[FERRY_STATS_BUCKETS]; /* [i]: those from 2^i ns up to 2^(i+1), without
                                                     it; [0] also those below */
} ferry_stats;

#define FERRY_STATS_INIT FERRY_SIZED_INIT(ferry_stats)

/*
 * Reads the figures of an engine that counts (ferry_engine_options.stats), or of a scope of one.
 * Figures are read one by one, while others may count: what an operation adds may be seen in one
 * and not yet in another. What has resolved before the call is in all of them; a promise when the
 * loop, or another thread that works on the graph, has handled it.
 *  engine  NULL: the scope's
 *  scope   NULL: the figures are the engine's
 *  stats   receives them
 * Any thread, any context, also after the shutdown. Takes no lock. Returns FERRY_OK;
 * FERRY_E_INVALID for a NULL (of engine and scope both), for a scope of another engine, or a wrong
 * struct_size; FERRY_E_UNSUPPORTED if the engine does not count; FERRY_E_FORKED.
 */
FERRY_API ferry_status ferry_stats_read(ferry_engine *engine, const ferry_scope *scope,
                                        ferry_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
