/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a call is refused: one list of reasons, each with a status and a sentence. Each reason has a
 * static error with the sentence, and in each engine a static future that failed with this error,
 * so a refusal takes no memory. The log has the same sentence.
 *
 * A sentence names the argument and what is wrong with it, in the words of the public headers.
 */
#ifndef FRY_ENGINE_GROUND_REFUSAL_H
#define FRY_ENGINE_GROUND_REFUSAL_H

#include "futures/futures.h"

/* name, status, sentence */
#define FRY_REFUSAL_MAP(X)                                                                         \
    X(TAKEN, FERRY_OK, "the call was not refused")                                                 \
    /* the engine */                                                                               \
    X(ENGINE_NULL, FERRY_E_INVALID, "the engine is NULL")                                          \
    X(FORKED, FERRY_E_FORKED, "the engine belongs to the parent process")                          \
    X(SHUTDOWN, FERRY_E_SHUTDOWN, "the engine is shutting down or was shut down")                  \
    /* room */                                                                                     \
    X(NO_MEMORY, FERRY_E_NO_MEMORY, "out of memory for this request")                              \
    X(MAX_NODES, FERRY_E_AGAIN,                                                                    \
      "max_nodes is reached: operations, promises and futures still held")                         \
    X(MAX_EDGES, FERRY_E_AGAIN, "max_edges is reached: waits of operations for others")            \
    X(MAX_ACCESSES, FERRY_E_AGAIN, "max_accesses is reached: spans of operations' options")        \
    X(QUEUE_FULL, FERRY_E_AGAIN,                                                                   \
      "the completion queue has no room: depth records are promised or were not taken")            \
    X(BARRED, FERRY_E_AGAIN, "a refused write of one of the buffers has not been recorded yet")    \
    X(WRITABLES, FERRY_E_AGAIN, "the caller holds 16 resolved futures of ferry_engine_writable")   \
    /* handles */                                                                                  \
    X(FUTURE_NULL, FERRY_E_INVALID, "the future is NULL")                                          \
    X(PROMISE_NULL, FERRY_E_INVALID, "the promise is NULL")                                        \
    X(GROUP_NULL, FERRY_E_INVALID, "the group is NULL")                                            \
    X(DEVICE_NULL, FERRY_E_INVALID, "the device is NULL")                                          \
    /* options of operations */                                                                    \
    X(OPTIONS_SIZE, FERRY_E_INVALID,                                                               \
      "struct_size of the operation's options is invalid, or unknown fields are set: use "         \
      "FERRY_OP_OPTIONS_INIT")                                                                     \
    X(AFTER_ARRAY, FERRY_E_INVALID, "after is NULL and after_count is not 0")                      \
    X(AFTER_COUNT, FERRY_E_INVALID, "after_count is above 2^20 or a quarter of max_edges")         \
    X(AFTER_NULL, FERRY_E_INVALID, "a future in after is NULL")                                    \
    X(AFTER_ENGINE, FERRY_E_INVALID, "a future in after belongs to another engine")                \
    X(ACCESS_ARRAY, FERRY_E_INVALID, "accesses is NULL and access_count is not 0")                 \
    X(ACCESS_COUNT, FERRY_E_INVALID,                                                               \
      "access_count is above 2^16, an eighth of max_accesses or a quarter of max_edges")           \
    X(ACCESS_MODE, FERRY_E_INVALID, "the mode of an access is not a ferry_access_mode")            \
    X(PRIORITY, FERRY_E_INVALID, "priority is not a ferry_priority")                               \
    X(QUEUE_ENGINE, FERRY_E_INVALID, "the completion queue belongs to another engine")             \
    X(SCOPE_ENGINE, FERRY_E_INVALID, "the scope belongs to another engine")                        \
    X(SCOPE_CLOSED, FERRY_E_INVALID, "the scope is closed")                                        \
    X(SCOPE_CANCELLED, FERRY_E_CANCELLED, "the scope was cancelled")                               \
    X(SCOPE_NULL, FERRY_E_INVALID, "scope is NULL")                                                \
    X(OPTIONS_FLAGS, FERRY_E_INVALID,                                                              \
      "flags in the operation's options has bits that this version does not know")                 \
    /* spans */                                                                                    \
    X(SPAN_NULL, FERRY_E_INVALID, "the buffer of a span is NULL")                                  \
    X(SPAN_ENGINE, FERRY_E_INVALID, "the buffer of a span belongs to another engine")              \
    X(SPAN_OUTSIDE, FERRY_E_INVALID, "a span reaches past the end of its buffer")                  \
    X(SPAN_EMPTY, FERRY_E_INVALID, "the span has no bytes")                                        \
    X(SPAN_SOURCE, FERRY_E_INVALID,                                                                \
      "the operation writes a buffer whose memory is given as `source`, to be read only")          \
    /* copies */                                                                                   \
    X(COPY_SIZES, FERRY_E_INVALID, "dst and src differ in size")                                   \
    X(COPY_OVERLAP, FERRY_E_INVALID, "dst and src overlap")                                        \
    X(COPY_BACKENDS, FERRY_E_UNSUPPORTED,                                                          \
      "dst and src are on devices of two backends: copy through a host buffer")                    \
    X(ROWS_PITCH, FERRY_E_INVALID, "a pitch is smaller than its rows")                             \
    X(ROWS_OVERFLOW, FERRY_E_INVALID, "a pitch times row_count overflows a size_t")                \
    X(ROWS_OUTSIDE, FERRY_E_INVALID, "the last row reaches past the end of its buffer")            \
    X(ROWS_COUNT, FERRY_E_INVALID, "row_count is above 65536, and the rows are not contiguous")    \
    X(ROWS_ROOM, FERRY_E_INVALID, "row_count is above what max_accesses allows")                   \
    /* functions and executors */                                                                  \
    X(CALL_FN, FERRY_E_INVALID, "fn is NULL")                                                      \
    X(BEGIN_FN, FERRY_E_INVALID, "begin is NULL")                                                  \
    X(EXECUTOR, FERRY_E_INVALID, "the executor's struct_size is invalid, or its post is NULL")     \
    /* futures of futures */                                                                       \
    X(COMBINE_ARRAY, FERRY_E_INVALID, "futures is NULL and count is not 0")                        \
    X(COMBINE_COUNT, FERRY_E_INVALID, "count is above 2^20 or a quarter of max_edges")             \
    X(ANY_COUNT, FERRY_E_INVALID, "count is 0: ferry_future_any needs at least one future")        \
    /* batches */                                                                                  \
    X(BATCH_ARRAY, FERRY_E_INVALID, "ops is NULL and count is not 0")                              \
    X(BATCH_COUNT, FERRY_E_INVALID, "count is above 2^20")                                         \
    X(BATCH_OP_SIZE, FERRY_E_INVALID, "op_size_bytes is not the size of a ferry_op")               \
    X(BATCH_OP_TAIL, FERRY_E_INVALID, "the operation sets fields that this version does not know") \
    X(BATCH_OP_KIND, FERRY_E_INVALID,                                                              \
      "the operation's kind is not copy, call, async, nop, send, recv, get, put or notice")        \
    X(BATCH_NOTICE, FERRY_E_INVALID,                                                               \
      "an operation that is no notice is behind this notice, which is to be at the batch's end")   \
    X(BATCH_ACCESSES, FERRY_E_INVALID,                                                             \
      "a batch's own options name accesses: name them in its operations' options")                 \
    /* outside events */                                                                           \
    X(EVENT_NULL, FERRY_E_INVALID, "native_event is NULL")                                         \
    X(EVENT_INVALID, FERRY_E_INVALID,                                                              \
      "the event or its stream does not belong to the device's GPU")                               \
    X(EVENT_DEVICE, FERRY_E_UNSUPPORTED, "the device has no native streams")                       \
    X(EVENT_CAPTURE, FERRY_E_CAPTURE,                                                              \
      "the stream is being captured, or the event was recorded in a capture")                      \
    X(EVENT_AGAIN, FERRY_E_AGAIN,                                                                  \
      "too many unfired events on this stream, or too many streams with unfired events")           \
    X(WAIT_ENGINE, FERRY_E_INVALID,                                                                \
      "the future and the stream's device belong to different engines")                            \
    /* messages */                                                                                 \
    X(GROUP_ENGINE, FERRY_E_INVALID, "the group belongs to another engine")                        \
    X(GROUP_NOT_JOINED, FERRY_E_INVALID, "the group has not been joined")                          \
    X(GROUP_DEAD, FERRY_E_DEAD, "this member has left the group, or the group has ended")          \
    X(GROUP_FENCED, FERRY_E_FENCED, "this member was declared dead, or another has its place")     \
    X(UNEXPECTED_MAX, FERRY_E_AGAIN,                                                               \
      "unexpected_max is reached: messages that wait for their other end")                         \
    X(MESSAGE_RANK, FERRY_E_NOT_FOUND, "the group has no member of that rank")                     \
    X(MESSAGE_TAG_ANY, FERRY_E_INVALID,                                                            \
      "the tag is FERRY_TAG_ANY, and the group has any_source_max: a send needs a tag")            \
    X(ANY_SOURCE_OFF, FERRY_E_INVALID,                                                             \
      "any_source_max of the group is 0: no probes, and no receives of any member")                \
    X(ANY_SOURCE_MAX, FERRY_E_AGAIN,                                                               \
      "any_source_max is reached: probes, and receives of any member or tag, that wait")           \
    X(ANY_SOURCE_ALONE, FERRY_E_DEAD, "no other member of the group is left that could send")      \
    X(MESSAGE_DEVICE, FERRY_E_UNSUPPORTED,                                                         \
      "the span is on a device that messages can't reach: copy through a host buffer")             \
    X(DEADLINE, FERRY_E_DEADLINE, "the deadline is negative, so it has passed")                    \
    /* windows */                                                                                  \
    X(WINDOW_NULL, FERRY_E_INVALID, "the window, or window_p, is NULL")                            \
    X(WINDOW_ENGINE, FERRY_E_INVALID, "the window belongs to another engine")                      \
    X(WINDOW_NAME, FERRY_E_INVALID,                                                                \
      "name is not 1 to 128 of A-Z a-z 0-9 . _ - /, or has a part that is empty or dots alone")    \
    X(WINDOW_RIGHTS, FERRY_E_INVALID, "rights is none of ferry_window_rights")                     \
    X(WINDOW_RANK, FERRY_E_INVALID,                                                                \
      "the owner is this member itself: its windows are its own memory")                           \
    X(WINDOW_OWN, FERRY_E_INVALID, "the window is this member's own: use ferry_copy")              \
    X(WINDOW_CLOSED, FERRY_E_INVALID, "the window was closed before")                              \
    X(WINDOW_RIGHT, FERRY_E_INVALID, "the window's rights do not allow this")                      \
    X(WINDOW_OUTSIDE, FERRY_E_INVALID, "the bytes reach past the end of the window")               \
    /* symmetric memory */                                                                         \
    X(SYMMETRIC_NULL, FERRY_E_INVALID, "symmetric_p is NULL")                                      \
    X(SYMMETRIC_NAME, FERRY_E_INVALID,                                                             \
      "name is not 1 to 64 of A-Z a-z 0-9 . _ - /, or has a part that is empty or dots alone")     \
    X(SYMMETRIC_SIZE, FERRY_E_INVALID, "size_bytes is 0 or above 2^48 - 1")                        \
    X(SYMMETRIC_ENGINE, FERRY_E_INVALID, "the device belongs to another engine")                   \
    X(SYMMETRIC_OPEN, FERRY_E_UNSUPPORTED, "the group is open: its members come and go")           \
    X(SYMMETRIC_DEVICE, FERRY_E_CHANGED,                                                           \
      "this member has memory of that name and size, on another device")                           \
    X(SYMMETRIC_NAMES, FERRY_E_AGAIN,                                                              \
      "this member has asked for 65536 names and sizes of symmetric memory in the group")          \
    /* notices */                                                                                  \
    X(NOTICE_DATA, FERRY_E_INVALID, "data is NULL, and size_bytes is not 0")                       \
    X(NOTICE_SIZE, FERRY_E_INVALID, "size_bytes is above FERRY_NOTICE_BYTES_MAX")                  \
    /* plans */                                                                                    \
    X(PLAN_NULL, FERRY_E_INVALID, "the plan, or plan_p, is NULL")                                  \
    X(PLAN_OP_OPTIONS, FERRY_E_INVALID,                                                            \
      "an operation of a plan has after, a deadline, user_data, a queue or a scope: these are "    \
      "options of its posts")                                                                      \
    X(PLAN_OP_KIND, FERRY_E_INVALID,                                                               \
      "the operation's kind is not copy, call, async, nop, send, recv, get, put or notice, or it " \
      "is a receive with any source")                                                              \
    X(PLAN_OVERLAPS, FERRY_E_INVALID, "the operations' spans overlap in too many ways")            \
    X(PLAN_PICKS, FERRY_E_INVALID, "picks is NULL and pick_count is not 0")                        \
    X(PLAN_PICK, FERRY_E_INVALID, "a pick is not below the number of the plan's operations")       \
    X(PLAN_DEVICE, FERRY_E_INVALID, "the device is not the plan's GPU")                            \
    X(PLAN_NO_GRAPH, FERRY_E_UNSUPPORTED,                                                          \
      "the plan's operations are not all copies by streams of one GPU that has graphs")            \
    X(PLAN_PICK_TWICE, FERRY_E_INVALID, "a pick is repeated")                                      \
    X(PLAN_ACCESSES, FERRY_E_INVALID,                                                              \
      "the post's spans are above an eighth of max_accesses or a quarter of max_edges: pick "      \
      "fewer operations, or use FERRY_OP_UNTRACKED")                                               \
    /* groups: joining */                                                                          \
    X(JOIN_NULL, FERRY_E_INVALID, "options or group_p is NULL")                                    \
    X(JOIN_SIZE_OF, FERRY_E_INVALID,                                                               \
      "struct_size of the group's options is invalid, or unknown fields are set: use "             \
      "FERRY_GROUP_OPTIONS_INIT")                                                                  \
    X(JOIN_STORE, FERRY_E_INVALID, "store is NULL, empty or longer than 4096 bytes")               \
    X(JOIN_JOB, FERRY_E_INVALID, "job is not 1 to 64 of A-Z a-z 0-9 . _ -, or is dots alone")      \
    X(JOIN_PLACE, FERRY_E_INVALID, "place is not 1 to 64 of A-Z a-z 0-9 . _ -, or is dots alone")  \
    X(JOIN_PLACE_NONE, FERRY_E_INVALID, "place is \"-\", which says that there is none")           \
    X(JOIN_SIZE_MAX, FERRY_E_INVALID, "size or size_min is above 4096")                            \
    X(JOIN_RANK_OF_ANY, FERRY_E_INVALID, "size is 0 and has_rank is set")                          \
    X(JOIN_RANK_UNSAID, FERRY_E_INVALID, "rank is set and has_rank is not")                        \
    X(JOIN_RESERVED, FERRY_E_INVALID, "reserved in the group's options is not zero")               \
    X(JOIN_SIZE_DEADLINE, FERRY_E_INVALID,                                                         \
      "size is 0 and deadline_ns is 0: without a deadline the members cannot be counted")          \
    X(JOIN_RANK, FERRY_E_INVALID, "rank is not below size")                                        \
    X(JOIN_KIND, FERRY_E_INVALID, "kind is none of ferry_group_kind")                              \
    X(JOIN_OPEN_SIZE, FERRY_E_INVALID, "an open group needs a size, and a size_min of 0 or 1")     \
    X(JOIN_EVENTS, FERRY_E_INVALID, "events_max is above 65536")                                   \
    X(JOIN_SECRET_SIZE, FERRY_E_INVALID, "secret_bytes is not 16 to 1024")                         \
    X(JOIN_SECRET_NULL, FERRY_E_INVALID, "secret is NULL and secret_bytes is not 0")               \
    X(JOIN_DEVICES, FERRY_E_INVALID, "device_count is above 65535")                                \
    X(JOIN_LEASE, FERRY_E_INVALID, "lease_ns is not from 2 s to 1 h")                              \
    X(JOIN_TEXT, FERRY_E_INVALID, "network or one of the store's texts is longer than 4096 bytes") \
    X(JOIN_MESSAGES, FERRY_E_INVALID, "window_messages or unexpected_max is not 1 to 2^24")        \
    X(JOIN_GPU_WAY, FERRY_E_INVALID, "gpu_way is none of ferry_gpu_way")                           \
    X(JOIN_ANY_SOURCE, FERRY_E_INVALID, "any_source_max is above 2^24")                            \
    X(JOIN_ANY_SOURCE_WAY, FERRY_E_INVALID,                                                        \
      "any_source_max is set and gpu_way is NCCL or ALL: such receives can't go over NCCL")        \
    X(JOIN_WINDOW, FERRY_E_INVALID, "window_bytes is not 1 to 2^40")                               \
    /* groups: asking */                                                                           \
    X(KEY, FERRY_E_INVALID,                                                                        \
      "key is not 1 to 128 of A-Z a-z 0-9 . _ - /, or has a part that is empty or dots alone")     \
    X(VALUE_SIZE, FERRY_E_INVALID, "size_bytes is above 64 KiB")                                   \
    X(VALUE_NULL, FERRY_E_INVALID, "data is NULL and size_bytes is not 0")                         \
    X(BARRIER_NAME, FERRY_E_INVALID, "name is not 1 to 64 of A-Z a-z 0-9 . _ -, or is dots alone") \
    X(BARRIER_SIZE_OF, FERRY_E_INVALID,                                                            \
      "struct_size of the barrier's options is invalid, or unknown fields are set: use "           \
      "FERRY_BARRIER_OPTIONS_INIT")                                                                \
    X(BARRIER_MEMBERS, FERRY_E_INVALID,                                                            \
      "only one of members and member_count is set, or member_count is above 4096")                \
    X(BARRIER_RESERVED, FERRY_E_INVALID, "reserved in the barrier's options is not zero")          \
    X(BARRIER_OPEN, FERRY_E_INVALID, "the group is open: its barriers name their members")         \
    X(BARRIER_RANK, FERRY_E_INVALID, "members names a rank that the group does not have")          \
    X(BARRIER_TWICE, FERRY_E_INVALID, "members names a rank twice")                                \
    X(BARRIER_OWN, FERRY_E_INVALID, "members does not name the caller's own rank")

#define FRY_REFUSAL_ENUM_(name, status, text) FRY_REFUSED_##name,
typedef enum fry_refusal { FRY_REFUSAL_MAP(FRY_REFUSAL_ENUM_) FRY_REFUSALS } fry_refusal;
#undef FRY_REFUSAL_ENUM_
#define FRY_TAKEN FRY_REFUSED_TAKEN

ferry_status fry_refusal_status(fry_refusal why);

/* Whether the call was valid but found no room or memory: FERRY_E_AGAIN or FERRY_E_NO_MEMORY. */
static inline bool fry_refusal_is_want(fry_refusal why)
{
    ferry_status status = fry_refusal_status(why);
    return status == FERRY_E_AGAIN || status == FERRY_E_NO_MEMORY;
}

/*
 * Whether what the operation was to write is poisoned: it was valid, and was not done for want, or
 * because it was cancelled before.
 */
static inline bool fry_refusal_poisons(fry_refusal why)
{
    return fry_refusal_is_want(why) || why == FRY_REFUSED_SCOPE_CANCELLED;
}

/* The static error of a reason, for the refused future and as cause for its dependents. */
fry_error *fry_refusal_error(fry_refusal why);

/* The reason for a pool's status: `again` for FERRY_E_AGAIN, else no memory. */
static inline fry_refusal fry_refusal_of_want(ferry_status status, fry_refusal again)
{
    return status == FERRY_E_AGAIN ? again : FRY_REFUSED_NO_MEMORY;
}

/* ---- futures that failed at submit ---- */

/* Sets up the engine's static futures, before any other call of the engine. */
void fry_refusal_init(ferry_engine *engine);

/* Logs the reason, and returns it. */
fry_refusal fry_refuse(ferry_engine *engine, fry_refusal why);

/* A reference, for the caller, to the static future of a reason; engine may be NULL. */
ferry_future *fry_refusal_future(ferry_engine *engine, fry_refusal why);

/* The reason of a static future. */
fry_refusal fry_refusal_of(const ferry_future *future);

#endif
