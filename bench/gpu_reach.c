/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/reach.h"

/* For one H200. */
const bench_reach bench_reaches[] = {
    {.key = {"gpu-copy", "d2d-16MiB", "ratio", "?*"}, .is_least = true, .limit = 0.98},
    {.key = {"gpu-copy", "d2d-64MiB", "ratio", "?*"}, .is_least = true, .limit = 0.98},
    {.key = {"gpu-copy", "d2d-256MiB", "ratio", "?*"}, .is_least = true, .limit = 0.98},
    {.key = {"gpu-copy", "d2d-1GiB", "ratio", "?*"}, .is_least = true, .limit = 0.98},
    {.key = {"gpu-copy", "h2d-*[MG]iB", "ratio", "?*"}, .is_least = true, .limit = 0.98},
    {.key = {"gpu-copy", "d2h-*[MG]iB", "ratio", "?*"}, .is_least = true, .limit = 0.98},

    {.key = {"gpu-event", "spinning-over", "latency_ns", ""}, .limit = 3000},
    {.key = {"gpu-event", "spinning-over-waiting", "latency_ns", ""}, .limit = 3000},
    /* 5 % of the time in flight, at most 1 ms. */
    {.key = {"gpu-event", "asleep-1ms", "latency_ns", ""}, .limit = 5e4},
    {.key = {"gpu-event", "asleep-10ms", "latency_ns", ""}, .limit = 5e5},
    {.key = {"gpu-event", "asleep-100ms", "latency_ns", ""}, .limit = 1e6},

    {.key = {"gpu-chain", "100-device", "ratio", "by-hand"}, .limit = 1.1},
    {.key = {"gpu-chain", "1000-host", "ratio", "by-hand"}, .limit = 1.5},
    {.key = {"gpu-chain", "100-post", "ratio", "by-hand"}, .limit = 1.5},

    /* One by one, by hand and by ferry. */
    {.key = {"gpu-batch", "*-post", "ratio", "cudaMemcpyAsync"}, .is_least = true, .limit = 5},
    {.key = {"gpu-batch", "*-post", "ratio", "ferry_copy"}, .is_least = true, .limit = 5},

    {.key = {"gpu-pipeline", "forward", "ratio", "by-hand-highest"}, .limit = 1.05},

    {.key = {"gpu-poll", "flat-*", "ratio", ""}, .limit = 1.2},
    {.key = {"gpu-poll", "launch-words-*", "ratio", "idle"}, .limit = 1.02},

    {.key = {"gpu-hol", "*-beside", "latency_ns", ""}, .limit = 5e4},
    {.key = {"gpu-hol", "*-beside-device", "latency_ns", ""}, .limit = 5e4},
    {.key = {"gpu-hol", "*-beside-8", "latency_ns", ""}, .limit = 5e4},
    {.key = {"gpu-hol", "*-beside-device-8", "latency_ns", ""}, .limit = 5e4},
};

const size_t bench_reach_count = sizeof bench_reaches / sizeof bench_reaches[0];
