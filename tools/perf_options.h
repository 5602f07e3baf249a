/* SPDX-License-Identifier: Apache-2.0 */
/* Options of `ferry perf`. */
#ifndef PERF_OPTIONS_H
#define PERF_OPTIONS_H

#include "tools/member_options.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit status for a command line that can't be run. */
#define PERF_EXIT_USAGE 2

#define PERF_SIZES_MAX 64
#define PERF_SIZE_MAX_BYTES ((size_t)1 << 34)
#define PERF_COUNT_MAX ((uint64_t)1 << 32)
#define PERF_WINDOW_MAX 4096
#define PERF_DEVICE_BYTES 24 /* a device's name, with its end */
#define PERF_DEVICE_HOST "host:0"

/* What is measured. On the wire, so numbers stay. */
typedef enum perf_test {
    PERF_LAT = 0,    /* one message there, one back */
    PERF_BW = 1,     /* many under way, one direction */
    PERF_RATE = 2,   /* the same, counted as messages */
    PERF_BI = 3,     /* many under way, both directions */
    PERF_GET = 4,    /* rank 0 gets out of a window of rank 1's */
    PERF_PUT = 5,    /* rank 0 puts into it */
    PERF_NOTICE = 6, /* rate, of notices */
    PERF_PLAN = 7,   /* get, by plans */
} perf_test;

#define PERF_TEST_COUNT 8

/* "lat", "bw", "rate", "bi", "get", "put", "notice", "plan". */
extern const char *const perf_test_names[PERF_TEST_COUNT];

typedef enum perf_wait {
    PERF_WAIT_POLL = 0, /* looks all the time */
    PERF_WAIT_SLEEP,    /* looks for a moment, then sleeps */
} perf_wait;

/* The way that GPU memory goes. */
typedef enum perf_way {
    PERF_WAY_AUTO = 0, /* the best that there is */
    PERF_WAY_STAGING,
    PERF_WAY_IPC,
    PERF_WAY_NCCL,
    PERF_WAY_COUNT,
} perf_way;

/* "auto", "staging", "ipc", "nccl". */
extern const char *const perf_way_names[PERF_WAY_COUNT];

typedef struct perf_options {
    member_options meeting;             /* rank 0 drives and prints, 1 does as it is told */
    char devices[2][PERF_DEVICE_BYTES]; /* where messages lie, by rank */
    perf_way way;
    bool tests[PERF_TEST_COUNT];
    size_t sizes[PERF_SIZES_MAX]; /* in bytes, in the order they are measured */
    size_t size_count;            /* 0: the default ones */
    uint64_t iterations;          /* 0: as many as fit the time */
    uint64_t warmup;              /* UINT64_MAX: some */
    uint32_t window;              /* messages under way; 0: the test's default */
    double time_s;                /* of all measuring together, where `iterations` is 0 */
    bool is_batch;                /* messages are submitted as batches */
    bool is_checked;              /* the bytes are looked at */
    bool is_shared;               /* windows are in FERRY_MEMORY_SHARED */
    bool has_thread;              /* an engine with a loop thread of its own; else embedded */
    perf_wait wait;
    int cpus[2]; /* of each rank's main thread; -1: any */
    bool is_json;
} perf_options;

/*
 * Parses the command line; argv[0] is the command as shown in messages. Does not return on --help
 * (exit 0) or on a mistake (message on stderr, exit PERF_EXIT_USAGE).
 */
void perf_options_parse(perf_options *options, int argc, char **argv);

#endif
