/* SPDX-License-Identifier: Apache-2.0 */
/* What those that move a message's bytes say of it. With the baton. */
#ifndef FRY_ENGINE_MESSAGES_TRANSFER_H
#define FRY_ENGINE_MESSAGES_TRANSFER_H

#include "base/fault.h"
#include "engine/graph/turn.h"
#include "engine/ground/refusal.h"

typedef struct fry_transfer fry_transfer;

/* On the loop: fails a message's node, unless it is over, with words of this end's. */
void fry_transfer_fail(fry_turn *turn, fry_transfer *transfer, const fry_fault *fault);

/* The message goes to nobody, and the loop fails its node for that reason. */
void fry_transfer_refuse(fry_turn *turn, fry_transfer *transfer, fry_refusal why);

/*
 * One of transfer->copies is over: the peer may be done with the message, or with its memory, and
 * wait for the last of them.
 */
void fry_transfer_copies_are_over(fry_turn *turn, fry_transfer *transfer);

#endif
