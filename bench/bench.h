/* SPDX-License-Identifier: Apache-2.0 */
/* What all cases share: time, failing, engines, and the simplest graphs. */
#ifndef FRY_BENCH_BENCH_H
#define FRY_BENCH_BENCH_H

#include "bench/report.h"

#include <ferry/ferry.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The cases. `is_quick`: fewer rounds and smaller ends of the ranges. */
void bench_graph(bool is_quick);
void bench_submit(bool is_quick);
void bench_queue(bool is_quick);
void bench_scope(bool is_quick);
void bench_stats(bool is_quick);
void bench_batch(bool is_quick);
void bench_plan(bool is_quick);
void bench_reshard(bool is_quick);
void bench_wake(bool is_quick);
void bench_copy(bool is_quick);
void bench_overlap(bool is_quick);
void bench_scale(bool is_quick);
void bench_memory(bool is_quick);
void bench_idle(bool is_quick);
void bench_trace(bool is_quick);
/* Belongs to `trace`. */
void bench_trace_file(bool is_quick);
void bench_svg(bool is_quick);
void bench_loops(bool is_quick);
void bench_dump(bool is_quick);
void bench_libuv(bool is_quick); /* only where libuv is */
void bench_soak(bool is_quick);
void bench_p2p_lat(bool is_quick);
void bench_p2p_bw(bool is_quick);
void bench_p2p_rate(bool is_quick);
void bench_p2p_get(bool is_quick);
void bench_p2p_notice(bool is_quick);
void bench_p2p_plan(bool is_quick);
void bench_p2p_overlap(bool is_quick);
void bench_p2p_order(bool is_quick);
void bench_join(bool is_quick);
void bench_barrier(bool is_quick);
void bench_members_idle(bool is_quick);
void bench_await(bool is_quick);

/* CLOCK_MONOTONIC. */
int64_t bench_now_ns(void);

/* Keeps the CPU busy. */
void bench_spin_ns(int64_t duration_ns);

/* Leaves it to others. */
void bench_sleep_ns(int64_t duration_ns);

/* Says why on stderr and ends the process with status 1. */
_Noreturn void bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Path of the ferry tool, which lies beside this program's folder in the build tree; fails the
 * bench if it is not there. */
void bench_find_tool(char *path, size_t path_bytes);

/* Zeroed memory; fails the bench if there is none. Freed with free. */
void *bench_alloc(size_t size_bytes);

/* "64B", "4KiB", "16MiB", "1GiB". */
void bench_size_name(char *name, size_t name_bytes, size_t size_bytes);

/* Fails the bench unless the status is FERRY_OK. */
void bench_check(ferry_status status, const char *what);

/* An engine of these options (NULL: defaults); fails the bench if there is none. */
ferry_engine *bench_engine_open(const ferry_engine_options *options);

/* Shutdown and release. */
void bench_engine_close(ferry_engine *engine);

/* The device of a name, a buffer on it filled with `fill`; fail the bench otherwise. */
ferry_device *bench_device(ferry_engine *engine, const char *name);
ferry_buffer *bench_buffer(ferry_engine *engine, const char *device, size_t size_bytes, int fill);

/* Waits until the future resolved with FERRY_OK; fails the bench otherwise, or after a minute. */
void bench_wait(ferry_future *future);

/* Waits, then gives the reference back. */
void bench_finish(ferry_future *future);

/* A promise and its future, which the other operations of a held graph come after. */
typedef struct bench_gate {
    ferry_promise *promise;
    ferry_future *future;
} bench_gate;

bench_gate bench_gate_create(ferry_engine *engine);
void bench_gate_open(bench_gate *gate);
void bench_gate_release(bench_gate *gate);

/*
 * Submits a chain of nops, each after the one before, and waits for the last.
 *  is_held  a promise holds the head until all are submitted
 * Returns the time from the first submit to the last node seen resolved.
 */
int64_t bench_chain_ns(ferry_engine *engine, size_t nodes, bool is_held);

#endif
