/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/reach.h"

const bench_reach bench_reaches[] = {
    /* A node that does nothing, and rivals on the same graphs (their time over ferry's). */
    {.key = {"graph", "chain-held", "ns_per_node", ""}, .limit = 90},
    {.key = {"graph", "*-held", "ns_per_node", ""}, .limit = 150},
    {.key = {"graph", "*-open", "ns_per_node", ""}, .limit = 150},
    {.key = {"graph", "*-2sub", "ns_per_node", ""}, .limit = 150},
    {.key = {"graph", "*", "ratio", "?*"}, .is_least = true, .limit = 1},
    {.key = {"submit", "over-memcpy", "latency_ns", ""},
     .limit = 150,
     .ferry_case = "copy-64",
     .rival_case = "memcpy-64"},
    {.key = {"queue", "over-nothing", "latency_ns", ""}, .limit = 25},
    {.key = {"stats", "over-nothing", "latency_ns", ""}, .limit = 1},
    {.key = {"scope", "limit-1GB", "off_by", ""}, .limit = 0.02},
    {.key = {"scope", "cpu", "ratio", "?*"}, .limit = 1.05},
    {.key = {"batch", "batch-gain", "ratio", ""},
     .is_least = true,
     .limit = 2,
     .ferry_case = "batch",
     .rival_case = "one-by-one"},

    {.key = {"wake", "asleep", "ratio", "?*"}, .limit = 1.3},
    {.key = {"wake", "spinning", "latency_ns", ""}, .limit = 1000},
    {.key = {"loops", "*", "ratio", "?*"}, .limit = 1.1, .rival_case = "*-thread"},
    {.key = {"libuv", "*", "ratio", "?*"}, .limit = 1.3},
    {.key = {"libuv", "*", "wakeups", ""}, .limit = 0},
    {.key = {"idle", "*", "wakeups", ""}, .limit = 0},
    {.key = {"await", "over", "latency_ns", ""}, .limit = 30},

    {.key = {"copy", "*[0-9]MiB", "ratio", "?*"}, .is_least = true, .limit = 0.95},
    {.key = {"overlap", "pipeline", "efficiency", ""}, .is_least = true, .limit = 0.97},
    {.key = {"overlap", "pipeline", "ratio", "?*"}, .limit = 0.75},

    {.key = {"scale", "total", "ratio", ""}, .limit = 1.5},
    {.key = {"scale", "live", "ratio", ""}, .limit = 3},
    {.key = {"scale", "slices", "ratio", ""}, .limit = 2},
    {.key = {"memory", "node", "bytes_per_node", ""}, .limit = 256},
    {.key = {"memory", "*", "heap_calls", ""}, .limit = 0},

    {.key = {"trace", "off-branch", "latency_ns", ""}, .limit = 1},
    {.key = {"trace", "on", "latency_ns", ""}, .limit = 40},
    {.key = {"trace", "file", "latency_ns", ""}, .limit = 100},
    {.key = {"svg", "1e5-operations", "duration_ns", ""}, .limit = 2e9},
    {.key = {"soak", "growth", "rss_bytes", ""}, .limit = 1 << 20},
    {.key = {"soak", "steady", "heap_calls", ""}, .limit = 0},
    {.key = {"dump", "submit-beside-dump", "latency_ns", ""}, .is_p99 = true, .limit = 1e6},

    /* Two processes, beside raw UCX; groups of many. */
    {.key = {"p2p-lat", "8B-shm-over", "latency_ns", ""},
     .limit = 400,
     .ferry_case = "8B-shm",
     .rival_case = "8B-shm"},
    {.key = {"p2p-lat", "8B-tcp", "ratio", "?*"}, .limit = 1.1},
    {.key = {"p2p-bw", "*", "ratio", "?*"}, .is_least = true, .limit = 0.97},
    {.key = {"p2p-rate", "8B-each", "records_per_s", ""}, .is_least = true, .limit = 4e6},
    {.key = {"p2p-rate", "8B-batch", "ratio", "?*"}, .is_least = true, .limit = 0.6},
    {.key = {"p2p-get", "8B-shm-over", "latency_ns", ""},
     .limit = 300,
     .ferry_case = "8B-shm",
     .rival_case = "8B-shm"},
    {.key = {"p2p-get", "*", "ratio", "?*"}, .is_least = true, .limit = 0.97},
    {.key = {"p2p-put", "*", "ratio", "?*"}, .limit = 1},
    {.key = {"p2p-overlap", "64MiB", "ratio", "control"}, .limit = 1.05},
    {.key = {"p2p-order", "*", "ratio", "?*"}, .limit = 1.2},
    {.key = {"join", "file-64", "duration_ns", ""}, .limit = 1e9},
    {.key = {"join", "etcd-64", "duration_ns", ""}, .limit = 2e9},
    {.key = {"barrier", "*", "ratio", "?*"}, .limit = 3},
    {.key = {"members-idle", "*", "cpu_share", ""}, .limit = 0.001},
};

const size_t bench_reach_count = sizeof bench_reaches / sizeof bench_reaches[0];
