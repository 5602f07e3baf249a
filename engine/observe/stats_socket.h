/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket for figures (ferry_engine_options.stats_path): other processes of this user ask there
 * for the engine's figures and for a dump. A thread serves it, which sleeps while nobody connects.
 *
 * A client sends one line, "stats" or "dump", gets one JSON object, and the connection ends:
 *  stats  "format" (1), "version" (of ferry), "pid", "engine" (its number in the process),
 * "time_ns" (CLOCK_MONOTONIC), and the fields of ferry_stats by their names. "resolved_by_kind",
 *         "bytes_by_way" and "failures" are objects with a count for each kind, way and status that
 *         has one; "latency_counts" is an array
 *  dump   what ferry_engine_dump writes, of the oldest operations and promises: "cut" in its
 *         "totals" says whether there are more
 * If there is no such answer, the object has "error", the name of a status, and "message".
 */
#ifndef FRY_ENGINE_OBSERVE_STATS_SOCKET_H
#define FRY_ENGINE_OBSERVE_STATS_SOCKET_H

#include "base/fault.h"

#include <ferry/stats.h>

typedef ferry_status (*fry_stats_socket_read_fn)(ferry_engine *engine, const ferry_scope *scope,
                                                 ferry_stats *stats);

/*
 * Begins to serve the engine at a path, NULL: nowhere. The engine can be dumped already. `read` is
 * ferry_stats_read, which stands above. FERRY_OK; or the status of the fault.
 */
ferry_status fry_stats_socket_open(ferry_engine *engine, const char *path,
                                   fry_stats_socket_read_fn read, fry_fault *fault);

/*
 * Ends that, and removes the file. Waits for the thread: for a dump that it copies, not for
 * clients. May be called again. Before the loop stops: after that, who dumps may have to run
 * callbacks.
 */
void fry_stats_socket_close(ferry_engine *engine);

/* How long a client may take to send its line, and to take the answer; tests make it shorter. */
extern int64_t fry_test_stats_patience_ns;

#endif
