/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notices: small messages to a member that need no receive there. The member takes them one after
 * the other, from whomever they are.
 */
#ifndef FERRY_NOTICE_H
#define FERRY_NOTICE_H

#include <ferry/future.h>
#include <ferry/group.h>
#include <ferry/op.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FERRY_NOTICE_BYTES_MAX 4096

/*
 * Sends a notice to a member. It is an operation: it starts when its dependencies allow. So one
 * that names a put, a get, a batch or any other operation in its `after` tells that this has ended
 * well: the bytes of a put are there when its notice is taken. After a failure no notice is sent.
 * At the end of a batch, and in a plan, a notice (FERRY_OP_NOTICE) waits for all operations before
 * it there.
 *  group, peer  as for ferry_send; the member itself is allowed
 *  data         size_bytes bytes, at most FERRY_NOTICE_BYTES_MAX, which are copied in the call;
 *               NULL if there are none
 *
 * The future resolves with FERRY_OK when the other program has taken the notice
 * (ferry_notice_next), not before. Of one sender 256 notices may be with a receiver and not taken;
 * others wait at the sender, in order. So a program that takes none holds up notices to it, and
 * nothing else: who wants to know gives a deadline, and the error has the rank of who is slow.
 *
 * Notices of one sender are taken in the order in which they have started; without dependencies
 * that is the order of the calls. One that is cancelled, or late, before it has left is never
 * taken; one that has left may be taken all the same. What a member has not taken when its sender
 * dies or leaves, or the connection ends, is lost.
 *
 * Any thread. Statuses, in addition to those in op.h: FERRY_E_INVALID (size_bytes, or a NULL);
 * FERRY_E_NOT_FOUND, FERRY_E_AGAIN, FERRY_E_PEER, FERRY_E_DEAD, FERRY_E_FENCED as for ferry_send;
 * FERRY_E_UNSUPPORTED, if the other member's ferry does not know notices; FERRY_E_DEPENDENCY, if
 * the other member leaves before it has taken it.
 */
FERRY_API ferry_future *ferry_notice_send(ferry_group *group, ferry_rank peer, const void *data,
                                          size_t size_bytes, const ferry_op_options *options);

/*
 * Takes the next notice of any member. If there is none the future waits for one. Several that wait
 * get theirs in the order in which they have entered; members that have sent many get no more turns
 * than others.
 *  deadline_ns  as ferry_op_options.deadline_ns; 0: none
 * The future's value is the notice (ferry_future_value), and ferry_message_describe says whose it
 * is. A cancelled or late one has taken none.
 *
 * Any thread. Returns one reference, never NULL. Fails as ferry_nop, and with FERRY_E_DEAD or
 * FERRY_E_FENCED when this member's membership ends.
 */
FERRY_API ferry_future *ferry_notice_next(ferry_group *group, int64_t deadline_ns);

#ifdef __cplusplus
}
#endif
#endif
