/* SPDX-License-Identifier: Apache-2.0 */
/* Lots of a pairing: given to the module, standing on the GPU, over. With the baton. */
#ifndef FRY_ENGINE_MESSAGES_LAUNCH_H
#define FRY_ENGINE_MESSAGES_LAUNCH_H

#include "engine/graph/kind.h"
#include "engine/messages/pairing.h"

/* fry_peer_events. */
void fry_launch_hold(void *turn, fry_message *message);
void fry_launch_release(void *turn, fry_message *message);
void fry_launch_lot(void *turn, fry_peer *peer, const fry_joint_lot *lot);
void fry_launch_whole(void *turn, fry_peer *peer, uint32_t number);

/* On the module's threads: the engine has something to see. */
void fry_launch_wake(void *engine);

/* Takes the next steps of a pairing's lots. Returns how much was done. */
size_t fry_launches_go_on(fry_turn *turn, fry_pairing *pairing);

/* Whether the loop may not sleep before it has looked at them. */
bool fry_launches_have_news(const fry_pairing *pairing);

bool fry_launches_are_none(const fry_pairing *pairing);

/* Whether those that are left use no memory any more, once the pair has ended at both ends. */
bool fry_launches_are_over(const fry_pairing *pairing);

/* Whether one of them may use memory for ever: its GPU is lost. */
bool fry_launches_are_stuck(const fry_pairing *pairing);

/* The pairing ends: fails the messages of its lots, with its fault. */
void fry_launches_fail(fry_turn *turn, fry_pairing *pairing);

/* They are over. */
void fry_launches_drop(fry_turn *turn, fry_pairing *pairing);

extern const fry_op_kind fry_kind_lot;

#endif
