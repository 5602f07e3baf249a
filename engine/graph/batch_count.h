/* SPDX-License-Identifier: Apache-2.0 */
/* How a batch's own node counts its operations, which report their ends here. With the baton. */
#ifndef FRY_ENGINE_GRAPH_BATCH_COUNT_H
#define FRY_ENGINE_GRAPH_BATCH_COUNT_H

#include "engine/graph/turn.h"

/*
 * A member of a batch has resolved, and may be under way; if so, _quiet is called when it is quiet.
 */
void fry_batch_member_ended(fry_turn *turn, fry_node *member, bool is_under_way);
void fry_batch_member_quiet(fry_turn *turn, fry_node *member);

/*
 * The batch has entered, and its notices before it: the first of these starts once all operations
 * ahead of it have ended well, and fails once one has failed.
 */
void fry_batch_look_at_notice(fry_turn *turn, fry_node *batch);

/* A member has failed, or will never be quiet: the batch fails too, with this cause. */
void fry_batch_note_failure(fry_turn *turn, fry_node *batch, fry_error *root);

/*
 * Whether a failure of the batch is only kept, because it has yet to enter or its operations are
 * being cancelled first. Then the batch must not be put into the failing queue.
 */
bool fry_batch_fails_later(const fry_node *batch);

#endif
