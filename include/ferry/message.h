/* SPDX-License-Identifier: Apache-2.0 */
/* Messages: operations that move bytes between members of a group. */
#ifndef FERRY_MESSAGE_H
#define FERRY_MESSAGE_H

#include <ferry/group.h>
#include <ferry/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Sends a span to a member, which receives it into a span of the same size. The k-th send to a
 * member with a tag meets that member's k-th receive from this member with the tag. k counts in the
 * order in which each program submits; it does not matter which end is submitted or ready first.
 * Both are operations: they start when their dependencies allow; `after`, deadlines, labels,
 * priorities, accesses and poison work as usual, and op.h's rules for all operations hold.
 *
 * - group: joined; of the same engine as the span.
 * - peer: a rank. A member may send to itself.
 * - span: on a host device of the engine, also page-locked memory, or on a CUDA device; the two
 *   ends need not be alike. A span of zero bytes, whatever its buffer, is a message too.
 *
 * GPU memory goes through page-locked chunks of the engine's (message_staging_bytes), in pieces of
 * up to 1 MiB: copied out, sent and copied in, several pieces at once, by the device's own streams.
 * Such a message costs a copy at each GPU end and, if it is larger than 8 KiB, a round trip between
 * the members: its bytes are read when its receive is ready. But the first piece of a send that
 * waits for work on its GPU alone is copied out behind that work, without the host. Messages that
 * find no chunk wait for one, in order; chunks always come back by themselves. A receive into GPU
 * memory is issued when its last bytes are on their way into the GPU: then copies that read the
 * span are queued behind it, and ferry_future_stream_wait makes the program's streams wait for it,
 * without the host.
 *
 * Between GPUs of two processes of one host there are no chunks, if the driver allows it, the
 * gpu_way of both members' group options does, and the sender's memory is an allocation of its own
 * (FERRY_MEMORY_PLAIN, or wrapped memory of cudaMalloc): the receiver opens it and copies the bytes
 * on its own stream. Memory that ferry allocated is freed, and the free_fn of wrapped memory is
 * called, only when the other process has closed it, or its connection is over. Memory that the
 * program frees by itself may still be open there, but nothing reads it once the send is quiet.
 * ferry_group_member says how many bytes went which way.
 *
 * Where both members' options name FERRY_GPU_WAY_NCCL, or between hosts FERRY_GPU_WAY_ALL, both
 * GPUs launch a message when it is ready at both ends, together with others: see ferry_gpu_way. A
 * receive stands on the device from then on, as above.
 *
 * A send resolves when its receive has the bytes. It is quiet when nobody touches its memory any
 * more, usually at the same moment. After a receive was cancelled or missed its deadline, ferry may
 * write its span until it is quiet. It becomes quiet when the transfer under way has ended or the
 * connection has been closed.
 *
 * Statuses, in addition to those in op.h:
 * - FERRY_E_UNSUPPORTED: at once, if the span is on a device without page-locked memory; later, if
 *   UCX is missing, or if the other member's ferry does not know messages of GPU memory.
 * - FERRY_E_NO_MEMORY: also if there is no page-locked memory for the chunks.
 * - FERRY_E_DEVICE: a GPU failed, or refused a copy of a piece; or another GPU of the engine was
 *   lost while all chunks were in copies of its own, and the message needs one.
 * - FERRY_E_NOT_FOUND: no such rank.
 * - FERRY_E_AGAIN: also past unexpected_max of the group's options.
 * - FERRY_E_LENGTH: the spans of the two ends differ in size. Both ends fail.
 * - FERRY_E_PEER: the connection failed, or could not be made.
 * - FERRY_E_DEAD: the other member died, left or shut its engine down; if the error has no rank,
 *   this member did.
 * - FERRY_E_FENCED: this member lost its place.
 * - FERRY_E_DEPENDENCY: also if the other end's operation failed or was cancelled before it began.
 *   The cause names that operation, with its rank and op.
 */
FERRY_API ferry_future *ferry_send(ferry_group *group, ferry_rank peer, ferry_tag tag,
                                   ferry_span span, const ferry_op_options *options);

/* Receives a message: see ferry_send. If a receive fails, its span is poisoned. */
FERRY_API ferry_future *ferry_recv(ferry_group *group, ferry_rank peer, ferry_tag tag,
                                   ferry_span span, const ferry_op_options *options);

#ifdef __cplusplus
}
#endif
#endif
