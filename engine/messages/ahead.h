/* SPDX-License-Identifier: Apache-2.0 */
/* Reading ahead: a send's first bytes are copied behind what the send waits for. With the baton. */
#ifndef FRY_ENGINE_MESSAGES_AHEAD_H
#define FRY_ENGINE_MESSAGES_AHEAD_H

#include "engine/messages/chunk.h"
#include "engine/messages/message.h"
#include "engine/messages/stage.h"

/* The send has entered, and something holds it: begins, if its device can wait for all of that. */
void fry_ahead_begin(fry_turn *turn, fry_node *node);

/* The copy that was begun is over, well or not. The chunk is the piece's that has it, if any. */
void fry_ahead_copied(fry_stages *stages, fry_stage *stage);

/* The chunk with all that the piece has, or will have; NULL: there is none. It is the piece's. */
fry_stage *fry_ahead_take(fry_turn *turn, fry_transfer *transfer, const fry_slice *slice);

/* The same for a small send that starts. */
fry_stage *fry_ahead_take_small(fry_transfer *transfer);

/* The send has failed. */
void fry_ahead_cancel(fry_turn *turn, fry_transfer *transfer);

/* The message is over. */
void fry_ahead_drop(fry_turn *turn, fry_transfer *transfer);

#endif
