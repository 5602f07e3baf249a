/* SPDX-License-Identifier: Apache-2.0 */
/* Dumps: what is alive in an engine and what each operation waits for, to find why it hangs. */
#ifndef FERRY_DUMP_H
#define FERRY_DUMP_H

#include <ferry/export.h>
#include <ferry/status.h>
#include <ferry/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Forms of a dump. */
typedef enum ferry_dump_format FERRY_INT_ENUM {
    FERRY_DUMP_JSON = 0, /* one JSON object, described below */
    FERRY_DUMP_DOT = 1,  /* the operations and their edges as a graph for graphviz */
} ferry_dump_format;

/*
 * Receives the next piece of the dump's text, valid during the call, without an ending zero. Runs
 * in the thread that dumps, which holds no lock: it may call ferry. It may wait, unless that thread
 * is running a callback.
 */
typedef void (*ferry_write_fn)(void *arg, const char *text, size_t size_bytes);

/*
 * Writes what is alive in the engine. Any thread, at any time before ferry_engine_release: in a
 * callback, in embedded mode without progress, while others submit, during and after the shutdown.
 * It waits for no operation. It looks at some hundred operations at a time and lets other threads
 * go on while it writes them. So each of these parts is consistent, but the whole is not:
 * operations that end meanwhile may be missing, and an edge may name an operation that is not
 * shown. Operations submitted meanwhile may be missing too. Like a submit, the call may do a share
 * of the graph's work; after the shutdown it may run callbacks that are due (ferry.h).
 *  format  see above
 *  write   not NULL
 *  arg     passed to write
 * Uses about 100 KiB of the engine's allocator during the call. Returns FERRY_OK when all was
 * written; FERRY_E_INVALID for a NULL or an invalid format; FERRY_E_NO_MEMORY, or FERRY_E_BUSY if
 * another dump of this engine is under way, also the watchdog's or one for `ferry top` (in both
 * cases nothing was written); FERRY_E_FORKED.
 *
 * The JSON object, in UTF-8. Labels are cut at 127 bytes; bytes of a label that are not UTF-8 show
 * as U+FFFD. Later versions may add members. Members without a value are left out.
 *  "engine"    "id", "version", "mode" ("thread", "embedded", "attached"), "closing", "stopped"
 *  "limits"    the options in force, by their names
 *  "pools"     for "nodes", "edges", "uses", "segments", "readers", "reserve": "made", the number
 *              of objects made so far (they are kept for later use), and their "limit"
 *  "tasks"     "posted": tasks posted to users' executors that have not begun to run; "misrun":
 *              runs of tasks that had been run before
 *  "graph"     "entering": operations submitted and not in the graph yet, counted up to 256;
 *              "starved": whether the oldest of these waits for room
 *  "promises"  the unresolved promises, oldest first; members as in "nodes"
 *  "nodes"     the operations that have not ended, in program order. Each has
 *      "id", "kind", "label", "size_bytes", "device"; a message also "peer", "tag"
 *      "age_ns"     time since it was submitted, or since it entered the graph if that was later,
 *                   to the kernel's tick. While many operations come within a tick, only some read
 *                   the clock, so up to 31 operations after a pause may have the age of the one
 *                   before the pause; not with a watchdog or a clock of the user
 *      "state"      "waiting" (something holds its start), "ready" (nothing holds it; or it is a
 *                   copy, and its device could not wait for all its predecessors), "issued" (it is
 *                   in its stream, or its function was handed out), "resolved" (its future has
 *                   resolved, and it is not quiet), "quiet" (it is quiet, but an operation before
 *                   it is not, and later operations must still wait for that one)
 *      "status"     its future's status, if resolved: "FERRY_E_CANCELLED"
 *      "not_quiet"  what still works for a resolved operation: "hardware", "function", "member",
 *                   "outside" (the promise of ferry_call_async was not resolved) or, for a batch or
 *                   ferry_future_all, "operations"
 *      "waits_for"  "operations" (see "waits"), "stream" (for room in it), "device" (to fire),
 *                   "member" (the other end of a message), "loop", "executor" (to run the task),
 *                   "function" (to return), "outside" (for the promise to be resolved), "rate"
 *                   (its scope's limit)
 *      "waits"      operations that it waits for, at most 8: "op"; "nature": "after", "read",
 *                   "order", "any", "issued", "quiet", for a drain "before" (the oldest operation
 *                   before it), also for a notice at the end of a batch (the batch); "where":
 *                   "host", or "device" if its stream waits
 *      "more"       number of further operations that it waits for; for a batch all of its own,
 *                   each of which names the batch; for a scope that is closed those that are not
 *                   quiet
 *      "batch"      the batch that counts it
 *      "priority"   "high" or "low"
 *      "flags"      any of "failing" (it fails when the graph is next worked on),
 *                   "cancel_requested", "fired" (its hardware or function has ended),
 *                   "refused_write" (it stands for a write that was refused), "untracked"
 *                   (FERRY_OP_UNTRACKED: it waits for nobody who uses the same bytes)
 *      "deadline_in_ns"  negative if the deadline has passed
 *  "lanes"     for each stream, except streams for outside events that were never used: "device",
 *              "stream" (its number in the engine), "in_flight", "backlog" (operations shown above
 *              that wait for room in it), "issued" and "fired" (sequence numbers)
 *  "poisoned"  poisoned spans: "buffer" (its address), "device", "begin", "end" (bytes in the
 *              buffer), "wide" (the whole buffer, until all of it is written), and "status", "op",
 *              "label" of the failure that caused it
 *  "totals"    numbers shown: "promises", "nodes", and the nodes of each state; "cut": whether
 *              there were more than could be shown
 *  "not_quiet" ids of up to 64 operations that are resolved and not quiet
 */
FERRY_API ferry_status ferry_engine_dump(ferry_engine *engine, ferry_dump_format format,
                                         ferry_write_fn write, void *arg);

#ifdef __cplusplus
}
#endif
#endif
