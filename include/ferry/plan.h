/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans: many operations that are checked and ordered once, and posted many times, each time as one
 * operation. For programs that move thousands of blocks at a time, or repeat the same step.
 */
#ifndef FERRY_PLAN_H
#define FERRY_PLAN_H

#include <ferry/device.h>
#include <ferry/engine.h>
#include <ferry/future.h>
#include <ferry/op.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FERRY_PLAN_OPS_MAX (1u << 20)

/*
 * Makes a plan of the operations of an array: copies, sends, receives, gets, puts, functions
 * (FERRY_OP_CALL, _ASYNC), nops and notices (FERRY_OP_NOTICE). Nothing starts before the plan is
 * posted (ferry_plan_post).
 *
 * Order. In a post, operations are ordered by the spans they touch, as if they were submitted one
 * after the other in the order of the array; they run at the same time where that allows it. A
 * notice starts when all operations before it in the array have ended well. Sends and receives of
 * the same member and tag start in the order of the array. Neighbours in the array whose bytes
 * touch at both ends (copies, gets and puts) are moved as one in a post of the whole plan.
 *
 *  ops            borrowed during the call. What they name belongs to the caller, and must not be
 *                 released while a post may still use it, except for buffers and groups, which
 *                 the plan keeps. A window is closed by its release, also if a plan names it: a
 *                 post that uses it fails then, with FERRY_E_NOT_FOUND as the cause. The bytes of
 *                 a notice and labels with FERRY_OP_LABEL_COPIED are copied. Of an operation's
 *                 options the label, flags, priority and accesses count; the others must be zero,
 *                 since they belong to a post
 *  op_size_bytes  sizeof(ferry_op) in the caller's version, as in ferry_batch
 *  count          at most FERRY_PLAN_OPS_MAX. 0: a plan whose posts do nothing
 *  plan_p         receives the plan, which the caller ends with ferry_plan_release. Set only on
 *                 success
 *  error_p        NULL, or receives an error that names the operation that was refused, and why;
 *                 the caller releases it with ferry_error_release. Set only on failure
 * Any thread. Takes time and memory in proportion to count. Returns FERRY_OK; FERRY_E_INVALID for a
 * NULL, a count or size out of its bounds, options that belong to a post, a receive with any source
 * (FERRY_RANK_ANY, or of a group with any_source_max), spans that overlap in too many ways
 * (2^24 overlaps of parts), or an operation that its own function would refuse; the status of that;
 * FERRY_E_NO_MEMORY; FERRY_E_SHUTDOWN; FERRY_E_FORKED.
 */
FERRY_API ferry_status ferry_plan_create(ferry_engine *engine, const ferry_op *ops,
                                         size_t op_size_bytes, size_t count, ferry_plan **plan_p,
                                         ferry_error **error_p);

/*
 * Submits the plan's operations, or some of them, as one operation. It waits for all that the
 * operations touch, as one access of all their spans, and holds these until all of them are quiet.
 * So posts of one plan, and posts and other operations, are ordered by what they touch, as always;
 * with FERRY_OP_UNTRACKED in the options' flags they are not. An operation of the plan whose own
 * flags have FERRY_OP_UNTRACKED is ordered neither within the post nor outside it.
 *  picks       NULL: all operations. Otherwise pick_count indices of the array, in any order; none
 *              twice. Borrowed during the call. What a picked operation reads must not be poisoned
 *              before the post, even if another picked operation writes it first
 *  pick_count  0 if picks is NULL. With picks, 0 is a post that does nothing
 *  options     of the post; NULL: none. Its label is that of operations that have none
 * Returns one reference, never NULL, to a future that resolves with FERRY_OK when all have ended
 * well. As soon as one fails, the post fails with FERRY_E_DEPENDENCY and that failure's first error
 * as cause; then operations that have not begun never do, and those that have are cancelled. A
 * cancel and a deadline do the same. The post is quiet when all its operations are, and after it
 * has failed all bytes that it was to write are poisoned. Sends and receives take their place among
 * other messages of the same member and tag when the post starts, not when it is submitted.
 *
 * On a GPU. If all operations are copies by streams of one GPU (between its memory and page-locked
 * host memory, within it, or to a GPU that it reaches), of one priority, then a post of all is one
 * command to the driver: a CUDA graph, which is made with the plan (ferry_plan_info.graph_count).
 * Such a post stands in a stream like a copy: it waits on the GPU for what stands on GPUs, and
 * copies and the program's streams wait on the GPU for it (ferry_future_stream_wait). Once it is
 * issued a cancel does not stop it, and its own failures are those of a copy. A driver without
 * graphs, or one that refuses to make this one, gets the copies one by one, which the log says.
 * Posts with picks go one by one.
 *
 * A post allocates nothing once as many posts of the plan have been under way at a time. Its
 * operations count for the engine's limits while they are under way: at most 256 copies, gets and
 * puts at a time, and all other operations that can start.
 *
 * Any thread. The post fails at once with FERRY_E_INVALID (also for picks out of range or repeated,
 * or if all spans together are more than an eighth of max_accesses or a quarter of max_edges) and
 * the other reasons of op.h. It fails later like any operation, and with
 * FERRY_E_DEPENDENCY as said above.
 */
FERRY_API ferry_future *ferry_plan_post(ferry_plan *plan, const uint32_t *picks, size_t pick_count,
                                        const ferry_op_options *options);

/*
 * Puts the plan's copies on a stream of the program's: behind what is on it, and in the plan's
 * order. That is one command to the driver; while the stream is being captured, the copies become
 * nodes of the program's graph instead. For programs that order work by their streams: it is no
 * operation of the engine, which neither waits for what else touches these spans nor notes it. The
 * program makes the stream wait for what the plan's copies need (ferry_future_stream_wait), and
 * says afterwards that the spans have changed (ferry_event_record, ferry_buffer_define).
 *  plan           its graph_count is not 0. The program keeps it, and the memory of its buffers,
 *                 until the stream has done the copies; what was captured, as long as it is used
 *  device         the plan's GPU
 *  native_stream  of the device's context; NULL: its legacy default stream. Borrowed
 *  error_p        NULL, or receives an error that says why; the caller releases it
 * Any thread; calls for one plan wait for each other. Returns FERRY_OK; FERRY_E_INVALID for a NULL,
 * another device, or a stream of another one; FERRY_E_UNSUPPORTED if graph_count is 0;
 * FERRY_E_CAPTURE if the stream's capture is invalid, or the driver allows no copy in it;
 * FERRY_E_NO_MEMORY; FERRY_E_DEVICE; FERRY_E_SHUTDOWN; FERRY_E_FORKED.
 */
FERRY_API ferry_status ferry_plan_enqueue(ferry_plan *plan, ferry_device *device,
                                          void *native_stream, ferry_error **error_p);

/* What a plan came to. Initialise it with FERRY_PLAN_INFO_INIT. */
typedef struct ferry_plan_info {
    size_t struct_size;    /* sizeof(ferry_plan_info) */
    uint64_t op_count;     /* of the array */
    uint64_t part_count;   /* what a post of all moves and does, after neighbours were joined */
    uint64_t wait_count;   /* how often one of these waits for another */
    uint64_t access_count; /* spans that a post of all waits for and holds */
    uint64_t size_bytes;   /* that a post of all moves */
    uint64_t graph_count;  /* parts that a post of all begins at one command to a GPU; 0: each part
                              begins by itself */
} ferry_plan_info;

#define FERRY_PLAN_INFO_INIT FERRY_SIZED_INIT(ferry_plan_info)

/*
 * Describes a plan.
 *  info  filled in up to its struct_size, which the caller has set
 * Any thread, any context. Returns FERRY_OK; FERRY_E_INVALID for a NULL or an invalid struct_size.
 */
FERRY_API ferry_status ferry_plan_describe(const ferry_plan *plan, ferry_plan_info *info);

/*
 * Releases a plan; NULL is allowed. Its posts go on. No other call with this plan may be under way
 * or follow. Any thread, any context. Does nothing in a fork's child.
 */
FERRY_API void ferry_plan_release(ferry_plan *plan);

#ifdef __cplusplus
}
#endif
#endif
