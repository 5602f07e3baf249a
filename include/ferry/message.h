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
 * receive stands on the device from then on, as above. It resolves with FERRY_OK when its GPU is
 * done and the sender has said that it had not given up until then; so the sender's engine has to
 * make progress. If it fails, what streams have read behind it may be wrong.
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

/*
 * Receives a message: see ferry_send. If a receive fails, its span is poisoned. With FERRY_RANK_ANY
 * or FERRY_TAG_ANY, see "Any source" below.
 */
FERRY_API ferry_future *ferry_recv(ferry_group *group, ferry_rank peer, ferry_tag tag,
                                   ferry_span span, const ferry_op_options *options);

/*
 * Any source. If any_source_max of this member's group options is not 0, all its receives in that
 * group work as follows. Sends, and the other members, know nothing of it.
 *
 * - Who: `peer` may be FERRY_RANK_ANY, `tag` may be FERRY_TAG_ANY. A message suits a receive that
 *   names its member and tag, or leaves them open. A send with FERRY_TAG_ANY is refused.
 * - Which: a receive takes, of the messages that have come, suit it and have no receive, the one
 *   that came first. If there is none it waits, and a message that comes goes to the receive that
 *   was submitted first of all that it suits. So messages of one member with one tag are received
 *   in the order of its sends. Between two members or two tags the order is that of coming; a
 *   member's messages leave when they are ready, so it may differ from the order of its sends.
 * - The price of this order: a send that is not ready yet holds up the messages of its member and
 *   tag behind it. (Otherwise it only holds up its own receive.)
 * - Size: a receive may be larger than its message; the rest of its span keeps its bytes. If the
 *   message is larger, both ends fail with FERRY_E_LENGTH. ferry_message_describe says whose the
 *   message was, with which tag and how large.
 * - Failures: a receive that fails or is cancelled before it has a message takes none: the message
 *   stays, and goes to another receive. If a send fails before its message is taken, the receive
 *   that takes it fails with FERRY_E_DEPENDENCY.
 * - Deaths: a receive of a certain member fails with that member's connection. One of any member
 *   waits on, and fails with FERRY_E_DEAD when no other member is left in the group, though this
 *   member could still send to itself; in a group of one member, and in an open one, where others
 *   may come, it waits. Messages of a member that came and were not received when it died are lost.
 * - Bounds: any_source_max receives that leave something open, and probes, may wait; past it they
 *   fail with FERRY_E_AGAIN. Messages that wait for a receive are bounded for each member by
 *   unexpected_max and window_bytes, as always. If as many of a sender's messages as this member's
 *   unexpected_max have come, and all of them wait behind sends that are not ready, the last of
 *   them fails with FERRY_E_DEPENDENCY, cause FERRY_E_AGAIN: possible only if the sender's
 *   unexpected_max is larger. A receive that leaves something open looks at the waiting messages
 *   one by one, a message at the waiting receives and probes.
 * - GPUs: a receive into GPU memory is issued when it is over, so nothing is queued behind it on
 *   the GPU, and ferry_future_stream_wait answers FERRY_E_UNSUPPORTED before that.
 *
 * Without the option FERRY_RANK_ANY and probes are refused with FERRY_E_INVALID, and FERRY_TAG_ANY
 * is a tag like any other.
 */

/* A message, as its receiver knows it. Later versions may add fields at the end. */
typedef struct ferry_message_info {
    size_t struct_size; /* sizeof(ferry_message_info), set by the caller */
    ferry_rank rank;    /* of the other end: who sent it, or to whom it was sent */
    uint32_t reserved;  /* zero */
    ferry_tag tag;
    size_t size_bytes; /* of the message, also if it was too large for its receive */
} ferry_message_info;

#define FERRY_MESSAGE_INFO_INIT FERRY_SIZED_INIT(ferry_message_info)

/*
 * Finds a message that waits for a receive. The probe is an operation: it starts when its
 * dependencies allow, and resolves when there is a message that suits it: if one has come already,
 * normally within the call, so ferry_future_poll is enough to look without waiting. Otherwise it
 * waits for the next that comes and that no earlier receive takes. ferry_message_describe says what
 * it has found. The message stays: the first receive that it suits takes it, also one of another
 * thread; and probes find it again and again until then. A receive with the rank, tag and size that
 * were found receives it, unless another receive was quicker.
 *
 * - group: joined, with any_source_max in its options.
 * - peer, tag: as for a receive.
 *
 * If the message's send has failed, the probe finds it all the same, perhaps with size_bytes 0, and
 * the receive fails. Otherwise a probe fails like a receive. Op.h's rules for all operations hold,
 * and nothing is left behind by a cancel or a deadline.
 *
 * Statuses, in addition to those in op.h: FERRY_E_INVALID, if the group has no any_source_max;
 * FERRY_E_AGAIN past it; FERRY_E_NOT_FOUND, FERRY_E_PEER, FERRY_E_DEAD, FERRY_E_FENCED as for
 * receives.
 */
FERRY_API ferry_future *ferry_message_probe(ferry_group *group, ferry_rank peer, ferry_tag tag,
                                            const ferry_op_options *options);

/*
 * Describes the message of a probe, a receive or a send, or the notice of ferry_notice_next, whose
 * tag is 0.
 *  info  filled in up to its struct_size, which the caller has set
 * Any thread, any context. Returns FERRY_OK, also for a receive with any_source_max that has failed
 * after a message was there for it; FERRY_E_NOT_FOUND for any other future that has not resolved
 * FERRY_OK, and for futures of other operations; FERRY_E_INVALID for a NULL or an invalid
 * struct_size.
 */
FERRY_API ferry_status ferry_message_describe(const ferry_future *future, ferry_message_info *info);

#ifdef __cplusplus
}
#endif
#endif
