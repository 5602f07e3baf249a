/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion queues: records of operations that have resolved, for programs that start many and
 * look at their ends many at a time. An operation names its queue in its options
 * (ferry_op_options.queue).
 */
#ifndef FERRY_QUEUE_H
#define FERRY_QUEUE_H

#include <ferry/export.h>
#include <ferry/op.h>
#include <ferry/status.h>
#include <ferry/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What became of an operation. Later versions may add fields at the end. */
typedef struct ferry_queue_record {
    uint64_t user_data;  /* ferry_op_options.user_data */
    uint64_t op;         /* ferry_future_id of its future */
    uint64_t size_bytes; /* that it has moved; 0 if it failed */
    ferry_status status; /* of its future, which has resolved */
    ferry_op_kind kind;
} ferry_queue_record;

/*
 * Makes a queue for operations of the engine. Each operation that names the queue and is not
 * refused makes one record, when it resolves, in whatever loop mode. Room for the record is kept
 * from its submit on, so no record is ever lost: an operation for which there is no room is refused
 * with FERRY_E_AGAIN. It becomes room when records are taken.
 *  depth    operations that are under way and records that were not taken, together; 1 to 2^22. The
 *           queue takes 32 bytes for each, rounded up to a power of two, at once
 *  queue_p  receives the queue, which the caller ends with ferry_queue_release. Set only on success
 *  fd_p     NULL, or receives a descriptor for epoll or poll: ferry_queue_arm. It belongs to the
 *           queue; the caller must not read, write or close it
 * Any thread. Returns FERRY_OK; FERRY_E_INVALID for a NULL or a depth out of bounds;
 * FERRY_E_NO_MEMORY; FERRY_E_SYSTEM if there is no descriptor; FERRY_E_SHUTDOWN; FERRY_E_FORKED.
 */
FERRY_API ferry_status ferry_queue_create(ferry_engine *engine, size_t depth, ferry_queue **queue_p,
                                          int *fd_p);

/*
 * Takes records, the oldest first: in the order in which the operations resolved. A thread that has
 * taken a record of FERRY_OK sees what the operation wrote.
 *  records            receives at most count records
 *  record_size_bytes  sizeof(ferry_queue_record) in the caller's version
 * Any thread, any context, also after the shutdown and the engine's release. Takes a mutex that
 * only takers of this queue hold. Returns how many it took; 0 if there are none, for NULL, for an
 * invalid record_size_bytes and in a fork's child.
 */
FERRY_API size_t ferry_queue_take(ferry_queue *queue, ferry_queue_record *records,
                                  size_t record_size_bytes, size_t count);

/*
 * Declares that the calling thread is about to sleep on the queue's descriptor. Any thread.
 * However many records come after that, the descriptor is written once, and stays readable until
 * the next arm. If several threads arm, the first record wakes all who sleep; who is told
 * FERRY_E_BUSY meanwhile takes the records, and the others may sleep on. Returns
 *  - FERRY_OK: there are no records; the descriptor becomes readable when there are.
 *  - FERRY_E_BUSY: there are records; take them first.
 *  - FERRY_E_INVALID for NULL and for a queue without a descriptor; FERRY_E_FORKED.
 */
FERRY_API ferry_status ferry_queue_arm(ferry_queue *queue);

/* The queue's engine; NULL for NULL. Any thread, any context. */
FERRY_API ferry_engine *ferry_queue_engine(const ferry_queue *queue);

/*
 * Releases the queue and its descriptor; NULL is allowed. Operations that name it go on, and make
 * no record. No other call with this queue may be under way or follow, nor may an operation be
 * submitted that names it. Does nothing in a fork's child.
 */
FERRY_API void ferry_queue_release(ferry_queue *queue);

#ifdef __cplusplus
}
#endif
#endif
