/* SPDX-License-Identifier: Apache-2.0 */
/* A batch's own node counts its operations, and these say how they ended. With the baton. */
#ifndef FRY_ENGINE_BATCH_COUNT_H
#define FRY_ENGINE_BATCH_COUNT_H

#include "engine/turn.h"

/* A node that a batch counts has been resolved, and perhaps is still under way; then it was quiet.
 */
void fry_batch_member_ended(fry_turn *turn, fry_node *member, bool is_under_way);
void fry_batch_member_quiet(fry_turn *turn, fry_node *member);

/* One of its operations has failed, or will not be quiet: so does the batch, with this as cause. */
void fry_batch_note_failure(fry_turn *turn, fry_node *batch, fry_error *root);

/* What fails it is kept: it has yet to enter, or its operations are being cancelled first. It must
 * not stand in the failing queue then. */
bool fry_batch_fails_later(const fry_node *batch);

#endif
