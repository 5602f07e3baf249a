/* SPDX-License-Identifier: Apache-2.0 */
/* Seeing: one fixed-size record a transition, to hooks, the flight recorder and the trace file. */
#ifndef FERRY_TRACE_H
#define FERRY_TRACE_H

#include <ferry/export.h>
#include <ferry/status.h>
#include <ferry/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FERRY_TRACE_MAP(X)                                                                         \
    X(FERRY_TRACE_SUBMITTED, 1, "submitted")                                                       \
    X(FERRY_TRACE_READY, 2, "ready")                                                               \
    X(FERRY_TRACE_ISSUED, 3, "issued")                                                             \
    X(FERRY_TRACE_BEGUN, 4, "begun")                                                               \
    X(FERRY_TRACE_FIRED, 5, "fired")                                                               \
    X(FERRY_TRACE_RESOLVED, 6, "resolved")                                                         \
    X(FERRY_TRACE_QUIET, 7, "quiet")                                                               \
    X(FERRY_TRACE_CANCEL, 8, "cancel")

#define FERRY_TRACE_ENUM_(name, value, text) name = (value),
/*
 * Which transition a record tells of. What fails before nothing holds it is never READY, a promise
 * never READY or ISSUED. BEGUN is told of functions, in the thread that runs them, and of copies
 * that a device's own threads did, when they are found to have FIRED and with the earlier time,
 * which may even be a moment before ISSUED: a thread can be at it before that has been noted;
 * FIRED is told of copies and events, CANCEL of a request the loop has taken up. An event of the
 * program's is never READY.
 */
typedef enum ferry_trace_what FERRY_INT_ENUM {
    FERRY_TRACE_MAP(FERRY_TRACE_ENUM_)
} ferry_trace_what;
#undef FERRY_TRACE_ENUM_

#define FERRY_OP_KIND_MAP(X)                                                                       \
    X(FERRY_OP_NOP, 1, "nop")                                                                      \
    X(FERRY_OP_COPY, 2, "copy")                                                                    \
    X(FERRY_OP_CALL, 3, "call")                                                                    \
    X(FERRY_OP_PROMISE, 4, "promise")                                                              \
    X(FERRY_OP_ALL, 5, "all")                                                                      \
    X(FERRY_OP_ANY, 6, "any")                                                                      \
    X(FERRY_OP_DRAIN, 7, "drain")                                                                  \
    X(FERRY_OP_DEFINE, 8, "define")                                                                \
    X(FERRY_OP_ISSUED, 9, "issued")                                                                \
    X(FERRY_OP_QUIET, 10, "quiet")                                                                 \
    X(FERRY_OP_BATCH, 11, "batch")                                                                 \
    X(FERRY_OP_EVENT, 12, "event")                                                                 \
    X(FERRY_OP_SEND, 13, "send")                                                                   \
    X(FERRY_OP_RECV, 14, "recv")

#define FERRY_OP_KIND_ENUM_(name, value, text) name = (value),
/* What an operation is. */
typedef enum ferry_op_kind FERRY_INT_ENUM { FERRY_OP_KIND_MAP(FERRY_OP_KIND_ENUM_) } ferry_op_kind;
#undef FERRY_OP_KIND_ENUM_

/* 64 bytes, one cache line. */
typedef struct ferry_trace_record {
    int64_t when_ns;     /* on the engine's clock */
    uint64_t op;         /* ferry_future_id */
    uint64_t flow;       /* joins the two ends of a transfer: of a send, and once it is resolved of
                            its receive, (rank of the sender + 1) << 40 and the send's op; of all
                            else the op itself */
    uint64_t size_bytes; /* bytes moved, 0 if none */
    uint64_t waited_for; /* op that held a READY one last; 0: none, or another record */
    const char *label;   /* the operation's label, or NULL; the pointer given at submit */
    int32_t status;      /* RESOLVED: its status; else FERRY_PENDING */
    uint16_t device;     /* index of the device, 65535 none */
    uint16_t stream;     /* index of the stream among the engine's, 65535 none */
    uint16_t what;       /* ferry_trace_what */
    uint16_t kind;       /* ferry_op_kind */
    uint32_t thread;     /* number of the recording thread in this engine */
} ferry_trace_record;

/*
 * Name of a transition ("issued") or of a kind of operation ("copy"); "?" if unknown. Any thread;
 * static strings.
 */
FERRY_API const char *ferry_trace_what_name(ferry_trace_what what);
FERRY_API const char *ferry_op_kind_name(ferry_op_kind kind);

/*
 * The user's hooks: callbacks, on the loop only. `record` takes each record, valid during the call,
 * in order within a thread that recorded (not between threads: sort by when_ns); `lost` hears how
 * many of a thread's were overwritten before the loop came by. They may call ferry, but not wait.
 */
typedef struct ferry_trace_hooks {
    size_t struct_size; /* sizeof(ferry_trace_hooks) */
    void (*record)(void *arg, const ferry_trace_record *record);
    void (*lost)(void *arg, uint64_t count); /* may be NULL */
    void *arg;
} ferry_trace_hooks;

/*
 * Starts calling hooks (copied), or stops with NULL. Records made before are not shown. When a call
 * returns, the old hooks may still be running on the loop; they are not once a waiter registered
 * after it (with no executor of its own) has been called. Hooks that are on when the shutdown
 * begins must stay usable until the engine is released; a shutdown that succeeded has shown them
 * all records of what was submitted before it.
 *  hooks  struct_size as it is here; record not NULL
 * Returns FERRY_OK; FERRY_E_INVALID; FERRY_E_NO_MEMORY (then nothing changed but rings of memory);
 * FERRY_E_SHUTDOWN once the shutdown began; FERRY_E_FORKED.
 */
FERRY_API ferry_status ferry_engine_trace(ferry_engine *engine, const ferry_trace_hooks *hooks);

/*
 * Copies the newest records of the flight recorder (ferry_engine_options.flight_records) of all
 * threads, oldest first. Works until the engine is released, also after the shutdown. Takes memory
 * from the allocator meanwhile.
 *  records   room for `capacity`
 * Returns how many were copied; 0 if the recorder is off, there is no memory, an argument is NULL
 * or this is a fork's child.
 */
FERRY_API size_t ferry_engine_flight_records(ferry_engine *engine, ferry_trace_record *records,
                                             size_t capacity);

/*
 * The trace file: a JSON array in Chrome's trace event format, which Perfetto and chrome://tracing
 * read, also one that was cut short; one object a line, each but the last two with a comma behind.
 *
 *   [
 *   {"name":"process_name","ph":"M",...}
 *   {"name":"thread_name","ph":"M","tid":4096,...,"args":{"name":"engine 1 host:0 stream 0"}}
 *                    names a row, before its first line. tid is the engine's number * 4096 plus: 0
 *                    to 1023 streams; 4000 functions, and 4002 to 4064 those that ran beside them;
 *                    4001 what runs nowhere
 *   {"name":LABEL or kind,"cat":"ferry","ph":"X","ts":,"dur":,...,"args":{"op":,"kind":,"status":,
 *    "bytes":,"waited_for":,"device":,"stream":,"submitted":,"ready":,"issued":,"begun":,
 *    "fired":,"resolved":}}   an operation, once it is resolved and no hardware or function is at
 *                    work for it. It runs from begun to fired (copies) or resolved; a copy of which
 *                    that is not known from issued, or from when what it stood behind in its stream
 *                    had fired; what never ran has "dur" 0, where it was resolved. Slices of a
 *                    row don't overlap. What is not known is left out
 *   {"name":"wait","ph":"b"/"e","id":,...}   from submitted to ready, if that is at least 1 us
 *   {"name":"released","ph":"s"/"f","id":,...}   an arrow from the last operation that held it, if
 *                    that one ended first
 *   {"name":"message","ph":"s"/"f","id":,...}   the ends of a message that succeeded: the send's
 *                    where it was issued, the receive's where it ended; id is the record's flow,
 * the same in the files of both processes at the end: what has not ended, with
 * "status":"FERRY_PENDING" (and "may_have_ended":true if records were dropped since), then
 *   {"name":"ferry_end","ph":"M","args":{"records":,"dropped":,"unwritten":,"version":}}
 *                    records taken and dropped; operations whose line was given up, for there were
 *                    more than 65536 between
 *   ]
 *
 * Times are of the engine's clock (by default CLOCK_MONOTONIC), absolute, in microseconds with
 * three decimals. Labels are cut to 1024 bytes, and made valid UTF-8.
 */

/*
 * Opens a trace file: from now on all engines of this process, those there are and those to come,
 * are recorded into it, by a thread of its own ("ferry-trace", which blocks all signals). Engines
 * never wait for the file: what it can't follow (ferry_engine_options.trace_records) is dropped and
 * counted. It is flushed every few milliseconds and at each engine's release, which waits for it.
 * Takes about 8 MB for itself and for each engine, not through the engines' allocators; those give
 * the rings. Until it is closed labels must stay alive, or until their engine is released.
 * FERRY_TRACE in the environment names a file (%p becomes the process id) that is opened when the
 * first engine is created, and closed when the process exits.
 *  path  created, or emptied; copied. A named pipe blocks until it has a reader
 * Any thread. FERRY_OK; FERRY_E_INVALID for NULL or ""; FERRY_E_BUSY if one is open; FERRY_E_SYSTEM
 * if it can't be written (logged on stderr) or there is no thread; FERRY_E_NO_MEMORY;
 * FERRY_E_FORKED in a child of a process that used ferry, which can have no trace file.
 */
FERRY_API ferry_status ferry_trace_open(const char *path);

/*
 * Writes what was recorded before this call, and the end, waits until it is on disk, and closes the
 * file. Any thread, also a callback; blocks. FERRY_OK; FERRY_E_INVALID if none is open;
 * FERRY_E_SYSTEM if a write failed: what the file has is good, what lacks is counted on stderr;
 * FERRY_E_FORKED.
 */
FERRY_API ferry_status ferry_trace_close(void);

#ifdef __cplusplus
}
#endif
#endif
