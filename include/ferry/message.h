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
 * Sends a span to a member, which receives it into one of the same size. The k-th send to a member
 * with a tag meets that member's k-th receive from this one with that tag, in the order in which
 * either program submitted them, whatever order they become ready in, and whichever is first. Both
 * are operations like any other: they start when what they depend on allows, `after`, deadlines,
 * labels, priorities, accesses and poison mean the same, and what op.h says of all operations
 * holds.
 *
 * - group: joined; of the same engine as the span.
 * - peer: a rank; the own one too, a member may send to itself.
 * - span: of a host device of the engine's, also page-locked memory. Zero bytes is a message too,
 * of whatever buffer or of none.
 *
 * A send resolves when its receive was there and has the bytes; `quiet` when nobody touches the
 * memory any more: usually the same moment. After a cancel or deadline of a receive, nothing is
 * written once it is quiet; that may be as late as what was under way has ended, or the lane was
 * taken down.
 *
 * Adds to what op.h names:
 * - FERRY_E_UNSUPPORTED at once, for a span of a device that is no host's; later, if UCX is
 * missing;
 * - FERRY_E_NOT_FOUND: no such rank;
 * - FERRY_E_AGAIN: also past unexpected_max of the group's options;
 * - FERRY_E_LENGTH, at both ends: their spans differ in size;
 * - FERRY_E_PEER: the lane failed, or could not be had;
 * - FERRY_E_DEAD: the member died or left, or shut its engine down; without a rank, this one has;
 * - FERRY_E_FENCED: this member lost its place;
 * - FERRY_E_DEPENDENCY: also if the other end's operation failed or was cancelled before it began;
 *   the cause names that, with its rank and op.
 */
FERRY_API ferry_future *ferry_send(ferry_group *group, ferry_peer peer, ferry_tag tag,
                                   ferry_span span, const ferry_op_options *options);

/* Receives: all that stands above. What a failed receive would have written is poisoned. */
FERRY_API ferry_future *ferry_recv(ferry_group *group, ferry_peer peer, ferry_tag tag,
                                   ferry_span span, const ferry_op_options *options);

#ifdef __cplusplus
}
#endif
#endif
