/* SPDX-License-Identifier: Apache-2.0 */
/* Seeing: one fixed-size record a transition, to hooks and to the flight recorder. */
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
    X(FERRY_TRACE_FIRED, 4, "fired")                                                               \
    X(FERRY_TRACE_RESOLVED, 5, "resolved")                                                         \
    X(FERRY_TRACE_QUIET, 6, "quiet")                                                               \
    X(FERRY_TRACE_CANCEL, 7, "cancel")

#define FERRY_TRACE_ENUM_(name, value, text) name = (value),
/*
 * Which transition a record tells of. What fails before nothing holds it is never READY, a promise
 * never READY or ISSUED; FIRED is told of copies, CANCEL of a request the loop has taken up.
 */
typedef enum ferry_trace_what { FERRY_TRACE_MAP(FERRY_TRACE_ENUM_) } ferry_trace_what;
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
    X(FERRY_OP_QUIET, 10, "quiet")

#define FERRY_OP_KIND_ENUM_(name, value, text) name = (value),
/* What an operation is. */
typedef enum ferry_op_kind { FERRY_OP_KIND_MAP(FERRY_OP_KIND_ENUM_) } ferry_op_kind;
#undef FERRY_OP_KIND_ENUM_

/* 64 bytes, one cache line. */
typedef struct ferry_trace_record {
    int64_t when_ns;     /* on the engine's clock */
    uint64_t op;         /* ferry_future_id */
    uint64_t flow;       /* joins the two ends of a transfer; today the op itself */
    uint64_t size_bytes; /* bytes moved, 0 if none */
    uint64_t waited_for; /* op that held a READY one last; 0: none, or another record */
    const char *label;   /* the operation's label, or NULL; the pointer given at submit */
    int32_t status;      /* RESOLVED: its status; else FERRY_PENDING */
    uint16_t device;     /* index of the device, 65535 none */
    uint16_t stream;     /* index of the stream among its backend's, 65535 none */
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

#ifdef __cplusplus
}
#endif
#endif
