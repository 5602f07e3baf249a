/* SPDX-License-Identifier: Apache-2.0 */
/* Tracing: one record for each transition, for hooks, the flight recorder and the trace file. */
#ifndef FERRY_TRACE_H
#define FERRY_TRACE_H

#include <ferry/export.h>
#include <ferry/op.h>
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
 * The transition that a record describes. An operation that fails while others hold it is never
 * READY. A promise is never READY or ISSUED, and an event of the program is never READY. BEGUN is
 * recorded for functions, by the thread that runs them, and for copies by a device's own threads.
 * The latter is recorded when the copy is found to have FIRED, with the time at which the copy
 * began; that may be a moment before ISSUED, because a thread may begin before ferry has recorded
 * ISSUED. FIRED is recorded for copies, messages and events. CANCEL is recorded when the loop takes
 * up a request to cancel.
 */
typedef enum ferry_trace_what FERRY_INT_ENUM {
    FERRY_TRACE_MAP(FERRY_TRACE_ENUM_)
} ferry_trace_what;
#undef FERRY_TRACE_ENUM_

/* A trace record: 64 bytes, one cache line. Later versions may add fields at the end. */
typedef struct ferry_trace_record {
    int64_t when_ns; /* on the engine's clock */
    uint64_t op;     /* ferry_future_id */
    uint64_t flow;   /* joins the two ends of what goes between members: (rank of the sender + 1)
                        << 40 plus the sending operation's op. It is of a send and its receive,
                        of a notice and who took it, of a put and the receive that its owner's
                        engine makes, and of a get and the send that its owner's engine makes,
                        if it takes one; of what receives, once it has resolved. For other
                        operations: op */
    uint64_t size_bytes; /* bytes moved; 0: none */
    union {
        uint64_t waited_for; /* READY: the op that held this one last, 0: none */
        uint64_t user_data;  /* other transitions: the operation's; 0: none */
    };
    const char *label; /* the operation's label, or NULL; the pointer given at submit, unless the
                          label was copied */
    int32_t status;    /* RESOLVED: its status; else FERRY_PENDING */
    uint16_t device;   /* index of the device, 65535: none */
    uint16_t stream;   /* index of the stream in the engine, 65535: none */
    uint8_t what;      /* ferry_trace_what */
    uint8_t way;       /* RESOLVED with FERRY_OK, of a message of GPU memory: how its bytes went
                          (ferry_gpu_way: staging, ipc or nccl); else 0 */
    uint16_t kind;     /* ferry_op_kind */
    uint32_t thread;   /* number of the recording thread in this engine */
} ferry_trace_record;

/* Name of a transition ("issued"); "?" if unknown. Any thread; static string. */
FERRY_API const char *ferry_trace_what_name(ferry_trace_what what);

/*
 * The user's hooks. They are callbacks that run on the loop; they may call ferry, but must not
 * wait. `record` receives each record, valid during the call. Records of one recording thread come
 * in order; sort by when_ns to order those of several threads. `lost` receives the number of a
 * thread's records that were overwritten before they were read. A record wakes the loop, so with
 * hooks a loop that sleeps costs the thread that submits a system call for it.
 */
typedef struct ferry_trace_hooks {
    size_t struct_size; /* sizeof(ferry_trace_hooks) */
    void (*record)(void *arg, const ferry_trace_record *record);
    void (*lost)(void *arg, uint64_t count); /* may be NULL */
    void *arg;
} ferry_trace_hooks;

/*
 * Sets the engine's hooks, which replace earlier ones; NULL: none. Records made before are not
 * shown. After this call has returned, the old hooks may still be running on the loop. They have
 * ended once a waiter that was registered after the call, without an executor, has been called.
 * Hooks that are set when the shutdown begins must stay usable until the engine is released. A
 * shutdown that succeeds shows them all records of operations submitted before it.
 *  hooks  copied. struct_size is that of this header; record is not NULL
 * Returns FERRY_OK; FERRY_E_INVALID; FERRY_E_NO_MEMORY (then the hooks are as before);
 * FERRY_E_SHUTDOWN after the shutdown has begun; FERRY_E_FORKED.
 */
FERRY_API ferry_status ferry_engine_trace(ferry_engine *engine, const ferry_trace_hooks *hooks);

/*
 * Copies the newest records of the flight recorder (ferry_engine_options.flight_records) of all
 * threads, oldest first. Works until the engine is released, also after the shutdown. Uses memory
 * of the allocator during the call.
 *  records            room for `capacity` records
 *  record_size_bytes  sizeof(ferry_trace_record) in the caller's version: of larger records of the
 *                     library's it gets the first fields, and of smaller ones zeros behind them
 * Returns the number of records copied; 0 if the recorder is off, if there is no memory, if an
 * argument is NULL, for a size below 8 or above 4096, and in a fork's child.
 */
FERRY_API size_t ferry_engine_flight_records(ferry_engine *engine, ferry_trace_record *records,
                                             size_t record_size_bytes, size_t capacity);

/*
 * The trace file is a JSON array in Chrome's trace event format. Perfetto and chrome://tracing read
 * it, also if it was cut short. Each line holds one object, followed by a comma except in the last
 * two lines.
 *
 *   [
 *   {"name":"process_name","ph":"M",...}
 *   {"name":"thread_name","ph":"M","tid":4096,...,"args":{"name":"engine 1 host:0 stream 0"}}
 *                    names a row, ahead of the row's first line. tid is the engine's number * 4096
 *                    plus 0 to 1023 for streams; 4000 for functions, and 4002 to 4064 for functions
 *                    that ran at the same time; 4001 for operations that run nowhere
 *   {"name":LABEL or kind,"cat":"ferry","ph":"X","ts":,"dur":,...,"args":{"op":,"kind":,"status":,
 *    "bytes":,"waited_for":,"user_data":,"device":,"stream":,"submitted":,"ready":,"issued":,
 *    "begun":,"fired":,"resolved":}}   one slice for each operation, written when it has resolved
 *                    and no hardware or function works for it. The slice spans the operation from
 *                    begun to fired (copies) or resolved. If it is not known when a copy began, the
 *                    slice begins when the copy was issued, or when the copy before it in its
 *                    stream fired. An operation that never ran has "dur" 0, at the time it
 *                    resolved. Slices of a row do not overlap. What is unknown, and a user_data of
 *                    0, is left out
 *   {"name":"wait","ph":"b"/"e","id":,...}   from submitted to ready, if that is at least 1 us
 *   {"name":"released","ph":"s"/"f","id":,...}   an arrow from the operation that held this one
 *                    last, if that operation ended first
 *   {"name":"message","ph":"s"/"f","id":,...}   the two ends of a message, a notice, a put or a get
 *                    that succeeded: what sends where it was issued, what receives where it ended.
 *                    id is the records' flow, which is the same in the files of both processes. A
 *                    get that its owner took no part in has no other end, and no such line
 *   ...              at the end: the operations that have not ended, with "status":"FERRY_PENDING"
 *                    (and "may_have_ended":true if records were dropped since), then
 *   {"name":"ferry_end","ph":"M","args":{"records":,"dropped":,"unwritten":,"version":}}
 *                    numbers of records read and dropped, and of operations without a line, because
 *                    more than 65536 were between their records
 *   ]
 *
 * Times are absolute, by the engine's clock (by default CLOCK_MONOTONIC), in microseconds with
 * three decimals. Labels are cut to 1024 bytes and made valid UTF-8.
 */

/*
 * Opens a trace file. From now on a thread ("ferry-trace", which blocks all signals) writes the
 * records of all engines of this process, present and future, to the file. Engines never wait for
 * the file: records that come faster than it is written (ferry_engine_options.trace_records) are
 * dropped and counted. The file is flushed every few milliseconds, and when an engine is released,
 * which waits for that. Takes about 8 MB, and about 8 MB for each engine, not from the engines'
 * allocators; these supply the rings. Labels must stay alive until the file is closed or their
 * engine is released. The environment variable FERRY_TRACE names a file (%p becomes the process
 * id) that ferry opens when the first engine is created, and closes when the process exits.
 *  path  copied. The file is created or emptied. A named pipe blocks until it has a reader
 * Any thread. Returns FERRY_OK; FERRY_E_INVALID for NULL or ""; FERRY_E_BUSY if a trace file is
 * open; FERRY_E_SYSTEM if the file can't be written (logged on stderr) or the thread can't be
 * started; FERRY_E_NO_MEMORY; FERRY_E_FORKED in a child of a process that used ferry.
 */
FERRY_API ferry_status ferry_trace_open(const char *path);

/*
 * Closes the trace file: writes the records made before this call and the end of the file, and
 * waits until they are on disk. Any thread, also in a callback; blocks. Returns FERRY_OK;
 * FERRY_E_INVALID if no file is open; FERRY_E_SYSTEM if a write failed (the file's contents are
 * valid; what is missing is counted on stderr); FERRY_E_FORKED.
 */
FERRY_API ferry_status ferry_trace_close(void);

#ifdef __cplusplus
}
#endif
#endif
