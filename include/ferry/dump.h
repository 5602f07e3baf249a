/* SPDX-License-Identifier: Apache-2.0 */
/* What lives in an engine, and what each operation waits for: for whoever looks why it hangs. */
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
    FERRY_DUMP_DOT = 1,  /* the operations and their edges as a digraph, for graphviz */
} ferry_dump_format;

/*
 * Takes a piece of the dump's text, valid during the call and without an ending zero; the pieces
 * follow each other. Called in the thread that dumps, which holds no lock: it may call ferry, and
 * wait unless that thread runs a callback.
 */
typedef void (*ferry_write_fn)(void *arg, const char *text, size_t size_bytes);

/*
 * Writes what lives in the engine. Any thread, at any time before ferry_engine_release: in a
 * callback, in embedded mode without progress, while others submit, during and after the shutdown.
 * It waits for no operation. It looks at some hundred operations at a time and lets others go on
 * while it writes them, so each of these pictures is consistent, and the whole is not: what ends
 * meanwhile may be missing, and an edge may name an operation that is not shown. What is submitted
 * while it is at work need not be shown. Like a submit it may do a share of the graph's work, and
 * after the shutdown callbacks that are due may run inside it (ferry.h).
 *  format  see above
 *  write   not NULL
 *  arg     handed to write
 * Takes memory from the engine's allocator, about 100 KiB, and gives it back. Returns FERRY_OK when
 * all was written; FERRY_E_INVALID for a NULL or a format that is none; FERRY_E_NO_MEMORY and
 * FERRY_E_BUSY (another dump of this engine is under way, the watchdog's included), and then
 * nothing was written; FERRY_E_FORKED.
 *
 * The JSON object, in UTF-8. Bytes of labels that are none show as U+FFFD; labels are cut at 127
 * bytes. Members may be added, and those without a value are left out.
 *  "engine"    "id", "version", "mode" ("thread", "embedded", "attached"), "closing", "stopped"
 *  "limits"    the options in force, by their names
 *  "pools"     of "nodes", "edges", "uses", "segments", "readers", "reserve": how many objects
 *              were "made" (and are kept for later), of a "limit"
 *  "tasks"     "posted": tasks that users' executors have and have not begun to run; "misrun": runs
 *              of what was not there to be run
 *  "graph"     "entering": operations submitted and not in the graph yet, counted up to 256;
 *              "starved": the oldest of those waits for room
 *  "promises"  those that are not resolved, oldest first; members as in "nodes"
 *  "nodes"     operations that are not over, in program order. Each has
 *      "id", "kind", "label", "size_bytes", "device";
 *      "age_ns"     since it was submitted, or entered the graph if that was later, to the
 *                   kernel's tick. While many come within one, only some look at the clock, so
 *                   up to 31 that came after a pause may have the age of the one before the
 *                   pause; not with a watchdog, and not by a clock of the user's
 *      "state"      "waiting" (something holds its start), "ready" (nothing does, or a copy's
 *                   device could not wait for all that it was to), "issued" (it
 *                   stands in its stream, or its function was handed out), "resolved" (its
 *                   future is, and it is not quiet), "quiet" (it is, and what it was ordered
 *                   behind is not: who comes later must still wait)
 *      "status"     of its future, if that is resolved: "FERRY_E_CANCELLED"
 *      "not_quiet"  "hardware", "function", "member" or, of a batch or an `all`, "operations": what
 *                   is still at work though it is resolved
 *      "waits_for"  "operations" (see "waits"), "stream" (room in it), "device" (that it fires),
 *                   "loop", "executor" (that it runs the task), "function" (that it returns),
 *                   "outside" (that the promise is resolved)
 *      "waits"      operations it waits for: "op", "nature" ("after", "read", "order", "any",
 *                   "issued", "quiet", of a drain "before": the oldest of all before it),
 *                   "where" ("host", or "device" if its stream waits); at most 8, "more" says
 *                   how many others hold it; of a batch "more" counts its operations, each of
 *                   which names the batch
 *      "batch"      the batch that counts it
 *      "priority"   "high" or "low"
 *      "flags"      any of "failing" (it will be failed as soon as the graph is worked on),
 *                   "cancel_requested", "fired" (its hardware or function has ended),
 *                   "refused_write" (it stands for a write that was refused)
 *      "deadline_in_ns"  negative if it has passed
 *  "lanes"     of each stream, those aside that wait for outside events and were never used:
 *              "device", "stream" (its number in the engine), "in_flight", "backlog" (operations
 *              shown above that wait for room in it), "issued" and "fired" (sequence numbers)
 *  "poisoned"  spans that may not be read: "buffer" (its address), "device", "begin", "end"
 *              (bytes in it), "wide" (the buffer as a whole, until all of it is written), and of
 *              the failure that is to blame "status", "op", "label"
 *  "totals"    how many were shown: "promises", "nodes", and of those of each state; "cut":
 *              there were more than were to be shown
 *  "not_quiet" numbers of up to 64 operations that are resolved and not quiet
 */
FERRY_API ferry_status ferry_engine_dump(ferry_engine *engine, ferry_dump_format format,
                                         ferry_write_fn write, void *arg);

#ifdef __cplusplus
}
#endif
#endif
