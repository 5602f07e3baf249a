/* SPDX-License-Identifier: Apache-2.0 */
/* A batch's own node, and its operations as far as they have to do with it. With the baton. */
#ifndef FRY_ENGINE_BATCH_NODE_H
#define FRY_ENGINE_BATCH_NODE_H

#include "engine/turn.h"

/* The batch that counts the node; NULL: none, or it has not entered yet. */
fry_node *fry_batch_of(const fry_node *node);

/* A node that is in_batch has been resolved, and perhaps is still under way; then it was quiet. */
void fry_batch_member_ended(fry_turn *turn, fry_node *member, bool is_under_way);
void fry_batch_member_quiet(fry_turn *turn, fry_node *member);

/* One of its operations has failed, or will not be quiet: so does the batch, with this as cause. */
void fry_batch_note_failure(fry_turn *turn, fry_node *batch, fry_error *root);

/* What fails it is kept: it has yet to enter, or its operations are being cancelled first. It must
 * not stand in the failing queue then. */
bool fry_batch_fails_later(const fry_node *batch);

/* One that is counted by an edge had failed and was under way as the batch entered. */
void fry_batch_counts_late(fry_node *batch, fry_node *member);

/* The batch's node enters, behind all its operations. */
void fry_batch_enter(fry_node *batch);

/* All of it is in: a cancel that came before begins. */
void fry_batch_entered(fry_turn *turn, fry_node *batch);

/* On the loop: its operations are to be cancelled, and then itself. */
void fry_batch_cancel(fry_turn *turn, fry_node *batch);

/* On the loop: goes on cancelling, for less than a millisecond. Returns how much was done. */
size_t fry_batches_cancel(fry_turn *turn);

#endif
